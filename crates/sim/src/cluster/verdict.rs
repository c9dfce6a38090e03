//! The reference verdict on a record of the engine: a function of the log before it, written after
//! the design and without regard to speed.
//!
//! Of records with one name within the window, counted from the last of them whether it was dropped
//! or not, all but the first are dropped. The window has a number of names at most.

use super::life::Entry;
use broker::engine::{CLOCKS_APART_MS, NAMES_MAX};
use std::collections::VecDeque;

/// The verdict on a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// To be delivered.
    New,
    /// The publication was delivered at this offset.
    Duplicate(u64),
    /// Sent again or out of turn by a client of the engine.
    Copy,
    /// The sequence is below its producer's greatest.
    OutOfOrder,
    /// A newer connection of the producer has published.
    Fenced,
}

/// The names of a record.
#[derive(Clone, Debug)]
struct Seen {
    offset: u64,
    /// The least second of this record and of those behind it.
    second: u64,
    run: Option<(u64, u64)>,
    producer: Option<Stamp>,
    key: Option<(Vec<u8>, Vec<u8>)>,
    verdict: Verdict,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Stamp {
    id: Vec<u8>,
    sequence: u64,
    connection: u64,
}

/// The newest records of a log; see the module.
#[derive(Clone, Debug)]
pub struct Window {
    seen: VecDeque<Seen>,
    /// Sequences and keys of all of them.
    names: usize,
    window_s: u64,
}

impl Window {
    /// Creates an empty window of some length.
    pub fn new(window_s: u64) -> Window {
        Window { seen: VecDeque::new(), names: 0, window_s }
    }

    /// Forgets everything: another log follows.
    pub fn clear(&mut self) {
        self.seen.clear();
        self.names = 0;
    }

    /// The verdict on the next entry of the log; it is in the window from now on.
    pub fn judge(&mut self, entry: &Entry) -> Verdict {
        let Some((name, publication)) = entry.record() else {
            return Verdict::New;
        };
        let key = &publication.idempotency_key;
        let stamp = publication.producer.as_ref();
        let mut next = Seen {
            offset: entry.offset,
            second: entry.time_ms / 1_000,
            run: name.map(|name| (name.run, name.counter)),
            producer: stamp.map(|stamp| Stamp {
                id: stamp.id.to_vec(),
                sequence: stamp.sequence,
                connection: stamp.connection,
            }),
            key: (!key.is_empty()).then(|| (publication.topic.to_vec(), key.to_vec())),
            verdict: Verdict::New,
        };
        // Those before have no later second.
        for seen in self.seen.iter_mut().rev().take_while(|seen| seen.second > next.second) {
            seen.second = next.second;
        }
        while let Some(seen) = self.seen.front()
            && seen.second + self.window_s <= next.second
        {
            self.names -= seen.names();
            self.seen.pop_front();
        }
        if next.run.is_none() && next.producer.is_none() && next.key.is_none() {
            return Verdict::New;
        }
        next.verdict = self.verdict(&next);
        let verdict = next.verdict;
        self.names += next.names();
        self.seen.push_back(next);
        self.forget_names();
        verdict
    }

    /// Forgets the oldest names if there are too many. A record's sequence is older than its key.
    fn forget_names(&mut self) {
        let mut seen = self.seen.iter_mut();
        while self.names > NAMES_MAX
            && let Some(oldest) = seen.next()
        {
            if oldest.producer.take().is_some() {
                self.names -= 1;
            }
            if self.names > NAMES_MAX && oldest.key.take().is_some() {
                self.names -= 1;
            }
        }
    }

    fn verdict(&self, next: &Seen) -> Verdict {
        let is_later = |seen: &Seen| match (seen.run, next.run) {
            (Some((run, counter)), Some((own, own_counter))) => {
                run == own && counter >= own_counter
            }
            _ => false,
        };
        if self.seen.iter().any(is_later) {
            return Verdict::Copy;
        }
        if let Some(stamp) = &next.producer {
            let stamps = || {
                let stamps =
                    self.seen.iter().filter_map(|seen| Some((seen.producer.as_ref()?, seen)));
                stamps.filter(|(other, _)| other.id == stamp.id)
            };
            if stamps().any(|(other, _)| other.connection > stamp.connection + CLOCKS_APART_MS) {
                return Verdict::Fenced;
            }
            let mut counted = stamps().filter(|(_, seen)| seen.counts());
            if counted.clone().any(|(other, _)| other.sequence >= stamp.sequence) {
                let same = counted.find(|(other, _)| other.sequence == stamp.sequence);
                return same.map_or(Verdict::OutOfOrder, |(_, seen)| seen.repeated());
            }
        }
        let is_same = |seen: &&Seen| next.key.is_some() && seen.key == next.key && seen.counts();
        self.seen.iter().find(is_same).map_or(Verdict::New, Seen::repeated)
    }
}

impl Seen {
    /// The number of its names that are counted.
    fn names(&self) -> usize {
        usize::from(self.producer.is_some()) + usize::from(self.key.is_some())
    }

    /// Whether its sequence and key count.
    fn counts(&self) -> bool {
        !matches!(self.verdict, Verdict::Copy | Verdict::Fenced)
    }

    /// The verdict on another record of its sequence or key.
    fn repeated(&self) -> Verdict {
        match self.verdict {
            Verdict::New => Verdict::Duplicate(self.offset),
            other => other,
        }
    }
}
