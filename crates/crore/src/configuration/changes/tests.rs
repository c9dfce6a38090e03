//! Configurations side by side, and every declaration against what a running node takes.

use super::*;
use crate::configuration::value::Kind;
use crate::configuration::{assemble, load_text};
use broker::settings::Settings;
use std::path::Path;

fn configuration(text: &str) -> Configuration {
    load_text(Path::new("crore.toml"), text).unwrap()
}

/// Checks the changes of a reload from one text to the other, a line each; `now` or `restart`
/// first.
fn check(before: &str, after: &str, expected: &[&str]) -> Configuration {
    let (running, wanted) = (configuration(before), configuration(after));
    let (_, waiting) = assemble::settings(&running, 1).renewed(assemble::settings(&wanted, 1));
    let changes = changes(&running, &wanted, &waiting);
    let lines: Vec<String> = changes
        .iter()
        .map(|change| {
            let when = if change.is_in_force { "now" } else { "restart" };
            format!("{when} {}: {} -> {}", change.key, change.old, change.new)
        })
        .collect();
    assert_eq!(lines, expected);
    let merged = merge(&running, &wanted, &waiting);
    // A second reload reports the same waiting changes and no others.
    let (_, waiting) = assemble::settings(&merged, 1).renewed(assemble::settings(&wanted, 1));
    let again = super::changes(&merged, &wanted, &waiting);
    let still: Vec<&Change> = changes.iter().filter(|change| !change.is_in_force).collect();
    assert_eq!(again.iter().collect::<Vec<_>>(), still);
    merged
}

#[test]
fn options() {
    let merged = check(
        "[limits]\ntopics_max = 5\nring_bytes = \"8MiB\"\n",
        "[node]\nname = \"x\"\n[limits]\ntopics_max = 6\n[http]\nwait_max = \"5s\"\n",
        &[
            "restart node.name: \"crore\" -> \"x\"",
            "now http.wait_max: \"60s\" -> \"5s\"",
            "now limits.topics_max: 5 -> 6",
            "restart limits.ring_bytes: \"8MiB\" -> \"4MiB\"",
        ],
    );
    assert_eq!(merged.number("limits.topics_max"), Some(6));
    assert_eq!(merged.number("limits.ring_bytes"), Some(8 << 20));
    check("", "[listen]\nbacklog = 4096\n", &[]);
}

#[test]
fn secrets_are_not_told() {
    let keys = |digit: &str| format!("[tickets]\nkeys = [\"{}\"]\n", digit.repeat(64));
    let (running, wanted) = (configuration(&keys("1")), configuration(&keys("2")));
    let found = changes(&running, &wanted, &[]);
    assert_eq!(found.len(), 1);
    let shown = format!("{found:?}");
    assert!(shown.contains("<secret ") && !shown.contains("1111"), "{shown}");
    assert!(found[0].is_in_force && found[0].old != found[0].new);
    // Its own would have to be made.
    let gone = changes(&running, &configuration(""), &[]);
    assert!(!gone[0].is_in_force);
    let merged = merge(&running, &configuration(""), &[]);
    assert_eq!(merged.get("tickets.keys").0, running.get("tickets.keys").0);
}

const DISK: &str = "[node]\ndata_dir = \"d\"\n[[log]]\nname = \"m\"\n[[log]]\nname = \"d\"\ndurability = \"disk\"\n";

#[test]
fn credentials_in_an_address_are_not_told() {
    check(
        "[metrics]\npush_to = \"http://a:1/write?p=one\"\n",
        "[metrics]\npush_to = \"http://b:1/write?p=two\"\n",
        &["restart metrics.push_to: \"http://a:1/write?...\" -> \"http://b:1/write?...\""],
    );
}

#[test]
fn logs() {
    check(
        "[[log]]\nname = \"m\"\n",
        "[[log]]\nname = \"m\"\nretained_bytes_max = \"1MiB\"\nage_max = \"5s\"\n",
        &[
            "restart log \"m\".age_max: \"auto\" -> \"5s\"",
            "now log \"m\".retained_bytes_max: \"256MiB\" -> \"1MiB\"",
        ],
    );
    check(
        "[[log]]\nname = \"m\"\n",
        "[[log]]\nname = \"n\"\nage_max = \"5s\"\n",
        &[
            "restart log \"m\": {name = \"m\"} -> nothing",
            "restart log \"n\": nothing -> {name = \"n\", age_max = \"5s\"}",
        ],
    );
    check(
        "[[log]]\nname = \"m\"\n[[log]]\nname = \"n\"\n",
        "[[log]]\nname = \"n\"\n[[log]]\nname = \"m\"\n",
        &["restart order of logs: m, n -> n, m"],
    );
}

#[test]
fn rules() {
    let with = |rules: &str| format!("{DISK}{rules}");
    let merged = check(
        &with(
            "[[rule]]\nfilter = \"a\"\n[[rule]]\nfilter = \"b\"\n[[rule]]\nfilter = \"d/#\"\nlog = \"d\"\n",
        ),
        &with(
            "[[rule]]\nfilter = \"a\"\nlog = \"d\"\nwhen_lagging = \"drop\"\n\
             [[rule]]\nfilter = \"c\"\npublish_rate_max = 5\n[[rule]]\nfilter = \"e\"\nlog = \"d\"\n",
        ),
        &[
            "restart rule \"a\".log: nothing -> \"d\"",
            "now rule \"a\".when_lagging: \"replay\" -> \"drop\"",
            "now rule \"b\": {filter = \"b\"} -> nothing",
            "restart rule \"d/#\": {filter = \"d/#\", log = \"d\"} -> nothing",
            "now rule \"c\": nothing -> {filter = \"c\", publish_rate_max = 5}",
            "restart rule \"e\": nothing -> {filter = \"e\", log = \"d\"}",
        ],
    );
    let filters: Vec<&str> = merged.rules.iter().filter_map(|rule| rule.text("filter")).collect();
    assert_eq!(filters, ["a", "c", "d/#"]);
    assert_eq!(merged.rules[0].text("log"), None);
}

/// Another value that the kind allows.
fn other_value(spec: &OptionSpec) -> Option<Value> {
    let value = spec.default_value();
    let other = match spec.kind {
        Kind::Count { min, .. } => match value {
            Some(Value::Count(number)) if number == min => Value::Count(min + 1),
            _ => Value::Count(min),
        },
        Kind::Size { min, max, .. } => match value {
            Some(Value::Size(number)) if number == min => Value::Size(max),
            _ => Value::Size(min),
        },
        Kind::Duration { min_ms, max_ms, .. } => match value {
            Some(Value::Duration(number)) if number == min_ms => Value::Duration(max_ms),
            _ => Value::Duration(min_ms),
        },
        Kind::Boolean => Value::Boolean(value != Some(Value::Boolean(true))),
        Kind::Choice(words) => {
            let is_other = |word: &&&str| value != Some(Value::Text((**word).into()));
            Value::Text(words.iter().find(is_other)?.to_string())
        }
        Kind::Text { .. } => Value::Text("other".into()),
        Kind::Origins => Value::Texts(vec!["https://other.example".into()]),
        Kind::Url => Value::Text("ws://other.example".into()),
        Kind::Urls => Value::Texts(vec!["ws://other.example".into()]),
        Kind::Networks => Value::Texts(vec!["10.0.0.0/8".into()]),
        Kind::Filters | Kind::Words => Value::Texts(vec!["other".into()]),
        Kind::Moment => Value::Moment(7_000),
        Kind::Keys | Kind::Filter | Kind::Addresses | Kind::Secret | Kind::Hash => return None,
    };
    Some(other)
}

/// `Settings::renewed` takes exactly the options that declare `reload`.
#[test]
fn declarations_say_what_a_running_node_takes() {
    let settings = |configuration: &Configuration| {
        let mut settings = assemble::settings(configuration, 4);
        settings.logs.iter_mut().for_each(|log| log.epoch = 0);
        settings
    };
    let check = |key: &str, apply: Apply, changed: &Configuration, base: &Configuration| {
        let (running, wanted) = (settings(base), settings(changed));
        let text = |settings: &Settings| format!("{settings:?}");
        let renewed = text(&running.renewed(wanted.clone()).0);
        match apply {
            Apply::Reload => assert_eq!(renewed, text(&wanted), "{key}"),
            Apply::Restart => assert_eq!(renewed, text(&running), "{key}"),
        }
    };
    let base = configuration(
        "[websocket]\ncompression = true\n[[log]]\nname = \"m\"\n[[rule]]\nfilter = \"a\"\n",
    );
    for spec in OPTIONS.iter() {
        if let Some(value) = other_value(spec) {
            let mut changed = base.clone();
            changed.values.insert(spec.key, (value, super::super::Origin::Default));
            check(spec.key, spec.apply, &changed, &base);
        }
    }
    for spec in RuleTable::OPTIONS {
        // Logs are in tests above.
        if let Some(value) = other_value(spec).filter(|_| spec.key != "log") {
            let mut changed = base.clone();
            changed.rules[0].put(spec.key, value, super::super::Origin::Default);
            check(spec.key, spec.apply, &changed, &base);
        }
    }
    for spec in LogTable::OPTIONS {
        if let Some(value) = other_value(spec) {
            let mut changed = base.clone();
            changed.logs[0].put(spec.key, value, super::super::Origin::Default);
            // Another age or name is the rules' as well; the log itself is what counts here.
            let (running, wanted) = (settings(&base), settings(&changed));
            let renewed = running.renewed(wanted.clone()).0;
            let expected = if spec.apply == Apply::Reload { &wanted } else { &running };
            let text = |settings: &Settings| format!("{:?}", settings.logs);
            assert_eq!(text(&renewed), text(expected), "{}", spec.key);
        }
    }
}
