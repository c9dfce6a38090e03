//! The memory limit and use of the process: of its cgroup (version 1 or 2), whose OOM killer would
//! end it, or of the process alone.
//!
//! Only memory that the kernel cannot reclaim counts: memory without a file, shared memory
//! (segments of logs), and in a cgroup also kernel memory, socket buffers included. Page cache does
//! not count.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The ceiling in percent of a limit that the system sets; the rest is for growth between two
/// measurements.
const CEILING_PART: u64 = 90;
/// A cgroup with this limit or more has none.
const NO_LIMIT: u64 = 1 << 60;

/// The files of the figures. They stay open, because a process that is short of memory should not
/// have to open files.
#[derive(Debug)]
pub(super) struct Source {
    ceiling: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// `/proc/self/status`.
    Own { status: File, name: &'static str },
    /// `memory.stat` of a cgroup of version 2.
    Group2 { stat: File },
    /// `memory.stat` of one of version 1, and what the kernel and its sockets have.
    Group1 { stat: File, kernel: Option<File> },
}

/// A cgroup with a limit.
#[derive(PartialEq, Eq, Debug)]
struct Group {
    folder: PathBuf,
    limit: u64,
    is_first_version: bool,
}

impl Source {
    /// With the ceiling that was asked for, or the one that the system sets. None where the system
    /// tells nothing.
    pub fn open(asked: Option<u64>) -> Option<Source> {
        let own = |name| {
            let status = File::open("/proc/self/status").ok()?;
            Some(Kind::Own { status, name })
        };
        if let Some(ceiling) = asked {
            let kind = own("limits.memory_bytes_max")?;
            return Some(Source { ceiling, kind });
        }
        let machine = field(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")? << 10;
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let group = tightest(Path::new("/sys/fs/cgroup"), &groups);
        let group = group.filter(|group| group.limit < machine);
        let limit = group.as_ref().map_or(machine, |group| group.limit);
        let kind = match group.and_then(|group| group.open()) {
            Some(kind) => kind,
            None => own("machine")?,
        };
        Some(Source { ceiling: limit / 100 * CEILING_PART, kind })
    }

    pub fn ceiling_bytes(&self) -> u64 {
        self.ceiling
    }

    /// Whose limit it is.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Own { name, .. } => name,
            Kind::Group1 { .. } | Kind::Group2 { .. } => "cgroup",
        }
    }

    /// Bytes in use now.
    pub fn used_bytes(&self) -> Option<u64> {
        match &self.kind {
            Kind::Own { status, .. } => own_bytes(&read(status)?),
            Kind::Group2 { stat } => second_version_bytes(&read(stat)?),
            Kind::Group1 { stat, kernel } => {
                let kernel = kernel.as_ref().and_then(|file| {
                    let text = read(file)?;
                    text.trim().parse::<u64>().ok()
                });
                Some(first_version_bytes(&read(stat)?)? + kernel.unwrap_or(0))
            }
        }
    }
}

impl Group {
    fn open(&self) -> Option<Kind> {
        let open = |name| File::open(self.folder.join(name)).ok();
        let stat = open("memory.stat")?;
        Some(if self.is_first_version {
            Kind::Group1 { stat, kernel: open("memory.kmem.usage_in_bytes") }
        } else {
            Kind::Group2 { stat }
        })
    }
}

/// The group with the lowest limit, of those of the process (`/proc/self/cgroup`) and the groups
/// around them.
fn tightest(root: &Path, groups: &str) -> Option<Group> {
    let mut tightest: Option<Group> = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let is_first_version = controllers.split(',').any(|name| name == "memory");
        if !is_first_version && !controllers.is_empty() {
            continue;
        }
        let (root, file) = if is_first_version {
            (root.join("memory"), "memory.limit_in_bytes")
        } else {
            (root.to_owned(), "memory.max")
        };
        // In a container the path may be the host's, which is not there: then the root is the
        // container's own group.
        let own = root.join(path.trim_start_matches('/'));
        for folder in own.ancestors().take_while(|folder| folder.starts_with(&root)) {
            let limit = fs::read_to_string(folder.join(file)).ok();
            let limit = limit.and_then(|text| text.trim().parse::<u64>().ok());
            let Some(limit) = limit.filter(|limit| *limit < NO_LIMIT) else {
                continue;
            };
            if tightest.as_ref().is_none_or(|group| limit < group.limit) {
                tightest = Some(Group { folder: folder.to_owned(), limit, is_first_version });
            }
        }
    }
    tightest
}

fn own_bytes(status: &str) -> Option<u64> {
    let anonymous = field(status, "RssAnon:")?;
    let shared = field(status, "RssShmem:")?;
    Some((anonymous + shared) << 10)
}

/// Anonymous and shared memory, and the kernel's: as one number, or by its parts where that is not
/// told.
fn second_version_bytes(stat: &str) -> Option<u64> {
    let of = |name| field(stat, name).unwrap_or(0);
    let kernel = field(stat, "kernel ").unwrap_or_else(|| {
        of("kernel_stack ") + of("pagetables ") + of("percpu ") + of("slab_unreclaimable ")
    });
    Some(field(stat, "anon ")? + of("shmem ") + kernel + of("sock "))
}

fn first_version_bytes(stat: &str) -> Option<u64> {
    let shared = field(stat, "total_shmem ").unwrap_or(0);
    Some(field(stat, "total_rss ")? + shared)
}

/// The number behind a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn read(file: &File) -> Option<String> {
    let mut buffer = [0; 8_192];
    let length = file.read_at(&mut buffer, 0).ok()?;
    Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts() {
        let status = "VmRSS:\t  90 kB\nRssAnon:\t  50 kB\nRssFile:\t 30 kB\nRssShmem:\t 10 kB\n";
        assert_eq!(own_bytes(status), Some(60 << 10));
        let stat = "anon 1000\nfile 5000\nkernel 300\nkernel_stack 7\nshmem 200\nsock 40\n";
        assert_eq!(second_version_bytes(stat), Some(1_540));
        let older = "anon 1000\nfile 5000\nkernel_stack 7\nslab_unreclaimable 3\nshmem 200\n";
        assert_eq!(second_version_bytes(older), Some(1_210));
        assert_eq!(first_version_bytes("rss 1\ntotal_rss 70\ntotal_shmem 5\n"), Some(75));
        assert_eq!(first_version_bytes(""), None);
    }

    #[test]
    fn the_tightest_group_counts() {
        let root = std::env::temp_dir().join(format!("crore-cgroup-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let put = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("a/memory.max", "4000\n");
        put("a/b/memory.max", "max\n");
        put("memory/x/memory.limit_in_bytes", "9223372036854771712\n");
        put("memory/memory.limit_in_bytes", "3000\n");
        let second = tightest(&root, "0::/a/b\n").unwrap();
        assert_eq!((second.folder, second.limit), (root.join("a"), 4_000));
        assert!(!second.is_first_version);
        let first = tightest(&root, "4:cpu,memory:/x\n0::/a/b\n").unwrap();
        assert_eq!((first.folder, first.limit), (root.join("memory"), 3_000));
        assert!(first.is_first_version);
        // The path is the host's.
        assert_eq!(tightest(&root, "4:memory:/not/here\n").unwrap().limit, 3_000);
        assert_eq!(tightest(&root, "0::/elsewhere\n5:cpu:/a\n"), None);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn this_process_has_memory_and_a_ceiling() {
        for asked in [None, Some(1 << 30)] {
            let source = Source::open(asked).unwrap();
            assert!(source.ceiling_bytes() > 1 << 20);
            assert!(source.used_bytes().unwrap() > 1 << 16);
        }
    }
}
