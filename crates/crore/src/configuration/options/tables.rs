//! Declarations of the keys that each `[[log]]` and each `[[rule]]` takes.

use super::spec::{DAY_S, GIB, KIB, MIB, OptionSpec, count, live, option, size};
use crate::configuration::value::Kind;

/// Keys of each `[[log]]`.
pub const LOG_OPTIONS: &[OptionSpec] = &[
    option("name", Kind::Text { bytes_max: 64 }, "memory", "The name that rules use."),
    option(
        "durability",
        Kind::Choice(&["memory", "disk"]),
        "memory",
        "Place of acknowledged messages: in memory until the node ends, or on disk (in node.data_dir) before they are delivered.",
    ),
    option(
        "partitions_count",
        count(1, 65_536),
        "64",
        "Partitions, over which topics are spread as Kafka's default partitioner does.",
    ),
    option(
        "bytes_max",
        size(64 * KIB, 64 << 40),
        "256MiB",
        "Bytes of all messages of the log, in memory or on disk; beyond that the log drops its oldest segments.",
    ),
    option(
        "cache_bytes",
        size(64 * KIB, 64 << 40),
        "64MiB",
        "Bytes of the newest messages of a log on disk that memory holds, too; older ones are read from the disk.",
    ),
    option(
        "age_max",
        Kind::Duration { min_ms: 1_000, max_ms: 3_650 * DAY_S * 1_000, step_ms: 1, auto: true },
        "auto",
        "Age of the newest message of a segment at which the log drops the segment. Auto: 180s for a log in memory; a log on disk drops by bytes_max only.",
    ),
    option(
        "segment_bytes",
        size(64 * KIB, 2 * GIB),
        "2MiB",
        "Capacity of one segment, the unit that a log drops. On disk at most 256MiB and a quarter of bytes_max; not given, a 32nd of bytes_max from 2MiB to 64MiB.",
    ),
    live(
        "retained_bytes_max",
        size(0, 64 << 40),
        "256MiB",
        "Bytes of all retained messages of the log; beyond that a publication with `retain` is refused.",
    ),
];

/// Keys of each `[[rule]]`.
pub const RULE_OPTIONS: &[OptionSpec] = &[
    live(
        "filter",
        Kind::Filter,
        "",
        "Filter of the topics of the rule; the most specific filter applies. Required.",
    ),
    option(
        "log",
        Kind::Text { bytes_max: 64 },
        "",
        "The log of its topics. Not given: the first log.",
    ),
    live(
        "history_messages_max",
        count(0, 100_000_000),
        "1000",
        "The newest messages of each topic that are served as history. 0: none.",
    ),
    live(
        "history_age_max",
        Kind::Duration { min_ms: 0, max_ms: 3_650 * DAY_S * 1_000, step_ms: 1, auto: true },
        "auto",
        "Age up to which messages are served as history. Auto: as long as the log keeps them.",
    ),
    live(
        "message_bytes_max",
        Kind::Size { min: 1, max: 256 * MIB, auto: true },
        "auto",
        "Payload bytes of one message. Auto: limits.message_bytes_max.",
    ),
    live(
        "when_lagging",
        Kind::Choice(&["replay", "conflate", "drop", "disconnect"]),
        "replay",
        "Lag policy of subscriptions that do not choose one: replay reads all messages from the log again; conflate sends the newest message only; drop skips messages and continues live; disconnect ends the subscription, and its client resumes.",
    ),
    live(
        "publishers",
        Kind::Choice(&["all", "entitled", "api_keys", "none"]),
        "all",
        "Clients that may publish if their entitlement permits it: all; entitled, with a token or an API key; api_keys, with an API key only; none, only the node itself. A rule never adds a permission.",
    ),
    live(
        "publish_from",
        Kind::Networks,
        "",
        "Addresses from which publications are accepted. Not given: all.",
    ),
    live(
        "publish_rate_max",
        count(0, 1_000_000),
        "0",
        "Messages that one topic accepts in a second, with a burst of the same number; more are refused (rate_limited). 0: no limit.",
    ),
    live(
        "retained",
        Kind::Boolean,
        "true",
        "Whether messages may be retained. If not, a publication with `retain` is refused; existing retained messages stay.",
    ),
];
