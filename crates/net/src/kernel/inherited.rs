//! Listening sockets of a service manager: one for each address, from which all threads accept.
//!
//! They are numbers in the first descriptor table of the process. Each thread keeps the number
//! through [`crate::system::unshare_table`] and listens on a duplicate of its own; siblings by
//! `SO_REUSEPORT` cannot be made of a socket that was bound without it. A connection that comes
//! wakes every thread that sleeps, and one of them gets it. The service manager has the socket too:
//! what waits in its queue when this process ends is served by the next.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use rustix::event::epoll;
use rustix::fs::OFlags;
use rustix::io::FdFlags;
use rustix::net::{getsockname, sockopt};

use super::listener::ListenOptions;
use super::{Kernel, Listener};

/// The address of an inherited listener. Makes the socket non-blocking, and keeps it from programs
/// that this one starts.
///
/// # Errors
/// `InvalidInput` if the descriptor is not a listening TCP socket; otherwise the kernel's error.
pub fn inherited_address(descriptor: RawFd) -> io::Result<SocketAddr> {
    let socket = duplicate(descriptor)?;
    let is_listening = sockopt::socket_acceptconn(&socket).unwrap_or(false);
    let address = getsockname(&socket).ok().and_then(|address| SocketAddr::try_from(address).ok());
    let Some(address) = address.filter(|_| is_listening) else {
        let text = format!("descriptor {descriptor} is not a listening TCP socket");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    };
    let flags = rustix::fs::fcntl_getfl(&socket)?;
    rustix::fs::fcntl_setfl(&socket, flags | OFlags::NONBLOCK)?;
    // SAFETY: `duplicate` has found it open.
    let original = unsafe { BorrowedFd::borrow_raw(descriptor) };
    rustix::io::fcntl_setfd(original, FdFlags::CLOEXEC)?;
    Ok(address)
}

/// A listener on a duplicate of an inherited socket.
///
/// # Errors
/// No such descriptor, or no room for another.
pub fn inherited_listener(descriptor: RawFd) -> io::Result<TcpListener> {
    duplicate(descriptor).map(TcpListener::from)
}

impl Kernel {
    /// Listens on an inherited socket that this thread's table has kept; returns the listener's
    /// number and address, like [`Kernel::listen`].
    ///
    /// # Errors
    /// `QuotaExceeded` beyond 256 listeners; otherwise the kernel's error.
    pub fn listen_inherited(
        &mut self,
        descriptor: RawFd,
        options: &ListenOptions,
    ) -> io::Result<(u8, SocketAddr)> {
        let number = self.next_listener()?;
        let socket = duplicate(descriptor)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        if let Some(bytes) = options.socket_send_bytes {
            sockopt::set_socket_send_buffer_size(&socket, bytes)?;
        }
        let address = SocketAddr::try_from(getsockname(&socket)?)?;
        let token = epoll::EventData::new_u64(number as u64);
        epoll::add(&self.epoll, &socket, token, self.listener_interest())?;
        self.listeners.push(Listener {
            socket,
            refusal: options.refusal,
            batch: 1,
            is_inherited: true,
            is_over: false,
        });
        Ok((number as u8, address))
    }
}

/// Another descriptor of the same socket, in the calling thread's table.
fn duplicate(descriptor: RawFd) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: it is used for this one call, which fails if nothing is open under the number.
    let original = unsafe { BorrowedFd::borrow_raw(descriptor) };
    Ok(rustix::io::fcntl_dupfd_cloexec(original, 3)?)
}
