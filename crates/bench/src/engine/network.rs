//! A TCP of our own for the clients of a run, in place of the kernel's sockets.
//!
//! Place: from the command line, through [`super::Common`], to the worker that opens it. It is a
//! value that a run can hand to its load generator; only the worker touches the interface.

use std::net::IpAddr;

use anyhow::{bail, ensure};
use net::device::interface::Station;
use net::device::xdp::Mode;
use net::user::{Carrier, Frames, UserNetwork};
use serde::{Deserialize, Serialize};
use stdx::hash::Seed;

use crate::payload::seed_from_entropy;

/// Source addresses of one network at most.
pub const ADDRESSES_MAX: usize = 255;
/// The first port of connections: nothing else on the interface needs one.
pub const PORTS_FIRST: u16 = 1_024;

/// The device of a TCP of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkDevice {
    /// AF_XDP, with a program in the interface's driver.
    Xdp,
    /// AF_XDP, with a program in the kernel, for any driver.
    #[default]
    XdpGeneric,
    /// A TUN interface.
    Tun,
}

impl NetworkDevice {
    /// The name, as options have it.
    pub fn text(self) -> &'static str {
        match self {
            NetworkDevice::Xdp => "xdp",
            NetworkDevice::XdpGeneric => "xdp-generic",
            NetworkDevice::Tun => "tun",
        }
    }

    /// The device as the network has it.
    pub fn carrier(self) -> Carrier {
        match self {
            NetworkDevice::Xdp => Carrier::Xdp(Mode::Native),
            NetworkDevice::XdpGeneric => Carrier::Xdp(Mode::Generic),
            NetworkDevice::Tun => Carrier::Tun,
        }
    }
}

/// A TCP of our own on an interface, for the clients of one worker. It takes all frames of the
/// interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientNetwork {
    /// The interface's name.
    pub interface: String,
    /// The device.
    pub device: NetworkDevice,
    /// The station of the server, or of the router to it; TUN needs none.
    pub gateway: Option<Station>,
}

impl ClientNetwork {
    /// The network with these source addresses.
    ///
    /// # Errors
    /// An option is missing, or has no meaning here.
    pub(super) fn with(&self, addresses: &[IpAddr]) -> anyhow::Result<UserNetwork> {
        if addresses.is_empty() || addresses.len() > ADDRESSES_MAX {
            bail!(
                "--interface needs --local-addresses with 1 to {ADDRESSES_MAX} addresses, which the kernel does not have"
            );
        }
        let carrier = self.device.carrier();
        ensure!(
            self.gateway.is_some() || carrier == Carrier::Tun,
            "--interface needs --gateway, the station (MAC address) of the server or of the router to it"
        );
        let secret = Seed(seed_from_entropy(), seed_from_entropy());
        Ok(UserNetwork {
            frames: Frames::All,
            gateway: self.gateway,
            ports_first: PORTS_FIRST,
            ..UserNetwork::new(self.interface.clone(), carrier, addresses.to_vec(), secret)
        })
    }

    /// Maximum number of connections from this number of source addresses to one target.
    pub(super) fn capacity(addresses: usize) -> u64 {
        addresses as u64 * (u64::from(u16::MAX - PORTS_FIRST) + 1)
    }
}

/// Reads a station such as `02:00:00:00:00:01`.
///
/// # Errors
/// A sentence that names the text.
pub fn parse_station(text: &str) -> Result<Station, String> {
    let byte = |digits: &str| {
        let is_byte = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        u8::from_str_radix(digits, 16).ok().filter(|_| is_byte)
    };
    let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
    let station = bytes.and_then(|bytes| Station::try_from(bytes).ok());
    station.ok_or_else(|| format!("`{text}` is not a MAC address such as 02:00:00:00:00:01"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stations() {
        assert_eq!(parse_station("02:00:0a:FF:10:01"), Ok([2, 0, 10, 255, 16, 1]));
        for wrong in
            ["", "02:00:00:00:00", "02:00:00:00:00:01:02", "2:0:0:0:0:1", "02:00:00:00:00:+1"]
        {
            assert!(parse_station(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn options_that_are_missing_are_named() {
        let network = ClientNetwork {
            interface: "eth1".to_owned(),
            device: NetworkDevice::Xdp,
            gateway: Some([2, 0, 0, 0, 0, 1]),
        };
        let addresses: Vec<IpAddr> = (1..=255).map(|last| [198, 18, 0, last].into()).collect();
        let opened = network.with(&addresses).unwrap();
        assert_eq!((opened.ports_first, opened.frames), (PORTS_FIRST, Frames::All));
        assert_eq!(ClientNetwork::capacity(160), 160 * 64_512);
        let said = |network: &ClientNetwork, addresses: &[IpAddr]| {
            network.with(addresses).unwrap_err().to_string()
        };
        assert!(said(&network, &[]).contains("--local-addresses"));
        let many = [&addresses[..], &addresses[..1]].concat();
        assert!(said(&network, &many).contains("1 to 255"));
        let lost = ClientNetwork { gateway: None, ..network };
        assert!(said(&lost, &addresses).contains("--gateway"));
        let tun = ClientNetwork { device: NetworkDevice::Tun, ..lost };
        assert_eq!(tun.with(&addresses).unwrap().carrier, Carrier::Tun);
    }
}
