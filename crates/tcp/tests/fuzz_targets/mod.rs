//! Targets of the fuzzers: any bytes are packets, options, the actions of a peer and an
//! application, or the fate of the packets of two stacks. `fuzz/` feeds them, too.

mod life;
mod stack;

pub use life::life;
pub use stack::stack;

use tcp::packet::{Head, Options, Packet, SACKS_MAX, parse};
use tcp::{Frames, neighbours};

/// The bytes of an input, one after another; zeros follow the last one.
pub struct Bytes<'a>(pub &'a [u8]);

impl Bytes<'_> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    pub fn take(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }
}

/// A device with room for a number of frames.
pub struct Device {
    frame: Vec<u8>,
    pub sent: Vec<Vec<u8>>,
    pub room: usize,
}

impl Default for Device {
    fn default() -> Device {
        Device { frame: vec![0; 1_600], sent: Vec::new(), room: usize::MAX }
    }
}

impl Frames for Device {
    fn next_frame(&mut self) -> Option<&mut [u8]> {
        (self.room > 0).then_some(&mut self.frame[..])
    }

    fn send(&mut self, length: usize, _: u8) {
        self.room -= 1;
        self.sent.push(self.frame[..length].to_vec());
    }
}

/// A question of a neighbour has an answer for its asker, or none.
fn neighbour(data: &[u8]) {
    let ours = [2, 0, 0, 0, 0, 1];
    let addresses = ["192.0.2.1", "2001:db8::1"].map(|text| text.parse().unwrap());
    let mut out = vec![0; data.len() + 64];
    let answer = neighbours::answer(data, ours, &addresses, &mut out);
    if let Some(length) = answer {
        assert_eq!((&out[..6], &out[6..12]), (&data[6..12], &ours[..]));
        assert!(length <= data.len() + 64);
    }
}

/// Any packet is dropped, or is a segment that can be written again with the same meaning.
pub fn packet(data: &[u8]) {
    neighbour(data);
    let Ok(Packet::Segment { from, to, segment }) = parse(data) else { return };
    let head = Head {
        from,
        to,
        source_port: segment.source_port,
        target_port: segment.target_port,
        seq: segment.seq,
        ack: segment.ack,
        flags: segment.flags,
        window: segment.window,
        options: segment.options,
    };
    let mut frame = vec![0; data.len() + 40];
    let length = head.write(segment.payload, &mut frame).unwrap();
    let Ok(Packet::Segment { from: again_from, to: again_to, segment: again }) =
        parse(&frame[..length])
    else {
        panic!("a written segment is not read");
    };
    assert_eq!((from, to, segment), (again_from, again_to, again));
}

/// Any options are read within their bounds, and those that we write are read as they were.
pub fn options(data: &[u8]) {
    let options = Options::parse(data);
    assert!(options.scale.is_none_or(|scale| scale <= 14));
    assert!(options.sacks().len() <= SACKS_MAX);
    let mut of_syn = Options::of_syn(0, options.scale, options.is_sack_permitted);
    of_syn.mss = options.mss;
    let mut bytes = [0; 12];
    let length = of_syn.write_syn(&mut bytes);
    assert!(length.is_multiple_of(4));
    assert_eq!(Options::parse(&bytes[..length]), of_syn);
    let mut bytes = [0; 4 + 8 * SACKS_MAX];
    let length = Options::write_sacks(options.sacks().iter().copied(), &mut bytes);
    assert_eq!(Options::parse(&bytes[..length]).sacks(), options.sacks());
    // The options before count, whatever follows.
    let mut longer = vec![2, 4, 1, 2];
    longer.extend_from_slice(data);
    let before = Options::parse(&longer);
    assert!(before.mss == options.mss.or(Some(0x102)));
}
