//! Subscriptions that a client has ended while they were read from the log.
//!
//! Step 3 of the path. Where subscriptions overlap and are behind, the last one brings a message
//! (`wake::comes_later`). If just this one ends, the others have passed the message by then. So it
//! stays until it has caught up, and brings what the others have left to it, with their options and
//! identifiers; what none of them matches it leaves out.
//!
//! Invariant: such a subscription is behind; it goes with the last page that it waits for, and
//! sleeps with the session.

use super::wake::does_match;
use crate::edge::Edge;
use crate::edge::subscriptions::Stage;
use crate::ids::{ConnIndex, SubIndex};
use crate::session::mqtt::options::Options;
use log::RecordView;
use wire::mqtt::SubscriptionId;

impl Edge {
    /// The client ends a granted subscription.
    pub(super) fn leave_subscription(&mut self, index: ConnIndex, at: SubIndex) {
        let is_needed = Options::of(self.subscriptions[at].client).qos > 0
            && self.is_behind(at)
            && self.others(index, at).next().is_some();
        if !is_needed {
            self.forget_subscription(index, at);
        } else if let Some(mqtt) = self.mqtt_of(index) {
            mqtt.busy.ended.push(at);
        }
        // Nothing was left to those that have no other any more.
        let ended = self.mqtt_ref(index).map_or_else(Vec::new, |mqtt| mqtt.busy.ended.to_vec());
        for at in ended {
            if self.others(index, at).next().is_none() {
                self.forget_subscription(index, at);
            }
        }
    }

    fn forget_subscription(&mut self, index: ConnIndex, at: SubIndex) {
        let name = self.name_of_subscription(at);
        if let (Some(name), Some(mqtt)) = (name, self.mqtt_of(index))
            && let Some(waking) = mqtt.waking_mut()
        {
            waking.subscriptions.retain(|it| it.filter != name);
        }
        self.unsubscribe(at);
    }

    /// A subscription has caught up in a partition: one that has ended goes with the last of them.
    pub(crate) fn end_caught_up(&mut self, at: SubIndex) {
        let index = self.subscriptions[at].connection;
        if self.connections.slots[index].facts().is_mqtt
            && self.has_ended(index, at)
            && !self.is_behind(at)
        {
            self.forget_subscription(index, at);
        }
    }

    /// A subscription is removed.
    pub(crate) fn forget_ended(&mut self, index: ConnIndex, at: SubIndex) {
        if let Some(mqtt) = self.mqtt_of(index)
            && !mqtt.busy.ended.is_empty()
        {
            mqtt.busy.ended.retain(|ended| *ended != at);
        }
    }

    /// The client subscribes again. True if it had ended the subscription.
    pub(super) fn revive(&mut self, index: ConnIndex, at: SubIndex, filter: &[u8]) -> bool {
        let Some(mqtt) = self.mqtt_of(index) else {
            return false;
        };
        if let Some(waking) = mqtt.waking_mut() {
            let is_it = |it: &&mut crate::mail::SleepingSubscription| it.filter[..] == *filter;
            waking.subscriptions.iter_mut().filter(is_it).for_each(|it| it.is_ended = false);
        }
        let was_ended = mqtt.busy.ended.contains(&at);
        self.forget_ended(index, at);
        was_ended
    }

    /// Whether the client has ended a subscription.
    pub(super) fn has_ended(&self, index: ConnIndex, at: SubIndex) -> bool {
        self.mqtt_ref(index).is_some_and(|mqtt| mqtt.busy.ended.contains(&at))
    }

    /// Whether a granted subscription is read from the log.
    fn is_behind(&self, at: SubIndex) -> bool {
        let entry = &self.subscriptions[at];
        match entry.stage {
            Stage::Pending | Stage::Live => false,
            Stage::Reading | Stage::Lagging => true,
            Stage::ByFilter => !self.subscriptions.cursors_of(at).is_empty(),
        }
    }

    /// The options and identifiers with which a subscription that has ended brings a message of a
    /// topic: those of the others that match. None: it leaves the message out.
    fn left_to(
        &self,
        index: ConnIndex,
        ended: SubIndex,
        topic: &str,
        view: &RecordView<'_>,
    ) -> Option<(Options, Vec<SubscriptionId>)> {
        let is_own = self.is_own(index, view);
        let others = self.others(index, ended).filter(|(name, _)| does_match(name, topic));
        let others: Vec<Options> = others
            .map(|(_, options)| options)
            .filter(|options| !(is_own && options.no_local))
            .collect();
        let options = Options {
            qos: others.iter().map(|options| options.qos).max()?,
            no_local: false,
            retain_as_published: others.iter().any(|options| options.retain_as_published),
            identifier: 0,
        };
        let ids = others.iter().filter_map(|options| SubscriptionId::new(options.identifier));
        Some((options, ids.collect()))
    }

    /// The options and identifiers with which a subscription that has ended brings a message from
    /// the log, as [`Edge::left_to`]; `Some(None)` if it has not ended.
    pub(super) fn left_if_ended(
        &self,
        index: ConnIndex,
        at: SubIndex,
        topic: &str,
        view: &RecordView<'_>,
    ) -> Option<Option<(Options, Vec<SubscriptionId>)>> {
        if !self.has_ended(index, at) {
            return Some(None);
        }
        self.left_to(index, at, topic, view).map(Some)
    }

    /// The other subscriptions with QoS 1 and 2 that the session has: filters and options.
    fn others(
        &self,
        index: ConnIndex,
        but: SubIndex,
    ) -> impl Iterator<Item = (stdx::chunk::Slice, Options)> {
        let others = self.chain(index).filter(move |at| *at != but && !self.has_ended(index, *at));
        let held = others.filter_map(move |at| self.holds_as(index, at));
        let waking = self.mqtt_ref(index).and_then(|mqtt| mqtt.busy.waking.as_ref());
        let is_ended = move |name: &[u8]| {
            let mut all = waking.iter().flat_map(|waking| &waking.subscriptions);
            all.any(|it| it.is_ended && it.filter[..] == *name)
        };
        held.filter(move |(name, options)| options.qos > 0 && !is_ended(name))
    }
}
