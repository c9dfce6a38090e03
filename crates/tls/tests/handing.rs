//! Connections that are handed to another `Tls`: what becomes of handshakes. Of established ones
//! see `interleavings.rs`.

mod support;

use net::{Event, Net};
use std::io;
use std::time::Duration;
use stdx::handing::Input;
use support::*;
use tls::Tls;

fn pair() -> Pair {
    let (provider, version, _) = providers().remove(0);
    Pair::serving(&server(), rustls_client_connection(rustls_client(provider, version)))
}

/// Hands the connections to another process.
fn next(pair: &Pair) -> Tls<Fake> {
    let mut bytes = Vec::new();
    pair.tls.hand_over(&mut bytes);
    for end in 0..bytes.len() {
        let mut none = Tls::new(pair.fake.clone());
        assert!(none.take_over(&mut Input::new(&bytes[..end])).is_none());
    }
    let mut next = Tls::new(pair.fake.clone());
    next.serve(0, &server());
    assert_eq!(next.take_over(&mut Input::new(&bytes)), Some(()));
    next
}

#[test]
fn a_handshake_that_has_not_begun_waits() {
    for is_handed_over in [true, false] {
        let mut pair = pair();
        pair.tls.hold_handshakes();
        pair.settle();
        assert!(!pair.established());
        assert_eq!(pair.tls.handshakes_count(), 0);
        if is_handed_over {
            pair.tls = next(&pair)
        } else {
            pair.tls.release_handshakes()
        }
        pair.peer_writes(b"asked");
        pair.settle();
        assert!(pair.established());
        assert_eq!(pair.ours, b"asked");
    }
}

#[test]
fn a_running_handshake_completes_or_is_closed() {
    let mut pair = pair();
    pair.turn();
    assert_eq!(pair.tls.handshakes_count(), 1);
    pair.tls.hold_handshakes();
    let mut next = next(&pair);
    let mut events = Vec::new();
    pair.settle();
    assert!(pair.established());
    assert_eq!(pair.tls.handshakes_count(), 0);
    next.poll(Some(Duration::ZERO), &mut events).unwrap();
    let closed = Event::Closed { conn: pair.conn, reason: io::ErrorKind::ConnectionAborted };
    assert!(events.contains(&closed), "{events:?}");
    assert!(pair.fake.with(pair.conn, |link| link.closed.is_some()));
    assert_eq!(next.counters().statistics().handshaking, 0);
}

/// The buffer never grows, which would leave a copy of the keys.
#[test]
fn room_is_made_at_once() {
    let mut pair = pair();
    pair.settle();
    let mut bytes = Vec::new();
    pair.tls.hand_over(&mut bytes);
    let before = bytes.capacity();
    assert!(bytes.len() > 100 && bytes.len() <= before);
    bytes.clear();
    pair.tls.hand_over(&mut bytes);
    assert_eq!(bytes.capacity(), before);
}
