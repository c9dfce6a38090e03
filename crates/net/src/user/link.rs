//! The link header of frames: none, or Ethernet's.
//!
//! A server needs no address resolution: it answers to the station from which the connection's last
//! good segment came. A hop is such a station's number; the first is the gateway, which gets what
//! has no station yet.

use std::fmt;

use crate::device::interface::{STATION_BYTES, Station};

/// Maximum number of stations; frames to later ones leave through the gateway.
const HOPS_MAX: usize = 256;
const HEADER_BYTES: usize = 14;
const TYPE_IPV4: [u8; 2] = [0x08, 0x00];
const TYPE_IPV6: [u8; 2] = [0x86, 0xdd];

/// The link header of one device's frames.
pub struct Link {
    ours: Station,
    /// Ready headers by hop; one that is empty for a device without link headers.
    headers: Vec<Vec<u8>>,
}

impl Link {
    /// A device without link headers.
    pub fn none() -> Link {
        Link { ours: [0; STATION_BYTES], headers: vec![Vec::new()] }
    }

    /// An Ethernet: our station, and the gateway for packets to peers that have sent nothing.
    pub fn ethernet(ours: Station, gateway: Station) -> Link {
        Link { ours, headers: vec![header(gateway, ours)] }
    }

    /// The header of frames with IPv4 to a hop; that of the gateway for an unknown one. With IPv6,
    /// the last two bytes differ ([`Link::finish`]).
    pub fn header(&self, hop: u8) -> &[u8] {
        self.headers.get(usize::from(hop)).unwrap_or(&self.headers[0])
    }

    /// Sets the type in the header of a frame that has its packet.
    pub fn finish(&self, frame: &mut [u8]) {
        if let Some((head, packet)) = frame.split_first_chunk_mut::<HEADER_BYTES>()
            && !self.headers[0].is_empty()
            && packet.first().is_some_and(|first| first >> 4 == 6)
        {
            head[12..].copy_from_slice(&TYPE_IPV6);
        }
    }

    /// Our station; none for a device without link headers.
    pub fn station(&self) -> Option<Station> {
        (!self.headers[0].is_empty()).then_some(self.ours)
    }

    /// The packet in a received frame, and its hop. None if the frame is not ours, or carries no
    /// IP.
    pub fn packet<'a>(&mut self, frame: &'a [u8]) -> Option<(&'a [u8], u8)> {
        if self.headers[0].is_empty() {
            return Some((frame, 0));
        }
        let (head, packet) = frame.split_first_chunk::<HEADER_BYTES>()?;
        let is_ip = [TYPE_IPV4, TYPE_IPV6].iter().any(|kind| head[12..] == *kind);
        if head[..STATION_BYTES] != self.ours || !is_ip {
            return None;
        }
        let mut from = [0; STATION_BYTES];
        from.copy_from_slice(&head[STATION_BYTES..2 * STATION_BYTES]);
        Some((packet, self.hop(from)))
    }

    fn hop(&mut self, station: Station) -> u8 {
        let is_it = |header: &Vec<u8>| header[..STATION_BYTES] == station;
        if let Some(hop) = self.headers.iter().position(is_it) {
            return hop as u8;
        }
        if self.headers.len() == HOPS_MAX {
            return 0;
        }
        self.headers.push(header(station, self.ours));
        (self.headers.len() - 1) as u8
    }
}

fn header(to: Station, from: Station) -> Vec<u8> {
    [&to[..], &from, &TYPE_IPV4].concat()
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({} hops)", self.headers.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Station = [2, 0, 0, 0, 0, 1];

    fn frame(to: Station, from: Station, kind: [u8; 2]) -> Vec<u8> {
        [&to[..], &from, &kind, b"packet"].concat()
    }

    #[test]
    fn answers_go_to_the_station_of_the_question() {
        let mut link = Link::ethernet(OURS, [9; 6]);
        let asks = |link: &mut Link, from: Station| {
            link.packet(&frame(OURS, from, TYPE_IPV4)).map(|(packet, hop)| (packet.to_vec(), hop))
        };
        assert_eq!(asks(&mut link, [3; 6]), Some((b"packet".to_vec(), 1)));
        assert_eq!(asks(&mut link, [4; 6]), Some((b"packet".to_vec(), 2)));
        assert_eq!(asks(&mut link, [9; 6]), Some((b"packet".to_vec(), 0)));
        assert_eq!(asks(&mut link, [3; 6]), Some((b"packet".to_vec(), 1)));
        assert_eq!(link.header(2), frame([4; 6], OURS, TYPE_IPV4)[..14].to_vec());
        assert_eq!(link.header(77), frame([9; 6], OURS, TYPE_IPV4)[..14].to_vec());
        for number in 0..600_u16 {
            let [high, low] = number.to_be_bytes();
            asks(&mut link, [5, 5, 5, 5, high, low]);
        }
        assert_eq!((link.headers.len(), asks(&mut link, [8; 6]).unwrap().1), (HOPS_MAX, 0));
    }

    #[test]
    fn the_type_follows_the_packet() {
        let link = Link::ethernet(OURS, [9; 6]);
        for (first, kind) in [(0x45, TYPE_IPV4), (0x60, TYPE_IPV6)] {
            let mut frame = [link.header(0), &[first; 40]].concat();
            link.finish(&mut frame);
            assert_eq!(frame[12..14], kind);
        }
    }

    #[test]
    fn frames_of_others_are_skipped() {
        let mut link = Link::ethernet(OURS, [9; 6]);
        assert_eq!(link.packet(&frame([7; 6], [3; 6], TYPE_IPV4)), None);
        assert_eq!(link.packet(&frame(OURS, [3; 6], [0x08, 0x06])), None);
        assert_eq!(link.packet(&[2; 13]), None);
        assert_eq!(Link::none().packet(b"packet"), Some((&b"packet"[..], 0)));
        assert!(Link::none().header(3).is_empty());
    }
}
