//! The display of the demo: a screen that is redrawn each second, or lines.

use super::audit::Found;
use super::machines::{Life, Lives};
use super::traffic::Counts;
use crate::commands::demo::panel::{grouped, time};
use crate::terminal;
use bench::statistics::Digest;
use std::collections::VecDeque;
use std::io::Write;
use std::time::{Duration, Instant};

/// Seconds of the chart.
const CHART_S: usize = 60;
/// Lines about kills and restarts.
const NOTES_MAX: usize = 6;

/// The figures of the last second, and those that the chart keeps.
#[derive(Debug)]
pub struct View {
    found: Found,
    now: Digest,
    all: Digest,
    acknowledged_rate: f64,
    delivered_rate: f64,
    silence_max: Duration,
    refusals: u64,
    disconnects: u64,
    /// The greatest latency of each second, the newest last.
    chart: VecDeque<f64>,
    notes: VecDeque<String>,
    began: Instant,
    looked: Instant,
}

impl View {
    /// A display without figures.
    pub fn new() -> View {
        View {
            found: Found::default(),
            now: Digest::default(),
            all: Digest::default(),
            acknowledged_rate: 0.0,
            delivered_rate: 0.0,
            silence_max: Duration::ZERO,
            refusals: 0,
            disconnects: 0,
            chart: VecDeque::new(),
            notes: VecDeque::new(),
            began: Instant::now(),
            looked: Instant::now(),
        }
    }

    /// Takes the counts of the time since the last look.
    pub fn look(&mut self, counts: &Counts) {
        let found = counts.audit.found();
        let span_s = self.looked.elapsed().as_secs_f64().max(1e-3);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / span_s;
        self.acknowledged_rate = rate(found.acknowledged, self.found.acknowledged);
        self.delivered_rate = rate(found.delivered, self.found.delivered);
        self.found = found;
        self.looked = Instant::now();
        (self.now, self.all) = (counts.latency.digest(), counts.latency_all.digest());
        self.silence_max = counts.silence_max;
        (self.refusals, self.disconnects) = (counts.refusals, counts.disconnects);
        self.chart.push_back(self.now.max_us);
        if self.chart.len() > CHART_S {
            self.chart.pop_front();
        }
    }

    /// Keeps a line about a kill or a restart.
    pub fn note(&mut self, line: String) {
        self.notes.push_back(format!("{:>4} s  {line}", self.began.elapsed().as_secs()));
        if self.notes.len() > NOTES_MAX {
            self.notes.pop_front();
        }
    }

    /// One line.
    pub fn line(&self) -> String {
        let Found { acknowledged, missing, twice, out_of_order, gaps, .. } = self.found;
        format!(
            "{:>4} s  published/s {:.0}  delivered/s {:.0}  p50 {} p99 {} max {}  acknowledged \
             {acknowledged}  missing {missing}  twice {twice}  out of order {out_of_order}  gaps {gaps}",
            self.began.elapsed().as_secs(),
            self.acknowledged_rate,
            self.delivered_rate,
            time(self.now.p50_us),
            time(self.now.p99_us),
            time(self.now.max_us),
        )
    }

    /// The whole screen.
    pub fn lines(&self, lives: &Lives) -> Vec<String> {
        let Found { acknowledged, missing, twice, out_of_order, gaps, .. } = self.found;
        let latency = |of: &Digest| {
            format!("p50 {}  p99 {}  max {}", time(of.p50_us), time(of.p99_us), time(of.max_us))
        };
        let machines = |names: [&str; 3], of: &[Life; 3]| {
            let one = |(name, life): (&str, &Life)| format!("[{name}] {:<9}", state(*life));
            names.into_iter().zip(of).map(one).collect::<Vec<_>>().join("  ")
        };
        let greatest = self.chart.iter().copied().fold(0.0, f64::max);
        let mut lines = vec![
            "  Three brokers of Apache Kafka and three nodes on this machine".to_owned(),
            String::new(),
            format!("  brokers        {}", machines(["1", "2", "3"], &lives.brokers)),
            format!("  nodes          {}", machines(["a", "b", "c"], &lives.nodes)),
            String::new(),
            format!(
                "  messages       {:.0}/s published, {:.0}/s delivered",
                self.acknowledged_rate, self.delivered_rate
            ),
            format!("  latency now    {}", latency(&self.now)),
            format!("  latency all    {}", latency(&self.all)),
            format!("  greatest       {}  {}", curve(&self.chart), time(greatest)),
            format!(
                "  longest wait   {:.1} s for an acknowledgement; {} refusals, {} lost connections",
                self.silence_max.as_secs_f64(),
                grouped(self.refusals),
                grouped(self.disconnects)
            ),
            format!(
                "  audit          {} acknowledged; {} on their way; {} twice, {} out of order, {} \
                 gaps",
                grouped(acknowledged),
                grouped(missing),
                grouped(twice),
                grouped(out_of_order),
                grouped(gaps)
            ),
            String::new(),
        ];
        lines.extend(self.notes.iter().map(|note| format!("  {note}")));
        lines.extend(lives.trouble.iter().map(|trouble| format!("  ! {trouble}")));
        lines.push(String::new());
        lines.push("  1 2 3 a b c kill or restart; q tells the verdict".to_owned());
        let columns = terminal::output_columns();
        lines.iter().map(|line| line.chars().take(columns).collect()).collect()
    }
}

/// Prints a line. A reader that is gone does not stop the demo: its exit code has the verdict.
pub fn says(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

fn state(life: Life) -> &'static str {
    match life {
        Life::Starting => "starts",
        Life::Runs => "runs",
        Life::Down => "is down",
    }
}

/// A chart on a logarithmic scale, from a millisecond to ten seconds; the newest value is on the
/// right.
fn curve(values: &VecDeque<f64>) -> String {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let step = |value: &f64| {
        let decades = (value.max(1e3) / 1e3).log10();
        STEPS[((decades / 4.0 * 7.0).round() as usize).min(7)]
    };
    values.iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_has_a_step_for_each_part_of_a_decade() {
        let values = [0.0, 1e3, 1e5, 1e7, 1e9].into();
        assert_eq!(curve(&values), "▁▁▅██");
    }

    #[test]
    fn the_screen_shows_states_and_trouble() {
        let mut view = View::new();
        view.note("Kill broker 2.".to_owned());
        let lives = Lives {
            brokers: [Life::Runs, Life::Down, Life::Runs],
            nodes: [Life::Starting, Life::Runs, Life::Runs],
            trouble: Some("no room".to_owned()),
        };
        let text = view.lines(&lives).join("\n");
        for part in ["[2] is down", "[a] starts", "Kill broker 2.", "! no room"] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
