//! Deadlines of connections: handshakes in their order, and the slow ones (pings, heartbeats, idle
//! connections) by a stamp for each connection, which the sweep examines.
//!
//! Invariant: a sweep examines every connection within two of its rounds and at a bounded share of
//! them in each turn.

use super::Connections;
use super::handshakes::Deadline;
use super::producers::{AGE_MS_MAX, age_ms};
use super::slots::Slot;
use super::sweep::Pace;
use crate::ids::{ConnIndex, NONE};
use crate::now::Now;
use crate::protocol::flag;
use crate::settings::Limits;
use std::ops::Range;
use std::time::Duration;

/// The action that a connection is due for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Due {
    /// Nothing.
    Nothing,
    /// A ping.
    Ping,
    /// Its end: it has not answered its ping.
    PingTimeout,
    /// A heartbeat of an event stream.
    Heartbeat,
    /// A new beginning of its silence: it is silent because it is not read.
    Stamp,
    /// Its end: no further request has come.
    KeepAlive,
    /// Its end: the head or the body of a request stands still, or drips.
    Handshake,
    /// Its reset: the peer does not let it close.
    Abort,
}

/// The result of the sweep for a connection.
#[derive(Clone, Copy)]
pub(crate) struct Swept {
    /// The entry of its entitlement; [`NONE`]: none.
    pub entitlement: u32,
    pub has_unfinished: bool,
    /// The action that is due, unless its entitlement or its unfinished input ends it.
    pub due: Due,
}

/// The interval that sets the sweep's pace on a node with tokens that expire: a round takes four
/// seconds.
const EXPIRY_INTERVAL_S: u32 = 32;

impl Connections {
    /// Something has come from (or, for an event stream, gone to) the peer.
    #[inline]
    pub fn stamp(&mut self, index: ConnIndex, now: Now) {
        self.stamps.grow_to(index.0, || 0);
        self.stamps[index.0] = (now.monotonic_ms / 1_000) as u32;
    }

    /// The peer's host was heard so long ago.
    pub fn stamp_before(&mut self, index: ConnIndex, ago: Duration, now: Now) {
        let at_ms = now.monotonic_ms.saturating_sub(ago.as_millis() as u64);
        let stamp = &mut self.stamps[index.0];
        *stamp = (*stamp).max((at_ms / 1_000) as u32);
    }

    /// Sets the time for the next part of a handshake.
    pub fn expect(&mut self, deadline: Deadline, limits: &Limits, now: Now) {
        let after_ms = u64::from(limits.handshake_timeout_ms);
        self.handshakes.set(now.monotonic_ms + after_ms, deadline);
    }

    /// The next connection whose handshake is late.
    pub fn next_late_handshake(&mut self, limits: &Limits, now: Now) -> Option<ConnIndex> {
        while let Some(deadline) = self.handshakes.take_due(now.monotonic_ms) {
            let (Deadline::Head(key) | Deadline::Hello(key)) = deadline;
            let is_due = |slot: &Slot| match deadline {
                Deadline::Head(_) => slot.is(flag::STARTING),
                Deadline::Hello(_) => slot.facts().awaits_hello && !slot.is(flag::CLOSING),
            };
            let Some(slot) = self.slots.get(key).filter(|slot| is_due(slot)) else {
                continue;
            };
            if slot.is(flag::PAUSED | flag::RESUMED) && !slot.is(flag::ASKED) {
                // The server is late, not the client: its input waits until a home has room.
                self.expect(deadline, limits, now);
            } else {
                return Some(ConnIndex(key.index));
            }
        }
        None
    }

    /// The deadline of the next handshake; milliseconds of the monotonic clock.
    pub fn next_handshake_ms(&self, now: Now) -> Option<u64> {
        self.handshakes.next_ms(now.monotonic_ms)
    }

    /// Whether a second of the monotonic clock begins.
    pub fn begin_second(&mut self, now: Now) -> bool {
        let second = (now.monotonic_ms / 1_000) as u32;
        std::mem::replace(&mut self.second, second) != second
    }

    /// The beginning of the next second; milliseconds of the monotonic clock.
    pub fn next_second_ms(&self) -> u64 {
        u64::from(self.second + 1) * 1_000
    }

    /// The pace of the sweep: the one that the shortest interval needs.
    pub fn pace(&self, has_streams: bool, has_expiring: bool, limits: &Limits) -> Pace {
        let unfinished_s = limits.unfinished_input_timeout_ms.div_ceil(1_000);
        let shortest_s = [
            has_streams.then_some(limits.heartbeat_interval_s),
            has_expiring.then_some(EXPIRY_INTERVAL_S),
            (!self.buffered.is_empty()).then_some(unfinished_s),
        ];
        Pace::of(shortest_s.into_iter().flatten().fold(self.ping_interval_min_s, u32::min))
    }

    /// The time of the sweep's next step; milliseconds of the monotonic clock.
    pub fn next_sweep_ms(&self, pace: Pace) -> Option<u64> {
        (self.slots.count() > 0).then(|| self.sweep.next_ms(self.slots.places(), pace))
    }

    /// The number of blocks of connections that the sweep examines now.
    pub fn begin_sweep(&mut self, pace: Pace, now: Now) -> u32 {
        self.sweep.begin(now.monotonic_ms, self.slots.places(), pace)
    }

    /// The next block of the sweep.
    pub fn next_block(&mut self) -> Range<u32> {
        self.sweep.next_block(self.slots.places())
    }

    /// The sweep is at this index: if there is a connection, keeps its stamps and its mark within
    /// their range, and releases rates that it does not use. None: there is nothing else to do.
    #[inline(always)]
    pub fn sweep_one(
        &mut self,
        index: ConnIndex,
        serial: u32,
        limits: &Limits,
        now: Now,
    ) -> Option<Swept> {
        let slot = &mut self.slots[index];
        if slot.is_free() {
            return None;
        }
        self.old_sessions.age(index, slot, now.monotonic_ms);
        slot.age_mark(serial);
        self.rates.rest(index, now.monotonic_ms);
        let silent_s = self.second.saturating_sub(self.stamps[index.0]);
        let due = due(slot, index, silent_s, limits);
        let (entitlement, has_unfinished) = (slot.entitlement, slot.is(flag::UNFINISHED));
        if due == Due::Nothing && entitlement == NONE && !has_unfinished {
            return None;
        }
        Some(Swept { entitlement, has_unfinished, due })
    }

    /// The action that a silent connection is due for.
    pub fn due(&self, index: ConnIndex, limits: &Limits) -> Due {
        let silent_s = self.second.saturating_sub(self.stamps[index.0]);
        due(&self.slots[index], index, silent_s, limits)
    }

    /// A session is pinged at this interval from now on.
    pub fn set_ping_interval(&mut self, index: ConnIndex, interval_s: u32) {
        let interval_s = interval_s.min(u32::from(u16::MAX));
        self.slots[index].ping_interval_s = interval_s as u16;
        if interval_s > 0 {
            self.ping_interval_min_s = self.ping_interval_min_s.min(interval_s);
        }
    }

    /// The session, or before it the connection, begins now.
    pub fn begin_session(&mut self, index: ConnIndex, now: Now) {
        self.slots[index].hello_ms = now.monotonic_ms as u32; // the low half
    }

    /// Milliseconds since the session, or before it the connection, began; at most 24 days.
    pub fn session_age_ms(&self, index: ConnIndex, now: Now) -> u32 {
        age_ms(now.monotonic_ms, self.slots[index].hello_ms).min(AGE_MS_MAX)
    }

    /// The stamp of a native connection, which publishes as a producer.
    pub fn producer_stamp(&mut self, index: ConnIndex, now: Now) -> u64 {
        let slot = &mut self.slots[index];
        slot.set(flag::PRODUCES);
        self.old_sessions.stamp(index, slot, now.monotonic_ms)
    }
}

#[inline(always)]
fn due(slot: &Slot, index: ConnIndex, silent_s: u32, limits: &Limits) -> Due {
    let is_idle = || silent_s.saturating_mul(1_000) >= limits.keep_alive_timeout_ms;
    if slot.is(flag::CLOSING) {
        return if is_idle() { Due::Abort } else { Due::Nothing };
    }
    let facts = slot.facts();
    if (facts.is_session || facts.is_mqtt) && slot.is(flag::PAUSED | flag::HELD) {
        Due::Stamp
    } else if facts.is_mqtt {
        silence_due(slot, silent_s)
    } else if facts.is_websocket {
        ping_due(slot, index, silent_s)
    } else if facts.has_one_cursor && silent_s >= limits.heartbeat_interval_s {
        Due::Heartbeat
    } else if facts.answers_requests
        && is_idle()
        && (slot.is(flag::ASKED) || !slot.is(flag::STARTING | flag::PAUSED))
    {
        let is_between_requests = slot.input == NONE && slot.state == NONE;
        if is_between_requests { Due::KeepAlive } else { Due::Handshake }
    } else {
        Due::Nothing
    }
}

/// A client of MQTT sends something in each of its intervals, so it is not pinged.
#[inline(always)]
fn silence_due(slot: &Slot, silent_s: u32) -> Due {
    let interval_s = u32::from(slot.ping_interval_s);
    if interval_s > 0 && silent_s > interval_s { Due::PingTimeout } else { Due::Nothing }
}

#[inline(always)]
fn ping_due(slot: &Slot, index: ConnIndex, silent_s: u32) -> Due {
    let interval_s = u32::from(slot.ping_interval_s);
    if interval_s == 0 || silent_s + spread_s(index, interval_s) < interval_s {
        Due::Nothing
    } else if silent_s >= 2 * interval_s {
        Due::PingTimeout
    } else if slot.is(flag::PINGED) {
        Due::Nothing
    } else {
        Due::Ping
    }
}

/// Connections that came together would be pinged together: their pings are spread over an eighth
/// of the interval.
fn spread_s(index: ConnIndex, interval_s: u32) -> u32 {
    index.0.wrapping_mul(0x9e37_79b9) % (interval_s / 8).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Protocol;
    use stdx::key::Key;

    const KEY: Key = Key { index: 3, generation: 1 };

    fn at(seconds: u64) -> Now {
        Now { monotonic_ms: 1_000 * seconds, unix_ms: 0 }
    }

    /// One connection of this protocol, last heard in second 100.
    fn connection(protocol: Protocol, flags: u32) -> Connections {
        let mut connections = Connections::new(&Limits::default(), at(100));
        connections.slots.open(KEY);
        connections.stamp(ConnIndex(KEY.index), at(100));
        connections.slots[ConnIndex(KEY.index)].protocol = protocol;
        connections.slots[ConnIndex(KEY.index)].set(flags);
        connections.set_ping_interval(ConnIndex(KEY.index), 30);
        connections
    }

    fn due(connections: &mut Connections, silent_s: u64) -> Due {
        let limits =
            Limits { keep_alive_timeout_ms: 60_000, heartbeat_interval_s: 20, ..Limits::default() };
        connections.begin_second(at(100 + silent_s));
        connections.due(ConnIndex(KEY.index), &limits)
    }

    #[test]
    fn a_silent_session_is_pinged_once_and_then_ended() {
        let mut session = connection(Protocol::Native, 0);
        assert_eq!(due(&mut session, 20), Due::Nothing);
        assert_eq!(due(&mut session, 30), Due::Ping);
        session.slots[ConnIndex(KEY.index)].set(flag::PINGED);
        assert_eq!(due(&mut session, 59), Due::Nothing);
        assert_eq!(due(&mut session, 60), Due::PingTimeout);
        session.slots[ConnIndex(KEY.index)].set(flag::PAUSED);
        assert_eq!(due(&mut session, 60), Due::Stamp, "it is not read");
        session.slots[ConnIndex(KEY.index)].set(flag::CLOSING);
        assert_eq!(due(&mut session, 60), Due::Abort);
        session.set_ping_interval(ConnIndex(KEY.index), 0);
        session.slots[ConnIndex(KEY.index)].clear(flag::CLOSING | flag::PAUSED);
        assert_eq!(due(&mut session, 600), Due::Nothing);
    }

    #[test]
    fn streams_get_heartbeats_and_idle_requests_end() {
        assert_eq!(due(&mut connection(Protocol::Events, 0), 20), Due::Heartbeat);
        assert_eq!(due(&mut connection(Protocol::Http, 0), 59), Due::Nothing);
        assert_eq!(due(&mut connection(Protocol::Http, 0), 60), Due::KeepAlive);
        assert_eq!(due(&mut connection(Protocol::Http, flag::STARTING), 60), Due::Nothing);
        let mut request = connection(Protocol::Http, 0);
        request.slots[ConnIndex(KEY.index)].state = 0;
        assert_eq!(due(&mut request, 60), Due::Handshake);
        request.slots[ConnIndex(KEY.index)].set(flag::PAUSED);
        assert_eq!(due(&mut request, 60), Due::Nothing, "its answer is due first");
    }
}
