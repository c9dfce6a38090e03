//! A captured machine as numbers. Pure: all values come from the captured texts.

use super::limits::Network;
use super::source::{CORES, Captured, PRIVATE_TABLES, REGISTERED_SOCKETS, USER_NETWORK};

/// A machine to evaluate.
#[derive(Clone, Debug)]
pub struct Machine(Captured);

/// File descriptors of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptors {
    /// The soft limit.
    pub soft: u64,
    /// The hard limit.
    pub hard: u64,
}

/// Limit and usage of a resource of a cgroup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// The limit.
    pub max: u64,
    /// The present usage.
    pub used: u64,
}

impl Share {
    /// The available amount.
    pub fn left(self) -> u64 {
        self.max.saturating_sub(self.used)
    }
}

/// A network interface of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Number of receive queues.
    pub receive_queues: usize,
    /// Number of send queues.
    pub send_queues: usize,
    /// Whether packets of a queue are steered to further processors.
    pub has_steering: bool,
    /// Number of processors that handle its interrupts.
    pub interrupt_cores: usize,
}

impl Machine {
    /// Wraps a capture.
    pub fn new(captured: Captured) -> Machine {
        Machine(captured)
    }

    /// The content of a file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.0.text(path)
    }

    /// The network that the capture was made for.
    pub fn network(&self) -> Network {
        if self.user_network().is_some() { Network::User } else { Network::Kernel }
    }

    /// The tried device of a node's own TCP, and whether it can be opened; else the reason.
    pub fn user_network(&self) -> Option<(&str, Result<(), &str>)> {
        let (device, outcome) = self.text(USER_NETWORK)?.split_once(": ")?;
        Some((device, outcome.strip_prefix("refused: ").map_or(Ok(()), Err)))
    }

    /// The numbers of a kernel parameter, by its dotted name.
    pub fn numbers(&self, name: &str) -> Option<Vec<u64>> {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let words = self.text(&path)?.split_ascii_whitespace();
        words.map(|word| word.parse().ok()).collect()
    }

    /// The first number of a kernel parameter.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.numbers(name)?.first().copied()
    }

    /// The kernel's version.
    pub fn kernel(&self) -> Option<(u32, u32)> {
        let release = self.text("/proc/sys/kernel/osrelease")?;
        let mut parts = release.split(|c: char| !c.is_ascii_digit());
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }

    /// Processors that a node may use.
    pub fn cores(&self) -> Option<u64> {
        self.text(CORES)?.trim().parse().ok()
    }

    /// A field of `/proc/meminfo`, in bytes.
    pub fn memory(&self, field: &str) -> Option<u64> {
        let lines = self.text("/proc/meminfo")?.lines();
        let rest = lines
            .filter_map(|line| line.strip_prefix(field))
            .find_map(|rest| rest.strip_prefix(':'))?;
        let kibibytes: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kibibytes.checked_mul(1_024)
    }

    /// The limit of open files.
    pub fn descriptors(&self) -> Option<Descriptors> {
        let lines = self.text("/proc/self/limits")?.lines();
        let rest = lines.filter_map(|line| line.strip_prefix("Max open files")).next()?;
        let mut words = rest.split_ascii_whitespace().map(|word| match word {
            "unlimited" => Some(u64::MAX),
            word => word.parse().ok(),
        });
        Some(Descriptors { soft: words.next()??, hard: words.next()?? })
    }

    /// Whether a thread may have a descriptor table of its own; else the reason. None if it was not
    /// tested.
    pub fn private_tables(&self) -> Option<Result<(), &str>> {
        let text = self.text(PRIVATE_TABLES)?;
        Some(match text.strip_prefix("refused: ") {
            Some(reason) => Err(reason),
            None => Ok(()),
        })
    }

    /// Whether a thread may hold sockets outside its descriptor table. None if it was not tested.
    pub fn registered_sockets(&self) -> Option<bool> {
        Some(self.text(REGISTERED_SOCKETS)? == "allowed")
    }

    /// Memory of the cgroup with the least left, of both versions.
    pub fn group_memory(&self) -> Option<Share> {
        self.tightest("memory.max", "memory.current")
            .or_else(|| self.tightest("memory.limit_in_bytes", "memory.usage_in_bytes"))
    }

    /// Threads and processes of the cgroup with the least left.
    pub fn group_threads(&self) -> Option<Share> {
        self.tightest("pids.max", "pids.current")
    }

    /// Number of cores that the most restricted cgroup may use.
    pub fn group_cores(&self) -> Option<f64> {
        let mut least: Option<f64> = None;
        for (path, text) in self.0.below("/sys/fs/cgroup/") {
            let cores = if path.ends_with("/cpu.max") {
                let mut words = text.split_ascii_whitespace();
                let quota = words.next().and_then(|word| word.parse::<f64>().ok());
                let period = words.next().and_then(|word| word.parse::<f64>().ok());
                quota.zip(period).map(|(quota, period)| quota / period)
            } else if let Some(folder) = path.strip_suffix("cpu.cfs_quota_us") {
                let period = self.text(&format!("{folder}cpu.cfs_period_us"));
                let period = period.and_then(|text| text.parse::<f64>().ok());
                let quota = text.parse::<f64>().ok().filter(|quota| *quota > 0.0);
                quota.zip(period).map(|(quota, period)| quota / period)
            } else {
                None
            };
            if let Some(cores) = cores {
                least = Some(least.map_or(cores, |least| least.min(cores)));
            }
        }
        least
    }

    /// The network interfaces of devices.
    pub fn interfaces(&self) -> Vec<Interface> {
        const FOLDER: &str = "/sys/class/net/";
        let mut interfaces: Vec<Interface> = Vec::new();
        let mut cores: Vec<&str> = Vec::new();
        for (path, text) in self.0.below(FOLDER) {
            let Some((name, rest)) = path[FOLDER.len()..].split_once('/') else {
                continue;
            };
            if interfaces.last().is_none_or(|last| last.name != name) {
                cores.clear();
                interfaces.push(Interface {
                    name: name.to_owned(),
                    receive_queues: 0,
                    send_queues: 0,
                    has_steering: false,
                    interrupt_cores: 0,
                });
            }
            let Some(interface) = interfaces.last_mut() else {
                continue;
            };
            if rest.starts_with("queues/rx") {
                interface.receive_queues += 1;
                interface.has_steering |= text.chars().any(|c| !matches!(c, '0' | ','));
            } else if rest.starts_with("queues/tx") {
                interface.send_queues += 1;
            } else if rest.starts_with("interrupts/") && !cores.contains(&text) {
                cores.push(text);
                interface.interrupt_cores = cores.len();
            }
        }
        interfaces
    }

    /// The cgroup with the least left, of those with both files; "max" and values beyond any
    /// machine do not count.
    fn tightest(&self, max: &str, used: &str) -> Option<Share> {
        const NO_LIMIT: u64 = 1 << 60;
        let mut tightest: Option<Share> = None;
        for (path, text) in self.0.below("/sys/fs/cgroup/") {
            let Some(folder) = path.strip_suffix(max) else {
                continue;
            };
            let used = self.text(&format!("{folder}{used}"));
            let used = used.and_then(|text| text.parse().ok()).unwrap_or(0);
            let share = text.parse().ok().map(|max| Share { max, used });
            let Some(share) = share.filter(|share| share.max < NO_LIMIT) else {
                continue;
            };
            if tightest.is_none_or(|tightest| share.left() < tightest.left()) {
                tightest = Some(share);
            }
        }
        tightest
    }
}
