//! The index of a sealed segment as a file, searched on disk.
//!
//! Pages of 4096 bytes: 4092 of data, then `crc32c` over them, the segment's number and the page's.
//! The layout below is that of the data, without the checksums.
//!
//! ```text
//!  0  magic             8 bytes  "CROREIDX"
//!  8  version           u16      1
//! 10  flags             u16      0
//! 12  partitions_count  u32
//!  16  sequence          u64      of the segment
//!  24  valid_bytes       u64      of the segment: the bytes that it covers
//! 32  oldest_ms         u64      least and
//! 40  newest_ms         u64      greatest time of the records
//! 48  records_count     u32
//! 52  topics_count      u32
//! 56  numbers_count     u32
//! 60  retained_count    u32
//! 64  holes_count       u32
//! 68  names_bytes       u32
//!  72  producers_count   u32      the counts for deduplication, see `once_file`
//! 76  publications_count u32
//! 80  keys_count        u32
//! 84  once_bytes        u32
//! 88  the segment's head
//!     partitions   u32 first of its records, u32 count; for each partition
//!     records      offset u64, position u32, length u32; by partition and offset
//!     places       u32, of a topic's records among those of its partition; by topic
//!     topics       48 bytes each, by partition and name, see `TopicRow`
//!     numbers      u32, row of the topic that has this number; 2^32 - 1: none
//!     retained     u32, rows of topics with a retained record
//!     holes        partition u32, 0 u32, from u64, through u64
//!     names
//!      identities for deduplication, see `once_file`
//! ```

use super::Segment;
use super::disk::{Disk, DiskError};
use super::files::{Files, ReadError};
use super::format::{SegmentHead, head_bytes, index_name, u16_at, u32_at, u64_at};
use super::memory_index::{Entry, Hole, MemoryIndex, Retained};
use super::once_file::OnceFile;
use super::page::{PAGE_BYTES, PAGE_DATA_BYTES, page_crc};

const MAGIC: [u8; 8] = *b"CROREIDX";
const VERSION: u16 = 2;
const FIXED_BYTES: u64 = 72 + OnceFile::COUNTS_BYTES as u64;
const RECORD_BYTES: u64 = 16;
const ROW_BYTES: usize = 48;
const HOLE_BYTES: u64 = 24;
const NO_ROW: u32 = u32::MAX;

/// The part of an index file that stays in memory.
#[derive(Clone, Debug)]
pub(super) struct IndexFile {
    pub sequence: u64,
    pub valid_bytes: u64,
    pub oldest_ms: u64,
    pub newest_ms: u64,
    pub records_count: u32,
    pub topics_count: u32,
    pub retained_count: u32,
    pub holes: Vec<Hole>,
    /// The size of the file.
    pub file_bytes: u64,
    pub once: OnceFile,
    numbers_count: u32,
    names_bytes: u32,
    sections: Sections,
}

/// The starts of the sections, in data bytes.
#[derive(Clone, Copy, Debug)]
struct Sections {
    partitions: u64,
    records: u64,
    places: u64,
    topics: u64,
    numbers: u64,
    retained: u64,
    holes: u64,
    names: u64,
    end: u64,
}

/// A topic in an index file.
///
/// ```text
///  0  partition   u32
///  4  name_start  u32
///  8  name_bytes  u16
/// 10  flags       u16  bit 0: has a retained record, 1: which clears
/// 12  first       u32  of its places
/// 16  count       u32  of its places
/// 20  retained    position u32, length u32, offset u64
/// 36  last_offset u64
/// 44  reserved    u32
/// ```
#[derive(Clone, Copy, Debug)]
pub(super) struct TopicRow {
    pub partition: u32,
    name_start: u32,
    name_bytes: u16,
    pub first: u32,
    pub count: u32,
    pub retained: Option<Retained>,
    pub last_offset: u64,
}

impl TopicRow {
    fn decode(bytes: &[u8; ROW_BYTES]) -> TopicRow {
        let flags = u16_at(bytes, 10);
        let retained = Retained {
            position: u32_at(bytes, 20),
            length: u32_at(bytes, 24),
            offset: u64_at(bytes, 28),
            clears: flags & 2 != 0,
        };
        TopicRow {
            partition: u32_at(bytes, 0),
            name_start: u32_at(bytes, 4),
            name_bytes: u16_at(bytes, 8),
            first: u32_at(bytes, 12),
            count: u32_at(bytes, 16),
            retained: (flags & 1 != 0).then_some(retained),
            last_offset: u64_at(bytes, 36),
        }
    }
}

impl IndexFile {
    /// Encodes the file.
    pub fn encode(head: &SegmentHead, valid_bytes: u64, index: &MemoryIndex) -> Vec<u8> {
        let rows = index.sorted();
        let mut out = PageWriter::new(head.sequence);
        let (mut names, mut numbers) = (Vec::new(), vec![NO_ROW; index.topics.len()]);
        let mut retained = Vec::new();
        for (row, number) in rows.iter().enumerate() {
            let topic = &index.topics[*number as usize];
            numbers[*number as usize] = row as u32;
            names.extend_from_slice(&topic.name);
            if topic.retained.is_some() {
                retained.push(row as u32);
            }
        }
        out.put(&MAGIC);
        out.put(&VERSION.to_le_bytes());
        out.put(&[0; 2]);
        out.put_u32(head.heads.len());
        for field in [head.sequence, valid_bytes, index.oldest_ms, index.newest_ms] {
            out.put(&field.to_le_bytes());
        }
        out.put_u32(index.records_count as usize);
        for count in [rows.len(), numbers.len(), retained.len()] {
            out.put_u32(count);
        }
        out.put_u32(index.holes.len());
        out.put_u32(names.len());
        OnceFile::put_counts(&mut out, &index.once);
        let mut encoded = Vec::new();
        head.encode(&mut encoded);
        out.put(&encoded);
        let mut first = 0;
        for entries in &index.partitions {
            out.put_u32(first);
            out.put_u32(entries.len());
            first += entries.len();
        }
        for entry in index.partitions.iter().flatten() {
            out.put(&entry.offset.to_le_bytes());
            out.put(&entry.position.to_le_bytes());
            out.put(&entry.length.to_le_bytes());
        }
        for number in &rows {
            for place in &index.topics[*number as usize].records {
                out.put(&place.to_le_bytes());
            }
        }
        put_rows(&mut out, index, &rows);
        for row in numbers.iter().chain(&retained) {
            out.put(&row.to_le_bytes());
        }
        for hole in &index.holes {
            out.put(&hole.partition.to_le_bytes());
            out.put(&[0; 4]);
            out.put(&hole.from.to_le_bytes());
            out.put(&hole.through.to_le_bytes());
        }
        out.put(&names);
        OnceFile::put(&mut out, &index.once, &numbers);
        out.finish()
    }

    /// Opens a segment's index file: checks its head, and that the head matches the file's length.
    /// Other pages are checked when they are read.
    pub fn open<D: Disk>(
        files: &mut Files<D>,
        sequence: u64,
    ) -> Result<(IndexFile, SegmentHead), ReadError> {
        let damaged = ReadError::Index(sequence);
        let file_bytes = files.len(&index_name(sequence)).map_err(|error| match error {
            DiskError::Io(_) => damaged,
            error => ReadError::Disk(error),
        })?;
        let mut fixed = [0; FIXED_BYTES as usize];
        files.read_index(sequence, 0, &mut fixed)?;
        let is_ours = fixed.starts_with(&MAGIC)
            && u16_at(&fixed, 8) == VERSION
            && u16_at(&fixed, 10) == 0
            && u64_at(&fixed, 16) == sequence;
        let partitions_count = u32_at(&fixed, 12);
        if !is_ours || partitions_count > super::format::PARTITIONS_MAX {
            return Err(damaged);
        }
        let counts: [u32; 6] = std::array::from_fn(|field| u32_at(&fixed, 48 + 4 * field));
        let sections = Sections::new(partitions_count, counts);
        let once = OnceFile::decode(&fixed[72..], sections.end);
        if file_bytes != once.end().div_ceil(PAGE_DATA_BYTES as u64) * PAGE_BYTES as u64 {
            return Err(damaged);
        }
        let mut head = vec![0; head_bytes(partitions_count) as usize];
        files.read_index(sequence, FIXED_BYTES, &mut head)?;
        let head = SegmentHead::decode(&head)
            .ok()
            .filter(|head| head.sequence == sequence)
            .filter(|head| head.heads.len() == partitions_count as usize)
            .ok_or(damaged)?;
        let [records_count, topics_count, numbers_count, retained_count, holes_count, names_bytes] =
            counts;
        let mut holes = vec![0; (HOLE_BYTES * u64::from(holes_count)) as usize];
        files.read_index(sequence, sections.holes, &mut holes)?;
        let hole_of = |bytes: &[u8]| Hole {
            partition: u32_at(bytes, 0),
            from: u64_at(bytes, 8),
            through: u64_at(bytes, 16),
        };
        let index = IndexFile {
            sequence,
            valid_bytes: u64_at(&fixed, 24),
            oldest_ms: u64_at(&fixed, 32),
            newest_ms: u64_at(&fixed, 40),
            records_count,
            topics_count,
            retained_count,
            holes: holes.chunks(HOLE_BYTES as usize).map(hole_of).collect(),
            file_bytes,
            once,
            numbers_count,
            names_bytes,
            sections,
        };
        Ok((index, head))
    }

    /// Whether all checksums of an index file are correct.
    pub fn pages_are_whole(file: &[u8], sequence: u64) -> bool {
        let mut pages = file.chunks(PAGE_BYTES).zip(0..);
        pages.all(|(page, number)| {
            let data = page.get(..PAGE_DATA_BYTES);
            data.is_some_and(|data| {
                page_crc(data, sequence, number) == u32_at(page, PAGE_DATA_BYTES)
            })
        })
    }

    /// The first record of a partition among all, and their number.
    pub fn partition<D: Disk>(
        &self,
        files: &mut Files<D>,
        partition: u32,
    ) -> Result<(u32, u32), ReadError> {
        let mut bytes = [0; 8];
        let place = self.sections.partitions + 8 * u64::from(partition);
        files.read_index(self.sequence, place, &mut bytes)?;
        let (first, count) = (u32_at(&bytes, 0), u32_at(&bytes, 4));
        match first.checked_add(count) {
            Some(end) if end <= self.records_count => Ok((first, count)),
            _ => Err(ReadError::Index(self.sequence)),
        }
    }

    /// A record by its number among all.
    pub fn entry<D: Disk>(&self, files: &mut Files<D>, place: u32) -> Result<Entry, ReadError> {
        if place >= self.records_count {
            return Err(ReadError::Index(self.sequence));
        }
        let mut bytes = [0; RECORD_BYTES as usize];
        let start = self.sections.records + RECORD_BYTES * u64::from(place);
        files.read_index(self.sequence, start, &mut bytes)?;
        Ok(Entry {
            offset: u64_at(&bytes, 0),
            position: u32_at(&bytes, 8),
            length: u32_at(&bytes, 12),
        })
    }

    /// An entry of the places of all topics.
    pub fn place<D: Disk>(&self, files: &mut Files<D>, index: u32) -> Result<u32, ReadError> {
        if index >= self.records_count {
            return Err(ReadError::Index(self.sequence));
        }
        self.u32_in(files, self.sections.places, index)
    }

    /// A topic by its row.
    pub fn row<D: Disk>(&self, files: &mut Files<D>, row: u32) -> Result<TopicRow, ReadError> {
        if row >= self.topics_count {
            return Err(ReadError::Index(self.sequence));
        }
        let mut bytes = [0; ROW_BYTES];
        let start = self.sections.topics + ROW_BYTES as u64 * u64::from(row);
        files.read_index(self.sequence, start, &mut bytes)?;
        Ok(TopicRow::decode(&bytes))
    }

    /// The row of a topic's number.
    pub fn row_of_number<D: Disk>(
        &self,
        files: &mut Files<D>,
        number: u32,
    ) -> Result<u32, ReadError> {
        if number >= self.numbers_count {
            return Err(ReadError::Index(self.sequence));
        }
        self.u32_in(files, self.sections.numbers, number)
    }

    /// The row of a topic with a retained record.
    pub fn retained_row<D: Disk>(
        &self,
        files: &mut Files<D>,
        index: u32,
    ) -> Result<u32, ReadError> {
        self.u32_in(files, self.sections.retained, index)
    }

    /// The name of a topic, into `name`.
    pub fn name<D: Disk>(
        &self,
        files: &mut Files<D>,
        row: &TopicRow,
        name: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        let end = u64::from(row.name_start) + u64::from(row.name_bytes);
        if end > u64::from(self.names_bytes) {
            return Err(ReadError::Index(self.sequence));
        }
        name.clear();
        name.resize(row.name_bytes.into(), 0);
        let start = self.sections.names + u64::from(row.name_start);
        files.read_index(self.sequence, start, name)
    }

    fn u32_in<D: Disk>(
        &self,
        files: &mut Files<D>,
        section: u64,
        index: u32,
    ) -> Result<u32, ReadError> {
        let mut bytes = [0; 4];
        files.read_index(self.sequence, section + 4 * u64::from(index), &mut bytes)?;
        Ok(u32_at(&bytes, 0))
    }
}

impl Sections {
    fn new(partitions_count: u32, counts: [u32; 6]) -> Sections {
        let [records, topics, numbers, retained, holes, names] = counts.map(u64::from);
        let start = FIXED_BYTES + head_bytes(partitions_count);
        let records_start = start + 8 * u64::from(partitions_count);
        let places = records_start + RECORD_BYTES * records;
        let topics_start = places + 4 * records;
        let numbers_start = topics_start + ROW_BYTES as u64 * topics;
        let retained_start = numbers_start + 4 * numbers;
        let holes_start = retained_start + 4 * retained;
        let names_start = holes_start + HOLE_BYTES * holes;
        Sections {
            partitions: start,
            records: records_start,
            places,
            topics: topics_start,
            numbers: numbers_start,
            retained: retained_start,
            holes: holes_start,
            names: names_start,
            end: names_start + names,
        }
    }
}

fn put_rows(out: &mut PageWriter, index: &MemoryIndex, rows: &[u32]) {
    let (mut name_start, mut first) = (0, 0);
    for number in rows {
        let topic = &index.topics[*number as usize];
        let flags = topic.retained.map_or(0, |retained| 1 | (u16::from(retained.clears) << 1));
        let retained =
            topic.retained.unwrap_or(Retained { position: 0, length: 0, offset: 0, clears: false });
        out.put(&topic.partition.to_le_bytes());
        out.put_u32(name_start);
        out.put(&(topic.name.len() as u16).to_le_bytes());
        out.put(&flags.to_le_bytes());
        out.put_u32(first);
        out.put_u32(topic.records.len());
        out.put(&retained.position.to_le_bytes());
        out.put(&retained.length.to_le_bytes());
        out.put(&retained.offset.to_le_bytes());
        out.put(&topic.last_offset.to_le_bytes());
        out.put(&[0; 4]);
        name_start += topic.name.len();
        first += topic.records.len();
    }
}

/// Splits data into pages with checksums.
pub(super) struct PageWriter {
    sequence: u64,
    out: Vec<u8>,
}

impl PageWriter {
    fn new(sequence: u64) -> PageWriter {
        let out = Vec::new();
        PageWriter { sequence, out }
    }

    /// Appends a count. Counts are below 2^32, as a segment's bytes are.
    pub(super) fn put_u32(&mut self, value: usize) {
        self.put(&(value as u32).to_le_bytes());
    }

    pub(super) fn put(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = PAGE_DATA_BYTES - self.out.len() % PAGE_BYTES;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.out.extend_from_slice(now);
            bytes = later;
            if now.len() == room {
                self.end_page();
            }
        }
    }

    fn end_page(&mut self) {
        let page = self.out.len() / PAGE_BYTES;
        let crc = page_crc(&self.out[page * PAGE_BYTES..], self.sequence, page as u64);
        self.out.extend_from_slice(&crc.to_le_bytes());
    }

    fn finish(mut self) -> Vec<u8> {
        let rest = self.out.len() % PAGE_BYTES;
        if rest > 0 {
            self.out.resize(self.out.len() + PAGE_DATA_BYTES - rest, 0);
            self.end_page();
        }
        self.out
    }
}

/// Rewrites a segment's index file and returns it opened. As batches would wait for a sync, it is
/// only synced if a scan of the segment would give another result: remains after a crash have wrong
/// checksums and are rebuilt.
pub(super) fn write_index<D: Disk>(
    files: &mut Files<D>,
    segment: &Segment,
    index: &MemoryIndex,
) -> Result<IndexFile, ReadError> {
    let head = &segment.head;
    let bytes = IndexFile::encode(head, segment.valid_bytes, index);
    let name = index_name(head.sequence);
    files.forget(head.sequence);
    let written = match files.replace(&name, &bytes) {
        Ok(mut file) if segment.wants_synced_index => files.disk.sync(&mut file),
        written => written.map(|_| ()),
    };
    if let Err(error) = written {
        // An incomplete index does no harm, but takes room.
        let _ = files.disk.remove(&name);
        return Err(error.into());
    }
    Ok(IndexFile::open(files, head.sequence)?.0)
}

impl From<DiskError> for ReadError {
    fn from(error: DiskError) -> ReadError {
        ReadError::Disk(error)
    }
}
