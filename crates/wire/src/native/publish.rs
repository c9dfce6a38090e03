//! PUBLISH: a message with its attributes, and the identity that makes a repeat recognizable.
//!
//! Invalid options of a publication affect only that publication: the connection stays open.

use super::attributes::Attributes;
use super::client_frame::bit;
use super::options::{Options, set_once, write_option};
use super::reader::{Reader, write_bytes};
use super::{FrameError, Reference, flag, frame_type, option_key, varint};

/// The maximum length of a producer's id, in bytes.
pub const PRODUCER_ID_BYTES_MAX: usize = 64;

/// The maximum length of an idempotency key, in bytes.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 128;

/// PUBLISH.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Publish<'a> {
    /// The client's number for the answer; 0 requests no acknowledgement, but errors are still
    /// sent.
    pub request: u32,
    /// The topic; 1 to 255 bytes, its syntax unchecked.
    pub topic: &'a str,
    /// Options of the append.
    pub options: PublishOptions<'a>,
    /// Content type and tags.
    pub attributes: Attributes<'a>,
    /// The message.
    pub payload: &'a [u8],
}

/// Options of the append.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PublishOptions<'a> {
    /// Stores the message as the topic's retained message; an empty payload clears it.
    pub retain: bool,
    /// The identity for deduplication; without it, a repeat is a new message.
    pub once: Option<Once<'a>>,
    /// Appends only if this is the log's epoch.
    pub expected_epoch: Option<u64>,
}

/// The identity of a publication, for deduplication.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Once<'a> {
    /// A producer's sequence.
    Producer(Producer<'a>),
    /// A key, unique among the topic's publications: 1 to [`IDEMPOTENCY_KEY_BYTES_MAX`] bytes.
    Key(&'a [u8]),
}

/// A producer, and the number of its publication.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Producer<'a> {
    /// The producer's own id: 1 to [`PRODUCER_ID_BYTES_MAX`] arbitrary bytes.
    pub id: &'a [u8],
    /// At least 1; increases with each of the producer's publications to a partition. It may skip
    /// numbers.
    pub sequence: u64,
}

/// Appends a PUBLISH without its payload, which the caller appends up to the frame's end. The
/// caller guarantees the bounds of the topic and of the borrowed options.
pub fn encode_publish_head(
    request: u32,
    topic: &str,
    options: &PublishOptions<'_>,
    attributes: &Attributes<'_>,
    out: &mut Vec<u8>,
) {
    let count = usize::from(options.once.is_some())
        + usize::from(options.expected_epoch.is_some())
        + attributes.options_count();
    out.push(frame_type::PUBLISH);
    out.push(bit(options.retain, flag::RETAIN) | bit(count > 0, flag::OPTIONS));
    varint::encode(u64::from(request), out);
    write_bytes(topic.as_bytes(), out);
    if count == 0 {
        return;
    }
    varint::encode(count as u64, out);
    attributes.write_options(out);
    match options.once {
        Some(Once::Producer(Producer { id, sequence })) => {
            varint::encode(option_key::PRODUCER, out);
            varint::encode((varint::length(sequence) + id.len()) as u64, out);
            varint::encode(sequence, out);
            out.extend_from_slice(id);
        }
        Some(Once::Key(key)) => write_option(option_key::IDEMPOTENCY_KEY, key, out),
        None => {}
    }
    if let Some(epoch) = options.expected_epoch {
        varint::encode(option_key::EXPECTED_EPOCH, out);
        varint::encode(varint::length(epoch) as u64, out);
        varint::encode(epoch, out);
    }
}

pub(super) fn write_publish(publish: &Publish<'_>, out: &mut Vec<u8>) {
    let Publish { request, topic, options, attributes, payload } = publish;
    encode_publish_head(*request, topic, options, attributes, out);
    out.extend_from_slice(payload);
}

pub(super) fn read_publish<'a>(reader: &mut Reader<'a>) -> Result<Publish<'a>, FrameError> {
    let flags = reader.flags(flag::RETAIN)?;
    let request = reader.varint_u32()?;
    let reference = Reference::Request(request);
    let topic = reader.topic()?;
    let block = Options::read(reader, flags)?;
    let (attributes, mut unsupported) = Attributes::read(block)?;
    let mut producer = None;
    let mut idempotency_key = None;
    let mut expected_epoch = None;
    let mut impossible = None;
    if unsupported.is_some() {
        unsupported = None;
        for (key, value) in block.iter() {
            let is_possible = match key {
                option_key::PRODUCER => {
                    set_once(&mut producer, key, read_producer(value))?;
                    idempotency_key.is_none() && producer.flatten().is_some()
                }
                option_key::IDEMPOTENCY_KEY => {
                    set_once(&mut idempotency_key, key, value)?;
                    producer.is_none() && (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&value.len())
                }
                option_key::EXPECTED_EPOCH => {
                    set_once(&mut expected_epoch, key, read_varint(value))?;
                    expected_epoch.flatten().is_some()
                }
                _ => {
                    if key % 2 == 1 {
                        unsupported = unsupported.or(Some(key));
                    }
                    true
                }
            };
            if !is_possible {
                impossible = impossible.or(Some(key));
            }
        }
    }
    let topic = topic.map_err(|bytes| FrameError::TopicLength { bytes, reference })?;
    if let Some(key) = unsupported {
        return Err(FrameError::UnsupportedOption { key, reference });
    }
    if let Some(key) = impossible {
        return Err(FrameError::InvalidOption { key, reference });
    }
    let once = match (producer.flatten(), idempotency_key) {
        (Some(producer), _) => Some(Once::Producer(producer)),
        (None, key) => key.map(Once::Key),
    };
    Ok(Publish {
        request,
        topic,
        options: PublishOptions {
            retain: flags & flag::RETAIN != 0,
            once,
            expected_epoch: expected_epoch.flatten(),
        },
        attributes,
        payload: reader.payload(),
    })
}

fn read_producer(value: &[u8]) -> Option<Producer<'_>> {
    let (sequence, id) = varint::decode(value).ok()?;
    let is_possible = sequence > 0 && (1..=PRODUCER_ID_BYTES_MAX).contains(&id.len());
    is_possible.then_some(Producer { id, sequence })
}

fn read_varint(value: &[u8]) -> Option<u64> {
    let (value, rest) = varint::decode(value).ok()?;
    rest.is_empty().then_some(value)
}
