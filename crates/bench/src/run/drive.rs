//! The phases of a run: start, connect, settle, warm up, measure, drain, end.
//!
//! Place: between the plan and the outcome. What is found is written into the outcome as it is
//! found, so that a run that fails half way reports what it has.

use std::time::Duration;

use anyhow::{Context, bail};

use super::completeness::Books;
use super::generator::Generator;
use super::hiccup::Hiccups;
use super::memory::{memory, others_sockets};
use super::message::{Ended, MEASURE_AHEAD_NS, Measured, Order, Totals};
use super::outcome::{ConnectFigures, HiccupFigures, MeasuredFigures, Outcome};
use super::plan::RunPlan;
use super::session::{Reading, Session};
use super::storm;
use super::sustain;
use super::workload::Name;
use crate::payload::Clock;
use crate::units::show_count;

/// How long nothing may come forward before a wait is given up.
const CONNECT_PATIENCE: Duration = Duration::from_secs(60);
/// The same when the last messages are awaited.
const DRAIN_PATIENCE: Duration = Duration::from_secs(10);
/// The same when the last acknowledgements are awaited.
const ACKNOWLEDGE_PATIENCE: Duration = Duration::from_secs(30);

/// What the run has come to so far, beside the outcome itself.
pub struct Run<'a> {
    /// What is to be done.
    pub plan: &'a RunPlan,
    /// The processes.
    pub session: Session<'a>,
    /// What is found.
    pub outcome: &'a mut Outcome,
    /// Totals of publishers that have ended.
    pub published: Option<Totals>,
    sent_measured: u64,
    received_measured: u64,
    begin: Reading,
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
    /// A span that begins after this delay, which is no shorter than generators need.
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
            published: None,
            sent_measured: 0,
            received_measured: 0,
            begin,
        }
    }

    /// All phases. Whatever happens, what was found stands in the outcome.
    ///
    /// # Errors
    /// The run cannot go on, or was interrupted.
    pub fn drive(mut self) -> anyhow::Result<()> {
        let result = self.phases();
        self.outcome.completeness.is_complete &= result.is_ok();
        let (samples, phases) = self.session.finish();
        (self.outcome.samples, self.outcome.phases) = (samples, phases);
        result
    }

    fn phases(&mut self) -> anyhow::Result<()> {
        // The first figures are of a server without any connection.
        self.session.sample();
        self.begin = self.session.read();
        self.connect()?;
        self.settle()?;
        match self.plan.workload.name {
            Name::Connect => {}
            Name::Echo100k => self.echo()?,
            Name::Storm => storm::run(self)?,
            Name::Unicast if self.plan.is_searching => {
                let rate = sustain::find(self)?;
                self.messages(rate / 2.0)?;
            }
            _ => self.messages(self.plan.size.rate)?,
        }
        let ended = self.end_subscribers()?;
        self.judge(ended);
        Ok(())
    }

    /// Starts who receives, and waits until all are live.
    fn connect(&mut self) -> anyhow::Result<()> {
        self.session.enter("connect");
        let plan = self.plan;
        let generator = Generator::start(
            "subscribers",
            &plan.subscribers(&self.session.server),
            &plan.client_cores,
        )?;
        self.session.subscribers = Some(generator);
        let wanted = plan.size.clients as i64;
        let is_echo = plan.workload.name == Name::Echo100k;
        let so_far = move |session: &Session<'_>| {
            let totals = session.received();
            if is_echo { totals.connections } else { totals.clients_live }
        };
        let is_short = move |session: &Session<'_>| {
            let planned = session.subscribers.as_ref().and_then(|generator| generator.clients);
            planned.is_some_and(|planned| (planned as i64) < wanted)
        };
        let is_over = |session: &Session<'_>| so_far(session) >= wanted || is_short(session);
        let is_there = self.session.wait_for(CONNECT_PATIENCE, is_over, so_far)?;
        let end = self.session.read();
        let totals = self.session.received();
        let generator = self.session.subscribers.as_ref().context("no subscribers")?;
        self.outcome.plan.client_threads = generator.threads;
        self.outcome.notes.extend(generator.notes.iter().cloned());
        let usage = end.since(&self.begin);
        let connections = totals.connects.max(1) as f64;
        let micros = |cores: Option<f64>| Some(cores? * usage.seconds / connections * 1e6);
        // What lies between the first intended connect and the end of the last handshake is as
        // exact as a clock; only the last answers to subscriptions are behind it.
        let seconds = totals.connecting_s;
        self.outcome.connect = Some(ConnectFigures {
            connections: totals.connects,
            seconds,
            rate: if seconds > 0.0 { totals.connects as f64 / seconds } else { 0.0 },
            server_cpu_us: micros(usage.server),
            client_cpu_us: end
                .clients
                .cpu_s
                .is_finite()
                .then(|| end.clients.cpu_s / connections * 1e6),
            failed: totals.connects_failed,
            time: totals.connect_time,
        });
        if is_short(&self.session) {
            bail!(
                "the load generator cannot run {wanted} clients: {}",
                self.outcome.notes.join(" ")
            );
        }
        if !is_there {
            bail!(
                "only {} of {wanted} clients are connected; no further one connected for {} s{}",
                so_far(&self.session),
                CONNECT_PATIENCE.as_secs(),
                totals.trouble.map(|trouble| format!(": {trouble}")).unwrap_or_default()
            );
        }
        Ok(())
    }

    /// Lets it rest, and sees what connections cost.
    fn settle(&mut self) -> anyhow::Result<()> {
        self.session.enter("settle");
        // Half of the time for what connecting leaves behind, the other half to see what idling
        // costs.
        self.session.wait(self.plan.settle / 2)?;
        let before = self.session.read();
        self.session.wait(self.plan.settle / 2)?;
        let settled = self.session.read();
        let clients = self.session.received().connections.max(1) as u64;
        self.outcome.memory =
            Some(memory(&self.begin, &settled, &self.session.samples, clients, self.plan.is_local));
        if let Some(memory) = &mut self.outcome.memory {
            memory.idle_cpu = settled.since(&before).server;
        }
        if let Some(others) = others_sockets(&self.begin, &settled, clients, self.plan.is_local) {
            let what = if others > 0 { "opened" } else { "closed" };
            let count = show_count(others.unsigned_abs());
            self.note(&format!(
                "Other programs {what} {count} sockets during the run: the figure of the kernel's memory includes them."
            ));
        }
        Ok(())
    }

    /// Starts publishers and waits until they are connected.
    ///
    /// # Errors
    /// They are not.
    pub fn start_publishers(&mut self, rate: f64) -> anyhow::Result<()> {
        let config = self.plan.publishers(&self.session.server, rate);
        let generator = Generator::start("publishers", &config, &self.plan.client_cores)?;
        self.session.publishers = Some(generator);
        let wanted = self.plan.publisher_connections as i64;
        let open = |session: &Session<'_>| {
            session.publishers.as_ref().map_or(0, |generator| generator.progress.totals.connections)
        };
        let is_there =
            self.session.wait_for(CONNECT_PATIENCE, |session| open(session) >= wanted, open)?;
        if !is_there {
            bail!("only {} of {wanted} publishers are connected", open(&self.session));
        }
        Ok(())
    }

    /// A steady load at this rate, measured, to its end.
    fn messages(&mut self, rate: f64) -> anyhow::Result<()> {
        self.session.enter("warm-up");
        self.start_publishers(rate)?;
        let span = Span::after(self.plan.warm_up, self.plan.duration);
        self.session.order_subscribers(&span.order())?;
        self.session.order_publishers(&span.order())?;
        let (usage, hiccups) = self.watch(span)?;
        self.session.enter("drain");
        let sent = self.end_publishers()?;
        self.drain()?;
        let received = self.report_subscribers()?;
        self.record(span, &usage, &sent, &received);
        let delivered = received.latency.count;
        self.account(sent.sent, delivered);
        self.outcome.hiccups = Some(hiccups);
        if let Some(measured) = &mut self.outcome.measured {
            measured.acknowledgement = (sent.latency.count > 0).then_some(sent.latency);
            measured.send_delay = sent.send_delay;
        }
        Ok(())
    }

    /// The echo clients ping by themselves.
    fn echo(&mut self) -> anyhow::Result<()> {
        self.session.enter("warm-up");
        let span = Span::after(self.plan.warm_up, self.plan.duration);
        self.session.order_subscribers(&span.order())?;
        let (usage, hiccups) = self.watch(span)?;
        self.session.enter("drain");
        let is_back = self.session.wait_for(
            DRAIN_PATIENCE,
            |session| {
                let totals = session.received();
                let all_sent = session
                    .subscribers
                    .as_ref()
                    .is_some_and(|generator| generator.progress.has_sent_all);
                all_sent && totals.received >= totals.sent
            },
            |session| session.received().received as i64,
        )?;
        if !is_back {
            self.note("Not all echoes have returned.");
        }
        let received = self.report_subscribers()?;
        self.record(span, &usage, &received, &received);
        self.account(received.sent, received.latency.count);
        self.outcome.hiccups = Some(hiccups);
        Ok(())
    }

    /// Sees a measured span through.
    ///
    /// # Errors
    /// The run was interrupted, or a process has ended.
    pub fn watch(&mut self, span: Span) -> anyhow::Result<(super::session::Usage, HiccupFigures)> {
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
                generator.progress.has_sent_all && generator.progress.totals.inflight <= 0
            })
        };
        let answers = |session: &Session<'_>| {
            session.publishers.as_ref().map_or(0, |generator| {
                let totals = &generator.progress.totals;
                (totals.sent + totals.received) as i64
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
        add(self.published.get_or_insert_default(), &ended.totals);
        Ok(measured)
    }

    /// Waits until everything that was published is with everybody; whether that is so is judged
    /// later.
    ///
    /// # Errors
    /// The run was interrupted.
    pub fn drain(&mut self) -> anyhow::Result<()> {
        let sent = self.published.as_ref().map_or(0, |totals| totals.sent);
        let due = sent * self.plan.size.group;
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
                session.received().messages >= due && has_all
            },
            |session| session.received().messages as i64,
        )?;
        Ok(())
    }

    /// What the subscribers have measured.
    ///
    /// # Errors
    /// They do not answer.
    pub fn report_subscribers(&mut self) -> anyhow::Result<Measured> {
        let generator = self.session.subscribers.as_mut().context("no subscribers")?;
        generator.report()
    }

    /// Writes the measured span into the outcome.
    pub fn record(
        &mut self,
        span: Span,
        usage: &super::session::Usage,
        sent: &Measured,
        received: &Measured,
    ) {
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
            steal: usage.steal,
            ..MeasuredFigures::default()
        });
    }

    /// What was sent and received of a measured span.
    pub fn account(&mut self, sent: u64, received: u64) {
        self.sent_measured += sent;
        self.received_measured += received;
    }

    /// Something that the reader should know.
    pub fn note(&mut self, text: &str) {
        println!("note: {text}");
        self.outcome.notes.push(text.to_owned());
    }

    fn end_subscribers(&mut self) -> anyhow::Result<Ended> {
        let last = self.session.read();
        if let Some(memory) = &mut self.outcome.memory {
            memory.end_pss = last.server.and_then(|server| server.pss_bytes);
        }
        let generator = self.session.subscribers.take().context("no subscribers")?;
        generator.stop()
    }

    fn judge(&mut self, ended: Ended) {
        let plan = self.plan;
        if let Some(measured) = &mut self.outcome.measured {
            measured.sample = ended.sample;
        }
        let is_connect = plan.workload.name == Name::Connect;
        let is_echo = plan.workload.name == Name::Echo100k;
        let books = Books {
            subscribers: ended.totals,
            publishers: (!is_echo).then(|| self.published.clone().unwrap_or_default()),
            group: if is_echo { 1 } else { plan.size.group },
            sent_measured: self.sent_measured,
            received_measured: self.received_measured,
            clients: plan.size.clients,
            has_storm: self.outcome.storm.is_some(),
            audit: ended.findings.filter(|_| !is_connect),
        };
        self.outcome.completeness = books.judge();
    }
}

/// Adds the counts of publishers.
fn add(all: &mut Totals, other: &Totals) {
    all.sent += other.sent;
    all.received += other.received;
    all.refused += other.refused;
    all.unacknowledged += other.unacknowledged;
    all.repeated_sends += other.repeated_sends;
    all.disconnects += other.disconnects;
    all.inflight += other.inflight;
}
