//! The simulated mailboxes: first in, first out for each pair of shards, with seeded delays, in any
//! order between pairs.

use crate::disks::Disks;
use crate::faults::MailFaults;
use crate::mutation::Saboteur;
use crate::network::fold;
use broker::disk::DiskRequest;
use node::mailbox::{Control, Mailbox, Post};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use stdx::prng::Prng;

/// All mailboxes of a node.
pub struct Mesh {
    shards: usize,
    /// Batches with their times of arrival, by `from * shards + to`.
    queues: Vec<VecDeque<(u64, Post)>>,
    random: Prng,
    /// The faults.
    pub faults: MailFaults,
    /// Virtual milliseconds.
    pub now_ms: u64,
    /// A hash of all batches.
    pub hash: u64,
    /// The number of letters and requests.
    pub posts: u64,
    pub(crate) saboteur: Saboteur,
}

impl Mesh {
    /// Creates empty mailboxes between shards.
    pub fn new(shards: usize, random: Prng, faults: MailFaults, saboteur: Saboteur) -> Mesh {
        Mesh {
            shards,
            queues: (0..shards * shards).map(|_| VecDeque::new()).collect(),
            random,
            faults,
            now_ms: 0,
            hash: 0,
            posts: 0,
            saboteur,
        }
    }

    /// Drops all batches, because the node died.
    pub fn crash(&mut self) {
        self.queues.iter_mut().for_each(VecDeque::clear);
    }

    /// Sends a control message of the node to all its shards.
    pub fn tell_all(&mut self, control: impl Fn() -> Control) {
        (0..self.shards).for_each(|to| self.tell(to, control()));
    }

    /// Sends a control message of the node to one shard.
    pub fn tell(&mut self, to: usize, control: Control) {
        let queue = &mut self.queues[to * self.shards + to];
        let after = queue.back().map_or(0, |(due, _)| *due);
        queue.push_back((self.now_ms.max(after), Post::Control(control)));
    }

    pub(crate) fn send(&mut self, from: usize, to: usize, post: Post) {
        let post = self.saboteur.on_post(to as u16, post);
        let len = match &post {
            Post::Requests { requests, .. } => requests.len(),
            Post::Letters { letters, .. } => letters.len(),
            Post::Control(_) | Post::Disk { .. } | Post::Engine { .. } => 0,
        };
        self.posts += len as u64;
        self.hash = fold(self.hash, (from as u64) << 48 | (to as u64) << 32 | len as u64);
        let queue = &mut self.queues[from * self.shards + to];
        let delay = self.random.below(self.faults.delay_ms_max + 1);
        let after = queue.back().map_or(0, |(due, _)| *due);
        queue.push_back(((self.now_ms + delay).max(after), post));
    }

    pub(crate) fn receive(&mut self, to: usize, posts: &mut Vec<Post>) {
        let mut senders: Vec<usize> = (0..self.shards).collect();
        self.random.shuffle(&mut senders);
        for from in senders {
            let queue = &mut self.queues[from * self.shards + to];
            while queue.front().is_some_and(|(due, _)| *due <= self.now_ms) {
                if self.random.chance(self.faults.late) {
                    break;
                }
                posts.extend(queue.pop_front().map(|(_, post)| post));
            }
        }
    }

    /// The time when the next batch for a shard arrives.
    pub fn due_ms(&self, to: usize) -> Option<u64> {
        (0..self.shards)
            .filter_map(|from| self.queues[from * self.shards + to].front())
            .map(|(due, _)| *due)
            .min()
    }
}

/// The mailbox of one shard.
pub struct SimMailbox {
    mesh: Rc<RefCell<Mesh>>,
    disks: Rc<RefCell<Disks>>,
    shard: usize,
}

impl SimMailbox {
    /// Creates the mailbox of one shard.
    pub fn new(mesh: Rc<RefCell<Mesh>>, disks: Rc<RefCell<Disks>>, shard: usize) -> SimMailbox {
        SimMailbox { mesh, disks, shard }
    }
}

impl Mailbox for SimMailbox {
    fn send(&mut self, to: u16, post: Post) {
        self.mesh.borrow_mut().send(self.shard, usize::from(to), post);
    }

    fn ask(&mut self, log: u16, _: u64, requests: Vec<DiskRequest>) {
        self.disks.borrow_mut().ask(log, self.shard, requests);
    }

    fn receive(&mut self, posts: &mut Vec<Post>) {
        self.disks.borrow_mut().receive(self.shard, posts);
        self.mesh.borrow_mut().receive(self.shard, posts);
    }
}
