//! The files that record a lower bound of a log's end, so that a start detects the loss of its
//! newest segment, or an older copy of it.
//!
//! One file is beside the segments. The other one is outside their directory ([`WITNESS_NAME`]), so
//! that a directory restored from a backup does not include it. Both have the same content, and the
//! higher end counts.
//!
//! The content is always a lower bound: it is written after the data has been synced. So it may be
//! late, torn or missing, but is never wrong. It is synced after the first batch of a segment and
//! when the log is closed, and written without a sync once a second.
//!
//! ```text
//!  0  magic    8 bytes  "CROREFIN"
//!  8  version  u16      1
//! 10  flags    u16      0
//! 12  0        u32
//!  16  segment  u64      number of the newest segment that has more than its head
//!  24  bytes    u64      valid bytes of it, at least
//!  32  first    u64      number of the oldest valid segment; 0: all are valid
//! 40  0        20 bytes
//! 60  crc32c   u32      over bytes 0..60
//! ```

use super::checksum::crc32c;
use super::disk::{Disk, DiskError};
use super::format::{u16_at, u32_at, u64_at};
use super::{OpenError, Segment, Store};

/// The file beside the segments.
const NAME: &str = "end";
/// The file that a [`Disk`] keeps outside the log's directory.
pub const WITNESS_NAME: &str = "witness";
pub(super) const NAMES: [&str; 2] = [NAME, WITNESS_NAME];

/// Names of segments have 16 digits.
const NUMBERS: u64 = 10_000_000_000_000_000;

const MAGIC: [u8; 8] = *b"CROREFIN";
const VERSION: u16 = 1;
/// The file fits into one sector, so most disks do not tear it.
const BYTES: usize = 64;

/// A lower bound of a log's end. Ordered by position.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct End {
    /// The number of the newest segment that has more than a head; 0: none.
    pub segment: u64,
    /// The bytes of that segment that are certainly valid.
    pub bytes: u64,
    /// The number of the oldest valid segment, if files of older ones could not be removed; 0: all
    /// are valid.
    pub first: u64,
}

impl End {
    /// Decodes a file; None if it is damaged. The error is an unknown version with its flags.
    pub(super) fn decode(bytes: &[u8]) -> Result<Option<End>, (u16, u16)> {
        let Some((fixed, crc)) = bytes.split_at_checked(BYTES - 4) else {
            return Ok(None);
        };
        let is_whole =
            fixed.starts_with(&MAGIC) && crc.len() == 4 && u32_at(crc, 0) == crc32c(fixed);
        if !is_whole {
            return Ok(None);
        }
        let (version, flags) = (u16_at(fixed, 8), u16_at(fixed, 10));
        if version != VERSION || flags != 0 {
            return Err((version, flags));
        }
        let end =
            End { segment: u64_at(fixed, 16), bytes: u64_at(fixed, 24), first: u64_at(fixed, 32) };
        // No file has a greater number, and no segment is longer.
        let is_sane = end.segment.max(end.first) < NUMBERS && end.bytes <= u32::MAX.into();
        Ok(Some(end).filter(|_| is_sane))
    }

    pub(super) fn encode(&self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..10].copy_from_slice(&VERSION.to_le_bytes());
        for (field, at) in [(self.segment, 16), (self.bytes, 24), (self.first, 32)] {
            out[at..at + 8].copy_from_slice(&field.to_le_bytes());
        }
        let crc = crc32c(&out[..BYTES - 4]);
        out[BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// The bytes of a segment that are certainly valid.
    pub(super) fn bytes_of(&self, segment: u64) -> u64 {
        if segment == self.segment { self.bytes } else { 0 }
    }

    /// Reads both files of a log and returns the higher end.
    pub(super) fn read<D: Disk>(disk: &mut D) -> Result<End, OpenError> {
        let mut end = End::default();
        for name in NAMES {
            let mut bytes = [0; BYTES + 1];
            let file = disk.open(name);
            // An unreadable file is ignored; the other one may be readable.
            let read = file.and_then(|mut file| disk.read_at(&mut file, 0, &mut bytes));
            let found = End::decode(&bytes[..read.unwrap_or(0)]).map_err(|(version, flags)| {
                let name = name.to_owned();
                OpenError::Version { name, version, flags }
            })?;
            if let Some(found) = found {
                let first = end.first.max(found.first);
                end = End { first, ..end.max(found) };
            }
        }
        Ok(end)
    }
}

/// The recorded end, and its files.
#[derive(Debug)]
pub(super) struct Notes<F> {
    /// The content of the files, or their last content that could be written.
    pub end: End,
    /// The segment of the last attempt of a synced write.
    tried: u64,
    files: [Option<F>; 2],
}

impl<F> Notes<F> {
    pub fn new(end: End) -> Notes<F> {
        Notes { end, tried: 0, files: [None, None] }
    }

    /// Writes both files. One success is enough.
    fn write<D: Disk<File = F>>(
        &mut self,
        disk: &mut D,
        end: End,
        syncs: bool,
    ) -> Result<(), DiskError> {
        let mut written = Err(DiskError::Io(0));
        for (name, file) in NAMES.iter().zip(&mut self.files) {
            let one = write_file(disk, name, file, &end.encode(), syncs);
            if one.is_err() {
                *file = None;
            }
            written = written.or(one);
        }
        written?;
        self.end = end;
        Ok(())
    }
}

fn write_file<D: Disk>(
    disk: &mut D,
    name: &str,
    open: &mut Option<D::File>,
    bytes: &[u8],
    syncs: bool,
) -> Result<(), DiskError> {
    let file = match open {
        Some(file) => file,
        None => {
            let found = match disk.reopen(name) {
                Err(DiskError::NotFound) => {
                    let file = disk.create(name)?;
                    disk.sync_directory()?;
                    file
                }
                found => found?,
            };
            open.insert(found)
        }
    };
    disk.write_at(file, 0, bytes)?;
    if syncs { disk.sync(file) } else { Ok(()) }
}

impl<D: Disk> Store<D> {
    /// Records a segment after its first batch, synced, so that a later loss of the file is
    /// detected. Tried once for each segment, as a batch waits for it.
    pub(super) fn note_segment(&mut self) {
        let newest = self.segments.back().map_or(0, |last| last.head.sequence);
        if newest > self.notes.tried {
            self.notes.tried = newest;
            let _ = self.note_end(true); // tried again in the next second, without a sync
        }
    }

    /// Records the log's end, unless it is already recorded.
    pub(super) fn note_end(&mut self, syncs: bool) -> Result<(), DiskError> {
        let has_more = |segment: &&Segment| segment.valid_bytes > segment.head.bytes();
        let Some(last) = self.segments.iter().rev().find(has_more) else {
            return Ok(());
        };
        let noted = self.notes.end;
        let bytes = self.synced_bytes_of(last);
        let end = End { segment: last.head.sequence, bytes, first: noted.first };
        if end > noted || syncs && end == noted {
            return self.notes.write(&mut self.files.disk, end, syncs);
        }
        Ok(())
    }

    /// Records, synced, that existing files before the oldest segment are not valid.
    pub(super) fn note_first(&mut self) -> Result<(), DiskError> {
        let first = self.segments.front().map_or(0, |it| it.head.sequence);
        let end = End { first, ..self.notes.end };
        if first > self.notes.end.first {
            self.notes.write(&mut self.files.disk, end, true)
        } else {
            Ok(())
        }
    }
}
