//! The work of a log thread: batches for all homes, reads between them, retention, and the handling
//! of failures.
//!
//! Place on the path: homes send `broker::disk::DiskRequest`s, and the worker answers with letters.
//! Values in, values out, except for the store's access to the disk: the node runs it on a thread
//! of its own with files (`log_thread`), the simulator with a hostile disk.
//!
//! Invariants: appends of a home are answered in their order, each once. After a failed batch,
//! nothing of its homes is appended under the same generation. The number of reads between two
//! batches is bounded, and between two reads there is at most one batch, so that neither waits for
//! all of the other.
//!
//! The log may be the mirror of an engine's log, which nothing waits for (`mirror`).

mod handing;
mod mirror;

pub(crate) use handing::layout;
#[cfg(feature = "fuzzing")]
pub(crate) use handing::read_again;
pub use handing::{HandOverError, HandedWorker};

use crate::age_clock::AgeClock;
pub use crate::age_clock::LogTime;
use crate::timing::UNTIMED;
use broker::disk::{DiskAnswer, DiskLetter, DiskQuery, DiskRequest, Token};
use broker::mail::{Code, HomeId, PageLimits, PartitionId};
use broker::settings::Settings;
use broker::topic::Filter;
use log::store::{
    Append, Disk, DiskError, Dropped, ScanQuery, StartQuery, Store, StoreError, StorePage,
};
use mirror::{Mirror, MirrorRequest};
use std::collections::VecDeque;
use stdx::Counters;
use stdx::chunk::Slice;
use stdx::handing::Hand;
use stdx::histogram::Histogram;
use stdx::metrics::Metrics;

/// Approximate size of the records of one batch, in bytes.
const BATCH_BYTES_MAX: usize = 8 << 20;
/// Maximum number of records of one batch.
const BATCH_RECORDS_MAX: usize = 16_384;
/// Maximum number of reads between two batches.
const TURN_READS_MAX: usize = 16;
/// Maximum number of segments dropped in one turn: their retained messages are written again first,
/// while batches wait.
const TURN_DROPS_MAX: usize = 1;
/// Maximum number of topics in one floor letter.
const LETTER_TOPICS_MAX: usize = 1_024;
/// Time between two retention checks, in milliseconds.
const EXPIRE_INTERVAL_MS: u64 = 1_000;
/// Time between two attempts to use an unavailable log, in milliseconds.
const PROBE_INTERVAL_MS: u64 = 1_000;

/// Counts of a log thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hand, Counters, Metrics)]
pub struct LogStatistics {
    /// Batches made durable, each with one write and one sync.
    #[metric("crore_disk_batches_total")]
    pub batches: u64,
    /// Messages in durable batches.
    #[metric("crore_disk_batch_records_total")]
    pub batch_records: u64,
    /// Bytes of messages in durable batches.
    #[metric("crore_disk_batch_bytes_total")]
    pub batch_bytes: u64,
    /// Batches that the disk failed to write.
    #[metric("crore_disk_batches_failed_total")]
    pub batches_failed: u64,
    /// Publications refused because the disk failed to write their batch.
    #[metric("crore_disk_records_refused_total")]
    pub records_refused: u64,
    /// Time of a batch of a log on disk, write and sync.
    #[metric("crore_disk_sync_seconds")]
    pub syncs: Histogram,
    /// The longest duration, in microseconds.
    #[counters(max)]
    pub sync_us_max: u64,
    /// Requests answered from the disk: pages, and starts of histories.
    #[metric("crore_disk_reads_total")]
    pub reads: u64,
    /// Requests that the disk failed to answer.
    #[metric("crore_disk_reads_failed_total")]
    pub reads_failed: u64,
    /// Pages from the disk without their damaged messages; the readers received a gap.
    #[metric("crore_disk_reads_damaged_total")]
    pub reads_damaged: u64,
    /// Bytes of segments and indexes on disk.
    #[metric("crore_disk_log_bytes")]
    pub bytes: u64,
    /// Segments that logs on disk dropped because of age or size.
    #[metric("crore_disk_segments_dropped_total")]
    pub segments_dropped: u64,
    /// Times that a log on disk failed to drop a segment, or to look for one, because of a disk
    /// error.
    #[metric("crore_disk_expiries_failed_total")]
    pub expiries_failed: u64,
    /// Times that an obsolete file of a log on disk could not be removed.
    #[metric("crore_disk_removals_failed_total")]
    pub removals_failed: u64,
    /// Retained messages lost on disk: their segment expired, and they could not be read or copied.
    #[metric("crore_disk_retained_lost_total")]
    pub retained_lost: u64,
    /// Messages written to mirrors of logs in an engine.
    #[metric("crore_mirror_records_total")]
    pub mirrored_records: u64,
    /// Times that a mirror was dropped as a whole, because its disk is full, broken or too slow,
    /// because it is damaged, or because the engine has lost messages that it had. One whose disk
    /// hangs is counted when the disk answers again, for each thread with a part of it.
    #[metric("crore_mirrors_dropped_total")]
    pub mirrors_dropped: u64,
    /// Logs that accept nothing at present.
    pub unavailable: u64,
    /// Bytes that the start cut from the ends of logs; none of them had been acknowledged.
    #[metric("crore_disk_torn_bytes")]
    pub torn_bytes: u64,
    /// Damaged places that the start found; acknowledged messages may be lost.
    #[metric("crore_disk_damages")]
    pub damages: u64,
    /// Memory in bytes: the indexes of segments, and the batch being written.
    pub memory_bytes: u64,
}

/// One log's worker; see the module.
pub struct LogWorker<D: Disk> {
    store: Store<D>,
    homes_count: u16,
    first_partition: PartitionId,
    appends: VecDeque<Waiting>,
    /// The earliest start of those made durable in the last turn; see `timing`.
    committed_since_us: u64,
    reads: VecDeque<(HomeId, Token, u32, DiskQuery)>,
    /// The refused generation of each home.
    refused: Vec<Option<u32>>,
    /// The floors that the homes know.
    is_available: bool,
    /// Monotonic milliseconds.
    probe_at_ms: u64,
    expire_at_ms: u64,
    ages: AgeClock,
    statistics: LogStatistics,
    /// The log is the mirror of an engine's.
    mirror: Option<Box<Mirror>>,
}

/// A waiting append.
#[derive(Debug)]
struct Waiting {
    home: HomeId,
    since_us: u64,
    generation: u32,
    partition: u32,
    topic: Slice,
    record: Slice,
}

impl Waiting {
    fn append(&self) -> Append<'_> {
        Append { partition: self.partition, topic: &self.topic, record: &self.record }
    }
}

/// Letters and their homes, in order.
pub type HomeLetters = Vec<(HomeId, DiskLetter)>;

impl<D: Disk> LogWorker<D> {
    /// A worker for an opened store; `log` is its index in the settings.
    pub fn new(mut store: Store<D>, settings: &Settings, log: u16) -> LogWorker<D> {
        let configured = settings.logs.get(usize::from(log));
        let mirrored = configured.filter(|log| log.has_mirror());
        let mirror =
            mirrored.map(|log| Mirror::new(&mut store, settings.homes_count, log.partitions_count));
        let first_partition = configured.map_or(PartitionId(0), |log| log.first_partition);
        LogWorker {
            statistics: LogStatistics { bytes: store.bytes(), ..LogStatistics::default() },
            // The homes learn it from their restored state (`restore`).
            is_available: store.is_available(),
            store,
            homes_count: settings.homes_count,
            first_partition,
            appends: VecDeque::new(),
            committed_since_us: UNTIMED,
            reads: VecDeque::new(),
            refused: vec![None; usize::from(settings.homes_count)],
            probe_at_ms: 0,
            expire_at_ms: 0,
            ages: AgeClock::new(configured.map_or(0, |log| log.age_max_ms)),
            mirror: mirror.map(Box::new),
        }
    }

    /// Stores the findings of the start.
    pub fn note_start(&mut self, torn_bytes: u64, damages: u64) {
        self.statistics.torn_bytes += torn_bytes;
        self.statistics.damages += damages;
    }

    /// The place of a partition in the store, which refuses places that it does not have.
    fn place_of(&self, partition: PartitionId) -> u32 {
        partition.place_after(self.first_partition).unwrap_or(u32::MAX)
    }

    /// Accepts a home's requests in their order. Publications among them have been on their way
    /// since `since_us` (`timing`).
    pub fn take(&mut self, home: HomeId, since_us: u64, requests: Vec<DiskRequest>) {
        for request in requests {
            match request {
                DiskRequest::Append { generation, partition, topic, record } => {
                    let partition = self.place_of(partition);
                    let waiting = Waiting { home, since_us, generation, partition, topic, record };
                    match self.mirror.as_deref_mut() {
                        Some(mirror) => mirror.take(MirrorRequest::Append(waiting)),
                        None => self.appends.push_back(waiting),
                    }
                }
                DiskRequest::Describe { generation, partition, from, mirrored } => {
                    let partition = self.place_of(partition);
                    if let Some(mirror) = self.mirror.as_deref_mut() {
                        mirror.take(MirrorRequest::Describe {
                            home,
                            generation,
                            partition,
                            from,
                            mirrored,
                        });
                    }
                }
                DiskRequest::Resume { generation, was_slow } => {
                    self.statistics.mirrors_dropped += u64::from(was_slow);
                    if let Some(mirror) = self.mirror.as_deref_mut() {
                        mirror.take(MirrorRequest::Resume { home, generation });
                    }
                }
                DiskRequest::Read { token, partition, query } => {
                    self.reads.push_back((home, token, self.place_of(partition), query))
                }
            }
        }
    }

    /// Writes one batch of the waiting appends, then serves some reads, then runs retention and
    /// probing when they are due. True if more waits.
    pub fn turn(&mut self, now: &mut dyn FnMut() -> LogTime, out: &mut HomeLetters) -> bool {
        self.committed_since_us = UNTIMED;
        if !self.work_on_mirror(now, out) {
            self.commit(now, out);
        }
        for _ in 0..TURN_READS_MAX {
            match self.reads.pop_front() {
                Some((home, token, partition, query)) => {
                    let result = self.read(partition, query, now(), out);
                    out.push((home, DiskLetter::Answer { token, result }));
                }
                None => break,
            }
        }
        let time = now();
        let monotonic_ms = time.monotonic_us / 1_000;
        if monotonic_ms >= self.expire_at_ms {
            self.sync_mirror(time, out);
            self.expire(time, out);
        }
        if !self.is_available && monotonic_ms >= self.probe_at_ms {
            self.probe_at_ms = monotonic_ms + PROBE_INTERVAL_MS;
            let begun = self.begin_mirror(time.unix_ms);
            if begun.and_then(|()| self.store.probe(time.unix_ms)).is_ok() {
                self.say_available(true, out);
            }
        }
        !self.appends.is_empty() || !self.reads.is_empty()
    }

    /// The monotonic time in milliseconds at which [`LogWorker::turn`] has work without requests.
    pub fn next_deadline_ms(&self) -> u64 {
        if self.is_available { self.expire_at_ms } else { self.expire_at_ms.min(self.probe_at_ms) }
    }

    /// The earliest start of the publications that the last turn has made durable.
    pub fn committed_since_us(&self) -> u64 {
        self.committed_since_us
    }

    /// Counters and gauges.
    pub fn statistics(&self) -> LogStatistics {
        LogStatistics {
            bytes: self.store.bytes(),
            memory_bytes: self.store.memory_bytes() as u64,
            // Publications do not need a mirror.
            unavailable: u64::from(!self.is_available && self.mirror.is_none()),
            ..self.statistics
        }
    }

    /// The counts for [`Troubles`](crate::Troubles): failures of retention, lost retained messages,
    /// and dropped mirrors.
    pub(crate) fn troubles(&self) -> (u64, u64, u64) {
        let LogStatistics { expiries_failed, removals_failed, retained_lost, .. } = self.statistics;
        (expiries_failed + removals_failed, retained_lost, self.statistics.mirrors_dropped)
    }

    /// The store, to restore from it before the first turn and to inspect it.
    pub fn store_mut(&mut self) -> &mut Store<D> {
        &mut self.store
    }

    /// Closes the log cleanly: waiting appends are refused, and the log records that everything was
    /// synced.
    ///
    /// # Errors
    /// The last mark could not be written; the next start searches for the log's end.
    pub fn close(mut self) -> Result<(), StoreError> {
        let closed = self.store.close();
        // The next start drops a mirror that was not closed well.
        if self.mirror.is_some() { Ok(()) } else { closed }
    }

    fn commit(&mut self, now: &mut dyn FnMut() -> LogTime, out: &mut HomeLetters) {
        let mut batch: Vec<Waiting> = Vec::new();
        let mut bytes = 0;
        while batch.len() < BATCH_RECORDS_MAX
            && let Some(next) = self.appends.front()
        {
            let size = next.topic.len() + next.record.len();
            if bytes + size > BATCH_BYTES_MAX && !batch.is_empty() {
                break;
            }
            let Some(next) = self.appends.pop_front() else {
                break;
            };
            if self.refused.get(usize::from(next.home)) == Some(&Some(next.generation)) {
                self.statistics.records_refused += 1;
                let result = Err(Code::LogUnavailable);
                answer(out, next.home, next.generation, result);
                continue;
            }
            bytes += size;
            self.committed_since_us = self.committed_since_us.min(next.since_us);
            batch.push(next);
        }
        if batch.is_empty() {
            return;
        }
        let appends: Vec<Append<'_>> = batch.iter().map(Waiting::append).collect();
        let began = now();
        let result = self.store.append(&appends, began.unix_ms);
        drop(appends);
        let took_us = now().monotonic_us.saturating_sub(began.monotonic_us);
        self.statistics.syncs.record(took_us);
        self.statistics.sync_us_max = self.statistics.sync_us_max.max(took_us);
        match result {
            Ok(()) => {
                self.statistics.batches += 1;
                self.statistics.batch_records += batch.len() as u64;
                self.statistics.batch_bytes += bytes as u64;
                for waiting in batch {
                    answer(out, waiting.home, waiting.generation, Ok(()));
                }
                self.say_available(true, out);
            }
            Err(error) => {
                self.statistics.batches_failed += 1;
                self.statistics.records_refused += batch.len() as u64;
                let code = code_of(error);
                for waiting in batch {
                    if let Some(refused) = self.refused.get_mut(usize::from(waiting.home)) {
                        *refused = Some(waiting.generation);
                    }
                    answer(out, waiting.home, waiting.generation, Err(code));
                }
                if !self.store.is_available() {
                    self.probe_at_ms = now().monotonic_us / 1_000 + PROBE_INTERVAL_MS;
                    self.say_available(false, out);
                }
            }
        }
    }

    fn say_available(&mut self, is_available: bool, out: &mut HomeLetters) {
        if std::mem::replace(&mut self.is_available, is_available) != is_available {
            for home in (0..self.homes_count).map(HomeId) {
                out.push((home, DiskLetter::Available(is_available)));
            }
        }
    }

    fn read(
        &mut self,
        partition: u32,
        query: DiskQuery,
        time: LogTime,
        out: &mut HomeLetters,
    ) -> Result<DiskAnswer, Code> {
        self.statistics.reads += 1;
        let answer = self.ask_store(partition, query);
        match &answer {
            Err(error) => {
                self.statistics.reads_failed += 1;
                self.fail_mirror(*error, time, out);
            }
            Ok(
                DiskAnswer::Page { damaged: true, .. }
                | DiskAnswer::Start { damaged: true, .. }
                | DiskAnswer::Scan { damaged: true, .. },
            ) => {
                self.statistics.reads_damaged += 1;
                self.fail_mirror(StoreError::Record, time, out);
            }
            Ok(_) => {}
        }
        answer.map_err(|_| Code::LogUnavailable)
    }

    fn ask_store(&mut self, partition: u32, query: DiskQuery) -> Result<DiskAnswer, StoreError> {
        let store = &mut self.store;
        match query {
            DiskQuery::Page { topic, after, through, limits } => {
                store.page(partition, &topic, after, through, log_limits(limits)).map(page_of)
            }
            DiskQuery::PageBack { topic, before, oldest, limits } => {
                store.page_back(partition, &topic, before, oldest, log_limits(limits)).map(page_of)
            }
            DiskQuery::Start { topic, through, count, not_before_ms, after } => {
                let wanted = StartQuery { through, count, not_before_ms, after };
                let start = store.start(partition, &topic, wanted)?;
                Ok(DiskAnswer::Start {
                    oldest: start.oldest,
                    prev: start.prev,
                    count: start.count,
                    damaged: start.damaged,
                })
            }
            DiskQuery::Scan { filters, after, through, limits, bytes_scanned_max } => {
                let filters: Vec<Filter<'_>> = filters
                    .iter()
                    .filter_map(|filter| Filter::parse(std::str::from_utf8(filter).ok()?).ok())
                    .collect();
                let mut matches = |name: &[u8]| {
                    let name = std::str::from_utf8(name).unwrap_or_default();
                    filters.iter().any(|filter| filter.matches(name))
                };
                let wanted = ScanQuery {
                    after,
                    through,
                    limits: log_limits(limits),
                    bytes_scanned_max: bytes_scanned_max.into(),
                };
                let scan = store.scan(partition, wanted, &mut matches)?;
                Ok(DiskAnswer::Scan {
                    floor: store.read_floor(partition),
                    records: scan.records,
                    through: scan.through,
                    damaged: scan.damaged,
                })
            }
        }
    }

    fn expire(&mut self, time: LogTime, out: &mut HomeLetters) {
        self.expire_at_ms = time.monotonic_us / 1_000 + EXPIRE_INTERVAL_MS;
        let now_ms = self.ages.look(time);
        for _ in 0..TURN_DROPS_MAX {
            let expired = self.store.expire(now_ms);
            let statistics = &mut self.statistics;
            statistics.removals_failed += self.store.take_removals_failed();
            match expired {
                Ok(Some(dropped)) => {
                    statistics.segments_dropped += 1;
                    statistics.retained_lost += dropped.retained_lost;
                    self.say_dropped(&dropped, out);
                }
                Ok(None) => return,
                Err(error) => {
                    // After some of these errors, the store continues without the failed part; see
                    // `log::store`.
                    statistics.expiries_failed += 1;
                    self.fail_mirror(error, time, out);
                    return;
                }
            }
        }
        self.expire_at_ms = time.monotonic_us / 1_000; // there may be more
    }

    fn say_dropped(&self, dropped: &Dropped, out: &mut HomeLetters) {
        for home in (0..self.homes_count).map(HomeId) {
            let lives_here = |partition: u32| {
                let partition = self.first_partition.nth(partition);
                let is_theirs = partition.0 % u32::from(self.homes_count) == u32::from(home.0);
                is_theirs.then_some(partition)
            };
            let floors: Vec<(PartitionId, u64)> = dropped
                .floors
                .iter()
                .filter_map(|(partition, floor)| Some((lives_here(*partition)?, *floor)))
                .collect();
            let topics: Vec<(PartitionId, Slice)> = dropped
                .topics
                .iter()
                .filter_map(|(partition, name)| Some((lives_here(*partition)?, name.clone())))
                .collect();
            if floors.is_empty() && topics.is_empty() {
                continue;
            }
            out.push((home, DiskLetter::Floor { floors, topics: Vec::new() }));
            for topics in topics.chunks(LETTER_TOPICS_MAX) {
                let letter = DiskLetter::Floor { floors: Vec::new(), topics: topics.to_vec() };
                out.push((home, letter));
            }
        }
    }
}

/// Answers one append, combined with the previous ones if they have the same answer.
fn answer(out: &mut HomeLetters, to: HomeId, number: u32, said: Result<(), Code>) {
    let before = out.iter_mut().rev().find(|(home, _)| *home == to);
    if let Some((_, DiskLetter::Committed { generation, count, result })) = before
        && *generation == number
        && *result == said
    {
        *count += 1;
        return;
    }
    let letter = DiskLetter::Committed { generation: number, count: 1, result: said };
    out.push((to, letter));
}

fn code_of(error: StoreError) -> Code {
    match error {
        StoreError::Disk(DiskError::NoSpace) => Code::LogFull,
        StoreError::Disk(_) => Code::LogUnavailable,
        _ => Code::Internal,
    }
}

fn page_of(page: StorePage) -> DiskAnswer {
    DiskAnswer::Page {
        records: page.records,
        first_prev: page.first_prev,
        complete: page.complete,
        damaged: page.damaged,
    }
}

fn log_limits(limits: PageLimits) -> log::PageLimits {
    log::PageLimits {
        records_max: limits.records_max as usize,
        bytes_max: limits.bytes_max as usize,
    }
}
