//! Notices as frames of the native protocol.
//!
//! Step 9 of the path. Pure: a frame depends on the notice alone.

use crate::attributes::{append_attributes, retained};
use crate::mail::{Appended, Gap, GapReason, HistoryPage, PartitionId, PublishRefusal};
use crate::notice::{self, Encoded, Found, Grant, LeftOut, Notice, Refusal, Settles};
use crate::position::Position;
use crate::protocol::Form;
use crate::settings::LagPolicy;
use log::RecordView;
use wire::native::{
    self, Attributes, Beginning, CaughtUp, CloseCode, ErrorFrame, GoAway, HistoryRecord, List,
    MessageHead, NamedHead, PageGap, PartitionBeginning, PartitionEpoch, PlainTopic, Published,
    Reference, Renewed, ServerFrame, Subscribed, SubscribedTo, TicketIssued, Unsubscribed,
};
use wire::websocket::frame::encode_header;

/// Appends the frame of a notice in this form, without a WebSocket header.
pub(in crate::session) fn notice(notice: &Notice<'_>, form: Form, out: &mut Vec<u8>) -> Encoded {
    let mut encoded = Encoded::ANSWER;
    let frame = match *notice {
        Notice::Subscribed { client, alias, grant } => subscribed(client, alias, grant),
        Notice::SubscribedFilter { client, beginnings, .. } => {
            return subscribed_filter(client, beginnings, form, out);
        }
        // The frame of the retained message stands before what SUBSCRIBED settled.
        Notice::RetainedSent { client, position, lineage, is_replaying: false } => {
            caught_up((client, None), position.offset, lineage)
        }
        Notice::Refused { client, refusal } => {
            ServerFrame::Error(error(Reference::Subscription(client), &refusal))
        }
        Notice::Failed { reference, refusal, message } => {
            let error = error(reference, &refusal);
            ServerFrame::Error(ErrorFrame { message: message.unwrap_or(error.message), ..error })
        }
        Notice::Gap { client, epoch, partition, gap, found } => {
            encoded = gap_mark((client, epoch), partition, &gap, found);
            gap_of(client, epoch, partition, &gap)
        }
        Notice::LeftOut { client, epoch, lineage, partition, left_out } => {
            let range = (left_out.from, left_out.through);
            encoded = Encoded::mark(settles((client, epoch), partition, range));
            skipped((client, epoch, lineage), partition, left_out)
        }
        Notice::CaughtUp { client, from, position, lineage } => {
            encoded = Encoded::mark(Settles::Topic { client, from, position });
            caught_up((client, None), position.offset, lineage)
        }
        Notice::FilterCaughtUp { client, lineage, partition, through, .. } => {
            encoded = Encoded::mark(Settles::Filters { partition, after: through, through });
            caught_up((client, Some(partition)), through, lineage)
        }
        Notice::Unsubscribed { client, code } => {
            let code = u32::from(code.number());
            ServerFrame::Unsubscribed(Unsubscribed { subscription: client, code })
        }
        Notice::Published { request, result } => published(request, result),
        Notice::History { request, result: Ok(page) } => return history(request, page, form, out),
        Notice::History { request, result: Err(code) } => {
            ServerFrame::Error(ErrorFrame::new(Reference::Request(request), *code))
        }
        Notice::GoAway { return_after_ms, urls, ticket } => {
            let code = u32::from(CloseCode::GoingAway.number());
            ServerFrame::GoAway(GoAway { code, return_after_ms, urls: List::from(urls), ticket })
        }
        Notice::TokenExpires { expires_ms } => ServerFrame::TokenExpires(expires_ms),
        Notice::Welcome(welcome) => ServerFrame::Welcome(welcome),
        Notice::Ping { token } => ServerFrame::Ping(token),
        Notice::Pong { token } => ServerFrame::Pong(token),
        Notice::TicketIssued { request, expires_ms, ticket } => {
            ServerFrame::TicketIssued(TicketIssued { request, expires_ms, ticket })
        }
        Notice::Renewed { request, expires_ms } => {
            ServerFrame::Renewed(Renewed { request, expires_ms })
        }
        // SUBSCRIBED has reported it.
        Notice::Started { .. } | Notice::RetainedSent { .. } | Notice::FiltersStarted { .. } => {
            return Encoded::ANSWER;
        }
    };
    match form {
        Form::Binary => frame.encode(out),
        Form::Json => frame.encode_json(epoch_of_offsets(notice), out),
    }
    encoded
}

/// The epoch of positions of which the frame has only the offset.
fn epoch_of_offsets(notice: &Notice<'_>) -> u64 {
    match notice {
        Notice::LeftOut { epoch, .. } | Notice::FilterCaughtUp { epoch, .. } => *epoch,
        Notice::CaughtUp { position, .. } | Notice::RetainedSent { position, .. } => position.epoch,
        Notice::Subscribed { .. }
        | Notice::Started { .. }
        | Notice::SubscribedFilter { .. }
        | Notice::FiltersStarted { .. }
        | Notice::Refused { .. }
        | Notice::Failed { .. }
        | Notice::Gap { .. }
        | Notice::Unsubscribed { .. }
        | Notice::Published { .. }
        | Notice::History { .. }
        | Notice::GoAway { .. }
        | Notice::TokenExpires { .. }
        | Notice::Welcome(_)
        | Notice::Ping { .. }
        | Notice::Pong { .. }
        | Notice::TicketIssued { .. }
        | Notice::Renewed { .. } => 0,
    }
}

/// Appends a frame; in JSON the epoch completes positions of which the frame has only the offset.
#[inline]
fn append(frame: &ServerFrame<'_>, form: Form, epoch: u64, out: &mut Vec<u8>) {
    match form {
        Form::Binary => frame.encode(out),
        Form::Json => frame.encode_json(epoch, out),
    }
}

fn gap_mark(at: (u32, u64), partition: Option<PartitionId>, gap: &Gap, found: Found) -> Encoded {
    match found {
        Found::InPage => Encoded::mark(settles(at, partition, (gap.from, gap.to))),
        Found::AtStart(_) | Found::AfterRefusal => Encoded::ANSWER,
    }
}

fn skipped(
    (client, epoch, lineage): (u32, u64, Option<u8>),
    partition: Option<PartitionId>,
    LeftOut { from, through, reason }: LeftOut,
) -> ServerFrame<'static> {
    ServerFrame::Skipped(native::Skipped {
        subscription: client,
        partition: partition.map(|partition| PartitionEpoch { partition: partition.0, epoch }),
        from,
        through,
        reason,
        lineage,
    })
}

fn settles(
    (client, epoch): (u32, u64),
    partition: Option<PartitionId>,
    (from, through): (u64, u64),
) -> Settles {
    match partition {
        None => Settles::Topic { client, from, position: Position { epoch, offset: through } },
        Some(partition) => Settles::Filters { partition, after: from, through },
    }
}

fn subscribed(client: u32, alias: u32, grant: &Grant) -> ServerFrame<'static> {
    // A retained message stands before the settled position; CAUGHT_UP settles the records between.
    let retained = grant.retained.as_ref().and_then(|record| RecordView::parse(record));
    let offset = retained.map_or(grant.position.offset, |view| view.prev());
    let beginning = Beginning {
        through: native::Position { epoch: grant.position.epoch, offset },
        replaying: grant.replaying || grant.retained.is_some(),
        continued: grant.continued,
    };
    let to = SubscribedTo::Topic(PlainTopic { alias, beginning });
    ServerFrame::Subscribed(Subscribed { subscription: client, to })
}

fn subscribed_filter(
    client: u32,
    beginnings: &[notice::Beginning],
    form: Form,
    out: &mut Vec<u8>,
) -> Encoded {
    let partitions: Vec<PartitionBeginning> = beginnings
        .iter()
        .map(|beginning| PartitionBeginning {
            partition: beginning.partition.0,
            beginning: Beginning {
                through: native::Position { epoch: beginning.epoch, offset: beginning.through },
                replaying: beginning.is_replaying,
                continued: beginning.is_resumed && beginning.gap.is_none(),
            },
        })
        .collect();
    let to = SubscribedTo::Filter(List::from(partitions.as_slice()));
    let frame = ServerFrame::Subscribed(Subscribed { subscription: client, to });
    append(&frame, form, 0, out);
    Encoded::ANSWER
}

fn error(reference: Reference, refusal: &Refusal) -> ErrorFrame<'static> {
    ErrorFrame {
        limit: refusal.limit,
        restart: refusal.restart.map(wire_position),
        ..ErrorFrame::new(reference, refusal.code)
    }
}

fn gap_of(
    client: u32,
    epoch: u64,
    partition: Option<PartitionId>,
    gap: &Gap,
) -> ServerFrame<'static> {
    ServerFrame::Gap(native::Gap {
        subscription: client,
        partition: partition.map(|partition| partition.0),
        epoch,
        from: gap.from,
        to: gap.to,
        reason: wire_reason(gap.reason),
    })
}

fn caught_up(
    (client, partition): (u32, Option<PartitionId>),
    through: u64,
    lineage: Option<u8>,
) -> ServerFrame<'static> {
    let partition = partition.map(|partition| partition.0);
    ServerFrame::CaughtUp(CaughtUp { subscription: client, partition, through, lineage })
}

#[inline]
fn published(request: u32, result: Result<Appended, PublishRefusal>) -> ServerFrame<'static> {
    match result {
        Ok(Appended { position, duplicate, .. }) => {
            let position = wire_position(position);
            ServerFrame::Published(Published { request, position, duplicate })
        }
        Err(PublishRefusal { code, present }) => ServerFrame::Error(ErrorFrame {
            restart: present.map(wire_position),
            ..ErrorFrame::new(Reference::Request(request), code)
        }),
    }
}

fn history(request: u32, page: &HistoryPage, form: Form, out: &mut Vec<u8>) -> Encoded {
    let views: Vec<RecordView<'_>> =
        page.records.iter().filter_map(|record| RecordView::parse(record)).collect();
    let blocks: Vec<Vec<u8>> = views
        .iter()
        .map(|view| {
            let mut block = Vec::new();
            append_attributes(view, None, &mut block);
            block
        })
        .collect();
    let records: Vec<HistoryRecord<'_>> = views
        .iter()
        .zip(&blocks)
        .map(|(view, block)| HistoryRecord {
            offset: view.offset(),
            prev: view.prev(),
            time_ms: view.time_ms(),
            retained: retained(view),
            attributes: Attributes::decode_block(block).unwrap_or_default(),
            payload: view.payload(),
        })
        .collect();
    let gap =
        page.gap.map(|gap| PageGap { from: gap.from, to: gap.to, reason: wire_reason(gap.reason) });
    let frame = ServerFrame::HistoryPage(native::HistoryPage {
        request,
        epoch: page.epoch,
        head: page.head,
        more: page.more,
        reverse: page.reverse,
        gap,
        records: List::from(records.as_slice()),
    });
    append(&frame, form, page.epoch, out);
    Encoded::ANSWER
}

/// The head of a message to a topic, which clients know by its alias. `attributes` and the payload
/// follow it.
pub(crate) fn topic_message_head(
    alias: u32,
    view: &RecordView<'_>,
    attributes: &[u8],
) -> MessageHead {
    native::message_head(alias, view.offset(), view.prev(), retained(view), !attributes.is_empty())
}

/// The place of a message for filters, and the subscription if it is for one alone.
pub(crate) struct NamedPlace<'a> {
    pub topic: &'a str,
    pub partition: PartitionId,
    pub epoch: u64,
    /// The low byte of an epoch that advances.
    pub lineage: Option<u8>,
    /// The client's number.
    pub subscription: Option<u32>,
}

/// Appends the head of a message for filters, with its attributes; the payload follows it. The head
/// carries the topic's name, so that no connection has a table of them, and the client's number of
/// a subscription if the message is for one alone.
pub(crate) fn filter_message_head(
    at: &NamedPlace<'_>,
    view: &RecordView<'_>,
    attributes: &[u8],
    out: &mut Vec<u8>,
) {
    let head = NamedHead {
        topic: at.topic,
        partition: at.partition.0,
        position: native::Position { epoch: at.epoch, offset: view.offset() },
        prev: view.prev(),
        retained: retained(view),
        subscription: at.subscription,
        lineage: at.lineage,
    };
    native::encode_named_message_head(&head, attributes, out);
}

/// Appends a message to a topic as JSON. `attributes` is the block of its content type and tags.
pub(crate) fn topic_message_json(
    alias: u32,
    (epoch, lineage): (u64, Option<u8>),
    view: &RecordView<'_>,
    attributes: &[u8],
    out: &mut Vec<u8>,
) {
    ServerFrame::Message(native::Message {
        alias,
        offset: view.offset(),
        prev: view.prev(),
        retained: retained(view),
        lineage,
        attributes: Attributes::decode_block(attributes).unwrap_or_default(),
        payload: view.payload(),
    })
    .encode_json(epoch, out);
}

/// Appends a message for filters as JSON, with the members that its binary head has.
pub(crate) fn filter_message_json(
    at: &NamedPlace<'_>,
    view: &RecordView<'_>,
    attributes: &[u8],
    out: &mut Vec<u8>,
) {
    ServerFrame::NamedMessage(native::NamedMessage {
        topic: at.topic,
        partition: at.partition.0,
        position: native::Position { epoch: at.epoch, offset: view.offset() },
        prev: view.prev(),
        retained: retained(view),
        subscription: at.subscription,
        lineage: at.lineage,
        attributes: Attributes::decode_block(attributes).unwrap_or_default(),
        payload: view.payload(),
    })
    .encode_json(at.epoch, out);
}

/// Appends whole frames, one for each position, that settle a filter up to there.
pub(in crate::session) fn positions(
    form: Form,
    client: u32,
    settled: &[(PartitionId, u64)],
    epoch_of: &dyn Fn(PartitionId) -> (u64, Option<u8>),
    out: &mut Vec<u8>,
) {
    let mut frame = Vec::with_capacity(position_bytes_max(form));
    for &(partition, through) in settled {
        frame.clear();
        let (epoch, lineage) = epoch_of(partition);
        let told = caught_up((client, Some(partition)), through, lineage);
        append(&told, form, epoch, &mut frame);
        let header = encode_header(true, form.opcode(), frame.len(), None);
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(&frame);
    }
}

/// Bytes of one frame of [`positions`]: header, type, flags, three numbers, and a lineage; in JSON
/// the names of its members and five numbers.
pub(in crate::session) fn position_bytes_max(form: Form) -> usize {
    match form {
        Form::Binary => 32,
        Form::Json => 160,
    }
}

fn wire_position(position: Position) -> native::Position {
    native::Position { epoch: position.epoch, offset: position.offset }
}

pub(in crate::session) fn policy_of(policy: native::Policy) -> LagPolicy {
    match policy {
        native::Policy::Replay => LagPolicy::Replay,
        native::Policy::Conflate => LagPolicy::Conflate,
        native::Policy::Drop => LagPolicy::Drop,
        native::Policy::Disconnect => LagPolicy::Disconnect,
    }
}

fn wire_reason(reason: GapReason) -> native::GapReason {
    match reason {
        GapReason::Evicted => native::GapReason::Evicted,
        GapReason::UnknownEpoch => native::GapReason::UnknownEpoch,
        GapReason::BeyondHead => native::GapReason::BeyondHead,
        GapReason::HistoryLimit => native::GapReason::HistoryLimit,
        GapReason::Damaged => native::GapReason::Damaged,
    }
}
