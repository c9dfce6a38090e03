//! A memory cgroup of a test's own: what is started in it has so much memory, and no more, and the
//! kernel's killer comes for who takes it.
//!
//! Of version 2 where the memory controller is there, else of version 1. Needs root, or a folder
//! that is ours (delegated).

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

/// The group. It goes with this value; what runs in it has to have ended before.
#[derive(Debug)]
pub struct MemoryGroup {
    folder: PathBuf,
    is_first_version: bool,
}

impl MemoryGroup {
    /// A new group of so many bytes.
    pub fn new(limit_bytes: u64) -> MemoryGroup {
        let root = Path::new("/sys/fs/cgroup");
        let is_first_version = root.join("memory/memory.limit_in_bytes").exists();
        let parent = match is_first_version {
            true => root.join("memory"),
            false => root.to_owned(),
        };
        let folder = parent.join(format!("crore-test-{}", process::id()));
        let what = "a memory cgroup: this needs root and a kernel that has them";
        // Of a test that was killed, when this process's number was another's. One that is in use
        // stays.
        let _ = fs::remove_dir(&folder);
        fs::create_dir(&folder).unwrap_or_else(|error| panic!("{what}: {error}"));
        let group = MemoryGroup { folder, is_first_version };
        let (limit, swap) = match is_first_version {
            true => ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
            false => ("memory.max", "memory.swap.max"),
        };
        let bytes = limit_bytes.to_string();
        fs::write(group.folder.join(limit), &bytes)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        // Where there is no swap there is nothing to limit.
        let swap_bytes = if is_first_version { &bytes } else { "0" };
        let _ = fs::write(group.folder.join(swap), swap_bytes);
        group
    }

    /// The words by which a program is started in it.
    pub fn words(&self) -> Vec<String> {
        let procs = self.folder.join("cgroup.procs");
        let script = format!("echo $$ > {} && exec \"$0\" \"$@\"", procs.display());
        ["sh", "-c", &script].map(str::to_owned).to_vec()
    }

    /// How many the kernel has killed in it for want of memory.
    pub fn killed_count(&self) -> u64 {
        let file = match self.is_first_version {
            true => "memory.oom_control",
            false => "memory.events",
        };
        self.field(file, "oom_kill")
    }

    /// The most bytes that it has had, those of files' pages among them.
    pub fn most_bytes(&self) -> u64 {
        let file = match self.is_first_version {
            true => "memory.max_usage_in_bytes",
            false => "memory.peak",
        };
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
        // An empty one is as good as none.
        let _ = fs::remove_dir(&self.folder);
    }
}
