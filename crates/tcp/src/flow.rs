//! The name of a connection in packets: both addresses and ports.

use std::net::{IpAddr, SocketAddr};
use stdx::hash::{Seed, keyed};

/// A connection, seen from here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flow {
    /// The peer's address.
    pub peer: IpAddr,
    /// The peer's port.
    pub peer_port: u16,
    /// Our port.
    pub local_port: u16,
    /// The index of our address.
    pub local: u8,
}

impl Flow {
    pub fn peer_address(&self) -> SocketAddr {
        SocketAddr::new(self.peer, self.peer_port)
    }

    /// The flow's bytes, for hashes; the rest of the buffer is free.
    pub fn bytes(&self, buffer: &mut [u8; 32]) -> usize {
        buffer[0..2].copy_from_slice(&self.peer_port.to_be_bytes());
        buffer[2..4].copy_from_slice(&self.local_port.to_be_bytes());
        buffer[4] = self.local;
        match self.peer {
            IpAddr::V4(address) => {
                buffer[5..9].copy_from_slice(&address.octets());
                9
            }
            IpAddr::V6(address) => {
                buffer[5..21].copy_from_slice(&address.octets());
                21
            }
        }
    }

    /// The keyed hash of the flow: peers choose most of it.
    pub fn hash(&self, seed: Seed) -> u64 {
        let mut buffer = [0; 32];
        let length = self.bytes(&mut buffer);
        keyed(seed, &buffer[..length])
    }
}
