//! The mirror of a log in an engine: a copy of its records on this node's disk, for recoveries
//! beyond memory, and for a start that need not read all of it again.
//!
//! Place on the path: a record of the tail is placed and delivered first; then the home sends it to
//! the log thread ([`Home::mirror`]), which writes it without waiting for the disk. Nothing of a
//! message waits for that. Pages of evicted records are read as those of a log on disk.
//!
//! Invariants:
//!
//! - from a partition's `disk_floor` to the oldest record in memory the mirror has, or is about to
//!   get, every record. Whatever breaks that raises the floor, above the record that it lacks.
//! - a read is behind the appends that the home sent before it, so memory may evict records that
//!   are under way to the mirror.
//! - a mirror that fails, hangs, or is too far behind is *given up*: the floor is above all of its
//!   records, and requests that wait for it are dealt with again, from memory. It begins anew, from
//!   the next record on, when the log thread has answered everything. So it costs history, and
//!   never delays a message.
//! - a start serves what the mirror had only after the tail has brought the mirror's newest record
//!   again, in the same lineage: then the engine has every record that the mirror has.

use super::stall::Silence;
use super::turn::Turn;
use super::work::{HistoryQuery, Question, Work};
use super::{Home, Parked};
use crate::disk::{DiskRequest, Mirrored};
use crate::ids::PartitionId;
use crate::mail::Code;
use std::collections::VecDeque;
use std::ops::Range;
use stdx::chunk::Slice;
use stdx::handing::Hand;
use stdx::memory::vector_bytes;

/// Bytes of records on their way to one mirror, of one home. Beyond that the disk is too slow, and
/// the mirror is given up.
const BEHIND_BYTES_MAX: u64 = 128 << 20;

/// This home's part of a log's mirror.
#[derive(Debug, Default, Hand)]
pub(super) struct Mirror {
    /// Rises when the mirror is given up; answers to earlier requests are ignored then.
    generation: u32,
    state: State,
    /// Bytes of the requests under way, in order.
    asked: VecDeque<u32>,
    bytes: u64,
    silence: Silence,
    /// Given up because the disk hangs, or is too far behind.
    was_slow: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hand)]
enum State {
    /// Records are appended.
    #[default]
    Open,
    /// Given up; the log thread has not said that it takes records again.
    Closed,
    /// Given up; the log thread takes records.
    Ready,
    /// The log thread was asked to say when everything before has been dealt with.
    Resuming,
}

/// The content of a partition's mirror at a start.
#[derive(Clone, PartialEq, Eq, Debug, Hand)]
pub struct MirroredContent {
    /// The engine's description of the records.
    pub mirrored: Mirrored,
    /// The offset of the newest record.
    pub head: u64,
    /// Every topic with records in it, and the offset of its newest.
    pub topics: Vec<(Box<[u8]>, u64)>,
}

/// Mirrored content that a partition may serve when the tail has come up to it.
#[derive(Debug, Hand)]
pub(super) struct Found {
    content: MirroredContent,
    /// The tail has brought the newest record, in the same lineage.
    is_met: bool,
}

impl Mirror {
    /// Bytes of the list.
    pub fn memory_bytes(&self) -> usize {
        vector_bytes::<u32>(self.asked.capacity())
    }

    /// Whether the disk hangs.
    pub fn is_stalled(&self) -> bool {
        self.silence.is_stall()
    }

    /// Whether records are appended at present.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    fn push(&mut self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.asked.push_back(bytes);
        self.bytes += u64::from(bytes);
    }
}

impl Found {
    /// The mirror has dropped records before the partition serves its content.
    pub fn raise_floor(&mut self, floor: u64) {
        let mirrored = &mut self.content.mirrored;
        mirrored.floor = mirrored.floor.max(floor);
    }
}

impl MirroredContent {
    /// The lineage of the newest record.
    fn lineage(&self) -> Option<u32> {
        let until_head = |start: &&(u32, u64)| start.1 <= self.head;
        self.mirrored.lineages.iter().rev().find(until_head).map(|(lineage, _)| *lineage)
    }
}

impl Home {
    /// The content of a partition's mirror, before the partition begins.
    pub fn restore_mirror(&mut self, partition: PartitionId, content: MirroredContent) {
        if let Some(local) = self.local(partition)
            && let Some(engine) = self.partitions[local as usize].engine.as_deref_mut()
        {
            engine.found = Some(Box::new(Found { content, is_met: false }));
        }
    }

    /// Sends a record that has been delivered to the mirror of its log.
    pub(super) fn mirror(&mut self, local: u32, topic: &Slice, record: Slice, turn: &mut Turn<'_>) {
        let partition = &self.partitions[local as usize];
        let (share, id) = (partition.share, partition.id);
        let Some(mirror) = self.shares[share].mirror.as_deref() else {
            return;
        };
        if !mirror.is_open() {
            return self.break_mirror(local, super::read::offset_of(&record));
        }
        if mirror.bytes >= BEHIND_BYTES_MAX {
            return self.give_mirror_up(share, State::Ready, turn);
        }
        self.describe_mirrored(local, super::read::offset_of(&record), turn);
        let Some(mirror) = self.shares[share].mirror.as_deref_mut() else {
            return;
        };
        mirror.push(topic.len() + record.len());
        let generation = mirror.generation;
        let topic = topic.clone();
        turn.out.ask(share, DiskRequest::Append { generation, partition: id, topic, record });
    }

    /// Says what the engine has said of the records that follow from an offset on, and below which
    /// none is read, unless the log thread knows it.
    fn describe_mirrored(&mut self, local: u32, from: u64, turn: &mut Turn<'_>) {
        let partition = &mut self.partitions[local as usize];
        let (share, id, floor) = (partition.share, partition.id, partition.disk_floor);
        let Some(engine) = partition.engine.as_deref_mut().filter(|it| !it.is_described) else {
            return;
        };
        if self.shares[share].mirror.as_deref().is_none_or(|mirror| !mirror.is_open()) {
            return;
        }
        engine.is_described = true;
        let mirrored = Mirrored {
            floor,
            topic_id: (partition.lineages.present_epoch() >> 32) as u32,
            lineages: partition.lineages.starts(),
        };
        if let Some(mirror) = self.shares[share].mirror.as_deref_mut() {
            mirror.push(0);
            let generation = mirror.generation;
            turn.out
                .ask(share, DiskRequest::Describe { generation, partition: id, from, mirrored });
        }
    }

    /// The disk is about to be asked about a partition.
    pub(super) fn ask_mirror(&mut self, local: u32, turn: &mut Turn<'_>) {
        let partition = &self.partitions[local as usize];
        if partition.engine.is_some() {
            let from = partition.log.next_offset();
            self.describe_mirrored(local, from, turn);
        }
    }

    /// The mirror lacks the record at an offset: the disk is asked for none up to it.
    pub(super) fn break_mirror(&mut self, local: u32, through: u64) {
        let partition = &mut self.partitions[local as usize];
        if !partition.has_disk {
            return;
        }
        partition.disk_floor = partition.disk_floor.max(through + 1);
        if let Some(engine) = partition.engine.as_deref_mut() {
            engine.is_described = false;
        }
    }

    /// The log thread has dealt with requests, or cannot.
    pub(super) fn mirrored(
        &mut self,
        share: usize,
        (generation, count): (u32, u32),
        result: Result<(), Code>,
        turn: &mut Turn<'_>,
    ) {
        let Some(mirror) = self.shares[share].mirror.as_deref_mut() else {
            return;
        };
        if mirror.generation != generation {
            return;
        }
        if result.is_err() {
            return self.give_mirror_up(share, State::Closed, turn);
        }
        for _ in 0..count {
            let bytes = mirror.asked.pop_front();
            mirror.bytes -= u64::from(bytes.unwrap_or(0));
        }
        if mirror.state == State::Resuming && mirror.asked.is_empty() {
            mirror.state = State::Open;
            self.begin_mirror(share);
        }
    }

    /// The log thread takes records, or not.
    pub(super) fn mirror_available(&mut self, share: usize, is: bool, turn: &mut Turn<'_>) {
        let Some(mirror) = self.shares[share].mirror.as_deref_mut() else {
            return;
        };
        match (is, mirror.state) {
            (true, State::Closed) => mirror.state = State::Ready,
            (false, State::Open | State::Ready | State::Resuming) => {
                return self.give_mirror_up(share, State::Closed, turn);
            }
            (true, State::Open | State::Ready | State::Resuming) | (false, State::Closed) => {}
        }
        self.resume_mirror(share, turn);
    }

    /// The log thread has said something.
    pub(super) fn heard_of_mirror(&mut self, share: usize, turn: &mut Turn<'_>) {
        let mirror = self.shares.get_mut(share).and_then(|share| share.mirror.as_deref_mut());
        if mirror.is_some_and(|mirror| mirror.silence.broken()) {
            self.resume_mirror(share, turn);
        }
    }

    /// Asks to begin anew, if the log thread may be asked.
    fn resume_mirror(&mut self, share: usize, turn: &mut Turn<'_>) {
        if let Some(mirror) = self.shares[share].mirror.as_deref_mut()
            && mirror.state == State::Ready
            && !mirror.is_stalled()
        {
            mirror.state = State::Resuming;
            mirror.push(0);
            let was_slow = std::mem::take(&mut mirror.was_slow);
            let generation = mirror.generation;
            turn.out.ask(share, DiskRequest::Resume { generation, was_slow });
        }
    }

    /// The mirror has what memory has evicted no more, and gets no records until it begins anew.
    fn give_mirror_up(&mut self, share: usize, state: State, turn: &mut Turn<'_>) {
        let Some(mirror) = self.shares[share].mirror.as_deref_mut() else {
            return;
        };
        let was_open = mirror.is_open();
        mirror.generation = mirror.generation.wrapping_add(1);
        mirror.state = state;
        mirror.was_slow |= was_open && state == State::Ready;
        mirror.asked.clear();
        mirror.bytes = 0;
        if was_open {
            self.statistics.mirrors_lost += 1;
            self.begin_mirror(share);
            let partitions = self.shares[share].partitions.clone();
            self.forget_mirrored(&partitions);
        }
        self.ask_again(share);
        self.resume_mirror(share, turn);
    }

    /// A mirror begins with the next record of each partition. What it had at the start is dropped
    /// with the rest, even of a partition whose tail has not come up to it.
    fn begin_mirror(&mut self, share: usize) {
        for local in self.shares[share].partitions.clone() {
            let partition = &mut self.partitions[local as usize];
            partition.disk_floor = partition.log.next_offset();
            if let Some(engine) = partition.engine.as_deref_mut() {
                engine.is_described = false;
                engine.found = None;
            }
        }
    }

    /// Topics of these partitions that only the mirror had records of may be forgotten.
    fn forget_mirrored(&mut self, partitions: &Range<u32>) {
        let topics = &self.interests.topics;
        for topic in 0..topics.places() {
            let Some(entry) = topics.get(topic).filter(|it| partitions.contains(&it.partition))
            else {
                continue;
            };
            if entry.last() < self.partitions[entry.partition as usize].floor() {
                let name = Slice::copy_of(topics.name(topic));
                self.forgetting.push_back((entry.partition, name));
            }
        }
    }

    /// Looks at the mirrors: one that hangs is given up.
    pub(super) fn watch_mirrors(&mut self, turn: &mut Turn<'_>) {
        let max_ms = self.settings.limits.log_stall_timeout_ms.into();
        for share in 0..self.shares.len() {
            let is_asked = self.is_mirror_asked(share);
            let Some(mirror) = self.shares[share].mirror.as_deref_mut() else {
                continue;
            };
            if !is_asked {
                mirror.silence.end();
            } else if mirror.silence.lasts(self.elapsed.ms, max_ms) {
                self.give_mirror_up(share, State::Ready, turn);
            }
        }
    }

    /// The time of the next look; milliseconds of the home's clock.
    pub(super) fn next_look_at_mirrors(&self) -> Option<u64> {
        let limit_ms = self.settings.limits.log_stall_timeout_ms.into();
        let waited_for = (0..self.shares.len()).filter(|share| self.is_mirror_asked(*share));
        let mirrors = waited_for.filter_map(|share| self.shares[share].mirror.as_deref());
        let left_ms = mirrors
            .filter(|mirror| !mirror.is_stalled())
            .map(|mirror| mirror.silence.left_ms(limit_ms))
            .min();
        left_ms.map(|left_ms| self.elapsed.ms + left_ms)
    }

    fn is_mirror_asked(&self, share: usize) -> bool {
        let mirror = self.shares[share].mirror.as_deref();
        mirror.is_some_and(|it| !it.asked.is_empty() || self.queue.asked_of(share) > 0)
    }

    /// A partition begins. The mirror's content at the start follows, if this beginning says so;
    /// that of a former life does not.
    pub(super) fn begin_mirrored(
        &mut self,
        local: u32,
        primed_through: u64,
        follows: bool,
        turn: &mut Turn<'_>,
    ) {
        let partition = &mut self.partitions[local as usize];
        let share = partition.share;
        if self.shares[share].mirror.is_none() {
            return;
        }
        partition.disk_floor = primed_through + 1;
        if let Some(engine) = partition.engine.as_deref_mut() {
            engine.is_described = false;
            let is_its_end = |found: &Found| found.content.head == primed_through;
            let found = engine.found.take();
            self.statistics.mirrors_lost += u64::from(found.is_some() && !follows);
            engine.found = found.filter(|found| follows && is_its_end(found));
        }
        self.ask_again(share);
        self.forget_mirrored(&(local..local + 1));
        self.resume_mirror(share, turn);
    }

    /// Deals again with all requests that wait for a mirror: what they asked for is not the same.
    fn ask_again(&mut self, share: usize) {
        for Parked { from, question, .. } in self.queue.give_up(share) {
            self.queue.push(again(from, question));
        }
    }

    /// A record of the tail comes next: perhaps it is the newest of the mirror's.
    pub(super) fn meet_mirrored(&mut self, local: u32, offset: u64, lineage: u32) {
        self.open_mirrored(local, offset - 1);
        let engine = self.partitions[local as usize].engine.as_deref_mut();
        if let Some(found) = engine.and_then(|engine| engine.found.as_deref_mut())
            && found.content.head == offset
        {
            found.is_met = found.content.lineage() == Some(lineage);
        }
    }

    /// Everything up to an offset is settled: what the mirror had is served from now on, or never.
    pub(super) fn open_mirrored(&mut self, local: u32, through: u64) {
        let Some(engine) = self.partitions[local as usize].engine.as_deref_mut() else {
            return;
        };
        let Some(found) = engine.found.take_if(|found| found.content.head <= through) else {
            return;
        };
        if !found.is_met {
            self.statistics.mirrors_lost += 1;
            return;
        }
        let MirroredContent { mirrored, head, topics } = found.content;
        let partition = &mut self.partitions[local as usize];
        let floor = mirrored.floor.max(1);
        let former = (partition.disk_floor, partition.forgotten_through);
        (partition.disk_floor, partition.forgotten_through) = (floor, floor - 1);
        let mut kept = topics.iter().filter(|(_, last)| *last >= floor);
        if kept.any(|(name, last)| !self.know_mirrored(local, name, *last)) {
            // A topic that is not known has no record behind the greatest forgotten offset.
            let partition = &mut self.partitions[local as usize];
            (partition.disk_floor, partition.forgotten_through) = former;
            self.statistics.mirrors_lost += 1;
            return;
        }
        let until_head = mirrored.lineages.into_iter().filter(|(_, start)| *start <= head);
        self.partitions[local as usize].lineages.precede(until_head);
    }

    /// Makes a topic known that the mirror has records of. False if there is no memory for it.
    fn know_mirrored(&mut self, local: u32, name: &[u8], last: u64) -> bool {
        let topic = match self.interests.topics.find(name, local) {
            Some(topic) => topic,
            None => match self.insert_topic(name, local) {
                Ok(topic) => topic,
                Err(_) => return false,
            },
        };
        if let Some(entry) = self.interests.topics.get_mut(topic) {
            entry.set_last(last);
        }
        true
    }
}

/// The work for a request whose question to a disk is not answered.
fn again(from: super::work::Caller, question: Question) -> Work {
    match question {
        Question::Page(reading, _) => Work::Page(from, reading),
        Question::Scan(scan, _) => Work::Scan(from, scan),
        Question::Group(asked) => Work::Group(asked),
        Question::Record(asked) => Work::Record(from, asked),
        Question::Start(asked, _) => Work::Subscribe(from, asked),
        Question::HistoryStart(query, _) | Question::History(query, _) => {
            // Records that a page of damage has passed over are asked for again.
            Work::History(from, HistoryQuery { passed: None, ..query })
        }
    }
}
