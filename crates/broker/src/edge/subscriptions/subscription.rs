//! One subscription: its connection, what it is to, its cursor and its lag policy.

use super::filters::FilterIndex;
use crate::ids::{ConnIndex, NONE, SubIndex, TopicIndex};
use crate::mail::HomeId;
use crate::settings::LagPolicy;
use stdx::handing::Hand;

/// The stage of a subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub(crate) enum Stage {
    /// Asked for; its home (or, for a filter, some home) has not answered.
    Pending,
    /// Takes live messages.
    Live,
    /// A page is under way.
    Reading,
    /// To be read from the log, after the cursor, when the socket has drained.
    Lagging,
    /// To a filter: takes live messages of all topics that match, except in partitions where it is
    /// behind.
    ByFilter,
}

/// One subscription.
#[derive(Hand)]
pub(crate) struct Subscription {
    pub(super) generation: u32,
    pub connection: ConnIndex,
    /// The next one of the connection, and the one before.
    pub(super) next: SubIndex,
    pub(super) previous: SubIndex,
    /// The topic's index at this edge, or the filter's; [`NONE`] before the grant.
    pub(super) target: u32,
    /// Place in the topic's or filter's list.
    pub(super) position: u32,
    /// The client's own number for it.
    pub client: u32,
    /// The settled position; two halves, so that the entry stays small. Of a filter: the number of
    /// the last message for filters before it was open.
    pub(super) cursor: [u32; 2],
    pub home: HomeId,
    pub stage: Stage,
    pub(super) terms: Terms,
}

const _: () = assert!(size_of::<Subscription>() <= 40);

/// The target of a subscription, and its reaction to a start that is not available.
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

impl Subscription {
    /// A subscription that its home (or homes) has not answered.
    pub(super) fn new(connection: ConnIndex, client: u32, home: HomeId, terms: Terms) -> Self {
        Subscription {
            generation: 0,
            connection,
            next: SubIndex::NONE,
            previous: SubIndex::NONE,
            target: NONE,
            position: 0,
            client,
            cursor: [0; 2],
            home,
            stage: Stage::Pending,
            terms,
        }
    }

    pub fn is_filter(&self) -> bool {
        matches!(self.terms.kind(), Kind::Filter | Kind::FilterWithoutGap)
    }

    /// Whether its home, or for a filter some home, has not answered.
    pub fn is_pending(&self) -> bool {
        self.stage == Stage::Pending
    }

    /// Whether it is to a filter, and all homes have answered.
    pub fn is_open_by_filter(&self) -> bool {
        self.stage == Stage::ByFilter
    }

    /// Refused, rather than to begin behind a gap.
    pub fn fails_on_gap(&self) -> bool {
        matches!(self.terms.kind(), Kind::PlainWithoutGap | Kind::FilterWithoutGap)
    }

    /// Whether it belongs to an event stream, whose filters are read together.
    pub(super) fn is_of_stream(&self) -> bool {
        self.terms.is_of_stream()
    }

    /// The lag policy.
    pub fn policy(&self) -> LagPolicy {
        self.terms.policy()
    }

    /// Changes the policy.
    pub fn replay_always(&mut self) {
        self.terms = self.terms.with_replay();
    }

    /// The topic of a plain subscription, at its home; none before the grant.
    pub fn topic(&self) -> Option<(HomeId, TopicIndex)> {
        (!self.is_filter() && self.target != NONE).then_some((self.home, TopicIndex(self.target)))
    }

    /// The filter of a subscription to one; none before it is added.
    pub fn filter(&self) -> Option<FilterIndex> {
        (self.is_filter() && self.target != NONE).then_some(self.target)
    }

    /// The offset up to which everything is settled.
    #[inline]
    pub fn cursor(&self) -> u64 {
        u64::from(self.cursor[0]) | u64::from(self.cursor[1]) << 32
    }

    #[inline]
    pub(super) fn set_cursor(&mut self, offset: u64) {
        self.cursor = [offset as u32, (offset >> 32) as u32];
    }

    /// The offset after which messages are read from the log again.
    #[inline]
    pub fn lag_from(&self) -> u64 {
        if self.stage == Stage::Live { u64::MAX } else { self.cursor() }
    }
}

/// A subscription's kind and policy, and whether it is of an event stream, in one byte.
#[derive(Clone, Copy, Hand)]
pub(crate) struct Terms(u8);

const OF_STREAM: u8 = 1 << 4;

impl Terms {
    pub fn new(kind: Kind, policy: LagPolicy, is_of_stream: bool) -> Terms {
        let kind = match kind {
            Kind::Plain => 0,
            Kind::PlainWithoutGap => 1,
            Kind::Filter => 2,
            Kind::FilterWithoutGap => 3,
        };
        let policy = match policy {
            LagPolicy::Replay => 0,
            LagPolicy::Conflate => 1,
            LagPolicy::Drop => 2,
            LagPolicy::Disconnect => 3,
        };
        let stream = if is_of_stream { OF_STREAM } else { 0 };
        Terms(stream | policy << 2 | kind)
    }

    fn kind(self) -> Kind {
        match self.0 & 3 {
            0 => Kind::Plain,
            1 => Kind::PlainWithoutGap,
            2 => Kind::Filter,
            _ => Kind::FilterWithoutGap,
        }
    }

    fn with_replay(self) -> Terms {
        Terms(self.0 & !(3 << 2))
    }

    fn policy(self) -> LagPolicy {
        match self.0 >> 2 & 3 {
            0 => LagPolicy::Replay,
            1 => LagPolicy::Conflate,
            2 => LagPolicy::Drop,
            _ => LagPolicy::Disconnect,
        }
    }

    fn is_of_stream(self) -> bool {
        self.0 & OF_STREAM != 0
    }
}
