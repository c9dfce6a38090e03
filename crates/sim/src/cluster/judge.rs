//! The rules that are checked at the end of a world: the histories of all nodes against the
//! engine's log, publications that stand twice, refused ones that stand at all.

use super::engine::Engine;
use super::life::{Entry, Life};
use super::member::Member;
use super::oracle::{ClusterOracle, Fate, Seen, id_of};
use super::plan::ClusterPlan;
use super::verdict::Verdict;
use std::collections::BTreeMap;
use wire::native::Position;

/// Judges a world in which everything has arrived.
pub fn judge(oracle: &mut ClusterOracle, engine: &Engine, plan: &ClusterPlan, members: &[Member]) {
    for partition in &engine.partitions {
        for life in &partition.lives {
            if let Err(text) = check_copies(life, plan) {
                oracle.fail(None, text);
            }
        }
        // A publication that is lost may have been visible before it was refused.
        let life = partition.life();
        for entry in life.path().iter().map(|id| life.entry(*id)) {
            let id = entry.delivered().and_then(|record| id_of(&record.payload));
            let fate = id.and_then(|id| oracle.publications.get(id)).map(|it| it.fate);
            if fate == Some(Fate::Refused) {
                let offset = entry.offset;
                let text = format!("publication {id:?} was refused and stands at {offset}");
                oracle.fail(None, text);
            }
        }
    }
    for (client, member) in members.iter().enumerate() {
        let Some(node) = member.only() else {
            continue;
        };
        for (topic, received) in member.received() {
            if let Err(text) = check_history(engine, plan, node, topic, &received) {
                oracle.fail(client, format!("node {node}, topic {topic}: {text}"));
            }
        }
    }
}

/// Checks that subscribers that have begun with the retained message got the newest one that is
/// delivered. `members` are they, from the first one's number on.
pub fn judge_retained(
    oracle: &mut ClusterOracle,
    engine: &Engine,
    plan: &ClusterPlan,
    (first, members): (usize, &[Member]),
) {
    for (client, member) in (first..).zip(members) {
        for (topic, received) in member.received() {
            let life = engine.partitions[plan.partition(topic)].life();
            let name = plan.topics[topic].as_bytes();
            let entries = life.path().iter().rev().map(|id| life.entry(*id));
            let mut delivered = entries.filter_map(|entry| Some((entry, entry.delivered()?)));
            let newest = delivered.find(|(_, publication)| publication.topic[..] == *name);
            let retained = newest.filter(|(_, publication)| !publication.payload.is_empty());
            oracle.seen.retained += u64::from(retained.is_some());
            oracle.seen.removed += u64::from(newest.is_some() && retained.is_none());
            let expected = retained.map(|(entry, publication)| {
                (entry.offset, id_of(&publication.payload).unwrap_or(usize::MAX))
            });
            let got = received.last().map(|(position, id)| (position.offset, *id));
            if expected.is_some() && got != expected {
                let text = format!("retains {got:?} of topic {topic}, not {expected:?}");
                oracle.fail(client, text);
            }
        }
    }
}

/// Checks that a node has served the whole history of a topic above the offset that it serves, and
/// nothing else.
fn check_history(
    engine: &Engine,
    plan: &ClusterPlan,
    node: usize,
    topic: usize,
    received: &[(Position, usize)],
) -> Result<(), String> {
    let index = plan.partition(topic);
    let served = engine.served(node, index);
    let least = served.and_then(|served| served.at_least_above);
    let served_above = least.or(served.map(|served| served.above)).unwrap_or(u64::MAX);
    let life = engine.partitions[index].life();
    let name = plan.topics[topic].as_bytes();
    let mut expected = Vec::new();
    for id in life.path().iter().skip(served_above as usize) {
        let entry = life.entry(*id);
        if let Some(publication) = entry.delivered().filter(|it| it.topic[..] == *name) {
            expected.push((entry.offset, id_of(&publication.payload).unwrap_or(usize::MAX)));
        }
    }
    // A node may have had more, and may have dropped it while it was read.
    let is_due = |at: &u64| least.is_none() || *at > served_above;
    let received = received.iter().map(|(position, id)| (position.offset, *id));
    let received: Vec<(u64, usize)> = received.filter(|(offset, _)| is_due(offset)).collect();
    if received == expected {
        Ok(())
    } else {
        Err(format!("served above {served_above}: {received:?}, not {expected:?}"))
    }
}

/// Checks that a publication stands twice only if its window had passed in between.
fn check_copies(life: &Life, plan: &ClusterPlan) -> Result<(), String> {
    let window_ms = plan.engine.window_s * 1_000;
    let skew_ms = plan.engine.skews_ms.iter().max().copied().unwrap_or(0);
    let mut last: BTreeMap<usize, &Entry> = BTreeMap::new();
    let mut has: BTreeMap<usize, u64> = BTreeMap::new();
    for id in life.path() {
        let entry = life.entry(*id);
        let Some(publication) = entry.record().and_then(|(_, record)| id_of(&record.payload))
        else {
            continue;
        };
        // The names of copies do not count.
        let counts = !matches!(entry.verdict, Verdict::Copy | Verdict::Fenced);
        let before =
            if counts { last.insert(publication, entry) } else { last.get(&publication).copied() };
        if entry.verdict != Verdict::New {
            continue;
        }
        let first = has.insert(publication, entry.offset);
        let is_near = |before: &Entry| {
            entry.time_ms.saturating_sub(before.time_ms) + 1_000 + skew_ms < window_ms
        };
        if let (Some(first), Some(before)) = (first, before)
            && is_near(before)
        {
            let offset = entry.offset;
            return Err(format!("publication {publication} stands at {first} and at {offset}"));
        }
    }
    Ok(())
}

/// Counts the engine's entries.
pub fn count(seen: &mut Seen, engine: &Engine) {
    let lives = engine.partitions.iter().flat_map(|partition| &partition.lives);
    for entry in lives.flat_map(Life::entries) {
        seen.entries += 1;
        seen.dropped += u64::from(entry.record().is_some() && entry.verdict != Verdict::New);
        seen.restored += u64::from(entry.read().is_some() && entry.record().is_none());
        seen.compacted += u64::from(entry.is_compacted);
    }
}
