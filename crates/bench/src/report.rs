//! The figures in words, in JSON, as CSV and as InfluxDB lines.
//!
//! Place: between snapshots and the outside. Formatting is pure; [`Reporter`] writes to its
//! outputs.

use std::io::IsTerminal;
use std::time::Instant;

use anyhow::Context;
use fetch::push::Target;
use serde::Serialize;

use crate::audit::Findings;
use crate::engine::{Counts, Plan, Tally};
use crate::machine::{Wire, processor_seconds, resident_bytes};
use crate::statistics::Digest;

pub mod text;

use text::{heading, influx_line, interval_more_text, interval_text, summary_text};

/// The figures of one interval or of the whole run. `--json` prints them as they are.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// `sub`, `pub` or `echo`.
    pub workload: &'static str,
    /// `interval` or `total`.
    pub span: &'static str,
    /// Seconds since the start.
    pub elapsed_s: f64,
    /// Seconds that the figures are of.
    pub seconds: f64,
    /// The counts of the span. Open connections, live clients, clients with data or faults, and
    /// publications in flight are those at its end.
    #[serde(flatten)]
    pub counts: Counts,
    /// Requested number of clients.
    pub clients: u64,
    /// Clients that were ever requested, removed ones included.
    pub clients_ever: u64,
    /// Connects per second: over the seconds of an interval, or over `connecting_s` of the whole
    /// run.
    pub connect_rate: f64,
    /// Seconds during which connects were in progress.
    pub connecting_s: f64,
    /// Time from the intended connect to the end of the handshake.
    pub connect_time: Digest,
    /// Time from the return of all absent clients until each was live again.
    pub return_time: Digest,
    /// Received messages per second.
    pub receive_rate: f64,
    /// Sent messages per second.
    pub send_rate: f64,
    /// Time from the intended sending to the receipt.
    pub latency: Digest,
    /// Bytes on all interfaces of this machine per received message (per sent message for
    /// publishers), in both directions and of all programs. On loopback each byte counts once.
    pub wire_bytes_per_message: Option<f64>,
    /// CPU seconds of this process.
    pub processor_s: f64,
    /// Resident memory of this process.
    pub resident_bytes: Option<u64>,
    /// The newest problem, as text.
    pub trouble: Option<String>,
    /// The findings of the audit, at the end of an audited run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<Findings>,
}

/// The outputs of a report.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    /// One JSON object per interval, and a last one, instead of text.
    pub json: bool,
    /// InfluxDB lines to this file, or `udp://host:port`.
    pub influx: Option<String>,
}

/// Writes the figures of one run.
pub struct Reporter {
    workload: &'static str,
    outputs: Outputs,
    clients: u64,
    clients_ever: u64,
    started: Instant,
    last: Instant,
    processor_start: f64,
    processor_last: f64,
    wire_start: Option<Wire>,
    wire_last: Option<Wire>,
    influx: Option<Target>,
    lines: u64,
}

impl Reporter {
    /// Starts the clocks.
    ///
    /// # Errors
    /// The target of the InfluxDB lines cannot be opened.
    pub fn new(workload: &'static str, clients: u64, outputs: Outputs) -> anyhow::Result<Reporter> {
        let influx = outputs.influx.as_deref().map(target);
        if let Some(target) = &influx {
            // A target that cannot be opened is reported before the run.
            target.send(&[]).with_context(|| format!("--influx {target}"))?;
        }
        let (now, processor, wire) = (Instant::now(), processor_seconds(), Wire::read());
        Ok(Reporter {
            workload,
            outputs,
            clients,
            clients_ever: clients,
            started: now,
            last: now,
            processor_start: processor,
            processor_last: processor,
            wire_start: wire,
            wire_last: wire,
            influx,
            lines: 0,
        })
    }

    /// Says what the plan left out.
    pub fn plan(&self, plan: &Plan) {
        for note in &plan.notes {
            eprintln!("note: {note}");
        }
    }

    /// The number of clients has changed.
    pub fn set_clients(&mut self, clients: u64) {
        self.clients_ever += clients.saturating_sub(self.clients);
        self.clients = clients;
    }

    /// Reports the span since the last call; `total` is since the start. Answers the figures.
    pub fn interval(&mut self, interval: &Tally, total: &Tally) -> Figures {
        let (now, processor, wire) = (Instant::now(), processor_seconds(), Wire::read());
        let seconds = (now - self.last).as_secs_f64();
        let mut figures = self.figures("interval", interval, total, seconds);
        figures.processor_s = processor - self.processor_last;
        figures.wire_bytes_per_message = per_message(self.wire_last, wire, &figures);
        (self.last, self.processor_last, self.wire_last) = (now, processor, wire);
        self.influx(&figures);
        if self.outputs.json {
            print_json(&figures);
        } else {
            self.line(&figures);
        }
        figures
    }

    /// Reports the whole run.
    pub fn summary(&mut self, total: &Tally, findings: Option<&Findings>) -> Figures {
        let seconds = self.started.elapsed().as_secs_f64();
        let mut figures = self.figures("total", total, total, seconds);
        figures.audit = findings.cloned();
        figures.processor_s = processor_seconds() - self.processor_start;
        // Only the time of connecting tells its rate.
        if figures.connecting_s > 0.0 {
            figures.connect_rate = figures.counts.connects as f64 / figures.connecting_s;
        }
        figures.wire_bytes_per_message = per_message(self.wire_start, Wire::read(), &figures);
        self.influx(&figures);
        if self.outputs.json {
            print_json(&figures);
        } else {
            print!("{}", summary_text(&figures));
        }
        figures
    }

    fn figures(&self, span: &'static str, tally: &Tally, total: &Tally, seconds: f64) -> Figures {
        let rate = |count: u64| {
            if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
        };
        Figures {
            workload: self.workload,
            span,
            elapsed_s: self.started.elapsed().as_secs_f64(),
            seconds,
            counts: Counts {
                connections: total.connections,
                clients_with_data: total.clients_with_data,
                clients_live: total.clients_live,
                clients_faulty: total.clients_faulty,
                inflight: total.inflight,
                ..tally.counts
            },
            clients: self.clients,
            clients_ever: self.clients_ever,
            connect_rate: rate(tally.connects),
            connecting_s: tally.connecting.seconds(),
            connect_time: tally.connect_time.digest(),
            return_time: tally.return_time.digest(),
            receive_rate: rate(tally.received),
            send_rate: rate(tally.sent),
            latency: tally.latency.digest(),
            wire_bytes_per_message: None,
            processor_s: 0.0,
            resident_bytes: resident_bytes(),
            trouble: tally.trouble.clone(),
            audit: None,
        }
    }

    fn line(&mut self, figures: &Figures) {
        // The heading is repeated, because it scrolls away.
        if self.lines.is_multiple_of(20) {
            println!("{}", heading(std::io::stdout().is_terminal()));
        }
        self.lines += 1;
        println!("{}", interval_text(figures));
        let more = interval_more_text(figures);
        if !more.is_empty() {
            println!("{more}");
        }
        if let Some(trouble) = &figures.trouble {
            eprintln!("note: {trouble}");
        }
    }

    fn influx(&self, figures: &Figures) {
        let time_ns = crate::payload::Clock::Realtime.now_ns();
        if let Some(target) = &self.influx {
            // A target that fails during the run does not end the run.
            let _ = target.send(&[influx_line(figures, time_ns)]);
        }
    }
}

/// The target that `--influx` names: `udp://host:port` or a file.
fn target(text: &str) -> Target {
    match text.strip_prefix("udp://") {
        Some(address) => Target::Udp(address.to_owned()),
        None => Target::File { path: text.into(), bytes_max: u64::MAX },
    }
}

fn per_message(before: Option<Wire>, after: Option<Wire>, figures: &Figures) -> Option<f64> {
    let (before, after) = (before?, after?);
    let messages =
        if figures.workload == "pub" { figures.counts.sent } else { figures.counts.received };
    let bytes = after.received_bytes.wrapping_sub(before.received_bytes)
        + after.sent_bytes.wrapping_sub(before.sent_bytes);
    (messages > 0).then(|| bytes as f64 / messages as f64)
}

fn print_json(figures: &Figures) {
    // Plain numbers and texts always serialise.
    if let Ok(text) = serde_json::to_string(figures) {
        println!("{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::text::samples_csv;
    use super::*;
    use crate::statistics::Sample;
    use crate::verify::Faults;

    fn figures() -> Figures {
        let mut recorder = crate::statistics::Recorder::new();
        recorder.record_ns(1_500_000);
        Figures {
            workload: "sub",
            span: "total",
            seconds: 2.0,
            counts: Counts {
                connections: 9_999,
                connects: 10_000,
                clients_with_data: 9_998,
                clients_live: 10_000,
                received: 20_000,
                faults: Faults { lost: 3, ..Faults::default() },
                clients_faulty: 2,
                ..Counts::default()
            },
            clients: 10_000,
            clients_ever: 10_000,
            connect_rate: 5_000.0,
            connecting_s: 2.0,
            receive_rate: 10_000.0,
            latency: recorder.digest(),
            wire_bytes_per_message: Some(650.4),
            ..Figures::default()
        }
    }

    #[test]
    fn text() {
        let text = summary_text(&figures());
        for part in [
            "9,999 of 10,000 open, 10,000 made (5,000/s over 2.0 s)",
            "9,998 of 10,000 clients",
            "3 lost, 0 repeated, 0 out of order",
            "at 2 clients",
            "p99.9 1.50 ms",
            "650 bytes per message",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let line = interval_text(&figures());
        assert_eq!(line.chars().count(), heading(false).chars().count(), "aligned\n{line}");
        assert!(interval_text(&Figures::default()).contains(" - "));
        assert_eq!(interval_more_text(&Figures::default()), "");
        assert_eq!(
            interval_more_text(&figures()).trim_start(),
            "n 1, stdev 0 µs, mean ± 0 µs / 0 µs / 0 µs (90 / 95 / 99 %); \
             data from 9,998 of 10,000 clients; 650 bytes/message on the wire"
        );
    }

    #[test]
    fn machine_readable() {
        let value = serde_json::to_value(figures()).unwrap();
        assert_eq!(value["latency"]["p50_us"], 1500.0);
        assert_eq!(value["faults"]["lost"], 3);
        let line = influx_line(&figures(), 7);
        assert!(
            line.starts_with("crore_bench,workload=sub,span=total connections=9999i,"),
            "{line}"
        );
        assert!(line.ends_with(" 7\n"));
        let mut sample = Sample::default();
        sample.record_ns(2_000, 0);
        assert_eq!(
            samples_csv(&[(5, sample)]),
            "client,count,median_us,mean_us,p95_us,p99_us\n5,1,2.0,2.0,2.0,2.0\n"
        );
    }
}
