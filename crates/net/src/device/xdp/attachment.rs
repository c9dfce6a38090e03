//! An XDP program on an interface, with the map of its sockets.
//!
//! Invariant: the program runs for as long as its link's descriptor is open, so a process that dies
//! gives the traffic back to the kernel.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::super::failed;
use super::super::interface::Interface;
use super::socket::Options;
use super::{Rule, Xdp, bpf};

/// The rights of [`Attachment::attach`].
const RIGHTS: &str = "CAP_BPF and CAP_NET_ADMIN";

/// Queues of an interface at most.
const QUEUES_MAX: u32 = 1_024;

/// The place where the program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// In the driver, before the kernel builds its own packet.
    Native,
    /// In the kernel's stack, after that; any driver can do it.
    Generic,
}

impl Mode {
    /// Flags of `IFLA_XDP_FLAGS`.
    fn flags(self) -> u32 {
        match self {
            Mode::Generic => 1 << 1,
            Mode::Native => 1 << 2,
        }
    }
}

/// A program that runs on an interface. It ends when this is dropped.
#[derive(Debug)]
pub struct Attachment {
    interface: u32,
    name: String,
    sockets: OwnedFd,
    _program: OwnedFd,
    _link: OwnedFd,
}

impl Attachment {
    /// Attaches a program to an interface of the calling thread's network namespace, for at most
    /// `queues` of its receive queues. Until a queue has a socket ([`Attachment::open`]), the
    /// kernel gets its frames.
    ///
    /// # Errors
    /// The failed step, with the reason: there is no such interface, the rule is not valid, another
    /// program is attached, the driver has no XDP, the process lacks CAP_BPF or CAP_NET_ADMIN.
    pub fn attach(name: &str, rule: &Rule, mode: Mode, queues: u32) -> io::Result<Attachment> {
        if !rule.is_valid() || queues == 0 || queues > QUEUES_MAX {
            let text = "an XDP program needs an address, 1 to 64 ports, and 1 to 1,024 queues";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let Interface { index: interface, .. } = Interface::find(name)?;
        let sockets = bpf::create_map(queues)
            .map_err(|error| failed("create the map of AF_XDP sockets", RIGHTS, error))?;
        let program = bpf::load(&rule.program(sockets.as_raw_fd()))
            .map_err(|error| failed("load the XDP program", RIGHTS, error))?;
        let link = bpf::attach(program.as_fd(), interface, mode.flags()).map_err(|error| {
            let step = match mode {
                Mode::Native => "attach the XDP program natively to",
                Mode::Generic => "attach the XDP program generically to",
            };
            failed(format_args!("{step} {name}"), RIGHTS, error)
        })?;
        Ok(Attachment { interface, name: name.to_owned(), sockets, _program: program, _link: link })
    }

    /// Opens the socket of a receive queue, which gets the queue's frames from then on. The calling
    /// thread must be in the interface's network namespace.
    ///
    /// # Errors
    /// The failed step, with the reason.
    pub fn open(&self, queue: u32, options: &Options) -> io::Result<Xdp> {
        let device = Xdp::open(&self.name, self.interface, queue, options)?;
        bpf::set_socket(self.sockets.as_fd(), queue, device.socket()).map_err(|error| {
            let step = format_args!("enter the socket of queue {queue} of {}", self.name);
            failed(step, RIGHTS, error)
        })?;
        Ok(device)
    }
}
