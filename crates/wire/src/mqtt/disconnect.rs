//! DISCONNECT (section 3.14): the last packet of a side. Servers send it in MQTT 5.0 only.

use super::ack::{read_reason, write_result};
use super::header::PacketType;
use super::properties::{Place, Sender};
use super::reader::Reader;
use super::sink::{Body, Keep, Limits, Sink, write_notice};
use super::{EncodeError, MqttError, Properties, ReasonCode, Version};

/// The end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disconnect<'a> {
    /// The reason. Versions 3.1 and 3.1.1 only know success.
    pub reason: ReasonCode,
    /// Session expiry (from a client), reason string, user properties, and server reference.
    pub properties: Properties<'a>,
}

pub(super) fn read_disconnect<'a>(
    mut reader: Reader<'a>,
    version: Version,
    sender: Sender,
) -> Result<Disconnect<'a>, MqttError> {
    let mut disconnect =
        Disconnect { reason: ReasonCode::Success, properties: Properties::default() };
    if version.has_properties() && !reader.is_empty() {
        disconnect.reason = read_reason(PacketType::Disconnect, &mut reader)?;
        // A packet that ends here has no properties.
        if !reader.is_empty() {
            disconnect.properties = Properties::read(&mut reader, Place::Disconnect, sender)?;
        }
    }
    reader.end()?;
    Ok(disconnect)
}

pub(super) fn write_disconnect(
    disconnect: &Disconnect<'_>,
    version: Version,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    if disconnect.reason != ReasonCode::Success && !version.has_properties() {
        return Err(EncodeError::NotInVersion);
    }
    let first = PacketType::Disconnect.first_byte();
    write_notice(first, &DisconnectBody { disconnect, version }, limits, out)
}

struct DisconnectBody<'a> {
    disconnect: &'a Disconnect<'a>,
    version: Version,
}

impl Body for DisconnectBody<'_> {
    fn write<S: Sink>(&self, keep: Keep, out: &mut S) {
        if self.version.has_properties() {
            write_result(self.disconnect.reason, &self.disconnect.properties, keep, out);
        }
    }
}
