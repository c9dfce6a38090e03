//! Source addresses and ports of many connections.
//!
//! Place: before each connect. One source address can reach one target `address:port` from at most
//! as many connections as it has ports; more addresses multiply that. Ports are chosen here rather
//! than by the kernel, whose search slows down as its range fills. Pure, but for asking which ports
//! may be used.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use crate::pattern::Pattern;

/// The ports used when source addresses are given: above the well-known services, up to the end.
pub const PORTS: RangeInclusive<u16> = 10_000..=65_000;

/// A supply of source addresses for one worker: it owns every `workers`-th port, so that workers
/// never collide.
#[derive(Clone, Debug)]
pub struct Sources {
    addresses: Vec<IpAddr>,
    next: u64,
    stride: u64,
    refused: u64,
}

impl Sources {
    /// Reads patterns of addresses (`127.0.{1..20}.1`).
    ///
    /// # Errors
    /// A sentence that names the pattern or address that is not one.
    pub fn parse_addresses(patterns: &[String]) -> Result<Vec<IpAddr>, String> {
        let mut addresses = Vec::new();
        for text in patterns {
            let pattern = Pattern::parse(text)?;
            if addresses.len() as u64 + pattern.len() > 65_536 {
                return Err(format!("`{text}` names more than 65,536 local addresses"));
            }
            for member in pattern.iter() {
                addresses
                    .push(member.parse().map_err(|_| format!("`{member}` is not an IP address"))?);
            }
        }
        Ok(addresses)
    }

    /// The share of `worker` of `workers`. Without addresses the kernel chooses.
    pub fn new(addresses: Vec<IpAddr>, worker: u64, workers: u64) -> Sources {
        Sources { addresses, next: worker, stride: workers.max(1), refused: 0 }
    }

    /// Maximum number of connections from `addresses` to one target; `None` if the kernel selects
    /// the address.
    pub fn capacity(addresses: &[IpAddr]) -> Option<u64> {
        let ports = u64::from(PORTS.end() - PORTS.start()) + 1;
        (!addresses.is_empty()).then(|| ports * addresses.len() as u64)
    }

    /// The next source, or `None` for the kernel's choice. Goes round: a port that was used long
    /// ago comes again, and if it is still taken the caller asks for the next.
    pub fn take(&mut self) -> Option<SocketAddr> {
        let capacity = Sources::capacity(&self.addresses)?;
        let place = self.next % capacity;
        self.next += self.stride;
        let addresses = self.addresses.len() as u64;
        let port = PORTS.start() + (place / addresses) as u16;
        Some(SocketAddr::new(self.addresses[(place % addresses) as usize], port))
    }

    /// Notes that the last source was taken by somebody else.
    pub fn note_refused(&mut self) {
        self.refused += 1;
    }

    /// Sources that turned out to be taken.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn addresses() {
        let read = Sources::parse_addresses(&["127.0.{1..3}.1".into(), "::1".into()]).unwrap();
        assert_eq!(read.len(), 4);
        assert_eq!(read[2].to_string(), "127.0.3.1");
        assert!(Sources::parse_addresses(&["127.0.{1..300}.1".into()]).is_err());
        assert!(Sources::parse_addresses(&["{".into()]).is_err());
        assert!(Sources::parse_addresses(&["10.{0..255}.{0..255}.{0..255}".into()]).is_err());
    }

    #[test]
    fn workers_never_share_a_source() {
        let addresses = Sources::parse_addresses(&["127.0.{1..2}.1".into()]).unwrap();
        let capacity = Sources::capacity(&addresses).unwrap();
        assert_eq!(capacity, 2 * 55_001);
        let mut seen = HashSet::new();
        for worker in 0..3 {
            let mut sources = Sources::new(addresses.clone(), worker, 3);
            for _ in 0..capacity / 3 {
                assert!(seen.insert(sources.take().unwrap()));
            }
        }
        assert_eq!(Sources::new(Vec::new(), 0, 1).take(), None);
    }
}
