//! Subscriptions to filters: frames about their partitions.
//!
//! Place: from the frames to the events, beside `inbound`, which handles plain topics.
//! [`crate::cursors`] decides which messages are new.

use wire::native::{
    CaughtUp, Gap, List, NamedMessage, PartitionBeginning, Position, Retained, Skipped,
};

use super::Session;
use super::event::{Event, GapCause, Message, SubscriptionId};
use super::report::ReportedGap;
use crate::cursors::Arrival;
use crate::fault::{self, Fault};

impl Session {
    /// Processes SUBSCRIBED for a filter, with the beginning in each partition.
    pub(super) fn filter_subscribed(&mut self, id: u32, partitions: List<'_, PartitionBeginning>) {
        let Some(subscription) = self.subscriptions.get_mut(id) else {
            return;
        };
        subscription.is_granted = true;
        let was_granted = std::mem::replace(&mut subscription.was_granted, true);
        let is_blind = was_granted && subscription.cursors.is_empty();
        let mut replaying = false;
        for PartitionBeginning { partition, beginning } in partitions {
            replaying |= beginning.replaying;
            subscription.cursors.subscribed(partition, &beginning);
        }
        let filter = subscription.filter.clone();
        self.events.push_back(Event::Subscribed {
            subscription: SubscriptionId(id),
            filter,
            position: None,
            replaying,
        });
        if is_blind {
            let gap =
                ReportedGap { partition: None, from: None, to: None, cause: GapCause::Reconnected };
            self.report_gap(id, gap);
        }
    }

    pub(super) fn named_message(&mut self, frame: &NamedMessage<'_>) {
        let matching = match frame.subscription {
            Some(id) if !fault::is(Fault::IgnoresAddress) => {
                self.subscriptions.get(id).map(|_| id).into_iter().collect()
            }
            _ => self.subscriptions.matching(frame.topic),
        };
        let mut taken = Vec::with_capacity(matching.len());
        let mut was_settled = false;
        for id in &matching {
            let Some(subscription) = self.subscriptions.get_mut(*id) else {
                continue;
            };
            let cursors = &mut subscription.cursors;
            match cursors.message(frame.partition, frame.position, frame.lineage) {
                Arrival::New => {}
                Arrival::NewEpoch { from } => {
                    let gap = ReportedGap {
                        partition: Some(frame.partition),
                        from: Some(from),
                        to: Some(Position { offset: frame.prev, ..frame.position }),
                        cause: GapCause::Unannounced,
                    };
                    self.report_gap(*id, gap);
                }
                Arrival::Settled => {
                    was_settled = true;
                    continue;
                }
            }
            taken.push(*id);
        }
        if taken.is_empty() {
            self.counters.duplicates += u64::from(was_settled);
            self.counters.unexpected += u64::from(matching.is_empty());
            return;
        }
        for id in &taken {
            if let Some(subscription) = self.subscriptions.get_mut(*id) {
                subscription.report.messages += 1;
            }
        }
        self.counters.messages += 1;
        let [first, also @ ..] = &taken[..] else { return };
        let topic = frame.topic.into();
        self.events.push_back(Event::Message(Message {
            subscription: Some(SubscriptionId(*first)),
            also: also.iter().map(|id| SubscriptionId(*id)).collect(),
            partition: Some(frame.partition),
            prev: frame.prev,
            retained: frame.retained == Retained::Yes,
            ..Message::new(topic, frame.position, &frame.attributes, frame.payload)
        }));
    }

    pub(super) fn filter_caught_up(&mut self, frame: &CaughtUp, partition: u32) {
        let id = frame.subscription;
        let Some(subscription) = self.subscriptions.get_mut(id) else {
            return;
        };
        let Some(position) =
            subscription.cursors.caught_up(partition, frame.through, frame.lineage)
        else {
            return; // the partition is unknown
        };
        let event = Event::CaughtUp {
            subscription: SubscriptionId(id),
            filter: subscription.filter.clone(),
            partition: Some(partition),
            position,
            complete: subscription.complete,
        };
        self.events.push_back(event);
    }

    pub(super) fn filter_gap(&mut self, frame: &Gap, partition: u32) {
        let Some(subscription) = self.subscriptions.get_mut(frame.subscription) else {
            return;
        };
        let to = Position { epoch: frame.epoch, offset: frame.to };
        let gap = ReportedGap {
            partition: Some(partition),
            from: subscription.cursors.gap(partition, to),
            to: Some(to),
            cause: GapCause::Announced(frame.reason),
        };
        self.report_gap(frame.subscription, gap);
    }

    /// Moves the cursor; the event is the same as for a topic.
    pub(super) fn filter_skipped(&mut self, frame: &Skipped) {
        let Some(of) = frame.partition else { return };
        if let Some(subscription) = self.subscriptions.get_mut(frame.subscription) {
            let through = Position { epoch: of.epoch, offset: frame.through };
            subscription.cursors.skipped(of.partition, through);
        }
    }

    /// Subscribes a filter live, because the server cannot continue from its positions. Reports a
    /// gap.
    pub(super) fn subscribe_filter_blind(&mut self, id: u32) {
        if let Some(subscription) = self.subscriptions.get_mut(id) {
            subscription.cursors.clear();
            subscription.was_granted = true;
            self.send_subscribe(&[id]);
        }
    }
}
