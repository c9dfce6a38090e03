//! Live upgrades: another process replaces the node while messages flow.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::PATIENCE;
use crate::native::{Frame, Native};
use crate::server::Server;

/// The number of publications in flight.
const WINDOW: u64 = 16;
/// The last message of a flow.
const END: &str = "end";

/// One publisher that always has publications in flight, on its own topic, and a subscriber. Both
/// check: every publication is acknowledged once, in order; every message arrives once, in order,
/// at a higher offset; no client receives a gap or loses its connection.
#[derive(Debug)]
pub struct Flow {
    publisher: JoinHandle<()>,
    subscriber: JoinHandle<u64>,
    progress: Arc<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    acknowledged: u64,
    is_to_end: bool,
    has_ended: bool,
}

impl Progress {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the number of acknowledgements. True if the flow must end.
    fn note(&self, acknowledged: u64) -> bool {
        let mut state = self.state();
        state.acknowledged = acknowledged;
        self.changed.notify_all();
        state.is_to_end
    }
}

/// Reports the end of a thread, whatever its cause.
struct Ending(Arc<Progress>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.state().has_ended = true;
        self.0.changed.notify_all();
    }
}

impl Flow {
    /// Starts a flow. The subscriber subscribes to `filter`, which must match the topic and no
    /// other used one.
    pub fn begin(server: &Server, topic: &str, filter: &str) -> Flow {
        let (mut subscriber, _) = Native::connect(&server.clients, None);
        let answer = subscriber.subscribe_one(1, filter);
        assert!(matches!(answer, Frame::Subscribed { .. }), "{answer:?}");
        let (publisher, _) = Native::connect(&server.clients, None);
        let progress = Arc::new(Progress::default());
        let topic = topic.to_owned();
        let [publishing, receiving] = [(); 2].map(|()| Ending(progress.clone()));
        Flow {
            publisher: thread::spawn(move || publish(publisher, &topic, &publishing.0)),
            subscriber: thread::spawn(move || {
                let _receiving = receiving;
                receive(subscriber)
            }),
            progress,
        }
    }

    /// Waits until this number of further publications is acknowledged.
    #[track_caller]
    pub fn wait_for_more(&self, count: u64) {
        let state = self.progress.state();
        let wanted = state.acknowledged + count;
        let is_missing = |state: &mut State| state.acknowledged < wanted && !state.has_ended;
        let changed = &self.progress.changed;
        let waited = changed.wait_timeout_while(state, PATIENCE, is_missing);
        let (state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!state.has_ended, "somebody has ended");
        assert!(!waited.timed_out(), "the flow stopped");
    }

    /// Stops it; returns the number of messages. Message `n` has the payload `n`.
    pub fn end(self) -> u64 {
        self.progress.state().is_to_end = true;
        self.publisher.join().expect("a publisher without faults");
        self.subscriber.join().expect("a subscriber without faults")
    }
}

fn publish(mut native: Native, topic: &str, progress: &Progress) {
    let (mut sent, mut acknowledged) = (0, 0);
    let mut ends = false;
    loop {
        while !ends && sent < acknowledged + WINDOW {
            sent += 1;
            native.publish(sent, topic, &(sent - 1).to_string());
        }
        if acknowledged == sent {
            break;
        }
        acknowledged += 1;
        assert_eq!(native.next_frame(), Frame::Published(acknowledged));
        ends |= progress.note(acknowledged);
    }
    native.publish(sent + 1, topic, END);
    assert_eq!(native.next_frame(), Frame::Published(sent + 1));
}

fn receive(mut native: Native) -> u64 {
    let (mut count, mut last) = (0, 0);
    loop {
        match native.next_frame() {
            Frame::Message { payload, offset, .. } => {
                assert!(offset > last, "{offset} after {last}");
                last = offset;
                if payload == END {
                    return count;
                }
                assert_eq!(payload, count.to_string());
                count += 1;
            }
            // It was lagging.
            Frame::CaughtUp(_) => {}
            other => panic!("a message was expected after {count}: {other:?}"),
        }
    }
}
