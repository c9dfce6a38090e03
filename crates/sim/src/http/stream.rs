//! Event streams as a client follows them, and their resumption.

use super::{
    Asked, HttpClient, Kind, REFUSED, hole_of, is_unavailable, position_of, take, turn_to,
};
use crate::client::Context;
use crate::oracle::{Hole, Run, SKIPPED, Source, check_skip};
use broker::settings::LagPolicy;
use serde_json::Value;
use wire::codec::Step;
use wire::http::event_stream::{EventStreamDecoder, Item};

impl HttpClient {
    pub(super) fn follow(&mut self, context: &mut Context<'_>) {
        let policy = match self.policy {
            None => String::new(),
            Some(policy) => format!("policy={policy:?}&").to_lowercase(),
        };
        let mut head = match self.kind {
            Kind::Raw => format!(
                "GET /topics/{}{} HTTP/1.1\r\n",
                context.plan.topics[self.runs[0].topic],
                if policy.is_empty() { String::new() } else { format!("?{policy}") }
            ),
            _ => {
                let topics = self.runs.iter().map(|run| &context.plan.topics[run.topic]);
                let filters = self.covering.iter().flat_map(|covering| &covering.filters);
                let mut filters: Vec<&str> =
                    filters.map(|filter| &*context.plan.filters[*filter]).collect();
                if let Some(place) = self.refused_at {
                    filters.insert(place, REFUSED);
                }
                let names = topics.map(String::as_str).chain(filters).map(|name| {
                    // Wildcards have another meaning in a request's target.
                    let name = name.replace('#', "%23").replace('+', "%2B");
                    format!("topic={name}")
                });
                format!("GET /events?{policy}{} HTTP/1.1\r\n", names.collect::<Vec<_>>().join("&"))
            }
        };
        head.push_str("Accept: text/event-stream\r\n");
        if !self.last_event_id.is_empty() {
            head.push_str(&format!("Last-Event-ID: {}\r\n", self.last_event_id));
            self.resume_from_id();
            self.resume_filters(context);
        } else {
            // No event had an id yet: the stream begins anew.
            for (run, has_begun) in self.runs.iter_mut().zip(&mut self.has_begun) {
                run.seen.clear();
                run.holes.clear();
                run.crossed.clear();
                run.epoch = 0;
                *has_begun = false;
            }
            if let Some(covering) = &mut self.covering {
                covering.forget();
            }
        }
        self.request(context, &head, &[], Asked::Stream);
    }

    /// Goes back to the last event with an id: later ones will be repeated.
    pub(super) fn resume_from_id(&mut self) {
        let mut epoch = 0;
        let (topics, _) = parts_of(&self.last_event_id);
        let positions: Vec<Option<(u64, u64)>> = topics
            .split(',')
            .map(|part| {
                if let Some(position) = position_of(part) {
                    epoch = position.0;
                    return Some(position);
                }
                Some((epoch, part.parse().ok()?))
            })
            .collect();
        for (run, position) in self.runs.iter_mut().zip(positions) {
            if let Some((epoch, offset)) = position {
                if run.epoch != epoch {
                    // The id is of an older epoch than the node's last event: everything after it
                    // is repeated.
                    let _ = run.begin_anew(epoch);
                    (run.from, run.cursor) = (offset, offset);
                }
                run.seen.retain(|seen| *seen <= offset);
                run.holes.retain(|hole| hole.from < offset);
                for hole in &mut run.holes {
                    hole.to = hole.to.min(offset);
                }
                run.cursor = offset;
            }
        }
    }

    pub(super) fn on_stream(&mut self, context: &mut Context<'_>, input: &[u8]) -> bool {
        let mut decoder = std::mem::replace(&mut self.decoder, EventStreamDecoder::new(1));
        let mut at = 0;
        let mut goes_on = true;
        while goes_on && at < input.len() {
            match decoder.decode(&input[at..]) {
                Ok(Step::Done { value, consumed }) => {
                    at += consumed;
                    if let Item::Event(event) = value {
                        goes_on = self.on_stream_event(
                            context,
                            event.event,
                            event.last_event_id,
                            event.data,
                        );
                    }
                    goes_on &= self.on_id(context, decoder.last_event_id());
                }
                Ok(Step::More { .. }) => break,
                Err(error) => {
                    context.oracle.fail(self.peer.id, format!("not an event stream: {error:?}"));
                    goes_on = false;
                }
            }
        }
        // The decoder of a new connection does not know the previous ids.
        if !decoder.last_event_id().is_empty() {
            self.last_event_id = decoder.last_event_id().to_owned();
        }
        self.decoder = decoder;
        goes_on
    }

    pub(super) fn on_stream_event(
        &mut self,
        context: &mut Context<'_>,
        name: &str,
        last_id: &str,
        data: &str,
    ) -> bool {
        let id = self.peer.id;
        context
            .oracle
            .note(id, || format!("<- {name} [{last_id}] {}", &data[..data.len().min(100)]));
        let is_raw = self.kind == Kind::Raw;
        // The payload of a raw stream need not be JSON.
        let is_json = !is_raw || name != "message";
        let value = is_json.then(|| serde_json::from_str(data).ok()).flatten();
        let value: Value = value.unwrap_or_default();
        if let Some(goes_on) = self.on_filter_event(context, name, &value) {
            return goes_on;
        }
        let Some(place) = self.run_of(context, &value) else {
            if name == "crore.caught_up" {
                return true;
            }
            context.oracle.fail(id, format!("{name} for no topic: {data}"));
            return false;
        };
        let source = self.peer.source();
        let run = &mut self.runs[place];
        match name {
            "crore.start" => {
                let has_begun = &mut self.has_begun[place];
                if !take_start(context, run, source, has_begun, &value) {
                    return false;
                }
            }
            "crore.gap" => {
                if let Some(hole) = hole_of(&value["gap"], context.oracle.moment) {
                    run.take_hole(hole);
                }
            }
            "message" => {
                take_message(context, run, source, is_raw.then_some(last_id), (data, &value))
            }
            "crore.skipped" => {
                let hole = skip_of(&value, context.oracle.moment);
                let policy = context.plan.policy_of_topic(run.topic, self.policy);
                run.take_hole(hole);
                if let Err(text) = check_skip(policy, &hole) {
                    context.oracle.fail(id, text);
                }
            }
            "crore.error" if value["code"] == "slow_consumer" => {
                // It resumes with its present cursor.
                let policy = context.plan.policy_of_topic(run.topic, self.policy);
                if policy != LagPolicy::Disconnect {
                    context.oracle.fail(id, format!("{name}: {policy:?}"));
                }
                return false;
            }
            "crore.error" if is_unavailable(&value) && context.plan.disk.refuses_reads() => {
                return false; // It resumes with its present cursor.
            }
            "crore.error" if context.plan.lossless => {
                context.oracle.fail(id, format!("{name}: {data}"))
            }
            _ => {}
        }
        true
    }

    /// The index of the run for an event.
    fn run_of(&self, context: &Context<'_>, value: &Value) -> Option<usize> {
        if self.kind == Kind::Raw {
            Some(0)
        } else {
            value["topic"].as_str().and_then(|topic| {
                let topic = context.plan.topic(topic)?;
                self.runs.iter().position(|run| run.topic == topic)
            })
        }
    }
}

/// The topics' part of a composite cursor, and the filters' part: its text for each log.
pub(super) fn parts_of(cursor: &str) -> (&str, Option<&str>) {
    match cursor.split_once('/') {
        Some((topics, logs)) => (topics, Some(logs)),
        None => (cursor, None),
    }
}

/// Decodes a `crore.skipped` event.
pub(super) fn skip_of(value: &Value, told_at: u64) -> Hole {
    let reason = match value["reason"].as_str() {
        Some("conflated") => 1,
        Some("dropped") => 3,
        _ => 0,
    };
    Hole {
        from: value["from"].as_u64().unwrap_or(u64::MAX),
        to: value["through"].as_u64().unwrap_or(0),
        reason: SKIPPED + reason,
        told_at,
    }
}

/// Processes a message of a topic. `raw_id` is its id in a stream without envelopes.
fn take_message(
    context: &mut Context<'_>,
    run: &mut Run,
    source: Source,
    raw_id: Option<&str>,
    (data, value): (&str, &Value),
) {
    let (position, payload) = match raw_id {
        Some(id) => (position_of(id), data),
        None => (
            value["position"].as_str().and_then(position_of),
            value["data"].as_str().unwrap_or_default(),
        ),
    };
    let (epoch, offset) = position.unwrap_or((0, 0));
    if epoch != run.epoch {
        let text = format!("a message of epoch {epoch}, and the run's is {}", run.epoch);
        context.oracle.fail(source.client, text);
    }
    take(context, run, source, offset, payload);
}

/// Processes the start of a topic. The missing range follows in a separate event; until then the id
/// must not have moved.
fn take_start(
    context: &mut Context<'_>,
    run: &mut Run,
    source: Source,
    has_begun: &mut bool,
    value: &Value,
) -> bool {
    let position = value["position"].as_str().and_then(position_of);
    let (epoch, offset) = position.unwrap_or((0, 0));
    let is_said = value["complete"] == false;
    if !turn_to(context, run, source, epoch, *has_begun, is_said) {
        return false;
    }
    if !std::mem::replace(has_begun, true) {
        (run.from, run.cursor) = (offset, offset);
    }
    true
}
