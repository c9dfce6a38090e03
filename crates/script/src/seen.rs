//! The client's frames, connections, items and answers that no step has taken yet.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Value, json};

/// A connection that the client has asked for.
#[derive(Debug)]
pub struct Attempt {
    /// The name of its URL.
    pub url: String,
    /// The time of its begin.
    pub at_ms: u64,
}

/// Queues by kind, in the order of arrival.
#[derive(Debug)]
pub struct Seen {
    /// Attempts to connect.
    pub attempts: VecDeque<Attempt>,
    /// Frames.
    pub frames: VecDeque<Value>,
    /// Close codes of the client.
    pub closes: VecDeque<u16>,
    /// Items of each subscription.
    pub items: BTreeMap<String, VecDeque<Value>>,
    /// Results of calls.
    pub answers: BTreeMap<String, Value>,
    /// Calls of the token source.
    pub tokens: VecDeque<String>,
    /// The client's states since the last one that a step has found; the newest is the present.
    pub states: VecDeque<Value>,
    settled: BTreeSet<String>,
    /// An act that no scenario allows.
    pub violation: Option<String>,
}

impl Seen {
    pub fn new() -> Seen {
        Seen {
            attempts: VecDeque::new(),
            frames: VecDeque::new(),
            closes: VecDeque::new(),
            items: BTreeMap::new(),
            answers: BTreeMap::new(),
            tokens: VecDeque::new(),
            states: VecDeque::from([json!({"state": "connecting"})]),
            settled: BTreeSet::new(),
            violation: None,
        }
    }

    /// Takes an item, an answer, a state or a call of the token source; false for anything else.
    pub fn take(&mut self, effect: &Value) -> bool {
        if let Some(label) = effect["item"].as_str() {
            self.items.entry(label.to_owned()).or_default().push_back(effect.clone());
        } else if let Some(label) = effect["answer"].as_str() {
            if !self.settled.insert(label.to_owned()) {
                self.violation = Some(format!("the call `{label}` has settled twice: {effect}"));
            }
            self.answers.insert(label.to_owned(), effect.clone());
        } else if effect["state"].is_string() {
            self.states.push_back(effect.clone());
        } else if let Some(reason) = effect["token"].as_str() {
            // The first token is asked for in its own time.
            if reason != "first" {
                self.tokens.push_back(reason.to_owned());
            }
        } else {
            return false;
        }
        true
    }

    /// The next item of `label`; one that settles only the cursor is passed over unless it is the
    /// expected one.
    pub fn item(&mut self, label: &str, kind: &str) -> Option<&Value> {
        let items = self.items.get_mut(label)?;
        while kind != "caught_up" && items.front().is_some_and(is_caught_up) {
            items.pop_front();
        }
        items.front()
    }

    /// Anything that no step has taken.
    pub fn leftover(&self) -> Option<String> {
        let items = self.items.values().flatten().find(|item| !is_caught_up(item));
        if let Some(violation) = &self.violation {
            return Some(violation.clone());
        }
        if let Some(frame) = self.frames.front() {
            return Some(format!("the client sent {frame}"));
        }
        if let Some(attempt) = self.attempts.front() {
            return Some(format!("the client connects to {}", attempt.url));
        }
        if let Some(code) = self.closes.front() {
            return Some(format!("the client closed the connection with {code}"));
        }
        if let Some(item) = items {
            return Some(format!("the client showed {item}"));
        }
        if let Some(answer) = self.answers.values().next() {
            return Some(format!("the client settled {answer}"));
        }
        self.tokens.front().map(|reason| format!("the client asked for a token: {reason}"))
    }
}

fn is_caught_up(item: &Value) -> bool {
    item["kind"] == "caught_up"
}
