//! Random requests, delays and failures on a small home whose log is on disk, against a list per
//! partition.
//!
//! As `home_model`, but memory holds a few records only and a disk that answers late, in any order
//! of its reads, holds the rest. Nothing may be missing: a gap may only cover records that the disk
//! has dropped. A refused publication is never seen; an acknowledged one is on disk, and everything
//! that was visible is there again after a start.

#[path = "home/script/disk.rs"]
mod disk;
mod home_model_edge;
#[path = "home/support/mod.rs"]
mod support;

use broker::disk::DiskLetter;
use broker::home::{Home, HomeOutputs};
use broker::mail::*;
use broker::position::Position;
use broker::settings::{Limits, Settings};
use disk::TestDisk;
use home_model_edge::{Edge, Published, key, slice, text};
use log::{HeapMemory, RecordView};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stdx::chunk::Slice;
use support::{EPOCH, START, Setup};

const TOPICS: [&str; 5] = ["a", "b", "a/x", "b/x", "$s"];
const FILTERS: [&str; 3] = ["#", "a/#", "+/x"];
const PARTITIONS: u32 = 2;
const EDGES: usize = 2;
const CREDIT: u32 = 400;
const PAYLOAD_BYTES_MAX: usize = 120;

#[derive(Clone, Debug)]
enum Op {
    Publish { edge: usize, topic: usize, bytes: usize },
    Subscribe { edge: usize, topic: usize, start: StartOp },
    Unsubscribe { edge: usize, nth: usize },
    AddFilter { edge: usize, filter: usize },
    // The home takes requests of an edge.
    Handle { edge: usize, count: usize },
    // An edge takes letters.
    Receive { edge: usize, count: usize },
    Credit { edge: usize },
    Pump,
    // The disk answers one read.
    Answer { nth: usize },
    // The disk cannot read.
    FailRead,
    // A record becomes unreadable.
    Damage { partition: PartitionId, nth: usize },
    // A batch gets on disk.
    Commit { count: usize },
    // A batch does not.
    Fail,
    Drop { partition: PartitionId, records: usize },
    Available(bool),
}

#[derive(Clone, Debug)]
enum StartOp {
    Live,
    Since { back: u64 },
    Zero,
    OtherEpoch,
    Last(u32),
    Snapshot,
}

/// Everything ever acknowledged, by partition and offset.
#[derive(Default)]
struct Model {
    records: BTreeMap<(PartitionId, u64), Published>,
}

impl Model {
    /// Offsets of the topic's records in (after, through].
    fn between(&self, partition: PartitionId, topic: &str, after: u64, through: u64) -> Vec<u64> {
        if after >= through {
            return Vec::new();
        }
        self.records
            .range((partition, after + 1)..=(partition, through))
            .filter(|(_, record)| record.topic == topic)
            .map(|((_, offset), _)| *offset)
            .collect()
    }

    fn record(&self, partition: PartitionId, offset: u64) -> &Published {
        &self.records[&(partition, offset)]
    }

    fn head(&self, partition: PartitionId) -> u64 {
        let all = self.records.range((partition, 0)..=(partition, u64::MAX));
        all.map(|((_, offset), _)| *offset).next_back().unwrap_or(0)
    }
}

struct World {
    settings: Arc<Settings>,
    home: Home,
    memory: HeapMemory,
    out: HomeOutputs,
    disk: TestDisk,
    model: Model,
    edges: Vec<Edge>,
    /// Publications that are not answered, by their request.
    unanswered: BTreeMap<u32, (PartitionId, Publication)>,
    next_payload: u32,
    /// Requests sent and not consumed, and what they cost.
    inflight: Vec<(u32, u64)>,
    gaps: u64,
    damaged: BTreeSet<(PartitionId, u64)>,
}

impl World {
    fn new() -> World {
        let setup = Setup {
            edges: EDGES as u16,
            partitions: PARTITIONS,
            segment_bytes: 300,
            cache_bytes: Some(1_000),
            age_max_ms: 1 << 40,
            // Less than the cache: now and then it is refused, too.
            memory_bytes: 900,
            limits: Limits { stream_credit_bytes: CREDIT, ..Limits::default() },
            ..Setup::default()
        };
        let settings = setup.settings();
        World {
            home: Home::new(settings.clone(), HomeId(0), (3, 4)),
            settings,
            memory: HeapMemory::new(setup.memory_bytes),
            out: HomeOutputs::new(setup.edges),
            disk: TestDisk::default(),
            model: Model::default(),
            edges: (0..EDGES).map(|_| Edge::default()).collect(),
            unanswered: BTreeMap::new(),
            next_payload: 0,
            inflight: vec![(0, 0); EDGES],
            gaps: 0,
            damaged: BTreeSet::new(),
        }
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Publish { edge, topic, bytes } => self.publish(edge, TOPICS[topic], bytes),
            Op::Subscribe { edge, topic, ref start } => self.subscribe(edge, TOPICS[topic], start),
            Op::Unsubscribe { edge, nth } => self.edges[edge].unsubscribe(nth),
            Op::AddFilter { edge, filter } => self.edges[edge].add_filter(filter),
            Op::Handle { edge, count } => (0..count).for_each(|_| self.handle_one(edge)),
            Op::Receive { edge, count } => (0..count).for_each(|_| self.receive_one(edge)),
            Op::Credit { edge } => self.edges[edge].credit(),
            Op::Pump => {
                self.home.pump(START, &mut self.memory, &mut self.out);
                self.home.finish_turn(&mut self.out);
                self.collect();
            }
            Op::Answer { nth } => {
                let letter = self.disk.answer(nth);
                self.hear(letter);
            }
            Op::FailRead => {
                let letter = self.disk.fail_read();
                self.hear(letter);
            }
            Op::Damage { partition, nth } => {
                let offset = self.disk.records_of(partition).map(|(at, _)| at).nth(nth);
                if let Some(offset) = offset {
                    self.disk.damage(partition, offset);
                    self.damaged.insert((partition, offset));
                }
            }
            Op::Commit { count } => {
                let letter = self.disk.commit(count);
                self.hear(letter);
            }
            Op::Fail => {
                let letter = self.disk.fail(Code::LogFull);
                self.hear(letter);
            }
            Op::Drop { partition, records } => {
                let mut offsets = self.disk.records_of(partition).map(|(offset, _)| offset);
                if let Some(last) = offsets.nth(records) {
                    drop(offsets);
                    let letter = self.disk.drop_below(partition, last + 1);
                    self.hear(Some(letter));
                }
            }
            Op::Available(is_available) => self.hear(Some(DiskLetter::Available(is_available))),
        }
    }

    fn publish(&mut self, edge: usize, topic: &str, bytes: usize) {
        let (rule, partition) = self.settings.locate(topic);
        self.next_payload += 1;
        let request = self.next_payload;
        let mut payload = request.to_le_bytes().to_vec();
        payload.resize(bytes, 0);
        let publication = Publication {
            topic: slice(topic),
            attributes: Slice::empty(),
            payload: Slice::copy_of(&payload),
            ..Publication::default()
        };
        self.unanswered.insert(request, (partition, publication.clone()));
        self.edges[edge].requests.push_back(ToHome::Publish(Publish {
            partition,
            rule,
            reply: Some(Reply { connection: key(0), request }),
            publication,
        }));
    }

    fn subscribe(&mut self, edge: usize, topic: &'static str, start: &StartOp) {
        let (rule, partition) = self.settings.locate(topic);
        let head = self.model.head(partition);
        let since = |epoch, offset| Start::Since(Position { epoch, offset });
        let start = match *start {
            StartOp::Live => Start::Live,
            StartOp::Since { back } => since(EPOCH, head.saturating_sub(back)),
            StartOp::Zero => since(EPOCH, 0),
            StartOp::OtherEpoch => since(EPOCH + 1, 1),
            StartOp::Last(count) => Start::Last(count),
            StartOp::Snapshot => Start::Snapshot,
        };
        self.edges[edge].subscribe(rule, partition, topic, start, head);
    }

    fn handle_one(&mut self, edge: usize) {
        let Some(request) = self.edges[edge].requests.pop_front() else {
            return;
        };
        if !matches!(request, ToHome::Credit { .. }) {
            self.inflight[edge].0 += 1;
            self.inflight[edge].1 += u64::from(request.cost());
        }
        let (memory, out) = (&mut self.memory, &mut self.out);
        self.home.handle(START, EdgeId(edge as u16), request, memory, out);
        self.collect();
    }

    fn hear(&mut self, letter: Option<DiskLetter>) {
        if let Some(letter) = letter {
            let (memory, out) = (&mut self.memory, &mut self.out);
            self.home.disk(START, 0, letter, memory, out);
            self.collect();
        }
    }

    /// Takes what the home says: acknowledgements into the list, letters into the mailboxes,
    /// requests to the disk.
    fn collect(&mut self) {
        for edge in 0..EDGES {
            let letters = std::mem::take(&mut self.out.letters[edge]);
            for letter in &letters {
                self.look_at(edge, letter);
            }
            self.edges[edge].letters.extend(letters);
        }
        let requests = self.out.disk.iter_mut().flat_map(std::mem::take).collect();
        for letter in self.disk.take(requests) {
            self.hear(Some(letter));
        }
    }

    fn look_at(&mut self, edge: usize, letter: &ToEdge) {
        match letter {
            ToEdge::Published { reply, result } => {
                let (partition, publication) = self.unanswered.remove(&reply.request).unwrap();
                let Ok(appended) = result else {
                    return;
                };
                let offset = appended.position.offset;
                let mut on_disk = self.disk.records_of(partition);
                assert!(
                    offset < self.disk.floor(partition)
                        || on_disk.any(|(stored, _)| stored == offset),
                    "acknowledged and not on disk"
                );
                let published = Published {
                    topic: text(&publication.topic),
                    payload: publication.payload.to_vec(),
                };
                let before = self.model.records.insert((partition, offset), published);
                assert!(before.is_none(), "{offset} twice");
            }
            ToEdge::Granted(Grant { gap: Some(gap), .. })
                if gap.reason == GapReason::UnknownEpoch => {}
            ToEdge::Granted(Grant { subscription, gap: Some(gap), .. })
            | ToEdge::Page(Page { subscription, gap: Some(gap), .. }) => {
                let subscriptions = &self.edges[edge].subscriptions;
                let found = subscriptions.iter().find(|s| s.key == subscription.index);
                let Some((partition, topic)) = found.map(|found| (found.partition, found.topic))
                else {
                    return;
                };
                let floor = self.disk.floor(partition);
                let lost = self.model.between(partition, topic, gap.from, gap.to);
                let is_damaged = |offset: &u64| self.damaged.contains(&(partition, *offset));
                assert!(
                    lost.iter().all(|offset| *offset < floor || is_damaged(offset)),
                    "{gap:?} and the floor is {floor}"
                );
                self.gaps += u64::from(!lost.iter().any(is_damaged));
            }
            ToEdge::Consumed { requests, bytes, .. } => {
                self.inflight[edge].0 -= requests;
                self.inflight[edge].1 -= bytes;
            }
            _ => {}
        }
    }

    fn receive_one(&mut self, edge: usize) {
        if let Some(letter) = self.edges[edge].letters.pop_front() {
            self.edges[edge].owed += letter.cost();
            self.edges[edge].receive(letter, &self.model);
        }
    }

    /// Lets everything come to rest.
    fn settle(&mut self) {
        self.run(&Op::Available(true));
        for _ in 0..2_000 {
            for edge in 0..EDGES {
                self.run(&Op::Handle { edge, count: 50 });
                self.run(&Op::Receive { edge, count: 50 });
                self.run(&Op::Credit { edge });
            }
            self.run(&Op::Commit { count: 100 });
            self.run(&Op::Answer { nth: 0 });
            self.run(&Op::Pump);
            let is_quiet = self.edges.iter().all(Edge::is_quiet);
            let s = self.home.statistics();
            if is_quiet
                && (s.lagging_streams, s.staged, s.disk_reads_waiting) == (0, 0, 0)
                && s.pages_waiting == 0
            {
                return;
            }
        }
        panic!("does not come to rest: {:?}", self.home.statistics());
    }

    fn check_at_rest(&self) {
        self.edges.iter().for_each(|edge| edge.check_at_rest(&self.model));
        assert_eq!(self.inflight, [(0, 0); EDGES], "every request is consumed");
        assert!(self.unanswered.is_empty(), "every publication is answered");
    }

    /// The process ends and starts again: a history of everything has all that the disk has.
    fn restart(&mut self) {
        self.home = Home::new(self.settings.clone(), HomeId(0), (5, 6));
        self.memory = HeapMemory::new(900);
        self.out = HomeOutputs::new(EDGES as u16);
        self.disk.forget_requests();
        self.edges = (0..EDGES).map(|_| Edge::default()).collect();
        for partition in 0..PARTITIONS {
            let floor = self.disk.floor(PartitionId(partition));
            self.home.restore_floor(PartitionId(partition), floor);
            let records: Vec<_> = self.disk.records_of(PartitionId(partition)).collect();
            for (offset, (name, _)) in &records {
                let restored =
                    self.home.restore_topic(PartitionId(partition), name.as_bytes(), *offset);
                assert_eq!(restored, Ok(()));
            }
            let newest = records.len().saturating_sub(4);
            for (_, (name, record)) in &records[newest..] {
                let (memory, out) = (&mut self.memory, &mut self.out);
                let name = name.as_bytes();
                let restored =
                    self.home.restore_record(PartitionId(partition), name, record, memory, out);
                assert_eq!(restored, Ok(()));
            }
            let head = records.last().map_or(floor - 1, |(offset, _)| *offset);
            self.home.restore_head(PartitionId(partition), head);
        }
        for (topic, name) in TOPICS.iter().enumerate() {
            let (_, partition) = self.settings.locate(name);
            let start = StartOp::Since {
                back: self.model.head(partition) + 1 - self.disk.floor(partition).max(1),
            };
            let edge = topic % EDGES;
            self.run(&Op::Subscribe { edge, topic, start });
            self.publish(edge, name, 20);
        }
        let gaps = self.gaps;
        self.settle();
        self.check_at_rest();
        assert_eq!(self.gaps, gaps, "nothing has been lost by the start");
    }
}

fn start() -> impl Strategy<Value = StartOp> {
    prop_oneof![
        2 => Just(StartOp::Live),
        4 => (0u64..12).prop_map(|back| StartOp::Since { back }),
        3 => Just(StartOp::Zero),
        1 => Just(StartOp::OtherEpoch),
        2 => (0u32..8).prop_map(StartOp::Last),
        2 => Just(StartOp::Snapshot),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let edge = || 0..EDGES;
    let topic = || 0..TOPICS.len();
    prop_oneof![
        14 => (edge(), topic(), 4usize..PAYLOAD_BYTES_MAX)
            .prop_map(|(edge, topic, bytes)| Op::Publish { edge, topic, bytes }),
        4 => (edge(), topic(), start())
            .prop_map(|(edge, topic, start)| Op::Subscribe { edge, topic, start }),
        2 => (edge(), any::<usize>()).prop_map(|(edge, nth)| Op::Unsubscribe { edge, nth }),
        1 => (edge(), 0..FILTERS.len()).prop_map(|(edge, filter)| Op::AddFilter { edge, filter }),
        12 => (edge(), 1usize..6).prop_map(|(edge, count)| Op::Handle { edge, count }),
        10 => (edge(), 1usize..6).prop_map(|(edge, count)| Op::Receive { edge, count }),
        3 => edge().prop_map(|edge| Op::Credit { edge }),
        3 => Just(Op::Pump),
        8 => (0usize..3).prop_map(|nth| Op::Answer { nth }),
        1 => Just(Op::FailRead),
        1 => (0..PARTITIONS, 0usize..8).prop_map(|(partition, nth)| Op::Damage { partition: PartitionId(partition), nth }),
        8 => (1usize..6).prop_map(|count| Op::Commit { count }),
        1 => Just(Op::Fail),
        1 => (0..PARTITIONS, 0usize..4).prop_map(|(partition, records)| Op::Drop { partition: PartitionId(partition), records }),
        1 => prop::bool::weighted(0.7).prop_map(Op::Available),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_missing(ops in prop::collection::vec(op(), 0..250)) {
        let mut world = World::new();
        for op in &ops {
            world.run(op);
        }
        world.settle();
        world.check_at_rest();
        world.restart();
    }
}

/// The model must not be blind: its worlds do read from the disk, fail, and restart with records.
#[test]
fn the_disk_is_used() {
    let mut world = World::new();
    for round in 0..30 {
        let topic = round % TOPICS.len();
        world.run(&Op::Publish { edge: 0, topic, bytes: 60 });
    }
    world.settle();
    for topic in 0..TOPICS.len() {
        let start = StartOp::Zero;
        world.run(&Op::Subscribe { edge: 1, topic, start });
    }
    world.settle();
    world.check_at_rest();
    let statistics = world.home.statistics();
    assert!(statistics.disk_reads >= TOPICS.len() as u64);
    assert!(statistics.records < 30 && world.gaps == 0);
    let first = world.disk.records_of(PartitionId(0)).next().unwrap().1;
    assert!(RecordView::parse(&first.1).unwrap().offset() == 1);
    world.restart();
}
