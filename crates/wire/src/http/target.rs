//! Request targets: splitting into path and query, and percent-decoding (RFC 9112 section 3.2, RFC
//! 3986).
//!
//! Place on the path: between a request and its route.
//!
//! Invariants: a path is never normalised: slashes are not merged, dot segments not resolved, case
//! not changed. An escape with other characters than two hex digits, or with a result other than
//! UTF-8, is an error and never passed through. In queries `+` is a space, as forms and every
//! browser's `URLSearchParams` write it; in paths it is `+`.

use std::borrow::Cow;
use std::fmt;

/// The reason why a target is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetError {
    /// Neither a path nor an absolute URL.
    BadForm,
    /// `%` without two hexadecimal digits.
    BadEscape,
    /// The unescaped bytes are not UTF-8.
    InvalidUtf8,
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TargetError::BadForm => "request target is neither a path nor an absolute URL",
            TargetError::BadEscape => "percent sign without two hexadecimal digits",
            TargetError::InvalidUtf8 => "percent-encoded bytes are not UTF-8",
        })
    }
}

impl std::error::Error for TargetError {}

/// A target split in two parts, still encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The path as sent: begins with `/`, or is `*`.
    pub path: &'a str,
    /// The part after the first `?`, if there is one.
    pub query: Option<&'a str>,
}

impl<'a> Target<'a> {
    /// Splits a target: origin form (`/a?b`), asterisk form (`*`), or absolute form
    /// (`http://host/a?b`, whose scheme and authority are left out).
    ///
    /// # Errors
    /// [`TargetError::BadForm`] for all others, including the authority form of CONNECT.
    pub fn parse(target: &'a str) -> Result<Target<'a>, TargetError> {
        if target == "*" {
            return Ok(Target { path: target, query: None });
        }
        let local = if target.starts_with('/') {
            target
        } else {
            let (scheme, rest) = target.split_once("://").ok_or(TargetError::BadForm)?;
            if !["http", "https", "ws", "wss"]
                .iter()
                .any(|known| scheme.eq_ignore_ascii_case(known))
            {
                return Err(TargetError::BadForm);
            }
            match rest.find(['/', '?']) {
                Some(0) => return Err(TargetError::BadForm),
                Some(at) => &rest[at..],
                None if rest.is_empty() => return Err(TargetError::BadForm),
                None => "/",
            }
        };
        let (path, query) = match local.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (local, None),
        };
        // `http://host?query` has an empty path, which RFC 9112 section 3.2.1 reads as `/`.
        Ok(Target { path: if path.is_empty() { "/" } else { path }, query })
    }

    /// The path, decoded. An encoded slash (`%2F`) becomes a slash like any other.
    ///
    /// # Errors
    /// A bad escape, or bytes that are not UTF-8.
    pub fn path_decoded(&self) -> Result<Cow<'a, str>, TargetError> {
        percent_decode(self.path)
    }

    /// The decoded pairs of the query in order; a pair without `=` has an empty value. Empty pairs
    /// are left out.
    pub fn query_pairs(&self) -> QueryPairs<'a> {
        QueryPairs { rest: self.query }
    }

    /// The first value of a name in the query.
    ///
    /// # Errors
    /// See [`query_pairs`](Self::query_pairs), for the pairs up to the matching one.
    pub fn query_value(&self, name: &str) -> Result<Option<Cow<'a, str>>, TargetError> {
        for pair in self.query_pairs() {
            let (found, value) = pair?;
            if found == name {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

/// Iterates over the pairs of a query, separated by `&`. Also reads a form body
/// (`application/x-www-form-urlencoded`).
#[derive(Clone, Debug)]
pub struct QueryPairs<'a> {
    rest: Option<&'a str>,
}

impl<'a> QueryPairs<'a> {
    /// Iterates over a query without its `?`, or over a form body.
    pub fn new(query: &'a str) -> QueryPairs<'a> {
        QueryPairs { rest: Some(query) }
    }
}

impl<'a> Iterator for QueryPairs<'a> {
    type Item = Result<(Cow<'a, str>, Cow<'a, str>), TargetError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = self.rest?;
            let pair = match rest.split_once('&') {
                Some((pair, rest)) => {
                    self.rest = Some(rest);
                    pair
                }
                None => {
                    self.rest = None;
                    rest
                }
            };
            if pair.is_empty() {
                continue;
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            return Some(decode(name, true).and_then(|name| Ok((name, decode(value, true)?))));
        }
    }
}

/// Decodes `%xx` escapes; borrowed if there are none.
///
/// # Errors
/// A bad escape, or bytes that are not UTF-8.
pub fn percent_decode(encoded: &str) -> Result<Cow<'_, str>, TargetError> {
    decode(encoded, false)
}

/// Appends `text` to `out` with every byte escaped except the unreserved ones and `/`. Suitable for
/// a path and for a name or value in a query.
pub fn append_percent_encoded(out: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(byte as char);
        } else {
            out.push('%');
            for digit in [byte >> 4, byte & 0xf] {
                out.push(b"0123456789ABCDEF"[usize::from(digit)] as char);
            }
        }
    }
}

fn decode(encoded: &str, plus_is_space: bool) -> Result<Cow<'_, str>, TargetError> {
    let is_special = |byte: u8| byte == b'%' || (plus_is_space && byte == b'+');
    let Some(first) = encoded.bytes().position(is_special) else {
        return Ok(Cow::Borrowed(encoded));
    };
    let mut decoded = Vec::with_capacity(encoded.len());
    decoded.extend_from_slice(&encoded.as_bytes()[..first]);
    let mut rest = encoded.as_bytes()[first..].iter().copied();
    while let Some(byte) = rest.next() {
        decoded.push(match byte {
            b'%' => match (rest.next().and_then(hex_digit), rest.next().and_then(hex_digit)) {
                (Some(high), Some(low)) => high << 4 | low,
                _ => return Err(TargetError::BadEscape),
            },
            b'+' if plus_is_space => b' ',
            byte => byte,
        });
    }
    String::from_utf8(decoded).map(Cow::Owned).map_err(|_| TargetError::InvalidUtf8)
}

fn hex_digit(byte: u8) -> Option<u8> {
    (byte as char).to_digit(16).map(|digit| digit as u8)
}
