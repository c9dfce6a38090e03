//! The engine's thread: requests of homes, events of librdkafka, and the clock.
//!
//! `tail` reads, `publish` sends, `watch` asks the engine about its topics and offsets.

mod publish;
mod tail;
mod watch;

use crate::partition::Partition;
use crate::record::{Mapping, Memory};
use crate::settings::{EngineLog, EngineSettings, Severity};
use crate::statistics::EngineStatistics;
use crate::wake::Wake;
use crate::{Command, EngineError, PartitionTail};
use broker::engine::{EngineLetter, EngineRequest};
use broker::mail::{HomeId, PartitionId};
use kafka::{Event, certificate};
use publish::Publisher;
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;
use tail::Reader;
use watch::Watch;

/// The state that other threads may read.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) statistics: Mutex<EngineStatistics>,
    pub(crate) tails: Mutex<Vec<PartitionTail>>,
}

/// The state of the engine's thread.
pub(crate) struct Worker<P> {
    settings: EngineSettings,
    post: P,
    commands: Receiver<Command>,
    wake: Arc<Wake>,
    shared: Arc<Shared>,
    logs: Vec<Log>,
    /// Those of all logs, in the logs' order.
    partitions: Vec<Partition>,
    by_id: HashMap<PartitionId, usize>,
    /// Credit of each home, in bytes.
    credits: Vec<i64>,
    reader: Reader,
    publisher: Publisher,
    watch: Watch,
    memory: Memory,
    statistics: EngineStatistics,
    lines: Lines,
    start: Instant,
    now_ms: u64,
    answered_ms: u64,
    tick_ms: u64,
    held_ms: u64,
}

/// A log with what the engine told of it.
struct Log {
    name: CString,
    mapping: Mapping,
    /// The index of its first partition.
    first: usize,
    /// The topic's identity; none before the first description.
    id: Option<u128>,
    /// Complete copies without which brokers refuse records.
    in_sync_min: usize,
    /// The time for which the engine keeps records, in milliseconds, if it is known.
    kept_ms: Option<u64>,
    has_options: bool,
    /// The engine has given the options, or an error instead.
    was_asked: bool,
    /// The topic's fault that was last reported.
    fault: Option<String>,
}

/// The time between two looks at the clock, in milliseconds.
const TICK_MS: u64 = 100;
/// The time that the end waits for brokers, in milliseconds.
const END_MS: u64 = 2_000;

impl<P: Fn(HomeId, EngineLetter) + Send + 'static> Worker<P> {
    pub(crate) fn new(
        settings: EngineSettings,
        post: P,
        commands: Receiver<Command>,
        wake: Arc<Wake>,
        shared: Arc<Shared>,
    ) -> Result<Worker<P>, EngineError> {
        let mut logs = Vec::new();
        let mut partitions = Vec::new();
        for (index, log) in settings.logs.iter().enumerate() {
            logs.push(Log::of(log, &settings, partitions.len())?);
            for (place, partition) in (0..).zip(&log.partitions) {
                partitions.push(Partition::new(partition.id, partition.home, index, place));
            }
        }
        let by_id = partitions.iter().enumerate().map(|(index, it)| (it.id, index)).collect();
        let homes_count = usize::from(settings.homes_count);
        if partitions.iter().any(|partition| usize::from(partition.home) >= homes_count) {
            return Err(EngineError("engine: a partition has no home".to_owned()));
        }
        let publisher = Publisher::new(&settings, &wake)?;
        let mut worker = Worker {
            credits: vec![i64::from(settings.credit_bytes); homes_count],
            reader: Reader::new(&settings, &wake)?,
            publisher,
            watch: Watch::new(logs.len()),
            settings,
            post,
            commands,
            wake,
            shared,
            logs,
            partitions,
            by_id,
            memory: Memory::default(),
            statistics: EngineStatistics::default(),
            lines: Lines::default(),
            start: Instant::now(),
            now_ms: 0,
            answered_ms: 0,
            tick_ms: 0,
            held_ms: 0,
        };
        // From the first moment, all partitions are starting.
        worker.share();
        Ok(worker)
    }

    pub(crate) fn run(mut self) {
        let mut has_more = false;
        loop {
            self.wake.wait(if has_more { 0 } else { TICK_MS as u32 });
            self.now_ms = milliseconds(self.start);
            if !self.take_commands() {
                break;
            }
            self.serve_publisher();
            self.serve_reader_events();
            has_more = self.read_tails();
            if self.now_ms >= self.tick_ms {
                self.tick_ms = self.now_ms + TICK_MS;
                self.tick();
            }
        }
        self.finish();
    }

    fn take_commands(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Ask(home, EngineRequest::Publish(publish))) => {
                    self.publish(home, publish);
                }
                Ok(Command::Ask(home, EngineRequest::Credit { bytes })) => {
                    if let Some(credit) = self.credits.get_mut(usize::from(home)) {
                        *credit += i64::from(bytes);
                    }
                }
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    fn tick(&mut self) {
        self.ask_about_topics();
        self.ask_about_beginnings();
        self.ask_about_quiet_tails();
        if self.now_ms >= self.held_ms {
            self.held_ms = self.now_ms + tail::HELD_INTERVAL_MS;
            self.look_for_held_tails();
        }
        self.assign_if_needed();
        self.tell_availability();
        self.refuse_overdue();
        self.share();
    }

    fn share(&mut self) {
        let pending = self.partitions.iter().map(|partition| partition.sending.len() as u64);
        self.statistics.pending = pending.sum();
        let starting = self.partitions.iter().filter(|partition| partition.is_starting());
        self.statistics.starting = starting.count() as u64;
        let is_unavailable = |it: &&Partition| it.told_available != Some(true);
        self.statistics.unavailable = self.partitions.iter().filter(is_unavailable).count() as u64;
        self.statistics.silence_ms = self.now_ms.saturating_sub(self.answered_ms);
        let tails = self.partitions.iter().map(|partition| PartitionTail {
            partition: partition.id,
            through: partition.reading().map_or(0, |it| it.next),
            lag: partition.lag(),
            is_available: partition.told_available == Some(true),
        });
        let shared = &self.shared;
        *shared.tails.lock().unwrap_or_else(PoisonError::into_inner) = tails.collect();
        *shared.statistics.lock().unwrap_or_else(PoisonError::into_inner) = self.statistics;
    }

    /// Sends what waits, and leaves.
    fn finish(mut self) {
        let end_ms = milliseconds(self.start) + END_MS;
        let is_waiting = |it: &Partition| it.sending.waiting_count() > 0;
        while (self.publisher.client.unanswered() > 0 || self.partitions.iter().any(is_waiting))
            && milliseconds(self.start) < end_ms
        {
            self.wake.wait(10);
            self.serve_publisher();
        }
        self.share();
        scrap((self.reader, self.publisher));
    }

    fn microseconds(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn letter(&self, home: HomeId, letter: EngineLetter) {
        (self.post)(home, letter);
    }

    /// An event that is not the business of one part.
    fn serve_common(&mut self, event: Event, client: &str) {
        match event {
            // The group has no member, so its coordinator does not matter.
            Event::Error { error, .. } if error.text.starts_with("GroupCoordinator") => {}
            Event::Error { error, .. } => {
                self.statistics.errors += 1;
                // The line about a certificate has the reason.
                if !certificate::is_refusal(&error.text) {
                    self.say(Severity::Warning, &format!("{client}: {error}"));
                }
            }
            Event::Line { level, text } => {
                if let Some(refusal) = certificate::refusal(&text) {
                    self.say(Severity::Warning, &format!("{client}: {refusal}"));
                } else if level <= 4 && !text.starts_with("FAIL") {
                    // Failed connections are errors already.
                    self.say(Severity::Info, &format!("{client}: {text}"));
                }
            }
            _ => {}
        }
    }

    /// Writes a line, unless there were too many in this second.
    fn say(&mut self, severity: Severity, line: &str) {
        if self.lines.may_write(self.now_ms) {
            self.settings.log.write(severity, &format!("engine: {line}"));
        }
    }
}

impl Log {
    fn of(log: &EngineLog, settings: &EngineSettings, first: usize) -> Result<Log, EngineError> {
        let name = CString::new(log.topic.clone())
            .map_err(|_| EngineError("engine: a topic's name has a zero byte".to_owned()))?;
        Ok(Log {
            name,
            mapping: Mapping {
                topic_prefix: log.topic_prefix.as_str().into(),
                partitioner: log.partitioner,
                partitions_count: log.partitions.len() as u32,
                foreign: log.foreign.clone(),
                payload_bytes_max: settings.payload_bytes_max as usize,
                is_compacted: log.is_compacted,
            },
            first,
            id: None,
            in_sync_min: 1,
            kept_ms: None,
            has_options: false,
            was_asked: false,
            fault: None,
        })
    }
}

/// Ends clients on a thread of its own, because that waits for librdkafka's threads.
fn scrap<T: Send + 'static>(clients: T) {
    let thread = thread::Builder::new().name("engine-scrap".to_owned());
    // Without a thread they end here.
    _ = thread.spawn(move || drop(clients));
}

fn milliseconds(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Bounds lines in time.
#[derive(Debug, Default)]
struct Lines {
    second: u64,
    count: u32,
}

/// Lines in a second.
const LINES_MAX: u32 = 20;

impl Lines {
    fn may_write(&mut self, now_ms: u64) -> bool {
        let second = now_ms / 1_000;
        if second != self.second {
            *self = Lines { second, count: 0 };
        }
        self.count += 1;
        self.count <= LINES_MAX
    }
}
