//! Signals, all blocked in all threads. One thread waits for SIGINT, SIGTERM, SIGHUP and SIGUSR2. A
//! command that draws on a terminal waits for SIGWINCH. SIGXFSZ stays blocked.
//!
//! No handler ever runs. A handler would have to write to a descriptor, and the I/O threads have
//! descriptor tables of their own, in which the same number is somebody's connection.

use nix::sys::signal::{SigSet, Signal as Number};
use std::thread;

/// A signal that stops the process, or asks a node to reload or upgrade.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// The signal of supervisors.
    Terminate,
    /// Asks a node to reload its files; stops every other command.
    Hangup,
    /// Asks a node to hand over to the program now on disk; stops every other command.
    Upgrade,
}

impl Signal {
    /// The exit code of shells: 128 plus the signal's number.
    pub fn exit_code(self) -> u8 {
        match self {
            Signal::Interrupt => 130,
            Signal::Terminate => 143,
            Signal::Hangup => 129,
            Signal::Upgrade => 140,
        }
    }
}

/// Blocks the signals in this thread and in all that it starts. Call it before any thread exists.
/// Children that are started by `std::process` begin with nothing blocked.
///
/// SIGXFSZ is among them: a write beyond the greatest file size that the process may have (`ulimit
/// -f`) would end the process. Blocked, such a write fails with EFBIG, and a log refuses its
/// publications as on a full disk.
pub fn block() {
    let mut blocked = set();
    blocked.add(Number::SIGXFSZ);
    blocked.add(Number::SIGWINCH);
    // The call fails for invalid arguments only.
    let _ = blocked.thread_block();
}

/// Starts the thread that waits for signals and calls `handle` for each.
pub fn watch(mut handle: impl FnMut(Signal) + Send + 'static) {
    let wait = move || {
        // It begins before the node listens. A refusal leaves a right that this thread never uses.
        let _ = net::system::give_up_start_rights();
        loop {
            match set().wait() {
                Ok(Number::SIGINT) => handle(Signal::Interrupt),
                Ok(Number::SIGTERM) => handle(Signal::Terminate),
                Ok(Number::SIGHUP) => handle(Signal::Hangup),
                Ok(Number::SIGUSR2) => handle(Signal::Upgrade),
                Ok(_) | Err(_) => {}
            }
        }
    };
    if thread::Builder::new().name("signals".into()).spawn(wait).is_err() {
        // Without the thread, the signals must at least stop the process.
        let _ = set().thread_unblock();
    }
}

/// Starts a thread that calls `handle` after each change of the terminal's size, until `handle`
/// returns false. If the thread cannot start, the next redraw finds the new size.
pub fn watch_window(mut handle: impl FnMut() -> bool + Send + 'static) {
    let mut resized = SigSet::empty();
    resized.add(Number::SIGWINCH);
    let wait = move || while resized.wait().is_ok() && handle() {};
    let _ = thread::Builder::new().name("window".into()).spawn(wait);
}

/// Ends the process at a signal: for commands without an orderly end.
pub fn exit_at_signal() {
    watch(|signal| std::process::exit(i32::from(signal.exit_code())));
}

fn set() -> SigSet {
    let mut set = SigSet::empty();
    set.add(Number::SIGINT);
    set.add(Number::SIGTERM);
    set.add(Number::SIGHUP);
    set.add(Number::SIGUSR2);
    set
}
