//! `Tls` against rustls in random interleavings: reads and writes cut down to single bytes, sockets
//! that take nothing, ends in order, cuts, resets and damage at any point, new keys; both sides,
//! both versions, full and resumed.
//!
//! Invariants: every byte arrives, in order, or the connection fails with a reason; events come
//! as `net` promises them; and when it is over, nothing is left behind.

mod support;

use net::{Close, Conn, Event, Net, Read, Write};
use proptest::prelude::*;
use rustls::{ClientConnection, Connection, HandshakeKind, ServerConnection};
use std::collections::VecDeque;
use std::io::{self, IoSlice, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stdx::handing::Input;
use support::*;
use tls::Tls;

/// Well below what `Tls` grants a closed connection for its last record.
const SOON: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
enum Step {
    Poll,
    /// With a buffer of so many bytes.
    Read(usize),
    /// So many bytes, in two parts.
    Write(usize),
    /// The socket takes so many bytes more, and gives at most so many at a time.
    Socket(usize, usize),
    PeerWrites(usize),
    /// So many bytes of the peer's arrive, or of ours.
    ToUs(usize),
    ToPeer(usize),
    /// The peer takes new keys and wants new ones of us, where there is such a thing.
    PeerUpdates,
    /// Continues in another process, if we are a server and no handshake has begun.
    HandOver,
    End(End),
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    /// `close_notify`, of the peer and of ours.
    PeerEnds,
    WeShut,
    /// The end of the peer's stream, without or behind a `close_notify`.
    Cut,
    Reset,
    Close(Close),
    /// One byte under way to us, or to the peer, is not what it was.
    DamageToUs(usize),
    DamageToPeer(usize),
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 1usize..20,
        2 => 1usize..3_000,
        1 => 16_000usize..17_500,
        1 => 1usize..120_000,
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => Just(Step::Poll),
        6 => size().prop_map(Step::Read),
        5 => size().prop_map(Step::Write),
        3 => (prop_oneof![Just(0), size(), Just(usize::MAX)], size())
            .prop_map(|(room, read_max)| Step::Socket(room, read_max)),
        4 => size().prop_map(Step::PeerWrites),
        8 => size().prop_map(Step::ToUs),
        8 => size().prop_map(Step::ToPeer),
        1 => Just(Step::PeerUpdates),
        1 => Just(Step::HandOver),
        1 => end().prop_map(Step::End),
    ]
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        2 => Just(End::PeerEnds),
        2 => Just(End::WeShut),
        1 => Just(End::Cut),
        1 => Just(End::Reset),
        1 => Just(End::Close(Close::Graceful)),
        1 => Just(End::Close(Close::Reset)),
        1 => any::<usize>().prop_map(End::DamageToUs),
        1 => any::<usize>().prop_map(End::DamageToPeer),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_byte_arrives_or_it_fails(
        is_server: bool,
        resumes: bool,
        suite in 0usize..6,
        updates: bool,
        chunk in prop_oneof![Just(1usize), Just(7), Just(usize::MAX)],
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut talk = Talk::new(is_server, resumes, suite, updates);
        // Most of the time there is a handshake to begin with.
        if steps.len() % 4 != 0 {
            talk.settle(usize::MAX);
            talk.check_handshake(resumes);
        }
        for step in steps {
            talk.step(step);
        }
        talk.finish(chunk);
    }
}

struct Talk {
    tls: Tls<Fake>,
    fake: Fake,
    conn: Conn,
    is_server: bool,
    updates: bool,
    peer: Connection,
    peer_error: Option<rustls::Error>,
    peer_saw_end: bool,
    /// The peer's records that have not arrived.
    wire: VecDeque<u8>,
    sent_by_peer: Vec<u8>,
    sent_by_us: Vec<u8>,
    ours: Vec<u8>,
    theirs: Vec<u8>,
    seed: u64,
    is_readable: bool,
    may_write: bool,
    /// The last results of reads, and the reason of `Closed`.
    ended: bool,
    failed: Option<io::ErrorKind>,
    closed: Option<io::ErrorKind>,
    ends: Vec<End>,
    closed_at: Option<Instant>,
}

impl Talk {
    fn new(is_server: bool, resumes: bool, suite: usize, updates: bool) -> Talk {
        let (provider, version, _) = providers().swap_remove(suite);
        let is_old = version.version == rustls::ProtocolVersion::TLSv1_2;
        let connect: Box<dyn Fn() -> Pair> = if is_server {
            let server = server();
            let config = Arc::new(rustls_client(provider, version));
            Box::new(move || {
                let name = "localhost".try_into().unwrap();
                let peer = ClientConnection::new(config.clone(), name).unwrap();
                Pair::serving(&server, peer.into())
            })
        } else {
            let client = client(is_old, resumes);
            let config = Arc::new(rustls_server(provider, version));
            Box::new(move || {
                let peer = ServerConnection::new(config.clone()).unwrap();
                Pair::asking(&client, peer.into())
            })
        };
        if resumes {
            // Fetches a ticket.
            let mut first = connect();
            first.settle();
            assert!(first.established());
        }
        let Pair { mut tls, fake, conn, mut peer, .. } = connect();
        peer.set_buffer_limit(None);
        let updates = updates && !is_old;
        if updates {
            tls.update_keys_after(8);
        }
        Talk {
            tls,
            fake,
            conn,
            is_server,
            updates,
            peer,
            peer_error: None,
            peer_saw_end: false,
            wire: VecDeque::new(),
            sent_by_peer: Vec::new(),
            sent_by_us: Vec::new(),
            ours: Vec::new(),
            theirs: Vec::new(),
            seed: 0,
            is_readable: false,
            may_write: false,
            ended: false,
            failed: None,
            closed: None,
            ends: Vec::new(),
            closed_at: None,
        }
    }

    fn check_handshake(&self, resumes: bool) {
        let expected = if resumes { HandshakeKind::Resumed } else { HandshakeKind::Full };
        assert_eq!(self.peer.handshake_kind(), Some(expected));
        assert!(self.is_open());
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Poll => self.poll(),
            Step::Read(length) => self.read(length),
            Step::Write(length) => self.write(length),
            Step::Socket(room, read_max) => self.fake.with(self.conn, |link| {
                link.room = room;
                link.read_max = read_max;
            }),
            Step::PeerWrites(length) => self.peer_writes(length),
            Step::ToUs(count) => self.carry_to_us(count),
            Step::ToPeer(count) => self.carry_to_peer(count),
            Step::PeerUpdates => {
                if self.peer_may_write() && !self.peer.is_handshaking() {
                    // TLS 1.2 has none.
                    let _ = self.peer.refresh_traffic_keys();
                }
            }
            Step::HandOver => self.hand_over(),
            Step::End(end) => self.end(end),
        }
        assert!(self.sent_by_peer.starts_with(&self.ours));
        assert!(self.sent_by_us.starts_with(&self.theirs));
    }

    fn hand_over(&mut self) {
        if !self.is_server || self.tls.handshakes_count() > 0 {
            return;
        }
        let mut bytes = Vec::new();
        self.tls.hand_over(&mut bytes);
        self.tls = Tls::new(self.fake.clone());
        self.tls.serve(0, &server());
        if self.updates {
            self.tls.update_keys_after(8);
        }
        let mut input = Input::new(&bytes);
        assert_eq!(self.tls.take_over(&mut input), Some(()));
        assert_eq!(input.left(), 0);
        self.fake.tell_anew(self.conn);
    }

    fn end(&mut self, end: End) {
        match end {
            End::PeerEnds => {
                // rustls's debug builds mind an alert of it behind its `close_notify`.
                let is_damaged = self.ends.iter().any(|end| matches!(end, End::DamageToPeer(_)));
                if self.peer.is_handshaking() || !self.peer_may_write() || is_damaged {
                    return;
                }
                self.peer.send_close_notify();
            }
            End::WeShut => {
                if self.is_over() || !self.is_open() {
                    return;
                }
                self.tls.shutdown_write(self.conn);
            }
            End::Cut => {}
            End::Reset => self.fake.with(self.conn, |link| link.reset = true),
            End::Close(how) => {
                if self.is_over() {
                    return;
                }
                self.close(how);
            }
            End::DamageToUs(place) => {
                self.collect();
                let Some(place) = place.checked_rem(self.wire.len()) else {
                    return;
                };
                self.wire[place] ^= 0x10;
            }
            End::DamageToPeer(_) if self.has(End::PeerEnds) => return,
            End::DamageToPeer(place) => {
                let is_done = self.fake.with(self.conn, |link| {
                    let place = place.checked_rem(link.from_us.len());
                    place.map(|place| link.from_us[place] ^= 0x10)
                });
                if is_done.is_none() {
                    return;
                }
            }
        }
        self.ends.push(end);
    }

    fn has(&self, end: End) -> bool {
        self.ends.contains(&end)
    }

    fn is_damaged(&self) -> bool {
        let damage = |end: &End| matches!(end, End::DamageToUs(_) | End::DamageToPeer(_));
        self.ends.iter().any(damage)
    }

    fn is_open(&self) -> bool {
        let statistics = self.tls.counters().statistics();
        statistics.open_tls12 + statistics.open_tls13 == 1
    }

    /// Nothing more may be asked of the connection.
    fn is_over(&self) -> bool {
        self.closed.is_some() || self.closed_at.is_some()
    }

    fn poll(&mut self) {
        let mut events = Vec::new();
        let polled = self.tls.poll(Some(Duration::ZERO), &mut events);
        polled.unwrap();
        for event in events {
            assert!(!self.is_over(), "nobody hears of a closed connection: {event:?}");
            match event {
                Event::Accepted { .. } => {}
                Event::Connected(_) => self.may_write = true,
                Event::Readable(_) => {
                    assert!(!self.is_readable, "Readable is said once");
                    self.is_readable = true;
                }
                Event::Writable(_) => {
                    assert!(!self.may_write, "Writable is for who waits");
                    self.may_write = true;
                }
                Event::Closed { reason, .. } => self.closed = Some(reason),
                Event::Woken => panic!("by whom?"),
            }
        }
    }

    fn read(&mut self, length: usize) {
        if !self.is_readable || self.is_over() || self.ended || self.failed.is_some() {
            return;
        }
        let mut buffer = vec![0; length];
        match self.tls.read(self.conn, &mut buffer) {
            Read::Data(count) => {
                // A server writes from the first thing on that it is asked.
                self.may_write |= self.is_server && self.ours.is_empty();
                self.ours.extend_from_slice(&buffer[..count]);
                self.is_readable = count == length;
            }
            Read::Blocked => self.is_readable = false,
            Read::Ended => self.ended = true,
            Read::Failed(kind) => self.failed = Some(kind),
        }
    }

    fn write(&mut self, length: usize) {
        if !self.may_write || self.is_over() || self.has(End::WeShut) {
            return;
        }
        self.seed += 1;
        let text = pattern(length, self.seed);
        let (first, second) = text.split_at(length / 3);
        let parts = [IoSlice::new(first), IoSlice::new(&[]), IoSlice::new(second)];
        match self.tls.write(self.conn, &parts) {
            Write::Wrote(count) => {
                self.sent_by_us.extend_from_slice(&text[..count]);
                self.may_write = count == length;
            }
            Write::Blocked => self.may_write = false,
            Write::Failed(_) => {
                // Of damage the reader may have to hear yet, behind what came before it.
                let has_reason = self.failed.is_some() || self.is_damaged();
                assert!(has_reason || self.has(End::Reset), "writing failed");
                self.may_write = false;
            }
        }
    }

    fn close(&mut self, how: Close) {
        self.tls.close(self.conn, how);
        self.closed_at = Some(Instant::now());
        assert_eq!(
            self.tls.read(self.conn, &mut [0; 9]),
            Read::Failed(io::ErrorKind::NotConnected)
        );
    }

    fn peer_may_write(&self) -> bool {
        self.peer_error.is_none() && !self.has(End::PeerEnds) && !self.has(End::Cut)
    }

    fn peer_writes(&mut self, length: usize) {
        // Before its handshake is done rustls buffers written bytes, and a cut would lose them.
        if self.peer_may_write() && !self.peer.is_handshaking() {
            self.seed += 1;
            let text = pattern(length, self.seed);
            self.peer.writer().write_all(&text).unwrap();
            self.sent_by_peer.extend_from_slice(&text);
        }
    }

    /// The peer's bytes are under way.
    fn collect(&mut self) {
        let mut bytes = Vec::new();
        while self.peer.wants_write() {
            self.peer.write_tls(&mut bytes).unwrap();
        }
        if !self.fake.with(self.conn, |link| link.to_us_ended) {
            self.wire.extend(bytes);
        }
    }

    fn carry_to_us(&mut self, count: usize) {
        self.collect();
        let count = count.min(self.wire.len());
        let bytes: Vec<u8> = self.wire.drain(..count).collect();
        let is_end = self.wire.is_empty() && self.has(End::Cut);
        self.fake.with(self.conn, |link| {
            link.to_us.extend(bytes);
            link.to_us_ended |= is_end;
        });
    }

    fn carry_to_peer(&mut self, count: usize) {
        let bytes: Vec<u8> = self.fake.with(self.conn, |link| {
            let count = count.min(link.from_us.len());
            link.from_us.drain(..count).collect()
        });
        if self.peer_error.is_none() {
            let saw_end = &mut self.peer_saw_end;
            self.peer_error = give(&mut self.peer, &bytes, &mut self.theirs, saw_end).err();
        }
    }

    /// Everything arrives and is read, so many bytes at a time.
    fn settle(&mut self, chunk: usize) {
        self.step(Step::Socket(usize::MAX, chunk));
        let mut quiet = 0;
        while quiet < 3 {
            let before = self.progress();
            self.carry_to_us(chunk);
            self.carry_to_peer(chunk);
            self.poll();
            self.read(60_000);
            quiet = if self.progress() == before { quiet + 1 } else { 0 };
        }
    }

    fn progress(&self) -> (usize, usize, usize, usize, bool, bool) {
        let link = |link: &mut Link| (link.to_us.len(), link.from_us.len());
        let (to_us, from_us) = self.fake.with(self.conn, link);
        (
            self.wire.len() + to_us,
            from_us,
            self.ours.len(),
            self.theirs.len(),
            self.is_readable,
            self.is_over() || self.ended || self.failed.is_some(),
        )
    }

    fn finish(mut self, chunk: usize) {
        self.collect();
        let waiting = self.wire.len() + self.sent_by_us.len() - self.theirs.len();
        self.settle(if waiting < 5_000 { chunk } else { usize::MAX });
        if self.is_damaged() && !self.has(End::Cut) {
            // A length that has grown waits for ever.
            self.end(End::Cut);
            self.settle(usize::MAX);
        }
        let is_intact = !self.is_damaged() && !self.has(End::Reset);
        let was_closed = self.closed_at.is_some();
        let says = format!(
            "ends {:?}, ended {}, failed {:?}, closed {:?}, peer {:?}, {} of {} and {} of {}",
            self.ends,
            self.ended,
            self.failed,
            self.closed,
            self.peer_error,
            self.ours.len(),
            self.sent_by_peer.len(),
            self.theirs.len(),
            self.sent_by_us.len(),
        );
        let is_all_here = self.ours == self.sent_by_peer;
        if is_intact && !was_closed {
            let is_handshaking = self.closed.is_some();
            assert!(is_all_here, "{says}");
            assert_eq!(self.ended, self.has(End::PeerEnds), "{says}");
            let is_cut = self.has(End::Cut) && !self.ended && !is_handshaking;
            let reason = is_cut.then_some(io::ErrorKind::UnexpectedEof);
            assert_eq!(self.failed, reason, "{says}");
            assert!(!is_handshaking || self.has(End::Cut), "{says}");
        } else if !was_closed {
            let has_reason =
                self.failed.is_some() || self.closed.is_some() || self.peer_error.is_some();
            assert!(has_reason || (is_all_here && self.theirs == self.sent_by_us), "{says}");
        }
        if self.has(End::Reset) && !was_closed && self.failed.is_none() {
            assert!(self.closed.is_some(), "{says}");
        }
        let was_open = self.is_open();
        if !self.is_over() {
            self.close(Close::Graceful);
        }
        self.settle(usize::MAX);
        let is_orderly = is_intact && !self.has(End::Close(Close::Reset));
        let is_in_time = self.closed_at.is_some_and(|at| at.elapsed() < SOON);
        if is_orderly && is_in_time {
            assert!(self.theirs == self.sent_by_us, "{says}");
            if was_open && self.failed.is_none() && !self.has(End::Cut) {
                assert!(self.peer_saw_end, "{says}");
            }
        }
        let left = self.tls.counters().statistics();
        let left = (
            left.state_bytes,
            left.buffer_bytes,
            left.handshaking + left.open_tls12 + left.open_tls13,
        );
        if self.closed.is_some() || is_in_time {
            assert_eq!(left, (0, 0, 0), "{says}");
        }
    }
}
