//! Deadlines. Slow ones (pings, heartbeats, idle connections) are a stamp per connection, swept in
//! steps ([`super::sweep`]); fast ones (handshakes) all take equally long, so they wait in the
//! order in which they were set; where a reload has made their time shorter, what comes behind a
//! longer one waits as long as that. Long polls mostly end before their deadline, and a client may
//! begin the next at once: theirs lie in an ordered set, from which they are taken.
//!
//! Invariants: a sweep looks at every connection within two of its rounds and at a bounded share of
//! them in each turn; a deadline of a handshake that finds its connection gone or moved on does
//! nothing.

use crate::edge::Edge;
use crate::edge::connections::handshakes::Deadline;
use crate::edge::connections::slots::Slot;
use crate::edge::connections::sweep::Pace;
use crate::edge::ends::End;
use crate::ids::ConnIndex;
use crate::ids::NONE;
use crate::protocol::Protocol;
use crate::protocol::flag;
use wire::native::CloseCode;

impl Edge {
    /// Deals with the deadlines that have come. Call it once a turn.
    pub(crate) fn expire(&mut self) {
        while let Some(deadline) = self.connections.handshakes.take_due(self.now.monotonic_ms) {
            let (key, is_due): (_, fn(&Slot) -> bool) = match deadline {
                Deadline::Head(key) => (key, |slot| slot.is(flag::STARTING)),
                Deadline::Hello(key) => {
                    (key, |slot| slot.protocol == Protocol::NativeStart && !slot.is(flag::CLOSING))
                }
            };
            if !self.connections.slots.get(key).is_some_and(is_due) {
                continue;
            }
            let slot = &self.connections.slots[key.index];
            if slot.is(flag::PAUSED | flag::RESUMED) && !slot.is(flag::ASKED) {
                // It is the server that is late: what has come waits for a home to have room.
                self.expect(deadline);
            } else {
                self.statistics.handshake_timeouts += 1;
                self.handshake_timed_out(key.index);
            }
        }
        while let Some(&(deadline_ms, index)) = self.sessions.polls.first()
            && deadline_ms <= self.now.monotonic_ms
        {
            self.sessions.polls.pop_first();
            self.poll_timed_out(index);
        }
        let now_s = self.now_s();
        if now_s != self.connections.second {
            self.connections.second = now_s;
            self.renew_journal();
            self.ask_for_positions();
        }
        let pace = self.pace();
        let blocks = self.connections.sweep.begin(
            self.now.monotonic_ms,
            self.connections.slots.places(),
            pace,
        );
        for _ in 0..blocks {
            for index in self.connections.sweep.next_block(self.connections.slots.places()) {
                if self.connections.slots[index].protocol != Protocol::Free {
                    self.sweep_one(index);
                }
            }
        }
    }

    /// Sets the time for the next part of a handshake.
    pub(crate) fn expect(&mut self, deadline: Deadline) {
        let after_ms = u64::from(self.settings.limits.handshake_timeout_ms);
        self.connections.handshakes.set(self.now.monotonic_ms + after_ms, deadline);
    }

    /// When `turn` must be called at the latest; milliseconds of the monotonic clock.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let places = self.connections.slots.places();
        let sweep = (self.connections.slots.count() > 0)
            .then(|| self.connections.sweep.next_ms(places, self.pace()));
        let poll = self.sessions.polls.first().map(|(deadline_ms, _)| *deadline_ms);
        let positions = self.subscriptions.positions.next_step_ms();
        let handshake = self.connections.handshakes.next_ms(self.now.monotonic_ms);
        let drain = self.drain_deadline_ms();
        let journal = self.journal.owes();
        let journal = journal.then(|| u64::from(self.connections.second + 1) * 1_000);
        [handshake, poll, sweep, positions, drain, journal].into_iter().flatten().min()
    }

    /// How fast connections are looked at: as the shortest interval of those that are there asks
    /// for.
    fn pace(&self) -> Pace {
        let limits = &self.settings.limits;
        let heartbeat_s =
            (self.statistics.event_streams > 0).then_some(limits.heartbeat_interval_s);
        let expiry_s =
            self.access.judging.entitlements.have_expiring().then_some(EXPIRY_INTERVAL_S);
        let unfinished_s = limits.unfinished_input_timeout_ms.div_ceil(1_000);
        let unfinished_s = (!self.connections.kept.is_empty()).then_some(unfinished_s);
        let shortest_s = heartbeat_s
            .into_iter()
            .chain(expiry_s)
            .chain(unfinished_s)
            .fold(self.connections.ping_interval_min_s, u32::min);
        Pace::of(shortest_s)
    }

    /// A session is pinged at this interval from now on.
    pub(crate) fn set_ping_interval(&mut self, index: ConnIndex, interval_s: u32) {
        let interval_s = interval_s.min(u32::from(u16::MAX));
        self.connections.slots[index].ping_interval_s = interval_s as u16;
        if interval_s > 0 {
            self.connections.ping_interval_min_s =
                self.connections.ping_interval_min_s.min(interval_s);
        }
    }

    /// Seconds of the monotonic clock.
    pub(crate) fn now_s(&self) -> u32 {
        (self.now.monotonic_ms / 1_000) as u32
    }

    /// Something has come from (or, for an event stream, gone to) the peer.
    pub(crate) fn stamp(&mut self, index: ConnIndex) {
        let now_s = self.now_s();
        self.connections.stamps.grow_to(index, || 0);
        self.connections.stamps[index] = now_s;
    }

    /// An event stream's client never says anything, so that only its host's acknowledgements tell
    /// that it is there. They have what is left of the time in which a silent WebSocket client is
    /// ended, when a heartbeat has gone out.
    pub(crate) fn expect_acknowledgements(&mut self, index: ConnIndex) {
        let ping_s = u64::from(self.settings.limits.ping_interval_s);
        let heartbeat_s = u64::from(self.settings.limits.heartbeat_interval_s);
        if ping_s > 0 {
            let within_s = (2 * ping_s).saturating_sub(heartbeat_s).max(ping_s);
            let key = self.connections.slots.key(index);
            self.out.acknowledged_within_ms.push((key, within_s * 1_000));
        }
    }

    fn sweep_one(&mut self, index: ConnIndex) {
        let now_ms = self.now.monotonic_ms;
        let slot = &mut self.connections.slots[index];
        self.connections.old_sessions.age(index, slot, now_ms);
        Edge::age_mark(slot, self.subscriptions.serial);
        self.connections.rates.rest(index, now_ms);
        let silent_s = self.connections.second.saturating_sub(self.connections.stamps[index]);
        let mut slot = &*slot;
        if slot.entitlement != NONE {
            let entitlement = slot.entitlement;
            if self.sweep_entitlement(index, entitlement) {
                return;
            }
            slot = &self.connections.slots[index];
        }
        if slot.is(flag::KEEPS) && !slot.is(flag::CLOSING) {
            if self.sweep_kept(index) {
                return;
            }
            slot = &self.connections.slots[index];
        }
        let limits = &self.settings.limits;
        let is_idle = silent_s.saturating_mul(1_000) >= limits.keep_alive_timeout_ms;
        match slot.protocol {
            // A close that the peer does not let finish.
            _ if slot.is(flag::CLOSING) && is_idle => self.kill(index),
            _ if slot.is(flag::CLOSING) => {}
            // It is silent because it is not read.
            Protocol::Native if slot.is(flag::PAUSED | flag::HELD) => self.stamp(index),
            protocol
                if protocol.facts().is_websocket
                    && slot.ping_interval_s > 0
                    && is_ping_due(slot, index, silent_s) =>
            {
                self.ping(index, silent_s);
            }
            Protocol::Events if silent_s >= limits.heartbeat_interval_s => {
                self.stamp(index);
                if !self.connections.slots[index].is(flag::BLOCKED) {
                    self.send_private(index, b":\n\n");
                }
            }
            Protocol::Http
                if is_idle && (slot.is(flag::ASKED) || !slot.is(flag::STARTING | flag::PAUSED)) =>
            {
                if slot.input == NONE && slot.state == NONE {
                    self.close(index);
                } else {
                    // A head or a body that stands still, or drips.
                    self.statistics.handshake_timeouts += 1;
                    self.handshake_timed_out(index);
                }
            }
            _ => {}
        }
    }

    /// Pings a client that has been silent, or ends one that has not answered its ping.
    fn ping(&mut self, index: ConnIndex, silent_s: u32) {
        let slot = &mut self.connections.slots[index];
        if silent_s >= 2 * u32::from(slot.ping_interval_s) {
            self.statistics.ping_timeouts += 1;
            if slot.is(flag::BLOCKED) {
                // A blocked socket takes no close frame either.
                self.note_end(index, End::of_node(CloseCode::PingTimeout.number()));
                self.kill(index);
            } else {
                self.close_native(index, CloseCode::PingTimeout);
            }
        } else if !slot.is(flag::PINGED) {
            slot.set(flag::PINGED);
            self.statistics.pings += 1;
            self.send_ping(index);
        }
    }
}

/// Whether a client has been silent for its interval. Connections that came together would be
/// pinged together: their pings are spread over an eighth of the interval.
fn is_ping_due(slot: &Slot, index: ConnIndex, silent_s: u32) -> bool {
    let interval_s = u32::from(slot.ping_interval_s);
    let spread_s = index.wrapping_mul(0x9e37_79b9) % (interval_s / 8).max(1);
    silent_s + spread_s >= interval_s
}

/// Where tokens expire, connections are looked at as if this were the shortest interval: a round
/// takes four seconds.
const EXPIRY_INTERVAL_S: u32 = 32;
