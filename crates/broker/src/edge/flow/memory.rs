//! The memory of an edge, by component. Each structure is examined, no single connection.

use crate::edge::Edge;
use crate::edge::access::users::UserChange;
use crate::entitlement::Question;
use crate::ids::SubIndex;
use crate::mail::ToHome;
use std::net::IpAddr;
use stdx::key::Key;
use stdx::memory::{Component, Components, vector_bytes};

impl Edge {
    /// Bytes of each component that this edge has touched.
    pub fn memory(&self) -> Components {
        let mut memory = Components::new();
        memory.add(Component::Slots, self.connections.slots_bytes() + self.journal.memory_bytes());
        memory.add(Component::Subscriptions, self.subscriptions.memory_bytes());
        memory.add(Component::EdgeTopics, self.subscriptions.topics_bytes());
        memory.add(Component::Filters, self.subscriptions.filters_bytes());
        memory.add(Component::Names, self.sessions.names.memory_bytes());
        memory.add(Component::Entitlements, self.access.memory_bytes());
        memory.add(Component::Ring, self.outboxes.ring_memory_bytes());
        memory.add(Component::Outboxes, self.outboxes.memory_bytes());
        memory.add(Component::Input, self.input_bytes());
        memory.add(Component::Work, self.work_bytes() + self.mqtt.memory_bytes());
        let requests = self.out.requests.iter().map(Vec::capacity);
        let requests = vector_bytes::<ToHome>(requests.sum());
        memory.add(Component::Mailboxes, requests + self.work.mail.memory_bytes());
        memory
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
