//! The limit of an exhausted resource, in words: `open files: 1,024 of 1,024`.
//!
//! Files of the system are opened at the start and read again from their beginnings, because a
//! process without free descriptors cannot open them. The text omits unreadable values.

use super::{Sample, Shortage, held};
use crate::doctor::{bytes, count};
use net::system::nofile_limit;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// The files with the limits.
#[derive(Debug)]
pub struct Limits {
    file_nr: Source,
    meminfo: Source,
    sockstat: Source,
    tcp_mem: Source,
    watches: Source,
}

/// A small file of the system, if it exists.
#[derive(Debug)]
struct Source(Option<File>);

impl Limits {
    /// Opens the existing files.
    pub fn open() -> Limits {
        let open = |path: &str| Source(File::open(path).ok());
        Limits {
            file_nr: open("/proc/sys/fs/file-nr"),
            meminfo: open("/proc/meminfo"),
            sockstat: open("/proc/net/sockstat"),
            tcp_mem: open("/proc/sys/net/ipv4/tcp_mem"),
            watches: open("/proc/sys/fs/epoll/max_user_watches"),
        }
    }

    /// The limit and the used amount.
    pub fn text(&self, shortage: Shortage, sample: &Sample) -> String {
        match shortage {
            Shortage::Connections => format!(
                "connections: {} of {}",
                count(held(&sample.sockets).min(sample.connections_max)),
                count(sample.connections_max)
            ),
            Shortage::Descriptors => {
                let limit = nofile_limit().soft;
                let used = fullest_table().unwrap_or(limit);
                format!(
                    "open files: {} of {} in a descriptor table (ulimit -n)",
                    count(used),
                    count(limit)
                )
            }
            Shortage::Files => {
                of("open files of the machine", files(&self.file_nr.read())) + " (fs.file-max)"
            }
            Shortage::Memory => match memory(&self.meminfo.read()) {
                Some((available, total)) => {
                    format!("memory: {} of {} available", bytes(available), bytes(total))
                }
                None => "memory".into(),
            },
            Shortage::Watches => {
                let max = self
                    .watches
                    .read()
                    .trim()
                    .parse()
                    .map_or_else(|_| String::new(), |max| format!(" at most {}", count(max)));
                format!("epoll watches of this user:{max} (fs.epoll.max_user_watches)")
            }
            Shortage::Retention | Shortage::Retained | Shortage::Mirrors => {
                "the disk of a log".into()
            }
            Shortage::TcpMemory => {
                let page = rustix::param::page_size() as u64;
                let pages = tcp_pages(&self.sockstat.read(), &self.tcp_mem.read());
                match pages {
                    Some((used, max)) => {
                        // Cgroups have limits of their own, which may be the cause.
                        let or = if used < max / 4 * 3 { ", or of a group" } else { "" };
                        format!(
                            "TCP memory: {} of {} (net.ipv4.tcp_mem{or})",
                            bytes(used * page),
                            bytes(max * page)
                        )
                    }
                    None => "TCP memory (net.ipv4.tcp_mem)".into(),
                }
            }
        }
    }
}

impl Source {
    fn read(&self) -> String {
        let mut buffer = [0; 4096];
        let read = self.0.as_ref().map(|file| file.read_at(&mut buffer, 0));
        let length = read.and_then(Result::ok).unwrap_or(0);
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }
}

fn of(what: &str, share: Option<(u64, u64)>) -> String {
    match share {
        Some((used, max)) => format!("{what}: {} of {}", count(used), count(max)),
        None => what.into(),
    }
}

/// Descriptors of the thread with the most; none if the system does not report them (Linux before
/// 6.2), or if no file can be opened.
fn fullest_table() -> Option<u64> {
    let threads = fs::read_dir("/proc/self/task").ok()?;
    threads
        .filter_map(|thread| fs::metadata(thread.ok()?.path().join("fd")).ok())
        .map(|folder| folder.len())
        .max()
        .filter(|count| *count > 0)
}

/// Reads `/proc/sys/fs/file-nr`: open files and their maximum.
fn files(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.nth(1)?.ok()?))
}

/// Reads `/proc/meminfo`: available and total bytes.
fn memory(text: &str) -> Option<(u64, u64)> {
    let field = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kibibytes: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kibibytes << 10)
    };
    Some((field("MemAvailable:")?, field("MemTotal:")?))
}

/// Reads `/proc/net/sockstat` and `tcp_mem`: used and maximum pages of TCP.
fn tcp_pages(sockstat: &str, tcp_mem: &str) -> Option<(u64, u64)> {
    let line = sockstat.lines().find_map(|line| line.strip_prefix("TCP:"))?;
    let mut words = line.split_ascii_whitespace();
    words.find(|word| *word == "mem")?;
    let used = words.next()?.parse().ok()?;
    let max = tcp_mem.split_ascii_whitespace().nth(2)?.parse().ok()?;
    Some((used, max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says() {
        assert_eq!(files("5184\t0\t2466170\n"), Some((5184, 2_466_170)));
        assert_eq!(files(""), None);
        let meminfo = "MemTotal:       24664848 kB\nMemFree: 1 kB\nMemAvailable:   1024 kB\n";
        assert_eq!(memory(meminfo), Some((1 << 20, 24_664_848 << 10)));
        let sockstat =
            "sockets: used 9\nTCP: inuse 5 orphan 0 tw 2 alloc 9 mem 31\nUDP: inuse 0 mem 0\n";
        assert_eq!(tcp_pages(sockstat, "1\t2\t300\n"), Some((31, 300)));
        assert_eq!(tcp_pages(sockstat, ""), None);
    }

    #[test]
    fn a_source_is_read_anew_each_time() {
        let limits = Limits::open();
        for _ in 0..2 {
            assert!(memory(&limits.meminfo.read()).is_some());
            assert!(files(&limits.file_nr.read()).is_some());
        }
        assert_eq!(Source(None).read(), "");
    }
}
