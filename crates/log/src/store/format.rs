//! Bytes of a segment on disk: its head, and the control records among its records.
//!
//! ```text
//!  0  magic             8 bytes  "CRORELOG"
//!  8  version           u16      1
//!  10  flags             u16      0; a reader that does not know a set bit refuses the log
//! 12  partitions_count  u32
//! 16  sequence          u64      number of the segment, from 1; also the file's name
//!  24  epoch             u64      the epoch in which the segment was created
//! 32  created_ms        u64
//! 40  previous          u64      number of the segment before; 0: none
//!  48  previous_bytes    u64      valid bytes of that one; a refused batch may follow them
//!  56  begun_bytes       u32      bytes of this file that were synced before it got its name: the
//! head and the first batch
//! 60  crc32c            u32      over bytes 0..60 and the heads
//! 64  heads             u64 for each partition: the greatest offset before this segment, 0: none
//! ```
//!
//! Records as in [`crate::record`] follow, in batches. The payload of a control record begins with
//! an eight-byte tag: a definition before the first record of its topic, a copy of a retained
//! message whose segment was dropped, and the mark that ends a batch.

use super::checksum::{crc32c, crc32c_of};
use crate::record::{Flags, RECORD_HEADER_BYTES, RecordView};
use stdx::names::NAME_BYTES_MAX;

/// The maximum number of partitions of one log.
pub const PARTITIONS_MAX: u32 = 65_536;

const MAGIC: [u8; 8] = *b"CRORELOG";
const VERSION: u16 = 1;
const HEAD_FIXED_BYTES: usize = 64;

const DEFINITION: [u8; 8] = *b"CROREDEF";
const RETAINED: [u8; 8] = *b"CRORERET";
/// The tag of a mark; recovery searches for it behind damage.
pub(super) const MARK: [u8; 8] = *b"CROREEND";
const MARK_PAYLOAD_BYTES: usize = 48;
/// The size of the shortest definition: a topic's number is at most its position divided by this.
pub(super) const DEFINITION_BYTES_MIN: usize = RECORD_HEADER_BYTES + 12;
/// The maximum cost of a topic's first record in a segment, in addition to the record.
pub(super) const DEFINITION_BYTES_MAX: usize = DEFINITION_BYTES_MIN + NAME_BYTES_MAX;
/// The size of a mark.
pub(super) const MARK_BYTES: usize = RECORD_HEADER_BYTES + MARK_PAYLOAD_BYTES;
/// The cost of a retained copy, in addition to the record.
pub(super) const COPY_BYTES: usize = RECORD_HEADER_BYTES + 8;

/// The content of a segment's head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SegmentHead {
    pub sequence: u64,
    pub epoch: u64,
    pub created_ms: u64,
    pub previous: u64,
    pub previous_bytes: u64,
    pub begun_bytes: u32,
    pub heads: Vec<u64>,
}

/// The reason why a head is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HeadError {
    Damaged,
    Version { version: u16, flags: u16 },
}

/// The size of a head.
pub(super) fn head_bytes(partitions_count: u32) -> u64 {
    HEAD_FIXED_BYTES as u64 + 8 * u64::from(partitions_count)
}

impl SegmentHead {
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&(self.heads.len() as u32).to_le_bytes());
        for field in [
            self.sequence,
            self.epoch,
            self.created_ms,
            self.previous,
            self.previous_bytes,
            self.begun_bytes.into(), // with the checksum's four bytes
        ] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        for head in &self.heads {
            out.extend_from_slice(&head.to_le_bytes());
        }
        let crc = head_crc(&out[start..]).to_le_bytes();
        out[start + 60..start + 64].copy_from_slice(&crc);
    }

    /// Decodes a head. A later version must keep the magic, the version, the count, and the
    /// checksum with its range.
    pub fn decode(bytes: &[u8]) -> Result<SegmentHead, HeadError> {
        let partitions_count = SegmentHead::partitions_count(bytes).ok_or(HeadError::Damaged)?;
        let bytes = bytes.get(..head_bytes(partitions_count) as usize).ok_or(HeadError::Damaged)?;
        if u32_at(bytes, 60) != head_crc(bytes) {
            return Err(HeadError::Damaged);
        }
        let (version, flags) = (u16_at(bytes, 8), u16_at(bytes, 10));
        if version != VERSION || flags != 0 {
            return Err(HeadError::Version { version, flags });
        }
        Ok(SegmentHead {
            sequence: u64_at(bytes, 16),
            epoch: u64_at(bytes, 24),
            created_ms: u64_at(bytes, 32),
            previous: u64_at(bytes, 40),
            previous_bytes: u64_at(bytes, 48),
            begun_bytes: u32_at(bytes, 56),
            heads: (0..partitions_count as usize)
                .map(|partition| u64_at(bytes, HEAD_FIXED_BYTES + 8 * partition))
                .collect(),
        })
    }

    /// The number of partitions in the first bytes; bounded, but not verified by the checksum.
    pub fn partitions_count(bytes: &[u8]) -> Option<u32> {
        let is_ours = bytes.get(..HEAD_FIXED_BYTES)?.starts_with(&MAGIC);
        let count = u32_at(bytes, 12);
        (is_ours && (1..=PARTITIONS_MAX).contains(&count)).then_some(count)
    }

    pub fn bytes(&self) -> u64 {
        head_bytes(self.heads.len() as u32)
    }
}

fn head_crc(bytes: &[u8]) -> u32 {
    let (fixed, heads) = bytes.split_at(HEAD_FIXED_BYTES);
    crc32c_of(&[&fixed[..60], heads])
}

/// The mark that ends a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    /// The position of this record in its segment: so a copy of a mark within a payload is not
    /// taken for one.
    pub position: u64,
    /// The start of its batch.
    pub batch_start: u64,
    /// The bytes of the segment that were durable before the batch was written.
    pub synced_through: u64,
    /// The number of the segment.
    pub sequence: u64,
    /// The number of records in the batch, without this one.
    pub count: u32,
}

/// A decoded control record.
#[derive(Clone, Copy, Debug)]
pub(super) enum Control<'a> {
    Definition { number: u32, partition: u32, name: &'a [u8] },
    Retained { number: u32, record: RecordView<'a> },
    Mark(Mark),
}

/// Decodes a control record. None if its content is invalid despite a correct checksum, or its kind
/// is unknown.
pub(super) fn control_of<'a>(record: &RecordView<'a>) -> Option<Control<'a>> {
    let (tag, rest) = record.payload().split_first_chunk::<8>()?;
    match *tag {
        DEFINITION => {
            let (partition, name) = rest.split_first_chunk()?;
            (name.len() <= NAME_BYTES_MAX).then_some(Control::Definition {
                number: record.topic(),
                partition: u32::from_le_bytes(*partition),
                name,
            })
        }
        RETAINED => {
            let copied = RecordView::parse(rest)?;
            (copied.bytes().len() == rest.len())
                .then_some(Control::Retained { number: record.topic(), record: copied })
        }
        MARK if rest.len() == MARK_PAYLOAD_BYTES - 8 => Some(Control::Mark(Mark {
            position: u64_at(rest, 0),
            batch_start: u64_at(rest, 8),
            synced_through: u64_at(rest, 16),
            sequence: u64_at(rest, 24),
            count: u32_at(rest, 32),
        })),
        _ => None,
    }
}

/// Appends a definition.
pub(super) fn put_definition(out: &mut Vec<u8>, number: u32, partition: u32, name: &[u8]) {
    put_control(out, number, &[&DEFINITION, &partition.to_le_bytes(), name]);
}

/// Appends a copy of a retained message.
pub(super) fn put_retained(out: &mut Vec<u8>, number: u32, record: &[u8]) {
    put_control(out, number, &[&RETAINED, record]);
}

/// Appends a mark.
pub(super) fn put_mark(out: &mut Vec<u8>, mark: &Mark) {
    let mut payload = [0; MARK_PAYLOAD_BYTES];
    payload[0..8].copy_from_slice(&MARK);
    payload[8..16].copy_from_slice(&mark.position.to_le_bytes());
    payload[16..24].copy_from_slice(&mark.batch_start.to_le_bytes());
    payload[24..32].copy_from_slice(&mark.synced_through.to_le_bytes());
    payload[32..40].copy_from_slice(&mark.sequence.to_le_bytes());
    payload[40..44].copy_from_slice(&mark.count.to_le_bytes());
    put_control(out, 0, &[&payload]);
}

fn put_control(out: &mut Vec<u8>, number: u32, payload: &[&[u8]]) {
    let start = out.len();
    out.extend_from_slice(&[0; RECORD_HEADER_BYTES]);
    for part in payload {
        out.extend_from_slice(part);
    }
    let length = (out.len() - start) as u32; // callers bound what they put
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    out[start + 32..start + 36].copy_from_slice(&number.to_le_bytes());
    out[start + 36..start + 38].copy_from_slice(&Flags::CONTROL.0.to_le_bytes());
    put_crc(out, start);
}

/// Appends a publication's record with another topic number and its checksum.
pub(super) fn put_record(out: &mut Vec<u8>, number: u32, record: &[u8]) {
    let start = out.len();
    out.extend_from_slice(record);
    out[start + 32..start + 36].copy_from_slice(&number.to_le_bytes());
    put_crc(out, start);
}

fn put_crc(out: &mut [u8], start: usize) {
    let crc = crc32c(&out[start + 8..]);
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
}

/// Whether the record's checksum is correct.
pub(super) fn is_sound(record: &RecordView<'_>) -> bool {
    crc32c(&record.bytes()[8..]) == record.crc32c()
}

pub(super) fn segment_name(sequence: u64) -> String {
    format!("{sequence:016}.log")
}

pub(super) fn index_name(sequence: u64) -> String {
    format!("{sequence:016}.idx")
}

/// The name of a segment before it is complete.
pub(super) fn unfinished_name(sequence: u64) -> String {
    format!("{sequence:016}.new")
}

/// The number in a name with this ending.
pub(super) fn sequence_of(name: &str, ending: &str) -> Option<u64> {
    let digits = name.strip_suffix(ending)?;
    let is_number = digits.len() >= 16 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let sequence = digits.parse().ok().filter(|_| is_number)?;
    // Only the canonical form, with room for higher numbers.
    (format!("{sequence:016}") == digits && (1..u64::MAX / 2).contains(&sequence))
        .then_some(sequence)
}

/// An integer at an offset; 0 beyond the end.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(fixed_at(bytes, at))
}

/// An integer at an offset; 0 beyond the end.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(fixed_at(bytes, at))
}

/// An integer at an offset; 0 beyond the end.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(fixed_at(bytes, at))
}

fn fixed_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.copied().unwrap_or([0; N])
}
