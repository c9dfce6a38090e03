//! Bytes to server frames and back, field by field.

use super::attributes::Attributes;
use super::client_frame::{bit, read_no_options, read_token, skip_option, write_token};
use super::message::{self, Retained};
use super::options::{Options, set_once, write_option};
use super::reader::{Reader, text, write_bytes, write_position};
use super::server_frame::*;
use super::{
    Element, FrameError, List, Position, Reference, VERSION, flag, frame_type, option_key, varint,
};

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
