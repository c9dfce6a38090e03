//! The home role of one thread: it orders and keeps the topics of its partitions and knows which
//! edges want them.
//!
//! Place on the path: an edge posts a [`ToHome`]; [`Home::handle`] appends, acknowledges, answers
//! and posts the message to every edge with interest; [`Home::pump`] reads lagging streams on from
//! the log and evicts expired records. Values in, values out: the time comes with each call,
//! letters go into [`HomeOutputs`]. Of a log on disk a home keeps the newest records in memory;
//! [`crate::disk`] has its messages to the log thread and the answers.
//!
//! # Why `prev` proves completeness
//!
//! For each partition, `forgotten_through` (F) is the greatest last offset of any topic that the
//! home has forgotten, 0 at first. The claim: *a record's `prev` is an offset B such that its topic
//! has no record in (B, offset)*.
//!
//! - A known topic has `last`: its newest record's offset, and B is that. Nothing of the topic lies
//!   above its newest.
//! - A topic that becomes known inherits `last = F` of that moment. If it had records before, it
//!   was forgotten after them, and F was then raised to at least their last offset. So no record of
//!   it lies above F, and while it stays known its own appends keep `last` exact. A later rise of F
//!   does not concern it.
//! - A topic is forgotten only when it has no subscriber by name, no record and no retained
//!   message; F is then raised to its `last`. An inherited `last` raises nothing, as F never falls.
//!
//! Hence a topic that is not known is the same as a topic with `last = F`, and a position P is
//! complete without any record if and only if `last <= P`. One that was subscribed at a head H has
//! `last <= H`, so its first record's `prev` is at most the `through = H` of the grant: complete,
//! as it must be.
//!
//! No record of a forgotten topic is present, so F is always below the oldest record, and so is an
//! inherited `last`: `last >= oldest` says exactly that the topic has records. That makes
//! forgetting an O(1) question, asked when a segment goes and when an interest goes; and it is why
//! a topic's id is never reused while a record names it.
//!
//! Of a log on disk, "present" means on disk or in memory, and the oldest is the `floor` below
//! which neither has anything. Publications that wait for the disk are not records yet: the next
//! one of the topic names the one before, and if it fails, both do.
//!
//! Damage on disk may have taken records of any topic away, up to an offset D of the partition that
//! the start names. A record behind D is appended with a `prev` of at least D, and a topic without
//! one reaches to D instead of to its `last`. So a position below D is complete only where a record
//! behind the damage says it. Memory begins behind D, so no page from memory spans a hole.

mod batch;
mod clients;
mod dedup;
mod edges;
mod engine;
mod filters;
mod groups;
mod handing;
mod history;
mod inspect;
mod interests;
mod memory;
mod mirror;
mod occupancy;
mod partitions;
mod proposals;
mod publication;
mod publish;
mod queue;
mod rates;
mod read;
mod record;
mod registry;
mod restore;
mod retained;
mod retention;
mod sessions;
mod shared;
mod staging;
mod stall;
mod statistics;
mod streams;
mod subscribe;
mod topics;
mod turn;
mod window;
mod work;

pub use engine::TailState;
pub use mirror::MirroredContent;
pub use partitions::segments_max;
pub use proposals::Settled;
pub use statistics::{HomeRefusals, HomeStatistics};
pub use turn::HomeOutputs;
pub use window::FoundWindow;

use crate::disk::{DiskAnswer, DiskLetter};
use crate::mail::{Code, EdgeId, HomeId, PartitionId, Reply, ToEdge, ToHome};
use crate::now::Now;
use crate::settings::{Durability, Settings};
use dedup::Dedup;
use edges::Edge;
use engine::EnginePartition;
use interests::Interests;
use log::Memory;
use partitions::{Elapsed, HomePartition, Share, partitions_of};
use queue::{Parked, Queue};
use rates::Rates;
use std::collections::VecDeque;
use std::sync::Arc;
use stdx::chunk::Slice;
use stdx::hash::{Seed, keyed};
use stdx::slab::Slab;
use topics::TopicTable;
use turn::Turn;
use work::{
    Asking, BeyondTail, Caller, DiskPage, DiskScan, Found, HistoryQuery, Known, Question, Scan,
    Step, Work,
};

/// Segments that one call of [`Home::pump`] evicts for their age.
const PUMP_EVICTIONS_MAX: usize = 16;

/// The home role of one thread; see the module. Owned by that thread.
#[derive(Debug)]
pub struct Home {
    settings: Arc<Settings>,
    id: HomeId,
    interests: Interests,
    /// Partitions `id`, `id + homes_count`, ..., in this order.
    partitions: Vec<HomePartition>,
    shares: Vec<Share>,
    /// Copies of retained records, found by their topics.
    retained: Slab<Slice>,
    /// The publications that need not be appended again.
    dedup: Dedup,
    rates: Rates,
    elapsed: Elapsed,
    /// Nothing is to be evicted for its age before; milliseconds of the home's clock. So that no
    /// turn has to examine each partition.
    expiry_ms: u64,
    queue: Queue,
    /// Topics that the disk has dropped records of.
    forgetting: VecDeque<(u32, Slice)>,
    /// Whose lagging streams are fed next.
    next_edge: usize,
    /// Pages for filters whose cursors are beyond a lagging stream's position.
    scans_ahead: Vec<(Caller, Scan)>,
    clients: clients::Clients,
    /// Names of MQTT's clients that the nodes of a cluster share.
    shared: shared::Shared,
    groups: groups::Groups,
    reported: occupancy::Reported,
    /// Letters of the engine that wait for their turn.
    letters: engine::Letters,
    /// The time by which publications to the engine are watched.
    watch: engine::Watch,
    /// Requests whose positions the tail has not reached.
    ahead: engine::Ahead,
    statistics: HomeStatistics,
}

impl Home {
    /// A home without records. `hash_seed` is random and secret: names are chosen by clients.
    pub fn new(settings: Arc<Settings>, id: HomeId, hash_seed: (u64, u64)) -> Home {
        let (mut partitions, shares) = partitions_of(&settings, id);
        let credit = i64::from(settings.limits.stream_credit_bytes);
        let edges = (0..settings.edges_count).map(|_| Edge::new(credit)).collect();
        let seed = Seed(hash_seed.0, hash_seed.1);
        let run = keyed(seed, &id.0.to_le_bytes());
        for partition in &mut partitions {
            let log = settings.log_of(partition.id);
            if log.durability == Durability::Engine {
                let engine = EnginePartition::new(seed, run, log.retains_newest());
                partition.engine = Some(Box::new(engine));
            }
        }
        let topics = TopicTable::new(seed);
        Home {
            dedup: Dedup::new(&settings.limits, seed),
            settings,
            id,
            interests: Interests::new(topics, edges),
            partitions,
            shares,
            retained: Slab::new(),
            rates: Rates::new(seed),
            elapsed: Elapsed::default(),
            expiry_ms: u64::MAX,
            queue: Queue::default(),
            forgetting: VecDeque::new(),
            next_edge: 0,
            scans_ahead: Vec::new(),
            clients: clients::Clients::new(seed),
            shared: shared::Shared::default(),
            groups: groups::Groups::default(),
            reported: occupancy::Reported::default(),
            letters: engine::Letters::default(),
            watch: engine::Watch::default(),
            ahead: engine::Ahead::default(),
            statistics: HomeStatistics::default(),
        }
    }

    /// Counters that begin anew after 32 bits begin here, of a home that has not served anybody.
    /// Tests and simulated worlds use it.
    pub fn begin_counters_at(&mut self, value: u32) {
        self.interests.begin_counters_at(value);
    }

    /// Goes by renewed settings from now on ([`Settings::renewed`]). Topics, records and what edges
    /// are owed stay. The credit of each edge grows or shrinks by as much as the bound does; where
    /// it is below 0 then, the stream waits for what the edge gives back.
    pub fn set_settings(&mut self, settings: Arc<Settings>) {
        let credit = |settings: &Settings| i64::from(settings.limits.stream_credit_bytes);
        let grown = credit(&settings) - credit(&self.settings);
        for edge in &mut self.interests.edges {
            edge.credit += grown;
        }
        for (share, log) in self.shares.iter_mut().zip(&settings.logs) {
            share.renew(log);
        }
        self.settings = settings;
    }

    /// Deals with one request of an edge.
    pub fn handle(
        &mut self,
        now: Now,
        from: EdgeId,
        request: ToHome,
        memory: &mut dyn Memory,
        out: &mut HomeOutputs,
    ) {
        self.handle_found(now, from, request, None, (memory, out));
    }

    /// [`Home::handle`], with a topic that a look ahead has found for the request.
    fn handle_found(
        &mut self,
        now: Now,
        from: EdgeId,
        request: ToHome,
        found: Option<u32>,
        (memory, out): (&mut dyn Memory, &mut HomeOutputs),
    ) {
        self.elapsed.advance(now);
        let turn = &mut Turn { now_ms: now.unix_ms, found, memory, out };
        if usize::from(from) >= self.interests.edges.len() {
            return;
        }
        let (cost, class) = (request.cost(), request.class(&self.settings));
        let from = Caller { edge: from, cost, class, is_consumed: false, has_waited: false };
        self.deal_with_request(from, request, turn);
    }

    fn deal_with_request(&mut self, from: Caller, request: ToHome, turn: &mut Turn<'_>) {
        match request {
            ToHome::Credit { bytes } => {
                let credit_max = i64::from(self.settings.limits.stream_credit_bytes);
                let edge = &mut self.interests.edges[usize::from(from.edge)];
                edge.credit = credit_max.min(edge.credit + i64::from(bytes));
            }
            ToHome::Subscribe(asked) => {
                let step = self.subscribe(from, asked, Found::Nothing, turn);
                self.take_step(from, step, turn);
            }
            ToHome::Release { index, generation } => self.release(from, (index, generation), turn),
            ToHome::Read(reading) => self.in_turn(Work::Page(from, reading), turn),
            ToHome::History(asked) => {
                let query = HistoryQuery { asked, passed: None };
                self.in_turn(Work::History(from, query), turn);
            }
            ToHome::Retained { partition, topic, reply } => {
                self.send_retained(from, (partition, &topic), reply, turn)
            }
            ToHome::Describe(asked) => {
                self.consumed(from);
                self.describe(from.edge, &asked, turn);
            }
            ToHome::Positions => {
                self.consumed(from);
                self.post_positions(from.edge, turn);
            }
            ToHome::Publish(publish) => self.publish(from, &publish, turn),
            ToHome::AddFilter(asked) if self.is_filter_ahead(from, &asked) => {
                self.take_step(from, Step::BeyondTail(BeyondTail::AddFilter(asked)), turn);
            }
            ToHome::AddFilter(asked) => {
                self.consumed(from);
                self.add_filter(from.edge, &asked, turn);
            }
            ToHome::ReadFilter(asked) => match self.local(asked.partition) {
                Some(local) => {
                    let scan = Scan { local, asked };
                    self.in_turn(Work::Scan(from, scan), turn);
                }
                None => self.consumed(from),
            },
            ToHome::FindRetained(asked) => self.in_turn(Work::Retained(from, asked), turn),
            ToHome::ReadRecord(asked) => self.in_turn(Work::Record(from, asked), turn),
            ToHome::Claim(claim) => {
                self.consumed(from);
                self.claim(from.edge, claim, turn);
            }
            ToHome::KeepSession(kept) => {
                self.consumed(from);
                self.keep_if_held(from.edge, &kept, turn);
            }
            ToHome::Leave(leave) => {
                self.consumed(from);
                self.leave(from.edge, leave, turn);
                self.tell_of_sleepers(turn);
            }
            ToHome::Group(request) => self.group_request(from, request, turn),
            ToHome::RemoveFilter { filter } => {
                self.consumed(from);
                self.ahead.remove_filter(from.edge, &filter);
                self.remove_filter(from.edge, &filter);
            }
        }
    }

    fn send_retained(
        &mut self,
        from: Caller,
        (partition, topic): (PartitionId, &[u8]),
        reply: Reply,
        turn: &mut Turn<'_>,
    ) {
        self.consumed(from);
        let result = self.retained_page(partition, topic);
        turn.out.post(from.edge, ToEdge::History { reply, result });
    }

    /// An edge has no subscription to a topic any more.
    fn release(&mut self, from: Caller, (index, generation): (u32, u32), turn: &mut Turn<'_>) {
        self.consumed(from);
        if let Some(topic) = self.interests.release(from.edge, index, generation, turn.out) {
            self.report_vacated(topic, turn);
            self.forget_if_idle(topic, turn);
        }
    }

    /// Deals with a letter of a log thread; `log` is the log's index in the settings.
    pub fn disk(
        &mut self,
        now: Now,
        log: u16,
        letter: DiskLetter,
        memory: &mut dyn Memory,
        out: &mut HomeOutputs,
    ) {
        self.elapsed.advance(now);
        let turn = &mut Turn { now_ms: now.unix_ms, found: None, memory, out };
        let share = usize::from(log);
        self.heard_of(share, turn);
        self.heard_of_mirror(share, turn);
        match letter {
            DiskLetter::Committed { generation, count, result }
                if self.shares.get(share).is_some_and(|share| share.mirror.is_some()) =>
            {
                self.mirrored(share, (generation, count), result, turn);
            }
            DiskLetter::Committed { generation, count, result } => {
                self.committed(share, generation, count, result, turn)
            }
            DiskLetter::Answer { token, result } => {
                self.in_turn(Work::Answer(share, token, result), turn);
            }
            DiskLetter::Floor { floors, topics } => self.raise_floors(floors, topics),
            DiskLetter::Available(is_available) => {
                self.set_log_available(log, is_available);
                self.mirror_available(share, is_available, turn);
            }
        }
    }

    /// Takes the answer of a log's sequencer to proposals that wait; `log` is the log's index in
    /// the settings.
    pub fn settle(
        &mut self,
        now: Now,
        log: u16,
        settled: Settled,
        memory: &mut dyn Memory,
        out: &mut HomeOutputs,
    ) {
        self.elapsed.advance(now);
        let turn = &mut Turn { now_ms: now.unix_ms, found: None, memory, out };
        self.settle_proposals(usize::from(log), settled, turn);
    }

    /// Reads lagging streams on while their edges have credit, evicts by age, and serves pages that
    /// wait: a bounded part of it. Once in each turn. True if there is more that can be done at
    /// once.
    pub fn pump(&mut self, now: Now, memory: &mut dyn Memory, out: &mut HomeOutputs) -> bool {
        self.elapsed.advance(now);
        let turn = &mut Turn { now_ms: now.unix_ms, found: None, memory, out };
        self.end_sessions(turn);
        self.look_at_groups(turn);
        self.tell_of_sleepers(turn);
        let more_expired = self.evict_expired(PUMP_EVICTIONS_MAX, turn);
        let more_old = self.dedup.sweep(self.elapsed.ms);
        let more_dropped = self.forget_dropped(turn);
        self.rates.sweep(self.elapsed.ms);
        self.renew_reported(turn);
        self.watch_disks(turn);
        self.watch_mirrors(turn);
        let more_letters = self.take_letters(turn);
        self.watch_engine(turn);
        self.return_ahead(turn);
        let more_lagging = self.feed_lagging(turn);
        self.return_scans();
        let more_waiting = self.serve_waiting(turn);
        let more_work = more_letters || more_lagging || more_waiting;
        more_expired || more_old || more_dropped || more_work
    }

    /// Deals with work at once if this turn has room for it, else later.
    fn in_turn(&mut self, work: Work, turn: &mut Turn<'_>) {
        if let Some(work) = self.queue.admit(work) {
            self.deal_with(work, turn);
        }
    }

    /// A new turn: deals with waiting work as far as there is room. True if more waits.
    fn serve_waiting(&mut self, turn: &mut Turn<'_>) -> bool {
        self.queue.begin_turn();
        while let Some(work) = self.queue.next() {
            self.deal_with(work, turn);
        }
        !self.queue.is_empty()
    }

    fn deal_with(&mut self, work: Work, turn: &mut Turn<'_>) {
        let (from, step) = match work {
            Work::Page(from, asked) => (from, self.read(from, asked, turn)),
            Work::Scan(from, scan) => (from, self.scan(from, scan, turn)),
            Work::Subscribe(from, asked) => {
                (from, self.subscribe(from, asked, Found::Nothing, turn))
            }
            Work::Group(asked) => (groups::OF_GROUP, self.scan_for_group(asked, turn)),
            Work::Retained(from, asked) => (from, self.find_retained(&asked)),
            Work::Record(from, asked) => (from, self.read_record(asked)),
            Work::History(from, query) => {
                (from, self.history(from, turn.now_ms, &query, Known::Nothing))
            }
            Work::Answer(share, token, result) => {
                let parked = self.queue.answered(share, token);
                self.ask_disk(share, turn);
                let Some(Parked { from, local, question, .. }) = parked else {
                    return; // it took so long that the request was refused
                };
                let step = match result {
                    Ok(answer) => self.answer(from, local, question, answer, turn),
                    Err(code) => question.refused(code),
                };
                (from, step)
            }
        };
        self.take_step(from, step, turn);
    }

    /// The disk has answered: the handler of the request continues.
    fn answer(
        &mut self,
        from: Caller,
        local: u32,
        question: Question,
        answer: DiskAnswer,
        turn: &mut Turn<'_>,
    ) -> Step {
        use DiskAnswer as Answer;
        match (question, answer) {
            (
                Question::Page(reading, through),
                Answer::Page { records, first_prev, complete, damaged },
            ) => {
                let page = DiskPage { records, first_prev, complete, damaged };
                self.page_from_disk(local, reading, through, page)
            }
            (Question::Scan(scan, gap), Answer::Scan { records, floor, through, damaged }) => {
                let found = DiskScan { records, floor, through, damaged };
                self.scan_from_disk(&scan, gap, found)
            }
            (Question::Group(asked), Answer::Scan { records, through, .. }) => {
                self.group_page(&asked, records, through, turn)
            }
            (Question::Record(asked), Answer::Scan { records, .. }) => {
                self.record_from_disk(asked, records)
            }
            (Question::Start(asked, through), Answer::Start { prev, damaged, .. }) => {
                let found = match prev {
                    Some(prev) => Found::Prev { prev, damaged },
                    None => Found::NothingThrough { through, damaged },
                };
                self.subscribe(from, asked, found, turn)
            }
            (Question::HistoryStart(query, through), Answer::Start { oldest, damaged, .. }) => {
                let known = Known::Start { oldest, through, damaged };
                self.history(from, turn.now_ms, &query, known)
            }
            (
                Question::History(query, asked),
                Answer::Page { records, first_prev, complete, damaged },
            ) => {
                let page = DiskPage { records, first_prev, complete, damaged };
                self.history(from, turn.now_ms, &query, Known::Page(asked, page))
            }
            (question, _) => {
                debug_assert!(false, "a log answers the question that it was asked");
                question.refused(Code::Internal)
            }
        }
    }

    /// Carries out a handler's decision.
    fn take_step(&mut self, from: Caller, step: Step, turn: &mut Turn<'_>) {
        match step {
            Step::Done(letter) => {
                self.consumed(from);
                turn.out.post(from.edge, letter);
            }
            Step::Nothing => self.consumed(from),
            Step::Refuse(letter, code) => {
                self.consumed(from);
                self.statistics.refused.count(code);
                turn.out.post(from.edge, letter);
            }
            Step::Ask(asking) => self.park(from, *asking, turn),
            Step::Ahead(scan) => self.scans_ahead.push((from, scan)),
            Step::BeyondTail(request) => self.wait_for_tail(from, request, turn),
            Step::GroupFails(asked) => self.group_page_failed(&asked),
        }
    }

    /// Parks a request until the disk has answered. A log that hangs is not asked.
    fn park(&mut self, from: Caller, asking: Asking, turn: &mut Turn<'_>) {
        let HomePartition { share, id, .. } = self.partitions[asking.local as usize];
        if self.is_stalled(share) {
            return self.take_step(from, asking.question.refused(Code::LogUnavailable), turn);
        }
        self.ask_mirror(asking.local, turn);
        self.queue.park(from, share, id, asking);
        self.statistics.disk_reads += 1;
        self.ask_disk(share, turn);
    }

    fn ask_disk(&mut self, share: usize, turn: &mut Turn<'_>) {
        while let Some(request) = self.queue.next_question(share) {
            turn.out.ask(share, request);
        }
    }

    /// Refuses all requests that wait for the disk of a log. Their subscriptions end, and clients
    /// may come back with their positions.
    fn refuse_parked(&mut self, share: usize, turn: &mut Turn<'_>) {
        for Parked { from, question, .. } in self.queue.give_up(share) {
            self.take_step(from, question.refused(Code::LogUnavailable), turn);
        }
    }

    /// Whether work waits that could be dealt with in another turn: among it a lagging stream whose
    /// edge gave credit behind [`Home::pump`], and an edge that does not know yet what it may send
    /// again, because its requests were dealt with behind [`Home::finish_turn`].
    pub fn has_more(&self) -> bool {
        let edges = &self.interests.edges;
        !self.queue.is_empty()
            || !self.forgetting.is_empty()
            || self.letters.are_waiting()
            || edges.iter().any(|edge| !edge.consumed.is_empty() || edge.can_continue())
    }

    /// Ends a turn: posts to every edge the number of its handled requests.
    pub fn finish_turn(&mut self, out: &mut HomeOutputs) {
        for (edge, state) in (0..).map(EdgeId).zip(&mut self.interests.edges) {
            state.consumed.sort_unstable_by_key(|(class, ..)| *class);
            for (class, requests, bytes) in state.consumed.drain(..) {
                out.post(edge, ToEdge::Consumed { class, requests, bytes });
            }
        }
    }

    /// The next time at which [`Home::pump`] has records to evict, or a log or requests without
    /// progress to examine; milliseconds of the monotonic clock.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let expiry_ms = (self.expiry_ms < u64::MAX).then_some(self.expiry_ms);
        let look_ms = self.next_look_at_disks();
        let told_ms = self.reported_deadline_ms();
        let engine_ms = self.next_look_at_engine();
        let ahead_ms = self.next_look_ahead();
        let mirrors_ms = self.next_look_at_mirrors();
        let shared_ms = self.shared.next_ms();
        let groups_ms = self.next_look_at_groups();
        let all_ms = [expiry_ms, look_ms, told_ms, engine_ms, ahead_ms, mirrors_ms, shared_ms];
        let again_ms = self.next_page_again();
        let soonest_ms = all_ms.into_iter().chain([groups_ms, again_ms]).flatten().min();
        soonest_ms.map(|ms| self.elapsed.monotonic_at(ms))
    }

    /// A request has been dealt with.
    fn consumed(&mut self, from: Caller) {
        if from.is_consumed {
            return;
        }
        if let Some(edge) = self.interests.edges.get_mut(usize::from(from.edge)) {
            edge.count_consumed(from.class, from.cost);
        }
    }

    /// The home's own number of a partition, if it lives here.
    fn local(&self, partition: PartitionId) -> Option<u32> {
        let is_own = partition.0 < self.settings.partitions_count()
            && self.settings.home_of(partition) == self.id;
        is_own.then(|| partition.0 / u32::from(self.settings.homes_count))
    }
}
