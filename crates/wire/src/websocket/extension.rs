//! Negotiation of `permessage-deflate` (RFC 6455 section 9.1, RFC 7692 sections 5 and 7.1).
//!
//! Place on the path: between an HTTP head and the first frame, part of the handshake.
//!
//! Invariants: an agreement is always without context takeover in both directions; an offer with an
//! unknown, repeated or out-of-range parameter is declined, and the next one examined; a malformed
//! field is an error, as section 9.1 requires.

use super::deflate::{WINDOW_BITS_MAX, WINDOW_BITS_MIN};
use crate::http::head::{Fields, is_token_byte};

/// The header field.
pub const FIELD: &str = "Sec-WebSocket-Extensions";
/// The offer of our client.
pub const OFFER: &str =
    "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

const FIELD_LOWER: &str = "sec-websocket-extensions";
const NAME: &[u8] = b"permessage-deflate";
const SERVER_NO_CONTEXT: &[u8] = b"server_no_context_takeover";
const CLIENT_NO_CONTEXT: &[u8] = b"client_no_context_takeover";
const SERVER_WINDOW: &[u8] = b"server_max_window_bits";
const CLIENT_WINDOW: &[u8] = b"client_max_window_bits";

/// The field is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadExtensions;

/// `permessage-deflate` without context takeover, agreed by both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The maximum window of the server's messages, in bits.
    pub server_window_bits: u8,
    /// The client requested that window, so the answer confirms it.
    is_window_told: bool,
}

/// The parameters of one element of the field.
#[derive(Clone, Copy, Debug, Default)]
struct Parameters {
    server_no_context: bool,
    client_no_context: bool,
    server_window_bits: Option<u8>,
    /// Present with or without a value.
    client_window: bool,
}

/// Chooses the first acceptable offer of a client; `None` means without compression.
///
/// # Errors
/// The field is malformed: the handshake is refused.
pub fn accept(fields: &Fields<'_>) -> Result<Option<Agreement>, BadExtensions> {
    let mut agreement = None;
    for_each(fields, &mut |name, parameters| {
        if name == NAME
            && agreement.is_none()
            && let Some(parameters) = parameters
        {
            agreement = Some(Agreement {
                server_window_bits: parameters.server_window_bits.unwrap_or(WINDOW_BITS_MAX),
                is_window_told: parameters.server_window_bits.is_some(),
            });
        }
    })?;
    Ok(agreement)
}

/// Checks the server's answer to [`OFFER`]: whether messages may be compressed.
///
/// # Errors
/// The answer does not match the offer: section 7.1 has the client fail the connection.
pub fn check_answer(fields: &Fields<'_>) -> Result<bool, BadExtensions> {
    let (mut count, mut is_good) = (0, true);
    for_each(fields, &mut |name, parameters| {
        count += 1;
        // We offered no bound of our own window. The server's promise not to take our context over
        // does not matter: we never keep context.
        is_good &= name == NAME
            && parameters.is_some_and(|answer| answer.server_no_context && !answer.client_window);
    })?;
    match (count, is_good) {
        (0, _) => Ok(false),
        (1, true) => Ok(true),
        _ => Err(BadExtensions),
    }
}

impl Agreement {
    /// Appends the field's value.
    pub fn append_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(OFFER.as_bytes());
        if self.is_window_told {
            out.extend_from_slice(b"; server_max_window_bits=");
            out.extend_from_slice(self.server_window_bits.to_string().as_bytes());
        }
    }
}

/// Calls a function with every element of the field, over all its lines: the name, and the
/// parameters if they are known and valid.
fn for_each(
    fields: &Fields<'_>,
    take: &mut dyn FnMut(&[u8], Option<Parameters>),
) -> Result<(), BadExtensions> {
    for line in fields.all(FIELD_LOWER) {
        let mut scanner = Scanner { rest: line };
        scanner.skip_commas();
        while !scanner.rest.is_empty() {
            let name = scanner.token()?;
            let mut parameters = Some(Parameters::default());
            while scanner.takes(b';') {
                let key = scanner.token()?;
                let mut buffer = [0; VALUE_BYTES_MAX];
                let value =
                    if scanner.takes(b'=') { Some(scanner.value(&mut buffer)?) } else { None };
                parameters = parameters.and_then(|known| known.with(key, value));
            }
            take(name, parameters);
            if !scanner.rest.is_empty() && !scanner.skip_commas() {
                return Err(BadExtensions);
            }
        }
    }
    Ok(())
}

impl Parameters {
    /// Adds a parameter; `None` if it is unknown, repeated, or has an invalid value (section 7.1).
    fn with(mut self, key: &[u8], value: Option<&[u8]>) -> Option<Parameters> {
        let was_there = match (key, value) {
            (SERVER_NO_CONTEXT, None) => std::mem::replace(&mut self.server_no_context, true),
            (CLIENT_NO_CONTEXT, None) => std::mem::replace(&mut self.client_no_context, true),
            (SERVER_WINDOW, Some(value)) => {
                let bits = window_bits(value)?;
                self.server_window_bits.replace(bits).is_some()
            }
            (CLIENT_WINDOW, value) => {
                if let Some(value) = value {
                    window_bits(value)?;
                }
                std::mem::replace(&mut self.client_window, true)
            }
            _ => return None,
        };
        (!was_there).then_some(self)
    }
}

/// Parses a window (section 7.1.2): 8 to 15 in decimal, without leading zeros.
fn window_bits(value: &[u8]) -> Option<u8> {
    let bits = match value {
        [digit @ b'8'..=b'9'] => digit - b'0',
        [b'1', digit @ b'0'..=b'5'] => 10 + digit - b'0',
        _ => return None,
    };
    (WINDOW_BITS_MIN..=WINDOW_BITS_MAX).contains(&bits).then_some(bits)
}

/// Longer values are truncated: no known value is that long.
const VALUE_BYTES_MAX: usize = 16;

/// A scanner of the grammar of section 9.1.
struct Scanner<'a> {
    rest: &'a [u8],
}

impl<'a> Scanner<'a> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    /// Consumes this byte, with space before and behind it, if it is next.
    fn takes(&mut self, byte: u8) -> bool {
        self.skip_space();
        let is_next = self.rest.first() == Some(&byte);
        if is_next {
            self.rest = &self.rest[1..];
            self.skip_space();
        }
        is_next
    }

    /// Skips commas: empty elements are allowed (RFC 9110 section 5.6.1).
    fn skip_commas(&mut self) -> bool {
        let mut is_any = false;
        while self.takes(b',') {
            is_any = true;
        }
        is_any
    }

    fn token(&mut self) -> Result<&'a [u8], BadExtensions> {
        let end = self.rest.iter().position(|&byte| !is_token_byte(byte));
        let (token, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        match token {
            [] => Err(BadExtensions),
            token => Ok(token),
        }
    }

    /// Reads a token, or a quoted string that contains one.
    fn value<'b>(
        &mut self,
        buffer: &'b mut [u8; VALUE_BYTES_MAX],
    ) -> Result<&'b [u8], BadExtensions>
    where
        'a: 'b,
    {
        let Some(quoted) = self.rest.strip_prefix(b"\"") else {
            return self.token();
        };
        let mut len = 0;
        let mut bytes = quoted.iter();
        loop {
            let byte = match bytes.next() {
                Some(b'"') => break,
                Some(b'\\') => bytes.next(),
                byte => byte,
            };
            let Some(&byte) = byte.filter(|&&byte| is_token_byte(byte)) else {
                return Err(BadExtensions);
            };
            if let Some(place) = buffer.get_mut(len) {
                *place = byte;
            }
            len += 1;
        }
        self.rest = bytes.as_slice();
        match len {
            0 => Err(BadExtensions),
            len => Ok(&buffer[..len.min(VALUE_BYTES_MAX)]),
        }
    }
}
