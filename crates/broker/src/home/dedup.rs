//! Publish once: the publications that a home has appended, by the names that publishers gave them.
//!
//! Place on the path: a publication with a producer or an idempotency key is asked about before it
//! is appended ([`Dedup::check`]) and noted afterwards ([`Dedup::note`]). Others cost nothing here.
//!
//! The memory is a function of the records: both names stand in the record, and a start builds the
//! window again from the log ([`super::window`]), in memory or not. Two facts are in no record. The
//! owner of a producer: it need not be known, as no connection outlives the process, and all
//! connections after a start are newer than all before; so the first connection that publishes by
//! an id owns it. And a producer whose records are all gone: it begins anew.
//!
//! Invariants:
//! - a *key* that is remembered is answered with its publication's offset. Remembered are the
//!   newest `idempotency_keys_max` of the home, none longer than `idempotency_window`. Older ones
//!   are forgotten, and may be appended again: this bound is a promise to publishers and stands in
//!   the documents.
//! - a *producer* is remembered while the home has a record of it, and then until its place is
//!   needed. A sequence of it is either above its last one, or among its newest
//!   `producer_window_max` that still have their record and answered with the offset, or refused:
//!   no bound ever has a sequence appended twice while the producer is remembered. All windows
//!   together hold about `producer_window_entries_max` publications; beyond that the producer that
//!   has been quiet for longest loses its oldest ones, down to its last.
//! - a sequence that comes again for another topic is refused: it would lose the second message
//!   without a word.
//! - a connection that is older than the producer's owner changes nothing.
//! - publications after one that was refused for the moment are refused too ([`holds`]), so that a
//!   refusal does not make it out of order.
//!
//! # Publications that are not settled
//!
//! A publication that waits for its sequencer is noted by its proposal, and gets its offset when it
//! is placed ([`Dedup::placed`]). A repetition of it is found like any other, as
//! [`Verdict::Proposed`]: the home lets it wait, and answers it after and like the original. When a
//! batch is refused, the home takes *all* publications that are not settled back at once, newest
//! first ([`Dedup::take_back`]), before it examines another request: otherwise a retry of the first
//! would be found to be out of order behind the second. Then it says so ([`Dedup::refused`]), so
//! that nothing that is under way comes before that retry.

mod holds;
mod keys;
#[cfg(test)]
mod model;
pub(super) mod once;
mod producers;

use crate::mail::{Code, Publication};
use crate::settings::Limits;
use holds::Holds;
use keys::Keys;
use log::RecordView;
use producers::{Found, Producers};
use stdx::handing::Hand;
use stdx::hash::{Seed, keyed};

/// The identity of a publication: a hash of 128 bits under secret keys, so that two different
/// names may be taken for different without looking at them.
pub(super) type Identity = [u64; 2];

/// The window of one home; see the module.
#[derive(Debug, Hand)]
pub(super) struct Dedup {
    keys: Keys,
    producers: Producers,
    holds: Holds,
    seeds: [Seed; 2],
    scratch: Vec<u8>,
}

/// The verdict on a publication.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// To be appended, and then noted.
    New,
    /// The publication has this offset already.
    Duplicate(u64),
    /// The publication is proposed under this number, and not placed yet.
    Proposed(u64),
}

/// The place of a publication when it is noted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Noted {
    /// The publication lies at this offset.
    At(u64),
    /// The publication is proposed under this number of its partition.
    Proposed(u64),
}

/// A number with this bit is that of a proposal. No offset has it.
const PROPOSED: u64 = 1 << 63;

impl Noted {
    fn number(self) -> u64 {
        match self {
            Noted::At(offset) => offset,
            Noted::Proposed(proposal) => PROPOSED | proposal,
        }
    }
}

/// The verdict on a publication that was noted with this number.
fn known(number: u64) -> Verdict {
    match number & PROPOSED {
        0 => Verdict::Duplicate(number),
        _ => Verdict::Proposed(number & !PROPOSED),
    }
}

/// The names of a publication, as the home hashes them; from [`Dedup::names_of`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hand)]
pub(super) struct Names {
    producer: Option<Sequenced>,
    key: Option<Identity>,
}

/// A producer's publication.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
struct Sequenced {
    producer: Identity,
    sequence: u64,
    connection: u64,
    /// A hash of the topic: a sequence stands for one message to one topic.
    topic: u32,
}

impl Names {
    /// Whether the publication has none.
    pub fn is_empty(&self) -> bool {
        self.producer.is_none() && self.key.is_none()
    }

    /// The producer, in its partition.
    pub fn producer_identity(&self) -> Option<Identity> {
        self.producer.map(|sequenced| sequenced.producer)
    }
}

impl Dedup {
    /// Remembers nothing. `seed` is the home's secret.
    pub fn new(limits: &Limits, seed: Seed) -> Dedup {
        let derived = |place: u8| Seed(keyed(seed, &[place]), keyed(seed, &[place, place]));
        Dedup {
            keys: Keys::new(limits.idempotency_keys_max, u64::from(limits.idempotency_window_ms)),
            producers: Producers::new(
                limits.producers_max,
                limits.producer_window_max,
                limits.producer_window_entries_max,
            ),
            holds: Holds::new(limits.producers_max),
            seeds: [derived(1), derived(2)],
            scratch: Vec::new(),
        }
    }

    /// The names of a publication. `partition` is the home's own number; names of different
    /// partitions are different.
    pub fn names_of(&mut self, partition: u32, publication: &Publication) -> Names {
        let producer = publication.producer.as_ref();
        let key = Some(&publication.idempotency_key[..]).filter(|key| !key.is_empty());
        Names {
            producer: producer.map(|stamp| Sequenced {
                producer: self.identity(partition, None, &stamp.id),
                sequence: stamp.sequence,
                connection: stamp.connection,
                topic: self.topic_hash(&publication.topic),
            }),
            key: key.map(|key| self.identity(partition, Some(&publication.topic), key)),
        }
    }

    /// Whether the publication is to be appended. `now_ms` are milliseconds of the monotonic clock;
    /// with `is_asked` the publisher waits for an acknowledgement. Changes nothing but the owner of
    /// a producer whose publication is a duplicate: it has come back; and a producer that repeats a
    /// refused publication is held no longer.
    ///
    /// # Errors
    /// `producer_fenced`, `out_of_order`, `producers_full`; the code of a refusal before this one,
    /// if the producer is held.
    pub fn check(&mut self, now_ms: u64, names: &Names, is_asked: bool) -> Result<Verdict, Code> {
        if let Some(sequenced) = &names.producer {
            if let Found::Duplicate(number) = self.producers.check(sequenced)? {
                return Ok(known(number));
            }
            if is_asked {
                self.holds.check(now_ms, sequenced)?;
            }
        }
        let number = names.key.and_then(|key| self.keys.find(now_ms, key));
        Ok(number.map_or(Verdict::New, known))
    }

    /// Whether the publication may be sent to an engine, which finds repetitions itself; its
    /// publisher waits for an acknowledgement.
    ///
    /// # Errors
    /// The code of a refusal before this one, if the producer is held; `producer_fenced`.
    pub fn held(&mut self, now_ms: u64, names: &Names) -> Result<(), Code> {
        let sequenced = names.producer.as_ref();
        sequenced.map_or(Ok(()), |sequenced| self.holds.check(now_ms, sequenced))
    }

    /// A publication that was checked lies in the log, or is proposed.
    pub fn note(&mut self, now_ms: u64, partition: u32, names: &Names, noted: Noted) {
        let number = noted.number();
        if let Some(sequenced) = &names.producer {
            self.producers.note(partition, sequenced, number);
        }
        if let Some(key) = names.key {
            self.keys.note(now_ms, key, number);
        }
    }

    /// A proposal has been placed: this is its record.
    pub fn placed(&mut self, partition: u32, topic: &[u8], record: &RecordView<'_>, proposal: u64) {
        let names = self.names_of_record(partition, topic, record);
        let (noted, offset) = (Noted::Proposed(proposal).number(), record.offset());
        if let Some(sequenced) = &names.producer {
            self.producers.placed(sequenced, noted, offset);
        }
        if let Some(key) = names.key {
            self.keys.placed(key, noted, offset);
        }
    }

    /// A publication whose publisher waits for an acknowledgement was refused: if only for the
    /// moment, what follows it is held.
    pub fn refused(&mut self, now_ms: u64, names: &Names, code: Code) {
        if let Some(sequenced) = &names.producer
            && code.temporary()
        {
            self.holds.refused(now_ms, sequenced, code);
        }
    }

    /// A producer's publications that a start has found in the log: sequence, offset and topic,
    /// oldest first. `rank` is above that of producers that have been quiet for longer.
    pub fn note_producer<'a>(
        &mut self,
        rank: u64,
        partition: u32,
        id: &[u8],
        publications: impl Iterator<Item = (u64, u64, &'a [u8])>,
    ) {
        let producer = self.identity(partition, None, id);
        for (sequence, offset, topic) in publications {
            let found =
                Sequenced { producer, sequence, connection: 0, topic: self.topic_hash(topic) };
            self.producers.note_found(rank, partition, &found, offset);
        }
    }

    /// A key that a start has found in the log, oldest first. `age_ms` is how long ago it came.
    /// Within the window it is remembered as if it had come now: longer than promised, never
    /// shorter.
    pub fn note_key(
        &mut self,
        (now_ms, age_ms): (u64, u64),
        partition: u32,
        topic: &[u8],
        key: &[u8],
        offset: u64,
    ) {
        if age_ms <= self.keys.window_ms() {
            let key = self.identity(partition, Some(topic), key);
            self.keys.note(now_ms, key, offset);
        }
    }

    /// The newest proposal of its partition has been refused; `record` is as it was proposed. See
    /// the module for the order of calls. Its names come back, of its producer's newest
    /// connection.
    pub fn take_back(&mut self, partition: u32, topic: &[u8], record: &RecordView<'_>) -> Names {
        let mut names = self.names_of_record(partition, topic, record);
        self.take_back_names(&names, Noted::Proposed(record.offset()));
        if let Some(sequenced) = &mut names.producer {
            sequenced.connection = self.producers.owner(sequenced.producer);
        }
        names
    }

    /// Releases records of a partition up to an offset: they are gone, from the disk if the log is
    /// on one. The cost is linear in the released entries.
    pub fn evicted(&mut self, partition: u32, through: u64) {
        self.producers.evicted(partition, through);
    }

    /// Frees a bounded number of expired entries. True if there may be more.
    pub fn sweep(&mut self, now_ms: u64) -> bool {
        self.keys.sweep(now_ms)
    }

    /// Producers remembered; one counts for each partition that it publishes to.
    pub fn producers_count(&self) -> usize {
        self.producers.len()
    }

    /// Idempotency keys remembered, some of them perhaps too old.
    pub fn keys_count(&self) -> usize {
        self.keys.len()
    }

    /// Memory of all of it.
    pub fn allocated_bytes(&self) -> usize {
        self.keys.allocated_bytes()
            + self.producers.allocated_bytes()
            + self.holds.allocated_bytes()
    }

    fn take_back_names(&mut self, names: &Names, noted: Noted) {
        let number = noted.number();
        if let Some(sequenced) = &names.producer {
            self.producers.take_back(sequenced, number);
        }
        if let Some(key) = names.key {
            self.keys.take_back(key, number);
        }
    }

    fn names_of_record(&mut self, partition: u32, topic: &[u8], record: &RecordView<'_>) -> Names {
        Names {
            producer: record.producer().map(|producer| Sequenced {
                producer: self.identity(partition, None, producer.id),
                sequence: producer.sequence,
                connection: 0,
                topic: self.topic_hash(topic),
            }),
            key: record
                .idempotency_key()
                .filter(|key| !key.is_empty())
                .map(|key| self.identity(partition, Some(topic), key)),
        }
    }

    fn topic_hash(&self, topic: &[u8]) -> u32 {
        keyed(self.seeds[0], topic) as u32
    }

    /// The identity of a key within its topic, or of a producer. Lengths stand before the names, so
    /// that no two
    /// can be confused.
    fn identity(&mut self, partition: u32, topic: Option<&[u8]>, name: &[u8]) -> Identity {
        self.scratch.clear();
        self.scratch.extend_from_slice(&partition.to_le_bytes());
        let topic_bytes = topic.map_or(u32::MAX, |topic| topic.len() as u32);
        self.scratch.extend_from_slice(&topic_bytes.to_le_bytes());
        self.scratch.extend_from_slice(topic.unwrap_or_default());
        self.scratch.extend_from_slice(name);
        self.seeds.map(|seed| keyed(seed, &self.scratch))
    }
}
