//! SUBSCRIBE and UNSUBSCRIBE of MQTT, and what homes answer.
//!
//! Step 3 of the path. A filter is asked for as by any other protocol; until its home has decided,
//! the subscription's number is the place of the filter in the packets of the session
//! (`session::mqtt::subscribing`), then its options. One that the session has already gets the new
//! options (MQTT 5.0, [MQTT-3.8.4-3]).

use crate::command::{Begin, Subscribe as Asked};
use crate::edge::Edge;
use crate::entitlement::Action;
use crate::ids::{ConnIndex, SubIndex, TopicIndex};
use crate::mail::{
    FindRetained, Grant, HomeId, PageLimits, RetainedFound, SleepingSubscription, Start,
    SubscriptionKey, ToHome,
};
use crate::notice::{Beginning, Since, SubscribeTerms};
use crate::session::mqtt::Mqtt;
use crate::session::mqtt::encode::{decide, subscribed};
use crate::session::mqtt::options::Options;
use crate::session::mqtt::refusal::subscribe_reason_of;
use crate::session::mqtt::start::start_of;
use crate::session::mqtt::subscribing::Entry;
use crate::settings::LagPolicy;
use crate::sys::OWN_GAPS;
use crate::topic::Filter;
use stdx::chunk::Slice;
use wire::mqtt::{
    Properties, ReasonCode, RetainHandling, ServerPacket, Subscribe, SubscribeItem, UnsubAck,
    Unsubscribe, split_shared,
};
use wire::native::ErrorCode;

/// The decision on a filter.
type Decision = Result<(), ErrorCode>;

impl Edge {
    /// SUBSCRIBE.
    pub(crate) fn mqtt_subscribe(&mut self, index: ConnIndex, packet: &Subscribe<'_>) {
        let identifier = packet.properties.subscription_id().map_or(0, |id| id.get());
        let begin = start_of(&packet.properties);
        if let Some(mqtt) = self.mqtt_of(index) {
            mqtt.busy.subscribing.begin(packet.packet_id.get());
        }
        for item in packet.items.iter() {
            let is_of_gaps = item.filter == OWN_GAPS;
            let number = Options {
                qos: if is_of_gaps { 0 } else { item.qos as u8 },
                no_local: item.no_local,
                retain_as_published: item.retain_as_published,
                identifier,
            }
            .number();
            // Another start brings from the log what the client wants of the past.
            let wants_retained = item.retain_handling != RetainHandling::Omit && is_live(&begin);
            let Some(mqtt) = self.mqtt_of(index) else {
                return;
            };
            let place = mqtt.busy.subscribing.push(item.filter, number, wants_retained);
            if let Some(entry) = mqtt.entry(place) {
                entry.is_for_new = item.retain_handling == RetainHandling::SendIfNew;
            }
            self.begin_mqtt_subscription(index, Options::pending(place), &item, &begin);
        }
        self.finish_mqtt_subscribe(index);
    }

    /// The packet is whole. Its answer follows at once if no filter waits for its home.
    pub(super) fn finish_mqtt_subscribe(&mut self, index: ConnIndex) {
        let mut bytes = Vec::new();
        let mut granted = Vec::new();
        if let Some(mqtt) = self.mqtt_of(index)
            && let Some(decided) = mqtt.busy.subscribing.finish()
        {
            granted = subscribed(mqtt, decided, &mut bytes);
        }
        self.subscribe_answered(index, &bytes, granted);
    }

    fn begin_mqtt_subscription(
        &mut self,
        index: ConnIndex,
        client: u32,
        item: &SubscribeItem<'_>,
        begin: &Result<Begin, ()>,
    ) {
        if let Ok(Some(shared)) = split_shared(item.filter) {
            // The group has its own position.
            if !is_live(begin) {
                return self.answer_filter(index, client, ReasonCode::ImplementationSpecific);
            }
            return self.begin_membership(index, client, item, shared.filter);
        }
        let Ok(begin) = begin.clone() else {
            return self.answer_filter(index, client, ReasonCode::ImplementationSpecific);
        };
        // A message with an identifier is never left out, nor one in its way.
        let policy = (item.qos as u8 > 0).then_some(LagPolicy::Replay);
        let asked =
            Asked { filter: item.filter, begin, fail_on_gap: false, policy, replay_credit: None };
        let checked = self.check_subscription(index, client, Ok(asked));
        let checked = checked.map_err(|refusal| refusal.code).and_then(|asked| {
            let filter = Filter::parse(asked.filter);
            let filter = filter.map_err(|error| error.code(ErrorCode::MalformedFilter))?;
            self.permit(index, Action::Subscribe, filter)?;
            Ok((filter, asked))
        });
        let (filter, asked) = match checked {
            Ok(checked) => checked,
            Err(code) => return self.answer_filter(index, client, subscribe_reason_of(code)),
        };
        let begins_live = matches!(asked.begin, Begin::At(Start::Live));
        if !begins_live {
            self.end_to_restart(index, filter);
        }
        if filter.is_plain() {
            let Begin::At(start) = asked.begin else {
                return self.answer_filter(index, client, ReasonCode::ImplementationSpecific);
            };
            if begins_live && self.follows_first(index, client, item) {
                return;
            }
            // A packet has no position by which its client knows an older message again.
            let start = if begins_live { Start::AtHead } else { start };
            let terms = SubscribeTerms { policy, ..SubscribeTerms::from(start) };
            self.subscribe_plain(index, item.filter, client, terms);
        } else if !begins_live {
            self.begin_filter(index, client, filter, &asked);
        } else if let Some(existing) = self.find_filter(index, filter) {
            self.filter_subscribed_again(index, existing, client, item);
        } else {
            self.charge_filter();
            self.subscribe_filter(index, filter, client, Since::AtHead, false, policy);
        }
    }

    /// Whether the session has asked for the topic, or wakes with it, and the home has not
    /// answered. Then that answer is this packet's too: the home may deal with a start at the head
    /// before one that needs the disk, whose place would be lost.
    fn follows_first(&mut self, index: ConnIndex, client: u32, item: &SubscribeItem<'_>) -> bool {
        let place = Options::place(client);
        let Some(mqtt) = self.mqtt_of(index) else {
            return false;
        };
        let Some(first) = mqtt.busy.subscribing.first_of(place) else {
            return false;
        };
        if let Some(waiting) = mqtt.entry(first) {
            waiting.wants_retained |= wants_retained(item, false);
        }
        if let Some(entry) = mqtt.entry(place) {
            entry.behind = Some(first);
        }
        true
    }

    /// The client asks for the past of a filter: a subscription of the session to the same filter
    /// ends, and begins anew there.
    fn end_to_restart(&mut self, index: ConnIndex, filter: Filter<'_>) {
        if let Some(waking) = self.mqtt_of(index).and_then(Mqtt::waking_mut) {
            waking.subscriptions.retain(|it| it.filter[..] != *filter.as_str().as_bytes());
        }
        if let Some(existing) = self.find_mqtt_subscription(index, filter)
            && !Options::is_pending(self.subscriptions[existing].client)
        {
            self.unsubscribe(existing);
        }
    }

    /// SUBSCRIBE to a filter of a group.
    fn begin_membership(
        &mut self,
        index: ConnIndex,
        client: u32,
        item: &SubscribeItem<'_>,
        filter: &str,
    ) {
        if item.no_local {
            // [MQTT-3.8.3-4]
            return self.mqtt_disconnect(index, ReasonCode::ProtocolError);
        }
        let asked = Asked {
            filter,
            begin: Begin::At(Start::Live),
            fail_on_gap: false,
            policy: None,
            replay_credit: None,
        };
        let place = Options::place(client);
        let mqtt = self.mqtt_of(index);
        let number = mqtt.and_then(|mqtt| Some(mqtt.entry(place)?.number)).unwrap_or(0);
        let joined = self
            .check_subscription(index, client, Ok(asked))
            .map_err(|refusal| refusal.code)
            .and_then(|_| self.join_group(index, (place, number), item.filter, &[]));
        if let Err(code) = joined {
            self.answer_filter(index, client, subscribe_reason_of(code));
        }
    }

    fn find_filter(&self, index: ConnIndex, filter: Filter<'_>) -> Option<SubIndex> {
        let slot = &self.connections.slots[index];
        self.subscriptions.find_filter(index, slot, filter)
    }

    /// A filter with wildcards that the session has already.
    fn filter_subscribed_again(
        &mut self,
        index: ConnIndex,
        existing: SubIndex,
        client: u32,
        item: &SubscribeItem<'_>,
    ) {
        let before = self.subscriptions[existing].client;
        let was_ended = self.revive(index, existing, item.filter.as_bytes());
        let place = Options::place(client);
        let Some(mqtt) = self.mqtt_of(index) else {
            return;
        };
        let number = mqtt.entry(place).map_or(0, |entry| entry.number);
        if Options::is_pending(before) {
            let first = Options::place(before);
            // One that wakes begins at its cursor. Another begins when its homes have answered,
            // and not before that.
            let is_behind = !mqtt.busy.subscribing.is_of_wake(first);
            if let Some(waiting) = mqtt.entry(first) {
                if !is_behind {
                    waiting.number = number;
                }
                let is_new = std::mem::replace(&mut waiting.is_cancelled, false);
                waiting.wants_retained |= wants_retained(item, is_new);
            }
            if is_behind && let Some(entry) = mqtt.entry(place) {
                entry.behind = Some(first);
                return;
            }
        } else {
            self.set_options(existing, number);
            let key = self.subscriptions.key(existing);
            if wants_retained(item, was_ended)
                && let Some(mqtt) = self.mqtt_of(index)
                && let Some(entry) = mqtt.entry(place)
            {
                entry.granted = Some(key); // behind the answer
            }
        }
        self.answer_filter(index, client, granted(number));
    }

    /// A topic of a session is granted.
    pub(crate) fn mqtt_subscribed(&mut self, home: HomeId, subscription: SubIndex, grant: &Grant) {
        let index = self.subscriptions[subscription].connection;
        // The name is needed for the retained messages behind the answer.
        let Some(name) = self.pending_filter(index, subscription) else {
            return;
        };
        let topic = TopicIndex(grant.index);
        self.subscriptions.announce(home, topic, grant.partition, &name);
        if self.take_decision(index, subscription, subscription).is_none() {
            return;
        }
        if let Some(gap) = grant.gap {
            self.statistics.gaps += 1;
            self.note_mqtt_gap(index, &name, grant.partition, gap);
        }
        self.settled_for_renewal(index);
    }

    /// The filter of a subscription that waits.
    fn pending_filter(&mut self, index: ConnIndex, subscription: SubIndex) -> Option<Slice> {
        let place = Options::place(self.subscriptions[subscription].client);
        let entry = self.mqtt_of(index)?.entry(place)?;
        Some(Slice::copy_of(entry.filter.as_bytes()))
    }

    /// A topic that the session has already is granted again: the subscription that it has gets
    /// the new options.
    pub(crate) fn mqtt_subscribed_again(
        &mut self,
        existing: SubIndex,
        subscription: SubIndex,
        grant: &Grant,
    ) {
        let index = self.subscriptions[subscription].connection;
        let entry = self.take_decision(index, subscription, existing);
        if self.subscriptions.find(grant.subscription).is_some() {
            self.unsubscribe(subscription);
        }
        let Some(entry) = entry else {
            return;
        };
        self.set_options(existing, entry.number);
        self.revive(index, existing, entry.filter.as_bytes());
        self.settled_for_renewal(index);
    }

    /// Filters of a session are granted.
    pub(crate) fn mqtt_filters_subscribed(
        &mut self,
        subscriptions: &[SubIndex],
        beginnings: &[Beginning],
    ) {
        for beginning in beginnings {
            if !beginning.is_replaying {
                self.mqtt.advance(beginning.partition, beginning.through);
            }
        }
        for &subscription in subscriptions {
            let index = self.subscriptions[subscription].connection;
            if self.take_decision(index, subscription, subscription).is_some() {
                for (partition, gap) in beginnings.iter().filter_map(Beginning::gap) {
                    self.note_mqtt_gap_of(subscription, partition, gap);
                }
            }
            self.settled_for_renewal(index);
        }
    }

    /// A subscription gets options. With QoS 1 and 2 no message is left out, whatever the policy
    /// was with QoS 0.
    fn set_options(&mut self, subscription: SubIndex, number: u32) {
        self.subscriptions.set_client(subscription, number);
        if Options::of(number).qos > 0 {
            self.subscriptions.replay_always(subscription);
        }
    }

    /// The home has granted a subscription: it gets its options, and the packet its answer, behind
    /// which come the retained messages. None if its client has unsubscribed meanwhile. `holds` is
    /// the subscription that the session keeps: this one, or one that it had before.
    fn take_decision(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        holds: SubIndex,
    ) -> Option<Entry> {
        let client = self.subscriptions[subscription].client;
        let place = Options::place(client);
        let key = self.subscriptions.key(holds);
        let is_had = holds != subscription && !self.has_ended(index, holds);
        let entry = self.mqtt_of(index)?.entry(place)?;
        let is_left_out = entry.is_for_new && is_had;
        if entry.wants_retained && !is_left_out && !entry.is_cancelled {
            entry.granted = Some(key);
        }
        let entry = entry.clone();
        let newest = self.mqtt_ref(index)?.busy.subscribing.newest_behind(place);
        self.set_options(subscription, newest.unwrap_or(entry.number));
        // Before the decision, behind which the session forgets how it slept.
        if !entry.is_cancelled {
            self.find_due_retained(index, holds, &entry.filter);
        }
        self.answer_filter(index, client, granted(entry.number));
        if entry.is_cancelled {
            self.leave_subscription(index, subscription);
            return None;
        }
        Some(entry)
    }

    /// Asks for the retained messages that a session was not sent before it slept.
    fn find_due_retained(&mut self, index: ConnIndex, subscription: SubIndex, filter: &str) {
        let Some(waking) = self.mqtt_of(index).and_then(Mqtt::waking_mut) else {
            return;
        };
        let of_filter =
            waking.subscriptions.iter_mut().filter(|it| *it.filter == *filter.as_bytes());
        let due: Vec<Slice> = of_filter.flat_map(|it| std::mem::take(&mut it.retained)).collect();
        for topic in due {
            let name = std::str::from_utf8(&topic).unwrap_or_default();
            let is_plain = Filter::parse(name).is_ok_and(Filter::is_plain);
            let own = self.settings.home_of(self.settings.locate(name).1);
            for home in self.settings.homes() {
                if !is_plain || home == own {
                    self.ask_for_retained(home, subscription, &topic, 0);
                }
            }
        }
    }

    /// The decision on a filter.
    pub(super) fn answer_filter(&mut self, index: ConnIndex, client: u32, reason: ReasonCode) {
        let mut bytes = Vec::new();
        let mut granted = Vec::new();
        if let Some(mqtt) = self.mqtt_of(index) {
            granted = decide(mqtt, client, reason, &mut bytes);
        }
        self.subscribe_answered(index, &bytes, granted);
    }

    /// Sends the answer to a SUBSCRIBE packet, and asks for the retained messages behind it.
    fn subscribe_answered(
        &mut self,
        index: ConnIndex,
        answer: &[u8],
        granted: Vec<SubscriptionKey>,
    ) {
        self.send_mqtt(index, answer);
        self.rest_mqtt(index);
        if !answer.is_empty() {
            self.gate_mqtt(index);
        }
        for key in granted {
            if let Some(subscription) = self.subscriptions.find(key)
                && let Some(name) = self.name_of_subscription(subscription)
            {
                self.find_retained(subscription, &name);
            }
        }
    }

    /// Asks for the retained messages of a granted subscription.
    fn find_retained(&mut self, subscription: SubIndex, filter: &[u8]) {
        // The new answer repeats the messages that wait, or has newer ones.
        let key = self.subscriptions.key(subscription);
        let index = self.subscriptions[subscription].connection;
        if let Some(mqtt) = self.mqtt_of(index)
            && !mqtt.busy.retained.is_empty()
        {
            mqtt.busy.retained.retain(|waiting| waiting.subscription != key);
        }
        let is_filter = self.subscriptions[subscription].is_filter();
        let own = self.subscriptions[subscription].home;
        for home in self.settings.homes() {
            if is_filter || home == own {
                self.ask_for_retained(home, subscription, filter, 0);
            }
        }
    }

    fn ask_for_retained(&mut self, home: HomeId, subscription: SubIndex, filter: &[u8], from: u32) {
        let limits = &self.settings.limits;
        let request = FindRetained {
            filter: self.work.mail.copy(filter),
            subscription: self.subscriptions.key(subscription),
            from,
            limits: PageLimits {
                records_max: limits.page_records_max,
                bytes_max: limits.page_bytes,
            },
        };
        self.request(home, ToHome::FindRetained(request));
    }

    /// A page of retained messages has come.
    pub(crate) fn retained_found(&mut self, home: HomeId, found: &RetainedFound) {
        let Some(subscription) = self.subscriptions.find(found.subscription) else {
            return;
        };
        for (topic, record) in &found.records {
            self.deliver_mqtt_retained(subscription, topic, record);
        }
        let name = self.name_of_subscription(subscription);
        if let (Some(from), Some(filter)) = (found.next, name) {
            self.ask_for_retained(home, subscription, &filter, from);
        }
    }

    /// UNSUBSCRIBE.
    pub(crate) fn mqtt_unsubscribe(&mut self, index: ConnIndex, packet: &Unsubscribe<'_>) {
        let mut reasons = Vec::new();
        for filter in packet.filters.iter() {
            let decision = self.end_mqtt_subscription(index, filter);
            reasons.push(match decision {
                Ok(()) => ReasonCode::Success,
                Err(_) => ReasonCode::NoSubscriptionExisted,
            });
        }
        let is_v5 = self.mqtt_ref(index).is_some_and(|mqtt| mqtt.is_v5());
        let answer = UnsubAck {
            packet_id: packet.packet_id,
            properties: Properties::default(),
            reasons: if is_v5 { reasons[..].into() } else { [].as_slice().into() },
        };
        self.send_mqtt_packet(index, &ServerPacket::UnsubAck(answer));
        self.gate_mqtt(index);
    }

    fn end_mqtt_subscription(&mut self, index: ConnIndex, filter: &str) -> Decision {
        let mut was_asked = false;
        if let Some(mqtt) = self.mqtt_of(index) {
            if let Some(waking) = mqtt.waking_mut() {
                let is_it = |it: &SleepingSubscription| it.filter[..] == *filter.as_bytes();
                waking.subscriptions.retain(|it| it.group().is_none() || !is_it(it));
                let ended = waking.subscriptions.iter_mut().filter(|it| is_it(it));
                ended.for_each(|it| it.is_ended = true);
            }
            was_asked = mqtt.busy.subscribing.cancel(filter);
        }
        if self.end_membership(index, filter) {
            return Ok(());
        }
        let unknown = ErrorCode::UnknownSubscription;
        let parsed = Filter::parse(filter).map_err(|_| unknown)?;
        let found = self.find_mqtt_subscription(index, parsed);
        // One that waits for its home ends with the grant.
        let is_granted = |at: &SubIndex| !Options::is_pending(self.subscriptions[*at].client);
        let found = found.filter(is_granted).filter(|at| !self.has_ended(index, *at));
        match found {
            Some(subscription) => self.leave_subscription(index, subscription),
            None if was_asked => {}
            None => return Err(unknown),
        }
        Ok(())
    }

    /// Whether a session of MQTT has a subscription: one that was granted, or one that wakes.
    pub(crate) fn is_of_mqtt_session(&self, index: ConnIndex, subscription: SubIndex) -> bool {
        let client = self.subscriptions[subscription].client;
        self.mqtt_ref(index).is_some_and(|mqtt| {
            !Options::is_pending(client) || mqtt.busy.subscribing.is_of_wake(Options::place(client))
        })
    }

    pub(super) fn find_mqtt_subscription(
        &self,
        index: ConnIndex,
        filter: Filter<'_>,
    ) -> Option<SubIndex> {
        if !filter.is_plain() {
            return self.find_filter(index, filter);
        }
        let is_it = |at: &SubIndex| {
            let name = self.name_of_subscription(*at);
            name.is_some_and(|name| name[..] == *filter.as_str().as_bytes())
        };
        self.chain(index).find(is_it)
    }
}

/// Whether the client wants the retained messages of a filter. `is_new`: its session had no such
/// subscription.
fn wants_retained(item: &SubscribeItem<'_>, is_new: bool) -> bool {
    match item.retain_handling {
        RetainHandling::Send => true,
        RetainHandling::SendIfNew => is_new,
        RetainHandling::Omit => false,
    }
}

/// Whether subscriptions begin with the next message.
fn is_live(begin: &Result<Begin, ()>) -> bool {
    matches!(begin, Ok(Begin::At(Start::Live)))
}

/// The answer that grants a subscription.
pub(super) fn granted(number: u32) -> ReasonCode {
    match Options::of(number).qos {
        0 => ReasonCode::Success,
        1 => ReasonCode::GrantedQos1,
        _ => ReasonCode::GrantedQos2,
    }
}
