//! The answers about a node for operators, as JSON.
//!
//! Invariant: unknown values are `null` or omitted; the only payloads are those of a requested
//! history, and credentials never appear.

use crate::statistics_history;
use broker::inspect::{Connection, Recent, Subscribers, Topic, TopicDetail, message_json};
use broker::mail::{EdgeId, Gap, GapReason, HistoryPage};
use broker::position::Position;
use broker::settings::{Durability, LagPolicy, Publishers, RuleSettings, Settings};
use node::NodeStatistics;
use node::engine::EngineStatistics;
use node::inspection::{Cursor, NamedSubscription};
use serde_json::{Map, Value, json};
use std::time::Duration;
use stdx::histogram::Histogram;

/// The start of the next page of a list.
pub fn next(cursor: Option<Cursor>) -> Value {
    cursor.map_or(Value::Null, |cursor| cursor.to_string().into())
}

/// One connection.
pub fn connection(found: &Connection) -> Value {
    json!({
        "id": found.id.to_string(),
        "protocol": found.spoken.word(),
        "tls": found.is_encrypted,
        "address": found.address.map(|address| address.to_string()),
        "sub": found.subject,
        "expires": found.expires_s,
        "session_age_s": found.session_ms.map(|age_ms| age_ms / 1_000),
        "ping_interval_s": found.ping_interval_s,
        "subscriptions": found.subscriptions,
        "outbox": { "frames": found.outbox_len, "bytes": found.outbox_bytes },
        "lagging": found.is_lagging,
        "blocked": found.is_blocked,
        "closing": found.is_closing,
    })
}

/// One subscription.
pub fn subscription(found: &NamedSubscription) -> Value {
    let NamedSubscription { subscription, name } = found;
    json!({
        "number": subscription.number,
        "topic": name,
        "filter": subscription.filter,
        "stage": subscription.stage,
        "position": subscription.position.map(position),
        "when_lagging": policy(subscription.policy),
    })
}

/// One topic of a list.
pub fn topic(found: &Topic, subscribers: &[Subscribers]) -> Value {
    let edges = found.edges.iter().zip(subscribers);
    let by_thread: Vec<Value> = edges.clone().map(of_thread).collect();
    let all = edges.map(|(_, count)| u64::from(count.plain) + u64::from(count.by_filter));
    json!({
        "topic": found.name,
        "partition": found.partition.0,
        "position": found.head.map(position),
        "retained_bytes": found.retained_bytes,
        "rate": found.recent.map(rate),
        "subscribers": all.sum::<u64>(),
        "by_thread": by_thread,
    })
}

/// Messages per second.
fn rate(recent: Recent) -> f64 {
    f64::from(recent.messages) * 1_000.0 / recent.span_ms as f64
}

fn of_thread(((edge, _), count): (&(EdgeId, u32), &Subscribers)) -> Value {
    json!({"thread": edge.0, "plain": count.plain, "by_filter": count.by_filter})
}

/// One topic with its details.
pub fn topic_detail(
    detail: &TopicDetail,
    subscribers: &[Subscribers],
    settings: &Settings,
) -> Value {
    let mut value = topic(&detail.topic, subscribers);
    let (rule, partition) = settings.locate(&detail.topic.name);
    value["rule"] = json!(settings.rules[usize::from(rule)].filter);
    value["log"] = json!(settings.log_of(partition).name);
    value["partition_position"] = json!(position(detail.partition_head));
    value["retained_position"] = json!(detail.retained.map(position));
    value["records"] = json!({
        "count": detail.records,
        "bytes": detail.records_bytes,
        "oldest": detail.oldest.map(position),
        "all": detail.is_all,
    });
    value
}

/// A page of history.
pub fn history(name: &str, page: &HistoryPage) -> Value {
    let message =
        |record: &stdx::chunk::Slice| serde_json::from_slice(&message_json(record, page.epoch));
    let messages: Vec<Value> =
        page.records.iter().filter_map(|record| message(record).ok()).collect();
    json!({
        "topic": name,
        "epoch": page.epoch.to_string(),
        "head": page.head,
        "gap": page.gap.as_ref().map(gap),
        "messages": messages,
        "more": page.more,
    })
}

fn gap(gap: &Gap) -> Value {
    let reason = match gap.reason {
        GapReason::Evicted => "evicted",
        GapReason::UnknownEpoch => "unknown_epoch",
        GapReason::BeyondHead => "beyond_head",
        GapReason::HistoryLimit => "history_limit",
        GapReason::Damaged => "damaged",
    };
    json!({"from": gap.from, "to": gap.to, "reason": reason})
}

/// All rules in force, and their logs.
pub fn rules(settings: &Settings) -> Value {
    let rules = settings.rules.iter().enumerate();
    // A removed rule keeps its number, and no topic has it.
    let in_force = rules.filter(|(number, rule)| {
        *number == 0
            || broker::topic::Filter::parse(&rule.filter)
                .ok()
                .and_then(|filter| settings.rule_filters.get(filter))
                .is_some_and(|found| usize::from(*found) == *number)
    });
    let rules: Vec<Value> = in_force.map(|(_, found)| rule(found, settings)).collect();
    let logs: Vec<Value> = settings
        .logs
        .iter()
        .map(|log| {
            json!({
                "name": log.name,
                "durability": match log.durability {
                    Durability::Memory => "memory",
                    Durability::Disk => "disk",
                    Durability::Engine => "engine",
                },
                "partitions": log.partitions_count,
                // An engine's partitions have epochs of their own, which advance.
                "epoch": (log.durability != Durability::Engine).then(|| log.epoch.to_string()),
                "bytes_max": log.log_bytes_max,
                "age_max_ms": bounded(log.age_max_ms),
                "retained_bytes_max": log.retained_bytes_max,
            })
        })
        .collect();
    json!({"rules": rules, "logs": logs})
}

fn rule(rule: &RuleSettings, settings: &Settings) -> Value {
    let publishing = rule.publishing.as_deref();
    let publishers = match publishing.map_or(Publishers::All, |publishing| publishing.publishers) {
        Publishers::All => "all",
        Publishers::Entitled => "entitled",
        Publishers::ApiKeys => "api_keys",
        Publishers::Nobody => "nobody",
    };
    json!({
        "filter": rule.filter,
        "log": settings.logs[usize::from(rule.log)].name,
        "history_messages_max": rule.history_messages_max,
        "history_age_max_ms": bounded(rule.history_age_max_ms),
        "message_bytes_max": rule.message_bytes_max,
        "when_lagging": policy(rule.when_lagging),
        "publishers": publishers,
        "retain": publishing.is_none_or(|publishing| publishing.may_retain),
        "publish_rate_max": rule.rate_max(),
    })
}

/// The data of charts: counters since the start, and present values.
pub fn statistics(statistics: &NodeStatistics, took: Duration, uptime: Duration) -> Value {
    let NodeStatistics { edge, home, log, memory, door, .. } = statistics;
    let known = edge.native_sessions
        + edge.json_sessions
        + edge.mqtt_sessions
        + edge.event_streams
        + edge.echo_sessions
        + edge.long_polls;
    let components: Map<String, Value> = memory
        .iter()
        .map(|(component, bytes)| (component.name().to_owned(), bytes.into()))
        .collect();
    json!({
        "uptime_ms": uptime.as_millis() as u64,
        "io_threads": statistics.io_threads,
        "silent_threads": statistics.silent_threads,
        "answer_us": took.as_micros() as u64,
        "connections": edge.connections,
        "connections_max": statistics.connections_max,
        "protocols": {
            "native": edge.native_sessions,
            "json": edge.json_sessions,
            "mqtt": edge.mqtt_sessions,
            "events": edge.event_streams,
            "echo": edge.echo_sessions,
            "http": edge.connections.saturating_sub(known),
        },
        "tls_connections": statistics.tls.open_tls12 + statistics.tls.open_tls13,
        "subscriptions": edge.subscriptions,
        "filters": edge.filters,
        "topics": home.topics,
        "retained": home.retained,
        "records": home.records,
        "log_bytes": home.log_bytes,
        "disk_bytes": log.bytes,
        "lagging_streams": home.lagging_streams,
        "pinned_bytes": edge.pinned_bytes,
        "publish_to_write": histogram(&statistics.timings.deliveries),
        "memory_pressure": door.pressure,
        "memory_used_bytes": door.memory_used_bytes,
        "memory_ceiling_bytes": door.memory_ceiling_bytes,
        "memory": components,
        "engine": engine(&statistics.engine),
        "total": totals(statistics),
    })
}

/// Present values of the engine; none without a log there.
fn engine(engine: &EngineStatistics) -> Option<Value> {
    (engine.partitions > 0).then(|| {
        json!({
            "partitions": engine.partitions,
            "partitions_behind": engine.partitions_behind,
            "partitions_unavailable": engine.partitions_unavailable,
            "lag_records": engine.lag_records,
            "pending": engine.pending,
            "silence_ms": engine.silence_ms,
        })
    })
}

/// Counters since the start.
fn totals(statistics: &NodeStatistics) -> Value {
    let NodeStatistics { edge, home, timings, .. } = statistics;
    json!({
        "accepted": edge.accepted,
        "closed": edge.closed,
        "publishes": edge.publishes,
        "published": home.published,
        "delivered": edge.delivered,
        "read_bytes": edge.read_bytes,
        "written_bytes": edge.written_bytes,
        "http_requests": edge.http_requests,
        "lagging": edge.lagging,
        "conflated": edge.conflated,
        "dropped": edge.dropped,
        "gaps": edge.gaps,
        "pages": edge.pages,
        "slow_closed": edge.slow_closed,
        "forbidden": edge.forbidden.total(),
        "credentials_refused": edge.credentials_refused,
        "refusals": statistics_history::refusals(statistics),
        "protocol_errors": edge.protocol_errors,
        "turns": timings.turns.count(),
        "long_turns": timings.long_turns,
    })
}

/// Counts by duration since the start; the difference of two samples is the interval between them.
fn histogram(histogram: &Histogram) -> Value {
    let (bounds, counts): (Vec<u64>, Vec<u64>) = histogram.cumulative().unzip();
    json!({
        "bounds_us": bounds,
        "at_most": counts,
        "count": histogram.count(),
        "sum_us": histogram.sum_us(),
    })
}

fn position(Position { epoch, offset }: Position) -> String {
    format!("{epoch}:{offset}")
}

fn policy(policy: LagPolicy) -> &'static str {
    match policy {
        LagPolicy::Replay => "replay",
        LagPolicy::Conflate => "conflate",
        LagPolicy::Drop => "drop",
        LagPolicy::Disconnect => "disconnect",
    }
}

/// `null` stands for an unlimited value.
fn bounded(number: u64) -> Option<u64> {
    (number < u64::MAX).then_some(number)
}
