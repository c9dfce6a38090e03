//! Clients whose certificate TLS has verified, until a session begins: the credential of each
//! request that shows no other.

use crate::ids::ConnIndex;
use std::collections::BTreeMap;
use stdx::handing::Hand;
use stdx::memory::tree_bytes;

/// Credentials by connection ([`crate::entitlement::certificate_credential`]).
#[derive(Default, Hand)]
pub(crate) struct Certificates {
    by_connection: BTreeMap<ConnIndex, Box<[u8]>>,
    /// Bytes of the credentials.
    bytes: usize,
}

impl Certificates {
    /// Notes the credential of a connection.
    pub fn insert(&mut self, index: ConnIndex, credential: Box<[u8]>) {
        self.remove(index);
        self.bytes += credential.len();
        self.by_connection.insert(index, credential);
    }

    /// The credential of a connection.
    pub fn get(&self, index: ConnIndex) -> Option<&[u8]> {
        self.by_connection.get(&index).map(|credential| &**credential)
    }

    /// The connection ends, or has a session, which keeps its entitlement.
    pub fn remove(&mut self, index: ConnIndex) {
        if let Some(credential) = self.by_connection.remove(&index) {
            self.bytes -= credential.len();
        }
    }

    /// Bytes, about.
    pub fn memory_bytes(&self) -> usize {
        tree_bytes(self.by_connection.len(), size_of::<(ConnIndex, Box<[u8]>)>()) + self.bytes
    }
}
