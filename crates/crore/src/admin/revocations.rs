//! `/api/v1/revocations`: lists, adds and cancels revocations.
//!
//! Invariant: each change is logged with the number of the revocation; the list has its details.

use super::authority::{json_body, now_s, problem};
use super::{NUMBER_MAX, answer};
use crate::cluster::Cluster;
use crate::cluster::entries::change_of;
use crate::logging::{Level, Log};
use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get};
use broker::entitlement::NEVER;
use entitlement::TokenAuthenticator;
use entitlement::revocations::{Revocation, Revoked};
use entitlement::revoking::{Change, RevokeError, Wanted};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum size of a body, in bytes.
const BODY_BYTES_MAX: usize = 16 << 10;
/// Maximum number of revocations of one answer.
const PAGE_LEN_MAX: usize = 1_000;

/// The objects of the routes.
#[derive(Clone)]
pub struct Revoking {
    /// The authenticator, which stores the revocations.
    pub authenticator: Arc<TokenAuthenticator>,
    /// The directory of their file.
    pub data_dir: Option<PathBuf>,
    /// Called after a change.
    pub changed: Arc<dyn Fn() + Send + Sync>,
    /// The other nodes, which must learn of a change; none without an engine.
    pub cluster: Option<Cluster>,
}

impl Revoking {
    /// Tells the other nodes of a change. False if the engine has not confirmed it in time.
    fn tell(&self, change: Change) -> bool {
        self.cluster.as_ref().is_none_or(|cluster| cluster.tell(change))
    }
}

#[derive(Clone)]
struct Shared {
    revoking: Revoking,
    log: Log,
}

/// A request to revoke tokens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    #[serde(default, deserialize_with = "given")]
    jti: Option<String>,
    #[serde(default, deserialize_with = "given")]
    sub: Option<String>,
    #[serde(default, deserialize_with = "given")]
    iss: Option<String>,
    #[serde(default, deserialize_with = "given")]
    kid: Option<String>,
    #[serde(default, deserialize_with = "given")]
    issued_before: Option<u32>,
    #[serde(default, deserialize_with = "given")]
    ends: Option<u32>,
}

/// A present member must have a value: `null` may come from a variable that was never set.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// The routes.
pub fn routes(revoking: Option<Revoking>, log: Log) -> Router {
    const ALL: &str = "/api/v1/revocations";
    const ONE: &str = "/api/v1/revocations/{id}";
    match revoking {
        Some(revoking) => Router::new()
            .route(ALL, get(list).post(add))
            .route(ONE, delete(take_back))
            .with_state(Shared { revoking, log }),
        None => Router::new().route(ALL, get(nothing).post(nothing)).route(ONE, delete(nothing)),
    }
}

async fn nothing() -> Response {
    let detail = "this node accepts no tokens (entitlement.mode), so there is nothing to revoke";
    problem(StatusCode::NOT_FOUND, "not_found", detail)
}

async fn list(State(shared): State<Shared>, RawQuery(query): RawQuery) -> Response {
    let Some((after, len_max)) = page_of(query.as_deref().unwrap_or_default()) else {
        let detail = "`after` must be the number of a revocation, `limit` a number from 1 to 1000";
        return problem(StatusCode::BAD_REQUEST, "bad_request", detail);
    };
    let page = shared.revoking.authenticator.revocations_after(after, len_max);
    let next = if page.len() == len_max {
        page.last().map_or(Value::Null, |last| last.id.into())
    } else {
        Value::Null
    };
    let revocations: Vec<Value> = page.iter().map(shown).collect();
    answer(StatusCode::OK, &json!({"revocations": revocations, "next": next}))
}

async fn add(State(shared): State<Shared>, headers: HeaderMap, body: Body) -> Response {
    let limit = (BODY_BYTES_MAX, "a revocation");
    let bytes = match json_body(&headers, body, limit).await {
        Ok(bytes) => bytes,
        Err(refused) => return *refused,
    };
    let wanted = match wanted(&bytes, now_s()) {
        Ok(wanted) => wanted,
        Err(detail) => return problem(StatusCode::BAD_REQUEST, "bad_request", &detail),
    };
    let revoking = shared.revoking;
    let work = move || {
        let data_dir = revoking.data_dir.as_deref();
        let revocation = revoking.authenticator.revoke(data_dir, wanted, now_s())?;
        (revoking.changed)();
        let is_told = revoking.tell(change_of(&revocation));
        Ok((revocation, is_told))
    };
    match blocking(work).await {
        Ok((revocation, is_told)) => {
            let id = revocation.id.to_string();
            let sentence = "An operator has revoked tokens.";
            shared.log.write(Level::Info, sentence, &[("revocation", &id)]);
            if is_told { answer(StatusCode::CREATED, &shown(&revocation)) } else { not_told() }
        }
        Err(error) => refused(&error),
    }
}

async fn take_back(State(shared): State<Shared>, id: Result<Path<u64>, PathRejection>) -> Response {
    let revoking = shared.revoking;
    // An invalid number is treated as unknown.
    let id = id.map_or(0, |Path(id)| id);
    let work = move || {
        let known = revoking.authenticator.revocation(id);
        let is_known = revoking.authenticator.take_back(revoking.data_dir.as_deref(), id)?;
        let cancelled = known.filter(|_| is_known);
        Ok(cancelled.map(|known| revoking.tell(Change::Cancelled(known.revoked))))
    };
    match blocking(work).await {
        Ok(Some(is_told)) => {
            let id = id.to_string();
            let sentence = "An operator has cancelled a revocation.";
            shared.log.write(Level::Info, sentence, &[("revocation", &id)]);
            if is_told { StatusCode::NO_CONTENT.into_response() } else { not_told() }
        }
        Ok(None) => {
            let detail = "there is no revocation with this number";
            problem(StatusCode::NOT_FOUND, "not_found", detail)
        }
        Err(error) => refused(&error),
    }
}

/// Runs on another thread, because the disk may be slow.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RevokeError> + Send + 'static,
) -> Result<T, RevokeError> {
    let failed = |_| RevokeError::File(std::io::Error::other("the task was cancelled"));
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(failed)?
}

fn wanted(bytes: &[u8], now_s: u64) -> Result<Wanted, String> {
    let asked: Asked =
        serde_json::from_slice(bytes).map_err(|error| format!("invalid body: {error}"))?;
    let Asked { jti, sub, iss, kid, .. } = asked;
    let revoked = match (jti, sub, iss, kid, asked.issued_before) {
        (Some(jti), None, None, None, None) => Revoked::Token(jti.into()),
        (None, Some(sub), iss, None, _) => {
            Revoked::Subject { issuer: iss.map(Into::into), subject: sub.into() }
        }
        (None, None, None, Some(kid), None) => Revoked::Key(kid.into()),
        (None, None, None, None, Some(_)) => Revoked::All,
        _ => {
            let expected = "`jti` alone; or `sub`, optionally with `iss` and `issued_before`; or `kid` alone for all tokens of a key; or `issued_before` alone for all tokens";
            return Err(format!("expected {expected}"));
        }
    };
    if asked.ends.is_some_and(|ends| u64::from(ends) <= now_s) {
        return Err("`ends` is in the past".into());
    }
    Ok(Wanted { revoked, issued_before_s: asked.issued_before, ends_s: asked.ends })
}

/// Start and length of a page.
fn page_of(query: &str) -> Option<(u64, usize)> {
    let (mut after, mut len_max) = (0, PAGE_LEN_MAX);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=')? {
            ("after", text) => after = text.parse().ok().filter(|id| *id <= NUMBER_MAX)?,
            ("limit", text) => len_max = text.parse().ok()?,
            _ => return None,
        }
    }
    (1..=PAGE_LEN_MAX).contains(&len_max).then_some((after, len_max))
}

fn shown(revocation: &Revocation) -> Value {
    let mut value = json!({"id": revocation.id});
    match &revocation.revoked {
        Revoked::Token(jti) => value["jti"] = json!(jti),
        Revoked::Subject { issuer, subject } => {
            value["sub"] = json!(subject);
            if let Some(issuer) = issuer {
                value["iss"] = json!(issuer);
            }
        }
        Revoked::Key(name) => value["kid"] = json!(name),
        Revoked::All => {}
    }
    if revocation.revoked.has_moment() {
        value["issued_before"] = json!(revocation.issued_before_s);
    }
    if revocation.ends_s != NEVER {
        value["ends"] = json!(revocation.ends_s);
    }
    value
}

/// The change is in force here, and the other nodes may not know of it yet.
fn not_told() -> Response {
    let detail = "the change is in force at this node; the engine has not confirmed it, so other nodes may not know of it yet, and this node keeps telling them";
    problem(StatusCode::SERVICE_UNAVAILABLE, "not_told", detail)
}

fn refused(error: &RevokeError) -> Response {
    let (status, code) = match error {
        RevokeError::BadName => (StatusCode::BAD_REQUEST, "bad_request"),
        RevokeError::Full => (StatusCode::INSUFFICIENT_STORAGE, "revocations_full"),
        RevokeError::File(_) => (StatusCode::INTERNAL_SERVER_ERROR, "not_kept"),
    };
    problem(status, code, &error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies() {
        for good in [
            r#"{"jti":"a"}"#,
            r#"{"sub":"anna"}"#,
            r#"{"sub":"anna","issued_before":5,"ends":2000}"#,
            r#"{"sub":"anna","iss":"https://id.example"}"#,
            r#"{"kid":"2026-01"}"#,
            r#"{"kid":"2026-01","ends":2000}"#,
            r#"{"issued_before":5}"#,
        ] {
            assert!(wanted(good.as_bytes(), 1_000).is_ok(), "{good}");
        }
        for bad in [
            "",
            "[]",
            // Nothing said must not mean everything.
            "{}",
            r#"{"ends":2000}"#,
            r#"{"jti":"a","sub":"b"}"#,
            r#"{"jti":"a","issued_before":5}"#,
            // A holder of the key can write any time of issue into a token.
            r#"{"kid":"a","issued_before":5}"#,
            r#"{"kid":"a","sub":"b"}"#,
            r#"{"jti":"a","iss":"b"}"#,
            r#"{"iss":"a"}"#,
            r#"{"iss":"a","issued_before":5}"#,
            r#"{"kid":null}"#,
            r#"{"jti":"a","until":5}"#,
            r#"{"jti":"a","ends":1000}"#,
            r#"{"issued_before":-5}"#,
            r#"{"jti":null,"sub":"a"}"#,
            r#"{"sub":"a","issued_before":null}"#,
        ] {
            assert!(wanted(bad.as_bytes(), 1_000).is_err(), "{bad}");
        }
    }

    #[test]
    fn pages() {
        assert_eq!(page_of(""), Some((0, PAGE_LEN_MAX)));
        assert_eq!(page_of("after=7&limit=2"), Some((7, 2)));
        for bad in ["limit=0", "limit=1001", "after=x", "after=9007199254740992", "page=1", "after"]
        {
            assert_eq!(page_of(bad), None, "{bad}");
        }
    }
}
