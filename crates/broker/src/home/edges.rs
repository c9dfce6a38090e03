//! State of a home for each edge: the indexes that it gave out, and how much the edge has room
//! for.
//!
//! Invariants: an index stands for one topic from the grant or announcement until `Released` has
//! been posted; as the mailbox is first in, first out, it may be given to another topic at once.
//! Generations rise with every grant to the edge, whatever the index, so that a late `Release`
//! never hits a later grant.

use crate::mail::{EdgeId, RequestClass};
use crate::settings::Limits;
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU32;
use stdx::handing::Hand;
use stdx::memory::{tree_bytes, vector_bytes};
use stdx::slab::Slab;

#[derive(Debug, Hand)]
pub(super) struct Edge {
    indexes: Slab<Indexed>,
    generation: u32,
    /// Bytes of live letters that the edge still has room for; one letter may take it below 0.
    pub credit: i64,
    /// Requests dealt with since the last `Consumed`, of each class, and what they cost. Few
    /// classes are ever in use.
    pub consumed: Vec<(RequestClass, u32, u64)>,
    /// The version of the home's filters that last added one of this edge.
    pub filters_version: u32,
    /// Partitions, by the home's own number, whose stream to this edge lags; the next to serve
    /// first.
    pub lagging: VecDeque<u32>,
}

/// An index in use.
#[derive(Debug, Clone, Copy, Hand)]
pub(super) struct Indexed {
    /// The topic's id and one, so that a free place costs nothing.
    topic: NonZeroU32,
    /// The generation of the newest grant; 0 before the first.
    generation: u32,
}

const _: () = assert!(Slab::<Indexed>::ENTRY_BYTES == 8);

impl Edge {
    pub fn new(credit: i64) -> Edge {
        Edge {
            indexes: Slab::new(),
            generation: 0,
            credit,
            consumed: Vec::new(),
            filters_version: 0,
            lagging: VecDeque::new(),
        }
    }

    /// Nothing has been granted before this generation, and no filter added before this version.
    pub fn begin_counters_at(&mut self, value: u32) {
        (self.generation, self.filters_version) = (value, value);
    }

    /// Bytes in use by indexes and by waiting streams.
    pub fn memory_bytes(&self) -> usize {
        self.indexes.memory_bytes()
            + vector_bytes::<u32>(self.lagging.capacity())
            + vector_bytes::<(RequestClass, u32, u64)>(self.consumed.capacity())
    }

    /// Whether a lagging stream may send again.
    pub fn can_continue(&self) -> bool {
        self.credit > 0 && !self.lagging.is_empty()
    }

    /// A request has been dealt with.
    pub fn count_consumed(&mut self, class: RequestClass, cost: u32) {
        let found = self.consumed.iter_mut().find(|(of, ..)| *of == class);
        match found {
            Some((_, requests, bytes)) => {
                *requests += 1;
                *bytes += u64::from(cost);
            }
            None => self.consumed.push((class, 1, cost.into())),
        }
    }

    /// Gives a free index to a topic.
    pub fn allocate(&mut self, topic: u32) -> u32 {
        self.indexes.insert(Indexed { topic: NonZeroU32::MIN.saturating_add(topic), generation: 0 })
    }

    pub fn free(&mut self, index: u32) {
        self.indexes.remove(index);
    }

    /// The generation of a new grant of an index.
    pub fn grant(&mut self, index: u32) -> u32 {
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        if let Some(indexed) = self.indexes.get_mut(index) {
            indexed.generation = self.generation;
        }
        self.generation
    }

    /// The topic that an index stands for, and the generation of its newest grant.
    pub fn indexed(&self, index: u32) -> Option<(u32, u32)> {
        let indexed = self.indexes.get(index)?;
        Some((indexed.topic.get() - 1, indexed.generation))
    }

    pub fn indexes_count(&self) -> usize {
        self.indexes.len()
    }
}

/// Filters and the edges that asked for them.
#[derive(Debug, Default, Hand)]
pub(super) struct Filters {
    trie: crate::filters::FilterTrie<Wanted>,
    /// Filters of each user; a filter is whose subscription has brought it, until it goes.
    of_users: BTreeMap<u64, u32>,
    /// Rises with every change; topics note the one that they were compared with.
    pub version: u32,
}

/// The edges that want a filter, and the user that has brought it.
#[derive(Debug, Default, Clone, Hand)]
struct Wanted {
    edges: Vec<EdgeId>,
    user: u64,
}

/// The result for a filter that an edge wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Added {
    /// The filter was added.
    New,
    /// The edge had it here.
    Known,
    /// `filters_per_shard_max` different ones are there already; nothing has changed.
    Full,
    /// The user has brought `filters_per_user_max`; nothing has changed.
    TooMany,
}

impl Filters {
    pub fn memory_bytes(&self) -> usize {
        let edges = self.trie.len() * size_of::<[EdgeId; 4]>();
        let users = tree_bytes(self.of_users.len(), size_of::<(u64, u32)>());
        self.trie.memory_bytes() + edges + users
    }

    pub fn len(&self) -> usize {
        self.trie.len()
    }

    /// Notes that the edge wants the filter. Asking twice is asking once.
    pub fn add(
        &mut self,
        filter: crate::topic::Filter<'_>,
        edge: EdgeId,
        user: u64,
        limits: &Limits,
    ) -> Added {
        if let Some(wanted) = self.trie.get_mut(filter) {
            if wanted.edges.contains(&edge) {
                return Added::Known;
            }
            wanted.edges.push(edge);
        } else if self.trie.len() >= limits.filters_per_shard_max as usize {
            return Added::Full;
        } else {
            if user != 0 {
                let count = self.of_users.entry(user).or_default();
                if *count >= limits.filters_per_user_max {
                    return Added::TooMany;
                }
                *count += 1;
            }
            let edges = vec![edge];
            self.trie.insert(filter, Wanted { edges, user });
        }
        self.version = self.version.wrapping_add(1);
        Added::New
    }

    /// The edge wants the filter no more. False if it did not.
    pub fn remove(&mut self, filter: crate::topic::Filter<'_>, edge: EdgeId) -> bool {
        let Some(wanted) = self.trie.get_mut(filter) else {
            return false;
        };
        let edges = &mut wanted.edges;
        let Some(place) = edges.iter().position(|other| *other == edge) else {
            return false;
        };
        edges.swap_remove(place);
        if edges.is_empty() {
            let user = wanted.user;
            self.trie.remove(filter);
            if let Some(count) = self.of_users.get_mut(&user) {
                *count -= 1;
                if *count == 0 {
                    self.of_users.remove(&user);
                }
            }
        }
        self.version = self.version.wrapping_add(1);
        true
    }

    /// The edges with a filter that covers the topic, ascending, each once.
    pub fn edges_of(&self, topic: &[u8], edges: &mut Vec<EdgeId>) {
        edges.clear();
        if self.trie.is_empty() {
            return;
        }
        // The edge has checked names; no filter covers one that is not text.
        let Ok(topic) = std::str::from_utf8(topic) else {
            return;
        };
        self.trie.matches(topic, &mut |found| edges.extend_from_slice(&found.edges));
        edges.sort_unstable();
        edges.dedup();
    }
}
