//! Bytes to server frames and back, field by field.

use super::attributes::Attributes;
use super::client_frame::{bit, read_no_options, read_token, skip_option, write_token};
use super::message::{self, NamedHead, Retained};
use super::options::{Options, lineage, set_once, write_lineage, write_option};
use super::reader::{Reader, text, write_bytes, write_position};
use super::server_frame::*;
use super::{
    Beginning, Element, FrameError, List, Position, Reference, VERSION, flag, frame_type,
    option_key, varint,
};

impl<'a> ServerFrame<'a> {
    /// Decodes one frame, which is all of `bytes`.
    ///
    /// # Errors
    /// [`FrameError`]: the server does not speak this protocol; the connection must be closed.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FrameError> {
        let mut reader = Reader::new(bytes);
        let kind = reader.byte()?;
        let frame = match kind {
            frame_type::WELCOME => Self::Welcome(read_welcome(&mut reader)?),
            frame_type::SUBSCRIBED => Self::Subscribed(read_subscribed(&mut reader)?),
            frame_type::UNSUBSCRIBED => {
                let flags = reader.flags(0)?;
                let subscription = reader.varint_u32()?;
                let code = reader.varint_u32()?;
                read_no_options(&mut reader, flags, Reference::Connection)?;
                Self::Unsubscribed(Unsubscribed { subscription, code })
            }
            frame_type::MESSAGE => Self::Message(read_message(&mut reader)?),
            frame_type::NAMED_MESSAGE => Self::NamedMessage(read_named_message(&mut reader)?),
            frame_type::CAUGHT_UP => Self::CaughtUp(read_caught_up(&mut reader)?),
            frame_type::GAP => Self::Gap(read_gap(&mut reader)?),
            frame_type::SKIPPED => Self::Skipped(read_skipped(&mut reader)?),
            frame_type::PUBLISHED => Self::Published(read_published(&mut reader)?),
            frame_type::HISTORY_PAGE => Self::HistoryPage(read_history_page(&mut reader)?),
            frame_type::ERROR => Self::Error(read_error(&mut reader)?),
            frame_type::GO_AWAY => Self::GoAway(read_go_away(&mut reader)?),
            frame_type::PING => Self::Ping(read_token(&mut reader)?),
            frame_type::PONG => Self::Pong(read_token(&mut reader)?),
            frame_type::TICKET_ISSUED => Self::TicketIssued(read_ticket(&mut reader)?),
            frame_type::RENEWED => {
                let flags = reader.flags(0)?;
                let request = reader.varint_u32()?;
                let expires_ms = reader.varint()?;
                read_no_options(&mut reader, flags, Reference::Connection)?;
                Self::Renewed(Renewed { request, expires_ms })
            }
            frame_type::TOKEN_EXPIRES => Self::TokenExpires(read_token(&mut reader)?),
            _ => return Err(FrameError::UnknownFrame(kind)),
        };
        reader.end()?;
        Ok(frame)
    }

    /// Appends the frame. The caller guarantees that `prev` is below its offset.
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
                let has_options = frame.lineage.is_some() || !frame.attributes.is_empty();
                let head = message::message_head(
                    frame.alias,
                    frame.offset,
                    frame.prev,
                    frame.retained,
                    has_options,
                );
                out.extend_from_slice(&head);
                frame.attributes.encode_message_block(frame.lineage, out);
                out.extend_from_slice(frame.payload);
            }
            Self::NamedMessage(frame) => write_named_message(frame, out),
            Self::CaughtUp(frame) => {
                let at = (frame.subscription, frame.partition);
                write_of_partition(frame_type::CAUGHT_UP, at, frame.lineage, out);
                varint::encode(frame.through, out);
                write_only_lineage(frame.lineage, out);
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
                out.push(frame_type::GO_AWAY);
                out.push(bit(frame.ticket.is_some(), flag::OPTIONS));
                varint::encode(u64::from(frame.code), out);
                varint::encode(frame.return_after_ms, out);
                if let Some(ticket) = frame.ticket {
                    out.push(1);
                    write_option(option_key::RETURN_TICKET, ticket, out);
                }
                frame.urls.write(out);
            }
            Self::Ping(token) => write_token(frame_type::PING, *token, out),
            Self::Pong(token) => write_token(frame_type::PONG, *token, out),
            Self::TicketIssued(issued) => {
                out.extend_from_slice(&[frame_type::TICKET_ISSUED, 0]);
                varint::encode(u64::from(issued.request), out);
                varint::encode(issued.expires_ms, out);
                write_bytes(issued.ticket, out);
            }
            Self::Renewed(renewed) => {
                out.extend_from_slice(&[frame_type::RENEWED, 0]);
                varint::encode(u64::from(renewed.request), out);
                varint::encode(renewed.expires_ms, out);
            }
            Self::TokenExpires(expires_ms) => {
                write_token(frame_type::TOKEN_EXPIRES, *expires_ms, out);
            }
        }
    }
}

fn read_welcome<'a>(reader: &mut Reader<'a>) -> Result<Welcome<'a>, FrameError> {
    // As in HELLO, the version is checked before everything that another version may change.
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
    let mut resumed = None;
    let mut ticket_lifetime_s = None;
    for (key, value) in Options::read(reader, flags)?.iter() {
        match key {
            option_key::NAME => set_once(&mut node, key, text(value)?)?,
            option_key::RESUMED => set_once(&mut resumed, key, number(value)?)?,
            option_key::TICKET_LIFETIME_S => {
                set_once(&mut ticket_lifetime_s, key, number(value)?)?;
            }
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
        resumed,
        ticket_lifetime_s,
    })
}

/// Decodes an option that is a number of 32 bits.
fn number(value: &[u8]) -> Result<u32, FrameError> {
    let mut value = Reader::new(value);
    let number = value.varint_u32()?;
    value.end()?;
    Ok(number)
}

fn write_number(key: u64, number: u32, out: &mut Vec<u8>) {
    let number = u64::from(number);
    varint::encode(key, out);
    varint::encode(varint::length(number) as u64, out);
    varint::encode(number, out);
}

fn write_welcome(welcome: &Welcome<'_>, out: &mut Vec<u8>) {
    out.push(frame_type::WELCOME);
    let count = u8::from(welcome.node.is_some())
        + u8::from(welcome.resumed.is_some())
        + u8::from(welcome.ticket_lifetime_s.is_some());
    out.push(bit(count > 0, flag::OPTIONS));
    out.push(VERSION);
    out.extend_from_slice(&welcome.connection.to_le_bytes());
    varint::encode(u64::from(welcome.ping_interval_s), out);
    varint::encode(welcome.time_ms, out);
    varint::encode(welcome.frame_bytes_max, out);
    varint::encode(welcome.message_bytes_max, out);
    varint::encode(u64::from(welcome.subscriptions_per_session_max), out);
    if count > 0 {
        out.push(count);
    }
    if let Some(node) = welcome.node {
        write_option(option_key::NAME, node.as_bytes(), out);
    }
    if let Some(resumed) = welcome.resumed {
        write_number(option_key::RESUMED, resumed, out);
    }
    if let Some(ticket_lifetime_s) = welcome.ticket_lifetime_s {
        write_number(option_key::TICKET_LIFETIME_S, ticket_lifetime_s, out);
    }
}

fn read_subscribed<'a>(reader: &mut Reader<'a>) -> Result<Subscribed<'a>, FrameError> {
    let flags = reader.flags(flag::FILTER | Beginning::FLAGS)?;
    let subscription = reader.varint_u32()?;
    let is_filter = flags & flag::FILTER != 0;
    // A filter replays and continues per partition.
    if is_filter && flags & Beginning::FLAGS != 0 {
        return Err(FrameError::UnsupportedFlags(flags & Beginning::FLAGS));
    }
    if is_filter {
        read_no_options(reader, flags, Reference::Connection)?;
        let to = SubscribedTo::Filter(List::read(reader)?);
        return Ok(Subscribed { subscription, to });
    }
    let alias = reader.varint_u32()?;
    let beginning = Beginning::read(flags, reader)?;
    read_no_options(reader, flags, Reference::Connection)?;
    let to = SubscribedTo::Topic(PlainTopic { alias, beginning });
    Ok(Subscribed { subscription, to })
}

fn write_subscribed(subscribed: &Subscribed<'_>, out: &mut Vec<u8>) {
    out.push(frame_type::SUBSCRIBED);
    match subscribed.to {
        SubscribedTo::Topic(PlainTopic { alias, beginning }) => {
            out.push(beginning.flags());
            varint::encode(u64::from(subscribed.subscription), out);
            varint::encode(u64::from(alias), out);
            write_position(beginning.through, out);
        }
        SubscribedTo::Filter(partitions) => {
            out.push(flag::FILTER);
            varint::encode(u64::from(subscribed.subscription), out);
            partitions.write(out);
        }
    }
}

/// Reads the beginning of a frame that may concern one partition of a filter: flags, subscription,
/// partition.
fn read_of_partition(reader: &mut Reader<'_>) -> Result<(u8, u32, Option<u32>), FrameError> {
    let flags = reader.flags(flag::HAS_PARTITION)?;
    let subscription = reader.varint_u32()?;
    let partition = match flags & flag::HAS_PARTITION {
        0 => None,
        _ => Some(reader.varint_u32()?),
    };
    Ok((flags, subscription, partition))
}

fn write_of_partition(
    kind: u8,
    (subscription, partition): (u32, Option<u32>),
    lineage: Option<u8>,
    out: &mut Vec<u8>,
) {
    out.push(kind);
    let has_options = bit(lineage.is_some(), flag::OPTIONS);
    out.push(bit(partition.is_some(), flag::HAS_PARTITION) | has_options);
    varint::encode(u64::from(subscription), out);
    if let Some(partition) = partition {
        varint::encode(u64::from(partition), out);
    }
}

fn read_caught_up(reader: &mut Reader<'_>) -> Result<CaughtUp, FrameError> {
    let (flags, subscription, partition) = read_of_partition(reader)?;
    let through = reader.varint()?;
    let lineage = read_lineage(reader, flags)?;
    Ok(CaughtUp { subscription, partition, through, lineage })
}

/// Reads the options of a frame that may have a lineage and nothing else.
fn read_lineage(reader: &mut Reader<'_>, flags: u8) -> Result<Option<u8>, FrameError> {
    let options = Options::read(reader, flags)?;
    for (key, _) in options.iter() {
        skip_option(key, Reference::Connection)?;
    }
    lineage(options)
}

/// Appends the options block of a frame that has a lineage or nothing.
fn write_only_lineage(lineage: Option<u8>, out: &mut Vec<u8>) {
    if lineage.is_some() {
        out.push(1);
        write_lineage(lineage, out);
    }
}

fn read_ticket<'a>(reader: &mut Reader<'a>) -> Result<TicketIssued<'a>, FrameError> {
    let flags = reader.flags(0)?;
    let request = reader.varint_u32()?;
    let expires_ms = reader.varint()?;
    let ticket = reader.bytes()?;
    read_no_options(reader, flags, Reference::Connection)?;
    Ok(TicketIssued { request, expires_ms, ticket })
}

fn read_message<'a>(reader: &mut Reader<'a>) -> Result<Message<'a>, FrameError> {
    let flags = reader.flags(flag::RETAINED)?;
    let alias = reader.varint_u32()?;
    let (offset, prev) = reader.offset_and_prev()?;
    let (lineage, attributes) = match flags & flag::OPTIONS {
        0 => Default::default(),
        _ => {
            let options = Options::read(reader, flags)?;
            (lineage(options)?, supported(options)?)
        }
    };
    let retained = read_retained(flags);
    let payload = reader.payload();
    Ok(Message { alias, offset, prev, retained, lineage, attributes, payload })
}

fn read_named_message<'a>(reader: &mut Reader<'a>) -> Result<NamedMessage<'a>, FrameError> {
    let flags = reader.flags(flag::RETAINED)?;
    let topic = reader
        .topic()?
        .map_err(|bytes| FrameError::TopicLength { bytes, reference: Reference::Connection })?;
    let partition = reader.varint_u32()?;
    let epoch = reader.varint()?;
    let (offset, prev) = reader.offset_and_prev()?;
    let options = Options::read(reader, flags)?;
    let attributes = supported(options)?;
    let mut subscription = None;
    for (key, value) in options.iter() {
        if key == option_key::SUBSCRIPTION {
            set_once(&mut subscription, key, number(value)?)?;
        }
    }
    Ok(NamedMessage {
        topic,
        partition,
        position: Position { epoch, offset },
        prev,
        retained: read_retained(flags),
        subscription,
        lineage: lineage(options)?,
        attributes,
        payload: reader.payload(),
    })
}

fn write_named_message(frame: &NamedMessage<'_>, out: &mut Vec<u8>) {
    let mut block = Vec::new();
    if !frame.attributes.is_empty() {
        frame.attributes.encode_block(&mut block);
    }
    let head = NamedHead {
        topic: frame.topic,
        partition: frame.partition,
        position: frame.position,
        prev: frame.prev,
        retained: frame.retained,
        subscription: frame.subscription,
        lineage: frame.lineage,
    };
    message::encode_named_message_head(&head, &block, out);
    out.extend_from_slice(frame.payload);
}

fn read_attributes<'a>(reader: &mut Reader<'a>, flags: u8) -> Result<Attributes<'a>, FrameError> {
    supported(Options::read(reader, flags)?)
}

/// Returns the attributes among options whose odd keys are all known.
fn supported(options: Options<'_>) -> Result<Attributes<'_>, FrameError> {
    match Attributes::read(options)? {
        (attributes, None) => Ok(attributes),
        (_, Some(key)) => {
            Err(FrameError::UnsupportedOption { key, reference: Reference::Connection })
        }
    }
}

fn read_retained(flags: u8) -> Retained {
    match flags & flag::RETAINED {
        0 => Retained::No,
        _ => Retained::Yes,
    }
}

fn read_gap(reader: &mut Reader<'_>) -> Result<Gap, FrameError> {
    let (flags, subscription, partition) = read_of_partition(reader)?;
    let epoch = reader.varint()?;
    let from = reader.varint()?;
    let to = reader.varint()?;
    let reason = GapReason::from_number(reader.byte()?);
    read_no_options(reader, flags, Reference::Connection)?;
    Ok(Gap { subscription, partition, epoch, from, to, reason })
}

fn write_gap(gap: &Gap, out: &mut Vec<u8>) {
    write_of_partition(frame_type::GAP, (gap.subscription, gap.partition), None, out);
    varint::encode(gap.epoch, out);
    varint::encode(gap.from, out);
    varint::encode(gap.to, out);
    out.push(gap.reason.number());
}

fn read_skipped(reader: &mut Reader<'_>) -> Result<Skipped, FrameError> {
    let (flags, subscription, partition) = read_of_partition(reader)?;
    let partition = match partition {
        None => None,
        Some(partition) => Some(PartitionEpoch { partition, epoch: reader.varint()? }),
    };
    let from = reader.varint()?;
    let through = reader.varint()?;
    let reason = SkipReason::from_number(reader.byte()?);
    let lineage = read_lineage(reader, flags)?;
    Ok(Skipped { subscription, partition, from, through, reason, lineage })
}

fn write_skipped(skipped: &Skipped, out: &mut Vec<u8>) {
    let partition = skipped.partition.map(|partition| partition.partition);
    let at = (skipped.subscription, partition);
    write_of_partition(frame_type::SKIPPED, at, skipped.lineage, out);
    if let Some(partition) = skipped.partition {
        varint::encode(partition.epoch, out);
    }
    varint::encode(skipped.from, out);
    varint::encode(skipped.through, out);
    out.push(skipped.reason.number());
    write_only_lineage(skipped.lineage, out);
}

fn read_published(reader: &mut Reader<'_>) -> Result<Published, FrameError> {
    let flags = reader.flags(flag::DUPLICATE)?;
    let request = reader.varint_u32()?;
    let position = reader.position()?;
    read_no_options(reader, flags, Reference::Connection)?;
    Ok(Published { request, position, duplicate: flags & flag::DUPLICATE != 0 })
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
        Ok(Self { offset, prev, time_ms, retained: read_retained(flags), attributes, payload })
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
    let mut ticket = None;
    for (key, value) in Options::read(reader, flags)?.iter() {
        match key {
            option_key::RETURN_TICKET => set_once(&mut ticket, key, value)?,
            _ => skip_option(key, Reference::Connection)?,
        }
    }
    let urls = List::read(reader)?;
    Ok(GoAway { code, return_after_ms, urls, ticket })
}
