//! HTTP/1.1 connections: heads, bodies, routing, answers, cross-origin rules. One request at a time: the next head is
//! not looked at before the answer to this one has been queued (pipelining keeps its order that way).

use super::State;
use super::credential::Entry;
use super::event_stream::check_stream_parameters;
use super::fault::Fault;
use super::json;
use super::poll::Poll;
use super::publish::{Intent, MAX_TAGS_BYTES};
use super::route::{self, Route};
use crate::edge::{Deadline, Edge, NONE, Pressure, Progress, Protocol, flag};
use crate::entitlement::Action;
use crate::mail::{HistoryPage, PageLimits, Reply, Request as Letter};
use crate::position::Position;
use crate::topic::TopicName;
use log::RecordView;
use wire::codec::Step;
use wire::http::event_stream::EVENT_STREAM_MEDIA_TYPE;
use wire::http::problem::append_json_string;
use wire::http::request::Request;
use wire::http::response::CONTINUE;
use wire::http::{
    BodyDecoder, BodyFraming, BodyPart, HeadLimits, HeadScan, Problem, ResponseWriter, Target,
    Version,
};
use wire::native::{self, CloseCode, ErrorCode};
use wire::websocket::handshake::Upgrade;

/// How an answer goes back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub keep_alive: bool,
    /// The client closes unless it hears that the connection stays open.
    pub expects_close: bool,
    /// The request was HEAD: nothing may follow the head of the answer.
    pub head_only: bool,
    /// The page's origin, when it is allowed and has to be named.
    pub origin: Option<Box<str>>,
}

stdx::hand!(struct Answer { keep_alive, expects_close, head_only, origin });

/// A body on its way.
pub(crate) struct Body {
    decoder: BodyDecoder,
    bytes: Vec<u8>,
    intent: Intent,
    answer: Answer,
}

stdx::hand!(struct Body { decoder, bytes, intent, answer });

impl Body {
    /// Bytes that have come.
    pub fn bytes_count(&self) -> usize {
        self.bytes.len()
    }
}

/// A request that waits for its page of history.
pub(crate) struct HistoryWait {
    topic: String,
    answer: Answer,
}

stdx::hand!(struct HistoryWait { topic, answer });

impl Edge {
    /// A head, or a part of a body, from the front of `input`.
    pub(crate) fn http_input(
        &mut self,
        index: u32,
        input: &mut [u8],
        scan: &mut HeadScan,
    ) -> Progress {
        let is_judged = self.slots[index].state != NONE && self.is_judged(index);
        if self.slots[index].state != NONE && !is_judged {
            return self.http_body(index, input);
        }
        // A head whose verdict has come was looked at before.
        if !is_judged && self.pause_for_room(index) {
            return Progress::Stop;
        }
        let limits = HeadLimits {
            head_bytes_max: self.settings.limits.head_bytes_max.min(u32::from(u16::MAX)) as u16,
            ..HeadLimits::default()
        };
        let step = Request::decode(input, scan, &limits);
        let (request, consumed) = match step {
            Ok(Step::More { needed }) => return Progress::Needs(needed),
            Ok(Step::Done { value, consumed }) => (value, consumed),
            Err(error) => {
                self.statistics.protocol_errors += 1;
                let code = match error.status() {
                    414 => ErrorCode::UriTooLong,
                    417 => ErrorCode::UnsupportedExpectation,
                    431 => ErrorCode::HeaderTooLarge,
                    501 => ErrorCode::UnsupportedTransferCoding,
                    505 => ErrorCode::UnsupportedHttpVersion,
                    _ => ErrorCode::MalformedRequest,
                };
                self.answer_fault(
                    index,
                    &Answer::default(),
                    &Fault::new(code, error.to_string()),
                );
                return Progress::Stop;
            }
        };
        if self.settings.journal.access {
            self.note_request(index, request.method, request.target);
        }
        if !self.settle_client(index, &request) {
            return Progress::Stop;
        }
        let entry = match self.settings.entitlement {
            None => Entry::Open,
            Some(_) => self.entitle_request(index, &request),
        };
        let refused = match entry {
            Entry::Waits => return Progress::Stop,
            Entry::Open => None,
            Entry::Refused(fault) => Some(fault),
        };
        let is_first = self.slots[index].is(flag::STARTING);
        self.slots[index].clear(flag::STARTING);
        self.statistics.http_requests += 1;
        let has_body = !matches!(request.body, BodyFraming::None | BodyFraming::Length(0));
        let mut answer = Answer {
            keep_alive: request.keep_alive() && !self.draining,
            expects_close: request.version == Version::Http10,
            head_only: request.method == "HEAD",
            origin: None,
        };
        if let Err(fault) = self.http_request(index, &request, refused, &mut answer) {
            // What follows would be the body that nobody reads.
            answer.keep_alive &= !has_body;
            self.answer_fault(index, &answer, &fault);
        }
        // Of a native session HELLO is still to come.
        if is_first && self.slots[index].protocol != Protocol::NativeStart {
            self.count_handshake(index);
        }
        Progress::Consumed(consumed)
    }

    fn http_request(
        &mut self,
        index: u32,
        request: &Request<'_>,
        refused: Option<Fault>,
        answer: &mut Answer,
    ) -> Result<(), Fault> {
        self.take_request(index)?;
        let origin_is_allowed = self.check_origin(request, answer);
        let target = Target::parse(request.target).map_err(route::bad_target)?;
        let route = Route::of(&target)?;
        if !origin_is_allowed {
            return Err(ErrorCode::OriginForbidden.into());
        }
        if request.method == "OPTIONS" {
            reject_body(request)?;
            self.answer_preflight(index, request, route.methods(), answer);
            return Ok(());
        }
        if let Some(fault) = refused {
            return Err(fault);
        }
        // Whoever is let in now would not be told to leave again.
        let is_lasting = matches!(route, Route::Native | Route::Echo | Route::Events)
            || request.method == "GET" && accepts(request, EVENT_STREAM_MEDIA_TYPE);
        if self.draining && is_lasting {
            return Err(ErrorCode::ShuttingDown.into());
        }
        if is_lasting {
            self.refuse_from(Pressure::Newcomers)?;
        }
        match (route, request.method) {
            (Route::Native, _) => self.upgrade(index, request, Protocol::NativeStart, answer),
            (Route::Echo, _) => {
                self.require_credential(index)?;
                self.upgrade(index, request, Protocol::Echo, answer)
            }
            (Route::Topic(topic), "POST") => {
                check_topic(&topic)?;
                self.permit_body(index, &topic)?;
                let intent = Intent::one(topic, request, &target)?;
                self.begin_body(index, request, intent, answer)
            }
            (Route::Topic(topic), "GET") => {
                reject_body(request)?;
                check_topic(&topic)?;
                // Also where nothing comes of them: who mistypes one learns it.
                check_stream_parameters(&target)?;
                if accepts(request, EVENT_STREAM_MEDIA_TYPE) {
                    self.permit_request(index, Action::Subscribe, &topic)?;
                    self.begin_raw_stream(index, request, &target, topic, answer)
                } else {
                    self.begin_history(index, &target, topic, answer)
                }
            }
            (Route::Publish, "POST") => {
                let intent = Intent::envelope(request)?;
                self.begin_body(index, request, intent, answer)
            }
            (Route::Events, "GET") => {
                reject_body(request)?;
                self.begin_stream(index, request, &target, answer)
            }
            (route @ (Route::Topic(_) | Route::Publish | Route::Events), _) => {
                Err(Fault::method(route.methods()))
            }
        }
    }

    fn upgrade(
        &mut self,
        index: u32,
        request: &Request<'_>,
        protocol: Protocol,
        answer: &Answer,
    ) -> Result<(), Fault> {
        let subprotocols: &[&str] = if protocol == Protocol::Echo {
            &[]
        } else {
            &[native::SUBPROTOCOL]
        };
        let checked = Upgrade::check(request).and_then(|upgrade| {
            let chosen = match subprotocols {
                [] => None,
                supported => Some(upgrade.choose_subprotocol(supported)?),
            };
            let deflate = match self.settings.compression {
                Some(_) => upgrade.choose_deflate()?,
                None => None,
            };
            Ok((upgrade, chosen, deflate))
        });
        match checked {
            Ok((upgrade, chosen, deflate)) => {
                let mut head = std::mem::take(&mut self.scratch);
                head.clear();
                upgrade.encode_response_with(&mut head, chosen, deflate);
                self.send_private(index, &head);
                self.tell_answer(index, 101, head.len());
                self.scratch = head;
                let ping_interval_s = self.settings.limits.ping_interval_s;
                let slot = &mut self.slots[index];
                slot.protocol = protocol;
                slot.set_window_bits(deflate.map_or(0, |deflate| deflate.server_window_bits));
                self.set_ping_interval(index, ping_interval_s);
                match protocol {
                    Protocol::Echo => {
                        self.statistics.echo_sessions += 1;
                        self.session_began(index);
                    }
                    _ => self.expect(Deadline::Hello(self.slots.key(index))),
                }
            }
            Err(refusal) => {
                self.statistics.http_errors += 1;
                self.count_told(refusal.code());
                let mut head = Vec::new();
                refusal.encode(&mut head);
                self.tell_answer(index, refusal.status(), head.len());
                // It says `Connection: close`.
                self.send_answer(index, answer, head);
                self.finish_answer(index, false);
            }
        }
        Ok(())
    }

    fn begin_body(
        &mut self,
        index: u32,
        request: &Request<'_>,
        intent: Intent,
        answer: &Answer,
    ) -> Result<(), Fault> {
        self.refuse_from(Pressure::Publications)?;
        // Room for the envelope and its escapes around the largest message.
        let limit = match intent {
            Intent::Envelope(_) => u64::from(self.settings.limits.frame_bytes_max).max(64 << 10),
            Intent::One { .. } => u64::from(self.settings.limits.message_bytes_max),
        };
        let decoder = BodyDecoder::new(request.body, limit)
            .map_err(|error| Fault::new(ErrorCode::MessageTooLarge, error.to_string()))?;
        if request.expect_continue && !decoder.is_end() {
            self.send_private(index, CONTINUE);
        }
        let body = Body {
            decoder,
            bytes: Vec::new(),
            intent,
            answer: answer.clone(),
        };
        if body.decoder.is_end() {
            self.body_complete(index, body);
        } else {
            self.set_state(index, State::Body(Box::new(body)));
        }
        Ok(())
    }

    fn http_body(&mut self, index: u32, input: &[u8]) -> Progress {
        let Some(State::Body(body)) = self.state(index) else {
            return Progress::Stop;
        };
        match body.decoder.decode(input) {
            Ok(Step::More { needed }) => Progress::Needs(needed),
            Ok(Step::Done {
                value: BodyPart::Data(data),
                consumed,
            }) => {
                body.bytes.extend_from_slice(data);
                if body.decoder.is_end()
                    && let Some(State::Body(body)) = self.take_state(index)
                {
                    self.body_complete(index, *body);
                }
                Progress::Consumed(consumed)
            }
            Ok(Step::Done {
                value: BodyPart::End,
                consumed,
            }) => {
                if let Some(State::Body(body)) = self.take_state(index) {
                    self.body_complete(index, *body);
                }
                Progress::Consumed(consumed)
            }
            Err(error) => {
                self.statistics.protocol_errors += 1;
                let code = match error.status() {
                    413 => ErrorCode::MessageTooLarge,
                    431 => ErrorCode::HeaderTooLarge,
                    _ => ErrorCode::MalformedRequest,
                };
                let answer = match self.take_state(index) {
                    Some(State::Body(body)) => Answer {
                        keep_alive: false,
                        ..body.answer
                    },
                    _ => Answer::default(),
                };
                self.answer_fault(index, &answer, &Fault::new(code, error.to_string()));
                Progress::Stop
            }
        }
    }

    fn body_complete(&mut self, index: u32, body: Body) {
        let Body {
            bytes,
            intent,
            answer,
            ..
        } = body;
        if let Err(fault) = self.publish_body(index, intent, bytes, &answer) {
            self.answer_fault(index, &answer, &fault);
        }
    }

    fn begin_history(
        &mut self,
        index: u32,
        target: &Target<'_>,
        topic: String,
        answer: &Answer,
    ) -> Result<(), Fault> {
        self.refuse_from(Pressure::Recoveries)?;
        let limit = route::number(target, "limit")?
            .unwrap_or(HISTORY_LIMIT)
            .min(self.settings.limits.page_records_max);
        let since = route::position(target, "since")?;
        let reverse = route::switch(target, "reverse")?;
        let wait_ms = route::duration_ms(target, "wait")?;
        // A long poll is a subscription that ends with its first messages.
        let action = match wait_ms {
            Some(_) => Action::Subscribe,
            None => Action::History,
        };
        self.permit_request(index, action, &topic)?;
        let limits = &self.settings.limits;
        if let Some(wait_ms) = wait_ms {
            if reverse {
                return Err(Fault::new(
                    ErrorCode::MalformedParameter,
                    "wait and reverse exclude each other".to_owned(),
                ));
            }
            let wait_ms = match self.draining {
                true => 0,
                false => wait_ms.min(u64::from(limits.wait_max_ms)),
            };
            self.begin_poll(
                index,
                Poll::new(topic, limit, answer.clone()),
                since,
                wait_ms,
            );
            return Ok(());
        }
        let (rule, partition) = self.settings.locate(&topic);
        let limits = PageLimits {
            records_max: limit,
            bytes_max: limits.page_bytes,
        };
        let request = Letter::History {
            partition,
            rule,
            topic: self.mail.copy(topic.as_bytes()),
            reply: Reply {
                connection: self.slots.key(index),
                request: 0,
            },
            beyond: since,
            reverse,
            limits,
        };
        self.request(self.settings.home_of(partition), request);
        self.set_state(
            index,
            State::History(Box::new(HistoryWait {
                topic,
                answer: answer.clone(),
            })),
        );
        self.slots[index].set(flag::PAUSED);
        Ok(())
    }

    pub(super) fn http_history(&mut self, index: u32, result: Result<HistoryPage, ErrorCode>) {
        let Some(State::History(wait)) = self.take_state(index) else {
            return;
        };
        match result {
            Err(code) => self.answer_fault(index, &wait.answer, &code.into()),
            Ok(page) => {
                let mut body = Vec::new();
                append_page(&mut body, &wait.topic, &page);
                self.answer_json(index, &wait.answer, 200, &body);
            }
        }
    }

    /// Whether the request's origin may do this; notes it for the answer if it has to be named there.
    fn check_origin(&self, request: &Request<'_>, answer: &mut Answer) -> bool {
        let mut origins = request.fields.all("origin");
        let Some(origin) = origins.next() else {
            return true;
        };
        // No browser sends two: which of them would count for whom?
        let (Ok(origin), None) = (std::str::from_utf8(origin), origins.next()) else {
            return false;
        };
        let host = request.header_text("host").unwrap_or_default();
        let is_own = origin.split_once("://").is_some_and(|(scheme, authority)| {
            matches!(scheme, "http" | "https") && authority.eq_ignore_ascii_case(host)
        });
        let is_listed = self
            .settings
            .allowed_origins
            .iter()
            .any(|allowed| allowed == "*" || allowed.eq_ignore_ascii_case(origin));
        if is_listed || is_own {
            answer.origin = Some(origin.into());
        }
        is_listed || is_own
    }

    fn answer_preflight(
        &mut self,
        index: u32,
        request: &Request<'_>,
        methods: &str,
        answer: &Answer,
    ) {
        let mut out = Vec::new();
        let mut writer =
            begin_answer(&mut out, 204, answer, answer.keep_alive).header("Allow", methods);
        if answer.origin.is_some() {
            writer = writer
                .header("Access-Control-Allow-Methods", methods)
                .header("Access-Control-Max-Age", "600");
            if let Some(wanted) = request.header_text("access-control-request-headers") {
                writer = writer.header("Access-Control-Allow-Headers", wanted);
            }
        }
        writer.finish_head();
        self.send_private(index, &out);
        self.tell_answer(index, 204, out.len());
        self.finish_answer(index, answer.keep_alive);
    }

    /// Queues a JSON answer and goes on.
    pub(super) fn answer_json(&mut self, index: u32, answer: &Answer, status: u16, body: &[u8]) {
        let keep_alive = answer.keep_alive && !self.draining;
        let mut out = Vec::with_capacity(256 + body.len());
        begin_answer(&mut out, status, answer, keep_alive)
            .header("Content-Type", "application/json")
            .header("Cache-Control", "no-store")
            // Payloads are anybody's: no browser is to find a page in them.
            .header("X-Content-Type-Options", "nosniff")
            .finish_with_body(body);
        if status >= 400 {
            self.statistics.http_errors += 1;
        }
        self.tell_answer(index, status, out.len());
        self.send_answer(index, answer, out);
        self.finish_answer(index, keep_alive);
    }

    /// Queues a problem (RFC 9457) and goes on, or closes when the request could not be understood.
    pub(super) fn answer_fault(&mut self, index: u32, answer: &Answer, fault: &Fault) {
        self.statistics.http_errors += 1;
        let status = fault.code.http_status();
        let keep_alive = self.take_error(index, fault.code) && answer.keep_alive && !self.draining;
        let mut out = Vec::with_capacity(512);
        let mut writer = begin_answer(&mut out, status, answer, keep_alive);
        if fault.retry_after_s > 0 {
            writer = writer.header("Retry-After", &fault.retry_after_s.to_string());
        }
        if !fault.challenge.is_empty() && self.settings.entitlement.is_some() {
            writer = writer.header("WWW-Authenticate", fault.challenge);
        }
        if !fault.allow.is_empty() {
            writer = writer.header("Allow", fault.allow);
        }
        let problem = Problem {
            type_uri: "",
            title: wire::http::response::reason_phrase(status),
            status,
            detail: &fault.detail,
            code: fault.code.name(),
            present: fault
                .present
                .map(|position| (position.epoch, position.offset)),
        };
        problem.finish(writer);
        self.tell_answer(index, status, out.len());
        self.send_answer(index, answer, out);
        self.finish_answer(index, keep_alive);
    }

    /// RFC 9110 section 9.3.2: an answer to HEAD has no body; one would be taken for the next answer.
    fn send_answer(&mut self, index: u32, answer: &Answer, mut out: Vec<u8>) {
        if answer.head_only
            && let Some(end) = out.windows(4).position(|window| window == b"\r\n\r\n")
        {
            out.truncate(end + 4);
        }
        self.send_private(index, &out);
    }

    fn finish_answer(&mut self, index: u32, keep_alive: bool) {
        self.stamp(index);
        if keep_alive {
            self.resume(index)
        } else {
            self.close(index)
        }
    }

    /// A request, or HELLO behind it, did not come in time.
    pub(crate) fn handshake_timed_out(&mut self, index: u32) {
        if self.slots[index].protocol == Protocol::NativeStart {
            return self.close_native(index, CloseCode::HandshakeTimeout);
        }
        self.answer_fault(index, &Answer::default(), &ErrorCode::RequestTimeout.into());
    }

    pub(crate) fn close_idle(&mut self, index: u32) {
        self.close(index);
    }
}

/// A client behind a proxy is not served. Its request has not been consumed, and nothing more is read.
pub(crate) fn refuse_client(edge: &mut Edge, index: u32, code: ErrorCode) {
    edge.statistics.turned_away.clients_refused += 1;
    edge.answer_fault(index, &Answer::default(), &code.into());
}

/// Records of a page without `limit`.
const HISTORY_LIMIT: u32 = 100;

/// Status and first fields of an answer with an end.
fn begin_answer<'o>(
    out: &'o mut Vec<u8>,
    status: u16,
    answer: &Answer,
    keep_alive: bool,
) -> ResponseWriter<'o> {
    let mut writer = ResponseWriter::new(out, status).keep_alive(keep_alive);
    if keep_alive && answer.expects_close {
        // RFC 9112, appendix C.2.2.
        writer = writer.header("Connection", "keep-alive");
    }
    cross_origin(writer, answer)
}

/// Names the allowed origin.
pub(super) fn cross_origin<'o>(writer: ResponseWriter<'o>, answer: &Answer) -> ResponseWriter<'o> {
    match &answer.origin {
        Some(origin) => writer
            .header("Access-Control-Allow-Origin", origin)
            .header("Vary", "Origin"),
        None => writer,
    }
}

/// Whether the client asks for this media type by name.
fn accepts(request: &Request<'_>, media_type: &str) -> bool {
    request.fields.list("accept").any(|element| {
        let name = element
            .split(|&byte| byte == b';')
            .next()
            .unwrap_or_default();
        name.trim_ascii()
            .eq_ignore_ascii_case(media_type.as_bytes())
    })
}

fn check_topic(topic: &str) -> Result<(), Fault> {
    match TopicName::parse(topic) {
        Ok(_) => Ok(()),
        Err(error) => Err(Fault::topic(ErrorCode::MalformedTopic, error)),
    }
}

fn reject_body(request: &Request<'_>) -> Result<(), Fault> {
    match request.body {
        BodyFraming::None | BodyFraming::Length(0) => Ok(()),
        _ => Err(Fault::new(
            ErrorCode::MalformedRequest,
            "a request of this method has no body here".to_owned(),
        )),
    }
}

/// A page as the body of an answer. `cursor` is where the next page goes on.
pub(super) fn append_page(out: &mut Vec<u8>, topic: &str, page: &HistoryPage) {
    out.extend_from_slice(b"{\"topic\":");
    append_json_string(out, topic);
    json::append(
        out,
        format_args!(",\"epoch\":\"{}\",\"head\":{},", page.epoch, page.head),
    );
    if let Some(gap) = &page.gap {
        out.extend_from_slice(b"\"gap\":");
        json::append_gap(out, gap);
        out.push(b',');
    }
    out.extend_from_slice(b"\"messages\":[");
    let mut last = None;
    for (count, record) in page.records.iter().enumerate() {
        let Some(view) = RecordView::parse(record) else {
            continue;
        };
        if count > 0 {
            out.push(b',');
        }
        out.push(b'{');
        json::append_message(out, page.epoch, &view);
        out.push(b'}');
        last = Some(view.offset());
    }
    // With nothing more to come, everything up to the head is known; going back, the last record is the place. A page of
    // nothing but damage is settled up to there.
    let offset = match (last, &page.gap) {
        (Some(last), _) if page.more || page.reverse => last,
        (None, Some(gap)) if page.more => gap.to,
        _ => page.head,
    };
    let cursor = Position {
        epoch: page.epoch,
        offset,
    };
    json::append(
        out,
        format_args!("],\"more\":{},\"cursor\":\"{cursor}\"}}", page.more),
    );
}

const _: () = assert!(MAX_TAGS_BYTES <= u16::MAX as usize);
