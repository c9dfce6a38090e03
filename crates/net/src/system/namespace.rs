//! Network namespaces: hosts of their own on this machine, for tests and benchmarks.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::thread::{
    LinkNameSpaceType, UnshareFlags, gettid, move_into_link_name_space, unshare_unsafe,
};

/// A network namespace. It ends with its last thread, socket and value of this type.
#[derive(Debug)]
pub struct NetworkNamespace {
    file: OwnedFd,
    path: String,
}

impl NetworkNamespace {
    /// Creates an empty namespace: its loopback interface is down. The calling thread stays in its
    /// own.
    ///
    /// # Errors
    /// The process lacks CAP_SYS_ADMIN. If the thread cannot return to its own namespace, it is in
    /// the new one.
    pub fn create() -> io::Result<NetworkNamespace> {
        let home = NetworkNamespace::current()?;
        // SAFETY: the call does not touch descriptor tables.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET)? };
        let created = NetworkNamespace::current();
        home.enter()?;
        created
    }

    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// `/proc` is not mounted, or the table has no room.
    pub fn current() -> io::Result<NetworkNamespace> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open("/proc/thread-self/ns/net", flags, Mode::empty())?;
        let process = std::process::id();
        let thread = gettid().as_raw_nonzero();
        let path = format!("/proc/{process}/task/{thread}/fd/{}", file.as_raw_fd());
        Ok(NetworkNamespace { file, path })
    }

    /// Moves the calling thread into the namespace. Its sockets stay where they were opened;
    /// programs that it starts are in the namespace as well.
    ///
    /// # Errors
    /// The process lacks CAP_SYS_ADMIN.
    pub fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// A file that stands for the namespace, for other programs, while the thread that created this
    /// value lives.
    pub fn path(&self) -> &str {
        &self.path
    }
}
