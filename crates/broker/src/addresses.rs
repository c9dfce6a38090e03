//! Blocks of IP addresses, as options name them: `10.0.0.0/8`, `2001:db8::/32`, `192.0.2.7`.
//!
//! Pure. Invariants: bits behind the prefix are 0; an IPv4 address that comes mapped into IPv6 (`::ffff:192.0.2.7`) is the
//! IPv4 address, so that a listener on `::` and one on `0.0.0.0` mean the same peers.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// A block of addresses (CIDR, RFC 4632 and RFC 4291, section 2.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl Prefix {
    /// A block from its text; an address alone is a block of one. `None` for what is no such text, and where bits are set
    /// behind the prefix (`10.0.0.1/8` is more likely a mistake than meant) or the address is a mapped one.
    pub fn parse(text: &str) -> Option<Prefix> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let all = match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        let bits = match bits {
            None => all,
            Some(bits) if !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                bits.parse().ok()?
            }
            Some(_) => return None,
        };
        let prefix = Prefix { address, bits };
        let is_mapped = address.to_canonical() != address;
        (bits <= all && !is_mapped && prefix.masked(address) == Some(address)).then_some(prefix)
    }

    /// Whether an address lies in the block.
    pub fn contains(self, address: IpAddr) -> bool {
        self.masked(address.to_canonical()) == Some(self.address)
    }

    /// The address without the bits behind the prefix; `None` if it is of the other version.
    fn masked(self, address: IpAddr) -> Option<IpAddr> {
        match (self.address, address) {
            (IpAddr::V4(_), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                Some(IpAddr::V4((u32::from(address) & mask).into()))
            }
            (IpAddr::V6(_), IpAddr::V6(address)) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(self.bits))
                    .unwrap_or(0);
                Some(IpAddr::V6(Ipv6Addr::from(u128::from(address) & mask)))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        for (text, shown) in [
            ("10.0.0.0/8", Some("10.0.0.0/8")),
            ("0.0.0.0/0", Some("0.0.0.0/0")),
            ("192.0.2.7", Some("192.0.2.7/32")),
            ("192.0.2.7/32", Some("192.0.2.7/32")),
            ("2001:db8::/32", Some("2001:db8::/32")),
            ("::/0", Some("::/0")),
            ("::1", Some("::1/128")),
            ("10.0.0.1/8", None),
            ("10.0.0.0/33", None),
            ("::/129", None),
            ("2001:db8::1/64", None),
            ("::ffff:10.0.0.0/104", None),
            ("10.0.0.0/", None),
            ("10.0.0.0/+8", None),
            ("10.0.0/8", None),
            ("localhost", None),
            ("/8", None),
            ("", None),
        ] {
            let prefix = Prefix::parse(text);
            assert_eq!(
                prefix.map(|prefix| prefix.to_string()).as_deref(),
                shown,
                "{text}"
            );
        }
    }

    #[test]
    fn containing() {
        for (prefix, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::10.1.2.3"),
            ("0.0.0.0/0", "255.255.255.255", "::"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("::/0", "2001:db8::1", "127.0.0.1"),
            ("fe80::/10", "febf::1", "fec0::"),
        ] {
            let prefix = Prefix::parse(prefix).unwrap();
            assert!(
                prefix.contains(inside.parse().unwrap()),
                "{prefix} {inside}"
            );
            assert!(
                !prefix.contains(outside.parse().unwrap()),
                "{prefix} {outside}"
            );
        }
    }
}
