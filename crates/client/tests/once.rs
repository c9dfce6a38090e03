//! Publications are in the log once, however often connections break: cut at every byte in both
//! directions.

mod support;

use client::Once;
use client::session::{Answer, CommandError, PublishOptions, Reason, Session, Settings};
use support::{Conversation, Node, exchange_all};
use wire::native::{ErrorCode, ErrorFrame, Reference, ServerFrame};

fn numbered() -> PublishOptions {
    PublishOptions { once: Some(Once::Numbered), ..PublishOptions::default() }
}

fn keyed(key: &str) -> PublishOptions {
    PublishOptions { once: Some(Once::Key(key.into())), ..PublishOptions::default() }
}

fn connect(session: &mut Session, node: &mut Node) -> Conversation {
    let mut conversation = Conversation::default();
    session.connected("fake", "/crore", 0);
    exchange_all(session, &mut conversation, node, 0);
    conversation
}

fn answers(session: &mut Session) -> Vec<(u32, Answer)> {
    std::iter::from_fn(|| session.take_answer()).collect()
}

fn payloads(node: &Node) -> Vec<&[u8]> {
    node.records.iter().map(|it| it.payload.as_slice()).collect()
}

/// Sends five publications. The connection breaks after `to_node` bytes to the node and `to_client`
/// bytes back. Returns the number of bytes in each direction without a break.
fn check_cut(to_node: usize, to_client: usize) -> (usize, usize) {
    let mut node = Node::default();
    let mut session = Session::new(Settings::default(), 3);
    let mut conversation = connect(&mut session, &mut node);
    let mut requests = Vec::new();
    for number in 0..5u8 {
        let options = match number {
            2 => keyed("two"),
            _ => numbered(),
        };
        requests.push(session.publish("t", &[number], &options, true).unwrap());
    }
    let output = session.output().to_vec();
    session.written(output.len());
    conversation.receive(&output[..to_node.min(output.len())], &mut node);
    let mut input = conversation.out.drain(..).collect::<Vec<_>>().concat();
    let input_bytes = input.len();
    input.truncate(to_client);
    session.receive(&mut input, 0).unwrap();
    let mut events = answers(&mut session);
    session.disconnected(Reason::Ended, Some(0));
    events.extend(answers(&mut session));
    connect(&mut session, &mut node);
    events.extend(answers(&mut session));
    let context = format!("{to_node} {to_client}");
    assert_eq!(payloads(&node), [[0], [1], [2], [3], [4]], "{context}");
    assert_eq!(session.inflight(), 0, "{context}");
    let answered: Vec<u32> = events.iter().map(|(request, _)| *request).collect();
    assert_eq!(answered, requests, "{context}");
    for ((_, answer), record) in events.iter().zip(&node.records) {
        match answer {
            Answer::Published(it) => assert_eq!(it.position.offset, record.offset, "{context}"),
            other => panic!("{context}: {other:?}"),
        }
    }
    (output.len(), input_bytes)
}

#[test]
fn a_cut_anywhere_repeats_nothing_and_loses_nothing() {
    let (to_node, to_client) = check_cut(usize::MAX, usize::MAX);
    for cut in 0..=to_node {
        check_cut(cut, 0);
        check_cut(cut, usize::MAX);
    }
    for cut in 0..=to_client {
        check_cut(usize::MAX, cut);
    }
}

/// Only publications with an identity are repeated.
#[test]
fn publications_without_an_identity_are_unknown_after_a_loss() {
    let mut node = Node::default();
    let mut session = Session::new(Settings::default(), 3);
    connect(&mut session, &mut node);
    let plain = PublishOptions::default();
    let first = session.publish("t", b"1", &plain, true).unwrap();
    let second = session.publish("t", b"2", &numbered(), true).unwrap();
    // There is no waiter, so the repetition would have no end.
    assert_eq!(session.publish("t", b"3", &numbered(), false), Ok(0));
    session.written(session.output().len());
    session.disconnected(Reason::Ended, Some(0));
    assert_eq!(answers(&mut session), [(first, Answer::Unknown)]);
    connect(&mut session, &mut node);
    assert_eq!(payloads(&node), [b"2"]);
    assert!(
        matches!(answers(&mut session)[..], [(request, Answer::Published(_))] if request == second)
    );
    assert_eq!(session.counters().repeated, 1);
    // The last of all connections.
    let third = session.publish("t", b"4", &numbered(), true).unwrap();
    session.disconnected(Reason::Ended, None);
    assert_eq!(answers(&mut session), [(third, Answer::Unknown)]);
    assert_eq!(session.inflight(), 0);
}

/// A lasting producer id continues with numbers above those of the previous run; lower ones are out
/// of order.
#[test]
fn a_producer_id_outlives_its_session() {
    let mut node = Node::default();
    let settings = |sequence| Settings {
        producer_id: Some(b"pump".to_vec()),
        producer_sequence: sequence,
        ..Settings::default()
    };
    for (first, seed) in [(1, 5), (3, 6)] {
        let mut session = Session::new(settings(first), seed);
        let mut conversation = connect(&mut session, &mut node);
        for payload in [b"a", b"b"] {
            session.publish("t", payload, &numbered(), true).unwrap();
        }
        exchange_all(&mut session, &mut conversation, &mut node, 0);
        assert_eq!(answers(&mut session).len(), 2);
    }
    let known: Vec<u64> =
        node.producers[&(b"pump".to_vec(), "t".to_owned())].keys().copied().collect();
    assert_eq!(known, [1, 2, 3, 4]);
    let mut session = Session::new(settings(2), 7);
    let mut conversation = connect(&mut session, &mut node);
    session.publish("t", b"again", &numbered(), true).unwrap();
    exchange_all(&mut session, &mut conversation, &mut node, 0);
    assert!(
        matches!(answers(&mut session)[..], [(_, Answer::Published(it))] if it.duplicate),
        "it was there"
    );
    assert_eq!(node.records.len(), 4);
}

#[test]
fn stored_publications_are_bounded() {
    let mut node = Node::default();
    let settings = Settings { kept_bytes_max: 100, ..Settings::default() };
    let mut session = Session::new(settings, 3);
    let mut conversation = connect(&mut session, &mut node);
    let payload = [0; 80];
    session.publish("t", &payload, &numbered(), true).unwrap();
    assert!(!session.has_room());
    let full = session.publish("t", &payload, &keyed("k"), true);
    assert_eq!(full, Err(CommandError::InflightFull));
    assert_eq!(session.inflight(), 1);
    exchange_all(&mut session, &mut conversation, &mut node, 0);
    assert!(session.has_room());
    session.publish("t", &payload, &keyed("k"), true).unwrap();
}

/// Passes the node's answers to the session.
fn hear(session: &mut Session, conversation: &mut Conversation, now_ms: u64) {
    let mut input = conversation.out.drain(..).collect::<Vec<_>>().concat();
    session.receive(&mut input, now_ms).unwrap();
}

fn refuse(conversation: &mut Conversation, request: u32) {
    let frame = ErrorFrame::new(Reference::Request(request), ErrorCode::LogUnavailable);
    assert!(frame.temporary);
    conversation.send(&ServerFrame::Error(frame));
}

/// Temporarily refused publications are repeated in their order, once all are refused, and before
/// new ones.
#[test]
fn temporarily_refused_publications_are_repeated_in_order() {
    let mut node = Node::default();
    let mut session = Session::new(Settings::default(), 3);
    let mut conversation = connect(&mut session, &mut node);
    let requests: Vec<u32> =
        (0..3).map(|number| session.publish("t", &[number], &numbered(), true).unwrap()).collect();
    let lost = session.output().len();
    session.written(lost); // the node has refused all of them
    refuse(&mut conversation, requests[0]);
    hear(&mut session, &mut conversation, 1_000);
    assert_eq!(answers(&mut session), []);
    let early = session.publish("t", &[3], &numbered(), true);
    assert_eq!(early, Err(CommandError::InflightFull));
    session.publish("t", &[9], &PublishOptions::default(), false).unwrap();
    // The others are still in flight.
    session.tick(5_000).unwrap();
    for request in &requests[1..] {
        refuse(&mut conversation, *request);
    }
    hear(&mut session, &mut conversation, 5_000);
    assert_eq!(session.next_deadline_ms(), Some(5_200));
    session.tick(5_199).unwrap();
    exchange_all(&mut session, &mut conversation, &mut node, 5_199);
    assert_eq!(payloads(&node), [[9]]);
    session.tick(5_200).unwrap();
    assert_eq!(session.counters().repeated, 3);
    exchange_all(&mut session, &mut conversation, &mut node, 5_200);
    assert_eq!(payloads(&node), [[9], [0], [1], [2]]);
    let answered: Vec<u32> = answers(&mut session).iter().map(|(it, _)| *it).collect();
    assert_eq!(answered, requests);
    session.publish("t", &[3], &numbered(), true).unwrap();
}

/// The number of attempts is bounded.
#[test]
fn repeated_refusals_end_the_attempts() {
    let mut node = Node::default();
    let mut session = Session::new(Settings::default(), 3);
    let mut conversation = connect(&mut session, &mut node);
    let request = session.publish("t", b"x", &numbered(), true).unwrap();
    let mut now_ms = 0;
    for _ in 0..10 {
        session.written(session.output().len());
        refuse(&mut conversation, request);
        hear(&mut session, &mut conversation, now_ms);
        assert_eq!(answers(&mut session), []);
        let due_ms = session.next_deadline_ms().unwrap();
        assert!((now_ms + 200..=now_ms + 5_000).contains(&due_ms));
        now_ms = due_ms;
        session.tick(now_ms).unwrap();
        assert!(!session.output().is_empty());
    }
    session.written(session.output().len());
    refuse(&mut conversation, request);
    hear(&mut session, &mut conversation, now_ms);
    let events = answers(&mut session);
    assert!(matches!(&events[..], [(it, Answer::Refused(_))] if *it == request));
    session.publish("t", b"y", &numbered(), true).unwrap();
}

/// Only the first of several refused publications is abandoned: its refusal may have caused the
/// others.
#[test]
fn only_the_first_refused_publication_is_abandoned() {
    let mut node = Node::default();
    let mut session = Session::new(Settings::default(), 3);
    let mut conversation = connect(&mut session, &mut node);
    let requests: Vec<u32> =
        (0..3).map(|number| session.publish("t", &[number], &numbered(), true).unwrap()).collect();
    let mut now_ms = 0;
    let mut round = |session: &mut Session, conversation: &mut Conversation, left: &[u32]| {
        session.written(session.output().len());
        for request in left {
            refuse(conversation, *request);
        }
        hear(session, conversation, now_ms);
        now_ms = session.next_deadline_ms().unwrap();
        session.tick(now_ms).unwrap();
        now_ms
    };
    for _ in 0..10 {
        round(&mut session, &mut conversation, &requests);
        assert_eq!(answers(&mut session), []);
    }
    for given_up in 0..2 {
        round(&mut session, &mut conversation, &requests[given_up..]);
        let events = answers(&mut session);
        assert!(matches!(&events[..], [(it, Answer::Refused(_))] if *it == requests[given_up]));
    }
    exchange_all(&mut session, &mut conversation, &mut node, 100_000);
    assert_eq!(payloads(&node), [[2]]);
    assert!(matches!(answers(&mut session)[..], [(it, Answer::Published(_))] if it == requests[2]));
}

/// An invalid identity is refused before it takes a number.
#[test]
fn identities_are_bounded() {
    let settings = Settings { producer_id: Some(vec![b'p'; 65]), ..Settings::default() };
    for (settings, once) in [
        (settings, Once::Numbered),
        (Settings::default(), Once::Key(Vec::new())),
        (Settings::default(), Once::Key(vec![0; 129])),
        (Settings::default(), Once::Producer { id: b"p".to_vec(), sequence: 0 }),
    ] {
        let mut session = Session::new(settings, 3);
        connect(&mut session, &mut Node::default());
        let options = PublishOptions { once: Some(once), ..PublishOptions::default() };
        let refused = session.publish("t", b"x", &options, true);
        assert_eq!(refused, Err(CommandError::Once));
        assert!(session.output().is_empty());
        assert_eq!(session.inflight(), 0);
    }
}

/// A fenced session publishes nothing more for this producer: a new connection would be the newest,
/// and fence its successor.
#[test]
fn a_fenced_session_publishes_nothing() {
    let mut node = Node::default();
    let mut session = Session::new(Settings::default(), 3);
    let mut conversation = connect(&mut session, &mut node);
    let first = session.publish("t", b"1", &numbered(), true).unwrap();
    let second = session.publish("t", b"2", &numbered(), true).unwrap();
    let free = session.publish("t", b"3", &keyed("k"), true).unwrap();
    let error = ErrorFrame::new(Reference::Request(first), ErrorCode::ProducerFenced);
    conversation.send(&ServerFrame::Error(error));
    let mut input = conversation.out.drain(..).collect::<Vec<_>>().concat();
    session.receive(&mut input, 0).unwrap();
    let events = answers(&mut session);
    assert!(matches!(events[..], [(request, Answer::Refused(_))] if request == first));
    let refused = session.publish("t", b"4", &numbered(), true);
    assert_eq!(refused, Err(CommandError::Fenced));
    session.disconnected(Reason::Ended, Some(0));
    connect(&mut session, &mut node);
    assert_eq!(payloads(&node), [b"3"]);
    let events = answers(&mut session);
    let code = u32::from(ErrorCode::ProducerFenced.number());
    assert!(matches!(&events[..], [
        (one, Answer::Refused(error)), (other, Answer::Published(_)),
    ] if *one == second && error.code == code && *other == free));
}
