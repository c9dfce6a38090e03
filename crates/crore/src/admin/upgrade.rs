//! `POST /api/v1/upgrade`: the node hands over to the program now on disk.
//!
//! Only operators may upgrade (`authority`). A request cannot choose the program: it is the file
//! that the node was started from.

use super::authority::{check_json, problem};
use super::no_store;
use crate::upgrade::Upgraded;
use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::json;
use std::sync::Arc;

/// Starts the upgrade.
pub type Upgrade = Arc<dyn Fn() -> Result<Upgraded, String> + Send + Sync>;

/// The route.
pub fn routes(upgrade: Upgrade) -> Router {
    let ask = move |headers: HeaderMap| async move {
        if let Err(refusal) = check_json(&headers) {
            return *refusal;
        }
        let done = tokio::task::spawn_blocking(move || upgrade()).await;
        match done.unwrap_or_else(|_| Err("the node is stopping".into())) {
            Ok(upgraded) => answer(upgraded),
            Err(why) => problem(StatusCode::CONFLICT, "upgrade_failed", &why),
        }
    };
    Router::new().route("/api/v1/upgrade", post(ask))
}

fn answer(upgraded: Upgraded) -> Response {
    let body = json!({
        "process": upgraded.process,
        "frozen_ms": upgraded.frozen.as_secs_f64() * 1e3,
    });
    (StatusCode::OK, no_store("application/json"), format!("{body}\n")).into_response()
}
