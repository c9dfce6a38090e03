//! The reference model: what was published, where it stands, and what each subscriber may and must have seen.
//!
//! Clients tell what they send and what they are told; positions are learned from acknowledgements, deliveries and
//! history, and must all agree. While the world runs, claims are judged at once where one claim contradicts another; at
//! its end each subscriber's run is compared with the whole list of its topic.

use crate::plan::{EPOCH, Plan};
use broker::topic::{Filter, TopicName};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a client is remembered to have done last, in lines.
const NOTES_MAX: usize = 20_000;

/// What became of a publication.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// Nobody knows; it may still be appended.
    Open,
    /// Acknowledged, or seen, at this offset.
    Appended(u64),
    /// Refused: it must never be seen.
    Refused,
}

/// One message that a client has sent.
#[derive(Clone, Debug)]
pub struct Publication {
    /// Its topic.
    pub topic: usize,
    /// The moment: rises with everything that happens.
    pub sent_at: u64,
    /// The partition's greatest offset that anybody had been told of when it was sent.
    floor: u64,
    /// Its fate.
    pub fate: Fate,
    payload: Vec<u8>,
}

/// Something lost, as a node announced it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hole {
    /// Exclusive.
    pub from: u64,
    /// Inclusive.
    pub to: u64,
    /// As in the protocol: 0 evicted, 1 unknown epoch, 2 beyond head, 3 history limit.
    pub reason: u8,
    /// The moment when it was told.
    pub told_at: u64,
}

/// One subscription to a plain topic, over all connections on which it was resumed.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Whose.
    pub client: usize,
    /// Which topic.
    pub topic: usize,
    /// It begins after this offset.
    pub from: u64,
    /// Everything up to here is settled.
    pub cursor: u64,
    /// Offsets received, rising.
    pub seen: Vec<u64>,
    /// Announced.
    pub holes: Vec<Hole>,
    /// It asked for the newest so many, when the partition was known up to the offset.
    pub wanted_newest: Option<(usize, u64)>,
}

impl Run {
    /// A gap was announced: what lies before it is claimed to be settled, and judged as such.
    pub fn take_hole(&mut self, hole: Hole) {
        self.holes.push(Hole {
            from: self.cursor.max(hole.from),
            ..hole
        });
        self.cursor = self.cursor.max(hole.to);
    }
}

/// One subscription to a filter on one connection.
#[derive(Clone, Debug, Default)]
pub struct FilterRun {
    /// Whose.
    pub client: usize,
    /// Which filter.
    pub filter: usize,
    /// What is sent after this moment has to come.
    pub since: u64,
    /// Topic and offset of what came.
    pub seen: BTreeSet<(usize, u64)>,
    /// The newest of each topic.
    pub newest: BTreeMap<usize, u64>,
    /// Announced as left out: partition, from (exclusive), through (inclusive).
    pub skipped: Vec<(u32, u64, u64)>,
    /// Still there at the end of the world, so that everything must have come.
    pub is_live: bool,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    publication: usize,
    /// As told with deliveries.
    prev: Option<u64>,
}

/// What went wrong first.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Virtual milliseconds.
    pub at_ms: u64,
    /// The client concerned.
    pub client: Option<usize>,
    /// What was expected, and what was found.
    pub text: String,
}

/// See the module.
#[derive(Default)]
pub struct Oracle {
    /// Everything that was sent.
    pub publications: Vec<Publication>,
    /// By (partition, offset).
    places: BTreeMap<(u32, u64), Place>,
    /// By partition: the greatest offset that anybody was told of.
    floors: BTreeMap<u32, u64>,
    runs: Vec<Run>,
    filter_runs: Vec<FilterRun>,
    /// By topic: what its history held after the last message, and the moment when that was seen.
    pub present: BTreeMap<usize, BTreeMap<u64, u64>>,
    /// By topic: the offset of the last message, sent when all faults were over.
    pub markers: BTreeMap<usize, u64>,
    /// Topics that were published to after all others had left.
    pub visited: usize,
    /// Rises with everything that happens.
    pub moment: u64,
    /// The first failure.
    pub failure: Option<Failure>,
    /// Virtual milliseconds.
    pub now_ms: u64,
    /// Whether clients' doings are kept as text.
    pub tracing: bool,
    notes: BTreeMap<usize, VecDeque<String>>,
    /// Deliveries judged.
    pub deliveries: u64,
    /// Announced holes judged.
    pub holes: u64,
}

impl Oracle {
    /// Something happened; says its number.
    pub fn tick(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// Remembers what a client did or was told.
    pub fn note(&mut self, client: usize, text: impl FnOnce() -> String) {
        if !self.tracing {
            return;
        }
        let notes = self.notes.entry(client).or_default();
        if notes.len() == NOTES_MAX {
            notes.pop_front();
        }
        let line = format!("{:>7} ms  {}", self.now_ms, text());
        notes.push_back(line);
    }

    /// The last doings of a client.
    pub fn notes(&self, client: usize) -> impl Iterator<Item = &String> {
        self.notes.get(&client).into_iter().flatten()
    }

    /// Something is not as it must be. Only the first such thing counts.
    pub fn fail(&mut self, client: impl Into<Option<usize>>, text: String) {
        if self.failure.is_none() {
            self.failure = Some(Failure {
                at_ms: self.now_ms,
                client: client.into(),
                text,
            });
        }
    }

    /// The greatest offset of a partition that anybody was told of.
    pub fn floor(&self, partition: u32) -> u64 {
        self.floors.get(&partition).copied().unwrap_or(0)
    }

    /// A new message: its payload names it. `padding` bytes follow.
    pub fn publication(&mut self, plan: &Plan, topic: usize, padding: usize) -> (usize, Vec<u8>) {
        let id = self.publications.len();
        let mut payload = format!("{id:016x}").into_bytes();
        let letter = b'a' + (id % 26) as u8;
        payload.resize(16 + padding, letter);
        let sent_at = self.tick();
        self.publications.push(Publication {
            topic,
            sent_at,
            floor: self.floor(plan.partition(topic)),
            fate: Fate::Open,
            payload: payload.clone(),
        });
        (id, payload)
    }

    /// A publication was refused.
    pub fn refused(&mut self, client: usize, id: usize) {
        match self.publications[id].fate {
            Fate::Appended(offset) => self.fail(
                client,
                format!("publication {id} stands at offset {offset} and was refused"),
            ),
            _ => self.publications[id].fate = Fate::Refused,
        }
    }

    /// A publication was acknowledged.
    pub fn acknowledged(&mut self, plan: &Plan, client: usize, id: usize, epoch: u64, offset: u64) {
        let publication = &self.publications[id];
        let partition = plan.partition(publication.topic);
        if epoch != EPOCH {
            return self.fail(client, format!("publication {id}: epoch {epoch}"));
        }
        if offset <= publication.floor {
            let floor = publication.floor;
            return self.fail(
                client,
                format!(
                    "publication {id}: offset {offset}, though {floor} was known when it was sent"
                ),
            );
        }
        self.learn(partition, offset, client, id, None);
    }

    /// A message was received: judges everything but its order. Answers false when it is not what was published.
    pub fn delivered(
        &mut self,
        plan: &Plan,
        client: usize,
        topic: usize,
        offset: u64,
        prev: Option<u64>,
        payload: &[u8],
    ) -> bool {
        self.deliveries += 1;
        let id = payload
            .get(..16)
            .and_then(|text| std::str::from_utf8(text).ok())
            .and_then(|text| usize::from_str_radix(text, 16).ok());
        let Some(publication) = id.and_then(|id| self.publications.get(id)) else {
            let text = format!(
                "offset {offset} of {} is no publication",
                plan.topics[topic]
            );
            self.fail(client, text);
            return false;
        };
        let id = id.unwrap_or_default();
        if publication.topic != topic || publication.payload != payload {
            self.fail(
                client,
                format!(
                    "offset {offset} of {} is not publication {id}",
                    plan.topics[topic]
                ),
            );
            return false;
        }
        self.learn(plan.partition(topic), offset, client, id, prev)
    }

    fn learn(
        &mut self,
        partition: u32,
        offset: u64,
        client: usize,
        id: usize,
        prev: Option<u64>,
    ) -> bool {
        match self.publications[id].fate {
            Fate::Refused => {
                self.fail(
                    client,
                    format!("publication {id} was refused and stands at {offset}"),
                );
                return false;
            }
            Fate::Appended(known) if known != offset => {
                self.fail(
                    client,
                    format!("publication {id} stands at {known} and at {offset}"),
                );
                return false;
            }
            _ => self.publications[id].fate = Fate::Appended(offset),
        }
        let floor = self.floors.entry(partition).or_default();
        *floor = (*floor).max(offset);
        let place = self.places.entry((partition, offset)).or_insert(Place {
            publication: id,
            prev,
        });
        if place.publication != id {
            let other = place.publication;
            self.fail(
                client,
                format!("offset {offset}: publications {other} and {id}"),
            );
            return false;
        }
        match (place.prev, prev) {
            (Some(one), Some(two)) if one != two => {
                self.fail(client, format!("offset {offset}: prev {one} and {two}"));
                return false;
            }
            (None, Some(_)) => place.prev = prev,
            _ => {}
        }
        true
    }

    /// A run is over, or the world is.
    pub fn keep_run(&mut self, run: Run) {
        self.runs.push(run);
    }

    /// The same for a filter.
    pub fn keep_filter_run(&mut self, run: FilterRun) {
        self.filter_runs.push(run);
    }

    /// Compares all that was claimed with what is known now.
    pub fn judge(&mut self, plan: &Plan) {
        let mut offsets: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        let mut places: Vec<(usize, u64, Option<u64>)> = Vec::new();
        for ((_, offset), place) in &self.places {
            let topic = self.publications[place.publication].topic;
            offsets.entry(topic).or_default().push(*offset);
            places.push((topic, *offset, place.prev));
        }
        for (topic, offset, prev) in places {
            let all = &offsets[&topic];
            let at = all.partition_point(|other| *other < offset);
            let before = if at == 0 { 0 } else { all[at - 1] };
            if prev.is_some_and(|prev| prev < before) {
                let topic = &plan.topics[topic];
                self.fail(
                    None,
                    format!(
                        "{topic}: offset {offset} has prev {prev:?}, but {before} lies between"
                    ),
                );
            }
        }
        for run in std::mem::take(&mut self.runs) {
            self.judge_run(plan, &run, offsets.get(&run.topic).map_or(&[], |all| all));
        }
        for run in std::mem::take(&mut self.filter_runs) {
            self.judge_filter_run(plan, &run);
        }
        if plan.lossless {
            self.judge_presence(plan, &offsets);
        }
    }

    fn judge_run(&mut self, plan: &Plan, run: &Run, offsets: &[u64]) {
        let name = &plan.topics[run.topic];
        let in_hole = |offset: u64| {
            run.holes
                .iter()
                .any(|hole| hole.from < offset && offset <= hole.to)
        };
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
        for hole in &run.holes {
            self.judge_hole(plan, run, hole, offsets);
        }
        if let Some((count, floor)) = run.wanted_newest
            && plan.lossless
        {
            let there = offsets.partition_point(|offset| *offset <= floor);
            let served = offsets.len() - offsets.partition_point(|offset| *offset <= run.from);
            if served < there.min(count) {
                self.fail(
                    run.client,
                    format!("{name}: the newest {count} of {there} were asked for, and it began after {}", run.from),
                );
            }
        }
    }

    fn judge_hole(&mut self, plan: &Plan, run: &Run, hole: &Hole, offsets: &[u64]) {
        self.holes += 1;
        let name = &plan.topics[run.topic];
        let is_ours = hole.reason == 0 || hole.reason == 3;
        if is_ours && plan.lossless {
            return self.fail(
                run.client,
                format!("{name}: nothing can be missing here, and a gap was announced: {hole:?}"),
            );
        }
        let range = hole.from + 1..hole.to.saturating_add(1).max(hole.from + 1);
        if hole.reason == 0
            && let Some(present) = self.present.get(&run.topic)
            && plan.settings.rules[0].history_messages_max > 1_000_000
            && let Some((offset, _)) = present
                .range(range.clone())
                .find(|(_, at)| **at > hole.told_at)
        {
            return self.fail(
                run.client,
                format!("{name}: {hole:?} announces {offset} as evicted, but history has it"),
            );
        }
        let rule = &plan.settings.rules[0];
        if hole.reason == 3 && rule.history_age_max_ms >= 1 << 30 && !plan.clock_jumps {
            let newer = offsets.iter().filter(|offset| **offset > hole.to).count();
            // Newer ones may have been evicted before anybody was told of them.
            let unknown = self.publications.iter().filter(|publication| {
                publication.topic == run.topic && publication.fate == Fate::Open
            });
            let newer = newer + unknown.count();
            let inside = offsets.iter().any(|offset| range.contains(offset));
            if inside && newer < rule.history_messages_max as usize {
                self.fail(
                    run.client,
                    format!(
                        "{name}: {hole:?} by the history's limit, with only {newer} newer messages"
                    ),
                );
            }
        }
    }

    fn judge_filter_run(&mut self, plan: &Plan, run: &FilterRun) {
        if !run.is_live {
            return;
        }
        let filter = &plan.filters[run.filter];
        for (topic, name) in plan.topics.iter().enumerate() {
            if !matches(filter, name) {
                continue;
            }
            let partition = plan.partition(topic);
            for ((_, offset), place) in self.places.range((partition, 0)..(partition + 1, 0)) {
                let publication = &self.publications[place.publication];
                if publication.topic != topic || publication.sent_at <= run.since {
                    continue;
                }
                let was_skipped = run.skipped.iter().any(|(other, from, through)| {
                    *other == partition && from < offset && offset <= through
                });
                if !was_skipped && !run.seen.contains(&(topic, *offset)) {
                    let text = format!("filter {filter}: offset {offset} of {name} was lost");
                    return self.fail(run.client, text);
                }
            }
        }
    }

    /// Where nothing can be lost, history holds everything that was ever acknowledged or seen.
    fn judge_presence(&mut self, plan: &Plan, offsets: &BTreeMap<usize, Vec<u64>>) {
        for (topic, present) in std::mem::take(&mut self.present) {
            for offset in offsets.get(&topic).into_iter().flatten() {
                // What was appended behind the last message may have come after history was read.
                let marker = self.markers.get(&topic).copied().unwrap_or(0);
                if *offset <= marker && !present.contains_key(offset) {
                    let name = &plan.topics[topic];
                    self.fail(None, format!("{name}: {offset} is not in history any more"));
                }
            }
        }
    }
}

/// Whether a filter covers a topic.
pub fn matches(filter: &str, topic: &str) -> bool {
    match (Filter::parse(filter), TopicName::parse(topic)) {
        (Ok(filter), Ok(_)) => filter.matches(topic),
        _ => false,
    }
}
