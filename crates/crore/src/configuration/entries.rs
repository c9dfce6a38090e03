//! The configuration as values: every option with its value and origin.

use super::fault::{Fault, Origin, nearest};
use super::options::{Declared, LogTable, OPTIONS, OptionSpec, SECTIONS, Section, TABLES};
use super::value::{Refusal, Value, Values};

/// Every option with a value and where it comes from.
#[derive(Clone, Debug)]
pub struct Configuration {
    pub(super) values: Values,
    /// The `[[log]]` tables; at least one.
    pub logs: Vec<Entry>,
    /// The `[[rule]]` tables.
    pub rules: Vec<Entry>,
    /// The `[[token_key]]` tables.
    pub token_keys: Vec<Entry>,
    /// The `[[api_key]]` tables.
    pub api_keys: Vec<Entry>,
    /// The `[[grant]]` tables.
    pub grants: Vec<Entry>,
}

/// A segment on disk is by default about so small a part of its log.
const DISK_SEGMENTS: u64 = 32;
/// The largest segment that a log on disk has by default.
const DISK_SEGMENT_BYTES_MAX: u64 = 64 << 20;

/// One `[[log]]` or `[[rule]]`.
#[derive(Clone, Debug)]
pub struct Entry {
    pub(super) values: Values,
    /// The beginning of the table.
    pub origin: Origin,
}

impl Default for Configuration {
    fn default() -> Self {
        Configuration {
            values: OPTIONS
                .iter()
                .filter_map(|spec| Some((spec.key, (spec.default_value()?, Origin::Default))))
                .collect(),
            logs: vec![Entry::with_defaults(LogTable::OPTIONS, Origin::Default)],
            rules: Vec::new(),
            token_keys: Vec::new(),
            api_keys: Vec::new(),
            grants: Vec::new(),
        }
    }
}

impl Configuration {
    /// The options of a section.
    pub fn read<T: Section>(&self) -> T {
        T::of(&self.values)
    }

    /// All tables, in the order of [`TABLES`].
    pub fn tables(&self) -> impl Iterator<Item = (&'static Declared, &Vec<Entry>)> {
        let Configuration { logs, rules, token_keys, api_keys, grants, .. } = self;
        TABLES.iter().zip([logs, rules, token_keys, api_keys, grants])
    }

    /// The options of a table, and its entries.
    pub(super) fn table_mut(
        &mut self,
        name: &str,
    ) -> Option<(&'static [OptionSpec], &mut Vec<Entry>)> {
        let Configuration { logs, rules, token_keys, api_keys, grants, .. } = self;
        let all = [logs, rules, token_keys, api_keys, grants];
        let found = TABLES.iter().zip(all).find(|((table, ..), _)| *table == name);
        found.map(|((.., specs), entries)| (*specs, entries))
    }

    /// The value of an option and its origin.
    ///
    /// # Panics
    /// The key is not declared: a mistake in this program.
    pub fn get(&self, key: &str) -> &(Value, Origin) {
        self.values.get(key).unwrap_or_else(|| panic!("the option {key} is not declared"))
    }

    /// The value of an option that has no default, and its origin; `None` if it is not set.
    pub fn given(&self, key: &str) -> Option<&(Value, Origin)> {
        self.values.get(key)
    }

    /// The number of a count, a size (bytes), or a duration (milliseconds); `None` where it is
    /// `"auto"`.
    pub fn number(&self, key: &str) -> Option<u64> {
        number_of(&self.get(key).0)
    }

    /// The origin of an option's value; the defaults if it has none.
    pub fn origin_of(&self, key: &str) -> Origin {
        self.given(key).map_or(Origin::Default, |(_, origin)| origin.clone())
    }

    pub(super) fn set(
        &mut self,
        key: &str,
        origin: Origin,
        read: impl FnOnce(&OptionSpec) -> Result<Value, Refusal>,
        faults: &mut Vec<Fault>,
    ) {
        let Some(spec) = OPTIONS.iter().find(|spec| spec.key == key) else {
            faults.push(unknown_key(key, origin));
            return;
        };
        match read(spec) {
            Ok(value) => {
                self.values.insert(spec.key, (value, origin));
            }
            Err(Refusal { problem, expected }) => {
                faults.push(Fault { origin, key: key.into(), problem, expected });
            }
        }
    }
}

impl Entry {
    /// The options of the table.
    pub fn read<T: Section>(&self) -> T {
        T::of(&self.values)
    }

    pub(super) fn with_defaults(specs: &'static [OptionSpec], origin: Origin) -> Entry {
        let values = specs
            .iter()
            .filter_map(|spec| Some((spec.key, (spec.default_value()?, Origin::Default))))
            .collect();
        Entry { values, origin }
    }

    /// All keys that have a value.
    pub(super) fn values(&self) -> Vec<(&'static str, Value)> {
        let value = |(key, (value, _)): (&&'static str, &(Value, Origin))| (*key, value.clone());
        self.values.iter().map(value).collect()
    }

    pub(super) fn put(&mut self, key: &'static str, value: Value, origin: Origin) {
        self.values.insert(key, (value, origin));
    }

    pub(super) fn take(&mut self, key: &str) {
        self.values.remove(key);
    }

    /// Defaults that depend on other values. The segments of a larger log on disk are larger, so
    /// that a start opens few files, and what goes at once stays a small part of the log.
    pub(super) fn derive_defaults(&mut self) {
        let given = self.get("segment_bytes").map(|(_, origin)| origin);
        let is_mirrored = matches!(self.get("mirror"), Some((Value::Boolean(true), _)));
        if (is_mirrored || self.text("durability") == Some("disk"))
            && matches!(given, Some(Origin::Default))
            && let (Some(bytes), Some(least)) =
                (self.number("bytes_max"), self.number("segment_bytes"))
        {
            let part = (bytes / DISK_SEGMENTS).next_multiple_of(1 << 20);
            let value = Value::Size(part.clamp(least, DISK_SEGMENT_BYTES_MAX.max(least)));
            self.put("segment_bytes", value, Origin::Default);
        }
    }

    /// The value of a key and its origin; `None` where none was given and there is no default.
    pub fn get(&self, key: &str) -> Option<&(Value, Origin)> {
        self.values.get(key)
    }

    /// The number of a key, like [`Configuration::number`].
    pub fn number(&self, key: &str) -> Option<u64> {
        self.get(key).and_then(|(value, _)| number_of(value))
    }

    /// Words; `None` where none were given.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).map(|(value, _)| text_of(value))
    }

    /// The origin of a key's value; the table's beginning if it was not given.
    pub fn origin_of(&self, key: &str) -> Origin {
        match self.get(key) {
            None | Some((_, Origin::Default)) => self.origin.clone(),
            Some((_, origin)) => origin.clone(),
        }
    }
}

fn number_of(value: &Value) -> Option<u64> {
    match value {
        Value::Count(number)
        | Value::Size(number)
        | Value::Duration(number)
        | Value::Moment(number) => Some(*number),
        _ => None,
    }
}

fn text_of(value: &Value) -> &str {
    match value {
        Value::Text(text) => text,
        _ => "",
    }
}

/// The fault of a `section.name` that nothing declares.
pub fn unknown_key(key: &str, origin: Origin) -> Fault {
    let name = key.rsplit('.').next().unwrap_or(key);
    // The same name in another section is a better suggestion than a similar name in this one.
    let meant = OPTIONS
        .iter()
        .map(|spec| spec.key)
        .find(|candidate| candidate.rsplit('.').next() == Some(name))
        .or_else(|| nearest(key, OPTIONS.iter().map(|spec| spec.key)));
    let section = key.split_once('.').map(|(section, _)| section).filter(|name| is_section(name));
    let allowed: Vec<&str> = match section {
        Some(section) => OPTIONS
            .iter()
            .filter_map(|spec| spec.key.split_once('.').filter(|(name, _)| *name == section))
            .map(|(_, name)| name)
            .collect(),
        None => SECTIONS.iter().map(|(name, ..)| *name).collect(),
    };
    unknown(
        key,
        origin,
        meant,
        &section.map_or("a section".into(), |name| format!("a key of [{name}]")),
        &allowed,
    )
}

pub fn unknown(
    key: &str,
    origin: Origin,
    meant: Option<&str>,
    what: &str,
    allowed: &[&str],
) -> Fault {
    let hint = meant.map_or(String::new(), |meant| format!(", did you mean {meant}?"));
    Fault {
        origin,
        key: key.into(),
        problem: format!("unknown key{hint}"),
        expected: format!("{what}: {}", allowed.join(", ")),
    }
}

pub fn is_section(name: &str) -> bool {
    SECTIONS.iter().any(|(section, ..)| *section == name)
}
