//! Frames from the server to the client.

use super::attributes::Attributes;
use super::client_frame::{bit, read_no_options, read_token, skip_option, write_token};
use super::message::{self, Retained};
use super::options::{Options, set_once, write_option};
use super::reader::{Reader, text, write_bytes, write_position};
use super::{
    Element, ErrorCode, FrameError, List, Position, Reference, VERSION, flag, frame_type,
    option_key, varint,
};

/// One frame from the server, borrowed from the message that carried it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ServerFrame<'a> {
    /// The answer to HELLO.
    Welcome(Welcome<'a>),
    /// A subscription holds.
    Subscribed(Subscribed),
    /// A subscription has ended.
    Unsubscribed(Unsubscribed),
    /// A message of a plain topic.
    Message(Message<'a>),
    /// A message for filters.
    NamedMessage(NamedMessage<'a>),
    /// Replay is over.
    CaughtUp(CaughtUp),
    /// Messages that can no longer be replayed.
    Gap(Gap),
    /// Messages left out on purpose.
    Skipped(Skipped),
    /// A publication's acknowledgement.
    Published(Published),
    /// One page of history.
    HistoryPage(HistoryPage<'a>),
    /// Something was refused.
    Error(ErrorFrame<'a>),
    /// Leave, and when and where to return.
    GoAway(GoAway<'a>),
    /// To be answered by a PONG with the same token.
    Ping(u64),
    /// The answer to the client's PING, with its token.
    Pong(u64),
}

/// WELCOME.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Welcome<'a> {
    /// The node's name for the connection.
    pub connection: u64,
    /// Seconds within which the server expects a sign of life; 0 for never.
    pub ping_interval_s: u32,
    /// The server's clock, milliseconds since 1970.
    pub time_ms: u64,
    /// The longest frame that the server takes, in bytes.
    pub frame_bytes_max: u64,
    /// The longest payload that the server takes, in bytes.
    pub message_bytes_max: u64,
    /// How many subscriptions the session may hold.
    pub subscriptions_per_session_max: u32,
    /// The node's name.
    pub node: Option<&'a str>,
}

/// SUBSCRIBED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subscribed {
    /// The client's number.
    pub subscription: u32,
    /// A replay follows, up to CAUGHT_UP.
    pub replaying: bool,
    /// Present for a plain topic, absent for a filter.
    pub plain: Option<PlainTopic>,
}

/// What a subscription to a plain topic starts with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlainTopic {
    /// Names the topic in MESSAGE, until a newer SUBSCRIBED takes it.
    pub alias: u32,
    /// The log's epoch, and `through`: everything up to and including this offset is settled.
    pub through: Position,
}

/// UNSUBSCRIBED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unsubscribed {
    /// The client's number, free again.
    pub subscription: u32,
    /// An [`super::UnsubscribeCode`]'s number; unknown ones below 2500 are final.
    pub code: u32,
}

/// MESSAGE.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Message<'a> {
    /// Names the topic, by the newest SUBSCRIBED that gave this alias.
    pub alias: u32,
    /// Its place in the partition.
    pub offset: u64,
    /// The topic has no record between this offset and `offset`.
    pub prev: u64,
    /// Whether it was published to be retained.
    pub retained: Retained,
    /// Content type and tags.
    pub attributes: Attributes<'a>,
    /// The message.
    pub payload: &'a [u8],
}

/// NAMED_MESSAGE.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NamedMessage<'a> {
    /// The topic.
    pub topic: &'a str,
    /// Its place: the log's epoch and the partition's offset.
    pub position: Position,
    /// The topic has no record between this offset and the message's.
    pub prev: u64,
    /// Whether it was published to be retained.
    pub retained: Retained,
    /// Content type and tags.
    pub attributes: Attributes<'a>,
    /// The message.
    pub payload: &'a [u8],
}

/// CAUGHT_UP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CaughtUp {
    /// The client's number.
    pub subscription: u32,
    /// Everything up to and including this offset is settled.
    pub through: u64,
}

/// GAP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The client's number.
    pub subscription: u32,
    /// The epoch that holds from here on.
    pub epoch: u64,
    /// The last settled offset; 0 when the asked position belongs to another epoch.
    pub from: u64,
    /// Everything up to and including this offset is settled now, as lost or unknown.
    pub to: u64,
    /// Why.
    pub reason: GapReason,
}

/// Why messages can no longer be replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GapReason {
    /// The log has dropped them for age or size.
    Evicted,
    /// The position's epoch is not this log's.
    UnknownEpoch,
    /// The position lies beyond the log's head.
    BeyondHead,
    /// The rule serves no more history than this.
    HistoryLimit,
    /// A reason of a later version.
    Other(u8),
}

/// SKIPPED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Skipped {
    /// The client's number.
    pub subscription: u32,
    /// For a filter: the partition that the offsets belong to.
    pub partition: Option<PartitionEpoch>,
    /// Exclusive: the last offset before what was left out.
    pub from: u64,
    /// Inclusive: everything up to this offset is settled.
    pub through: u64,
    /// Why.
    pub reason: SkipReason,
}

/// A partition of a log, in one life of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartitionEpoch {
    /// The partition's number.
    pub partition: u32,
    /// The log's epoch.
    pub epoch: u64,
}

/// Why messages were left out on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SkipReason {
    /// The client did not keep up, and the rule drops.
    Slow,
    /// Only the newest is sent.
    Conflated,
    /// They were too old when their turn came.
    Expired,
    /// The policy of the subscription drops them.
    Dropped,
    /// A reason of a later version.
    Other(u8),
}

/// PUBLISHED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Published {
    /// The client's number.
    pub request: u32,
    /// Where the message is.
    pub position: Position,
    /// The log had it already.
    pub duplicate: bool,
}

/// HISTORY_PAGE.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HistoryPage<'a> {
    /// The client's number.
    pub request: u32,
    /// The log's epoch, for all records.
    pub epoch: u64,
    /// The partition's newest offset.
    pub head: u64,
    /// There is more behind the last record.
    pub more: bool,
    /// Newest first.
    pub reverse: bool,
    /// What lies between the asked position and the first record and can no longer be had.
    pub gap: Option<PageGap>,
    /// The records.
    pub records: List<'a, HistoryRecord<'a>>,
}

/// What a page of history could not serve, in the page's epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageGap {
    /// Exclusive: the asked offset, or 0 where the asked position belongs to another epoch.
    pub from: u64,
    /// Inclusive.
    pub to: u64,
    /// Why.
    pub reason: GapReason,
}

/// One record of a page of history.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HistoryRecord<'a> {
    /// Its place in the partition.
    pub offset: u64,
    /// The topic has no record between this offset and `offset`.
    pub prev: u64,
    /// When the server took it, milliseconds since 1970.
    pub time_ms: u64,
    /// Whether it was published to be retained.
    pub retained: Retained,
    /// Content type and tags.
    pub attributes: Attributes<'a>,
    /// The message.
    pub payload: &'a [u8],
}

/// ERROR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorFrame<'a> {
    /// What is refused.
    pub reference: Reference,
    /// An [`ErrorCode`]'s number; a client must bear unknown ones.
    pub code: u32,
    /// The same may succeed later.
    pub temporary: bool,
    /// For people.
    pub message: &'a str,
    /// With `position_unavailable`: where to go on.
    pub restart: Option<Position>,
    /// The limit that would have been passed.
    pub limit: Option<u64>,
}

impl<'a> ErrorFrame<'a> {
    /// The error `code` with its own text.
    #[must_use]
    pub fn new(reference: Reference, code: ErrorCode) -> Self {
        Self {
            reference,
            code: u32::from(code.number()),
            temporary: code.temporary(),
            message: code.text(),
            restart: None,
            limit: None,
        }
    }

    /// What a client is told whose bytes were no frame.
    #[must_use]
    pub fn of_frame(error: &FrameError) -> Self {
        Self {
            limit: error.limit(),
            ..Self::new(error.reference(), error.code())
        }
    }
}

/// GO_AWAY.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GoAway<'a> {
    /// A [`super::CloseCode`]'s number: what the connection will be closed with.
    pub code: u32,
    /// How long to wait before returning, in milliseconds.
    pub return_after_ms: u64,
    /// Where to return, best first; empty for the same address.
    pub urls: List<'a, &'a str>,
}

impl<'a> ServerFrame<'a> {
    /// Reads one frame, which is all of `bytes`.
    ///
    /// # Errors
    /// [`FrameError`]: the server does not speak this protocol; the connection is of no further use.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FrameError> {
        let mut reader = Reader::new(bytes);
        let kind = reader.byte()?;
        let frame = match kind {
            frame_type::WELCOME => Self::Welcome(read_welcome(&mut reader)?),
            frame_type::SUBSCRIBED => Self::Subscribed(read_subscribed(&mut reader)?),
            frame_type::UNSUBSCRIBED => {
                let (subscription, code) = read_pair(&mut reader)?;
                let code = u32::try_from(code).map_err(|_| FrameError::NumberTooLarge)?;
                Self::Unsubscribed(Unsubscribed { subscription, code })
            }
            frame_type::MESSAGE => Self::Message(read_message(&mut reader)?),
            frame_type::NAMED_MESSAGE => Self::NamedMessage(read_named_message(&mut reader)?),
            frame_type::CAUGHT_UP => {
                let (subscription, through) = read_pair(&mut reader)?;
                Self::CaughtUp(CaughtUp {
                    subscription,
                    through,
                })
            }
            frame_type::GAP => Self::Gap(read_gap(&mut reader)?),
            frame_type::SKIPPED => Self::Skipped(read_skipped(&mut reader)?),
            frame_type::PUBLISHED => Self::Published(read_published(&mut reader)?),
            frame_type::HISTORY_PAGE => Self::HistoryPage(read_history_page(&mut reader)?),
            frame_type::ERROR => Self::Error(read_error(&mut reader)?),
            frame_type::GO_AWAY => Self::GoAway(read_go_away(&mut reader)?),
            frame_type::PING => Self::Ping(read_token(&mut reader)?),
            frame_type::PONG => Self::Pong(read_token(&mut reader)?),
            _ => return Err(FrameError::UnknownFrame(kind)),
        };
        reader.end()?;
        Ok(frame)
    }

    /// Appends the frame. `prev` is below its offset, which the builder answers for.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Welcome(welcome) => write_welcome(welcome, out),
            Self::Subscribed(subscribed) => write_subscribed(subscribed, out),
            Self::Unsubscribed(frame) => {
                out.extend_from_slice(&[frame_type::UNSUBSCRIBED, 0]);
                varint::encode(u64::from(frame.subscription), out);
                varint::encode(u64::from(frame.code), out);
            }
            Self::Message(frame) => {
                let has_options = !frame.attributes.is_empty();
                let head = message::message_head(
                    frame.alias,
                    frame.offset,
                    frame.prev,
                    frame.retained,
                    has_options,
                );
                out.extend_from_slice(&head);
                write_body(&frame.attributes, frame.payload, out);
            }
            Self::NamedMessage(frame) => {
                let has_options = !frame.attributes.is_empty();
                message::encode_named_message_head(
                    frame.topic,
                    frame.position,
                    frame.prev,
                    frame.retained,
                    has_options,
                    out,
                );
                write_body(&frame.attributes, frame.payload, out);
            }
            Self::CaughtUp(frame) => {
                out.extend_from_slice(&[frame_type::CAUGHT_UP, 0]);
                varint::encode(u64::from(frame.subscription), out);
                varint::encode(frame.through, out);
            }
            Self::Gap(gap) => write_gap(gap, out),
            Self::Skipped(skipped) => write_skipped(skipped, out),
            Self::Published(published) => {
                out.push(frame_type::PUBLISHED);
                out.push(bit(published.duplicate, flag::DUPLICATE));
                varint::encode(u64::from(published.request), out);
                write_position(published.position, out);
            }
            Self::HistoryPage(page) => write_history_page(page, out),
            Self::Error(error) => write_error(error, out),
            Self::GoAway(frame) => {
                out.extend_from_slice(&[frame_type::GO_AWAY, 0]);
                varint::encode(u64::from(frame.code), out);
                varint::encode(frame.return_after_ms, out);
                frame.urls.write(out);
            }
            Self::Ping(token) => write_token(frame_type::PING, *token, out),
            Self::Pong(token) => write_token(frame_type::PONG, *token, out),
        }
    }
}

fn read_welcome<'a>(reader: &mut Reader<'a>) -> Result<Welcome<'a>, FrameError> {
    // As in HELLO, the version is judged before anything that another version may change.
    let flags = reader.byte()?;
    let version = reader.byte()?;
    if version != VERSION {
        return Err(FrameError::UnsupportedVersion(version));
    }
    if flags & !flag::OPTIONS != 0 {
        return Err(FrameError::UnsupportedFlags(flags & !flag::OPTIONS));
    }
    let connection = reader.fixed_u64()?;
    let ping_interval_s = reader.varint_u32()?;
    let time_ms = reader.varint()?;
    let frame_bytes_max = reader.varint()?;
    let message_bytes_max = reader.varint()?;
    let subscriptions_per_session_max = reader.varint_u32()?;
    let mut node = None;
    for (key, value) in Options::read(reader, flags)?.iter() {
        match key {
            option_key::NAME => set_once(&mut node, key, text(value)?)?,
            _ => skip_option(key, Reference::Connection)?,
        }
    }
    Ok(Welcome {
        connection,
        ping_interval_s,
        time_ms,
        frame_bytes_max,
        message_bytes_max,
        subscriptions_per_session_max,
        node,
    })
}

fn write_welcome(welcome: &Welcome<'_>, out: &mut Vec<u8>) {
    out.push(frame_type::WELCOME);
    out.push(bit(welcome.node.is_some(), flag::OPTIONS));
    out.push(VERSION);
    out.extend_from_slice(&welcome.connection.to_le_bytes());
    varint::encode(u64::from(welcome.ping_interval_s), out);
    varint::encode(welcome.time_ms, out);
    varint::encode(welcome.frame_bytes_max, out);
    varint::encode(welcome.message_bytes_max, out);
    varint::encode(u64::from(welcome.subscriptions_per_session_max), out);
    if let Some(node) = welcome.node {
        out.push(1);
        write_option(option_key::NAME, node.as_bytes(), out);
    }
}

fn read_subscribed(reader: &mut Reader<'_>) -> Result<Subscribed, FrameError> {
    let flags = reader.flags(flag::FILTER | flag::REPLAYING)?;
    let subscription = reader.varint_u32()?;
    let plain = if flags & flag::FILTER == 0 {
        let alias = reader.varint_u32()?;
        let through = reader.position()?;
        Some(PlainTopic { alias, through })
    } else {
        None
    };
    read_no_options(reader, flags, Reference::Connection)?;
    Ok(Subscribed {
        subscription,
        replaying: flags & flag::REPLAYING != 0,
        plain,
    })
}

fn write_subscribed(subscribed: &Subscribed, out: &mut Vec<u8>) {
    out.push(frame_type::SUBSCRIBED);
    out.push(
        bit(subscribed.plain.is_none(), flag::FILTER) | bit(subscribed.replaying, flag::REPLAYING),
    );
    varint::encode(u64::from(subscribed.subscription), out);
    if let Some(plain) = subscribed.plain {
        varint::encode(u64::from(plain.alias), out);
        write_position(plain.through, out);
    }
}

fn read_pair(reader: &mut Reader<'_>) -> Result<(u32, u64), FrameError> {
    let flags = reader.flags(0)?;
    let subscription = reader.varint_u32()?;
    let value = reader.varint()?;
    read_no_options(reader, flags, Reference::Connection)?;
    Ok((subscription, value))
}

fn read_message<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, FrameError> {
    let flags = reader.flags(flag::RETAINED)?;
    let alias = reader.varint_u32()?;
    let (offset, prev) = reader.offset_and_prev()?;
    let attributes = read_attributes(reader, flags)?;
    Ok(Message {
        alias,
        offset,
        prev,
        retained: read_retained(flags),
        attributes,
        payload: reader.payload(),
    })
}

fn read_named_message<'a>(reader: &mut Reader<'a>) -> Result<NamedMessage<'a>, FrameError> {
    let flags = reader.flags(flag::RETAINED)?;
    let topic = reader.topic()?.map_err(|bytes| FrameError::TopicLength {
        bytes,
        reference: Reference::Connection,
    })?;
    let epoch = reader.varint()?;
    let (offset, prev) = reader.offset_and_prev()?;
    let attributes = read_attributes(reader, flags)?;
    Ok(NamedMessage {
        topic,
        position: Position { epoch, offset },
        prev,
        retained: read_retained(flags),
        attributes,
        payload: reader.payload(),
    })
}

fn read_attributes<'a>(reader: &mut Reader<'a>, flags: u8) -> Result<Attributes<'a>, FrameError> {
    match Attributes::read(Options::read(reader, flags)?)? {
        (attributes, None) => Ok(attributes),
        (_, Some(key)) => Err(FrameError::UnsupportedOption {
            key,
            reference: Reference::Connection,
        }),
    }
}

fn read_retained(flags: u8) -> Retained {
    match flags & flag::RETAINED {
        0 => Retained::No,
        _ => Retained::Yes,
    }
}

fn write_body(attributes: &Attributes<'_>, payload: &[u8], out: &mut Vec<u8>) {
    if !attributes.is_empty() {
        attributes.encode_block(out);
    }
    out.extend_from_slice(payload);
}

fn read_gap(reader: &mut Reader<'_>) -> Result<Gap, FrameError> {
    let flags = reader.flags(0)?;
    let subscription = reader.varint_u32()?;
    let epoch = reader.varint()?;
    let from = reader.varint()?;
    let to = reader.varint()?;
    let reason = GapReason::from_number(reader.byte()?);
    read_no_options(reader, flags, Reference::Connection)?;
    Ok(Gap {
        subscription,
        epoch,
        from,
        to,
        reason,
    })
}

fn write_gap(gap: &Gap, out: &mut Vec<u8>) {
    out.extend_from_slice(&[frame_type::GAP, 0]);
    varint::encode(u64::from(gap.subscription), out);
    varint::encode(gap.epoch, out);
    varint::encode(gap.from, out);
    varint::encode(gap.to, out);
    out.push(gap.reason.number());
}

fn read_skipped(reader: &mut Reader<'_>) -> Result<Skipped, FrameError> {
    let flags = reader.flags(flag::HAS_PARTITION)?;
    let subscription = reader.varint_u32()?;
    let partition = match flags & flag::HAS_PARTITION {
        0 => None,
        _ => Some(PartitionEpoch {
            partition: reader.varint_u32()?,
            epoch: reader.varint()?,
        }),
    };
    let from = reader.varint()?;
    let through = reader.varint()?;
    let reason = SkipReason::from_number(reader.byte()?);
    read_no_options(reader, flags, Reference::Connection)?;
    Ok(Skipped {
        subscription,
        partition,
        from,
        through,
        reason,
    })
}

fn write_skipped(skipped: &Skipped, out: &mut Vec<u8>) {
    out.push(frame_type::SKIPPED);
    out.push(bit(skipped.partition.is_some(), flag::HAS_PARTITION));
    varint::encode(u64::from(skipped.subscription), out);
    if let Some(partition) = skipped.partition {
        varint::encode(u64::from(partition.partition), out);
        varint::encode(partition.epoch, out);
    }
    varint::encode(skipped.from, out);
    varint::encode(skipped.through, out);
    out.push(skipped.reason.number());
}

fn read_published(reader: &mut Reader<'_>) -> Result<Published, FrameError> {
    let flags = reader.flags(flag::DUPLICATE)?;
    let request = reader.varint_u32()?;
    let position = reader.position()?;
    read_no_options(reader, flags, Reference::Connection)?;
    Ok(Published {
        request,
        position,
        duplicate: flags & flag::DUPLICATE != 0,
    })
}

fn read_history_page<'a>(reader: &mut Reader<'a>) -> Result<HistoryPage<'a>, FrameError> {
    let flags = reader.flags(flag::REVERSE | flag::MORE | flag::HAS_GAP)?;
    let request = reader.varint_u32()?;
    let epoch = reader.varint()?;
    let head = reader.varint()?;
    let gap = match flags & flag::HAS_GAP {
        0 => None,
        _ => Some(PageGap {
            from: reader.varint()?,
            to: reader.varint()?,
            reason: GapReason::from_number(reader.byte()?),
        }),
    };
    read_no_options(reader, flags, Reference::Connection)?;
    let records = List::read(reader)?;
    Ok(HistoryPage {
        request,
        epoch,
        head,
        more: flags & flag::MORE != 0,
        reverse: flags & flag::REVERSE != 0,
        gap,
        records,
    })
}

fn write_history_page(page: &HistoryPage<'_>, out: &mut Vec<u8>) {
    out.push(frame_type::HISTORY_PAGE);
    out.push(
        bit(page.more, flag::MORE)
            | bit(page.reverse, flag::REVERSE)
            | bit(page.gap.is_some(), flag::HAS_GAP),
    );
    varint::encode(u64::from(page.request), out);
    varint::encode(page.epoch, out);
    varint::encode(page.head, out);
    if let Some(gap) = page.gap {
        varint::encode(gap.from, out);
        varint::encode(gap.to, out);
        out.push(gap.reason.number());
    }
    page.records.write(out);
}

#[allow(private_interfaces)]
impl<'a> Element<'a> for HistoryRecord<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, FrameError> {
        let flags = reader.flags(flag::RETAINED)?;
        let (offset, prev) = reader.offset_and_prev()?;
        let time_ms = reader.varint()?;
        let attributes = read_attributes(reader, flags)?;
        let payload = reader.bytes()?;
        Ok(Self {
            offset,
            prev,
            time_ms,
            retained: read_retained(flags),
            attributes,
            payload,
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        let has_options = !self.attributes.is_empty();
        out.push(message::flags(self.retained, has_options));
        varint::encode(self.offset, out);
        varint::encode(message::prev_delta(self.offset, self.prev), out);
        varint::encode(self.time_ms, out);
        if has_options {
            self.attributes.encode_block(out);
        }
        write_bytes(self.payload, out);
    }
}

const REFERENCE_CONNECTION: u8 = 0;
const REFERENCE_REQUEST: u8 = 1;
const REFERENCE_SUBSCRIPTION: u8 = 2;

fn read_error<'a>(reader: &mut Reader<'a>) -> Result<ErrorFrame<'a>, FrameError> {
    let flags = reader.flags(flag::TEMPORARY | flag::HAS_RESTART | flag::HAS_LIMIT)?;
    let kind = reader.byte()?;
    let id = reader.varint_u32()?;
    let reference = match (kind, id) {
        (REFERENCE_CONNECTION, 0) => Reference::Connection,
        (REFERENCE_REQUEST, id) => Reference::Request(id),
        (REFERENCE_SUBSCRIPTION, id) => Reference::Subscription(id),
        _ => return Err(FrameError::InvalidValue("reference")),
    };
    let code = reader.varint_u32()?;
    let message = reader.string()?;
    let restart = match flags & flag::HAS_RESTART {
        0 => None,
        _ => Some(reader.position()?),
    };
    let limit = match flags & flag::HAS_LIMIT {
        0 => None,
        _ => Some(reader.varint()?),
    };
    read_no_options(reader, flags, Reference::Connection)?;
    Ok(ErrorFrame {
        reference,
        code,
        temporary: flags & flag::TEMPORARY != 0,
        message,
        restart,
        limit,
    })
}

fn write_error(error: &ErrorFrame<'_>, out: &mut Vec<u8>) {
    out.push(frame_type::ERROR);
    out.push(
        bit(error.temporary, flag::TEMPORARY)
            | bit(error.restart.is_some(), flag::HAS_RESTART)
            | bit(error.limit.is_some(), flag::HAS_LIMIT),
    );
    let (kind, id) = match error.reference {
        Reference::Connection => (REFERENCE_CONNECTION, 0),
        Reference::Request(id) => (REFERENCE_REQUEST, id),
        Reference::Subscription(id) => (REFERENCE_SUBSCRIPTION, id),
    };
    out.push(kind);
    varint::encode(u64::from(id), out);
    varint::encode(u64::from(error.code), out);
    write_bytes(error.message.as_bytes(), out);
    if let Some(restart) = error.restart {
        write_position(restart, out);
    }
    if let Some(limit) = error.limit {
        varint::encode(limit, out);
    }
}

fn read_go_away<'a>(reader: &mut Reader<'a>) -> Result<GoAway<'a>, FrameError> {
    let flags = reader.flags(0)?;
    let code = reader.varint_u32()?;
    let return_after_ms = reader.varint()?;
    read_no_options(reader, flags, Reference::Connection)?;
    let urls = List::read(reader)?;
    Ok(GoAway {
        code,
        return_after_ms,
        urls,
    })
}

impl GapReason {
    /// The reason with this number; later versions' reasons are kept as numbers.
    #[must_use]
    pub fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Evicted,
            1 => Self::UnknownEpoch,
            2 => Self::BeyondHead,
            3 => Self::HistoryLimit,
            other => Self::Other(other),
        }
    }

    /// The number on the wire.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Evicted => 0,
            Self::UnknownEpoch => 1,
            Self::BeyondHead => 2,
            Self::HistoryLimit => 3,
            Self::Other(number) => number,
        }
    }
}

impl SkipReason {
    /// The reason with this number; later versions' reasons are kept as numbers.
    #[must_use]
    pub fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Slow,
            1 => Self::Conflated,
            2 => Self::Expired,
            3 => Self::Dropped,
            other => Self::Other(other),
        }
    }

    /// The number on the wire.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Slow => 0,
            Self::Conflated => 1,
            Self::Expired => 2,
            Self::Dropped => 3,
            Self::Other(number) => number,
        }
    }
}
