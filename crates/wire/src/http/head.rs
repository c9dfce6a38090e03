//! The head of an HTTP message: detection of its end without rescanning, the table of fields, the
//! framing of the body.
//!
//! Place on the path: step 2, below `request` and `response`.
//!
//! Invariants: a head given to the parser is complete, within its limits, and free of bare CR, bare
//! LF and control bytes. Each byte is scanned once for all cuts of the head ([`HeadScan`]); the
//! first invalid byte is refused when it arrives.

use std::fmt;
use stdx::handing::Hand;

use super::body::BodyFraming;

/// The maximum number of fields in one head.
pub const HEADERS_MAX: usize = 64;

/// The maximum number of empty lines before a head; RFC 9112 section 2.2 asks servers to tolerate
/// one.
const EMPTY_LINES_MAX: usize = 4;

/// Bounds of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// The maximum size of the head in bytes, with empty lines before it. At most 65,535.
    pub head_bytes_max: u16,
    /// The maximum length of the request target in bytes.
    pub target_bytes_max: u16,
}

impl Default for HeadLimits {
    /// 16 KiB for the head, 8 KiB for the target.
    fn default() -> Self {
        HeadLimits { head_bytes_max: 16 * 1024, target_bytes_max: 8 * 1024 }
    }
}

/// The version of HTTP; others are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

/// The reason why a head is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// A byte that is forbidden in a head: a control byte, CR without LF, LF without CR.
    BadByte(u8),
    /// The start line is malformed.
    BadStartLine,
    /// The version is neither 1.0 nor 1.1.
    UnsupportedVersion,
    /// A field line is malformed: folded, a space before the colon, an empty or invalid name.
    BadField,
    /// The head is larger than the limit.
    HeadTooLarge {
        /// The limit.
        head_bytes_max: u16,
    },
    /// More than [`HEADERS_MAX`] fields.
    TooManyHeaders,
    /// The request target is longer than the limit.
    TargetTooLong {
        /// The limit.
        target_bytes_max: u16,
    },
    /// The request target contains a forbidden byte or `#`.
    BadTarget,
    /// HTTP/1.1 requires a `Host`.
    MissingHost,
    /// `Host` is repeated or invalid.
    BadHost,
    /// `Content-Length` is not a single number.
    BadContentLength,
    /// `Transfer-Encoding` has a form that does not determine the end, or is used in HTTP/1.0.
    BadTransferEncoding,
    /// `Transfer-Encoding` and `Content-Length` are both present.
    ConflictingFraming,
    /// A transfer coding other than `chunked`.
    UnsupportedTransferCoding,
    /// An expectation other than `100-continue`.
    UnsupportedExpectation,
}

impl HeadError {
    /// The status of the answer; then the connection is closed.
    pub const fn status(self) -> u16 {
        match self {
            HeadError::HeadTooLarge { .. } | HeadError::TooManyHeaders => 431,
            HeadError::TargetTooLong { .. } => 414,
            HeadError::UnsupportedVersion => 505,
            HeadError::UnsupportedTransferCoding => 501,
            HeadError::UnsupportedExpectation => 417,
            _ => 400,
        }
    }
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HeadError::BadByte(byte) => return write!(f, "byte {byte:#04x} in the head"),
            HeadError::BadStartLine => "malformed start line",
            HeadError::UnsupportedVersion => "HTTP version other than 1.0 and 1.1",
            HeadError::BadField => "malformed field line",
            HeadError::HeadTooLarge { head_bytes_max } => {
                return write!(f, "head over the limit of {head_bytes_max} bytes");
            }
            HeadError::TooManyHeaders => {
                return write!(f, "more than {HEADERS_MAX} header fields");
            }
            HeadError::TargetTooLong { target_bytes_max } => {
                return write!(f, "request target over the limit of {target_bytes_max} bytes");
            }
            HeadError::BadTarget => "malformed request target",
            HeadError::MissingHost => "no Host field",
            HeadError::BadHost => "malformed or repeated Host field",
            HeadError::BadContentLength => "malformed or repeated Content-Length field",
            HeadError::BadTransferEncoding => "malformed or repeated Transfer-Encoding field",
            HeadError::ConflictingFraming => "Content-Length beside Transfer-Encoding",
            HeadError::UnsupportedTransferCoding => "transfer coding other than chunked",
            HeadError::UnsupportedExpectation => "expectation other than 100-continue",
        })
    }
}

impl std::error::Error for HeadError {}

/// The progress of the scan of an unfinished head. Four bytes that the caller stores with the
/// unfinished bytes and passes to each call; reset when a head is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hand)]
pub struct HeadScan {
    scanned_bytes: u32,
}

impl HeadScan {
    /// The state before the first byte of a head.
    pub const fn new() -> HeadScan {
        HeadScan { scanned_bytes: 0 }
    }

    /// Whether no byte of a head has been seen; then a closed connection was idle.
    pub const fn is_idle(&self) -> bool {
        self.scanned_bytes == 0
    }

    /// Scans the new bytes of `input`, which begins at the head's start, and returns the range of
    /// the head: empty lines before the start line are skipped (RFC 9112 section 2.2), the final
    /// empty line is included.
    pub(super) fn find_head<'a>(
        &mut self,
        input: &'a [u8],
        head_bytes_max: u16,
    ) -> Result<Option<(&'a [u8], usize)>, HeadError> {
        let limit = usize::from(head_bytes_max);
        let front = self.scanned_bytes as usize;
        let mut at = front;
        while at < input.len() {
            // At the front of a line, or of the rest of one, most bytes are plain. Not after a CR,
            // whose validity depends on the next byte.
            let is_front = match at.checked_sub(1).map(|before| input[before]) {
                None | Some(b'\n') => true,
                Some(b'\r') => false,
                Some(_) => at == front,
            };
            if is_front {
                at += plain_bytes(input.get(at..input.len().min(limit)).unwrap_or_default());
            }
            let Some(&byte) = input.get(at) else { break };
            if at >= limit {
                return Err(HeadError::HeadTooLarge { head_bytes_max });
            }
            let previous = if at == 0 { 0 } else { input[at - 1] };
            // The byte after a CR decides its validity, so that the result does not depend on the
            // end of the input.
            if previous == b'\r' && byte != b'\n' {
                return Err(HeadError::BadByte(b'\r'));
            }
            match byte {
                b'\n' if previous != b'\r' => return Err(HeadError::BadByte(byte)),
                b'\n' => {
                    let end = at + 1;
                    if input[..end].ends_with(b"\r\n\r\n") {
                        let start = leading_empty_lines(&input[..end]);
                        if start < end {
                            self.scanned_bytes = 0;
                            return Ok(Some((&input[start..end], end)));
                        }
                        // Only empty lines: the head has not begun. They are bounded here, because
                        // each call counts them anew.
                        if end > 2 * EMPTY_LINES_MAX {
                            return Err(HeadError::BadStartLine);
                        }
                    }
                }
                b'\t' | b'\r' | 0x20..=0x7e | 0x80..=0xff => {}
                _ => return Err(HeadError::BadByte(byte)),
            }
            at += 1;
        }
        self.scanned_bytes = at as u32;
        Ok(None)
    }
}

/// The number of bytes at the front of `input` that are neither line ends nor forbidden. A block of
/// eight bytes is tested at a time, without a branch for each byte.
fn plain_bytes(input: &[u8]) -> usize {
    let (blocks, rest) = input.as_chunks::<8>();
    for (number, block) in blocks.iter().enumerate() {
        let found = controls(u64::from_le_bytes(*block));
        if found != 0 {
            return 8 * number + found.trailing_zeros() as usize / 8;
        }
    }
    let end = rest.iter().position(|byte| is_control(*byte));
    input.len() - rest.len() + end.unwrap_or(rest.len())
}

/// Sets the top bit of each of eight bytes for which [`is_control`] holds.
fn controls(bytes: u64) -> u64 {
    const LOW: u64 = u64::from_le_bytes([0x7f; 8]);
    // Exact for each byte: the sum of seven bits never carries into the next byte.
    let zeros = |bytes: u64| !(((bytes & LOW) + LOW) | bytes | LOW);
    let every = |byte: u8| u64::from_le_bytes([byte; 8]);
    let below_space = zeros(bytes & every(0xe0));
    let tabs = zeros(bytes ^ every(b'\t'));
    let deletes = zeros(bytes ^ every(0x7f));
    (below_space & !tabs) | deletes
}

fn leading_empty_lines(input: &[u8]) -> usize {
    let (pairs, _) = input.as_chunks::<2>();
    2 * pairs.iter().take_while(|pair| *pair == b"\r\n").count()
}

/// The location of a name and its value in the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    name_start: u16,
    name_bytes: u16,
    value_start: u16,
    value_bytes: u16,
}

impl Place {
    fn name<'a>(&self, head: &'a [u8]) -> &'a [u8] {
        slice(head, self.name_start, self.name_bytes)
    }

    fn value<'a>(&self, head: &'a [u8]) -> &'a [u8] {
        slice(head, self.value_start, self.value_bytes)
    }
}

/// The fields of a head, as locations in its bytes: eight bytes each, without an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields<'a> {
    head: &'a [u8],
    places: [Place; HEADERS_MAX],
    count: u8,
}

impl<'a> Fields<'a> {
    pub(super) fn new(head: &'a [u8], headers: &[httparse::Header<'a>]) -> Fields<'a> {
        let mut fields = Fields { head, places: [Place::default(); HEADERS_MAX], count: 0 };
        for (place, header) in fields.places.iter_mut().zip(headers) {
            *place = Place {
                name_start: place_in(head, header.name.as_bytes()),
                name_bytes: header.name.len() as u16,
                value_start: place_in(head, header.value),
                value_bytes: header.value.len() as u16,
            };
            fields.count += 1;
        }
        fields
    }

    /// All fields in order: the name as sent, the value without surrounding space. Values may
    /// contain any byte except controls.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        // Names are tokens, so this never fails.
        self.iter_bytes()
            .map(|(name, value)| (std::str::from_utf8(name).unwrap_or_default(), value))
    }

    /// The values of all fields with this name, case-insensitive, in order.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        // Compare lengths first: most names differ in them, and a dozen names are looked up in each
        // head.
        self.places()
            .iter()
            .filter(move |place| {
                usize::from(place.name_bytes) == name.len()
                    && place.name(self.head).eq_ignore_ascii_case(name.as_bytes())
            })
            .map(|place| place.value(self.head))
    }

    /// The first value of this name, case-insensitive.
    pub fn first(&self, name: &str) -> Option<&'a [u8]> {
        self.all(name).next()
    }

    /// The first value of this name, if it is UTF-8; case-insensitive.
    pub fn first_text(&self, name: &str) -> Option<&'a str> {
        std::str::from_utf8(self.first(name)?).ok()
    }

    /// The elements of a comma-separated list over all fields of this name, trimmed, without empty
    /// ones.
    pub fn list(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.all(name)
            .flat_map(|value| value.split(|byte| *byte == b','))
            .map(<[u8]>::trim_ascii)
            .filter(|element| !element.is_empty())
    }

    /// Whether a comma-separated list contains this token, case-insensitive.
    pub fn list_contains(&self, name: &str, token: &str) -> bool {
        self.list(name).any(|element| element.eq_ignore_ascii_case(token.as_bytes()))
    }

    fn iter_bytes(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.places().iter().map(|place| (place.name(self.head), place.value(self.head)))
    }

    fn places(&self) -> &[Place] {
        &self.places[..usize::from(self.count)]
    }

    /// Whether the connection stays open after this message (RFC 9112 section 9.3).
    pub(super) fn keep_alive(&self, version: Version) -> bool {
        if self.list_contains("connection", "close") {
            return false;
        }
        version == Version::Http11 || self.list_contains("connection", "keep-alive")
    }

    /// The framing announced by the fields (RFC 9112 section 6.3); [`BodyFraming::None`] if they
    /// announce none.
    pub(super) fn body_framing(&self, version: Version) -> Result<BodyFraming, HeadError> {
        let mut lengths = self.all("content-length");
        let length = match lengths.next() {
            None => None,
            Some(value) => Some(content_length(value)?),
        };
        if lengths.next().is_some() {
            return Err(HeadError::BadContentLength);
        }
        let mut codings = self.all("transfer-encoding");
        let Some(coding) = codings.next() else {
            return Ok(length.map_or(BodyFraming::None, BodyFraming::Length));
        };
        // Section 6.1: a transfer coding in HTTP/1.0 is faulty framing.
        if codings.next().is_some() || version == Version::Http10 {
            return Err(HeadError::BadTransferEncoding);
        }
        if length.is_some() {
            return Err(HeadError::ConflictingFraming);
        }
        if coding.eq_ignore_ascii_case(b"chunked") {
            return Ok(BodyFraming::Chunked);
        }
        let mut elements = coding.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).rev();
        let last = elements.next().unwrap_or_default();
        if !last.eq_ignore_ascii_case(b"chunked")
            || elements
                .any(|element| element.is_empty() || element.eq_ignore_ascii_case(b"chunked"))
        {
            return Err(HeadError::BadTransferEncoding);
        }
        Err(HeadError::UnsupportedTransferCoding)
    }
}

/// Parses digits only: no sign, no space, no list, within `u64`.
fn content_length(value: &[u8]) -> Result<u64, HeadError> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(HeadError::BadContentLength);
    }
    std::str::from_utf8(value)
        .ok()
        .and_then(|digits| digits.parse().ok())
        .ok_or(HeadError::BadContentLength)
}

/// The offset of `part`, a slice of `head`, by address; heads have at most 65,535 bytes.
fn place_in(head: &[u8], part: &[u8]) -> u16 {
    (part.as_ptr().addr().wrapping_sub(head.as_ptr().addr())) as u16
}

fn slice(head: &[u8], start: u16, bytes: u16) -> &[u8] {
    let start = usize::from(start);
    head.get(start..start + usize::from(bytes)).unwrap_or_default()
}

/// Converts the parser's errors to ours.
pub(super) fn parse_error(error: httparse::Error) -> HeadError {
    match error {
        httparse::Error::HeaderName | httparse::Error::HeaderValue => HeadError::BadField,
        httparse::Error::TooManyHeaders => HeadError::TooManyHeaders,
        httparse::Error::Version => HeadError::UnsupportedVersion,
        _ => HeadError::BadStartLine,
    }
}

/// Appends `name: value` and CRLF. Control bytes in the value become spaces, so that no value can
/// begin another field, whatever its source. `name` must be a token; it comes from code, not from
/// peers.
pub(super) fn append_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    debug_assert!(name.bytes().all(is_token_byte) && !name.is_empty());
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    let start = out.len();
    out.extend_from_slice(value);
    for byte in &mut out[start..] {
        if is_control(*byte) {
            *byte = b' ';
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a number in decimal.
pub(crate) fn append_decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

const fn is_control(byte: u8) -> bool {
    (byte < 0x20 && byte != b'\t') || byte == 0x7f
}

/// Whether the byte may occur in a token (RFC 9110 section 5.6.2).
pub(crate) const fn is_token_byte(byte: u8) -> bool {
    matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
        || byte.is_ascii_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::{controls, is_control, plain_bytes};

    #[test]
    fn a_block_of_eight_bytes_is_tested_like_single_bytes() {
        for first in 0..=255 {
            for second in 0..=255 {
                let block = [first, second, b'a', first, b'\t', second, second, first];
                let judged = controls(u64::from_le_bytes(block)).to_le_bytes();
                let expected = block.map(|byte| if is_control(byte) { 0x80 } else { 0 });
                assert_eq!(judged, expected, "{block:02x?}");
            }
        }
    }

    #[test]
    fn plain_bytes_end_at_the_first_control_byte() {
        for length in 0..40 {
            let mut line = vec![b'x'; length];
            assert_eq!(plain_bytes(&line), length);
            for at in 0..length {
                line[at] = b'\r';
                assert_eq!(plain_bytes(&line), at, "of {length}");
                line[at] = b'\t';
            }
        }
    }
}
