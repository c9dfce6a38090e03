//! Connections for whose bytes the kernel has no memory.
//!
//! Epoll reports room in a full socket, because acknowledgements of sent bytes free some. When the
//! system's memory for TCP is used up (`net.ipv4.tcp_mem`), a write is refused although no bytes
//! are in flight: then no acknowledgement arrives, and epoll would never report room. Such writes
//! are tried again after a while.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::Kernel;
use super::slots::WRITE_BLOCKED;
use crate::counters::Count;
use crate::{Conn, Event};

/// Time until a write that found no memory is tried again.
const RETRY: Duration = Duration::from_millis(100);

impl Kernel {
    /// Remembers a connection whose write took nothing, if epoll will not report room.
    pub(super) fn blocked(&mut self, conn: Conn) {
        let is_full = self.with_socket(conn.index, has_bytes_on_their_way);
        if is_full.unwrap_or(true) {
            return;
        }
        self.counters.add(Count::StarvedWrites, 1);
        self.starving.push_back((Instant::now() + RETRY, conn));
    }

    /// Reports connections whose time has come as writable.
    pub(super) fn sweep_starving(&mut self, events: &mut Vec<Event>) {
        if self.starving.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some(&(at, conn)) = self.starving.front()
            && at <= now
        {
            self.starving.pop_front();
            let flags = self.slots.alive(conn).unwrap_or(0);
            if flags & WRITE_BLOCKED != 0 {
                self.slots.clear(conn.index, WRITE_BLOCKED);
                events.push(Event::Writable(conn));
            }
        }
    }
}

/// Whether the peer has not acknowledged everything yet; true if the system does not tell.
fn has_bytes_on_their_way(socket: BorrowedFd<'_>) -> bool {
    let mut bytes: libc::c_int = 0;
    // SAFETY: TIOCOUTQ (SIOCOUTQ, tcp(7)) stores one int through the pointer, which is good for the
    // call.
    let asked = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    asked != 0 || bytes > 0
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_full_socket_has_bytes_on_their_way_and_an_empty_one_none() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let mut client = TcpStream::connect(address).expect("a connection");
        let (_peer, _) = listener.accept().expect("its other end");
        assert!(!has_bytes_on_their_way(client.as_fd()));
        client.set_nonblocking(true).expect("an option");
        while client.write(&[0; 65_536]).is_ok() {}
        assert!(has_bytes_on_their_way(client.as_fd()));
    }
}
