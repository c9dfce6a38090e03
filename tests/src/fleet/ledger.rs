//! All messages that the logs of a node have had, read from its files, independently of every
//! client.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::fleet::node::{KEPT, KEPT_PARTITIONS, SHORT};
use crate::fleet::record::Place;

/// A partition, as clients number it: those of the second log come behind those of the first.
pub type Partition = u64;

/// A message of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The topic.
    pub topic: String,
    /// The payload.
    pub data: String,
}

/// The messages by partition and offset. No offset is used twice, also after a restore.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    entries: BTreeMap<Partition, BTreeMap<u64, Entry>>,
    partitions: BTreeMap<String, u64>,
    /// Messages that a restore has removed.
    lost: BTreeSet<(Partition, u64)>,
    /// Messages of the final log.
    last: BTreeSet<(Partition, u64)>,
    /// Confirmed to the harness itself.
    confirmed: Vec<(String, Place, String)>,
    /// Contradictions to the promises of a log.
    pub faults: Vec<String>,
}

impl Ledger {
    /// Adds the records of a log.
    pub fn add(&mut self, log: &str, records: &[Value]) {
        for (partition, offset, entry) in parsed(log, records) {
            self.partitions.insert(entry.topic.clone(), partition);
            let entries = self.entries.entry(partition).or_default();
            let known = entries.entry(offset).or_insert_with(|| entry.clone());
            if *known != entry {
                self.faults.push(format!("offset {offset} has been {known:?}, and is {entry:?}"));
            }
        }
    }

    /// Adds a publication of the harness.
    pub fn add_confirmed(&mut self, topic: &str, at: Place, data: &str) {
        self.confirmed.push((topic.to_owned(), at, data.to_owned()));
    }

    /// The log has only these records now.
    pub fn restored(&mut self, log: &str, records: &[Value]) {
        let kept = keys(log, records);
        let is_of_log = |partition: &Partition| (*partition < KEPT_PARTITIONS) == (log == KEPT);
        let all = self.entries.iter().filter(|(partition, _)| is_of_log(partition));
        let all = all.flat_map(|(at, entries)| entries.keys().map(move |offset| (*at, *offset)));
        let lost: Vec<_> = all.filter(|key| !kept.contains(key)).collect();
        self.lost.extend(lost);
    }

    /// These are the final records of the log.
    pub fn finish(&mut self, log: &str, records: &[Value]) {
        self.add(log, records);
        self.last.extend(keys(log, records));
        for (topic, at, data) in std::mem::take(&mut self.confirmed) {
            self.add_dropped(&topic, at.offset, data);
        }
    }

    /// Adds a message that was acknowledged, and that the log may have dropped since.
    pub fn add_dropped(&mut self, topic: &str, offset: u64, data: String) {
        if let Some(partition) = self.partition(topic) {
            let entry = Entry { topic: topic.to_owned(), data };
            self.entries.entry(partition).or_default().entry(offset).or_insert(entry);
        }
    }

    /// Removes a message, as a log that loses it; false if there is none.
    pub fn forget(&mut self, topic: &str, offset: u64) -> bool {
        let Some(partition) = self.partition(topic) else { return false };
        self.last.remove(&(partition, offset));
        self.entries.get_mut(&partition).is_some_and(|all| all.remove(&offset).is_some())
    }

    /// Appends a message again, behind all others of its partition; false if there is none.
    pub fn repeat(&mut self, topic: &str, offset: u64) -> bool {
        let Some(partition) = self.partition(topic) else { return false };
        let Some(entry) = self.entry(partition, offset).cloned() else { return false };
        let Some(entries) = self.entries.get_mut(&partition) else { return false };
        let next = entries.last_key_value().map_or(1, |(last, _)| last + 1);
        entries.insert(next, entry);
        self.last.insert((partition, next))
    }

    /// The partition of a topic.
    pub fn partition(&self, topic: &str) -> Option<Partition> {
        self.partitions.get(topic).copied()
    }

    /// The message at an offset.
    pub fn entry(&self, partition: Partition, offset: u64) -> Option<&Entry> {
        self.entries.get(&partition)?.get(&offset)
    }

    /// All messages, by partition and offset.
    pub fn all(&self) -> impl Iterator<Item = (Partition, u64, &Entry)> {
        self.entries.iter().flat_map(|(partition, entries)| {
            entries.iter().map(|(offset, entry)| (*partition, *offset, entry))
        })
    }

    /// Whether a restore has removed the message.
    pub fn is_lost(&self, partition: Partition, offset: u64) -> bool {
        self.lost.contains(&(partition, offset))
    }

    /// Whether the final log has the message.
    pub fn is_last(&self, partition: Partition, offset: u64) -> bool {
        self.last.contains(&(partition, offset))
    }
}

/// The log that keeps a topic.
pub fn log_of(topic: &str) -> &'static str {
    if topic.starts_with("short/") { SHORT } else { KEPT }
}

fn keys(log: &str, records: &[Value]) -> BTreeSet<(Partition, u64)> {
    parsed(log, records).map(|(partition, offset, _)| (partition, offset)).collect()
}

fn parsed(log: &str, records: &[Value]) -> impl Iterator<Item = (Partition, u64, Entry)> {
    let first = if log == KEPT { 0 } else { KEPT_PARTITIONS };
    records.iter().filter_map(move |record| {
        let text = |name: &str| record[name].as_str().map(str::to_owned);
        let entry = Entry { topic: text("topic")?, data: text("data")? };
        Some((first + record["partition"].as_u64()?, record["offset"].as_u64()?, entry))
    })
}
