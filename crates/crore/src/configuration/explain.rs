//! Which rule governs a topic, and where each of its values comes from: `crore config explain`.
//!
//! Pure.

use super::assemble::{MEMORY_AGE_MAX_MS, milliseconds};
use super::entries::{Configuration, Entry};
use super::options::{LogTable, RuleTable, Section};
use super::value::Value;
use broker::filters::FilterTrie;
use broker::settings::Durability;
use broker::topic::{Filter, TopicError, TopicName};
use std::fmt::Write;

/// Explains the log, the rule and the settings of a topic, or of all topics that a filter covers.
///
/// # Errors
/// It is neither.
pub fn explain(configuration: &Configuration, text: &str) -> Result<String, TopicError> {
    let is_topic = TopicName::parse(text).is_ok();
    Filter::parse(text)?;
    let mut filters = FilterTrie::default();
    for rule in &configuration.rules {
        if let Some(Ok(filter)) = rule.text("filter").map(Filter::parse) {
            filters.insert(filter, rule);
        }
    }
    let mut covering = Vec::new();
    if is_topic {
        filters.matches(text, &mut |rule| covering.push(*rule))
    } else {
        covering.extend(filters.most_specific(text))
    }
    let mut answer = String::new();
    let what = if is_topic { "topic" } else { "filter" };
    let _ = match covering.first() {
        Some(rule) => writeln!(answer, "# {what} \"{text}\": the rule of {}", rule.origin),
        None => writeln!(answer, "# {what} \"{text}\": no rule; the defaults apply"),
    };
    for rule in covering.iter().skip(1) {
        let filter = rule.text("filter").unwrap_or_default();
        let _ = writeln!(answer, "# less specific: \"{filter}\" of {}", rule.origin);
    }
    let nothing = Entry::with_defaults(RuleTable::OPTIONS, super::Origin::Default);
    let rule = covering.first().copied().unwrap_or(&nothing);
    for spec in RuleTable::OPTIONS {
        write_value(&mut answer, configuration, rule, spec.key);
    }
    Ok(answer)
}

fn write_value(answer: &mut String, configuration: &Configuration, rule: &Entry, key: &str) {
    let log_name = rule.text("log");
    let log =
        configuration.logs.iter().find(|log| log_name.is_none() || log.text("name") == log_name);
    let (value, reason) = match (key, rule.get(key)) {
        ("log", None) => {
            let Some((name, _)) = log.and_then(|log| log.get("name")) else {
                return;
            };
            (name.clone(), "default: the first log".into())
        }
        ("message_bytes_max", Some((Value::Auto, origin))) => {
            let (value, source) = configuration.get("limits.message_bytes_max");
            (value.clone(), format!("{origin}: auto, limits.message_bytes_max of {source}"))
        }
        ("history_age_max", Some((Value::Auto, origin))) => {
            let name = log.and_then(|log| log.text("name")).unwrap_or_default();
            let reason = format!("{origin}: auto, the age limit of log \"{name}\"");
            match log.and_then(age_of) {
                Some(age_ms) => (Value::Duration(age_ms), reason),
                None => (Value::Auto, reason),
            }
        }
        (_, Some((value, origin))) => (value.clone(), origin.to_string()),
        (_, None) => return,
    };
    let _ = writeln!(answer, "{key} = {value} # {reason}");
}

/// Maximum age of a log's messages; `None`: no limit.
fn age_of(log: &Entry) -> Option<u64> {
    let LogTable { durability, age_max, .. } = log.read();
    let auto_ms = (durability != Durability::Disk).then_some(MEMORY_AGE_MAX_MS);
    age_max.map(milliseconds).or(auto_ms)
}
