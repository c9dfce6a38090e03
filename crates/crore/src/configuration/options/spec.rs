//! The declaration of one option, and the kinds of values that declarations name.

use crate::configuration::value::{Kind, Value};
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
    /// When a change of it takes effect.
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
        OptionSpec { key: limit.option, kind, default, apply: limit.apply, help: limit.help }
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

pub const fn option(
    key: &'static str,
    kind: Kind,
    default: &'static str,
    help: &'static str,
) -> OptionSpec {
    OptionSpec { key, kind, default: Default::Text(default), apply: Apply::Restart, help }
}

/// An option that a running node takes.
pub const fn live(
    key: &'static str,
    kind: Kind,
    default: &'static str,
    help: &'static str,
) -> OptionSpec {
    OptionSpec { apply: Apply::Reload, ..option(key, kind, default, help) }
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
