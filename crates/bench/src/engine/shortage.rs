//! Explains why a connect cannot begin: the exhausted resource, and the remedy.
//!
//! Place: from a pool's connects to the report. The pool tries again later in every case, so a run
//! continues after a shortage.

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;

use net::system::nofile_limit;
use rustix::io::Errno;

use super::plan::ephemeral_ports;
use crate::units::show_count;

/// The limits of this machine for connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Source ports that the kernel chooses from.
    ports: u64,
}

impl Bounds {
    /// Those of this machine, read now: when descriptors have run out it would be too late.
    pub(super) fn read() -> Bounds {
        Bounds { ports: ephemeral_ports() }
    }

    /// The reason why a connect to `remote`, from `local` if given, could not begin.
    pub(super) fn explain(
        &self,
        error: &Error,
        remote: SocketAddr,
        local: Option<SocketAddr>,
    ) -> String {
        match (Errno::from_io_error(error), local) {
            (Some(Errno::MFILE), _) => format!(
                "the descriptor limit of {} is reached (ulimit -n)",
                show_count(nofile_limit().soft)
            ),
            (Some(Errno::NFILE), _) => {
                "the machine has reached its limit of open files (fs.file-max)".to_owned()
            }
            (Some(Errno::NOBUFS | Errno::NOMEM), _) => {
                "the system has no memory for a socket".to_owned()
            }
            (Some(Errno::NOSPC), _) => {
                "this user has reached the limit of epoll watches (fs.epoll.max_user_watches)"
                    .to_owned()
            }
            (_, None) if error.kind() == ErrorKind::AddrNotAvailable => format!(
                "no source port is left for {remote}: all {} of net.ipv4.ip_local_port_range are used; \
                 give --local-addresses '127.0.{{1..20}}.1', or more --url",
                show_count(self.ports)
            ),
            (_, Some(local)) if error.kind() == ErrorKind::AddrInUse => format!(
                "other processes use source ports of {}, {} for one; set more --local-addresses",
                local.ip(),
                local.port()
            ),
            (_, Some(local)) if error.kind() == ErrorKind::AddrNotAvailable => {
                format!(
                    "{} is not an address of this machine, or has no port left: {error}",
                    local.ip()
                )
            }
            _ => error.to_string(),
        }
    }
}

/// Whether it is this source that cannot be used, and another may do.
pub(super) fn is_taken(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortages_have_names() {
        let bounds = Bounds { ports: 28_232 };
        let remote: SocketAddr = ([127, 0, 0, 1], 8800).into();
        let local = Some(([127, 0, 5, 1], 10_000).into());
        for (errno, local, words) in [
            (Errno::MFILE, None, "(ulimit -n)"),
            (Errno::NFILE, None, "fs.file-max"),
            (Errno::NOBUFS, local, "no memory for a socket"),
            (Errno::NOSPC, local, "fs.epoll.max_user_watches"),
            (
                Errno::ADDRNOTAVAIL,
                None,
                "no source port is left for 127.0.0.1:8800: all 28,232 of ",
            ),
            (Errno::ADDRNOTAVAIL, None, "give --local-addresses '127.0.{1..20}.1'"),
            (Errno::ADDRINUSE, local, "other processes use source ports of 127.0.5.1"),
            (Errno::ADDRNOTAVAIL, local, "127.0.5.1 is not an address of this machine"),
            (Errno::NETUNREACH, None, "unreachable"),
        ] {
            let text = bounds.explain(&errno.into(), remote, local);
            assert!(text.contains(words), "{text}");
        }
    }
}
