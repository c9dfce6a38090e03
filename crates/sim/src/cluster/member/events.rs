//! Frames that a client gets.

use super::{ClusterContext, Member};
use client::session::{Answer, Event, GapCause, HistoryPage, Message, ServerError, SubscriptionId};
use wire::native::{ErrorCode, Position};

impl Member {
    pub(super) fn take_events(&mut self, context: &mut ClusterContext<'_>) {
        while let Some(event) = self.session.take_event() {
            context.oracle.note(self.peer.id, || {
                let mut text = format!("{event:?}");
                text.truncate(260);
                text
            });
            self.on_event(context, event);
        }
        self.adopt_cursors();
        while let Some((request, answer)) = self.session.take_answer() {
            context.oracle.note(self.peer.id, || {
                let mut text = format!("answer {request}: {answer:?}");
                text.truncate(260);
                text
            });
            if let Some((topic, position)) = self.history.remove(&request) {
                if let Answer::History(page) = answer {
                    self.on_history(context, topic, position, &page);
                }
                continue;
            }
            self.on_answer(context, request, answer);
        }
    }

    /// A filter's begin in a partition is known from the session only.
    fn adopt_cursors(&mut self) {
        for (id, subscribed) in &mut self.subscriptions {
            if subscribed.is_filter && subscribed.has_begun {
                for at in self.session.cursors(*id) {
                    subscribed.cursors.entry(at.partition as usize).or_insert(at.position);
                }
            }
        }
    }

    fn on_answer(&mut self, context: &mut ClusterContext<'_>, request: u32, answer: Answer) {
        let Some((id, may_be_sent)) = self.requests.remove(&request) else {
            return context.oracle.fail(self.peer.id, format!("an answer for {request}"));
        };
        for keyed in self.keys.iter_mut().filter(|keyed| keyed.id == id) {
            keyed.is_settled = true;
        }
        let partition = context.plan.partition(context.oracle.publications[id].topic);
        let told = self.told(partition);
        match answer {
            Answer::Published(published) => {
                let at = (published.position, published.duplicate);
                context.oracle.acknowledged(context.engine, told, id, at);
            }
            Answer::Refused(error) => {
                let client = self.peer.id;
                let is_behind = is(&error, ErrorCode::OutOfOrder);
                if is_behind && may_be_sent {
                    context.oracle.out_of_order(context.engine, client, id);
                } else if !error.temporary {
                    let text = format!("publication {id} is refused: {error}");
                    context.oracle.fail(client, text);
                }
                let is_unknown = is(&error, ErrorCode::OutcomeUnknown);
                let is_final = !may_be_sent && !is_unknown;
                context.oracle.refused(context.engine, Some(client), id, is_final);
            }
            _ => context.oracle.refused(context.engine, None, id, false),
        }
    }

    fn on_event(&mut self, context: &mut ClusterContext<'_>, event: Event) {
        let client = self.peer.id;
        match event {
            Event::Message(message) => self.on_message(context, &message),
            Event::Subscribed { subscription, position, .. } => {
                self.on_subscribed(context, subscription, position);
            }
            Event::CaughtUp { subscription, partition, position, .. } => {
                self.on_caught_up(context, subscription, partition, position);
            }
            Event::Gap { subscription, partition, from, to, cause, .. } => {
                self.on_gap(context, subscription, partition, (from, to), cause);
            }
            Event::Skipped { from, through, .. } => {
                context.oracle.fail(client, format!("skipped from {from} through {through}"));
            }
            Event::Unsubscribed { subscription, error: Some(error), .. } => {
                self.subscriptions.remove(&subscription);
                context.oracle.fail(client, format!("unsubscribed: {error}"));
            }
            Event::Error(error) => context.oracle.fail(client, format!("error: {error}")),
            _ => {}
        }
    }

    fn on_message(&mut self, context: &mut ClusterContext<'_>, message: &Message) {
        let Some(topic) = context.plan.topic(&message.topic) else {
            return context.oracle.fail(self.peer.id, format!("a topic {}", message.topic));
        };
        let partition = context.plan.partition(topic);
        let told = self.told(partition);
        let position = message.position;
        let oracle = &mut *context.oracle;
        oracle.delivered(context.engine, told, topic, position, &message.payload);
        let published = super::super::oracle::id_of(&message.payload).unwrap_or(usize::MAX);
        for id in message.subscription.iter().chain(&message.also) {
            let Some(subscribed) = self.subscriptions.get_mut(id) else {
                oracle.fail(self.peer.id, format!("a message for {id:?}"));
                continue;
            };
            let names = subscribed.topics.iter();
            let names = names.map(|topic| context.plan.topics[*topic].as_str());
            let names: Vec<&str> = names.collect();
            if let Some(from) = subscribed.cursors.insert(partition, position) {
                oracle.advanced(context.engine, told, &names, (from, position), true);
            } else if !subscribed.is_filter {
                oracle.fail(self.peer.id, format!("{id:?}: a message before its begin"));
            }
            subscribed.received.push((partition, position, published));
        }
    }

    fn on_subscribed(
        &mut self,
        context: &mut ClusterContext<'_>,
        id: SubscriptionId,
        position: Option<Position>,
    ) {
        let node = self.node;
        let Some(subscribed) = self.subscriptions.get_mut(&id) else {
            return;
        };
        subscribed.has_begun = true;
        let before = subscribed.node.replace(node);
        context.oracle.seen.moved += u64::from(before.is_some_and(|before| before != node));
        let Some(position) = position else {
            return;
        };
        let partition = context.plan.partition(subscribed.topics[0]);
        match subscribed.cursors.get_mut(&partition) {
            None => {
                subscribed.cursors.insert(partition, position);
            }
            // It continues from its position, in the node's epoch. Another one is reported as a
            // gap, which comes next.
            Some(cursor) => {
                let (oracle, engine) = (&*context.oracle, context.engine);
                if oracle.is_valid(engine, partition, *cursor, position.epoch) {
                    cursor.epoch = position.epoch;
                }
            }
        }
    }

    fn on_caught_up(
        &mut self,
        context: &mut ClusterContext<'_>,
        id: SubscriptionId,
        partition: Option<u32>,
        position: Position,
    ) {
        let Some(subscribed) = self.subscriptions.get(&id) else {
            return;
        };
        let of_topic = context.plan.partition(subscribed.topics[0]);
        let partition = partition.map_or(of_topic, |partition| partition as usize);
        let told = self.told(partition);
        let names = subscribed.topics.iter();
        let names: Vec<&str> = names.map(|topic| context.plan.topics[*topic].as_str()).collect();
        let from = subscribed.cursors.get(&partition).copied();
        if let Some(from) = from {
            // `CaughtUp` may come behind messages that settle more.
            let at = Position { offset: position.offset.max(from.offset), ..position };
            context.oracle.advanced(context.engine, told, &names, (from, at), false);
        }
        if let Some(subscribed) = self.subscriptions.get_mut(&id) {
            let offset = position.offset.max(from.map_or(0, |from| from.offset));
            subscribed.cursors.insert(partition, Position { offset, ..position });
        }
    }

    fn on_gap(
        &mut self,
        context: &mut ClusterContext<'_>,
        id: SubscriptionId,
        partition: Option<u32>,
        (told_from, to): (Option<Position>, Option<Position>),
        cause: GapCause,
    ) {
        let Some(subscribed) = self.subscriptions.get(&id) else {
            return;
        };
        let of_topic =
            (!subscribed.is_filter).then(|| context.plan.partition(subscribed.topics[0]));
        let partition = partition.map(|partition| partition as usize).or(of_topic);
        let (GapCause::Announced(_), Some(partition), Some(to)) = (cause, partition, to) else {
            let text = format!("{id:?}: a gap {cause:?} to {to:?} of partition {partition:?}");
            return context.oracle.fail(self.peer.id, text);
        };
        let told = self.told(partition);
        if let Some(cursor) = subscribed.cursors.get(&partition).copied() {
            // The client has asked with the session's position. Its lineage may be another one: an
            // earlier begin has told it, or the node's new one came just before this gap.
            let from = told_from.filter(|from| from.offset == cursor.offset).unwrap_or(cursor);
            context.oracle.gap(context.engine, told, from, to);
        }
        if let Some(subscribed) = self.subscriptions.get_mut(&id) {
            subscribed.cursors.insert(partition, to);
        }
    }

    fn on_history(
        &mut self,
        context: &mut ClusterContext<'_>,
        topic: usize,
        from: Option<Position>,
        page: &HistoryPage,
    ) {
        let partition = context.plan.partition(topic);
        let told = self.told(partition);
        let names = [context.plan.topics[topic].as_str()];
        let mut at = from;
        if let Some(gap) = page.gap {
            let to = Position { epoch: page.epoch, offset: gap.to };
            if let Some(from) = from {
                context.oracle.gap(context.engine, told, from, to);
            }
            at = Some(to);
        }
        for message in &page.messages {
            context.oracle.seen.history += 1;
            let position = message.position;
            let payload = &message.payload;
            context.oracle.delivered(context.engine, told, topic, position, payload);
            if let Some(at) = at {
                context.oracle.advanced(context.engine, told, &names, (at, position), true);
            }
            at = Some(position);
        }
    }
}

/// Whether a refusal has this code.
fn is(error: &ServerError, code: ErrorCode) -> bool {
    error.code == u32::from(code.number())
}
