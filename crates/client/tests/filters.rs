//! Filters with positions: a cursor for each partition that outlives connections, and the server's
//! frames about each.

mod support;

use client::session::{Event, Reason, Session, Settings};
use client::{
    GapCause, GapReason, PartitionPosition, Position, Start, SubscribeOptions, SubscriptionId,
};
use support::{Conversation, EPOCH, Node, exchange_all};
use wire::native::{
    Attributes, Beginning, CaughtUp, ErrorCode, ErrorFrame, Gap, NamedMessage, PartitionBeginning,
    PartitionEpoch, Reference, Retained, ServerFrame, SkipReason, Skipped, Subscribed,
    SubscribedTo,
};

fn at(offset: u64) -> Position {
    Position { epoch: EPOCH, offset }
}

/// A session, its conversation and the node: one connection.
struct World {
    session: Session,
    conversation: Conversation,
    node: Node,
}

impl World {
    fn connected() -> World {
        let mut world = World {
            session: Session::new(Settings::default(), 1),
            conversation: Conversation::default(),
            node: Node::default(),
        };
        world.session.connected("fake", "/crore", 0);
        world.events();
        world
    }

    fn reconnect(&mut self) {
        self.session.disconnected(Reason::Ended, Some(0));
        self.conversation = Conversation::default();
        self.session.connected("fake", "/crore", 0);
    }

    fn subscribe(&mut self, filter: &str) -> SubscriptionId {
        self.session.subscribe(filter, Start::Live, &SubscribeOptions::default()).unwrap()
    }

    fn publish(&mut self, topic: &str) -> u64 {
        let record = self.node.publish(topic, b"x");
        self.conversation.deliver(&record, &self.node);
        record.offset
    }

    /// The session's new events, one line for each.
    fn events(&mut self) -> Vec<String> {
        exchange_all(&mut self.session, &mut self.conversation, &mut self.node, 0);
        std::iter::from_fn(|| self.session.take_event()).map(|event| line(&event)).collect()
    }
}

fn line(event: &Event) -> String {
    let place = |partition: &Option<u32>| partition.map_or("?".to_owned(), |it| it.to_string());
    let offset = |at: &Option<Position>| {
        at.map_or("?".to_owned(), |it| format!("{}:{}", it.epoch, it.offset))
    };
    match event {
        Event::Message(message) => {
            let number = message.subscription.map_or(0, |id| id.0);
            let also: Vec<u32> = message.also.iter().map(|id| id.0).collect();
            let partition = place(&message.partition);
            format!("message {number} {also:?} {partition} {}", message.position.offset)
        }
        Event::Subscribed { subscription, replaying, .. } => {
            format!("subscribed {} {replaying}", subscription.0)
        }
        Event::CaughtUp { subscription, partition, position, complete, .. } => format!(
            "caught up {} {} {} {complete}",
            subscription.0,
            place(partition),
            position.offset
        ),
        Event::Gap { subscription, partition, from, to, cause, .. } => format!(
            "gap {} {} {} {} {cause:?}",
            subscription.0,
            place(partition),
            offset(from),
            offset(to)
        ),
        Event::Skipped { subscription, partition, from, through, reason, .. } => {
            format!("skipped {} {} {from} {through} {reason:?}", subscription.0, place(partition))
        }
        Event::Connected { .. } => "connected".to_owned(),
        Event::Disconnected { .. } => "disconnected".to_owned(),
        other => format!("{other:?}"),
    }
}

#[test]
fn missed_messages_are_recovered() {
    let mut world = World::connected();
    let id = world.subscribe("a/#");
    assert_eq!(world.events(), ["subscribed 1 false"]);
    world.publish("a/b");
    assert_eq!(world.events(), ["message 1 [] 0 3"]);
    world.node.publish("a/c", b"missed");
    world.node.publish("b", b"not ours");
    world.node.publish("a", b"missed");
    world.reconnect();
    assert_eq!(
        world.events(),
        [
            "disconnected",
            "connected",
            "subscribed 1 true",
            "message 1 [] 0 6",
            "message 1 [] 0 12",
            "caught up 1 0 12 true"
        ]
    );
    world.publish("a/b");
    assert_eq!(world.events(), ["message 1 [] 0 15"]);
    let report = world.session.report(id).unwrap();
    assert!(report.is_complete());
    assert_eq!((report.messages, report.position), (4, None));
    let cursors = world.session.cursors(id);
    assert_eq!(report.positions, cursors);
    assert_eq!(cursors, [PartitionPosition { partition: 0, position: at(15) }]);
    // Another run continues from there, and missing messages are reported.
    let mut other = World {
        session: Session::new(Settings::default(), 2),
        conversation: Conversation::default(),
        node: world.node,
    };
    other.node.publish("a/b", b"lost");
    other.node.publish("a/b", b"kept");
    other.node.evict(18);
    let options = SubscribeOptions { cursors, ..SubscribeOptions::default() };
    let id = other.session.subscribe("a/#", Start::Live, &options).unwrap();
    other.session.connected("fake", "/crore", 0);
    assert_eq!(
        other.events(),
        [
            "connected",
            "subscribed 1 true",
            "gap 1 0 7:15 7:18 Announced(Evicted)",
            "message 1 [] 0 21",
            "caught up 1 0 21 false"
        ]
    );
    let report = other.session.report(id).unwrap();
    assert!(!report.is_complete());
    assert_eq!((report.gaps, report.skips), (1, 0));
    let gap = report.newest_gaps[0];
    assert_eq!((gap.partition, gap.from, gap.to), (Some(0), Some(at(15)), Some(at(18))));
    assert_eq!(gap.cause, GapCause::Announced(GapReason::Evicted));
}

#[test]
fn a_server_without_positions_is_subscribed_live() {
    let mut world = World::connected();
    let id = world.subscribe("a/#");
    world.events();
    world.publish("a/b");
    world.events();
    world.node.serves_filters = false;
    world.reconnect();
    assert_eq!(
        world.events(),
        ["disconnected", "connected", "subscribed 1 false", "gap 1 ? ? ? Reconnected"]
    );
    world.publish("a/b");
    assert_eq!(world.events(), ["message 1 [] 0 6"]);
    assert_eq!(world.session.report(id).unwrap().gaps, 1);
    // The server cannot continue from a position of a partition that does not exist any more.
    let gone = SubscribeOptions {
        cursors: vec![PartitionPosition { partition: 9, position: at(1) }],
        ..SubscribeOptions::default()
    };
    world.node.serves_filters = true;
    world.session.subscribe("b/#", Start::Live, &gone).unwrap();
    assert_eq!(world.events(), ["subscribed 2 false", "gap 2 ? ? ? Reconnected"]);
    // A server that supports positions again receives the cursors known since.
    world.node.serves_filters = true;
    world.node.publish("a/b", b"missed");
    world.reconnect();
    assert_eq!(world.events()[3..5], ["message 1 [] 0 9", "caught up 1 0 9 true"]);
}

fn begin(world: &mut World, id: SubscriptionId, partitions: &[(u32, u64, bool)]) {
    let partitions: Vec<PartitionBeginning> = partitions
        .iter()
        .map(|(partition, through, replaying)| PartitionBeginning {
            partition: *partition,
            beginning: Beginning {
                through: at(*through),
                replaying: *replaying,
                continued: *replaying,
            },
        })
        .collect();
    let to = SubscribedTo::Filter(partitions.as_slice().into());
    let frame = Subscribed { subscription: id.0, to };
    world.conversation.send(&ServerFrame::Subscribed(frame));
}

fn message(world: &mut World, partition: u32, offset: u64, to: Option<SubscriptionId>) {
    let frame = NamedMessage {
        topic: "a/b",
        partition,
        position: at(offset),
        prev: offset - 1,
        retained: Retained::No,
        subscription: to.map(|id| id.0),
        lineage: None,
        attributes: Attributes::default(),
        payload: b"x",
    };
    world.conversation.send(&ServerFrame::NamedMessage(frame));
}

/// A message without an address belongs to the granted filters. A filter that was ended, or is not
/// granted yet, receives it by replay.
/// S12: the event `Subscribed` tells the grant, also of a live filter.
#[test]
fn a_filter_without_a_grant_ignores_live_messages() {
    let mut world = World::connected();
    let (first, second) = (world.subscribe("a/#"), world.subscribe("+/b"));
    // The node does not receive the output: the test writes the answers.
    world.session.written(world.session.output().len());
    let cursors = |world: &World| {
        let offset = |id| world.session.cursors(id)[0].position.offset;
        (offset(first), offset(second))
    };
    begin(&mut world, first, &[(0, 10, false)]);
    begin(&mut world, second, &[(0, 10, false)]);
    message(&mut world, 0, 11, None);
    let reference = Reference::Subscription(first.0);
    let error = ErrorFrame::new(reference, ErrorCode::LogUnavailable);
    world.conversation.send(&ServerFrame::Error(error));
    message(&mut world, 0, 12, None);
    assert_eq!(
        world.events(),
        ["subscribed 1 false", "subscribed 2 false", "message 1 [2] 0 11", "message 2 [] 0 12",]
    );
    assert_eq!(cursors(&world), (11, 12));
    // The second filter is not granted yet, as after a reconnect.
    let mut world = World::connected();
    let resumed = |world: &mut World, filter: &str| {
        let options = SubscribeOptions {
            cursors: vec![PartitionPosition { partition: 0, position: at(12) }],
            ..SubscribeOptions::default()
        };
        world.session.subscribe(filter, Start::Live, &options)
    };
    resumed(&mut world, "a/#").unwrap();
    resumed(&mut world, "+/b").unwrap();
    world.session.written(world.session.output().len());
    begin(&mut world, first, &[(0, 12, false)]);
    message(&mut world, 0, 13, None);
    begin(&mut world, second, &[(0, 12, true)]);
    message(&mut world, 0, 13, Some(second));
    assert_eq!(
        world.events(),
        ["subscribed 1 false", "message 1 [] 0 13", "subscribed 2 true", "message 2 [] 0 13",]
    );
    assert_eq!(cursors(&world), (13, 13));
}

/// Partition, epoch and offset of a filter's cursors.
fn positions(world: &World, id: SubscriptionId) -> Vec<(u32, u64, u64)> {
    let cursors = world.session.cursors(id).into_iter();
    cursors.map(|it| (it.partition, it.position.epoch, it.position.offset)).collect()
}

/// Two filters of one connection; one of them lags in partition 1, whose messages then have
/// addresses.
#[test]
fn partitions_and_addresses_are_distinguished() {
    let mut world = World::connected();
    let (first, second) = (world.subscribe("a/#"), world.subscribe("+/b"));
    // The node does not receive the output: the test writes the answers.
    world.session.written(world.session.output().len());
    begin(&mut world, first, &[(0, 10, false), (1, 10, false)]);
    begin(&mut world, second, &[(0, 10, false), (1, 10, false)]);
    assert_eq!(world.events(), ["subscribed 1 false", "subscribed 2 false"]);
    message(&mut world, 1, 11, None);
    message(&mut world, 0, 10, None);
    message(&mut world, 0, 11, None);
    // The first filter lags in partition 1; the second is ahead of it there, and both are live in
    // partition 0.
    message(&mut world, 1, 12, Some(second));
    message(&mut world, 1, 14, Some(second));
    message(&mut world, 0, 12, None);
    message(&mut world, 1, 12, Some(first));
    message(&mut world, 1, 14, Some(first));
    let caught_up =
        CaughtUp { subscription: first.0, partition: Some(1), through: 14, lineage: None };
    world.conversation.send(&ServerFrame::CaughtUp(caught_up));
    message(&mut world, 1, 15, None);
    assert_eq!(
        world.events(),
        [
            "message 1 [2] 1 11",
            "message 1 [2] 0 11",
            "message 2 [] 1 12",
            "message 2 [] 1 14",
            "message 1 [2] 0 12",
            "message 1 [] 1 12",
            "message 1 [] 1 14",
            "caught up 1 1 14 true",
            "message 1 [2] 1 15",
        ]
    );
    // Marks of one partition do not affect the other.
    let skipped = Skipped {
        subscription: second.0,
        partition: Some(PartitionEpoch { partition: 1, epoch: EPOCH }),
        from: 15,
        through: 40,
        reason: SkipReason::Dropped,
        lineage: None,
    };
    world.conversation.send(&ServerFrame::Skipped(skipped));
    let gap = Gap {
        subscription: first.0,
        partition: Some(1),
        epoch: EPOCH + 1,
        from: 0,
        to: 2,
        reason: GapReason::UnknownEpoch,
    };
    world.conversation.send(&ServerFrame::Gap(gap));
    message(&mut world, 0, 13, None);
    assert_eq!(
        world.events(),
        [
            "skipped 2 1 15 40 Dropped",
            "gap 1 1 7:15 8:2 Announced(UnknownEpoch)",
            "message 1 [2] 0 13",
        ]
    );
    assert_eq!(positions(&world, first), [(0, 7, 13), (1, 8, 2)]);
    assert_eq!(positions(&world, second), [(0, 7, 13), (1, 7, 40)]);
    let report = world.session.report(second).unwrap();
    assert_eq!((report.gaps, report.skips, report.is_complete()), (0, 1, false));
}

/// A report has the newest gaps and counts all.
#[test]
fn reports_are_bounded() {
    let mut world = World::connected();
    let id = world.subscribe("t");
    world.events();
    for offset in 1..=20 {
        let gap = Gap {
            subscription: id.0,
            partition: None,
            epoch: EPOCH,
            from: offset - 1,
            to: offset,
            reason: GapReason::Evicted,
        };
        world.conversation.send(&ServerFrame::Gap(gap));
    }
    world.events();
    let report = world.session.report(id).unwrap();
    assert_eq!(report.gaps, 20);
    assert_eq!(report.newest_gaps.len(), client::session::GAPS_KEPT_MAX);
    assert_eq!(report.newest_gaps.back().unwrap().to, Some(at(20)));
    assert_eq!(report.position, Some(at(20)));
    world.session.unsubscribe(id);
    assert!(world.session.report(id).is_none());
}

/// The requested options are sent.
#[test]
fn options_are_sent() {
    use client::Policy;
    let mut world = World::connected();
    let options =
        SubscribeOptions { fail_on_gap: true, policy: Some(Policy::Conflate), cursors: Vec::new() };
    world.session.subscribe("t", Start::Live, &options).unwrap();
    world.events();
    world.reconnect();
    world.events();
    assert_eq!(world.conversation.policies, [Some(Policy::Conflate)]);
}
