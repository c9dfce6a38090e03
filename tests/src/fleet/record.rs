//! The reports of all clients, each client's in their order.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fleet::plan::{self, Work};

/// The error of a call whose process was killed before its answer.
const ABANDONED: &str = "Abandoned";

/// The payload of each topic's last message.
pub const END: &str = "end";

/// A place in a log. Offsets of a partition are never used twice, in no epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The epoch.
    pub epoch: u64,
    /// The offset in the partition.
    pub offset: u64,
}

impl Place {
    /// Reads `EPOCH:OFFSET`.
    pub fn parse(text: &str) -> Option<Place> {
        let (epoch, offset) = text.split_once(':')?;
        Some(Place { epoch: epoch.parse().ok()?, offset: offset.parse().ok()? })
    }
}

/// A line of a driver about one of its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message of the subscription.
    Message {
        /// Its topic.
        topic: String,
        /// Its place.
        at: Place,
        /// The payload.
        data: String,
    },
    /// Messages are missing behind `from`, up to and including `to`.
    Gap {
        /// The last settled place, if known.
        from: Option<Place>,
        /// The end, if known.
        to: Option<Place>,
        /// The cause.
        cause: String,
        /// The partition, for a filter.
        partition: Option<u64>,
    },
    /// Messages were left out on purpose, behind `from` and up to and including `through`.
    Skipped {
        /// The offset before.
        from: u64,
        /// The last offset.
        through: u64,
        /// The partition, for a filter.
        partition: Option<u64>,
    },
    /// Everything up to here has been delivered or reported.
    CaughtUp {
        /// The place.
        at: Place,
        /// The partition, for a filter.
        partition: Option<u64>,
    },
    /// A publication is in the log.
    Acknowledged {
        /// The number of the call.
        call: u64,
        /// Its place.
        at: Place,
    },
    /// A publication failed.
    Failed {
        /// The number of the call.
        call: u64,
        /// The name of the error.
        error: String,
    },
    /// The report of the subscription at its end.
    Report(Report),
    /// The subscription or the client ended by itself.
    Ended(String),
}

/// The SDK's own account of a subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// No gap and no skip.
    pub is_complete: bool,
    /// The number of gaps.
    pub gaps: u64,
    /// The number of skips.
    pub skips: u64,
    /// The number of messages.
    pub messages: u64,
    /// The cursor of a topic, or the cursors of a filter by partition.
    pub cursors: Vec<(Option<u64>, Place)>,
}

/// The clients of one driver.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// The name of the SDK.
    pub name: String,
    /// The clients, by number.
    pub clients: Vec<Client>,
}

/// One client.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its work.
    pub work: Work,
    /// The number of its calls so far.
    pub calls: u64,
    /// The events of its lines, in order.
    pub events: Vec<Event>,
    /// Topics of which it has a message, and topics whose last message it has.
    topics: BTreeSet<String>,
    ends: BTreeSet<String>,
}

/// All that is known; drivers add, the harness waits.
#[derive(Clone, Debug, Default)]
pub struct Record {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// The state of a record.
#[derive(Debug, Default)]
pub struct State {
    /// The fleets.
    pub fleets: Vec<Fleet>,
    /// Settled calls.
    pub settled: u64,
    /// Unknown lines, and drivers that ended too early.
    pub faults: Vec<String>,
}

impl Record {
    /// Adds a fleet; returns its number.
    pub fn add_fleet(&self, name: &str, works: &[Work]) -> usize {
        let clients = works.iter().map(|work| Client {
            work: work.clone(),
            calls: 0,
            events: Vec::new(),
            topics: BTreeSet::new(),
            ends: BTreeSet::new(),
        });
        let mut state = self.state();
        state.fleets.push(Fleet { name: name.to_owned(), clients: clients.collect() });
        state.fleets.len() - 1
    }

    /// The present state.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line of a driver.
    pub fn add_line(&self, fleet: usize, line: &str) {
        let parsed = serde_json::from_str::<Value>(line).ok();
        let event = parsed.and_then(|value| Some((value["of"].as_u64()?, event_of(&value)?)));
        let mut state = self.state();
        let name = state.fleets[fleet].name.clone();
        match event {
            Some((client, event)) => state.add(fleet, client as usize, event),
            None => state.faults.push(format!("{name}: {line}")),
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// The process of a fleet was killed: its unanswered calls will not be answered, although what
    /// the SDK has stored of them is still published.
    pub fn abandon_calls(&self, fleet: usize) {
        let mut state = self.state();
        for number in 0..state.fleets[fleet].clients.len() {
            let client = &state.fleets[fleet].clients[number];
            let settled = client.events.iter().filter_map(|event| match event {
                Event::Acknowledged { call, .. } | Event::Failed { call, .. } => Some(*call),
                _ => None,
            });
            let settled: BTreeSet<u64> = settled.collect();
            let calls = (1..=client.calls).filter(|call| !settled.contains(call));
            for call in calls.collect::<Vec<u64>>() {
                state.add(fleet, number, Event::Failed { call, error: ABANDONED.to_owned() });
            }
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Waits until `is_done`, a fault, or the deadline; false unless it is done.
    pub fn wait(&self, patience: Duration, is_done: impl Fn(&State) -> bool) -> bool {
        let deadline = Instant::now() + patience;
        let mut state = self.state();
        while !is_done(&state) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !state.faults.is_empty() {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl State {
    fn add(&mut self, fleet: usize, client: usize, event: Event) {
        match &event {
            Event::Acknowledged { .. } | Event::Failed { .. } => self.settled += 1,
            Event::Ended(why) => {
                let name = &self.fleets[fleet].name;
                self.faults.push(format!("{name}.{client} has ended: {why}"));
            }
            _ => {}
        }
        let Some(client) = self.fleets[fleet].clients.get_mut(client) else {
            self.faults.push(format!("no client {client}: {event:?}"));
            return;
        };
        if let Event::Message { topic, data, .. } = &event {
            client.topics.insert(topic.clone());
            if data == END {
                client.ends.insert(topic.clone());
            }
        }
        client.events.push(event);
    }

    /// The subscribers with their names.
    pub fn subscribers(&self) -> impl Iterator<Item = (String, &Client)> {
        self.fleets.iter().flat_map(|fleet| {
            let clients = fleet.clients.iter().enumerate();
            let named = clients.map(|(number, it)| (format!("{}.{number}", fleet.name), it));
            named.filter(|(_, it)| matches!(it.work, Work::Subscribe { .. }))
        })
    }

    /// Whether each subscriber has a message of each topic that it covers, out of these.
    pub fn all_have_begun(&self, topics: &[String]) -> bool {
        self.lacking(topics, |client| &client.topics).next().is_none()
    }

    /// Whether a subscriber of each fleet that has some has a message with this payload.
    pub fn all_have(&self, payload: &str) -> bool {
        let is_it = |event: &Event| matches!(event, Event::Message { data, .. } if data == payload);
        let has_it = |client: &Client| client.events.iter().rev().any(is_it);
        let reads = |client: &Client| matches!(client.work, Work::Subscribe { .. });
        let mut fleets = self.fleets.iter().filter(|fleet| fleet.clients.iter().any(reads));
        fleets.all(|fleet| fleet.clients.iter().any(has_it))
    }

    /// The subscribers that lack the last message of a topic, out of these.
    pub fn without_end(&self, topics: &[String]) -> Vec<String> {
        let lacking = self.lacking(topics, |client| &client.ends);
        let shown = |(name, client): (String, &Client)| {
            let (work, count) = (&client.work, client.ends.len());
            format!("{name} ({work:?}) has {count} ends; its last item: {:?}", client.events.last())
        };
        lacking.map(shown).collect()
    }

    fn lacking(
        &self,
        topics: &[String],
        has: impl Fn(&Client) -> &BTreeSet<String>,
    ) -> impl Iterator<Item = (String, &Client)> {
        self.subscribers().filter(move |(_, client)| match &client.work {
            Work::Subscribe { filter, .. } => {
                topics.iter().any(|it| plan::covers(filter, it) && !has(client).contains(it))
            }
            Work::Publish { .. } => false,
        })
    }
}

fn event_of(line: &Value) -> Option<Event> {
    let text = |name: &str| line[name].as_str().map(str::to_owned);
    let place = |name: &str| line[name].as_str().and_then(Place::parse);
    let partition = line["partition"].as_u64();
    if let Some(call) = line["call"].as_u64() {
        return Some(match text("error") {
            Some(error) => Event::Failed { call, error },
            None => Event::Acknowledged { call, at: place("at")? },
        });
    }
    if line["report"].is_object() {
        return report_of(&line["report"]).map(Event::Report);
    }
    if let Some(why) = text("ended") {
        return Some(Event::Ended(why));
    }
    Some(match line["item"].as_str()? {
        "message" => {
            Event::Message { topic: text("topic")?, at: place("at")?, data: text("data")? }
        }
        "gap" => {
            Event::Gap { from: place("from"), to: place("to"), cause: text("cause")?, partition }
        }
        "skipped" => Event::Skipped {
            from: line["from"].as_u64()?,
            through: line["through"].as_u64()?,
            partition,
        },
        "caught_up" => Event::CaughtUp { at: place("at")?, partition },
        _ => return None,
    })
}

fn report_of(report: &Value) -> Option<Report> {
    let number = |name: &str| report[name].as_u64();
    let mut cursors = Vec::new();
    if let Some(text) = report["position"].as_str() {
        cursors.push((None, Place::parse(text)?));
    }
    for (partition, place) in report["positions"].as_object().into_iter().flatten() {
        cursors.push((Some(partition.parse().ok()?), Place::parse(place.as_str()?)?));
    }
    Some(Report {
        is_complete: report["complete"].as_bool()?,
        gaps: number("gaps")?,
        skips: number("skips")?,
        messages: number("messages")?,
        cursors,
    })
}
