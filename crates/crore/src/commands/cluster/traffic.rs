//! Publishers and subscribers of the demo: Rust clients, as applications use them. Each knows all
//! nodes and begins at another one.

use super::audit::Audit;
use anyhow::{Context, anyhow};
use bench::payload::Clock;
use bench::statistics::Recorder;
use client::{Client, Event, Events, Once, Options, PublishOptions, RequestError, Start, backoff};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The number of publishers, each with its own topic.
pub const PUBLISHERS: usize = 6;
/// The number of subscribers of all topics.
pub const SUBSCRIBERS: usize = 3;
/// The begin of each topic; the number of its publisher follows.
const PREFIX: &str = "demo/";
/// The pause before a refused message is sent again.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest delay before another attempt to connect, in milliseconds.
const RECONNECT_MS_MAX: u64 = 500;

/// The counts of all clients.
#[derive(Debug)]
pub struct Counts {
    /// The audit.
    pub audit: Audit,
    /// Times from a message's first sending to a subscriber, since the last look.
    pub latency: Recorder,
    /// All times since the start.
    pub latency_all: Recorder,
    /// Refusals, after which the publisher repeated its message.
    pub refusals: u64,
    /// Connections that ended.
    pub disconnects: u64,
    /// The longest time that a publisher waited for an acknowledgement.
    pub silence_max: Duration,
    /// Subscribers whose subscription is live.
    live: [bool; SUBSCRIBERS],
}

/// Running clients.
pub struct Traffic {
    counts: Arc<Mutex<Counts>>,
    is_ending: Arc<AtomicBool>,
    publishers: Vec<JoinHandle<()>>,
    subscribers: Vec<Client>,
    readers: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// Subscribes at nodes with these URLs.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn subscribe(urls: &[String]) -> anyhow::Result<Traffic> {
        let counts = Arc::new(Mutex::new(Counts {
            audit: Audit::new(PUBLISHERS, SUBSCRIBERS),
            latency: Recorder::new(),
            latency_all: Recorder::new(),
            refusals: 0,
            disconnects: 0,
            silence_max: Duration::ZERO,
            live: [false; SUBSCRIBERS],
        }));
        let mut traffic = Traffic {
            counts,
            is_ending: Arc::default(),
            publishers: Vec::new(),
            subscribers: Vec::new(),
            readers: Vec::new(),
        };
        for number in 0..SUBSCRIBERS {
            let (client, events) = Client::connect(options(urls, number))?;
            client.subscribe("demo/#", Start::Live).map_err(|error| anyhow!("{error}"))?;
            traffic.subscribers.push(client);
            let counts = Arc::clone(&traffic.counts);
            let read = move || {
                for event in events {
                    take(&event, number, &counts);
                }
            };
            traffic.readers.push(thread::Builder::new().spawn(read)?);
        }
        Ok(traffic)
    }

    /// Whether all subscriptions are live.
    pub fn is_live(&self) -> bool {
        self.counts().live.iter().all(|is_live| *is_live)
    }

    /// Starts to publish so many messages a second.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn publish(&mut self, urls: &[String], rate: u64) -> anyhow::Result<()> {
        let interval = Duration::from_secs(1) * PUBLISHERS as u32 / u32::try_from(rate)?;
        for topic in 0..PUBLISHERS {
            let (client, events) = Client::connect(options(urls, topic))?;
            let publisher = Publisher {
                client,
                events,
                topic,
                interval,
                counts: Arc::clone(&self.counts),
                is_ending: Arc::clone(&self.is_ending),
            };
            let publish = move || publisher.run();
            self.publishers.push(thread::Builder::new().spawn(publish)?);
        }
        Ok(())
    }

    /// The counts.
    pub fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets each publisher finish its last message. Whether all have.
    pub fn finish(&mut self, patience: Duration) -> bool {
        self.is_ending.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + patience;
        while self.publishers.iter().any(|thread| !thread.is_finished()) {
            if Instant::now() > deadline {
                return false;
            }
            thread::sleep(PAUSE / 10);
        }
        true
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        self.subscribers.iter().for_each(Client::close);
        for thread in self.readers.drain(..) {
            // A panic of a thread has printed its message.
            let _ = thread.join();
        }
    }
}

/// Options of a client that begins at another node than its neighbour.
fn options(urls: &[String], number: usize) -> Options {
    let mut urls = urls.to_vec();
    let count = urls.len().max(1);
    urls.rotate_left(number % count);
    let mut options = Options::new("");
    options.urls = urls;
    options.backoff = backoff::BackoffSettings {
        max_ms: RECONNECT_MS_MAX,
        ..backoff::BackoffSettings::default()
    };
    options
}

/// Counts an event of a subscriber.
fn take(event: &Event, subscriber: usize, counts: &Mutex<Counts>) {
    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    match event {
        Event::Subscribed { .. } => counts.live[subscriber] = true,
        Event::Disconnected { .. } => {
            // A failed attempt has the same event.
            counts.disconnects += u64::from(counts.live[subscriber]);
            counts.live[subscriber] = false;
        }
        Event::Gap { .. } => counts.audit.gap(),
        Event::Message(message) => {
            let Some((topic, number, sent_ns)) = read(&message.topic, &message.payload) else {
                return;
            };
            counts.audit.deliver(subscriber, topic, number);
            let latency_ns = Clock::Monotonic.now_ns().saturating_sub(sent_ns);
            counts.latency.record_ns(latency_ns);
            counts.latency_all.record_ns(latency_ns);
        }
        _ => {}
    }
}

/// A message's topic, number and time of its first sending.
fn read(topic: &str, payload: &[u8]) -> Option<(usize, u64, u64)> {
    let topic = topic.strip_prefix(PREFIX)?.parse().ok().filter(|topic| *topic < PUBLISHERS)?;
    let (number, sent_ns) = std::str::from_utf8(payload).ok()?.split_once(' ')?;
    Some((topic, number.parse().ok()?, sent_ns.parse().ok()?))
}

/// One message after the other on one topic.
struct Publisher {
    client: Client,
    events: Events,
    topic: usize,
    interval: Duration,
    counts: Arc<Mutex<Counts>>,
    is_ending: Arc<AtomicBool>,
}

impl Publisher {
    fn run(self) {
        let mut next = Instant::now();
        for number in 1.. {
            if self.is_ending.load(Ordering::Relaxed) || !self.send(number) {
                break;
            }
            // A full queue of events would stop the client.
            while self.events.next_within(Duration::ZERO).is_ok() {}
            // After a failover, missed messages are skipped.
            next = (next + self.interval).max(Instant::now() - self.interval);
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        self.client.close();
    }

    /// Sends a message until it is acknowledged. False if the client has stopped.
    fn send(&self, number: u64) -> bool {
        let (topic, began) = (format!("{PREFIX}{}", self.topic), Instant::now());
        let payload = format!("{number} {}", Clock::Monotonic.now_ns());
        loop {
            let once = Once::Producer { id: topic.clone().into_bytes(), sequence: number };
            let options = PublishOptions { once: Some(once), ..PublishOptions::default() };
            let pending = self.client.publish(&topic, payload.clone(), options);
            let answer = pending.and_then(client::Pending::wait);
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            match answer {
                Ok(_) => {
                    counts.audit.acknowledge(self.topic);
                    counts.silence_max = counts.silence_max.max(began.elapsed());
                    return true;
                }
                Err(RequestError::Refused(_)) => counts.refusals += 1,
                Err(_) => return false,
            }
            drop(counts);
            thread::sleep(PAUSE);
        }
    }
}

/// Waits until this holds.
///
/// # Errors
/// It does not hold in time; the text is `what`.
pub fn wait_until(
    what: &str,
    patience: Duration,
    mut is_so: impl FnMut() -> bool,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + patience;
    while !is_so() {
        (Instant::now() < deadline).then_some(()).with_context(|| format!("no {what} in time"))?;
        thread::sleep(PAUSE / 10);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_topic_number_and_time() {
        assert_eq!(read("demo/5", b"7 99"), Some((5, 7, 99)));
        for (topic, payload) in [("demo/6", "7 99"), ("other/1", "7 99"), ("demo/1", "7")] {
            assert_eq!(read(topic, payload.as_bytes()), None);
        }
    }

    #[test]
    fn clients_begin_at_different_nodes() {
        let urls = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(options(&urls, 0).urls, ["a", "b", "c"]);
        assert_eq!(options(&urls, 4).urls, ["b", "c", "a"]);
    }
}
