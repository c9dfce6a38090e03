//! The report of a reactor, between two turns.
//!
//! Invariant: its cost grows with the number of structures, never with the number of connections,
//! topics or messages.

use super::{Clock, Reactor};
use crate::door::Door;
use crate::mailbox::{Mailbox, Post, Report};
use broker::home::Home;
use net::{Conn, Event, Net};
use stdx::memory::{Component, Components, vector_bytes};

impl<N: Net, M: Mailbox, C: Clock> Reactor<N, M, C> {
    pub(super) fn report(&self) -> Report {
        Report {
            edge: self.edge.statistics(),
            home: self.home.as_ref().map(Home::statistics).unwrap_or_default(),
            timings: self.watch.timings(),
            memory: self.memory_components(),
        }
    }

    /// Reads each structure; the buffer counts as far as it was ever filled.
    fn memory_components(&self) -> Components {
        let mut memory = self.edge.memory();
        if let Some(home) = &self.home {
            memory += home.memory();
        }
        self.net.memory(&mut memory);
        let door = self.door.as_ref().map_or(0, Door::memory_bytes);
        let lists = vector_bytes::<Event>(self.events.capacity())
            + vector_bytes::<Conn>(self.ready.capacity());
        memory.add(Component::Network, lists + door + self.buffer_filled);
        let posts = vector_bytes::<Post>(self.posts.capacity());
        memory.add(Component::Mailboxes, posts + self.home_out.memory_bytes());
        memory.add(Component::Input, self.authenticating.memory_bytes());
        memory
    }
}
