//! Values of options as the code that uses them has them.

use crate::configuration::value::{Kind, Secret, Value};
use broker::settings::TicketKey;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use stdx::networks::{Network, Networks};

/// The type of an option's field.
pub trait Typed: Sized {
    /// Converts a value; `None` if the option's declaration allows a value that the type lacks.
    fn of(value: &Value) -> Option<Self>;

    /// Converts the value of an option that may have none.
    fn of_given(value: Option<&Value>) -> Option<Self> {
        Self::of(value?)
    }
}

/// No value, or `"auto"`.
impl<T: Typed> Typed for Option<T> {
    fn of(value: &Value) -> Option<Self> {
        if *value == Value::Auto { Some(None) } else { T::of(value).map(Some) }
    }

    fn of_given(value: Option<&Value>) -> Option<Self> {
        value.map_or(Some(None), Self::of)
    }
}

/// A type whose values are words.
pub trait Choice: 'static {
    /// The words.
    const WORDS: &'static [&'static str];
}

/// The words of a type.
pub const fn choice<T: Choice>() -> Kind {
    Kind::Choice(T::WORDS)
}

/// `Type: Variant = "word", ..`: the words of an option with this type.
macro_rules! choices {
    ($type:ident: $($variant:ident = $word:literal),+) => {
        impl $crate::configuration::options::typed::Choice for $type {
            const WORDS: &'static [&'static str] = &[$($word),+];
        }

        impl $crate::configuration::options::typed::Typed for $type {
            fn of(value: &$crate::configuration::value::Value) -> Option<Self> {
                match value {
                    $($crate::configuration::value::Value::Text(word) if word == $word => {
                        Some($type::$variant)
                    })+
                    _ => None,
                }
            }
        }
    };
}
pub(super) use choices;

/// Milliseconds since 1970.
pub struct UnixMs(pub u64);

/// Each line: a type, and the values that it takes.
macro_rules! typed {
    ($($type:ty: $pattern:pat => $value:expr;)+) => {
        $(impl Typed for $type {
            fn of(value: &Value) -> Option<Self> {
                match value {
                    $pattern => $value,
                    _ => None,
                }
            }
        })+
    };
}

typed! {
    u8: Value::Count(number) | Value::Size(number) => u8::try_from(*number).ok();
    u16: Value::Count(number) | Value::Size(number) => u16::try_from(*number).ok();
    u32: Value::Count(number) | Value::Size(number) => u32::try_from(*number).ok();
    i32: Value::Count(number) | Value::Size(number) => i32::try_from(*number).ok();
    u64: Value::Count(number) | Value::Size(number) => Some(*number);
    usize: Value::Count(number) | Value::Size(number) => usize::try_from(*number).ok();
    Duration: Value::Duration(span_ms) => Some(Duration::from_millis(*span_ms));
    UnixMs: Value::Moment(unix_ms) => Some(UnixMs(*unix_ms));
    bool: Value::Boolean(switch) => Some(*switch);
    String: Value::Text(text) => Some(text.clone());
    PathBuf: Value::Text(text) => Some(text.into());
    Secret: Value::Secret(secret) => Some(secret.clone());
    [u8; 32]: Value::Hash(hash) => Some(*hash);
    Vec<SocketAddr>: Value::Addresses(addresses) => Some(addresses.clone());
    Vec<TicketKey>: Value::Keys(keys) => Some(keys.clone());
    Vec<String>: Value::Texts(texts) => Some(texts.clone());
    Vec<Box<str>>: Value::Texts(texts) => Some(texts.iter().map(|text| (**text).into()).collect());
    Networks: Value::Texts(texts) => texts.iter().map(|text| Network::parse(text)).collect();
}
