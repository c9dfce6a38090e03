//! A start with logs on disk: the content of a store, divided among the homes.
//!
//! It is read on the thread that starts the node, and stored into a home on the home's own thread,
//! because the memory of segments belongs to that thread.

use broker::engine::MirrorEnd;
use broker::home::{FoundWindow, Home, HomeOutputs, MirroredContent};
use broker::mail::{Code, PartitionId};
use broker::settings::Settings;
use log::Memory;
use log::store::{Disk, OnceWindow, Recovered, SegmentOnce, Store, StoreError};
use std::collections::BTreeMap;
use stdx::chunk::{ChunkWriter, Slice};

/// The restored state of one home from one log.
#[derive(Debug)]
pub struct Restoration {
    log: u16,
    /// Whether the log accepts publications; it does not while its disk is full.
    is_available: bool,
    partitions: Vec<FoundPartition>,
    /// Partition, name and last offset.
    topics: Vec<(PartitionId, Box<[u8]>, u64)>,
    retained: Vec<(PartitionId, Box<[u8]>, Slice)>,
    /// Oldest first within each partition.
    recent: Vec<(PartitionId, Box<[u8]>, Slice)>,
    /// Identities of publications, to recognise repeats.
    window: FoundWindow,
    /// The partitions of a mirror.
    mirrored: Vec<(PartitionId, MirroredContent)>,
}

/// The state of one partition in a store.
#[derive(Clone, Copy, Debug)]
struct FoundPartition {
    id: PartitionId,
    head: u64,
    floor: u64,
    damaged_through: u64,
}

/// Size of the chunks for records of one home, in bytes. While a home copies the records, chunk
/// after chunk returns to the system, so that a start needs hardly more memory than it fills;
/// separate allocations needed twice as much, and kept it.
const CHUNK_BYTES: usize = 4 << 20;

/// Copies of records on their way from a store into a home.
struct Copies<'a> {
    memory: &'a mut dyn Memory,
    /// The present chunk of each home.
    chunks: Vec<Option<ChunkWriter>>,
}

impl Copies<'_> {
    fn copy(&mut self, home: usize, bytes: &[u8]) -> Slice {
        let chunk = &mut self.chunks[home];
        if let Some(copied) = chunk.as_mut().and_then(|chunk| chunk.append(&[bytes])) {
            return copied;
        }
        // Large records, and records without such memory, have their own allocation.
        let larger = bytes.len() > CHUNK_BYTES / 4;
        if !larger && let Ok((mut next, id)) = self.memory.allocate(CHUNK_BYTES) {
            // Only the slices keep it.
            self.memory.release(id);
            let copied = next.append(&[bytes]);
            *chunk = Some(next);
            if let Some(copied) = copied {
                return copied;
            }
        }
        Slice::copy_of(bytes)
    }
}

/// Divides the identities of publications of a log among the homes.
struct Windows<'a> {
    homes: &'a mut [Restoration],
    settings: &'a Settings,
    first_partition: PartitionId,
}

impl Windows<'_> {
    fn place(&self, partition: u32) -> (PartitionId, usize) {
        let partition = self.first_partition.nth(partition);
        (partition, usize::from(self.settings.home_of(partition)))
    }
}

impl OnceWindow for Windows<'_> {
    fn publications_wanted(&self, partition: u32, producer: &[u8]) -> u32 {
        let (partition, home) = self.place(partition);
        let wanted = self.homes[home].window.publications_wanted(partition, producer);
        u32::try_from(wanted).unwrap_or(u32::MAX)
    }

    fn wants_keys(&self) -> bool {
        self.homes.iter().any(|home| home.window.wants_keys())
    }

    fn take(&mut self, found: SegmentOnce) {
        let topic = |place: u32| found.topics.get(place as usize);
        for producer in found.producers.iter().rev() {
            let (partition, home) = self.place(producer.partition);
            let publications = producer.publications.iter().rev();
            let publications = publications.filter_map(|publication| {
                let (_, topic) = topic(publication.topic)?;
                Some((publication.sequence, publication.offset, &topic[..]))
            });
            let window = &mut self.homes[home].window;
            window.take_producer(partition, &producer.id, producer.last_ms, publications);
        }
        for key in found.keys.iter().rev() {
            if let Some((partition, topic)) = topic(key.topic) {
                let (partition, home) = self.place(*partition);
                let window = &mut self.homes[home].window;
                window.take_key(partition, topic, &key.key, key.offset, key.time_ms);
            }
        }
    }
}

impl Restoration {
    /// Reads the state for each home from a newly opened log. Recent records, at most `cache_bytes`
    /// of the log, are in chunks from `memory` until the homes have copied them.
    ///
    /// # Errors
    /// The disk could not be read.
    pub fn read<D: Disk>(
        store: &mut Store<D>,
        recovered: &Recovered,
        settings: &Settings,
        log: u16,
        memory: &mut dyn Memory,
    ) -> Result<Vec<Restoration>, StoreError> {
        let mut homes = Restoration::of_nothing(settings, log, store.is_available());
        let Some(log) = settings.logs.get(usize::from(log)) else {
            return Ok(homes);
        };
        let place = |partition: u32| {
            let partition = log.first_partition.nth(partition);
            (partition, usize::from(settings.home_of(partition)))
        };
        let bounds = recovered.heads.iter().zip(&recovered.floors);
        for (number, ((head, floor), damaged_through)) in
            (0..).zip(bounds.zip(&recovered.damaged_through))
        {
            let (id, home) = place(number);
            homes[home].partitions.push(FoundPartition {
                id,
                head: *head,
                floor: *floor,
                damaged_through: *damaged_through,
            });
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
        let mut copies = Copies { memory, chunks: homes.iter().map(|_| None).collect() };
        store.recent(log.cache_bytes, &mut |number, name, record| {
            let (partition, home) = place(number);
            let record = copies.copy(home, record.bytes());
            homes[home].recent.push((partition, name.into(), record));
        })?;
        store.once(&mut Windows {
            homes: &mut homes,
            settings,
            first_partition: log.first_partition,
        })?;
        Ok(homes)
    }

    /// The state for each home of a log without records.
    pub fn of_nothing(settings: &Settings, log: u16, is_available: bool) -> Vec<Restoration> {
        let of_home = |_| Restoration {
            log,
            is_available,
            partitions: Vec::new(),
            topics: Vec::new(),
            retained: Vec::new(),
            recent: Vec::new(),
            window: FoundWindow::new(&settings.limits),
            mirrored: Vec::new(),
        };
        (0..settings.homes_count).map(of_home).collect()
    }

    /// Reads what a mirror has for each home, and the ends of its partitions. Partitions of which
    /// it has nothing that may be served are left out.
    ///
    /// # Errors
    /// The disk could not be read.
    pub fn read_mirror<D: Disk>(
        store: &mut Store<D>,
        settings: &Settings,
        log: u16,
    ) -> Result<(Vec<Restoration>, Vec<MirrorEnd>), StoreError> {
        let mut homes = Restoration::of_nothing(settings, log, store.is_available());
        let (mut tails, mut contents) = (Vec::new(), BTreeMap::new());
        let Some(log) = settings.logs.get(usize::from(log)) else {
            return Ok((homes, tails));
        };
        let described = store.mirrored()?.unwrap_or_default();
        for (number, mut mirrored) in (0..).zip(described) {
            let begun = mirrored.floor;
            mirrored.floor = begun.max(store.floor(number));
            let head = store.heads().get(number as usize).copied().unwrap_or(0);
            mirrored.lineages.retain(|(_, start)| *start <= head);
            let lineage = mirrored.lineages.last().map(|(lineage, _)| *lineage);
            let newest = store.newest(number)?;
            let (Some(lineage), Some((offset, head_ms))) = (lineage, newest) else {
                continue;
            };
            if begun == 0 || offset != head || head < mirrored.floor {
                continue;
            }
            tails.push(MirrorEnd {
                partition: log.first_partition.nth(number),
                topic_id: mirrored.topic_id,
                floor: mirrored.floor,
                is_trimmed: mirrored.floor > begun,
                head,
                head_ms,
                lineage,
            });
            contents.insert(number, MirroredContent { mirrored, head, topics: Vec::new() });
        }
        store.topics(&mut |number, name, last| {
            if let Some(content) = contents.get_mut(&number)
                && last >= content.mirrored.floor
            {
                content.topics.push((name.into(), last));
            }
        })?;
        for (number, content) in contents {
            let partition = log.first_partition.nth(number);
            let home = usize::from(settings.home_of(partition));
            homes[home].mirrored.push((partition, content));
        }
        Ok((homes, tails))
    }

    /// Stores the state into a home without edges. Returns the identities of publications, which
    /// the home needs for all logs together ([`Home::restore_windows`]).
    ///
    /// # Errors
    /// There is not enough memory for all its topics.
    pub fn restore(self, home: &mut Home, memory: &mut dyn Memory) -> Result<FoundWindow, Code> {
        // No edge is interested yet.
        let mut out = HomeOutputs::new(0);
        for found in &self.partitions {
            home.restore_floor(found.id, found.floor);
            home.restore_damage(found.id, found.damaged_through);
        }
        for (partition, name, last) in self.topics {
            home.restore_topic(partition, &name, last)?;
        }
        for (partition, name, record) in self.retained {
            home.restore_retained(partition, &name, &record)?;
        }
        for (partition, name, record) in self.recent {
            home.restore_record(partition, &name, &record, memory, &mut out)?;
        }
        for found in self.partitions {
            home.restore_head(found.id, found.head);
        }
        home.set_log_available(self.log, self.is_available);
        for (partition, content) in self.mirrored {
            home.restore_mirror(partition, content);
        }
        Ok(self.window)
    }

    /// Takes only the identities of publications.
    pub fn into_window(self) -> FoundWindow {
        self.window
    }
}
