//! Frames from the client to the server. The content of SUBSCRIBE is in `subscribe`, that of
//! PUBLISH in `publish`.

use super::options::{Options, set_once, write_option};
use super::publish::{Publish, read_publish, write_publish};
use super::reader::{Reader, text, write_bytes, write_position};
use super::{
    FrameError, List, Position, Reference, ResumeCursor, SubscribeItem, VERSION, flag, frame_type,
    option_key, varint,
};

/// One frame from a client, borrowed from its message.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ClientFrame<'a> {
    /// Introduces the client; must be its first frame.
    Hello(Hello<'a>),
    /// Subscribes to topics and filters.
    Subscribe(Subscribe<'a>),
    /// Ends subscriptions.
    Unsubscribe(Unsubscribe<'a>),
    /// Publishes one message.
    Publish(Publish<'a>),
    /// Requests one page of history.
    History(History<'a>),
    /// Permits further replay.
    Credit(Credit),
    /// Requests a PONG with the same token.
    Ping(u64),
    /// The answer to the server's PING, with its token.
    Pong(u64),
    /// Requests a resume ticket; the client's number for the answer.
    Ticket(u32),
    /// Continues with a new token.
    Renew(Renew<'a>),
}

/// HELLO.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Hello<'a> {
    /// The requested heartbeat interval in seconds; 0 leaves it to the server.
    pub ping_interval_s: u32,
    /// The bearer token.
    pub token: Option<&'a str>,
    /// The client's name, for operators.
    pub name: Option<&'a str>,
    /// A resume ticket, any bytes; a server never issues one above [`super::TICKET_BYTES_MAX`].
    pub ticket: Option<&'a [u8]>,
    /// Cursors that are newer than those of the ticket; empty without a ticket.
    pub cursors: List<'a, ResumeCursor>,
}

impl std::fmt::Debug for Hello<'_> {
    /// Omits token and ticket.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let has_token = self.token.is_some();
        let has_ticket = self.ticket.is_some();
        f.debug_struct("Hello")
            .field("ping_interval_s", &self.ping_interval_s)
            .field("name", &self.name)
            .field("has_token", &has_token)
            .field("has_ticket", &has_ticket)
            .field("cursors", &self.cursors)
            .finish()
    }
}

/// SUBSCRIBE.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Subscribe<'a> {
    /// The requested subscriptions, answered one by one.
    pub items: List<'a, SubscribeItem<'a>>,
}

/// UNSUBSCRIBE.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Unsubscribe<'a> {
    /// The subscriptions to end.
    pub subscriptions: List<'a, u32>,
}

/// HISTORY.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct History<'a> {
    /// The client's number for the answer.
    pub request: u32,
    /// The topic; 1 to 255 bytes, its syntax unchecked.
    pub topic: &'a str,
    /// Returns the newest record first.
    pub reverse: bool,
    /// The page begins behind this position (before it if reversed); without it, at the oldest
    /// (newest) record.
    pub position: Option<Position>,
    /// The maximum number of records in the answer; 0 leaves it to the server.
    pub records_max: u32,
    /// The maximum payload bytes in the answer; 0 leaves it to the server. One record is returned
    /// regardless of its size.
    pub bytes_max: u32,
}

/// CREDIT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credit {
    /// The replaying subscription.
    pub subscription: u32,
    /// The number of further messages that may be replayed.
    pub messages: u32,
}

/// RENEW.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Renew<'a> {
    /// The client's number for the answer.
    pub request: u32,
    /// The new bearer token.
    pub token: &'a str,
}

impl std::fmt::Debug for Renew<'_> {
    /// Omits the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Renew({})", self.request)
    }
}

impl<'a> ClientFrame<'a> {
    /// Decodes one frame, which is all of `bytes`.
    ///
    /// # Errors
    /// [`FrameError`]: the client receives its code, and the connection is closed if
    /// [`FrameError::closes`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FrameError> {
        let mut reader = Reader::new(bytes);
        let kind = reader.byte()?;
        let frame = match kind {
            frame_type::HELLO => Self::Hello(read_hello(&mut reader)?),
            frame_type::SUBSCRIBE => {
                read_plain_flags(&mut reader)?;
                let items = List::read(&mut reader)?;
                Self::Subscribe(Subscribe { items })
            }
            frame_type::UNSUBSCRIBE => {
                read_plain_flags(&mut reader)?;
                let subscriptions = List::read(&mut reader)?;
                Self::Unsubscribe(Unsubscribe { subscriptions })
            }
            frame_type::PUBLISH => Self::Publish(read_publish(&mut reader)?),
            frame_type::HISTORY => Self::History(read_history(&mut reader)?),
            frame_type::CREDIT => Self::Credit(read_credit(&mut reader)?),
            frame_type::PING => Self::Ping(read_token(&mut reader)?),
            frame_type::PONG => Self::Pong(read_token(&mut reader)?),
            frame_type::TICKET => Self::Ticket(read_ticket(&mut reader)?),
            frame_type::RENEW => Self::Renew(read_renew(&mut reader)?),
            _ => return Err(FrameError::UnknownFrame(kind)),
        };
        reader.end()?;
        Ok(frame)
    }

    /// Appends the frame. The caller guarantees the bounds of its strings (a topic has 1 to 255
    /// bytes).
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello(hello) => write_hello(hello, out),
            Self::Subscribe(subscribe) => {
                out.extend_from_slice(&[frame_type::SUBSCRIBE, 0]);
                subscribe.items.write(out);
            }
            Self::Unsubscribe(unsubscribe) => {
                out.extend_from_slice(&[frame_type::UNSUBSCRIBE, 0]);
                unsubscribe.subscriptions.write(out);
            }
            Self::Publish(publish) => write_publish(publish, out),
            Self::History(history) => write_history(history, out),
            Self::Credit(credit) => {
                out.extend_from_slice(&[frame_type::CREDIT, 0]);
                varint::encode(u64::from(credit.subscription), out);
                varint::encode(u64::from(credit.messages), out);
            }
            Self::Ping(token) => write_token(frame_type::PING, *token, out),
            Self::Pong(token) => write_token(frame_type::PONG, *token, out),
            Self::Ticket(request) => {
                out.extend_from_slice(&[frame_type::TICKET, 0]);
                varint::encode(u64::from(*request), out);
            }
            Self::Renew(renew) => {
                out.extend_from_slice(&[frame_type::RENEW, 0]);
                varint::encode(u64::from(renew.request), out);
                write_bytes(renew.token.as_bytes(), out);
            }
        }
    }
}

fn read_hello<'a>(reader: &mut Reader<'a>) -> Result<Hello<'a>, FrameError> {
    // The version precedes everything that another version may encode differently, including the
    // meaning of flags.
    let raw_flags = reader.byte()?;
    let version = reader.byte()?;
    if version != VERSION {
        return Err(FrameError::UnsupportedVersion(version));
    }
    if raw_flags & !flag::OPTIONS != 0 {
        return Err(FrameError::UnsupportedFlags(raw_flags & !flag::OPTIONS));
    }
    let ping_interval_s = reader.varint_u32()?;
    let mut token = None;
    let mut name = None;
    let mut ticket = None;
    let mut cursors = None;
    for (key, value) in Options::read(reader, raw_flags)?.iter() {
        match key {
            option_key::TOKEN => set_once(&mut token, key, text(value)?)?,
            option_key::NAME => set_once(&mut name, key, text(value)?)?,
            option_key::TICKET => set_once(&mut ticket, key, value)?,
            option_key::CURSORS => {
                set_once(&mut cursors, key, List::read_to_end(Reader::new(value))?)?;
            }
            _ => skip_option(key, Reference::Connection)?,
        }
    }
    Ok(Hello { ping_interval_s, token, name, ticket, cursors: cursors.unwrap_or_default() })
}

fn write_hello(hello: &Hello<'_>, out: &mut Vec<u8>) {
    let count = u8::from(hello.token.is_some())
        + u8::from(hello.name.is_some())
        + u8::from(hello.ticket.is_some())
        + u8::from(!hello.cursors.is_empty());
    out.push(frame_type::HELLO);
    out.push(bit(count > 0, flag::OPTIONS));
    out.push(VERSION);
    varint::encode(u64::from(hello.ping_interval_s), out);
    if count > 0 {
        out.push(count);
    }
    if let Some(token) = hello.token {
        write_option(option_key::TOKEN, token.as_bytes(), out);
    }
    if let Some(name) = hello.name {
        write_option(option_key::NAME, name.as_bytes(), out);
    }
    if let Some(ticket) = hello.ticket {
        write_option(option_key::TICKET, ticket, out);
    }
    if !hello.cursors.is_empty() {
        let mut cursors = Vec::new();
        hello.cursors.write_elements(&mut cursors);
        write_option(option_key::CURSORS, &cursors, out);
    }
}

fn read_history<'a>(reader: &mut Reader<'a>) -> Result<History<'a>, FrameError> {
    let flags = reader.flags(flag::REVERSE | flag::HAS_POSITION)?;
    let request = reader.varint_u32()?;
    let reference = Reference::Request(request);
    let topic = reader.topic()?;
    let position = match flags & flag::HAS_POSITION {
        0 => None,
        _ => Some(reader.position()?),
    };
    let records_max = reader.varint_u32()?;
    let bytes_max = reader.varint_u32()?;
    let unsupported = Options::read_none(reader, flags)?;
    reader.end()?;
    let topic = topic.map_err(|bytes| FrameError::TopicLength { bytes, reference })?;
    if let Some(key) = unsupported {
        return Err(FrameError::UnsupportedOption { key, reference });
    }
    Ok(History {
        request,
        topic,
        reverse: flags & flag::REVERSE != 0,
        position,
        records_max,
        bytes_max,
    })
}

fn write_history(history: &History<'_>, out: &mut Vec<u8>) {
    out.push(frame_type::HISTORY);
    out.push(
        bit(history.reverse, flag::REVERSE) | bit(history.position.is_some(), flag::HAS_POSITION),
    );
    varint::encode(u64::from(history.request), out);
    write_bytes(history.topic.as_bytes(), out);
    if let Some(position) = history.position {
        write_position(position, out);
    }
    varint::encode(u64::from(history.records_max), out);
    varint::encode(u64::from(history.bytes_max), out);
}

fn read_credit(reader: &mut Reader<'_>) -> Result<Credit, FrameError> {
    let flags = reader.flags(0)?;
    let subscription = reader.varint_u32()?;
    let messages = reader.varint_u32()?;
    read_no_options(reader, flags, Reference::Connection)?;
    Ok(Credit { subscription, messages })
}

fn read_ticket(reader: &mut Reader<'_>) -> Result<u32, FrameError> {
    let flags = reader.flags(0)?;
    let request = reader.varint_u32()?;
    read_no_options(reader, flags, Reference::Request(request))?;
    Ok(request)
}

fn read_renew<'a>(reader: &mut Reader<'a>) -> Result<Renew<'a>, FrameError> {
    let flags = reader.flags(0)?;
    let request = reader.varint_u32()?;
    let token = reader.string()?;
    read_no_options(reader, flags, Reference::Request(request))?;
    Ok(Renew { request, token })
}

/// Reads the token of PING or PONG, in both directions.
pub(super) fn read_token(reader: &mut Reader<'_>) -> Result<u64, FrameError> {
    let flags = reader.flags(0)?;
    let token = reader.varint()?;
    read_no_options(reader, flags, Reference::Connection)?;
    Ok(token)
}

/// Writes a PING or PONG, in both directions.
pub(super) fn write_token(kind: u8, token: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&[kind, 0]);
    varint::encode(token, out);
}

/// Reads flags and options of a frame that defines neither.
fn read_plain_flags(reader: &mut Reader<'_>) -> Result<(), FrameError> {
    let flags = reader.flags(0)?;
    read_no_options(reader, flags, Reference::Connection)
}

/// Reads the options block of a frame that defines no options.
pub(super) fn read_no_options(
    reader: &mut Reader<'_>,
    flags: u8,
    reference: Reference,
) -> Result<(), FrameError> {
    match Options::read_none(reader, flags)? {
        None => Ok(()),
        Some(key) => Err(FrameError::UnsupportedOption { key, reference }),
    }
}

/// Handles an unknown option: even keys are skipped.
pub(super) fn skip_option(key: u64, reference: Reference) -> Result<(), FrameError> {
    if key.is_multiple_of(2) {
        Ok(())
    } else {
        Err(FrameError::UnsupportedOption { key, reference })
    }
}

/// Returns `mask` if `set`, else 0.
pub(super) fn bit(set: bool, mask: u8) -> u8 {
    if set { mask } else { 0 }
}
