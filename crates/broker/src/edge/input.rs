//! Input: what has been read and not yet understood.
//!
//! Steps 1 to 3 of the path. The receive buffer belongs to the reactor; only the unfinished tail of a frame is kept,
//! and what follows while the connection is paused. Invariants: at most one frame plus one receive buffer is kept; a
//! connection that may not go on is not read; a turn handles a bounded number of frames of one connection; what all
//! connections of the edge have unfinished stays within `pinned_bytes_max`.

use super::Edge;
use super::compression::WORK_BYTES_FRAME;
use super::ends::End;
use super::slots::{NONE, Protocol, flag};
use crate::session::State;
use stdx::key::Key;
use wire::http::HeadScan;

/// Bytes kept for a connection.
#[derive(Default)]
pub(super) struct Input {
    pub bytes: Vec<u8>,
    pub scan: HeadScan,
}

stdx::hand!(struct Input { bytes, scan });

/// What a session made of the front of its input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// So many bytes are dealt with; go on.
    Consumed(usize),
    /// An unfinished unit; it will have at least so many bytes.
    Needs(usize),
    /// Nothing more for now: paused, or closing.
    Stop,
}

impl Edge {
    /// Whether the reactor should read from the connection now. If not, it is told by `out.readable` when to.
    pub fn wants_read(&mut self, key: Key) -> bool {
        if self.slots.get(key).is_none() {
            return false;
        }
        let slot = &mut self.slots[key.index];
        if slot.is(flag::PAUSED | flag::CHOKED | flag::RESUMED | flag::HELD) {
            slot.set(flag::UNREAD);
            return false;
        }
        // Bytes to a closing connection or an event stream are read and dropped: otherwise its end is never seen.
        true
    }

    /// Bytes have come. Text of WebSocket frames is unmasked in place.
    pub fn received(&mut self, key: Key, bytes: &mut [u8]) {
        if self.slots.get(key).is_none() {
            return;
        }
        let index = key.index;
        self.statistics.read_bytes += bytes.len() as u64;
        let slot = &mut self.slots[index];
        if slot.is(flag::CLOSING | flag::DEAD) || slot.protocol == Protocol::Events {
            return;
        }
        slot.clear(flag::PINGED);
        let kept = slot.input;
        // The bytes of one HTTP request count as one sign of life, or a peer that drips them would keep its place.
        let is_in_request = slot.protocol == Protocol::Http && (kept != NONE || slot.state != NONE);
        let kept_bytes = self.kept_bytes_of(index);
        if !is_in_request {
            self.stamp(index);
        }
        if kept == NONE {
            let mut scan = HeadScan::new();
            let (consumed, needs) = self.drive(index, bytes, &mut scan);
            self.keep(key, &bytes[consumed..], scan, needs);
        } else if let Some(input) = self.inputs.get_mut(kept) {
            let mut input = std::mem::take(input);
            input.bytes.extend_from_slice(bytes);
            self.go_on(key, input);
        }
        self.count_kept(index, kept_bytes);
    }

    /// Bytes of unfinished frames, messages and bodies that a connection has sent.
    pub(crate) fn kept_bytes_of(&self, index: u32) -> u64 {
        let slot = &self.slots[index];
        let input = self
            .inputs
            .get(slot.input)
            .map_or(0, |input| input.bytes.len());
        let state = self
            .states
            .get(slot.state)
            .map_or(0, |state| state.kept_bytes());
        (input + state) as u64
    }

    /// Together they are bounded; the connection that passes the bound is closed.
    pub(crate) fn count_kept(&mut self, index: u32, before: u64) {
        let after = self.kept_bytes_of(index);
        self.kept_bytes = self.kept_bytes - before + after;
        if after > before && self.kept_bytes > self.settings.limits.pinned_bytes_max {
            self.statistics.input_closed += u64::from(!self.slots[index].is(flag::DEAD));
            self.note_end(index, End::UNFINISHED_INPUT);
            self.kill(index);
        }
    }

    /// Takes the state of a connection that waited with input of its own.
    pub(crate) fn take_kept_state(&mut self, index: u32) -> Option<State> {
        let before = self.kept_bytes_of(index);
        let state = self.take_state(index);
        self.count_kept(index, before);
        state
    }

    /// The peer has ended its direction.
    pub fn ended(&mut self, key: Key) {
        if self.slots.get(key).is_none() {
            return;
        }
        let index = key.index;
        self.slots[index].set(flag::ENDED);
        self.note_end(index, End::ENDED);
        // An answer that is due still goes out; otherwise there is nobody to talk to.
        if self.slots[index].protocol == Protocol::Http && self.slots[index].is(flag::PAUSED) {
            return;
        }
        self.close(index);
    }

    /// May go on: with what was kept first, then with what the network has.
    pub(crate) fn resume(&mut self, index: u32) {
        let key = self.slots.key(index);
        let slot = &mut self.slots[index];
        if slot.is(flag::ASKED) {
            return; // its verdict is still to come
        }
        slot.clear(flag::PAUSED);
        if slot.is(flag::CHOKED | flag::CLOSING | flag::RESUMED | flag::HELD) {
            return;
        }
        if slot.input != NONE {
            slot.set(flag::RESUMED);
            self.resumed.push(key);
        } else if slot.is(flag::UNREAD) {
            slot.clear(flag::UNREAD);
            self.out.readable.push(key);
        }
        if self.slots[index].is(flag::ENDED) && self.slots[index].input == NONE {
            self.close(index);
        }
    }

    /// Goes on with the connections that were resumed, in that order. Call it when letters have been taken and before
    /// anything new is read, which would take the room that those have waited for.
    pub fn continue_resumed(&mut self) {
        for key in std::mem::take(&mut self.resumed) {
            if self.slots.get(key).is_none() {
                continue;
            }
            let slot = &mut self.slots[key.index];
            slot.clear(flag::RESUMED);
            if slot.is(flag::PAUSED | flag::CHOKED | flag::CLOSING | flag::HELD) {
                continue;
            }
            if let Some(input) = self.inputs.get_mut(slot.input) {
                let input = std::mem::take(input);
                let kept_bytes = input.bytes.len() as u64 + self.kept_bytes_of(key.index);
                self.go_on(key, input);
                self.count_kept(key.index, kept_bytes);
            }
            if self.slots.get(key).is_none() {
                continue;
            }
            let slot = &mut self.slots[key.index];
            if slot.is(flag::UNREAD) && !slot.is(flag::PAUSED | flag::CHOKED | flag::RESUMED) {
                slot.clear(flag::UNREAD);
                self.out.readable.push(key);
            }
            if self.slots[key.index].is(flag::ENDED)
                && !self.slots[key.index].is(flag::PAUSED | flag::RESUMED)
            {
                self.close(key.index);
            }
        }
    }

    fn go_on(&mut self, key: Key, mut input: Input) {
        let mut scan = input.scan;
        let (consumed, needs) = self.drive(key.index, &mut input.bytes, &mut scan);
        if self.slots.get(key).is_none() {
            return;
        }
        let handle = self.slots[key.index].input;
        if consumed == input.bytes.len() || self.slots[key.index].is(flag::CLOSING) {
            self.inputs.remove(handle);
            self.slots[key.index].input = NONE;
            return;
        }
        input.bytes.drain(..consumed);
        input
            .bytes
            .reserve_exact(needs.saturating_sub(input.bytes.len()).min(RESERVE_MAX));
        input.scan = scan;
        self.inputs[handle] = input;
    }

    fn keep(&mut self, key: Key, rest: &[u8], scan: HeadScan, needs: usize) {
        if rest.is_empty()
            || self.slots.get(key).is_none()
            || self.slots[key.index].is(flag::CLOSING)
        {
            return;
        }
        let mut bytes = Vec::with_capacity(rest.len().max(needs.min(RESERVE_MAX)));
        bytes.extend_from_slice(rest);
        let input = self.inputs.insert(Input { bytes, scan });
        self.slots[key.index].input = input;
    }

    /// Has the session deal with unit after unit. Returns what it dealt with, and how long the next unit is.
    fn drive(&mut self, index: u32, bytes: &mut [u8], scan: &mut HeadScan) -> (usize, usize) {
        let mut consumed = 0;
        let mut frames = 0;
        let mut needs = 0;
        self.slots[index].clear(flag::SERVED);
        while consumed < bytes.len() {
            let slot = &mut self.slots[index];
            if slot.is(flag::CLOSING | flag::PAUSED | flag::CHOKED | flag::HELD) {
                break;
            }
            if frames >= self.settings.limits.turn_frames_max {
                slot.set(flag::RESUMED);
                let key = self.slots.key(index);
                self.spent.push(key);
                break;
            }
            let work_bytes = self.compression_work();
            let rest = &mut bytes[consumed..];
            let progress = match self.slots[index].protocol {
                Protocol::Http => self.http_input(index, rest, scan),
                Protocol::Native | Protocol::NativeStart | Protocol::Echo => {
                    self.websocket_input(index, rest)
                }
                Protocol::Events | Protocol::Free => Progress::Consumed(rest.len()),
            };
            match progress {
                Progress::Consumed(bytes) => {
                    consumed += bytes;
                    self.slots[index].set(flag::SERVED);
                }
                Progress::Needs(bytes) => {
                    needs = bytes;
                    break;
                }
                Progress::Stop => break,
            }
            // What had to be inflated, or compressed to be echoed, costs more than its bytes on the wire.
            let work_bytes = self.compression_work() - work_bytes;
            frames += 1 + (work_bytes / WORK_BYTES_FRAME) as u32;
        }
        self.choke(index);
        (consumed, needs)
    }

    /// A connection that does not drain its answers is not read until it does.
    fn choke(&mut self, index: u32) {
        if self.slots[index].is(flag::BLOCKED) && self.owned_bytes(index) > CHOKE_BYTES {
            self.slots[index].set(flag::CHOKED);
        }
    }
}

/// Answers that a blocked connection may own before it is no longer read.
const CHOKE_BYTES: usize = 64 << 10;
/// A peer that announces a long message gets its room only as it sends.
const RESERVE_MAX: usize = 256 << 10;
