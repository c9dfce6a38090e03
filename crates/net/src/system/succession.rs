//! The inheritance of a process that takes the place of another one: standard input, and the clock
//! that both share.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::stdio::{dup2_stdin, stdin};
use rustix::time::{ClockId, clock_gettime};

/// A copy of standard input.
///
/// # Errors
/// There is no standard input, or no room for a descriptor.
pub fn inherited_input() -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(stdin(), 3)?)
}

/// Replaces standard input: by this descriptor, or by an empty input.
///
/// # Errors
/// The kernel's error.
pub fn replace_input(input: Option<OwnedFd>) -> io::Result<()> {
    let input = match input {
        Some(input) => input,
        None => File::open("/dev/null")?.into(),
    };
    Ok(dup2_stdin(&input)?)
}

/// The system's monotonic clock in nanoseconds; all processes share it.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
}

/// Ends this process by SIGKILL, for tests of the remaining processes.
pub fn die() -> ! {
    let own = rustix::process::getpid();
    // It does not return if it succeeds.
    let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
    std::process::abort();
}
