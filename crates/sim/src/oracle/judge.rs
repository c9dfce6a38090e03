//! The end of the world: all claims are compared with the final knowledge.

use super::run::CONFLATED;
use super::{Hole, Once, Oracle, Run};
use crate::plan::Plan;
use std::collections::BTreeMap;

/// The known offsets by topic and life, ascending.
type Namespaces = BTreeMap<(usize, u32), Vec<u64>>;

impl Oracle {
    /// Compares all claims with the final knowledge.
    pub fn judge(&mut self, plan: &Plan) {
        let offsets = self.namespaces();
        for ((partition, life, offset), place) in &self.places {
            let topic = self.publications[place.publication].topic;
            let all = &offsets[&(topic, *life)];
            let at = all.partition_point(|other| other < offset);
            let before = if at == 0 { 0 } else { all[at - 1] };
            if place.prev.is_some_and(|prev| prev < before) {
                let (name, prev) = (&plan.topics[topic], place.prev);
                let text = format!(
                    "{name}: offset {offset} of partition {partition} has prev {prev:?}, but {before} lies between"
                );
                return self.fail(None, text);
            }
        }
        for run in std::mem::take(&mut self.runs) {
            let partition = plan.partition(run.topic);
            if run == Run::nothing(&run) {
                continue; // never answered
            }
            let Some(life) = self.lives.of_epoch(partition, run.epoch) else {
                let text = format!("a run has epoch {}, which no log had", run.epoch);
                return self.fail(run.client, text);
            };
            let known = offsets.get(&(run.topic, life)).map_or(&[][..], |all| all);
            let owed = self.owed(partition, &run, known, &offsets);
            self.judge_settled(plan, &run, &owed);
            self.judge_run(plan, &run, life, known);
        }
        self.judge_mqtt(plan);
        if plan.lossless && !self.is_flipped {
            self.judge_presence(plan, &offsets);
        }
        self.judge_producers(plan);
    }

    fn namespaces(&self) -> Namespaces {
        let mut offsets = Namespaces::new();
        for ((partition, life, offset), place) in &self.places {
            let topic = self.publications[place.publication].topic;
            for to in *life..=self.lives.present(*partition) {
                if self.lives.holds(*partition, *life, *offset, to) {
                    offsets.entry((topic, to)).or_default().push(*offset);
                }
            }
        }
        offsets
    }

    /// The offsets that a run must have received or reported: the known ones of its epoch, and
    /// those that were known in the older epochs that it crossed, behind its cursor at that moment.
    /// Damage may have removed the latter; then a gap is due. After a second damage the extent of
    /// the first may be unknown; then a gap at its start suffices. So does a gap over damage before
    /// the own records of the present life, where those have the offsets of the lost ones: the node
    /// cannot know of records behind the last that it has found.
    fn owed(&self, partition: u32, run: &Run, known: &[u64], offsets: &Namespaces) -> Vec<u64> {
        let mut owed = known.to_vec();
        for (epoch, cursor) in &run.crossed {
            let life_of = |epoch| self.lives.of_epoch(partition, epoch);
            let (Some(life), Some(present)) = (life_of(*epoch), life_of(run.epoch)) else {
                continue;
            };
            let start = self.lives.kept_before(partition, life, present);
            let is_told = |hole: &Hole| hole.from < start && start <= hole.to;
            let is_start_told = life + 1 < present && run.holes.iter().any(is_told);
            let own = self.places.range((partition, present, 0)..).next();
            let own = own.filter(|((of, life, _), _)| (*of, *life) == (partition, present));
            let own = own.map_or(u64::MAX, |((_, _, offset), _)| *offset);
            let is_damage = |hole: &Hole| hole.reason == 4 && start <= hole.to && hole.to < own;
            let are_reused_told = run.holes.iter().any(is_damage);
            let behind = offsets.get(&(run.topic, life)).into_iter().flatten();
            let is_told =
                |offset: u64| is_start_told && offset >= start || are_reused_told && offset >= own;
            let is_owed = |offset: &&u64| *offset > cursor && !is_told(**offset);
            owed.extend(behind.filter(is_owed));
        }
        owed.sort_unstable();
        owed.dedup();
        owed
    }

    fn judge_settled(&mut self, plan: &Plan, run: &Run, offsets: &[u64]) {
        let name = &plan.topics[run.topic];
        let in_hole =
            |offset: u64| run.holes.iter().any(|hole| hole.from < offset && offset <= hole.to);
        for offset in offsets {
            let was_seen = run.seen.binary_search(offset).is_ok();
            let is_settled = run.from < *offset && *offset <= run.cursor;
            if is_settled && !was_seen && !in_hole(*offset) {
                return self.fail(
                    run.client,
                    format!(
                        "{name}: offset {offset} lost: everything after {} up to {} was claimed to be settled",
                        run.from, run.cursor
                    ),
                );
            }
            if was_seen && in_hole(*offset) {
                return self.fail(
                    run.client,
                    format!("{name}: offset {offset} was delivered and announced as lost"),
                );
            }
        }
    }

    fn judge_run(&mut self, plan: &Plan, run: &Run, life: u32, offsets: &[u64]) {
        let name = &plan.topics[run.topic];
        for hole in &run.holes {
            self.judge_hole(plan, run, life, hole, offsets);
        }
        if let Some((count, floor)) = run.wanted_newest
            && plan.lossless
        {
            let there = offsets.partition_point(|offset| *offset <= floor);
            let served = offsets.len() - offsets.partition_point(|offset| *offset <= run.from);
            if served + self.unknown(run.topic) < there.min(count) {
                self.fail(
                    run.client,
                    format!("{name}: the newest {count} of {there} were asked for, and it began after {}", run.from),
                );
            }
        }
    }

    fn judge_hole(&mut self, plan: &Plan, run: &Run, life: u32, hole: &Hole, offsets: &[u64]) {
        self.holes += 1;
        let name = &plan.topics[run.topic];
        let is_ours = hole.reason == 0 || hole.reason == 3;
        let is_damage = hole.reason == 4;
        if is_damage && !self.is_flipped {
            return self.fail(
                run.client,
                format!("{name}: nothing was damaged, and {hole:?} was announced"),
            );
        }
        if is_ours && plan.lossless && !self.is_flipped {
            return self.fail(
                run.client,
                format!("{name}: nothing can be missing here, and a gap was announced: {hole:?}"),
            );
        }
        let range = hole.from + 1..hole.to.saturating_add(1).max(hole.from + 1);
        let partition = plan.partition(run.topic);
        let is_last = life == self.lives.present(partition);
        let newest_inside = offsets.iter().rev().find(|offset| range.contains(offset));
        if hole.reason == CONFLATED
            && is_last
            && plan.lossless
            && !self.is_flipped
            && let Some(newest) = newest_inside
            && !self.has_newer(partition, run.topic, life, *newest, hole.told_at)
        {
            return self.fail(
                run.client,
                format!("{name}: {hole:?} leaves out {newest}, and nothing newer had been sent"),
            );
        }
        let rule = plan.rule(run.topic);
        if hole.reason == 0
            && is_last
            && let Some(present) = self.present.get(&run.topic)
            && rule.history_messages_max > 1_000_000
            && let Some((offset, _)) =
                present.range(range.clone()).find(|(_, at)| **at > hole.told_at)
        {
            return self.fail(
                run.client,
                format!("{name}: {hole:?} announces {offset} as evicted, but history has it"),
            );
        }
        let inside = offsets.iter().find(|offset| range.contains(offset));
        if hole.reason == 1
            && plan.lossless
            && !self.is_flipped
            && let Some(offset) = inside
        {
            return self.fail(
                run.client,
                format!("{name}: {hole:?} after a restart, but {offset} was there"),
            );
        }
        self.judge_history_limit(plan, run, hole, offsets);
    }

    /// Checks a gap because of the rule's history limit: enough newer messages must exist.
    fn judge_history_limit(&mut self, plan: &Plan, run: &Run, hole: &Hole, offsets: &[u64]) {
        let (messages_max, age_max_ms) = plan.history_least(run.topic);
        if hole.reason == 3 && !self.is_flipped && age_max_ms == u64::MAX {
            let newer = offsets.iter().filter(|offset| **offset > hole.to).count();
            // Newer messages may have been evicted before any client received them.
            let newer = newer + self.unknown(run.topic);
            let range = hole.from + 1..hole.to.saturating_add(1).max(hole.from + 1);
            let is_inside = offsets.iter().any(|offset| range.contains(offset));
            if is_inside && newer < messages_max as usize {
                self.fail(
                    run.client,
                    format!(
                        "{}: {hole:?} by the history's limit, with only {newer} newer messages",
                        plan.topics[run.topic]
                    ),
                );
            }
        }
    }

    /// Whether a message of the topic is behind an offset and had been sent at a moment.
    fn has_newer(&self, partition: u32, topic: usize, life: u32, offset: u64, moment: u64) -> bool {
        self.publications.iter().any(|publication| {
            let is_behind =
                |(of, at): &(u32, u64)| *at > offset && self.lives.holds(partition, *of, *at, life);
            publication.topic == topic
                && publication.sent_at <= moment
                && publication.places.iter().any(is_behind)
        })
    }

    /// The number of publications that may have been present without any report.
    fn unknown(&self, topic: usize) -> usize {
        let open =
            |publication: &&super::Publication| publication.topic == topic && publication.open > 0;
        self.publications.iter().filter(open).count()
    }

    /// Checks that, if nothing can be lost, history contains everything that was ever acknowledged
    /// or seen.
    fn judge_presence(&mut self, plan: &Plan, offsets: &Namespaces) {
        for (topic, present) in std::mem::take(&mut self.present) {
            let life = self.lives.present(plan.partition(topic));
            for offset in offsets.get(&(topic, life)).into_iter().flatten() {
                // Messages behind the last one may have been appended after history was read.
                let marker = self.markers.get(&topic).map_or(0, |marker| marker.1);
                if *offset <= marker && !present.contains_key(offset) {
                    let name = &plan.topics[topic];
                    self.fail(None, format!("{name}: {offset} is not in history any more"));
                }
            }
        }
    }

    /// Checks that, within a partition and a life, a producer's later publications have higher
    /// offsets. Except for a producer whose publications retention had dropped before a start, and
    /// which began anew.
    fn judge_producers(&mut self, plan: &Plan) {
        let mut last: BTreeMap<(u64, u32, u32), (u64, u64)> = BTreeMap::new();
        let mut sent: Vec<(u64, u64, usize)> = Vec::new();
        for (id, publication) in self.publications.iter().enumerate() {
            if let Once::Sequence(producer, sequence) = publication.once {
                sent.push((producer, sequence, id));
            }
        }
        sent.sort_unstable();
        for (producer, sequence, id) in sent {
            let partition = plan.partition(self.publications[id].topic);
            for (life, offset) in self.publications[id].places.clone() {
                let newest = last.entry((producer, partition, life)).or_default();
                if newest.1 >= offset && self.lives.is_forgotten(partition, offset) {
                    continue;
                }
                if newest.1 >= offset {
                    let (before, at) = *newest;
                    let text = format!(
                        "producer {producer}: sequence {sequence} stands at {offset}, and {before} at {at}"
                    );
                    return self.fail(None, text);
                }
                *newest = (sequence, offset);
            }
        }
    }
}
