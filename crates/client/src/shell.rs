//! The client's thread: a loop over a [`Ground`] that drives the session.
//!
//! Place: between the handles and the session. Owns the connection and decides when to reconnect;
//! decides nothing about the protocol. One turn: poll, read, tick, take commands, write, deliver
//! events and answers.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use net::kernel::Waker;
use net::{Conn, Event as NetEvent, Read, Write};
use wire::native::CloseCode;

use crate::backoff::Backoff;
use crate::client::{Command, Options, Reply, RequestError, Shared, TokenSource};
use crate::fault::{self, Fault};
use crate::ground::{Ground, Sockets};
use crate::queue::{self, Gone};
use crate::session::{Answer, Event, HistoryPage, Published, Reason, Session};
use crate::url::Endpoint;

const RECEIVE_BYTES: usize = 64 * 1024;
/// The maximum number of reads in one turn, so that commands and events are not delayed.
const TURN_READS_MAX: usize = 16;

/// The inputs of the thread.
pub struct Parts {
    /// The nodes.
    pub endpoints: Vec<Endpoint>,
    /// The client's options.
    pub options: Options,
    /// The state that handles see.
    pub shared: Arc<Shared>,
    /// The commands of handles.
    pub commands: queue::Receiver<Command>,
    /// The queue of events.
    pub events: queue::Sender<Event>,
}

/// Runs until the client is closed or stops reconnecting. `tls` is the TLS client, if an endpoint
/// uses TLS.
pub(crate) fn run(parts: Parts, waker: Arc<Waker>, tls: Option<tls::Client>) {
    match Sockets::new(waker, tls, parts.options.tls.clone()) {
        Ok(sockets) => Shell::new(parts, sockets).run(),
        // Without a descriptor for epoll, the only action left is the report; the queue cannot be
        // full at the start.
        Err(error) => {
            let reason = Reason::Network(error.kind());
            let _ = parts.events.try_send(Event::Disconnected { reason, retry_in_ms: None });
        }
    }
}

/// The state of the socket.
#[derive(Clone, Copy, Debug)]
enum Link {
    /// There is no connection; the next attempt is due at this time.
    Waiting {
        until_ms: u64,
    },
    /// A connect is in progress.
    Connecting {
        conn: Conn,
        since_ms: u64,
    },
    Established {
        conn: Conn,
        since_ms: u64,
    },
}

enum Waiter {
    Publish(Reply<Published>),
    History(Reply<HistoryPage>),
}

/// The client without its thread: each call of [`Shell::turn`] is one turn of the loop.
pub struct Shell<G> {
    ground: G,
    session: Session,
    backoff: Backoff,
    options: Options,
    endpoints: Vec<Endpoint>,
    /// The endpoints of a go-away; they take precedence over the configured ones.
    preferred: VecDeque<Endpoint>,
    attempt: usize,
    link: Link,
    target: (String, String),
    shared: Arc<Shared>,
    commands: queue::Receiver<Command>,
    /// A command that waits for the connection or for room.
    held: Option<Command>,
    events: Option<queue::Sender<Event>>,
    /// The queue has no room for the session's next event.
    is_blocked: bool,
    waiters: HashMap<u32, Waiter>,
    readable: bool,
    writable: bool,
    closing_since_ms: Option<u64>,
    /// The last connection ended because its token had expired.
    is_token_over: bool,
    /// The events of one turn.
    net_events: Vec<NetEvent>,
    buffer: Vec<u8>,
}

impl<G: Ground> Shell<G> {
    /// Starts without a connection; the first turn begins the first attempt.
    pub fn new(parts: Parts, mut ground: G) -> Shell<G> {
        let session = Session::new(parts.options.session.clone(), ground.random(u64::MAX));
        let attempt = match parts.endpoints.len() {
            0 | 1 => 0,
            count => ground.random(count as u64 - 1) as usize,
        };
        Shell {
            ground,
            session,
            backoff: Backoff::new(parts.options.backoff),
            options: parts.options,
            endpoints: parts.endpoints,
            preferred: VecDeque::new(),
            attempt,
            link: Link::Waiting { until_ms: 0 },
            target: Default::default(),
            shared: parts.shared,
            commands: parts.commands,
            held: None,
            events: Some(parts.events),
            is_blocked: false,
            waiters: HashMap::new(),
            readable: false,
            writable: false,
            closing_since_ms: None,
            is_token_over: false,
            net_events: Vec::new(),
            buffer: vec![0; RECEIVE_BYTES],
        }
    }

    fn run(mut self) {
        while self.turn() {}
        self.say_goodbye();
    }

    /// One turn of the loop; false when the client has ended, and only [`Shell::say_goodbye`] is
    /// left.
    pub fn turn(&mut self) -> bool {
        let timeout = self.timeout();
        let mut events = std::mem::take(&mut self.net_events);
        if self.ground.poll(timeout, &mut events).is_err() {
            return false;
        }
        if events.is_empty() && timeout != Some(Duration::ZERO) {
            self.free_memory();
        }
        for event in events.drain(..) {
            self.net_event(event);
        }
        self.net_events = events;
        if let Link::Waiting { until_ms } = self.link
            && self.now_ms() >= until_ms
        {
            self.connect();
        }
        self.read();
        self.tick();
        self.leave_when_asked();
        self.take_commands();
        self.write();
        self.deliver();
        !self.is_finished() && !self.close_is_done()
    }

    /// Frees the memory that a burst of events has left: nothing has arrived for a while.
    fn free_memory(&mut self) {
        if self.session.events().is_empty() {
            self.session.events().shrink_to(queue::IDLE_ITEMS);
        }
        if let Some(events) = &self.events {
            events.shrink();
        }
    }

    fn now_ms(&self) -> u64 {
        self.ground.now_ms()
    }

    fn timeout(&self) -> Option<Duration> {
        if self.readable && !self.is_blocked {
            return Some(Duration::ZERO);
        }
        let link = match self.link {
            Link::Waiting { until_ms } => Some(until_ms),
            Link::Connecting { since_ms, .. } => Some(since_ms + self.options.connect_timeout_ms),
            Link::Established { .. } => self.session.next_deadline_ms(),
        };
        let closing = self.closing_since_ms.map(|since| since + self.options.close_timeout_ms);
        let next_ms = [link, closing].into_iter().flatten().min().filter(|ms| *ms < u64::MAX)?;
        // Rounded up, as a wait that ends slightly early would spin.
        Some(Duration::from_millis(next_ms.saturating_sub(self.now_ms()) + 1))
    }

    fn net_event(&mut self, event: NetEvent) {
        let ours = match self.link {
            Link::Connecting { conn, .. } | Link::Established { conn, .. } => Some(conn),
            Link::Waiting { .. } => None,
        };
        match event {
            NetEvent::Connected(conn) if Some(conn) == ours => {
                let now_ms = self.now_ms();
                self.link = Link::Established { conn, since_ms: now_ms };
                self.writable = true;
                self.session.connected(&self.target.0, &self.target.1, now_ms);
            }
            NetEvent::Readable(conn) if Some(conn) == ours => self.readable = true,
            NetEvent::Writable(conn) if Some(conn) == ours => self.writable = true,
            NetEvent::Closed { conn, reason } if Some(conn) == ours => {
                let reason = match self.ground.take_failure(conn) {
                    Some(failure) => Reason::Tls(failure),
                    None => Reason::Network(reason),
                };
                self.lost(reason);
            }
            _ => {}
        }
    }

    /// Requests a new token when the present one has expired or expires soon.
    fn renew_token(&mut self) {
        let source = self.options.token_source.as_ref();
        let token = source.and_then(TokenSource::token);
        // The same token would be refused again.
        if let Some(token) = token.filter(|token| self.session.token() != Some(token)) {
            self.session.renew(token);
        }
    }

    /// Begins the next attempt.
    fn connect(&mut self) {
        if std::mem::take(&mut self.is_token_over) {
            self.renew_token();
        }
        let endpoint = match self.preferred.pop_front() {
            Some(endpoint) => endpoint,
            None => {
                let place = self.attempt % self.endpoints.len();
                self.attempt = self.attempt.wrapping_add(1);
                self.endpoints[place].clone()
            }
        };
        self.target = (endpoint.authority(), endpoint.target.clone());
        self.session.connecting(self.now_ms());
        match self.ground.open(&endpoint, self.backoff.attempts()) {
            Ok(conn) => self.link = Link::Connecting { conn, since_ms: self.now_ms() },
            Err(reason) => self.lost(reason),
        }
    }

    fn read(&mut self) {
        for _ in 0..TURN_READS_MAX {
            let Link::Established { conn, .. } = self.link else {
                return;
            };
            // Events that the application does not take stop the reading: this is the backpressure.
            if !self.readable || self.is_blocked {
                return;
            }
            let now_ms = self.now_ms();
            match self.ground.read(conn, &mut self.buffer) {
                Read::Data(bytes) => {
                    self.readable = bytes == self.buffer.len();
                    let received = self.session.receive(&mut self.buffer[..bytes], now_ms);
                    if let Err(reason) = received {
                        self.write();
                        return self.lost(reason);
                    }
                    self.deliver();
                }
                Read::Blocked => self.readable = false,
                Read::Ended => return self.lost(Reason::Ended),
                Read::Failed(kind) => return self.lost(Reason::Network(kind)),
            }
        }
    }

    fn tick(&mut self) {
        let now_ms = self.now_ms();
        match self.link {
            Link::Connecting { since_ms, .. }
                if now_ms >= since_ms + self.options.connect_timeout_ms =>
            {
                self.lost(Reason::Network(std::io::ErrorKind::TimedOut));
            }
            Link::Established { .. } => {
                if let Err(reason) = self.session.tick(now_ms) {
                    self.lost(reason);
                }
            }
            _ => {}
        }
        if self.closing_since_ms.is_none() && self.shared.closing.load(Ordering::Acquire) {
            self.closing_since_ms = Some(now_ms);
        }
    }

    /// Leaves for the server's go-away as soon as nothing is in flight.
    fn leave_when_asked(&mut self) {
        let inflight = if fault::is(Fault::LeavesAtOnce) { 0 } else { self.session.inflight() };
        let (Some(plan), 0) = (self.session.return_plan(), inflight) else {
            return;
        };
        let (mut after_ms, urls) = (plan.after_ms, plan.urls.clone());
        if fault::is(Fault::ReturnsEarly) {
            after_ms = 0;
        }
        let Some(reason) = self.session.return_reason() else {
            return;
        };
        self.preferred = urls.iter().filter_map(|url| Endpoint::parse(url).ok()).collect();
        self.session.close(self.now_ms());
        self.write();
        self.lost_until(reason, after_ms);
    }

    fn take_commands(&mut self) {
        loop {
            if self.session.output().len() >= self.options.output_bytes_max {
                return;
            }
            let command = match self.held.take() {
                Some(command) => command,
                None => match self.commands.try_recv() {
                    Ok(command) => command,
                    Err(_) => return,
                },
            };
            let wants_room = match &command {
                Command::Publish { reply: None, .. } => !self.session.is_ready(),
                Command::Publish { .. } | Command::History { .. } => !self.session.has_room(),
                Command::Subscribe { .. }
                | Command::Unsubscribe(_)
                | Command::Report { .. }
                | Command::Renew(_) => false,
            };
            if wants_room {
                self.held = Some(command);
                return;
            }
            self.carry_out(command);
        }
    }

    fn carry_out(&mut self, command: Command) {
        // A dropped handle does not need its answer: a failed reply is not an error.
        match command {
            Command::Subscribe { filter, start, options, reply } => {
                let result = self.session.subscribe(&filter, start, &options);
                let _ = reply.try_send(result.map_err(RequestError::Invalid));
            }
            Command::Report { subscription, reply } => {
                let _ = reply.try_send(Ok(self.session.report(subscription)));
            }
            Command::Renew(token) => self.session.renew(token),
            Command::Unsubscribe(subscription) => self.session.unsubscribe(subscription),
            Command::Publish { topic, payload, options, reply } => {
                let result = self.session.publish(&topic, &payload, &options, reply.is_some());
                match (result, reply) {
                    (Ok(request), Some(reply)) => {
                        self.waiters.insert(request, Waiter::Publish(reply));
                    }
                    (Err(error), Some(reply)) => {
                        let _ = reply.try_send(Err(RequestError::Invalid(error)));
                    }
                    (_, None) => {}
                }
            }
            Command::History { topic, options, reply } => {
                match self.session.history(&topic, &options) {
                    Ok(request) => {
                        self.waiters.insert(request, Waiter::History(reply));
                    }
                    Err(error) => {
                        let _ = reply.try_send(Err(RequestError::Invalid(error)));
                    }
                }
            }
        }
    }

    fn write(&mut self) {
        let Link::Established { conn, .. } = self.link else {
            return;
        };
        while self.writable && !self.session.output().is_empty() {
            let offered = self.session.output().len();
            match self.ground.write(conn, self.session.output()) {
                Write::Wrote(bytes) => {
                    self.session.written(bytes);
                    self.writable = bytes == offered;
                }
                Write::Blocked => self.writable = false,
                Write::Failed(kind) => return self.lost(Reason::Network(kind)),
            }
        }
    }

    /// Delivers events and answers to the application.
    fn deliver(&mut self) {
        // Counters first, so that they include every delivered event.
        let counters = self.session.counters();
        *self.shared.counters.lock().unwrap_or_else(PoisonError::into_inner) = counters;
        while let Some((request, answer)) = self.session.take_answer() {
            match (self.waiters.remove(&request), answer) {
                (Some(Waiter::Publish(reply)), Answer::Published(published)) => {
                    let _ = reply.try_send(Ok(published));
                }
                (Some(Waiter::History(reply)), Answer::History(page)) => {
                    let _ = reply.try_send(Ok(page));
                }
                (Some(Waiter::Publish(reply)), answer) => {
                    let _ = reply.try_send(Err(failure(answer)));
                }
                (Some(Waiter::History(reply)), answer) => {
                    let _ = reply.try_send(Err(failure(answer)));
                }
                (None, _) => {}
            }
        }
        if self.session.take_expiry() {
            self.renew_token();
            self.write();
        }
        self.deliver_events();
    }

    /// Moves the session's events to the queue, as many as have room.
    fn deliver_events(&mut self) {
        let moved = self.events.as_ref().map(|events| {
            if events.append(self.session.events())? {
                return Ok(true);
            }
            // Set before the second attempt, so that a consumer that made room in between wakes the
            // thread.
            self.shared.stalled.store(true, Ordering::Release);
            events.append(self.session.events())
        });
        self.is_blocked = match moved {
            Some(Ok(all)) => !all,
            Some(Err(Gone)) => {
                self.events = None;
                false
            }
            None => false,
        };
        // The application takes no more: it has dropped the receiver, or is closing.
        if self.events.is_none() || self.closing_since_ms.is_some() {
            self.session.events().clear();
            self.is_blocked = false;
        }
    }

    /// Handles the end of the connection; plans the next attempt.
    fn lost(&mut self, reason: Reason) {
        let lasted_ms = match self.link {
            Link::Established { since_ms, .. } => self.now_ms() - since_ms,
            _ => 0,
        };
        let mut delay_ms = self.backoff.next_ms(lasted_ms, |bound| self.ground.random(bound));
        if let Reason::HandshakeRefused { retry_after_s: Some(seconds), .. } = reason {
            // The server's delay counts up to an hour, with jitter added.
            delay_ms += seconds.min(3_600) * 1_000;
        }
        // A go-away is still valid if the connection ended before the client left.
        if let Some(plan) = self.session.return_plan() {
            delay_ms = plan.after_ms;
            self.preferred = plan.urls.iter().filter_map(|url| Endpoint::parse(url).ok()).collect();
        }
        self.lost_until(reason, delay_ms);
    }

    fn lost_until(&mut self, reason: Reason, delay_ms: u64) {
        if let Link::Connecting { conn, .. } | Link::Established { conn, .. } = self.link {
            self.ground.close(conn);
        }
        self.readable = false;
        self.writable = false;
        let expired = CloseCode::TokenExpired.number();
        self.is_token_over |= matches!(&reason, Reason::Closed { code, .. } if *code == expired);
        let reconnects = reason.reconnects();
        self.link = Link::Waiting {
            until_ms: if reconnects { self.now_ms().saturating_add(delay_ms) } else { u64::MAX },
        };
        self.session.disconnected(reason, reconnects.then_some(delay_ms));
    }

    /// Whether there will be no further attempt and all events were delivered.
    fn is_finished(&self) -> bool {
        matches!(self.link, Link::Waiting { until_ms: u64::MAX }) && !self.is_blocked
    }

    fn close_is_done(&mut self) -> bool {
        let Some(since_ms) = self.closing_since_ms else {
            return false;
        };
        let is_idle = self.held.is_none()
            && self.session.inflight() == 0
            && self.session.output().is_empty()
            && self.commands.try_recv().map(|command| self.held = Some(command)).is_err();
        is_idle || self.now_ms() >= since_ms + self.options.close_timeout_ms
    }

    /// Closes the connection and settles all answers.
    pub fn say_goodbye(&mut self) {
        if let Link::Established { conn, .. } = self.link {
            self.session.close(self.now_ms());
            self.write();
            self.ground.close(conn);
        }
        // The poll carries out the close; its events are of no use any more.
        let _ = self.ground.poll(Some(Duration::ZERO), &mut Vec::new());
        self.session.disconnected(Reason::Ended, None);
        while let Some((request, _)) = self.session.take_answer() {
            match self.waiters.remove(&request) {
                Some(Waiter::Publish(reply)) => {
                    let _ = reply.try_send(Err(RequestError::Unknown));
                }
                Some(Waiter::History(reply)) => {
                    let _ = reply.try_send(Err(RequestError::Unknown));
                }
                None => {}
            }
        }
    }
}

fn failure(answer: Answer) -> RequestError {
    match answer {
        Answer::Refused(error) => RequestError::Refused(error),
        _ => RequestError::Unknown,
    }
}
