//! Input: what has been read and not yet understood.
//!
//! Steps 1 to 3 of the path. The receive buffer belongs to the reactor; only the unfinished tail of
//! a frame is kept, and what follows while the connection is paused. Invariants: at most one frame
//! plus one receive buffer is kept; a connection that may not go on is not read; a turn handles a
//! bounded number of frames of one connection; a buffer is never more than twice as long as what
//! has come; what all connections keep is bounded ([`super::kept`]).

use crate::edge::Edge;
use crate::edge::compression::WORK_BYTES_FRAME;
use crate::edge::connections::input::{Input, Progress, make_room};
use crate::edge::connections::kept::Came;
use crate::edge::ends::End;
use crate::ids::ConnIndex;
use crate::ids::NONE;
use crate::protocol::Protocol;
use crate::protocol::flag;
use crate::session::State;
use std::borrow::Cow;
use stdx::key::Key;
use wire::http::HeadScan;

impl Edge {
    /// Whether the reactor should read from the connection now. If not, it is told by
    /// `out.readable` when to.
    pub fn wants_read(&mut self, key: Key) -> bool {
        if self.connections.slots.get(key).is_none() {
            return false;
        }
        let slot = &mut self.connections.slots[key.index];
        if slot.is(flag::PAUSED | flag::CHOKED | flag::RESUMED | flag::HELD) {
            slot.set(flag::UNREAD);
            return false;
        }
        // Bytes to a closing connection or an event stream are read and dropped: otherwise its end
        // is never seen.
        true
    }

    /// Bytes have come. Text of WebSocket frames is unmasked in place.
    pub fn received(&mut self, key: Key, bytes: &mut [u8]) {
        if self.connections.slots.get(key).is_none() {
            return;
        }
        let index = key.index;
        self.statistics.read_bytes += bytes.len() as u64;
        let slot = &mut self.connections.slots[index];
        if slot.is(flag::CLOSING | flag::DEAD) || !slot.protocol.facts().reads_input {
            return;
        }
        slot.clear(flag::PINGED);
        let kept = slot.input;
        // The bytes of one HTTP request count as one sign of life, or a peer that drips them would
        // keep its place.
        let is_in_request = slot.protocol == Protocol::Http && (kept != NONE || slot.state != NONE);
        if !is_in_request {
            self.stamp(index);
        }
        let mut is_whole = false;
        if kept == NONE {
            let mut scan = HeadScan::new();
            let driven = self.drive(index, bytes, &mut scan);
            is_whole = driven.is_whole;
            self.keep(key, driven.rest(bytes), scan, driven.needs);
        } else if let Some(input) = self.connections.inputs.get_mut(kept) {
            let mut input = std::mem::take(input);
            make_room(&mut input.bytes, bytes.len(), input.needs);
            input.bytes.extend_from_slice(bytes);
            is_whole = self.go_on(key, input);
        }
        let bytes = bytes.len();
        self.count_input(index, Came { bytes, is_whole });
    }

    /// Takes the state of a connection that waited with input of its own.
    pub(crate) fn take_kept_state(&mut self, index: ConnIndex) -> Option<State> {
        let state = self.take_state(index);
        self.count_kept(index);
        state
    }

    /// The peer has ended its direction.
    pub fn ended(&mut self, key: Key) {
        if self.connections.slots.get(key).is_none() {
            return;
        }
        let index = key.index;
        self.connections.slots[index].set(flag::ENDED);
        self.note_end(index, End::ENDED);
        // An answer that is due still goes out; otherwise there is nobody to talk to.
        if self.connections.slots[index].protocol == Protocol::Http
            && self.connections.slots[index].is(flag::PAUSED)
        {
            return;
        }
        self.close(index);
    }

    /// May go on: with what was kept first, then with what the network has.
    pub(crate) fn resume(&mut self, index: ConnIndex) {
        let key = self.connections.slots.key(index);
        let slot = &mut self.connections.slots[index];
        if slot.is(flag::ASKED) {
            return; // its verdict is still to come
        }
        slot.clear(flag::PAUSED);
        if slot.is(flag::CHOKED | flag::CLOSING | flag::RESUMED | flag::HELD) {
            return;
        }
        let has_input = slot.input != NONE;
        if has_input || self.has_items(index) {
            self.connections.slots[index].set(flag::RESUMED);
            self.connections.resumed.push(key);
            return;
        }
        let slot = &mut self.connections.slots[index];
        if slot.is(flag::UNREAD) {
            slot.clear(flag::UNREAD);
            self.out.readable.push(key);
        }
        if self.connections.slots[index].is(flag::ENDED)
            && self.connections.slots[index].input == NONE
        {
            self.close(index);
        }
    }

    /// Goes on with the connections that were resumed, in that order. Call it when letters have
    /// been taken and before anything new is read, which would take the room that those have waited
    /// for.
    pub fn continue_resumed(&mut self) {
        for key in std::mem::take(&mut self.connections.resumed) {
            if self.connections.slots.get(key).is_none() {
                continue;
            }
            let slot = &mut self.connections.slots[key.index];
            slot.clear(flag::RESUMED);
            if slot.is(flag::PAUSED | flag::CHOKED | flag::CLOSING | flag::HELD) {
                continue;
            }
            if !self.continue_items(key.index) {
                self.choke(key.index);
                continue;
            }
            if self.connections.slots.get(key).is_none() {
                continue;
            }
            let slot = &self.connections.slots[key.index];
            if let Some(input) = self.connections.inputs.get_mut(slot.input) {
                let input = std::mem::take(input);
                let is_whole = self.go_on(key, input);
                self.count_input(key.index, Came { bytes: 0, is_whole });
            }
            if self.connections.slots.get(key).is_none() {
                continue;
            }
            let slot = &mut self.connections.slots[key.index];
            if slot.is(flag::UNREAD) && !slot.is(flag::PAUSED | flag::CHOKED | flag::RESUMED) {
                slot.clear(flag::UNREAD);
                self.out.readable.push(key);
            }
            if self.connections.slots[key.index].is(flag::ENDED)
                && !self.connections.slots[key.index].is(flag::PAUSED | flag::RESUMED)
            {
                self.close(key.index);
            }
        }
    }

    /// Deals with input that was kept. True: a whole frame, message or request was in it.
    fn go_on(&mut self, key: Key, mut input: Input) -> bool {
        let mut scan = input.scan;
        let driven = self.drive(key.index, &mut input.bytes, &mut scan);
        let handle = self.connections.slots[key.index].input;
        let has_rest = driven.consumed < input.bytes.len() || !driven.early.is_empty();
        if !has_rest || self.connections.slots[key.index].is(flag::CLOSING) {
            self.connections.inputs.remove(handle);
            self.connections.slots[key.index].input = NONE;
            return driven.is_whole;
        }
        input.bytes.splice(..driven.consumed, driven.early);
        let spare_bytes_max = match self.is_short_of_input() {
            true => 0,
            false => SPARE_BYTES_MAX,
        };
        let used = 2 * input.bytes.len() + spare_bytes_max;
        if input.bytes.capacity() > used {
            input.bytes.shrink_to(used);
        }
        input.scan = scan;
        input.needs = driven.needs;
        self.connections.inputs[handle] = input;
        driven.is_whole
    }

    fn keep(&mut self, key: Key, rest: Cow<'_, [u8]>, scan: HeadScan, needs: usize) {
        if rest.is_empty() || self.connections.slots[key.index].is(flag::CLOSING) {
            return;
        }
        let mut bytes = Vec::new();
        make_room(&mut bytes, rest.len(), needs);
        bytes.extend_from_slice(&rest);
        let input = self.connections.inputs.insert(Input { bytes, scan, needs });
        self.connections.slots[key.index].input = input;
    }

    /// Has the session deal with unit after unit.
    fn drive(&mut self, index: ConnIndex, bytes: &mut [u8], scan: &mut HeadScan) -> Driven {
        let mut consumed = 0;
        let mut frames = 0;
        let mut needs = 0;
        let mut early = Vec::new();
        let mut is_whole = false;
        self.connections.slots[index].clear(flag::SERVED);
        while consumed < bytes.len() {
            let slot = &mut self.connections.slots[index];
            if slot.is(flag::CLOSING | flag::PAUSED | flag::CHOKED | flag::HELD | flag::RESUMED) {
                break;
            }
            if frames >= self.settings.limits.turn_frames_max {
                slot.set(flag::RESUMED);
                let key = self.connections.slots.key(index);
                self.connections.spent.push(key);
                break;
            }
            let work_bytes = self.compression_work();
            let rest = &mut bytes[consumed..];
            let progress = match self.connections.slots[index].protocol {
                Protocol::Http => self.http_input(index, rest, scan),
                protocol if protocol.facts().is_websocket => self.websocket_input(index, rest),
                _ => Progress::Consumed(rest.len()),
            };
            match progress {
                Progress::Consumed(bytes) => {
                    consumed += bytes;
                    self.connections.slots[index].set(flag::SERVED);
                    is_whole |= !self.is_in_unit(index);
                }
                Progress::Upgraded(bytes, mut frames) => {
                    consumed += bytes;
                    self.connections.slots[index].set(flag::SERVED);
                    // One level deep: an upgraded connection is not upgraded again.
                    is_whole = true;
                    let driven = self.drive(index, &mut frames, scan);
                    early = frames.split_off(driven.consumed);
                    if !early.is_empty() {
                        break;
                    }
                }
                Progress::Needs(bytes) => {
                    needs = bytes;
                    break;
                }
                Progress::Stop => break,
            }
            // What had to be inflated, or compressed to be echoed, costs more than its bytes on the
            // wire.
            let work_bytes = self.compression_work() - work_bytes;
            frames += 1 + (work_bytes / WORK_BYTES_FRAME) as u32;
        }
        self.choke(index);
        Driven { consumed, needs, early, is_whole }
    }

    /// Whether a message has come in part, or the body of a request is still to come.
    fn is_in_unit(&self, index: ConnIndex) -> bool {
        let state = self.connections.slots[index].state;
        state != NONE && self.sessions.states.get(state).is_some_and(State::is_open_unit)
    }

    /// A connection that does not drain its answers is not read until it does.
    fn choke(&mut self, index: ConnIndex) {
        if self.is_choked(index) {
            self.connections.slots[index].set(flag::CHOKED);
        }
    }

    /// Whether it owns so many answers that it is not read.
    pub(crate) fn is_choked(&self, index: ConnIndex) -> bool {
        self.connections.slots[index].is(flag::BLOCKED) && self.owned_bytes(index) > CHOKE_BYTES
    }

    /// The connection has had its share of the turn, and goes on in the next.
    pub(crate) fn spend(&mut self, key: Key) {
        self.connections.spent.push(key);
    }
}

/// What became of a connection's input.
struct Driven {
    /// Bytes that were dealt with.
    consumed: usize,
    /// Length of the next unit; 0 if it is unknown.
    needs: usize,
    /// Frames of the handshake that wait, before what is left of the input.
    early: Vec<u8>,
    /// A unit of it was a whole frame, message or request.
    is_whole: bool,
}

impl Driven {
    /// What was not dealt with, in the order in which it goes on.
    fn rest<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let rest = &bytes[self.consumed..];
        match self.early.is_empty() {
            true => Cow::Borrowed(rest),
            false => Cow::Owned([&self.early, rest].concat()),
        }
    }
}

/// Answers that a blocked connection may own before it is no longer read.
const CHOKE_BYTES: usize = 64 << 10;
/// A buffer keeps so much room that it does not need now, unless memory for input is short.
const SPARE_BYTES_MAX: usize = 256 << 10;
