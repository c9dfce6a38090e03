//! Publishing: checks, room, append, acknowledgement; retained messages.
//!
//! Every publication is proposed to the sequencer of its partition (`proposals`). One that waits
//! for the answer lies in `staging`, and comes back here when its record is placed: from there on
//! all take the same path. Publications to an engine are proposed by `engine`.
//!
//! Invariant: a refused publication has no effect that a client could see, and an acknowledged one
//! lies in the log.

use super::Home;
use super::dedup::{Names, Noted, Verdict};
use super::partitions::{HomePartition, SEGMENT_AGE_PART};
use super::proposals::Proposed;
use super::publication::{Checked, Placed, Publisher, RecordAttributes, code_of, flags_of};
use super::topics::NONE;
use super::turn::Turn;
use super::work::Caller;
use crate::mail::{Appended, Code, Publication, Publish, PublishRefusal, ToEdge};
use crate::position::Position;
use log::{AppendError, Flags, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES};
use stdx::chunk::Slice;

/// The result of a publication.
enum Outcome {
    /// The publication was appended.
    Placed(Placed),
    /// The publication had been appended before, in this partition and at this offset.
    Duplicate(u32, u64),
    /// It, or what it repeats, is staged, and answered later.
    Waits,
}

impl Home {
    pub(super) fn publish(&mut self, from: Caller, publish: &Publish, turn: &mut Turn<'_>) {
        if let Some(local) = self.local(publish.partition)
            && self.partitions[local as usize].engine.is_some()
        {
            return self.publish_to_engine(local, from, publish, turn);
        }
        let publisher = Publisher { from, reply: publish.reply };
        match self.place(publisher, publish, turn) {
            Ok(Outcome::Placed(placed)) => self.published(publisher, placed, turn),
            Ok(Outcome::Duplicate(local, offset)) => {
                self.repeated(publisher, local, offset, turn);
            }
            Ok(Outcome::Waits) => {}
            Err(refusal) => self.refuse_publication(publisher, refusal, turn),
        }
    }

    /// Looks at the epoch, then proposes a publication; one that is refused for the moment holds
    /// those that follow it.
    fn place(
        &mut self,
        publisher: Publisher,
        publish: &Publish,
        turn: &mut Turn<'_>,
    ) -> Result<Outcome, PublishRefusal> {
        let Publish { partition, ref publication, .. } = *publish;
        let local = self.local(partition).ok_or(Code::Internal)?;
        let HomePartition { lineages, log, .. } = &self.partitions[local as usize];
        let (epoch, head) = (lineages.present_epoch(), log.head());
        if publication.expected_epoch.is_some_and(|expected| expected != epoch) {
            return Err(PublishRefusal {
                code: Code::EpochMismatch,
                present: Some(Position { epoch, offset: head }),
            });
        }
        let names = self.dedup.names_of(local, publication);
        let placed = self.place_once(publisher, local, publish, &names, turn);
        if let Err(code) = placed
            && publisher.is_asked()
        {
            self.dedup.refused(self.elapsed.ms, &names, code);
        }
        Ok(placed?)
    }

    /// Proposes a publication of the present epoch, unless that has been done before.
    fn place_once(
        &mut self,
        publisher: Publisher,
        local: u32,
        publish: &Publish,
        names: &Names,
        turn: &mut Turn<'_>,
    ) -> Result<Outcome, Code> {
        let Publish { rule, ref publication, .. } = *publish;
        if !names.is_empty() {
            match self.dedup.check(self.elapsed.ms, names, publisher.is_asked())? {
                Verdict::New => {}
                Verdict::Duplicate(offset) => return Ok(Outcome::Duplicate(local, offset)),
                Verdict::Proposed(proposal) => {
                    self.wait_for_staged(local, proposal, publisher)?;
                    return Ok(Outcome::Waits);
                }
            }
        }
        let checked = self.check(local, rule, publication, turn.found)?;
        if let Some(rate_max) = checked.rate_max
            && !self.rates.take(self.elapsed.ms, &publication.topic, rate_max)
        {
            return Err(Code::RateLimited);
        }
        let (outcome, noted) = match self.propose(publisher, publication, &checked, turn)? {
            Proposed::Placed(placed) => {
                let noted = Noted::At(placed.offset);
                (Outcome::Placed(placed), noted)
            }
            Proposed::Waits(proposal) => (Outcome::Waits, Noted::Proposed(proposal)),
        };
        if !names.is_empty() {
            self.dedup.note(self.elapsed.ms, local, names, noted);
        }
        Ok(outcome)
    }

    /// The record lies in the log: acknowledges it and sends it to every edge with interest.
    pub(super) fn published(&mut self, publisher: Publisher, placed: Placed, turn: &mut Turn<'_>) {
        self.interests.refresh(placed.topic, turn.out);
        let is_unheard = publisher.is_asked() && !self.is_heard(placed.topic);
        let (local, offset) = (placed.local, placed.offset);
        self.acknowledge(publisher, local, (offset, false, is_unheard), turn);
        self.statistics.published += 1;
        self.fan_out(placed, turn);
    }

    /// Answers a publication that had been published before, at this offset.
    pub(super) fn repeated(
        &mut self,
        publisher: Publisher,
        local: u32,
        offset: u64,
        turn: &mut Turn<'_>,
    ) {
        self.acknowledge(publisher, local, (offset, true, false), turn);
        self.statistics.duplicates += 1;
    }

    pub(super) fn acknowledge(
        &mut self,
        publisher: Publisher,
        local: u32,
        (offset, duplicate, is_unheard): (u64, bool, bool),
        turn: &mut Turn<'_>,
    ) {
        self.consumed(publisher.from);
        if let Some(reply) = publisher.waiting() {
            let epoch = self.partitions[local as usize].lineages.present_epoch();
            let position = Position { epoch, offset };
            let result = Ok(Appended { position, duplicate, is_unheard });
            turn.out.post(publisher.from.edge, ToEdge::Published { reply, result });
        }
    }

    pub(super) fn refuse_publication(
        &mut self,
        publisher: Publisher,
        refusal: PublishRefusal,
        turn: &mut Turn<'_>,
    ) {
        self.consumed(publisher.from);
        self.statistics.refused.count(refusal.code);
        if let Some(reply) = publisher.reply {
            let result = Err(refusal);
            turn.out.post(publisher.from.edge, ToEdge::Published { reply, result });
        }
    }

    pub(super) fn check<'a>(
        &self,
        local: u32,
        rule: u16,
        publication: &'a Publication,
        found: Option<u32>,
    ) -> Result<Checked<'a>, Code> {
        let rule = self.settings.rule_of(rule, || &publication.topic);
        let payload_bytes = publication.payload.len() as u64;
        let limit = rule.message_bytes_max.min(self.settings.limits.message_bytes_max);
        if payload_bytes > u64::from(limit) {
            return Err(Code::MessageTooLarge);
        }
        let share = &self.shares[self.partitions[local as usize].share];
        if share.disk.as_ref().is_some_and(|disk| !disk.takes_appends()) {
            return Err(Code::LogUnavailable);
        }
        let topics = &self.interests.topics;
        let known = found
            .filter(|topic| topics.is(*topic, &publication.topic, local))
            .or_else(|| topics.find(&publication.topic, local));
        if known.is_none() && self.is_full_of_topics() {
            return Err(Code::TopicsFull);
        }
        let attributes = RecordAttributes::of(publication).ok_or(Code::MalformedFrame)?;
        let record_bytes = attributes.fields_bytes + (RECORD_HEADER_BYTES as u64) + payload_bytes;
        if self.is_full_of_staged(self.partitions[local as usize].share, record_bytes) {
            return Err(Code::LogUnavailable);
        }
        let retains = publication.retain && payload_bytes > 0;
        if retains {
            let before = known.map_or(0, |topic| self.retained_bytes_expected(topic));
            if share.retained_bytes_expected() - before + record_bytes > share.retained_bytes_max {
                return Err(Code::RetainedFull);
            }
        }
        let mut flags = flags_of(publication);
        if publication.retain {
            flags = flags.with(Flags::RETAINED);
        }
        let rate_max = rule.rate_max();
        Ok(Checked { local, known, flags, attributes, record_bytes, retains, rate_max })
    }

    /// Appends to a log in memory, making room for it.
    pub(super) fn append(
        &mut self,
        publication: &Publication,
        checked: &Checked<'_>,
        turn: &mut Turn<'_>,
    ) -> Result<Placed, Code> {
        let share = self.partitions[checked.local as usize].share;
        let needed = checked.record_bytes + SEGMENT_HEADER_BYTES as u64;
        if !self.make_room(share, needed, turn) {
            return Err(Code::LogFull);
        }
        let placed = loop {
            match self.append_once(publication, checked, turn) {
                Ok(placed) => break placed,
                // The port may bound more than this log; its oldest segment is what would go next
                // anyway. But nothing goes for a record that could not be taken even then.
                Err(Code::MemoryFull)
                    if self.allocated_bytes(share) >= needed && self.evict_oldest(share, turn) => {}
                Err(code) => return Err(code),
            }
        };
        if publication.retain {
            self.retain(placed.topic, share, checked.retains.then_some(&placed.record));
        }
        Ok(placed)
    }

    /// Appends, making the topic known if it is not; eviction may have made it so between two
    /// attempts.
    fn append_once(
        &mut self,
        publication: &Publication,
        checked: &Checked<'_>,
        turn: &mut Turn<'_>,
    ) -> Result<Placed, Code> {
        let Checked { local, known, .. } = *checked;
        let topics = &self.interests.topics;
        let known = known.filter(|topic| topics.is(*topic, &publication.topic, local));
        let topic = match known {
            Some(topic) => topic,
            None => self.add_topic(&publication.topic, local)?,
        };
        let prev = self.interests.topics.get(topic).map_or(0, |topic| topic.last());
        let record = checked.record(turn.now_ms, topic, prev, publication);
        let appended = self.hold(local, |log| log.append(turn.memory, None, &record));
        match appended {
            Ok(appended) => {
                if let Some(topic) = self.interests.topics.get_mut(topic) {
                    topic.set_last(appended.offset);
                }
                Ok(Placed { local, topic, offset: appended.offset, record: appended.slice })
            }
            Err(error) => {
                if known.is_none() {
                    self.interests.topics.remove(topic);
                }
                Err(code_of(error))
            }
        }
    }

    /// Appends to the memory of a partition, and notes what that takes and since when.
    pub(super) fn hold(
        &mut self,
        local: u32,
        append: impl FnOnce(&mut log::Partition) -> Result<log::Appended, AppendError>,
    ) -> Result<log::Appended, AppendError> {
        let partition = &mut self.partitions[local as usize];
        let share = &mut self.shares[partition.share];
        let steady_ms = self.elapsed.ms;
        let age = steady_ms.saturating_sub(partition.active_since);
        if age > share.age_max_ms / SEGMENT_AGE_PART {
            partition.log.seal();
        }
        let (segments, bytes) = (partition.log.segments(), partition.log.bytes());
        let appended = append(&mut partition.log);
        if partition.log.segments() > segments {
            if partition.ages.is_empty() && share.age_max_ms < u64::MAX {
                let expiry_ms = steady_ms.saturating_add(share.age_max_ms).saturating_add(1);
                self.expiry_ms = self.expiry_ms.min(expiry_ms);
            }
            partition.ages.push_back(steady_ms);
            partition.active_since = steady_ms;
        }
        share.bytes += (partition.log.bytes() - bytes) as u64;
        if appended.is_ok()
            && let Some(newest) = partition.ages.back_mut()
        {
            *newest = steady_ms;
        }
        appended
    }

    pub(super) fn is_full_of_topics(&self) -> bool {
        self.interests.topics.len() >= self.settings.limits.topics_max as usize
    }

    /// Makes a topic known. Nothing says when it last had a record, except that it was not after
    /// `forgotten_through`.
    pub(super) fn add_topic(&mut self, name: &[u8], local: u32) -> Result<u32, Code> {
        if self.is_full_of_topics() {
            return Err(Code::TopicsFull);
        }
        self.insert_topic(name, local)
    }

    /// Makes a topic known, whatever `topics_max` says.
    pub(super) fn insert_topic(&mut self, name: &[u8], local: u32) -> Result<u32, Code> {
        let last = self.partitions[local as usize].forgotten_through;
        let stale = self.interests.filters.version.wrapping_sub(1);
        self.interests.topics.insert(name, local, last, stale).ok_or(Code::MemoryFull)
    }

    /// Replaces the retained message by a copy of the record, or removes it. The copy lets the
    /// segment go.
    pub(super) fn retain(&mut self, topic: u32, share: usize, record: Option<&Slice>) {
        let before = self.retained_bytes_of(topic);
        let Some(entry) = self.interests.topics.get_mut(topic) else {
            return;
        };
        self.retained.remove(entry.retained);
        entry.retained = match record {
            Some(record) => self.retained.insert(Slice::copy_of(record)),
            None => NONE,
        };
        let after = record.map_or(0, |record| record.len() as u64);
        let share = &mut self.shares[share];
        share.retained_bytes = share.retained_bytes - before + after;
    }

    pub(super) fn retained_bytes_of(&self, topic: u32) -> u64 {
        let place = self.interests.topics.get(topic).map_or(NONE, |topic| topic.retained);
        self.retained.get(place).map_or(0, |record| record.len() as u64)
    }
}
