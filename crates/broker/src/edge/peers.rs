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

use super::Edge;
use super::slots::{Protocol, flag};
use crate::ids::ConnIndex;
use crate::session::refuse_client;
use std::net::IpAddr;
use stdx::handing::Hand;
use stdx::key::Key;
use stdx::networks::{UNNAMED, address_of, number_of};
use stdx::pages::Pages;
use wire::http::Request;
use wire::http::forwarded::forwarded_client;
use wire::native::ErrorCode;

/// Addresses to a page.
const PAGE: usize = 256;
/// Of a connection that came when nobody wanted to know; no peer has the address `::`.
const UNKNOWN: u128 = 0;

/// Addresses by the connections' indexes.
#[derive(Default, Hand)]
pub(crate) struct Peers {
    own: Pages<u128, PAGE>,
    /// Only where there are trusted proxies, or were.
    clients: Pages<u128, PAGE>,
}

impl Peers {
    pub fn memory_bytes(&self) -> usize {
        self.own.memory_bytes() + self.clients.memory_bytes()
    }
}

impl Edge {
    pub(super) fn note_peer(&mut self, index: ConnIndex, peer: IpAddr) {
        let addresses = &self.settings.addresses;
        if addresses.are_kept() || !self.connections.peers.own.is_empty() {
            self.connections.peers.own.grow_to(index, || UNKNOWN);
            self.connections.peers.own[index] = number_of(peer);
        }
        if !addresses.trusted_proxies.is_empty() || !self.connections.peers.clients.is_empty() {
            self.connections.peers.clients.grow_to(index, || UNKNOWN);
            self.connections.peers.clients[index] = number_of(peer);
        }
    }

    /// The address of the connection's client: the peer, or the client behind a trusted proxy. None
    /// where addresses are not kept (`AddressSettings`), and of a client that its proxy does not
    /// name.
    pub fn client_address(&self, index: ConnIndex) -> Option<IpAddr> {
        let address = known(&self.connections.peers.clients, index)
            .or_else(|| known(&self.connections.peers.own, index))?;
        (address != UNNAMED).then_some(address)
    }

    /// All connections that are there: what a shell that has just been given this edge counts
    /// again.
    pub fn connections(&self) -> impl Iterator<Item = Key> {
        let places = 0..self.connections.slots.places();
        let present =
            places.filter(|index| self.connections.slots[*index].protocol != Protocol::Free);
        present.map(|index| self.connections.slots.key(index))
    }

    /// The client that a trusted proxy speaks for; none where there are no such proxies, or were
    /// none when the connection came.
    pub(super) fn client_of_proxy(&self, index: ConnIndex) -> Option<IpAddr> {
        known(&self.connections.peers.clients, index)
    }

    /// Finds out whose request this is. False: the shell has to be asked, and the request waits,
    /// not consumed.
    pub(crate) fn settle_client(&mut self, index: ConnIndex, request: &Request<'_>) -> bool {
        let addresses = &self.settings.addresses;
        let trusted = &addresses.trusted_proxies;
        if trusted.is_empty() && self.connections.peers.clients.is_empty() {
            return true;
        }
        let Some(own) = known(&self.connections.peers.own, index) else {
            return true;
        };
        let is_trusted = |address| trusted.contains(address);
        let (client, is_unreadable) = match is_trusted(own) {
            true => match forwarded_client(&request.fields, addresses.field, is_trusted) {
                Ok(client) => (client.unwrap_or(UNNAMED), false),
                Err(_) => (UNNAMED, true),
            },
            // Perhaps not any more: it speaks for no other client then.
            false => (own, false),
        };
        let number = number_of(client);
        self.connections.peers.clients.grow_to(index, || UNKNOWN);
        if number != self.connections.peers.clients[index] {
            if addresses.are_counted {
                self.connections.slots[index].set(flag::PAUSED);
                self.out.clients.push((self.connections.slots.key(index), client));
                return false;
            }
            self.connections.peers.clients[index] = number;
        }
        self.statistics.turned_away.clients_unknown += u64::from(is_unreadable);
        true
    }

    /// The shell's answer: the connection counts for this client now.
    pub fn client_admitted(&mut self, key: Key, client: IpAddr) {
        if self.connections.slots.get(key).is_some() {
            self.connections.peers.clients[key.index] = number_of(client);
            self.resume(key.index);
        }
    }

    /// The shell's answer: the client has no room left, and is told so. The connection is closed.
    pub fn client_refused(&mut self, key: Key, code: ErrorCode) {
        if self.connections.slots.get(key).is_some() {
            refuse_client(self, key.index, code);
        }
    }
}

fn known(addresses: &Pages<u128, PAGE>, index: ConnIndex) -> Option<IpAddr> {
    let number = addresses.get(index).copied();
    number.filter(|number| *number != UNKNOWN).map(address_of)
}
