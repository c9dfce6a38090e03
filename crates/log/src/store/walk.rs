//! Walks over the bytes of a segment: its items in order, and its damage.
//!
//! After damage the walk continues at the next verified position: the following record by the
//! damaged one's length, if its checksum is correct, or else the next mark, which contains its own
//! position and segment.

use super::format::{Control, MARK, Mark, control_of, is_sound};
use crate::record::{Flags, RECORD_HEADER_BYTES, RecordView};

/// The item at a position.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item<'a> {
    Record(RecordView<'a>),
    Definition {
        number: u32,
        partition: u32,
        name: &'a [u8],
    },
    /// A copied retained message, and its bytes within the control record.
    Retained {
        number: u32,
        record: RecordView<'a>,
    },
    Mark(Mark),
    /// Invalid bytes, up to the next item.
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
    /// Starts over a segment's bytes, which end with the segment, at the start of a record.
    pub fn new(bytes: &'a [u8], sequence: u64, position: u64) -> Walk<'a> {
        Walk { bytes, sequence, position: usize::try_from(position).unwrap_or(usize::MAX) }
    }

    /// The item at a position, if it is valid.
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

    /// Finds the next valid position after damage.
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
    /// The first byte, the end (exclusive), and the item.
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

/// Finds the first occurrence of a tag.
fn find(bytes: &[u8], tag: &[u8; 8]) -> Option<usize> {
    bytes.windows(tag.len()).position(|window| window == tag)
}
