//! The model of an engine that all nodes of a world share: partitions, what each node's client
//! library does with them, and the faults.
//!
//! Place: below the homes, instead of brokers and the threads that speak with them. It takes
//! [`EngineRequest`]s and gives [`EngineLetter`]s, with seeded delays for each partition and node.
//! Invariant: it gives a home no more than its credit, and one letter.

use super::bug::{Bug, Planted};
use super::life::{Content, Entry, EntryId};
use super::partition::Partition;
use super::producer::{Producer, ProducerFaults};
use super::tail::{Reader, TailSettings};
use crate::network::fold;
use broker::engine::{EngineLetter, EngineRequest, MirrorEnd};
use broker::mail::{Code, PartitionId, Publication};
use std::collections::VecDeque;
use stdx::prng::Prng;

/// The settings and the faults of the model.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// The number of partitions.
    pub partitions: u32,
    /// The window of the recognition of repetitions, in seconds.
    pub window_s: u64,
    /// The clocks of brokers, ahead of the world's.
    pub skews_ms: [u64; 3],
    /// The tails, by node.
    pub tails: Vec<TailSettings>,
    /// The credit of a home at its beginning, in bytes.
    pub credit: u32,
    /// Faults of producers.
    pub producers: ProducerFaults,
    /// The maximum delay of a letter on its way to a home.
    pub letter_delay_ms_max: u64,
    /// The maximum number of publications that wait for a leader.
    pub waiting_max: usize,
    /// The maximum time of that, in milliseconds.
    pub waiting_ms_max: u64,
    /// The probability of a marker behind a publication.
    pub marker: f64,
}

/// A fault at some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineFault {
    /// Another replica in sync leads.
    Elect(usize),
    /// The partition has no leader until an election.
    LoseLeader(usize),
    /// A replica stops.
    Stop(usize, usize),
    /// The leader stops.
    StopLeader(usize),
    /// A replica is back.
    Resume(usize, usize),
    /// This replica leads, whatever it lacks.
    ElectUnclean(usize, usize),
    /// The topic is replaced by another one of the same name.
    Recreate,
    /// Records expire; this number of the newest offsets stays, and those that the engine promises
    /// to keep.
    Expire(usize, u64),
    /// A node does not reach the engine until this time.
    Away(usize, u64),
    /// A transaction of another producer begins.
    Open(usize),
    /// It ends: committed or aborted.
    Close(usize, bool),
}

/// The part of a partition that a node serves.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// It may have nothing at or below this offset.
    pub above: u64,
    /// It has everything above this offset, and may have more; none if it has nothing more.
    pub at_least_above: Option<u64>,
    /// It has read everything up to this offset.
    pub through: u64,
}

fn end_of(ends: &[MirrorEnd], index: usize) -> Option<MirrorEnd> {
    ends.iter().find(|end| end.partition.0 as usize == index).copied()
}

#[derive(Default)]
struct HomeSide {
    credit: i64,
    letters: VecDeque<(u64, EngineLetter)>,
}

struct NodeSide {
    homes: Vec<HomeSide>,
    readers: Vec<Reader>,
    producers: Vec<Producer>,
    /// The availability that each partition's home knows.
    told: Vec<Option<bool>>,
    /// The ends of its mirror's partitions, until they begin.
    mirrored: Vec<Option<MirrorEnd>>,
    /// The least offset that a node serves which drops history for room: at present, and the
    /// greatest so far.
    floors: Vec<Option<(u64, u64)>>,
    away_until_ms: u64,
}

/// The model; see the module.
pub struct Engine {
    /// The partitions.
    pub partitions: Vec<Partition>,
    /// The settings.
    pub settings: EngineSettings,
    nodes: Vec<Option<NodeSide>>,
    /// The number of each node's starts.
    starts: Vec<u32>,
    away_until_ms: Vec<u64>,
    random: Prng,
    topics: u32,
    /// Virtual milliseconds.
    pub now_ms: u64,
    /// Milliseconds since 1970.
    pub unix_ms: u64,
    /// A hash of all letters.
    pub hash: u64,
    /// The planted bug.
    pub planted: Planted,
    /// Beginnings of partitions at nodes that were not their first.
    pub restarts: u64,
    replicate_at_ms: u64,
}

impl Engine {
    /// Creates an engine with empty partitions.
    pub fn new(settings: EngineSettings, random: Prng, planted: Planted) -> Engine {
        let partition = |_| Partition::new(1, settings.window_s, settings.skews_ms);
        let nodes = settings.tails.len();
        Engine {
            partitions: (0..settings.partitions).map(partition).collect(),
            nodes: (0..nodes).map(|_| None).collect(),
            starts: vec![0; nodes],
            away_until_ms: vec![0; nodes],
            settings,
            random,
            topics: 1,
            now_ms: 0,
            unix_ms: 0,
            hash: 0,
            planted,
            restarts: 0,
            replicate_at_ms: 0,
        }
    }

    /// A node begins, with so many homes, and the ends of its mirror's partitions.
    pub fn start(&mut self, node: usize, homes: usize, ends: &[MirrorEnd]) {
        let count = self.partitions.len();
        let home = || HomeSide { credit: self.settings.credit.into(), ..HomeSide::default() };
        self.starts[node] += 1;
        self.nodes[node] = Some(NodeSide {
            homes: (0..homes).map(|_| home()).collect(),
            readers: vec![Reader::due_at(self.now_ms); count],
            producers: (0..count).map(|_| Producer::default()).collect(),
            told: vec![None; count],
            mirrored: (0..count).map(|index| end_of(ends, index)).collect(),
            floors: vec![None; count],
            away_until_ms: self.away_until_ms[node],
        });
    }

    /// A node dies, with all that its producers had not sent.
    pub fn stop(&mut self, node: usize) {
        self.nodes[node] = None;
    }

    /// The number of a node's starts.
    pub fn starts(&self, node: usize) -> u32 {
        self.starts[node]
    }

    /// Takes a home's requests.
    pub fn ask(&mut self, node: usize, home: usize, requests: Vec<EngineRequest>) {
        for request in requests {
            let delay_ms = self.random.between(0, self.settings.producers.delay_ms_max);
            let Some(side) = &mut self.nodes[node] else {
                continue;
            };
            match request {
                EngineRequest::Credit { bytes } => side.homes[home].credit += i64::from(bytes),
                EngineRequest::Publish(publish)
                    if publish.restored.is_some() && self.planted.is(Bug::RestorationLost) => {}
                EngineRequest::Publish(publish) => {
                    let index = publish.partition.0 as usize;
                    let is_full = side.producers[index].waiting() >= self.settings.waiting_max;
                    if is_full {
                        let letter = EngineLetter::Refused {
                            partition: publish.partition,
                            counters: vec![publish.name.counter],
                            code: Code::LogUnavailable,
                        };
                        self.send(node, home, letter);
                    } else {
                        let due_ms = self.now_ms + delay_ms;
                        side.producers[index].push(publish, due_ms, self.now_ms);
                    }
                }
            }
        }
    }

    fn send(&mut self, node: usize, home: usize, letter: EngineLetter) {
        let delay_ms = self.random.between(0, self.settings.letter_delay_ms_max);
        if let Some(side) = &mut self.nodes[node] {
            let letters = &mut side.homes[home].letters;
            let after = letters.back().map_or(0, |(due, _)| *due);
            letters.push_back(((self.now_ms + delay_ms).max(after), letter));
        }
    }

    /// Gives a home the letters that have arrived.
    pub fn receive(&mut self, node: usize, home: usize, letters: &mut Vec<EngineLetter>) {
        let side = self.nodes[node].as_mut();
        if let Some(queue) = side.and_then(|side| side.homes.get_mut(home)) {
            let queue = &mut queue.letters;
            while queue.front().is_some_and(|(due, _)| *due <= self.now_ms) {
                letters.extend(queue.pop_front().map(|(_, letter)| letter));
            }
        }
    }

    /// The time when a home's next letter arrives.
    pub fn letter_due_ms(&self, node: usize, home: usize) -> Option<u64> {
        let side = self.nodes[node].as_ref()?;
        side.homes.get(home)?.letters.front().map(|(due, _)| *due)
    }

    /// A foreign producer writes. False if it is refused.
    pub fn publish_foreign(&mut self, index: usize, publication: Publication) -> bool {
        let content = Content::Record { name: None, publication: Box::new(publication) };
        self.partitions[index].append(content, self.unix_ms).is_some()
    }

    /// Compacts all partitions: records older than the time for which nodes rely on every record,
    /// and a window.
    pub fn compact(&mut self) {
        let kept_ms = self.settings.tails.iter().map(|tail| tail.kept_ms).max().unwrap_or(0);
        let before_ms = self.unix_ms - kept_ms - self.settings.window_s * 1_000;
        for partition in &mut self.partitions {
            partition.compact(before_ms);
        }
    }

    /// The newest record of a topic that a node has written in half a window is there once more.
    /// A client of the engine sends none again after that.
    pub fn publish_again(&mut self, index: usize, topic: &[u8]) {
        let life = self.partitions[index].life();
        let entries = life.path().iter().rev().map(|id| life.entry(*id));
        let from_ms = self.unix_ms - self.settings.window_s * 500;
        let mut named = entries.filter(|entry| {
            let read = entry.record().filter(|_| entry.time_ms > from_ms);
            read.is_some_and(|(name, record)| name.is_some() && record.topic[..] == *topic)
        });
        if let Some(content) = named.next().map(|entry| entry.content.clone()) {
            self.partitions[index].append(content, self.unix_ms);
        }
    }

    /// A foreign producer writes a record without a topic.
    pub fn publish_unroutable(&mut self, index: usize) {
        self.partitions[index].append(Content::Hole, self.unix_ms);
    }

    /// Like [`Engine::publish_foreign`], in a transaction that stays open.
    pub fn publish_in_transaction(&mut self, index: usize, publication: Publication) -> bool {
        let content = Content::Record { name: None, publication: Box::new(publication) };
        let partition = &mut self.partitions[index];
        let id = partition.append(content, self.unix_ms);
        if let Some(id) = id {
            partition.open(id);
        }
        id.is_some()
    }

    /// A fault occurs.
    pub fn suffer(&mut self, fault: EngineFault) {
        let random = &mut self.random;
        let (index, lost) = match fault {
            EngineFault::Elect(index) => (index, self.partitions[index].elect(random)),
            EngineFault::ElectUnclean(index, replica) => {
                (index, self.partitions[index].elect_unclean(replica, random))
            }
            EngineFault::LoseLeader(index) => {
                self.partitions[index].lose_leader();
                (index, Vec::new())
            }
            EngineFault::Stop(index, replica) => {
                self.partitions[index].stop(replica);
                (index, Vec::new())
            }
            EngineFault::StopLeader(index) => {
                if let Some(leader) = self.partitions[index].leader() {
                    self.partitions[index].stop(leader);
                }
                (index, Vec::new())
            }
            EngineFault::Resume(index, replica) => {
                self.partitions[index].resume(replica);
                (index, Vec::new())
            }
            EngineFault::Recreate => return self.recreate(),
            EngineFault::Expire(index, kept) => {
                let kept_ms = self.settings.tails.iter().map(|tail| tail.kept_ms).max();
                let before_ms = self.unix_ms.saturating_sub(kept_ms.unwrap_or(0));
                let partition = &mut self.partitions[index];
                let through = partition.visible().saturating_sub(kept);
                let through = through.min(partition.older_than(before_ms));
                partition.expired = partition.expired.max(through);
                return;
            }
            EngineFault::Away(node, until_ms) => {
                self.away_until_ms[node] = until_ms;
                if let Some(side) = &mut self.nodes[node] {
                    side.away_until_ms = until_ms;
                }
                return;
            }
            EngineFault::Open(_) => return,
            EngineFault::Close(index, commits) => {
                return self.partitions[index].close(commits, self.unix_ms);
            }
        };
        self.lose(index, &lost);
    }

    fn lose(&mut self, index: usize, lost: &[EntryId]) {
        for side in self.nodes.iter_mut().flatten() {
            side.producers[index].lost(lost, self.now_ms);
        }
    }

    fn recreate(&mut self) {
        self.topics += 1;
        for (index, partition) in self.partitions.iter_mut().enumerate() {
            partition.recreate(self.topics);
            for side in self.nodes.iter_mut().flatten() {
                side.producers[index].topic_replaced();
            }
        }
    }

    /// All faults end: every partition gets a leader, every node reaches it, copies are few.
    pub fn calm(&mut self) {
        self.settings.producers = ProducerFaults { delay_ms_max: 1, ..ProducerFaults::default() };
        self.settings.marker = 0.0;
        self.settings.letter_delay_ms_max = 0;
        self.away_until_ms.fill(0);
        for side in self.nodes.iter_mut().flatten() {
            side.away_until_ms = 0;
        }
        for tail in &mut self.settings.tails {
            tail.delay_ms_max = tail.delay_ms_max.min(5);
        }
        for index in 0..self.partitions.len() {
            for replica in 0..super::partition::REPLICAS {
                self.partitions[index].resume(replica);
            }
            if !self.partitions[index].is_led() {
                let lost = self.partitions[index].elect(&mut self.random);
                self.lose(index, &lost);
            }
            self.partitions[index].replicate(&mut self.random);
            self.partitions[index].close(true, self.unix_ms);
        }
    }

    /// The time of the model's next work.
    pub fn work_due_ms(&self) -> Option<u64> {
        let lags = self.partitions.iter().any(Partition::has_lagging);
        let mut due = lags.then_some(self.replicate_at_ms);
        for side in self.nodes.iter().flatten() {
            for (index, partition) in self.partitions.iter().enumerate() {
                let is_reached = partition.is_led();
                let has_news = side.told[index] != Some(partition.is_available())
                    || is_reached && self.has_records(side, index);
                let tail = has_news.then_some(side.readers[index].due_ms);
                let producer = side.producers[index].due_ms().filter(|_| partition.is_available());
                let next = tail.into_iter().chain(producer).min();
                let next = next.map(|next| next.max(side.away_until_ms));
                due = due.into_iter().chain(next).min();
            }
        }
        due
    }

    fn has_records(&self, side: &NodeSide, index: usize) -> bool {
        let home = index % side.homes.len();
        let reader = &side.readers[index];
        let partition = &self.partitions[index];
        reader.must_begin(partition)
            || side.homes[home].credit > 0 && self.end_for(index) > reader.through
    }

    fn end_for(&self, index: usize) -> u64 {
        match self.planted.bug {
            Some(Bug::AckFromProduce) => self.partitions[index].end(),
            _ => self.partitions[index].visible(),
        }
    }

    /// Works: producers, replicas, tails.
    pub fn work(&mut self) {
        for node in 0..self.nodes.len() {
            for index in 0..self.partitions.len() {
                self.produce(node, index);
            }
        }
        if self.replicate_at_ms <= self.now_ms {
            for partition in &mut self.partitions {
                partition.replicate(&mut self.random);
            }
            self.replicate_at_ms = self.now_ms + self.random.between(1, 4);
        }
        for node in 0..self.nodes.len() {
            for index in 0..self.partitions.len() {
                self.fetch(node, index);
            }
        }
    }

    fn produce(&mut self, node: usize, index: usize) {
        let Some(side) = self.nodes[node].as_mut() else {
            return;
        };
        let waiting_since = self.now_ms.checked_sub(self.settings.waiting_ms_max);
        let partition = &mut self.partitions[index];
        let mut given_up = Vec::new();
        if side.away_until_ms <= self.now_ms {
            let now = (self.now_ms, self.unix_ms);
            let producer = &mut side.producers[index];
            let faults = &self.settings.producers;
            let count = producer.work(partition, now, faults, &mut self.random);
            if count > 0 && self.random.chance(self.settings.marker) {
                partition.append(Content::Hole, self.unix_ms);
            }
        }
        if let Some(waiting_since) = waiting_since {
            given_up = side.producers[index].give_up(waiting_since);
        }
        let home = index % side.homes.len();
        if !given_up.is_empty() {
            let letter = EngineLetter::Refused {
                partition: PartitionId(index as u32),
                counters: given_up.iter().map(|name| name.counter).collect(),
                code: Code::LogUnavailable,
            };
            self.send(node, home, letter);
        }
    }

    fn fetch(&mut self, node: usize, index: usize) {
        let id = PartitionId(index as u32);
        let visible = self.end_for(index);
        let settings = self.settings.tails[node];
        let Some(side) = self.nodes[node].as_mut() else {
            return;
        };
        let reader = &mut side.readers[index];
        if reader.due_ms > self.now_ms || side.away_until_ms > self.now_ms {
            return;
        }
        let partition = &self.partitions[index];
        if visible > partition.visible() {
            self.planted.strikes += 1;
        }
        let home = index % side.homes.len();
        let is_available = partition.is_available();
        let is_news = side.told[index].replace(is_available) != Some(is_available);
        let mut letters = Vec::new();
        if partition.is_led() {
            reader.due_ms = self.now_ms + self.random.between(0, settings.delay_ms_max);
            if reader.must_begin(partition) {
                if reader.passes_over(partition, &mut self.planted) {
                    return;
                }
                self.restarts += u64::from(reader.has_begun());
                let life = partition.life();
                let newest = life.resolve(life.present(), partition.visible());
                let newest = newest.map(|id| life.entry(id).clone()).into_iter().collect();
                let end = side.mirrored[index].take();
                let begin = reader.begin(id, partition, &settings, self.unix_ms, end.as_ref());
                letters.push((begin, newest));
            } else if side.homes[home].credit > 0 {
                let bytes = side.homes[home].credit.clamp(0, i64::from(u32::MAX)) as u32;
                let life = partition.life();
                let tail = reader.read(id, life, visible, bytes, &settings, &mut self.random);
                if let Some(tail) = tail.or_else(|| reader.end(id, partition, self.now_ms)) {
                    side.homes[home].credit -= i64::from(tail.cost());
                    let entry = |offset| life.resolve(life.present(), offset);
                    let entries = tail.records.iter().filter_map(|record| entry(record.offset));
                    let entries: Vec<Entry> = entries.map(|id| life.entry(id).clone()).collect();
                    letters.push((EngineLetter::Tail(tail), entries));
                }
            }
        }
        if is_news {
            letters.push((EngineLetter::Available { partition: id, is_available }, Vec::new()));
        }
        for (letter, entries) in letters {
            self.hash = fold(self.hash, self.now_ms << 16 | (node as u64) << 8 | index as u64);
            if let Some(letter) = self.planted.on_letter(node, letter, &entries) {
                self.send(node, home, letter);
            }
        }
    }

    /// The part of a partition that a node serves.
    pub fn served(&self, node: usize, index: usize) -> Option<Served> {
        let side = self.nodes[node].as_ref()?;
        let reader = &side.readers[index];
        let floor = side.floors[index];
        let above = floor.map_or(0, |(_, greatest)| greatest - 1).max(reader.served_above);
        let at_least_above = floor.map(|(present, _)| (present - 1).max(reader.served_above));
        let through = reader.through;
        reader.has_begun().then_some(Served { above, at_least_above, through })
    }

    /// A node that drops history for room has every message of a partition from an offset on.
    pub fn note_floor(&mut self, node: usize, index: usize, floor: u64) {
        if let Some(side) = &mut self.nodes[node] {
            let known = &mut side.floors[index];
            *known = Some((floor, known.map_or(floor, |(_, greatest)| greatest.max(floor))));
        }
    }

    /// Whether all nodes have read everything, and producers have nothing to send.
    ///
    /// # Errors
    /// The missing part, as an error.
    pub fn is_settled(&self) -> Result<(), String> {
        for (node, side) in self.nodes.iter().enumerate() {
            let side = side.as_ref().ok_or_else(|| format!("node {node} is down"))?;
            for (index, partition) in self.partitions.iter().enumerate() {
                let (visible, end) = (partition.visible(), partition.end());
                let (reader, producer) = (&side.readers[index], &side.producers[index]);
                if !reader.is_at_end(partition) || visible != end || producer.waiting() > 0 {
                    let (through, count) = (reader.through, producer.waiting());
                    return Err(format!(
                        "node {node} has read {through} of {visible} of {end} in {index}, and {count} publications wait"
                    ));
                }
            }
            if side.homes.iter().any(|home| !home.letters.is_empty()) {
                return Err(format!("letters to node {node} are under way"));
            }
        }
        Ok(())
    }
}
