//! A publication under way into a log, as data: what its checks have found, and where it was
//! placed.

use super::work::Caller;
use crate::mail::{Code, Publication, Reply};
use log::{AppendError, Flags, NewRecord, Producer, RECORD_HEADER_BYTES};
use std::num::NonZeroU32;
use stdx::chunk::Slice;
use stdx::handing::Hand;
use wire::native::Attributes;

/// The sender of a publication, and the one that waits for its acknowledgement.
#[derive(Clone, Copy, Debug, Hand)]
pub(super) struct Publisher {
    pub from: Caller,
    pub reply: Option<Reply>,
}

impl Publisher {
    /// Whether the publisher waits for the acknowledgement.
    pub fn is_asked(&self) -> bool {
        self.waiting().is_some()
    }

    /// The request that waits for the acknowledgement.
    pub fn waiting(&self) -> Option<Reply> {
        self.reply.filter(|reply| reply.request != Reply::REFUSALS_ONLY)
    }
}

/// A record that lies in the log.
pub(super) struct Placed {
    pub local: u32,
    pub topic: u32,
    pub offset: u64,
    pub record: Slice,
}

/// A publication that passed all checks but the one for room.
pub(super) struct Checked<'a> {
    pub local: u32,
    /// The topic, if the home knew it at the time.
    pub known: Option<u32>,
    pub flags: Flags,
    pub attributes: RecordAttributes<'a>,
    pub record_bytes: u64,
    /// The publication becomes the topic's retained message.
    pub retains: bool,
    /// The rule bounds how many messages the topic takes in a second.
    pub rate_max: Option<NonZeroU32>,
}

impl<'p> Checked<'p> {
    /// A publication that the engine has taken.
    pub fn tailed(local: u32, publication: &'p Publication) -> Result<Checked<'p>, Code> {
        let attributes = RecordAttributes::of(publication).ok_or(Code::MalformedFrame)?;
        let flags = flags_of(publication);
        let payload_bytes = publication.payload.len() as u64;
        let record_bytes = attributes.fields_bytes + RECORD_HEADER_BYTES as u64 + payload_bytes;
        Ok(Checked {
            local,
            known: None,
            flags,
            attributes,
            record_bytes,
            retains: false,
            rate_max: None,
        })
    }

    /// The record of the publication.
    pub fn record<'a>(
        &'a self,
        now_ms: u64,
        topic: u32,
        prev: u64,
        publication: &'a Publication,
    ) -> NewRecord<'a> {
        NewRecord {
            topic,
            prev,
            time_ms: now_ms,
            flags: self.flags,
            content_type: self.attributes.content_type.map(str::as_bytes),
            tags: &self.attributes.tags,
            producer: publication
                .producer
                .as_ref()
                .map(|stamp| Producer { id: &stamp.id, sequence: stamp.sequence }),
            idempotency_key: Some(&publication.idempotency_key[..]).filter(|key| !key.is_empty()),
            further: &publication.further,
            payload: &publication.payload,
        }
    }
}

/// The flags of a publication's record that its message decides.
pub(super) fn flags_of(publication: &Publication) -> Flags {
    let mut flags = Flags::NONE;
    if simdutf8::basic::from_utf8(&publication.payload).is_ok() {
        flags = flags.with(Flags::TEXT);
    }
    if let Some(qos) = publication.qos {
        flags = flags.with_qos(qos);
    }
    if publication.is_said_text {
        flags = flags.with(Flags::PAYLOAD_FORMAT);
    }
    flags
}

/// The code that a publisher gets.
pub(super) fn code_of(error: AppendError) -> Code {
    match error {
        AppendError::Memory(_) => Code::MemoryFull,
        AppendError::FieldsTooLong => Code::TooManyTags,
        AppendError::RecordTooLong => Code::MessageTooLarge,
        AppendError::Offset { .. } | AppendError::Prev => Code::Internal,
    }
}

/// Content type and tags as the record keeps them, and what its fields take.
pub(super) struct RecordAttributes<'a> {
    content_type: Option<&'a str>,
    tags: Vec<(&'a [u8], &'a [u8])>,
    /// Bytes of the fields in the record, with those of the publication's names.
    pub fields_bytes: u64,
}

impl<'a> RecordAttributes<'a> {
    pub fn of(publication: &'a Publication) -> Option<RecordAttributes<'a>> {
        const FIELD_HEADER_BYTES: usize = 3;
        const TAG_HEADER_BYTES: usize = 2;
        let attributes = Attributes::decode_block(&publication.attributes).ok()?;
        let tags: Vec<(&[u8], &[u8])> = if attributes.tags.is_empty() {
            Vec::new()
        } else {
            let tags = attributes.tags.iter();
            tags.map(|tag| (tag.key.as_bytes(), tag.value.as_bytes())).collect()
        };
        let of_tags = tags
            .iter()
            .map(|(key, value)| FIELD_HEADER_BYTES + TAG_HEADER_BYTES + key.len() + value.len());
        let of_type = attributes.content_type.map(|text| FIELD_HEADER_BYTES + text.len());
        let of_producer = publication
            .producer
            .as_ref()
            .map(|stamp| FIELD_HEADER_BYTES + size_of_val(&stamp.sequence) + stamp.id.len());
        let of_key = Some(publication.idempotency_key.len())
            .filter(|bytes| *bytes > 0)
            .map(|bytes| FIELD_HEADER_BYTES + bytes);
        let of_names = of_producer.into_iter().chain(of_key);
        let of_fields = of_tags.chain(of_type).chain(of_names).sum::<usize>();
        let fields_bytes = (of_fields + publication.further.len()) as u64;
        Some(RecordAttributes { content_type: attributes.content_type, tags, fields_bytes })
    }
}
