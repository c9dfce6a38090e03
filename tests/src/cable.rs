//! A network interface for each server of a test, so that its clients reach it by the node's own
//! TCP: with `TEST_NETWORK=user`, as root, in a network namespace where nothing else runs.
//!
//! One end of a veth pair has no address in the kernel, because the node takes every frame there.
//! Programs of the test reach it through the other end, by a route and a static neighbour, from
//! 127.0.0.1 as always.

use std::env;
use std::fs;
use std::process::{self, Command};

/// Whether tests are to run over the node's own TCP.
pub fn is_wanted() -> bool {
    env::var("TEST_NETWORK").is_ok_and(|network| network == "user")
}

/// The interface of one server. Dropping it removes it.
#[derive(Debug)]
pub struct Cable {
    interface: String,
    address: String,
}

impl Cable {
    /// Makes the interface; `number` is unique in this process, below 2^16.
    pub fn new(number: u32) -> Cable {
        let [_, _, high, low] = process::id().to_be_bytes();
        let address = format!("10.{}.{low}.{}", 64 | high & 63, 1 + number % 254);
        let own = format!("s{}-{number}", process::id());
        let far = format!("c{}-{number}", process::id());
        let station = "02:00:00:00:00:01";
        fs::write("/proc/sys/net/ipv4/conf/all/route_localnet", "1").expect("root, in a namespace");
        let queues = "numrxqueues 1 numtxqueues 1";
        ip(&format!(
            "link add {own} address {station} {queues} type veth peer name {far} {queues}"
        ));
        for name in [&own, &far] {
            ip(&format!("link set {name} addrgenmode none up"));
        }
        ip(&format!("neigh add {address} lladdr {station} dev {far}"));
        ip(&format!("route add {address}/32 dev {far} src 127.0.0.1"));
        Cable { interface: own, address }
    }

    /// The server's address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The flags of a server on this interface.
    pub fn flags(&self) -> Vec<String> {
        let options = [
            // An address beyond loopback needs it.
            ("listen.open", "true"),
            ("user_network.interface", &*self.interface),
            ("user_network.addresses", &*self.address),
            ("user_network.frames", "all"),
            ("user_network.partial_checksums", "true"),
        ];
        let flag = |(name, value)| ["--set".to_owned(), format!("{name}={value}")];
        options.into_iter().flat_map(flag).collect()
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        // Its peer, the route and the neighbour go with it.
        let _ = Command::new("ip").args(["link", "delete", &self.interface]).status();
    }
}

fn ip(arguments: &str) {
    let result = Command::new("ip").args(arguments.split(' ')).output().expect("iproute2");
    assert!(result.status.success(), "ip {arguments}: {result:?}");
}
