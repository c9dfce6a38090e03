//! Publications: what is sent, and what is kept until it is answered.
//!
//! Place: from the application's commands to the frames. A publication by which a repeat can be known ([`Once`]) is kept
//! until its answer comes, and sent again after each reconnect, in the old order and before anything new. So it is in the
//! log once, whatever became of the connections.

use std::collections::VecDeque;

use wire::native::{Attributes, Producer, PublishOptions as WireOptions, Tag, encode_publish_head};

use super::event::Answer;
use super::settings::{CommandError, Once, PublishOptions, Settings};
use super::{Session, check_length};

/// Who numbers, and what waits for its answer.
#[derive(Debug, Default)]
pub(super) struct Publications {
    producer_id: Vec<u8>,
    next_sequence: u64,
    /// In the order of sending.
    kept: VecDeque<Kept>,
    kept_bytes: usize,
}

#[derive(Debug)]
struct Kept {
    request: u32,
    frame: Vec<u8>,
}

impl Publications {
    /// `own_id` is the producer's where the settings name none.
    pub(super) fn new(settings: &Settings, own_id: [u8; 16]) -> Publications {
        let id = settings.producer_id.clone();
        Publications {
            producer_id: id.unwrap_or_else(|| own_id.to_vec()),
            next_sequence: settings.producer_sequence.max(1),
            kept: VecDeque::new(),
            kept_bytes: 0,
        }
    }

    pub(super) fn keeps(&self, request: u32) -> bool {
        self.kept.iter().any(|kept| kept.request == request)
    }

    /// The answer has come, or nobody waits for it any more.
    pub(super) fn forget(&mut self, request: u32) {
        // Answers come nearly in order, so the search is short.
        if let Some(place) = self.kept.iter().position(|kept| kept.request == request)
            && let Some(kept) = self.kept.remove(place)
        {
            self.kept_bytes -= kept.frame.len();
        }
    }
}

impl Session {
    /// Publishes. With `acknowledge` the answer comes under the number returned, which is otherwise 0. What has an
    /// [`Once`] and is to be acknowledged is sent again after a reconnect, until it is answered.
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
            return Err(CommandError::MessageTooLarge {
                bytes_max: self.limits.message_bytes_max,
            });
        }
        let is_kept = acknowledge && options.once.is_some();
        if is_kept && !self.has_room_to_keep() {
            return Err(CommandError::InflightFull);
        }
        let own_id = std::mem::take(&mut self.publications.producer_id);
        let own = Producer {
            id: &own_id,
            sequence: self.publications.next_sequence,
        };
        let once = options.once.as_ref().map(|once| once.as_wire(own));
        let frame = once.transpose().map(|once| {
            let request = if acknowledge { self.next_request() } else { 0 };
            (request, frame_of(request, topic, payload, options, once))
        });
        self.publications.producer_id = own_id;
        let (request, frame) = frame?;
        // Only a publication that is sent takes a number. The last of all is never followed by another.
        if options.once == Some(Once::Numbered) {
            let next = self.publications.next_sequence.checked_add(1);
            self.publications.next_sequence = next.unwrap_or(0);
        }
        self.send_binary(&frame);
        if is_kept {
            self.publications.kept_bytes += frame.len();
            self.publications.kept.push_back(Kept { request, frame });
        }
        Ok(request)
    }

    pub(super) fn has_room_to_keep(&self) -> bool {
        self.publications.kept_bytes < self.settings.kept_bytes_max
    }

    /// Sends again what the connection before left unanswered.
    pub(super) fn publish_again(&mut self) {
        let kept = std::mem::take(&mut self.publications.kept);
        for publication in &kept {
            self.counters.repeated += 1;
            self.send_binary(&publication.frame);
        }
        self.publications.kept = kept;
    }

    /// There will be no further connection: what is kept may have been appended or not.
    pub(super) fn give_up_publications(&mut self) {
        for kept in std::mem::take(&mut self.publications.kept) {
            self.answer(kept.request, Answer::Unknown);
        }
        self.publications.kept_bytes = 0;
    }
}

fn frame_of(
    request: u32,
    topic: &str,
    payload: &[u8],
    options: &PublishOptions,
    once: Option<wire::native::Once<'_>>,
) -> Vec<u8> {
    let tags: Vec<Tag<'_>> = options
        .tags
        .iter()
        .map(|(key, value)| Tag { key, value })
        .collect();
    let attributes = Attributes {
        content_type: options.content_type.as_deref(),
        tags: tags.as_slice().into(),
    };
    let wire_options = WireOptions {
        retain: options.retain,
        once,
        expected_epoch: options.expected_epoch,
    };
    let mut frame = Vec::with_capacity(payload.len() + topic.len() + 16);
    encode_publish_head(request, topic, &wire_options, &attributes, &mut frame);
    frame.extend_from_slice(payload);
    frame
}
