//! The reference model: what was published, where it stands, and what each subscriber may and must
//! have seen.
//!
//! Clients tell what they send and what they are told; positions are learned from acknowledgements,
//! deliveries and history, and must all agree, over restarts too. While the world runs, claims are
//! judged at once where one claim contradicts another; at its end each subscriber's run is compared
//! with the whole list of its topic (`judge`).

mod events;
mod judge;
mod lives;
mod retained;
mod run;

pub use events::Events;
pub use lives::Lives;
pub use run::{Hole, Run, SKIPPED, check_skip};

use crate::plan::Plan;
use broker::mail::Code;
use broker::topic::{Filter, TopicName};
use std::collections::{BTreeMap, VecDeque};

/// What a client is remembered to have done last, in lines.
const NOTES_MAX: usize = 20_000;

/// Who was told something: a client, by the node that its connection belonged to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Source {
    /// The client.
    pub client: usize,
    /// Which node: 0 is the first, each restart makes the next.
    pub instance: u32,
}

/// What a refusal says about what is on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It has not happened.
    Final,
    /// It has not been seen; after a crash it may turn out to be on disk.
    UntilCrash,
}

impl Refusal {
    /// By the code.
    pub fn of(code: u32) -> Refusal {
        let of_disk = [Code::LogUnavailable, Code::LogFull];
        match of_disk.iter().any(|other| u32::from(other.number()) == code) {
            true => Refusal::UntilCrash,
            false => Refusal::Final,
        }
    }
}

/// By what a log knows a repeat of a publication.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Once {
    /// It does not.
    No,
    /// A producer, and its sequence.
    Sequence(u64, u64),
    /// A key of its own.
    Key,
}

/// One message that a client has sent, once or, if it can be recognised, again and again.
#[derive(Clone, Debug)]
pub struct Publication {
    /// Its topic.
    pub topic: usize,
    /// The moment of the first attempt: rises with everything that happens.
    pub sent_at: u64,
    /// The partition's greatest offset that anybody had been told of at the last attempt.
    floor: u64,
    /// The node of the last attempt.
    instance: u32,
    /// How often it was sent.
    attempts: u32,
    /// Attempts whose outcome nobody knows.
    open: u32,
    /// By which node all attempts were refused.
    refused: Option<(u32, Refusal)>,
    /// Where it stands: life and offset.
    places: Vec<(u32, u64)>,
    /// By what a repeat of it is known.
    pub once: Once,
    /// Published with `retain`.
    pub retain: bool,
    payload: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    publication: usize,
    /// As told with deliveries.
    prev: Option<u64>,
}

impl Publication {
    /// How often it was sent.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Its bytes.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }
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
    /// What nodes tell of themselves.
    pub events: Events,
    /// Epochs.
    pub lives: Lives,
    /// By (partition, life, offset).
    places: BTreeMap<(u32, u32, u64), Place>,
    /// By partition: the greatest offset that anybody was told of in the present life.
    floors: BTreeMap<u32, u64>,
    runs: Vec<Run>,
    /// By topic: what its history held after the last message, and the moment when that was seen.
    pub present: BTreeMap<usize, BTreeMap<u64, u64>>,
    /// By topic: epoch and offset of the last message, sent when all faults were over.
    pub markers: BTreeMap<usize, (u64, u64)>,
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
    /// Acknowledgements of what the log had already.
    pub duplicates: u64,
    /// Of those, over HTTP.
    pub duplicates_over_http: u64,
    /// Event streams over filters that came back with an id.
    pub streams_resumed: u64,
    /// Filters of event streams that were refused while others of the stream went on.
    pub filters_refused: u64,
    /// Refusals because a user had as many connections as its token says.
    pub crowds: u64,
    /// Bits of a disk were flipped: acknowledged records may be gone, if that is said.
    pub is_flipped: bool,
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

    /// The same for all clients that have done something.
    pub fn note_all(&mut self, text: &str) {
        for client in self.notes.keys().copied().collect::<Vec<usize>>() {
            self.note(client, || text.to_owned());
        }
    }

    /// The last doings of a client.
    pub fn notes(&self, client: usize) -> impl Iterator<Item = &String> {
        self.notes.get(&client).into_iter().flatten()
    }

    /// Something is not as it must be. Only the first such thing counts.
    pub fn fail(&mut self, client: impl Into<Option<usize>>, text: String) {
        if self.failure.is_none() {
            self.failure = Some(Failure { at_ms: self.now_ms, client: client.into(), text });
        }
    }

    /// The next node runs. Of each log: its epoch, and where that begins if it is new.
    pub fn restarted(&mut self, logs: Vec<(u64, BTreeMap<u32, u64>, Vec<u64>)>) {
        let before = self.lives.clone();
        for (log, (epoch, starts, known)) in logs.into_iter().enumerate() {
            self.lives.restarted(log, epoch, starts, known);
        }
        for (partition, floor) in &mut self.floors {
            let (old, new) = (before.present(*partition), self.lives.present(*partition));
            if old != new {
                let kept = self.lives.kept_before(*partition, old, new);
                *floor = (*floor).min(kept.saturating_sub(1));
            }
        }
    }

    /// The epoch of a partition by the node of a connection.
    pub fn epoch(&self, partition: u32, instance: u32) -> u64 {
        self.lives.epoch(partition, self.lives.at(partition, instance))
    }

    /// The epoch of a partition now.
    pub fn present_epoch(&self, partition: u32) -> u64 {
        self.epoch(partition, self.lives.instance())
    }

    /// Whether a position that was told once holds by the node of a connection.
    pub fn holds(&self, partition: u32, epoch: u64, offset: u64, instance: u32) -> bool {
        let to = self.lives.at(partition, instance);
        self.lives
            .of_epoch(partition, epoch)
            .is_some_and(|from| self.lives.holds(partition, from, offset, to))
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
            instance: self.lives.instance(),
            attempts: 1,
            open: 1,
            refused: None,
            places: Vec::new(),
            once: Once::No,
            retain: false,
            payload: payload.clone(),
        });
        (id, payload)
    }

    /// A message that can be recognised is sent again; answers its payload.
    pub fn repeated(&mut self, plan: &Plan, id: usize) -> Vec<u8> {
        let partition = plan.partition(self.publications[id].topic);
        let floor = self.floor(partition);
        let instance = self.lives.instance();
        let publication = &mut self.publications[id];
        publication.floor = floor;
        publication.instance = instance;
        publication.attempts += 1;
        publication.open += 1;
        publication.refused = None;
        publication.payload.clone()
    }

    /// A publication was refused.
    pub fn refused(&mut self, plan: &Plan, source: Source, id: usize, refusal: Refusal) {
        let publication = &mut self.publications[id];
        publication.open = publication.open.saturating_sub(1);
        let partition = plan.partition(publication.topic);
        let life = self.lives.at(partition, source.instance);
        let place = publication
            .places
            .iter()
            .find(|(other, offset)| self.lives.holds(partition, *other, *offset, life));
        match place {
            // It may have been on disk, and be seen by the next node, before the refusal of this
            // one is read.
            Some(_)
                if refusal == Refusal::UntilCrash && source.instance < self.lives.instance() => {}
            Some((_, offset)) if publication.attempts == 1 => {
                let text = format!("publication {id} stands at offset {offset} and was refused");
                self.fail(source.client, text);
            }
            None if publication.open == 0 => {
                publication.refused = Some((source.instance, refusal));
            }
            _ => {}
        }
    }

    /// A publication was acknowledged.
    pub fn acknowledged(&mut self, plan: &Plan, source: Source, id: usize, told: Acknowledged) {
        let publication = &mut self.publications[id];
        publication.open = publication.open.saturating_sub(1);
        let partition = plan.partition(publication.topic);
        let Acknowledged { epoch, offset, is_duplicate } = told;
        let (floor, attempts) = (publication.floor, publication.attempts);
        let client = source.client;
        self.duplicates += u64::from(is_duplicate);
        let expected = self.epoch(partition, source.instance);
        if epoch != expected {
            let text = format!("publication {id}: epoch {epoch}, and the log's is {expected}");
            return self.fail(client, text);
        }
        if is_duplicate && attempts == 1 {
            let text = format!("publication {id} was sent once and is called a duplicate");
            return self.fail(client, text);
        }
        if !is_duplicate && offset <= floor {
            let text = format!(
                "publication {id}: offset {offset}, though {floor} was known when it was sent"
            );
            return self.fail(client, text);
        }
        self.learn(partition, offset, source, id, None);
    }

    /// A message was received: judges everything but its order. Answers false when it is not what
    /// was published.
    pub fn delivered(
        &mut self,
        plan: &Plan,
        source: Source,
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
        let name = &plan.topics[topic];
        let Some((id, publication)) =
            id.and_then(|id| self.publications.get(id).map(|publication| (id, publication)))
        else {
            let text = format!("offset {offset} of {name} is no publication");
            self.fail(source.client, text);
            return false;
        };
        if publication.topic != topic || publication.payload != payload {
            let (sent, came) = (publication.payload.len(), payload.len());
            let same = publication.payload.iter().zip(payload).take_while(|(one, two)| one == two);
            let same = same.count();
            let text = format!(
                "offset {offset} of {name} is not publication {id}: {came} bytes of {sent}, the first {same} right"
            );
            self.fail(source.client, text);
            return false;
        }
        self.learn(plan.partition(topic), offset, source, id, prev)
    }

    fn learn(
        &mut self,
        partition: u32,
        offset: u64,
        source: Source,
        id: usize,
        prev: Option<u64>,
    ) -> bool {
        let life = self.lives.at(partition, source.instance);
        let origin = self.lives.origin(partition, life, offset);
        if let Err(text) = self.stands(partition, (origin, offset), life, source, id) {
            self.fail(source.client, text);
            return false;
        }
        if life == self.lives.present(partition) {
            let floor = self.floors.entry(partition).or_default();
            *floor = (*floor).max(offset);
        }
        let key = (partition, origin, offset);
        let place = self.places.entry(key).or_insert(Place { publication: id, prev });
        if place.publication != id {
            let other = place.publication;
            let text = format!("offset {offset}: publications {other} and {id}");
            self.fail(source.client, text);
            return false;
        }
        match (place.prev, prev) {
            (Some(one), Some(two)) if one != two => {
                let text = format!("offset {offset}: prev {one} and {two}");
                self.fail(source.client, text);
                return false;
            }
            (None, Some(_)) => place.prev = prev,
            _ => {}
        }
        true
    }

    /// A publication stands at a place: is that possible, given what was told of it before?
    fn stands(
        &mut self,
        partition: u32,
        place: (u32, u64),
        life: u32,
        source: Source,
        id: usize,
    ) -> Result<(), String> {
        let publication = &mut self.publications[id];
        let offset = place.1;
        match publication.refused {
            Some((instance, refusal))
                if refusal == Refusal::Final || instance == source.instance =>
            {
                return Err(format!("publication {id} was refused and stands at {offset}"));
            }
            _ => {}
        }
        for (other, known) in &publication.places {
            let is_other = (*other, *known) != place;
            // What came first may be heard of last.
            let first = offset.min(*known);
            let is_forgotten =
                publication.attempts > 1 && self.lives.is_forgotten(partition, first);
            if is_other && !is_forgotten && self.lives.holds(partition, *other, *known, life) {
                return Err(format!("publication {id} stands at {known} and at {offset}"));
            }
        }
        if !publication.places.contains(&place) {
            publication.places.push(place);
        }
        Ok(())
    }

    /// Whether a subscriber has come to its topic's last message.
    ///
    /// # Errors
    /// Where it is instead.
    pub fn is_past_marker(&self, run: &Run) -> Result<(), String> {
        let Some((epoch, offset)) = self.markers.get(&run.topic).copied() else {
            return Ok(());
        };
        if run.epoch == epoch && run.cursor >= offset {
            return Ok(());
        }
        Err(format!("is at {}:{} and the last message at {epoch}:{offset}", run.epoch, run.cursor))
    }

    /// A run is over, or the world is.
    pub fn keep_run(&mut self, run: Run) {
        self.runs.push(run);
    }
}

/// What an acknowledgement says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acknowledged {
    /// The log's.
    pub epoch: u64,
    /// Where it stands.
    pub offset: u64,
    /// The log had it already.
    pub is_duplicate: bool,
}

/// Whether a filter covers a topic.
pub fn matches(filter: &str, topic: &str) -> bool {
    match (Filter::parse(filter), TopicName::parse(topic)) {
        (Ok(filter), Ok(_)) => filter.matches(topic),
        _ => false,
    }
}
