//! A start with logs on disk: what a store has found, divided over the homes.
//!
//! Read on the thread that starts the node, put into a home on the home's own thread: memory of segments belongs to that
//! thread.

use broker::home::{Home, HomeOutputs};
use broker::mail::{Code, PartitionId};
use broker::settings::Settings;
use log::Memory;
use log::store::{Disk, Recovered, Store, StoreError};
use stdx::chunk::Slice;

/// What one home has to know of one log.
#[derive(Debug, Default)]
pub struct Restoration {
    /// Partition, head and floor.
    partitions: Vec<(PartitionId, u64, u64)>,
    /// Partition, name and last offset.
    topics: Vec<(PartitionId, Box<[u8]>, u64)>,
    retained: Vec<(PartitionId, Box<[u8]>, Slice)>,
    /// Oldest first within each partition.
    recent: Vec<(PartitionId, Box<[u8]>, Slice)>,
}

impl Restoration {
    /// Reads what the homes have to know of a log that was just opened; one for each home.
    ///
    /// # Errors
    /// The disk could not be read.
    pub fn read<D: Disk>(
        store: &mut Store<D>,
        recovered: &Recovered,
        settings: &Settings,
        log: u16,
    ) -> Result<Vec<Restoration>, StoreError> {
        let mut homes: Vec<Restoration> = (0..settings.homes_count)
            .map(|_| Restoration::default())
            .collect();
        let Some(log) = settings.logs.get(usize::from(log)) else {
            return Ok(homes);
        };
        let place = |partition: u32| {
            let partition = log.first_partition + partition;
            (partition, usize::from(settings.home_of(partition)))
        };
        for (number, (head, floor)) in (0..).zip(recovered.heads.iter().zip(&recovered.floors)) {
            let (partition, home) = place(number);
            homes[home].partitions.push((partition, *head, *floor));
        }
        store.topics(&mut |number, name, last| {
            let (partition, home) = place(number);
            homes[home].topics.push((partition, name.into(), last));
        })?;
        store.retained(&mut |number, name, record| {
            let (partition, home) = place(number);
            let record = Slice::copy_of(record.bytes());
            homes[home].retained.push((partition, name.into(), record));
        })?;
        store.recent(log.cache_bytes, &mut |number, name, record| {
            let (partition, home) = place(number);
            let record = Slice::copy_of(record.bytes());
            homes[home].recent.push((partition, name.into(), record));
        })?;
        Ok(homes)
    }

    /// Puts it into a home that has not heard of any edge.
    ///
    /// # Errors
    /// There is no memory for all its topics.
    pub fn restore(
        self,
        now_ms: u64,
        home: &mut Home,
        memory: &mut dyn Memory,
    ) -> Result<(), Code> {
        // Nobody has interest in anything yet.
        let mut out = HomeOutputs::new(0);
        for (partition, _, floor) in &self.partitions {
            home.restore_floor(*partition, *floor);
        }
        for (partition, name, last) in self.topics {
            home.restore_topic(partition, &name, last)?;
        }
        for (partition, name, record) in self.retained {
            home.restore_retained(partition, &name, &record)?;
        }
        for (partition, name, record) in self.recent {
            home.restore_record(now_ms, partition, &name, &record, memory, &mut out)?;
        }
        for (partition, head, _) in self.partitions {
            home.restore_head(partition, head);
        }
        Ok(())
    }
}
