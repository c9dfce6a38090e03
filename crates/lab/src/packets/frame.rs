//! The frames of the probe: Ethernet, IPv4, TCP, and nothing of meaning behind.
//!
//! Sequence and acknowledgement fields carry the frame's number and its intended send time, so that
//! 60 bytes are enough. The kernel forwards the packets (TUN), and the XDP program of a port takes
//! them. The TCP checksum is zero: nothing here verifies it.

use std::net::Ipv4Addr;

/// Length of an Ethernet header, in bytes.
const ETHERNET_BYTES: usize = 14;
/// Length of the shortest frame, in bytes: the headers alone.
pub const FRAME_BYTES_MIN: usize = ETHERNET_BYTES + 40;

/// The port of all frames.
pub const PORT: u16 = 8_800;

/// Places in a frame, in bytes from the IP header.
const TARGET_PORT: usize = 22;
const NUMBER: usize = 24;
const INTENDED: usize = 28;

/// The part of a frame that the probe reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The frame's number, from 0; it wraps.
    pub number: u32,
    /// The intended send time, in nanoseconds of the monotonic clock; it wraps after 4.3 seconds.
    pub intended_ns: u32,
}

impl Mark {
    /// Reads a received frame; `None` if it is not one of the probe's.
    pub fn read(frame: &[u8], link_header_bytes: usize) -> Option<Mark> {
        let packet = frame.get(link_header_bytes..)?;
        let is_ours = packet.get(TARGET_PORT..TARGET_PORT + 2) == Some(&PORT.to_be_bytes()[..])
            && packet[0] == 0x45;
        if !is_ours {
            return None;
        }
        let word = |place: usize| {
            let bytes = packet.get(place..place + 4)?;
            Some(u32::from_be_bytes(bytes.try_into().ok()?))
        };
        Some(Mark { number: word(NUMBER)?, intended_ns: word(INTENDED)? })
    }

    /// The time since the intended send time, in nanoseconds, up to 2.1 seconds. 0 for a frame that
    /// was sent after the receiver looked at the clock.
    pub fn age_ns(self, now_ns: u64) -> u64 {
        let age = (now_ns as u32).wrapping_sub(self.intended_ns) as i32;
        age.max(0) as u64
    }
}

/// All frames of one direction, except for their marks.
#[derive(Debug)]
pub struct Template {
    bytes: Vec<u8>,
    ip: usize,
}

impl Template {
    /// Frames of `frame_bytes`, counted with an Ethernet header even where the device has none.
    pub fn new(
        from: Ipv4Addr,
        to: Ipv4Addr,
        frame_bytes: usize,
        link_header_bytes: usize,
    ) -> Template {
        let packet_bytes = frame_bytes.max(FRAME_BYTES_MIN) - ETHERNET_BYTES;
        let mut bytes = vec![2; link_header_bytes];
        if link_header_bytes == ETHERNET_BYTES {
            bytes[12..].copy_from_slice(&[0x08, 0x00]);
        }
        let mut header = [0; 20];
        header[0] = 0x45;
        header[2..4].copy_from_slice(&(packet_bytes as u16).to_be_bytes());
        header[6] = 0x40;
        header[8] = 64;
        header[9] = 6;
        header[12..16].copy_from_slice(&from.octets());
        header[16..20].copy_from_slice(&to.octets());
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend(header);
        bytes.extend(PORT.to_be_bytes().repeat(2));
        // Sequence, acknowledgement; five words, ACK and PSH; window, checksum, urgent.
        bytes.extend([0; 8]);
        bytes.extend([0x50, 0x18, 1, 0, 0, 0, 0, 0]);
        bytes.resize(link_header_bytes + packet_bytes, 3);
        Template { bytes, ip: link_header_bytes }
    }

    /// Writes a frame and returns its length in bytes; `None` if the place is too short.
    pub fn write(&self, place: &mut [u8], mark: Mark) -> Option<usize> {
        let frame = place.get_mut(..self.bytes.len())?;
        frame.copy_from_slice(&self.bytes);
        let at = |field: usize| self.ip + field..self.ip + field + 4;
        frame[at(NUMBER)].copy_from_slice(&mark.number.to_be_bytes());
        frame[at(INTENDED)].copy_from_slice(&mark.intended_ns.to_be_bytes());
        Some(frame.len())
    }
}

/// The internet checksum of a header with an even number of bytes.
fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_carries_its_mark_in_60_bytes() {
        let [from, to] = [Ipv4Addr::new(10, 77, 1, 2), Ipv4Addr::new(10, 77, 2, 2)];
        for link_header_bytes in [0, ETHERNET_BYTES] {
            let template = Template::new(from, to, 60, link_header_bytes);
            let mark = Mark { number: 70_000, intended_ns: u32::MAX - 4 };
            let mut place = [0; 100];
            let length = template.write(&mut place, mark).expect("room");
            assert_eq!(length, 46 + link_header_bytes);
            let header = &place[link_header_bytes..link_header_bytes + 20];
            assert_eq!(checksum(header), 0, "the sum over a header with its sum");
            assert_eq!(Mark::read(&place[..length], link_header_bytes), Some(mark));
            assert_eq!(mark.age_ns((1 << 32) + 5), 10);
            assert_eq!(mark.age_ns(u64::from(u32::MAX) - 9), 0);
            assert_eq!(template.write(&mut place[..40], mark), None);
            place[link_header_bytes + TARGET_PORT] = 0;
            assert_eq!(Mark::read(&place[..length], link_header_bytes), None);
        }
    }
}
