//! The processes of a run, watched together: one sample and one line per interval, and waits that
//! notice every end.
//!
//! Place: under the phases. Whatever a phase waits for, children are listened to and the machine is
//! looked at meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::generator::Generator;
use super::message::{Order, Totals};
use super::observe::{MachineFigures, ProcessFigures};
use super::outcome::{Phase, Sample};
use super::server::Server;
use super::text;
use crate::payload::Clock;

/// Time between two looks at the children.
const LOOK: Duration = Duration::from_millis(10);

/// A run under way.
pub struct Session<'a> {
    /// The server.
    pub server: Server,
    /// The receivers: subscribers or echo clients.
    pub subscribers: Option<Generator>,
    /// The publishers.
    pub publishers: Option<Generator>,
    /// The samples.
    pub samples: Vec<Sample>,
    /// The phases and their times.
    pub phases: Vec<Phase>,
    /// The server is meant to be gone.
    pub expects_end: bool,
    started: Instant,
    interval: Duration,
    phase: &'static str,
    phase_since: Instant,
    sampled: Instant,
    /// Intervals of the subscribers that have been seen.
    intervals: u64,
    before: Reading,
    stop: &'a AtomicBool,
}

/// All processes at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    at: Instant,
    /// The server.
    pub server: Option<ProcessFigures>,
    /// All load generators together.
    pub clients: ProcessFigures,
    /// The machine.
    pub machine: MachineFigures,
}

/// CPU use between two moments, in cores.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Seconds between them.
    pub seconds: f64,
    /// The server.
    pub server: Option<f64>,
    /// The server in system mode.
    pub server_system: Option<f64>,
    /// The load generators.
    pub clients: Option<f64>,
    /// The whole machine.
    pub machine: Option<f64>,
    /// The hypervisor's other guests.
    pub steal: Option<f64>,
}

impl Reading {
    /// A reading that was made up.
    #[cfg(test)]
    pub fn of(server: ProcessFigures, clients: ProcessFigures, machine: MachineFigures) -> Reading {
        Reading { at: Instant::now(), server: Some(server), clients, machine }
    }

    /// CPU use since `before`. A process that was restarted in between has no figure.
    pub fn since(&self, before: &Reading) -> Usage {
        let seconds = self.at.duration_since(before.at).as_secs_f64().max(1e-9);
        let cores = |now: f64, then: f64| (now >= then).then(|| (now - then) / seconds);
        let server = self.server.zip(before.server);
        let machine = |read: fn(&MachineFigures) -> Option<f64>| {
            read(&self.machine).zip(read(&before.machine)).and_then(|(now, then)| cores(now, then))
        };
        Usage {
            seconds,
            server: server.and_then(|(now, then)| cores(now.cpu_s, then.cpu_s)),
            server_system: server.and_then(|(now, then)| cores(now.system_s, then.system_s)),
            clients: cores(self.clients.cpu_s, before.clients.cpu_s),
            machine: machine(|figures| figures.busy_s),
            steal: machine(|figures| figures.steal_s),
        }
    }
}

impl<'a> Session<'a> {
    /// Begins with a server that is ready.
    pub fn new(server: Server, interval: Duration, stop: &'a AtomicBool) -> Session<'a> {
        let now = Instant::now();
        let mut session = Session {
            server,
            subscribers: None,
            publishers: None,
            samples: Vec::new(),
            phases: Vec::new(),
            expects_end: false,
            started: now,
            interval,
            phase: "start",
            phase_since: now,
            sampled: now,
            intervals: 0,
            before: Reading {
                at: now,
                server: None,
                clients: ProcessFigures::default(),
                machine: MachineFigures::default(),
            },
            stop,
        };
        session.before = session.read();
        session
    }

    /// Another phase begins.
    pub fn enter(&mut self, phase: &'static str) {
        let now = Instant::now();
        self.phases.push(Phase {
            name: self.phase,
            from_s: (self.phase_since - self.started).as_secs_f64(),
            until_s: (now - self.started).as_secs_f64(),
        });
        (self.phase, self.phase_since) = (phase, now);
        println!("{}", text::phase_line(phase));
    }

    /// The CPU time and memory of all processes now.
    pub fn read(&self) -> Reading {
        let mut clients = ProcessFigures::default();
        for generator in [&self.subscribers, &self.publishers].into_iter().flatten() {
            let figures = ProcessFigures::read(generator.pid()).unwrap_or_default();
            clients.cpu_s += figures.cpu_s;
            clients.system_s += figures.system_s;
            clients.threads += figures.threads;
            let bytes = clients.pss_bytes.unwrap_or(0) + figures.pss_bytes.unwrap_or(0);
            clients.pss_bytes = Some(bytes);
            let bytes = clients.anonymous_bytes.unwrap_or(0) + figures.anonymous_bytes.unwrap_or(0);
            clients.anonymous_bytes = Some(bytes);
        }
        Reading {
            at: Instant::now(),
            server: self.server_figures(),
            clients,
            machine: MachineFigures::read(),
        }
    }

    /// Figures of its process if that is known, else of its metrics.
    fn server_figures(&self) -> Option<ProcessFigures> {
        if self.server.pid.is_some() || self.server.is_own() {
            return self.server.figures();
        }
        let metrics = self.server.metrics()?;
        Some(ProcessFigures {
            cpu_s: metrics.sum("process_cpu_seconds_total")?,
            system_s: 0.0,
            threads: metrics.sum("crore_io_threads").unwrap_or(0.0) as u64,
            pss_bytes: metrics.sum("crore_process_proportional_bytes").map(|bytes| bytes as u64),
            anonymous_bytes: metrics
                .sum("crore_process_proportional_bytes")
                .map(|bytes| bytes as u64),
        })
    }

    /// The counts of who receives.
    pub fn received(&self) -> Totals {
        let totals = self.subscribers.as_ref().map(|generator| generator.progress.totals.clone());
        totals.unwrap_or_default()
    }

    /// Gives an order to who receives.
    ///
    /// # Errors
    /// They are gone.
    pub fn order_subscribers(&mut self, order: &Order) -> anyhow::Result<()> {
        let generator = self.subscribers.as_mut().context("no subscribers")?;
        generator.order(order)
    }

    /// Gives an order to who publishes.
    ///
    /// # Errors
    /// They are gone.
    pub fn order_publishers(&mut self, order: &Order) -> anyhow::Result<()> {
        let generator = self.publishers.as_mut().context("no publishers")?;
        generator.order(order)
    }

    /// Waits until a time of the monotonic clock.
    ///
    /// # Errors
    /// The run was interrupted, or a process has ended.
    pub fn wait_until(&mut self, at_ns: u64) -> anyhow::Result<()> {
        while Clock::Monotonic.now_ns() < at_ns {
            self.step()?;
        }
        Ok(())
    }

    /// Waits for a span.
    ///
    /// # Errors
    /// The errors of [`Session::wait_until`].
    pub fn wait(&mut self, span: Duration) -> anyhow::Result<()> {
        self.wait_until(Clock::Monotonic.now_ns() + span.as_nanos() as u64)
    }

    /// Waits until something holds. `progress` tells how far it is; where that does not change for
    /// so long, it is given up, and false answered.
    ///
    /// # Errors
    /// The errors of [`Session::wait_until`].
    pub fn wait_for(
        &mut self,
        patience: Duration,
        holds: impl Fn(&Session<'_>) -> bool,
        progress: impl Fn(&Session<'_>) -> i64,
    ) -> anyhow::Result<bool> {
        let (mut last, mut since) = (progress(self), Instant::now());
        while !holds(self) {
            self.step()?;
            let now = progress(self);
            if now != last {
                (last, since) = (now, Instant::now());
            } else if since.elapsed() >= patience {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Listens, looks, and waits a moment.
    fn step(&mut self) -> anyhow::Result<()> {
        if self.stop.load(Ordering::Acquire) {
            bail!("the run was interrupted");
        }
        std::thread::sleep(LOOK);
        for generator in [&mut self.subscribers, &mut self.publishers].into_iter().flatten() {
            generator.look()?;
        }
        if !self.expects_end && self.server.has_ended() {
            bail!("the server stopped unexpectedly; its output is in server.log");
        }
        // Latencies come by interval, and a sample is of one interval.
        let intervals = self.subscribers.as_ref().map(|generator| generator.intervals);
        let is_due = match intervals {
            Some(intervals) if intervals > 0 => intervals != self.intervals,
            _ => self.sampled.elapsed() >= self.interval,
        };
        if is_due {
            self.intervals = intervals.unwrap_or(0);
            self.sample();
        }
        Ok(())
    }

    /// Takes a sample and prints its line.
    pub fn sample(&mut self) {
        let reading = self.read();
        // The kernel counts CPU time in hundredths of a second, which is too coarse for a short
        // interval.
        let usage = match reading.at.duration_since(self.before.at) {
            span if span * 2 >= self.interval => reading.since(&self.before),
            _ => Usage::default(),
        };
        let progress = self
            .subscribers
            .as_ref()
            .map(|generator| generator.progress.clone())
            .unwrap_or_default();
        let sender = self.publishers.as_ref().or(self.subscribers.as_ref());
        let sent = sender.map_or(0.0, |generator| {
            generator.progress.sent as f64 / generator.progress.seconds.max(1e-9)
        });
        let latency = (progress.latency.count > 0).then_some(progress.latency);
        let sample = Sample {
            at_s: self.started.elapsed().as_secs_f64(),
            phase: self.phase,
            connections: progress.totals.counts.connections,
            live: progress.totals.counts.clients_live,
            sent_rate: sent,
            received_rate: progress.received as f64 / progress.seconds.max(1e-9),
            count: progress.latency.count,
            p50_us: latency.map(|latency| latency.p50_us),
            p99_us: latency.map(|latency| latency.p99_us),
            max_us: latency.map(|latency| latency.max_us),
            server_cpu: usage.server,
            server_pss: reading.server.and_then(|server| server.pss_bytes),
            server_anonymous: reading.server.and_then(|server| server.anonymous_bytes),
            server_threads: reading.server.map(|server| server.threads),
            clients_cpu: usage.clients,
            clients_pss: reading.clients.pss_bytes,
            slab: reading.machine.slab_bytes,
            tcp: reading.machine.tcp_bytes,
            steal: usage.steal,
        };
        println!("{}", text::sample_line(&sample, self.samples.len()));
        self.samples.push(sample);
        self.before = reading;
        self.sampled = Instant::now();
    }

    /// The last phase is over. Who publishes ends first: it may still wait for the server.
    pub fn finish(mut self) -> (Vec<Sample>, Vec<Phase>) {
        self.enter("end");
        drop(self.publishers.take());
        drop(self.subscribers.take());
        (self.samples, self.phases)
    }
}
