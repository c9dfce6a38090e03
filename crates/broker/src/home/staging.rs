//! Publications that wait for the sequencer of their log: staged until they are placed, then
//! published as any other.
//!
//! Invariants: only the sequencer has seen staged publications. A refusal refuses all of them, and
//! their numbers are never given again; the `prev` of a record is written when it is placed, and
//! never names one that was refused. A log on disk answers in the order of the proposals and keeps
//! them as they are, so its records have their `prev` from the beginning. A topic with staged
//! records is not forgotten, so that the topic id in them stays right.

use super::Home;
use super::proposals::Settled;
use super::publication::{Checked, Placed, Publisher, code_of};
use super::stall::Silence;
use super::turn::Turn;
use crate::disk::DiskRequest;
use crate::mail::{Code, Publication};
use log::{AppendError, NewRecord, RECORD_HEADER_BYTES, RecordView, SEGMENT_HEADER_BYTES};
use std::collections::{BTreeMap, VecDeque};
use stdx::chunk::{ChunkWriter, Slice};
use stdx::handing::Hand;
use stdx::memory::{tree_bytes, vector_bytes};

/// Bytes of records that one home has staged for one log, at least; where edges may bring more at
/// their own bound (`stream_credit_bytes` each), twice as much as that.
const STAGED_BYTES_MAX: u64 = 64 << 20;
/// Bytes of an area that encoded records share.
const AREA_BYTES: usize = 64 << 10;

/// Publications of this home that wait for one log on disk.
#[derive(Debug, Hand)]
pub(super) struct Staging {
    /// Rises with every refusal; the log thread's answers to earlier ones are ignored.
    generation: u32,
    /// The log takes appends, by the log thread's last report.
    pub is_available: bool,
    /// The time in which it has got nothing done although it was asked.
    pub silence: Silence,
    staged: VecDeque<Staged>,
    /// Bytes of the records in it.
    staged_bytes: u64,
    /// Topics with staged publications, by their ids.
    topics: BTreeMap<u32, StagedTopic>,
    /// The change of the log's retained bytes by the retained messages among it.
    pub retained_change: i64,
    area: Option<ChunkWriter>,
    head: Vec<u8>,
}

/// One publication.
#[derive(Debug, Hand)]
struct Staged {
    local: u32,
    topic: u32,
    /// The number within the partition, and the offset in its record.
    proposal: u64,
    record: Slice,
    retain: Retain,
    publisher: Publisher,
    /// Repetitions of it, which are answered with it.
    repeated: Vec<Publisher>,
}

/// The effect of a publication on its topic's retained message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
enum Retain {
    Leaves,
    Replaces,
    Removes,
}

/// The staged publications of one topic.
#[derive(Debug, Hand)]
pub(super) struct StagedTopic {
    count: u32,
    /// Offset of the newest.
    last: u64,
    /// Bytes of the topic's retained message when all is committed.
    retained_bytes: u64,
}

impl Staged {
    /// Whether it is this proposal.
    fn is(&self, local: u32, proposal: u64) -> bool {
        self.proposal == proposal && self.local == local
    }

    /// Whether a publisher waits for its acknowledgement, or for that of a repetition.
    fn is_asked(&self) -> bool {
        self.publisher.is_asked() || self.repeated.iter().any(Publisher::is_asked)
    }
}

impl Default for Staging {
    fn default() -> Self {
        Staging {
            generation: 0,
            is_available: true,
            silence: Silence::default(),
            staged: VecDeque::new(),
            staged_bytes: 0,
            topics: BTreeMap::new(),
            retained_change: 0,
            area: None,
            head: Vec::new(),
        }
    }
}

impl Staging {
    /// The staged publications of a topic.
    pub fn of_topic(&self, topic: u32) -> Option<&StagedTopic> {
        self.topics.get(&topic)
    }

    /// Whether a publication may be staged now.
    pub fn takes_appends(&self) -> bool {
        self.is_available && !self.silence.is_stall()
    }

    /// Whether a record of this number of bytes has room. Alone, any record has room.
    pub fn has_room(&self, record_bytes: u64, bytes_max: u64) -> bool {
        self.staged.is_empty() || self.staged_bytes + record_bytes <= bytes_max
    }

    /// Bytes of the list, and of the area that is being filled.
    pub fn memory_bytes(&self) -> usize {
        vector_bytes::<Staged>(self.staged.capacity())
            + tree_bytes(self.topics.len(), size_of::<(u32, StagedTopic)>())
            + self.area.as_ref().map_or(0, ChunkWriter::len)
            + self.head.capacity()
    }

    /// Publications staged.
    pub fn len(&self) -> usize {
        self.staged.len()
    }

    /// Takes a proposal out. Those of a log on disk are answered in their order.
    fn take(&mut self, local: u32, proposal: u64) -> Option<Staged> {
        let place = self.staged.iter().position(|staged| staged.is(local, proposal))?;
        let staged = self.staged.remove(place)?;
        self.staged_bytes -= staged.record.len() as u64;
        Some(staged)
    }

    fn encode(&mut self, offset: u64, record: &NewRecord<'_>) -> Result<Slice, AppendError> {
        record.encode_head(offset, &mut self.head)?;
        let parts: [&[u8]; 2] = [&self.head, record.payload];
        let length = self.head.len() + record.payload.len();
        if length > AREA_BYTES / 4 {
            return Ok(Slice::concatenation_of(&parts));
        }
        if let Some(slice) = self.area.as_mut().and_then(|area| area.append(&parts)) {
            return Ok(slice);
        }
        let area = self.area.insert(ChunkWriter::heap(AREA_BYTES));
        Ok(area.append(&parts).unwrap_or_else(|| Slice::concatenation_of(&parts)))
    }

    /// One publication of a topic is committed; its effect on retained bytes is real now.
    fn unstage(&mut self, topic: u32, retained_change: i64) {
        self.retained_change -= retained_change;
        if let Some(entry) = self.topics.get_mut(&topic) {
            entry.count -= 1;
            if entry.count == 0 {
                self.topics.remove(&topic);
            }
        }
    }
}

impl Home {
    /// Whether publications to a partition wait for its disk.
    pub(super) fn waits_for_disk(&self, local: u32) -> bool {
        let partition = &self.partitions[local as usize];
        partition.has_disk && partition.engine.is_none()
    }

    /// Whether a log on disk has no room for a further record until some are durable. Edges stop
    /// reading long before, so this bounds what large requests bring beyond that.
    pub(super) fn is_full_of_staged(&self, share: usize, record_bytes: u64) -> bool {
        let credit_bytes = u64::from(self.settings.limits.stream_credit_bytes);
        let bytes_max =
            STAGED_BYTES_MAX.max(2 * credit_bytes * u64::from(self.settings.edges_count));
        let disk = self.shares[share].disk.as_ref();
        disk.is_some_and(|disk| !disk.has_room(record_bytes, bytes_max))
    }

    /// Bytes of a topic's retained message when all that is staged is committed.
    pub(super) fn retained_bytes_expected(&self, topic: u32) -> u64 {
        let share = self
            .interests
            .topics
            .get(topic)
            .map(|entry| &self.shares[self.partitions[entry.partition as usize].share]);
        let staged =
            share.and_then(|share| share.disk.as_ref()).and_then(|disk| disk.of_topic(topic));
        staged.map_or_else(|| self.retained_bytes_of(topic), |staged| staged.retained_bytes)
    }

    /// Proposes a publication to the log thread, under the next number of its partition.
    pub(super) fn stage(
        &mut self,
        publisher: Publisher,
        publication: &Publication,
        checked: &Checked<'_>,
        turn: &mut Turn<'_>,
    ) -> Result<u64, Code> {
        let Checked { local, known, .. } = *checked;
        let topic = match known {
            Some(topic) => topic,
            None => self.add_topic(&publication.topic, local)?,
        };
        let last = self.interests.topics.get(topic).map_or(0, |topic| topic.last());
        let retained_before = self.retained_bytes_expected(topic);
        let partition = &mut self.partitions[local as usize];
        let share = partition.share;
        let Some(disk) = self.shares[share].disk.as_mut() else {
            return Err(Code::Internal);
        };
        let offset = partition.next_staged;
        let last = partition.reach(last);
        let prev = disk.of_topic(topic).map_or(last, |staged| staged.last);
        let record =
            match disk.encode(offset, &checked.record(turn.now_ms, topic, prev, publication)) {
                Ok(record) => record,
                Err(error) => {
                    if known.is_none() {
                        self.interests.topics.remove(topic);
                    }
                    return Err(code_of(error));
                }
            };
        partition.next_staged = offset + 1;
        let retain = match (publication.retain, checked.retains) {
            (false, _) => Retain::Leaves,
            (true, true) => Retain::Replaces,
            (true, false) => Retain::Removes,
        };
        let retained_bytes = match retain {
            Retain::Leaves => retained_before,
            Retain::Replaces => record.len() as u64,
            Retain::Removes => 0,
        };
        disk.retained_change += retained_bytes.cast_signed() - retained_before.cast_signed();
        let entry =
            disk.topics.entry(topic).or_insert(StagedTopic { count: 0, last, retained_bytes });
        entry.count += 1;
        entry.last = offset;
        entry.retained_bytes = retained_bytes;
        let generation = disk.generation;
        let partition = partition.id;
        disk.staged_bytes += record.len() as u64;
        disk.staged.push_back(Staged {
            local,
            topic,
            proposal: offset,
            record: record.clone(),
            retain,
            publisher,
            repeated: Vec::new(),
        });
        turn.out.ask(
            share,
            DiskRequest::Append { generation, partition, topic: publication.topic.clone(), record },
        );
        Ok(offset)
    }

    /// A publication that is staged has come again: it is answered with the first.
    pub(super) fn wait_for_staged(
        &mut self,
        local: u32,
        proposal: u64,
        publisher: Publisher,
    ) -> Result<(), Code> {
        let share = self.partitions[local as usize].share;
        let disk = self.shares[share].disk.as_mut().ok_or(Code::Internal)?;
        let is_it = |staged: &&mut Staged| staged.is(local, proposal);
        let staged = disk.staged.iter_mut().rev().find(is_it);
        let staged = staged.ok_or(Code::Internal)?;
        staged.repeated.push(publisher);
        Ok(())
    }

    /// The oldest `count` staged publications of a log are durable, or everything is refused.
    pub(super) fn committed(
        &mut self,
        share: usize,
        generation: u32,
        count: u32,
        result: Result<(), Code>,
        turn: &mut Turn<'_>,
    ) {
        let disk = self.shares[share].disk.as_mut();
        let Some(disk) = disk.filter(|disk| disk.generation == generation) else {
            return;
        };
        if let Err(code) = result {
            return self.settle_proposals(share, Settled::Refused(code), turn);
        }
        debug_assert!(count as usize <= disk.staged.len(), "a log commits what it was sent");
        for _ in 0..count {
            let disk = self.shares[share].disk.as_ref();
            let Some(oldest) = disk.and_then(|disk| disk.staged.front()) else {
                return;
            };
            let partition = self.partitions[oldest.local as usize].id;
            let proposal = oldest.proposal;
            // A log on disk keeps the number.
            let placed = Settled::Placed { partition, proposal, offset: proposal };
            self.settle_proposals(share, placed, turn);
        }
    }

    /// The record of a proposal lies at an offset: it is published.
    pub(super) fn place_staged(
        &mut self,
        share: usize,
        (local, proposal): (u32, u64),
        offset: u64,
        turn: &mut Turn<'_>,
    ) {
        let disk = self.shares.get_mut(share).and_then(|share| share.disk.as_mut());
        let Some(staged) = disk.and_then(|disk| disk.take(local, proposal)) else {
            return; // it was refused in the meantime
        };
        let Staged { topic, record, retain, publisher, repeated, .. } = staged;
        let partition = &mut self.partitions[local as usize];
        debug_assert!(offset > partition.log.head(), "a sequencer counts upwards");
        partition.next_staged = partition.next_staged.max(offset + 1);
        let last = self.interests.topics.get(topic).map_or(0, |topic| topic.last());
        let record = placed_at(record, offset, partition.reach(last));
        if let Some(view) = RecordView::parse(&record) {
            let name = self.interests.topics.name(topic);
            self.dedup.placed(local, name, &view, proposal);
        }
        let record = self.cache(local, topic, record, turn);
        if let Some(entry) = self.interests.topics.get_mut(topic) {
            entry.set_last(offset);
        }
        let before = self.retained_bytes_of(topic).cast_signed();
        match retain {
            Retain::Leaves => {}
            Retain::Replaces => self.retain(topic, share, Some(&record)),
            Retain::Removes => self.retain(topic, share, None),
        }
        let change = self.retained_bytes_of(topic).cast_signed() - before;
        if let Some(disk) = &mut self.shares[share].disk {
            disk.unstage(topic, change);
        }
        let placed = Placed { local, topic, offset, record };
        self.published(publisher, placed, turn);
        for publisher in repeated {
            self.repeated(publisher, local, offset, turn);
        }
    }

    /// Puts a durable record into memory. If there is no room even for it alone, memory begins
    /// behind it: the disk has everything before.
    pub(super) fn cache(
        &mut self,
        local: u32,
        topic: u32,
        record: Slice,
        turn: &mut Turn<'_>,
    ) -> Slice {
        let Some(view) = RecordView::parse(&record) else {
            debug_assert!(false, "a home encodes whole records");
            return record;
        };
        let share = self.partitions[local as usize].share;
        let needed = view.bytes().len() as u64 + SEGMENT_HEADER_BYTES as u64;
        if self.make_room(share, needed, turn) {
            loop {
                match self.hold(local, |log| log.append_record(turn.memory, topic, &view)) {
                    Ok(appended) => return appended.slice,
                    Err(AppendError::Memory(_)) if self.evict_oldest(share, turn) => {}
                    Err(_) => break,
                }
            }
        }
        while self.evict_segment(local, turn) {}
        let log = &mut self.partitions[local as usize].log;
        log.skip_to(view.offset() + 1);
        self.statistics.uncached += 1;
        record
    }

    /// The log could not make something durable: nothing that is staged will be.
    pub(super) fn refuse_staged(&mut self, share: usize, code: Code, turn: &mut Turn<'_>) {
        let disk = self.shares.get_mut(share).and_then(|share| share.disk.as_mut());
        let Some(disk) = disk else {
            return;
        };
        disk.generation = disk.generation.wrapping_add(1);
        let staged = std::mem::take(&mut disk.staged);
        let topics = std::mem::take(&mut disk.topics);
        disk.staged_bytes = 0;
        disk.retained_change = 0;
        // Before anything else is examined: a repetition of the first is not out of order behind
        // the last.
        for staged in staged.iter().rev() {
            if let Some(view) = RecordView::parse(&staged.record) {
                let name = self.interests.topics.name(staged.topic);
                let names = self.dedup.take_back(staged.local, name, &view);
                if staged.is_asked() {
                    self.dedup.refused(self.elapsed.ms, &names, code);
                }
            }
        }
        for staged in staged {
            for publisher in std::iter::once(staged.publisher).chain(staged.repeated) {
                self.refuse_publication(publisher, code.into(), turn);
            }
        }
        for topic in topics.into_keys() {
            self.forget_if_idle(topic, turn);
        }
    }
}

/// A record as the sequencer of its partition has placed it; a log on disk leaves it as it is.
fn placed_at(record: Slice, offset: u64, prev: u64) -> Slice {
    match RecordView::parse(&record) {
        Some(view) if (view.offset(), view.prev()) != (offset, prev) => {
            let rest = view.bytes().get(RECORD_HEADER_BYTES..).unwrap_or_default();
            Slice::concatenation_of(&[&view.head_at(offset, prev), rest])
        }
        _ => record,
    }
}
