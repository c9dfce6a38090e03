//! `crore top`: a running node on one screen: connections, rates, memory by component, and
//! warnings.
//!
//! The command requests the figures once a second and keeps the last two answers. It uses plain
//! control sequences: one frame is a list of lines ([`frame`]) that fits the terminal, written in
//! one call over the previous frame. Invariant: the terminal is restored at every end.

use super::operators::Port;
use super::table::printable;
use crate::exit::Ending;
use crate::signals::{self, Signal};
use crate::terminal::{self, Screen};
use serde_json::Value;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Flags of `top`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print one screen and stop, after measuring for one interval.
    #[arg(long)]
    once: bool,
    /// Time between two measurements, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=60))]
    interval: u64,
    #[command(flatten)]
    operators: Port,
}

/// Rates that the curve remembers.
const CURVE_LEN: usize = 240;
/// Maximum width of a frame.
const COLUMNS_MAX: usize = 120;
/// The hint on the last line.
const QUIT: &str = "q quits";
/// Columns and rows of a complete frame.
const SIZE_MIN: (usize, usize) = (80, 24);

/// One sample of the node's figures.
#[derive(Clone)]
struct Look {
    at: Instant,
    statistics: Value,
}

/// The content of a frame.
struct Shown<'a> {
    health: &'a Value,
    /// The answer of `/api/v1/cluster`; null without a cluster.
    cluster: &'a Value,
    before: &'a Value,
    now: &'a Value,
    elapsed: Duration,
    /// Deliveries a second, the newest last.
    curve: &'a VecDeque<u64>,
    /// The last line: how to quit, or why the figures are old.
    footer: &'a str,
}

/// Input of the main loop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Happened {
    /// The user typed a key that quits.
    Quit,
    /// The terminal's size changed.
    Resized,
    Ended(Signal),
}

/// Runs the command.
///
/// # Errors
/// The operators' port does not answer the first request, or the terminal cannot be written to.
pub fn run(arguments: &Arguments) -> Result<(), Ending> {
    let seen = Seen::begin(arguments)?;
    if arguments.once { print_once(seen, arguments) } else { watch(seen, arguments) }
}

fn print_once(mut seen: Seen, arguments: &Arguments) -> Result<(), Ending> {
    signals::exit_at_signal();
    std::thread::sleep(Duration::from_secs(arguments.interval));
    seen.look(arguments)?;
    let mut output = std::io::stdout().lock();
    for line in seen.frame("") {
        writeln!(output, "{line}")?;
    }
    Ok(())
}

fn watch(mut seen: Seen, arguments: &Arguments) -> Result<(), Ending> {
    let interval = Duration::from_secs(arguments.interval);
    let (sender, happened) = mpsc::channel();
    let (keys, windows) = (sender.clone(), sender.clone());
    signals::watch(move |signal| {
        let _ = sender.send(Happened::Ended(signal));
    });
    signals::watch_window(move || windows.send(Happened::Resized).is_ok());
    let screen = Screen::open()?;
    std::thread::spawn(move || watch_keys(&keys));
    let mut footer = QUIT.to_owned();
    loop {
        let next_look = Instant::now() + interval;
        loop {
            screen.show(&seen.frame(&footer))?;
            match happened.recv_timeout(next_look.saturating_duration_since(Instant::now())) {
                Ok(Happened::Quit) => return Ok(()),
                Ok(Happened::Resized) => {}
                Ok(Happened::Ended(signal)) => return Err(Ending::Signal(signal)),
                Err(RecvTimeoutError::Timeout) => break,
                // No thread can send anything now; a user stops the command with a signal.
                Err(RecvTimeoutError::Disconnected) => {
                    std::thread::sleep(next_look.saturating_duration_since(Instant::now()));
                    break;
                }
            }
        }
        footer = match seen.look(arguments) {
            Ok(()) => QUIT.into(),
            Err(error) => format!("! {error:#}"),
        };
    }
}

/// Reports keys that quit, until standard input ends.
fn watch_keys(keys: &mpsc::Sender<Happened>) {
    let mut input = std::io::stdin().lock();
    let mut typed = [0; 64];
    while let Ok(length @ 1..) = input.read(&mut typed) {
        if quits(&typed[..length]) && keys.send(Happened::Quit).is_err() {
            return;
        }
    }
}

/// Escape alone quits; several bytes at once are a key without a letter, such as an arrow.
fn quits(typed: &[u8]) -> bool {
    match typed {
        [27] => true,
        [27, ..] => false,
        letters => letters.iter().any(|key| matches!(key, b'q' | b'Q' | 3)),
    }
}

/// The last two samples, and figures kept from earlier ones.
struct Seen {
    health: Value,
    cluster: Value,
    before: Look,
    now: Look,
    /// Deliveries a second, the newest last.
    curve: VecDeque<u64>,
}

impl Seen {
    fn begin(arguments: &Arguments) -> anyhow::Result<Seen> {
        let now = look(arguments)?;
        Ok(Seen {
            health: health(arguments).unwrap_or(Value::Null),
            cluster: cluster(arguments),
            before: now.clone(),
            now,
            curve: VecDeque::new(),
        })
    }

    fn look(&mut self, arguments: &Arguments) -> anyhow::Result<()> {
        self.before = std::mem::replace(&mut self.now, look(arguments)?);
        let (before, now) = (&self.before, &self.now);
        let delivered = rate(&before.statistics, &now.statistics, "delivered", now.at - before.at);
        self.curve.push_back(delivered);
        if self.curve.len() > CURVE_LEN {
            self.curve.pop_front();
        }
        if let Ok(health) = health(arguments) {
            self.health = health;
        }
        self.cluster = cluster(arguments);
        Ok(())
    }

    /// A frame in the current size of the terminal.
    fn frame(&self, footer: &str) -> Vec<String> {
        let shown = Shown {
            health: &self.health,
            cluster: &self.cluster,
            before: &self.before.statistics,
            now: &self.now.statistics,
            elapsed: self.now.at - self.before.at,
            curve: &self.curve,
            footer,
        };
        frame(&shown, terminal::output_size().unwrap_or(SIZE_MIN))
    }
}

fn health(arguments: &Arguments) -> anyhow::Result<Value> {
    arguments.operators.ask("GET", "/healthz")
}

/// The nodes of the cluster; null if the node is in none, or does not say.
fn cluster(arguments: &Arguments) -> Value {
    arguments.operators.ask("GET", "/api/v1/cluster").unwrap_or(Value::Null)
}

fn look(arguments: &Arguments) -> anyhow::Result<Look> {
    let statistics = arguments.operators.ask("GET", "/api/v1/statistics")?;
    Ok(Look { at: Instant::now(), statistics })
}

/// Rate per second between two samples; none if the node has restarted.
fn rate(before: &Value, now: &Value, name: &str, elapsed: Duration) -> u64 {
    let of = |value: &Value| value["total"][name].as_u64().unwrap_or(0);
    let more = of(now).saturating_sub(of(before));
    let elapsed_ms = elapsed.as_millis().max(1) as u64;
    more.saturating_mul(1_000) / elapsed_ms
}

/// One frame within this number of columns and rows.
fn frame(shown: &Shown<'_>, (columns, rows): (usize, usize)) -> Vec<String> {
    let columns = columns.min(COLUMNS_MAX);
    let mut lines = vec![heading(shown), String::new()];
    lines.extend(figures(shown));
    lines.push(String::new());
    lines.push(format!("deliveries/s         {}", curve(shown.curve, columns.saturating_sub(22))));
    lines.push(String::new());
    lines.extend(nodes(shown.cluster));
    let left = rows.saturating_sub(lines.len() + 2);
    lines.extend(memory(shown.now, left, columns));
    lines.truncate(rows.saturating_sub(1));
    if !shown.footer.is_empty() {
        lines.push(shown.footer.into());
    }
    lines.iter().map(|line| cut(line, columns)).collect()
}

fn heading(shown: &Shown<'_>) -> String {
    let text = |name: &str| printable(shown.health[name].as_str().unwrap_or("?"));
    let uptime_s = shown.now["uptime_ms"].as_u64().unwrap_or(0) / 1_000;
    let silent = shown.now["silent_threads"].as_u64().unwrap_or(0);
    let mut line = format!(
        "crore {} {}  {}  up {}  {} threads",
        text("node"),
        text("version"),
        text("status"),
        span(uptime_s),
        shown.now["io_threads"].as_u64().unwrap_or(0)
    );
    if silent > 0 {
        let _ = write!(line, "  {silent} DO NOT ANSWER");
    }
    line
}

fn figures(shown: &Shown<'_>) -> Vec<String> {
    let now = |name: &str| shown.now[name].as_u64().unwrap_or(0);
    let of = |group: &str, name: &str| shown.now[group][name].as_u64().unwrap_or(0);
    let per_s = |name: &str| rate(shown.before, shown.now, name, shown.elapsed);
    let share = |part: u64, all: u64| match all {
        0 => String::new(),
        all => format!("{:.1} %", part as f64 * 100.0 / all as f64),
    };
    let row = |cells: [(&str, String); 3]| {
        let cell = |(name, text): &(&str, String)| format!("{name:<14}{text:>11}");
        cells.iter().map(cell).collect::<Vec<_>>().join("  ")
    };
    vec![
        row([
            ("connections", grouped(now("connections"))),
            ("subscriptions", grouped(now("subscriptions"))),
            ("topics", grouped(now("topics"))),
        ]),
        row([
            ("  of maximum", share(now("connections"), now("connections_max"))),
            ("filters", grouped(now("filters"))),
            ("retained", grouped(now("retained"))),
        ]),
        row([
            ("  native", grouped(of("protocols", "native"))),
            ("  events", grouped(of("protocols", "events"))),
            ("  http", grouped(of("protocols", "http"))),
        ]),
        row([
            ("  connects/s", grouped(per_s("accepted"))),
            ("  leaves/s", grouped(per_s("closed"))),
            ("  with TLS", grouped(now("tls_connections"))),
        ]),
        String::new(),
        row([
            ("published/s", grouped(per_s("published"))),
            ("delivered/s", grouped(per_s("delivered"))),
            ("requests/s", grouped(per_s("http_requests"))),
        ]),
        row([
            ("read/s", size(per_s("read_bytes"))),
            ("written/s", size(per_s("written_bytes"))),
            ("answer", format!("{} us", grouped(now("answer_us")))),
        ]),
        row([
            ("lagged/s", grouped(per_s("lagging"))),
            ("gaps", grouped(of("total", "gaps"))),
            ("slow closed", grouped(of("total", "slow_closed"))),
        ]),
        row([
            ("log", size(now("log_bytes"))),
            ("on disk", size(now("disk_bytes"))),
            ("long turns/s", grouped(per_s("long_turns"))),
        ]),
    ]
}

/// The nodes of the cluster, one on each line.
fn nodes(cluster: &Value) -> Vec<String> {
    let Some(nodes) = cluster["nodes"].as_array() else {
        return Vec::new();
    };
    let is_living = |node: &&Value| node["is_living"] == true;
    let living = nodes.iter().filter(is_living).count();
    let mut lines = vec![format!("cluster of {} nodes, {living} living", nodes.len())];
    lines.extend(nodes.iter().map(|node| {
        let text = |name: &str| printable(node[name].as_str().unwrap_or("?"));
        let count = |name: &str| grouped(node[name].as_u64().unwrap_or(0));
        let state = match (node["is_living"] == true, node["is_draining"] == true) {
            (false, _) => "GONE",
            (true, true) => "draining",
            (true, false) => "",
        };
        format!(
            "  {:<16}{:<10}{:>12} connections{:>12} behind  {state}",
            text("name"),
            text("version"),
            count("connections"),
            count("lag_records")
        )
    }));
    lines.push(String::new());
    lines
}

/// The components of memory, the largest first, as many as fit.
fn memory(now: &Value, lines_max: usize, columns: usize) -> Vec<String> {
    let mut components: Vec<(&str, u64)> = now["memory"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, bytes)| (name.as_str(), bytes.as_u64().unwrap_or(0)))
        .filter(|(_, bytes)| *bytes > 0)
        .collect();
    components.sort_by_key(|(name, bytes)| (std::cmp::Reverse(*bytes), *name));
    let total: u64 = components.iter().map(|(_, bytes)| bytes).sum();
    let most = components.first().map_or(1, |(_, bytes)| *bytes).max(1);
    let bar_max = columns.saturating_sub(40) as u64;
    let bar = |bytes: u64| "#".repeat((bytes * bar_max / most) as usize);
    let mut lines = vec![format!("memory of messages and clients {}", size(total))];
    let rows = components
        .iter()
        .map(|(name, bytes)| format!("  {name:<22}{:>11}  {}", size(*bytes), bar(*bytes)));
    lines.extend(rows);
    lines.truncate(lines_max);
    lines
}

/// The newest values are on the right.
fn curve(values: &VecDeque<u64>, width: usize) -> String {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    let skipped = values.len().saturating_sub(width);
    let step = |value: &u64| STEPS[(value * 7 / most) as usize];
    values.iter().skip(skipped).map(step).collect()
}

fn cut(line: &str, columns: usize) -> String {
    line.chars().take(columns).collect()
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1_024.0 && unit + 1 < UNITS.len() {
        value /= 1_024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

fn span(seconds: u64) -> String {
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}m{seconds:02}s"),
        (0, _) => format!("{hours}h{minutes:02}m"),
        _ => format!("{days}d{hours:02}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn statistics(factor: u64) -> Value {
        let totals =
            ["accepted", "closed", "published", "delivered", "read_bytes", "written_bytes"];
        let totals: serde_json::Map<String, Value> =
            totals.iter().map(|name| ((*name).to_owned(), (factor * 12_345_678).into())).collect();
        let memory: serde_json::Map<String, Value> = (0..19)
            .map(|number| (format!("component_{number}"), (factor << number).into()))
            .collect();
        json!({
            "uptime_ms": factor * 90_000, "io_threads": 2, "silent_threads": 0, "answer_us": 1_500,
            "connections": 9_999_999, "connections_max": 10_000_000,
            "protocols": {"native": 9_000_000, "events": 999_998, "echo": 0, "http": 1},
            "subscriptions": 10_000_000, "topics": 10_000_000, "total": totals, "memory": memory,
        })
    }

    fn shown_in(size: (usize, usize), footer: &str) -> Vec<String> {
        let (before, now) = (statistics(1), statistics(3));
        let curve: VecDeque<u64> = (0..500).collect();
        let health = json!({"node": "n1", "version": "0.1.0", "status": "ready"});
        let shown = Shown {
            health: &health,
            cluster: &Value::Null,
            before: &before,
            now: &now,
            elapsed: Duration::from_secs(2),
            curve: &curve,
            footer,
        };
        frame(&shown, size)
    }

    #[test]
    fn a_frame_fits_the_terminal() {
        for size in [(80, 24), (80, 60), (200, 50), (40, 10), (1, 1), (80, 5)] {
            let lines = shown_in(size, QUIT);
            assert!(lines.len() <= size.1.max(1), "{size:?}: {} rows", lines.len());
            let widest = lines.iter().map(|line| line.chars().count()).max();
            assert!(widest <= Some(size.0), "{size:?}: {widest:?} columns");
        }
    }

    #[test]
    fn what_a_frame_says() {
        let text = shown_in((80, 24), QUIT).join("\n");
        for expected in [
            "crore n1 0.1.0  ready  up 4m30s  2 threads",
            "connections     9,999,999",
            "  of maximum      100.0 %",
            "slow closed ",
            "delivered/s    12,345,678",
            "component_18",
            "q quits",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        let text = shown_in((80, 24), "! no node answers").join("\n");
        assert!(text.contains("! no node answers"), "{text}");
        assert!(!text.contains(QUIT), "{text}");
        // A screen that is printed once has no key to quit it.
        let text = shown_in((80, 24), "").join("\n");
        assert!(!text.contains(QUIT) && text.contains("component_18"), "{text}");
    }

    #[test]
    fn nodes_of_a_cluster() {
        assert!(nodes(&Value::Null).is_empty());
        let node = |name: &str, is_living: bool, lag: u64| {
            json!({"name": name, "version": "0.1.0", "is_living": is_living, "is_draining": true,
                "connections": 1_234, "lag_records": lag})
        };
        let lines = nodes(&json!({"nodes": [node("n1", true, 0), node("n2", false, 7)]}));
        assert_eq!(lines[0], "cluster of 2 nodes, 1 living");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(&lines[1]), "n1 0.1.0 1,234 connections 0 behind draining");
        assert_eq!(words(&lines[2]), "n2 0.1.0 1,234 connections 7 behind GONE");
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!((grouped(0), grouped(1_234_567)), ("0".into(), "1,234,567".into()));
        assert_eq!(
            (size(5), size(1_536), size(5 << 40)),
            ("5 B".into(), "1.5 KiB".into(), "5.0 TiB".into())
        );
        assert_eq!(
            (span(59), span(3_700), span(90_000)),
            ("0m59s".into(), "1h01m".into(), "1d01h".into())
        );
        let values: VecDeque<u64> = [0, 7, 14].into();
        assert_eq!(curve(&values, 2), "▄█");
    }
}
