//! Where connections come from, on nodes that want to know: the peer's own address, and that of the
//! client whom a trusted proxy speaks for.
//!
//! Place on the path: step 3, before a request is looked at. A connection counts for its client's
//! address; when a proxy's connection brings a request of another client, the shell is asked first
//! ([`super::Outputs::clients`]) and the connection waits for its answer. Invariants: a node that
//! needs no addresses keeps none; one that has begun to keep them goes on, so that nobody is taken
//! for who had the place before. Of connections that are older than that nothing is known. A client
//! that its proxy does not name counts as [`UNNAMED`]: never as the proxy itself, whose address may
//! have rights.

use crate::ids::ConnIndex;
use std::net::IpAddr;
use stdx::handing::Hand;
use stdx::networks::address_of;
use stdx::pages::Pages;

/// Addresses to a page.
pub(crate) const PAGE: usize = 256;
/// Of a connection that came when nobody wanted to know; no peer has the address `::`.
pub(crate) const UNKNOWN: u128 = 0;

/// Addresses by the connections' indexes.
#[derive(Default, Hand)]
pub(crate) struct Peers {
    pub own: Pages<u128, PAGE>,
    /// Only where there are trusted proxies, or were.
    pub clients: Pages<u128, PAGE>,
}

impl Peers {
    pub fn memory_bytes(&self) -> usize {
        self.own.memory_bytes() + self.clients.memory_bytes()
    }
}

pub(crate) fn known(addresses: &Pages<u128, PAGE>, index: ConnIndex) -> Option<IpAddr> {
    let number = addresses.get(index).copied();
    number.filter(|number| *number != UNKNOWN).map(address_of)
}
