//! A kind of network, as a node starts it: the kernel's sockets ([`crate::kernel::Sockets`]), or
//! another one beside them.
//!
//! The starting thread makes a [`Transport`] into one [`Unopened`] for each I/O thread; that thread
//! opens it and gets its [`Net`], which never leaves the thread. Invariants: until a thread opens
//! its network, nothing is accepted; all threads open the same listeners in the same order, one
//! thread after the other, and with port 0 the later ones get the port that the first one chose.

use crate::{Counters, Passing, Wake};
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;

/// A kind of network, before its threads.
pub trait Transport {
    /// The network of one I/O thread before the thread opens it.
    type Unopened: Unopened;

    /// Checks that this process may listen on an address: before the node touches anything of a
    /// node that may already run.
    ///
    /// # Errors
    /// Another process listens there, or the address cannot be bound.
    fn check(&self, address: SocketAddr) -> io::Result<()>;

    /// Prepares the network of each I/O thread, on the starting thread.
    ///
    /// # Errors
    /// The system refuses what they need.
    fn prepare(&self, threads_count: usize) -> io::Result<Vec<Self::Unopened>>;
}

/// The network of one I/O thread before the thread opens it.
pub trait Unopened: Send + 'static {
    /// The opened network.
    type Net: Passing;

    /// Wakes the thread's network, from now on.
    fn waker(&self) -> Arc<dyn Wake>;

    /// Opens the network on the calling thread, which does nothing else before.
    ///
    /// # Errors
    /// [`OpenError`].
    fn open(self, options: &OpenOptions<'_>) -> Result<Opened<Self::Net>, OpenError>;
}

/// The node's part of the options of one thread's network.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions<'a> {
    /// The listeners, in order.
    pub listeners: &'a [ListenerOptions],
    /// Whether another process hands the listeners over ([`Passing::adopt`]): none is opened.
    pub are_adopted: bool,
    /// Maximum number of connections of the thread.
    pub connections_max: u32,
    /// Descriptors of the starting thread that this thread uses, too.
    pub keep: &'a [RawFd],
    /// Number of descriptors that the caller may open later on this thread.
    pub descriptors_reserved: u32,
}

/// One listener.
#[derive(Clone, Copy, Debug)]
pub struct ListenerOptions {
    /// The address; port 0 selects a free one.
    pub address: SocketAddr,
    /// The answer to connections for which no thread has room; then they are closed.
    pub refusal: &'static [u8],
}

/// An opened network.
#[derive(Debug)]
pub struct Opened<N> {
    /// The network.
    pub net: N,
    /// The listeners' addresses, with the selected ports.
    pub addresses: Vec<SocketAddr>,
    /// Maximum number of connections of this thread.
    pub connections_max: u32,
    /// The network's counters.
    pub counters: Arc<Counters>,
    /// A notice for the operator.
    pub notice: Option<String>,
}

/// The reason why a network was not opened.
#[derive(Debug)]
pub enum OpenError {
    /// The address cannot be bound.
    Listen(SocketAddr, io::Error),
    /// The system refuses anything else.
    System(io::Error),
}
