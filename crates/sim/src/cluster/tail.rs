//! The tail of one partition at one node: its beginnings, and the records that follow.

use super::bug::{Bug, Planted};
use super::life::{EntryId, Life};
use super::partition::Partition;
use broker::engine::{EngineLetter, LineageStart, MirrorEnd, Restart, Tail, TailRecord};
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
    /// The least time for which the engine keeps records, in milliseconds.
    pub kept_ms: u64,
    /// The topic is compacted, and read from its first record.
    pub is_compacted: bool,
    /// The maximum delay between two letters.
    pub delay_ms_max: u64,
    /// The maximum number of offsets in a letter.
    pub batch_max: u64,
}

/// The distance of a node from the verdicts of all others: the reference, in seconds of the
/// engine's clock. A time is the least since.
#[derive(Clone, Copy, Debug, Default)]
enum Priming {
    /// A record of which the node knows nothing may be in the window: the time of the newest such,
    /// and of the last record that was read, if one was.
    Unknown(u64, Option<u64>),
    /// A record that was judged then is in the window: the time of the newest such.
    Unsure(u64),
    /// The verdicts are those of all nodes.
    #[default]
    Primed,
}

impl Priming {
    /// The state at a beginning; 0 if no record is missing.
    fn begin(complete_from_ms: u64) -> Priming {
        match complete_from_ms {
            0 => Priming::Primed,
            complete_from_ms => Priming::Unknown(complete_from_ms / 1_000, None),
        }
    }

    /// The state after a record of this second.
    fn after(self, second: u64, window_s: u64) -> Priming {
        match self {
            Priming::Unknown(newest, _) if newest.min(second) + window_s > second => {
                Priming::Unknown(newest.min(second), Some(second))
            }
            Priming::Unknown(_, None) | Priming::Primed => Priming::Primed,
            Priming::Unknown(_, Some(last)) => Priming::Unsure(last).after(second, window_s),
            Priming::Unsure(newest) if newest.min(second) + window_s > second => {
                Priming::Unsure(newest.min(second))
            }
            Priming::Unsure(_) => Priming::Primed,
        }
    }
}

/// A tail; see the module.
#[derive(Clone, Default)]
pub struct Reader {
    topic_id: Option<u32>,
    /// The newest entry that was read.
    last: Option<EntryId>,
    /// Everything up to this offset was read.
    pub through: u64,
    /// The node serves records above this offset: the newest one that it has read and does not
    /// serve, or its beginning.
    pub served_above: u64,
    primed_through: u64,
    /// A mirror serves what lies before that.
    follows: bool,
    /// The end at its beginning.
    head: u64,
    priming: Priming,
    /// Records before the first that is not older than this are not judged; 0: all are.
    fills_before_ms: u64,
    /// The time of the next letter.
    pub due_ms: u64,
    /// The time of the next word that there is nothing more.
    end_due_ms: u64,
}

/// The time between two words that there is nothing more.
const END_INTERVAL_MS: u64 = 2_500;

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

    /// Whether the tail is lost: another topic, other entries, or expired ones; or the log is
    /// shorter than it was.
    pub fn must_begin(&self, partition: &Partition) -> bool {
        let life = partition.life();
        let place = self.through.checked_sub(1);
        let present = place.and_then(|place| life.path().get(place as usize).copied());
        self.topic_id != Some(life.topic_id)
            || self.last.is_some() && present != self.last
            || self.through < partition.expired
            || partition.visible() < self.head
    }

    /// Begins, or begins anew.
    pub fn begin(
        &mut self,
        id: PartitionId,
        partition: &Partition,
        settings: &TailSettings,
        unix_ms: u64,
        mirror: Option<&MirrorEnd>,
    ) -> EngineLetter {
        self.follows = false;
        let restart = if settings.is_compacted {
            self.begin_compacted(id, partition, settings, unix_ms)
        } else {
            self.begin_at_end(id, partition, settings, unix_ms)
        };
        let following =
            mirror.and_then(|end| self.follow(end, partition, settings, unix_ms, &restart));
        EngineLetter::Restart(following.unwrap_or(restart))
    }

    /// The begin behind the end of a mirror, in place of another one: records that are older than
    /// two windows before it are not read. None if the engine has lost it, or if the mirror has
    /// less than the other begin serves.
    fn follow(
        &mut self,
        mirror: &MirrorEnd,
        partition: &Partition,
        settings: &TailSettings,
        unix_ms: u64,
        cold: &Restart,
    ) -> Option<Restart> {
        let (life, expired) = (partition.life(), partition.expired);
        let is_there = mirror.topic_id == life.topic_id
            && (expired + 1..=cold.head).contains(&mirror.head)
            && mirror.head > cold.primed_through
            && (mirror.floor <= cold.primed_through + 1 || mirror.is_trimmed);
        let from_ms = mirror.head_ms.saturating_sub(settings.primed_ms).max(1);
        if !is_there || settings.is_compacted && from_ms < cold.complete_from_ms {
            return None;
        }
        let mut following =
            Restart { primed_through: mirror.head, follows_mirror: true, ..cold.clone() };
        if !settings.is_compacted {
            let time_at = |offset: u64| {
                life.path().get(offset as usize - 1).map(|id| life.entry(*id).time_ms)
            };
            let is_before = |offset: &u64| time_at(*offset).is_some_and(|time| time < from_ms);
            let after = (1..mirror.head).take_while(is_before).count() as u64;
            following.after = after.max(expired);
            following.complete_from_ms = match following.after {
                0 => 0,
                after if after == expired => from_ms.max(unix_ms - settings.kept_ms),
                _ => from_ms,
            };
            let lineage = life.lineage_behind(following.after);
            following.lineages = vec![LineageStart { lineage, start: following.after + 1 }];
            self.priming = Priming::begin(following.complete_from_ms);
            self.stand_at(life, following.after);
        }
        (self.follows, self.served_above) = (true, 0);
        self.primed_through = mirror.head;
        Some(following)
    }

    /// Everything up to an offset counts as read.
    fn stand_at(&mut self, life: &Life, through: u64) {
        self.through = through;
        let place = through.checked_sub(1);
        self.last = place.and_then(|place| life.path().get(place as usize).copied());
    }

    fn begin_at_end(
        &mut self,
        id: PartitionId,
        partition: &Partition,
        settings: &TailSettings,
        unix_ms: u64,
    ) -> Restart {
        let life = partition.life();
        let head = partition.visible();
        let expired = partition.expired;
        let served = head.saturating_sub(settings.served).max(expired);
        let time_at = |offset: u64| {
            let id = life.path().get(offset as usize - 1);
            id.map(|id| life.entry(*id).time_ms)
        };
        let margin_ms = settings.primed_ms;
        let first_ms = time_at(served + 1).map_or(unix_ms, |time| time.min(unix_ms));
        let begin_ms = first_ms.saturating_sub(margin_ms);
        let is_before = |offset: &u64| time_at(*offset).is_some_and(|time| time < begin_ms);
        let after = (1..=served).take_while(is_before).count() as u64;
        // A record is read in any case, so that positions at the end have its lineage.
        let is_record = |id: &EntryId| life.entry(*id).read().is_some();
        let visible = life.path().get(..head as usize).unwrap_or_default();
        let newest = visible.iter().rposition(is_record).unwrap_or(0) as u64;
        let after = after.min(newest);
        let complete_from_ms = match after.max(expired) {
            0 => 0,
            // The engine may have removed records that the node would read.
            after if after == expired => begin_ms.max(unix_ms - settings.kept_ms),
            _ => begin_ms,
        };
        let after = after.max(expired);
        let primed_through = served.max(after);
        self.priming = Priming::begin(complete_from_ms);
        self.topic_id = Some(life.topic_id);
        self.stand_at(life, after);
        (self.served_above, self.primed_through, self.head) = (after, primed_through, head);
        Restart {
            partition: id,
            topic_id: life.topic_id,
            lineages: vec![LineageStart { lineage: life.lineage_behind(after), start: after + 1 }],
            after,
            complete_from_ms,
            primed_through,
            follows_mirror: false,
            head,
        }
    }

    /// Begins with the first record of a compacted topic. Compaction has left everything that is
    /// younger than its lag; the last window of that is for the reading.
    fn begin_compacted(
        &mut self,
        id: PartitionId,
        partition: &Partition,
        settings: &TailSettings,
        unix_ms: u64,
    ) -> Restart {
        let (life, head) = (partition.life(), partition.visible());
        let whole_ms = settings.kept_ms;
        let complete_from_ms = if head == 0 { 0 } else { unix_ms - whole_ms };
        let served_from_ms = unix_ms - (whole_ms - settings.primed_ms.min(whole_ms));
        let by_age = partition.older_than(served_from_ms).min(head);
        let primed_through = head.saturating_sub(settings.served).max(by_age);
        self.priming = Priming::begin(complete_from_ms);
        self.fills_before_ms = complete_from_ms;
        self.topic_id = Some(life.topic_id);
        (self.through, self.last) = (0, None);
        (self.served_above, self.primed_through, self.head) = (0, primed_through, head);
        Restart {
            partition: id,
            topic_id: life.topic_id,
            lineages: vec![LineageStart { lineage: life.lineage_behind(0), start: 1 }],
            after: 0,
            complete_from_ms,
            primed_through,
            follows_mirror: false,
            head,
        }
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
        let mut tail = self.empty(id);
        for offset in self.through + 1..=to {
            let entry = life.path().get(offset as usize - 1).copied();
            let Some((entry_id, entry)) = entry.map(|id| (id, life.entry(id))) else {
                break;
            };
            let read = entry.read().filter(|_| !entry.is_compacted);
            if let Some((name, publication, restored)) = read {
                let publication = publication.clone();
                let (lineage, time_ms) = (entry.lineage, entry.time_ms);
                let is_register = entry.is_register();
                let is_unjudged = restored.is_some() || is_register;
                let restored = restored.map(Box::new);
                let record = TailRecord {
                    offset,
                    lineage,
                    time_ms,
                    name,
                    publication,
                    restored,
                    is_register,
                };
                if !tail.records.is_empty() && tail.cost() + record.cost() > bytes {
                    break;
                }
                tail.records.push(record);
                if time_ms >= self.fills_before_ms {
                    self.fills_before_ms = 0;
                }
                let is_filling = self.fills_before_ms > 0;
                if !is_filling && !is_unjudged {
                    self.priming = self.priming.after(time_ms / 1_000, settings.window_s);
                }
                let is_primed = matches!(self.priming, Priming::Primed) && !is_filling;
                let is_primer = offset <= self.primed_through;
                if is_primer && !self.follows || !is_primer && !is_primed {
                    self.served_above = self.served_above.max(offset);
                }
            }
            tail.through = offset;
            self.last = Some(entry_id);
        }
        self.through = tail.through;
        tail.ended_ago_ms = (tail.through == visible).then_some(0);
        Some(tail)
    }

    /// The word that the engine has nothing more, from time to time.
    pub fn end(&mut self, id: PartitionId, partition: &Partition, now_ms: u64) -> Option<Tail> {
        if !self.is_at_end(partition) || now_ms < self.end_due_ms {
            return None;
        }
        self.end_due_ms = now_ms + END_INTERVAL_MS;
        Some(Tail { ended_ago_ms: Some(0), ..self.empty(id) })
    }

    fn empty(&self, partition: PartitionId) -> Tail {
        Tail { partition, records: Vec::new(), through: self.through, ended_ago_ms: None }
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
            self.head = self.head.min(partition.visible());
            let place = self.through.checked_sub(1);
            self.last = place.and_then(|place| life.path().get(place as usize).copied());
        }
        passes
    }
}
