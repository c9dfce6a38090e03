//! Medians of the rounds, as a table and as JSON.
//!
//! Place: after the last round. Pure. Losses and strays are summed and the greatest latency is that
//! of all rounds, for a median would hide them.

use std::fmt::Write;

use bench::run::Cores;
use serde::Serialize;

use super::Options;
use super::work::{Delivery, Figures};
use crate::median as middle;

type Pick = fn(&Figures) -> &Delivery;

/// All of a run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Version of this file's format.
    pub format: u32,
    /// The number of connections of each server.
    pub clients: u64,
    /// Bytes of a message.
    pub message_bytes: usize,
    /// Messages per second on topics of one subscriber.
    pub unicast_rate: f64,
    /// Messages per second on the topic of many.
    pub fan_out_rate: f64,
    /// Length of each delivery measurement.
    pub seconds: f64,
    /// Cores of the servers.
    pub server_cores: Cores,
    /// Cores of the load generator.
    pub client_cores: Cores,
    /// Load of the machine (one minute) before the first round and after the last: what others did
    /// besides.
    pub load: [String; 2],
    /// Each server.
    pub servers: Vec<Row>,
    /// Which were left out, and why.
    pub left_out: Vec<String>,
}

/// A server's figures.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// The version that the server reports.
    pub version: String,
    /// Over the rounds.
    pub median: Figures,
    /// One by one.
    pub rounds: Vec<Figures>,
}

impl Report {
    /// Nothing measured yet.
    pub fn new(options: &Options) -> Report {
        Report {
            format: 1,
            clients: options.clients,
            message_bytes: options.size,
            unicast_rate: options.unicast_rate,
            fan_out_rate: options.fan_out_rate,
            seconds: options.seconds,
            server_cores: options.server_cores.clone(),
            client_cores: options.client_cores.clone(),
            load: Default::default(),
            servers: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// The tables, in Markdown.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        let (third, most) = (self.clients / 3, self.clients * 2 / 3);
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "| server | PSS at start, MB | bytes per connection, {third} to {} | connects/s | server CPU per connect, µs |\n|---|---|---|---|---|",
            self.clients
        );
        for row in &self.servers {
            let median = &row.median;
            let _ = writeln!(
                text,
                "| {} | {:.1} | {:.0} | {:.0} | {:.1} |",
                row.name,
                median.start_bytes / 1e6,
                median.connection_bytes,
                median.connects_per_s,
                median.connect_cpu_us
            );
        }
        let kinds: [(String, Pick); 2] = [
            (format!("one topic to {most}, {}/s", self.fan_out_rate), |figures| &figures.fan_out),
            (format!("{most} topics of one, {}/s", self.unicast_rate), |figures| &figures.unicast),
        ];
        for (what, pick) in kinds {
            let _ = writeln!(
                text,
                "\n| {what} | server CPU per delivery, µs | p50, ms | p99, ms | max, ms | lost of | stray |\n|---|---|---|---|---|---|---|"
            );
            for row in &self.servers {
                let delivery = pick(&row.median);
                let _ = writeln!(
                    text,
                    "| {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.0} of {:.0} | {:.0} |",
                    row.name,
                    delivery.cpu_us,
                    delivery.p50_ms,
                    delivery.p99_ms,
                    delivery.max_ms,
                    delivery.lost,
                    delivery.expected,
                    delivery.strays
                );
            }
        }
        let _ = writeln!(text);
        for row in &self.servers {
            let _ = writeln!(text, "- {}: {}", row.name, row.version);
        }
        for line in &self.left_out {
            let _ = writeln!(text, "- left out: {line}");
        }
        text
    }
}

/// The medians of the rounds of one server.
pub fn median(rounds: &[Figures]) -> Figures {
    let of = |pick: &dyn Fn(&Figures) -> f64| middle(rounds.iter().map(pick).collect());
    let delivery = |pick: Pick| Delivery {
        expected: rounds.iter().map(|round| pick(round).expected).sum(),
        lost: rounds.iter().map(|round| pick(round).lost).sum(),
        strays: rounds.iter().map(|round| pick(round).strays).sum(),
        cpu_us: of(&|round| pick(round).cpu_us),
        p50_ms: of(&|round| pick(round).p50_ms),
        p99_ms: of(&|round| pick(round).p99_ms),
        max_ms: rounds.iter().map(|round| pick(round).max_ms).fold(0.0, f64::max),
    };
    Figures {
        start_bytes: of(&|round| round.start_bytes),
        connection_bytes: of(&|round| round.connection_bytes),
        connects_per_s: of(&|round| round.connects_per_s),
        connect_cpu_us: of(&|round| round.connect_cpu_us),
        unicast: delivery(|round| &round.unicast),
        fan_out: delivery(|round| &round.fan_out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_hide_no_loss() {
        let round = |cpu_us, lost, max_ms| Figures {
            connect_cpu_us: cpu_us,
            unicast: Delivery { expected: 10.0, lost, cpu_us, max_ms, ..Delivery::default() },
            ..Figures::default()
        };
        let found = median(&[round(3.0, 0.0, 1.0), round(1.0, 2.0, 9.0), round(2.0, 0.0, 1.0)]);
        assert_eq!((found.connect_cpu_us, found.unicast.cpu_us), (2.0, 2.0));
        let unicast = found.unicast;
        assert_eq!((unicast.expected, unicast.lost, unicast.max_ms), (30.0, 2.0, 9.0));
    }
}
