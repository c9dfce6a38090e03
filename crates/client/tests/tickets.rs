//! Resume tickets: requested, presented, refused, and outdated.

mod support;

use client::session::{Event, Reason, Session, Settings};
use client::{Start, SubscribeOptions, SubscriptionId};
use support::{Conversation, Node, exchange_all};
use wire::native::{CaughtUp, ServerFrame};

struct World {
    session: Session,
    conversation: Conversation,
    node: Node,
    now_ms: u64,
}

impl World {
    /// Connects to a node that issues tickets.
    fn new(settings: Settings) -> World {
        let mut world = World {
            session: Session::new(settings, 1),
            conversation: Conversation::default(),
            node: Node { ticket_lifetime_s: Some(3_600), ..Node::default() },
            now_ms: 0,
        };
        world.session.connected("fake", "/crore", 0);
        world.exchange();
        world
    }

    fn exchange(&mut self) {
        exchange_all(&mut self.session, &mut self.conversation, &mut self.node, self.now_ms);
    }

    fn subscribe(&mut self, filter: &str) -> SubscriptionId {
        let options = SubscribeOptions::default();
        let id = self.session.subscribe(filter, Start::Live, &options);
        self.exchange();
        id.unwrap()
    }

    /// Advances the time to the session's deadline.
    fn wait(&mut self) {
        self.now_ms += 1_000;
        self.session.tick(self.now_ms).unwrap();
        self.exchange();
    }

    fn reconnect(&mut self, now_ms: u64) {
        self.session.disconnected(Reason::Ended, Some(0));
        while self.session.take_event().is_some() {}
        self.conversation = Conversation::default();
        self.now_ms = now_ms;
        self.session.connected("fake", "/crore", now_ms);
        self.exchange();
    }

    fn publish(&mut self, topic: &str) {
        let record = self.node.publish(topic, b"x");
        self.conversation.deliver(&record, &self.node);
        self.exchange();
    }

    /// The granted subscriptions, and the offsets of messages for each, in the order of arrival.
    fn events(&mut self) -> (Vec<u32>, Vec<(u32, u64)>) {
        let (mut granted, mut messages) = (Vec::new(), Vec::new());
        while let Some(event) = self.session.take_event() {
            match event {
                Event::Subscribed { subscription, .. } => granted.push(subscription.0),
                Event::Message(message) => {
                    let number = message.subscription.unwrap().0;
                    messages.push((number, message.position.offset));
                }
                Event::Connected { .. } | Event::CaughtUp { .. } | Event::GoAway { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        (granted, messages)
    }
}

#[test]
fn one_frame_restores_all_subscriptions() {
    let mut world = World::new(Settings::default());
    world.subscribe("t");
    world.subscribe("a/#");
    assert_eq!(world.session.next_deadline_ms(), Some(1_000));
    world.wait();
    assert_eq!(world.node.tickets.len(), 1);
    // Newer than the ticket, and then missed.
    world.publish("t");
    world.publish("a/b");
    world.events();
    world.node.publish("t", b"missed");
    world.node.publish("a/c", b"missed");
    world.reconnect(2_000);
    assert_eq!(world.conversation.policies.len(), 0, "nothing was asked for by SUBSCRIBE");
    assert_eq!(world.conversation.cursors, Some(2));
    let (granted, mut messages) = world.events();
    messages.sort_unstable();
    assert_eq!((granted.len(), messages), (2, vec![(1, 9), (2, 12)]));
    assert_eq!(world.session.counters().resumptions, 1);
    assert_eq!(world.session.counters().gaps, 0);
    // The ticket is valid for another reconnect, and no new one is requested before half of its
    // lifetime.
    let deadline_ms = world.session.next_deadline_ms().unwrap();
    assert!(deadline_ms > 10_000, "{deadline_ms}");
    assert_eq!(world.node.tickets.len(), 1);
}

#[test]
fn new_subscriptions_are_requested_beside_the_ticket() {
    let mut world = World::new(Settings::default());
    world.subscribe("t");
    world.wait();
    world.subscribe("u");
    world.reconnect(1_500);
    assert_eq!(world.conversation.cursors, Some(1));
    assert_eq!(world.conversation.policies.len(), 1);
    let (mut granted, _) = world.events();
    granted.sort_unstable();
    assert_eq!(granted, [1, 2]);
    // The next ticket covers both.
    world.wait();
    assert_eq!(world.node.tickets.len(), 2);
    world.reconnect(3_000);
    assert_eq!(world.conversation.policies.len(), 0);
}

#[test]
fn a_ticket_with_an_ended_subscription_is_not_used() {
    let mut world = World::new(Settings::default());
    let id = world.subscribe("t");
    world.subscribe("u");
    world.wait();
    world.session.unsubscribe(id);
    world.exchange();
    world.reconnect(1_500);
    assert_eq!(world.conversation.cursors, None);
    assert_eq!(world.events().0, [2]);
}

#[test]
fn a_refused_ticket_loses_nothing() {
    let mut world = World::new(Settings::default());
    world.subscribe("t");
    world.wait();
    world.events();
    world.node.tickets.clear();
    world.node.publish("t", b"missed");
    world.reconnect(1_500);
    assert_eq!(world.conversation.cursors, Some(1), "it was presented");
    assert_eq!(world.events(), (vec![1], vec![(1, 3)]));
    assert_eq!(world.session.counters().resumptions, 0);
    // It is not presented again.
    world.reconnect(1_600);
    assert_eq!(world.conversation.cursors, None);
}

#[test]
fn an_expired_ticket_is_not_presented() {
    let mut world = World::new(Settings::default());
    world.subscribe("t");
    world.wait();
    world.reconnect(3_601_000);
    assert_eq!(world.conversation.cursors, None);
    assert_eq!(world.events().0, [1]);
}

#[test]
fn the_ticket_of_go_away_is_used() {
    let mut world = World::new(Settings::default());
    world.node.ticket_lifetime_s = None;
    world.reconnect(0);
    world.subscribe("t");
    let ticket = world.conversation.ticket(&mut world.node);
    world.conversation.go_away_with(10, &[], Some(&ticket));
    world.exchange();
    world.events();
    world.node.publish("t", b"missed");
    world.reconnect(1_500);
    assert_eq!(world.conversation.cursors, Some(1));
    assert_eq!(world.events(), (vec![1], vec![(1, 3)]));
}

/// A ticket may be ahead of its client's cursor if the topic has no messages between: nothing is
/// missing.
#[test]
fn a_ticket_may_be_ahead_of_its_client() {
    let mut world = World::new(Settings::default());
    world.node.ticket_lifetime_s = None;
    world.reconnect(0);
    let id = world.subscribe("t");
    let before = world.session.cursor(id).unwrap();
    world.node.publish("other", b"x");
    world.node.publish("other", b"x");
    let ticket = world.conversation.ticket(&mut world.node);
    world.conversation.go_away_with(10, &[], Some(&ticket));
    world.exchange();
    world.events();
    world.reconnect(1_500);
    let through = world.node.head;
    assert!(before.offset < through, "the ticket is ahead");
    world.conversation.send(&ServerFrame::CaughtUp(CaughtUp {
        subscription: id.0,
        partition: None,
        through,
        lineage: None,
    }));
    world.publish("t");
    let newest = world.node.head;
    assert_eq!(world.events(), (vec![1], vec![(1, newest)]));
}

/// Without tickets on the server, or without the setting, the session requests none.
#[test]
fn tickets_are_requested_only_if_issued() {
    let mut world = World::new(Settings { tickets: false, ..Settings::default() });
    world.subscribe("t");
    world.wait();
    assert!(world.node.tickets.is_empty());
    let mut world = World::new(Settings::default());
    world.node.ticket_lifetime_s = None;
    // The node's setting has changed, and it refuses: one request is enough.
    world.subscribe("t");
    world.wait();
    let ping_at_ms = world.session.next_deadline_ms().unwrap();
    assert!(ping_at_ms > 10_000, "{ping_at_ms}");
    assert_eq!(world.events().0, [1]);
}

/// A subscription granted while the ticket was issued is not in it: WELCOME's number shows this.
#[test]
fn an_incomplete_ticket_is_detected() {
    let mut world = World::new(Settings::default());
    world.node.ticket_lifetime_s = None;
    world.reconnect(0);
    world.subscribe("t");
    let ticket = world.conversation.ticket(&mut world.node);
    world.subscribe("u");
    world.conversation.go_away_with(10, &[], Some(&ticket));
    world.exchange();
    world.events();
    world.node.publish("u", b"missed");
    world.reconnect(1_500);
    assert!(world.conversation.cursors.is_some(), "it was presented");
    let (granted, messages) = world.events();
    assert!(granted.contains(&1) && granted.contains(&2), "{granted:?}");
    assert_eq!(messages, [(2, 3)]);
}

/// R10: without one of the cursors, a gap before the ticket's own would move the session's newer
/// one back.
#[test]
fn no_ticket_is_presented_if_a_cursor_does_not_fit() {
    let mut world = World::new(Settings::default());
    for number in 0..1_501 {
        world.subscribe(&format!("t/{number}"));
    }
    world.wait();
    assert_eq!(world.node.tickets.len(), 1);
    world.events();
    world.reconnect(2_000);
    assert_eq!(world.conversation.cursors, None);
    assert_eq!(world.events().0.len(), 1_501);
}

/// T11: neither tokens nor tickets are printed, also as bytes of a buffer.
#[test]
fn a_token_is_not_printed() {
    let settings = Settings { token: Some("secret".into()), ..Settings::default() };
    assert!(!format!("{settings:?}").contains("secret"));
    let mut world = World::new(settings);
    world.subscribe("t");
    world.wait();
    world.reconnect(1_500);
    assert!(world.conversation.cursors.is_some(), "a ticket was presented");
    let printed = format!("{:?}", world.session);
    for secret in [&b"secret"[..], b"ticket"] {
        let bytes = format!("{secret:?}");
        assert!(!printed.contains(bytes.trim_matches(['[', ']'])), "{printed}");
    }
    assert!(!printed.contains("secret"));
}
