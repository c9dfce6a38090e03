//! Declarations of the section `[limits]` that are not limits of shards.

use super::spec::{MANY, MIB, OptionSpec, count_or_auto, option, size_or_auto};
use crate::configuration::value::Kind;

/// Limits of the node, and of addresses and users.
pub(super) const LIMIT_OPTIONS: &[OptionSpec] = &[
    option(
        "limits.connect_rate_max",
        count_or_auto(1, MANY),
        "auto",
        "New connections of the node in a second, with a burst of the same number, divided over the I/O threads. More wait in the kernel's queue (listen.backlog). Auto: no limit.",
    ),
    option(
        "limits.connections_per_address_max",
        count_or_auto(1, MANY),
        "auto",
        "Connections of one IPv4 address, or of one IPv6 network of 64 bits; 16 times as many for one of 48 bits. More get 429. Auto: no limit.",
    ),
    option(
        "limits.connect_rate_per_address_max",
        count_or_auto(1, MANY),
        "auto",
        "New connections of such an address in a second, with a burst of the same number; more get 429. Auto: no limit.",
    ),
    option(
        "limits.addresses_exempt",
        Kind::Networks,
        "",
        "Addresses without these two limits, such as a company's one address. Trusted proxies are exempt, too.",
    ),
    option(
        "limits.connections_per_user_max",
        count_or_auto(1, MANY),
        "auto",
        "Connections of one user, by the `sub` of the newest token of each; a token may set a lower limit (limits.connections). More are refused: too_many_connections, 429. Clients with an API key or without a token are not limited. Auto: only the limit of tokens.",
    ),
    option(
        "limits.memory_bytes_max",
        size_or_auto(16 * MIB, 64 << 40),
        "auto",
        "Memory ceiling of the process: from 90 % of it recoveries wait, from 95 % new clients are refused, from 100 % publications are refused. Auto: 90 % of the limit of its cgroup, or of the machine.",
    ),
];
