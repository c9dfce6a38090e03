//! One log thread over a disk that keeps only synced data, and its state over the death of its
//! node.

mod losses;

use crate::faults::DiskFaults;
use crate::mutation::Saboteur;
use broker::disk::{DiskLetter, DiskRequest};
use broker::home::{FoundWindow, Home, HomeOutputs};
use broker::mail::HomeId;
use broker::settings::{LogSettings, OlderEpoch, Settings};
use log::store::hostile::{HostileDisk, HostileFile, proven_bytes};
use log::store::{Disk, DiskError, OpenError, Recovered, Store, StoreSettings};
use log::{HeapMemory, Memory};
use node::logs::{LogTime, LogWorker};
use node::restore::Restoration;
use node::timing::UNTIMED;
use std::cell::RefCell;
use std::rc::Rc;
use stdx::chunk::Slice;
use stdx::hash::Seed;
use stdx::prng::Prng;

/// The hostile disk, with planted bugs.
pub struct SimDisk {
    disk: HostileDisk,
    saboteur: Rc<RefCell<Saboteur>>,
}

impl Disk for SimDisk {
    type File = HostileFile;

    fn create(&mut self, name: &str) -> Result<HostileFile, DiskError> {
        self.disk.create(name)
    }

    fn open(&mut self, name: &str) -> Result<HostileFile, DiskError> {
        self.disk.open(name)
    }

    fn reopen(&mut self, name: &str) -> Result<HostileFile, DiskError> {
        self.disk.reopen(name)
    }

    fn list(&mut self) -> Result<Vec<String>, DiskError> {
        self.disk.list()
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.disk.remove(name)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        self.disk.rename(from, to)
    }

    fn len(&mut self, file: &mut HostileFile) -> Result<u64, DiskError> {
        self.disk.len(file)
    }

    fn write_at(
        &mut self,
        file: &mut HostileFile,
        position: u64,
        bytes: &[u8],
    ) -> Result<(), DiskError> {
        self.disk.write_at(file, position, bytes)
    }

    fn read_at(
        &mut self,
        file: &mut HostileFile,
        position: u64,
        bytes: &mut [u8],
    ) -> Result<usize, DiskError> {
        self.disk.read_at(file, position, bytes)
    }

    fn sync(&mut self, file: &mut HostileFile) -> Result<(), DiskError> {
        if self.saboteur.borrow_mut().skips_sync() { Ok(()) } else { self.disk.sync(file) }
    }

    fn sync_directory(&mut self) -> Result<(), DiskError> {
        self.disk.sync_directory()
    }
}

/// The events of a log's disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Worn {
    /// Starts that cut a torn tail.
    pub torn: u64,
    /// Starts that found damage.
    pub damaged: u64,
    /// Interrupted starts.
    pub died: u64,
    /// Starts on a full disk, with a read-only log.
    pub full: u64,
    /// Starts refused because of a full disk.
    pub refused_starts: u64,
    /// Flipped bits of synced data.
    pub flips: u64,
    /// Lost newest segments and restored directories: each begins an epoch.
    pub ends_lost: u64,
    /// Logs repaired because a start found unreadable data.
    pub repairs: u64,
    /// Refused batches.
    pub refused: u64,
    /// Answered reads.
    pub answers: u64,
    /// Dropped segments.
    pub dropped: u64,
    /// Durable batches.
    pub batches: u64,
    /// Reads that found damage.
    pub damaged_reads: u64,
}

/// The size of the newest bytes of a segment: some records.
const NEWEST_BYTES: usize = 2_000;

/// A started worker, its restorations by home, and the findings of the start.
type Started = (LogWorker<SimDisk>, Vec<Restoration>, Recovered);

/// A simulated log thread; see the module.
pub struct LogThread {
    disk: HostileDisk,
    worker: Option<LogWorker<SimDisk>>,
    /// Restorations by home, until the home takes them.
    restorations: Vec<Option<Restoration>>,
    has_more: bool,
    saboteur: Rc<RefCell<Saboteur>>,
    random: Prng,
    /// The generator of starts with a full disk.
    starts: Prng,
    losses: losses::Losses,
    /// Overwrites need room.
    copies_on_write: bool,
    settings: LogSettings,
    index: u16,
    homes: u16,
    new_epoch: u64,
    recovered: Option<Recovered>,
    full_until_ms: u64,
    /// The disk was damaged since it was last opened.
    is_flipped: bool,
    /// The events of the disk, without the present worker's.
    worn: Worn,
}

impl LogThread {
    /// Creates a log thread with an empty disk.
    pub fn new(
        index: u16,
        settings: &LogSettings,
        homes: u16,
        random: &mut Prng,
        mut starts: Prng,
        saboteur: Saboteur,
    ) -> LogThread {
        let disk = HostileDisk::new(random.next_u64());
        let fork = random.fork();
        // A separate generator, so that other worlds do not change.
        let losses = losses::Losses::new(starts.clone().next_u64());
        let copies_on_write = starts.chance(0.25);
        if copies_on_write {
            disk.copy_on_write();
        }
        LogThread {
            disk,
            worker: None,
            restorations: Vec::new(),
            has_more: false,
            saboteur: Rc::new(RefCell::new(saboteur)),
            random: fork,
            starts,
            losses,
            copies_on_write,
            new_epoch: settings.epoch,
            settings: settings.clone(),
            index,
            homes,
            recovered: None,
            full_until_ms: 0,
            is_flipped: false,
            worn: Worn::default(),
        }
    }

    /// Opens the log, sometimes with interruptions. Returns its epoch, and the older ones.
    ///
    /// # Errors
    /// The start reported a result that is not permitted.
    pub fn open(
        &mut self,
        (now_ms, unix_ms): (u64, u64),
        settings: &Settings,
        faults: &DiskFaults,
    ) -> Result<(u64, Vec<OlderEpoch>), String> {
        let before = self.recovered.take();
        if before.is_some() {
            self.may_be_full(now_ms, faults);
        }
        let mut deaths = if before.is_some() { self.random.below(3) } else { 0 };
        self.losses.is_repaired = false;
        loop {
            self.new_epoch += 1;
            let dies = deaths > 0;
            if dies {
                deaths -= 1;
                self.disk.stop_after(self.random.below(60) as u32);
            }
            let (opened, is_refused) = self.start_worker(settings, unix_ms);
            // Reads continue without unreadable data; after the end of the machine none of that is
            // valid.
            let has_stopped = self.disk.has_stopped();
            // An error fails this start; the next one is a new process.
            self.disk.stop_faults();
            match opened {
                _ if has_stopped => {
                    self.worn.died += 1;
                    self.lose_power_or_process(faults);
                }
                Ok((mut worker, restorations, recovered)) => {
                    self.note_opened(before.as_ref(), &recovered)?;
                    self.worn.full += u64::from(!worker.store_mut().is_available());
                    self.worker = Some(worker);
                    self.restorations = restorations.into_iter().map(Some).collect();
                    let older = recovered.older.iter().map(|older| OlderEpoch {
                        epoch: older.epoch,
                        valid_below: older.valid_below.clone(),
                    });
                    let lives = (recovered.epoch, older.collect());
                    self.recovered = Some(recovered);
                    return Ok(lives);
                }
                Err(_) if is_refused && self.may_refuse() => {
                    // The operator makes room.
                    self.worn.refused_starts += 1;
                    self.room_again();
                    self.lose_power_or_process(faults);
                }
                Err(_) if self.may_repair() => self.repair(unix_ms, faults)?,
                Err(error) => return Err(format!("a log does not open: {error}")),
            }
        }
    }

    /// Starts a worker over the disk. Returns it with its findings, and whether a full disk refused
    /// the start.
    fn start_worker(&self, settings: &Settings, unix_ms: u64) -> (Result<Started, String>, bool) {
        let store_settings = StoreSettings {
            partitions_count: self.settings.partitions_count,
            segment_bytes: self.settings.segment_bytes.into(),
            bytes_max: self.settings.log_bytes_max,
            age_max_ms: self.settings.age_max_ms,
            new_epoch: self.new_epoch,
            hash_seed: Seed(1, 2),
        };
        let disk = SimDisk { disk: self.disk.clone(), saboteur: self.saboteur.clone() };
        let opened = Store::open(disk, store_settings, unix_ms);
        let is_refused = matches!(opened, Err(OpenError::Disk(DiskError::NoSpace)));
        let opened =
            opened.map_err(|error| error.to_string()).and_then(|(store, mut recovered)| {
                let mut saboteur = self.saboteur.borrow_mut();
                saboteur.loses_holes(&mut recovered.damaged_through);
                drop(saboteur);
                let mut worker = LogWorker::new(store, settings, self.index);
                let store = worker.store_mut();
                let found = Restoration::read(
                    store,
                    &recovered,
                    settings,
                    self.index,
                    &mut HeapMemory::new(usize::MAX),
                );
                let found = found.map_err(|error| error.to_string())?;
                Ok((worker, found, recovered))
            });
        (opened, is_refused)
    }

    /// The lowest offset at the start, for each partition.
    pub fn floors(&self) -> Vec<(u32, u64)> {
        let floors = self.recovered.iter().flat_map(|found| &found.floors);
        (self.settings.first_partition.0..).zip(floors.copied()).collect()
    }

    /// Draws whether the disk is full when the log begins.
    fn may_be_full(&mut self, now_ms: u64, faults: &DiskFaults) {
        if faults.full > 0.0 && self.starts.chance(0.5) {
            let room = [0, 0, self.starts.below(2_000)][self.starts.below(3) as usize];
            self.disk.set_capacity(Some(self.disk.bytes() + room));
            self.full_until_ms = now_ms + self.starts.between(1, faults.full_ms_max.max(1));
        }
    }

    /// Whether a start may be refused for lack of room: if the newest batch cannot be written over
    /// itself, or if an epoch begins.
    fn may_refuse(&self) -> bool {
        self.copies_on_write || self.is_flipped
    }

    fn room_again(&mut self) {
        self.disk.set_capacity(None);
        self.full_until_ms = 0;
    }

    fn note_opened(&mut self, before: Option<&Recovered>, found: &Recovered) -> Result<(), String> {
        self.worn.torn += u64::from(found.torn_bytes > 0);
        self.worn.damaged += u64::from(!found.damages.is_empty());
        let Some(before) = before else {
            return Ok(());
        };
        if found.epoch != before.epoch && !self.is_flipped {
            return Err(format!(
                "the log has epoch {} and had {}, and nothing was damaged: {found:?}",
                found.epoch, before.epoch
            ));
        }
        if found.is_new && !self.losses.is_end_lost {
            return Err("the log is gone".into());
        }
        if found.epoch == before.epoch {
            forgets_nothing(before, found)?;
        }
        self.losses.note_opened(found, found.epoch != before.epoch)
    }

    fn lose_power_or_process(&mut self, faults: &DiskFaults) {
        if self.random.chance(faults.power) { self.disk.crash() } else { self.disk.kill() }
    }

    /// Simulates the death of the node, during the log thread's work.
    pub fn crash(
        &mut self,
        now_ms: u64,
        unix_ms: u64,
        faults: &DiskFaults,
        requests: Vec<(HomeId, DiskRequest)>,
    ) {
        if self.random.chance(0.5) {
            self.disk.stop_after(self.random.below(6) as u32);
            self.turn(now_ms, unix_ms, &DiskFaults::default(), requests);
        }
        self.worn = self.worn();
        self.worker = None;
        self.has_more = false;
        self.lose_power_or_process(faults);
        if self.random.chance(faults.flip) {
            let is_newest = faults.flip_newest > 0.0 && self.random.chance(faults.flip_newest);
            self.flip(is_newest);
        }
        self.lose(faults);
        if self.saboteur.borrow_mut().loses_noted_end() {
            self.disk.erase_noted_end();
        }
        if self.saboteur.borrow_mut().forgets_last_batch() {
            self.cut_tail();
        }
    }

    /// Stops the node regularly: requests are completed, and the log is closed.
    pub fn stop(&mut self, now_ms: u64, unix_ms: u64, requests: Vec<(HomeId, DiskRequest)>) {
        self.turn(now_ms, unix_ms, &DiskFaults::default(), requests);
        while self.has_more {
            self.turn(now_ms, unix_ms, &DiskFaults::default(), Vec::new());
        }
        self.worn = self.worn();
        if let Some(worker) = self.worker.take() {
            // A failing disk makes the next start search for the end.
            let _ = worker.close();
        }
        self.disk.kill();
    }

    fn flip(&mut self, is_newest: bool) {
        let names = self.disk.names();
        let is_segment = |name: &&String| name.ends_with(".log");
        let name = match is_newest {
            true => names.iter().rfind(is_segment),
            false if names.is_empty() => None,
            false => names.get(self.random.below(names.len() as u64) as usize),
        };
        let Some(name) = name else {
            return;
        };
        let length = self.provable_bytes(&names, name);
        if length > 0 {
            let from = if is_newest { length.saturating_sub(NEWEST_BYTES) } else { 0 };
            let byte = self.random.between(from as u64, length as u64 - 1);
            self.disk.flip_bit(name, byte, self.random.below(8) as u8);
            self.worn.flips += 1;
            self.is_flipped = true;
        }
    }

    /// The bytes of a file whose damage a start can distinguish from a torn tail. The last batch of
    /// the newest segment is not provably synced; nor is the one before it, while a crash may still
    /// remove the name of the newest segment.
    fn provable_bytes(&self, names: &[String], name: &str) -> usize {
        let bytes = self.disk.bytes_of(name).unwrap_or_default();
        let segments = names.iter().rev().filter(|name| name.ends_with(".log"));
        let mut is_last = false;
        for newest in segments {
            is_last |= newest == name;
            if is_last || self.disk.is_name_durable(newest) {
                break;
            }
        }
        if is_last { proven_bytes(&bytes) } else { bytes.len() }
    }

    fn cut_tail(&mut self) {
        let segments = self.disk.names();
        if let Some(name) = segments.iter().rfind(|name| name.ends_with(".log"))
            && let Some(bytes) = self.disk.bytes_of(name)
        {
            self.disk.put(name, &bytes[..bytes.len().saturating_sub(40)]);
        }
    }

    /// Whether the disk has flipped bits.
    pub fn is_flipped(&self) -> bool {
        self.is_flipped
    }

    /// Whether the disk has unreadable bytes.
    pub fn is_broken(&self) -> bool {
        self.disk.is_broken()
    }

    /// Ends all faults.
    pub fn calm(&mut self) {
        self.disk.stop_faults();
        self.room_again();
    }

    fn strike(&mut self, now_ms: u64, faults: &DiskFaults) {
        if self.random.chance(faults.fail_sync) {
            self.disk.fail_syncs(self.random.between(1, 3) as u32);
        }
        if self.random.chance(faults.fail_write) {
            let error = [DiskError::NoSpace, DiskError::Io(5)][self.random.below(2) as usize];
            self.disk.fail_writes(self.random.between(1, 3) as u32, error);
        }
        // Records that cannot be read together are read one by one. The next turn can read them
        // again: only failures for seconds are losses.
        let failing_reads =
            if self.random.chance(faults.fail_read) { self.random.between(1, 12) } else { 0 };
        self.disk.fail_reads(failing_reads as u32);
        if self.full_until_ms > 0 && self.full_until_ms <= now_ms {
            self.room_again();
        } else if self.random.chance(faults.full) {
            self.disk.set_capacity(Some(self.disk.bytes() + self.random.below(2_000)));
            self.full_until_ms = now_ms + self.random.between(1, faults.full_ms_max);
        }
    }

    /// The time of its next turn without requests.
    pub fn wake_at_ms(&self) -> Option<u64> {
        if self.has_more { Some(0) } else { self.worker.as_ref().map(LogWorker::next_deadline_ms) }
    }

    /// Runs one turn.
    pub fn turn(
        &mut self,
        now_ms: u64,
        unix_ms: u64,
        faults: &DiskFaults,
        requests: Vec<(HomeId, DiskRequest)>,
    ) -> Vec<(HomeId, DiskLetter)> {
        self.strike(now_ms, faults);
        let mut letters = Vec::new();
        if let Some(worker) = &mut self.worker {
            for (home, request) in requests {
                worker.take(home, UNTIMED, vec![request]);
            }
            let time = LogTime { monotonic_us: now_ms * 1_000, unix_ms };
            self.has_more = worker.turn(&mut || time, &mut letters);
        }
        letters
    }

    /// Restores a home from the log, with the identities for deduplication.
    ///
    /// # Errors
    /// The start reported a result that is not permitted.
    pub fn restore(
        &mut self,
        home: &mut Home,
        id: HomeId,
        memory: &mut dyn Memory,
    ) -> Result<Option<FoundWindow>, String> {
        let restoration = self.restorations.get_mut(usize::from(id)).and_then(Option::take);
        let restored = match restoration {
            None => return Ok(None),
            Some(found) if self.saboteur.borrow().restores() => {
                self.restore_badly(home, id, memory);
                Ok(found.into_window())
            }
            Some(found) => found.restore(home, memory),
        };
        let window =
            restored.map_err(|code| format!("home {} was not restored: {code:?}", id.0))?;
        let is_lost = self.saboteur.borrow_mut().loses_window();
        Ok((!is_lost).then_some(window))
    }

    /// Restores a home with a planted bug.
    fn restore_badly(&mut self, home: &mut Home, id: HomeId, memory: &mut dyn Memory) {
        let (Some(recovered), Some(worker)) = (&self.recovered, &mut self.worker) else {
            return;
        };
        let out = &mut HomeOutputs::new(0);
        let store = worker.store_mut();
        let first = self.settings.first_partition;
        let homes = u32::from(self.homes);
        let own = |place: u32| first.nth(place).0 % homes == u32::from(id.0);
        let mut saboteur = self.saboteur.borrow_mut();
        for (partition, floor) in (0..).zip(&recovered.floors) {
            home.restore_floor(first.nth(partition), *floor);
        }
        for (partition, through) in (0..).zip(&recovered.damaged_through) {
            home.restore_damage(first.nth(partition), *through);
        }
        let _ = store.topics(&mut |partition, name, last| {
            if own(partition) {
                let _ = home.restore_topic(first.nth(partition), name, last);
            }
        });
        let _ = store.retained(&mut |partition, name, record| {
            if own(partition) && !saboteur.loses_retained() {
                let record = Slice::copy_of(record.bytes());
                let _ = home.restore_retained(first.nth(partition), name, &record);
            }
        });
        let cache_bytes = self.settings.cache_bytes;
        let _ = store.recent(cache_bytes, &mut |partition, name, record| {
            if own(partition) && !saboteur.skips_recovered() {
                let record = Slice::copy_of(record.bytes());
                let place = first.nth(partition);
                let _ = home.restore_record(place, name, &record, memory, out);
            }
        });
        for (partition, head) in (0..).zip(&recovered.heads) {
            let head = saboteur.lowers_head(*head);
            home.restore_head(first.nth(partition), head);
        }
        home.set_log_available(self.index, store.is_available());
    }

    /// The events of the disk.
    pub fn worn(&self) -> Worn {
        let mut worn = self.worn;
        if let Some(worker) = &self.worker {
            let counted = worker.statistics();
            worn.refused += counted.batches_failed;
            worn.answers += counted.reads;
            worn.dropped += counted.segments_dropped;
            worn.batches += counted.batches;
            worn.damaged_reads += counted.reads_damaged;
        }
        worn
    }

    /// The number of times that the planted bug took effect.
    pub fn strikes(&self) -> u32 {
        self.saboteur.borrow().strikes
    }
}

/// Checks that a start of the same epoch knows the offsets and losses of the start before it,
/// unless retention has dropped them.
fn forgets_nothing(before: &Recovered, found: &Recovered) -> Result<(), String> {
    if found.heads.iter().zip(&before.heads).any(|(now, before)| now < before) {
        let heads = (&before.heads, &found.heads);
        return Err(format!("offsets are given again: heads of two starts of an epoch: {heads:?}"));
    }
    let reaches = found.damaged_through.iter().zip(&found.floors);
    let mut reaches = reaches.map(|(through, floor)| *through.max(&floor.saturating_sub(1)));
    if before.damaged_through.iter().any(|before| reaches.next() < Some(*before)) {
        let ends = (&before.damaged_through, &found.damaged_through);
        return Err(format!("a loss is forgotten: ends of losses of two starts: {ends:?}"));
    }
    Ok(())
}
