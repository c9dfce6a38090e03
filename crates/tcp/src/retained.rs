//! Sent bytes that are not acknowledged yet, segment by segment, for all connections of a shard.
//!
//! A segment is a copy: its bytes must come again as they were sent, and neither a log nor an
//! encoder can promise that. Segments are in slots of four sizes, so that a message of 600 bytes
//! costs 640 and its head of 16. The list of a connection is in the order of its sequence numbers;
//! its state of selective acknowledgement (RFC 2018) is in the segments' flags.

use crate::seq::Seq;

/// No segment.
pub const NONE: u32 = u32::MAX;
/// The greatest payload of one segment, in bytes: that of an Ethernet frame.
pub const SEGMENT_MAX: usize = 1536;

/// The receiver has the segment, behind a hole.
pub const SACKED: u8 = 1;
/// The segment is taken for lost, and is to be sent again.
pub const LOST: u8 = 2;
/// The segment was sent more than once.
pub const RESENT: u8 = 4;
/// The segment ends with FIN.
pub const FIN: u8 = 8;
/// There was no room in the device yet.
pub const UNSENT: u8 = 16;

const SIZES: [usize; 4] = [128, 256, 640, SEGMENT_MAX];
const CLASS_SHIFT: u32 = 30;
const PAGE_SLOTS: usize = 256;

/// A segment without its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// The number of its first byte.
    pub seq: Seq,
    /// The next segment of the connection, or [`NONE`].
    pub next: u32,
    /// Time of its last sending: the lower 32 bits of microseconds.
    pub sent_us: u32,
    /// The number of its bytes, without FIN.
    pub bytes: u16,
    /// Its flags.
    pub flags: u8,
}

const _: () = assert!(size_of::<Segment>() == 16);

impl Segment {
    /// The number of sequence numbers, FIN included.
    pub fn length(&self) -> u32 {
        u32::from(self.bytes) + u32::from(self.has(FIN))
    }

    /// The number after its last one.
    pub fn end(&self) -> Seq {
        self.seq + self.length()
    }

    /// Whether a flag is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

#[derive(Debug, Default)]
struct Class {
    heads: Vec<Segment>,
    pages: Vec<Box<[u8]>>,
    free: Vec<u32>,
}

/// The segments of all connections. Owned by one shard.
#[derive(Debug, Default)]
pub struct Retained {
    classes: [Class; SIZES.len()],
    bytes: usize,
}

impl Retained {
    /// Bytes of all slots in use.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of all slots that were ever in use.
    pub fn memory_bytes(&self) -> usize {
        let slots = |(class, size): (&Class, &usize)| {
            class.heads.len() * (size + size_of::<Segment>()) + class.free.capacity() * 4
        };
        self.classes.iter().zip(&SIZES).map(slots).sum()
    }

    /// Adds a segment of at most [`SEGMENT_MAX`] bytes, which `fill` writes. Its `next` is
    /// [`NONE`].
    ///
    /// # Panics
    /// With more bytes: the connection's segment size has a bound.
    pub fn add(&mut self, segment: Segment, fill: impl FnOnce(&mut [u8])) -> u32 {
        let bytes = usize::from(segment.bytes);
        let number = SIZES.iter().position(|size| *size >= bytes);
        let Some(number) = number else { panic!("a segment of {bytes} bytes") };
        let (class, size) = (&mut self.classes[number], SIZES[number]);
        let slot = class.free.pop().unwrap_or(class.heads.len() as u32);
        if slot as usize == class.heads.len() {
            class.heads.push(segment);
            if (slot as usize).is_multiple_of(PAGE_SLOTS) {
                class.pages.push(vec![0; PAGE_SLOTS * size].into_boxed_slice());
            }
        }
        class.heads[slot as usize] = Segment { next: NONE, ..segment };
        fill(&mut slot_mut(class, size, slot)[..bytes]);
        self.bytes += size;
        slot | (number as u32) << CLASS_SHIFT
    }

    /// Frees a segment.
    pub fn remove(&mut self, id: u32) {
        let (number, slot) = split(id);
        self.classes[number].free.push(slot);
        self.bytes -= SIZES[number];
    }

    /// Bytes of a segment's slot.
    pub fn slot_bytes(id: u32) -> u32 {
        SIZES[split(id).0] as u32
    }

    /// A segment without its bytes.
    pub fn get(&self, id: u32) -> &Segment {
        let (number, slot) = split(id);
        &self.classes[number].heads[slot as usize]
    }

    /// A segment without its bytes, mutable.
    pub fn get_mut(&mut self, id: u32) -> &mut Segment {
        let (number, slot) = split(id);
        &mut self.classes[number].heads[slot as usize]
    }

    /// The bytes of a segment.
    pub fn payload(&self, id: u32) -> &[u8] {
        let (number, slot) = split(id);
        let (class, size) = (&self.classes[number], SIZES[number]);
        let bytes = usize::from(class.heads[slot as usize].bytes);
        let at = slot as usize % PAGE_SLOTS * size;
        &class.pages[slot as usize / PAGE_SLOTS][at..at + bytes]
    }
}

fn split(id: u32) -> (usize, u32) {
    ((id >> CLASS_SHIFT) as usize, id & ((1 << CLASS_SHIFT) - 1))
}

fn slot_mut(class: &mut Class, size: usize, slot: u32) -> &mut [u8] {
    let at = slot as usize % PAGE_SLOTS * size;
    &mut class.pages[slot as usize / PAGE_SLOTS][at..at + size]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(seq: u32, bytes: u16) -> Segment {
        Segment { seq: Seq(seq), next: 5, sent_us: 0, bytes, flags: 0 }
    }

    #[test]
    fn segments_keep_their_bytes_and_slots_are_reused() {
        let mut retained = Retained::default();
        let lengths = [0, 1, 128, 129, 256, 600, 640, 641, 1460, 1536];
        let ids: Vec<u32> = (0..3000_u32)
            .map(|number| {
                let length = lengths[number as usize % lengths.len()];
                retained.add(segment(number, length), |bytes| bytes.fill(number as u8))
            })
            .collect();
        for (number, id) in (0..3000_u32).zip(&ids) {
            let segment = retained.get(*id);
            assert_eq!((segment.seq, segment.next), (Seq(number), NONE));
            assert!(retained.payload(*id).iter().all(|byte| *byte == number as u8));
            assert_eq!(retained.payload(*id).len(), usize::from(segment.bytes));
        }
        let memory = retained.memory_bytes();
        ids.iter().for_each(|id| retained.remove(*id));
        assert_eq!(retained.bytes(), 0);
        for number in 0..3000_u32 {
            let length = lengths[number as usize % lengths.len()];
            retained.add(segment(number, length), |_| {});
        }
        assert!(retained.memory_bytes() < memory + 3000 * 8);
    }

    #[test]
    fn fin_takes_a_number() {
        let mut fin = segment(u32::MAX, 2);
        assert_eq!((fin.length(), fin.end()), (2, Seq(1)));
        fin.flags = FIN | RESENT;
        assert_eq!(
            (fin.length(), fin.end(), fin.has(FIN), fin.has(LOST)),
            (3, Seq(2), true, false)
        );
    }
}
