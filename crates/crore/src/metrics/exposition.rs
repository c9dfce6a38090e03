//! Prometheus text (version 0.0.4): families with help and type, written in one pass.
//!
//! Written by hand: `prometheus-client` writes OpenMetrics, whose counters are typed without their `_total`; what reads
//! the older text, `promtool check metrics` among it, sees them as samples without help and type.

use std::fmt::{Display, Write};

/// A text that grows by families. Names are checked when built for tests and debugging.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
}

impl Exposition {
    /// A counter without labels; its name ends in `_total`.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        debug_assert!(name.ends_with("_total"), "{name}");
        self.family(name, "counter", help);
        let _ = writeln!(self.text, "{name} {value}");
    }

    /// A counter with one label of a few known values.
    pub fn counters(&mut self, name: &str, help: &str, label: &str, values: &[(&str, u64)]) {
        debug_assert!(name.ends_with("_total"), "{name}");
        self.labelled(name, "counter", help, label, values);
    }

    /// A gauge without labels.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        let _ = writeln!(self.text, "{name} {value}");
    }

    /// A gauge with one label of a few known values.
    pub fn gauges<V: Display>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: &[(&str, V)],
    ) {
        self.labelled(name, "gauge", help, label, values);
    }

    /// A gauge that is always 1 and says something in its labels.
    pub fn information(&mut self, name: &str, help: &str, labels: &[(&str, &str)]) {
        self.family(name, "gauge", help);
        let labels: Vec<String> = labels
            .iter()
            .map(|(label, value)| format!("{label}=\"{}\"", escape(value)))
            .collect();
        let _ = writeln!(self.text, "{name}{{{}}} 1", labels.join(","));
    }

    /// The whole text.
    pub fn finish(self) -> String {
        self.text
    }

    fn labelled<V: Display>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        label: &str,
        values: &[(&str, V)],
    ) {
        self.family(name, kind, help);
        for (word, value) in values {
            let _ = writeln!(self.text, "{name}{{{label}=\"{}\"}} {value}", escape(word));
        }
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        debug_assert!(
            !self.text.contains(&format!("# TYPE {name} ")),
            "{name} stands twice"
        );
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families() {
        let mut exposition = Exposition::default();
        exposition.counter("a_total", "A.", 5);
        exposition.gauges("b", "B.", "kind", &[("x", 1), ("y\"", 2)]);
        exposition.information("c", "C.", &[("version", "1"), ("name", "n")]);
        assert_eq!(
            exposition.finish(),
            "# HELP a_total A.\n# TYPE a_total counter\na_total 5\n\
             # HELP b B.\n# TYPE b gauge\nb{kind=\"x\"} 1\nb{kind=\"y\\\"\"} 2\n\
             # HELP c C.\n# TYPE c gauge\nc{version=\"1\",name=\"n\"} 1\n"
        );
    }
}
