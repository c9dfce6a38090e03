//! The size of a log's files with many retained messages, and reads of dropped records.

use log::store::hostile::HostileDisk;
use log::store::{Append, ScanQuery, Store, StoreSettings};
use log::{Flags, NewRecord, PageLimits};
use stdx::hash::Seed;

const BYTES_MAX: u64 = 64 << 10;
const SEGMENT_BYTES: u64 = 8 << 10;
const PAYLOAD_BYTES: usize = 500;

struct Log {
    store: Store<HostileDisk>,
    next_offset: u64,
    /// The maximum and minimum size of all files after retention, since the last reset.
    bytes_most: u64,
    bytes_least: u64,
}

impl Log {
    fn new() -> Log {
        let settings = StoreSettings {
            partitions_count: 1,
            segment_bytes: SEGMENT_BYTES,
            bytes_max: BYTES_MAX,
            age_max_ms: 0,
            new_epoch: 1,
            hash_seed: Seed(1, 2),
        };
        let (store, _) = Store::open(HostileDisk::new(1), settings, 1_000).unwrap();
        Log { store, next_offset: 1, bytes_most: 0, bytes_least: u64::MAX }
    }

    /// Appends a message, then runs all due retention steps, as a log thread does.
    fn append(&mut self, topic: &str, is_retained: bool) {
        let payload = [b'x'; PAYLOAD_BYTES];
        let record = NewRecord {
            topic: 0,
            prev: 0,
            time_ms: 1_000,
            flags: if is_retained { Flags::RETAINED } else { Flags::NONE },
            content_type: None,
            tags: &[],
            producer: None,
            idempotency_key: None,
            further: &[],
            payload: &payload,
        };
        let mut bytes = Vec::new();
        record.encode_head(self.next_offset, &mut bytes).unwrap();
        bytes.extend_from_slice(&payload);
        self.next_offset += 1;
        let append = Append { partition: 0, topic: topic.as_bytes(), record: &bytes };
        self.store.append(&[append], 1_000).unwrap();
        for step in 0.. {
            if self.store.expire(1_000).unwrap().is_none() {
                break;
            }
            assert!(step < 1_000, "retention does not come to an end");
        }
        self.bytes_most = self.bytes_most.max(self.store.bytes());
        self.bytes_least = self.bytes_least.min(self.store.bytes());
    }

    fn retained(&mut self) -> usize {
        let mut count = 0;
        self.store.retained(&mut |_, _, _| count += 1).unwrap();
        count
    }
}

/// Retained messages fill the oldest segments; later segments are dropped all the same.
#[test]
fn old_retained_messages_do_not_block_retention() {
    let mut log = Log::new();
    for number in 0..60 {
        log.append(&format!("kept/{number}"), true);
    }
    for number in 0..3_000 {
        log.append(&format!("passing/{}", number % 7), false);
    }
    assert_eq!(log.retained(), 60);
    let bound = BYTES_MAX + BYTES_MAX / 2 + SEGMENT_BYTES;
    assert!(log.bytes_most <= bound, "{} of {bound}", log.bytes_most);
}

/// More retained messages than the log's bound: they are kept, and the log grows to at most one and
/// a half times that size.
#[test]
fn excess_retained_messages_are_kept_within_a_bound() {
    let mut log = Log::new();
    for number in 0..200 {
        log.append(&format!("kept/{number}"), true);
    }
    log.bytes_least = u64::MAX;
    for number in 0..3_000 {
        log.append(&format!("passing/{}", number % 7), false);
    }
    assert_eq!(log.retained(), 200);
    // After a sweep there are only the retained messages, in segments that are small here, each
    // with its index.
    let bound = log.bytes_least + log.bytes_least / 2 + SEGMENT_BYTES;
    assert!(log.bytes_least > BYTES_MAX && log.bytes_least < 200 * 1_100);
    assert!(log.bytes_most <= bound, "{} of {bound}", log.bytes_most);
}

/// A page of dropped records ends where it was asked to: its reader may have in memory the records
/// behind that, which the disk has dropped as well.
#[test]
fn a_scan_of_dropped_records_does_not_pass_its_end() {
    let mut log = Log::new();
    for _ in 0..400 {
        log.append("a", false);
    }
    let floor = log.store.read_floor(0);
    assert!(floor > 100, "{floor}");
    let limits = PageLimits { records_max: 100, bytes_max: 1 << 20 };
    for (through, expected) in [(50, 50), (floor - 2, floor - 2), (floor - 1, floor - 1)] {
        let wanted = ScanQuery { after: 10, through, limits, bytes_scanned_max: 1 << 20 };
        let found = log.store.scan(0, wanted, &mut |_| true).unwrap();
        assert_eq!((found.records.len(), found.through, found.damaged), (0, expected, false));
    }
    let wanted = ScanQuery { after: 10, through: floor, limits, bytes_scanned_max: 1 << 20 };
    let found = log.store.scan(0, wanted, &mut |_| true).unwrap();
    assert_eq!((found.records.len(), found.through), (1, floor));
}
