//! The items of a SUBSCRIBE. An invalid item affects only itself, so it carries its own error.

use super::client_frame::bit;
use super::options::{Options, set_once, write_option};
use super::reader::{Reader, write_bytes, write_position};
use super::{
    Element, FrameError, ItemError, List, PartitionPosition, Position, flag, option_key, varint,
};

/// One item of a SUBSCRIBE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubscribeItem<'a> {
    /// The client's number for it, unique among its live subscriptions.
    pub subscription: u32,
    /// The request, or the reason for an ERROR about this subscription.
    pub request: Result<SubscribeRequest<'a>, ItemError>,
}

/// The request of one item of a SUBSCRIBE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubscribeRequest<'a> {
    /// A topic, or a filter with wildcards; 1 to 255 bytes, its syntax unchecked.
    pub filter: &'a str,
    /// The start of the subscription.
    pub start: Start<'a>,
    /// Requests `position_unavailable` instead of a gap.
    pub fail_on_gap: bool,
    /// The number of messages that the server may replay before it waits for CREDIT; without it,
    /// the socket sets the pace.
    pub replay_credit: Option<u32>,
    /// The policy of a lagging subscription; without it, the topic's rule decides.
    pub policy: Option<Policy>,
}

/// The start of a subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start<'a> {
    /// With messages published from now on.
    Live,
    /// Behind this position.
    Since(Position),
    /// With the last messages of each topic, up to this number.
    Last(u32),
    /// With the retained message, or else the newest in history.
    Snapshot,
    /// Filters: behind these positions; partitions that are not listed start live.
    SinceEach(List<'a, PartitionPosition>),
}

/// The policy of a lagging subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Catches up from the log.
    Replay,
    /// Receives the newest message of a topic; the ones before it are skipped.
    Conflate,
    /// Skips the missed messages and continues live.
    Drop,
    /// Ends; the client may subscribe again from its position.
    Disconnect,
}

impl Policy {
    /// The policy with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Replay),
            1 => Some(Self::Conflate),
            2 => Some(Self::Drop),
            3 => Some(Self::Disconnect),
            _ => None,
        }
    }

    /// The number on the wire.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Replay => 0,
            Self::Conflate => 1,
            Self::Drop => 2,
            Self::Disconnect => 3,
        }
    }
}

impl<'a> SubscribeItem<'a> {
    /// Creates an item with `request`.
    #[must_use]
    pub fn new(subscription: u32, request: SubscribeRequest<'a>) -> Self {
        Self { subscription, request: Ok(request) }
    }
}

impl<'a> SubscribeRequest<'a> {
    /// Creates a request for `filter` from `start`, with gaps announced, without credit and with
    /// the rule's policy.
    #[must_use]
    pub fn new(filter: &'a str, start: Start<'a>) -> Self {
        Self { filter, start, fail_on_gap: false, replay_credit: None, policy: None }
    }
}

const START_LIVE: u8 = 0;
const START_SINCE: u8 = 1;
const START_LAST: u8 = 2;
const START_SNAPSHOT: u8 = 3;
const START_SINCE_EACH: u8 = 4;

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
            START_SINCE_EACH => Start::SinceEach(List::read(reader)?),
            _ => return Err(FrameError::InvalidValue("start")),
        };
        let mut replay_credit = None;
        let mut policy = None;
        let mut unsupported = None;
        for (key, value) in Options::read(reader, flags)?.iter() {
            let mut value = Reader::new(value);
            match key {
                option_key::REPLAY_CREDIT => {
                    set_once(&mut replay_credit, key, value.varint_u32()?)?;
                    value.end()?;
                }
                option_key::POLICY => {
                    let known = Policy::from_number(value.byte()?);
                    set_once(&mut policy, key, known)?;
                    value.end()?;
                    if known.is_none() {
                        unsupported = unsupported.or(Some(key));
                    }
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
                policy: policy.flatten(),
            }),
        };
        Ok(Self { subscription, request })
    }

    fn write(&self, out: &mut Vec<u8>) {
        varint::encode(u64::from(self.subscription), out);
        match self.request {
            Ok(request) => write_request(&request, out),
            // A refused item came from the wire; its encoding is refused for the same reason.
            Err(ItemError::UnsupportedOption(key)) => {
                out.extend_from_slice(&[flag::OPTIONS, 1, b'?', START_LIVE, 1]);
                // This number means no policy.
                let value: &[u8] = if key == option_key::POLICY { &[0xFF] } else { &[] };
                write_option(key, value, out);
            }
            Err(ItemError::TopicLength(_)) => out.extend_from_slice(&[0, 0, START_LIVE]),
        }
    }
}

fn write_request(request: &SubscribeRequest<'_>, out: &mut Vec<u8>) {
    let count = u8::from(request.replay_credit.is_some()) + u8::from(request.policy.is_some());
    out.push(bit(request.fail_on_gap, flag::FAIL_ON_GAP) | bit(count > 0, flag::OPTIONS));
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
        Start::SinceEach(positions) => {
            out.push(START_SINCE_EACH);
            positions.write(out);
        }
    }
    if count > 0 {
        out.push(count);
    }
    if let Some(credit) = request.replay_credit {
        let mut value = [0; varint::BYTES_MAX];
        let length = varint::write(u64::from(credit), &mut value);
        write_option(option_key::REPLAY_CREDIT, &value[..length], out);
    }
    if let Some(policy) = request.policy {
        write_option(option_key::POLICY, &[policy.number()], out);
    }
}
