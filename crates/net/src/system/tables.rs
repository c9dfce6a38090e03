//! Descriptor tables: a private one for a thread, and the limit that applies to each.
//!
//! A private table takes the kernel's lock on the process's table out of accept and close, and
//! `RLIMIT_NOFILE` counts for each table alone, so that a process can hold as many connections as
//! it has threads times the limit. The price: a descriptor number means something only on the
//! threads that share its table. Whatever is to be used on such a thread is either opened there,
//! kept from before under the same number, or received over a socket (`SCM_RIGHTS`).

use std::fmt;
use std::io;
use std::os::fd::RawFd;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The reason why a thread has no table of its own; it uses the shared one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableRefused {
    /// A sandbox forbids the call (`EPERM`), as many containers do.
    Forbidden,
    /// The kernel is older than 5.9, or a sandbox pretends so (`ENOSYS`).
    Unsupported,
    /// Anything else, by its error number: memory or the limit is exhausted.
    Failed(i32),
}

impl fmt::Display for TableRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableRefused::Forbidden => f.write_str("close_range is forbidden (EPERM)"),
            TableRefused::Unsupported => f.write_str("close_range is not supported (ENOSYS)"),
            TableRefused::Failed(code) => {
                write!(f, "close_range: {}", io::Error::from_raw_os_error(*code))
            }
        }
    }
}

impl std::error::Error for TableRefused {}

/// Gives the calling thread a descriptor table of its own that holds 0, 1, 2 and `keep`, in any
/// order. The other threads' table is not touched.
///
/// Call it first on a new thread, while other threads live: on the only thread of a process it
/// would close the descriptors for good. Values on this thread's stack that own descriptors outside
/// `keep` must not be dropped on it later.
///
/// # Errors
/// [`TableRefused`]; then nothing has changed.
pub fn unshare_table(keep: &[RawFd]) -> Result<(), TableRefused> {
    let mut kept: Vec<u32> =
        keep.iter().filter_map(|&number| u32::try_from(number).ok()).chain([0, 1, 2]).collect();
    kept.sort_unstable();
    kept.dedup();
    let last = kept[kept.len() - 1];
    // The tail first: with it the kernel copies only the numbers below, and only this call can
    // fail.
    close_range(last + 1, u32::MAX, libc::CLOSE_RANGE_UNSHARE)?;
    for pair in kept.windows(2) {
        if pair[1] - pair[0] > 1 {
            close_range(pair[0] + 1, pair[1] - 1, 0)?;
        }
    }
    Ok(())
}

/// The descriptor limit of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NofileLimit {
    /// The limit in force, in descriptors; `u64::MAX` without limit.
    pub soft: u64,
    /// The limit to which an unprivileged process may raise it.
    pub hard: u64,
}

/// The present limit.
pub fn nofile_limit() -> NofileLimit {
    let limit = getrlimit(Resource::Nofile);
    NofileLimit { soft: limit.current.unwrap_or(u64::MAX), hard: limit.maximum.unwrap_or(u64::MAX) }
}

/// Raises the soft limit to the hard one, for the whole process, and returns the limit in force. If
/// the system refuses, the limit stays.
pub fn raise_nofile_limit() -> NofileLimit {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // The returned limit shows a refusal.
        let _ =
            setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    nofile_limit()
}

/// Number of open descriptors below `numbers_max` in the calling thread's table.
pub(crate) fn open_count(numbers_max: u32) -> u32 {
    let is_open = |number: &u32| {
        // SAFETY: F_GETFD reads a flag of whatever the number names, or fails; it changes nothing.
        unsafe { libc::fcntl(*number as RawFd, libc::F_GETFD) >= 0 }
    };
    (0..numbers_max).filter(is_open).count() as u32
}

fn close_range(first: u32, last: u32, flags: u32) -> Result<(), TableRefused> {
    // SAFETY: no memory is passed. The contract of `unshare_table` says that descriptors outside
    // `keep` are gone from this thread, so that no owner of one is used or dropped on it.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    if result == 0 {
        return Ok(());
    }
    Err(match io::Error::last_os_error().raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => TableRefused::Forbidden,
        Some(libc::ENOSYS | libc::EINVAL) => TableRefused::Unsupported,
        code => TableRefused::Failed(code.unwrap_or(0)),
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::thread;

    use super::*;

    #[test]
    fn a_private_table_holds_what_was_kept_and_nothing_else() {
        let open: Vec<_> = (0..8)
            .map(|_| rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).expect("room"))
            .collect();
        let numbers: Vec<RawFd> = open.iter().map(AsRawFd::as_raw_fd).collect();
        let keep = vec![numbers[6], numbers[1], numbers[3], numbers[3]];
        let (is_open, count) = thread::spawn({
            let numbers = numbers.clone();
            move || {
                unshare_table(&keep).expect("a table of its own");
                // SAFETY: as in `open_count`.
                let is_open = |n: &RawFd| unsafe { libc::fcntl(*n, libc::F_GETFD) >= 0 };
                (numbers.iter().map(is_open).collect::<Vec<_>>(), open_count(1024))
            }
        })
        .join()
        .expect("the thread ends");
        assert_eq!(is_open, [false, true, false, true, false, false, true, false]);
        assert_eq!(count, 3 + 3);
        for descriptor in &open {
            rustix::io::fcntl_getfd(descriptor).expect("untouched in the shared table");
        }
    }

    #[test]
    fn the_limit_is_raised_to_the_hard_one() {
        let limit = raise_nofile_limit();
        assert_eq!(limit, nofile_limit());
        assert_eq!(limit.soft, limit.hard);
    }
}
