//! The path between homes and the simulated log threads: first in, first out for each home and log,
//! with seeded delays; reads overtake appends and each other.

use crate::faults::DiskFaults;
use crate::log_thread::{LogThread, Worn};
use crate::mutation::Saboteur;
use crate::network::fold;
use crate::plan::Plan;
use broker::disk::{DiskLetter, DiskRequest};
use broker::home::Home;
use broker::mail::HomeId;
use broker::settings::{Durability, OlderEpoch, Settings};
use log::Memory;
use node::mailbox::Post;
use node::timing::UNTIMED;
use std::collections::VecDeque;
use stdx::prng::Prng;

/// The messages between the homes and one log thread.
pub struct DiskMail {
    /// The time of arrival of each request, by home.
    requests: Vec<VecDeque<(u64, DiskRequest)>>,
    /// The time of arrival of each letter, by home.
    letters: Vec<VecDeque<(u64, DiskLetter)>>,
    random: Prng,
    /// The faults.
    pub faults: DiskFaults,
    /// A hash of all messages.
    pub hash: u64,
    pub(crate) saboteur: Saboteur,
}

impl DiskMail {
    /// Creates an empty path between homes and a log.
    pub fn new(homes: usize, random: Prng, faults: DiskFaults, saboteur: Saboteur) -> DiskMail {
        DiskMail {
            requests: (0..homes).map(|_| VecDeque::new()).collect(),
            letters: (0..homes).map(|_| VecDeque::new()).collect(),
            random,
            faults,
            hash: 0,
            saboteur,
        }
    }

    /// Drops all messages, because the node died.
    pub fn crash(&mut self) {
        self.requests.iter_mut().for_each(VecDeque::clear);
        self.letters.iter_mut().for_each(VecDeque::clear);
    }

    /// Queues a request of a home.
    pub fn ask(&mut self, now_ms: u64, home: usize, request: DiskRequest) {
        let word = match &request {
            DiskRequest::Append { record, .. } => record.len() as u64,
            DiskRequest::Read { token, .. } => token ^ 0xd15c,
            DiskRequest::Describe { from, .. } => from ^ 0xde5c,
            DiskRequest::Resume { generation, .. } => u64::from(*generation) ^ 0x2e5e,
        };
        self.hash = fold(self.hash, (home as u64) << 48 ^ word);
        if let Some(letter) = self.saboteur.on_disk_request(&request) {
            self.post(now_ms, home, letter);
        }
        let delay = self.random.below(self.faults.delay_ms_max + 1);
        let queue = &mut self.requests[home];
        let after = queue.back().map_or(0, |(due, _)| *due);
        queue.push_back(((now_ms + delay).max(after), request));
    }

    /// The requests that have arrived at the log thread, with their homes; some are left for later.
    pub fn take_requests(&mut self, now_ms: u64) -> Vec<(HomeId, DiskRequest)> {
        let mut taken = Vec::new();
        let mut homes: Vec<usize> = (0..self.requests.len()).collect();
        self.random.shuffle(&mut homes);
        for home in homes {
            while self.requests[home].front().is_some_and(|(due, _)| *due <= now_ms) {
                if self.random.chance(self.faults.late) {
                    break;
                }
                let request = self.requests[home].pop_front();
                taken.extend(request.map(|(_, request)| (HomeId(home as u16), request)));
            }
        }
        // Reads may be reordered; appends keep their order.
        if self.random.chance(self.faults.reorder) {
            let (reads, mut appends): (Vec<_>, Vec<_>) = taken
                .into_iter()
                .partition(|(_, request)| matches!(request, DiskRequest::Read { .. }));
            for read in reads {
                let place = self.random.below(appends.len() as u64 + 1) as usize;
                appends.insert(place, read);
            }
            return appends;
        }
        taken
    }

    /// All queued requests of the homes.
    fn take_all_requests(&mut self) -> Vec<(HomeId, DiskRequest)> {
        let homes = self.requests.iter_mut().zip((0..).map(HomeId));
        let all = homes.flat_map(|(queue, home)| {
            let requests = queue.drain(..);
            requests.map(move |(_, request)| (home, request))
        });
        all.collect()
    }

    /// Queues an answer of the log thread.
    pub fn answer(&mut self, now_ms: u64, home: usize, letter: DiskLetter) {
        let Some(letter) = self.saboteur.on_disk_letter(letter) else {
            return;
        };
        self.post(now_ms, home, letter);
    }

    fn post(&mut self, now_ms: u64, home: usize, letter: DiskLetter) {
        let word = match &letter {
            DiskLetter::Committed { count, result, .. } => {
                u64::from(*count) << 1 | u64::from(result.is_ok())
            }
            DiskLetter::Answer { token, .. } => token ^ 0xa,
            DiskLetter::Floor { floors, .. } => floors.len() as u64 ^ 0xf,
            DiskLetter::Available(is_available) => u64::from(*is_available) ^ 0xaa,
        };
        self.hash = fold(self.hash, (home as u64) << 48 ^ word);
        let delay = self.random.below(self.faults.delay_ms_max + 1);
        let queue = &mut self.letters[home];
        let after = queue.back().map_or(0, |(due, _)| *due);
        queue.push_back(((now_ms + delay).max(after), letter));
    }

    /// The letters that have arrived at a home.
    pub fn take_letters(&mut self, now_ms: u64, home: usize) -> Vec<DiskLetter> {
        let mut taken = Vec::new();
        if home >= self.letters.len() {
            return taken;
        }
        while self.letters[home].front().is_some_and(|(due, _)| *due <= now_ms) {
            if self.random.chance(self.faults.late) {
                break;
            }
            taken.extend(self.letters[home].pop_front().map(|(_, letter)| letter));
        }
        taken
    }

    /// The time when the log thread has work.
    pub fn request_due_ms(&self) -> Option<u64> {
        let firsts = self.requests.iter().filter_map(VecDeque::front);
        firsts.map(|(due, _)| *due).min()
    }

    /// The time when a letter arrives at a home.
    pub fn letter_due_ms(&self, home: usize) -> Option<u64> {
        let first = self.letters.get(home)?.front()?;
        Some(first.0)
    }
}

/// A log thread, and the path to it.
struct Log {
    index: usize,
    mail: DiskMail,
    thread: LogThread,
    /// Until this time the log thread is blocked in a call to its disk.
    hangs_until_ms: u64,
}

/// The log threads of a node's logs on disk.
pub struct Disks {
    logs: Vec<Log>,
    /// The generator of hanging calls.
    random: Prng,
    /// Virtual milliseconds.
    pub now_ms: u64,
    /// The wall clock, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The number of calls that hung.
    pub hangs: u64,
}

impl Disks {
    /// Creates empty disks for all logs on disk.
    pub fn new(plan: &Plan, random: &mut Prng, saboteur: &dyn Fn() -> Saboteur) -> Disks {
        let homes = plan.settings.homes_count;
        let logs = plan.settings.logs.iter().enumerate();
        let durable = logs.filter(|(_, log)| log.durability == Durability::Disk);
        // A separate generator, so that worlds without full disks do not change.
        let mut starts = Prng::new(plan.seed ^ 0x6675_6c6c);
        let logs = durable.map(|(index, log)| Log {
            index,
            mail: DiskMail::new(usize::from(homes), random.fork(), plan.disk, saboteur()),
            thread: LogThread::new(index as u16, log, homes, random, starts.fork(), saboteur()),
            hangs_until_ms: 0,
        });
        Disks {
            logs: logs.collect(),
            random: Prng::new(plan.seed ^ 0x6861_6e67),
            now_ms: 0,
            unix_ms: 0,
            hangs: 0,
        }
    }

    /// Opens all logs. Returns the number, the epoch and the older epochs of each.
    ///
    /// # Errors
    /// A start reported a result that is not permitted.
    pub fn open(
        &mut self,
        settings: &Settings,
    ) -> Result<Vec<(usize, u64, Vec<OlderEpoch>)>, String> {
        let mut lives = Vec::new();
        let times = (self.now_ms, self.unix_ms);
        for log in &mut self.logs {
            let (epoch, older) = log.thread.open(times, settings, &log.mail.faults)?;
            lives.push((log.index, epoch, older));
        }
        Ok(lives)
    }

    /// The lowest offset at the start, for each partition of a log on disk.
    pub fn floors(&self) -> Vec<(u32, u64)> {
        self.logs.iter().flat_map(|log| log.thread.floors()).collect()
    }

    /// Simulates the death of the node.
    pub fn crash(&mut self) {
        for log in &mut self.logs {
            let requests = log.mail.take_requests(u64::MAX);
            log.thread.crash(self.now_ms, self.unix_ms, &log.mail.faults, requests);
            log.mail.crash();
            log.hangs_until_ms = 0;
        }
    }

    /// Stops the node regularly.
    pub fn stop(&mut self) {
        for log in &mut self.logs {
            let requests = log.mail.take_all_requests();
            log.thread.stop(self.now_ms, self.unix_ms, requests);
            log.mail.crash();
            log.hangs_until_ms = 0;
        }
    }

    /// Ends all faults, except that disks may hang once more. Returns until when.
    pub fn calm(&mut self) -> Option<u64> {
        let mut hang_until_ms = None;
        for log in &mut self.logs {
            log.mail.faults.calm();
            log.thread.calm();
            let hang_ms = log.mail.faults.hang_at_end_ms;
            log.hangs_until_ms = match hang_ms {
                0 => 0,
                _ => self.now_ms + hang_ms,
            };
            if hang_ms > 0 {
                self.hangs += 1;
                hang_until_ms = Some(log.hangs_until_ms);
            }
        }
        hang_until_ms
    }

    /// Restores a home from its logs.
    ///
    /// # Errors
    /// A start reported a result that is not permitted.
    pub fn restore(
        &mut self,
        home: &mut Home,
        id: HomeId,
        memory: &mut dyn Memory,
    ) -> Result<(), String> {
        let now_ms = self.unix_ms;
        let logs = self.logs.iter_mut();
        let windows: Result<Vec<_>, _> =
            logs.filter_map(|log| log.thread.restore(home, id, memory).transpose()).collect();
        home.restore_windows(now_ms, &windows?);
        Ok(())
    }

    /// Sends requests of a home to a log.
    pub fn ask(&mut self, index: u16, home: usize, requests: Vec<DiskRequest>) {
        let now_ms = self.now_ms;
        let log = self.logs.iter_mut().find(|log| log.index == usize::from(index));
        if let Some(log) = log {
            for request in requests {
                log.mail.ask(now_ms, home, request);
            }
        }
    }

    /// Receives the letters for a home.
    pub fn receive(&mut self, home: usize, posts: &mut Vec<Post>) {
        for log in &mut self.logs {
            let letters = log.mail.take_letters(self.now_ms, home);
            if !letters.is_empty() {
                posts.push(Post::Disk { log: log.index as u16, since_us: UNTIMED, letters });
            }
        }
    }

    /// The time when a letter arrives at a home.
    pub fn letter_due_ms(&self, home: usize) -> Option<u64> {
        let dues = self.logs.iter().filter_map(|log| log.mail.letter_due_ms(home));
        dues.min()
    }

    /// The number of log threads.
    pub fn len(&self) -> usize {
        self.logs.len()
    }

    /// Whether there are no log threads.
    pub fn is_empty(&self) -> bool {
        self.logs.is_empty()
    }

    /// The time when a log thread has work.
    pub fn work_due_ms(&self, place: usize) -> Option<u64> {
        let log = &self.logs[place];
        let asked = log.mail.request_due_ms();
        let own = log.thread.wake_at_ms();
        let due = [asked, own].into_iter().flatten().min();
        due.map(|due| due.max(log.hangs_until_ms))
    }

    /// Runs a turn of a log thread.
    pub fn turn(&mut self, place: usize) {
        let log = &mut self.logs[place];
        let faults = &log.mail.faults;
        if faults.hang > 0.0 && self.random.chance(faults.hang) {
            log.hangs_until_ms = self.now_ms + self.random.between(1, faults.hang_ms_max);
            self.hangs += 1;
            return;
        }
        let requests = log.mail.take_requests(self.now_ms);
        let letters = log.thread.turn(self.now_ms, self.unix_ms, &log.mail.faults, requests);
        for (home, letter) in letters {
            log.mail.answer(self.now_ms, usize::from(home), letter);
        }
    }

    /// Whether a log's disk has unreadable bytes.
    pub fn is_broken(&self) -> bool {
        self.logs.iter().any(|log| log.thread.is_broken())
    }

    /// Whether a log's disk has flipped bits.
    pub fn is_flipped(&self) -> bool {
        self.logs.iter().any(|log| log.thread.is_flipped())
    }

    /// A hash of all messages.
    pub fn hash(&self) -> u64 {
        let hashes = self.logs.iter().map(|log| log.mail.hash);
        hashes.fold(0, fold)
    }

    /// The events of all disks.
    pub fn worn(&self) -> impl Iterator<Item = Worn> {
        self.logs.iter().map(|log| log.thread.worn())
    }

    /// The number of times that the planted bug took effect.
    pub fn strikes(&self) -> u32 {
        let strikes = |log: &Log| log.mail.saboteur.strikes + log.thread.strikes();
        self.logs.iter().map(strikes).sum()
    }
}
