//! Tokens: presented, renewed over the live connection, refused.

mod support;

use client::session::{Event, Reason, Session, Settings};
use support::{Conversation, NODE_TIME_MS, Node, exchange_all};
use wire::native::ServerFrame;

fn session() -> Session {
    let settings = Settings { token: Some("one".into()), ..Settings::default() };
    Session::new(settings, 1)
}

fn events(session: &mut Session) -> Vec<Event> {
    std::iter::from_fn(|| session.take_event())
        .filter(|event| {
            matches!(
                event,
                Event::TokenExpires { .. } | Event::TokenRenewed { .. } | Event::TokenRefused(_)
            )
        })
        .collect()
}

#[test]
fn an_expiring_token_is_reported_and_renewed() {
    let (mut session, mut conversation) = (session(), Conversation::default());
    let mut node = Node::default();
    session.connected("fake", "/crore", 1_000);
    exchange_all(&mut session, &mut conversation, &mut node, 1_000);
    conversation.send(&ServerFrame::TokenExpires(NODE_TIME_MS + 30_000));
    exchange_all(&mut session, &mut conversation, &mut node, 6_000);
    assert_eq!(events(&mut session), [Event::TokenExpires { in_ms: 25_000 }]);
    session.renew("two".into());
    exchange_all(&mut session, &mut conversation, &mut node, 6_000);
    let expires_in_ms = Some(55_000);
    assert_eq!(events(&mut session), [Event::TokenRenewed { expires_in_ms }]);
    assert_eq!(conversation.tokens, ["one", "two"]);
    assert_eq!(session.inflight(), 0);
}

#[test]
fn a_refused_renewal_is_an_event() {
    let (mut session, mut conversation) = (session(), Conversation::default());
    let mut node = Node::default();
    session.connected("fake", "/crore", 0);
    exchange_all(&mut session, &mut conversation, &mut node, 0);
    session.renew("bad".into());
    exchange_all(&mut session, &mut conversation, &mut node, 0);
    let events = events(&mut session);
    assert!(matches!(&events[..], [Event::TokenRefused(error)] if error.code == 200), "{events:?}");
    assert!(session.take_answer().is_none());
}

/// A token that arrives after HELLO is sent after WELCOME; every further connection begins with it.
#[test]
fn the_newest_token_is_presented() {
    let (mut session, mut conversation) = (session(), Conversation::default());
    let mut node = Node::default();
    session.connected("fake", "/crore", 0);
    let request = session.output().to_vec();
    session.written(request.len());
    conversation.receive(&request, &mut node);
    let mut answer = conversation.out.concat();
    conversation.out.clear();
    session.receive(&mut answer, 0).unwrap();
    session.renew("two".into());
    exchange_all(&mut session, &mut conversation, &mut node, 0);
    assert_eq!(conversation.tokens, ["one", "two"]);
    session.disconnected(Reason::Ended, Some(0));
    session.renew("three".into());
    let mut conversation = Conversation::default();
    session.connected("fake", "/crore", 0);
    exchange_all(&mut session, &mut conversation, &mut node, 0);
    assert_eq!(conversation.tokens, ["three"]);
}

/// A session has one renewal at a time: the newest token waits for the answer to the previous one,
/// whatever it is.
#[test]
fn renewals_are_sequential() {
    for first in ["two", "bad"] {
        let (mut session, mut conversation) = (session(), Conversation::default());
        let mut node = Node::default();
        session.connected("fake", "/crore", 0);
        exchange_all(&mut session, &mut conversation, &mut node, 0);
        conversation.tokens.clear();
        session.renew(first.into());
        let alone = session.output().to_vec();
        session.renew("three".into());
        session.renew("four".into());
        assert_eq!(session.output(), alone, "{first}");
        exchange_all(&mut session, &mut conversation, &mut node, 0);
        assert_eq!(conversation.tokens.last().unwrap(), "four", "{first}");
        assert_eq!(events(&mut session).len(), 2, "{first}");
    }
}
