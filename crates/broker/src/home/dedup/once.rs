//! Publish once in a log that an engine orders: verdicts that every node finds alike.
//!
//! Place on the path: each record of the tail is judged before it is placed (`home::engine`). A
//! verdict is a function of a bounded number of records before it. So nodes that began to read at
//! different records agree, without a word between them.
//!
//! The window of a record has the records before it whose engine time is less than
//! [`Bounds::window_s`] older, and of their names the last [`Bounds::names_max`] (runs are counted
//! apart). The engine's clock may go back, when another broker leads: the time of a record is then
//! the least since, of records with and without names. A record counts whether it was dropped or
//! not, so that no verdict hangs on a chain of others without end:
//!
//! - *run*: a counter at or below the run's greatest in the window is a copy that a client of the
//!   engine has sent again. It is dropped, and its other names do not count.
//! - *connection*: a stamp more than [`Bounds::clocks_apart_ms`] below the producer's greatest in
//!   the window, copies included, is fenced. Its sequence does not count: a newer connection may
//!   send it again. Stamps of two nodes are no nearer than their clocks: a client that has moved
//!   from one to the other must not be fenced by itself.
//! - *sequence*: one that stands in the window is a duplicate; one below the greatest is out of
//!   order.
//! - *key*: one that stands in the window is a duplicate.
//!
//! A node that begins in the middle of a log does not know the records before. It knows a time that
//! all of those are older than. A record is *whole* if none of them is in its window, and *primed*
//! if its window has only whole records: whether it is delivered is then the verdict of all nodes.
//! Which record a duplicate repeats may lie further back, if it was repeated for so long: then a
//! node that has not read it says [`Verdict::Unknown`], and never that a publication is in the log,
//! or is not, of which it does not know that.

#[cfg(test)]
mod model;

use super::Identity;
use crate::mail::Publication;
use std::collections::{BTreeMap, VecDeque};
use stdx::handing::Hand;
use stdx::hash::{Seed, keyed};
use stdx::memory::{tree_bytes, vector_bytes};

/// The bounds of a window; alike on all nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub(in crate::home) struct Bounds {
    /// The time that a window reaches back, in seconds of the engine's clock.
    pub window_s: u64,
    /// Names of producers' publications and keys.
    pub names_max: usize,
    /// Runs, those that were seen last.
    pub runs_max: usize,
    /// Stamps of two connections that differ by no more than this do not say which is newer, in
    /// milliseconds.
    pub clocks_apart_ms: u64,
}

/// The verdict on a record of the tail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::home) enum Verdict {
    /// The record is delivered.
    New,
    /// The publication was delivered at this offset.
    Duplicate(u64),
    /// The record was sent again, or out of its turn, by a client of the engine. Its publication is
    /// settled by an earlier record, or not in the log.
    Copy,
    /// The producer's sequence is below its greatest, and was not delivered.
    OutOfOrder,
    /// A newer connection of the producer has published.
    Fenced,
    /// The record repeats one that this node cannot judge. It is not delivered.
    Unknown,
}

/// The window of one partition; see the module.
#[derive(Debug, Hand)]
pub(in crate::home) struct Once {
    bounds: Bounds,
    seeds: [Seed; 2],
    clock: Clock,
    runs: Runs,
    /// Names in the window, oldest first.
    window: VecDeque<Occurrence>,
    producers: BTreeMap<Identity, Producer>,
    keys: BTreeMap<Identity, Known>,
    /// Sequences of all producers.
    sequences: usize,
    /// The number of the first whole record.
    whole_from: Option<u64>,
    /// The newest record is primed, and so are all that follow.
    is_primed: bool,
    scratch: Vec<u8>,
}

/// A name in a record.
#[derive(Clone, Copy, Debug, Hand)]
struct Occurrence {
    number: u64,
    name: Name,
}

#[derive(Clone, Copy, Debug, Hand)]
enum Name {
    Sequence(Identity, u64),
    /// A producer's connection; the sequence does not count.
    Connection(Identity),
    Key(Identity),
    /// A key that does not count. It has its place, so that all nodes count alike.
    Uncounted,
}

/// A name in the window.
#[derive(Clone, Copy, Debug, Hand)]
struct Known {
    /// Occurrences in the window.
    count: u32,
    /// A hash of the topic, of a sequence.
    topic: u32,
    origin: Origin,
}

/// The publication that a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
enum Origin {
    /// Delivered at this offset.
    Delivered(u64),
    /// Not in the log.
    Refused,
    /// From a time of which this node does not know enough.
    Unknown,
}

#[derive(Debug, Default, Hand)]
struct Producer {
    sequences: BTreeMap<u64, Known>,
    /// The greatest stamp, then the greatest behind that, and so on: stamps fall, numbers rise.
    connections: VecDeque<Connection>,
}

#[derive(Clone, Copy, Debug, Hand)]
struct Connection {
    stamp: u64,
    number: u64,
    /// The time at which this node first saw the stamp, in milliseconds of its clock. No verdict
    /// hangs on it.
    seen_ms: u64,
}

/// Numbers of records, and the seconds in which the engine took them.
#[derive(Debug, Default, Hand)]
struct Clock {
    /// The number of the next record.
    next: u64,
    /// The first number of each second, oldest first; both rise.
    seconds: VecDeque<(u64, u64)>,
}

impl Clock {
    /// Numbers a record of this second. The second of those before it is at most this one.
    fn number(&mut self, second: u64, window_s: u64) -> u64 {
        let number = self.next;
        self.next += 1;
        let mut first = number;
        while let Some(&(since, of)) = self.seconds.back()
            && of >= second
        {
            first = since;
            self.seconds.pop_back();
        }
        self.seconds.push_back((first, second));
        while let Some(&(_, oldest)) = self.seconds.front()
            && oldest + window_s <= second
        {
            self.seconds.pop_front();
        }
        number
    }

    /// The least number in the window of the newest record.
    fn horizon(&self) -> u64 {
        self.seconds.front().map_or(self.next, |(first, _)| *first)
    }
}

/// The greatest counters of runs.
#[derive(Debug, Default, Hand)]
struct Runs {
    /// Counters of each run, with numbers: the greatest, then the greatest behind that, and so on.
    counters: BTreeMap<u64, VecDeque<(u64, u64)>>,
    /// Runs by the number of their last record.
    by_age: BTreeMap<u64, u64>,
}

/// Counters of one run that are kept; more of them fall in a row only if a producer forges them.
const FALLING_MAX: usize = 64;

impl Runs {
    /// Notes a counter. True if it is above all of its run in the window.
    fn note(&mut self, run: u64, counter: u64, number: u64, horizon: u64, runs_max: usize) -> bool {
        let counters = self.counters.entry(run).or_default();
        if let Some((_, last)) = counters.back() {
            self.by_age.remove(last);
        }
        while counters.front().is_some_and(|(_, number)| *number < horizon) {
            counters.pop_front();
        }
        let is_new = counters.front().is_none_or(|(greatest, _)| *greatest < counter);
        while counters.back().is_some_and(|(least, _)| *least <= counter) {
            counters.pop_back();
        }
        if counters.len() >= FALLING_MAX {
            counters.pop_back();
        }
        counters.push_back((counter, number));
        self.by_age.insert(number, run);
        while let Some((&oldest, &run)) = self.by_age.first_key_value()
            && (oldest < horizon || self.by_age.len() > runs_max)
        {
            self.by_age.remove(&oldest);
            self.counters.remove(&run);
        }
        is_new
    }
}

/// The names of one record, hashed.
struct Names {
    run: Option<(u64, u64)>,
    sequenced: Option<Sequenced>,
    key: Option<Identity>,
}

struct Sequenced {
    producer: Identity,
    sequence: u64,
    connection: u64,
    topic: u32,
}

impl Once {
    /// A window without records. `seed` is the home's secret. Records before the first that follows
    /// are older than `complete_from_ms`, by the engine's time; 0 if there are none.
    pub fn new(bounds: Bounds, seed: Seed, complete_from_ms: u64) -> Once {
        let derived = |place: u8| Seed(keyed(seed, &[place]), keyed(seed, &[place, place]));
        let mut clock = Clock::default();
        let is_whole = complete_from_ms == 0;
        if !is_whole {
            // Stands for all records that were not read. Whole windows begin when it is in none.
            clock.number(complete_from_ms / 1_000, bounds.window_s);
        }
        Once {
            bounds,
            seeds: [derived(3), derived(4)],
            clock,
            runs: Runs::default(),
            window: VecDeque::new(),
            producers: BTreeMap::new(),
            keys: BTreeMap::new(),
            sequences: 0,
            whole_from: is_whole.then_some(0),
            is_primed: is_whole,
            scratch: Vec::new(),
        }
    }

    /// Judges the next record of the tail. `run` is its run and counter, `time_ms` the engine's
    /// time; `seen_ms` are milliseconds of this node's clock.
    pub fn judge(
        &mut self,
        offset: u64,
        time_ms: u64,
        run: Option<(u64, u64)>,
        publication: &Publication,
        seen_ms: u64,
    ) -> Verdict {
        let number = self.clock.number(time_ms / 1_000, self.bounds.window_s);
        let horizon = self.clock.horizon();
        if !self.is_primed && horizon > 0 {
            self.is_primed = *self.whole_from.get_or_insert(number) <= horizon;
        }
        let names = self.names_of(run, publication);
        if names.run.is_none() && names.sequenced.is_none() && names.key.is_none() {
            return Verdict::New;
        }
        while self.window.front().is_some_and(|oldest| oldest.number < horizon) {
            self.forget_oldest();
        }
        let is_copy = names.run.is_some_and(|(run, counter)| {
            !self.runs.note(run, counter, number, horizon, self.bounds.runs_max)
        });
        let is_fenced = names.sequenced.as_ref().is_some_and(|it| self.is_fenced(it));
        let verdict = match (is_copy, is_fenced) {
            (true, _) => Verdict::Copy,
            (false, true) => Verdict::Fenced,
            (false, false) => self.find(&names),
        };
        let origin = match verdict {
            // In a whole window nothing is missing; names may count that should not.
            Verdict::New if self.whole_from.is_some() => Origin::Delivered(offset),
            Verdict::OutOfOrder if !self.is_primed => Origin::Unknown,
            Verdict::New | Verdict::Unknown => Origin::Unknown,
            Verdict::Duplicate(offset) => Origin::Delivered(offset),
            Verdict::Copy | Verdict::OutOfOrder | Verdict::Fenced => Origin::Refused,
        };
        let counts = !is_copy && !is_fenced;
        self.note(number, &names, counts.then_some(origin), seen_ms);
        while self.window.len() > self.bounds.names_max {
            self.forget_oldest();
        }
        verdict
    }

    /// Whether the newest record is primed: then all nodes deliver it, or none does.
    pub fn is_primed(&self) -> bool {
        self.is_primed
    }

    /// The greatest connection stamp of a producer in the window, and when this node has first seen
    /// it.
    pub fn newest_connection(&mut self, id: &[u8]) -> Option<(u64, u64)> {
        let producer = self.identity(None, id);
        let newest = self.producers.get(&producer)?.connections.front()?;
        Some((newest.stamp, newest.seen_ms))
    }

    /// Names in the window.
    pub fn names_count(&self) -> usize {
        self.window.len()
    }

    /// Memory of all of it, about.
    pub fn allocated_bytes(&self) -> usize {
        let connections = |it: &Producer| vector_bytes::<Connection>(it.connections.capacity());
        vector_bytes::<Occurrence>(self.window.capacity())
            + vector_bytes::<(u64, u64)>(self.clock.seconds.capacity())
            + tree_bytes(self.runs.counters.len(), size_of::<[u64; 8]>())
            + tree_bytes(self.keys.len(), size_of::<(Identity, Known)>())
            + tree_bytes(self.producers.len(), size_of::<(Identity, Producer)>())
            + tree_bytes(self.sequences, size_of::<(u64, Known)>())
            + self.producers.values().map(connections).sum::<usize>()
    }

    fn is_fenced(&self, sequenced: &Sequenced) -> bool {
        let producer = self.producers.get(&sequenced.producer);
        let newest = producer.and_then(|producer| producer.connections.front());
        let apart_ms = self.bounds.clocks_apart_ms;
        newest.is_some_and(|newest| sequenced.connection.saturating_add(apart_ms) < newest.stamp)
    }

    fn find(&self, names: &Names) -> Verdict {
        let by_sequence = names.sequenced.as_ref().map(|it| self.find_sequence(it));
        if let Some(verdict) = by_sequence.filter(|verdict| *verdict != Verdict::New) {
            return verdict;
        }
        let known = names.key.and_then(|key| self.keys.get(&key));
        known.map_or(Verdict::New, |known| known.repeated())
    }

    fn find_sequence(&self, sequenced: &Sequenced) -> Verdict {
        let Some(producer) = self.producers.get(&sequenced.producer) else {
            return Verdict::New;
        };
        match producer.sequences.get(&sequenced.sequence) {
            // A sequence stands for one message to one topic.
            Some(known) if known.topic == sequenced.topic => known.repeated(),
            Some(Known { origin: Origin::Unknown, .. }) => Verdict::Unknown,
            Some(_) => Verdict::OutOfOrder,
            None => {
                let greatest = producer.sequences.last_key_value();
                if greatest.is_some_and(|(greatest, _)| *greatest > sequenced.sequence) {
                    Verdict::OutOfOrder
                } else {
                    Verdict::New
                }
            }
        }
    }

    /// Notes the names of a record; those that do not count have no origin.
    fn note(&mut self, number: u64, names: &Names, origin: Option<Origin>, seen_ms: u64) {
        if let Some(sequenced) = &names.sequenced {
            let producer = self.producers.entry(sequenced.producer).or_default();
            producer.connect(sequenced.connection, number, seen_ms);
            let name = match origin {
                None => Name::Connection(sequenced.producer),
                Some(origin) => {
                    let new = Known { count: 0, topic: sequenced.topic, origin };
                    let sequences = &mut producer.sequences;
                    let before = sequences.len();
                    sequences.entry(sequenced.sequence).or_insert(new).count += 1;
                    self.sequences += sequences.len() - before;
                    Name::Sequence(sequenced.producer, sequenced.sequence)
                }
            };
            self.window.push_back(Occurrence { number, name });
        }
        if let Some(key) = names.key {
            let name = match origin {
                None => Name::Uncounted,
                Some(origin) => {
                    let new = Known { count: 0, topic: 0, origin };
                    self.keys.entry(key).or_insert(new).count += 1;
                    Name::Key(key)
                }
            };
            self.window.push_back(Occurrence { number, name });
        }
    }

    fn forget_oldest(&mut self) {
        let Some(Occurrence { number, name }) = self.window.pop_front() else {
            return;
        };
        match name {
            Name::Uncounted => {}
            Name::Key(key) => {
                if let Some(known) = self.keys.get_mut(&key) {
                    known.count -= 1;
                    if known.count == 0 {
                        self.keys.remove(&key);
                    }
                }
            }
            Name::Connection(id) => self.forget_of(id, None, number),
            Name::Sequence(id, sequence) => self.forget_of(id, Some(sequence), number),
        }
    }

    fn forget_of(&mut self, id: Identity, sequence: Option<u64>, number: u64) {
        let Some(producer) = self.producers.get_mut(&id) else {
            return;
        };
        if let Some(sequence) = sequence
            && let Some(known) = producer.sequences.get_mut(&sequence)
        {
            known.count -= 1;
            if known.count == 0 {
                producer.sequences.remove(&sequence);
                self.sequences -= 1;
            }
        }
        while producer.connections.front().is_some_and(|oldest| oldest.number <= number) {
            producer.connections.pop_front();
        }
        if producer.connections.is_empty() && producer.sequences.is_empty() {
            self.producers.remove(&id);
        }
    }

    fn names_of(&mut self, run: Option<(u64, u64)>, publication: &Publication) -> Names {
        let key = Some(&publication.idempotency_key[..]).filter(|key| !key.is_empty());
        Names {
            run,
            sequenced: publication.producer.as_ref().map(|stamp| Sequenced {
                producer: self.identity(None, &stamp.id),
                sequence: stamp.sequence,
                connection: stamp.connection,
                topic: keyed(self.seeds[0], &publication.topic) as u32,
            }),
            key: key.map(|key| self.identity(Some(&publication.topic), key)),
        }
    }

    /// The identity of a key within its topic, or of a producer. Lengths stand before the names, so
    /// that no two can be confused.
    fn identity(&mut self, topic: Option<&[u8]>, name: &[u8]) -> Identity {
        self.scratch.clear();
        let topic_bytes = topic.map_or(u32::MAX, |topic| topic.len() as u32);
        self.scratch.extend_from_slice(&topic_bytes.to_le_bytes());
        self.scratch.extend_from_slice(topic.unwrap_or_default());
        self.scratch.extend_from_slice(name);
        self.seeds.map(|seed| keyed(seed, &self.scratch))
    }
}

impl Producer {
    fn connect(&mut self, stamp: u64, number: u64, seen_ms: u64) {
        let mut first_seen_ms = seen_ms;
        while let Some(least) = self.connections.back()
            && least.stamp <= stamp
        {
            if least.stamp == stamp {
                first_seen_ms = least.seen_ms;
            }
            self.connections.pop_back();
        }
        self.connections.push_back(Connection { stamp, number, seen_ms: first_seen_ms });
    }
}

impl Known {
    /// The verdict on a record with this name.
    fn repeated(&self) -> Verdict {
        match self.origin {
            Origin::Delivered(offset) => Verdict::Duplicate(offset),
            Origin::Refused => Verdict::OutOfOrder,
            Origin::Unknown => Verdict::Unknown,
        }
    }
}
