//! The exchange between the edge and the home of a thread, and with other shards; and the edge's
//! outputs for the network.
//!
//! Steps 4 and 6 of the path.

use super::{Clock, Reactor};
use crate::mailbox::{Mailbox, Post};
use crate::timing::Stamps;
use net::{Close, Net};
use std::time::Duration;

impl<N: Net, M: Mailbox, C: Clock> Reactor<N, M, C> {
    /// Lets homes answer requests and edges process letters until this thread has nothing left for
    /// itself, posts the rest, and carries out the edge's outputs.
    pub(super) fn exchange(&mut self) {
        while self.exchange_once() {}
        self.post_letters();
        for (log, requests) in (0..).zip(&mut self.home_out.disk) {
            if !requests.is_empty() {
                self.mailbox.ask(log, self.watch.since_us(), std::mem::take(requests));
            }
        }
        if !self.home_out.engine.is_empty() {
            self.mailbox.ask_engine(std::mem::take(&mut self.home_out.engine));
        }
        self.watch.posted();
        if !self.edge.out.answers.is_empty() {
            self.answer_operators();
        }
        if !self.edge.out.clients.is_empty() {
            self.change_clients();
        }
        if !self.edge.out.users.is_empty() {
            self.change_users();
        }
        for (conn, at_once) in self.edge.out.closes.drain(..) {
            if let Some(door) = &mut self.door {
                door.leave(conn, self.now);
            }
            self.net.close(conn, if at_once { Close::Reset } else { Close::Graceful });
        }
        for (conn, within_ms) in self.edge.out.acknowledged_within_ms.drain(..) {
            let within = Duration::from_millis(within_ms);
            self.net.expect_acknowledgements(conn, within);
        }
        if !self.edge.out.readable.is_empty() {
            self.ready.extend(self.edge.out.readable.drain(..));
        }
    }

    /// Posts requests to other homes, and processes those of this thread and its letters; returns
    /// whether there were any, because they may have caused others.
    fn exchange_once(&mut self) -> bool {
        let own = usize::from(self.id);
        let mut has_own = false;
        for home in 0..self.edge.out.requests.len() {
            if self.edge.out.requests[home].is_empty() {
                continue;
            }
            let since_us = self.watch.began_us;
            if home == own {
                has_own = true;
                let mut requests = std::mem::take(&mut self.edge.out.requests[home]);
                self.give_home(self.id, since_us, &mut requests);
                put_back(requests, &mut self.edge.out.requests[home]);
            } else {
                let stamps = Stamps { sent_us: self.clock.monotonic_us(), since_us };
                let requests = take_list(&mut self.edge.out.requests[home]);
                self.mailbox.send(home as u16, Post::Requests { from: self.id, stamps, requests });
            }
        }
        if !self.home_out.letters[own].is_empty() {
            has_own = true;
            let mut letters = std::mem::take(&mut self.home_out.letters[own]);
            self.give_edge(self.id, self.watch.since_us(), &mut letters);
            put_back(letters, &mut self.home_out.letters[own]);
        }
        if !self.home_out.occupancy.is_empty() {
            has_own = true;
            for occupancy in std::mem::take(&mut self.home_out.occupancy) {
                self.edge.publish_occupancy(&occupancy);
            }
        }
        has_own
    }

    /// Asks the network about connections that are due for a ping.
    pub(super) fn ask_about_silent(&mut self) {
        let Some(silent) = self.edge.out.silent.as_mut().filter(|silent| !silent.is_empty()) else {
            return;
        };
        let mut asked = std::mem::take(silent);
        for conn in asked.drain(..) {
            self.edge.heard(conn, self.net.heard(conn));
        }
        self.edge.out.silent = Some(asked);
    }

    /// Posts letters to the edges of other threads.
    fn post_letters(&mut self) {
        for edge in 0..self.home_out.letters.len() {
            if !self.home_out.letters[edge].is_empty() {
                let letters = take_list(&mut self.home_out.letters[edge]);
                let since_us = self.watch.since_us();
                let stamps = Stamps { sent_us: self.clock.monotonic_us(), since_us };
                self.mailbox.send(edge as u16, Post::Letters { from: self.id, stamps, letters });
            }
        }
    }
}

/// Lists of a thread's own letters and requests keep their memory up to this length.
const KEPT_LIST_LEN_MAX: usize = 1_024;

/// Lists that go to another thread leave room for as many values again from this length on: a list
/// that grows from nothing in each turn is copied ten times.
const LONG_LIST_LEN: usize = 64;
/// Maximum number of values for which such a list leaves room. Each pair of threads may have one.
const ROOM_LEN_MAX: usize = 256;

/// Takes a list for another thread.
fn take_list<T>(list: &mut Vec<T>) -> Vec<T> {
    let room = if list.len() < LONG_LIST_LEN { 0 } else { list.len().min(ROOM_LEN_MAX) };
    std::mem::replace(list, Vec::with_capacity(room))
}

/// Returns an emptied list to its owner, unless the owner has a new one or it has grown large.
fn put_back<T>(list: Vec<T>, place: &mut Vec<T>) {
    if place.is_empty() && list.capacity() <= KEPT_LIST_LEN_MAX {
        *place = list;
    }
}
