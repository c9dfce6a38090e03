//! The end of listening. Closing a listener resets the connections in its queue, and those that
//! complete their handshake meanwhile: their clients believe that they are connected. So the queue
//! is emptied first, while nothing new can join it.
//!
//! From the start of the end the kernel drops the first packet of every further client
//! (`SO_ATTACH_FILTER`); the client sends it again after a second, is refused, and goes elsewhere.
//! A client whose handshake has begun may complete it for [`LISTENERS_END`], and is accepted.
//! Invariants: a listener is closed only when a poll has found its queue empty, or [`EMPTYING_MAX`]
//! later; a socket that other processes listen on is neither filtered nor emptied, because they
//! serve its queue.

use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use super::Kernel;
use crate::LISTENERS_END;

/// Additional time after which a listener is closed even if its queue is not empty.
const EMPTYING_MAX: Duration = Duration::from_secs(1);

impl Kernel {
    /// Closes all listeners, for good. The kernel resets the connections in their queues.
    pub fn close_listeners(&mut self) {
        self.retire_at = None;
        self.listeners.clear();
        self.handover.pause();
    }

    pub(super) fn begin_to_retire(&mut self) {
        if self.retire_at.is_some() || self.listeners.is_empty() {
            return;
        }
        if self.listeners.iter().all(|listener| listener.is_inherited) {
            return self.close_listeners();
        }
        for listener in &mut self.listeners {
            if listener.is_inherited {
                // Other processes serve its queue.
                listener.is_over = true;
            } else {
                // Without the filter a few more clients may be reset; nothing else.
                let _ = refuse_handshakes(&listener.socket);
            }
        }
        // Connections that were held back are accepted now.
        self.paused = false;
        self.handover.resume();
        self.watch_listeners();
        self.retire_at = Some(Instant::now() + LISTENERS_END);
    }

    /// Closes the listeners if their time is over and their queues are empty: `is_quiet` is true if
    /// this poll would have reported a waiting connection.
    pub(super) fn retire(&mut self, is_quiet: bool) {
        let Some(at) = self.retire_at else {
            return;
        };
        let now = Instant::now();
        let is_due = is_quiet && self.accept_retry_at.is_none() && at <= now;
        if is_due || at + EMPTYING_MAX <= now {
            self.close_listeners();
        }
    }
}

/// Lets the kernel drop segments that begin a connection, and no others.
fn refuse_handshakes(socket: &impl AsRawFd) -> io::Result<()> {
    /// Offset of the flags in a TCP header, with which packets of a socket's filter begin.
    const FLAGS: u32 = 13;
    const SYN: u32 = 0x02;
    const SYN_OR_ACK: u32 = 0x12;
    const WHOLE: u32 = u32::MAX;
    let step = |code: u32, jump_if: u8, jump_else: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: jump_if,
        jf: jump_else,
        k,
    };
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, FLAGS),
        step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, SYN_OR_ACK),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, SYN),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, WHOLE),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the kernel copies the program, of `len` steps, before the call returns; both outlive
    // it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
