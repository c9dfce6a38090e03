//! What the subscribers of a worker know of their streams, whatever the transport: cursors, order, latency.
//!
//! Place: behind the transports. One [`Stream`] (32 bytes) per client and topic, one byte of flags per client.

use std::collections::HashMap;
use std::sync::Arc;

use wire::native::Position;

use super::protocol::Turn;
use crate::choice::Choice;
use crate::pattern::Pattern;
use crate::payload::{Clock, Header, topic_hash};
use crate::statistics::Sample;
use crate::verify::{Faults, Stream};

const HAS_DATA: u8 = 1;
const IS_FAULTY: u8 = 2;

/// Which topics the clients want.
#[derive(Clone, Debug)]
pub struct Topics {
    /// All topics.
    pub pattern: Pattern,
    /// How they are given to clients.
    pub choice: Choice,
    /// Topics of one client; at least 1 and at most the pattern's length.
    pub per_client: u32,
    /// Of the random choice.
    pub seed: u64,
}

impl Topics {
    /// The topic of subscription `place` (from 0) of `client`.
    pub fn name(&self, client: u64, place: u32) -> String {
        let (per_client, len) = (u64::from(self.per_client), self.pattern.len());
        self.pattern.get(
            self.choice
                .topic(client, u64::from(place), per_client, len, self.seed),
        )
    }
}

/// The streams of a worker.
pub(super) struct Subscriptions {
    topics: Arc<Topics>,
    worker: u64,
    workers: u64,
    streams: Vec<Stream>,
    flags: Vec<u8>,
    epochs: Vec<u64>,
    /// Every so many clients one is sampled; 0 for none.
    sample_every: u64,
    samples: HashMap<u32, Sample>,
    warm_until_ns: u64,
    shared_samples: Arc<std::sync::Mutex<Vec<(u64, Sample)>>>,
}

/// How the worker takes part.
#[derive(Clone)]
pub(super) struct Share {
    pub(super) topics: Arc<Topics>,
    pub(super) worker: u64,
    pub(super) workers: u64,
    pub(super) sample_every: u64,
    pub(super) warm_until_ns: u64,
    pub(super) samples: Arc<std::sync::Mutex<Vec<(u64, Sample)>>>,
}

impl Subscriptions {
    pub(super) fn new(share: Share) -> Subscriptions {
        Subscriptions {
            topics: share.topics,
            worker: share.worker,
            workers: share.workers,
            streams: Vec::new(),
            flags: Vec::new(),
            epochs: Vec::new(),
            sample_every: share.sample_every,
            samples: HashMap::new(),
            warm_until_ns: share.warm_until_ns,
            shared_samples: share.samples,
        }
    }

    pub(super) fn per_client(&self) -> u32 {
        self.topics.per_client
    }

    /// The client of a place, numbered over all workers.
    pub(super) fn client(&self, place: u32) -> u64 {
        u64::from(place) * self.workers + self.worker
    }

    /// The name of a client's topic.
    pub(super) fn name(&self, place: u32, number: u32) -> String {
        self.topics.name(self.client(place), number)
    }

    /// Makes the streams of a client if they are not there yet.
    pub(super) fn ensure(&mut self, place: u32) {
        let per_client = self.topics.per_client;
        while self.flags.len() <= place as usize {
            let new = self.flags.len() as u32;
            for number in 0..per_client {
                let hash = topic_hash(&self.name(new, number));
                self.streams.push(Stream::new(hash));
            }
            self.flags.push(0);
            if self.sample_every > 0 && self.client(new).is_multiple_of(self.sample_every) {
                self.samples.insert(new, Sample::default());
            }
        }
    }

    /// A client's streams, by number of the topic.
    pub(super) fn of(&mut self, place: u32) -> &mut [Stream] {
        let per_client = self.topics.per_client as usize;
        let start = place as usize * per_client;
        &mut self.streams[start..start + per_client]
    }

    /// The position to resume a stream from.
    pub(super) fn cursor(&self, place: u32, number: u32) -> Option<Position> {
        let stream = &self.streams[(place * self.topics.per_client + number) as usize];
        let epoch = *self.epochs.get(usize::from(stream.epoch).checked_sub(1)?)?;
        Some(Position {
            epoch,
            offset: stream.offset,
        })
    }

    /// The small number of an epoch.
    pub(super) fn epoch(&mut self, epoch: u64) -> u16 {
        let place = match self.epochs.iter().position(|known| *known == epoch) {
            Some(place) => place,
            None => {
                if self.epochs.len() == usize::from(u16::MAX - 1) {
                    self.epochs.clear(); // no log restarts so often; the cursors then start anew
                }
                self.epochs.push(epoch);
                self.epochs.len() - 1
            }
        };
        place as u16 + 1
    }

    /// The stream that a payload belongs to by its topic's hash.
    pub(super) fn number_of(&mut self, place: u32, header: &Header) -> Option<u32> {
        let streams = self.of(place);
        streams
            .iter()
            .position(|stream| stream.topic_hash == header.topic_hash)
            .map(|number| number as u32)
    }

    /// A new message of a stream (`None`: of a filter, whose topics are not followed).
    pub(super) fn received(
        &mut self,
        place: u32,
        number: Option<u32>,
        payload: &[u8],
        turn: &mut Turn<'_>,
    ) {
        turn.tally.received += 1;
        turn.tally.received_bytes += payload.len() as u64;
        if self.flags[place as usize] & HAS_DATA == 0 {
            self.flags[place as usize] |= HAS_DATA;
            turn.tally.clients_with_data += 1;
        }
        let Some(header) = Header::read(payload) else {
            turn.tally.foreign += 1;
            return;
        };
        let mut faults = Faults::default();
        if let Some(number) = number {
            let stream = &mut self.of(place)[number as usize];
            if stream.topic_hash != header.topic_hash {
                turn.tally.trouble = Some("a message of another topic was delivered".to_owned());
                faults.proof_failed += 1;
            } else {
                stream.check_sequence(&header, &mut faults);
            }
        }
        self.note(place, &faults, turn);
        if turn.now_ns < self.warm_until_ns {
            return;
        }
        let now_ns = match header.clock {
            Clock::Monotonic => turn.now_ns,
            Clock::Realtime => Clock::Realtime.now_ns(),
        };
        let latency_ns = now_ns.saturating_sub(header.intended_ns);
        turn.tally.latency.record_ns(latency_ns);
        if let Some(sample) = self.samples.get_mut(&place) {
            sample.record_ns(latency_ns, turn.random.next_u64());
        }
    }

    /// A message at or below the cursor: a client drops it, and a correct server does not send it.
    pub(super) fn repeated(
        &mut self,
        place: u32,
        number: u32,
        payload: &[u8],
        turn: &mut Turn<'_>,
    ) {
        let mut faults = Faults::default();
        match Header::read(payload) {
            Some(header) => {
                self.of(place)[number as usize].check_sequence(&header, &mut faults);
            }
            None => faults.repeated += 1,
        }
        self.note(place, &faults, turn);
    }

    /// Counts faults of a client.
    pub(super) fn note(&mut self, place: u32, faults: &Faults, turn: &mut Turn<'_>) {
        if faults.is_clean() {
            return;
        }
        turn.tally.faults.add(faults);
        if self.flags[place as usize] & IS_FAULTY == 0 {
            self.flags[place as usize] |= IS_FAULTY;
            turn.tally.clients_faulty += 1;
        }
    }
}

impl Drop for Subscriptions {
    /// The samples outlive the worker.
    fn drop(&mut self) {
        let samples = std::mem::take(&mut self.samples);
        let (worker, workers) = (self.worker, self.workers);
        let mut shared = self
            .shared_samples
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        shared.extend(
            samples
                .into_iter()
                .map(|(place, sample)| (u64::from(place) * workers + worker, sample)),
        );
    }
}
