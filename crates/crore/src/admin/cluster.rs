//! `/api/v1/cluster`: the nodes of the cluster, as they report themselves.

use super::answer;
use super::authority::problem;
use crate::cluster::{Cluster, Member, UNHEARD_MAX};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use serde_json::{Value, json};

/// The routes.
pub fn routes(cluster: Option<Cluster>) -> Router {
    const ALL: &str = "/api/v1/cluster";
    match cluster {
        Some(cluster) => Router::new().route(ALL, get(nodes)).with_state(cluster),
        None => Router::new().route(ALL, get(nothing)),
    }
}

async fn nothing() -> Response {
    let detail = "this node has no log in an engine, so it is in no cluster";
    problem(StatusCode::NOT_FOUND, "not_found", detail)
}

async fn nodes(State(cluster): State<Cluster>) -> Response {
    let nodes: Vec<Value> = cluster.read(|state| state.members().map(shown).collect());
    let silence = cluster.silence();
    let body = json!({
        "nodes": nodes,
        "silence_ms": u64::try_from(silence.as_millis()).unwrap_or(u64::MAX),
        "accepts_tokens": silence <= UNHEARD_MAX,
    });
    answer(StatusCode::OK, &body)
}

fn shown(member: Member<'_>) -> Value {
    let report = member.report;
    json!({
        "name": member.name,
        "address": report.address,
        "version": report.version,
        "is_this_node": member.is_own,
        "is_living": member.is_living,
        "is_draining": report.is_draining,
        "report_age_ms": member.age_ms,
        "connections": report.connections,
        "lag_records": report.lag_records,
        "engine_silence_ms": report.silence_ms,
    })
}
