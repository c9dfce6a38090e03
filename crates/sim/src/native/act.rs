//! Actions of a native client: subscribing, publishing, requesting, by chance or as the auditor.

use super::policies::wire_policy;
use super::{NativeClient, Plain, SUBSCRIPTIONS_MAX, Stage, Todo, Waiting, Wide, draw_padding};
use crate::client::{Context, Phase};
use crate::oracle::{Once, Run};
use crate::plan::UNKNOWN_EPOCH;
use wire::native::{
    Attributes, ClientFrame, History, Position, Producer, Publish, PublishOptions, Start,
    Subscribe, SubscribeItem, SubscribeRequest, Tag, Unsubscribe,
};

/// The choice, of ten, that starts a subscription beyond the log's head.
const BEYOND: u64 = 8;

impl NativeClient {
    pub(super) fn act(&mut self, context: &mut Context<'_>) {
        if self.is_auditor {
            return self.audit(context);
        }
        if context.plan.tickets > 0.0 && self.peer.random.chance(context.plan.tickets) {
            self.ask_ticket(context);
        }
        let topics = context.plan.topics.len() as u64;
        let topic = self.peer.random.below(topics) as usize;
        match self.peer.random.below(100) {
            0..=29 => self.subscribe(context, topic),
            30..=34 => self.subscribe_filter(context),
            35..=41 => self.unsubscribe(context),
            42..=47 => self.ask_history(context, topic),
            48..=50 => self.frame(&ClientFrame::Ping(7)),
            _ => {
                for _ in 0..1 + self.peer.random.below(4) {
                    self.publish(context, topic);
                }
            }
        }
        self.peer.suffer(context);
    }

    pub(super) fn audit(&mut self, context: &mut Context<'_>) {
        if context.phase == Phase::Active || self.requests.len() > 8 {
            return;
        }
        match self.todo.pop_front() {
            Some(Todo::Marker(topic)) => {
                let (id, payload) = context.oracle.publication(context.plan, topic, 0);
                self.send_publication(context, id, &payload, true, false);
            }
            Some(Todo::Audit(topic, position)) => {
                self.send_history(context, topic, false, position, true);
            }
            None => {}
        }
    }

    pub(super) fn subscribe(&mut self, context: &mut Context<'_>, topic: usize) {
        let taken = self.plain.values().any(|plain| plain.run.topic == topic);
        if taken || self.plain.len() >= SUBSCRIPTIONS_MAX {
            return;
        }
        let number = self.next_number();
        let partition = context.plan.partition(topic);
        let floor = context.oracle.floor(partition);
        let epoch = context.oracle.present_epoch(partition);
        let since = |offset| Start::Since(Position { epoch, offset });
        // A lost end skips millions of offsets.
        let beyond = if context.oracle.is_flipped { 1 << 40 } else { 1_000_000 };
        let random = &mut self.peer.random;
        let choice = random.below(10);
        let start = match choice {
            0..=2 => Start::Live,
            3 | 4 => since(random.between(0, floor)),
            5 | 6 => Start::Last([0, 1, 3, 50][random.below(4) as usize]),
            7 => Start::Snapshot,
            BEYOND => since(floor + beyond),
            _ => Start::Since(Position { epoch: UNKNOWN_EPOCH, offset: random.below(100) }),
        };
        let credit = random.chance(0.3).then(|| random.between(1, 5) as u32);
        let fail_on_gap = random.chance(0.1);
        let policy = self.draw_policy(context.plan);
        self.plain.insert(
            number,
            Plain {
                run: Run { client: self.peer.id, topic, ..Run::default() },
                stage: Stage::Absent,
                start,
                is_beyond: choice == BEYOND,
                fail_on_gap,
                credit,
                policy,
                has_cursor: false,
                gap_due: None,
                is_snapshot: false,
                retained_due: 0,
                has_begun: false,
                must_announce: false,
                is_ticketed: false,
                may_be_ahead: false,
                again: None,
            },
        );
        self.ask_plain(context, number);
    }

    /// Requests a subscription, for the first time or from its cursor.
    pub(super) fn ask_plain(&mut self, context: &mut Context<'_>, number: u32) {
        let Some(plain) = self.plain.get_mut(&number) else {
            return;
        };
        let partition = context.plan.partition(plain.run.topic);
        let start = if plain.has_cursor {
            Start::Since(Position { epoch: plain.run.epoch, offset: plain.run.cursor })
        } else {
            plain.start
        };
        plain.stage = Stage::Asked;
        plain.has_begun = false;
        plain.retained_due = match start {
            Start::Snapshot => {
                let (topic, instance) = (plain.run.topic, self.peer.instance);
                context.oracle.retained(context.plan, topic, instance)
            }
            _ => 0,
        };
        (plain.is_ticketed, plain.may_be_ahead, plain.again) = (false, false, None);
        if !plain.has_cursor {
            let floor = context.oracle.floor(partition);
            plain.run.wanted_newest = match start {
                Start::Last(count) => Some((count as usize, floor)),
                _ => None,
            };
        }
        let topic = &context.plan.topics[plain.run.topic];
        let item = SubscribeItem::new(
            number,
            SubscribeRequest {
                fail_on_gap: plain.fail_on_gap,
                replay_credit: plain.credit,
                policy: plain.policy.map(wire_policy),
                ..SubscribeRequest::new(topic, start)
            },
        );
        let (credit, policy) = (plain.credit, plain.policy);
        context.oracle.note(self.peer.id, || {
            format!("subscribes {number} to {topic} from {start:?}, credit {credit:?}, policy {policy:?}")
        });
        self.frame(&ClientFrame::Subscribe(Subscribe { items: (&[item]).into() }));
    }

    pub(super) fn subscribe_filter(&mut self, context: &mut Context<'_>) {
        let filter = self.peer.random.below(context.plan.filters.len() as u64) as usize;
        if self.wide.values().any(|wide| wide.filter == filter) {
            return;
        }
        let number = self.next_number();
        let random = &mut self.peer.random;
        let credit = random.chance(0.3).then(|| random.between(1, 5) as u32);
        let mut wide = Wide::new(self.peer.id, filter, credit, context.plan);
        wide.policy = self.draw_policy(context.plan);
        let random = &mut self.peer.random;
        if random.chance(0.5) {
            for partition in 0..context.plan.settings.partitions_count() {
                let floor = context.oracle.floor(partition);
                let epoch = context.oracle.epoch(partition, self.peer.instance);
                let position = match random.below(8) {
                    0..=3 => Position { epoch, offset: random.between(0, floor) },
                    4 => Position { epoch: epoch - 3, offset: random.below(100) },
                    _ => continue,
                };
                wide.start_at(partition, position);
            }
        }
        self.wide.insert(number, wide);
        self.ask_wide(context, number);
    }

    pub(super) fn ask_wide(&mut self, context: &mut Context<'_>, number: u32) {
        let Some(wide) = self.wide.get_mut(&number) else {
            return;
        };
        wide.stage = Stage::Asked;
        wide.forget_ticket();
        let filter = &context.plan.filters[wide.filter];
        let cursors = wide.cursors();
        let (credit, policy) = (wide.credit, wide.policy);
        context.oracle.note(self.peer.id, || {
            format!("subscribes {number} to filter {filter} from {cursors:?}, credit {credit:?}, policy {policy:?}")
        });
        let start = if cursors.is_empty() {
            Start::Live
        } else {
            Start::SinceEach(cursors.as_slice().into())
        };
        let item = SubscribeItem::new(
            number,
            SubscribeRequest {
                replay_credit: credit,
                policy: policy.map(wire_policy),
                ..SubscribeRequest::new(filter, start)
            },
        );
        self.frame(&ClientFrame::Subscribe(Subscribe { items: (&[item]).into() }));
    }

    pub(super) fn unsubscribe(&mut self, context: &mut Context<'_>) {
        let live = |stage: Stage| matches!(stage, Stage::Live | Stage::Replaying);
        let plain =
            self.plain.iter().filter(|(_, plain)| live(plain.stage)).map(|(number, _)| *number);
        let wide = self.wide.iter().filter(|(_, wide)| live(wide.stage)).map(|(number, _)| *number);
        let numbers: Vec<u32> = plain.chain(wide).collect();
        if numbers.is_empty() {
            return;
        }
        let number = numbers[self.peer.random.below(numbers.len() as u64) as usize];
        if let Some(plain) = self.plain.get_mut(&number) {
            plain.stage = Stage::Ending;
        }
        if let Some(wide) = self.wide.get_mut(&number) {
            wide.stage = Stage::Ending;
        }
        context.oracle.note(self.peer.id, || format!("unsubscribes {number}"));
        self.frame(&ClientFrame::Unsubscribe(Unsubscribe { subscriptions: (&[number]).into() }));
    }

    pub(super) fn ask_history(&mut self, context: &mut Context<'_>, topic: usize) {
        let floor = context.oracle.floor(context.plan.partition(topic));
        let random = &mut self.peer.random;
        let reverse = random.chance(0.5);
        let position = random.chance(0.6).then(|| random.between(1, floor.max(1)));
        self.send_history(context, topic, reverse, position, false);
    }

    pub(super) fn send_history(
        &mut self,
        context: &mut Context<'_>,
        topic: usize,
        reverse: bool,
        position: Option<u64>,
        audit: bool,
    ) {
        let request = self.next_number();
        let epoch = context.oracle.present_epoch(context.plan.partition(topic));
        let records_max = if audit { 0 } else { self.peer.random.below(6) as u32 };
        context.oracle.note(self.peer.id, || {
            format!("asks {request} for history of topic {topic}, reverse {reverse}, beyond {position:?}")
        });
        self.frame(&ClientFrame::History(History {
            request,
            topic: &context.plan.topics[topic],
            reverse,
            position: position.map(|offset| Position { epoch, offset }),
            records_max,
            bytes_max: 0,
        }));
        self.requests.insert(
            request,
            Waiting::History { topic, reverse, position, audit, asked_at: context.oracle.moment },
        );
    }

    pub(super) fn publish(&mut self, context: &mut Context<'_>, topic: usize) {
        let padding = draw_padding(&mut self.peer.random, context.plan);
        let (id, payload) = context.oracle.publication(context.plan, topic, padding);
        let acknowledge = self.peer.random.chance(0.8);
        let retain = self.peer.random.chance(context.plan.retain);
        context.oracle.publications[id].retain = retain;
        if acknowledge {
            self.draw_once(context, id);
        }
        self.send_publication(context, id, &payload, acknowledge, retain);
    }

    pub(super) fn send_publication(
        &mut self,
        context: &mut Context<'_>,
        id: usize,
        payload: &[u8],
        acknowledge: bool,
        retain: bool,
    ) {
        let request = if acknowledge { self.next_number() } else { 0 };
        let topic = &context.plan.topics[context.oracle.publications[id].topic];
        let tags = [Tag { key: "id", value: "x" }];
        let attributes = if self.peer.random.chance(0.1) {
            Attributes { content_type: Some("text/plain"), tags: tags.as_slice().into() }
        } else {
            Attributes::default()
        };
        let name = format!("{id:x}");
        let producer = format!("p{}", self.peer.id);
        let once = match context.oracle.publications[id].once {
            Once::No | Once::Repeats | Once::Qos2 => None,
            Once::Key => Some(wire::native::Once::Key(name.as_bytes())),
            Once::Sequence(_, sequence) => {
                Some(wire::native::Once::Producer(Producer { id: producer.as_bytes(), sequence }))
            }
        };
        let options = PublishOptions { retain, once, ..PublishOptions::default() };
        context.oracle.note(self.peer.id, || {
            format!("publishes {id} to {topic} as request {request}, {} bytes", payload.len())
        });
        self.frame(&ClientFrame::Publish(Publish { request, topic, options, attributes, payload }));
        if acknowledge {
            self.requests.insert(request, Waiting::Publication(id));
        }
    }
}
