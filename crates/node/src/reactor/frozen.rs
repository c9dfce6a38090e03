//! A reactor during the hand-over of its shard: it hears other shards and serves no clients.
//!
//! Invariants: letters in flight arrive and are processed, and cause fewer and fewer new ones,
//! because clients send nothing, no socket has room that would cause a page request, and homes
//! serve waiting pages only in ordinary turns. Requests of the node wait until the shard serves
//! again, and are dropped if it does not.

use super::{Clock, Reactor, Turn};
use crate::mailbox::{Control, Mailbox, Post};
use crate::orders::Order;
use net::Net;
use std::io;
use std::time::Duration;

impl<N: Net, M: Mailbox, C: Clock> Reactor<N, M, C> {
    /// The next step of a live upgrade, if one has arrived.
    pub(crate) fn take_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// Makes the next turn return without waiting.
    pub(crate) fn turn_soon(&mut self) {
        self.turn_soon = true;
    }

    /// Takes an ordinary turn without waiting.
    pub(crate) fn turn_at_once(&mut self) -> io::Result<Turn> {
        self.turn_soon = true;
        self.turn()
    }

    /// Processes messages of other shards that arrive within this time, and nothing else.
    pub(crate) fn frozen_turn(&mut self, patience: Duration) -> Turn {
        let mut posts = std::mem::take(&mut self.posts);
        self.mailbox.wait(&mut posts, patience);
        let (now, now_us) = self.clock.now_and_us();
        self.now = now;
        self.watch.begin(now_us);
        // Requests of the node would send letters that the coordinator does not count.
        let is_wish = |post: &mut Post| {
            let Post::Control(control) = post else {
                return false;
            };
            !matches!(control, Control::Upgrade(_) | Control::Report(_) | Control::Stop)
        };
        self.held.extend(posts.extract_if(.., is_wish));
        self.deal_with(&mut posts);
        self.posts = posts;
        self.exchange();
        if let Some(home) = &mut self.home {
            home.finish_turn(&mut self.home_out);
        }
        // A just admitted client may ask a home: nothing uncounted may remain here.
        while {
            self.exchange();
            self.edge.out.requests.iter().any(|of| !of.is_empty())
        } {}
        if !self.edge.out.journal.is_empty() {
            self.hand_over_journal();
        }
        self.watch.end(self.clock.monotonic_us());
        if self.stopping { Turn::Stop } else { Turn::Continue }
    }

    /// Numbers of batches sent to other shards, and received from them.
    pub(crate) fn mail_counts(&self) -> (u64, u64) {
        self.mailbox.counts()
    }

    /// Suspends accepting until [`Reactor::thaw`].
    pub(crate) fn hold_accepting(&mut self) {
        self.is_held = true;
        self.net.pause_accepting();
    }

    /// Serves again as before.
    pub(crate) fn thaw(&mut self) {
        if std::mem::take(&mut self.is_held) && !self.is_draining {
            self.net.resume_accepting();
        }
        // They precede later requests.
        self.posts.append(&mut self.held);
        self.turn_soon = true;
    }
}
