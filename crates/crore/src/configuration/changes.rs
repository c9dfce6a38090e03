//! Changes of a reload: the differences of two configurations, and the one that a running node then
//! has.
//!
//! Pure. `running` is the configuration in force, `wanted` the one of the sources. A running node
//! takes options that declare `reload`, the retained bytes of logs, and the changes of rules that
//! `broker::reload` takes. The rest waits for a restart.

use super::entries::{Configuration, Entry};
use super::options::{Apply, LogTable, OPTIONS, OptionSpec, RuleTable, Section};
use super::value::Value;
use broker::reload::{Wait, Waiting};
use std::fmt::Write;

/// One thing that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// `section.name`; of a log or rule `log "name".key`, `rule "filter".key`, or without a key
    /// where all of it comes or goes.
    pub key: String,
    /// The value in force, or until now.
    pub old: String,
    /// The wanted value.
    pub new: String,
    /// It is in force; else it waits for a restart.
    pub is_in_force: bool,
}

/// The text for no value.
const NOTHING: &str = "nothing";

/// All differences, in the order of the declarations.
pub fn changes(
    running: &Configuration,
    wanted: &Configuration,
    waiting: &[Waiting],
) -> Vec<Change> {
    let mut changes = Vec::new();
    for spec in OPTIONS.iter() {
        let [old, new] = [running, wanted].map(|all| all.given(spec.key).map(|(value, _)| value));
        if old != new {
            let key = spec.key.into();
            changes.push(change(key, old, new, is_taken(spec, new)));
        }
    }
    compare_logs(running, wanted, &mut changes);
    compare_rules(running, wanted, waiting, &mut changes);
    compare_keys(running, wanted, &mut changes);
    changes
}

/// The configuration in force after a reload, if these rules wait.
pub fn merge(
    running: &Configuration,
    wanted: &Configuration,
    waiting: &[Waiting],
) -> Configuration {
    let mut merged = running.clone();
    for spec in OPTIONS.iter() {
        let new = wanted.values.get(spec.key);
        if is_taken(spec, new.map(|(value, _)| value)) {
            match new {
                Some(new) => merged.values.insert(spec.key, new.clone()),
                None => merged.values.remove(spec.key),
            };
        }
    }
    for log in &mut merged.logs {
        if let Some(new) = find(&wanted.logs, "name", name(log, "name")) {
            for spec in LogTable::OPTIONS.iter().filter(|spec| spec.apply == Apply::Reload) {
                if let Some((value, origin)) = new.get(spec.key) {
                    log.put(spec.key, value.clone(), origin.clone());
                }
            }
        }
    }
    merged.rules = merge_rules(&running.rules, &wanted.rules, waiting);
    merged.token_keys.clone_from(&wanted.token_keys);
    merged.api_keys.clone_from(&wanted.api_keys);
    merged.grants.clone_from(&wanted.grants);
    merged
}

/// Keys wait for the next start where this one has no authenticator of them.
pub fn keep_keys(running: &Configuration, merged: &mut Configuration, changes: &mut [Change]) {
    merged.token_keys.clone_from(&running.token_keys);
    merged.api_keys.clone_from(&running.api_keys);
    merged.grants.clone_from(&running.grants);
    for change in changes {
        change.is_in_force &= !change.key.starts_with("[[");
    }
}

/// The rules without those that name a log which only a restart makes.
pub fn without_new_logs(configuration: &Configuration) -> Configuration {
    let mut known = configuration.clone();
    known.rules.retain(|rule| match rule.text("log") {
        Some(log) => find(&configuration.logs, "name", log).is_some(),
        None => true,
    });
    known
}

/// Whether a running node takes a new value. Without keys of the configuration it would need its
/// own, which it reads or makes at a start only.
fn is_taken(spec: &OptionSpec, new: Option<&Value>) -> bool {
    let is_nobodys = matches!(new, Some(Value::Keys(keys)) if keys.is_empty());
    spec.apply == Apply::Reload && !is_nobodys
}

fn compare_logs(running: &Configuration, wanted: &Configuration, changes: &mut Vec<Change>) {
    for log in &running.logs {
        let own = name(log, "name");
        match find(&wanted.logs, "name", own) {
            Some(new) => {
                compare_entries(&format!("log \"{own}\""), LogTable::OPTIONS, log, new, changes)
            }
            None => {
                changes.push(gone(format!("log \"{own}\""), shown(LogTable::OPTIONS, log), false))
            }
        }
    }
    for log in &wanted.logs {
        let own = name(log, "name");
        if find(&running.logs, "name", own).is_none() {
            changes.push(come(format!("log \"{own}\""), shown(LogTable::OPTIONS, log), false));
        }
    }
    let [old, new] = [running, wanted].map(|all| {
        let names: Vec<&str> = all.logs.iter().map(|log| name(log, "name")).collect();
        names.join(", ")
    });
    // The first log takes all topics without a rule.
    if changes.iter().all(|change| !change.key.ends_with('"')) && old != new {
        changes.push(Change { key: "order of logs".into(), old, new, is_in_force: false });
    }
}

/// Keys and grants are compared as a whole: the result reports added, removed and changed keys,
/// never their values.
fn compare_keys(running: &Configuration, wanted: &Configuration, changes: &mut Vec<Change>) {
    let tables =
        |all: &Configuration| [all.token_keys.clone(), all.api_keys.clone(), all.grants.clone()];
    let names = ["token_key", "api_key", "grant"];
    for ((name, old), new) in names.into_iter().zip(tables(running)).zip(tables(wanted)) {
        let values = |entries: &[Entry]| -> Vec<Vec<(&'static str, Value)>> {
            entries.iter().map(Entry::values).collect()
        };
        if values(&old) != values(&new) {
            changes.push(Change {
                key: format!("[[{name}]]"),
                old: format!("{} entries", old.len()),
                new: format!("{} entries", new.len()),
                is_in_force: true,
            });
        }
    }
}

fn compare_rules(
    running: &Configuration,
    wanted: &Configuration,
    waiting: &[Waiting],
    changes: &mut Vec<Change>,
) {
    for rule in &running.rules {
        let own = name(rule, "filter");
        let key = format!("rule \"{own}\"");
        match find(&wanted.rules, "filter", own) {
            None => {
                let is_in_force = wait_of(waiting, own).is_none();
                changes.push(gone(key, shown(RuleTable::OPTIONS, rule), is_in_force));
            }
            Some(new) => {
                let first = changes.len();
                compare_entries(&key, RuleTable::OPTIONS, rule, new, changes);
                let log_waits = wait_of(waiting, own) == Some(Wait::Log);
                for change in &mut changes[first..] {
                    change.is_in_force = !(log_waits && change.key.ends_with(".log"));
                }
            }
        }
    }
    for rule in &wanted.rules {
        let own = name(rule, "filter");
        if find(&running.rules, "filter", own).is_none() {
            let is_in_force = wait_of(waiting, own).is_none();
            let key = format!("rule \"{own}\"");
            changes.push(come(key, shown(RuleTable::OPTIONS, rule), is_in_force));
        }
    }
}

fn merge_rules(running: &[Entry], wanted: &[Entry], waiting: &[Waiting]) -> Vec<Entry> {
    let mut merged = Vec::new();
    for new in wanted {
        let own = name(new, "filter");
        let old = find(running, "filter", own);
        match (wait_of(waiting, own), old) {
            (None, _) => merged.push(new.clone()),
            (Some(_), None) => {}
            (Some(_), Some(old)) => {
                let mut rule = new.clone();
                match old.get("log") {
                    Some((value, origin)) => rule.put("log", value.clone(), origin.clone()),
                    None => rule.take("log"),
                }
                merged.push(rule);
            }
        }
    }
    let stays = |old: &&Entry| {
        let own = name(old, "filter");
        find(wanted, "filter", own).is_none() && wait_of(waiting, own).is_some()
    };
    merged.extend(running.iter().filter(stays).cloned());
    merged
}

fn compare_entries(
    name: &str,
    specs: &[OptionSpec],
    old: &Entry,
    new: &Entry,
    changes: &mut Vec<Change>,
) {
    for spec in specs {
        let [old, new] = [old, new].map(|entry| entry.get(spec.key).map(|(value, _)| value));
        if old != new {
            let key = format!("{name}.{}", spec.key);
            changes.push(change(key, old, new, spec.apply == Apply::Reload));
        }
    }
}

fn change(key: String, old: Option<&Value>, new: Option<&Value>, is_in_force: bool) -> Change {
    let text = |value: Option<&Value>| value.map_or(NOTHING.into(), told);
    Change { key, old: text(old), new: text(new), is_in_force }
}

/// A value for the log. An address goes without its query, in which some have credentials.
fn told(value: &Value) -> String {
    match value {
        Value::Text(text) if text.contains("://") => match text.split_once('?') {
            Some((address, _)) => Value::Text(format!("{address}?...")).to_string(),
            None => value.to_string(),
        },
        value => value.to_string(),
    }
}

fn come(key: String, new: String, is_in_force: bool) -> Change {
    Change { key, old: NOTHING.into(), new, is_in_force }
}

fn gone(key: String, old: String, is_in_force: bool) -> Change {
    Change { key, old, new: NOTHING.into(), is_in_force }
}

/// The given values of a table.
fn shown(specs: &[OptionSpec], entry: &Entry) -> String {
    let mut text = String::new();
    for spec in specs {
        if let Some((value, origin)) = entry.get(spec.key)
            && *origin != super::Origin::Default
        {
            let comma = if text.is_empty() { "" } else { ", " };
            let _ = write!(text, "{comma}{} = {value}", spec.key);
        }
    }
    format!("{{{text}}}")
}

fn wait_of(waiting: &[Waiting], filter: &str) -> Option<Wait> {
    let found = waiting.iter().find(|waiting| *waiting.filter == *filter);
    found.map(|waiting| waiting.wait)
}

fn find<'a>(entries: &'a [Entry], key: &str, wanted: &str) -> Option<&'a Entry> {
    entries.iter().find(|entry| entry.text(key) == Some(wanted))
}

fn name<'a>(entry: &'a Entry, key: &str) -> &'a str {
    entry.text(key).unwrap_or_default()
}

#[cfg(test)]
mod tests;
