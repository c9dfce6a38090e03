//! The control topic: what the nodes of a cluster tell each other, as the newest value of each key
//! in a compacted topic of one partition.
//!
//! Place: beside the path of messages. A thread reads the topic from its beginning and follows it;
//! it writes with an idempotent producer. Values in, values out: the meaning of keys is the
//! caller's.
//!
//! Invariants: entries come in the order of the topic, and none is left out, so that after
//! [`ControlLetter::CaughtUp`] the caller has the newest value of every key. After a doubt (the
//! topic was created again, the reader fell silent) all entries come again from the beginning. A
//! write is repeated until the topic has it, unless the control ends before.

use crate::properties;
use crate::settings::{EngineSettings, Severity};
use crate::wake::Wake;
use crate::{EngineError, admin, token};
use kafka::{
    Client, Delivery, DeliveryStatus, Event, Kind, MessageRef, Place, Produce, Queue, Timestamp,
    code,
};
use std::collections::VecDeque;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// An entry of the topic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ControlEntry {
    /// The key.
    pub key: String,
    /// The newest value; none if the key was removed.
    pub value: Option<Vec<u8>>,
    /// The broker's time, in milliseconds since 1970.
    pub time_ms: u64,
}

/// A message of the thread to the caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ControlLetter {
    /// The next entry.
    Entry(ControlEntry),
    /// Everything that was in the topic at the start has come.
    CaughtUp,
}

/// A running reader and writer of the control topic.
#[derive(Debug)]
pub struct Control {
    writes: Sender<Write>,
    wake: Arc<Wake>,
    thread: Option<JoinHandle<()>>,
}

/// A key with its new value.
#[derive(Clone, Debug)]
struct Write {
    key: String,
    value: Option<Vec<u8>>,
}

/// The longest wait for an event, in milliseconds.
const WAIT_MS: u32 = 500;
/// The silence after which the reader is replaced. Nodes write more often than this.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// The time between two attempts to write.
const WRITE_AGAIN: Duration = Duration::from_millis(500);
/// The time that the end waits for brokers.
const END_PATIENCE: Duration = Duration::from_secs(2);
/// Entries that are read at once.
const BATCH: usize = 256;

impl Control {
    /// Starts the thread; it connects by itself, as often as it takes. `take` is called on the
    /// thread and must not wait.
    ///
    /// # Errors
    /// A setting is not valid, no broker answers within the timeout, or the machine has no thread
    /// or descriptor left.
    pub fn start(
        settings: &EngineSettings,
        topic: &str,
        timeout: Duration,
        take: impl FnMut(ControlLetter) + Send + 'static,
    ) -> Result<Control, EngineError> {
        let no_resource = |error: std::io::Error| EngineError(format!("engine: {error}"));
        let wake = Arc::new(Wake::new().map_err(no_resource)?);
        let (writes, received) = channel();
        let through = admin::end_of(settings, topic, timeout)?;
        let topic = CString::new(topic)
            .map_err(|_| EngineError("engine: a topic's name has a zero byte".to_owned()))?;
        let follower = Follower {
            reader: Reader::new(settings, &topic, &wake)?,
            writer: Writer::new(settings, &wake)?,
            settings: settings.clone(),
            topic,
            through: Some(through),
            heard: Instant::now(),
            received,
            waiting: VecDeque::new(),
            wake: Arc::clone(&wake),
            take,
        };
        let thread = thread::Builder::new().name("engine-control".to_owned());
        let thread = thread.spawn(move || follower.run()).map_err(no_resource)?;
        Ok(Control { writes, wake, thread: Some(thread) })
    }

    /// Writes a key; without a value, removes it. Writes keep their order.
    pub fn write(&self, key: String, value: Option<Vec<u8>>) {
        // The thread ends only with this structure.
        _ = self.writes.send(Write { key, value });
        self.wake.ring();
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // The thread writes what waits, and ends.
        self.writes = channel().0;
        self.wake.ring();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by its own message.
            _ = thread.join();
        }
    }
}

/// The client that reads.
struct Reader {
    client: Client,
    /// Wishes for tokens.
    main: Queue,
    /// Errors.
    consumer: Queue,
    messages: Queue,
}

impl Reader {
    fn new(settings: &EngineSettings, topic: &CString, wake: &Wake) -> Result<Reader, EngineError> {
        let client = Client::new(Kind::Consumer, &properties::consumer(settings))?;
        let (main, consumer) = (client.main_queue(), client.consumer_queue());
        let messages = client.new_queue();
        for queue in [&main, &consumer, &messages] {
            queue.wake(wake.descriptor());
        }
        client.forward(topic, 0, &messages);
        client.assign(&[Place { topic, partition: 0, offset: BEGINNING, leader_epoch: None }])?;
        Ok(Reader { client, main, consumer, messages })
    }
}

/// `RD_KAFKA_OFFSET_BEGINNING`.
const BEGINNING: i64 = -2;

/// The client that writes.
struct Writer {
    client: Client,
    main: Queue,
    /// The first of the waiting writes has been sent, and has no answer.
    is_busy: bool,
    /// The earliest time of the next attempt.
    again_at: Instant,
}

impl Writer {
    fn new(settings: &EngineSettings, wake: &Wake) -> Result<Writer, EngineError> {
        let client = Client::new(Kind::Producer, &properties::producer(settings))?;
        let main = client.main_queue();
        main.wake(wake.descriptor());
        Ok(Writer { client, main, is_busy: false, again_at: Instant::now() })
    }
}

/// The thread.
struct Follower<T> {
    settings: EngineSettings,
    topic: CString,
    reader: Reader,
    writer: Writer,
    /// The end of the topic at the start; none once it has been reached.
    through: Option<u64>,
    /// The last entry or end of the topic.
    heard: Instant,
    received: Receiver<Write>,
    waiting: VecDeque<Write>,
    wake: Arc<Wake>,
    take: T,
}

impl<T: FnMut(ControlLetter)> Follower<T> {
    fn run(mut self) {
        if self.through == Some(0) {
            self.caught_up();
        }
        while self.take_writes() {
            self.wake.wait(WAIT_MS);
            self.turn();
        }
        let end = Instant::now() + END_PATIENCE;
        while !self.waiting.is_empty() && Instant::now() < end {
            self.wake.wait(10);
            self.turn();
        }
    }

    fn turn(&mut self) {
        self.serve_reader();
        self.serve_writer();
        self.write_next();
        if self.heard.elapsed() > SILENCE_MAX {
            self.say("the control topic is silent; it is read again from its beginning");
            self.read_again();
        }
    }

    /// False: the caller has no more.
    fn take_writes(&mut self) -> bool {
        loop {
            match self.received.try_recv() {
                Ok(write) => self.waiting.push_back(write),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn serve_reader(&mut self) {
        let mut is_lost = false;
        loop {
            let mut letters = Vec::new();
            let mut reached = None;
            let count = self.reader.messages.consume(BATCH, |message| match message.code() {
                0 => {
                    reached = Some(message.offset() + 1);
                    letters.extend(entry_of(message));
                }
                code::PARTITION_END => reached = Some(message.offset()),
                _ => is_lost = true,
            });
            for entry in letters {
                (self.take)(ControlLetter::Entry(entry));
            }
            if let Some(reached) = reached {
                self.heard = Instant::now();
                self.reached(u64::try_from(reached).unwrap_or(0));
            }
            if count < BATCH {
                break;
            }
        }
        let events = || self.reader.main.poll(0).or_else(|| self.reader.consumer.poll(0));
        while let Some(event) = events() {
            match event {
                Event::TokenWanted => {
                    token::give(&self.settings.security.login, self.reader.client.clone())
                }
                Event::Error { error, .. } if !error.text.starts_with("GroupCoordinator") => {
                    self.say(&format!("control topic: {error}"));
                }
                _ => {}
            }
        }
        if is_lost {
            self.say("the control topic has been replaced; it is read from its beginning");
            self.read_again();
        }
    }

    fn reached(&mut self, offset: u64) {
        if self.through.is_some_and(|through| offset >= through) {
            self.caught_up();
        }
    }

    fn caught_up(&mut self) {
        self.through = None;
        (self.take)(ControlLetter::CaughtUp);
    }

    fn read_again(&mut self) {
        self.heard = Instant::now();
        match Reader::new(&self.settings, &self.topic, &self.wake) {
            Ok(reader) => self.reader = reader,
            Err(error) => self.say(&format!("control topic: {error}")),
        }
    }

    fn serve_writer(&mut self) {
        let mut is_useless = false;
        while let Some(event) = self.writer.main.poll(0) {
            match event {
                Event::Deliveries(deliveries) => self.answered(&deliveries),
                Event::TokenWanted => {
                    token::give(&self.settings.security.login, self.writer.client.clone())
                }
                Event::Error { error, is_fatal } => {
                    is_useless |= is_fatal;
                    self.say(&format!("control topic: {error}"));
                }
                _ => {}
            }
        }
        if is_useless && let Ok(writer) = Writer::new(&self.settings, &self.wake) {
            self.writer = writer;
        }
    }

    fn answered(&mut self, deliveries: &[Delivery]) {
        for delivery in deliveries {
            self.writer.is_busy = false;
            if delivery.status == DeliveryStatus::Appended {
                self.waiting.pop_front();
            } else {
                // A value that is in the topic twice is the same value.
                self.writer.again_at = Instant::now() + WRITE_AGAIN;
            }
        }
    }

    /// Sends the first waiting write; one at a time keeps their order.
    fn write_next(&mut self) {
        let is_due = !self.writer.is_busy && Instant::now() >= self.writer.again_at;
        let Some(write) = self.waiting.front().filter(|_| is_due) else {
            return;
        };
        let produced = self.writer.client.produce(&Produce {
            topic: &self.topic,
            partition: 0,
            key: write.key.as_bytes(),
            value: write.value.as_deref(),
            headers: &[],
            note: 0,
        });
        match produced {
            Ok(()) => self.writer.is_busy = true,
            Err(error) => {
                self.writer.again_at = Instant::now() + WRITE_AGAIN;
                self.say(&format!("control topic: {error}"));
            }
        }
    }

    fn say(&self, line: &str) {
        self.settings.log.write(Severity::Warning, line);
    }
}

/// The entry of a record; none without a key that is text, as all nodes write them.
fn entry_of(message: MessageRef<'_>) -> Option<ControlEntry> {
    let key = std::str::from_utf8(message.key()?).ok()?;
    let (Timestamp::Broker(time_ms) | Timestamp::Producer(time_ms)) = message.timestamp() else {
        return None;
    };
    Some(ControlEntry { key: key.to_owned(), value: message.value().map(<[u8]>::to_vec), time_ms })
}
