//! Partitions whose records an engine orders ([`crate::engine`]): from a publication to its record
//! in the tail, and from there to subscribers.
//!
//! Place on the path: [`Home::publish`](super::Home) proposes a publication, `pending` keeps its
//! publisher. The tail brings the records of all nodes; `dedup::once` judges each, as on every
//! other node. A record that is delivered is placed at the engine's offset and gets its `prev`;
//! from there on it does not differ from others.
//!
//! Invariants:
//!
//! - a publication is acknowledged by the verdict on its record, and by nothing else. So an
//!   acknowledgement never contradicts what subscribers see, on any node.
//! - a topic of the tail becomes known whatever `topics_max` says. A record that cannot be placed
//!   is lost for this node: memory begins behind it, so that its streams and positions get a gap,
//!   and it is counted.
//! - the proof of `prev` (see [`super`]) holds on each node by itself: a partition begins with
//!   F at the offset behind which the tail begins, and F rises with each record that is not served.
//! - the head is the newest record of the tail, and no hole behind it: so positions name records.
//!   A lineage begins behind the last record before it. All nodes know the same records, but not
//!   which leader made a hole: a position in one could be that of a lost record.
//! - the node serves and acknowledges nothing before it has read so much that its verdicts are
//!   those of all others. Earlier records are a gap, and the outcome of a publication is not known.
//! - letters are dealt with in their order, a bounded part of them in each turn; the rest waits,
//!   and the engine's credit bounds it.

mod ahead;
mod letters;
mod pending;
mod retained;
mod stamps;

pub(super) use ahead::Ahead;
pub(super) use letters::Letters;
pub use letters::TailState;
pub(super) use pending::Watch;

use super::Home;
use super::dedup::once::{Bounds, Once, Verdict};
use super::mirror::Found;
use super::partitions::HomePartition;
use super::publication::{Checked, Placed, Publisher};
use super::turn::Turn;
use super::work::Work;
use crate::engine::{CLOCKS_APART_MS, NAMES_MAX, Restart, RunName, Tail, TailRecord, WINDOW_MS};
use crate::mail::{Code, EdgeId, ToEdge};
use log::{AppendError, SEGMENT_HEADER_BYTES};
use pending::Pending;
use retained::Retains;
use stamps::Stamps;
use stdx::chunk::Slice;
use stdx::handing::Hand;
use stdx::hash::Seed;

/// Runs of nodes that a partition knows at once.
const RUNS_MAX: usize = 1_024;

/// The bounds of the window in which repetitions are recognised.
const BOUNDS: Bounds = Bounds {
    window_s: WINDOW_MS / 1_000,
    names_max: NAMES_MAX,
    runs_max: RUNS_MAX,
    clocks_apart_ms: CLOCKS_APART_MS,
};

/// A partition in an engine, beside its records in memory.
#[derive(Debug, Hand)]
pub(super) struct EnginePartition {
    seed: Seed,
    once: Once,
    pending: Pending,
    stamps: Stamps,
    /// The retained messages; none unless the topic is compacted.
    retains: Option<Box<Retains>>,
    /// The engine has a leader that takes records, as far as it has said.
    is_available: bool,
    /// The beginning of its present life at this node, without lineages; none before the first.
    began: Option<Began>,
    /// Everything up to this offset is settled. The log's head is the newest record before that, or
    /// the partition's beginning.
    through: u64,
    /// No record up to this offset is in memory; behind it, none is missing.
    evicted_through: u64,
    /// The last known time at which the engine had nothing more; milliseconds of the home's clock.
    ended_ms: Option<u64>,
    /// The log thread knows what the engine says of the records that follow.
    pub(super) is_described: bool,
    /// The content of a mirror at the start, until the tail has come up to it.
    pub(super) found: Option<Box<Found>>,
}

#[derive(Clone, Copy, Debug, Hand)]
struct Began {
    topic_id: u32,
    /// The newest lineage of that moment: epochs of it and of later ones are one life of the log.
    lineage: u32,
    primed_through: u64,
    head: u64,
}

impl EnginePartition {
    /// A partition that has not begun. `seed` is the home's secret, `run` its name in records; it
    /// may retain the newest record of each topic.
    pub fn new(seed: Seed, run: u64, retains_newest: bool) -> EnginePartition {
        EnginePartition {
            seed,
            once: Once::new(BOUNDS, seed, 0),
            pending: Pending::new(run),
            stamps: Stamps::default(),
            retains: retains_newest.then(Box::default),
            is_available: true,
            began: None,
            through: 0,
            evicted_through: 0,
            ended_ms: None,
            is_described: false,
            found: None,
        }
    }

    /// The least offset that a record in memory may have. Those before the oldest record may be
    /// holes, and nothing is missing there.
    pub fn floor(&self) -> u64 {
        self.evicted_through + 1
    }

    /// Records up to this offset are not in memory any more.
    pub fn evicted(&mut self, through: u64) {
        self.evicted_through = self.evicted_through.max(through);
    }

    /// The name of this start of the home in records.
    pub fn run(&self) -> u64 {
        self.pending.run()
    }

    /// Publications that wait for the tail.
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// Whether it takes no publications at present.
    pub fn is_closed(&self) -> bool {
        self.began.is_none() || !self.is_available || self.pending.is_stalled()
    }

    /// Names in the window of the tail.
    pub fn names_count(&self) -> usize {
        self.once.names_count()
    }

    /// Memory beside the records.
    pub fn memory_bytes(&self) -> usize {
        size_of::<EnginePartition>()
            + self.once.allocated_bytes()
            + self.pending.memory_bytes()
            + self.stamps.memory_bytes()
            + self.retains.as_deref().map_or(0, Retains::memory_bytes)
    }
}

impl Home {
    /// Names a record of this home that no publisher waits for.
    pub(super) fn next_engine_name(&mut self, local: u32) -> Option<RunName> {
        Some(self.engine_of(local)?.pending.next_name())
    }

    /// The offset up to which the tail of a partition is read.
    pub(super) fn tailed_through(&self, local: u32) -> Option<u64> {
        Some(self.partitions[local as usize].engine.as_deref()?.through)
    }

    fn engine_of(&mut self, local: u32) -> Option<&mut EnginePartition> {
        self.partitions[local as usize].engine.as_deref_mut()
    }

    /// Records of a partition have come, or holes between them have been settled.
    fn take_tail(&mut self, local: u32, tail: Tail, turn: &mut Turn<'_>) {
        let ended_ms = tail.ended_ago_ms.map(|ago_ms| self.elapsed.ms.saturating_sub(ago_ms));
        let Some(engine) = self.engine_of(local).filter(|engine| engine.began.is_some()) else {
            debug_assert!(false, "a partition begins before its records come");
            return;
        };
        if tail.through > engine.through {
            engine.pending.progressed();
        }
        for record in tail.records {
            self.take_record(local, record, turn);
        }
        if let Some(engine) = self.engine_of(local) {
            engine.through = engine.through.max(tail.through);
            engine.ended_ms = ended_ms.or(engine.ended_ms);
            if engine.found.is_some() {
                self.open_mirrored(local, tail.through);
            }
        }
        if self.has_come_to_head(local) {
            self.complete_shared(local, turn);
        }
        self.restore_due(local, turn);
        self.statistics.tail_letters += 1;
    }

    /// A record of the tail: judged, placed, acknowledged, delivered.
    fn take_record(&mut self, local: u32, record: TailRecord, turn: &mut Turn<'_>) {
        let seen_ms = self.elapsed.monotonic_at(self.elapsed.ms);
        if self.engine_of(local).is_some_and(|engine| engine.found.is_some()) {
            self.meet_mirrored(local, record.offset, record.lineage);
        }
        let Some(engine) = self.engine_of(local) else {
            return;
        };
        let Some(began) = engine.began.filter(|_| record.offset > engine.through) else {
            debug_assert!(false, "offsets of the tail rise");
            return;
        };
        if record.is_register {
            self.reach_record(local, record.offset, record.lineage, turn);
            self.partitions[local as usize].log.skip_to(record.offset + 1);
            return self.take_register(local, &record, turn);
        }
        let TailRecord { offset, lineage, time_ms, name, ref publication, ref restored, .. } =
            record;
        let mut retains = engine.retains.as_deref_mut();
        let is_filling = retains.as_deref_mut().is_some_and(|it| it.is_filling(time_ms));
        if is_filling || restored.is_some() {
            return self.take_unjudged(local, &record, turn);
        }
        let run = name.map(|RunName { run, counter }| (run, counter));
        let verdict = engine.once.judge(offset, time_ms, run, publication, seen_ms);
        let is_primed = engine.once.is_primed();
        if let Some(retains) = retains.filter(|_| !is_primed) {
            retains.passed_unsure(offset);
        }
        let is_served = offset > began.primed_through;
        let own = name.filter(|name| name.run == engine.pending.run());
        // Behind its counter none below is delivered any more: the verdict would be a copy. Records
        // before a beginning were not read, and a lost one may come back with its leader.
        let missed = own.map(|own| engine.pending.take_below(own.counter)).unwrap_or_default();
        let publisher = own.and_then(|own| engine.pending.take(own.counter));
        self.reach_record(local, offset, lineage, turn);
        for (publisher, names) in missed {
            self.leave_unknown(publisher, &names, turn);
        }
        let publisher = publisher.map(|(publisher, _)| publisher);
        if !is_primed {
            if verdict == Verdict::New && self.retains_newest(local) {
                self.retain_passed(local, &record);
                self.read_shared(local, &record, true, turn);
            }
            self.pass_record(local, offset, &record.publication.topic);
            self.answer_unprimed(local, verdict, publisher, turn);
        } else if verdict == Verdict::New {
            self.deliver_record(local, record, publisher, is_served, turn);
        } else {
            self.statistics.tail_dropped += u64::from(is_served);
            self.partitions[local as usize].log.skip_to(offset + 1);
            if self.retains_newest(local) {
                self.dropped_newest(local, &record);
            }
            self.answer_dropped(local, verdict, publisher, turn);
        }
    }

    /// Whether the newest record of each topic is its retained message.
    pub(super) fn retains_newest(&self, local: u32) -> bool {
        let engine = self.partitions[local as usize].engine.as_deref();
        engine.is_some_and(|engine| engine.retains.is_some())
    }

    /// Whether the tail has passed everything that was there at the partition's beginning.
    fn has_come_to_head(&self, local: u32) -> bool {
        let engine = self.partitions[local as usize].engine.as_deref();
        engine.is_some_and(|it| it.began.is_some_and(|began| it.through >= began.head))
    }

    /// The tail has come to a record, of this lineage.
    fn reach_record(&mut self, local: u32, offset: u64, lineage: u32, turn: &mut Turn<'_>) {
        if let Some(engine) = self.engine_of(local) {
            engine.through = offset;
        }
        self.statistics.tail_records += 1;
        let partition = &mut self.partitions[local as usize];
        if partition.lineages.advance(lineage, partition.log.head() + 1) {
            if let Some(engine) = self.engine_of(local) {
                engine.is_described = false;
            }
            self.post_epoch(local, false, turn);
        }
    }

    /// A record without a verdict: a restoration, or one of a beginning where the engine may have
    /// removed records between.
    fn take_unjudged(&mut self, local: u32, record: &TailRecord, turn: &mut Turn<'_>) {
        let TailRecord { offset, lineage, ref publication, ref restored, .. } = *record;
        self.reach_record(local, offset, lineage, turn);
        match restored.as_deref() {
            Some(restored) => {
                self.partitions[local as usize].log.skip_to(offset + 1);
                self.take_restoration(local, record, *restored);
            }
            None => {
                if let Some(retains) =
                    self.engine_of(local).and_then(|engine| engine.retains.as_deref_mut())
                {
                    retains.passed_unsure(offset);
                }
                self.retain_passed(local, record);
                self.pass_record(local, offset, &publication.topic);
            }
        }
        self.read_shared(local, record, true, turn);
    }

    /// A record that is delivered; below the offset that this node serves it is only acknowledged.
    fn deliver_record(
        &mut self,
        local: u32,
        record: TailRecord,
        publisher: Option<Publisher>,
        is_served: bool,
        turn: &mut Turn<'_>,
    ) {
        let offset = record.offset;
        if let Some(publisher) = publisher {
            self.acknowledge(publisher, local, (offset, false, false), turn);
        }
        let retains = self.retains_newest(local);
        if retains {
            self.read_shared(local, &record, false, turn);
        }
        if !is_served {
            if retains {
                self.retain_passed(local, &record);
            }
            return self.pass_record(local, offset, &record.publication.topic);
        }
        match self.place_tailed(local, &record, turn) {
            Ok(placed) => {
                if retains {
                    let Placed { topic, record: ref slice, .. } = placed;
                    self.retain_placed(local, topic, offset, slice, &record.publication);
                }
                self.statistics.published += 1;
                self.interests.refresh(placed.topic, turn.out);
                let slice = placed.record.clone();
                self.fan_out(placed, turn);
                self.mirror(local, &record.publication.topic, slice, turn);
            }
            Err(_) => self.lose_record(local, offset, turn),
        }
    }

    /// Answers the publisher of a record on which other nodes may have another verdict. Only a
    /// record that was delivered is known as that.
    fn answer_unprimed(
        &mut self,
        local: u32,
        verdict: Verdict,
        publisher: Option<Publisher>,
        turn: &mut Turn<'_>,
    ) {
        let is_known = matches!(verdict, Verdict::Duplicate(_));
        let verdict = if is_known { verdict } else { Verdict::Unknown };
        self.answer_dropped(local, verdict, publisher, turn);
    }

    /// A record that only primes the recognition of repetitions: the node serves nothing up to it.
    /// No subscription is granted before the tail has passed those of the beginning, so only later
    /// ones are missing in a stream.
    fn pass_record(&mut self, local: u32, offset: u64, topic: &[u8]) {
        let partition = &mut self.partitions[local as usize];
        partition.forgotten_through = offset;
        partition.log.skip_to(offset + 1);
        let mut is_of_beginning = false;
        if let Some(engine) = partition.engine.as_deref_mut() {
            engine.evicted(offset);
            is_of_beginning = engine.began.is_some_and(|began| offset <= began.primed_through);
        }
        self.break_mirror(local, offset);
        let known = self.interests.topics.find(topic, local);
        if let Some(entry) = known.and_then(|topic| self.interests.topics.get_mut(topic)) {
            entry.set_last(offset);
        }
        if !is_of_beginning && (known.is_some() || self.interests.filters.len() > 0) {
            self.break_streams(local, offset);
        }
    }

    /// All streams of a partition have lost a record that memory has not.
    fn break_streams(&mut self, local: u32, offset: u64) {
        let partition = &mut self.partitions[local as usize];
        for (lag_from, edge) in partition.lag_from.iter_mut().zip(&mut self.interests.edges) {
            if *lag_from == 0 {
                *lag_from = offset;
                edge.lagging.push_back(local);
            }
        }
    }

    /// Answers the publisher of a record that is dropped.
    fn answer_dropped(
        &mut self,
        local: u32,
        verdict: Verdict,
        publisher: Option<Publisher>,
        turn: &mut Turn<'_>,
    ) {
        let Some(publisher) = publisher else {
            return;
        };
        let code = match verdict {
            Verdict::Duplicate(first) => return self.repeated(publisher, local, first, turn),
            Verdict::OutOfOrder => Code::OutOfOrder,
            Verdict::Fenced => Code::ProducerFenced,
            // It came behind a later one of this run: it is not in the log, nor ever will be.
            Verdict::Copy => Code::LogUnavailable,
            Verdict::New | Verdict::Unknown => Code::OutcomeUnknown,
        };
        self.refuse_publication(publisher, code.into(), turn);
    }

    /// Puts a record of the tail into memory.
    fn place_tailed(
        &mut self,
        local: u32,
        record: &TailRecord,
        turn: &mut Turn<'_>,
    ) -> Result<Placed, Code> {
        let TailRecord { offset, time_ms, ref publication, .. } = *record;
        let checked = Checked::tailed(local, publication)?;
        let share = self.partitions[local as usize].share;
        let needed = checked.record_bytes + SEGMENT_HEADER_BYTES as u64;
        let mut has_room = self.make_room(share, needed, turn);
        while has_room {
            // Eviction may have made the topic unknown.
            let (topic, prev) = self.topic_and_last(local, &publication.topic)?;
            let new = checked.record(time_ms, topic, prev, publication);
            match self.hold(local, |log| log.append(turn.memory, Some(offset), &new)) {
                Ok(appended) => {
                    if let Some(entry) = self.interests.topics.get_mut(topic) {
                        entry.set_last(offset);
                    }
                    return Ok(Placed { local, topic, offset, record: appended.slice });
                }
                Err(AppendError::Memory(_)) => has_room = self.evict_oldest(share, turn),
                Err(_) => has_room = false,
            }
        }
        // No room even for it alone. It is delivered, and memory begins behind it.
        while self.evict_segment(local, turn) {}
        let (topic, prev) = self.topic_and_last(local, &publication.topic)?;
        let new = checked.record(time_ms, topic, prev, publication);
        let mut head = Vec::new();
        new.encode_head(offset, &mut head).map_err(|_| Code::Internal)?;
        let slice = Slice::concatenation_of(&[&head, &publication.payload]);
        self.partitions[local as usize].log.skip_to(offset + 1);
        if let Some(engine) = self.engine_of(local) {
            engine.evicted(offset);
        }
        if let Some(entry) = self.interests.topics.get_mut(topic) {
            entry.set_last(offset);
        }
        self.statistics.uncached += 1;
        Ok(Placed { local, topic, offset, record: slice })
    }

    /// The topic, which becomes known if it was not, and the offset that its next record names as
    /// the one before.
    fn topic_and_last(&mut self, local: u32, name: &[u8]) -> Result<(u32, u64), Code> {
        let topic = match self.interests.topics.find(name, local) {
            Some(topic) => topic,
            None => self.insert_topic(name, local)?,
        };
        let last = self.interests.topics.get(topic).map_or(0, |topic| topic.last());
        Ok((topic, self.partitions[local as usize].reach(last)))
    }

    /// A record that cannot be kept nor delivered: memory begins behind it, and all streams of the
    /// partition have lost it.
    fn lose_record(&mut self, local: u32, offset: u64, turn: &mut Turn<'_>) {
        while self.evict_segment(local, turn) {}
        let partition = &mut self.partitions[local as usize];
        partition.log.skip_to(offset + 1);
        if let Some(engine) = partition.engine.as_deref_mut() {
            engine.evicted(offset);
            if let Some(retains) = engine.retains.as_deref_mut() {
                retains.lost();
            }
        }
        // Topics that become known again, or are known without a record, may have had it.
        partition.damaged_through = partition.damaged_through.max(offset);
        self.break_mirror(local, offset);
        self.break_streams(local, offset);
        self.statistics.tail_lost += 1;
    }

    /// Begins a partition, or begins it anew: nothing that this node knew of it holds.
    fn restart_partition(&mut self, local: u32, restart: &Restart, turn: &mut Turn<'_>) {
        while self.evict_segment(local, turn) {}
        let partition = &mut self.partitions[local as usize];
        let Some(engine) = partition.engine.as_deref_mut() else {
            return;
        };
        let Restart { topic_id, after, primed_through, head, complete_from_ms, .. } = *restart;
        let primed_through = primed_through.max(after);
        let lineage = restart.lineages.last().map_or(0, |last| last.lineage);
        engine.once = Once::new(BOUNDS, engine.seed, complete_from_ms);
        engine.began = Some(Began { topic_id, lineage, primed_through, head });
        engine.through = after;
        engine.evicted_through = after;
        engine.ended_ms = None;
        engine.pending.progressed();
        let retains = engine.retains.as_deref_mut();
        let retains = retains.map(|retains| retains.begin(after, complete_from_ms)).is_some();
        partition.lineages = crate::position::Lineages::of_engine(restart);
        partition.log.begin_anew(after + 1, partition.lineages.present_epoch());
        partition.forgotten_through = after;
        partition.damaged_through = 0;
        partition.lag_from.fill(0);
        for edge in &mut self.interests.edges {
            edge.lagging.retain(|lagging| *lagging != local);
        }
        for topic in 0..self.interests.topics.places() {
            if let Some(entry) = self.interests.topics.get_mut(topic)
                && entry.partition == local
            {
                entry.set_last(after);
            }
        }
        if retains {
            self.forget_retained(local);
            self.restart_shared(local, turn);
        }
        self.restart_groups(local);
        // Pages behind a head of the former life: their subscriptions have ended.
        let scans = self.scans_ahead.extract_if(.., |(_, scan)| scan.local == local);
        for (from, scan) in scans {
            self.queue.push(Work::Scan(from, scan));
        }
        self.begin_mirrored(local, primed_through, restart.follows_mirror, turn);
        self.statistics.tail_restarts += 1;
        self.post_epoch(local, true, turn);
    }

    /// Posts the present epoch of a partition to all edges.
    fn post_epoch(&self, local: u32, is_restarted: bool, turn: &mut Turn<'_>) {
        let HomePartition { id: partition, lineages, .. } = &self.partitions[local as usize];
        let (partition, epoch) = (*partition, lineages.present_epoch());
        for edge in (0..self.settings.edges_count).map(EdgeId) {
            let letter = if is_restarted {
                ToEdge::Restarted { partition, epoch }
            } else {
                ToEdge::Epoch { partition, epoch }
            };
            turn.out.post(edge, letter);
        }
    }
}
