//! Unfinished input of all connections: the bytes that each of them buffers, its progress, and the
//! order in which connections are closed.
//!
//! A connection whose last read ended with a whole frame or request is not in here. Invariants: all
//! connections together buffer at most `pinned_bytes_max`; buffers count with their capacity. Above
//! the bound the largest ends, never a smaller one that happened to grow. Connections without an
//! accepted credential, on a node that asks for tokens, have an eighth of the bound for themselves;
//! as soon as they buffer more than that together, the largest of them ends first. (A client whose
//! token is still being authenticated is one of them: below that eighth size alone decides, or
//! clients that hoard with tokens would push out those that arrive.) A buffer has to grow by
//! [`PROGRESS_BYTES_S`] while it stands, or to become complete.

use crate::ids::ConnIndex;
use std::collections::{BTreeMap, BTreeSet};
use stdx::handing::Hand;
use stdx::memory::tree_bytes;

/// Minimum growth of unfinished input in bytes per second of `unfinished_input_timeout_ms`.
const PROGRESS_BYTES_S: u64 = 1 << 10;
/// The part of `pinned_bytes_max` that clients without a credential buffer before they end first.
const UNENTITLED_PART: u64 = 8;

/// Connections by bytes that they buffer, the smallest first.
type BySize = BTreeSet<(u64, ConnIndex)>;

/// All connections with unfinished input.
#[derive(Default, Hand)]
pub(crate) struct Buffered {
    holdings: BTreeMap<ConnIndex, Holding>,
    entitled: BySize,
    unentitled: BySize,
    bytes: u64,
    unentitled_bytes: u64,
}

/// The unfinished input of one connection.
#[derive(Clone, Copy, Hand)]
struct Holding {
    bytes: u64,
    is_unentitled: bool,
    /// The time since which it is to continue, in seconds of the monotonic clock.
    since_s: u32,
    /// Bytes that have come since then.
    come_bytes: u64,
}

/// The result of a read, or of handling buffered input.
#[derive(Clone, Copy, Default)]
pub(crate) struct Came {
    pub bytes: usize,
    /// A whole frame, message or request came: the unfinished input has begun after it.
    pub is_whole: bool,
}

impl Buffered {
    /// Counts this number of bytes of unfinished input of a connection, after `came`.
    pub fn hold(
        &mut self,
        index: ConnIndex,
        bytes: u64,
        is_unentitled: bool,
        came: Came,
        now_s: u32,
    ) {
        let holding = match self.holdings.get(&index) {
            Some(holding) if !came.is_whole => Holding {
                bytes,
                is_unentitled,
                come_bytes: holding.come_bytes + came.bytes as u64,
                ..*holding
            },
            _ => Holding { bytes, is_unentitled, since_s: now_s, come_bytes: 0 },
        };
        self.insert(index, holding);
    }

    /// The connection has no unfinished input any more.
    pub fn release(&mut self, index: ConnIndex) {
        let Some(holding) = self.holdings.remove(&index) else {
            return;
        };
        self.bytes -= holding.bytes;
        if holding.is_unentitled {
            self.unentitled_bytes -= holding.bytes;
        }
        self.by_size(holding).remove(&(holding.bytes, index));
    }

    /// The connection that ends first, if all together buffer more than `bytes_max`.
    pub fn first_to_end(&self, bytes_max: u64) -> Option<ConnIndex> {
        if self.bytes <= bytes_max {
            return None;
        }
        let unentitled = self.unentitled.last();
        let largest = if self.unentitled_bytes > bytes_max / UNENTITLED_PART {
            unentitled
        } else {
            self.entitled.last().max(unentitled)
        };
        largest.map(|(_, index)| *index)
    }

    /// Whether the unfinished input of a connection stands still. `is_read`: it could continue.
    pub fn stands_still(
        &mut self,
        index: ConnIndex,
        is_read: bool,
        now_s: u32,
        timeout_ms: u64,
    ) -> bool {
        let Some(holding) = self.holdings.get_mut(&index) else {
            return false;
        };
        let is_over = u64::from(now_s.saturating_sub(holding.since_s)) * 1_000 >= timeout_ms;
        if is_read && !is_over {
            return false;
        }
        let goes_on = holding.come_bytes * 1_000 >= PROGRESS_BYTES_S * timeout_ms;
        holding.since_s = now_s;
        holding.come_bytes = 0;
        is_read && !goes_on
    }

    /// Bytes that all connections buffer.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether no connection has unfinished input.
    pub fn is_empty(&self) -> bool {
        self.holdings.is_empty()
    }

    /// Bytes of the tables, about.
    pub fn memory_bytes(&self) -> usize {
        let count = self.holdings.len();
        tree_bytes(count, size_of::<(ConnIndex, Holding)>())
            + tree_bytes(count, size_of::<(u64, ConnIndex)>())
    }

    fn insert(&mut self, index: ConnIndex, holding: Holding) {
        self.release(index);
        self.bytes += holding.bytes;
        if holding.is_unentitled {
            self.unentitled_bytes += holding.bytes;
        }
        self.by_size(holding).insert((holding.bytes, index));
        self.holdings.insert(index, holding);
    }

    fn by_size(&mut self, holding: Holding) -> &mut BySize {
        if holding.is_unentitled { &mut self.unentitled } else { &mut self.entitled }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 800;

    /// The connections that end while more than [`MAX`] is buffered. `all`: bytes and whether
    /// entitled, by index.
    fn ended(all: &[(u64, bool)]) -> Vec<u32> {
        let mut buffered = Buffered::default();
        for (index, &(bytes, is_entitled)) in (0..).zip(all) {
            buffered.insert(
                ConnIndex(index),
                Holding { bytes, is_unentitled: !is_entitled, since_s: 0, come_bytes: 0 },
            );
        }
        let mut ended = Vec::new();
        while let Some(index) = buffered.first_to_end(MAX) {
            buffered.release(index);
            ended.push(index.0);
        }
        let left = all.iter().zip(0..).filter(|(_, at)| !ended.contains(at));
        assert_eq!(left.map(|((bytes, _), _)| bytes).sum::<u64>(), buffered.bytes);
        ended
    }

    #[test]
    fn the_largest_ends_first() {
        assert!(ended(&[(400, true), (400, true)]).is_empty());
        assert_eq!(ended(&[(300, true), (400, true), (200, true)]), [1]);
        assert_eq!(ended(&[(500, true), (400, true), (900, true)]), [2, 0]);
    }

    #[test]
    fn connections_without_a_credential_end_first_beyond_an_eighth() {
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
        let mut buffered = Buffered::default();
        for (bytes, is_unentitled) in [(5, true), (9, true), (7, false)] {
            buffered
                .insert(ConnIndex(3), Holding { bytes, is_unentitled, since_s: 0, come_bytes: 0 });
        }
        assert_eq!((buffered.bytes, buffered.unentitled_bytes), (7, 0));
        assert!(buffered.unentitled.is_empty() && buffered.entitled.len() == 1);
        buffered.release(ConnIndex(3));
        assert!(buffered.is_empty() && buffered.entitled.is_empty() && buffered.bytes == 0);
    }
}
