//! Filters of the session of crate `client`: its reports of each partition, and its cursors for a
//! resume.

use super::Resumer;
use crate::client::Context;
use crate::covering::Covering;
use crate::oracle::{Hole, SKIPPED};
use client::session::{Event, GapCause, Message, SubscriptionId};
use client::{Position, Start, SubscribeOptions};
use wire::native::PartitionPosition;

impl Resumer {
    pub(super) fn act_on_filters(&mut self, context: &mut Context<'_>) {
        if self.peer.random.chance(0.15) {
            if let Some((id, mut covering)) = self.filters.pop_first() {
                self.session.unsubscribe(id);
                covering.finish(context.oracle);
            }
            return;
        }
        let filter = self.peer.random.below(context.plan.filters.len() as u64) as usize;
        let mut covering = Covering::new(self.peer.id, vec![filter], context.plan);
        let mut options = SubscribeOptions::default();
        if self.peer.random.chance(0.5) {
            for partition in 0..context.plan.settings.partitions_count() {
                let floor = context.oracle.floor(partition);
                let epoch = context.oracle.present_epoch(partition);
                let offset = self.peer.random.between(0, floor);
                covering.go_back(partition, epoch, offset);
                let position = Position { epoch, offset };
                options.cursors.push(PartitionPosition { partition, position });
            }
        }
        let name = &context.plan.filters[filter];
        // It may be subscribed already.
        if let Ok(id) = self.session.subscribe(name, Start::Live, &options) {
            context.oracle.note(self.peer.id, || {
                format!("subscribes {id:?} to filter {name} from {:?}", options.cursors)
            });
            self.filters.insert(id, covering);
        }
    }

    /// Processes an event about filters; returns other events.
    pub(super) fn on_filter_event(
        &mut self,
        context: &mut Context<'_>,
        event: Event,
    ) -> Option<Event> {
        let subscription = match &event {
            Event::Message(message) => message.subscription,
            Event::Subscribed { subscription, .. }
            | Event::CaughtUp { subscription, .. }
            | Event::Gap { subscription, .. }
            | Event::Skipped { subscription, .. }
            | Event::Unsubscribed { subscription, .. } => Some(*subscription),
            _ => None,
        };
        let Some(subscription) = subscription.filter(|id| self.filters.contains_key(id)) else {
            return Some(event);
        };
        if let Err(text) = self.take_filter_event(context, subscription, event) {
            let text = format!("{subscription:?}, a filter: {text}");
            context.oracle.fail(self.peer.id, text);
        }
        None
    }

    fn take_filter_event(
        &mut self,
        context: &mut Context<'_>,
        subscription: SubscriptionId,
        event: Event,
    ) -> Result<(), String> {
        let instance = self.peer.instance;
        let told_at = context.oracle.moment;
        let Some(covering) = self.filters.get_mut(&subscription) else {
            return Ok(());
        };
        match event {
            Event::Message(message) => self.take_filter_message(context, subscription, &message),
            Event::Subscribed { .. } => {
                covering.come_back(context.oracle, instance);
                Ok(())
            }
            Event::CaughtUp {
                partition: Some(partition),
                position: Position { epoch, offset },
                ..
            } => covering.on_settled(context.oracle, (partition, instance), (epoch, offset)),
            Event::Gap {
                partition: Some(partition),
                from,
                to: Some(to),
                cause: GapCause::Announced(reason),
                ..
            } => {
                // A position of another epoch has no meaning in this one.
                let from = from.filter(|from| from.epoch == to.epoch);
                let hole = Hole {
                    from: from.map_or(0, |from| from.offset),
                    to: to.offset,
                    reason: reason.number(),
                    told_at,
                };
                covering.on_gap(context.oracle, (partition, instance), hole)
            }
            Event::Gap { cause: GapCause::Reconnected, .. } => {
                covering.finish(context.oracle);
                Ok(())
            }
            Event::Skipped { partition: Some(partition), from, through, reason, .. } => {
                let hole = Hole { from, to: through, reason: SKIPPED + reason.number(), told_at };
                let policy = covering.policy(context.plan, None);
                covering.on_skipped(context.oracle, (partition, instance), hole, policy)
            }
            Event::Unsubscribed { error, .. } => {
                covering.finish(context.oracle);
                self.filters.remove(&subscription);
                match error {
                    Some(error) if context.plan.lossless => Err(format!("unsubscribed: {error}")),
                    _ => Ok(()),
                }
            }
            other => Err(format!("{other:?}")),
        }
    }

    /// Processes a message of a filter, and of the others that match it.
    fn take_filter_message(
        &mut self,
        context: &mut Context<'_>,
        subscription: SubscriptionId,
        message: &Message,
    ) -> Result<(), String> {
        let instance = self.peer.instance;
        let name = &*message.topic;
        let topic = context.plan.topic(name);
        let topic = topic.ok_or_else(|| format!("unknown topic {name}"))?;
        let partition = context.plan.partition(topic);
        let place = (partition, instance);
        let Position { epoch, offset } = message.position;
        let source = self.peer.source();
        if epoch != context.oracle.epoch(partition, instance)
            || message.partition != Some(partition)
        {
            let of = message.partition;
            return Err(format!("{name}: a message of epoch {epoch}, partition {of:?}"));
        }
        let prev = Some(message.prev);
        let (plan, payload) = (context.plan, &message.payload);
        context.oracle.delivered(plan, source, topic, offset, prev, payload);
        for id in [subscription].iter().chain(&message.also) {
            let covering = self.filters.get_mut(id);
            let covering = covering.ok_or_else(|| format!("for {id:?}, which is none"))?;
            if !covering.covers(plan, topic) {
                return Err(format!("{id:?} does not cover {name}"));
            }
            covering.on_message(context.oracle, place, topic, offset)?;
        }
        Ok(())
    }

    /// After all events: the session's cursors are those of a resume.
    pub(super) fn settle_filters(&mut self, context: &mut Context<'_>) {
        let instance = self.peer.instance;
        for (id, covering) in &mut self.filters {
            for PartitionPosition { partition, position: Position { epoch, offset } } in
                self.session.cursors(*id)
            {
                let place = (partition, instance);
                let result = covering.on_settled(context.oracle, place, (epoch, offset));
                if let Err(text) = result {
                    let text = format!("{id:?}, a filter, comes back from there: {text}");
                    return context.oracle.fail(self.peer.id, text);
                }
            }
        }
    }
}
