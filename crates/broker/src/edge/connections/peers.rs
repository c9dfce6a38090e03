//! Addresses of clients, on nodes that need them: the peer's own, and that of the client that a
//! trusted proxy speaks for.
//!
//! Invariants: a node that needs no addresses keeps none; a node that has begun to keep them never
//! stops, so that no connection is taken for an earlier one of its index. Addresses of connections
//! that are older than that are not known. A client that its proxy does not name counts as
//! [`UNNAMED`]: never as the proxy itself, whose address may have rights.

use crate::ids::ConnIndex;
use crate::settings::AddressSettings;
use std::net::IpAddr;
use stdx::handing::Hand;
use stdx::networks::{UNNAMED, address_of, number_of};
use stdx::pages::Pages;
use wire::http::Request;
use wire::http::forwarded::forwarded_client;

/// Addresses to a page.
const PAGE: usize = 256;
/// The address of a connection that came before addresses were kept; no peer has the address `::`.
const UNKNOWN: u128 = 0;

/// Addresses by the connections' indexes.
#[derive(Default, Hand)]
pub(crate) struct Peers {
    own: Pages<u128, PAGE>,
    /// Only where there are trusted proxies, or were.
    clients: Pages<u128, PAGE>,
}

/// The client of a request, as its connection and its fields name it.
#[derive(Clone, Copy)]
pub(crate) struct RequestClient {
    pub address: IpAddr,
    /// The connection counts for another client so far.
    pub is_new: bool,
    /// The trusted proxy's field cannot be read.
    pub is_unreadable: bool,
}

impl Peers {
    /// Notes the address of a connection that has just come.
    pub fn note(&mut self, index: ConnIndex, peer: IpAddr, settings: &AddressSettings) {
        if settings.are_kept() || !self.own.is_empty() {
            self.own.grow_to(index.0, || UNKNOWN);
            self.own[index.0] = number_of(peer);
        }
        if !settings.trusted_proxies.is_empty() || !self.clients.is_empty() {
            self.set_client(index, peer);
        }
    }

    /// The address of the client: the peer's, or that of the client behind a trusted proxy. None
    /// where it is not known, and of a client that its proxy does not name.
    pub fn client_address(&self, index: ConnIndex) -> Option<IpAddr> {
        let address = self.client_of_proxy(index).or_else(|| known(&self.own, index))?;
        (address != UNNAMED).then_some(address)
    }

    /// The client that a trusted proxy speaks for; none where there are no such proxies, or were
    /// none when the connection came.
    pub fn client_of_proxy(&self, index: ConnIndex) -> Option<IpAddr> {
        known(&self.clients, index)
    }

    /// The client of a request; none without trusted proxies.
    pub fn client_of(
        &self,
        index: ConnIndex,
        request: &Request<'_>,
        settings: &AddressSettings,
    ) -> Option<RequestClient> {
        let trusted = &settings.trusted_proxies;
        if trusted.is_empty() && self.clients.is_empty() {
            return None;
        }
        let own = known(&self.own, index)?;
        let is_trusted = |address| trusted.contains(address);
        let (address, is_unreadable) = if is_trusted(own) {
            match forwarded_client(&request.fields, settings.field, is_trusted) {
                Ok(client) => (client.unwrap_or(UNNAMED), false),
                Err(_) => (UNNAMED, true),
            }
        } else {
            (own, false)
        };
        let before = self.clients.get(index.0).copied().unwrap_or(UNKNOWN);
        Some(RequestClient { address, is_new: number_of(address) != before, is_unreadable })
    }

    /// The connection counts for this client from now on.
    pub fn set_client(&mut self, index: ConnIndex, client: IpAddr) {
        self.clients.grow_to(index.0, || UNKNOWN);
        self.clients[index.0] = number_of(client);
    }

    /// Bytes touched.
    pub fn memory_bytes(&self) -> usize {
        self.own.memory_bytes() + self.clients.memory_bytes()
    }
}

fn known(addresses: &Pages<u128, PAGE>, index: ConnIndex) -> Option<IpAddr> {
    let number = addresses.get(index.0).copied();
    number.filter(|number| *number != UNKNOWN).map(address_of)
}
