//! Random requests, delays, evictions and shortages of credit on a small home, against a list per
//! partition.
//!
//! Two simulated edges follow the contract of `broker::mail`. Every subscription must see a gapless
//! run of its topic, or a run with announced gaps; an announced gap must cover only what the log
//! has no more; and when all is quiet again, every subscription has come to the end.

mod home_model_edge;
#[path = "home/support/mod.rs"]
mod support;

use broker::home::{Home, HomeOutputs};
use broker::mail::*;
use broker::now::Now;
use broker::position::Position;
use broker::settings::{Limits, Settings};
use home_model_edge::{Edge, Published, key, slice, text};
use log::{HeapMemory, RecordView};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use stdx::chunk::Slice;
use support::{EPOCH, START, Setup};

const TOPICS: [&str; 6] = ["a", "b", "a/x", "a/y", "b/x", "$s"];
const FILTERS: [&str; 5] = ["#", "a/#", "+/x", "$s/#", "+"];
const EDGES: usize = 2;
/// An edge that only looks.
const INSPECTOR: EdgeId = EdgeId(EDGES as u16);
const CREDIT: u32 = 400;
const PAYLOAD_BYTES_MAX: usize = 120;

#[derive(Clone, Debug)]
enum Op {
    Publish { edge: usize, topic: usize, bytes: usize, retain: bool },
    Subscribe { edge: usize, topic: usize, start: StartOp },
    Unsubscribe { edge: usize, nth: usize },
    AddFilter { edge: usize, filter: usize },
    RemoveFilter { edge: usize, filter: usize },
    // The home takes requests of an edge.
    Handle { edge: usize, count: usize },
    // An edge takes letters.
    Receive { edge: usize, count: usize },
    Credit { edge: usize },
    Pump,
    Time { step_ms: u64 },
    // The wall clock alone.
    Clock { step_ms: i64 },
}

#[derive(Clone, Debug)]
enum StartOp {
    Live,
    Since { back: u64 },
    OtherEpoch,
    Beyond,
    Last(u32),
    Snapshot,
}

/// Everything ever appended: per partition, by offset from 1.
#[derive(Default)]
struct Model {
    partitions: BTreeMap<PartitionId, Vec<Published>>,
}

impl Model {
    /// Offsets of the topic's records in (after, through].
    fn between(&self, partition: PartitionId, topic: &str, after: u64, through: u64) -> Vec<u64> {
        let records = self.partitions.get(&partition).map_or(&[][..], Vec::as_slice);
        (1..)
            .zip(records)
            .filter(|(offset, record)| {
                after < *offset && *offset <= through && record.topic == topic
            })
            .map(|(offset, _)| offset)
            .collect()
    }

    fn record(&self, partition: PartitionId, offset: u64) -> &Published {
        &self.partitions[&partition][offset as usize - 1]
    }

    fn head(&self, partition: PartitionId) -> u64 {
        self.partitions.get(&partition).map_or(0, |records| records.len() as u64)
    }
}

struct World {
    settings: Arc<Settings>,
    home: Home,
    memory: HeapMemory,
    out: HomeOutputs,
    now: Now,
    model: Model,
    edges: Vec<Edge>,
    next_payload: u32,
}

impl World {
    fn new() -> World {
        let setup = Setup {
            edges: EDGES as u16 + 1,
            partitions: 2,
            segment_bytes: 400,
            log_bytes_max: 2400,
            retained_bytes_max: 400,
            memory_bytes: 2800,
            limits: Limits { topics_max: 5, stream_credit_bytes: CREDIT, ..Limits::default() },
            ..Setup::default()
        };
        let settings = setup.settings();
        World {
            home: Home::new(settings.clone(), HomeId(0), (3, 4)),
            settings,
            memory: HeapMemory::new(setup.memory_bytes),
            out: HomeOutputs::new(setup.edges),
            now: START,
            model: Model::default(),
            edges: (0..EDGES).map(|_| Edge::default()).collect(),
            next_payload: 0,
        }
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Publish { edge, topic, bytes, retain } => {
                let (rule, partition) = self.settings.locate(TOPICS[topic]);
                self.next_payload += 1;
                let mut payload = self.next_payload.to_le_bytes().to_vec();
                payload.resize(bytes, 0);
                let publication = Publication {
                    topic: slice(TOPICS[topic]),
                    attributes: Slice::empty(),
                    payload: Slice::copy_of(&payload),
                    retain,
                    ..Publication::default()
                };
                let reply = Some(Reply { connection: key(0), request: self.next_payload });
                let publish = ToHome::Publish(Publish { partition, rule, reply, publication });
                self.edges[edge].requests.push_back(publish);
            }
            Op::Subscribe { edge, topic, ref start } => self.subscribe(edge, TOPICS[topic], start),
            Op::Unsubscribe { edge, nth } => self.edges[edge].unsubscribe(nth),
            Op::AddFilter { edge, filter } => self.edges[edge].add_filter(filter),
            Op::RemoveFilter { edge, filter } => {
                let edge = &mut self.edges[edge];
                if edge.filters.remove(&filter) {
                    edge.asked.remove(&filter);
                    edge.granted.remove(&filter);
                    edge.filtered.clear();
                    let filter = slice(FILTERS[filter]);
                    edge.requests.push_back(ToHome::RemoveFilter { filter });
                }
            }
            Op::Handle { edge, count } => (0..count).for_each(|_| self.handle_one(edge)),
            Op::Receive { edge, count } => (0..count).for_each(|_| self.receive_one(edge)),
            Op::Credit { edge } => self.edges[edge].credit(),
            Op::Pump => {
                self.home.pump(self.now, &mut self.memory, &mut self.out);
                self.collect();
            }
            Op::Time { step_ms } => {
                self.now.monotonic_ms += step_ms;
                self.now.unix_ms += step_ms;
            }
            Op::Clock { step_ms } => {
                self.now.unix_ms = self.now.unix_ms.saturating_add_signed(step_ms);
            }
        }
    }

    fn subscribe(&mut self, edge: usize, topic: &'static str, start: &StartOp) {
        let (rule, partition) = self.settings.locate(topic);
        let head = self.model.head(partition);
        let start = match *start {
            StartOp::Live => Start::Live,
            StartOp::Since { back } => {
                Start::Since(Position { epoch: EPOCH, offset: head.saturating_sub(back) })
            }
            StartOp::OtherEpoch => Start::Since(Position { epoch: EPOCH + 1, offset: 1 }),
            // Requests wait: only an offset far away is surely beyond the head.
            StartOp::Beyond => Start::Since(Position { epoch: EPOCH, offset: head + 10_000 }),
            StartOp::Last(count) => Start::Last(count),
            StartOp::Snapshot => Start::Snapshot,
        };
        self.edges[edge].subscribe(rule, partition, topic, start, head);
    }

    fn handle_one(&mut self, edge: usize) {
        let Some(request) = self.edges[edge].requests.pop_front() else {
            return;
        };
        let published = match &request {
            ToHome::Publish(Publish { partition, publication, .. }) => {
                Some((*partition, publication.clone()))
            }
            _ => None,
        };
        self.home.handle(self.now, EdgeId(edge as u16), request, &mut self.memory, &mut self.out);
        if let Some((partition, publication)) = published {
            let appended = self.out.letters[edge].iter().find_map(|letter| match letter {
                ToEdge::Published { result: Ok(appended), .. } => Some(appended.position),
                _ => None,
            });
            if let Some(position) = appended {
                let records = self.model.partitions.entry(partition).or_default();
                records.push(Published {
                    topic: text(&publication.topic),
                    payload: publication.payload.to_vec(),
                });
                let offset = records.len() as u64;
                assert_eq!(position, Position { epoch: EPOCH, offset });
            }
        }
        self.collect();
    }

    /// Takes the home's letters into the mailboxes, and holds every gap against what the log has at
    /// this moment.
    fn collect(&mut self) {
        for edge in 0..EDGES {
            for letter in std::mem::take(&mut self.out.letters[edge]) {
                match &letter {
                    ToEdge::Granted(Grant { subscription, gap: Some(gap), .. })
                    | ToEdge::Page(Page { subscription, gap: Some(gap), .. }) => {
                        self.check_gap(edge, subscription.index, *gap);
                    }
                    _ => {}
                }
                self.edges[edge].letters.push_back(letter);
            }
            let live: u32 = self.edges[edge].letters.iter().map(ToEdge::cost).sum();
            let letter_max = 3 * LETTER_BYTES + (PAYLOAD_BYTES_MAX + 64) as u32;
            assert!(live <= CREDIT + letter_max, "{live} bytes on their way");
        }
    }

    fn check_gap(&mut self, edge: usize, subscription: u32, gap: Gap) {
        let subscriptions = &self.edges[edge].subscriptions;
        let Some(found) = subscriptions.iter().find(|s| s.key == subscription) else {
            return;
        };
        let (rule, partition) = self.settings.locate(found.topic);
        let topic = found.topic;
        let request = ToHome::History(ReadHistory {
            partition,
            rule,
            topic: slice(topic),
            reply: Reply { connection: key(0), request: 0 },
            beyond: None,
            reverse: false,
            limits: PageLimits { records_max: 1, bytes_max: 0 },
        });
        self.home.handle(self.now, INSPECTOR, request, &mut self.memory, &mut self.out);
        // The turn's budget of pages may be spent; a later turn answers.
        while self.out.letters[usize::from(INSPECTOR)].is_empty() {
            self.home.pump(self.now, &mut self.memory, &mut self.out);
        }
        let letters = std::mem::take(&mut self.out.letters[usize::from(INSPECTOR)]);
        let Some(ToEdge::History { result: Ok(page), .. }) = letters.last() else {
            panic!("{letters:?}")
        };
        if let Some(oldest) = page.records.first() {
            let oldest = RecordView::parse(oldest).unwrap().offset();
            assert!(gap.to < oldest, "{topic}: {gap:?} covers {oldest}, which is there");
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
        for _ in 0..400 {
            for edge in 0..EDGES {
                self.run(&Op::Handle { edge, count: 50 });
                self.run(&Op::Receive { edge, count: 50 });
                self.run(&Op::Credit { edge });
            }
            self.run(&Op::Pump);
            let is_quiet = self.edges.iter().all(Edge::is_quiet);
            if is_quiet && self.home.statistics().lagging_streams == 0 {
                return;
            }
        }
        panic!("does not come to rest: {:?}", self.home.statistics());
    }

    fn check_at_rest(&self) {
        self.edges.iter().for_each(|edge| edge.check_at_rest(&self.model));
        let indexes: usize = self.edges.iter().map(|edge| edge.indexes.len()).sum();
        let statistics = self.home.statistics();
        assert!(indexes as u64 <= statistics.indexes, "{indexes} known of {}", statistics.indexes);
        assert!(statistics.topics <= 5 && statistics.log_bytes <= 2400, "{statistics:?}");
        assert!(statistics.retained_bytes <= 400);
    }

    /// Ends all subscriptions and lets everything expire: only retained messages may be left.
    fn leave(&mut self) {
        for edge in 0..EDGES {
            while !self.edges[edge].subscriptions.is_empty() {
                self.edges[edge].unsubscribe(0);
            }
            (0..FILTERS.len()).for_each(|filter| self.run(&Op::RemoveFilter { edge, filter }));
        }
        self.settle();
        self.run(&Op::Time { step_ms: 5_000 });
        while self.home.pump(self.now, &mut self.memory, &mut self.out) {}
        self.collect();
        self.settle();
        let statistics = self.home.statistics();
        assert_eq!((statistics.records, statistics.filters), (0, 0));
        assert_eq!(statistics.topics, statistics.retained);
        let indexes: usize = self.edges.iter().map(|edge| edge.indexes.len()).sum();
        assert!(
            indexes as u64 <= statistics.indexes && statistics.indexes <= 2 * statistics.topics
        );
        assert_eq!((self.memory.bytes(), self.home.next_deadline_ms()), (0, None));
    }
}

fn start() -> impl Strategy<Value = StartOp> {
    prop_oneof![
        2 => Just(StartOp::Live),
        4 => (0u64..12).prop_map(|back| StartOp::Since { back }),
        1 => Just(StartOp::OtherEpoch),
        1 => Just(StartOp::Beyond),
        2 => (0u32..4).prop_map(StartOp::Last),
        2 => Just(StartOp::Snapshot),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let edge = || 0..EDGES;
    let topic = || 0..TOPICS.len();
    let filter = || 0..FILTERS.len();
    prop_oneof![
        12 => (edge(), topic(), 4usize..PAYLOAD_BYTES_MAX, prop::bool::weighted(0.1))
            .prop_map(|(edge, topic, bytes, retain)| Op::Publish { edge, topic, bytes, retain }),
        4 => (edge(), topic(), start())
            .prop_map(|(edge, topic, start)| Op::Subscribe { edge, topic, start }),
        3 => (edge(), any::<usize>()).prop_map(|(edge, nth)| Op::Unsubscribe { edge, nth }),
        1 => (edge(), filter()).prop_map(|(edge, filter)| Op::AddFilter { edge, filter }),
        1 => (edge(), filter()).prop_map(|(edge, filter)| Op::RemoveFilter { edge, filter }),
        12 => (edge(), 1usize..6).prop_map(|(edge, count)| Op::Handle { edge, count }),
        10 => (edge(), 1usize..6).prop_map(|(edge, count)| Op::Receive { edge, count }),
        3 => edge().prop_map(|edge| Op::Credit { edge }),
        3 => Just(Op::Pump),
        2 => prop_oneof![Just(300u64), Just(1100)].prop_map(|step_ms| Op::Time { step_ms }),
        1 => prop_oneof![Just(-5000i64), Just(5000)].prop_map(|step_ms| Op::Clock { step_ms }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_subscription_sees_a_gapless_run_or_is_told(ops in prop::collection::vec(op(), 0..250)) {
        let mut world = World::new();
        for op in &ops {
            world.run(op);
        }
        world.settle();
        world.check_at_rest();
        world.leave();
    }
}
