//! Unfinished input of all connections: how much each of them keeps, whether it goes on, and which
//! one ends first.
//!
//! Step 2 of the path, behind a test of one flag: a connection whose last read ended with a whole
//! frame or request is not in here. Invariants: all connections together keep at most
//! `pinned_bytes_max`; buffers count with their capacity. Above the bound the largest ends, never a
//! smaller one that happened to grow. Connections without an accepted credential, on a node that
//! asks for tokens, have an eighth of the bound for themselves; as soon as they keep more than that
//! together, the largest of them ends first. (A client whose token is still being judged is one of
//! them: below that eighth size alone decides, or clients that hoard with tokens would push out
//! those who arrive.) What a connection keeps has to grow by [`PROGRESS_BYTES_S`] while it stands,
//! or to become complete.

use super::Edge;
use super::ends::End;
use super::slots::{NONE, Protocol, flag};
use crate::ids::ConnIndex;
use std::collections::{BTreeMap, BTreeSet};
use stdx::handing::Hand;
use stdx::memory::tree_bytes;
use wire::native::CloseCode;

/// Unfinished input has to grow by so many bytes for each second of `unfinished_input_timeout_ms`.
pub(super) const PROGRESS_BYTES_S: u64 = 1 << 10;
/// The part of `pinned_bytes_max` that clients without a credential keep before they end first.
const UNENTITLED_PART: u64 = 8;

/// What a PUBLISH needs beside its payload, at most: topic, content type, tags, numbers.
const ENVELOPE_BYTES: u32 = 8 << 10;

/// Connections by bytes that they keep, the smallest first.
type BySize = BTreeSet<(u64, u32)>;

/// All connections with unfinished input.
#[derive(Default, Hand)]
pub(crate) struct Kept {
    /// By the connections' indexes.
    holdings: BTreeMap<u32, Holding>,
    entitled: BySize,
    unentitled: BySize,
    bytes: u64,
    unentitled_bytes: u64,
}

/// What one connection keeps.
#[derive(Clone, Copy, Hand)]
struct Holding {
    bytes: u64,
    is_unentitled: bool,
    /// Seconds of the monotonic clock: since then it is to go on.
    since_s: u32,
    /// Bytes that have come since then.
    come_bytes: u64,
}

/// What a read, or going on with what was kept, has brought.
#[derive(Clone, Copy, Default)]
pub(super) struct Came {
    pub bytes: usize,
    /// A whole frame, message or request: what is kept now has begun after it.
    pub is_whole: bool,
}

impl Kept {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.holdings.is_empty()
    }

    pub fn memory_bytes(&self) -> usize {
        let count = self.holdings.len();
        tree_bytes(count, size_of::<(u32, Holding)>()) + tree_bytes(count, size_of::<(u64, u32)>())
    }

    fn insert(&mut self, index: ConnIndex, holding: Holding) {
        self.remove(index);
        self.bytes += holding.bytes;
        if holding.is_unentitled {
            self.unentitled_bytes += holding.bytes;
        }
        self.by_size(holding).insert((holding.bytes, index));
        self.holdings.insert(index, holding);
    }

    fn remove(&mut self, index: ConnIndex) {
        let Some(holding) = self.holdings.remove(&index) else {
            return;
        };
        self.bytes -= holding.bytes;
        if holding.is_unentitled {
            self.unentitled_bytes -= holding.bytes;
        }
        self.by_size(holding).remove(&(holding.bytes, index));
    }

    fn by_size(&mut self, holding: Holding) -> &mut BySize {
        match holding.is_unentitled {
            true => &mut self.unentitled,
            false => &mut self.entitled,
        }
    }

    /// The connection that ends first where all together keep more than `bytes_max`.
    fn first_to_end(&self, bytes_max: u64) -> Option<u32> {
        let unentitled = self.unentitled.last();
        let largest = match self.unentitled_bytes > bytes_max / UNENTITLED_PART {
            true => unentitled,
            false => self.entitled.last().max(unentitled),
        };
        largest.map(|(_, index)| *index)
    }
}

impl Edge {
    /// Counts what a connection keeps now, and ends the largest holders while all together keep too
    /// much.
    #[inline]
    pub(super) fn count_input(&mut self, index: ConnIndex, came: Came) {
        let slot = &self.connections.slots[index];
        if slot.is(flag::KEEPS) || slot.input != NONE || slot.state != NONE {
            self.count_kept_input(index, came);
        }
    }

    /// The same where nothing has come: a state has changed, or whose connection it is.
    pub(crate) fn count_kept(&mut self, index: ConnIndex) {
        self.count_input(index, Came::default());
    }

    fn count_kept_input(&mut self, index: ConnIndex, came: Came) {
        let Some(bytes) = self.kept_bytes_of(index) else {
            return self.forget_kept(index);
        };
        let is_unentitled = self.is_anonymous(index);
        let now_s = self.now_s();
        let holding = match self.connections.kept.holdings.get(&index) {
            Some(holding) if !came.is_whole => Holding {
                bytes,
                is_unentitled,
                come_bytes: holding.come_bytes + came.bytes as u64,
                ..*holding
            },
            _ => Holding { bytes, is_unentitled, since_s: now_s, come_bytes: 0 },
        };
        self.connections.slots[index].set(flag::KEEPS);
        self.connections.kept.insert(index, holding);
        let bytes_max = self.settings.limits.pinned_bytes_max;
        while self.connections.kept.bytes > bytes_max
            && let Some(largest) = self.connections.kept.first_to_end(bytes_max)
        {
            self.statistics.input_closed +=
                u64::from(!self.connections.slots[largest].is(flag::DEAD));
            self.note_end(largest, End::UNFINISHED_INPUT);
            self.kill(largest);
            self.drop_kept(largest);
        }
    }

    /// Bytes of buffers with unfinished frames, messages, heads and bodies of a connection; none if
    /// it has no such thing.
    fn kept_bytes_of(&self, index: ConnIndex) -> Option<u64> {
        let slot = &self.connections.slots[index];
        if slot.is(flag::DEAD) {
            return None;
        }
        let of_input = self.connections.inputs.get(slot.input);
        let of_input = of_input.map(|input| input.bytes.capacity());
        let of_state = self.sessions.states.get(slot.state);
        let of_state = of_state.and_then(|state| state.kept_bytes());
        of_input
            .into_iter()
            .chain(of_state)
            .reduce(|one, other| one + other)
            .map(|bytes| bytes as u64)
    }

    /// Nothing of the connection is unfinished any more.
    pub(super) fn forget_kept(&mut self, index: ConnIndex) {
        if self.connections.slots[index].is(flag::KEEPS) {
            self.connections.slots[index].clear(flag::KEEPS);
            self.connections.kept.remove(index);
        }
    }

    /// Gives back what a connection keeps that ends with this turn.
    fn drop_kept(&mut self, index: ConnIndex) {
        self.forget_kept(index);
        let input = std::mem::replace(&mut self.connections.slots[index].input, NONE);
        self.connections.inputs.remove(input);
        let state = self.sessions.states.get(self.connections.slots[index].state);
        if state.is_some_and(|state| state.is_open_unit()) {
            self.take_state(index);
        }
    }

    /// Whether a buffer should be no larger than it has to be.
    pub(super) fn is_short_of_input(&self) -> bool {
        self.connections.kept.bytes > self.settings.limits.pinned_bytes_max / 2
    }

    /// Whether a node that asks for tokens has not accepted one from this client, so far.
    pub(crate) fn is_anonymous(&self, index: ConnIndex) -> bool {
        self.settings.entitlement.is_some() && self.connections.slots[index].entitlement == NONE
    }

    /// The longest message or body that a connection may send where others may send this much: less
    /// before HELLO, and without an accepted credential.
    pub(crate) fn input_bytes_max(&self, index: ConnIndex, bytes_max: u32) -> u32 {
        match self.connections.slots[index].protocol == Protocol::NativeStart
            || self.is_anonymous(index)
        {
            true => bytes_max.min(self.settings.limits.anonymous_input_bytes_max),
            false => bytes_max,
        }
    }

    /// The longest payload that a connection may publish, in bytes. Frames of a client without a
    /// credential have room for topic and tags beside it; a body over HTTP is the payload.
    pub(crate) fn payload_bytes_max(&self, index: ConnIndex) -> u32 {
        let payload_bytes_max = self.settings.limits.message_bytes_max;
        match self.is_anonymous(index) && self.connections.slots[index].protocol != Protocol::Http {
            true => payload_bytes_max
                .min(self.settings.limits.anonymous_input_bytes_max.saturating_sub(ENVELOPE_BYTES)),
            false => payload_bytes_max,
        }
    }

    /// Looks at a connection with unfinished input. True: it has not gone on and is ended.
    pub(super) fn sweep_kept(&mut self, index: ConnIndex) -> bool {
        let now_s = self.now_s();
        let timeout_ms = u64::from(self.settings.limits.unfinished_input_timeout_ms);
        let Some(holding) = self.connections.kept.holdings.get_mut(&index) else {
            return false;
        };
        let slot = &self.connections.slots[index];
        let is_ours = slot.is(flag::PAUSED | flag::RESUMED | flag::CHOKED | flag::HELD);
        let is_over = u64::from(now_s.saturating_sub(holding.since_s)) * 1_000 >= timeout_ms;
        if !is_ours && !is_over {
            return false;
        }
        let goes_on = holding.come_bytes * 1_000 >= PROGRESS_BYTES_S * timeout_ms;
        holding.since_s = now_s;
        holding.come_bytes = 0;
        // Where it is not read, it cannot go on.
        if is_ours || goes_on {
            return false;
        }
        self.statistics.input_timeouts += 1;
        match self.connections.slots[index].protocol {
            Protocol::Http => self.handshake_timed_out(index),
            _ if self.connections.slots[index].is(flag::BLOCKED) => {
                self.note_end(index, End::of_node(CloseCode::InputTimeout.number()));
                self.kill(index);
            }
            _ => self.close_native(index, CloseCode::InputTimeout),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 800;

    /// Which connections end while more than [`MAX`] is kept. `all`: bytes and whether entitled, by
    /// index.
    fn ended(all: &[(u64, bool)]) -> Vec<u32> {
        let mut kept = Kept::default();
        for (index, &(bytes, is_entitled)) in (0..).zip(all) {
            kept.insert(
                index,
                Holding { bytes, is_unentitled: !is_entitled, since_s: 0, come_bytes: 0 },
            );
        }
        let mut ended = Vec::new();
        while kept.bytes > MAX
            && let Some(index) = kept.first_to_end(MAX)
        {
            kept.remove(index);
            ended.push(index);
        }
        let left = all.iter().zip(0..).filter(|(_, at)| !ended.contains(at));
        assert_eq!(left.map(|((bytes, _), _)| bytes).sum::<u64>(), kept.bytes);
        ended
    }

    #[test]
    fn the_largest_ends_first() {
        assert!(ended(&[(400, true), (400, true)]).is_empty());
        assert_eq!(ended(&[(300, true), (400, true), (200, true)]), [1]);
        assert_eq!(ended(&[(500, true), (400, true), (900, true)]), [2, 0]);
    }

    #[test]
    fn who_has_no_credential_ends_first_beyond_an_eighth() {
        assert_eq!(
            ended(&[(700, true), (50, false), (60, false)]),
            [2],
            "together more than an eighth"
        );
        assert_eq!(
            ended(&[(700, true), (400, true), (60, false)]),
            [0],
            "a newcomer among those who hoard with tokens"
        );
        assert_eq!(ended(&[(10, true), (500, false), (400, false)]), [1], "the largest of them");
    }

    #[test]
    fn a_holding_that_changes_is_counted_once() {
        let mut kept = Kept::default();
        for (bytes, is_unentitled) in [(5, true), (9, true), (7, false)] {
            kept.insert(3, Holding { bytes, is_unentitled, since_s: 0, come_bytes: 0 });
        }
        assert_eq!((kept.bytes, kept.unentitled_bytes), (7, 0));
        assert!(kept.unentitled.is_empty() && kept.entitled.len() == 1);
        kept.remove(3);
        assert!(kept.is_empty() && kept.entitled.is_empty() && kept.bytes == 0);
    }
}
