//! Publications: sending, and repetition until the answer arrives.
//!
//! Place: from the application's commands to the frames. A publication with an identity ([`Once`])
//! is stored until its answer arrives, and repeated after each reconnect, in the old order and
//! before new ones. So it is in the log once, however often connections break.
//!
//! Temporarily refused publications are repeated too, a bounded number of times, and keep their
//! order: until then no new one with an [`Once`] is sent, and none is repeated before all in flight
//! have been answered. The server refuses those that follow a refusal, so only the first of several
//! refused ones is abandoned: its refusal may have caused the others.

use std::collections::{BTreeSet, VecDeque};

use wire::native::{
    Attributes, ErrorCode, Producer, PublishOptions as WireOptions, Tag, encode_publish_head,
};

use super::event::{Answer, ServerError};
use super::settings::{CommandError, Once, PublishOptions, Settings};
use super::{Session, check_length};
use crate::fault::{self, Fault};

/// The maximum number of temporary refusals of one publication. With the delays below, about half a
/// minute.
const REFUSALS_MAX: u32 = 10;
/// The first delay after a refusal; each further one is twice as long.
const DELAY_MS: u64 = 200;
const DELAY_MS_MAX: u64 = 5_000;

/// The producer's numbers, and the unanswered publications.
#[derive(Debug, Default)]
pub(super) struct Publications {
    producer_id: Vec<u8>,
    next_sequence: u64,
    /// Publications in the order of sending.
    kept: VecDeque<Kept>,
    kept_bytes: usize,
    /// The time when temporarily refused publications are repeated.
    retry_at_ms: Option<u64>,
    /// Whether a publication was abandoned since then.
    has_given_up: bool,
    /// Producers with a newer connection: no publication is sent for them.
    fenced: BTreeSet<Vec<u8>>,
}

#[derive(Debug)]
struct Kept {
    request: u32,
    frame: Vec<u8>,
    /// It was temporarily refused, and is not in flight.
    is_refused: bool,
    /// The number of refusals.
    refusals: u32,
    /// The producer of its number.
    producer: Option<Vec<u8>>,
}

impl Publications {
    /// `own_id` is the producer's id if the settings name none.
    pub(super) fn new(settings: &Settings, own_id: [u8; 16]) -> Publications {
        let id = settings.producer_id.clone();
        Publications {
            producer_id: id.unwrap_or_else(|| own_id.to_vec()),
            next_sequence: settings.producer_sequence.max(1),
            kept: VecDeque::new(),
            kept_bytes: 0,
            retry_at_ms: None,
            has_given_up: false,
            fenced: BTreeSet::new(),
        }
    }

    /// The producer that numbers a publication.
    fn producer_of<'a>(&'a self, once: Option<&'a Once>) -> Option<&'a [u8]> {
        match once {
            Some(Once::Numbered) => Some(&self.producer_id),
            Some(Once::Producer { id, .. }) => Some(id),
            _ => None,
        }
    }

    /// Marks a publication's producer as fenced: a newer connection publishes for it.
    pub(super) fn fence(&mut self, request: u32) {
        let kept = self.kept.iter().find(|kept| kept.request == request);
        if let Some(producer) = kept.and_then(|kept| kept.producer.clone()) {
            self.fenced.insert(producer);
        }
    }

    /// Handles a temporary refusal. Returns whether the publication will be repeated; if not, the
    /// refusal is its answer.
    pub(super) fn put_off(&mut self, request: u32, now_ms: u64) -> bool {
        let is_first = self.retry_at_ms.is_none() && !self.has_given_up;
        let found = self.kept.iter_mut().find(|kept| kept.request == request);
        let Some(kept) = found else {
            return false;
        };
        if is_first && kept.refusals >= REFUSALS_MAX {
            self.has_given_up = true;
            return false;
        }
        let delay_ms = (DELAY_MS << kept.refusals).min(DELAY_MS_MAX);
        kept.refusals = (kept.refusals + 1).min(REFUSALS_MAX);
        kept.is_refused = true;
        self.retry_at_ms = self.retry_at_ms.max(Some(now_ms + delay_ms));
        true
    }

    /// The time to repeat refused publications, once all others have been answered.
    pub(super) fn due_ms(&self) -> Option<u64> {
        self.retry_at_ms.filter(|_| self.kept.iter().all(|kept| kept.is_refused))
    }

    pub(super) fn keeps(&self, request: u32) -> bool {
        self.kept.iter().any(|kept| kept.request == request)
    }

    /// Removes a publication that was answered or abandoned.
    pub(super) fn forget(&mut self, request: u32) {
        // Answers arrive almost in order, so the search is short.
        if let Some(place) = self.kept.iter().position(|kept| kept.request == request)
            && let Some(kept) = self.kept.remove(place)
        {
            self.kept_bytes -= kept.frame.len();
            if !self.kept.iter().any(|kept| kept.is_refused) {
                self.retry_at_ms = None;
            }
        }
    }
}

impl Session {
    /// Publishes. With `acknowledge` the answer has the returned number, which is otherwise 0. An
    /// acknowledged publication with an [`Once`] is repeated after a reconnect, until it is
    /// answered.
    ///
    /// # Errors
    /// See [`CommandError`]; nothing was sent.
    pub fn publish(
        &mut self,
        topic: &str,
        payload: &[u8],
        options: &PublishOptions,
        acknowledge: bool,
    ) -> Result<u32, CommandError> {
        check_length(topic)?;
        self.check_ready(acknowledge)?;
        if payload.len() as u64 > self.limits.message_bytes_max {
            return Err(CommandError::MessageTooLarge { bytes_max: self.limits.message_bytes_max });
        }
        let producer = self.publications.producer_of(options.once.as_ref());
        let producer = producer.map(<[u8]>::to_vec);
        if producer.as_ref().is_some_and(|producer| self.publications.fenced.contains(producer)) {
            return Err(CommandError::Fenced);
        }
        let is_kept = acknowledge && (options.once.is_some() || fault::is(Fault::RepeatsPlain));
        let is_held = options.once.is_some() && self.publications.retry_at_ms.is_some();
        if is_held || is_kept && !self.has_room_to_keep() {
            return Err(CommandError::InflightFull);
        }
        let own_id = std::mem::take(&mut self.publications.producer_id);
        let own = Producer { id: &own_id, sequence: self.publications.next_sequence };
        let once = options.once.as_ref().map(|once| once.as_wire(own));
        let frame = once.transpose().map(|once| {
            let request = if acknowledge { self.next_request() } else { 0 };
            (request, frame_of(request, topic, payload, options, once))
        });
        self.publications.producer_id = own_id;
        let (request, frame) = frame?;
        // Only a sent publication takes a number. The highest number has no successor.
        if options.once == Some(Once::Numbered) {
            let next = self.publications.next_sequence.checked_add(1);
            self.publications.next_sequence = next.unwrap_or(0);
        }
        self.send_binary(&frame);
        if is_kept {
            self.publications.kept_bytes += frame.len();
            self.publications.kept.push_back(Kept {
                request,
                frame,
                is_refused: false,
                refusals: 0,
                producer,
            });
        }
        Ok(request)
    }

    pub(super) fn has_room_to_keep(&self) -> bool {
        self.publications.kept_bytes < self.settings.kept_bytes_max
            && self.publications.retry_at_ms.is_none()
    }

    /// Repeats temporarily refused publications if they are due.
    pub(super) fn publish_refused(&mut self, now_ms: u64) {
        if self.publications.due_ms().is_some_and(|at| at <= now_ms) {
            self.publish_again();
        }
    }

    /// Repeats publications that the previous connection left unanswered, or that were refused. Not
    /// those of a fenced producer: this connection may be the newest, and would fence the present
    /// one.
    pub(super) fn publish_again(&mut self) {
        self.publications.retry_at_ms = None;
        self.publications.has_given_up = false;
        let fenced = &self.publications.fenced;
        let is_fenced = |kept: &&Kept| kept.producer.as_ref().is_some_and(|it| fenced.contains(it));
        let fenced = self.publications.kept.iter().filter(is_fenced);
        let fenced: Vec<u32> = fenced.map(|kept| kept.request).collect();
        for request in fenced {
            let code = ErrorCode::ProducerFenced;
            let error = ServerError {
                code: code.number().into(),
                temporary: code.temporary(),
                message: code.text().to_owned(),
                restart: None,
                limit: None,
            };
            self.answer(request, Answer::Refused(error));
        }
        let mut kept = std::mem::take(&mut self.publications.kept);
        if fault::is(Fault::RepeatsBackwards) {
            kept.make_contiguous().reverse();
        }
        for publication in &mut kept {
            publication.is_refused = false;
            self.counters.repeated += 1;
            if fault::is(Fault::RepeatsUnderNewId)
                && let Some(id) = &publication.producer
                && let Some(at) = publication.frame.windows(id.len()).position(|at| at == id)
            {
                publication.frame[at] ^= 1;
            }
            self.send_binary(&publication.frame);
        }
        self.publications.kept = kept;
    }

    /// Reports stored publications as unknown, because there will be no further connection.
    pub(super) fn give_up_publications(&mut self) {
        for kept in std::mem::take(&mut self.publications.kept) {
            self.answer(kept.request, Answer::Unknown);
        }
        self.publications.kept_bytes = 0;
        self.publications.retry_at_ms = None;
    }
}

fn frame_of(
    request: u32,
    topic: &str,
    payload: &[u8],
    options: &PublishOptions,
    once: Option<wire::native::Once<'_>>,
) -> Vec<u8> {
    let tags: Vec<Tag<'_>> = options.tags.iter().map(|(key, value)| Tag { key, value }).collect();
    let attributes =
        Attributes { content_type: options.content_type.as_deref(), tags: tags.as_slice().into() };
    let wire_options =
        WireOptions { retain: options.retain, once, expected_epoch: options.expected_epoch };
    let mut frame = Vec::with_capacity(payload.len() + topic.len() + 16);
    encode_publish_head(request, topic, &wire_options, &attributes, &mut frame);
    frame.extend_from_slice(payload);
    frame
}
