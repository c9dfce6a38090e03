//! A group on several nodes: this node's records about its groups, and the consequences of those of
//! others ([`super::peers`]).
//!
//! Beside the path. A node writes what differs from what the engine's log says of it: at once when
//! a group gets its first member or loses its last one, every few seconds when members have
//! acknowledged messages. Invariant: the node hands out a message of the engine only if the records
//! before it say that it is the node's, or one of a debt that the node has inherited. A record that
//! does not come is written again; two of them mean the same as one.

use super::peers::{Peers, State};
use super::register::{Answer, Debt, Has, Part, Register, Said};
use super::{Cursor, Group, Home};
use crate::engine::{EnginePublish, EngineRequest, TailRecord};
use crate::home::turn::Turn;
use crate::home::work::DebtId;
use crate::mail::Publication;
use crate::settings::GroupOrder;
use crate::sys;
use std::collections::{BTreeMap, BTreeSet};
use stdx::chunk::Slice;
use stdx::handing::Hand;
use stdx::hash::{Seed, keyed};

/// A record that has not come is written again after this time, in milliseconds.
const AGAIN_MS: u64 = 2_000;
/// Acknowledgements are written once in this time, in milliseconds.
const ACKNOWLEDGED_MS: u64 = 5_000;
/// A node that has never been among the living ones is in no group any more after this time, in
/// milliseconds.
const GONE_MS: u64 = 10_000;
/// The clock is looked at once in this time, in milliseconds.
const LOOK_MS: u64 = 1_000;
/// Groups in one record whose parts have changed, at most.
const GROUPS_MAX: usize = 500;
/// About how many bytes of groups one record has at most.
const STATE_BYTES_MAX: usize = 64 << 10;

/// The groups of all nodes in one partition of the engine.
#[derive(Debug, Default, Hand)]
pub(super) struct Nodes {
    /// This node's run in the partition.
    run: u64,
    peers: Peers,
    /// The time of this node's newest record, by the home's clock in milliseconds.
    written_ms: u64,
    /// That record has not come yet.
    is_written: bool,
    /// Runs of nodes that do not live, each with the time at which this was noticed.
    missing: BTreeMap<u64, u64>,
}

/// Groups that this node has left: the offsets up to which their messages are acknowledged, by
/// partition, until the engine has that.
pub(super) type Ended = BTreeMap<Box<[u8]>, Vec<(u32, u64)>>;

/// A debt of another node that this one has inherited.
#[derive(Debug, Hand)]
pub(super) struct Inherited {
    pub local: u32,
    pub id: DebtId,
    pub cursor: Cursor,
}

impl Nodes {
    /// Nothing is known yet of a partition whose records this run has read up to an offset.
    fn new(run: u64, after: u64) -> Nodes {
        Nodes { run, peers: Peers::new(after), ..Nodes::default() }
    }

    /// Whether the node has a part in a group, and knows which messages are its own.
    pub fn are_ready(&self, group: &[u8]) -> bool {
        self.has_members(group)
    }

    /// All members of a group, on all nodes, have acknowledged everything up to here.
    pub fn through(&self, group: &[u8]) -> Option<u64> {
        self.peers.through(group)
    }

    pub fn memory_bytes(&self) -> usize {
        size_of::<Nodes>() + self.peers.memory_bytes()
    }

    fn has_members(&self, group: &[u8]) -> bool {
        self.peers.part(group, self.run).is_some_and(|part| part.has == Has::Members)
    }

    /// Notes the runs of nodes that do not live; returns those that are gone. One that has lived is
    /// gone at once; the first report of another may be on its way.
    fn gone(
        &mut self,
        living: &BTreeSet<Box<str>>,
        left: &BTreeSet<Box<str>>,
        now_ms: u64,
    ) -> Vec<u64> {
        let missing = self.peers.runs_without(|name| living.contains(name));
        self.missing.retain(|run, _| missing.iter().any(|(missing, _)| missing == run));
        let mut gone = Vec::new();
        for (run, name) in missing {
            let since_ms = *self.missing.entry(run).or_insert(now_ms);
            if left.contains(name) || since_ms + GONE_MS <= now_ms {
                gone.push(run);
            }
        }
        gone
    }
}

impl Group {
    /// The part of this node in the group, as it is now.
    fn part(&self, local: u32, (floor, head): (u64, u64)) -> Part {
        // One without room only acknowledges what it has.
        let takes = self.members.iter().any(|it| it.room > 0);
        let has = if takes { Has::Members } else { Has::Sleepers };
        Part { has, through: self.through(local, head), floor }
    }

    /// Whether the messages of a debt are acknowledged.
    pub(super) fn has_paid(&self, inherited: &Inherited) -> bool {
        let Inherited { local, id, cursor } = inherited;
        let is_of = |debt: Option<DebtId>| debt == Some(*id);
        !cursor.is_behind
            && !cursor.is_reading
            && !self.open().any(|it| it.local == *local && is_of(it.debt))
    }

    /// This node has no part in a partition any more, from a record at this offset on.
    fn leave_partition(&mut self, local: u32, at: u64) {
        self.returned.retain(|it| it.local != local);
        if let Some(cursor) = self.cursors.get_mut(local as usize) {
            cursor.after = cursor.after.max(at);
            cursor.is_behind = true;
        }
    }

    /// Takes over the debts that this node has inherited, and forgets those that it has no more.
    fn inherit(&mut self, local: u32, debts: &[Debt]) {
        self.inherited.retain(|it| it.local != local || debts.iter().any(|debt| debt.id == it.id));
        for Debt { id, after, .. } in debts {
            if !self.inherited.iter().any(|it| (it.local, it.id) == (local, *id)) {
                let cursor = Cursor { after: *after, is_behind: true, ..Cursor::default() };
                self.inherited.push(Inherited { local, id: *id, cursor });
            }
        }
    }
}

impl Home {
    /// Whether a message is one of this node's part in a group, or of a debt that it pays.
    pub(super) fn is_part(
        &self,
        group: &[u8],
        (local, offset, topic): (u32, u64, &[u8]),
        debt: Option<DebtId>,
    ) -> bool {
        let Some(nodes) = self.groups.nodes.get(&local) else {
            return true;
        };
        let by = match self.settings.mqtt.group_order {
            GroupOrder::Any => offset,
            GroupOrder::Topic => keyed(Seed(0, 0), topic),
        };
        match debt {
            Some(debt) => nodes.peers.is_of(group, (offset, by), debt.of),
            None => nodes.peers.is_of(group, (offset, by), nodes.run),
        }
    }

    /// Whether this node may hand out messages of a partition to a group.
    pub(super) fn is_ready(&self, group: &[u8], local: u32) -> bool {
        let is_engine = self.partitions[local as usize].engine.is_some();
        let nodes = self.groups.nodes.get(&local);
        nodes.map_or(!is_engine, |nodes| nodes.are_ready(group))
    }

    /// A node has written about its groups.
    pub(in crate::home) fn take_register(
        &mut self,
        local: u32,
        record: &TailRecord,
        turn: &mut Turn<'_>,
    ) {
        let payload = &record.publication.payload;
        let (Some(name), Some(said)) = (record.name, Register::decode(payload)) else {
            return;
        };
        let own = self.run_of(local);
        let nodes = self.groups.nodes.entry(local);
        let nodes = nodes.or_insert_with(|| Nodes::new(own, record.offset - 1));
        let concerns_all = !said.ended.is_empty() || said.answer != Answer::None;
        let named = said.groups.iter().map(|said| said.group.clone());
        let named: Option<Vec<Box<[u8]>>> = (!concerns_all).then(|| named.collect());
        let groups = self.groups.known.keys();
        let had: Vec<Box<[u8]>> = groups.filter(|it| nodes.has_members(it)).cloned().collect();
        nodes.peers.take((name.run, record.offset), said, own);
        nodes.is_written &= name.run != own;
        for group in had {
            if !nodes.has_members(&group)
                && let Some(group) = self.groups.known.get_mut(&group)
            {
                group.leave_partition(local, record.offset);
            }
        }
        self.follow_nodes(local, named, turn);
    }

    /// Does what follows from a change: in all groups, or in these.
    fn follow_nodes(&mut self, local: u32, groups: Option<Vec<Box<[u8]>>>, turn: &mut Turn<'_>) {
        let Some(nodes) = self.groups.nodes.get_mut(&local) else {
            return;
        };
        let own = nodes.run;
        let groups = groups.unwrap_or_else(|| self.groups.known.keys().cloned().collect());
        for name in &groups {
            let debts: Vec<Debt> = nodes.peers.debts_of(name, own).collect();
            if let Some(group) = self.groups.known.get_mut(name) {
                group.inherit(local, &debts);
            }
        }
        for name in groups {
            self.feed_group(&name, turn);
        }
        self.write_register(local, turn);
    }

    /// A partition begins anew: nothing that nodes have written there holds.
    pub(in crate::home) fn restart_groups(&mut self, local: u32) {
        if self.groups.nodes.remove(&local).is_none() {
            return;
        }
        for group in self.groups.known.values_mut() {
            group.inherited.retain(|it| it.local != local);
            if let Some(cursor) = group.cursors.get_mut(local as usize) {
                cursor.is_behind = true;
            }
        }
    }

    /// Keeps the places of a group that this node leaves, until the engine has them.
    pub(super) fn note_ended(&mut self, name: &[u8], group: &Group) {
        let partitions = (0..).zip(&self.partitions).filter(|(_, it)| it.engine.is_some());
        let through = partitions.map(|(local, it)| (local, group.through(local, it.log.head())));
        self.groups.ended.insert(name.into(), through.collect());
    }

    /// Looks at the clock: records that have not come, acknowledgements, nodes that are gone.
    pub(super) fn watch_nodes(&mut self, turn: &mut Turn<'_>) {
        if self.elapsed.ms >= self.groups.look_ms && self.has_groups_of_nodes() {
            self.groups.look_ms = self.elapsed.ms + LOOK_MS;
            // Perhaps other nodes live than before.
            let partitions: Vec<u32> = self.groups.nodes.keys().copied().collect();
            for local in partitions {
                self.follow_nodes(local, None, turn);
            }
            self.write_of_groups(turn);
        }
    }

    fn has_groups_of_nodes(&self) -> bool {
        let is_waiting = |nodes: &Nodes| nodes.is_written || nodes.peers.must_answer();
        self.settings.has_engine_logs()
            && (!self.groups.known.is_empty()
                || !self.groups.ended.is_empty()
                || self.groups.nodes.values().any(is_waiting))
    }

    /// The next look at the clock, in milliseconds of the home's clock.
    pub(in crate::home) fn next_look_at_groups(&self) -> Option<u64> {
        self.has_groups_of_nodes().then_some(self.groups.look_ms)
    }

    /// Writes the changes of the groups, in all partitions of the engine.
    pub(super) fn write_of_groups(&mut self, turn: &mut Turn<'_>) {
        if !self.settings.has_engine_logs() {
            return;
        }
        for local in 0..self.partitions.len() as u32 {
            if self.partitions[local as usize].engine.is_some() {
                self.write_register(local, turn);
            }
        }
        let nodes = &self.groups.nodes;
        let is_known = |name: &[u8]| nodes.values().any(|it| it.peers.part(name, it.run).is_some());
        self.groups.ended.retain(|name, _| is_known(name));
    }

    /// Writes the changes of the groups in a partition, if there are any.
    fn write_register(&mut self, local: u32, turn: &mut Turn<'_>) {
        let (own, now_ms) = (self.run_of(local), self.elapsed.ms);
        let Some(through) = self.tailed_through(local).filter(|_| !self.is_closed(local)) else {
            return;
        };
        if self.groups.known.is_empty() && !self.groups.nodes.contains_key(&local) {
            return;
        }
        let partition = &self.partitions[local as usize];
        let extent = (partition.floor() - 1, partition.log.head());
        let nodes = self.groups.nodes.entry(local).or_insert_with(|| Nodes::new(own, through));
        let own_name = self.settings.node_name.as_str();
        let living = self.shared.living.as_ref();
        let left = &self.shared.left;
        let ended = living.map(|living| nodes.gone(living, left, now_ms)).unwrap_or_default();
        if nodes.is_written && now_ms < nodes.written_ms + AGAIN_MS {
            return;
        }
        let mut others = living.into_iter().flatten().map(|it| &**it).filter(|it| *it != own_name);
        let has_groups = !self.groups.known.is_empty();
        let begins = living.is_some() && has_groups && nodes.peers.must_begin(&mut others);
        let asks = has_groups && nodes.peers.must_ask();
        let answers = nodes.peers.must_answer();
        let (groups, is_urgent) = if begins || nodes.peers.is_known() {
            changes((&self.groups.known, &self.groups.ended), (nodes, local, extent))
        } else {
            (Vec::new(), false)
        };
        let is_urgent = is_urgent || begins || asks || answers || !ended.is_empty();
        let is_due = !groups.is_empty() && now_ms >= nodes.written_ms + ACKNOWLEDGED_MS;
        if !is_urgent && !is_due {
            return;
        }
        nodes.is_written = true;
        nodes.written_ms = now_ms;
        let states = match (begins, answers, nodes.peers.is_known()) {
            (true, ..) => vec![Answer::Begin { through }],
            (false, true, true) => split(nodes.peers.state(), through),
            (false, true, false) => vec![Answer::Nothing { through }],
            (false, false, _) => Vec::new(),
        };
        let node: Box<str> = own_name.into();
        let (mut answers, mut groups) = (states.into_iter(), groups.into_iter());
        let mut register = Register { node, asks, answer: Answer::None, ended, groups: Vec::new() };
        loop {
            register.answer = answers.next().unwrap_or(Answer::None);
            register.groups = groups.by_ref().take(GROUPS_MAX).collect();
            self.publish_register(local, &register, turn);
            (register.asks, register.ended) = (false, Vec::new());
            if answers.len() == 0 && groups.len() == 0 {
                return;
            }
        }
    }

    fn publish_register(&mut self, local: u32, register: &Register, turn: &mut Turn<'_>) {
        let topic = sys::groups_topic(&register.node);
        let partition = self.partitions[local as usize].id;
        let Some(name) = self.next_engine_name(local) else {
            return;
        };
        let publication = Publication {
            topic: Slice::copy_of(topic.as_bytes()),
            payload: Slice::copy_of(&register.encode()),
            ..Publication::default()
        };
        let publish =
            EnginePublish { partition, name, publication, restored: None, is_register: true };
        turn.out.engine.push(EngineRequest::Publish(publish));
    }
}

/// Differences between this node's groups and the records; and whether they are urgent.
fn changes(
    (known, ended): (&BTreeMap<Box<[u8]>, Group>, &Ended),
    (nodes, local, extent): (&Nodes, u32, (u64, u64)),
) -> (Vec<Said>, bool) {
    let (mut changes, mut is_urgent) = (Vec::new(), false);
    for (name, group) in known {
        let (part, written) = (group.part(local, extent), nodes.peers.part(name, nodes.run));
        let inherited = group.inherited.iter().filter(|it| it.local == local);
        let paid: Vec<DebtId> = inherited.filter(|it| group.has_paid(it)).map(|it| it.id).collect();
        let is_other = written.is_none_or(|written| written.has != part.has);
        let is_late = part.has == Has::Members
            && written.is_some_and(|written| written.through < part.through);
        is_urgent |= is_other || !paid.is_empty();
        if is_other || is_late || !paid.is_empty() {
            changes.push(Said { group: name.clone(), part, paid });
        }
    }
    for (name, written) in nodes.peers.groups_of(nodes.run) {
        if !known.contains_key(name) {
            is_urgent = true;
            let mut ended = ended.get(name).into_iter().flatten();
            let through = ended.find(|(of, _)| *of == local).map(|(_, through)| *through);
            let through = through.unwrap_or(written.through);
            let part = Part { has: Has::Nothing, through, floor: written.floor };
            changes.push(Said { group: name.into(), part, paid: Vec::new() });
        }
    }
    (changes, is_urgent)
}

/// Divides a state with very many groups.
fn split(state: &State, through: u64) -> Vec<Answer> {
    let mut parts = vec![State { nodes: state.nodes.clone(), groups: BTreeMap::new() }];
    let mut bytes = 0;
    for (name, known) in &state.groups {
        if bytes > STATE_BYTES_MAX {
            parts.push(State::default());
            bytes = 0;
        }
        bytes += name.len() + known.memory_bytes();
        if let Some(part) = parts.last_mut() {
            part.groups.insert(name.clone(), known.clone());
        }
    }
    let last = parts.len() - 1;
    let parts = parts.into_iter().enumerate();
    parts.map(|(at, state)| Answer::All { through, goes_on: at < last, state }).collect()
}
