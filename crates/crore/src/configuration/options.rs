//! Every option, declared once. The file `crore.toml`, `crore config doc`, the environment's names,
//! `--set` and validation all come from these tables, and from the limits of shards, which
//! `broker::limits` declares.
//!
//! Bounds here are those of one option; relations between options are in `relations.rs`.

pub mod entitlement;
mod limits;
mod metrics;
mod operators;
pub mod spec;
mod sys;
mod tables;

pub use tables::{LOG_OPTIONS, RULE_OPTIONS};

use super::value::Kind;
pub use broker::limits::Apply;
use broker::limits::LIMITS;
use entitlement::ENTITLEMENT_OPTIONS;
use limits::LIMIT_OPTIONS;
use metrics::METRICS_OPTIONS;
use operators::OPERATORS_OPTIONS;
use spec::{DAY_S, KIB, MANY, MIB, count, count_or_auto, live, option, seconds, size};
pub use spec::{OptionSpec, milliseconds_of};
use std::sync::LazyLock;
use sys::SYS_OPTIONS;

/// The sections, in the order of the file, with a sentence for each.
pub const SECTIONS: &[(&str, &str)] = &[
    ("node", "The node: its name, threads and shutdown."),
    ("listen", "Addresses, and settings of the kernel for each connection."),
    (
        "tls",
        "TLS for clients, beside the plain addresses. On when a certificate is given. A reload reads certificate and key again.",
    ),
    operators::SECTION,
    ("logging", "Log lines on standard output. They never contain payloads."),
    ("http", "HTTP/1.1, and everything before a connection is upgraded."),
    ("websocket", "WebSocket: the native protocol and the echo."),
    (
        "tickets",
        "Resume tickets of the native protocol. Nodes with the same keys accept each other's tickets.",
    ),
    (
        "metrics",
        "Metrics that the node pushes. Prometheus can always scrape them at /metrics of the operators' port.",
    ),
    ("limits", "Limits of a node, and of each of its shards, sessions and messages."),
    entitlement::SECTION,
    sys::SECTION,
];

/// Options that stand once, section by section; those of limits first.
pub static OPTIONS: LazyLock<Vec<OptionSpec>> = LazyLock::new(|| {
    let own = [
        NODE_OPTIONS,
        OPERATORS_OPTIONS,
        SERVING_OPTIONS,
        METRICS_OPTIONS,
        LIMIT_OPTIONS,
        ENTITLEMENT_OPTIONS,
        SYS_OPTIONS,
    ];
    let limits = LIMITS.iter().map(OptionSpec::of_limit);
    let mut all: Vec<OptionSpec> = limits.chain(own.concat()).collect();
    all.sort_by_key(|spec| {
        let section = spec.key.split_once('.').map(|(section, _)| section);
        SECTIONS.iter().position(|(name, _)| Some(*name) == section)
    });
    all
});

const NODE_OPTIONS: &[OptionSpec] = &[
    option(
        "node.name",
        Kind::Text { bytes_max: 64 },
        "crore",
        "The node's name, as clients and operators see it.",
    ),
    option(
        "node.io_threads",
        count_or_auto(1, 1_024),
        "auto",
        "I/O threads. Auto: one for each core that the process may use, which is best. More are allowed; with private descriptor tables each adds its own descriptor limit.",
    ),
    option(
        "node.home_shards_count",
        count_or_auto(1, 1_024),
        "auto",
        "Number of I/O threads that also order and store topics. Auto: the cores, at most the I/O threads.",
    ),
    option(
        "node.private_tables",
        Kind::Boolean,
        "true",
        "Give each I/O thread a descriptor table of its own. If the system refuses, all threads share one, and the node logs it at the start.",
    ),
    option(
        "node.registered_sockets",
        Kind::Boolean,
        "true",
        "Hold connections beyond the descriptor limit in io_uring instances, up to a million more for each I/O thread. If the system refuses (Linux before 6.8, many containers), the descriptor limit holds.",
    ),
    option(
        "node.data_dir",
        Kind::Text { bytes_max: 4_096 },
        "",
        "The directory of logs on disk; each log has a directory in it, with the name of the log. Required for logs on disk.",
    ),
    option(
        "node.user",
        Kind::Text { bytes_max: 64 },
        "",
        "A node that starts as root becomes this user first of all; a name or a number. Until it listens it keeps only the right to bind low ports. This user must be able to read the files of logs and TLS.",
    ),
    option(
        "node.group",
        Kind::Text { bytes_max: 64 },
        "",
        "The group for node.user. Not given: the primary group of that user.",
    ),
    option(
        "node.core_dumps",
        Kind::Boolean,
        "false",
        "Let the system write a core dump if the node crashes. It contains keys, tokens and messages.",
    ),
    live(
        "node.drain_delay",
        seconds(0, DAY_S),
        "0s",
        "Time at the start of a drain in which the node reports not-ready and serves as before, so that load balancers stop sending new clients.",
    ),
    live(
        "node.other_addresses",
        Kind::Urls,
        "",
        "Addresses of other nodes. A drain spreads its clients evenly over them. Without any, clients return to this node.",
    ),
    live(
        "node.drain_window",
        seconds(0, DAY_S),
        "5s",
        "Time over which a drain asks the clients to reconnect. The node ends when all clients have left, at the latest after this time. 0s: the node does not ask.",
    ),
    option(
        "listen.clients",
        Kind::Addresses,
        "127.0.0.1:8800",
        "Addresses for clients. An address beyond loopback needs entitlement.mode = \"tokens\", or listen.open.",
    ),
    option(
        "listen.open",
        Kind::Boolean,
        "false",
        "Serve every client that can reach the node, even with authentication off (entitlement.mode = \"open\"): every client can then publish and read everything. If listen.clients is not given, it becomes 0.0.0.0:8800.",
    ),
    option(
        "listen.operators",
        Kind::Addresses,
        "127.0.0.1:8801",
        "Addresses of health, metrics and the live page. An empty list serves none.",
    ),
    option(
        "listen.backlog",
        count(1, 1 << 20),
        "4096",
        "Connections that the kernel queues for each I/O thread. The kernel limits it to net.core.somaxconn.",
    ),
    option(
        "listen.socket_send_bytes",
        size(4 * KIB, 16 * MIB),
        "32KiB",
        "The kernel's send buffer for each connection. Without this limit the kernel keeps megabytes for every client that does not read.",
    ),
    option(
        "listen.proxy_protocol",
        Kind::Choice(&["off", "required"]),
        "off",
        "Required: connections to listen.clients come from proxies (listen.proxies) and begin with a header of the PROXY protocol, version 1 or 2, with the client's address. The node closes others.",
    ),
    option(
        "listen.proxies",
        Kind::Networks,
        "",
        "Addresses of proxies that may send a PROXY header, to listen.clients and tls.listen.",
    ),
    option(
        "listen.connections_max",
        count_or_auto(1, MANY),
        "auto",
        "Connections of listen.clients together; more get 503. Auto: no separate limit.",
    ),
    option(
        "listen.connect_rate_max",
        count_or_auto(1, MANY),
        "auto",
        "New connections of listen.clients in a second, with a burst of the same number; more get 429. Auto: no limit.",
    ),
    option(
        "tls.listen",
        Kind::Addresses,
        "127.0.0.1:8843",
        "Addresses for clients with TLS (https, wss). An address beyond loopback needs entitlement.mode = \"tokens\", or listen.open, which makes it 0.0.0.0:8843 if it is not given.",
    ),
    option(
        "tls.certificate_file",
        Kind::Text { bytes_max: 4_096 },
        "",
        "The certificate in PEM, followed by its intermediate certificates. `crore tls self-signed` generates one for tests.",
    ),
    option(
        "tls.key_file",
        Kind::Text { bytes_max: 4_096 },
        "",
        "The certificate's private key in PEM, without a passphrase.",
    ),
    option(
        "tls.version_min",
        Kind::Choice(&["1.2", "1.3"]),
        "1.2",
        "The oldest version of TLS that the node accepts.",
    ),
    option(
        "tls.proxy_protocol",
        Kind::Choice(&["off", "required"]),
        "off",
        "Like listen.proxy_protocol, for tls.listen; the header comes before TLS.",
    ),
    option(
        "tls.connections_max",
        count_or_auto(1, MANY),
        "auto",
        "Connections of tls.listen together; the node closes more. Auto: no separate limit.",
    ),
    option(
        "tls.connect_rate_max",
        count_or_auto(1, MANY),
        "auto",
        "New connections of tls.listen in a second, with a burst of the same number; the node closes more. Auto: no limit.",
    ),
];

const SERVING_OPTIONS: &[OptionSpec] = &[
    option("logging.format", Kind::Choice(&["text", "json"]), "text", "Format of log lines."),
    live(
        "logging.level",
        Kind::Choice(&["error", "warn", "info", "debug"]),
        "info",
        "The least severe level that the node writes.",
    ),
    live(
        "logging.levels",
        Kind::Words,
        "",
        "Levels of single targets, such as [\"access=info\", \"tls=debug\"]; off writes nothing. Targets: node, configuration, operators, entitlement, tls, tickets, limits, log, logging; and access (begin and end of sessions, HTTP requests) and audit (permitted actions, info, and refused ones, warn), which are off unless named here. Operators can change them until the next reload.",
    ),
    live(
        "logging.access_rate_max",
        count(1, 100_000),
        "1000",
        "Access lines in a second, divided over the I/O threads; the node logs the count of the others at the end of the second.",
    ),
    live(
        "logging.audit_rate_max",
        count(1, 100_000),
        "1000",
        "Audit lines in a second, divided over the I/O threads; the node logs the count of the others at the end of the second.",
    ),
    live(
        "http.allowed_origins",
        Kind::Origins,
        "",
        "Origins of web pages that may use the node, beside its own pages. [\"*\"] allows all.",
    ),
    live(
        "http.trusted_proxies",
        Kind::Networks,
        "",
        "Addresses of trusted proxies. A request from one of them counts for the client in http.forwarded_field: the rightmost address in it that does not belong to a trusted proxy.",
    ),
    live(
        "http.forwarded_field",
        Kind::Choice(&["x-forwarded-for", "forwarded"]),
        "x-forwarded-for",
        "The field in which trusted proxies give the client's address: X-Forwarded-For, or Forwarded (RFC 7239). Clients may write anything into the other one.",
    ),
    live(
        "websocket.compression",
        Kind::Boolean,
        "false",
        "Compress messages for clients that offer permessage-deflate, and accept compressed ones. A message is compressed once for all its receivers of an I/O thread; no connection has a compressor. Once in use it takes about 330 KiB for each I/O thread, twice that with large messages.",
    ),
    live(
        "websocket.compression_bytes_min",
        size(16, MIB),
        "256B",
        "Shorter messages are sent uncompressed.",
    ),
    live("websocket.compression_level", count(1, 9), "1", "From 1, fast, to 9, small."),
    live(
        "tickets.keys",
        Kind::Keys,
        "",
        "Keys of tickets: the first signs, all are accepted. To change the key, put a new one first, and remove the old one when its tickets have expired. Not given: the node keeps its own keys in ticket.keys in node.data_dir; without a data directory, each start generates a random key.",
    ),
    option(
        "tickets.key_age_max",
        seconds(1, 3_650 * DAY_S),
        "30d",
        "Age of the newest key in ticket.keys at which a start adds a new one.",
    ),
    live("tickets.lifetime", seconds(1, 365 * DAY_S), "1d", "Lifetime of a ticket."),
    live(
        "tickets.revoked_before",
        Kind::Moment,
        "0",
        "Tickets that were issued before this moment are refused.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_sound() {
        let mut keys = Vec::new();
        for spec in OPTIONS.iter() {
            let (section, _) = spec.key.split_once('.').expect("a section");
            assert!(SECTIONS.iter().any(|(name, _)| *name == section), "{}", spec.key);
            let has_default = spec.default_value().is_some();
            let needs_none = [
                "metrics.push_to",
                "node.data_dir",
                "node.group",
                "node.user",
                "operators.socket_group",
                "tls.certificate_file",
                "tls.key_file",
            ];
            assert!(
                has_default
                    || needs_none.contains(&spec.key)
                    || entitlement::WITHOUT_DEFAULT.contains(&spec.key),
                "{}",
                spec.key
            );
            keys.push(spec.key);
        }
        let of_tables = entitlement::TABLES.iter().flat_map(|table| table.2);
        let listed = OPTIONS.iter().chain(LOG_OPTIONS).chain(RULE_OPTIONS);
        for spec in listed.chain(of_tables) {
            spec.default_value();
            assert!(spec.help.ends_with('.') && !spec.help.contains('\n'), "{}", spec.key);
        }
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
        // The file shows sections as blocks.
        let order: Vec<&str> =
            OPTIONS.iter().map(|spec| spec.key.split_once('.').unwrap().0).collect();
        let mut blocks = order;
        blocks.dedup();
        assert_eq!(blocks, SECTIONS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }
}
