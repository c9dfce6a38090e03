//! The interpreter of scenarios.
//!
//! Place: between a scenario, an adapter and, in wire mode, the sockets. One program plays both
//! sides, so that the acts of the application and of the server have one order.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tungstenite::Message;

use crate::frames;
use crate::matching::{Variables, bytes, hex};
use crate::seen::{Attempt, Seen};
use crate::server::{Arrival, Server};
use crate::{Adapter, Mode};

/// The patience for what must come, in wire mode.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time after the last step in which nothing more may come, in wire mode.
const QUIET: Duration = Duration::from_millis(30);
/// The longest wait of a client before it connects, in core mode.
const CONNECT_MS_MAX: u64 = 4_000_000;

/// The result of a scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Everything came as expected.
    Passed,
    /// The SDK does not have the named feature.
    Skipped(String),
    /// The step (from 0), and the difference.
    Failed(usize, String),
}

/// Plays one scenario; `features` are those of the SDK. `server` makes it wire mode.
pub fn play(
    scenario: &Value,
    features: &[String],
    adapter: &mut dyn Adapter,
    server: Option<&mut Server>,
) -> Outcome {
    let needs = scenario["needs"].as_array().cloned().unwrap_or_default();
    let needs = needs.iter().filter_map(Value::as_str);
    for need in needs {
        if !features.iter().any(|feature| feature == need) {
            return Outcome::Skipped(need.to_owned());
        }
    }
    let steps = scenario["steps"].as_array().cloned().unwrap_or_default();
    let mut player = Player::new(adapter, server);
    let result = player.run(scenario, &steps);
    let stopped = player.adapter.call(json!({"do": "stop"}));
    match (result, stopped) {
        (Err((place, why)), _) => Outcome::Failed(place, why),
        (Ok(()), Err(why)) => Outcome::Failed(steps.len(), why),
        (Ok(()), Ok(_)) => Outcome::Passed,
    }
}

/// C8: what platforms close with that do not send 1002.
const UNSENT_1002: u16 = 3500;

/// One run: the adapter, and everything that has come from it.
pub(crate) struct Player<'a> {
    adapter: &'a mut dyn Adapter,
    mode: Mode,
    server: Option<&'a mut Server>,
    pub(crate) seen: Seen,
    variables: Variables,
    now_ms: u64,
    /// The time at which the core wants to be woken.
    timer_ms: Option<u64>,
    /// The time when the last connection ended.
    ended_ms: u64,
    is_open: bool,
    /// The client has given up its last attempt.
    pub(crate) has_given_up: bool,
    /// A step has answered an attempt.
    has_answered: bool,
    /// In wire mode, the client may have begun its next attempt before the application's last call.
    next_may_be_stale: bool,
    /// The frames in the handshake of the last attempt.
    early: Vec<Value>,
    started: Instant,
}

type Check = Result<(), String>;

impl<'a> Player<'a> {
    fn new(adapter: &'a mut dyn Adapter, server: Option<&'a mut Server>) -> Player<'a> {
        Player {
            adapter,
            mode: if server.is_some() { Mode::Wire } else { Mode::Core },
            server,
            seen: Seen::new(),
            variables: Variables::default(),
            now_ms: 0,
            timer_ms: None,
            ended_ms: 0,
            is_open: false,
            has_given_up: false,
            has_answered: false,
            next_may_be_stale: false,
            early: Vec::new(),
            started: Instant::now(),
        }
    }

    /// A run without sockets.
    pub(crate) fn core(adapter: &'a mut dyn Adapter) -> Player<'a> {
        Player::new(adapter, None)
    }

    /// Whether a connection is open.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    fn run(&mut self, scenario: &Value, steps: &[Value]) -> Result<(), (usize, String)> {
        if let Some(server) = &mut self.server {
            server.begin();
        }
        self.start(scenario).map_err(|why| (0, why))?;
        for (place, step) in steps.iter().enumerate() {
            let done = self.step(step).and_then(|()| match self.seen.violation.take() {
                Some(violation) => Err(violation),
                None => Ok(()),
            });
            done.map_err(|why| (place, format!("{step}: {why}")))?;
        }
        let end = |why| (steps.len(), why);
        if self.mode == Mode::Wire {
            self.pass_real_time(QUIET).map_err(end)?;
        }
        self.nothing_is_left().map_err(end)
    }

    fn start(&mut self, scenario: &Value) -> Check {
        let mut options = scenario["options"].as_object().cloned().unwrap_or_default();
        let names = options.get("urls").cloned().unwrap_or_else(|| json!(["a"]));
        options.insert("urls".into(), self.urls(&names));
        if self.mode == Mode::Wire && !options.contains_key("backoff") {
            options.insert("backoff".into(), json!({"base_ms": 20, "max_ms": 200}));
        }
        let random = scenario.get("random").cloned().unwrap_or_else(|| json!([0.5]));
        self.call(json!({"do": "start", "options": options, "random": random}))
    }

    fn urls(&self, names: &Value) -> Value {
        let names = names.as_array().cloned().unwrap_or_default();
        let names = names.iter().filter_map(Value::as_str);
        Value::Array(names.map(|name| json!(self.url(name))).collect())
    }

    fn url(&self, name: &str) -> String {
        match &self.server {
            Some(server) => server.url(name),
            None => format!("ws://node.test/{name}"),
        }
    }

    /// Carries out a command, and takes its effects.
    pub(crate) fn call(&mut self, command: Value) -> Check {
        self.reply(command).map(|_| ())
    }

    fn reply(&mut self, command: Value) -> Result<Value, String> {
        let reply = self.adapter.call(command)?;
        if self.mode == Mode::Core {
            self.timer_ms = reply["timer"].as_u64();
        }
        for effect in reply["effects"].as_array().into_iter().flatten() {
            if self.seen.take(effect) {
                continue;
            }
            if let Some(url) = effect["connect"].as_str() {
                let url = url.rsplit('/').next().unwrap_or_default().to_owned();
                self.seen.attempts.push_back(Attempt { url, at_ms: self.now_ms });
                self.has_given_up = false;
                self.early = effect["early"].as_array().cloned().unwrap_or_default();
            } else if let Some(sent) = effect["send"].as_str() {
                self.seen.frames.push_back(frames::decode(&bytes(sent)?)?);
            } else if let Some(code) = effect["close"].as_u64() {
                self.closed_by_client(code as u16);
            } else {
                return Err(format!("the adapter has an unknown effect: {effect}"));
            }
        }
        Ok(reply)
    }

    fn closed_by_client(&mut self, code: u16) {
        if std::mem::take(&mut self.is_open) {
            self.ended_ms = self.clock_ms();
            self.seen.closes.push_back(code);
        } else {
            self.has_given_up = true;
        }
    }

    fn clock_ms(&self) -> u64 {
        match self.mode {
            Mode::Core => self.now_ms,
            Mode::Wire => self.started.elapsed().as_millis() as u64,
        }
    }

    /// Takes the arrivals of the sockets and the effects of the application.
    fn pump(&mut self, wait: Duration) -> Check {
        let Some(server) = &mut self.server else { return Ok(()) };
        let arrivals = server.arrivals();
        let at_ms = self.clock_ms();
        for arrival in arrivals {
            match arrival {
                Arrival::Connect(url) => self.seen.attempts.push_back(Attempt { url, at_ms }),
                Arrival::Frame(frame) => self.seen.frames.push_back(frames::decode(&frame)?),
                Arrival::Closed(code) => self.closed_by_client(code),
                Arrival::Broken(why) => return Err(why),
            }
        }
        self.call(json!({"do": "poll", "ms": wait.as_millis() as u64}))
    }

    /// Waits until `is_there`: in core mode it is there or never comes.
    fn wait(&mut self, is_there: impl Fn(&mut Seen) -> bool) -> Check {
        let deadline = Instant::now() + PATIENCE;
        while !is_there(&mut self.seen) {
            if self.mode == Mode::Core || Instant::now() > deadline {
                let other = self.seen.leftover();
                let other = other.map_or_else(String::new, |other| format!(", but {other}"));
                return Err(format!("it did not come{other}"));
            }
            self.pump(Duration::from_millis(3))?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Value) -> Check {
        let step = step.as_object().ok_or("a step is an object")?;
        let (verb, value) =
            STEPS.iter().find_map(|verb| Some((*verb, step.get(*verb)?))).ok_or("unknown step")?;
        match verb {
            "app" => self.app(step),
            "connect" => self.connect(value, step),
            "client" => self.client(value),
            "server" => match value.as_array() {
                Some(frames) => frames.iter().try_for_each(|frame| self.server_frame(frame)),
                None => self.server_frame(value),
            },
            "server_hex" => {
                let bytes = bytes(value.as_str().unwrap_or_default())?;
                self.send(Message::binary(bytes))
            }
            "server_text" => self.send(Message::text(value.as_str().unwrap_or_default())),
            "cut" => self.end(1006, ""),
            "close" => {
                let code = value.as_u64().unwrap_or(1000) as u16;
                self.end(code, step.get("reason").and_then(Value::as_str).unwrap_or_default())
            }
            "client_closes" => {
                self.wait(|seen| !seen.closes.is_empty())?;
                let code = self.seen.closes.pop_front();
                if *value == json!(1002) && code == Some(UNSENT_1002) && self.mode == Mode::Wire {
                    return Ok(());
                }
                self.variables.check(value, &json!(code))
            }
            "item" => self.item(value),
            "answer" => self.answer(value),
            "state" => self.state(value),
            "token" => {
                self.wait(|seen| !seen.tokens.is_empty())?;
                let reason = self.seen.tokens.pop_front();
                self.variables.check(value, &json!(reason))
            }
            "advance" => self.advance(value.as_u64().unwrap_or(0)),
            "nothing" => {
                self.nothing_is_left()?;
                self.advance(value.as_u64().unwrap_or(0))?;
                self.nothing_is_left()
            }
            _ => self.report(value),
        }
    }

    fn app(&mut self, step: &Map<String, Value>) -> Check {
        let mut command = step.clone();
        let verb = command.remove("app").unwrap_or_default();
        command.insert("do".into(), verb);
        if let Some(bytes) = command.remove("bytes") {
            let payload = vec![0x2e; bytes.as_u64().unwrap_or(0) as usize];
            command.insert("payload".into(), json!(hex(&payload)));
        }
        let command = self.variables.fill(&Value::Object(command))?;
        self.next_may_be_stale = self.mode == Mode::Wire && self.has_answered && !self.is_open;
        self.call(command)
    }

    /// Drops the next attempt, where the application has called without a connection. In real time
    /// that attempt may have begun before the call, with its first frames in the handshake. The
    /// attempt after it cannot: a client makes one at a time.
    fn drop_stale_attempt(&mut self) -> Check {
        if !std::mem::take(&mut self.next_may_be_stale) {
            return Ok(());
        }
        self.wait(|seen| !seen.attempts.is_empty())?;
        self.seen.attempts.pop_front();
        self.ended_ms = self.clock_ms();
        self.server.as_mut().map_or(Ok(()), |server| server.ignore(false))
    }

    fn connect(&mut self, url: &Value, step: &Map<String, Value>) -> Check {
        if self.is_open {
            return Err("the last connection is still open".to_owned());
        }
        while self.mode == Mode::Core
            && self.seen.attempts.is_empty()
            && let Some(at_ms) = self.timer_ms.filter(|at| *at <= self.now_ms + CONNECT_MS_MAX)
        {
            self.time(at_ms)?;
        }
        self.drop_stale_attempt()?;
        self.wait(|seen| !seen.attempts.is_empty())?;
        if let Some(frame) = self.seen.frames.front() {
            return Err(format!("on the last connection the client sent {frame}"));
        }
        let Some(attempt) = self.seen.attempts.pop_front() else { return Ok(()) };
        self.variables.check(url, &json!(attempt.url))?;
        let waited_ms = attempt.at_ms.saturating_sub(self.ended_ms);
        if let (Mode::Core, Some(after_ms)) = (self.mode, step.get("after_ms"))
            && *after_ms != json!(waited_ms)
        {
            return Err(format!("the client waited {waited_ms} ms"));
        }
        self.answer_attempt(step.get("then"), step.get("retry_after_s").and_then(Value::as_u64))
    }

    pub(crate) fn answer_attempt(
        &mut self,
        then: Option<&Value>,
        retry_after_s: Option<u64>,
    ) -> Check {
        let status = then.and_then(Value::as_u64);
        let then = then.and_then(Value::as_str).unwrap_or("accept");
        let accepts = status.is_none() && then == "accept";
        if !accepts {
            self.ended_ms = self.clock_ms();
        }
        self.is_open = accepts;
        self.has_answered = true;
        let early = std::mem::take(&mut self.early);
        for frame in early.iter().filter(|_| accepts).filter_map(Value::as_str) {
            self.seen.frames.push_back(frames::decode(&bytes(frame)?)?);
        }
        let Some(server) = &mut self.server else {
            return match (status, then) {
                (Some(status), _) => self.call(
                    json!({"do": "failed", "status": status, "retry_after_s": retry_after_s}),
                ),
                (None, "hang") => Ok(()),
                (None, "fail") => self.call(json!({"do": "failed"})),
                _ => self.call(json!({"do": "opened"})),
            };
        };
        match (status, then) {
            (Some(status), _) => server.refuse(status, retry_after_s),
            (None, "hang") => server.ignore(true),
            (None, "fail") => server.ignore(false),
            _ => server.accept(),
        }
    }

    fn client(&mut self, expected: &Value) -> Check {
        self.wait(|seen| !seen.frames.is_empty())?;
        let frame = self.seen.frames.pop_front().unwrap_or_default();
        let checked = self.variables.check(expected, &frame);
        checked.map_err(|why| format!("{why}; the client sent {frame}"))
    }

    pub(crate) fn server_frame(&mut self, frame: &Value) -> Check {
        let mut frame = self.variables.fill(frame)?;
        if let Some(names) = frame.get("urls").cloned() {
            frame["urls"] = self.urls(&names);
        }
        let bytes = frames::encode(&frame)?;
        self.send(Message::binary(bytes))
    }

    fn send(&mut self, message: Message) -> Check {
        if let Some(server) = &mut self.server {
            return server.send(message);
        }
        if !self.is_open {
            return Err("there is no connection".to_owned());
        }
        self.call(match message {
            Message::Text(text) => json!({"do": "received", "text": text.as_str()}),
            message => json!({"do": "received", "hex": hex(&message.into_data())}),
        })
    }

    /// Ends the connection from the server's side.
    pub(crate) fn end(&mut self, code: u16, reason: &str) -> Check {
        self.is_open = false;
        self.ended_ms = self.clock_ms();
        match &mut self.server {
            Some(server) if code == 1006 => server.cut(),
            Some(server) => server.close(code, reason),
            None => self.call(json!({"do": "closed", "code": code, "reason": reason})),
        }
    }

    fn item(&mut self, expected: &Value) -> Check {
        let label = expected["of"].as_str().unwrap_or_default().to_owned();
        let kind = expected["kind"].as_str().unwrap_or_default().to_owned();
        self.wait(|seen| seen.item(&label, &kind).is_some())?;
        let items = self.seen.items.entry(label).or_default();
        let item = items.pop_front().unwrap_or_default();
        let checked = self.variables.check(&without(expected, "of"), &item);
        checked.map_err(|why| format!("{why}; the item is {item}"))
    }

    fn answer(&mut self, expected: &Value) -> Check {
        let label = expected["of"].as_str().unwrap_or_default().to_owned();
        self.wait(|seen| seen.answers.contains_key(&label))?;
        let answer = self.seen.answers.remove(&label).unwrap_or_default();
        let checked = self.variables.check(&without(expected, "of"), &answer);
        checked.map_err(|why| format!("{why}; the answer is {answer}"))
    }

    fn state(&mut self, expected: &Value) -> Check {
        let mut fields = without(expected, "is");
        fields["state"] = expected["is"].clone();
        let deadline = Instant::now() + PATIENCE;
        loop {
            // In real time the next state may have come before this step.
            while self.mode == Mode::Core && self.seen.states.len() > 1 {
                self.seen.states.pop_front();
            }
            let states = &self.seen.states;
            let checks = states.iter().map(|state| self.variables.check(&fields, state));
            let checks: Vec<Check> = checks.collect();
            if let Some(found) = checks.iter().position(Result::is_ok) {
                self.seen.states.drain(..found);
                return Ok(());
            }
            if self.mode == Mode::Core || Instant::now() > deadline {
                return checks.last().cloned().unwrap_or(Ok(()));
            }
            self.pump(Duration::from_millis(3))?;
        }
    }

    fn report(&mut self, expected: &Value) -> Check {
        let reply = self.reply(json!({"do": "report", "as": expected["of"]}))?;
        self.variables.check(&without(expected, "of"), &reply["report"])
    }

    pub(crate) fn advance(&mut self, ms: u64) -> Check {
        if self.mode == Mode::Wire {
            return self.pass_real_time(Duration::from_millis(ms));
        }
        let until_ms = self.now_ms + ms;
        while let Some(at_ms) = self.timer_ms.filter(|at| *at <= until_ms) {
            self.time(at_ms)?;
        }
        self.time(until_ms)
    }

    /// Moves the core's clock. A core that wants to be woken in the past would spin.
    fn time(&mut self, now_ms: u64) -> Check {
        let before_ms = self.now_ms;
        self.now_ms = self.now_ms.max(now_ms);
        self.call(json!({"do": "time", "now_ms": self.now_ms}))?;
        match self.timer_ms {
            Some(timer_ms) if timer_ms <= before_ms && now_ms <= before_ms => {
                Err(format!("the core wants to be woken at {timer_ms}, which is over"))
            }
            _ => Ok(()),
        }
    }

    fn pass_real_time(&mut self, time: Duration) -> Check {
        let until = Instant::now() + time;
        while Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            self.pump(left.min(Duration::from_millis(3)))?;
        }
        self.pump(Duration::ZERO)
    }

    fn nothing_is_left(&mut self) -> Check {
        match self.seen.leftover() {
            Some(what) => Err(format!("no step expects this: {what}")),
            None => Ok(()),
        }
    }
}

/// The keys of steps.
pub(crate) const STEPS: [&str; 16] = [
    "app",
    "connect",
    "client",
    "server",
    "server_hex",
    "server_text",
    "cut",
    "close",
    "client_closes",
    "item",
    "answer",
    "state",
    "token",
    "advance",
    "nothing",
    "report",
];

fn without(value: &Value, key: &str) -> Value {
    let mut value = value.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.remove(key);
    }
    value
}
