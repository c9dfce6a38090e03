//! Frames of scenarios: defaults and short forms of the server's, the codec for both.

use serde_json::{Map, Value, json};
use wire::native::ClientFrame;

use crate::native_json;

/// The epoch of offsets without one.
const EPOCH: u64 = 7;

/// Encodes a server's frame; fields that are left out have defaults.
///
/// # Errors
/// The frame is not a frame.
pub fn encode(frame: &Value) -> Result<Vec<u8>, String> {
    let full = complete(frame)?;
    let mut bytes = Vec::new();
    native_json::server_frame(&full, |frame| frame.encode(&mut bytes));
    Ok(bytes)
}

/// Decodes a client's frame.
///
/// # Errors
/// The bytes are not a frame of a client.
pub fn decode(bytes: &[u8]) -> Result<Value, String> {
    let frame = ClientFrame::decode(bytes)
        .map_err(|error| format!("the client sent {}: {error}", crate::matching::hex(bytes)))?;
    Ok(native_json::client_json(&frame))
}

/// The whole frame of a short form.
fn complete(frame: &Value) -> Result<Value, String> {
    let kind = frame["type"].as_str().ok_or("a frame without `type`")?;
    let given = frame.as_object().ok_or("a frame is an object")?;
    let mut full = defaults(kind, frame).as_object().cloned().unwrap_or_default();
    for (key, value) in given {
        match key.as_str() {
            "position" => {
                let (epoch, offset) = position(value)?;
                full.insert("epoch".into(), json!(epoch));
                full.insert("offset".into(), json!(offset));
            }
            "restart" if value.is_string() => {
                let (epoch, offset) = position(value)?;
                full.insert("restart".into(), json!({"epoch": epoch, "offset": offset}));
            }
            "alias" | "through" | "replaying" | "continued" if kind == "subscribed" => {}
            "partitions" => {
                let list = value.as_array().ok_or("partitions are a list")?;
                let list = list.iter().map(partition).collect::<Result<Vec<_>, _>>()?;
                full.insert("filter".into(), Value::Array(list));
            }
            "subscription" | "request" if kind == "error" => {
                full.insert("reference".into(), json!({"kind": key, "id": value}));
            }
            "records" => {
                let list = value.as_array().ok_or("records are a list")?;
                let list = list.iter().map(record).collect();
                full.insert("records".into(), Value::Array(list));
            }
            _ => {
                full.insert(key.clone(), value.clone());
            }
        }
    }
    if kind == "subscribed" && !given.contains_key("partitions") {
        full.insert("topic".into(), topic(given)?);
    }
    // Fields of 64 bits are texts.
    let mut full = Value::Object(full);
    spell_numbers(&mut full);
    Ok(full)
}

fn defaults(kind: &str, frame: &Value) -> Value {
    let before = frame["offset"].as_u64().unwrap_or(1).saturating_sub(1);
    let attributes = json!({"content_type": null, "tags": [], "payload": "", "retained": false});
    let with_attributes = |mut fields: Value| {
        if let (Some(fields), Some(more)) = (fields.as_object_mut(), attributes.as_object()) {
            fields.extend(more.clone());
        }
        fields
    };
    match kind {
        "welcome" => json!({
            "connection": 1, "ping_interval_s": 0, "time_ms": 5_000_000,
            "frame_bytes_max": 1_048_576, "message_bytes_max": 65_536,
            "subscriptions_per_session_max": 1024, "node": null, "resumed": null,
            "ticket_lifetime_s": null,
        }),
        "subscribed" => json!({"topic": null, "filter": null}),
        "unsubscribed" => json!({"code": 0}),
        "message" => with_attributes(json!({"alias": 5, "prev": before})),
        "named_message" => with_attributes(json!({
            "partition": 0, "epoch": EPOCH, "prev": before, "subscription": null,
        })),
        "caught_up" => json!({"partition": null}),
        "gap" => json!({"partition": null, "epoch": EPOCH, "from": 0, "reason": "evicted"}),
        "skipped" => json!({"partition": null, "reason": "dropped"}),
        "published" => json!({"epoch": EPOCH, "duplicate": false}),
        "history_page" => json!({
            "epoch": EPOCH, "head": 100, "more": false, "reverse": false, "gap": null,
            "records": [],
        }),
        "error" => json!({
            "reference": {"kind": "connection", "id": 0}, "temporary": false, "message": "refused",
            "restart": null, "limit": null,
        }),
        "go_away" => json!({"code": 3001, "return_after_ms": 0, "urls": [], "ticket": null}),
        _ => json!({}),
    }
}

fn topic(given: &Map<String, Value>) -> Result<Value, String> {
    let (epoch, through) = given.get("through").map_or(Ok((EPOCH, 42)), position)?;
    let or = |key: &str, default: Value| given.get(key).cloned().unwrap_or(default);
    Ok(json!({
        "alias": or("alias", json!(5)), "epoch": epoch, "through": through,
        "replaying": or("replaying", json!(false)), "continued": or("continued", json!(false)),
    }))
}

fn partition(value: &Value) -> Result<Value, String> {
    let (epoch, through) = position(&value["through"])?;
    Ok(json!({
        "partition": value["partition"], "epoch": epoch, "through": through,
        "replaying": value["replaying"].as_bool().unwrap_or(false),
        "continued": value["continued"].as_bool().unwrap_or(false),
    }))
}

fn record(value: &Value) -> Value {
    let before = value["offset"].as_u64().unwrap_or(1).saturating_sub(1);
    let mut full = json!({
        "prev": before, "time_ms": 5, "retained": false, "content_type": null, "tags": [],
        "payload": "",
    });
    if let (Some(full), Some(given)) = (full.as_object_mut(), value.as_object()) {
        full.extend(given.clone());
    }
    full
}

fn position(value: &Value) -> Result<(u64, u64), String> {
    let parts = value.as_str().and_then(|text| text.split_once(':'));
    let numbers =
        parts.and_then(|(epoch, offset)| Some((epoch.parse().ok()?, offset.parse().ok()?)));
    numbers.ok_or_else(|| format!("{value} is not a position"))
}

const LONG_FIELDS: [&str; 17] = [
    "connection",
    "epoch",
    "expires_ms",
    "frame_bytes_max",
    "from",
    "head",
    "limit",
    "message_bytes_max",
    "offset",
    "prev",
    "return_after_ms",
    "sequence",
    "time_ms",
    "through",
    "to",
    "token",
    "expected_epoch",
];

fn spell_numbers(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::Number(number) if LONG_FIELDS.contains(&key.as_str()) => {
                        *value = Value::String(number.to_string());
                    }
                    value => spell_numbers(value),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(spell_numbers),
        _ => {}
    }
}
