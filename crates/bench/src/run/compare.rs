//! `crore bench report A.json B.json`: compares reports side by side.
//!
//! Place: after [`super::run`], reading its reports. Reports of other versions may lack figures;
//! their cells stay blank.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::Value;

use super::text::show_figure;

/// `bench report`.
#[derive(Clone, Debug, Args)]
pub struct ReportCommand {
    /// Reports of `bench run`: report.json or its directory, two or more
    #[arg(value_name = "REPORT", num_args = 2.., required = true)]
    pub reports: Vec<PathBuf>,
}

/// A row: its heading, the path of the figure, and its factor.
const ROWS: &[(&str, &str, f64)] = &[
    ("clients", "/plan/size/clients", 1.0),
    ("published /s", "/measured/sent_rate", 1.0),
    ("delivered /s", "/measured/delivered_rate", 1.0),
    ("latency, mean ms", "/measured/latency/mean_us", 1e-3),
    ("latency, stdev ms", "/measured/latency/stdev_us", 1e-3),
    ("latency, p50 ms", "/measured/latency/p50_us", 1e-3),
    ("latency, p95 ms", "/measured/latency/p95_us", 1e-3),
    ("latency, p99 ms", "/measured/latency/p99_us", 1e-3),
    ("latency, p99.9 ms", "/measured/latency/p999_us", 1e-3),
    ("latency, max ms", "/measured/latency/max_us", 1e-3),
    ("last receiver, p50 ms", "/measured/last_receiver/p50_us", 1e-3),
    ("last receiver, p99 ms", "/measured/last_receiver/p99_us", 1e-3),
    ("hiccup meter, p99.9 ms", "/hiccups/late/p999_us", 1e-3),
    ("hiccup meter, max ms", "/hiccups/late/max_us", 1e-3),
    ("server CPU, cores", "/measured/server_cpu", 1.0),
    ("CPU per delivery, us", "/measured/delivery_cpu_us", 1.0),
    ("connects /s", "/connect/rate", 1.0),
    ("CPU per connect, us", "/connect/server_cpu_us", 1.0),
    ("connect, p99 ms", "/connect/time/p99_us", 1e-3),
    ("user bytes/connection", "/memory/user_bytes", 1.0),
    ("user slope, bytes", "/memory/user_slope_bytes", 1.0),
    ("kernel bytes/end", "/memory/kernel_bytes", 1.0),
    ("sustained /s", "/sustainable_rate", 1.0),
    ("storm, p99 back ms", "/storm/back/p99_us", 1e-3),
    ("storm, last back ms", "/storm/back/max_us", 1e-3),
    ("deliveries expected", "/completeness/expected", 1.0),
    ("deliveries received", "/completeness/received", 1.0),
];

/// Prints the comparison.
///
/// # Errors
/// A report cannot be read, or is not a report.
pub fn run(command: &ReportCommand) -> anyhow::Result<()> {
    let reports =
        command.reports.iter().map(|path| read(path)).collect::<anyhow::Result<Vec<_>>>()?;
    print!("{}", table(&reports));
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Value> {
    let file = if path.is_dir() { path.join("report.json") } else { path.to_owned() };
    let text = std::fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
    let report: Value =
        serde_json::from_str(&text).with_context(|| format!("{}", file.display()))?;
    if report["format"] != 1 {
        bail!("{} is not a report of this form", file.display());
    }
    Ok(report)
}

/// One column for each report, and the last one divided by the first.
fn table(reports: &[Value]) -> String {
    let mut text = String::new();
    let mut line = |name: &str, cells: Vec<String>, factor: String| {
        let _ = write!(text, "{name:<26}");
        for cell in cells {
            let _ = write!(text, "{cell:>22}");
        }
        let _ = writeln!(text, "{factor:>10}");
    };
    let texts = |pointer: &str| {
        let cell = |report: &Value| {
            report.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_owned()
        };
        reports.iter().map(cell).collect::<Vec<_>>()
    };
    line("", texts("/name"), "factor".to_owned());
    line("", texts("/began"), String::new());
    for (name, pointer, unit) in ROWS {
        let figures: Vec<Option<f64>> =
            reports.iter().map(|report| Some(report.pointer(pointer)?.as_f64()? * unit)).collect();
        if figures.iter().all(Option::is_none) {
            continue;
        }
        let factor = match (figures.first().copied().flatten(), figures.last().copied().flatten()) {
            (Some(first), Some(last)) if first != 0.0 => format!("{:.3}", last / first),
            _ => String::new(),
        };
        let cells = figures.iter().map(|figure| figure.map_or_else(String::new, show_figure));
        line(name, cells.collect(), factor);
    }
    let complete = reports.iter().map(|report| {
        let is_complete = report.pointer("/completeness/is_complete") == Some(&Value::Bool(true));
        if is_complete { "yes".to_owned() } else { "NO".to_owned() }
    });
    line("complete", complete.collect(), String::new());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reports_stand_side_by_side() {
        let report = |mean: f64, is_complete| {
            json!({
                "format": 1, "name": "c10m", "began": "2026-01-31T12:00:00Z",
                "measured": {"latency": {"mean_us": mean}},
                "completeness": {"is_complete": is_complete},
            })
        };
        let text = table(&[report(1_000.0, true), report(1_500.0, false)]);
        let line = |start: &str| {
            let line = text.lines().find(|line| line.starts_with(start)).unwrap();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line("latency, mean"), "latency, mean ms 1.00 1.50 1.500");
        assert_eq!(line("complete"), "complete yes NO");
        assert!(!text.contains("storm"), "{text}");
        let widths: std::collections::HashSet<_> = text.lines().map(str::len).collect();
        assert_eq!(widths.len(), 1, "{text}");
    }
}
