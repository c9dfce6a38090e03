//! Declarations of the section `[limits]`.

use super::{
    DAY_S, GIB, KIB, MANY, MIB, OptionSpec, count, count_or_auto, live, milliseconds, option, size,
    size_or_auto,
};
use crate::configuration::value::Kind;

/// Bounds of a node, and of each of its shards, sessions and messages.
pub(super) const LIMIT_OPTIONS: &[OptionSpec] = &[
    option(
        "limits.connections_max",
        count_or_auto(1, u32::MAX as u64 - 1),
        "auto",
        "Connections of one I/O thread; further ones are answered 503. Auto: as many as descriptors allow.",
    ),
    live(
        "limits.topics_max",
        count(1, 1_000_000_000),
        "50000000",
        "Topics known to one home shard; a publish or subscribe that needs one more is refused.",
    ),
    option(
        "limits.connect_rate_max",
        count_or_auto(1, MANY),
        "auto",
        "Connects in a second that the node takes, and as many at once, each I/O thread its share. Those that come faster wait in the kernel's queue (listen.backlog) and are taken later. Auto: no limit.",
    ),
    option(
        "limits.connections_per_address_max",
        count_or_auto(1, MANY),
        "auto",
        "Connections of one IPv4 address, or of one IPv6 network of 64 bits; 16 times as many for one of 48 bits. Further ones are answered 429. Auto: no limit.",
    ),
    option(
        "limits.connect_rate_per_address_max",
        count_or_auto(1, MANY),
        "auto",
        "Connects of such an address in a second, and as many at once; further ones are answered 429. Auto: no limit.",
    ),
    option(
        "limits.addresses_exempt",
        Kind::Networks,
        "",
        "Addresses that these two limits are not for, such as a company's one address. Trusted proxies need not be named here.",
    ),
    option(
        "limits.connections_per_user_max",
        count_or_auto(1, MANY),
        "auto",
        "Connections of one user, by the `sub` of the tokens that they have shown last; a token may say less (limits.connections). Further ones are refused: too_many_connections, 429. API keys and clients without a token are no users. Auto: no limit but that of tokens.",
    ),
    option(
        "limits.memory_bytes_max",
        size_or_auto(16 * MIB, 64 << 40),
        "auto",
        "The memory that the process means to stay below: from 90 % of it recoveries wait, from 95 % nobody new is served, from 100 % publications are refused. Auto: 90 % of what its cgroup may have, or of the machine.",
    ),
    live(
        "limits.filters_per_shard_max",
        count(1, 10_000_000),
        "100000",
        "Filters with wildcards known to one shard; a further one is refused.",
    ),
    live(
        "limits.filters_per_user_max",
        count(1, 10_000_000),
        "25000",
        "Of these, filters that one user has brought, where tokens are asked for; a further one is refused (too_many_filters). A filter counts for the user who subscribed to it first, until nobody subscribes to it. All clients without a credential are one user.",
    ),
    live(
        "limits.filter_levels_max",
        count(1, 128),
        "32",
        "Levels of a filter with wildcards; a deeper one is refused.",
    ),
    live(
        "limits.subscriptions_per_session_max",
        count(1, 10_000_000),
        "10000",
        "Subscriptions of one connection; a further one is refused.",
    ),
    live(
        "limits.filters_per_session_max",
        count(1, 10_000_000),
        "10000",
        "Of these, subscriptions to filters with wildcards.",
    ),
    live(
        "limits.subscribe_rate_max",
        count_or_auto(1, MANY),
        "1000",
        "Subscriptions that one session begins in a second; at once it may begin as many, and subscriptions_per_session_max more. Further ones are refused (rate_limited). Auto: no limit.",
    ),
    live(
        "limits.publish_rate_max",
        count_or_auto(1, MANY),
        "auto",
        "Messages that one connection may publish in a second, and as many at once; further ones are refused (rate_limited, 429). Auto: no limit.",
    ),
    live(
        "limits.publish_bytes_rate_max",
        size_or_auto(KIB, 64 << 30),
        "auto",
        "Payload bytes of these. A request with more bytes, up to limits.request_bytes_max, goes when nothing was published for a while. Auto: no limit.",
    ),
    live(
        "limits.errors_max",
        count_or_auto(1, MANY),
        "10000",
        "What one connection may be refused in a minute for faults of its own; one more closes it (3509). Auto: no limit.",
    ),
    live(
        "limits.message_bytes_max",
        size(1, log::store::PAYLOAD_BYTES_MAX as u64),
        "1MiB",
        "Payload of one message; a longer one is refused. A rule may say less.",
    ),
    live(
        "limits.request_bytes_max",
        size(KIB, GIB),
        "8MiB",
        "Bytes that one POST /publish appends: payload, content type and tags of each message, once for each of its topics. A request with more is refused whole (request_too_large, 413).",
    ),
    live(
        "limits.outbox_len_max",
        count(1, 65_535),
        "256",
        "Messages that may wait for one blocked connection; then its subscriptions lag, and are fed from the log when it drains.",
    ),
    live(
        "limits.outbox_bytes_max",
        size(4 * KIB, GIB),
        "4MiB",
        "Answers and begun frames that one blocked connection may own; beyond that it is closed, to resume.",
    ),
    live(
        "limits.pinned_bytes_max",
        size(64 * KIB, 64 * GIB),
        "256MiB",
        "The same for all connections of one I/O thread together. Unfinished input counts apart, with the same bound: above it the connection with the most of it is closed.",
    ),
    live(
        "limits.anonymous_input_bytes_max",
        size(32 * KIB, 256 * MIB),
        "32KiB",
        "The longest WebSocket message before HELLO. With entitlement.mode = \"tokens\" also the longest message (1009) and HTTP body (message_too_large, 413) of a client that has shown no accepted credential. A request's head has http.head_bytes_max.",
    ),
    live(
        "limits.unfinished_input_timeout",
        milliseconds(1_000, 600_000),
        "30s",
        "A frame, message, head or body that has begun must, in each such time, become complete or go on by 1 KiB for each second of it. Otherwise its connection is closed: 3010, 408. An HTTP request has http.keep_alive_timeout for all of it, too.",
    ),
    option(
        "limits.ring_bytes",
        size(64 * KIB, 2 * GIB),
        "4MiB",
        "Recent frames that one I/O thread keeps for slow connections.",
    ),
    live(
        "limits.requests_inflight_max",
        count(16, 1 << 20),
        "4096",
        "Requests on their way from one I/O thread to one home shard; beyond that the connections concerned are not read.",
    ),
    live(
        "limits.log_stall_timeout",
        milliseconds(100, 3_600_000),
        "10s",
        "A log on disk that gets nothing done for so long, though it is asked, refuses what needs its disk until it does.",
    ),
    live(
        "limits.stream_credit_bytes",
        size(64 * KIB, 2 * GIB),
        "8MiB",
        "Live messages on their way from one home shard to one I/O thread; beyond that the home reads the log later instead.",
    ),
    live(
        "limits.turn_frames_max",
        count(1, 65_536),
        "64",
        "Frames handled for one connection before others have their turn.",
    ),
    option(
        "limits.page_bytes",
        size(KIB, 64 * MIB),
        "64KiB",
        "One page of history or replay. One message always fits.",
    ),
    live("limits.page_records_max", count(1, 65_536), "256", "Messages of one such page."),
    live(
        "limits.scan_bytes_max",
        size(KIB, 64 * MIB),
        "256KiB",
        "Bytes of the log that one page of a filter's replay looks at.",
    ),
    option(
        "limits.idempotency_keys_max",
        count(0, 1 << 30),
        "1000000",
        "Idempotency keys that one home shard remembers, 48 bytes each; beyond that the oldest is forgotten, and its message would be appended again.",
    ),
    option(
        "limits.idempotency_window",
        Kind::Duration { min_ms: 1_000, max_ms: 7 * DAY_S * 1_000, step_ms: 1, auto: false },
        "5m",
        "For how long it remembers them at most.",
    ),
    option(
        "limits.producers_max",
        count(1, 100_000_000),
        "100000",
        "Producers that one home shard remembers, each counted for every partition that it publishes to. One without a message in the log gives way to a new one; if all have some, the new one is refused.",
    ),
    option(
        "limits.producer_window_max",
        count(1, 1 << 20),
        "4096",
        "The newest messages of a producer of which a repetition is recognised. It should be no less than what a client has unanswered.",
    ),
    option(
        "limits.producer_window_entries_max",
        count(0, 1 << 30),
        "1000000",
        "Such messages of all producers of one home shard together, 20 to 80 bytes each; beyond that the producer that has been quiet for longest loses its oldest ones, down to its last: a repetition of them is refused with out_of_order.",
    ),
];
