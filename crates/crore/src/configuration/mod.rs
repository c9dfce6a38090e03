//! Configuration: file < environment < flags, over declared defaults. One declaration per option
//! (`options.rs`) gives the file `crore.toml`, the documents, the environment's names and
//! validation.
//!
//! Unknown keys and bad values are faults with file, line, key and what was expected; all are
//! collected, and the command ends with exit code 78.

pub mod assemble;
pub mod assemble_logging;
pub mod changes;
pub mod document;
pub mod explain;
pub mod fault;
mod file;
mod moment;
pub mod options;
pub mod relations;
pub mod value;
mod variables;

use fault::{Fault, Faults, Origin};
use options::{LOG_OPTIONS, OPTIONS, OptionSpec};
use std::collections::BTreeMap;
use std::net::SocketAddr;
#[cfg(test)]
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use value::{Refusal, Value};

/// Every option with a value and where it comes from.
#[derive(Clone, Debug)]
pub struct Configuration {
    values: BTreeMap<&'static str, (Value, Origin)>,
    /// The `[[log]]` tables; at least one.
    pub logs: Vec<Entry>,
    /// The `[[rule]]` tables.
    pub rules: Vec<Entry>,
    /// The `[[token_key]]` tables.
    pub token_keys: Vec<Entry>,
    /// The `[[api_key]]` tables.
    pub api_keys: Vec<Entry>,
}

/// A segment on disk is by default about so small a part of its log.
const DISK_SEGMENTS: u64 = 32;
/// The largest segment that a log on disk has by default.
const DISK_SEGMENT_BYTES_MAX: u64 = 64 << 20;

/// One `[[log]]` or `[[rule]]`.
#[derive(Clone, Debug)]
pub struct Entry {
    values: BTreeMap<&'static str, (Value, Origin)>,
    /// The beginning of the table.
    pub origin: Origin,
}

/// Sources of values, which override the defaults.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// A configuration file.
    pub file: Option<PathBuf>,
    /// The environment; only names that start with `CRORE_` matter.
    pub variables: Vec<(String, String)>,
    /// Flags: the flag's name, the key and the value.
    pub flags: Vec<(&'static str, String, String)>,
}

/// Reads all sources and checks the whole.
///
/// # Errors
/// All faults of all sources. A file that cannot be read is one.
pub fn load(sources: &Sources) -> Result<Configuration, Faults> {
    let mut faults = Vec::new();
    let mut configuration = Configuration::default();
    if let Some(path) = &sources.file {
        let shared = Arc::new(path.clone());
        match std::fs::read_to_string(path) {
            Ok(text) => file::read(&shared, &text, &mut configuration, &mut faults),
            Err(error) => faults.push(Fault {
                origin: Origin::Flag("--config"),
                key: String::new(),
                problem: format!("cannot read {}: {error}", path.display()),
                expected: "a TOML file".into(),
            }),
        }
    }
    variables::read(&sources.variables, &mut configuration, &mut faults);
    for (flag, key, text) in &sources.flags {
        let read = |spec: &OptionSpec| match spec.kind.is_secret() {
            true => Err(secret_in_flag(spec)),
            false => spec.kind.read_text(text),
        };
        configuration.set(key, Origin::Flag(flag), read, &mut faults);
    }
    if !faults.is_empty() {
        return Err(Faults(faults));
    }
    check(&configuration)?;
    Ok(configuration)
}

/// Everybody on the machine can read a command line, for as long as the process runs and over its
/// upgrades.
fn secret_in_flag(spec: &OptionSpec) -> Refusal {
    let variable = spec.variable();
    Refusal {
        problem: "a secret on the command line is visible in the process list".into(),
        expected: format!(
            "{variable}_FILE=FILE or {variable} in the environment, or the configuration file"
        ),
    }
}

/// Checks a whole that did not come from one reading of the sources.
///
/// # Errors
/// Values that contradict each other.
pub fn check(configuration: &Configuration) -> Result<(), Faults> {
    let mut faults = Vec::new();
    relations::check(configuration, &mut faults);
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Faults(faults)),
    }
}

/// The text of one file, checked.
///
/// # Errors
/// All its faults.
#[cfg(test)]
pub fn load_text(path: &Path, text: &str) -> Result<Configuration, Faults> {
    let mut faults = Vec::new();
    let mut configuration = Configuration::default();
    file::read(&Arc::new(path.to_owned()), text, &mut configuration, &mut faults);
    if !faults.is_empty() {
        return Err(Faults(faults));
    }
    check(&configuration)?;
    Ok(configuration)
}

impl Default for Configuration {
    fn default() -> Self {
        Configuration {
            values: OPTIONS
                .iter()
                .filter_map(|spec| Some((spec.key, (spec.default_value()?, Origin::Default))))
                .collect(),
            logs: vec![Entry::with_defaults(LOG_OPTIONS, Origin::Default)],
            rules: Vec::new(),
            token_keys: Vec::new(),
            api_keys: Vec::new(),
        }
    }
}

impl Configuration {
    /// The value of an option and its origin.
    ///
    /// # Panics
    /// The key is not declared: a mistake in this program.
    pub fn get(&self, key: &str) -> &(Value, Origin) {
        self.values.get(key).unwrap_or_else(|| panic!("the option {key} is not declared"))
    }

    /// The value of an option that has no default, and its origin; `None` where nobody gave it.
    pub fn given(&self, key: &str) -> Option<&(Value, Origin)> {
        self.values.get(key)
    }

    /// The number of a count, a size (bytes), or a duration (milliseconds); `None` where it is
    /// `"auto"`.
    pub fn number(&self, key: &str) -> Option<u64> {
        number_of(&self.get(key).0)
    }

    /// A switch.
    pub fn is_on(&self, key: &str) -> bool {
        matches!(self.get(key).0, Value::Boolean(true))
    }

    /// Words or a choice.
    pub fn text(&self, key: &str) -> &str {
        text_of(&self.get(key).0)
    }

    /// A list of words.
    pub fn texts(&self, key: &str) -> &[String] {
        match &self.get(key).0 {
            Value::Texts(texts) => texts,
            _ => &[],
        }
    }

    /// Addresses.
    pub fn addresses(&self, key: &str) -> &[SocketAddr] {
        match &self.get(key).0 {
            Value::Addresses(addresses) => addresses,
            _ => &[],
        }
    }

    fn set(
        &mut self,
        key: &str,
        origin: Origin,
        read: impl FnOnce(&OptionSpec) -> Result<Value, Refusal>,
        faults: &mut Vec<Fault>,
    ) {
        let Some(spec) = OPTIONS.iter().find(|spec| spec.key == key) else {
            faults.push(file::unknown_key(key, origin));
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
    fn with_defaults(specs: &'static [OptionSpec], origin: Origin) -> Entry {
        let values = specs
            .iter()
            .filter_map(|spec| Some((spec.key, (spec.default_value()?, Origin::Default))))
            .collect();
        Entry { values, origin }
    }

    /// All keys that have a value.
    fn values(&self) -> Vec<(&'static str, Value)> {
        let value = |(key, (value, _)): (&&'static str, &(Value, Origin))| (*key, value.clone());
        self.values.iter().map(value).collect()
    }

    fn put(&mut self, key: &'static str, value: Value, origin: Origin) {
        self.values.insert(key, (value, origin));
    }

    fn take(&mut self, key: &str) {
        self.values.remove(key);
    }

    /// Defaults that depend on other values. The segments of a larger log on disk are larger, so
    /// that a start opens few files, and what goes at once stays a small part of the log.
    fn derive_defaults(&mut self) {
        let given = self.get("segment_bytes").map(|(_, origin)| origin);
        if self.text("durability") == Some("disk")
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

    /// A list of words.
    pub fn texts(&self, key: &str) -> &[String] {
        match self.get(key) {
            Some((Value::Texts(texts), _)) => texts,
            _ => &[],
        }
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

#[cfg(test)]
mod tests;
