//! Publishers of a trial. Each sends batches by HTTP at its rate, moves between the nodes, and
//! repeats messages without a final answer at the next one.

use std::collections::{BTreeMap, VecDeque};
use std::io::BufReader;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::history::{Clock, Name, Outcome, Publication, Topic, topic_text};
use crate::cluster::{Nodes, post};
use crate::fleet::random::Random;

/// The time limit for an answer: a node settles a publication within 30 s.
const ANSWER_PATIENCE: Duration = Duration::from_secs(40);
/// Messages of one request at most.
const BATCH_MAX: usize = 200;
/// Messages without a final answer at most; then the publisher creates no more.
const UNSETTLED_MAX: usize = 2_000;
/// The pause between two batches.
const TICK: Duration = Duration::from_millis(40);
/// The pause after a refusal.
const PAUSE: Duration = Duration::from_millis(200);
/// A publisher moves to another node after this time, and up to twice of it.
const STAY_MS: u64 = 8_000;

/// The name of a message by which nodes recognise a repetition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Naming {
    /// A producer's sequence.
    Sequence,
    /// An idempotency key.
    Key,
}

/// A publisher's settings.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its number, the begin of its messages' names.
    pub number: u16,
    /// The topics, in turn.
    pub topics: Vec<Topic>,
    /// The names of its messages.
    pub naming: Naming,
    /// Messages per second.
    pub rate: f64,
}

/// Publications and answers.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// Each message.
    pub publications: BTreeMap<Name, Publication>,
    /// Temporary refusals by code; `lost` for a request without an answer.
    pub refusals: BTreeMap<String, u64>,
    /// Times from the first attempt to the acknowledgement, in microseconds.
    pub latencies_us: Vec<u64>,
    /// The longest time without an acknowledgement.
    pub longest_silence: Duration,
}

/// A running publisher.
#[derive(Debug)]
pub struct Publisher {
    thread: JoinHandle<Published>,
    is_ending: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
}

impl Publisher {
    /// Begins.
    pub fn begin(nodes: &Nodes, clock: Clock, plan: Plan) -> Publisher {
        let is_ending = Arc::new(AtomicBool::new(false));
        let acknowledged = Arc::new(AtomicU64::new(0));
        let state = State {
            nodes: nodes.clone(),
            clock,
            is_ending: is_ending.clone(),
            acknowledged: acknowledged.clone(),
            random: Random(plan.number.into()),
            at: usize::from(plan.number),
            connection: None,
            unsettled: VecDeque::new(),
            created: 0,
            published: Published::default(),
            plan,
        };
        Publisher { thread: thread::spawn(|| state.run()), is_ending, acknowledged }
    }

    /// The number of acknowledged messages until now.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Stops creating messages, and returns when each has a final answer, or at the deadline.
    pub fn end(self) -> Published {
        self.is_ending.store(true, Ordering::Relaxed);
        self.thread.join().expect("a publisher without faults")
    }
}

/// The time limit for the last answers.
const END_PATIENCE: Duration = Duration::from_secs(180);

struct State {
    plan: Plan,
    nodes: Nodes,
    clock: Clock,
    is_ending: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
    random: Random,
    /// The node's place.
    at: usize,
    connection: Option<(String, BufReader<TcpStream>)>,
    /// Messages without a final answer, in their order.
    unsettled: VecDeque<Name>,
    created: u64,
    published: Published,
}

impl State {
    fn run(mut self) -> Published {
        let began = Instant::now();
        let mut move_at = began + self.stay();
        let mut end_by = None;
        let mut last = began;
        loop {
            if self.is_ending.load(Ordering::Relaxed) {
                let end_by = *end_by.get_or_insert_with(|| Instant::now() + END_PATIENCE);
                if self.unsettled.is_empty() || Instant::now() > end_by {
                    return self.published;
                }
            } else {
                self.create(began.elapsed());
            }
            if Instant::now() > move_at {
                self.go_on();
                move_at = Instant::now() + self.stay();
            }
            let before = self.acknowledged.load(Ordering::Relaxed);
            let pause = if self.send() { TICK } else { PAUSE };
            if self.acknowledged.load(Ordering::Relaxed) > before {
                let silence = &mut self.published.longest_silence;
                *silence = (*silence).max(last.elapsed());
                last = Instant::now();
            }
            thread::sleep(pause);
        }
    }

    fn stay(&mut self) -> Duration {
        Duration::from_millis(STAY_MS + self.random.below(STAY_MS))
    }

    /// Connects to the next node from now on.
    fn go_on(&mut self) {
        self.connection = None;
        self.at += 1;
    }

    /// Creates the messages that are due.
    fn create(&mut self, elapsed: Duration) {
        let due = (elapsed.as_secs_f64() * self.plan.rate) as u64;
        while self.created < due && self.unsettled.len() < UNSETTLED_MAX {
            self.created += 1;
            let name = Name { publisher: self.plan.number, number: self.created };
            let topic = self.plan.topics[self.created as usize % self.plan.topics.len()];
            let publication =
                Publication { topic, sent_us: self.clock.now_us(), outcome: Outcome::Unknown };
            self.published.publications.insert(name, publication);
            self.unsettled.push_back(name);
        }
    }

    /// Sends a batch of the oldest messages. Returns whether all of them have a final answer.
    fn send(&mut self) -> bool {
        let names: Vec<Name> = self.unsettled.iter().take(BATCH_MAX).copied().collect();
        if names.is_empty() {
            return true;
        }
        let messages: Vec<Value> = names.iter().map(|name| self.message(*name)).collect();
        let body = Value::Array(messages).to_string();
        let Some(answer) = self.exchange(&body) else {
            *self.published.refusals.entry("lost".into()).or_default() += 1;
            self.go_on();
            return false;
        };
        let Some(results) = answer["results"].as_array() else {
            self.refused(answer["code"].as_str().unwrap_or("none"));
            self.go_on();
            return false;
        };
        let at_us = self.clock.now_us();
        let mut settled = Vec::new();
        for (name, result) in names.iter().zip(results) {
            if self.settle(*name, result, at_us) {
                settled.push(*name);
            }
        }
        let is_all = settled.len() == names.len();
        let mut settled = settled.into_iter().peekable();
        // Both are in one order.
        self.unsettled.retain(|name| settled.next_if_eq(name).is_none());
        is_all
    }

    fn message(&self, name: Name) -> Value {
        let topic = topic_text(self.published.publications[&name].topic);
        let mut message = json!({"topic": topic, "data": name.payload()});
        match self.plan.naming {
            Naming::Sequence => {
                let id = format!("trial-{}", name.publisher);
                message["producer"] = json!({"id": id, "sequence": name.number});
            }
            Naming::Key => message["idempotency_key"] = name.payload().into(),
        }
        message
    }

    /// Notes the answer for a message. Returns whether it is final.
    fn settle(&mut self, name: Name, result: &Value, at_us: u64) -> bool {
        let outcome = if let Some(offset) = result["offset"].as_u64() {
            self.acknowledged.fetch_add(1, Ordering::Relaxed);
            Outcome::Acknowledged { at_us, offset }
        } else {
            let code = result["error"]["code"].as_str().unwrap_or("none").to_owned();
            // Its place in the sequence is taken: no repetition can be appended.
            if code != "out_of_order" {
                self.refused(&code);
                return false;
            }
            Outcome::Refused(code)
        };
        let publication = self.published.publications.get_mut(&name).expect("our message");
        if matches!(outcome, Outcome::Acknowledged { .. }) {
            self.published.latencies_us.push(at_us - publication.sent_us);
        }
        publication.outcome = outcome;
        true
    }

    fn refused(&mut self, code: &str) {
        *self.published.refusals.entry(code.to_owned()).or_default() += 1;
    }

    /// Posts a body. None if the node does not answer.
    fn exchange(&mut self, body: &str) -> Option<Value> {
        if self.connection.is_none() {
            let address = {
                let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
                nodes[self.at % nodes.len()].clone()
            };
            let stream = TcpStream::connect(&address).ok()?;
            stream.set_nodelay(true).ok()?;
            stream.set_read_timeout(Some(ANSWER_PATIENCE)).ok()?;
            self.connection = Some((address, BufReader::new(stream)));
        }
        let (address, stream) = self.connection.as_mut()?;
        post(stream, address, body)
    }
}

/// All publishers' outcomes together.
pub fn merged(all: Vec<Published>) -> Published {
    let mut sum = Published::default();
    for one in all {
        sum.publications.extend(one.publications);
        for (code, count) in one.refusals {
            *sum.refusals.entry(code).or_default() += count;
        }
        sum.latencies_us.extend(one.latencies_us);
        sum.longest_silence = sum.longest_silence.max(one.longest_silence);
    }
    sum.latencies_us.sort_unstable();
    sum
}
