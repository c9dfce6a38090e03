//! Frames as the JSON of `spec/vectors/`, and back. Numbers of 64 bits are decimal strings,
//! payloads hex.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod files;

use serde_json::{Map, Value, json};
use wire::native::*;

pub fn field<'v>(value: &'v Value, key: &str) -> &'v Value {
    value.get(key).unwrap_or_else(|| panic!("no {key} in {value}"))
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a string"))
}

pub fn big(value: &Value, key: &str) -> u64 {
    text(field(value, key)).parse().unwrap()
}

fn small(value: &Value, key: &str) -> u32 {
    let number = field(value, key).as_u64().unwrap_or_else(|| panic!("{key} in {value}"));
    number.try_into().unwrap()
}

fn flag(value: &Value, key: &str) -> bool {
    field(value, key).as_bool().unwrap()
}

fn optional_text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    field(value, key).as_str()
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    field(value, key).as_array().unwrap()
}

fn present<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    Some(field(value, key)).filter(|value| !value.is_null())
}

pub fn client_json(frame: &ClientFrame<'_>) -> Value {
    match frame {
        ClientFrame::Hello(hello) => json!({
            "type": "hello", "ping_interval_s": hello.ping_interval_s,
            "token": hello.token, "name": hello.name, "ticket": hello.ticket.map(files::hex),
            "cursors": hello.cursors.iter().map(|cursor| json!({
                "subscription": cursor.subscription, "partition": cursor.partition,
                "epoch": cursor.position.epoch.to_string(),
                "offset": cursor.position.offset.to_string(),
            })).collect::<Vec<_>>(),
        }),
        ClientFrame::Subscribe(subscribe) => {
            let items: Vec<Value> = subscribe.items.iter().map(item_json).collect();
            json!({ "type": "subscribe", "items": items })
        }
        ClientFrame::Unsubscribe(unsubscribe) => {
            let subscriptions: Vec<u32> = unsubscribe.subscriptions.iter().collect();
            json!({ "type": "unsubscribe", "subscriptions": subscriptions })
        }
        ClientFrame::Publish(publish) => with_body(
            json!({
                "type": "publish", "request": publish.request, "topic": publish.topic,
                "retain": publish.options.retain,
                "producer": match publish.options.once {
                    Some(Once::Producer(producer)) => json!({
                        "id": files::hex(producer.id), "sequence": producer.sequence.to_string(),
                    }),
                    _ => Value::Null,
                },
                "idempotency_key": match publish.options.once {
                    Some(Once::Key(key)) => json!(files::hex(key)),
                    _ => Value::Null,
                },
                "expected_epoch": publish.options.expected_epoch.map(|epoch| epoch.to_string()),
            }),
            &publish.attributes,
            publish.payload,
        ),
        ClientFrame::History(history) => json!({
            "type": "history", "request": history.request, "topic": history.topic,
            "reverse": history.reverse, "position": history.position.map(position_json),
            "records_max": history.records_max, "bytes_max": history.bytes_max,
        }),
        ClientFrame::Credit(credit) => json!({
            "type": "credit", "subscription": credit.subscription, "messages": credit.messages,
        }),
        ClientFrame::Ping(token) => json!({ "type": "ping", "token": token.to_string() }),
        ClientFrame::Pong(token) => json!({ "type": "pong", "token": token.to_string() }),
        ClientFrame::Ticket(request) => json!({ "type": "ticket", "request": request }),
        ClientFrame::Renew(renew) => {
            json!({ "type": "renew", "request": renew.request, "token": renew.token })
        }
    }
}

fn item_json(item: SubscribeItem<'_>) -> Value {
    match item.request {
        Err(error) => json!({ "subscription": item.subscription, "error": error.code().name() }),
        Ok(request) => json!({
            "subscription": item.subscription, "filter": request.filter,
            "start": start_json(request.start), "fail_on_gap": request.fail_on_gap,
            "replay_credit": request.replay_credit,
            "policy": request.policy.map(|policy| POLICIES[usize::from(policy.number())]),
        }),
    }
}

const POLICIES: [&str; 4] = ["replay", "conflate", "drop", "disconnect"];

fn policy(value: &Value) -> Policy {
    let place = POLICIES.iter().position(|name| *name == text(value));
    Policy::from_number(place.unwrap().try_into().unwrap()).unwrap()
}

fn partition_json(at: PartitionPosition) -> Value {
    json!({
        "partition": at.partition, "epoch": at.position.epoch.to_string(),
        "offset": at.position.offset.to_string(),
    })
}

fn partition_position(value: &Value) -> PartitionPosition {
    PartitionPosition { partition: small(value, "partition"), position: position(value) }
}

fn beginning_json(beginning: &Beginning) -> Map<String, Value> {
    let Value::Object(map) = json!({
        "epoch": beginning.through.epoch.to_string(),
        "through": beginning.through.offset.to_string(),
        "replaying": beginning.replaying, "continued": beginning.continued,
    }) else {
        unreachable!("it is an object")
    };
    map
}

fn beginning(value: &Value) -> Beginning {
    Beginning {
        through: Position { epoch: big(value, "epoch"), offset: big(value, "through") },
        replaying: flag(value, "replaying"),
        continued: flag(value, "continued"),
    }
}

fn start_json(start: Start<'_>) -> Value {
    match start {
        Start::Live => json!({ "kind": "live" }),
        Start::Since(Position { epoch, offset }) => {
            json!({ "kind": "since", "epoch": epoch.to_string(), "offset": offset.to_string() })
        }
        Start::Last(count) => json!({ "kind": "last", "count": count }),
        Start::Snapshot => json!({ "kind": "snapshot" }),
        Start::SinceEach(positions) => json!({
            "kind": "since_each",
            "positions": positions.iter().map(partition_json).collect::<Vec<_>>(),
        }),
    }
}

/// The positions by partition of a start.
fn start_positions(value: &Value) -> Vec<PartitionPosition> {
    match value.get("positions") {
        Some(positions) => {
            let positions = positions.as_array().unwrap();
            positions.iter().map(partition_position).collect()
        }
        None => Vec::new(),
    }
}

fn start<'v>(value: &Value, positions: &'v [PartitionPosition]) -> Start<'v> {
    match text(field(value, "kind")) {
        "live" => Start::Live,
        "since" => Start::Since(position(value)),
        "last" => Start::Last(small(value, "count")),
        "snapshot" => Start::Snapshot,
        "since_each" => Start::SinceEach(positions.into()),
        other => panic!("unknown start {other}"),
    }
}

fn position_json(position: Position) -> Value {
    json!({ "epoch": position.epoch.to_string(), "offset": position.offset.to_string() })
}

fn position(value: &Value) -> Position {
    Position { epoch: big(value, "epoch"), offset: big(value, "offset") }
}

fn with_body(mut fields: Value, attributes: &Attributes<'_>, payload: &[u8]) -> Value {
    let tags: Vec<Value> = attributes.tags.iter().map(|tag| json!([tag.key, tag.value])).collect();
    let map: &mut Map<String, Value> = fields.as_object_mut().unwrap();
    map.insert("content_type".into(), json!(attributes.content_type));
    map.insert("tags".into(), json!(tags));
    map.insert("payload".into(), json!(files::hex(payload)));
    fields
}

fn tags(value: &Value) -> Vec<Tag<'_>> {
    list(value, "tags").iter().map(|tag| Tag { key: text(&tag[0]), value: text(&tag[1]) }).collect()
}

fn attributes<'v>(value: &'v Value, tags: &'v [Tag<'v>]) -> Attributes<'v> {
    Attributes { content_type: optional_text(value, "content_type"), tags: tags.into() }
}

fn retained(value: &Value) -> Retained {
    if flag(value, "retained") { Retained::Yes } else { Retained::No }
}

/// Builds the frame described by `value` and passes it to `use_frame`.
pub fn client_frame(value: &Value, use_frame: impl FnOnce(ClientFrame<'_>)) {
    match text(field(value, "type")) {
        "hello" => hello(value, use_frame),
        "subscribe" => subscribe(value, use_frame),
        "unsubscribe" => {
            let subscriptions: Vec<u32> = list(value, "subscriptions")
                .iter()
                .map(|number| number.as_u64().unwrap().try_into().unwrap())
                .collect();
            let subscriptions = subscriptions.as_slice().into();
            use_frame(ClientFrame::Unsubscribe(Unsubscribe { subscriptions }));
        }
        "publish" => publish(value, use_frame),
        "history" => use_frame(ClientFrame::History(History {
            request: small(value, "request"),
            topic: text(field(value, "topic")),
            reverse: flag(value, "reverse"),
            position: present(value, "position").map(position),
            records_max: small(value, "records_max"),
            bytes_max: small(value, "bytes_max"),
        })),
        "credit" => use_frame(ClientFrame::Credit(Credit {
            subscription: small(value, "subscription"),
            messages: small(value, "messages"),
        })),
        "ping" => use_frame(ClientFrame::Ping(big(value, "token"))),
        "pong" => use_frame(ClientFrame::Pong(big(value, "token"))),
        "ticket" => use_frame(ClientFrame::Ticket(small(value, "request"))),
        "renew" => use_frame(ClientFrame::Renew(Renew {
            request: small(value, "request"),
            token: text(field(value, "token")),
        })),
        other => panic!("unknown type {other}"),
    }
}

fn hello(value: &Value, use_frame: impl FnOnce(ClientFrame<'_>)) {
    let ticket = present(value, "ticket").map(files::bytes);
    let cursors: Vec<ResumeCursor> = list(value, "cursors")
        .iter()
        .map(|cursor| ResumeCursor {
            subscription: small(cursor, "subscription"),
            partition: present(cursor, "partition").map(|_| small(cursor, "partition")),
            position: position(cursor),
        })
        .collect();
    use_frame(ClientFrame::Hello(Hello {
        ping_interval_s: small(value, "ping_interval_s"),
        token: optional_text(value, "token"),
        name: optional_text(value, "name"),
        ticket: ticket.as_deref(),
        cursors: cursors.as_slice().into(),
    }));
}

fn subscribe(value: &Value, use_frame: impl FnOnce(ClientFrame<'_>)) {
    let positions: Vec<Vec<PartitionPosition>> =
        list(value, "items").iter().map(|item| start_positions(field(item, "start"))).collect();
    let items: Vec<SubscribeItem<'_>> = list(value, "items")
        .iter()
        .zip(&positions)
        .map(|(item, positions)| {
            SubscribeItem::new(
                small(item, "subscription"),
                SubscribeRequest {
                    filter: text(field(item, "filter")),
                    start: start(field(item, "start"), positions),
                    fail_on_gap: flag(item, "fail_on_gap"),
                    replay_credit: present(item, "replay_credit")
                        .map(|_| small(item, "replay_credit")),
                    policy: present(item, "policy").map(policy),
                },
            )
        })
        .collect();
    let items = items.as_slice().into();
    use_frame(ClientFrame::Subscribe(Subscribe { items }));
}

fn publish(value: &Value, use_frame: impl FnOnce(ClientFrame<'_>)) {
    let (tags, payload) = (tags(value), files::bytes(field(value, "payload")));
    let key = present(value, "idempotency_key").map(files::bytes);
    let producer = present(value, "producer")
        .map(|producer| (files::bytes(field(producer, "id")), big(producer, "sequence")));
    let once = match (&producer, &key) {
        (Some((id, sequence)), _) => Some(Once::Producer(Producer { id, sequence: *sequence })),
        (None, key) => key.as_deref().map(Once::Key),
    };
    use_frame(ClientFrame::Publish(Publish {
        request: small(value, "request"),
        topic: text(field(value, "topic")),
        options: PublishOptions {
            retain: flag(value, "retain"),
            once,
            expected_epoch: present(value, "expected_epoch").map(|_| big(value, "expected_epoch")),
        },
        attributes: attributes(value, &tags),
        payload: &payload,
    }));
}

const GAP_REASONS: [&str; 5] =
    ["evicted", "unknown_epoch", "beyond_head", "history_limit", "damaged"];
/// 0 and 2 have no meaning.
const SKIP_REASONS: [&str; 4] = ["0", "conflated", "2", "dropped"];

fn reason_json(names: &[&str], number: u8) -> Value {
    match names.get(usize::from(number)) {
        Some(name) => json!(name),
        None => json!(number.to_string()),
    }
}

fn reason(names: &[&str], value: &Value) -> u8 {
    let reason = text(field(value, "reason"));
    match names.iter().position(|name| *name == reason) {
        Some(number) => number.try_into().unwrap(),
        None => reason.parse().unwrap(),
    }
}

pub fn reference_json(reference: Reference) -> Value {
    let (kind, id) = match reference {
        Reference::Connection => ("connection", 0),
        Reference::Request(id) => ("request", id),
        Reference::Subscription(id) => ("subscription", id),
    };
    json!({ "kind": kind, "id": id })
}

pub fn server_json(frame: &ServerFrame<'_>) -> Value {
    match frame {
        ServerFrame::Welcome(welcome) => json!({
            "type": "welcome", "connection": welcome.connection.to_string(),
            "ping_interval_s": welcome.ping_interval_s, "time_ms": welcome.time_ms.to_string(),
            "frame_bytes_max": welcome.frame_bytes_max.to_string(),
            "message_bytes_max": welcome.message_bytes_max.to_string(),
            "subscriptions_per_session_max": welcome.subscriptions_per_session_max,
            "node": welcome.node, "resumed": welcome.resumed,
            "ticket_lifetime_s": welcome.ticket_lifetime_s,
        }),
        ServerFrame::Subscribed(subscribed) => subscribed_json(subscribed),
        ServerFrame::Unsubscribed(frame) => json!({
            "type": "unsubscribed", "subscription": frame.subscription, "code": frame.code,
        }),
        ServerFrame::Message(message) => message_json(message),
        ServerFrame::NamedMessage(message) => named_message_json(message),
        ServerFrame::CaughtUp(frame) => caught_up_json(frame),
        ServerFrame::Gap(gap) => json!({
            "type": "gap", "subscription": gap.subscription, "partition": gap.partition, "epoch": gap.epoch.to_string(),
            "from": gap.from.to_string(), "to": gap.to.to_string(),
            "reason": reason_json(&GAP_REASONS, gap.reason.number()),
        }),
        ServerFrame::Skipped(skipped) => skipped_json(skipped),
        ServerFrame::Published(published) => json!({
            "type": "published", "request": published.request,
            "epoch": published.position.epoch.to_string(),
            "offset": published.position.offset.to_string(), "duplicate": published.duplicate,
        }),
        ServerFrame::HistoryPage(page) => history_page_json(page),
        ServerFrame::Error(error) => json!({
            "type": "error", "reference": reference_json(error.reference), "code": error.code,
            "temporary": error.temporary, "message": error.message,
            "restart": error.restart.map(position_json),
            "limit": error.limit.map(|limit| limit.to_string()),
        }),
        ServerFrame::GoAway(frame) => {
            let urls: Vec<&str> = frame.urls.iter().collect();
            json!({
                "type": "go_away", "code": frame.code,
                "return_after_ms": frame.return_after_ms.to_string(), "urls": urls,
                "ticket": frame.ticket.map(files::hex),
            })
        }
        ServerFrame::Ping(token) => json!({ "type": "ping", "token": token.to_string() }),
        ServerFrame::Pong(token) => json!({ "type": "pong", "token": token.to_string() }),
        ServerFrame::Renewed(renewed) => json!({
            "type": "renewed", "request": renewed.request, "expires_ms": renewed.expires_ms.to_string(),
        }),
        ServerFrame::TokenExpires(at_ms) => {
            json!({ "type": "token_expires", "expires_ms": at_ms.to_string() })
        }
        ServerFrame::TicketIssued(issued) => json!({
            "type": "ticket_issued", "request": issued.request,
            "expires_ms": issued.expires_ms.to_string(), "ticket": files::hex(issued.ticket),
        }),
    }
}

fn message_json(message: &Message<'_>) -> Value {
    with_body(
        with_lineage(
            message.lineage,
            json!({
                "type": "message", "alias": message.alias, "offset": message.offset.to_string(),
                "prev": message.prev.to_string(), "retained": message.retained == Retained::Yes,
            }),
        ),
        &message.attributes,
        message.payload,
    )
}

fn caught_up_json(frame: &CaughtUp) -> Value {
    with_lineage(
        frame.lineage,
        json!({ "type": "caught_up", "subscription": frame.subscription,
            "partition": frame.partition, "through": frame.through.to_string(), }),
    )
}

fn skipped_json(skipped: &Skipped) -> Value {
    with_lineage(
        skipped.lineage,
        json!({
            "type": "skipped", "subscription": skipped.subscription,
            "partition": skipped.partition.map(|of| json!({
                "partition": of.partition, "epoch": of.epoch.to_string(),
            })),
            "from": skipped.from.to_string(), "through": skipped.through.to_string(),
            "reason": reason_json(&SKIP_REASONS, skipped.reason.number()),
        }),
    )
}

/// The member of a lineage is absent where the frame has none.
fn with_lineage(lineage: Option<u8>, mut frame: Value) -> Value {
    if let Some(lineage) = lineage {
        frame["lineage"] = json!(lineage);
    }
    frame
}

fn lineage(value: &Value) -> Option<u8> {
    Some(value.get("lineage")?.as_u64()? as u8)
}

fn named_message_json(message: &NamedMessage<'_>) -> Value {
    with_body(
        with_lineage(
            message.lineage,
            json!({
                "type": "named_message", "topic": message.topic, "partition": message.partition,
                "subscription": message.subscription,
                "epoch": message.position.epoch.to_string(),
                "offset": message.position.offset.to_string(),
                "prev": message.prev.to_string(), "retained": message.retained == Retained::Yes,
            }),
        ),
        &message.attributes,
        message.payload,
    )
}

fn subscribed_json(subscribed: &Subscribed<'_>) -> Value {
    let number = subscribed.subscription;
    let (topic, filter) = match subscribed.to {
        SubscribedTo::Topic(topic) => {
            let mut fields = beginning_json(&topic.beginning);
            fields.insert("alias".into(), json!(topic.alias));
            (Value::Object(fields), Value::Null)
        }
        SubscribedTo::Filter(partitions) => {
            let partitions: Vec<Value> = partitions
                .iter()
                .map(|at| {
                    let mut fields = beginning_json(&at.beginning);
                    fields.insert("partition".into(), json!(at.partition));
                    Value::Object(fields)
                })
                .collect();
            (Value::Null, json!(partitions))
        }
    };
    json!({
        "type": "subscribed", "subscription": number, "topic": topic, "filter": filter,
    })
}

fn history_page_json(page: &HistoryPage<'_>) -> Value {
    let records: Vec<Value> = page.records.iter().map(|record| record_json(&record)).collect();
    json!({
        "type": "history_page", "request": page.request, "epoch": page.epoch.to_string(),
        "head": page.head.to_string(), "more": page.more, "reverse": page.reverse,
        "gap": page.gap.map(|gap| json!({
            "from": gap.from.to_string(), "to": gap.to.to_string(),
            "reason": reason_json(&GAP_REASONS, gap.reason.number()),
        })),
        "records": records,
    })
}

fn record_json(record: &HistoryRecord<'_>) -> Value {
    with_body(
        json!({
            "offset": record.offset.to_string(), "prev": record.prev.to_string(),
            "time_ms": record.time_ms.to_string(), "retained": record.retained == Retained::Yes,
        }),
        &record.attributes,
        record.payload,
    )
}

/// Builds the frame described by `value` and passes it to `use_frame`.
pub fn server_frame(value: &Value, use_frame: impl FnOnce(ServerFrame<'_>)) {
    match text(field(value, "type")) {
        "welcome" => welcome(value, use_frame),
        "subscribed" => subscribed(value, use_frame),
        "unsubscribed" => use_frame(ServerFrame::Unsubscribed(Unsubscribed {
            subscription: small(value, "subscription"),
            code: small(value, "code"),
        })),
        "message" => message(value, use_frame),
        "named_message" => named_message(value, use_frame),
        "caught_up" => use_frame(ServerFrame::CaughtUp(CaughtUp {
            subscription: small(value, "subscription"),
            partition: present(value, "partition").map(|_| small(value, "partition")),
            through: big(value, "through"),
            lineage: lineage(value),
        })),
        "gap" => use_frame(ServerFrame::Gap(Gap {
            subscription: small(value, "subscription"),
            partition: present(value, "partition").map(|_| small(value, "partition")),
            epoch: big(value, "epoch"),
            from: big(value, "from"),
            to: big(value, "to"),
            reason: GapReason::from_number(reason(&GAP_REASONS, value)),
        })),
        "skipped" => use_frame(ServerFrame::Skipped(Skipped {
            subscription: small(value, "subscription"),
            partition: present(value, "partition").map(|of| PartitionEpoch {
                partition: small(of, "partition"),
                epoch: big(of, "epoch"),
            }),
            from: big(value, "from"),
            through: big(value, "through"),
            reason: SkipReason::from_number(reason(&SKIP_REASONS, value)),
            lineage: lineage(value),
        })),
        "published" => use_frame(ServerFrame::Published(Published {
            request: small(value, "request"),
            position: position(value),
            duplicate: flag(value, "duplicate"),
        })),
        "history_page" => history_page(value, use_frame),
        "error" => use_frame(ServerFrame::Error(ErrorFrame {
            reference: reference(field(value, "reference")),
            code: small(value, "code"),
            temporary: flag(value, "temporary"),
            message: text(field(value, "message")),
            restart: present(value, "restart").map(position),
            limit: present(value, "limit").map(|_| big(value, "limit")),
        })),
        "go_away" => go_away(value, use_frame),
        "ping" => use_frame(ServerFrame::Ping(big(value, "token"))),
        "pong" => use_frame(ServerFrame::Pong(big(value, "token"))),
        "renewed" => use_frame(ServerFrame::Renewed(Renewed {
            request: small(value, "request"),
            expires_ms: big(value, "expires_ms"),
        })),
        "token_expires" => use_frame(ServerFrame::TokenExpires(big(value, "expires_ms"))),
        "ticket_issued" => use_frame(ServerFrame::TicketIssued(TicketIssued {
            request: small(value, "request"),
            expires_ms: big(value, "expires_ms"),
            ticket: &files::bytes(field(value, "ticket")),
        })),
        other => panic!("unknown type {other}"),
    }
}

fn welcome(value: &Value, use_frame: impl FnOnce(ServerFrame<'_>)) {
    use_frame(ServerFrame::Welcome(Welcome {
        connection: big(value, "connection"),
        ping_interval_s: small(value, "ping_interval_s"),
        time_ms: big(value, "time_ms"),
        frame_bytes_max: big(value, "frame_bytes_max"),
        message_bytes_max: big(value, "message_bytes_max"),
        subscriptions_per_session_max: small(value, "subscriptions_per_session_max"),
        node: optional_text(value, "node"),
        resumed: present(value, "resumed").map(|_| small(value, "resumed")),
        ticket_lifetime_s: present(value, "ticket_lifetime_s")
            .map(|_| small(value, "ticket_lifetime_s")),
    }));
}

fn go_away(value: &Value, use_frame: impl FnOnce(ServerFrame<'_>)) {
    let urls: Vec<&str> = list(value, "urls").iter().map(text).collect();
    let ticket = present(value, "ticket").map(files::bytes);
    use_frame(ServerFrame::GoAway(GoAway {
        code: small(value, "code"),
        return_after_ms: big(value, "return_after_ms"),
        urls: urls.as_slice().into(),
        ticket: ticket.as_deref(),
    }));
}

fn subscribed(value: &Value, use_frame: impl FnOnce(ServerFrame<'_>)) {
    let partitions: Vec<PartitionBeginning> = present(value, "filter")
        .map_or(&[][..], |partitions| partitions.as_array().unwrap())
        .iter()
        .map(|at| PartitionBeginning {
            partition: small(at, "partition"),
            beginning: beginning(at),
        })
        .collect();
    let to = match present(value, "topic") {
        Some(topic) => SubscribedTo::Topic(PlainTopic {
            alias: small(topic, "alias"),
            beginning: beginning(topic),
        }),
        None => SubscribedTo::Filter(partitions.as_slice().into()),
    };
    let subscription = small(value, "subscription");
    use_frame(ServerFrame::Subscribed(Subscribed { subscription, to }));
}

fn message(value: &Value, use_frame: impl FnOnce(ServerFrame<'_>)) {
    let (tags, payload) = (tags(value), files::bytes(field(value, "payload")));
    use_frame(ServerFrame::Message(Message {
        alias: small(value, "alias"),
        offset: big(value, "offset"),
        prev: big(value, "prev"),
        retained: retained(value),
        lineage: lineage(value),
        attributes: attributes(value, &tags),
        payload: &payload,
    }));
}

fn named_message(value: &Value, use_frame: impl FnOnce(ServerFrame<'_>)) {
    let (tags, payload) = (tags(value), files::bytes(field(value, "payload")));
    use_frame(ServerFrame::NamedMessage(NamedMessage {
        topic: text(field(value, "topic")),
        partition: small(value, "partition"),
        position: position(value),
        prev: big(value, "prev"),
        retained: retained(value),
        subscription: present(value, "subscription").map(|_| small(value, "subscription")),
        lineage: lineage(value),
        attributes: attributes(value, &tags),
        payload: &payload,
    }));
}

fn history_page(value: &Value, use_frame: impl FnOnce(ServerFrame<'_>)) {
    let records = list(value, "records");
    let owned: Vec<(Vec<Tag<'_>>, Vec<u8>)> = records
        .iter()
        .map(|record| (tags(record), files::bytes(field(record, "payload"))))
        .collect();
    let records: Vec<HistoryRecord<'_>> = records
        .iter()
        .zip(&owned)
        .map(|(record, (tags, payload))| HistoryRecord {
            offset: big(record, "offset"),
            prev: big(record, "prev"),
            time_ms: big(record, "time_ms"),
            retained: retained(record),
            attributes: attributes(record, tags),
            payload,
        })
        .collect();
    use_frame(ServerFrame::HistoryPage(HistoryPage {
        request: small(value, "request"),
        epoch: big(value, "epoch"),
        head: big(value, "head"),
        more: flag(value, "more"),
        reverse: flag(value, "reverse"),
        gap: present(value, "gap").map(|gap| PageGap {
            from: big(gap, "from"),
            to: big(gap, "to"),
            reason: GapReason::from_number(reason(&GAP_REASONS, gap)),
        }),
        records: records.as_slice().into(),
    }));
}

fn reference(value: &Value) -> Reference {
    let id = small(value, "id");
    match text(field(value, "kind")) {
        "connection" => Reference::Connection,
        "request" => Reference::Request(id),
        "subscription" => Reference::Subscription(id),
        other => panic!("unknown reference {other}"),
    }
}
