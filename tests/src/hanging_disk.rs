//! A disk that hangs when a test requests it: syncs of files block for the duration.
//!
//! The program is started with a preloaded library that waits in `fdatasync`. The system's linker
//! does that, and it needs a C compiler, which exists wherever the program was built. (A tracer
//! that delays the call also delays the program's end.)

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::process::assert_success;
use crate::server::Place;

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int fdatasync(int file) {
    const char *hangs = getenv("DISK_HANGS");
    while (hangs && access(hangs, F_OK) == 0)
        usleep(10000);
    return syscall(SYS_fdatasync, file);
}
"#;

/// The disk; it works until it hangs.
#[derive(Debug)]
pub struct HangingDisk {
    library: PathBuf,
    hangs: PathBuf,
}

impl HangingDisk {
    /// Creates a disk in the folder of a server.
    pub fn new(place: &Place) -> HangingDisk {
        let (source, library) = (place.path("disk.c"), place.path("disk.so"));
        fs::write(&source, SOURCE).expect("the folder is ours");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(&library);
        assert_success(compiler.arg(&source));
        let hangs = place.path("disk-hangs");
        HangingDisk { library, hangs }
    }

    /// The words that start a server on it ([`Place::launch_by`]).
    pub fn words(&self) -> [String; 3] {
        [
            "env".to_owned(),
            format!("LD_PRELOAD={}", self.library.display()),
            format!("DISK_HANGS={}", self.hangs.display()),
        ]
    }

    /// Makes the disk hang from now on.
    pub fn hang(&self) {
        fs::write(&self.hangs, "").expect("the folder is ours");
    }

    /// Ends the hang.
    pub fn go_on(&self) {
        fs::remove_file(&self.hangs).expect("it hangs");
    }
}
