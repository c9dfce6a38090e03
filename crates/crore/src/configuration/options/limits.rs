//! Limits of the node, and of addresses and users, that are not limits of shards.

use super::spec::{MANY, MIB, count_or_auto, options, size_or_auto};
use crate::configuration::value::Kind;
use stdx::networks::Networks;

options! {
    /// Limits of a node, and of each of its shards, sessions and messages.
    section "limits": NodeLimits;

    /// New connections of the node in a second, with a burst of the same number, divided over the
    /// I/O threads. More wait in the kernel's queue (listen.backlog). Auto: no limit.
    connect_rate_max: Option<u32> = "auto", count_or_auto(1, MANY), Restart;
    /// Connections of one IPv4 address, or of one IPv6 network of 64 bits; 16 times as many for one
    /// of 48 bits. More get 429. Auto: no limit.
    connections_per_address_max: Option<u32> = "auto", count_or_auto(1, MANY), Restart;
    /// New connections of such an address in a second, with a burst of the same number; more get
    /// 429. Auto: no limit.
    connect_rate_per_address_max: Option<u32> = "auto", count_or_auto(1, MANY), Restart;
    /// Addresses without these two limits, such as a company's one address. Trusted proxies are
    /// exempt, too.
    addresses_exempt: Networks = "", Kind::Networks, Restart;
    /// Connections of one user, by the `sub` of the newest token of each; a token may set a lower
    /// limit (limits.connections). More are refused: too_many_connections, 429. Clients with an API
    /// key or without a token are not limited. Auto: only the limit of tokens.
    connections_per_user_max: Option<u32> = "auto", count_or_auto(1, MANY), Restart;
    /// Memory ceiling of the process: from 90 % of it recoveries wait, from 95 % new clients are
    /// refused, from 100 % publications are refused. Auto: 90 % of the limit of its cgroup, or of
    /// the machine.
    memory_bytes_max: Option<u64> = "auto", size_or_auto(16 * MIB, 64 << 40), Restart;
}
