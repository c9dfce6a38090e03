//! Publications that an engine has been asked to append, until the tail answers.
//!
//! A publication waits for its record, for as long as the partition's leader is away. Three times
//! bound what that costs, each partition by itself:
//!
//! - after [`LANE_MS_MAX`] the requests of a partition count no longer against their edge's bound
//!   of requests under way, so that other partitions of the log have room. Until the oldest is
//!   answered, the partition's publications together are bounded here ([`SLOW_BYTES_MAX`]).
//! - after `log_stall_timeout` the partition *stalls*: new publications are refused at once. One at
//!   a time is let through when all have been answered, to find out. The tail ends the stall.
//! - after [`OUTCOME_MS_MAX`] a publication is answered with `outcome_unknown`: its record may
//!   still appear. A repetition with its sequence or key is recognised then, on any node.

use super::super::dedup::Names;
use super::super::publication::{Checked, Publisher};
use super::super::turn::Turn;
use super::super::work::Caller;
use super::Home;
use crate::engine::{EnginePublish, EngineRequest, RunName};
use crate::mail::{Code, ProducerStamp, Publication, Publish, PublishRefusal};
use crate::position::Position;
use std::collections::BTreeMap;
use stdx::handing::Hand;
use stdx::memory::tree_bytes;

/// Requests that have waited for longer do not hold up other partitions, in milliseconds.
const LANE_MS_MAX: u64 = 250;
/// A publication without a record is answered after this time, in milliseconds.
const OUTCOME_MS_MAX: u64 = 30_000;
/// Bytes of publications that wait in a partition whose oldest has waited for [`LANE_MS_MAX`].
const SLOW_BYTES_MAX: u64 = 8 << 20;
/// The bytes of a publication beside its own.
const PENDING_BYTES: u64 = 256;
/// The maximum that one look at the clock adds, in milliseconds: a thread that did not run does
/// not make an engine silent.
const STEP_MS_MAX: u64 = 1_000;

/// The time by which pending publications are watched.
#[derive(Debug, Default, Hand)]
pub(in crate::home) struct Watch {
    now_ms: u64,
    looked_ms: Option<u64>,
}

impl Watch {
    fn look(&mut self, elapsed_ms: u64) -> u64 {
        let looked_ms = self.looked_ms.replace(elapsed_ms).unwrap_or(elapsed_ms);
        self.now_ms += elapsed_ms.saturating_sub(looked_ms).min(STEP_MS_MAX);
        self.now_ms
    }
}

/// The pending publications of one partition.
#[derive(Debug, Hand)]
pub(super) struct Pending {
    run: u64,
    /// The counter of the newest.
    last: u64,
    waiting: BTreeMap<u64, Waiting>,
    bytes: u64,
    /// The requests do not count against their edges' bounds at present.
    is_slow: bool,
    is_stalled: bool,
}

#[derive(Debug, Hand)]
struct Waiting {
    publisher: Publisher,
    names: Names,
    bytes: u64,
    since_ms: u64,
}

impl Pending {
    pub fn new(run: u64) -> Pending {
        Pending {
            run,
            last: 0,
            waiting: BTreeMap::new(),
            bytes: 0,
            is_slow: false,
            is_stalled: false,
        }
    }

    /// The name of this start of the home in records.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Names a record of this run that no publisher waits for.
    pub fn next_name(&mut self) -> RunName {
        self.last += 1;
        RunName { run: self.run, counter: self.last }
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn is_stalled(&self) -> bool {
        self.is_stalled
    }

    pub fn memory_bytes(&self) -> usize {
        tree_bytes(self.waiting.len(), size_of::<(u64, Waiting)>())
    }

    /// The tail has come on, or the partition takes publications again.
    pub fn progressed(&mut self) {
        self.is_stalled = false;
    }

    /// Takes a publication out.
    pub fn take(&mut self, counter: u64) -> Option<(Publisher, Names)> {
        let Waiting { publisher, names, bytes, .. } = self.waiting.remove(&counter)?;
        self.bytes -= bytes;
        if self.waiting.is_empty() {
            self.is_slow = false;
        }
        Some((publisher, names))
    }

    /// Takes all publications below a counter out.
    pub fn take_below(&mut self, counter: u64) -> Vec<(Publisher, Names)> {
        let mut taken = Vec::new();
        while let Some(&first) = self.waiting.keys().next().filter(|first| **first < counter) {
            taken.extend(self.take(first));
        }
        taken
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.waiting.is_empty()
            || !self.is_stalled && (!self.is_slow || self.bytes + bytes <= SLOW_BYTES_MAX)
    }

    fn age_ms(&self, now_ms: u64) -> Option<u64> {
        let (_, oldest) = self.waiting.first_key_value()?;
        Some(now_ms.saturating_sub(oldest.since_ms))
    }

    /// The next age at which something is due.
    fn due_age_ms(&self, stall_ms: u64) -> u64 {
        if !self.is_slow {
            LANE_MS_MAX
        } else if !self.is_stalled {
            stall_ms.min(OUTCOME_MS_MAX)
        } else {
            OUTCOME_MS_MAX
        }
    }
}

impl Home {
    /// Proposes a publication to the engine; the tail answers.
    pub(in crate::home) fn publish_to_engine(
        &mut self,
        local: u32,
        from: Caller,
        publish: &Publish,
        turn: &mut Turn<'_>,
    ) {
        let publisher = Publisher { from, reply: publish.reply };
        let names = self.dedup.names_of(local, &publish.publication);
        let proposed = match self.check_life(local, &publish.publication) {
            Ok(()) => self
                .propose_to_engine(local, publisher, publish, &names, turn)
                .map_err(PublishRefusal::from),
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = proposed {
            if publisher.is_asked() {
                self.dedup.refused(self.elapsed.ms, &names, refusal.code);
            }
            self.refuse_publication(publisher, refusal, turn);
        }
    }

    /// Whether the partition lives as the publisher expects. A lineage that has lost nothing is no
    /// other life.
    fn check_life(&self, local: u32, publication: &Publication) -> Result<(), PublishRefusal> {
        let partition = &self.partitions[local as usize];
        let Some(expected) = publication.expected_epoch else {
            return Ok(());
        };
        let began = partition.engine.as_deref().and_then(|engine| engine.began);
        let epoch = partition.lineages.present_epoch();
        let is_same = began.is_some_and(|began| {
            let of_topic = u64::from(began.topic_id) << 32;
            (of_topic | u64::from(began.lineage)..=epoch).contains(&expected)
        });
        let present = Some(Position { epoch, offset: partition.log.head() });
        is_same.then_some(()).ok_or(PublishRefusal { code: Code::EpochMismatch, present })
    }

    fn propose_to_engine(
        &mut self,
        local: u32,
        publisher: Publisher,
        publish: &Publish,
        names: &Names,
        turn: &mut Turn<'_>,
    ) -> Result<(), Code> {
        let Publish { rule, ref publication, partition, .. } = *publish;
        if publication.retain && !self.retains_newest(local) {
            return Err(Code::RetainedUnsupported);
        }
        if publisher.is_asked() {
            self.dedup.held(self.elapsed.ms, names)?;
        }
        let checked = self.check(local, rule, publication, turn.found)?;
        let Checked { record_bytes, rate_max, .. } = checked;
        if self.retains_newest(local) {
            self.check_retained(local, publication, record_bytes)?;
        }
        let bytes = record_bytes + publication.topic.len() as u64 + PENDING_BYTES;
        let engine = self.engine_of(local).ok_or(Code::Internal)?;
        if engine.began.is_none() || !engine.is_available || !engine.pending.has_room(bytes) {
            return Err(Code::LogUnavailable);
        }
        if let Some(rate_max) = rate_max
            && !self.rates.take(self.elapsed.ms, &publication.topic, rate_max)
        {
            return Err(Code::RateLimited);
        }
        let producer = match (&publication.producer, names.producer_identity()) {
            (Some(stamp), Some(identity)) => {
                let connection = self.engine_stamp(local, identity, stamp, turn.now_ms)?;
                Some(ProducerStamp { connection, ..stamp.clone() })
            }
            _ => None,
        };
        let publication = Publication { producer, expected_epoch: None, ..publication.clone() };
        let released = publisher.from;
        let since_ms = self.watch.look(self.elapsed.ms);
        let engine = self.engine_of(local).ok_or(Code::Internal)?;
        let pending = &mut engine.pending;
        pending.bytes += bytes;
        let name = pending.next_name();
        let is_slow = pending.is_slow;
        let from = if is_slow { publisher.from.consumed() } else { publisher.from };
        let publisher = Publisher { from, ..publisher };
        let waiting = Waiting { publisher, names: *names, bytes, since_ms };
        pending.waiting.insert(name.counter, waiting);
        if is_slow {
            self.consumed(released);
        }
        let publish =
            EnginePublish { partition, name, publication, restored: None, is_register: false };
        turn.out.engine.push(EngineRequest::Publish(publish));
        Ok(())
    }

    /// Looks at the age of pending publications.
    pub(in crate::home) fn watch_engine(&mut self, turn: &mut Turn<'_>) {
        if !self.settings.has_engine_logs() {
            return;
        }
        let now_ms = self.watch.look(self.elapsed.ms);
        let stall_ms = u64::from(self.settings.limits.log_stall_timeout_ms);
        for local in 0..self.partitions.len() as u32 {
            if let Some(engine) = self.engine_of(local)
                && engine.pending.age_ms(now_ms).is_none_or(|age_ms| age_ms < LANE_MS_MAX)
            {
                engine.pending.is_slow = false;
            }
            self.restore_due(local, turn);
            while let Some(engine) = self.engine_of(local)
                && let Some(age_ms) = engine.pending.age_ms(now_ms)
                && age_ms >= engine.pending.due_age_ms(stall_ms)
            {
                self.pending_is_due(local, age_ms, stall_ms, turn);
            }
        }
    }

    fn pending_is_due(&mut self, local: u32, age_ms: u64, stall_ms: u64, turn: &mut Turn<'_>) {
        let Some(engine) = self.engine_of(local) else {
            return;
        };
        let pending = &mut engine.pending;
        if !pending.is_slow {
            pending.is_slow = true;
            let callers = pending.waiting.values_mut().map(|waiting| &mut waiting.publisher.from);
            let counted = callers.filter(|from| !from.is_consumed);
            let released: Vec<Caller> =
                counted.map(|from| std::mem::replace(from, from.consumed())).collect();
            for from in released {
                self.consumed(from);
            }
        } else if age_ms >= OUTCOME_MS_MAX {
            let oldest = pending.waiting.keys().next().copied();
            let taken = oldest.and_then(|oldest| pending.take(oldest));
            pending.is_stalled |= stall_ms <= OUTCOME_MS_MAX;
            if let Some((publisher, names)) = taken {
                self.leave_unknown(publisher, &names, turn);
            }
        } else {
            pending.is_stalled = true;
            self.statistics.tail_stalls += 1;
        }
    }

    /// Answers that this node does not know whether a publication is in the log.
    pub(super) fn leave_unknown(
        &mut self,
        publisher: Publisher,
        names: &Names,
        turn: &mut Turn<'_>,
    ) {
        self.statistics.outcomes_unknown += 1;
        if publisher.is_asked() {
            self.dedup.refused(self.elapsed.ms, names, Code::OutcomeUnknown);
        }
        self.refuse_publication(publisher, Code::OutcomeUnknown.into(), turn);
    }

    /// The time of the next look; milliseconds of the home's clock.
    pub(in crate::home) fn next_look_at_engine(&self) -> Option<u64> {
        if !self.settings.has_engine_logs() {
            return None;
        }
        let stall_ms = u64::from(self.settings.limits.log_stall_timeout_ms);
        let left_ms = |pending: &Pending| {
            let age_ms = pending.age_ms(self.watch.now_ms)?;
            Some(pending.due_age_ms(stall_ms).saturating_sub(age_ms))
        };
        let engines = self.partitions.iter().filter_map(|partition| partition.engine.as_deref());
        let restored_ms = engines.clone().filter_map(|engine| engine.retains.as_deref()?.next_ms());
        let restored_ms = restored_ms.min();
        let soonest_ms = engines.filter_map(|engine| left_ms(&engine.pending)).min();
        let looked_ms = self.watch.looked_ms.unwrap_or(self.elapsed.ms);
        let looked_at_ms = soonest_ms.map(|left_ms| looked_ms + left_ms.min(STEP_MS_MAX));
        looked_at_ms.into_iter().chain(restored_ms).min()
    }
}
