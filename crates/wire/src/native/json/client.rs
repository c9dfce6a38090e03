//! Frames from clients: JSON to the binary form.

use super::JsonError;
use super::reading::{At, Body, Head, Long, Text, bytes, from_base64, parts};
use crate::native::{
    ClientFrame, Credit, FrameError, Hello, History, ItemError, List, Once, PartitionPosition,
    Producer, Publish, PublishOptions, Reference, Renew, ResumeCursor, Start, Subscribe,
    SubscribeItem, SubscribeRequest, Unsubscribe, VERSION, option_key,
};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Appends the frame of a text in its binary form, which [`ClientFrame::decode`] accepts or
/// refuses.
///
/// # Errors
/// The text is not a frame of a client, or has a member that this version does not support.
pub fn decode(text: &str, out: &mut Vec<u8>) -> Result<(), JsonError> {
    let head: Head<'_> = serde_json::from_str(text)?;
    let kind = head.kind.as_deref().ok_or_else(|| JsonError::malformed("no member `type`"))?;
    match kind {
        "hello" => return hello(text, head.unsupported, out),
        "publish" => return publish(text, head.unsupported, out),
        _ => {}
    }
    let supported = |reference: Reference| match &head.unsupported {
        Some(name) => Err(JsonError::unsupported(name, reference)),
        None => Ok(()),
    };
    match kind {
        "subscribe" => {
            supported(Reference::Connection)?;
            return subscribe(text, out);
        }
        "unsubscribe" => {
            supported(Reference::Connection)?;
            let Subscriptions { subscriptions } = serde_json::from_str(text)?;
            let subscriptions = List::from(subscriptions.as_slice());
            ClientFrame::Unsubscribe(Unsubscribe { subscriptions }).encode(out);
        }
        "history" => {
            let members: HistoryMembers<'_> = serde_json::from_str(text)?;
            supported(Reference::Request(members.request))?;
            ClientFrame::History(members.history()).encode(out);
        }
        "credit" => {
            supported(Reference::Connection)?;
            let CreditMembers { subscription, messages } = serde_json::from_str(text)?;
            ClientFrame::Credit(Credit { subscription, messages }).encode(out);
        }
        "ping" | "pong" => {
            supported(Reference::Connection)?;
            let TokenMember { token: Long(token) } = serde_json::from_str(text)?;
            let frame =
                if kind == "ping" { ClientFrame::Ping(token) } else { ClientFrame::Pong(token) };
            frame.encode(out);
        }
        "ticket" => {
            let RequestMember { request } = serde_json::from_str(text)?;
            supported(Reference::Request(request))?;
            ClientFrame::Ticket(request).encode(out);
        }
        "renew" => {
            let RenewMembers { request, token } = serde_json::from_str(text)?;
            supported(Reference::Request(request))?;
            ClientFrame::Renew(Renew { request, token: &token.0 }).encode(out);
        }
        _ => return Err(unknown(kind)),
    }
    Ok(())
}

/// A type that does not exist in this direction.
pub(super) fn unknown(kind: &str) -> JsonError {
    JsonError::new(FrameError::UnknownFrame(0), format!("unknown type `{kind}`"))
}

#[derive(Deserialize)]
struct HelloMembers<'a> {
    #[serde(default)]
    ping_interval_s: u32,
    #[serde(borrow)]
    token: Option<Text<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    ticket: Option<Text<'a>>,
    #[serde(default)]
    cursors: Vec<CursorMembers>,
}

#[derive(Deserialize)]
struct CursorMembers {
    subscription: u32,
    partition: Option<u32>,
    position: At,
}

/// The version comes before everything that another version may write differently.
#[derive(Deserialize)]
struct VersionMember {
    version: Option<u64>,
}

fn hello(text: &str, unsupported: Option<String>, out: &mut Vec<u8>) -> Result<(), JsonError> {
    let VersionMember { version } = serde_json::from_str(text)?;
    let version = version.unwrap_or(u64::from(VERSION));
    if version != u64::from(VERSION) {
        let error = FrameError::UnsupportedVersion(u8::try_from(version).unwrap_or(u8::MAX));
        return Err(JsonError::new(error, format!("unsupported version {version}")));
    }
    if let Some(name) = unsupported {
        return Err(JsonError::unsupported(&name, Reference::Connection));
    }
    let members: HelloMembers<'_> = serde_json::from_str(text)?;
    let ticket = members.ticket.as_ref().map(from_base64).transpose()?;
    let cursors: Vec<ResumeCursor> = members
        .cursors
        .iter()
        .map(|cursor| ResumeCursor {
            subscription: cursor.subscription,
            partition: cursor.partition,
            position: cursor.position.0,
        })
        .collect();
    ClientFrame::Hello(Hello {
        ping_interval_s: members.ping_interval_s,
        token: members.token.as_ref().map(|text| &*text.0),
        name: members.name.as_ref().map(|text| &*text.0),
        ticket: ticket.as_deref(),
        cursors: List::from(cursors.as_slice()),
    })
    .encode(out);
    Ok(())
}

#[derive(Deserialize)]
struct Items<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct ItemMembers<'a> {
    subscription: u32,
    #[serde(borrow)]
    filter: Text<'a>,
    #[serde(default)]
    start: StartMembers,
    #[serde(default)]
    fail_on_gap: bool,
    replay_credit: Option<u32>,
    #[serde(borrow)]
    policy: Option<Text<'a>>,
}

#[derive(Deserialize, Default)]
struct StartMembers {
    #[serde(default)]
    kind: StartKind,
    position: Option<At>,
    count: Option<u32>,
    positions: Option<Vec<PositionMembers>>,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum StartKind {
    #[default]
    Live,
    Since,
    Last,
    Snapshot,
    SinceEach,
}

#[derive(Deserialize)]
struct PositionMembers {
    partition: u32,
    position: At,
}

fn subscribe(text: &str, out: &mut Vec<u8>) -> Result<(), JsonError> {
    let Items { items } = serde_json::from_str(text)?;
    let items: Vec<(ItemMembers<'_>, Option<String>)> = parts(&items)?;
    let positions: Vec<Vec<PartitionPosition>> =
        items.iter().map(|(item, _)| item.start.each()).collect();
    let mut requests = Vec::with_capacity(items.len());
    for ((item, unsupported), positions) in items.iter().zip(&positions) {
        let start = item.start.of(positions)?;
        let request = match unsupported {
            Some(_) => Err(ItemError::UnsupportedOption(super::UNKNOWN_OPTION)),
            None => item.request(start),
        };
        requests.push(SubscribeItem { subscription: item.subscription, request });
    }
    let items = List::from(requests.as_slice());
    ClientFrame::Subscribe(Subscribe { items }).encode(out);
    Ok(())
}

impl ItemMembers<'_> {
    fn request<'b>(&'b self, start: Start<'b>) -> Result<SubscribeRequest<'b>, ItemError> {
        let policy = match &self.policy {
            None => None,
            Some(Text(name)) => {
                let unknown = ItemError::UnsupportedOption(option_key::POLICY);
                Some(super::members::policy(name).ok_or(unknown)?)
            }
        };
        Ok(SubscribeRequest {
            filter: &self.filter.0,
            start,
            fail_on_gap: self.fail_on_gap,
            replay_credit: self.replay_credit,
            policy,
        })
    }
}

impl StartMembers {
    fn each(&self) -> Vec<PartitionPosition> {
        let positions = self.positions.as_deref().unwrap_or_default().iter();
        positions
            .map(|at| PartitionPosition { partition: at.partition, position: at.position.0 })
            .collect()
    }

    fn of<'a>(&self, each: &'a [PartitionPosition]) -> Result<Start<'a>, JsonError> {
        let missing = |name| JsonError::malformed(format!("a start without `{name}`"));
        Ok(match self.kind {
            StartKind::Live => Start::Live,
            StartKind::Snapshot => Start::Snapshot,
            StartKind::Since => Start::Since(self.position.ok_or_else(|| missing("position"))?.0),
            StartKind::Last => Start::Last(self.count.ok_or_else(|| missing("count"))?),
            StartKind::SinceEach if self.positions.is_none() => return Err(missing("positions")),
            StartKind::SinceEach => Start::SinceEach(each.into()),
        })
    }
}

#[derive(Deserialize)]
struct Subscriptions {
    subscriptions: Vec<u32>,
}

#[derive(Deserialize)]
struct PublishMembers<'a> {
    #[serde(default)]
    request: u32,
    #[serde(borrow)]
    topic: Text<'a>,
    #[serde(default)]
    retain: bool,
    #[serde(borrow)]
    content_type: Option<Text<'a>>,
    #[serde(borrow, default)]
    tags: Vec<(Text<'a>, Text<'a>)>,
    #[serde(borrow)]
    payload: Option<Text<'a>>,
    #[serde(borrow)]
    payload_base64: Option<Text<'a>>,
    #[serde(borrow)]
    producer: Option<ProducerMembers<'a>>,
    #[serde(borrow)]
    idempotency_key: Option<Text<'a>>,
    #[serde(borrow)]
    idempotency_key_base64: Option<Text<'a>>,
    expected_epoch: Option<Long>,
}

#[derive(Deserialize)]
struct ProducerMembers<'a> {
    #[serde(borrow)]
    id: Option<Text<'a>>,
    #[serde(borrow)]
    id_base64: Option<Text<'a>>,
    sequence: Long,
}

fn publish(text: &str, unsupported: Option<String>, out: &mut Vec<u8>) -> Result<(), JsonError> {
    let members: PublishMembers<'_> = serde_json::from_str(text)?;
    let reference = Reference::Request(members.request);
    if let Some(name) = unsupported {
        return Err(JsonError::unsupported(&name, reference));
    }
    let producer = match members.producer {
        None => None,
        Some(of) => Some((bytes(of.id, of.id_base64)?.unwrap_or_default(), of.sequence.0)),
    };
    let key = bytes(members.idempotency_key, members.idempotency_key_base64)?;
    let once = match (&producer, &key) {
        (Some(_), Some(_)) => {
            let explanation = "`producer` and `idempotency_key` exclude each other";
            return Err(JsonError::invalid(option_key::IDEMPOTENCY_KEY, reference, explanation));
        }
        (Some((id, sequence)), None) => Some(Once::Producer(Producer { id, sequence: *sequence })),
        (None, key) => key.as_deref().map(Once::Key),
    };
    let body =
        Body::of(members.content_type, members.tags, members.payload, members.payload_base64)?;
    let tags = body.tags();
    let expected_epoch = members.expected_epoch.map(|epoch| epoch.0);
    ClientFrame::Publish(Publish {
        request: members.request,
        topic: &members.topic.0,
        options: PublishOptions { retain: members.retain, once, expected_epoch },
        attributes: body.attributes(&tags),
        payload: &body.payload,
    })
    .encode(out);
    Ok(())
}

#[derive(Deserialize)]
struct HistoryMembers<'a> {
    request: u32,
    #[serde(borrow)]
    topic: Text<'a>,
    #[serde(default)]
    reverse: bool,
    position: Option<At>,
    #[serde(default)]
    records_max: u32,
    #[serde(default)]
    bytes_max: u32,
}

impl HistoryMembers<'_> {
    fn history(&self) -> History<'_> {
        History {
            request: self.request,
            topic: &self.topic.0,
            reverse: self.reverse,
            position: self.position.map(|position| position.0),
            records_max: self.records_max,
            bytes_max: self.bytes_max,
        }
    }
}

#[derive(Deserialize)]
struct CreditMembers {
    subscription: u32,
    messages: u32,
}

/// The member of PING and PONG, in both directions.
#[derive(Deserialize)]
pub(super) struct TokenMember {
    pub token: Long,
}

#[derive(Deserialize)]
struct RequestMember {
    request: u32,
}

#[derive(Deserialize)]
struct RenewMembers<'a> {
    request: u32,
    #[serde(borrow)]
    token: Text<'a>,
}
