//! The figures of `demo` each second: a panel on a terminal, one line elsewhere.

use crate::terminal;
use bench::statistics::Digest;
pub use bench::units::show_count as grouped;
use std::fmt::Write as _;
use std::io::{self, Write as _};

/// The figures of the panel.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Seconds since the start.
    pub elapsed_s: u64,
    /// Number of clients to connect.
    pub clients: u64,
    /// Open connections.
    pub connections: u64,
    /// Connects in the last second.
    pub connect_rate: f64,
    /// Maximum number of connects in one second.
    pub connect_rate_peak: f64,
    /// Messages published in the last second.
    pub in_rate: f64,
    /// Messages received by subscribers in the last second.
    pub out_rate: f64,
    /// Total number of received messages.
    pub received: u64,
    /// Digest of the last second.
    pub now: Digest,
    /// Digest of the whole run.
    pub all: Digest,
    /// User-space memory of the node for each further connection; `None` until it is known.
    pub connection_bytes: Option<u64>,
    /// User-space memory of the node with all connections, before the first message.
    pub memory_bytes: Option<u64>,
    /// Gaps that the node announced.
    pub gaps: u64,
    /// Messages lost without an announcement, repeated, or out of order.
    pub faults: u64,
    /// The node's CPU in the last second, in cores.
    pub node_cores: f64,
    /// The present activity.
    pub doing: &'static str,
    /// Failed connects, and lost connections.
    pub failed: u64,
}

/// The output of the figures.
#[derive(Debug)]
pub struct Panel {
    redraws: bool,
    has_colours: bool,
    lines_shown: usize,
}

impl Panel {
    /// A panel or lines, depending on standard output.
    pub fn new() -> Panel {
        Panel {
            redraws: terminal::output_redraws(),
            has_colours: terminal::output_has_colours(),
            lines_shown: 0,
        }
    }

    /// Prints the figures of this second.
    ///
    /// # Errors
    /// Standard output fails.
    pub fn show(&mut self, figures: &Figures) -> io::Result<()> {
        let mut text = String::new();
        if self.redraws {
            let lines = self.lines(figures);
            let columns = terminal::output_columns();
            if self.lines_shown > 0 {
                let _ = write!(text, "\x1b[{}A", self.lines_shown);
            }
            for line in &lines {
                // A wrapped line would move the next frame down.
                let _ = writeln!(text, "\x1b[2K{}", cut(line, columns));
            }
            self.lines_shown = lines.len();
        } else {
            let _ = writeln!(text, "{}", one_line(figures));
        }
        let mut output = io::stdout().lock();
        output.write_all(text.as_bytes())?;
        output.flush()
    }

    fn lines(&self, figures: &Figures) -> Vec<String> {
        let label = |text: &str| {
            if self.has_colours {
                format!("  \x1b[2m{text:<14}\x1b[0m")
            } else {
                format!("  {text:<14}")
            }
        };
        let alarm = |count: u64| {
            if self.has_colours && count > 0 {
                format!("\x1b[31m{}\x1b[0m", grouped(count))
            } else {
                grouped(count)
            }
        };
        vec![
            String::new(),
            format!(
                "{}{} of {}   {}",
                label("connections"),
                grouped(figures.connections),
                grouped(figures.clients),
                figures.doing
            ),
            format!(
                "{}{}/s now, {}/s peak",
                label("connect rate"),
                grouped(figures.connect_rate.round() as u64),
                grouped(figures.connect_rate_peak.round() as u64)
            ),
            format!(
                "{}{}/s in, {}/s out, {} in total",
                label("messages"),
                grouped(figures.in_rate.round() as u64),
                grouped(figures.out_rate.round() as u64),
                grouped(figures.received)
            ),
            format!("{}{}", label("latency now"), latencies(&figures.now)),
            format!("{}{}", label("latency all"), latencies(&figures.all)),
            format!("{}{}", label("memory"), memory(figures)),
            format!("{}{:.2} cores", label("node's CPU"), figures.node_cores),
            format!(
                "{}{} announced; {} lost, repeated or out of order; {} connects failed or lost",
                label("gaps"),
                alarm(figures.gaps),
                alarm(figures.faults),
                alarm(figures.failed)
            ),
            String::new(),
        ]
    }
}

/// The summary at the end.
pub fn summary(figures: &Figures) -> String {
    format!(
        "After {} s: {} connections (up to {} connects/s), {} messages received.\n\
         Latency: {}.\nMemory: {}.\nGaps: {}. Lost, repeated or out of order: {}. Connects failed or lost: {}.",
        figures.elapsed_s,
        grouped(figures.connections),
        grouped(figures.connect_rate_peak.round() as u64),
        grouped(figures.received),
        latencies(&figures.all),
        memory(figures),
        grouped(figures.gaps),
        grouped(figures.faults),
        grouped(figures.failed)
    )
}

fn one_line(figures: &Figures) -> String {
    format!(
        "{:>4} s  connections {}/{}  connects/s {}  in/s {}  out/s {}  latency {}  memory {}  gaps {}  faults {}  failed {}",
        figures.elapsed_s,
        figures.connections,
        figures.clients,
        figures.connect_rate.round(),
        figures.in_rate.round(),
        figures.out_rate.round(),
        latencies(&figures.now),
        figures.connection_bytes.map_or("-".into(), |bytes| format!("{bytes} B/connection")),
        figures.gaps,
        figures.faults,
        figures.failed
    )
}

fn memory(figures: &Figures) -> String {
    match (figures.connection_bytes, figures.memory_bytes) {
        (Some(bytes), Some(all)) => format!(
            "{} bytes per connection; {:.1} MiB in total (user space, before messages)",
            grouped(bytes),
            all as f64 / f64::from(1 << 20)
        ),
        (None, Some(all)) => format!(
            "{:.1} MiB in total; too few connections to compute the cost of one",
            all as f64 / f64::from(1 << 20)
        ),
        (_, None) => "bytes per connection: shown when all clients are connected".into(),
    }
}

fn latencies(of: &Digest) -> String {
    if of.count == 0 {
        return "none yet".into();
    }
    format!(
        "min {} mean {} p50 {} p99 {} max {}",
        time(of.min_us),
        time(of.mean_us),
        time(of.p50_us),
        time(of.p99_us),
        time(of.max_us)
    )
}

/// A time with three significant digits.
pub fn time(microseconds: f64) -> String {
    match microseconds {
        few if few < 999.5 => format!("{few:.0}µs"),
        some if some < 9_995.0 => format!("{:.2}ms", some / 1e3),
        some if some < 99_950.0 => format!("{:.1}ms", some / 1e3),
        many if many < 999_500.0 => format!("{:.0}ms", many / 1e3),
        lots => format!("{:.2}s", lots / 1e6),
    }
}

/// Cuts a line to this number of columns; escape sequences have no width and are kept, so that
/// colours end.
fn cut(line: &str, columns: usize) -> String {
    let mut kept = String::with_capacity(line.len());
    let mut taken = 0;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\x1b' {
            kept.push(character);
            for inner in characters.by_ref() {
                kept.push(inner);
                if inner.is_ascii_alphabetic() {
                    break;
                }
            }
        } else if taken < columns {
            kept.push(character);
            taken += 1;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (number, expected) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(number), expected);
        }
        for (microseconds, expected) in [
            (5.4, "5µs"),
            (999.6, "1.00ms"),
            (1_234.0, "1.23ms"),
            (25_000.0, "25.0ms"),
            (250_000.0, "250ms"),
            (1.5e6, "1.50s"),
        ] {
            assert_eq!(time(microseconds), expected);
        }
    }

    #[test]
    fn lines_fit_the_terminal() {
        assert_eq!(cut("abcdef", 4), "abcd");
        assert_eq!(cut("\x1b[31mabcdef\x1b[0m", 4), "\x1b[31mabcd\x1b[0m");
        let panel = Panel { redraws: true, has_colours: true, lines_shown: 0 };
        let figures = Figures { clients: 10_000, gaps: 1, ..Figures::default() };
        assert!(
            panel.lines(&figures).iter().any(|line| line.contains("\x1b[31m1\x1b[0m announced"))
        );
        assert!(!one_line(&figures).contains('\x1b') && !one_line(&figures).contains('\n'));
    }
}
