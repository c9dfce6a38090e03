//! A subscriber's view of filters, partition by partition, without positions in the answer to its
//! subscription: event streams, and the session of crate `client`.
//!
//! At the end each partition is checked for every topic of the filters: all messages between its
//! start and its settled position were received, once and in order, or reported as lost.

use crate::oracle::{Hole, Oracle, Run, check_skip, matches};
use crate::plan::Plan;
use broker::settings::LagPolicy;
use std::collections::BTreeMap;

/// A partition, and the node that it is reported by.
pub type Place = (u32, u32);

/// The view of the filters; see the module.
pub struct Covering {
    /// Indexes of the world's filters; all of them have the same cursors.
    pub filters: Vec<usize>,
    client: usize,
    /// The topics of the filters, by partition.
    topics: BTreeMap<u32, Vec<usize>>,
    /// The partitions with a known position.
    parts: BTreeMap<u32, Part>,
}

/// The known state of one partition.
struct Part {
    /// Its topic has no meaning.
    run: Run,
    seen: BTreeMap<usize, Vec<u64>>,
    /// The position is unknown to this node: it must first report a gap over everything.
    must_announce: bool,
}

impl Covering {
    /// Creates an empty view.
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

    /// Whether a filter matches the topic.
    pub fn covers(&self, plan: &Plan, topic: usize) -> bool {
        let topics = self.topics.get(&plan.partition(topic));
        topics.is_some_and(|topics| topics.contains(&topic))
    }

    /// The policy of the filters together: their common one, or a replay.
    pub fn policy(&self, plan: &Plan, own: Option<LagPolicy>) -> LagPolicy {
        let mut all = self.filters.iter().map(|filter| plan.policy_of_filter(*filter, own));
        let first = all.next().unwrap_or_default();
        if all.all(|policy| policy == first) { first } else { LagPolicy::Replay }
    }

    /// Discards all positions, because none is valid any more: the view begins anew.
    pub fn forget(&mut self) {
        self.parts.clear();
    }

    /// Passes all claims to the oracle, and begins anew.
    pub fn finish(&mut self, oracle: &mut Oracle) {
        for (partition, part) in std::mem::take(&mut self.parts) {
            part.keep(self.topics.get(&partition), oracle);
        }
    }

    /// Resumes a partition from this position: later messages will be repeated.
    pub fn go_back(&mut self, partition: u32, epoch: u64, offset: u64) {
        match self.parts.get_mut(&partition) {
            Some(part) if part.run.epoch == epoch => part.go_back(offset),
            _ => {
                let part = Part::at(self.client, epoch, offset);
                self.parts.insert(partition, part);
            }
        }
    }

    /// Resumes at this node with the present positions.
    pub fn come_back(&mut self, oracle: &Oracle, instance: u32) {
        for (partition, part) in &mut self.parts {
            let (epoch, cursor) = (part.run.epoch, part.run.cursor);
            part.must_announce = !oracle.holds(*partition, epoch, cursor, instance);
        }
    }

    /// Whether a gap over everything is due for a position.
    pub fn must_announce(&self) -> bool {
        self.parts.values().any(|part| part.must_announce)
    }

    /// Processes a message.
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

    /// Processes a gap.
    pub fn on_gap(&mut self, oracle: &mut Oracle, place: Place, hole: Hole) -> Result<(), String> {
        let epoch = oracle.epoch(place.0, place.1);
        // A subscription that began live learns its position with the first event of the partition.
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

    /// Processes a skip, as `policy` permits.
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

    /// Processes a report that everything up to this position is settled.
    pub fn on_settled(
        &mut self,
        oracle: &Oracle,
        place: Place,
        (epoch, offset): (u64, u64),
    ) -> Result<(), String> {
        let expected = oracle.epoch(place.0, place.1);
        match self.parts.get_mut(&place.0) {
            // The position that it resumed from, or the present one.
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

    /// Checks that the view has reached the last message of each topic.
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

    /// Switches to the node's epoch: known positions stay valid, unless a gap over everything is
    /// due.
    fn turn_to(&mut self, epoch: u64) -> Result<(), String> {
        if self.must_announce {
            let run = &self.run;
            let (old, cursor) = (run.epoch, run.cursor);
            return Err(format!("{old}:{cursor} is lost, and no gap was reported"));
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
