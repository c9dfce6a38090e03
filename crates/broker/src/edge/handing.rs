//! Handing an edge to the next process: connections, sessions, subscriptions and what waits for
//! sockets.
//!
//! Between two turns, when its outputs have been taken (see [`stdx::handing`]). What is only a
//! place to work in, or made anew when it is needed (compressors, areas for letters), is left.
//! Settings go before it, apart.

use super::{Edge, EdgeId};
use crate::handing::TakeOverError;
use crate::now::Now;
use crate::settings::Settings;
use std::sync::Arc;
use stdx::handing::{Hand, Input, Layout};

impl Edge {
    /// Appends the whole state.
    pub fn hand_over(&self, out: &mut Vec<u8>) {
        debug_assert!(self.out.requests.iter().all(Vec::is_empty) && self.out.closes.is_empty());
        debug_assert!(self.out.users.is_empty() && self.out.clients.is_empty());
        debug_assert!(self.out.journal.is_empty() && self.out.answers.is_empty());
        let Edge {
            settings: _,
            now: _,
            mail: _,
            targets: _,
            scratch: _,
            attributes: _,
            compression: _,
            work_left: _,
            out: outputs,
            id,
            slots,
            stamps,
            peers,
            journal,
            rates,
            pressure,
            outboxes,
            ending,
            lost,
            laggards,
            dead,
            inputs,
            kept,
            resumed,
            spent,
            states,
            states_bytes,
            subscriptions,
            generation,
            large,
            replay_credits,
            recovering,
            tickets,
            judging,
            renewals,
            describe_number,
            topics,
            members,
            filters,
            filter_entries,
            filters_held,
            behind,
            positions,
            named_frames,
            filters_version,
            named,
            named_bytes,
            homes,
            full_log,
            handshakes,
            polls,
            second,
            sweep,
            old_sessions,
            ping_interval_min_s,
            serial,
            statistics,
            draining,
            drains,
        } = self;
        id.give(out);
        outputs.questions.give(out);
        outputs.readable.give(out);
        slots.give(out);
        stamps.give(out);
        peers.give(out);
        journal.give(out);
        rates.give(out);
        pressure.give(out);
        outboxes.give(out);
        ending.give(out);
        lost.give(out);
        laggards.give(out);
        dead.give(out);
        inputs.give(out);
        kept.give(out);
        resumed.give(out);
        spent.give(out);
        states.give(out);
        states_bytes.give(out);
        subscriptions.give(out);
        generation.give(out);
        large.give(out);
        replay_credits.give(out);
        recovering.give(out);
        tickets.give(out);
        judging.give(out);
        renewals.give(out);
        describe_number.give(out);
        topics.give(out);
        members.give(out);
        filters.give(out);
        filter_entries.give(out);
        filters_held.give(out);
        behind.give(out);
        positions.give(out);
        named_frames.give(out);
        filters_version.give(out);
        named.give(out);
        named_bytes.give(out);
        homes.give(out);
        full_log.give(out);
        handshakes.give(out);
        polls.give(out);
        second.give(out);
        sweep.give(out);
        old_sessions.give(out);
        ping_interval_min_s.give(out);
        serial.give(out);
        statistics.give(out);
        draining.give(out);
        drains.give(out);
    }

    /// The edge that was handed over. `settings` are those that it went by.
    ///
    /// # Errors
    /// The bytes are not its state.
    pub fn take_over(
        settings: Arc<Settings>,
        now: Now,
        input: &mut Input<'_>,
    ) -> Result<Edge, TakeOverError> {
        let id = EdgeId::take(input).ok_or(TakeOverError::Malformed)?;
        let mut edge = Edge::new(settings, id, now);
        let limits = edge.settings.clone();
        edge.take_fields(input).ok_or(TakeOverError::Malformed)?;
        edge.rates.renew(&limits.limits);
        Ok(edge)
    }

    fn take_fields(&mut self, input: &mut Input<'_>) -> Option<()> {
        self.out.questions = Hand::take(input)?;
        self.out.readable = Hand::take(input)?;
        self.slots = Hand::take(input)?;
        self.stamps = Hand::take(input)?;
        self.peers = Hand::take(input)?;
        self.journal = Hand::take(input)?;
        self.rates = Hand::take(input)?;
        self.pressure = Hand::take(input)?;
        self.outboxes = Hand::take(input)?;
        self.ending = Hand::take(input)?;
        self.lost = Hand::take(input)?;
        self.laggards = Hand::take(input)?;
        self.dead = Hand::take(input)?;
        self.inputs = Hand::take(input)?;
        self.kept = Hand::take(input)?;
        self.resumed = Hand::take(input)?;
        self.spent = Hand::take(input)?;
        self.states = Hand::take(input)?;
        self.states_bytes = Hand::take(input)?;
        self.subscriptions = Hand::take(input)?;
        self.generation = Hand::take(input)?;
        self.large = Hand::take(input)?;
        self.replay_credits = Hand::take(input)?;
        self.recovering = Hand::take(input)?;
        self.tickets = Hand::take(input)?;
        self.judging = Hand::take(input)?;
        self.renewals = Hand::take(input)?;
        self.describe_number = Hand::take(input)?;
        self.topics = Hand::take(input)?;
        self.members = Hand::take(input)?;
        self.filters = Hand::take(input)?;
        self.filter_entries = Hand::take(input)?;
        self.filters_held = Hand::take(input)?;
        self.behind = Hand::take(input)?;
        self.positions = Hand::take(input)?;
        self.named_frames = Hand::take(input)?;
        self.filters_version = Hand::take(input)?;
        self.named = Hand::take(input)?;
        self.named_bytes = Hand::take(input)?;
        self.homes = Hand::take(input)?;
        self.full_log = Hand::take(input)?;
        self.handshakes = Hand::take(input)?;
        self.polls = Hand::take(input)?;
        self.second = Hand::take(input)?;
        self.sweep = Hand::take(input)?;
        self.old_sessions = Hand::take(input)?;
        self.ping_interval_min_s = Hand::take(input)?;
        self.serial = Hand::take(input)?;
        self.statistics = Hand::take(input)?;
        self.draining = Hand::take(input)?;
        self.drains = Hand::take(input)?;
        Some(())
    }

    /// Says what is handed over.
    pub fn layout(layout: &mut Layout) {
        layout.name("Edge");
        layout.field("questions", |edge: &Edge| Some(&edge.out.questions));
        layout.field("slots", |edge: &Edge| Some(&edge.slots));
        layout.field("stamps", |edge: &Edge| Some(&edge.stamps));
        layout.field("peers", |edge: &Edge| Some(&edge.peers));
        layout.field("journal", |edge: &Edge| Some(&edge.journal));
        layout.field("rates", |edge: &Edge| Some(&edge.rates));
        layout.field("pressure", |edge: &Edge| Some(&edge.pressure));
        layout.field("outboxes", |edge: &Edge| Some(&edge.outboxes));
        layout.field("ending", |edge: &Edge| Some(&edge.ending));
        layout.field("lost", |edge: &Edge| Some(&edge.lost));
        layout.field("laggards", |edge: &Edge| Some(&edge.laggards));
        layout.field("dead", |edge: &Edge| Some(&edge.dead));
        layout.field("inputs", |edge: &Edge| Some(&edge.inputs));
        layout.field("kept", |edge: &Edge| Some(&edge.kept));
        layout.field("resumed", |edge: &Edge| Some(&edge.resumed));
        layout.field("spent", |edge: &Edge| Some(&edge.spent));
        layout.field("states", |edge: &Edge| Some(&edge.states));
        layout.field("states_bytes", |edge: &Edge| Some(&edge.states_bytes));
        layout.field("subscriptions", |edge: &Edge| Some(&edge.subscriptions));
        layout.field("generation", |edge: &Edge| Some(&edge.generation));
        layout.field("large", |edge: &Edge| Some(&edge.large));
        layout.field("replay_credits", |edge: &Edge| Some(&edge.replay_credits));
        layout.field("recovering", |edge: &Edge| Some(&edge.recovering));
        layout.field("tickets", |edge: &Edge| Some(&edge.tickets));
        layout.field("judging", |edge: &Edge| Some(&edge.judging));
        layout.field("renewals", |edge: &Edge| Some(&edge.renewals));
        layout.field("describe_number", |edge: &Edge| Some(&edge.describe_number));
        layout.field("topics", |edge: &Edge| Some(&edge.topics));
        layout.field("members", |edge: &Edge| Some(&edge.members));
        layout.field("filters", |edge: &Edge| Some(&edge.filters));
        layout.field("filter_entries", |edge: &Edge| Some(&edge.filter_entries));
        layout.field("filters_held", |edge: &Edge| Some(&edge.filters_held));
        layout.field("behind", |edge: &Edge| Some(&edge.behind));
        layout.field("positions", |edge: &Edge| Some(&edge.positions));
        layout.field("named_frames", |edge: &Edge| Some(&edge.named_frames));
        layout.field("filters_version", |edge: &Edge| Some(&edge.filters_version));
        layout.field("named", |edge: &Edge| Some(&edge.named));
        layout.field("named_bytes", |edge: &Edge| Some(&edge.named_bytes));
        layout.field("homes", |edge: &Edge| Some(&edge.homes));
        layout.field("full_log", |edge: &Edge| Some(&edge.full_log));
        layout.field("handshakes", |edge: &Edge| Some(&edge.handshakes));
        layout.field("polls", |edge: &Edge| Some(&edge.polls));
        layout.field("second", |edge: &Edge| Some(&edge.second));
        layout.field("sweep", |edge: &Edge| Some(&edge.sweep));
        layout.field("old_sessions", |edge: &Edge| Some(&edge.old_sessions));
        layout.field("ping_interval_min_s", |edge: &Edge| Some(&edge.ping_interval_min_s));
        layout.field("serial", |edge: &Edge| Some(&edge.serial));
        layout.field("statistics", |edge: &Edge| Some(&edge.statistics));
        layout.field("draining", |edge: &Edge| Some(&edge.draining));
        layout.field("drains", |edge: &Edge| Some(&edge.drains));
    }
}
