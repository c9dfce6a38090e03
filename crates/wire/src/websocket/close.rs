//! Close codes and the payload of a close frame (RFC 6455 sections 5.5.1 and 7.4, and the IANA
//! registry).
//!
//! Place on the path: step 2, the last frame of a connection. Invariant: a decoded [`Close`] has a
//! code that is valid on the wire and a valid reason.

use std::fmt;

/// The maximum length of a close reason: a control frame's 125 bytes minus the code's two.
pub const REASON_BYTES_MAX: usize = 123;

/// The reason of a close. Any `u16`; [`CloseCode::is_sendable`] says whether it may be on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CloseCode(pub u16);

impl CloseCode {
    /// The purpose of the connection is fulfilled.
    pub const NORMAL: CloseCode = CloseCode(1000);
    /// The endpoint goes away: the server shuts down, or the user leaves the page.
    pub const GOING_AWAY: CloseCode = CloseCode(1001);
    /// The peer broke the protocol.
    pub const PROTOCOL_ERROR: CloseCode = CloseCode(1002);
    /// The endpoint does not accept this kind of data.
    pub const UNSUPPORTED_DATA: CloseCode = CloseCode(1003);
    /// Never on the wire: the close frame had no code.
    pub const NO_STATUS: CloseCode = CloseCode(1005);
    /// Never on the wire: the connection ended without a close frame.
    pub const ABNORMAL: CloseCode = CloseCode(1006);
    /// The data contradict their type: text that is not UTF-8.
    pub const INVALID_PAYLOAD: CloseCode = CloseCode(1007);
    /// A policy is violated and no other code fits.
    pub const POLICY_VIOLATION: CloseCode = CloseCode(1008);
    /// The message is larger than the endpoint accepts.
    pub const MESSAGE_TOO_BIG: CloseCode = CloseCode(1009);
    /// The client expected an extension that the server did not grant.
    pub const EXTENSION_REQUIRED: CloseCode = CloseCode(1010);
    /// The server cannot fulfil the request.
    pub const INTERNAL_ERROR: CloseCode = CloseCode(1011);
    /// The service restarts (IANA).
    pub const SERVICE_RESTART: CloseCode = CloseCode(1012);
    /// Try again later (IANA).
    pub const TRY_AGAIN_LATER: CloseCode = CloseCode(1013);
    /// A gateway received an invalid answer (IANA).
    pub const BAD_GATEWAY: CloseCode = CloseCode(1014);
    /// Never on the wire: the TLS handshake failed.
    pub const TLS_HANDSHAKE: CloseCode = CloseCode(1015);

    /// Whether the code may appear in a close frame: 1000 to 1003, 1007 to 1014, and 3000 to 4999.
    /// 1004, 1005, 1006 and 1015 are reserved, 1016 to 2999 unassigned, the rest out of range.
    pub const fn is_sendable(self) -> bool {
        matches!(self.0, 1000..=1003 | 1007..=1014 | 3000..=4999)
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A decoded close payload, borrowed from the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close<'a> {
    /// The code, or `None` for an empty payload (which counts as [`CloseCode::NO_STATUS`]).
    pub code: Option<CloseCode>,
    /// The reason, at most [`REASON_BYTES_MAX`] bytes; empty when there is no code.
    pub reason: &'a str,
}

/// The reason why a close payload is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseError {
    /// A payload of one byte cannot hold a code.
    OneByte,
    /// The code must not be on the wire.
    ForbiddenCode(CloseCode),
    /// The reason is not UTF-8.
    InvalidReason,
}

impl CloseError {
    /// The close code of the answer.
    pub const fn close_code(self) -> CloseCode {
        match self {
            CloseError::OneByte | CloseError::ForbiddenCode(_) => CloseCode::PROTOCOL_ERROR,
            CloseError::InvalidReason => CloseCode::INVALID_PAYLOAD,
        }
    }
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseError::OneByte => f.write_str("close payload of one byte"),
            CloseError::ForbiddenCode(code) => write!(f, "close code {code} is not allowed"),
            CloseError::InvalidReason => f.write_str("close reason is not UTF-8"),
        }
    }
}

impl std::error::Error for CloseError {}

impl<'a> Close<'a> {
    /// Decodes the (unmasked) payload of a close frame.
    ///
    /// # Errors
    /// One byte, a code that is not [sendable](CloseCode::is_sendable), a reason that is not UTF-8.
    pub fn decode(payload: &'a [u8]) -> Result<Close<'a>, CloseError> {
        match payload {
            [] => Ok(Close { code: None, reason: "" }),
            [_] => Err(CloseError::OneByte),
            [high, low, reason @ ..] => {
                let code = CloseCode(u16::from_be_bytes([*high, *low]));
                if !code.is_sendable() {
                    return Err(CloseError::ForbiddenCode(code));
                }
                match simdutf8::basic::from_utf8(reason) {
                    Ok(reason) => Ok(Close { code: Some(code), reason }),
                    Err(_) => Err(CloseError::InvalidReason),
                }
            }
        }
    }
}

/// The payload of a close frame, built without allocating.
#[derive(Clone, Copy)]
pub struct ClosePayload {
    bytes: [u8; 2 + REASON_BYTES_MAX],
    len: u8,
}

impl ClosePayload {
    /// Creates the payload for `code` and `reason`. A reason longer than [`REASON_BYTES_MAX`] bytes
    /// is cut at a character boundary; a code that must not be on the wire gives the empty payload.
    pub fn new(code: CloseCode, reason: &str) -> ClosePayload {
        let mut payload = ClosePayload { bytes: [0; 2 + REASON_BYTES_MAX], len: 0 };
        if !code.is_sendable() {
            return payload;
        }
        let mut end = reason.len().min(REASON_BYTES_MAX);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        payload.bytes[..2].copy_from_slice(&code.0.to_be_bytes());
        payload.bytes[2..2 + end].copy_from_slice(&reason.as_bytes()[..end]);
        payload.len = (2 + end) as u8;
        payload
    }

    /// The bytes of a frame with opcode close.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for ClosePayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClosePayload").field(&self.as_bytes()).finish()
    }
}
