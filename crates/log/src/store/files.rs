//! Files of a log: a bounded number of open ones, and a cache of index pages.

use super::disk::{Disk, DiskError};
use super::format::{index_name, segment_name};
use super::page::{PAGE_BYTES, PAGE_DATA_BYTES, page_crc};

/// The maximum number of open files, without the active segment.
const FILES_OPEN_MAX: usize = 64;
/// The maximum number of cached index pages: 1 MiB.
const PAGES_MAX: usize = 256;

/// The size of one read from a file that cannot be read as a whole. If that fails, it is read page
/// by page.
const BLOCK_BYTES: usize = 1 << 20;
/// The number of attempts before a page counts as lost.
pub(super) const READS_MAX: usize = 3;

/// The readable bytes of a file.
#[derive(Debug)]
pub(super) struct Read {
    pub bytes: Vec<u8>,
    /// The missing ranges: first byte and end (exclusive).
    pub missing: Vec<(u64, u64)>,
}

/// The reason why a read failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReadError {
    Disk(DiskError),
    /// The index file of this segment is damaged; it can be rebuilt.
    Index(u64),
}

/// Tries a few times while the disk fails.
pub(super) fn with_retries<T>(
    mut read: impl FnMut() -> Result<T, DiskError>,
) -> Result<T, DiskError> {
    let mut result = read();
    for _ in 1..READS_MAX {
        match result {
            Err(DiskError::Io(_)) => result = read(),
            result => return result,
        }
    }
    result
}

/// The disk and its open files.
#[derive(Debug)]
pub(super) struct Files<D: Disk> {
    pub disk: D,
    /// The most recently used file is last.
    open: Vec<(String, D::File)>,
    /// The slot of a page follows from its numbers.
    pages: Vec<Option<Page>>,
}

#[derive(Debug)]
struct Page {
    sequence: u64,
    number: u64,
    bytes: Box<[u8; PAGE_BYTES]>,
}

impl<D: Disk> Files<D> {
    pub fn new(disk: D) -> Files<D> {
        Files { disk, open: Vec::new(), pages: (0..PAGES_MAX).map(|_| None).collect() }
    }

    /// The size of a file.
    pub fn len(&mut self, name: &str) -> Result<u64, DiskError> {
        let place = self.file(name)?;
        self.disk.len(&mut self.open[place].1)
    }

    /// Reads bytes of a file; fewer only at its end.
    pub fn read(
        &mut self,
        name: &str,
        position: u64,
        bytes: &mut [u8],
    ) -> Result<usize, DiskError> {
        let place = self.file(name)?;
        self.disk.read_at(&mut self.open[place].1, position, bytes)
    }

    /// Reads a whole file, or its first `bytes_max` bytes.
    pub fn read_whole(&mut self, name: &str, bytes_max: u64) -> Result<Vec<u8>, DiskError> {
        let length = self.len(name)?.min(bytes_max);
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| DiskError::Io(0))?];
        let read = self.read(name, 0, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Reads like [`Files::read_whole`], with zeros instead of unreadable bytes; zeros are not a
    /// valid record.
    ///
    /// # Errors
    /// The disk returns no byte of the file.
    pub fn read_readable(&mut self, name: &str, bytes_max: u64) -> Result<Read, DiskError> {
        match self.read_whole(name, bytes_max) {
            Ok(bytes) => {
                return Ok(Read { bytes, missing: Vec::new() });
            }
            Err(DiskError::Io(_)) => {}
            Err(error) => return Err(error),
        }
        let length = self.len(name)?.min(bytes_max);
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| DiskError::Io(0))?];
        let (mut missing, mut lacking): (Vec<(u64, u64)>, u64) = (Vec::new(), 0);
        let blocks = bytes.chunks_mut(BLOCK_BYTES).zip((0..).step_by(BLOCK_BYTES));
        for (block, start) in blocks {
            if self.read(name, start, block).is_ok() {
                continue;
            }
            let pages = block.chunks_mut(PAGE_BYTES).zip((start..).step_by(PAGE_BYTES));
            for (page, start) in pages {
                let Err(error) = self.read_with_retries(name, start, page) else {
                    continue;
                };
                page.fill(0);
                let end = start + page.len() as u64;
                lacking += page.len() as u64;
                match missing.last_mut() {
                    Some(last) if last.1 == start => last.1 = end,
                    _ => missing.push((start, end)),
                }
                if lacking == length {
                    return Err(error);
                }
            }
        }
        Ok(Read { bytes, missing })
    }

    /// Reads with a few attempts.
    fn read_with_retries(
        &mut self,
        name: &str,
        position: u64,
        bytes: &mut [u8],
    ) -> Result<usize, DiskError> {
        with_retries(|| self.read(name, position, bytes))
    }

    /// Reads data of an index file.
    pub fn read_index(
        &mut self,
        sequence: u64,
        mut place: u64,
        mut out: &mut [u8],
    ) -> Result<(), ReadError> {
        while !out.is_empty() {
            let within = (place % PAGE_DATA_BYTES as u64) as usize;
            let count = out.len().min(PAGE_DATA_BYTES - within);
            let page = self.page(sequence, place / PAGE_DATA_BYTES as u64)?;
            let (now, later) = out.split_at_mut(count);
            now.copy_from_slice(&page[within..within + count]);
            (out, place) = (later, place + count as u64);
        }
        Ok(())
    }

    /// Creates a file, or replaces one of that name. It is not synced.
    pub fn replace(&mut self, name: &str, bytes: &[u8]) -> Result<D::File, DiskError> {
        let mut file = match self.disk.create(name) {
            Err(DiskError::Exists) => {
                self.disk.remove(name)?;
                self.disk.create(name)?
            }
            created => created?,
        };
        self.disk.write_at(&mut file, 0, bytes)?;
        Ok(file)
    }

    /// Closes the files of a segment and its index, and drops their pages: they are removed or
    /// replaced.
    pub fn forget(&mut self, sequence: u64) {
        let names = [segment_name(sequence), index_name(sequence)];
        self.open.retain(|(name, _)| !names.contains(name));
        for page in &mut self.pages {
            page.take_if(|page| page.sequence == sequence);
        }
    }

    /// The slot of an open file.
    fn file(&mut self, name: &str) -> Result<usize, DiskError> {
        let found = self.open.iter().rposition(|(open, _)| open == name);
        match found {
            Some(place) => self.open[place..].rotate_left(1),
            None => {
                let file = self.disk.open(name)?;
                if self.open.len() >= FILES_OPEN_MAX {
                    self.open.remove(0);
                }
                self.open.push((name.to_owned(), file));
            }
        }
        Ok(self.open.len() - 1)
    }

    fn page(&mut self, sequence: u64, number: u64) -> Result<&[u8; PAGE_BYTES], ReadError> {
        let slot =
            (sequence.wrapping_mul(0x9e37_79b9).wrapping_add(number) % PAGES_MAX as u64) as usize;
        let is_it = |page: &Page| page.sequence == sequence && page.number == number;
        if !self.pages[slot].as_ref().is_some_and(is_it) {
            let mut bytes = Box::new([0; PAGE_BYTES]);
            let start = number * PAGE_BYTES as u64;
            // An index can be rebuilt, so every disk error is treated as damage.
            let read = match self.read(&index_name(sequence), start, &mut bytes[..]) {
                Err(DiskError::Io(_) | DiskError::NotFound) => {
                    return Err(ReadError::Index(sequence));
                }
                read => read?,
            };
            let crc = page_crc(&bytes[..PAGE_DATA_BYTES], sequence, number).to_le_bytes();
            if read != PAGE_BYTES || bytes[PAGE_DATA_BYTES..] != crc {
                return Err(ReadError::Index(sequence));
            }
            self.pages[slot] = Some(Page { sequence, number, bytes });
        }
        match &self.pages[slot] {
            Some(page) => Ok(&page.bytes),
            None => Err(ReadError::Index(sequence)),
        }
    }
}
