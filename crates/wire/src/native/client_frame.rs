//! Frames from the client to the server.

use super::attributes::Attributes;
use super::options::{Options, set_once, write_option};
use super::reader::{Reader, text, write_bytes, write_position};
use super::{
    Element, FrameError, ItemError, List, Position, Reference, VERSION, flag, frame_type,
    option_key, varint,
};

/// One frame from a client, borrowed from the message that carried it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ClientFrame<'a> {
    /// Who the client is; must be its first frame.
    Hello(Hello<'a>),
    /// Subscribe to topics and filters.
    Subscribe(Subscribe<'a>),
    /// End subscriptions.
    Unsubscribe(Unsubscribe<'a>),
    /// Publish one message.
    Publish(Publish<'a>),
    /// Ask for one page of history.
    History(History<'a>),
    /// Allow further replay.
    Credit(Credit),
    /// To be answered by a PONG with the same token.
    Ping(u64),
    /// The answer to the server's PING, with its token.
    Pong(u64),
}

/// HELLO.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hello<'a> {
    /// Seconds between signs of life that the client wishes; 0 leaves it to the server.
    pub ping_interval_s: u32,
    /// The bearer token.
    pub token: Option<&'a str>,
    /// The client's name, for operators.
    pub name: Option<&'a str>,
}

/// SUBSCRIBE.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Subscribe<'a> {
    /// What to subscribe to, answered one by one.
    pub items: List<'a, SubscribeItem<'a>>,
}

/// One item of a SUBSCRIBE. An item that cannot be granted spoils itself only, so it carries its own error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubscribeItem<'a> {
    /// The client's number for it, unique among its live subscriptions.
    pub subscription: u32,
    /// What is asked, or why it must be refused with an ERROR about this subscription.
    pub request: Result<SubscribeRequest<'a>, ItemError>,
}

/// What one item of a SUBSCRIBE asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubscribeRequest<'a> {
    /// A topic, or a filter with wildcards; 1 to 255 bytes, its syntax unchecked.
    pub filter: &'a str,
    /// From where on.
    pub start: Start,
    /// Answer `position_unavailable` instead of announcing a gap.
    pub fail_on_gap: bool,
    /// Messages that the server may replay before it waits for CREDIT; without it, as the socket takes them.
    pub replay_credit: Option<u32>,
}

/// Where a subscription starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// With what is published from now on.
    Live,
    /// Behind this position.
    Since(Position),
    /// With the last so many messages of each topic.
    Last(u32),
    /// With the retained message, else the newest in history.
    Snapshot,
}

/// UNSUBSCRIBE.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Unsubscribe<'a> {
    /// The subscriptions to end.
    pub subscriptions: List<'a, u32>,
}

/// PUBLISH.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Publish<'a> {
    /// The client's number for the answer; 0 asks for no acknowledgement, errors come all the same.
    pub request: u32,
    /// The topic; 1 to 255 bytes, its syntax unchecked.
    pub topic: &'a str,
    /// Keep as the topic's retained message; an empty payload then clears it.
    pub retain: bool,
    /// Content type and tags.
    pub attributes: Attributes<'a>,
    /// The message.
    pub payload: &'a [u8],
}

/// HISTORY.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct History<'a> {
    /// The client's number for the answer.
    pub request: u32,
    /// The topic; 1 to 255 bytes, its syntax unchecked.
    pub topic: &'a str,
    /// Newest first.
    pub reverse: bool,
    /// Go on behind this position (before it when reversed); without it, from the oldest (newest) record.
    pub position: Option<Position>,
    /// The most records to answer; 0 leaves it to the server.
    pub records_max: u32,
    /// The most payload bytes to answer; 0 leaves it to the server. One record is answered whatever its size.
    pub bytes_max: u32,
}

/// CREDIT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credit {
    /// The replaying subscription.
    pub subscription: u32,
    /// How many messages more may be replayed.
    pub messages: u32,
}

impl<'a> ClientFrame<'a> {
    /// Reads one frame, which is all of `bytes`.
    ///
    /// # Errors
    /// [`FrameError`]: its code goes to the client, and the connection is closed where it says so.
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
            _ => return Err(FrameError::UnknownFrame(kind)),
        };
        reader.end()?;
        Ok(frame)
    }

    /// Appends the frame. Its strings keep their bounds (a topic has 1 to 255 bytes), which the builder answers for.
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
            Self::Publish(publish) => {
                let Publish {
                    request,
                    topic,
                    retain,
                    attributes,
                    payload,
                } = publish;
                encode_publish_head(*request, topic, *retain, attributes, out);
                out.extend_from_slice(payload);
            }
            Self::History(history) => write_history(history, out),
            Self::Credit(credit) => {
                out.extend_from_slice(&[frame_type::CREDIT, 0]);
                varint::encode(u64::from(credit.subscription), out);
                varint::encode(u64::from(credit.messages), out);
            }
            Self::Ping(token) => write_token(frame_type::PING, *token, out),
            Self::Pong(token) => write_token(frame_type::PONG, *token, out),
        }
    }
}

/// Appends all of a PUBLISH but its payload, which the caller appends up to the frame's end.
pub fn encode_publish_head(
    request: u32,
    topic: &str,
    retain: bool,
    attributes: &Attributes<'_>,
    out: &mut Vec<u8>,
) {
    let has_options = !attributes.is_empty();
    out.push(frame_type::PUBLISH);
    out.push(bit(retain, flag::RETAIN) | bit(has_options, flag::OPTIONS));
    varint::encode(u64::from(request), out);
    write_bytes(topic.as_bytes(), out);
    if has_options {
        attributes.encode_block(out);
    }
}

fn read_hello<'a>(reader: &mut Reader<'a>) -> Result<Hello<'a>, FrameError> {
    // The version stands before everything that another version may lay out differently, flags' meaning included.
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
    for (key, value) in Options::read(reader, raw_flags)?.iter() {
        match key {
            option_key::TOKEN => set_once(&mut token, key, text(value)?)?,
            option_key::NAME => set_once(&mut name, key, text(value)?)?,
            _ => skip_option(key, Reference::Connection)?,
        }
    }
    Ok(Hello {
        ping_interval_s,
        token,
        name,
    })
}

fn write_hello(hello: &Hello<'_>, out: &mut Vec<u8>) {
    let count = u8::from(hello.token.is_some()) + u8::from(hello.name.is_some());
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
}

fn read_publish<'a>(reader: &mut Reader<'a>) -> Result<Publish<'a>, FrameError> {
    let flags = reader.flags(flag::RETAIN)?;
    let request = reader.varint_u32()?;
    let reference = Reference::Request(request);
    let topic = reader.topic()?;
    let options = Options::read(reader, flags)?;
    let (attributes, unsupported) = Attributes::read(options)?;
    let topic = topic.map_err(|bytes| FrameError::TopicLength { bytes, reference })?;
    if let Some(key) = unsupported {
        return Err(FrameError::UnsupportedOption { key, reference });
    }
    Ok(Publish {
        request,
        topic,
        retain: flags & flag::RETAIN != 0,
        attributes,
        payload: reader.payload(),
    })
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
    Ok(Credit {
        subscription,
        messages,
    })
}

/// PING and PONG, in both directions.
pub(super) fn read_token(reader: &mut Reader<'_>) -> Result<u64, FrameError> {
    let flags = reader.flags(0)?;
    let token = reader.varint()?;
    read_no_options(reader, flags, Reference::Connection)?;
    Ok(token)
}

/// PING and PONG, in both directions.
pub(super) fn write_token(kind: u8, token: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&[kind, 0]);
    varint::encode(token, out);
}

/// Flags and options of a frame that defines neither.
fn read_plain_flags(reader: &mut Reader<'_>) -> Result<(), FrameError> {
    let flags = reader.flags(0)?;
    read_no_options(reader, flags, Reference::Connection)
}

/// The options block of a frame that defines no options.
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

/// An option that the frame does not know: skipped when even.
pub(super) fn skip_option(key: u64, reference: Reference) -> Result<(), FrameError> {
    if key.is_multiple_of(2) {
        Ok(())
    } else {
        Err(FrameError::UnsupportedOption { key, reference })
    }
}

/// `mask` when `set`.
pub(super) fn bit(set: bool, mask: u8) -> u8 {
    if set { mask } else { 0 }
}

const START_LIVE: u8 = 0;
const START_SINCE: u8 = 1;
const START_LAST: u8 = 2;
const START_SNAPSHOT: u8 = 3;

impl<'a> SubscribeItem<'a> {
    /// An item that asks for `request`.
    #[must_use]
    pub fn new(subscription: u32, request: SubscribeRequest<'a>) -> Self {
        Self {
            subscription,
            request: Ok(request),
        }
    }
}

impl<'a> SubscribeRequest<'a> {
    /// A request for `filter` from `start`, with gaps announced and no credit asked for.
    #[must_use]
    pub fn new(filter: &'a str, start: Start) -> Self {
        Self {
            filter,
            start,
            fail_on_gap: false,
            replay_credit: None,
        }
    }
}

#[allow(private_interfaces)]
impl<'a> Element<'a> for SubscribeItem<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, FrameError> {
        let subscription = reader.varint_u32()?;
        let flags = reader.flags(flag::FAIL_ON_GAP)?;
        let filter = reader.topic()?;
        let start = match reader.byte()? {
            START_LIVE => Start::Live,
            START_SINCE => Start::Since(reader.position()?),
            START_LAST => Start::Last(reader.varint_u32()?),
            START_SNAPSHOT => Start::Snapshot,
            _ => return Err(FrameError::InvalidValue("start")),
        };
        let mut replay_credit = None;
        let mut unsupported = None;
        for (key, value) in Options::read(reader, flags)?.iter() {
            match key {
                option_key::REPLAY_CREDIT => {
                    let mut value = Reader::new(value);
                    set_once(&mut replay_credit, key, value.varint_u32()?)?;
                    value.end()?;
                }
                _ if key % 2 == 1 => unsupported = unsupported.or(Some(key)),
                _ => {}
            }
        }
        let request = match (filter, unsupported) {
            (Err(bytes), _) => Err(ItemError::TopicLength(bytes)),
            (Ok(_), Some(key)) => Err(ItemError::UnsupportedOption(key)),
            (Ok(filter), None) => Ok(SubscribeRequest {
                filter,
                start,
                fail_on_gap: flags & flag::FAIL_ON_GAP != 0,
                replay_credit,
            }),
        };
        Ok(Self {
            subscription,
            request,
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        varint::encode(u64::from(self.subscription), out);
        match self.request {
            Ok(request) => write_request(&request, out),
            // A refused item came from the wire; written again, it is refused for the same reason.
            Err(ItemError::UnsupportedOption(key)) => {
                out.extend_from_slice(&[flag::OPTIONS, 1, b'?', START_LIVE, 1]);
                write_option(key, &[], out);
            }
            Err(ItemError::TopicLength(_)) => out.extend_from_slice(&[0, 0, START_LIVE]),
        }
    }
}

fn write_request(request: &SubscribeRequest<'_>, out: &mut Vec<u8>) {
    out.push(
        bit(request.fail_on_gap, flag::FAIL_ON_GAP)
            | bit(request.replay_credit.is_some(), flag::OPTIONS),
    );
    write_bytes(request.filter.as_bytes(), out);
    match request.start {
        Start::Live => out.push(START_LIVE),
        Start::Since(position) => {
            out.push(START_SINCE);
            write_position(position, out);
        }
        Start::Last(count) => {
            out.push(START_LAST);
            varint::encode(u64::from(count), out);
        }
        Start::Snapshot => out.push(START_SNAPSHOT),
    }
    if let Some(credit) = request.replay_credit {
        let mut value = [0; varint::BYTES_MAX];
        let length = varint::write(u64::from(credit), &mut value);
        out.push(1);
        write_option(option_key::REPLAY_CREDIT, &value[..length], out);
    }
}
