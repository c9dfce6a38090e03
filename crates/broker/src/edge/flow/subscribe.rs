//! Plain subscriptions: asked for, granted or refused, read by pages, forgotten.

use crate::edge::Edge;
use crate::edge::slots::flag;
use crate::edge::subscriptions::{CHAIN_WALK_MAX, Kind, Stage, Subscription, Terms, topic_of};
use crate::ids::{ConnIndex, NONE, SubIndex, TopicIndex};
use crate::mail::{HomeId, Page, PartitionId, Subscribe, SubscriptionKey, ToHome};
use crate::notice::{Grant, Refusal, Wish};
use crate::settings::LagPolicy;
use log::RecordView;
use stdx::key::Key;
use wire::native::ErrorCode;

impl Edge {
    /// Asks for a plain topic. The answer comes by [`Edge::granted`].
    pub(crate) fn subscribe_plain(
        &mut self,
        index: ConnIndex,
        topic: &str,
        client: u32,
        wish: Wish,
    ) -> u32 {
        let (rule, partition) = self.settings.locate(topic);
        let home = self.settings.home_of(partition);
        let kind = match wish.fail_on_gap {
            true => Kind::PlainWithoutGap,
            false => Kind::Plain,
        };
        let of_rule = self.settings.rules[usize::from(rule)].when_lagging;
        let policy = wish.policy.unwrap_or(of_rule);
        let subscription = self.insert_subscription(index, client, home, kind, policy);
        let key = self.subscription_key(subscription);
        let topic = self.work.mail.copy(topic.as_bytes());
        self.request(
            home,
            ToHome::Subscribe(Subscribe {
                partition,
                rule,
                topic,
                subscription: key,
                start: wish.start,
            }),
        );
        subscription
    }

    pub(crate) fn insert_subscription(
        &mut self,
        index: ConnIndex,
        client: u32,
        home: HomeId,
        kind: Kind,
        policy: LagPolicy,
    ) -> u32 {
        self.subscriptions.generation = self.subscriptions.generation.wrapping_add(1);
        let slot = &mut self.connections.slots[index];
        let subscription = self.subscriptions.table.insert(Subscription {
            generation: self.subscriptions.generation,
            connection: index,
            next: slot.subscriptions,
            previous: NONE,
            topic: NONE,
            position: 0,
            client,
            cursor: [0; 2],
            home,
            stage: Stage::Pending,
            terms: Terms::new(kind, policy),
        });
        let next = std::mem::replace(&mut slot.subscriptions, subscription);
        slot.subscriptions_count += 1;
        if let Some(next) = self.subscriptions.table.get_mut(next) {
            next.previous = subscription;
        }
        self.note_if_large(subscription);
        subscription
    }

    pub(crate) fn subscription_key(&self, subscription: SubIndex) -> SubscriptionKey {
        Key { index: subscription, generation: self.subscriptions.table[subscription].generation }
    }

    /// Whether it is there and takes live messages.
    pub(crate) fn is_live(&self, key: SubscriptionKey) -> bool {
        self.live_subscription(key)
            .is_some_and(|subscription| self.subscriptions.table[subscription].stage == Stage::Live)
    }

    /// Forgets a subscription if it is still there.
    pub(crate) fn unsubscribe_key(&mut self, key: SubscriptionKey) {
        if let Some(subscription) = self.live_subscription(key) {
            self.unsubscribe(subscription);
        }
    }

    /// Letters under the subscription's key of before find nobody.
    pub(crate) fn renew_key(&mut self, subscription: SubIndex) {
        self.subscriptions.generation = self.subscriptions.generation.wrapping_add(1);
        self.subscriptions.table[subscription].generation = self.subscriptions.generation;
    }

    pub(crate) fn live_subscription(&self, key: SubscriptionKey) -> Option<u32> {
        let entry = self.subscriptions.table.get(key.index)?;
        (entry.generation == key.generation).then_some(key.index)
    }

    /// The connection's plain subscription to a topic.
    pub(crate) fn find_plain(
        &self,
        index: ConnIndex,
        home: HomeId,
        topic: TopicIndex,
    ) -> Option<u32> {
        if self.connections.slots[index].is(flag::LARGE) {
            return self.subscriptions.large.of_topic(index, home, topic);
        }
        let subscribers = &self.subscriptions.topics[usize::from(home)].get(topic)?.subscribers;
        if subscribers.len() < self.connections.slots[index].subscriptions_count as usize {
            return self
                .subscriptions
                .members
                .iter(subscribers)
                .find(|&other| self.subscriptions.table[other].connection == index);
        }
        self.chain(index).find(|&other| {
            let entry = &self.subscriptions.table[other];
            !entry.is_filter()
                && entry.stage != Stage::Pending
                && entry.home == home
                && entry.topic == topic
        })
    }

    /// The connection's subscription by the client's own number.
    pub(crate) fn find_client(&self, index: ConnIndex, client: u32) -> Option<u32> {
        if self.connections.slots[index].is(flag::LARGE) {
            return self.subscriptions.large.of_client(index, client);
        }
        self.chain(index).find(|&other| self.subscriptions.table[other].client == client)
    }

    pub(crate) fn subscription_connection(&self, subscription: SubIndex) -> u32 {
        self.subscriptions.table[subscription].connection
    }

    pub(crate) fn subscription_client(&self, subscription: SubIndex) -> u32 {
        self.subscriptions.table[subscription].client
    }

    /// The home and the index of a plain subscription's topic.
    pub(crate) fn subscription_topic(&self, subscription: SubIndex) -> (HomeId, u32) {
        let entry = &self.subscriptions.table[subscription];
        (entry.home, entry.topic)
    }

    /// The epoch of a plain subscription's log.
    pub(crate) fn subscription_epoch(&self, subscription: SubIndex) -> u64 {
        let entry = &self.subscriptions.table[subscription];
        let topic = self.subscriptions.topics[usize::from(entry.home)].get(entry.topic);
        topic.map_or(0, |topic| self.settings.log_of(topic.partition).epoch)
    }

    /// Everything of a plain subscription up to this offset has been queued for its client, or is
    /// settled.
    pub(crate) fn subscription_cursor(&self, subscription: SubIndex) -> u64 {
        self.subscriptions.table[subscription].cursor()
    }

    /// Whether its home has not answered yet.
    pub(crate) fn is_pending(&self, subscription: SubIndex) -> bool {
        self.subscriptions.table[subscription].stage == Stage::Pending
    }

    /// Whether it is a live subscription to a filter.
    pub(crate) fn is_wide(&self, subscription: SubIndex) -> bool {
        self.subscriptions.table[subscription].stage == Stage::Wide
    }

    /// Limits the replay of a subscription until the client gives more.
    pub(crate) fn set_replay_credit(&mut self, subscription: SubIndex, messages: u32) {
        self.subscriptions.replay_credits.insert(subscription, messages);
    }

    /// The connection's subscriptions, newest first.
    pub(crate) fn chain(&self, index: ConnIndex) -> impl Iterator<Item = u32> {
        let first = self.connections.slots[index].subscriptions;
        std::iter::successors((first != NONE).then_some(first), |&at| {
            let next = self.subscriptions.table[at].next;
            (next != NONE).then_some(next)
        })
    }

    /// A home has interest for us in a topic.
    pub(crate) fn granted(&mut self, home: HomeId, grant: Grant) {
        let topic = self.subscriptions.topics[usize::from(home)].at(grant.index);
        topic.generation = grant.generation;
        topic.partition = grant.partition;
        let Some(subscription) = self.live_subscription(grant.subscription) else {
            return self.release_if_unused(home, grant.index);
        };
        let index = self.subscriptions.table[subscription].connection;
        if self.find_plain(index, home, grant.index).is_some() {
            self.refused(subscription, Refusal::of(ErrorCode::AlreadySubscribed));
            return;
        }
        if grant.gap.is_some()
            && self.subscriptions.table[subscription].terms.kind() == Kind::PlainWithoutGap
        {
            self.statistics.recoveries.refused += 1;
            let refusal = Refusal {
                restart: Some(grant.position),
                ..Refusal::of(ErrorCode::PositionUnavailable)
            };
            self.refused(subscription, refusal);
            return self.release_if_unused(home, grant.index);
        }
        let recoveries = &mut self.statistics.recoveries;
        recoveries.count(grant.continued, grant.gap.is_some());
        let subscribers =
            &mut self.subscriptions.topics[usize::from(home)].at(grant.index).subscribers;
        let position = subscribers.len() as u32;
        self.subscriptions.members.push(subscribers, subscription);
        let entry = &mut self.subscriptions.table[subscription];
        entry.topic = grant.index;
        entry.position = position;
        entry.stage = Stage::Live;
        entry.set_cursor(grant.position.offset);
        if grant.replaying {
            self.set_lagging(subscription);
        }
        self.note_if_large(subscription);
        if !grant.replaying {
            self.subscriptions.replay_credits.remove(&subscription);
        }
        self.tell_subscribed(subscription, &grant);
        if grant.replaying {
            self.recovers(subscription);
            self.connections.slots[index].set(flag::LAGGING);
            self.read_if_writable(index);
        }
    }

    /// Asks for the next pages now unless the socket is full.
    pub(crate) fn read_if_writable(&mut self, index: ConnIndex) {
        if !self.connections.slots[index].is(flag::BLOCKED) {
            self.read_lagging(index);
        }
    }

    /// A page has come: deliver it; go on when it has left, or live from here.
    pub(crate) fn page(&mut self, page: Page) {
        let Some(subscription) = self.live_subscription(page.subscription) else {
            return;
        };
        if self.subscriptions.table[subscription].stage != Stage::Reading {
            return;
        }
        self.statistics.pages += 1;
        let index = self.subscriptions.table[subscription].connection;
        self.leave_reading(subscription);
        let Page { gap, skipped, records, through, caught_up, .. } = page;
        // Set before its frames are queued: if the outbox has no room for them, it becomes lagging
        // again.
        let entry = &mut self.subscriptions.table[subscription];
        let after = entry.cursor();
        // What the client has settled by the frames of this page that come before its last.
        let mut told = gap.map_or(skipped.unwrap_or(after), |gap| gap.to);
        entry.stage = Stage::Live;
        entry.set_cursor(through);
        if !caught_up {
            self.set_lagging(subscription);
        }
        if let Some(gap) = gap {
            self.statistics.gaps += 1;
            self.tell_gap(subscription, gap);
        }
        if let Some(skipped) = skipped {
            self.leave_out(subscription, after, skipped);
        }
        if let Some(view) = records.last().and_then(|record| RecordView::parse(record)) {
            told = view.offset();
        }
        for record in &records {
            let entry = &self.subscriptions.table[subscription];
            // An earlier record of this page found no room.
            if entry.stage == Stage::Lagging && entry.cursor() < through {
                break;
            }
            self.use_replay_credit(subscription);
            self.deliver_one(subscription, record);
        }
        if self.subscriptions.table[subscription].stage == Stage::Live {
            self.subscriptions.replay_credits.remove(&subscription);
        }
        match self.subscriptions.table[subscription].stage {
            Stage::Live => self.tell_caught_up(subscription, told, through),
            _ => {
                self.connections.slots[index].set(flag::LAGGING);
                self.touch(index);
            }
        }
    }

    /// Messages that the client still allows, if it limits them.
    pub(crate) fn replay_credit(&self, subscription: SubIndex) -> Option<u32> {
        self.subscriptions.replay_credits.get(&subscription).copied()
    }

    pub(crate) fn use_replay_credit(&mut self, subscription: SubIndex) {
        if let Some(credit) = self.subscriptions.replay_credits.get_mut(&subscription) {
            *credit = credit.saturating_sub(1);
        }
    }

    /// The replay is over.
    pub(crate) fn forget_replay_credit(&mut self, subscription: SubIndex) {
        self.subscriptions.replay_credits.remove(&subscription);
    }

    /// A message that the client had given credit for was not sent after all: the log will bring it
    /// again.
    pub(crate) fn refund_replay_credit(&mut self, subscription: SubIndex) {
        if let Some(credit) = self.subscriptions.replay_credits.get_mut(&subscription) {
            *credit = credit.saturating_add(1);
        }
    }

    /// The client allows so many more messages of replay.
    pub(crate) fn add_replay_credit(&mut self, subscription: SubIndex, messages: u32) {
        if let Some(credit) = self.subscriptions.replay_credits.get_mut(&subscription) {
            *credit = credit.saturating_add(messages);
            let index = self.subscriptions.table[subscription].connection;
            self.connections.slots[index].set(flag::LAGGING);
            self.touch(index);
        }
    }

    /// A home will not have this subscription.
    pub(crate) fn refused_by_home(&mut self, key: SubscriptionKey, code: ErrorCode) {
        if let Some(subscription) = self.live_subscription(key) {
            self.refused(subscription, Refusal::of(code));
        }
    }

    /// Tells the client, and forgets the subscription.
    pub(crate) fn refused(&mut self, subscription: SubIndex, refusal: Refusal) {
        self.statistics.subscriptions_refused += 1;
        let index = self.subscription_connection(subscription);
        self.tell_refused(subscription, refusal);
        self.unsubscribe(subscription);
        self.settled_for_renewal(index);
    }

    /// Forgets a subscription in whatever stage.
    pub(crate) fn unsubscribe(&mut self, subscription: SubIndex) {
        let Some(entry) = self.subscriptions.table.get(subscription) else {
            return;
        };
        let (index, next, previous) = (entry.connection, entry.next, entry.previous);
        // Of one to a filter what waits is sent: others of the connection may share what comes
        // behind it, which would then stand for more than it brings. UNSUBSCRIBED comes behind all
        // of it.
        if !entry.is_filter() && entry.topic != NONE {
            let (home, topic) = (entry.home, entry.topic);
            self.outboxes.end_topic(&self.connections.slots[index], index, home, topic);
        }
        match self.subscriptions.table.get_mut(previous) {
            None => self.connections.slots[index].subscriptions = next,
            Some(previous) => previous.next = next,
        }
        if let Some(next) = self.subscriptions.table.get_mut(next) {
            next.previous = previous;
        }
        self.connections.slots[index].subscriptions_count -= 1;
        self.drop_subscription(subscription);
    }

    /// Forgets all subscriptions of a connection that goes.
    pub(crate) fn unsubscribe_all(&mut self, index: ConnIndex) {
        let mut at = std::mem::replace(&mut self.connections.slots[index].subscriptions, NONE);
        self.connections.slots[index].subscriptions_count = 0;
        while at != NONE {
            let next = self.subscriptions.table[at].next;
            self.drop_subscription(at);
            at = next;
        }
        self.forget_all_behind(index);
    }

    fn drop_subscription(&mut self, subscription: SubIndex) {
        self.forget_lagging(subscription);
        let Some(entry) = self.subscriptions.table.remove(subscription) else {
            return;
        };
        self.subscriptions.replay_credits.remove(&subscription);
        self.forget_recovery(entry.connection, subscription);
        self.forget_if_large(&entry);
        if entry.is_filter() {
            self.forget_behind(entry.connection, subscription);
            self.drop_filter_subscription(subscription, &entry);
            return;
        }
        if entry.topic == NONE {
            return; // not granted yet; the grant will find nobody
        }
        let subscribers =
            &mut self.subscriptions.topics[usize::from(entry.home)].at(entry.topic).subscribers;
        if let Some(moved) =
            self.subscriptions.members.swap_remove_at(subscribers, entry.position as usize)
        {
            self.subscriptions.table[moved].position = entry.position;
        }
        self.release_if_unused(entry.home, entry.topic);
    }

    /// Where a filter's subscription stands in the filter's list.
    pub(crate) fn list_position(entry: &Subscription) -> usize {
        entry.position as usize
    }

    pub(crate) fn set_list_position(&mut self, subscription: SubIndex, position: u32) {
        self.subscriptions.table[subscription].position = position;
    }

    fn release_if_unused(&mut self, home: HomeId, index: TopicIndex) {
        let topic = self.subscriptions.topics[usize::from(home)].at(index);
        if topic.subscribers.is_empty() {
            let generation = topic.generation;
            self.request(home, ToHome::Release { index, generation });
        }
    }

    /// The home has taken the index back.
    pub(crate) fn released(&mut self, home: HomeId, index: TopicIndex) {
        let topic = std::mem::take(self.subscriptions.topics[usize::from(home)].at(index));
        debug_assert!(topic.subscribers.is_empty(), "a home releases what the edge has released");
        if let Some(named) =
            topic.named.checked_sub(1).and_then(|at| self.subscriptions.named.remove(at))
        {
            self.subscriptions.named_bytes -= named.owned_bytes();
        }
        self.ticket_index_released(home, index);
    }

    /// A connection has another subscription, or a subscription has got its topic.
    pub(crate) fn note_if_large(&mut self, subscription: SubIndex) {
        let entry = &self.subscriptions.table[subscription];
        let slot = &mut self.connections.slots[entry.connection];
        if slot.is(flag::LARGE) {
            self.subscriptions.large.insert(subscription, entry);
        } else if slot.subscriptions_count > CHAIN_WALK_MAX {
            slot.set(flag::LARGE);
            let mut at = slot.subscriptions;
            while let Some(entry) = self.subscriptions.table.get(at) {
                self.subscriptions.large.insert(at, entry);
                at = entry.next;
            }
        }
    }

    /// A subscription has gone.
    pub(crate) fn forget_if_large(&mut self, entry: &Subscription) {
        if self.connections.slots[entry.connection].is(flag::LARGE) {
            let client = (entry.connection, entry.client);
            self.subscriptions.large.by_client.remove(&client);
            self.subscriptions.large.by_topic.remove(&topic_of(entry));
        }
    }

    /// Where a plain subscription's topic lives.
    pub(crate) fn partition_of(&self, subscription: SubIndex) -> PartitionId {
        let entry = &self.subscriptions.table[subscription];
        let topic = self.subscriptions.topics[usize::from(entry.home)].get(entry.topic);
        topic.map_or(0, |topic| topic.partition)
    }
}
