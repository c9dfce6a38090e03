//! The fixed header (section 2.1): packet type, flags and remaining length.

use super::reader::{Reader, variable};
use super::{MqttError, Qos, Version};
use crate::codec::Step;

/// The types of packets (table 2-1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum PacketType {
    /// Introduces the client.
    Connect = 1,
    /// The answer to CONNECT.
    ConnAck = 2,
    /// A message.
    Publish = 3,
    /// Acknowledges a message of QoS 1.
    PubAck = 4,
    /// Acknowledges a message of QoS 2.
    PubRec = 5,
    /// Releases the identifier of a message of QoS 2.
    PubRel = 6,
    /// The answer to PUBREL.
    PubComp = 7,
    /// Requests subscriptions.
    Subscribe = 8,
    /// The answer to SUBSCRIBE.
    SubAck = 9,
    /// Ends subscriptions.
    Unsubscribe = 10,
    /// The answer to UNSUBSCRIBE.
    UnsubAck = 11,
    /// Requests a sign of life.
    PingReq = 12,
    /// The answer to PINGREQ.
    PingResp = 13,
    /// The last packet.
    Disconnect = 14,
    /// Continues an authentication (MQTT 5.0).
    Auth = 15,
}

impl PacketType {
    /// Converts the high four bits of the first byte; `None` for 0 and above 15.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Connect,
            2 => Self::ConnAck,
            3 => Self::Publish,
            4 => Self::PubAck,
            5 => Self::PubRec,
            6 => Self::PubRel,
            7 => Self::PubComp,
            8 => Self::Subscribe,
            9 => Self::SubAck,
            10 => Self::Unsubscribe,
            11 => Self::UnsubAck,
            12 => Self::PingReq,
            13 => Self::PingResp,
            14 => Self::Disconnect,
            15 => Self::Auth,
            _ => return None,
        })
    }

    /// The first byte of a packet of this type with its reserved flags (table 2-2). The flags of
    /// PUBLISH are 0 here.
    pub(super) const fn first_byte(self) -> u8 {
        let flags = match self {
            Self::PubRel | Self::Subscribe | Self::Unsubscribe => 0b0010,
            _ => 0,
        };
        (self as u8) << 4 | flags
    }
}

/// The flag of a repeated message.
pub(super) const DUP: u8 = 0b1000;
/// The flag of a retained message.
pub(super) const RETAIN: u8 = 0b0001;

/// A whole packet, cut from the input.
pub(super) struct Framed<'a> {
    /// The bytes after the fixed header.
    pub(super) body: Reader<'a>,
    /// Whether the remaining length is in its shortest form.
    pub(super) is_minimal: bool,
}

/// Checks the type and the flags of a first byte.
pub(super) fn check_first(first: u8, version: Version) -> Result<PacketType, MqttError> {
    let (number, flags) = (first >> 4, first & 0xF);
    let kind = PacketType::from_number(number)
        .filter(|kind| *kind != PacketType::Auth || version == Version::V5)
        .ok_or(MqttError::ReservedType(number))?;
    if kind == PacketType::Publish {
        match Qos::from_bits(flags >> 1 & 3) {
            None => return Err(MqttError::InvalidQos),
            Some(Qos::Zero) if flags & DUP != 0 => return Err(MqttError::DuplicateQos0),
            Some(_) => {}
        }
    } else if first != kind.first_byte() && version != Version::V3_1 {
        return Err(MqttError::HeaderFlags(flags));
    }
    Ok(kind)
}

/// Cuts one packet from the front of the input. Without a version, the form of the remaining length
/// is left to the caller.
pub(super) fn frame(
    input: &[u8],
    version: Option<Version>,
    packet_bytes_max: u32,
) -> Result<Step<Framed<'_>>, MqttError> {
    let more = Step::More { needed: (input.len() + 1).max(2) };
    let Some((_, after)) = input.split_first() else {
        return Ok(more);
    };
    let Some(remaining) = variable(after)? else {
        return Ok(more);
    };
    let is_minimal = remaining.is_minimal;
    if !is_minimal && version == Some(Version::V5) {
        return Err(MqttError::VariableNotMinimal);
    }
    let start = 1 + remaining.bytes;
    let end = start + remaining.value as usize;
    if end > packet_bytes_max as usize {
        return Err(MqttError::PacketTooLarge(end));
    }
    match input.get(start..end) {
        Some(body) => {
            let value = Framed { body: Reader::new(body), is_minimal };
            Ok(Step::Done { value, consumed: end })
        }
        None => Ok(Step::More { needed: end }),
    }
}
