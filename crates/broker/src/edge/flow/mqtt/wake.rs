//! A session that wakes: its subscriptions continue after its cursors, and what the client has not
//! acknowledged is sent again (`again`).
//!
//! Step 3 of the path. Publications that the client has received are released again at once. Each
//! filter is checked against the credential of the new connection.

use crate::edge::Edge;
use crate::edge::subscriptions::Stage;
use crate::entitlement::Action;
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{
    OpenDelivery, PartitionCursor, PartitionId, SleepingSession, SleepingSubscription, Start,
};
use crate::notice::{Since, SubscribeTerms};
use crate::protocol::flag;
use crate::session::mqtt::options::Options;
use crate::session::mqtt::{Mqtt, Received};
use crate::settings::LagPolicy;
use crate::topic::Filter;
use log::RecordView;
use stdx::chunk::Slice;
use wire::mqtt::{Ack, PacketId, ReasonCode, ServerPacket};

impl Edge {
    /// Continues a session.
    pub(crate) fn wake_session(&mut self, index: ConnIndex, session: Box<SleepingSession>) {
        let subscriptions = session.subscriptions.clone();
        let starts: Vec<Vec<PartitionCursor>> =
            subscriptions.iter().map(|it| session.cursors_of(it)).collect();
        let open = session.open.iter().map(|open| self.open_now(open)).collect();
        let Some(mqtt) = self.mqtt_of(index) else {
            return;
        };
        mqtt.continue_as(&session, open);
        let received: Vec<u16> =
            session.open.iter().filter(|open| open.is_received).map(|open| open.id).collect();
        mqtt.busy.subscribing.begin(0);
        mqtt.busy.waking = Some(session);
        for id in received.into_iter().filter_map(PacketId::new) {
            self.send_mqtt_packet(index, &ServerPacket::PubRel(Ack::success(id)));
        }
        for (subscription, starts) in subscriptions.iter().zip(starts) {
            self.wake_subscription(index, subscription, &starts);
        }
        self.finish_mqtt_subscribe(index);
        self.connections.slots[index].set(flag::LAGGING);
        self.mark_dirty(index);
    }

    /// An open message as it stands now. In a log in memory another message may have its place
    /// since.
    fn open_now(&self, open: &OpenDelivery) -> OpenDelivery {
        let epoch = self.links.epochs.of(open.partition, &self.settings);
        let is_in_memory = self.settings.log_that_waits(open.partition).is_none();
        let is_lost = is_in_memory && open.epoch != epoch;
        OpenDelivery { offset: if is_lost { 0 } else { open.offset }, ..*open }
    }

    fn wake_subscription(
        &mut self,
        index: ConnIndex,
        subscription: &SleepingSubscription,
        starts: &[PartitionCursor],
    ) {
        let name = std::str::from_utf8(&subscription.filter).unwrap_or_default();
        if subscription.group().is_some() {
            return self.wake_membership(index, subscription, name);
        }
        let Ok(filter) = Filter::parse(name) else {
            return;
        };
        if self.permit(index, Action::Subscribe, filter).is_err() {
            if let Some(waking) = self.mqtt_of(index).and_then(Mqtt::waking_mut) {
                waking.subscriptions.retain(|it| it.filter != subscription.filter);
            }
            return;
        }
        let Some(mqtt) = self.mqtt_of(index) else {
            return;
        };
        let place = mqtt.busy.subscribing.push(name, subscription.options, false);
        if let Some(entry) = mqtt.entry(place) {
            entry.is_cancelled = subscription.is_ended;
        }
        let client = Options::pending(place);
        // Messages with QoS 0 are not kept for a session that sleeps, and none comes twice.
        let is_kept = Options::of(subscription.options).qos > 0;
        let policy = is_kept.then_some(LagPolicy::Replay);
        if filter.is_plain() {
            let first = starts.first().filter(|_| is_kept);
            let start = first.map_or(Start::AtHead, |cursor| Start::Since(cursor.position));
            let terms = SubscribeTerms { policy, ..SubscribeTerms::from(start) };
            self.subscribe_plain(index, name, client, terms);
        } else {
            let since = if is_kept { Since::After(starts) } else { Since::AtHead };
            self.charge_filter();
            self.subscribe_filter(index, filter, client, since, false, policy);
        }
    }

    /// Joins a group again.
    fn wake_membership(&mut self, index: ConnIndex, asleep: &SleepingSubscription, name: &str) {
        let Some(mqtt) = self.mqtt_of(index) else {
            return;
        };
        let place = mqtt.busy.subscribing.push(name, asleep.options, false);
        let joined = self.join_group(index, (place, asleep.options), name, &asleep.cursors);
        if joined.is_err() {
            if let Some(waking) = self.mqtt_of(index).and_then(Mqtt::waking_mut) {
                waking.subscriptions.retain(|it| it.filter != asleep.filter);
            }
            self.answer_filter(index, Options::pending(place), ReasonCode::NotAuthorized);
        }
    }

    /// Whether another subscription of the connection, which is read from the log as well, comes to
    /// this message later and brings it: of several, the last one does, so that there is one copy,
    /// and the order of a topic holds.
    pub(super) fn comes_later(
        &self,
        index: ConnIndex,
        (by, topic): (SubIndex, &str),
        (partition, offset): (PartitionId, u64),
        view: &RecordView<'_>,
    ) -> bool {
        if self.connections.slots[index].subscriptions_count < 2 {
            return false;
        }
        let is_own = self.is_own(index, view);
        self.chain(index).any(|at| {
            at != by
                && self.may_bring(at, partition, offset)
                && self.brings(index, at, (topic, is_own), (partition, offset))
        })
    }

    /// Whether the messages of a subscription that is behind include this one.
    fn brings(
        &self,
        index: ConnIndex,
        at: SubIndex,
        (topic, is_own): (&str, bool),
        (partition, offset): (PartitionId, u64),
    ) -> bool {
        let Some((name, options)) = self.holds_as(index, at) else {
            return false;
        };
        // While the subscription waits for its home, the session has its cursor.
        let is_due = !Options::is_pending(self.subscriptions[at].client) || {
            let waking = self.mqtt_ref(index).and_then(|mqtt| mqtt.busy.waking.as_ref());
            let sent = waking.and_then(|waking| waking.sent_through(&name, partition));
            sent.is_some_and(|sent| sent < offset)
        };
        is_due && options.qos > 0 && !(is_own && options.no_local) && does_match(&name, topic)
    }

    /// The filter and the options of a subscription that the session has; none if the client asks
    /// for it now: such a one begins with what comes.
    pub(super) fn holds_as(&self, index: ConnIndex, at: SubIndex) -> Option<(Slice, Options)> {
        let client = self.subscriptions[at].client;
        if !Options::is_pending(client) {
            return Some((self.name_of_subscription(at)?, Options::of(client)));
        }
        let mqtt = self.mqtt_ref(index)?;
        let place = Options::place(client);
        let name = mqtt
            .busy
            .subscribing
            .name(place)
            .filter(|_| mqtt.busy.subscribing.is_of_wake(place))?;
        let waking = mqtt.busy.waking.as_ref()?;
        let slept = waking.subscriptions.iter().find(|it| it.filter[..] == *name.as_bytes())?;
        Some((slept.filter.clone(), Options::of(slept.options)))
    }

    /// Whether a subscription may still bring the message at a place of the log.
    fn may_bring(&self, at: SubIndex, partition: PartitionId, offset: u64) -> bool {
        let entry = &self.subscriptions[at];
        if entry.is_pending() || Options::is_pending(entry.client) {
            return true;
        }
        match entry.topic() {
            Some(_) => {
                let is_read = matches!(entry.stage, Stage::Reading | Stage::Lagging);
                let is_there = self.subscriptions.partition_of(at) == Some(partition);
                is_read && is_there && entry.cursor() < offset
            }
            None => self.subscriptions.is_catching_up_at(at, partition, offset - 1),
        }
    }
}

impl Mqtt {
    /// Takes over what a session had open.
    fn continue_as(&mut self, session: &SleepingSession, open: Vec<OpenDelivery>) {
        self.is_continued = true;
        self.instance = session.instance;
        self.resume_at(session.released, session.resumed_at.unwrap_or(session.released));
        self.opened.wake(open, session.next_id);
        if !session.gaps.is_empty() {
            self.busy.gaps.clone_from(&session.gaps);
        }
        let received = session
            .received
            .iter()
            .map(|it| (it.id, Received { released: it.released, is_answered: it.is_answered }));
        if !session.received.is_empty() {
            self.busy.received = received.collect();
        }
    }
}

/// Whether a filter matches a topic.
pub(super) fn does_match(filter: &[u8], topic: &str) -> bool {
    let filter = std::str::from_utf8(filter).ok().and_then(|text| Filter::parse(text).ok());
    filter.is_some_and(|filter| filter.matches(topic))
}
