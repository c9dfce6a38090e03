//! The reference of all metrics: `crore metrics`, `docs/metrics.md`.

use super::families::{Family, Sample};
use super::{Sources, collect};
use std::fmt::Write;

/// Values of a label that are listed; of more than these the first ones.
const VALUES_MAX: usize = 30;

const HEAD: &str = "# Metrics

Every metric of a node. `crore metrics` writes this page.

`GET /metrics` on the operators' port answers in Prometheus' text format; with `[metrics]` the node also pushes the same
metrics to Telegraf and similar programs, in InfluxDB's line protocol. Counters begin with zero at each start. No metric
has a label for a topic, a client or a user, so the number of series does not grow. Histograms have buckets from 16
microseconds to 8.4 seconds, each twice as long as the one before. `deploy/grafana` has a dashboard and
`deploy/prometheus` alerts that use them.

| metric | kind | labels | meaning |
|---|---|---|---|
";

/// The page.
pub fn reference() -> String {
    let mut text = HEAD.to_owned();
    for family in collect(&Sources::default()) {
        let labels = labels_of(&family);
        let Family { name, kind, help, .. } = family;
        let _ = writeln!(text, "| `{name}` | {} | {labels} | {help} |", kind.word());
    }
    text
}

/// The names of labels, with their values where these are few.
fn labels_of(family: &Family) -> String {
    let names = family.samples.first().map(|sample| &sample.labels);
    let described = names.into_iter().flatten().map(|(name, _)| {
        if family.name.ends_with("_info") {
            return format!("`{name}`");
        }
        let mut values: Vec<&str> = Vec::new();
        for value in family.samples.iter().filter_map(|sample| value(sample, name)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        let more = values.len().saturating_sub(VALUES_MAX);
        values.truncate(VALUES_MAX);
        let and_more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("`{name}`: {}{and_more}", values.join(", "))
    });
    described.collect::<Vec<_>>().join("; ")
}

fn value<'a>(sample: &'a Sample, name: &str) -> Option<&'a str> {
    let mut labels = sample.labels.iter();
    labels.find_map(|(label, value)| (*label == name).then_some(&**value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_page_is_the_generated_one() {
        let committed = include_str!("../../../../docs/metrics.md");
        assert!(committed == reference(), "run `crore metrics > docs/metrics.md`");
    }

    #[test]
    fn labels_are_described() {
        let text = reference();
        for line in [
            "| `crore_build_info` | gauge | `version`; `commit`; `node` |",
            "| `crore_sessions` | gauge | `protocol`: native, json, mqtt, events, long_poll, echo, http |",
            "| `crore_turn_seconds` | histogram |  |",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
