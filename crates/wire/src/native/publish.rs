//! PUBLISH: a message with what travels beside it, and by what a repeat of it is known.
//!
//! What is wrong with the options of a publication concerns that publication only: the connection
//! stays.

use super::attributes::Attributes;
use super::client_frame::bit;
use super::options::{Options, set_once, write_option};
use super::reader::{Reader, write_bytes};
use super::{FrameError, Reference, flag, frame_type, option_key, varint};

/// The longest id of a producer, in bytes.
pub const PRODUCER_ID_BYTES_MAX: usize = 64;

/// The longest idempotency key, in bytes.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 128;

/// PUBLISH.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Publish<'a> {
    /// The client's number for the answer; 0 asks for no acknowledgement, errors come all the same.
    pub request: u32,
    /// The topic; 1 to 255 bytes, its syntax unchecked.
    pub topic: &'a str,
    /// How to append it.
    pub options: PublishOptions<'a>,
    /// Content type and tags.
    pub attributes: Attributes<'a>,
    /// The message.
    pub payload: &'a [u8],
}

/// How a publication is appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PublishOptions<'a> {
    /// Keep as the topic's retained message; an empty payload then clears it.
    pub retain: bool,
    /// By what the log knows a repeat; without it a repeat is another message.
    pub once: Option<Once<'a>>,
    /// Append only if this is the log's epoch.
    pub expected_epoch: Option<u64>,
}

/// By what a repeat of a publication is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Once<'a> {
    /// A producer's sequence.
    Producer(Producer<'a>),
    /// A key, unique among the topic's publications: 1 to [`IDEMPOTENCY_KEY_BYTES_MAX`] bytes.
    Key(&'a [u8]),
}

/// Who publishes, and which of its publications this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Producer<'a> {
    /// The producer's name for itself: 1 to [`PRODUCER_ID_BYTES_MAX`] bytes, any.
    pub id: &'a [u8],
    /// At least 1; increases with each of the producer's publications to a partition, holes
    /// allowed.
    pub sequence: u64,
}

/// Appends all of a PUBLISH but its payload, which the caller appends up to the frame's end. The
/// topic and what `options` borrow keep their bounds, which the builder answers for.
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
