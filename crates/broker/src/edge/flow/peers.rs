//! Addresses of clients: a request of another client than before waits until the shell has admitted
//! it.
//!
//! Step 3 of the path, before a request is examined. A connection counts for its client's address;
//! when a proxy's connection brings a request of another client, the shell is asked first
//! (`Outputs::clients`) and the connection waits for its answer.

use crate::edge::Edge;
use crate::ids::ConnIndex;
use crate::protocol::flag;
use std::net::IpAddr;
use stdx::key::Key;
use wire::http::Request;
use wire::native::ErrorCode;

impl Edge {
    /// The address of the connection's client: the peer, or the client behind a trusted proxy. None
    /// where addresses are not kept (`AddressSettings`), and of a client that its proxy does not
    /// name.
    pub fn client_address(&self, index: ConnIndex) -> Option<IpAddr> {
        self.connections.peers.client_address(index)
    }

    /// All connections, for a shell that has just been given this edge and counts them again.
    pub fn connections(&self) -> impl Iterator<Item = Key> {
        self.connections.slots.present().map(|index| self.connections.slots.key(index))
    }

    /// Finds out which client sends a request. False: the shell has to be asked, and the request
    /// waits, not consumed.
    pub(crate) fn settle_client(&mut self, index: ConnIndex, request: &Request<'_>) -> bool {
        let addresses = &self.settings.addresses;
        let Some(client) = self.connections.peers.client_of(index, request, addresses) else {
            return true;
        };
        if client.is_new && addresses.are_counted {
            self.connections.slots[index].set(flag::PAUSED);
            self.out.clients.push((self.connections.slots.key(index), client.address));
            return false;
        }
        if client.is_new {
            self.connections.peers.set_client(index, client.address);
        }
        self.statistics.turned_away.clients_unknown += u64::from(client.is_unreadable);
        true
    }

    /// The shell's answer: the connection counts for this client now.
    pub fn client_admitted(&mut self, key: Key, client: IpAddr) {
        if self.connections.slots.get(key).is_some() {
            self.connections.peers.set_client(ConnIndex(key.index), client);
            self.resume(ConnIndex(key.index));
        }
    }

    /// The shell's answer: the client's address has as many connections as it may. The client gets
    /// the refusal, and the connection is closed.
    pub fn client_refused(&mut self, key: Key, code: ErrorCode) {
        if self.connections.slots.get(key).is_some() {
            self.refuse_client(ConnIndex(key.index), code);
        }
    }
}
