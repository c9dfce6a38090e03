//! Messages as records of the engine, and back: pure functions.
//!
//! The key is the topic without the log's prefix, the value the payload untouched. Headers:
//! `content-type`; `ce_*` and `crore.tag.*` are tags, and others only if the log lists them, so
//! that internal headers do not reach browsers. `crore.n` names a publication of a node (run and
//! counter), `crore.p` its producer (connection, sequence, id), `crore.k` is its idempotency key.
//! `crore.r` says that the record repeats a retained message for other nodes only (epoch, offset,
//! time, offset up to which the node had read). `crore.g` marks a node's record of its groups: no
//! message, with its whole name as the key, and in any partition. Numbers have 8 bytes, the lowest
//! first.
//!
//! An empty message that removes its topic's retained message has no value: compaction removes its
//! key. So a record of another producer without a value removes it, too, and is an empty message.
//!
//! A log may give records without a key a topic, and remove the five bytes that the clients of a
//! schema registry write before the payload: a zero, and the schema's number.
//!
//! Any producer may write any bytes. A record that is not a message of this partition is
//! [`Unroutable`], never half of a message.

use broker::engine::{EnginePublish, Restored, RunName, TailRecord};
use broker::mail::{
    Code, IDEMPOTENCY_KEY_BYTES_MAX, PRODUCER_ID_BYTES_MAX, ProducerStamp, Publication,
    are_further_fields,
};
use broker::topic::TopicName;
use std::ffi::{CStr, CString};
use stdx::chunk::{ChunkWriter, Slice};
use stdx::hash::Partitioner;
use wire::native::{Attributes, Tag};

/// A record of a partition, as it was read.
#[derive(Clone, Copy, Debug)]
pub struct RawRecord<'a> {
    /// The engine's offset.
    pub offset: u64,
    /// The leader epoch.
    pub lineage: u32,
    /// The time at which the engine took it, in milliseconds since 1970.
    pub time_ms: u64,
    /// The key; none without one.
    pub key: Option<&'a [u8]>,
    /// The value; none for a tombstone.
    pub value: Option<&'a [u8]>,
    /// Names and values.
    pub headers: &'a [(&'a [u8], &'a [u8])],
}

/// The reason that makes a record unroutable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unroutable {
    /// It has no key, so no topic.
    NoKey,
    /// Prefix and key are no topic.
    InvalidTopic,
    /// The payload, or the tags, or the content type are too long.
    TooLong,
    /// The key belongs into another partition.
    WrongPartition,
    /// A header that belongs to Crore has no valid value.
    InvalidHeader,
    /// It does not begin with the number of a schema, in a log that removes such numbers.
    NoSchemaId,
}

/// The reading of other producers' records.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Foreign {
    /// Names of headers that become tags, beside `ce_*` and `crore.tag.*`.
    pub tag_headers: Vec<Box<str>>,
    /// The topic of records without a key, with the log's prefix; only in a log of one partition.
    /// None: they are unroutable.
    pub null_key_topic: Option<Box<str>>,
    /// Values begin with a zero and the four bytes of a schema's number, which are removed.
    pub strips_schema_id: bool,
}

/// The common properties of a log's messages.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// The first bytes of all topics.
    pub topic_prefix: Box<str>,
    /// The producers' choice of a partition.
    pub partitioner: Partitioner,
    /// The number of partitions.
    pub partitions_count: u32,
    /// Records of other producers.
    pub foreign: Foreign,
    /// Longest payload, in bytes.
    pub payload_bytes_max: usize,
    /// The topic is compacted: records may be retained messages once more.
    pub is_compacted: bool,
}

/// A record to send.
#[derive(Debug)]
pub struct OutRecord<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value; none for a tombstone.
    pub value: Option<&'a [u8]>,
    /// Names and values of the headers.
    pub headers: Vec<(CString, Vec<u8>)>,
}

/// Longest attributes of a message, in bytes, as for messages of clients.
const ATTRIBUTES_BYTES_MAX: usize = 16 << 10;

/// Longest record of a node's groups, in bytes.
const REGISTER_BYTES_MAX: usize = 1 << 20;

const CONTENT_TYPE: &CStr = c"content-type";
const TAG_PREFIX: &str = "crore.tag.";
const EVENT_PREFIX: &str = "ce_";
const NAME: &CStr = c"crore.n";
const PRODUCER: &CStr = c"crore.p";
const KEY: &CStr = c"crore.k";
const RESTORED: &CStr = c"crore.r";
const REGISTER: &CStr = c"crore.g";
/// Properties that only MQTT has: a byte with the QoS and one (bits 0 and 1) and the declaration of
/// a text (bit 2), then further fields as a record has them.
const MQTT: &CStr = c"crore.m";

impl Mapping {
    /// The record of a publication.
    ///
    /// # Errors
    /// The topic lacks the log's prefix, or a tag cannot be the name of a header.
    pub fn to_record<'a>(&self, publish: &'a EnginePublish) -> Result<OutRecord<'a>, Code> {
        let Publication { topic, attributes, payload, producer, idempotency_key, .. } =
            &publish.publication;
        if publish.is_register {
            let name = pair(publish.name.run, publish.name.counter);
            let headers = vec![(NAME.to_owned(), name), (REGISTER.to_owned(), Vec::new())];
            return Ok(OutRecord { key: topic, value: Some(payload), headers });
        }
        let key = topic.strip_prefix(self.topic_prefix.as_bytes()).ok_or(Code::Internal)?;
        if key.is_empty() {
            return Err(Code::MalformedTopic);
        }
        let mut headers = vec![(NAME.to_owned(), pair(publish.name.run, publish.name.counter))];
        let attributes =
            Attributes::decode_block(attributes).map_err(|_| Code::MalformedParameter)?;
        if let Some(content_type) = attributes.content_type {
            headers.push((CONTENT_TYPE.to_owned(), content_type.as_bytes().to_vec()));
        }
        for tag in attributes.tags.iter() {
            let is_event = tag.key.starts_with(EVENT_PREFIX);
            let prefix = if is_event { "" } else { TAG_PREFIX };
            let name = CString::new(format!("{prefix}{}", tag.key));
            let name = name.map_err(|_| Code::MalformedParameter)?;
            headers.push((name, tag.value.as_bytes().to_vec()));
        }
        if let Some(producer) = producer {
            let mut value = pair(producer.connection, producer.sequence);
            value.extend_from_slice(&producer.id);
            headers.push((PRODUCER.to_owned(), value));
        }
        if !idempotency_key.is_empty() {
            headers.push((KEY.to_owned(), idempotency_key.to_vec()));
        }
        headers.extend(of_mqtt(&publish.publication).map(|value| (MQTT.to_owned(), value)));
        if let Some(restored) = &publish.restored {
            let Restored { epoch, offset, time_ms, seen } = **restored;
            let value = [pair(epoch, offset), pair(time_ms, seen)].concat();
            headers.push((RESTORED.to_owned(), value));
        }
        let is_tombstone = publish.publication.retain && payload.is_empty();
        Ok(OutRecord { key, value: (!is_tombstone).then_some(payload), headers })
    }

    /// The message in a record of the partition at this place of the log.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn to_message(
        &self,
        place: u32,
        record: &RawRecord<'_>,
        memory: &mut Memory,
    ) -> Result<TailRecord, Unroutable> {
        let null_key_topic = self.foreign.null_key_topic.as_deref();
        let (prefix, key) = match (record.key, null_key_topic) {
            (Some(key), _) => (self.topic_prefix.as_bytes(), key),
            (None, Some(topic)) => (&[][..], topic.as_bytes()),
            (None, None) => return Err(Unroutable::NoKey),
        };
        let headers = self.read_headers(record.headers)?;
        if headers.is_register {
            return register(record, headers.name, memory);
        }
        let payload = match record.value {
            Some(value) if self.foreign.strips_schema_id && headers.name.is_none() => {
                without_schema_id(value)?
            }
            value => value.unwrap_or_default(),
        };
        if payload.len() > self.payload_bytes_max {
            return Err(Unroutable::TooLong);
        }
        let topic = memory.copy(&[prefix, key]);
        let text = str::from_utf8(&topic).map_err(|_| Unroutable::InvalidTopic)?;
        TopicName::parse(text).map_err(|_| Unroutable::InvalidTopic)?;
        // Names with `$` are the nodes' own.
        if key.is_empty() || text.starts_with('$') && headers.name.is_none() {
            return Err(Unroutable::InvalidTopic);
        }
        let is_keyed = record.key.is_some();
        if is_keyed && self.partitioner.partition_of(key, self.partitions_count) != place {
            return Err(Unroutable::WrongPartition);
        }
        let publication = Publication {
            topic,
            attributes: headers.attributes(memory)?,
            payload: memory.copy(&[payload]),
            retain: record.value.is_none(),
            producer: headers.producer.map(|(connection, sequence, id)| ProducerStamp {
                id: memory.copy(&[id]),
                sequence,
                connection,
            }),
            idempotency_key: memory.copy(&[headers.key]),
            expected_epoch: None,
            qos: headers.qos(),
            is_said_text: headers.mqtt.first().is_some_and(|first| first & DECLARED_TEXT != 0),
            further: memory.copy(&[headers.mqtt.get(1..).unwrap_or_default()]),
        };
        Ok(TailRecord {
            offset: record.offset.saturating_add(1),
            lineage: record.lineage,
            time_ms: record.time_ms,
            name: headers.name,
            publication,
            restored: headers.restored.map(Box::new),
            is_register: false,
        })
    }

    fn read_headers<'a>(
        &self,
        headers: &[(&'a [u8], &'a [u8])],
    ) -> Result<Headers<'a>, Unroutable> {
        let mut read = Headers::default();
        for &(name, value) in headers {
            if name == NAME.to_bytes() {
                let (run, counter, rest) = numbers(value).ok_or(Unroutable::InvalidHeader)?;
                if !rest.is_empty() {
                    return Err(Unroutable::InvalidHeader);
                }
                read.name = Some(RunName { run, counter });
            } else if name == PRODUCER.to_bytes() {
                let (connection, sequence, id) = numbers(value).ok_or(Unroutable::InvalidHeader)?;
                if id.is_empty() || id.len() > PRODUCER_ID_BYTES_MAX {
                    return Err(Unroutable::InvalidHeader);
                }
                read.producer = Some((connection, sequence, id));
            } else if name == KEY.to_bytes() {
                if value.is_empty() || value.len() > IDEMPOTENCY_KEY_BYTES_MAX {
                    return Err(Unroutable::InvalidHeader);
                }
                read.key = value;
            } else if name == RESTORED.to_bytes() {
                read.restored = Some(restored(value).ok_or(Unroutable::InvalidHeader)?);
            } else if name == REGISTER.to_bytes() {
                read.is_register = true;
            } else if name == MQTT.to_bytes() {
                let is_valid = value.first().is_some_and(|first| *first < 8);
                let further = value.get(1..).unwrap_or_default();
                if !is_valid || !are_further_fields(further) {
                    return Err(Unroutable::InvalidHeader);
                }
                read.mqtt = value;
            } else {
                self.read_attribute(name, value, &mut read);
            }
        }
        // Only a node writes it, and only where messages are retained.
        let is_restored = read.restored.is_some();
        if is_restored && !self.is_compacted
            || read.name.is_none() && (is_restored || read.is_register)
        {
            return Err(Unroutable::InvalidHeader);
        }
        Ok(read)
    }

    /// Reads a header that may be a tag or the content type; others are left out, as are values
    /// that are no text.
    fn read_attribute<'a>(&self, name: &'a [u8], value: &'a [u8], read: &mut Headers<'a>) {
        let (Ok(name), Ok(value)) = (str::from_utf8(name), str::from_utf8(value)) else { return };
        // It could not be written back.
        if name.contains('\0') {
            return;
        }
        if name.as_bytes() == CONTENT_TYPE.to_bytes() {
            read.content_type = read.content_type.or(Some(value));
        } else if let Some(key) = name.strip_prefix(TAG_PREFIX) {
            read.tags.push(Tag { key, value });
        } else if name.starts_with(EVENT_PREFIX)
            || self.foreign.tag_headers.iter().any(|listed| **listed == *name)
        {
            read.tags.push(Tag { key: name, value });
        }
    }
}

/// The content of a record's headers.
#[derive(Default)]
struct Headers<'a> {
    content_type: Option<&'a str>,
    tags: Vec<Tag<'a>>,
    name: Option<RunName>,
    producer: Option<(u64, u64, &'a [u8])>,
    key: &'a [u8],
    restored: Option<Restored>,
    is_register: bool,
    mqtt: &'a [u8],
}

/// A node's record of its groups.
fn register(
    record: &RawRecord<'_>,
    name: Option<RunName>,
    memory: &mut Memory,
) -> Result<TailRecord, Unroutable> {
    let (topic, value) = (record.key.unwrap_or_default(), record.value.unwrap_or_default());
    if value.len() > REGISTER_BYTES_MAX {
        return Err(Unroutable::TooLong);
    }
    let (topic, payload) = (memory.copy(&[topic]), memory.copy(&[value]));
    Ok(TailRecord {
        offset: record.offset.saturating_add(1),
        lineage: record.lineage,
        time_ms: record.time_ms,
        name,
        publication: Publication { topic, payload, ..Publication::default() },
        restored: None,
        is_register: true,
    })
}

/// The bit of [`MQTT`] for a payload that its publisher declares a text.
const DECLARED_TEXT: u8 = 1 << 2;

/// The value of [`MQTT`]; none for a publication of another protocol.
fn of_mqtt(publication: &Publication) -> Option<Vec<u8>> {
    let Publication { qos, is_said_text, further, .. } = publication;
    if qos.is_none() && !is_said_text && further.is_empty() {
        return None;
    }
    let text = if *is_said_text { DECLARED_TEXT } else { 0 };
    let mut value = vec![qos.map_or(0, |qos| qos.min(2) + 1) | text];
    value.extend_from_slice(further);
    Some(value)
}

impl Headers<'_> {
    /// The QoS of a publication of MQTT.
    fn qos(&self) -> Option<u8> {
        (self.mqtt.first()? & 3).checked_sub(1)
    }

    fn attributes(&self, memory: &mut Memory) -> Result<Slice, Unroutable> {
        let attributes =
            Attributes { content_type: self.content_type, tags: self.tags.as_slice().into() };
        if attributes.is_empty() {
            return Ok(Slice::default());
        }
        let mut block = Vec::new();
        attributes.encode_block(&mut block);
        if block.len() > ATTRIBUTES_BYTES_MAX {
            return Err(Unroutable::TooLong);
        }
        // A client gets only attributes that a client could have sent.
        if Attributes::decode_block(&block).is_err() {
            return Err(Unroutable::InvalidHeader);
        }
        Ok(memory.copy(&[&block]))
    }
}

/// The payload behind the number of its schema.
fn without_schema_id(value: &[u8]) -> Result<&[u8], Unroutable> {
    match value {
        [0, _, _, _, _, payload @ ..] => Ok(payload),
        _ => Err(Unroutable::NoSchemaId),
    }
}

/// Two numbers in 16 bytes.
fn pair(first: u64, second: u64) -> Vec<u8> {
    [first.to_le_bytes(), second.to_le_bytes()].concat()
}

/// The origin of a retained message.
fn restored(bytes: &[u8]) -> Option<Restored> {
    let (epoch, offset, rest) = numbers(bytes)?;
    let (time_ms, seen, rest) = numbers(rest)?;
    rest.is_empty().then_some(Restored { epoch, offset, time_ms, seen })
}

/// Two numbers, and the bytes behind them.
fn numbers(bytes: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (first, rest) = bytes.split_first_chunk::<8>()?;
    let (second, rest) = rest.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*first), u64::from_le_bytes(*second), rest))
}

/// Memory for many small slices, a chunk at a time.
#[derive(Debug)]
pub struct Memory {
    chunk: ChunkWriter,
}

/// Size of a chunk, in bytes. A slice keeps its chunk alive.
const CHUNK_BYTES: usize = 64 << 10;

impl Memory {
    /// Copies the parts, one after the other.
    fn copy(&mut self, parts: &[&[u8]]) -> Slice {
        if let Some(slice) = self.chunk.append(parts) {
            return slice;
        }
        let total: usize = parts.iter().map(|part| part.len()).sum();
        if total > CHUNK_BYTES / 4 {
            return Slice::concatenation_of(parts);
        }
        self.chunk = ChunkWriter::heap(CHUNK_BYTES);
        self.chunk.append(parts).unwrap_or_default()
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { chunk: ChunkWriter::heap(CHUNK_BYTES) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use broker::mail::PartitionId;

    fn mapping() -> Mapping {
        Mapping {
            topic_prefix: "orders/".into(),
            partitioner: Partitioner::Murmur2,
            partitions_count: 1,
            foreign: Foreign { tag_headers: vec!["trace".into()], ..Foreign::default() },
            payload_bytes_max: 100,
            is_compacted: true,
        }
    }

    fn raw<'a>(key: Option<&'a [u8]>, headers: &'a [(&'a [u8], &'a [u8])]) -> RawRecord<'a> {
        RawRecord { offset: 6, lineage: 3, time_ms: 9, key, value: Some(b"hello"), headers }
    }

    fn read(record: &RawRecord<'_>) -> Result<TailRecord, Unroutable> {
        mapping().to_message(0, record, &mut Memory::default())
    }

    fn publication() -> Publication {
        let mut block = Vec::new();
        let tags = [Tag { key: "ce_id", value: "7" }, Tag { key: "unit", value: "kg" }];
        Attributes { content_type: Some("text/plain"), tags: tags.as_slice().into() }
            .encode_block(&mut block);
        Publication {
            topic: Slice::copy_of(b"orders/42"),
            attributes: Slice::copy_of(&block),
            payload: Slice::copy_of(b"hello"),
            retain: false,
            producer: Some(ProducerStamp {
                id: Slice::copy_of(b"till"),
                sequence: 5,
                connection: 1_700_000_000_000,
            }),
            idempotency_key: Slice::copy_of(b"once"),
            expected_epoch: None,
            qos: Some(2),
            is_said_text: true,
            further: Slice::copy_of(&[5, 8, 0, 7, 0, 0, 0, 0, 0, 0, 0]),
        }
    }

    /// It lies in any partition, and only nodes write it.
    #[test]
    fn a_record_of_groups_is_no_message() {
        let name = RunName { run: 8, counter: 9 };
        let publication = Publication {
            topic: Slice::copy_of(b"$groups/n1"),
            payload: Slice::copy_of(b"any bytes"),
            ..Publication::default()
        };
        let partition = PartitionId(0);
        let sent =
            EnginePublish { partition, name, publication, restored: None, is_register: true };
        let mapping = Mapping { partitions_count: 8, ..mapping() };
        let record = mapping.to_record(&sent).expect("a record");
        assert_eq!(record.key, b"$groups/n1");
        let headers: Vec<(&[u8], &[u8])> =
            record.headers.iter().map(|(name, value)| (name.to_bytes(), &value[..])).collect();
        for place in 0..8 {
            let raw = RawRecord { value: record.value, ..raw(Some(record.key), &headers) };
            let back = mapping.to_message(place, &raw, &mut Memory::default()).expect("a record");
            assert!(back.is_register);
            assert_eq!((back.name, &*back.publication.payload), (Some(name), &b"any bytes"[..]));
        }
        assert_eq!(
            read(&raw(Some(record.key), &headers[1..])).err(),
            Some(Unroutable::InvalidHeader)
        );
    }

    #[test]
    fn a_publication_comes_back_from_its_record() {
        let name = RunName { run: 8, counter: 9 };
        let sent = EnginePublish {
            partition: PartitionId(0),
            name,
            publication: publication(),
            restored: None,
            is_register: false,
        };
        let mapping = mapping();
        let record = mapping.to_record(&sent).expect("a record");
        let headers: Vec<(&[u8], &[u8])> =
            record.headers.iter().map(|(name, value)| (name.to_bytes(), &value[..])).collect();
        let names: Vec<&[u8]> = headers.iter().map(|(name, _)| *name).collect();
        let expected: [&[u8]; 7] = [
            b"crore.n",
            b"content-type",
            b"ce_id",
            b"crore.tag.unit",
            b"crore.p",
            b"crore.k",
            b"crore.m",
        ];
        assert_eq!(names, expected);
        assert_eq!((record.key, record.value), (&b"42"[..], Some(&b"hello"[..])));
        let back = read(&raw(Some(record.key), &headers)).expect("a message");
        assert_eq!((back.offset, back.lineage, back.time_ms), (7, 3, 9));
        assert_eq!(back.name, Some(name));
        assert_eq!(format!("{:?}", back.publication), format!("{:?}", sent.publication));
    }

    #[test]
    fn a_record_of_another_producer_is_a_message() {
        let headers: [(&[u8], &[u8]); 4] = [
            (b"content-type", b"application/json"),
            (b"trace", b"t1"),
            (b"internal", b"secret"),
            (b"ce_type", b"\xff"),
        ];
        let message = read(&raw(Some(b"a"), &headers)).expect("a message");
        let Publication { topic, attributes, producer, idempotency_key, .. } = message.publication;
        assert_eq!(&*topic, b"orders/a");
        let attributes = Attributes::decode_block(&attributes).expect("attributes");
        assert_eq!(attributes.content_type, Some("application/json"));
        let tags: Vec<_> = attributes.tags.iter().collect();
        assert_eq!(tags, [Tag { key: "trace", value: "t1" }]);
        assert!(message.name.is_none() && producer.is_none() && idempotency_key.is_empty());
        let tombstone = RawRecord { value: None, ..raw(Some(b"a"), &[]) };
        let Publication { payload, retain, .. } = read(&tombstone).expect("a message").publication;
        assert!(payload.is_empty() && retain);
        let empty = RawRecord { value: Some(b""), ..raw(Some(b"a"), &[]) };
        assert!(!read(&empty).expect("a message").publication.retain);
    }

    /// A removal of a retained message has no value, and an empty message has one.
    #[test]
    fn a_removal_is_a_tombstone() {
        let name = RunName { run: 8, counter: 9 };
        let is_tombstone = |retain, payload: &[u8]| {
            let payload = Slice::copy_of(payload);
            let publication = Publication { retain, payload, ..publication() };
            let partition = PartitionId(0);
            let sent =
                EnginePublish { partition, name, publication, restored: None, is_register: false };
            mapping().to_record(&sent).expect("a record").value.is_none()
        };
        assert!(is_tombstone(true, b""));
        assert!(!is_tombstone(false, b"") && !is_tombstone(true, b"a"));
    }

    /// A retained message once more, or the removal of one, comes back from its record. A record of
    /// another producer with the same header is unroutable, as is one where nothing is retained.
    #[test]
    fn a_restoration_comes_back_from_its_record() {
        let name = RunName { run: 8, counter: 9 };
        let restored = Restored { epoch: 7, offset: u64::MAX, time_ms: 3, seen: 4 };
        let topic = Slice::copy_of(b"orders/42");
        let publication = Publication { topic, retain: true, ..Publication::default() };
        let partition = PartitionId(0);
        let boxed = Some(Box::new(restored));
        let restored = boxed.clone();
        let sent = EnginePublish { partition, name, publication, restored, is_register: false };
        let (mapping, mut memory) = (mapping(), Memory::default());
        let record = mapping.to_record(&sent).expect("a record");
        let headers: Vec<(&[u8], &[u8])> =
            record.headers.iter().map(|(name, value)| (name.to_bytes(), &value[..])).collect();
        assert_eq!(
            headers.last().map(|(name, value)| (*name, value.len())),
            Some((&b"crore.r"[..], 32))
        );
        let back = RawRecord { value: record.value, ..raw(Some(record.key), &headers) };
        let message = mapping.to_message(0, &back, &mut memory).expect("a restoration");
        assert_eq!((message.name, &message.restored), (Some(name), &boxed));
        assert!(message.publication.retain && message.publication.payload.is_empty());
        let elsewhere = Mapping { is_compacted: false, ..mapping.clone() };
        let reason = elsewhere.to_message(0, &back, &mut memory).map(|it| it.offset);
        assert_eq!(reason, Err(Unroutable::InvalidHeader));
        let foreign = raw(Some(record.key), &headers[1..]);
        let reason = mapping.to_message(0, &foreign, &mut memory).map(|it| it.offset);
        assert_eq!(reason, Err(Unroutable::InvalidHeader));
    }

    #[test]
    fn a_record_without_a_key_has_the_topic_of_the_log() {
        let null_key_topic = Some("orders/all".into());
        let foreign = Foreign { null_key_topic, ..Foreign::default() };
        let mapping = Mapping { foreign, ..mapping() };
        let topic = |record| {
            let message = mapping.to_message(0, &record, &mut Memory::default());
            message.expect("a message").publication.topic
        };
        assert_eq!(&*topic(raw(None, &[])), b"orders/all");
        assert_eq!(&*topic(raw(Some(b"a"), &[])), b"orders/a");
    }

    #[test]
    fn the_number_of_a_schema_is_removed_from_other_producers_records() {
        let foreign = Foreign { strips_schema_id: true, ..Foreign::default() };
        let mapping = Mapping { foreign, ..mapping() };
        let payload = |record| {
            let message = mapping.to_message(0, &record, &mut Memory::default());
            message.map(|message| message.publication.payload.to_vec())
        };
        let value = |value| RawRecord { value, ..raw(Some(b"a"), &[]) };
        assert_eq!(payload(value(Some(b"\0\0\0\x01\x02{}"))), Ok(b"{}".to_vec()));
        assert_eq!(payload(value(Some(b"\0\0\0\x01\x02"))), Ok(Vec::new()));
        assert_eq!(payload(value(None)), Ok(Vec::new()));
        for other in [&b""[..], b"{}", b"\0\0\0\x01", b"\x01\0\0\0\x01{}"] {
            assert_eq!(payload(value(Some(other))), Err(Unroutable::NoSchemaId));
        }
        let own = [(&b"crore.n"[..], &[0; 16][..])];
        assert_eq!(payload(raw(Some(b"a"), &own)), Ok(b"hello".to_vec()));
    }

    #[test]
    fn other_records_are_unroutable() {
        let check = |record: RawRecord<'_>, reason| {
            assert_eq!(read(&record).map(|it| it.offset), Err(reason), "{record:?}");
        };
        check(raw(None, &[]), Unroutable::NoKey);
        check(raw(Some(b""), &[]), Unroutable::InvalidTopic);
        check(raw(Some(b"a/+"), &[]), Unroutable::InvalidTopic);
        check(raw(Some(b"\xff"), &[]), Unroutable::InvalidTopic);
        check(raw(Some(&[b'x'; 300]), &[]), Unroutable::InvalidTopic);
        check(RawRecord { value: Some(&[0; 101]), ..raw(Some(b"a"), &[]) }, Unroutable::TooLong);
        check(raw(Some(b"a"), &[(b"ce_x", &[b'x'; 20_000])]), Unroutable::TooLong);
        check(raw(Some(b"a"), &[(b"crore.n", &[0; 15])]), Unroutable::InvalidHeader);
        check(raw(Some(b"a"), &[(b"crore.n", &[0; 17])]), Unroutable::InvalidHeader);
        check(raw(Some(b"a"), &[(b"crore.p", &[0; 16])]), Unroutable::InvalidHeader);
        check(raw(Some(b"a"), &[(b"crore.k", b"")]), Unroutable::InvalidHeader);
        check(raw(Some(b"a"), &[(b"crore.r", &[0; 31])]), Unroutable::InvalidHeader);
        check(raw(Some(b"a"), &[(b"crore.r", &[0; 33])]), Unroutable::InvalidHeader);
        let many = Mapping { partitions_count: 16, ..mapping() };
        let place = many.partitioner.partition_of(b"a", 16);
        let read = |place| many.to_message(place, &raw(Some(b"a"), &[]), &mut Memory::default());
        assert!(read(place).is_ok());
        assert_eq!(read(place ^ 1).map(|it| it.offset), Err(Unroutable::WrongPartition));
        let own = Mapping { topic_prefix: "".into(), ..mapping() };
        let own = own.to_message(0, &raw(Some(b"$sys/a"), &[]), &mut Memory::default());
        assert_eq!(own.map(|it| it.offset), Err(Unroutable::InvalidTopic));
    }
}
