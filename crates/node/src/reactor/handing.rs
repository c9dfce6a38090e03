//! Hand-over of a reactor to the next process: the whole state of its shard, between two turns.
//!
//! The network, the mailboxes and the memory belong to the caller, which hands over their
//! descriptors. Letters in flight are in no state, so the caller makes sure that there are none, or
//! that they arrive (see `crate::upgrade`).
//!
//! Two parts begin anew: the measurements, and the callers of operators' questions. Later answers
//! of homes are ignored, and the callers get the error of a slow shard.

use super::{Reactor, ReactorParts};
use crate::door::Counted;
use crate::mailbox::Mailbox;
use crate::reactor::Clock;
use broker::edge::Edge;
use broker::handing::TakeOverError;
use broker::home::Home;
use broker::settings::Settings;
use net::{Conn, Net};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use stdx::handing::{Hand, Input, Layout};
use stdx::rate::Bucket;

/// A number for the layout of a shard's state: processes with the same number understand each
/// other.
pub fn state_layout() -> u64 {
    stdx::handing::layout_of::<Shard>()
}

/// Increased when the meaning of a state changes without its layout.
const MEANING: &str = "2";

/// Only describes the parts of a shard's state.
struct Shard;

impl Hand for Shard {
    fn give(&self, _: &mut Vec<u8>) {}

    fn take(_: &mut Input<'_>) -> Option<Self> {
        None
    }

    fn layout(layout: &mut Layout) {
        layout.name(MEANING);
        Settings::layout(layout);
        Edge::layout(layout);
        Home::layout(layout);
        crate::authenticating::layout(layout);
        crate::engine_worker::layout(layout);
        crate::logs::layout(layout);
        crate::proxied::layout(layout);
        tls::layout(layout);
        layout.name("pace, counted, pressed, is_draining, ready, pump_again, questions, now");
    }
}

impl<N: Net, M: Mailbox, C: Clock> Reactor<N, M, C> {
    /// Appends the whole state of the shard, settings included.
    pub fn hand_over(&self, out: &mut Vec<u8>) {
        debug_assert!(self.home_out.letters.iter().all(Vec::is_empty));
        self.edge.settings().give(out);
        self.edge.hand_over(out);
        self.home.is_some().give(out);
        if let Some(home) = &self.home {
            home.hand_over(out);
        }
        self.authenticating.hand_over(out);
        self.door.is_some().give(out);
        if let Some(door) = &self.door {
            door.hand_over(out);
        }
        self.pressed.give(out);
        self.is_draining.give(out);
        self.ready.give(out);
        self.pump_again.give(out);
        self.inspecting.give(out);
        self.now.give(out);
    }

    /// Creates the handed-over reactor. Settings and home of the parts must be those of the state,
    /// the memory must have the segments that the state names, and the network the connections. The
    /// connections count for their users, addresses and listeners from now on.
    ///
    /// # Errors
    /// The bytes are malformed, or memory is missing.
    pub fn take_over(
        parts: ReactorParts<N, M, C>,
        input: &mut Input<'_>,
    ) -> Result<Self, TakeOverError> {
        let malformed = TakeOverError::Malformed;
        let settings = <Arc<Settings>>::take(input).ok_or(malformed)?;
        let mut reactor =
            Reactor::new(ReactorParts { settings: settings.clone(), home: None, ..parts });
        let silent = reactor.edge.out.silent.take();
        reactor.edge = Edge::take_over(settings.clone(), reactor.now, input)?;
        reactor.edge.out.silent = silent;
        reactor.home = if bool::take(input).ok_or(malformed)? {
            Some(Home::take_over(settings, input, &mut *reactor.memory)?)
        } else {
            None
        };
        reactor.take_rest(input).ok_or(malformed)?;
        Ok(reactor)
    }

    /// Counts the connections for their users, addresses and listeners.
    fn count_again(&mut self, counted: &[(u32, IpAddr)]) {
        let Reactor { edge, users, door, net, .. } = self;
        edge.counted_users().for_each(|user| users.count(&user.user));
        if let Some(door) = door {
            for conn in edge.connections() {
                let place = counted.binary_search_by_key(&conn.index, |(index, _)| *index);
                let address = place.ok().map(|place| counted[place].1);
                door.count_again(conn, address, net.is_encrypted(conn));
            }
        }
    }

    fn take_rest(&mut self, input: &mut Input<'_>) -> Option<()> {
        self.authenticating.take_over(input)?;
        let mut counted = Counted::new();
        if bool::take(input)? {
            let pace: Bucket = Hand::take(input)?;
            counted = Hand::take(input)?;
            self.door.iter_mut().for_each(|door| door.set_pace(pace));
        }
        self.pressed = Hand::take(input)?;
        self.is_draining = Hand::take(input)?;
        self.ready = <VecDeque<Conn>>::take(input)?;
        self.pump_again = Hand::take(input)?;
        self.inspecting.take(input)?;
        self.now = Hand::take(input)?;
        self.count_again(&counted);
        Some(())
    }
}
