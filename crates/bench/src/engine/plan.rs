//! The number of clients that this machine can run, and its limits.
//!
//! Place: before the workers start. Limits are reported as sentences with a remedy, so that no
//! failure is obscure later.

use std::net::IpAddr;

use net::kernel::{RESERVE, registered_room};
use net::system::{raise_nofile_limit, unshare_table};

use crate::machine;
use crate::source::Sources;
use crate::units::show_count;

/// Memory of one connection in the kernel and the client, in bytes: a socket of about four
/// kilobytes.
const CONNECTION_BYTES: u64 = 4_600;
/// Memory of one client whose connection is one of our own TCP, in bytes.
const OWN_BYTES: u64 = 200;
/// Descriptors of a table that are not connections: standard streams, epoll, wakers.
const OTHER_DESCRIPTORS: u64 = 32;

/// The plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Number of clients that fit.
    pub clients: u64,
    /// Number of threads for them.
    pub threads: u64,
    /// Whether threads have descriptor tables of their own.
    pub has_private_tables: bool,
    /// Reasons for a reduced number of clients, one sentence each.
    pub notes: Vec<String>,
}

/// The resources of the machine.
#[derive(Clone, Copy, Debug)]
struct Machine {
    descriptors_max: u64,
    has_private_tables: bool,
    /// Connections that a thread may hold outside its table.
    registered: u64,
    ports: u64,
    available_bytes: u64,
}

impl Plan {
    /// Plans for `clients` on at least `threads` threads (0: one for each core), from these source
    /// addresses to this number of distinct targets.
    pub fn new(clients: u64, threads: u64, addresses: &[IpAddr], targets: u64) -> Plan {
        let cores = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        let has_private_tables =
            std::thread::spawn(|| unshare_table(&[]).is_ok()).join().unwrap_or(false);
        let machine = Machine {
            descriptors_max: raise_nofile_limit().soft,
            has_private_tables,
            registered: u64::from(registered_room()),
            ports: Sources::capacity(addresses).unwrap_or_else(ephemeral_ports) * targets.max(1),
            available_bytes: machine::available_bytes().unwrap_or(u64::MAX),
        };
        Plan::on(machine, clients, if threads == 0 { cores } else { threads })
    }

    /// Plans for `clients` on one thread with a TCP of our own, which can have so many connections.
    pub(super) fn with_own_tcp(clients: u64, sources: u64) -> Plan {
        let mut plan = Plan { clients, threads: 1, has_private_tables: false, notes: Vec::new() };
        plan.limit(sources, "the source addresses have no more ports; set more --local-addresses");
        let available_bytes = machine::available_bytes().unwrap_or(u64::MAX);
        plan.limit(
            available_bytes / 10 * 9 / OWN_BYTES,
            "the memory of this machine holds no more clients of about 200 bytes each",
        );
        plan
    }

    fn on(machine: Machine, clients: u64, threads: u64) -> Plan {
        let mut plan = Plan {
            clients,
            threads: threads.clamp(1, clients.max(1)),
            has_private_tables: machine.has_private_tables,
            notes: Vec::new(),
        };
        let free =
            machine.descriptors_max.saturating_sub(u64::from(RESERVE) + OTHER_DESCRIPTORS).max(2);
        // Every table also contains the wakers of all threads.
        let in_tables = |threads: u64| {
            threads.saturating_mul(free.saturating_sub(threads) + machine.registered)
        };
        if machine.has_private_tables {
            plan.limit(
                in_tables(free / 2).max(1),
                "the descriptor limit (ulimit -n) is low, and more tables do not raise it",
            );
        } else {
            plan.limit(
                (free + machine.registered)
                    .saturating_sub(plan.threads * (u64::from(RESERVE) + 1))
                    .max(1),
                "the descriptor limit (ulimit -n) applies to all threads together, because the system refuses private tables",
            );
        }
        plan.limit(
            machine.ports,
            "one source address has no more ports for these targets; set --local-addresses '127.0.{1..20}.1' or more --url",
        );
        plan.limit(
            machine.available_bytes / 10 * 9 / CONNECTION_BYTES,
            "the memory of this machine holds no more sockets of about 4.5 KB each",
        );
        plan.threads = plan.threads.min(plan.clients.max(1));
        if machine.has_private_tables {
            // More threads than cores cost little here, and each adds a table.
            plan.threads = plan.threads.min(free / 2).max(1);
            while in_tables(plan.threads) < plan.clients && plan.threads < free / 2 {
                plan.threads += 1;
            }
        }
        plan
    }

    fn limit(&mut self, clients_max: u64, why: &str) {
        if self.clients > clients_max {
            self.notes.push(format!(
                "{} clients instead of {}: {why}.",
                show_count(clients_max),
                show_count(self.clients)
            ));
            self.clients = clients_max;
        }
    }
}

/// The kernel's range of source ports for each target.
pub(super) fn ephemeral_ports() -> u64 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok();
    let parsed = range.and_then(|text| {
        let mut bounds = text.split_ascii_whitespace().map(str::parse::<u64>);
        let (first, last) = (bounds.next()?.ok()?, bounds.next()?.ok()?);
        Some(last.saturating_sub(first) + 1)
    });
    parsed.unwrap_or(28_232)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOMY: Machine = Machine {
        descriptors_max: 1_000_000,
        has_private_tables: true,
        registered: 0,
        ports: u64::MAX,
        available_bytes: u64::MAX,
    };

    #[test]
    fn plans() {
        fn check(machine: Machine, clients: u64, planned: (u64, u64, usize)) {
            let plan = Plan::on(machine, clients, 2);
            assert_eq!((plan.clients, plan.threads, plan.notes.len()), planned);
        }
        check(ROOMY, 10_000, (10_000, 2, 0));
        check(ROOMY, 1, (1, 1, 0));
        // Small tables: more threads instead of fewer clients.
        let small = Machine { descriptors_max: 1_024, ..ROOMY };
        check(small, 10_000, (10_000, 11, 0));
        // None where sockets need no table.
        let registered = Machine { registered: 16_384, ..small };
        check(registered, 10_000, (10_000, 2, 0));
        check(registered, 40_000, (40_000, 3, 0));
        let shared = Machine { has_private_tables: false, ..small };
        check(shared, 10_000, (798, 2, 1));
        check(Machine { ports: 28_232, ..ROOMY }, 100_000, (28_232, 2, 1));
        // Very small ones: as many as fit, with as many threads as leave room.
        for (descriptors_max, planned) in
            [(512, (10_000, 26, 0)), (256, (6_400, 80, 1)), (100, (4, 2, 1)), (20, (1, 1, 1))]
        {
            let tiny = Machine { descriptors_max, ..small };
            check(tiny, 10_000, planned);
        }
        let unlimited = Machine { descriptors_max: u64::MAX, ..ROOMY };
        check(unlimited, 10_000, (10_000, 2, 0));
        // No more threads than the clients that are left need.
        check(Machine { ports: 2_000, ..small }, 100_000, (2_000, 3, 1));
        check(Machine { available_bytes: 46_000_000, ..ROOMY }, 100_000, (9_000, 2, 1));
    }

    #[test]
    fn our_own_tcp_has_one_thread_and_no_descriptors() {
        let plan = Plan::with_own_tcp(100_000, 64_512);
        assert_eq!((plan.clients, plan.threads, plan.notes.len()), (64_512, 1, 1));
        assert_eq!(Plan::with_own_tcp(20_000, 64_512).notes, Vec::<String>::new());
    }
}
