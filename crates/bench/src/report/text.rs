//! The figures as lines for people, as CSV and as InfluxDB lines.
//!
//! Place: under [`super::Reporter`]. Pure.

use std::fmt::Write as _;

use super::Figures;
use crate::audit::Findings;
use crate::statistics::{Digest, Sample};
use crate::units::{show_count, show_micros};

/// The heading of the interval lines.
pub fn heading(is_coloured: bool) -> String {
    let text = format!(
        "{:>7} {:>10} {:>9} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}",
        "time",
        "conns",
        "connect/s",
        "sent/s",
        "recv/s",
        "min",
        "mean",
        "p50",
        "p95",
        "p99",
        "p99.9",
        "max",
        "faults"
    );
    if is_coloured { format!("\x1b[2m{text}\x1b[0m") } else { text }
}

/// One line for an interval.
pub fn interval_text(figures: &Figures) -> String {
    let latency = &figures.latency;
    let faults = &figures.counts.faults;
    let micros = |value: f64| {
        if latency.count == 0 { "-".to_owned() } else { show_micros(value) }
    };
    format!(
        "{:>6.1}s {:>10} {:>9} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}",
        figures.elapsed_s,
        show_count(figures.counts.connections.max(0) as u64),
        show_count(figures.connect_rate.round() as u64),
        show_count(figures.send_rate.round() as u64),
        show_count(figures.receive_rate.round() as u64),
        micros(latency.min_us),
        micros(latency.mean_us),
        micros(latency.p50_us),
        micros(latency.p95_us),
        micros(latency.p99_us),
        micros(latency.p999_us),
        micros(latency.max_us),
        faults.lost.unsigned_abs() + faults.repeated + faults.out_of_order + faults.proof_failed,
    )
}

/// The second line of an interval: figures that the first has no column for; empty without any.
pub fn interval_more_text(figures: &Figures) -> String {
    let mut parts = Vec::new();
    let latency = &figures.latency;
    if latency.count > 0 {
        parts.push(format!(
            "n {}, stdev {}, mean ± {} / {} / {} (90 / 95 / 99 %)",
            show_count(latency.count),
            show_micros(latency.stdev_us),
            show_micros(latency.ci90_us),
            show_micros(latency.ci95_us),
            show_micros(latency.ci99_us)
        ));
    }
    if figures.counts.received > 0 && figures.workload != "pub" {
        parts.push(format!(
            "data from {} of {} clients",
            show_count(figures.counts.clients_with_data),
            show_count(figures.clients_ever)
        ));
    }
    if figures.workload == "sub" && figures.counts.clients_live < figures.clients as i64 {
        let live = figures.counts.clients_live.max(0) as u64;
        parts.push(format!("{} clients not live yet", show_count(figures.clients - live)));
    }
    if let Some(bytes) = figures.wire_bytes_per_message {
        parts.push(format!("{bytes:.0} bytes/message on the wire"));
    }
    let connect = &figures.connect_time;
    if connect.count > 0 {
        parts.push(format!(
            "connect p50 {} p99 {} max {}",
            show_micros(connect.p50_us),
            show_micros(connect.p99_us),
            show_micros(connect.max_us)
        ));
    }
    if parts.is_empty() { String::new() } else { format!("{:>8}{}", "", parts.join("; ")) }
}

/// The rows of a summary: names and values.
#[derive(Default)]
pub struct Rows(pub String);

impl Rows {
    /// Adds a row.
    pub fn row(&mut self, name: &str, value: impl AsRef<str>) {
        let _ = writeln!(self.0, "{name:<14}{}", value.as_ref());
    }
}

/// The summary's text.
pub fn summary_text(figures: &Figures) -> String {
    let mut rows = Rows("\n".to_owned());
    count_rows(figures, &mut rows);
    delivery_rows(figures, &mut rows);
    end_rows(figures, &mut rows);
    rows.0
}

/// Connections and messages.
fn count_rows(figures: &Figures, rows: &mut Rows) {
    rows.row("duration", format!("{:.1} s", figures.seconds));
    rows.row(
        "connections",
        format!(
            "{} of {} open, {} made ({}/s over {:.1} s), {} failed, {} lost",
            show_count(figures.counts.connections.max(0) as u64),
            show_count(figures.clients),
            show_count(figures.counts.connects),
            show_count(figures.connect_rate.round() as u64),
            figures.connecting_s,
            show_count(figures.counts.connects_failed),
            show_count(figures.counts.disconnects)
        ),
    );
    if figures.connect_time.count > 0 {
        rows.row("connect time", digest_text(&figures.connect_time));
    }
    if figures.counts.sent > 0 {
        rows.row(
            "sent",
            format!("{} ({:.0}/s)", show_count(figures.counts.sent), figures.send_rate),
        );
    }
    let what = if figures.workload == "pub" { "acknowledged" } else { "received" };
    rows.row(
        what,
        format!(
            "{} ({:.0}/s), {} payload bytes",
            show_count(figures.counts.received),
            figures.receive_rate,
            show_count(figures.counts.received_bytes)
        ),
    );
    if figures.workload == "pub" {
        rows.row(
            "loss",
            format!(
                "{} unacknowledged, {} refused, {} still waiting",
                show_count(figures.counts.unacknowledged),
                show_count(figures.counts.refused),
                show_count(figures.counts.inflight.max(0) as u64)
            ),
        );
    } else {
        rows.row(
            "data from",
            format!(
                "{} of {} clients",
                show_count(figures.counts.clients_with_data),
                show_count(figures.clients_ever)
            ),
        );
    }
}

/// Latencies, and the verification of all streams.
fn delivery_rows(figures: &Figures, rows: &mut Rows) {
    if figures.latency.count > 0 {
        let latency = &figures.latency;
        rows.row("latency", digest_text(latency));
        rows.row(
            "",
            format!(
                "mean ± {} (90 %), ± {} (95 %), ± {} (99 %)",
                show_micros(latency.ci90_us),
                show_micros(latency.ci95_us),
                show_micros(latency.ci99_us)
            ),
        );
    }
    if figures.workload != "pub" {
        let faults = &figures.counts.faults;
        rows.row(
            "verification",
            format!(
                "{} lost, {} repeated, {} out of order, {} failed proofs, at {} clients; {} announced gaps, {} skips",
                show_count(faults.lost.max(0) as u64),
                show_count(faults.repeated),
                show_count(faults.out_of_order),
                show_count(faults.proof_failed),
                show_count(figures.counts.clients_faulty),
                show_count(figures.counts.gaps),
                show_count(figures.counts.skipped)
            ),
        );
    }
}

/// Returns, replays and everything else.
fn end_rows(figures: &Figures, rows: &mut Rows) {
    if figures.return_time.count > 0 {
        rows.row("return", return_text(&figures.return_time));
    }
    if figures.counts.recovered > 0 {
        rows.row(
            "recovered",
            format!("{} messages by replay", show_count(figures.counts.recovered)),
        );
    }
    if figures.counts.epochs_lost + figures.counts.epochs_continued > 0 {
        rows.row(
            "new epochs",
            format!(
                "{} streams kept their position, {} lost it",
                show_count(figures.counts.epochs_continued),
                show_count(figures.counts.epochs_lost)
            ),
        );
    }
    if figures.counts.duplicates + figures.counts.repeated_sends > 0 {
        rows.row(
            "once",
            format!(
                "{} sent again, {} of them answered as duplicates",
                show_count(figures.counts.repeated_sends),
                show_count(figures.counts.duplicates)
            ),
        );
    }
    if let Some(findings) = &figures.audit {
        rows.row("audit", audit_text(findings));
        for example in &findings.examples {
            rows.row("", example.clone());
        }
    }
    if figures.counts.foreign > 0 {
        rows.row(
            "foreign",
            format!("{} messages of other publishers", show_count(figures.counts.foreign)),
        );
    }
    if let Some(bytes) = figures.wire_bytes_per_message {
        rows.row(
            "wire",
            format!(
                "{bytes:.0} bytes per message on all interfaces of this machine, other traffic included"
            ),
        );
    }
    rows.row("processor", format!("{:.1} s", figures.processor_s));
    if let Some(trouble) = &figures.trouble {
        rows.row("last problem", trouble.clone());
    }
}

/// The return times of all clients.
fn return_text(digest: &Digest) -> String {
    format!(
        "{} clients live again: p50 {}  p99 {}  the last after {}",
        show_count(digest.count),
        show_micros(digest.p50_us),
        show_micros(digest.p99_us),
        show_micros(digest.max_us)
    )
}

/// The verdict over all streams.
fn audit_text(findings: &Findings) -> String {
    let mut text = format!(
        "{} streams: {} complete, {} with announced gaps, {} with announced skips, {} faulty, {} unanswered; {} messages",
        show_count(findings.streams),
        show_count(findings.complete),
        show_count(findings.with_gaps),
        show_count(findings.with_skips),
        show_count(findings.faulty),
        show_count(findings.unanswered),
        show_count(findings.messages)
    );
    if findings.announced + findings.again > 0 {
        let _ = write!(
            text,
            ", {} announced as missing, {} repeated in a new epoch",
            show_count(findings.announced),
            show_count(findings.again)
        );
    }
    if let Some(acknowledged) = findings.ledger_acknowledged {
        let _ = write!(
            text,
            "; {} acknowledged, {} of them missing",
            show_count(acknowledged),
            show_count(findings.missing_acknowledged)
        );
    }
    text
}

/// One InfluxDB line (line protocol), with its line end.
pub fn influx_line(figures: &Figures, time_ns: u64) -> String {
    let latency = &figures.latency;
    format!(
        "crore_bench,workload={},span={} connections={}i,connects={}i,connect_rate={:.1},received={}i,sent={}i,lost={}i,repeated={}i,\
         out_of_order={}i,gaps={}i,latency_min_us={:.1},latency_mean_us={:.1},latency_p50_us={:.1},\
         latency_p95_us={:.1},latency_p99_us={:.1},latency_p999_us={:.1},latency_max_us={:.1},connect_p99_us={:.1} {time_ns}\n",
        figures.workload,
        figures.span,
        figures.counts.connections,
        figures.counts.connects,
        figures.connect_rate,
        figures.counts.received,
        figures.counts.sent,
        figures.counts.faults.lost,
        figures.counts.faults.repeated,
        figures.counts.faults.out_of_order,
        figures.counts.gaps,
        latency.min_us,
        latency.mean_us,
        latency.p50_us,
        latency.p95_us,
        latency.p99_us,
        latency.p999_us,
        latency.max_us,
        figures.connect_time.p99_us,
    )
}

/// The sampled clients as CSV, with a heading; times in microseconds.
pub fn samples_csv(samples: &[(u64, Sample)]) -> String {
    let mut text = String::from("client,count,median_us,mean_us,p95_us,p99_us\n");
    for (client, sample) in samples {
        let (count, median, mean, p95, p99) = sample.figures();
        let _ = writeln!(text, "{client},{count},{median:.1},{mean:.1},{p95:.1},{p99:.1}");
    }
    text
}

/// The figures of a digest in one line.
pub fn digest_text(digest: &Digest) -> String {
    format!(
        "min {}  mean {}  stdev {}  p50 {}  p95 {}  p99 {}  p99.9 {}  max {}  (n {})",
        show_micros(digest.min_us),
        show_micros(digest.mean_us),
        show_micros(digest.stdev_us),
        show_micros(digest.p50_us),
        show_micros(digest.p95_us),
        show_micros(digest.p99_us),
        show_micros(digest.p999_us),
        show_micros(digest.max_us),
        show_count(digest.count)
    )
}
