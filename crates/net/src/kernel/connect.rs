//! Outgoing connections, for the client and the benchmark.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{bind, connect, sockopt};

use super::Kernel;
use super::listener::open;
use super::slots::CONNECTING;
use crate::Conn;
use crate::counters::Count;

/// Options of one outgoing connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ConnectOptions {
    /// The source address. With port 0 the kernel chooses the port when it knows the destination
    /// (`IP_BIND_ADDRESS_NO_PORT`), so that one source address reaches each destination about
    /// 28,000 times. An explicit port, with addresses and destinations to vary, has no such bound.
    pub local: Option<SocketAddr>,
    /// `SO_SNDBUF` in bytes, doubled by the kernel.
    pub socket_send_bytes: Option<usize>,
    /// `SO_RCVBUF` in bytes, doubled by the kernel; a small one makes a slow reader.
    pub socket_receive_bytes: Option<usize>,
}

impl Kernel {
    /// Begins a connection. [`crate::Event::Connected`] or [`crate::Event::Closed`] follows; until
    /// then only `close` makes sense.
    ///
    /// # Errors
    /// `QuotaExceeded` if the thread is full; `AddrNotAvailable` if no source port is left or the
    /// source address is not ours; otherwise the kernel's error.
    pub fn connect(&mut self, remote: SocketAddr, options: &ConnectOptions) -> io::Result<Conn> {
        if !self.handover.take() {
            return Err(io::Error::new(
                io::ErrorKind::QuotaExceeded,
                format!("{} connections are open on this thread", self.connections_max),
            ));
        }
        let begun = begin(remote, options).and_then(|socket| {
            self.register(socket, CONNECTING).map_err(|(_, error)| io::Error::from(error))
        });
        match begun {
            Ok(_) => self.counters.add(Count::Connecting, 1),
            Err(_) => self.handover.give_back(self.handover.thread(), 1),
        }
        begun
    }
}

fn begin(remote: SocketAddr, options: &ConnectOptions) -> io::Result<OwnedFd> {
    let socket = open(remote)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    if let Some(bytes) = options.socket_send_bytes {
        sockopt::set_socket_send_buffer_size(&socket, bytes)?;
    }
    if let Some(bytes) = options.socket_receive_bytes {
        sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
    }
    if let Some(local) = options.local {
        // For an explicit port that is in TIME_WAIT from an earlier run, or in use for another
        // destination.
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if local.port() == 0 {
            bind_address_no_port(&socket)?;
        }
        bind(&socket, &local)?;
    }
    match connect(&socket, &remote) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

fn bind_address_no_port(socket: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the pointer and the size name a live c_int for the time of the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
