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
//! The record that a duplicate repeats may lie further back, if repetitions went on since: then a
//! node that has not read it says [`Verdict::Unknown`], and never that a publication is in the log,
//! or is not, of which it does not know that.

mod index;
#[cfg(test)]
mod model;
mod runs;
mod window;

use crate::mail::Publication;
use index::Hashed;
use runs::Runs;
use std::collections::VecDeque;
use stdx::handing::Hand;
use stdx::hash::{Seed, keyed};
use stdx::memory::vector_bytes;
use window::{Known, Origin, Sequenced, Window};

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
    window: Window,
    /// The number of the first whole record.
    whole_from: Option<u64>,
    /// The newest record is primed, and so are all that follow.
    is_primed: bool,
    scratch: Vec<u8>,
}

/// Numbers of records, and the seconds in which the engine took them.
#[derive(Debug, Default, Hand)]
struct Clock {
    /// The number of the next record.
    next: u64,
    /// The first record of each second, oldest first.
    seconds: VecDeque<Second>,
}

#[derive(Clone, Copy, Debug, Hand)]
struct Second {
    second: u64,
    /// The number of its first record, and of the first name in it or behind it.
    record: u64,
    name: u64,
}

impl Clock {
    /// Numbers a record of this second, whose first name would be `name`.
    fn number(&mut self, second: u64, name: u64, window_s: u64) -> u64 {
        let record = self.next;
        self.next += 1;
        let mut first = Second { second, record, name };
        // The time of a record is the least since.
        while let Some(last) = self.seconds.back().filter(|last| last.second >= second) {
            first = Second { second, ..*last };
            self.seconds.pop_back();
        }
        self.seconds.push_back(first);
        while self.seconds.front().is_some_and(|oldest| oldest.second + window_s <= second) {
            self.seconds.pop_front();
        }
        record
    }

    /// The least numbers in the window of the newest record: of records and of names.
    fn horizon(&self) -> (u64, u64) {
        self.seconds.front().map_or((self.next, 0), |first| (first.record, first.name))
    }
}

/// The names of one record, hashed.
struct Names {
    run: Option<(u64, u64)>,
    sequenced: Option<Sequenced>,
    key: Option<Hashed>,
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
            clock.number(complete_from_ms / 1_000, 0, bounds.window_s);
        }
        Once {
            bounds,
            seeds: [derived(3), derived(4)],
            clock,
            runs: Runs::default(),
            window: Window::new(bounds.names_max),
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
        let name = self.window.next();
        let number = self.clock.number(time_ms / 1_000, name, self.bounds.window_s);
        let (horizon, first_name) = self.clock.horizon();
        if !self.is_primed && horizon > 0 {
            self.is_primed = *self.whole_from.get_or_insert(number) <= horizon;
        }
        let names = self.names_of(run, publication);
        if names.run.is_none() && names.sequenced.is_none() && names.key.is_none() {
            return Verdict::New;
        }
        self.window.forget(first_name);
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
        let origin = counts.then_some(origin);
        if let Some(sequenced) = &names.sequenced {
            self.window.note_sequence(sequenced, origin, seen_ms);
        }
        if let Some(key) = names.key {
            self.window.note_key(key, origin);
        }
        self.window.forget(first_name);
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
        self.window.newest_connection(producer.hashed())
    }

    /// Names in the window.
    pub fn names_count(&self) -> usize {
        self.window.len()
    }

    /// Memory of all of it, about.
    pub fn allocated_bytes(&self) -> usize {
        vector_bytes::<Second>(self.clock.seconds.capacity())
            + self.runs.allocated_bytes()
            + self.window.allocated_bytes()
    }

    fn is_fenced(&self, sequenced: &Sequenced) -> bool {
        let newest = self.window.newest_connection(sequenced.producer);
        let apart_ms = self.bounds.clocks_apart_ms;
        newest.is_some_and(|(stamp, _)| sequenced.connection.saturating_add(apart_ms) < stamp)
    }

    fn find(&self, names: &Names) -> Verdict {
        let by_sequence = names.sequenced.as_ref().map(|it| self.find_sequence(it));
        if let Some(verdict) = by_sequence.filter(|verdict| *verdict != Verdict::New) {
            return verdict;
        }
        let known = names.key.and_then(|key| self.window.find(key));
        known.map_or(Verdict::New, Known::repeated)
    }

    fn find_sequence(&self, sequenced: &Sequenced) -> Verdict {
        match self.window.find(sequenced.name) {
            // A sequence stands for one message to one topic.
            Some(known) if known.topic == sequenced.topic => known.repeated(),
            Some(Known { origin: Origin::Unknown, .. }) => Verdict::Unknown,
            Some(_) => Verdict::OutOfOrder,
            None => match self.window.greatest(sequenced.producer) {
                Some(greatest) if greatest > sequenced.sequence => Verdict::OutOfOrder,
                Some(_) | None => Verdict::New,
            },
        }
    }

    fn names_of(&mut self, run: Option<(u64, u64)>, publication: &Publication) -> Names {
        let key = Some(&publication.idempotency_key[..]).filter(|key| !key.is_empty());
        Names {
            run,
            sequenced: publication.producer.as_ref().map(|stamp| {
                let producer = self.identity(None, &stamp.id);
                Sequenced {
                    producer: producer.hashed(),
                    name: producer.numbered(stamp.sequence),
                    sequence: stamp.sequence,
                    connection: stamp.connection,
                    topic: keyed(self.seeds[0], &publication.topic) as u32,
                }
            }),
            key: key.map(|key| self.identity(Some(&publication.topic), key).hashed()),
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
        Identity(self.seeds.map(|seed| keyed(seed, &self.scratch)))
    }
}

/// Two secret hashes of a name.
#[derive(Clone, Copy)]
struct Identity([u64; 2]);

impl Identity {
    fn hashed(self) -> Hashed {
        Hashed::new(self.0[0], self.0[1])
    }

    /// The name of a producer's sequence. No two sequences of one producer are alike.
    fn numbered(self, sequence: u64) -> Hashed {
        let [hash, other] = self.0;
        Hashed::new(mixed(hash.wrapping_add(sequence.wrapping_mul(ODD))), mixed(other ^ sequence))
    }
}

/// An odd number; products with it differ for different factors.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads differences over all bits; different numbers stay different.
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 32).wrapping_mul(ODD);
    bits = (bits ^ bits >> 29).wrapping_mul(ODD);
    bits ^ bits >> 32
}

impl Known {
    /// The verdict on a record with this name.
    fn repeated(self) -> Verdict {
        match self.origin {
            Origin::Delivered(offset) => Verdict::Duplicate(offset),
            Origin::Refused => Verdict::OutOfOrder,
            Origin::Unknown => Verdict::Unknown,
        }
    }
}
