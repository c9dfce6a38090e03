//! A load generator: the child process of a run that carries subscribers, publishers or echo
//! clients.
//!
//! Place: between [`super::message`] and the engine. Its output has only its lines.

use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::message::{
    Ended, Line, MEASURE_AHEAD_NS, Measured, Order, PartConfig, Progress, SampleFigures, Totals,
    Work,
};
use crate::engine::{Echoes, Handle, Publishers, Subscribers, Tally};
use crate::ledger_file::{self, Awaited};
use crate::payload::Clock;
use crate::statistics::{Recorder, Sample};

/// Time between two looks for orders.
const LOOK: Duration = Duration::from_millis(10);
/// Earlier counts are dropped this time before a span begins: workers hand over every 100 ms.
const FORGET_AHEAD_NS: u64 = MEASURE_AHEAD_NS / 5;

/// Runs until the order to stop, the end of its input, or `stop`.
///
/// # Errors
/// The first line makes no sense, or the workload cannot begin.
pub fn run(stop: &AtomicBool) -> anyhow::Result<()> {
    let (config, orders) = listen()?;
    let ledger = config.ledger.clone();
    let interval = Duration::from_millis(config.interval_ms.max(50));
    let handle = match start(config) {
        Ok(handle) => handle,
        Err(error) => {
            say(&Line::Failed { why: format!("{error:#}") })?;
            return Err(error);
        }
    };
    say(&Line::Started {
        clients: handle.plan.clients,
        threads: handle.plan.threads,
        notes: handle.plan.notes.clone(),
    })?;
    // Nothing is measured before the first span.
    handle.measure(u64::MAX, u64::MAX);
    let mut part = Part {
        handle,
        counted: Counted::default(),
        forget_at_ns: None,
        awaited: None,
        is_judged: false,
    };
    part.serve(&orders, interval, stop)?;
    part.end(ledger.as_deref())
}

struct Part {
    handle: Handle,
    counted: Counted,
    forget_at_ns: Option<u64>,
    awaited: Option<Awaited>,
    is_judged: bool,
}

/// The counts for two readers, each with its own begin.
#[derive(Default)]
struct Counted {
    /// Since the begin of the measured span.
    measured: Tally,
    /// Since the last line of progress. The measured span begins within an interval, and takes
    /// nothing from it.
    untold: Tally,
}

impl Counted {
    fn add(&mut self, interval: &Tally) {
        self.measured.merge(interval);
        self.untold.merge(interval);
    }

    /// The measured span begins.
    fn begin_measured(&mut self) {
        self.measured.clear();
    }

    fn take_untold(&mut self) -> Tally {
        std::mem::take(&mut self.untold)
    }
}

impl Part {
    fn serve(
        &mut self,
        orders: &Receiver<Order>,
        interval: Duration,
        stop: &AtomicBool,
    ) -> anyhow::Result<()> {
        let mut last = Instant::now();
        loop {
            match orders.recv_timeout(LOOK) {
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Ok(order) => self.obey(order)?,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if stop.load(Ordering::Acquire) || self.handle.is_finished() {
                return Ok(());
            }
            if self.forget_at_ns.is_some_and(|at_ns| Clock::Monotonic.now_ns() >= at_ns) {
                self.forget_at_ns = None;
                self.collect();
                self.counted.begin_measured();
            }
            self.look_for_ledger()?;
            if last.elapsed() >= interval {
                let seconds = last.elapsed().as_secs_f64();
                last = Instant::now();
                self.progress(seconds)?;
            }
        }
    }

    fn obey(&mut self, order: Order) -> anyhow::Result<()> {
        match order {
            Order::Measure { from_ns, until_ns } => {
                self.handle.measure(from_ns, until_ns);
                self.forget_at_ns = Some(from_ns.saturating_sub(FORGET_AHEAD_NS));
            }
            Order::Leave { at_ns, return_ns } => self.handle.send_away(at_ns, return_ns),
            Order::Outage { at_ns } => self.handle.begin_outage(at_ns),
            Order::Ledger { path } => self.awaited = Some(Awaited::new(&[path])),
            Order::Report => {
                self.collect();
                let measured = &self.counted.measured;
                say(&Line::Measured(Box::new(Measured {
                    sent: measured.sent_measured,
                    latency: measured.latency.digest(),
                    distribution: measured.latency.distribution(),
                    send_delay: measured.send_delay.digest(),
                    last_receiver: measured.last_receiver.digest(),
                })))?;
            }
            Order::Stop => {}
        }
        Ok(())
    }

    /// Adds the counts since the last call, and returns the totals.
    fn collect(&mut self) -> Tally {
        let snapshot = self.handle.snapshot();
        self.counted.add(&snapshot.interval);
        snapshot.total
    }

    fn look_for_ledger(&mut self) -> anyhow::Result<()> {
        if let Some(awaited) = &mut self.awaited
            && let Some(ledger) = awaited.look()?
        {
            self.handle.set_ledger(ledger);
            self.is_judged = true;
            self.awaited = None;
        }
        Ok(())
    }

    fn progress(&mut self, seconds: f64) -> anyhow::Result<()> {
        let total = self.collect();
        let interval = self.counted.take_untold();
        let has_all_acknowledged = self.is_judged && self.handle.has_all_acknowledged();
        say(&Line::Progress(Box::new(Progress {
            seconds,
            received: interval.received,
            sent: interval.sent,
            latency: interval.latency.digest(),
            totals: Totals::from(&total),
            has_sent_all: self.handle.has_sent_all(),
            has_all_acknowledged,
        })))
    }

    fn end(self, ledger: Option<&std::path::Path>) -> anyhow::Result<()> {
        let summary = self.handle.stop();
        if let Some(path) = ledger {
            ledger_file::write(path, &summary.ledger.unwrap_or_default())?;
        }
        let samples = summary.samples.iter().map(|(_, sample)| sample);
        say(&Line::Ended(Box::new(Ended {
            totals: Totals::from(&summary.total),
            findings: summary.findings,
            sample: sample_figures(samples),
        })))
    }
}

/// The first line, and the orders as they come. A line that is none ends them.
fn listen() -> anyhow::Result<(PartConfig, Receiver<Order>)> {
    let mut first = String::new();
    std::io::stdin().lock().read_line(&mut first)?;
    let config = serde_json::from_str(&first).context("the first line is not a configuration")?;
    let (sender, orders) = channel();
    std::thread::Builder::new().name("bench-orders".to_owned()).spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let Ok(order) = serde_json::from_str(&line) else {
                return;
            };
            if sender.send(order).is_err() {
                return;
            }
        }
    })?;
    Ok((config, orders))
}

fn start(config: PartConfig) -> anyhow::Result<Handle> {
    let roots = tls::Roots::of_flags(config.certificate.as_deref(), config.is_insecure);
    match config.work {
        Work::Subscribers(mut config) => {
            config.common.tls.roots = roots;
            Subscribers::start(config)
        }
        Work::Publishers(mut config) => {
            config.common.tls.roots = roots;
            Publishers::start(config)
        }
        Work::Echoes(mut config) => {
            config.common.tls.roots = roots;
            Echoes::start(config)
        }
    }
}

fn sample_figures<'a>(samples: impl Iterator<Item = &'a Sample>) -> Option<SampleFigures> {
    let mut all = Recorder::new();
    let mut clients = 0;
    for sample in samples {
        clients += 1;
        for micros in sample.values_us() {
            all.record_ns((f64::from(*micros) * 1e3) as u64);
        }
    }
    let digest = all.digest();
    (digest.count > 0).then_some(SampleFigures {
        clients,
        messages: digest.count,
        p50_us: digest.p50_us,
        p95_us: digest.p95_us,
        p99_us: digest.p99_us,
    })
}

/// Writes a line. An error ends the generator, because its run is gone.
fn say(line: &Line) -> anyhow::Result<()> {
    let text = serde_json::to_string(line)?;
    let mut output = std::io::stdout().lock();
    writeln!(output, "{text}")?;
    output.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Counts;

    /// The measured span begins within an interval, and the line of progress covers the whole
    /// interval, so that the graph of rates has no hole.
    #[test]
    fn the_begin_of_the_measured_span_takes_nothing_from_an_interval() {
        let of = |received| Tally {
            counts: Counts { received, ..Counts::default() },
            ..Tally::default()
        };
        let mut counted = Counted::default();
        counted.add(&of(90));
        counted.begin_measured();
        counted.add(&of(10));
        assert_eq!(counted.take_untold().received, 100);
        assert_eq!(counted.measured.received, 10);
        counted.add(&of(100));
        assert_eq!(counted.take_untold().received, 100);
        assert_eq!(counted.measured.received, 110);
    }
}
