//! A node of a test: an engine, with a home that keeps its letters.

use broker::engine::{
    EngineLetter, EnginePublish, EngineRequest, Restart, RunName, Tail, TailRecord,
};
use broker::mail::{HomeId, PartitionId, Publication};
use brokers::Kafka;
use engine::{
    Engine, EngineLog, EnginePartition, EngineSettings, EngineStatistics, LogLines, Severity, admin,
};
use kafka::{Client, Event, Kind, NewTopic, PartitionDescription};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use stdx::chunk::Slice;
use stdx::hash::Partitioner;

/// The maximum time of anything that a test waits for.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// The brokers, and a topic of its own for each test.
pub struct World {
    pub kafka: Kafka,
    pub topic: String,
}

/// A node.
pub struct Node {
    pub engine: Engine,
    run: u64,
    letters: Arc<Letters>,
}

struct Letters {
    all: Mutex<Vec<(HomeId, EngineLetter)>>,
    arrived: Condvar,
}

impl World {
    pub fn new(kafka: Kafka) -> World {
        World { kafka, topic: String::new() }
    }

    /// A test begins.
    pub fn begin(&mut self, name: &str) {
        self.topic = name.to_owned();
    }

    /// Restarts the brokers that a test has left down.
    pub fn mend(&mut self) {
        for number in 1..=3 {
            if self.kafka.is_running(number) {
                self.kafka.go_on(number).expect("the broker continues");
            } else {
                self.kafka.restart(number).expect("the broker starts");
            }
        }
    }

    /// Settings with one log in the test's topic, all of it in home 0.
    pub fn settings(&self, partitions: u32) -> EngineSettings {
        let partition = |id| EnginePartition {
            id: PartitionId(id),
            home: HomeId(0),
            resume: None,
            mirrored: None,
        };
        let log = EngineLog {
            topic: self.topic.clone(),
            topic_prefix: "t/".to_owned(),
            partitioner: Partitioner::Murmur2,
            foreign: Default::default(),
            age_ms: None,
            bytes: None,
            is_compacted: false,
            once_ms: 300_000,
            partitions: (0..partitions).map(partition).collect(),
        };
        let is_verbose = std::env::var_os("CRORE_VERBOSE").is_some();
        let begin = Instant::now();
        let log_line = move |severity: Severity, line: &str| {
            if is_verbose {
                println!("  {:.1} {severity:?} {line}", begin.elapsed().as_secs_f64());
            }
        };
        EngineSettings {
            logs: vec![log],
            log: LogLines(Arc::new(log_line)),
            ..EngineSettings::new(&self.kafka.bootstrap())
        }
    }

    /// Creates the test's topic, with three copies unless `options` say otherwise.
    pub fn create(&self, partitions: u32, replicas: i32, options: &[(&str, &str)]) {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let topic = NewTopic {
            name: self.topic.clone(),
            partitions: partitions.cast_signed(),
            replicas,
            options: options.iter().map(own).collect(),
        };
        let end = Instant::now() + PATIENCE;
        while let Err(error) =
            admin::create_topics(&self.settings(1), std::slice::from_ref(&topic), PATIENCE)
        {
            assert!(Instant::now() < end, "{error}");
        }
        self.wait_for_partitions("a leader and all copies", |all| {
            all.len() == partitions as usize
                && all.iter().all(|it| it.leader.is_some() && it.in_sync.len() == it.replicas.len())
        });
    }

    /// The brokers' description of the test's topic, as soon as it fits.
    pub fn wait_for_partitions(
        &self,
        expected: &str,
        fits: impl Fn(&[PartitionDescription]) -> bool,
    ) -> Vec<PartitionDescription> {
        // A question goes to the controller, which the client takes from its last metadata.
        let interval = ("topic.metadata.refresh.interval.ms".to_owned(), "500".to_owned());
        let properties = [("bootstrap.servers".to_owned(), self.kafka.bootstrap()), interval];
        let client = Client::new(Kind::Producer, &properties).expect("a client");
        let queue = client.new_queue();
        let end = Instant::now() + PATIENCE;
        loop {
            client.describe_topics(&[&self.topic], 5_000, 0, &queue);
            let found = match queue.poll(10_000) {
                Some(Event::Topics { answer: Ok(mut topics), .. }) => {
                    topics.pop().map(|topic| topic.partitions).unwrap_or_default()
                }
                other => {
                    println!("  the brokers describe nothing: {other:?}");
                    Vec::new()
                }
            };
            if fits(&found) {
                return found;
            }
            assert!(Instant::now() < end, "no {expected}: {found:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The broker that leads a partition.
    pub fn leader(&self, partition: usize) -> u16 {
        let all = self.wait_for_partitions("leader", |all| {
            all.get(partition).is_some_and(|it| it.leader.is_some())
        });
        all[partition].leader.and_then(|leader| u16::try_from(leader).ok()).expect("a leader")
    }

    /// A client of another producer.
    pub fn producer(&self, properties: &[(&str, &str)]) -> Client {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let mut all = vec![("bootstrap.servers".to_owned(), self.kafka.bootstrap())];
        all.extend(properties.iter().map(own));
        Client::new(Kind::Producer, &all).expect("a producer")
    }
}

impl Node {
    pub fn start(settings: EngineSettings, run: u64) -> Node {
        let letters = Arc::new(Letters { all: Mutex::default(), arrived: Condvar::new() });
        let sink = letters.clone();
        let post = move |home, letter| {
            sink.all.lock().expect("no panic").push((home, letter));
            sink.arrived.notify_all();
        };
        let engine = Engine::start(settings, post).expect("an engine");
        Node { engine, run, letters }
    }

    /// Waits until the letters fit.
    pub fn wait_for<T>(
        &self,
        expected: &str,
        fits: impl Fn(&[(HomeId, EngineLetter)]) -> Option<T>,
    ) -> T {
        let end = Instant::now() + PATIENCE;
        let mut letters = self.letters.all.lock().expect("no panic");
        loop {
            if let Some(found) = fits(&letters) {
                return found;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let others = letters.iter().filter(|(_, it)| !matches!(it, EngineLetter::Tail(_)));
                let others: Vec<_> = others.collect();
                let count = letters.len() - others.len();
                let statistics = self.engine.statistics();
                let tails = self.engine.tails();
                panic!("no {expected}: {count} tails, {others:?} {statistics:?} {tails:?}");
            }
            letters = self.letters.arrived.wait_timeout(letters, left).expect("no panic").0;
        }
    }

    pub fn letters(&self) -> Vec<(HomeId, EngineLetter)> {
        self.letters.all.lock().expect("no panic").clone()
    }

    /// Waits until so many partitions take publications.
    pub fn wait_until_available(&self, partitions: u32) {
        self.wait_for("available partitions", |letters| {
            let available = (0..partitions).filter(|id| is_available(letters, PartitionId(*id)));
            (available.count() == partitions as usize).then_some(())
        });
    }

    pub fn publish(&self, partition: u32, counter: u64, key: &str, payload: &str) {
        let publication = Publication {
            topic: Slice::copy_of(format!("t/{key}").as_bytes()),
            attributes: Slice::default(),
            payload: Slice::copy_of(payload.as_bytes()),
            qos: None,
            is_said_text: false,
            further: Slice::default(),
            retain: false,
            producer: None,
            idempotency_key: Slice::default(),
            expected_epoch: None,
        };
        let name = RunName { run: self.run, counter };
        let partition = PartitionId(partition);
        let publish =
            EnginePublish { partition, name, publication, restored: None, is_register: false };
        self.engine.ask(HomeId(0), EngineRequest::Publish(publish));
    }

    pub fn give_credit(&self, home: u16, bytes: u32) {
        self.engine.ask(HomeId(home), EngineRequest::Credit { bytes });
    }

    /// All records so far.
    pub fn records(&self) -> Vec<TailRecord> {
        records(&self.letters())
    }

    /// Waits for so many records, and returns all.
    pub fn wait_for_records(&self, count: usize) -> Vec<TailRecord> {
        self.wait_for(&format!("{count} records"), |letters| {
            let records = records(letters);
            (records.len() >= count).then_some(records)
        })
    }

    /// Waits for so many beginnings, and returns all.
    pub fn wait_for_restarts(&self, count: usize) -> Vec<Restart> {
        self.wait_for(&format!("{count} beginnings"), |letters| {
            let restarts = restarts(letters);
            (restarts.len() >= count).then_some(restarts)
        })
    }

    /// Waits until the counts fit.
    pub fn wait_for_counts(&self, expected: &str, fits: impl Fn(&EngineStatistics) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !fits(&self.engine.statistics()) {
            assert!(Instant::now() < end, "no {expected}: {:?}", self.engine.statistics());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn refused(&self) -> Vec<u64> {
        let letters = self.letters();
        let refused = letters.iter().filter_map(|(_, letter)| match letter {
            EngineLetter::Refused { counters, .. } => Some(counters.clone()),
            _ => None,
        });
        refused.flatten().collect()
    }
}

pub fn tails(letters: &[(HomeId, EngineLetter)]) -> impl Iterator<Item = &Tail> {
    letters.iter().filter_map(|(_, letter)| match letter {
        EngineLetter::Tail(tail) => Some(tail),
        _ => None,
    })
}

pub fn records(letters: &[(HomeId, EngineLetter)]) -> Vec<TailRecord> {
    tails(letters).flat_map(|tail| tail.records.clone()).collect()
}

pub fn restarts(letters: &[(HomeId, EngineLetter)]) -> Vec<Restart> {
    let restarts = letters.iter().filter_map(|(_, letter)| match letter {
        EngineLetter::Restart(restart) => Some(restart.clone()),
        _ => None,
    });
    restarts.collect()
}

fn is_available(letters: &[(HomeId, EngineLetter)], id: PartitionId) -> bool {
    let last = letters.iter().rev().find_map(|(_, letter)| match letter {
        EngineLetter::Available { partition, is_available } if *partition == id => {
            Some(*is_available)
        }
        _ => None,
    });
    last == Some(true)
}

/// Letters about one partition keep the promises of `broker::engine`.
pub fn check_letters(letters: &[(HomeId, EngineLetter)]) {
    let mut through = std::collections::HashMap::new();
    for (_, letter) in letters {
        match letter {
            EngineLetter::Restart(restart) => {
                assert!(restart.after <= restart.primed_through, "{restart:?}");
                assert!(restart.primed_through <= restart.head, "{restart:?}");
                through.insert(restart.partition, (restart.after, 0));
            }
            EngineLetter::Tail(tail) => {
                let (last, lineage) = through.get_mut(&tail.partition).expect("a beginning");
                for record in &tail.records {
                    assert!(record.offset > *last, "{} after {last}", record.offset);
                    assert!(record.lineage >= *lineage, "the lineage falls");
                    (*last, *lineage) = (record.offset, record.lineage);
                }
                assert!(tail.through >= *last, "through {} after {last}", tail.through);
                *last = tail.through;
            }
            EngineLetter::Refused { .. } | EngineLetter::Available { .. } => {}
        }
    }
}

/// A key that belongs into a partition.
pub fn key_of(partition: u32, count: u32, partitioner: Partitioner) -> String {
    let keys = (0..).map(|number| format!("k{number}"));
    let mut fitting =
        keys.filter(|key| partitioner.partition_of(key.as_bytes(), count) == partition);
    fitting.next().expect("a key")
}
