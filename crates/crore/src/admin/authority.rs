//! Who may change things at the operators' port, and how refusals are written.
//!
//! Invariants: on loopback whoever is on this machine may; elsewhere only an API key with `operate = true`. A request that
//! changes something is JSON by its media type, so that no page of a browser can send it without asking first (and nothing
//! here answers that question). Refusals are problems (RFC 9457).

use super::no_store;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use entitlement::TokenJudge;
use serde_json::Value;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Who may change things at one address.
#[derive(Clone)]
pub struct Authority {
    /// The address is loopback.
    pub is_loopback: bool,
    /// Knows API keys.
    pub judge: Option<Arc<TokenJudge>>,
}

impl Authority {
    /// Whether the request may go on.
    ///
    /// # Errors
    /// The answer otherwise.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Box<Response>> {
        if self.is_loopback {
            return Ok(());
        }
        let shown = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        let may_operate = |judge: &Arc<TokenJudge>| {
            shown.is_some_and(|api_key| judge.may_operate(api_key, now_s()))
        };
        if self.judge.as_ref().is_some_and(may_operate) {
            return Ok(());
        }
        let detail = "an API key with operate = true is required (Authorization: Bearer ...)";
        let mut answer = problem(StatusCode::UNAUTHORIZED, "unauthorized", detail);
        let challenge = header::HeaderValue::from_static("Bearer");
        answer
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, challenge);
        Err(Box::new(answer))
    }

    /// The same of a request with a body: [`json_body`].
    ///
    /// # Errors
    /// The answer otherwise.
    pub async fn check_body(
        &self,
        headers: &HeaderMap,
        body: Body,
        limit: (usize, &str),
    ) -> Result<Bytes, Box<Response>> {
        self.check(headers)?;
        json_body(headers, body, limit).await
    }
}

/// Whether a request says that its body is JSON.
///
/// # Errors
/// The answer otherwise.
pub fn check_json(headers: &HeaderMap) -> Result<(), Box<Response>> {
    let media_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .map(|value| value.split(';').next().unwrap_or("").trim());
    match media_type {
        Some(name) if name.eq_ignore_ascii_case("application/json") => Ok(()),
        _ => Err(Box::new(problem(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "Content-Type: application/json is needed, also without a body",
        ))),
    }
}

/// The body of a request that is JSON, of at most so many bytes; `whose` says what needs no more.
///
/// # Errors
/// The answer otherwise.
pub async fn json_body(
    headers: &HeaderMap,
    body: Body,
    (bytes_max, whose): (usize, &str),
) -> Result<Bytes, Box<Response>> {
    check_json(headers)?;
    axum::body::to_bytes(body, bytes_max).await.map_err(|_| {
        let detail = format!("the body has more bytes than {whose}");
        Box::new(problem(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body_too_large",
            &detail,
        ))
    })
}

/// An error's answer.
pub fn problem(status: StatusCode, code: &str, detail: &str) -> Response {
    problem_with(status, code, detail, &[])
}

/// An error's answer with further members.
pub fn problem_with(
    status: StatusCode,
    code: &str,
    detail: &str,
    members: &[(&str, Value)],
) -> Response {
    let mut body = serde_json::json!({
        "type": "about:blank",
        "title": status.canonical_reason().unwrap_or_default(),
        "status": status.as_u16(),
        "detail": detail,
        "code": code,
    });
    for (name, value) in members {
        body[*name] = value.clone();
    }
    let headers = no_store("application/problem+json");
    (status, headers, format!("{body}\n")).into_response()
}

/// The wall clock, seconds since 1970.
pub fn now_s() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use broker::entitlement::{NEVER, Permissions};
    use entitlement::JudgeSettings;
    use entitlement::api_keys::{ApiKey, new_api_key, sha256};
    use entitlement::notices::Notices;
    use entitlement::revocations::Revocations;

    fn judge(secret: &str, operates: bool) -> Arc<TokenJudge> {
        let settings = JudgeSettings {
            api_keys: vec![ApiKey {
                name: "operator".into(),
                sha256: sha256(secret.as_bytes()),
                expires_s: NEVER,
                permissions: Permissions::default(),
                operates,
            }],
            ..JudgeSettings::default()
        };
        let (notices, _) = Notices::new();
        let revocations = Revocations::default();
        Arc::new(TokenJudge::new(settings, revocations, 0, None, notices))
    }

    #[test]
    fn elsewhere_than_on_loopback_a_key_is_asked_for() {
        let secret = new_api_key().unwrap();
        let check = |is_loopback, judge: Option<Arc<TokenJudge>>, shown: Option<String>| {
            let mut headers = HeaderMap::new();
            if let Some(shown) = shown {
                let value = HeaderValue::from_str(&shown).unwrap();
                headers.insert(header::AUTHORIZATION, value);
            }
            let refused = Authority { is_loopback, judge }.check(&headers).err();
            refused.map(|answer| answer.status())
        };
        let bearer = || Some(format!("Bearer {}", *secret));
        let refused = Some(StatusCode::UNAUTHORIZED);
        assert_eq!(check(true, None, None), None);
        assert_eq!(check(false, Some(judge(&secret, true)), bearer()), None);
        assert_eq!(check(false, None, bearer()), refused);
        assert_eq!(check(false, Some(judge(&secret, false)), bearer()), refused);
        for shown in [
            None,
            Some("Bearer ".into()),
            Some("Bearer crore_".into()),
            Some(secret.to_string()),
            Some(format!("Basic {}", *secret)),
            Some(format!("Bearer {}x", *secret)),
        ] {
            assert_eq!(check(false, Some(judge(&secret, true)), shown), refused);
        }
    }

    #[test]
    fn bodies_are_json_by_their_media_type() {
        let status = |media_type: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(media_type) = media_type {
                headers.insert(header::CONTENT_TYPE, media_type.parse().unwrap());
            }
            check_json(&headers).err().map(|answer| answer.status())
        };
        for good in ["application/json", "Application/JSON; charset=utf-8"] {
            assert_eq!(status(Some(good)), None, "{good}");
        }
        for bad in [
            None,
            Some("text/plain"),
            Some("application/jsonp"),
            Some("application/x-www-form-urlencoded"),
        ] {
            let refused = Some(StatusCode::UNSUPPORTED_MEDIA_TYPE);
            assert_eq!(status(bad), refused, "{bad:?}");
        }
    }
}
