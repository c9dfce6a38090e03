//! The streams of a worker's subscribers on every transport: cursors, order, latency.
//!
//! Place: behind the transports. One [`Stream`] (32 bytes) per client and topic, one byte of flags
//! per client; more only for clients of several topics, and where streams are audited.

use std::collections::HashMap;
use std::sync::Arc;

use wire::native::{Beginning, Position, Start};

use super::auditing::{AuditShare, Auditing};
use super::left::SharedResults;
use super::protocol::Turn;
use super::receivers::{Receivers, SharedReceivers};
use super::window::Window;
use crate::audit::{Counted, Findings};
use crate::choice::Choice;
use crate::pattern::Pattern;
use crate::payload::{Clock, Header, topic_hash};
use crate::statistics::Sample;
use crate::tokens::WorkerTokens;
use crate::verify::{EPOCHS_MAX, Faults, Stream};

/// The start with the oldest message that is held: no history has so many.
pub(super) const FIRST: Start = Start::Last(u32::MAX);

const HAS_DATA: u8 = 1;
const IS_FAULTY: u8 = 2;
/// All its topics are live.
const IS_LIVE: u8 = 4;
/// It was sent away and has not become live again.
const IS_AWAY: u8 = 8;

/// Which topics the clients want.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Topics {
    /// All topics.
    pub pattern: Pattern,
    /// The assignment of topics to clients.
    pub choice: Choice,
    /// Topics of one client; at least 1 and at most the pattern's length.
    pub per_client: u32,
    /// Seed of the random choice.
    pub seed: u64,
}

impl Topics {
    /// The topic of subscription `place` (from 0) of `client`.
    pub fn name(&self, client: u64, place: u32) -> String {
        let (per_client, len) = (u64::from(self.per_client), self.pattern.len());
        self.pattern.get(self.choice.topic(client, u64::from(place), per_client, len, self.seed))
    }
}

/// The streams of a worker.
pub(super) struct Subscriptions {
    share: Share,
    streams: Vec<Stream>,
    flags: Vec<u8>,
    /// Topics of each client that are not live; empty where a client has one topic only.
    waiting: Vec<u32>,
    epochs: Vec<u64>,
    samples: HashMap<u32, Sample>,
    auditing: Option<Auditing>,
    receivers: Option<Receivers>,
}

/// The worker's share of the run.
#[derive(Clone)]
pub(super) struct Share {
    pub(super) topics: Arc<Topics>,
    /// The start of a stream without a cursor.
    pub(super) start: Start<'static>,
    /// The worker, and what its clients show.
    pub(super) shown: WorkerTokens,
    /// Clients of this worker.
    pub(super) clients: u32,
    /// Every so many clients one is sampled; 0 for none.
    pub(super) sample_every: u64,
    pub(super) window: Arc<Window>,
    /// The number of receivers of every message and their common state, if the last receiver is
    /// measured.
    pub(super) receivers: Option<(u64, SharedReceivers)>,
    /// Seconds between signs of life to ask for; 0 leaves it to the server.
    pub(super) ping_interval_s: u32,
    /// Every stream is audited.
    pub(super) audit: Option<AuditShare>,
    pub(super) results: SharedResults,
}

impl Share {
    /// The client of a place, numbered over all workers.
    fn client(&self, place: u32) -> u64 {
        self.shown.client(place)
    }

    /// The name of a client's topic.
    fn name(&self, place: u32, number: u32) -> String {
        self.topics.name(self.client(place), number)
    }

    /// The name of a stream's topic.
    fn stream_name(&self, stream: usize) -> String {
        let per_client = self.topics.per_client as usize;
        self.name((stream / per_client) as u32, (stream % per_client) as u32)
    }
}

impl Subscriptions {
    pub(super) fn new(share: Share) -> Subscriptions {
        Subscriptions {
            streams: Vec::new(),
            flags: Vec::new(),
            waiting: Vec::new(),
            epochs: Vec::new(),
            samples: HashMap::new(),
            auditing: share.audit.clone().map(Auditing::new),
            receivers: share.receivers.clone().map(|(all, shared)| Receivers::new(all, shared)),
            share,
        }
    }

    pub(super) fn per_client(&self) -> u32 {
        self.share.topics.per_client
    }

    pub(super) fn ping_interval_s(&self) -> u32 {
        self.share.ping_interval_s
    }

    /// The value of a client's `Authorization` field.
    pub(super) fn authorization(&self, place: u32) -> Option<String> {
        self.share.shown.authorization(place)
    }

    /// The name of a client's topic.
    pub(super) fn name(&self, place: u32, number: u32) -> String {
        self.share.name(place, number)
    }

    /// Makes the streams of a client if they are not there yet.
    pub(super) fn ensure(&mut self, place: u32) {
        let per_client = self.per_client();
        while self.flags.len() <= place as usize {
            let new = self.flags.len() as u32;
            for number in 0..per_client {
                let hash = topic_hash(&self.name(new, number));
                let mut stream = Stream::new(hash);
                if let Start::Since(position) = self.share.start
                    && let Ok(epoch) = self.epoch(position.epoch)
                {
                    stream.set_cursor(epoch, position.offset);
                }
                self.streams.push(stream);
            }
            self.flags.push(0);
            if per_client > 1 {
                self.waiting.push(per_client);
            }
            let every = self.share.sample_every;
            if every > 0 && self.share.client(new).is_multiple_of(every) {
                self.samples.insert(new, Sample::default());
            }
        }
        if let Some(auditing) = &mut self.auditing {
            auditing.resize(self.streams.len());
        }
    }

    fn index(&self, place: u32, number: u32) -> usize {
        place as usize * self.per_client() as usize + number as usize
    }

    fn stream(&mut self, place: u32, number: u32) -> &mut Stream {
        let index = self.index(place, number);
        &mut self.streams[index]
    }

    /// A client's streams, by number of the topic.
    pub(super) fn of(&mut self, place: u32) -> &mut [Stream] {
        let start = self.index(place, 0);
        let per_client = self.per_client() as usize;
        &mut self.streams[start..start + per_client]
    }

    /// The position to resume a stream from.
    pub(super) fn cursor(&self, place: u32, number: u32) -> Option<Position> {
        let stream = &self.streams[self.index(place, number)];
        let epoch = *self.epochs.get(usize::from(stream.epoch()).checked_sub(1)?)?;
        Some(Position { epoch, offset: stream.offset })
    }

    /// The start of a stream: its cursor, or the start of the run.
    pub(super) fn start(&self, place: u32, number: u32) -> Start<'static> {
        self.cursor(place, number).map_or(self.share.start, Start::Since)
    }

    /// Streams without a cursor begin with the oldest message that is held.
    pub(super) fn is_from_first(&self) -> bool {
        self.share.start == FIRST
    }

    /// A transport told the cursor by itself.
    pub(super) fn set_cursor(&mut self, place: u32, number: u32, position: Position) {
        if number < self.per_client()
            && let Ok(epoch) = self.epoch(position.epoch)
        {
            self.stream(place, number).set_cursor(epoch, position.offset);
        }
    }

    /// The small number of an epoch.
    fn epoch(&mut self, epoch: u64) -> Result<u16, String> {
        let place = match self.epochs.iter().position(|known| *known == epoch) {
            Some(place) => place,
            None if self.epochs.len() == EPOCHS_MAX => {
                return Err(format!("more than {EPOCHS_MAX} epochs in one run"));
            }
            None => {
                self.epochs.push(epoch);
                self.epochs.len() - 1
            }
        };
        Ok(place as u16 + 1)
    }

    /// The stream that a payload belongs to by its topic's hash.
    pub(super) fn number_of(&mut self, place: u32, header: &Header) -> Option<u32> {
        self.number_of_hash(place, header.topic_hash)
    }

    /// The stream of the topic with this hash.
    pub(super) fn number_of_hash(&mut self, place: u32, topic_hash: u32) -> Option<u32> {
        let streams = self.of(place);
        streams
            .iter()
            .position(|stream| stream.topic_hash == topic_hash)
            .map(|number| number as u32)
    }

    /// Whether topics are filters with wildcards, as MQTT has them.
    pub(super) fn has_wildcards(&self) -> bool {
        self.share.topics.pattern.has_any(&['+', '#'])
    }

    /// The server's answer to the subscription of a topic.
    pub(super) fn subscribed(
        &mut self,
        place: u32,
        number: u32,
        alias: u32,
        beginning: Beginning,
        turn: &mut Turn<'_>,
    ) -> Result<(), String> {
        let epoch = self.epoch(beginning.through.epoch)?;
        let index = self.index(place, number);
        let stream = &mut self.streams[index];
        let was_live = stream.is_live();
        if stream.epoch() != 0 && stream.epoch() != epoch {
            if beginning.continued {
                turn.tally.epochs_continued += 1;
            } else {
                turn.tally.epochs_lost += 1;
            }
        }
        stream.subscribed(alias, epoch, &beginning);
        if let Some(auditing) = &mut self.auditing {
            auditing.of(index).begun();
        }
        self.happened(place, index, was_live, turn);
        Ok(())
    }

    /// A delivery of the native protocol.
    pub(super) fn delivered(
        &mut self,
        place: u32,
        number: u32,
        (prev, offset): (u64, u64),
        payload: &[u8],
        turn: &mut Turn<'_>,
    ) {
        let mut faults = Faults::default();
        let stream = self.stream(place, number);
        let is_new = stream.check_proof(prev, offset, &mut faults);
        self.note(place, Some(number), &faults, turn);
        if is_new {
            self.received(place, Some(number), payload, turn);
        } else {
            self.repeated(place, number, payload, turn);
        }
    }

    /// A gap was announced: the cursor is this position.
    pub(super) fn gap(
        &mut self,
        place: u32,
        number: u32,
        to: Position,
        turn: &mut Turn<'_>,
    ) -> Result<(), String> {
        let epoch = self.epoch(to.epoch)?;
        let index = self.index(place, number);
        let stream = &mut self.streams[index];
        // The answer to the subscription may have named the new epoch already.
        let has_new_epoch = stream.is_gap_due_at_once() || stream.epoch() != epoch;
        stream.gap(epoch, to.offset);
        self.told_gap(place, index, has_new_epoch, turn);
        Ok(())
    }

    /// A gap was announced without a position.
    pub(super) fn gap_somewhere(
        &mut self,
        place: u32,
        number: u32,
        has_new_epoch: bool,
        turn: &mut Turn<'_>,
    ) {
        let index = self.index(place, number);
        self.streams[index].forgive();
        self.told_gap(place, index, has_new_epoch, turn);
    }

    fn told_gap(&mut self, place: u32, index: usize, has_new_epoch: bool, turn: &mut Turn<'_>) {
        turn.tally.gaps += 1;
        let was_live = self.streams[index].is_live();
        if let Some(auditing) = &mut self.auditing {
            auditing.of(index).gap(has_new_epoch);
        }
        self.happened(place, index, was_live, turn);
    }

    /// A skip was announced.
    pub(super) fn skipped(
        &mut self,
        place: u32,
        number: u32,
        from: u64,
        through: u64,
        turn: &mut Turn<'_>,
    ) {
        turn.tally.skipped += 1;
        let mut faults = Faults::default();
        let index = self.index(place, number);
        self.streams[index].skipped(from, through, &mut faults);
        self.note(place, Some(number), &faults, turn);
        if let Some(auditing) = &mut self.auditing {
            auditing.of(index).skip();
        }
        let is_live = self.streams[index].is_live();
        self.happened(place, index, is_live, turn);
    }

    /// A replay is over.
    pub(super) fn caught_up(&mut self, place: u32, number: u32, through: u64, turn: &mut Turn<'_>) {
        let mut faults = Faults::default();
        let index = self.index(place, number);
        let was_live = self.streams[index].is_live();
        self.streams[index].caught_up(through, &mut faults);
        self.note(place, Some(number), &faults, turn);
        self.happened(place, index, was_live, turn);
    }

    /// A transport that tells no single subscription: all topics of the client are live.
    pub(super) fn all_live(&mut self, place: u32, turn: &mut Turn<'_>) {
        for number in 0..self.per_client() {
            self.set_live(place, number, turn);
        }
    }

    /// A transport without positions: a topic of the client is live.
    pub(super) fn set_live(&mut self, place: u32, number: u32, turn: &mut Turn<'_>) {
        let index = self.index(place, number);
        let was_live = self.streams[index].is_live();
        self.streams[index].set_live();
        if let Some(auditing) = &mut self.auditing {
            auditing.of(index).begun();
        }
        self.happened(place, index, was_live, turn);
    }

    /// The connection is gone.
    pub(super) fn disconnected(&mut self, place: u32, turn: &mut Turn<'_>) {
        self.ensure(place); // a connect may fail before it began
        for number in 0..self.per_client() {
            let index = self.index(place, number);
            if self.streams[index].disconnected()
                && let Some(auditing) = &mut self.auditing
            {
                auditing.of(index).gap(true);
            }
        }
        let flags = &mut self.flags[place as usize];
        if *flags & IS_LIVE != 0 {
            *flags &= !IS_LIVE;
            turn.tally.clients_live -= 1;
        }
        if turn.is_away {
            *flags |= IS_AWAY;
        }
        if let Some(waiting) = self.waiting.get_mut(place as usize) {
            *waiting = self.share.topics.per_client;
        }
    }

    /// Something has happened to a stream: it may be live now, and may have all that was waited
    /// for.
    fn happened(&mut self, place: u32, index: usize, was_live: bool, turn: &mut Turn<'_>) {
        let is_live = self.streams[index].is_live();
        if let Some(auditing) = &mut self.auditing {
            auditing.settle(index, is_live, turn.tally);
        }
        if was_live || !is_live {
            return;
        }
        if let Some(waiting) = self.waiting.get_mut(place as usize) {
            *waiting -= 1;
            if *waiting > 0 {
                return;
            }
        }
        let flags = &mut self.flags[place as usize];
        turn.tally.clients_live += i64::from(*flags & IS_LIVE == 0);
        *flags |= IS_LIVE;
        if *flags & IS_AWAY != 0 {
            *flags &= !IS_AWAY;
            turn.tally.return_time.record_ns(turn.now_ns.saturating_sub(turn.return_ns));
        }
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
        match number {
            Some(number) => self.judge(place, number, &header, turn),
            None => turn.tally.messages += 1,
        }
        if !self.share.window.counts(&header, turn.now_ns) {
            return;
        }
        let now_ns = match header.clock {
            Clock::Monotonic => turn.now_ns,
            Clock::Realtime => Clock::Realtime.now_ns(),
        };
        let latency_ns = now_ns.saturating_sub(header.intended_ns);
        turn.tally.latency.record_ns(latency_ns);
        if let Some(receivers) = &mut self.receivers {
            receivers.received(header.publisher, header.sequence, latency_ns);
        }
        if let Some(sample) = self.samples.get_mut(&place) {
            sample.record_ns(latency_ns, turn.random.next_u64());
        }
    }

    /// Judges a message by its publisher's number.
    fn judge(&mut self, place: u32, number: u32, header: &Header, turn: &mut Turn<'_>) {
        let mut faults = Faults::default();
        let index = self.index(place, number);
        let stream = &mut self.streams[index];
        let is_of_topic = stream.topic_hash == header.topic_hash;
        let mut is_new = false;
        if is_of_topic {
            is_new = stream.check_sequence(header, &mut faults);
        } else {
            turn.tally.trouble = Some("a message of another topic was delivered".to_owned());
            faults.proof_failed += 1;
        }
        turn.tally.messages += u64::from(is_new);
        turn.tally.recovered += u64::from(is_new && stream.is_replaying());
        self.count(place, &faults, turn);
        if let Some(auditing) = &mut self.auditing {
            let message = Counted { publisher: header.publisher, sequence: header.sequence };
            auditing.of(index).message(message, is_new, &faults);
            let is_live = self.streams[index].is_live();
            auditing.settle(index, is_live, turn.tally);
        }
    }

    /// A message at or below the cursor: a client drops it, and a correct server does not send it.
    fn repeated(&mut self, place: u32, number: u32, payload: &[u8], turn: &mut Turn<'_>) {
        let mut faults = Faults::default();
        match Header::read(payload) {
            Some(header) => {
                self.stream(place, number).check_sequence(&header, &mut faults);
            }
            None => faults.repeated += 1,
        }
        self.note(place, Some(number), &faults, turn);
    }

    /// Counts faults of a client, and of its stream.
    fn note(&mut self, place: u32, number: Option<u32>, faults: &Faults, turn: &mut Turn<'_>) {
        if faults.is_clean() {
            return;
        }
        self.count(place, faults, turn);
        if let Some(number) = number {
            let index = self.index(place, number);
            if let Some(auditing) = &mut self.auditing {
                auditing.of(index).fault(faults);
            }
        }
    }

    fn count(&mut self, place: u32, faults: &Faults, turn: &mut Turn<'_>) {
        if faults.is_clean() {
            return;
        }
        turn.tally.faults += *faults;
        if self.flags[place as usize] & IS_FAULTY == 0 {
            self.flags[place as usize] |= IS_FAULTY;
            turn.tally.clients_faulty += 1;
        }
    }

    /// Between turns: the ledger may have come.
    pub(super) fn look(&mut self, turn: &mut Turn<'_>) {
        if let Some(receivers) = &mut self.receivers {
            receivers.look(&mut turn.tally.last_receiver);
        }
        if let Some(auditing) = &mut self.auditing {
            let streams = self.share.clients as usize * self.share.topics.per_client as usize;
            let is_live = |stream: usize| self.streams.get(stream).is_some_and(Stream::is_live);
            let name = |stream| self.share.stream_name(stream);
            auditing.look(streams, name, is_live, turn.tally);
        }
    }
}

impl Drop for Subscriptions {
    /// The findings outlive the worker.
    fn drop(&mut self) {
        let samples = std::mem::take(&mut self.samples);
        let share = &self.share;
        let name = |stream| share.stream_name(stream);
        let findings = self.auditing.as_mut().map(|auditing| {
            // Clients that never got so far are judged too.
            auditing.resize(share.clients as usize * share.topics.per_client as usize);
            auditing.findings(name)
        });
        share.results.with(|left| {
            left.samples
                .extend(samples.into_iter().map(|(place, sample)| (share.client(place), sample)));
            if let Some(findings) = findings {
                left.findings.get_or_insert_with(Findings::default).merge(findings);
            }
        });
    }
}
