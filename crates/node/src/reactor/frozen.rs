//! A reactor while its shard is being handed over: it hears other shards and serves nobody.
//!
//! Invariants: what is on its way between shards arrives and is dealt with, and calls forth ever less, since nothing comes from
//! clients, no page is asked for that no socket has room for, and homes serve waiting pages in ordinary turns only. What the node
//! itself wants of the shard waits until it thaws, and is given up where it does not.

use super::{Clock, Reactor, Turn};
use crate::mailbox::{Control, Mailbox, Post};
use crate::upgrade::Order;
use net::Net;
use std::io;
use std::time::Duration;

impl<N: Net, M: Mailbox, C: Clock> Reactor<N, M, C> {
    /// The next step of a live upgrade, if one has come.
    pub(crate) fn take_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// The next turn does not wait.
    pub(crate) fn turn_soon(&mut self) {
        self.turn_soon = true;
    }

    /// An ordinary turn that does not wait.
    pub(crate) fn turn_at_once(&mut self) -> io::Result<Turn> {
        self.turn_soon = true;
        self.turn()
    }

    /// Deals with what other shards send within so long, and with nothing else.
    pub(crate) fn frozen_turn(&mut self, patience: Duration) -> Turn {
        let mut posts = std::mem::take(&mut self.posts);
        self.mailbox.wait(&mut posts, patience);
        let (now, now_us) = self.clock.now_and_us();
        self.now = now;
        self.watch.begin(now_us);
        // What the node itself wants would put something on its way that nobody counts any more.
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
        // Who has just been let in may ask a home: nothing is left here that nobody counts.
        while {
            self.exchange();
            self.edge.out.requests.iter().any(|of| !of.is_empty())
        } {}
        if !self.edge.out.journal.is_empty() {
            self.hand_over_journal();
        }
        self.watch.end(self.clock.monotonic_us());
        match self.stopping {
            true => Turn::Stop,
            false => Turn::Continue,
        }
    }

    /// Batches sent to others, and come from others.
    pub(crate) fn mail_counts(&self) -> (u64, u64) {
        self.mailbox.counts()
    }

    /// Accepts nobody until [`Reactor::thaw`].
    pub(crate) fn hold_accepting(&mut self) {
        self.is_held = true;
        self.net.pause_accepting();
    }

    /// Serves again, as before.
    pub(crate) fn thaw(&mut self) {
        if std::mem::take(&mut self.is_held) && !self.is_draining {
            self.net.resume_accepting();
        }
        // They come before whatever comes next.
        self.posts.append(&mut self.held);
        self.turn_soon = true;
    }
}
