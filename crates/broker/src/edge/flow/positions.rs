//! Positions are asked of homes once a second, and told to filters in steps.

use crate::edge::Edge;
use crate::edge::outbox::{Origin, Place};
use crate::edge::slots::{Protocol, flag};
use crate::edge::subscriptions::{Round, Stage};
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{HomeId, PartitionId, StreamPosition, ToHome};
use crate::notice::Beginning;

/// Milliseconds between two steps, and what one does at most: entries looked at, subscriptions
/// told, bytes queued.
const STEP_MS: u64 = 10;
const STEP_LOOKED_MAX: usize = 4_096;
const STEP_TOLD_MAX: usize = 256;
const STEP_BYTES_MAX: usize = 64 << 10;
/// Filters of one connection that is owed positions, in one go.
const OWED_FILTERS_MAX: usize = 32;

/// What is left of a step, and the frames for those who have given their subscription the same
/// number.
struct Step {
    looked: usize,
    told: usize,
    bytes: usize,
    shared: Option<(u32, Place, usize)>,
}

enum Next {
    Subscription(u32),
    Nobody,
    Over,
}

impl Step {
    fn goes_on(&self) -> bool {
        self.looked < STEP_LOOKED_MAX && self.told < STEP_TOLD_MAX && self.bytes < STEP_BYTES_MAX
    }
}

impl Edge {
    /// Begins a round with what the homes have said, and asks them again. Call it once a second.
    pub(crate) fn ask_for_positions(&mut self) {
        if self.subscriptions.filter_entries.is_empty() {
            return;
        }
        if self.subscriptions.positions.round.is_none() {
            self.begin_round();
        }
        for home in 0..self.settings.homes_count {
            // One without room is asked the next time.
            if self.may_request(home) && self.subscriptions.positions.asked.insert(home) {
                self.request(home, ToHome::Positions);
            }
        }
    }

    fn begin_round(&mut self) {
        let now_s = self.now_s();
        let mut telling = Vec::new();
        for (&partition, known) in &mut self.subscriptions.positions.known {
            if known.is_due(now_s, self.settings.log_of(partition)) {
                (known.told, known.told_s) = (known.through, now_s);
                telling.push((partition, known.through));
            }
        }
        if !telling.is_empty() {
            self.subscriptions.positions.round =
                Some(Round { telling, filter: 0, member: usize::MAX });
        }
    }

    /// A home has answered.
    pub(crate) fn positions_are(&mut self, home: HomeId, positions: &[StreamPosition]) {
        self.subscriptions.positions.asked.remove(&home);
        for position in positions {
            let known = self.subscriptions.positions.known.entry(position.partition).or_default();
            (known.through, known.oldest) = (position.through, position.oldest);
        }
    }

    /// Goes on telling, if it is time.
    pub(crate) fn tell_some_positions(&mut self) {
        let now_ms = self.now.monotonic_ms;
        if self.subscriptions.positions.next_step_ms().is_none_or(|at| at > now_ms) {
            return;
        }
        self.subscriptions.positions.next_ms = now_ms + STEP_MS;
        let mut step = Step { looked: 0, told: 0, bytes: 0, shared: None };
        self.tell_owed(&mut step);
        let Some(mut round) = self.subscriptions.positions.round.take() else {
            return;
        };
        step.shared = None;
        while step.goes_on() {
            step.looked += 1;
            match self.next_to_tell(&mut round) {
                Next::Subscription(subscription) => {
                    self.tell_positions(subscription, &round.telling, false, &mut step);
                }
                Next::Nobody => {}
                Next::Over => return,
            }
        }
        self.subscriptions.positions.round = Some(round);
    }

    fn next_to_tell(&self, round: &mut Round) -> Next {
        if round.filter >= self.subscriptions.filter_entries.places() {
            return Next::Over;
        }
        if let Some(filter) = self.subscriptions.filter_entries.get(round.filter) {
            round.member = round.member.min(filter.members.len());
            if let Some(place) = round.member.checked_sub(1) {
                round.member = place;
                let member = self.subscriptions.members.get(&filter.members, place);
                return member.map_or(Next::Nobody, Next::Subscription);
            }
        }
        (round.filter, round.member) = (round.filter + 1, usize::MAX);
        Next::Nobody
    }

    /// Subscriptions begin live here: if a round has passed them by, because a home's answer was on
    /// its way, they are told what it told.
    pub(crate) fn owe_if_told(&mut self, index: ConnIndex, beginnings: &[Beginning]) {
        let is_passed_by = |beginning: &Beginning| {
            let known = self.subscriptions.positions.known.get(&beginning.partition);
            !beginning.is_replaying && known.is_some_and(|known| known.told > beginning.through)
        };
        if beginnings.iter().any(is_passed_by) {
            self.connections.slots[index].set(flag::OWED);
        }
    }

    /// All that waited for a connection that is owed positions has been written.
    pub(crate) fn owe_positions(&mut self, index: ConnIndex) {
        self.connections.slots[index].clear(flag::OWED);
        let key = self.connections.slots.key(index);
        self.subscriptions.positions.owed.push_back((key, 0));
    }

    fn tell_owed(&mut self, step: &mut Step) {
        if self.subscriptions.positions.owed.is_empty() {
            return;
        }
        let known = self.subscriptions.positions.known.iter();
        let telling: Vec<(PartitionId, u64)> = known
            .filter(|(_, known)| known.told > 0)
            .map(|(partition, known)| (*partition, known.told))
            .collect();
        while step.goes_on()
            && let Some((key, looked)) = self.subscriptions.positions.owed.pop_front()
        {
            step.looked += 1;
            if self.connections.slots.get(key).is_none() {
                continue;
            }
            let index = key.index;
            let all: Vec<u32> = self.chain(index).skip(looked).collect();
            let (now, later) = all.split_at(all.len().min(OWED_FILTERS_MAX));
            for &subscription in now {
                if self.subscriptions.table[subscription].is_filter() {
                    self.tell_positions(subscription, &telling, true, step);
                    if self.connections.slots[index].protocol == Protocol::Events {
                        break;
                    }
                }
            }
            step.looked += looked + now.len();
            if !later.is_empty() && self.connections.slots[index].protocol == Protocol::Native {
                self.subscriptions.positions.owed.push_back((key, looked + now.len()));
            }
        }
    }

    /// Queues what tells a subscription of these positions, but where it is behind.
    fn tell_positions(
        &mut self,
        subscription: SubIndex,
        telling: &[(PartitionId, u64)],
        is_owed: bool,
        step: &mut Step,
    ) {
        let entry = &self.subscriptions.table[subscription];
        let (index, client, stage) = (entry.connection, entry.client, entry.stage);
        let slot = &mut self.connections.slots[index];
        let protocol = slot.protocol;
        let is_served = matches!(protocol, Protocol::Native | Protocol::Events);
        if !is_served || slot.is(flag::CLOSING | flag::DEAD) {
            return;
        }
        if stage != Stage::Wide {
            return; // see `owe_if_told`
        }
        if slot.is(flag::BLOCKED) {
            slot.set(flag::OWED);
            return;
        }
        let is_native = protocol == Protocol::Native;
        if is_native
            && !slot.is(flag::BEHIND)
            && let Some((number, place, len)) = step.shared
            && number == client
            && self.outboxes.holds(place)
        {
            step.told += 1;
            step.bytes += len;
            return self.push_place(index, place);
        }
        // Before the cursors are asked for: making room for what tells them may take them back.
        let bytes_max = self.session(index).positions_bytes_max(telling.len());
        self.reserve(bytes_max);
        let settled: Vec<(PartitionId, u64)> = telling
            .iter()
            .copied()
            .filter(|(partition, _)| !self.is_behind(subscription, *partition))
            .collect();
        let bytes = self.encode_positions(index, client, &settled, is_owed);
        if bytes.is_empty() {
            return;
        }
        step.told += 1;
        step.bytes += bytes.len();
        let place = self.enter_bytes(&[&bytes], Origin::Told);
        self.push_place(index, place);
        if is_native && !self.connections.slots[index].is(flag::BEHIND) {
            step.shared = Some((client, place, bytes.len()));
        }
    }
}
