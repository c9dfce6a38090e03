//! A store, its disk, and their invariants.

mod damage;
mod handing;
mod losses;
mod once;
mod topic_reads;

use log::store::hostile::HostileDisk;
use log::store::{
    Append, DiskError, OpenError, Recovered, ScanQuery, Store, StoreError, StoreSettings,
};
use log::{Flags, PageLimits, RecordView};
use std::collections::BTreeMap;
use stdx::hash::{Seed, partition_of};
use stdx::prng::Prng;

const PARTITIONS: u32 = 3;
const EVERYTHING: PageLimits = PageLimits { records_max: usize::MAX, bytes_max: usize::MAX };

/// The faults of synced data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Faults {
    /// No faults.
    Lossy,
    /// Flipped bits and missing files.
    Damaging,
}

/// A publication.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Publication {
    topic: Vec<u8>,
    bytes: Vec<u8>,
}

impl Publication {
    fn view(&self) -> RecordView<'_> {
        RecordView::parse(&self.bytes).unwrap()
    }

    /// Whether both are equal, apart from topic id and checksum.
    fn is(&self, topic: &[u8], record: &[u8]) -> bool {
        let same =
            |range: std::ops::Range<usize>| self.bytes.get(range.clone()) == record.get(range);
        self.topic == topic
            && self.bytes.len() == record.len()
            && same(0..4)
            && same(8..32)
            && same(36..record.len())
    }
}

type Place = (u32, u64);
type Batch = Vec<(Place, Publication)>;

pub struct World {
    faults: Faults,
    may_damage: bool,
    /// A start had no room to rewrite damaged data: an index, or the copy of the facts from another
    /// segment's head.
    is_unrepaired: bool,
    prng: Prng,
    disk: HostileDisk,
    store: Option<Store<HostileDisk>>,
    now_ms: u64,
    epochs_begun: u64,
    epoch: u64,
    topics: Vec<Vec<u8>>,
    /// Publications that were acknowledged and not dropped by retention.
    present: BTreeMap<Place, Publication>,
    /// Publications that were ever acknowledged, dropped or not: the meaning of a place during the
    /// epoch.
    meaning: BTreeMap<Place, Publication>,
    /// The last publication of each topic.
    lasts: BTreeMap<Vec<u8>, u64>,
    retained: BTreeMap<(u32, Vec<u8>), Publication>,
    /// Batches refused since the last success.
    refused: Vec<Batch>,
    /// The last acknowledged batch: damage there looks like an unfinished batch.
    last_batch: Vec<Place>,
    next_offsets: Vec<u64>,
    floors: Vec<u64>,
    /// Publications lost to damage. Another copy may still contain them.
    ghosts: BTreeMap<Place, Publication>,
    /// A backup.
    copy: Option<losses::Copy>,
    /// The generator of hand-overs, if the world has them.
    hand_overs: Option<Prng>,
    handed: u32,
}

impl World {
    pub fn new(seed: u64, faults: Faults) -> World {
        let mut prng = Prng::new(seed);
        let disk = HostileDisk::new(prng.next_u64());
        if seed % 4 == 3 {
            disk.copy_on_write();
        }
        let topics = (0..6).map(|number| format!("t/{number}").into_bytes());
        World {
            faults,
            may_damage: faults == Faults::Damaging,
            is_unrepaired: false,
            disk,
            store: None,
            now_ms: 1_000_000,
            epochs_begun: 0,
            epoch: 0,
            topics: topics.collect(),
            present: BTreeMap::new(),
            meaning: BTreeMap::new(),
            lasts: BTreeMap::new(),
            retained: BTreeMap::new(),
            refused: Vec::new(),
            last_batch: Vec::new(),
            next_offsets: vec![1; PARTITIONS as usize],
            floors: vec![1; PARTITIONS as usize],
            ghosts: BTreeMap::new(),
            copy: None,
            hand_overs: None,
            handed: 0,
            prng,
        }
    }

    pub fn run(&mut self, steps: u32) {
        for _ in 0..steps {
            if self.store.is_none() {
                self.open();
            }
            match self.prng.below(100) {
                0..50 => self.append(),
                50..58 => self.fail(),
                58..64 => self.expire(),
                64..70 => self.stop("crash"),
                70..74 => self.stop("kill"),
                74..78 => self.close(),
                78..80 => self.disk.stop_after(self.prng.below(40) as u32),
                80..84 => self.now_ms += self.prng.below(3_000),
                84..88 => self.probe(),
                _ => self.read(),
            }
            self.hand_over();
            self.back_up();
        }
        self.disk.set_capacity(None);
        self.stop("kill");
        self.open();
        let read = self.everything();
        self.check_everything(&read);
    }

    fn note(&self, text: String) {
        println!("{text}");
    }

    fn open(&mut self) {
        for attempt in 0.. {
            if attempt > 0 || self.prng.chance(0.7) {
                self.disk.set_capacity(None);
            } else if self.prng.chance(0.5) {
                let room = [0, self.prng.below(3_000)][self.prng.below(2) as usize];
                self.disk.set_capacity(Some(self.disk.bytes() + room));
            }
            if attempt == 0 && self.prng.chance(0.1) {
                let calls = self.prng.below(30) as u32;
                self.disk.stop_after(calls);
            }
            self.epochs_begun += 1;
            match Store::open(self.disk.clone(), self.settings(), self.now_ms) {
                Ok((store, recovered)) => {
                    let is_available = store.is_available();
                    self.note(format!("opened, available {is_available}: {recovered:?}"));
                    self.store = Some(store);
                    self.is_unrepaired = !is_available;
                    return self.recovered(&recovered, attempt > 0);
                }
                Err(OpenError::Disk(error) | OpenError::Unreadable { error, .. }) => {
                    self.note(format!("open refused: {error}"));
                    if self.prng.chance(0.5) { self.disk.crash() } else { self.disk.kill() }
                }
                Err(error) => panic!("{error}"),
            }
            assert!(attempt < 5, "the log cannot be opened");
        }
    }

    fn settings(&self) -> StoreSettings {
        StoreSettings {
            partitions_count: PARTITIONS,
            segment_bytes: 4096,
            bytes_max: 40_000,
            age_max_ms: 20_000,
            new_epoch: 1_000 + self.epochs_begun,
            hash_seed: Seed(1, 2),
        }
    }

    fn recovered(&mut self, recovered: &Recovered, was_refused: bool) {
        // The store's operation at the stop of the disk has ended.
        self.disk.stop_faults();
        let was_empty = self.meaning.is_empty();
        if recovered.epoch != self.epoch {
            let is_first = self.epoch == 0 || was_empty;
            assert!(
                is_first || was_refused || !recovered.damages.is_empty(),
                "a new epoch without damage"
            );
            assert!(is_first || self.faults == Faults::Damaging, "a new epoch for nothing");
        }
        let valid_below = match recovered.older.iter().find(|older| older.epoch == self.epoch) {
            _ if recovered.epoch == self.epoch => vec![u64::MAX; PARTITIONS as usize],
            Some(older) => older.valid_below.clone(),
            None => vec![0; PARTITIONS as usize],
        };
        let read = self.everything();
        self.take_refused(&read);
        self.check_visible(&read);
        let lost: Vec<Place> = self
            .present
            .keys()
            .copied()
            .filter(|place| !read.visible.contains_key(place))
            .collect();
        for place in &lost {
            let is_announced = place.1 >= valid_below[place.0 as usize]
                || place.1 < recovered.floors[place.0 as usize]
                || read.damaged[place.0 as usize]
                || self.last_batch.contains(place);
            assert!(
                self.faults == Faults::Damaging && is_announced,
                "the loss of {place:?} is not reported"
            );
        }
        self.check_damage(recovered, &lost);
        self.check_heads(recovered, &read);
        if !lost.is_empty() || recovered.epoch != self.epoch {
            self.ghosts.append(&mut self.meaning.clone());
            self.meaning.retain(|place, _| !lost.contains(place));
            if recovered.epoch != self.epoch {
                self.meaning.clone_from(&read.visible);
            }
            self.present.retain(|place, _| !lost.contains(place));
        }
        self.epoch = recovered.epoch;
        self.lasts.clear();
        for ((_, offset), publication) in &self.present {
            self.lasts.insert(publication.topic.clone(), *offset);
        }
        self.check_retained(!lost.is_empty());
        self.check_topics(&read);
        self.check_recent(&read, recovered);
        self.check_once(&read);
        if recovered.damages.is_empty() && self.faults == Faults::Lossy {
            self.check_everything(&read);
        }
    }

    /// No offset is used twice, and all visible ones are below the heads.
    fn check_heads(&mut self, recovered: &Recovered, read: &Everything) {
        for partition in 0..PARTITIONS {
            let head = recovered.heads[partition as usize];
            let greatest = read.visible.range((partition, 0)..=(partition, u64::MAX)).next_back();
            assert!(greatest.is_none_or(|((_, offset), _)| *offset <= head));
            let meant = self.meaning.range((partition, 0)..=(partition, u64::MAX)).next_back();
            let meant = meant.map_or(0, |((_, offset), _)| *offset);
            let is_tail = self.last_batch.iter().any(|place| place.0 == partition);
            assert!(
                head >= meant
                    || is_tail && self.faults == Faults::Damaging
                    || recovered.epoch != self.epoch,
                "offsets up to {meant} of {partition} would be used again: {head}"
            );
            // A home continues above the head, and may skip offsets.
            self.next_offsets[partition as usize] = head + 1 + self.prng.below(2);
        }
    }

    /// A restart may find a refused batch before any later success, but only as a whole.
    fn take_refused(&mut self, read: &Everything) {
        for (place, found) in &read.visible {
            let ghost = self.ghosts.get(place);
            if ghost.is_some_and(|ghost| ghost.is(&found.topic, &found.bytes)) {
                self.meaning.entry(*place).or_insert_with(|| found.clone());
            }
        }
        let is_new = |place: &Place| !self.meaning.contains_key(place);
        let extra: Vec<Place> = read.visible.keys().copied().filter(is_new).collect();
        if extra.is_empty() {
            // A damaged index may have known that the batch is not valid.
            if self.faults == Faults::Lossy {
                self.refused.clear();
            }
            return;
        }
        let is_it = |batch: &&Batch| {
            batch.iter().map(|(place, _)| place).eq(extra.iter()) || {
                let mut places: Vec<Place> = batch.iter().map(|(place, _)| *place).collect();
                places.sort_unstable();
                let found: Vec<Place> =
                    places.iter().copied().filter(|place| extra.contains(place)).collect();
                found == extra && (found == places || self.faults == Faults::Damaging)
            }
        };
        let batch = self.refused.iter().rev().filter(is_it).find(|batch| {
            batch.iter().all(|(place, publication)| {
                read.visible
                    .get(place)
                    .is_none_or(|found| found.is(&publication.topic, &publication.bytes))
            })
        });
        let batch = batch.unwrap_or_else(|| panic!("{extra:?} come from nowhere")).clone();
        self.refused.clear();
        let batch: Batch =
            batch.into_iter().filter(|(place, _)| read.visible.contains_key(place)).collect();
        self.acknowledged(batch);
    }

    fn acknowledged(&mut self, batch: Batch) {
        self.last_batch = batch.iter().map(|(place, _)| *place).collect();
        for (place, publication) in batch {
            let view = publication.view();
            let key = (place.0, publication.topic.clone());
            if view.flags().has(Flags::RETAINED) {
                if view.payload().is_empty() {
                    self.retained.remove(&key)
                } else {
                    self.retained.insert(key, publication.clone())
                };
            }
            let before = self.meaning.insert(place, publication.clone());
            assert!(before.is_none(), "{place:?} is used again");
            self.lasts.insert(publication.topic.clone(), place.1);
            self.present.insert(place, publication);
        }
        self.refused.clear();
    }

    fn append(&mut self) {
        let count = 1 + self.prng.below(6);
        let mut batch = Batch::new();
        let mut lasts = self.lasts.clone();
        for _ in 0..count {
            let topic = self.topics[self.prng.below(self.topics.len() as u64) as usize].clone();
            let partition = partition_of(&topic, PARTITIONS);
            let next = &mut self.next_offsets[partition as usize];
            let offset = *next + u64::from(self.prng.chance(0.1));
            *next = offset + 1;
            let prev = lasts.insert(topic.clone(), offset).unwrap_or(0);
            let bytes = record(&mut self.prng, offset, prev, self.now_ms);
            batch.push(((partition, offset), Publication { topic, bytes }));
        }
        let appends: Vec<Append<'_>> = batch
            .iter()
            .map(|((partition, _), publication)| Append {
                partition: *partition,
                topic: &publication.topic,
                record: &publication.bytes,
            })
            .collect();
        self.now_ms += self.prng.below(200);
        let store = self.store.as_mut().unwrap();
        let result = store.append(&appends, self.now_ms);
        let places: Vec<Place> = batch.iter().map(|(place, _)| *place).collect();
        self.note(format!("append {places:?}: {result:?}"));
        match result {
            Ok(()) => self.acknowledged(batch),
            Err(StoreError::Disk(_)) => self.refused.push(batch),
            Err(error) => panic!("{error}"),
        }
    }

    fn fail(&mut self) {
        let count = 1 + self.prng.below(4) as u32;
        match self.prng.below(5) {
            0 => self.disk.fail_writes(count, DiskError::NoSpace),
            1 => self.disk.fail_writes(count, DiskError::Io(5)),
            2 => self.disk.fail_syncs(count),
            3 => self.disk.set_capacity(Some(self.disk.bytes() + self.prng.below(6_000))),
            _ => self.disk.set_capacity(None),
        }
        self.note(format!("faults {count}"));
    }

    fn probe(&mut self) {
        let result = self.store.as_mut().unwrap().probe(self.now_ms);
        self.note(format!("probe {result:?}"));
        let store = self.store.as_ref().unwrap();
        assert_eq!(result.is_ok(), store.is_available());
        if result.is_ok() && !self.refused.is_empty() {
            // A later success makes the refused batches invalid.
            self.refused.clear();
        }
    }

    fn expire(&mut self) {
        for _ in 0..200 {
            let result = self.store.as_mut().unwrap().expire(self.now_ms);
            self.note(format!("expire {result:?}"));
            let Ok(Some(dropped)) = result else {
                return;
            };
            for (partition, floor) in &dropped.floors {
                // A segment whose removal was not durable may return, and be removed again.
                let known = &mut self.floors[*partition as usize];
                *known = (*floor).max(*known);
            }
            let floors = self.floors.clone();
            let gone = |place: &Place| place.1 < floors[place.0 as usize];
            for (place, publication) in self.present.iter().filter(|(place, _)| gone(place)) {
                let topic = (place.0, &publication.topic[..]);
                assert!(
                    dropped.topics.iter().any(|(partition, name)| (*partition, &name[..]) == topic)
                        || self.faults == Faults::Damaging
                );
            }
            self.present.retain(|place, _| !gone(place));
        }
        panic!("expiry never ends");
    }

    fn close(&mut self) {
        let result = self.store.as_mut().unwrap().close();
        self.note(format!("close {result:?}"));
        if result.is_ok() {
            self.last_batch.clear();
        }
        let how = if self.prng.chance(0.5) { "kill" } else { "crash" };
        self.stop(how);
    }

    fn stop(&mut self, how: &str) {
        self.note(how.to_owned());
        self.store = None;
        match how {
            "crash" => self.disk.crash(),
            _ => self.disk.kill(),
        }
        if self.may_damage && !self.is_unrepaired && self.prng.chance(0.3) {
            self.damage();
        }
    }

    fn everything(&mut self) -> Everything {
        let store = self.store.as_mut().unwrap();
        let mut read = Everything { visible: BTreeMap::new(), damaged: Vec::new() };
        for partition in 0..PARTITIONS {
            let (mut after, mut is_damaged) = (0, false);
            while after < u64::MAX - 1 {
                let wanted = ScanQuery {
                    after,
                    through: u64::MAX - 1,
                    limits: EVERYTHING,
                    bytes_scanned_max: u64::MAX,
                };
                let found = store.scan(partition, wanted, &mut |_| true).unwrap();
                assert!(!found.damaged || found.records.is_empty());
                assert!(found.through > after, "a page advances");
                for (topic, record) in found.records {
                    let offset = RecordView::parse(&record).unwrap().offset();
                    let publication = Publication { topic: topic.to_vec(), bytes: record.to_vec() };
                    assert!(read.visible.insert((partition, offset), publication).is_none());
                }
                is_damaged |= found.damaged;
                after = found.through;
            }
            read.damaged.push(is_damaged);
        }
        read
    }

    /// All visible records are those that were appended there.
    fn check_visible(&self, read: &Everything) {
        for (place, found) in &read.visible {
            let meant = self
                .meaning
                .get(place)
                .unwrap_or_else(|| panic!("{place:?} was never acknowledged"));
            assert!(meant.is(&found.topic, &found.bytes), "{place:?} has changed");
        }
    }

    /// All records that were acknowledged and not dropped are visible.
    fn check_everything(&self, read: &Everything) {
        self.check_visible(read);
        if self.faults == Faults::Lossy {
            for place in self.present.keys() {
                assert!(read.visible.contains_key(place), "{place:?} is lost");
            }
            assert!(!read.damaged.contains(&true));
        }
    }

    fn check_retained(&mut self, is_lost: bool) {
        let mut found = BTreeMap::new();
        let store = self.store.as_mut().unwrap();
        store
            .retained(&mut |partition, topic, record| {
                let publication =
                    Publication { topic: topic.to_vec(), bytes: record.bytes().to_vec() };
                assert!(found.insert((partition, topic.to_vec()), publication).is_none());
            })
            .unwrap();
        if self.faults == Faults::Damaging || is_lost {
            self.retained = found;
            return;
        }
        assert_eq!(found.len(), self.retained.len(), "{found:?} {:?}", self.retained);
        for (key, publication) in &self.retained {
            assert!(found[key].is(&publication.topic, &publication.bytes));
        }
    }

    fn check_topics(&mut self, read: &Everything) {
        let mut found = BTreeMap::new();
        let store = self.store.as_mut().unwrap();
        store
            .topics(&mut |partition, topic, last| {
                assert!(found.insert((partition, topic.to_vec()), last).is_none());
            })
            .unwrap();
        for ((partition, offset), publication) in &read.visible {
            let last = found[&(*partition, publication.topic.clone())];
            assert!(last >= *offset);
        }
        for ((partition, topic), last) in found {
            let is_visible =
                read.visible.get(&(partition, last)).is_some_and(|found| found.topic == topic);
            let is_retained = self
                .retained
                .get(&(partition, topic))
                .is_some_and(|kept| kept.view().offset() == last);
            assert!(is_visible || is_retained || self.faults == Faults::Damaging);
        }
    }

    fn check_recent(&mut self, read: &Everything, recovered: &Recovered) {
        let bytes_max = self.prng.below(20_000);
        let mut found: Vec<Vec<u64>> = vec![Vec::new(); PARTITIONS as usize];
        let mut bytes = 0;
        let store = self.store.as_mut().unwrap();
        store
            .recent(bytes_max, &mut |partition, topic, record| {
                bytes += record.bytes().len() as u64;
                found[partition as usize].push(record.offset());
                let publication = &read.visible[&(partition, record.offset())];
                assert!(publication.is(topic, record.bytes()));
            })
            .unwrap();
        assert!(bytes <= bytes_max);
        for (partition, offsets) in (0..).zip(found) {
            let visible = read.visible.range((partition, 0)..=(partition, u64::MAX));
            let visible: Vec<u64> = visible.map(|((_, offset), _)| *offset).collect();
            let damaged_through = recovered.damaged_through[partition as usize];
            assert!(offsets.iter().all(|offset| *offset > damaged_through));
            assert!(visible.ends_with(&offsets) || self.faults == Faults::Damaging);
        }
    }
}

struct Everything {
    visible: BTreeMap<Place, Publication>,
    damaged: Vec<bool>,
}

/// A producer, a key, or neither.
fn fields(prng: &mut Prng, offset: u64) -> Vec<u8> {
    let (kind, value) = match prng.below(6) {
        0 | 1 => {
            let id = format!("producer {}", prng.below(4));
            (3, [&offset.to_le_bytes(), id.as_bytes()].concat())
        }
        2 => (4, format!("key {}", prng.below(1_000)).into_bytes()),
        _ => return Vec::new(),
    };
    let length = (value.len() as u16).to_le_bytes();
    [&[kind], &length[..], &value].concat()
}

fn record(prng: &mut Prng, offset: u64, prev: u64, time_ms: u64) -> Vec<u8> {
    let payload_bytes = match prng.below(20) {
        0..4 => 0,
        4..18 => prng.below(400),
        18 => prng.below(3_000),
        _ => prng.below(9_000),
    };
    let mut payload = vec![0; payload_bytes as usize];
    prng.fill(&mut payload);
    let flags = if prng.chance(0.2) { Flags::RETAINED } else { Flags::NONE };
    let fields = fields(prng, offset);
    let mut bytes = Vec::new();
    let length = 40 + fields.len() + payload_bytes as usize;
    bytes.extend_from_slice(&(length as u32).to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    for field in [offset, prev, time_ms] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.extend_from_slice(&7u32.to_le_bytes());
    bytes.extend_from_slice(&flags.0.to_le_bytes());
    bytes.extend_from_slice(&(fields.len() as u16).to_le_bytes());
    bytes.extend_from_slice(&fields);
    bytes.extend_from_slice(&payload);
    bytes
}
