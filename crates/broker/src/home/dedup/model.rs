//! The window against a naive one that keeps everything in lists and searches them from end to end.

use super::*;
use proptest::prelude::*;
use stdx::chunk::Slice;

const PRODUCERS_MAX: u32 = 3;
const PRODUCER_WINDOW_MAX: u32 = 4;
const KEYS_MAX: u32 = 5;
const WINDOW_MS: u32 = 100;

#[derive(Clone, Debug)]
enum Op {
    /// Topic, producer with sequence and connection, key.
    Publish(u8, Option<(u8, u64, u64)>, Option<u8>),
    /// Takes a number of a partition's newest publications back.
    TakeBack(u8, u8),
    /// Evicts all but a number of a partition's newest records.
    Evict(u8, u8),
    Time(u64),
    Sweep,
}

fn op() -> impl Strategy<Value = Op> {
    let producer = prop::option::of((0..4u8, 0..30u64, 1..4u64));
    prop_oneof![
        20 => (0..4u8, producer, prop::option::of(0..6u8))
            .prop_map(|(topic, producer, key)| Op::Publish(topic, producer, key)),
        1 => (0..2u8, 1..3u8).prop_map(|(partition, count)| Op::TakeBack(partition, count)),
        2 => (0..2u8, 0..6u8).prop_map(|(partition, left)| Op::Evict(partition, left)),
        3 => (0..80u64).prop_map(Op::Time),
        1 => Just(Op::Sweep),
    ]
}

/// One appended publication.
#[derive(Clone, Debug)]
struct Appended {
    topic: u8,
    partition: u32,
    offset: u64,
    producer: Option<(u8, u64, u64)>,
    key: Option<u8>,
    at_ms: u64,
    /// Numbers all publications with a key.
    key_order: u64,
    /// The publication has its record and is in its producer's window.
    is_recent: bool,
}

/// A producer in a partition.
#[derive(Clone, Debug)]
struct Known {
    id: (u32, u8),
    owner: u64,
    active_ms: u64,
}

#[derive(Default)]
struct Naive {
    now_ms: u64,
    appended: Vec<Appended>,
    known: Vec<Known>,
    keys_noted: u64,
    heads: [u64; 2],
    evicted: [u64; 2],
}

impl Naive {
    /// Publications of a producer that count: they came after it was last made known.
    fn of(&self, id: (u32, u8)) -> Vec<&Appended> {
        let is_own =
            |a: &&Appended| a.partition == id.0 && a.producer.is_some_and(|(p, ..)| p == id.1);
        self.appended.iter().filter(is_own).collect()
    }

    fn recent(&self, id: (u32, u8)) -> Vec<&Appended> {
        let mut all = self.of(id);
        all.retain(|a| a.is_recent);
        all
    }

    fn check(&mut self, partition: u32, op: &Op) -> Result<Verdict, Code> {
        let Op::Publish(topic, producer, key) = *op else { unreachable!() };
        if let Some((producer, sequence, connection)) = producer {
            let id = (partition, producer);
            match self.known.iter().position(|known| known.id == id) {
                None => {
                    let no_idle = self.known.iter().all(|k| !self.recent(k.id).is_empty());
                    if self.known.len() >= PRODUCERS_MAX as usize && no_idle {
                        return Err(Code::ProducersFull);
                    }
                }
                Some(place) => {
                    if connection < self.known[place].owner {
                        return Err(Code::ProducerFenced);
                    }
                    let last = self.of(id).last().map(|a| a.producer.unwrap().1);
                    if last.is_some_and(|last| sequence <= last) {
                        let found = self
                            .recent(id)
                            .iter()
                            .find(|a| a.producer.unwrap().1 == sequence && a.topic == topic)
                            .map(|a| a.offset)
                            .ok_or(Code::OutOfOrder)?;
                        self.known[place].owner = connection;
                        return Ok(Verdict::Duplicate(found));
                    }
                }
            }
        }
        let first_key = self.keys_noted.saturating_sub(u64::from(KEYS_MAX));
        let found = key.and_then(|key| {
            self.appended
                .iter()
                .rev()
                .find(|a| a.topic == topic && a.key == Some(key))
                .filter(|a| a.key_order >= first_key)
                .filter(|a| self.now_ms - a.at_ms <= u64::from(WINDOW_MS))
        });
        Ok(found.map_or(Verdict::New, |a| Verdict::Duplicate(a.offset)))
    }

    fn note(&mut self, partition: u32, op: &Op) -> u64 {
        let Op::Publish(topic, producer, key) = *op else { unreachable!() };
        if let Some((producer, _, connection)) = producer {
            let id = (partition, producer);
            let recent = self.recent(id);
            if recent.len() == PRODUCER_WINDOW_MAX as usize {
                let pushed_out = recent[0].offset;
                for a in &mut self.appended {
                    a.is_recent &= (a.partition, a.offset) != (partition, pushed_out);
                }
            }
            match self.known.iter_mut().find(|known| known.id == id) {
                Some(known) => {
                    known.owner = known.owner.max(connection);
                    known.active_ms = self.now_ms;
                }
                None => {
                    if self.known.len() >= PRODUCERS_MAX as usize {
                        self.forget_idle();
                    }
                    self.known.push(Known { id, owner: connection, active_ms: self.now_ms });
                }
            }
        }
        self.heads[partition as usize] += 1;
        let offset = self.heads[partition as usize];
        self.appended.push(Appended {
            topic,
            partition,
            offset,
            producer,
            key,
            at_ms: self.now_ms,
            key_order: self.keys_noted,
            is_recent: true,
        });
        self.keys_noted += u64::from(key.is_some());
        offset
    }

    /// The newest publication of a partition is undone, if it still has its record.
    fn take_back(&mut self, partition: u32) -> Option<Appended> {
        let place = self.appended.iter().rposition(|a| a.partition == partition)?;
        if self.appended[place].offset <= self.evicted[partition as usize] {
            return None;
        }
        Some(self.appended.remove(place))
    }

    fn forget_idle(&mut self) {
        let idle = self
            .known
            .iter()
            .filter(|known| self.recent(known.id).is_empty())
            .map(|known| (known.active_ms, known.id))
            .min();
        let Some((_, id)) = idle else { return };
        self.known.retain(|known| known.id != id);
        for a in &mut self.appended {
            if a.partition == id.0 && a.producer.is_some_and(|(p, ..)| p == id.1) {
                a.producer = None;
            }
        }
    }
}

fn publication(op: &Op) -> Publication {
    let Op::Publish(topic, producer, key) = *op else { unreachable!() };
    Publication {
        topic: Slice::copy_of(&[b't', topic]),
        producer: producer.map(|(id, sequence, connection)| crate::mail::ProducerStamp {
            id: Slice::copy_of(&[b'p', id]),
            sequence,
            connection,
        }),
        idempotency_key: key.map_or(Slice::empty(), |key| Slice::copy_of(&[b'k', key])),
        ..Publication::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_a_naive_window(ops in prop::collection::vec(op(), 1..200)) {
        let limits = Limits {
            producers_max: PRODUCERS_MAX,
            producer_window_max: PRODUCER_WINDOW_MAX,
            idempotency_keys_max: KEYS_MAX,
            idempotency_window_ms: WINDOW_MS,
            ..Limits::default()
        };
        let mut dedup = Dedup::new(&limits, Seed(1, 2));
        let mut naive = Naive::default();
        for op in ops {
            match op {
                Op::Publish(topic, ..) => {
                    let partition = u32::from(topic % 2);
                    // No two have been idle for equally long.
                    naive.now_ms += 1;
                    let names = dedup.names_of(partition, &publication(&op));
                    let verdict = dedup.check(naive.now_ms, &names, true);
                    prop_assert_eq!(verdict, naive.check(partition, &op), "{:?}", op);
                    if verdict == Ok(Verdict::New) {
                        let offset = naive.note(partition, &op);
                        dedup.note(naive.now_ms, partition, &names, Noted::At(offset));
                    }
                }
                Op::Evict(partition, left) => {
                    let through = naive.heads[usize::from(partition)].saturating_sub(left.into());
                    let evicted = &mut naive.evicted[usize::from(partition)];
                    *evicted = through.max(*evicted);
                    for a in &mut naive.appended {
                        a.is_recent &= a.partition != u32::from(partition) || a.offset > through;
                    }
                    dedup.evicted(partition.into(), through);
                }
                Op::TakeBack(partition, count) => {
                    for _ in 0..count {
                        let Some(taken) = naive.take_back(partition.into()) else {
                            break;
                        };
                        let op = Op::Publish(taken.topic, taken.producer, taken.key);
                        let names = dedup.names_of(taken.partition, &publication(&op));
                        dedup.take_back_names(&names, Noted::At(taken.offset));
                    }
                }
                Op::Time(step_ms) => naive.now_ms += step_ms,
                Op::Sweep => {
                    dedup.sweep(naive.now_ms);
                }
            }
            let sizes = (dedup.producers_count(), dedup.keys_count());
            prop_assert!(sizes.0 <= PRODUCERS_MAX as usize && sizes.1 <= KEYS_MAX as usize);
            prop_assert_eq!(sizes.0, naive.known.len());
        }
    }
}
