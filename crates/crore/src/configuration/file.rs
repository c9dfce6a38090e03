//! `crore.toml`: from text to values with their lines. Every fault is collected; none hides
//! another.

use super::entries::{Configuration, Entry, is_section, unknown};
use super::fault::{Fault, Origin, nearest};
use super::options::{OPTIONS, OptionSpec, SECTIONS, TABLES};
use super::value::Raw;
use std::path::PathBuf;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reads the text of a file over what `configuration` holds.
pub fn read(
    path: &Arc<PathBuf>,
    text: &str,
    configuration: &mut Configuration,
    faults: &mut Vec<Fault>,
) {
    let lines = Lines { path, text };
    let document = match DeTable::parse(text) {
        Ok(document) => document,
        Err(error) => {
            faults.push(Fault {
                origin: lines.origin(error.span().map_or(0, |span| span.start)),
                key: String::new(),
                problem: format!("not TOML: {}", error.message()),
                expected: String::new(),
            });
            return;
        }
    };
    for (name, value) in document.get_ref() {
        let origin = lines.origin(name.span().start);
        let name = name.get_ref().as_ref();
        if let Some((specs, entries)) = configuration.table_mut(name) {
            match value.get_ref() {
                DeValue::Array(tables) => {
                    *entries = read_tables(name, specs, tables, &lines, faults);
                }
                other => faults.push(Fault {
                    origin,
                    key: name.into(),
                    problem: format!("{} is not an array of tables", raw(other)),
                    expected: format!("[[{name}]]"),
                }),
            }
            continue;
        }
        match (name, value.get_ref()) {
            (section, DeValue::Table(table)) if is_section(section) => {
                for (key, value) in table {
                    let origin = lines.origin(key.span().start);
                    let key = format!("{section}.{}", key.get_ref());
                    configuration.set(
                        &key,
                        origin,
                        |spec| spec.kind.read(&raw(value.get_ref())),
                        faults,
                    );
                }
            }
            (section, _) if is_section(section) => faults.push(Fault {
                origin,
                key: section.into(),
                problem: format!("{} is not a section", raw(value.get_ref())),
                expected: format!("[{section}]"),
            }),
            (unknown, _) => faults.push(unknown_top_level(unknown, origin)),
        }
    }
}

fn unknown_top_level(key: &str, origin: Origin) -> Fault {
    let sections = || SECTIONS.iter().chain(TABLES).map(|(name, ..)| *name);
    let meant = nearest(key, sections()).or_else(|| {
        // A key without its section, as `io_threads = 2` at the top of the file.
        OPTIONS
            .iter()
            .map(|spec| spec.key)
            .find(|candidate| candidate.ends_with(&format!(".{key}")))
    });
    let allowed: Vec<&str> = sections().collect();
    unknown(key, origin, meant, "a section", &allowed)
}

/// One entry for each table, each with a value for every option of `specs`; a table with a fault is
/// left out.
fn read_tables(
    name: &str,
    specs: &'static [OptionSpec],
    tables: &[Spanned<DeValue<'_>>],
    lines: &Lines<'_>,
    faults: &mut Vec<Fault>,
) -> Vec<Entry> {
    let mut entries = Vec::new();
    for table in tables {
        let origin = lines.origin(table.span().start);
        let DeValue::Table(keys) = table.get_ref() else {
            faults.push(Fault {
                origin,
                key: name.into(),
                problem: format!("{} is not a table", raw(table.get_ref())),
                expected: format!("[[{name}]]"),
            });
            continue;
        };
        let mut entry = Entry::with_defaults(specs, origin.clone());
        for (key, value) in keys {
            let origin = lines.origin(key.span().start);
            let Some(spec) = specs.iter().find(|spec| spec.key == key.get_ref().as_ref()) else {
                let meant = nearest(key.get_ref(), specs.iter().map(|spec| spec.key));
                let allowed: Vec<&str> = specs.iter().map(|spec| spec.key).collect();
                let path = format!("{name}.{}", key.get_ref());
                faults.push(unknown(
                    &path,
                    origin,
                    meant,
                    &format!("a key of [[{name}]]"),
                    &allowed,
                ));
                continue;
            };
            match spec.kind.read(&raw(value.get_ref())) {
                Ok(value) => entry.put(spec.key, value, origin),
                Err(refusal) => faults.push(Fault {
                    origin,
                    key: format!("{name}.{}", spec.key),
                    problem: refusal.problem,
                    expected: refusal.expected,
                }),
            }
        }
        entry.derive_defaults();
        entries.push(entry);
    }
    entries
}

struct Lines<'a> {
    path: &'a Arc<PathBuf>,
    text: &'a str,
}

impl Lines<'_> {
    fn origin(&self, place: usize) -> Origin {
        let before = &self.text.as_bytes()[..place.min(self.text.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        Origin::File(Arc::clone(self.path), line)
    }
}

fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .map_or(Raw::Other("an integer that is far too large"), Raw::Integer),
        DeValue::Boolean(switch) => Raw::Boolean(*switch),
        DeValue::Array(parts) => Raw::Array(parts.iter().map(|part| raw(part.get_ref())).collect()),
        DeValue::Float(_) => Raw::Other("a number with a fraction"),
        DeValue::Datetime(_) => Raw::Other("a date"),
        DeValue::Table(_) => Raw::Other("a table"),
    }
}
