//! Positions: the edge asks homes once a second, and sends them to filters in steps.

use crate::edge::Edge;
use crate::edge::outbox::{FrameNumber, Origin};
use crate::edge::subscriptions::{Next, Stage};
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{HomeId, PartitionId, StreamPosition, ToHome};
use crate::protocol::{Form, flag};
use stdx::key::Key;

/// The bounds of a step: entries examined, subscriptions notified, bytes queued.
const STEP_LOOKED_MAX: usize = 4_096;
const STEP_SENT_MAX: usize = 256;
const STEP_BYTES_MAX: usize = 64 << 10;
/// Filters of one connection that missed positions, in one step.
const OWED_FILTERS_MAX: usize = 32;

/// The rest of a step's bounds, and the frames for clients that chose the same number for their
/// subscription.
struct Step {
    looked: usize,
    told: usize,
    bytes: usize,
    shared: Option<(u32, Form, FrameNumber, usize)>,
}

impl Step {
    fn goes_on(&self) -> bool {
        self.looked < STEP_LOOKED_MAX && self.told < STEP_SENT_MAX && self.bytes < STEP_BYTES_MAX
    }
}

impl Edge {
    /// Begins a round with the homes' answers, and asks them again. Call it once a second.
    pub(crate) fn ask_for_positions(&mut self) {
        if !self.subscriptions.has_filters() {
            return;
        }
        let now_s = self.now_s();
        self.subscriptions.begin_round(now_s, &self.settings);
        for home in self.settings.homes() {
            // One without room is asked the next time.
            if self.may_request(home) && self.subscriptions.ask_for_positions(home) {
                self.request(home, ToHome::Positions);
            }
        }
    }

    /// A home has answered.
    pub(crate) fn positions_are(&mut self, home: HomeId, positions: &[StreamPosition]) {
        self.subscriptions.take_positions(home, positions);
    }

    /// Sends further positions, if it is time.
    pub(crate) fn send_some_positions(&mut self) {
        if !self.subscriptions.begin_step(self.now.monotonic_ms) {
            return;
        }
        let mut step = Step { looked: 0, told: 0, bytes: 0, shared: None };
        self.send_missed(&mut step);
        let Some(mut round) = self.subscriptions.take_round() else {
            return;
        };
        step.shared = None;
        while step.goes_on() {
            step.looked += 1;
            match self.subscriptions.next_to_send(&mut round) {
                Next::Subscription(subscription) => {
                    self.send_positions(subscription, &round.telling, false, &mut step);
                }
                Next::Nobody => {}
                Next::Over => return,
            }
        }
        self.subscriptions.put_round(round);
    }

    /// Queues a connection for the positions that it missed; its outbox is empty.
    pub(crate) fn owe_positions(&mut self, index: ConnIndex) {
        self.connections.slots[index].clear(flag::OWED);
        self.subscriptions.owe(self.connections.slots.key(index), 0);
    }

    fn send_missed(&mut self, step: &mut Step) {
        let telling = self.subscriptions.sent_positions();
        while step.goes_on()
            && let Some((key, looked)) = self.subscriptions.next_owed()
        {
            step.looked += 1;
            if self.connections.slots.get(key).is_some() {
                self.send_missed_to(key, looked, &telling, step);
            }
        }
    }

    /// Sends positions to some subscriptions of a connection that missed them; the others wait.
    fn send_missed_to(
        &mut self,
        key: Key,
        looked: usize,
        telling: &[(PartitionId, u64)],
        step: &mut Step,
    ) {
        let index = ConnIndex(key.index);
        let all: Vec<SubIndex> = self.chain(index).skip(looked).collect();
        let (now, later) = all.split_at(all.len().min(OWED_FILTERS_MAX));
        for &subscription in now {
            if self.subscriptions[subscription].is_filter() {
                self.send_positions(subscription, telling, true, step);
                if self.connections.slots[index].facts().has_one_cursor {
                    break;
                }
            }
        }
        step.looked += looked + now.len();
        if !later.is_empty() && self.connections.slots[index].facts().shares_frames {
            self.subscriptions.owe(key, looked + now.len());
        }
    }

    /// Queues what tells a subscription of these positions, but those in which it catches up.
    fn send_positions(
        &mut self,
        subscription: SubIndex,
        telling: &[(PartitionId, u64)],
        is_owed: bool,
        step: &mut Step,
    ) {
        let entry = &self.subscriptions[subscription];
        let (index, client, stage) = (entry.connection, entry.client, entry.stage);
        let slot = &mut self.connections.slots[index];
        let facts = slot.facts();
        if !facts.subscribes || slot.is(flag::CLOSING | flag::DEAD) {
            return;
        }
        if stage != Stage::ByFilter {
            return; // see `have_missed_a_round`
        }
        if slot.is(flag::BLOCKED) {
            slot.set(flag::OWED);
            return;
        }
        if facts.shares_frames
            && !slot.is(flag::CATCHING_UP)
            && let Some((number, form, place, len)) = step.shared
            && number == client
            && form == facts.form
            && self.outboxes.holds(place)
        {
            step.told += 1;
            step.bytes += len;
            return self.push_place(index, place);
        }
        // Before the cursors are read: making room for the frame may move them back.
        let bytes_max = self.session(index).positions_bytes_max(telling.len());
        self.reserve(bytes_max);
        let settled: Vec<(PartitionId, u64)> = telling
            .iter()
            .copied()
            .filter(|(partition, _)| !self.is_catching_up(subscription, *partition))
            .collect();
        let bytes = self.encode_positions(index, client, &settled, is_owed);
        if bytes.is_empty() {
            return;
        }
        step.told += 1;
        step.bytes += bytes.len();
        let place = self.enter_bytes(&[&bytes], Origin::Told);
        self.push_place(index, place);
        if facts.shares_frames && !self.connections.slots[index].is(flag::CATCHING_UP) {
            step.shared = Some((client, facts.form, place, bytes.len()));
        }
    }
}
