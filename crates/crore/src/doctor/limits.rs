//! Limits of the number of connections: descriptors, files, watches, memory, socket buffers,
//! tracked connections. Pure: a machine and a load in, findings out.

use super::finding::{Change, Finding, Verdict, bytes, count};
use super::machine::Machine;
use crate::budget::{connection, kernel, own_tcp};
use net::kernel::registered_room_for;

/// The load that the machine is to carry.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Connections that the machine is to hold.
    pub connections: u64,
    /// I/O threads that a node would have.
    pub io_threads: u64,
    /// The network of the connections.
    pub network: Network,
}

/// The network of a node's connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Network {
    /// The kernel's sockets.
    Kernel,
    /// The node's own TCP.
    User,
}

/// Descriptors of each table that a node keeps for itself.
const RESERVE: u64 = 64;
/// Files that the rest of the machine may open.
const OTHER_FILES: u64 = 20_000;
/// More I/O threads are not proposed.
const IO_THREADS_MAX: u64 = 1_024;
/// A table's usual size, which an operator may be asked to allow.
const TABLE_MAX: u64 = 1_048_576;
/// The log in memory, by default (`bytes_max`).
const LOGS_BYTES: u64 = 256 << 20;
/// Name of a topic, in bytes, for the reckoning.
const NAME_BYTES: f64 = 16.0;

/// User space and kernel, of an idle connection with a topic of its own.
fn connection_bytes(network: Network) -> f64 {
    let network_bytes = match network {
        Network::Kernel => connection::NETWORK_BYTES + kernel::SOCKET_BYTES,
        Network::User => own_tcp::CONNECTION_BYTES,
    };
    connection::SLOT_BYTES
        + connection::SUBSCRIPTION_BYTES
        + connection::EDGE_TOPIC_BYTES
        + connection::HOME_TOPIC_BYTES
        + connection::NAME_HEAD_BYTES
        + NAME_BYTES
        + connection::UNACCOUNTED_BYTES
        + network_bytes
}

/// The kernel's part of it.
fn kernel_bytes(network: Network) -> f64 {
    match network {
        Network::Kernel => kernel::SOCKET_BYTES,
        Network::User => 0.0,
    }
}

/// Connections that the memory has room for.
pub fn memory_room(machine: &Machine, network: Network) -> Option<u64> {
    let total = machine.memory("MemTotal")?;
    let available = machine.memory("MemAvailable")?.min(total - total / 20);
    let group = machine.group_memory().map_or(u64::MAX, |share| share.left());
    let room = available.min(group).saturating_sub(LOGS_BYTES);
    Some((room as f64 / connection_bytes(network)) as u64)
}

/// All of them.
pub fn findings(machine: &Machine, load: Load) -> Vec<Finding> {
    let all = match load.network {
        Network::Kernel => vec![
            descriptors(machine, load),
            nr_open(machine, load),
            files(machine, load),
            watches(machine, load),
            memory(machine, load),
            socket_memory(machine, load),
            tracked(machine, load),
        ],
        Network::User => vec![user_network(machine, load), memory(machine, load)],
    };
    let rest = [threads(machine, load), mappings(machine, load)];
    all.into_iter().chain(rest).flatten().collect()
}

/// Whether a node could serve an interface by its own TCP, if that was tried.
fn user_network(machine: &Machine, load: Load) -> Option<Finding> {
    let (device, outcome) = machine.user_network()?;
    let max = u64::from(net::user::CONNECTIONS_MAX) * load.io_threads;
    let meaning = "connections need no descriptor and no socket of the kernel";
    let finding = Finding::ok("own TCP", device, meaning).bounds(max, max);
    Some(match outcome {
        Ok(()) => finding,
        Err(reason) => Finding { meaning: reason.to_owned(), ..finding }.but(
            Verdict::Bad,
            "a node with this [user_network] does not start; with fallback = true it uses the kernel's sockets",
        ),
    })
}

/// A round number above the requested one.
fn rounded_up(wanted: u64) -> u64 {
    let unit = 10_u64.pow(wanted.max(1_000).ilog10() - 1);
    wanted.div_ceil(unit) * unit
}

fn descriptors(machine: &Machine, load: Load) -> Option<Finding> {
    let limit = machine.descriptors()?;
    let is_private = !matches!(machine.private_tables(), Some(Err(_)));
    let tables = if is_private { load.io_threads } else { 1 };
    let room = limit.hard.saturating_sub(RESERVE);
    let beside = match machine.registered_sockets() {
        Some(true) => u64::from(registered_room_for(limit.hard)),
        _ => 0,
    };
    let max = room.saturating_mul(tables).saturating_add(beside.saturating_mul(load.io_threads));
    let mut whose = if is_private {
        format!("each of {} I/O threads has a table of its own", load.io_threads)
    } else {
        "all I/O threads share one table, because private tables are refused".into()
    };
    if beside > 0 {
        whose.push_str(", and io_uring holds the others");
    }
    let value = format!("{} soft, {} hard", count(limit.soft), count(limit.hard));
    let meaning = format!("at most {} connections: {whose}", count(max));
    let finding = Finding::ok("open files", value, meaning);
    if max >= load.connections {
        return Some(finding.bounds(max, max));
    }
    let needed = load.connections.div_ceil(tables) + RESERVE;
    let raised = needed.max(TABLE_MAX.min(rounded_up(needed)));
    let mut finding = finding.but(
        Verdict::Limits,
        format!(
            "raise the hard limit: systemd `LimitNOFILE={raised}` in the service, containers `--ulimit nofile={raised}`, \
             logins `* hard nofile {raised}` in /etc/security/limits.conf"
        ),
    );
    let threads = load.connections.div_ceil(room.max(1));
    if is_private && threads <= IO_THREADS_MAX {
        finding.advice.push(format!("or, without root: `crore serve --io-threads {threads}`"));
    }
    Some(finding.bounds(max, (raised - RESERVE) * tables))
}

fn nr_open(machine: &Machine, load: Load) -> Option<Finding> {
    let max = machine.number("fs.nr_open")?;
    let is_private = !matches!(machine.private_tables(), Some(Err(_)));
    let tables = if is_private { load.io_threads } else { 1 };
    let needed = load.connections.div_ceil(tables) + RESERVE;
    let meaning = "upper limit of open files, for each table";
    let finding = Finding::ok("fs.nr_open", count(max), meaning);
    // Whatever a table has no room for may be held beside it.
    if max >= needed || machine.registered_sockets() == Some(true) {
        return Some(finding);
    }
    let room = max.saturating_sub(RESERVE).saturating_mul(tables);
    let change =
        Change { name: "fs.nr_open", from: max.to_string(), to: rounded_up(needed).to_string() };
    let finding = finding.with_change(Verdict::Limits, change);
    Some(finding.bounds(room, load.connections))
}

fn files(machine: &Machine, load: Load) -> Option<Finding> {
    let max = machine.number("fs.file-max")?;
    let used = machine.number("fs.file-nr").unwrap_or(0);
    let room = max.saturating_sub(used).saturating_sub(OTHER_FILES);
    let meaning = format!(
        "at most {} connections: {} files are open on this machine, and {} are reserved for other processes",
        count(room),
        count(used),
        count(OTHER_FILES)
    );
    let finding = Finding::ok("fs.file-max", count(max), meaning);
    if room >= load.connections {
        return Some(finding.bounds(room, room));
    }
    let change = Change {
        name: "fs.file-max",
        from: max.to_string(),
        to: rounded_up(load.connections + used + OTHER_FILES).to_string(),
    };
    let finding = finding.with_change(Verdict::Limits, change);
    Some(finding.bounds(room, load.connections))
}

fn watches(machine: &Machine, load: Load) -> Option<Finding> {
    let max = machine.number("fs.epoll.max_user_watches")?;
    let meaning = format!("at most {} connections: each needs one epoll watch", count(max));
    let finding = Finding::ok("fs.epoll.max_user_watches", count(max), meaning);
    if max >= load.connections {
        return Some(finding.bounds(max, max));
    }
    let change = Change {
        name: "fs.epoll.max_user_watches",
        from: max.to_string(),
        to: rounded_up(load.connections + 1_000).to_string(),
    };
    let finding = finding.with_change(Verdict::Limits, change);
    Some(finding.bounds(max, load.connections))
}

fn memory(machine: &Machine, load: Load) -> Option<Finding> {
    let room = memory_room(machine, load.network)?;
    let mut value = format!(
        "{} of {} available",
        bytes(machine.memory("MemAvailable")?),
        bytes(machine.memory("MemTotal")?)
    );
    if let Some(group) = machine.group_memory() {
        value += &format!("; the cgroup may use {} more", bytes(group.left()));
    }
    let meaning = format!(
        "at most {} connections: {:.0} bytes for each idle one, of which {:.0} in the kernel, and {} for the default log",
        count(room),
        connection_bytes(load.network),
        kernel_bytes(load.network),
        bytes(LOGS_BYTES)
    );
    let mut finding = Finding::ok("memory", value, meaning).bounds(room, room);
    if room < load.connections {
        let needed = load.connections as f64 * connection_bytes(load.network) + LOGS_BYTES as f64;
        let advice = format!(
            "provide {} for {} connections: add memory, raise memory.max if a cgroup limits it, or use another machine",
            bytes(needed as u64),
            count(load.connections)
        );
        finding = finding.but(Verdict::Limits, advice);
    }
    Some(finding)
}

fn socket_memory(machine: &Machine, load: Load) -> Option<Finding> {
    const PAGE_BYTES: f64 = 4_096.0;
    let pages = machine.numbers("net.ipv4.tcp_mem")?;
    let high = *pages.get(2)?;
    let room = (high as f64 * PAGE_BYTES / kernel::INFLIGHT_BYTES) as u64;
    let value = pages.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
    let meaning = format!(
        "at most {} connections with a message in flight at the same time, a page each; beyond {}, the kernel drops packets; idle connections use none",
        count(room),
        bytes(high * PAGE_BYTES as u64)
    );
    let finding = Finding::ok("net.ipv4.tcp_mem", value.clone(), meaning);
    if room >= load.connections {
        return Some(finding.bounds(room, room));
    }
    // Not more than half of the memory: sockets must not take what processes need.
    let half = machine.memory("MemTotal")? / 2 / PAGE_BYTES as u64;
    let wanted = rounded_up(load.connections).min(half).max(high);
    let finding = finding.with_change(
        Verdict::Limits,
        Change {
            name: "net.ipv4.tcp_mem",
            from: value,
            to: format!("{} {} {wanted}", wanted / 2, wanted / 3 * 2),
        },
    );
    Some(finding.bounds(room, wanted))
}

fn tracked(machine: &Machine, load: Load) -> Option<Finding> {
    let max = machine.number("net.netfilter.nf_conntrack_max")?;
    let used = machine.number("net.netfilter.nf_conntrack_count").unwrap_or(0);
    let value = format!("{} of {} tracked", count(used), count(max));
    if used == 0 {
        let meaning =
            "conntrack is loaded and tracks nothing: it limits nothing until a firewall uses it";
        return Some(Finding::ok("conntrack", value, meaning));
    }
    let room = max.saturating_sub(used);
    let meaning = format!("at most {} connections: the firewall tracks each of them", count(room));
    let finding = Finding::ok("conntrack", value, meaning);
    if room >= load.connections {
        return Some(finding.bounds(room, room));
    }
    let change = Change {
        name: "net.netfilter.nf_conntrack_max",
        from: max.to_string(),
        to: rounded_up(load.connections + used + OTHER_FILES).to_string(),
    };
    let mut finding = finding.with_change(Verdict::Limits, change);
    finding.advice.push(
        "better, do not track the clients' port: `nft add rule inet raw prerouting tcp dport 8800 notrack`, and the same for `tcp sport` in \
         output"
            .into(),
    );
    Some(finding.bounds(room, load.connections))
}

fn threads(machine: &Machine, load: Load) -> Option<Finding> {
    let share = machine.group_threads()?;
    // I/O threads, log threads, the operators' port, signals.
    let needed = load.io_threads + 16;
    let value = format!("{} of {} used", count(share.used), count(share.max));
    let meaning = format!("a node with {} I/O threads needs about {needed}", load.io_threads);
    let finding = Finding::ok("cgroup pids.max", value, meaning);
    Some(if share.left() < needed {
        finding
            .but(Verdict::Bad, "raise it: systemd `TasksMax=infinity`, containers `--pids-limit`")
    } else {
        finding
    })
}

fn mappings(machine: &Machine, load: Load) -> Option<Finding> {
    const SEGMENT_BYTES: u64 = 2 << 20;
    const ARENA_BYTES: u64 = 64 << 20;
    const OTHERS: u64 = 500;
    let max = machine.number("vm.max_map_count")?;
    let user = (load.connections as f64
        * (connection_bytes(load.network) - kernel_bytes(load.network))) as u64;
    let needed = OTHERS + 2 * load.io_threads + LOGS_BYTES / SEGMENT_BYTES + 2 * user / ARENA_BYTES;
    let meaning = format!(
        "about {} mappings for this number of connections and the default log; 512 more for each GiB of logs in memory",
        count(needed)
    );
    let finding = Finding::ok("vm.max_map_count", count(max), meaning);
    let change = Change {
        name: "vm.max_map_count",
        from: max.to_string(),
        to: rounded_up(2 * needed).to_string(),
    };
    Some(if max < needed { finding.with_change(Verdict::Bad, change) } else { finding })
}
