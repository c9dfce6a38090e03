//! Errors of decoding, with the reason code for the sender, and of encoding.

use super::ReasonCode;

/// The reason why bytes are not a packet of this protocol.
///
/// The connection must be closed. A server first sends CONNACK or DISCONNECT with
/// [`MqttError::reason`], if the version has such a packet (section 4.13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MqttError {
    /// The packet ends inside a field.
    Truncated,
    /// Bytes follow the last field.
    TrailingBytes,
    /// The remaining length, or another variable byte integer, has more than four bytes.
    VariableTooLong,
    /// A variable byte integer has more bytes than its value needs.
    VariableNotMinimal,
    /// The packet exceeds the bound of the receiver; its length in bytes.
    PacketTooLarge(usize),
    /// The packet type is reserved; its number.
    ReservedType(u8),
    /// The peer may not send packets of this type; its number.
    WrongDirection(u8),
    /// The first packet is not CONNECT.
    ConnectExpected,
    /// CONNECT came twice.
    ConnectRepeated,
    /// Reserved flags of the fixed header have other values than the specification's.
    HeaderFlags(u8),
    /// The flags of CONNECT or CONNACK contradict each other or use reserved bits.
    ConnectFlags(&'static str),
    /// The name of the protocol is neither `MQTT` nor `MQIsdp`.
    UnknownProtocol,
    /// The protocol has no such level here.
    UnsupportedLevel(u8),
    /// A string is not well-formed UTF-8.
    InvalidUtf8,
    /// A string contains U+0000.
    NullCharacter,
    /// The QoS is 3.
    InvalidQos,
    /// DUP is set, but the QoS is 0.
    DuplicateQos0,
    /// The packet identifier is 0.
    PacketIdZero,
    /// The topic name is empty or contains a wildcard.
    TopicName,
    /// The topic name is empty, and there is no topic alias.
    TopicMissing,
    /// The response topic is empty or contains a wildcard.
    ResponseTopic,
    /// The topic filter is empty, has a misplaced wildcard, or is not a valid shared filter.
    TopicFilter,
    /// A shared subscription asks for no-local.
    NoLocalShared,
    /// Reserved bits of the subscription options are set.
    SubscriptionOptions,
    /// The subscription options ask for QoS 3.
    SubscriptionQos,
    /// The retain handling is 3.
    RetainHandling,
    /// SUBSCRIBE or UNSUBSCRIBE has no filter, or its answer no reason code.
    EmptyList,
    /// The property does not exist; its identifier.
    UnknownProperty(u32),
    /// The packet may not contain this property; its identifier.
    MisplacedProperty(u8),
    /// The property may occur once; its identifier.
    RepeatedProperty(u8),
    /// The value of the property is out of range; its identifier.
    PropertyValue(u8),
    /// This side may not send the property in this packet; its identifier.
    PropertyDirection(u8),
    /// The topic alias is 0.
    TopicAliasZero,
    /// Authentication data, or AUTH, without an authentication method.
    AuthenticationMethodMissing,
    /// The packet may not contain this reason code.
    InvalidReasonCode(u8),
}

impl MqttError {
    /// The reason code that the specification names for this error.
    #[must_use]
    pub fn reason(&self) -> ReasonCode {
        match self {
            Self::Truncated
            | Self::TrailingBytes
            | Self::VariableTooLong
            | Self::VariableNotMinimal
            | Self::ReservedType(_)
            | Self::HeaderFlags(_)
            | Self::ConnectFlags(_)
            | Self::InvalidUtf8
            | Self::NullCharacter
            | Self::InvalidQos
            | Self::DuplicateQos0
            | Self::SubscriptionOptions
            | Self::UnknownProperty(_)
            | Self::MisplacedProperty(_) => ReasonCode::MalformedPacket,
            Self::WrongDirection(_)
            | Self::ConnectExpected
            | Self::ConnectRepeated
            | Self::PacketIdZero
            | Self::TopicMissing
            | Self::ResponseTopic
            | Self::NoLocalShared
            | Self::SubscriptionQos
            | Self::RetainHandling
            | Self::EmptyList
            | Self::RepeatedProperty(_)
            | Self::PropertyValue(_)
            | Self::PropertyDirection(_)
            | Self::AuthenticationMethodMissing
            | Self::InvalidReasonCode(_) => ReasonCode::ProtocolError,
            Self::PacketTooLarge(_) => ReasonCode::PacketTooLarge,
            Self::UnknownProtocol | Self::UnsupportedLevel(_) => ReasonCode::UnsupportedVersion,
            Self::TopicName => ReasonCode::TopicNameInvalid,
            Self::TopicFilter => ReasonCode::TopicFilterInvalid,
            Self::TopicAliasZero => ReasonCode::TopicAliasInvalid,
        }
    }
}

impl std::fmt::Display for MqttError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            Self::Truncated => "the packet ends inside a field",
            Self::TrailingBytes => "bytes follow the last field",
            Self::VariableTooLong => "a variable byte integer has more than four bytes",
            Self::VariableNotMinimal => "a variable byte integer is not in its shortest form",
            Self::PacketTooLarge(bytes) => return write!(f, "a packet of {bytes} bytes"),
            Self::ReservedType(kind) => return write!(f, "packet type {kind} is reserved"),
            Self::WrongDirection(kind) => {
                return write!(f, "this side must not send packet type {kind}");
            }
            Self::ConnectExpected => "the first packet must be CONNECT",
            Self::ConnectRepeated => "CONNECT came twice",
            Self::HeaderFlags(flags) => {
                return write!(f, "invalid flags 0x{flags:x} in the fixed header");
            }
            Self::ConnectFlags(text) => text,
            Self::UnknownProtocol => "the protocol is not MQTT",
            Self::UnsupportedLevel(level) => {
                return write!(f, "unsupported protocol level {level}");
            }
            Self::InvalidUtf8 => "a string is not UTF-8",
            Self::NullCharacter => "a string contains U+0000",
            Self::InvalidQos => "QoS 3 is reserved",
            Self::DuplicateQos0 => "DUP is set in a message with QoS 0",
            Self::PacketIdZero => "the packet identifier is 0",
            Self::TopicName => "the topic name is empty or contains a wildcard",
            Self::TopicMissing => "neither a topic name nor a topic alias",
            Self::ResponseTopic => "the response topic is empty or contains a wildcard",
            Self::TopicFilter => "the topic filter is malformed",
            Self::NoLocalShared => "a shared subscription cannot have no-local",
            Self::SubscriptionOptions => "reserved bits of the subscription options are set",
            Self::SubscriptionQos => "a subscription cannot have QoS 3",
            Self::RetainHandling => "retain handling 3 is reserved",
            Self::EmptyList => "the payload is empty",
            Self::UnknownProperty(id) => return write!(f, "unknown property 0x{id:02x}"),
            Self::MisplacedProperty(id) => {
                return write!(f, "property 0x{id:02x} is not valid in this packet");
            }
            Self::RepeatedProperty(id) => return write!(f, "property 0x{id:02x} came twice"),
            Self::PropertyValue(id) => {
                return write!(f, "the value of property 0x{id:02x} is out of range");
            }
            Self::PropertyDirection(id) => {
                return write!(f, "this side must not send property 0x{id:02x} here");
            }
            Self::TopicAliasZero => "the topic alias is 0",
            Self::AuthenticationMethodMissing => "the authentication method is missing",
            Self::InvalidReasonCode(code) => {
                return write!(f, "reason code 0x{code:02x} is not valid in this packet");
            }
        };
        f.write_str(text)
    }
}

impl std::error::Error for MqttError {}

/// The reason why a value cannot be encoded. Nothing was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EncodeError {
    /// The packet exceeds [`super::Limits::packet_bytes_max`], even without the properties that may
    /// be dropped.
    PacketTooLarge,
    /// A string or binary field exceeds [`super::FIELD_BYTES_MAX`].
    FieldTooLong,
    /// The version has no such packet or no such reason code.
    NotInVersion,
}

impl std::fmt::Display for EncodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::PacketTooLarge => "the packet exceeds the receiver's maximum",
            Self::FieldTooLong => "a field exceeds 65,535 bytes",
            Self::NotInVersion => "this version of MQTT cannot express the packet",
        })
    }
}

impl std::error::Error for EncodeError {}
