//! A memory cgroup for one test: the programs in it have a memory limit, and the kernel kills one
//! that exceeds it.
//!
//! Uses version 2 if its memory controller is available, else version 1. Needs root, or a delegated
//! folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

/// The group. Dropping it removes it; its programs must have ended before.
#[derive(Debug)]
pub struct MemoryGroup {
    folder: PathBuf,
    is_first_version: bool,
}

impl MemoryGroup {
    /// Creates a group with this limit.
    pub fn new(limit_bytes: u64) -> MemoryGroup {
        let root = Path::new("/sys/fs/cgroup");
        let is_first_version = root.join("memory/memory.limit_in_bytes").exists();
        let parent = if is_first_version { root.join("memory") } else { root.to_owned() };
        let folder = parent.join(format!("crore-test-{}", process::id()));
        let what = "a memory cgroup: this needs root and a kernel that has them";
        // The remains of a killed test whose process had this number. A group in use stays.
        let _ = fs::remove_dir(&folder);
        fs::create_dir(&folder).unwrap_or_else(|error| panic!("{what}: {error}"));
        let group = MemoryGroup { folder, is_first_version };
        let (limit, swap) = if is_first_version {
            ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
        } else {
            ("memory.max", "memory.swap.max")
        };
        let bytes = limit_bytes.to_string();
        fs::write(group.folder.join(limit), &bytes)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        // Without swap there is nothing to limit.
        let swap_bytes = if is_first_version { &bytes } else { "0" };
        let _ = fs::write(group.folder.join(swap), swap_bytes);
        group
    }

    /// The words that start a program in it.
    pub fn words(&self) -> Vec<String> {
        let procs = self.folder.join("cgroup.procs");
        let script = format!("echo $$ > {} && exec \"$0\" \"$@\"", procs.display());
        ["sh", "-c", &script].map(str::to_owned).to_vec()
    }

    /// The number of its processes that the kernel has killed for lack of memory.
    pub fn killed_count(&self) -> u64 {
        let file = if self.is_first_version { "memory.oom_control" } else { "memory.events" };
        self.field(file, "oom_kill")
    }

    /// Its maximum size in bytes, with pages of files.
    pub fn most_bytes(&self) -> u64 {
        let file = if self.is_first_version { "memory.max_usage_in_bytes" } else { "memory.peak" };
        let text = self.read(file);
        text.trim().parse().expect("a number")
    }

    fn field(&self, file: &str, name: &str) -> u64 {
        let text = self.read(file);
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let found = lines.find(|(own, _)| *own == name);
        let value = found.and_then(|(_, value)| value.trim().parse().ok());
        value.unwrap_or_else(|| panic!("no {name} in {file}:\n{text}"))
    }

    fn read(&self, file: &str) -> String {
        let path = self.folder.join(file);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // An empty group does no harm.
        let _ = fs::remove_dir(&self.folder);
    }
}
