//! Reads of one topic, with arguments of any kind, against the list.

use super::{Faults, Place, World};
use log::store::StartQuery;
use log::{PageLimits, RecordView};
use stdx::hash::partition_of;

impl World {
    /// Reads a topic in all ways, with arguments of any kind.
    pub(super) fn read(&mut self) {
        if self.faults == Faults::Damaging {
            return; // `recovered` reads everything; the results here must be exact
        }
        let topic = self.topics[self.prng.below(self.topics.len() as u64) as usize].clone();
        let partition = partition_of(&topic, super::PARTITIONS);
        let head = self.next_offsets[partition as usize] + 3;
        let (one, other) = (self.prng.below(head), self.prng.below(head));
        let (after, through) = (one.min(other), one.max(other));
        let limits = PageLimits {
            records_max: self.prng.below(6) as usize,
            bytes_max: self.prng.below(4_000) as usize,
        };
        let floor = self.floors[partition as usize];
        let of_topic = |place: &Place| self.meaning[place].topic == topic;
        let (low, high) = ((partition, after.max(floor - 1) + 1), (partition, through));
        let expected: Vec<u64> = if low <= high {
            self.present
                .range(low..=high)
                .map(|(place, _)| *place)
                .filter(of_topic)
                .map(|place| place.1)
                .collect()
        } else {
            Vec::new()
        };
        let stopped = self.store.as_mut().unwrap();
        let offsets = |records: &[stdx::chunk::Slice]| -> Vec<u64> {
            let records = records.iter();
            records
                .map(|record| RecordView::parse(record).unwrap().offset())
                .filter(|offset| *offset >= floor)
                .collect()
        };
        // A stopped disk returns nothing.
        let Ok(page) = stopped.page(partition, &topic, after, through, limits) else {
            return;
        };
        let got = offsets(&page.records);
        assert!(!page.damaged && expected.starts_with(&got), "{got:?} of {expected:?}");
        assert!(
            page.complete == (got == expected) || page.records.len() > got.len() || got == expected
        );
        assert!(!page.complete || got == expected);
        if let Some(first) = page.records.first() {
            assert_eq!(page.first_prev, Some(RecordView::parse(first).unwrap().prev()));
        }
        let Ok(page) = stopped.page_back(partition, &topic, through + 1, after + 1, limits) else {
            return;
        };
        let got = offsets(&page.records);
        let back: Vec<u64> = expected.iter().rev().copied().collect();
        assert!(!page.damaged && back.starts_with(&got), "{got:?} of {back:?}");
        assert!(!page.complete || got == back);
        self.read_start(partition, &topic, (after, through));
    }

    /// Finds the start of a replay and compares it with the list.
    fn read_start(&mut self, partition: u32, topic: &[u8], (after, through): (u64, u64)) {
        let floor = self.floors[partition as usize];
        let of_topic = |place: &Place| self.meaning[place].topic == topic;
        let high = (partition, through);
        let wanted = StartQuery {
            through,
            count: self.prng.below(5) as u32,
            not_before_ms: self.now_ms.saturating_sub(self.prng.below(3_000)),
            after,
        };
        let low = (partition, floor);
        let places = self.present.range(low.min(high)..=high).map(|(place, _)| *place);
        let mut young: Vec<u64> = places
            .filter(|place| *place >= low)
            .filter(of_topic)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .take(wanted.count as usize)
            .take_while(|place| self.meaning[place].view().time_ms() >= wanted.not_before_ms)
            .map(|place| place.1)
            .collect();
        let Ok(start) = self.store.as_mut().unwrap().start(partition, topic, wanted) else {
            return;
        };
        // A segment below the floor may have returned.
        if start.oldest.is_none_or(|oldest| oldest >= floor) {
            assert_eq!(start.oldest, young.pop());
        }
    }
}
