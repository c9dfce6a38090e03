//! What an edge's memory is made of. A look at each structure, none at each connection.

use crate::edge::Edge;
use crate::edge::access::users::UserChange;
use crate::edge::subscriptions::Opening;
use crate::entitlement::Question;
use crate::ids::SubIndex;
use crate::mail::ToHome;
use std::net::IpAddr;
use stdx::key::Key;
use stdx::memory::{Component, Components, tree_bytes, vector_bytes};

impl Edge {
    /// Bytes of each component that this edge has touched.
    pub fn memory(&self) -> Components {
        let mut memory = Components::new();
        memory.add(Component::Slots, self.connections.slots_bytes() + self.journal.memory_bytes());
        memory.add(Component::Subscriptions, self.subscriptions_bytes());
        let topics = self.subscriptions.topics.iter().map(|topics| topics.memory_bytes());
        memory.add(Component::EdgeTopics, topics.sum());
        memory.add(Component::Filters, self.filters_bytes());
        memory.add(
            Component::Entitlements,
            self.access.judging.memory_bytes() + self.access.renewals.memory_bytes(),
        );
        memory.add(Component::Ring, self.outboxes.ring_memory_bytes());
        memory.add(Component::Outboxes, self.outboxes.memory_bytes());
        memory.add(Component::Input, self.input_bytes());
        memory.add(Component::Work, self.work_bytes());
        let requests = self.out.requests.iter().map(Vec::capacity);
        let requests = vector_bytes::<ToHome>(requests.sum());
        memory.add(Component::Mailboxes, requests + self.work.mail.memory_bytes());
        memory
    }

    fn subscriptions_bytes(&self) -> usize {
        self.subscriptions.table.memory_bytes()
            + self.subscriptions.members.memory_bytes()
            + self.subscriptions.large.memory_bytes()
            + tree_bytes(self.subscriptions.replay_credits.len(), size_of::<(u32, u32)>())
            + self.subscriptions.recovering.memory_bytes()
            + self.subscriptions.laggards.memory_bytes()
    }

    fn filters_bytes(&self) -> usize {
        self.subscriptions.filters.memory_bytes()
            + self.subscriptions.filter_entries.memory_bytes()
            + self.subscriptions.named.memory_bytes()
            + self.subscriptions.named_bytes
            + tree_bytes(self.subscriptions.filters_held.len(), size_of::<(u32, u32)>())
            + self.subscriptions.behind.held.memory_bytes()
            + self.subscriptions.behind.reads.memory_bytes()
            + tree_bytes(
                self.subscriptions.behind.opening.len(),
                size_of::<((u32, u32), Opening)>(),
            )
    }

    fn input_bytes(&self) -> usize {
        self.connections.buffered_bytes() + self.sessions.states_bytes()
    }

    fn work_bytes(&self) -> usize {
        vector_bytes::<SubIndex>(self.work.targets.capacity())
            + vector_bytes::<Key>(self.out.readable.capacity())
            + vector_bytes::<(Key, bool)>(self.out.closes.capacity())
            + vector_bytes::<Question>(self.out.questions.capacity())
            + vector_bytes::<(Key, u64)>(self.out.acknowledged_within_ms.capacity())
            + self.outboxes.work_bytes()
            + self.connections.work_bytes()
            + vector_bytes::<(Key, IpAddr)>(self.out.clients.capacity())
            + vector_bytes::<UserChange>(self.out.users.capacity())
            + self.sessions.polls_bytes()
            + self.work.scratch.capacity()
            + self.work.attributes.capacity()
    }
}
