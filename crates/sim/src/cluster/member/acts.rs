//! The actions of a client.

use super::{ClusterContext, Keyed, Member, Subscribed};
use client::session::{HistoryOptions, Once, PublishOptions};
use client::{PartitionPosition, Start, SubscribeOptions};
use wire::native::Position;

impl Member {
    pub(super) fn act(&mut self, context: &mut ClusterContext<'_>) {
        match self.peer.random.below(20) {
            0..=2 => self.subscribe(context),
            3 => self.subscribe_filter(context),
            4 => {
                let count = self.subscriptions.len().max(1) as u64;
                let place = self.peer.random.below(count) as usize;
                if let Some(id) = self.subscriptions.keys().nth(place).copied() {
                    self.session.unsubscribe(id);
                    self.subscriptions.remove(&id);
                }
            }
            5 => self.ask_history(context),
            6 => {
                // It moves to another node.
                if self.peer.random.chance(0.3) {
                    self.peer.leave(context, false);
                }
            }
            _ => self.publish(context),
        }
        self.peer.suffer(context);
    }

    fn draw_topic(&mut self, context: &ClusterContext<'_>) -> usize {
        self.peer.random.below(context.plan.topics.len() as u64) as usize
    }

    /// A position of a partition that a client has had.
    fn draw_position(&mut self, context: &ClusterContext<'_>, of: usize) -> Option<Position> {
        let positions = &context.oracle.positions;
        let place = self.peer.random.below(positions.len().max(1) as u64) as usize;
        let mut found = positions.iter().skip(place).chain(positions);
        found.find(|(partition, _)| *partition == of).map(|(_, position)| *position)
    }

    fn subscribe(&mut self, context: &mut ClusterContext<'_>) {
        let topic = self.draw_topic(context);
        let partition = context.plan.partition(topic);
        let name = &context.plan.topics[topic];
        let mut subscribed = Subscribed { topics: vec![topic], ..Subscribed::default() };
        let starts_count = if context.plan.is_compacted { 4 } else { 3 };
        let start = match self.peer.random.below(starts_count) {
            0 => Start::Live,
            3 => Start::Snapshot,
            1 => Start::Last(self.peer.random.between(1, 20) as u32),
            _ => match self.draw_position(context, partition) {
                Some(position) => {
                    subscribed.cursors.insert(partition, position);
                    Start::Since(position)
                }
                None => Start::Live,
            },
        };
        if let Ok(id) = self.session.subscribe(name, start, &SubscribeOptions::default()) {
            context
                .oracle
                .note(self.peer.id, || format!("subscribes {id:?} to {name} from {start:?}"));
            self.subscriptions.insert(id, subscribed);
        }
    }

    fn subscribe_filter(&mut self, context: &mut ClusterContext<'_>) {
        let place = self.peer.random.below(context.plan.filters.len() as u64) as usize;
        let filter = &context.plan.filters[place];
        let topics = context.plan.topics.iter().enumerate();
        let topics = topics.filter(|(_, topic)| crate::oracle::matches(filter, topic));
        let topics: Vec<usize> = topics.map(|(topic, _)| topic).collect();
        if topics.is_empty() {
            return;
        }
        let mut options = SubscribeOptions::default();
        let mut subscribed = Subscribed { topics, is_filter: true, ..Subscribed::default() };
        if self.peer.random.chance(0.4) {
            for partition in 0..context.plan.engine.partitions as usize {
                if let Some(position) = self.draw_position(context, partition) {
                    subscribed.cursors.insert(partition, position);
                    let partition = partition as u32;
                    options.cursors.push(PartitionPosition { partition, position });
                }
            }
        }
        if let Ok(id) = self.session.subscribe(filter, Start::Live, &options) {
            let cursors = &subscribed.cursors;
            context
                .oracle
                .note(self.peer.id, || format!("subscribes {id:?} to {filter} from {cursors:?}"));
            self.subscriptions.insert(id, subscribed);
        }
    }

    fn ask_history(&mut self, context: &mut ClusterContext<'_>) {
        let topic = self.draw_topic(context);
        let position = if self.peer.random.chance(0.7) {
            self.draw_position(context, context.plan.partition(topic))
        } else {
            None
        };
        let options = HistoryOptions { position, ..HistoryOptions::default() };
        if let Ok(request) = self.session.history(&context.plan.topics[topic], &options) {
            context.oracle.note(self.peer.id, || {
                format!("asks {request} for the history of {topic} from {position:?}")
            });
            self.history.insert(request, (topic, position));
        }
    }

    fn publish(&mut self, context: &mut ClusterContext<'_>) {
        if !self.session.has_room() {
            return;
        }
        let choice = self.peer.random.below(10);
        let known = self.keys.iter().position(|keyed| keyed.is_settled);
        let (id, once) = match (choice, known) {
            // The client repeats the publication with the same key.
            (0, Some(place)) => {
                let keyed = &mut self.keys[place];
                keyed.is_settled = false;
                (keyed.id, Some(Once::Key(keyed.key.clone())))
            }
            (0 | 1, _) => {
                let id = self.new_publication(context);
                let key = format!("key {id}").into_bytes();
                self.keys.push(Keyed { key: key.clone(), id, is_settled: false });
                (id, Some(Once::Key(key)))
            }
            (2..=5, _) => (self.new_publication(context), Some(Once::Numbered)),
            _ => (self.new_publication(context), None),
        };
        let published = &context.oracle.publications[id];
        let name = &context.plan.topics[published.topic];
        let payload = published.payload.clone();
        let retain = context.plan.is_compacted && id.is_multiple_of(3);
        let options = PublishOptions { once, retain, ..PublishOptions::default() };
        if let Ok(request) = self.session.publish(name, &payload, &options, true) {
            let once = &options.once;
            context.oracle.note(self.peer.id, || format!("publishes {id} on {name}, {once:?}"));
            self.requests.insert(request, (id, options.once.is_some()));
        }
    }

    fn new_publication(&mut self, context: &mut ClusterContext<'_>) -> usize {
        let topic = self.draw_topic(context);
        let padding = self.peer.random.between(0, context.plan.payload_bytes_max) as usize;
        context.oracle.publication(topic, context.plan.partition(topic), padding)
    }
}
