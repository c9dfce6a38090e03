//! Connections: their slots, stamps, addresses, rates and input, and the lists of those on which
//! work is due.
//!
//! Owner of everything that is found by a connection's index. It knows nothing of subscriptions,
//! homes or credentials: it returns the due action of a connection, and the flows act.

pub(crate) mod buffered;
pub(crate) mod draining;
mod due;
pub(crate) mod handshakes;
pub(crate) mod input;
pub(crate) mod peers;
pub(crate) mod producers;
pub(crate) mod rates;
pub(crate) mod slots;
pub(crate) mod sweep;

pub(crate) use due::{Due, Swept};

use crate::edge::excess::Excess;
use crate::ids::{ConnIndex, NONE};
use crate::now::Now;
use crate::protocol::flag;
use crate::settings::{Limits, Settings};
use buffered::Buffered;
use draining::Drain;
use handshakes::{Deadline, Handshakes};
use input::{Driven, Input};
use peers::Peers;
use producers::OldSessions;
use rates::Rates;
use slots::Slots;
use std::net::IpAddr;
use stdx::handing::Hand;
use stdx::key::Key;
use stdx::memory::vector_bytes;
use stdx::pages::Pages;
use stdx::slab::Slab;
use sweep::Sweep;
use wire::http::HeadScan;

/// Stamps to a page.
const STAMPS_PAGE: usize = 1_024;

/// The connections of an edge.
#[derive(Hand)]
pub(crate) struct Connections {
    pub slots: Slots,
    /// The second of the monotonic clock in which each peer has last been heard.
    stamps: Pages<u32, STAMPS_PAGE>,
    pub peers: Peers,
    pub rates: Rates,
    /// Slow connections that the next flush closes, each with the bound that it has passed.
    ending: Vec<(Key, Excess)>,
    /// Connections that end with this turn.
    aborted: Vec<ConnIndex>,
    inputs: Slab<Input>,
    pub buffered: Buffered,
    /// Connections that continue with buffered input.
    resumed: Vec<Key>,
    /// Connections without a share of this turn left; they continue in the next, after those that
    /// had waited.
    spent: Vec<Key>,
    handshakes: Handshakes,
    /// The present second of the monotonic clock; some work is done once in each.
    second: u32,
    sweep: Sweep,
    old_sessions: OldSessions,
    /// The shortest ping interval that any session has had.
    ping_interval_min_s: u32,
    /// The drain under way, which ends all connections.
    pub drain: Option<Drain>,
}

impl Connections {
    /// No connections. `now` starts the clocks.
    pub fn new(limits: &Limits, now: Now) -> Connections {
        Connections {
            slots: Slots::new(),
            stamps: Pages::new(),
            peers: Peers::default(),
            rates: Rates::new(limits),
            ending: Vec::new(),
            aborted: Vec::new(),
            inputs: Slab::new(),
            buffered: Buffered::default(),
            resumed: Vec::new(),
            spent: Vec::new(),
            handshakes: Handshakes::default(),
            second: (now.monotonic_ms / 1_000) as u32,
            sweep: Sweep::new(now.monotonic_ms),
            old_sessions: OldSessions::default(),
            ping_interval_min_s: u32::MAX,
            drain: None,
        }
    }

    /// A peer has connected from this address; the head of its first request is due.
    pub fn open(&mut self, key: Key, peer: IpAddr, settings: &Settings, now: Now) {
        debug_assert!(self.slots.get(key).is_none());
        self.slots.open(key);
        self.slots[ConnIndex(key.index)].set(flag::STARTING);
        self.begin_session(ConnIndex(key.index), now);
        self.peers.note(ConnIndex(key.index), peer, &settings.addresses);
        self.stamp(ConnIndex(key.index), now);
        self.expect(Deadline::Head(key), &settings.limits, now);
    }

    /// The connection goes: frees its slot, and all that belongs to it here.
    pub fn close(&mut self, index: ConnIndex) {
        self.rates.release(index);
        self.old_sessions.release(index);
        self.release_buffered(index);
        self.inputs.remove(self.slots[index].input);
        self.slots.free(index);
    }

    /// Marks a connection to be reset at the end of the turn, whatever waits. False if it is marked
    /// already.
    pub fn abort(&mut self, index: ConnIndex) -> bool {
        let slot = &mut self.slots[index];
        if slot.is(flag::DEAD) {
            return false;
        }
        slot.set(flag::DEAD | flag::CLOSING);
        self.aborted.push(index);
        true
    }

    /// The connections that have been marked so. Some may have come to another end since.
    pub fn take_aborted(&mut self) -> Vec<ConnIndex> {
        std::mem::take(&mut self.aborted)
    }

    /// Has the next flush close a slow connection with a close frame.
    pub fn end_slow(&mut self, index: ConnIndex, excess: Excess) {
        self.ending.push((self.slots.key(index), excess));
    }

    /// The slow connections that are to be closed now.
    pub fn take_ending(&mut self) -> Vec<(Key, Excess)> {
        std::mem::take(&mut self.ending)
    }

    /// Whether the network should read from the connection now. If not, it is noted that there is
    /// something to read.
    #[inline]
    pub fn wants_read(&mut self, key: Key) -> bool {
        if self.slots.get(key).is_none() {
            return false;
        }
        let slot = &mut self.slots[ConnIndex(key.index)];
        if slot.is(flag::PAUSED | flag::CHOKED | flag::RESUMED | flag::HELD) {
            slot.set(flag::UNREAD);
            return false;
        }
        // Bytes to a closing connection or an event stream are read and dropped: otherwise its end
        // is never seen.
        true
    }

    /// Takes the note that the network has something to read; the connection's key, if it had.
    #[inline]
    pub fn take_unread(&mut self, index: ConnIndex) -> Option<Key> {
        let slot = &mut self.slots[index];
        if !slot.is(flag::UNREAD) {
            return None;
        }
        slot.clear(flag::UNREAD);
        Some(self.slots.key(index))
    }

    /// Queues a connection with buffered input for the next turn.
    pub fn resume(&mut self, index: ConnIndex) {
        self.slots[index].set(flag::RESUMED);
        self.resumed.push(self.slots.key(index));
    }

    /// Queues a connection that has had its share of this turn.
    pub fn spend(&mut self, key: Key) {
        self.spent.push(key);
    }

    /// A turn begins: connections that had spent their share continue after those that waited.
    pub fn begin_turn(&mut self) {
        let spent = std::mem::take(&mut self.spent);
        self.resumed.extend(spent);
    }

    /// The connections that continue now, in their order.
    pub fn take_resumed(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.resumed)
    }

    /// Whether a connection waits for its turn to continue.
    #[inline]
    pub fn has_resumed(&self) -> bool {
        !self.resumed.is_empty() || !self.spent.is_empty()
    }

    /// Adds bytes to the buffered input of a connection, and takes it out to continue with it.
    pub fn take_input(&mut self, index: ConnIndex, more: &[u8]) -> Option<Input> {
        let mut input = std::mem::take(self.inputs.get_mut(self.slots[index].input)?);
        if !more.is_empty() {
            input.append(more);
        }
        Some(input)
    }

    /// Puts the rest of a connection's input back, if there is one and it can continue.
    /// `spare_bytes_max`: so much room beyond the rest may stay.
    pub fn put_input(
        &mut self,
        index: ConnIndex,
        mut input: Input,
        driven: Driven,
        scan: HeadScan,
        spare_bytes_max: usize,
    ) {
        let slot = &mut self.slots[index];
        let has_rest = driven.consumed < input.bytes.len() || !driven.early.is_empty();
        if !has_rest || slot.is(flag::CLOSING) {
            self.inputs.remove(slot.input);
            slot.input = NONE;
            return;
        }
        input.keep_rest(driven, scan, spare_bytes_max);
        self.inputs[slot.input] = input;
    }

    /// Buffers the rest of bytes that have just come, if there is one and it can continue.
    #[inline]
    pub fn keep_input(&mut self, index: ConnIndex, bytes: &[u8], driven: &Driven, scan: HeadScan) {
        let has_rest = driven.consumed < bytes.len() || !driven.early.is_empty();
        if has_rest && !self.slots[index].is(flag::CLOSING) {
            let input = Input::of_rest(bytes, driven, scan);
            self.slots[index].input = self.inputs.insert(input);
        }
    }

    /// Gives back the buffered input of a connection.
    pub fn drop_input(&mut self, index: ConnIndex) {
        let input = std::mem::replace(&mut self.slots[index].input, NONE);
        self.inputs.remove(input);
    }

    /// Bytes of the buffer with unfinished input of a connection; none without one.
    pub fn input_bytes(&self, index: ConnIndex) -> Option<usize> {
        self.inputs.get(self.slots[index].input).map(|input| input.bytes.capacity())
    }

    /// The connection has no unfinished input any more.
    pub fn release_buffered(&mut self, index: ConnIndex) {
        if self.slots[index].is(flag::UNFINISHED) {
            self.slots[index].clear(flag::UNFINISHED);
            self.buffered.release(index);
        }
    }

    /// Bytes of slots, stamps and addresses.
    pub fn slots_bytes(&self) -> usize {
        self.slots.memory_bytes() + self.stamps.memory_bytes() + self.peers.memory_bytes()
    }

    /// Bytes of buffered input.
    pub fn buffered_bytes(&self) -> usize {
        self.inputs.memory_bytes() + self.buffered.bytes() as usize + self.buffered.memory_bytes()
    }

    /// Bytes of lists and tables that only some connections are in.
    pub fn work_bytes(&self) -> usize {
        vector_bytes::<ConnIndex>(self.aborted.capacity())
            + vector_bytes::<Key>(self.resumed.capacity() + self.spent.capacity())
            + self.handshakes.memory_bytes()
            + self.old_sessions.memory_bytes()
            + self.rates.memory_bytes()
    }
}
