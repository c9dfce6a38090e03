//! Event streams (`text/event-stream`): the parameters of a request, and the state of a stream.
//!
//! A stream is of one raw topic, or of several topics and filters in an envelope. Invariant: a
//! stream in envelopes sends a cursor only when all its topics have begun, and never one beyond the
//! frames that were sent.

pub(crate) mod cursor;
pub(crate) mod encode;

use super::http::fault::Fault;
use super::http::parameters::{self, DataForm};
use super::http::route;
use crate::epochs::Epochs;
use crate::mail::Start;
use crate::notice::{Beginning, Settles};
use crate::position::Position;
use crate::settings::{LagPolicy, Settings};
use crate::topic::Filter;
use cursor::{CURSOR_BYTES_MAX, StreamCursor};
use std::borrow::Cow;
use stdx::handing::Hand;
use wire::http::Target;
use wire::http::request::Request;
use wire::native::ErrorCode;

/// A stream in envelopes.
#[derive(Hand)]
pub(crate) struct Events {
    pub(crate) topics: Box<[StreamTopic]>,
    pub(crate) cursor: StreamCursor,
    pub(crate) data: DataForm,
}

/// A topic or filter of a stream, as it was asked for.
#[derive(Clone, Hand)]
pub(crate) struct StreamTopic {
    pub(crate) name: Box<str>,
    pub(crate) is_filter: bool,
}

impl Events {
    /// Memory of its topics, and of a place in the cursor for each.
    pub fn topics_bytes(&self) -> usize {
        let names: usize = self.topics.iter().map(|topic| topic.name.len()).sum();
        names + size_of_val(&*self.topics) + self.cursor.topics_bytes()
    }

    /// The name of the topic that has this number.
    pub fn topic(&self, client: u32) -> Option<&str> {
        self.topics.get(client as usize).map(|topic| &*topic.name)
    }

    /// Filters are granted together. Returns those of which the cursor that the client came with
    /// knows nothing, although messages were there.
    pub fn begin_filters(
        &mut self,
        clients: &[u32],
        beginnings: &[Beginning],
        settings: &Settings,
    ) -> Vec<u32> {
        let has_messages = beginnings.iter().any(|beginning| beginning.through > 0);
        let is_absent = |client: &u32| has_messages && self.cursor.is_absent(*client as usize);
        let absent = clients.iter().copied().filter(is_absent).collect();
        let numbers = clients.iter().map(|&client| client as usize);
        self.cursor.begin_filters(numbers, beginnings, settings);
        absent
    }
}

/// An encoder's view of one stream.
pub(crate) struct Stream<'a> {
    /// A stream of one topic without an envelope: it has no state.
    pub is_raw: bool,
    pub events: Option<&'a mut Events>,
    pub epochs: &'a Epochs,
}

impl Stream<'_> {
    /// Moves the stream's cursor, if it has one.
    pub fn settle(&mut self, settles: Settles) {
        let Some(events) = &mut self.events else {
            return;
        };
        match settles {
            Settles::Nothing => {}
            Settles::Topic { client, position, .. } => {
                events.cursor.set_topic(client as usize, position);
            }
            Settles::Filters { partition, through, .. } => {
                let epoch = self.epochs.advancing(partition);
                events.cursor.set_partition(partition, through, epoch);
            }
        }
    }
}

/// The start of a stream, beside its topics.
pub(crate) struct StreamStart {
    pub start: Start,
    pub last_event_id: Option<String>,
    pub policy: Option<LagPolicy>,
    pub data: DataForm,
}

/// The start and the lag policy of a stream of one raw topic.
pub(crate) fn raw_start(
    request: &Request<'_>,
    target: &Target<'_>,
) -> Result<(Start, Option<LagPolicy>), Fault> {
    let wished = parameters::start(target)?;
    let start = match last_event_id(request, target)? {
        Some(id) => Start::Since(known_position(&id)),
        None => wished,
    };
    Ok((start, parameters::policy(target)?))
}

/// The topics and filters of `GET /events?topic=...&topic=...`, each once.
pub(crate) fn topics(target: &Target<'_>, settings: &Settings) -> Result<Vec<StreamTopic>, Fault> {
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
    let topics_max = StreamCursor::topics_max(settings, has_filters);
    if topics.len() > topics_max {
        return Err(Fault::new(
            ErrorCode::TooManyTopics,
            match topics_max {
                0 => "no filters in a stream: there are too many partitions".to_owned(),
                _ => format!("at most {topics_max} topics in such a stream"),
            },
        ));
    }
    Ok(topics)
}

/// The requested start of a stream of these topics.
pub(crate) fn start(
    request: &Request<'_>,
    target: &Target<'_>,
    topics: &[StreamTopic],
) -> Result<StreamStart, Fault> {
    let last_event_id = last_event_id(request, target)?;
    if last_event_id.as_ref().is_some_and(|cursor| cursor.len() > CURSOR_BYTES_MAX) {
        return Err(ErrorCode::CursorTooLarge.into());
    }
    let start = parameters::start(target)?;
    check_start(start, topics)?;
    let policy = parameters::policy(target)?;
    let data = parameters::data_form(target)?;
    Ok(StreamStart { start, last_event_id, policy, data })
}

/// Belongs to no log: everything is a gap.
pub(crate) const UNKNOWN: Position = Position { epoch: 0, offset: 0 };

/// A position that does not parse is an unknown one; the client gets a gap and does not hang.
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
        Start::Live | Start::AtHead => return Ok(()),
        Start::Since(_) | Start::SinceEither(..) | Start::Last(_) | Start::Snapshot
            if has_filters =>
        {
            "a stream with filters begins live, or where a `Last-Event-ID` says: \
             `since`, `last` and `snapshot` are for topics"
        }
        Start::Since(_) | Start::SinceEither(..) if topics.len() > 1 => {
            "`since` is a position of one topic: a stream of several goes on with `Last-Event-ID`"
        }
        Start::Since(_) | Start::SinceEither(..) | Start::Last(_) | Start::Snapshot => {
            return Ok(());
        }
    };
    Err(Fault::new(ErrorCode::UnsupportedStart, detail.to_owned()))
}
