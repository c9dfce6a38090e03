//! `/api/v1/session`: a browser shows an operator's API key once, and a cookie stands for it from then on.
//!
//! Place: before the routes. A request that brings the cookie of a session gets the session's key as its
//! `Authorization`, so that whoever is behind it asks [`Authority`] and knows of no cookies.
//!
//! Invariants: a cookie is random, and found by its hash, so that no comparison tells how near a guess was; it is `HttpOnly` and
//! `SameSite=Strict`; a request that changes something counts only if it says that it comes from this very origin. The key
//! is asked about anew at each request: what is revoked or expired ends its sessions. Sessions end after
//! [`SESSION_MAX`], and there are at most [`SESSIONS_MAX`].

use super::authority::{Authority, json_body, problem};
use super::no_store;
use crate::logging::{Level, Log};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use entitlement::api_keys::{new_api_key, sha256};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// How long a session lasts.
const SESSION_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// Sessions at one time; beyond that the oldest ends.
const SESSIONS_MAX: usize = 1_000;
/// Longest body, in bytes.
const BODY_BYTES_MAX: usize = 4 << 10;
/// Bytes of an API key, at most.
const API_KEY_BYTES_MAX: usize = 512;
/// The cookie's name.
const COOKIE: &str = "crore_operator";

struct Session {
    api_key: Zeroizing<String>,
    ends: Instant,
}

/// All sessions, by the hashes of their cookies.
#[derive(Default)]
pub struct Sessions(Mutex<BTreeMap<[u8; 32], Session>>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    api_key: String,
}

#[derive(Clone)]
struct Entrance {
    authority: Authority,
    sessions: Arc<Sessions>,
    log: Log,
}

/// The routes.
pub fn routes(authority: Authority, sessions: Arc<Sessions>, log: Log) -> Router {
    Router::new()
        .route("/api/v1/session", get(show).post(begin).delete(end))
        .with_state(Entrance {
            authority,
            sessions,
            log,
        })
}

/// Whether who asks may operate, and whether it has to show a key for that.
async fn show(State(entrance): State<Entrance>, headers: HeaderMap) -> Response {
    let authority = &entrance.authority;
    let body = json!({
        "needs_api_key": !authority.is_loopback,
        "may_operate": authority.check(&headers).is_ok(),
    });
    (no_store("application/json"), format!("{body}\n")).into_response()
}

async fn begin(State(entrance): State<Entrance>, headers: HeaderMap, body: Body) -> Response {
    let bytes = match json_body(&headers, body, (BODY_BYTES_MAX, "an API key")).await {
        Ok(bytes) => bytes,
        Err(refused) => return *refused,
    };
    // What serde has to say of it might show the key.
    let Ok(Asked { api_key }) = serde_json::from_slice(&bytes) else {
        let detail = "expected `{\"api_key\": \"...\"}`";
        return problem(StatusCode::BAD_REQUEST, "bad_request", detail);
    };
    let api_key = Zeroizing::new(api_key);
    let Some(shown) = bearer(&api_key) else {
        let detail = "an API key has 1 to 512 printable characters of ASCII";
        return problem(StatusCode::BAD_REQUEST, "bad_request", detail);
    };
    let mut as_header = HeaderMap::new();
    as_header.insert(header::AUTHORIZATION, shown);
    if let Err(refused) = entrance.authority.check(&as_header) {
        return *refused;
    }
    let Some(cookie) = entrance.sessions.begin(api_key) else {
        let detail = "no random bytes are to be had";
        return problem(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail);
    };
    let sentence = "An operator has logged in.";
    entrance.log.write(Level::Info, sentence, &[]);
    let age_s = SESSION_MAX.as_secs();
    let secure = if came_by_tls(&headers) {
        "; Secure"
    } else {
        ""
    };
    set_cookie(&format!(
        "{COOKIE}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age_s}{secure}",
        *cookie
    ))
}

async fn end(State(entrance): State<Entrance>, headers: HeaderMap) -> Response {
    if let Some(cookie) = cookie_of(&headers) {
        entrance.sessions.open().remove(&sha256(cookie.as_bytes()));
    }
    set_cookie(&format!(
        "{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"
    ))
}

/// Lets a session's key speak for the request.
pub async fn speak_for(
    State(sessions): State<Arc<Sessions>>,
    mut request: Request,
    next: Next,
) -> Response {
    let is_silent = !request.headers().contains_key(header::AUTHORIZATION);
    if is_silent
        && let Some(cookie) = cookie_of(request.headers())
        && comes_from_here(request.method(), request.headers())
        && let Some(shown) = sessions.authorization_of(cookie)
    {
        request.headers_mut().insert(header::AUTHORIZATION, shown);
    }
    next.run(request).await
}

impl Sessions {
    /// Begins a session; its cookie.
    fn begin(&self, api_key: Zeroizing<String>) -> Option<Zeroizing<String>> {
        let cookie = new_api_key()?;
        let mut sessions = self.open();
        let now = Instant::now();
        sessions.retain(|_, session| session.ends > now);
        if sessions.len() >= SESSIONS_MAX
            && let Some(oldest) = sessions
                .iter()
                .min_by_key(|(_, session)| session.ends)
                .map(|(hash, _)| *hash)
        {
            sessions.remove(&oldest);
        }
        let ends = now + SESSION_MAX;
        sessions.insert(sha256(cookie.as_bytes()), Session { api_key, ends });
        Some(cookie)
    }

    fn authorization_of(&self, cookie: &str) -> Option<HeaderValue> {
        let sessions = self.open();
        let session = sessions.get(&sha256(cookie.as_bytes()))?;
        (session.ends > Instant::now())
            .then(|| bearer(&session.api_key))
            .flatten()
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<[u8; 32], Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// None of what is no key by its looks.
fn bearer(api_key: &str) -> Option<HeaderValue> {
    let is_printable = api_key.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_printable || !(1..=API_KEY_BYTES_MAX).contains(&api_key.len()) {
        return None;
    }
    let text = Zeroizing::new(format!("Bearer {api_key}"));
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Reading is harmless: no other page sees the answer. Whatever else has to name this origin as its own.
fn comes_from_here(method: &Method, headers: &HeaderMap) -> bool {
    if matches!(*method, Method::GET | Method::HEAD) {
        return true;
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let (Some(origin), Some(host)) = (text(header::ORIGIN), text(header::HOST)) else {
        return false;
    };
    origin
        .split_once("://")
        .is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host))
}

/// A proxy before this port says that the browser came to it by TLS.
fn came_by_tls(headers: &HeaderMap) -> bool {
    let told = headers.get("x-forwarded-proto");
    told.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"https"))
}

fn cookie_of(headers: &HeaderMap) -> Option<&str> {
    let fields = headers.get_all(header::COOKIE).iter();
    fields
        .filter_map(|field| field.to_str().ok())
        .flat_map(|field| field.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(name, value)| (name == COOKIE).then_some(value))
}

fn set_cookie(cookie: &str) -> Response {
    match HeaderValue::from_str(cookie) {
        Ok(mut value) => {
            value.set_sensitive(true);
            let headers = [
                (header::SET_COOKIE, value),
                (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
            ];
            (StatusCode::NO_CONTENT, headers).into_response()
        }
        Err(_) => problem(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "the cookie cannot be written",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Zeroizing<String> {
        Zeroizing::new(text.into())
    }

    #[test]
    fn a_cookie_stands_for_its_key_until_the_session_ends() {
        let sessions = Sessions::default();
        let cookie = sessions.begin(key("crore_one")).unwrap();
        let other = sessions.begin(key("crore_two")).unwrap();
        assert_ne!(*cookie, *other);
        let shown = sessions.authorization_of(&cookie).unwrap();
        assert_eq!(shown.as_bytes(), b"Bearer crore_one");
        assert!(!format!("{shown:?}").contains("crore_one"));
        for stranger in ["", "x", &cookie[1..]] {
            assert!(sessions.authorization_of(stranger).is_none());
        }
        for session in sessions.open().values_mut() {
            session.ends = Instant::now();
        }
        assert!(sessions.authorization_of(&cookie).is_none());
    }

    #[test]
    fn there_are_so_many_sessions_and_no_more() {
        let sessions = Sessions::default();
        let first = sessions.begin(key("crore_one")).unwrap();
        for _ in 0..SESSIONS_MAX {
            sessions.begin(key("crore_one")).unwrap();
        }
        assert_eq!(sessions.open().len(), SESSIONS_MAX);
        assert!(sessions.authorization_of(&first).is_none());
    }

    #[test]
    fn only_this_origin_changes_anything() {
        let check = |method: Method, origin: Option<&str>, host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            comes_from_here(&method, &headers)
        };
        assert!(check(Method::GET, None, "a:1"));
        assert!(check(Method::POST, Some("http://a:1"), "a:1"));
        assert!(check(Method::DELETE, Some("https://A:1"), "a:1"));
        for origin in [
            None,
            Some("null"),
            Some("http://evil.example"),
            Some("http://a"),
        ] {
            assert!(!check(Method::POST, origin, "a:1"), "{origin:?}");
        }
    }

    #[test]
    fn the_cookie_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(
            header::COOKIE,
            "a=b; crore_operator=xyz; c=d".parse().unwrap(),
        );
        assert_eq!(cookie_of(&headers), Some("xyz"));
        let mut other = HeaderMap::new();
        other.append(header::COOKIE, "crore_operator2=xyz".parse().unwrap());
        assert_eq!(cookie_of(&other), None);
    }
}
