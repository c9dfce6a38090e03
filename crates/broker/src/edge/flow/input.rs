//! Input: bytes that have come are handed to the connection's session, unit after unit.
//!
//! Steps 1 to 3 of the path. The receive buffer belongs to the reactor; only the unfinished tail of
//! a frame is buffered, and what follows while the connection is paused. Invariants: at most one
//! frame plus one receive buffer is buffered; a connection that may not continue is not read; a
//! turn handles a bounded number of frames of one connection; the buffers of all connections
//! together are bounded (`edge::connections::buffered`).

use crate::edge::Edge;
use crate::edge::compression::WORK_BYTES_FRAME;
use crate::edge::connections::buffered::Came;
use crate::edge::connections::input::{Driven, Input, Progress};
use crate::edge::connections::slots::Slot;
use crate::edge::ends::End;
use crate::ids::{ConnIndex, NONE};
use crate::protocol::{Protocol, flag};
use crate::session::State;
use stdx::key::Key;
use wire::http::HeadScan;

impl Edge {
    /// Whether the reactor should read from the connection now. If not, it waits for
    /// `out.readable`.
    pub fn wants_read(&mut self, key: Key) -> bool {
        self.connections.wants_read(key)
    }

    /// Bytes have come. Text of WebSocket frames is unmasked in place.
    pub fn received(&mut self, key: Key, bytes: &mut [u8]) {
        if self.connections.slots.get(key).is_none() {
            return;
        }
        let index = ConnIndex(key.index);
        self.statistics.read_bytes += bytes.len() as u64;
        let slot = &mut self.connections.slots[index];
        if slot.is(flag::CLOSING | flag::DEAD) || !slot.facts().reads_input {
            return;
        }
        slot.clear(flag::PINGED);
        let kept = slot.input;
        // The bytes of one HTTP request count as one sign of life, or a peer that drips them would
        // keep its place.
        let is_in_request = slot.facts().answers_requests && (kept != NONE || slot.state != NONE);
        if !is_in_request {
            self.stamp(index);
        }
        let is_whole = match kept {
            NONE => {
                let mut scan = HeadScan::new();
                let driven = self.drive(index, bytes, &mut scan);
                self.connections.keep_input(index, bytes, &driven, scan);
                driven.is_whole
            }
            _ => match self.connections.take_input(index, bytes) {
                Some(input) => self.go_on(index, input),
                None => false,
            },
        };
        let bytes = bytes.len();
        self.count_input(index, Came { bytes, is_whole });
    }

    /// Takes the state of a connection that waits with unfinished input in it.
    pub(crate) fn take_buffered_state(&mut self, index: ConnIndex) -> Option<State> {
        let state = self.take_state(index);
        self.count_buffered(index);
        state
    }

    /// The peer has ended its direction.
    pub fn ended(&mut self, key: Key) {
        if self.connections.slots.get(key).is_none() {
            return;
        }
        let index = ConnIndex(key.index);
        self.connections.slots[index].set(flag::ENDED);
        self.note_end(index, End::ENDED);
        // A pending answer still goes out; otherwise the connection ends at once.
        let slot = &self.connections.slots[index];
        if slot.facts().answers_requests && slot.is(flag::PAUSED) {
            return;
        }
        self.close(index);
    }

    /// The connection may continue: with buffered input first, then with what the network has.
    pub(crate) fn resume(&mut self, index: ConnIndex) {
        let slot = &mut self.connections.slots[index];
        if slot.is(flag::ASKED) {
            return; // its decision is still to come
        }
        slot.clear(flag::PAUSED);
        if slot.is(flag::CHOKED | flag::CLOSING | flag::RESUMED | flag::HELD) {
            return;
        }
        if slot.input != NONE || self.has_items(index) || self.has_mqtt_rest(index) {
            return self.connections.resume(index);
        }
        self.out.readable.extend(self.connections.take_unread(index));
        if self.connections.slots[index].is(flag::ENDED) {
            self.close(index);
        }
    }

    /// Resumes the connections that are queued for it, in that order. Call it after letters have
    /// been taken and before new bytes are read, which would take the room that those connections
    /// have waited for.
    pub fn continue_resumed(&mut self) {
        for key in self.connections.take_resumed() {
            if self.connections.slots.get(key).is_some() {
                self.continue_one(key);
            }
        }
    }

    /// Handles the input that a lost MQTT connection has left for later turns: its last
    /// acknowledgements may be there, and the DISCONNECT that keeps its will from being published.
    /// Input that waits for something else is dropped.
    pub(crate) fn finish_input(&mut self, key: Key) {
        let is_resumed = |slot: &Slot| slot.is(flag::RESUMED) && slot.facts().is_mqtt;
        while self.connections.slots.get(key).is_some_and(is_resumed) {
            self.continue_one(key);
        }
    }

    fn continue_one(&mut self, key: Key) {
        let index = ConnIndex(key.index);
        let slot = &mut self.connections.slots[index];
        slot.clear(flag::RESUMED);
        if slot.is(flag::PAUSED | flag::CHOKED | flag::CLOSING | flag::HELD) {
            return;
        }
        if !self.continue_items(index) {
            return self.choke(index);
        }
        self.continue_mqtt(index);
        if self.connections.slots.get(key).is_none() {
            return;
        }
        if let Some(input) = self.connections.take_input(index, &[]) {
            let is_whole = self.go_on(index, input);
            self.count_input(index, Came { bytes: 0, is_whole });
        }
        if self.connections.slots.get(key).is_none() {
            return;
        }
        if !self.connections.slots[index].is(flag::PAUSED | flag::CHOKED | flag::RESUMED) {
            self.out.readable.extend(self.connections.take_unread(index));
        }
        let slot = &self.connections.slots[index];
        if slot.is(flag::ENDED) && !slot.is(flag::PAUSED | flag::RESUMED) {
            self.close(index);
        }
    }

    /// Handles buffered input. True: a whole frame, message or request was in it.
    fn go_on(&mut self, index: ConnIndex, mut input: Input) -> bool {
        let mut scan = input.scan;
        let driven = self.drive(index, &mut input.bytes, &mut scan);
        let is_whole = driven.is_whole;
        let spare_bytes_max = if self.is_short_of_input() { 0 } else { SPARE_BYTES_MAX };
        self.connections.put_input(index, input, driven, scan, spare_bytes_max);
        is_whole
    }

    /// Hands the session unit after unit.
    fn drive(&mut self, index: ConnIndex, bytes: &mut [u8], scan: &mut HeadScan) -> Driven {
        self.connections.slots[index].clear(flag::SERVED);
        let driven = self.drive_on(index, bytes, scan, &mut 0);
        self.choke(index);
        driven
    }

    /// The same, after a number of frames in this turn.
    fn drive_on(
        &mut self,
        index: ConnIndex,
        bytes: &mut [u8],
        scan: &mut HeadScan,
        frames: &mut u32,
    ) -> Driven {
        let mut consumed = 0;
        let mut needs = 0;
        let mut early = Vec::new();
        let mut is_whole = false;
        while consumed < bytes.len() {
            let slot = &mut self.connections.slots[index];
            if slot.is(flag::CLOSING | flag::PAUSED | flag::CHOKED | flag::HELD | flag::RESUMED) {
                break;
            }
            if *frames >= self.settings.limits.turn_frames_max {
                slot.set(flag::RESUMED);
                self.connections.spend(self.connections.slots.key(index));
                break;
            }
            let work_bytes = self.compression_work();
            let rest = &mut bytes[consumed..];
            let protocol = self.connections.slots[index].protocol;
            let progress = match protocol {
                Protocol::Http if self.begins_mqtt(index, rest) => Progress::Consumed(0),
                Protocol::Http => self.http_input(index, rest, scan),
                #[cfg(feature = "line-protocol")]
                Protocol::Line => self.line_input(index, rest),
                Protocol::MqttStart | Protocol::Mqtt => self.mqtt_input(index, rest),
                protocol if protocol.facts().is_websocket => self.websocket_input(index, rest),
                _ => Progress::Consumed(rest.len()),
            };
            match progress {
                Progress::Consumed(bytes) => {
                    consumed += bytes;
                    self.connections.slots[index].set(flag::SERVED);
                    is_whole |= !self.is_in_unit(index);
                }
                Progress::Brought(bytes, mut brought) => {
                    consumed += bytes;
                    self.connections.slots[index].set(flag::SERVED);
                    // Two levels deep: a handshake may bring a list, and a list brings no other.
                    is_whole = true;
                    // A handshake comes once; lists could take the whole turn.
                    let of_handshake = &mut 0;
                    let counted =
                        if protocol == Protocol::Http { of_handshake } else { &mut *frames };
                    let driven = self.drive_on(index, &mut brought, scan, counted);
                    early = driven.early;
                    early.extend_from_slice(&brought[driven.consumed..]);
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
            // Inflating, and compressing an echo, cost more than the bytes on the wire.
            let work_bytes = self.compression_work() - work_bytes;
            *frames += 1 + (work_bytes / WORK_BYTES_FRAME) as u32;
        }
        Driven { consumed, needs, early, is_whole }
    }

    /// Whether a message has come in part, or the body of a request is still to come.
    fn is_in_unit(&self, index: ConnIndex) -> bool {
        let state = self.connections.slots[index].state;
        state != NONE && self.sessions.get(state).is_some_and(State::is_open_unit)
    }

    /// A connection that does not drain its answers is not read until it does.
    fn choke(&mut self, index: ConnIndex) {
        if self.is_choked(index) {
            self.connections.slots[index].set(flag::CHOKED);
        }
    }

    /// Whether the connection owns so many answers that it is not read.
    pub(crate) fn is_choked(&self, index: ConnIndex) -> bool {
        self.connections.slots[index].is(flag::BLOCKED) && self.owned_bytes(index) > CHOKE_BYTES
    }

    /// The connection has had its share of the turn, and continues in the next.
    pub(crate) fn spend(&mut self, key: Key) {
        self.connections.spend(key);
    }
}

/// Answers that a blocked connection may own before it is no longer read.
const CHOKE_BYTES: usize = 64 << 10;
/// A buffer keeps so much room that it does not need now, unless memory for input is short.
const SPARE_BYTES_MAX: usize = 256 << 10;
