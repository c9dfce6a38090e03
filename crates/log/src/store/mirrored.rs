//! The file `mirror`: what an engine has said of the records that a mirror has of it. Always
//! replaced as a whole, by a rename, before the first record that it is about is written.
//!
//! ```text
//!  0  magic             8 bytes  "CROREMIR"
//!  8  version           u16      1
//! 10  flags             u16      0
//! 12  partitions_count  u32
//! 16  partitions, in order: floor u64, topic_id u32, lineages_count u32, and each lineage, oldest
//!     first: lineage u32, first offset u64
//!     crc32c            u32      over everything before
//! ```

use super::checksum::crc32c;
use super::disk::{Disk, DiskError};
use super::files::{ReadError, with_retries};
use super::format::{u16_at, u32_at, u64_at};
use super::read::Place;
use super::{Store, StoreError};
use crate::record::RecordView;
use stdx::handing::Hand;

const NAME: &str = "mirror";
const UNFINISHED_NAME: &str = "mirror.new";
const MAGIC: [u8; 8] = *b"CROREMIR";
const VERSION: u16 = 1;
const FIXED_BYTES: usize = 16;
const PARTITION_BYTES: usize = 16;
const LINEAGE_BYTES: usize = 12;
/// The maximum file size; 65,536 partitions with 64 lineages each have less.
const FILE_BYTES_MAX: usize = 64 << 20;

/// A partition of a mirror.
#[derive(Clone, PartialEq, Eq, Debug, Default, Hand)]
pub struct MirroredPartition {
    /// The mirror has every record from this offset on, and perhaps not those before; 0: none.
    pub floor: u64,
    /// The engine's identity of the topic.
    pub topic_id: u32,
    /// The lineages of the records with their first offsets, oldest first.
    pub lineages: Vec<(u32, u64)>,
}

impl<D: Disk> Store<D> {
    /// Reads the file. None if it is missing, damaged, of another version, or of another number of
    /// partitions.
    ///
    /// # Errors
    /// The disk does not return the file.
    pub fn mirrored(&mut self) -> Result<Option<Vec<MirroredPartition>>, DiskError> {
        let disk = &mut self.files.disk;
        let read = with_retries(|| {
            let mut file = disk.open(NAME)?;
            let length = disk.len(&mut file)?.min(FILE_BYTES_MAX as u64);
            let mut bytes = vec![0; length as usize];
            let read = disk.read_at(&mut file, 0, &mut bytes)?;
            bytes.truncate(read);
            Ok(bytes)
        });
        match read {
            Ok(bytes) => Ok(decode(&bytes)
                .filter(|found| found.len() == self.settings.partitions_count as usize)),
            Err(DiskError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the file; after a success it is durable.
    ///
    /// # Errors
    /// The disk refused: the file is the former one, or this.
    pub fn set_mirrored(&mut self, partitions: &[MirroredPartition]) -> Result<(), DiskError> {
        let mut file = self.files.replace(UNFINISHED_NAME, &encode(partitions))?;
        self.files.disk.sync(&mut file)?;
        self.files.disk.rename(UNFINISHED_NAME, NAME)?;
        self.files.disk.sync_directory()
    }

    /// The offset and the time of a partition's newest record on disk; None if there is none, or it
    /// is damaged.
    ///
    /// # Errors
    /// The disk does not return it.
    pub fn newest(&mut self, partition: u32) -> Result<Option<(u64, u64)>, StoreError> {
        let place = self.repairing(|store| {
            for segment in (0..store.segments.len()).rev() {
                let index = &store.segments[segment].index;
                let records = index.records(&mut store.files, partition)?;
                if let Some(last) = records.count.checked_sub(1) {
                    let entry = index.entry(&mut store.files, &records, last)?;
                    return Ok::<_, ReadError>(Some(Place { segment, entry }));
                }
            }
            Ok(None)
        })?;
        let Some(place) = place else {
            return Ok(None);
        };
        let (records, _) = self.read_records(&[place])?;
        let record = records.first().and_then(|record| RecordView::parse(record));
        Ok(record.map(|record| (record.offset(), record.time_ms())))
    }
}

fn encode(partitions: &[MirroredPartition]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&(partitions.len() as u32).to_le_bytes());
    for MirroredPartition { floor, topic_id, lineages } in partitions {
        out.extend_from_slice(&floor.to_le_bytes());
        out.extend_from_slice(&topic_id.to_le_bytes());
        out.extend_from_slice(&(lineages.len() as u32).to_le_bytes());
        for (lineage, start) in lineages {
            out.extend_from_slice(&lineage.to_le_bytes());
            out.extend_from_slice(&start.to_le_bytes());
        }
    }
    let crc = crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

fn decode(bytes: &[u8]) -> Option<Vec<MirroredPartition>> {
    let (body, crc) = bytes.split_last_chunk()?;
    let is_whole = body.len() >= FIXED_BYTES
        && body.starts_with(&MAGIC)
        && u32::from_le_bytes(*crc) == crc32c(body);
    if !is_whole || (u16_at(body, 8), u16_at(body, 10)) != (VERSION, 0) {
        return None;
    }
    let count = u32_at(body, 12) as usize;
    let mut rest = &body[FIXED_BYTES..];
    let mut partitions = Vec::new();
    for _ in 0..count {
        let (fixed, behind) = rest.split_at_checked(PARTITION_BYTES)?;
        let lineages_count = u32_at(fixed, 12) as usize;
        let lineages_bytes = lineages_count.checked_mul(LINEAGE_BYTES)?;
        let (lineages, behind) = behind.split_at_checked(lineages_bytes)?;
        partitions.push(MirroredPartition {
            floor: u64_at(fixed, 0),
            topic_id: u32_at(fixed, 8),
            lineages: lineages
                .chunks(LINEAGE_BYTES)
                .map(|bytes| (u32_at(bytes, 0), u64_at(bytes, 4)))
                .collect(),
        });
        rest = behind;
    }
    rest.is_empty().then_some(partitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_other_bytes_is_none() {
        let partitions = [
            MirroredPartition { floor: 7, topic_id: 9, lineages: vec![(1, 2), (3, 4)] },
            MirroredPartition::default(),
        ];
        let bytes = encode(&partitions);
        assert_eq!(decode(&bytes).as_deref(), Some(&partitions[..]));
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), None, "{length} bytes");
        }
        for byte in 0..bytes.len() {
            let mut other = bytes.clone();
            other[byte] ^= 1;
            assert_eq!(decode(&other), None, "byte {byte}");
        }
    }
}
