//! Frames from servers: JSON to the binary form, for clients.

use super::client::{TokenMember, unknown};
use super::reading::{At, Body, Head, Long, Text, from_base64, parts};
use super::{JsonError, members};
use crate::native::{
    Beginning, CaughtUp, ErrorFrame, FrameError, Gap, GapReason, GoAway, HistoryPage,
    HistoryRecord, List, Message, NamedMessage, PageGap, PartitionBeginning, PartitionEpoch,
    PlainTopic, Published, Reference, Renewed, Retained, ServerFrame, Skipped, Subscribed,
    SubscribedTo, TicketIssued, Unsubscribed, VERSION, Welcome,
};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Appends the frame of a text in its binary form, which [`ServerFrame::decode`] accepts or
/// refuses. A position of which the binary form has only the offset loses its epoch.
///
/// # Errors
/// The text is not a frame of a server, or has a member that this version does not support.
pub fn decode(text: &str, out: &mut Vec<u8>) -> Result<(), JsonError> {
    let head: Head<'_> = serde_json::from_str(text)?;
    let kind = head.kind.as_deref().ok_or_else(|| JsonError::malformed("no member `type`"))?;
    if kind == "welcome" {
        check_version(text)?;
    }
    if let Some(name) = &head.unsupported {
        return Err(JsonError::unsupported(name, Reference::Connection));
    }
    match kind {
        "welcome" => welcome(text, out),
        "subscribed" => subscribed(text, out),
        "message" => message(text, out),
        "named_message" => named_message(text, out),
        "history_page" => history_page(text, out),
        "error" => error(text, out),
        "go_away" => go_away(text, out),
        "ticket_issued" => ticket_issued(text, out),
        _ => {
            plain_frame(kind, text)?.encode(out);
            Ok(())
        }
    }
}

/// The frames whose members are numbers and flags.
fn plain_frame(kind: &str, text: &str) -> Result<ServerFrame<'static>, JsonError> {
    Ok(match kind {
        "unsubscribed" => {
            let UnsubscribedMembers { subscription, code } = serde_json::from_str(text)?;
            ServerFrame::Unsubscribed(Unsubscribed { subscription, code })
        }
        "caught_up" => {
            let of: CaughtUpMembers = serde_json::from_str(text)?;
            ServerFrame::CaughtUp(CaughtUp {
                subscription: of.subscription,
                partition: of.partition,
                through: of.through.0.offset,
                lineage: of.lineage,
            })
        }
        "gap" => ServerFrame::Gap(serde_json::from_str::<GapMembers<'_>>(text)?.gap()?),
        "skipped" => {
            ServerFrame::Skipped(serde_json::from_str::<SkippedMembers<'_>>(text)?.skipped()?)
        }
        "published" => {
            let of: PublishedMembers = serde_json::from_str(text)?;
            let (position, duplicate) = (of.position.0, of.duplicate);
            ServerFrame::Published(Published { request: of.request, position, duplicate })
        }
        "ping" => ServerFrame::Ping(serde_json::from_str::<TokenMember>(text)?.token.0),
        "pong" => ServerFrame::Pong(serde_json::from_str::<TokenMember>(text)?.token.0),
        "renewed" => {
            let of: RenewedMembers = serde_json::from_str(text)?;
            ServerFrame::Renewed(Renewed { request: of.request, expires_ms: of.expires_ms.0 })
        }
        "token_expires" => {
            let TokenExpiresMember { expires_ms } = serde_json::from_str(text)?;
            ServerFrame::TokenExpires(expires_ms.0)
        }
        _ => return Err(unknown(kind)),
    })
}

#[derive(Deserialize)]
struct VersionMember {
    version: u64,
}

fn check_version(text: &str) -> Result<(), JsonError> {
    let VersionMember { version } = serde_json::from_str(text)?;
    if version == u64::from(VERSION) {
        return Ok(());
    }
    let error = FrameError::UnsupportedVersion(u8::try_from(version).unwrap_or(u8::MAX));
    Err(JsonError::new(error, format!("unsupported version {version}")))
}

#[derive(Deserialize)]
struct WelcomeMembers<'a> {
    connection: Long,
    ping_interval_s: u32,
    time_ms: Long,
    frame_bytes_max: Long,
    message_bytes_max: Long,
    subscriptions_per_session_max: u32,
    #[serde(borrow)]
    node: Option<Text<'a>>,
    resumed: Option<u32>,
    ticket_lifetime_s: Option<u32>,
}

fn welcome(text: &str, out: &mut Vec<u8>) -> Result<(), JsonError> {
    let of: WelcomeMembers<'_> = serde_json::from_str(text)?;
    ServerFrame::Welcome(Welcome {
        connection: of.connection.0,
        ping_interval_s: of.ping_interval_s,
        time_ms: of.time_ms.0,
        frame_bytes_max: of.frame_bytes_max.0,
        message_bytes_max: of.message_bytes_max.0,
        subscriptions_per_session_max: of.subscriptions_per_session_max,
        node: of.node.as_ref().map(|text| &*text.0),
        resumed: of.resumed,
        ticket_lifetime_s: of.ticket_lifetime_s,
    })
    .encode(out);
    Ok(())
}

#[derive(Deserialize)]
struct SubscribedMembers<'a> {
    subscription: u32,
    alias: Option<u32>,
    through: Option<At>,
    #[serde(default)]
    replaying: bool,
    #[serde(default)]
    continued: bool,
    #[serde(borrow)]
    partitions: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct BeginningMembers {
    partition: u32,
    through: At,
    #[serde(default)]
    replaying: bool,
    #[serde(default)]
    continued: bool,
}

fn subscribed(text: &str, out: &mut Vec<u8>) -> Result<(), JsonError> {
    let of: SubscribedMembers<'_> = serde_json::from_str(text)?;
    let partitions: Vec<PartitionBeginning> =
        parts::<BeginningMembers>(of.partitions.as_deref().unwrap_or_default())?
            .into_iter()
            .map(|(at, unsupported)| {
                let (through, replaying) = (at.through.0, at.replaying);
                let beginning = Beginning { through, replaying, continued: at.continued };
                let part = PartitionBeginning { partition: at.partition, beginning };
                supported(unsupported).map(|()| part)
            })
            .collect::<Result<_, _>>()?;
    let to = match (of.alias, of.through, of.partitions) {
        (Some(alias), Some(through), None) => {
            let (replaying, continued) = (of.replaying, of.continued);
            let beginning = Beginning { through: through.0, replaying, continued };
            SubscribedTo::Topic(PlainTopic { alias, beginning })
        }
        (None, None, Some(_)) => SubscribedTo::Filter(List::from(partitions.as_slice())),
        _ => return Err(JsonError::malformed("`alias` and `through`, or `partitions`")),
    };
    ServerFrame::Subscribed(Subscribed { subscription: of.subscription, to }).encode(out);
    Ok(())
}

fn supported(unsupported: Option<String>) -> Result<(), JsonError> {
    match unsupported {
        Some(name) => Err(JsonError::unsupported(&name, Reference::Connection)),
        None => Ok(()),
    }
}

#[derive(Deserialize)]
struct UnsubscribedMembers {
    subscription: u32,
    code: u32,
}

#[derive(Deserialize)]
struct MessageMembers<'a> {
    alias: u32,
    position: At,
    prev: Long,
    lineage: Option<u8>,
    #[serde(default)]
    retained: bool,
    #[serde(borrow)]
    content_type: Option<Text<'a>>,
    #[serde(borrow, default)]
    tags: Vec<(Text<'a>, Text<'a>)>,
    #[serde(borrow)]
    payload: Option<Text<'a>>,
    #[serde(borrow)]
    payload_base64: Option<Text<'a>>,
}

fn message(text: &str, out: &mut Vec<u8>) -> Result<(), JsonError> {
    let of: MessageMembers<'_> = serde_json::from_str(text)?;
    let prev = prev_of(of.position, of.prev)?;
    let body = Body::of(of.content_type, of.tags, of.payload, of.payload_base64)?;
    let tags = body.tags();
    ServerFrame::Message(Message {
        alias: of.alias,
        offset: of.position.0.offset,
        prev,
        retained: retained(of.retained),
        lineage: of.lineage,
        attributes: body.attributes(&tags),
        payload: &body.payload,
    })
    .encode(out);
    Ok(())
}

/// An offset before the message's.
fn prev_of(position: At, prev: Long) -> Result<u64, JsonError> {
    if prev.0 < position.0.offset {
        Ok(prev.0)
    } else {
        Err(JsonError::malformed("`prev` is below the offset"))
    }
}

fn retained(is_retained: bool) -> Retained {
    if is_retained { Retained::Yes } else { Retained::No }
}

#[derive(Deserialize)]
struct NamedMembers<'a> {
    #[serde(borrow)]
    topic: Text<'a>,
    partition: u32,
    position: At,
    prev: Long,
    subscription: Option<u32>,
    lineage: Option<u8>,
    #[serde(default)]
    retained: bool,
    #[serde(borrow)]
    content_type: Option<Text<'a>>,
    #[serde(borrow, default)]
    tags: Vec<(Text<'a>, Text<'a>)>,
    #[serde(borrow)]
    payload: Option<Text<'a>>,
    #[serde(borrow)]
    payload_base64: Option<Text<'a>>,
}

fn named_message(text: &str, out: &mut Vec<u8>) -> Result<(), JsonError> {
    let of: NamedMembers<'_> = serde_json::from_str(text)?;
    let prev = prev_of(of.position, of.prev)?;
    let body = Body::of(of.content_type, of.tags, of.payload, of.payload_base64)?;
    let tags = body.tags();
    ServerFrame::NamedMessage(NamedMessage {
        topic: &of.topic.0,
        partition: of.partition,
        position: of.position.0,
        prev,
        retained: retained(of.retained),
        subscription: of.subscription,
        lineage: of.lineage,
        attributes: body.attributes(&tags),
        payload: &body.payload,
    })
    .encode(out);
    Ok(())
}

#[derive(Deserialize)]
struct CaughtUpMembers {
    subscription: u32,
    partition: Option<u32>,
    through: At,
    lineage: Option<u8>,
}

#[derive(Deserialize)]
struct GapMembers<'a> {
    subscription: u32,
    partition: Option<u32>,
    from: At,
    to: At,
    #[serde(borrow)]
    reason: Text<'a>,
}

#[derive(Deserialize)]
struct RangeMembers<'a> {
    from: At,
    to: At,
    #[serde(borrow)]
    reason: Text<'a>,
}

impl GapMembers<'_> {
    fn gap(&self) -> Result<Gap, JsonError> {
        Ok(Gap {
            subscription: self.subscription,
            partition: self.partition,
            epoch: self.to.0.epoch,
            from: self.from.0.offset,
            to: self.to.0.offset,
            reason: gap_reason(&self.reason)?,
        })
    }
}

impl RangeMembers<'_> {
    fn page_gap(&self) -> Result<PageGap, JsonError> {
        let (from, to) = (self.from.0.offset, self.to.0.offset);
        Ok(PageGap { from, to, reason: gap_reason(&self.reason)? })
    }
}

fn gap_reason(name: &Text<'_>) -> Result<GapReason, JsonError> {
    members::gap_reason(&name.0).ok_or_else(|| unknown_reason(name))
}

fn unknown_reason(reason: &Text<'_>) -> JsonError {
    JsonError::malformed(format!("unknown reason `{}`", reason.0))
}

#[derive(Deserialize)]
struct SkippedMembers<'a> {
    subscription: u32,
    partition: Option<u32>,
    from: At,
    through: At,
    lineage: Option<u8>,
    #[serde(borrow)]
    reason: Text<'a>,
}

impl SkippedMembers<'_> {
    fn skipped(&self) -> Result<Skipped, JsonError> {
        let reason = members::skip_reason(&self.reason.0);
        let epoch = self.through.0.epoch;
        Ok(Skipped {
            subscription: self.subscription,
            partition: self.partition.map(|partition| PartitionEpoch { partition, epoch }),
            from: self.from.0.offset,
            through: self.through.0.offset,
            reason: reason.ok_or_else(|| unknown_reason(&self.reason))?,
            lineage: self.lineage,
        })
    }
}

#[derive(Deserialize)]
struct PublishedMembers {
    request: u32,
    position: At,
    #[serde(default)]
    duplicate: bool,
}

#[derive(Deserialize)]
struct PageMembers<'a> {
    request: u32,
    head: At,
    #[serde(default)]
    more: bool,
    #[serde(default)]
    reverse: bool,
    #[serde(borrow)]
    gap: Option<RangeMembers<'a>>,
    #[serde(borrow)]
    records: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct RecordMembers<'a> {
    position: At,
    prev: Long,
    time_ms: Long,
    #[serde(default)]
    retained: bool,
    #[serde(borrow)]
    content_type: Option<Text<'a>>,
    #[serde(borrow, default)]
    tags: Vec<(Text<'a>, Text<'a>)>,
    #[serde(borrow)]
    payload: Option<Text<'a>>,
    #[serde(borrow)]
    payload_base64: Option<Text<'a>>,
}

fn history_page(text: &str, out: &mut Vec<u8>) -> Result<(), JsonError> {
    let page: PageMembers<'_> = serde_json::from_str(text)?;
    let mut records = Vec::with_capacity(page.records.len());
    for (of, unsupported) in parts::<RecordMembers<'_>>(&page.records)? {
        supported(unsupported)?;
        let prev = prev_of(of.position, of.prev)?;
        let body = Body::of(of.content_type, of.tags, of.payload, of.payload_base64)?;
        records.push((of.position.0.offset, prev, of.time_ms.0, of.retained, body));
    }
    let tags: Vec<_> = records.iter().map(|(.., body)| body.tags()).collect();
    let records: Vec<HistoryRecord<'_>> = records
        .iter()
        .zip(&tags)
        .map(|((offset, prev, time_ms, is_retained, body), tags)| HistoryRecord {
            offset: *offset,
            prev: *prev,
            time_ms: *time_ms,
            retained: retained(*is_retained),
            attributes: body.attributes(tags),
            payload: &body.payload,
        })
        .collect();
    ServerFrame::HistoryPage(HistoryPage {
        request: page.request,
        epoch: page.head.0.epoch,
        head: page.head.0.offset,
        more: page.more,
        reverse: page.reverse,
        gap: page.gap.map(|gap| gap.page_gap()).transpose()?,
        records: List::from(records.as_slice()),
    })
    .encode(out);
    Ok(())
}

#[derive(Deserialize)]
struct ErrorMembers<'a> {
    request: Option<u32>,
    subscription: Option<u32>,
    code: u32,
    #[serde(default)]
    temporary: bool,
    #[serde(borrow)]
    message: Text<'a>,
    restart: Option<At>,
    limit: Option<Long>,
}

fn error(text: &str, out: &mut Vec<u8>) -> Result<(), JsonError> {
    let of: ErrorMembers<'_> = serde_json::from_str(text)?;
    let reference = match (of.request, of.subscription) {
        (None, None) => Reference::Connection,
        (Some(request), None) => Reference::Request(request),
        (None, Some(subscription)) => Reference::Subscription(subscription),
        (Some(_), Some(_)) => {
            return Err(JsonError::malformed("an error has one subject"));
        }
    };
    ServerFrame::Error(ErrorFrame {
        reference,
        code: of.code,
        temporary: of.temporary,
        message: &of.message.0,
        restart: of.restart.map(|restart| restart.0),
        limit: of.limit.map(|limit| limit.0),
    })
    .encode(out);
    Ok(())
}

#[derive(Deserialize)]
struct GoAwayMembers<'a> {
    code: u32,
    return_after_ms: Long,
    #[serde(borrow, default)]
    urls: Vec<Text<'a>>,
    #[serde(borrow)]
    ticket: Option<Text<'a>>,
}

fn go_away(text: &str, out: &mut Vec<u8>) -> Result<(), JsonError> {
    let of: GoAwayMembers<'_> = serde_json::from_str(text)?;
    let urls: Vec<&str> = of.urls.iter().map(|url| &*url.0).collect();
    let ticket = of.ticket.as_ref().map(from_base64).transpose()?;
    ServerFrame::GoAway(GoAway {
        code: of.code,
        return_after_ms: of.return_after_ms.0,
        urls: List::from(urls.as_slice()),
        ticket: ticket.as_deref(),
    })
    .encode(out);
    Ok(())
}

#[derive(Deserialize)]
struct TicketIssuedMembers<'a> {
    request: u32,
    expires_ms: Long,
    #[serde(borrow)]
    ticket: Text<'a>,
}

fn ticket_issued(text: &str, out: &mut Vec<u8>) -> Result<(), JsonError> {
    let of: TicketIssuedMembers<'_> = serde_json::from_str(text)?;
    let ticket = &from_base64(&of.ticket)?;
    let (request, expires_ms) = (of.request, of.expires_ms.0);
    ServerFrame::TicketIssued(TicketIssued { request, expires_ms, ticket }).encode(out);
    Ok(())
}

#[derive(Deserialize)]
struct RenewedMembers {
    request: u32,
    expires_ms: Long,
}

#[derive(Deserialize)]
struct TokenExpiresMember {
    expires_ms: Long,
}
