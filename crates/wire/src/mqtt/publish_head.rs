//! The encoder for a message with many receivers: one head for all, with holes for the few bytes
//! that differ between them.
//!
//! Place on the path: step 7. A head depends on the topic, the version, the retain flag, the
//! subscription identifiers, and on whether there is a packet identifier and a topic alias. The
//! payload follows it and is not copied.

use super::header::{DUP, PacketType, RETAIN};
use super::sink::{Count, Keep, Limits, Sink};
use super::{Delivery, EncodeError, Properties, Property, SubscriptionId, Version};
use std::num::NonZeroU16;

/// An outgoing PUBLISH without its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublishHead<'a> {
    /// The receivers' version. Versions 3.1 and 3.1.1 ignore alias, identifiers and properties.
    pub version: Version,
    /// The topic name; empty if the receivers know the alias.
    pub topic: &'a str,
    /// Whether there is a hole for a packet identifier (QoS 1 and 2).
    pub has_packet_id: bool,
    /// Whether there is a hole for a topic alias.
    pub has_alias: bool,
    /// The retain flag.
    pub retain: bool,
    /// The identifiers of the matching subscriptions.
    pub subscription_ids: &'a [SubscriptionId],
    /// Properties of the message, without alias, expiry and subscription identifiers.
    pub properties: Properties<'a>,
    /// The remaining lifetime in seconds; another value can be put in the hole.
    pub message_expiry_s: Option<u32>,
    /// The length of the payload in bytes.
    pub payload_bytes: usize,
}

/// The offsets of a head's holes in bytes, counted from its first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holes {
    /// The two bytes of the packet identifier.
    pub packet_id_at: Option<usize>,
    /// The two bytes of the topic alias.
    pub alias_at: Option<usize>,
    /// The four bytes of the message expiry in seconds.
    pub message_expiry_at: Option<usize>,
}

impl PublishHead<'_> {
    /// Appends the head. Without [`Holes::fill`] it is valid only for QoS 0 and without an alias.
    ///
    /// # Errors
    /// [`EncodeError`] if head and payload together exceed `limits`, or a field is too long.
    pub fn encode(&self, limits: &Limits, out: &mut Vec<u8>) -> Result<Holes, EncodeError> {
        let count = Count::of(|count| {
            self.write(count);
            count.bytes += self.payload_bytes;
        });
        let remaining = count.remaining(limits.packet_bytes_max)?;
        let start = out.len();
        let retain = if self.retain { RETAIN } else { 0 };
        out.byte(PacketType::Publish.first_byte() | retain);
        out.variable(remaining);
        let body_at = out.len() - start;
        self.write(out);
        Ok(self.holes(body_at, out.len() - start))
    }

    /// Writes the body. Alias and expiry are at fixed distances: the alias is the first property,
    /// the expiry the last one.
    fn write<S: Sink>(&self, out: &mut S) {
        out.string(self.topic);
        if self.has_packet_id {
            out.u16(0);
        }
        if self.version.has_properties() {
            let count = Count::of(|count| self.write_properties(count));
            out.variable(count.length());
            self.write_properties(out);
        }
    }

    fn write_properties<S: Sink>(&self, out: &mut S) {
        if self.has_alias {
            Property::TopicAlias(NonZeroU16::MAX).write(out);
        }
        for id in self.subscription_ids {
            Property::SubscriptionId(*id).write(out);
        }
        self.properties.write_each(Keep::All, out);
        if let Some(seconds) = self.message_expiry_s {
            Property::MessageExpiry(seconds).write(out);
        }
    }

    fn holes(&self, body_at: usize, head_bytes: usize) -> Holes {
        let topic_end = body_at + 2 + self.topic.len();
        let id_bytes = if self.has_packet_id { 2 } else { 0 };
        let has_properties = self.version.has_properties();
        let length = Count::of(|count| self.write_properties(count)).length();
        let length_bytes = Count::of(|count| count.variable(length)).bytes;
        let alias_at = topic_end + id_bytes + length_bytes + 1;
        let has_expiry = has_properties && self.message_expiry_s.is_some();
        Holes {
            packet_id_at: self.has_packet_id.then_some(topic_end),
            alias_at: (has_properties && self.has_alias).then_some(alias_at),
            message_expiry_at: has_expiry.then(|| head_bytes - 4),
        }
    }
}

impl Holes {
    /// Puts the values of one receiver into its copy of the head: QoS, DUP and packet identifier
    /// from `delivery`, and the alias. Values without a hole are ignored; the expiry stays.
    pub fn fill(&self, head: &mut [u8], delivery: Delivery, alias: Option<NonZeroU16>) {
        if let Some(first) = head.first_mut() {
            *first = *first & !(DUP | 0b0110) | delivery.flags();
        }
        if let Some(attempt) = delivery.attempt() {
            put(head, self.packet_id_at, &attempt.packet_id.get().to_be_bytes());
        }
        if let Some(alias) = alias {
            put(head, self.alias_at, &alias.get().to_be_bytes());
        }
    }

    /// Puts the remaining lifetime in seconds into a copy of the head.
    pub fn fill_message_expiry(&self, head: &mut [u8], seconds: u32) {
        put(head, self.message_expiry_at, &seconds.to_be_bytes());
    }
}

fn put(head: &mut [u8], at: Option<usize>, bytes: &[u8]) {
    let hole = at.and_then(|at| head.get_mut(at..at + bytes.len()));
    if let Some(hole) = hole {
        hole.copy_from_slice(bytes);
    }
}
