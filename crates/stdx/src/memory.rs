//! Memory of a process by component, in bytes.
//!
//! Every structure that grows reports its bytes, and its owner adds them up here, from the bottom
//! to the process. Only touched bytes count: pages of a vector's capacity that were never written
//! cost nothing, and the system does not count them either. A report visits every structure, but
//! never every connection.

/// A part of a process's memory that is counted separately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Component {
    /// An edge's table of connections: slot and stamp.
    Slots,
    /// Subscriptions, and the lists of subscribers.
    Subscriptions,
    /// Topics with an edge's interest, by their homes' indexes.
    EdgeTopics,
    /// Topics at their homes: entries, indexes and hash slots.
    HomeTopics,
    /// Names of topics and of MQTT clients.
    Names,
    /// Filters, and their matching topics.
    Filters,
    /// Entitlements of the edges' clients.
    Entitlements,
    /// Records of logs in memory.
    Log,
    /// Indexes of segments in memory.
    LogIndex,
    /// Logs on disk, in the log threads: indexes and batches.
    LogDisk,
    /// Retained messages.
    Retained,
    /// Identifiers of publications, for deduplication.
    PublishOnce,
    /// Recent frames of edges.
    Ring,
    /// Frames in outboxes, and the bytes that blocked connections own.
    Outboxes,
    /// Unfinished input, and state of sessions.
    Input,
    /// Deadlines, and lists of connections that an edge works through.
    Work,
    /// Batches between shards.
    Mailboxes,
    /// The network: descriptors, receive buffers.
    Network,
    /// TLS sessions.
    Tls,
}

impl Component {
    /// All components, in order.
    pub const ALL: [Component; 19] = [
        Component::Slots,
        Component::Subscriptions,
        Component::EdgeTopics,
        Component::HomeTopics,
        Component::Names,
        Component::Filters,
        Component::Entitlements,
        Component::Log,
        Component::LogIndex,
        Component::LogDisk,
        Component::Retained,
        Component::PublishOnce,
        Component::Ring,
        Component::Outboxes,
        Component::Input,
        Component::Work,
        Component::Mailboxes,
        Component::Network,
        Component::Tls,
    ];

    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Component::Slots => "slots",
            Component::Subscriptions => "subscriptions",
            Component::EdgeTopics => "topics_edge",
            Component::HomeTopics => "topics_home",
            Component::Names => "names",
            Component::Filters => "filters",
            Component::Entitlements => "entitlements",
            Component::Log => "log",
            Component::LogIndex => "log_index",
            Component::LogDisk => "log_disk",
            Component::Retained => "retained",
            Component::PublishOnce => "publish_once",
            Component::Ring => "ring",
            Component::Outboxes => "outboxes",
            Component::Input => "input",
            Component::Work => "work",
            Component::Mailboxes => "mailboxes",
            Component::Network => "network",
            Component::Tls => "tls",
        }
    }
}

/// Bytes of each component.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Components([u64; Component::ALL.len()]);

impl Components {
    /// No bytes in any component.
    pub const fn new() -> Components {
        Components([0; Component::ALL.len()])
    }

    /// Adds bytes to a component.
    pub fn add(&mut self, component: Component, bytes: usize) {
        self.0[component as usize] += bytes as u64;
    }

    /// Bytes of one component.
    pub fn of(&self, component: Component) -> u64 {
        self.0[component as usize]
    }

    /// The sum of all components.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each component with its bytes, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Component, u64)> {
        Component::ALL.into_iter().zip(self.0)
    }
}

impl std::ops::AddAssign for Components {
    fn add_assign(&mut self, other: Components) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own += other;
        }
    }
}

/// Approximate bytes of an ordered map or set of `len` entries: its nodes have room for eleven and
/// are two thirds full.
pub fn tree_bytes(len: usize, entry_bytes: usize) -> usize {
    const NODE_ENTRIES: usize = 11;
    const NODE_HEAD_BYTES: usize = 16;
    let nodes = len.div_ceil(NODE_ENTRIES * 2 / 3);
    nodes * (NODE_ENTRIES * entry_bytes + NODE_HEAD_BYTES)
}

/// Bytes of a vector's or a queue's allocation.
pub fn vector_bytes<T>(capacity: usize) -> usize {
    capacity * size_of::<T>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_their_own() {
        let mut components = Components::new();
        for (at, component) in Component::ALL.into_iter().enumerate() {
            assert_eq!(component as usize, at, "{}", component.name());
            components.add(component, at + 1);
        }
        let mut twice = components;
        twice += components;
        for (at, (component, bytes)) in twice.iter().enumerate() {
            assert_eq!(bytes, 2 * (at as u64 + 1));
            assert_eq!(twice.of(component), bytes);
        }
        let all = Component::ALL.len() as u64;
        assert_eq!(twice.total(), all * (all + 1));
    }
}
