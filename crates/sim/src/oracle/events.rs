//! The node's events on `$sys/...`, checked against the clients' knowledge: sessions, occupied
//! topics, and the world's own statistics.
//!
//! Every event was reported once, in the order of its topic; missing ones are in the counts of
//! events left out (because of a rate) or lost (without room at a home). The order of two topics in
//! one partition is known, too. Checked when all clients but the witness have left: then only the
//! witness is connected, and no topic is occupied.

use crate::plan::Plan;
use broker::sys;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The offsets of one topic's events, by their subject.
type Reported = BTreeMap<String, Vec<u64>>;

/// The witness's events, and the clients' knowledge.
#[derive(Default)]
pub struct Events {
    /// Offsets and events by topic, in order.
    told: BTreeMap<String, Vec<(u64, Value)>>,
    /// Connections with a session, by client and edge, in order.
    welcomed: BTreeMap<(usize, u64), Vec<u64>>,
    /// Topics with a subscription by name.
    heard: BTreeSet<usize>,
    /// The number of published statistics of the world.
    pub published: u64,
}

/// The events of one kind.
struct Kind {
    told: Reported,
    left_out: u64,
}

impl Kind {
    fn count(&self, about: &str) -> usize {
        self.told.get(about).map_or(0, Vec::len)
    }

    /// The number of events of `self` that `other` lacks.
    fn beyond(&self, other: &Kind) -> u64 {
        let beyond =
            |(about, at): (&String, &Vec<u64>)| at.len().saturating_sub(other.count(about));
        self.told.iter().map(beyond).sum::<usize>() as u64
    }
}

impl Events {
    /// Records the start of a client's session, with the node's identifier of the connection.
    pub fn welcomed(&mut self, client: usize, connection: u64) {
        let edge = connection >> 48;
        let known = self.welcomed.entry((client, edge)).or_default();
        known.push(connection);
    }

    /// Records a client's subscription to a topic by its name.
    pub fn heard(&mut self, topic: usize) {
        self.heard.insert(topic);
    }

    /// Records an event for the witness.
    ///
    /// # Errors
    /// The payload is not an event.
    pub fn told(&mut self, topic: &str, offset: u64, payload: &[u8]) -> Result<(), String> {
        let event: Value = serde_json::from_slice(payload)
            .map_err(|error| format!("offset {offset} of {topic} is not JSON: {error}"))?;
        let all = self.told.entry(topic.to_owned()).or_default();
        all.push((offset, event));
        Ok(())
    }

    /// The number of events left out and counted.
    pub fn left_out(&self) -> u64 {
        let all = self.told.values().flatten();
        all.filter_map(|(_, event)| event["left_out"].as_u64()).sum()
    }

    /// The number of the witness's events.
    pub fn count(&self) -> u64 {
        self.told.values().map(Vec::len).sum::<usize>() as u64
    }

    /// Checks all events. `lost` is the number of events without room.
    ///
    /// # Errors
    /// The contradiction.
    pub fn judge(&self, plan: &Plan, lost: u64) -> Result<(), String> {
        self.judge_statistics(plan, lost)?;
        // A count of left-out events may itself have been lost.
        let is_counted = lost == 0 || !plan.events_are_few();
        let connected = self.kind(sys::CLIENTS_CONNECTED, "connection")?;
        let disconnected = self.kind(sys::CLIENTS_DISCONNECTED, "connection")?;
        self.judge_sessions(plan, [&connected, &disconnected])?;
        let occupied = self.kind(sys::TOPICS_OCCUPIED, "topic")?;
        let vacated = self.kind(sys::TOPICS_VACATED, "topic")?;
        judge_alternation(plan, [&occupied, &vacated], lost)?;
        if !is_counted {
            return Ok(());
        }
        self.judge_missing([&connected, &disconnected], lost)?;
        self.judge_occupancy(plan, [&occupied, &vacated], lost)
    }

    fn kind(&self, topic: &str, about: &str) -> Result<Kind, String> {
        let mut told = Reported::new();
        let mut left_out = 0;
        for (offset, event) in self.told.get(topic).into_iter().flatten() {
            match (event[about].as_str(), event["left_out"].as_u64()) {
                (Some(about), None) => told.entry(about.to_owned()).or_default().push(*offset),
                (None, Some(count)) if count > 0 => left_out += count,
                _ => return Err(format!("{topic} contains {event}")),
            }
        }
        Ok(Kind { told, left_out })
    }

    fn judge_statistics(&self, plan: &Plan, lost: u64) -> Result<(), String> {
        let topic = sys::statistics_topic(&plan.settings.node_name);
        let all = self.told.get(&topic).into_iter().flatten();
        let numbers: Vec<u64> = all.filter_map(|(_, event)| event["number"].as_u64()).collect();
        let is_in_order = numbers.is_sorted_by(|one, next| one < next);
        let count = numbers.len() as u64;
        if !is_in_order || count > self.published || count + lost < self.published {
            let published = self.published;
            return Err(format!("{lost} lost of {published} statistics, and reported {numbers:?}"));
        }
        Ok(())
    }

    /// Checks that each session begins once and ends once, in this order.
    fn judge_sessions(
        &self,
        plan: &Plan,
        [connected, disconnected]: [&Kind; 2],
    ) -> Result<(), String> {
        for kind in [connected, disconnected] {
            if let Some((connection, at)) = kind.told.iter().find(|(_, at)| at.len() > 1) {
                return Err(format!("connection {connection} is reported at {at:?}"));
            }
        }
        if plan.is_one_partition(sys::CLIENTS_CONNECTED, sys::CLIENTS_DISCONNECTED) {
            for (connection, at) in &connected.told {
                let end = disconnected.told.get(connection);
                if end.is_some_and(|end| end[0] < at[0]) {
                    return Err(format!("connection {connection} has left before it came"));
                }
            }
        }
        // A client's connections to one edge are in that edge's order.
        for ((client, _), connections) in &self.welcomed {
            let at = |connection: &u64| connected.told.get(&connection.to_string());
            let told: Vec<u64> = connections.iter().filter_map(at).map(|at| at[0]).collect();
            if !told.is_sorted() {
                return Err(format!("sessions of client {client} are reported at {told:?}"));
            }
        }
        Ok(())
    }

    /// Checks that every missing session was counted as left out or lost; the witness is still
    /// connected.
    fn judge_missing(
        &self,
        [connected, disconnected]: [&Kind; 2],
        lost: u64,
    ) -> Result<(), String> {
        let known = self.welcomed.values().flatten();
        let is_missing = |connection: &&u64| connected.count(&connection.to_string()) == 0;
        let missing: Vec<u64> = known.filter(is_missing).copied().collect();
        if missing.len() as u64 > connected.left_out + lost {
            return Err(format!("sessions {missing:?} have begun, and nothing tells it"));
        }
        let untold = disconnected.beyond(connected);
        if untold > connected.left_out + lost {
            let ended = disconnected.told.keys();
            let is_untold = |connection: &&String| connected.count(connection) == 0;
            let of: Vec<&String> = ended.filter(is_untold).collect();
            return Err(format!("sessions {of:?} have ended that had not begun"));
        }
        let there = connected.beyond(disconnected);
        if there > 1 + disconnected.left_out + lost {
            return Err(format!("{there} sessions remain by the events"));
        }
        let is_whole = connected.left_out + disconnected.left_out + lost == 0;
        if is_whole && there != 1 {
            return Err(format!("only the witness remains, but {there} by the events"));
        }
        Ok(())
    }

    /// Checks that a topic with a subscription by name was occupied, and that all are vacated.
    fn judge_occupancy(
        &self,
        plan: &Plan,
        [occupied, vacated]: [&Kind; 2],
        lost: u64,
    ) -> Result<(), String> {
        let names = self.heard.iter().map(|topic| &plan.topics[*topic]);
        let missing = names.filter(|name| occupied.count(name) == 0);
        let missing: Vec<&String> = missing.collect();
        if missing.len() as u64 > occupied.left_out + lost {
            return Err(format!("nothing tells that {missing:?} were occupied"));
        }
        let still = occupied.beyond(vacated);
        let never = vacated.beyond(occupied);
        if still > vacated.left_out + lost || never > occupied.left_out + lost {
            return Err(format!(
                "no topic is occupied: {still} more times occupied than vacated, and {never} fewer"
            ));
        }
        Ok(())
    }
}

/// Checks that a topic alternates between occupied and vacated, if the order of both is visible and
/// no event is missing.
fn judge_alternation(
    plan: &Plan,
    [occupied, vacated]: [&Kind; 2],
    lost: u64,
) -> Result<(), String> {
    let is_ordered = plan.is_one_partition(sys::TOPICS_OCCUPIED, sys::TOPICS_VACATED);
    if !is_ordered || occupied.left_out + vacated.left_out + lost > 0 {
        return Ok(());
    }
    for (topic, begins) in &occupied.told {
        let ends = vacated.told.get(topic).map_or(&[][..], Vec::as_slice);
        let ends_before = [0].iter().chain(ends);
        let alternates = begins.iter().zip(ends_before).all(|(begin, end)| end < begin)
            && begins.iter().zip(ends).all(|(begin, end)| begin < end);
        if !alternates {
            return Err(format!("{topic} is occupied at {begins:?} and vacated at {ends:?}"));
        }
    }
    Ok(())
}
