//! The node's frames about a native client's subscriptions, checked against the rules of the
//! protocol.

use super::{NativeClient, Stage};
use crate::client::Context;
use crate::oracle::matches;
use wire::native::{
    ClientFrame, Credit, Message, NamedMessage, Retained, Start, Subscribed, SubscribedTo,
};

impl NativeClient {
    pub(super) fn on_message(&mut self, context: &mut Context<'_>, message: &Message<'_>) {
        let id = self.peer.id;
        let Some(number) = self.aliases.get(&message.alias) else {
            return context
                .oracle
                .fail(id, format!("message for the unknown alias {}", message.alias));
        };
        let Some(plain) = self.plain.get_mut(number) else {
            return;
        };
        let topic = plain.run.topic;
        let (offset, prev) = (message.offset, message.prev);
        if !context.oracle.delivered(
            context.plan,
            self.peer.source(),
            topic,
            offset,
            Some(prev),
            message.payload,
        ) {
            return;
        }
        if !plain.has_cursor
            && message.retained == Retained::Yes
            && !plain.has_begun
            && plain.start == Start::Snapshot
        {
            plain.is_snapshot = true;
            if offset >= plain.retained_due {
                plain.retained_due = 0;
            }
        }
        if let Err(text) = plain.on_message(offset, prev) {
            let topic = &context.plan.topics[topic];
            context.oracle.fail(id, format!("subscription {number} to {topic}: {text}"));
        }
        if let Some(credit) = plain.credit
            && plain.stage == Stage::Replaying
        {
            let (number, messages) =
                (*number, self.peer.random.between(0, u64::from(credit) * 2) as u32);
            self.frame(&ClientFrame::Credit(Credit {
                subscription: number,
                messages: messages.max(1),
            }));
        }
    }

    pub(super) fn on_subscribed(&mut self, context: &mut Context<'_>, subscribed: Subscribed<'_>) {
        let number = subscribed.subscription;
        if let Some(wide) = self.wide.get_mut(&number) {
            let SubscribedTo::Filter(beginnings) = subscribed.to else {
                let text = format!("SUBSCRIBED for {number} is not to a filter");
                return context.oracle.fail(self.peer.id, text);
            };
            let partitions_count = context.plan.settings.partitions_count();
            let result = wide.on_subscribed(
                context.oracle,
                partitions_count,
                self.peer.instance,
                beginnings,
            );
            if let Err(text) = result {
                context.oracle.fail(self.peer.id, format!("filter {number}: {text}"));
            }
            return;
        }
        let Some(plain) = self.plain.get_mut(&number) else {
            return context.oracle.fail(self.peer.id, format!("SUBSCRIBED for {number}"));
        };
        let Some(topic) = subscribed.topic() else {
            return context
                .oracle
                .fail(self.peer.id, format!("SUBSCRIBED for {number} without a topic"));
        };
        let partition = context.plan.partition(plain.run.topic);
        context.oracle.events.heard(plain.run.topic);
        let instance = self.peer.instance;
        let beginning = topic.beginning;
        if beginning.through.epoch != context.oracle.epoch(partition, instance) {
            let text = format!("SUBSCRIBED names epoch {}", beginning.through.epoch);
            return context.oracle.fail(self.peer.id, text);
        }
        self.aliases.retain(|_, other| *other != number);
        self.aliases.insert(topic.alias, number);
        let result = plain.on_subscribed(context.oracle, (partition, instance), beginning);
        if let Err(text) = result {
            context.oracle.fail(self.peer.id, format!("subscription {number}: {text}"));
        }
    }

    /// Processes a message by filter, for its subscription, or for all that match its topic.
    pub(super) fn on_named(
        &mut self,
        context: &mut Context<'_>,
        topic: usize,
        message: &NamedMessage<'_>,
    ) {
        let name = &context.plan.topics[topic];
        let partition = context.plan.partition(topic);
        let offset = message.position.offset;
        if message.partition != partition {
            let text = format!("{name} is not of partition {}", message.partition);
            return context.oracle.fail(self.peer.id, text);
        }
        let mut was_wanted = false;
        let mut credits = Vec::new();
        for (number, wide) in &mut self.wide {
            let is_for = match message.subscription {
                Some(only) => only == *number,
                None => wide.is_told,
            };
            if !is_for || !matches(&context.plan.filters[wide.filter], name) {
                continue;
            }
            was_wanted = true;
            if let Some(credit) = wide.credit
                && wide.is_replaying(partition)
            {
                credits.push((*number, credit));
            }
            let is_addressed = message.subscription.is_some();
            if let Err(text) = wide.on_named(topic, partition, offset, is_addressed) {
                let text = format!("filter {number}, {name}: {text}");
                context.oracle.fail(self.peer.id, text);
            }
        }
        if !was_wanted {
            context.oracle.fail(self.peer.id, format!("no filter matches {name}"));
        }
        for (subscription, credit) in credits {
            let messages = self.peer.random.between(0, u64::from(credit) * 2) as u32;
            self.frame(&ClientFrame::Credit(Credit { subscription, messages: messages.max(1) }));
        }
    }

    /// Handles a log that could not be read for a filter: the filter is requested again from its
    /// cursors, here or on another connection.
    pub(super) fn on_filter_ended(&mut self, context: &mut Context<'_>, number: u32) {
        let Some(wide) = self.wide.get_mut(&number) else {
            return;
        };
        wide.is_told = false;
        if wide.stage == Stage::Ending {
            wide.finish(context.oracle);
            self.wide.remove(&number);
        } else if self.peer.random.chance(0.7) {
            self.ask_wide(context, number);
        } else {
            self.peer.leave(context, false);
            self.lost(context);
        }
    }
}
