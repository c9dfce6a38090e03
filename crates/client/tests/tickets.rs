//! Resume tickets: asked for, presented, refused, and what has changed in the meantime.

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
    /// Connected to a node that issues tickets.
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

    /// The time has come at which the session wants to be called.
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

    /// Subscriptions that were granted, and the offsets of messages for each, in the order of
    /// coming.
    fn told(&mut self) -> (Vec<u32>, Vec<(u32, u64)>) {
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
fn one_frame_brings_everything_back() {
    let mut world = World::new(Settings::default());
    world.subscribe("t");
    world.subscribe("a/#");
    assert_eq!(world.session.next_deadline_ms(), Some(1_000));
    world.wait();
    assert_eq!(world.node.tickets.len(), 1);
    // Newer than the ticket, and then missed.
    world.publish("t");
    world.publish("a/b");
    world.told();
    world.node.publish("t", b"missed");
    world.node.publish("a/c", b"missed");
    world.reconnect(2_000);
    assert_eq!(world.conversation.policies.len(), 0, "nothing was asked for by SUBSCRIBE");
    assert_eq!(world.conversation.cursors, Some(2));
    let (granted, mut messages) = world.told();
    messages.sort_unstable();
    assert_eq!((granted.len(), messages), (2, vec![(1, 9), (2, 12)]));
    assert_eq!(world.session.counters().resumptions, 1);
    assert_eq!(world.session.counters().gaps, 0);
    // The ticket is good for another return, and nothing new is asked for before half of its life
    // is over.
    let deadline_ms = world.session.next_deadline_ms().unwrap();
    assert!(deadline_ms > 10_000, "{deadline_ms}");
    assert_eq!(world.node.tickets.len(), 1);
}

#[test]
fn what_is_new_is_asked_for_beside_it() {
    let mut world = World::new(Settings::default());
    world.subscribe("t");
    world.wait();
    world.subscribe("u");
    world.reconnect(1_500);
    assert_eq!(world.conversation.cursors, Some(1));
    assert_eq!(world.conversation.policies.len(), 1);
    let (mut granted, _) = world.told();
    granted.sort_unstable();
    assert_eq!(granted, [1, 2]);
    // And the next ticket covers both.
    world.wait();
    assert_eq!(world.node.tickets.len(), 2);
    world.reconnect(3_000);
    assert_eq!(world.conversation.policies.len(), 0);
}

#[test]
fn a_ticket_with_what_was_given_up_is_not_used() {
    let mut world = World::new(Settings::default());
    let id = world.subscribe("t");
    world.subscribe("u");
    world.wait();
    world.session.unsubscribe(id);
    world.exchange();
    world.reconnect(1_500);
    assert_eq!(world.conversation.cursors, None);
    assert_eq!(world.told().0, [2]);
}

#[test]
fn a_refused_ticket_is_no_loss() {
    let mut world = World::new(Settings::default());
    world.subscribe("t");
    world.wait();
    world.told();
    world.node.tickets.clear();
    world.node.publish("t", b"missed");
    world.reconnect(1_500);
    assert_eq!(world.conversation.cursors, Some(1), "it was presented");
    assert_eq!(world.told(), (vec![1], vec![(1, 3)]));
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
    assert_eq!(world.told().0, [1]);
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
    world.told();
    world.node.publish("t", b"missed");
    world.reconnect(1_500);
    assert_eq!(world.conversation.cursors, Some(1));
    assert_eq!(world.told(), (vec![1], vec![(1, 3)]));
}

/// A ticket may be beyond what its client knows to be settled, where the topic has nothing: nothing
/// is missing.
#[test]
fn a_ticket_may_be_ahead() {
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
    world.told();
    world.reconnect(1_500);
    let through = world.node.head;
    assert!(before.offset < through, "the ticket is ahead");
    world.conversation.send(&ServerFrame::CaughtUp(CaughtUp {
        subscription: id.0,
        partition: None,
        through,
    }));
    world.publish("t");
    let newest = world.node.head;
    assert_eq!(world.told(), (vec![1], vec![(1, newest)]));
}

/// Where none are issued, or none are wanted, nobody asks.
#[test]
fn nobody_asks_in_vain() {
    let mut world = World::new(Settings { tickets: false, ..Settings::default() });
    world.subscribe("t");
    world.wait();
    assert!(world.node.tickets.is_empty());
    let mut world = World::new(Settings::default());
    world.node.ticket_lifetime_s = None;
    // The node has changed its mind, and refuses: once is enough.
    world.subscribe("t");
    world.wait();
    let ping_at_ms = world.session.next_deadline_ms().unwrap();
    assert!(ping_at_ms > 10_000, "{ping_at_ms}");
    assert_eq!(world.told().0, [1]);
}

/// What was granted while the ticket was made is not in it: WELCOME's number says so.
#[test]
fn a_ticket_that_lacks_a_subscription_is_not_believed() {
    let mut world = World::new(Settings::default());
    world.node.ticket_lifetime_s = None;
    world.reconnect(0);
    world.subscribe("t");
    let ticket = world.conversation.ticket(&mut world.node);
    world.subscribe("u");
    world.conversation.go_away_with(10, &[], Some(&ticket));
    world.exchange();
    world.told();
    world.node.publish("u", b"missed");
    world.reconnect(1_500);
    assert!(world.conversation.cursors.is_some(), "it was presented");
    let (granted, messages) = world.told();
    assert!(granted.contains(&1) && granted.contains(&2), "{granted:?}");
    assert_eq!(messages, [(2, 3)]);
}

/// With a cursor left out, a gap before the ticket's own would take the session's newer one back.
#[test]
fn no_ticket_with_more_cursors_than_fit() {
    let mut world = World::new(Settings::default());
    for number in 0..1_501 {
        world.subscribe(&format!("t/{number}"));
    }
    world.wait();
    assert_eq!(world.node.tickets.len(), 1);
    world.told();
    world.reconnect(2_000);
    assert_eq!(world.conversation.cursors, None);
    assert_eq!(world.told().0.len(), 1_501);
}

#[test]
fn a_token_is_not_printed() {
    let settings = Settings { token: Some("secret".into()), ..Settings::default() };
    assert!(!format!("{settings:?}").contains("secret"));
}
