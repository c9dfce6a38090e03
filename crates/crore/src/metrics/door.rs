//! Families of refusals that several counters make: at the door, at a limit of a connection, and
//! without memory.

use super::families::Families;
use broker::edge::TurnedAway;
use node::DoorStatistics;

/// Families of refusals; all zero without limits.
pub fn write(families: &mut Families, door: &DoorStatistics, turned_away: &TurnedAway) {
    let admission = &door.admission;
    families.counters(
        "crore_connections_turned_away_total",
        "Refused connections by limit: connections or rate of their listener or address, or memory.",
        "limit",
        &[
            ("listener_connections", admission.entrance_connections),
            ("listener_rate", admission.entrance_rate),
            ("address_connections", admission.address_connections),
            ("address_rate", admission.address_rate),
            ("memory", door.without_memory),
        ],
    );
    families.counters(
        "crore_limit_refusals_total",
        "Refusals because of a rate or a maximum, by limit: publications, HTTP requests, subscriptions, filters, filters of a user, connections of a user, clients behind proxies.",
        "limit",
        &[
            ("publish_rate", turned_away.publishes_too_fast),
            ("requests_rate", turned_away.requests_too_fast),
            ("subscriptions_per_session", turned_away.subscriptions_too_many),
            ("filters_per_session", turned_away.filters_too_many),
            ("subscribe_rate", turned_away.subscriptions_too_fast),
            ("filters_of_user", turned_away.filters_of_user),
            ("user_connections", door.users.refused),
            ("clients_of_proxies", turned_away.clients_refused),
        ],
    );
    families.counters(
        "crore_connections_flooding_total",
        "Connections closed because of too many pings, or too many refused requests.",
        "reason",
        &[("pings", turned_away.ping_floods), ("errors", turned_away.error_floods)],
    );
    let proxied = &door.proxied;
    families.counters(
        "crore_proxy_headers_total",
        "Connections to listeners for proxies, by result of their PROXY header: accepted, from an untrusted peer, malformed, late, or the peer had closed the connection.",
        "result",
        &[
            ("taken", proxied.headers),
            ("refused", proxied.refused),
            ("malformed", proxied.malformed),
            ("late", proxied.late),
            ("gone", proxied.gone),
        ],
    );
    write_memory(families, door, turned_away);
}

fn write_memory(families: &mut Families, door: &DoorStatistics, turned_away: &TurnedAway) {
    families.gauge(
        "crore_memory_pressure",
        "Memory pressure: 0 none, 1 recoveries wait, 2 new connections and subscriptions are refused, 3 publications are refused.",
        door.pressure,
    );
    families.counters(
        "crore_memory_refusals_total",
        "Refusals because of too little memory.",
        "what",
        &[
            ("histories", turned_away.histories_without_memory),
            ("connections", door.without_memory),
            ("subscriptions", turned_away.subscriptions_without_memory),
            ("publishes", turned_away.publishes_without_memory),
        ],
    );
}
