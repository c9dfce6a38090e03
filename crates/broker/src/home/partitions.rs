//! The partitions of a home, and the share that it has in each log's bounds.
//!
//! A log's bytes and retained bytes are divided over its partitions in proportion, so that no home
//! needs to know how full the others are: a home may use `bound * own partitions / all partitions`
//! of it, wherever among its own.
//!
//! Age is measured by [`Elapsed`], not by the records' times: a wall clock that jumps neither
//! evicts nor keeps anything.

use super::engine::EnginePartition;
use super::mirror::Mirror;
use super::staging::Staging;
use crate::mail::{Gap, GapReason, HomeId, PartitionId};
use crate::now::Now;
use crate::position::{Lineages, Position, Standing};
use crate::settings::{Durability, LogSettings, Settings};
use log::Partition;
use std::collections::VecDeque;
use stdx::handing::Hand;

/// A segment is closed when it has grown so old, as a part of the log's age, so that quiet
/// partitions expire in time.
pub(super) const SEGMENT_AGE_PART: u64 = 8;

/// A partition and its home's state beside the log.
#[derive(Debug)]
pub(super) struct HomePartition {
    /// The number of the partition over all logs.
    pub id: PartitionId,
    /// Its epoch, and the judge of positions.
    pub lineages: Lineages,
    /// The index of its log in this home.
    pub share: usize,
    /// The records present; of a log on disk the newest ones.
    pub log: Partition,
    /// Older records than those in memory are on disk: of a log on disk, or of a mirror.
    pub has_disk: bool,
    /// The least offset that the disk may still hold, of a log on disk or of a mirror.
    pub disk_floor: u64,
    /// The number of the next proposal, of a log on disk; some before it may not be durable yet, or
    /// never be.
    pub next_staged: u64,
    /// The greatest last offset of any forgotten topic.
    pub forgotten_through: u64,
    /// Damage may have taken records of any topic away up to here, of a log on disk; 0: nowhere.
    /// One number is enough: a record behind it names in `prev` what its topic may have lost, so
    /// only the newest hole has to be known.
    pub damaged_through: u64,
    /// Each edge's offset from which its stream still has to be read from the log; 0 while
    /// it keeps up.
    pub lag_from: Box<[u64]>,
    /// The time of each segment's newest record, oldest first; milliseconds of the home's clock.
    pub ages: VecDeque<u64>,
    /// The begin of the active segment; milliseconds of the home's clock.
    pub active_since: u64,
    /// The state beside the records if an engine orders them.
    pub engine: Option<Box<EnginePartition>>,
}

/// This home's share of one log.
#[derive(Debug, Hand)]
pub(super) struct Share {
    /// Own numbers of the log's partitions that live here.
    pub partitions: std::ops::Range<u32>,
    pub bytes_max: u64,
    pub bytes: u64,
    pub retained_bytes_max: u64,
    pub retained_bytes: u64,
    pub age_max_ms: u64,
    /// Publications that wait for a log on disk.
    pub disk: Option<Box<Staging>>,
    /// The copy of a log in an engine.
    pub mirror: Option<Box<Mirror>>,
}

/// Milliseconds since the home first got the time, by the monotonic clock.
#[derive(Debug, Default, Hand)]
pub(super) struct Elapsed {
    pub ms: u64,
    began_ms: Option<u64>,
}

impl HomePartition {
    /// The least offset that a record in memory may have; above the head if there can be none.
    pub fn oldest(&self) -> u64 {
        let of_log = || self.log.oldest().unwrap_or(self.log.next_offset());
        self.engine.as_ref().map_or_else(of_log, |engine| engine.floor())
    }

    /// The least offset that a record of this partition may have, wherever it is kept. Memory may
    /// keep what the disk has dropped.
    pub fn floor(&self) -> u64 {
        if self.has_disk { self.disk_floor.min(self.oldest()) } else { self.oldest() }
    }

    /// Behind this offset a topic has never had a record: its newest, or the end of the damage
    /// behind that.
    pub fn reach(&self, last: u64) -> u64 {
        last.max(self.damaged_through)
    }

    /// The records of a topic behind its newest one that damage may have taken away, and that
    /// retention would have left.
    pub fn lost_after(&self, last: u64) -> Option<Gap> {
        let to = self.damaged_through;
        (to > last && self.keeps(to)).then_some(Gap { from: last, to, reason: GapReason::Damaged })
    }

    /// Whether retention has left the records at an offset, so that their loss is damage. What an
    /// engine's partition lacks is not retention's.
    pub fn keeps(&self, offset: u64) -> bool {
        self.engine.is_some() || offset >= self.disk_floor
    }

    /// Compares a position with this partition. Positions name records: one in a hole behind the
    /// newest record has waited for the next one (`engine/ahead.rs`), so its record is lost.
    pub fn standing(&self, position: Position) -> Standing {
        self.lineages.standing(position, self.log.head())
    }

    /// The reason of the gap behind which a client with this position is led back.
    pub fn reason_of_rewind(&self, position: Position) -> GapReason {
        match self.standing(position) {
            Standing::BeyondHead => GapReason::BeyondHead,
            Standing::After(_) | Standing::UnknownEpoch => GapReason::UnknownEpoch,
        }
    }

    /// Whether the stream to an edge has lost something to eviction.
    pub fn has_lost(&self, edge: usize) -> bool {
        (1..self.oldest()).contains(&self.lag_from[edge])
    }

    /// The last offset that the stream to an edge has dealt with.
    pub fn stream_position(&self, edge: usize) -> u64 {
        match self.lag_from[edge] {
            0 => self.log.head(),
            from => from - 1,
        }
    }
}

impl Share {
    /// Whether a record of the topic waits for the disk.
    pub fn is_staged(&self, topic: u32) -> bool {
        self.disk.as_ref().is_some_and(|disk| disk.of_topic(topic).is_some())
    }

    /// Bytes of retained messages when all that waits for the disk has got there.
    pub fn retained_bytes_expected(&self) -> u64 {
        let change = self.disk.as_ref().map_or(0, |disk| disk.retained_change);
        self.retained_bytes.saturating_add_signed(change)
    }
}

impl Share {
    /// Applies the settings of the log that may change while its node runs.
    pub fn renew(&mut self, log: &LogSettings) {
        let count = self.partitions.len() as u32;
        self.retained_bytes_max = part_of(log, count, log.retained_bytes_max);
    }
}

impl Elapsed {
    pub fn advance(&mut self, now: Now) {
        let began_ms = *self.began_ms.get_or_insert(now.monotonic_ms);
        self.ms = self.ms.max(now.monotonic_ms.saturating_sub(began_ms));
    }

    /// The monotonic clock's reading when this number of milliseconds will have passed.
    pub fn monotonic_at(&self, steady_ms: u64) -> u64 {
        self.began_ms.unwrap_or(0).saturating_add(steady_ms)
    }
}

/// Bytes of a segment in the memory of a log on disk, whose segments there are larger: each
/// partition fills one.
const CACHE_SEGMENT_BYTES_MAX: u64 = 2 << 20;

/// The partitions that live at `home`, in order, and its shares in their logs.
pub(super) fn partitions_of(settings: &Settings, home: HomeId) -> (Vec<HomePartition>, Vec<Share>) {
    let mut partitions: Vec<HomePartition> = Vec::new();
    let mut shares = Vec::new();
    for log in &settings.logs {
        let first = partitions.len() as u32;
        let own: Vec<PartitionId> =
            log.partitions().filter(|id| settings.home_of(*id) == home).collect();
        let share = share_of(log, first, own.len() as u32);
        let segment_bytes = segment_bytes(log, &share);
        partitions.extend(own.into_iter().map(|id| HomePartition {
            id,
            lineages: Lineages::of_log(log, id),
            share: shares.len(),
            log: Partition::new(
                log::Settings {
                    segment_bytes: segment_bytes as usize,
                    partition: id.place_after(log.first_partition).unwrap_or(0),
                    epoch: log.epoch,
                },
                1,
            ),
            has_disk: log.has_disk(),
            disk_floor: 1,
            next_staged: 1,
            forgotten_through: 0,
            damaged_through: 0,
            lag_from: vec![0; usize::from(settings.edges_count)].into_boxed_slice(),
            ages: VecDeque::new(),
            active_since: 0,
            engine: None,
        }));
        shares.push(share);
    }
    (partitions, shares)
}

/// The maximum number of segments of a home in memory, if no record is larger than a segment.
/// In a [`log::Memory`] of the kernel each is a descriptor.
pub fn segments_max(settings: &Settings, home: HomeId) -> u64 {
    let (partitions, shares) = partitions_of(settings, home);
    let of_share = |(log, share): (&LogSettings, &Share)| {
        // A record that does not fit leaves up to half of a segment empty.
        2 * share.bytes_max / segment_bytes(log, share).max(1)
    };
    let by_bytes: u64 = settings.logs.iter().zip(&shares).map(of_share).sum();
    // Of a quiet partition by age: one in each part of it, and two that are cut off.
    by_bytes + partitions.len() as u64 * (SEGMENT_AGE_PART + 2)
}

fn segment_bytes(log: &LogSettings, share: &Share) -> u64 {
    let max = share.bytes_max / 4;
    let max = if log.has_disk() { CACHE_SEGMENT_BYTES_MAX.min(max) } else { max };
    u64::from(log.segment_bytes).min(max)
}

/// The part of a log's bytes that `count` of its partitions have.
fn part_of(log: &LogSettings, count: u32, bytes: u64) -> u64 {
    let all = u128::from(log.partitions_count.max(1));
    (u128::from(bytes) * u128::from(count) / all) as u64
}

fn share_of(log: &LogSettings, first: u32, count: u32) -> Share {
    let part = |bytes: u64| part_of(log, count, bytes);
    Share {
        partitions: first..first + count,
        bytes_max: part(log.memory_bytes_max()),
        bytes: 0,
        retained_bytes_max: part(log.retained_bytes_max),
        retained_bytes: 0,
        age_max_ms: log.age_max_ms,
        disk: (log.durability == Durability::Disk).then(Box::default),
        mirror: log.has_mirror().then(Box::default),
    }
}
