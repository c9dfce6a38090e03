//! Shared subscriptions (MQTT 5.0, section 4.8.2): each message goes to one member of a group.
//!
//! A group is a reader of the log with a cursor in each partition. While members have room, live
//! messages go to them as they are appended. Without room the group falls behind, and pages of the
//! log bring the messages when members have acknowledged others. So nothing is bound to a member
//! before it is handed out, and a group has no queue. What a member has not acknowledged when its
//! connection ends is handed to another, before anything else.
//!
//! A group lasts while it has a member, or while a session that was one sleeps, also over a start.
//!
//! In a partition of the engine, the nodes of a cluster share a group's messages ([`peers`]): a
//! node hands out its own part, and passes the others over.
//!
//! Invariants: a message of a partition that is not behind is handed out when it is appended; a
//! member has at most its room of messages; every message that was handed out is acknowledged,
//! with a member, or waits to be handed out again.

mod nodes;
mod peers;
mod register;

use super::Home;
use super::filters::{begin_of_group, parse_filter};
use super::turn::Turn;
use super::work::{Asking, Caller, DebtId, GroupScan, Question, Scan, Step, Work};
use crate::disk::DiskQuery;
use crate::filters::FilterTrie;
use crate::mail::{
    EdgeId, GroupDone, GroupLetter, GroupMessage, GroupRequest, JoinGroup, JoinedGroup, LeaveGroup,
    Member, PageLimits, ReadFilter, ReadMode, RequestClass, ToEdge,
};
use crate::settings::GroupOrder;
use nodes::{Ended, Inherited, Nodes};
use std::collections::{BTreeMap, VecDeque};
use stdx::chunk::Slice;
use stdx::handing::Hand;
use stdx::hash::{Seed, keyed};
use stdx::key::Key;
use stdx::memory::tree_bytes;

/// A page that the disk could not read is asked for again after this time, in milliseconds.
const AGAIN_MS: u64 = 1_000;
/// A group waits so long for a session that continues at another node, in milliseconds.
const MOVING_MS: u64 = 30_000;
/// A group waits so much longer than a session lasts, in milliseconds: one that returns at its last
/// moment joins a little later.
const RETURNING_MS: u64 = 2_000;

/// See the module.
#[derive(Debug, Default, Hand)]
pub(super) struct Groups {
    /// The groups, by name.
    known: BTreeMap<Box<[u8]>, Group>,
    /// The names of the groups with a filter.
    filters: FilterTrie<Vec<Box<[u8]>>>,
    /// The group of each member.
    members: BTreeMap<(EdgeId, u64), Box<[u8]>>,
    /// The number of groups that have begun.
    begun: u64,
    /// No session leaves its group before, in milliseconds since 1970.
    next_end_ms: u64,
    /// The groups of all nodes in each partition of the engine, by the home's own number of it.
    nodes: BTreeMap<u32, Nodes>,
    ended: Ended,
    /// The next look at the clock, in milliseconds of the home's clock.
    pub look_ms: u64,
    /// Pages that the disk could not read are asked for again at this time, in milliseconds of the
    /// home's clock; 0: there are none.
    again_ms: u64,
}

/// A group.
#[derive(Debug, Hand)]
struct Group {
    /// Distinguishes it from others of its name: a page may come when its group has ended.
    generation: u64,
    filter: Slice,
    /// The next one to get a message first.
    members: VecDeque<Joined>,
    /// Sessions that sleep, by client, with the end of each in milliseconds since 1970.
    sleepers: BTreeMap<u64, u64>,
    /// The place in each partition, by the home's own number of it.
    cursors: Vec<Cursor>,
    /// Messages of members that have left; the next one first.
    returned: VecDeque<Handed>,
    /// Debts of other nodes that this one has inherited, and its own of the time before a start.
    inherited: Vec<Inherited>,
}

/// The place of a group in a partition.
#[derive(Debug, Default, Clone, Copy, Hand)]
struct Cursor {
    /// Everything up to here was handed out, or is nothing for the group. Only if it is behind.
    after: u64,
    is_behind: bool,
    /// A page is on its way.
    is_reading: bool,
    /// The group began behind this offset, and no session knew of an earlier place: one that
    /// returns after a start may.
    begun: Option<u64>,
}

/// A member, and what it has not acknowledged.
#[derive(Debug, Hand)]
struct Joined {
    edge: EdgeId,
    member: Member,
    room: u16,
    open: Vec<Handed>,
}

/// A message that was handed out.
#[derive(Debug, Clone, Hand)]
struct Handed {
    local: u32,
    offset: u64,
    topic: Slice,
    record: Slice,
    /// The inherited debt that it is of.
    debt: Option<DebtId>,
}

impl Joined {
    fn has_room(&self) -> bool {
        self.open.len() < usize::from(self.room)
    }
}

impl Group {
    /// The number of messages that members have room for.
    fn room(&self) -> usize {
        self.members.iter().map(|it| usize::from(it.room).saturating_sub(it.open.len())).sum()
    }

    /// Chooses the member for a message of a topic; none has room.
    fn choose(&self, order: GroupOrder, topic: &[u8]) -> Option<usize> {
        match order {
            GroupOrder::Any => self.members.iter().position(Joined::has_room),
            // The member with the greatest hash: when one leaves, only its topics move.
            GroupOrder::Topic => {
                let weight = |it: &Joined| keyed(Seed(it.member.client, it.member.number), topic);
                let heaviest = (0..self.members.len()).max_by_key(|at| weight(&self.members[*at]));
                heaviest.filter(|at| self.members[*at].has_room())
            }
        }
    }

    /// The cursor that a page is for, and the offset of the last message that it is to reach.
    fn cursor_of(&mut self, asked: &GroupScan) -> Option<(&mut Cursor, u64)> {
        if asked.generation != self.generation {
            return None;
        }
        let Some(debt) = asked.debt else {
            return Some((self.cursors.get_mut(asked.local as usize)?, u64::MAX));
        };
        let mut inherited = self.inherited.iter_mut();
        let it = inherited.find(|it| (it.local, it.id) == (asked.local, debt))?;
        Some((&mut it.cursor, debt.until))
    }

    /// The messages that are not acknowledged.
    fn open(&self) -> impl Iterator<Item = &Handed> {
        self.members.iter().flat_map(|it| &it.open).chain(&self.returned)
    }

    /// The offset up to which everything is acknowledged.
    fn through(&self, local: u32, head: u64) -> u64 {
        let is_own = |debt: DebtId| debt.of == DebtId::EARLIER;
        let cursor = self.cursors[local as usize];
        let settled = if cursor.is_behind { cursor.after } else { head };
        let earlier = self.inherited.iter().filter(|it| it.local == local && is_own(it.id));
        let settled = earlier.map(|it| it.cursor.after).fold(settled, u64::min);
        let own = self.open().filter(|it| it.local == local && it.debt.is_none_or(is_own));
        let first = own.map(|it| it.offset).min();
        first.map_or(settled, |first| settled.min(first - 1))
    }

    /// A session returns after a start, and knows a place before the begin of the group: the
    /// messages between them are a debt.
    fn continue_before(&mut self, local: u32, after: u64) {
        let Some(until) = self.cursors.get_mut(local as usize).and_then(|it| it.begun.take())
        else {
            return;
        };
        if after < until {
            let id = DebtId { of: DebtId::EARLIER, until };
            let cursor = Cursor { after, is_behind: true, ..Cursor::default() };
            self.inherited.push(Inherited { local, id, cursor });
        }
    }

    /// Forgets the messages before a start that are all acknowledged.
    fn forget_paid(&mut self) {
        let is_paid = |it: &Inherited| it.id.of == DebtId::EARLIER && self.has_paid(it);
        let paid: Vec<(u32, DebtId)> =
            self.inherited.iter().filter(|it| is_paid(it)).map(|it| (it.local, it.id)).collect();
        self.inherited.retain(|it| !paid.contains(&(it.local, it.id)));
    }
}

impl Groups {
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Whether a group wants messages of a topic.
    pub fn want(&self, topic: &[u8]) -> bool {
        !self.of_topic(topic).is_empty()
    }

    fn of_topic(&self, topic: &[u8]) -> Vec<Box<[u8]>> {
        let mut names = Vec::new();
        if let Ok(topic) = std::str::from_utf8(topic) {
            self.filters.matches(topic, &mut |of_filter| names.extend(of_filter.iter().cloned()));
        }
        names
    }

    fn insert(&mut self, name: &Slice, filter: Slice, cursors: Vec<Cursor>) {
        let name: Box<[u8]> = name[..].into();
        if let Some(parsed) = parse_filter(&filter) {
            match self.filters.get_mut(parsed) {
                Some(names) => names.push(name.clone()),
                None => drop(self.filters.insert(parsed, vec![name.clone()])),
            }
        }
        let (members, returned) = (VecDeque::new(), VecDeque::new());
        let (sleepers, inherited) = (BTreeMap::new(), Vec::new());
        self.begun += 1;
        let generation = self.begun;
        let group = Group { generation, filter, members, sleepers, cursors, returned, inherited };
        self.known.insert(name, group);
    }

    /// Forgets a group without a member; returns it.
    fn remove_if_left(&mut self, name: &[u8]) -> Option<Group> {
        let is_left = |group: &&Group| group.members.is_empty() && group.sleepers.is_empty();
        let group = self.known.get(name).filter(is_left)?;
        if let Some(filter) = parse_filter(&group.filter) {
            let names = self.filters.get_mut(filter);
            let is_last = names.is_none_or(|names| {
                names.retain(|it| **it != *name);
                names.is_empty()
            });
            if is_last {
                self.filters.remove(filter);
            }
        }
        self.known.remove(name)
    }

    /// Forgets sessions whose time is over; returns the groups that waited for them.
    fn end_sleepers(&mut self, now_ms: u64) -> Vec<Box<[u8]>> {
        if now_ms < self.next_end_ms || self.known.is_empty() {
            return Vec::new();
        }
        for group in self.known.values_mut() {
            group.sleepers.retain(|_, until_ms| *until_ms > now_ms);
        }
        let ends = self.known.values().flat_map(|group| group.sleepers.values());
        self.next_end_ms = ends.copied().min().unwrap_or(u64::MAX);
        let left = self.known.iter();
        let left = left.filter(|(_, it)| it.members.is_empty() && it.sleepers.is_empty());
        left.map(|(name, _)| name.clone()).collect()
    }

    /// About how many bytes it takes, without the records.
    pub fn memory_bytes(&self) -> usize {
        let of_group = |name: &[u8], group: &Group| {
            2 * name.len()
                + group.members.capacity() * size_of::<Joined>()
                + group.members.iter().map(|it| it.open.capacity()).sum::<usize>()
                    * size_of::<Handed>()
                + group.cursors.capacity() * size_of::<Cursor>()
                + group.returned.capacity() * size_of::<Handed>()
                + group.inherited.capacity() * size_of::<Inherited>()
                + tree_bytes(group.sleepers.len(), size_of::<(u64, u64)>())
        };
        self.filters.memory_bytes()
            + tree_bytes(self.known.len(), size_of::<(Box<[u8]>, Group)>())
            + tree_bytes(self.members.len(), size_of::<((EdgeId, u64), Box<[u8]>)>())
            + self.known.iter().map(|(name, group)| of_group(name, group)).sum::<usize>()
            + self.nodes.values().map(Nodes::memory_bytes).sum::<usize>()
    }
}

impl Home {
    /// A member joins, leaves or acknowledges.
    pub(super) fn group_request(
        &mut self,
        from: Caller,
        request: GroupRequest,
        turn: &mut Turn<'_>,
    ) {
        self.consumed(from);
        match request {
            GroupRequest::Join(asked) => self.join_group(from.edge, *asked, turn),
            GroupRequest::Leave(asked) => self.leave_group(from.edge, &asked, turn),
            GroupRequest::Done(done) => self.group_done(from.edge, done, turn),
        }
    }

    /// Ends the sessions whose time is over, asks for pages again, and looks at what nodes have
    /// written, and when.
    pub(super) fn look_at_groups(&mut self, turn: &mut Turn<'_>) {
        for name in self.groups.end_sleepers(turn.now_ms) {
            self.end_group(&name);
        }
        if self.next_page_again().is_some_and(|at_ms| at_ms <= self.elapsed.ms) {
            self.groups.again_ms = 0;
            let names: Vec<Box<[u8]>> = self.groups.known.keys().cloned().collect();
            names.iter().for_each(|name| self.feed_group(name, turn));
        }
        self.watch_nodes(turn);
    }

    /// The time of a page that is asked for again, in milliseconds of the home's clock.
    pub(super) fn next_page_again(&self) -> Option<u64> {
        (self.groups.again_ms > 0).then_some(self.groups.again_ms)
    }

    /// Forgets a group without a member.
    fn end_group(&mut self, name: &[u8]) {
        if let Some(group) = self.groups.remove_if_left(name) {
            self.note_ended(name, &group);
            self.groups.look_ms = 0;
        }
    }

    /// A member joins its group.
    fn join_group(&mut self, edge: EdgeId, asked: JoinGroup, turn: &mut Turn<'_>) {
        let JoinGroup { group: name, member, room, since } = asked;
        let filter_at = name.iter().position(|byte| *byte == b'/').map_or(0, |at| at + 1);
        match self.groups.known.get_mut(&name[..]) {
            // Two sessions that return after a start may know different places.
            Some(group) => {
                for (local, partition) in (0..).zip(&self.partitions) {
                    let Some(begun) = begin_of_group(partition, &since) else {
                        continue;
                    };
                    let cursor = &mut group.cursors[local as usize];
                    if cursor.is_behind {
                        cursor.after = cursor.after.max(begun);
                    }
                    group.continue_before(local, begun);
                }
            }
            None => {
                let ended = self.groups.ended.remove(&name[..]).unwrap_or_default();
                let begun = (0..).zip(&self.partitions).map(|(local, partition)| {
                    // As far as the records say, the node has not left the group yet.
                    let nodes = self.groups.nodes.get(&local);
                    let has_part = nodes.is_some_and(|nodes| nodes.are_ready(&name));
                    let ended = ended.iter().find(|(of, _)| *of == local && has_part);
                    let ended = ended.map(|(_, after)| *after);
                    let known = ended.or_else(|| begin_of_group(partition, &since));
                    let after = known.unwrap_or(partition.log.head());
                    let is_engine = partition.engine.is_some();
                    let is_behind = after < partition.log.head() || is_engine;
                    let begun = (known.is_none() && !is_engine).then_some(after);
                    Cursor { after, is_behind, is_reading: false, begun }
                });
                let begun = begun.collect();
                self.groups.insert(&name, name.sub(filter_at..), begun);
            }
        }
        let mut is_first = false;
        let mut through = Vec::new();
        if let Some(group) = self.groups.known.get_mut(&name[..]) {
            group.sleepers.remove(&member.client);
            is_first = group.members.is_empty();
            group.members.push_back(Joined { edge, member, room, open: Vec::new() });
            let partitions = (0..).zip(&self.partitions).filter(|(_, it)| it.engine.is_none());
            let places = partitions.map(|(local, it)| (it.id, group.through(local, it.log.head())));
            through.extend(places);
        }
        self.groups.members.insert((edge, member.number), name[..].into());
        let joined = Box::new(JoinedGroup { member, through });
        turn.out.post(edge, ToEdge::Group(GroupLetter::Joined(joined)));
        self.feed_group(&name, turn);
        if is_first {
            self.write_of_groups(turn);
        }
    }

    /// A member leaves its group.
    fn leave_group(&mut self, edge: EdgeId, asked: &LeaveGroup, turn: &mut Turn<'_>) {
        let LeaveGroup { group: ref name, member, until_ms, keeps_open } = *asked;
        let Some(group) = self.groups.known.get_mut(&name[..]) else {
            return;
        };
        let is_it = |it: &Joined| it.edge == edge && it.member.number == member.number;
        let joined = group.members.iter().position(is_it);
        if let Some(joined) = joined
            && keeps_open
            && !group.members[joined].open.is_empty()
        {
            group.members[joined].room = 0;
            self.groups.look_ms = 0;
            return;
        }
        self.groups.members.remove(&(edge, member.number));
        if let Some(joined) = joined
            && let Some(mut left) = group.members.remove(joined)
        {
            left.open.sort_unstable_by_key(|it| (it.local, it.offset));
            for handed in left.open.into_iter().rev() {
                group.returned.push_front(handed);
            }
        }
        // The client may have returned by another edge.
        let is_back = group.members.iter().any(|it| it.member.client == member.client);
        // The session may continue at another node, which is about to write that.
        let continues = member.number == Member::ASLEEP && self.settings.has_engine_logs();
        let until_ms = if continues { until_ms.max(turn.now_ms + MOVING_MS) } else { until_ms };
        if until_ms > turn.now_ms && !is_back {
            let until_ms = until_ms.saturating_add(RETURNING_MS);
            group.sleepers.insert(member.client, until_ms);
            self.groups.next_end_ms = self.groups.next_end_ms.min(until_ms);
        } else if !is_back {
            group.sleepers.remove(&member.client);
        }
        if group.members.is_empty() {
            self.end_group(name);
            self.write_of_groups(turn);
        }
        self.feed_group(name, turn);
    }

    /// A member has acknowledged a message.
    fn group_done(&mut self, edge: EdgeId, done: GroupDone, turn: &mut Turn<'_>) {
        let GroupDone { number, partition, offset, is_returned } = done;
        let (Some(local), Some(name)) =
            (self.local(partition), self.groups.members.get(&(edge, number)).cloned())
        else {
            return;
        };
        let Some(group) = self.groups.known.get_mut(&name) else {
            return;
        };
        let is_it = |it: &Joined| it.edge == edge && it.member.number == number;
        let Some(at) = group.members.iter().position(is_it) else {
            return;
        };
        let joined = &mut group.members[at];
        let is_done = |it: &Handed| (it.local, it.offset) == (local, offset);
        let mut pays = false;
        if let Some(done) = joined.open.iter().position(is_done) {
            let done = joined.open.remove(done);
            pays = done.debt.is_some();
            group.returned.extend(is_returned.then_some(done));
            if pays {
                group.forget_paid();
            }
        }
        let has_left = group.members[at].room == 0 && group.members[at].open.is_empty();
        if has_left {
            group.members.remove(at);
            self.groups.members.remove(&(edge, number));
        }
        let is_empty = group.members.is_empty();
        if is_empty {
            self.end_group(&name);
        }
        self.feed_group(&name, turn);
        if pays || is_empty {
            self.write_of_groups(turn);
        }
    }

    /// A record was appended: each group that wants it hands it out, or falls behind.
    pub(super) fn hand_to_groups(
        &mut self,
        (topic, local, offset): (u32, u32, u64),
        record: &Slice,
        turn: &mut Turn<'_>,
    ) {
        let name = self.interests.topics.name(topic);
        let groups = self.groups.of_topic(name);
        if groups.is_empty() {
            return;
        }
        let topic = Slice::copy_of(name);
        for group in groups {
            let is_behind = self.cursor_of_group(&group, local).is_none_or(|it| it.is_behind);
            let message = (local, offset, &topic[..]);
            if is_behind || self.is_ready(&group, local) && !self.is_part(&group, message, None) {
                continue;
            }
            let (topic, record) = (topic.clone(), record.clone());
            let handed = Handed { local, offset, topic, record, debt: None };
            let is_handed =
                self.is_ready(&group, local) && self.hand_out(&group, handed, turn).is_ok();
            if !is_handed && let Some(cursor) = self.cursor_of_group(&group, local) {
                (cursor.is_behind, cursor.after) = (true, offset - 1);
            }
        }
    }

    fn cursor_of_group(&mut self, name: &[u8], local: u32) -> Option<&mut Cursor> {
        self.groups.known.get_mut(name)?.cursors.get_mut(local as usize)
    }

    /// Hands a message to a member; gives it back if none has room.
    fn hand_out(&mut self, name: &[u8], handed: Handed, turn: &mut Turn<'_>) -> Result<(), Handed> {
        let order = self.settings.mqtt.group_order;
        let Some(group) = self.groups.known.get_mut(name) else {
            return Ok(());
        };
        let Some(mut joined) =
            group.choose(order, &handed.topic).and_then(|at| group.members.remove(at))
        else {
            return Err(handed);
        };
        let partition = &self.partitions[handed.local as usize];
        let through = group.through(handed.local, partition.log.head()).min(handed.offset - 1);
        let nodes = self.groups.nodes.get(&handed.local);
        let of_all = nodes.and_then(|nodes| nodes.through(name)).unwrap_or(u64::MAX);
        let through = through.min(of_all);
        let message = GroupMessage {
            member: joined.member,
            partition: partition.id,
            topic: handed.topic.clone(),
            record: handed.record.clone(),
            through,
        };
        let edge = joined.edge;
        joined.open.push(handed);
        group.members.push_back(joined);
        turn.out.post(edge, ToEdge::Group(GroupLetter::Message(message)));
        Ok(())
    }

    /// Members have room: hands out what others have left, then what the log has.
    fn feed_group(&mut self, name: &[u8], turn: &mut Turn<'_>) {
        while let Some(group) = self.groups.known.get_mut(name)
            && let Some(handed) = group.returned.pop_front()
        {
            if let Err(handed) = self.hand_out(name, handed, turn) {
                if let Some(group) = self.groups.known.get_mut(name) {
                    group.returned.push_front(handed);
                }
                return;
            }
        }
        let Some(group) = self.groups.known.get_mut(name) else {
            return;
        };
        if group.room() == 0 {
            return;
        }
        let mut scans = Vec::new();
        let generation = group.generation;
        for (local, cursor) in (0..).zip(&mut group.cursors) {
            let nodes = self.groups.nodes.get(&local);
            let is_engine = self.partitions[local as usize].engine.is_some();
            let is_ready = nodes.map_or(!is_engine, |nodes| nodes.are_ready(name));
            if cursor.is_behind && !cursor.is_reading && is_ready {
                cursor.is_reading = true;
                scans.push(GroupScan { local, group: name.into(), generation, debt: None });
            }
        }
        for inherited in &mut group.inherited {
            if inherited.cursor.is_behind && !inherited.cursor.is_reading {
                inherited.cursor.is_reading = true;
                let (local, debt) = (inherited.local, Some(inherited.id));
                scans.push(GroupScan { local, group: name.into(), generation, debt });
            }
        }
        for scan in scans {
            self.in_turn(Work::Group(scan), turn);
        }
    }

    /// Reads a page of a partition for a group that is behind.
    pub(super) fn scan_for_group(&mut self, asked: GroupScan, turn: &mut Turn<'_>) -> Step {
        let Some(group) = self.groups.known.get_mut(&asked.group) else {
            return Step::Nothing;
        };
        let room = group.room();
        let partition = &self.partitions[asked.local as usize];
        let (head, floor) = (partition.log.head(), partition.floor());
        let Some((cursor, until)) = group.cursor_of(&asked) else {
            return Step::Nothing;
        };
        let head = head.min(until);
        // The records of a life before, or those that the log has dropped, are lost to the group.
        let begin = cursor.after.min(head).max(floor - 1);
        self.statistics.gaps += u64::from(begin > cursor.after);
        cursor.after = begin;
        if room == 0 {
            cursor.is_reading = false;
            return Step::Nothing;
        }
        let limits = &self.settings.limits;
        let limits = PageLimits {
            records_max: limits.page_records_max.min(u32::try_from(room).unwrap_or(u32::MAX)),
            bytes_max: limits.page_bytes,
        };
        let scan = Scan {
            local: asked.local,
            asked: ReadFilter {
                subscription: Key { index: u32::MAX, generation: 0 },
                partition: partition.id,
                filters: vec![group.filter.clone()],
                after: begin,
                mode: ReadMode::Replay,
                limits,
            },
        };
        self.statistics.pages_read += 1;
        if begin + 1 < partition.oldest() {
            let query = DiskQuery::Scan {
                filters: scan.asked.filters.clone(),
                after: begin,
                through: head.min(partition.oldest() - 1),
                limits,
                bytes_scanned_max: self.settings.limits.scan_bytes_max,
            };
            let local = asked.local;
            let question = Question::Group(asked);
            return Step::Ask(Box::new(Asking { local, question, query }));
        }
        let (records, through) = self.records_for_group(&scan, begin, head);
        self.group_page(&asked, records, through, turn)
    }

    /// A page has come: its records go to members.
    pub(super) fn group_page(
        &mut self,
        asked: &GroupScan,
        records: Vec<(Slice, Slice)>,
        through: u64,
        turn: &mut Turn<'_>,
    ) -> Step {
        let (local, debt) = (asked.local, asked.debt);
        let group = self.groups.known.get_mut(&asked.group);
        if group.and_then(|group| group.cursor_of(asked)).is_none() {
            return Step::Nothing; // the group that has asked has ended
        }
        let mut settled = through;
        for (topic, record) in records {
            let offset = super::read::offset_of(&record);
            if !self.is_part(&asked.group, (local, offset, &topic), debt) {
                continue;
            }
            let handed = Handed { local, offset, topic, record, debt };
            if self.hand_out(&asked.group, handed, turn).is_err() {
                settled = offset - 1;
                break;
            }
        }
        let head = self.partitions[local as usize].log.head();
        let group = self.groups.known.get_mut(&asked.group);
        if let Some((cursor, until)) = group.and_then(|group| group.cursor_of(asked)) {
            let is_behind = settled < head.min(until);
            *cursor = Cursor { after: settled, is_behind, is_reading: false, ..*cursor };
        }
        if debt.is_some()
            && let Some(group) = self.groups.known.get_mut(&asked.group)
        {
            group.forget_paid();
        }
        if settled == through {
            self.feed_group(&asked.group, turn);
        }
        if debt.is_some() {
            self.write_of_groups(turn);
        }
        Step::Nothing
    }

    /// The disk cannot read for a group now. The next acknowledgement asks again, or the clock.
    pub(super) fn group_page_failed(&mut self, asked: &GroupScan) {
        self.groups.again_ms = self.elapsed.ms + AGAIN_MS;
        let group = self.groups.known.get_mut(&asked.group);
        if let Some((cursor, _)) = group.and_then(|group| group.cursor_of(asked)) {
            cursor.is_reading = false;
        }
    }
}

/// The caller of a page for a group: no edge waits for it.
pub(super) const OF_GROUP: Caller = Caller {
    edge: EdgeId(0),
    cost: 0,
    class: RequestClass::Memory,
    is_consumed: true,
    has_waited: false,
};
