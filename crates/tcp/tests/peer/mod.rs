//! The packets of a peer that a test plays by hand: how they are made, and what those of the stack
//! say.

use std::net::IpAddr;
use tcp::packet::{Head, Packet, parse};
use tcp::{Frames, Seq};

/// The two ends of a flow, seen from the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    pub from: IpAddr,
    pub to: IpAddr,
    pub from_port: u16,
    pub to_port: u16,
}

impl Ends {
    pub fn reversed(self) -> Ends {
        Ends { from: self.to, to: self.from, from_port: self.to_port, to_port: self.from_port }
    }
}

/// A segment with its own copies of options and payload.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sent {
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Sent {
    /// The packet of this segment.
    pub fn packet(&self, ends: Ends) -> Vec<u8> {
        let mut frame = vec![0; 60 + self.options.len() + self.payload.len()];
        let head = Head {
            from: ends.from,
            to: ends.to,
            source_port: ends.from_port,
            target_port: ends.to_port,
            seq: Seq(self.seq),
            ack: Seq(self.ack),
            flags: self.flags,
            window: self.window,
            options: &self.options,
        };
        let length = head.write(&self.payload, &mut frame).unwrap();
        frame.truncate(length);
        frame
    }
}

/// Reads a packet of the stack, which must be a good one.
pub fn read(packet: &[u8]) -> (Ends, Sent) {
    let Ok(Packet::Segment { from, to, segment }) = parse(packet) else {
        panic!("the stack sent {packet:?}");
    };
    let ends = Ends { from, to, from_port: segment.source_port, to_port: segment.target_port };
    let sent = Sent {
        seq: segment.seq.0,
        ack: segment.ack.0,
        flags: segment.flags,
        window: segment.window,
        options: segment.options.to_vec(),
        payload: segment.payload.to_vec(),
    };
    (ends, sent)
}

/// The device of the stack under test.
pub struct Device {
    frame: Vec<u8>,
    /// Packets that were sent, each with its next hop.
    pub sent: Vec<(Vec<u8>, u8)>,
    /// Frames that the device still takes.
    pub room: usize,
}

impl Default for Device {
    fn default() -> Device {
        Device { frame: vec![0xaa; 2_048], sent: Vec::new(), room: usize::MAX }
    }
}

impl Frames for Device {
    fn next_frame(&mut self) -> Option<&mut [u8]> {
        (self.room > 0).then_some(&mut self.frame[..])
    }

    fn send(&mut self, length: usize, hop: u8) {
        self.room -= 1;
        self.sent.push((self.frame[..length].to_vec(), hop));
    }
}
