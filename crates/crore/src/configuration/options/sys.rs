//! Declarations of the section `[sys]`.

use super::spec::{OptionSpec, count, live, seconds};
use crate::configuration::value::Kind;

/// The section, with its sentence.
pub(super) const SECTION: (&str, &str) = (
    "sys",
    "Topics of the node itself, $sys/...: ordinary topics with history and positions, to which only the node publishes. To subscribe, a client with a token needs a filter that names $sys; a filter that begins with a wildcard never matches it.",
);

/// Options of the section.
pub(super) const SYS_OPTIONS: &[OptionSpec] = &[
    live(
        "sys.statistics",
        Kind::Boolean,
        "false",
        "Publish statistics of the node on $sys/node/NAME/statistics.",
    ),
    live("sys.interval", seconds(1, 3_600), "10s", "Interval of these statistics."),
    live(
        "sys.clients",
        Kind::Boolean,
        "false",
        "Publish the begin and end of sessions on $sys/clients/connected and $sys/clients/disconnected. Each connection takes 32 bytes more.",
    ),
    live(
        "sys.topics",
        Kind::Boolean,
        "false",
        "Publish topics that get their first subscriber by name, or lose their last, on $sys/topics/occupied and $sys/topics/vacated.",
    ),
    live(
        "sys.events_rate_max",
        count(1, 100_000),
        "1000",
        "Events of one kind in a second, divided over the I/O threads; the node counts more, and publishes the count at the end of the second.",
    ),
    live(
        "sys.open",
        Kind::Boolean,
        "false",
        "With entitlement.mode = \"open\": let every client subscribe to $sys/... too.",
    ),
];
