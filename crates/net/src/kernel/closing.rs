//! Closing connections: at once, by reset, or after the peer has read the last bytes.
//!
//! `close(2)` of a socket with unread or arriving bytes sends RST, and the peer's kernel may then
//! discard the last written bytes (RFC 9112, 9.6). So a graceful close ends
//! our direction only, and discards the peer's bytes until it ends too or `linger_timeout` is over.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::net::{Shutdown, shutdown, sockopt};

use super::slots::{LINGERING, REFUSED, Slots, Socket};
use super::{How, Kernel};
use crate::Conn;
use crate::counters::Count;

/// Bytes discarded at once, without copying, and the number of times in one turn: a peer that sends
/// faster gets no orderly end.
const DISCARD_BYTES: usize = 1 << 20;
const DISCARD_TIMES_MAX: usize = 16;

enum Discarded {
    Ended,
    Empty,
}

impl Kernel {
    /// Carries out the closes requested since the last poll.
    pub(super) fn carry_out_closes(&mut self) {
        while let Some((index, how)) = self.closing.pop() {
            match how {
                How::Lost => self.release(index),
                How::Reset => {
                    // RST instead of FIN; without it the close is orderly, which does no harm.
                    let _ = self.with_socket(index, |socket| {
                        sockopt::set_socket_linger(socket, Some(Duration::ZERO))
                    });
                    self.release(index);
                }
                How::Graceful => self.end(index),
            }
        }
        if self.closing.capacity() > 1024 {
            self.closing = Vec::new();
        }
    }

    /// Ends our direction, and closes the socket when the peer has ended, too.
    fn end(&mut self, index: u32) {
        let conn = self.slots.occupant(index);
        let ended = self.with_socket(index, |socket| shutdown(socket, Shutdown::Write));
        if !matches!(ended, Ok(Ok(()))) || matches!(self.discard_bytes(index), Discarded::Ended) {
            self.release(index);
            return;
        }
        self.slots.set(index, LINGERING);
        if let Some(oldest) =
            make_room(&mut self.lingering, self.options.lingering_max, &self.slots)
        {
            self.release_if_lingering(oldest);
        }
        self.lingering.push_back((Instant::now() + self.options.linger_timeout, conn));
    }

    /// Discards the bytes of a lingering connection.
    pub(super) fn discard(&mut self, index: u32) {
        if matches!(self.discard_bytes(index), Discarded::Ended) {
            self.release(index);
        }
    }

    fn discard_bytes(&mut self, index: u32) -> Discarded {
        // Without a descriptor, the connection ends at once.
        self.with_socket(index, discard_all).unwrap_or(Discarded::Ended)
    }

    /// Closes lingering and refused connections whose time is over, and resumes accepting.
    pub(super) fn sweep_deadlines(&mut self) {
        if self.lingering.is_empty() && self.refused.is_empty() && self.accept_retry_at.is_none() {
            return;
        }
        let now = Instant::now();
        while let Some(&(at, conn)) = self.lingering.front()
            && (at <= now || self.slots.flags(conn).is_none())
        {
            self.lingering.pop_front();
            self.release_if_lingering(conn);
        }
        while let Some(&(at, conn)) = self.refused.front()
            && (at <= now || self.slots.flags(conn).is_none())
        {
            self.refused.pop_front();
            self.release_if_lingering(conn);
        }
        if self.accept_retry_at.is_some_and(|at| at <= now) {
            self.accept_retry_at = None;
            self.watch_listeners();
        }
    }

    pub(super) fn release_if_lingering(&mut self, conn: Conn) {
        if self.slots.flags(conn).is_some_and(|flags| flags & LINGERING != 0) {
            self.release(conn.index);
        }
    }

    /// Closes the descriptor, which removes it from epoll, and frees its place.
    fn release(&mut self, index: u32) {
        let conn = self.slots.occupant(index);
        let flags = self.slots.flags(conn).unwrap_or(0);
        if flags & REFUSED == 0 {
            self.handover.give_back(self.handover.thread(), 1);
        }
        match self.slots.remove(index) {
            Socket::Descriptor(socket) => {
                self.in_table -= u32::from(flags & REFUSED == 0);
                drop(socket);
            }
            Socket::Registered(place) => self.registered.release(place),
        }
        self.counters.add(Count::Closed, 1);
    }
}

/// Forgets connections that have ended by themselves; returns the oldest one, to be closed, if
/// `max` remain.
pub(super) fn make_room(
    waiting: &mut VecDeque<(Instant, Conn)>,
    max: usize,
    slots: &Slots,
) -> Option<Conn> {
    if waiting.len() >= max {
        waiting.retain(|(_, conn)| slots.flags(*conn).is_some());
    }
    if waiting.len() < max { None } else { waiting.pop_front().map(|(_, conn)| conn) }
}

fn discard_all(socket: BorrowedFd<'_>) -> Discarded {
    for _ in 0..DISCARD_TIMES_MAX {
        match discard_once(socket) {
            Some(0) => return Discarded::Ended,
            // The end may follow these bytes, and no edge would report it.
            Some(_) => {}
            None => return Discarded::Empty,
        }
    }
    Discarded::Ended
}

/// Number of discarded bytes; `None` if there are none at present. An error counts as the end.
fn discard_once(socket: BorrowedFd<'_>) -> Option<usize> {
    // SAFETY: with MSG_TRUNC a TCP socket drops the bytes and writes nothing through the pointer
    // (tcp(7)), which may therefore be null.
    let count = unsafe {
        libc::recv(
            socket.as_raw_fd(),
            std::ptr::null_mut(),
            DISCARD_BYTES,
            libc::MSG_TRUNC | libc::MSG_DONTWAIT,
        )
    };
    if count >= 0 {
        return Some(count as usize);
    }
    match std::io::Error::last_os_error().kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted => None,
        _ => Some(0),
    }
}
