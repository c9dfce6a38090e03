//! Alerts (RFC 8446, section 6; RFC 5246, section 7.2): the faults that end a connection, and their
//! codes.
//!
//! Place: the record layer returns a [`Fault`]; the adaptor sends its alert and closes. Values
//! only.

use std::fmt;

/// Level `warning`.
pub(crate) const WARNING: u8 = 1;
/// Level `fatal`.
pub(crate) const FATAL: u8 = 2;

/// The numbers of the alerts that we send or check for.
pub(crate) mod description {
    pub(crate) const CLOSE_NOTIFY: u8 = 0;
    pub(crate) const UNEXPECTED_MESSAGE: u8 = 10;
    pub(crate) const BAD_RECORD_MAC: u8 = 20;
    pub(crate) const RECORD_OVERFLOW: u8 = 22;
    pub(crate) const DECODE_ERROR: u8 = 50;
    pub(crate) const PROTOCOL_VERSION: u8 = 70;
    pub(crate) const INTERNAL_ERROR: u8 = 80;
    pub(crate) const USER_CANCELED: u8 = 90;
    pub(crate) const NO_RENEGOTIATION: u8 = 100;
}

/// The reason for which an established connection must end; each is fatal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The peer has sent a fatal alert, by its number; nothing is sent back.
    Alerted(u8),
    /// A record or message that is not allowed at this point.
    UnexpectedMessage,
    /// A record that does not verify.
    BadRecordMac,
    /// A record or its content is longer than allowed.
    RecordOverflow,
    /// A malformed message.
    Decode,
    /// A record of another version of the protocol.
    Version,
    /// Our own side must end: a key is used up (TLS 1.2), or the library refuses.
    Internal,
}

impl Fault {
    /// The alert to send; none if the peer has ended the connection.
    pub(crate) fn description(self) -> Option<u8> {
        Some(match self {
            Fault::Alerted(_) => return None,
            Fault::UnexpectedMessage => description::UNEXPECTED_MESSAGE,
            Fault::BadRecordMac => description::BAD_RECORD_MAC,
            Fault::RecordOverflow => description::RECORD_OVERFLOW,
            Fault::Decode => description::DECODE_ERROR,
            Fault::Version => description::PROTOCOL_VERSION,
            Fault::Internal => description::INTERNAL_ERROR,
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Alerted(number) => {
                let name = rustls::AlertDescription::from(*number);
                write!(formatter, "the peer sent the TLS alert {number} ({name:?})")
            }
            Fault::UnexpectedMessage => formatter.write_str("an unexpected TLS message"),
            Fault::BadRecordMac => {
                formatter.write_str("a TLS record with a wrong authentication tag")
            }
            Fault::RecordOverflow => formatter.write_str("a TLS record is too long"),
            Fault::Decode => formatter.write_str("a malformed TLS message"),
            Fault::Version => formatter.write_str("a TLS record of another version"),
            Fault::Internal => formatter.write_str("an internal error of the TLS connection"),
        }
    }
}

impl std::error::Error for Fault {}
