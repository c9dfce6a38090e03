//! MQTT: random scripts. A session loses its connection, is taken over, does not read, and
//! acknowledges late; in the end it has every message, in the order of its topic, and what it has
//! acknowledged does not come again, although its filters overlap.

use crate::support::mqtt::on;
use crate::support::run_random;
use broker::settings::Settings;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % bound
    }
}

/// What the client of the session knows.
#[derive(Default)]
struct Known {
    /// By topic: numbers of messages in the order in which each came first.
    came: BTreeMap<String, Vec<u64>>,
    /// Messages with QoS 1 that were acknowledged, and with QoS 2 that came.
    over: BTreeSet<(String, u64)>,
    /// Messages by identifier that wait for PUBACK or PUBREC.
    open: BTreeMap<u16, (String, u64, u8)>,
    /// Identifiers that wait for PUBCOMP.
    released: BTreeSet<u16>,
    /// Identifiers that were answered with PUBREC, and wait for PUBREL.
    received: BTreeSet<u16>,
}

impl Known {
    /// A line of the transcript.
    fn saw(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "publish", topic, "q0", ref rest @ ..] => {
                panic!("{topic} with QoS 0: {rest:?}");
            }
            [_, "publish", topic, qos, "id", id, ref rest @ ..] => {
                let id: u16 = id.parse().unwrap();
                let number: u64 = rest.last().unwrap().parse().unwrap();
                let at = (topic.to_owned(), number);
                let qos: u8 = qos[1..].parse().unwrap();
                assert!(!self.over.contains(&at), "{line} was acknowledged before");
                let came = self.came.entry(topic.into()).or_default();
                if !came.contains(&number) {
                    assert!(came.last() < Some(&number), "{line} comes behind {came:?}");
                    came.push(number);
                }
                self.open.insert(id, (at.0, at.1, qos));
            }
            [_, "pubrel", id, ..] => {
                let id = id.parse().unwrap();
                self.received.remove(&id);
                self.released.insert(id);
            }
            _ => {}
        }
    }
}

const TOPICS: [&str; 5] = ["a", "b/x", "b/y", "c/x", "d"];

/// Runs a random script; returns the messages that came.
fn check(seed: u64, change: &dyn Fn(&mut Settings), edges: u64) {
    let mut random = Random(seed);
    let mut known = Known::default();
    let mut next = 1;
    let mut published = BTreeMap::<String, Vec<u64>>::new();
    let mut transcript = String::new();
    run_random(change, &mut |run| {
        let window = 1 + random.below(4);
        let mut step = |line: String, known: &mut Known| {
            writeln!(transcript, "{line}").unwrap();
            for said in run(&line) {
                writeln!(transcript, "    {said}").unwrap();
                if said.starts_with("s: ") || said.starts_with("t: ") {
                    let transcript = &transcript;
                    let saw = || known.saw(&said);
                    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(saw));
                    assert!(result.is_ok(), "seed {seed}:\n{transcript}");
                }
            }
        };
        let mut name = "s";
        let connect = |name: &str, window: u64, edge: u64| {
            format!("{name}: mqtt connect sam expiry=600 receive={window} on={edge}")
        };
        step("p: mqtt connect paul clean acks".into(), &mut known);
        step(connect(name, window, 0), &mut known);
        let filters = match seed % 3 {
            0 => "a 2, b/+ 1, c/# 2, d 1",
            1 => "a 2, b/+ 1, b/x 2, c/# 2, c/x 1, d 1",
            _ => "a 2, b/+ 1, +/x 2, d 1, # 1",
        };
        step(format!("{name}: mqtt sub 1 {filters}"), &mut known);
        for _ in 0..60 {
            match random.below(10) {
                0..4 => {
                    let topic = TOPICS[random.below(5) as usize];
                    let qos = 1 + random.below(2);
                    step(format!("p: mqtt pub {qos} {topic} {next} id={next}"), &mut known);
                    published.entry(topic.into()).or_default().push(next);
                    next += 1;
                }
                4..7 => {
                    for line in answers(&mut known, name, Some(&mut random)) {
                        step(line, &mut known);
                    }
                }
                7 => {
                    step(format!("{name}: reset"), &mut known);
                    // What was on its way to the client is unknown.
                    known.open.clear();
                    known.released.clear();
                    if random.below(2) == 0 {
                        let topic = TOPICS[random.below(5) as usize];
                        step(format!("p: mqtt pub 1 {topic} {next} id={next}"), &mut known);
                        published.entry(topic.into()).or_default().push(next);
                        next += 1;
                    }
                    step(connect(name, 1 + random.below(4), random.below(edges)), &mut known);
                }
                8 => {
                    let other = if name == "s" { "t" } else { "s" };
                    known.open.clear();
                    known.released.clear();
                    step(format!("{name}: open"), &mut known);
                    known.open.clear();
                    known.released.clear();
                    step(connect(other, 1 + random.below(4), random.below(edges)), &mut known);
                    name = other;
                }
                _ => {
                    step(format!("{name}: block"), &mut known);
                    let topic = TOPICS[random.below(5) as usize];
                    step(format!("p: mqtt pub 2 {topic} {next} id={next}"), &mut known);
                    published.entry(topic.into()).or_default().push(next);
                    next += 1;
                    step(format!("{name}: open"), &mut known);
                }
            }
        }
        for _ in 0..200 {
            let lines = answers(&mut known, name, None);
            if lines.is_empty() {
                break;
            }
            for line in lines {
                step(line, &mut known);
            }
        }
    });
    assert_eq!(known.came, published, "seed {seed}:\n{transcript}");
}

/// Acknowledgements of some open messages.
fn answers(known: &mut Known, name: &str, mut random: Option<&mut Random>) -> Vec<String> {
    let mut lines = Vec::new();
    for id in std::mem::take(&mut known.released) {
        lines.push(format!("{name}: mqtt pubcomp {id}"));
    }
    let open: Vec<u16> = known.open.keys().copied().collect();
    for id in open {
        if random.as_deref_mut().is_some_and(|random| random.below(3) == 1) {
            continue;
        }
        let (topic, number, qos) = known.open.remove(&id).unwrap();
        known.over.insert((topic, number));
        lines.push(match qos {
            1 => format!("{name}: mqtt puback {id}"),
            _ => format!("{name}: mqtt pubrec {id}"),
        });
        break;
    }
    lines
}

#[test]
fn a_session_gets_every_message_once_in_order() {
    for seed in 0..300 {
        check(seed, &on, 1);
    }
}

#[test]
fn a_session_gets_every_message_once_in_order_on_three_threads() {
    let three = |settings: &mut Settings| {
        on(settings);
        settings.edges_count = 3;
        settings.homes_count = 3;
        settings.logs[0].partitions_count = 6;
    };
    for seed in 0..300 {
        check(seed, &three, 3);
    }
}
