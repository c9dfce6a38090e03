//! HTTP/1.1 connections: heads, bodies, routing, answers, cross-origin rules. One request at a
//! time: the next head is not examined before the answer to this one has been queued (pipelining
//! keeps its order that way).

use crate::edge::{Deadline, Edge, NONE, Pressure, Progress, Protocol, flag, make_room};
use crate::entitlement::Action;
use crate::ids::ConnIndex;
use crate::journal::start_of;
use crate::session::State;
use crate::session::credential::Entry;
use crate::session::http::answer::Answer;
use crate::session::http::body::Body;
use crate::session::http::fault::Fault;
use crate::session::http::origin::{Origin, is_misdirected, origin_of};
use crate::session::http::parameters;
use crate::session::http::publish::Intent;
use crate::session::http::route::{self, Route};
use crate::session::http::{check_topic, code_of_head, reject_body};
use wire::codec::Step;
use wire::http::event_stream::EVENT_STREAM_MEDIA_TYPE;
use wire::http::request::Request;
use wire::http::response::CONTINUE;
use wire::http::{BodyDecoder, BodyFraming, BodyPart, HeadLimits, HeadScan, Target};
use wire::mqtt;
use wire::native::{self, CloseCode, ErrorCode};
use wire::websocket::handshake::Upgrade;

impl Edge {
    /// A head, or a part of a body, from the front of `input`.
    pub(crate) fn http_input(
        &mut self,
        index: ConnIndex,
        input: &mut [u8],
        scan: &mut HeadScan,
    ) -> Progress {
        let is_decided = self.connections.slots[index].state != NONE && self.is_decided(index);
        if self.connections.slots[index].state != NONE && !is_decided {
            return self.http_body(index, input);
        }
        // A head whose decision has come was examined before.
        if !is_decided && self.pause_for_room(index) {
            return Progress::Stop;
        }
        let limits = HeadLimits {
            head_bytes_max: self.settings.limits.head_bytes_max.min(u32::from(u16::MAX)) as u16,
            ..HeadLimits::default()
        };
        let step = Request::decode(input, scan, &limits);
        let (request, consumed) = match step {
            // The length of the head is unknown.
            Ok(Step::More { .. }) => {
                return Progress::Needs(usize::from(limits.head_bytes_max));
            }
            Ok(Step::Done { value, consumed }) => (value, consumed),
            Err(error) => {
                self.statistics.protocol_errors += 1;
                let code = code_of_head(error.status());
                self.answer_fault(index, &Answer::default(), &Fault::new(code, error.to_string()));
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
        let is_first = self.connections.slots[index].is(flag::STARTING);
        self.connections.slots[index].clear(flag::STARTING);
        self.statistics.http_requests += 1;
        let has_body = !matches!(request.body, BodyFraming::None | BodyFraming::Length(0));
        let mut early = Vec::new();
        let keep_alive = request.keep_alive() && !self.is_draining();
        let mut answer = Answer::to(&request, keep_alive);
        if let Err(fault) = self.http_request(index, &request, refused, &mut answer, &mut early) {
            // The following bytes would be the body that was refused.
            answer.keep_alive &= !has_body;
            self.answer_fault(index, &answer, &fault);
        }
        // Of a native session HELLO is still to come.
        if is_first && !self.connections.slots[index].facts().awaits_hello {
            self.count_handshake(index);
        }
        if early.is_empty() {
            Progress::Consumed(consumed)
        } else {
            Progress::Brought(consumed, early)
        }
    }

    fn http_request(
        &mut self,
        index: ConnIndex,
        request: &Request<'_>,
        refused: Option<Fault>,
        answer: &mut Answer,
        early: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        self.take_request(index)?;
        if is_misdirected(request, &self.settings) {
            return Err(ErrorCode::Misdirected.into());
        }
        let is_encrypted = self.connections.slots[index].is(flag::ENCRYPTED);
        let origin = origin_of(request, &self.settings.allowed_origins, is_encrypted);
        if let Origin::Allowed(origin) = origin {
            answer.origin = Some(origin.into());
        }
        let target = Target::parse(request.target).map_err(route::bad_target)?;
        let route = Route::of(&target)?;
        if let Origin::Refused(origin) = origin {
            return Err(self.refuse_origin(index, origin));
        }
        if request.method == "OPTIONS" {
            reject_body(request)?;
            let out = answer.preflight(request, route.methods());
            self.finish_with(index, answer, 204, answer.keep_alive, out);
            return Ok(());
        }
        if let Some(fault) = refused {
            return Err(fault);
        }
        let is_lasting = matches!(route, Route::Native | Route::Mqtt | Route::Echo | Route::Events)
            || request.method == "GET" && route::accepts(request, EVENT_STREAM_MEDIA_TYPE);
        // A client admitted now would miss the notice to leave.
        if self.is_draining() && is_lasting {
            return Err(ErrorCode::ShuttingDown.into());
        }
        if is_lasting {
            self.refuse_from(Pressure::Newcomers)?;
        }
        self.serve_request(index, request, &target, route, answer, early)
    }

    fn serve_request(
        &mut self,
        index: ConnIndex,
        request: &Request<'_>,
        target: &Target<'_>,
        route: Route,
        answer: &mut Answer,
        early: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        match (route, request.method) {
            (Route::Greeting, "GET") => {
                parameters::check(target, &[])?;
                reject_body(request)?;
                self.finish_with(index, answer, 200, answer.keep_alive, answer.greeting());
                Ok(())
            }
            (Route::Native, _) => {
                parameters::check(target, &[])?;
                *early = self.upgrade(index, request, Protocol::NativeStart, answer);
                Ok(())
            }
            (Route::Mqtt, _) if !self.settings.mqtt.is_on => Err(ErrorCode::NotFound.into()),
            (Route::Mqtt, _) => {
                parameters::check(target, &[])?;
                self.upgrade(index, request, Protocol::MqttWebSocketStart, answer);
                Ok(())
            }
            (Route::Echo, _) => {
                parameters::check(target, &[])?;
                self.require_credential(index)?;
                self.upgrade(index, request, Protocol::Echo, answer);
                Ok(())
            }
            (Route::Topic(topic), "POST") => {
                parameters::check(target, &[parameters::OF_PUBLICATION])?;
                check_topic(&topic)?;
                self.permit_body(index, &topic)?;
                let intent = Intent::one(topic, request, target)?;
                self.begin_body(index, request, intent, answer)
            }
            (Route::Topic(topic), "GET") => self.read_topic(index, request, target, topic, answer),
            (Route::Retained(topic), "GET") => {
                reject_body(request)?;
                parameters::check(target, &[])?;
                check_topic(&topic)?;
                self.begin_retained(index, topic, answer)
            }
            (Route::Publish, "POST") => {
                self.permit_some_body(index)?;
                parameters::check(target, &[])?;
                let intent = Intent::envelope(request)?;
                self.begin_body(index, request, intent, answer)
            }
            (Route::Events, "GET") => {
                reject_body(request)?;
                let known =
                    [parameters::OF_EVENTS, parameters::OF_STREAM, parameters::LAST_EVENT_ID];
                parameters::check(target, &known)?;
                self.begin_stream(index, request, target, answer)
            }
            #[cfg(feature = "line-protocol")]
            (Route::Line, "GET") => {
                self.begin_line(index);
                Ok(())
            }
            (route, _) => Err(Fault::method(route.methods())),
        }
    }

    /// Begins an event stream of a topic, or answers with a page of its history.
    fn read_topic(
        &mut self,
        index: ConnIndex,
        request: &Request<'_>,
        target: &Target<'_>,
        topic: String,
        answer: &Answer,
    ) -> Result<(), Fault> {
        reject_body(request)?;
        let is_stream = route::accepts(request, EVENT_STREAM_MEDIA_TYPE);
        let known: &[&[&str]] = if is_stream {
            &[parameters::OF_STREAM, parameters::LAST_EVENT_ID]
        } else {
            &[parameters::OF_TOPIC]
        };
        parameters::check(target, known)?;
        check_topic(&topic)?;
        if is_stream {
            self.permit_request(index, Action::Subscribe, &topic)?;
            self.begin_raw_stream(index, request, target, topic, answer)
        } else {
            self.begin_history(index, target, topic, answer)
        }
    }

    /// Answers the handshake, and returns the frames that came with it.
    fn upgrade(
        &mut self,
        index: ConnIndex,
        request: &Request<'_>,
        protocol: Protocol,
        answer: &Answer,
    ) -> Vec<u8> {
        let is_mqtt = protocol.facts().is_mqtt;
        let subprotocols = subprotocols_of(protocol);
        let checked = Upgrade::check(request).and_then(|upgrade| {
            let chosen = match subprotocols {
                [] => None,
                supported => Some(upgrade.choose_subprotocol(supported)?),
            };
            let protocol = match chosen {
                Some(native::SUBPROTOCOL_JSON) => Protocol::JsonStart,
                _ => protocol,
            };
            let deflate = match self.settings.compression {
                _ if is_mqtt => None,
                Some(_) => upgrade.choose_deflate()?,
                None => None,
            };
            let early = if protocol.facts().awaits_hello && !is_mqtt {
                let kind = protocol.facts().form.opcode();
                upgrade.early_messages(native::EARLY_FRAME_PREFIX, kind)?
            } else {
                Vec::new()
            };
            Ok((upgrade, protocol, chosen, deflate, early))
        });
        match checked {
            Ok((upgrade, protocol, chosen, deflate, early)) => {
                let mut head = std::mem::take(&mut self.work.scratch);
                head.clear();
                upgrade.encode_response_with(&mut head, chosen, deflate);
                self.send_private(index, &head);
                self.record_answer(index, 101, head.len());
                self.work.scratch = head;
                let ping_interval_s = self.settings.limits.ping_interval_s;
                let slot = &mut self.connections.slots[index];
                slot.protocol = protocol;
                slot.set_window_bits(deflate.map_or(0, |deflate| deflate.server_window_bits));
                self.set_ping_interval(index, ping_interval_s);
                if protocol.facts().awaits_hello {
                    self.expect(Deadline::Hello(self.connections.slots.key(index)));
                } else {
                    self.statistics.echo_sessions += 1;
                    self.session_began(index);
                }
                early
            }
            Err(refusal) => {
                self.statistics.http_errors += 1;
                self.count_code(refusal.code());
                let mut head = Vec::new();
                refusal.encode(&mut head);
                self.record_answer(index, refusal.status(), head.len());
                // The answer has `Connection: close`.
                self.send_answer(index, answer, head);
                self.finish_answer(index, false);
                Vec::new()
            }
        }
    }

    fn begin_body(
        &mut self,
        index: ConnIndex,
        request: &Request<'_>,
        intent: Intent,
        answer: &Answer,
    ) -> Result<(), Fault> {
        self.refuse_from(Pressure::Publications)?;
        // Room for the envelope and its escapes around the largest message.
        let limit = match intent {
            Intent::Envelope(_) => self.settings.limits.frame_bytes_max.max(64 << 10),
            Intent::One { .. } => self.settings.limits.message_bytes_max,
        };
        let limit = self.input_bytes_max(index, limit);
        let decoder = BodyDecoder::new(request.body, limit.into())
            .map_err(|error| Fault::new(ErrorCode::MessageTooLarge, error.to_string()))?;
        let bytes_max = match request.body {
            BodyFraming::Length(bytes) => bytes as usize,
            BodyFraming::None | BodyFraming::Chunked | BodyFraming::UntilClose => limit as usize,
        };
        if request.expect_continue && !decoder.is_end() {
            self.send_private(index, CONTINUE);
        }
        let body = Body { decoder, bytes: Vec::new(), bytes_max, intent, answer: answer.clone() };
        if body.decoder.is_end() {
            self.body_complete(index, body);
        } else {
            self.set_state(index, State::Body(Box::new(body)));
        }
        Ok(())
    }

    fn http_body(&mut self, index: ConnIndex, input: &[u8]) -> Progress {
        let Some(State::Body(body)) = self.state(index) else {
            return Progress::Stop;
        };
        match body.decoder.decode(input) {
            Ok(Step::More { needed }) => Progress::Needs(needed),
            Ok(Step::Done { value: BodyPart::Data(data), consumed }) => {
                make_room(&mut body.bytes, data.len(), body.bytes_max);
                body.bytes.extend_from_slice(data);
                if body.decoder.is_end()
                    && let Some(State::Body(body)) = self.take_state(index)
                {
                    self.body_complete(index, *body);
                }
                Progress::Consumed(consumed)
            }
            Ok(Step::Done { value: BodyPart::End, consumed }) => {
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
                    Some(State::Body(body)) => Answer { keep_alive: false, ..body.answer },
                    _ => Answer::default(),
                };
                self.answer_fault(index, &answer, &Fault::new(code, error.to_string()));
                Progress::Stop
            }
        }
    }

    fn body_complete(&mut self, index: ConnIndex, body: Body) {
        let Body { bytes, intent, answer, .. } = body;
        if let Err(fault) = self.publish_body(index, intent, bytes, &answer) {
            self.answer_fault(index, &answer, &fault);
        }
    }

    /// The page's author sees no more in a browser than that something was refused: the log has a
    /// line, too.
    fn refuse_origin(&mut self, index: ConnIndex, origin: Option<&str>) -> Fault {
        let origin = origin.map(|origin| start_of(origin, ORIGIN_BYTES_MAX));
        self.record_origin(index, origin.unwrap_or_default());
        let detail = match origin {
            Some(origin) => format!(
                "requests of pages from {origin} are not permitted: `http.allowed_origins` does not name this origin"
            ),
            None => "a request has one `Origin` at most".to_owned(),
        };
        Fault::new(ErrorCode::OriginForbidden, detail)
    }

    /// Queues a JSON answer; the connection stays open.
    pub(crate) fn answer_json(
        &mut self,
        index: ConnIndex,
        answer: &Answer,
        status: u16,
        body: &[u8],
    ) {
        let keep_alive = answer.keep_alive && !self.is_draining();
        if status >= 400 {
            self.statistics.http_errors += 1;
        }
        self.finish_with(index, answer, status, keep_alive, answer.json(status, keep_alive, body));
    }

    /// Queues a complete answer; the connection stays open.
    pub(crate) fn finish_with(
        &mut self,
        index: ConnIndex,
        answer: &Answer,
        status: u16,
        keep_alive: bool,
        out: Vec<u8>,
    ) {
        self.record_answer(index, status, out.len());
        self.send_answer(index, answer, out);
        self.finish_answer(index, keep_alive);
    }

    /// Queues a problem (RFC 9457), and closes the connection if the request was malformed.
    pub(crate) fn answer_fault(&mut self, index: ConnIndex, answer: &Answer, fault: &Fault) {
        self.statistics.http_errors += 1;
        let status = fault.code.http_status();
        let keep_alive =
            self.take_error(index, fault.code) && answer.keep_alive && !self.is_draining();
        let out = answer.problem(fault, keep_alive, self.settings.entitlement.is_some());
        self.finish_with(index, answer, status, keep_alive, out);
    }

    /// Queues the bytes of an answer.
    pub(crate) fn send_answer(&mut self, index: ConnIndex, answer: &Answer, mut out: Vec<u8>) {
        answer.cut(&mut out);
        self.send_private(index, &out);
    }

    /// A client behind a proxy is not served. Its request has not been consumed, and nothing more
    /// is read.
    pub(crate) fn refuse_client(&mut self, index: ConnIndex, code: ErrorCode) {
        self.statistics.turned_away.clients_refused += 1;
        self.answer_fault(index, &Answer::default(), &code.into());
    }

    pub(crate) fn finish_answer(&mut self, index: ConnIndex, keep_alive: bool) {
        self.stamp(index);
        if keep_alive { self.resume(index) } else { self.close(index) }
    }

    /// A request, or HELLO behind it, did not come in time.
    pub(crate) fn handshake_timed_out(&mut self, index: ConnIndex) {
        if self.connections.slots[index].facts().is_mqtt {
            return self.close_idle(index);
        }
        if self.connections.slots[index].facts().awaits_hello {
            return self.close_native(index, CloseCode::HandshakeTimeout);
        }
        self.answer_fault(index, &Answer::default(), &ErrorCode::RequestTimeout.into());
    }

    pub(crate) fn close_idle(&mut self, index: ConnIndex) {
        self.close(index);
    }
}

/// The subprotocols that a WebSocket of this protocol may have; none is needed without any.
fn subprotocols_of(protocol: Protocol) -> &'static [&'static str] {
    let facts = protocol.facts();
    match (facts.is_mqtt, facts.awaits_hello) {
        (true, _) => &[mqtt::SUBPROTOCOL, mqtt::SUBPROTOCOL_V3_1],
        (false, true) => &[native::SUBPROTOCOL, native::SUBPROTOCOL_JSON],
        (false, false) => &[],
    }
}

/// Bytes of a refused origin that its client and the log are given.
const ORIGIN_BYTES_MAX: usize = 256;
