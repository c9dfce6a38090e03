//! Batches: encoding, writing and syncing; start and end of segments.

use super::disk::{Disk, DiskError};
use super::format::{
    Control, DEFINITION_BYTES_MAX, MARK_BYTES, Mark, SegmentHead, control_of, put_definition,
    put_mark, put_record, put_retained, segment_name, unfinished_name,
};
use super::index::Index;
use super::memory_index::{Entry, MemoryIndex, Retained};
use super::once::is_named;
use super::{BATCH_BYTES_MAX, Carry, Segment, Store, StoreError};
use crate::record::{Flags, RecordView};
use stdx::memory::vector_bytes;
use stdx::names::NAME_BYTES_MAX;

/// The maximum number of files waiting for removal. The next start removes further ones.
const LEFTOVERS_MAX: usize = 256;
/// The maximum size of the retained batch buffer.
const BUFFER_BYTES_MAX: usize = 8 << 20;
/// The approximate size of the pieces of a long batch: the kernel copies them while they are in the
/// processor's cache.
const WRITE_BYTES: usize = 256 << 10;

/// One publication to append.
#[derive(Clone, Copy)]
pub struct Append<'a> {
    /// The partition, by the log's own numbers.
    pub partition: u32,
    /// The topic's name; at most 255 bytes.
    pub topic: &'a [u8],
    /// The complete record (see [`RecordView`]) with its offset. Its topic id and checksum are
    /// ignored.
    pub record: &'a [u8],
}

/// A part of a batch: a publication, or a copy of a retained one.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    pub append: Append<'a>,
    pub is_copy: bool,
}

/// A batch under construction; reused for its memory.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    pending: Vec<Pending>,
    /// The heads after the batch.
    heads: Vec<u64>,
}

impl Batch {
    pub fn memory_bytes(&self) -> usize {
        vector_bytes::<u8>(self.bytes.capacity())
            + vector_bytes::<Pending>(self.pending.capacity())
            + vector_bytes::<u64>(self.heads.capacity())
    }
}

/// An entry for the index, added once the batch is durable.
#[derive(Clone, Copy, Debug)]
struct Pending {
    number: u32,
    entry: Entry,
    flags: Flags,
    time_ms: u64,
    is_empty: bool,
    is_copy: bool,
    /// The start of the record in the batch, if its publication has an identity.
    named_at: Option<usize>,
}

impl Batch {
    /// Encodes a batch behind the buffer's content, which will be at `base` in its segment. Of the
    /// segment at least the bytes up to `synced_through` are synced; None for all of them. Calls
    /// `write` with the buffer after each piece of the batch, and at its end.
    fn encode<'a>(
        &mut self,
        index: &mut MemoryIndex,
        (sequence, base, synced_through): (u64, u64, Option<u64>),
        pieces: impl Iterator<Item = Piece<'a>>,
        mut write: impl FnMut(&[u8]) -> Result<(), DiskError>,
    ) -> Result<(), DiskError> {
        let place = |bytes: &Vec<u8>| base + bytes.len() as u64;
        let batch_start = place(&self.bytes);
        let (mut count, mut written) = (0, self.bytes.len());
        for Piece { append, is_copy } in pieces {
            let (partition, name) = (append.partition, append.topic);
            let Some(record) = RecordView::parse(append.record) else {
                continue; // `check` has already parsed it
            };
            let known = index.number_of_known(partition, record.topic(), name);
            let number = known.unwrap_or_else(|| {
                let number = index.define(partition, name);
                put_definition(&mut self.bytes, number, partition, name);
                count += 1;
                number
            });
            let start = self.bytes.len();
            if is_copy {
                put_retained(&mut self.bytes, number, append.record)
            } else {
                put_record(&mut self.bytes, number, append.record)
            }
            count += 1;
            self.pending.push(Pending {
                number,
                entry: Entry {
                    offset: record.offset(),
                    position: (base + start as u64) as u32, // a segment and a batch together stay below 4 GiB
                    length: (self.bytes.len() - start) as u32,
                },
                flags: record.flags(),
                time_ms: record.time_ms(),
                is_empty: record.payload().is_empty(),
                is_copy,
                named_at: (!is_copy && is_named(&record)).then_some(start),
            });
            if self.bytes.len() - written >= WRITE_BYTES {
                write(&self.bytes)?;
                written = self.bytes.len();
            }
        }
        let mark = Mark {
            position: place(&self.bytes),
            batch_start,
            // Unless the log is lazy, all preceding bytes are synced before a batch is written.
            synced_through: synced_through.unwrap_or(batch_start),
            sequence,
            count,
        };
        put_mark(&mut self.bytes, &mark);
        write(&self.bytes)
    }

    /// Adds the durable records to the index.
    fn commit(&mut self, index: &mut MemoryIndex) {
        for pending in self.pending.drain(..) {
            if !pending.is_copy {
                let Pending { number, entry, flags, .. } = pending;
                index.push(number, entry, flags, pending.time_ms, pending.is_empty);
                let named = pending.named_at.and_then(|start| self.bytes.get(start..));
                if let Some(record) = named.and_then(RecordView::parse) {
                    index.push_once(number, entry.position, &record);
                }
                continue;
            }
            let retained = Retained {
                position: pending.entry.position,
                length: pending.entry.length,
                offset: pending.entry.offset,
                clears: pending.is_empty,
            };
            index.push_retained(pending.number, retained);
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(BUFFER_BYTES_MAX);
        self.pending.clear();
    }
}

impl<D: Disk> Store<D> {
    /// Makes a batch durable: written from its beginning to its end, and synced once. `Ok` means
    /// that every record is on disk. After [`StoreError::Disk`] none of them is valid: they are
    /// never read, and after a later success no restart finds them.
    pub fn append(&mut self, batch: &[Append<'_>], now_ms: u64) -> Result<(), StoreError> {
        if self.is_read_only {
            return Err(StoreError::ReadOnly);
        }
        if batch.is_empty() {
            return Ok(());
        }
        let bytes = self.check(batch)?;
        if self.wants_roll(bytes as u64, now_ms) {
            self.sync()?;
            self.active = None;
        }
        let pieces = batch.iter().map(|append| Piece { append: *append, is_copy: false });
        self.write_pieces(now_ms, pieces)?;
        std::mem::swap(&mut self.heads, &mut self.batch.heads);
        Ok(())
    }

    /// Tries whether the log accepts batches, unless that is known.
    pub fn probe(&mut self, now_ms: u64) -> Result<(), StoreError> {
        match (self.is_read_only, self.is_available) {
            (true, _) => Err(StoreError::ReadOnly),
            (_, true) => Ok(()),
            _ => self.write_pieces(now_ms, std::iter::empty()),
        }
    }

    /// Closes the log: records that everything was synced and writes the last segment's index, so
    /// that the next start need not search for the end. The store remains usable: the next batch
    /// begins a segment.
    pub fn close(&mut self) -> Result<(), StoreError> {
        if self.is_read_only {
            return Err(StoreError::ReadOnly);
        }
        self.sync()?;
        if self.active.is_some() {
            let created_ms = self.segments.back().map_or(0, |last| last.head.created_ms);
            self.write_pieces(created_ms, std::iter::empty())?;
            self.sync()?;
        }
        self.active = None;
        if self.carry.is_none()
            && let Some(last) = self.segments.back_mut()
        {
            last.wants_synced_index = true;
            self.write_index(self.segments.len() - 1)?;
            self.files.disk.sync_directory()?;
        }
        let _ = self.note_end(true); // a failure leaves a lower bound
        Ok(())
    }

    /// Checks all records. Returns an upper bound of their encoded size.
    fn check(&mut self, batch: &[Append<'_>]) -> Result<usize, StoreError> {
        let heads = &mut self.batch.heads;
        heads.clone_from(&self.heads);
        let mut bytes = MARK_BYTES;
        for append in batch {
            let partition = append.partition;
            let head = heads.get_mut(partition as usize).ok_or(StoreError::Partition(partition))?;
            let record = RecordView::parse(append.record)
                .filter(|record| record.bytes().len() == append.record.len())
                .filter(|record| !record.flags().has(Flags::CONTROL))
                .filter(|_| append.topic.len() <= NAME_BYTES_MAX)
                .ok_or(StoreError::Record)?;
            let offset = record.offset();
            if offset <= *head || offset == u64::MAX {
                let head = *head;
                return Err(StoreError::Order { partition, offset, head });
            }
            *head = offset;
            bytes = bytes.saturating_add(append.record.len());
        }
        let longest = bytes.saturating_add(batch.len() * DEFINITION_BYTES_MAX);
        if bytes > BATCH_BYTES_MAX || longest > u32::MAX as usize - 2 * BATCH_BYTES_MAX {
            return Err(StoreError::BatchTooLong);
        }
        Ok(bytes)
    }

    /// Whether the active segment must end before a batch of this size.
    fn wants_roll(&self, bytes: u64, now_ms: u64) -> bool {
        let Some(last) = self.segments.back().filter(|_| self.active.is_some()) else {
            return false;
        };
        let is_full = last.valid_bytes + bytes > self.settings.segment_bytes
            && last.valid_bytes > last.head.bytes();
        is_full || self.is_over_age(last, now_ms)
    }

    /// Whether the age of a segment's first record exceeds an eighth of the maximum age.
    pub(super) fn is_over_age(&self, segment: &Segment, now_ms: u64) -> bool {
        let Index::Memory(index) = &segment.index else {
            return false;
        };
        let age_max_ms = self.settings.age_max_ms;
        age_max_ms > 0
            && index.records_count > 0
            && now_ms.saturating_sub(index.first_ms) >= age_max_ms / 8
    }

    /// Writes a batch; after a failure in an existing segment, tries again in a new one.
    pub(super) fn write_pieces<'a>(
        &mut self,
        now_ms: u64,
        pieces: impl Iterator<Item = Piece<'a>> + Clone,
    ) -> Result<(), StoreError> {
        let mut is_fresh = false;
        loop {
            if self.active.is_none() {
                is_fresh = true;
                self.is_available = false;
                self.begin_segment(now_ms)?;
            }
            match self.write_once(pieces.clone()) {
                Ok(()) => {
                    self.is_available = true;
                    self.note_segment();
                    return Ok(());
                }
                Err(error) => {
                    // Never use this file again: its content after a failed sync is unknown.
                    self.active = None;
                    self.is_available = false;
                    if let Some(last) = self.segments.back_mut() {
                        last.wants_synced_index = true;
                    }
                    if is_fresh || self.lazy.is_some() {
                        self.discard_newest();
                        return Err(error.into());
                    }
                }
            }
        }
    }

    fn write_once<'a>(&mut self, pieces: impl Iterator<Item = Piece<'a>>) -> Result<(), DiskError> {
        let newest = self.segments.back_mut().zip(self.active.as_mut());
        let Some((segment, file)) = newest else {
            return Err(DiskError::NotFound);
        };
        let Index::Memory(index) = &mut segment.index else {
            return Err(DiskError::NotFound); // the active segment's index is in memory
        };
        let batch = &mut self.batch;
        batch.clear();
        let synced = self.lazy.as_ref().map(|lazy| lazy.synced_bytes);
        let place = (segment.head.sequence, segment.valid_bytes, synced);
        let disk = &mut self.files.disk;
        let mut written = 0;
        batch.encode(index, place, pieces, |bytes| {
            disk.write_at(file, place.1 + written as u64, &bytes[written..])?;
            written = bytes.len();
            Ok(())
        })?;
        if synced.is_none() {
            disk.sync(file)?;
        }
        segment.valid_bytes += batch.bytes.len() as u64;
        batch.commit(index);
        Ok(())
    }

    /// Begins a segment. Its file gets its name only once its first content is durable, so a file
    /// with that name and an invalid head is damaged, not torn.
    pub(super) fn begin_segment(&mut self, now_ms: u64) -> Result<(), DiskError> {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let last = self.segments.back();
        let carry = self.carry.as_ref();
        let valid_bytes = last.map_or(0, |last| last.valid_bytes);
        let (previous, previous_bytes) = match &self.lost {
            Some(lost) => (lost.segment, 0),
            None => (last.map_or(0, |last| last.head.sequence), valid_bytes),
        };
        let mut head = SegmentHead {
            sequence,
            epoch: self.epochs.present(),
            created_ms: now_ms,
            previous,
            previous_bytes: carry.map_or(previous_bytes, |carry| carry.from),
            begun_bytes: 0,
            heads: carry.map_or(&self.heads, |carry| &carry.heads).clone(),
        };
        let mut index = MemoryIndex::new(self.settings.partitions_count, self.settings.hash_seed);
        self.batch.clear();
        head.encode(&mut self.batch.bytes);
        if let (Some(carry), Some(last)) = (carry, last) {
            let pieces = carried(carry, last);
            // Written with the head, below.
            self.batch.encode(&mut index, (sequence, 0, None), pieces, |_| Ok(()))?;
        }
        head.begun_bytes = self.batch.bytes.len() as u32; // batches are bounded
        let mut encoded = Vec::new();
        head.encode(&mut encoded);
        self.batch.bytes[..encoded.len()].copy_from_slice(&encoded);
        let file = match self.create_segment(sequence) {
            Ok(file) => file,
            Err(error) => {
                self.remove_or_remember(unfinished_name(sequence));
                self.remove_or_remember(segment_name(sequence));
                return Err(error);
            }
        };
        self.batch.commit(&mut index);
        if let Some(lost) = self.lost.take() {
            index.holes = lost.holes;
        }
        if let (Some(carry), Some(last)) = (self.carry.take(), self.segments.back_mut()) {
            last.valid_bytes = carry.from;
            last.index = Index::Memory(Box::new(carry.index));
        }
        self.segments.push_back(Segment {
            head,
            valid_bytes: self.batch.bytes.len() as u64,
            index: Index::Memory(Box::new(index)),
            is_unsettled: false,
            wants_synced_index: false,
        });
        self.active = Some(file);
        self.segment_synced();
        if self.segments.len() >= 2 {
            let _ = self.write_index(self.segments.len() - 2); // it stays in memory
        }
        Ok(())
    }

    /// Makes the carried batch durable in place: the same bytes at the same position, and synced.
    /// Nothing else of the file is touched, and the file cannot get worse: every written part
    /// equals the old or the intended content. The log accepts nothing until a segment begins.
    pub(super) fn settle_in_place(&mut self) -> Result<(), DiskError> {
        self.is_available = false;
        let (Some(carry), Some(last)) = (&self.carry, self.segments.back()) else {
            return Ok(());
        };
        let disk = &mut self.files.disk;
        // A write is needed, not only a sync: after a failed sync the system treats its pages as
        // written.
        let mut file = disk.reopen(&segment_name(last.head.sequence))?;
        disk.write_at(&mut file, carry.from, &carry.bytes)?;
        disk.sync(&mut file)?;
        self.carry = None;
        Ok(())
    }

    fn create_segment(&mut self, sequence: u64) -> Result<D::File, DiskError> {
        let disk = &mut self.files.disk;
        let (unfinished, name) = (unfinished_name(sequence), segment_name(sequence));
        let mut file = disk.create(&unfinished)?;
        disk.write_at(&mut file, 0, &self.batch.bytes)?;
        disk.sync(&mut file)?;
        disk.rename(&unfinished, &name)?;
        disk.sync_directory()?;
        Ok(file)
    }

    /// Removes the newest segment from the chain if it has only a head.
    fn discard_newest(&mut self) {
        let last = self.segments.back();
        let empty = last.filter(|last| last.valid_bytes == last.head.bytes());
        if let Some(sequence) = empty.map(|last| last.head.sequence) {
            self.segments.pop_back();
            self.files.forget(sequence);
            self.remove_or_remember(segment_name(sequence));
        }
    }

    /// Removes an obsolete file, now or in a later call of [`Store::remove_leftovers`].
    pub(super) fn remove_or_remember(&mut self, name: String) {
        match self.files.disk.remove(&name) {
            Ok(()) | Err(DiskError::NotFound) => {}
            Err(_) => {
                self.removals_failed += 1;
                if self.leftovers.len() < LEFTOVERS_MAX {
                    self.leftovers.push(name);
                }
            }
        }
    }

    pub(super) fn remove_leftovers(&mut self) {
        for name in std::mem::take(&mut self.leftovers) {
            self.is_directory_dirty = true;
            self.remove_or_remember(name);
        }
    }
}

/// The content of a carried batch, with the names from its segment. It is undamaged.
fn carried<'a>(carry: &'a Carry, segment: &'a Segment) -> impl Iterator<Item = Piece<'a>> + Clone {
    let mut at = 0;
    std::iter::from_fn(move || {
        let record = RecordView::parse(carry.bytes.get(at..)?)?;
        at += record.bytes().len();
        Some(record)
    })
    .filter_map(move |record| {
        let copied = if record.flags().has(Flags::CONTROL) {
            match control_of(&record)? {
                Control::Retained { record, .. } => Some(record),
                _ => return None,
            }
        } else {
            None
        };
        let Index::Memory(index) = &segment.index else {
            return None; // a segment with a batch to carry was just scanned
        };
        let topic = index.defined(record.topic())?;
        let record = copied.unwrap_or(record).bytes();
        let append = Append { partition: topic.partition, topic: &topic.name, record };
        Some(Piece { append, is_copy: copied.is_some() })
    })
}
