//! Lost connections: bytes that came before the loss are still read.
//!
//! A client may send its last packets and close while packets to it are unread in its system: then
//! its system sends RST instead of FIN. The kernel keeps the bytes that came before. They hold the
//! client's last acknowledgements, and the DISCONNECT that keeps its will from being published.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::net::sockopt;

use super::slots::{CONNECTING, DEAD, LOST, READ_TOLD, WRITE_BLOCKED};
use super::{How, Kernel, kind};
use crate::{Conn, Event, Read};

impl Kernel {
    /// Epoll has reported an error of the connection. With unread bytes it stays until they are
    /// read.
    pub(super) fn report_loss(&mut self, conn: Conn, flags: u8, events: &mut Vec<Event>) {
        let is_connecting = flags & LOST == CONNECTING;
        if is_connecting || !self.has_unread(conn) {
            let reason = match self.with_socket(conn.index, |socket| sockopt::socket_error(socket))
            {
                Ok(Ok(Err(errno)) | Err(errno)) => kind(errno),
                Ok(Ok(Ok(()))) | Err(_) => io::ErrorKind::ConnectionReset,
            };
            self.slots.set(conn.index, DEAD);
            self.closing.push((conn.index, How::Lost));
            events.push(Event::Closed { conn, reason });
            return;
        }
        self.slots.set(conn.index, LOST);
        if flags & READ_TOLD == 0 {
            self.slots.set(conn.index, READ_TOLD);
            events.push(Event::Readable(conn));
        }
        // There is room for writes, as they are dropped: a caller that reads only then continues.
        if flags & WRITE_BLOCKED != 0 {
            self.slots.clear(conn.index, WRITE_BLOCKED);
            events.push(Event::Writable(conn));
        }
    }

    /// A write has failed, which may be known before epoll reports the loss. True if bytes are
    /// unread: the connection stays until they are read.
    pub(super) fn is_kept_after_failure(&mut self, conn: Conn) -> bool {
        if !self.has_unread(conn) {
            return false;
        }
        self.slots.set(conn.index, LOST);
        // The next poll reports the bytes, unless they are reported already.
        self.again.push(conn);
        true
    }

    fn has_unread(&mut self, conn: Conn) -> bool {
        self.with_socket(conn.index, has_unread_bytes).unwrap_or(false)
    }
}

/// The answer of a read that found the end of the stream. A failed write may have taken the error
/// that belongs to a loss, and the kernel then reports an end.
pub(super) fn end_of(flags: u8) -> Read {
    if flags & LOST == LOST { Read::Failed(io::ErrorKind::ConnectionReset) } else { Read::Ended }
}

/// Whether bytes have come that were not read; false if the system does not tell.
fn has_unread_bytes(socket: BorrowedFd<'_>) -> bool {
    let mut bytes: libc::c_int = 0;
    // SAFETY: FIONREAD (SIOCINQ, tcp(7)) stores one int through the pointer, which is good for the
    // call.
    let asked = unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    asked == 0 && bytes > 0
}
