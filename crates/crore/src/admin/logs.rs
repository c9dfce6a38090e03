//! `/api/v1/logging`: the levels of the log, to read and change. `/api/v1/logs`: the newest lines.
//!
//! Invariants: only operators may read lines (`authority`), because lines contain names of clients;
//! levels set by an operator apply until the next reload of the configuration.

use super::authority::{json_body, problem};
use super::{NUMBER_MAX, beside, no_store};
use crate::logging::{
    Format, Found, Level, Levels, Log, OFF, RECENT_LINES_MAX, TARGETS, Target, Wanted, parse_level,
};
use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum size of a body, in bytes.
const BODY_BYTES_MAX: usize = 4 << 10;

/// The log, for the operators' port.
#[derive(Clone)]
pub struct Logging {
    /// The log with the levels and the lines.
    pub log: Log,
    /// Applies levels set by an operator.
    pub change: Arc<dyn Fn(&Levels) + Send + Sync>,
}

/// A request for new levels.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    levels: BTreeMap<String, String>,
}

/// The routes.
pub fn routes(logging: Logging) -> Router {
    Router::new()
        .route("/api/v1/logging", get(levels).put(set_levels))
        .route("/api/v1/logs", get(lines))
        .with_state(logging)
}

async fn levels(State(logging): State<Logging>) -> Response {
    answer(&described(&logging.log))
}

async fn set_levels(State(logging): State<Logging>, headers: HeaderMap, body: Body) -> Response {
    let limit = (BODY_BYTES_MAX, "a request for levels");
    let bytes = match json_body(&headers, body, limit).await {
        Ok(bytes) => bytes,
        Err(refused) => return *refused,
    };
    let log = logging.log;
    let wanted = match wanted_levels(&bytes, log.levels()) {
        Ok(wanted) => wanted,
        Err(detail) => return problem(StatusCode::BAD_REQUEST, "bad_request", &detail),
    };
    let told = wanted.to_string();
    let change = logging.change;
    if let Err(failed) = beside(move || change(&wanted)).await {
        return *failed;
    }
    log.to(Target::Operators).write(
        Level::Info,
        "An operator has changed the levels of the log.",
        &[("levels", &told)],
    );
    answer(&described(&log))
}

async fn lines(State(logging): State<Logging>, RawQuery(query): RawQuery) -> Response {
    let Some(wanted) = wanted_lines(query.as_deref().unwrap_or_default()) else {
        let detail = format!(
            "`after` must be the number of a line, `limit` a number from 1 to {RECENT_LINES_MAX}, `level` a level and `target` a target of the log"
        );
        return problem(StatusCode::BAD_REQUEST, "bad_request", &detail);
    };
    let Found { lines, next, oldest } = logging.log.recent().find(&wanted);
    let body = format!("{{\"lines\":[{}],\"next\":{next},\"oldest\":{oldest}}}\n", lines.join(","));
    (StatusCode::OK, no_store("application/json"), body).into_response()
}

/// The present levels, with the changes of a body.
fn wanted_levels(bytes: &[u8], mut levels: Levels) -> Result<Levels, String> {
    let asked: Asked =
        serde_json::from_slice(bytes).map_err(|error| format!("invalid body: {error}"))?;
    for (target, level) in &asked.levels {
        let target = Target::parse(target);
        let (Some(target), Some(level)) = (target, parse_level(level)) else {
            let targets = TARGETS.map(Target::word).join(", ");
            return Err(format!(
                "expected \"levels\" with some of {targets}, each error, warn, info, debug or {OFF}"
            ));
        };
        levels.set(target, level);
    }
    Ok(levels)
}

fn wanted_lines(query: &str) -> Option<Wanted> {
    let mut wanted =
        Wanted { after: 0, level: Level::Debug, target: None, len_max: RECENT_LINES_MAX };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=')? {
            ("after", text) => {
                wanted.after = text.parse().ok().filter(|after| *after <= NUMBER_MAX)?;
            }
            ("limit", text) => wanted.len_max = text.parse().ok()?,
            ("level", text) => wanted.level = Level::parse(text)?,
            ("target", text) => wanted.target = Some(Target::parse(text)?),
            _ => return None,
        }
    }
    (1..=RECENT_LINES_MAX).contains(&wanted.len_max).then_some(wanted)
}

fn described(log: &Log) -> Value {
    let levels = log.levels();
    let of = |target: Target| levels.of(target).map_or(OFF, Level::word);
    let levels: Map<String, Value> =
        TARGETS.into_iter().map(|target| (target.word().to_owned(), of(target).into())).collect();
    let format = match log.format() {
        Format::Text => "text",
        Format::Json => "json",
    };
    let counts = log.counts();
    json!({
        "format": format,
        "levels": levels,
        "dropped": counts.dropped,
        "left_out": counts.left_out,
    })
}

fn answer(body: &Value) -> Response {
    let headers = no_store("application/json");
    (StatusCode::OK, headers, format!("{body}\n")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies() {
        let before = Levels::new(Level::Info);
        let body = br#"{"levels":{"access":"info","node":"off"}}"#;
        let levels = wanted_levels(body, before).unwrap();
        assert_eq!(levels.of(Target::Access), Some(Level::Info));
        assert_eq!(levels.of(Target::Node), None);
        assert_eq!(levels.of(Target::Tls), Some(Level::Info));
        for bad in [
            "",
            "{}",
            r#"{"levels":{"access":"loud"}}"#,
            r#"{"levels":{"nobody":"info"}}"#,
            r#"{"levels":[]}"#,
            r#"{"levels":{},"format":"json"}"#,
        ] {
            assert!(wanted_levels(bad.as_bytes(), before).is_err(), "{bad}");
        }
    }

    #[test]
    fn queries() {
        let wanted = wanted_lines("after=7&level=warn&target=tls&limit=2").unwrap();
        let expected =
            Wanted { after: 7, level: Level::Warn, target: Some(Target::Tls), len_max: 2 };
        assert_eq!(wanted, expected);
        assert!(wanted_lines("").is_some());
        for bad in [
            "limit=0",
            "limit=1001",
            "level=off",
            "target=x",
            "after=",
            "after=9007199254740992",
            "x=1",
        ] {
            assert_eq!(wanted_lines(bad), None, "{bad}");
        }
    }
}
