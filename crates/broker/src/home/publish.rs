//! Publishing: checks, room, append, acknowledgement; retained messages.
//!
//! Publications to a log in memory are appended at once; those to a log on disk go through
//! `staging` and come back here when they are durable: from there on both take the same path.
//!
//! Invariant: what is refused has changed nothing that anybody could see, and what is acknowledged
//! lies in the log.

use super::Home;
use super::dedup::{Names, Verdict};
use super::partitions::{HomePartition, SEGMENT_AGE_PART};
use super::publication::{Checked, Placed, RecordAttributes, code_of, is_asked};
use super::topics::NONE;
use super::turn::Turn;
use super::work::Caller;
use crate::mail::{Appended, Code, Publication, Publish, PublishRefusal, Reply, ToEdge};
use crate::position::Position;
use log::{AppendError, Flags, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES};
use stdx::chunk::Slice;

/// What becomes of a publication.
enum Outcome {
    /// It has been appended.
    Placed(Placed),
    /// It had been appended before, in this partition and at this offset.
    Duplicate(u32, u64),
    /// It, or what it repeats, is staged, and answered later.
    Waits,
}

impl Home {
    pub(super) fn publish(&mut self, from: Caller, publish: &Publish, turn: &mut Turn<'_>) {
        let reply = publish.reply;
        match self.place(from, publish, turn) {
            Ok(Outcome::Placed(placed)) => self.published(from, reply, &placed, turn),
            Ok(Outcome::Duplicate(local, offset)) => {
                self.repeated(from, reply, local, offset, turn);
            }
            Ok(Outcome::Waits) => {}
            Err(refusal) => self.refuse_publication(from, reply, refusal, turn),
        }
    }

    /// Looks at the epoch, then appends or stages a publication; what is refused for the moment
    /// holds what follows it.
    fn place(
        &mut self,
        from: Caller,
        publish: &Publish,
        turn: &mut Turn<'_>,
    ) -> Result<Outcome, PublishRefusal> {
        let Publish { partition, reply, ref publication, .. } = *publish;
        let local = self.local(partition).ok_or(Code::Internal)?;
        let HomePartition { epoch, ref log, .. } = self.partitions[local as usize];
        let head = log.head();
        if publication.expected_epoch.is_some_and(|expected| expected != epoch) {
            return Err(PublishRefusal {
                code: Code::EpochMismatch,
                present: Some(Position { epoch, offset: head }),
            });
        }
        let names = self.dedup.names_of(local, publication);
        let is_asked = is_asked(reply);
        let placed = self.place_named(from, local, publish, (&names, is_asked), turn);
        if let Err(code) = placed
            && is_asked
        {
            self.dedup.refused(self.steady.ms, &names, code);
        }
        Ok(placed?)
    }

    /// Appends or stages a publication of the present epoch, unless that has been done before.
    fn place_named(
        &mut self,
        from: Caller,
        local: u32,
        publish: &Publish,
        (names, is_asked): (&Names, bool),
        turn: &mut Turn<'_>,
    ) -> Result<Outcome, Code> {
        let Publish { rule, reply, ref publication, .. } = *publish;
        let head = self.partitions[local as usize].log.head();
        if !names.is_empty()
            && let Verdict::Duplicate(offset) = self.dedup.check(self.steady.ms, names, is_asked)?
        {
            if offset > head {
                self.wait_for_staged(local, offset, from, reply)?;
                return Ok(Outcome::Waits);
            }
            return Ok(Outcome::Duplicate(local, offset));
        }
        let checked = self.check(local, rule, publication)?;
        if let Some(rate_max) = checked.rate_max
            && !self.rates.take(self.steady.ms, &publication.topic, rate_max)
        {
            return Err(Code::RateLimited);
        }
        let (outcome, offset) = match self.is_durable(local) {
            true => {
                let offset = self.stage(from, reply, publication, &checked, turn)?;
                (Outcome::Waits, offset)
            }
            false => {
                let placed = self.append(publication, &checked, turn)?;
                let offset = placed.offset;
                (Outcome::Placed(placed), offset)
            }
        };
        if !names.is_empty() {
            self.dedup.note(self.steady.ms, local, names, offset);
        }
        Ok(outcome)
    }

    /// The record lies in the log: acknowledges it and sends it to everybody with interest.
    pub(super) fn published(
        &mut self,
        from: Caller,
        reply: Option<Reply>,
        placed: &Placed,
        turn: &mut Turn<'_>,
    ) {
        self.acknowledge(from, reply, placed.local, placed.offset, false, turn);
        self.statistics.published += 1;
        self.fan_out(placed.topic, placed.local, placed.offset, &placed.record, turn);
    }

    /// It had been published before, at this offset.
    pub(super) fn repeated(
        &mut self,
        from: Caller,
        reply: Option<Reply>,
        local: u32,
        offset: u64,
        turn: &mut Turn<'_>,
    ) {
        self.acknowledge(from, reply, local, offset, true, turn);
        self.statistics.duplicates += 1;
    }

    fn acknowledge(
        &mut self,
        from: Caller,
        reply: Option<Reply>,
        local: u32,
        offset: u64,
        duplicate: bool,
        turn: &mut Turn<'_>,
    ) {
        self.consumed(from);
        let waiting = reply.filter(|reply| reply.request != Reply::REFUSALS_ONLY);
        if let Some(reply) = waiting {
            let position = Position { epoch: self.partitions[local as usize].epoch, offset };
            let result = Ok(Appended { position, duplicate });
            turn.out.post(from.edge, ToEdge::Published { reply, result });
        }
    }

    pub(super) fn refuse_publication(
        &mut self,
        from: Caller,
        reply: Option<Reply>,
        refusal: PublishRefusal,
        turn: &mut Turn<'_>,
    ) {
        self.consumed(from);
        self.statistics.refused.count(refusal.code);
        if let Some(reply) = reply {
            let result = Err(refusal);
            turn.out.post(from.edge, ToEdge::Published { reply, result });
        }
    }

    fn check<'a>(
        &self,
        local: u32,
        rule: u16,
        publication: &'a Publication,
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
        let known = self.interests.topics.find(&publication.topic, local);
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
        let mut flags = Flags::NONE;
        if publication.retain {
            flags = flags.with(Flags::RETAINED);
        }
        if simdutf8::basic::from_utf8(&publication.payload).is_ok() {
            flags = flags.with(Flags::TEXT);
        }
        Ok(Checked { local, flags, attributes, record_bytes, retains, rate_max: rule.rate_max() })
    }

    /// Appends to a log in memory, making room for it.
    fn append(
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
        let local = checked.local;
        let known = self.interests.topics.find(&publication.topic, local);
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
        let steady_ms = self.steady.ms;
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
