//! The window of remembered publications that a start reads from one log, for one home.
//!
//! Place: filled on the thread that starts the node, from the log's newest segment to its oldest,
//! and put into the home with [`Home::restore_windows`](super::Home::restore_windows).
//! [`super::dedup`] describes the window.
//!
//! Invariant: every producer that has a publication in the log is here with its last one,
//! regardless of the bounds; so no start lets a number come again. The other entries are those that
//! the bounds would have left in the window, and memory is bounded while the log is read: beyond
//! twice the bound, no entry is taken of producers that have been quiet for longer than others.

use crate::mail::PartitionId;
use crate::settings::Limits;
use std::collections::BTreeMap;

/// See the module.
#[derive(Debug)]
pub struct FoundWindow {
    /// In the order in which they were found: the one that has published last is the first.
    pub(super) producers: Vec<FoundProducer>,
    numbers: BTreeMap<PartitionId, BTreeMap<Box<[u8]>, u32>>,
    /// The number of producers that may still take older publications.
    open: usize,
    /// Publications of all producers.
    entries: usize,
    /// Newest first.
    pub(super) keys: Vec<FoundKey>,
    topics: BTreeMap<Box<[u8]>, u32>,
    producer_window_max: usize,
    entries_max: usize,
    keys_max: usize,
}

/// A producer in a partition.
#[derive(Debug)]
pub(super) struct FoundProducer {
    pub partition: PartitionId,
    pub id: Box<[u8]>,
    /// Time of its last publication; milliseconds since 1970.
    pub last_ms: u64,
    /// Newest first; sequences and offsets fall.
    pub publications: Vec<FoundSequence>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FoundSequence {
    pub sequence: u64,
    pub offset: u64,
    /// Number of its topic.
    pub topic: u32,
}

#[derive(Debug)]
pub(super) struct FoundKey {
    pub partition: PartitionId,
    pub key: Box<[u8]>,
    pub offset: u64,
    pub time_ms: u64,
    /// Number of its topic.
    pub topic: u32,
}

impl FoundWindow {
    /// Nothing is found yet.
    pub fn new(limits: &Limits) -> FoundWindow {
        FoundWindow {
            producers: Vec::new(),
            numbers: BTreeMap::new(),
            open: usize::MAX,
            entries: 0,
            keys: Vec::new(),
            topics: BTreeMap::new(),
            producer_window_max: limits.producer_window_max.max(1) as usize,
            entries_max: limits.producer_window_entries_max as usize,
            keys_max: limits.idempotency_keys_max as usize,
        }
    }

    /// The number of older publications of a producer that are wanted.
    pub fn publications_wanted(&self, partition: PartitionId, id: &[u8]) -> usize {
        let known = self.numbers.get(&partition).and_then(|ids| ids.get(id));
        let is_open = known.map_or(self.producers.len(), |number| *number as usize) < self.open;
        let present = known.map_or(0, |number| self.producers[*number as usize].publications.len());
        match (is_open, present) {
            (true, present) => self.producer_window_max - present.min(self.producer_window_max),
            (false, 0) => 1,
            (false, _) => 0,
        }
    }

    /// Whether older keys are wanted.
    pub fn wants_keys(&self) -> bool {
        self.keys.len() < self.keys_max
    }

    /// Takes publications of a producer in a segment, newest first: number, offset and topic.
    /// Producers of a segment come in the order in which they have published last, newest first.
    pub fn take_producer<'a>(
        &mut self,
        partition: PartitionId,
        id: &[u8],
        last_ms: u64,
        publications: impl Iterator<Item = (u64, u64, &'a [u8])>,
    ) {
        let wanted = self.publications_wanted(partition, id);
        let ids = self.numbers.entry(partition).or_default();
        let number = match ids.get(id) {
            Some(number) => *number as usize,
            None => {
                // Memory ends before the numbers do.
                ids.insert(id.into(), self.producers.len() as u32);
                self.producers.push(FoundProducer {
                    partition,
                    id: id.into(),
                    last_ms,
                    publications: Vec::new(),
                });
                self.producers.len() - 1
            }
        };
        for (sequence, offset, topic) in publications.take(wanted) {
            let topic = number_of(&mut self.topics, topic);
            let found = &mut self.producers[number].publications;
            // One that was forgotten and began anew: what it was before is over.
            if found
                .last()
                .is_some_and(|after| after.sequence <= sequence || after.offset <= offset)
            {
                break;
            }
            found.push(FoundSequence { sequence, offset, topic });
            self.entries += 1;
        }
        if self.entries > 2 * self.entries_max.max(self.producers.len()) {
            self.prune();
        }
    }

    /// Takes a publication with a key; newest first.
    pub fn take_key(
        &mut self,
        partition: PartitionId,
        topic: &[u8],
        key: &[u8],
        offset: u64,
        time_ms: u64,
    ) {
        if self.wants_keys() {
            let topic = number_of(&mut self.topics, topic);
            self.keys.push(FoundKey { partition, key: key.into(), offset, time_ms, topic });
        }
    }

    /// Brings the publications within their bound: each producer keeps its last one, and those that
    /// were active last keep the others.
    fn prune(&mut self) {
        let mut left = self.entries_max.saturating_sub(self.producers.len());
        self.entries = 0;
        for (number, producer) in self.producers.iter_mut().enumerate() {
            let more = producer.publications.len().saturating_sub(1);
            if more > left {
                self.open = self.open.min(number);
            }
            let kept = more.min(left);
            left -= kept;
            producer.publications.truncate(1 + kept);
            producer.publications.shrink_to_fit();
            self.entries += producer.publications.len();
        }
    }

    /// Names of topics by their numbers.
    pub(super) fn topics(&self) -> Vec<&[u8]> {
        let mut names: Vec<(u32, &[u8])> =
            self.topics.iter().map(|(name, number)| (*number, &name[..])).collect();
        names.sort_unstable();
        names.into_iter().map(|(_, name)| name).collect()
    }
}

fn number_of(topics: &mut BTreeMap<Box<[u8]>, u32>, name: &[u8]) -> u32 {
    match topics.get(name) {
        Some(number) => *number,
        None => {
            let number = topics.len() as u32; // no more than there are keys and publications here
            topics.insert(name.into(), number);
            number
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(window_max: u32, entries_max: u32) -> FoundWindow {
        FoundWindow::new(&Limits {
            producer_window_max: window_max,
            producer_window_entries_max: entries_max,
            idempotency_keys_max: 2,
            ..Limits::default()
        })
    }

    fn sequences(window: &FoundWindow, id: &[u8]) -> Vec<u64> {
        let producer = window.producers.iter().find(|found| *found.id == *id);
        let publications = producer.map_or(&[][..], |found| &found.publications[..]);
        publications.iter().map(|found| found.sequence).collect()
    }

    fn take(window: &mut FoundWindow, id: &[u8], sequences: std::ops::Range<u64>) {
        let newest_first = sequences.rev().map(|number| (number, 10 * number, &b"t"[..]));
        window.take_producer(PartitionId(0), id, 1, newest_first);
    }

    #[test]
    fn a_window_reaches_over_segments() {
        let mut window = window(5, 100);
        take(&mut window, b"a", 7..10);
        assert_eq!(window.publications_wanted(PartitionId(0), b"a"), 2);
        assert_eq!(window.publications_wanted(PartitionId(1), b"a"), 5);
        take(&mut window, b"a", 1..7);
        assert_eq!(sequences(&window, b"a"), [9, 8, 7, 6, 5]);
        assert_eq!(window.publications_wanted(PartitionId(0), b"a"), 0);
    }

    /// A higher number before a lower one belongs to an ended producer of the same name.
    #[test]
    fn a_producer_that_began_anew() {
        let mut window = window(5, 100);
        take(&mut window, b"a", 1..3);
        take(&mut window, b"a", 7..9);
        assert_eq!(sequences(&window, b"a"), [2, 1]);
    }

    /// Those that were active last keep their windows; every other one keeps its last publication.
    #[test]
    fn the_bound_of_all() {
        let mut window = window(6, 10);
        for id in 0..40u8 {
            take(&mut window, &[id], 1..7);
            assert!(window.entries <= 2 * window.entries_max.max(window.producers.len()));
        }
        for id in 0..40u8 {
            take(&mut window, &[id], 1..7);
        }
        assert_eq!(window.producers.len(), 40);
        for id in 0..40u8 {
            assert_eq!(sequences(&window, &[id]).first(), Some(&6), "{id}");
        }
        assert!(window.entries < 60);
    }

    #[test]
    fn the_newest_keys() {
        let mut window = window(1, 1);
        for (place, key) in [b"c", b"b", b"a"].into_iter().enumerate() {
            window.take_key(PartitionId(3), b"t", key, 9 - place as u64, 1);
        }
        let keys: Vec<&[u8]> = window.keys.iter().map(|found| &found.key[..]).collect();
        assert_eq!(keys, [b"c", b"b"]);
        assert!(!window.wants_keys());
    }
}
