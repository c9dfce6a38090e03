//! The thread of a log on disk: a channel in front of [`LogWorker`], and the opening of the store.
//!
//! The thread takes all waiting requests from the channel before each batch: while one batch is
//! synced, the next one gathers. It receives the steps of a live upgrade from the same channel
//! (`orders`).

mod adopting;
mod mirror;

pub(crate) use adopting::LogAdoption;
pub(crate) use mirror::open_mirror;

use crate::logs::{HomeLetters, LogStatistics, LogTime, LogWorker};
use crate::mailbox::{Address, Post, ToLog};
use crate::memory::MemfdMemory;
use crate::orders::{HandedOver, LogOrder};
use crate::report::Asked;
use crate::restore::Restoration;
use crate::vital::Vital;
use broker::disk::DiskLetter;
use broker::engine::MirrorEnd;
use broker::mail::HomeId;
use broker::settings::{OlderEpoch, Settings};
use disk::{FileDisk, OpenDiskError};
use log::store::{Damage, DiskError, OpenError, Recovered, Store, StoreError, StoreSettings};
use std::collections::VecDeque;
use std::fmt::{self, Display};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use stdx::hash::Seed;

/// The reason why a log on disk was not opened.
#[derive(Debug)]
pub enum LogError {
    /// Its directory is not accessible, or is locked.
    Directory(OpenDiskError),
    /// The log does not match its configuration, or its disk failed during the opening.
    Open {
        /// The directory of the log.
        directory: PathBuf,
        /// The error.
        error: OpenError,
    },
    /// The log could not be read.
    Read(StoreError),
    /// The directory of a mirror has a log on disk, which is not to be dropped.
    NoMirror(PathBuf),
    /// Homes have not enough memory for its topics.
    Memory,
}

impl LogError {
    /// Whether the configuration does not match the log.
    pub fn is_configuration(&self) -> bool {
        matches!(
            self,
            LogError::Open {
                error: OpenError::Partitions { .. } | OpenError::PartitionsCount(_),
                ..
            }
        )
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Directory(error) => error.fmt(formatter),
            LogError::Open { directory, error } => {
                write!(formatter, "{}: ", directory.display())?;
                match error {
                    OpenError::Disk(error) => write_disk_error(formatter, *error),
                    OpenError::Unreadable { .. } => write!(
                        formatter,
                        "{error}; the log was not opened, and this start has removed nothing from it. If the data stays \
                         unreadable, `crore log repair {}` discards it and lists what is lost",
                        directory.display()
                    ),
                    error => error.fmt(formatter),
                }
            }
            LogError::Read(error) => error.fmt(formatter),
            LogError::NoMirror(directory) => write!(
                formatter,
                "{} has a log with durability = \"disk\", and no mirror: move it away, or give the log another name",
                directory.display()
            ),
            LogError::Memory => write!(formatter, "not enough memory for the topics of the log"),
        }
    }
}

impl std::error::Error for LogError {}

/// Writes the error and its remedy for an operator.
fn write_disk_error(formatter: &mut fmt::Formatter<'_>, error: DiskError) -> fmt::Result {
    let remedy = match error {
        DiskError::NoSpace => "free space on its disk (the start must write)",
        _ => "make its files readable and writable",
    };
    match error {
        DiskError::Io(code) if code != 0 => io::Error::from_raw_os_error(code).fmt(formatter)?,
        error => error.fmt(formatter)?,
    }
    write!(
        formatter,
        "; the log was not opened, and this start has removed nothing from it: {remedy}, and start again"
    )
}

/// An opened log whose thread has not started.
pub(crate) struct OpenLog {
    log: u16,
    worker: LogWorker<FileDisk>,
    /// The restored state of each home.
    pub restorations: Vec<Restoration>,
    /// The ends of a mirror's partitions.
    pub mirrored: Vec<MirrorEnd>,
    /// Notices for the operator.
    pub notices: Vec<String>,
}

/// The parameters of an opening, in addition to the settings.
pub(crate) struct OpenOptions<'a> {
    /// Directory of the node's logs, each in a subdirectory with its name.
    pub directory: &'a Path,
    pub hash_seed: (u64, u64),
}

/// Opens a log on disk and stores its epochs in the settings.
pub(crate) fn open(
    settings: &mut Settings,
    log: u16,
    options: &OpenOptions<'_>,
) -> Result<OpenLog, LogError> {
    let place = usize::from(log);
    let (store, recovered) = {
        let configured = &settings.logs[place];
        let directory = options.directory.join(&configured.name);
        let disk = FileDisk::open(&directory).map_err(LogError::Directory)?;
        let store_settings = store_settings(settings, log, options);
        Store::open(disk, store_settings, unix_ms())
            .map_err(|error| LogError::Open { directory, error })?
    };
    let mut worker = LogWorker::new(store, settings, log);
    let configured = &mut settings.logs[place];
    configured.epoch = recovered.epoch;
    configured.older_epochs = recovered
        .older
        .iter()
        .map(|older| OlderEpoch { epoch: older.epoch, valid_below: older.valid_below.clone() })
        .collect();
    let mut notices = notices_of(&configured.name, &recovered);
    if !worker.store_mut().is_available() {
        notices.push(format!(
            "log {}: its disk is full; the log is readable, and accepts messages again as soon as there is space",
            configured.name
        ));
    }
    worker.note_start(recovered.torn_bytes, recovered.damages.len() as u64);
    let mut memory = MemfdMemory::default();
    let restorations =
        Restoration::read(worker.store_mut(), &recovered, settings, log, &mut memory)
            .map_err(LogError::Read)?;
    Ok(OpenLog { log, worker, restorations, mirrored: Vec::new(), notices })
}

/// The settings of the store of a log.
fn store_settings(settings: &Settings, log: u16, options: &OpenOptions<'_>) -> StoreSettings {
    let configured = &settings.logs[usize::from(log)];
    StoreSettings {
        partitions_count: configured.partitions_count,
        segment_bytes: configured.segment_bytes.into(),
        bytes_max: configured.log_bytes_max,
        age_max_ms: configured.age_max_ms,
        new_epoch: configured.epoch,
        hash_seed: Seed(options.hash_seed.0, options.hash_seed.1),
    }
}

fn notices_of(name: &str, recovered: &Recovered) -> Vec<String> {
    let mut notices = Vec::new();
    if recovered.torn_bytes > 0 {
        notices.push(format!(
            "log {name}: {} bytes of an incomplete write at its end were cut; no message in them was acknowledged",
            recovered.torn_bytes
        ));
    }
    for damage in &recovered.damages {
        let Damage { segment, from, through } = damage;
        let what = match (damage.is_gone(), segment) {
            (true, 0) => "the file of epochs, or every segment, is missing or damaged".to_owned(),
            (true, _) => format!("segment {segment} is missing, or the log is an older copy"),
            (false, _) => format!("bytes {from} to {through} of segment {segment} are damaged"),
        };
        notices.push(format!(
            "log {name}: {what}; acknowledged messages may be lost; the log continues with epoch {}",
            recovered.epoch
        ));
    }
    notices
}

/// The senders to the log threads, by the logs' indexes, and the receiver of each thread.
pub(crate) type Channels = (Arc<[Option<Sender<ToLog>>]>, Vec<Option<Receiver<ToLog>>>);

pub(crate) fn channels(settings: &Settings) -> Channels {
    let (senders, receivers): (Vec<_>, Vec<_>) = settings
        .logs
        .iter()
        .map(|log| {
            let (sender, receiver) = log.has_disk().then(channel).unzip();
            (sender, receiver)
        })
        .unzip();
    (senders.into(), receivers)
}

/// The environment of a log thread.
pub(crate) struct Surroundings {
    pub incoming: Receiver<ToLog>,
    pub homes: Arc<[Address]>,
    /// The start of the node's clock.
    pub began: Instant,
    pub troubles: Arc<Troubles>,
}

/// Counts of disk problems of all logs, readable without asking their threads.
#[derive(Debug, Default)]
pub struct Troubles {
    retention_failed: AtomicU64,
    retained_lost: AtomicU64,
    mirrors_dropped: AtomicU64,
}

impl Troubles {
    /// Failed retention checks and failed removals of files.
    pub fn retention_failed(&self) -> u64 {
        self.retention_failed.load(Ordering::Relaxed)
    }

    /// Retained messages that were dropped because they could not be copied.
    pub fn retained_lost(&self) -> u64 {
        self.retained_lost.load(Ordering::Relaxed)
    }

    /// Mirrors that were dropped as a whole.
    pub fn mirrors_dropped(&self) -> u64 {
        self.mirrors_dropped.load(Ordering::Relaxed)
    }

    /// Adds the counts of a log thread since its last report.
    fn add(&self, told: &mut (u64, u64, u64), now: (u64, u64, u64)) {
        if *told != now {
            let add = |counter: &AtomicU64, more| counter.fetch_add(more, Ordering::Relaxed);
            add(&self.retention_failed, now.0.saturating_sub(told.0));
            add(&self.retained_lost, now.1.saturating_sub(told.1));
            add(&self.mirrors_dropped, now.2.saturating_sub(told.2));
            *told = now;
        }
    }
}

impl OpenLog {
    /// Starts the thread.
    pub fn spawn(
        self,
        settings: &Settings,
        surroundings: Surroundings,
    ) -> io::Result<JoinHandle<io::Result<()>>> {
        let OpenLog { log, worker, .. } = self;
        spawn(settings, log, surroundings, move || Some(worker))
    }
}

/// Starts the thread of a log from the old process.
pub(crate) fn spawn_adopting(
    adoption: LogAdoption,
    surroundings: Surroundings,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let settings = adoption.settings.clone();
    let log = adoption.log;
    spawn(&settings, log, surroundings, move || adoption.take_over())
}

/// Starts a thread that first creates its worker, and then runs it if that succeeded.
fn spawn(
    settings: &Settings,
    log: u16,
    surroundings: Surroundings,
    worker: impl FnOnce() -> Option<LogWorker<FileDisk>> + Send + 'static,
) -> io::Result<JoinHandle<io::Result<()>>> {
    let name = &settings.logs[usize::from(log)].name;
    std::thread::Builder::new().name(format!("crore-log-{name}")).spawn(move || {
        let _vital = Vital;
        net::system::give_up_start_rights()?;
        let Some(worker) = worker() else {
            return Ok(());
        };
        let thread = LogThread {
            log,
            worker,
            surroundings,
            stage: Stage::Serving,
            orders: VecDeque::new(),
            sent: 0,
            received: 0,
            told: (0, 0, 0),
        };
        thread.run()
    })
}

/// The stage of a live upgrade.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No upgrade.
    Serving,
    /// Only earlier requests of homes become durable.
    Frozen,
    /// The log is closed, and may belong to another process.
    HandedOver,
}

struct LogThread {
    log: u16,
    worker: LogWorker<FileDisk>,
    surroundings: Surroundings,
    stage: Stage,
    /// Requests that wait for an idle moment.
    orders: VecDeque<LogOrder>,
    /// Batches to and from homes.
    sent: u64,
    received: u64,
    /// The counts already added to [`Troubles`].
    told: (u64, u64, u64),
}

/// Waiting time of a thread that does not serve, and has no tasks of its own.
const FROZEN_WAIT: Duration = Duration::from_secs(60);

impl LogThread {
    fn run(mut self) -> io::Result<()> {
        let mut letters: HomeLetters = Vec::new();
        let mut has_more = false;
        let mut is_stopping = false;
        while has_more || !is_stopping {
            let incoming = &self.surroundings.incoming;
            let first = if has_more || is_stopping {
                None
            } else {
                match incoming.recv_timeout(self.patience()) {
                    Ok(first) => Some(first),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            };
            let waiting: Vec<ToLog> = first.into_iter().chain(incoming.try_iter()).collect();
            for message in waiting {
                match message {
                    ToLog::Requests { from, since_us, requests } => {
                        self.received += 1;
                        self.worker.take(HomeId(from), since_us, requests);
                    }
                    ToLog::Report(reply) => {
                        // The caller has stopped waiting: nothing is lost.
                        let _: Result<(), _> = reply.send(self.worker.statistics());
                    }
                    ToLog::Upgrade(order) => self.note(order),
                    ToLog::Stop => is_stopping = true,
                }
            }
            let began = self.surroundings.began;
            let now = &mut || time_since(began);
            has_more = match self.stage {
                Stage::Serving => self.worker.turn(now, &mut letters),
                Stage::Frozen => self.worker.frozen_turn(now, &mut letters),
                Stage::HandedOver => false,
            };
            self.post(&mut letters);
            let counted = self.worker.troubles();
            self.surroundings.troubles.add(&mut self.told, counted);
            while !has_more && let Some(order) = self.orders.pop_front() {
                self.obey(order, &mut letters);
            }
        }
        if self.stage == Stage::HandedOver {
            return Ok(());
        }
        self.worker.close().map_err(|error| io::Error::other(error.to_string()))
    }

    fn note(&mut self, order: LogOrder) {
        match order {
            LogOrder::Freeze => self.stage = Stage::Frozen,
            LogOrder::Thaw => {
                // The caller has stopped waiting.
                self.orders.clear();
                self.stage = Stage::Serving;
            }
            LogOrder::Count(_) | LogOrder::HandOver(_) => self.orders.push_back(order),
        }
    }

    /// Whether no request waits to become durable.
    fn obey(&mut self, order: LogOrder, letters: &mut HomeLetters) {
        // If the caller has stopped waiting, the thread resumes.
        match order {
            LogOrder::Count(answer) => drop(answer.send((self.sent, self.received))),
            LogOrder::HandOver(answer) => {
                let handed = self.hand_over(letters);
                self.post(letters);
                drop(answer.send(handed));
            }
            LogOrder::Freeze | LogOrder::Thaw => {}
        }
    }

    fn hand_over(&mut self, letters: &mut HomeLetters) -> Result<HandedOver, String> {
        let mut state = Vec::new();
        let handed = self.worker.hand_over(&mut state, letters);
        handed.map_err(|error| error.to_string())?;
        let lock = self.worker.store_mut().disk().lend_lock();
        let lock = lock.map_err(|error| error.to_string())?;
        let lock = lock.ok_or("the log's directory is not locked")?;
        self.stage = Stage::HandedOver;
        Ok(HandedOver { state, lock })
    }

    fn patience(&self) -> Duration {
        if self.stage != Stage::Serving {
            return FROZEN_WAIT;
        }
        let now_ms = self.surroundings.began.elapsed().as_millis() as u64;
        Duration::from_millis(self.worker.next_deadline_ms().saturating_sub(now_ms))
    }

    fn post(&mut self, letters: &mut HomeLetters) {
        let homes = &self.surroundings.homes;
        let mut by_home: Vec<Vec<DiskLetter>> = homes.iter().map(|_| Vec::new()).collect();
        for (home, letter) in letters.drain(..) {
            if let Some(letters) = by_home.get_mut(usize::from(home)) {
                letters.push(letter);
            }
        }
        for (home, letters) in homes.iter().zip(by_home) {
            if !letters.is_empty() {
                self.sent += 1;
                home.send(Post::Disk {
                    log: self.log,
                    since_us: self.worker.committed_since_us(),
                    letters,
                });
            }
        }
    }
}

/// Asks all log threads for their counters, and counts those that did not answer in time or have
/// stopped.
pub(crate) fn statistics(
    logs: &[Option<Sender<ToLog>>],
    reports: &[Asked<LogStatistics>],
    timeout: Duration,
) -> (Vec<LogStatistics>, u16) {
    let deadline = Instant::now() + timeout;
    let asked: Vec<(&Asked<LogStatistics>, Receiver<LogStatistics>)> = logs
        .iter()
        .zip(reports)
        .filter_map(|(log, reports)| {
            let question = |reply| {
                let sent = log.as_ref().map(|log| log.send(ToLog::Report(reply)));
                sent.is_some_and(|sent| sent.is_ok())
            };
            Some((reports, reports.ask(question)?))
        })
        .collect();
    let answers: Vec<LogStatistics> =
        asked.into_iter().filter_map(|(reports, answer)| reports.wait(answer, deadline)).collect();
    let silent = logs.iter().flatten().count() - answers.len();
    (answers, silent as u16)
}

fn time_since(began: Instant) -> LogTime {
    LogTime { monotonic_us: began.elapsed().as_micros() as u64, unix_ms: unix_ms() }
}

fn unix_ms() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_1970.as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logs in memory have no thread to ask.
    #[test]
    fn a_log_thread_that_hangs_is_silent() {
        let (hanging, _questions) = channel();
        let logs = [Some(hanging), None];
        let reports = [Asked::default(), Asked::default()];
        let (answered, silent) = statistics(&logs, &reports, Duration::ZERO);
        assert_eq!((answered.len(), silent), (0, 1));

        let (asked, questions) = channel();
        let answers = std::thread::spawn(move || {
            while let Ok(ToLog::Report(reply)) = questions.recv() {
                reply.send(LogStatistics::default()).unwrap();
            }
        });
        let logs = [Some(asked), None];
        let (answered, silent) = statistics(&logs, &reports[1..], Duration::from_secs(60));
        assert_eq!((answered.len(), silent), (1, 0));
        drop(logs);
        answers.join().unwrap();
    }
}
