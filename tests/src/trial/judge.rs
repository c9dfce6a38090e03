//! The rules of a trial. Each fault found is a line of text.
//!
//! 1. A position is one message, everywhere.
//! 2. Offsets rise at a subscriber. Messages and gaps cover everything that was acknowledged, that
//!    another producer wrote, or that another subscriber got.
//! 3. No message has two positions.
//! 4. A refused message was never delivered.
//! 5. A message that was sent after another's acknowledgement lies behind it.
//! 6. The histories of all nodes agree.
//! 7. There is no gap without a cause.
//! 8. The engine's own consumer finds each acknowledged message at its offset.
//!
//! After a fault that loses records (`may_lose`), an offset may be given again: rules 1, 3, 5 and 8
//! are then for the messages that the engine has at the end. A gap that leads its subscriber back
//! covers the lost messages behind its end that were sent before it; no other gap does.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::history::{History, Item, Name, Outcome, Seen, Topic, partition_of};

/// Lines of one rule at most: more say nothing new.
const LINES_MAX: usize = 5;

/// The result of a trial.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Faults, by the number of the rule.
    pub faults: BTreeMap<u8, Vec<String>>,
    /// Acknowledged messages.
    pub acknowledged: usize,
    /// Publications with a final refusal.
    pub refused: usize,
    /// Messages that subscribers got, all together.
    pub delivered: usize,
    /// Gaps that subscribers got, all together.
    pub gaps: usize,
    /// Acknowledged messages that the engine has lost.
    pub lost_by_engine: usize,
}

impl Verdict {
    /// Whether every rule holds.
    pub fn is_good(&self) -> bool {
        self.faults.is_empty()
    }

    fn fault(&mut self, rule: u8, text: impl FnOnce() -> String) {
        self.faults.entry(rule).or_default().push(text());
    }

    /// The lines of all faults, some of each rule.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (rule, faults) in &self.faults {
            lines.push(format!("rule {rule}: {} faults", faults.len()));
            lines.extend(faults.iter().take(LINES_MAX).map(|fault| format!("  {fault}")));
        }
        lines
    }
}

/// The place of each message in the engine: topic and offset.
type Places = HashMap<Name, (Topic, u64)>;

/// Judges a trial.
pub fn judge(history: &History) -> Verdict {
    let mut verdict = Verdict::default();
    let places = first_places(history);
    let delivered = delivered(history);
    for publication in history.publications.values() {
        match publication.outcome {
            Outcome::Acknowledged { .. } => verdict.acknowledged += 1,
            Outcome::Refused(_) => verdict.refused += 1,
            Outcome::Unknown => {}
        }
    }
    positions_name_one_message(history, &places, &mut verdict);
    for (number, seen) in history.subscribers.iter().enumerate() {
        subscriber_is_complete(history, [&places, &delivered], (number, seen), &mut verdict);
    }
    acknowledgements_order(history, &places, &mut verdict);
    nodes_agree(history, &mut verdict);
    engine_has_all(history, &places, &mut verdict);
    verdict
}

/// The place of each message in the engine. A message that a client repeated may be there twice:
/// then the first one counts, unless a node has acknowledged another one.
fn first_places(history: &History) -> Places {
    let mut places = Places::new();
    for kept in &history.engine {
        let acknowledged = history.publications.get(&kept.name).and_then(|it| match it.outcome {
            Outcome::Acknowledged { offset, .. } => Some(offset),
            Outcome::Unknown | Outcome::Refused(_) => None,
        });
        if acknowledged == Some(kept.offset) {
            places.insert(kept.name, (kept.topic, kept.offset));
        } else {
            places.entry(kept.name).or_insert((kept.topic, kept.offset));
        }
    }
    places
}

/// Rules 1 and 3, over acknowledgements and all subscribers.
fn positions_name_one_message(history: &History, places: &Places, verdict: &mut Verdict) {
    let mut messages: HashMap<(u32, u64), Name> = HashMap::new();
    let mut offsets: HashMap<Name, u64> = HashMap::new();
    let mut note = |topic: Topic, offset: u64, name: Name, verdict: &mut Verdict| {
        if history.may_lose && places.get(&name) != Some(&(topic, offset)) {
            return;
        }
        let other = *messages.entry((partition_of(topic), offset)).or_insert(name);
        if other != name {
            verdict.fault(1, || format!("{topic} {offset} is {other:?} and {name:?}"));
        }
        let other = *offsets.entry(name).or_insert(offset);
        if other != offset {
            verdict.fault(3, || format!("{name:?} on {topic} is at {other} and {offset}"));
        }
    };
    for (name, publication) in &history.publications {
        if let Outcome::Acknowledged { offset, .. } = publication.outcome {
            note(publication.topic, offset, *name, verdict);
        }
    }
    for item in history.subscribers.iter().flat_map(|seen| &seen.items) {
        if let Item::Message { topic, offset, name } = *item {
            note(topic, offset, name, verdict);
        }
    }
}

/// Rules 2, 3, 4 and 7 for one subscriber.
fn subscriber_is_complete(
    history: &History,
    [places, delivered]: [&Places; 2],
    (number, seen): (usize, &Seen),
    verdict: &mut Verdict,
) {
    let mut last: BTreeMap<Topic, u64> = BTreeMap::new();
    let mut got: HashMap<Name, (Topic, u64)> = HashMap::new();
    let mut gaps: BTreeMap<Topic, Vec<Told>> = BTreeMap::new();
    for item in &seen.items {
        match *item {
            Item::Message { topic, offset, name } => {
                verdict.delivered += 1;
                let last = last.entry(topic).or_default();
                if offset <= *last {
                    verdict.fault(2, || format!("subscriber {number}: {topic} {offset} <= {last}"));
                }
                *last = offset;
                if let Some((_, other)) = got.insert(name, (topic, offset)) {
                    verdict
                        .fault(3, || format!("subscriber {number}: {name:?} {other} and {offset}"));
                }
                let publication = history.publications.get(&name);
                if let Some(Outcome::Refused(code)) = publication.map(|it| &it.outcome) {
                    verdict.fault(4, || format!("subscriber {number}: {name:?} had {code}"));
                }
            }
            Item::Gap { topic, partition, from, to, leads_back, at_us } => {
                verdict.gaps += 1;
                if !history.may_lose {
                    verdict.fault(7, || {
                        format!("subscriber {number}: gap {topic:?} {partition} {from}..{to}, {leads_back}, at {at_us} us")
                    });
                }
                let of_gap =
                    |one: &Topic| topic.map_or(partition_of(*one) == partition, |it| it == *one);
                for topic in seen.topics.iter().copied().filter(of_gap) {
                    let led_back_us = leads_back.then_some(at_us);
                    gaps.entry(topic).or_default().push(Told { from, to, led_back_us });
                    // A gap of a new lineage may end before the last message: others follow it.
                    last.insert(topic, to);
                    got.retain(|_, (other, offset)| *other != topic || *offset <= to);
                }
            }
        }
    }
    nothing_is_missing(history, [places, delivered], (number, seen), (&got, &gaps), verdict);
}

/// A gap of a topic.
struct Told {
    from: u64,
    to: u64,
    /// Its time, if it leads the subscriber back.
    led_back_us: Option<u64>,
}

impl Told {
    /// Whether it covers a message, which was sent at this time if it is lost.
    fn covers(&self, offset: u64, lost_us: Option<u64>) -> bool {
        let was_before = || lost_us.zip(self.led_back_us).is_some_and(|(sent, told)| sent <= told);
        (self.from + 1..=self.to).contains(&offset) || offset > self.to && was_before()
    }
}

/// The messages of a subscriber, and its gaps.
type Got<'a> = (&'a HashMap<Name, (Topic, u64)>, &'a BTreeMap<Topic, Vec<Told>>);

/// Rule 2: messages and gaps cover everything.
fn nothing_is_missing(
    history: &History,
    [places, delivered]: [&Places; 2],
    (number, seen): (usize, &Seen),
    (got, gaps): Got<'_>,
    verdict: &mut Verdict,
) {
    let topics: BTreeSet<Topic> = seen.topics.iter().copied().collect();
    let mut owes = |topic: Topic, offset: u64, name: Name| {
        let is_lost = history.may_lose && places.get(&name) != Some(&(topic, offset));
        let sent_us = history.publications.get(&name).map_or(0, |it| it.sent_us);
        let is_in_gap = || {
            let mut gaps = gaps.get(&topic).into_iter().flatten();
            gaps.any(|gap| gap.covers(offset, is_lost.then_some(sent_us)))
        };
        if topics.contains(&topic) && !got.contains_key(&name) && !is_in_gap() {
            verdict.fault(2, || format!("subscriber {number}: no {name:?} on {topic} at {offset}"));
        }
    };
    for (name, publication) in &history.publications {
        if let Outcome::Acknowledged { offset, .. } = publication.outcome {
            owes(publication.topic, offset, *name);
        }
    }
    // Other producers' messages have no acknowledgement by a node.
    for (name, (topic, offset)) in places {
        if !history.publications.contains_key(name) {
            owes(*topic, *offset, *name);
        }
    }
    // A message of one subscriber reaches all others, whatever its publisher knows.
    for (name, (topic, offset)) in delivered {
        owes(*topic, *offset, *name);
    }
}

/// The place of each message that some subscriber has got.
fn delivered(history: &History) -> Places {
    let items = history.subscribers.iter().flat_map(|seen| &seen.items);
    let places = items.filter_map(|item| match *item {
        Item::Message { topic, offset, name } => Some((name, (topic, offset))),
        Item::Gap { .. } => None,
    });
    places.collect()
}

/// Rule 5.
fn acknowledgements_order(history: &History, places: &Places, verdict: &mut Verdict) {
    let mut by_topic: BTreeMap<Topic, Vec<(u64, u64, u64, Name)>> = BTreeMap::new();
    for (name, publication) in &history.publications {
        if let Outcome::Acknowledged { at_us, offset } = publication.outcome
            && (!history.may_lose || places.get(name) == Some(&(publication.topic, offset)))
        {
            let entry = (offset, publication.sent_us, at_us, *name);
            by_topic.entry(publication.topic).or_default().push(entry);
        }
    }
    for (topic, mut messages) in by_topic {
        messages.sort_unstable();
        let mut latest = (0, None);
        for (_, sent_us, at_us, name) in messages {
            if latest.0 > at_us {
                let other: Option<Name> = latest.1;
                verdict
                    .fault(5, || format!("{topic}: {other:?} came after, and is before {name:?}"));
            }
            latest = latest.max((sent_us, Some(name)));
        }
    }
}

/// Rule 6: nodes may reach back differently far, and agree where both have history.
fn nodes_agree(history: &History, verdict: &mut Verdict) {
    let Some((first, others)) = history.nodes.split_first() else { return };
    for (number, other) in (1..).zip(others) {
        for (topic, messages) in first {
            let theirs = other.get(topic).map(Vec::as_slice).unwrap_or_default();
            let common = messages.len().min(theirs.len());
            let ours = &messages[messages.len() - common..];
            let theirs = &theirs[theirs.len() - common..];
            let pair = ours.iter().zip(theirs).find(|(one, other)| one != other);
            if let Some((one, other)) = pair {
                verdict.fault(6, || format!("topic {topic}: n0 has {one:?}, n{number} {other:?}"));
            }
            if common == 0 && !messages.is_empty() {
                verdict.fault(6, || format!("topic {topic}: n{number} has no history"));
            }
        }
    }
}

/// Rule 8.
fn engine_has_all(history: &History, places: &Places, verdict: &mut Verdict) {
    for (name, publication) in &history.publications {
        let Outcome::Acknowledged { offset, .. } = publication.outcome else { continue };
        if places.get(name) == Some(&(publication.topic, offset)) {
            continue;
        }
        verdict.lost_by_engine += 1;
        if !history.may_lose {
            let found = places.get(name);
            verdict
                .fault(8, || format!("{name:?} was acknowledged at {offset}, and is at {found:?}"));
        }
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
