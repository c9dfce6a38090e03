//! The parts of a test: an engine's partition as a list, and a node of a home and a log thread.

use broker::disk::{DiskLetter, DiskRequest};
use broker::engine::*;
use broker::home::{Home, HomeOutputs};
use broker::mail::*;
use broker::now::Now;
use broker::position::Position;
use broker::settings::{Durability, LogSettings, RuleSettings, Settings};
use log::store::hostile::HostileDisk;
use log::store::{Store, StoreSettings};
use log::{HeapMemory, RecordView};
use node::logs::{LogTime, LogWorker};
use node::restore::Restoration;
use node::timing::UNTIMED;
use std::collections::VecDeque;
use std::sync::Arc;
use stdx::chunk::Slice;
use stdx::hash::Seed;
use stdx::key::Key;

pub const W_MS: u64 = WINDOW_MS;
const PARTITION: PartitionId = PartitionId(0);
const TOPIC_ID: u32 = 5;
/// The engine's clock at the beginning, in milliseconds.
const BEGAN_MS: u64 = 1_700_000_000_000;
/// The engine's time between two records, in milliseconds.
const STEP_MS: u64 = 10_000;

/// Offset and payload.
pub type Record = (u64, String);

/// An engine's partition.
pub struct Engine {
    log: Vec<TailRecord>,
    /// Repetitions, which no node delivers.
    dropped: Vec<u64>,
    lineages: Vec<(u32, u64)>,
    now_ms: u64,
    count: u64,
}

impl Engine {
    pub fn new() -> Engine {
        Engine {
            log: Vec::new(),
            dropped: Vec::new(),
            lineages: vec![(1, 1)],
            now_ms: BEGAN_MS,
            count: 0,
        }
    }

    pub fn end(&self) -> u64 {
        self.log.last().map_or(0, |last| last.offset)
    }

    pub fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
    }

    /// Appends records of three topics; with a hole behind every tenth.
    pub fn append(&mut self, count: u64) {
        for _ in 0..count {
            let topic = ["a", "b", "a", "c"][(self.count % 4) as usize];
            self.push(topic, Slice::default());
        }
    }

    pub fn append_keyed(&mut self, topic: &str, key: &str) {
        self.push(topic, Slice::copy_of(key.as_bytes()));
    }

    /// The last record repeats an earlier one.
    pub fn is_dropped_last(&mut self) {
        self.dropped.push(self.end());
    }

    fn push(&mut self, topic: &str, idempotency_key: Slice) {
        self.count += 1;
        self.now_ms += STEP_MS;
        let offset = self.end() + 1 + u64::from(self.count.is_multiple_of(10));
        let payload = format!("message {} {}", self.count, "x".repeat(200));
        self.log.push(TailRecord {
            restored: None,
            is_register: false,
            offset,
            lineage: self.lineages.last().unwrap().0,
            time_ms: self.now_ms,
            name: None,
            publication: Publication {
                topic: Slice::copy_of(topic.as_bytes()),
                payload: Slice::copy_of(payload.as_bytes()),
                idempotency_key,
                ..Publication::default()
            },
        });
    }

    /// Loses the records behind an offset; another leader continues.
    pub fn truncate(&mut self, end: u64) {
        self.log.retain(|record| record.offset <= end);
        let lineage = self.lineages.last().unwrap().0 + 1;
        self.lineages.retain(|(_, start)| *start <= end);
        self.lineages.push((lineage, end + 1));
    }

    /// The position of a record, in the lineage of that record.
    pub fn position(&self, offset: u64) -> Position {
        let epoch = u64::from(TOPIC_ID) << 32 | u64::from(self.lineage_at(offset.max(1)));
        Position { epoch, offset }
    }

    fn lineage_at(&self, offset: u64) -> u32 {
        let earlier = self.lineages.iter().rev().find(|(_, start)| *start <= offset);
        earlier.map_or(1, |(lineage, _)| *lineage)
    }

    pub fn records_of(&self, topic: &str, from: u64) -> Vec<Record> {
        let is_of = |record: &&TailRecord| {
            record.offset >= from
                && record.publication.topic[..] == *topic.as_bytes()
                && !self.dropped.contains(&record.offset)
        };
        let text = |record: &TailRecord| (record.offset, text_of(&record.publication.payload));
        self.log.iter().filter(is_of).map(text).collect()
    }

    /// A beginning that serves everything.
    pub fn cold(&self) -> Restart {
        self.cold_from(0)
    }

    /// A beginning that serves what lies behind an offset.
    pub fn cold_from(&self, after: u64) -> Restart {
        // Everything before primes as well, so that all verdicts are whole.
        Restart {
            partition: PARTITION,
            topic_id: TOPIC_ID,
            lineages: vec![LineageStart { lineage: self.lineage_at(1), start: 1 }],
            after: 0,
            complete_from_ms: 0,
            primed_through: after,
            follows_mirror: false,
            head: self.end(),
        }
    }

    /// A beginning behind the end of a mirror: it reads two windows before that.
    pub fn following(&self, tail: &MirrorEnd) -> Restart {
        let from_ms = tail.head_ms.saturating_sub(2 * W_MS + 30_000);
        let before = self.log.iter().take_while(|record| record.time_ms < from_ms);
        let after = before.last().map_or(0, |last| last.offset);
        Restart {
            lineages: vec![LineageStart { lineage: self.lineage_at(after + 1), start: after + 1 }],
            after,
            complete_from_ms: if after == 0 { 0 } else { from_ms },
            primed_through: tail.head,
            follows_mirror: true,
            ..self.cold()
        }
    }
}

/// The end of a node's process.
#[derive(Clone, Copy)]
pub enum Life {
    Killed,
    Crashed,
    Closed,
    Wiped,
}

/// A home and the log thread of its mirror.
pub struct Node {
    settings: Arc<Settings>,
    pub home: Home,
    worker: LogWorker<HostileDisk>,
    pub disk: HostileDisk,
    memory: HeapMemory,
    out: HomeOutputs,
    tail: Option<MirrorEnd>,
    at_ms: u64,
    /// The log thread does nothing.
    pub is_hanging: bool,
    requests: VecDeque<DiskRequest>,
    letters: Vec<ToEdge>,
    /// The home has read everything up to this offset.
    read_through: u64,
    pub read_count: usize,
    last_request: u32,
}

fn settings(is_mirrored: bool) -> Settings {
    let mut settings = Settings {
        edges_count: 1,
        homes_count: 1,
        logs: vec![LogSettings {
            name: "orders".into(),
            partitions_count: 1,
            durability: Durability::Engine,
            is_mirrored,
            log_bytes_max: 10 << 20,
            cache_bytes: 24 << 10,
            segment_bytes: 4 << 10,
            age_max_ms: u64::MAX,
            ..LogSettings::default()
        }],
        rules: vec![RuleSettings { history_messages_max: u32::MAX, ..RuleSettings::default() }],
        node_name: "test".into(),
        ..Settings::default()
    };
    settings.limits.log_stall_timeout_ms = 5_000;
    settings
}

impl Node {
    pub fn new(is_mirrored: bool) -> Node {
        Node::on(HostileDisk::new(7), Arc::new(settings(is_mirrored)), 0)
    }

    fn on(disk: HostileDisk, settings: Arc<Settings>, at_ms: u64) -> Node {
        let store_settings = StoreSettings {
            partitions_count: 1,
            segment_bytes: 8 << 10,
            bytes_max: 10 << 20,
            age_max_ms: 0,
            new_epoch: 1 + at_ms,
            hash_seed: Seed(1, 2),
        };
        let (mut store, recovered) = Store::open(disk.clone(), store_settings, BEGAN_MS).unwrap();
        if !recovered.damages.is_empty() {
            store.discard(BEGAN_MS).unwrap();
        }
        let (restorations, tails) = Restoration::read_mirror(&mut store, &settings, 0).unwrap();
        let mut memory = HeapMemory::new(1 << 26);
        let mut home = Home::new(settings.clone(), HomeId(0), (3, at_ms));
        for restoration in restorations {
            restoration.restore(&mut home, &mut memory).unwrap();
        }
        Node {
            worker: LogWorker::new(store, &settings, 0),
            settings,
            home,
            disk,
            memory,
            out: HomeOutputs::new(1),
            tail: tails.first().copied(),
            at_ms,
            is_hanging: false,
            requests: VecDeque::new(),
            letters: Vec::new(),
            read_through: 0,
            read_count: 0,
            last_request: 0,
        }
    }

    /// The process ends, and another begins with the files of the disk.
    pub fn restart(self, how: Life) -> Node {
        let Node { settings, worker, mut disk, at_ms, .. } = self;
        match how {
            Life::Killed => drop(worker),
            Life::Closed => worker.close().unwrap(),
            Life::Crashed | Life::Wiped => drop(worker),
        }
        match how {
            Life::Killed | Life::Closed => disk.kill(),
            Life::Crashed => disk.crash(),
            Life::Wiped => disk = HostileDisk::new(9),
        }
        disk.stop_faults();
        Node::on(disk, settings, at_ms + 1)
    }

    /// The end of the mirror at the start.
    pub fn mirrored(&self) -> Option<MirrorEnd> {
        self.tail
    }

    pub fn worker(&self) -> &LogWorker<HostileDisk> {
        &self.worker
    }

    pub fn begin(&mut self, restart: Restart) {
        (self.read_through, self.read_count) = (restart.after, 0);
        self.hear(EngineLetter::Restart(restart));
    }

    /// Reads all of the engine's log, in letters of a few records.
    pub fn read(&mut self, engine: &Engine) {
        let new = engine.log.iter().filter(|record| record.offset > self.read_through);
        let records: Vec<TailRecord> = new.cloned().collect();
        self.read_count += records.len();
        for records in records.chunks(7) {
            let through = records.last().map_or(0, |last| last.offset);
            self.read_through = through;
            let tail = Tail {
                partition: PARTITION,
                records: records.to_vec(),
                through,
                ended_ago_ms: None,
            };
            self.hear(EngineLetter::Tail(tail));
        }
    }

    /// The log thread says that it has dropped everything below an offset.
    pub fn hear_floor(&mut self, floor: u64) {
        let letter = DiskLetter::Floor { floors: vec![(PARTITION, floor)], topics: Vec::new() };
        let now = self.now();
        self.home.disk(now, 0, letter, &mut self.memory, &mut self.out);
    }

    /// The log thread says that it takes records, or that it has dropped the mirror.
    pub fn hear_available(&mut self, is_available: bool) {
        let letter = DiskLetter::Available(is_available);
        self.home.disk(self.now(), 0, letter, &mut self.memory, &mut self.out);
        self.settle();
    }

    fn hear(&mut self, letter: EngineLetter) {
        self.home.engine(self.now(), letter, &mut self.memory, &mut self.out);
        self.settle();
    }

    fn now(&self) -> Now {
        Now { monotonic_ms: self.at_ms, unix_ms: BEGAN_MS + self.at_ms }
    }

    pub fn pass(&mut self, ms: u64) {
        self.at_ms += ms;
        self.settle();
    }

    /// Home and log thread work until nothing is left to do.
    fn settle(&mut self) {
        loop {
            let now = self.now();
            while self.home.pump(now, &mut self.memory, &mut self.out) {}
            self.home.finish_turn(&mut self.out);
            self.letters.append(&mut self.out.letters[0]);
            self.out.engine.clear();
            for requests in &mut self.out.disk {
                self.requests.extend(requests.drain(..));
            }
            if self.is_hanging {
                return;
            }
            let has_requests = !self.requests.is_empty();
            self.worker.take(HomeId(0), UNTIMED, self.requests.drain(..).collect());
            let time = LogTime { monotonic_us: self.at_ms * 1_000, unix_ms: now.unix_ms };
            let mut letters = Vec::new();
            let has_more = self.worker.turn(&mut || time, &mut letters);
            let is_idle = letters.is_empty() && !has_more && !has_requests;
            for (_, letter) in letters {
                self.home.disk(now, 0, letter, &mut self.memory, &mut self.out);
            }
            if is_idle {
                return;
            }
        }
    }

    pub fn records_in_memory(&self) -> u64 {
        self.home.statistics().records
    }

    /// The head of the partition.
    pub fn head(&self) -> u64 {
        self.home.tails().next().unwrap().through
    }

    /// The least offset that memory or the mirror may have.
    pub fn oldest(&mut self) -> u64 {
        self.handle(ToHome::Positions);
        let position = self.letters.iter().rev().find_map(|letter| match letter {
            ToEdge::Positions { positions } => Some(positions[0].oldest),
            _ => None,
        });
        position.unwrap()
    }

    fn handle(&mut self, request: ToHome) {
        self.home.handle(self.now(), EdgeId(0), request, &mut self.memory, &mut self.out);
        self.settle();
    }

    /// Asks for a page of a topic's history.
    pub fn ask(&mut self, topic: &str, beyond: Option<Position>) -> u32 {
        self.last_request += 1;
        let request = self.last_request;
        self.handle(ToHome::History(ReadHistory {
            partition: PARTITION,
            rule: 0,
            topic: Slice::copy_of(topic.as_bytes()),
            reply: Reply { connection: Key { index: 0, generation: 0 }, request },
            beyond,
            reverse: false,
            limits: PageLimits { records_max: 17, bytes_max: 1 << 20 },
        }));
        request
    }

    /// The answer to such a question, if it has come.
    pub fn answer(&mut self, asked: u32) -> Option<HistoryPage> {
        let place = self.letters.iter().position(
            |letter| matches!(letter, ToEdge::History { reply, .. } if reply.request == asked),
        )?;
        match self.letters.swap_remove(place) {
            ToEdge::History { result, .. } => Some(result.expect("a page")),
            _ => None,
        }
    }

    fn scan(&mut self, after: u64) -> Option<FilterPage> {
        self.last_request += 1;
        let asker = Key { index: 0, generation: self.last_request };
        self.handle(ToHome::ReadFilter(ReadFilter {
            partition: PARTITION,
            filters: vec![Slice::copy_of(b"#")],
            subscription: asker,
            after,
            mode: ReadMode::Replay,
            limits: PageLimits { records_max: 17, bytes_max: 1 << 20 },
        }));
        let is_it = |letter: &ToEdge| matches!(letter, ToEdge::FilterPage(page) if page.subscription == asker);
        let place = self.letters.iter().rposition(is_it)?;
        match self.letters.swap_remove(place) {
            ToEdge::FilterPage(page) => Some(page),
            _ => None,
        }
    }
}

fn record_of(record: &Slice) -> Record {
    let record = RecordView::parse(record).unwrap();
    (record.offset(), text_of(record.payload()))
}

/// The beginning of a payload.
fn text_of(payload: &[u8]) -> String {
    let text = String::from_utf8_lossy(payload);
    text.split(" x").next().unwrap_or_default().to_owned()
}

/// A topic's history behind a position: the gap before it, and the records.
#[track_caller]
pub fn read_all(
    node: &mut Node,
    topic: &str,
    beyond: Option<Position>,
) -> (Option<Gap>, Vec<Record>) {
    try_read_all(node, topic, beyond).expect("an answer")
}

/// The same; none if the disk does not answer. A gap in the middle is one from the beginning.
pub fn try_read_all(
    node: &mut Node,
    topic: &str,
    mut beyond: Option<Position>,
) -> Option<(Option<Gap>, Vec<Record>)> {
    let (mut gap, mut records) = (None, Vec::new());
    loop {
        let asked = node.ask(topic, beyond);
        let page = node.answer(asked)?;
        if page.gap.is_some() {
            (gap, records) = (page.gap, Vec::new());
        }
        records.extend(page.records.iter().map(record_of));
        let Some(last) = records.last().filter(|_| page.more) else {
            return Some((gap, records));
        };
        beyond = Some(Position { epoch: page.epoch, offset: last.0 });
    }
}

/// All records behind an offset, by a filter.
#[track_caller]
pub fn read_filter(node: &mut Node, after: u64) -> (Option<Gap>, Vec<Record>) {
    try_read_filter(node, after).expect("an answer")
}

/// The same; none if the disk does not answer.
pub fn try_read_filter(node: &mut Node, mut after: u64) -> Option<(Option<Gap>, Vec<Record>)> {
    let (mut gap, mut records) = (None, Vec::new());
    loop {
        let page = node.scan(after)?;
        if page.gap.is_some() {
            (gap, records) = (page.gap, Vec::new());
        }
        records.extend(page.records.iter().map(|(_, record)| record_of(record)));
        after = page.through;
        if page.caught_up {
            return Some((gap, records));
        }
    }
}
