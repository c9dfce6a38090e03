//! A small client of the native protocol, written from `spec/protocol.md` without any code of the
//! server.
//!
//! It sends the test's frames and returns the received ones, one by one; the test decides about the
//! correct reaction.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::raw::{Raw, frame};

/// One connection.
#[derive(Debug)]
pub struct Native {
    raw: Raw,
    /// Subscriptions by the aliases of their topics.
    aliases: BTreeMap<u64, u64>,
}

/// A frame from the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame {
    /// The session is accepted.
    Welcome {
        /// The number of subscriptions in the accepted ticket.
        resumed: Option<u64>,
        /// The lifetime of tickets in seconds; None if none are issued.
        ticket_lifetime_s: Option<u64>,
    },
    /// A subscription is active.
    Subscribed {
        /// The client's number.
        subscription: u64,
        /// Set for a filter if at least one partition is listed, and all are continued.
        continued: bool,
        /// Whether a replay follows; for a filter, the number of partitions with a replay.
        replaying: usize,
    },
    /// A message, of a topic or for filters.
    Message {
        /// The client's number; None for all matching filters.
        subscription: Option<u64>,
        /// The topic, only for filters.
        topic: Option<String>,
        /// The partition; only for filters.
        partition: Option<u64>,
        /// The epoch; only for filters.
        epoch: Option<u64>,
        /// The offset.
        offset: u64,
        /// The payload as text.
        payload: String,
    },
    /// The end of a replay.
    CaughtUp(u64),
    /// Messages that are no longer available.
    Gap {
        /// The client's number.
        subscription: u64,
        /// The protocol's number.
        reason: u64,
    },
    /// Messages skipped on purpose.
    Skipped {
        /// The client's number.
        subscription: u64,
        /// The number of skipped offsets.
        count: u64,
        /// The protocol's number.
        reason: u64,
    },
    /// A refusal.
    Error {
        /// 0 for the connection, 1 for a request, 2 for a subscription.
        reference: u64,
        /// The number of the request or subscription.
        id: u64,
        /// The code of `spec/codes.md`.
        code: u64,
        /// Whether a later attempt may succeed.
        temporary: bool,
    },
    /// A request to leave.
    GoAway {
        /// The ticket to return with.
        ticket: Option<Vec<u8>>,
        /// The addresses to return to, the best first.
        urls: Vec<String>,
    },
    /// The requested ticket.
    Ticket(Vec<u8>),
    /// The end of a subscription.
    Unsubscribed {
        /// The client's number.
        subscription: u64,
        /// The code.
        code: u64,
    },
    /// A publication is in its log.
    Published(u64),
    /// A page of history: the request, and the payloads as text.
    History(u64, Vec<String>),
    /// A new token is accepted.
    Renewed {
        /// The request.
        request: u64,
        /// Milliseconds since 1970; 0: never.
        expires_ms: u64,
    },
    /// The time when the token expires, in milliseconds since 1970.
    TokenExpires(u64),
    /// The connection is closed with this code.
    Closed(u16),
}

/// An item of a SUBSCRIBE.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The client's number.
    pub subscription: u64,
    /// A topic or a filter.
    pub filter: &'a str,
    /// Whether to refuse the subscription instead of reporting a gap.
    pub fail_on_gap: bool,
}

/// The start of a connection.
#[derive(Clone, Copy, Default, Debug)]
pub struct Opening<'a> {
    /// The query behind the path, with its question mark.
    pub query: &'a str,
    /// Further fields of the request, each with its line end.
    pub fields: &'a str,
    /// HELLO's token.
    pub token: Option<&'a str>,
    /// HELLO's ticket, with newer cursors.
    pub ticket: Option<(&'a [u8], &'a [NewerCursor])>,
}

/// A cursor that is newer than the ticket's: subscription, partition of a filter, epoch, offset.
pub type NewerCursor = (u64, Option<u64>, u64, u64);

const BINARY: u8 = 2;
const CLOSE: u8 = 8;

impl Native {
    /// Connects and sends HELLO with or without a ticket; returns the WELCOME frame.
    pub fn connect(address: &str, ticket: Option<(&[u8], &[NewerCursor])>) -> (Native, Frame) {
        let mut native = Native::open(address, &Opening { ticket, ..Opening::default() });
        let welcome = native.next_frame();
        assert!(matches!(welcome, Frame::Welcome { .. }), "{welcome:?}");
        (native, welcome)
    }

    /// Connects with a token in HELLO, which must be valid.
    #[track_caller]
    pub fn with_token(address: &str, token: &str) -> Native {
        let opening = Opening { token: Some(token), ..Opening::default() };
        let mut native = Native::open(address, &opening);
        let welcome = native.next_frame();
        assert!(matches!(welcome, Frame::Welcome { .. }), "{welcome:?}");
        native
    }

    /// Connects and sends HELLO; the answer is the next frame. The upgrade must be accepted.
    pub fn open(address: &str, opening: &Opening<'_>) -> Native {
        let path = format!("/crore{}", opening.query);
        let (raw, head) = Raw::upgrade(address, &path, "crore.v1", opening.fields);
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        let mut native = Native { raw, aliases: BTreeMap::new() };
        let mut options = Vec::new();
        let mut count = 0;
        let mut put = |key, value: &[u8]| {
            write_option(&mut options, key, value);
            count += 1;
        };
        if let Some(token) = opening.token {
            put(1, token.as_bytes());
        }
        if let Some((ticket, cursors)) = opening.ticket {
            put(3, ticket);
            if !cursors.is_empty() {
                put(17, &cursors_value(cursors));
            }
        }
        let mut hello = vec![0x01, 0x00, 1, 0];
        if count > 0 {
            hello[1] = 0x80;
            hello.push(count);
            hello.extend_from_slice(&options);
        }
        native.raw.send_frame(BINARY, &hello);
        native
    }

    /// Subscribes to topics and filters, live, in one frame.
    pub fn subscribe(&mut self, items: &[Item<'_>]) {
        let mut frame = vec![0x02, 0x00];
        write_varint(&mut frame, items.len() as u64);
        for item in items {
            write_varint(&mut frame, item.subscription);
            frame.push(u8::from(item.fail_on_gap));
            write_text(&mut frame, item.filter);
            frame.push(0);
        }
        self.raw.send_frame(BINARY, &frame);
    }

    /// Subscribes to one topic or filter, live, and returns the answer.
    pub fn subscribe_one(&mut self, subscription: u64, filter: &str) -> Frame {
        self.subscribe(&[Item { subscription, filter, fail_on_gap: false }]);
        self.next_frame()
    }

    /// Publishes a text.
    pub fn publish(&mut self, request: u64, topic: &str, payload: &str) {
        let mut frame = vec![0x04, 0x00];
        write_varint(&mut frame, request);
        write_text(&mut frame, topic);
        frame.extend_from_slice(payload.as_bytes());
        self.raw.send_frame(BINARY, &frame);
    }

    /// Sends raw bytes, such as a part of a frame.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.raw.send(bytes);
    }

    /// Requests the oldest page of a topic.
    pub fn history(&mut self, request: u64, topic: &str) {
        self.raw.send(&history_request(request, topic));
    }

    /// Requests the oldest page of a topic, as often, in one piece.
    pub fn histories(&mut self, requests: RangeInclusive<u64>, topic: &str) {
        let frames: Vec<u8> = requests.flat_map(|id| history_request(id, topic)).collect();
        self.raw.send(&frames);
    }

    /// Presents another token.
    pub fn renew(&mut self, request: u64, token: &str) {
        let mut frame = vec![0x09, 0x00];
        write_varint(&mut frame, request);
        write_text(&mut frame, token);
        self.raw.send_frame(BINARY, &frame);
    }

    /// Requests a ticket.
    pub fn ask_ticket(&mut self) {
        self.raw.send_frame(BINARY, &[0x0a, 0x00, 9]);
    }

    /// The payload of the next message. The end of a replay may come first.
    #[track_caller]
    pub fn next_payload(&mut self) -> String {
        loop {
            match self.next_frame() {
                Frame::Message { payload, .. } => return payload,
                Frame::CaughtUp(_) => {}
                other => panic!("a message was expected: {other:?}"),
            }
        }
    }

    /// The next frame; pings are answered and skipped.
    pub fn next_frame(&mut self) -> Frame {
        loop {
            let (opcode, bytes) = self.raw.read_frame();
            match opcode {
                BINARY => {}
                CLOSE => return Frame::Closed(u16::from_be_bytes([bytes[0], bytes[1]])),
                _ => continue,
            }
            match bytes[0] {
                0x07 => {
                    let mut pong = bytes;
                    pong[0] = 0x08;
                    self.raw.send_frame(BINARY, &pong);
                }
                _ => return self.decode(&bytes),
            }
        }
    }

    fn decode(&mut self, bytes: &[u8]) -> Frame {
        let mut reader = Reader(bytes);
        let (kind, flags) = (reader.byte(), reader.byte());
        match kind {
            0x81 => {
                reader.skip(1 + 8);
                (0..5).for_each(|_| _ = reader.varint());
                let options = reader.options(flags);
                let number = |key| options.get(&key).map(|value| Reader(value).varint());
                Frame::Welcome { resumed: number(12), ticket_lifetime_s: number(14) }
            }
            0x82 => self.subscribed(flags, &mut reader),
            0x84 => self.message(flags, &mut reader),
            0x85 => named_message(flags, &mut reader),
            0x83 => Frame::Unsubscribed { subscription: reader.varint(), code: reader.varint() },
            0x86 => Frame::CaughtUp(reader.varint()),
            0x87 => {
                let subscription = reader.varint();
                (0..3 + (flags & 1)).for_each(|_| _ = reader.varint());
                Frame::Gap { subscription, reason: u64::from(reader.byte()) }
            }
            0x88 => {
                let subscription = reader.varint();
                (0..2 * (flags & 1)).for_each(|_| _ = reader.varint());
                let (from, through) = (reader.varint(), reader.varint());
                Frame::Skipped {
                    subscription,
                    count: through - from,
                    reason: u64::from(reader.byte()),
                }
            }
            0x89 => Frame::Published(reader.varint()),
            0x8a => history_page(flags, &mut reader),
            0x8b => Frame::Error {
                reference: u64::from(reader.byte()),
                id: reader.varint(),
                code: reader.varint(),
                temporary: flags & 1 != 0,
            },
            0x8c => {
                let _ = (reader.varint(), reader.varint());
                let ticket = reader.options(flags).remove(&8).map(<[u8]>::to_vec);
                let count = reader.varint();
                Frame::GoAway { ticket, urls: (0..count).map(|_| text(reader.bytes())).collect() }
            }
            0x8d => Frame::Renewed { request: reader.varint(), expires_ms: reader.varint() },
            0x8f => Frame::TokenExpires(reader.varint()),
            0x8e => {
                let _ = (reader.varint(), reader.varint());
                Frame::Ticket(reader.bytes().to_vec())
            }
            _ => panic!("an unexpected frame: {bytes:02x?}"),
        }
    }

    fn message(&self, flags: u8, reader: &mut Reader<'_>) -> Frame {
        let (alias, offset, _) = (reader.varint(), reader.varint(), reader.varint());
        reader.options(flags);
        Frame::Message {
            subscription: Some(self.aliases[&alias]),
            topic: None,
            partition: None,
            epoch: None,
            offset,
            payload: text(reader.0),
        }
    }

    fn subscribed(&mut self, flags: u8, reader: &mut Reader<'_>) -> Frame {
        let subscription = reader.varint();
        if flags & 1 == 0 {
            self.aliases.insert(reader.varint(), subscription);
            return Frame::Subscribed {
                subscription,
                continued: flags & 4 != 0,
                replaying: usize::from(flags & 2 != 0),
            };
        }
        reader.options(flags);
        let partitions: Vec<u8> = (0..reader.varint())
            .map(|_| {
                let flags = reader.byte();
                (0..3).for_each(|_| _ = reader.varint());
                reader.options(flags);
                flags
            })
            .collect();
        Frame::Subscribed {
            subscription,
            continued: !partitions.is_empty() && partitions.iter().all(|flags| flags & 4 != 0),
            replaying: partitions.iter().filter(|flags| *flags & 2 != 0).count(),
        }
    }
}

fn named_message(flags: u8, reader: &mut Reader<'_>) -> Frame {
    let topic = text(reader.bytes());
    let (partition, epoch) = (reader.varint(), reader.varint());
    let (offset, _) = (reader.varint(), reader.varint());
    let options = reader.options(flags);
    Frame::Message {
        subscription: options.get(&10).map(|value| Reader(value).varint()),
        topic: Some(topic),
        partition: Some(partition),
        epoch: Some(epoch),
        offset,
        payload: text(reader.0),
    }
}

fn history_request(request: u64, topic: &str) -> Vec<u8> {
    let mut payload = vec![0x05, 0x00];
    write_varint(&mut payload, request);
    write_text(&mut payload, topic);
    payload.extend([0, 0]);
    frame(BINARY, &payload)
}

fn history_page(flags: u8, reader: &mut Reader<'_>) -> Frame {
    let request = reader.varint();
    let _ = (reader.varint(), reader.varint());
    if flags & 4 != 0 {
        let _ = (reader.varint(), reader.varint(), reader.byte());
    }
    reader.options(flags);
    let payloads = (0..reader.varint()).map(|_| {
        let flags = reader.byte();
        (0..3).for_each(|_| _ = reader.varint());
        reader.options(flags);
        text(reader.bytes())
    });
    Frame::History(request, payloads.collect())
}

fn cursors_value(cursors: &[NewerCursor]) -> Vec<u8> {
    let mut value = Vec::new();
    for &(subscription, partition, epoch, offset) in cursors {
        let partition = partition.map_or(0, |partition| partition + 1);
        for number in [subscription, partition, epoch, offset] {
            write_varint(&mut value, number);
        }
    }
    value
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text was published")
}

fn write_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    write_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn write_option(out: &mut Vec<u8>, key: u64, value: &[u8]) {
    write_varint(out, key);
    write_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> u8 {
        let (&byte, rest) = self.0.split_first().expect("the frame is not over");
        self.0 = rest;
        byte
    }

    fn skip(&mut self, count: usize) {
        self.0 = &self.0[count..];
    }

    fn varint(&mut self) -> u64 {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte();
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return number;
            }
        }
        panic!("a number of more than 64 bits");
    }

    fn bytes(&mut self) -> &'a [u8] {
        let length = self.varint() as usize;
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }

    /// The options by key; for a repeated one, the last.
    fn options(&mut self, flags: u8) -> BTreeMap<u64, &'a [u8]> {
        match flags & 0x80 {
            0 => BTreeMap::new(),
            _ => (0..self.varint()).map(|_| (self.varint(), self.bytes())).collect(),
        }
    }
}
