//! The tails of all partitions.
//!
//! All partitions of a home share a queue. It is read only as long as the home has credit: then
//! librdkafka fills the queue up to its bound, and fetches no more for these partitions.

use super::watch::unix_ms;
use super::{Worker, scrap};
use crate::EngineError;
use crate::beginning::lag_ms_min;
use crate::partition::{Life, Partition, Verdict};
use crate::properties;
use crate::record::{RawRecord, Unroutable};
use crate::settings::{EngineSettings, Severity};
use crate::token;
use crate::wake::Wake;
use broker::engine::EngineLetter;
use broker::mail::HomeId;
use kafka::{Client, Event, Kind, MessageRef, Place, Queue, Timestamp, code};

/// The client that reads.
pub(super) struct Reader {
    client: Client,
    main: Queue,
    consumer: Queue,
    /// One for each home.
    homes: Vec<Queue>,
    /// Whether the partitions that are read have changed, or the client is of no use any more.
    pub(super) is_stale: bool,
    /// A second assignment undoes the forwarding to the homes' queues, so it takes a new client.
    is_assigned: bool,
    /// No new client before this time.
    next_ms: u64,
}

/// Messages that are read at once.
const BATCH: usize = 128;
/// Messages read for a home in one turn.
const TURN_MAX: usize = 4_096;
/// Bytes of a letter after which it goes to its home.
const LETTER_BYTES_MAX: u32 = 256 << 10;
/// The time between two attempts to start the tail, in milliseconds.
const RETRY_MS: u64 = 1_000;
/// The time between two looks for held tails, in milliseconds.
pub(super) const HELD_INTERVAL_MS: u64 = 1_000;
/// The maximum time of a new assignment, in milliseconds.
const SEEK_MS: i32 = 1_000;

impl Reader {
    pub(super) fn new(settings: &EngineSettings, wake: &Wake) -> Result<Reader, EngineError> {
        let client = Client::new(Kind::Consumer, &properties::consumer(settings))?;
        let (main, consumer) = (client.main_queue(), client.consumer_queue());
        let homes: Vec<Queue> = (0..settings.homes_count).map(|_| client.new_queue()).collect();
        for queue in homes.iter().chain([&main, &consumer]) {
            queue.wake(wake.descriptor());
        }
        Ok(Reader {
            client,
            main,
            consumer,
            homes,
            is_stale: false,
            is_assigned: false,
            next_ms: 0,
        })
    }
}

impl<P: Fn(HomeId, EngineLetter) + Send + 'static> Worker<P> {
    /// Deals with events of the client that reads, other than messages.
    pub(super) fn serve_reader_events(&mut self) {
        while let Some(event) = self.reader.main.poll(0) {
            match event {
                Event::TokenWanted => {
                    token::give(&self.settings.security.login, self.reader.client.clone());
                }
                Event::Error { error, is_fatal } => {
                    self.reader.is_stale |= is_fatal;
                    self.serve_common(Event::Error { error, is_fatal }, "consumer");
                }
                other => self.serve_common(other, "consumer"),
            }
        }
        while let Some(event) = self.reader.consumer.poll(0) {
            // A message belongs into its home's queue. Here it would be lost.
            self.reader.is_stale |= event == Event::Other;
            self.serve_common(event, "consumer");
        }
    }

    /// Reads for each home as its credit permits. Returns whether more waits that may be read.
    pub(super) fn read_tails(&mut self) -> bool {
        let mut has_more = false;
        for home in 0..self.reader.homes.len() {
            let mut count = 0;
            while self.credits[home] > 0 && count < TURN_MAX {
                let read = self.read_batch(home);
                count += read;
                if read == 0 {
                    break;
                }
            }
            has_more |= count >= TURN_MAX;
            if count > 0 {
                self.answered_ms = self.now_ms;
                self.send_tails(home);
            }
        }
        has_more
    }

    /// Reads some messages for a home, and returns their number.
    fn read_batch(&mut self, home: usize) -> usize {
        // The queue is lent to the loop, so it leaves its place for that time.
        let queue = self.reader.homes.swap_remove(home);
        let count = queue.consume(BATCH, |message| {
            let Some(index) = self.index_of(message) else { return };
            match message.code() {
                0 => self.take_record(index, message),
                code::PARTITION_END => {
                    let offset = u64::try_from(message.offset()).unwrap_or(0);
                    self.partitions[index].settle(offset, self.now_ms);
                }
                code::OFFSET_RESET => self.lost(index, &message.error_text()),
                _ => {
                    self.statistics.errors += 1;
                    let place = self.name_of(index);
                    self.say(Severity::Warning, &format!("{place}: {}", message.error_text()));
                }
            }
        });
        self.reader.homes.push(queue);
        let last = self.reader.homes.len() - 1;
        self.reader.homes.swap(home, last);
        count
    }

    /// The index of a message's partition.
    fn index_of(&self, message: MessageRef<'_>) -> Option<usize> {
        let topic = message.topic();
        let log = self.logs.iter().find(|log| log.name.to_bytes() == topic)?;
        let place = u32::try_from(message.partition()).ok()?;
        (place < log.mapping.partitions_count).then(|| log.first + place as usize)
    }

    fn take_record(&mut self, index: usize, message: MessageRef<'_>) {
        let offset = u64::try_from(message.offset()).unwrap_or(0);
        let lineage = message.leader_epoch().unwrap_or(0);
        let time_ms = match message.timestamp() {
            Timestamp::Broker(time) | Timestamp::Producer(time) => time,
            Timestamp::None => 0,
        };
        let log = self.partitions[index].log;
        if self.settings.logs[log].is_compacted {
            let kept_ms =
                self.logs[log].kept_ms.unwrap_or(0).max(lag_ms_min(&self.settings.logs[log]));
            if self.partitions[index].meets_compaction(time_ms, unix_ms(), kept_ms) {
                self.lost(
                    index,
                    "the tail is so far behind that records before it may be compacted",
                );
                return;
            }
        }
        match self.partitions[index].meet(offset, lineage, self.now_ms) {
            Verdict::New => {}
            Verdict::Known => return,
            Verdict::Contradiction => {
                self.lost(index, "the lineage of a record is below the last one");
                return;
            }
        }
        let mut headers = Vec::new();
        message.headers(|name, value| headers.push((name, value)));
        let raw = RawRecord {
            offset,
            lineage,
            time_ms,
            key: message.key(),
            value: message.value(),
            headers: &headers,
        };
        let Partition { log, place, .. } = self.partitions[index];
        match self.logs[log].mapping.to_message(place, &raw, &mut self.memory) {
            Ok(record) => {
                self.statistics.records += 1;
                self.statistics.record_bytes += record.publication.payload.len() as u64;
                // The home pays for a record at once, so that many partitions do not exceed its
                // credit together.
                let home = usize::from(self.partitions[index].home);
                self.credits[home] -= i64::from(record.cost());
                let waiting = self.partitions[index].keep(record);
                if waiting >= LETTER_BYTES_MAX {
                    self.send_tail(index);
                }
            }
            Err(reason) => self.unroutable(index, &raw, reason),
        }
    }

    /// Counts an unroutable record, and writes an example of each reason.
    fn unroutable(&mut self, index: usize, record: &RawRecord<'_>, reason: Unroutable) {
        let count = *self.statistics.unroutable.count(reason);
        if count.is_power_of_two() {
            let place = self.name_of(index);
            let key = record.key.map(|key| String::from_utf8_lossy(key).into_owned());
            let key = key.map(|key| key.chars().take(64).collect::<String>());
            let offset = record.offset;
            let line = format!(
                "{place}: the record at offset {offset} with the key {key:?} is unroutable: \
                 {reason:?}; so far {count} for this reason"
            );
            self.say(Severity::Warning, &line);
        }
    }

    fn send_tails(&mut self, home: usize) {
        for index in 0..self.partitions.len() {
            if usize::from(self.partitions[index].home) == home {
                self.send_tail(index);
            }
        }
    }

    pub(super) fn send_tail(&mut self, index: usize) {
        let paid = self.partitions[index].waiting_cost();
        if let Some(tail) = self.partitions[index].take_tail(self.now_ms) {
            let home = self.partitions[index].home;
            self.credits[usize::from(home)] -= i64::from(tail.cost()) - i64::from(paid);
            self.letter(home, EngineLetter::Tail(tail));
        }
    }

    /// The engine has lost records that a partition has read, or will read: it begins anew.
    pub(super) fn lost(&mut self, index: usize, reason: &str) {
        if matches!(self.partitions[index].life, Life::New) {
            return;
        }
        // The records so far belong to the life that ends.
        self.send_tail(index);
        let place = self.name_of(index);
        let next = self.partitions[index].reading().map_or(0, |it| it.next);
        self.say(Severity::Error, &format!("{place} begins anew at offset {next}: {reason}"));
        self.partitions[index].life = Life::New;
        self.watch.lost.insert(index, next);
        // Perhaps the topic is another one. The partition begins after a description that is newer
        // than the loss.
        self.watch.describe_again(self.partitions[index].log);
    }

    /// Gives a new reader the partitions, if they have changed or the last one is of no use.
    pub(super) fn assign_if_needed(&mut self) {
        if !self.reader.is_stale || self.now_ms < self.reader.next_ms {
            return;
        }
        if self.reader.is_assigned {
            match Reader::new(&self.settings, &self.wake) {
                Ok(reader) => scrap(std::mem::replace(&mut self.reader, reader)),
                Err(error) => {
                    self.say(Severity::Error, &format!("no new consumer: {error}"));
                    return;
                }
            }
        }
        self.reader.is_stale = false;
        self.reader.is_assigned = true;
        let mut places = Vec::new();
        for partition in &self.partitions {
            let Some(reading) = partition.reading() else { continue };
            let topic = &*self.logs[partition.log].name;
            let number = partition.place.cast_signed();
            self.reader.client.forward(
                topic,
                number,
                &self.reader.homes[usize::from(partition.home)],
            );
            places.push(Place {
                topic,
                partition: number,
                offset: reading.next.cast_signed(),
                leader_epoch: reading.lineage,
            });
        }
        let assigned = self.reader.client.assign(&places).and_then(|()| {
            // With a lineage, the leader is asked whether it still has the record before.
            places.retain(|place| place.leader_epoch.is_some());
            if places.is_empty() { Ok(()) } else { self.reader.client.seek(&places, SEEK_MS) }
        });
        if assigned.is_ok() {
            self.partitions.iter_mut().for_each(Partition::assigned);
        }
        if let Err(error) = assigned {
            self.statistics.errors += 1;
            self.reader.is_stale = true;
            self.reader.next_ms = self.now_ms + RETRY_MS;
            self.say(Severity::Warning, &format!("the tail does not start yet: {error}"));
        }
    }

    /// Finds quiet partitions that an open transaction of another producer holds.
    pub(super) fn look_for_held_tails(&mut self) {
        let quiet_ms = self.settings.silence_max_ms / 2;
        let long_ms = self.settings.silence_max_ms * 6;
        let mut count = 0;
        for index in 0..self.partitions.len() {
            let partition = &mut self.partitions[index];
            if !partition.is_quiet(self.now_ms, quiet_ms) {
                continue;
            }
            let (topic, number) = (&self.logs[partition.log].name, partition.place.cast_signed());
            let Some(end) = self.reader.client.fetched_end(topic, number) else { continue };
            let held_ms = partition.held_ms(end, self.now_ms).unwrap_or(0);
            if held_ms < long_ms {
                continue;
            }
            count += 1;
            // Once at the begin, and then every ten minutes.
            if (held_ms - long_ms) % 600_000 < HELD_INTERVAL_MS {
                let place = self.name_of(index);
                let line = format!(
                    "{place}: an open transaction of another producer holds {} records for {} s",
                    end.saturating_sub(self.partitions[index].reading().map_or(end, |it| it.next)),
                    held_ms / 1_000
                );
                self.say(Severity::Warning, &line);
            }
        }
        self.statistics.held = count;
    }

    /// The engine's name of a partition, for lines.
    pub(super) fn name_of(&self, index: usize) -> String {
        let partition = &self.partitions[index];
        let log = self.settings.logs.get(partition.log).map_or("", |log| log.topic.as_str());
        format!("{log}[{}]", partition.place)
    }
}
