//! Publications on their way to the engine.
//!
//! Each partition's records go out in the order of their requests, by an idempotent producer. Its
//! answers only say what surely was not sent; everything else the tail tells. Records wait here
//! while the producer has enough of their partition ([`crate::sending`]).

use super::{Worker, scrap};
use crate::EngineError;
use crate::properties;
use crate::sending::Waiting;
use crate::settings::{EngineSettings, Severity};
use crate::token;
use crate::wake::Wake;
use broker::engine::{EngineLetter, EnginePublish};
use broker::mail::{Code, HomeId};
use kafka::{Client, Delivery, DeliveryStatus, Event, Kind, Produce, Queue, code};
use std::collections::BTreeMap;
use std::ffi::CStr;
use stdx::slab::Slab;

/// The client that sends.
pub(super) struct Publisher {
    pub(super) client: Client,
    pub(super) queue: Queue,
    pub(super) pending: Slab<Pending>,
    /// Partitions of which records were answered: others of them may go now.
    answered: Vec<u32>,
}

/// A record without an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    partition: u32,
    counter: u64,
    since_us: u64,
}

/// The time for which a partition refuses after records could not be sent, in milliseconds.
const REFUSING_MS: u64 = 1_000;
/// The time in which a useless producer must give its records up, in milliseconds.
const GIVE_UP_MS: i32 = 500;

impl Publisher {
    pub(super) fn new(settings: &EngineSettings, wake: &Wake) -> Result<Publisher, EngineError> {
        let client = Client::new(Kind::Producer, &properties::producer(settings))?;
        let queue = client.main_queue();
        queue.wake(wake.descriptor());
        Ok(Publisher { client, queue, pending: Slab::default(), answered: Vec::new() })
    }
}

impl<P: Fn(HomeId, EngineLetter) + Send + 'static> Worker<P> {
    pub(super) fn publish(&mut self, home: HomeId, publish: EnginePublish) {
        let Some(&index) = self.by_id.get(&publish.partition) else {
            self.refuse(home, &publish, Code::Internal);
            return;
        };
        let since_us = self.microseconds();
        let partition = &mut self.partitions[index];
        // One partition without a leader leaves room for the others.
        let pending_max = (self.settings.pending_max as usize / 4).max(1);
        if partition.told_available != Some(true) || partition.sending.len() >= pending_max {
            self.refuse(home, &publish, Code::LogUnavailable);
            return;
        }
        let bytes = publish.publication.topic.len() + publish.publication.payload.len();
        partition.sending.push(Waiting { record: publish, bytes, since_us });
        self.send_waiting(index);
    }

    /// Sends what waits, as far as the producer should have it.
    fn send_waiting(&mut self, index: usize) {
        loop {
            let batch = self.partitions[index].sending.take_batch();
            if batch.is_empty() {
                return;
            }
            for waiting in batch {
                self.send(index, &waiting.record, waiting.since_us);
            }
        }
    }

    /// Refuses records that have waited for as long as the producer would keep them.
    pub(super) fn refuse_overdue(&mut self) {
        let kept_us = u64::from(self.settings.produce_timeout_ms) * 1_000;
        let Some(before_us) = self.microseconds().checked_sub(kept_us) else { return };
        for index in 0..self.partitions.len() {
            while let Some(publish) = self.partitions[index].sending.take_overdue(before_us) {
                self.refuse(self.partitions[index].home, &publish, Code::LogUnavailable);
            }
        }
    }

    fn send(&mut self, index: usize, publish: &EnginePublish, since_us: u64) {
        let partition = &self.partitions[index];
        let (home, log) = (partition.home, &self.logs[partition.log]);
        let record = match log.mapping.to_record(publish) {
            Ok(record) => record,
            Err(code) => {
                self.refuse(home, publish, code);
                return;
            }
        };
        let headers: Vec<(&CStr, &[u8])> =
            record.headers.iter().map(|(name, value)| (&**name, &value[..])).collect();
        let counter = publish.name.counter;
        let pending = Pending { partition: index as u32, counter, since_us };
        let note = self.publisher.pending.insert(pending);
        let produced = self.publisher.client.produce(&Produce {
            topic: &log.name,
            partition: partition.place.cast_signed(),
            key: record.key,
            value: record.value,
            headers: &headers,
            note: u64::from(note),
        });
        match produced {
            Ok(()) => {
                self.partitions[index].sending.sent();
                self.statistics.produced += 1;
            }
            Err(error) => {
                self.publisher.pending.remove(note);
                let code = refusal_code(error.code);
                self.refuse(home, publish, code);
            }
        }
    }

    fn refuse(&mut self, home: HomeId, publish: &EnginePublish, code: Code) {
        self.statistics.refused += 1;
        let counters = vec![publish.name.counter];
        self.letter(home, EngineLetter::Refused { partition: publish.partition, counters, code });
    }

    /// Deals with the events of the client that sends.
    pub(super) fn serve_publisher(&mut self) {
        let mut is_useless = false;
        while let Some(event) = self.publisher.queue.poll(0) {
            match event {
                Event::Deliveries(deliveries) => self.answer(&deliveries),
                Event::Error { error, is_fatal } => {
                    is_useless |= is_fatal;
                    self.serve_common(Event::Error { error, is_fatal }, "producer");
                }
                Event::TokenWanted => {
                    token::give(&self.settings.security.login, self.publisher.client.clone());
                }
                Event::Topics { note, answer } => self.topics_described(note, answer),
                Event::TopicOptions { note, answer } => self.options_described(note, answer),
                Event::Offsets { note, answer } => self.offsets_listed(note, answer),
                other => self.serve_common(other, "producer"),
            }
        }
        if is_useless {
            self.replace_publisher();
        }
        for index in std::mem::take(&mut self.publisher.answered) {
            self.send_waiting(index as usize);
        }
    }

    fn answer(&mut self, deliveries: &[Delivery]) {
        let mut refused: BTreeMap<(u32, u16), Vec<u64>> = BTreeMap::new();
        let now_us = self.microseconds();
        for delivery in deliveries {
            let note = u32::try_from(delivery.note).unwrap_or(u32::MAX);
            let Some(pending) = self.publisher.pending.remove(note) else { continue };
            let partition = &mut self.partitions[pending.partition as usize];
            partition.sending.answered();
            if self.publisher.answered.last() != Some(&pending.partition) {
                self.publisher.answered.push(pending.partition);
            }
            match delivery.status {
                DeliveryStatus::Appended => {
                    self.answered_ms = self.now_ms;
                    self.statistics.produce.record(now_us.saturating_sub(pending.since_us));
                }
                DeliveryStatus::Unknown => self.statistics.unknown += 1,
                DeliveryStatus::NotSent => {
                    if delivery.code == code::TIMED_OUT {
                        partition.refuses_until_ms = self.now_ms + REFUSING_MS;
                    }
                    let key = (pending.partition, refusal_code(delivery.code).number());
                    refused.entry(key).or_default().push(pending.counter);
                }
            }
        }
        for ((index, number), counters) in refused {
            self.statistics.refused += counters.len() as u64;
            let partition = &self.partitions[index as usize];
            let (home, partition) = (partition.home, partition.id);
            let code = Code::from_number(number.into()).unwrap_or(Code::LogUnavailable);
            self.letter(home, EngineLetter::Refused { partition, counters, code });
        }
    }

    /// A new client in place of one that is of no use any more. Records that it never sent are
    /// refused; of the others the tail tells.
    pub(super) fn replace_publisher(&mut self) {
        let publisher = match Publisher::new(&self.settings, &self.wake) {
            Ok(publisher) => publisher,
            Err(error) => {
                self.say(Severity::Error, &format!("no new producer: {error}"));
                return;
            }
        };
        self.statistics.producers_replaced += 1;
        self.say(Severity::Warning, "a new producer takes the place of the last");
        self.publisher.client.give_up();
        while !self.publisher.pending.is_empty() {
            match self.publisher.queue.poll(GIVE_UP_MS) {
                Some(Event::Deliveries(deliveries)) => self.answer(&deliveries),
                Some(_) => {}
                None => break,
            }
        }
        self.statistics.unknown += self.publisher.pending.len() as u64;
        for partition in &mut self.partitions {
            partition.sending.lost_client();
        }
        self.watch.forget_questions();
        scrap(std::mem::replace(&mut self.publisher, publisher));
        for index in 0..self.partitions.len() {
            self.send_waiting(index);
        }
    }
}

/// The code for a client whose publication was not sent.
fn refusal_code(code: i32) -> Code {
    match code {
        code::TOO_LARGE => Code::MessageTooLarge,
        code::QUEUE_FULL => Code::Overloaded,
        _ => Code::LogUnavailable,
    }
}
