//! Packets from the server to the client.

use super::ack::{read_ack, write_ack};
use super::auth::{read_auth, write_auth};
use super::connack::{read_connack, write_connack};
use super::disconnect::{read_disconnect, write_disconnect};
use super::header::{PacketType, check_first, frame};
use super::properties::Sender;
use super::publish::{read_publish, write_publish};
use super::reader::Reader;
use super::subscribe::{read_suback, read_unsuback, write_suback, write_unsuback};
use super::{
    Ack, Auth, ConnAck, Disconnect, EncodeError, Limits, MqttError, Publish, SubAck, UnsubAck,
    Version,
};
use crate::codec::Step;

/// One packet from a server, borrowed from the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerPacket<'a> {
    /// The answer to CONNECT.
    ConnAck(ConnAck<'a>),
    /// A message.
    Publish(Publish<'a>),
    /// Acknowledges a message of QoS 1.
    PubAck(Ack<'a>),
    /// Acknowledges a message of QoS 2.
    PubRec(Ack<'a>),
    /// Releases the identifier of a message of QoS 2.
    PubRel(Ack<'a>),
    /// The answer to PUBREL.
    PubComp(Ack<'a>),
    /// The answer to SUBSCRIBE.
    SubAck(SubAck<'a>),
    /// The answer to UNSUBSCRIBE.
    UnsubAck(UnsubAck<'a>),
    /// The answer to PINGREQ.
    PingResp,
    /// The last packet (MQTT 5.0).
    Disconnect(Disconnect<'a>),
    /// Continues an authentication.
    Auth(Auth<'a>),
}

impl<'a> ServerPacket<'a> {
    /// Decodes one packet from the front of `input`. `version` is that of the client's CONNECT. A
    /// packet may have at most `packet_bytes_max` bytes, of any part.
    ///
    /// # Errors
    /// [`MqttError`]: the client sends DISCONNECT with its reason (MQTT 5.0), and closes the
    /// connection.
    pub fn decode(
        version: Version,
        packet_bytes_max: u32,
        input: &'a [u8],
    ) -> Result<Step<Self>, MqttError> {
        let Some(&first) = input.first() else {
            return Ok(Step::More { needed: 2 });
        };
        // The first byte is checked alone, so that cuts cannot change the error.
        let kind = check_first(first, version)?;
        if is_from_client(kind, version) {
            return Err(MqttError::WrongDirection(kind as u8));
        }
        match frame(input, Some(version), packet_bytes_max)? {
            Step::More { needed } => Ok(Step::More { needed }),
            Step::Done { value: framed, consumed } => {
                let value = Self::read(first, kind, framed.body, version)?;
                Ok(Step::Done { value, consumed })
            }
        }
    }

    fn read(
        first: u8,
        kind: PacketType,
        body: Reader<'a>,
        version: Version,
    ) -> Result<Self, MqttError> {
        let sender = Sender::Server;
        Ok(match kind {
            PacketType::ConnAck => Self::ConnAck(read_connack(body, version)?),
            PacketType::Publish => Self::Publish(read_publish(first, body, version, sender)?),
            PacketType::PubAck => Self::PubAck(read_ack(kind, body, version, sender)?),
            PacketType::PubRec => Self::PubRec(read_ack(kind, body, version, sender)?),
            PacketType::PubRel => Self::PubRel(read_ack(kind, body, version, sender)?),
            PacketType::PubComp => Self::PubComp(read_ack(kind, body, version, sender)?),
            PacketType::SubAck => Self::SubAck(read_suback(body, version)?),
            PacketType::UnsubAck => Self::UnsubAck(read_unsuback(body, version)?),
            PacketType::PingResp => {
                body.end()?;
                Self::PingResp
            }
            PacketType::Disconnect => Self::Disconnect(read_disconnect(body, version, sender)?),
            PacketType::Auth => Self::Auth(read_auth(body, sender)?),
            // `is_from_client` has excluded these already.
            _ => return Err(MqttError::WrongDirection(kind as u8)),
        })
    }

    /// Appends the packet. Reason string and user properties are dropped where `limits` demand it.
    /// The caller guarantees the syntax of topics, and that lists are not empty.
    ///
    /// # Errors
    /// [`EncodeError`]; nothing was written.
    pub fn encode(
        &self,
        version: Version,
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        match self {
            Self::ConnAck(connack) => write_connack(connack, version, limits, out),
            Self::Publish(publish) => write_publish(publish, version, limits, out),
            Self::PubAck(ack) => write_ack(PacketType::PubAck, ack, version, limits, out),
            Self::PubRec(ack) => write_ack(PacketType::PubRec, ack, version, limits, out),
            Self::PubRel(ack) => write_ack(PacketType::PubRel, ack, version, limits, out),
            Self::PubComp(ack) => write_ack(PacketType::PubComp, ack, version, limits, out),
            Self::SubAck(suback) => write_suback(suback, version, limits, out),
            Self::UnsubAck(unsuback) => write_unsuback(unsuback, version, limits, out),
            Self::PingResp => {
                out.extend_from_slice(&[PacketType::PingResp.first_byte(), 0]);
                Ok(())
            }
            Self::Disconnect(_) if !version.has_properties() => Err(EncodeError::NotInVersion),
            Self::Disconnect(disconnect) => write_disconnect(disconnect, version, limits, out),
            Self::Auth(auth) => write_auth(auth, version, limits, out),
        }
    }
}

/// Whether only clients send packets of this type.
fn is_from_client(kind: PacketType, version: Version) -> bool {
    match kind {
        PacketType::Connect
        | PacketType::Subscribe
        | PacketType::Unsubscribe
        | PacketType::PingReq => true,
        PacketType::Disconnect => !version.has_properties(),
        _ => false,
    }
}
