//! Which connections publish as producers, and since when.
//!
//! A home lets the newest connection of a producer publish and fences the older ones. New is what got its stamp later,
//! on whichever edge of the process: stamps are milliseconds of the clock that all edges share, made unique.

use super::Edge;
use std::collections::BTreeMap;

/// Stamps of an edge; connections that do not publish as producers have none.
#[derive(Default)]
pub(super) struct ProducerStamps {
    connections: BTreeMap<u32, u64>,
    last_tick: u64,
}

/// Bits of the edge's number in a stamp.
const EDGE_BITS: u32 = 10;
/// Bits of a millisecond's ticks.
const TICK_BITS: u32 = 10;

impl Edge {
    /// The stamp of a connection, from its first publication as a producer on.
    pub(crate) fn producer_stamp(&mut self, index: u32) -> u64 {
        if let Some(stamp) = self.producers.connections.get(&index) {
            return *stamp;
        }
        let stamp = self.next_producer_stamp();
        self.producers.connections.insert(index, stamp);
        stamp
    }

    /// A stamp above all that this edge has given, and above those that others gave in earlier milliseconds.
    pub(crate) fn next_producer_stamp(&mut self) -> u64 {
        let now = self.now.monotonic_ms << TICK_BITS;
        let tick = now.max(self.producers.last_tick + 1);
        self.producers.last_tick = tick;
        tick << EDGE_BITS | u64::from(self.id) & ((1 << EDGE_BITS) - 1)
    }

    /// The connection has ended.
    pub(super) fn forget_producer(&mut self, index: u32) {
        self.producers.connections.remove(&index);
    }
}
