//! The kernel's figures about the processes of a run, and about the machine.
//!
//! Place: read by the run once per interval. Parsers are pure; a file that the kernel does not
//! offer leaves its figure out.

use serde::{Deserialize, Serialize};

use crate::machine::kibibytes;

/// One process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessFigures {
    /// User and system time since its start, in seconds.
    pub cpu_s: f64,
    /// CPU time in system mode, in seconds.
    pub system_s: f64,
    /// Threads.
    pub threads: u64,
    /// User-space memory: the proportional set size.
    pub pss_bytes: Option<u64>,
    /// Its part without files. The program's own pages count less with every process that runs it,
    /// and a run starts some, so differences are taken of this.
    pub anonymous_bytes: Option<u64>,
}

impl ProcessFigures {
    /// The figures now; none of a process that is gone.
    pub fn read(pid: u32) -> Option<ProcessFigures> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let ticks_per_s = rustix::param::clock_ticks_per_second() as f64;
        let mut figures = ProcessFigures::parse(&stat, ticks_per_s)?;
        let memory =
            std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        figures.pss_bytes = kibibytes(&memory, "Pss:");
        let file_bytes = kibibytes(&memory, "Pss_File:").unwrap_or(0);
        figures.anonymous_bytes = figures.pss_bytes.map(|bytes| bytes.saturating_sub(file_bytes));
        Some(figures)
    }

    /// Reads `/proc/PID/stat`. The command's name, in parentheses, may hold anything; fields are
    /// counted behind it.
    fn parse(stat: &str, ticks_per_s: f64) -> Option<ProcessFigures> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
        let (user, system) = (number(11)? as f64, number(12)? as f64);
        Some(ProcessFigures {
            cpu_s: (user + system) / ticks_per_s,
            system_s: system / ticks_per_s,
            threads: number(17)?,
            ..ProcessFigures::default()
        })
    }
}

/// The machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineFigures {
    /// Slab of the kernel, in bytes: sockets above all. What it could give back, caches of files,
    /// is left out where `/proc/slabinfo` may be read.
    pub slab_bytes: Option<u64>,
    /// Buffers of TCP sockets, in bytes.
    pub tcp_bytes: Option<u64>,
    /// TCP sockets of all programs.
    pub tcp_sockets: Option<u64>,
    /// Memory that the machine can still give.
    pub available_bytes: Option<u64>,
    /// Seconds of all cores that were busy since the start of the machine.
    pub busy_s: Option<f64>,
    /// Seconds that the hypervisor gave to others.
    pub steal_s: Option<f64>,
}

impl MachineFigures {
    /// The figures now.
    pub fn read() -> MachineFigures {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let memory = read("/proc/meminfo").unwrap_or_default();
        let stat = read("/proc/stat").unwrap_or_default();
        let sockets = read("/proc/net/sockstat").unwrap_or_default();
        let ticks_per_s = rustix::param::clock_ticks_per_second() as f64;
        let times = times(&stat, ticks_per_s);
        MachineFigures {
            slab_bytes: slab_bytes(&memory, read("/proc/slabinfo").as_deref()),
            available_bytes: kibibytes(&memory, "MemAvailable:"),
            tcp_bytes: tcp_field(&sockets, "mem")
                .map(|pages| pages * rustix::param::page_size() as u64),
            tcp_sockets: tcp_field(&sockets, "alloc"),
            busy_s: times.map(|(busy_s, _)| busy_s),
            steal_s: times.map(|(_, steal_s)| steal_s),
        }
    }
}

/// Facts that do not change during a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineFacts {
    /// Cores that this process may use.
    pub cores: u64,
    /// The processor's name.
    pub processor: Option<String>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// The kernel's release.
    pub kernel: Option<String>,
}

impl MachineFacts {
    /// Reads them.
    pub fn read() -> MachineFacts {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let processor = read("/proc/cpuinfo").and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        });
        MachineFacts {
            cores: super::cores::Cores::available().0.len() as u64,
            processor,
            memory_bytes: read("/proc/meminfo").and_then(|text| kibibytes(&text, "MemTotal:")),
            kernel: read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
        }
    }
}

/// Slab without caches of files. An open socket's inode and directory entry count as reclaimable
/// and are not.
fn slab_bytes(memory: &str, slabs: Option<&str>) -> Option<u64> {
    let of_sockets =
        |slabs| Some(cache_bytes(slabs, "sock_inode_cache")? + cache_bytes(slabs, "dentry")?);
    match slabs.and_then(of_sockets) {
        Some(bytes) => Some(kibibytes(memory, "SUnreclaim:")? + bytes),
        None => kibibytes(memory, "Slab:"),
    }
}

/// A cache's pages in `/proc/slabinfo`, version 2.1, in bytes.
fn cache_bytes(slabs: &str, name: &str) -> Option<u64> {
    let mut lines = slabs.lines().map(|line| line.split_ascii_whitespace());
    let fields: Vec<&str> = lines.find(|fields| fields.clone().next() == Some(name))?.collect();
    let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
    let pages = number(5)?.checked_mul(number(14)?)?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

/// A field of all TCP sockets, of `/proc/net/sockstat`.
fn tcp_field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("TCP:"))?;
    let mut words = line.split_ascii_whitespace();
    words.find(|word| *word == name)?;
    words.next()?.parse().ok()
}

/// Busy and stolen seconds of all cores, of `/proc/stat`.
fn times(text: &str, ticks_per_s: f64) -> Option<(f64, f64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<f64> =
        line.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal
    let of = |places: &[usize]| -> Option<f64> {
        places.iter().map(|place| fields.get(*place).copied()).sum()
    };
    Some((of(&[0, 1, 2, 5, 6])? / ticks_per_s, of(&[7])? / ticks_per_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel() {
        let stat = "7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 150 50 0 0 20 0 9 0 1 0 0";
        let figures = ProcessFigures::parse(stat, 100.0).unwrap();
        assert_eq!((figures.cpu_s, figures.system_s, figures.threads), (2.0, 0.5, 9));
        assert_eq!(ProcessFigures::parse("7 (a", 100.0), None);
        assert_eq!(kibibytes("Rss: 1 kB\nPss:   3 kB\n", "Pss:"), Some(3_072));
        assert_eq!(kibibytes("Pss: x kB", "Pss:"), None);
        let sockets =
            "sockets: used 9\nTCP: inuse 5 orphan 0 tw 1 alloc 8 mem 42\nUDP: inuse 0 mem 0\n";
        assert_eq!(tcp_field(sockets, "mem"), Some(42));
        assert_eq!(tcp_field(sockets, "alloc"), Some(8));
        assert_eq!(tcp_field("TCP: inuse 5", "mem"), None);
        let times = times("cpu  100 0 200 900 5 0 50 25 0 0\ncpu0 1\n", 100.0);
        assert_eq!(times, Some((3.5, 0.25)));
    }

    #[test]
    fn slab_is_that_of_sockets_without_caches_of_files() {
        let memory = "Slab:  9000 kB\nSReclaimable:  5000 kB\nSUnreclaim:  4000 kB\n";
        let cache = |name, pages: u64, slabs: u64| {
            format!("{name} 1 2 832 19 {pages} : tunables 0 0 0 : slabdata 1 {slabs} 0\n")
        };
        let inodes = cache("sock_inode_cache", 4, 10);
        let files = cache("ext4_inode_cache", 8, 1_000);
        let all = format!("slabinfo - version: 2.1\n{files}{inodes}{}", cache("dentry", 1, 3));
        let page = rustix::param::page_size() as u64;
        assert_eq!(slab_bytes(memory, Some(&all)), Some(4_000 * 1_024 + 43 * page));
        for unreadable in [None, Some(inodes.as_str()), Some("sock_inode_cache 1 2\ndentry\n")] {
            assert_eq!(slab_bytes(memory, unreadable), Some(9_000 * 1_024));
        }
    }

    #[test]
    fn this_machine() {
        let own = ProcessFigures::read(std::process::id()).unwrap();
        assert!(own.threads > 0 && own.pss_bytes.is_none_or(|bytes| bytes > 100_000));
        assert_eq!(ProcessFigures::read(u32::MAX), None);
        assert!(MachineFacts::read().cores > 0);
        assert!(MachineFigures::read().available_bytes.is_none_or(|bytes| bytes > 0));
    }
}
