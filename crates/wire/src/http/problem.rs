//! The body of an error response (RFC 9457, `application/problem+json`), and the JSON string
//! escaping for it.
//!
//! Place on the path: outbound, for every refused HTTP request.

use super::response::ResponseWriter;

/// The media type of a problem.
pub const PROBLEM_MEDIA_TYPE: &str = "application/problem+json";

/// One problem. Empty members are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Problem<'a> {
    /// The URI of the kind of problem; empty means `about:blank`.
    pub type_uri: &'a str,
    /// The kind in a few words.
    pub title: &'a str,
    /// The HTTP status.
    pub status: u16,
    /// The cause of this problem, and the remedy.
    pub detail: &'a str,
    /// The name of the error for programs (extension member `code`).
    pub code: &'a str,
    /// The log's current position, as epoch and offset (extension members `epoch`, a string, and
    /// `head`).
    pub present: Option<(u64, u64)>,
}

impl Problem<'_> {
    /// Appends the JSON object to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"type\":");
        let type_uri = if self.type_uri.is_empty() { "about:blank" } else { self.type_uri };
        append_json_string(out, type_uri);
        for (name, value) in [("title", self.title), ("detail", self.detail), ("code", self.code)] {
            if !value.is_empty() {
                out.extend_from_slice(b",\"");
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(b"\":");
                append_json_string(out, value);
            }
        }
        if let Some((epoch, head)) = self.present {
            out.extend_from_slice(b",\"epoch\":\"");
            super::head::append_decimal(out, epoch);
            out.extend_from_slice(b"\",\"head\":");
            super::head::append_decimal(out, head);
        }
        out.extend_from_slice(b",\"status\":");
        super::head::append_decimal(out, u64::from(self.status));
        out.push(b'}');
    }

    /// Adds the media type and the body to a response whose status is already written, and ends it.
    pub fn finish(&self, writer: ResponseWriter<'_>) {
        let mut body = Vec::with_capacity(128);
        self.encode(&mut body);
        writer
            .header("Content-Type", PROBLEM_MEDIA_TYPE)
            .header("X-Content-Type-Options", "nosniff")
            .finish_with_body(&body);
    }
}

/// Appends `text` as a JSON string (RFC 8259 section 7), quotes included.
pub fn append_json_string(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    out.reserve(rest.len() + 2);
    out.push(b'"');
    while let Some((word, behind)) = rest.split_first_chunk::<8>() {
        // Copies of a fixed size are cheap. The bytes from an escape on are removed again.
        out.extend_from_slice(word);
        let found = to_escape(u64::from_le_bytes(*word));
        if found == 0 {
            rest = behind;
            continue;
        }
        let at = found.trailing_zeros() as usize / 8;
        out.truncate(out.len() - (8 - at));
        append_escaped(out, word[at]);
        rest = &rest[at + 1..];
    }
    for &byte in rest {
        match byte {
            0..0x20 | b'"' | b'\\' => append_escaped(out, byte),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

fn append_escaped(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        _ => {
            out.extend_from_slice(b"\\u00");
            for digit in [byte >> 4, byte & 0xf] {
                out.push(b"0123456789abcdef"[usize::from(digit)]);
            }
        }
    }
}

/// The high bit of each byte of the word that is to be escaped. A carry can set the bits of bytes
/// above the lowest such byte too, so only the lowest bit counts.
fn to_escape(word: u64) -> u64 {
    const EACH: u64 = u64::MAX / 0xff;
    // The subtraction borrows in bytes below `least`; those from 0x80 on are no control characters.
    let is_below = |word: u64, least: u8| word.wrapping_sub(EACH * u64::from(least)) & !word;
    let is = |byte: u8| is_below(word ^ (EACH * u64::from(byte)), 1);
    (is_below(word, 0x20) | is(b'"') | is(b'\\')) & (EACH << 7)
}
