//! Deadlines: what happens when a handshake is late, a poll ends, or the sweep finds a connection
//! due ([`Due`]).
//!
//! Long polls mostly end before their deadline, and a client may begin the next at once: theirs lie
//! in an ordered set, from which they are taken.

use crate::edge::Edge;
use crate::edge::connections::handshakes::Deadline;
use crate::edge::connections::sweep::Pace;
use crate::edge::connections::{Due, Swept};
use crate::edge::ends::End;
use crate::ids::{ConnIndex, NONE};
use crate::protocol::flag;
use std::time::Duration;
use stdx::key::Key;
use wire::native::CloseCode;

impl Edge {
    /// Handles the deadlines that have come. Call it once a turn.
    pub(crate) fn expire(&mut self) {
        while let Some(index) =
            self.connections.next_late_handshake(&self.settings.limits, self.now)
        {
            self.statistics.handshake_timeouts += 1;
            self.handshake_timed_out(index);
        }
        self.publish_due_wills();
        self.retry_refused_records();
        while let Some(index) = self.sessions.next_late_poll(self.now.monotonic_ms) {
            self.poll_timed_out(index);
        }
        if self.connections.begin_second(self.now) {
            self.renew_journal();
            self.ask_for_positions();
        }
        let pace = self.pace();
        match self.connections.begin_sweep(pace, self.now) {
            0 => {}
            blocks => self.sweep(blocks),
        }
    }

    /// Examines this number of blocks of connections. Most of them are idle: for these the loop
    /// does nothing else.
    fn sweep(&mut self, blocks: u32) {
        let settings = self.settings.clone();
        for _ in 0..blocks {
            for index in self.connections.next_block().map(ConnIndex) {
                let serial = self.subscriptions.serial();
                let swept = self.connections.sweep_one(index, serial, &settings.limits, self.now);
                if let Some(swept) = swept {
                    self.act_on_swept(index, swept);
                }
            }
        }
    }

    /// Sets the time for the next part of a handshake.
    pub(crate) fn expect(&mut self, deadline: Deadline) {
        self.connections.expect(deadline, &self.settings.limits, self.now);
    }

    /// The latest time of the next `turn`; milliseconds of the monotonic clock.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let sweep = self.connections.next_sweep_ms(self.pace());
        let poll = self.sessions.next_poll_ms();
        let positions = self.subscriptions.next_step_ms();
        let handshake = self.connections.next_handshake_ms(self.now);
        let drain = self.drain_deadline_ms();
        let journal = self.journal.owes().then(|| self.connections.next_second_ms());
        let will = self.mqtt.next_due_ms();
        [handshake, poll, sweep, positions, drain, journal, will].into_iter().flatten().min()
    }

    fn pace(&self) -> Pace {
        let has_streams = self.statistics.event_streams > 0;
        let has_expiring = self.access.entitlements.have_expiring();
        self.connections.pace(has_streams, has_expiring, &self.settings.limits)
    }

    /// Pings the session at this interval from now on.
    pub(crate) fn set_ping_interval(&mut self, index: ConnIndex, interval_s: u32) {
        self.connections.set_ping_interval(index, interval_s);
    }

    /// Seconds of the monotonic clock.
    pub(crate) fn now_s(&self) -> u32 {
        (self.now.monotonic_ms / 1_000) as u32
    }

    /// Something has come from (or, for an event stream, gone to) the peer.
    pub(crate) fn stamp(&mut self, index: ConnIndex) {
        self.connections.stamp(index, self.now);
    }

    /// The client of an event stream never sends anything, so only its host's acknowledgements show
    /// that it is there. After a heartbeat they have the rest of the time in which a silent
    /// WebSocket client is closed.
    pub(crate) fn expect_acknowledgements(&mut self, index: ConnIndex) {
        let ping_s = u64::from(self.settings.limits.ping_interval_s);
        let heartbeat_s = u64::from(self.settings.limits.heartbeat_interval_s);
        if ping_s > 0 {
            let within_s = (2 * ping_s).saturating_sub(heartbeat_s).max(ping_s);
            let key = self.connections.slots.key(index);
            self.out.acknowledged_within_ms.push((key, within_s * 1_000));
        }
    }

    #[inline(never)]
    fn act_on_swept(&mut self, index: ConnIndex, swept: Swept) {
        let mut due = swept.due;
        if swept.entitlement != NONE {
            if self.sweep_entitlement(index, swept.entitlement) {
                return;
            }
            due = self.connections.due(index, &self.settings.limits);
        }
        if swept.has_unfinished && !self.connections.slots[index].is(flag::CLOSING) {
            if self.sweep_buffered(index) {
                return;
            }
            due = self.connections.due(index, &self.settings.limits);
        }
        self.act_on(index, due);
    }

    /// Carries out the due action of a connection.
    fn act_on(&mut self, index: ConnIndex, due: Due) {
        match due {
            Due::Nothing => {}
            Due::Stamp => self.stamp(index),
            Due::Ping => match &mut self.out.silent {
                Some(silent) => silent.push(self.connections.slots.key(index)),
                None => self.ping(index),
            },
            Due::PingTimeout => self.ping_timed_out(index),
            Due::Heartbeat => {
                self.stamp(index);
                if !self.connections.slots[index].is(flag::BLOCKED) {
                    self.send_private(index, b":\n\n");
                }
            }
            Due::KeepAlive => self.close(index),
            Due::Handshake => {
                self.statistics.handshake_timeouts += 1;
                self.handshake_timed_out(index);
            }
            Due::Abort => self.abort(index),
        }
    }

    fn ping(&mut self, index: ConnIndex) {
        self.connections.slots[index].set(flag::PINGED);
        self.statistics.pings += 1;
        self.send_ping(index);
    }

    /// The answer about a connection of [`crate::edge::Outputs::silent`]: the time since the
    /// network has heard the peer's host, if it knows. A host that has acknowledged a delivery
    /// lives, and its client has just heard us, so that neither needs a ping.
    pub fn heard(&mut self, key: Key, ago: Option<Duration>) {
        if self.connections.slots.get(key).is_none() {
            return;
        }
        let index = ConnIndex(key.index);
        if let Some(ago) = ago {
            self.connections.stamp_before(index, ago, self.now);
        }
        if self.connections.due(index, &self.settings.limits) == Due::Ping {
            self.ping(index);
        }
    }

    fn ping_timed_out(&mut self, index: ConnIndex) {
        if self.connections.slots[index].facts().is_mqtt {
            return self.mqtt_silent(index);
        }
        self.statistics.ping_timeouts += 1;
        if self.connections.slots[index].is(flag::BLOCKED) {
            // A blocked socket takes no close frame either.
            self.note_end(index, End::of_node(CloseCode::PingTimeout.number()));
            self.abort(index);
        } else {
            self.close_native(index, CloseCode::PingTimeout);
        }
    }
}
