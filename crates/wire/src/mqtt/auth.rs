//! AUTH (section 3.15): one step of an authentication in MQTT 5.0.

use super::ack::{read_reason, write_result};
use super::header::PacketType;
use super::properties::{Place, Sender};
use super::property::id;
use super::reader::Reader;
use super::sink::{Body, Keep, Limits, Sink, write_answer};
use super::{EncodeError, MqttError, Properties, ReasonCode, Version};

/// One step of an authentication.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Auth<'a> {
    /// [`ReasonCode::Success`] from servers, [`ReasonCode::Reauthenticate`] from clients, or
    /// [`ReasonCode::ContinueAuthentication`].
    pub reason: ReasonCode,
    /// The method, which must be present, its data, reason string and user properties. Empty only
    /// with success.
    pub properties: Properties<'a>,
}

pub(super) fn read_auth<'a>(mut reader: Reader<'a>, sender: Sender) -> Result<Auth<'a>, MqttError> {
    let mut auth = Auth { reason: ReasonCode::Success, properties: Properties::default() };
    let is_short = reader.is_empty();
    if !is_short {
        auth.reason = read_reason(PacketType::Auth, &mut reader)?;
    }
    let is_possible = match auth.reason {
        ReasonCode::Success => sender == Sender::Server,
        ReasonCode::Reauthenticate => sender == Sender::Client,
        _ => true,
    };
    if !is_possible {
        return Err(MqttError::InvalidReasonCode(auth.reason.byte()));
    }
    if !is_short {
        auth.properties = Properties::read(&mut reader, Place::Auth, sender)?;
        if !auth.properties.has(id::AUTHENTICATION_METHOD) {
            return Err(MqttError::AuthenticationMethodMissing);
        }
    }
    reader.end()?;
    Ok(auth)
}

pub(super) fn write_auth(
    auth: &Auth<'_>,
    version: Version,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    if !version.has_properties() {
        return Err(EncodeError::NotInVersion);
    }
    write_answer(PacketType::Auth.first_byte(), &AuthBody(auth), limits, out)
}

struct AuthBody<'a>(&'a Auth<'a>);

impl Body for AuthBody<'_> {
    fn write<S: Sink>(&self, keep: Keep, out: &mut S) {
        write_result(self.0.reason, &self.0.properties, keep, out);
    }
}
