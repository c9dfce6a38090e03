//! Settings of a node as plain values: shards, logs, rules, limits. Shared read-only by all shards;
//! a reload shares new ones ([`crate::reload`]).

use crate::entitlement::Permissions;
use crate::filters::FilterTrie;
use crate::ids::{HomeId, PartitionId};
pub use crate::limits::Limits;
use crate::topic::Filter;
use std::num::NonZeroU32;
use stdx::handing::Hand;
pub use stdx::hash::Partitioner;
use stdx::networks::Networks;
pub use wire::http::ForwardedField;

/// The settings of a node that its shards need. [`Settings::renewed`] lists those that may change
/// while they run. The default has no thread, no log and no rule.
#[derive(Clone, Debug, Default, Hand)]
pub struct Settings {
    /// I/O threads; each runs an edge.
    pub edges_count: u16,
    /// The number of these threads that also run a home: threads `0..homes_count`.
    pub homes_count: u16,
    /// The logs; their partitions are numbered through.
    pub logs: Vec<LogSettings>,
    /// Rules; 0 is the default rule and always there.
    pub rules: Vec<RuleSettings>,
    /// Filter -> index into `rules`; the most specific filter wins.
    pub rule_filters: FilterTrie<u16>,
    /// Every bound.
    pub limits: Limits,
    /// Resume tickets.
    pub tickets: TicketSettings,
    /// Sources of clients' addresses.
    pub addresses: AddressSettings,
    /// The node's name, which clients see.
    pub node_name: String,
    /// Addresses of other nodes (`ws://`, `wss://`), for clients that a drain sends there.
    pub other_addresses: Vec<String>,
    /// Compression of WebSocket messages for clients that ask for it; `None`: no compression.
    pub compression: Option<CompressionSettings>,
    /// Origins that browsers may come from, beside pages served by the node itself. `*` allows all.
    pub allowed_origins: Vec<String>,
    /// Access control; `None`: every client may do everything.
    pub entitlement: Option<EntitlementSettings>,
    /// The entries that edges make about their clients.
    pub journal: JournalSettings,
    /// The publications on `$sys/...`.
    pub sys: SysSettings,
    /// MQTT.
    pub mqtt: MqttSettings,
}

/// MQTT on the listeners of clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub struct MqttSettings {
    /// Connections may begin with CONNECT.
    pub is_on: bool,
    /// Messages with QoS 1 and 2 that a client may have without acknowledging them, at most.
    pub inflight_max: u16,
    /// Publications with QoS 1 and 2 that a client of version 5 may have under way.
    pub receive_max: u16,
    /// The greatest topic alias of a client; 0: none.
    pub topic_alias_max: u16,
    /// Maximum number of topic aliases that a client is sent, if it accepts any.
    pub topic_aliases_sent_max: u16,
    /// The longest keep alive of a client of version 5, in seconds; 0: the client's.
    pub keep_alive_max_s: u16,
    /// The longest packet of a client, in bytes, announced to clients of version 5; none: as long
    /// as other frames, without an announcement.
    pub packet_bytes_max: Option<u32>,
    /// A session of version 3 that is not clean lasts so long without a connection, in seconds.
    pub session_expiry_v3_s: u32,
    /// A client that gives no name gets one.
    pub assigns_names: bool,
    /// The highest QoS of publications, 0 to 2.
    pub qos_max: u8,
    /// Clients may publish messages that are retained.
    pub may_retain: bool,
    /// A refused publication of version 3 is acknowledged, and lost; else its connection ends.
    pub acknowledges_refused: bool,
    /// The order in which members of a group get messages.
    pub group_order: GroupOrder,
}

/// The order in which members of a shared subscription get messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub enum GroupOrder {
    /// Each message goes to the next member with room.
    Any,
    /// The messages of a topic go to one member, in order; they wait for its room.
    Topic,
}

impl Default for MqttSettings {
    fn default() -> Self {
        MqttSettings {
            is_on: false,
            inflight_max: 128,
            receive_max: 256,
            topic_alias_max: 16,
            topic_aliases_sent_max: 16,
            keep_alive_max_s: 0,
            packet_bytes_max: None,
            session_expiry_v3_s: 86_400,
            assigns_names: true,
            qos_max: 2,
            may_retain: true,
            acknowledges_refused: false,
            group_order: GroupOrder::Any,
        }
    }
}

/// The entries that edges make about their clients, for the access log and the audit log. None by
/// default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hand)]
pub struct JournalSettings {
    /// Sessions that begin and end, and HTTP requests.
    pub access: bool,
    /// Permitted actions.
    pub granted: bool,
    /// Refused actions.
    pub refused: bool,
    /// Sessions and requests in a second, each edge its share; further ones are counted.
    pub access_rate_max: u32,
    /// Decisions in a second, each edge its share; further ones are counted.
    pub audit_rate_max: u32,
}

impl JournalSettings {
    /// Whether edges make any entries.
    pub fn is_on(&self) -> bool {
        self.access || self.granted || self.refused
    }
}

/// The publications on `$sys/...`. None by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hand)]
pub struct SysSettings {
    /// Sessions that begin and end.
    pub clients: bool,
    /// Topics that get their first subscriber or lose their last.
    pub topics: bool,
    /// Events of one kind in a second, each edge or home its share; further ones are counted.
    pub events_rate_max: u32,
    /// Without tokens: every client that can connect may subscribe there.
    pub is_open: bool,
}

/// Access control: clients present credentials.
#[derive(Clone, PartialEq, Eq, Debug, Default, Hand)]
pub struct EntitlementSettings {
    /// The permissions of clients without a credential. None by default.
    pub anonymous: Permissions,
    /// Time of the notice before a token expires, in seconds.
    pub notice_before_s: u32,
    /// The node bounds the connections of a user: the shell is asked before one more is served.
    pub users_are_counted: bool,
    /// There are users with passwords: a client's name and password are one credential.
    pub takes_passwords: bool,
}

/// Sources of clients' addresses, and the proxies that are trusted with them. The default keeps no
/// addresses.
#[derive(Clone, PartialEq, Eq, Debug, Default, Hand)]
pub struct AddressSettings {
    /// Trusted proxies: peers whose requests name their client.
    pub trusted_proxies: Networks,
    /// The field in which they do.
    pub field: ForwardedField,
    /// The shell counts connections by address: it is asked before a proxy's connection serves
    /// another client.
    pub are_counted: bool,
    /// Something else examines addresses.
    pub are_wanted: bool,
    /// The node needs no credentials, and only this machine reaches it: requests have to name it,
    /// so that no web page reaches it under a name of its own that resolves to loopback.
    pub are_loopback: bool,
}

impl AddressSettings {
    /// Whether edges keep the addresses of their connections.
    pub fn are_kept(&self) -> bool {
        self.are_wanted || !self.trusted_proxies.is_empty()
    }
}

/// Compression of messages (RFC 7692, without context takeover).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub struct CompressionSettings {
    /// Shorter messages go as they are, in bytes.
    pub bytes_min: u32,
    /// 1 (quick) to 9 (small).
    pub level: u8,
}

/// Signers of resume tickets, and the tickets that are accepted. Without keys the node issues none
/// and accepts none.
#[derive(Clone, PartialEq, Eq, Debug, Default, Hand)]
pub struct TicketSettings {
    /// The first signs, all are believed: a new key is put in front, and the old one taken away
    /// when its tickets have expired.
    pub keys: Vec<TicketKey>,
    /// The lifetime of a ticket, in milliseconds.
    pub lifetime_ms: u64,
    /// Tickets that were issued before this are refused; milliseconds since 1970.
    pub not_before_ms: u64,
}

impl TicketSettings {
    /// The lifetime of tickets, in whole seconds; none where none are issued.
    pub fn lifetime_s(&self) -> Option<u32> {
        let lifetime_s = self.lifetime_ms / 1_000;
        (!self.keys.is_empty()).then(|| lifetime_s.try_into().unwrap_or(u32::MAX))
    }
}

/// A secret that signs tickets, and by which name tickets call it. See `ticket` for how it is made.
#[derive(Clone, Copy, PartialEq, Eq, Hand)]
pub struct TicketKey {
    /// Made of the secret.
    pub id: u32,
    /// Random; never leaves the node.
    pub secret: [u8; 32],
}

impl std::fmt::Debug for TicketKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "TicketKey({:08x})", self.id)
    }
}

/// One log. The default has no partition.
#[derive(Clone, Debug, Default, Hand)]
pub struct LogSettings {
    /// The name.
    pub name: String,
    /// The number of partitions; fixed for the life of the log.
    pub partitions_count: u32,
    /// The number of its first partition among all logs.
    pub first_partition: PartitionId,
    /// The choice of a topic's partition.
    pub partitioner: Partitioner,
    /// The first bytes of all its topics, which the partitioner and the engine's keys leave out.
    pub topic_prefix: Box<str>,
    /// The place of its records.
    pub durability: Durability,
    /// The life of the log.
    pub epoch: u64,
    /// Earlier lives of a log on disk, oldest first; positions of them may still be good.
    pub older_epochs: Vec<OlderEpoch>,
    /// Maximum bytes of the records of all its partitions; the oldest segments are evicted.
    /// In a log on disk, or with a mirror, this is the disk's bound.
    pub log_bytes_max: u64,
    /// Cache of a log on disk, or of one with a mirror: the newest records of all its partitions
    /// take at most these bytes in memory.
    pub cache_bytes: u64,
    /// Segments whose newest record is older are evicted, in milliseconds; `u64::MAX`: none for its
    /// age.
    pub age_max_ms: u64,
    /// Capacity of a segment, in bytes; of a log on disk, there. In memory its segments have at
    /// most 2 MiB.
    pub segment_bytes: u32,
    /// Maximum bytes of the retained messages of all its partitions; beyond that a retaining
    /// publish is refused.
    pub retained_bytes_max: u64,
    /// A log in an engine has a copy on this node's disk.
    pub is_mirrored: bool,
    /// The topic of a log in an engine is compacted: a topic's newest record is its retained
    /// message.
    pub is_compacted: bool,
}

/// The place of a log's records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hand)]
pub enum Durability {
    /// In the homes' memory: gone with the process.
    #[default]
    Memory,
    /// On disk before any subscriber sees them, with the newest in memory.
    Disk,
    /// In an engine that orders the records of several nodes, with the newest in memory.
    Engine,
}

/// A life of a log that ended because acknowledged records might have been lost.
#[derive(Clone, Debug, Hand)]
pub struct OlderEpoch {
    /// The number of this life of the log.
    pub epoch: u64,
    /// Offsets by partition of the log: the next life has the same records below this offset, and
    /// perhaps others from it on.
    pub valid_below: Vec<u64>,
}

/// The settings of a rule's topics.
#[derive(Clone, PartialEq, Eq, Debug, Hand)]
pub struct RuleSettings {
    /// The topics that it is for; empty: all that no other rule is for.
    pub filter: Box<str>,
    /// Index into `logs`.
    pub log: u16,
    /// The maximum number of a topic's newest messages that are served; 0 serves none.
    pub history_messages_max: u32,
    /// Older messages are not served.
    pub history_age_max_ms: u64,
    /// Maximum bytes of a payload of its topics.
    pub message_bytes_max: u32,
    /// The lag policy of its subscriptions, unless they have their own.
    pub when_lagging: LagPolicy,
    /// Limits of publishers; `None`: every client that may publish at all. Mostly there is none,
    /// and a publication costs one look at it.
    pub publishing: Option<Box<PublishSettings>>,
}

impl Default for RuleSettings {
    /// The first log keeps its topics, and a thousand messages of each are served.
    fn default() -> Self {
        RuleSettings {
            filter: "".into(),
            log: 0,
            history_messages_max: 1_000,
            history_age_max_ms: u64::MAX,
            message_bytes_max: 1 << 20,
            when_lagging: LagPolicy::default(),
            publishing: None,
        }
    }
}

impl RuleSettings {
    /// The maximum number of messages per second of one of its topics, if bounded.
    pub fn rate_max(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.publishing.as_ref()?.rate_max)
    }
}

/// Publishers of a rule's topics, and their limits. It only takes away: an action without an
/// entitlement stays forbidden.
#[derive(Clone, PartialEq, Eq, Debug, Hand)]
pub struct PublishSettings {
    /// The permitted publishers.
    pub publishers: Publishers,
    /// Whether a message may become its topic's retained one.
    pub may_retain: bool,
    /// Messages of one topic in a second; a second's worth may come at once. 0: no bound.
    pub rate_max: u32,
    /// From which addresses; none: from all.
    pub from: Networks,
}

impl Default for PublishSettings {
    /// Nothing is taken away.
    fn default() -> Self {
        PublishSettings {
            publishers: Publishers::All,
            may_retain: true,
            rate_max: 0,
            from: Networks::default(),
        }
    }
}

/// The permitted publishers of a rule's topics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hand)]
pub enum Publishers {
    /// Every client that the entitlement lets.
    #[default]
    All,
    /// Clients among these that presented a token or an API key.
    Entitled,
    /// Servers among these: they presented an API key.
    ApiKeys,
    /// The node itself only.
    Nobody,
}

/// The effect on a subscription that has begun and whose client does not read its messages as fast
/// as they come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hand)]
pub enum LagPolicy {
    /// All missed messages are read from the log, in pages.
    #[default]
    Replay,
    /// The newest message (of a filter that of each topic), once the socket has drained; the
    /// messages before it are reported as skipped.
    Conflate,
    /// No message; reported as skipped. The subscription continues with the next message.
    Drop,
    /// The subscription ends; the client may begin it again after its last message.
    Disconnect,
}

impl LogSettings {
    /// The maximum bytes of its records in the homes' memory.
    pub fn memory_bytes_max(&self) -> u64 {
        match self.durability {
            Durability::Engine if self.is_mirrored => self.cache_bytes,
            Durability::Memory | Durability::Engine => self.log_bytes_max,
            Durability::Disk => self.cache_bytes,
        }
    }

    /// Whether a log in an engine has a copy on this node's disk.
    pub fn has_mirror(&self) -> bool {
        self.durability == Durability::Engine && self.is_mirrored
    }

    /// Whether the newest record of each topic is its retained message.
    pub fn retains_newest(&self) -> bool {
        self.durability == Durability::Engine && self.is_compacted
    }

    /// Whether this node has its older records on disk.
    pub fn has_disk(&self) -> bool {
        self.durability == Durability::Disk || self.has_mirror()
    }

    /// Its partitions.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        let first = self.first_partition;
        (0..self.partitions_count).map(move |place| first.nth(place))
    }
}

impl Settings {
    /// The rule and the partition of a topic.
    pub fn locate(&self, topic: &str) -> (u16, PartitionId) {
        let rule = self.rule_filters.most_specific(topic).copied().unwrap_or(0);
        let log = &self.logs[usize::from(self.rules[usize::from(rule)].log)];
        let key = topic.strip_prefix(&*log.topic_prefix).unwrap_or(topic);
        let place = log.partitioner.partition_of(key.as_bytes(), log.partitions_count);
        (rule, log.first_partition.nth(place))
    }

    /// The lag policy of a subscription to a filter without its own: that of the most specific rule
    /// whose filter covers all of it. Rules for a part of its topics do not count.
    pub fn policy_of(&self, filter: Filter<'_>) -> LagPolicy {
        let rule = self.rule_filters.most_specific(filter.as_str());
        self.rules[usize::from(rule.copied().unwrap_or(0))].when_lagging
    }

    /// The home of a partition.
    pub fn home_of(&self, partition: PartitionId) -> HomeId {
        HomeId((partition.0 % u32::from(self.homes_count)) as u16)
    }

    /// All homes.
    pub fn homes(&self) -> impl Iterator<Item = HomeId> + use<> {
        (0..self.homes_count).map(HomeId)
    }

    /// The log of a partition.
    pub fn log_of(&self, partition: PartitionId) -> &LogSettings {
        &self.logs[usize::from(self.log_number(partition))]
    }

    /// The index of a partition's log.
    pub fn log_number(&self, partition: PartitionId) -> u16 {
        let place = self.logs.partition_point(|log| log.first_partition <= partition);
        place.saturating_sub(1) as u16
    }

    /// The index of a partition's log if that is on disk.
    pub fn log_on_disk(&self, partition: PartitionId) -> Option<u16> {
        let number = self.log_number(partition);
        let log = self.logs.get(usize::from(number))?;
        (log.durability == Durability::Disk).then_some(number)
    }

    /// The index of a partition's log if requests may have to wait for it: for a disk, or for an
    /// engine.
    pub fn log_that_waits(&self, partition: PartitionId) -> Option<u16> {
        let number = self.log_number(partition);
        let log = self.logs.get(usize::from(number))?;
        (log.durability != Durability::Memory).then_some(number)
    }

    /// Whether an engine orders the records of any log. Homes ask in each turn.
    pub fn has_engine_logs(&self) -> bool {
        self.logs.iter().any(|log| log.durability == Durability::Engine)
    }

    /// The number of partitions of all logs.
    pub fn partitions_count(&self) -> u32 {
        self.logs.last().map_or(0, |log| log.first_partition.0 + log.partitions_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_located_as_its_log_says() {
        // The rule's log has four partitions after the eight of the first.
        let log = |partitions_count, first, partitioner, topic_prefix: &str| LogSettings {
            partitions_count,
            first_partition: PartitionId(first),
            partitioner,
            topic_prefix: topic_prefix.into(),
            ..LogSettings::default()
        };
        let filter = Filter::parse("orders/#").expect("a filter");
        for partitioner in [Partitioner::Murmur2, Partitioner::Crc32, Partitioner::Fnv1a] {
            let mut settings = Settings {
                logs: vec![log(8, 0, Partitioner::Murmur2, ""), log(64, 8, partitioner, "orders/")],
                rules: vec![RuleSettings::default(), RuleSettings { log: 1, ..Default::default() }],
                ..Settings::default()
            };
            settings.rule_filters.insert(filter, 1);
            for key in ["42", "a/b", "23456"] {
                let place = partitioner.partition_of(key.as_bytes(), 64);
                let located = settings.locate(&format!("orders/{key}"));
                assert_eq!(located, (1, PartitionId(8 + place)), "{partitioner:?} {key}");
            }
            let place = Partitioner::Murmur2.partition_of(b"prices/1", 8);
            assert_eq!(settings.locate("prices/1"), (0, PartitionId(place)));
        }
    }
}
