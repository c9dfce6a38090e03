//! The declaration of one option, and the kinds of values that declarations name.

use super::typed::Typed;
use crate::configuration::value::{Kind, Value, Values};
use broker::limits::{Apply, Limit, Unit};

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// `section.name`; for the keys of `[[log]]` and `[[rule]]` the name alone.
    pub key: &'static str,
    /// Its values.
    pub kind: Kind,
    /// Its default.
    default: Default,
    /// The value that `crore.toml` shows if there is no default.
    pub example: &'static str,
    /// The time at which a change takes effect.
    pub apply: Apply,
    /// Its help, in sentences.
    pub help: &'static str,
}

/// The default of an option.
#[derive(Clone, Copy, Debug)]
enum Default {
    /// Text, as in an environment variable; empty where a value must be given, or the list is
    /// empty.
    Text(&'static str),
    /// A count, a size in bytes, or a duration in milliseconds.
    Number(u64),
}

impl OptionSpec {
    /// The option of a limit.
    pub fn of_limit(limit: &'static Limit) -> OptionSpec {
        let values = limit.values;
        let (min, max, auto) = (values.min, values.max, values.auto.is_some());
        let step_ms = milliseconds_of(values.unit);
        let kind = match values.unit {
            Unit::Count => Kind::Count { min, max, auto },
            Unit::Bytes => Kind::Size { min, max, auto },
            Unit::Milliseconds | Unit::Seconds => {
                let (min_ms, max_ms) = (min * step_ms, max * step_ms);
                Kind::Duration { min_ms, max_ms, step_ms, auto }
            }
        };
        let default = if values.auto == Some(limit.default) {
            Default::Text("auto")
        } else {
            Default::Number(limit.default * step_ms)
        };
        let Limit { option: key, apply, help, .. } = *limit;
        OptionSpec { key, kind, default, example: "", apply, help }
    }

    /// The default as a value; `None` where one must be given.
    pub fn default_value(&self) -> Option<Value> {
        let text = match self.default {
            Default::Number(number) => return Some(self.kind.value_of(number)),
            Default::Text("") if !self.kind.is_list() => return None,
            Default::Text(text) => text,
        };
        let value = self.kind.read_text(text);
        Some(value.unwrap_or_else(|refusal| {
            panic!("the declared default of {} is wrong: {}", self.key, refusal.expected)
        }))
    }

    /// The environment variable: `CRORE_SECTION_NAME`.
    pub fn variable(&self) -> String {
        format!("CRORE_{}", self.key.replace('.', "_").to_ascii_uppercase())
    }
}

/// The name of a section or table, a sentence, and its options.
pub type Declared = (&'static str, &'static str, &'static [OptionSpec]);

/// A section of the file, or a table of which there may be several, as a structure: each option
/// is a field.
pub trait Section: Sized {
    /// The declaration.
    const SECTION: Declared;
    /// The options.
    const OPTIONS: &'static [OptionSpec] = Self::SECTION.2;

    /// The values of the fields.
    ///
    /// # Panics
    /// A field's type lacks a value that its declaration allows: a mistake in this program.
    fn of(values: &Values) -> Self;
}

/// The value of one field.
pub fn field<T: Typed>(values: &Values, key: &str) -> T {
    let value = T::of_given(values.get(key).map(|(value, _)| value));
    value.unwrap_or_else(|| panic!("the value of {key} does not fit the type of its field"))
}

/// A sentence, then `section "name": Type;` or `table "name": Type;`, and for each option its help
/// and `field: type = "default", values, Reload or Restart;`. An option without a default has
/// `example "value"` instead.
macro_rules! options {
    ($(#[doc = $sentence:literal])+ $form:ident $section:literal: $name:ident;
     $($(#[doc = $help:literal])+
       $field:ident: $type:ty = $(example $example:literal)? $($default:literal)?,
       $values:expr, $apply:ident;)+) => {
        #[doc = concat!("The options of `", $section, "`.")]
        pub struct $name {
            $(pub $field: $type,)+
        }

        impl $crate::configuration::options::spec::Section for $name {
            const SECTION: $crate::configuration::options::spec::Declared = (
                $section,
                concat!($($sentence),+).trim_ascii_start(),
                &[$($crate::configuration::options::spec::option(
                    $crate::configuration::options::spec::key!($form $section $field),
                    $values,
                    (concat!($($default)?), concat!($($example)?)),
                    broker::limits::Apply::$apply,
                    concat!($($help),+).trim_ascii_start(),
                )),+],
            );

            fn of(values: &$crate::configuration::value::Values) -> Self {
                $name {
                    $($field: $crate::configuration::options::spec::field(
                        values,
                        $crate::configuration::options::spec::key!($form $section $field),
                    ),)+
                }
            }
        }
    };
}
pub(super) use options;

/// The key of a field.
macro_rules! key {
    (section $section:literal $field:ident) => {
        concat!($section, ".", stringify!($field))
    };
    (table $section:literal $field:ident) => {
        stringify!($field)
    };
}
pub(super) use key;

pub const fn option(
    key: &'static str,
    kind: Kind,
    (default, example): (&'static str, &'static str),
    apply: Apply,
    help: &'static str,
) -> OptionSpec {
    OptionSpec { key, kind, default: Default::Text(default), example, apply, help }
}

pub const fn text(bytes_max: usize) -> Kind {
    Kind::Text { bytes_max }
}

pub const fn count(min: u64, max: u64) -> Kind {
    Kind::Count { min, max, auto: false }
}

pub const fn count_or_auto(min: u64, max: u64) -> Kind {
    Kind::Count { min, max, auto: true }
}

pub const fn size(min: u64, max: u64) -> Kind {
    Kind::Size { min, max, auto: false }
}

pub const fn size_or_auto(min: u64, max: u64) -> Kind {
    Kind::Size { min, max, auto: true }
}

pub const fn seconds(min: u64, max: u64) -> Kind {
    Kind::Duration { min_ms: min * 1_000, max_ms: max * 1_000, step_ms: 1_000, auto: false }
}

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;
pub const DAY_S: u64 = 86_400;
/// More than any rate or count that makes a difference.
pub const MANY: u64 = u32::MAX as u64 - 1;

/// Milliseconds of one unit of a time; 1 for other units.
pub fn milliseconds_of(unit: Unit) -> u64 {
    match unit {
        Unit::Seconds => 1_000,
        Unit::Count | Unit::Bytes | Unit::Milliseconds => 1,
    }
}
