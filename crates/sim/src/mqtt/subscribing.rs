//! SUBSCRIBE and UNSUBSCRIBE of a client, and their answers.

use super::MqttClient;
use super::session::Asked;
use crate::client::{Context, Phase};
use crate::oracle::{MqttSubscription, matches};
use std::collections::BTreeMap;
use wire::mqtt::{
    ClientPacket, List, PacketId, Properties, Qos, RetainHandling, SubAck, Subscribe,
    SubscribeItem, Unsubscribe,
};

impl MqttClient {
    /// Asks for these wishes.
    pub(super) fn subscribe(&mut self, context: &mut Context<'_>, wishes: Vec<usize>) {
        let id = self.session.next_id(&self.line);
        let mut retained = BTreeMap::new();
        for at in &wishes {
            let filter = self.wishes[*at].filter.clone();
            if !self.wishes[*at].is_no_local && self.membership.is_none() {
                self.expect_retained(context, &filter, &mut retained);
            }
            self.session.asked.insert(filter);
        }
        let filters: Vec<(String, u8, bool)> = wishes
            .iter()
            .map(|at| &self.wishes[*at])
            .map(|wish| (self.spelled(&wish.filter), wish.qos, wish.is_no_local))
            .collect();
        let items: Vec<SubscribeItem<'_>> = filters
            .iter()
            .map(|(filter, qos, is_no_local)| SubscribeItem {
                filter,
                qos: Qos::from_bits(*qos).unwrap_or_default(),
                no_local: *is_no_local,
                retain_as_published: false,
                retain_handling: RetainHandling::Send,
            })
            .collect();
        self.line.subscribing.insert(id.get(), Asked { wishes, retained, ..Asked::default() });
        let packet = Subscribe {
            packet_id: id,
            properties: Properties::default(),
            items: List::from(&items[..]),
        };
        self.send(context, &ClientPacket::Subscribe(packet));
    }

    /// The retained messages that must follow, if nothing is lost.
    fn expect_retained(
        &mut self,
        context: &Context<'_>,
        filter: &str,
        retained: &mut BTreeMap<usize, u64>,
    ) {
        if !context.plan.lossless {
            return;
        }
        for (topic, name) in context.plan.topics.iter().enumerate() {
            // A message that is open on this connection is not sent once more.
            let of = |id: usize| context.oracle.publications.get(id);
            let of_topic = |id: usize| of(id).is_none_or(|of| of.topic == topic);
            let is_open = self.line.open.values().any(|open| of_topic(open.publication));
            let known = context.oracle.retained(context.plan, topic, self.peer.instance);
            if matches(filter, name) {
                self.line.first_known.entry(topic).or_insert(known);
                if known > 0 && !is_open {
                    retained.insert(topic, known);
                }
            }
        }
    }

    /// Ends a subscription.
    pub(super) fn unsubscribe(&mut self, context: &mut Context<'_>) {
        let all: Vec<String> = self.session.granted.keys().cloned().collect();
        if all.is_empty() {
            return;
        }
        let filter = &all[self.peer.random.below(all.len() as u64) as usize];
        let moment = context.oracle.tick();
        if let Some(at) = self.session.granted.remove(filter) {
            let session = &mut context.oracle.mqtt.sessions[self.session.number];
            session.subscriptions[at].until = Some(moment);
            self.end_span(context, moment);
        }
        let id = self.session.next_id(&self.line);
        self.line.unsubscribing.insert(id.get());
        self.line.retained.clear();
        let ended = self.wishes.iter().position(|wish| wish.filter == *filter);
        for asked in self.line.subscribing.values_mut() {
            asked.retained.clear();
            asked.ended.extend(ended);
        }
        let spelled = self.spelled(filter);
        let filters = [spelled.as_str()];
        let packet = Unsubscribe {
            packet_id: id,
            properties: Properties::default(),
            filters: List::from(&filters),
        };
        self.send(context, &ClientPacket::Unsubscribe(packet));
    }

    /// SUBACK.
    pub(super) fn on_suback(&mut self, context: &mut Context<'_>, suback: &SubAck<'_>) {
        let client = self.peer.id;
        let Some(asked) = self.line.subscribing.remove(&suback.packet_id.get()) else {
            return context.oracle.fail(client, format!("SUBACK of {}", suback.packet_id));
        };
        if suback.reasons.len() != asked.wishes.len() {
            return context.oracle.fail(client, "SUBACK has other filters".into());
        }
        let mut is_whole = true;
        for (at, reason) in asked.wishes.iter().zip(suback.reasons.iter()) {
            let wish = self.wishes[*at].clone();
            if reason.byte() == wish.qos {
                if !asked.ended.contains(at) {
                    self.grant(context, &wish);
                }
                continue;
            }
            is_whole = false;
            let plan = context.plan;
            if plan.lossless && !plan.disk.refuses() && !plan.disk.refuses_reads() {
                let filter = &wish.filter;
                let text = format!("{filter} with QoS {} gets {reason}", wish.qos);
                return context.oracle.fail(client, text);
            }
        }
        if is_whole {
            self.line.retained.extend(asked.retained);
        }
        if context.phase == Phase::Calm {
            self.peer.act_at_ms = context.now_ms + 20;
        }
    }

    fn grant(&mut self, context: &mut Context<'_>, wish: &super::Wish) {
        if self.session.granted.contains_key(&wish.filter) {
            return;
        }
        let weak = self.wishes.iter().filter(|other| other.qos == 0);
        let weakened = weak.map(|other| other.filter.clone()).collect();
        let since = context.oracle.tick();
        let subscriptions = &mut context.oracle.mqtt.sessions[self.session.number].subscriptions;
        subscriptions.push(MqttSubscription {
            filter: wish.filter.clone(),
            // A member alone misses what others get.
            qos: if self.membership.is_some() { 0 } else { wish.qos },
            is_no_local: wish.is_no_local,
            weakened,
            is_alone: wish.is_alone,
            since,
            since_ms: context.now_ms,
            until: None,
        });
        self.session.granted.insert(wish.filter.clone(), subscriptions.len() - 1);
        self.begin_span(context, since);
    }

    /// UNSUBACK.
    pub(super) fn on_unsuback(&mut self, context: &mut Context<'_>, id: PacketId) {
        if !self.line.unsubscribing.remove(&id.get()) {
            context.oracle.fail(self.peer.id, format!("UNSUBACK of {id}"));
        }
    }
}
