//! Clients of the HTTP protocols: one that publishes and reads history, one that long-polls, and
//! one that follows an event stream and resumes with its last event id.

mod filters;
mod requests;
mod stream;

use crate::client::{Client, Context, Fortune, Peer, Phase};
use crate::covering::Covering;
use crate::oracle::{Hole, Oracle, Run, Source};
use crate::plan::{Plan, draw_policy};
use broker::settings::LagPolicy;
use serde_json::Value;
use std::collections::VecDeque;
use stdx::prng::Prng;
use wire::codec::Step;
use wire::http::event_stream::EventStreamDecoder;
use wire::http::response::Response;
use wire::http::{BodyFraming, HeadLimits, HeadScan};

/// The kind of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// `POST /topics/..`, `POST /publish`, `GET /topics/..`.
    Requests,
    /// `GET /topics/..?wait=..`, repeatedly.
    Polls,
    /// `text/event-stream` of one topic.
    Raw,
    /// `/events` of several topics.
    Envelope,
}

enum Asked {
    Publish(requests::Publishing),
    History { since: Option<u64> },
    Poll,
    Stream,
}

/// A client over HTTP; see the module.
pub struct HttpClient {
    peer: Peer,
    kind: Kind,
    /// The requested policy of a lagging stream; without it, the rules decide.
    policy: Option<LagPolicy>,
    scan: HeadScan,
    asked: Option<Asked>,
    /// Length of the last request's body, in bytes.
    body_bytes: usize,
    is_streaming: bool,
    decoder: EventStreamDecoder,
    last_event_id: String,
    /// One run for each topic, in the order of the request.
    runs: Vec<Run>,
    has_begun: Vec<bool>,
    /// The view of the stream's filters.
    covering: Option<Covering>,
    /// The index of a filter that nodes refuse ([`REFUSED`]), in some streams.
    refused_at: Option<usize>,
    /// The probability that publications of a request have keys.
    once: f64,
    /// The generator for keys, separate from the client's other actions.
    names: Prng,
    /// Publications with keys that were not answered.
    repeats: VecDeque<requests::Publishing>,
}

const EVENT_BYTES_MAX: usize = 4 << 20;
/// A filter with more levels than `filter_levels_max`.
const REFUSED: &str = "+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+";

impl HttpClient {
    /// Creates a client of a random kind.
    pub fn new(id: usize, plan: &Plan, random: &mut Prng) -> HttpClient {
        let kind =
            [Kind::Requests, Kind::Polls, Kind::Raw, Kind::Envelope][random.below(4) as usize];
        let count = match kind {
            Kind::Requests => 0,
            Kind::Polls | Kind::Raw => 1,
            Kind::Envelope => random.between(1, plan.topics.len().min(4) as u64) as usize,
        };
        let mut topics: Vec<usize> = (0..plan.topics.len()).collect();
        random.shuffle(&mut topics);
        let runs =
            topics[..count].iter().map(|topic| Run { client: id, topic: *topic, ..Run::default() });
        let has_own = plan.has_policies && random.chance(0.5);
        HttpClient {
            policy: has_own.then(|| draw_policy(random)),
            runs: runs.collect(),
            has_begun: vec![false; count],
            peer: Peer::new(id, plan, random),
            kind,
            scan: HeadScan::new(),
            asked: None,
            body_bytes: 0,
            is_streaming: false,
            decoder: EventStreamDecoder::new(EVENT_BYTES_MAX),
            last_event_id: String::new(),
            covering: None,
            refused_at: None,
            once: 0.0,
            names: Prng::new(plan.seed ^ id as u64),
            repeats: VecDeque::new(),
        }
    }

    /// Creates a client that publishes with keys.
    pub fn naming(id: usize, plan: &Plan, random: &mut Prng) -> HttpClient {
        HttpClient {
            kind: Kind::Requests,
            runs: Vec::new(),
            has_begun: Vec::new(),
            once: [0.5, 1.0][random.below(2) as usize],
            ..HttpClient::new(id, plan, random)
        }
    }

    /// Creates a client that follows filters over an event stream, and topics that none of them
    /// matches.
    pub fn covering(id: usize, plan: &Plan, random: &mut Prng) -> HttpClient {
        let mut filters: Vec<usize> = (0..plan.filters.len()).collect();
        random.shuffle(&mut filters);
        filters.truncate(random.between(1, 3) as usize);
        // Drawn separately, so that streams without one do not change.
        let mut refused = Prng::new(plan.seed ^ id as u64 ^ 0x0e_f05e);
        let is_refused = refused.chance(0.5);
        let refused_at = is_refused.then(|| refused.below(filters.len() as u64 + 1) as usize);
        let covering = Covering::new(id, filters, plan);
        let is_apart = |topic: &usize| !covering.covers(plan, *topic);
        let topics = (0..plan.topics.len()).filter(is_apart);
        let topics = topics.take(random.below(3) as usize);
        let runs: Vec<Run> =
            topics.map(|topic| Run { client: id, topic, ..Run::default() }).collect();
        HttpClient {
            kind: Kind::Envelope,
            has_begun: vec![false; runs.len()],
            runs,
            covering: Some(covering),
            refused_at,
            ..HttpClient::new(id, plan, random)
        }
    }

    fn lost(&mut self, context: &mut Context<'_>) {
        self.keep_unanswered();
        self.asked = None;
        self.is_streaming = false;
        self.scan = HeadScan::new();
        self.decoder = EventStreamDecoder::new(EVENT_BYTES_MAX);
        self.peer.act_at_ms = context.now_ms + self.peer.random.between(1, 100);
    }

    fn request(&mut self, context: &mut Context<'_>, head: &str, body: &[u8], asked: Asked) {
        context.oracle.note(self.peer.id, || head.lines().next().unwrap_or_default().to_owned());
        let mut bytes = format!("{head}Host: sim\r\n").into_bytes();
        if body.is_empty() {
            bytes.extend_from_slice(b"\r\n");
        } else if self.peer.random.chance(0.3) {
            bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            for part in body.chunks(1 + self.peer.random.below(3_000) as usize) {
                bytes.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                bytes.extend_from_slice(part);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
        } else {
            bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
            bytes.extend_from_slice(body);
        }
        self.peer.send(&bytes);
        self.body_bytes = body.len();
        self.asked = Some(asked);
    }

    fn act(&mut self, context: &mut Context<'_>) {
        if self.asked.is_some() {
            return;
        }
        match self.kind {
            Kind::Requests if context.phase == Phase::Active => self.ask(context),
            Kind::Requests => {}
            Kind::Polls => self.poll(context),
            Kind::Raw | Kind::Envelope => self.follow(context),
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) {
        let run = &self.runs[0];
        let name = &context.plan.topics[run.topic];
        let since = if self.has_begun[0] {
            format!("&since={}:{}", run.epoch, run.cursor)
        } else {
            String::new()
        };
        let limit = self.peer.random.between(1, 10);
        let wait = if context.phase == Phase::Active { "300ms" } else { "2s" };
        let head = format!("GET /topics/{name}?wait={wait}&limit={limit}{since} HTTP/1.1\r\n");
        self.request(context, &head, &[], Asked::Poll);
    }

    /// Processes the input. False if the connection is over.
    fn understand(&mut self, context: &mut Context<'_>) -> bool {
        let id = self.peer.id;
        let input = std::mem::take(&mut self.peer.input);
        if self.is_streaming {
            return self.on_stream(context, &input);
        }
        let method = "GET";
        let step = Response::decode(&input, &mut self.scan, &HeadLimits::default(), method);
        let (status, framing, keeps_alive, consumed) = match step {
            Ok(Step::Done { value, consumed }) => {
                (value.status, value.body, value.keep_alive(), consumed)
            }
            Ok(Step::More { .. }) => {
                self.peer.input = input;
                return true;
            }
            Err(error) => {
                context.oracle.fail(id, format!("an answer that is none: {error}"));
                return false;
            }
        };
        if matches!(self.asked, Some(Asked::Stream)) && status == 200 {
            self.is_streaming = true;
            return self.on_stream(context, &input[consumed..]);
        }
        let length = match framing {
            BodyFraming::Length(length) => length as usize,
            BodyFraming::None => 0,
            _ => {
                context.oracle.fail(id, "an answer without a length".into());
                return false;
            }
        };
        if input.len() < consumed + length {
            self.peer.input = input;
            self.scan = HeadScan::new();
            return true;
        }
        self.scan = HeadScan::new();
        let body: Value =
            serde_json::from_slice(&input[consumed..consumed + length]).unwrap_or(Value::Null);
        self.peer.input = input[consumed + length..].to_vec();
        context.oracle.note(id, || format!("<- {status} {}", short(&body)));
        let Some(asked) = self.asked.take() else {
            if status == 408 {
                return false; // the client never sent a request
            }
            context.oracle.fail(id, format!("an answer to nothing: {status}"));
            return false;
        };
        self.check_status(context, &asked, status, &body);
        match asked {
            Asked::Publish(publishing) => {
                self.on_published(context, &publishing, status, &body);
            }
            Asked::History { since } if status == 200 => {
                (self.runs[0].from, self.runs[0].cursor) = (since.unwrap_or(0), since.unwrap_or(0));
                self.has_begun = vec![since.is_some()];
                self.on_page(context, &body);
                self.runs.clear();
            }
            Asked::Poll if status == 200 => self.on_page(context, &body),
            _ => {}
        }
        keeps_alive
    }

    /// Reports an error status without an explanation in the world's plan.
    fn check_status(&self, context: &mut Context<'_>, asked: &Asked, status: u16, body: &Value) {
        // The node abandons a slow body; then nothing was done. A long poll that ends before its
        // home has answered receives `overloaded`.
        let is_late_poll = status == 503 && matches!(asked, Asked::Poll);
        let disk = context.plan.disk;
        let is_unavailable = is_unavailable(body) && (disk.refuses() || disk.refuses_reads());
        let is_led_away = status == 503 && context.plan.drains() && body["code"] == "shutting_down";
        // If other clients have tokens, the input of an anonymous client is limited.
        let anonymous_bytes_max = context.plan.settings.limits.anonymous_input_bytes_max as usize;
        let is_too_long = body["code"] == "message_too_large"
            && context.plan.settings.entitlement.is_some()
            && self.body_bytes > anonymous_bytes_max;
        if status >= 400
            && status != 408
            && !is_too_long
            && !is_late_poll
            && !is_led_away
            && !is_unavailable
            && (context.plan.lossless || !matches!(status, 408 | 413 | 429 | 503 | 507))
        {
            context.oracle.fail(self.peer.id, format!("{status}: {body}"));
        }
    }

    /// Processes a page of history or of a long poll: the messages behind the run's cursor.
    fn on_page(&mut self, context: &mut Context<'_>, body: &Value) {
        let source = self.peer.source();
        let run = &mut self.runs[0];
        let told_at = context.oracle.moment;
        let position = body["cursor"].as_str().and_then(position_of);
        let Some((epoch, cursor)) = position else {
            let text = format!("a page without a cursor: {body}");
            return context.oracle.fail(source.client, text);
        };
        let is_said = !body["gap"].is_null();
        if !turn_to(context, run, source, epoch, self.has_begun[0], is_said) {
            return;
        }
        if let Some(hole) = hole_of(&body["gap"], told_at) {
            run.take_hole(hole);
        }
        for message in body["messages"].as_array().into_iter().flatten() {
            let offset = message["offset"].as_u64().unwrap_or(0);
            let payload = message["data"].as_str().unwrap_or_default();
            if !self.has_begun[0] {
                (run.from, run.cursor) = (offset - 1, offset - 1);
                self.has_begun[0] = true;
            }
            take(context, run, source, offset, payload);
        }
        if !std::mem::replace(&mut self.has_begun[0], true) {
            (run.from, run.cursor) = (cursor, cursor);
        }
        if cursor < run.cursor {
            let text = format!("the page's cursor {cursor} is before {}", run.cursor);
            context.oracle.fail(self.peer.id, text);
        }
        run.cursor = cursor;
        if matches!(self.kind, Kind::Requests) {
            let run = std::mem::take(run);
            // Limits may end a page of history before the head, so it claims only its records.
            context.oracle.keep_run(run);
        }
    }
}

/// Switches to the epoch in the answer: the run's messages stay valid, or the answer reports that
/// all are lost.
fn turn_to(
    context: &mut Context<'_>,
    run: &mut Run,
    source: Source,
    epoch: u64,
    has_begun: bool,
    is_said: bool,
) -> bool {
    let partition = context.plan.partition(run.topic);
    let expected = context.oracle.epoch(partition, source.instance);
    if epoch != expected {
        let text = format!("epoch {epoch}, and the log's is {expected}");
        context.oracle.fail(source.client, text);
        return false;
    }
    let oracle = &mut *context.oracle;
    let is_known = oracle.holds(partition, run.epoch, run.cursor, source.instance);
    if !has_begun {
        run.epoch = epoch;
    } else if is_known {
        run.continue_in(epoch);
    } else if is_said {
        context.oracle.keep_run(run.begin_anew(epoch));
    } else {
        let text = format!("{}:{} is lost, and no gap was reported", run.epoch, run.cursor);
        context.oracle.fail(source.client, text);
        return false;
    }
    true
}

/// Parses the epoch and offset of a position.
fn position_of(text: &str) -> Option<(u64, u64)> {
    let (epoch, offset) = text.split_once(':')?;
    Some((epoch.parse().ok()?, offset.parse().ok()?))
}

/// Processes a message behind the run's cursor.
fn take(context: &mut Context<'_>, run: &mut Run, source: Source, offset: u64, payload: &str) {
    context.oracle.delivered(context.plan, source, run.topic, offset, None, payload.as_bytes());
    if offset <= run.cursor {
        let name = &context.plan.topics[run.topic];
        let text = format!("{name}: {offset} was settled before: the cursor is {}", run.cursor);
        context.oracle.fail(run.client, text);
    }
    run.cursor = offset;
    run.seen.push(offset);
}

fn hole_of(value: &Value, told_at: u64) -> Option<Hole> {
    let reason = match value["reason"].as_str()? {
        "evicted" => 0,
        "unknown_epoch" => 1,
        "beyond_head" => 2,
        "damaged" => 4,
        _ => 3,
    };
    Some(Hole { from: value["from"].as_u64()?, to: value["to"].as_u64()?, reason, told_at })
}

fn is_unavailable(error: &Value) -> bool {
    error["code"] == "log_unavailable" || error["code"] == "log_full"
}

fn short(value: &Value) -> String {
    let mut text = value.to_string();
    if text.len() > 160 {
        text.truncate(160);
    }
    text
}

impl Client for HttpClient {
    fn step(&mut self, context: &mut Context<'_>) -> Option<u64> {
        if matches!(context.phase, Phase::Leaving | Phase::Visiting | Phase::Over | Phase::Gone) {
            self.peer.leave(context, false);
            return None;
        }
        let was_connected = self.peer.is_connected();
        if context.now_ms >= self.peer.act_at_ms {
            if !was_connected {
                self.peer.connect(context);
            }
            let pace = context.plan.pace_ms;
            self.peer.act_at_ms = context.now_ms + 1 + self.peer.random.below(2 * pace + 1);
            self.act(context);
            self.peer.suffer(context);
            if !self.peer.is_connected() {
                self.lost(context);
                return Some(self.peer.act_at_ms);
            }
        }
        let before = self.peer.input.len();
        match self.peer.transfer(context) {
            Fortune::Connected => {}
            Fortune::Lost => self.lost(context),
            Fortune::Offline if was_connected => self.lost(context),
            Fortune::Offline => {}
        }
        let did_read = self.peer.input.len() != before;
        if did_read && !self.understand(context) {
            self.peer.leave(context, false);
            self.lost(context);
        }
        let io = self.peer.next_step_ms(context, did_read);
        let waits = self.asked.is_some() && context.phase == Phase::Calm;
        let act = (!waits).then_some(self.peer.act_at_ms.max(context.now_ms + 1));
        let is_idle = self.kind == Kind::Requests && context.phase == Phase::Calm;
        [io, act.filter(|_| !is_idle)].into_iter().flatten().min()
    }

    fn is_settled(&self, (oracle, _): (&Oracle, &Plan)) -> Result<(), String> {
        if self.kind == Kind::Requests {
            return match self.asked {
                Some(_) => Err("a request was not answered".into()),
                None => Ok(()),
            };
        }
        for run in &self.runs {
            oracle
                .is_past_marker(run)
                .map_err(|text| format!("{:?} of topic {} {text}", self.kind, run.topic))?;
        }
        if let Some(covering) = &self.covering {
            let result = covering.is_past_markers(oracle);
            result.map_err(|text| format!("a stream of filters, {text}"))?;
        }
        Ok(())
    }

    fn finish(&mut self, oracle: &mut Oracle) {
        if self.kind != Kind::Requests {
            for run in std::mem::take(&mut self.runs) {
                oracle.keep_run(run);
            }
        }
        if let Some(covering) = &mut self.covering {
            covering.finish(oracle);
        }
    }
}
