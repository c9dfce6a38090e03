//! The adapter without sockets: the whole client in virtual time, turn by turn.

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::Duration;

use client::stage::{Command, Ground, Parts, Reply, Shared, Shell, queue};
use client::url::Endpoint;
use client::{Event, HistoryPage, Published, Reason, RequestError, SubscriptionId};
use net::{Conn, Event as NetEvent, Read, Write};
use script::Adapter;
use serde_json::{Value, json};
use wire::Step;
use wire::http::{HeadLimits, HeadScan, Request};
use wire::native::EARLY_FRAME_PREFIX;
use wire::websocket::close::ClosePayload;
use wire::websocket::handshake::Upgrade;
use wire::websocket::{Assembler, CloseCode, Event as WebSocketEvent, Opcode, Role, frame};

use super::{Labels, failure, page, published, string};

/// More turns than a command can need: a client beyond it spins.
const TURNS_MAX: usize = 1_000;
const QUEUE_MAX: usize = 10_000;

/// A network of one connection, and a clock that only the player moves.
#[derive(Default)]
struct World {
    now_ms: u64,
    /// The timeout of the last poll.
    timeout: Option<Duration>,
    random: Vec<f64>,
    events: Vec<NetEvent>,
    last_index: u32,
    peer: Option<Peer>,
    effects: Vec<Value>,
    /// Counts calls that changed something.
    activity: u64,
}

/// The server's end.
struct Peer {
    conn: Conn,
    /// Bytes for the client.
    input: Vec<u8>,
    has_ended: bool,
    /// The client's bytes that are no whole message yet.
    output: Vec<u8>,
    assembler: Assembler,
    is_upgraded: bool,
    /// The answer to the handshake; without one, 101.
    refusal: Option<String>,
    is_closed: bool,
}

#[derive(Clone, Default)]
struct VirtualGround(Rc<RefCell<World>>);

impl Ground for VirtualGround {
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<NetEvent>) -> io::Result<()> {
        let mut world = self.0.borrow_mut();
        world.timeout = timeout;
        world.activity += world.events.len() as u64;
        events.append(&mut world.events);
        Ok(())
    }

    fn read(&mut self, _: Conn, buffer: &mut [u8]) -> Read {
        let mut world = self.0.borrow_mut();
        let Some(peer) = &mut world.peer else { return Read::Failed(ErrorKind::NotConnected) };
        let bytes = peer.input.len().min(buffer.len());
        if bytes == 0 {
            return if peer.has_ended { Read::Ended } else { Read::Blocked };
        }
        buffer[..bytes].copy_from_slice(&peer.input[..bytes]);
        peer.input.drain(..bytes);
        world.activity += 1;
        Read::Data(bytes)
    }

    fn write(&mut self, _: Conn, bytes: &[u8]) -> Write {
        let mut world = self.0.borrow_mut();
        world.activity += 1;
        let Some(peer) = &mut world.peer else { return Write::Failed(ErrorKind::NotConnected) };
        peer.output.extend_from_slice(bytes);
        let effects = peer.take_output();
        let conn = peer.conn;
        if !peer.input.is_empty() {
            world.events.push(NetEvent::Readable(conn));
        }
        world.effects.extend(effects);
        Write::Wrote(bytes.len())
    }

    fn close(&mut self, conn: Conn) {
        let mut world = self.0.borrow_mut();
        if let Some(peer) = world.peer.take_if(|peer| peer.conn == conn)
            && !peer.is_closed
        {
            world.effects.push(json!({"close": 1006}));
        }
    }

    fn open(&mut self, endpoint: &Endpoint, _: u32) -> Result<Conn, Reason> {
        let mut world = self.0.borrow_mut();
        world.activity += 1;
        world.last_index += 1;
        let conn = Conn { index: world.last_index, generation: 0 };
        world.peer = Some(Peer {
            conn,
            input: Vec::new(),
            has_ended: false,
            output: Vec::new(),
            assembler: Assembler::new(),
            is_upgraded: false,
            refusal: None,
            is_closed: false,
        });
        world.effects.push(json!({"state": "connecting"}));
        world.effects.push(json!({"connect": endpoint.to_string()}));
        Ok(conn)
    }

    fn take_failure(&mut self, _: Conn) -> Option<String> {
        None
    }

    fn now_ms(&self) -> u64 {
        self.0.borrow().now_ms
    }

    fn random(&mut self, max: u64) -> u64 {
        if max == u64::MAX {
            return 7; // the seed of masks and ids
        }
        let mut world = self.0.borrow_mut();
        let fraction = world.random[0];
        if world.random.len() > 1 {
            world.random.remove(0);
        }
        ((max as f64) * fraction) as u64
    }
}

impl Peer {
    /// The client's whole messages.
    fn take_output(&mut self) -> Vec<Value> {
        if !self.is_upgraded {
            let mut scan = HeadScan::new();
            let step = Request::decode(&self.output, &mut scan, &HeadLimits::default());
            let Step::Done { value: request, consumed } = step.unwrap() else {
                return Vec::new();
            };
            let upgrade = Upgrade::check(&request).unwrap();
            let chosen = upgrade.choose_subprotocol(&["crore.v1"]).unwrap();
            let mut early = upgrade.early_messages(EARLY_FRAME_PREFIX, Opcode::Binary).unwrap();
            match &self.refusal {
                Some(refusal) => {
                    early.clear();
                    self.input.extend_from_slice(refusal.as_bytes());
                }
                None => upgrade.encode_response(&mut self.input, Some(chosen)),
            }
            self.output.splice(..consumed, early);
            self.is_upgraded = true;
        }
        let mut effects = Vec::new();
        let mut assembly = Vec::new();
        while !self.output.is_empty() {
            let step = self
                .assembler
                .decode(&mut self.output, Role::Server, 1 << 24, &mut assembly)
                .expect("the client's frames are good");
            let Step::Done { value, consumed } = step else { break };
            match value {
                WebSocketEvent::Binary(payload) => {
                    let hex: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
                    effects.push(json!({"send": hex}));
                }
                WebSocketEvent::Close(close) => {
                    self.is_closed = true;
                    effects.push(json!({"close": close.code.map_or(1005, |code| code.0)}));
                }
                other => panic!("the client sent {other:?}"),
            }
            self.output.drain(..consumed);
        }
        effects
    }
}

enum Waiting {
    Subscribe(Receiver<Result<SubscriptionId, RequestError>>),
    Publish(Receiver<Result<Published, RequestError>>),
    History(Receiver<Result<HistoryPage, RequestError>>),
}

/// The client on the stage.
struct Actor {
    shell: Option<Shell<VirtualGround>>,
    commands: queue::Sender<Command>,
    events: queue::Receiver<Event>,
    shared: Arc<Shared>,
}

/// The adapter.
#[derive(Default)]
pub struct Core {
    ground: VirtualGround,
    actor: Option<Actor>,
    labels: Labels,
    waiting: Vec<(String, Waiting)>,
    effects: Vec<Value>,
}

impl Adapter for Core {
    fn call(&mut self, command: Value) -> Result<Value, String> {
        let label = string(&command["as"]).unwrap_or_default();
        let mut report = Value::Null;
        match command["do"].as_str().unwrap_or_default() {
            "start" => self.start(&command),
            "stop" => self.actor = None,
            "report" => report = self.report(&label),
            "opened" | "failed" | "received" | "closed" => self.peer(&command)?,
            "time" => {
                let mut world = self.ground.0.borrow_mut();
                world.now_ms = command["now_ms"].as_u64().unwrap_or(world.now_ms);
            }
            "close" => {
                if let Some(actor) = &self.actor {
                    actor.shared.closing.store(true, Ordering::Release);
                }
            }
            _ => self.command(&label, &command),
        }
        self.run()?;
        let world = self.ground.0.borrow();
        let timer = world.timeout.map(|timeout| {
            // The shell rounds up, because real waits may end early.
            world.now_ms + (timeout.as_millis() as u64).saturating_sub(1)
        });
        let effects = std::mem::take(&mut self.effects);
        Ok(json!({"effects": effects, "timer": timer, "report": report}))
    }
}

impl Core {
    fn start(&mut self, command: &Value) {
        let options = super::options(command, &self.labels);
        let random = command["random"].as_array().unwrap();
        self.ground.0.borrow_mut().random = random.iter().filter_map(Value::as_f64).collect();
        let (commands, command_receiver) = queue::bounded(QUEUE_MAX);
        let (event_sender, events) = queue::bounded(QUEUE_MAX);
        let shared = Arc::new(Shared::default());
        let parts = Parts {
            endpoints: options.urls.iter().map(|url| Endpoint::parse(url).unwrap()).collect(),
            options,
            shared: shared.clone(),
            commands: command_receiver,
            events: event_sender,
        };
        let shell = Some(Shell::new(parts, self.ground.clone()));
        self.actor = Some(Actor { shell, commands, events, shared });
    }

    /// Passes a command of the application; the shell drops it if it has ended.
    fn command(&mut self, label: &str, command: &Value) {
        let topic = string(&command["topic"]).unwrap_or_default();
        let (command, waiting) = match command["do"].as_str().unwrap_or_default() {
            "subscribe" => {
                let (reply, receiver) = reply();
                let start = super::start(&command["start"]);
                let options = super::subscribe_options(command);
                let subscribe = Command::Subscribe { filter: topic, start, options, reply };
                (subscribe, Some(Waiting::Subscribe(receiver)))
            }
            "unsubscribe" => (Command::Unsubscribe(self.labels.ids[label]), None),
            "publish" => {
                let (reply, receiver) = reply();
                let payload = super::bytes(command["payload"].as_str().unwrap_or_default());
                let options = super::publish_options(command);
                let publish = Command::Publish { topic, payload, options, reply: Some(reply) };
                (publish, Some(Waiting::Publish(receiver)))
            }
            "history" => {
                let (reply, receiver) = reply();
                let options = super::history_options(command);
                let history = Command::History { topic, options, reply };
                (history, Some(Waiting::History(receiver)))
            }
            "renew" => (Command::Renew(string(&command["token"]).unwrap_or_default()), None),
            _ => return,
        };
        self.waiting.extend(waiting.map(|waiting| (label.to_owned(), waiting)));
        if let Some(actor) = &self.actor {
            let _ = actor.commands.try_send(command);
        }
    }

    fn report(&mut self, label: &str) -> Value {
        let (reply, receiver) = reply();
        let Some(subscription) = self.labels.ids.get(label).copied() else { return Value::Null };
        if let Some(actor) = &mut self.actor {
            let _ = actor.commands.try_send(Command::Report { subscription, reply });
            if let Some(shell) = &mut actor.shell {
                shell.turn();
            }
        }
        super::report(receiver.try_recv().ok().and_then(Result::ok).flatten())
    }

    /// Carries out an act of the server's end.
    fn peer(&mut self, command: &Value) -> Result<(), String> {
        let mut world = self.ground.0.borrow_mut();
        let Some(peer) = &mut world.peer else { return Err("no connection".to_owned()) };
        let conn = peer.conn;
        let event = match command["do"].as_str().unwrap_or_default() {
            "opened" => NetEvent::Connected(conn),
            "failed" => match command["status"].as_u64() {
                Some(status) => {
                    let retry = command["retry_after_s"].as_u64();
                    let retry = retry.map(|s| format!("Retry-After: {s}\r\n")).unwrap_or_default();
                    peer.refusal =
                        Some(format!("HTTP/1.1 {status} x\r\n{retry}Content-Length: 0\r\n\r\n"));
                    peer.is_closed = true;
                    NetEvent::Connected(conn)
                }
                None => {
                    world.peer = None;
                    NetEvent::Closed { conn, reason: ErrorKind::ConnectionRefused }
                }
            },
            "received" => {
                let (opcode, payload) = match command["text"].as_str() {
                    Some(text) => (Opcode::Text, text.as_bytes().to_vec()),
                    None => (Opcode::Binary, super::bytes(command["hex"].as_str().unwrap())),
                };
                frame::encode(&mut peer.input, true, opcode, &payload, None);
                NetEvent::Readable(conn)
            }
            _ if command["code"] == 1006 => {
                world.peer = None;
                NetEvent::Closed { conn, reason: ErrorKind::ConnectionReset }
            }
            _ => {
                let code = CloseCode(command["code"].as_u64().unwrap() as u16);
                let close = ClosePayload::new(code, command["reason"].as_str().unwrap_or(""));
                let payload = close.as_bytes();
                frame::encode(&mut peer.input, true, Opcode::Close, payload, None);
                (peer.has_ended, peer.is_closed) = (true, true);
                NetEvent::Readable(conn)
            }
        };
        world.events.push(event);
        Ok(())
    }

    /// Turns the client's loop until nothing moves.
    fn run(&mut self) -> Result<(), String> {
        for _ in 0..TURNS_MAX {
            let before = self.ground.0.borrow().activity;
            let Some(actor) = &mut self.actor else { return Ok(()) };
            let Some(shell) = &mut actor.shell else {
                self.take_effects();
                return Ok(());
            };
            let goes_on = shell.turn();
            if !goes_on {
                shell.say_goodbye();
                actor.shell = None;
                self.ground.0.borrow_mut().timeout = None;
                // The queue of commands ends with the shell, and so do its calls.
                let (commands, _) = queue::bounded(1);
                actor.commands = commands;
            }
            let is_closing = actor.shared.closing.load(Ordering::Acquire);
            let shown = self.take_effects();
            if !goes_on && is_closing {
                self.effects.push(json!({"state": "closed", "reason": "requested"}));
            }
            let world = self.ground.0.borrow();
            if !shown && world.events.is_empty() && before == world.activity {
                return Ok(());
            }
        }
        Err("the client spins".to_owned())
    }

    /// Takes everything that the client has sent and shown; whether there was anything.
    fn take_effects(&mut self) -> bool {
        let before = self.effects.len();
        self.effects.append(&mut self.ground.0.borrow_mut().effects);
        let (labels, effects) = (&mut self.labels, &mut self.effects);
        self.waiting.retain(|(label, waiting)| match waiting {
            Waiting::Subscribe(receiver) => settle(receiver, |result| match result {
                Ok(id) => {
                    labels.ids.insert(label.clone(), id);
                }
                Err(error) => effects.push(failure(label, &error)),
            }),
            Waiting::Publish(receiver) => {
                settle(receiver, |result| effects.push(published(label, result)))
            }
            Waiting::History(receiver) => {
                settle(receiver, |result| effects.push(page(label, result)))
            }
        });
        if let Some(actor) = &self.actor {
            while let Ok(event) = actor.events.try_recv() {
                effects.extend(labels.effects(event));
            }
        }
        effects.extend(labels.token_effects());
        before != self.effects.len()
    }
}

/// A channel for one answer.
fn reply<T>() -> (Reply<T>, Receiver<Result<T, RequestError>>) {
    mpsc::sync_channel(1)
}

/// Passes the answer on, if it is there; whether to wait on.
fn settle<T>(
    receiver: &Receiver<Result<T, RequestError>>,
    show: impl FnOnce(Result<T, RequestError>),
) -> bool {
    match receiver.try_recv() {
        Err(TryRecvError::Empty) => return true,
        Err(TryRecvError::Disconnected) => show(Err(RequestError::Closed)),
        Ok(result) => show(result),
    }
    false
}
