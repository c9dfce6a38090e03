//! The end of a connection: the cause is noted when it is known, and counted once, when the
//! connection is released.

use crate::edge::Edge;
use crate::edge::ends::End;
use crate::ids::{ConnIndex, NONE};
use crate::protocol::{Transport, flag};
use crate::session::State;

impl Edge {
    /// The connection is about to end, for this reason if there is none yet.
    pub(crate) fn note_end(&mut self, index: ConnIndex, end: End) {
        self.connections.slots[index].note_end(end);
    }

    /// Closes once everything that waits has been written; nothing more is read.
    pub(crate) fn close(&mut self, index: ConnIndex) {
        self.note_end(index, End::FINISHED);
        self.leave_mqtt(index);
        self.connections.slots[index].set(flag::CLOSING);
        self.unsubscribe_all(index);
        self.stamp(index);
        self.mark_dirty(index);
    }

    /// Resets the connection at the end of the turn, whatever waits.
    pub(crate) fn abort(&mut self, index: ConnIndex) {
        if self.connections.abort(index) {
            self.note_end(index, End::CUT);
        }
    }

    /// The connection closes: its outbox is empty.
    pub(crate) fn finish(&mut self, index: ConnIndex) {
        self.out.closes.push((self.connections.slots.key(index), false));
        self.release(index);
    }

    /// Ends the connections that were aborted in this turn.
    pub(crate) fn end_aborted(&mut self) {
        self.close_ending();
        for index in self.connections.take_aborted() {
            if self.connections.slots[index].is(flag::DEAD) {
                self.out.closes.push((self.connections.slots.key(index), true));
                self.release(index);
            }
        }
    }

    /// Frees all that the connection owns; its key is dead from here on.
    pub(crate) fn release(&mut self, index: ConnIndex) {
        if self.notes_origins() {
            self.session_ended(index);
        }
        self.leave_mqtt(index);
        self.unsubscribe_all(index);
        self.outboxes.release(&mut self.connections.slots, index);
        self.release_poll(index);
        self.release_ticket(index);
        if self.settings.entitlement.is_some() {
            self.release_entitlement(index);
        }
        let slot = &self.connections.slots[index];
        if slot.facts().is_lasting {
            match slot.facts().transport {
                Transport::Native => self.statistics.native_sessions -= 1,
                Transport::Json => self.statistics.json_sessions -= 1,
                Transport::Events => self.statistics.event_streams -= 1,
                Transport::Echo => self.statistics.echo_sessions -= 1,
                Transport::Mqtt => self.statistics.mqtt_sessions -= 1,
                Transport::Http => {}
            }
        }
        self.statistics.ends.count(slot.end());
        self.statistics.closed += 1;
        self.sessions.drop_state(slot.state);
        self.connections.close(index);
    }

    /// The session's state, when its protocol keeps one.
    pub(crate) fn state(&mut self, index: ConnIndex) -> Option<&mut State> {
        self.sessions.get_mut(self.connections.slots[index].state)
    }

    /// Gives the session a state, in place of any it had.
    pub(crate) fn set_state(&mut self, index: ConnIndex, state: State) {
        let slot = &mut self.connections.slots[index];
        slot.state = self.sessions.put(slot.state, state);
    }

    /// Takes the session's state away if it is one of MQTT.
    pub(crate) fn take_state_if_mqtt(&mut self, index: ConnIndex) -> Option<State> {
        match self.state(index) {
            Some(State::Mqtt(_)) => self.take_state(index),
            _ => None,
        }
    }

    /// Takes the session's state away.
    pub(crate) fn take_state(&mut self, index: ConnIndex) -> Option<State> {
        let handle = std::mem::replace(&mut self.connections.slots[index].state, NONE);
        self.sessions.take(handle)
    }
}
