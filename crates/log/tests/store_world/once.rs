//! Identities of publications, as a start reads them from the indexes, against the records
//! themselves.

use super::{Everything, Faults, World};
use log::RecordView;
use log::store::{OnceWindow, SegmentOnce};
use std::collections::BTreeMap;

/// Sequence, offset and topic by partition and producer, newest first.
type Sent = BTreeMap<(u32, Vec<u8>), Vec<(u64, u64, Vec<u8>)>>;

/// Partition, topic, key, offset, time.
type Key = (u32, Vec<u8>, Vec<u8>, u64, u64);

/// Requests a number of each producer's newest publications.
struct Window {
    each: usize,
    sent: Sent,
    /// Keys, newest first.
    keys: Vec<Key>,
}

impl OnceWindow for Window {
    fn publications_wanted(&self, partition: u32, producer: &[u8]) -> u32 {
        let known = self.sent.get(&(partition, producer.to_vec()));
        (self.each - known.map_or(0, Vec::len)) as u32
    }

    fn wants_keys(&self) -> bool {
        true
    }

    fn take(&mut self, found: SegmentOnce) {
        let name = |place: u32| found.topics[place as usize].1.to_vec();
        for producer in &found.producers {
            let key = (producer.partition, producer.id.to_vec());
            let sent = self.sent.entry(key).or_default();
            let newest_first = producer.publications.iter().rev();
            sent.extend(newest_first.map(|one| (one.sequence, one.offset, name(one.topic))));
        }
        for key in found.keys.iter().rev() {
            let partition = found.topics[key.topic as usize].0;
            let (topic, bytes) = (name(key.topic), key.key.to_vec());
            self.keys.push((partition, topic, bytes, key.offset, key.time_ms));
        }
    }
}

impl World {
    pub(super) fn check_once(&mut self, read: &Everything) {
        let mut window =
            Window { each: self.prng.between(1, 40) as usize, sent: Sent::new(), keys: Vec::new() };
        self.store.as_mut().unwrap().once(&mut window).unwrap();
        let (mut sent, mut keys) = (Sent::new(), Vec::new());
        for ((partition, offset), publication) in read.visible.iter().rev() {
            let record = RecordView::parse(&publication.bytes).unwrap();
            if let Some(producer) = record.producer() {
                let sent = sent.entry((*partition, producer.id.to_vec())).or_default();
                if sent.len() < window.each {
                    sent.push((producer.sequence, *offset, publication.topic.clone()));
                }
            }
            if let Some(key) = record.idempotency_key() {
                let topic = publication.topic.clone();
                keys.push((*partition, topic, key.to_vec(), *offset, record.time_ms()));
            }
        }
        window.keys.sort_unstable();
        keys.sort_unstable();
        if self.faults == Faults::Lossy {
            assert_eq!(window.sent, sent);
            assert_eq!(window.keys, keys);
        } else {
            // An index may have records that were damaged later.
            for key in &keys {
                assert!(window.keys.contains(key), "{key:?} is forgotten");
            }
        }
    }
}
