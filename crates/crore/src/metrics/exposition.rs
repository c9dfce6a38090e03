//! Metrics as Prometheus text (version 0.0.4): families with help and type, one after the other.
//!
//! Written by hand: `prometheus-client` writes OpenMetrics, whose counters are typed without their
//! `_total`; what reads the older text, `promtool check metrics` among it, sees them as samples
//! without help and type.

use super::families::{Family, Label, Value};
use std::fmt::Write;

/// The text of all families.
pub fn text(families: &[Family]) -> String {
    let mut text = String::new();
    for family in families {
        write_family(&mut text, family);
    }
    text
}

/// Microseconds as what Prometheus counts in.
pub fn seconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e6
}

fn write_family(text: &mut String, family: &Family) {
    let Family { name, help, kind, .. } = family;
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {}", kind.word());
    for sample in &family.samples {
        let labels = &sample.labels;
        match &sample.value {
            Value::Number(number) => {
                let _ = writeln!(text, "{name}{} {number}", braced(labels, None));
            }
            Value::Histogram(histogram) => {
                for (bound_us, count) in histogram.cumulative() {
                    let bound = seconds(bound_us).to_string();
                    let labels = braced(labels, Some(&bound));
                    let _ = writeln!(text, "{name}_bucket{labels} {count}");
                }
                let (count, sum) = (histogram.count(), seconds(histogram.sum_us()));
                let all = braced(labels, Some("+Inf"));
                let labels = braced(labels, None);
                let _ = writeln!(text, "{name}_bucket{all} {count}");
                let _ = writeln!(text, "{name}_sum{labels} {sum}\n{name}_count{labels} {count}");
            }
        }
    }
}

/// Labels, and a bucket's bound behind them, within braces; nothing if there are none.
fn braced(labels: &[Label], bound: Option<&str>) -> String {
    let mut text = String::new();
    let labels = labels.iter().map(|(label, value)| (*label, &**value));
    for (label, value) in labels.chain(bound.map(|bound| ("le", bound))) {
        let opening = if text.is_empty() { '{' } else { ',' };
        let _ = write!(text, "{opening}{label}=\"{}\"", escape(value));
    }
    if !text.is_empty() {
        text.push('}');
    }
    text
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::families::Families;
    use super::*;
    use stdx::histogram::Histogram;

    #[test]
    fn families() {
        let mut families = Families::default();
        families.counter("a_total", "A.", 5_u64);
        families.gauges("b", "B.", "kind", &[("x", 1_i64), ("y\"", -2)]);
        families.information("c", "C.", &[("version", "1"), ("name", "n")]);
        assert_eq!(
            text(&families.finish()),
            "# HELP a_total A.\n# TYPE a_total counter\na_total 5\n\
             # HELP b B.\n# TYPE b gauge\nb{kind=\"x\"} 1\nb{kind=\"y\\\"\"} -2\n\
             # HELP c C.\n# TYPE c gauge\nc{version=\"1\",name=\"n\"} 1\n"
        );
    }

    #[test]
    fn histograms() {
        let mut histogram = Histogram::default();
        histogram.record(20);
        histogram.record(60_000_000);
        let mut families = Families::default();
        families.histogram("a_seconds", "A.", histogram);
        let text = text(&families.finish());
        for line in [
            "# TYPE a_seconds histogram",
            "a_seconds_bucket{le=\"0.000016\"} 0",
            "a_seconds_bucket{le=\"0.000032\"} 1",
            "a_seconds_bucket{le=\"8.388608\"} 1",
            "a_seconds_bucket{le=\"+Inf\"} 2",
            "a_seconds_sum 60.00002",
            "a_seconds_count 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
