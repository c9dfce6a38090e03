//! One subscription to a filter: a cursor for each partition by the rules of `spec/protocol.md`,
//! and their checks.
//!
//! At the end each partition's run is checked for every topic of the filter: all messages between
//! its start and its cursor were received, once and in order, or reported as lost.

use super::Stage;
use crate::oracle::{Hole, Oracle, Run, matches};
use crate::plan::Plan;
use broker::settings::LagPolicy;
use std::collections::BTreeMap;
use wire::native::{List, PartitionBeginning, PartitionPosition, Position};

pub(super) struct Wide {
    pub filter: usize,
    pub stage: Stage,
    pub credit: Option<u32>,
    /// The requested policy; without it, the rule decides.
    pub policy: Option<LagPolicy>,
    /// SUBSCRIBED has arrived on this connection.
    pub is_told: bool,
    /// It was resumed with a ticket, whose positions may be behind its own, or ahead of them if no
    /// message matched.
    pub is_ticketed: bool,
    client: usize,
    parts: BTreeMap<u32, Part>,
    /// The topics of the filter, by partition.
    topics: BTreeMap<u32, Vec<usize>>,
}

/// The known state of one partition.
#[derive(Clone, Default)]
struct Part {
    /// Its topic has no meaning.
    run: Run,
    seen: BTreeMap<usize, Vec<u64>>,
    /// The node has answered; before that its position is only the client's request.
    is_told: bool,
    is_replaying: bool,
    /// SUBSCRIBED was beyond the cursor: up to this offset.
    gap_due: Option<u64>,
    /// The position was of another life: a gap over everything is due.
    must_announce: bool,
    /// The progress of the node within messages that were settled before.
    again: Option<u64>,
}

impl Wide {
    pub fn new(client: usize, filter: usize, credit: Option<u32>, plan: &Plan) -> Wide {
        let mut topics: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (topic, name) in plan.topics.iter().enumerate() {
            if matches(&plan.filters[filter], name) {
                topics.entry(plan.partition(topic)).or_default().push(topic);
            }
        }
        Wide {
            filter,
            stage: Stage::Absent,
            credit,
            policy: None,
            is_told: false,
            is_ticketed: false,
            client,
            parts: BTreeMap::new(),
            topics,
        }
    }

    /// Begins a partition at this position.
    pub fn start_at(&mut self, partition: u32, position: Position) {
        let run = Run {
            client: self.client,
            epoch: position.epoch,
            from: position.offset,
            cursor: position.offset,
            ..Run::default()
        };
        let part = Part { run, ..Part::default() };
        self.parts.insert(partition, part);
    }

    /// Clears the ticket's state after the connection was lost.
    pub fn forget_ticket(&mut self) {
        self.is_ticketed = false;
        self.parts.values_mut().for_each(|part| part.again = None);
    }

    /// The positions for a resume.
    pub fn cursors(&self) -> Vec<PartitionPosition> {
        let position = |(partition, part): (&u32, &Part)| PartitionPosition {
            partition: *partition,
            position: Position { epoch: part.run.epoch, offset: part.run.cursor },
        };
        self.parts.iter().map(position).collect()
    }

    pub fn on_subscribed(
        &mut self,
        oracle: &mut Oracle,
        partitions_count: u32,
        instance: u32,
        beginnings: List<'_, PartitionBeginning>,
    ) -> Result<(), String> {
        self.is_told = true;
        let mut told = 0;
        for PartitionBeginning { partition, beginning } in beginnings {
            told += 1;
            let (epoch, through) = (beginning.through.epoch, beginning.through.offset);
            if epoch != oracle.epoch(partition, instance) {
                return Err(format!("SUBSCRIBED names epoch {epoch} of {partition}"));
            }
            let is_known = self.parts.contains_key(&partition);
            if !is_known {
                if beginning.continued {
                    return Err("continued, and no position was asked".into());
                }
                self.start_at(partition, beginning.through);
            }
            let Some(part) = self.parts.get_mut(&partition) else {
                continue;
            };
            let was_told = std::mem::replace(&mut part.is_told, true);
            part.is_replaying = beginning.replaying;
            (part.gap_due, part.must_announce, part.again) = (None, false, None);
            if !is_known {
                continue;
            }
            let cursor = part.run.cursor;
            if !oracle.holds(partition, part.run.epoch, cursor, instance) {
                if beginning.continued {
                    return Err(format!("continued from {cursor} of another life"));
                }
                let old = std::mem::take(part);
                if was_told {
                    keep(&old, self.topics.get(&partition), oracle);
                }
                part.is_told = true;
                part.run.client = self.client;
                part.run.epoch = epoch;
                part.is_replaying = beginning.replaying;
                (part.gap_due, part.must_announce) = (Some(through), true);
                continue;
            }
            part.run.continue_in(epoch);
            if self.is_ticketed && through < cursor {
                part.again = Some(through);
                continue;
            }
            if self.is_ticketed && beginning.continued {
                // No message matched the filter in between: checked at the end.
                part.run.cursor = through;
                continue;
            }
            if through < cursor || (beginning.continued && through > cursor) {
                return Err(format!("asked from {cursor}, and it begins at {through}"));
            }
            part.gap_due = (!beginning.continued).then_some(through);
        }
        if told != partitions_count {
            return Err(format!("SUBSCRIBED lists {told} partitions"));
        }
        self.settle_stage();
        Ok(())
    }

    pub fn on_named(
        &mut self,
        topic: usize,
        partition: u32,
        offset: u64,
        is_addressed: bool,
    ) -> Result<(), String> {
        let part = self.parts.entry(partition).or_default();
        let cursor = part.run.cursor;
        if part.must_announce || part.gap_due.is_some() {
            return Err(format!("a gap was due, and {offset} came"));
        }
        if part.is_replaying && !is_addressed {
            return Err(format!("{offset} is live, within a replay"));
        }
        if let Some(again) = part.again {
            if offset <= again {
                return Err(format!("{offset} came again, after {again} did"));
            }
            part.again = (offset < cursor).then_some(offset);
            if offset <= cursor {
                return Ok(());
            }
        }
        if offset <= cursor {
            return Err(format!(
                "{offset} of partition {partition} was settled before: the cursor is {cursor}"
            ));
        }
        part.run.cursor = offset;
        part.seen.entry(topic).or_default().push(offset);
        Ok(())
    }

    /// Whether it needs credit.
    pub fn is_replaying(&self, partition: u32) -> bool {
        let part = self.parts.get(&partition);
        part.is_some_and(|part| part.is_replaying)
    }

    pub fn on_gap(&mut self, partition: u32, hole: Hole) -> Result<(), String> {
        let part = self.parts.entry(partition).or_default();
        let cursor = part.run.cursor;
        if let Some(again) = part.again {
            part.again = (hole.to < cursor).then_some(again.max(hole.to));
            if hole.to <= cursor {
                return Ok(());
            }
        }
        if hole.to < cursor {
            return Err(format!("{hole:?} ends before the cursor {cursor}"));
        }
        let is_over_all = matches!(hole.reason, 1 | 2);
        if is_over_all && !std::mem::take(&mut part.must_announce) {
            return Err(format!("{hole:?} for a position that the node gave"));
        }
        part.gap_due = None;
        part.run.take_hole(hole);
        Ok(())
    }

    pub fn on_skipped(&mut self, partition: u32, hole: Hole) -> Result<(), String> {
        let part = self.parts.entry(partition).or_default();
        if part.must_announce || part.gap_due.is_some() {
            return Err(format!("a gap was due, and {hole:?} came"));
        }
        let cursor = part.run.cursor;
        if part.is_replaying || hole.from < cursor {
            return Err(format!("{hole:?} within a replay, or before {cursor}"));
        }
        part.run.take_hole(hole);
        Ok(())
    }

    pub fn on_caught_up(&mut self, partition: u32, through: u64) -> Result<(), String> {
        let part = self.parts.entry(partition).or_default();
        if part.must_announce || part.gap_due.is_some() {
            return Err("a gap was due, and CAUGHT_UP came".into());
        }
        part.is_replaying = false;
        let again = part.again.map(|again| again.max(through));
        part.again = again.filter(|again| *again < part.run.cursor);
        part.run.cursor = part.run.cursor.max(through);
        self.settle_stage();
        Ok(())
    }

    fn settle_stage(&mut self) {
        let is_replaying = self.parts.values().any(|part| part.is_replaying);
        if matches!(self.stage, Stage::Asked | Stage::Replaying | Stage::Live) {
            self.stage = if is_replaying { Stage::Replaying } else { Stage::Live };
        }
    }

    /// Checks that the client has seen the last message of each topic.
    pub fn is_past_markers(&self, oracle: &Oracle) -> Result<(), String> {
        for (partition, part) in &self.parts {
            if part.must_announce {
                return Err(format!("received no gap in {partition}"));
            }
            is_young(oracle.floor(*partition), part.run.cursor)
                .map_err(|text| format!("in partition {partition} {text}"))?;
            for topic in self.topics.get(partition).into_iter().flatten() {
                oracle
                    .is_past_marker(&part.run_of(*topic))
                    .map_err(|text| format!("of topic {topic} {text}"))?;
            }
        }
        Ok(())
    }

    /// Passes its runs to the oracle.
    pub fn finish(&self, oracle: &mut Oracle) {
        for (partition, part) in self.parts.iter().filter(|(_, part)| part.is_told) {
            keep(part, self.topics.get(partition), oracle);
        }
    }
}

impl Part {
    fn run_of(&self, topic: usize) -> Run {
        Run { topic, seen: self.seen.get(&topic).cloned().unwrap_or_default(), ..self.run.clone() }
    }
}

/// Checks a cursor's age: other topics may keep the partition busy, and the cursor must advance, so
/// that a resume causes no gap. After the last messages of all topics, less than a quarter of the
/// partition may be behind it.
fn is_young(head: u64, cursor: u64) -> Result<(), String> {
    if head <= cursor || (head - cursor) * 4 < head {
        Ok(())
    } else {
        Err(format!("is at {cursor}, and the head at {head}"))
    }
}

fn keep(part: &Part, topics: Option<&Vec<usize>>, oracle: &mut Oracle) {
    for topic in topics.into_iter().flatten() {
        oracle.keep_run(part.run_of(*topic));
    }
}
