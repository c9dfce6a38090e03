//! The network of a run with a TCP of our own: a namespace for all processes of the run, with a
//! pair of interfaces between the server and its subscribers.
//!
//! Place: made before the first process; each inherits the namespace from the thread that starts
//! it. The kernel has the namespace's loopback, for publishers and operators, and no address of the
//! pair. Invariant: nothing outside of the namespace changes, and it ends with its last process.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context, anyhow, bail};
use net::device::interface::Interface;
use net::system::NetworkNamespace;

use crate::engine::{ClientNetwork, NetworkDevice};

/// The server's end of the pair.
pub const SERVER_INTERFACE: &str = "server";
/// The address of that end, out of the block for benchmarks (RFC 2544).
pub const SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// The subscribers' end of the pair.
const CLIENT_INTERFACE: &str = "clients";
/// Connections of one source address: a quarter of its ports stays free for those that return.
pub const ADDRESS_CONNECTIONS: u64 = 48_384;

/// The network of the subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum NetworkChoice {
    /// The kernel's sockets, on loopback.
    Kernel,
    /// Crore's own TCP at both ends of a pair of interfaces.
    User,
}

/// The namespace of a run, in which the thread that made it is. Dropping it takes the thread back.
#[derive(Debug)]
pub struct RunNetwork {
    home: NetworkNamespace,
    _namespace: NetworkNamespace,
}

impl RunNetwork {
    /// Makes the namespace with its interfaces, and takes the calling thread there.
    ///
    /// # Errors
    /// The process is not root, or the program `ip` is missing or fails.
    pub fn create() -> anyhow::Result<RunNetwork> {
        let home = NetworkNamespace::current().context("cannot name the network namespace")?;
        let namespace = NetworkNamespace::create().map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => anyhow!(
                "--network user needs root: the run makes a network namespace and AF_XDP sockets of its own"
            ),
            _ => anyhow!("cannot make a network namespace: {error}"),
        })?;
        namespace.enter().context("cannot enter the network namespace")?;
        let network = RunNetwork { home, _namespace: namespace };
        ip("link set dev lo up")?;
        let end = "numrxqueues 1 numtxqueues 1 mtu 1500";
        ip(&format!(
            "link add dev {SERVER_INTERFACE} {end} type veth peer name {CLIENT_INTERFACE} {end}"
        ))?;
        // Without addresses of its own the kernel sends nothing there.
        for interface in [SERVER_INTERFACE, CLIENT_INTERFACE] {
            ip(&format!("link set dev {interface} addrgenmode none up"))?;
        }
        Ok(network)
    }
}

impl Drop for RunNetwork {
    fn drop(&mut self) {
        // Where it fails, the thread stays in the namespace, which then ends with the process.
        let _ = self.home.enter();
    }
}

/// The subscribers' network. Called in the namespace of the run.
///
/// # Errors
/// The namespace has no such interface.
pub fn of_subscribers(device: NetworkDevice) -> anyhow::Result<ClientNetwork> {
    let gateway = Interface::find(SERVER_INTERFACE)?.station;
    Ok(ClientNetwork { interface: CLIENT_INTERFACE.to_owned(), device, gateway: Some(gateway) })
}

/// The subscribers' addresses for so many connections, as a pattern.
pub fn addresses(connections: u64) -> String {
    let count = connections.div_ceil(ADDRESS_CONNECTIONS);
    format!("198.19.0.{{1..{}}}", count.clamp(1, crate::engine::ADDRESSES_MAX as u64))
}

/// Runs the program `ip`, with arguments between spaces.
fn ip(arguments: &str) -> anyhow::Result<()> {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .context("--network user needs the program ip (package iproute2)")?;
    if !output.status.success() {
        bail!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Sources;

    #[test]
    fn addresses_are_as_many_as_needed() {
        for (connections, count) in
            [(0, 1), (1, 1), (48_384, 1), (48_385, 2), (10_000_108, 207), (1 << 40, 255)]
        {
            let addresses = Sources::parse_addresses(&[addresses(connections)]).unwrap();
            assert_eq!(addresses.len(), count, "{connections}");
        }
    }

    #[test]
    fn the_thread_returns_from_the_namespace() {
        let here = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        match RunNetwork::create() {
            Ok(network) => {
                let there = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
                assert_ne!(there, here);
                let found = of_subscribers(NetworkDevice::Xdp).unwrap();
                assert_eq!(found.interface, CLIENT_INTERFACE);
                assert_eq!(Interface::find(CLIENT_INTERFACE).unwrap().mtu, 1_500);
                drop(network);
            }
            Err(error) => {
                let said = error.to_string();
                assert!(said.starts_with("--network user needs "), "{said}");
                println!("skipped: {said}");
            }
        }
        assert_eq!(std::fs::read_link("/proc/thread-self/ns/net").unwrap(), here);
    }
}
