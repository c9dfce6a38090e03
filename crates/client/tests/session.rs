//! The session with a small node, without sockets: cut at every byte, split into single bytes, and
//! further cases.

mod support;

use client::session::{Answer, CommandError, Event, PublishOptions, Reason, Session, Settings};
use client::{GapCause, GapReason, Position, Start, SubscribeOptions};
use support::{Conversation, EPOCH, Node};

const ZERO: Position = Position { epoch: EPOCH, offset: 0 };

/// Passes bytes until both sides are idle; at most `budget` bytes to the client. Returns the number
/// of bytes.
fn exchange(
    session: &mut Session,
    conversation: &mut Conversation,
    node: &mut Node,
    budget: usize,
    now_ms: u64,
) -> Result<usize, Reason> {
    let mut passed = 0;
    loop {
        let output = session.output().to_vec();
        session.written(output.len());
        conversation.receive(&output, node);
        let mut input = conversation.out.drain(..).collect::<Vec<_>>().concat();
        if input.is_empty() {
            return Ok(passed);
        }
        input.truncate(budget - passed);
        passed += input.len();
        session.receive(&mut input, now_ms)?;
        if passed == budget {
            return Ok(passed);
        }
    }
}

fn events(session: &mut Session) -> Vec<Event> {
    std::iter::from_fn(|| session.take_event()).collect()
}

fn connected() -> (Session, Conversation, Node) {
    let mut session = Session::new(Settings::default(), 1);
    let (mut conversation, mut node) = (Conversation::default(), Node::default());
    session.connected("fake", "/crore", 0);
    exchange(&mut session, &mut conversation, &mut node, usize::MAX, 0).unwrap();
    assert!(matches!(events(&mut session)[..], [Event::Connected { connection: 1, .. }]));
    (session, conversation, node)
}

/// A subscriber's view of one topic: offsets of messages, and gaps.
#[derive(Default, Debug)]
struct Seen {
    offsets: Vec<u64>,
    gaps: Vec<(u64, u64)>,
}

impl Seen {
    fn take(&mut self, session: &mut Session) {
        for event in events(session) {
            match event {
                Event::Message(message) => self.offsets.push(message.position.offset),
                Event::Gap { from: Some(from), to: Some(to), cause, .. } => {
                    assert_eq!(cause, GapCause::Announced(GapReason::Evicted));
                    self.gaps.push((from.offset, to.offset));
                }
                _ => {}
            }
        }
    }
}

/// The connection ends after `cut` bytes of the server's stream, and again after `cut_again` of the
/// second one. In between, messages are published and perhaps evicted. In the end everything was
/// received once, in order, or is in a gap.
fn check_cut(cut: usize, cut_again: usize, evict: u64) -> usize {
    let mut node = Node::default();
    let mut session = Session::new(Settings::default(), 7);
    let mut seen = Seen::default();
    session.subscribe("t", Start::Since(ZERO), &SubscribeOptions::default()).unwrap();
    for number in 0..3u8 {
        node.publish("t", &[number]);
        node.publish("other", b"");
    }
    let mut total = 0;
    for (round, budget) in [cut, cut_again, usize::MAX].into_iter().enumerate() {
        let mut conversation = Conversation::default();
        session.connected("fake", "/crore", 0);
        let passed = exchange(&mut session, &mut conversation, &mut node, budget, 0).unwrap();
        total = total.max(passed);
        if passed < budget {
            // The connection stays for a live message, which is cut too.
            let record = node.publish("t", b"live");
            conversation.deliver(&record, &node);
            let rest = budget - passed;
            exchange(&mut session, &mut conversation, &mut node, rest, 0).unwrap();
        }
        seen.take(&mut session);
        if round < 2 {
            session.disconnected(Reason::Ended, Some(0));
            node.publish("t", b"while away");
            node.evict(evict * (round as u64 + 1));
        }
    }
    seen.take(&mut session);
    assert!(seen.offsets.is_sorted_by(|left, right| left < right), "{cut} {cut_again}: {seen:?}");
    assert!(evict > 0 || seen.gaps.is_empty(), "{cut} {cut_again}: {seen:?}");
    // Every offset with a message of the topic was either received or is inside a gap.
    let mut offset = 0;
    for record in 1..=node.head / 3 {
        let at = record * 3;
        let is_other = at <= 18 && at % 6 == 0;
        if is_other {
            continue;
        }
        offset += 1;
        let received = seen.offsets.contains(&at);
        let in_gap = seen.gaps.iter().any(|(from, to)| *from < at && at <= *to);
        assert!(received != in_gap, "{cut} {cut_again} {evict}: offset {at} {seen:?}");
    }
    assert!(offset >= 6);
    total
}

#[test]
fn a_cut_at_every_byte_loses_and_repeats_nothing() {
    let total = check_cut(usize::MAX, usize::MAX, 0);
    for cut in 0..total + 20 {
        check_cut(cut, usize::MAX, 0);
    }
    for cut in (0..total + 20).step_by(7) {
        for cut_again in (0..total + 20).step_by(11) {
            check_cut(cut, cut_again, 0);
        }
    }
}

#[test]
fn a_cut_at_every_byte_reports_evicted_messages() {
    let total = check_cut(usize::MAX, usize::MAX, 9);
    for cut in 0..total + 20 {
        check_cut(cut, usize::MAX, 9);
        check_cut(cut, cut / 2, 12);
    }
}

#[test]
fn chunking_changes_nothing() {
    let run = |chunk_bytes: usize| {
        let (mut session, mut conversation, mut node) = connected();
        for number in 0..20u8 {
            node.publish("t", &vec![number; usize::from(number) * 30]);
        }
        session.subscribe("t", Start::Since(ZERO), &SubscribeOptions::default()).unwrap();
        conversation.receive(session.output(), &mut node);
        let mut input = conversation.out.drain(..).collect::<Vec<_>>().concat();
        for chunk in input.chunks_mut(chunk_bytes) {
            session.receive(chunk, 0).unwrap();
        }
        events(&mut session)
    };
    let whole = run(usize::MAX);
    assert_eq!(whole.iter().filter(|event| matches!(event, Event::Message(_))).count(), 20);
    for chunk_bytes in [1, 2, 3, 7, 64, 1000] {
        assert_eq!(run(chunk_bytes), whole, "{chunk_bytes}");
    }
}

#[test]
fn publishes_are_acknowledged_refused_or_unknown() {
    let (mut session, mut conversation, mut node) = connected();
    let options = PublishOptions::default();
    let first = session.publish("a", b"1", &options, true).unwrap();
    let second = session.publish("forbidden", b"2", &options, true).unwrap();
    assert_eq!(session.publish("a", b"3", &options, false), Ok(0));
    exchange(&mut session, &mut conversation, &mut node, usize::MAX, 0).unwrap();
    let Some((request, Answer::Published(published))) = session.take_answer() else {
        panic!("no acknowledgement")
    };
    assert_eq!((request, published.position.offset), (first, 3));
    let Some((request, Answer::Refused(error))) = session.take_answer() else {
        panic!("no refusal")
    };
    assert_eq!((request, error.code, error.temporary), (second, 202, false));
    assert_eq!(session.take_answer(), None);
    // A node that does not answer, and then the end.
    node.is_mute = true;
    let third = session.publish("a", b"4", &options, true).unwrap();
    exchange(&mut session, &mut conversation, &mut node, usize::MAX, 0).unwrap();
    session.disconnected(Reason::Ended, Some(1));
    assert_eq!(session.take_answer(), Some((third, Answer::Unknown)));
    let before = node.records.len();
    let mut conversation = Conversation::default();
    session.connected("fake", "/crore", 0);
    exchange(&mut session, &mut conversation, &mut node, usize::MAX, 0).unwrap();
    assert_eq!(node.records.len(), before, "nothing is published again by itself");
}

#[test]
fn invalid_commands_are_refused() {
    let mut session = Session::new(Settings { inflight_max: 1, ..Settings::default() }, 1);
    let options = PublishOptions::default();
    assert_eq!(session.publish("a", b"", &options, true), Err(CommandError::NotConnected));
    let (mut conversation, mut node) = (Conversation::default(), Node::default());
    session.connected("fake", "/crore", 0);
    exchange(&mut session, &mut conversation, &mut node, usize::MAX, 0).unwrap();
    assert_eq!(
        session.publish("a", &vec![0; 70_000], &options, true),
        Err(CommandError::MessageTooLarge { bytes_max: 65_536 })
    );
    assert_eq!(session.publish("", b"", &options, true), Err(CommandError::TopicLength(0)));
    session.publish("a", b"", &options, true).unwrap();
    assert_eq!(session.publish("a", b"", &options, true), Err(CommandError::InflightFull));
    let id = session.subscribe("a", Start::Live, &SubscribeOptions::default()).unwrap();
    assert_eq!(
        session.subscribe("a", Start::Live, &SubscribeOptions::default()),
        Err(CommandError::AlreadySubscribed)
    );
    session.unsubscribe(id);
    session.subscribe("a", Start::Live, &SubscribeOptions::default()).unwrap();
    assert!(
        session.subscribe(&"x".repeat(256), Start::Live, &SubscribeOptions::default()).is_err()
    );
}

#[test]
fn filters_share_one_message_and_report_a_reconnect() {
    let (mut session, mut conversation, mut node) = connected();
    node.serves_filters = false;
    let first = session.subscribe("a/#", Start::Live, &SubscribeOptions::default()).unwrap();
    let second = session.subscribe("+/b", Start::Live, &SubscribeOptions::default()).unwrap();
    let plain = session.subscribe("a/b", Start::Live, &SubscribeOptions::default()).unwrap();
    exchange(&mut session, &mut conversation, &mut node, usize::MAX, 0).unwrap();
    events(&mut session);
    let record = node.publish("a/b", b"x");
    conversation.deliver(&record, &node);
    exchange(&mut session, &mut conversation, &mut node, usize::MAX, 0).unwrap();
    let reported: Vec<_> = events(&mut session)
        .into_iter()
        .map(|event| match event {
            Event::Message(message) => (message.subscription, message.also),
            event => panic!("{event:?}"),
        })
        .collect();
    assert_eq!(reported, [(Some(plain), vec![]), (Some(first), vec![second])]);
    session.disconnected(Reason::Ended, Some(0));
    let mut conversation = Conversation::default();
    session.connected("fake", "/crore", 0);
    exchange(&mut session, &mut conversation, &mut node, usize::MAX, 0).unwrap();
    let gaps = events(&mut session)
        .into_iter()
        .filter(|event| matches!(event, Event::Gap { cause: GapCause::Reconnected, .. }))
        .count();
    assert_eq!(gaps, 2, "filters are not recovered, and that is said");
}

/// A lost log may be followed by one with the same offset: the gap is reported before the caught-up
/// event.
#[test]
fn a_new_epoch_at_the_same_offset_is_a_gap() {
    use wire::native::{Beginning, Gap, PlainTopic, ServerFrame, Subscribed, SubscribedTo};
    let (mut session, mut conversation, mut node) = connected();
    let topic = session.subscribe("t", Start::Live, &SubscribeOptions::default()).unwrap();
    let mut grant = |session: &mut Session, epoch: Option<u64>, gap: bool, now_ms: u64| {
        if let Some(epoch) = epoch {
            let through = Position { epoch, offset: 0 };
            let beginning = Beginning { through, replaying: false, continued: !gap };
            let alias = 7;
            conversation.send(&ServerFrame::Subscribed(Subscribed {
                subscription: topic.0,
                to: SubscribedTo::Topic(PlainTopic { alias, beginning }),
            }));
            if gap {
                conversation.send(&ServerFrame::Gap(Gap {
                    subscription: topic.0,
                    partition: None,
                    epoch,
                    from: 0,
                    to: 0,
                    reason: GapReason::UnknownEpoch,
                }));
            }
        }
        exchange(session, &mut conversation, &mut node, usize::MAX, now_ms).unwrap();
        session.tick(now_ms).unwrap();
        events(session)
    };
    let reported = grant(&mut session, None, false, 0);
    assert!(
        matches!(reported[..], [Event::Subscribed { .. }, Event::CaughtUp { complete: true, .. }]),
        "{reported:?}"
    );
    let reported = grant(&mut session, Some(EPOCH + 1), true, 10);
    assert!(
        matches!(
            reported[..],
            [
                Event::Subscribed { .. },
                Event::Gap { from: Some(ZERO), to: Some(Position { epoch, offset: 0 }), .. },
                Event::CaughtUp { complete: false, .. }
            ] if epoch == EPOCH + 1
        ),
        "{reported:?}"
    );
    // Continued: the position stayed valid.
    let reported = grant(&mut session, Some(EPOCH + 2), false, 20);
    assert!(
        matches!(
            reported[..],
            [
                Event::Subscribed { .. },
                Event::CaughtUp { position: Position { epoch, offset: 0 }, complete: false, .. }
            ] if epoch == EPOCH + 2
        ),
        "{reported:?}"
    );
}

#[test]
fn refused_subscriptions_are_retried_or_removed() {
    use wire::native::{ErrorCode, ErrorFrame, Reference, ServerFrame, Unsubscribed};
    let (mut session, mut conversation, mut node) = connected();
    let forbidden =
        session.subscribe("forbidden", Start::Live, &SubscribeOptions::default()).unwrap();
    let topic = session.subscribe("t", Start::Live, &SubscribeOptions::default()).unwrap();
    exchange(&mut session, &mut conversation, &mut node, usize::MAX, 0).unwrap();
    let reported = events(&mut session);
    assert!(matches!(&reported[0], Event::Unsubscribed { subscription, error: Some(_), .. }
        if *subscription == forbidden));
    assert_eq!(session.subscriptions_count(), 1);
    // The server ends it temporarily: it is requested again, from the cursor.
    let subscription = topic.0;
    conversation.send(&ServerFrame::Unsubscribed(Unsubscribed { subscription, code: 2500 }));
    exchange(&mut session, &mut conversation, &mut node, usize::MAX, 0).unwrap();
    node.publish("t", b"meanwhile");
    session.tick(999).unwrap();
    assert!(session.output().is_empty());
    assert!(session.next_deadline_ms().is_some_and(|at| at <= 1_000));
    session.tick(1_000).unwrap();
    exchange(&mut session, &mut conversation, &mut node, usize::MAX, 1_000).unwrap();
    let reported = events(&mut session);
    assert!(reported.iter().any(|event| matches!(event, Event::Message(_))), "{reported:?}");
    assert!(reported.iter().any(|event| matches!(event, Event::CaughtUp { complete: true, .. })));
    // A temporary error has the same effect.
    let overloaded = ErrorFrame::new(Reference::Subscription(subscription), ErrorCode::Overloaded);
    conversation.send(&ServerFrame::Error(overloaded));
    exchange(&mut session, &mut conversation, &mut node, usize::MAX, 1_000).unwrap();
    assert_eq!(session.subscriptions_count(), 1);
    assert!(events(&mut session).is_empty());
}

#[test]
fn silent_servers_are_pinged_and_abandoned() {
    let (mut session, mut conversation, mut node) = connected();
    assert_eq!(session.next_deadline_ms(), Some(35_000));
    session.tick(34_999).unwrap();
    assert!(session.output().is_empty());
    session.tick(35_000).unwrap();
    assert!(!session.output().is_empty());
    exchange(&mut session, &mut conversation, &mut node, usize::MAX, 35_001).unwrap();
    assert_eq!(session.next_deadline_ms(), Some(70_001), "the pong counts");
    session.tick(70_001).unwrap();
    session.written(session.output().len()); // the ping is lost in transit
    session.tick(105_000).unwrap();
    assert_eq!(session.tick(105_001), Err(Reason::Idle));
    // The session answers the node's ping.
    let (mut session, mut conversation, mut node) = connected();
    conversation.send(&wire::native::ServerFrame::Ping(99));
    exchange(&mut session, &mut conversation, &mut node, usize::MAX, 0).unwrap();
    assert_eq!(conversation.pongs, [99]);
    // A handshake that never ends.
    let mut session = Session::new(Settings::default(), 1);
    session.connected("fake", "/crore", 5);
    assert_eq!(session.next_deadline_ms(), Some(10_005));
    assert_eq!(session.tick(10_005), Err(Reason::HandshakeTimeout));
}

/// L5: a timer that fires more than twice too late, because the machine slept, grants a whole
/// deadline.
#[test]
fn a_timer_that_slept_pings_again() {
    let (mut session, ..) = connected();
    session.tick(35_000).unwrap();
    session.written(session.output().len());
    session.tick(350_000).unwrap();
    assert!(!session.output().is_empty(), "a second ping");
    assert_eq!(session.next_deadline_ms(), Some(385_000));
    session.tick(384_999).unwrap();
    assert_eq!(session.tick(385_000), Err(Reason::Idle));
}

/// C11: epochs and tokens of PING have 64 bits.
#[test]
fn numbers_have_64_bits() {
    let (mut session, mut conversation, mut node) = connected();
    node.epoch = u64::MAX;
    let id = session.subscribe("t", Start::Live, &SubscribeOptions::default()).unwrap();
    conversation.send(&wire::native::ServerFrame::Ping(u64::MAX));
    exchange(&mut session, &mut conversation, &mut node, usize::MAX, 0).unwrap();
    assert_eq!(conversation.pongs, [u64::MAX]);
    assert_eq!(session.cursor(id).unwrap().epoch, u64::MAX);
}

/// U15: the frames of one turn are one output, which leaves in one write.
#[test]
fn calls_of_one_turn_are_one_output() {
    let (mut session, mut conversation, mut node) = connected();
    session.subscribe("t", Start::Live, &SubscribeOptions::default()).unwrap();
    for number in 0..3 {
        session.publish("t", &[number], &PublishOptions::default(), true).unwrap();
    }
    let output = session.output().to_vec();
    session.written(output.len());
    conversation.receive(&output, &mut node);
    exchange(&mut session, &mut conversation, &mut node, usize::MAX, 0).unwrap();
    assert_eq!(std::iter::from_fn(|| session.take_answer()).count(), 3);
}

/// C2: HELLO and SUBSCRIBE go with the handshake; what changes meanwhile follows it.
#[test]
fn the_first_frames_go_with_the_handshake() {
    let (mut conversation, mut node) = (Conversation::default(), Node::default());
    let mut session = Session::new(Settings::default(), 1);
    let gone = session.subscribe("gone", Start::Live, &SubscribeOptions::default()).unwrap();
    session.subscribe("stays", Start::Live, &SubscribeOptions::default()).unwrap();
    session.connected("fake", "/crore", 0);
    let handshake = session.output().to_vec();
    session.written(handshake.len());
    let offers = String::from_utf8(handshake.clone()).unwrap().matches("crore.frame.").count();
    assert_eq!(offers, 2, "HELLO and SUBSCRIBE");
    session.unsubscribe(gone);
    session.subscribe("new", Start::Live, &SubscribeOptions::default()).unwrap();
    session.subscribe("gone", Start::Live, &SubscribeOptions::default()).unwrap();
    session.renew("another".to_owned());
    assert!(session.output().is_empty());
    conversation.receive(&handshake, &mut node);
    exchange(&mut session, &mut conversation, &mut node, usize::MAX, 0).unwrap();
    let caught_up = events(&mut session).into_iter().filter_map(|event| match event {
        Event::CaughtUp { filter, .. } => Some(filter.to_string()),
        _ => None,
    });
    assert_eq!(caught_up.collect::<Vec<_>>(), ["stays", "new", "gone"]);
    assert_eq!(conversation.tokens, ["another"]);
}

#[test]
fn ends_have_reasons() {
    fn check(bytes: &[u8], wanted: &Reason) {
        let (mut session, ..) = connected();
        assert_eq!(&session.receive(&mut bytes.to_vec(), 0).unwrap_err(), wanted);
        session.disconnected(wanted.clone(), None);
    }
    let closed = |code| Reason::Closed { code, reason: String::new() };
    check(&[0x88, 2, 0x0b, 0xb8], &closed(3000));
    check(&[0x88, 0], &closed(1005));
    check(&[0x81, 1, b'x'], &Reason::Protocol("a text message".into()));
    check(&[0x82, 2, 0xff, 0], &Reason::Unsupported("unknown frame type 0xff".into()));
    assert!(!Reason::Unsupported(String::new()).reconnects());
    // The handshake is refused.
    let mut session = Session::new(Settings::default(), 1);
    session.connected("fake", "/crore", 0);
    let mut answer = b"HTTP/1.1 503 x\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n".to_vec();
    let refused = Reason::HandshakeRefused { status: 503, retry_after_s: Some(7) };
    assert_eq!(session.receive(&mut answer, 0), Err(refused));
}

#[test]
fn random_bytes_never_panic() {
    let mut random = stdx::prng::Prng::new(4);
    for _ in 0..300 {
        let (mut session, mut conversation, mut node) = connected();
        session.subscribe("t", Start::Live, &SubscribeOptions::default()).unwrap();
        exchange(&mut session, &mut conversation, &mut node, usize::MAX, 0).unwrap();
        for _ in 0..20 {
            let mut payload = vec![0; random.below(40) as usize];
            random.fill(&mut payload);
            if let Some(first) = payload.first_mut() {
                *first = 0x80 + random.below(16) as u8;
            }
            if payload.len() > 1 {
                payload[1] &= 0x87;
            }
            let mut bytes = Vec::new();
            let opcode = wire::websocket::Opcode::Binary;
            wire::websocket::frame::encode(&mut bytes, true, opcode, &payload, None);
            if session.receive(&mut bytes, 0).is_err() {
                break;
            }
        }
    }
}
