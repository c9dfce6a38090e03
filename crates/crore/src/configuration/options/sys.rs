//! Options of the section `[sys]`.

use super::spec::{count, options, seconds};
use crate::configuration::value::Kind;
use std::time::Duration;

options! {
    /// Topics of the node itself, $sys/...: ordinary topics with history and positions, to which
    /// only the node publishes. To subscribe, a client with a token needs a filter that names $sys;
    /// a filter that begins with a wildcard never matches it.
    section "sys": Sys;

    /// Publish statistics of the node on $sys/node/NAME/statistics.
    statistics: bool = "false", Kind::Boolean, Reload;
    /// Interval of these statistics, and of those that Mosquitto has.
    interval: Duration = "10s", seconds(1, 3_600), Reload;
    /// Publish the begin and end of sessions on $sys/clients/connected and
    /// $sys/clients/disconnected. Each connection takes 32 bytes more.
    clients: bool = "false", Kind::Boolean, Reload;
    /// Publish topics that get their first subscriber by name, or lose their last, on
    /// $sys/topics/occupied and $sys/topics/vacated.
    topics: bool = "false", Kind::Boolean, Reload;
    /// In a cluster: publish nodes that begin to report themselves, and those that stop or fall
    /// silent, on $sys/nodes/joined and $sys/nodes/left. With a rule that places $sys/# in a log of
    /// the engine, each event is there once.
    nodes: bool = "false", Kind::Boolean, Reload;
    /// Publish the figures that Mosquitto has, on $SYS/broker/... as retained messages, for
    /// programs that know them. Without a rule for $SYS/#, they are in the first log that is not in
    /// the engine.
    mosquitto: bool = "false", Kind::Boolean, Reload;
    /// Events of one kind in a second, divided over the I/O threads; the node counts more, and
    /// publishes the count at the end of the second.
    events_rate_max: u32 = "1000", count(1, 100_000), Reload;
    /// With entitlement.mode = "open": let every client subscribe to $sys/... too.
    open: bool = "false", Kind::Boolean, Reload;
}
