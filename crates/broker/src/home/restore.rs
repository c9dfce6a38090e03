//! A start with a log on disk: the home learns what the disk holds before it learns of any edge.
//!
//! Order: the partitions' floors and damage, topics, their retained messages and recent records,
//! the partitions' heads; and then what publications of all logs are called.

use super::turn::{HomeOutputs, Turn};
use super::{FoundWindow, Home};
use crate::mail::{Code, PartitionId};
use log::{Memory, RecordView};
use stdx::chunk::Slice;

impl Home {
    /// The least offset that the disk may still hold of a partition. Nothing is said of topics that
    /// had records below.
    pub fn restore_floor(&mut self, partition: PartitionId, floor: u64) {
        if let Some(local) = self.local(partition) {
            let partition = &mut self.partitions[local as usize];
            partition.disk_floor = floor.max(1);
            partition.forgotten_through = partition.disk_floor - 1;
        }
    }

    /// The greatest offset of a partition that damage may have taken away; 0: none.
    pub fn restore_damage(&mut self, partition: PartitionId, through: u64) {
        if let Some(local) = self.local(partition) {
            self.partitions[local as usize].damaged_through = through;
        }
    }

    /// A topic that has records on disk, and the offset of its newest. Known whatever `topics_max`
    /// says: a topic with records must be.
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
            None => {
                self.interests.topics.insert(name, local, last, stale).ok_or(Code::MemoryFull)?
            }
        };
        if let Some(entry) = self.interests.topics.get_mut(topic) {
            entry.set_last(entry.last().max(last));
        }
        Ok(())
    }

    /// The retained message of a topic, known or not. Kept whatever `retained_bytes_max` says.
    ///
    /// # Errors
    /// See [`Home::restore_topic`].
    pub fn restore_retained(
        &mut self,
        partition: PartitionId,
        name: &[u8],
        record: &Slice,
    ) -> Result<(), Code> {
        let view = RecordView::parse(record).ok_or(Code::Internal)?;
        self.restore_topic(partition, name, view.offset())?;
        let local = self.local(partition).ok_or(Code::Internal)?;
        let topic = self.interests.topics.find(name, local).ok_or(Code::Internal)?;
        let share = self.partitions[local as usize].share;
        // The record has the number that its topic had before the start.
        let renumbered = Slice::copy_of(&view.with_topic(topic));
        self.retain(topic, share, Some(&renumbered));
        self.restore_session(name, record);
        Ok(())
    }

    /// One of the newest records of a partition, oldest first and none left out, for memory to
    /// begin with.
    ///
    /// # Errors
    /// The partition does not live here, or the topic was not restored.
    pub fn restore_record(
        &mut self,
        partition: PartitionId,
        name: &[u8],
        record: &Slice,
        memory: &mut dyn Memory,
        out: &mut HomeOutputs,
    ) -> Result<(), Code> {
        let local = self.local(partition).ok_or(Code::Internal)?;
        let topic = self.interests.topics.find(name, local);
        let topic = topic.ok_or(Code::Internal)?;
        RecordView::parse(record).ok_or(Code::Internal)?;
        // Nothing in a start goes by the wall clock.
        let turn = &mut Turn { now_ms: 0, found: None, memory, out };
        self.cache(local, topic, record.clone(), turn);
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

    /// Whether a log takes publications from the beginning: one whose disk is full does not. The
    /// log thread says when that changes.
    pub fn set_log_available(&mut self, log: u16, is_available: bool) {
        let share = self.shares.get_mut(usize::from(log));
        if let Some(disk) = share.and_then(|share| share.disk.as_mut()) {
            disk.is_available = is_available;
        }
    }

    /// Restores the names of the logs' publications, so that none is appended again; one window for
    /// each log. `now_ms` is the wall clock, by which keys expire.
    pub fn restore_windows(&mut self, now_ms: u64, windows: &[FoundWindow]) {
        let topics: Vec<Vec<&[u8]>> = windows.iter().map(FoundWindow::topics).collect();
        let (mut producers, mut keys) = (Vec::new(), Vec::new());
        for (window, topics) in windows.iter().zip(&topics) {
            // In the order of each log, whatever the clock did; between logs the clock decides.
            let mut newest_ms = 0;
            for found in window.producers.iter().rev() {
                newest_ms = found.last_ms.max(newest_ms);
                producers.push((newest_ms, found, topics));
            }
            newest_ms = 0;
            for found in window.keys.iter().rev() {
                newest_ms = found.time_ms.max(newest_ms);
                keys.push((newest_ms, found, topics));
            }
        }
        producers.sort_by_key(|(newest_ms, ..)| *newest_ms);
        keys.sort_by_key(|(newest_ms, ..)| *newest_ms);
        for (rank, (_, found, topics)) in (1..).zip(producers) {
            let Some(local) = self.local(found.partition) else {
                continue;
            };
            let publications = found.publications.iter().rev().map(|publication| {
                let topic = topics[publication.topic as usize];
                (publication.sequence, publication.offset, topic)
            });
            self.dedup.note_producer(rank, local, &found.id, publications);
        }
        for (_, found, topics) in keys {
            let Some(local) = self.local(found.partition) else {
                continue;
            };
            let age_ms = now_ms.saturating_sub(found.time_ms);
            let topic = topics[found.topic as usize];
            let times = (self.elapsed.ms, age_ms);
            self.dedup.note_key(times, local, topic, &found.key, found.offset);
        }
    }
}
