//! Sessions: the state that a protocol keeps for a connection while it needs it.
//!
//! Owner of these states, of tickets that are being made, and of the deadlines of long polls. A
//! slot has the handle of its connection's state.

use crate::edge::tickets::Tickets;
use crate::ids::ConnIndex;
use crate::session::State;
use crate::session::mqtt::Mqtt;
use std::collections::BTreeSet;
use stdx::handing::Hand;
use stdx::memory::tree_bytes;
use stdx::names::Names;
use stdx::slab::Slab;

/// The states of all sessions.
#[derive(Default, Hand)]
pub(crate) struct Sessions {
    states: Slab<State>,
    /// Bytes that the states own.
    states_bytes: usize,
    /// The names of MQTT clients.
    pub names: Names,
    pub tickets: Tickets,
    /// Deadlines of long polls, with their connections.
    polls: BTreeSet<(u64, ConnIndex)>,
}

impl Sessions {
    /// The state of this handle.
    #[inline]
    pub fn get(&self, handle: u32) -> Option<&State> {
        self.states.get(handle)
    }

    /// The state of this handle.
    #[inline]
    pub fn get_mut(&mut self, handle: u32) -> Option<&mut State> {
        self.states.get_mut(handle)
    }

    /// Puts a state in the place of this handle, or in a new one; its handle.
    pub fn put(&mut self, handle: u32, state: State) -> u32 {
        self.states_bytes += state.own_bytes();
        match self.states.get_mut(handle) {
            Some(place) => {
                self.states_bytes -= std::mem::replace(place, state).own_bytes();
                handle
            }
            None => self.states.insert(state),
        }
    }

    /// Takes the state of this handle away.
    pub fn take(&mut self, handle: u32) -> Option<State> {
        let state = self.states.remove(handle)?;
        self.states_bytes -= state.own_bytes();
        Some(state)
    }

    /// Forgets the state of this handle, with its name.
    pub fn drop_state(&mut self, handle: u32) {
        if let Some(State::Mqtt(mqtt)) = self.take(handle)
            && let Some(name) = mqtt.name
        {
            self.names.remove(name);
        }
    }

    /// The name of an MQTT client.
    pub fn name_of(&self, mqtt: &Mqtt) -> &[u8] {
        mqtt.name.map_or(&[], |name| self.names.get(name))
    }

    /// Sets the deadline of a connection's long poll.
    pub fn begin_poll(&mut self, deadline_ms: u64, index: ConnIndex) {
        self.polls.insert((deadline_ms, index));
    }

    /// Removes the deadline of a connection's long poll.
    pub fn end_poll(&mut self, deadline_ms: u64, index: ConnIndex) {
        self.polls.remove(&(deadline_ms, index));
    }

    /// Long polls now.
    pub fn polls_count(&self) -> u64 {
        self.polls.len() as u64
    }

    /// Takes the connection of the next long poll whose deadline has come.
    pub fn next_late_poll(&mut self, now_ms: u64) -> Option<ConnIndex> {
        let (deadline_ms, index) = *self.polls.first()?;
        if deadline_ms > now_ms {
            return None;
        }
        self.polls.pop_first();
        Some(index)
    }

    /// The deadline of the next long poll; milliseconds of the monotonic clock.
    pub fn next_poll_ms(&self) -> Option<u64> {
        self.polls.first().map(|(deadline_ms, _)| *deadline_ms)
    }

    /// Bytes of states.
    pub fn states_bytes(&self) -> usize {
        self.states.memory_bytes() + self.states_bytes
    }

    /// Bytes of the deadlines of long polls, about.
    pub fn polls_bytes(&self) -> usize {
        tree_bytes(self.polls.len(), size_of::<(u64, ConnIndex)>())
    }
}
