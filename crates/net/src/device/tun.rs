//! A TUN interface as a device: IP packets without a link header, one system call each.
//!
//! Place: the device that needs no capability but CAP_NET_ADMIN and no feature of a driver; for
//! tests, and where AF_XDP is not available. Addresses, routes and the MTU of the interface are the
//! caller's concern.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Updater, ioctl, opcode};

use super::{Device, FRAME_BYTES, failed};

/// Frames that wait for [`Device::flush`] at most.
const QUEUED_MAX: usize = 4_096;

/// `TUNSETIFF`: the number is that of a call with an `int`, the argument an [`InterfaceRequest`].
const SET_INTERFACE: rustix::ioctl::Opcode = opcode::write::<libc::c_int>(b'T', 202);

/// `struct ifreq` with flags.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: libc::c_short,
    rest: [u8; 22],
}

/// A TUN interface. It disappears when the device is dropped.
#[derive(Debug)]
pub struct Tun {
    file: OwnedFd,
    received: Box<[u8]>,
    /// Frames that wait for the kernel, each with its length in bytes.
    queued: VecDeque<(Box<[u8]>, usize)>,
    /// Places without a frame; the last one is lent first.
    spare: Vec<Box<[u8]>>,
    refused: u64,
}

impl Tun {
    /// Creates the interface `name` in the calling thread's network namespace.
    ///
    /// # Errors
    /// The name has no or more than 15 bytes, belongs to another interface, or the process lacks
    /// CAP_NET_ADMIN.
    pub fn open(name: &str) -> io::Result<Tun> {
        let mut request = InterfaceRequest {
            name: [0; libc::IFNAMSIZ],
            flags: (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short,
            rest: [0; 22],
        };
        if name.is_empty() || name.len() >= request.name.len() {
            let text = format!("the name of an interface has 1 to 15 bytes, not `{name}`");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open("/dev/net/tun", flags, Mode::empty())
            .map_err(|error| failed("open /dev/net/tun", "access to this file", error))?;
        // SAFETY: TUNSETIFF reads a `struct ifreq` and writes its name into the same one. The
        // request has its size and layout.
        let update = unsafe { Updater::<{ SET_INTERFACE }, _>::new(&mut request) };
        // SAFETY: as before; the request outlives the call.
        let created = unsafe { ioctl(&file, update) };
        let step = format_args!("create the TUN interface {name}");
        created.map_err(|error| failed(step, "CAP_NET_ADMIN", error))?;
        Ok(Tun { file, received: place(), queued: VecDeque::new(), spare: Vec::new(), refused: 0 })
    }

    /// Sent frames that the kernel refused because they are not IP packets.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

impl Device for Tun {
    fn receive(&mut self, frames_max: usize, each: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        for count in 0..frames_max {
            match rustix::io::read(&self.file, &mut self.received[..]) {
                Ok(length) => each(&self.received[..length]),
                Err(Errno::AGAIN) => return Ok(count),
                Err(Errno::INTR) => {}
                Err(error) => return Err(failed("receive from the TUN interface", "", error)),
            }
        }
        Ok(frames_max)
    }

    fn next_frame(&mut self) -> Option<&mut [u8]> {
        if self.spare.is_empty() {
            if self.queued.len() >= QUEUED_MAX {
                return None;
            }
            self.spare.push(place());
        }
        self.spare.last_mut().map(Box::as_mut)
    }

    fn queue(&mut self, length: usize) {
        if let Some(place) = self.spare.pop() {
            self.queued.push_back((place, length.min(FRAME_BYTES)));
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while let Some((place, length)) = self.queued.pop_front() {
            match rustix::io::write(&self.file, &place[..length]) {
                Ok(_) => {}
                Err(Errno::INVAL) => self.refused += 1,
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => {
                    self.queued.push_front((place, length));
                    return Ok(());
                }
                Err(error) => {
                    self.queued.push_front((place, length));
                    return Err(failed("send to the TUN interface", "", error));
                }
            }
            self.spare.push(place);
        }
        Ok(())
    }

    fn unsent(&mut self) -> usize {
        self.queued.len()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn link_header_bytes(&self) -> usize {
        0
    }
}

/// A place of one frame.
fn place() -> Box<[u8]> {
    vec![0; FRAME_BYTES].into()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::UdpSocket;

    use super::super::testing::{PATIENCE, in_namespace, ip, receive_until, send};
    use super::*;

    #[test]
    fn the_kernel_gets_an_answer_to_its_datagram() {
        in_namespace(|_| {
            let mut tun = Tun::open("packets").expect("CAP_NET_ADMIN");
            ip("address add 10.9.0.1/24 dev packets");
            ip("link set packets up");
            let socket = UdpSocket::bind("10.9.0.1:7000").expect("an address");
            socket.set_read_timeout(Some(PATIENCE)).expect("an option");
            for round in 0..3 {
                socket.send_to(&[round; 99], "10.9.0.2:7001").expect("a route");
                let question = Cell::new(Vec::new());
                let is_asked = Cell::new(false);
                // The kernel sends packets of IPv6 as well.
                let mut each = |packet: &[u8]| {
                    if packet[0] == 0x45 && packet.ends_with(&[round; 99]) {
                        question.set(packet.to_vec());
                        is_asked.set(true);
                    }
                };
                assert!(receive_until(&mut tun, &mut each, &|| is_asked.get()));
                let mut packet = question.take();
                // Addresses and ports change places, which the checksums do not notice.
                let (source, ports) = (packet[12..16].to_vec(), packet[20..22].to_vec());
                packet.copy_within(16..20, 12);
                packet[16..20].copy_from_slice(&source);
                packet.copy_within(22..24, 20);
                packet[22..24].copy_from_slice(&ports);
                packet[26..28].fill(0);
                packet[28..].fill(round + 100);
                send(&mut tun, &packet);
                let mut buffer = [0; 200];
                let length = socket.recv(&mut buffer).expect("an answer in time");
                assert_eq!(buffer[..length], [round + 100; 99]);
            }
        });
    }

    #[test]
    fn a_frame_that_is_no_packet_is_refused_and_the_next_one_is_sent() {
        in_namespace(|_| {
            let mut tun = Tun::open("packets").expect("CAP_NET_ADMIN");
            ip("link set packets up");
            send(&mut tun, &[0; 40]);
            send(&mut tun, &[0x45; 40]);
            assert_eq!(tun.refused(), 1);
        });
    }

    #[test]
    fn an_interface_has_a_name_of_its_own() {
        in_namespace(|_| {
            for name in ["", "0123456789abcdef"] {
                let error = Tun::open(name).expect_err("no such name");
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            }
            let _tun = Tun::open("packets").expect("CAP_NET_ADMIN");
            let error = Tun::open("packets").expect_err("taken").to_string();
            assert!(error.starts_with("cannot create the TUN interface packets: "), "{error}");
        });
    }
}
