//! `/api/v1/connections`, `/topics`, `/topic`, `/publish`, `/rules`, `/limits`, `/statistics`:
//! inspection and control of the running node.
//!
//! Invariants: the answers show clients and their messages, so only operators may read them
//! (`authority`); shards are asked on threads that may wait, never on the port's own thread; an
//! answer is a page, with the start of the next one; each action on a client or a topic is logged.

use super::authority::{json_body, problem};
use super::shown;
use super::{NUMBER_MAX, beside, no_store};
use crate::logging::{Level, Log};
use crate::statistics_history::StatisticsHistory;
use axum::Router;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use broker::inspect::{
    ANSWER_LEN_MAX, ConnectionId, ConnectionsWanted, TopicsWanted, Transport, attributes_of,
};
use broker::mail::{Code, PageLimits, Publication};
use broker::position::Position;
use broker::topic::{Filter, TopicName};
use node::Node;
use node::inspection::{Cursor, InspectError};
use serde::Deserialize;
use serde_json::{Value, json};
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;
use stdx::chunk::Slice;
use stdx::networks::Network;

/// A node that may have stopped.
pub type SharedNode = Arc<RwLock<Option<Node>>>;
/// The limits in force, as JSON.
pub type Limits = Arc<dyn Fn() -> Value + Send + Sync>;

/// Number of entries of a page without `limit`.
const PAGE_LEN: u32 = 100;
/// Maximum size of the records of one page of history, in bytes.
const HISTORY_BYTES_MAX: u32 = 4 << 20;
/// Maximum size of a body, in bytes: a message of 16 MiB in Base64.
const BODY_BYTES_MAX: usize = 24 << 20;
/// Maximum size of a media type, in bytes.
const CONTENT_TYPE_BYTES_MAX: usize = 255;

/// The objects of the routes.
#[derive(Clone)]
pub struct Inspected {
    /// The node.
    pub node: SharedNode,
    /// The figures of the last five minutes.
    pub history: Arc<StatisticsHistory>,
    /// The configuration in force.
    pub limits: Limits,
    /// Start time of the node.
    pub started: Instant,
    /// The log for actions of operators.
    pub log: Log,
}

/// A refusal as an answer.
type Refused = Box<Response>;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ConnectionsQuery {
    address: Option<String>,
    protocol: Option<String>,
    sub: Option<String>,
    lagging: Option<bool>,
    after: Option<String>,
    limit: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SubscriptionsQuery {
    after: u32,
    limit: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DisconnectQuery {
    #[serde(rename = "return")]
    may_return: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TopicsQuery {
    prefix: String,
    filter: String,
    after: Option<String>,
    limit: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct StatisticsHistoryQuery {
    from: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TopicQuery {
    topic: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryQuery {
    topic: String,
    since: Option<String>,
    #[serde(default)]
    reverse: bool,
    limit: Option<u32>,
}

/// A publication of an operator.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Published {
    topic: String,
    data: Option<String>,
    b64data: Option<String>,
    content_type: Option<String>,
    #[serde(default)]
    retain: bool,
}

/// The routes.
pub fn routes(inspected: Inspected) -> Router {
    Router::new()
        .route("/api/v1/connections", get(connections))
        .route("/api/v1/connections/{id}", get(connection).delete(disconnect))
        .route("/api/v1/connections/{id}/subscriptions", get(subscriptions))
        .route("/api/v1/topics", get(topics))
        .route("/api/v1/topic", get(topic))
        .route("/api/v1/topic/history", get(history))
        .route("/api/v1/publish", post(publish))
        .route("/api/v1/rules", get(rules))
        .route("/api/v1/limits", get(limits))
        .route("/api/v1/statistics", get(statistics))
        .route("/api/v1/statistics/history", get(statistics_history))
        .with_state(inspected)
}

async fn connections(
    State(inspected): State<Inspected>,
    query: Result<Query<ConnectionsQuery>, QueryRejection>,
) -> Response {
    let found = async {
        let query = of_query(query)?;
        let wanted = wanted_connections(&query)?;
        let from = cursor_of(query.after.as_deref())?;
        let len_max = len_of(query.limit)?;
        let page = inspected.ask(move |node| node.connections(&wanted, from, len_max)).await?;
        let found: Vec<Value> = page.found.iter().map(shown::connection).collect();
        Ok(json!({"connections": found, "next": shown::next(page.next)}))
    };
    answered(found.await)
}

async fn connection(
    State(inspected): State<Inspected>,
    id: Result<Path<String>, PathRejection>,
) -> Response {
    let found = async {
        let id = id_of(id)?;
        let found = inspected.ask(move |node| node.connection(id)).await?;
        let found = found.ok_or_else(no_connection)?;
        Ok(shown::connection(&found))
    };
    answered(found.await)
}

async fn disconnect(
    State(inspected): State<Inspected>,
    id: Result<Path<String>, PathRejection>,
    query: Result<Query<DisconnectQuery>, QueryRejection>,
) -> Response {
    let done = async {
        let DisconnectQuery { may_return } = of_query(query)?;
        let id = id_of(id)?;
        let work = move |node: &Node| node.disconnect(id, may_return);
        if inspected.ask(work).await? {
            let told = [
                ("connection", &*id.to_string()),
                ("may_return", if may_return { "true" } else { "false" }),
            ];
            let sentence = "An operator has closed a connection.";
            inspected.log.write(Level::Info, sentence, &told);
            Ok(StatusCode::NO_CONTENT.into_response())
        } else {
            Err(no_connection())
        }
    };
    done.await.unwrap_or_else(|refused: Refused| *refused)
}

async fn subscriptions(
    State(inspected): State<Inspected>,
    id: Result<Path<String>, PathRejection>,
    query: Result<Query<SubscriptionsQuery>, QueryRejection>,
) -> Response {
    let found = async {
        let SubscriptionsQuery { after, limit } = of_query(query)?;
        let (id, len_max) = (id_of(id)?, len_of(limit)?);
        let work = move |node: &Node| node.subscriptions(id, after, len_max);
        let (found, more) = inspected.ask(work).await?.ok_or_else(no_connection)?;
        let next = more.then(|| after.saturating_add(found.len() as u32));
        let found: Vec<Value> = found.iter().map(shown::subscription).collect();
        Ok(json!({"subscriptions": found, "next": next}))
    };
    answered(found.await)
}

async fn topics(
    State(inspected): State<Inspected>,
    query: Result<Query<TopicsQuery>, QueryRejection>,
) -> Response {
    let found = async {
        let query = of_query(query)?;
        if !query.filter.is_empty() && Filter::parse(&query.filter).is_err() {
            return Err(bad_request("`filter` is not a topic filter"));
        }
        let from = cursor_of(query.after.as_deref())?;
        let len_max = len_of(query.limit)?;
        let wanted = TopicsWanted { prefix: query.prefix.into(), filter: query.filter.into() };
        let page = inspected.ask(move |node| node.topics(&wanted, from, len_max)).await?;
        let found: Vec<Value> =
            page.found.iter().map(|found| shown::topic(&found.topic, &found.subscribers)).collect();
        Ok(json!({"topics": found, "next": shown::next(page.next)}))
    };
    answered(found.await)
}

async fn topic(
    State(inspected): State<Inspected>,
    query: Result<Query<TopicQuery>, QueryRejection>,
) -> Response {
    let found = async {
        let TopicQuery { topic } = of_query(query)?;
        check_topic(&topic)?;
        let work = move |node: &Node| {
            let found = node.topic(&topic)?;
            Ok(found.map(|(detail, subscribers)| {
                shown::topic_detail(&detail, &subscribers, &node.settings())
            }))
        };
        inspected.ask(work).await?.ok_or_else(|| {
            refusal(
                StatusCode::NOT_FOUND,
                "not_found",
                "this topic has no messages and no subscribers",
            )
        })
    };
    answered(found.await)
}

async fn history(
    State(inspected): State<Inspected>,
    query: Result<Query<HistoryQuery>, QueryRejection>,
) -> Response {
    let found = async {
        let query = of_query(query)?;
        check_topic(&query.topic)?;
        let since = query.since.as_deref().map(position_of).transpose()?;
        let limits = PageLimits { records_max: len_of(query.limit)?, bytes_max: HISTORY_BYTES_MAX };
        let (name, reverse) = (query.topic, query.reverse);
        let work = move |node: &Node| {
            let page = node.history(&name, since, reverse, limits)?;
            Ok(page.map(|page| shown::history(&name, &page)))
        };
        inspected.ask(work).await?.map_err(refused_with)
    };
    answered(found.await)
}

async fn publish(State(inspected): State<Inspected>, headers: HeaderMap, body: Body) -> Response {
    let done = async {
        let limit = (BODY_BYTES_MAX, "a message");
        let bytes = json_body(&headers, body, limit).await?;
        let (topic, publication) = publication_of(&bytes)?;
        let name = topic.clone();
        let work = move |node: &Node| node.publish(&topic, publication);
        let appended = inspected.ask(work).await?;
        let appended = appended.map_err(|refusal| refused_with(refusal.code))?;
        let Position { epoch, offset } = appended.position;
        let position = format!("{epoch}:{offset}");
        let told = [("topic", &*name), ("position", &position)];
        // Programs may publish continually.
        let sentence = "An operator has published a message.";
        inspected.log.write(Level::Debug, sentence, &told);
        Ok(json!({"position": position, "epoch": epoch.to_string(), "offset": offset}))
    };
    answered(done.await)
}

async fn rules(State(inspected): State<Inspected>) -> Response {
    let found = async {
        let settings = inspected.ask(|node| Ok(node.settings())).await?;
        Ok(shown::rules(&settings))
    };
    answered(found.await)
}

async fn limits(State(inspected): State<Inspected>) -> Response {
    let found = async {
        // A reload holds the lock while it runs.
        let limits = Arc::clone(&inspected.limits);
        let limits = beside(move || limits()).await?;
        Ok(json!({"limits": limits}))
    };
    answered(found.await)
}

async fn statistics(State(inspected): State<Inspected>) -> Response {
    let found = async {
        let (statistics, took) = inspected
            .ask(|node| {
                let began = Instant::now();
                let statistics = node.statistics();
                Ok((statistics, began.elapsed()))
            })
            .await?;
        let uptime = inspected.started.elapsed();
        Ok(shown::statistics(&statistics, took, uptime))
    };
    answered(found.await)
}

async fn statistics_history(
    State(inspected): State<Inspected>,
    query: Result<Query<StatisticsHistoryQuery>, QueryRejection>,
) -> Response {
    let found = async {
        let StatisticsHistoryQuery { from } = of_query(query)?;
        if from > NUMBER_MAX {
            return Err(bad_request("`from` must be the `next` of an earlier answer"));
        }
        Ok(inspected.history.shown(from))
    };
    answered(found.await)
}

impl Inspected {
    /// Asks the node on a thread that may wait.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Node) -> Result<T, InspectError> + Send + 'static,
    ) -> Result<T, Refused> {
        let node = Arc::clone(&self.node);
        let asked = move || {
            let node = node.read().unwrap_or_else(PoisonError::into_inner);
            node.as_ref().map(work)
        };
        let unavailable = |code, detail| refusal(StatusCode::SERVICE_UNAVAILABLE, code, detail);
        let answer = tokio::task::spawn_blocking(asked).await;
        match answer {
            Ok(Some(Ok(answer))) => Ok(answer),
            Ok(Some(Err(InspectError::Busy))) => {
                Err(unavailable("overloaded", "too many requests wait for the node's threads"))
            }
            Ok(Some(Err(InspectError::Silent))) | Err(_) => {
                Err(unavailable("overloaded", "a thread of the node did not answer in time"))
            }
            Ok(None) => Err(unavailable("shutting_down", "the node has stopped")),
        }
    }
}

fn wanted_connections(query: &ConnectionsQuery) -> Result<ConnectionsWanted, Refused> {
    let network = |text: &String| {
        Network::parse(text).ok_or_else(|| bad_request("`address` must be an address or a network"))
    };
    let spoken = |text: &String| {
        let expected = "`protocol` must be native, json, events, echo or http";
        Transport::of(text).ok_or_else(|| bad_request(expected))
    };
    Ok(ConnectionsWanted {
        network: query.address.as_ref().map(network).transpose()?,
        spoken: query.protocol.as_ref().map(spoken).transpose()?,
        subject: query.sub.as_deref().map(Into::into),
        lagging: query.lagging.unwrap_or(false),
    })
}

fn publication_of(bytes: &[u8]) -> Result<(String, Publication), Refused> {
    let asked: Published = serde_json::from_slice(bytes)
        .map_err(|error| bad_request(&format!("invalid body: {error}")))?;
    check_topic(&asked.topic)?;
    let payload = match (asked.data, asked.b64data) {
        (Some(text), None) => text.into_bytes(),
        (None, Some(text)) => {
            STANDARD.decode(text).map_err(|_| bad_request("`b64data` is not Base64"))?
        }
        _ => return Err(bad_request("expected `data` or `b64data`")),
    };
    let content_type = asked.content_type.as_deref();
    if content_type.is_some_and(|text| text.is_empty() || text.len() > CONTENT_TYPE_BYTES_MAX) {
        return Err(bad_request("`content_type` has 1 to 255 bytes"));
    }
    let publication = Publication {
        topic: Slice::copy_of(asked.topic.as_bytes()),
        attributes: attributes_of(content_type),
        payload: Slice::copy_of(&payload),
        retain: asked.retain,
        ..Publication::default()
    };
    Ok((asked.topic, publication))
}

fn of_query<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, Refused> {
    match query {
        Ok(Query(query)) => Ok(query),
        Err(rejection) => Err(bad_request(&rejection.body_text())),
    }
}

/// An invalid id of a connection is treated as unknown.
fn id_of(text: Result<Path<String>, PathRejection>) -> Result<ConnectionId, Refused> {
    let parsed = text.ok().and_then(|Path(text)| text.parse().ok());
    parsed.ok_or_else(no_connection)
}

fn cursor_of(text: Option<&str>) -> Result<Cursor, Refused> {
    let cursor = text.map(Cursor::from_str).transpose();
    let cursor =
        cursor.map_err(|()| bad_request("`after` must be the `next` of an earlier answer"))?;
    Ok(cursor.unwrap_or_default())
}

fn len_of(limit: Option<u32>) -> Result<u32, Refused> {
    match limit {
        None => Ok(PAGE_LEN),
        Some(len @ 1..=ANSWER_LEN_MAX) => Ok(len),
        Some(_) => Err(bad_request("`limit` must be a number from 1 to 1000")),
    }
}

fn position_of(text: &str) -> Result<Position, Refused> {
    text.parse().map_err(|_| bad_request("`since` must be a position, <epoch>:<offset>"))
}

fn check_topic(name: &str) -> Result<(), Refused> {
    match TopicName::parse(name) {
        Ok(_) => Ok(()),
        Err(error) => Err(bad_request(&format!("`topic`: {error}"))),
    }
}

/// The answer to a refusal of a home or an edge.
fn refused_with(code: Code) -> Refused {
    let status = StatusCode::from_u16(code.http_status());
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    refusal(status, code.name(), code.text())
}

fn no_connection() -> Refused {
    let detail = "the connection does not exist or is closed";
    refusal(StatusCode::NOT_FOUND, "not_found", detail)
}

fn bad_request(detail: &str) -> Refused {
    refusal(StatusCode::BAD_REQUEST, "bad_request", detail)
}

fn refusal(status: StatusCode, code: &str, detail: &str) -> Refused {
    Box::new(problem(status, code, detail))
}

fn answered(result: Result<Value, Refused>) -> Response {
    match result {
        Ok(value) => (no_store("application/json"), format!("{value}\n")).into_response(),
        Err(refused) => *refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published() {
        for good in [
            r#"{"topic":"a/b","data":"hi"}"#,
            r#"{"topic":"a","b64data":"aGk=","content_type":"text/plain","retain":true}"#,
            r#"{"topic":"a","data":""}"#,
        ] {
            assert!(publication_of(good.as_bytes()).is_ok(), "{good}");
        }
        for bad in [
            "",
            "{}",
            r#"{"topic":"a"}"#,
            r#"{"topic":"a","data":"x","b64data":"aGk="}"#,
            r#"{"topic":"a","b64data":"?"}"#,
            r#"{"topic":"a/+","data":"x"}"#,
            r#"{"topic":"","data":"x"}"#,
            r#"{"topic":"a","data":"x","content_type":""}"#,
            r#"{"topic":"a","data":"x","to":"b"}"#,
        ] {
            assert!(publication_of(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
