//! The end of a connection of MQTT: its session goes to sleep or ends, and its will is published.
//!
//! Invariant: a connection that has got a name leaves once, before its subscriptions are
//! removed, because their cursors go with the session.

use crate::edge::Edge;
use crate::edge::subscriptions::Stage;
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{
    Leave, PartitionCursor, PartitionId, Publication, Publish, SleepingReceived, SleepingSession,
    SleepingSubscription, ToHome, Will,
};
use crate::position::Position;
use crate::protocol::flag;
use crate::session::State;
use crate::session::mqtt::options::Options;
use crate::session::mqtt::{Link, Mqtt};
use log::FurtherFields;
use std::collections::BTreeMap;
use stdx::chunk::Slice;
use stdx::key::Key;
use wire::mqtt::SHARED_PREFIX;

/// Topics of retained messages that a session names for each subscription; if more are due, all of
/// them come again.
const RETAINED_MAX: usize = 64;

impl Edge {
    /// The connection ends; nothing if it is not one of MQTT, or has left.
    pub(crate) fn leave_mqtt(&mut self, index: ConnIndex) {
        if self.connections.slots[index].facts().is_mqtt {
            self.leave_name(index);
        }
    }

    fn leave_name(&mut self, index: ConnIndex) {
        let Some(State::Mqtt(mut mqtt)) = self.take_state_if_mqtt(index) else {
            return;
        };
        // Without the answer of the home nothing is to be given back yet (`claimed`), and no will
        // belongs to the connection.
        let was_held = mqtt.link == Link::Held;
        mqtt.link = match mqtt.link {
            Link::Held | Link::Left => Link::Left,
            Link::Asked | Link::Never => Link::Never,
        };
        if was_held {
            let session = (mqtt.expiry_s > 0).then(|| Box::new(self.sleep(index, &mqtt)));
            let until_ms = session.as_ref().map_or(0, |session| session.expires_ms);
            self.leave_groups(index, &mqtt, until_ms);
            // The socket may take packets for a while: messages of groups are for other members.
            if let Some(busy) = mqtt.busy.get_mut() {
                busy.memberships = Vec::new();
            }
            let connection = self.connections.slots.key(index);
            let home = self.home_of_client(self.sessions.name_of(&mqtt));
            let name = self.work.mail.copy(self.sessions.name_of(&mqtt));
            let is_answered = self.connections.slots[index].is(flag::GATED) && session.is_some();
            if is_answered {
                mqtt.record.note_asked();
            }
            self.request(home, ToHome::Leave(Leave { name, connection, session, is_answered }));
            if let Some(will) = mqtt.will.take() {
                let delay_s = will.delay_s.min(mqtt.expiry_s);
                self.will_follows(connection, *will, delay_s);
            }
        }
        self.set_state(index, State::Mqtt(mqtt));
    }

    /// The session as it sleeps.
    pub(super) fn sleep(&self, index: ConnIndex, mqtt: &Mqtt) -> SleepingSession {
        let expiry_ms = u64::from(mqtt.expiry_s) * 1_000;
        let expires_ms = match mqtt.expiry_s {
            u32::MAX => u64::MAX,
            _ => self.now.unix_ms.saturating_add(expiry_ms),
        };
        let mut subscriptions: BTreeMap<Box<[u8]>, SleepingSubscription> = BTreeMap::new();
        // Those that have not been granted again keep the cursors that they came with.
        if let Some(waking) = &mqtt.busy.waking {
            for subscription in &waking.subscriptions {
                let kept = SleepingSubscription {
                    cursors: waking.cursors_of(subscription),
                    ..subscription.clone()
                };
                subscriptions.insert(subscription.filter[..].into(), kept);
            }
        }
        let mut has_filters = false;
        for at in self.chain(index) {
            if let Some(subscription) = self.sleeping(at) {
                has_filters |= self.subscriptions[at].is_filter();
                let is_ended = mqtt.busy.ended.contains(&at);
                let retained = self.retained_due(mqtt, at, &subscription);
                let subscription = SleepingSubscription { is_ended, retained, ..subscription };
                subscriptions.insert(subscription.filter[..].into(), subscription);
            }
        }
        let mut through: Vec<PartitionCursor> = Vec::new();
        if has_filters {
            through = (0..self.settings.partitions_count())
                .map(PartitionId)
                .map(|partition| self.cursor(partition, self.mqtt.through(partition)))
                .collect();
        }
        for membership in mqtt.busy.memberships.iter().filter(|it| !it.is_leaving) {
            let filter = [SHARED_PREFIX, &membership.group].concat();
            let subscription = SleepingSubscription {
                filter: Slice::copy_of(filter.as_bytes()),
                options: membership.options,
                cursors: membership.cursors.clone(),
                is_ended: false,
                retained: Vec::new(),
            };
            subscriptions.insert(subscription.filter[..].into(), subscription);
        }
        let received = mqtt.busy.received.iter().map(|(id, it)| SleepingReceived {
            id,
            released: it.released,
            is_answered: it.is_answered,
        });
        SleepingSession {
            user: self.user_hash(index),
            is_awake: mqtt.link == Link::Held,
            expiry_s: mqtt.expiry_s,
            expires_ms,
            instance: mqtt.instance,
            released: mqtt.released,
            resumed_at: mqtt.resumed_at(),
            next_id: mqtt.opened.next_id(),
            received: received.collect(),
            open: mqtt.opened.iter().filter(|open| open.member == 0).copied().collect(),
            gaps: mqtt.busy.gaps.to_vec(),
            through,
            subscriptions: subscriptions.into_values().collect(),
            will: mqtt.will.clone().filter(|_| mqtt.record.is_shared && mqtt.link == Link::Held),
        }
    }

    /// A granted subscription as it sleeps.
    fn sleeping(&self, at: SubIndex) -> Option<SleepingSubscription> {
        let entry = &self.subscriptions[at];
        if entry.is_pending() || Options::is_pending(entry.client) {
            return None;
        }
        let filter = self.name_of_subscription(at)?;
        let cursors = match entry.topic() {
            Some(_) => {
                let partition = self.subscriptions.partition_of(at)?;
                let offset = if entry.stage == Stage::Live {
                    entry.cursor().max(self.mqtt.through(partition))
                } else {
                    entry.cursor()
                };
                vec![self.cursor(partition, offset)]
            }
            // In all other partitions the cursor is that of the session.
            None => {
                let behind = self.subscriptions.cursors_of(at).into_iter();
                behind.map(|(partition, after)| self.cursor(partition, after)).collect()
            }
        };
        let (is_ended, retained) = (false, Vec::new());
        Some(SleepingSubscription { filter, options: entry.client, cursors, is_ended, retained })
    }

    /// The topics whose retained messages wait for room in the window.
    fn retained_due(&self, mqtt: &Mqtt, at: SubIndex, of: &SleepingSubscription) -> Vec<Slice> {
        let key = self.subscriptions.key(at);
        let waiting = mqtt.busy.retained.iter().filter(|waiting| waiting.subscription == key);
        let mut topics: Vec<Slice> = waiting.map(|waiting| waiting.topic.clone()).collect();
        if topics.len() > RETAINED_MAX {
            topics = vec![of.filter.clone()];
        }
        topics
    }

    fn cursor(&self, partition: PartitionId, offset: u64) -> PartitionCursor {
        let epoch = self.links.epochs.of(partition, &self.settings);
        PartitionCursor { partition, position: Position { epoch, offset } }
    }

    /// The topic or the filter of a granted subscription.
    pub(crate) fn name_of_subscription(&self, at: SubIndex) -> Option<Slice> {
        let entry = &self.subscriptions[at];
        match entry.topic() {
            Some((home, topic)) => {
                let name = self.subscriptions.name_of_topic(home, topic)?;
                Some(Slice::copy_of(&name))
            }
            None => {
                let name = self.subscriptions.filter_name(at)?;
                Some(Slice::copy_of(name.as_bytes()))
            }
        }
    }

    /// Connections lose their names whose letters came before the turn that has just ended.
    pub(crate) fn finish_takeovers(&mut self) {
        if self.mqtt.has_takeovers() {
            for (connection, is_clean) in self.mqtt.take_takeovers() {
                self.taken_over(connection, is_clean);
            }
        }
    }

    /// Another connection takes the client's name, or wakes its session.
    fn taken_over(&mut self, connection: Key, is_clean: bool) {
        let index = ConnIndex(connection.index);
        let is_there = self.connections.slots.get(connection).is_some();
        // One that is there may have left: it only waits for the socket.
        if !is_there
            || self.mqtt_ref(index).is_none_or(|mqtt| matches!(mqtt.link, Link::Left | Link::Never))
        {
            // The will of a session that continues is not published (MQTT 5.0, section 3.1.2.5).
            if let Some(will) = self.mqtt.take_will(connection)
                && is_clean
            {
                self.publish_will(&will);
            }
            return;
        }
        if let Some(mqtt) = self.mqtt_of(index) {
            let continues = !is_clean && mqtt.expiry_s > 0;
            if let Some(will) = mqtt.will.take_if(|will| continues && will.delay_s > 0) {
                drop(will);
            } else if let Some(will) = &mut mqtt.will {
                will.delay_s = 0;
            }
            if is_clean {
                mqtt.expiry_s = 0;
            }
        }
        self.mqtt_disconnect(index, wire::mqtt::ReasonCode::SessionTakenOver);
    }

    /// A connection of another node, or of this one before its start, has ended and not published
    /// its will.
    pub(crate) fn will_left(&mut self, connection: Key, will: Will) {
        let delay_s = will.delay_s;
        self.will_follows(connection, will, delay_s);
    }

    fn will_follows(&mut self, connection: Key, will: Will, delay_s: u32) {
        if delay_s == 0 {
            return self.publish_will(&will);
        }
        let due_ms = self.now.monotonic_ms + u64::from(delay_s) * 1_000;
        self.mqtt.put_will(due_ms, connection, will);
    }

    /// Publishes the wills that are due.
    pub(crate) fn publish_due_wills(&mut self) {
        while let Some(will) = self.mqtt.next_will(self.now.monotonic_ms) {
            self.publish_will(&will);
        }
    }

    /// Publishes a will, whose topic was permitted at CONNECT. It is given up if its home has no
    /// room: nothing waits for it.
    fn publish_will(&mut self, will: &Will) {
        let (rule, partition) = self.settings.locate(&will.topic);
        let home = self.settings.home_of(partition);
        let cost = (will.payload.len() + will.attributes.len()) as u64;
        if !self.may_request(home) || !self.may_publish(partition, cost) {
            self.statistics.own_publications_lost += 1;
            return;
        }
        let mut expiry = FurtherFields::default();
        if let Some(expiry_s) = will.expiry_s {
            expiry.expiry(self.now.unix_ms + u64::from(expiry_s) * 1_000);
        }
        let further = [&will.further, expiry.as_bytes()].concat();
        let publication = Publication {
            topic: self.work.mail.copy(will.topic.as_bytes()),
            attributes: self.work.mail.copy(&will.attributes),
            payload: self.work.mail.copy(&will.payload),
            retain: will.is_retained,
            qos: Some(will.qos),
            is_said_text: will.is_said_text,
            further: self.work.mail.copy(&further),
            idempotency_key: self.work.mail.copy(&will.key),
            ..Publication::default()
        };
        self.statistics.wills += 1;
        self.request(home, ToHome::Publish(Publish { partition, rule, reply: None, publication }));
    }
}
