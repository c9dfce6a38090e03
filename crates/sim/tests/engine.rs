//! The model of the engine by itself: what its tails bring after each fault.

use broker::engine::{
    EngineLetter, EnginePublish, EngineRequest, LineageStart, Restart, RunName, Tail,
};
use broker::mail::{PartitionId, Publication};
use sim::cluster::bug::Planted;
use sim::cluster::engine::{Engine, EngineFault, EngineSettings};
use sim::cluster::producer::ProducerFaults;
use sim::cluster::tail::TailSettings;
use stdx::chunk::Slice;
use stdx::prng::Prng;

const WINDOW_S: u64 = 2;
const PARTITION: PartitionId = PartitionId(0);

struct World {
    engine: Engine,
    /// The letters of each node.
    letters: Vec<Vec<EngineLetter>>,
    counter: u64,
}

impl World {
    fn new(change: impl FnOnce(&mut EngineSettings)) -> World {
        let tail = TailSettings {
            is_compacted: false,
            served: u64::MAX,
            window_s: WINDOW_S,
            primed_ms: 4_000,
            kept_ms: 0,
            delay_ms_max: 0,
            batch_max: 100,
        };
        let mut settings = EngineSettings {
            partitions: 1,
            window_s: WINDOW_S,
            skews_ms: [0; 3],
            tails: vec![tail; 3],
            credit: 1 << 20,
            producers: ProducerFaults::default(),
            letter_delay_ms_max: 0,
            waiting_max: 1_000,
            waiting_ms_max: 1_000,
            marker: 0.0,
        };
        change(&mut settings);
        let mut engine = Engine::new(settings, Prng::new(7), Planted::new(None, 7, 0));
        engine.unix_ms = 1_700_000_000_000;
        let mut world = World { engine, letters: vec![Vec::new(); 3], counter: 0 };
        for node in 0..2 {
            world.engine.start(node, 1, &[]);
        }
        world.pass(20);
        world
    }

    fn publish(&mut self, node: usize) -> u64 {
        self.counter += 1;
        let publication = Publication {
            topic: Slice::copy_of(b"t"),
            payload: Slice::copy_of(&self.counter.to_le_bytes()),
            ..Publication::default()
        };
        let name = RunName { run: node as u64, counter: self.counter };
        let publish = EnginePublish {
            partition: PARTITION,
            name,
            publication,
            restored: None,
            is_register: false,
        };
        self.engine.ask(node, 0, vec![EngineRequest::Publish(publish)]);
        self.counter
    }

    /// Time passes.
    fn pass(&mut self, ms: u64) {
        for _ in 0..ms {
            self.engine.now_ms += 1;
            self.engine.unix_ms += 1;
            self.engine.work();
            for (node, letters) in self.letters.iter_mut().enumerate() {
                self.engine.receive(node, 0, letters);
            }
        }
    }

    fn restarts(&self, node: usize) -> Vec<&Restart> {
        let restarts = self.letters[node].iter().filter_map(|letter| match letter {
            EngineLetter::Restart(restart) => Some(restart),
            _ => None,
        });
        restarts.collect()
    }

    /// Offsets and counters of all records since the last begin.
    fn records(&self, node: usize) -> Vec<(u64, u64)> {
        let is_restart = |letter: &EngineLetter| matches!(letter, EngineLetter::Restart(_));
        let since = self.letters[node].iter().rposition(is_restart).unwrap_or(0);
        let mut records = Vec::new();
        for letter in &self.letters[node][since..] {
            if let EngineLetter::Tail(tail) = letter {
                let named = |record: &broker::engine::TailRecord| {
                    (record.offset, record.name.map_or(0, |name| name.counter))
                };
                records.extend(tail.records.iter().map(named));
            }
        }
        records
    }

    fn last_tail(&self, node: usize) -> &Tail {
        let mut tails = self.letters[node].iter().filter_map(|letter| match letter {
            EngineLetter::Tail(tail) => Some(tail),
            _ => None,
        });
        tails.next_back().expect("a tail")
    }

    /// Replica 2 falls behind by two records; then it leads, and they are lost.
    fn lose_two(&mut self) {
        self.publish(0);
        self.pass(20);
        self.engine.suffer(EngineFault::Stop(0, 2));
        self.publish(0);
        self.publish(1);
        self.pass(20);
        self.engine.suffer(EngineFault::Stop(0, 0));
        self.engine.suffer(EngineFault::Stop(0, 1));
        self.pass(5);
        self.engine.suffer(EngineFault::ElectUnclean(0, 2));
        self.engine.suffer(EngineFault::Resume(0, 0));
        self.engine.suffer(EngineFault::Resume(0, 1));
        self.pass(20);
    }
}

#[test]
fn all_nodes_read_one_order() {
    let mut world = World::new(|_| {});
    for _ in 0..10 {
        world.publish(0);
        world.publish(1);
    }
    world.pass(50);
    let records = world.records(0);
    assert_eq!(records.len(), 20);
    assert_eq!(records, world.records(1));
}

#[test]
fn a_clean_election_loses_nothing_and_restarts_no_tail() {
    let mut world = World::new(|_| {});
    for _ in 0..20 {
        world.publish(0);
        world.engine.suffer(EngineFault::Elect(0));
        world.pass(3);
    }
    world.pass(50);
    let counters: std::collections::BTreeSet<u64> =
        world.records(1).iter().map(|(_, counter)| *counter).collect();
    assert_eq!(counters.len(), 20);
    assert_eq!(world.restarts(1).len(), 1);
    assert!(world.last_tail(1).records.last().is_some_and(|record| record.lineage > 0));
}

#[test]
fn an_unclean_election_restarts_only_tails_that_read_the_lost_records() {
    let mut world = World::new(|_| {});
    let until_ms = world.engine.now_ms + 150;
    world.publish(0);
    world.pass(20);
    world.engine.suffer(EngineFault::Away(1, until_ms));
    world.lose_two();
    world.pass(200);
    assert_eq!(world.restarts(0).len(), 2);
    assert_eq!(world.restarts(1).len(), 1);
    assert_eq!(world.records(0), world.records(1));
    let chain = &world.restarts(0)[1].lineages;
    // The lineage of the first record; records tell the later ones.
    assert_eq!(*chain, [LineageStart { lineage: 0, start: 1 }]);
    world.publish(0);
    world.pass(50);
    assert!(world.last_tail(0).records.last().is_some_and(|record| record.lineage > 0));
}

#[test]
fn a_replaced_topic_restarts_all_tails() {
    let mut world = World::new(|_| {});
    world.publish(0);
    world.pass(20);
    world.engine.suffer(EngineFault::Recreate);
    world.publish(1);
    world.pass(20);
    for node in 0..2 {
        let restarts = world.restarts(node);
        assert_eq!(restarts.len(), 2);
        assert_ne!(restarts[0].topic_id, restarts[1].topic_id);
        assert_eq!(world.records(node), [(1, 2)]);
    }
}

#[test]
fn retention_restarts_a_tail_that_it_overtakes() {
    let mut world = World::new(|_| {});
    let until_ms = world.engine.now_ms + 100;
    world.engine.suffer(EngineFault::Away(1, until_ms));
    for _ in 0..10 {
        world.publish(0);
    }
    world.pass(20);
    world.engine.suffer(EngineFault::Expire(0, 4));
    world.pass(120);
    assert_eq!(world.restarts(0).len(), 1);
    assert_eq!(world.restarts(1).len(), 2);
    assert_eq!(world.restarts(1)[1].after, 6);
}

#[test]
fn holes_are_settled_without_a_record() {
    let mut world = World::new(|settings| settings.marker = 1.0);
    world.publish(0);
    world.pass(20);
    let tail = world.last_tail(1);
    assert_eq!((tail.through, world.records(1)), (2, vec![(1, 1)]));
}

#[test]
fn an_open_transaction_stops_all_tails_until_its_end() {
    let mut world = World::new(|_| {});
    let publication = Publication { topic: Slice::copy_of(b"t"), ..Publication::default() };
    assert!(world.engine.publish_in_transaction(0, publication));
    world.publish(0);
    world.pass(50);
    assert!(world.records(0).is_empty());
    world.engine.suffer(EngineFault::Close(0, false));
    world.pass(50);
    assert_eq!(world.records(0), [(2, 1)]);
}

#[test]
fn an_outage_refuses_what_waits_for_too_long() {
    let mut world = World::new(|_| {});
    world.engine.suffer(EngineFault::LoseLeader(0));
    world.publish(0);
    world.pass(1_100);
    let refused = |letter: &EngineLetter| matches!(letter, EngineLetter::Refused { .. });
    assert!(world.letters[0].iter().any(refused));
    world.engine.suffer(EngineFault::Elect(0));
    world.pass(50);
    assert!(world.records(0).is_empty());
}

#[test]
fn copies_are_recognised_whatever_their_delay() {
    let mut world = World::new(|settings| {
        settings.producers =
            ProducerFaults { again: 0.3, stray: 0.5, stray_ms_max: 1_500, ..settings.producers };
    });
    for _ in 0..30 {
        world.publish(0);
        world.pass(10);
    }
    world.pass(2_000);
    let life = world.engine.partitions[0].life();
    let delivered = life.entries().iter().filter(|entry| entry.delivered().is_some()).count();
    assert!(life.entries().len() > 40, "{}", life.entries().len());
    assert_eq!(delivered, 30);
}

#[test]
fn a_node_that_begins_late_is_primed_before_what_it_serves() {
    let mut world = World::new(|settings| settings.tails[2].served = 5);
    for _ in 0..100 {
        world.publish(0);
        world.pass(100);
    }
    world.engine.start(2, 1, &[]);
    world.pass(20);
    let restart = world.restarts(2)[0];
    assert_eq!(restart.primed_through, restart.head - 5);
    let primed = restart.primed_through - restart.after;
    assert!((40..60).contains(&primed), "{restart:?}");
}
