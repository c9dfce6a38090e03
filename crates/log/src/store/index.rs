//! The index of a segment, in memory or in a file, behind one interface.

use super::disk::Disk;
use super::files::{Files, ReadError};
use super::index_file::{IndexFile, TopicRow};
use super::memory_index::{Entry, Hole, MemoryIndex, Retained};
use super::once::{OnceWindow, SegmentOnce};
use stdx::memory::vector_bytes;

#[derive(Clone, Debug)]
pub(super) enum Index {
    Memory(Box<MemoryIndex>),
    File(IndexFile),
}

/// A topic in an index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// The number in memory, the row in a file.
    id: u32,
    partition: u32,
    /// The first of its places in a file.
    first: u32,
    /// The number of its records in the segment.
    pub count: u32,
    pub retained: Option<Retained>,
    pub last_offset: u64,
}

/// One partition of one index: its records by place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Records {
    partition: u32,
    first: u32,
    pub count: u32,
}

impl Found {
    pub fn partition(&self) -> u32 {
        self.partition
    }
}

impl Index {
    pub fn holes(&self) -> &[Hole] {
        match self {
            Index::Memory(index) => &index.holes,
            Index::File(index) => &index.holes,
        }
    }

    pub fn add_holes(&mut self, more: &[Hole]) {
        match self {
            Index::Memory(index) => index.holes.extend_from_slice(more),
            Index::File(index) => index.holes.extend_from_slice(more),
        }
    }

    /// The memory used; for an index in a file, only its table of sections.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Index::Memory(index) => index.memory_bytes(),
            Index::File(index) => vector_bytes::<Hole>(index.holes.capacity()),
        }
    }

    /// The least and greatest time of the records.
    pub fn times(&self) -> (u64, u64) {
        match self {
            Index::Memory(index) => (index.oldest_ms, index.newest_ms),
            Index::File(index) => (index.oldest_ms, index.newest_ms),
        }
    }

    pub fn records_count(&self) -> u64 {
        match self {
            Index::Memory(index) => index.records_count,
            Index::File(index) => index.records_count.into(),
        }
    }

    /// The number of topics with a retained record.
    pub fn retained_count(&self) -> usize {
        match self {
            Index::Memory(index) => {
                let topics = index.topics.iter();
                topics.filter(|topic| topic.retained.is_some()).count()
            }
            Index::File(index) => index.retained_count as usize,
        }
    }

    /// The size of its file; 0 in memory.
    pub fn file_bytes(&self) -> u64 {
        match self {
            Index::Memory(_) => 0,
            Index::File(index) => index.file_bytes,
        }
    }

    pub fn records<D: Disk>(
        &self,
        files: &mut Files<D>,
        partition: u32,
    ) -> Result<Records, ReadError> {
        let (first, count) = match self {
            Index::Memory(index) => (0, index.partitions[partition as usize].len() as u32),
            Index::File(index) => index.partition(files, partition)?,
        };
        Ok(Records { partition, first, count })
    }

    /// A record by its place in the partition.
    pub fn entry<D: Disk>(
        &self,
        files: &mut Files<D>,
        records: &Records,
        place: u32,
    ) -> Result<Entry, ReadError> {
        match self {
            Index::Memory(index) => {
                Ok(index.partitions[records.partition as usize][place as usize])
            }
            Index::File(index) if place < records.count => {
                index.entry(files, records.first + place)
            }
            Index::File(index) => Err(ReadError::Index(index.sequence)),
        }
    }

    /// The place of the first record of a partition at or above an offset.
    pub fn place_from<D: Disk>(
        &self,
        files: &mut Files<D>,
        records: &Records,
        offset: u64,
    ) -> Result<u32, ReadError> {
        search(records.count, |place| Ok(self.entry(files, records, place)?.offset < offset))
    }

    /// Finds a topic.
    pub fn find<D: Disk>(
        &self,
        files: &mut Files<D>,
        partition: u32,
        name: &[u8],
    ) -> Result<Option<Found>, ReadError> {
        match self {
            Index::Memory(index) => {
                let number = index.number_of(partition, name);
                Ok(number
                    .filter(|number| index.topics[*number as usize].is_present())
                    .map(|number| found_in_memory(index, number)))
            }
            Index::File(index) => {
                let mut present = Vec::new();
                let row = search(index.topics_count, |row| {
                    let topic = index.row(files, row)?;
                    index.name(files, &topic, &mut present)?;
                    Ok((topic.partition, &present[..]) < (partition, name))
                })?;
                if row == index.topics_count {
                    return Ok(None);
                }
                let topic = index.row(files, row)?;
                index.name(files, &topic, &mut present)?;
                let is_it = topic.partition == partition && present == name;
                Ok(is_it.then(|| found_in_file(row, &topic)))
            }
        }
    }

    /// The place, in the partition, of one of a topic's records.
    pub fn topic_place<D: Disk>(
        &self,
        files: &mut Files<D>,
        topic: &Found,
        nth: u32,
    ) -> Result<u32, ReadError> {
        match self {
            Index::Memory(index) => Ok(index.topics[topic.id as usize].records[nth as usize]),
            Index::File(index) => match topic.first.checked_add(nth) {
                Some(place) if nth < topic.count => index.place(files, place),
                _ => Err(ReadError::Index(index.sequence)),
            },
        }
    }

    /// The number of a topic's records below an offset.
    pub fn topic_below<D: Disk>(
        &self,
        files: &mut Files<D>,
        topic: &Found,
        offset: u64,
    ) -> Result<u32, ReadError> {
        let records = self.records(files, topic.partition)?;
        let place = self.place_from(files, &records, offset)?;
        search(topic.count, |nth| Ok(self.topic_place(files, topic, nth)? < place))
    }

    /// The name of the topic with the number in its records; false if there is none.
    pub fn name_of_number<D: Disk>(
        &self,
        files: &mut Files<D>,
        number: u32,
        name: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        match self {
            Index::Memory(index) => {
                name.clear();
                if let Some(topic) = index.topics.get(number as usize) {
                    name.extend_from_slice(&topic.name);
                }
                Ok(())
            }
            Index::File(index) => {
                let row = index.row_of_number(files, number)?;
                let topic = index.row(files, row)?;
                index.name(files, &topic, name)
            }
        }
    }

    /// The ids of the topics by partition and name: of all, or of those with a retained record.
    /// Pass them to [`Index::listed`].
    pub fn list(&self, is_retained: bool) -> List {
        match self {
            Index::Memory(index) => {
                let mut numbers = index.sorted();
                if is_retained {
                    numbers.retain(|number| index.topics[*number as usize].retained.is_some());
                }
                List::Numbers(numbers)
            }
            Index::File(index) if is_retained => List::Retained(index.retained_count),
            Index::File(index) => List::Rows(index.topics_count),
        }
    }

    /// Reads one topic of a list, its name into `name`; None at its end.
    pub fn listed<D: Disk>(
        &self,
        files: &mut Files<D>,
        list: &List,
        nth: u32,
        name: &mut Vec<u8>,
    ) -> Result<Option<(u32, Found)>, ReadError> {
        match (self, list) {
            (Index::Memory(index), List::Numbers(numbers)) => {
                let Some(number) = numbers.get(nth as usize) else {
                    return Ok(None);
                };
                let topic = &index.topics[*number as usize];
                name.clear();
                name.extend_from_slice(&topic.name);
                Ok(Some((topic.partition, found_in_memory(index, *number))))
            }
            (Index::File(index), List::Rows(count) | List::Retained(count)) if nth < *count => {
                let row = match list {
                    List::Retained(_) => index.retained_row(files, nth)?,
                    _ => nth,
                };
                let topic = index.row(files, row)?;
                index.name(files, &topic, name)?;
                Ok(Some((topic.partition, found_in_file(row, &topic))))
            }
            _ => Ok(None),
        }
    }
}

/// A list of topics; see [`Index::list`].
#[derive(Clone, Debug)]
pub(super) enum List {
    Numbers(Vec<u32>),
    Rows(u32),
    Retained(u32),
}

fn found_in_memory(index: &MemoryIndex, number: u32) -> Found {
    let topic = &index.topics[number as usize];
    Found {
        id: number,
        partition: topic.partition,
        first: 0,
        count: topic.records.len() as u32,
        retained: topic.retained,
        last_offset: topic.last_offset,
    }
}

fn found_in_file(row: u32, topic: &TopicRow) -> Found {
    Found {
        id: row,
        partition: topic.partition,
        first: topic.first,
        count: topic.count,
        retained: topic.retained,
        last_offset: topic.last_offset,
    }
}

/// Returns the first of `0..count` for which `is_below` is false.
fn search(
    count: u32,
    mut is_below: impl FnMut(u32) -> Result<bool, ReadError>,
) -> Result<u32, ReadError> {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_below(middle)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

impl Index {
    /// Reads the requested identities.
    pub fn once<D: Disk>(
        &self,
        files: &mut Files<D>,
        window: &dyn OnceWindow,
    ) -> Result<SegmentOnce, ReadError> {
        match self {
            Index::Memory(index) => index.once.found(window).resolve(|number| {
                let topic = &index.topics[number as usize];
                Ok((topic.partition, topic.name.clone()))
            }),
            Index::File(index) => {
                let found = index.once(files, window)?;
                let mut name = Vec::new();
                found.resolve(|row| {
                    let topic = index.row(files, row)?;
                    index.name(files, &topic, &mut name)?;
                    Ok((topic.partition, name.as_slice().into()))
                })
            }
        }
    }
}
