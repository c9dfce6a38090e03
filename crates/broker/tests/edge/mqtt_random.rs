//! MQTT: random scripts. A session loses its connection, is taken over, does not read, and
//! acknowledges late; in the end it has every message, in the order of its topic, and what it has
//! acknowledged does not come again, although its filters overlap.

use crate::support::mqtt::on;
use crate::support::{Run, run_random};
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

/// The knowledge of the session's client.
#[derive(Default)]
struct Known {
    /// Numbers of messages of each topic, in the order in which each came first.
    came: BTreeMap<String, Vec<u64>>,
    /// Messages with QoS 1 that were acknowledged, and with QoS 2 that came.
    over: BTreeSet<(String, u64)>,
    /// Messages by identifier that wait for PUBACK or PUBREC.
    open: BTreeMap<u16, (String, u64, u8)>,
    /// Identifiers that wait for PUBCOMP.
    released: BTreeSet<u16>,
}

impl Known {
    /// A line of the transcript.
    fn saw(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "publish", topic, qos, "id", id, ref rest @ ..] => {
                let id: u16 = id.parse().unwrap();
                let number: u64 = rest.last().unwrap().parse().unwrap();
                let at = (topic.to_owned(), number);
                if self.over.contains(&at) {
                    return Err(format!("{line} was acknowledged before"));
                }
                let came = self.came.entry(topic.into()).or_default();
                if !came.contains(&number) {
                    if came.last() > Some(&number) {
                        return Err(format!("{line} comes behind {came:?}"));
                    }
                    came.push(number);
                }
                self.open.insert(id, (at.0, at.1, qos[1..].parse().unwrap()));
            }
            [_, "publish", ..] => return Err(format!("{line} has no identifier")),
            [_, "pubrel", id, ..] => _ = self.released.insert(id.parse().unwrap()),
            _ => {}
        }
        Ok(())
    }
}

const TOPICS: [&str; 5] = ["a", "b/x", "b/y", "c/x", "d"];

/// A script on its way.
struct Play<'a> {
    run: Run<'a>,
    seed: u64,
    /// Edges of the node.
    edges: u64,
    random: Random,
    known: Known,
    /// The connection of the session: `s` or `t`.
    name: &'static str,
    /// Numbers of messages of each topic, in their order.
    published: BTreeMap<String, Vec<u64>>,
    /// The number of the last message.
    last: u64,
    transcript: String,
}

impl Play<'_> {
    fn step(&mut self, line: &str) {
        writeln!(self.transcript, "{line}").unwrap();
        for said in (self.run)(line) {
            writeln!(self.transcript, "    {said}").unwrap();
            if said.starts_with("s: ") || said.starts_with("t: ") {
                let result = self.known.saw(&said);
                assert!(result.is_ok(), "{result:?}, seed {}:\n{}", self.seed, self.transcript);
            }
        }
    }

    fn connect(&mut self) {
        let (window, edge) = (1 + self.random.below(4), self.random.below(self.edges));
        // Messages on their way to the client may be lost.
        self.known.open.clear();
        self.known.released.clear();
        let name = self.name;
        self.step(&format!("{name}: mqtt connect sam expiry=600 receive={window} on={edge}"));
    }

    fn publish(&mut self) {
        let topic = TOPICS[self.random.below(5) as usize];
        let qos = 1 + self.random.below(2);
        self.last += 1;
        let number = self.last;
        self.published.entry(topic.into()).or_default().push(number);
        self.step(&format!("p: mqtt pub {qos} {topic} {number} id={number}"));
    }

    /// Acknowledges one of the open messages; a random one perhaps. False if none is open.
    fn acknowledge(&mut self, is_random: bool) -> bool {
        let name = self.name;
        let released = std::mem::take(&mut self.known.released);
        let mut is_busy = !released.is_empty();
        for id in released {
            self.step(&format!("{name}: mqtt pubcomp {id}"));
        }
        let open: Vec<u16> = self.known.open.keys().copied().collect();
        for id in open {
            if is_random && self.random.below(3) == 0 {
                continue;
            }
            is_busy = true;
            let (topic, number, qos) = self.known.open.remove(&id).unwrap();
            self.known.over.insert((topic, number));
            let verb = if qos == 1 { "puback" } else { "pubrec" };
            self.step(&format!("{name}: mqtt {verb} {id}"));
            break;
        }
        is_busy
    }

    fn act(&mut self) {
        let name = self.name;
        match self.random.below(10) {
            0..4 => self.publish(),
            4..7 => _ = self.acknowledge(true),
            7 => {
                self.step(&format!("{name}: reset"));
                if self.random.below(2) == 0 {
                    self.publish();
                }
                self.connect();
            }
            8 => {
                self.name = if name == "s" { "t" } else { "s" };
                self.connect();
            }
            _ => {
                self.step(&format!("{name}: block"));
                self.publish();
                self.step(&format!("{name}: open"));
            }
        }
    }
}

/// Runs a random script.
fn check(seed: u64, edges: u64, change: &dyn Fn(&mut Settings)) {
    run_random(change, |run| {
        let mut play = Play {
            run,
            seed,
            edges,
            random: Random(seed),
            known: Known::default(),
            name: "s",
            published: BTreeMap::new(),
            last: 0,
            transcript: String::new(),
        };
        play.step("p: mqtt connect paul clean acks");
        play.connect();
        let filters = match seed % 3 {
            0 => "a 2, b/+ 1, c/# 2, d 1",
            1 => "a 2, b/+ 1, b/x 2, c/# 2, c/x 1, d 1",
            _ => "a 2, b/+ 1, +/x 2, d 1, # 1",
        };
        play.step(&format!("s: mqtt sub 1 {filters}"));
        for _ in 0..60 {
            play.act();
        }
        while play.acknowledge(false) {}
        assert_eq!(play.known.came, play.published, "seed {seed}:\n{}", play.transcript);
    });
}

#[test]
fn a_session_gets_every_message_once_in_order() {
    for seed in 0..300 {
        check(seed, 1, &on);
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
        check(seed, 3, &three);
    }
}
