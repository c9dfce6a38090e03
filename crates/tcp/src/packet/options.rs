//! Options of a segment: maximum segment size (RFC 9293, 3.2), window scale (RFC 7323, 2), and
//! selective acknowledgements (RFC 2018). Others are skipped; timestamps are not used, because they
//! cost 12 bytes of every packet.

use crate::seq::Seq;

/// Maximum number of blocks that fit a segment (RFC 2018, 3).
pub const SACKS_MAX: usize = 4;
/// The greatest shift of a window (RFC 7323, 2.3).
const SCALE_MAX: u8 = 14;

const END: u8 = 0;
const PADDING: u8 = 1;
const MSS: u8 = 2;
const SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;

/// The known options of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The greatest payload that the sender can receive, in bytes.
    pub mss: Option<u16>,
    /// The shift of the sender's windows, 0 to 14.
    pub scale: Option<u8>,
    /// Whether the sender understands selective acknowledgements.
    pub is_sack_permitted: bool,
    sacks: [(Seq, Seq); SACKS_MAX],
    sacks_count: u8,
}

impl Options {
    /// The options of a SYN.
    pub fn of_syn(mss: u16, scale: Option<u8>, is_sack_permitted: bool) -> Options {
        Options { mss: Some(mss), scale, is_sack_permitted, ..Options::default() }
    }

    /// Reads options. One with an impossible length ends the list, and those before it count.
    pub fn parse(mut bytes: &[u8]) -> Options {
        let mut options = Options::default();
        loop {
            let Some((&kind, rest)) = bytes.split_first() else { return options };
            if kind == END {
                return options;
            }
            if kind == PADDING {
                bytes = rest;
                continue;
            }
            let Some(value) = rest.first().and_then(|&length| {
                let length = usize::from(length).checked_sub(2)?;
                rest.get(1..1 + length)
            }) else {
                return options;
            };
            options.take(kind, value);
            bytes = &rest[1 + value.len()..];
        }
    }

    fn take(&mut self, kind: u8, value: &[u8]) {
        match (kind, value) {
            (MSS, &[high, low]) => self.mss = Some(u16::from_be_bytes([high, low])),
            (SCALE, &[shift]) => self.scale = Some(shift.min(SCALE_MAX)),
            (SACK_PERMITTED, []) => self.is_sack_permitted = true,
            (SACK, blocks) => {
                for block in blocks.as_chunks::<8>().0 {
                    if let Some(place) = self.sacks.get_mut(usize::from(self.sacks_count)) {
                        let number = u64::from_be_bytes(*block);
                        *place = (Seq((number >> 32) as u32), Seq(number as u32));
                        self.sacks_count += 1;
                    }
                }
            }
            _ => {}
        }
    }

    /// The selectively acknowledged ranges: first number, and the number after the last.
    pub fn sacks(&self) -> &[(Seq, Seq)] {
        &self.sacks[..usize::from(self.sacks_count)]
    }

    /// Writes the options of a SYN: 4 to 12 bytes, in whole words.
    pub fn write_syn(&self, out: &mut [u8; 12]) -> usize {
        let mut length = 0;
        let mut put = |bytes: &[u8]| {
            out[length..length + bytes.len()].copy_from_slice(bytes);
            length += bytes.len();
        };
        if let Some(mss) = self.mss {
            let [high, low] = mss.to_be_bytes();
            put(&[MSS, 4, high, low]);
        }
        if let Some(scale) = self.scale {
            put(&[PADDING, SCALE, 3, scale]);
        }
        if self.is_sack_permitted {
            put(&[PADDING, PADDING, SACK_PERMITTED, 2]);
        }
        length
    }

    /// Writes selective acknowledgements, at most [`SACKS_MAX`] of them: 4 bytes and 8 for each.
    pub fn write_sacks(
        blocks: impl Iterator<Item = (Seq, Seq)>,
        out: &mut [u8; 4 + 8 * SACKS_MAX],
    ) -> usize {
        let mut length = 4;
        for (from, to) in blocks.take(SACKS_MAX) {
            out[length..length + 4].copy_from_slice(&from.0.to_be_bytes());
            out[length + 4..length + 8].copy_from_slice(&to.0.to_be_bytes());
            length += 8;
        }
        if length == 4 {
            return 0;
        }
        out[..4].copy_from_slice(&[PADDING, PADDING, SACK, length as u8 - 2]);
        length
    }
}
