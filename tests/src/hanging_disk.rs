//! A disk that hangs when a test says so: syncs of files take as long as it lasts.
//!
//! The program is started with a library before its own that waits in `fdatasync`. That is the
//! system's linker's doing, and takes a C compiler, which whoever has built the program has. (A
//! tracer that delays the call holds the program's end up, too.)

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
    /// One in the folder of a server.
    pub fn new(place: &Place) -> HangingDisk {
        let (source, library) = (place.path("disk.c"), place.path("disk.so"));
        fs::write(&source, SOURCE).expect("the folder is ours");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(&library);
        assert_success(compiler.arg(&source));
        let hangs = place.path("disk-hangs");
        HangingDisk { library, hangs }
    }

    /// What starts a server on it ([`Place::launch_by`]).
    pub fn words(&self) -> [String; 3] {
        [
            "env".to_owned(),
            format!("LD_PRELOAD={}", self.library.display()),
            format!("DISK_HANGS={}", self.hangs.display()),
        ]
    }

    /// From now on.
    pub fn hang(&self) {
        fs::write(&self.hangs, "").expect("the folder is ours");
    }

    /// It goes on.
    pub fn go_on(&self) {
        fs::remove_file(&self.hangs).expect("it hangs");
    }
}
