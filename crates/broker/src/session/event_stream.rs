//! Event streams (`text/event-stream`): how they begin, and the cursor that each keeps.
//!
//! A stream is of one raw topic, or of several topics and filters in an envelope. What its client
//! is told stands in `events`. Invariant: a stream in envelopes tells a cursor only when all its
//! topics have begun, and never one that says more than what has been sent.

use super::State;
use super::cursor::{CURSOR_BYTES_MAX, StreamCursor};
use super::events::encode;
use super::fault::Fault;
use super::http::{Answer, cross_origin};
use super::parameters::{self, DataForm};
use super::route;
use crate::edge::{Edge, Protocol, flag};
use crate::entitlement::Action;
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{PartitionId, Start};
use crate::notice::Wish;
use crate::position::Position;
use crate::topic::Filter;
use std::borrow::Cow;
use stdx::handing::Hand;
use wire::http::event_stream::{EVENT_STREAM_MEDIA_TYPE, OutgoingEvent};
use wire::http::request::Request;
use wire::http::{ResponseWriter, Target};
use wire::native::ErrorCode;
/// A stream in envelopes.
#[derive(Hand)]
pub(crate) struct Events {
    topics: Box<[StreamTopic]>,
    pub(crate) cursor: StreamCursor,
    pub(crate) data: DataForm,
}

#[derive(Hand)]
struct StreamTopic {
    name: Box<str>,
    is_filter: bool,
}

impl Events {
    /// Memory of its topics, and of a place in the cursor for each.
    pub fn topics_bytes(&self) -> usize {
        let names: usize = self.topics.iter().map(|topic| topic.name.len()).sum();
        names + size_of_val(&*self.topics) + self.cursor.topics_bytes()
    }
}

/// What clients wait before they reconnect.
const RETRY_MS: u64 = 2_000;

impl Edge {
    /// `GET /topics/...` with `Accept: text/event-stream`.
    pub(crate) fn begin_raw_stream(
        &mut self,
        index: ConnIndex,
        request: &Request<'_>,
        target: &Target<'_>,
        topic: String,
        answer: &Answer,
    ) -> Result<(), Fault> {
        let wished = parameters::start(target)?;
        let start = match last_event_id(request, target)? {
            Some(id) => Start::Since(known_position(&id)),
            None => wished,
        };
        let policy = parameters::policy(target)?;
        self.open_stream(index, answer, flag::RAW);
        let wish = Wish { policy, ..Wish::from(start) };
        self.subscribe_plain(index, &topic, 0, wish);
        Ok(())
    }

    /// `GET /events?topic=...&topic=...`.
    pub(crate) fn begin_stream(
        &mut self,
        index: ConnIndex,
        request: &Request<'_>,
        target: &Target<'_>,
        answer: &Answer,
    ) -> Result<(), Fault> {
        let mut topics = Vec::new();
        for pair in target.query_pairs() {
            let (key, value) = pair.map_err(route::bad_target)?;
            if key != "topic" {
                continue;
            }
            let filter = Filter::parse(&value).map_err(|error| {
                let mut fault = Fault::topic(ErrorCode::MalformedFilter, error);
                if value.is_empty() {
                    fault.detail.push_str(": the wildcard # is written %23 in a URL");
                }
                fault
            })?;
            if topics.iter().any(|topic: &StreamTopic| *topic.name == *value) {
                continue;
            }
            topics.push(StreamTopic { is_filter: !filter.is_plain(), name: value.as_ref().into() });
        }
        if topics.is_empty() {
            return Err(ErrorCode::TopicRequired.into());
        }
        let has_filters = topics.iter().any(|topic| topic.is_filter);
        let topics_max = StreamCursor::topics_max(&self.settings, has_filters);
        if topics.len() > topics_max {
            return Err(Fault::new(
                ErrorCode::TooManyTopics,
                match topics_max {
                    0 => "no filters in a stream: there are too many partitions".to_owned(),
                    _ => format!("at most {topics_max} topics in such a stream"),
                },
            ));
        }
        for topic in &topics {
            self.permit_request(index, Action::Subscribe, &topic.name)?;
        }
        let subscriptions_max = self.subscriptions_max(index);
        if topics.len() > subscriptions_max as usize {
            self.statistics.turned_away.subscriptions_too_many += 1;
            let detail = format!("at most {subscriptions_max} subscriptions");
            return Err(Fault::new(ErrorCode::TooManySubscriptions, detail));
        }
        let last_event_id = last_event_id(request, target)?;
        if last_event_id.as_ref().is_some_and(|cursor| cursor.len() > CURSOR_BYTES_MAX) {
            return Err(ErrorCode::CursorTooLarge.into());
        }
        let start = parameters::start(target)?;
        check_start(start, &topics)?;
        let policy = parameters::policy(target)?;
        let data = parameters::data_form(target)?;
        let kinds: Vec<bool> = topics.iter().map(|topic| topic.is_filter).collect();
        let mut cursor = StreamCursor::new(&kinds);
        // Until a topic's start is told, the cursor that the client came with holds for it. One
        // that cannot be read is one that nobody knows: everything is a gap.
        let returned = last_event_id.map(|text| {
            cursor.read(&text, &self.settings);
            cursor.clone()
        });
        self.open_stream(index, answer, 0);
        let wanted: Vec<(Box<str>, bool)> =
            topics.iter().map(|topic| (topic.name.clone(), topic.is_filter)).collect();
        self.set_state(
            index,
            State::Events(Box::new(Events { topics: topics.into(), cursor, data })),
        );
        // All filters of a stream share one cursor. Any of them may be refused, so each is asked
        // for with it.
        let since = match &returned {
            None => Vec::new(),
            Some(cursor) => cursor.partitions(&self.settings),
        };
        for (number, (name, is_filter)) in wanted.iter().enumerate() {
            let client = number as u32;
            if *is_filter {
                if let Ok(filter) = Filter::parse(name) {
                    // Where a filter has been that was refused, nobody knows: it begins where the
                    // stream is.
                    let is_absent = |cursor: &StreamCursor| cursor.is_absent(number);
                    let since = match returned.as_ref().is_some_and(is_absent) {
                        true => &[],
                        false => &since[..],
                    };
                    self.subscribe_filter(index, filter, client, since, false, policy);
                }
                continue;
            }
            let start = match &returned {
                None => start,
                Some(cursor) => Start::Since(cursor.topic(number).unwrap_or(UNKNOWN)),
            };
            let wish = Wish { policy, ..Wish::from(start) };
            self.subscribe_plain(index, name, client, wish);
        }
        Ok(())
    }

    fn open_stream(&mut self, index: ConnIndex, answer: &Answer, raw: u32) {
        let mut head = Vec::with_capacity(256);
        let writer = ResponseWriter::new(&mut head, 200).keep_alive(false);
        cross_origin(writer, answer)
            .header("Content-Type", EVENT_STREAM_MEDIA_TYPE)
            .header("Cache-Control", "no-store")
            .header("X-Content-Type-Options", "nosniff")
            // Asks nginx, the most common proxy in between, not to hold the stream back.
            .header("X-Accel-Buffering", "no")
            .finish_head();
        let retry = OutgoingEvent { retry_ms: Some(RETRY_MS), ..OutgoingEvent::default() };
        encode(&retry, &mut head);
        self.send_private(index, &head);
        self.tell_answer(index, 200, head.len());
        let slot = &mut self.connections.slots[index];
        slot.protocol = Protocol::Events;
        slot.set(raw);
        self.statistics.event_streams += 1;
        self.session_began(index);
        self.stamp(index);
        self.expect_acknowledgements(index);
    }

    /// Everything for filters up to here, in one partition, has been sent, and nothing beyond it.
    pub(crate) fn stream_filters_at(
        &mut self,
        index: ConnIndex,
        partition: PartitionId,
        offset: u64,
    ) {
        if let Some(State::Events(events)) = self.state(index) {
            events.cursor.set_partition(partition, offset);
        }
    }

    /// Everything of this topic up to here has been sent, and nothing beyond it.
    pub(crate) fn stream_at(&mut self, index: ConnIndex, subscription: SubIndex, offset: u64) {
        let number = self.subscription_client(subscription);
        let epoch = self.subscription_epoch(subscription);
        self.set_stream_cursor(index, number, Position { epoch, offset });
    }

    pub(crate) fn set_stream_cursor(&mut self, index: ConnIndex, number: u32, position: Position) {
        if let Some(State::Events(events)) = self.state(index) {
            events.cursor.set_topic(number as usize, position);
        }
    }

    /// The composite cursor, once it can be told for every topic.
    pub(crate) fn stream_cursor(&self, index: ConnIndex) -> Option<String> {
        match self.sessions.states.get(self.connections.slots[index].state) {
            Some(State::Events(events)) => events.cursor.text(),
            _ => None,
        }
    }

    pub(crate) fn stream_topic(&self, index: ConnIndex, number: u32) -> Option<Box<str>> {
        match self.sessions.states.get(self.connections.slots[index].state) {
            Some(State::Events(events)) => {
                events.topics.get(number as usize).map(|topic| topic.name.clone())
            }
            _ => None,
        }
    }
}

/// Belongs to no log: everything is a gap.
pub(crate) const UNKNOWN: Position = Position { epoch: 0, offset: 0 };

/// A position that does not parse is one that nobody knows; the client is told so and does not
/// hang.
fn known_position(id: &str) -> Position {
    id.parse().unwrap_or(UNKNOWN)
}

/// The header, or the query parameter that browsers need for the first time; an empty one counts as
/// none.
fn last_event_id(request: &Request<'_>, target: &Target<'_>) -> Result<Option<String>, Fault> {
    if let Some(value) = request.header("last-event-id") {
        let value = std::str::from_utf8(value).map_err(|_| ErrorCode::MalformedUtf8)?;
        if !value.is_empty() {
            return Ok(Some(value.to_owned()));
        }
    }
    Ok(parameters::last_event_id(target)?.map(Cow::into_owned))
}

/// A position is of one partition: it says nothing about topics of others, nor about a filter,
/// which spans all.
fn check_start(start: Start, topics: &[StreamTopic]) -> Result<(), Fault> {
    let has_filters = topics.iter().any(|topic| topic.is_filter);
    let detail = match start {
        Start::Live => return Ok(()),
        _ if has_filters => {
            "a stream with filters begins live, or where a `Last-Event-ID` says: \
             `since`, `last` and `snapshot` are for topics"
        }
        Start::Since(_) if topics.len() > 1 => {
            "`since` is a position of one topic: a stream of several goes on with `Last-Event-ID`"
        }
        _ => return Ok(()),
    };
    Err(Fault::new(ErrorCode::UnsupportedStart, detail.to_owned()))
}
