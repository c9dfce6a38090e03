//! The file `epochs`: the lives of a log, and the damage that ended them. Always replaced as a
//! whole, by a rename.
//!
//! ```text
//!  0  magic             8 bytes  "CROREEPO"
//!  8  version           u16      1
//! 10  flags             u16      0
//! 12  partitions_count  u32
//! 16  epochs_count      u32
//! 20  damages_count     u32
//!  24  epochs, oldest first: epoch u64, started_ms u64, for each partition the offset at which it
//! starts u64
//!      damages: segment u64, first byte u64, end byte (exclusive) u64
//!     crc32c            u32      over everything before
//! ```

use super::checksum::crc32c;
use super::disk::{Disk, DiskError};
use super::files::{Files, with_retries};
use super::format::{u16_at, u32_at, u64_at};
use super::{Damage, OlderEpoch};

pub(super) const NAME: &str = "epochs";
const UNFINISHED_NAME: &str = "epochs.new";
const MAGIC: [u8; 8] = *b"CROREEPO";
const VERSION: u16 = 1;
const FIXED_BYTES: usize = 24;
const DAMAGE_BYTES: usize = 24;

/// The maximum number of recorded epochs; positions of older ones are unknown.
const EPOCHS_MAX: usize = 64;
/// The maximum number of recorded damages; known damage begins no further epoch.
const DAMAGES_MAX: usize = 4096;
/// The maximum file size; a file with the highest counts and 65,536 partitions has half of it.
const FILE_BYTES_MAX: u64 = 64 << 20;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Epoch {
    pub epoch: u64,
    pub started_ms: u64,
    /// The first offset of each partition.
    pub starts: Vec<u64>,
}

/// The content of the file. The last epoch is the present one; there is always one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Epochs {
    pub list: Vec<Epoch>,
    pub damages: Vec<Damage>,
}

/// The result of reading the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum EpochsFound {
    Whole(Epochs),
    Missing,
    Damaged,
    Version { version: u16, flags: u16 },
}

impl Epochs {
    pub fn present(&self) -> u64 {
        self.list.last().map_or(0, |epoch| epoch.epoch)
    }

    /// Older epochs, each with the positions that all later epochs left valid.
    pub fn older(&self) -> Vec<OlderEpoch> {
        let mut older = Vec::new();
        let mut valid_below: Vec<u64> = Vec::new();
        for pair in self.list.windows(2).rev() {
            let [epoch, next] = pair else { continue };
            if valid_below.is_empty() {
                valid_below = next.starts.clone()
            } else {
                valid_below
                    .iter_mut()
                    .zip(&next.starts)
                    .for_each(|(valid, start)| *valid = *start.min(valid))
            }
            older.push(OlderEpoch { epoch: epoch.epoch, valid_below: valid_below.clone() });
        }
        older.reverse();
        older
    }

    /// Whether a recorded damage includes this one.
    pub fn accounts_for(&self, damage: &Damage) -> bool {
        self.damages.iter().any(|known| {
            known.segment == damage.segment
                && known.from <= damage.from
                && known.through >= damage.through
        })
    }

    /// Begins a new epoch and records its cause.
    pub fn begin(&mut self, epoch: Epoch, damages: &[Damage]) {
        self.list.push(epoch);
        self.list.drain(..self.list.len().saturating_sub(EPOCHS_MAX));
        self.damages.extend_from_slice(damages);
        let surplus = self.damages.len().saturating_sub(DAMAGES_MAX);
        self.damages.drain(..surplus);
    }

    pub fn read<D: Disk>(
        files: &mut Files<D>,
        partitions_count: u32,
    ) -> Result<EpochsFound, DiskError> {
        match with_retries(|| read_bytes(&mut files.disk)) {
            Ok(bytes) => Ok(Epochs::decode(&bytes, partitions_count)),
            Err(DiskError::NotFound) => Ok(EpochsFound::Missing),
            Err(error) => Err(error),
        }
    }

    /// The number of partitions in the file, if it is valid; for a log without a readable segment.
    pub fn partitions_count<D: Disk>(files: &mut Files<D>) -> Option<u32> {
        let bytes = with_retries(|| read_bytes(&mut files.disk)).ok()?;
        let count = bytes.get(12..16).map(|count| u32_at(count, 0))?;
        let found = Epochs::decode(&bytes, count);
        matches!(found, EpochsFound::Whole(_)).then_some(count)
    }

    fn decode(bytes: &[u8], partitions_count: u32) -> EpochsFound {
        let Some((body, crc)) = bytes.split_last_chunk() else {
            return EpochsFound::Damaged;
        };
        if !body.starts_with(&MAGIC) || u32::from_le_bytes(*crc) != crc32c(body) {
            return EpochsFound::Damaged;
        }
        let (version, flags) = (u16_at(body, 8), u16_at(body, 10));
        if version != VERSION || flags != 0 {
            return EpochsFound::Version { version, flags };
        }
        let (epochs_count, damages_count) = (u32_at(body, 16) as usize, u32_at(body, 20) as usize);
        let epoch_bytes = 16 + 8 * partitions_count as usize;
        let damages_start =
            epochs_count.checked_mul(epoch_bytes).and_then(|bytes| bytes.checked_add(FIXED_BYTES));
        let end = damages_start
            .and_then(|start| start.checked_add(damages_count.checked_mul(DAMAGE_BYTES)?));
        let is_ours = u32_at(body, 12) == partitions_count && epochs_count > 0;
        let (Some(damages_start), true) = (damages_start, is_ours && end == Some(body.len()))
        else {
            return EpochsFound::Damaged;
        };
        let list = body[FIXED_BYTES..damages_start].chunks(epoch_bytes);
        let damages = body[damages_start..].chunks(DAMAGE_BYTES);
        EpochsFound::Whole(Epochs {
            list: list
                .map(|bytes| Epoch {
                    epoch: u64_at(bytes, 0),
                    started_ms: u64_at(bytes, 8),
                    starts: bytes[16..].chunks(8).map(|start| u64_at(start, 0)).collect(),
                })
                .collect(),
            damages: damages
                .map(|bytes| Damage {
                    segment: u64_at(bytes, 0),
                    from: u64_at(bytes, 8),
                    through: u64_at(bytes, 16),
                })
                .collect(),
        })
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let partitions_count = self.list.first().map_or(0, |epoch| epoch.starts.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        for count in [partitions_count, self.list.len(), self.damages.len()] {
            out.extend_from_slice(&(count as u32).to_le_bytes()); // all bounds are far below 2^32
        }
        for epoch in &self.list {
            out.extend_from_slice(&epoch.epoch.to_le_bytes());
            out.extend_from_slice(&epoch.started_ms.to_le_bytes());
            for start in &epoch.starts {
                out.extend_from_slice(&start.to_le_bytes());
            }
        }
        for damage in &self.damages {
            for field in [damage.segment, damage.from, damage.through] {
                out.extend_from_slice(&field.to_le_bytes());
            }
        }
        let crc = crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Writes the file; after a success it is durable.
    pub fn write<D: Disk>(&self, files: &mut Files<D>) -> Result<(), DiskError> {
        let mut file = files.replace(UNFINISHED_NAME, &self.encode())?;
        files.disk.sync(&mut file)?;
        files.disk.rename(UNFINISHED_NAME, NAME)?;
        files.disk.sync_directory()
    }
}

fn read_bytes<D: Disk>(disk: &mut D) -> Result<Vec<u8>, DiskError> {
    let mut file = disk.open(NAME)?;
    let length = disk.len(&mut file)?.min(FILE_BYTES_MAX);
    let mut bytes = vec![0; length as usize];
    let read = disk.read_at(&mut file, 0, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}
