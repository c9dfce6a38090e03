//! One life of an engine's partition, from the creation of its topic on: a tree of all entries that
//! any leader ever took, with the log of each lineage.
//!
//! The tree outlives truncation. So the oracle finds the entry of every position, lost or not, and
//! whether one position lies on the way to another.

use super::verdict::{Verdict, Window};
use broker::engine::{Restored, RunName};
use broker::mail::Publication;
use std::collections::BTreeMap;

/// Identifies an entry within its life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct EntryId(u32);

/// The content of an offset.
#[derive(Clone, Debug)]
pub enum Content {
    /// A record of a topic.
    Record {
        /// The name that a home gave it.
        name: Option<RunName>,
        /// The message.
        publication: Box<Publication>,
    },
    /// A retained message once more: no message, and nodes read it.
    Restored {
        /// The name that a home gave it.
        name: RunName,
        /// The retained message, or its removal.
        publication: Box<Publication>,
        /// Its origin.
        restored: Restored,
    },
    /// A node's record of its groups: no message, and nodes read it.
    Register {
        /// The name that a home gave it.
        name: RunName,
        /// The record.
        publication: Box<Publication>,
    },
    /// No record of a topic: a marker, or an unroutable record.
    Hole,
}

/// One offset of a log.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The offset, from 1.
    pub offset: u64,
    /// The lineage whose leader took it.
    pub lineage: u32,
    /// The leader's time.
    pub time_ms: u64,
    /// The content.
    pub content: Content,
    /// The verdict that every node must reach.
    pub verdict: Verdict,
    /// It belongs to a transaction that was aborted: a hole.
    pub is_aborted: bool,
    /// It was once committed, so tails may have read it.
    pub was_committed: bool,
    /// Compaction has removed it.
    pub is_compacted: bool,
}

impl Entry {
    /// The record, unless it is a hole.
    pub fn record(&self) -> Option<(Option<RunName>, &Publication)> {
        match &self.content {
            Content::Record { name, publication } if !self.is_aborted => Some((*name, publication)),
            _ => None,
        }
    }

    /// The name, the content and the origin of a record that nodes read, unless it is a hole.
    pub fn read(&self) -> Option<(Option<RunName>, &Publication, Option<Restored>)> {
        match &self.content {
            Content::Restored { name, publication, restored } => {
                Some((Some(*name), publication, Some(*restored)))
            }
            Content::Register { name, publication } => Some((Some(*name), publication, None)),
            Content::Record { .. } | Content::Hole => {
                self.record().map(|(name, publication)| (name, publication, None))
            }
        }
    }

    /// Whether it is a node's record of its groups.
    pub fn is_register(&self) -> bool {
        matches!(self.content, Content::Register { .. })
    }

    /// The message that subscribers of its topic receive, if they receive one.
    pub fn delivered(&self) -> Option<&Publication> {
        self.record().filter(|_| self.verdict == Verdict::New).map(|(_, publication)| publication)
    }
}

/// One log: the entries by offset minus one.
pub type Path = Vec<EntryId>;

/// A life; see the module.
#[derive(Default)]
pub struct Life {
    /// The engine's identity of the topic.
    pub topic_id: u32,
    entries: Vec<Entry>,
    /// The log of each lineage: of its leader while it leads, and as it was at its end.
    lineages: BTreeMap<u32, Path>,
}

impl Life {
    /// Creates an empty life.
    pub fn new(topic_id: u32) -> Life {
        Life { topic_id, ..Life::default() }
    }

    /// The entry.
    pub fn entry(&self, id: EntryId) -> &Entry {
        &self.entries[id.0 as usize]
    }

    /// Begins a lineage, whose leader has this log.
    pub fn begin(&mut self, lineage: u32, path: Path) {
        self.lineages.insert(lineage, path);
    }

    /// The present lineage.
    pub fn present(&self) -> u32 {
        self.lineages.last_key_value().map_or(0, |(lineage, _)| *lineage)
    }

    /// The log of the present lineage.
    pub fn path(&self) -> &Path {
        const EMPTY: &Path = &Path::new();
        self.lineages.last_key_value().map_or(EMPTY, |(_, path)| path)
    }

    /// Appends to the present lineage. `window` has its log; the verdict follows from it.
    pub fn append(&mut self, content: Content, time_ms: u64, window: &mut Window) -> EntryId {
        let id = EntryId(self.entries.len() as u32);
        let lineage = self.present();
        let path = self.lineages.entry(lineage).or_default();
        path.push(id);
        let offset = path.len() as u64;
        let mut entry = Entry {
            offset,
            lineage,
            time_ms,
            content,
            verdict: Verdict::New,
            is_aborted: false,
            was_committed: false,
            is_compacted: false,
        };
        entry.verdict = window.judge(&entry);
        self.entries.push(entry);
        id
    }

    /// Everything up to this offset of the present log is committed; `from` was before.
    pub fn commit(&mut self, from: u64, through: u64) {
        let path = self.lineages.last_key_value().map(|(_, path)| path);
        for id in path.into_iter().flatten().take(through as usize).skip(from as usize) {
            self.entries[id.0 as usize].was_committed = true;
        }
    }

    /// All entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether the log of a lineage has an entry.
    pub fn is_on_path(&self, id: EntryId, lineage: u32) -> bool {
        self.resolve(lineage, self.entry(id).offset) == Some(id)
    }

    /// Compacts a part of the present log: everything up to an offset but the newest of each topic.
    pub fn compact(&mut self, through: u64) {
        let mut newest: BTreeMap<Vec<u8>, EntryId> = BTreeMap::new();
        let path: Vec<EntryId> = self.path().iter().take(through as usize).copied().collect();
        for id in path {
            let topic = self.entry(id).read().map(|(_, publication, _)| publication.topic.to_vec());
            if let Some(before) = topic.and_then(|topic| newest.insert(topic, id)) {
                self.entries[before.0 as usize].is_compacted = true;
            }
        }
    }

    /// Makes an entry a hole, because its transaction is aborted.
    pub fn abort(&mut self, id: EntryId) {
        self.entries[id.0 as usize].is_aborted = true;
    }

    /// Another verdict on an entry, because one before it is a hole now.
    pub fn set_verdict(&mut self, id: EntryId, verdict: Verdict) {
        self.entries[id.0 as usize].verdict = verdict;
    }

    /// The entry at a position: that of the lineage's log. None if that never had the offset.
    pub fn resolve(&self, lineage: u32, offset: u64) -> Option<EntryId> {
        let place = usize::try_from(offset.checked_sub(1)?).ok()?;
        self.lineages.get(&lineage)?.get(place).copied()
    }

    /// The lineage whose log a position means: its own, or a later one that has only holes behind
    /// that. A node learns a lineage from a record, and passes holes before.
    pub fn lineage_at(&self, lineage: u32, offset: u64) -> Option<u32> {
        let len = usize::try_from(offset).ok()?;
        let is_known = |id: &EntryId| {
            let entry = self.entry(*id);
            entry.lineage <= lineage || entry.read().is_none()
        };
        let mut later = self.lineages.range(lineage..);
        let found = later.find(|(_, path)| {
            path.get(..len).is_some_and(|before| before.iter().rev().all(is_known))
        });
        found.map(|(lineage, _)| *lineage)
    }

    /// Whether nodes forget the names of the first record before they judge a later one of the same
    /// log. A node forgets a record once another one, up to the later one, is younger by a whole
    /// window. Brokers' clocks differ, so a record counts as old as the oldest record behind it.
    pub fn is_forgotten(&self, lineage: u32, (first, later): (u64, u64), window_s: u64) -> bool {
        let path = self.lineages.get(&lineage);
        let between = path.and_then(|path| path.get(first as usize - 1..later as usize));
        let entries = between.into_iter().flatten().map(|id| self.entry(*id));
        let records = entries.filter(|entry| entry.record().is_some());
        let mut oldest_s = u64::MAX;
        records.map(|entry| entry.time_ms / 1_000).any(|second| {
            oldest_s = oldest_s.min(second);
            oldest_s + window_s <= second
        })
    }

    /// The log of a lineage, if there was one.
    pub fn path_of(&self, lineage: u32) -> Option<&Path> {
        self.lineages.get(&lineage)
    }

    /// Whether the log of `to` continues the log of `from` behind `offset`.
    pub fn continues(&self, from: u32, offset: u64, to: u32) -> bool {
        let both = self.lineages.get(&from).zip(self.lineages.get(&to));
        both.is_some_and(|(from, to)| {
            let len = usize::try_from(offset).unwrap_or(usize::MAX);
            from.len() >= len && from.get(..len) == to.get(..len)
        })
    }

    /// The lineage that a partition knows when it begins behind an offset: that of the next record
    /// if it follows at once, else that of the newest record before. 0 if there is none.
    pub fn lineage_behind(&self, after: u64) -> u32 {
        let entries = self.path().iter().map(|id| self.entry(*id)).take(after as usize + 1);
        let lineages = entries.filter(|entry| entry.read().is_some()).map(|entry| entry.lineage);
        lineages.max().unwrap_or(0)
    }

    /// The lineages of the present log's records, each with the offset of its first record.
    pub fn lineages_of_records(&self) -> Vec<(u32, u64)> {
        let entries = self.path().iter().map(|id| self.entry(*id));
        let records = entries.filter(|entry| entry.read().is_some());
        let mut lineages: Vec<(u32, u64)> =
            records.map(|entry| (entry.lineage, entry.offset)).collect();
        lineages.dedup_by_key(|(lineage, _)| *lineage);
        lineages
    }

    /// Whether all committed records of a lineage are lost, and there were some.
    pub fn has_lost_all_of(&self, lineage: u32) -> bool {
        let is_of_it = |entry: &Entry| entry.lineage == lineage && entry.read().is_some();
        let was_there = |entry: &Entry| is_of_it(entry) && entry.was_committed;
        self.entries.iter().any(was_there)
            && !self.path().iter().any(|id| is_of_it(self.entry(*id)))
    }
}
