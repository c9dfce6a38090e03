//! The heads of MESSAGE and NAMED_MESSAGE, for the path of a message: encoded once per shard,
//! without building a frame.
//!
//! The caller appends the rest of a MESSAGE, in this order: the options block if announced (the
//! bytes of [`super::Attributes::encode_message_block`]), then the payload up to the frame's end.
//! The head of a NAMED_MESSAGE includes its options block.

use super::options::write_lineage;
use super::reader::write_bytes;
use super::{Position, flag, frame_type, option_key, varint};

/// The maximum length of the head of MESSAGE: type, flags, alias, offset, distance to `prev`.
/// Usually 6 to 9 bytes.
pub const MESSAGE_HEAD_BYTES_MAX: usize = 2 + 5 + varint::BYTES_MAX + varint::BYTES_MAX;

/// Whether a message was published with RETAIN.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Retained {
    /// An ordinary message.
    #[default]
    No,
    /// Published with RETAIN.
    Yes,
}

/// The first bytes of a MESSAGE frame, on the stack.
#[derive(Clone, Copy)]
pub struct MessageHead {
    bytes: [u8; MESSAGE_HEAD_BYTES_MAX],
    length: u8,
}

impl std::ops::Deref for MessageHead {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// Encodes the head of a MESSAGE. `prev` is below `offset`; `has_options` announces an options
/// block behind the head.
#[must_use]
pub fn message_head(
    alias: u32,
    offset: u64,
    prev: u64,
    retained: Retained,
    has_options: bool,
) -> MessageHead {
    let mut bytes = [0; MESSAGE_HEAD_BYTES_MAX];
    bytes[0] = frame_type::MESSAGE;
    bytes[1] = flags(retained, has_options);
    let mut length = 2;
    for value in [u64::from(alias), offset, prev_delta(offset, prev)] {
        length += varint::write(value, &mut bytes[length..]);
    }
    MessageHead { bytes, length: length as u8 }
}

/// The fields of the head of a NAMED_MESSAGE.
#[derive(Clone, Copy, Debug)]
pub struct NamedHead<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The topic's partition.
    pub partition: u32,
    /// The message's position: the log's epoch and the partition's offset.
    pub position: Position,
    /// The topic has no record between this offset, which is lower, and the message's.
    pub prev: u64,
    /// Whether it was published with RETAIN.
    pub retained: Retained,
    /// The subscription of a replay; none for a live message.
    pub subscription: Option<u32>,
    /// The low byte of the epoch, of a log whose epoch may advance without loss.
    pub lineage: Option<u8>,
}

/// Appends a NAMED_MESSAGE without its payload, which the caller appends up to the frame's end.
/// `block` is the result of [`super::Attributes::encode_block`], or empty for a message without
/// attributes.
pub fn encode_named_message_head(head: &NamedHead<'_>, block: &[u8], out: &mut Vec<u8>) {
    out.push(frame_type::NAMED_MESSAGE);
    let is_plain = head.subscription.is_none() && head.lineage.is_none();
    let has_options = !is_plain || !block.is_empty();
    out.push(flags(head.retained, has_options));
    write_bytes(head.topic.as_bytes(), out);
    varint::encode(u64::from(head.partition), out);
    varint::encode(head.position.epoch, out);
    varint::encode(head.position.offset, out);
    varint::encode(prev_delta(head.position.offset, head.prev), out);
    if is_plain {
        return out.extend_from_slice(block);
    }
    // A block begins with its count; the options of the head go between the count and the others.
    let (count, options) = varint::decode(block).unwrap_or_default();
    let of_head = u64::from(head.subscription.is_some()) + u64::from(head.lineage.is_some());
    varint::encode(count + of_head, out);
    if let Some(subscription) = head.subscription {
        varint::encode(option_key::SUBSCRIPTION, out);
        varint::encode(varint::length(u64::from(subscription)) as u64, out);
        varint::encode(u64::from(subscription), out);
    }
    write_lineage(head.lineage, out);
    out.extend_from_slice(options);
}

pub(super) fn prev_delta(offset: u64, prev: u64) -> u64 {
    debug_assert!(prev < offset, "prev {prev} is not below offset {offset}");
    offset.wrapping_sub(prev)
}

pub(super) fn flags(retained: Retained, has_options: bool) -> u8 {
    let retained = match retained {
        Retained::No => 0,
        Retained::Yes => flag::RETAINED,
    };
    let options = if has_options { flag::OPTIONS } else { 0 };
    retained | options
}
