//! Declarations of the section `[sys]`.

use super::{OptionSpec, count, live, seconds};
use crate::configuration::value::Kind;

/// The section, with its sentence.
pub(super) const SECTION: (&str, &str) = (
    "sys",
    "Topics of the node's own, $sys/...: ordinary topics with history and positions, to which nobody else publishes. Who shows a token needs a filter that names $sys to subscribe; a filter that begins with a wildcard never covers it.",
);

/// What is published there.
pub(super) const SYS_OPTIONS: &[OptionSpec] = &[
    live(
        "sys.statistics",
        Kind::Boolean,
        "false",
        "Publish figures of the node on $sys/node/NAME/statistics.",
    ),
    live("sys.interval", seconds(1, 3_600), "10s", "How often these figures are published."),
    live(
        "sys.clients",
        Kind::Boolean,
        "false",
        "Publish sessions that begin and end on $sys/clients/connected and $sys/clients/disconnected. Each connection takes 32 bytes more.",
    ),
    live(
        "sys.topics",
        Kind::Boolean,
        "false",
        "Publish topics that get their first subscriber by their name, or lose their last, on $sys/topics/occupied and $sys/topics/vacated.",
    ),
    live(
        "sys.events_rate_max",
        count(1, 100_000),
        "1000",
        "Events of one kind in a second, each I/O thread its share; further ones are counted, and the count is published when the second is over.",
    ),
    live(
        "sys.open",
        Kind::Boolean,
        "false",
        "With entitlement.mode = \"open\": whoever can connect may subscribe to $sys/... too.",
    ),
];
