//! Headers of an HTTP request for publishing once.

use super::fault::Fault;
use crate::mail::IDEMPOTENCY_KEY_BYTES_MAX;
use stdx::handing::Hand;
use wire::http::request::Request;
use wire::native::ErrorCode;

/// The terms of an append: at most once, or in one life of the log only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hand)]
pub(crate) struct Once {
    /// Id and sequence; not beside a key.
    pub producer: Option<(String, u64)>,
    /// Empty for none.
    pub idempotency_key: Vec<u8>,
    pub expected_epoch: Option<u64>,
}

const KEY: &str = "idempotency-key";
const EPOCH: &str = "crore-expected-epoch";

impl Once {
    /// From `Idempotency-Key` and `Crore-Expected-Epoch`.
    pub fn of(request: &Request<'_>) -> Result<Once, Fault> {
        let refuse = |detail: String| Err(Fault::new(ErrorCode::MalformedParameter, detail));
        let mut once = Once::default();
        if let Some(value) = single(request, KEY)? {
            let found = key(value);
            match found.filter(|key| (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len())) {
                Some(key) => once.idempotency_key = key,
                None => {
                    return refuse(format!(
                        "Idempotency-Key is a string of 1 to {IDEMPOTENCY_KEY_BYTES_MAX} printable ASCII characters"
                    ));
                }
            }
        }
        if let Some(value) = single(request, EPOCH)? {
            once.expected_epoch = std::str::from_utf8(value).ok().and_then(epoch);
            if once.expected_epoch.is_none() {
                return refuse("Crore-Expected-Epoch is not an epoch".to_owned());
            }
        }
        Ok(once)
    }
}

/// An epoch as text: digits only.
pub(crate) fn epoch(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Two values would leave open which one counts.
fn single<'a>(request: &Request<'a>, name: &str) -> Result<Option<&'a [u8]>, Fault> {
    let mut values = request.fields.all(name);
    let value = values.next();
    match values.next() {
        None => Ok(value),
        Some(_) => Err(Fault::new(ErrorCode::MalformedParameter, format!("{name} came twice"))),
    }
}

/// A string as in RFC 9651, section 3.3.3, parameters behind it ignored; or the same without
/// quotes, as most clients write it.
fn key(value: &[u8]) -> Option<Vec<u8>> {
    let is_printable = |byte: &u8| (0x20..0x7f).contains(byte);
    let Some((b'"', rest)) = value.split_first() else {
        return value.iter().all(is_printable).then(|| value.to_vec());
    };
    let mut key = Vec::new();
    let mut bytes = rest.iter();
    loop {
        match bytes.next()? {
            b'"' => break,
            b'\\' => key.push(*bytes.next().filter(|byte| matches!(byte, b'"' | b'\\'))?),
            byte if is_printable(byte) => key.push(*byte),
            _ => return None,
        }
    }
    let rest = bytes.as_slice();
    (rest.is_empty() || rest.starts_with(b";")).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        for (value, expected) in [
            ("abc-1", Some("abc-1")),
            ("a\"b", Some("a\"b")),
            ("\"a b\"", Some("a b")),
            ("\"a\\\"b\\\\\"", Some("a\"b\\")),
            ("\"a\";x=1", Some("a")),
            ("\"\"", Some("")),
            ("\"a", None),
            ("\"a\"b", None),
            ("\"a\\b\"", None),
            ("\"a\tb\"", None),
            ("a\tb", None),
            ("\u{e9}", None),
        ] {
            let found = key(value.as_bytes());
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{value}");
        }
    }

    #[test]
    fn epochs() {
        for (text, expected) in [
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("", None),
            ("+1", None),
            ("1 ", None),
        ] {
            assert_eq!(epoch(text), expected, "{text}");
        }
    }
}
