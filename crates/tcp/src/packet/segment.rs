//! A segment's header (RFC 9293, 3.1), between the IP header and the payload.

use crate::seq::Seq;

/// The sender has no more bytes.
pub const FIN: u8 = 1;
/// The first sequence number.
pub const SYN: u8 = 2;
/// The end of the connection at once.
pub const RST: u8 = 4;
/// The receiver should not wait for more.
pub const PSH: u8 = 8;
/// The acknowledgement is meant.
pub const ACK: u8 = 16;

/// A received segment. Urgent data are ordinary bytes here: RFC 6093 advises against more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment<'a> {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub target_port: u16,
    /// The number of the first byte, or of SYN.
    pub seq: Seq,
    /// The next number that the sender expects; meaningful with [`ACK`].
    pub ack: Seq,
    /// [`FIN`], [`SYN`], [`RST`], [`PSH`], [`ACK`]; others are cleared.
    pub flags: u8,
    /// The window as sent, without scale.
    pub window: u16,
    /// The bytes of the options.
    pub options: &'a [u8],
    /// The payload.
    pub payload: &'a [u8],
}

impl<'a> Segment<'a> {
    /// Reads header and payload. None if they are not whole.
    pub fn parse(bytes: &'a [u8]) -> Option<Segment<'a>> {
        let (head, _) = bytes.split_first_chunk::<20>()?;
        let offset = usize::from(head[12] >> 4) * 4;
        let options = bytes.get(20..offset)?;
        let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let number =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        Some(Segment {
            source_port: word(0),
            target_port: word(2),
            seq: Seq(number(4)),
            ack: Seq(number(8)),
            flags: head[13] & (FIN | SYN | RST | PSH | ACK),
            window: word(14),
            options,
            payload: &bytes[offset..],
        })
    }

    /// Whether all of these flags are set.
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// The sequence numbers that the segment occupies: its bytes, SYN and FIN.
    pub fn length(&self) -> u32 {
        let flags = (self.flags & SYN).count_ones() + (self.flags & FIN).count_ones();
        self.payload.len() as u32 + flags
    }

    /// The number after the segment's last.
    pub fn end(&self) -> Seq {
        self.seq + self.length()
    }
}
