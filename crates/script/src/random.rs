//! Random runs: a correct node, a careless network and time, and a ledger that every item of the
//! client is checked against.
//!
//! Place: beside the scenarios, for cores in virtual time. A scenario says what must come; a run
//! says what must hold whatever comes: nothing is lost without a gap, nothing comes twice, a
//! publication of `once` is in the log exactly once, any other at most once, each call settles.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use stdx::prng::Prng;

use crate::Adapter;
use crate::model::{At, Model, PARTITIONS, is_filter, partition_of};
use crate::play::{Outcome, Player};

const STEPS: usize = 150;
const TOPICS: u64 = 3;
/// The turns after which a healthy network must have settled everything.
const CALM_MAX: usize = 400;
/// Longer than twice the interval of pings with its margin.
const SILENCE_MS: u64 = 80_000;
/// Longer than any run.
const ONCE_TIMEOUT_MS: u64 = 100_000_000;

/// Plays the run of this seed, in core mode.
pub fn play_random(seed: u64, adapter: &mut dyn Adapter) -> Outcome {
    let mut run = Run {
        player: Player::core(adapter),
        model: Model::new(),
        random: Prng::new(seed),
        waiting: Vec::new(),
        calls: Vec::new(),
        labels: BTreeMap::new(),
        is_calm: false,
        steps: 0,
    };
    let result = run.run();
    let steps = run.steps;
    let stopped = run.player.call(json!({"do": "stop"}));
    match result.and(stopped) {
        Ok(()) => Outcome::Passed,
        Err(why) => Outcome::Failed(steps, why),
    }
}

/// One call of the application.
struct Call {
    label: String,
    is_once: bool,
    payload: String,
}

struct Run<'a> {
    player: Player<'a>,
    model: Model,
    random: Prng,
    /// Frames that have not reached the node.
    waiting: Vec<Value>,
    calls: Vec<Call>,
    /// Topics and filters by subscription.
    labels: BTreeMap<String, String>,
    /// The network is healthy from now on.
    is_calm: bool,
    steps: usize,
}

type Check = Result<(), String>;

impl Run<'_> {
    fn run(&mut self) -> Check {
        let fractions: Vec<f64> =
            (0..50).map(|_| self.random.below(1000) as f64 / 1000.0).collect();
        self.player.call(json!({
            "do": "start", "options": {"urls": ["ws://node.test/a"]}, "random": fractions,
        }))?;
        for name in ["t0", "t1", "#", "+"] {
            let label = match name {
                "#" => "f",
                "+" => "g",
                topic => topic,
            };
            self.labels.insert(label.to_owned(), name.to_owned());
            self.player.call(json!({
                "do": "subscribe", "as": label, "topic": name, "start": {"kind": "live"},
            }))?;
        }
        for step in 0..STEPS {
            self.steps = step;
            self.act()?;
        }
        self.is_calm = true;
        self.settle()?;
        self.check_calls()?;
        self.labels.clone().iter().try_for_each(|(label, name)| self.check_items(label, name))
    }

    fn act(&mut self) -> Check {
        self.network()?;
        match self.random.below(100) {
            0..29 => {
                let topic = format!("t{}", self.random.below(TOPICS));
                let payload = format!("{:08x}", self.random.below(u64::from(u32::MAX)));
                let (_, frames) = self.model.append(&topic, &payload);
                self.send(frames)
            }
            29..42 => self.publish(true),
            42..50 => self.publish(false),
            50..70 => {
                let ms = self.random.below(3_000);
                self.player.advance(ms)
            }
            70..80 => self.process(),
            80..85 => self.end(1006),
            85..87 => {
                let codes = [3000, 3002, 1012];
                let code = codes[self.random.below(3) as usize];
                self.end(code)
            }
            87..89 if self.player.is_open() => {
                let go_away = self.model.go_away();
                self.send(vec![go_away])
            }
            89..92 => {
                let partition = self.random.below(PARTITIONS as u64) as usize;
                self.model.evict(partition);
                Ok(())
            }
            92..94 => {
                let partition = self.random.below(PARTITIONS as u64) as usize;
                let frames = self.model.lose(partition);
                self.send(frames)
            }
            94..97 if self.player.is_open() => {
                let choice = self.random.below(8) as usize;
                let frames = self.model.unsubscribe_one(choice);
                self.send(frames)
            }
            97 => {
                self.model.refuses_next = true;
                Ok(())
            }
            98 => {
                self.model.forgets_tickets = true;
                Ok(())
            }
            // Nothing comes from the node for longer than a client may believe it.
            99 if self.player.is_open() => {
                self.player.advance(SILENCE_MS)?;
                if self.player.is_open() {
                    return Err("a silent node is not given up".to_owned());
                }
                Ok(())
            }
            _ => {
                self.model.rewinds = true;
                Ok(())
            }
        }
    }

    fn publish(&mut self, is_once: bool) -> Check {
        let number = self.calls.len();
        let call =
            Call { label: format!("p{number}"), is_once, payload: format!("ffff{number:04x}") };
        let topic = format!("t{}", self.random.below(TOPICS));
        let mut command = json!({
            "do": "publish", "as": call.label, "topic": topic, "payload": call.payload,
        });
        if is_once {
            command["once"] = json!(true);
            // It settles by its answer, and not by its age.
            command["timeout_ms"] = json!(ONCE_TIMEOUT_MS);
        }
        self.calls.push(call);
        self.player.call(command)
    }

    /// Answers attempts, and takes what the client has sent and ended.
    fn network(&mut self) -> Check {
        let attempt = self.player.seen.attempts.pop_back();
        self.player.seen.attempts.clear();
        if let Some(attempt) = attempt.filter(|_| !self.player.has_given_up) {
            if self.player.is_open() {
                return Err(format!("a second connection to {}", attempt.url));
            }
            // Frames of the last connection are lost.
            self.waiting.clear();
            self.player.seen.frames.clear();
            self.model.connected();
            let then = match self.random.below(if self.is_calm { 1 } else { 6 }) {
                0..4 => None,
                4 => Some(json!(503)),
                _ => Some(json!("fail")),
            };
            self.player.answer_attempt(then.as_ref(), None)?;
        }
        while let Some(code) = self.player.seen.closes.pop_front() {
            let is_open = |frame: &Value| {
                let mut calls = self.calls.iter();
                calls.any(|it| frame["payload"] == it.payload.as_str() && !self.is_settled(it))
            };
            if code == 1000
                && let Some(frame) = self.waiting.iter().find(|frame| is_open(frame))
            {
                return Err(format!("the client left before the answer to {frame}"));
            }
        }
        self.player.seen.tokens.clear();
        let frames = std::mem::take(&mut self.player.seen.frames);
        self.waiting.extend(frames);
        match self.player.seen.violation.take() {
            Some(violation) => Err(violation),
            None => Ok(()),
        }
    }

    /// Passes the waiting frames to the node, and its answers back.
    fn process(&mut self) -> Check {
        self.network()?;
        for frame in std::mem::take(&mut self.waiting) {
            if !self.player.is_open() {
                break;
            }
            let answers = self.model.frame(&frame);
            if let Some(complaint) = self.model.complaint.take() {
                return Err(complaint);
            }
            self.send(answers)?;
        }
        Ok(())
    }

    /// Sends frames, as far as the connection lives.
    fn send(&mut self, frames: Vec<Value>) -> Check {
        for frame in frames {
            if !self.player.is_open() {
                return Ok(());
            }
            self.model.delivered(&frame);
            self.player.server_frame(&frame)?;
            if !self.is_calm && self.random.below(120) == 0 {
                self.end(1006)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, code: u16) -> Check {
        self.waiting.clear();
        if self.player.is_open() { self.player.end(code, "") } else { Ok(()) }
    }

    /// A healthy network, until everything is settled; then one last message for each topic.
    fn settle(&mut self) -> Check {
        self.model.refuses_next = false;
        for last in [false, true] {
            let mut calm = 0;
            for _ in 0..CALM_MAX {
                self.process()?;
                self.player.advance(1_000)?;
                let open = self.calls.iter().any(|call| !self.is_settled(call));
                let is_quiet = self.player.is_open() && self.waiting.is_empty() && !open;
                calm = if is_quiet { calm + 1 } else { 0 };
                if calm == 8 {
                    break;
                }
            }
            if calm < 8 {
                return Err("the client does not settle".to_owned());
            }
            for topic in (0..TOPICS).filter(|_| !last) {
                let (_, frames) = self.model.append(&format!("t{topic}"), "1a57");
                self.send(frames)?;
            }
        }
        Ok(())
    }

    fn is_settled(&self, call: &Call) -> bool {
        self.player.seen.answers.contains_key(&call.label)
    }

    /// Each publication is in the log as often as its call says.
    fn check_calls(&mut self) -> Check {
        for call in &self.calls {
            let answer = &self.player.seen.answers[&call.label];
            let records = self.model.logs.iter().flat_map(|log| log.ledger.values().flatten());
            let count = records.filter(|record| record.payload == call.payload).count();
            let is_right = match (answer["published"].is_string(), call.is_once) {
                (true, _) => count == 1,
                (false, true) => false,
                (false, false) if answer["error"] == "Expired" => count == 0,
                (false, false) => count <= 1 && answer["error"] == "Unknown",
            };
            if !is_right {
                return Err(format!("{answer}, but the log has it {count} times"));
            }
        }
        Ok(())
    }

    /// Every message after the begin was handed on once, or lies in a gap.
    fn check_items(&mut self, label: &str, name: &str) -> Check {
        let items = self.player.seen.items.remove(label).unwrap_or_default();
        let is_filter = is_filter(name);
        let partitions = if is_filter { 0..PARTITIONS } else { one(partition_of(name)) };
        for partition in partitions {
            let begins = self.model.begins.iter();
            // The client numbers subscriptions as it likes; a topic's begin is that of its number.
            let number = self.numbers()[label];
            let begin = begins
                .filter(|((known, of), _)| (*known, *of) == (number, partition))
                .map(|(_, at)| *at)
                .next();
            let Some(mut cursor) = begin else { return Err(format!("{name} was never granted")) };
            let of_it =
                |item: &&Value| !is_filter || item["partition"].as_u64() == Some(partition as u64);
            for item in items.iter().filter(of_it) {
                let next = self.walk(name, partition, cursor, item);
                cursor = next.map_err(|why| format!("{name} at {cursor:?}: {why}: {item}"))?;
            }
            let log = &self.model.logs[partition];
            if cursor.0 != log.epoch {
                return Err(format!("{name} ends in epoch {}", cursor.0));
            }
            self.nothing_between(name, partition, cursor, log.head + 1)?;
        }
        Ok(())
    }

    /// Moves the cursor by an item.
    fn walk(&self, name: &str, partition: usize, cursor: At, item: &Value) -> Result<At, String> {
        let at = |key: &str| position(&item[key]);
        match item["kind"].as_str() {
            Some("message") => {
                let (epoch, offset) = at("position")?;
                if epoch != cursor.0 || offset <= cursor.1 {
                    return Err("it came twice, or without a gap".to_owned());
                }
                self.nothing_between(name, partition, cursor, offset)?;
                let ledger = &self.model.logs[partition].ledger;
                let records = ledger.get(&epoch).into_iter().flatten();
                let same = records.filter(|record| record.offset == offset);
                let is_known = same.into_iter().any(|it| {
                    item["payload"] == it.payload.as_str() && item["topic"] == it.topic.as_str()
                });
                is_known.then_some((epoch, offset)).ok_or_else(|| "the log has another".to_owned())
            }
            Some("gap") => {
                let from = at("from")?;
                if from.0 != cursor.0 || from.1 < cursor.1 {
                    return Err("the gap begins elsewhere".to_owned());
                }
                if item["cause"] == "unannounced" {
                    return Err("the node announces its gaps".to_owned());
                }
                self.nothing_between(name, partition, cursor, from.1 + 1)?;
                at("to")
            }
            Some("caught_up") => {
                let (epoch, offset) = at("position")?;
                if epoch != cursor.0 {
                    return Err("another epoch without a gap".to_owned());
                }
                self.nothing_between(name, partition, cursor, offset + 1)?;
                Ok((epoch, offset.max(cursor.1)))
            }
            _ => Err("such an item has no cause".to_owned()),
        }
    }

    /// Fails if the log had a message of `name` after the cursor and before `end`.
    fn nothing_between(&self, name: &str, partition: usize, cursor: At, end: u64) -> Check {
        let ledger = self.model.logs[partition].ledger.get(&cursor.0);
        let missing = ledger.into_iter().flatten().find(|record| {
            (is_filter(name) || record.topic == name)
                && record.offset > cursor.1
                && record.offset < end
        });
        match missing {
            Some(record) => Err(format!("{}:{} is missing", cursor.0, record.offset)),
            None => Ok(()),
        }
    }

    /// The client's numbers of its subscriptions, in the order of its calls.
    fn numbers(&self) -> BTreeMap<&str, u64> {
        let mut numbers: Vec<u64> = self.model.begins.keys().map(|(number, _)| *number).collect();
        numbers.dedup();
        let labels = ["t0", "t1", "f", "g"];
        labels.into_iter().zip(numbers).collect()
    }
}

fn one(partition: usize) -> std::ops::Range<usize> {
    partition..partition + 1
}

fn position(value: &Value) -> Result<At, String> {
    let parts = value.as_str().and_then(|text| text.split_once(':'));
    let numbers = parts.and_then(|(one, two)| Some((one.parse().ok()?, two.parse().ok()?)));
    numbers.ok_or_else(|| format!("{value} is not a position"))
}
