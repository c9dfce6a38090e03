//! `text/event-stream` (WHATWG HTML, "Server-sent events"): the server's encoder, the clients'
//! decoder.
//!
//! Place on the path: step 7 outbound; step 2 in the client and the benchmark.
//!
//! Invariants: for all data, an encoded event decodes to the same data, with every line end as
//! `\n`. The decoder is a stream decoder: it returns the same items for all cuts of the stream,
//! even inside CRLF or a character, and holds at most `event_bytes_max` bytes of an unfinished
//! event.

use std::fmt;

use super::head::append_decimal;
use crate::codec::Step;

/// The media type.
pub const EVENT_STREAM_MEDIA_TYPE: &str = "text/event-stream";

/// An event to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutgoingEvent<'a> {
    /// Becomes the client's last event id; `Some("")` resets it.
    pub id: Option<&'a str>,
    /// The event's name for listeners; `None` is `message`.
    pub event: Option<&'a str>,
    /// The client's delay before a reconnect, in milliseconds.
    pub retry_ms: Option<u64>,
    /// The data; lines may end in `\n`, `\r` or `\r\n`. `None` writes a block without data, which
    /// sets the id and the delay but dispatches nothing.
    pub data: Option<&'a str>,
}

/// The reason why an event cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventFieldError {
    /// The id contains CR, LF or NUL.
    BadId,
    /// The event's name contains CR or LF.
    BadEvent,
}

impl fmt::Display for EventFieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EventFieldError::BadId => "event id contains CR, LF or NUL",
            EventFieldError::BadEvent => "event name contains CR or LF",
        })
    }
}

impl std::error::Error for EventFieldError {}

impl OutgoingEvent<'_> {
    /// Appends the event and its final empty line to `out`.
    ///
    /// # Errors
    /// An id or name with a forbidden byte; then nothing is written.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EventFieldError> {
        if self.id.is_some_and(|id| id.contains(['\r', '\n', '\0'])) {
            return Err(EventFieldError::BadId);
        }
        if self.event.is_some_and(|event| event.contains(['\r', '\n'])) {
            return Err(EventFieldError::BadEvent);
        }
        if let Some(retry_ms) = self.retry_ms {
            out.extend_from_slice(b"retry: ");
            append_decimal(out, retry_ms);
            out.push(b'\n');
        }
        if let Some(id) = self.id {
            append_line(out, b"id: ", id.as_bytes());
        }
        if let Some(event) = self.event {
            append_line(out, b"event: ", event.as_bytes());
        }
        if let Some(data) = self.data {
            for_each_line(data.as_bytes(), |line| append_line(out, b"data: ", line));
        }
        out.push(b'\n');
        Ok(())
    }
}

/// Appends a comment, one line for each line of `text`, and an empty line; an empty text is the
/// shortest heartbeat.
pub fn append_comment(out: &mut Vec<u8>, text: &str) {
    for_each_line(text.as_bytes(), |line| {
        append_line(out, if line.is_empty() { b":" } else { b": " }, line);
    });
    out.push(b'\n');
}

fn append_line(out: &mut Vec<u8>, field: &[u8], value: &[u8]) {
    out.extend_from_slice(field);
    out.extend_from_slice(value);
    out.push(b'\n');
}

fn for_each_line(text: &[u8], mut visit: impl FnMut(&[u8])) {
    let mut rest = text;
    while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        visit(&rest[..end]);
        rest = &rest[end + if rest[end..].starts_with(b"\r\n") { 2 } else { 1 }..];
    }
    visit(rest);
}

/// The decoder's output, borrowed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'d> {
    /// Bytes were consumed, but no item is complete.
    Progress,
    /// An event to dispatch.
    Event(IncomingEvent<'d>),
    /// The delay before a reconnect, in milliseconds.
    Retry(u64),
    /// A comment line, usually a heartbeat.
    Comment,
}

/// A decoded event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncomingEvent<'d> {
    /// The current last event id, perhaps from an earlier event; empty if there is none.
    pub last_event_id: &'d str,
    /// The name; `message` if the stream gives none.
    pub event: &'d str,
    /// The data without the last line end.
    pub data: &'d str,
}

/// The reason why a stream is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventStreamError {
    /// An event or one line exceeds the limit.
    TooLarge {
        /// The limit in bytes.
        event_bytes_max: usize,
    },
}

impl fmt::Display for EventStreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EventStreamError::TooLarge { event_bytes_max } = self;
        write!(f, "event over the limit of {event_bytes_max} bytes")
    }
}

impl std::error::Error for EventStreamError {}

/// Decodes one stream. Its buffers are empty between events, apart from the last event id.
#[derive(Clone, Debug)]
pub struct EventStreamDecoder {
    event_bytes_max: usize,
    /// The unfinished line.
    line: Vec<u8>,
    data: String,
    event: String,
    /// The id field's latest value; it becomes `last_event_id` with the next empty line.
    id: String,
    last_event_id: String,
    /// The buffers above hold an event that was already returned; they are cleared before the next
    /// line.
    dispatched: bool,
    /// The previous byte was CR: a LF now belongs to it.
    after_cr: bool,
    /// No line has ended yet, so a byte order mark may come.
    at_start: bool,
}

impl EventStreamDecoder {
    /// Creates a decoder at the start of a stream. `event_bytes_max` bounds each line and each
    /// event's data, and so the memory (a few times that).
    pub fn new(event_bytes_max: usize) -> EventStreamDecoder {
        EventStreamDecoder {
            event_bytes_max,
            line: Vec::new(),
            data: String::new(),
            event: String::new(),
            id: String::new(),
            last_event_id: String::new(),
            dispatched: false,
            after_cr: false,
            at_start: true,
        }
    }

    /// The last event id, for `Last-Event-ID` after a reconnect; empty if there is none.
    pub fn last_event_id(&self) -> &str {
        &self.last_event_id
    }

    /// Consumes bytes from the front of `input` up to the next item. [`Item::Progress`] means that
    /// all of `input` was consumed; [`Step::More`] is returned only for an empty input.
    ///
    /// An event without its empty line is dropped at the end of the connection, as the standard
    /// requires.
    ///
    /// # Errors
    /// [`EventStreamError::TooLarge`].
    pub fn decode(&mut self, input: &[u8]) -> Result<Step<Item<'_>>, EventStreamError> {
        if input.is_empty() {
            return Ok(Step::More { needed: 1 });
        }
        if self.dispatched {
            self.dispatched = false;
            self.data.clear();
            self.event.clear();
        }
        let mut at = 0;
        loop {
            if self.after_cr && input.get(at) == Some(&b'\n') {
                at += 1;
            }
            let rest = &input[at..];
            if rest.is_empty() {
                // A CR may still precede its LF, unless the byte just consumed was that LF.
                self.after_cr &= input[at - 1] == b'\r';
                return Ok(Step::Done { value: Item::Progress, consumed: at });
            }
            self.after_cr = false;
            let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let part = &rest[..end.unwrap_or(rest.len())];
            if self.line.len() + part.len() > self.event_bytes_max {
                return Err(self.too_large());
            }
            let Some(end) = end else {
                self.line.extend_from_slice(part);
                return Ok(Step::Done { value: Item::Progress, consumed: input.len() });
            };
            at += end + 1;
            self.after_cr = rest[end] == b'\r';
            let outcome = if self.line.is_empty() {
                self.take_line(part)?
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(part);
                let outcome = self.take_line(&line);
                line.clear();
                self.line = line;
                outcome?
            };
            let value = match outcome {
                Outcome::Nothing => continue,
                Outcome::Comment => Item::Comment,
                Outcome::Retry(retry_ms) => Item::Retry(retry_ms),
                Outcome::Dispatch => {
                    self.dispatched = true;
                    Item::Event(IncomingEvent {
                        last_event_id: &self.last_event_id,
                        event: if self.event.is_empty() { "message" } else { &self.event },
                        data: self.data.strip_suffix('\n').unwrap_or(&self.data),
                    })
                }
            };
            return Ok(Step::Done { value, consumed: at });
        }
    }

    fn take_line(&mut self, line: &[u8]) -> Result<Outcome, EventStreamError> {
        let mut line = line;
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            self.last_event_id.clone_from(&self.id);
            if self.data.is_empty() {
                self.event.clear();
                return Ok(Outcome::Nothing);
            }
            return Ok(Outcome::Dispatch);
        }
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            Some(0) => return Ok(Outcome::Comment),
            Some(colon) => {
                let value = &line[colon + 1..];
                (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &line[line.len()..]),
        };
        // The stream is decoded with replacement characters; line ends are ASCII, so decoding by
        // line gives the same result.
        let value = String::from_utf8_lossy(value);
        match name {
            b"data" => {
                if self.data.len() + value.len() > self.event_bytes_max {
                    return Err(self.too_large());
                }
                self.data.push_str(&value);
                self.data.push('\n');
            }
            b"event" => {
                self.event.clear();
                self.event.push_str(&value);
            }
            b"id" if !value.contains('\0') => {
                self.id.clear();
                self.id.push_str(&value);
            }
            b"retry" if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) => {
                return Ok(value.parse().map_or(Outcome::Nothing, Outcome::Retry));
            }
            _ => {}
        }
        Ok(Outcome::Nothing)
    }

    fn too_large(&self) -> EventStreamError {
        EventStreamError::TooLarge { event_bytes_max: self.event_bytes_max }
    }
}

/// The effect of a complete line.
enum Outcome {
    Nothing,
    Comment,
    Retry(u64),
    Dispatch,
}
