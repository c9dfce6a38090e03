//! Limits of shards: each is declared once, here.
//!
//! A declaration gives the field of [`Limits`], its default, the option that sets it with the
//! values that this takes, and whether a running node takes a new one. The doc comment of the field
//! is the option's help: `crore` makes its options, documents and checks from [`LIMITS`].

use log::store::PAYLOAD_BYTES_MAX;
use stdx::handing::Hand;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const DAY_S: u64 = 86_400;
/// A field with this value bounds nothing.
const UNBOUNDED: u64 = u32::MAX as u64;
/// More than any rate or count that makes a difference.
const MANY: u64 = UNBOUNDED - 1;

/// One limit, as data.
pub struct Limit {
    /// The option that sets it, `section.name`.
    pub option: &'static str,
    /// What it bounds, and what happens beyond it.
    pub help: &'static str,
    /// Values that it takes.
    pub values: Values,
    /// Its default, in the unit of `values`.
    pub default: u64,
    /// When a new value takes effect.
    pub apply: Apply,
    set: fn(&mut Limits, u64),
}

/// The values that a limit takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Values {
    /// What they count.
    pub unit: Unit,
    /// Smallest value allowed.
    pub min: u64,
    /// Greatest value allowed.
    pub max: u64,
    /// The field's value for the word `auto`, if that is allowed.
    pub auto: Option<u64>,
}

/// What the number of a limit counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Things, or things in a second.
    Count,
    /// Bytes.
    Bytes,
    /// Milliseconds.
    Milliseconds,
    /// Whole seconds.
    Seconds,
}

/// When a new value takes effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Apply {
    /// With a reload (SIGHUP, `POST /api/v1/reload`), and with the next start.
    Reload,
    /// With the next start.
    Restart,
}

impl Apply {
    /// The word for documents.
    pub fn word(self) -> &'static str {
        match self {
            Apply::Reload => "reload",
            Apply::Restart => "restart",
        }
    }
}

impl Limit {
    /// Sets the field; `None` stands for `auto`.
    pub fn set(&self, limits: &mut Limits, value: Option<u64>) {
        (self.set)(limits, value.or(self.values.auto).unwrap_or(self.default));
    }
}

impl Values {
    const fn or_auto(self, field: u64) -> Values {
        Values { auto: Some(field), ..self }
    }
}

const fn values(unit: Unit, min: u64, max: u64) -> Values {
    Values { unit, min, max, auto: None }
}

const fn count(min: u64, max: u64) -> Values {
    values(Unit::Count, min, max)
}

const fn bytes(min: u64, max: u64) -> Values {
    values(Unit::Bytes, min, max)
}

const fn milliseconds(min: u64, max: u64) -> Values {
    values(Unit::Milliseconds, min, max)
}

const fn seconds(min: u64, max: u64) -> Values {
    values(Unit::Seconds, min, max)
}

/// Each line: help, `field: type = default, "section.option", values, Reload or Restart;`.
macro_rules! limits {
    ($($(#[doc = $help:literal])+
       $field:ident: $type:ty = $default:expr, $option:literal, $values:expr, $apply:ident;)*) => {
        /// Every limit of a shard.
        #[derive(Clone, Debug, Hand)]
        pub struct Limits {
            $($(#[doc = $help])+ pub $field: $type,)*
        }

        /// Every limit of a shard, in the order of the documents within each section.
        pub const LIMITS: &[Limit] = &[$(Limit {
            option: $option,
            help: concat!($($help),+).trim_ascii_start(),
            values: $values,
            default: $default,
            apply: Apply::$apply,
            set: |limits, value| limits.$field = <$type>::try_from(value).unwrap_or(<$type>::MAX),
        }),*];

        impl Limits {
            /// The limits of a node that runs with these and is asked for others.
            pub fn renewed(&self, wanted: Limits) -> Limits {
                Limits {
                    $($field: match Apply::$apply {
                        Apply::Reload => wanted.$field,
                        Apply::Restart => self.$field,
                    },)*
                }
            }
        }

        impl Default for Limits {
            fn default() -> Limits {
                Limits { $($field: { const DEFAULT: u64 = $default; DEFAULT as $type },)* }
            }
        }
    };
}

limits! {
    /// A longer request head is answered 431.
    head_bytes_max: u32 = 16 * KIB,
        "http.head_bytes_max", bytes(KIB, MIB), Reload;
    /// From the connection's start to the end of its first request head; then it is closed.
    handshake_timeout_ms: u32 = 10_000,
        "http.handshake_timeout", milliseconds(100, 600_000), Reload;
    /// A connection without a request is closed after so long.
    keep_alive_timeout_ms: u32 = 75_000,
        "http.keep_alive_timeout", milliseconds(100, DAY_S * 1_000), Reload;
    /// The longest long-poll; a greater `wait` is cut to it.
    wait_max_ms: u32 = 60_000,
        "http.wait_max", milliseconds(0, 600_000), Reload;
    /// A quiet event stream carries a comment this often, so that nothing on its way closes it.
    heartbeat_interval_s: u32 = 15,
        "http.heartbeat_interval", seconds(1, 3_600), Reload;
    /// HTTP requests of one connection in a second, and as many at once; further ones are answered
    /// 429. Auto: no limit.
    requests_rate_max: u32 = 0,
        "http.requests_rate_max", count(1, MANY).or_auto(0), Reload;
    /// A longer native frame or WebSocket message from a client closes its connection (1009).
    frame_bytes_max: u32 = 2 * MIB,
        "websocket.frame_bytes_max", bytes(KIB, GIB), Reload;
    /// The same for /echo.
    echo_bytes_max: u32 = 16 * MIB,
        "websocket.echo_bytes_max", bytes(KIB, GIB), Reload;
    /// A quiet connection is pinged this often, unless its client negotiates otherwise. 0s: never.
    ping_interval_s: u32 = 60,
        "websocket.ping_interval", seconds(0, DAY_S), Reload;
    /// Pings of one client in a second, and as many at once; one more closes its connection (3509).
    /// Auto: no limit.
    ping_rate_max: u32 = 0,
        "websocket.ping_rate_max", count(1, MANY).or_auto(0), Reload;
    /// Connections of one I/O thread; further ones are answered 503. Auto: as many as descriptors
    /// allow.
    connections_max: u32 = UNBOUNDED,
        "limits.connections_max", count(1, MANY).or_auto(UNBOUNDED), Restart;
    /// Topics known to one home shard; a publish or subscribe that needs one more is refused.
    topics_max: u32 = 50_000_000,
        "limits.topics_max", count(1, 1_000_000_000), Reload;
    /// Filters with wildcards known to one shard; a further one is refused.
    filters_per_shard_max: u32 = 100_000,
        "limits.filters_per_shard_max", count(1, 10_000_000), Reload;
    /// Of these, filters that one user has brought, where tokens are asked for; a further one is
    /// refused (too_many_filters). A filter counts for the user who subscribed to it first, until
    /// nobody subscribes to it. All clients without a credential are one user.
    filters_per_user_max: u32 = 25_000,
        "limits.filters_per_user_max", count(1, 10_000_000), Reload;
    /// Levels of a filter with wildcards; a deeper one is refused.
    filter_levels_max: u32 = 32,
        "limits.filter_levels_max", count(1, 128), Reload;
    /// Subscriptions of one connection; a further one is refused.
    subscriptions_per_session_max: u32 = 10_000,
        "limits.subscriptions_per_session_max", count(1, 10_000_000), Reload;
    /// Of these, subscriptions to filters with wildcards.
    filters_per_session_max: u32 = 10_000,
        "limits.filters_per_session_max", count(1, 10_000_000), Reload;
    /// Subscriptions that one session begins in a second; at once it may begin as many, and
    /// subscriptions_per_session_max more. Further ones are refused (rate_limited). Auto: no limit.
    subscribe_rate_max: u32 = 1_000,
        "limits.subscribe_rate_max", count(1, MANY).or_auto(0), Reload;
    /// Messages that one connection may publish in a second, and as many at once; further ones are
    /// refused (rate_limited, 429). Auto: no limit.
    publish_rate_max: u32 = 0,
        "limits.publish_rate_max", count(1, MANY).or_auto(0), Reload;
    /// Payload bytes of these. A request with more bytes, up to limits.request_bytes_max, goes when
    /// nothing was published for a while. Auto: no limit.
    publish_bytes_rate_max: u64 = 0,
        "limits.publish_bytes_rate_max", bytes(KIB, 64 << 30).or_auto(0), Reload;
    /// What one connection may be refused in a minute for faults of its own; one more closes it
    /// (3509). Auto: no limit.
    errors_max: u32 = 10_000,
        "limits.errors_max", count(1, MANY).or_auto(0), Reload;
    /// Payload of one message; a longer one is refused. A rule may say less.
    message_bytes_max: u32 = MIB,
        "limits.message_bytes_max", bytes(1, PAYLOAD_BYTES_MAX as u64), Reload;
    /// Bytes that one POST /publish appends: payload, content type and tags of each message, once
    /// for each of its topics. A request with more is refused whole (request_too_large, 413).
    request_bytes_max: u32 = 8 * MIB,
        "limits.request_bytes_max", bytes(KIB, GIB), Reload;
    /// Messages that may wait for one blocked connection; then its subscriptions lag, and are fed
    /// from the log when it drains.
    outbox_len_max: u32 = 256,
        "limits.outbox_len_max", count(1, 65_535), Reload;
    /// Answers and begun frames that one blocked connection may own; beyond that it is closed, to
    /// resume.
    outbox_bytes_max: u32 = 4 * MIB,
        "limits.outbox_bytes_max", bytes(4 * KIB, GIB), Reload;
    /// The same for all connections of one I/O thread together. Unfinished input counts apart, with
    /// the same bound: above it the connection with the most of it is closed.
    pinned_bytes_max: u64 = 256 * MIB,
        "limits.pinned_bytes_max", bytes(64 * KIB, 64 * GIB), Reload;
    /// The longest WebSocket message before HELLO. With entitlement.mode = "tokens" also the
    /// longest message (1009) and HTTP body (message_too_large, 413) of a client that has shown no
    /// accepted credential. A request's head has http.head_bytes_max.
    anonymous_input_bytes_max: u32 = 32 * KIB,
        "limits.anonymous_input_bytes_max", bytes(32 * KIB, 256 * MIB), Reload;
    /// A frame, message, head or body that has begun must, in each such time, become complete or go
    /// on by 1 KiB for each second of it. Otherwise its connection is closed: 3010, 408. An HTTP
    /// request has http.keep_alive_timeout for all of it, too.
    unfinished_input_timeout_ms: u32 = 30_000,
        "limits.unfinished_input_timeout", milliseconds(1_000, 600_000), Reload;
    /// Recent frames that one I/O thread keeps for slow connections.
    ring_bytes: u32 = 4 * MIB,
        "limits.ring_bytes", bytes(64 * KIB, 2 * GIB), Restart;
    /// Requests on their way from one I/O thread to one home shard; beyond that the connections
    /// concerned are not read.
    requests_inflight_max: u32 = 4_096,
        "limits.requests_inflight_max", count(16, 1 << 20), Reload;
    /// A log on disk that gets nothing done for so long, though it is asked, refuses what needs its
    /// disk until it does.
    log_stall_timeout_ms: u32 = 10_000,
        "limits.log_stall_timeout", milliseconds(100, 3_600_000), Reload;
    /// Live messages on their way from one home shard to one I/O thread; beyond that the home reads
    /// the log later instead.
    stream_credit_bytes: u32 = 8 * MIB,
        "limits.stream_credit_bytes", bytes(64 * KIB, 2 * GIB), Reload;
    /// Frames handled for one connection before others have their turn.
    turn_frames_max: u32 = 64,
        "limits.turn_frames_max", count(1, 65_536), Reload;
    /// One page of history or replay. One message always fits.
    page_bytes: u32 = 64 * KIB,
        "limits.page_bytes", bytes(KIB, 64 * MIB), Restart;
    /// Messages of one such page.
    page_records_max: u32 = 256,
        "limits.page_records_max", count(1, 65_536), Reload;
    /// Bytes of the log that one page of a filter's replay looks at.
    scan_bytes_max: u32 = 256 * KIB,
        "limits.scan_bytes_max", bytes(KIB, 64 * MIB), Reload;
    /// Idempotency keys that one home shard remembers, 48 bytes each; beyond that the oldest is
    /// forgotten, and its message would be appended again.
    idempotency_keys_max: u32 = 1_000_000,
        "limits.idempotency_keys_max", count(0, 1 << 30), Restart;
    /// For how long it remembers them at most.
    idempotency_window_ms: u32 = 300_000,
        "limits.idempotency_window", milliseconds(1_000, 7 * DAY_S * 1_000), Restart;
    /// Producers that one home shard remembers, each counted for every partition that it publishes
    /// to. One without a message in the log gives way to a new one; if all have some, the new one
    /// is refused.
    producers_max: u32 = 100_000,
        "limits.producers_max", count(1, 100_000_000), Restart;
    /// The newest messages of a producer of which a repetition is recognised. It should be no less
    /// than what a client has unanswered.
    producer_window_max: u32 = 4_096,
        "limits.producer_window_max", count(1, 1 << 20), Restart;
    /// Such messages of all producers of one home shard together, 20 to 80 bytes each; beyond that
    /// the producer that has been quiet for longest loses its oldest ones, down to its last: a
    /// repetition of them is refused with out_of_order.
    producer_window_entries_max: u32 = 1_000_000,
        "limits.producer_window_entries_max", count(0, 1 << 30), Restart;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_sound() {
        let defaults = format!("{:?}", Limits::default());
        let mut set = Limits::default();
        for limit in LIMITS {
            let Limit { option, help, values, default, .. } = limit;
            assert!(help.ends_with('.') && help.trim() == *help, "{option}: {help}");
            let is_bounded = (values.min..=values.max).contains(default);
            assert!(is_bounded || values.auto == Some(*default), "{option}: {default}");
            assert!(values.auto.is_none_or(|auto| auto < values.min || auto > values.max));
            limit.set(&mut set, Some(*default));
            assert_eq!(format!("{set:?}"), defaults, "{option}");
            // The greatest value fits the field: it differs from the one before.
            let shown = [values.max - 1, values.max].map(|value| {
                let mut limits = Limits::default();
                limit.set(&mut limits, Some(value));
                format!("{limits:?}")
            });
            assert_ne!(shown[0], shown[1], "{option}");
        }
    }

    #[test]
    fn a_running_node_keeps_limits_that_need_a_restart() {
        let running = Limits::default();
        for limit in LIMITS {
            let mut wanted = Limits::default();
            limit.set(&mut wanted, Some(limit.values.max));
            let renewed = format!("{:?}", running.renewed(wanted.clone()));
            let expected = match limit.apply {
                Apply::Reload => format!("{wanted:?}"),
                Apply::Restart => format!("{running:?}"),
            };
            assert_eq!(renewed, expected, "{}", limit.option);
        }
    }
}
