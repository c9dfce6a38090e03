//! Compares what the clients have reported with the ledger.
//!
//! For each subscription, every message of its topics from its begin is an item or lies inside a
//! gap or skip, exactly once, in order, with the same payload, and its report agrees. Each call
//! settled once; each acknowledged publication is in the log where the acknowledgement says; with
//! `once` exactly once, otherwise at most once; those of a client are in the order of its calls.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::fleet::ledger::{Ledger, Partition, log_of};
use crate::fleet::node::{KEPT_PARTITIONS, SHORT};
use crate::fleet::plan::{self, Work};
use crate::fleet::record::{Client, END, Event, Fleet, Place, Report};

/// The prefix of payloads that the harness itself publishes, beside [`END`].
pub const OWN: &str = "harness.";

/// The clients' work with one SDK.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Messages handed on.
    pub messages: u64,
    /// Gaps by cause.
    pub gaps: BTreeMap<String, u64>,
    /// Publications with `once` in the logs.
    pub once: u64,
    /// Publications without it in the logs.
    pub plain: u64,
    /// Failed publications by error.
    pub failed: BTreeMap<String, u64>,
}

impl fmt::Display for Figures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { messages, gaps, once, plain, failed } = self;
        let listed = |counts: &BTreeMap<String, u64>| {
            let words = counts.iter().map(|(name, count)| format!("{count} {name}"));
            words.collect::<Vec<_>>().join(", ")
        };
        write!(formatter, "{messages} messages received, gaps: {}; ", listed(gaps))?;
        write!(formatter, "{once} published with once, {plain} without; ")?;
        write!(formatter, "failed calls: {}", listed(failed))
    }
}

/// All that must have come, and where.
#[derive(Debug)]
pub struct Oracle {
    ledger: Ledger,
    places: Places,
    by_filter: BTreeMap<String, Offsets>,
}

impl Oracle {
    /// An oracle for these fleets.
    pub fn new(fleets: &[Fleet], ledger: &Ledger) -> Oracle {
        let ledger = with_acknowledged(fleets, ledger);
        let places = places_by_payload(&ledger);
        let mut by_filter = BTreeMap::new();
        for client in fleets.iter().flat_map(|fleet| &fleet.clients) {
            if let Work::Subscribe { filter, .. } = &client.work {
                let offsets = || offsets_of(filter, &ledger);
                by_filter.entry(filter.clone()).or_insert_with(offsets);
            }
        }
        Oracle { ledger, places, by_filter }
    }

    /// The faults of a fleet, and what it did.
    pub fn check(&self, fleet: &Fleet) -> (Vec<String>, Figures) {
        let mut figures = Figures::default();
        let mut all = Vec::new();
        for (number, client) in fleet.clients.iter().enumerate() {
            let faults = match &client.work {
                Work::Subscribe { filter, since, .. } => {
                    let since = since.as_deref().and_then(Place::parse);
                    self.check_subscription((filter, since), client, &mut figures)
                }
                Work::Publish { topics, is_once } => {
                    let calls = Calls { name: &fleet.name, number, topics, is_once: *is_once };
                    calls.check(client, &self.places, &self.ledger, &mut figures)
                }
            };
            all.extend(faults.iter().map(|fault| format!("{}.{number}: {fault}", fleet.name)));
        }
        (all, figures)
    }

    /// The faults of the logs themselves.
    pub fn check_logs(&self, fleets: &[Fleet]) -> Vec<String> {
        [self.ledger.faults.clone(), strangers(fleets, &self.ledger)].concat()
    }

    fn check_subscription(
        &self,
        (filter, since): (&str, Option<Place>),
        client: &Client,
        figures: &mut Figures,
    ) -> Vec<String> {
        let mut walk = Walk {
            filter,
            messages: &self.by_filter[filter],
            ledger: &self.ledger,
            cursors: BTreeMap::new(),
            faults: Vec::new(),
        };
        if let (Some(since), Some(partition)) = (since, self.ledger.partition(filter)) {
            walk.cursors.insert(partition, since.offset);
        }
        let mut seen = Report { is_complete: true, ..Report::default() };
        let mut reports = 0;
        for event in &client.events {
            match event {
                Event::Message { topic, at, data } => {
                    figures.messages += 1;
                    seen.messages += 1;
                    walk.message(topic, *at, data);
                }
                Event::Gap { from, to, cause, partition } => {
                    *figures.gaps.entry(cause.clone()).or_default() += 1;
                    seen.gaps += 1;
                    walk.gap(*from, *to, cause, *partition);
                }
                Event::Skipped { through, partition, .. } => {
                    seen.skips += 1;
                    walk.settle(*partition, *through);
                }
                Event::CaughtUp { at, partition } => walk.caught_up(at.offset, *partition),
                Event::Report(report) => {
                    reports += 1;
                    seen.is_complete = seen.gaps == 0 && seen.skips == 0;
                    walk.report(report, &seen);
                }
                other => walk.faults.push(format!("unexpected: {other:?}")),
            }
        }
        if reports != 1 {
            walk.faults.push(format!("{reports} reports"));
        }
        walk.end();
        walk.faults
    }
}

/// Between two looks the log with little room may drop a message that was acknowledged.
fn with_acknowledged(fleets: &[Fleet], ledger: &Ledger) -> Ledger {
    let mut ledger = ledger.clone();
    for fleet in fleets {
        for (number, client) in fleet.clients.iter().enumerate() {
            let Work::Publish { topics, .. } = &client.work else { continue };
            for event in &client.events {
                let Event::Acknowledged { call, at } = event else { continue };
                let topic = &topics[*call as usize % topics.len()];
                if log_of(topic) == SHORT {
                    ledger.add_dropped(topic, at.offset, plan::payload(&fleet.name, number, *call));
                }
            }
        }
    }
    ledger
}

type Offsets = BTreeMap<Partition, BTreeSet<u64>>;

/// The offsets of the messages that a filter covers.
fn offsets_of(filter: &str, ledger: &Ledger) -> Offsets {
    let mut offsets = Offsets::new();
    for (partition, offset, _) in
        ledger.all().filter(|(.., entry)| plan::covers(filter, &entry.topic))
    {
        offsets.entry(partition).or_default().insert(offset);
    }
    offsets
}

/// The items of one subscription, one after the other.
struct Walk<'a> {
    filter: &'a str,
    messages: &'a Offsets,
    ledger: &'a Ledger,
    cursors: BTreeMap<Partition, u64>,
    faults: Vec<String>,
}

impl Walk<'_> {
    /// The partition of an item: a topic's own, or that of a filter's item.
    fn partition(&self, partition: Option<u64>) -> Option<Partition> {
        partition.or_else(|| self.ledger.partition(self.filter))
    }

    fn message(&mut self, topic: &str, at: Place, data: &str) {
        if !plan::covers(self.filter, topic) {
            self.faults.push(format!("a message of {topic} at {}", at.offset));
            return;
        }
        let Some(partition) = self.ledger.partition(topic) else {
            self.faults.push(format!("a message of the unknown topic {topic}"));
            return;
        };
        match self.ledger.entry(partition, at.offset) {
            Some(entry) if entry.topic == topic && entry.data == data => {}
            // It was never acknowledged, and dropped before anybody could look.
            None if log_of(topic) == SHORT => {}
            other => {
                self.faults.push(format!("{topic} {} is {data}, the log has {other:?}", at.offset))
            }
        }
        match self.cursors.get(&partition) {
            Some(&cursor) if at.offset <= cursor => {
                self.faults.push(format!("{topic} {} twice or late, behind {cursor}", at.offset));
                return;
            }
            Some(&cursor) => self.nothing_between(partition, cursor, at.offset - 1),
            None => {}
        }
        self.cursors.insert(partition, at.offset);
    }

    fn gap(&mut self, from: Option<Place>, to: Option<Place>, cause: &str, partition: Option<u64>) {
        let (Some(to), Some(partition)) = (to, self.partition(partition)) else {
            self.faults.push(format!("a gap without an end: {cause}"));
            return;
        };
        let causes: &[&str] = match partition {
            0..KEPT_PARTITIONS => &["unknown_epoch", "damaged"],
            _ => &["evicted"],
        };
        if !causes.contains(&cause) {
            self.faults.push(format!("a gap from {from:?} to {to:?} with the cause {cause}"));
        }
        let cursor = self.cursors.get(&partition).copied();
        if cursor.is_some() && from.map(|from| from.offset) != cursor {
            self.faults.push(format!("a gap begins at {from:?}, not at {cursor:?}"));
        }
        if let Some(cursor) = cursor.filter(|cursor| *cursor < to.offset) {
            let hidden = self.messages.get(&partition).into_iter();
            let hidden = hidden.flat_map(|offsets| offsets.range(cursor + 1..=to.offset));
            let count = hidden.filter(|offset| self.ledger.is_last(partition, **offset)).count();
            if count > 0 {
                self.faults.push(format!("a gap up to {to:?} hides {count} messages of the log"));
            }
        }
        // In a new epoch the topic begins anew, and says so.
        let is_new = from.is_some_and(|from| from.epoch != to.epoch);
        if cursor.is_some_and(|cursor| to.offset < cursor) && !is_new {
            self.faults.push(format!("a gap ends at {to:?}, before {cursor:?}"));
        }
        self.cursors.insert(partition, to.offset);
    }

    fn caught_up(&mut self, offset: u64, partition: Option<u64>) {
        let Some(partition) = self.partition(partition) else { return };
        match self.cursors.get(&partition) {
            Some(&cursor) if offset <= cursor => return,
            Some(&cursor) => self.nothing_between(partition, cursor, offset),
            None => {}
        }
        self.cursors.insert(partition, offset);
    }

    fn settle(&mut self, partition: Option<u64>, through: u64) {
        if let Some(partition) = self.partition(partition) {
            let cursor = self.cursors.entry(partition).or_default();
            *cursor = through.max(*cursor);
        }
    }

    /// Reports messages behind `from` up to `through`.
    fn nothing_between(&mut self, partition: Partition, from: u64, through: u64) {
        let Some(offsets) = self.messages.get(&partition) else { return };
        if from < through {
            for offset in offsets.range(from + 1..=through) {
                let entry = self.ledger.entry(partition, *offset);
                self.faults.push(format!("{offset} is missing without a gap: {entry:?}"));
            }
        }
    }

    fn report(&mut self, report: &Report, seen: &Report) {
        let numbers = |it: &Report| (it.is_complete, it.gaps, it.skips, it.messages);
        if numbers(report) != numbers(seen) {
            self.faults.push(format!("the report is {report:?}, the items are {seen:?}"));
        }
        for (partition, place) in &report.cursors {
            let cursor = self.partition(*partition).and_then(|it| self.cursors.get(&it));
            if cursor.is_some_and(|cursor| *cursor != place.offset) {
                self.faults
                    .push(format!("the report is at {}, the items at {cursor:?}", place.offset));
            }
        }
    }

    /// Nothing may be left behind the cursors.
    fn end(&mut self) {
        for (partition, offsets) in self.messages {
            let Some(cursor) = self.cursors.get(partition) else {
                self.faults.push(format!("nothing came of partition {partition:?}"));
                continue;
            };
            let behind = offsets.range(cursor + 1..);
            let left = behind.filter(|offset| self.ledger.is_last(*partition, **offset)).count();
            if left > 0 {
                self.faults.push(format!("{left} messages behind {cursor} never came"));
            }
        }
    }
}

/// The calls of one publisher.
struct Calls<'a> {
    name: &'a str,
    number: usize,
    topics: &'a [String],
    is_once: bool,
}

type Places = BTreeMap<String, Vec<(Partition, u64)>>;

fn places_by_payload(ledger: &Ledger) -> Places {
    let mut places = Places::new();
    for (partition, offset, entry) in ledger.all().filter(|(.., entry)| entry.data != END) {
        places.entry(entry.data.clone()).or_default().push((partition, offset));
    }
    places
}

impl Calls<'_> {
    fn check(
        &self,
        client: &Client,
        places: &Places,
        ledger: &Ledger,
        figures: &mut Figures,
    ) -> Vec<String> {
        let mut faults = Vec::new();
        let mut results: BTreeMap<u64, Vec<Result<Place, &str>>> = BTreeMap::new();
        for event in &client.events {
            match event {
                Event::Acknowledged { call, at } => results.entry(*call).or_default().push(Ok(*at)),
                Event::Failed { call, error } => {
                    *figures.failed.entry(error.clone()).or_default() += 1;
                    results.entry(*call).or_default().push(Err(error));
                }
                other => faults.push(format!("unexpected: {other:?}")),
            }
        }
        let mut order: BTreeMap<Partition, Vec<(u64, u64)>> = BTreeMap::new();
        for call in 1..=client.calls {
            let found = places.get(&plan::payload(self.name, self.number, call));
            let found = found.map_or(&[][..], Vec::as_slice);
            match results.remove(&call).unwrap_or_default()[..] {
                [result] => faults.extend(self.check_call((call, result), found, ledger)),
                ref other => faults.push(format!("call {call} settled as {other:?}")),
            }
            let count = if self.is_once { &mut figures.once } else { &mut figures.plain };
            *count += u64::from(!found.is_empty());
            for (partition, offset) in found.iter().filter(|it| ledger.is_last(it.0, it.1)) {
                order.entry(*partition).or_default().push((*offset, call));
            }
        }
        faults.extend(results.keys().map(|call| format!("nobody made the call {call}")));
        for offsets in order.values().filter(|offsets| !offsets.is_sorted()) {
            faults.push(format!("calls are out of order: {offsets:?}"));
        }
        faults
    }

    fn check_call(
        &self,
        (call, result): (u64, Result<Place, &str>),
        found: &[(Partition, u64)],
        ledger: &Ledger,
    ) -> Option<String> {
        let topic = &self.topics[call as usize % self.topics.len()];
        let last = found.iter().filter(|it| ledger.is_last(it.0, it.1)).count();
        // A restore takes messages away; a publication with `once` that was not acknowledged until
        // then comes again.
        let most = if self.is_once { last } else { found.len() };
        if most > 1 {
            return Some(format!("call {call} is in the log {most} times: {found:?}"));
        }
        let partition = ledger.partition(topic);
        match result {
            Ok(at) => {
                let is_there = found.iter().any(|it| Some(it.0) == partition && it.1 == at.offset);
                let was_lost = partition.is_some_and(|it| ledger.is_lost(it, at.offset));
                let was_dropped = log_of(topic) == SHORT;
                let is_kept = was_lost || was_dropped || last == 1;
                (!is_there || !is_kept)
                    .then(|| format!("call {call}, acknowledged at {at:?}, is at {found:?}"))
            }
            Err("Expired" | "QueueFull" | "Closed" | "InvalidArgument") if !found.is_empty() => {
                Some(format!("call {call} was not sent ({result:?}), and is at {found:?}"))
            }
            Err(_) => None,
        }
    }
}

/// Messages in the log without a publisher.
fn strangers(fleets: &[Fleet], ledger: &Ledger) -> Vec<String> {
    let is_known = |topic: &str, data: &str| {
        if data == END || data.starts_with(OWN) {
            return true;
        }
        let mut parts = data.split('.');
        let fleet = parts.next().and_then(|name| fleets.iter().find(|it| it.name == name));
        let number = parts.next().and_then(|text| text.parse::<usize>().ok());
        let call = parts.next().and_then(|text| text.parse::<u64>().ok());
        let (Some(fleet), Some(number), Some(call)) = (fleet, number, call) else { return false };
        let Some(client) = fleet.clients.get(number) else { return false };
        let Work::Publish { topics, .. } = &client.work else { return false };
        call <= client.calls && topics[call as usize % topics.len()] == topic
    };
    let strangers = ledger.all().filter(|(.., entry)| !is_known(&entry.topic, &entry.data));
    strangers.map(|(_, offset, entry)| format!("nobody published {entry:?} at {offset}")).collect()
}
