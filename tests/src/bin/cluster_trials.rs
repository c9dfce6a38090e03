//! Trials of three nodes on three brokers of Apache Kafka: one fault again and again, for minutes,
//! under load of clients that move, and then the eight rules of `trial::judge`.
//!
//! `cluster_trials FOLDER [FAULT,…|all] [SECONDS] [RATE] [SEED]`: the folder for Kafka's jars; how
//! long each fault is repeated (60 s), messages per second (1,000), and what chooses brokers and
//! nodes. `CRORE_BINARY` must have the cargo feature `engine`. Needs root for some faults. The last
//! line is `N passed, N failed`.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use end_to_end::fleet::random::Random;
use end_to_end::trial::faults::{FAULTS, Fault, Trial};
use end_to_end::trial::history::{Clock, History, Name, Topic, topic_text};
use end_to_end::trial::judge::judge;
use end_to_end::trial::load::{Naming, Plan, Published, Publisher, merged};
use end_to_end::trial::log::{self, Foreign};
use end_to_end::trial::subscribers::Subscriber;
use end_to_end::trial::world::{NODES, World};

/// The number of topics.
const TOPICS: Topic = 24;
/// Topics of one publisher; each topic has two of them.
const TOPICS_OF_PUBLISHER: u16 = 8;
const PUBLISHERS: u16 = 6;
/// The publisher of each topic's last message.
const LAST: u16 = 98;
/// The part of the rate that another producer writes into the engine.
const FOREIGN_PART: f64 = 0.1;
/// Time limit for the last messages to arrive.
const ARRIVAL: Duration = Duration::from_secs(180);

struct Options {
    seconds: u64,
    rate: f64,
    seed: u64,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let Some(folder) = arguments.first() else {
        eprintln!("usage: cluster_trials FOLDER [FAULT,...|all] [SECONDS] [RATE] [SEED]");
        for fault in FAULTS {
            eprintln!("  {:<24}{}", fault.name, fault.about);
        }
        return ExitCode::from(2);
    };
    let number = |place: usize, default: u64| {
        arguments.get(place).map_or(default, |text| text.parse().expect("a number"))
    };
    let options =
        Options { seconds: number(2, 60), rate: number(3, 1_000) as f64, seed: number(4, 1) };
    let names = arguments.get(1).map_or("all", String::as_str);
    let is_selected =
        |fault: &&Fault| names == "all" || names.split(',').any(|it| it == fault.name);
    let (mut passed, mut failed) = (0, 0);
    for fault in FAULTS.iter().filter(is_selected) {
        let run = || run(Path::new(folder), fault, &options);
        let is_good = catch_unwind(AssertUnwindSafe(run)).unwrap_or(false);
        println!("{} ... {}", fault.name, if is_good { "ok" } else { "FAILED" });
        *(if is_good { &mut passed } else { &mut failed }) += 1;
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Does one fault for its time. Returns whether all rules hold.
fn run(folder: &Path, fault: &Fault, options: &Options) -> bool {
    let world = World::start(folder, &fault.setup());
    let clock = Clock(Instant::now());
    let all: Vec<Topic> = (0..TOPICS).collect();
    let half = |number: u16| all.iter().copied().filter(|it| it % 2 == number % 2).collect();
    let subscribers: Vec<Subscriber> = (0..2 * NODES)
        .map(|number| {
            let is_filtered = number < NODES;
            let topics: Vec<Topic> = if is_filtered { all.clone() } else { half(number as u16) };
            Subscriber::begin(&world.nodes, clock, number, &topics, is_filtered)
        })
        .collect();
    let foreign = Foreign::begin(&world.kafka, &all, options.rate * FOREIGN_PART);
    let rate = options.rate * (1.0 - FOREIGN_PART) / f64::from(PUBLISHERS);
    let publishers = (1..=PUBLISHERS)
        .map(|number| Publisher::begin(&world.nodes, clock, plan(number, rate)))
        .collect();
    let mut trial = Trial { world, publishers, random: Random(options.seed), times: 0 };
    trial.wait_for_progress(50);
    let end = Instant::now() + Duration::from_secs(options.seconds);
    while Instant::now() < end {
        (fault.break_and_mend)(&mut trial);
        trial.times += 1;
    }
    trial.wait_for_progress(50);
    let foreign = foreign.end();
    let mut published = merged(trial.publishers.drain(..).map(Publisher::end).collect());
    finish_topics(&trial.world, clock, &subscribers, &mut published);
    report(fault, &trial, &published, foreign, &subscribers);
    let history = History {
        nodes: (0..NODES).map(|number| pages(&trial.world, number)).collect(),
        engine: log::records(&trial.world.kafka),
        subscribers: subscribers.into_iter().map(Subscriber::end).collect(),
        publications: published.publications,
        may_lose: fault.may_lose,
    };
    let verdict = judge(&history);
    println!(
        "  {} acknowledged, {} refused for ever, {} delivered, {} gaps, {} records in the engine, \
         {} lost there",
        verdict.acknowledged,
        verdict.refused,
        verdict.delivered,
        verdict.gaps,
        history.engine.len(),
        verdict.lost_by_engine
    );
    verdict.lines().iter().for_each(|line| println!("  {line}"));
    for number in (0..NODES).filter(|_| !verdict.is_good()) {
        for line in trial.world.beginnings(number) {
            println!("  n{number}: {line}");
        }
    }
    verdict.is_good()
}

fn plan(number: u16, rate: f64) -> Plan {
    let first = number * TOPICS_OF_PUBLISHER / 2;
    let topics = (first..first + TOPICS_OF_PUBLISHER).map(|topic| topic % TOPICS).collect();
    let naming = if number.is_multiple_of(2) { Naming::Key } else { Naming::Sequence };
    Plan { number, topics, naming, rate }
}

/// Publishes a last message on each topic, and waits until all subscribers have theirs.
fn finish_topics(
    world: &World,
    clock: Clock,
    subscribers: &[Subscriber],
    published: &mut Published,
) {
    let topics: Vec<Topic> = (0..TOPICS).collect();
    let last: Vec<(Topic, Name)> = (1..=u64::from(TOPICS))
        .map(|number| {
            let topic = topics[number as usize % topics.len()];
            (topic, Name { publisher: LAST, number })
        })
        .collect();
    let rate = f64::from(TOPICS) * 10.0;
    let plan = Plan { number: LAST, topics, naming: Naming::Key, rate };
    let publisher = Publisher::begin(&world.nodes, clock, plan);
    let deadline = Instant::now() + ARRIVAL;
    while publisher.acknowledged() < u64::from(TOPICS) {
        assert!(Instant::now() < deadline, "the last messages are not acknowledged");
        thread::sleep(Duration::from_millis(20));
    }
    let ended = publisher.end();
    published.publications.extend(ended.publications);
    let deadline = Instant::now() + ARRIVAL;
    for (number, subscriber) in subscribers.iter().enumerate() {
        loop {
            let lacking = subscriber.lacks(&last);
            if lacking.is_empty() {
                break;
            }
            if Instant::now() > deadline {
                println!("  subscriber {number} lacks the last messages of {lacking:?}");
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
    }
}

fn report(
    fault: &Fault,
    trial: &Trial,
    published: &Published,
    foreign: u64,
    subscribers: &[Subscriber],
) {
    let latencies = &published.latencies_us;
    let at = |part: f64| {
        let place = (latencies.len() as f64 * part) as usize;
        latencies
            .get(place.min(latencies.len().saturating_sub(1)))
            .map_or(0.0, |us| *us as f64 / 1e3)
    };
    let connections: u64 = subscribers.iter().map(Subscriber::connections).sum();
    println!("{}: {}", fault.name, fault.about);
    println!(
        "  {} times; {} published, {foreign} by another producer; acknowledged within p50 {:.1} ms, \
         p99 {:.0} ms, max {:.0} ms; longest silence {:.1} s; {connections} connections of \
         subscribers; repeated {:?}",
        trial.times,
        published.publications.len(),
        at(0.5),
        at(0.99),
        at(1.0),
        published.longest_silence.as_secs_f64(),
        published.refusals
    );
    for number in 0..NODES {
        let process = trial.world.node(number).process.id();
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        println!("  n{number}: greatest memory {}", peak.unwrap_or("unknown").trim());
    }
}

/// The newest messages of each topic at a node.
fn pages(world: &World, number: usize) -> BTreeMap<Topic, Vec<(u64, Name)>> {
    let page = |topic: Topic| {
        let page = world.page(number, &topic_text(topic));
        let messages = page["messages"].as_array().expect("a list");
        let mut found: Vec<(u64, Name)> = messages
            .iter()
            .filter_map(|message| {
                let name = Name::of_payload(message["data"].as_str()?)?;
                Some((message["offset"].as_u64()?, name))
            })
            .collect();
        found.sort_unstable();
        (topic, found)
    };
    (0..TOPICS).map(page).collect()
}
