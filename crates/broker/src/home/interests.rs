//! Interest of edges: topics, the edges' indexes and the filters, and the letters that keep both
//! sides agreed on them.
//!
//! Place on the path: after an append, interest says which edges get the message; filters are
//! compared with a topic only when either has changed since.
//!
//! Invariants: an edge's index and its interest come and go together. A message whose interest is
//! by filter is preceded by an `Announce` that is younger than the edge's newest filter, so that
//! the edge can match the name when it learns it; an index may therefore be announced again.
//! `Released` is posted for every index that the edge has seen.

use super::edges::{Edge, Filters};
use super::topics::{Interest, TopicTable, interest};
use super::turn::HomeOutputs;
use crate::mail::{EdgeId, PartitionId, ToEdge};
use stdx::chunk::Slice;
use stdx::handing::Hand;

#[derive(Debug, Hand)]
pub(super) struct Interests {
    pub topics: TopicTable,
    pub edges: Vec<Edge>,
    pub filters: Filters,
    /// Reused between calls.
    matched: Vec<EdgeId>,
}

impl Interests {
    pub fn new(topics: TopicTable, edges: Vec<Edge>) -> Interests {
        Interests { topics, edges, filters: Filters::default(), matched: Vec::new() }
    }

    /// Plain interest of an edge: its index and the generation of this grant.
    pub fn grant(&mut self, topic: u32, edge: EdgeId) -> (u32, u32) {
        const GRANTED: u8 = interest::EXACT | interest::SEEN;
        let state = &mut self.edges[usize::from(edge)];
        let index = match self.topics.interest_mut(topic, edge) {
            Some(found) => {
                found.flags |= GRANTED;
                found.index
            }
            None => {
                let index = state.allocate(topic);
                self.topics.add_interest(topic, Interest { index, edge, flags: GRANTED });
                index
            }
        };
        (index, state.grant(index))
    }

    /// Takes plain interest back, if `generation` is that of the newest grant. Returns the topic
    /// concerned.
    pub fn release(
        &mut self,
        edge: EdgeId,
        index: u32,
        generation: u32,
        out: &mut HomeOutputs,
    ) -> Option<u32> {
        let (topic, newest) = self.edges[usize::from(edge)].indexed(index)?;
        if newest != generation {
            return None;
        }
        let found = self.topics.interest_mut(topic, edge)?;
        if found.flags & interest::BY_FILTER == 0 {
            self.drop_interest(topic, edge, out);
        } else {
            found.flags &= !interest::EXACT;
        }
        Some(topic)
    }

    /// Versions of filters and generations of grants begin here.
    pub fn begin_counters_at(&mut self, value: u32) {
        self.filters.version = value;
        for edge in &mut self.edges {
            edge.begin_counters_at(value);
        }
    }

    /// Whether any edge has a plain subscription to the topic.
    pub fn is_subscribed(&self, topic: u32) -> bool {
        (0..).map_while(|nth| self.topics.interest_at(topic, nth)).any(|i| i.has(interest::EXACT))
    }

    /// Ends every interest in a topic that is about to be forgotten.
    pub fn drop_all(&mut self, topic: u32, out: &mut HomeOutputs) {
        while let Some(found) = self.topics.interest_at(topic, 0) {
            self.drop_interest(topic, found.edge, out);
        }
    }

    /// Brings interest by filter up to date.
    pub fn refresh(&mut self, topic: u32, out: &mut HomeOutputs) {
        let version = self.filters.version;
        let Some(entry) = self.topics.get_mut(topic) else {
            return;
        };
        let seen = std::mem::replace(&mut entry.filters_version, version);
        if seen == version {
            return;
        }
        let mut matched = std::mem::take(&mut self.matched);
        self.filters.edges_of(self.topics.name(topic), &mut matched);
        let mut nth = 0;
        while let Some(found) = self.topics.interest_at(topic, nth) {
            let by_filter = matched.binary_search(&found.edge).is_ok();
            if !by_filter && !found.has(interest::EXACT) {
                self.drop_interest(topic, found.edge, out);
                continue; // another one has taken its turn
            }
            // Since the topic was last compared, has this edge added a filter?
            let since = self.edges[usize::from(found.edge)].filters_version.wrapping_sub(seen);
            if let Some(found) = self.topics.interest_mut(topic, found.edge) {
                if !by_filter {
                    found.flags &= !(interest::BY_FILTER | interest::ANNOUNCED);
                } else {
                    found.flags |= interest::BY_FILTER;
                    if since.cast_signed() > 0 {
                        found.flags &= !interest::ANNOUNCED;
                    }
                }
            }
            nth += 1;
        }
        for edge in &matched {
            if self.topics.interest_of(topic, *edge).is_none() {
                let index = self.edges[usize::from(*edge)].allocate(topic);
                let found = Interest { index, edge: *edge, flags: interest::BY_FILTER };
                self.topics.add_interest(topic, found);
            }
        }
        self.matched = matched;
    }

    /// Posts a live message, after the topic's name if that is due, and takes it off the edge's
    /// credit.
    pub fn send(
        &mut self,
        topic: u32,
        partition: PartitionId,
        to: Interest,
        record: Slice,
        out: &mut HomeOutputs,
    ) {
        let Interest { index, edge, .. } = to;
        let mut cost = 0;
        if to.has(interest::BY_FILTER) && !to.has(interest::ANNOUNCED) {
            let topic_name = Slice::copy_of(self.topics.name(topic));
            let letter = ToEdge::Announce { index, partition, topic: topic_name };
            cost += i64::from(letter.cost());
            out.post(edge, letter);
            if let Some(found) = self.topics.interest_mut(topic, edge) {
                found.flags |= interest::ANNOUNCED | interest::SEEN;
            }
        }
        let letter = ToEdge::Message { index, record };
        cost += i64::from(letter.cost());
        out.post(edge, letter);
        self.edges[usize::from(edge)].credit -= cost;
    }

    fn drop_interest(&mut self, topic: u32, edge: EdgeId, out: &mut HomeOutputs) {
        let Some(gone) = self.topics.remove_interest(topic, edge) else {
            return;
        };
        self.edges[usize::from(edge)].free(gone.index);
        if gone.has(interest::SEEN) {
            out.post(edge, ToEdge::Released { index: gone.index });
        }
    }
}
