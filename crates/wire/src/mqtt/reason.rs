//! Reason codes (section 2.4), the packets that permit each, and the return codes of version 3.

use super::PacketType;

/// Declares the codes with their numbers and texts.
macro_rules! reason_codes {
    ($($(#[$default:meta])? $name:ident = $number:literal, $text:literal;)*) => {
        /// The result of a request, as one byte. Codes from 0x80 are failures.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        #[repr(u8)]
        pub enum ReasonCode {
            $(#[doc = $text] $(#[$default])? $name = $number,)*
        }

        impl ReasonCode {
            /// All codes, in ascending order.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Converts the byte of a packet; `None` if MQTT 5.0 does not define it.
            #[must_use]
            pub const fn from_byte(byte: u8) -> Option<Self> {
                match byte {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// A short text for people.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

reason_codes! {
    #[default] Success = 0x00, "success; normal disconnection; QoS 0 granted";
    GrantedQos1 = 0x01, "QoS 1 granted";
    GrantedQos2 = 0x02, "QoS 2 granted";
    DisconnectWithWill = 0x04, "disconnection, with the will message";
    NoMatchingSubscribers = 0x10, "no subscriber matches";
    NoSubscriptionExisted = 0x11, "no such subscription";
    ContinueAuthentication = 0x18, "the authentication continues";
    Reauthenticate = 0x19, "another authentication begins";
    Unspecified = 0x80, "unspecified error";
    MalformedPacket = 0x81, "malformed packet";
    ProtocolError = 0x82, "protocol error";
    ImplementationSpecific = 0x83, "error of this implementation";
    UnsupportedVersion = 0x84, "unsupported protocol version";
    ClientIdInvalid = 0x85, "invalid client identifier";
    BadCredentials = 0x86, "bad user name or password";
    NotAuthorized = 0x87, "not authorized";
    ServerUnavailable = 0x88, "server unavailable";
    ServerBusy = 0x89, "server busy";
    Banned = 0x8A, "banned";
    ServerShuttingDown = 0x8B, "server is shutting down";
    BadAuthenticationMethod = 0x8C, "bad authentication method";
    KeepAliveTimeout = 0x8D, "keep alive timeout";
    SessionTakenOver = 0x8E, "session taken over";
    TopicFilterInvalid = 0x8F, "invalid topic filter";
    TopicNameInvalid = 0x90, "invalid topic name";
    PacketIdInUse = 0x91, "packet identifier in use";
    PacketIdNotFound = 0x92, "packet identifier not found";
    ReceiveMaximumExceeded = 0x93, "receive maximum exceeded";
    TopicAliasInvalid = 0x94, "invalid topic alias";
    PacketTooLarge = 0x95, "packet too large";
    MessageRateTooHigh = 0x96, "message rate too high";
    QuotaExceeded = 0x97, "quota exceeded";
    AdministrativeAction = 0x98, "administrative action";
    PayloadFormatInvalid = 0x99, "invalid payload format";
    RetainNotSupported = 0x9A, "retained messages are not supported";
    QosNotSupported = 0x9B, "this QoS is not supported";
    UseAnotherServer = 0x9C, "use another server for now";
    ServerMoved = 0x9D, "use another server from now on";
    SharedSubscriptionsNotSupported = 0x9E, "shared subscriptions are not supported";
    ConnectionRateExceeded = 0x9F, "connection rate exceeded";
    MaximumConnectTime = 0xA0, "maximum connect time";
    SubscriptionIdsNotSupported = 0xA1, "subscription identifiers are not supported";
    WildcardSubscriptionsNotSupported = 0xA2, "wildcard subscriptions are not supported";
}

impl ReasonCode {
    /// The number on the wire.
    #[must_use]
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// Whether the code reports a failure.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        self.byte() >= 0x80
    }

    /// Whether packets of this type may contain the code, in either direction (the tables of
    /// sections 3.2 to 3.15). False for packets without a reason code.
    #[must_use]
    pub fn is_permitted_in(self, packet: PacketType) -> bool {
        let byte = self.byte();
        match packet {
            PacketType::ConnAck => matches!(
                byte,
                0x00 | 0x80..=0x8A | 0x8C | 0x90 | 0x95 | 0x97 | 0x99..=0x9D | 0x9F
            ),
            PacketType::PubAck | PacketType::PubRec => {
                matches!(byte, 0x00 | 0x10 | 0x80 | 0x83 | 0x87 | 0x90 | 0x91 | 0x97 | 0x99)
            }
            PacketType::PubRel | PacketType::PubComp => matches!(byte, 0x00 | 0x92),
            PacketType::SubAck => matches!(
                byte,
                0x00..=0x02 | 0x80 | 0x83 | 0x87 | 0x8F | 0x91 | 0x97 | 0x9E | 0xA1 | 0xA2
            ),
            PacketType::UnsubAck => {
                matches!(byte, 0x00 | 0x11 | 0x80 | 0x83 | 0x87 | 0x8F | 0x91)
            }
            PacketType::Disconnect => matches!(
                byte,
                0x00 | 0x04
                    | 0x80..=0x83
                    | 0x87
                    | 0x89
                    | 0x8B..=0x90
                    | 0x93..=0xA2
            ),
            PacketType::Auth => matches!(byte, 0x00 | 0x18 | 0x19),
            _ => false,
        }
    }

    /// The return code of CONNACK in versions 3.1 and 3.1.1 (section 3.2.2.3 there). `None` if
    /// those versions have no answer: the server closes the connection without one.
    #[must_use]
    pub const fn v3_return_code(self) -> Option<u8> {
        match self {
            Self::Success => Some(0),
            Self::UnsupportedVersion => Some(1),
            Self::ClientIdInvalid => Some(2),
            Self::Unspecified
            | Self::ImplementationSpecific
            | Self::ServerUnavailable
            | Self::ServerBusy
            | Self::ServerShuttingDown
            | Self::QuotaExceeded
            | Self::UseAnotherServer
            | Self::ServerMoved
            | Self::ConnectionRateExceeded => Some(3),
            Self::BadCredentials | Self::BadAuthenticationMethod => Some(4),
            Self::NotAuthorized
            | Self::Banned
            | Self::TopicNameInvalid
            | Self::RetainNotSupported
            | Self::QosNotSupported => Some(5),
            _ => None,
        }
    }

    /// The code that a return code of version 3.1 or 3.1.1 means; `None` from 6 on.
    #[must_use]
    pub const fn from_v3_return_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Success),
            1 => Some(Self::UnsupportedVersion),
            2 => Some(Self::ClientIdInvalid),
            3 => Some(Self::ServerUnavailable),
            4 => Some(Self::BadCredentials),
            5 => Some(Self::NotAuthorized),
            _ => None,
        }
    }
}

impl std::fmt::Display for ReasonCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "0x{:02x} ({})", self.byte(), self.text())
    }
}
