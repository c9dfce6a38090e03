//! CONNECT (section 3.1): the first packet of a client, which names the version.

use super::header::PacketType;
use super::properties::{Place, Sender};
use super::reader::{Reader, variable};
use super::sink::{Body, Keep, Limits, Sink, write_packet};
use super::topic::check_topic;
use super::{EncodeError, MqttError, Properties, Qos, Secret, Version};

/// Bits of the connect flags (section 3.1.2.3).
mod flag {
    pub(super) const RESERVED: u8 = 0x01;
    pub(super) const CLEAN_START: u8 = 0x02;
    pub(super) const WILL: u8 = 0x04;
    pub(super) const WILL_QOS_SHIFT: u8 = 3;
    pub(super) const WILL_RETAIN: u8 = 0x20;
    pub(super) const PASSWORD: u8 = 0x40;
    pub(super) const USER_NAME: u8 = 0x80;
}

/// The first packet of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connect<'a> {
    /// The version of this connection.
    pub version: Version,
    /// Whether an earlier session ends. In versions 3.1 and 3.1.1 ("clean session"), the new one
    /// ends with the connection, too.
    pub clean_start: bool,
    /// The maximum interval between packets from the client, in seconds; 0 for none.
    pub keep_alive_s: u16,
    /// The client's limits and wishes.
    pub properties: Properties<'a>,
    /// The client's identifier; empty if the server shall choose one.
    pub client_id: &'a str,
    /// The message that the server publishes if the client is lost.
    pub will: Option<Will<'a>>,
    /// The user name.
    pub user_name: Option<&'a str>,
    /// The password. Without a user name in MQTT 5.0 only.
    pub password: Option<Secret<'a>>,
}

/// The message that the server publishes if the client is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Will<'a> {
    /// The QoS of the publication.
    pub qos: Qos,
    /// Whether the message is to be retained.
    pub retain: bool,
    /// The topic name; not empty, without wildcards.
    pub topic: &'a str,
    /// The content, which may be empty.
    pub payload: &'a [u8],
    /// Properties of the message, and the delay.
    pub properties: Properties<'a>,
}

impl Connect<'_> {
    /// Whether the version permits the client identifier. If not, the server answers with
    /// [`super::ReasonCode::ClientIdInvalid`]: an empty one is refused by version 3.1, and by
    /// version 3.1.1 unless the session is clean (MQTT-3.1.3-8 there).
    #[must_use]
    pub fn is_client_id_permitted(&self) -> bool {
        match self.version {
            Version::V3_1 => !self.client_id.is_empty(),
            Version::V3_1_1 => !self.client_id.is_empty() || self.clean_start,
            Version::V5 => true,
        }
    }
}

/// The version that the CONNECT at the front of the input announces, even if the rest of the packet
/// is missing or malformed: the version of the answer to a malformed packet.
#[must_use]
pub fn announced_version(input: &[u8]) -> Option<Version> {
    let (first, after) = input.split_first()?;
    if first >> 4 != PacketType::Connect as u8 {
        return None;
    }
    let remaining = variable(after).ok()??;
    read_version(&mut Reader::new(after.get(remaining.bytes..)?)).ok()
}

/// Reads the name of the protocol and its level (MQTT-3.1.2-1, MQTT-3.1.2-2).
fn read_version(reader: &mut Reader<'_>) -> Result<Version, MqttError> {
    let name = reader.binary()?;
    let versions = [Version::V3_1, Version::V3_1_1, Version::V5];
    if !versions.iter().any(|version| version.announcement().0.as_bytes() == name) {
        return Err(MqttError::UnknownProtocol);
    }
    let level = reader.byte()?;
    let is_version = |version: &Version| {
        let (its_name, its_level) = version.announcement();
        its_name.as_bytes() == name && its_level == level
    };
    versions.into_iter().find(is_version).ok_or(MqttError::UnsupportedLevel(level))
}

/// Reads the body of a CONNECT. `is_minimal`: its remaining length had the shortest form.
pub(super) fn read_connect(
    mut reader: Reader<'_>,
    is_minimal: bool,
) -> Result<Connect<'_>, MqttError> {
    let version = read_version(&mut reader)?;
    if !is_minimal && version == Version::V5 {
        return Err(MqttError::VariableNotMinimal);
    }
    let flags = reader.byte()?;
    check_flags(flags, version)?;
    let keep_alive_s = reader.u16()?;
    let properties = read_properties(&mut reader, version, Place::Connect)?;
    let client_id = reader.string()?;
    let will = match flags & flag::WILL {
        0 => None,
        _ => Some(read_will(&mut reader, flags, version)?),
    };
    // In version 3.1 a packet that ends here is valid, whatever the flags say.
    let has_more = version != Version::V3_1 || !reader.is_empty();
    let user_name = match flags & flag::USER_NAME {
        0 => None,
        _ => has_more.then(|| reader.string()).transpose()?,
    };
    let has_more = version != Version::V3_1 || !reader.is_empty();
    let password = match flags & flag::PASSWORD {
        0 => None,
        _ => has_more.then(|| reader.binary()).transpose()?.map(Secret),
    };
    reader.end()?;
    let clean_start = flags & flag::CLEAN_START != 0;
    Ok(Connect {
        version,
        clean_start,
        keep_alive_s,
        properties,
        client_id,
        will,
        user_name,
        password,
    })
}

fn check_flags(flags: u8, version: Version) -> Result<(), MqttError> {
    let fault = if flags & flag::RESERVED != 0 && version != Version::V3_1 {
        "the reserved flag of CONNECT is set"
    } else if flags & flag::WILL != 0 && will_qos(flags).is_none() {
        "the QoS of the will is 3"
    } else if flags & flag::WILL == 0
        && (flags >> flag::WILL_QOS_SHIFT & 3 != 0 || flags & flag::WILL_RETAIN != 0)
        && version != Version::V3_1
    {
        "QoS or retain without a will"
    } else if flags & flag::PASSWORD != 0
        && flags & flag::USER_NAME == 0
        && !version.has_properties()
    {
        "a password without a user name"
    } else {
        return Ok(());
    };
    Err(MqttError::ConnectFlags(fault))
}

fn will_qos(flags: u8) -> Option<Qos> {
    Qos::from_bits(flags >> flag::WILL_QOS_SHIFT & 3)
}

fn read_properties<'a>(
    reader: &mut Reader<'a>,
    version: Version,
    place: Place,
) -> Result<Properties<'a>, MqttError> {
    if version.has_properties() {
        Properties::read(reader, place, Sender::Client)
    } else {
        Ok(Properties::default())
    }
}

fn read_will<'a>(
    reader: &mut Reader<'a>,
    flags: u8,
    version: Version,
) -> Result<Will<'a>, MqttError> {
    let properties = read_properties(reader, version, Place::Will)?;
    let topic = reader.string()?;
    check_topic(topic)?;
    let payload = reader.binary()?;
    let qos = will_qos(flags).ok_or(MqttError::InvalidQos)?;
    let retain = flags & flag::WILL_RETAIN != 0;
    Ok(Will { qos, retain, topic, payload, properties })
}

pub(super) fn write_connect(
    connect: &Connect<'_>,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    if connect.user_name.is_none()
        && connect.password.is_some()
        && !connect.version.has_properties()
    {
        return Err(EncodeError::NotInVersion);
    }
    write_packet(PacketType::Connect.first_byte(), connect, limits, out)
}

impl Connect<'_> {
    fn flags(&self) -> u8 {
        let bit = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let will = self.will.as_ref().map_or(0, |will| {
            let qos = (will.qos as u8) << flag::WILL_QOS_SHIFT;
            flag::WILL | qos | bit(will.retain, flag::WILL_RETAIN)
        });
        bit(self.clean_start, flag::CLEAN_START)
            | will
            | bit(self.password.is_some(), flag::PASSWORD)
            | bit(self.user_name.is_some(), flag::USER_NAME)
    }
}

impl Body for Connect<'_> {
    fn write<S: Sink>(&self, keep: Keep, out: &mut S) {
        let (name, level) = self.version.announcement();
        out.string(name);
        out.byte(level);
        out.byte(self.flags());
        out.u16(self.keep_alive_s);
        let has_properties = self.version.has_properties();
        if has_properties {
            self.properties.write(keep, out);
        }
        out.string(self.client_id);
        if let Some(will) = &self.will {
            if has_properties {
                will.properties.write(keep, out);
            }
            out.string(will.topic);
            out.binary(will.payload);
        }
        if let Some(user_name) = self.user_name {
            out.string(user_name);
        }
        if let Some(password) = self.password {
            out.binary(password.0);
        }
    }
}
