//! The properties of one packet: a list that `decode` has checked, with one getter for each.

use super::property::{Property, SubscriptionId, UserProperty, id};
use super::reader::Reader;
use super::sink::{Count, Keep, Sink};
use super::topic::check_topic;
use super::{MqttError, Qos, Secret};
use std::num::{NonZeroU16, NonZeroU32};

/// A place for properties: a packet, or the will in CONNECT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Connect,
    Will,
    ConnAck,
    Publish,
    /// PUBACK, PUBREC, PUBREL and PUBCOMP.
    Ack,
    Subscribe,
    SubAck,
    Unsubscribe,
    UnsubAck,
    Disconnect,
    Auth,
}

impl Place {
    pub(super) const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// The sender of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sender {
    Client,
    Server,
}

/// The properties of a packet. Iterating cannot fail: `decode` has already walked the wire form
/// once. Empty in versions 3.1 and 3.1.1.
///
/// Two lists are equal if their properties are, in their order, wherever they are stored.
#[derive(Clone, Copy)]
pub struct Properties<'a> {
    kept: Kept<'a>,
    /// One bit for each identifier in the list: an absent property costs no walk.
    present: u64,
}

#[derive(Clone, Copy)]
enum Kept<'a> {
    Slice(&'a [Property<'a>]),
    Wire(&'a [u8]),
}

/// Declares a getter for each property that occurs once.
macro_rules! getters {
    ($($(#[$doc:meta])* $getter:ident = $name:ident($type:ty), $id:literal;)*) => {
        impl<'a> Properties<'a> {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $getter(&self) -> Option<$type> {
                    if !self.has($id) {
                        return None;
                    }
                    self.iter().find_map(|property| match property {
                        Property::$name(value) => Some(value),
                        _ => None,
                    })
                }
            )*
        }
    };
}

getters! {
    /// Whether the payload is UTF-8.
    payload_format = PayloadFormat(bool), 0x01;
    /// The lifetime of the message in seconds.
    message_expiry_s = MessageExpiry(u32), 0x02;
    /// The content type of the payload.
    content_type = ContentType(&'a str), 0x03;
    /// The topic for answers.
    response_topic = ResponseTopic(&'a str), 0x08;
    /// Data that an answer repeats.
    correlation_data = CorrelationData(&'a [u8]), 0x09;
    /// The identifier of the subscriptions in SUBSCRIBE; the first one of PUBLISH.
    subscription_id = SubscriptionId(SubscriptionId), 0x0B;
    /// The lifetime of the session after the connection, in seconds; `u32::MAX` has no end.
    session_expiry_s = SessionExpiry(u32), 0x11;
    /// The client identifier that the server chose.
    assigned_client_id = AssignedClientId(&'a str), 0x12;
    /// The keep alive that the client must use, in seconds.
    server_keep_alive_s = ServerKeepAlive(u16), 0x13;
    /// The name of the authentication method.
    authentication_method = AuthenticationMethod(&'a str), 0x15;
    /// Data of the authentication method.
    authentication_data = AuthenticationData(Secret<'a>), 0x16;
    /// Whether the client wants reason strings and user properties in answers. Default: true.
    request_problem_information = RequestProblemInformation(bool), 0x17;
    /// The delay of the will message in seconds.
    will_delay_s = WillDelay(u32), 0x18;
    /// Whether the client wants response information. Default: false.
    request_response_information = RequestResponseInformation(bool), 0x19;
    /// The basis of the client's response topics.
    response_information = ResponseInformation(&'a str), 0x1A;
    /// Another server to use.
    server_reference = ServerReference(&'a str), 0x1C;
    /// The reason as text for people.
    reason_string = ReasonString(&'a str), 0x1F;
    /// The maximum number of open exchanges of QoS 1 and 2. Default: 65,535.
    receive_maximum = ReceiveMaximum(NonZeroU16), 0x21;
    /// The greatest topic alias that the sender accepts. Default: 0.
    topic_alias_maximum = TopicAliasMaximum(u16), 0x22;
    /// The number that stands for the topic name.
    topic_alias = TopicAlias(NonZeroU16), 0x23;
    /// The highest QoS that the server supports. Default: [`Qos::Two`].
    maximum_qos = MaximumQos(Qos), 0x24;
    /// Whether the server supports retained messages. Default: true.
    retain_available = RetainAvailable(bool), 0x25;
    /// The maximum length of a packet that the sender accepts, in bytes. Default: no maximum.
    maximum_packet_size = MaximumPacketSize(NonZeroU32), 0x27;
    /// Whether the server supports wildcards in filters. Default: true.
    wildcard_subscription_available = WildcardSubscriptionAvailable(bool), 0x28;
    /// Whether the server supports subscription identifiers. Default: true.
    subscription_id_available = SubscriptionIdAvailable(bool), 0x29;
    /// Whether the server supports shared subscriptions. Default: true.
    shared_subscription_available = SharedSubscriptionAvailable(bool), 0x2A;
}

impl<'a> Properties<'a> {
    /// Whether there are no properties.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// The properties, in their order on the wire.
    #[must_use]
    pub fn iter(&self) -> PropertyIter<'a> {
        PropertyIter(self.kept)
    }

    /// The user properties, in their order on the wire.
    pub fn user(&self) -> impl Iterator<Item = UserProperty<'a>> + Clone + use<'a> {
        let iter = if self.has(id::USER) { self.iter() } else { PropertyIter(Kept::Slice(&[])) };
        iter.filter_map(|property| match property {
            Property::User(user) => Some(user),
            _ => None,
        })
    }

    /// The subscription identifiers of a server's PUBLISH; at most one in SUBSCRIBE.
    pub fn subscription_ids(&self) -> impl Iterator<Item = SubscriptionId> + Clone + use<'a> {
        let has_some = self.has(id::SUBSCRIPTION_ID);
        let iter = if has_some { self.iter() } else { PropertyIter(Kept::Slice(&[])) };
        iter.filter_map(|property| match property {
            Property::SubscriptionId(id) => Some(id),
            _ => None,
        })
    }

    pub(super) fn has(&self, id: u8) -> bool {
        self.present & bit(id) != 0
    }

    /// Reads the length and walks all properties, so that later walks cannot fail.
    pub(super) fn read(
        reader: &mut Reader<'a>,
        place: Place,
        sender: Sender,
    ) -> Result<Self, MqttError> {
        let length = reader.variable()? as usize;
        let bytes = reader.take(length)?;
        let mut rest = Reader::new(bytes);
        let mut present = 0;
        while !rest.is_empty() {
            let id = read_id(&mut rest, place, sender)?;
            let may_repeat = match id {
                id::USER => true,
                id::SUBSCRIPTION_ID => place == Place::Publish,
                _ => false,
            };
            if present & bit(id) != 0 && !may_repeat {
                return Err(MqttError::RepeatedProperty(id));
            }
            present |= bit(id);
            if let Property::ResponseTopic(topic) = Property::read_value(id, &mut rest)? {
                check_topic(topic).map_err(|_| MqttError::ResponseTopic)?;
            }
        }
        let properties = Self { kept: Kept::Wire(bytes), present };
        if properties.has(id::AUTHENTICATION_DATA) && !properties.has(id::AUTHENTICATION_METHOD) {
            return Err(MqttError::AuthenticationMethodMissing);
        }
        Ok(properties)
    }

    /// Writes the length and the properties to keep.
    pub(super) fn write<S: Sink>(&self, keep: Keep, out: &mut S) {
        let count = Count::of(|count| self.write_each(keep, count));
        out.variable(count.length());
        self.write_each(keep, out);
    }

    /// Whether [`Properties::write`] would write a length of 0.
    pub(super) fn is_empty_with(&self, keep: Keep) -> bool {
        let dropped = match keep {
            Keep::All => 0,
            Keep::WithoutUser => bit(id::USER),
            Keep::WithoutProblem => bit(id::USER) | bit(id::REASON_STRING),
        };
        self.present & !dropped == 0
    }

    /// Writes the properties to keep, without their length.
    pub(super) fn write_each<S: Sink>(&self, keep: Keep, out: &mut S) {
        if let (Keep::All, Kept::Wire(bytes)) = (keep, self.kept) {
            out.bytes(bytes);
            return;
        }
        let is_kept = |property: &Property<'_>| match property {
            Property::User(_) => keep == Keep::All,
            Property::ReasonString(_) => keep != Keep::WithoutProblem,
            _ => true,
        };
        self.iter().filter(is_kept).for_each(|property| property.write(out));
    }
}

/// Reads an identifier, and checks that the packet may contain the property.
fn read_id(reader: &mut Reader<'_>, place: Place, sender: Sender) -> Result<u8, MqttError> {
    let number = reader.variable()?;
    let places = Property::places(number);
    let Some(id) = u8::try_from(number).ok().filter(|_| places != 0) else {
        return Err(MqttError::UnknownProperty(number));
    };
    if places & place.bit() == 0 {
        return Err(MqttError::MisplacedProperty(id));
    }
    match (id, place, sender) {
        (id::SUBSCRIPTION_ID, Place::Publish, Sender::Client)
        | (id::SESSION_EXPIRY, Place::Disconnect, Sender::Server) => {
            Err(MqttError::PropertyDirection(id))
        }
        _ => Ok(id),
    }
}

/// The bit of an identifier in `Properties::present`; identifiers are below 64.
const fn bit(id: u8) -> u64 {
    1 << (id & 63)
}

impl Default for Properties<'_> {
    fn default() -> Self {
        Self { kept: Kept::Slice(&[]), present: 0 }
    }
}

impl<'a> From<&'a [Property<'a>]> for Properties<'a> {
    /// Properties to encode. The caller guarantees that the packet may contain each, and how often.
    fn from(slice: &'a [Property<'a>]) -> Self {
        let present = slice.iter().fold(0, |present, property| present | bit(property.id()));
        Self { kept: Kept::Slice(slice), present }
    }
}

impl<'a, const N: usize> From<&'a [Property<'a>; N]> for Properties<'a> {
    fn from(array: &'a [Property<'a>; N]) -> Self {
        Self::from(array.as_slice())
    }
}

impl<'a> IntoIterator for Properties<'a> {
    type Item = Property<'a>;
    type IntoIter = PropertyIter<'a>;

    fn into_iter(self) -> PropertyIter<'a> {
        self.iter()
    }
}

impl PartialEq for Properties<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.present == other.present && self.iter().eq(other.iter())
    }
}

impl Eq for Properties<'_> {}

impl std::fmt::Debug for Properties<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The iterator of [`Properties`].
#[derive(Clone)]
pub struct PropertyIter<'a>(Kept<'a>);

impl<'a> Iterator for PropertyIter<'a> {
    type Item = Property<'a>;

    fn next(&mut self) -> Option<Property<'a>> {
        match &mut self.0 {
            Kept::Slice(slice) => {
                let (first, rest) = slice.split_first()?;
                *slice = rest;
                Some(*first)
            }
            Kept::Wire(bytes) => {
                let (&id, rest) = bytes.split_first()?;
                let mut reader = Reader::new(rest);
                let property = Property::read_value(id, &mut reader).ok()?;
                *bytes = reader.rest;
                Some(property)
            }
        }
    }
}
