//! Mailboxes: the transport of batches of letters between shards.
//!
//! Steps 4 and 7 of the path. Each pair of shards has one batch per turn, in first-in first-out
//! order, and one wake-up. Credit bounds their contents: edges and homes decide how much may be in
//! flight (`broker::mail`), not this module.

use crate::asker::Asker;
use crate::engine_thread::ToEngine;
use crate::logs::LogStatistics;
use crate::orders::{LogOrder, Order};
use crate::slow_decisions::Decided;
use crate::timing::{Stamps, Timings};
use broker::disk::{DiskLetter, DiskRequest};
use broker::edge::EdgeStatistics;
use broker::engine::{EngineLetter, EngineRequest};
use broker::home::HomeStatistics;
use broker::inspect::Question;
use broker::mail::{ToEdge, ToHome};
use broker::settings::Settings;
use broker::sys::OwnMessage;
use net::Wake;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use stdx::memory::Components;

/// A message from one shard to another, or from the node to a shard.
#[derive(Debug)]
pub enum Post {
    /// From an edge to a home.
    Requests {
        /// The sending edge.
        from: u16,
        /// Time stamps, for measurement.
        stamps: Stamps,
        /// The letters, in order.
        requests: Vec<ToHome>,
    },
    /// From a home to an edge.
    Letters {
        /// The sending home.
        from: u16,
        /// Time stamps, for measurement.
        stamps: Stamps,
        /// The letters, in order.
        letters: Vec<ToEdge>,
    },
    /// From a log thread to a home.
    Disk {
        /// The log, by its index in the settings.
        log: u16,
        /// The earliest start of the publications that are durable by now ([`Stamps::since_us`]).
        since_us: u64,
        /// The letters, in order.
        letters: Vec<DiskLetter>,
    },
    /// From the engine's thread to a home.
    Engine {
        /// The letters, in order.
        letters: Vec<EngineLetter>,
    },
    /// A request from the node.
    Control(Control),
}

/// A request of the node to a shard, or the answer of a thread beside it.
#[derive(Debug)]
pub enum Control {
    /// Report counters. The answer is dropped if the caller has stopped waiting.
    Report(Sender<Report>),
    /// Accept no further connections and drain the present ones, within this number of
    /// milliseconds.
    Drain {
        /// The window.
        window_ms: u64,
    },
    /// Publish on a topic of the node itself.
    Publish(OwnMessage),
    /// The living nodes of the cluster, by name.
    NodesLive(Arc<[String]>),
    /// A revocation was added: check all entitlements.
    Revoked,
    /// Apply these settings, which renew the previous ones.
    Settings(Arc<Settings>),
    /// The answer to a question that took long.
    Decided(Decided),
    /// Answer a question of an operator.
    Inspect(Question, Asker),
    /// A step of a live upgrade.
    Upgrade(Order),
    /// Stop the thread after this turn.
    Stop,
}

/// The report of a shard.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Counters of its edge role.
    pub edge: EdgeStatistics,
    /// Counters of its home role, if it has one.
    pub home: HomeStatistics,
    /// Durations of turns, mailboxes and messages.
    pub timings: Timings,
    /// Bytes of memory by component.
    pub memory: Components,
}

/// One shard's connection to the others. The simulator has its own implementation, to delay, refuse
/// and change batches.
pub trait Mailbox {
    /// Sends a batch to another shard and wakes it; the batch is there at that shard's next turn.
    fn send(&mut self, to: u16, post: Post);

    /// Sends a home's requests to a log thread, by the log's index in the settings, with the
    /// earliest start of their publications ([`Stamps::since_us`]).
    fn ask(&mut self, log: u16, since_us: u64, requests: Vec<DiskRequest>);

    /// Sends a home's requests to the engine.
    fn ask_engine(&mut self, requests: Vec<EngineRequest>) {
        debug_assert!(requests.is_empty(), "no log is in an engine");
    }

    /// Takes the received messages, in each sender's order.
    fn receive(&mut self, posts: &mut Vec<Post>);

    /// Takes the received messages, but waits for the first for at most this time. For shards that
    /// do not wait for their network.
    fn wait(&mut self, posts: &mut Vec<Post>, patience: Duration) {
        let _ = patience;
        self.receive(posts);
    }

    /// The shard's own address, for threads that work for it; none if it has no threads.
    fn address(&self) -> Option<Address> {
        None
    }

    /// Numbers of batches sent to other shards and logs, and received from them, since the start.
    fn counts(&self) -> (u64, u64) {
        (0, 0)
    }
}

/// Mailboxes between threads.
pub struct ThreadMailbox {
    shard: u16,
    incoming: Receiver<Post>,
    others: Arc<[Address]>,
    /// Senders by the logs' indexes; none for a log in memory.
    logs: Arc<[Option<Sender<ToLog>>]>,
    engine: Option<Sender<ToEngine>>,
    sent: u64,
    received: u64,
}

/// A message to a log thread.
#[derive(Debug)]
pub(crate) enum ToLog {
    /// Requests of a home.
    Requests {
        /// The sending home.
        from: u16,
        /// The earliest start of their publications ([`Stamps::since_us`]).
        since_us: u64,
        /// The requests, in order.
        requests: Vec<DiskRequest>,
    },
    /// Report counters.
    Report(Sender<LogStatistics>),
    /// A step of a live upgrade.
    Upgrade(LogOrder),
    /// Process everything before this, close the log cleanly, and stop.
    Stop,
}

/// The address of a shard.
#[derive(Clone)]
pub struct Address {
    sender: Sender<Post>,
    waker: Arc<dyn Wake>,
}

impl Address {
    /// Sends from outside the shards.
    pub fn send(&self, post: Post) {
        // A stopped shard accepts nothing.
        if self.sender.send(post).is_ok() {
            self.waker.wake();
        }
    }
}

impl ThreadMailbox {
    /// Creates mailboxes for as many shards as there are wakers, and their addresses.
    pub(crate) fn mesh(
        wakers: Vec<Arc<dyn Wake>>,
        logs: Arc<[Option<Sender<ToLog>>]>,
        engine: Option<Sender<ToEngine>>,
    ) -> (Vec<ThreadMailbox>, Arc<[Address]>) {
        let mut receivers = Vec::new();
        let mut addresses = Vec::new();
        for waker in wakers {
            let (sender, receiver) = channel();
            receivers.push(receiver);
            addresses.push(Address { sender, waker });
        }
        let others: Arc<[Address]> = addresses.into();
        let mailboxes = (0..)
            .zip(receivers)
            .map(|(shard, incoming)| ThreadMailbox {
                shard,
                incoming,
                others: others.clone(),
                logs: logs.clone(),
                engine: engine.clone(),
                sent: 0,
                received: 0,
            })
            .collect();
        (mailboxes, others)
    }
}

impl Mailbox for ThreadMailbox {
    fn send(&mut self, to: u16, post: Post) {
        self.sent += 1;
        self.others[usize::from(to)].send(post);
    }

    fn ask(&mut self, log: u16, since_us: u64, requests: Vec<DiskRequest>) {
        if let Some(Some(log)) = self.logs.get(usize::from(log)) {
            let from = self.shard;
            self.sent += 1;
            // A stopped log thread accepts nothing; the node is about to stop, too.
            let _ = log.send(ToLog::Requests { from, since_us, requests });
        }
    }

    fn ask_engine(&mut self, requests: Vec<EngineRequest>) {
        if let Some(engine) = &self.engine {
            self.sent += 1;
            // A stopped thread accepts nothing; the node is about to stop, too.
            let _ = engine.send(ToEngine::Requests { from: self.shard, requests });
        }
    }

    fn receive(&mut self, posts: &mut Vec<Post>) {
        let before = posts.len();
        posts.extend(self.incoming.try_iter());
        self.count(&posts[before..]);
    }

    fn wait(&mut self, posts: &mut Vec<Post>, patience: Duration) {
        if let Ok(first) = self.incoming.recv_timeout(patience) {
            self.count(std::slice::from_ref(&first));
            posts.push(first);
            self.receive(posts);
        }
    }

    fn address(&self) -> Option<Address> {
        self.others.get(usize::from(self.shard)).cloned()
    }

    fn counts(&self) -> (u64, u64) {
        (self.sent, self.received)
    }
}

impl ThreadMailbox {
    fn count(&mut self, posts: &[Post]) {
        let is_mail = |post: &&Post| !matches!(post, Post::Control(_));
        self.received += posts.iter().filter(is_mail).count() as u64;
    }
}
