//! The kernel's sockets and a TCP of our own in one process: each thread has one of the two.
//!
//! An address decides: listeners at addresses of the [`UserNetwork`] belong to its threads, all
//! others to threads of the kernel's sockets. The first threads are those of the `UserNetwork`.
//! Listeners keep their numbers, whichever threads have them.
//!
//! Invariant: without a `UserNetwork`, a thread's network is the kernel's, call by call.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use stdx::handing::Input;
use stdx::memory::Components;

use crate::kernel::{ConnectOptions, Copied, Kernel, Sockets, UnopenedSockets};
use crate::user::{UnopenedUser, User, UserNetwork};
use crate::{
    Close, Conn, Copying, Event, ListenerOptions, Net, OpenError, OpenOptions, Opened, Passing,
    Read, SendCopies, Transport, Unopened, Wake, Write,
};

/// The networks of a node.
#[derive(Clone, Debug)]
pub struct Transports {
    /// The kernel's sockets.
    pub sockets: Sockets,
    /// A TCP of our own, for the first of the threads.
    pub user: Option<UserNetwork>,
}

/// The network of one thread before the thread opens it.
#[derive(Debug)]
pub enum UnopenedMixed {
    /// The kernel's sockets.
    Kernel {
        /// The sockets.
        sockets: UnopenedSockets,
        /// The networks of all threads.
        shared: Arc<Transports>,
        /// Descriptors of other threads' wakers.
        keep: Vec<RawFd>,
    },
    /// A TCP of our own.
    User {
        /// The TCP.
        user: UnopenedUser,
        /// The networks of all threads.
        shared: Arc<Transports>,
    },
}

/// The network of one thread.
pub struct Mixed {
    either: Either,
    /// The numbers of this thread's listeners among all; empty if it has them all.
    listeners: Vec<u8>,
}

// One for each thread, so that its size does not matter.
#[allow(clippy::large_enum_variant)]
enum Either {
    Kernel(Kernel),
    User(User),
}

/// Calls a method of whichever network it is.
macro_rules! either {
    ($mixed:expr, $net:ident => $call:expr) => {
        match &$mixed.either {
            Either::Kernel($net) => $call,
            Either::User($net) => $call,
        }
    };
    (mut $mixed:expr, $net:ident => $call:expr) => {
        match &mut $mixed.either {
            Either::Kernel($net) => $call,
            Either::User($net) => $call,
        }
    };
}

impl Transports {
    fn is_of_user(&self, address: SocketAddr) -> bool {
        self.user.as_ref().is_some_and(|user| user.has(address.ip()))
    }

    /// Opens the listeners that belong to a thread; returns its network.
    fn open<U: Unopened>(
        &self,
        unopened: U,
        options: &OpenOptions<'_>,
        is_of_user: bool,
        either: impl FnOnce(U::Net) -> Either,
    ) -> Result<Opened<Mixed>, OpenError> {
        let all = options.listeners;
        let is_mine = |listener: &ListenerOptions| self.is_of_user(listener.address) == is_of_user;
        let own: Vec<usize> = (0..all.len()).filter(|&place| is_mine(&all[place])).collect();
        let own_options: Vec<ListenerOptions> = own.iter().map(|&place| all[place]).collect();
        let opened = unopened.open(&OpenOptions { listeners: &own_options, ..*options })?;
        let mut addresses: Vec<SocketAddr> = all.iter().map(|listener| listener.address).collect();
        for (&place, address) in own.iter().zip(opened.addresses) {
            addresses[place] = address;
        }
        let listeners = if own.len() == all.len() {
            Vec::new()
        } else {
            own.iter().map(|&place| place as u8).collect()
        };
        Ok(Opened {
            net: Mixed { either: either(opened.net), listeners },
            addresses,
            connections_max: opened.connections_max,
            counters: opened.counters,
            notice: opened.notice,
        })
    }
}

impl Transport for Transports {
    type Unopened = UnopenedMixed;

    fn check(&self, address: SocketAddr) -> io::Result<()> {
        match &self.user {
            Some(user) if user.has(address.ip()) => user.check(address),
            _ => self.sockets.check(address),
        }
    }

    fn prepare(&self, threads_count: usize) -> io::Result<Vec<UnopenedMixed>> {
        let shared = Arc::new(self.clone());
        let mut users = Vec::new();
        if let Some(user) = &self.user {
            users = user.prepare(usize::from(user.threads_count).min(threads_count))?;
        }
        let keep: Vec<RawFd> = users.iter().map(UnopenedUser::descriptor).collect();
        let sockets = self.sockets.prepare(threads_count - users.len())?;
        let users =
            users.into_iter().map(|user| UnopenedMixed::User { user, shared: shared.clone() });
        let sockets = sockets.into_iter().map(|sockets| UnopenedMixed::Kernel {
            sockets,
            shared: shared.clone(),
            keep: keep.clone(),
        });
        Ok(users.chain(sockets).collect())
    }
}

impl Unopened for UnopenedMixed {
    type Net = Mixed;

    fn waker(&self) -> Arc<dyn Wake> {
        match self {
            UnopenedMixed::Kernel { sockets, .. } => sockets.waker(),
            UnopenedMixed::User { user, .. } => user.waker(),
        }
    }

    fn open(self, options: &OpenOptions<'_>) -> Result<Opened<Mixed>, OpenError> {
        match self {
            UnopenedMixed::Kernel { sockets, shared, mut keep } => {
                keep.extend_from_slice(options.keep);
                let options = OpenOptions { keep: &keep, ..*options };
                shared.open(sockets, &options, false, Either::Kernel)
            }
            UnopenedMixed::User { user, shared } => shared.open(user, options, true, Either::User),
        }
    }
}

impl From<Kernel> for Mixed {
    fn from(kernel: Kernel) -> Mixed {
        Mixed { either: Either::Kernel(kernel), listeners: Vec::new() }
    }
}

impl From<User> for Mixed {
    fn from(user: User) -> Mixed {
        Mixed { either: Either::User(user), listeners: Vec::new() }
    }
}

impl fmt::Debug for Mixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.either {
            Either::Kernel(_) => f.write_str("Mixed(kernel)"),
            Either::User(user) => write!(f, "Mixed({user:?})"),
        }
    }
}

impl Mixed {
    /// Begins a connection. [`Event::Connected`] or [`Event::Closed`] follows.
    ///
    /// # Errors
    /// The reasons of [`Kernel::connect`] and [`User::connect`].
    pub fn connect(&mut self, remote: SocketAddr, options: &ConnectOptions) -> io::Result<Conn> {
        match &mut self.either {
            Either::Kernel(kernel) => kernel.connect(remote, options),
            Either::User(user) => user.connect(options.local.map(|local| local.ip()), remote),
        }
    }
}

impl Net for Mixed {
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        let from = events.len();
        either!(mut self, net => net.poll(timeout, events))?;
        if !self.listeners.is_empty() {
            for event in &mut events[from..] {
                if let Event::Accepted { listener, .. } = event
                    && let Some(&number) = self.listeners.get(usize::from(*listener))
                {
                    *listener = number;
                }
            }
        }
        Ok(())
    }

    fn read(&mut self, conn: Conn, buffer: &mut [u8]) -> Read {
        either!(mut self, net => net.read(conn, buffer))
    }

    fn write(&mut self, conn: Conn, parts: &[IoSlice<'_>]) -> Write {
        either!(mut self, net => net.write(conn, parts))
    }

    fn shutdown_write(&mut self, conn: Conn) {
        either!(mut self, net => net.shutdown_write(conn));
    }

    fn close(&mut self, conn: Conn, how: Close) {
        either!(mut self, net => net.close(conn, how));
    }

    fn expect_acknowledgements(&mut self, conn: Conn, within: Duration) {
        either!(mut self, net => net.expect_acknowledgements(conn, within));
    }

    fn heard(&self, conn: Conn) -> Option<Duration> {
        either!(self, net => net.heard(conn))
    }

    fn knows_heard(&self) -> bool {
        either!(self, net => net.knows_heard())
    }

    fn peer_address(&self, conn: Conn) -> Option<SocketAddr> {
        either!(self, net => net.peer_address(conn))
    }

    fn pause_accepting(&mut self) {
        either!(mut self, net => net.pause_accepting());
    }

    fn stop_accepting(&mut self) {
        either!(mut self, net => net.stop_accepting());
    }

    fn resume_accepting(&mut self) {
        either!(mut self, net => net.resume_accepting());
    }

    fn memory(&self, memory: &mut Components) {
        either!(self, net => net.memory(memory));
    }
}

/// Connections of a TCP of our own cannot be handed over yet, so that a node with one refuses a
/// live upgrade, and serves on.
impl Passing for Mixed {
    type Copied = Copied;

    fn copy_some(&mut self, copied: &mut Copied, send: &mut SendCopies<'_>) -> io::Result<Copying> {
        match &mut self.either {
            Either::Kernel(kernel) => kernel.copy_some(copied, send),
            Either::User(user) => user.copy_some(&mut (), send),
        }
    }

    fn conclude(&mut self, copied: &mut Copied, out: &mut Vec<u8>) -> bool {
        match &mut self.either {
            Either::Kernel(kernel) => kernel.conclude(copied, out),
            Either::User(user) => user.conclude(&mut (), out),
        }
    }

    fn adopt(&mut self, message: &[u8], descriptors: Vec<OwnedFd>) -> io::Result<()> {
        either!(mut self, net => net.adopt(message, descriptors))
    }

    fn settle(&mut self, input: &mut Input<'_>) -> io::Result<()> {
        either!(mut self, net => net.settle(input))
    }

    fn hold(&mut self) {
        either!(mut self, net => Passing::hold(net));
    }

    fn begun_count(&self) -> usize {
        either!(self, net => net.begun_count())
    }

    fn release(&mut self) {
        either!(mut self, net => net.release());
    }

    fn give_layers(&mut self, out: &mut Vec<u8>) {
        either!(mut self, net => net.give_layers(out));
    }

    fn take_layers(&mut self, input: &mut Input<'_>) -> Option<()> {
        either!(mut self, net => net.take_layers(input))
    }
}
