//! MQTT: random scripts of a shared subscription. Members come, vanish, sleep, unsubscribe, are
//! blocked and acknowledge late; in the end every message was acknowledged by one member.

use crate::support::mqtt::on;
use crate::support::{Run, run_random};
use broker::settings::{GroupOrder, Settings};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % bound
    }
}

const MEMBERS: [&str; 3] = ["a", "b", "c"];

/// A script on its way.
struct Play<'a> {
    run: Run<'a>,
    seed: u64,
    edges: u64,
    random: Random,
    /// The messages that each connected member has not acknowledged: numbers by identifier.
    open: BTreeMap<&'static str, BTreeMap<u16, u64>>,
    /// The acknowledgements of each message.
    acknowledged: BTreeMap<u64, u32>,
    last: u64,
    transcript: String,
}

impl Play<'_> {
    fn step(&mut self, line: &str) {
        writeln!(self.transcript, "{line}").unwrap();
        for said in (self.run)(line) {
            writeln!(self.transcript, "    {said}").unwrap();
            let words: Vec<&str> = said.split_whitespace().collect();
            if let [name, "publish", _, "q1", "id", id, ref rest @ ..] = words[..] {
                let number = rest.last().unwrap().parse().unwrap();
                let open = self.open.get_mut(name.trim_end_matches(':'));
                let before = open.and_then(|open| open.insert(id.parse().unwrap(), number));
                assert_eq!(before, None, "{said}, seed {}:\n{}", self.seed, self.transcript);
            }
        }
    }

    fn connect(&mut self, name: &'static str) {
        self.open.insert(name, BTreeMap::new());
        let (window, edge) = (1 + self.random.below(4), self.random.below(self.edges));
        self.step(&format!("{name}: mqtt connect {name} expiry=600 receive={window} on={edge}"));
        self.step(&format!("{name}: mqtt sub 9 $share/g/# 1"));
    }

    fn publish(&mut self) {
        self.last += 1;
        let (number, topic) = (self.last, self.random.below(4));
        self.step(&format!("p: publish 0 t/{topic} {number}"));
    }

    /// Acknowledges a message of a member. False if it has none.
    fn acknowledge(&mut self, name: &'static str) -> bool {
        let Some((id, number)) = self.open.get_mut(name).and_then(|open| open.pop_first()) else {
            return false;
        };
        *self.acknowledged.entry(number).or_default() += 1;
        self.step(&format!("{name}: mqtt puback {id}"));
        true
    }

    fn act(&mut self) {
        let name = MEMBERS[self.random.below(3) as usize];
        let is_connected = self.open.contains_key(name);
        match (self.random.below(10), is_connected) {
            (0..4, _) => self.publish(),
            (4..7, true) => _ = self.acknowledge(name),
            (7, true) => {
                self.open.remove(name);
                self.step(&format!("{name}: reset"));
            }
            (8, true) => {
                let is_idle = self.open[name].is_empty();
                self.step(&format!("{name}: mqtt unsub 8 $share/g/#"));
                if is_idle {
                    self.step(&format!("{name}: mqtt sub 9 $share/g/# 1"));
                }
            }
            (9, true) if self.random.below(2) == 0 => {
                self.step(&format!("{name}: block"));
                self.publish();
                self.publish();
                self.step(&format!("{name}: open"));
            }
            (_, true) => {}
            (_, false) => self.connect(name),
        }
    }

    fn end(&mut self) {
        for name in MEMBERS {
            if !self.open.contains_key(name) {
                self.connect(name);
            } else {
                self.step(&format!("{name}: mqtt sub 9 $share/g/# 1"));
            }
        }
        while MEMBERS.iter().any(|name| self.acknowledge(name)) {}
        for number in 1..=self.last {
            let times = self.acknowledged.get(&number).copied().unwrap_or(0);
            let seed = self.seed;
            assert_eq!(times, 1, "times of {number}, seed {seed}:\n{}", self.transcript);
        }
    }
}

fn play(change: impl Fn(&mut Settings), edges: u64, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let order = if seed % 2 == 0 { GroupOrder::Any } else { GroupOrder::Topic };
        let change = |settings: &mut Settings| {
            change(settings);
            settings.mqtt.group_order = order;
        };
        run_random(&change, |run| {
            let mut play = Play {
                run,
                seed,
                edges,
                random: Random(seed),
                open: BTreeMap::new(),
                acknowledged: BTreeMap::new(),
                last: 0,
                transcript: String::new(),
            };
            play.step("p: session");
            // The group lasts although every other member may leave it.
            play.step("z: mqtt connect zoe expiry=600");
            play.step("z: mqtt sub 9 $share/g/# 1");
            play.step("z: mqtt disconnect");
            play.connect("a");
            for _ in 0..150 {
                play.act();
            }
            play.end();
        });
    }
}

fn three_threads(settings: &mut Settings) {
    on(settings);
    settings.edges_count = 3;
    settings.homes_count = 3;
    settings.logs[0].partitions_count = 6;
}

#[test]
fn a_group_gets_every_message() {
    play(on, 1, 0..100);
}

#[test]
fn a_group_gets_every_message_on_three_threads() {
    play(three_threads, 3, 0..100);
}
