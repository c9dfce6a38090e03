//! The largest workload that this machine can carry, and the limits of its size.
//!
//! Place: before any process is started. Costs are those of `docs/performance.md`, rounded up. Each
//! limit comes with its remedy.

use net::kernel::registered_room;
use net::system::{raise_nofile_limit, unshare_table};
use serde::Serialize;

use super::network;
use super::workload::Workload;
use crate::engine::ADDRESSES_MAX;
use crate::machine::kibibytes;
use crate::source::PORTS;
use crate::units::show_count;

/// Kernel memory of an idle established socket, in bytes.
const SOCKET_BYTES: u64 = 4_200;
/// User-space memory of a client in the server and its generator, in bytes; with TLS.
const USER_BYTES: u64 = 400;
const TLS_USER_BYTES: u64 = 7_000;
/// User-space memory of a client at both ends of a TCP of our own, in bytes.
const OWN_TCP_USER_BYTES: u64 = 600;
/// I/O threads of a server with a TCP of our own: its own, and one for the publishers' sockets.
pub const OWN_TCP_THREADS: u64 = 2;
/// Used share of the available memory, in percent.
const MEMORY_PERCENT: u64 = 85;
/// Kept free for logs, buffers and everything else.
const OTHER_BYTES: u64 = 1 << 30;
/// Descriptors of a table that are no clients.
const OTHER_DESCRIPTORS: u64 = 128;
/// Threads that a server may have.
const THREADS_MAX: u64 = 1_024;
/// Deliveries per second and core of the server: of messages to one client each, of messages to
/// many, and over TLS.
const DELIVERIES_UNICAST: f64 = 25_000.0;
const DELIVERIES_FAN_OUT: f64 = 100_000.0;
const DELIVERIES_TLS: f64 = 60_000.0;
/// Connections per second and core of the server that leave it room for what else it does.
const CONNECTS: f64 = 5_000.0;

/// The requested size.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Scale {
    /// The capacity of the machine, at most the published size.
    #[default]
    Auto,
    /// This share of the published size.
    Share(f64),
    /// So many clients.
    Clients(u64),
}

impl std::str::FromStr for Scale {
    type Err = String;

    /// Reads `auto`, a share with a point or a percent sign, or a number of clients.
    fn from_str(text: &str) -> Result<Scale, String> {
        let wrong = || {
            format!("`{text}` is not auto, a fraction such as 0.1 or 10%, or a number of clients")
        };
        if text == "auto" {
            return Ok(Scale::Auto);
        }
        let share = match text.strip_suffix('%') {
            Some(percent) => Some(percent.parse::<f64>().map_err(|_| wrong())? / 100.0),
            None if text.contains('.') => Some(text.parse::<f64>().map_err(|_| wrong())?),
            None => None,
        };
        match share {
            Some(share) if share.is_finite() && share > 0.0 => Ok(Scale::Share(share)),
            Some(_) => Err(wrong()),
            None => match text.replace([',', '_'], "").parse() {
                Ok(clients) if clients > 0 => Ok(Scale::Clients(clients)),
                _ => Err(wrong()),
            },
        }
    }
}

/// The resources of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// Memory that it could give, in bytes.
    pub available_bytes: u64,
    /// Descriptors of the whole machine that are free (`fs.file-max`).
    pub files_free: u64,
    /// Descriptors of one table (`ulimit -n`).
    pub descriptors_max: u64,
    /// Threads may have descriptor tables of their own.
    pub has_private_tables: bool,
    /// Connections that a thread of ours may hold beside its table.
    pub registered: u64,
    /// Clients and server are both here.
    pub is_local: bool,
    /// Cores of the server.
    pub server_cores: u64,
    /// Ports to connect from, on each source address.
    pub ports: u64,
    /// Source addresses; of a server elsewhere only our own.
    pub addresses_max: u64,
    /// Subscribers use a TCP of our own.
    pub has_own_tcp: bool,
}

impl Machine {
    /// Looks at it.
    pub fn read(is_local: bool, server_cores: u64, has_own_tcp: bool) -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let number = |path: &str, place: usize| -> Option<u64> {
            read(path).split_ascii_whitespace().nth(place)?.parse().ok()
        };
        let files_max = number("/proc/sys/fs/file-max", 0).unwrap_or(u64::MAX);
        let files_used = number("/proc/sys/fs/file-nr", 0).unwrap_or(0);
        let range = "/proc/sys/net/ipv4/ip_local_port_range";
        let own_ports = u64::from(PORTS.end() - PORTS.start()) + 1;
        let ephemeral = number(range, 0)
            .zip(number(range, 1))
            .map_or(28_232, |(first, last)| last.saturating_sub(first) + 1);
        Machine {
            available_bytes: kibibytes(&read("/proc/meminfo"), "MemAvailable:").unwrap_or(u64::MAX),
            files_free: files_max.saturating_sub(files_used),
            descriptors_max: raise_nofile_limit().soft,
            registered: u64::from(registered_room()),
            has_private_tables: std::thread::spawn(|| unshare_table(&[]).is_ok())
                .join()
                .unwrap_or(false),
            is_local,
            server_cores: server_cores.max(1),
            ports: match is_local {
                true if has_own_tcp => network::ADDRESS_CONNECTIONS,
                true => own_ports,
                false => ephemeral,
            },
            addresses_max: match is_local {
                true if has_own_tcp => ADDRESSES_MAX as u64,
                true => 253 * 253,
                false => 1,
            },
            has_own_tcp,
        }
    }

    /// Sockets of the kernel on this machine for one client.
    pub fn sockets_each(&self) -> u64 {
        match self.is_local {
            true if self.has_own_tcp => 0,
            true => 2,
            false => 1,
        }
    }

    /// I/O threads that a server needs for so many connections, with some room as they spread
    /// unevenly. Where sockets need no table it is one for each core.
    pub fn io_threads(&self, clients: u64) -> u64 {
        if self.has_own_tcp {
            return OWN_TCP_THREADS;
        }
        let each = self
            .descriptors_max
            .saturating_sub(OTHER_DESCRIPTORS)
            .saturating_add(self.registered)
            .max(1);
        let needed = clients.saturating_add(clients / 20).div_ceil(each);
        if self.has_private_tables || self.registered > 0 {
            needed.max(self.server_cores).min(THREADS_MAX)
        } else {
            self.server_cores
        }
    }

    /// Source addresses for so many connections to one port: half of the ports stay free for those
    /// that return.
    pub fn local_addresses(&self, clients: u64) -> Vec<String> {
        if !self.is_local {
            return Vec::new();
        }
        if self.has_own_tcp {
            return vec![network::addresses(clients)];
        }
        let addresses = clients.div_ceil(self.ports / 2).clamp(1, self.addresses_max);
        let full = addresses / 253;
        let mut patterns = Vec::new();
        if full > 0 {
            patterns.push(format!("127.{{1..{full}}}.{{1..253}}.1"));
        }
        if !addresses.is_multiple_of(253) {
            patterns.push(format!("127.{}.{{1..{}}}.1", full + 1, addresses % 253));
        }
        patterns
    }
}

/// A number of clients that cannot be passed here, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// So many.
    pub clients: u64,
    /// Why, and what to do.
    pub why: String,
}

/// All limits, the lowest first.
pub fn limits(machine: &Machine, workload: &Workload, has_tls: bool) -> Vec<Limit> {
    let memory = (machine.available_bytes / 100 * MEMORY_PERCENT).saturating_sub(OTHER_BYTES);
    let mut limits = if machine.has_own_tcp {
        own_tcp_limits(machine, memory)
    } else {
        socket_limits(machine, memory, if has_tls { TLS_USER_BYTES } else { USER_BYTES })
    };
    let size = workload.size(workload.clients, None);
    if size.deliveries_rate > 0.0 {
        let each = match size.group {
            _ if has_tls => DELIVERIES_TLS,
            0..10 => DELIVERIES_UNICAST,
            _ => DELIVERIES_FAN_OUT,
        };
        let rate = each * machine.server_cores as f64;
        limits.push(Limit {
            clients: (rate / size.deliveries_rate * size.clients as f64) as u64,
            why: format!(
                "processors: {} core{} of the server for about {} deliveries per second; a lower --rate for more clients",
                machine.server_cores,
                if machine.server_cores == 1 { "" } else { "s" },
                show_count(rate as u64)
            ),
        });
    }
    limits.sort_by_key(|limit| limit.clients);
    limits
}

/// The limits of clients with a TCP of our own.
fn own_tcp_limits(machine: &Machine, memory: u64) -> Vec<Limit> {
    vec![
        Limit {
            clients: memory / OWN_TCP_USER_BYTES,
            why: format!(
                "memory: {} MB are available, {} bytes at both ends of each client; only more memory raises this limit",
                show_count(memory / 1_000_000),
                show_count(OWN_TCP_USER_BYTES)
            ),
        },
        Limit {
            clients: machine.ports * machine.addresses_max,
            why: format!(
                "ports: {} on each of {} source addresses of one stack",
                show_count(machine.ports),
                show_count(machine.addresses_max)
            ),
        },
    ]
}

/// The limits of clients with sockets of the kernel.
fn socket_limits(machine: &Machine, memory: u64, user_bytes: u64) -> Vec<Limit> {
    let ends = machine.sockets_each();
    let tables = machine
        .descriptors_max
        .saturating_sub(OTHER_DESCRIPTORS)
        .saturating_add(machine.registered);
    let threads = if machine.has_private_tables { THREADS_MAX } else { 1 };
    vec![
        Limit {
            clients: memory / (ends * SOCKET_BYTES + user_bytes),
            why: format!(
                "memory: {} MB are available, {ends} sockets of {} bytes and {} bytes of user space for each client; only more memory raises this limit",
                show_count(memory / 1_000_000),
                show_count(SOCKET_BYTES),
                show_count(user_bytes)
            ),
        },
        Limit {
            clients: machine.files_free.saturating_sub(8_192) / ends,
            why: format!(
                "files of the machine: {} are free, {ends} for each client; raise fs.file-max",
                show_count(machine.files_free)
            ),
        },
        Limit {
            clients: tables.saturating_mul(threads) / 21 * 20,
            why: if machine.has_private_tables {
                format!(
                    "descriptors: {} in each of at most {threads} tables; raise ulimit -n",
                    show_count(tables)
                )
            } else {
                format!(
                    "descriptors: {} in the shared table, because the system refuses private tables; raise ulimit -n",
                    show_count(tables)
                )
            },
        },
        Limit {
            clients: machine.ports.saturating_mul(machine.addresses_max) / ends,
            why: format!(
                "ports: {} on each of {} source addresses; widen net.ipv4.ip_local_port_range",
                show_count(machine.ports),
                show_count(machine.addresses_max)
            ),
        },
    ]
}

/// So many clients, and whether the machine is what keeps it from being as many as published.
pub fn clients(scale: Scale, workload: &Workload, limits: &[Limit]) -> (u64, bool) {
    match scale {
        Scale::Clients(clients) => (clients, false),
        Scale::Share(share) => (((workload.clients as f64 * share).round() as u64).max(1), false),
        Scale::Auto => {
            let most = limits.first().map_or(u64::MAX, |limit| limit.clients);
            (workload.clients.min(most).max(1), most < workload.clients)
        }
    }
}

/// Connections per second at which so many cores of a server are not busy with connecting alone.
pub fn connect_rate(server_cores: u64) -> f64 {
    CONNECTS * server_cores.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::workload::Name;
    use super::*;
    use crate::source::Sources;

    const MACHINE: Machine = Machine {
        available_bytes: 22 << 30,
        files_free: 2_400_000,
        descriptors_max: 20_000,
        has_private_tables: true,
        registered: 0,
        is_local: true,
        server_cores: 1,
        ports: 55_001,
        addresses_max: 253 * 253,
        has_own_tcp: false,
    };

    #[test]
    fn scales() {
        for (text, scale) in [
            ("auto", Some(Scale::Auto)),
            ("0.1", Some(Scale::Share(0.1))),
            ("25%", Some(Scale::Share(0.25))),
            ("1,000,000", Some(Scale::Clients(1_000_000))),
            ("1", Some(Scale::Clients(1))),
            ("0", None),
            ("-1.0", None),
            ("much", None),
            ("%", None),
        ] {
            assert_eq!(text.parse::<Scale>().ok(), scale, "{text}");
        }
    }

    #[test]
    fn the_lowest_limit_holds() {
        let check = |machine: Machine, name: Name, scale, expected: (u64, bool), first: &str| {
            let workload = name.workload();
            let limits = limits(&machine, &workload, workload.has_tls);
            assert!(limits[0].why.starts_with(first), "{:?}", limits[0]);
            assert!(limits.is_sorted_by_key(|limit| limit.clients));
            assert_eq!(clients(scale, &workload, &limits), expected, "{name:?}");
        };
        check(MACHINE, Name::C10m, Scale::Auto, (1_195_904, true), "files");
        check(MACHINE, Name::OneMillion, Scale::Auto, (100_000, true), "processors");
        check(MACHINE, Name::FanOut, Scale::Auto, (10_000, false), "processors");
        check(MACHINE, Name::C10m, Scale::Share(0.5), (5_000_054, false), "files");
        check(MACHINE, Name::C10m, Scale::Clients(7), (7, false), "files");
        let small = Machine { available_bytes: 2 << 30, ..MACHINE };
        check(small, Name::C10m, Scale::Auto, (85_411, true), "memory");
        let shared = Machine { has_private_tables: false, ..MACHINE };
        check(shared, Name::C10m, Scale::Auto, (18_920, true), "descriptors");
        let far = Machine { is_local: false, addresses_max: 1, ports: 28_232, ..MACHINE };
        check(far, Name::C10m, Scale::Auto, (28_232, true), "ports");
        // Neither files nor descriptors.
        let own = Machine {
            has_own_tcp: true,
            ports: network::ADDRESS_CONNECTIONS,
            addresses_max: 255,
            server_cores: 16,
            ..MACHINE
        };
        check(own, Name::C10m, Scale::Auto, (10_000_108, false), "ports");
        let small = Machine { available_bytes: 2 << 30, ..own };
        check(small, Name::C10m, Scale::Auto, (1_252_698, true), "memory");
    }

    #[test]
    fn a_million_clients_have_threads_and_addresses() {
        let own = Machine { has_own_tcp: true, ..MACHINE };
        assert_eq!((own.io_threads(1_000_000), own.sockets_each()), (2, 0));
        assert_eq!(own.local_addresses(1_000_000), ["198.19.0.{1..21}"]);
        assert_eq!(MACHINE.io_threads(1_000_000), 53);
        assert_eq!(MACHINE.io_threads(10), 1);
        let registered = Machine { registered: 1_048_576, server_cores: 2, ..MACHINE };
        assert_eq!(registered.io_threads(1_000_000), 2);
        for clients in [10, 27_501, 1_000_000, 10_000_000] {
            let patterns = MACHINE.local_addresses(clients);
            let addresses = Sources::parse_addresses(&patterns).unwrap();
            assert!(addresses.iter().all(|address| address.is_loopback()));
            let distinct: std::collections::HashSet<_> = addresses.iter().collect();
            assert_eq!(distinct.len(), addresses.len());
            let sources = Sources::capacity(&addresses).unwrap();
            assert!(sources >= 2 * clients && sources < 2 * clients + 120_000, "{clients}");
        }
    }
}
