//! The verdicts against the definition, evaluated over all records before; and nodes that begin to
//! read at different records against each other.

use super::*;
use crate::mail::ProducerStamp;
use stdx::chunk::Slice;
use stdx::prng::Prng;

const BOUNDS: Bounds = Bounds { window_s: 20, names_max: 24, runs_max: 100, clocks_apart_ms: 1 };

/// A record of the tail.
#[derive(Clone, Debug)]
struct Record {
    second: u64,
    run: Option<(u64, u64)>,
    /// Producer, sequence, connection.
    producer: Option<(u8, u64, u64)>,
    topic: u8,
    key: Option<u8>,
}

impl Record {
    fn publication(&self) -> Publication {
        Publication {
            topic: Slice::copy_of(&[b't', self.topic]),
            producer: self.producer.map(|(id, sequence, connection)| ProducerStamp {
                id: Slice::copy_of(&[id]),
                sequence,
                connection,
            }),
            idempotency_key: self.key.map_or(Slice::empty(), |key| Slice::copy_of(&[key])),
            ..Publication::default()
        }
    }
}

/// A tail with copies, late copies, connections that give up, and clocks that go back.
fn records(prng: &mut Prng, count: usize) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    let mut second = 1_000;
    let mut counters = [0; 2];
    let mut sequences = [5_u64; 3];
    for _ in 0..count {
        second += [0, 0, 0, 1, 1, 2, 9][prng.below(7) as usize];
        if prng.chance(0.02) {
            second -= prng.between(1, 15);
        }
        if prng.chance(0.2) && !records.is_empty() {
            // A client of the engine sends one again.
            let back = prng.below(records.len().min(12) as u64) as usize;
            let copied = records[records.len() - 1 - back].clone();
            records.push(Record { second, ..copied });
            continue;
        }
        let run = prng.chance(0.8).then(|| {
            let run = prng.below(2);
            counters[run as usize] += prng.between(1, 2);
            (run, counters[run as usize])
        });
        let producer = prng.chance(0.6).then(|| {
            let id = prng.below(3) as usize;
            if prng.chance(0.6) {
                sequences[id] += prng.between(1, 2);
            }
            let back = if prng.chance(0.3) { prng.below(5) } else { 0 };
            let stamp = second / 6 + prng.below(2);
            (id as u8, sequences[id] - back, stamp)
        });
        let key = prng.chance(0.3).then(|| prng.below(4) as u8);
        // One message to one topic, mostly.
        let topic = if prng.chance(0.03) { 1 } else { 0 };
        records.push(Record { second, run, producer, topic, key });
    }
    records
}

/// The verdicts of a node that reads from the record at `first` on, and whether each is primed.
/// Records before are older than a second.
fn verdicts_of(records: &[Record], first: usize, complete_from_s: u64) -> Vec<(Verdict, bool)> {
    let mut once = Once::new(BOUNDS, Seed(1, first as u64), complete_from_s * 1_000);
    let verdict = |(place, record): (usize, &Record)| {
        let time_ms = record.second * 1_000 + 7;
        let offset = (first + place + 1) as u64;
        let verdict = once.judge(offset, time_ms, record.run, &record.publication(), 0);
        (verdict, once.is_primed())
    };
    let verdicts = records[first..].iter().enumerate().map(verdict).collect();
    assert!(once.names_count() <= BOUNDS.names_max);
    verdicts
}

/// The definition.
struct Model<'a> {
    records: &'a [Record],
    verdicts: Vec<Verdict>,
}

impl Model<'_> {
    /// Whether the record at `of` is in the time window of a later one.
    fn is_near(&self, of: usize, at: usize) -> bool {
        (of + 1..=at).all(|later| {
            let second = (of..=later).map(|place| self.records[place].second).min();
            second.unwrap() + BOUNDS.window_s > self.records[later].second
        })
    }

    /// Places of earlier records in the window, newest first, with the name that `pick` finds.
    fn window<T: PartialEq>(
        &self,
        at: usize,
        name: impl Fn(&Record) -> Option<T>,
        is_key: bool,
    ) -> impl Iterator<Item = (usize, T)> {
        let mut between = 0;
        let mut found = Vec::new();
        for place in (0..at).rev() {
            let record = &self.records[place];
            // The key of a record comes behind its sequence.
            let before = between + usize::from(!is_key && record.key.is_some());
            if let Some(name) = name(record)
                && before < BOUNDS.names_max
                && self.is_near(place, at)
            {
                found.push((place, name));
            }
            between += usize::from(record.key.is_some()) + usize::from(record.producer.is_some());
        }
        found.into_iter()
    }

    fn counts(&self, place: usize) -> bool {
        !matches!(self.verdicts[place], Verdict::Copy | Verdict::Fenced)
    }

    /// The publication that a name stands for at a record; none if it is not in its window.
    fn origin<T: PartialEq>(
        &self,
        at: usize,
        name: &T,
        pick: &impl Fn(&Record) -> Option<T>,
        is_key: bool,
    ) -> Option<(usize, Verdict)> {
        let mut occurrences = self.window(at, pick, is_key);
        let last = occurrences.find(|(place, of)| of == name && self.counts(*place))?.0;
        let earlier = self.origin(last, name, pick, is_key);
        Some(earlier.unwrap_or((last, self.verdicts[last])))
    }

    fn repeated(&self, (place, verdict): (usize, Verdict)) -> Verdict {
        match verdict {
            Verdict::New => Verdict::Duplicate(place as u64 + 1),
            Verdict::Duplicate(offset) => Verdict::Duplicate(offset),
            Verdict::Copy | Verdict::OutOfOrder | Verdict::Fenced | Verdict::Unknown => {
                Verdict::OutOfOrder
            }
        }
    }

    fn judge(&self, at: usize) -> Verdict {
        let Record { run, producer, topic, key, .. } = self.records[at].clone();
        if let Some((run, counter)) = run {
            let is_copy = (0..at).any(|place| {
                let of = self.records[place].run;
                of.is_some_and(|(of, it)| of == run && it >= counter) && self.is_near(place, at)
            });
            if is_copy {
                return Verdict::Copy;
            }
        }
        if let Some((id, sequence, stamp)) = producer {
            let mut all = self.window(at, |record| record.producer, false);
            if all.any(|(_, (of, _, other))| of == id && other > stamp + BOUNDS.clocks_apart_ms) {
                return Verdict::Fenced;
            }
            let pick = |record: &Record| record.producer.map(|(id, sequence, _)| (id, sequence));
            if let Some(origin) = self.origin(at, &(id, sequence), &pick, false) {
                let first = self.first_of(at, &(id, sequence), &pick);
                if self.records[first].topic != topic {
                    return Verdict::OutOfOrder;
                }
                return self.repeated(origin);
            }
            let mut all = self.window(at, pick, false);
            if all.any(|(place, (of, other))| of == id && other > sequence && self.counts(place)) {
                return Verdict::OutOfOrder;
            }
        }
        if let Some(key) = key {
            let pick = |record: &Record| record.key.map(|key| (record.topic, key));
            if let Some(origin) = self.origin(at, &(topic, key), &pick, true) {
                return self.repeated(origin);
            }
        }
        Verdict::New
    }

    fn first_of<T: PartialEq>(
        &self,
        at: usize,
        name: &T,
        pick: &impl Fn(&Record) -> Option<T>,
    ) -> usize {
        self.origin(at, name, pick, false).unwrap().0
    }
}

#[test]
fn verdicts_are_those_of_the_definition() {
    let mut seen = [0; 5];
    for seed in 0..300 {
        let records = records(&mut Prng::new(seed), 120);
        let mut model = Model { records: &records, verdicts: Vec::new() };
        for (at, (verdict, is_primed)) in verdicts_of(&records, 0, 0).into_iter().enumerate() {
            assert!(is_primed);
            let expected = model.judge(at);
            assert_eq!(verdict, expected, "seed {seed}, record {at}: {:?}", records[at]);
            model.verdicts.push(expected);
            seen[match verdict {
                Verdict::New => 0,
                Verdict::Duplicate(_) => 1,
                Verdict::Copy => 2,
                Verdict::OutOfOrder => 3,
                Verdict::Fenced => 4,
                Verdict::Unknown => panic!("everything has been read"),
            }] += 1;
        }
    }
    assert!(seen.iter().all(|count| *count > 500), "{seen:?}");
}

/// The window of a primed record has all names that it should; a node that begins anywhere delivers
/// such records as others do, and says nothing else of a publication than they, unless that it does
/// not know. Two windows behind the time from which on it has all records, each is primed.
#[test]
fn verdicts_do_not_depend_on_where_a_node_began() {
    let (mut same, mut unknown) = (0, 0);
    for seed in 1_000..1_300 {
        let records = records(&mut Prng::new(seed), 400);
        let all = verdicts_of(&records, 0, 0);
        for first in (1..records.len()).step_by(7) {
            let before = records[..first].iter().map(|record| record.second);
            // As exact as it can be, or far too late.
            let complete_from_s = before.max().unwrap() + 1 + if first % 2 == 0 { 0 } else { 7 };
            let late = verdicts_of(&records, first, complete_from_s);
            let mut primed_from_s = complete_from_s + 2 * BOUNDS.window_s;
            for (at, (verdict, _)) in all.iter().enumerate().skip(first) {
                let (late, is_primed) = late[at - first];
                let context = format!("seed {seed}, from {first}, record {at}");
                let second = records[at].second;
                assert!(is_primed || second < primed_from_s, "{context}");
                primed_from_s = primed_from_s.min(second + 2 * BOUNDS.window_s);
                if let Verdict::Duplicate(_) = late {
                    assert_eq!(late, *verdict, "{context}");
                }
                if !is_primed {
                    continue;
                }
                assert_eq!(late == Verdict::New, *verdict == Verdict::New, "{context}");
                if late == Verdict::Unknown {
                    unknown += 1;
                } else {
                    assert_eq!(late, *verdict, "{context}");
                    same += 1;
                }
            }
        }
    }
    println!("{same} verdicts agree, {unknown} unknown");
    assert!(unknown < same / 20 && same > 1_000_000, "{same}, {unknown}");
}

/// The windows of 64 busy partitions take at most 84 MB.
#[test]
fn bytes_of_a_full_window() {
    let once = full_window(1_000, 100);
    println!("{} bytes for {} names", once.allocated_bytes(), once.names_count());
    assert!(once.allocated_bytes() < 84_000_000 / 64, "{}", once.allocated_bytes());
    // If no two names are of one producer, and nodes' runs are forged.
    let once = full_window(1 << 20, 2_000);
    println!("{} bytes for {} names", once.allocated_bytes(), once.names_count());
    assert!(once.allocated_bytes() < 4 << 20, "{}", once.allocated_bytes());
    assert!(once.runs.count() <= 1_024);
}

fn full_window(producers: u64, runs: u64) -> Once {
    let bounds =
        Bounds { window_s: 300, names_max: 32_768, runs_max: 1_024, clocks_apart_ms: 5_000 };
    let mut once = Once::new(bounds, Seed(1, 2), 0);
    for place in 0..100_000_u64 {
        let publication = Publication {
            topic: Slice::copy_of(b"topic"),
            producer: Some(ProducerStamp {
                id: Slice::copy_of(&(place % producers).to_le_bytes()),
                sequence: place,
                connection: 1,
            }),
            ..Publication::default()
        };
        let verdict =
            once.judge(place + 1, place / 100, Some((place % runs, place)), &publication, 0);
        assert_eq!(verdict, Verdict::New);
    }
    once
}
