//! Sets of addresses, as networks (`192.0.2.0/24`, `2001:db8::/32`), and the key by which addresses
//! are counted.
//!
//! Place: rules that depend on a peer's address, or on the host name in its request. Invariants: an
//! IPv4 address equals its mapped form in IPv6 (`::ffff:192.0.2.1`), so that a listener on `::` and
//! one on `0.0.0.0` mean the same peers; a network of IPv6 contains no IPv4 address, not even
//! `::/0`; bits behind the prefix are 0.

use crate::handing::Hand;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address of clients whose proxies do not name them: limits count them as one client, and no
/// rule matches them. No peer has this address.
pub const UNNAMED: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The length of the prefix of IPv4 addresses in IPv6.
const MAPPED_BITS: u8 = 96;

/// A network of one family: all addresses that begin with the same bits (CIDR, RFC 4632 and RFC
/// 4291, section 2.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Hand)]
pub struct Network {
    base: u128,
    bits: u8,
}

impl Network {
    /// Takes the first `bits` bits of an address, counted in its own family; too large a number
    /// means all of them.
    pub fn new(address: IpAddr, bits: u8) -> Network {
        let bits = match address.to_canonical() {
            IpAddr::V4(_) if address.is_ipv4() => MAPPED_BITS + bits.min(32),
            _ => bits.min(128),
        };
        Network { base: number_of(address) & mask(bits), bits }
    }

    /// Parses `address/bits`, or an address alone. `None` for other strings, for bits set behind
    /// the prefix (`10.0.0.1/8` is probably a mistake), and for IPv4 written as IPv6.
    pub fn parse(text: &str) -> Option<Network> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => bits_max,
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => bits.parse().ok()?,
            Some(_) => return None,
        };
        let network = Network::new(address, bits);
        let is_exact = network.base == number_of(address) && address.to_canonical() == address;
        (bits <= bits_max && is_exact).then_some(network)
    }

    /// Whether the network contains an address.
    pub fn contains(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.is_ipv4() && number_of(address) & mask(self.bits) == self.base
    }

    fn is_ipv4(self) -> bool {
        self.bits >= MAPPED_BITS && Ipv6Addr::from_bits(self.base).to_ipv4_mapped().is_some()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Ipv6Addr::from_bits(self.base);
        match address.to_ipv4_mapped() {
            Some(address) if self.bits >= MAPPED_BITS => {
                write!(formatter, "{address}/{}", self.bits - MAPPED_BITS)
            }
            _ => write!(formatter, "{address}/{}", self.bits),
        }
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// A set of networks, small enough for a linear search.
#[derive(Clone, PartialEq, Eq, Default, Debug, Hand)]
pub struct Networks(Box<[Network]>);

impl Networks {
    /// Whether one of the networks contains an address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Network> for Networks {
    fn from_iter<I: IntoIterator<Item = Network>>(networks: I) -> Networks {
        Networks(networks.into_iter().collect())
    }
}

/// An address as a number of 128 bits.
pub fn number_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The address for a number; IPv4 addresses in their short form.
pub fn address_of(number: u128) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from_bits(number)).to_canonical()
}

fn mask(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or_default()
}

/// Whether a request's `Host` means this machine: `localhost`, a loopback address, or the host of
/// one of these origins; ports do not count, and the origin `*` matches every host. A page whose
/// own name suddenly resolves to loopback (DNS rebinding) sends its own name.
pub fn names_this_machine(host: &str, origins: &[String]) -> bool {
    let name = without_port(host);
    let is_loopback = |address: IpAddr| address.is_loopback();
    let is_host_of = |origin: &String| {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        origin == "*"
            || authority.is_some_and(|authority| without_port(authority).eq_ignore_ascii_case(name))
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse().is_ok_and(is_loopback)
        || origins.iter().any(is_host_of)
}

/// The host of an authority; IPv6 without its brackets.
fn without_port(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(address, _)| address),
        None => authority.split(':').next().unwrap_or(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_this_machine_are_recognized() {
        let origins = ["https://Ops.example:8443".to_owned()];
        for host in [
            "localhost",
            "LOCALHOST:8801",
            "127.0.0.1",
            "127.1.2.3:8801",
            "[::1]:8801",
            "ops.example",
            "ops.example:1",
        ] {
            assert!(names_this_machine(host, &origins), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example:8801",
            "ops.example.evil.example",
            "10.0.0.1",
            "[2001:db8::1]",
            "[::1",
            "",
        ] {
            assert!(!names_this_machine(host, &origins), "{host}");
        }
        assert!(names_this_machine("anything", &["*".into()]));
    }

    fn networks(texts: &[&str]) -> Networks {
        let parsed = texts.iter().map(|text| Network::parse(text));
        parsed.collect::<Option<Networks>>().unwrap()
    }

    #[test]
    fn networks_contain_their_addresses() {
        let set = networks(&["10.0.0.0/8", "192.0.2.1", "2001:db8::/32", "::1"]);
        for inside in ["10.1.2.3", "::ffff:10.1.2.3", "192.0.2.1", "2001:db8:ffff::1", "::1"] {
            assert!(set.contains(inside.parse().unwrap()), "{inside}");
        }
        for outside in ["11.0.0.0", "192.0.2.2", "2001:db9::", "::2", "::a01:203"] {
            assert!(!set.contains(outside.parse().unwrap()), "{outside}");
        }
        let all = networks(&["0.0.0.0/0"]);
        assert!(all.contains("255.1.2.3".parse().unwrap()));
        assert!(!all.contains("::1".parse().unwrap()));
        let all_of_ipv6 = networks(&["::/0"]);
        assert!(all_of_ipv6.contains("2001:db8::1".parse().unwrap()));
        for ipv4 in ["1.2.3.4", "::ffff:1.2.3.4"] {
            assert!(!all_of_ipv6.contains(ipv4.parse().unwrap()), "{ipv4}");
        }
        let link_local = networks(&["fe80::/10"]);
        assert!(link_local.contains("febf::1".parse().unwrap()));
        assert!(!link_local.contains("fec0::".parse().unwrap()));
        assert!(!Networks::default().contains("1.2.3.4".parse().unwrap()));
    }

    #[test]
    fn invalid_networks_are_refused() {
        for text in [
            "",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.1/8",
            "10.0.0.0/+8",
            "10.0.0.0/8/8",
            "::/129",
            "2001:db8::1/32",
            "example.com",
            "10.0.0/8",
            "10.0.0.0/256",
            "::ffff:10.0.0.0/104",
            "/8",
        ] {
            assert_eq!(Network::parse(text), None, "{text}");
        }
    }

    #[test]
    fn addresses_survive_conversion() {
        for text in ["10.0.0.0/8", "192.0.2.1/32", "2001:db8::/32", "::/0", "0.0.0.0/0"] {
            assert_eq!(Network::parse(text).unwrap().to_string(), text);
        }
        for (text, shown) in [("192.0.2.7", "192.0.2.7/32"), ("::1", "::1/128")] {
            assert_eq!(Network::parse(text).unwrap().to_string(), shown);
        }
        for text in ["1.2.3.4", "2001:db8::1"] {
            let address = text.parse().unwrap();
            assert_eq!(address_of(number_of(address)), address);
        }
    }
}
