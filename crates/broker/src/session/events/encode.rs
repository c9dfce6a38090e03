//! Notices and messages as events.
//!
//! Of a raw topic the data is the payload and `id:` the position. In an envelope the data is a JSON
//! object that names the topic, and `id:` a composite cursor (`cursor`). Events of ours have names
//! that begin with `crore.`, so that `onmessage` sees messages only.

use super::cursor::CURSOR_BYTES_MAX;
use super::{Events, Stream};
use crate::mail::{Gap, PartitionId};
use crate::notice::{Encoded, Found, Grant, LeftOut, Notice, Refusal, Settles, Then};
use crate::position::Position;
use crate::session::http::answer::{Answer, cross_origin};
use crate::session::http::parameters::DataForm;
use crate::session::json;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use log::RecordView;
use wire::http::ResponseWriter;
use wire::http::event_stream::{EVENT_STREAM_MEDIA_TYPE, OutgoingEvent};
use wire::http::problem::append_json_string;
use wire::native::ErrorCode;

/// Appends the event of a notice, without the line of its id where the stream's cursor is in it.
pub(in crate::session) fn notice(
    stream: &mut Stream<'_>,
    notice: &Notice<'_>,
    out: &mut Vec<u8>,
) -> Encoded {
    match *notice {
        Notice::Subscribed { client, grant, .. } => subscribed(stream, client, grant, out),
        // Where events of other topics had to go, their cursor must not be told;
        // `crore.caught_up` will bring it. Nor is there one before all topics have begun: with a
        // part of it a client would come back as a stranger. A replay brings it with its first
        // event.
        Notice::Started { client, position, is_replaying: false } if !stream.is_raw => {
            id_alone(stream, client, position, out)
        }
        // Its own position must not stay the last one that the client has seen.
        Notice::RetainedSent { client, position, .. } => id_alone(stream, client, position, out),
        Notice::SubscribedFilter { client, is_complete, .. } => {
            let mut data = about(stream.events.as_deref(), client);
            json::append(&mut data, format_args!("\"complete\":{is_complete}}}"));
            event("crore.start", None, &data, out)
        }
        Notice::FiltersStarted { partition, through } => {
            if cursor_text(stream).is_none() {
                return Encoded::ANSWER;
            }
            out.extend_from_slice(NO_EVENT);
            Encoded::mark(Settles::Filters { partition, after: through, through })
        }
        Notice::Refused { client, refusal } => refused(stream, client, &refusal, out),
        Notice::Gap { client, partition: None, gap, found, .. } => {
            topic_gap(stream, client, &gap, found, out)
        }
        Notice::Gap { client, partition: Some(partition), gap, found, .. } => {
            filter_gap(stream, (client, partition), &gap, found, out)
        }
        Notice::LeftOut { client, epoch, partition, left_out, .. } => {
            left_out_event(stream, (client, epoch), partition, &left_out, out)
        }
        Notice::CaughtUp { client, from, position, .. } => {
            event("crore.caught_up", None, b"{}", out);
            Encoded::mark(Settles::Topic { client, from, position })
        }
        Notice::FilterCaughtUp { partition, through, is_last, .. } => {
            filter_caught_up(stream, partition, through, is_last, out)
        }
        // The stream ends: the client comes back with the cursor that it has.
        Notice::Unsubscribed { client, code } => {
            let data = fault(about(stream.events.as_deref(), client), code.name(), code.text());
            event("crore.error", None, &data, out).then(Then::Close)
        }
        Notice::GoAway { return_after_ms, .. } => {
            let retry_ms = Some(return_after_ms.max(1));
            encode(&OutgoingEvent { retry_ms, ..OutgoingEvent::default() }, out);
            Encoded::ANSWER.then(Then::Close)
        }
        Notice::TokenExpires { expires_ms } => {
            let data = format!("{{\"expires_ms\":\"{expires_ms}\"}}");
            event("crore.token_expires", None, data.as_bytes(), out)
        }
        Notice::Started { .. }
        | Notice::Published { .. }
        | Notice::History { .. }
        | Notice::Failed { .. }
        | Notice::Welcome(_)
        | Notice::Ping { .. }
        | Notice::Pong { .. }
        | Notice::TicketIssued { .. }
        | Notice::Renewed { .. } => Encoded::ANSWER,
    }
}

/// The replay of a filter is over in one partition; the stream has an event for the last one.
fn filter_caught_up(
    stream: &mut Stream<'_>,
    partition: PartitionId,
    through: u64,
    is_last: bool,
    out: &mut Vec<u8>,
) -> Encoded {
    let settles = Settles::Filters { partition, after: through, through };
    stream.settle(settles);
    if !is_last {
        return Encoded::ANSWER;
    }
    event("crore.caught_up", None, b"{}", out);
    Encoded::mark(settles)
}

fn subscribed(stream: &mut Stream<'_>, client: u32, grant: &Grant, out: &mut Vec<u8>) -> Encoded {
    let position = grant.position;
    stream.settle(Settles::Topic { client, from: position.offset, position });
    let mut data = about(stream.events.as_deref(), client);
    let complete = grant.gap.is_none();
    json::append(&mut data, format_args!("\"position\":\"{position}\",\"complete\":{complete}"));
    let topic = stream.events.as_deref().and_then(|events| events.topic(client));
    if let Some(hint) = topic.and_then(hint_of) {
        data.extend_from_slice(b",\"hint\":");
        append_json_string(&mut data, hint);
    }
    data.push(b'}');
    // The stream's id moves only with the event that reports the gap before it.
    let id = (stream.is_raw && complete).then(|| position.to_string());
    event("crore.start", id.as_deref(), &data, out)
}

/// A topic's position without an event, if the stream has an id.
fn id_alone(stream: &Stream<'_>, client: u32, position: Position, out: &mut Vec<u8>) -> Encoded {
    if !stream.is_raw && cursor_text(stream).is_none() {
        return Encoded::ANSWER;
    }
    out.extend_from_slice(NO_EVENT);
    Encoded::mark(Settles::Topic { client, from: position.offset, position })
}

fn refused(stream: &mut Stream<'_>, client: u32, refusal: &Refusal, out: &mut Vec<u8>) -> Encoded {
    // A log that could not be read ends the stream, and so does an edge without room for a replay:
    // the client comes back with its cursor. If the stream continued without that part, the client
    // would not learn of the gap.
    let ends = matches!(refusal.code, ErrorCode::LogUnavailable | ErrorCode::Overloaded);
    if !ends && let Some(events) = &mut stream.events {
        events.cursor.refuse(client as usize);
    }
    let mut data = Vec::from(&b"{\"topic\":"[..]);
    let topic = stream.events.as_deref().and_then(|events| events.topic(client));
    append_json_string(&mut data, topic.unwrap_or_default());
    data.push(b',');
    let data = fault(data, refusal.code.name(), refusal.code.text());
    let encoded = event("crore.error", None, &data, out);
    // A raw stream without its topic has no purpose either; the client comes back after its delay.
    if ends || stream.is_raw { encoded.then(Then::Close) } else { encoded }
}

/// A gap of a topic is never dropped: it brings no cursor. A raw stream that begins behind a gap
/// gets its first id with it.
fn topic_gap(
    stream: &Stream<'_>,
    client: u32,
    gap: &Gap,
    found: Found,
    out: &mut Vec<u8>,
) -> Encoded {
    let mut data = about(stream.events.as_deref(), client);
    data.extend_from_slice(b"\"gap\":");
    json::append_gap(&mut data, gap);
    data.push(b'}');
    let id = match found {
        Found::AtStart(position) => stream.is_raw.then(|| position.to_string()),
        Found::AfterRefusal | Found::InPage => None,
    };
    event("crore.gap", id.as_deref(), &data, out)
}

fn filter_gap(
    stream: &Stream<'_>,
    (client, partition): (u32, PartitionId),
    gap: &Gap,
    found: Found,
    out: &mut Vec<u8>,
) -> Encoded {
    let mut data = match found {
        Found::AfterRefusal => about(stream.events.as_deref(), client),
        Found::AtStart(_) | Found::InPage => Vec::from(b"{"),
    };
    json::append(&mut data, format_args!("\"partition\":{},\"gap\":", partition.0));
    json::append_gap(&mut data, gap);
    data.push(b'}');
    let encoded = event("crore.gap", None, &data, out);
    match found {
        Found::InPage => Encoded {
            settles: Settles::Filters { partition, after: gap.from, through: gap.to },
            ..encoded
        },
        Found::AtStart(_) | Found::AfterRefusal => encoded,
    }
}

/// The client has settled the skipped messages, so its cursor moves.
fn left_out_event(
    stream: &Stream<'_>,
    (client, epoch): (u32, u64),
    partition: Option<PartitionId>,
    left_out: &LeftOut,
    out: &mut Vec<u8>,
) -> Encoded {
    let LeftOut { from, through, .. } = *left_out;
    let (mut data, settles) = match partition {
        Some(partition) => {
            let mut data = Vec::new();
            json::append(&mut data, format_args!("{{\"partition\":{},", partition.0));
            (data, Settles::Filters { partition, after: from, through })
        }
        None => {
            let position = Position { epoch, offset: through };
            (about(stream.events.as_deref(), client), Settles::Topic { client, from, position })
        }
    };
    json::append_left_out(&mut data, left_out);
    event("crore.skipped", None, &data, out);
    Encoded::mark(settles)
}

/// The beginning of an event's data: which topic it is about, where the stream has several.
fn about(events: Option<&Events>, client: u32) -> Vec<u8> {
    let mut data = Vec::from(&b"{"[..]);
    if let Some(name) = events.and_then(|events| events.topic(client)) {
        data.extend_from_slice(b"\"topic\":");
        append_json_string(&mut data, name);
        data.push(b',');
    }
    data
}

fn fault(mut data: Vec<u8>, code: &str, detail: &str) -> Vec<u8> {
    json::append(&mut data, format_args!("\"code\":\"{code}\",\"detail\":"));
    append_json_string(&mut data, detail);
    data.push(b'}');
    data
}

fn event(name: &str, id: Option<&str>, data: &[u8], out: &mut Vec<u8>) -> Encoded {
    let data = std::str::from_utf8(data).unwrap_or_default();
    encode(&OutgoingEvent { event: Some(name), id, data: Some(data), retry_ms: None }, out);
    Encoded::ANSWER
}

/// The line that begins a frame with the stream's cursor: of a raw stream the position that the
/// frame settles, else the cursor of all topics; empty while there is none.
pub(in crate::session) fn id_line(stream: &Stream<'_>, settles: Settles) -> String {
    match settles {
        Settles::Topic { position, .. } if stream.is_raw => format!("id: {position}\n"),
        Settles::Nothing | Settles::Topic { .. } | Settles::Filters { .. } => {
            cursor_text(stream).map_or(String::new(), |cursor| format!("id: {cursor}\n"))
        }
    }
}

/// The composite cursor, once every topic has a position.
fn cursor_text(stream: &Stream<'_>) -> Option<String> {
    stream.events.as_deref().and_then(|events| events.cursor.text())
}

/// Moves the stream's cursor to these positions where it is not beyond them, and appends the
/// cursor; nothing if the client has it already, unless it `is_owed`, or if the stream has no
/// cursor yet.
pub(in crate::session) fn positions(
    stream: &mut Stream<'_>,
    settled: &[(PartitionId, u64)],
    is_owed: bool,
    out: &mut Vec<u8>,
) {
    let Some(events) = &mut stream.events else {
        return;
    };
    let mut is_news = is_owed;
    for &(partition, through) in settled {
        let epoch = stream.epochs.advancing(partition);
        is_news |= events.cursor.advance_partition(partition, through, epoch);
    }
    if is_news && let Some(cursor) = events.cursor.text() {
        json::append(out, format_args!("id: {cursor}\n"));
        out.extend_from_slice(NO_EVENT);
    }
}

/// The event of a message in an envelope, behind its id.
pub(crate) fn append_envelope(
    topic: &str,
    epoch: u64,
    view: &RecordView<'_>,
    data: DataForm,
    out: &mut Vec<u8>,
) {
    // JSON escapes all line ends, so the data is one line.
    out.extend_from_slice(b"data: {\"topic\":");
    append_json_string(out, topic);
    out.push(b',');
    json::append_message(out, epoch, view, data);
    out.extend_from_slice(b"}\n\n");
}

/// One event of a raw stream: the payload as data, in base64 under a name of its own when it is not
/// text.
pub(crate) fn append_raw_event(epoch: u64, view: &RecordView<'_>, out: &mut Vec<u8>) {
    let id = Position { epoch, offset: view.offset() }.to_string();
    match std::str::from_utf8(view.payload()) {
        Ok(text) => encode(
            &OutgoingEvent { id: Some(&id), data: Some(text), ..OutgoingEvent::default() },
            out,
        ),
        Err(_) => {
            let data = BASE64.encode(view.payload());
            let event = OutgoingEvent {
                id: Some(&id),
                event: Some("crore.b64data"),
                data: Some(&data),
                retry_ms: None,
            };
            encode(&event, out);
        }
    }
}

pub(crate) fn encode(event: &OutgoingEvent<'_>, out: &mut Vec<u8>) {
    let encoded = event.encode(out);
    debug_assert!(encoded.is_ok(), "ids and names of ours hold no line ends");
}

/// The head of the answer, and the time after which clients reconnect.
pub(crate) fn head(answer: &Answer) -> Vec<u8> {
    let mut head = Vec::with_capacity(256);
    let writer = ResponseWriter::new(&mut head, 200).keep_alive(false);
    cross_origin(writer, answer)
        .header("Content-Type", EVENT_STREAM_MEDIA_TYPE)
        .header("Cache-Control", "no-store")
        .header("X-Content-Type-Options", "nosniff")
        // Asks nginx, the most common proxy in between, not to hold the stream back.
        .header("X-Accel-Buffering", "no")
        .finish_head();
    let retry = OutgoingEvent { retry_ms: Some(RETRY_MS), ..OutgoingEvent::default() };
    encode(&retry, &mut head);
    head
}

/// The delay of clients before they reconnect, in milliseconds.
const RETRY_MS: u64 = 2_000;

/// Whether a topic's name looks like a filter that a URL has spoilt. It is a name like any other,
/// and so no fault.
fn hint_of(name: &str) -> Option<&'static str> {
    if name.ends_with('/') {
        return Some("this topic ends in an empty level; the wildcard # is written %23 in a URL");
    }
    let is_space = name.split('/').any(|level| level == " ");
    is_space.then_some("a level of this topic is a space; the wildcard + is written %2B in a URL")
}

/// The end of an id without an event.
const NO_EVENT: &[u8] = b"\n";

/// Bytes of the line that begins an event with its id.
pub(crate) const ID_LINE_BYTES_MAX: usize = "id: \n".len() + CURSOR_BYTES_MAX;
