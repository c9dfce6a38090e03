//! A disk of a few megabytes that can be full: a file system in memory, mounted where only the test
//! sees it.
//!
//! It is in a separate mount namespace, which needs a user namespace but no privileges. The
//! namespace exists as long as the process that was started in it; other processes access it
//! through that process's root.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::Process;

/// The disk. Dropping it removes it.
#[derive(Debug)]
pub struct SmallDisk {
    _holder: Process,
    path: PathBuf,
}

impl SmallDisk {
    /// Creates an empty disk of this size, mounted on an existing folder.
    pub fn new(folder: &Path, bytes: u64) -> SmallDisk {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
        let script =
            "mount -t tmpfs -o \"size=$1\" none \"$0\" && echo mounted && exec sleep infinity";
        command.arg(script).arg(folder).arg(bytes.to_string());
        let mut holder = Process::start(&mut command);
        let what = "mounted disk: this test needs user namespaces, or root with the right to mount";
        holder.wait_for(what, |line| (line == "mounted").then_some(()));
        let folder = folder.strip_prefix("/").expect("an absolute path");
        let path = PathBuf::from(format!("/proc/{}/root", holder.id())).join(folder);
        SmallDisk { _holder: holder, path }
    }

    /// The path of the disk.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Uses up all free room.
    pub fn fill(&self) {
        let mut options = OpenOptions::new();
        let opened = options.append(true).create(true).open(self.ballast());
        let mut ballast = opened.expect("a file on the disk");
        loop {
            match ballast.write(&[0; 4096]) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => return,
                Err(error) => panic!("the disk is not full, but: {error}"),
            }
        }
    }

    /// Frees the room.
    pub fn make_room(&self) {
        fs::remove_file(self.ballast()).expect("the disk was filled");
    }

    fn ballast(&self) -> PathBuf {
        self.path.join("ballast")
    }
}
