//! The part of an index file with the identities of publications; it follows the names of topics.
//!
//! ```text
//!      producers    32 bytes each, by partition and id: partition u32, start of the id u32,
//!                   length of the id u16, 0 u16, first of its publications u32, count u32,
//!                   position of its last record u32, time of that u64
//!      publications sequence u64, offset u64, row of the topic u32; by producer, in the order of
//!                   the log
//!      keys         offset u64, time u64, row of the topic u32, start u32, length u16, 0 u16; in
//!                   the order of the log
//!      bytes        ids of the producers, then the keys
//! ```

use super::disk::Disk;
use super::files::{Files, ReadError};
use super::format::{u16_at, u32_at, u64_at};
use super::index_file::{IndexFile, PageWriter};
use super::once::{FoundOnce, KeyOnce, OnceTable, OnceWindow, ProducerOnce, SequenceOnce};

const PRODUCER_BYTES: usize = 32;
const PUBLICATION_BYTES: usize = 20;
const KEY_BYTES: usize = 28;
/// The number of rows in one read.
const ROWS_AT_ONCE: usize = 128;

/// The number and location of its rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnceFile {
    producers_count: u32,
    publications_count: u32,
    keys_count: u32,
    bytes_count: u32,
    start: u64,
}

impl OnceFile {
    /// The size of its counts in the fixed part of an index file.
    pub const COUNTS_BYTES: usize = 16;

    /// Decodes the counts; `start` is the start of the section.
    pub fn decode(counts: &[u8], start: u64) -> OnceFile {
        OnceFile {
            producers_count: u32_at(counts, 0),
            publications_count: u32_at(counts, 4),
            keys_count: u32_at(counts, 8),
            bytes_count: u32_at(counts, 12),
            start,
        }
    }

    /// Writes the counts for [`OnceFile::put`].
    pub fn put_counts(out: &mut PageWriter, table: &OnceTable) {
        let publications = table.producers.iter().map(|row| row.publications.len());
        let ids: usize = table.producers.iter().map(|row| row.id.len()).sum();
        out.put_u32(table.producers.len());
        out.put_u32(publications.sum());
        out.put_u32(table.keys.len());
        out.put_u32(ids + table.key_bytes.len());
    }

    /// Writes the section. `rows` are those of the topics, by number.
    pub fn put(out: &mut PageWriter, table: &OnceTable, rows: &[u32]) {
        let places = table.sorted();
        let producers = || places.iter().map(|place| &table.producers[*place as usize]);
        let (mut start, mut first) = (0, 0);
        for row in producers() {
            out.put_u32(row.partition as usize);
            out.put_u32(start);
            out.put(&(row.id.len() as u16).to_le_bytes()); // as in a record
            out.put(&[0; 2]);
            out.put_u32(first);
            out.put_u32(row.publications.len());
            out.put(&row.last_position.to_le_bytes());
            out.put(&row.last_ms.to_le_bytes());
            start += row.id.len();
            first += row.publications.len();
        }
        for publication in producers().flat_map(|row| &row.publications) {
            out.put(&publication.sequence.to_le_bytes());
            out.put(&publication.offset.to_le_bytes());
            out.put(&rows[publication.topic as usize].to_le_bytes());
        }
        for key in &table.keys {
            out.put(&key.offset.to_le_bytes());
            out.put(&key.time_ms.to_le_bytes());
            out.put(&rows[key.topic as usize].to_le_bytes());
            out.put_u32(start + key.start as usize);
            out.put(&key.length.to_le_bytes());
            out.put(&[0; 2]);
        }
        for row in producers() {
            out.put(&row.id);
        }
        out.put(&table.key_bytes);
    }

    fn publications(&self) -> u64 {
        self.start + PRODUCER_BYTES as u64 * u64::from(self.producers_count)
    }

    fn keys(&self) -> u64 {
        self.publications() + PUBLICATION_BYTES as u64 * u64::from(self.publications_count)
    }

    fn bytes(&self) -> u64 {
        self.keys() + KEY_BYTES as u64 * u64::from(self.keys_count)
    }

    /// The end of the section.
    pub fn end(&self) -> u64 {
        self.bytes() + u64::from(self.bytes_count)
    }
}

impl IndexFile {
    /// Reads the requested identities.
    pub fn once<D: Disk>(
        &self,
        files: &mut Files<D>,
        window: &dyn OnceWindow,
    ) -> Result<FoundOnce, ReadError> {
        let OnceFile { start, producers_count, keys_count, .. } = self.once;
        let mut found = FoundOnce::default();
        self.rows::<_, PRODUCER_BYTES>(files, (start, producers_count), |files, row| {
            let partition = u32_at(row, 0);
            let id = self.once_bytes(files, u32_at(row, 4), u16_at(row, 8))?;
            let (first, count) = (u32_at(row, 12), u32_at(row, 16));
            let fits = first.checked_add(count);
            if fits.is_none_or(|end| end > self.once.publications_count) {
                return Err(ReadError::Index(self.sequence));
            }
            let wanted = window.publications_wanted(partition, &id).min(count);
            let first = u64::from(first + (count - wanted));
            let start = self.once.publications() + PUBLICATION_BYTES as u64 * first;
            let mut publications = Vec::new();
            self.rows::<_, PUBLICATION_BYTES>(files, (start, wanted), |_, row| {
                publications.push(SequenceOnce {
                    sequence: u64_at(row, 0),
                    offset: u64_at(row, 8),
                    topic: u32_at(row, 16),
                });
                Ok(())
            })?;
            let producer = ProducerOnce { partition, id, last_ms: u64_at(row, 24), publications };
            found.producer(u32_at(row, 20), producer);
            Ok(())
        })?;
        if window.wants_keys() {
            let place = (self.once.keys(), keys_count);
            self.rows::<_, KEY_BYTES>(files, place, |files, row| {
                found.keys.push(KeyOnce {
                    key: self.once_bytes(files, u32_at(row, 20), u16_at(row, 24))?,
                    offset: u64_at(row, 0),
                    time_ms: u64_at(row, 8),
                    topic: u32_at(row, 16),
                });
                Ok(())
            })?;
        }
        Ok(found)
    }

    /// Visits consecutive rows of one length.
    fn rows<D: Disk, const BYTES: usize>(
        &self,
        files: &mut Files<D>,
        (mut start, count): (u64, u32),
        mut visit: impl FnMut(&mut Files<D>, &[u8]) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let mut bytes = vec![0; BYTES * ROWS_AT_ONCE.min(count as usize)];
        let mut rest = count as usize;
        while rest > 0 {
            let rows = rest.min(ROWS_AT_ONCE);
            let bytes = &mut bytes[..BYTES * rows];
            files.read_index(self.sequence, start, bytes)?;
            for row in bytes.chunks_exact(BYTES) {
                visit(files, row)?;
            }
            (start, rest) = (start + bytes.len() as u64, rest - rows);
        }
        Ok(())
    }

    /// Reads an id or a key.
    fn once_bytes<D: Disk>(
        &self,
        files: &mut Files<D>,
        start: u32,
        length: u16,
    ) -> Result<Box<[u8]>, ReadError> {
        if u64::from(start) + u64::from(length) > u64::from(self.once.bytes_count) {
            return Err(ReadError::Index(self.sequence));
        }
        let mut bytes = vec![0; length.into()];
        let place = self.once.bytes() + u64::from(start);
        files.read_index(self.sequence, place, &mut bytes)?;
        Ok(bytes.into())
    }
}
