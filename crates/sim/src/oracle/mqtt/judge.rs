//! The end of the world, for sessions of MQTT: order, completeness, and acknowledged publications.

use super::{Delivered, MqttSession, MqttSubscription};
use crate::oracle::{Once, Oracle, matches};
use crate::plan::Plan;
use std::collections::{BTreeMap, BTreeSet};

impl Oracle {
    /// Compares the sessions of MQTT with the log.
    pub(in crate::oracle) fn judge_mqtt(&mut self, plan: &Plan) {
        let sessions = std::mem::take(&mut self.mqtt.sessions);
        for session in &sessions {
            if let Err(text) = self.judge_order(plan, session) {
                return self.fail(session.client, text);
            }
            if let Err(text) = self.judge_retained(plan, session) {
                return self.fail(session.client, text);
            }
            if !plan.lossless || self.is_flipped {
                continue;
            }
            for subscription in &session.subscriptions {
                if let Err(text) = self.judge_complete(plan, session, subscription) {
                    return self.fail(session.client, text);
                }
            }
        }
        self.judge_groups(plan);
        self.judge_accepted(plan);
        self.judge_wills(plan);
    }

    /// The offsets of a publication that a node of this life has, ascending.
    pub(super) fn offsets_in(&self, partition: u32, life: u32, publication: usize) -> Vec<u64> {
        let places = self.publications[publication].places.iter();
        let held = places.filter(|(of, offset)| self.lives.holds(partition, *of, *offset, life));
        let mut offsets: Vec<u64> = held.map(|(_, offset)| *offset).collect();
        offsets.sort_unstable();
        offsets
    }

    /// Checks that each connection got each topic in the order of the log, repeats included, and
    /// that first deliveries are in that order over all connections.
    fn judge_order(&self, plan: &Plan, session: &MqttSession) -> Result<(), String> {
        let mut of_connections: BTreeMap<(usize, u32), u64> = BTreeMap::new();
        let mut of_lives: BTreeMap<(usize, u32), u64> = BTreeMap::new();
        for delivered in &session.deliveries {
            let Delivered { publication, topic, connection, instance, .. } = *delivered;
            let partition = plan.partition(topic);
            let life = self.lives.at(partition, instance);
            let offsets = self.offsets_in(partition, life, publication);
            if offsets.is_empty() || self.may_have_copies(partition, publication) {
                continue;
            }
            let last = of_connections.entry((topic, connection)).or_default();
            let after = |last: u64| offsets.iter().copied().find(|offset| *offset > last);
            let name = &plan.topics[topic];
            match after(*last) {
                Some(offset) => *last = offset,
                None => {
                    return Err(format!(
                        "{name}: publication {publication} at {offsets:?} came behind {last} on connection {connection}"
                    ));
                }
            }
            if delivered.is_repeat {
                continue;
            }
            let last = of_lives.entry((topic, life)).or_default();
            match after(*last) {
                Some(offset) => *last = offset,
                None => {
                    return Err(format!(
                        "{name}: publication {publication} at {offsets:?} came first behind {last}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Whether the oracle may not know some of the copies: the log may keep a publication that was
    /// sent again. A log that has dropped records and begun anew has forgotten some publications.
    fn may_have_copies(&self, partition: u32, publication: usize) -> bool {
        let of = &self.publications[publication];
        let may_repeat = of.once == Once::Repeats || self.lives.is_forgotten(partition, 1);
        of.attempts() > 1 && may_repeat
    }

    /// Checks that the retained message for a new subscription was the newest known one or a newer
    /// one.
    fn judge_retained(&self, plan: &Plan, session: &MqttSession) -> Result<(), String> {
        for (topic, known, source, came) in &session.retained {
            let partition = plan.partition(*topic);
            let life = self.lives.at(partition, source.instance);
            let offsets = self.offsets_in(partition, life, *came);
            let has_copies = self.may_have_copies(partition, *came);
            if !has_copies && offsets.last().is_some_and(|offset| offset < known) {
                let name = &plan.topics[*topic];
                return Err(format!(
                    "{name}: retained publication {came} at {offsets:?}, and {known} was newer"
                ));
            }
        }
        Ok(())
    }

    /// Checks that a subscription with QoS 1 or 2 got all messages of its time: to the end of the
    /// world, or up to the last one that came while it lasted.
    fn judge_complete(
        &self,
        plan: &Plan,
        session: &MqttSession,
        subscription: &MqttSubscription,
    ) -> Result<(), String> {
        if subscription.qos == 0 || subscription.until.is_some() && !subscription.is_alone {
            return Ok(());
        }
        for (topic, name) in plan.topics.iter().enumerate() {
            if !matches(&subscription.filter, name) || subscription.weakened.contains(name) {
                continue;
            }
            let partition = plan.partition(topic);
            let life = self.lives.present(partition);
            let until = self.settled_through(plan, session, subscription, topic);
            let all = session.deliveries.iter().chain(&session.without_order);
            let came = all.filter(|delivered| delivered.topic == topic);
            let came: BTreeSet<usize> = came.map(|delivered| delivered.publication).collect();
            for (id, publication) in self.publications.iter().enumerate() {
                let is_owed = publication.topic == topic
                    && publication.sent_at > subscription.since
                    && publication.qos != Some(0)
                    && !(subscription.is_no_local && self.is_of(session.client, id));
                if !is_owed || came.contains(&id) {
                    continue;
                }
                let offsets = self.offsets_in(partition, life, id);
                if offsets.len() == 1 && offsets[0] <= until {
                    let filter = &subscription.filter;
                    return Err(format!(
                        "{filter}: publication {id} at {} of {name} never came, and everything up to {until} was due",
                        offsets[0]
                    ));
                }
            }
        }
        Ok(())
    }

    /// The offset up to which a subscription must have all messages of a topic.
    fn settled_through(
        &self,
        plan: &Plan,
        session: &MqttSession,
        subscription: &MqttSubscription,
        topic: usize,
    ) -> u64 {
        let partition = plan.partition(topic);
        let life = self.lives.present(partition);
        let Some(until) = subscription.until else {
            return self.markers.get(&topic).map_or(0, |(_, offset)| *offset);
        };
        let is_its = |delivered: &&Delivered| {
            delivered.topic == topic
                && self.lives.at(partition, delivered.instance) == life
                && delivered.qos > 0
                && subscription.since < delivered.moment
                && delivered.moment < until
        };
        let came = session.deliveries.iter().filter(is_its);
        let offsets = came.filter_map(|delivered| {
            self.offsets_in(partition, life, delivered.publication).first().copied()
        });
        offsets.max().unwrap_or(0)
    }

    /// Whether a client of MQTT has published this.
    fn is_of(&self, client: usize, publication: usize) -> bool {
        self.publications[publication].mqtt_client == Some(client)
    }

    /// Checks that acknowledged publications are in the log.
    fn judge_accepted(&mut self, plan: &Plan) {
        let accepted = std::mem::take(&mut self.mqtt.accepted);
        let Some((calm, _)) = self.mqtt.calm.filter(|_| plan.lossless && !self.is_flipped) else {
            return;
        };
        for (id, source, moment) in accepted {
            let topic = self.publications[id].topic;
            let partition = plan.partition(topic);
            let life = self.lives.present(partition);
            if moment > calm || self.lives.at(partition, source.instance) != life {
                continue;
            }
            // A session on disk remembers that a node before has taken a publication with QoS 2,
            // and answers it again, also where that node's log was in memory.
            let of = &self.publications[id];
            if of.qos == Some(2) && self.lives.at(partition, of.first_instance) != life {
                continue;
            }
            if self.offsets_in(partition, life, id).is_empty() {
                let text = format!(
                    "publication {id} of {} was acknowledged, and the log does not have it",
                    plan.topics[topic]
                );
                return self.fail(source.client, text);
            }
        }
    }

    /// The publication that is the last message of a topic.
    pub fn marker_publication(&self, plan: &Plan, topic: usize) -> Option<usize> {
        let (epoch, offset) = *self.markers.get(&topic)?;
        let partition = plan.partition(topic);
        let life = self.lives.of_epoch(partition, epoch)?;
        let origin = self.lives.origin(partition, life, offset);
        self.places.get(&(partition, origin, offset)).map(|place| place.publication)
    }
}
