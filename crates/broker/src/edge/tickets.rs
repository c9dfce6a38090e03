//! Resume tickets that are being made (`edge::flow::ticket` has the steps and the argument).

use crate::ids::{ConnIndex, TopicIndex};
use crate::mail::{HomeId, PartitionId};
use crate::position::Position;
use std::collections::BTreeMap;
use stdx::chunk::Slice;
use stdx::handing::Hand;
use wire::native::TICKET_BYTES_MAX;

/// Tickets under way.
#[derive(Default, Hand)]
pub(crate) struct Tickets {
    /// Tickets under way, by connection.
    wanted: BTreeMap<ConnIndex, Wanted>,
    /// Rises with every index that a home takes back while a client waits for a ticket.
    released_count: u64,
    /// The indexes taken back meanwhile, and the count with the last of each: they may stand for
    /// other topics now.
    released: BTreeMap<(HomeId, TopicIndex), u64>,
}

impl Tickets {
    /// Whether no connection waits for a ticket.
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// The ticket that a connection waits for.
    pub fn get(&self, index: ConnIndex) -> Option<&Wanted> {
        self.wanted.get(&index)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, index: ConnIndex) -> Option<&mut Wanted> {
        self.wanted.get_mut(&index)
    }

    /// The ticket that a connection waits for from now on.
    pub fn want(&mut self, index: ConnIndex) -> &mut Wanted {
        self.wanted.entry(index).or_default()
    }

    /// The connection waits no more.
    pub fn take(&mut self, index: ConnIndex) -> Option<Wanted> {
        let wanted = self.wanted.remove(&index);
        if self.wanted.is_empty() {
            self.released.clear();
        }
        wanted
    }

    /// The count that a question for names repeats in [`Asked::released_count`].
    pub fn released_count(&self) -> u64 {
        self.released_count
    }

    /// A home has taken an index back: its name does not hold for the next topic.
    pub fn note_released(&mut self, home: HomeId, index: TopicIndex) {
        if !self.wanted.is_empty() {
            self.released_count += 1;
            self.released.insert((home, index), self.released_count);
        }
    }

    /// The name of a topic, unless its index has been taken back since the homes were asked.
    pub fn name<'a>(&self, asked: &'a Asked, topic: (HomeId, TopicIndex)) -> Option<&'a str> {
        let released = self.released.get(&topic).copied();
        let holds = released.is_none_or(|count| count <= asked.released_count);
        asked.names.get(&topic).map(|name| &**name).filter(|_| holds)
    }
}

/// One ticket under way.
#[derive(Default, Hand)]
pub(crate) struct Wanted {
    /// The client's number, if it has asked.
    pub request: Option<u32>,
    /// The delay after which the client is to return, in milliseconds, if the ticket is for
    /// GO_AWAY.
    pub away_ms: Option<u64>,
    pub asked: Option<Asked>,
}

/// A question to the homes, and their answers so far.
#[derive(Default, Hand)]
pub(crate) struct Asked {
    /// The number of the question.
    pub number: u32,
    /// Homes that have not answered, with the topics that they were asked for.
    pub waiting: BTreeMap<HomeId, Vec<TopicIndex>>,
    pub names: BTreeMap<(HomeId, TopicIndex), Box<str>>,
    /// [`Tickets::released_count`] when they were asked.
    pub released_count: u64,
    pub positions: BTreeMap<PartitionId, Position>,
}

/// Minimum bytes of a subscription in a ticket: number, flags, length and a byte of the filter,
/// epoch, offset.
const SUBSCRIPTION_BYTES_MIN: usize = 6;
pub(crate) const SUBSCRIPTIONS_MAX: usize = TICKET_BYTES_MAX / SUBSCRIPTION_BYTES_MIN;

/// The names of an answer; each behind its length in one byte.
pub(crate) fn names_in(names: &Slice) -> impl Iterator<Item = &str> {
    let mut rest = &names[..];
    std::iter::from_fn(move || {
        let (&len, tail) = rest.split_first()?;
        let (name, tail) = tail.split_at_checked(usize::from(len))?;
        rest = tail;
        std::str::from_utf8(name).ok()
    })
}

/// Whether a client has come further than the ticket says. Of another epoch, it has met that since:
/// epochs of a ticket are those of its issue.
pub(crate) fn is_newer(own: Position, of_ticket: Position) -> bool {
    own.epoch != of_ticket.epoch || own.offset > of_ticket.offset
}
