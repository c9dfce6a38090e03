//! An interface of the calling thread's network namespace: its number, station and MTU.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::failed;

pub use tcp::neighbours::Station;

/// Bytes of the address of a station on an Ethernet.
pub const STATION_BYTES: usize = size_of::<Station>();

/// An interface, as it is at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its number.
    pub index: u32,
    /// Its address on the Ethernet; zeros without one.
    pub station: Station,
    /// The greatest IP packet, in bytes.
    pub mtu: u32,
}

impl Interface {
    /// The interface with this name.
    ///
    /// # Errors
    /// There is none, or its name has more than 15 bytes.
    pub fn find(name: &str) -> io::Result<Interface> {
        let step = || format!("find the interface {name}");
        let any = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .map_err(|error| failed(step(), "", error))?;
        let index = name_to_index(&any, name).map_err(|error| failed(step(), "", error))?;
        let station = ask(&any, name, libc::SIOCGIFHWADDR)
            .map_err(|error| failed(format_args!("read the station of {name}"), "", error))?;
        let mtu = ask(&any, name, libc::SIOCGIFMTU)
            .map_err(|error| failed(format_args!("read the MTU of {name}"), "", error))?;
        let mut bytes = [0; STATION_BYTES];
        // Behind the family of the address.
        bytes.copy_from_slice(&station[2..2 + STATION_BYTES]);
        let mtu = u32::from_ne_bytes([mtu[0], mtu[1], mtu[2], mtu[3]]);
        Ok(Interface { index, station: bytes, mtu })
    }
}

/// `struct ifreq`, whose union is bytes here.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    value: [u8; 24],
}

/// A property of an interface, as the bytes of the union in `struct ifreq`.
fn ask(any: &OwnedFd, name: &str, property: libc::c_ulong) -> io::Result<[u8; 24]> {
    let mut request = Request { name: [0; libc::IFNAMSIZ], value: [0; 24] };
    if name.len() >= request.name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: both properties read and write one `struct ifreq`, whose size and layout the request
    // has; it lives for the time of the call.
    let result = unsafe { libc::ioctl(any.as_raw_fd(), property as _, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(request.value) }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{in_namespace, ip};
    use super::*;

    #[test]
    fn an_interface_has_its_properties() {
        in_namespace(|_| {
            ip("link add dev one address 02:01:02:03:04:05 mtu 1400 type veth peer name other");
            let one = Interface::find("one").expect("it is there");
            assert_eq!((one.station, one.mtu), ([2, 1, 2, 3, 4, 5], 1_400));
            let error = Interface::find("nothing").expect_err("it is not").to_string();
            assert!(error.starts_with("cannot find the interface nothing: "), "{error}");
            assert!(Interface::find("a-name-of-twenty-one").is_err());
        });
    }
}
