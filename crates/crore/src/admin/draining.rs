//! `/api/v1/drain`: drains and stops the node, and reports the progress.

use super::authority::{json_body, problem};
use super::{beside, no_store};
use crate::configuration::value::parse_duration;
use crate::draining::Progress;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;
use std::sync::Arc;

/// Maximum size of a body, in bytes.
const BODY_BYTES_MAX: usize = 4 << 10;
/// Maximum length of a window.
const WINDOW_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// The drain, for operators.
#[derive(Clone)]
pub struct Drain {
    /// Begins the drain, with the given window or the configured one; a running drain continues
    /// unchanged. May wait for a reload.
    pub begin: Arc<dyn Fn(Option<u64>) + Send + Sync>,
    /// The progress. Asks the node, and may wait for it.
    pub progress: Arc<dyn Fn() -> Progress + Send + Sync>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    window: Option<String>,
}

/// The routes.
pub fn routes(drain: Drain) -> Router {
    Router::new().route("/api/v1/drain", get(show).post(begin)).with_state(drain)
}

async fn show(State(drain): State<Drain>) -> Response {
    answer(StatusCode::OK, move || (drain.progress)()).await
}

async fn begin(State(drain): State<Drain>, headers: HeaderMap, body: Body) -> Response {
    let limit = (BODY_BYTES_MAX, "a drain request");
    let bytes = match json_body(&headers, body, limit).await {
        Ok(bytes) => bytes,
        Err(refused) => return *refused,
    };
    match window_ms(&bytes) {
        Ok(window_ms) => {
            let Drain { begin, progress } = drain;
            let begun = move || {
                begin(window_ms);
                progress()
            };
            answer(StatusCode::ACCEPTED, begun).await
        }
        Err(detail) => problem(StatusCode::BAD_REQUEST, "bad_request", &detail),
    }
}

/// The requested window; none without a body.
fn window_ms(body: &[u8]) -> Result<Option<u64>, String> {
    let asked: Asked = if body.is_empty() {
        Asked::default()
    } else {
        serde_json::from_slice(body).map_err(|error| error.to_string())?
    };
    let Some(text) = asked.window else {
        return Ok(None);
    };
    match parse_duration(&text) {
        Some(window_ms) if window_ms <= WINDOW_MS_MAX => Ok(Some(window_ms)),
        _ => Err("`window` must be a duration of at most a day, such as \"30s\"".into()),
    }
}

async fn answer<P>(status: StatusCode, progress: P) -> Response
where
    P: FnOnce() -> Progress + Send + 'static,
{
    let progress = match beside(progress).await {
        Ok(progress) => progress,
        Err(failed) => return *failed,
    };
    let body = serde_json::json!({
        "state": progress.stage.name(),
        "connections": progress.connections,
        "sent_away": progress.sent_away,
        "window_ms": progress.window_ms,
    });
    let headers = no_store("application/json");
    (status, headers, format!("{body}\n")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows() {
        for (body, window_ms_wanted) in [
            ("", None),
            ("{}", None),
            (r#"{"window":null}"#, None),
            (r#"{"window":"30s"}"#, Some(30_000)),
            (r#"{"window":"0s"}"#, Some(0)),
            (r#"{"window":"1d"}"#, Some(WINDOW_MS_MAX)),
        ] {
            assert_eq!(window_ms(body.as_bytes()), Ok(window_ms_wanted), "{body}");
        }
        for body in [
            "[",
            "30",
            r#"{"window":30}"#,
            r#"{"window":"2d"}"#,
            r#"{"window":"soon"}"#,
            r#"{"windows":"30s"}"#,
        ] {
            assert!(window_ms(body.as_bytes()).is_err(), "{body}");
        }
    }
}
