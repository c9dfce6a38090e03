//! A run on the terminal: a line per interval, and the summary.
//!
//! Place: under [`super::session`] and [`super::run`]. Pure.

use std::fmt::Write as _;

use super::outcome::{Outcome, Row, Sample};
use crate::report::text::{Rows, digest_text};
use crate::statistics::Digest;
use crate::units::{show_count, show_micros};

/// Lines between two headings.
const HEADING_EVERY: usize = 20;

/// A phase begins.
pub fn phase_line(phase: &str) -> String {
    format!("-- {phase}")
}

/// An interval, with a heading now and then.
pub fn sample_line(sample: &Sample, number: usize) -> String {
    let micros = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), show_micros);
    let megabytes = |bytes: Option<u64>| {
        bytes.map_or_else(|| "-".to_owned(), |bytes| show_count(bytes / 1_000_000))
    };
    let cores = |cores: Option<f64>| {
        cores.map_or_else(|| "-".to_owned(), |cores| format!("{:.0}%", cores * 100.0))
    };
    let line = format!(
        "{:>7.1}s {:>10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>7} {:>8} {:>9}",
        sample.at_s,
        show_count(sample.connections.max(0) as u64),
        show_count(sample.live.max(0) as u64),
        show_count(sample.sent_rate.round() as u64),
        show_count(sample.received_rate.round() as u64),
        micros(sample.p50_us),
        micros(sample.p99_us),
        micros(sample.max_us),
        cores(sample.server_cpu),
        cores(sample.clients_cpu),
        megabytes(sample.server_pss),
        megabytes(sample.slab),
    );
    if number.is_multiple_of(HEADING_EVERY) {
        let heading = format!(
            "{:>8} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7} {:>7} {:>8} {:>9}",
            "time",
            "conns",
            "live",
            "sent/s",
            "recv/s",
            "p50",
            "p99",
            "max",
            "server",
            "clients",
            "PSS MB",
            "slab MB"
        );
        return format!("{heading}\n{line}");
    }
    line
}

/// The first part of the report.
pub fn summary(outcome: &Outcome) -> String {
    let mut rows = Rows("\n".to_owned());
    connection_rows(outcome, &mut rows);
    message_rows(outcome, &mut rows);
    storm_rows(outcome, &mut rows);
    let completeness = &outcome.completeness;
    rows.row(
        "completeness",
        format!(
            "{} sent, {} deliveries expected, {} received; {} lost, {} repeated, {} out of order, {} connections lost",
            show_count(completeness.sent),
            show_count(completeness.expected),
            show_count(completeness.received),
            show_count(completeness.faults.lost.unsigned_abs()),
            show_count(completeness.faults.repeated),
            show_count(completeness.faults.out_of_order),
            show_count(completeness.connections_lost)
        ),
    );
    let mut text = rows.0;
    if outcome.comparison.iter().any(|row| row.published.is_some()) {
        text.push_str(&comparison(outcome));
    }
    for note in &outcome.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if let Some(trouble) = &outcome.trouble {
        let _ = writeln!(text, "THE RUN WAS NOT COMPLETED: {trouble}");
    } else if completeness.is_complete {
        text.push_str("complete: every message arrived once and in order\n");
    }
    for why in &completeness.why {
        let _ = writeln!(text, "NOT COMPLETE: {why}");
    }
    text
}

/// Connections and their memory.
fn connection_rows(outcome: &Outcome, rows: &mut Rows) {
    if let Some(connect) = &outcome.connect {
        rows.row(
            "connect",
            format!(
                "{} connections in {:.1} s ({}/s), {} failed; {}",
                show_count(connect.connections),
                connect.seconds,
                show_count(connect.rate.round() as u64),
                show_count(connect.failed),
                short_digest(&connect.time)
            ),
        );
        if let Some(micros) = connect.server_cpu_us {
            rows.row("", format!("{micros:.1} µs of server CPU each"));
        }
    }
    if let Some(memory) = &outcome.memory {
        let bytes = |bytes: Option<f64>| {
            bytes.map_or_else(|| "unknown".to_owned(), |bytes| show_signed(bytes.round()))
        };
        rows.row(
            "memory",
            format!(
                "user {} bytes per connection ({} for each further one), kernel {} bytes per {}, generator {} bytes per connection",
                bytes(memory.user_bytes),
                bytes(memory.user_slope_bytes),
                bytes(memory.kernel_bytes),
                if outcome.plan.own_tcp.is_some() { "connection" } else { "socket" },
                bytes(memory.client_bytes)
            ),
        );
    }
}

/// The measured span.
fn message_rows(outcome: &Outcome, rows: &mut Rows) {
    if let Some(measured) = &outcome.measured {
        rows.row(
            "measured",
            format!(
                "{:.0} s: {} sent ({:.0}/s), {} delivered ({:.0}/s)",
                measured.seconds,
                show_count(measured.sent),
                measured.sent_rate,
                show_count(measured.delivered),
                measured.delivered_rate
            ),
        );
        rows.row("latency", digest_text(&measured.latency));
        if let Some(digest) = &measured.last_receiver {
            rows.row("last receiver", digest_text(digest));
        }
        if let Some(digest) = &measured.acknowledgement {
            rows.row("acknowledged", digest_text(digest));
        }
        if let (Some(cores), Some(micros)) = (measured.server_cpu, measured.delivery_cpu_us) {
            rows.row(
                "server CPU",
                format!("{:.0} % of a core, {micros:.1} µs per delivery", cores * 100.0),
            );
        }
        if let Some(cores) = measured.clients_cpu {
            rows.row("generator CPU", format!("{:.0} % of a core", cores * 100.0));
        }
        if let Some(cores) = measured.machine_cpu {
            rows.row("machine CPU", format!("{:.0} % of a core", cores * 100.0));
        }
    }
}

/// The hiccup meter, the sustained rate and the storm.
fn storm_rows(outcome: &Outcome, rows: &mut Rows) {
    if let Some(hiccups) = &outcome.hiccups {
        rows.row("hiccup meter", digest_text(&hiccups.late));
    }
    if let Some(rate) = outcome.sustainable_rate {
        rows.row("sustained", format!("{rate:.0} messages/s"));
    }
    if let Some(storm) = &outcome.storm {
        let whose = if storm.has_killed_server { "the server" } else { "all clients" };
        rows.row(
            "storm",
            format!(
                "{whose} away for {:.1} s; {} live again after p50 {}, p99 {}, the last {}; {} messages recovered",
                storm.away_s,
                show_count(storm.back.count),
                show_micros(storm.back.p50_us),
                show_micros(storm.back.p99_us),
                show_micros(storm.back.max_us),
                show_count(storm.recovered)
            ),
        );
        if let Some((restart_s, last_s)) = storm.restart_s.zip(storm.last_since_ready_s) {
            rows.row(
                "",
                format!(
                    "the server was ready again {restart_s:.2} s after its start, the last client {last_s:.2} s after that"
                ),
            );
        }
    }
}

/// Ours beside the published figures.
fn comparison(outcome: &Outcome) -> String {
    let mut text = String::new();
    let whose = outcome.published.as_ref().map_or("", |published| published.of);
    let _ = writeln!(
        text,
        "\n{:<28}{:>14}{:>14}{:>10}  ({whose})",
        "", "this run", "published", "factor"
    );
    for Row { what, unit, ours, published, is_bound, factor } in &outcome.comparison {
        let figure = |value: Option<f64>| value.map_or_else(String::new, show_figure);
        let bound = if *is_bound && published.is_some() { "<" } else { "" };
        let _ = writeln!(
            text,
            "{:<28}{:>14}{:>14}{:>10}",
            format!("{what} {unit}"),
            figure(*ours),
            format!("{bound}{}", figure(*published)),
            factor.map_or_else(String::new, show_factor),
        );
    }
    text.push('\n');
    text
}

/// A figure with as many digits as make sense.
pub fn show_figure(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 => show_signed(value.round()),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Small shares of a published size are still told apart.
fn show_factor(factor: f64) -> String {
    if factor.abs() < 0.1 { format!("{factor:.5}") } else { format!("{factor:.3}") }
}

fn show_signed(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}", show_count(value.abs() as u64))
}

fn short_digest(digest: &Digest) -> String {
    format!(
        "p50 {}, p99 {}, max {}",
        show_micros(digest.p50_us),
        show_micros(digest.p99_us),
        show_micros(digest.max_us)
    )
}

#[cfg(test)]
mod tests {
    use super::super::outcome::MeasuredFigures;
    use super::super::workload::Name;
    use super::*;

    #[test]
    fn lines_are_aligned() {
        let text = sample_line(&Sample::default(), 0);
        let widths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert_eq!(widths[0], widths[1], "{text}");
        assert_eq!(sample_line(&Sample::default(), 1).lines().count(), 1);
    }

    #[test]
    fn figures() {
        for (value, text) in [
            (0.5, "0.50"),
            (12.34, "12.3"),
            (123.4, "123"),
            (-1_234.0, "-1,234"),
            (10_000_108.0, "10,000,108"),
        ] {
            assert_eq!(show_figure(value), text);
        }
    }

    #[test]
    fn what_is_incomplete_is_loud_and_what_was_not_published_is_blank() {
        let mut outcome = Outcome {
            published: Name::C12m.workload().published,
            measured: Some(MeasuredFigures {
                latency: Digest { count: 1, mean_us: 61_000.0, ..Digest::default() },
                delivered_rate: 100_000.0,
                ..MeasuredFigures::default()
            }),
            ..Outcome::default()
        };
        outcome.completeness.why.push("5 deliveries are missing".to_owned());
        outcome.comparison = super::super::beside::rows(&outcome);
        let text = summary(&outcome);
        assert!(text.contains("NOT COMPLETE: 5 deliveries are missing"), "{text}");
        assert!(!text.contains("complete: every"), "{text}");
        let line = |start: &str| {
            let line = text.lines().find(|line| line.starts_with(start));
            line.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line("messages delivered"), "messages delivered /s 100,000 200,000 0.500");
        assert_eq!(line("latency, mean"), "latency, mean ms 61.0");
    }
}
