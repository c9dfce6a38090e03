//! The groups of all nodes in one partition of the engine: which node hands out which message.
//!
//! Nodes write records into the partition itself ([`Register`]). So a change has one place among
//! the messages, and all nodes that have read up to a message agree on its node: messages behind
//! the record go by the change, and messages before it do not. Among the nodes with members, a
//! hash decides for each message; so a node that comes or goes moves only its own part.
//!
//! A node that leaves has messages that its members have not acknowledged: a *debt*. One other node
//! inherits it, hands these messages out, and says when they are acknowledged: one that has them,
//! if there is one. If that node leaves before, another inherits both. While no node has members,
//! debts wait.
//!
//! A node that begins to read has not seen earlier records. It asks; a node that knows answers with
//! its whole [`State`], and records that came meanwhile are applied to it. Where no living node
//! knows anything, groups begin with a record that says so. So the state of a node is that of all
//! others at the same offset, or none.
//!
//! Values in, values out: no clock, and no home.

use super::register::{Answer, Debt, Has, Part, Register, Said};
use crate::home::work::DebtId;
use std::collections::{BTreeMap, VecDeque};
use stdx::handing::Hand;
use stdx::hash::{Seed, keyed};
use stdx::memory::{tree_bytes, vector_bytes};

/// The node of messages while no node has members. No run has this number.
pub(super) const NOBODY: u64 = 0;
/// Records that a node keeps until it knows the state before them.
const KEPT_MAX: usize = 1_024;

/// The groups of all nodes, after a record: a function of the records.
#[derive(Clone, PartialEq, Eq, Debug, Default, Hand)]
pub(super) struct State {
    /// The names of nodes that have written, by run.
    pub nodes: BTreeMap<u64, Box<str>>,
    pub groups: BTreeMap<Box<[u8]>, Known>,
}

/// A group, as the records say.
#[derive(Clone, PartialEq, Eq, Debug, Default, Hand)]
pub(super) struct Known {
    parts: BTreeMap<u64, Part>,
    /// The runs that have members, from behind an offset on. Offsets rise.
    sets: VecDeque<(u64, Vec<u64>)>,
    debts: Vec<Debt>,
}

impl Known {
    pub fn memory_bytes(&self) -> usize {
        let sets = self.sets.iter().map(|(_, set)| set.capacity() * size_of::<u64>());
        tree_bytes(self.parts.len(), size_of::<(u64, Part)>())
            + self.sets.capacity() * size_of::<(u64, Vec<u64>)>()
            + sets.sum::<usize>()
            + vector_bytes::<Debt>(self.debts.len())
    }

    /// The run that hands out the message at an offset; none if that is not known any more.
    fn owner_at(&self, offset: u64, by: u64) -> Option<u64> {
        let behind = self.sets.partition_point(|(from, _)| *from < offset);
        let (_, set) = self.sets.get(behind.checked_sub(1)?)?;
        Some(choose(set, by))
    }

    fn newest_set(&self) -> &[u64] {
        self.sets.back().map_or(&[], |(_, set)| set)
    }

    /// A run has members from behind an offset on.
    fn join(&mut self, run: u64, at: u64, part: Part) {
        let mut set = self.newest_set().to_vec();
        match self.sets.back() {
            // The first part of the group begins at its node's position.
            None => self.sets.push_back((part.through.min(at), vec![run])),
            Some(&(after, _)) if set.is_empty() && after < at => {
                let id = DebtId { of: NOBODY, until: at };
                self.debts.push(Debt { id, after, heir: 0 });
            }
            Some(_) => {}
        }
        set.push(run);
        set.sort_unstable();
        self.note_set(at, set);
    }

    /// The members of a run have left, by a record at this offset.
    fn leave(&mut self, run: u64, at: u64, through: u64) {
        let mut set = self.newest_set().to_vec();
        set.retain(|it| *it != run);
        self.note_set(at, set);
        for debt in self.debts.iter_mut().filter(|debt| debt.heir == run) {
            debt.heir = 0;
        }
        if through < at {
            let id = DebtId { of: run, until: at };
            self.debts.push(Debt { id, after: through, heir: 0 });
        }
    }

    fn note_set(&mut self, from: u64, set: Vec<u64>) {
        match self.sets.back_mut() {
            Some((last, of_last)) if *last == from => *of_last = set,
            _ => self.sets.push_back((from, set)),
        }
    }

    fn take(&mut self, (run, at): (u64, u64), part: Part, paid: &[DebtId]) {
        self.debts.retain(|debt| !(debt.heir == run && paid.contains(&debt.id)));
        let before = self.parts.insert(run, part);
        let before = before.filter(|before| before.has == Has::Members);
        match (before, part.has) {
            (None, Has::Members) => self.join(run, at, part),
            (Some(before), Has::Members) => {
                let through = before.through.max(part.through);
                self.parts.insert(run, Part { through, ..part });
            }
            (Some(_), Has::Sleepers | Has::Nothing) => self.leave(run, at, part.through),
            (None, Has::Sleepers | Has::Nothing) => {}
        }
        if part.has == Has::Nothing {
            self.parts.remove(&run);
        }
        self.settle();
    }

    /// A run has gone, by a record at this offset.
    fn end(&mut self, run: u64, at: u64) {
        let part = self.parts.remove(&run);
        if let Some(part) = part.filter(|part| part.has == Has::Members) {
            self.leave(run, at, part.through);
            self.settle();
        }
    }

    /// Gives debts to heirs, and forgets sets that are older than all parts and debts.
    fn settle(&mut self) {
        let members = self.parts.iter().filter(|(_, part)| part.has == Has::Members);
        let members: Vec<(u64, u64)> = members.map(|(run, part)| (*run, part.floor)).collect();
        for debt in self.debts.iter_mut().filter(|debt| debt.heir == 0) {
            let floors = members.iter().map(|(_, floor)| (*floor).max(debt.after));
            let Some(lowest) = floors.min() else { break };
            let able = members.iter().filter(|(_, floor)| *floor <= lowest).map(|(run, _)| *run);
            debt.heir = choose(&able.collect::<Vec<u64>>(), debt.id.of ^ debt.id.until);
        }
        let needed = self.parts.values().filter(|part| part.has == Has::Members);
        let needed = needed.map(|part| part.through);
        let needed = needed.chain(self.debts.iter().map(|debt| debt.after)).min();
        let needed = needed.unwrap_or(u64::MAX);
        while self.sets.get(1).is_some_and(|(from, _)| *from <= needed) {
            self.sets.pop_front();
        }
    }
}

/// The run with the greatest hash: when one leaves, only its messages move.
fn choose(set: &[u64], by: u64) -> u64 {
    let weight = |run: u64| keyed(Seed(run, 0), &by.to_le_bytes());
    set.iter().copied().max_by_key(|run| (weight(*run), *run)).unwrap_or(NOBODY)
}

impl State {
    /// Applies the record of a run, at an offset.
    fn apply(&mut self, (run, at): (u64, u64), said: &Register) {
        let former = self.nodes.iter();
        let former = former.filter(|(of, node)| **of != run && **node == said.node);
        let mut ended: Vec<u64> = former.map(|(of, _)| *of).collect();
        ended.extend(said.ended.iter().filter(|of| **of != run));
        for run in ended {
            self.nodes.remove(&run);
            self.groups.values_mut().for_each(|known| known.end(run, at));
        }
        self.nodes.insert(run, said.node.clone());
        for Said { group, part, paid } in &said.groups {
            let known = self.groups.entry(group.clone()).or_default();
            known.take((run, at), *part, paid);
        }
        self.groups.retain(|_, known| !known.parts.is_empty());
    }
}

/// The groups of all nodes, as one node knows them.
#[derive(Debug, Default, Hand)]
pub(super) struct Peers {
    state: State,
    /// The state is that after the newest record.
    is_known: bool,
    /// Records behind an offset, for a state that comes yet.
    kept: VecDeque<(u64, u64, Register)>,
    kept_from: u64,
    /// The offset of a record by which others know the state, and this node does not.
    known_elsewhere: u64,
    /// The parts of a state that have come, by run.
    partial: BTreeMap<u64, State>,
    /// The offset of this node's question.
    asked: Option<u64>,
    /// Nodes that know nothing, each with the offset up to which it had read.
    ignorant: BTreeMap<Box<str>, u64>,
    /// The offset of the newest question of another node.
    question: u64,
    /// Questions up to this offset are answered.
    answered: u64,
}

impl Peers {
    /// A node that has read no record up to an offset.
    pub fn new(after: u64) -> Peers {
        Peers { kept_from: after, ..Peers::default() }
    }

    /// Takes a record of the partition: that of a run, at an offset. `own` is this node's run.
    pub fn take(&mut self, (run, at): (u64, u64), said: Register, own: u64) {
        match (said.asks, run == own) {
            (true, true) => self.asked = Some(at),
            (true, false) => self.question = at,
            (false, _) => {}
        }
        match said.answer {
            Answer::None => {}
            Answer::Nothing { through } => {
                self.ignorant.insert(said.node.clone(), through);
                if run == own {
                    self.answered = self.answered.max(through);
                }
            }
            Answer::Begin { through } | Answer::All { through, goes_on: false, .. } => {
                self.answered = self.answered.max(through);
            }
            Answer::All { goes_on: true, .. } => {}
        }
        if self.is_known {
            return self.state.apply((run, at), &said);
        }
        match said.answer {
            // Without another such record between, which this node would have read.
            Answer::Begin { through } if through >= self.kept_from.max(self.known_elsewhere) => {
                self.know(State::default());
            }
            Answer::All { through, goes_on, ref state } if through >= self.kept_from => {
                let partial = self.partial.entry(run).or_default();
                partial.nodes.extend(state.nodes.clone());
                partial.groups.extend(state.groups.clone());
                if goes_on {
                    self.known_elsewhere = at;
                    return;
                }
                let mut state = std::mem::take(partial);
                let following = self.kept.iter().filter(|(_, at, _)| *at > through);
                following.for_each(|(run, at, said)| state.apply((*run, *at), said));
                self.know(state);
            }
            Answer::Begin { .. } | Answer::All { .. } => {
                self.known_elsewhere = at;
                self.asked = None;
            }
            Answer::None | Answer::Nothing { .. } => {}
        }
        if self.is_known {
            self.state.apply((run, at), &said);
        } else {
            self.kept.push_back((run, at, said));
            self.forget_kept();
        }
    }

    fn know(&mut self, state: State) {
        let Peers { question, answered, asked, .. } = *self;
        *self = Peers { state, is_known: true, question, answered, asked, ..Peers::default() };
    }

    fn forget_kept(&mut self) {
        if self.kept.len() <= KEPT_MAX {
            return;
        }
        if let Some((_, at, _)) = self.kept.pop_front() {
            self.kept_from = at;
            self.asked = self.asked.filter(|asked| *asked > at);
        }
    }

    /// Whether this node knows what the records say.
    pub fn is_known(&self) -> bool {
        self.is_known
    }

    /// Whether this node has to ask.
    pub fn must_ask(&self) -> bool {
        !self.is_known && self.asked.is_none()
    }

    /// Whether no living node knows anything. `others` are their names, without this one's.
    pub fn must_begin<'a>(&self, mut others: impl Iterator<Item = &'a str>) -> bool {
        let knows_nothing = |name: &str, asked: u64| {
            self.ignorant.get(name).is_some_and(|through| *through >= asked)
        };
        let asked = self.asked.filter(|_| !self.is_known);
        asked.is_some_and(|asked| others.all(|name| knows_nothing(name, asked)))
    }

    /// Whether a question of another node waits for an answer.
    pub fn must_answer(&self) -> bool {
        self.question > self.answered
    }

    /// All that this node knows.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The part of a run in a group.
    pub fn part(&self, group: &[u8], run: u64) -> Option<Part> {
        self.state.groups.get(group)?.parts.get(&run).copied()
    }

    /// Whether a message is one of a run's part; `by` decides among the nodes with members.
    pub fn is_of(&self, group: &[u8], (offset, by): (u64, u64), run: u64) -> bool {
        let known = self.state.groups.get(group);
        known.and_then(|known| known.owner_at(offset, by)) == Some(run)
    }

    /// The debts that a run has inherited in a group.
    pub fn debts_of(&self, group: &[u8], run: u64) -> impl Iterator<Item = Debt> {
        let debts = self.state.groups.get(group).into_iter().flat_map(|known| &known.debts);
        debts.copied().filter(move |debt| debt.heir == run)
    }

    /// The members of a group on all nodes have acknowledged everything up to here, as far as the
    /// records say.
    pub fn through(&self, group: &[u8]) -> Option<u64> {
        let known = self.state.groups.get(group)?;
        let parts = known.parts.values().filter(|part| part.has == Has::Members);
        let parts = parts.map(|part| part.through);
        parts.chain(known.debts.iter().map(|debt| debt.after)).min()
    }

    /// The groups in which a run has a part.
    pub fn groups_of(&self, run: u64) -> impl Iterator<Item = (&[u8], Part)> {
        let known = self.state.groups.iter();
        known.filter_map(move |(name, known)| Some((&name[..], *known.parts.get(&run)?)))
    }

    /// The runs of nodes that are not among these names, each with its node's name.
    pub fn runs_without(&self, is_there: impl Fn(&str) -> bool) -> Vec<(u64, &str)> {
        let missing = self.state.nodes.iter().filter(|(_, name)| !is_there(name));
        missing.map(|(run, name)| (*run, &**name)).collect()
    }

    pub fn memory_bytes(&self) -> usize {
        let groups = self.state.groups.iter();
        let groups = groups.map(|(name, known)| name.len() + known.memory_bytes());
        tree_bytes(self.state.nodes.len(), size_of::<(u64, Box<str>)>())
            + tree_bytes(self.state.groups.len(), size_of::<(Box<[u8]>, Known)>())
            + groups.sum::<usize>()
            + self.kept.capacity() * size_of::<(u64, u64, Register)>()
    }
}
