//! The work of a log thread, over a disk that fails on request.

use broker::disk::{DiskAnswer, DiskLetter, DiskQuery, DiskRequest};
use broker::mail::{HomeId, PageLimits, PartitionId};
use broker::settings::{Durability, LogSettings, Settings};
use log::store::hostile::HostileDisk;
use log::store::{Store, StoreSettings};
use log::{Flags, NewRecord};
use node::logs::{HandOverError, HandedWorker, LogTime, LogWorker};
use node::timing::UNTIMED;
use stdx::chunk::Slice;
use stdx::handing::Input;
use stdx::hash::Seed;

const PARTITIONS: u32 = 4;
const FIRST_PARTITION: PartitionId = PartitionId(10);

/// A worker for two homes; time stands still unless a test moves it.
struct World {
    worker: LogWorker<HostileDisk>,
    disk: HostileDisk,
    now: LogTime,
    heads: [u64; PARTITIONS as usize],
}

impl World {
    fn new() -> World {
        World::on(HostileDisk::new(7))
    }

    /// The log is on this disk already, or begins.
    fn on(disk: HostileDisk) -> World {
        let (store, _) = Store::open(disk.clone(), World::store_settings(), 0).unwrap();
        World {
            worker: LogWorker::new(store, &settings(), 0),
            disk,
            now: LogTime::default(),
            heads: [0; PARTITIONS as usize],
        }
    }

    fn store_settings() -> StoreSettings {
        StoreSettings {
            partitions_count: PARTITIONS,
            segment_bytes: 4 << 10,
            bytes_max: 40 << 10,
            age_max_ms: 0,
            new_epoch: 1,
            hash_seed: Seed(1, 2),
        }
    }

    /// A home publishes to the partition with its number.
    fn publish(&mut self, home: u16, generation: u32, topic: &str, payload: &[u8]) {
        self.publish_since(home, generation, topic, payload, UNTIMED);
    }

    fn publish_since(
        &mut self,
        home: u16,
        generation: u32,
        topic: &str,
        payload: &[u8],
        since_us: u64,
    ) {
        let head = &mut self.heads[usize::from(home)];
        let is_retained = topic.starts_with("kept");
        let record = NewRecord {
            prev: *head,
            flags: [Flags::NONE, Flags::RETAINED][usize::from(is_retained)],
            payload,
            ..NewRecord::default()
        };
        *head += 1;
        let mut bytes = Vec::new();
        record.encode_head(*head, &mut bytes).unwrap();
        bytes.extend_from_slice(payload);
        let append = DiskRequest::Append {
            generation,
            partition: FIRST_PARTITION.nth(u32::from(home)),
            topic: Slice::copy_of(topic.as_bytes()),
            record: Slice::copy_of(&bytes),
        };
        self.worker.take(HomeId(home), since_us, vec![append]);
    }

    fn turn(&mut self) -> Vec<String> {
        let mut letters = Vec::new();
        let now = self.now;
        self.worker.turn(&mut || now, &mut letters);
        letters.iter().map(|(home, letter)| format!("h{} {}", home.0, text_of(letter))).collect()
    }

    fn pass(&mut self, step_ms: u64) {
        self.now.monotonic_us += step_ms * 1_000;
    }
}

fn settings() -> Settings {
    Settings {
        edges_count: 2,
        homes_count: 2,
        logs: vec![LogSettings {
            name: "kept".into(),
            partitions_count: PARTITIONS,
            first_partition: FIRST_PARTITION,
            durability: Durability::Disk,
            epoch: 1,
            ..LogSettings::default()
        }],
        node_name: "test".into(),
        ..Settings::default()
    }
}

fn text_of(letter: &DiskLetter) -> String {
    match letter {
        DiskLetter::Committed { generation, count, result } => {
            format!("g{generation} {count} {result:?}")
        }
        DiskLetter::Answer { token, result } => match result {
            Ok(DiskAnswer::Page { records, .. }) => format!("t{token} {} records", records.len()),
            other => format!("t{token} {other:?}"),
        },
        DiskLetter::Floor { floors, topics } => {
            format!("floors {floors:?} topics {}", topics.len())
        }
        DiskLetter::Available(is) => format!("available {is}"),
    }
}

fn page(token: u64, partition: u32, topic: &str) -> DiskRequest {
    DiskRequest::Read {
        token,
        partition: FIRST_PARTITION.nth(partition),
        query: DiskQuery::Page {
            topic: Slice::copy_of(topic.as_bytes()),
            after: 0,
            through: u64::MAX,
            limits: PageLimits { records_max: 100, bytes_max: 1 << 20 },
        },
    }
}

#[test]
fn a_batch_is_for_all_homes() {
    let mut world = World::new();
    world.publish(0, 0, "a", b"one");
    world.publish(1, 5, "b", b"two");
    world.publish(0, 0, "a", b"three");
    world.worker.take(HomeId(1), UNTIMED, vec![page(9, 0, "a")]);
    assert_eq!(world.turn(), ["h0 g0 2 Ok(())", "h1 g5 1 Ok(())", "h1 t9 2 records"]);
    let counted = world.worker.statistics();
    assert_eq!((counted.batches, counted.batch_records, counted.reads), (1, 3, 1));
}

#[test]
fn a_failed_batch_refuses_its_generation() {
    let mut world = World::new();
    world.publish(0, 0, "a", b"one");
    assert_eq!(world.turn(), ["h0 g0 1 Ok(())"]);
    // A batch is tried twice, the second time in a new file.
    world.disk.fail_syncs(2);
    world.publish(0, 0, "a", b"two");
    world.publish(0, 0, "a", b"three");
    assert_eq!(
        world.turn(),
        ["h0 g0 2 Err(LogUnavailable)", "h0 available false", "h1 available false"]
    );
    // Requests of the old generation are refused even after the disk has recovered; the
    // other home is not concerned.
    world.publish(0, 0, "a", b"four");
    world.publish(1, 0, "b", b"five");
    world.publish(0, 1, "a", b"six");
    assert_eq!(
        world.turn(),
        [
            "h0 g0 1 Err(LogUnavailable)",
            "h1 g0 1 Ok(())",
            "h0 g1 1 Ok(())",
            "h0 available true",
            "h1 available true"
        ]
    );
    world.worker.take(HomeId(0), UNTIMED, vec![page(1, 0, "a")]);
    assert_eq!(world.turn(), ["h0 t1 2 records"], "one and six");
    let counted = world.worker.statistics();
    assert_eq!((counted.batches, counted.batches_failed), (2, 1));
    assert_eq!((counted.batch_records, counted.records_refused), (3, 3));
    // One that failed took its time, too.
    assert_eq!(counted.syncs.count(), 3);
}

#[test]
fn a_full_disk_is_tried_until_it_takes_something() {
    let mut world = World::new();
    world.publish(0, 0, "a", b"one");
    world.turn();
    world.disk.set_capacity(Some(0));
    world.publish(0, 0, "a", b"two");
    assert_eq!(world.turn()[0], "h0 g0 1 Err(LogFull)");
    assert_eq!(world.worker.statistics().unavailable, 1);
    world.pass(1_100);
    assert!(world.turn().is_empty(), "tried, in vain");
    world.disk.set_capacity(None);
    assert!(world.turn().is_empty(), "not before a second has passed");
    world.pass(1_100);
    assert_eq!(world.turn(), ["h0 available true", "h1 available true"]);
    assert_eq!(world.worker.statistics().unavailable, 0);
}

/// The homes know it from what they restore: the worker says only that it is over.
#[test]
fn a_start_on_a_full_disk() {
    let mut world = World::new();
    world.publish(0, 0, "a", b"one");
    world.turn();
    let World { disk, heads, .. } = world;
    disk.kill();
    // The note that the batch is durable may be late.
    assert!(disk.erase("end") && disk.erase("witness"));
    disk.set_capacity(Some(disk.bytes()));

    let mut world = World { heads, ..World::on(disk) };
    assert_eq!(world.worker.statistics().unavailable, 1);
    world.worker.take(HomeId(0), UNTIMED, vec![page(1, 0, "a")]);
    assert_eq!(world.turn(), ["h0 t1 1 records"]);
    // It was on its way before the home knew.
    world.publish(0, 0, "a", b"two");
    assert_eq!(world.turn(), ["h0 g0 1 Err(LogFull)"]);
    world.disk.set_capacity(None);
    world.pass(1_100);
    assert_eq!(world.turn(), ["h0 available true", "h1 available true"]);
    assert_eq!(world.worker.statistics().unavailable, 0);
    world.publish(0, 1, "a", b"three");
    world.worker.take(HomeId(0), UNTIMED, vec![page(2, 0, "a")]);
    assert_eq!(world.turn(), ["h0 g1 1 Ok(())", "h0 t2 2 records"]);
}

#[test]
fn homes_learn_of_dropped_records() {
    let mut world = World::new();
    let mut floors = Vec::new();
    for number in 0..100 {
        world.publish(0, 0, &format!("t{number}"), &[0; 1000]);
        world.pass(1_100);
        let said = world.turn();
        floors.extend(said.into_iter().filter(|text| text.contains("floors")));
    }
    assert!(floors.iter().all(|text| text.starts_with("h0 ")), "{floors:?}");
    let floor = world.worker.store_mut().floor(0);
    assert!(floor > 40, "{floor}");
    let told = format!("({FIRST_PARTITION:?}, {floor})");
    assert!(floors.iter().any(|text| text.contains(&told)), "{floors:?}");
    assert!(world.worker.statistics().segments_dropped > 5);
}

/// A disk that fails to remove files or to read retained messages is counted, and retention
/// continues.
#[test]
fn a_disk_that_refuses_retention() {
    let mut world = World::new();
    world.publish(0, 0, "kept", &[9; 1000]);
    world.turn();
    let first = "0000000000000001.log";
    assert!(world.disk.break_bytes(first, 200..201));
    world.disk.fail_removes(true);
    for number in 0..100 {
        world.publish(0, 0, &format!("t{number}"), &[0; 1000]);
        world.pass(1_100);
        world.turn();
    }
    let counted = world.worker.statistics();
    assert!(counted.expiries_failed > 0 && counted.removals_failed > 0, "{counted:?}");
    assert_eq!(counted.retained_lost, 1);
    assert!(counted.segments_dropped > 5, "{counted:?}");
    assert!(counted.bytes < 60 << 10, "{counted:?}");
}

/// The turn reports the earliest publication of its batch; the next turn begins anew.
#[test]
fn publications_are_on_their_way_until_they_are_durable() {
    let mut world = World::new();
    world.worker.take(HomeId(1), 5, vec![page(1, 0, "a")]);
    world.turn();
    assert_eq!(
        world.worker.committed_since_us(),
        UNTIMED,
        "a read does not count as a publication"
    );
    for since_us in [9, 7, 8] {
        world.publish_since(0, 0, "a", b"x", since_us);
    }
    world.turn();
    assert_eq!(world.worker.committed_since_us(), 7);
    world.turn();
    assert_eq!(world.worker.committed_since_us(), UNTIMED);
}

/// The counters include the findings of a start.
#[test]
fn a_start_that_found_damage() {
    let mut world = World::new();
    world.worker.note_start(70, 2);
    let counted = world.worker.statistics();
    assert_eq!((counted.torn_bytes, counted.damages), (70, 2));
}

/// An error of the system says nothing about what lies on the disk: that read is refused, to be
/// asked again. Bytes that are not those that were written are damage, however often they are read.
#[test]
fn reads_that_fail_and_reads_that_find_damage() {
    let mut world = World::new();
    world.publish(0, 0, "a", b"one");
    world.publish(0, 0, "a", b"twotwo");
    world.turn();
    // Both records together, and each alone.
    world.disk.fail_reads(3);
    world.worker.take(HomeId(0), UNTIMED, vec![page(1, 0, "a"), page(2, 0, "a")]);
    assert_eq!(world.turn(), ["h0 t1 Err(LogUnavailable)", "h0 t2 2 records"]);
    let counted = world.worker.statistics();
    assert_eq!((counted.reads_failed, counted.reads_damaged), (1, 0));

    let names = world.disk.names();
    let segment = names.iter().find(|name| name.ends_with(".log")).unwrap();
    let bytes = world.disk.bytes_of(segment).unwrap();
    let place = bytes.windows(6).position(|part| part == b"twotwo").unwrap();
    world.disk.flip_bit(segment, place as u64, 0);
    world.worker.take(HomeId(0), UNTIMED, vec![page(3, 0, "a"), page(4, 0, "a")]);
    assert_eq!(world.turn(), ["h0 t3 1 records", "h0 t4 1 records"]);
    let counted = world.worker.statistics();
    assert_eq!((counted.reads_failed, counted.reads_damaged), (1, 2));
}

/// The state of a worker includes waiting reads, refused homes, the clock and the counters.
#[test]
fn a_worker_is_handed_over() {
    let mut world = World::new();
    world.publish(0, 1, "a", b"one");
    assert_eq!(world.turn(), ["h0 g1 1 Ok(())"]);
    world.disk.fail_syncs(3);
    world.publish(1, 1, "b", b"refused");
    let told = ["h1 g1 1 Err(LogUnavailable)", "h0 available false", "h1 available false"];
    assert_eq!(world.turn(), told);
    world.disk.stop_faults();
    world.publish(0, 1, "a", b"two");
    world.turn();
    world.worker.take(HomeId(0), UNTIMED, vec![page(7, 0, "a")]);
    world.publish(0, 1, "a", b"three");

    let mut letters = Vec::new();
    let mut state = Vec::new();
    let busy = world.worker.hand_over(&mut state, &mut letters);
    assert_eq!(busy, Err(HandOverError::Busy));
    let now = world.now;
    assert!(!world.worker.frozen_turn(&mut || now, &mut letters));
    assert_eq!(letters.len(), 1, "no read is served: {letters:?}");
    let counted = world.worker.statistics();
    world.worker.hand_over(&mut state, &mut letters).unwrap();

    let mut input = Input::new(&state);
    let handed = HandedWorker::take(&mut input).unwrap();
    assert_eq!(input.left(), 0);
    let store = Store::take_over(world.disk.clone(), World::store_settings(), &handed.log);
    let worker = LogWorker::take_over(store.unwrap(), &settings(), 0, handed).unwrap();
    world.worker = worker;
    world.worker.store_mut().begin().unwrap();
    let going_on = world.worker.statistics();
    assert_eq!(
        (going_on.batches, going_on.batches_failed, going_on.syncs),
        (counted.batches, counted.batches_failed, counted.syncs)
    );
    assert_eq!(world.turn(), ["h0 t7 3 records"]);
    world.publish(1, 1, "b", b"of the same generation");
    assert_eq!(world.turn(), ["h1 g1 1 Err(LogUnavailable)"]);
    world.publish(1, 2, "b", b"of the next");
    assert_eq!(world.turn(), ["h1 g2 1 Ok(())"]);
}

/// A log that takes nothing, or cannot be closed, stays where it is; homes hear of it.
#[test]
fn a_worker_whose_disk_fails_stays() {
    let mut world = World::new();
    world.publish(0, 1, "a", b"one");
    world.turn();
    let (mut state, mut letters) = (Vec::new(), Vec::new());
    world.disk.fail_syncs(8);
    let failed = world.worker.hand_over(&mut state, &mut letters);
    assert!(matches!(failed, Err(HandOverError::Store(_))), "{failed:?}");
    let told: Vec<String> =
        letters.iter().map(|(home, letter)| format!("h{} {}", home.0, text_of(letter))).collect();
    assert_eq!(told, ["h0 available false", "h1 available false"]);
    let refused = world.worker.hand_over(&mut state, &mut letters);
    assert_eq!(refused, Err(HandOverError::Unavailable));
    world.disk.stop_faults();
    world.pass(1_000);
    assert_eq!(world.turn(), ["h0 available true", "h1 available true"]);
    world.worker.hand_over(&mut state, &mut letters).unwrap();
}
