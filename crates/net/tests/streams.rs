//! The rules of `Net` on real sockets over loopback.

mod harness;

use std::io::{self, ErrorKind, IoSlice, Read as _, Write as _};
use std::net::{Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use harness::{PATIENCE, Side, loopback, options, pair};
use net::kernel::{
    ConnectOptions, Handover, Kernel, KernelOptions, ListenOptions, Waker, check_free,
};
use net::{Close, Conn, Event, Net, Read, Wake, Write};

#[test]
fn bytes_go_both_ways_and_readiness_is_said_once() {
    let (mut server, mut client) = (Side::new(), Side::new());
    let address = server.listen();
    let (outgoing, incoming) = pair(&mut client, &mut server, address);

    let parts = [IoSlice::new(b"one "), IoSlice::new(b""), IoSlice::new(b"two")];
    assert_eq!(client.net.write(outgoing, &parts), Write::Wrote(7));
    server.expect(Event::Readable(incoming));
    let mut small = [0; 4];
    assert_eq!(server.net.read(incoming, &mut small), Read::Data(4));
    assert_eq!(&small, b"one ");
    // The buffer was filled: it stays readable, and is not announced again.
    client.write_all(outgoing, b" three");
    server.expect_silence();
    assert_eq!(server.read_exactly(incoming, 9), b"two three");
    server.write_all(incoming, b"answer");
    client.expect(Event::Readable(outgoing));
    let mut large = [0; 64];
    assert_eq!(client.net.read(outgoing, &mut large), Read::Data(6));
    // A short read: what comes next is announced without another read.
    server.write_all(incoming, b"more");
    client.expect(Event::Readable(outgoing));
    assert_eq!(client.net.read(outgoing, &mut large), Read::Data(4));
    assert_eq!(client.net.read(outgoing, &mut large), Read::Blocked);
    client.expect_silence();
    server.expect_silence();
}

#[test]
fn nothing_to_write_is_written() {
    let (mut server, mut client) = (Side::new(), Side::new());
    let address = server.listen();
    let (outgoing, _) = pair(&mut client, &mut server, address);
    assert_eq!(client.net.write(outgoing, &[]), Write::Wrote(0));
    assert_eq!(client.net.write(outgoing, &[IoSlice::new(b"")]), Write::Wrote(0));
    client.expect_silence();
}

#[test]
fn more_parts_than_one_call_takes_are_written_in_order() {
    let (mut server, mut client) = (Side::new(), Side::new());
    let address = server.listen();
    let (outgoing, incoming) = pair(&mut client, &mut server, address);
    let bytes: Vec<[u8; 2]> = (0..3000u16).map(u16::to_be_bytes).collect();
    let parts: Vec<IoSlice<'_>> = bytes.iter().map(|two| IoSlice::new(two)).collect();
    assert_eq!(client.net.write(outgoing, &parts), Write::Wrote(6000));
    assert_eq!(server.read_exactly(incoming, 6000), bytes.concat());
}

#[test]
fn the_peer_is_named() {
    let (mut server, mut client) = (Side::new(), Side::new());
    let address = server.listen();
    let local = SocketAddr::from(([127, 0, 7, 1], 0));
    let options = ConnectOptions { local: Some(local), ..ConnectOptions::default() };
    client.net.connect(address, &options).expect("begun");
    let (_, peer) = server.accepted();
    assert_eq!(peer.ip(), local.ip());

    // An explicit source port, of a socket that was there a moment ago.
    let free = TcpListener::bind("127.0.7.2:0").expect("a port").local_addr().expect("bound");
    let options = ConnectOptions { local: Some(free), ..ConnectOptions::default() };
    client.net.connect(address, &options).expect("begun");
    assert_eq!(server.accepted().1, free);
}

#[test]
fn ipv6_listens_and_takes_ipv4_too() {
    let (mut server, mut client) = (Side::new(), Side::new());
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let Ok((0, address)) = server.net.listen(&ListenOptions::new(any)) else {
        panic!("IPv6 is needed on the machine that tests");
    };
    for target in ["127.0.0.1", "::1"] {
        let target = SocketAddr::new(target.parse().expect("an address"), address.port());
        client.connect(target);
        assert_eq!(server.accepted().1.ip(), target.ip());
    }
    let local = Some(SocketAddr::from((Ipv6Addr::LOCALHOST, 0)));
    let target = SocketAddr::from((Ipv6Addr::LOCALHOST, address.port()));
    let options = ConnectOptions { local, ..ConnectOptions::default() };
    client.net.connect(target, &options).expect("begun");
    assert_eq!(server.accepted().1.ip(), target.ip());
}

#[test]
fn listeners_are_numbered_and_a_taken_port_is_noticed() {
    let (mut server, mut client) = (Side::new(), Side::new());
    // Of an address that no other test listens at, as its port has to be free again.
    let own = SocketAddr::from(([127, 0, 7, 3], 0));
    let (_, first) = server.net.listen(&ListenOptions::new(own)).expect("a port");
    let (number, second) = server.net.listen(&ListenOptions::new(loopback())).expect("a port");
    assert_eq!(number, 1);
    client.connect(second);
    assert!(matches!(server.next(), Event::Accepted { listener: 1, .. }));
    assert_eq!(check_free(first).map_err(|error| error.kind()), Err(ErrorKind::AddrInUse));
    server.net.close_listeners();
    assert!(check_free(first).is_ok());
}

#[test]
fn half_close_ends_one_direction_only() {
    let (mut server, mut client) = (Side::new(), Side::new());
    let address = server.listen();
    let (outgoing, incoming) = pair(&mut client, &mut server, address);
    client.write_all(outgoing, b"last words");
    client.net.shutdown_write(outgoing);
    server.expect(Event::Readable(incoming));
    let mut buffer = [0; 64];
    // Bytes and end may both be there. The short read hides the end, so it is announced again.
    assert_eq!(server.net.read(incoming, &mut buffer), Read::Data(10));
    server.expect(Event::Readable(incoming));
    assert_eq!(server.net.read(incoming, &mut buffer), Read::Ended);
    assert_eq!(server.net.read(incoming, &mut buffer), Read::Ended);
    server.expect_silence();
    server.write_all(incoming, b"still open");
    assert_eq!(client.read_exactly(outgoing, 10), b"still open");
    assert_eq!(
        client.net.write(outgoing, &[IoSlice::new(b"x")]),
        Write::Failed(ErrorKind::BrokenPipe)
    );
    server.net.close(incoming, Close::Graceful);
    server.turn();
    client.expect(Event::Readable(outgoing));
    assert_eq!(client.net.read(outgoing, &mut buffer), Read::Ended);
    assert_eq!(server.statistics().closed, 1, "both ended: nothing to linger for");
}

#[test]
fn an_end_that_was_announced_with_bytes_is_announced_again_after_a_short_read() {
    let (mut server, mut client) = (Side::new(), Side::new());
    let address = server.listen();
    let (outgoing, incoming) = pair(&mut client, &mut server, address);
    client.write_all(outgoing, b"bytes");
    server.expect(Event::Readable(incoming));
    client.net.close(outgoing, Close::Graceful);
    client.turn();
    // The edge of the end comes while the connection counts as readable: nothing new to say yet.
    server.expect_silence();
    let mut buffer = [0; 64];
    assert_eq!(server.net.read(incoming, &mut buffer), Read::Data(5));
    server.expect(Event::Readable(incoming));
    assert_eq!(server.net.read(incoming, &mut buffer), Read::Ended);
    server.expect_silence();
}

#[test]
fn a_reset_is_reported_as_closed_and_the_key_is_dead() {
    let (mut server, mut client) = (Side::new(), Side::new());
    let address = server.listen();
    let (outgoing, incoming) = pair(&mut client, &mut server, address);
    client.net.close(outgoing, Close::Reset);
    client.turn();
    server.expect(Event::Closed { conn: incoming, reason: ErrorKind::ConnectionReset });
    let dead = ErrorKind::NotConnected;
    assert_eq!(server.net.read(incoming, &mut [0; 8]), Read::Failed(dead));
    assert_eq!(server.net.write(incoming, &[IoSlice::new(b"x")]), Write::Failed(dead));
    server.net.shutdown_write(incoming);
    server.net.close(incoming, Close::Graceful);
    server.expect_silence();
    assert_eq!((client.statistics().closed, server.statistics().closed), (1, 1));
}

/// Reads ten bytes, and the loss behind them.
fn read_to_the_loss(server: &mut Side, incoming: Conn) {
    let mut buffer = [0; 64];
    assert_eq!(server.net.read(incoming, &mut buffer), Read::Data(10));
    server.expect(Event::Readable(incoming));
    let lost = Read::Failed(ErrorKind::ConnectionReset);
    assert_eq!(server.net.read(incoming, &mut buffer), lost);
}

#[test]
fn bytes_before_a_reset_are_read() {
    let (mut server, mut client) = (Side::new(), Side::new());
    let address = server.listen();
    // The server knows of the bytes before it knows of the reset, or not.
    for is_told in [true, false] {
        let (outgoing, incoming) = pair(&mut client, &mut server, address);
        client.write_all(outgoing, b"last words");
        if is_told {
            server.expect(Event::Readable(incoming));
        }
        client.net.close(outgoing, Close::Reset);
        client.turn();
        if is_told {
            server.expect_silence();
        } else {
            server.expect(Event::Readable(incoming));
        }
        assert_eq!(server.net.write(incoming, &[IoSlice::new(b"lost")]), Write::Wrote(4));
        read_to_the_loss(&mut server, incoming);
        server.net.close(incoming, Close::Reset);
        server.expect_silence();
    }
    assert_eq!(server.statistics().closed, 2);
}

#[test]
fn a_write_that_finds_a_reset_leaves_the_bytes_before_it() {
    let (mut server, mut client) = (Side::new(), Side::new());
    let address = server.listen();
    let (outgoing, incoming) = pair(&mut client, &mut server, address);
    client.write_all(outgoing, b"last words");
    client.net.close(outgoing, Close::Reset);
    client.turn();
    // Epoll has not reported the loss yet.
    for _ in 0..2 {
        assert_eq!(server.net.write(incoming, &[IoSlice::new(b"lost")]), Write::Wrote(4));
    }
    server.expect(Event::Readable(incoming));
    read_to_the_loss(&mut server, incoming);
    server.net.close(incoming, Close::Reset);
    server.expect_silence();
}

#[test]
fn a_writer_that_waits_for_room_goes_on_after_a_reset() {
    let (mut server, mut client) = (Side::new(), Side::new());
    let address = server.listen();
    let small = Some(4096);
    let options = ConnectOptions { socket_receive_bytes: small, ..ConnectOptions::default() };
    let outgoing = client.net.connect(address, &options).expect("begun");
    client.expect(Event::Connected(outgoing));
    let (incoming, _) = server.accepted();
    while let Write::Wrote(_) = server.net.write(incoming, &[IoSlice::new(&[7; 1 << 16])]) {}
    client.write_all(outgoing, b"last words");
    server.expect(Event::Readable(incoming));
    client.net.close(outgoing, Close::Reset);
    client.turn();
    server.expect(Event::Writable(incoming));
    let more = [7; 1 << 16];
    assert_eq!(server.net.write(incoming, &[IoSlice::new(&more)]), Write::Wrote(more.len()));
    read_to_the_loss(&mut server, incoming);
}

#[test]
fn nobody_listens() {
    let mut client = Side::new();
    // A port without a listener.
    let free = SocketAddr::from(([127, 0, 0, 1], 1));
    match client.net.connect(free, &ConnectOptions::default()) {
        Ok(conn) => client.expect(Event::Closed { conn, reason: ErrorKind::ConnectionRefused }),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionRefused),
    }
    let elsewhere = SocketAddr::from(([203, 0, 113, 1], 0));
    let options = ConnectOptions { local: Some(elsewhere), ..ConnectOptions::default() };
    let refused = client.net.connect(free, &options).map_err(|error| error.kind());
    assert_eq!(refused, Err(ErrorKind::AddrNotAvailable));
}

#[test]
fn a_peer_that_does_not_read_blocks_the_writer_until_it_does() {
    let (mut server, mut client) = (Side::new(), Side::new());
    let address = server.listen();
    let small = Some(4096);
    let options = ConnectOptions { socket_receive_bytes: small, ..ConnectOptions::default() };
    let outgoing = client.net.connect(address, &options).expect("begun");
    client.expect(Event::Connected(outgoing));
    let (incoming, _) = server.accepted();
    let bytes: Vec<u8> = (0..4_000_000u32).map(|i| (i % 251) as u8).collect();
    let mut first = 0;
    while let Write::Wrote(count) = server.net.write(incoming, &[IoSlice::new(&bytes[first..])]) {
        first += count;
        assert!(first < 500_000, "the send buffer is set: {first}");
    }
    let (mut sent, mut received, mut waits) = (first, Vec::new(), 0);
    let mut buffer = vec![0; 1 << 16];
    while received.len() < bytes.len() {
        match client.net.read(outgoing, &mut buffer) {
            Read::Data(count) => received.extend_from_slice(&buffer[..count]),
            Read::Blocked => {
                // Everything that was written has been read, or is on its way.
                if sent < bytes.len() {
                    server.poll(Some(Duration::from_millis(1)));
                    if let Some(event) = server.waiting.pop_front() {
                        assert_eq!(event, Event::Writable(incoming));
                        waits += 1;
                        match server.net.write(incoming, &[IoSlice::new(&bytes[sent..])]) {
                            Write::Wrote(count) => sent += count,
                            Write::Blocked => {}
                            failed => panic!("{failed:?} after Writable"),
                        }
                    }
                }
                client.poll(Some(Duration::from_millis(1)));
                client.waiting.clear();
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(received == bytes, "the same bytes in the same order");
    assert!(waits > 1, "{waits}");
    server.expect_silence();
}

#[test]
fn an_index_is_not_reused_in_the_same_turn_and_never_under_the_same_key() {
    let (mut server, mut client) = (Side::new(), Side::new());
    let address = server.listen();
    let (first_out, first_in) = pair(&mut client, &mut server, address);
    client.net.close(first_out, Close::Reset);
    let second_out = client.connect(address);
    assert_ne!(second_out.index, first_out.index, "closed only in the next poll");
    client.expect(Event::Connected(second_out));
    let third_out = client.connect(address);
    assert_eq!(third_out.index, first_out.index);
    assert_ne!(third_out.generation, first_out.generation);
    assert_eq!(client.net.read(first_out, &mut [0; 8]), Read::Failed(ErrorKind::NotConnected));
    client.net.close(first_out, Close::Reset);
    client.expect(Event::Connected(third_out));
    // The server sees one lost and two new, whatever comes first.
    let (mut accepted, mut closed) = (0, 0);
    while accepted < 2 || closed < 1 {
        match server.next() {
            Event::Accepted { conn, .. } => {
                assert_ne!(conn, first_in);
                accepted += 1;
            }
            Event::Closed { conn, .. } => {
                assert_eq!(conn, first_in);
                closed += 1;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn no_event_appears_for_a_key_after_close() {
    let (mut server, mut client) = (Side::new(), Side::new());
    let address = server.listen();
    let (outgoing, incoming) = pair(&mut client, &mut server, address);
    for how in [Close::Graceful, Close::Reset] {
        server.net.close(incoming, how);
    }
    client.write_all(outgoing, b"too late");
    server.expect_silence();
    client.net.close(outgoing, Close::Reset);
    client.turn();
    server.expect_silence();
}

#[test]
fn a_graceful_close_delivers_what_was_written_although_the_peer_still_sends() {
    let (mut server, mut client) = (Side::new(), Side::new());
    let address = server.listen();
    let mut peer = TcpStream::connect(address).expect("connected");
    let (incoming, _) = server.accepted();
    peer.write_all(&[7; 20_000]).expect("room");
    server.expect(Event::Readable(incoming));
    server.write_all(incoming, b"413 and good bye");
    server.net.close(incoming, Close::Graceful);
    server.turn();
    // More comes after the end: a plain close would answer it with a reset.
    peer.write_all(&[8; 20_000]).expect("discarded, not reset");
    server.turn();
    let mut answer = String::new();
    peer.read_to_string(&mut answer).expect("an orderly end");
    assert_eq!(answer, "413 and good bye");
    assert_eq!(server.statistics().closed, 0);
    peer.shutdown(Shutdown::Write).expect("ended");
    for _ in 0..100 {
        server.poll(Some(Duration::from_millis(100)));
        if server.statistics().closed == 1 {
            break;
        }
    }
    assert_eq!(server.statistics().closed, 1, "the peer's end ends it");
    client.expect_silence();
}

#[test]
fn a_peer_that_never_ends_is_cut_off() {
    let (mut server, _peers) = close_four(Duration::from_millis(20), 4);
    // The waits end by the deadline, with nothing to tell.
    while server.statistics().closed < 4 {
        server.poll(Some(PATIENCE));
        assert_eq!(server.waiting, []);
    }
}

#[test]
fn only_so_many_may_linger() {
    let (server, _peers) = close_four(Duration::from_secs(60), 3);
    assert_eq!(server.statistics().closed, 1);
}

/// Closes four connections gracefully whose peers do nothing.
fn close_four(linger_timeout: Duration, lingering_max: usize) -> (Side, Vec<TcpStream>) {
    let options = KernelOptions { linger_timeout, lingering_max, ..options() };
    let mut server = Side::with(options, Handover::alone());
    let address = server.listen();
    let peers: Vec<TcpStream> =
        (0..4).map(|_| TcpStream::connect(address).expect("connected")).collect();
    let keys: Vec<_> = peers.iter().map(|_| server.accepted().0).collect();
    for key in keys {
        server.net.close(key, Close::Graceful);
    }
    server.turn();
    (server, peers)
}

#[test]
fn wakes_are_joined_and_none_is_lost() {
    let waker = Waker::new().expect("an eventfd");
    let kernel = Kernel::new(options(), waker.clone(), Handover::alone());
    let mut side = Side::on(kernel.expect("an epoll"));
    side.expect_silence();
    for _ in 0..3 {
        waker.wake();
        waker.wake();
        side.expect(Event::Woken);
        side.expect_silence();
    }
    let other = thread::spawn(move || waker.wake());
    side.expect(Event::Woken);
    other.join().expect("the thread ends");
}

#[test]
fn no_connection_is_taken_while_paused() {
    let (mut server, mut client) = (Side::new(), Side::new());
    let address = server.listen();
    server.net.pause_accepting();
    let outgoing = client.connect(address);
    client.expect(Event::Connected(outgoing));
    server.expect_silence();
    server.net.resume_accepting();
    server.accepted();
}

/// A client whose handshake has completed is accepted, even after the end of listening has begun;
/// then the listener is closed.
#[test]
fn the_end_of_listening_loses_no_connection() {
    let options = KernelOptions { accept_batch_max: 3, ..options() };
    let mut server = Side::with(options, Handover::alone());
    let address = server.listen();
    let peers: Vec<TcpStream> =
        (0..20).map(|_| TcpStream::connect(address).expect("connected")).collect();
    server.net.pause_accepting();
    server.net.stop_accepting();
    let late = thread::spawn(move || TcpStream::connect_timeout(&address, PATIENCE));
    for _ in &peers {
        server.accepted();
    }
    // Its first packet was dropped, and sent again after the listener was closed: that takes a
    // second.
    while !late.is_finished() {
        server.poll(Some(Duration::from_millis(50)));
    }
    let refused = late.join().expect("the thread ends");
    assert_eq!(refused.map_err(|error| error.kind()).err(), Some(ErrorKind::ConnectionRefused));
    assert_eq!(server.statistics().accepted, 20);
}

/// Waits until so many connections to a listener are established at its end, too, which may be a
/// moment after their clients say so.
fn await_queued(listener: SocketAddr, count: usize) {
    let end = format!(":{:04X}", listener.port());
    let is_queued = |line: &&str| {
        let mut words = line.split_whitespace().skip(1);
        let local = words.next().is_some_and(|local| local.ends_with(&end));
        local && words.nth(1) == Some("01")
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let table = std::fs::read_to_string("/proc/thread-self/net/tcp").expect("the table");
        if table.lines().filter(is_queued).count() >= count {
            return;
        }
        assert!(Instant::now() < deadline, "they are not established");
        thread::yield_now();
    }
}

#[test]
fn one_poll_accepts_a_bounded_number() {
    let options = KernelOptions { accept_batch_max: 3, ..options() };
    let mut server = Side::with(options, Handover::alone());
    let address = server.listen();
    let peers: Vec<TcpStream> =
        (0..7).map(|_| TcpStream::connect(address).expect("connected")).collect();
    await_queued(address, peers.len());
    let mut batches = Vec::new();
    while batches.iter().sum::<usize>() < peers.len() {
        server.poll(Some(PATIENCE));
        batches.push(server.waiting.drain(..).count());
    }
    assert_eq!(batches, [1, 2, 3, 1]);
    assert_eq!(server.statistics().accepted, 7);
}

#[test]
fn a_connection_beyond_the_limit_is_refused_by_name() {
    let options = KernelOptions { connections_max: 1, ..options() };
    let mut client = Side::with(options, Handover::alone());
    let mut server = Side::new();
    let address = server.listen();
    let (outgoing, _) = pair(&mut client, &mut server, address);
    let refused: io::Result<_> = client.net.connect(address, &ConnectOptions::default());
    assert_eq!(refused.map_err(|error| error.kind()), Err(ErrorKind::QuotaExceeded));
    client.net.close(outgoing, Close::Reset);
    client.turn();
    client.connect(address);
}
