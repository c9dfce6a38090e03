//! What operators may do over the operators' port: `POST /api/v1/reload`.
//!
//! Invariants: a request must say that its body is JSON, so that no page of another origin can make a browser send it: the
//! browser would have to ask first (a preflight), and nobody answers. Faults are told as RFC 9457 writes problems.

use super::{Shared, no_store};
use crate::configuration::fault::{Fault, Faults};
use crate::reload::Reloaded;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;

/// Who comes to this listener and is to be answered.
pub(super) async fn reload(
    shared: Arc<Shared>,
    listener: SocketAddr,
    headers: HeaderMap,
) -> Response {
    if let Some(refusal) = refuse(listener, &headers) {
        return refusal;
    }
    match (shared.operated.reload)() {
        Ok(reloaded) => answer(StatusCode::OK, "application/json", &described(&reloaded)),
        Err(faults) => answer(
            StatusCode::UNPROCESSABLE_ENTITY,
            "application/problem+json",
            &problem_of(&faults),
        ),
    }
}

/// Whether a request to this listener may change something: whoever reaches loopback is on the machine. Elsewhere nobody may,
/// as long as there is nothing by which an operator could be known.
fn may_operate(listener: SocketAddr, _headers: &HeaderMap) -> bool {
    listener.ip().is_loopback()
}

/// What every request that changes something has to be.
fn refuse(listener: SocketAddr, headers: &HeaderMap) -> Option<Response> {
    if !may_operate(listener, headers) {
        let detail = "only on an operators' address on loopback";
        return Some(problem(StatusCode::FORBIDDEN, "forbidden", detail));
    }
    let media_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .map_or("", |value| value.split(';').next().unwrap_or("").trim());
    if !media_type.eq_ignore_ascii_case("application/json") {
        return Some(problem(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "Content-Type: application/json is needed, also without a body",
        ));
    }
    None
}

fn described(reloaded: &Reloaded) -> Value {
    let changes: Vec<Value> = reloaded
        .changes
        .iter()
        .map(|change| {
            json!({
                "key": change.key,
                "old": change.old,
                "new": change.new,
                "applied": if change.is_in_force { "now" } else { "restart" },
            })
        })
        .collect();
    let needs_restart: Vec<&str> = reloaded.waiting().map(|change| &*change.key).collect();
    json!({
        "changes": changes,
        "needs_restart": needs_restart,
        "certificate_read": reloaded.certificate,
    })
}

fn problem_of(faults: &Faults) -> Value {
    let described = |fault: &Fault| {
        json!({
            "origin": fault.origin.to_string(),
            "key": fault.key,
            "problem": fault.problem,
            "expected": fault.expected,
        })
    };
    json!({
        "type": "about:blank",
        "title": "Unprocessable Content",
        "status": 422,
        "detail": "the configuration has faults; nothing has changed",
        "code": "configuration_faults",
        "faults": faults.0.iter().map(described).collect::<Vec<_>>(),
    })
}

fn problem(status: StatusCode, code: &str, detail: &str) -> Response {
    let body = json!({
        "type": "about:blank",
        "title": status.canonical_reason().unwrap_or_default(),
        "status": status.as_u16(),
        "detail": detail,
        "code": code,
    });
    answer(status, "application/problem+json", &body)
}

fn answer(status: StatusCode, media_type: &'static str, body: &Value) -> Response {
    (status, no_store(media_type), format!("{body}\n")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_operate() {
        for (listener, media_type, expected) in [
            ("127.0.0.1:1", "application/json", None),
            ("[::1]:1", "Application/JSON; charset=utf-8", None),
            ("127.0.0.1:1", "text/plain", Some(415)),
            ("127.0.0.1:1", "application/jsonp", Some(415)),
            ("10.0.0.1:1", "application/json", Some(403)),
            ("0.0.0.0:1", "application/json", Some(403)),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, media_type.parse().unwrap());
            let refusal = refuse(listener.parse().unwrap(), &headers);
            let status = refusal.map(|refusal| refusal.status().as_u16());
            assert_eq!(status, expected, "{listener} {media_type}");
        }
        let without = refuse("127.0.0.1:1".parse().unwrap(), &HeaderMap::new());
        assert!(without.is_some_and(|refusal| refusal.status() == 415));
    }
}
