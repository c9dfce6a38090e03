//! Options of log lines, HTTP, WebSocket and tickets.

use super::spec::{DAY_S, MIB, count, options, seconds, size};
use super::typed::{UnixMs, choice, choices};
use crate::configuration::value::Kind;
use crate::logging::{Format, Level};
use broker::settings::{ForwardedField, TicketKey};
use std::time::Duration;
use stdx::networks::Networks;

options! {
    /// Log lines on standard output. They never contain payloads.
    section "logging": Logging;

    /// Format of log lines.
    format: Format = "text", choice::<Format>(), Restart;
    /// The least severe level that the node writes.
    level: Level = "info", choice::<Level>(), Reload;
    /// Levels of single targets, such as ["access=info", "tls=debug"]; off writes nothing. Targets:
    /// node, configuration, operators, entitlement, tls, tickets, limits, log, logging; and access
    /// (begin and end of sessions, HTTP requests) and audit (permitted actions, info, and refused
    /// ones, warn), which are off unless named here. Operators can change them until the next
    /// reload.
    levels: Vec<String> = "", Kind::Words, Reload;
    /// Access lines in a second, divided over the I/O threads; the node logs the count of the
    /// others at the end of the second.
    access_rate_max: u32 = "1000", count(1, 100_000), Reload;
    /// Audit lines in a second, divided over the I/O threads; the node logs the count of the others
    /// at the end of the second.
    audit_rate_max: u32 = "1000", count(1, 100_000), Reload;
}

options! {
    /// HTTP/1.1, and everything before a connection is upgraded.
    section "http": Http;

    /// Origins of web pages that may use the node, beside its own pages. ["*"] allows all.
    allowed_origins: Vec<String> = "", Kind::Origins, Reload;
    /// Addresses of trusted proxies. A request from one of them counts for the client in
    /// http.forwarded_field: the rightmost address in it that does not belong to a trusted proxy.
    trusted_proxies: Networks = "", Kind::Networks, Reload;
    /// The field in which trusted proxies give the client's address: X-Forwarded-For, or Forwarded
    /// (RFC 7239). Clients may write anything into the other one.
    forwarded_field: ForwardedField = "x-forwarded-for", choice::<ForwardedField>(), Reload;
}

options! {
    /// WebSocket: the native protocol and the echo.
    section "websocket": WebSocket;

    /// Compress messages for clients that offer permessage-deflate, and accept compressed ones. A
    /// message is compressed once for all its receivers of an I/O thread; no connection has a
    /// compressor. Once in use it takes about 330 KiB for each I/O thread, twice that with large
    /// messages.
    compression: bool = "false", Kind::Boolean, Reload;
    /// Shorter messages are sent uncompressed.
    compression_bytes_min: u32 = "256B", size(16, MIB), Reload;
    /// From 1, fast, to 9, small.
    compression_level: u8 = "1", count(1, 9), Reload;
}

options! {
    /// Resume tickets of the native protocol. Nodes with the same keys accept each other's tickets.
    section "tickets": Tickets;

    /// Keys of tickets: the first signs, all are accepted. To change the key, put a new one first,
    /// and remove the old one when its tickets have expired. Not given: the node keeps its own keys
    /// in ticket.keys in node.data_dir; without a data directory, each start generates a random
    /// key.
    keys: Vec<TicketKey> = "", Kind::Keys, Reload;
    /// Age of the newest key in ticket.keys at which a start adds a new one.
    key_age_max: Duration = "30d", seconds(1, 3_650 * DAY_S), Restart;
    /// Lifetime of a ticket.
    lifetime: Duration = "1d", seconds(1, 365 * DAY_S), Reload;
    /// Tickets that were issued before this moment are refused. In a cluster, the latest moment of
    /// any node counts for all, and for good.
    revoked_before: UnixMs = "0", Kind::Moment, Reload;
}

choices! { Format: Text = "text", Json = "json" }
choices! { Level: Error = "error", Warn = "warn", Info = "info", Debug = "debug" }
choices! { ForwardedField: XForwardedFor = "x-forwarded-for", Forwarded = "forwarded" }
