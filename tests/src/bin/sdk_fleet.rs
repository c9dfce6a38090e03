//! Clients of every SDK against one node that is killed, cut off, drained, upgraded, made to evict
//! and restored from a backup: no message is lost without a gap, none comes twice, publications
//! with `once` are in the log exactly once (`tests/src/fleet/README.md`).
//!
//! `sdk_fleet --clients N --seeds N,N --rounds N NAME=COMMAND...`: the commands start the drivers.
//! Each run has one node and N clients of each driver. The last line is `N passed, N failed`.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use end_to_end::fleet::driver::{self, Driver};
use end_to_end::fleet::ledger::Ledger;
use end_to_end::fleet::link::Link;
use end_to_end::fleet::node::Node;
use end_to_end::fleet::oracle::{OWN, Oracle};
use end_to_end::fleet::plan;
use end_to_end::fleet::plant::{PLANTS, Plant};
use end_to_end::fleet::random::Random;
use end_to_end::fleet::record::{END, Fleet, Record, State};
use end_to_end::tools;

/// The deadline of everything that a round waits for: a publication with `once` may wait for 60 s.
const ROUND: Duration = Duration::from_secs(180);
/// The time for a message to everybody; then comes another one.
const BEGIN: Duration = Duration::from_secs(1);
/// Publications of each publisher in a round.
const CALLS: u64 = 6;
/// Messages that make the slow readers' log drop what they have not read: more than a reader's
/// buffer and the log together.
const FLOOD: usize = 9_000;
/// The end of the names of fleets whose process is killed.
const KILLED: &str = "-killed";
/// Shown faults of one run.
const SHOWN_MAX: usize = 40;

/// A fault of the node or of connections, in the middle of publications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Reset,
    Swallow,
    Kill,
    Drain,
    Upgrade,
    Evict,
    Restore,
    Restart,
}

/// A kill comes first, because a restore needs a backup; then connections become black holes,
/// because their clients need the most time.
const FIRST: [Fault; 2] = [Fault::Kill, Fault::Swallow];
/// The others of the first rounds, in any order.
const OTHERS: [Fault; 6] =
    [Fault::Reset, Fault::Upgrade, Fault::Drain, Fault::Evict, Fault::Restore, Fault::Restart];

struct Arguments {
    clients: usize,
    seeds: Vec<u64>,
    rounds: usize,
    drivers: Vec<(String, String)>,
}

fn main() -> ExitCode {
    let Some(arguments) = arguments(&env::args().skip(1).collect::<Vec<_>>()) else {
        eprintln!("usage: sdk_fleet [--clients N] [--seeds N,N] [--rounds N] NAME=COMMAND...");
        return ExitCode::from(2);
    };
    let (mut passed, mut failed) = (0, 0);
    for &seed in &arguments.seeds {
        let start = Instant::now();
        let verdict = catch_unwind(AssertUnwindSafe(|| run(&arguments, seed)));
        let faults = match verdict {
            Ok((faults, checks)) => {
                passed += checks;
                faults
            }
            Err(_) => vec!["the harness panicked".to_owned()],
        };
        failed += faults.len();
        faults.iter().take(SHOWN_MAX).for_each(|fault| println!("  {fault}"));
        let word = if faults.is_empty() { "ok" } else { "FAILED" };
        println!("seed {seed} ... {word} in {:.1} s", start.elapsed().as_secs_f64());
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn arguments(words: &[String]) -> Option<Arguments> {
    let mut found = Arguments {
        clients: 20,
        seeds: vec![1],
        rounds: FIRST.len() + OTHERS.len(),
        drivers: Vec::new(),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--clients" => found.clients = words.next()?.parse().ok()?,
            "--rounds" => found.rounds = words.next()?.parse().ok()?,
            "--seeds" => {
                let seeds = words.next()?.split(',').map(|seed| seed.parse().ok());
                found.seeds = seeds.collect::<Option<Vec<u64>>>()?;
            }
            driver => {
                let (name, command) = driver.split_once('=')?;
                found.drivers.push((name.to_owned(), command.to_owned()));
            }
        }
    }
    (!found.drivers.is_empty()).then_some(found)
}

/// One run; returns the faults and the number of successful checks.
fn run(arguments: &Arguments, seed: u64) -> (Vec<String>, usize) {
    let mut random = Random(seed);
    let folder = tools::reports("sdk-fleet").join(seed.to_string());
    // It may not be there yet.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the target folder is writable");
    let mut fleet = Running::begin(arguments, &folder, &mut random);
    for fault in schedule(arguments.rounds, &mut random) {
        if fleet.is_good() {
            fleet.round(fault, &mut random);
        }
    }
    fleet.settle();
    fleet.verdict()
}

/// Each fault once before any comes twice.
fn schedule(rounds: usize, random: &mut Random) -> Vec<Fault> {
    let mut faults = Vec::new();
    while faults.len() < rounds {
        let mut others = OTHERS.to_vec();
        random.shuffle(&mut others);
        faults.extend(FIRST.into_iter().chain(others));
    }
    faults.truncate(rounds);
    faults
}

fn all_topics() -> Vec<String> {
    [plan::kept_topics(), plan::short_topics()].concat()
}

/// A node, the link to it, and the drivers.
struct Running {
    node: Node,
    link: Link,
    record: Record,
    drivers: Vec<Driver>,
    /// The drivers of publishers whose process is killed.
    mortals: Vec<Driver>,
    /// Calls so far.
    calls: u64,
    floods: usize,
    folder: PathBuf,
    faults: Vec<String>,
}

impl Running {
    fn begin(arguments: &Arguments, folder: &Path, random: &mut Random) -> Running {
        let mut node = Node::start();
        let link = Link::to(node.address());
        let mut starts = BTreeMap::new();
        for topic in all_topics() {
            let at = node.publish(&topic, &format!("{OWN}{topic}"));
            starts.insert(topic, format!("{}:{}", at.epoch, at.offset));
        }
        let record = Record::default();
        let url = format!("ws://{}", link.address);
        let (mut drivers, mut mortals) = (Vec::new(), Vec::new());
        for (name, command) in &arguments.drivers {
            let start = |topic: &str| starts[topic].clone();
            let works = plan::of_clients(arguments.clients, &start, random);
            let start = |name: String| driver::Start {
                name,
                command: command.clone(),
                url: url.clone(),
                folder: folder.to_owned(),
            };
            drivers.push(Driver::start(start(name.clone()), &works, &record));
            let works = plan::of_publishers(arguments.clients.div_ceil(10), random);
            mortals.push(Driver::start(start(format!("{name}{KILLED}")), &works, &record));
        }
        let mut running = Running {
            node,
            link,
            record,
            drivers,
            mortals,
            calls: 0,
            floods: 0,
            folder: folder.to_owned(),
            faults: Vec::new(),
        };
        running.wait_for_begin();
        running
    }

    /// Publishes to all topics until each subscriber has a message of each of its topics: a live
    /// subscription to a filter does not tell otherwise that it has begun.
    fn wait_for_begin(&mut self) {
        let topics = all_topics();
        let deadline = Instant::now() + ROUND;
        let mut has_begun = false;
        for number in 0.. {
            if has_begun || Instant::now() >= deadline {
                break;
            }
            let payload = |topic: usize| format!("{OWN}begin.{number}.{topic}");
            self.node.publish_all(&topics, topics.len(), payload);
            has_begun = self.record.wait(BEGIN, |state| state.all_have_begun(&topics));
        }
        self.wait("begin of all subscriptions", |_| has_begun);
    }

    fn is_good(&self) -> bool {
        self.faults.is_empty()
    }

    /// Notes a fault unless it is done in time.
    fn wait(&mut self, what: &str, is_done: impl Fn(&State) -> bool) {
        if self.is_good() && !self.record.wait(ROUND, is_done) {
            self.faults.push(format!("in vain: {what}"));
            self.faults.append(&mut self.record.state().faults);
        }
    }

    /// Publications, a fault in the middle of them, and the answers to most.
    fn round(&mut self, fault: Fault, random: &mut Random) {
        let start = Instant::now();
        let before = self.record.state().settled;
        let publish = |driver: &mut Driver| driver.publish(CALLS, &self.record);
        let calls: u64 = self.drivers.iter_mut().chain(&mut self.mortals).map(publish).sum();
        self.calls += calls;
        let moment = before + random.below(calls / 2);
        self.wait("answers before the fault", |state| state.settled >= moment);
        let clients =
            self.record.state().fleets.iter().map(|fleet| fleet.clients.len()).sum::<usize>();
        // The fault hits at least half of them.
        if self.is_good() && !self.link.wait_for_open(clients / 2, ROUND) {
            self.faults.push("half of the clients do not come back".to_owned());
        }
        let open = self.link.open();
        let count = match fault {
            Fault::Reset => self.link.reset(),
            Fault::Swallow => self.link.swallow_half(random),
            Fault::Kill => self.crash(),
            Fault::Restore => self.restore(),
            Fault::Drain => self.drain(),
            Fault::Upgrade => self.upgrade(),
            Fault::Evict => self.evict(),
            Fault::Restart => self.restart(),
        };
        // The next fault meets those that are still on their way back.
        let most = before + calls * (5 + random.below(5)) / 10;
        self.wait("answers behind the fault", |state| state.settled >= most);
        println!(
            "{fault:?}: {open} connections, {count} hit; {} of {} calls settled; {:.1} s",
            self.record.state().settled,
            self.calls,
            start.elapsed().as_secs_f64()
        );
    }

    fn crash(&mut self) -> usize {
        self.node.crash();
        self.link.open()
    }

    /// Before the restore, a reader of each fleet has a message that the backup does not have: so
    /// the restore is a gap for each fleet.
    fn restore(&mut self) -> usize {
        let ahead = format!("{OWN}ahead.{}", self.calls);
        let topics = plan::kept_topics();
        self.node.publish_all(&topics, topics.len(), |_| ahead.clone());
        self.wait("a reader of each fleet ahead of the backup", |state| state.all_have(&ahead));
        self.node.restore();
        self.link.open()
    }

    fn drain(&mut self) -> usize {
        self.node.drain();
        self.link.open()
    }

    fn upgrade(&mut self) -> usize {
        self.node.upgrade();
        self.link.open()
    }

    /// Kills processes of publishers with `once`, and starts them again.
    fn restart(&mut self) -> usize {
        self.mortals.iter_mut().for_each(|driver| driver.restart(&self.record));
        self.mortals.len()
    }

    /// While some readers stop, their log drops what they have not read.
    fn evict(&mut self) -> usize {
        self.drivers.iter_mut().for_each(|driver| driver.say("pause"));
        let flood = self.floods;
        self.floods += 1;
        // Readers that stop their socket must not have room for all in the kernel's buffers.
        let payload = |number: usize| format!("{OWN}{flood}.{number:0>100}");
        self.node.publish_all(&plan::short_topics(), FLOOD, payload);
        self.drivers.iter_mut().for_each(|driver| driver.say("resume"));
        FLOOD
    }

    /// Waits for all answers and, behind a last message of each topic, for all items.
    fn settle(&mut self) {
        let start = Instant::now();
        let calls = self.calls;
        self.wait("answers to all calls", |state| state.settled >= calls);
        let topics = all_topics();
        if self.is_good() {
            self.node.publish_all(&topics, topics.len(), |_| END.to_owned());
            self.wait("last messages", |state| state.without_end(&topics).is_empty());
            if !self.is_good() {
                self.faults.extend(self.record.state().without_end(&topics));
            }
        }
        // All have come back by themselves; some platforms keep the old socket open.
        println!("{} dead sockets are still open", self.link.end_holes());
        for driver in self.drivers.iter_mut().chain(&mut self.mortals) {
            if let Err(fault) = driver.end(ROUND) {
                let name = self.record.state().fleets[driver.fleet].name.clone();
                self.faults.push(format!("{name}: {fault}"));
            }
        }
        self.faults.append(&mut self.record.state().faults);
        self.node.end();
        println!("everything settled in {:.1} s", start.elapsed().as_secs_f64());
    }

    /// Compares, and proves that the comparison can fail.
    fn verdict(self) -> (Vec<String>, usize) {
        let fleets = std::mem::take(&mut self.record.state().fleets);
        let oracle = Oracle::new(&fleets, &self.node.ledger);
        let mut faults = self.faults;
        faults.extend(oracle.check_logs(&fleets));
        let mut causes = BTreeSet::new();
        for fleet in &fleets {
            let (found, figures) = oracle.check(fleet);
            println!("{}: {figures}", fleet.name);
            faults.extend(found);
            let has_readers = !fleet.name.ends_with(KILLED);
            if has_readers && !figures.gaps.contains_key("unknown_epoch") {
                faults.push(format!("{}: no gap was tried", fleet.name));
            }
            causes.extend(figures.gaps.into_keys());
        }
        // An eviction hits the clients that are away at that moment, which may be none of an SDK.
        if !causes.contains("evicted") {
            faults.push("no client met an eviction".to_owned());
        }
        let clients = fleets.iter().flat_map(|fleet| &fleet.clients).count();
        let mut planted = 0;
        if faults.is_empty() {
            // The others only publish.
            let has_readers = |fleet: &&Fleet| !fleet.name.ends_with(KILLED);
            let readers: Vec<&Fleet> = fleets.iter().filter(has_readers).collect();
            for plant in PLANTS {
                let (places, unnoticed) = try_plant(plant, &readers, &oracle, &self.node.ledger);
                planted += places;
                faults.extend(unnoticed);
            }
            println!("{planted} planted faults: {} not noticed", faults.len());
        }
        println!("lines of the drivers: {}", self.folder.display());
        (faults, clients + planted)
    }
}

/// Plants a fault in each fleet that has a place for it: the number of places, and the fleets in
/// which the oracle does not notice the fault. What a fleet met depends on the machine, so a fleet
/// may have no place for a fault; a fault without any place was not tried, which is a fault too.
fn try_plant(
    plant: &Plant,
    fleets: &[&Fleet],
    oracle: &Oracle,
    ledger: &Ledger,
) -> (usize, Vec<String>) {
    let planted: Vec<_> = fleets.iter().filter_map(|fleet| plant.put(fleet, ledger)).collect();
    if planted.is_empty() {
        return (0, vec![format!("no fleet has a place for: {}", plant.what)]);
    }
    let unnoticed = planted.iter().filter_map(|(fleet, ledger)| {
        let faults = if plant.is_of_log {
            Oracle::new(std::slice::from_ref(fleet), ledger).check(fleet).0
        } else {
            oracle.check(fleet).0
        };
        faults.is_empty().then(|| format!("{}: not noticed: {}", fleet.name, plant.what))
    });
    (planted.len(), unnoticed.collect())
}
