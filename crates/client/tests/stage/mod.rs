//! The Rust client's adapters for scenarios: values of commands and effects, equal in both modes.

pub mod core;
pub mod wire;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use client::backoff::BackoffSettings;
use client::{
    CommandError, Event, GapCause, GapReason, HistoryGap, HistoryOptions, HistoryPage, Message,
    Once, Options, PartitionPosition, Policy, Position, PublishOptions, Published, Reason, Report,
    RequestError, ServerError, SkipReason, Start, SubscribeOptions, SubscriptionId, TokenSource,
};
use serde_json::{Value, json};

/// The subscriptions of a scenario by their labels, and what its token source was asked for.
#[derive(Default)]
pub struct Labels {
    pub ids: HashMap<String, SubscriptionId>,
    pub tokens: Arc<Mutex<Tokens>>,
}

#[derive(Default)]
pub struct Tokens {
    left: VecDeque<String>,
    asked: usize,
}

impl Labels {
    fn of(&self, id: SubscriptionId) -> Option<&str> {
        self.ids.iter().find(|(_, known)| **known == id).map(|(label, _)| label.as_str())
    }

    /// The calls of the token source since the last time.
    pub fn token_effects(&self) -> Vec<Value> {
        let asked = std::mem::take(&mut self.tokens.lock().unwrap().asked);
        vec![json!({"token": "expires"}); asked]
    }

    /// The effects of an event.
    pub fn effects(&self, event: Event) -> Vec<Value> {
        let item = |id: SubscriptionId, mut item: Value| {
            item["item"] = json!(self.of(id)?);
            Some(item)
        };
        let effects = match event {
            Event::Connected { .. } => vec![Some(json!({"state": "live"}))],
            Event::Disconnected { reason, retry_in_ms } => vec![Some(state(&reason, retry_in_ms))],
            Event::Message(message) => {
                let ids = message.subscription.into_iter().chain(message.also.clone());
                ids.map(|id| item(id, message_json(&message))).collect()
            }
            Event::CaughtUp { subscription, partition, position, .. } => vec![item(
                subscription,
                json!({"kind": "caught_up", "position": text(position), "partition": partition}),
            )],
            Event::Gap { subscription, partition, from, to, cause, .. } => vec![item(
                subscription,
                json!({
                    "kind": "gap", "partition": partition, "from": from.map(text),
                    "to": to.map(text), "cause": cause_name(cause),
                }),
            )],
            Event::Skipped { subscription, partition, from, through, reason, .. } => vec![item(
                subscription,
                json!({
                    "kind": "skipped", "partition": partition, "from": from, "through": through,
                    "reason": match reason {
                        SkipReason::Conflated => "conflated",
                        SkipReason::Dropped => "dropped",
                        SkipReason::Other(_) => "other",
                    },
                }),
            )],
            Event::Unsubscribed { subscription, error: Some(error), .. } => {
                let restart = error.restart.map(text);
                let ended = json!({"kind": "ended", "code": error.code, "restart": restart});
                vec![item(subscription, ended)]
            }
            _ => Vec::new(),
        };
        effects.into_iter().flatten().collect()
    }
}

fn state(reason: &Reason, retry_in_ms: Option<u64>) -> Value {
    let state = if retry_in_ms.is_some() { "waiting" } else { "closed" };
    match reason {
        Reason::Closed { code, .. } => json!({"state": state, "reason": "closed", "code": code}),
        Reason::HandshakeRefused { status, .. } => {
            json!({"state": state, "reason": "refused", "status": status})
        }
        Reason::Idle => json!({"state": state, "reason": "idle"}),
        Reason::HandshakeTimeout | Reason::Network(std::io::ErrorKind::TimedOut) => {
            json!({"state": state, "reason": "timeout"})
        }
        Reason::GoAway { code } => json!({"state": state, "reason": "go_away", "code": code}),
        Reason::Protocol(_) => json!({"state": state, "reason": "protocol"}),
        Reason::Unsupported(_) => json!({"state": state, "reason": "unsupported"}),
        _ => json!({"state": state, "reason": "network"}),
    }
}

fn message_json(message: &Message) -> Value {
    let payload: String = message.payload.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({
        "kind": "message", "topic": &*message.topic, "position": text(message.position),
        "partition": message.partition, "payload": payload,
        "content_type": message.content_type, "tags": message.tags, "retained": message.retained,
    })
}

fn cause_name(cause: GapCause) -> &'static str {
    match cause {
        GapCause::Announced(reason) => reason_name(reason),
        GapCause::Unannounced => "unannounced",
        GapCause::Reconnected => "reconnected",
    }
}

fn reason_name(reason: GapReason) -> &'static str {
    match reason {
        GapReason::Evicted => "evicted",
        GapReason::UnknownEpoch => "unknown_epoch",
        GapReason::BeyondHead => "beyond_head",
        GapReason::HistoryLimit => "history_limit",
        GapReason::Damaged => "damaged",
        GapReason::Other(_) => "other",
    }
}

pub fn published(label: &str, result: Result<Published, RequestError>) -> Value {
    match result {
        Ok(published) => json!({
            "answer": label, "published": text(published.position),
            "duplicate": published.duplicate,
        }),
        Err(error) => failure(label, &error),
    }
}

pub fn page(label: &str, result: Result<HistoryPage, RequestError>) -> Value {
    let gap =
        |gap: HistoryGap| json!({"from": gap.from, "to": gap.to, "cause": reason_name(gap.reason)});
    match result {
        Ok(page) => json!({
            "answer": label, "more": page.more, "gap": page.gap.map(gap),
            "messages": page.messages.iter().map(message_json).collect::<Vec<_>>(),
        }),
        Err(error) => failure(label, &error),
    }
}

/// The answer of a call that failed.
pub fn failure(label: &str, error: &RequestError) -> Value {
    match error {
        RequestError::Refused(ServerError { code, temporary, restart, limit, .. }) => json!({
            "answer": label, "error": "Refused", "code": code, "temporary": temporary,
            "restart": restart.map(text), "limit": limit,
        }),
        RequestError::Unknown => json!({"answer": label, "error": "Unknown"}),
        RequestError::Closed => json!({"answer": label, "error": "Closed"}),
        RequestError::Invalid(error) => json!({"answer": label, "error": match error {
            CommandError::AlreadySubscribed => "AlreadySubscribed",
            CommandError::Fenced => "Fenced",
            CommandError::InflightFull | CommandError::NotConnected => "QueueFull",
            _ => "InvalidArgument",
        }}),
    }
}

pub fn report(report: Option<Report>) -> Value {
    let Some(report) = report else { return Value::Null };
    let newest = report.newest_gaps.iter().map(|gap| {
        json!({"from": gap.from.map(text), "to": gap.to.map(text), "cause": cause_name(gap.cause)})
    });
    json!({
        "complete": report.is_complete(), "gaps": report.gaps, "skips": report.skips,
        "messages": report.messages, "position": report.position.map(text),
        "newest": newest.collect::<Vec<_>>(),
    })
}

/// The client's options, and the source of tokens if the scenario has one.
pub fn options(command: &Value, labels: &Labels) -> Options {
    let given = &command["options"];
    let mut options = Options::new("");
    options.urls =
        given["urls"].as_array().unwrap().iter().map(|url| string(url).unwrap()).collect();
    options.session.name = string(&given["name"]);
    options.session.token = string(&given["token"]);
    options.session.producer_id = given["producer_id"].as_str().map(bytes);
    if let Some(tokens) = given["tokens"].as_array() {
        labels.tokens.lock().unwrap().left = tokens.iter().filter_map(string).collect();
        options.session.token = labels.tokens.lock().unwrap().left.pop_front();
        let tokens = labels.tokens.clone();
        options.token_source = Some(TokenSource::new(move || {
            let mut tokens = tokens.lock().unwrap();
            tokens.asked += 1;
            tokens.left.pop_front()
        }));
    }
    let backoff = &given["backoff"];
    let default = BackoffSettings::default();
    options.backoff = BackoffSettings {
        base_ms: backoff["base_ms"].as_u64().unwrap_or(default.base_ms),
        max_ms: backoff["max_ms"].as_u64().unwrap_or(default.max_ms),
        reset_after_ms: backoff["reset_after_ms"].as_u64().unwrap_or(default.reset_after_ms),
    };
    options
}

pub fn start(value: &Value) -> Start<'static> {
    match value["kind"].as_str() {
        Some("since") => Start::Since(position(&value["position"])),
        Some("last") => Start::Last(value["count"].as_u64().unwrap() as u32),
        Some("snapshot") => Start::Snapshot,
        _ => Start::Live,
    }
}

pub fn subscribe_options(command: &Value) -> SubscribeOptions {
    let positions = command["start"]["positions"].as_array().into_iter().flatten();
    SubscribeOptions {
        fail_on_gap: command["fail_on_gap"].as_bool().unwrap_or(false),
        policy: command["policy"].as_str().map(|policy| match policy {
            "replay" => Policy::Replay,
            "conflate" => Policy::Conflate,
            "drop" => Policy::Drop,
            _ => Policy::Disconnect,
        }),
        cursors: positions
            .map(|at| PartitionPosition {
                partition: at["partition"].as_u64().unwrap() as u32,
                position: position(&at["position"]),
            })
            .collect(),
    }
}

pub fn publish_options(command: &Value) -> PublishOptions {
    let tags = command["tags"].as_array().into_iter().flatten();
    PublishOptions {
        content_type: string(&command["content_type"]),
        tags: tags.map(|tag| (string(&tag[0]).unwrap(), string(&tag[1]).unwrap())).collect(),
        retain: command["retain"].as_bool().unwrap_or(false),
        once: match &command["once"] {
            Value::Null => None,
            Value::Object(once) => Some(Once::Key(bytes(once["key"].as_str().unwrap()))),
            _ => Some(Once::Numbered),
        },
        expected_epoch: command["expected_epoch"].as_u64(),
    }
}

pub fn history_options(command: &Value) -> HistoryOptions {
    HistoryOptions {
        position: command["position"].as_str().map(|_| position(&command["position"])),
        reverse: command["reverse"].as_bool().unwrap_or(false),
        messages_max: command["limit"].as_u64().unwrap_or(0) as u32,
    }
}

pub fn string(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

pub fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn text(position: Position) -> String {
    format!("{}:{}", position.epoch, position.offset)
}

fn position(value: &Value) -> Position {
    let (epoch, offset) = value.as_str().unwrap().split_once(':').unwrap();
    Position { epoch: epoch.parse().unwrap(), offset: offset.parse().unwrap() }
}
