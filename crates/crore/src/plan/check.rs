//! `crore plan --check`: the prediction held against what `crore bench run` has measured and
//! written as `report.json`.

use super::predict::{Demand, Prediction, Transport, total};
use crate::doctor::Network;
use bench::run::Cores;
use serde_json::Value;

/// One figure, predicted and measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Name of the figure, with its unit.
    pub name: &'static str,
    /// The number that the budget gives.
    pub predicted: f64,
    /// The number in the report.
    pub measured: f64,
}

impl Row {
    /// Predicted over measured, as a share above or below.
    pub fn error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }
}

/// A report and what it is compared with.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The workload's name.
    pub workload: String,
    /// The load of the workload.
    pub demand: Demand,
    /// Figures in both.
    pub rows: Vec<Row>,
}

/// Compares a report with the prediction for what it did.
///
/// # Errors
/// A figure that the report lacks.
pub fn check(report: &Value, defaults: &Demand) -> Result<Checked, String> {
    let number = |path: &str| report.pointer(path).and_then(Value::as_f64);
    let needed = |path: &str| number(path).ok_or(format!("the report lacks {path}"));
    let connections = needed("/memory/connections")?;
    let rate = number("/measured/sent_rate").unwrap_or(0.0);
    let delivered_rate = number("/measured/delivered_rate").unwrap_or(0.0);
    let text = |path: &str| report.pointer(path).and_then(Value::as_str);
    let transport = match text("/plan/transport") {
        Some(text) if text.eq_ignore_ascii_case("ws") || text.contains("WebSocket") => {
            Transport::Ws
        }
        Some(text) if text.contains("MQTT") => {
            return Err("the report is about MQTT, for which there is no prediction".into());
        }
        Some(_) => Transport::Sse,
        None => return Err("the report lacks /plan/transport".into()),
    };
    let network = match text("/plan/own_tcp") {
        Some(_) => Network::User,
        None => Network::Kernel,
    };
    let machine_cores = needed("/machine/cores")?;
    let cores = text("/plan/server_cores").map_or(machine_cores, |list| match cores_of(list) {
        0 => machine_cores,
        count => count as f64,
    });
    let connect_rate = match number("/plan/connect_rate") {
        Some(rate) if rate > 0.0 => rate,
        _ => number("/connect/rate").unwrap_or(defaults.connect_rate),
    };
    let demand = Demand {
        connections,
        rate,
        fan_out: if rate > 0.0 { (delivered_rate / rate).max(1.0) } else { 1.0 },
        message_bytes: needed("/plan/message_bytes")?,
        transport,
        network,
        has_tls: report.pointer("/plan/has_tls").and_then(Value::as_bool) == Some(true),
        io_threads: number("/plan/io_threads").unwrap_or(cores),
        cores,
        connect_rate,
        ..*defaults
    };
    let rows = rows(report, &demand);
    if rows.is_empty() {
        Err("the report contains none of the predicted figures".into())
    } else {
        Ok(Checked { workload: text("/name").unwrap_or("?").to_owned(), demand, rows })
    }
}

fn rows(report: &Value, demand: &Demand) -> Vec<Row> {
    let number = |path: &str| report.pointer(path).and_then(Value::as_f64);
    // Memory was taken when all were connected and nothing was sent.
    let idle = Prediction::of(&Demand { rate: 0.0, ..*demand });
    let running = Prediction::of(demand);
    let connections = demand.connections;
    let grown = total(&idle.user) - idle.fixed_bytes();
    let candidates = [
        ("user space, bytes per connection", grown / connections, number("/memory/user_bytes")),
        (
            "kernel, bytes per connection",
            total(&idle.kernel) / connections,
            number("/memory/kernel_bytes"),
        ),
        ("processor, cores", total(&running.processor), number("/measured/server_cpu")),
        ("processor, µs per connect", running.connect_us, number("/connect/server_cpu_us")),
    ];
    let measured = |(name, predicted, measured): (&'static str, f64, Option<f64>)| {
        // The kernel has no memory of connections by the node's own TCP.
        let measured = measured.filter(|measured| *measured > 0.0 && predicted > 0.0)?;
        Some(Row { name, predicted, measured })
    };
    candidates.into_iter().filter_map(measured).collect()
}

/// Number of cores in a list such as `0,2-3`; 0 for any other text.
fn cores_of(list: &str) -> usize {
    list.parse::<Cores>().map_or(0, |cores| cores.0.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores() {
        for (list, count) in [("", 0), ("0", 1), ("0,2-3", 3), ("0-95", 96)] {
            assert_eq!(cores_of(list), count, "{list}");
        }
    }
}
