//! One subscriber of all topics: the Rust client, as an application uses it.
//!
//! The witness counts into the same [`Tally`] as the subscribers of the load, so that the same
//! checks apply to both. The client reconnects by itself and resumes from its position; this module
//! checks the numbers of each stream.

use bench::engine::Tally;
use bench::payload::{Clock, Header};
use bench::verify::{Faults, Stream};
use client::{Client, ConnectError, Event, Events, Message, Options, RequestError, Start};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The subscriber. Dropping it stops it.
pub struct Witness {
    client: Client,
    counted: Arc<Mutex<Tally>>,
    thread: Option<JoinHandle<()>>,
}

impl Witness {
    /// Subscribes to the filter at this node.
    ///
    /// # Errors
    /// The client cannot be created.
    pub fn start(url: &str, filter: &str) -> anyhow::Result<Witness> {
        let (client, events) = connect(url)?;
        client
            .subscribe(filter, Start::Live)
            .map_err(|error: RequestError| anyhow::anyhow!("{error}"))?;
        let counted = Arc::new(Mutex::new(Tally::default()));
        let shared = Arc::clone(&counted);
        let thread = std::thread::spawn(move || Checker::default().run(events, &shared));
        Ok(Witness { client, counted, thread: Some(thread) })
    }

    /// Number of messages since the last [`Witness::take`].
    pub fn messages(&self) -> u64 {
        lock(&self.counted).messages
    }

    /// Whether the subscription is established, and no replay is running.
    pub fn is_live(&self) -> bool {
        lock(&self.counted).clients_live > 0
    }

    /// Takes all figures since the last call.
    pub fn take(&self) -> Tally {
        let mut counted = lock(&self.counted);
        let taken = counted.clone();
        counted.clear();
        // These are states, not counts.
        counted.connections = taken.connections;
        counted.clients_live = taken.clients_live;
        taken
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.client.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn connect(url: &str) -> Result<(Client, Events), ConnectError> {
    Client::connect(Options::new(url))
}

/// The thread's state of the streams.
#[derive(Default)]
struct Checker {
    streams: HashMap<Arc<str>, Stream>,
    is_replaying: bool,
}

impl Checker {
    fn run(mut self, events: Events, counted: &Mutex<Tally>) {
        for event in events {
            self.take(&event, &mut lock(counted));
        }
    }

    fn take(&mut self, event: &Event, tally: &mut Tally) {
        match event {
            Event::Connected { .. } => tally.connections = 1,
            Event::Subscribed { replaying, .. } => {
                self.is_replaying = *replaying;
                tally.clients_live = i64::from(!replaying);
            }
            // The log has one partition, so the replay ends once.
            Event::CaughtUp { .. } => {
                self.is_replaying = false;
                tally.clients_live = 1;
            }
            Event::Message(message) => self.check(message, tally),
            Event::Gap { .. } => tally.gaps += 1,
            Event::Skipped { .. } => tally.skipped += 1,
            Event::Disconnected { .. } => {
                // A failed attempt has the same event, but is not a lost connection.
                tally.disconnects += tally.connections.unsigned_abs();
                tally.connections = 0;
                tally.clients_live = 0;
            }
            _ => {}
        }
    }

    fn check(&mut self, message: &Message, tally: &mut Tally) {
        tally.received += 1;
        let Some(header) = Header::read(&message.payload) else {
            tally.foreign += 1;
            return;
        };
        let stream = self.streams.entry(Arc::clone(&message.topic)).or_default();
        let mut faults = Faults::default();
        let is_new = stream.check_sequence(&header, &mut faults);
        tally.faults += faults;
        tally.messages += u64::from(is_new);
        tally.recovered += u64::from(is_new && self.is_replaying);
        let now_ns = Clock::Monotonic.now_ns();
        tally.latency.record_ns(now_ns.saturating_sub(header.intended_ns));
    }
}

fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench::payload::topic_hash;
    use client::{GapCause, Position, Reason, SubscriptionId};
    use stdx::prng::Prng;

    const SUBSCRIPTION: SubscriptionId = SubscriptionId(1);

    fn subscribed(replaying: bool) -> Event {
        Event::Subscribed {
            subscription: SUBSCRIPTION,
            filter: "load/#".into(),
            position: None,
            replaying,
        }
    }

    fn message(sequence: u64) -> Event {
        let header = Header {
            clock: Clock::Monotonic,
            publisher: 7,
            topic_hash: topic_hash("load/1"),
            intended_ns: Clock::Monotonic.now_ns(),
            sequence,
        };
        let mut payload = Vec::new();
        header.write(64, &mut Prng::new(1), &mut payload);
        Event::Message(Message {
            subscription: Some(SUBSCRIPTION),
            also: Vec::new(),
            topic: "load/1".into(),
            position: Position { epoch: 1, offset: sequence },
            partition: Some(0),
            prev: sequence - 1,
            payload,
            content_type: None,
            tags: Vec::new(),
            retained: false,
            time_ms: None,
        })
    }

    fn caught_up() -> Event {
        Event::CaughtUp {
            subscription: SUBSCRIPTION,
            filter: "load/#".into(),
            partition: Some(0),
            position: Position::default(),
            complete: true,
        }
    }

    fn connected() -> Event {
        Event::Connected { connection: 1, node: None }
    }

    fn disconnected() -> Event {
        Event::Disconnected { reason: Reason::Ended, retry_in_ms: Some(1) }
    }

    fn counted(events: &[Event]) -> Tally {
        let (mut checker, mut tally) = (Checker::default(), Tally::default());
        for event in events {
            checker.take(event, &mut tally);
        }
        tally
    }

    #[test]
    fn what_a_replay_brings_is_recovered() {
        let tally = counted(&[
            connected(),
            subscribed(false),
            message(1),
            disconnected(),
            disconnected(),
            connected(),
            subscribed(true),
            message(2),
            message(3),
            caught_up(),
            message(4),
        ]);
        assert!(tally.is_clean());
        assert_eq!((tally.messages, tally.recovered), (4, 2));
        assert_eq!((tally.disconnects, tally.clients_live), (1, 1));
    }

    #[test]
    fn what_is_not_as_promised_is_counted() {
        let tally = counted(&[connected(), subscribed(false), message(1), message(3)]);
        assert_eq!((tally.faults.lost, tally.messages), (1, 2));
        let tally = counted(&[subscribed(false), message(1), message(2), message(1)]);
        assert_eq!((tally.faults.repeated, tally.messages), (1, 2));
        let gap = Event::Gap {
            subscription: SUBSCRIPTION,
            filter: "load/#".into(),
            partition: None,
            from: None,
            to: None,
            cause: GapCause::Reconnected,
        };
        assert_eq!(counted(&[gap]).gaps, 1);
    }
}
