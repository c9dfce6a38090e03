//! CONNACK (section 3.2): the answer to CONNECT.

use super::ack::read_reason;
use super::header::PacketType;
use super::properties::{Place, Sender};
use super::reader::Reader;
use super::sink::{Body, Keep, Limits, Sink, write_notice};
use super::{EncodeError, MqttError, Properties, ReasonCode, Version};

/// The answer to CONNECT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnAck<'a> {
    /// Whether the server has resumed a session. False with a failure, and in version 3.1.
    pub session_present: bool,
    /// The result. Versions 3.1 and 3.1.1 have the codes of [`ReasonCode::v3_return_code`].
    pub reason: ReasonCode,
    /// The server's limits and choices.
    pub properties: Properties<'a>,
}

pub(super) fn read_connack<'a>(
    mut reader: Reader<'a>,
    version: Version,
) -> Result<ConnAck<'a>, MqttError> {
    let flags = match (reader.byte()?, version) {
        // The byte is unused in version 3.1.
        (_, Version::V3_1) => 0,
        (flags @ (0 | 1), _) => flags,
        _ => return Err(MqttError::ConnectFlags("reserved flags of CONNACK are set")),
    };
    let session_present = flags == 1;
    let (reason, properties) = if version.has_properties() {
        let reason = read_reason(PacketType::ConnAck, &mut reader)?;
        (reason, Properties::read(&mut reader, Place::ConnAck, Sender::Server)?)
    } else {
        let code = reader.byte()?;
        let reason = ReasonCode::from_v3_return_code(code);
        (reason.ok_or(MqttError::InvalidReasonCode(code))?, Properties::default())
    };
    reader.end()?;
    if session_present && reason != ReasonCode::Success {
        return Err(MqttError::ConnectFlags("a refused client has no session"));
    }
    Ok(ConnAck { session_present, reason, properties })
}

/// Writes the answer. A reason without a return code has no form in version 3.
pub(super) fn write_connack(
    connack: &ConnAck<'_>,
    version: Version,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let code = if version.has_properties() {
        connack.reason.byte()
    } else {
        connack.reason.v3_return_code().ok_or(EncodeError::NotInVersion)?
    };
    let first = PacketType::ConnAck.first_byte();
    write_notice(first, &ConnAckBody { connack, code, version }, limits, out)
}

struct ConnAckBody<'a> {
    connack: &'a ConnAck<'a>,
    code: u8,
    version: Version,
}

impl Body for ConnAckBody<'_> {
    fn write<S: Sink>(&self, keep: Keep, out: &mut S) {
        let has_session = self.connack.session_present && self.version != Version::V3_1;
        out.byte(u8::from(has_session));
        out.byte(self.code);
        if self.version.has_properties() {
            self.connack.properties.write(keep, out);
        }
    }
}
