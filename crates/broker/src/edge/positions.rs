//! Positions told to filters now and then, so that their cursors do not age.
//!
//! A filter's client knows of a partition what the filter's own messages say. Where others keep the
//! partition busy, its cursor would fall behind what the log keeps though nothing of the filter was
//! lost, and a resume would announce a gap. So the homes are asked once a second how far their
//! streams have come. A partition is *due* when a quarter of what its log has there is newer than
//! what was told last, or when a quarter of the log's age has passed. A *round* then goes through
//! all subscriptions to filters and tells each of the partitions that are due: CAUGHT_UP in the
//! native protocol, an `id:` on event streams.
//!
//! Why a position does not say too much. A home posts it in the order of the stream, so whatever
//! the stream brings after it lies beyond it. Telling it therefore claims no more than the
//! partition's next message would, which moves the cursor past it as well: everything up to it has
//! been queued for whoever is not behind in the partition, and stands before it in the outbox. Who
//! is behind is not told, for CAUGHT_UP will come. What tells it gives way when anything before it
//! has to.
//!
//! Invariants: an idle session holds nothing for this; who cannot be told just then has
//! [`flag::OWED`] and is told when its socket has drained. A step tells at most [`STEP_TOLD_MAX`]
//! subscriptions and about [`STEP_BYTES_MAX`] bytes; between two there are [`STEP_MS`].

use super::Edge;
use super::outbox::{Origin, Place};
use super::slots::{Protocol, flag};
use super::subscriptions::Stage;
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{HomeId, PartitionId, StreamPosition, ToHome};
use crate::notice::Beginning;
use crate::session::events::ID_LINE_BYTES_MAX;
use crate::session::positions::POSITION_BYTES_MAX;
use crate::settings::LogSettings;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stdx::handing::Hand;
use stdx::key::Key;

/// Told again when the first of so many parts of what a log keeps is newer than what was told, by
/// offsets and by age.
const PARTS: u64 = 4;
/// A log that keeps its messages for very long, or has no age: told again after so long at most, if
/// there is news.
const PATIENCE_S_MAX: u64 = 600;

/// Milliseconds between two steps, and what one does at most: entries looked at, subscriptions
/// told, bytes queued.
const STEP_MS: u64 = 10;
const STEP_LOOKED_MAX: usize = 4_096;
const STEP_TOLD_MAX: usize = 256;
const STEP_BYTES_MAX: usize = 64 << 10;
/// Filters of one connection that is owed positions, in one go.
const OWED_FILTERS_MAX: usize = 32;

/// See the module.
#[derive(Default, Hand)]
pub(crate) struct Positions {
    known: BTreeMap<PartitionId, Known>,
    /// Homes that have not answered.
    asked: BTreeSet<HomeId>,
    round: Option<Round>,
    /// Connections that were owed positions and have drained, with how many of their subscriptions
    /// have been looked at.
    owed: VecDeque<(Key, usize)>,
    /// Of the monotonic clock: when the next step may be.
    next_ms: u64,
}

/// What a home has said of a partition, and what was told of it last.
#[derive(Default, Hand)]
struct Known {
    through: u64,
    oldest: u64,
    told: u64,
    told_s: u32,
}

/// All subscriptions to filters are gone through, filter by filter, the newest of each first: one
/// that is removed moves the newest into its place, which has been told then.
#[derive(Hand)]
struct Round {
    telling: Vec<(PartitionId, u64)>,
    filter: u32,
    /// The place in the filter's list behind the next one.
    member: usize,
}

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

impl Known {
    fn is_due(&self, now_s: u32, log: &LogSettings) -> bool {
        let news = self.through.saturating_sub(self.told);
        let kept = (self.through + 1).saturating_sub(self.oldest);
        let waited_s = u64::from(now_s.wrapping_sub(self.told_s));
        let patience_s = (log.age_max_ms / 1_000 / PARTS).clamp(1, PATIENCE_S_MAX);
        news > 0 && (news.saturating_mul(PARTS) >= kept || waited_s >= patience_s)
    }
}

impl Positions {
    /// When the edge has to go on with it.
    pub fn next_step_ms(&self) -> Option<u64> {
        let has_work = self.round.is_some() || !self.owed.is_empty();
        has_work.then_some(self.next_ms)
    }
}

impl Step {
    fn goes_on(&self) -> bool {
        self.looked < STEP_LOOKED_MAX && self.told < STEP_TOLD_MAX && self.bytes < STEP_BYTES_MAX
    }
}

impl Edge {
    /// Begins a round with what the homes have said, and asks them again. Call it once a second.
    pub(super) fn ask_for_positions(&mut self) {
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
    pub(super) fn positions_are(&mut self, home: HomeId, positions: &[StreamPosition]) {
        self.subscriptions.positions.asked.remove(&home);
        for position in positions {
            let known = self.subscriptions.positions.known.entry(position.partition).or_default();
            (known.through, known.oldest) = (position.through, position.oldest);
        }
    }

    /// Goes on telling, if it is time.
    pub(super) fn tell_some_positions(&mut self) {
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
    pub(super) fn owe_if_told(&mut self, index: ConnIndex, beginnings: &[Beginning]) {
        let is_passed_by = |beginning: &Beginning| {
            let known = self.subscriptions.positions.known.get(&beginning.partition);
            !beginning.is_replaying && known.is_some_and(|known| known.told > beginning.through)
        };
        if beginnings.iter().any(is_passed_by) {
            self.connections.slots[index].set(flag::OWED);
        }
    }

    /// All that waited for a connection that is owed positions has been written.
    pub(super) fn owe_positions(&mut self, index: ConnIndex) {
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
        self.reserve(match protocol {
            Protocol::Native => telling.len() * POSITION_BYTES_MAX,
            _ => ID_LINE_BYTES_MAX,
        });
        let settled: Vec<(PartitionId, u64)> = telling
            .iter()
            .copied()
            .filter(|(partition, _)| !self.is_behind(subscription, *partition))
            .collect();
        let bytes = match protocol {
            Protocol::Native => Some(self.native_positions(client, &settled)),
            _ => self.stream_positions(index, &settled, is_owed),
        };
        let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) else {
            return;
        };
        step.told += 1;
        step.bytes += bytes.len();
        let place = self.enter_bytes(&[&bytes], Origin::Told);
        self.push_place(index, place);
        if is_native && !self.connections.slots[index].is(flag::BEHIND) {
            step.shared = Some((client, place, bytes.len()));
        }
    }
}
