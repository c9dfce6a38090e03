//! The doctor's access to a machine: files below a root directory, and the results of tests. All of
//! it is text, so that a capture can be written to a file and evaluated elsewhere.

use bench::engine::NetworkDevice;
use net::kernel::registered_room;
use net::system::unshare_table;
use net::user::UserNetwork;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use stdx::hash::Seed;

/// The captured texts by path; missing files are omitted.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Captured(BTreeMap<String, String>);

/// Name of the result of the test whether a thread may have its own descriptor table.
pub const PRIVATE_TABLES: &str = "probe/private_tables";
/// Name of the result of the test whether io_uring instances may hold sockets: `allowed` or
/// `refused`.
pub const REGISTERED_SOCKETS: &str = "probe/registered_sockets";
/// Name of the result of the test whether a device of a node's own TCP can be opened.
pub const USER_NETWORK: &str = "probe/user_network";
/// Name of the list of processors that this process may use.
pub const CORES: &str = "probe/cores";

/// Files that are captured unchanged.
const FILES: &[&str] = &[
    "/proc/self/limits",
    "/proc/self/cgroup",
    "/proc/meminfo",
    "/proc/net/sockstat",
    "/proc/sys/fs/nr_open",
    "/proc/sys/fs/file-max",
    "/proc/sys/fs/file-nr",
    "/proc/sys/fs/epoll/max_user_watches",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/vm/max_map_count",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/net/core/somaxconn",
    "/proc/sys/net/core/netdev_max_backlog",
    "/proc/sys/net/core/rmem_max",
    "/proc/sys/net/core/wmem_max",
    "/proc/sys/net/ipv4/tcp_mem",
    "/proc/sys/net/ipv4/tcp_rmem",
    "/proc/sys/net/ipv4/tcp_wmem",
    "/proc/sys/net/ipv4/tcp_max_syn_backlog",
    "/proc/sys/net/ipv4/tcp_syncookies",
    "/proc/sys/net/ipv4/tcp_migrate_req",
    "/proc/sys/net/ipv4/tcp_ehash_entries",
    "/proc/sys/net/ipv4/tcp_max_tw_buckets",
    "/proc/sys/net/ipv4/tcp_tw_reuse",
    "/proc/sys/net/ipv4/ip_local_port_range",
    "/proc/sys/net/netfilter/nf_conntrack_max",
    "/proc/sys/net/netfilter/nf_conntrack_count",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/devices/system/node/online",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
];

/// Limits of cgroups of both versions, in the directories of the group and all groups above it.
const GROUP_FILES: &[(&str, &[&str])] = &[
    ("", &["memory.max", "memory.current", "pids.max", "pids.current", "cpu.max"]),
    ("memory", &["memory.limit_in_bytes", "memory.usage_in_bytes"]),
    ("pids", &["pids.max", "pids.current"]),
    ("cpu", &["cpu.cfs_quota_us", "cpu.cfs_period_us"]),
];

/// Maximum number of captured network interfaces, and of queues.
const INTERFACES_MAX: usize = 16;
const QUEUES_MAX: usize = 256;

impl Captured {
    /// Captures the machine with files below `root`. Tests run only if that is this machine.
    pub fn read(root: &Path) -> Captured {
        let mut captured = Captured::default();
        for path in FILES {
            captured.take(root, path);
        }
        captured.take_groups(root);
        captured.take_interfaces(root);
        if root == Path::new("/") {
            captured.0.insert(PRIVATE_TABLES.into(), try_private_table());
            let is_allowed = registered_room() > 0;
            let registered = if is_allowed { "allowed" } else { "refused" };
            captured.0.insert(REGISTERED_SOCKETS.into(), registered.into());
            let cores = crate::process::cores_count().to_string();
            captured.0.insert(CORES.into(), cores);
        }
        captured
    }

    /// Tests whether a node could open this device of an interface for its own TCP.
    pub fn try_user_network(&mut self, interface: &str, device: NetworkDevice) {
        let secret = Seed(RandomState::new().hash_one(0), RandomState::new().hash_one(1));
        // An address for documentation (RFC 5737): the program takes no packet of the machine.
        let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        let network =
            UserNetwork::new(interface.to_owned(), device.carrier(), vec![address], secret);
        let outcome = match network.probe(&[SocketAddr::new(address, 9)]) {
            Ok(()) => "allowed".to_owned(),
            Err(reason) => format!("refused: {reason}"),
        };
        let device = device.text();
        self.0.insert(USER_NETWORK.into(), format!("{interface}, {device}: {outcome}"));
    }

    /// Parses the output of [`Captured::to_text`].
    pub fn parse(text: &str) -> Captured {
        let mut files = BTreeMap::new();
        for part in text.split("=== ").skip(1) {
            if let Some((path, content)) = part.split_once('\n') {
                files.insert(path.trim().to_owned(), content.trim_end().to_owned());
            }
        }
        Captured(files)
    }

    /// All texts as one, with a line `=== path` before each.
    pub fn to_text(&self) -> String {
        let parts = self.0.iter();
        parts.map(|(path, content)| format!("=== {path}\n{content}\n")).collect()
    }

    /// The content of a file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Paths with this prefix, and their contents.
    pub fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0
            .range(prefix.to_owned()..)
            .take_while(move |(path, _)| path.starts_with(prefix))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    fn take(&mut self, root: &Path, path: &str) {
        if let Ok(text) = fs::read_to_string(under(root, path)) {
            self.0.insert(path.to_owned(), text.trim_end().to_owned());
        }
    }

    fn take_groups(&mut self, root: &Path) {
        let groups = self.text("/proc/self/cgroup").unwrap_or("").to_owned();
        for line in groups.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else {
                continue;
            };
            for (controller, files) in GROUP_FILES {
                let is_of_group = controllers.split(',').any(|name| name == *controller);
                if !is_of_group {
                    continue;
                }
                for folder in Path::new(group).ancestors() {
                    let folder = folder.to_string_lossy();
                    let folder =
                        format!("/sys/fs/cgroup/{controller}/{}", folder.trim_matches('/'));
                    for file in *files {
                        let path = format!("{}/{file}", folder.trim_end_matches('/'));
                        self.take(root, &path.replace("//", "/"));
                    }
                }
            }
        }
    }

    /// Captures each device's interface: its queues, their steering to processors, and its
    /// interrupts.
    fn take_interfaces(&mut self, root: &Path) {
        for name in names(root, "/sys/class/net").into_iter().take(INTERFACES_MAX) {
            let folder = format!("/sys/class/net/{name}");
            if !under(root, &format!("{folder}/device")).exists() {
                continue;
            }
            let queues = names(root, &format!("{folder}/queues"));
            for queue in queues.iter().take(QUEUES_MAX) {
                let file = if queue.starts_with("rx") { "rps_cpus" } else { "xps_cpus" };
                let path = format!("{folder}/queues/{queue}/{file}");
                self.take(root, &path);
                self.0.entry(path).or_default();
            }
            let interrupts = names(root, &format!("{folder}/device/msi_irqs"));
            for number in interrupts.iter().take(QUEUES_MAX) {
                let path = format!("/proc/irq/{number}/effective_affinity_list");
                if let Ok(text) = fs::read_to_string(under(root, &path)) {
                    let path = format!("{folder}/interrupts/{number}");
                    self.0.insert(path, text.trim().to_owned());
                }
            }
        }
    }
}

/// Tests it on a thread that ends afterwards.
fn try_private_table() -> String {
    let tried = std::thread::spawn(|| unshare_table(&[]).map_err(|refused| refused.to_string()));
    match tried.join() {
        Ok(Ok(())) => "allowed".into(),
        Ok(Err(reason)) => format!("refused: {reason}"),
        Err(_) => "refused: the test thread panicked".into(),
    }
}

fn under(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

fn names(root: &Path, folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(under(root, folder)).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_can_be_written_and_read() {
        let captured = Captured::read(Path::new("/"));
        assert!(captured.text("/proc/meminfo").unwrap().contains("MemTotal:"));
        let probe = captured.text(PRIVATE_TABLES).unwrap();
        assert!(probe == "allowed" || probe.starts_with("refused: "), "{probe}");
        assert_eq!(Captured::parse(&captured.to_text()), captured);
    }

    #[test]
    fn what_is_not_there_is_missing() {
        let captured = Captured::read(Path::new("/nowhere"));
        assert_eq!(captured, Captured::default());
        assert_eq!(Captured::parse("no such text"), captured);
    }
}
