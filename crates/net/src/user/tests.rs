//! Our TCP against the kernel's, over a TUN interface that loses, repeats, reorders and damages
//! packets.

use std::collections::BTreeMap;
use std::fs;
use std::io::{IoSlice, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use stdx::hash::Seed;

use super::{Link, Lossy, Rates, User};
use crate::device::Device;
use crate::device::pair::pair;
use crate::device::testing::{in_namespace, ip};
use crate::device::tun::Tun;
use crate::kernel::Waker;
use crate::{Close, Conn, Event, Net, Read, UserStatistics, Wake, Write};

/// The time after which a test gives up.
const PATIENCE: Duration = Duration::from_secs(120);
const PORT: u16 = 7000;

/// The kernel's address on the interface, and ours.
const KERNEL: [&str; 2] = ["10.9.0.1", "fd09::1"];
const OURS: [&str; 2] = ["10.9.0.2", "fd09::2"];

/// A wish for one exchange.
#[derive(Clone, Copy)]
struct Case {
    rates: Rates,
    bytes: usize,
    is_v6: bool,
    mtu: u16,
    /// Settings of the kernel's TCP that are off.
    without: &'static [&'static str],
}

const PLAIN: Case = Case {
    rates: Rates { loss: 0.0, repetition: 0.0, reordering: 0.0, damage: 0.0 },
    bytes: 2 << 20,
    is_v6: false,
    mtu: 1500,
    without: &[],
};

impl Case {
    fn address(&self, of: [&str; 2]) -> SocketAddr {
        let address: IpAddr = of[usize::from(self.is_v6)].parse().expect("an address");
        SocketAddr::new(address, PORT)
    }

    /// A network on a fresh interface of the calling thread's namespace.
    fn network(&self, seed: u64) -> (User<Lossy<Tun>>, std::sync::Arc<Waker>) {
        let tun = Tun::open("own").expect("CAP_NET_ADMIN");
        ip("address add 10.9.0.1/24 dev own");
        ip("-6 address add fd09::1/64 dev own nodad");
        ip(&format!("link set own mtu {} up", self.mtu));
        for setting in self.without {
            fs::write(format!("/proc/sys/net/ipv4/{setting}"), "0").expect("a setting");
        }
        let addresses = OURS.iter().map(|address| address.parse().expect("an address")).collect();
        let mut config = tcp::Config::new(addresses, Seed(seed, 1));
        config.mtu = self.mtu;
        let waker = Waker::new().expect("an eventfd");
        let device = Lossy::new(tun, self.rates, seed);
        let net = User::new(device, Link::none(), config, waker.clone()).expect("an epoll");
        (net, waker)
    }
}

/// The byte of a stream at a place.
fn byte(at: usize) -> u8 {
    (at * 31 + at / 251) as u8
}

fn stream(bytes: usize) -> Vec<u8> {
    (0..bytes).map(byte).collect()
}

/// Sends everything back.
#[derive(Default)]
struct Echo {
    waiting: BTreeMap<Conn, Waiting>,
}

#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    has_ended: bool,
}

impl Echo {
    fn turn(&mut self, net: &mut impl Net, events: &[Event]) {
        for event in events {
            match *event {
                Event::Accepted { conn, .. } => {
                    self.waiting.insert(conn, Waiting::default());
                }
                Event::Readable(conn) | Event::Writable(conn) => self.carry(net, conn),
                Event::Closed { conn, reason } => panic!("{conn:?} is lost: {reason}"),
                Event::Connected(_) | Event::Woken => {}
            }
        }
    }

    fn carry(&mut self, net: &mut impl Net, conn: Conn) {
        let waiting = self.waiting.get_mut(&conn).expect("an accepted connection");
        let mut buffer = [0; 16 << 10];
        loop {
            if !waiting.bytes.is_empty() {
                match net.write(conn, &[IoSlice::new(&waiting.bytes)]) {
                    Write::Wrote(count) => drop(waiting.bytes.drain(..count)),
                    Write::Blocked => return,
                    Write::Failed(reason) => panic!("{reason}"),
                }
                if !waiting.bytes.is_empty() {
                    return;
                }
            }
            if waiting.has_ended {
                net.close(conn, Close::Graceful);
                return;
            }
            match net.read(conn, &mut buffer) {
                Read::Data(count) => waiting.bytes.extend(&buffer[..count]),
                Read::Blocked => return,
                Read::Ended => waiting.has_ended = true,
                Read::Failed(reason) => panic!("{reason}"),
            }
        }
    }
}

/// Kernel clients talk to our echo.
fn kernel_calls(case: Case, clients: usize) {
    in_namespace(|_| {
        let (mut net, waker) = case.network(7);
        net.listen(case.address(OURS), b"").expect("a free port");
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let calls: Vec<_> = (0..clients)
                .map(|_| scope.spawn(|| call(TcpStream::connect(case.address(OURS)), case.bytes)))
                .collect();
            let is_over = &is_over;
            scope.spawn(move || {
                let results: Vec<_> = calls.into_iter().map(|call| call.join()).collect();
                is_over.store(true, Ordering::Release);
                waker.wake();
                results.into_iter().for_each(|result| result.expect("the stream came back"));
            });
            let mut echo = Echo::default();
            let mut events = Vec::new();
            while !is_over.load(Ordering::Acquire) {
                events.clear();
                net.poll(Some(Duration::from_secs(1)), &mut events).expect("a usable device");
                echo.turn(&mut net, &events);
            }
        });
        let user = tcp_statistics(&net);
        assert!(case.rates.loss == 0.0 || user.resent > 0, "{user:?}");
        println!("{:?}", net.stack_statistics());
    });
}

fn tcp_statistics<D: Device>(net: &User<D>) -> UserStatistics {
    net.stack_statistics().into()
}

/// Sends a stream and reads it back.
fn call(stream: std::io::Result<TcpStream>, bytes: usize) {
    let mut reading = stream.expect("a connection");
    reading.set_read_timeout(Some(PATIENCE)).expect("an option");
    reading.set_write_timeout(Some(PATIENCE)).expect("an option");
    let mut writing = reading.try_clone().expect("a descriptor");
    thread::scope(|scope| {
        scope.spawn(move || {
            writing.write_all(&self::stream(bytes)).expect("room");
            writing.shutdown(Shutdown::Write).expect("an open direction");
        });
        let mut found = Vec::new();
        reading.read_to_end(&mut found).expect("the whole stream");
        assert!(found == self::stream(bytes), "{} bytes of {bytes}, or others", found.len());
    });
}

/// We talk to an echo of the kernel.
fn we_call(case: Case) {
    in_namespace(|_| {
        let (mut net, _) = case.network(9);
        let listener = TcpListener::bind(case.address(KERNEL)).expect("a free port");
        thread::scope(|scope| {
            scope.spawn(move || {
                let (mut peer, _) = listener.accept().expect("a connection");
                peer.set_read_timeout(Some(PATIENCE)).expect("an option");
                let mut writing = peer.try_clone().expect("a descriptor");
                std::io::copy(&mut peer, &mut writing).expect("the whole stream");
                writing.shutdown(Shutdown::Write).expect("an open direction");
            });
            let conn = net.connect(None, case.address(KERNEL)).expect("a free port");
            let (sent, mut written, mut found) = (stream(case.bytes), 0, Vec::new());
            let (mut has_ended, mut is_writable) = (false, false);
            let mut events = Vec::new();
            let deadline = Instant::now() + PATIENCE;
            while !has_ended {
                assert!(Instant::now() < deadline, "{written} written, {} read", found.len());
                events.clear();
                net.poll(Some(Duration::from_secs(1)), &mut events).expect("a usable device");
                for event in &events {
                    match *event {
                        Event::Connected(_) | Event::Writable(_) => is_writable = true,
                        Event::Readable(_) => has_ended = read_all(&mut net, conn, &mut found),
                        other => panic!("{other:?}"),
                    }
                }
                while is_writable && written < sent.len() {
                    let rest = &sent[written..];
                    match net.write(conn, &[IoSlice::new(rest)]) {
                        Write::Wrote(count) => {
                            written += count;
                            is_writable = count == rest.len();
                        }
                        Write::Blocked => is_writable = false,
                        Write::Failed(reason) => panic!("{reason}"),
                    }
                    if written == sent.len() {
                        net.shutdown_write(conn);
                    }
                }
            }
            assert!(found == sent, "{} bytes of {}, or others", found.len(), sent.len());
            net.close(conn, Close::Graceful);
            net.poll(Some(Duration::ZERO), &mut events).expect("a usable device");
        });
        println!("{:?}", net.stack_statistics());
    });
}

fn read_all(net: &mut impl Net, conn: Conn, found: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 16 << 10];
    loop {
        match net.read(conn, &mut buffer) {
            Read::Data(count) => found.extend(&buffer[..count]),
            Read::Blocked => return false,
            Read::Ended => return true,
            Read::Failed(reason) => panic!("{reason}"),
        }
    }
}

const LOSSY: Rates = Rates { loss: 0.05, repetition: 0.02, reordering: 0.05, damage: 0.01 };

#[test]
fn kernel_clients_get_their_bytes_back() {
    kernel_calls(Case { bytes: 8 << 20, ..PLAIN }, 1);
    kernel_calls(Case { bytes: 100_000, ..PLAIN }, 20);
    kernel_calls(Case { is_v6: true, ..PLAIN }, 2);
    kernel_calls(Case { mtu: 576, bytes: 300_000, ..PLAIN }, 2);
}

#[test]
fn kernel_clients_get_their_bytes_back_over_a_bad_line() {
    kernel_calls(Case { rates: LOSSY, ..PLAIN }, 2);
    kernel_calls(Case { rates: LOSSY, is_v6: true, bytes: 300_000, ..PLAIN }, 2);
}

#[test]
fn kernels_without_options_get_their_bytes_back() {
    let rates = Rates { loss: 0.02, ..LOSSY };
    for without in [&["tcp_sack"][..], &["tcp_window_scaling"], &["tcp_timestamps"]] {
        kernel_calls(Case { rates, bytes: 300_000, without, ..PLAIN }, 1);
        we_call(Case { rates, bytes: 300_000, without, ..PLAIN });
    }
}

#[test]
fn we_get_our_bytes_back_from_the_kernel() {
    we_call(Case { bytes: 8 << 20, ..PLAIN });
    we_call(Case { is_v6: true, ..PLAIN });
    we_call(Case { rates: LOSSY, ..PLAIN });
}

#[test]
fn the_timeout_of_an_opening_is_counted() {
    let (ours, _line) = pair(64).expect("places");
    let config = tcp::Config::new(vec!["192.0.2.1".parse().expect("an address")], Seed(1, 2));
    let waker = Waker::new().expect("an eventfd");
    let link = Link::ethernet([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let mut net = User::new(ours, link, config, waker).expect("an epoll");
    net.connect(None, "192.0.2.2:80".parse().expect("an address")).expect("a free port");
    let deadline = Instant::now() + PATIENCE;
    let counters = net.counters();
    while counters.statistics().user.timeouts == 0 && Instant::now() < deadline {
        thread::yield_now();
        net.poll(Some(Duration::ZERO), &mut Vec::new()).expect("a device");
    }
    let user = counters.statistics().user;
    assert!(user.timeouts > 0, "{user:?}");
}

/// A thread that is full answers, and keeps the connections that it has.
#[test]
fn a_connection_without_room_gets_the_refusal() {
    in_namespace(|_| {
        let tun = Tun::open("own").expect("CAP_NET_ADMIN");
        ip("address add 10.9.0.1/24 dev own");
        ip("link set own up");
        let address: SocketAddr = "10.9.0.2:7000".parse().expect("an address");
        let mut config = tcp::Config::new(vec![address.ip()], Seed(1, 2));
        config.connections_max = 1;
        let waker = Waker::new().expect("an eventfd");
        let (is_over, listens) = (AtomicBool::new(false), Barrier::new(2));
        thread::scope(|scope| {
            let serving = scope.spawn(|| {
                let net = User::new(tun, Link::none(), config, waker.clone());
                let mut net = net.expect("an epoll");
                net.listen(address, b"no room").expect("a free port");
                listens.wait();
                let mut events = Vec::new();
                while !is_over.load(Ordering::Acquire) {
                    net.poll(Some(PATIENCE), &mut events).expect("a device");
                }
                (events, net.counters().statistics())
            });
            listens.wait();
            let _first = TcpStream::connect(address).expect("room");
            for _ in 0..3 {
                let mut refused = TcpStream::connect(address).expect("a connection at first");
                let mut answer = String::new();
                refused.read_to_string(&mut answer).expect("an answer");
                assert_eq!(answer, "no room");
            }
            is_over.store(true, Ordering::Release);
            waker.wake();
            let (events, statistics) = serving.join().expect("no panic");
            let accepted = |event: &&Event| matches!(event, Event::Accepted { .. });
            assert_eq!(events.iter().filter(accepted).count(), 1, "{events:?}");
            assert_eq!((statistics.accepted, statistics.refused), (1, 3));
        });
    });
}
