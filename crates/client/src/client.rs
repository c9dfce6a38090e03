//! The blocking client: one thread that owns the socket and the session, and handles for the
//! application.
//!
//! Place: the application's side of the session. The thread waits in `net`'s poll; commands reach
//! it through a bounded queue and a wake-up, events leave through a bounded queue. If the
//! application does not take events, the thread stops reading the socket, so that the backpressure
//! reaches the server instead of this process's memory.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use net::Wake;
use net::kernel::Waker;
use tls::ClientSettings;
use wire::native::Start;

use crate::backoff::BackoffSettings;
use crate::queue;
use crate::session::{
    CommandError, Counters, Event, HistoryOptions, HistoryPage, PublishOptions, Published, Report,
    ServerError, Settings, SubscribeOptions, SubscriptionId,
};
use crate::shell;
use crate::url::{Endpoint, InvalidUrl};

/// Connection options, limits and timeouts of a client.
#[derive(Clone, Debug)]
pub struct Options {
    /// URLs of the nodes, tried in turn.
    pub urls: Vec<String>,
    /// TLS settings: trusted certificates, and session tickets.
    pub tls: ClientSettings,
    /// The session's settings.
    pub session: Settings,
    /// The source of new tokens: called when the present one expires soon, and before a reconnect
    /// after a connection that ended because of its token. Without it, the application provides new
    /// ones ([`Client::renew`]).
    pub token_source: Option<TokenSource>,
    /// Delays between attempts.
    pub backoff: BackoffSettings,
    /// Time limit for one connect, in milliseconds.
    pub connect_timeout_ms: u64,
    /// Maximum time that [`Client::close`] waits for answers, in milliseconds.
    pub close_timeout_ms: u64,
    /// Maximum number of events that wait for the application, beside up to as many that it has
    /// taken together; at the maximum, the socket is not read.
    pub events_max: usize,
    /// Maximum number of commands that wait for the thread; at the maximum, a call blocks.
    pub commands_max: usize,
    /// Maximum number of bytes that wait for the socket; at the maximum, no further command is
    /// taken.
    pub output_bytes_max: usize,
}

impl Options {
    /// Creates the defaults for one URL.
    pub fn new(url: impl Into<String>) -> Options {
        Options {
            urls: vec![url.into()],
            tls: ClientSettings { resume: true, ..ClientSettings::default() },
            session: Settings::default(),
            token_source: None,
            backoff: BackoffSettings::default(),
            connect_timeout_ms: 10_000,
            close_timeout_ms: 5_000,
            events_max: 1024,
            commands_max: 1024,
            output_bytes_max: 1024 * 1024,
        }
    }
}

/// Returns the newest token, or none if there is no new one. The client's thread calls it and does
/// nothing else until it returns.
#[derive(Clone)]
pub struct TokenSource(Arc<dyn Fn() -> Option<String> + Send + Sync>);

impl TokenSource {
    /// Creates a source from a function.
    pub fn new(source: impl Fn() -> Option<String> + Send + Sync + 'static) -> TokenSource {
        TokenSource(Arc::new(source))
    }

    pub(crate) fn token(&self) -> Option<String> {
        (self.0)()
    }
}

impl std::fmt::Debug for TokenSource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("TokenSource")
    }
}

/// The reason why a client cannot be created.
#[derive(Debug)]
pub enum ConnectError {
    /// A URL is invalid.
    Url(InvalidUrl),
    /// There are no URLs.
    NoUrl,
    /// The trusted certificates cannot be read.
    Tls(tls::LoadError),
    /// The system refuses a thread or a descriptor.
    Resources(io::Error),
}

impl std::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ConnectError::Url(error) => write!(f, "{error}"),
            ConnectError::NoUrl => f.write_str("no URL was given"),
            ConnectError::Tls(error) => write!(f, "{error}"),
            ConnectError::Resources(error) => write!(f, "the client cannot start: {error}"),
        }
    }
}

impl std::error::Error for ConnectError {}

/// The reason why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The server refused the request, and nothing was done.
    Refused(ServerError),
    /// The connection was lost before the answer: the request may have been carried out. The client
    /// does not repeat it, except a publication with an [`crate::Once`]; then the client itself has
    /// stopped before the answer.
    Unknown,
    /// The request is invalid.
    Invalid(CommandError),
    /// The client was closed, or has stopped reconnecting, before the request was sent.
    Closed,
}

impl std::fmt::Display for RequestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RequestError::Refused(error) => write!(f, "refused: {error}"),
            RequestError::Unknown => f.write_str(
                "the connection was lost before the answer; the request may have been carried out",
            ),
            RequestError::Invalid(error) => write!(f, "{error}"),
            RequestError::Closed => f.write_str("the client is closed"),
        }
    }
}

impl std::error::Error for RequestError {}

/// A connection to a node that reconnects by itself. Dropping it closes it.
///
/// All methods take `&self`; share it between threads in an `Arc`.
#[derive(Debug)]
pub struct Client {
    commands: queue::Sender<Command>,
    waker: Arc<Waker>,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The state that the thread and the handles share.
#[derive(Debug, Default)]
pub struct Shared {
    /// The application has requested the end.
    pub closing: AtomicBool,
    /// The thread waits for room in the queue of events.
    pub stalled: AtomicBool,
    /// The session's counters.
    pub counters: Mutex<Counters>,
}

/// The stream of events. Dropping it makes the client discard them.
#[derive(Debug)]
pub struct Events {
    receiver: queue::Receiver<Event>,
    waker: Arc<Waker>,
    shared: Arc<Shared>,
}

/// The pending answer to a request.
#[derive(Debug)]
#[must_use = "the answer comes here"]
pub struct Pending<T> {
    receiver: mpsc::Receiver<Result<T, RequestError>>,
}

/// The destination of an answer.
pub type Reply<T> = SyncSender<Result<T, RequestError>>;

/// A command from a handle to the thread.
pub enum Command {
    /// Continues with a new token.
    Renew(String),
    /// Adds a subscription.
    Subscribe {
        /// A topic or filter.
        filter: String,
        /// The start: live, or a position.
        start: Start<'static>,
        /// Further options.
        options: SubscribeOptions,
        /// The destination of the subscription's number.
        reply: Reply<SubscriptionId>,
    },
    /// Requests the state of a subscription.
    Report {
        /// The subscription.
        subscription: SubscriptionId,
        /// The destination of the report.
        reply: Reply<Option<Report>>,
    },
    /// Ends a subscription.
    Unsubscribe(SubscriptionId),
    /// Publishes one message.
    Publish {
        /// Its topic.
        topic: String,
        /// Its payload.
        payload: Vec<u8>,
        /// Further options.
        options: PublishOptions,
        /// The destination of the acknowledgement, if one is wanted.
        reply: Option<Reply<Published>>,
    },
    /// Requests a page of history.
    History {
        /// The topic.
        topic: String,
        /// The part of its history.
        options: HistoryOptions,
        /// The destination of the page.
        reply: Reply<HistoryPage>,
    },
}

impl Client {
    /// Starts the client's thread, which connects and reconnects. The first event is
    /// [`Event::Connected`] or [`Event::Disconnected`].
    ///
    /// # Errors
    /// [`ConnectError`]; an unreachable node is an event, not an error.
    pub fn connect(options: Options) -> Result<(Client, Events), ConnectError> {
        let endpoints = options
            .urls
            .iter()
            .map(|url| Endpoint::parse(url))
            .collect::<Result<Vec<_>, _>>()
            .map_err(ConnectError::Url)?;
        if endpoints.is_empty() {
            return Err(ConnectError::NoUrl);
        }
        let tls = if endpoints.iter().any(|endpoint| endpoint.is_tls) {
            Some(tls::Client::load(&options.tls).map_err(ConnectError::Tls)?)
        } else {
            None
        };
        let waker = Waker::new().map_err(ConnectError::Resources)?;
        let shared = Arc::new(Shared::default());
        let (commands, command_receiver) = queue::bounded(options.commands_max);
        let (event_sender, receiver) = queue::bounded(options.events_max);
        let parts = shell::Parts {
            endpoints,
            options,
            shared: shared.clone(),
            commands: command_receiver,
            events: event_sender,
        };
        let thread_waker = waker.clone();
        let thread = std::thread::Builder::new()
            .name("crore-client".to_owned())
            .spawn(move || shell::run(parts, thread_waker, tls))
            .map_err(ConnectError::Resources)?;
        let events = Events { receiver, waker: waker.clone(), shared: shared.clone() };
        Ok((Client { commands, waker, shared, thread: Mutex::new(Some(thread)) }, events))
    }

    /// Subscribes to a topic or filter. The subscription persists over all reconnects, each time
    /// from its cursor.
    ///
    /// # Errors
    /// [`RequestError::Invalid`] or [`RequestError::Closed`]. The server's refusal is
    /// [`Event::Unsubscribed`].
    pub fn subscribe(
        &self,
        filter: &str,
        start: Start<'static>,
    ) -> Result<SubscriptionId, RequestError> {
        self.subscribe_with(filter, start, SubscribeOptions::default())
    }

    /// Subscribes like [`Client::subscribe`], with options.
    ///
    /// # Errors
    /// See [`Client::subscribe`].
    pub fn subscribe_with(
        &self,
        filter: &str,
        start: Start<'static>,
        options: SubscribeOptions,
    ) -> Result<SubscriptionId, RequestError> {
        let (reply, receiver) = mpsc::sync_channel(1);
        let filter = filter.to_owned();
        self.send(Command::Subscribe { filter, start, options, reply })?;
        Pending { receiver }.wait()
    }

    /// The state of a subscription: complete so far, or its missing messages. `None` after its end.
    ///
    /// # Errors
    /// [`RequestError::Closed`].
    pub fn report(&self, subscription: SubscriptionId) -> Result<Option<Report>, RequestError> {
        let (reply, receiver) = mpsc::sync_channel(1);
        self.send(Command::Report { subscription, reply })?;
        Pending { receiver }.wait()
    }

    /// Ends a subscription.
    ///
    /// # Errors
    /// [`RequestError::Closed`].
    pub fn unsubscribe(&self, subscription: SubscriptionId) -> Result<(), RequestError> {
        self.send(Command::Unsubscribe(subscription))
    }

    /// Continues with a new token of the same subject, on this connection and all further ones. The
    /// result is an event: [`Event::TokenRenewed`] or [`Event::TokenRefused`].
    ///
    /// # Errors
    /// [`RequestError::Closed`].
    pub fn renew(&self, token: impl Into<String>) -> Result<(), RequestError> {
        self.send(Command::Renew(token.into()))
    }

    /// Publishes one message; blocks only while the queue of commands is full. Without a
    /// connection, the message waits in that queue. The handle receives the answer.
    ///
    /// Messages of one thread on one topic are appended in their order. With
    /// [`PublishOptions::once`] the client repeats an unanswered message after a reconnect, and it
    /// is appended once.
    ///
    /// # Errors
    /// [`RequestError::Closed`].
    pub fn publish(
        &self,
        topic: &str,
        payload: impl Into<Vec<u8>>,
        options: PublishOptions,
    ) -> Result<Pending<Published>, RequestError> {
        let (reply, receiver) = mpsc::sync_channel(1);
        let (topic, payload) = (topic.to_owned(), payload.into());
        self.send(Command::Publish { topic, payload, options, reply: Some(reply) })?;
        Ok(Pending { receiver })
    }

    /// Publishes one message without an acknowledgement.
    ///
    /// # Errors
    /// [`RequestError::Closed`].
    pub fn publish_unacknowledged(
        &self,
        topic: &str,
        payload: impl Into<Vec<u8>>,
        options: PublishOptions,
    ) -> Result<(), RequestError> {
        let (topic, payload) = (topic.to_owned(), payload.into());
        self.send(Command::Publish { topic, payload, options, reply: None })
    }

    /// Requests one page of a topic's history.
    ///
    /// # Errors
    /// [`RequestError::Closed`].
    pub fn history(
        &self,
        topic: &str,
        options: HistoryOptions,
    ) -> Result<Pending<HistoryPage>, RequestError> {
        let (reply, receiver) = mpsc::sync_channel(1);
        self.send(Command::History { topic: topic.to_owned(), options, reply })?;
        Ok(Pending { receiver })
    }

    /// The counters of the session.
    pub fn counters(&self) -> Counters {
        *self.shared.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the client: waits for commands and answers in progress (at most `close_timeout_ms`),
    /// closes the connection and joins the thread. The stream of events ends. Further calls return
    /// [`RequestError::Closed`].
    pub fn close(&self) {
        self.shared.closing.store(true, Ordering::Release);
        self.waker.wake();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The thread does not panic; after a panic, there would be nothing to save here.
            let _ = thread.join();
        }
    }

    fn send(&self, command: Command) -> Result<(), RequestError> {
        if self.shared.closing.load(Ordering::Acquire) {
            return Err(RequestError::Closed);
        }
        self.commands.send(command).map_err(|_| RequestError::Closed)?;
        self.waker.wake();
        Ok(())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.close();
    }
}

impl Events {
    /// Waits for the next event; `None` when the client has stopped.
    pub fn next_event(&self) -> Option<Event> {
        let event = self.receiver.recv().ok();
        self.taken();
        event
    }

    /// Waits for the next event for at most `timeout`.
    ///
    /// # Errors
    /// [`EventsError::Timeout`] if no event arrived, [`EventsError::Ended`] if the client has
    /// stopped.
    pub fn next_within(&self, timeout: Duration) -> Result<Event, EventsError> {
        let event = self.receiver.recv_timeout(timeout).map_err(|error| match error {
            RecvTimeoutError::Timeout => EventsError::Timeout,
            RecvTimeoutError::Disconnected => EventsError::Ended,
        });
        self.taken();
        event
    }

    /// Notifies the thread, which may be waiting, that the queue has room again.
    fn taken(&self) {
        let stalled = &self.shared.stalled;
        if stalled.load(Ordering::Acquire) && stalled.swap(false, Ordering::AcqRel) {
            self.waker.wake();
        }
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.next_event()
    }
}

/// The reason why there is no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventsError {
    /// No event arrived in time.
    Timeout,
    /// The client has stopped.
    Ended,
}

impl std::fmt::Display for EventsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            EventsError::Timeout => "no event arrived in time",
            EventsError::Ended => "the client has stopped",
        })
    }
}

impl std::error::Error for EventsError {}

impl<T> Pending<T> {
    /// Waits for the answer.
    ///
    /// An application that waits here on the thread that also takes the events must leave room for
    /// them (`events_max`), because a full queue of events also blocks the answers.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn wait(self) -> Result<T, RequestError> {
        self.receiver.recv().unwrap_or(Err(RequestError::Closed))
    }

    /// Waits for at most `timeout`; `None` if there is no answer yet, and the handle stays valid.
    pub fn wait_within(&self, timeout: Duration) -> Option<Result<T, RequestError>> {
        match self.receiver.recv_timeout(timeout) {
            Ok(answer) => Some(answer),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(RequestError::Closed)),
        }
    }
}
