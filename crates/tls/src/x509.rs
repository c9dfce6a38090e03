//! The subject and the end of a certificate, for a log line (RFC 5280, section 4.1), read
//! from its DER.
//!
//! Place: beside the loading of files; no decision depends on this module. Bytes that are no
//! certificate give empty names and never a panic.

/// The fields; empty if they are unreadable.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Names {
    /// The common name, or the first alternative name.
    pub(crate) subject: String,
    /// RFC 3339.
    pub(crate) not_after: String,
}

const INTEGER: u8 = 0x02;
const OBJECT: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const DNS_NAME: u8 = 0x82;
const OCTETS: u8 = 0x04;
/// 2.5.4.3
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// 2.5.29.17
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

impl Names {
    pub(crate) fn read(certificate: &[u8]) -> Names {
        let mut names = Names::default();
        // As far as it goes: what cannot be read stays empty.
        let _ = names.fill(certificate);
        names
    }

    fn fill(&mut self, mut certificate: &[u8]) -> Option<()> {
        let mut outer = take(&mut certificate, SEQUENCE)?;
        let mut fields = take(&mut outer, SEQUENCE)?;
        if fields.first() == Some(&VERSION) {
            take(&mut fields, VERSION)?;
        }
        take(&mut fields, INTEGER)?;
        take(&mut fields, SEQUENCE)?;
        take(&mut fields, SEQUENCE)?;
        let mut validity = take(&mut fields, SEQUENCE)?;
        let mut subject = take(&mut fields, SEQUENCE)?;
        take_any(&mut validity)?;
        let (kind, time) = take_any(&mut validity)?;
        self.not_after = readable_time(kind, time).unwrap_or_default();
        while !subject.is_empty() {
            let mut name = take(&mut subject, SET)?;
            let mut pair = take(&mut name, SEQUENCE)?;
            if take(&mut pair, OBJECT)? == COMMON_NAME {
                self.subject = printable(take_any(&mut pair)?.1);
            }
        }
        if self.subject.is_empty() {
            take(&mut fields, SEQUENCE)?;
            while fields.first().is_some_and(|kind| *kind != EXTENSIONS) {
                take_any(&mut fields)?;
            }
            let mut wrapped = take(&mut fields, EXTENSIONS)?;
            self.subject = alternative_name(take(&mut wrapped, SEQUENCE)?)?;
        }
        Some(())
    }
}

fn alternative_name(mut extensions: &[u8]) -> Option<String> {
    while !extensions.is_empty() {
        let mut extension = take(&mut extensions, SEQUENCE)?;
        if take(&mut extension, OBJECT)? != ALTERNATIVE_NAMES {
            continue;
        }
        let (mut kind, mut value) = take_any(&mut extension)?;
        if kind != OCTETS {
            // It was whether the extension is critical.
            (kind, value) = take_any(&mut extension)?;
        }
        if kind != OCTETS {
            return None;
        }
        let mut names = take(&mut value, SEQUENCE)?;
        return Some(printable(take(&mut names, DNS_NAME)?));
    }
    None
}

/// A log line takes it as it is.
fn printable(text: &[u8]) -> String {
    String::from_utf8_lossy(text)
        .chars()
        .filter(|character| !character.is_control())
        .take(255)
        .collect()
}

/// `YYMMDDHHMMSSZ` (1950 to 2049) or `YYYYMMDDHHMMSSZ`.
fn readable_time(kind: u8, time: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(time).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match kind {
        UTC_TIME if text.len() == 12 => {
            let century = if &text[..2] < "50" { "20" } else { "19" };
            (format!("{century}{}", &text[..2]), &text[2..])
        }
        GENERALIZED_TIME if text.len() == 14 => (text[..4].to_owned(), &text[4..]),
        _ => return None,
    };
    let part = |place: usize| &rest[2 * place..2 * place + 2];
    Some(format!("{year}-{}-{}T{}:{}:{}Z", part(0), part(1), part(2), part(3), part(4)))
}

/// The next element, which is of this kind.
fn take<'a>(input: &mut &'a [u8], kind: u8) -> Option<&'a [u8]> {
    let (found, content) = take_any(input)?;
    (found == kind).then_some(content)
}

fn take_any<'a>(input: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&kind, rest) = input.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        let count = usize::from(first & 0x7f);
        if count > 3 {
            return None;
        }
        let (digits, after) = rest.split_at_checked(count)?;
        length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
        rest = after;
    }
    let (content, rest) = rest.split_at_checked(length)?;
    *input = rest;
    Some((kind, content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::self_signed;

    #[test]
    fn names_are_read_and_damage_never_panics() {
        let made = self_signed(&["node.example".into(), "127.0.0.1".into()], 1, 0).unwrap();
        let names = Names::read(&made.certificate);
        assert_eq!(names.subject, "node.example");
        assert_eq!(names.not_after, "1970-01-02T00:00:00Z");
        for place in 0..made.certificate.len() {
            let mut damaged = made.certificate.clone();
            for value in [0, 1, 0x7f, 0x80, 0x83, 0xff] {
                damaged[place] = value;
                Names::read(&damaged);
            }
            Names::read(&made.certificate[..place]);
        }
    }

    #[test]
    fn times() {
        fn check(kind: u8, text: &str, readable: Option<&str>) {
            assert_eq!(readable_time(kind, text.as_bytes()).as_deref(), readable);
        }
        check(UTC_TIME, "491231235959Z", Some("2049-12-31T23:59:59Z"));
        check(UTC_TIME, "500101000000Z", Some("1950-01-01T00:00:00Z"));
        check(GENERALIZED_TIME, "20500101000000Z", Some("2050-01-01T00:00:00Z"));
        check(UTC_TIME, "4912312359Z", None);
        check(UTC_TIME, "49123123595é", None);
        check(GENERALIZED_TIME, "", None);
    }
}
