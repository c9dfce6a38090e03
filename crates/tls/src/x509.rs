//! The subject and the end of a certificate (RFC 5280, section 4.1), read from its DER: for a log
//! line, and the name of a client whose certificate was verified.
//!
//! Place: beside the loading of files, and at the end of a handshake. Bytes that are no certificate
//! give no names and never a panic.

/// Longest name of a client, in bytes.
pub(crate) const IDENTITY_BYTES_MAX: usize = 255;

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
const MAIL_NAME: u8 = 0x81;
const DNS_NAME: u8 = 0x82;
const URI_NAME: u8 = 0x86;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
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

    fn fill(&mut self, certificate: &[u8]) -> Option<()> {
        let fields = Fields::read(certificate)?;
        let (kind, time) = fields.not_after;
        self.not_after = readable_time(kind, time).unwrap_or_default();
        self.subject = match fields.common_name()? {
            Some((_, name)) => printable(name),
            None => printable(fields.alternative_name(&[DNS_NAME])?),
        };
        Some(())
    }
}

/// The name that a client's certificate gives its owner, and the end of its validity in seconds
/// since 1970. The name is the first common name, or without one the first alternative name that is
/// a host, a mail address or a URI. `None` if there is no such name, or it has control characters
/// or more than [`IDENTITY_BYTES_MAX`] bytes.
pub(crate) fn identity(certificate: &[u8]) -> Option<(String, u64)> {
    let fields = Fields::read(certificate)?;
    let (kind, time) = fields.not_after;
    let expires_s = seconds_of(&readable_time(kind, time)?)?;
    let name = match fields.common_name()? {
        Some((UTF8_STRING | PRINTABLE_STRING | IA5_STRING, name)) => name,
        Some(_) => return None,
        None => fields.alternative_name(&[DNS_NAME, MAIL_NAME, URI_NAME])?,
    };
    let name = std::str::from_utf8(name).ok()?;
    let is_short = (1..=IDENTITY_BYTES_MAX).contains(&name.len());
    (is_short && !name.chars().any(char::is_control)).then(|| (name.to_owned(), expires_s))
}

/// The fields of a certificate that are of interest here.
struct Fields<'a> {
    /// Its kind and its text.
    not_after: (u8, &'a [u8]),
    subject: &'a [u8],
    /// The public key, and what follows it.
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn read(mut certificate: &'a [u8]) -> Option<Fields<'a>> {
        let mut outer = take(&mut certificate, SEQUENCE)?;
        let mut fields = take(&mut outer, SEQUENCE)?;
        if fields.first() == Some(&VERSION) {
            take(&mut fields, VERSION)?;
        }
        take(&mut fields, INTEGER)?;
        take(&mut fields, SEQUENCE)?;
        take(&mut fields, SEQUENCE)?;
        let mut validity = take(&mut fields, SEQUENCE)?;
        let subject = take(&mut fields, SEQUENCE)?;
        take_any(&mut validity)?;
        Some(Fields { not_after: take_any(&mut validity)?, subject, rest: fields })
    }

    /// The first common name: its kind of text, and the text. `None` if the subject is malformed.
    fn common_name(&self) -> Option<Option<(u8, &'a [u8])>> {
        let mut subject = self.subject;
        while !subject.is_empty() {
            let mut name = take(&mut subject, SET)?;
            let mut pair = take(&mut name, SEQUENCE)?;
            if take(&mut pair, OBJECT)? == COMMON_NAME {
                return Some(Some(take_any(&mut pair)?));
            }
        }
        Some(None)
    }

    /// The first alternative name of one of these kinds.
    fn alternative_name(&self, kinds: &[u8]) -> Option<&'a [u8]> {
        let mut fields = self.rest;
        take(&mut fields, SEQUENCE)?;
        while fields.first().is_some_and(|kind| *kind != EXTENSIONS) {
            take_any(&mut fields)?;
        }
        let mut wrapped = take(&mut fields, EXTENSIONS)?;
        let mut names = alternative_names(take(&mut wrapped, SEQUENCE)?)?;
        while !names.is_empty() {
            let (kind, name) = take_any(&mut names)?;
            if kinds.contains(&kind) {
                return Some(name);
            }
        }
        None
    }
}

/// The list of alternative names.
fn alternative_names(mut extensions: &[u8]) -> Option<&[u8]> {
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
        return take(&mut value, SEQUENCE);
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

/// Seconds since 1970 of a time in the form of [`readable_time`], from 1970 on.
fn seconds_of(time: &str) -> Option<u64> {
    let number = |from: usize, to: usize| time.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years begin in March, so that a leap day is the last day of its year.
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    // 1 March of year 0 is 719,468 days before 1970.
    let days = days.checked_sub(719_468)?;
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second)
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
        assert_eq!(identity(&made.certificate), Some(("node.example".into(), 86_400)));
        for place in 0..made.certificate.len() {
            let mut damaged = made.certificate.clone();
            for value in [0, 1, 0x7f, 0x80, 0x83, 0xff] {
                damaged[place] = value;
                Names::read(&damaged);
                identity(&damaged);
            }
            Names::read(&made.certificate[..place]);
            assert_eq!(identity(&made.certificate[..place]), None);
        }
    }

    #[test]
    fn seconds_since_1970() {
        for (time, seconds) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T23:59:59Z", Some(951_868_799)),
            ("2000-03-01T00:00:00Z", Some(951_868_800)),
            ("2026-11-27T19:00:01Z", Some(1_795_806_001)),
            ("2106-02-07T06:28:16Z", Some(1 << 32)),
            ("9999-12-31T23:59:59Z", Some(253_402_300_799)),
            ("1969-12-31T23:59:59Z", None),
            ("2026-13-01T00:00:00Z", None),
            ("2026-00-00T00:00:00Z", None),
        ] {
            assert_eq!(seconds_of(time), seconds, "{time}");
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
