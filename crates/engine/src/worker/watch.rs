//! Questions to the engine: which topics and partitions there are, where a partition begins, and
//! whether a quiet one really has nothing new.
//!
//! No answer is a failure that is repeated; an answer to a question that was forgotten is dropped.

use super::Worker;
use crate::beginning::{
    Found, Known, Question, begin, follow, following_from_ms, topic_id, whole_from_ms,
};
use crate::partition::{Finding, Life, Partition};
use crate::settings::Severity;
use broker::engine::{EngineLetter, MirrorEnd, Restart};
use broker::mail::HomeId;
use kafka::{Error, ListedOffset, OffsetQuery, PartitionDescription, TopicDescription};
use std::collections::HashMap;
use std::ffi::CStr;
use std::time::{SystemTime, UNIX_EPOCH};

/// Questions without an answer, and the last answers.
pub(super) struct Watch {
    /// Distinguishes questions.
    number: u64,
    topics: Option<Asked>,
    topics_next_ms: u64,
    beginnings: Option<Beginnings>,
    beginnings_next_ms: u64,
    quiet: Option<Asked>,
    quiet_next_ms: u64,
    /// The last description of each log's partitions.
    described: Vec<Vec<PartitionDescription>>,
    /// The note of that description, and the one behind which partitions may begin.
    described_note: Vec<u64>,
    begins_after: Vec<u64>,
    /// Partitions that begin anew, with the next offset of the life before.
    pub(super) lost: HashMap<usize, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    note: u64,
    since_ms: u64,
}

/// The questions about partitions that begin.
struct Beginnings {
    since_ms: u64,
    /// The time of the questions, in milliseconds since 1970.
    asked_ms: u64,
    first_note: u64,
    partitions: Vec<usize>,
    answers: [Option<HashMap<usize, Found>>; Question::ALL.len()],
}

/// The time between two questions about topics, in milliseconds.
const TOPICS_INTERVAL_MS: u64 = 1_000;
/// The time after which a failed question is repeated, in milliseconds.
const REPEAT_MS: u64 = 300;

impl Watch {
    pub(super) fn new(logs_count: usize) -> Watch {
        Watch {
            number: 1,
            topics: None,
            topics_next_ms: 0,
            beginnings: None,
            beginnings_next_ms: 0,
            quiet: None,
            quiet_next_ms: 0,
            described: vec![Vec::new(); logs_count],
            described_note: vec![0; logs_count],
            begins_after: vec![0; logs_count],
            lost: HashMap::new(),
        }
    }

    /// The client that was asked is gone.
    pub(super) fn forget_questions(&mut self) {
        self.topics = None;
        self.beginnings = None;
        self.quiet = None;
    }

    /// Has a log described at once. Before that, none of its partitions begins.
    pub(super) fn describe_again(&mut self, log: usize) {
        self.begins_after[log] = self.number;
        self.topics = None;
        self.topics_next_ms = 0;
        self.beginnings = None;
    }

    fn note(&mut self) -> u64 {
        self.number += 1;
        self.number
    }
}

/// The wall clock, in milliseconds since 1970.
pub(super) fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

impl<P: Fn(HomeId, EngineLetter) + Send + 'static> Worker<P> {
    fn timeout_ms(&self) -> i32 {
        self.settings.request_timeout_ms.cast_signed()
    }

    /// Whether a question is without an answer for longer than any broker may take.
    fn is_overdue(&self, since_ms: u64) -> bool {
        self.now_ms.saturating_sub(since_ms) > 2 * u64::from(self.settings.request_timeout_ms)
    }

    pub(super) fn ask_about_topics(&mut self) {
        if self.watch.topics.is_some_and(|asked| self.is_overdue(asked.since_ms)) {
            self.watch.topics = None;
        }
        if self.watch.topics.is_some() || self.now_ms < self.watch.topics_next_ms {
            return;
        }
        let note = self.watch.note();
        self.watch.topics = Some(Asked { note, since_ms: self.now_ms });
        let (timeout_ms, publisher) = (self.timeout_ms(), &self.publisher);
        let names: Vec<&str> = self.settings.logs.iter().map(|log| log.topic.as_str()).collect();
        publisher.client.describe_topics(&names, timeout_ms, note, &publisher.queue);
        for (index, _) in self.logs.iter().enumerate().filter(|(_, log)| !log.has_options) {
            let name = names[index];
            // The name was valid as a C string before.
            _ = publisher.client.describe_topic_options(
                name,
                timeout_ms,
                index as u64,
                &publisher.queue,
            );
        }
    }

    pub(super) fn options_described(
        &mut self,
        note: u64,
        answer: Result<Vec<(String, String)>, Error>,
    ) {
        let Some(log) = self.logs.get_mut(note as usize) else { return };
        log.was_asked = true;
        match answer {
            Ok(options) => {
                let least = options.iter().find(|(name, _)| name == "min.insync.replicas");
                log.in_sync_min = least.and_then(|(_, value)| value.parse().ok()).unwrap_or(1);
                let is_compacted = self.settings.logs[note as usize].is_compacted;
                log.kept_ms = crate::admin::kept_ms(&options, is_compacted);
                log.has_options = true;
            }
            // Without the right to know, a leader is enough.
            Err(error) if error.code > 0 && error.code != kafka::code::UNKNOWN_TOPIC => {
                log.has_options = true;
            }
            Err(_) => {}
        }
    }

    pub(super) fn topics_described(
        &mut self,
        note: u64,
        answer: Result<Vec<TopicDescription>, Error>,
    ) {
        if self.watch.topics.is_none_or(|asked| asked.note != note) {
            return;
        }
        self.watch.topics = None;
        let topics = match answer {
            Ok(topics) => topics,
            Err(_) => {
                self.watch.topics_next_ms = self.now_ms + REPEAT_MS;
                return;
            }
        };
        self.answered_ms = self.now_ms;
        self.watch.topics_next_ms = self.now_ms + TOPICS_INTERVAL_MS;
        for topic in topics {
            let named = |log: &crate::settings::EngineLog| log.topic == topic.name;
            if let Some(index) = self.settings.logs.iter().position(named) {
                self.topic_described(index, note, topic);
            }
        }
    }

    fn topic_described(&mut self, index: usize, note: u64, topic: TopicDescription) {
        let count = self.logs[index].mapping.partitions_count as usize;
        let fault = match &topic.result {
            Err(error) => Some(error.to_string()),
            Ok(()) if topic.partitions.len() != count => {
                let found = topic.partitions.len();
                Some(format!("the topic has {found} partitions, and the log {count}"))
            }
            Ok(()) => None,
        };
        if fault != self.logs[index].fault {
            let line = match &fault {
                Some(fault) => format!("topic {}: {fault}", topic.name),
                None => format!("topic {} is as it should be", topic.name),
            };
            let severity = if fault.is_some() { Severity::Error } else { Severity::Info };
            self.say(severity, &line);
            self.statistics.errors += u64::from(fault.is_some());
            self.logs[index].fault = fault;
        }
        if topic.result.is_err() {
            self.watch.described[index].clear();
            return;
        }
        match self.logs[index].id {
            None => self.topic_found(index, topic.id),
            Some(id) if id != topic.id => self.topic_recreated(index, topic.id),
            Some(_) => {}
        }
        self.watch.described[index] = topic.partitions;
        self.watch.described_note[index] = note;
    }

    /// The first description of a topic: partitions whose homes know it go on.
    fn topic_found(&mut self, index: usize, id: u128) {
        self.logs[index].id = Some(id);
        let log = &self.settings.logs[index];
        let topic_id = topic_id(id, &log.topic);
        let first = self.logs[index].first;
        for (partition, place) in self.partitions[first..].iter_mut().zip(&log.partitions) {
            match place.resume {
                Some(resume) if resume.topic_id == topic_id => {
                    partition.begin(resume.through, resume.lineage, resume.through, self.now_ms);
                    if log.is_compacted {
                        partition.is_whole_from(unix_ms());
                    }
                    self.reader.is_stale = true;
                }
                _ => {}
            }
        }
    }

    /// Another topic has the name. Both clients keep what they know of the old one's leaders, so
    /// they are replaced.
    fn topic_recreated(&mut self, index: usize, id: u128) {
        self.logs[index].id = Some(id);
        (self.logs[index].has_options, self.logs[index].was_asked) = (false, false);
        self.logs[index].kept_ms = None;
        let (first, count) = (self.logs[index].first, self.logs[index].mapping.partitions_count);
        for place in first..first + count as usize {
            self.lost(place, "its topic was deleted and created again");
            self.watch.lost.remove(&place);
        }
        self.statistics.recreated += u64::from(count);
        self.reader.is_stale = true;
        self.watch.beginnings = None;
        self.replace_publisher();
    }

    pub(super) fn ask_about_beginnings(&mut self) {
        if let Some(asked) = &self.watch.beginnings
            && self.is_overdue(asked.since_ms)
        {
            self.watch.beginnings = None;
        }
        if self.watch.beginnings.is_some() || self.now_ms < self.watch.beginnings_next_ms {
            return;
        }
        let is_due = |index: &usize| {
            let partition = &self.partitions[*index];
            let (watch, log) = (&self.watch, partition.log);
            let leads = |it: &PartitionDescription| {
                it.partition == partition.place.cast_signed() && it.leader.is_some()
            };
            matches!(partition.life, Life::New)
                && self.logs[log].was_asked
                && watch.described_note[log] > watch.begins_after[log]
                && watch.described[log].iter().any(leads)
        };
        let partitions: Vec<usize> = (0..self.partitions.len()).filter(is_due).collect();
        if partitions.is_empty() {
            return;
        }
        let now_ms = unix_ms();
        let first_note = self.watch.note();
        self.watch.number += Question::ALL.len() as u64;
        for (note, question) in (first_note..).zip(Question::ALL) {
            let query = |index: &usize| {
                let partition = &self.partitions[*index];
                let log = &self.settings.logs[partition.log];
                let age_ms = question.age_ms(log, self.logs[partition.log].kept_ms);
                let query = match (question, age_ms) {
                    (Question::End, _) => OffsetQuery::Latest,
                    (Question::Following, _) => {
                        self.mirrored(*index).map_or(OffsetQuery::Earliest, |mirror| {
                            OffsetQuery::From(following_from_ms(log, mirror))
                        })
                    }
                    (_, Some(age)) if age < now_ms => OffsetQuery::From(now_ms - age),
                    _ => OffsetQuery::Earliest,
                };
                (&*self.logs[partition.log].name, partition.place.cast_signed(), query)
            };
            let queries: Vec<(&CStr, i32, OffsetQuery)> = partitions.iter().map(query).collect();
            let publisher = &self.publisher;
            publisher.client.list_offsets(&queries, self.timeout_ms(), note, &publisher.queue);
        }
        let answers = Default::default();
        let since_ms = self.now_ms;
        self.watch.beginnings =
            Some(Beginnings { since_ms, asked_ms: now_ms, first_note, partitions, answers });
    }

    pub(super) fn offsets_listed(&mut self, note: u64, answer: Result<Vec<ListedOffset>, Error>) {
        if let Some(asked) = self.watch.quiet.take_if(|asked| asked.note == note) {
            if let Ok(offsets) = answer {
                self.answered_ms = self.now_ms;
                self.compare(&offsets, asked.since_ms);
            }
            return;
        }
        let Some(asked) = &self.watch.beginnings else { return };
        let Some(place) =
            note.checked_sub(asked.first_note).filter(|place| *place < Question::ALL.len() as u64)
        else {
            return;
        };
        // Partitions without an answer are asked again.
        let mut found = HashMap::new();
        for listed in answer.unwrap_or_default() {
            if let (Some(index), Ok(offset)) = (self.listed_index(&listed), listed.offset) {
                found.insert(index, offset);
            }
        }
        let Some(asked) = &mut self.watch.beginnings else { return };
        asked.answers[place as usize] = Some(found);
        if asked.answers.iter().all(Option::is_some)
            && let Some(asked) = self.watch.beginnings.take()
        {
            self.begin(&asked);
        }
    }

    fn listed_index(&self, listed: &ListedOffset) -> Option<usize> {
        let log = self.settings.logs.iter().position(|log| log.topic == listed.topic)?;
        let log = &self.logs[log];
        let place = usize::try_from(listed.partition).ok()?;
        (place < log.mapping.partitions_count as usize).then_some(log.first + place)
    }

    /// Begins the partitions of which everything is known.
    fn begin(&mut self, asked: &Beginnings) {
        self.watch.beginnings_next_ms = self.now_ms;
        for &index in &asked.partitions {
            let answer = |place: usize| asked.answers[place].as_ref()?.get(&index).copied();
            let answers = Question::ALL.map(|question| answer(question as usize));
            let complete = answers.iter().all(Option::is_some);
            let partition = &self.partitions[index];
            let Some(id) = self.logs[partition.log].id.filter(|_| complete) else {
                self.watch.beginnings_next_ms = self.now_ms + REPEAT_MS;
                continue;
            };
            let log = &self.settings.logs[partition.log];
            let known = Known {
                topic_id: topic_id(id, &log.topic),
                asked_ms: asked.asked_ms,
                kept_ms: self.logs[partition.log].kept_ms,
            };
            let answers = answers.map(Option::flatten);
            let cold = begin(log, partition.id, known, answers);
            let mirror = self.mirrored(index);
            let followed = mirror.and_then(|mirror| follow(log, mirror, known, answers, &cold));
            let restart = followed.unwrap_or(cold);
            let first = answers[Question::First as usize];
            self.restart(index, restart, (first, known.asked_ms));
        }
    }

    /// The end of a partition's mirror, at its first beginning.
    fn mirrored(&self, index: usize) -> Option<&MirrorEnd> {
        let partition = &self.partitions[index];
        let place = &self.settings.logs[partition.log].partitions[partition.place as usize];
        place.mirrored.as_ref()
    }

    fn restart(&mut self, index: usize, restart: Restart, (first, asked_ms): (Found, u64)) {
        let Partition { log, place, .. } = self.partitions[index];
        self.settings.logs[log].partitions[place as usize].mirrored = None;
        if let Some(next) = self.watch.lost.remove(&index) {
            let by_compaction = self.partitions[index].is_overtaken;
            let is_overtaken = by_compaction || first.is_some_and(|(first, _)| first > next);
            self.statistics.overtaken += u64::from(is_overtaken);
            self.statistics.truncations += u64::from(!is_overtaken);
        }
        let line = format!(
            "{} is read from offset {}, served from {}, to {} at present{}",
            self.name_of(index),
            restart.after,
            restart.primed_through,
            restart.head,
            if restart.follows_mirror { "; before that, from its mirror" } else { "" }
        );
        self.say(Severity::Info, &line);
        self.partitions[index].begin(restart.after, None, restart.head, self.now_ms);
        if self.settings.logs[log].is_compacted {
            self.partitions[index].is_whole_from(whole_from_ms(&restart, asked_ms));
        }
        self.reader.is_stale = true;
        self.letter(self.partitions[index].home, EngineLetter::Restart(restart));
    }

    /// Asks for the end of partitions that bring nothing, although their homes have credit.
    pub(super) fn ask_about_quiet_tails(&mut self) {
        if self.watch.quiet.is_some_and(|asked| self.is_overdue(asked.since_ms)) {
            self.watch.quiet = None;
        }
        if self.watch.quiet.is_some() || self.now_ms < self.watch.quiet_next_ms {
            return;
        }
        let interval_ms = (self.settings.silence_max_ms / 2).max(1);
        self.watch.quiet_next_ms = self.now_ms + interval_ms;
        let note = self.watch.note();
        let is_due = |index: &usize| {
            let partition = &self.partitions[*index];
            let has_credit = self.credits[usize::from(partition.home)] > 0;
            has_credit && partition.is_quiet(self.now_ms, interval_ms)
        };
        let quiet = (0..self.partitions.len()).filter(is_due);
        let query = |index: usize| {
            let partition = &self.partitions[index];
            let name = &*self.logs[partition.log].name;
            (name, partition.place.cast_signed(), OffsetQuery::Latest)
        };
        let queries: Vec<(&CStr, i32, OffsetQuery)> = quiet.map(query).collect();
        if queries.is_empty() {
            return;
        }
        let publisher = &self.publisher;
        publisher.client.list_offsets(&queries, self.timeout_ms(), note, &publisher.queue);
        self.watch.quiet = Some(Asked { note, since_ms: self.now_ms });
    }

    /// Compares the tails with the ends that the engine had at `asked_ms`.
    fn compare(&mut self, offsets: &[ListedOffset], asked_ms: u64) {
        let asked_unix_ms = unix_ms().saturating_sub(self.now_ms.saturating_sub(asked_ms));
        let lasting_ms = self.settings.silence_max_ms / 2;
        for listed in offsets {
            let (Some(index), Ok(Some((end, _)))) = (self.listed_index(listed), &listed.offset)
            else {
                continue;
            };
            let end = *end;
            let has_credit = self.credits[usize::from(self.partitions[index].home)] > 0;
            if !has_credit || !self.partitions[index].is_quiet(self.now_ms, lasting_ms) {
                continue;
            }
            self.partitions[index].compare_whole(end, asked_unix_ms);
            self.partitions[index].compare_end(end, asked_ms);
            self.send_tail(index);
            match self.partitions[index].examine(end, self.now_ms, lasting_ms) {
                None => {}
                Some(Finding::Shorter) => {
                    self.lost(index, &format!("the engine's log ends at {end}"));
                }
                Some(Finding::Silent) => {
                    self.statistics.watchdog += 1;
                    self.reader.is_stale = true;
                    let place = self.name_of(index);
                    let line = format!("{place} brings nothing up to {end}: a new consumer");
                    self.say(Severity::Warning, &line);
                }
            }
        }
    }

    /// Tells homes which partitions take publications, where that has changed.
    pub(super) fn tell_availability(&mut self) {
        for index in 0..self.partitions.len() {
            let partition = &self.partitions[index];
            let log = &self.logs[partition.log];
            let described = &self.watch.described[partition.log];
            let takes = |it: &PartitionDescription| {
                it.partition == partition.place.cast_signed()
                    && it.leader.is_some()
                    && it.in_sync.len() >= log.in_sync_min
            };
            let is_known = log.id.is_some() && log.fault.is_none();
            let is_available = is_known
                && described.iter().any(takes)
                && partition.reading().is_some()
                && self.now_ms >= partition.refuses_until_ms
                && !self.is_overdue(self.answered_ms);
            if partition.told_available != Some(is_available) {
                self.partitions[index].told_available = Some(is_available);
                let (home, partition) = (self.partitions[index].home, self.partitions[index].id);
                self.letter(home, EngineLetter::Available { partition, is_available });
            }
        }
    }
}
