//! Subscriptions of an edge, and the topics that it has interest in.
//!
//! Steps 4 and 8 of the path. Owner of everything that is found by a subscription, a topic of this
//! edge or a filter. It knows a connection by its index and by the slot that its caller lends;
//! requests that follow from a change are returned to the caller.
//!
//! A topic is known by the index that its home gave to this edge; its name stays at home.
//! Invariants: a subscription is in its topic's list from the grant on and in its connection's
//! chain from the start; an edge releases an index when its last plain subscription goes, with the
//! newest generation that it has seen; a subscription takes live messages in stage [`Stage::Live`]
//! only, and is read from the log in the others.

mod catch_up;
mod credits;
mod cursor;
mod filters;
mod held;
mod lagging;
mod large;
mod lost;
mod opening;
mod policies;
mod positions;
mod reads;
mod subscription;
mod topics;

pub(crate) use cursor::Reader;
pub(crate) use filters::{FilterRefusal, MatchedIndex};
pub(crate) use lost::Lost;
pub(crate) use opening::Opened;
pub(crate) use positions::Next;
pub(crate) use subscription::{Kind, Stage, Subscription, Terms};

use super::connections::slots::Slot;
use crate::ids::{ConnIndex, SubIndex, TopicIndex};
use crate::mail::{Grant, HomeId, SubscriptionKey};
use crate::settings::Settings;
use catch_up::CatchUp;
use credits::Credits;
use filters::Filters;
use lagging::Laggards;
use large::Large;
use policies::Recovering;
use positions::Positions;
use std::ops::Index;
use stdx::blocks::ListPool;
use stdx::chunk::Slice;
use stdx::handing::Hand;
use stdx::key::Key;
use stdx::slab::Slab;
use topics::Topics;

/// Owner of everything that is found by a subscription, a topic of this edge or a filter.
#[derive(Hand)]
pub(crate) struct Subscriptions {
    table: Slab<Subscription>,
    /// The newest generation given to a subscription.
    generation: u32,
    large: Large,
    credits: Credits,
    recovering: Recovering,
    /// Topics by their homes.
    topics: Vec<Topics>,
    /// Lists of subscriptions: those of each topic and of each filter.
    members: ListPool,
    filters: Filters,
    catch_up: CatchUp,
    /// Losses of streams, to be dealt with before the next letter of another kind.
    lost: Lost,
    laggards: Laggards,
    positions: Positions,
}

/// A topic or filter without subscriptions: homes are to drop the edge's interest.
#[derive(Debug)]
pub(crate) enum Unused {
    /// The index is to be released.
    Topic { home: HomeId, index: TopicIndex, generation: u32 },
    /// The filter is to be removed from every home.
    Filter(Slice),
}

impl Subscriptions {
    /// An empty table, for topics of this number of homes.
    pub fn new(homes_count: usize) -> Subscriptions {
        Subscriptions {
            table: Slab::new(),
            generation: 0,
            large: Large::default(),
            credits: Credits::default(),
            recovering: Recovering::default(),
            topics: (0..homes_count).map(|_| Topics::default()).collect(),
            members: ListPool::default(),
            filters: Filters::new(),
            catch_up: CatchUp::default(),
            lost: Lost::default(),
            laggards: Laggards::default(),
            positions: Positions::default(),
        }
    }

    /// Counters that begin anew after 32 bits begin here.
    pub fn begin_counters_at(&mut self, value: u32) {
        self.filters.begin_serial_at(value);
        self.generation = value;
    }

    /// The number of subscriptions.
    pub fn count(&self) -> usize {
        self.table.len()
    }

    /// The bytes of the subscriptions and of the tables by subscription.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
            + self.members.memory_bytes()
            + self.large.memory_bytes()
            + self.credits.memory_bytes()
            + self.recovering.memory_bytes()
            + self.laggards.memory_bytes()
    }

    /// A new subscription of a connection, which is asked for next.
    pub fn insert(
        &mut self,
        index: ConnIndex,
        slot: &mut Slot,
        client: u32,
        home: HomeId,
        terms: Terms,
    ) -> SubIndex {
        self.generation = self.generation.wrapping_add(1);
        let subscription = SubIndex(self.table.insert(Subscription {
            generation: self.generation,
            next: slot.subscriptions,
            ..Subscription::new(index, client, home, terms)
        }));
        let next = std::mem::replace(&mut slot.subscriptions, subscription);
        slot.subscriptions_count += 1;
        if let Some(next) = self.table.get_mut(next.0) {
            next.previous = subscription;
        }
        self.note_if_large(slot, subscription);
        subscription
    }

    /// The subscription, if it is still there.
    #[inline]
    pub fn get(&self, subscription: SubIndex) -> Option<&Subscription> {
        self.table.get(subscription.0)
    }

    /// Gives a subscription another number, where the client has none of its own.
    pub fn set_client(&mut self, subscription: SubIndex, client: u32) {
        if let Some(entry) = self.table.get_mut(subscription.0) {
            entry.client = client;
        }
    }

    /// From here on nothing is left out for a subscription.
    pub fn replay_always(&mut self, subscription: SubIndex) {
        if let Some(entry) = self.table.get_mut(subscription.0) {
            entry.replay_always();
            let index = entry.connection;
            self.recovering.release((index, subscription));
            self.recovering.release_reader((index, subscription));
        }
    }

    /// The key by which homes know the subscription.
    pub fn key(&self, subscription: SubIndex) -> SubscriptionKey {
        Key { index: subscription.0, generation: self.table[subscription.0].generation }
    }

    /// Renews the key of a subscription, so that letters under the old key are dropped.
    fn renew_key(&mut self, subscription: SubIndex) {
        self.generation = self.generation.wrapping_add(1);
        self.table[subscription.0].generation = self.generation;
    }

    /// The subscription of a key, if it is still there.
    #[inline]
    pub fn find(&self, key: SubscriptionKey) -> Option<SubIndex> {
        let entry = self.table.get(key.index)?;
        (entry.generation == key.generation).then_some(SubIndex(key.index))
    }

    /// The connection's subscriptions from this one on, newest first.
    pub fn chain(&self, first: SubIndex) -> impl Iterator<Item = SubIndex> {
        std::iter::successors((first != SubIndex::NONE).then_some(first), |&at| {
            let next = self.table[at.0].next;
            (next != SubIndex::NONE).then_some(next)
        })
    }

    /// Takes the home's grant of a topic, even if its subscription has gone.
    pub fn note_grant(&mut self, home: HomeId, grant: &Grant) {
        let topic = self.topics[usize::from(home)].at(TopicIndex(grant.index));
        topic.generation = grant.generation;
        topic.partition = grant.partition;
    }

    /// A granted subscription takes messages of its topic, or is to be read from the log.
    pub fn begin(
        &mut self,
        subscription: SubIndex,
        slot: &mut Slot,
        home: HomeId,
        grant: &Grant,
        settings: &Settings,
    ) {
        let subscribers =
            &mut self.topics[usize::from(home)].at(TopicIndex(grant.index)).subscribers;
        let position = subscribers.len() as u32;
        self.members.push(subscribers, subscription.0);
        let entry = &mut self.table[subscription.0];
        entry.target = grant.index;
        entry.position = position;
        entry.stage = Stage::Live;
        entry.set_cursor(grant.position.offset);
        if grant.replaying {
            self.set_lagging(subscription, settings);
        }
        self.note_if_large(slot, subscription);
        if !grant.replaying {
            self.credits.remove(subscription);
        }
    }

    /// The subscription takes live messages after `offset`: a page has come. Where pages are left,
    /// it lags instead.
    pub fn go_on(
        &mut self,
        subscription: SubIndex,
        offset: u64,
        is_lagging: bool,
        settings: &Settings,
    ) {
        self.leave_reading(subscription, settings);
        let entry = &mut self.table[subscription.0];
        entry.stage = Stage::Live;
        entry.set_cursor(offset);
        if is_lagging {
            self.set_lagging(subscription, settings);
        }
    }

    /// A live message has come. False if the subscription does not take it: it is read from the
    /// log, or has settled it, as a client may know more than a lagging stream has carried.
    #[inline]
    pub fn take_live(&mut self, subscription: SubIndex, offset: u64) -> bool {
        let entry = &mut self.table[subscription.0];
        let takes = entry.stage == Stage::Live && offset > entry.cursor();
        if takes {
            entry.set_cursor(offset);
        }
        takes
    }

    /// Forgets a subscription in whatever stage.
    pub fn remove(
        &mut self,
        subscription: SubIndex,
        slot: &mut Slot,
        settings: &Settings,
    ) -> Option<Unused> {
        let entry = self.table.get(subscription.0)?;
        let (next, previous) = (entry.next, entry.previous);
        match self.table.get_mut(previous.0) {
            None => slot.subscriptions = next,
            Some(previous) => previous.next = next,
        }
        if let Some(next) = self.table.get_mut(next.0) {
            next.previous = previous;
        }
        slot.subscriptions_count -= 1;
        self.leave_lagging(subscription, settings);
        let entry = self.table.remove(subscription.0)?;
        self.credits.remove(subscription);
        self.recovering.release((entry.connection, subscription));
        self.release_if_large(slot, &entry);
        if entry.is_filter() {
            if !entry.is_of_stream() {
                self.release_reader((entry.connection, subscription), slot, settings);
            } else {
                self.catch_up.release_question(entry.connection, subscription);
            }
            return self.leave_filter(subscription, &entry);
        }
        // A subscription without a grant has no topic; the grant will be dropped.
        let (home, index) = entry.topic()?;
        let subscribers = &mut self.topics[usize::from(home)].at(index).subscribers;
        let moved = self.members.swap_remove_at(subscribers, entry.position as usize);
        if let Some(moved) = moved {
            self.table[moved].position = entry.position;
        }
        let generation = self.unused_generation(home, index)?;
        Some(Unused::Topic { home, index, generation })
    }
}

impl Index<SubIndex> for Subscriptions {
    type Output = Subscription;

    #[inline]
    fn index(&self, subscription: SubIndex) -> &Subscription {
        &self.table[subscription.0]
    }
}
