//! The work of a log thread on a mirror: the copy of a log whose records are in an engine.
//!
//! Nothing waits for these records, so they are written without a sync, and synced once a
//! second. A read is served behind everything that its home had sent before.
//!
//! A mirror that fails in any way is dropped as a whole: its homes learn of it, and it begins anew
//! when the disk takes it, after a second at the earliest. Until then nothing is written. Failures
//! are: a write or a sync that the disk refuses (it is full, or broken), a read that it refuses,
//! a damaged record, and a record that contradicts the mirror's (the engine has lost some).

use super::{BATCH_BYTES_MAX, BATCH_RECORDS_MAX, HomeLetters, LogTime, LogWorker, Waiting, answer};
use super::{PROBE_INTERVAL_MS, code_of};
use broker::disk::{DiskLetter, Mirrored};
use broker::mail::{Code, HomeId};
use log::store::{Append, Disk, Store, StoreError};

/// The state of a mirror's worker beside its store.
#[derive(Debug)]
pub(super) struct Mirror {
    pub waiting: Vec<MirrorRequest>,
    /// The newest generation of each home.
    pub generations: Vec<u32>,
    /// The engine's description of each partition's records.
    pub described: Vec<Mirrored>,
    /// The file of the mirror says so, too.
    pub is_written: bool,
    /// The store has failed, and has to begin anew.
    pub is_failed: bool,
}

/// A home's request about a mirror.
#[derive(Debug)]
pub(super) enum MirrorRequest {
    Append(Waiting),
    Describe { home: HomeId, generation: u32, partition: u32, from: u64, mirrored: Mirrored },
    Resume { home: HomeId, generation: u32 },
}

impl Mirror {
    pub fn new<D: Disk>(store: &mut Store<D>, homes_count: u16, partitions_count: u32) -> Mirror {
        store.write_lazily();
        let described = store.mirrored().ok().flatten();
        for (partition, mirrored) in (0..).zip(described.iter().flatten()) {
            store.set_read_floor(partition, mirrored.floor);
        }
        Mirror {
            waiting: Vec::new(),
            generations: vec![0; usize::from(homes_count)],
            is_written: described.is_some(),
            described: described.unwrap_or_else(|| nothing(partitions_count as usize)),
            is_failed: false,
        }
    }

    /// Takes a home's request.
    pub fn take(&mut self, request: MirrorRequest) {
        let (home, generation) = request.sender();
        if let Some(newest) = self.generations.get_mut(usize::from(home)) {
            *newest = generation;
        }
        self.waiting.push(request);
    }
}

impl MirrorRequest {
    fn sender(&self) -> (HomeId, u32) {
        match self {
            MirrorRequest::Append(Waiting { home, generation, .. })
            | MirrorRequest::Describe { home, generation, .. }
            | MirrorRequest::Resume { home, generation } => (*home, *generation),
        }
    }
}

fn nothing(partitions_count: usize) -> Vec<Mirrored> {
    vec![Mirrored::default(); partitions_count]
}

impl<D: Disk> LogWorker<D> {
    /// Deals with all requests that wait, in their order. False if the log is not a mirror.
    pub(super) fn work_on_mirror(
        &mut self,
        now: &mut dyn FnMut() -> LogTime,
        out: &mut HomeLetters,
    ) -> bool {
        let Some(mirror) = self.mirror.as_deref_mut() else {
            return false;
        };
        let waiting = std::mem::take(&mut mirror.waiting);
        if let Err(error) = self.mirror_all(waiting, now, out) {
            self.fail_mirror(error, now(), out);
        }
        true
    }

    fn mirror_all(
        &mut self,
        waiting: Vec<MirrorRequest>,
        now: &mut dyn FnMut() -> LogTime,
        out: &mut HomeLetters,
    ) -> Result<(), StoreError> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for request in waiting {
            let (home, generation) = request.sender();
            if !self.is_available {
                answer(out, home, generation, Err(Code::LogUnavailable));
                continue;
            }
            if let MirrorRequest::Append(append) = request {
                let size = append.topic.len() + append.record.len();
                if bytes + size > BATCH_BYTES_MAX || batch.len() >= BATCH_RECORDS_MAX {
                    self.write_mirror(&mut batch, now, out)?;
                    bytes = 0;
                }
                bytes += size;
                batch.push(append);
                continue;
            }
            self.write_mirror(&mut batch, now, out)?;
            bytes = 0;
            if let MirrorRequest::Describe { partition, from, mirrored, .. } = request {
                self.describe_mirror(partition, from, mirrored)?;
            }
            answer(out, home, generation, Ok(()));
        }
        self.write_mirror(&mut batch, now, out)
    }

    fn describe_mirror(
        &mut self,
        partition: u32,
        from: u64,
        mirrored: Mirrored,
    ) -> Result<(), StoreError> {
        let head = self.store.heads().get(partition as usize).copied();
        let head = head.ok_or(StoreError::Partition(partition))?;
        if from <= head {
            // Records of another life of the partition. They go before this life is described.
            return Err(StoreError::Order { partition, offset: from, head });
        }
        self.store.set_read_floor(partition, mirrored.floor);
        if let Some(mirror) = self.mirror.as_deref_mut()
            && let Some(described) = mirror.described.get_mut(partition as usize)
        {
            *described = mirrored;
            mirror.is_written = false;
        }
        Ok(())
    }

    /// Writes a batch, behind what the engine says of its records.
    fn write_mirror(
        &mut self,
        batch: &mut Vec<Waiting>,
        now: &mut dyn FnMut() -> LogTime,
        out: &mut HomeLetters,
    ) -> Result<(), StoreError> {
        if batch.is_empty() {
            return Ok(());
        }
        self.write_described()?;
        let appends: Vec<Append<'_>> = batch.iter().map(Waiting::append).collect();
        self.store.append(&appends, now().unix_ms)?;
        self.statistics.mirrored_records += batch.len() as u64;
        for waiting in batch.drain(..) {
            answer(out, waiting.home, waiting.generation, Ok(()));
        }
        Ok(())
    }

    /// Writes what the engine says of the records, if the disk does not have that.
    pub(super) fn write_described(&mut self) -> Result<(), StoreError> {
        if let Some(mirror) = self.mirror.as_deref_mut()
            && !mirror.is_written
        {
            self.store.set_mirrored(&mirror.described)?;
            mirror.is_written = true;
        }
        Ok(())
    }

    /// Syncs the mirror, once in each check of retention.
    pub(super) fn sync_mirror(&mut self, time: LogTime, out: &mut HomeLetters) {
        if self.mirror.is_some()
            && self.is_available
            && let Err(error) = self.store.sync()
        {
            self.fail_mirror(error, time, out);
        }
    }

    /// The mirror has failed: its homes do not wait for it any more. Does nothing to a log on disk.
    pub(super) fn fail_mirror(&mut self, error: StoreError, time: LogTime, out: &mut HomeLetters) {
        let Some(mirror) = self.mirror.as_deref_mut() else {
            return;
        };
        if mirror.is_failed {
            return;
        }
        mirror.is_failed = true;
        self.statistics.mirrors_dropped += 1;
        for (home, generation) in (0..).map(HomeId).zip(&mirror.generations) {
            let (generation, result) = (*generation, Err(code_of(error)));
            out.push((home, DiskLetter::Committed { generation, count: 0, result }));
        }
        self.probe_at_ms = time.monotonic_us / 1_000 + PROBE_INTERVAL_MS;
        self.say_available(false, out);
    }

    /// Begins a mirror anew that has failed.
    pub(super) fn begin_mirror(&mut self, now_ms: u64) -> Result<(), StoreError> {
        let Some(mirror) = self.mirror.as_deref_mut().filter(|mirror| mirror.is_failed) else {
            return Ok(());
        };
        self.store.discard(now_ms)?;
        mirror.described = nothing(mirror.described.len());
        mirror.is_written = false;
        mirror.is_failed = false;
        Ok(())
    }
}
