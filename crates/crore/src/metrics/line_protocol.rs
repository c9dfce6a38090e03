//! Metrics in InfluxDB's line protocol, as Telegraf and InfluxDB take it: a line for each series,
//! `NAME,LABEL=VALUE,... FIELD=NUMBER,... NANOSECONDS`.
//!
//! A counter or gauge is the field `value`. A histogram has `count`, `sum` in seconds, and for each
//! bucket a field with its bound as its name, as Telegraf itself writes those that it scrapes. Each
//! series carries the node's name.

use super::exposition::seconds;
use super::families::{Family, Number, Sample, Value};
use std::fmt::Write;

/// All lines, each with its end.
pub fn lines(families: &[Family], node_name: &str, unix_ns: u128) -> Vec<String> {
    let samples = families
        .iter()
        .flat_map(|family| family.samples.iter().map(move |sample| (family, sample)));
    samples.map(|(family, sample)| line(family, sample, node_name, unix_ns)).collect()
}

fn line(family: &Family, sample: &Sample, node_name: &str, unix_ns: u128) -> String {
    let mut line = family.name.to_owned();
    let has_node = sample.labels.iter().any(|(label, _)| *label == "node");
    let node = (!has_node).then_some(("node", node_name));
    let labels = sample.labels.iter().map(|(label, value)| (*label, &**value));
    // A tag without a value is not allowed.
    for (label, value) in labels.chain(node).filter(|(_, value)| !value.is_empty()) {
        let _ = write!(line, ",{label}={}", escape(value));
    }
    line.push(' ');
    match &sample.value {
        Value::Number(number) => {
            let _ = write!(line, "value={}", field(*number));
        }
        Value::Histogram(histogram) => {
            for (bound_us, count) in histogram.cumulative() {
                let _ = write!(line, "{}={count}i,", seconds(bound_us));
            }
            let (count, sum) = (histogram.count(), seconds(histogram.sum_us()));
            let _ = write!(line, "+Inf={count}i,sum={sum},count={count}i");
        }
    }
    let _ = writeln!(line, " {unix_ns}");
    line
}

/// Whole numbers have 63 bits there, and say so.
fn field(number: Number) -> String {
    match number {
        Number::Whole(number) => format!("{}i", number.min(i64::MAX as u64)),
        Number::Signed(number) => format!("{number}i"),
        Number::Real(number) => number.to_string(),
    }
}

/// A tag's value, escaped. A backslash at its end would escape the next character, and a line's end
/// would end the line.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            ',' | '=' | ' ' => {
                escaped.push('\\');
                escaped.push(character);
            }
            '\\' => escaped.push('/'),
            character if character.is_control() => escaped.push('_'),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::families::Families;
    use super::*;
    use std::collections::BTreeMap;
    use stdx::histogram::Histogram;

    /// A line, taken apart as the protocol says.
    #[derive(PartialEq, Debug)]
    pub struct Parsed {
        pub name: String,
        pub tags: BTreeMap<String, String>,
        pub fields: BTreeMap<String, f64>,
        pub unix_ns: u128,
    }

    /// Splits where the character stands without a backslash before it, and takes the backslashes
    /// away if asked to.
    fn split(text: &str, at: char) -> Vec<String> {
        let mut parts = vec![String::new()];
        let mut is_escaped = false;
        for character in text.chars() {
            if character == at && !is_escaped {
                parts.push(String::new());
            } else {
                parts.last_mut().unwrap().push(character);
            }
            is_escaped = character == '\\' && !is_escaped;
        }
        parts
    }

    pub fn parse(line: &str) -> Parsed {
        let parts = split(line, ' ');
        let [series, fields, time] = parts.as_slice() else {
            panic!("three parts: {line}");
        };
        let mut series = split(series, ',').into_iter();
        let pair = |text: String| {
            let parts = split(&text, '=');
            let [key, value] = parts.as_slice() else {
                panic!("a key and a value: {text}");
            };
            assert!(!value.is_empty(), "{line}");
            (key.clone(), value.replace('\\', ""))
        };
        let number = |text: String| text.strip_suffix('i').unwrap_or(&text).parse().unwrap();
        Parsed {
            name: series.next().unwrap(),
            tags: series.map(pair).collect(),
            fields: split(fields, ',')
                .into_iter()
                .map(pair)
                .map(|(key, value)| (key, number(value)))
                .collect(),
            unix_ns: time.trim_end().parse().unwrap(),
        }
    }

    fn families() -> Vec<Family> {
        let mut histogram = Histogram::default();
        histogram.record(20);
        histogram.record(60_000_000);
        let mut families = Families::default();
        families.counter("a_total", "A.", u64::MAX);
        families.gauges("b", "B.", "kind", &[("x, y=z", -1_i64)]);
        families.gauge("c", "C.", 0.5);
        families.information("d", "D.", &[("version", "1"), ("node", "other\\")]);
        families.histogram("e_seconds", "E.", histogram);
        families.finish()
    }

    #[test]
    fn lines_are_as_the_protocol_says() {
        let lines = lines(&families(), "n 1", 7);
        assert_eq!(lines[0], "a_total,node=n\\ 1 value=9223372036854775807i 7\n");
        assert_eq!(lines[1], "b,kind=x\\,\\ y\\=z,node=n\\ 1 value=-1i 7\n");
        assert_eq!(lines[2], "c,node=n\\ 1 value=0.5 7\n");
        assert_eq!(lines[3], "d,version=1,node=other/ value=1i 7\n");
        assert!(lines[4].starts_with("e_seconds,node=n\\ 1 0.000016=0i,0.000032=1i,"));
        assert!(lines[4].ends_with(",8.388608=1i,+Inf=2i,sum=60.00002,count=2i 7\n"));
        assert_eq!(lines.len(), 5);
    }

    #[test]
    fn our_own_lines_can_be_read() {
        for (line, family) in lines(&families(), "n 1", 7).iter().zip(families()) {
            let parsed = parse(line);
            assert_eq!(parsed.name, family.name);
            assert_eq!(parsed.unix_ns, 7);
            assert!(parsed.tags.contains_key("node"), "{line}");
        }
        let parsed = parse(&lines(&families(), "n 1", 7)[1]);
        assert_eq!(parsed.tags["kind"], "x, y=z");
        assert_eq!(parsed.fields["value"], -1.0);
    }

    #[test]
    fn a_name_cannot_break_a_line() {
        let lines = lines(&families(), "a\nb\\ c,d=e", 7);
        let parsed = parse(&lines[0]);
        assert_eq!(parsed.tags["node"], "a_b/ c,d=e");
        assert_eq!(lines[0].matches('\n').count(), 1);
        assert!(parse(&super::lines(&families(), "", 7)[0]).tags.is_empty());
    }
}
