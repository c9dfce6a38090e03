//! Streams: what a partition sends to an edge, live while there is credit and from the log when
//! there was not.
//!
//! Invariants: everything of one (partition, edge) passes here in log order. Once a stream lags,
//! nothing of it is sent but by [`Home::pump`], until that has reached the head; the stream's
//! position never goes back.

use super::Home;
use super::interests::Interests;
use super::partitions::HomePartition;
use super::publication::Placed;
use super::turn::Turn;
use crate::mail::{Describe, Description, EdgeId, StreamPosition, ToEdge};
use log::ForwardLimits;
use std::mem::take;
use stdx::chunk::Slice;

/// Records that one call of `pump` examines.
const PUMP_RECORDS_MAX: usize = 4096;
/// Records of one stream before the next has its turn.
const PUMP_TURN_RECORDS: usize = 256;
const PUMP_TURN_BYTES: usize = 256 << 10;

impl Home {
    /// Sends an appended record to the edges with interest, which is up to date.
    pub(super) fn fan_out(&mut self, placed: Placed, turn: &mut Turn<'_>) {
        let Placed { topic, local, offset, mut record } = placed;
        if !self.groups.is_empty() {
            self.hand_to_groups((topic, local, offset), &record, turn);
        }
        let partition = &mut self.partitions[local as usize];
        let mut next = self.interests.topics.interest_at(topic, 0);
        let mut nth = 0;
        while let Some(interest) = next {
            nth += 1;
            next = self.interests.topics.interest_at(topic, nth);
            let lag_from = &mut partition.lag_from[usize::from(interest.edge)];
            if *lag_from != 0 {
                continue;
            }
            let edge = &mut self.interests.edges[usize::from(interest.edge)];
            if edge.credit > 0 {
                self.statistics.delivered += 1;
                // Mostly one edge has interest, and takes the record as it is.
                let record = if next.is_some() { record.clone() } else { take(&mut record) };
                self.interests.send(topic, partition.id, interest, record, turn.out);
            } else {
                *lag_from = offset;
                edge.lagging.push_back(local);
                self.statistics.lagged += 1;
            }
        }
    }

    /// Whether any edge has interest in a topic, whose interest is up to date.
    pub(super) fn is_heard(&self, topic: u32) -> bool {
        self.interests.topics.interest_at(topic, 0).is_some()
            || !self.groups.is_empty() && self.groups.want(self.interests.topics.name(topic))
    }

    /// Feeds lagging streams, round robin over the edges with credit. True if there is more to do
    /// at once.
    pub(super) fn feed_lagging(&mut self, turn: &mut Turn<'_>) -> bool {
        let mut left = PUMP_RECORDS_MAX;
        let edges = self.interests.edges.len();
        let mut waiting = 0;
        while waiting < edges {
            let edge = self.next_edge % edges;
            let state = &mut self.interests.edges[edge];
            if state.credit <= 0 || state.lagging.is_empty() {
                waiting += 1;
                self.next_edge = (edge + 1) % edges;
                continue;
            }
            if left == 0 {
                return true;
            }
            waiting = 0;
            self.next_edge = (edge + 1) % edges;
            if let Some(local) = state.lagging.pop_front() {
                let scanned =
                    self.feed(EdgeId(edge as u16), local, left.min(PUMP_TURN_RECORDS), turn);
                left = left.saturating_sub(scanned.max(1));
                if self.partitions[local as usize].lag_from[edge] != 0 {
                    self.interests.edges[edge].lagging.push_back(local);
                }
            }
        }
        false
    }

    /// Says that a lagging stream has lost something to eviction, so that its position is never
    /// below what the log holds. Only where a letter is paid for: by credit or by a request.
    ///
    /// Live subscriptions of the partition are read in pages from then on, so the stream has
    /// nothing older to bring: it continues with the next message. Otherwise it would bring
    /// messages that no subscription takes, and lose more of them the slower its edge is. Other
    /// streams to the edge that have lost something report it as well: an edge examines all its
    /// topics for it, and does that once for all of them.
    pub(super) fn settle_stream(&mut self, edge: EdgeId, local: u32, turn: &mut Turn<'_>) {
        let place = usize::from(edge);
        if !self.partitions[local as usize].has_lost(place) {
            return;
        }
        let lagging = &mut self.interests.edges[place].lagging;
        for local in std::iter::once(local).chain(lagging.iter().copied()) {
            let partition = &mut self.partitions[local as usize];
            if partition.has_lost(place) {
                let letter = ToEdge::StreamGap {
                    partition: partition.id,
                    from: partition.lag_from[place] - 1,
                    to: partition.log.head(),
                };
                turn.out.post(edge, letter);
                self.statistics.stream_gaps += 1;
                partition.lag_from[place] = 0;
            }
        }
        lagging.retain(|local| self.partitions[*local as usize].lag_from[place] != 0);
    }

    /// Says how far the streams to an edge have come.
    pub(super) fn post_positions(&self, edge: EdgeId, turn: &mut Turn<'_>) {
        let position = |partition: &HomePartition| StreamPosition {
            partition: partition.id,
            through: partition.stream_position(usize::from(edge)),
            oldest: partition.floor(),
        };
        let positions = self.partitions.iter().map(position).collect();
        turn.out.post(edge, ToEdge::Positions { positions });
    }

    /// Names of topics, and how far the streams to an edge have come.
    pub(super) fn describe(&self, from: EdgeId, asked: &Describe, turn: &mut Turn<'_>) {
        let Interests { topics, edges, .. } = &self.interests;
        let mut names = Vec::new();
        for &index in &asked.indexes {
            let topic = edges[usize::from(from)].indexed(index);
            let name = topic.map_or(&[][..], |(topic, _)| topics.name(topic));
            names.push(name.len() as u8);
            names.extend_from_slice(name);
        }
        let positions = if asked.positions {
            self.partitions
                .iter()
                .map(|partition| (partition.id, partition.stream_position(usize::from(from))))
                .collect()
        } else {
            Vec::new()
        };
        let names = Slice::copy_of(&names);
        turn.out.post(
            from,
            ToEdge::Described(Description {
                connection: asked.connection,
                number: asked.number,
                names,
                positions,
            }),
        );
    }

    /// Reads a lagging stream on from the log. Returns how many records it examined.
    fn feed(&mut self, edge: EdgeId, local: u32, records_max: usize, turn: &mut Turn<'_>) -> usize {
        self.settle_stream(edge, local, turn);
        let Home { partitions, interests, statistics, .. } = self;
        let partition = &mut partitions[local as usize];
        let from = partition.lag_from[usize::from(edge)];
        if from == 0 {
            return 0;
        }
        let mut scanned = 0;
        let limits = ForwardLimits { records_max, bytes_scanned_max: PUMP_TURN_BYTES };
        let next = partition.log.read_forward(from, limits, &mut |slice, record| {
            let Interests { edges, .. } = &*interests;
            if edges[usize::from(edge)].credit <= 0 {
                return false;
            }
            scanned += 1;
            let topic = record.topic();
            interests.refresh(topic, turn.out);
            if let Some(interest) = interests.topics.interest_of(topic, edge) {
                statistics.delivered += 1;
                interests.send(topic, partition.id, interest, slice, turn.out);
            }
            true
        });
        let is_at_head = next > partition.log.head();
        partition.lag_from[usize::from(edge)] = if is_at_head { 0 } else { next };
        scanned
    }
}
