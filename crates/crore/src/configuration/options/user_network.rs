//! Options of the section `[user_network]`.

use super::spec::{count, options, text};
use super::typed::{choice, choices};
use crate::configuration::value::Kind;

options! {
    /// A TCP of the node's own on one network interface, for more connections than the kernel's
    /// sockets can hold (docs/user-tcp.md). Off until user_network.interface is given.
    section "user_network": UserNetwork;

    /// The interface. Addresses of listen.clients, tls.listen and [mqtt] that are in
    /// user_network.addresses are then served by the node's own TCP, all others by the kernel's.
    interface: Option<String> = example "eth1", text(15), Restart;
    /// IP addresses that the node's own TCP serves: one of each version, or as many as wanted with
    /// user_network.frames = "all". Clients on the machine itself cannot reach them.
    addresses: Vec<String> = "", Kind::Words, Restart;
    /// xdp: AF_XDP sockets, with a program in the interface's driver. xdp-generic: the same with a
    /// program in the kernel, for any driver. tun: a TUN interface, for tests; it has one thread.
    device: UserDevice = "xdp", choice::<UserDevice>(), Restart;
    /// listeners: the node takes TCP to its own listeners, and the kernel keeps everything else.
    /// all: the node takes every frame of the interface, for addresses that the kernel does not
    /// have, and answers ARP, neighbour solicitations and pings for them.
    frames: UserFrames = "listeners", choice::<UserFrames>(), Restart;
    /// Accept segments whose checksum covers only the pseudo-header. Needed where the peer is a
    /// kernel behind veth that leaves checksums to its device (ethtool -K PEER tx off is the
    /// alternative).
    partial_checksums: bool = "false", Kind::Boolean, Restart;
    /// I/O threads that serve these addresses, each with the interface's queue of its number. They
    /// are the first of node.io_threads; the others serve the kernel's sockets.
    io_threads: u16 = "1", count(1, 64), Restart;
    /// Least time between two turns of such a thread in which packets arrive, in microseconds. More
    /// packets then share the cost of a turn, and a message waits for at most this time. 0: a turn
    /// for each packet, if the thread is fast enough.
    turn_us: u32 = "500", count(0, 10_000), Restart;
    /// Serve the addresses by the kernel's sockets if the interface, a right or a feature of the
    /// kernel is missing. Otherwise the node does not start.
    fallback: bool = "false", Kind::Boolean, Restart;
}

/// The device of a TCP of the node's own.
#[derive(PartialEq, Eq)]
pub enum UserDevice {
    /// AF_XDP, with the program in the driver.
    Xdp,
    /// AF_XDP, with the program in the kernel.
    XdpGeneric,
    /// TUN.
    Tun,
}

choices! { UserDevice: Xdp = "xdp", XdpGeneric = "xdp-generic", Tun = "tun" }

/// The frames that the node takes from the interface.
#[derive(PartialEq, Eq)]
pub enum UserFrames {
    /// TCP to the listeners.
    Listeners,
    /// Each frame.
    All,
}

choices! { UserFrames: Listeners = "listeners", All = "all" }
