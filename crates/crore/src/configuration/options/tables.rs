//! Options of each `[[log]]` and each `[[rule]]`.

use super::spec::{DAY_S, GIB, KIB, MIB, count, options, size, text};
use super::typed::{choice, choices};
use crate::configuration::value::Kind;
use broker::settings::{Durability, LagPolicy, Partitioner, Publishers};
use std::time::Duration;
use stdx::networks::Networks;

options! {
    /// Logs. Rules map topics to a log; the first one has all other topics.
    table "log": LogTable;

    /// The name that rules use.
    name: String = "memory", text(64), Restart;
    /// Place of acknowledged messages: in memory until the node ends; on disk (in node.data_dir)
    /// before they are delivered; or in the engine, which several nodes share ([engine]).
    durability: Durability = "memory", choice::<Durability>(), Restart;
    /// Partitions, over which topics are spread. For a log in the engine: the number of partitions
    /// of its topic there.
    partitions_count: u32 = "64", count(1, 65_536), Restart;
    /// Bytes of all messages of the log, in memory or on disk; beyond that the log drops its oldest
    /// segments. With a mirror: bytes on this node's disk.
    bytes_max: u64 = "256MiB", size(64 * KIB, 64 << 40), Restart;
    /// Bytes of the newest messages of a log on disk, or of one with a mirror, that memory holds,
    /// too; older ones are read from the disk.
    cache_bytes: u64 = "64MiB", size(64 * KIB, 64 << 40), Restart;
    /// Age of the newest message of a segment at which the log drops the segment. Auto: 180s for a
    /// log in memory; a log on disk drops by bytes_max only.
    age_max: Option<Duration> = "auto",
        Kind::Duration { min_ms: 1_000, max_ms: 3_650 * DAY_S * 1_000, step_ms: 1, auto: true }, Restart;
    /// Capacity of one segment, the unit that a log drops. On disk at most 256MiB and a quarter of
    /// bytes_max; not given, a 32nd of bytes_max from 2MiB to 64MiB.
    segment_bytes: u32 = "2MiB", size(64 * KIB, 2 * GIB), Restart;
    /// Bytes of all retained messages of the log; beyond that a publication with `retain` is
    /// refused.
    retained_bytes_max: u64 = "256MiB", size(0, 64 << 40), Reload;
    /// The engine's topic for a log with durability = "engine". Not given: the name of the log.
    topic: Option<String> = example "orders", text(249), Restart;
    /// First characters of all topics of a log in the engine, which keys in the engine lack: with
    /// "orders/" the key 42 is the topic orders/42. Not given: keys are topics.
    topic_prefix: Option<String> = example "orders/", text(200), Restart;
    /// The way in which producers of a log in the engine choose partitions: murmur2 as Kafka's own
    /// client; crc32 as librdkafka, so the clients for Python, Go, .NET and Node; fnv1a as Sarama.
    partitioner: Partitioner = "murmur2", choice::<Partitioner>(), Restart;
    /// Headers of other producers' messages in a log in the engine that become tags, beside ce_*
    /// and crore.tag.*. Clients see tags: do not list internal headers.
    tag_headers: Vec<Box<str>> = "", Kind::Words, Restart;
    /// The topic of messages without a key, in a log in the engine with one partition. Not given:
    /// such messages are not served, and counted.
    null_key_topic: Option<String> = example "orders/all", text(255), Restart;
    /// Remove the first five bytes of other producers' messages in a log in the engine: a zero and
    /// the number of a schema, as clients of a schema registry write them. Messages without them
    /// are not served, and counted.
    strip_schema_id: bool = "false", Kind::Boolean, Restart;
    /// Keep a copy of a log in the engine on this node's disk (in node.data_dir): recoveries reach
    /// back as far as age_max and bytes_max, memory holds only cache_bytes, and a restart reads
    /// only new messages. A mirror that fails costs history, and nothing else.
    mirror: bool = "false", Kind::Boolean, Restart;
    /// The topic of a log in the engine is compacted (cleanup.policy=compact): it keeps the newest
    /// message of each key, which is the topic's retained message. `crore engine init` creates the
    /// topic so.
    compact: bool = "false", Kind::Boolean, Restart;
    /// Use the engine's topic although it may lose acknowledged messages: too few copies, unclean
    /// leader election, or times by its producers.
    allow_weak: bool = "false", Kind::Boolean, Restart;
}

impl LogTable {
    /// The engine's topic.
    pub fn engine_topic(&self) -> &str {
        self.topic.as_deref().unwrap_or(&self.name)
    }
}

options! {
    /// Settings for the topics of a filter; the most specific filter applies.
    table "rule": RuleTable;

    /// Filter of the topics of the rule; the most specific filter applies. Required.
    filter: Option<String> = example "prices/#", Kind::Filter, Reload;
    /// The log of its topics. Not given: the first log.
    log: Option<String> = example "memory", text(64), Restart;
    /// The newest messages of each topic that are served as history. 0: none.
    history_messages_max: u32 = "1000", count(0, 100_000_000), Reload;
    /// Age up to which messages are served as history. Auto: as long as the log keeps them.
    history_age_max: Option<Duration> = "auto",
        Kind::Duration { min_ms: 0, max_ms: 3_650 * DAY_S * 1_000, step_ms: 1, auto: true }, Reload;
    /// Payload bytes of one message. Auto: limits.message_bytes_max.
    message_bytes_max: Option<u32> = "auto",
        Kind::Size { min: 1, max: 256 * MIB, auto: true }, Reload;
    /// Lag policy of subscriptions that do not choose one: replay reads all messages from the log
    /// again; conflate sends the newest message only; drop skips messages and continues live;
    /// disconnect ends the subscription, and its client resumes.
    when_lagging: LagPolicy = "replay", choice::<LagPolicy>(), Reload;
    /// Clients that may publish if their entitlement permits it: all; entitled, with a token or an
    /// API key; api_keys, with an API key only; none, only the node itself. A rule never adds a
    /// permission.
    publishers: Publishers = "all", choice::<Publishers>(), Reload;
    /// Addresses from which publications are accepted. Not given: all.
    publish_from: Networks = "", Kind::Networks, Reload;
    /// Messages that one topic accepts in a second, with a burst of the same number; more are
    /// refused (rate_limited). 0: no limit.
    publish_rate_max: u32 = "0", count(0, 1_000_000), Reload;
    /// Whether messages may be retained. If not, a publication with `retain` is refused; existing
    /// retained messages stay.
    retained: bool = "true", Kind::Boolean, Reload;
}

choices! { Durability: Memory = "memory", Disk = "disk", Engine = "engine" }
choices! { Partitioner: Murmur2 = "murmur2", Crc32 = "crc32", Fnv1a = "fnv1a" }
choices! {
    LagPolicy: Replay = "replay", Conflate = "conflate", Drop = "drop", Disconnect = "disconnect"
}
choices! { Publishers: All = "all", Entitled = "entitled", ApiKeys = "api_keys", Nobody = "none" }
