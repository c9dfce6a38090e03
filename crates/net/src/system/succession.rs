//! What a process inherits from the one that started it to take its place, and the clock that both
//! have.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::stdio::{dup2_stdin, stdin};
use rustix::time::{ClockId, clock_gettime};

/// A copy of standard input, whatever it is.
///
/// # Errors
/// There is none, or no descriptor for it.
pub fn inherited_input() -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(stdin(), 3)?)
}

/// From now on standard input is this; nothing where there is nothing else to be had.
///
/// # Errors
/// What the kernel says.
pub fn replace_input(input: Option<OwnedFd>) -> io::Result<()> {
    let input = match input {
        Some(input) => input,
        None => File::open("/dev/null")?.into(),
    };
    Ok(dup2_stdin(&input)?)
}

/// Nanoseconds of the system's monotonic clock, which all processes share.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
}

/// Ends this process as SIGKILL does: for tests of what becomes of others then.
pub fn die() -> ! {
    let own = rustix::process::getpid();
    // Nothing comes after it where it succeeds.
    let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
    std::process::abort();
}
