//! Output of messages and events for `sub`, `pub` and `history`: lines for people, objects for
//! programs.
//!
//! Invariant: one message or event is one line, and no payload can move a terminal's cursor.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::{
    CloseCode, ErrorCode, Event, GapCause, GapReason, HistoryGap, Message, Position, Reason,
    ServerError, SkipReason,
};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// A message as one line.
pub fn message_line(message: &Message, has_colours: bool) -> String {
    let position = position_text(message.position);
    let text = payload_text(&message.payload);
    if has_colours {
        format!("\x1b[36m{}\x1b[0m \x1b[2m{position}\x1b[0m {text}", escape(&message.topic))
    } else {
        format!("{} {position} {text}", escape(&message.topic))
    }
}

/// A payload on one line: escaped text, or base64.
pub fn payload_text(payload: &[u8]) -> String {
    match std::str::from_utf8(payload) {
        Ok(text) => escape(text),
        Err(_) => format!("base64:{}", STANDARD.encode(payload)),
    }
}

/// A message as an object, with the member names of the node's HTTP answers. `data` is the payload
/// if it is UTF-8, else `b64data` is.
pub fn message_json(message: &Message) -> Value {
    let mut object = Map::new();
    object.insert("event".into(), "message".into());
    object.insert("topic".into(), (*message.topic).into());
    object.insert("position".into(), position_text(message.position).into());
    object.insert("offset".into(), message.position.offset.into());
    object.insert("prev".into(), message.prev.into());
    let (key, value) = payload_json(&message.payload);
    object.insert(key.into(), value);
    if let Some(content_type) = &message.content_type {
        object.insert("content_type".into(), content_type.as_str().into());
    }
    if !message.tags.is_empty() {
        let tags = message.tags.iter().map(|(key, value)| (key.clone(), value.as_str().into()));
        object.insert("tags".into(), Value::Object(tags.collect()));
    }
    if message.retained {
        object.insert("retained".into(), true.into());
    }
    if let Some(time_ms) = message.time_ms {
        object.insert("time_ms".into(), time_ms.into());
    }
    Value::Object(object)
}

/// A payload as a member of an object: `data` if it is UTF-8, else `b64data`.
pub fn payload_json(payload: &[u8]) -> (&'static str, Value) {
    match std::str::from_utf8(payload) {
        Ok(text) => ("data", text.into()),
        Err(_) => ("b64data", STANDARD.encode(payload).into()),
    }
}

/// An event as an object.
pub fn event_json(event: &Event) -> Value {
    let position =
        |place: &Option<Position>| place.map_or(Value::Null, |place| position_text(place).into());
    match event {
        Event::Message(message) => message_json(message),
        Event::Connected { connection, node } => {
            json!({"event": "connected", "connection": connection.to_string(), "node": node})
        }
        Event::Subscribed { filter, position: place, replaying, .. } => {
            json!({"event": "subscribed", "filter": **filter, "position": position(place), "replaying": replaying})
        }
        Event::CaughtUp { filter, partition, position: place, complete, .. } => with_partition(
            json!({"event": "caught_up", "filter": **filter, "position": position_text(*place), "complete": complete}),
            *partition,
        ),
        Event::Gap { filter, partition, from, to, cause, .. } => with_partition(
            json!({"event": "gap", "filter": **filter, "from": position(from), "to": position(to), "cause": cause_word(*cause)}),
            *partition,
        ),
        Event::Skipped { filter, partition, from, through, reason, .. } => with_partition(
            json!({"event": "skipped", "filter": **filter, "from": from, "through": through, "reason": skip_word(*reason)}),
            *partition,
        ),
        Event::Unsubscribed { filter, error, .. } => {
            let error =
                error.as_ref().map(|error| json!({"code": error.code, "message": error.message}));
            json!({"event": "unsubscribed", "filter": **filter, "error": error})
        }
        Event::Error(error) => {
            json!({"event": "error", "code": error.code, "message": error.message})
        }
        Event::TokenExpires { in_ms } => json!({"event": "token_expires", "in_ms": in_ms}),
        Event::TokenRenewed { expires_in_ms } => {
            json!({"event": "token_renewed", "expires_in_ms": expires_in_ms})
        }
        Event::TokenRefused(error) => {
            json!({"event": "token_refused", "code": error.code, "message": error.message})
        }
        Event::GoAway { code, return_after_ms, urls } => {
            json!({"event": "go_away", "code": code, "return_after_ms": return_after_ms, "urls": urls})
        }
        Event::Disconnected { reason, retry_in_ms } => {
            json!({"event": "disconnected", "reason": reason.to_string(), "retry_in_ms": retry_in_ms})
        }
    }
}

/// Adds the partition, if the event of a filter has one.
fn with_partition(mut object: Value, partition: Option<u32>) -> Value {
    if let Some(partition) = partition {
        object["partition"] = partition.into();
    }
    object
}

/// A sentence for a person about an event; `None` for events of normal operation.
pub fn event_sentence(event: &Event) -> Option<String> {
    let place =
        |place: &Option<Position>| place.map_or("an unknown position".into(), position_text);
    match event {
        Event::Message(_)
        | Event::Connected { .. }
        | Event::Subscribed { .. }
        | Event::CaughtUp { .. } => None,
        Event::Gap { filter, cause: GapCause::Reconnected, .. } => Some(format!(
            "gap: {}: messages published while the connection was lost are not recovered for filters",
            escape(filter)
        )),
        Event::Gap { filter, from, to, cause, .. } => Some(format!(
            "gap: {}: messages after {} up to {} are lost ({})",
            escape(filter),
            place(from),
            place(to),
            cause_word(*cause)
        )),
        Event::Skipped { filter, from, through, reason, .. } => Some(format!(
            "skipped: {}: offsets after {from} up to {through} ({})",
            escape(filter),
            skip_word(*reason)
        )),
        Event::Unsubscribed { filter, error: Some(error), .. } => {
            Some(format!("{}: {}", escape(filter), escape(&error.to_string())))
        }
        Event::Unsubscribed { error: None, .. } => None,
        Event::Error(error) => Some(escape(&with_remedy(error))),
        Event::TokenExpires { in_ms } => {
            Some(format!("the token expires in {} s", in_ms.div_ceil(1_000)))
        }
        Event::TokenRenewed { .. } => None,
        Event::TokenRefused(error) => {
            Some(format!("the new token is refused: {}", escape(&error.to_string())))
        }
        Event::GoAway { return_after_ms, .. } => Some(format!(
            "the server asks the client to disconnect, and to reconnect after {return_after_ms} ms"
        )),
        Event::Disconnected { reason, retry_in_ms: Some(delay_ms) } => Some(format!(
            "not connected: {}; next attempt in {delay_ms} ms",
            escape(&reason.to_string())
        )),
        // The error before it has given the reason.
        Event::Disconnected { reason: Reason::Closed { code, .. }, retry_in_ms: None }
            if *code == CloseCode::Unauthorized.number() =>
        {
            None
        }
        Event::Disconnected { reason, retry_in_ms: None } => {
            Some(format!("not connected: {}", escape(&reason.to_string())))
        }
    }
}

/// A refusal; for a missing token, also how to give one.
fn with_remedy(error: &ServerError) -> String {
    match ErrorCode::from_number(error.code.into()) {
        Some(ErrorCode::Unauthorized) => format!("{error}: use --token-file FILE or CRORE_TOKEN"),
        _ => error.to_string(),
    }
}

/// A gap of a page of history as an object, with the members of a subscription's gap. `asked` is
/// the position in the request.
pub fn history_gap_json(
    topic: &str,
    epoch: u64,
    gap: &HistoryGap,
    asked: Option<Position>,
) -> Value {
    let (from, to) = history_gap_ends(epoch, gap, asked);
    let from = from.map(position_text);
    let cause = cause_word(GapCause::Announced(gap.reason));
    json!({"event": "gap", "topic": topic, "from": from, "to": position_text(to), "cause": cause})
}

/// A gap of a page of history as a sentence.
pub fn history_gap_sentence(
    topic: &str,
    epoch: u64,
    gap: &HistoryGap,
    asked: Option<Position>,
) -> String {
    let (from, to) = history_gap_ends(epoch, gap, asked);
    let from = from.map_or("the beginning".into(), position_text);
    format!(
        "gap: {}: messages after {from} up to {} are no longer available ({})",
        escape(topic),
        position_text(to),
        cause_word(GapCause::Announced(gap.reason))
    )
}

/// The gap's exclusive start and inclusive end.
fn history_gap_ends(
    epoch: u64,
    gap: &HistoryGap,
    asked: Option<Position>,
) -> (Option<Position>, Position) {
    let at = |offset| Position { epoch, offset };
    let from = match gap.reason {
        // The page's own offsets do not relate to the position in the request.
        GapReason::UnknownEpoch | GapReason::BeyondHead => asked,
        _ if gap.from > 0 => Some(at(gap.from)),
        _ => None,
    };
    (from, at(gap.to))
}

/// Writes a position as `<epoch>:<offset>`.
pub fn position_text(position: Position) -> String {
    format!("{}:{}", position.epoch, position.offset)
}

/// Parses `<epoch>:<offset>`, for flags.
///
/// # Errors
/// The text has another form. The error states the expected form.
pub fn parse_position(text: &str) -> Result<Position, String> {
    let number = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { digits.parse().ok() } else { None }
    };
    text.split_once(':')
        .and_then(|(epoch, offset)| {
            Some(Position { epoch: number(epoch)?, offset: number(offset)? })
        })
        .ok_or_else(|| "expected EPOCH:OFFSET, such as 1795299543:17".into())
}

/// Parses `key=value`, for flags.
///
/// # Errors
/// The text has another form. The error states the expected form.
pub fn parse_tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err("expected KEY=VALUE".into()),
    }
}

/// Escapes control characters. A backslash stays as it is, because no program parses the output.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push('\t'),
            control if control.is_control() => {
                let _ = write!(escaped, "\\u{{{:x}}}", control as u32);
            }
            plain => escaped.push(plain),
        }
    }
    escaped
}

/// The word for a reason in JSON.
pub fn cause_word(cause: GapCause) -> &'static str {
    match cause {
        GapCause::Announced(GapReason::Evicted) => "evicted",
        GapCause::Announced(GapReason::UnknownEpoch) => "unknown_epoch",
        GapCause::Announced(GapReason::BeyondHead) => "beyond_head",
        GapCause::Announced(GapReason::HistoryLimit) => "history_limit",
        GapCause::Announced(GapReason::Damaged) => "damaged",
        GapCause::Announced(_) => "other",
        GapCause::Unannounced => "unannounced",
        GapCause::Reconnected => "reconnected",
    }
}

fn skip_word(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Conflated => "conflated",
        SkipReason::Dropped => "dropped",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(payload: &[u8]) -> Message {
        Message {
            subscription: None,
            also: Vec::new(),
            topic: "a/b".into(),
            position: Position { epoch: 7, offset: 3 },
            partition: None,
            prev: 1,
            payload: payload.to_vec(),
            content_type: Some("text/plain".into()),
            tags: vec![("k".into(), "v".into())],
            retained: false,
            time_ms: None,
        }
    }

    #[test]
    fn lines() {
        for (payload, expected) in [
            (&b"hello"[..], "a/b 7:3 hello"),
            (b"two\nlines", "a/b 7:3 two\\nlines"),
            (b"\x1b[2J", "a/b 7:3 \\u{1b}[2J"),
            ("\u{9b}2J".as_bytes(), "a/b 7:3 \\u{9b}2J"),
            (b"\xff\x00", "a/b 7:3 base64:/wA="),
        ] {
            assert_eq!(message_line(&message(payload), false), expected);
        }
    }

    #[test]
    fn objects() {
        assert_eq!(
            message_json(&message(b"x")),
            json!({"event": "message", "topic": "a/b", "position": "7:3", "offset": 3, "prev": 1, "data": "x",
                   "content_type": "text/plain", "tags": {"k": "v"}})
        );
        assert_eq!(message_json(&message(b"\xff"))["b64data"], "/w==");
        let gap = |partition| Event::Gap {
            subscription: client::SubscriptionId(1),
            filter: "a".into(),
            partition,
            from: None,
            to: Some(Position { epoch: 7, offset: 9 }),
            cause: GapCause::Announced(GapReason::Evicted),
        };
        assert_eq!(
            event_json(&gap(None)),
            json!({"event": "gap", "filter": "a", "from": null, "to": "7:9", "cause": "evicted"})
        );
        assert_eq!(event_json(&gap(Some(3)))["partition"], 3);
        let sentence = event_sentence(&gap(None)).unwrap();
        assert_eq!(
            sentence,
            "gap: a: messages after an unknown position up to 7:9 are lost (evicted)"
        );
    }

    #[test]
    fn gaps_of_history() {
        fn check(from: u64, reason: GapReason, object: Value, sentence: &str) {
            let gap = HistoryGap { from, to: 9, reason };
            let asked = Some(Position { epoch: 3, offset: 4 });
            assert_eq!(history_gap_json("a", 7, &gap, asked), object);
            assert_eq!(history_gap_sentence("a", 7, &gap, asked), sentence);
        }
        check(
            4,
            GapReason::Evicted,
            json!({"event": "gap", "topic": "a", "from": "7:4", "to": "7:9", "cause": "evicted"}),
            "gap: a: messages after 7:4 up to 7:9 are no longer available (evicted)",
        );
        check(
            0,
            GapReason::HistoryLimit,
            json!({"event": "gap", "topic": "a", "from": null, "to": "7:9", "cause": "history_limit"}),
            "gap: a: messages after the beginning up to 7:9 are no longer available (history_limit)",
        );
        check(
            0,
            GapReason::UnknownEpoch,
            json!({"event": "gap", "topic": "a", "from": "3:4", "to": "7:9", "cause": "unknown_epoch"}),
            "gap: a: messages after 3:4 up to 7:9 are no longer available (unknown_epoch)",
        );
    }

    #[test]
    fn positions() {
        assert_eq!(parse_position("7:3"), Ok(Position { epoch: 7, offset: 3 }));
        for bad in ["", "7", "7:", ":3", "-7:3", "+7:3", "7:3:1", "x:y", "7: 3"] {
            assert!(parse_position(bad).is_err(), "{bad}");
        }
    }
}
