//! State of an edge for MQTT beside the sessions: the progress of each stream, and wills that wait.
//!
//! The streams' places make the cursor of a session that sleeps: everything up to there was
//! delivered to its connection, or was nothing for it; everything behind was not. Messages of a
//! partition come in the order of their offsets, so one number for each partition says it exactly.

use crate::ids::{HomeId, PartitionId};
use crate::mail::Will;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stdx::handing::Hand;
use stdx::key::Key;
use stdx::memory::{tree_bytes, vector_bytes};

/// See the module.
#[derive(Default, Hand)]
pub(crate) struct MqttState {
    /// The offset through which the stream of each partition is complete at this edge.
    through: Vec<u64>,
    /// Wills that wait, by the time at which they are due, in milliseconds of the monotonic clock,
    /// and their connections, which have ended.
    wills: BTreeMap<(u64, Key), Will>,
    /// Homes where sessions sleep.
    sleepers: BTreeSet<HomeId>,
    /// The number of the newest member of a group.
    members: u64,
    /// Connections whose session the log has refused, by the time at which it follows again.
    refused_records: VecDeque<(u64, Key)>,
    /// Connections that lose their names soon, in the order of their letters.
    takeovers: Vec<Takeover>,
}

/// Another connection takes a name. The loser leaves after a turn in which the edge has read it:
/// a client that disconnects and connects at once has sent DISCONNECT before CONNECT, but the two
/// may come to different threads.
#[derive(Hand)]
struct Takeover {
    connection: Key,
    is_clean: bool,
    turns: u8,
}

/// A letter may come after the poll of its turn, so that only the next turn surely reads.
const TAKEOVER_TURNS: u8 = 2;

impl MqttState {
    /// The stream of a partition has come to this offset.
    #[inline]
    pub fn advance(&mut self, partition: PartitionId, offset: u64) {
        let at = partition.0 as usize;
        if at >= self.through.len() {
            self.through.resize(at + 1, 0);
        }
        let through = &mut self.through[at];
        *through = (*through).max(offset);
    }

    /// A partition has begun anew.
    pub fn restart(&mut self, partition: PartitionId) {
        if let Some(through) = self.through.get_mut(partition.0 as usize) {
            *through = 0;
        }
    }

    /// The offset that the stream of a partition has come to.
    pub fn through(&self, partition: PartitionId) -> u64 {
        self.through.get(partition.0 as usize).copied().unwrap_or(0)
    }

    /// Sessions sleep at a home, or none does any more.
    pub fn note_sleepers(&mut self, home: HomeId, do_sleep: bool) {
        if do_sleep {
            self.sleepers.insert(home);
        } else {
            self.sleepers.remove(&home);
        }
    }

    /// Whether sessions sleep at this node.
    pub fn has_sleepers(&self) -> bool {
        !self.sleepers.is_empty()
    }

    /// A connection loses its name in a turn to come.
    pub fn put_takeover(&mut self, connection: Key, is_clean: bool) {
        self.takeovers.push(Takeover { connection, is_clean, turns: TAKEOVER_TURNS });
    }

    /// Whether connections lose their names in a turn to come.
    pub fn has_takeovers(&self) -> bool {
        !self.takeovers.is_empty()
    }

    /// A turn begins: takes the connections that lose their names now, and whether the session of
    /// each ends.
    pub fn take_takeovers(&mut self) -> Vec<(Key, bool)> {
        for takeover in &mut self.takeovers {
            takeover.turns -= 1;
        }
        let due = self.takeovers.extract_if(.., |takeover| takeover.turns == 0);
        due.map(|takeover| (takeover.connection, takeover.is_clean)).collect()
    }

    /// A will waits until this time.
    pub fn put_will(&mut self, due_ms: u64, connection: Key, will: Will) {
        self.wills.insert((due_ms, connection), will);
    }

    /// Takes the will of a connection that has ended.
    pub fn take_will(&mut self, connection: Key) -> Option<Will> {
        let at = *self.wills.keys().find(|(_, of)| *of == connection)?;
        self.wills.remove(&at)
    }

    /// Takes the next will that is due.
    pub fn next_will(&mut self, now_ms: u64) -> Option<Will> {
        let (due_ms, _) = *self.wills.first_key_value()?.0;
        if due_ms > now_ms {
            return None;
        }
        self.wills.pop_first().map(|(_, will)| will)
    }

    /// A number for another member of a group.
    pub fn next_member(&mut self) -> u64 {
        self.members += 1;
        self.members
    }

    /// The record of a session follows again at this time, in milliseconds of the monotonic clock.
    pub fn put_refused_record(&mut self, due_ms: u64, connection: Key) {
        self.refused_records.push_back((due_ms, connection));
    }

    /// Takes the next connection whose record follows again now.
    pub fn next_refused_record(&mut self, now_ms: u64) -> Option<Key> {
        let (due_ms, connection) = *self.refused_records.front()?;
        if due_ms > now_ms {
            return None;
        }
        self.refused_records.pop_front();
        Some(connection)
    }

    /// The time of the next will or record; milliseconds of the monotonic clock.
    pub fn next_due_ms(&self) -> Option<u64> {
        let will = self.wills.first_key_value().map(|((due_ms, _), _)| *due_ms);
        let record = self.refused_records.front().map(|(due_ms, _)| *due_ms);
        will.into_iter().chain(record).min()
    }

    /// About how many bytes it takes.
    pub fn memory_bytes(&self) -> usize {
        let wills: usize = self.wills.values().map(Will::memory_bytes).sum();
        vector_bytes::<u64>(self.through.capacity())
            + vector_bytes::<(u64, Key)>(self.refused_records.capacity())
            + vector_bytes::<Takeover>(self.takeovers.capacity())
            + tree_bytes(self.wills.len(), size_of::<((u64, Key), Will)>())
            + wills
    }
}
