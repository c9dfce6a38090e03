//! PUBACK, PUBREC, PUBREL and PUBCOMP (sections 3.4 to 3.7): one form, the same in both directions.

use super::header::PacketType;
use super::properties::{Place, Sender};
use super::reader::Reader;
use super::sink::{Body, Keep, Limits, Sink, write_answer};
use super::{EncodeError, MqttError, PacketId, Properties, ReasonCode, Version};

/// One step of the exchange that follows a message of QoS 1 or 2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ack<'a> {
    /// The identifier of the message.
    pub packet_id: PacketId,
    /// The result. Versions 3.1 and 3.1.1 only know success.
    pub reason: ReasonCode,
    /// Reason string and user properties.
    pub properties: Properties<'a>,
}

impl Ack<'_> {
    /// Success without properties.
    #[must_use]
    pub fn success(packet_id: PacketId) -> Self {
        Self { packet_id, reason: ReasonCode::Success, properties: Properties::default() }
    }
}

pub(super) fn read_ack<'a>(
    kind: PacketType,
    mut reader: Reader<'a>,
    version: Version,
    sender: Sender,
) -> Result<Ack<'a>, MqttError> {
    let mut ack = Ack::success(reader.packet_id()?);
    if version.has_properties() && !reader.is_empty() {
        ack.reason = read_reason(kind, &mut reader)?;
        // A packet that ends here has no properties.
        if !reader.is_empty() {
            ack.properties = Properties::read(&mut reader, Place::Ack, sender)?;
        }
    }
    reader.end()?;
    Ok(ack)
}

/// Reads a reason code that packets of this type may contain.
pub(super) fn read_reason(
    kind: PacketType,
    reader: &mut Reader<'_>,
) -> Result<ReasonCode, MqttError> {
    let byte = reader.byte()?;
    ReasonCode::from_byte(byte)
        .filter(|reason| reason.is_permitted_in(kind))
        .ok_or(MqttError::InvalidReasonCode(byte))
}

/// Writes the shortest form (section 3.4.2.1). A failure has no form in version 3.
pub(super) fn write_ack(
    kind: PacketType,
    ack: &Ack<'_>,
    version: Version,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    if ack.reason.is_failure() && !version.has_properties() {
        return Err(EncodeError::NotInVersion);
    }
    write_answer(kind.first_byte(), &AckBody { ack, version }, limits, out)
}

struct AckBody<'a> {
    ack: &'a Ack<'a>,
    version: Version,
}

impl Body for AckBody<'_> {
    fn write<S: Sink>(&self, keep: Keep, out: &mut S) {
        out.packet_id(self.ack.packet_id);
        if self.version.has_properties() {
            write_result(self.ack.reason, &self.ack.properties, keep, out);
        }
    }
}

/// Writes reason code and properties, and omits both or the latter if the receiver assumes them.
pub(super) fn write_result<S: Sink>(
    reason: ReasonCode,
    properties: &Properties<'_>,
    keep: Keep,
    out: &mut S,
) {
    let is_empty = properties.is_empty_with(keep);
    if reason != ReasonCode::Success || !is_empty {
        out.byte(reason.byte());
    }
    if !is_empty {
        properties.write(keep, out);
    }
}
