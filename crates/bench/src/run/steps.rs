//! A run under way, and the steps that its phases share.
//!
//! Place: below the phases in `drive`, `storm` and `sustain`.

use std::time::Duration;

use anyhow::{Context, bail};

use super::generator::Generator;
use super::hiccup::Hiccups;
use super::message::{MEASURE_AHEAD_NS, Measured, Order};
use super::outcome::{HiccupFigures, MeasuredFigures, Outcome};
use super::plan::RunPlan;
use super::session::{Reading, Session, Usage};
use crate::engine::Counts;
use crate::payload::Clock;

/// Time without a further connection after which a wait is given up.
pub const CONNECT_PATIENCE: Duration = Duration::from_secs(60);
/// Time without a further message after which a wait for the last ones is given up.
pub const DRAIN_PATIENCE: Duration = Duration::from_secs(10);
/// Time without a further answer after which a wait for the last acknowledgements is given up.
const ACKNOWLEDGE_PATIENCE: Duration = Duration::from_secs(30);

/// The state of a run, beside its outcome.
pub struct Run<'a> {
    /// The plan.
    pub plan: &'a RunPlan,
    /// The processes.
    pub session: Session<'a>,
    /// The outcome so far.
    pub outcome: &'a mut Outcome,
    /// Counts of the publishers that have ended.
    pub published: Counts,
    /// Messages sent in measured spans.
    pub sent_measured: u64,
    /// Messages received of those.
    pub received_measured: u64,
    /// The processes before the first connection.
    pub begin: Reading,
}

/// A measured span.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Its begin, on the monotonic clock.
    pub from_ns: u64,
    /// Its end.
    pub until_ns: u64,
}

impl Span {
    /// A span that begins after this delay, or later if generators need the time.
    pub fn after(delay: Duration, length: Duration) -> Span {
        let from_ns = Clock::Monotonic.now_ns() + (delay.as_nanos() as u64).max(MEASURE_AHEAD_NS);
        Span { from_ns, until_ns: from_ns + length.as_nanos() as u64 }
    }

    /// Its length.
    pub fn seconds(&self) -> f64 {
        (self.until_ns - self.from_ns) as f64 / 1e9
    }

    /// The order to measure it.
    pub fn order(&self) -> Order {
        Order::Measure { from_ns: self.from_ns, until_ns: self.until_ns }
    }
}

impl<'a> Run<'a> {
    /// Begins with a server that is ready.
    pub fn new(plan: &'a RunPlan, session: Session<'a>, outcome: &'a mut Outcome) -> Run<'a> {
        let begin = session.read();
        Run {
            plan,
            session,
            outcome,
            published: Counts::default(),
            sent_measured: 0,
            received_measured: 0,
            begin,
        }
    }

    /// Starts publishers and waits until they are connected.
    ///
    /// # Errors
    /// They are not.
    pub fn start_publishers(&mut self, rate: f64) -> anyhow::Result<()> {
        let config = self.plan.publishers(&self.session.server, rate)?;
        let generator = Generator::start("publishers", &config, &self.plan.client_cores)?;
        self.session.publishers = Some(generator);
        let wanted = self.plan.publisher_connections as i64;
        let open = |session: &Session<'_>| {
            session
                .publishers
                .as_ref()
                .map_or(0, |generator| generator.progress.totals.counts.connections)
        };
        let is_there =
            self.session.wait_for(CONNECT_PATIENCE, |session| open(session) >= wanted, open)?;
        if !is_there {
            bail!("only {} of {wanted} publishers are connected", open(&self.session));
        }
        Ok(())
    }

    /// Sees a measured span through.
    ///
    /// # Errors
    /// The run was interrupted, or a process has ended.
    pub fn watch(&mut self, span: Span) -> anyhow::Result<(Usage, HiccupFigures)> {
        let hiccups = Hiccups::start(&self.plan.used_cores(), span.from_ns)?;
        self.session.wait_until(span.from_ns)?;
        self.session.enter("measure");
        let before = self.session.read();
        self.session.wait_until(span.until_ns)?;
        let usage = self.session.read().since(&before);
        let (late, distribution) = hiccups.end();
        Ok((usage, HiccupFigures { late, distribution }))
    }

    /// Waits until publishers have sent everything and have their answers, and ends them.
    ///
    /// # Errors
    /// The run was interrupted, or they do not answer.
    pub fn end_publishers(&mut self) -> anyhow::Result<Measured> {
        let is_done = |session: &Session<'_>| {
            session.publishers.as_ref().is_some_and(|generator| {
                generator.progress.has_sent_all && generator.progress.totals.counts.inflight <= 0
            })
        };
        let answers = |session: &Session<'_>| {
            session.publishers.as_ref().map_or(0, |generator| {
                let totals = &generator.progress.totals;
                (totals.counts.sent + totals.counts.received) as i64
            })
        };
        if !self.session.wait_for(ACKNOWLEDGE_PATIENCE, is_done, answers)? {
            self.note(
                "The publishers could not send all messages, or did not receive all answers.",
            );
        }
        let mut generator = self.session.publishers.take().context("no publishers")?;
        let measured = generator.report()?;
        let ended = generator.stop()?;
        self.published += ended.totals.counts;
        Ok(measured)
    }

    /// Waits until everything that was published is with everybody; whether that is so is judged
    /// later.
    ///
    /// # Errors
    /// The run was interrupted.
    pub fn drain(&mut self) -> anyhow::Result<()> {
        let due = self.published.sent * self.plan.size.group;
        let is_audited = self.plan.ledger.is_some();
        if let Some(path) = &self.plan.ledger {
            self.session.order_subscribers(&Order::Ledger { path: path.clone() })?;
        }
        self.session.wait_for(
            DRAIN_PATIENCE,
            |session| {
                let has_all = session.subscribers.as_ref().is_some_and(|generator| {
                    !is_audited || generator.progress.has_all_acknowledged
                });
                session.received().counts.messages >= due && has_all
            },
            |session| session.received().counts.messages as i64,
        )?;
        Ok(())
    }

    /// The subscribers' figures of the measured span.
    ///
    /// # Errors
    /// They do not answer.
    pub fn report_subscribers(&mut self) -> anyhow::Result<Measured> {
        let generator = self.session.subscribers.as_mut().context("no subscribers")?;
        generator.report()
    }

    /// Writes the measured span into the outcome.
    pub fn record(&mut self, span: Span, usage: &Usage, sent: &Measured, received: &Measured) {
        let seconds = span.seconds();
        let delivered = received.latency.count;
        let server_cores = self.plan.server_cores_count as f64;
        let has_last = received.last_receiver.count > 0;
        self.outcome.measured = Some(MeasuredFigures {
            seconds,
            sent: sent.sent,
            sent_rate: sent.sent as f64 / seconds,
            delivered,
            delivered_rate: delivered as f64 / seconds,
            latency: received.latency,
            distribution: received.distribution.clone(),
            last_receiver: has_last.then_some(received.last_receiver),
            server_cpu: usage.server,
            server_system_cpu: usage.server_system.filter(|cores| *cores > 0.0),
            // Whose cores a foreign server uses is not known.
            server_cpu_percent: usage
                .server
                .filter(|_| self.plan.server.is_some())
                .map(|cores| cores * 100.0 / server_cores),
            delivery_cpu_us: usage
                .server
                .filter(|_| delivered > 0)
                .map(|cores| cores * usage.seconds * 1e6 / delivered as f64),
            clients_cpu: usage.clients,
            machine_cpu: usage.machine,
            steal: usage.steal,
            ..MeasuredFigures::default()
        });
    }

    /// Adds the messages sent and received of a measured span.
    pub fn account(&mut self, sent: u64, received: u64) {
        self.sent_measured += sent;
        self.received_measured += received;
    }

    /// Something that the reader should know.
    pub fn note(&mut self, text: &str) {
        println!("note: {text}");
        self.outcome.notes.push(text.to_owned());
    }
}
