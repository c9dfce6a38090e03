//! Options of the node itself.

use super::spec::{DAY_S, count_or_auto, options, seconds, text};
use crate::configuration::value::Kind;
use std::path::PathBuf;
use std::time::Duration;

options! {
    /// The node: its name, threads and shutdown.
    section "node": Node;

    /// The node's name, as clients and operators see it.
    name: String = "crore", text(64), Restart;
    /// I/O threads. Auto: one for each core that the process may use, which is best. More are
    /// allowed; with private descriptor tables each adds its own descriptor limit.
    io_threads: Option<u16> = "auto", count_or_auto(1, 1_024), Restart;
    /// Number of I/O threads that also order and store topics. Auto: the cores, at most the I/O
    /// threads.
    home_shards_count: Option<u16> = "auto", count_or_auto(1, 1_024), Restart;
    /// Give each I/O thread a descriptor table of its own. If the system refuses, all threads share
    /// one, and the node logs it at the start.
    private_tables: bool = "true", Kind::Boolean, Restart;
    /// Hold connections beyond the descriptor limit in io_uring instances, up to a million more for
    /// each I/O thread. If the system refuses (Linux before 6.8, many containers), the descriptor
    /// limit holds.
    registered_sockets: bool = "true", Kind::Boolean, Restart;
    /// The directory of logs on disk; each log has a directory in it, with the name of the log.
    /// Required for logs on disk.
    data_dir: Option<PathBuf> = example "/var/lib/crore", text(4_096), Restart;
    /// A node that starts as root becomes this user first of all; a name or a number. Until it
    /// listens it keeps only the right to bind low ports. This user must be able to read the files
    /// of logs and TLS.
    user: Option<String> = example "crore", text(64), Restart;
    /// The group for node.user. Not given: the primary group of that user.
    group: Option<String> = example "crore", text(64), Restart;
    /// Let the system write a core dump if the node crashes. It contains keys, tokens and messages.
    core_dumps: bool = "false", Kind::Boolean, Restart;
    /// Time at the start of a drain in which the node reports not-ready and serves as before, so
    /// that load balancers stop sending new clients.
    drain_delay: Duration = "0s", seconds(0, DAY_S), Reload;
    /// The address by which clients reach this node. In a cluster, a drain of another node sends
    /// clients to it. Not given: none are sent here.
    address: Option<String> = example "wss://n1.example.com", Kind::Url, Reload;
    /// Addresses of other nodes. A drain spreads its clients evenly over them. Without any, clients
    /// return to this node. In a cluster, the living nodes with node.address count instead.
    other_addresses: Vec<String> = "", Kind::Urls, Reload;
    /// Time over which a drain asks the clients to reconnect. The node ends when all clients have
    /// left, at the latest after this time. 0s: the node does not ask.
    drain_window: Duration = "5s", seconds(0, DAY_S), Reload;
}
