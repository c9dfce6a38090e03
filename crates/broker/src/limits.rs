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
    /// The subject of the limit, and the effect beyond it.
    pub help: &'static str,
    /// Values that it takes.
    pub values: Values,
    /// Its default, in the unit of `values`.
    pub default: u64,
    /// The time at which a new value takes effect.
    pub apply: Apply,
    set: fn(&mut Limits, u64),
}

/// The values that a limit takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Values {
    /// The unit of the values.
    pub unit: Unit,
    /// Smallest value allowed.
    pub min: u64,
    /// Greatest value allowed.
    pub max: u64,
    /// The field's value for the word `auto`, if that is allowed.
    pub auto: Option<u64>,
}

/// The unit of a limit.
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

/// The time at which a new value takes effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Apply {
    /// With a reload (SIGHUP, `POST /api/v1/reload`), and with the next start.
    Reload,
    /// With the next start.
    Restart,
}

impl Apply {
    /// The unit's name in documents.
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
    /// Bytes of the head of one request; a longer one gets 431.
    head_bytes_max: u32 = 16 * KIB,
        "http.head_bytes_max", bytes(KIB, MIB), Reload;
    /// Time from the start of a connection to the end of its first request head. Then the node
    /// closes the connection.
    handshake_timeout_ms: u32 = 10_000,
        "http.handshake_timeout", milliseconds(100, 600_000), Reload;
    /// Time without a request after which the node closes a connection.
    keep_alive_timeout_ms: u32 = 75_000,
        "http.keep_alive_timeout", milliseconds(100, DAY_S * 1_000), Reload;
    /// The longest long poll; it limits `wait`.
    wait_max_ms: u32 = 60_000,
        "http.wait_max", milliseconds(0, 600_000), Reload;
    /// Interval of comments on a quiet event stream, which keep proxies from closing it.
    heartbeat_interval_s: u32 = 15,
        "http.heartbeat_interval", seconds(1, 3_600), Reload;
    /// HTTP requests of one connection in a second, with a burst of the same number; more get 429.
    /// Auto: no limit.
    requests_rate_max: u32 = 0,
        "http.requests_rate_max", count(1, MANY).or_auto(0), Reload;
    /// Bytes of one native frame or WebSocket message from a client; a longer one closes its
    /// connection (1009).
    frame_bytes_max: u32 = 2 * MIB,
        "websocket.frame_bytes_max", bytes(KIB, GIB), Reload;
    /// Bytes of one message to /echo; a longer one closes its connection (1009).
    echo_bytes_max: u32 = 16 * MIB,
        "websocket.echo_bytes_max", bytes(KIB, GIB), Reload;
    /// Interval of pings to a quiet connection, unless its client negotiates another. 0s: no pings.
    ping_interval_s: u32 = 60,
        "websocket.ping_interval", seconds(0, DAY_S), Reload;
    /// Pings of one client in a second, with a burst of the same number; one more closes its
    /// connection (3509). Auto: no limit.
    ping_rate_max: u32 = 0,
        "websocket.ping_rate_max", count(1, MANY).or_auto(0), Reload;
    /// Connections of one I/O thread; more get 503. Auto: as many as descriptors allow.
    connections_max: u32 = UNBOUNDED,
        "limits.connections_max", count(1, MANY).or_auto(UNBOUNDED), Restart;
    /// Topics known to one home shard; a publish or subscribe that needs one more is refused.
    topics_max: u32 = 50_000_000,
        "limits.topics_max", count(1, 1_000_000_000), Reload;
    /// Filters with wildcards known to one shard; more are refused.
    filters_per_shard_max: u32 = 100_000,
        "limits.filters_per_shard_max", count(1, 10_000_000), Reload;
    /// Filters with wildcards of one user in a shard, if clients present tokens; more are refused
    /// (too_many_filters). A filter counts for the user who subscribed to it first, until its last
    /// subscription ends. All clients without a credential are one user.
    filters_per_user_max: u32 = 25_000,
        "limits.filters_per_user_max", count(1, 10_000_000), Reload;
    /// Levels of a filter with wildcards; a deeper one is refused.
    filter_levels_max: u32 = 32,
        "limits.filter_levels_max", count(1, 128), Reload;
    /// Subscriptions of one connection; more are refused.
    subscriptions_per_session_max: u32 = 10_000,
        "limits.subscriptions_per_session_max", count(1, 10_000_000), Reload;
    /// Subscriptions of one connection to filters with wildcards; more are refused.
    filters_per_session_max: u32 = 10_000,
        "limits.filters_per_session_max", count(1, 10_000_000), Reload;
    /// Subscriptions that one session begins in a second, with a burst of the same number and
    /// subscriptions_per_session_max more; further ones are refused (rate_limited). Auto: no limit.
    subscribe_rate_max: u32 = 1_000,
        "limits.subscribe_rate_max", count(1, MANY).or_auto(0), Reload;
    /// Messages that one connection publishes in a second, with a burst of the same number; more
    /// are refused (rate_limited, 429). Auto: no limit.
    publish_rate_max: u32 = 0,
        "limits.publish_rate_max", count(1, MANY).or_auto(0), Reload;
    /// Payload bytes that one connection publishes in a second. A larger request, up to
    /// limits.request_bytes_max, is accepted if the connection has not published for a while. Auto:
    /// no limit.
    publish_bytes_rate_max: u64 = 0,
        "limits.publish_bytes_rate_max", bytes(KIB, 64 << 30).or_auto(0), Reload;
    /// Refusals of one connection in a minute for its own faults; one more closes it (3509). Auto:
    /// no limit.
    errors_max: u32 = 10_000,
        "limits.errors_max", count(1, MANY).or_auto(0), Reload;
    /// Payload bytes of one message; a longer one is refused. A rule may set a lower limit.
    message_bytes_max: u32 = MIB,
        "limits.message_bytes_max", bytes(1, PAYLOAD_BYTES_MAX as u64), Reload;
    /// Bytes that one POST /publish appends: payload, content type and tags of each message, once
    /// for each of its topics. A larger request is refused as a whole (request_too_large, 413).
    request_bytes_max: u32 = 8 * MIB,
        "limits.request_bytes_max", bytes(KIB, GIB), Reload;
    /// Messages that wait for one blocked connection. Beyond that its subscriptions lag, and read
    /// from the log once the socket has drained.
    outbox_len_max: u32 = 256,
        "limits.outbox_len_max", count(1, 65_535), Reload;
    /// Bytes of answers and of unfinished frames that one blocked connection holds; beyond that the
    /// node closes it, and its client resumes.
    outbox_bytes_max: u32 = 4 * MIB,
        "limits.outbox_bytes_max", bytes(4 * KIB, GIB), Reload;
    /// Bytes of answers and of unfinished frames that all blocked connections of one I/O thread
    /// hold. Incomplete input has the same limit of its own: beyond it the node closes the
    /// connection with the most.
    pinned_bytes_max: u64 = 256 * MIB,
        "limits.pinned_bytes_max", bytes(64 * KIB, 64 * GIB), Reload;
    /// The longest WebSocket message before HELLO. With entitlement.mode = "tokens" also the
    /// longest message (1009) and HTTP body (message_too_large, 413) of a client without an
    /// accepted credential. The head of a request has http.head_bytes_max.
    anonymous_input_bytes_max: u32 = 32 * KIB,
        "limits.anonymous_input_bytes_max", bytes(32 * KIB, 256 * MIB), Reload;
    /// Within this time a frame, message, head or body that has begun must be complete, or have
    /// grown by 1 KiB for each second. Otherwise the node closes its connection: 3010, 408.
    /// http.keep_alive_timeout limits a whole HTTP request, too.
    unfinished_input_timeout_ms: u32 = 30_000,
        "limits.unfinished_input_timeout", milliseconds(1_000, 600_000), Reload;
    /// Bytes of recent frames that one I/O thread keeps for slow connections.
    ring_bytes: u32 = 4 * MIB,
        "limits.ring_bytes", bytes(64 * KIB, 2 * GIB), Restart;
    /// Requests without an answer from one I/O thread to one home shard. Beyond that the node stops
    /// reading the connections concerned.
    requests_inflight_max: u32 = 4_096,
        "limits.requests_inflight_max", count(16, 1 << 20), Reload;
    /// Disk stall timeout: a log on disk that makes no progress in this time refuses requests for
    /// its disk until it continues.
    log_stall_timeout_ms: u32 = 10_000,
        "limits.log_stall_timeout", milliseconds(100, 3_600_000), Reload;
    /// Bytes of live messages in flight from one home shard to one I/O thread. Beyond that the home
    /// shard reads the log later instead.
    stream_credit_bytes: u32 = 8 * MIB,
        "limits.stream_credit_bytes", bytes(64 * KIB, 2 * GIB), Reload;
    /// Frames of one connection that the node processes before it serves the next connection.
    turn_frames_max: u32 = 64,
        "limits.turn_frames_max", count(1, 65_536), Reload;
    /// Bytes of one page of history or replay. One message always fits.
    page_bytes: u32 = 64 * KIB,
        "limits.page_bytes", bytes(KIB, 64 * MIB), Restart;
    /// Messages of one page of history or replay.
    page_records_max: u32 = 256,
        "limits.page_records_max", count(1, 65_536), Reload;
    /// Bytes of the log that one page of a replay of a filter examines.
    scan_bytes_max: u32 = 256 * KIB,
        "limits.scan_bytes_max", bytes(KIB, 64 * MIB), Reload;
    /// Idempotency keys that one home shard remembers, 48 bytes each; beyond that it forgets the
    /// oldest key, and a repetition of that message is appended again.
    idempotency_keys_max: u32 = 1_000_000,
        "limits.idempotency_keys_max", count(0, 1 << 30), Restart;
    /// The longest time that a home shard remembers an idempotency key.
    idempotency_window_ms: u32 = 300_000,
        "limits.idempotency_window", milliseconds(1_000, 7 * DAY_S * 1_000), Restart;
    /// Producers that one home shard remembers, each counted for every partition that it publishes
    /// to. A new producer replaces one without a message in the log; if all have messages, the new
    /// one is refused.
    producers_max: u32 = 100_000,
        "limits.producers_max", count(1, 100_000_000), Restart;
    /// The newest messages of a producer whose repetition is recognised. At least the number of
    /// messages that a client sends without an answer.
    producer_window_max: u32 = 4_096,
        "limits.producer_window_max", count(1, 1 << 20), Restart;
    /// The newest messages of all producers of one home shard, 20 to 80 bytes each. Beyond that the
    /// longest idle producer loses its oldest ones, down to its last: their repetition is refused
    /// (out_of_order).
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
