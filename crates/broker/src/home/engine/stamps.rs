//! Stamps of producers' connections that are comparable over nodes.
//!
//! An edge stamps a connection by the clock of its process. In the engine's records the stamp is in
//! milliseconds since 1970, of the same moment; or one more than the greatest that the tail has of
//! this producer, if the connection began after this node has seen that: then it is newer, whatever
//! the nodes' clocks say. Otherwise the clocks may err by
//! [`CLOCKS_APART_MS`](crate::engine::CLOCKS_APART_MS): no verdict hangs on less. A connection
//! keeps its stamp, however the clock moves.

use super::super::dedup::Identity;
use super::Home;
use crate::mail::{Code, ProducerStamp};
use std::collections::BTreeMap;
use stdx::handing::Hand;
use stdx::memory::tree_bytes;

/// Producers of one partition in each of the two tables.
const STAMPS_MAX: usize = 4_096;

/// The newest connections of this node's producers. The tables take turns: a producer that has not
/// published since is forgotten.
#[derive(Debug, Default, Hand)]
pub(super) struct Stamps {
    new: BTreeMap<Identity, Stamp>,
    old: BTreeMap<Identity, Stamp>,
}

#[derive(Clone, Copy, Debug, Hand)]
struct Stamp {
    /// Milliseconds of the clock that the edges share.
    edge: u64,
    /// The stamp in the records.
    engine: u64,
}

impl Stamps {
    pub fn memory_bytes(&self) -> usize {
        tree_bytes(self.new.len() + self.old.len(), size_of::<(Identity, Stamp)>())
    }

    fn get(&self, producer: Identity) -> Option<Stamp> {
        self.new.get(&producer).or_else(|| self.old.get(&producer)).copied()
    }

    fn set(&mut self, producer: Identity, stamp: Stamp) {
        if self.new.len() >= STAMPS_MAX {
            self.old = std::mem::take(&mut self.new);
        }
        self.new.insert(producer, stamp);
    }
}

impl Home {
    /// The stamp in the record of a publication.
    pub(super) fn engine_stamp(
        &mut self,
        local: u32,
        producer: Identity,
        stamp: &ProducerStamp,
        now_ms: u64,
    ) -> Result<u64, Code> {
        let monotonic_ms = self.elapsed.monotonic_at(self.elapsed.ms);
        let began_ms = now_ms.saturating_sub(monotonic_ms.saturating_sub(stamp.connection));
        let engine = self.engine_of(local).ok_or(Code::Internal)?;
        let known = engine.stamps.get(producer);
        let own = match known {
            Some(known) if stamp.connection < known.edge => return Err(Code::ProducerFenced),
            Some(known) if stamp.connection == known.edge => known.engine,
            _ => {
                let newest = engine.once.newest_connection(&stamp.id);
                let seen = newest.filter(|(_, seen_ms)| *seen_ms <= stamp.connection);
                let above = seen.map(|(newest, _)| newest).max(known.map(|known| known.engine));
                began_ms.max(above.map_or(0, |above| above + 1))
            }
        };
        engine.stamps.set(producer, Stamp { edge: stamp.connection, engine: own });
        Ok(own)
    }
}
