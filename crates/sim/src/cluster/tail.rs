//! The tail of one partition at one node: its beginnings, and the records that follow.

use super::bug::{Bug, Planted};
use super::life::{EntryId, Life};
use super::partition::Partition;
use broker::engine::{EngineLetter, Restart, Tail, TailRecord};
use broker::mail::PartitionId;
use stdx::prng::Prng;

/// The reading of one node.
#[derive(Clone, Copy, Debug)]
pub struct TailSettings {
    /// The number of offsets before its beginning that the node serves.
    pub served: u64,
    /// The window of the recognition of repetitions, in seconds.
    pub window_s: u64,
    /// The node reads so far back before what it serves, in milliseconds.
    pub primed_ms: u64,
    /// The maximum delay between two letters.
    pub delay_ms_max: u64,
    /// The maximum number of offsets in a letter.
    pub batch_max: u64,
}

/// A tail; see the module.
#[derive(Clone, Default)]
pub struct Reader {
    topic_id: Option<u32>,
    /// The newest entry that was read.
    last: Option<EntryId>,
    /// Everything up to this offset was read.
    pub through: u64,
    /// The node serves records above this offset.
    pub served_above: u64,
    /// Records up to the head of the beginning that the engine's clock stamps earlier, in seconds,
    /// only prime the node.
    primed_from_s: Option<u64>,
    /// The head of the beginning.
    head: u64,
    /// The time of the next letter.
    pub due_ms: u64,
}

impl Reader {
    /// Creates a reader that has read nothing.
    pub fn due_at(due_ms: u64) -> Reader {
        Reader { due_ms, ..Reader::default() }
    }

    /// Whether the partition has begun.
    pub fn has_begun(&self) -> bool {
        self.topic_id.is_some()
    }

    /// Whether it has read everything that is visible in the present life.
    pub fn is_at_end(&self, partition: &Partition) -> bool {
        !self.must_begin(partition) && self.through >= partition.visible()
    }

    /// Whether the tail is lost: another topic, other entries, or expired ones.
    pub fn must_begin(&self, partition: &Partition) -> bool {
        let life = partition.life();
        let place = self.through.checked_sub(1);
        let present = place.and_then(|place| life.path().get(place as usize).copied());
        self.topic_id != Some(life.topic_id)
            || self.last.is_some() && present != self.last
            || self.through < partition.expired
    }

    /// Begins, or begins anew.
    pub fn begin(
        &mut self,
        id: PartitionId,
        partition: &Partition,
        settings: &TailSettings,
    ) -> EngineLetter {
        let life = partition.life();
        let head = partition.visible();
        let expired = partition.expired;
        let served = head.saturating_sub(settings.served).max(expired);
        let time_at = |offset: u64| {
            let id = life.path().get(offset as usize - 1);
            id.map(|id| life.entry(*id).time_ms)
        };
        let margin_ms = settings.primed_ms;
        let begin_ms = time_at(served + 1).map(|time| time.saturating_sub(margin_ms));
        let is_before = |offset: &u64| time_at(*offset) < begin_ms;
        let after = match begin_ms {
            Some(_) => (1..=served).take_while(is_before).count() as u64,
            None => served,
        };
        let after = after.max(expired);
        let primed_through = served.max(after);
        self.primed_from_s = (after == 0).then_some(0);
        self.head = head;
        self.topic_id = Some(life.topic_id);
        self.through = after;
        self.last = after.checked_sub(1).and_then(|place| life.path().get(place as usize).copied());
        self.served_above = primed_through;
        EngineLetter::Restart(Restart {
            partition: id,
            topic_id: life.topic_id,
            lineages: life.chain(expired + 1),
            after,
            primed_through,
            head,
        })
    }

    /// The next records, at most `bytes` by their cost except for the first, and up to an offset.
    pub fn read(
        &mut self,
        id: PartitionId,
        life: &Life,
        visible: u64,
        bytes: u32,
        settings: &TailSettings,
        random: &mut Prng,
    ) -> Option<Tail> {
        let to = visible.min(self.through + random.between(1, settings.batch_max.max(1)));
        if to <= self.through {
            return None;
        }
        let mut tail = Tail { partition: id, records: Vec::new(), through: self.through };
        for offset in self.through + 1..=to {
            let entry = life.path().get(offset as usize - 1).copied();
            let Some((entry_id, entry)) = entry.map(|id| (id, life.entry(id))) else {
                break;
            };
            if let Some((name, publication)) = entry.record() {
                let second = entry.time_ms / 1_000;
                let from_s = second + 2 * settings.window_s;
                if second < *self.primed_from_s.get_or_insert(from_s) && offset <= self.head {
                    self.served_above = self.served_above.max(offset);
                }
                let publication = publication.clone();
                let (lineage, time_ms) = (entry.lineage, entry.time_ms);
                let record = TailRecord { offset, lineage, time_ms, name, publication };
                if !tail.records.is_empty() && tail.cost() + record.cost() > bytes {
                    break;
                }
                tail.records.push(record);
            }
            tail.through = offset;
            self.last = Some(entry_id);
        }
        self.through = tail.through;
        Some(tail)
    }
}

impl Reader {
    /// Whether a planted bug lets the tail continue; it is as if nothing was lost.
    pub fn passes_over(&mut self, partition: &Partition, planted: &mut Planted) -> bool {
        let life = partition.life();
        let is_other_topic = self.topic_id != Some(life.topic_id);
        if !self.has_begun() || self.through < partition.expired {
            return false;
        }
        let bug =
            if is_other_topic { Bug::RecreationPassedOver } else { Bug::TruncationPassedOver };
        let passes = planted.is(bug);
        if passes {
            self.topic_id = Some(life.topic_id);
            self.through = self.through.min(partition.end());
            let place = self.through.checked_sub(1);
            self.last = place.and_then(|place| life.path().get(place as usize).copied());
        }
        passes
    }
}
