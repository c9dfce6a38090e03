//! Restarts and returning clients: with a resume ticket of the native protocol, or with
//! `Last-Event-ID`.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use end_to_end::PATIENCE;
use end_to_end::curl::publish;
use end_to_end::event_stream::EventStream;
use end_to_end::native::{Frame, Item, Native, NewerCursor};
use end_to_end::server::{Place, Server};

const TICKET_REFUSED: u64 = 204;
const POSITION_UNAVAILABLE: u64 = 400;
const GOING_AWAY: u16 = 3001;

/// A log on disk, and a test's settings of tickets.
fn on_disk(place: &Place, tickets: &str) -> String {
    format!(
        "[node]\ndata_dir = \"{}\"\ndrain_window = \"10s\"\nio_threads = 2\n\
         [[log]]\nname = \"kept\"\ndurability = \"disk\"\npartitions_count = 4\nage_max = \"1d\"\n{tickets}",
        place.path("data").display()
    )
}

fn started(tickets: &str) -> (Place, Server) {
    let mut place = Place::new("127.0.0.1:0");
    place.configure(&on_disk(&place, tickets));
    let server = place.start();
    (place, server)
}

const TOPICS: [&str; 3] = ["orders/1", "orders/2", "prices"];
const SENSORS: [&str; 4] = ["sensors/1", "sensors/2", "sensors/3/x", "sensors"];
/// The number of the subscription to the filter.
const FILTER: u64 = 4;

fn items() -> Vec<Item<'static>> {
    let item =
        |subscription, filter| Item { subscription, filter, fail_on_gap: subscription == FILTER };
    let topics = TOPICS.into_iter().zip(1..);
    let mut items: Vec<Item<'static>> = topics.map(|(topic, number)| item(number, topic)).collect();
    items.push(item(FILTER, "sensors/#"));
    items
}

/// Publishes one message to every topic, the sensors' too.
fn publish_round(server: &Server, round: &str) {
    for topic in TOPICS.iter().chain(&SENSORS) {
        publish(&server.url(&format!("/topics/{topic}")), round);
    }
}

/// Received payloads, by topic; a plain topic by its subscription.
type Received = BTreeMap<String, Vec<String>>;

fn rounds(of: &[&str]) -> Received {
    let topics = TOPICS.iter().chain(&SENSORS);
    let each = |topic: &&str| {
        let rounds = of.iter().map(|round| (*round).to_owned());
        ((*topic).to_owned(), rounds.collect())
    };
    topics.map(each).collect()
}

/// The messages that a client has received, and its newest cursors.
#[derive(Default)]
struct Seen {
    received: Received,
    /// Epoch (of filters) and offset, by subscription and partition.
    cursors: BTreeMap<(u64, Option<u64>), (u64, u64)>,
}

impl Seen {
    /// Processes a message; returns any other frame.
    fn take(&mut self, frame: Frame) -> Option<Frame> {
        let Frame::Message { subscription, topic, partition, epoch, offset, payload } = frame
        else {
            return Some(frame);
        };
        let number = subscription.unwrap_or(FILTER);
        let topic = topic.unwrap_or_else(|| TOPICS[number as usize - 1].to_owned());
        self.received.entry(topic).or_default().push(payload);
        self.cursors.insert((number, partition), (epoch.unwrap_or(0), offset));
        None
    }

    fn count(&self) -> usize {
        self.received.values().map(Vec::len).sum()
    }

    /// Reads this number of messages; only ends of replays may come between.
    fn read(&mut self, client: &mut Native, count: usize) {
        while self.count() < count {
            if let Some(other) = self.take(client.next_frame()) {
                assert!(matches!(other, Frame::CaughtUp(_)), "{other:?}");
            }
        }
    }
}

/// Subscribes to everything, and receives a first round.
fn subscribed(server: &Server) -> (Native, Seen) {
    let (mut client, welcome) = Native::connect(&server.clients, None);
    let Frame::Welcome { resumed: None, ticket_lifetime_s: Some(_) } = welcome else {
        panic!("{welcome:?}");
    };
    client.subscribe(&items());
    for _ in items() {
        let answer = client.next_frame();
        assert!(matches!(answer, Frame::Subscribed { .. }), "{answer:?}");
    }
    publish_round(server, "first");
    let mut seen = Seen::default();
    seen.read(&mut client, rounds(&["first"]).len());
    (client, seen)
}

fn ticket_of(client: &mut Native) -> Vec<u8> {
    client.ask_ticket();
    loop {
        match client.next_frame() {
            Frame::Ticket(bytes) => return bytes,
            // It also arrives regularly for a live filter.
            Frame::CaughtUp(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Resumes with one frame; all subscriptions continue. `count` messages follow.
fn resume(
    server: &Server,
    ticket: &[u8],
    cursors: &[NewerCursor],
    count: usize,
) -> (Native, Received) {
    let (mut client, welcome) = Native::connect(&server.clients, Some((ticket, cursors)));
    let Frame::Welcome { resumed: Some(4), .. } = welcome else {
        panic!("{welcome:?}");
    };
    let mut seen = Seen::default();
    let (mut granted, mut to_catch_up) = (0, 0_usize);
    while granted < 4 || to_catch_up > 0 || seen.count() < count {
        match seen.take(client.next_frame()) {
            None => {}
            Some(Frame::Subscribed { continued: true, replaying, .. }) => {
                granted += 1;
                to_catch_up += replaying;
            }
            // It also arrives regularly for a live filter.
            Some(Frame::CaughtUp(_)) => to_catch_up = to_catch_up.saturating_sub(1),
            Some(other) => panic!("{other:?}"),
        }
    }
    (client, seen.received)
}

/// Checks that the ticket is refused by the protocol's rules, and the connection remains usable.
fn check_refused(server: &Server, ticket: &[u8], why: &str) {
    let (mut client, welcome) = Native::connect(&server.clients, Some((ticket, &[])));
    let Frame::Welcome { resumed: None, .. } = welcome else {
        panic!("{why}: {welcome:?}");
    };
    let refusal = Frame::Error { reference: 0, id: 0, code: TICKET_REFUSED, temporary: true };
    assert_eq!(client.next_frame(), refusal, "{why}");
    client.subscribe(&items()[..1]);
    let answer = client.next_frame();
    assert!(matches!(answer, Frame::Subscribed { .. }), "{why}: {answer:?}");
}

fn says(server: Server, text: &str) {
    server.process.signal("TERM");
    let ended = server.end();
    assert!(ended.lines.iter().any(|line| line.contains(text)), "no \"{text}\" in {ended:#?}");
}

/// A drain gives the client a ticket; after the restart one frame restores everything that it
/// missed, without a gap.
#[test]
fn a_ticket_survives_a_drain_and_a_restart() {
    let (mut place, server) = started("");
    let (mut client, seen) = subscribed(&server);
    assert_eq!(seen.received, rounds(&["first"]));
    server.process.signal("TERM");
    let ticket = loop {
        match client.next_frame() {
            Frame::GoAway { ticket: Some(ticket), .. } => break ticket,
            Frame::CaughtUp(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(client.next_frame(), Frame::Closed(GOING_AWAY));
    drop(client);
    server.end().assert_success();

    let server = place.start();
    publish_round(&server, "second");
    publish_round(&server, "third");
    let missed = rounds(&["second", "third"]);
    let (mut client, received) = resume(&server, &ticket, &[], 14);
    assert_eq!(received, missed);
    publish_round(&server, "fourth");
    let mut seen = Seen::default();
    seen.read(&mut client, 7);
    assert_eq!(seen.received, rounds(&["fourth"]));

    // The ticket may be used again: everything since its issue is replayed.
    let (_, received) = resume(&server, &ticket, &[], 21);
    assert_eq!(received, rounds(&["second", "third", "fourth"]));
}

/// A requested ticket is valid after `kill -9`, too; the client adds its newer cursors.
#[test]
fn a_requested_ticket_survives_a_kill() {
    let (mut place, server) = started("");
    let (mut client, mut seen) = subscribed(&server);
    let ticket = ticket_of(&mut client);
    publish_round(&server, "second");
    seen.read(&mut client, 14);
    server.process.signal("KILL");
    let _ = server.end();

    let server = place.start();
    publish_round(&server, "third");
    let (_, received) = resume(&server, &ticket, &[], 14);
    assert_eq!(received, rounds(&["second", "third"]));

    // Plain messages carry no epoch; all partitions of the log have the filter's.
    let epoch = seen.cursors.values().map(|(epoch, _)| *epoch).max();
    let newer = seen.cursors.iter();
    let newer: Vec<NewerCursor> = newer
        .map(|(&(subscription, partition), &(_, offset))| {
            (subscription, partition, epoch.unwrap(), offset)
        })
        .collect();
    let (_, received) = resume(&server, &ticket, &newer, 7);
    assert_eq!(received, rounds(&["third"]));
}

/// A log in memory is lost with its process. The ticket is valid, and every subscription receives a
/// gap, or a refusal if the client requested that.
#[test]
fn a_lost_log_in_memory_is_a_gap() {
    let mut place = Place::new("127.0.0.1:0");
    place.configure(&format!(
        "[node]\ndata_dir = \"{}\"\n[[log]]\nname = \"m\"\npartitions_count = 1\n",
        place.path("data").display()
    ));
    let server = place.start();
    let (mut client, _) = subscribed(&server);
    let ticket = ticket_of(&mut client);
    server.process.signal("KILL");
    let _ = server.end();
    let server = place.start();
    let (mut client, _) = Native::connect(&server.clients, Some((&ticket, &[])));
    let (mut gaps, mut refused) = (0, 0);
    while gaps + refused < 4 {
        match client.next_frame() {
            Frame::Subscribed { continued: false, .. } => {}
            Frame::Gap { reason: 1, .. } => gaps += 1,
            Frame::Error { reference: 2, id: FILTER, code: POSITION_UNAVAILABLE, .. } => {
                refused += 1
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((gaps, refused), (3, 1));
}

#[test]
fn invalid_tickets_are_refused() {
    let (mut place, server) = started("");
    let (mut client, _) = subscribed(&server);
    let ticket = ticket_of(&mut client);
    drop(client);
    let changed = |at: usize| {
        let mut changed = ticket.clone();
        changed[at] ^= 1;
        changed
    };
    check_refused(&server, &[], "empty");
    check_refused(&server, b"nonsense", "nonsense");
    check_refused(&server, &[0xff; 16 << 10], "long nonsense");
    check_refused(&server, &changed(0), "another version");
    check_refused(&server, &changed(1), "another key's name");
    check_refused(&server, &changed(ticket.len() / 2), "changed");
    check_refused(&server, &changed(ticket.len() - 1), "another signature");
    check_refused(&server, &[&ticket[..], &[0]].concat(), "longer");
    for length in [1, 5, 36, 37, ticket.len() / 2, ticket.len() - 1] {
        check_refused(&server, &ticket[..length], "truncated");
    }
    resume(&server, &ticket, &[], 0);
    server.process.signal("TERM");
    server.end().assert_success();

    // Issued before a time that the operator sets.
    let revoked = "[tickets]\nrevoked_before = \"2999-01-01T00:00:00Z\"\n";
    place.configure(&on_disk(&place, revoked));
    let server = place.start();
    check_refused(&server, &ticket, "revoked");
    server.process.signal("TERM");
    server.end().assert_success();
    place.configure(&on_disk(&place, ""));
    let server = place.start();
    resume(&server, &ticket, &[], 0);

    // The file of keys is damaged: the node creates new ones, and keeps the old file.
    server.process.signal("KILL");
    let _ = server.end();
    let file = place.path("data/ticket.keys");
    let kept = fs::read(&file).unwrap();
    fs::write(&file, &kept[..kept.len() - 1]).unwrap();
    let server = place.start();
    check_refused(&server, &ticket, "its key was damaged");
    says(server, "ticket.keys is damaged (the checksum is wrong)");
    let aside = place.path("data/ticket.keys.damaged");
    assert_eq!(fs::read(&aside).unwrap(), kept[..kept.len() - 1]);
    fs::write(&file, &kept).unwrap();
    let server = place.start();
    resume(&server, &ticket, &[], 0);
}

#[test]
fn a_ticket_expires() {
    let (_place, server) = started("[tickets]\nlifetime = \"1s\"\n");
    let (mut client, _) = subscribed(&server);
    let ticket = ticket_of(&mut client);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (_, welcome) = Native::connect(&server.clients, Some((&ticket, &[])));
        if let Frame::Welcome { resumed: None, .. } = welcome {
            break;
        }
        assert!(Instant::now() < deadline, "it does not expire");
    }
    check_refused(&server, &ticket, "expired");
}

/// Configured keys: a removed one neither signs nor verifies; a secondary one still verifies.
#[test]
fn configured_keys_can_be_rotated() {
    let keys = |keys: &[&str]| {
        let keys: Vec<String> = keys.iter().map(|key| format!("\"{}\"", key.repeat(32))).collect();
        format!("[tickets]\nkeys = [{}]\n", keys.join(", "))
    };
    let (mut place, server) = started(&keys(&["0a"]));
    let (mut client, _) = subscribed(&server);
    let ticket = ticket_of(&mut client);
    server.process.signal("KILL");
    let _ = server.end();
    assert!(!place.path("data/ticket.keys").exists());

    place.configure(&on_disk(&place, &keys(&["0b", "0a"])));
    let server = place.start();
    let (mut client, _) = resume(&server, &ticket, &[], 0);
    let newer = ticket_of(&mut client);
    server.process.signal("KILL");
    let _ = server.end();

    place.configure(&on_disk(&place, &keys(&["0b"])));
    let server = place.start();
    check_refused(&server, &ticket, "its key was taken away");
    resume(&server, &newer, &[], 0);
}

/// Without a data directory tickets end with the process, and the start logs that.
#[test]
fn tickets_without_a_data_directory_end_with_the_process() {
    let mut place = Place::new("127.0.0.1:0");
    let server = place.start();
    let (mut client, _) = Native::connect(&server.clients, None);
    client.subscribe(&items()[..1]);
    let _ = client.next_frame();
    let ticket = ticket_of(&mut client);
    says(server, "Resume tickets become invalid when this process ends");
    let server = place.start();
    check_refused(&server, &ticket, "of another process");
}

/// Event streams continue from the cursor in `Last-Event-ID`, after any end of the process.
#[test]
fn event_streams_continue_over_restarts() {
    let (mut place, mut server) = started("");
    let paths = [
        ("/topics/orders/1", 1, 1),
        ("/events?topic=orders/1&topic=orders/2&topic=prices", 3, 3),
        ("/events?topic=sensors/%23", 1, 4),
        ("/events?topic=prices&topic=sensors/%23", 2, 5),
    ];
    let mut ids: Vec<Option<String>> = vec![None; paths.len()];
    for (round, signal) in [("1", "KILL"), ("2", "TERM"), ("3", "KILL"), ("4", "INT")] {
        let mut streams: Vec<EventStream> = Vec::new();
        for ((path, topics_count, _), id) in paths.iter().zip(&ids) {
            let url = server.url(path);
            streams.push(EventStream::open(&url, *topics_count, id.as_deref()));
        }
        publish_round(&server, &format!("here {round}"));
        // The first time there is no cursor.
        let away = format!("away {}", round.parse::<u32>().unwrap() - 1);
        let here = format!("here {round}");
        for ((stream, id), (path, _, topics)) in streams.iter_mut().zip(&mut ids).zip(paths) {
            let expected = match id {
                Some(_) => vec![away.clone(); topics]
                    .into_iter()
                    .chain(vec![here.clone(); topics])
                    .collect(),
                None => vec![here.clone(); topics],
            };
            let mut found = Vec::new();
            for _ in 0..expected.len() {
                let event = stream.next_message();
                let envelope = serde_json::from_str::<serde_json::Value>(&event.data);
                let text = envelope.ok().and_then(|it| Some(it["data"].as_str()?.to_owned()));
                found.push(text.unwrap_or(event.data));
                *id = Some(event.id);
            }
            // Partitions are read in parallel: only the order within a topic is fixed.
            found.sort();
            assert_eq!(found, expected, "{path} in round {round}");
        }
        drop(streams);
        server.process.signal(signal);
        let _ = server.end();
        server = place.start();
        publish_round(&server, &format!("away {round}"));
    }
}
