//! The names that nodes share, as a home has them: those of the log, and connections of its node.

use super::entry::{ClaimId, Entry};
use crate::mail::{EdgeId, SleepingSession};
use std::collections::{BTreeMap, BTreeSet};
use stdx::chunk::Slice;
use stdx::handing::Hand;
use stdx::key::Key;
use stdx::memory::tree_bytes;

/// The bytes of an entry beside its own.
const ENTRY_BYTES: usize = size_of::<(Box<[u8]>, Entry)>();

/// See the module.
#[derive(Debug, Default, Hand)]
pub(in crate::home) struct Shared {
    /// The names that the log has, each with the home's number of its partition.
    pub known: BTreeMap<Box<[u8]>, (u32, Entry)>,
    /// Connections of this node that have, had or want a shared name; by name, in the order in
    /// which they came.
    pub own: BTreeMap<Box<[u8]>, Vec<Own>>,
    /// The times at which names are looked at, in milliseconds of the home's clock.
    pub due: BTreeSet<(u64, Box<[u8]>)>,
    /// The ends of sleeping sessions, in milliseconds since 1970.
    pub expiring: BTreeSet<(u64, Box<[u8]>)>,
    /// Partitions whose tail has come to the head of their beginning.
    pub complete: BTreeSet<u32>,
    /// Bytes of names and sessions.
    bytes: usize,
    sleeping: u64,
    /// The number of the newest claim.
    pub claims: u64,
    /// The living nodes of the cluster, by name: the holders of all others have ended. None before
    /// the node's own report has come.
    pub living: Option<BTreeSet<Box<str>>>,
    /// Nodes that have lived, and do not.
    pub left: BTreeSet<Box<str>>,
}

/// A connection of this node.
#[derive(Debug, Hand)]
pub struct Own {
    pub id: ClaimId,
    pub edge: EdgeId,
    pub connection: Key,
    pub user: u64,
    pub phase: Phase,
}

#[derive(Debug, Hand)]
pub enum Phase {
    /// Its claim is on its way. The time is that of the home's clock at which it is refused.
    Claiming(u64),
    /// Its claim was refused, and its record may still come until this time.
    Void(u64),
    /// It waits for the last sessions of holders before. From this time on, it takes the name.
    Waiting(u64),
    /// It has the name, or has lost it and has not left.
    Held,
    /// It has the name, and the record of its claim was lost with a part of the log. The session is
    /// the newest that the log had.
    Lost(Option<Box<SleepingSession>>),
    /// It has left, and the record of that has not come.
    Leaving(LastSession),
    /// It has left, and its edge may have the will of its session.
    Asleep,
}

/// The last session of a connection that has left.
#[derive(Debug, Hand)]
pub struct LastSession {
    pub session: Option<Box<SleepingSession>>,
    /// It had lost the record of its claim, and takes the name again before it leaves.
    pub is_lost: bool,
    /// It is written again at this time of the home's clock, in milliseconds.
    pub again_ms: u64,
}

impl Shared {
    /// Sleeping sessions now, of all nodes.
    pub fn sleeping(&self) -> u64 {
        self.sleeping
    }

    /// About how many bytes names and sessions take.
    pub fn memory_bytes(&self) -> usize {
        self.bytes
            + self.known.len() * ENTRY_BYTES
            + tree_bytes(self.own.len(), size_of::<(Box<[u8]>, Vec<Own>)>() + size_of::<Own>())
            + tree_bytes(self.due.len(), size_of::<(u64, Box<[u8]>)>())
            + tree_bytes(self.expiring.len(), size_of::<(u64, Box<[u8]>)>())
    }

    /// Whether a node has left the cluster.
    pub fn is_gone(&self, node: &str) -> bool {
        self.living.as_ref().is_some_and(|living| !living.contains(node))
    }

    /// The next time at which a name is to be looked at; milliseconds of the home's clock.
    pub fn next_ms(&self) -> Option<u64> {
        self.due.first().map(|(due_ms, _)| *due_ms)
    }

    pub fn entry(&self, name: &[u8]) -> Option<&Entry> {
        self.known.get(name).map(|(_, entry)| entry)
    }

    pub fn take_entry(&mut self, name: &[u8]) -> Option<Entry> {
        let (_, entry) = self.known.remove(name)?;
        self.bytes -= bytes_of(name, &entry);
        self.sleeping -= u64::from(!entry.is_held);
        Some(entry)
    }

    pub fn put_entry(&mut self, name: &[u8], local: u32, entry: Entry) {
        self.bytes += bytes_of(name, &entry);
        self.sleeping += u64::from(!entry.is_held);
        self.known.insert(name.into(), (local, entry));
    }

    pub fn own(&self, name: &[u8], edge: EdgeId, connection: Key) -> Option<&Own> {
        let owns = self.own.get(name)?.iter();
        owns.rev().find(|own| own.edge == edge && own.connection == connection)
    }

    pub fn own_mut(&mut self, name: &[u8], id: ClaimId) -> Option<&mut Own> {
        self.own.get_mut(name)?.iter_mut().find(|own| own.id == id)
    }

    /// Removes the connections of a name for which nothing is to be done any more.
    pub fn keep_own(&mut self, name: &[u8], is_kept: impl Fn(&Own) -> bool) {
        if let Some(owns) = self.own.get_mut(name) {
            owns.retain(is_kept);
            if owns.is_empty() {
                self.own.remove(name);
            }
        }
    }

    pub fn next_due(&mut self, now_ms: u64) -> Option<Box<[u8]>> {
        self.due.first().filter(|(due_ms, _)| *due_ms <= now_ms)?;
        self.due.pop_first().map(|(_, name)| name)
    }

    pub fn next_ended(&mut self, now_ms: u64) -> Option<Box<[u8]>> {
        self.expiring.first().filter(|(ends_ms, _)| *ends_ms <= now_ms)?;
        self.expiring.pop_first().map(|(_, name)| name)
    }
}

/// The names of the groups that the session of a name is in.
pub fn groups_of(entry: &Entry) -> Vec<Slice> {
    let asleep = entry.session.iter().flat_map(|session| &session.subscriptions);
    asleep.filter_map(|subscription| subscription.group()).collect()
}

fn bytes_of(name: &[u8], entry: &Entry) -> usize {
    let session = entry.session.as_ref().map_or(0, |session| session.memory_bytes());
    name.len() + session + entry.node.len()
}
