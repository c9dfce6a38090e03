//! What a subscriber to filters was told, partition by partition, where the answer to its
//! subscription names no positions: event streams, and the session of crate `client`.
//!
//! At the end each partition is judged for every topic that the filters cover there: what lies
//! between its start and what is claimed to be settled has come, once and in order, or was
//! announced as lost.

use crate::oracle::{Hole, Oracle, Run, check_skip, matches};
use crate::plan::Plan;
use broker::settings::LagPolicy;
use std::collections::BTreeMap;

/// A log's partition, and which node speaks of it.
pub type Place = (u32, u32);

/// See the module.
pub struct Covering {
    /// Of the world; all of them have the same cursors.
    pub filters: Vec<usize>,
    client: usize,
    /// The topics that some filter covers, by partition.
    topics: BTreeMap<u32, Vec<usize>>,
    /// Those of which a position is known.
    parts: BTreeMap<u32, Part>,
}

/// What is known of one partition.
struct Part {
    /// Its topic means nothing.
    run: Run,
    seen: BTreeMap<usize, Vec<u64>>,
    /// The position says nothing to this node: a gap over all is due before anything else.
    must_announce: bool,
}

impl Covering {
    /// Nothing is known yet.
    pub fn new(client: usize, filters: Vec<usize>, plan: &Plan) -> Covering {
        let mut topics: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (topic, name) in plan.topics.iter().enumerate() {
            let covers = |filter: &usize| matches(&plan.filters[*filter], name);
            if filters.iter().any(covers) {
                topics.entry(plan.partition(topic)).or_default().push(topic);
            }
        }
        Covering { filters, client, topics, parts: BTreeMap::new() }
    }

    /// Whether some filter covers the topic.
    pub fn covers(&self, plan: &Plan, topic: usize) -> bool {
        let topics = self.topics.get(&plan.partition(topic));
        topics.is_some_and(|topics| topics.contains(&topic))
    }

    /// What becomes of the filters together when they lag: what all of them want, or a replay.
    pub fn policy(&self, plan: &Plan, own: Option<LagPolicy>) -> LagPolicy {
        let mut all = self.filters.iter().map(|filter| plan.policy_of_filter(*filter, own));
        let first = all.next().unwrap_or_default();
        match all.all(|policy| policy == first) {
            true => first,
            false => LagPolicy::Replay,
        }
    }

    /// Nothing that was told can be gone on from: it begins anew.
    pub fn forget(&mut self) {
        self.parts.clear();
    }

    /// The same, and what was claimed until now is judged.
    pub fn finish(&mut self, oracle: &mut Oracle) {
        for (partition, part) in std::mem::take(&mut self.parts) {
            part.keep(self.topics.get(&partition), oracle);
        }
    }

    /// It comes back with this position of a partition: what came after it will come again.
    pub fn go_back(&mut self, partition: u32, epoch: u64, offset: u64) {
        match self.parts.get_mut(&partition) {
            Some(part) if part.run.epoch == epoch => part.go_back(offset),
            _ => {
                let part = Part::at(self.client, epoch, offset);
                self.parts.insert(partition, part);
            }
        }
    }

    /// It has come back with its positions to this node.
    pub fn come_back(&mut self, oracle: &Oracle, instance: u32) {
        for (partition, part) in &mut self.parts {
            let (epoch, cursor) = (part.run.epoch, part.run.cursor);
            part.must_announce = !oracle.holds(*partition, epoch, cursor, instance);
        }
    }

    /// Whether something is known of this node's that a gap over all has to tell.
    pub fn must_announce(&self) -> bool {
        self.parts.values().any(|part| part.must_announce)
    }

    /// A message.
    pub fn on_message(
        &mut self,
        oracle: &Oracle,
        place: Place,
        topic: usize,
        offset: u64,
    ) -> Result<(), String> {
        let epoch = oracle.epoch(place.0, place.1);
        let first = || Part::at(self.client, epoch, offset - 1);
        let part = self.parts.entry(place.0).or_insert_with(first);
        part.turn_to(epoch)?;
        let cursor = part.run.cursor;
        if offset <= cursor {
            return Err(format!("{offset} was settled before: it is at {cursor}"));
        }
        part.run.cursor = offset;
        part.seen.entry(topic).or_default().push(offset);
        Ok(())
    }

    /// Something is lost.
    pub fn on_gap(&mut self, oracle: &mut Oracle, place: Place, hole: Hole) -> Result<(), String> {
        let epoch = oracle.epoch(place.0, place.1);
        // Who has begun live is told where with the first that happens there.
        let first = || Part::at(self.client, epoch, hole.from);
        let part = self.parts.entry(place.0).or_insert_with(first);
        if matches!(hole.reason, 1 | 2) {
            if !part.must_announce {
                return Err(format!("{hole:?} for a position that the node gave"));
            }
            let new = Part::at(self.client, epoch, 0);
            let old = std::mem::replace(part, new);
            old.keep(self.topics.get(&place.0), oracle);
        } else if hole.reason == 3 {
            return Err(format!("{hole:?}: no limit of a history is a filter's"));
        }
        part.turn_to(epoch)?;
        let cursor = part.run.cursor;
        if hole.to < cursor {
            return Err(format!("{hole:?} ends before {cursor}"));
        }
        part.run.take_hole(hole);
        Ok(())
    }

    /// Something was left out, as `policy` wants.
    pub fn on_skipped(
        &mut self,
        oracle: &Oracle,
        place: Place,
        hole: Hole,
        policy: LagPolicy,
    ) -> Result<(), String> {
        check_skip(policy, &hole)?;
        let epoch = oracle.epoch(place.0, place.1);
        let first = || Part::at(self.client, epoch, hole.from);
        let part = self.parts.entry(place.0).or_insert_with(first);
        part.turn_to(epoch)?;
        let cursor = part.run.cursor;
        if hole.from < cursor {
            return Err(format!("{hole:?} begins before {cursor}"));
        }
        part.run.take_hole(hole);
        Ok(())
    }

    /// Who comes back is served from behind this position.
    pub fn on_settled(
        &mut self,
        oracle: &Oracle,
        place: Place,
        (epoch, offset): (u64, u64),
    ) -> Result<(), String> {
        let expected = oracle.epoch(place.0, place.1);
        match self.parts.get_mut(&place.0) {
            // What it came with, or where it is.
            Some(part) if part.run.epoch == epoch && offset <= part.run.cursor => Ok(()),
            _ if epoch != expected => Err(format!(
                "settled {epoch}:{offset} of {}, and the log's epoch is {expected}",
                place.0
            )),
            Some(part) => {
                part.turn_to(epoch)?;
                part.run.cursor = part.run.cursor.max(offset);
                Ok(())
            }
            None => {
                let part = Part::at(self.client, epoch, offset);
                self.parts.insert(place.0, part);
                Ok(())
            }
        }
    }

    /// Everything has come by now: whether it has been seen up to each topic's last message.
    pub fn is_past_markers(&self, oracle: &Oracle) -> Result<(), String> {
        for (partition, topics) in &self.topics {
            for topic in topics {
                let run = match self.parts.get(partition) {
                    Some(part) => part.run_of(*topic),
                    None => Run { topic: *topic, ..Run::default() },
                };
                let result = oracle.is_past_marker(&run);
                result.map_err(|text| format!("of topic {topic} {text}"))?;
            }
        }
        Ok(())
    }
}

impl Part {
    fn at(client: usize, epoch: u64, offset: u64) -> Part {
        Part {
            run: Run { client, epoch, from: offset, cursor: offset, ..Run::default() },
            seen: BTreeMap::new(),
            must_announce: false,
        }
    }

    fn go_back(&mut self, offset: u64) {
        let run = &mut self.run;
        run.holes.retain(|hole| hole.from < offset);
        for hole in &mut run.holes {
            hole.to = hole.to.min(offset);
        }
        (run.from, run.cursor) = (run.from.min(offset), offset);
        for seen in self.seen.values_mut() {
            seen.retain(|seen| *seen <= offset);
        }
    }

    /// The node speaks of the partition: what is known holds by its epoch, unless a gap over all is
    /// due.
    fn turn_to(&mut self, epoch: u64) -> Result<(), String> {
        if self.must_announce {
            let run = &self.run;
            let (old, cursor) = (run.epoch, run.cursor);
            return Err(format!("{old}:{cursor} is gone, and no gap was told"));
        }
        self.run.continue_in(epoch);
        Ok(())
    }

    fn run_of(&self, topic: usize) -> Run {
        Run { topic, seen: self.seen.get(&topic).cloned().unwrap_or_default(), ..self.run.clone() }
    }

    fn keep(&self, topics: Option<&Vec<usize>>, oracle: &mut Oracle) {
        for topic in topics.into_iter().flatten() {
            oracle.keep_run(self.run_of(*topic));
        }
    }
}
