//! Sessions of MQTT that outlive their connections, as values.
//!
//! An edge makes one when a connection ends, the home of the client's name keeps it, and the edge
//! of the next connection wakes it (MQTT 5.0, section 4.1). A sleeping session has no interest
//! anywhere: what it missed is read from the log, after its cursors.

use super::{PartitionCursor, PartitionId};
use stdx::chunk::Slice;
use stdx::handing::Hand;

/// A session without a connection.
#[derive(Clone, PartialEq, Eq, Debug, Default, Hand)]
pub struct SleepingSession {
    /// The user, as a hash: the session belongs to it.
    pub user: u64,
    /// The client is connected: this is how its session would sleep. Then the time of its end
    /// begins with the start that finds it.
    pub is_awake: bool,
    /// The session lasts so long without a connection, in seconds; `u32::MAX`: for ever.
    pub expiry_s: u32,
    /// The session ends at this time, in milliseconds since 1970; `u64::MAX`: never.
    pub expires_ms: u64,
    /// Distinguishes the session from others of the same name.
    pub instance: u64,
    /// Releases (PUBREL) so far.
    pub released: u64,
    /// The releases when its client last returned, if it has published nothing new since.
    pub resumed_at: Option<u64>,
    /// The packet identifier that is tried next.
    pub next_id: u16,
    /// Publications with QoS 2 that the client has not released.
    pub received: Vec<SleepingReceived>,
    /// Messages that the client has not acknowledged in full, in the order in which they were sent.
    pub open: Vec<OpenDelivery>,
    /// Gaps that the client has not learned of, as texts.
    pub gaps: Vec<Box<str>>,
    /// In each partition: everything up to here was sent, or is nothing for the session. Only with
    /// subscriptions to filters.
    pub through: Vec<PartitionCursor>,
    /// The subscriptions, each filter once.
    pub subscriptions: Vec<SleepingSubscription>,
    /// The will of the connection, while there is one; only in a log that nodes share.
    pub will: Option<Box<Will>>,
}

/// The message that is published when a client vanishes.
#[derive(Clone, PartialEq, Eq, Debug, Default, Hand)]
pub struct Will {
    /// The topic, valid.
    pub topic: Box<str>,
    /// Content type and tags, as one block.
    pub attributes: Box<[u8]>,
    /// The body.
    pub payload: Box<[u8]>,
    /// The QoS.
    pub qos: u8,
    /// It becomes its topic's retained message.
    pub is_retained: bool,
    /// The publisher said that the payload is UTF-8.
    pub is_said_text: bool,
    /// Further fields of the record but the expiry, which begins when the will is published.
    pub further: Box<[u8]>,
    /// The message expires so many seconds after its publication.
    pub expiry_s: Option<u32>,
    /// Published so many seconds after the connection ends, unless the client returns.
    pub delay_s: u32,
    /// The first publication of the topic with this key counts: several nodes may publish a will.
    pub key: Box<[u8]>,
}

impl Will {
    /// Bytes that it owns.
    pub fn memory_bytes(&self) -> usize {
        let parts = [&self.attributes, &self.payload, &self.further, &self.key];
        self.topic.len() + parts.iter().map(|part| part.len()).sum::<usize>()
    }
}

/// A publication with QoS 2 that the client has not released.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub struct SleepingReceived {
    /// The packet identifier.
    pub id: u16,
    /// The releases before it: with the identifier they name it within the session.
    pub released: u64,
    /// The node has taken it, and has said so.
    pub is_answered: bool,
}

/// A subscription of a sleeping session.
#[derive(Clone, PartialEq, Eq, Debug, Hand)]
pub struct SleepingSubscription {
    /// The filter, valid.
    pub filter: Slice,
    /// The options, as the session packs them.
    pub options: u32,
    /// Everything up to here was sent: of a topic in its partition, of a filter in the partitions
    /// where it was behind the session's `through`.
    pub cursors: Vec<PartitionCursor>,
    /// The client has ended it. It only brings what other subscriptions have left to it.
    pub is_ended: bool,
    /// Topics whose retained messages the client has not been sent; its own filter stands for all
    /// that match.
    pub retained: Vec<Slice>,
}

/// A message that was sent with a packet identifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub struct OpenDelivery {
    /// The packet identifier.
    pub id: u16,
    /// The QoS that it was sent with, 1 or 2.
    pub qos: u8,
    /// QoS 2: the client has it (PUBREC), and is to be released (PUBREL).
    pub is_received: bool,
    /// It was sent with RETAIN.
    pub retain: bool,
    /// The partition of the message.
    pub partition: PartitionId,
    /// The epoch of the partition when the message was sent.
    pub epoch: u64,
    /// The offset of the message.
    pub offset: u64,
    /// Bytes of the packet, on the connection that has sent it.
    pub bytes: u32,
    /// The member of a group that it was handed to; 0: none. Such a message does not sleep.
    pub member: u64,
}

impl OpenDelivery {
    /// Whether its record belongs to a life of the partition that is lost. No record has such a
    /// place.
    pub(crate) fn is_lost(&self) -> bool {
        self.offset == 0
    }
}

impl SleepingSubscription {
    /// The group of a shared subscription and its filter.
    pub fn group(&self) -> Option<Slice> {
        let prefix = wire::mqtt::SHARED_PREFIX.len();
        let is_shared = self.filter.starts_with(wire::mqtt::SHARED_PREFIX.as_bytes());
        is_shared.then(|| self.filter.sub(prefix..))
    }

    /// Whether it is a filter with wildcards, of this session alone.
    pub fn is_filter(&self) -> bool {
        self.group().is_none() && self.filter.iter().any(|byte| matches!(byte, b'+' | b'#'))
    }
}

impl SleepingSession {
    /// The offset up to which a subscription has been sent the messages of a partition; none if it
    /// is not in the session.
    pub fn sent_through(&self, filter: &[u8], partition: PartitionId) -> Option<u64> {
        let subscription = self.subscriptions.iter().find(|it| it.filter[..] == *filter)?;
        let of_partition = |it: &&PartitionCursor| it.partition == partition;
        let own = subscription.cursors.iter().find(of_partition);
        let is_filter = subscription.is_filter();
        let common = || self.through.iter().find(of_partition).filter(|_| is_filter);
        own.or_else(common).map(|cursor| cursor.position.offset)
    }

    /// All cursors of a subscription: its own, and for a filter those of the session.
    pub fn cursors_of(&self, subscription: &SleepingSubscription) -> Vec<PartitionCursor> {
        let mut cursors = subscription.cursors.clone();
        if subscription.is_filter() {
            for cursor in &self.through {
                if !cursors.iter().any(|own| own.partition == cursor.partition) {
                    cursors.push(*cursor);
                }
            }
            cursors.sort_unstable_by_key(|cursor| cursor.partition);
        }
        cursors
    }

    /// About how many bytes it takes.
    pub fn memory_bytes(&self) -> usize {
        let of_subscription = |it: &SleepingSubscription| {
            size_of::<SleepingSubscription>()
                + Slice::HEAD_BYTES
                + it.filter.len()
                + it.cursors.capacity() * size_of::<PartitionCursor>()
                + it.retained.iter().map(|it| Slice::HEAD_BYTES + it.len()).sum::<usize>()
        };
        size_of::<SleepingSession>()
            + self.subscriptions.iter().map(of_subscription).sum::<usize>()
            + self.received.capacity() * size_of::<SleepingReceived>()
            + self.open.capacity() * size_of::<OpenDelivery>()
            + self.through.capacity() * size_of::<PartitionCursor>()
            + self.will.as_ref().map_or(0, |will| size_of::<Will>() + will.memory_bytes())
    }
}
