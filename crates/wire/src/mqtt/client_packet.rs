//! Packets from the client to the server.

use super::ack::{read_ack, write_ack};
use super::auth::{read_auth, write_auth};
use super::connect::{read_connect, write_connect};
use super::disconnect::{read_disconnect, write_disconnect};
use super::header::{Framed, PacketType, check_first, frame};
use super::properties::Sender;
use super::publish::{read_publish, write_publish};
use super::subscribe::{read_subscribe, read_unsubscribe, write_subscribe, write_unsubscribe};
use super::{
    Ack, Auth, Connect, Disconnect, EncodeError, Limits, MqttError, Publish, Subscribe,
    Unsubscribe, Version,
};
use crate::codec::Step;

/// One packet from a client, borrowed from the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientPacket<'a> {
    /// The first packet.
    Connect(Connect<'a>),
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
    /// Requests subscriptions.
    Subscribe(Subscribe<'a>),
    /// Ends subscriptions.
    Unsubscribe(Unsubscribe<'a>),
    /// Requests PINGRESP.
    PingReq,
    /// The last packet.
    Disconnect(Disconnect<'a>),
    /// Continues an authentication.
    Auth(Auth<'a>),
}

impl<'a> ClientPacket<'a> {
    /// Decodes one packet from the front of `input`. `version` is that of the connection's CONNECT;
    /// without it, only CONNECT is accepted, and with it, anything else. A packet may have at most
    /// `packet_bytes_max` bytes, of any part.
    ///
    /// # Errors
    /// [`MqttError`]: the server answers with its reason if the version has an answer (see
    /// [`super::announced_version`]), and closes the connection.
    pub fn decode(
        version: Option<Version>,
        packet_bytes_max: u32,
        input: &'a [u8],
    ) -> Result<Step<Self>, MqttError> {
        let Some(&first) = input.first() else {
            return Ok(Step::More { needed: 2 });
        };
        // The first byte is checked alone, so that cuts cannot change the error.
        let kind = match version {
            Some(version) => check_first(first, version)?,
            None if first >> 4 != PacketType::Connect as u8 => {
                return Err(MqttError::ConnectExpected);
            }
            None => check_first(first, Version::V5)?,
        };
        if let Some(error) = refusal(kind, version) {
            return Err(error);
        }
        match frame(input, version, packet_bytes_max)? {
            Step::More { needed } => Ok(Step::More { needed }),
            Step::Done { value: framed, consumed } => {
                let value = match version {
                    None => Self::Connect(read_connect(framed.body, framed.is_minimal)?),
                    Some(version) => Self::read(first, kind, framed, version)?,
                };
                Ok(Step::Done { value, consumed })
            }
        }
    }

    fn read(
        first: u8,
        kind: PacketType,
        framed: Framed<'a>,
        version: Version,
    ) -> Result<Self, MqttError> {
        let body = framed.body;
        let sender = Sender::Client;
        Ok(match kind {
            PacketType::Publish => Self::Publish(read_publish(first, body, version, sender)?),
            PacketType::PubAck => Self::PubAck(read_ack(kind, body, version, sender)?),
            PacketType::PubRec => Self::PubRec(read_ack(kind, body, version, sender)?),
            PacketType::PubRel => Self::PubRel(read_ack(kind, body, version, sender)?),
            PacketType::PubComp => Self::PubComp(read_ack(kind, body, version, sender)?),
            PacketType::Subscribe => Self::Subscribe(read_subscribe(body, version)?),
            PacketType::Unsubscribe => Self::Unsubscribe(read_unsubscribe(body, version)?),
            PacketType::PingReq => {
                body.end()?;
                Self::PingReq
            }
            PacketType::Disconnect => Self::Disconnect(read_disconnect(body, version, sender)?),
            PacketType::Auth => Self::Auth(read_auth(body, sender)?),
            // `refusal` has named these already.
            _ => return Err(MqttError::WrongDirection(kind as u8)),
        })
    }

    /// Appends the packet. CONNECT has its own version. The caller guarantees the syntax of topics
    /// and filters, and that lists are not empty.
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
            Self::Connect(connect) => write_connect(connect, limits, out),
            Self::Publish(publish) => write_publish(publish, version, limits, out),
            Self::PubAck(ack) => write_ack(PacketType::PubAck, ack, version, limits, out),
            Self::PubRec(ack) => write_ack(PacketType::PubRec, ack, version, limits, out),
            Self::PubRel(ack) => write_ack(PacketType::PubRel, ack, version, limits, out),
            Self::PubComp(ack) => write_ack(PacketType::PubComp, ack, version, limits, out),
            Self::Subscribe(subscribe) => write_subscribe(subscribe, version, limits, out),
            Self::Unsubscribe(request) => write_unsubscribe(request, version, limits, out),
            Self::PingReq => {
                out.extend_from_slice(&[PacketType::PingReq.first_byte(), 0]);
                Ok(())
            }
            Self::Disconnect(disconnect) => write_disconnect(disconnect, version, limits, out),
            Self::Auth(auth) => write_auth(auth, version, limits, out),
        }
    }
}

/// The error of a packet type that a client may not send now.
fn refusal(kind: PacketType, version: Option<Version>) -> Option<MqttError> {
    match kind {
        PacketType::Connect => version.map(|_| MqttError::ConnectRepeated),
        PacketType::ConnAck | PacketType::SubAck | PacketType::UnsubAck | PacketType::PingResp => {
            Some(MqttError::WrongDirection(kind as u8))
        }
        _ => None,
    }
}
