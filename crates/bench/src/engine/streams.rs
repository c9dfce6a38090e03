//! Subscribers over plain HTTP: event streams, and long polls.
//!
//! Place: a [`Protocol`] of the pool. The benchmark's payloads are printable, so that they are
//! found in an event or a page without parsing it. Events of the node (`crore.…`) are checked for
//! gaps. Each stream keeps the publisher's sequence number, and the cursor for a reconnect.

use wire::Step;
use wire::http::body::BodyDecoder;
use wire::http::request::RequestWriter;
use wire::http::{BodyPart, HeadLimits, HeadScan, Response};
use wire::native::{Position, Start};

use super::protocol::{Protocol, Turn};
use super::subscriptions::{Share, Subscriptions};
use crate::payload::Header;

/// Maximum time that the server may hold a poll.
const WAIT: &str = "25s";
/// The reason of a gap that means that the log is another one.
const UNKNOWN_EPOCH: &[u8] = b"unknown_epoch";

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    EventStream,
    LongPoll,
}

/// All subscribers of a worker.
pub(super) struct StreamSubscribers {
    kind: Kind,
    subscriptions: Subscriptions,
    bodies: Vec<Option<BodyDecoder>>,
    /// Content that belongs to no whole event or page yet; empty for an idle event stream.
    contents: Vec<Vec<u8>>,
    is_open: Vec<bool>,
}

impl StreamSubscribers {
    pub(super) fn new(kind: Kind, share: Share) -> StreamSubscribers {
        StreamSubscribers {
            kind,
            subscriptions: Subscriptions::new(share),
            bodies: Vec::new(),
            contents: Vec::new(),
            is_open: Vec::new(),
        }
    }

    /// Writes the next request of a client, from its cursor on.
    fn request(&mut self, place: u32, turn: &mut Turn<'_>) {
        let host = &turn.route.host;
        let authorization = self.subscriptions.authorization(place);
        let out = turn.to(place);
        let per_client = self.subscriptions.per_client();
        let cursor = |number| {
            let position = self.subscriptions.cursor(place, number)?;
            Some(format!("{}:{}", position.epoch, position.offset))
        };
        if self.kind == Kind::LongPoll {
            let mut target =
                format!("/topics/{}?wait={WAIT}", encoded(&self.subscriptions.name(place, 0)));
            match cursor(0) {
                Some(since) => target.push_str(&format!("&since={since}")),
                // A page begins with the oldest that is served, or waits for what comes.
                None if self.subscriptions.is_from_first() => target.push_str("&since=0:0"),
                None => {}
            }
            let mut writer = RequestWriter::new(out, "GET", &target, host);
            if let Some(value) = &authorization {
                writer = writer.header("Authorization", value);
            }
            return writer.finish();
        }
        let mut target = "/events".to_owned();
        let mut cursors = Vec::new();
        for number in 0..per_client {
            target.push(if number == 0 { '?' } else { '&' });
            target.push_str("topic=");
            target.push_str(&encoded(&self.subscriptions.name(place, number)));
            cursors.extend(cursor(number));
        }
        if cursors.len() < per_client as usize
            && let Start::Last(count) = self.subscriptions.start(place, 0)
        {
            target.push_str(&format!("&last={count}"));
        }
        let mut writer =
            RequestWriter::new(out, "GET", &target, host).header("Accept", "text/event-stream");
        if let Some(value) = &authorization {
            writer = writer.header("Authorization", value);
        }
        if cursors.len() == per_client as usize {
            writer = writer.header("Last-Event-ID", &cursors.join(","));
        }
        writer.finish();
    }

    /// Takes whole events from the front of the content.
    fn events(&mut self, place: u32, turn: &mut Turn<'_>) {
        let content = std::mem::take(&mut self.contents[place as usize]);
        let mut start = 0;
        while let Some(length) = find(&content[start..], b"\n\n") {
            let event = &content[start..start + length];
            start += length + 2;
            let name = field(event, b"event:").unwrap_or_default();
            if name == b"crore.gap" {
                self.gap(place, event, turn);
            }
            if let Some(cursor) = field(event, b"id:") {
                self.set_cursors(place, cursor);
            }
            if !name.is_empty() {
                continue;
            }
            if let Some(data) = field(event, b"data:") {
                self.message(place, payload_in(data).unwrap_or(data), turn);
            }
        }
        self.keep(place, content, start);
    }

    /// A gap of one topic, or, where the event names none of ours, of all.
    fn gap(&mut self, place: u32, event: &[u8], turn: &mut Turn<'_>) {
        let has_new_epoch = find(event, UNKNOWN_EPOCH).is_some();
        let is_of = |name: String| find(event, format!("\"topic\":\"{name}\"").as_bytes());
        let per_client = self.subscriptions.per_client();
        let named =
            (0..per_client).find(|number| is_of(self.subscriptions.name(place, *number)).is_some());
        for number in named.map_or(0..per_client, |number| number..number + 1) {
            self.subscriptions.gap_somewhere(place, number, has_new_epoch, turn);
        }
    }

    /// A whole page of a long poll.
    fn page(&mut self, place: u32, turn: &mut Turn<'_>) {
        let content = std::mem::take(&mut self.contents[place as usize]);
        let mut rest = &content[..];
        if find(rest, b"\"gap\":{").is_some() {
            let has_new_epoch = find(rest, UNKNOWN_EPOCH).is_some();
            self.subscriptions.gap_somewhere(place, 0, has_new_epoch, turn);
        }
        while let Some(payload) = payload_in(rest) {
            let end = payload.as_ptr() as usize - rest.as_ptr() as usize + payload.len();
            self.message(place, payload, turn);
            rest = &rest[end..];
        }
        if let Some(at) = find(&content, b"\"cursor\":\"") {
            let cursor = &content[at + 10..];
            let end = cursor.iter().position(|byte| *byte == b'"').unwrap_or(0);
            self.set_cursors(place, &cursor[..end]);
        }
        self.keep(place, content, usize::MAX);
    }

    /// Stores the unfinished rest. An empty buffer releases its memory.
    fn keep(&mut self, place: u32, content: Vec<u8>, start: usize) {
        if start < content.len() {
            let mut content = content;
            content.drain(..start);
            self.contents[place as usize] = content;
        }
    }

    fn message(&mut self, place: u32, payload: &[u8], turn: &mut Turn<'_>) {
        let number =
            Header::read(payload).and_then(|header| self.subscriptions.number_of(place, &header));
        self.subscriptions.received(place, number, payload, turn);
    }

    fn set_cursors(&mut self, place: u32, text: &[u8]) {
        let Ok(text) = std::str::from_utf8(text) else {
            return;
        };
        for (number, position) in positions(text).enumerate() {
            if let Some(position) = position {
                self.subscriptions.set_cursor(place, number as u32, position);
            }
        }
    }
}

impl Protocol for StreamSubscribers {
    fn begin(&mut self, place: u32, turn: &mut Turn<'_>) {
        self.subscriptions.ensure(place);
        let len = (place as usize + 1).max(self.bodies.len());
        self.bodies.resize(len, None);
        self.contents.resize(len, Vec::new());
        self.is_open.resize(len, false);
        self.request(place, turn);
        if self.kind == Kind::LongPoll {
            // The answer comes with the first message only: the connection counts as open from
            // here.
            turn.opened();
            self.subscriptions.all_live(place, turn);
        }
    }

    fn receive(
        &mut self,
        place: u32,
        bytes: &mut [u8],
        turn: &mut Turn<'_>,
    ) -> Result<usize, String> {
        let mut consumed = 0;
        let index = place as usize;
        while consumed < bytes.len() || self.bodies[index].is_some_and(|body| body.is_end()) {
            let Some(mut body) = self.bodies[index] else {
                let limits = HeadLimits::default();
                let step =
                    Response::decode(&bytes[consumed..], &mut HeadScan::new(), &limits, "GET")
                        .map_err(|error| error.to_string())?;
                let Step::Done { value, consumed: head_bytes } = step else {
                    break;
                };
                if value.status != 200 {
                    turn.tally.refused += 1;
                    return Err(format!("the server answered {}", value.status));
                }
                let body =
                    BodyDecoder::new(value.body, u64::MAX).map_err(|error| error.to_string())?;
                self.bodies[index] = Some(body);
                consumed += head_bytes;
                if !std::mem::replace(&mut self.is_open[index], true)
                    && self.kind == Kind::EventStream
                {
                    turn.opened();
                    self.subscriptions.all_live(place, turn);
                }
                continue;
            };
            let step = body.decode(&bytes[consumed..]).map_err(|error| error.to_string())?;
            self.bodies[index] = Some(body);
            match step {
                Step::Done { value: BodyPart::Data(data), consumed: taken } => {
                    self.contents[index].extend_from_slice(data);
                    consumed += taken;
                    if self.kind == Kind::EventStream {
                        self.events(place, turn);
                    }
                }
                Step::Done { value: BodyPart::End, consumed: taken } => {
                    consumed += taken;
                    self.bodies[index] = None;
                    if self.kind == Kind::EventStream {
                        return Err("the event stream has ended".to_owned());
                    }
                    self.page(place, turn);
                    self.request(place, turn);
                }
                Step::More { .. } => break,
            }
        }
        Ok(consumed)
    }

    fn lost(&mut self, place: u32, turn: &mut Turn<'_>) {
        self.subscriptions.disconnected(place, turn);
        if let Some(body) = self.bodies.get_mut(place as usize) {
            *body = None;
            self.contents[place as usize] = Vec::new();
            self.is_open[place as usize] = false;
        }
    }

    fn look(&mut self, turn: &mut Turn<'_>) {
        self.subscriptions.look(turn);
    }
}

/// The positions of a cursor; the epoch stands only where it differs from the one before.
fn positions(cursor: &str) -> impl Iterator<Item = Option<Position>> {
    let mut last_epoch = None;
    cursor.trim().split(',').map(move |position| {
        let (epoch, offset) = match position.split_once(':') {
            Some((epoch, offset)) => (epoch.parse().ok(), offset),
            None => (last_epoch, position),
        };
        let offset = offset.parse().ok()?;
        last_epoch = epoch;
        Some(Position { epoch: epoch?, offset })
    })
}

/// The first line's value of this field, without the space after the colon.
fn field<'a>(event: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    event
        .split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(name))
        .map(|value| value.strip_prefix(b" ").unwrap_or(value))
}

/// The value of the first `"data":"…"`; benchmark payloads hold nothing that JSON escapes.
fn payload_in(json: &[u8]) -> Option<&[u8]> {
    let start = find(json, b"\"data\":\"")? + 8;
    let length = json[start..].iter().position(|byte| *byte == b'"')?;
    Some(&json[start..start + length])
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// A topic's name for a path or a query: everything but unreserved characters and `/`
/// percent-encoded.
fn encoded(topic: &str) -> String {
    let mut text = String::with_capacity(topic.len());
    for byte in topic.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(byte as char);
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors() {
        let at = |epoch, offset| Some(Position { epoch, offset });
        for (text, wanted) in [
            ("7:12,9,-,8:3,4", vec![at(7, 12), at(7, 9), None, at(8, 3), at(8, 4)]),
            ("7:12", vec![at(7, 12)]),
            ("-,7:1", vec![None, at(7, 1)]),
            ("9", vec![None]),
            ("x:1,2", vec![None, None]),
        ] {
            assert_eq!(positions(text).collect::<Vec<_>>(), wanted, "{text}");
        }
    }

    #[test]
    fn pieces() {
        assert_eq!(field(b"id: 1:2\ndata:x", b"id:"), Some(&b"1:2"[..]));
        assert_eq!(field(b"id: 1:2\ndata:x", b"data:"), Some(&b"x"[..]));
        assert_eq!(field(b"id: 1:2", b"event:"), None);
        assert_eq!(payload_in(br#"{"offset":1,"data":"abc"},{"#), Some(&b"abc"[..]));
        assert_eq!(payload_in(br#"{"data":"ab"#), None);
        assert_eq!(encoded("a b/c+#ä"), "a%20b/c%2B%23%C3%A4");
    }
}
