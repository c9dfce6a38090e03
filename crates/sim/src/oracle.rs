//! The reference model: all publications with their positions, and the messages that each
//! subscriber may and must receive.
//!
//! Clients report all that they send and receive. Positions are learned from acknowledgements,
//! deliveries and history, and must all agree, over restarts too. While the world runs,
//! contradictory claims are found at once; at its end each subscriber's run is compared with the
//! whole list of its topic (`judge`).

mod events;
mod judge;
mod lives;
mod mqtt;
mod retained;
mod run;

pub use events::Events;
pub use lives::Lives;
pub use mqtt::{
    Delivered, Fate, GroupDelivery, GroupEnd, GroupSpan, MqttCounts, MqttGroup, MqttModel,
    MqttSession, MqttSubscription, WillEnd,
};
pub use run::{Hole, Run, SKIPPED, check_skip};

use crate::plan::Plan;
use broker::mail::Code;
use broker::topic::{Filter, TopicName};
use std::collections::{BTreeMap, VecDeque};

/// The maximum number of recorded actions of a client, in lines.
const NOTES_MAX: usize = 20_000;

/// The source of data: a client, and the node of its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Source {
    /// The client.
    pub client: usize,
    /// The node: 0 is the first, each restart makes the next.
    pub instance: u32,
}

/// The effect of a refusal on the data on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The publication was not appended.
    Final,
    /// The publication was not visible; after a crash it may turn out to be on disk.
    UntilCrash,
}

impl Refusal {
    /// The refusal for an error code.
    pub fn of(code: u32) -> Refusal {
        let of_disk = [Code::LogUnavailable, Code::LogFull];
        if of_disk.iter().any(|other| u32::from(other.number()) == code) {
            Refusal::UntilCrash
        } else {
            Refusal::Final
        }
    }
}

/// The identity of a publication, for deduplication.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Once {
    /// None.
    No,
    /// A producer and its sequence.
    Sequence(u64, u64),
    /// A unique key.
    Key,
    /// MQTT with QoS 1, and QoS 2 over a crash: a repeat may stand again.
    Repeats,
    /// MQTT with QoS 2.
    Qos2,
}

/// One message of a client, sent once or, if it has an identity, repeatedly.
#[derive(Clone, Debug)]
pub struct Publication {
    /// Its topic.
    pub topic: usize,
    /// The moment of the first attempt: increases with every event.
    pub sent_at: u64,
    /// The greatest known offset of the partition at the last attempt.
    floor: u64,
    /// The node of the last attempt.
    instance: u32,
    /// The node of the first attempt.
    first_instance: u32,
    /// The number of attempts.
    attempts: u32,
    /// The number of attempts with an unknown outcome.
    open: u32,
    /// The node that refused all attempts.
    refused: Option<(u32, Refusal)>,
    /// Its positions: life and offset.
    places: Vec<(u32, u64)>,
    /// The identity for deduplication.
    pub once: Once,
    /// Published with RETAIN.
    pub retain: bool,
    /// The QoS of a publication of MQTT.
    pub qos: Option<u8>,
    /// The client of MQTT that has sent it.
    pub mqtt_client: Option<usize>,
    payload: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    publication: usize,
    /// The `prev` of its deliveries.
    prev: Option<u64>,
}

impl Publication {
    /// The number of attempts.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The node of the last attempt.
    pub fn instance(&self) -> u32 {
        self.instance
    }

    /// Its bytes.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }
}

/// The first failure.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Virtual milliseconds.
    pub at_ms: u64,
    /// The client of the failure.
    pub client: Option<usize>,
    /// The expectation, and the observation.
    pub text: String,
}

/// The reference model; see the module.
#[derive(Default)]
pub struct Oracle {
    /// All publications.
    pub publications: Vec<Publication>,
    /// The node's events.
    pub events: Events,
    /// The epochs of logs.
    pub lives: Lives,
    /// Publications by (partition, life, offset).
    places: BTreeMap<(u32, u32, u64), Place>,
    /// The greatest known offset in the present life, by partition.
    floors: BTreeMap<u32, u64>,
    runs: Vec<Run>,
    /// The content of a topic's history after the last message, and the moment when it was read.
    pub present: BTreeMap<usize, BTreeMap<u64, u64>>,
    /// Epoch and offset of each topic's last message, sent after all faults.
    pub markers: BTreeMap<usize, (u64, u64)>,
    /// The number of topics with a publication after all other clients had left.
    pub visited: usize,
    /// Increases with every event.
    pub moment: u64,
    /// The first failure.
    pub failure: Option<Failure>,
    /// Virtual milliseconds.
    pub now_ms: u64,
    /// Whether clients' actions are recorded.
    pub tracing: bool,
    notes: BTreeMap<usize, VecDeque<String>>,
    /// The number of checked deliveries.
    pub deliveries: u64,
    /// The number of checked gaps and skips.
    pub holes: u64,
    /// Acknowledgements of messages that the log already contained.
    pub duplicates: u64,
    /// The part of these over HTTP.
    pub duplicates_over_http: u64,
    /// Event streams over filters that were resumed with an id.
    pub streams_resumed: u64,
    /// Filters of event streams that were refused while others continued.
    pub filters_refused: u64,
    /// Refusals because a user had the maximum number of connections.
    pub crowds: u64,
    /// A disk has flipped bits: acknowledged records may be lost, if that is reported.
    pub is_flipped: bool,
    /// Sessions of MQTT.
    pub mqtt: MqttModel,
}

impl Oracle {
    /// Counts an event; returns its number.
    pub fn tick(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    /// Records an action or an observation of a client.
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

    /// Records a text for all clients with records.
    pub fn note_all(&mut self, text: &str) {
        for client in self.notes.keys().copied().collect::<Vec<usize>>() {
            self.note(client, || text.to_owned());
        }
    }

    /// The last recorded actions of a client.
    pub fn notes(&self, client: usize) -> impl Iterator<Item = &String> {
        self.notes.get(&client).into_iter().flatten()
    }

    /// Reports a failure. Only the first one is kept.
    pub fn fail(&mut self, client: impl Into<Option<usize>>, text: String) {
        if self.failure.is_none() {
            self.failure = Some(Failure { at_ms: self.now_ms, client: client.into(), text });
        }
    }

    /// Begins the next node. For each log: its epoch, its start if it is new, and its older epochs.
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

    /// The epoch of a partition for the node of a connection.
    pub fn epoch(&self, partition: u32, instance: u32) -> u64 {
        self.lives.epoch(partition, self.lives.at(partition, instance))
    }

    /// The present epoch of a partition.
    pub fn present_epoch(&self, partition: u32) -> u64 {
        self.epoch(partition, self.lives.instance())
    }

    /// Whether an earlier position is valid for the node of a connection.
    pub fn holds(&self, partition: u32, epoch: u64, offset: u64, instance: u32) -> bool {
        let to = self.lives.at(partition, instance);
        self.lives
            .of_epoch(partition, epoch)
            .is_some_and(|from| self.lives.holds(partition, from, offset, to))
    }

    /// The greatest known offset of a partition.
    pub fn floor(&self, partition: u32) -> u64 {
        self.floors.get(&partition).copied().unwrap_or(0)
    }

    /// Creates a message: its payload identifies it. `padding` bytes follow.
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
            first_instance: self.lives.instance(),
            attempts: 1,
            open: 1,
            refused: None,
            places: Vec::new(),
            once: Once::No,
            retain: false,
            qos: None,
            mqtt_client: None,
            payload: payload.clone(),
        });
        (id, payload)
    }

    /// Repeats a message with an identity; returns its payload.
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

    /// Processes an acknowledgement that has no position.
    pub fn accepted(&mut self, source: Source, id: usize) {
        let publication = &mut self.publications[id];
        publication.open = publication.open.saturating_sub(1);
        let moment = self.tick();
        self.mqtt.accepted.push((id, source, moment));
    }

    /// Processes a refused publication.
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
            // It may have been on disk, and be visible to the next node, before this node's refusal
            // is read.
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

    /// Processes an acknowledged publication.
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

    /// Checks a received message, except its order. False if it was not published in this form.
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
            let text = format!("offset {offset} of {name} is not a publication");
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

    /// Records a publication's position: checks it against all earlier reports.
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
            // The first position may be reported last.
            let first = offset.min(*known);
            let is_forgotten =
                publication.attempts > 1 && self.lives.is_forgotten(partition, first);
            let may_repeat = publication.attempts > 1 && publication.once == Once::Repeats;
            if is_other
                && !is_forgotten
                && !may_repeat
                && self.lives.holds(partition, *other, *known, life)
            {
                return Err(format!("publication {id} stands at {known} and at {offset}"));
            }
        }
        if !publication.places.contains(&place) {
            publication.places.push(place);
        }
        Ok(())
    }

    /// Whether a subscriber has reached its topic's last message.
    ///
    /// # Errors
    /// The subscriber's present position.
    pub fn is_past_marker(&self, run: &Run) -> Result<(), String> {
        let Some((epoch, offset)) = self.markers.get(&run.topic).copied() else {
            return Ok(());
        };
        if run.epoch == epoch && run.cursor >= offset {
            return Ok(());
        }
        Err(format!("is at {}:{} and the last message at {epoch}:{offset}", run.epoch, run.cursor))
    }

    /// Stores a run at its end.
    pub fn keep_run(&mut self, run: Run) {
        self.runs.push(run);
    }
}

/// The content of an acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acknowledged {
    /// The log's epoch.
    pub epoch: u64,
    /// The message's offset.
    pub offset: u64,
    /// The log already contained it.
    pub is_duplicate: bool,
}

/// Whether a filter matches a topic.
pub fn matches(filter: &str, topic: &str) -> bool {
    match (Filter::parse(filter), TopicName::parse(topic)) {
        (Ok(filter), Ok(_)) => filter.matches(topic),
        _ => false,
    }
}
