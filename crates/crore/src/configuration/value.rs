//! Values of options: how text and TOML become numbers, sizes, durations, addresses, and how they
//! are shown again.
//!
//! Invariant: what [`Value`]'s TOML form shows reads back as the same value, but for secrets, which
//! are not shown.

mod addresses;

use super::fault::Origin;
use super::moment::parse_moment;
use broker::settings::TicketKey;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use stdx::networks::Network;

/// Values and their origins, by key.
pub type Values = BTreeMap<&'static str, (Value, Origin)>;

/// Values of an option, with their bounds.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number; where `auto` is set the word `"auto"` is allowed too.
    Count {
        /// Smallest value allowed.
        min: u64,
        /// Greatest value allowed.
        max: u64,
        /// Whether `"auto"` is allowed.
        auto: bool,
    },
    /// A number of bytes, such as `"64KiB"`, or a plain integer; `"auto"` as above.
    Size {
        /// Smallest value allowed, in bytes.
        min: u64,
        /// Greatest value allowed, in bytes.
        max: u64,
        /// Whether `"auto"` is allowed.
        auto: bool,
    },
    /// A time span, such as `"25s"`; `"auto"` as above.
    Duration {
        /// Smallest value allowed, in milliseconds.
        min_ms: u64,
        /// Greatest value allowed, in milliseconds.
        max_ms: u64,
        /// The value is a multiple of so many milliseconds.
        step_ms: u64,
        /// Whether `"auto"` is allowed.
        auto: bool,
    },
    /// Words of at least one character, at most so many bytes.
    Text {
        /// Greatest length, in bytes.
        bytes_max: usize,
    },
    /// `true` or `false`.
    Boolean,
    /// `IP:PORT` addresses: one, or a list.
    Addresses,
    /// A list of origins as browsers send them, or `*`.
    Origins,
    /// A list of addresses of nodes, `ws://` or `wss://`.
    Urls,
    /// One address of a node.
    Url,
    /// A list of networks, such as `10.0.0.0/8`.
    Networks,
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// A topic filter.
    Filter,
    /// Secrets of 32 bytes, in hexadecimal; never shown.
    Keys,
    /// A moment: seconds since 1970, or as RFC 3339 writes it.
    Moment,
    /// A list of topic filters.
    Filters,
    /// A list of words.
    Words,
    /// A secret; never shown.
    Secret,
    /// A SHA-256, in hexadecimal.
    Hash,
}

/// The value of an option.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// `"auto"`: decided at the start.
    Auto,
    /// A whole number.
    Count(u64),
    /// Bytes.
    Size(u64),
    /// Milliseconds.
    Duration(u64),
    /// Words, a choice or a filter.
    Text(String),
    /// A switch.
    Boolean(bool),
    /// Addresses.
    Addresses(Vec<SocketAddr>),
    /// Several words.
    Texts(Vec<String>),
    /// Secrets; shown by the names that tickets have for them.
    Keys(Vec<TicketKey>),
    /// Milliseconds since 1970.
    Moment(u64),
    /// Never shown.
    Secret(Secret),
    /// A SHA-256.
    Hash([u8; 32]),
}

/// Words that nothing prints.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// The words.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

/// A value as a source gave it, before its kind is known.
#[derive(Clone, Debug)]
pub enum Raw {
    /// A TOML integer.
    Integer(i128),
    /// A TOML boolean.
    Boolean(bool),
    /// A TOML string.
    Text(String),
    /// A TOML array.
    Array(Vec<Raw>),
    /// Anything else, by its name.
    Other(&'static str),
}

/// The reason why a value is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The problem with the value.
    pub problem: String,
    /// The expected value.
    pub expected: String,
}

impl Kind {
    /// The value that a TOML file gave.
    ///
    /// # Errors
    /// The value has another type, or is outside of the bounds.
    pub fn read(&self, raw: &Raw) -> Result<Value, Refusal> {
        self.convert(raw).ok_or_else(|| Refusal {
            problem: if self.is_secret() {
                "this is not a valid value".into()
            } else {
                format!("{raw} is not a valid value")
            },
            expected: match self {
                Kind::Addresses => addresses::expectation(raw, self.expectation()),
                _ => self.expectation(),
            },
        })
    }

    /// The value of a number: of a count, of bytes, or of milliseconds.
    pub fn value_of(&self, number: u64) -> Value {
        match self {
            Kind::Size { .. } => Value::Size(number),
            Kind::Duration { .. } => Value::Duration(number),
            _ => Value::Count(number),
        }
    }

    /// Whether its values are secret.
    pub fn is_secret(&self) -> bool {
        matches!(self, Kind::Keys | Kind::Secret | Kind::Hash)
    }

    /// Whether it takes a list: texts are taken apart at commas, and a file's at its lines, too.
    pub fn is_list(&self) -> bool {
        matches!(
            self,
            Kind::Addresses
                | Kind::Origins
                | Kind::Urls
                | Kind::Networks
                | Kind::Keys
                | Kind::Filters
                | Kind::Words
        )
    }

    /// The value that an environment variable or a flag gave: a list is separated by commas.
    ///
    /// # Errors
    /// The errors of [`Kind::read`].
    pub fn read_text(&self, text: &str) -> Result<Value, Refusal> {
        let raw = match self {
            Kind::Boolean => text.parse().map_or_else(|_| Raw::Text(text.into()), Raw::Boolean),
            Kind::Count { .. } | Kind::Size { .. } | Kind::Moment => {
                text.parse().map_or_else(|_| Raw::Text(text.into()), Raw::Integer)
            }
            list if list.is_list() => Raw::Array(
                text.split(',')
                    .map(str::trim)
                    .filter(|part| !part.is_empty())
                    .map(|part| Raw::Text(part.into()))
                    .collect(),
            ),
            _ => Raw::Text(text.into()),
        };
        self.read(&raw)
    }

    /// The expected value, in words.
    pub fn expectation(&self) -> String {
        let or_auto = |auto: bool| if auto { " or \"auto\"" } else { "" };
        match self {
            Kind::Count { min, max, auto } => {
                format!("an integer from {min} to {max}{}", or_auto(*auto))
            }
            Kind::Size { min, max, auto } => format!(
                "a size from {} to {}, such as \"64KiB\"{}",
                show_size(*min),
                show_size(*max),
                or_auto(*auto)
            ),
            Kind::Duration { min_ms, max_ms, step_ms, auto } => format!(
                "a duration from {} to {} in {}, such as \"25s\"{}",
                show_duration(*min_ms),
                show_duration(*max_ms),
                if *step_ms == 1 { "milliseconds" } else { "whole seconds" },
                or_auto(*auto)
            ),
            Kind::Text { bytes_max } => format!("a string of 1 to {bytes_max} bytes"),
            Kind::Boolean => "true or false".into(),
            Kind::Addresses => "an address such as \"127.0.0.1:8800\", or a list of them".into(),
            Kind::Origins => {
                "a list of origins such as [\"https://example.com\"], or [\"*\"]".into()
            }
            Kind::Urls => format!(
                "a list of at most {URLS_MAX} addresses such as [\"wss://b.example.com/crore\"]"
            ),
            Kind::Url => "an address such as \"wss://a.example.com/crore\"".into(),
            Kind::Networks => {
                "a list of addresses or networks such as [\"10.0.0.0/8\", \"2001:db8::1\"]".into()
            }
            Kind::Choice(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
                quoted.join(" or ")
            }
            Kind::Filter => {
                "a topic filter of 1 to 255 bytes: `+` matches one level, `#` the rest".into()
            }
            Kind::Keys => "a list of keys, each 64 hexadecimal digits".into(),
            Kind::Filters => {
                "a list of topic filters such as [\"prices/#\"], each of 1 to 255 bytes".into()
            }
            Kind::Words => format!("a list of strings, each of 1 to {WORD_BYTES_MAX} bytes"),
            Kind::Secret => format!("a string of 1 to {SECRET_BYTES_MAX} bytes"),
            Kind::Hash => "a SHA-256: 64 hexadecimal digits".into(),
            Kind::Moment => {
                "seconds since 1970, or a moment such as \"2026-01-31T12:00:00Z\"".into()
            }
        }
    }

    fn convert(&self, raw: &Raw) -> Option<Value> {
        let may_be_auto = matches!(
            self,
            Kind::Count { auto: true, .. }
                | Kind::Size { auto: true, .. }
                | Kind::Duration { auto: true, .. }
        );
        if may_be_auto && matches!(raw, Raw::Text(word) if word == "auto") {
            return Some(Value::Auto);
        }
        match (self, raw) {
            (Kind::Count { min, max, .. }, Raw::Integer(number)) => {
                bounded(u64::try_from(*number).ok()?, *min, *max).map(Value::Count)
            }
            (Kind::Size { min, max, .. }, Raw::Integer(number)) => {
                bounded(u64::try_from(*number).ok()?, *min, *max).map(Value::Size)
            }
            (Kind::Size { min, max, .. }, Raw::Text(text)) => {
                bounded(parse_size(text)?, *min, *max).map(Value::Size)
            }
            (Kind::Duration { min_ms, max_ms, step_ms, .. }, Raw::Text(text)) => {
                let span_ms = bounded(parse_duration(text)?, *min_ms, *max_ms)?;
                span_ms.is_multiple_of(*step_ms).then_some(Value::Duration(span_ms))
            }
            (Kind::Boolean, Raw::Boolean(switch)) => Some(Value::Boolean(*switch)),
            (Kind::Moment, Raw::Integer(seconds)) => {
                let seconds = u64::try_from(*seconds).ok()?;
                seconds.checked_mul(1_000).map(Value::Moment)
            }
            (_, Raw::Text(text)) => self.convert_text(text),
            (_, Raw::Array(parts)) => self.convert_list(parts),
            _ => None,
        }
    }

    fn convert_text(&self, text: &str) -> Option<Value> {
        let words = || text.to_owned();
        match self {
            Kind::Text { bytes_max } => {
                let fits = !text.is_empty()
                    && text.len() <= *bytes_max
                    && !text.chars().any(char::is_control);
                fits.then(|| Value::Text(words()))
            }
            Kind::Choice(choices) => choices.contains(&text).then(|| Value::Text(words())),
            Kind::Url => is_url(text).then(|| Value::Text(words())),
            Kind::Filter => filter_is_valid(text).then(|| Value::Text(words())),
            Kind::Addresses => Some(Value::Addresses(vec![text.parse().ok()?])),
            Kind::Secret => {
                let fits = !text.is_empty() && text.len() <= SECRET_BYTES_MAX;
                fits.then(|| Value::Secret(Secret(text.into())))
            }
            Kind::Hash => parse_hex(text).map(Value::Hash),
            Kind::Moment => parse_moment(text).map(Value::Moment),
            _ => None,
        }
    }

    fn convert_list(&self, parts: &[Raw]) -> Option<Value> {
        let found = parts.iter().map(Raw::text);
        match self {
            Kind::Addresses => {
                let addresses: Option<_> = found.map(|text| text?.parse().ok()).collect();
                addresses.map(Value::Addresses)
            }
            Kind::Origins => texts(parts, is_origin),
            Kind::Urls if parts.len() <= URLS_MAX => texts(parts, is_url),
            Kind::Networks => {
                let networks = found.map(|text| Some(Network::parse(text?)?.to_string()));
                networks.collect::<Option<_>>().map(Value::Texts)
            }
            Kind::Keys => {
                found.map(|text| parse_key(text?)).collect::<Option<_>>().map(Value::Keys)
            }
            Kind::Filters if parts.len() <= LIST_LEN_MAX => texts(parts, filter_is_valid),
            Kind::Words if parts.len() <= LIST_LEN_MAX => {
                texts(parts, |text| !text.is_empty() && text.len() <= WORD_BYTES_MAX)
            }
            _ => None,
        }
    }
}

impl Raw {
    fn text(&self) -> Option<&str> {
        match self {
            Raw::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl fmt::Display for Raw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Raw::Integer(number) => write!(formatter, "{number}"),
            Raw::Boolean(switch) => write!(formatter, "{switch}"),
            Raw::Text(text) => formatter.write_str(&quote(text)),
            Raw::Array(parts) => {
                formatter.write_str("[")?;
                for (place, part) in parts.iter().enumerate() {
                    write!(formatter, "{}{part}", if place == 0 { "" } else { ", " })?;
                }
                formatter.write_str("]")
            }
            Raw::Other(name) => formatter.write_str(name),
        }
    }
}

impl Value {
    /// The value in JSON: sizes and durations as texts like in the file, secrets by their names.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Value::Count(number) => (*number).into(),
            Value::Boolean(switch) => (*switch).into(),
            Value::Text(text) => text.as_str().into(),
            Value::Texts(texts) => texts.as_slice().into(),
            Value::Moment(unix_ms) => unix_ms.div_ceil(1_000).into(),
            // The other kinds are shown as strings, or as a list of strings.
            other => serde_json::from_str(&other.to_string()).unwrap_or_default(),
        }
    }
}

/// The value in TOML.
impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |formatter: &mut fmt::Formatter<'_>, words: Vec<String>| {
            write!(formatter, "[{}]", words.join(", "))
        };
        match self {
            Value::Auto => formatter.write_str("\"auto\""),
            Value::Count(number) => write!(formatter, "{number}"),
            Value::Size(bytes) => write!(formatter, "\"{}\"", show_size(*bytes)),
            Value::Duration(span_ms) => write!(formatter, "\"{}\"", show_duration(*span_ms)),
            Value::Text(text) => formatter.write_str(&quote(text)),
            Value::Boolean(switch) => write!(formatter, "{switch}"),
            Value::Addresses(addresses) => {
                list(formatter, addresses.iter().map(|address| format!("\"{address}\"")).collect())
            }
            Value::Keys(keys) => list(
                formatter,
                keys.iter().map(|key| format!("\"<secret {:08x}>\"", key.id)).collect(),
            ),
            // Back to whole seconds: what counts before the second does so within it.
            Value::Moment(unix_ms) => write!(formatter, "{}", unix_ms.div_ceil(1_000)),
            Value::Secret(_) => formatter.write_str("\"hidden\""),
            Value::Hash(hash) => {
                formatter.write_str("\"")?;
                for byte in hash {
                    write!(formatter, "{byte:02x}")?;
                }
                formatter.write_str("\"")
            }
            Value::Texts(texts) => list(formatter, texts.iter().map(|text| quote(text)).collect()),
        }
    }
}

/// `64KiB`, `1MiB`, `512` or `512B` as bytes. Decimal units are refused, because they differ by 2
/// to 10 % and are easily confused.
pub fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let factor = SIZE_UNITS.iter().find(|(name, _)| *name == unit)?.1;
    number.checked_mul(factor)
}

/// Words or filters in one list.
const LIST_LEN_MAX: usize = 256;
/// Addresses of other nodes; all go into each GO_AWAY.
const URLS_MAX: usize = 16;
/// Longest of them, in bytes.
const URL_BYTES_MAX: usize = 255;
/// Longest word of a list, in bytes.
const WORD_BYTES_MAX: usize = 1_024;
/// Longest secret, in bytes.
const SECRET_BYTES_MAX: usize = 4_096;

fn texts(parts: &[Raw], is_valid: impl Fn(&str) -> bool) -> Option<Value> {
    let valid =
        parts.iter().map(|part| part.text().filter(|text| is_valid(text)).map(String::from));
    valid.collect::<Option<_>>().map(Value::Texts)
}

/// 64 hexadecimal digits as a key.
fn parse_key(text: &str) -> Option<TicketKey> {
    parse_hex(text).map(TicketKey::new)
}

/// 64 hexadecimal digits.
fn parse_hex(text: &str) -> Option<[u8; 32]> {
    let mut secret = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in secret.iter_mut().enumerate() {
        let high = char::from(text.as_bytes()[2 * at]).to_digit(16)?;
        let low = char::from(text.as_bytes()[2 * at + 1]).to_digit(16)?;
        *byte = (high << 4 | low) as u8;
    }
    Some(secret)
}

/// `250ms`, `25s`, `5m`, `2h` or `1d` as milliseconds.
pub fn parse_duration(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let factor = DURATION_UNITS.iter().find(|(name, _)| *name == unit)?.1;
    number.checked_mul(factor)
}

/// A moment as an option takes it, in whole seconds since 1970 that fit into 32 bits.
///
/// # Errors
/// What would be right.
pub fn parse_moment_s(text: &str) -> Result<u32, String> {
    let seconds = match Kind::Moment.read_text(text) {
        Ok(Value::Moment(unix_ms)) => u32::try_from(unix_ms / 1_000).ok(),
        _ => None,
    };
    seconds.ok_or_else(|| format!("expected {}", Kind::Moment.expectation()))
}

/// A TOML basic string.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            control if control.is_control() => {
                quoted.push_str(&format!("\\u{:04X}", control as u32));
            }
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}

const SIZE_UNITS: [(&str, u64); 6] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1), ("", 1)];

const DURATION_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

fn show_size(bytes: u64) -> String {
    show_in_units(bytes, &SIZE_UNITS)
}

fn show_duration(span_ms: u64) -> String {
    if span_ms == 0 {
        return "0s".into();
    }
    // Minutes and more only where the number stays small and round; "180s" reads better than "3m".
    let units = if span_ms < 600_000 { &DURATION_UNITS[3..] } else { &DURATION_UNITS[..] };
    show_in_units(span_ms, units)
}

/// The greatest unit that divides it.
fn show_in_units(number: u64, units: &[(&str, u64)]) -> String {
    let (unit, factor) = units
        .iter()
        .find(|(_, factor)| number > 0 && number.is_multiple_of(*factor))
        .unwrap_or(&("", 1));
    format!("{}{}", number / factor, if *unit == "B" { "" } else { unit })
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit.strip_prefix(' ').unwrap_or(unit)))
}

fn bounded(number: u64, min: u64, max: u64) -> Option<u64> {
    (min..=max).contains(&number).then_some(number)
}

/// `scheme://host[:port]` with nothing behind it, `null`, or `*`.
fn is_url(text: &str) -> bool {
    let has_scheme = text.starts_with("ws://") || text.starts_with("wss://");
    has_scheme && text.len() <= URL_BYTES_MAX && client::url::Endpoint::parse(text).is_ok()
}

fn is_origin(text: &str) -> bool {
    if text == "*" || text == "null" {
        return true;
    }
    let Some((scheme, host)) = text.split_once("://") else {
        return false;
    };
    !scheme.is_empty()
        && scheme.bytes().all(|byte| byte.is_ascii_lowercase() || b"+-.0123456789".contains(&byte))
        && !host.is_empty()
        && host.bytes().all(|byte| byte.is_ascii_graphic() && !b"/?#@\\*,".contains(&byte))
}

/// Whether a text is a filter.
fn filter_is_valid(text: &str) -> bool {
    broker::topic::Filter::parse(text).is_ok()
}

#[cfg(test)]
mod tests;
