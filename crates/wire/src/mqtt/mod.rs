//! MQTT 3.1, 3.1.1 and 5.0: packets to values and back, for servers and clients.
//!
//! Place on the path: step 2 (bytes to packets) and step 7 (deliveries to bytes). "Section" and
//! "MQTT-x.y.z-n" in comments refer to the OASIS standard of MQTT 5.0; `spec/mqtt.md` lists its
//! statements with their tests. The versions differ in few fields, so they share one decoder.
//!
//! Invariants: decoding allocates nothing and never panics; a decoded packet is valid, properties,
//! filters and reason codes included, so that iterating them cannot fail; a packet above the bound
//! is refused by its fixed header, before its body arrives; the result never depends on the cuts of
//! the input. The codec has no state: aliases, identifiers in use and sessions are the caller's.
//!
//! MQTT 3.1 leaves bits undefined that 3.1.1 reserves; the codec ignores those bits there.

mod ack;
mod auth;
mod client_packet;
mod connack;
mod connect;
mod disconnect;
mod error;
mod header;
mod list;
mod properties;
mod property;
mod publish;
mod publish_head;
mod reader;
mod reason;
mod server_packet;
mod sink;
mod subscribe;
mod topic;

pub use ack::Ack;
pub use auth::Auth;
pub use client_packet::ClientPacket;
pub use connack::ConnAck;
pub use connect::{Connect, Will, announced_version};
pub use disconnect::Disconnect;
pub use error::{EncodeError, MqttError};
pub use header::PacketType;
pub use list::{Element, List, ListIter};
pub use properties::{Properties, PropertyIter};
pub use property::{Property, SubscriptionId, UserProperty};
pub use publish::{Attempt, Delivery, Publish};
pub use publish_head::{Holes, PublishHead};
pub use reason::ReasonCode;
pub use server_packet::ServerPacket;
pub use sink::Limits;
pub use subscribe::{SubAck, Subscribe, SubscribeItem, UnsubAck, Unsubscribe};
pub use topic::{SHARED_PREFIX, SharedFilter, check_filter, check_topic, split_shared};

use std::num::NonZeroU16;

/// The WebSocket subprotocol of MQTT (section 6).
pub const SUBPROTOCOL: &str = "mqtt";

/// The WebSocket subprotocol that clients of MQTT 3.1 offer.
pub const SUBPROTOCOL_V3_1: &str = "mqttv3.1";

/// The greatest value of a variable byte integer, such as the remaining length (section 1.5.5).
pub const VARIABLE_MAX: u32 = 268_435_455;

/// The maximum length of a packet in bytes: type, remaining length, and the bytes that it counts.
pub const PACKET_BYTES_MAX: u32 = 1 + 4 + VARIABLE_MAX;

/// The maximum length of a string or of binary data, in bytes.
pub const FIELD_BYTES_MAX: usize = u16::MAX as usize;

/// The identifier of an open exchange; 0 does not exist.
pub type PacketId = NonZeroU16;

/// A version of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Version {
    /// MQTT 3.1: name `MQIsdp`, level 3.
    V3_1,
    /// MQTT 3.1.1: name `MQTT`, level 4.
    V3_1_1,
    /// MQTT 5.0: name `MQTT`, level 5.
    V5,
}

impl Version {
    /// The protocol's name and level in CONNECT.
    #[must_use]
    pub const fn announcement(self) -> (&'static str, u8) {
        match self {
            Self::V3_1 => ("MQIsdp", 3),
            Self::V3_1_1 => ("MQTT", 4),
            Self::V5 => ("MQTT", 5),
        }
    }

    /// Whether packets have properties, and acknowledgements reason codes.
    #[must_use]
    pub const fn has_properties(self) -> bool {
        matches!(self, Self::V5)
    }
}

/// A quality of service: the guarantee of a delivery (section 4.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Qos {
    /// No acknowledgement.
    #[default]
    Zero = 0,
    /// One acknowledgement; repeats are possible.
    One = 1,
    /// Two acknowledgements; no repeats.
    Two = 2,
}

impl Qos {
    /// Converts the two bits of a packet; `None` for 3 and above.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::Zero),
            1 => Some(Self::One),
            2 => Some(Self::Two),
            _ => None,
        }
    }
}

/// The retained messages that a new subscription receives (section 3.8.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum RetainHandling {
    /// All that match.
    #[default]
    Send = 0,
    /// All that match, if the session had no such subscription.
    SendIfNew = 1,
    /// None.
    Omit = 2,
}

impl RetainHandling {
    /// Converts the two bits of the subscription options; `None` for 3 and above.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::Send),
            1 => Some(Self::SendIfNew),
            2 => Some(Self::Omit),
            _ => None,
        }
    }
}

/// Binary data whose value never appears in a log line, such as a password.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret<'a>(pub &'a [u8]);

impl std::fmt::Debug for Secret<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}
