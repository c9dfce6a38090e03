//! Subscriptions of an edge, and the topics that it has interest in.
//!
//! Steps 4 and 8 of the path. A topic is known by the index that its home gave to this edge; its
//! name stays at home. Invariants: a subscription is in its topic's list from the grant on and in
//! its connection's chain from the start; an edge releases an index when its last plain
//! subscription goes, with the newest generation that it has seen; a subscription takes live
//! messages in stage [`Stage::Live`] only, and is read from the log in the others.

mod behind;
mod filters;
mod held;
mod lagging;
mod large;
mod lost;
mod opening;
mod policies;
mod positions;
mod reads;
mod topics;

pub(crate) use behind::{Behind, Cursor, Member, STREAM};
pub(crate) use filters::{FilterEntry, NEVER_MATCHED, NamedTopic};
pub(crate) use held::Held;
pub(crate) use lagging::{Laggards, READS_MAX};
pub(crate) use large::{CHAIN_WALK_MAX, FILTERS, Large, topic_of};
pub(crate) use lost::{Lost, note_loss};
pub(crate) use opening::{GrantedStart, Opening};
pub(crate) use policies::{Recovering, Terms};
pub(crate) use positions::{Positions, Round};
pub(crate) use topics::Topics;

use crate::filters::FilterTrie;
use crate::ids::{ConnIndex, TopicIndex};
use crate::mail::HomeId;
use crate::settings::LagPolicy;
use std::collections::BTreeMap;
use stdx::blocks::ListPool;
use stdx::handing::Hand;
use stdx::slab::Slab;

/// Owner of everything that is found by a subscription, a topic of this edge or a filter.
#[derive(Hand)]
pub(crate) struct Subscriptions {
    pub table: Slab<Subscription>,
    /// The newest generation given to a subscription.
    pub generation: u32,
    pub large: Large,
    pub replay_credits: BTreeMap<u32, u32>,
    pub recovering: Recovering,
    /// Topics by their homes.
    pub topics: Vec<Topics>,
    /// Lists of subscriptions: those of each topic and of each filter.
    pub members: ListPool,
    pub filters: FilterTrie<u32>,
    pub filter_entries: Slab<FilterEntry>,
    /// Subscriptions to filters by connection, where these have a bound of their own.
    pub filters_held: BTreeMap<u32, u32>,
    pub behind: Behind,
    /// Losses of streams, to be dealt with before the next letter of another kind.
    pub lost: Lost,
    pub laggards: Laggards,
    pub positions: Positions,
    /// Messages to filters so far.
    pub named_frames: u64,
    pub filters_version: u64,
    pub named: Slab<NamedTopic>,
    /// Bytes that the named topics own.
    pub named_bytes: usize,
    /// The number of the newest frame for filters, by which a connection gets it once.
    pub serial: u32,
}

impl Subscriptions {
    /// No subscriptions, to topics of so many homes.
    pub fn new(homes_count: usize) -> Subscriptions {
        Subscriptions {
            table: Slab::new(),
            generation: 0,
            large: Large::default(),
            replay_credits: BTreeMap::new(),
            recovering: Recovering::default(),
            topics: (0..homes_count).map(|_| Topics::default()).collect(),
            members: ListPool::default(),
            filters: FilterTrie::default(),
            filter_entries: Slab::new(),
            filters_held: BTreeMap::new(),
            behind: Behind::default(),
            lost: Lost::new(),
            laggards: Laggards::default(),
            positions: Positions::default(),
            named_frames: 0,
            filters_version: 0,
            named: Slab::new(),
            named_bytes: 0,
            serial: 0,
        }
    }
}

/// Where a subscription stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub(crate) enum Stage {
    /// Asked for; its home (or, for a filter, some home) has not answered.
    Pending,
    /// Takes live messages.
    Live,
    /// A page is on its way.
    Reading,
    /// To be read from the log, after the cursor, when the socket has drained.
    Lagging,
    /// To a filter: takes live messages of all topics that match, but in partitions where it is
    /// behind.
    Wide,
}

/// One subscription.
#[derive(Hand)]
pub(crate) struct Subscription {
    pub generation: u32,
    pub connection: ConnIndex,
    /// The next one of the connection, and the one before.
    pub next: u32,
    pub previous: u32,
    /// The topic's index at this edge, or the filter's.
    pub topic: TopicIndex,
    /// Place in the topic's or filter's list.
    pub position: u32,
    /// The client's own number for it.
    pub client: u32,
    /// Everything up to here is settled; two halves, so that the entry stays small. To a filter:
    /// the number of the last message for filters before it was open.
    pub cursor: [u32; 2],
    pub home: HomeId,
    pub stage: Stage,
    pub terms: Terms,
}

/// What a subscription is to, and what becomes of one that cannot begin where it was to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// To a topic; a gap is announced.
    Plain,
    /// To a topic; refused instead.
    PlainWithoutGap,
    /// To a filter; a gap is announced.
    Filter,
    /// To a filter; refused instead.
    FilterWithoutGap,
}

const _: () = assert!(size_of::<Subscription>() <= 40);

impl Subscription {
    pub fn is_filter(&self) -> bool {
        matches!(self.terms.kind(), Kind::Filter | Kind::FilterWithoutGap)
    }

    /// What becomes of it when its client does not keep up.
    pub fn policy(&self) -> LagPolicy {
        self.terms.policy()
    }

    /// Everything up to this offset is settled.
    pub fn cursor(&self) -> u64 {
        u64::from(self.cursor[0]) | u64::from(self.cursor[1]) << 32
    }

    pub fn set_cursor(&mut self, offset: u64) {
        self.cursor = [offset as u32, (offset >> 32) as u32];
    }

    /// What lies beyond this is read from the log again.
    pub fn lag_from(&self) -> u64 {
        if self.stage == Stage::Live { u64::MAX } else { self.cursor() }
    }
}
