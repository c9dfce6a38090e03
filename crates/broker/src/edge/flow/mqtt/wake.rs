//! A session that wakes: its subscriptions continue after its cursors, and what the client has not
//! acknowledged is sent again.
//!
//! Step 3 of the path. Publications that the client has received are released again at once; the
//! others come from the log, as pages bring their records, with DUP and the identifier that they
//! had (MQTT 5.0, section 4.4). Each filter is checked against the credential of the new
//! connection.

use crate::edge::Edge;
use crate::edge::subscriptions::Stage;
use crate::entitlement::Action;
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{PartitionCursor, PartitionId, SleepingSession, SleepingSubscription, Start};
use crate::notice::SubscribeTerms;
use crate::position::Position;
use crate::session::mqtt::options::Options;
use crate::session::mqtt::{Mqtt, Received};
use crate::settings::LagPolicy;
use crate::topic::Filter;
use stdx::chunk::Slice;
use wire::mqtt::{Ack, PacketId, ReasonCode, ServerPacket};

impl Edge {
    /// Continues a session.
    pub(crate) fn wake_session(&mut self, index: ConnIndex, session: Box<SleepingSession>) {
        let subscriptions = session.subscriptions.clone();
        let starts: Vec<Vec<PartitionCursor>> =
            subscriptions.iter().map(|it| starts_of(&session, it)).collect();
        let Some(mqtt) = self.mqtt_of(index) else {
            return;
        };
        mqtt.continue_as(&session);
        let received: Vec<u16> =
            session.open.iter().filter(|open| open.is_received).map(|open| open.id).collect();
        mqtt.subscribing.begin(0);
        mqtt.waking = Some(session);
        for id in received.into_iter().filter_map(PacketId::new) {
            self.send_mqtt_packet(index, &ServerPacket::PubRel(Ack::success(id)));
        }
        for (subscription, starts) in subscriptions.iter().zip(starts) {
            self.wake_subscription(index, subscription, &starts);
        }
        self.finish_mqtt_subscribe(index);
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
            if let Some(waking) = self.mqtt_of(index).and_then(|mqtt| mqtt.waking.as_mut()) {
                waking.subscriptions.retain(|it| it.filter != subscription.filter);
            }
            return;
        }
        let Some(mqtt) = self.mqtt_of(index) else {
            return;
        };
        let place = mqtt.subscribing.push(name, subscription.options, false);
        let client = Options::pending(place);
        // Messages with QoS 0 are not kept for a session that sleeps.
        let is_kept = Options::of(subscription.options).qos > 0;
        let policy = is_kept.then_some(LagPolicy::Replay);
        if filter.is_plain() {
            let start = match starts.first().filter(|_| is_kept) {
                Some(cursor) => Start::Since(cursor.position),
                None => Start::Live,
            };
            let terms = SubscribeTerms { policy, ..SubscribeTerms::from(start) };
            self.subscribe_plain(index, name, client, terms);
        } else {
            let since = if is_kept { starts } else { &[] };
            self.charge_filter();
            self.subscribe_filter(index, filter, client, since, false, policy);
        }
    }

    /// Joins a group again.
    fn wake_membership(&mut self, index: ConnIndex, asleep: &SleepingSubscription, name: &str) {
        let Some(mqtt) = self.mqtt_of(index) else {
            return;
        };
        let place = mqtt.subscribing.push(name, asleep.options, false);
        let joined = self.join_group(index, (place, asleep.options), name, &asleep.cursors);
        if joined.is_err() {
            if let Some(waking) = self.mqtt_of(index).and_then(|mqtt| mqtt.waking.as_mut()) {
                waking.subscriptions.retain(|it| it.filter != asleep.filter);
            }
            self.answer_filter(index, Options::pending(place), ReasonCode::NotAuthorized);
        }
    }

    /// Gives up messages that no subscription brings again: the log has lost them, they have
    /// expired, or the client has ended the subscription. Without this they would take their places
    /// in the window for ever.
    pub(crate) fn give_up_resends(&mut self, index: ConnIndex) {
        let Some(mqtt) = self.mqtt_ref(index) else {
            return;
        };
        let open: Vec<_> = mqtt.opened.resends().copied().collect();
        for open in open {
            if self.chain(index).any(|at| self.may_bring(at, open.partition, open.offset)) {
                continue;
            }
            let is_released =
                self.mqtt_of(index).is_some_and(|mqtt| mqtt.opened.give_up_resend(open.id));
            if is_released && let Some(id) = PacketId::new(open.id) {
                self.gate_mqtt(index);
                self.send_mqtt_packet(index, &ServerPacket::PubRel(Ack::success(id)));
            }
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
    ) -> bool {
        if self.connections.slots[index].subscriptions_count < 2 {
            return false;
        }
        self.chain(index).any(|at| {
            at != by
                && self.may_bring(at, partition, offset)
                && self.brings(index, at, topic, (partition, offset))
        })
    }

    /// Whether the messages of a subscription that is behind include this one.
    fn brings(
        &self,
        index: ConnIndex,
        at: SubIndex,
        topic: &str,
        (partition, offset): (PartitionId, u64),
    ) -> bool {
        let Some(mqtt) = self.mqtt_ref(index) else {
            return false;
        };
        let client = self.subscriptions[at].client;
        let is_pending = Options::is_pending(client);
        let name = if is_pending {
            let name = mqtt.subscribing.name(Options::place(client));
            name.map(|name| Slice::copy_of(name.as_bytes()))
        } else {
            self.name_of_subscription(at)
        };
        let Some(name) = name else {
            return false;
        };
        // A subscription that the client asks for now begins with what comes, also if the session
        // has had it before.
        let is_new = is_pending && !mqtt.subscribing.is_of_wake(Options::place(client));
        let waking = mqtt.waking.as_ref().filter(|_| !is_new);
        let sent = waking.and_then(|it| it.sent_through(&name, partition));
        let is_due = sent.map_or(!is_pending, |sent| sent < offset);
        let slept = waking.and_then(|it| it.subscriptions.iter().find(|it| it.filter == name));
        let options = slept.filter(|_| is_pending).map_or(client, |slept| slept.options);
        let has_qos = Options::of(options).qos > 0;
        let filter = std::str::from_utf8(&name).ok().and_then(|name| Filter::parse(name).ok());
        is_due && has_qos && filter.is_some_and(|filter| filter.matches(topic))
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
    fn continue_as(&mut self, session: &SleepingSession) {
        self.is_continued = true;
        self.instance = session.instance;
        self.released = session.released;
        self.resumed_at = session.resumed_at.or(Some(session.released));
        self.opened.wake(session.open.clone(), session.next_id);
        self.gaps = session.gaps.clone().into();
        let received = session.received.iter().map(|it| Received {
            id: it.id,
            released: it.released,
            is_answered: it.is_answered,
        });
        self.received = received.collect::<Vec<Received>>().into();
    }
}

/// The starts of a subscription: after the last message sent, or before the first one that is to be
/// sent again.
fn starts_of(session: &SleepingSession, of: &SleepingSubscription) -> Vec<PartitionCursor> {
    let first_open = |partition: PartitionId| {
        let open = session.open.iter().filter(|it| it.partition == partition && !it.is_received);
        open.map(|it| it.offset).min()
    };
    let mut starts = session.cursors_of(of);
    for cursor in &mut starts {
        let Position { epoch, offset } = cursor.position;
        let offset = match first_open(cursor.partition) {
            Some(first) => offset.min(first.saturating_sub(1)),
            None => offset,
        };
        cursor.position = Position { epoch, offset };
    }
    starts
}
