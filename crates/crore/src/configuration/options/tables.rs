//! Declarations of the keys that each `[[log]]` and each `[[rule]]` takes.

use super::{DAY_S, GIB, KIB, MIB, OptionSpec, count, live, option, size};
use crate::configuration::value::Kind;

/// Keys of each `[[log]]`.
pub const LOG_OPTIONS: &[OptionSpec] = &[
    option("name", Kind::Text { bytes_max: 64 }, "memory", "By which rules name it."),
    option(
        "durability",
        Kind::Choice(&["memory", "disk"]),
        "memory",
        "Where acknowledged messages are kept: in memory until the node ends, or on disk (in node.data_dir) before anybody sees them.",
    ),
    option(
        "partitions_count",
        count(1, 65_536),
        "64",
        "Topics are spread over so many partitions, as Kafka's default partitioner does.",
    ),
    option(
        "bytes_max",
        size(64 * KIB, 64 << 40),
        "256MiB",
        "All its messages together; beyond that the oldest segments are dropped. Of a log on disk, its bytes there.",
    ),
    option(
        "cache_bytes",
        size(64 * KIB, 64 << 40),
        "64MiB",
        "Of a log on disk: its newest messages up to so many bytes are kept in memory, too; older ones are read from the disk.",
    ),
    option(
        "age_max",
        Kind::Duration { min_ms: 1_000, max_ms: 3_650 * DAY_S * 1_000, step_ms: 1, auto: true },
        "auto",
        "Segments whose newest message is older are dropped. Auto: 180s of a log in memory; of one on disk only bytes_max counts.",
    ),
    option(
        "segment_bytes",
        size(64 * KIB, 2 * GIB),
        "2MiB",
        "Capacity of one segment, the unit in which the log forgets. On disk at most 256MiB and a quarter of bytes_max; \
         not given, a 32nd of bytes_max from 2MiB to 64MiB.",
    ),
    live(
        "retained_bytes_max",
        size(0, 64 << 40),
        "256MiB",
        "All its retained messages together; beyond that a retaining publish is refused.",
    ),
];

/// Keys of each `[[rule]]`.
pub const RULE_OPTIONS: &[OptionSpec] = &[
    live(
        "filter",
        Kind::Filter,
        "",
        "The topics that the rule is for; the most specific filter wins. Must be given.",
    ),
    option(
        "log",
        Kind::Text { bytes_max: 64 },
        "",
        "The log that keeps them. Where it is not given: the first.",
    ),
    live(
        "history_messages_max",
        count(0, 100_000_000),
        "1000",
        "Of each topic at most so many of the newest messages are served. 0 serves none.",
    ),
    live(
        "history_age_max",
        Kind::Duration { min_ms: 0, max_ms: 3_650 * DAY_S * 1_000, step_ms: 1, auto: true },
        "auto",
        "Older messages are not served. Auto: as long as the log keeps them.",
    ),
    live(
        "message_bytes_max",
        Kind::Size { min: 1, max: 256 * MIB, auto: true },
        "auto",
        "Payload of one message. Auto: limits.message_bytes_max.",
    ),
    live(
        "when_lagging",
        Kind::Choice(&["replay", "conflate", "drop", "disconnect"]),
        "replay",
        "What becomes of a subscription whose client does not keep up, unless it says so itself: all is read from the log again; the newest message only; none, and on with what comes; the subscription ends, to be resumed.",
    ),
    live(
        "publishers",
        Kind::Choice(&["all", "entitled", "api_keys", "none"]),
        "all",
        "Who may publish: whoever the entitlement lets; of these, who has shown a token or an API key; servers with an API key only; nobody but the node itself. A rule only takes away.",
    ),
    live(
        "publish_from",
        Kind::Networks,
        "",
        "Publications are taken from these addresses only. Without any, from everywhere.",
    ),
    live(
        "publish_rate_max",
        count(0, 1_000_000),
        "0",
        "Messages that one topic takes in a second, a second's worth at once; further ones are refused with rate_limited. 0: no bound.",
    ),
    live(
        "retained",
        Kind::Boolean,
        "true",
        "Whether a message may be kept as its topic's retained one. Where not, a publication that asks for it is refused; what is retained already stays.",
    ),
];
