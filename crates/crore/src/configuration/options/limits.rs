//! Declarations of the section `[limits]` that are not limits of shards.

use super::{MANY, MIB, OptionSpec, count_or_auto, option, size_or_auto};
use crate::configuration::value::Kind;

/// Bounds of a node, and of each of its shards, sessions and messages.
pub(super) const LIMIT_OPTIONS: &[OptionSpec] = &[
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
];
