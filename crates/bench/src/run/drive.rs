//! The phases of a run: start, connect, settle, warm up, measure, drain, end.
//!
//! Place: between the plan and the outcome. Each finding is written into the outcome at once, so
//! that a run that fails half way reports all it has.

use anyhow::{Context, bail};

use super::completeness::RunTotals;
use super::generator::Generator;
use super::memory::{memory, others_sockets};
use super::message::{Ended, Totals};
use super::outcome::ConnectFigures;
use super::session::Session;
use super::steps::{CONNECT_PATIENCE, DRAIN_PATIENCE, Run, Span};
use super::storm;
use super::sustain;
use super::workload::Name;
use crate::engine::Counts;
use crate::units::show_count;

impl Run<'_> {
    /// Runs all phases. The outcome has every finding, even if a phase fails.
    ///
    /// # Errors
    /// The run cannot go on, or was interrupted.
    pub fn drive(mut self) -> anyhow::Result<()> {
        let result = self.phases();
        if result.is_err() {
            self.note_losses(&self.session.received());
        }
        self.outcome.completeness.is_complete &= result.is_ok();
        let (samples, phases) = self.session.finish();
        (self.outcome.samples, self.outcome.phases) = (samples, phases);
        result
    }

    /// Notes the connections that the subscribers have lost, and the last reason.
    fn note_losses(&mut self, totals: &Totals) {
        let Counts { disconnects, connects_failed, .. } = totals.counts;
        if disconnects > 0 || connects_failed > 0 {
            self.note(&format!(
                "The subscribers lost {} connections, and {} connects failed{}.",
                show_count(disconnects),
                show_count(connects_failed),
                totals
                    .trouble
                    .as_ref()
                    .map(|trouble| format!("; the last time: {trouble}"))
                    .unwrap_or_default()
            ));
        }
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
            Name::Unicast if self.plan.command.find => {
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
            &plan.subscribers(&self.session.server)?,
            &plan.client_cores,
        )?;
        self.session.subscribers = Some(generator);
        let wanted = plan.size.clients as i64;
        let is_echo = plan.workload.name == Name::Echo100k;
        let so_far = move |session: &Session<'_>| {
            let totals = session.received();
            if is_echo { totals.counts.connections } else { totals.counts.clients_live }
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
        let connections = totals.counts.connects.max(1) as f64;
        let micros = |cores: Option<f64>| Some(cores? * usage.seconds / connections * 1e6);
        // The time between the first intended connect and the end of the last handshake is exact.
        // Only the last answers to subscriptions come after it.
        let seconds = totals.connecting_s;
        self.outcome.connect = Some(ConnectFigures {
            connections: totals.counts.connects,
            seconds,
            rate: if seconds > 0.0 { totals.counts.connects as f64 / seconds } else { 0.0 },
            server_cpu_us: micros(usage.server),
            client_cpu_us: end
                .clients
                .cpu_s
                .is_finite()
                .then(|| end.clients.cpu_s / connections * 1e6),
            failed: totals.counts.connects_failed,
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
        self.session.wait(self.plan.command.settle / 2)?;
        let before = self.session.read();
        self.session.wait(self.plan.command.settle / 2)?;
        let settled = self.session.read();
        let clients = self.session.received().counts.connections.max(1) as u64;
        let sockets_each = self.plan.sockets_each;
        self.outcome.memory =
            Some(memory(&self.begin, &settled, &self.session.samples, clients, sockets_each));
        if let Some(memory) = &mut self.outcome.memory {
            memory.idle_cpu = settled.since(&before).server;
        }
        if let Some(others) = others_sockets(&self.begin, &settled, clients, sockets_each) {
            let what = if others > 0 { "opened" } else { "closed" };
            let count = show_count(others.unsigned_abs());
            self.note(&format!(
                "Other programs {what} {count} sockets during the run: the figure of the kernel's memory includes them."
            ));
        }
        Ok(())
    }

    /// A steady load at this rate, measured, to its end.
    fn messages(&mut self, rate: f64) -> anyhow::Result<()> {
        self.session.enter("warm-up");
        self.start_publishers(rate)?;
        let span = Span::after(self.plan.command.warm_up, self.plan.duration);
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
        let span = Span::after(self.plan.command.warm_up, self.plan.duration);
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
                all_sent && totals.counts.received >= totals.counts.sent
            },
            |session| session.received().counts.received as i64,
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
        if self.outcome.storm.is_none() {
            self.note_losses(&ended.totals);
        }
        let is_connect = plan.workload.name == Name::Connect;
        let is_echo = plan.workload.name == Name::Echo100k;
        let totals = RunTotals {
            subscribers: ended.totals.counts,
            publishers: (!is_echo).then_some(self.published),
            group: if is_echo { 1 } else { plan.size.group },
            sent_measured: self.sent_measured,
            received_measured: self.received_measured,
            clients: plan.size.clients,
            has_storm: self.outcome.storm.is_some(),
            audit: ended.findings.filter(|_| !is_connect),
        };
        self.outcome.completeness = totals.judge();
    }
}
