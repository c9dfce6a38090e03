//! Publishing: checks, room, append, acknowledgement; retained messages; eviction and forgetting.
//!
//! Invariant: what is refused has changed nothing that anybody could see, and what is acknowledged lies in the log.

use super::dedup::Verdict;
use super::partitions::HomePartition;
use super::topics::NONE;
use super::{Home, HomeOutputs};
use crate::mail::{
    Appended, Code, EdgeId, Letter, PartitionId, Publication, PublishRefusal, Reply,
};
use crate::position::Position;
use log::{
    AppendError, Flags, Memory, NewRecord, Producer, RECORD_HEADER_BYTES, RecordView,
    SEGMENT_HEADER_BYTES,
};
use stdx::chunk::Slice;
use wire::native::Attributes;

/// A segment is closed when it has grown so old, as a part of the log's age, so that quiet partitions expire in time.
const SEGMENT_AGE_PART: u64 = 8;

/// What has been appended.
struct Placed {
    local: u32,
    topic: u32,
    offset: u64,
    record: Slice,
}

/// What became of a publication.
enum Outcome {
    /// It has been appended.
    Placed(Position, Placed),
    /// It had been appended before, here.
    Duplicate(Position),
}

impl Outcome {
    fn answer(&self) -> Appended {
        match *self {
            Outcome::Placed(position, _) => Appended {
                position,
                duplicate: false,
            },
            Outcome::Duplicate(position) => Appended {
                position,
                duplicate: true,
            },
        }
    }
}

impl Home {
    #[expect(
        clippy::too_many_arguments,
        reason = "the fields of the request and the ports of every handler"
    )]
    pub(super) fn publish(
        &mut self,
        now_ms: u64,
        from: EdgeId,
        partition: PartitionId,
        rule: u16,
        reply: Option<Reply>,
        publication: &Publication,
        memory: &mut dyn Memory,
        out: &mut HomeOutputs,
    ) {
        let placed = self.place(now_ms, partition, rule, publication, memory, out);
        if let Some(reply) = reply {
            let result = placed
                .as_ref()
                .map_err(|refusal| *refusal)
                .map(Outcome::answer);
            out.post(from, Letter::Published { reply, result });
        }
        match placed {
            Ok(Outcome::Placed(_, placed)) => {
                self.statistics.published += 1;
                self.fan_out(
                    placed.topic,
                    placed.local,
                    placed.offset,
                    &placed.record,
                    out,
                );
            }
            Ok(Outcome::Duplicate(_)) => self.statistics.duplicates += 1,
            Err(refusal) => self.statistics.refused.count(refusal.code),
        }
    }

    /// Appends a publication, unless it has been appended before.
    fn place(
        &mut self,
        now_ms: u64,
        partition: PartitionId,
        rule: u16,
        publication: &Publication,
        memory: &mut dyn Memory,
        out: &mut HomeOutputs,
    ) -> Result<Outcome, PublishRefusal> {
        let local = self.local(partition).ok_or(Code::Internal)?;
        let HomePartition { epoch, ref log, .. } = self.partitions[local as usize];
        if publication
            .expected_epoch
            .is_some_and(|expected| expected != epoch)
        {
            return Err(PublishRefusal {
                code: Code::EpochMismatch,
                present: Some(Position {
                    epoch,
                    offset: log.head(),
                }),
            });
        }
        let names = self.dedup.names_of(local, publication);
        if !names.is_empty()
            && let Verdict::Duplicate(offset) = self.dedup.check(self.steady.ms, &names)?
        {
            self.check_repetition(local, &publication.topic, offset)?;
            return Ok(Outcome::Duplicate(Position { epoch, offset }));
        }
        let placed = self.append(now_ms, local, rule, publication, memory, out)?;
        let position = Position {
            epoch,
            offset: placed.offset,
        };
        if !names.is_empty() {
            self.dedup
                .note(self.steady.ms, local, &names, placed.offset);
        }
        Ok(Outcome::Placed(position, placed))
    }

    /// A producer that gives a sequence to publications of two topics would lose the second without a word.
    fn check_repetition(&self, local: u32, topic: &[u8], offset: u64) -> Result<(), Code> {
        let Some(record) = self.partitions[local as usize].log.record_at(offset) else {
            return Ok(());
        };
        let first = RecordView::parse(&record).map(|view| view.topic());
        match self.interests.topics.find(topic, local) == first {
            true => Ok(()),
            false => Err(Code::OutOfOrder),
        }
    }

    fn append(
        &mut self,
        now_ms: u64,
        local: u32,
        rule: u16,
        publication: &Publication,
        memory: &mut dyn Memory,
        out: &mut HomeOutputs,
    ) -> Result<Placed, Code> {
        let rule = self
            .settings
            .rules
            .get(usize::from(rule))
            .ok_or(Code::Internal)?;
        let payload_bytes = publication.payload.len() as u64;
        let limit = rule
            .message_bytes_max
            .min(self.settings.limits.message_bytes_max);
        if payload_bytes > u64::from(limit) {
            return Err(Code::MessageTooLarge);
        }
        let name = &publication.topic;
        let known = self.interests.topics.find(name, local);
        if known.is_none() && self.is_full_of_topics() {
            return Err(Code::TopicsFull);
        }
        let share = &self.shares[self.partitions[local as usize].share];
        let attributes = RecordAttributes::of(publication).ok_or(Code::MalformedFrame)?;
        let record_bytes = attributes.fields_bytes + (RECORD_HEADER_BYTES as u64) + payload_bytes;
        let retains = publication.retain && payload_bytes > 0;
        if retains {
            let before = known.map_or(0, |topic| self.retained_bytes_of(topic));
            if share.retained_bytes - before + record_bytes > share.retained_bytes_max {
                return Err(Code::RetainedFull);
            }
        }
        let needed = record_bytes + SEGMENT_HEADER_BYTES as u64;
        if needed > share.bytes_max {
            return Err(Code::LogFull);
        }
        let share = self.partitions[local as usize].share;
        while self.shares[share].bytes + needed > self.shares[share].bytes_max {
            if !self.evict_oldest(share, memory, out) {
                return Err(Code::LogFull);
            }
        }
        let mut flags = Flags::NONE;
        if publication.retain {
            flags = flags.with(Flags::RETAINED);
        }
        if std::str::from_utf8(&publication.payload).is_ok() {
            flags = flags.with(Flags::TEXT);
        }
        let placed = loop {
            match self.append_once(now_ms, local, publication, &attributes, flags, memory) {
                Ok(placed) => break placed,
                // The port may bound more than this log; its oldest segment is what would go next anyway. But nothing
                // goes for a record that could not be taken even then.
                Err(Code::MemoryFull)
                    if self.allocated_bytes(share) >= needed
                        && self.evict_oldest(share, memory, out) => {}
                Err(code) => return Err(code),
            }
        };
        if publication.retain {
            self.retain(placed.topic, share, retains.then_some(&placed.record));
        }
        Ok(placed)
    }

    /// Appends, making the topic known if it is not; eviction may have made it so between two attempts.
    fn append_once(
        &mut self,
        now_ms: u64,
        local: u32,
        publication: &Publication,
        attributes: &RecordAttributes<'_>,
        flags: Flags,
        memory: &mut dyn Memory,
    ) -> Result<Placed, Code> {
        let known = self.interests.topics.find(&publication.topic, local);
        let topic = match known {
            Some(topic) => topic,
            None => self.add_topic(&publication.topic, local)?,
        };
        let prev = self
            .interests
            .topics
            .get(topic)
            .map_or(0, |topic| topic.last());
        let partition = &mut self.partitions[local as usize];
        let share = &mut self.shares[partition.share];
        let steady_ms = self.steady.ms;
        let age = steady_ms.saturating_sub(partition.active_since);
        if age > share.age_max_ms / SEGMENT_AGE_PART {
            partition.log.seal();
        }
        let (segments, bytes) = (partition.log.segments(), partition.log.bytes());
        let record = NewRecord {
            topic,
            prev,
            time_ms: now_ms,
            flags,
            content_type: attributes.content_type.map(str::as_bytes),
            tags: &attributes.tags,
            producer: publication.producer.as_ref().map(|stamp| Producer {
                id: &stamp.id,
                sequence: stamp.sequence,
            }),
            idempotency_key: Some(&publication.idempotency_key[..]).filter(|key| !key.is_empty()),
            payload: &publication.payload,
        };
        let appended = partition.log.append(memory, None, &record);
        if partition.log.segments() > segments {
            partition.ages.push_back(steady_ms);
            partition.active_since = steady_ms;
        }
        share.bytes += (partition.log.bytes() - bytes) as u64;
        match appended {
            Ok(appended) => {
                if let Some(newest) = partition.ages.back_mut() {
                    *newest = steady_ms;
                }
                if let Some(topic) = self.interests.topics.get_mut(topic) {
                    topic.set_last(appended.offset);
                }
                Ok(Placed {
                    local,
                    topic,
                    offset: appended.offset,
                    record: appended.slice,
                })
            }
            Err(error) => {
                if known.is_none() {
                    self.interests.topics.remove(topic);
                }
                Err(match error {
                    AppendError::Memory(_) => Code::MemoryFull,
                    AppendError::FieldsTooLong => Code::TooManyTags,
                    AppendError::RecordTooLong => Code::MessageTooLarge,
                    AppendError::Offset { .. } | AppendError::Prev => Code::Internal,
                })
            }
        }
    }

    pub(super) fn is_full_of_topics(&self) -> bool {
        self.interests.topics.len() >= self.settings.limits.topics_max as usize
    }

    /// Makes a topic known. Nothing says when it last had a record, except that it was not after `forgotten_through`.
    pub(super) fn add_topic(&mut self, name: &[u8], local: u32) -> Result<u32, Code> {
        if self.is_full_of_topics() {
            return Err(Code::TopicsFull);
        }
        let last = self.partitions[local as usize].forgotten_through;
        let stale = self.interests.filters.version.wrapping_sub(1);
        self.interests
            .topics
            .insert(name, local, last, stale)
            .ok_or(Code::MemoryFull)
    }

    /// Replaces the retained message by a copy of the record, or removes it. The copy lets the segment go.
    fn retain(&mut self, topic: u32, share: usize, record: Option<&Slice>) {
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

    /// Memory that the segments of a log take here.
    fn allocated_bytes(&self, share: usize) -> u64 {
        let partitions = self.shares[share].partitions.clone();
        let logs = partitions.map(|local| &self.partitions[local as usize].log);
        logs.map(|log| log.allocated_bytes() as u64).sum()
    }

    fn retained_bytes_of(&self, topic: u32) -> u64 {
        let place = self
            .interests
            .topics
            .get(topic)
            .map_or(NONE, |topic| topic.retained);
        self.retained
            .get(place)
            .map_or(0, |record| record.len() as u64)
    }

    /// Evicts the segment of a log that has been quiet for longest. False if there is none.
    fn evict_oldest(
        &mut self,
        share: usize,
        memory: &mut dyn Memory,
        out: &mut HomeOutputs,
    ) -> bool {
        let age_of = |local: &u32| self.partitions[*local as usize].ages.front().copied();
        let oldest = self.shares[share]
            .partitions
            .clone()
            .filter_map(|local| Some((age_of(&local)?, local)))
            .min();
        oldest.is_some_and(|(_, local)| self.evict_segment(local, memory, out))
    }

    fn evict_segment(
        &mut self,
        local: u32,
        memory: &mut dyn Memory,
        out: &mut HomeOutputs,
    ) -> bool {
        let partition = &mut self.partitions[local as usize];
        let Some(evicted) = partition.log.evict_oldest_segment(memory) else {
            return false;
        };
        partition.ages.pop_front();
        self.shares[partition.share].bytes -= evicted.bytes as u64;
        self.dedup.evicted(local, evicted.last);
        self.statistics.evicted_segments += 1;
        self.statistics.evicted_records += evicted.last - evicted.first + 1;
        for topic in evicted.topics() {
            self.forget_if_idle(topic, out);
        }
        true
    }

    /// Evicts what is too old, at most `segments_max` segments. True if there is more.
    pub(super) fn evict_expired(
        &mut self,
        segments_max: usize,
        memory: &mut dyn Memory,
        out: &mut HomeOutputs,
    ) -> bool {
        let mut left = segments_max;
        for local in 0..self.partitions.len() as u32 {
            while self
                .expiry_of(local)
                .is_some_and(|expiry| expiry <= self.steady.ms)
            {
                if left == 0 {
                    return true;
                }
                left -= 1;
                self.evict_segment(local, memory, out);
            }
        }
        false
    }

    /// When the oldest segment of a partition is to be evicted; steady milliseconds.
    pub(super) fn expiry_of(&self, local: u32) -> Option<u64> {
        let partition = &self.partitions[local as usize];
        let age_max_ms = self.shares[partition.share].age_max_ms;
        Some(
            partition
                .ages
                .front()?
                .saturating_add(age_max_ms)
                .saturating_add(1),
        )
    }

    /// Forgets a topic that nobody subscribes to by name and of which nothing is kept.
    pub(super) fn forget_if_idle(&mut self, topic: u32, out: &mut HomeOutputs) {
        let Some(entry) = self.interests.topics.get(topic) else {
            return;
        };
        let last = entry.last();
        let local = entry.partition as usize;
        let is_kept = entry.retained != NONE || last >= self.partitions[local].oldest();
        if is_kept || self.interests.is_subscribed(topic) {
            return;
        }
        self.interests.drop_all(topic, out);
        self.interests.topics.remove(topic);
        let partition = &mut self.partitions[local];
        partition.forgotten_through = partition.forgotten_through.max(last);
        self.statistics.forgotten += 1;
    }
}

/// The optional fields of the record, as far as they have to be taken apart.
struct RecordAttributes<'a> {
    content_type: Option<&'a str>,
    tags: Vec<(&'a [u8], &'a [u8])>,
    /// What all optional fields take of the record.
    fields_bytes: u64,
}

impl<'a> RecordAttributes<'a> {
    fn of(publication: &'a Publication) -> Option<RecordAttributes<'a>> {
        const FIELD_HEADER_BYTES: usize = 3;
        const TAG_HEADER_BYTES: usize = 2;
        let attributes = Attributes::decode_block(&publication.attributes).ok()?;
        let tags: Vec<(&[u8], &[u8])> = attributes
            .tags
            .iter()
            .map(|tag| (tag.key.as_bytes(), tag.value.as_bytes()))
            .collect();
        let of_tags = tags
            .iter()
            .map(|(key, value)| FIELD_HEADER_BYTES + TAG_HEADER_BYTES + key.len() + value.len());
        let of_type = attributes
            .content_type
            .map(|text| FIELD_HEADER_BYTES + text.len());
        let of_producer = publication
            .producer
            .as_ref()
            .map(|stamp| FIELD_HEADER_BYTES + size_of::<u64>() + stamp.id.len());
        let of_key = (!publication.idempotency_key.is_empty())
            .then(|| FIELD_HEADER_BYTES + publication.idempotency_key.len());
        let of_names = of_producer.into_iter().chain(of_key);
        let fields_bytes = of_tags.chain(of_type).chain(of_names).sum::<usize>() as u64;
        Some(RecordAttributes {
            content_type: attributes.content_type,
            tags,
            fields_bytes,
        })
    }
}
