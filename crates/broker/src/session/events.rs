//! What the client of an event stream is told, event by event.
//!
//! Of a raw topic the data is the payload and `id:` the position. In an envelope the data is a JSON object that names
//! the topic, and `id:` a composite cursor (`cursor`). How streams begin stands in `event_stream`.
//! Events of ours have names that begin with `crore.`, so that `onmessage` sees messages only.

use super::State;
use super::json;
use crate::edge::{Beginning, Delivery, Edge, Grant, LeftOut, Refusal, flag};
use crate::mail::{Gap, PartitionId};
use crate::position::Position;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use log::RecordView;
use wire::http::event_stream::OutgoingEvent;
use wire::http::problem::append_json_string;
use wire::native::{ErrorCode, UnsubscribeCode};

impl Edge {
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

    pub(super) fn events_refused(&mut self, index: u32, subscription: u32, refusal: Refusal) {
        let number = self.subscription_client(subscription);
        // A log that could not be read ends the stream: the client comes back with the cursor that it has. If the stream went
        // on without what it was reading, nobody would tell the client what is missing.
        let ends = refusal.code == ErrorCode::LogUnavailable;
        if !ends && let Some(State::Events(events)) = self.state(index) {
            events.cursor.refuse(number as usize);
        }
        self.statistics.errors.count(refusal.code);
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
        self.statistics.sent_away += 1;
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

pub(super) fn encode(event: &OutgoingEvent<'_>, out: &mut Vec<u8>) {
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
pub(super) fn id_event(id: Option<&str>) -> Vec<u8> {
    let event = OutgoingEvent {
        id,
        ..OutgoingEvent::default()
    };
    let mut bytes = Vec::new();
    encode(&event, &mut bytes);
    bytes
}
