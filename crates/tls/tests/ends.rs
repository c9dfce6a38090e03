//! Ends of connections that random interleavings once found wrong, each by itself.

mod support;

use net::{Close, Event, Net, Read, Write};
use std::io::{self, IoSlice};
use std::time::Duration;
use support::*;

fn settled() -> Pair {
    let (provider, version, _) = providers().remove(0);
    let mut pair =
        Pair::serving(&server(), rustls_client_connection(rustls_client(provider, version)));
    pair.settle();
    pair.events.clear();
    pair
}

/// A full socket takes our `close_notify` later, and only then ends.
#[test]
fn a_full_socket_gets_the_end_too() {
    for shuts in [true, false] {
        for room in [0, 1, 10] {
            let mut pair = settled();
            pair.fake.with(pair.conn, |link| link.room = room);
            if shuts {
                pair.tls.shutdown_write(pair.conn);
            } else {
                pair.tls.close(pair.conn, Close::Graceful);
            }
            pair.settle();
            assert!(!pair.peer_saw_end);
            let is_over = |link: &mut Link| link.shut || link.closed.is_some();
            assert!(!pair.fake.with(pair.conn, is_over));
            pair.fake.with(pair.conn, |link| link.room = usize::MAX);
            pair.settle();
            assert!(pair.peer_saw_end, "shuts: {shuts}, room for {room}");
            assert!(pair.fake.with(pair.conn, is_over));
        }
    }
}

/// Good records and a bad one in one read: the good ones arrive, and then the failure is reported
/// without another event below.
#[test]
fn a_fault_behind_text_is_told() {
    let mut pair = settled();
    pair.peer_writes(b"good");
    let mut bytes = Vec::new();
    pair.peer.write_tls(&mut bytes).unwrap();
    pair.peer_writes(b"evil");
    pair.peer.write_tls(&mut bytes).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    pair.fake.with(pair.conn, |link| link.to_us.extend(&bytes));
    pair.settle();
    assert_eq!(pair.ours, b"good");
    assert_eq!(pair.last_read, Read::Failed(io::ErrorKind::InvalidData));
    let written = pair.tls.write(pair.conn, &[IoSlice::new(b"late")]);
    assert_eq!(written, Write::Failed(io::ErrorKind::BrokenPipe));
}

/// A caller that has read the end is not woken for the end of the network below.
#[test]
fn the_end_is_told_once() {
    let mut pair = settled();
    pair.peer.send_close_notify();
    pair.settle();
    assert_eq!(pair.last_read, Read::Ended);
    pair.fake.with(pair.conn, |link| link.to_us_ended = true);
    let mut events = Vec::new();
    for _ in 0..3 {
        let polled = pair.tls.poll(Some(Duration::ZERO), &mut events);
        polled.unwrap();
    }
    assert_eq!(events, [] as [Event; 0]);
}

/// A client that resumes drops its store of tickets after the first one, and its memory.
#[test]
fn a_ticket_leaves_nothing_behind() {
    let (provider, version, _) = providers().remove(0);
    let peer = rustls_server_connection(rustls_server(provider, version));
    let mut pair = Pair::asking(&client(false, true), peer);
    pair.settle();
    pair.tls.close(pair.conn, Close::Graceful);
    assert_eq!(pair.tls.counters().statistics().state_bytes, 0);
}
