//! Mailboxes: how batches of letters cross between shards.
//!
//! Step 4 and 7 of the path. One batch for each pair of shards and turn, first in, first out for each pair, and one
//! wake-up. Bounded by credit: what may be on its way is decided by edges and homes (`broker::mail`), not here.

use broker::edge::EdgeStatistics;
use broker::home::HomeStatistics;
use broker::mail::{Letter, Request};
use net::Wake;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// What one shard sends another, or the node sends a shard.
#[derive(Debug)]
pub enum Post {
    /// From an edge to a home.
    Requests {
        /// The edge.
        from: u16,
        /// In order.
        requests: Vec<Request>,
    },
    /// From a home to an edge.
    Letters {
        /// The home.
        from: u16,
        /// In order.
        letters: Vec<Letter>,
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
    /// Turns taken.
    pub turns: u64,
    /// Of these: turns that took over 10 milliseconds of work.
    pub long_turns: u64,
}

/// One shard's way to the others. The simulator has its own, to delay, refuse and change what crosses.
pub trait Mailbox {
    /// Hands a batch to another shard; it is there when that shard takes its next turn, and the shard is woken.
    fn send(&mut self, to: u16, post: Post);

    /// Takes what has come, in each sender's order.
    fn receive(&mut self, posts: &mut Vec<Post>);
}

/// Mailboxes between threads.
pub struct ThreadMailbox {
    incoming: Receiver<Post>,
    others: Arc<[Address]>,
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
    pub fn mesh(wakers: Vec<Arc<dyn Wake>>) -> (Vec<ThreadMailbox>, Arc<[Address]>) {
        let mut receivers = Vec::new();
        let mut addresses = Vec::new();
        for waker in wakers {
            let (sender, receiver) = channel();
            receivers.push(receiver);
            addresses.push(Address { sender, waker });
        }
        let others: Arc<[Address]> = addresses.into();
        let mailboxes = receivers
            .into_iter()
            .map(|incoming| ThreadMailbox {
                incoming,
                others: others.clone(),
            })
            .collect();
        (mailboxes, others)
    }
}

impl Mailbox for ThreadMailbox {
    fn send(&mut self, to: u16, post: Post) {
        self.others[usize::from(to)].send(post);
    }

    fn receive(&mut self, posts: &mut Vec<Post>) {
        posts.extend(self.incoming.try_iter());
    }
}
