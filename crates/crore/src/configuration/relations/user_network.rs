//! Relations of `[user_network]`: addresses, threads, and what each of them needs.

use crate::configuration::assemble::{client_addresses, io_threads_min, tls_settings};
use crate::configuration::entries::Configuration;
use crate::configuration::fault::{Fault, Origin};
use crate::configuration::options::{Node, UserDevice, UserFrames, UserNetwork};
use std::net::{IpAddr, SocketAddr};

const ADDRESSES: &str = "user_network.addresses";
const IO_THREADS: &str = "user_network.io_threads";
/// Addresses of one stack at most.
const ADDRESSES_MAX: usize = 255;

/// Appends what does not fit together.
pub fn check(configuration: &Configuration, faults: &mut Vec<Fault>) {
    let options: UserNetwork = configuration.read();
    let mut refuse = |key: &'static str, problem: String, expected: &str| {
        faults.push(Fault {
            origin: configuration.given(key).map_or(Origin::Default, |(_, origin)| origin.clone()),
            key: key.into(),
            problem,
            expected: expected.into(),
        });
    };
    let mut addresses: Vec<IpAddr> = Vec::new();
    for text in &options.addresses {
        match text.parse() {
            Ok(address) => addresses.push(address),
            Err(_) => refuse(ADDRESSES, format!("`{text}` is not an IP address"), "IP addresses"),
        }
    }
    if options.interface.is_none() {
        if !options.addresses.is_empty() {
            let problem = "addresses are set, but user_network.interface is not".to_owned();
            refuse(ADDRESSES, problem, "user_network.interface as well");
        }
        return;
    }
    let is_per_version = |is_v4| addresses.iter().filter(|ip| ip.is_ipv4() == is_v4).count() <= 1;
    if addresses.is_empty() || addresses.len() > ADDRESSES_MAX {
        let problem = format!("{} addresses", addresses.len());
        refuse(ADDRESSES, problem, "1 to 255 IP addresses of listeners");
    } else if options.frames == UserFrames::Listeners
        && !(is_per_version(true) && is_per_version(false))
    {
        let problem = "several addresses of one version".to_owned();
        refuse(ADDRESSES, problem, "one of each version, or user_network.frames = \"all\"");
    }
    let mut listeners: Vec<SocketAddr> = client_addresses(configuration);
    listeners.extend(tls_settings(configuration).into_iter().flat_map(|(listen, _)| listen));
    if !listeners.iter().any(|listener| addresses.contains(&listener.ip())) {
        let problem = "no listener has one of these addresses".to_owned();
        refuse(ADDRESSES, problem, "the address of a listener, such as one of listen.clients");
    }
    if options.fallback && (options.frames == UserFrames::All || options.device == UserDevice::Tun)
    {
        let problem = "the kernel does not have the addresses".to_owned();
        refuse("user_network.fallback", problem, "false, or frames = \"listeners\" with xdp");
    }
    if options.device == UserDevice::Tun && options.io_threads > 1 {
        let problem = format!("{} threads with device = \"tun\"", options.io_threads);
        refuse(IO_THREADS, problem, "1");
    }
    if let Node { io_threads: Some(threads), .. } = configuration.read()
        && threads < io_threads_min(configuration)
    {
        let problem = format!("{} of node.io_threads = {threads}", options.io_threads);
        refuse(
            IO_THREADS,
            problem,
            "a thread left for each other address, or a greater node.io_threads",
        );
    }
}
