//! `POST /api/v1/reload`: reloads the configuration and returns the result.
//!
//! Invariants: only operators may reload (`authority`). A fault changes nothing, and the answer
//! lists all faults.

use super::authority::{check_json, problem_with};
use super::{Shared, answer, beside};
use crate::configuration::fault::{Fault, Faults};
use crate::reloaded::Reloaded;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::post;
use serde_json::{Value, json};
use std::sync::Arc;

/// The route.
pub(super) fn routes(port: Arc<Shared>) -> Router {
    Router::new().route("/api/v1/reload", post(reload)).with_state(port)
}

async fn reload(State(port): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    if let Err(refused) = check_json(&headers) {
        return *refused;
    }
    match beside(move || (port.operated.reload)()).await {
        Err(failed) => *failed,
        Ok(Ok(reloaded)) => answer(StatusCode::OK, &described(&reloaded)),
        Ok(Err(faults)) => problem_with(
            StatusCode::UNPROCESSABLE_ENTITY,
            "configuration_faults",
            "the configuration has faults; nothing has changed",
            &[("faults", listed(&faults))],
        ),
    }
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

fn listed(faults: &Faults) -> Value {
    let described = |fault: &Fault| {
        json!({
            "origin": fault.origin.to_string(),
            "key": fault.key,
            "problem": fault.problem,
            "expected": fault.expected,
        })
    };
    faults.0.iter().map(described).collect()
}
