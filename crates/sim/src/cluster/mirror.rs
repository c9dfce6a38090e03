//! The mirror of one node: its disk, its log thread, and the path between that and the homes.
//!
//! The thread's calls hang, its writes, syncs and reads fail, and the death of the node may tear
//! data that was not synced, or remove the files. All of that may cost history, and nothing else.

use crate::disks::DiskMail;
use crate::faults::DiskFaults;
use crate::mutation::Saboteur;
use broker::disk::DiskRequest;
use broker::engine::MirrorEnd;
use broker::settings::Settings;
use log::store::hostile::HostileDisk;
use log::store::{DiskError, Store, StoreSettings};
use node::logs::{LogTime, LogWorker};
use node::mailbox::Post;
use node::restore::Restoration;
use node::timing::UNTIMED;
use std::sync::Arc;
use stdx::hash::Seed;
use stdx::prng::Prng;

/// The only log.
const LOG: u16 = 0;
/// The probability of each fault, at each turn of the log thread.
const FAULT: f64 = 0.003;
/// The probability that a death is one of the machine, and that the files are gone afterwards.
const POWER: f64 = 0.3;
const REMOVED: f64 = 0.1;

/// The mirror of a node; see the module.
pub struct Mirror {
    /// The settings of its node.
    settings: Arc<Settings>,
    disk: HostileDisk,
    worker: Option<LogWorker<HostileDisk>>,
    mail: DiskMail,
    random: Prng,
    has_more: bool,
    hangs_until_ms: u64,
    lives: u64,
    is_calm: bool,
    /// Virtual milliseconds.
    pub now_ms: u64,
    /// The node's wall clock, in milliseconds since 1970.
    pub unix_ms: u64,
}

impl Mirror {
    /// Creates a mirror without files.
    pub fn new(seed: u64, settings: Arc<Settings>) -> Mirror {
        let mut random = Prng::new(seed);
        let faults = DiskFaults {
            delay_ms_max: [0, 3, 50][random.below(3) as usize],
            late: 0.1,
            reorder: 0.1,
            ..DiskFaults::default()
        };
        let homes = usize::from(settings.homes_count);
        Mirror {
            settings,
            disk: HostileDisk::new(random.next_u64()),
            worker: None,
            mail: DiskMail::new(homes, random.fork(), faults, Saboteur::new(None, seed)),
            random,
            has_more: false,
            hangs_until_ms: 0,
            lives: 0,
            is_calm: false,
            now_ms: 0,
            unix_ms: 0,
        }
    }

    /// Opens the files. Returns the content for each home, and the ends of the partitions. Unusable
    /// files are dropped.
    pub fn open(&mut self) -> (Vec<Restoration>, Vec<MirrorEnd>) {
        self.lives += 1;
        self.disk.stop_faults();
        let store = match self.open_store() {
            Some(store) => store,
            None => {
                self.disk = HostileDisk::new(self.random.next_u64());
                self.open_store().expect("an empty disk")
            }
        };
        self.begin(store)
    }

    /// The store, without damage. None if the files are unusable.
    fn open_store(&self) -> Option<Store<HostileDisk>> {
        let log = &self.settings.logs[usize::from(LOG)];
        let settings = StoreSettings {
            partitions_count: log.partitions_count,
            segment_bytes: log.segment_bytes.into(),
            bytes_max: log.log_bytes_max,
            age_max_ms: log.age_max_ms,
            new_epoch: self.lives,
            hash_seed: Seed(1, 2),
        };
        let (mut store, recovered) = Store::open(self.disk.clone(), settings, self.unix_ms).ok()?;
        if !recovered.damages.is_empty() {
            store.discard(self.unix_ms).ok()?;
        }
        Some(store)
    }

    fn begin(&mut self, mut store: Store<HostileDisk>) -> (Vec<Restoration>, Vec<MirrorEnd>) {
        let found = Restoration::read_mirror(&mut store, &self.settings, LOG);
        let found = found.unwrap_or_else(|_| {
            store.discard(self.unix_ms).expect("a disk without faults");
            (Restoration::of_nothing(&self.settings, LOG, true), Vec::new())
        });
        self.worker = Some(LogWorker::new(store, &self.settings, LOG));
        found
    }

    /// The node dies.
    pub fn crash(&mut self) {
        self.worker = None;
        self.mail.crash();
        (self.has_more, self.hangs_until_ms) = (false, 0);
        if self.random.chance(POWER) {
            self.disk.crash();
        } else {
            self.disk.kill();
        }
        if self.random.chance(REMOVED) {
            self.disk = HostileDisk::new(self.random.next_u64());
        }
    }

    /// Ends all faults.
    pub fn calm(&mut self) {
        self.is_calm = true;
        self.hangs_until_ms = 0;
        self.mail.faults.calm();
        self.disk.stop_faults();
    }

    /// Takes requests of a home.
    pub fn ask(&mut self, home: usize, requests: Vec<DiskRequest>) {
        for request in requests {
            self.mail.ask(self.now_ms, home, request);
        }
    }

    /// Receives the letters for a home.
    pub fn receive(&mut self, home: usize, posts: &mut Vec<Post>) {
        let letters = self.mail.take_letters(self.now_ms, home);
        if !letters.is_empty() {
            posts.push(Post::Disk { log: LOG, since_us: UNTIMED, letters });
        }
    }

    /// The time when a letter arrives at a home.
    pub fn letter_due_ms(&self, home: usize) -> Option<u64> {
        self.mail.letter_due_ms(home)
    }

    /// The time when the log thread has work.
    pub fn work_due_ms(&self) -> Option<u64> {
        let worker = self.worker.as_ref()?;
        let own = if self.has_more { 0 } else { worker.next_deadline_ms() };
        let due = self.mail.request_due_ms().map_or(own, |due| due.min(own));
        Some(due.max(self.hangs_until_ms))
    }

    /// Runs a turn of the log thread.
    pub fn turn(&mut self) {
        let Some(worker) = &mut self.worker else { return };
        if !self.is_calm {
            let hang_ms_max = 3 * u64::from(self.settings.limits.log_stall_timeout_ms);
            let random = &mut self.random;
            if random.chance(FAULT) {
                self.hangs_until_ms = self.now_ms + random.between(1, hang_ms_max);
                return;
            }
            match random.below(3) {
                _ if !random.chance(FAULT) => {}
                0 => self.disk.fail_writes(1, DiskError::NoSpace),
                1 => self.disk.fail_syncs(1),
                _ => self.disk.fail_reads(1),
            }
        }
        for (home, request) in self.mail.take_requests(self.now_ms) {
            worker.take(home, UNTIMED, vec![request]);
        }
        let time = LogTime { monotonic_us: self.now_ms * 1_000, unix_ms: self.unix_ms };
        let mut letters = Vec::new();
        self.has_more = worker.turn(&mut || time, &mut letters);
        for (home, letter) in letters {
            self.mail.answer(self.now_ms, usize::from(home), letter);
        }
    }

    /// A hash of all messages.
    pub fn hash(&self) -> u64 {
        self.mail.hash
    }
}
