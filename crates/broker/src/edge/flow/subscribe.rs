//! Plain subscriptions: asked for, granted or refused, read by pages, released.

use crate::edge::Edge;
use crate::edge::subscriptions::{Kind, Stage, Terms, Unused};
use crate::ids::{ConnIndex, NONE, SubIndex, TopicIndex};
use crate::mail::{HomeId, Page, Subscribe, SubscriptionKey, ToHome};
use crate::notice::{Grant, Refusal, SubscribeTerms};
use crate::protocol::flag;
use crate::session::mqtt::refusal::reason_of;
use crate::settings::LagPolicy;
use log::RecordView;
use wire::native::ErrorCode;

impl Edge {
    /// Asks for a plain topic. The answer comes by [`Edge::granted`].
    pub(crate) fn subscribe_plain(
        &mut self,
        index: ConnIndex,
        topic: &str,
        client: u32,
        terms: SubscribeTerms,
    ) -> SubIndex {
        let (rule, partition) = self.settings.locate(topic);
        let home = self.settings.home_of(partition);
        let kind = if terms.fail_on_gap { Kind::PlainWithoutGap } else { Kind::Plain };
        let of_rule = self.settings.rules[usize::from(rule)].when_lagging;
        let policy = terms.policy.unwrap_or(of_rule);
        let subscription = self.insert_subscription(index, client, home, kind, policy);
        let topic = self.work.mail.copy(topic.as_bytes());
        let key = self.subscriptions.key(subscription);
        let request = Subscribe { partition, rule, topic, subscription: key, start: terms.start };
        self.request(home, ToHome::Subscribe(request));
        subscription
    }

    pub(crate) fn insert_subscription(
        &mut self,
        index: ConnIndex,
        client: u32,
        home: HomeId,
        kind: Kind,
        policy: LagPolicy,
    ) -> SubIndex {
        let slot = &mut self.connections.slots[index];
        let terms = Terms::new(kind, policy, slot.facts().has_one_cursor);
        self.subscriptions.insert(index, slot, client, home, terms)
    }

    /// A home has interest for us in a topic.
    pub(crate) fn granted(&mut self, home: HomeId, grant: Grant) {
        self.subscriptions.note_grant(home, &grant);
        let Some(subscription) = self.subscriptions.find(grant.subscription) else {
            return self.release_if_unused(home, TopicIndex(grant.index));
        };
        let entry = &self.subscriptions[subscription];
        let (index, fails_on_gap) = (entry.connection, entry.fails_on_gap());
        let slot = &mut self.connections.slots[index];
        let is_mqtt = slot.facts().is_mqtt;
        let found = self.subscriptions.find_plain(index, slot, home, TopicIndex(grant.index));
        if let Some(existing) = found.filter(|_| is_mqtt) {
            return self.mqtt_subscribed_again(existing, subscription, &grant);
        }
        if found.is_some() {
            self.refused(subscription, Refusal::of(ErrorCode::AlreadySubscribed));
            return;
        }
        if grant.gap.is_some() && fails_on_gap {
            self.statistics.recoveries.refused += 1;
            let refusal = Refusal {
                restart: Some(grant.position),
                ..Refusal::of(ErrorCode::PositionUnavailable)
            };
            self.refused(subscription, refusal);
            return self.release_if_unused(home, TopicIndex(grant.index));
        }
        self.statistics.recoveries.count(grant.continued, grant.gap.is_some());
        self.subscriptions.begin(subscription, slot, home, &grant, &self.settings);
        if is_mqtt {
            self.mqtt_subscribed(home, subscription, &grant);
        } else {
            self.notify_subscribed(subscription, &grant);
        }
        if self.subscriptions.find(grant.subscription).is_none() {
            return; // its client has unsubscribed before the grant
        }
        if grant.replaying {
            self.subscriptions.recovers(subscription);
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

    /// A page has come: deliver it; continue when it has left, or live from here.
    pub(crate) fn page(&mut self, page: Page) {
        let Some(subscription) = self.subscriptions.find(page.subscription) else {
            return;
        };
        let entry = &self.subscriptions[subscription];
        if entry.stage != Stage::Reading {
            return;
        }
        self.statistics.pages += 1;
        let (index, after) = (entry.connection, entry.cursor());
        let Page { gap, skipped, records, through, caught_up, .. } = page;
        // Set before its frames are queued: if the outbox has no room for them, it becomes lagging
        // again.
        self.subscriptions.go_on(subscription, through, !caught_up, &self.settings);
        // The offset that the client has settled by the frames of this page that come before its
        // last.
        let mut told = gap.map_or(skipped.unwrap_or(after), |gap| gap.to);
        if let Some(gap) = gap {
            self.statistics.gaps += 1;
            self.notify_gap(subscription, gap);
        }
        if let Some(skipped) = skipped {
            self.leave_out(subscription, after, skipped);
        }
        if let Some(view) = records.last().and_then(|record| RecordView::parse(record)) {
            told = view.offset();
        }
        for record in &records {
            let entry = &self.subscriptions[subscription];
            // An earlier record of this page found no room.
            if entry.stage == Stage::Lagging && entry.cursor() < through {
                break;
            }
            self.subscriptions.use_credit(subscription);
            self.deliver_one(subscription, record);
        }
        if self.subscriptions[subscription].stage == Stage::Live {
            self.subscriptions.end_credit(subscription);
            self.notify_caught_up(subscription, told, through);
            self.end_caught_up(subscription);
        } else {
            self.connections.slots[index].set(flag::LAGGING);
            self.mark_dirty(index);
        }
    }

    /// The client grants credit for further messages of its replay.
    pub(crate) fn add_replay_credit(&mut self, subscription: SubIndex, messages: u32) {
        if self.subscriptions.add_credit(subscription, messages) {
            let index = self.subscriptions[subscription].connection;
            self.connections.slots[index].set(flag::LAGGING);
            self.mark_dirty(index);
        }
    }

    /// A home will not have this subscription.
    pub(crate) fn refused_by_home(&mut self, key: SubscriptionKey, code: ErrorCode) {
        if let Some(subscription) = self.subscriptions.find(key) {
            self.refused(subscription, Refusal::of(code));
        }
    }

    /// Notifies the client, and releases the subscription.
    pub(crate) fn refused(&mut self, subscription: SubIndex, refusal: Refusal) {
        self.statistics.subscriptions_refused += 1;
        let index = self.subscriptions[subscription].connection;
        if self.is_of_mqtt_session(index, subscription) {
            // MQTT has no word for it, and the session keeps the subscription: the client comes
            // back, and it continues.
            return self.mqtt_disconnect(index, reason_of(refusal.code));
        }
        self.notify_refused(subscription, refusal);
        self.unsubscribe(subscription);
        self.settled_for_renewal(index);
    }

    /// Forgets a subscription if it is still there.
    pub(crate) fn unsubscribe_key(&mut self, key: SubscriptionKey) {
        if let Some(subscription) = self.subscriptions.find(key) {
            self.unsubscribe(subscription);
        }
    }

    /// Forgets a subscription in whatever stage.
    pub(crate) fn unsubscribe(&mut self, subscription: SubIndex) {
        let Some(entry) = self.subscriptions.get(subscription) else {
            return;
        };
        let index = entry.connection;
        // Of one to a filter what waits is sent: others of the connection may share what comes
        // behind it, which would then stand for more than it brings. UNSUBSCRIBED comes behind all
        // of it.
        if let Some((home, topic)) = entry.topic() {
            self.outboxes.end_topic(&self.connections.slots[index], index, home, topic);
        }
        if self.connections.slots[index].facts().is_mqtt {
            self.forget_ended(index, subscription);
        }
        self.remove_subscription(index, subscription);
    }

    /// Forgets all subscriptions of a connection that goes.
    pub(crate) fn unsubscribe_all(&mut self, index: ConnIndex) {
        while self.connections.slots[index].subscriptions != SubIndex::NONE {
            let first = self.connections.slots[index].subscriptions;
            self.remove_subscription(index, first);
        }
        let slot = &mut self.connections.slots[index];
        self.subscriptions.release_stream(index, slot, &self.settings);
    }

    fn remove_subscription(&mut self, index: ConnIndex, subscription: SubIndex) {
        let slot = &mut self.connections.slots[index];
        match self.subscriptions.remove(subscription, slot, &self.settings) {
            Some(Unused::Topic { home, index, generation }) => {
                self.request(home, ToHome::Release { index: index.0, generation });
            }
            Some(Unused::Filter(filter)) => {
                for home in self.settings.homes() {
                    self.request(home, ToHome::RemoveFilter { filter: filter.clone() });
                }
            }
            None => {}
        }
    }

    fn release_if_unused(&mut self, home: HomeId, index: TopicIndex) {
        if let Some(generation) = self.subscriptions.unused_generation(home, index) {
            self.request(home, ToHome::Release { index: index.0, generation });
        }
    }

    /// The home has taken the index back.
    pub(crate) fn released(&mut self, home: HomeId, index: TopicIndex) {
        self.subscriptions.release_topic(home, index);
        self.sessions.tickets.note_released(home, index);
    }
}

/// Facts about a subscription for other flows and sessions.
impl Edge {
    /// Whether it is there and takes live messages.
    pub(crate) fn is_live(&self, key: SubscriptionKey) -> bool {
        let subscription = self.subscriptions.find(key);
        subscription.is_some_and(|at| self.subscriptions[at].stage == Stage::Live)
    }

    /// The connection's subscription by the client's own number.
    pub(crate) fn find_client(&self, index: ConnIndex, client: u32) -> Option<SubIndex> {
        self.subscriptions.find_client(index, &self.connections.slots[index], client)
    }

    /// The home and the index of a plain subscription's topic.
    pub(crate) fn subscription_topic(&self, subscription: SubIndex) -> (HomeId, TopicIndex) {
        let entry = &self.subscriptions[subscription];
        entry.topic().unwrap_or((entry.home, TopicIndex(NONE)))
    }

    /// The epoch of a plain subscription's partition.
    pub(crate) fn subscription_epoch(&self, subscription: SubIndex) -> u64 {
        let partition = self.subscriptions.partition_of(subscription);
        partition.map_or(0, |partition| self.links.epochs.of(partition, &self.settings))
    }

    /// The byte of that epoch that frames carry, if it advances.
    pub(crate) fn subscription_lineage(&self, subscription: SubIndex) -> Option<u8> {
        self.links.epochs.lineage(self.subscriptions.partition_of(subscription)?)
    }

    /// The connection's subscriptions, newest first.
    pub(crate) fn chain(&self, index: ConnIndex) -> impl Iterator<Item = SubIndex> {
        self.subscriptions.chain(self.connections.slots[index].subscriptions)
    }

    /// The lag policy, and whether the subscription fails on a gap.
    pub(crate) fn subscription_terms(&self, subscription: SubIndex) -> (LagPolicy, bool) {
        let entry = &self.subscriptions[subscription];
        (entry.policy(), entry.fails_on_gap())
    }
}
