//! Settings that do not limit connections but matter: queues, ports, interrupts, clocks, the
//! kernel's version. Pure.

use super::finding::{Change, Finding, Verdict, count};
use super::limits::{Load, Network};
use super::machine::Machine;

/// The value of `listen.backlog` for each I/O thread.
const BACKLOG: u64 = 4_096;
/// The value of `listen.socket_send_bytes`.
const SOCKET_SEND_BYTES: u64 = 32 << 10;
/// Connections for each slot of the kernel's table that cost nothing noticeable.
const ESTABLISHED_PER_PLACE: u64 = 2;
/// The kernel version that a node requires, and the one that moves connections when a listener
/// closes.
const KERNEL_MIN: (u32, u32) = (5, 11);
const KERNEL_MIGRATES: (u32, u32) = (5, 14);
/// The kernel version that a node with its own TCP requires. docs/user-tcp.md.
const KERNEL_MIN_OWN_TCP: (u32, u32) = (6, 2);

/// All findings of this module.
pub fn findings(machine: &Machine, load: Load) -> Vec<Finding> {
    // Findings about the kernel's sockets only.
    let sockets = |finding: Option<Finding>| finding.filter(|_| load.network == Network::Kernel);
    let all = [
        kernel(machine, load.network),
        sockets(private_tables(machine)),
        sockets(registered_sockets(machine)),
        cores(machine),
        sockets(backlog(machine)),
        sockets(half_open(machine)),
        sockets(cookies(machine)),
        packets(machine, load),
        sockets(established(machine, load)),
        sockets(receive_buffers(machine)),
        sockets(send_buffers(machine)),
        sockets(migration(machine)),
        sockets(ports(machine)),
        sockets(time_wait(machine)),
        huge_pages(machine),
        overcommit(machine),
        swap(machine),
        nodes(machine),
        clock(machine),
        governor(machine),
    ];
    let mut findings: Vec<Finding> = all.into_iter().flatten().collect();
    findings.extend(interfaces(machine));
    findings
}

fn kernel(machine: &Machine, network: Network) -> Option<Finding> {
    let version = machine.kernel()?;
    let release = machine.text("/proc/sys/kernel/osrelease")?.to_owned();
    let least = match network {
        Network::Kernel => KERNEL_MIN,
        Network::User => KERNEL_MIN_OWN_TCP,
    };
    let (major, minor) = least;
    let finding =
        Finding::ok("kernel", release, format!("a node needs Linux {major}.{minor} or newer"));
    Some(if version < least {
        finding.but(Verdict::Bad, format!("run Linux {major}.{minor} or newer"))
    } else {
        finding
    })
}

fn private_tables(machine: &Machine) -> Option<Finding> {
    let meaning = "each I/O thread has its own limit of open files, and shares no lock when it accepts connections";
    Some(match machine.private_tables()? {
        Ok(()) => Finding::ok("private descriptor tables", "allowed", meaning),
        Err(reason) => {
            let value = format!("refused: {reason}");
            let meaning =
                "all I/O threads share one limit of open files, and one lock for accept and close";
            Finding::ok("private descriptor tables", value, meaning).but(
                Verdict::Limits,
                "allow close_range in the seccomp profile (containers: a newer runtime, or `--security-opt seccomp=profile.json`)",
            )
        }
    })
}

fn registered_sockets(machine: &Machine) -> Option<Finding> {
    let name = "sockets in io_uring";
    Some(if machine.registered_sockets()? {
        Finding::ok(
            name,
            "allowed",
            "connections beyond the limit of open files are held by io_uring and need no descriptor",
        )
    } else {
        Finding::ok(
            name,
            "refused",
            "the limit of open files applies; the cause is Linux before 6.8, kernel.io_uring_disabled, or a seccomp profile",
        )
    })
}

fn cores(machine: &Machine) -> Option<Finding> {
    let cores = machine.cores()?;
    let finding =
        |value: String| Finding::ok("processors", value, "a node starts an I/O thread for each");
    Some(match machine.group_cores() {
        Some(share) if share < cores as f64 => {
            finding(format!("{cores}, {share:.1} of them available to the cgroup")).but(
                Verdict::Limits,
                "a quota stops all threads at once when it is used up, which every latency shows: raise cpu.max, or give whole \
                 processors (cpuset)",
            )
        }
        _ => finding(cores.to_string()),
    })
}

/// A parameter with a minimum.
fn at_least(machine: &Machine, name: &'static str, least: u64, meaning: &str) -> Option<Finding> {
    let value = machine.number(name)?;
    let finding = Finding::ok(name, count(value), meaning);
    let change = Change { name, from: value.to_string(), to: least.to_string() };
    Some(if value < least { finding.with_change(Verdict::Limits, change) } else { finding })
}

fn backlog(machine: &Machine) -> Option<Finding> {
    let meaning = "upper limit of listen.backlog, 4,096 for each I/O thread: connections that wait in the kernel until the node accepts them";
    at_least(machine, "net.core.somaxconn", BACKLOG, meaning)
}

fn half_open(machine: &Machine) -> Option<Finding> {
    let meaning = "limit of half-open connections, reached when many clients reconnect; beyond it, the kernel uses SYN cookies, or drops packets and delays connections by a second";
    at_least(machine, "net.ipv4.tcp_max_syn_backlog", BACKLOG, meaning)
}

fn cookies(machine: &Machine) -> Option<Finding> {
    let value = machine.number("net.ipv4.tcp_syncookies")?;
    let finding = Finding::ok(
        "net.ipv4.tcp_syncookies",
        value,
        "a flood of half-open connections does not block clients",
    );
    let change =
        Change { name: "net.ipv4.tcp_syncookies", from: value.to_string(), to: "1".into() };
    Some(if value == 0 { finding.with_change(Verdict::Limits, change) } else { finding })
}

fn packets(machine: &Machine, load: Load) -> Option<Finding> {
    let meaning = "queue of packets for a processor, used for packets steered from another one and on loopback; beyond it, packets are dropped";
    let least = if load.connections >= 1_000_000 { 10_000 } else { 1_000 };
    at_least(machine, "net.core.netdev_max_backlog", least, meaning)
}

/// The kernel creates the table for its socket lookups when the machine starts.
fn established(machine: &Machine, load: Load) -> Option<Finding> {
    let text = machine.text("/proc/sys/net/ipv4/tcp_ehash_entries")?.trim();
    // A minus sign: the table of the first namespace, shared.
    let entries: u64 = text.trim_start_matches('-').parse().ok()?;
    let finding = Finding::ok(
        "net.ipv4.tcp_ehash_entries",
        count(entries),
        "slots of the table in which the kernel looks up the connection of each packet; with more than two connections per slot, it follows chains",
    );
    let places = load.connections.next_power_of_two();
    Some(if load.connections > ESTABLISHED_PER_PLACE * entries {
        finding
            .but(
                Verdict::Limits,
                format!("start the machine with the kernel parameter `thash_entries={places}` (8 bytes each)"),
            )
            .but(
                Verdict::Limits,
                format!(
                    "or start the node in a network namespace made after `sysctl -w net.ipv4.tcp_child_ehash_entries={places}` (Linux 6.1)"
                ),
            )
    } else {
        finding
    })
}

fn receive_buffers(machine: &Machine) -> Option<Finding> {
    let values = machine.numbers("net.ipv4.tcp_rmem")?;
    let max = machine.number("net.core.rmem_max")?;
    let value = format!("{values:?}, net.core.rmem_max {}", count(max));
    let meaning = "receive buffer of clients that send much; an idle connection has no buffer";
    Some(Finding::ok("net.ipv4.tcp_rmem", value, meaning))
}

fn send_buffers(machine: &Machine) -> Option<Finding> {
    let meaning = "upper limit of listen.socket_send_bytes (32 KiB), the send buffer of each client socket; net.ipv4.tcp_wmem then has no effect";
    at_least(machine, "net.core.wmem_max", SOCKET_SEND_BYTES, meaning)
}

fn migration(machine: &Machine) -> Option<Finding> {
    const NAME: &str = "net.ipv4.tcp_migrate_req";
    let meaning = "connections in the queue of a closing listener move to another listener instead of being reset";
    let Some(value) = machine.number(NAME) else {
        let (major, minor) = KERNEL_MIGRATES;
        return (machine.kernel()? < KERNEL_MIGRATES).then(|| {
            Finding::ok(NAME, "not available", meaning)
                .but(Verdict::Limits, format!("needs Linux {major}.{minor}"))
        });
    };
    let finding = Finding::ok(NAME, value, meaning);
    let change = Change { name: NAME, from: value.to_string(), to: "1".into() };
    Some(if value == 0 { finding.with_change(Verdict::Limits, change) } else { finding })
}

fn ports(machine: &Machine) -> Option<Finding> {
    let range = machine.numbers("net.ipv4.ip_local_port_range")?;
    let (&first, &last) = range.first().zip(range.get(1))?;
    let ports = (last + 1).saturating_sub(first);
    let meaning = format!(
        "for machines that open connections (load, proxies): {} from each source address to one target; servers need none. More source \
         addresses give more: `crore bench --local-addresses`",
        count(ports)
    );
    Some(Finding::ok("net.ipv4.ip_local_port_range", format!("{first} {last}"), meaning))
}

fn time_wait(machine: &Machine) -> Option<Finding> {
    let buckets = machine.number("net.ipv4.tcp_max_tw_buckets")?;
    let reuse = machine.number("net.ipv4.tcp_tw_reuse").unwrap_or(0);
    let value = format!("{}, net.ipv4.tcp_tw_reuse {reuse}", count(buckets));
    let meaning =
        "closed connections in TIME_WAIT; beyond this number, the kernel discards them at once";
    Some(Finding::ok("net.ipv4.tcp_max_tw_buckets", value, meaning))
}

fn huge_pages(machine: &Machine) -> Option<Finding> {
    let text = machine.text("/sys/kernel/mm/transparent_hugepage/enabled")?;
    let value = text.split(['[', ']']).nth(1)?.to_owned();
    let is_always = value == "always";
    let meaning =
        "with `always`, a page written once may cost 2 MiB; a node requests no huge pages";
    let finding = Finding::ok("transparent huge pages", value, meaning);
    Some(if is_always {
        finding.but(
            Verdict::Limits,
            "`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`; permanent: `transparent_hugepage=madvise` on the kernel's \
             command line",
        )
    } else {
        finding
    })
}

fn overcommit(machine: &Machine) -> Option<Finding> {
    let value = machine.number("vm.overcommit_memory")?;
    let meaning = "with 2, the kernel counts reserved memory that is never used: rings, stacks, arenas of 64 MiB for each thread";
    let finding = Finding::ok("vm.overcommit_memory", value, meaning);
    let change = Change { name: "vm.overcommit_memory", from: value.to_string(), to: "0".into() };
    Some(if value == 2 { finding.with_change(Verdict::Limits, change) } else { finding })
}

fn swap(machine: &Machine) -> Option<Finding> {
    let total = machine.memory("SwapTotal")?;
    let meaning = "swapped memory returns with the latency of a disk";
    let finding = Finding::ok("swap", super::finding::bytes(total), meaning);
    Some(if total > 0 {
        finding.but(
            Verdict::Limits,
            "keep the node out of swap: systemd `MemorySwapMax=0`, or `swapoff -a`",
        )
    } else {
        finding
    })
}

fn nodes(machine: &Machine) -> Option<Finding> {
    let online = machine.text("/sys/devices/system/node/online")?.trim().to_owned();
    let is_one = online == "0";
    let meaning = "a thread that uses the memory of another NUMA node waits longer for it";
    let finding = Finding::ok("NUMA nodes", online, meaning);
    Some(if is_one {
        finding
    } else {
        finding.but(
            Verdict::Limits,
            "run one Crore node on each NUMA node: `numactl --cpunodebind=0 --membind=0 crore serve`; or run one over all of them with `numactl --interleave=all`",
        )
    })
}

fn clock(machine: &Machine) -> Option<Finding> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = machine.text(path)?.to_owned();
    let is_slow = matches!(source.as_str(), "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies");
    let meaning = "every turn of an I/O thread reads the clock twice; a slow clock source costs a system call and a microsecond each time";
    let finding = Finding::ok("clock source", source, meaning);
    Some(if is_slow {
        finding.but(
            Verdict::Limits,
            "use the processor's clock: `echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource` if it is offered",
        )
    } else {
        finding
    })
}

fn governor(machine: &Machine) -> Option<Finding> {
    let path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    let governor = machine.text(path)?.to_owned();
    let is_slow = matches!(governor.as_str(), "powersave" | "conservative");
    let finding = Finding::ok("governor", governor, "frequency of processors under low load");
    Some(if is_slow {
        finding.but(Verdict::Limits, "`cpupower frequency-set -g performance`")
    } else {
        finding
    })
}

fn interfaces(machine: &Machine) -> Vec<Finding> {
    let cores = machine.cores().unwrap_or(1);
    let mut findings = Vec::new();
    for interface in machine.interfaces() {
        let name = &interface.name;
        let value = format!(
            "{name}: {} queues in, {} out, interrupts on {} processors, {}",
            interface.receive_queues,
            interface.send_queues,
            interface.interrupt_cores,
            if interface.has_steering {
                "packets steered to other processors (RPS)"
            } else {
                "packets not steered"
            }
        );
        let meaning = "the processor that receives a packet does its TCP work: with fewer queues than processors, a few processors do all of it";
        let finding = Finding::ok("network interface", value, meaning);
        let queues = interface.receive_queues as u64;
        findings.push(if queues >= cores.min(8) || interface.has_steering {
            let is_bundled = queues > 1 && interface.interrupt_cores == 1;
            if is_bundled { finding.but(
                    Verdict::Limits,
                    format!("one processor handles all interrupts of {name}: start irqbalance, or write /proc/irq/N/smp_affinity_list"),
                ) } else { finding }
        } else {
            finding.but(
                Verdict::Limits,
                format!(
                    "more queues: `ethtool -L {name} combined {cores}`; where the device has no more, steer: `echo {} > \
                     /sys/class/net/{name}/queues/rx-0/rps_cpus`",
                    mask(cores)
                ),
            )
        });
    }
    findings
}

/// All processors, as the kernel takes them: groups of 32 in hexadecimal, the last ones first.
fn mask(cores: u64) -> String {
    let full = cores / 32;
    let rest = cores % 32;
    let mut groups: Vec<String> = Vec::new();
    if rest > 0 {
        groups.push(format!("{:x}", (1_u64 << rest) - 1));
    }
    groups.extend((0..full).map(|_| "ffffffff".to_owned()));
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::mask;

    #[test]
    fn masks() {
        for (cores, text) in [(1, "1"), (2, "3"), (12, "fff"), (32, "ffffffff"), (33, "1,ffffffff")]
        {
            assert_eq!(mask(cores), text);
        }
    }
}
