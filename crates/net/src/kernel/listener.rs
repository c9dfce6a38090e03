//! Listening sockets: one for each thread on the same port (`SO_REUSEPORT`), and their options.
//!
//! Options are set on the listener only. Linux copies them to every socket accepted from it, so
//! that an accept costs `accept4` and one registration, nothing else.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, listen, socket_with};
use rustix::net::{ipproto, sockopt};

/// Options of a listener.
#[derive(Clone, Copy, Debug)]
pub struct ListenOptions {
    /// The address; port 0 selects a free one. An IPv6 wildcard includes IPv4.
    pub address: SocketAddr,
    /// Length of the kernel's accept queue; it caps this at `somaxconn`.
    pub backlog_max: i32,
    /// `SO_SNDBUF` of every connection in bytes (the kernel doubles it for its own bookkeeping);
    /// `None` lets the kernel grow it to megabytes.
    pub socket_send_bytes: Option<usize>,
    /// `SO_RCVBUF` of every connection in bytes.
    pub socket_receive_bytes: Option<usize>,
    /// The answer to a connection for which no thread has room; then it is closed. It must fit a
    /// fresh send buffer: a few kilobytes.
    pub refusal: &'static [u8],
}

impl ListenOptions {
    /// The defaults: backlog 4,096, send buffer 32 KiB, receive buffer the kernel's, no refusal
    /// text.
    pub fn new(address: SocketAddr) -> ListenOptions {
        ListenOptions {
            address,
            backlog_max: 4096,
            socket_send_bytes: Some(32 * 1024),
            socket_receive_bytes: None,
            refusal: b"",
        }
    }
}

/// Fails with `AddrInUse` if another socket listens there, even with `SO_REUSEPORT`: a second
/// server of the same user would otherwise silently share the port. For the first thread, before it
/// listens.
///
/// # Errors
/// `AddrInUse`, `AddrNotAvailable`, `PermissionDenied`.
pub fn check_free(address: SocketAddr) -> io::Result<()> {
    let socket = open(address)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    Ok(())
}

/// Opens a listener in the calling thread's table, and returns its address.
pub(super) fn open_listener(options: &ListenOptions) -> io::Result<(OwnedFd, SocketAddr)> {
    let socket = open(options.address)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    if let Some(bytes) = options.socket_send_bytes {
        sockopt::set_socket_send_buffer_size(&socket, bytes)?;
    }
    if let Some(bytes) = options.socket_receive_bytes {
        sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
    }
    bind(&socket, &options.address)?;
    listen(&socket, options.backlog_max)?;
    let address = SocketAddr::try_from(getsockname(&socket)?)?;
    Ok((socket, address))
}

/// A TCP socket for the family of the address, non-blocking.
pub(super) fn open(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(
        family,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        Some(ipproto::TCP),
    )?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    Ok(socket)
}

/// The peer's address as operators know it: IPv4 as IPv4, even over an IPv6 socket.
pub(super) fn canonical(peer: SocketAddr) -> SocketAddr {
    SocketAddr::new(peer.ip().to_canonical(), peer.port())
}
