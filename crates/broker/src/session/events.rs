//! What the client of an event stream is told, event by event.
//!
//! Of a raw topic the data is the payload and `id:` the position. In an envelope the data is a JSON
//! object that names the topic, and `id:` a composite cursor (`cursor`). How streams begin stands
//! in `event_stream`. Events of ours have names that begin with `crore.`, so that `onmessage` sees
//! messages only.

use super::State;
use super::cursor::CURSOR_BYTES_MAX;
use super::json;
use super::parameters::DataForm;
use crate::edge::{Edge, flag};
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{Gap, GapReason, PartitionId};
use crate::notice::{Beginning, Grant, LeftOut, Refusal};
use crate::position::Position;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use log::RecordView;
use wire::http::event_stream::OutgoingEvent;
use wire::http::problem::append_json_string;
use wire::native::{ErrorCode, UnsubscribeCode};

impl Edge {
    pub(crate) fn events_subscribed(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        grant: &Grant,
    ) {
        // A retained message stands before what is settled.
        let retained = grant.retained.clone();
        let number = self.subscription_client(subscription);
        self.set_stream_cursor(index, number, grant.position);
        let mut data = self.event_about(index, number);
        let complete = grant.gap.is_none();
        json::append(
            &mut data,
            format_args!("\"position\":\"{}\",\"complete\":{complete}", grant.position),
        );
        let is_raw = self.connections.slots[index].is(flag::RAW);
        if let Some(hint) = self.stream_topic(index, number).and_then(|name| hint_of(&name)) {
            data.extend_from_slice(b",\"hint\":");
            append_json_string(&mut data, hint);
        }
        data.push(b'}');
        // The stream's id moves only with the event that says what is missing before it.
        let id = (is_raw && complete).then(|| grant.position.to_string());
        self.send_event(index, "crore.start", id.as_deref(), &data);
        if let Some(gap) = grant.gap {
            self.statistics.gaps += 1;
            let id = is_raw.then(|| grant.position.to_string());
            self.send_gap_event(index, subscription, gap, id.as_deref());
        }
        // Where events of other topics had to go, their cursor must not be told; `crore.caught_up`
        // will bring it. Nor is there one before all topics have begun: with a part of it a client
        // would come back as a stranger. A replay tells it with its first event.
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
    fn send_id(&mut self, subscription: SubIndex, position: Position) {
        let index = self.subscription_connection(subscription);
        if self.stream_id(index, position).is_some() {
            let settled = (position.offset, position.offset);
            self.send_stream_mark(subscription, settled, position, NO_EVENT);
        }
    }

    /// Queues an event that settles a topic after `from` up to `through`, and moves the stream's
    /// cursor to `position`. It gives way with the messages before it.
    fn send_stream_mark(
        &mut self,
        subscription: SubIndex,
        (from, through): (u64, u64),
        position: Position,
        event: &[u8],
    ) {
        self.reserve(event.len() + ID_LINE_BYTES_MAX);
        if self.takes_through(subscription, through) {
            let index = self.subscription_connection(subscription);
            let number = self.subscription_client(subscription);
            self.set_stream_cursor(index, number, position);
            let id = id_line(self.stream_id(index, position).as_deref());
            self.send_mark(subscription, from, through, &[id.as_bytes(), event]);
        }
    }

    /// Queues an event that settles the stream's filters in one partition, after `after` up to
    /// `through`, and moves the stream's cursor to `through`. It gives way with the messages before
    /// it.
    fn send_stream_filter_mark(
        &mut self,
        subscription: SubIndex,
        partition: PartitionId,
        (after, through): (u64, u64),
        event: &[u8],
    ) {
        self.reserve(event.len() + ID_LINE_BYTES_MAX);
        if !self.is_behind_at(subscription, partition, after) {
            let index = self.subscription_connection(subscription);
            self.stream_filters_at(index, partition, through);
            let id = self.stream_id_line(index);
            self.send_filter_mark(subscription, partition, after, &[id.as_bytes(), event]);
        }
    }

    /// The id of an event that ends at this position: of a raw stream the position, else the cursor
    /// of all.
    fn stream_id(&self, index: ConnIndex, position: Position) -> Option<String> {
        match self.connections.slots[index].is(flag::RAW) {
            true => Some(position.to_string()),
            false => self.stream_cursor(index),
        }
    }

    /// The line that begins an event with the stream's cursor; empty while there is none.
    pub(crate) fn stream_id_line(&self, index: ConnIndex) -> String {
        id_line(self.stream_cursor(index).as_deref())
    }

    pub(crate) fn events_subscribed_filters(
        &mut self,
        index: ConnIndex,
        subscriptions: &[u32],
        beginnings: &[Beginning],
    ) {
        // As they were asked for; the chain has the newest first.
        let numbers: Vec<u32> = subscriptions
            .iter()
            .rev()
            .map(|&subscription| self.subscription_client(subscription))
            .collect();
        let mut absent = Vec::new();
        let settings = self.settings.clone();
        if let Some(State::Events(events)) = self.state(index) {
            absent.extend(numbers.iter().copied().filter(|&number| {
                let is_absent = events.cursor.is_absent(number as usize);
                is_absent && beginnings.iter().any(|beginning| beginning.through > 0)
            }));
            let numbers = numbers.iter().map(|&number| number as usize);
            events.cursor.begin_filters(numbers, beginnings, &settings);
        }
        let is_whole = beginnings.iter().all(|beginning| beginning.gap.is_none());
        for &number in &numbers {
            let complete = is_whole && !absent.contains(&number);
            let mut data = self.event_about(index, number);
            json::append(&mut data, format_args!("\"complete\":{complete}}}"));
            self.send_event(index, "crore.start", None, &data);
        }
        for beginning in beginnings {
            if let Some(gap) = &beginning.gap {
                let bytes = filter_gap_event(Vec::from(b"{"), beginning.partition, gap);
                self.send_private(index, &bytes);
            }
        }
        // The client's cursor was made while these were refused: what they matched before the
        // stream's place is unknown.
        for number in absent {
            for beginning in beginnings.iter().filter(|beginning| beginning.through > 0) {
                let gap = Gap { from: 0, to: beginning.through, reason: GapReason::UnknownEpoch };
                self.statistics.gaps += 1;
                let about = self.event_about(index, number);
                let bytes = filter_gap_event(about, beginning.partition, &gap);
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
            self.send_stream_filter_mark(first, partition, (through, through), NO_EVENT);
        }
    }

    pub(crate) fn events_filter_gap(
        &mut self,
        subscription: SubIndex,
        partition: PartitionId,
        gap: Gap,
    ) {
        let event = filter_gap_event(Vec::from(b"{"), partition, &gap);
        self.reserve(event.len());
        if !self.is_behind_at(subscription, partition, gap.from) {
            let index = self.subscription_connection(subscription);
            self.stream_filters_at(index, partition, gap.to);
            self.send_filter_mark(subscription, partition, gap.from, &[&event]);
        }
    }

    /// Messages that the policy of the stream's filters left out.
    pub(crate) fn events_filter_left_out(
        &mut self,
        subscription: SubIndex,
        partition: PartitionId,
        left_out: LeftOut,
    ) {
        let mut data = Vec::new();
        json::append(&mut data, format_args!("{{\"partition\":{partition},"));
        json::append_left_out(&mut data, &left_out);
        let settled = (left_out.from, left_out.through);
        let event = event_of("crore.skipped", &data);
        self.send_stream_filter_mark(subscription, partition, settled, &event);
    }

    /// Told when the last partition has caught up.
    pub(crate) fn events_filter_caught_up(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        partition: PartitionId,
        through: u64,
    ) {
        self.stream_filters_at(index, partition, through);
        if !self.is_stream_behind(index) {
            let event = event_of("crore.caught_up", b"{}");
            self.send_stream_filter_mark(subscription, partition, (through, through), &event);
        }
    }

    pub(crate) fn events_refused(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        refusal: Refusal,
    ) {
        let number = self.subscription_client(subscription);
        // A log that could not be read ends the stream, and so does an edge without room for a
        // replay: the client comes back with the cursor that it has. If the stream went on without
        // what it was to read, the client would not learn what is missing.
        let ends = matches!(refusal.code, ErrorCode::LogUnavailable | ErrorCode::Overloaded);
        if !ends && let Some(State::Events(events)) = self.state(index) {
            events.cursor.refuse(number as usize);
        }
        self.statistics.errors.count(refusal.code);
        let mut data = Vec::from(&b"{\"topic\":"[..]);
        append_json_string(&mut data, &self.stream_topic(index, number).unwrap_or_default());
        json::append(&mut data, format_args!(",\"code\":\"{}\",\"detail\":", refusal.code.name()));
        append_json_string(&mut data, refusal.code.text());
        data.push(b'}');
        self.send_event(index, "crore.error", None, &data);
        // A raw stream without its topic has no purpose either; the client comes back after its
        // delay.
        if ends || self.connections.slots[index].is(flag::RAW) {
            self.close(index);
        }
    }

    pub(crate) fn events_gap(&mut self, index: ConnIndex, subscription: SubIndex, gap: Gap) {
        self.send_gap_event(index, subscription, gap, None);
    }

    fn send_gap_event(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        gap: Gap,
        id: Option<&str>,
    ) {
        let number = self.subscription_client(subscription);
        let mut data = self.event_about(index, number);
        data.extend_from_slice(b"\"gap\":");
        json::append_gap(&mut data, &gap);
        data.push(b'}');
        self.send_event(index, "crore.gap", id, &data);
    }

    pub(crate) fn events_caught_up(&mut self, subscription: SubIndex, told: u64, through: u64) {
        let position = Position { epoch: self.subscription_epoch(subscription), offset: through };
        let event = event_of("crore.caught_up", b"{}");
        self.send_stream_mark(subscription, (told, through), position, &event);
    }

    /// Messages that the subscription's policy left out. The client has settled them, so its cursor
    /// moves.
    pub(crate) fn events_left_out(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        left_out: LeftOut,
    ) {
        let LeftOut { from, through, .. } = left_out;
        let number = self.subscription_client(subscription);
        let position = Position { epoch: self.subscription_epoch(subscription), offset: through };
        let mut data = self.event_about(index, number);
        json::append_left_out(&mut data, &left_out);
        let event = event_of("crore.skipped", &data);
        self.send_stream_mark(subscription, (from, through), position, &event);
    }

    /// The stream ends: the client comes back with the cursor that it has.
    pub(crate) fn events_disconnected(&mut self, index: ConnIndex, subscription: SubIndex) {
        let number = self.subscription_client(subscription);
        let mut data = self.event_about(index, number);
        let code = UnsubscribeCode::SlowConsumer;
        json::append(&mut data, format_args!("\"code\":\"{}\",\"detail\":", code.name()));
        append_json_string(&mut data, code.text());
        data.push(b'}');
        self.send_event(index, "crore.error", None, &data);
        self.close(index);
    }

    /// The beginning of an event's data: which topic it is about, where the stream has several.
    fn event_about(&self, index: ConnIndex, number: u32) -> Vec<u8> {
        let mut data = Vec::from(&b"{"[..]);
        if let Some(name) = self.stream_topic(index, number) {
            data.extend_from_slice(b"\"topic\":");
            append_json_string(&mut data, &name);
            data.push(b',');
        }
        data
    }

    pub(crate) fn events_send_away(&mut self, index: ConnIndex, return_after_ms: u64) {
        let away =
            OutgoingEvent { retry_ms: Some(return_after_ms.max(1)), ..OutgoingEvent::default() };
        let mut bytes = Vec::new();
        encode(&away, &mut bytes);
        self.send_private(index, &bytes);
        self.statistics.sent_away += 1;
        self.close(index);
    }

    /// One event of a stream in envelopes, behind its id.
    pub(crate) fn append_envelope_event(
        &self,
        index: ConnIndex,
        subscription: SubIndex,
        view: &RecordView<'_>,
        out: &mut Vec<u8>,
    ) {
        let number = self.subscription_client(subscription);
        let epoch = self.subscription_epoch(subscription);
        let name = self.stream_topic(index, number).unwrap_or_default();
        self.append_envelope(index, &name, epoch, view, out);
    }

    /// The same for a message that a filter matched.
    pub(crate) fn append_wide_event(
        &self,
        index: ConnIndex,
        topic: &str,
        partition: PartitionId,
        view: &RecordView<'_>,
        out: &mut Vec<u8>,
    ) {
        let epoch = self.settings.log_of(partition).epoch;
        self.append_envelope(index, topic, epoch, view, out);
    }

    fn append_envelope(
        &self,
        index: ConnIndex,
        topic: &str,
        epoch: u64,
        view: &RecordView<'_>,
        out: &mut Vec<u8>,
    ) {
        // JSON escapes all line ends, so the data is one line.
        out.extend_from_slice(b"data: {\"topic\":");
        append_json_string(out, topic);
        out.push(b',');
        let data = match self.sessions.states.get(self.connections.slots[index].state) {
            Some(State::Events(events)) => events.data,
            _ => DataForm::Text,
        };
        json::append_message(out, epoch, view, data);
        out.extend_from_slice(b"}\n\n");
    }

    fn send_event(&mut self, index: ConnIndex, event: &str, id: Option<&str>, data: &[u8]) {
        let mut bytes = Vec::with_capacity(64 + data.len());
        let data = std::str::from_utf8(data).unwrap_or_default();
        encode(
            &OutgoingEvent { event: Some(event), id, data: Some(data), retry_ms: None },
            &mut bytes,
        );
        self.send_private(index, &bytes);
    }
}

/// Whether a topic's name looks like a filter that a URL has spoilt. It is a name like any other,
/// and so no fault.
fn hint_of(name: &str) -> Option<&'static str> {
    if name.ends_with('/') {
        return Some("this topic ends in an empty level; the wildcard # is written %23 in a URL");
    }
    let is_space = name.split('/').any(|level| level == " ");
    is_space.then_some("a level of this topic is a space; the wildcard + is written %2B in a URL")
}

/// One event of a raw stream: the payload as data, in base64 under a name of its own when it is not
/// text.
pub(crate) fn append_raw_event(epoch: u64, view: &RecordView<'_>, out: &mut Vec<u8>) {
    let id = Position { epoch, offset: view.offset() }.to_string();
    match std::str::from_utf8(view.payload()) {
        Ok(text) => encode(
            &OutgoingEvent { id: Some(&id), data: Some(text), ..OutgoingEvent::default() },
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

pub(crate) fn encode(event: &OutgoingEvent<'_>, out: &mut Vec<u8>) {
    let encoded = event.encode(out);
    debug_assert!(encoded.is_ok(), "ids and names of ours hold no line ends");
}

/// `data` is the beginning of the event's data.
fn filter_gap_event(mut data: Vec<u8>, partition: PartitionId, gap: &Gap) -> Vec<u8> {
    json::append(&mut data, format_args!("\"partition\":{partition},\"gap\":"));
    json::append_gap(&mut data, gap);
    data.push(b'}');
    event_of("crore.gap", &data)
}

/// An event of ours behind its id; `data` is one line.
fn event_of(name: &str, data: &[u8]) -> Vec<u8> {
    let event = OutgoingEvent {
        event: Some(name),
        data: std::str::from_utf8(data).ok(),
        ..OutgoingEvent::default()
    };
    let mut bytes = Vec::new();
    encode(&event, &mut bytes);
    bytes
}

/// What follows an id that no event comes with.
pub(crate) const NO_EVENT: &[u8] = b"\n";

/// Bytes of the line that begins an event with its id.
pub(crate) const ID_LINE_BYTES_MAX: usize = "id: \n".len() + CURSOR_BYTES_MAX;

fn id_line(id: Option<&str>) -> String {
    id.map_or(String::new(), |id| format!("id: {id}\n"))
}
