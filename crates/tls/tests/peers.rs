//! `Tls` against rustls at the other end: every suite, both versions, both sides, cut into pieces
//! of every size.

mod support;

use net::{Close, Event, Net, Read, Write};
use std::io::{self, IoSlice};
use support::*;

/// Both directions, several sizes, then an orderly end from both.
fn talk(mut pair: Pair, what: &str) {
    pair.settle();
    assert!(pair.established(), "{what}: {:?}", pair.peer_error);
    let sizes: &[usize] =
        if pair.chunk < 100 { &[1, 2, 300] } else { &[1, 2, 300, 16_384, 16_385, 70_000, 300_000] };
    let (mut to_us, mut to_them) = (Vec::new(), Vec::new());
    for (round, &size) in sizes.iter().enumerate() {
        let text = pattern(size, round as u64);
        pair.peer_writes(&text);
        to_us.extend_from_slice(&text);
        pair.we_write(&text);
        to_them.extend_from_slice(&text);
        pair.settle();
        assert!(pair.ours == to_us, "{what}: {} of {}", pair.ours.len(), to_us.len());
        assert!(pair.theirs == to_them, "{what}: {} of {}", pair.theirs.len(), to_them.len());
    }
    let statistics = pair.tls.counters().statistics();
    assert_eq!(statistics.open_tls12 + statistics.open_tls13, 1);
    assert_eq!(statistics.buffer_bytes, 0, "{what}: idle connections keep nothing");
    pair.peer.send_close_notify();
    pair.settle();
    assert_eq!(pair.last_read, Read::Ended, "{what}");
    assert_eq!(
        pair.tls.write(pair.conn, &[IoSlice::new(b"after")]),
        Write::Wrote(5),
        "our direction is open"
    );
    pair.tls.close(pair.conn, Close::Graceful);
    pair.settle();
    assert!(pair.peer_saw_end, "{what}: {:?}", pair.peer_error);
    assert!(pair.theirs.ends_with(b"after"));
    let statistics = pair.tls.counters().statistics();
    assert_eq!((statistics.state_bytes, statistics.buffer_bytes, statistics.faults), (0, 0, 0));
}

#[test]
fn every_suite_both_sides_in_chunks() {
    let server = server();
    for (provider, version, suite) in providers() {
        for chunk in [usize::MAX, 1_000, 7, 1] {
            let what = format!("{suite}, chunks of {chunk}");
            let peer = rustls_client_connection(rustls_client(provider.clone(), version));
            let mut pair = Pair::serving(&server, peer);
            pair.chunk = chunk;
            talk(pair, &format!("serving {what}"));

            let is_old = version.version == rustls::ProtocolVersion::TLSv1_2;
            let peer = rustls_server_connection(rustls_server(provider.clone(), version));
            let mut pair = Pair::asking(&client(is_old, false), peer);
            pair.chunk = chunk;
            talk(pair, &format!("asking {what}"));
        }
    }
}

#[test]
fn small_buffers_get_everything() {
    for read_bytes in [1, 2, 3, 100, 16_384] {
        let (provider, version, _) = providers().remove(0);
        let peer = rustls_client_connection(rustls_client(provider, version));
        let mut pair = Pair::serving(&server(), peer);
        pair.read_bytes = read_bytes;
        pair.settle();
        let text = pattern(50_000, 3);
        pair.peer_writes(&text);
        pair.peer.send_close_notify();
        pair.settle();
        assert!(pair.ours == text, "buffers of {read_bytes}");
        assert_eq!(pair.last_read, Read::Ended);
    }
}

/// The socket takes a few bytes at a time: one record is begun, the rest waits with the caller.
#[test]
fn a_slow_socket_keeps_one_record() {
    for (provider, version, suite) in providers() {
        let peer = rustls_client_connection(rustls_client(provider, version));
        let mut pair = Pair::serving(&server(), peer);
        pair.settle();
        pair.events.clear();
        let text = pattern(200_000, 4);
        let mut wrote = 0;
        let mut may_write = true;
        let mut room = 1;
        while pair.theirs.len() < text.len() {
            room = room * 7 % 40_009;
            pair.fake.with(pair.conn, |link| link.room = room);
            pair.turn();
            for event in pair.events.drain(..) {
                if event == Event::Writable(pair.conn) {
                    assert!(!may_write, "{suite}: Writable only for who waits");
                    may_write = true;
                }
            }
            if may_write && wrote < text.len() {
                let rest = &text[wrote..];
                let (first, second) = rest.split_at(rest.len() / 3);
                match pair.tls.write(
                    pair.conn,
                    &[IoSlice::new(first), IoSlice::new(&[]), IoSlice::new(second)],
                ) {
                    Write::Wrote(count) => {
                        wrote += count;
                        may_write = count == rest.len();
                    }
                    Write::Blocked => may_write = false,
                    Write::Failed(kind) => panic!("{kind}"),
                }
            }
            let kept = pair.tls.counters().statistics().buffer_bytes;
            assert!(kept < 17_000, "{suite}: {kept} bytes are kept");
            assert!(pair.peer_error.is_none(), "{suite}: {:?}", pair.peer_error);
        }
        assert!(pair.theirs == text);
    }
}

#[test]
fn a_tail_goes_out_after_a_graceful_close() {
    let (provider, version, _) = providers().remove(0);
    let peer = rustls_client_connection(rustls_client(provider, version));
    let mut pair = Pair::serving(&server(), peer);
    pair.settle();
    pair.fake.with(pair.conn, |link| link.room = 10);
    let text = pattern(5_000, 5);
    assert_eq!(pair.tls.write(pair.conn, &[IoSlice::new(&text)]), Write::Wrote(5_000));
    pair.tls.close(pair.conn, Close::Graceful);
    assert_eq!(
        pair.tls.write(pair.conn, &[IoSlice::new(&text)]),
        Write::Failed(io::ErrorKind::NotConnected)
    );
    pair.settle();
    assert!(pair.theirs.is_empty());
    pair.events.clear();
    pair.fake.with(pair.conn, |link| link.room = usize::MAX);
    pair.settle();
    assert!(pair.theirs == text && pair.peer_saw_end);
    assert!(pair.events.is_empty(), "nobody hears of a closed connection");
    assert_eq!(pair.fake.with(pair.conn, |link| link.closed), Some(Close::Graceful));
}

#[test]
fn keys_are_updated_by_both_sides() {
    for (provider, version, suite) in providers() {
        if version.version == rustls::ProtocolVersion::TLSv1_2 {
            continue;
        }
        let peer = rustls_client_connection(rustls_client(provider, version));
        let mut pair = Pair::serving(&server(), peer);
        pair.tls.update_keys_after(8);
        pair.settle();
        let (mut to_us, mut to_them) = (Vec::new(), Vec::new());
        for round in 0..100 {
            if round % 3 == 0 {
                // It asks for ours too, which then come before our next data.
                pair.peer.refresh_traffic_keys().unwrap();
            }
            let text = pattern(1 + 37 * round, round as u64);
            pair.peer_writes(&text);
            to_us.extend_from_slice(&text);
            pair.settle();
            pair.we_write(&text);
            to_them.extend_from_slice(&text);
            pair.settle();
        }
        assert!(pair.peer_error.is_none(), "{suite}: {:?}", pair.peer_error);
        assert!(pair.ours == to_us && pair.theirs == to_them, "{suite}");
        assert!(pair.tls.counters().statistics().key_updates > 30);
    }
}

/// A peer that changes its keys with each byte is read over many polls, whole and in order.
#[test]
fn one_read_takes_part_in_few_changes_of_keys() {
    let (provider, version, _) = providers()
        .into_iter()
        .find(|(_, version, _)| version.version == rustls::ProtocolVersion::TLSv1_3)
        .unwrap();
    let peer = rustls_client_connection(rustls_client(provider, version));
    let mut pair = Pair::serving(&server(), peer);
    pair.settle();
    let text = pattern(200, 3);
    for byte in &text {
        pair.peer.refresh_traffic_keys().unwrap();
        pair.peer_writes(&[*byte]);
    }
    let mut polls = 0;
    while pair.ours.len() < text.len() {
        let before = pair.ours.len();
        pair.turn();
        let count = pair.ours.len() - before;
        assert!(count <= tls::KEY_UPDATES_READ_MAX as usize, "{count}");
        polls += 1;
        assert!(polls < 100, "{} bytes came", pair.ours.len());
    }
    assert_eq!(pair.ours, text);
    pair.settle();
    assert!(pair.peer_error.is_none());
}

#[test]
fn used_up_keys_of_tls12_end_the_connection() {
    let (provider, version, _) = providers()
        .into_iter()
        .find(|(_, version, name)| {
            version.version == rustls::ProtocolVersion::TLSv1_2 && name.contains("GCM")
        })
        .unwrap();
    let peer = rustls_client_connection(rustls_client(provider, version));
    let mut pair = Pair::serving(&server(), peer);
    pair.tls.update_keys_after(8);
    pair.settle();
    let mut wrote = 0;
    while pair.tls.write(pair.conn, &[IoSlice::new(b"x")]) == Write::Wrote(1) {
        wrote += 1;
    }
    pair.settle();
    assert!((3..8).contains(&wrote), "{wrote}");
    assert!(pair.peer_saw_end);
    assert_eq!(pair.theirs.len(), wrote);
}

#[test]
fn damage_is_answered_with_an_alert() {
    for (provider, version, suite) in providers() {
        let peer = rustls_client_connection(rustls_client(provider, version));
        let mut pair = Pair::serving(&server(), peer);
        pair.settle();
        pair.peer_writes(b"good");
        pair.turn();
        pair.settle();
        pair.peer_writes(b"evil");
        let mut bytes = Vec::new();
        pair.peer.write_tls(&mut bytes).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        pair.fake.with(pair.conn, |link| link.to_us.extend(&bytes));
        pair.settle();
        assert_eq!(pair.ours, b"good");
        assert_eq!(pair.last_read, Read::Failed(io::ErrorKind::InvalidData));
        let alert = rustls::Error::AlertReceived(rustls::AlertDescription::BadRecordMac);
        assert_eq!(pair.peer_error, Some(alert), "{suite}");
        pair.tls.close(pair.conn, Close::Reset);
        let how = pair.fake.with(pair.conn, |link| link.closed);
        assert_eq!(how, Some(Close::Graceful), "the alert shall arrive");
        assert_eq!(pair.tls.counters().statistics().faults, 1);
    }
}

#[test]
fn an_end_without_close_notify_is_a_cut() {
    let (provider, version, _) = providers().remove(0);
    let peer = rustls_client_connection(rustls_client(provider, version));
    let mut pair = Pair::serving(&server(), peer);
    pair.settle();
    pair.peer_writes(b"half");
    pair.settle();
    pair.fake.with(pair.conn, |link| link.to_us_ended = true);
    pair.settle();
    assert_eq!(pair.ours, b"half");
    assert_eq!(pair.last_read, Read::Failed(io::ErrorKind::UnexpectedEof));
    assert_eq!(pair.tls.counters().statistics().truncated, 1);
}

#[test]
fn application_protocols_must_agree() {
    let cases: &[(&[&[u8]], bool)] =
        &[(&[], true), (&[b"http/1.1"], true), (&[b"h2", b"http/1.1"], true), (&[b"h2"], false)];
    for (offered, agrees) in cases {
        let (provider, version, _) = providers().remove(0);
        let mut config = rustls_client(provider, version);
        config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
        let mut pair = Pair::serving(&server(), rustls_client_connection(config));
        pair.settle();
        assert_eq!(pair.established(), *agrees, "{:?}", pair.peer_error);
        if !agrees {
            let alert = rustls::AlertDescription::NoApplicationProtocol;
            assert_eq!(pair.peer_error, Some(rustls::Error::AlertReceived(alert)));
            let reason = io::ErrorKind::InvalidData;
            let conn = pair.conn;
            assert!(pair.events.contains(&Event::Closed { conn, reason }));
            assert_eq!(pair.tls.counters().statistics().failed_no_agreement, 1);
        }
    }
}

#[test]
fn plain_http_is_told_where_it_is() {
    let fake = Fake::default();
    let mut tls = tls::Tls::new(fake.clone());
    tls.serve(0, &server());
    let conn = fake.accept(0);
    fake.with(conn, |link| link.to_us.extend(b"GET / HTTP/1.1\r\n"));
    let mut events = Vec::new();
    for _ in 0..3 {
        tls.poll(Some(std::time::Duration::ZERO), &mut events).unwrap();
    }
    let (answer, closed) = fake.with(conn, |link| (link.from_us.clone(), link.closed));
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{}", body.len());
    assert_eq!(closed, Some(Close::Graceful));
    let reason = io::ErrorKind::InvalidData;
    assert_eq!(events.last(), Some(&Event::Closed { conn, reason }));
    assert_eq!(tls.counters().statistics().failed_plain_http, 1);
}

/// Whatever comes instead of a handshake ends in an alert, however it is cut, and never in a panic.
#[test]
fn garbage_instead_of_a_handshake() {
    let server = server();
    let (provider, version, _) = providers().remove(0);
    let mut peer = rustls_client_connection(rustls_client(provider, version));
    let mut hello = Vec::new();
    peer.write_tls(&mut hello).unwrap();
    let mut inputs = vec![
        b"\x80nothing that anybody speaks".to_vec(),
        vec![22, 3, 1, 0, 0],
        vec![22, 3, 1, 0xff, 0xff],
        vec![23, 3, 3, 0, 1, 0],
        vec![21, 3, 3, 0, 2, 2, 40],
        vec![22; 30_000],
        [&hello[..], &hello].concat(),
        [&hello[..], &[23, 3, 3, 0, 20], &[7; 20]].concat(),
    ];
    for place in (0..hello.len()).step_by(3) {
        let mut damaged = hello.clone();
        damaged[place] ^= 0x55;
        inputs.push(damaged);
    }
    for input in &inputs {
        for chunk in [usize::MAX, 100, 1] {
            let fake = Fake::default();
            let mut tls = tls::Tls::new(fake.clone());
            tls.serve(0, &server);
            let conn = fake.accept(0);
            let mut events = Vec::new();
            for piece in input.chunks(chunk.min(input.len())) {
                fake.with(conn, |link| link.to_us.extend(piece));
                for _ in 0..3 {
                    tls.poll(Some(std::time::Duration::ZERO), &mut events).unwrap();
                }
            }
            fake.with(conn, |link| link.to_us_ended = true);
            for _ in 0..3 {
                tls.poll(Some(std::time::Duration::ZERO), &mut events).unwrap();
            }
            assert!(matches!(events.last(), Some(Event::Closed { .. })), "{input:?}");
            let statistics = tls.counters().statistics();
            assert_eq!((statistics.state_bytes, statistics.buffer_bytes), (0, 0));
        }
    }
}

/// The last message of a handshake needs no write of its own if there is data, and does not wait
/// for it.
#[test]
fn the_end_of_a_handshake_goes_with_the_first_text() {
    let server = server();
    for answers in [true, false] {
        let (provider, version, _) = providers().remove(0);
        let config = std::sync::Arc::new(rustls_client(provider.clone(), version));
        let connect =
            || rustls::ClientConnection::new(config.clone(), "localhost".try_into().unwrap());
        let mut pair = Pair::serving(&server, connect().unwrap().into());
        pair.turn();
        assert_eq!(*pair.fake.writes.borrow(), 1, "the server's flight");
        pair.peer_writes(b"request");
        while pair.ours.is_empty() {
            pair.turn();
        }
        if answers {
            pair.we_write(b"answer");
        } else {
            pair.turn();
        }
        assert_eq!(*pair.fake.writes.borrow(), 2, "answers: {answers}");
        pair.settle();
        assert_eq!(pair.theirs, if answers { &b"answer"[..] } else { b"" });
        let mut again = Pair::serving(&server, connect().unwrap().into());
        again.settle();
        let kind = again.peer.handshake_kind();
        assert_eq!(kind, Some(rustls::HandshakeKind::Resumed), "the ticket came");

        let peer = rustls_server_connection(rustls_server(provider, version));
        let mut pair = Pair::asking(&client(false, false), peer);
        while !pair.events.contains(&Event::Connected(pair.conn)) {
            pair.turn();
        }
        if answers {
            pair.we_write(b"request");
        } else {
            pair.turn();
        }
        assert_eq!(*pair.fake.writes.borrow(), 2, "hello and the end");
        pair.settle();
        assert!(pair.established());
        assert_eq!(pair.theirs, if answers { &b"request"[..] } else { b"" });
    }
}

/// Suites are taken in our order, not in the client's.
#[test]
fn the_server_chooses_the_suite() {
    let default = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    for (version, expected) in [
        (&rustls::version::TLS13, "TLS13_AES_128_GCM_SHA256"),
        (&rustls::version::TLS12, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ] {
        let peer = rustls_client_connection(rustls_client(default.clone(), version));
        let mut pair = Pair::serving(&server(), peer);
        pair.settle();
        let suite = pair.peer.negotiated_cipher_suite().unwrap().suite();
        assert_eq!(format!("{suite:?}"), expected);
    }
}

/// A second connection comes back with the first one's ticket, also over another thread's `Tls`.
#[test]
fn tickets_resume() {
    let server = server();
    for (provider, version, suite) in providers() {
        let config = std::sync::Arc::new(rustls_client(provider, version));
        for expected in [
            rustls::HandshakeKind::Full,
            rustls::HandshakeKind::Resumed,
            rustls::HandshakeKind::Resumed,
        ] {
            let name = "localhost".try_into().unwrap();
            let peer = rustls::ClientConnection::new(config.clone(), name).unwrap();
            let mut pair = Pair::serving(&server, peer.into());
            pair.settle();
            assert_eq!(pair.peer.handshake_kind(), Some(expected), "{suite}");
            pair.peer_writes(b"hello");
            pair.settle();
            assert_eq!(pair.ours, b"hello");
            let statistics = pair.tls.counters().statistics();
            let resumed = u64::from(expected == rustls::HandshakeKind::Resumed);
            assert_eq!(statistics.handshakes_resumed, resumed);
        }
    }
    for tls12_only in [false, true] {
        let client = client(tls12_only, true);
        for resumed in [0, 1, 1] {
            let (mut asking, mut serving) = both_ends(&client, &server);
            cross(&mut asking, &mut serving, 20);
            assert_eq!(asking.0.counters().statistics().handshakes_resumed, resumed);
            assert_eq!(serving.0.counters().statistics().handshakes_resumed, resumed);
        }
    }
}

type End = (tls::Tls<Fake>, Fake, net::Conn);

fn both_ends(client: &tls::Client, server: &tls::Server) -> (End, End) {
    let (near, far) = (Fake::default(), Fake::default());
    let mut asking = tls::Tls::new(near.clone());
    let mut serving = tls::Tls::new(far.clone());
    serving.serve(0, server);
    let (conn, accepted) = (near.connect(), far.accept(0));
    asking.start(conn, client, "localhost").unwrap();
    ((asking, near, conn), (serving, far, accepted))
}

/// Carries bytes between two ends of ours, and reads both.
fn cross(asking: &mut End, serving: &mut End, turns: usize) {
    let mut events = Vec::new();
    for _ in 0..turns {
        for (from, to) in [(&*asking, &*serving), (&*serving, &*asking)] {
            let bytes = from.1.with(from.2, |link| std::mem::take(&mut link.from_us));
            to.1.with(to.2, |link| link.to_us.extend(bytes));
        }
        for end in [&mut *asking, &mut *serving] {
            events.clear();
            end.0.poll(Some(std::time::Duration::ZERO), &mut events).unwrap();
            if events.contains(&Event::Readable(end.2)) {
                assert_eq!(end.0.read(end.2, &mut [0; 1 << 16]), Read::Blocked);
            }
        }
    }
}

#[test]
fn handshakes_are_bounded_in_a_turn_and_others_pass_through() {
    let fake = Fake::default();
    let mut tls = tls::Tls::new(fake.clone());
    tls.serve(1, &server());
    let count = 3 * tls::HANDSHAKES_TURN_MAX;
    let conns: Vec<_> = (0..count).map(|_| fake.accept(1)).collect();
    let plain = fake.accept(0);
    for conn in conns.iter().chain([&plain]) {
        fake.with(*conn, |link| link.to_us.extend(b"GET / HTTP/1.1\r\n"));
    }
    let mut events = Vec::new();
    for turn in 1..=3 {
        events.clear();
        tls.poll(Some(std::time::Duration::ZERO), &mut events).unwrap();
        let closed = |event: &&Event| matches!(event, Event::Closed { .. });
        assert_eq!(events.iter().filter(closed).count(), tls::HANDSHAKES_TURN_MAX);
        assert_eq!(events.contains(&Event::Readable(plain)), turn == 1);
    }
    assert_eq!(tls.read(plain, &mut [0; 100]), Read::Data(16));
    assert_eq!(tls.counters().statistics().failed_plain_http, count as u64);
}
