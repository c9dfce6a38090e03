//! Mailboxes: how batches of letters cross between shards.
//!
//! Step 4 and 7 of the path. One batch for each pair of shards and turn, first in, first out for each pair, and one
//! wake-up. Bounded by credit: what may be on its way is decided by edges and homes (`broker::mail`), not here.

use crate::inspection::Asker;
use crate::logs::LogStatistics;
use crate::timing::{Stamps, Timings};
use crate::upgrade::{LogOrder, Order};
use broker::disk::{DiskLetter, DiskRequest};
use broker::edge::EdgeStatistics;
use broker::home::HomeStatistics;
use broker::inspect::Question;
use broker::mail::{ToEdge, ToHome};
use broker::settings::Settings;
use net::Wake;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use stdx::memory::Components;

/// What one shard sends another, or the node sends a shard.
#[derive(Debug)]
pub enum Post {
    /// From an edge to a home.
    Requests {
        /// The edge.
        from: u16,
        /// For measurement.
        stamps: Stamps,
        /// In order.
        requests: Vec<ToHome>,
    },
    /// From a home to an edge.
    Letters {
        /// The home.
        from: u16,
        /// For measurement.
        stamps: Stamps,
        /// In order.
        letters: Vec<ToEdge>,
    },
    /// From a log thread to a home.
    Disk {
        /// The log, by its index in the settings.
        log: u16,
        /// Since when the publications that are durable by now have been on their way ([`Stamps::since_us`]).
        since_us: u64,
        /// In order.
        letters: Vec<DiskLetter>,
    },
    /// From the node.
    Control(Control),
}

/// What the node asks of a shard.
#[derive(Debug)]
pub enum Control {
    /// Report counters. The answer is dropped if nobody waits for it any more.
    Report(Sender<Report>),
    /// Take no further connections and lead those that are there away, over so many milliseconds.
    Drain {
        /// The window.
        window_ms: u64,
    },
    /// Publish on a topic of the node's own.
    Publish {
        /// Its name.
        topic: Box<str>,
        /// JSON.
        payload: Box<[u8]>,
    },
    /// Something was revoked: look through all entitlements.
    Revoked,
    /// Go by these settings from now on; they are those before, renewed.
    Settings(Arc<Settings>),
    /// Answer a question of an operator.
    Inspect(Question, Asker),
    /// A step of a live upgrade.
    Upgrade(Order),
    /// End the thread after this turn.
    Stop,
}

/// What a shard says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Of its edge role.
    pub edge: EdgeStatistics,
    /// Of its home role, if it has one.
    pub home: HomeStatistics,
    /// How long turns, mailboxes and messages took.
    pub timings: Timings,
    /// Bytes of memory by component.
    pub memory: Components,
}

/// One shard's way to the others. The simulator has its own, to delay, refuse and change what crosses.
pub trait Mailbox {
    /// Hands a batch to another shard; it is there when that shard takes its next turn, and the shard is woken.
    fn send(&mut self, to: u16, post: Post);

    /// Hands a home's requests to a log thread, by the log's index in the settings; their publications have been on their way
    /// since then ([`Stamps::since_us`]).
    fn ask(&mut self, log: u16, since_us: u64, requests: Vec<DiskRequest>);

    /// Takes what has come, in each sender's order.
    fn receive(&mut self, posts: &mut Vec<Post>);

    /// The same, but waits for the first for so long. For shards that do not wait for their network.
    fn wait(&mut self, posts: &mut Vec<Post>, patience: Duration) {
        let _ = patience;
        self.receive(posts);
    }

    /// Batches sent to other shards and to logs, and batches that have come from them; since the start.
    fn counts(&self) -> (u64, u64) {
        (0, 0)
    }
}

/// Mailboxes between threads.
pub struct ThreadMailbox {
    shard: u16,
    incoming: Receiver<Post>,
    others: Arc<[Address]>,
    /// By the logs' indexes; none for a log in memory.
    logs: Arc<[Option<Sender<ToLog>>]>,
    sent: u64,
    received: u64,
}

/// What a log thread is sent.
#[derive(Debug)]
pub(crate) enum ToLog {
    /// A home asks.
    Requests {
        /// The home.
        from: u16,
        /// Since when their publications have been on their way ([`Stamps::since_us`]).
        since_us: u64,
        /// In order.
        requests: Vec<DiskRequest>,
    },
    /// Report counters.
    Report(Sender<LogStatistics>),
    /// A step of a live upgrade.
    Upgrade(LogOrder),
    /// Do what has come before, end the log cleanly, and end.
    Stop,
}

/// Where a shard can be reached.
#[derive(Clone)]
pub struct Address {
    sender: Sender<Post>,
    waker: Arc<dyn Wake>,
}

impl Address {
    /// Sends from outside the shards, too.
    pub fn send(&self, post: Post) {
        // A shard that has ended takes nothing any more.
        if self.sender.send(post).is_ok() {
            self.waker.wake();
        }
    }
}

impl ThreadMailbox {
    /// Mailboxes for as many shards as there are wakers, and their addresses.
    pub(crate) fn mesh(
        wakers: Vec<Arc<dyn Wake>>,
        logs: Arc<[Option<Sender<ToLog>>]>,
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
            // A log thread that has ended takes nothing any more; the node is about to end, too.
            let _ = log.send(ToLog::Requests { from, since_us, requests });
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
