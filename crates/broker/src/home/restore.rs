//! A start with a log on disk: the home learns what the disk holds before it hears of any edge.
//!
//! Order: the partitions' floors, topics, their retained messages and recent records, the partitions' heads.

use super::{Home, HomeOutputs};
use crate::mail::{Code, PartitionId};
use log::{Memory, RecordView};
use stdx::chunk::Slice;

impl Home {
    /// The least offset that the disk may still hold of a partition. Nothing is said of topics that had records below.
    pub fn restore_floor(&mut self, partition: PartitionId, floor: u64) {
        if let Some(local) = self.local(partition) {
            let partition = &mut self.partitions[local as usize];
            partition.disk_floor = floor.max(1);
            partition.forgotten_through = partition.disk_floor - 1;
        }
    }

    /// A topic that has records on disk, and the offset of its newest. Known whatever `topics_max` says: a topic with
    /// records must be.
    ///
    /// # Errors
    /// The partition does not live here, or there is no memory for the name.
    pub fn restore_topic(
        &mut self,
        partition: PartitionId,
        name: &[u8],
        last: u64,
    ) -> Result<(), Code> {
        let local = self.local(partition).ok_or(Code::Internal)?;
        let stale = self.interests.filters.version.wrapping_sub(1);
        // Of one that is only retained, later records may have been dropped.
        let last = last.max(self.partitions[local as usize].forgotten_through);
        let topic = match self.interests.topics.find(name, local) {
            Some(topic) => topic,
            None => self
                .interests
                .topics
                .insert(name, local, last, stale)
                .ok_or(Code::MemoryFull)?,
        };
        if let Some(entry) = self.interests.topics.get_mut(topic) {
            entry.set_last(entry.last().max(last));
        }
        Ok(())
    }

    /// The retained message of a topic, known or not. Kept whatever `retained_bytes_max` says.
    ///
    /// # Errors
    /// As for [`Home::restore_topic`].
    pub fn restore_retained(
        &mut self,
        partition: PartitionId,
        name: &[u8],
        record: &Slice,
    ) -> Result<(), Code> {
        let offset = RecordView::parse(record).ok_or(Code::Internal)?.offset();
        self.restore_topic(partition, name, offset)?;
        let local = self.local(partition).ok_or(Code::Internal)?;
        let topic = self.interests.topics.find(name, local);
        let share = self.partitions[local as usize].share;
        self.retain(topic.ok_or(Code::Internal)?, share, Some(record));
        Ok(())
    }

    /// One of the newest records of a partition, oldest first and none left out, for memory to begin with. What its
    /// publisher calls it is remembered, so that it is not published again.
    ///
    /// # Errors
    /// The partition does not live here, or the topic was not restored.
    pub fn restore_record(
        &mut self,
        now_ms: u64,
        partition: PartitionId,
        name: &[u8],
        record: &Slice,
        memory: &mut dyn Memory,
        out: &mut HomeOutputs,
    ) -> Result<(), Code> {
        let local = self.local(partition).ok_or(Code::Internal)?;
        let topic = self.interests.topics.find(name, local);
        let topic = topic.ok_or(Code::Internal)?;
        let view = RecordView::parse(record).ok_or(Code::Internal)?;
        let age_ms = now_ms.saturating_sub(view.time_ms());
        self.steady.advance(now_ms);
        self.dedup
            .note_record(self.steady.ms, age_ms, local, name, &view);
        self.cache(local, topic, record.clone(), memory, out);
        Ok(())
    }

    /// The greatest offset ever used in a partition. Ends its start.
    pub fn restore_head(&mut self, partition: PartitionId, head: u64) {
        if let Some(local) = self.local(partition) {
            let partition = &mut self.partitions[local as usize];
            partition.log.skip_to(head.saturating_add(1));
            partition.next_staged = partition.log.next_offset();
        }
    }
}
