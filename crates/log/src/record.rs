//! The record: the bytes of one publication in a segment, in memory and, with its checksum, on
//! disk.
//!
//! ```text
//!  0  length        u32  bytes of the whole record, this field included
//!   4  crc32c        u32  over bytes 8..length on disk; 0 in memory, where it is not computed
//!   8  offset        u64  offset in the partition
//! 16  prev          u64  the topic has no record between prev and offset
//! 24  time_ms       u64  milliseconds since 1970-01-01 UTC
//!  32  topic         u32  topic id, assigned by the home shard or by a segment on disk
//! 36  flags         u16  bit 0 retained, 1 compressed, 2 text, 3-4 QoS of MQTT, 5 declared text,
//!                        15 control; others 0
//! 38  fields_bytes  u16  bytes of the optional fields
//! 40  fields             any number of: kind u8, length u16, value
//!     payload            the rest
//! ```
//!
//! Little-endian, unaligned. Field kinds: 1 content type; 2 tag (key length u16, key, value),
//! repeated; 3 producer (sequence u64, id); 4 idempotency key; 5 to 7 in [`crate::FurtherFields`].
//! Readers skip unknown kinds. A record with the control bit is not a publication but belongs to
//! the durable store; readers here skip it.

use crate::further::{EXPIRY, ORIGIN, REPLY};
use crate::memory::MemoryRefused;
use std::fmt;

/// The size of a record before its optional fields.
pub const RECORD_HEADER_BYTES: usize = 40;
/// The maximum size of one record: its length is a `u32` and it must fit into a chunk with the
/// segment's header.
pub(crate) const RECORD_BYTES_MAX: usize = u32::MAX as usize - crate::SEGMENT_HEADER_BYTES;

const FIELD_HEADER_BYTES: usize = 3;
const CONTENT_TYPE: u8 = 1;
const TAG: u8 = 2;
const PRODUCER: u8 = 3;
const IDEMPOTENCY_KEY: u8 = 4;

/// Properties of a record, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// No flag.
    pub const NONE: Flags = Flags(0);
    /// Published with RETAIN, as the topic's latest message.
    pub const RETAINED: Flags = Flags(1 << 0);
    /// The payload was valid UTF-8 when it was published.
    pub const TEXT: Flags = Flags(1 << 2);
    /// The publisher of MQTT said that the payload is UTF-8.
    pub const PAYLOAD_FORMAT: Flags = Flags(1 << 5);
    /// A publication of MQTT has its QoS and one here; others have 0.
    const QOS_SHIFT: u16 = 3;
    const QOS_MASK: u16 = 3 << Flags::QOS_SHIFT;
    /// A control record of the log itself. Publications never have it.
    pub const CONTROL: Flags = Flags(1 << 15);

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// With the QoS of a publication of MQTT, 0 to 2.
    pub const fn with_qos(self, qos: u8) -> Flags {
        let place = if qos > 2 { 3 } else { qos as u16 + 1 };
        Flags(self.0 & !Flags::QOS_MASK | place << Flags::QOS_SHIFT)
    }

    /// The QoS of a publication of MQTT, 0 to 2; none of another.
    pub const fn qos(self) -> Option<u8> {
        match (self.0 & Flags::QOS_MASK) >> Flags::QOS_SHIFT {
            0 => None,
            place => Some(place as u8 - 1),
        }
    }

    /// The union of both.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flags({:#06x})", self.0)
    }
}

/// A producer, and its sequence number of the publication.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Producer<'a> {
    /// The producer's own id, arbitrary bytes.
    pub id: &'a [u8],
    /// Increases per producer; it may skip numbers.
    pub sequence: u64,
}

/// A publication to append. All fields are borrowed; `append` copies them once, into the segment.
#[derive(Clone, Copy, Default)]
pub struct NewRecord<'a> {
    /// Topic id.
    pub topic: u32,
    /// The topic has no record between this offset and the record; below the record's offset.
    pub prev: u64,
    /// Milliseconds since 1970-01-01 UTC.
    pub time_ms: u64,
    /// Flags; the control bit is cleared.
    pub flags: Flags,
    /// Media type of the payload.
    pub content_type: Option<&'a [u8]>,
    /// Tags as key and value, in order, repeated keys allowed.
    pub tags: &'a [(&'a [u8], &'a [u8])],
    /// Producer and sequence, if given.
    pub producer: Option<Producer<'a>>,
    /// Idempotency key, if given.
    pub idempotency_key: Option<&'a [u8]>,
    /// Further fields, encoded ([`crate::FurtherFields`]).
    pub further: &'a [u8],
    /// The message itself. The format allows close to 4 GiB; the caller has its own limit.
    pub payload: &'a [u8],
}

impl fmt::Debug for NewRecord<'_> {
    /// Omits payload and tags, so that they never reach a log file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.payload.len();
        write!(f, "NewRecord(topic {}, prev {}, {bytes} bytes)", self.topic, self.prev)
    }
}

impl NewRecord<'_> {
    /// Clears `head` and writes everything before the payload to it.
    ///
    /// # Errors
    /// The optional fields exceed 65,535 bytes together, or the record exceeds the format's bound.
    pub fn encode_head(&self, offset: u64, head: &mut Vec<u8>) -> Result<(), AppendError> {
        head.clear();
        head.resize(RECORD_HEADER_BYTES, 0);
        self.encode_fields(head).ok_or(AppendError::FieldsTooLong)?;
        let length = self.payload.len().saturating_add(head.len());
        if length > RECORD_BYTES_MAX {
            return Err(AppendError::RecordTooLong);
        }
        let fields_bytes = head.len() - RECORD_HEADER_BYTES;
        let header = self.encode_header(offset, length as u32, fields_bytes as u16);
        head[..RECORD_HEADER_BYTES].copy_from_slice(&header);
        Ok(())
    }

    /// Appends the optional fields. None if they exceed 65,535 bytes together.
    fn encode_fields(&self, fields: &mut Vec<u8>) -> Option<()> {
        if let Some(content_type) = self.content_type {
            put_field(fields, CONTENT_TYPE, &[content_type])?;
        }
        for (key, value) in self.tags {
            let key_len = u16::try_from(key.len()).ok()?.to_le_bytes();
            put_field(fields, TAG, &[&key_len, key, value])?;
        }
        if let Some(producer) = self.producer {
            put_field(fields, PRODUCER, &[&producer.sequence.to_le_bytes(), producer.id])?;
        }
        if let Some(key) = self.idempotency_key {
            put_field(fields, IDEMPOTENCY_KEY, &[key])?;
        }
        fields.extend_from_slice(self.further);
        let fields_bytes = fields.len().checked_sub(RECORD_HEADER_BYTES)?;
        u16::try_from(fields_bytes).ok().map(drop)
    }

    /// Writes the fixed part; `length` is that of the whole record.
    fn encode_header(
        &self,
        offset: u64,
        length: u32,
        fields_bytes: u16,
    ) -> [u8; RECORD_HEADER_BYTES] {
        let mut header = [0; RECORD_HEADER_BYTES];
        header[0..4].copy_from_slice(&length.to_le_bytes());
        header[8..16].copy_from_slice(&offset.to_le_bytes());
        header[16..24].copy_from_slice(&self.prev.to_le_bytes());
        header[24..32].copy_from_slice(&self.time_ms.to_le_bytes());
        header[32..36].copy_from_slice(&self.topic.to_le_bytes());
        let flags = self.flags.0 & !Flags::CONTROL.0;
        header[36..38].copy_from_slice(&flags.to_le_bytes());
        header[38..40].copy_from_slice(&fields_bytes.to_le_bytes());
        header
    }
}

fn put_field(fields: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) -> Option<()> {
    let len = parts.iter().try_fold(0usize, |sum, part| sum.checked_add(part.len()))?;
    let total = len
        .checked_add(fields.len())?
        .checked_add(FIELD_HEADER_BYTES)?
        .checked_sub(RECORD_HEADER_BYTES)?;
    let len = u16::try_from(len).ok().filter(|_| total <= u16::MAX as usize)?;
    fields.push(kind);
    fields.extend_from_slice(&len.to_le_bytes());
    parts.iter().for_each(|part| fields.extend_from_slice(part));
    Some(())
}

/// A record read in place. It exists only over a complete record, so accessors need no checks.
#[derive(Clone, Copy)]
pub struct RecordView<'a> {
    bytes: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// Parses the record at the start of `bytes`, which may be longer. None if `bytes` is truncated
    /// or its lengths are contradictory. Does not check the checksum.
    pub fn parse(bytes: &'a [u8]) -> Option<RecordView<'a>> {
        let length = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
        let record = RecordView { bytes: bytes.get(..length)? };
        let fits =
            length >= RECORD_HEADER_BYTES && RECORD_HEADER_BYTES + record.fields_bytes() <= length;
        fits.then_some(record)
    }

    /// All bytes of the record.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The fixed part with another topic id and without the checksum, which the change makes wrong.
    pub(crate) fn head_with_topic(&self, topic: u32) -> [u8; RECORD_HEADER_BYTES] {
        let mut head = self.fixed(0);
        head[4..8].fill(0);
        head[32..36].copy_from_slice(&topic.to_le_bytes());
        head
    }

    /// The record with another topic id and without the checksum, which the change makes wrong.
    pub fn with_topic(&self, topic: u32) -> Vec<u8> {
        let mut bytes = self.head_with_topic(topic).to_vec();
        bytes.extend_from_slice(&self.bytes[RECORD_HEADER_BYTES..]);
        bytes
    }

    /// The fixed part, with another offset and `prev` and without the checksum, which such a change
    /// makes wrong.
    pub fn head_at(&self, offset: u64, prev: u64) -> [u8; RECORD_HEADER_BYTES] {
        let mut head = self.fixed(0);
        head[4..8].fill(0);
        head[8..16].copy_from_slice(&offset.to_le_bytes());
        head[16..24].copy_from_slice(&prev.to_le_bytes());
        head
    }

    /// The record's offset in the partition.
    pub fn offset(&self) -> u64 {
        u64::from_le_bytes(self.fixed(8))
    }

    /// The topic has no record between this offset and the record's own.
    pub fn prev(&self) -> u64 {
        u64::from_le_bytes(self.fixed(16))
    }

    /// Milliseconds since 1970-01-01 UTC.
    pub fn time_ms(&self) -> u64 {
        u64::from_le_bytes(self.fixed(24))
    }

    /// Topic id.
    pub fn topic(&self) -> u32 {
        u32::from_le_bytes(self.fixed(32))
    }

    /// The flags, with unknown bits.
    pub fn flags(&self) -> Flags {
        Flags(u16::from_le_bytes(self.fixed(36)))
    }

    /// The checksum field: 0 in memory.
    pub fn crc32c(&self) -> u32 {
        u32::from_le_bytes(self.fixed(4))
    }

    /// The message itself.
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(self.payload_start()..).unwrap_or_default()
    }

    /// The start of the payload within the record's bytes, for a slice of the record's memory.
    pub fn payload_start(&self) -> usize {
        RECORD_HEADER_BYTES + self.fields_bytes()
    }

    /// The optional fields in order. Ends early at a truncated field.
    pub fn fields(&self) -> Fields<'a> {
        let end = self.payload_start();
        Fields { rest: self.bytes.get(RECORD_HEADER_BYTES..end).unwrap_or_default() }
    }

    /// Media type of the payload.
    pub fn content_type(&self) -> Option<&'a [u8]> {
        self.fields().find_map(|field| match field {
            Field::ContentType(value) => Some(value),
            _ => None,
        })
    }

    /// Tags as key and value, in the order of the publication.
    pub fn tags(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        self.fields().filter_map(|field| match field {
            Field::Tag(key, value) => Some((key, value)),
            _ => None,
        })
    }

    /// Producer and sequence.
    pub fn producer(&self) -> Option<Producer<'a>> {
        self.fields().find_map(|field| match field {
            Field::Producer(producer) => Some(producer),
            _ => None,
        })
    }

    /// Idempotency key.
    pub fn idempotency_key(&self) -> Option<&'a [u8]> {
        self.fields().find_map(|field| match field {
            Field::IdempotencyKey(key) => Some(key),
            _ => None,
        })
    }

    /// The time from which the message is of no use, in milliseconds since 1970.
    pub fn expires_ms(&self) -> Option<u64> {
        self.fields().find_map(|field| match field {
            Field::Expiry(expires_ms) => Some(expires_ms),
            _ => None,
        })
    }

    /// The topic for answers, and the data that they carry; either may be empty.
    pub fn reply(&self) -> Option<(&'a [u8], &'a [u8])> {
        self.fields().find_map(|field| match field {
            Field::Reply(topic, correlation) => Some((topic, correlation)),
            _ => None,
        })
    }

    /// The number that stands for the publisher.
    pub fn origin(&self) -> Option<u64> {
        self.fields().find_map(|field| match field {
            Field::Origin(origin) => Some(origin),
            _ => None,
        })
    }

    fn fields_bytes(&self) -> usize {
        usize::from(u16::from_le_bytes(self.fixed(38)))
    }

    fn fixed<const N: usize>(&self, at: usize) -> [u8; N] {
        // Zero for a truncated header; `parse` then refuses it.
        self.bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }
}

impl fmt::Debug for RecordView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (offset, topic) = (self.offset(), self.topic());
        write!(f, "Record(offset {offset}, topic {topic}, {} bytes)", self.bytes.len())
    }
}

/// One optional field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field<'a> {
    /// Media type of the payload.
    ContentType(&'a [u8]),
    /// Key and value.
    Tag(&'a [u8], &'a [u8]),
    /// Producer and sequence.
    Producer(Producer<'a>),
    /// Idempotency key.
    IdempotencyKey(&'a [u8]),
    /// The time from which the message is of no use, in milliseconds since 1970.
    Expiry(u64),
    /// The topic for answers, and the data that they carry.
    Reply(&'a [u8], &'a [u8]),
    /// The number that stands for the publisher.
    Origin(u64),
}

/// The known optional fields of a record in order; see [`RecordView::fields`].
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        loop {
            let ([kind, low, high], rest) = self.rest.split_first_chunk()?;
            let (value, rest) = rest.split_at_checked(u16::from_le_bytes([*low, *high]).into())?;
            self.rest = rest;
            match *kind {
                CONTENT_TYPE => return Some(Field::ContentType(value)),
                TAG => {
                    let (key_len, rest) = value.split_first_chunk()?;
                    let (key, value) =
                        rest.split_at_checked(u16::from_le_bytes(*key_len).into())?;
                    return Some(Field::Tag(key, value));
                }
                PRODUCER => {
                    let (sequence, id) = value.split_first_chunk()?;
                    let sequence = u64::from_le_bytes(*sequence);
                    return Some(Field::Producer(Producer { id, sequence }));
                }
                IDEMPOTENCY_KEY => return Some(Field::IdempotencyKey(value)),
                EXPIRY => return Some(Field::Expiry(number(value)?)),
                REPLY => {
                    let (length, rest) = value.split_first_chunk()?;
                    let (topic, correlation) =
                        rest.split_at_checked(u16::from_le_bytes(*length).into())?;
                    return Some(Field::Reply(topic, correlation));
                }
                ORIGIN => return Some(Field::Origin(number(value)?)),
                _ => {} // a field of a later version
            }
        }
    }
}

fn number(value: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(value.try_into().ok()?))
}

/// The reason why a record was not appended; the partition is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppendError {
    /// The offset is below the next one, or is 2^64 - 1, which is never used.
    Offset {
        /// The lowest valid offset.
        next_offset: u64,
    },
    /// `prev` is not below the record's offset.
    Prev,
    /// The optional fields exceed 65,535 bytes together.
    FieldsTooLong,
    /// The record does not fit into any segment (close to 4 GiB).
    RecordTooLong,
    /// There is no memory for another segment: evict, or refuse the publication.
    Memory(MemoryRefused),
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AppendError::Offset { next_offset } => {
                write!(f, "the offset is not in {next_offset}..{}", u64::MAX)
            }
            AppendError::Prev => write!(f, "prev is not below the record's offset"),
            AppendError::FieldsTooLong => write!(f, "the optional fields exceed 65535 bytes"),
            AppendError::RecordTooLong => write!(f, "the record exceeds {RECORD_BYTES_MAX} bytes"),
            AppendError::Memory(refused) => refused.fmt(f),
        }
    }
}

impl std::error::Error for AppendError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(record: &NewRecord<'_>, offset: u64) -> Vec<u8> {
        let mut head = Vec::new();
        record.encode_head(offset, &mut head).unwrap();
        [&head, record.payload].concat()
    }

    const FULL: NewRecord<'static> = NewRecord {
        topic: 0x0a0b_0c0d,
        prev: 6,
        time_ms: 1_700_000_000_123,
        flags: Flags::RETAINED,
        content_type: Some(b"text/plain"),
        tags: &[(b"k", b"v"), (b"", b""), (b"k", b"w")],
        producer: Some(Producer { id: b"p1", sequence: 9 }),
        idempotency_key: Some(b"once"),
        further: b"",
        payload: b"hello",
    };

    /// The layout in the documentation, byte for byte.
    #[test]
    fn the_layout_is_as_documented() {
        let record = NewRecord { content_type: Some(b"ab"), tags: &[(b"k", b"v")], ..FULL };
        let record = NewRecord { idempotency_key: None, payload: b"!", ..record };
        let expected: &[u8] = &[
            0x41, 0, 0, 0, 0, 0, 0, 0, // length 65, no checksum
            7, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, // offset, prev
            0x7b, 0x68, 0xe5, 0xcf, 0x8b, 1, 0, 0, // time
            0x0d, 0x0c, 0x0b, 0x0a, 1, 0, 24, 0, // topic, flags, bytes of fields
            1, 2, 0, b'a', b'b', // content type
            2, 4, 0, 1, 0, b'k', b'v', // tag
            3, 10, 0, 9, 0, 0, 0, 0, 0, 0, 0, b'p', b'1', // producer
            b'!',
        ];
        let fields: usize = 5 + 7 + 13;
        let mut expected = expected.to_vec();
        (expected[0], expected[38]) = ((40 + fields + 1) as u8, fields as u8);
        assert_eq!(encode(&record, 7), expected);
    }

    #[test]
    fn records_survive_encoding() {
        let bytes = encode(&FULL, 7);
        let view = RecordView::parse(&bytes).unwrap();
        assert_eq!((view.offset(), view.prev(), view.time_ms()), (7, 6, 1_700_000_000_123));
        assert_eq!((view.topic(), view.flags(), view.crc32c()), (0x0a0b_0c0d, Flags::RETAINED, 0));
        assert_eq!((view.content_type(), view.payload()), (FULL.content_type, FULL.payload));
        assert!(view.tags().eq(FULL.tags.iter().copied()));
        assert_eq!(
            (view.producer(), view.idempotency_key()),
            (FULL.producer, FULL.idempotency_key)
        );
        assert_eq!(&bytes[view.payload_start()..], FULL.payload);

        let plain = NewRecord { payload: b"", ..NewRecord::default() };
        let bytes = encode(&plain, 1);
        let view = RecordView::parse(&bytes).unwrap();
        assert_eq!((bytes.len(), view.fields().count(), view.payload()), (40, 0, &b""[..]));
        assert!(view.content_type().is_none() && view.producer().is_none());
    }

    #[test]
    fn truncated_or_contradictory_records_are_refused() {
        let bytes = encode(&FULL, 7);
        assert!((0..bytes.len()).all(|len| RecordView::parse(&bytes[..len]).is_none()));
        let longer = [&bytes[..], b"next"].concat();
        assert_eq!(RecordView::parse(&longer).unwrap().bytes(), bytes);
        for (place, value) in [(0, 39), (0, 0), (3, 0xff), (39, 0xff)] {
            let mut bytes = bytes.clone();
            bytes[place] = value;
            assert!(RecordView::parse(&bytes).is_none(), "byte {place} = {value}");
        }
    }

    /// Accessors never panic, for any bytes.
    #[test]
    fn damaged_fields_end_early() {
        let bytes = encode(&FULL, 7);
        for place in RECORD_HEADER_BYTES..bytes.len() {
            for value in [0, 1, 2, 3, 0x7f, 0xff] {
                let mut bytes = bytes.clone();
                bytes[place] = value;
                let view = RecordView::parse(&bytes).unwrap();
                assert!(view.fields().count() <= 6);
                view.producer();
            }
        }
    }

    #[test]
    fn unknown_fields_are_skipped() {
        let mut bytes = encode(&NewRecord { idempotency_key: Some(b"once"), ..FULL }, 7);
        bytes[RECORD_HEADER_BYTES] = 200; // the content type becomes unknown
        let view = RecordView::parse(&bytes).unwrap();
        assert_eq!((view.content_type(), view.idempotency_key()), (None, Some(&b"once"[..])));
    }

    #[test]
    fn optional_fields_are_bounded() {
        fn check(content_type: usize, value: usize, fits: bool) {
            let (content_type, value) = (vec![1; content_type], vec![2; value]);
            let tags: &[(&[u8], &[u8])] = &[(b"k", &value)];
            let record =
                NewRecord { content_type: Some(&content_type), tags, ..NewRecord::default() };
            let encoded = record.encode_head(1, &mut Vec::new());
            let expected = if fits { Ok(()) } else { Err(AppendError::FieldsTooLong) };
            assert_eq!(encoded, expected);
        }
        check(10, 10, true);
        check(65_535 - 3 - 6 - 10, 10, true);
        check(65_535 - 3 - 6 - 10, 11, false);
        check(70_000, 0, false);
        check(0, 70_000, false);
    }

    #[test]
    fn publications_never_have_the_control_bit() {
        let record = NewRecord { flags: Flags::CONTROL.with(Flags::TEXT), ..FULL };
        let bytes = encode(&record, 7);
        assert_eq!(RecordView::parse(&bytes).unwrap().flags(), Flags::TEXT);
    }
}
