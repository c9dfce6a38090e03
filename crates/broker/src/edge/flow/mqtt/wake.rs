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
use wire::mqtt::{Ack, PacketId, ServerPacket};

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
                self.send_mqtt_packet(index, &ServerPacket::PubRel(Ack::success(id)));
            }
        }
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
        self.published = session.published;
        self.opened.wake(session.open.clone(), session.next_id);
        let received = session.received.iter().map(|it| Received {
            id: it.id,
            number: it.number,
            is_answered: it.is_answered,
        });
        self.received = received.collect();
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
