//! Walks over the bytes of a segment: what is there, one after the other, and what is damaged.
//!
//! Behind damage it goes on at the next place that proves itself: the record that follows by the
//! damaged one's length, if its checksum is right, or else the next mark, which names its own
//! position and segment.

use super::format::{Control, MARK, Mark, control_of, is_sound};
use crate::record::{Flags, RECORD_HEADER_BYTES, RecordView};

/// What lies at a place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item<'a> {
    Record(RecordView<'a>),
    Definition {
        number: u32,
        partition: u32,
        name: &'a [u8],
    },
    /// A retained message, copied; and its bytes with the control record around it.
    Retained {
        number: u32,
        record: RecordView<'a>,
    },
    Mark(Mark),
    /// Bytes that are no record, up to the next item.
    Damage,
}

/// The walk. Ends at the end of the bytes.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    bytes: &'a [u8],
    sequence: u64,
    position: usize,
}

impl<'a> Walk<'a> {
    /// Over a segment's bytes, which end where the segment ends, from a place where a record
    /// starts.
    pub fn new(bytes: &'a [u8], sequence: u64, position: u64) -> Walk<'a> {
        Walk { bytes, sequence, position: usize::try_from(position).unwrap_or(usize::MAX) }
    }

    /// The item at a place, if it is whole.
    fn item_at(&self, position: usize) -> Option<(Item<'a>, usize)> {
        let record = RecordView::parse(self.bytes.get(position..)?).filter(is_sound)?;
        let end = position + record.bytes().len();
        if !record.flags().has(Flags::CONTROL) {
            return Some((Item::Record(record), end));
        }
        let item = match control_of(&record)? {
            Control::Definition { number, partition, name } => {
                Item::Definition { number, partition, name }
            }
            Control::Retained { number, record } => Item::Retained { number, record },
            Control::Mark(mark) => {
                let is_here = mark.position == position as u64 && mark.sequence == self.sequence;
                let is_sane =
                    mark.batch_start <= mark.position && mark.synced_through <= mark.batch_start;
                if !is_here || !is_sane {
                    return None;
                }
                Item::Mark(mark)
            }
        };
        Some((item, end))
    }

    /// Where the bytes make sense again behind damage at a place.
    fn resume(&self, position: usize) -> usize {
        let rest = &self.bytes[position..];
        let length = rest.first_chunk().map_or(0, |b| u32::from_le_bytes(*b)) as usize;
        if length >= RECORD_HEADER_BYTES && length <= rest.len() {
            let next = position + length;
            if next == self.bytes.len() || self.item_at(next).is_some() {
                return next;
            }
        }
        let mut from = position;
        while let Some(found) = find(&self.bytes[from..], &MARK) {
            let tag = from + found;
            let start = tag.checked_sub(RECORD_HEADER_BYTES);
            let is_mark = |start: &usize| {
                *start > position && matches!(self.item_at(*start), Some((Item::Mark(_), _)))
            };
            if let Some(start) = start.filter(is_mark) {
                return start;
            }
            from = tag + 1;
        }
        self.bytes.len()
    }
}

impl<'a> Iterator for Walk<'a> {
    /// First byte, byte behind, and what is there.
    type Item = (u64, u64, Item<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.position;
        if start >= self.bytes.len() {
            return None;
        }
        let (item, end) = match self.item_at(start) {
            Some(found) => found,
            None => (Item::Damage, self.resume(start)),
        };
        self.position = end;
        Some((start as u64, end as u64, item))
    }
}

/// The first place of a tag.
fn find(bytes: &[u8], tag: &[u8; 8]) -> Option<usize> {
    bytes.windows(tag.len()).position(|window| window == tag)
}
