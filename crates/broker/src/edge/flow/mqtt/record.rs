//! The record of a session that lasts, where its log is on disk: what its client may know only when
//! the log knows it.
//!
//! Step 10 of the path. With QoS 2 a message is exactly once over a crash of the node only if the
//! log knows of each step before the peer does: an identifier before PUBLISH, a receipt before
//! PUBREL, a release before PUBCOMP. Such a packet makes its connection *gated*. Before the next
//! write to a gated connection its session becomes a record, and nothing is written until the
//! record is durable. So one record serves all packets of a turn, and order holds.
//!
//! Invariants: a gated connection counts as blocked while a record is on its way, so that its
//! subscriptions lag as with a full socket; no publication with QoS 2 is taken while a release is
//! not durable, because its key counts releases. A client that returns after a crash repeats its
//! releases before its publications. Those that the record lacks came after it, so that their keys
//! have its number of releases (`resumed_at`), until a new publication shows that all are there.

use crate::edge::Edge;
use crate::ids::ConnIndex;
use crate::mail::{Code, Leave, ToHome};
use crate::protocol::flag;
use crate::session::mqtt::Link;
use stdx::chunk::Slice;
use wire::mqtt::PacketType;

/// A record that the log has refused for the moment follows again after this time.
const RETRY_MS: u64 = 250;
/// Refusals in a row after which a session continues without a record; a full store needs only one.
/// Its client is rather served than kept waiting for a disk.
const REFUSALS_MAX: u8 = 40;
/// The first byte of PUBLISH with QoS 2, without DUP and RETAIN.
const PUBLISH_QOS_2: u8 = (PacketType::Publish as u8) << 4 | 2 << 1;
const PUBLISH_BITS: u8 = 0b1111_0110;
const DUP: u8 = 1 << 3;

impl Edge {
    /// The connection is about to get a packet whose step the log must know first.
    pub(super) fn gate_mqtt(&mut self, index: ConnIndex) {
        if self.mqtt_of(index).is_some_and(|mqtt| mqtt.lasts()) {
            self.gate_start(index);
        }
    }

    /// The connection is about to get CONNACK. Where its session does not last, the log must know
    /// that the one before has ended.
    pub(super) fn gate_start(&mut self, index: ConnIndex) {
        if let Some(mqtt) = self.mqtt_of(index)
            && mqtt.record.is_durable
            && (mqtt.lasts() || !mqtt.record.is_shared)
        {
            mqtt.record.is_wanted = true;
            self.connections.slots[index].set(flag::GATED);
        }
    }

    /// The client learns of a release.
    pub(super) fn gate_release(&mut self, index: ConnIndex) {
        if let Some(mqtt) = self.mqtt_of(index) {
            mqtt.note_release();
        }
        self.gate_publications(index);
    }

    /// Gates the connection. No publication with QoS 2 is taken before the record is durable.
    fn gate_publications(&mut self, index: ConnIndex) {
        self.gate_mqtt(index);
        let is_gated = self.connections.slots[index].is(flag::GATED);
        if let Some(mqtt) = self.mqtt_of(index) {
            mqtt.record.is_releasing |= is_gated;
        }
    }

    /// The client gets a refusal. A refused publication with QoS 2 has released its identifier.
    #[cold]
    pub(crate) fn mqtt_refused(&mut self, index: ConnIndex) {
        if self.connections.slots[index].facts().is_mqtt {
            self.gate_release(index);
        }
    }

    /// Stops reading from a connection at a publication with QoS 2, if a release is not durable.
    pub(super) fn pause_for_release(&mut self, index: ConnIndex, input: &[u8]) -> bool {
        let Some(first) = input.first().filter(|first| **first & PUBLISH_BITS == PUBLISH_QOS_2)
        else {
            return false;
        };
        let Some(mqtt) = self.mqtt_of(index) else {
            return false;
        };
        if first & DUP == 0 && mqtt.resumed.end() {
            self.gate_publications(index);
            self.mark_dirty(index);
        }
        let waits = self.mqtt_ref(index).is_some_and(|mqtt| mqtt.record.is_releasing);
        if waits {
            self.connections.slots[index].set(flag::PAUSED);
        }
        waits
    }

    /// A gated connection is to be written: its session becomes a record first.
    #[cold]
    pub(crate) fn write_record_first(&mut self, index: ConnIndex) {
        self.outboxes.block(&mut self.connections.slots, index);
        let Some(mqtt) = self.mqtt_of(index) else {
            return self.open_gate(index);
        };
        if mqtt.record.asked > 0 || mqtt.busy.is_record_refused {
            return;
        }
        // Of a session that does not last, only the end of the one before is wanted.
        if mqtt.link != Link::Held || !(mqtt.lasts() || mqtt.record.is_wanted) {
            return self.open_gate(index);
        }
        mqtt.record.note_asked();
        self.keep_session(index, true);
    }

    /// Writes the session of a connection that stays, if its log is on disk. Nothing waits for it.
    pub(super) fn keep_mqtt_session(&mut self, index: ConnIndex) {
        let is_kept = self
            .mqtt_ref(index)
            .is_some_and(|mqtt| mqtt.record.is_durable && mqtt.lasts() && mqtt.link == Link::Held);
        if is_kept {
            self.keep_session(index, false);
        }
    }

    fn keep_session(&mut self, index: ConnIndex, is_answered: bool) {
        let Some(mqtt) = self.mqtt_ref(index) else {
            return;
        };
        let session = mqtt.lasts().then(|| Box::new(self.sleep(index, mqtt)));
        let name = Slice::copy_of(self.sessions.name_of(mqtt));
        let connection = self.connections.slots.key(index);
        let home = self.home_of_client(&name);
        let leave = Leave { name, connection, session, is_answered };
        self.request(home, ToHome::KeepSession(leave));
    }

    /// The log has a record of the session, or has refused it.
    pub(crate) fn session_kept(&mut self, index: ConnIndex, result: Result<(), Code>) {
        let connection = self.connections.slots.key(index);
        let Some(mqtt) = self.mqtt_of(index) else {
            return;
        };
        mqtt.record.asked = mqtt.record.asked.saturating_sub(1);
        if let Err(code) = result {
            let is_passing = code == Code::LogUnavailable && mqtt.busy.refusals < REFUSALS_MAX;
            mqtt.busy.refusals = mqtt.busy.refusals.saturating_add(1);
            mqtt.record.is_wanted = is_passing;
            mqtt.busy.is_record_refused = is_passing;
            mqtt.record.is_durable &= is_passing;
            self.statistics.own_publications_lost += 1;
            if is_passing {
                let due_ms = self.now.monotonic_ms + RETRY_MS;
                return self.mqtt.put_refused_record(due_ms, connection);
            }
        } else {
            if let Some(busy) = mqtt.busy.get_mut() {
                busy.refusals = 0;
            }
        }
        let Some(mqtt) = self.mqtt_of(index) else {
            return;
        };
        if mqtt.record.asked == 0 && !mqtt.record.is_wanted {
            self.open_gate(index);
        } else {
            self.writable(connection);
        }
    }

    /// Records that the log has refused follow again.
    pub(crate) fn retry_refused_records(&mut self) {
        while let Some(connection) = self.mqtt.next_refused_record(self.now.monotonic_ms) {
            if self.connections.slots.get(connection).is_some()
                && let Some(mqtt) = self.mqtt_of(ConnIndex(connection.index))
            {
                mqtt.busy.is_record_refused = false;
                self.writable(connection);
            }
        }
    }

    /// Everything that waits may be written, and everything that has come may be read.
    fn open_gate(&mut self, index: ConnIndex) {
        self.connections.slots[index].clear(flag::GATED);
        self.writable(self.connections.slots.key(index));
        if let Some(mqtt) = self.mqtt_of(index)
            && std::mem::take(&mut mqtt.record.is_releasing)
        {
            self.resume(index);
        }
    }
}
