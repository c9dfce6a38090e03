//! The properties of MQTT 5.0 (section 2.2.2, table 2-4): identifier, type and permitted packets.

use super::properties::Place;
use super::reader::Reader;
use super::sink::Sink;
use super::{MqttError, Qos, Secret, VARIABLE_MAX};
use std::num::{NonZeroU16, NonZeroU32};

/// The identifier that a client gives a subscription, 1 to [`VARIABLE_MAX`] (section 3.8.2.1.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubscriptionId(NonZeroU32);

impl SubscriptionId {
    /// Checks the range; `None` outside of it.
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) if number.get() <= VARIABLE_MAX => Some(Self(number)),
            _ => None,
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

/// A name and a value that only applications interpret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserProperty<'a> {
    /// The name; names may repeat.
    pub name: &'a str,
    /// The value.
    pub value: &'a str,
}

/// A type of values.
trait Field<'a>: Sized {
    /// Reads a value of the property `id`.
    fn read(reader: &mut Reader<'a>, id: u8) -> Result<Self, MqttError>;
    fn write<S: Sink>(self, out: &mut S);
}

/// Declares the properties with their packets.
macro_rules! properties {
    ($($(#[$doc:meta])* $name:ident($type:ty) = $id:literal in $($place:ident)|+;)*) => {
        /// A property. The types exclude the values that the specification forbids.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Property<'a> {
            $($(#[$doc])* $name($type),)*
        }

        impl<'a> Property<'a> {
            /// The identifier on the wire.
            #[must_use]
            pub const fn id(&self) -> u8 {
                match self {
                    $(Self::$name(_) => $id,)*
                }
            }

            /// The places of the property with this identifier, as bits; 0 if it does not exist.
            pub(super) const fn places(id: u32) -> u16 {
                match id {
                    $($id => 0 $(| Place::$place.bit())+,)*
                    _ => 0,
                }
            }

            /// Reads the value of the property with this identifier.
            pub(super) fn read_value(id: u8, reader: &mut Reader<'a>) -> Result<Self, MqttError> {
                match id {
                    $($id => Ok(Self::$name(Field::read(reader, id)?)),)*
                    _ => Err(MqttError::UnknownProperty(u32::from(id))),
                }
            }

            pub(super) fn write<S: Sink>(self, out: &mut S) {
                // Every identifier is one byte, as a variable byte integer, too.
                out.byte(self.id());
                match self {
                    $(Self::$name(value) => value.write(out),)*
                }
            }
        }
    };
}

properties! {
    /// Whether the payload is UTF-8.
    PayloadFormat(bool) = 0x01 in Publish | Will;
    /// The lifetime of the message in seconds.
    MessageExpiry(u32) = 0x02 in Publish | Will;
    /// The content type of the payload.
    ContentType(&'a str) = 0x03 in Publish | Will;
    /// The topic for answers.
    ResponseTopic(&'a str) = 0x08 in Publish | Will;
    /// Data that an answer repeats.
    CorrelationData(&'a [u8]) = 0x09 in Publish | Will;
    /// The identifier of a subscription. In a server's PUBLISH it may repeat.
    SubscriptionId(SubscriptionId) = 0x0B in Publish | Subscribe;
    /// The lifetime of the session after the connection, in seconds; `u32::MAX` has no end.
    SessionExpiry(u32) = 0x11 in Connect | ConnAck | Disconnect;
    /// The client identifier that the server chose.
    AssignedClientId(&'a str) = 0x12 in ConnAck;
    /// The keep alive that the client must use, in seconds.
    ServerKeepAlive(u16) = 0x13 in ConnAck;
    /// The name of the authentication method.
    AuthenticationMethod(&'a str) = 0x15 in Connect | ConnAck | Auth;
    /// Data of the authentication method.
    AuthenticationData(Secret<'a>) = 0x16 in Connect | ConnAck | Auth;
    /// Whether the client wants reason strings and user properties in answers.
    RequestProblemInformation(bool) = 0x17 in Connect;
    /// The delay of the will message in seconds.
    WillDelay(u32) = 0x18 in Will;
    /// Whether the client wants [`Property::ResponseInformation`].
    RequestResponseInformation(bool) = 0x19 in Connect;
    /// The basis of the client's response topics.
    ResponseInformation(&'a str) = 0x1A in ConnAck;
    /// Another server to use.
    ServerReference(&'a str) = 0x1C in ConnAck | Disconnect;
    /// The reason as text for people.
    ReasonString(&'a str) = 0x1F in ConnAck | Ack | SubAck | UnsubAck | Disconnect | Auth;
    /// The maximum number of open exchanges of QoS 1 and 2.
    ReceiveMaximum(NonZeroU16) = 0x21 in Connect | ConnAck;
    /// The greatest topic alias that the sender accepts.
    TopicAliasMaximum(u16) = 0x22 in Connect | ConnAck;
    /// A number that stands for the topic name.
    TopicAlias(NonZeroU16) = 0x23 in Publish;
    /// The highest QoS that the server supports, below [`Qos::Two`].
    MaximumQos(Qos) = 0x24 in ConnAck;
    /// Whether the server supports retained messages.
    RetainAvailable(bool) = 0x25 in ConnAck;
    /// A property of the application. May repeat in all packets.
    User(UserProperty<'a>) = 0x26 in Connect | Will | ConnAck | Publish | Ack | Subscribe | SubAck
        | Unsubscribe | UnsubAck | Disconnect | Auth;
    /// The maximum length of a packet that the sender accepts, in bytes.
    MaximumPacketSize(NonZeroU32) = 0x27 in Connect | ConnAck;
    /// Whether the server supports wildcards in filters.
    WildcardSubscriptionAvailable(bool) = 0x28 in ConnAck;
    /// Whether the server supports subscription identifiers.
    SubscriptionIdAvailable(bool) = 0x29 in ConnAck;
    /// Whether the server supports shared subscriptions.
    SharedSubscriptionAvailable(bool) = 0x2A in ConnAck;
}

/// Identifiers with rules of their own.
pub(super) mod id {
    pub(in super::super) const SUBSCRIPTION_ID: u8 = 0x0B;
    pub(in super::super) const SESSION_EXPIRY: u8 = 0x11;
    pub(in super::super) const AUTHENTICATION_METHOD: u8 = 0x15;
    pub(in super::super) const AUTHENTICATION_DATA: u8 = 0x16;
    pub(in super::super) const REASON_STRING: u8 = 0x1F;
    pub(in super::super) const TOPIC_ALIAS: u8 = 0x23;
    pub(in super::super) const USER: u8 = 0x26;
}

impl<'a> Field<'a> for bool {
    fn read(reader: &mut Reader<'a>, id: u8) -> Result<Self, MqttError> {
        match reader.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(MqttError::PropertyValue(id)),
        }
    }

    fn write<S: Sink>(self, out: &mut S) {
        out.byte(u8::from(self));
    }
}

impl<'a> Field<'a> for Qos {
    /// Reads a maximum QoS: a server without a maximum omits the property.
    fn read(reader: &mut Reader<'a>, id: u8) -> Result<Self, MqttError> {
        match reader.byte()? {
            0 => Ok(Qos::Zero),
            1 => Ok(Qos::One),
            _ => Err(MqttError::PropertyValue(id)),
        }
    }

    fn write<S: Sink>(self, out: &mut S) {
        out.byte(self as u8);
    }
}

impl<'a> Field<'a> for u16 {
    fn read(reader: &mut Reader<'a>, _id: u8) -> Result<Self, MqttError> {
        reader.u16()
    }

    fn write<S: Sink>(self, out: &mut S) {
        out.u16(self);
    }
}

impl<'a> Field<'a> for NonZeroU16 {
    fn read(reader: &mut Reader<'a>, id: u8) -> Result<Self, MqttError> {
        Self::new(reader.u16()?).ok_or(match id {
            id::TOPIC_ALIAS => MqttError::TopicAliasZero,
            _ => MqttError::PropertyValue(id),
        })
    }

    fn write<S: Sink>(self, out: &mut S) {
        out.u16(self.get());
    }
}

impl<'a> Field<'a> for u32 {
    fn read(reader: &mut Reader<'a>, _id: u8) -> Result<Self, MqttError> {
        reader.u32()
    }

    fn write<S: Sink>(self, out: &mut S) {
        out.u32(self);
    }
}

impl<'a> Field<'a> for NonZeroU32 {
    fn read(reader: &mut Reader<'a>, id: u8) -> Result<Self, MqttError> {
        Self::new(reader.u32()?).ok_or(MqttError::PropertyValue(id))
    }

    fn write<S: Sink>(self, out: &mut S) {
        out.u32(self.get());
    }
}

impl<'a> Field<'a> for SubscriptionId {
    fn read(reader: &mut Reader<'a>, id: u8) -> Result<Self, MqttError> {
        Self::new(reader.variable()?).ok_or(MqttError::PropertyValue(id))
    }

    fn write<S: Sink>(self, out: &mut S) {
        out.variable(self.get());
    }
}

impl<'a> Field<'a> for &'a str {
    fn read(reader: &mut Reader<'a>, _id: u8) -> Result<Self, MqttError> {
        reader.string()
    }

    fn write<S: Sink>(self, out: &mut S) {
        out.string(self);
    }
}

impl<'a> Field<'a> for &'a [u8] {
    fn read(reader: &mut Reader<'a>, _id: u8) -> Result<Self, MqttError> {
        reader.binary()
    }

    fn write<S: Sink>(self, out: &mut S) {
        out.binary(self);
    }
}

impl<'a> Field<'a> for Secret<'a> {
    fn read(reader: &mut Reader<'a>, _id: u8) -> Result<Self, MqttError> {
        reader.binary().map(Secret)
    }

    fn write<S: Sink>(self, out: &mut S) {
        out.binary(self.0);
    }
}

impl<'a> Field<'a> for UserProperty<'a> {
    fn read(reader: &mut Reader<'a>, _id: u8) -> Result<Self, MqttError> {
        let name = reader.string()?;
        let value = reader.string()?;
        Ok(Self { name, value })
    }

    fn write<S: Sink>(self, out: &mut S) {
        out.string(self.name);
        out.string(self.value);
    }
}
