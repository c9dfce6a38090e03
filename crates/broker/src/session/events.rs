//! Event streams (`text/event-stream`): one raw topic, or several topics and filters in an envelope.
//!
//! Of a raw topic the data is the payload and `id:` the position. In an envelope the data is a JSON object that names
//! the topic, and `id:` a composite cursor (`cursor`).
//! Events of ours have names that begin with `crore.`, so that `onmessage` sees messages only.

use super::State;
use super::cursor::{CURSOR_BYTES_MAX, StreamCursor};
use super::http::{Answer, Fault, cross_origin};
use super::json;
use super::route;
use crate::edge::{Beginning, Delivery, Edge, Grant, LeftOut, Protocol, Refusal, Wish, flag};
use crate::mail::{Gap, PartitionId, Start};
use crate::position::Position;
use crate::settings::LagPolicy;
use crate::topic::Filter;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use log::RecordView;
use wire::http::event_stream::{EVENT_STREAM_MEDIA_TYPE, OutgoingEvent};
use wire::http::problem::append_json_string;
use wire::http::request::Request;
use wire::http::{ResponseWriter, Target};
use wire::native::{ErrorCode, UnsubscribeCode};

/// A stream in envelopes.
pub(crate) struct Events {
    topics: Vec<StreamTopic>,
    cursor: StreamCursor,
}

struct StreamTopic {
    name: Box<str>,
    is_filter: bool,
}

/// What clients wait before they reconnect.
const RETRY_MS: u64 = 2_000;

impl Edge {
    /// `GET /topics/...` with `Accept: text/event-stream`.
    pub(super) fn begin_raw_stream(
        &mut self,
        index: u32,
        request: &Request<'_>,
        target: &Target<'_>,
        topic: String,
        answer: &Answer,
    ) -> Result<(), Fault> {
        let start = match last_event_id(request, target)? {
            Some(id) => Start::Since(known_position(&id)),
            None => requested_start(target)?,
        };
        let policy = requested_policy(target)?;
        self.open_stream(index, answer, flag::RAW);
        let wish = Wish {
            policy,
            ..Wish::from(start)
        };
        self.subscribe_plain(index, &topic, 0, wish);
        Ok(())
    }

    /// `GET /events?topic=...&topic=...`.
    pub(super) fn begin_stream(
        &mut self,
        index: u32,
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
            let filter = Filter::parse(&value)
                .map_err(|error| Fault::topic(ErrorCode::MalformedFilter, error))?;
            if topics
                .iter()
                .any(|topic: &StreamTopic| *topic.name == *value)
            {
                continue;
            }
            topics.push(StreamTopic {
                is_filter: !filter.is_plain(),
                name: value.as_ref().into(),
            });
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
        let last_event_id = last_event_id(request, target)?;
        if last_event_id
            .as_ref()
            .is_some_and(|cursor| cursor.len() > CURSOR_BYTES_MAX)
        {
            return Err(ErrorCode::CursorTooLarge.into());
        }
        let start = requested_start(target)?;
        let policy = requested_policy(target)?;
        let kinds: Vec<bool> = topics.iter().map(|topic| topic.is_filter).collect();
        let mut cursor = StreamCursor::new(&kinds);
        // Until a topic's start is told, the cursor that the client came with holds for it. One that cannot be read is one
        // that nobody knows: everything is a gap.
        let returned = last_event_id.map(|text| {
            cursor.read(&text, &self.settings);
            cursor.clone()
        });
        self.open_stream(index, answer, 0);
        let wanted: Vec<(Box<str>, bool)> = topics
            .iter()
            .map(|topic| (topic.name.clone(), topic.is_filter))
            .collect();
        self.set_state(index, State::Events(Events { topics, cursor }));
        // All filters of a stream have one cursor; it is asked for with the first of them.
        let mut since = match &returned {
            None => Vec::new(),
            Some(cursor) => cursor.partitions(&self.settings),
        };
        for (number, (name, is_filter)) in wanted.iter().enumerate() {
            let client = number as u32;
            if *is_filter {
                if let Ok(filter) = Filter::parse(name) {
                    let since = std::mem::take(&mut since);
                    self.subscribe_filter(index, filter, client, &since, false, policy);
                }
                continue;
            }
            let start = match &returned {
                None => start,
                Some(cursor) => Start::Since(cursor.topic(number).unwrap_or(UNKNOWN)),
            };
            let wish = Wish {
                policy,
                ..Wish::from(start)
            };
            self.subscribe_plain(index, name, client, wish);
        }
        Ok(())
    }

    fn open_stream(&mut self, index: u32, answer: &Answer, raw: u32) {
        let mut head = Vec::with_capacity(256);
        let writer = ResponseWriter::new(&mut head, 200).keep_alive(false);
        cross_origin(writer, answer)
            .header("Content-Type", EVENT_STREAM_MEDIA_TYPE)
            .header("Cache-Control", "no-store")
            // Asks nginx, the most common proxy in between, not to hold the stream back.
            .header("X-Accel-Buffering", "no")
            .finish_head();
        let retry = OutgoingEvent {
            retry_ms: Some(RETRY_MS),
            ..OutgoingEvent::default()
        };
        encode(&retry, &mut head);
        self.send_private(index, &head);
        let slot = &mut self.slots[index];
        slot.protocol = Protocol::Events;
        slot.set(raw);
        self.statistics.event_streams += 1;
        self.stamp(index);
    }

    pub(super) fn events_subscribed(&mut self, index: u32, subscription: u32, grant: &Grant) {
        // A retained message stands before what is settled.
        let retained = grant.retained.clone();
        let number = self.subscription_client(subscription);
        self.set_stream_cursor(index, number, grant.position);
        let mut data = self.event_about(index, number);
        let complete = grant.gap.is_none();
        json::append(
            &mut data,
            format_args!(
                "\"position\":\"{}\",\"complete\":{complete}}}",
                grant.position
            ),
        );
        let is_raw = self.slots[index].is(flag::RAW);
        // The stream's id moves only with the event that says what is missing before it.
        let id = (is_raw && complete).then(|| grant.position.to_string());
        self.send_event(index, "crore.start", id.as_deref(), &data);
        if let Some(gap) = grant.gap {
            self.statistics.gaps += 1;
            let id = is_raw.then(|| grant.position.to_string());
            self.send_gap_event(index, subscription, gap, id.as_deref());
        }
        // Where events of other topics had to go, their cursor must not be told; `crore.caught_up` will bring it. Nor is
        // there one before all topics have begun: with a part of it a client would come back as a stranger.
        // A replay tells it with its first event.
        if !is_raw && !grant.replaying {
            self.send_id(subscription, grant.position);
        }
        if let Some(record) = retained {
            self.deliver_retained(subscription, &record);
            // Its own position must not stay the last one that the client has seen.
            self.send_id(subscription, grant.position);
        }
    }

    /// Tells a topic's position without an event. It gives way with the messages before it.
    fn send_id(&mut self, subscription: u32, position: Position) {
        if self.stream_id(subscription, position).is_some() {
            let settled = (position.offset, position.offset);
            self.send_stream_mark(subscription, settled, position, &id_event);
        }
    }

    /// Queues an event that settles a topic after `from` up to `through`, and moves the stream's cursor to `position`. It gives
    /// way with the messages before it, and then takes the cursor back; written again where making room has taken back that
    /// of other topics.
    fn send_stream_mark(
        &mut self,
        subscription: u32,
        (from, through): (u64, u64),
        position: Position,
        event: &dyn Fn(Option<&str>) -> Vec<u8>,
    ) {
        self.send_mark_with(subscription, from, through, &mut |edge, out| {
            let id = edge.stream_id(subscription, position);
            out.extend_from_slice(&event(id.as_deref()));
        });
    }

    /// Moves the stream's cursor, and says the id that events have from here: of a raw stream its topic's position.
    fn stream_id(&mut self, subscription: u32, position: Position) -> Option<String> {
        let index = self.subscription_connection(subscription);
        if self.slots[index].is(flag::RAW) {
            return Some(position.to_string());
        }
        let number = self.subscription_client(subscription);
        self.set_stream_cursor(index, number, position);
        self.stream_cursor(index)
    }

    pub(super) fn events_subscribed_filters(
        &mut self,
        index: u32,
        subscriptions: &[u32],
        beginnings: &[Beginning],
    ) {
        let settings = self.settings.clone();
        if let Some(State::Events(events)) = self.state(index) {
            events.cursor.begin_filters(beginnings, &settings);
        }
        let complete = beginnings.iter().all(|beginning| beginning.gap.is_none());
        // As they were asked for; the chain has the newest first.
        for &subscription in subscriptions.iter().rev() {
            let number = self.subscription_client(subscription);
            let mut data = Vec::from(&b"{\"topic\":"[..]);
            append_json_string(
                &mut data,
                &self.stream_topic(index, number).unwrap_or_default(),
            );
            json::append(&mut data, format_args!(",\"complete\":{complete}}}"));
            self.send_event(index, "crore.start", None, &data);
        }
        for beginning in beginnings {
            if let Some(gap) = &beginning.gap {
                let bytes = filter_gap_event(beginning.partition, gap);
                self.send_private(index, &bytes);
            }
        }
        // Behind what says what is missing before it. A replay tells it with its first event.
        if let (Some(&first), Some(beginning), Some(_)) = (
            subscriptions.first(),
            beginnings.iter().find(|beginning| !beginning.is_replaying),
            self.stream_cursor(index),
        ) {
            let (partition, through) = (beginning.partition, beginning.through);
            self.send_filter_mark_with(first, partition, through, &mut |edge, out| {
                out.extend_from_slice(&id_event(edge.stream_cursor(index).as_deref()));
            });
        }
    }

    pub(super) fn events_filter_gap(
        &mut self,
        index: u32,
        subscription: u32,
        partition: PartitionId,
        gap: Gap,
    ) {
        self.send_filter_mark_with(subscription, partition, gap.from, &mut |edge, out| {
            edge.stream_filters_at(index, partition, gap.to);
            out.extend_from_slice(&filter_gap_event(partition, &gap));
        });
    }

    /// Messages that the policy of the stream's filters left out.
    pub(super) fn events_filter_left_out(
        &mut self,
        index: u32,
        subscription: u32,
        partition: PartitionId,
        left_out: LeftOut,
    ) {
        let mut data = Vec::new();
        json::append(&mut data, format_args!("{{\"partition\":{partition},"));
        json::append_left_out(&mut data, &left_out);
        self.send_filter_mark_with(subscription, partition, left_out.from, &mut |edge, out| {
            edge.stream_filters_at(index, partition, left_out.through);
            let id = edge.stream_cursor(index);
            out.extend_from_slice(&skipped_event(id.as_deref(), &data));
        });
    }

    /// Told when the last partition has caught up.
    pub(super) fn events_filter_caught_up(
        &mut self,
        index: u32,
        subscription: u32,
        partition: PartitionId,
        through: u64,
    ) {
        self.stream_filters_at(index, partition, through);
        if self.is_stream_behind(index) {
            return;
        }
        self.send_filter_mark_with(subscription, partition, through, &mut |edge, out| {
            edge.stream_filters_at(index, partition, through);
            let id = edge.stream_cursor(index);
            out.extend_from_slice(&caught_up_event(id.as_deref()));
        });
    }

    /// Everything for filters up to here, in one partition, has been sent, and nothing beyond it.
    pub(crate) fn stream_filters_at(&mut self, index: u32, partition: PartitionId, offset: u64) {
        if let Some(State::Events(events)) = self.state(index) {
            events.cursor.set_partition(partition, offset);
        }
    }

    pub(super) fn events_refused(&mut self, index: u32, subscription: u32, refusal: Refusal) {
        let number = self.subscription_client(subscription);
        // A log that could not be read ends the stream: the client comes back with the cursor that it has. If the stream went
        // on without what it was reading, nobody would tell the client what is missing.
        let ends = refusal.code == ErrorCode::LogUnavailable;
        if !ends && let Some(State::Events(events)) = self.state(index) {
            events.cursor.refuse(number as usize);
        }
        let mut data = Vec::from(&b"{\"topic\":"[..]);
        append_json_string(
            &mut data,
            &self.stream_topic(index, number).unwrap_or_default(),
        );
        json::append(
            &mut data,
            format_args!(",\"code\":\"{}\",\"detail\":", refusal.code.name()),
        );
        append_json_string(&mut data, refusal.code.text());
        data.push(b'}');
        self.send_event(index, "crore.error", None, &data);
        // A raw stream without its topic has no purpose either; the client comes back after its delay.
        if ends || self.slots[index].is(flag::RAW) {
            self.close(index);
        }
    }

    pub(super) fn events_gap(&mut self, index: u32, subscription: u32, gap: Gap) {
        self.send_gap_event(index, subscription, gap, None);
    }

    fn send_gap_event(&mut self, index: u32, subscription: u32, gap: Gap, id: Option<&str>) {
        let number = self.subscription_client(subscription);
        let mut data = self.event_about(index, number);
        data.extend_from_slice(b"\"gap\":");
        json::append_gap(&mut data, &gap);
        data.push(b'}');
        self.send_event(index, "crore.gap", id, &data);
    }

    pub(super) fn events_caught_up(&mut self, subscription: u32, told: u64, through: u64) {
        let position = Position {
            epoch: self.subscription_epoch(subscription),
            offset: through,
        };
        self.send_stream_mark(subscription, (told, through), position, &caught_up_event);
    }

    /// Messages that the subscription's policy left out. The client has settled them, so its cursor moves.
    pub(super) fn events_left_out(&mut self, index: u32, subscription: u32, left_out: LeftOut) {
        let LeftOut { from, through, .. } = left_out;
        let number = self.subscription_client(subscription);
        let position = Position {
            epoch: self.subscription_epoch(subscription),
            offset: through,
        };
        let mut data = self.event_about(index, number);
        json::append_left_out(&mut data, &left_out);
        let event = |id: Option<&str>| skipped_event(id, &data);
        self.send_stream_mark(subscription, (from, through), position, &event);
    }

    /// The stream ends: the client comes back with the cursor that it has.
    pub(super) fn events_disconnected(&mut self, index: u32, subscription: u32) {
        let number = self.subscription_client(subscription);
        let mut data = self.event_about(index, number);
        let code = UnsubscribeCode::SlowConsumer;
        json::append(
            &mut data,
            format_args!("\"code\":\"{}\",\"detail\":", code.name()),
        );
        append_json_string(&mut data, code.text());
        data.push(b'}');
        self.send_event(index, "crore.error", None, &data);
        self.close(index);
    }

    /// The beginning of an event's data: which topic it is about, where the stream has several.
    fn event_about(&self, index: u32, number: u32) -> Vec<u8> {
        let mut data = Vec::from(&b"{"[..]);
        if let Some(name) = self.stream_topic(index, number) {
            data.extend_from_slice(b"\"topic\":");
            append_json_string(&mut data, &name);
            data.push(b',');
        }
        data
    }

    pub(super) fn events_send_away(&mut self, index: u32, return_after_ms: u64) {
        let away = OutgoingEvent {
            retry_ms: Some(return_after_ms.max(1)),
            ..OutgoingEvent::default()
        };
        let mut bytes = Vec::new();
        encode(&away, &mut bytes);
        self.send_private(index, &bytes);
        self.close(index);
    }

    /// One event of a stream in envelopes.
    pub(crate) fn append_envelope_event(
        &mut self,
        index: u32,
        subscription: u32,
        delivery: &Delivery<'_>,
        out: &mut Vec<u8>,
    ) {
        let number = self.subscription_client(subscription);
        let epoch = self.subscription_epoch(subscription);
        self.set_stream_cursor(
            index,
            number,
            Position {
                epoch,
                offset: delivery.view.offset(),
            },
        );
        let name = self.stream_topic(index, number).unwrap_or_default();
        self.append_envelope(index, &name, epoch, &delivery.view, out);
    }

    /// The same for a message that a filter matched.
    pub(crate) fn append_wide_event(
        &mut self,
        index: u32,
        topic: &str,
        partition: PartitionId,
        delivery: &Delivery<'_>,
        out: &mut Vec<u8>,
    ) {
        let epoch = self.settings.log_of(partition).epoch;
        self.stream_filters_at(index, partition, delivery.view.offset());
        self.append_envelope(index, topic, epoch, &delivery.view, out);
    }

    fn append_envelope(
        &self,
        index: u32,
        topic: &str,
        epoch: u64,
        view: &RecordView<'_>,
        out: &mut Vec<u8>,
    ) {
        if let Some(cursor) = self.stream_cursor(index) {
            json::append(out, format_args!("id: {cursor}\n"));
        }
        // JSON escapes all line ends, so the data is one line.
        out.extend_from_slice(b"data: {\"topic\":");
        append_json_string(out, topic);
        out.push(b',');
        json::append_message(out, epoch, view);
        out.extend_from_slice(b"}\n\n");
    }

    /// Messages of this topic will be sent again from here.
    pub(crate) fn stream_lagged(&mut self, index: u32, subscription: u32, offset: u64) {
        let number = self.subscription_client(subscription);
        let epoch = self.subscription_epoch(subscription);
        self.set_stream_cursor(index, number, Position { epoch, offset });
    }

    fn set_stream_cursor(&mut self, index: u32, number: u32, position: Position) {
        if let Some(State::Events(events)) = self.state(index) {
            events.cursor.set_topic(number as usize, position);
        }
    }

    /// The composite cursor, once it can be told for every topic.
    fn stream_cursor(&self, index: u32) -> Option<String> {
        match self
            .states
            .get(self.slots[index].state)
            .map(|state| &**state)
        {
            Some(State::Events(events)) => events.cursor.text(),
            _ => None,
        }
    }

    fn stream_topic(&self, index: u32, number: u32) -> Option<Box<str>> {
        match self
            .states
            .get(self.slots[index].state)
            .map(|state| &**state)
        {
            Some(State::Events(events)) => events
                .topics
                .get(number as usize)
                .map(|topic| topic.name.clone()),
            _ => None,
        }
    }

    fn send_event(&mut self, index: u32, event: &str, id: Option<&str>, data: &[u8]) {
        let mut bytes = Vec::with_capacity(64 + data.len());
        let data = std::str::from_utf8(data).unwrap_or_default();
        encode(
            &OutgoingEvent {
                event: Some(event),
                id,
                data: Some(data),
                retry_ms: None,
            },
            &mut bytes,
        );
        self.send_private(index, &bytes);
    }
}

/// One event of a raw stream: the payload as data, in base64 under a name of its own when it is not text.
pub(crate) fn append_raw_event(epoch: u64, view: &RecordView<'_>, out: &mut Vec<u8>) {
    let id = Position {
        epoch,
        offset: view.offset(),
    }
    .to_string();
    match std::str::from_utf8(view.payload()) {
        Ok(text) => encode(
            &OutgoingEvent {
                id: Some(&id),
                data: Some(text),
                ..OutgoingEvent::default()
            },
            out,
        ),
        Err(_) => {
            let data = BASE64.encode(view.payload());
            let event = OutgoingEvent {
                id: Some(&id),
                event: Some("crore.b64data"),
                data: Some(&data),
                retry_ms: None,
            };
            encode(&event, out);
        }
    }
}

fn encode(event: &OutgoingEvent<'_>, out: &mut Vec<u8>) {
    let encoded = event.encode(out);
    debug_assert!(encoded.is_ok(), "ids and names of ours hold no line ends");
}

fn filter_gap_event(partition: PartitionId, gap: &Gap) -> Vec<u8> {
    let mut data = Vec::new();
    json::append(
        &mut data,
        format_args!("{{\"partition\":{partition},\"gap\":"),
    );
    json::append_gap(&mut data, gap);
    data.push(b'}');
    let event = OutgoingEvent {
        event: Some("crore.gap"),
        data: std::str::from_utf8(&data).ok(),
        ..OutgoingEvent::default()
    };
    let mut bytes = Vec::new();
    encode(&event, &mut bytes);
    bytes
}

fn skipped_event(id: Option<&str>, data: &[u8]) -> Vec<u8> {
    let event = OutgoingEvent {
        event: Some("crore.skipped"),
        id,
        data: std::str::from_utf8(data).ok(),
        retry_ms: None,
    };
    let mut bytes = Vec::new();
    encode(&event, &mut bytes);
    bytes
}

fn caught_up_event(id: Option<&str>) -> Vec<u8> {
    let event = OutgoingEvent {
        event: Some("crore.caught_up"),
        id,
        data: Some("{}"),
        retry_ms: None,
    };
    let mut bytes = Vec::new();
    encode(&event, &mut bytes);
    bytes
}

/// A cursor without an event.
fn id_event(id: Option<&str>) -> Vec<u8> {
    let event = OutgoingEvent {
        id,
        ..OutgoingEvent::default()
    };
    let mut bytes = Vec::new();
    encode(&event, &mut bytes);
    bytes
}

/// Belongs to no log: everything is a gap.
pub(super) const UNKNOWN: Position = Position {
    epoch: 0,
    offset: 0,
};

/// A position that does not parse is one that nobody knows; the client is told so and does not hang.
fn known_position(id: &str) -> Position {
    id.parse().unwrap_or(UNKNOWN)
}

/// The header, or the query parameter that browsers need for the first time; an empty one counts as none.
fn last_event_id(request: &Request<'_>, target: &Target<'_>) -> Result<Option<String>, Fault> {
    if let Some(value) = request.header("last-event-id") {
        let value = std::str::from_utf8(value).map_err(|_| ErrorCode::MalformedUtf8)?;
        if !value.is_empty() {
            return Ok(Some(value.to_owned()));
        }
    }
    let names = [
        "last-event-id",
        "Last-Event-ID",
        "lastEventId",
        "last_event_id",
    ];
    let value = route::parameter(target, &names)?;
    Ok(value
        .map(|value| value.into_owned())
        .filter(|value| !value.is_empty()))
}

/// `since=`, `last=` or `snapshot`; live without them.
fn requested_start(target: &Target<'_>) -> Result<Start, Fault> {
    if let Some(position) = route::position(target, "since")? {
        return Ok(Start::Since(position));
    }
    if let Some(count) = route::number(target, "last")? {
        return Ok(Start::Last(count));
    }
    Ok(if route::switch(target, "snapshot")? {
        Start::Snapshot
    } else {
        Start::Live
    })
}

/// `policy=`: what becomes of the stream's topics when the client does not keep up; the rules say it without one.
fn requested_policy(target: &Target<'_>) -> Result<Option<LagPolicy>, Fault> {
    let policy = match route::parameter(target, &["policy"])?.as_deref() {
        None => return Ok(None),
        Some("replay") => LagPolicy::Replay,
        Some("conflate") => LagPolicy::Conflate,
        Some("drop") => LagPolicy::Drop,
        Some("disconnect") => LagPolicy::Disconnect,
        Some(_) => return Err(ErrorCode::MalformedParameter.into()),
    };
    Ok(Some(policy))
}
