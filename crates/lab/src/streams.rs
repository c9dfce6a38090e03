//! A stream over a bad line: our TCP beside the kernel's, both talking to a kernel.
//!
//! A kernel in a namespace of its own sends to, or receives from, the other end of a line that
//! loses and delays packets. The other end is another kernel, or our TCP. Both ends' bytes are
//! compared one by one. The kernel's congestion control is an option, because some of them take no
//! loss for congestion. Root only.
//!
//! ```text
//! target/release/lab streams --megabytes 10 --repeat 5
//! target/release/lab streams --megabytes 1000 --repeat 1 --loss 5 --delay-ms 0
//! ```

use std::collections::VecDeque;
use std::io::{IoSlice, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use net::device::Device;
use net::device::pair::{Pair, pair};
use net::device::tun::Tun;
use net::kernel::Waker;
use net::system::NetworkNamespace;
use net::user::{Link, Lossy, Rates, User};
use net::{Close, Conn, Event, Net, Read, Write};
use stdx::hash::Seed;

use crate::median;

const PORT: u16 = 7_000;
/// The kernel's address, and that of the other end.
const NEAR: &str = "10.78.0.1";
const FAR: &str = "10.78.0.2";
const CHUNK: usize = 64 << 10;
/// Our station, and that of the line.
const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];
const LINE: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// The link header of frames to us.
const HEADER: [u8; 14] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];

/// A stream over a bad line.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Length of a stream, in millions of bytes.
    #[arg(long, default_value_t = 10.0)]
    megabytes: f64,
    /// Streams of each case; the table has the median.
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Lost packets, in per cent of each direction.
    #[arg(long, value_delimiter = ',', default_values_t = [0.0, 1.0, 5.0])]
    loss: Vec<f64>,
    /// Delay of each direction, in milliseconds.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 10])]
    delay_ms: Vec<u64>,
    /// The kernel's congestion control.
    #[arg(long, default_value = "cubic")]
    control: String,
    /// Print our stack's counters after each stream.
    #[arg(long)]
    statistics: bool,
}

/// One stream.
#[derive(Clone, Debug)]
struct Case {
    bytes: usize,
    loss: f64,
    delay: Duration,
    /// Whether the other end sends, else the kernel.
    is_far_sending: bool,
    control: String,
    shows_statistics: bool,
}

/// Prints the table.
///
/// # Panics
/// With a right or program that is missing, or a stream that is not whole.
pub fn run(options: &Options) {
    println!("| loss | delay | sender | kernel, MB/s | ours, MB/s | ratio |");
    println!("|---|---|---|---|---|---|");
    for loss in &options.loss {
        for delay_ms in &options.delay_ms {
            for is_far_sending in [false, true] {
                let case = Case {
                    bytes: (options.megabytes * 1e6) as usize,
                    loss: loss / 100.0,
                    delay: Duration::from_millis(*delay_ms),
                    is_far_sending,
                    control: options.control.clone(),
                    shows_statistics: options.statistics,
                };
                let rates = |is_ours| {
                    let times =
                        (0..options.repeat as u64).map(|seed| on_line(&case, seed, is_ours));
                    median(times.map(|time| rate(&case, time)).collect())
                };
                let (kernel, ours) = (rates(false), rates(true));
                let sender = if is_far_sending { "the end" } else { "the kernel" };
                println!(
                    "| {loss} % | {delay_ms} ms | {sender} | {kernel:.1} | {ours:.1} | {:.2} |",
                    ours / kernel
                );
            }
        }
    }
}

fn rate(case: &Case, time: Duration) -> f64 {
    case.bytes as f64 / 1e6 / time.as_secs_f64()
}

/// The byte of the stream at a place.
fn byte(at: usize) -> u8 {
    (at * 31 + at / 251) as u8
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("iproute2");
    assert!(status.success(), "ip {arguments}");
}

fn tun(address: &str) -> Tun {
    let tun = Tun::open("line").expect("CAP_NET_ADMIN");
    ip(&format!("address add {address}/24 dev line"));
    ip("link set line up txqueuelen 10000");
    tun
}

fn address(of: &str) -> SocketAddr {
    SocketAddr::new(of.parse::<IpAddr>().expect("an address"), PORT)
}

/// Runs one stream; returns its time.
fn on_line(case: &Case, seed: u64, is_ours: bool) -> Duration {
    let near = NetworkNamespace::create().expect("CAP_SYS_ADMIN");
    let far = NetworkNamespace::create().expect("CAP_SYS_ADMIN");
    let is_over = AtomicBool::new(false);
    let is_over = &is_over;
    thread::scope(|scope| {
        let run = scope.spawn(move || {
            thread::scope(|inner| {
                near.enter().expect("CAP_SYS_ADMIN");
                let rates = Rates { loss: case.loss, ..Rates::default() };
                let near_end = Lossy::new(tun(NEAR), rates, seed);
                if is_ours {
                    let (line_end, far_end) = pair(4_096).expect("places");
                    inner.spawn(move || ours(case, far_end, is_over));
                    inner.spawn(move || carry(near_end, line_end, case.delay, is_over));
                } else {
                    far.enter().expect("CAP_SYS_ADMIN");
                    let far_end = tun(FAR);
                    inner.spawn(move || kernel_far(case));
                    inner.spawn(move || carry(near_end, far_end, case.delay, is_over));
                    near.enter().expect("CAP_SYS_ADMIN");
                }
                let time = kernel_near(case);
                is_over.store(true, Ordering::Release);
                time
            })
        });
        run.join().expect("the stream is whole")
    })
}

/// Carries frames between two devices, each late by the delay.
fn carry(near: impl Device, far: impl Device, delay: Duration, is_over: &AtomicBool) {
    let (mut near, mut far) = (near, far);
    let mut lines: [VecDeque<(Instant, Vec<u8>)>; 2] = Default::default();
    while !is_over.load(Ordering::Acquire) {
        let [forth, back] = &mut lines;
        let at = Instant::now() + delay;
        let mut count = 0;
        let (skip_near, skip_far) = (near.link_header_bytes(), far.link_header_bytes());
        let mut take = |f: &[u8]| forth.push_back((at, f[skip_near..].to_vec()));
        count += near.receive(256, &mut take).expect("a line");
        let mut take = |f: &[u8]| back.push_back((at, f[skip_far..].to_vec()));
        count += far.receive(256, &mut take).expect("a line");
        count += deliver(forth, &mut far);
        count += deliver(back, &mut near);
        if count == 0 {
            thread::sleep(Duration::from_micros(50));
        }
    }
}

fn deliver(line: &mut VecDeque<(Instant, Vec<u8>)>, device: &mut impl Device) -> usize {
    let now = Instant::now();
    let mut count = 0;
    let is_ethernet = device.link_header_bytes() > 0;
    while let Some((at, frame)) = line.front()
        && *at <= now
        && let Some(place) = device.next_frame()
    {
        let header = if is_ethernet { &HEADER[..] } else { &[] };
        place[..header.len()].copy_from_slice(header);
        place[header.len()..][..frame.len()].copy_from_slice(frame);
        device.queue(header.len() + frame.len());
        line.pop_front();
        count += 1;
    }
    device.flush().expect("a line");
    count
}

/// The near kernel connects, and sends or receives everything.
fn kernel_near(case: &Case) -> Duration {
    let mut stream = loop {
        match TcpStream::connect(address(FAR)) {
            Ok(stream) => break stream,
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    };
    let start = Instant::now();
    if case.is_far_sending {
        receive(&mut stream, case.bytes);
    } else {
        send(&mut stream, case);
        // The other end answers when it has everything.
        stream.read_exact(&mut [0]).expect("an answer");
    }
    start.elapsed()
}

fn kernel_far(case: &Case) {
    let listener = TcpListener::bind(address(FAR)).expect("a free port");
    let (mut stream, _) = listener.accept().expect("a connection");
    if case.is_far_sending {
        send(&mut stream, case);
    } else {
        receive(&mut stream, case.bytes);
        stream.write_all(b"!").expect("room");
    }
}

fn send(stream: &mut TcpStream, case: &Case) {
    let name = case.control.as_str();
    rustix::net::sockopt::set_tcp_congestion(&*stream, name).expect("a known algorithm");
    let bytes = case.bytes;
    let mut at = 0;
    while at < bytes {
        let chunk: Vec<u8> = (at..bytes.min(at + CHUNK)).map(byte).collect();
        stream.write_all(&chunk).expect("room");
        at += chunk.len();
    }
}

fn receive(stream: &mut TcpStream, bytes: usize) {
    let (mut at, mut buffer) = (0, vec![0; CHUNK]);
    while at < bytes {
        let count = stream.read(&mut buffer).expect("bytes");
        assert!(count > 0, "{at} of {bytes}");
        check(&buffer[..count], &mut at);
    }
}

fn check(bytes: &[u8], at: &mut usize) {
    for (place, found) in bytes.iter().enumerate() {
        assert!(*found == byte(*at + place), "byte {}", *at + place);
    }
    *at += bytes.len();
}

/// Our TCP at the far end.
fn ours(case: &Case, device: Pair, is_over: &AtomicBool) {
    let far: IpAddr = FAR.parse().expect("an address");
    let config = tcp::Config::new(vec![far], Seed(1, 2));
    let waker = Waker::new().expect("an eventfd");
    let link = Link::ethernet(OURS, LINE);
    let mut net = User::new(device, link, config, Arc::clone(&waker)).expect("an epoll");
    net.listen(address(FAR), b"").expect("a free port");
    let mut stream = Stream { case, at: 0, chunk: Vec::new() };
    let mut events = Vec::new();
    while !is_over.load(Ordering::Acquire) {
        events.clear();
        net.poll(Some(Duration::from_millis(1)), &mut events).expect("a line");
        for event in &events {
            match *event {
                Event::Accepted { conn, .. } | Event::Writable(conn) => {
                    stream.write_some(&mut net, conn);
                }
                Event::Readable(conn) => stream.read_some(&mut net, conn),
                Event::Connected(_) | Event::Closed { .. } | Event::Woken => {}
            }
        }
    }
    if case.shows_statistics {
        eprintln!("{:?}", net.stack_statistics());
    }
}

/// The stream at our end.
struct Stream<'a> {
    case: &'a Case,
    /// Bytes that were written or read.
    at: usize,
    /// Bytes that wait for room.
    chunk: Vec<u8>,
}

impl Stream<'_> {
    fn write_some(&mut self, net: &mut impl Net, conn: Conn) {
        while self.case.is_far_sending && self.at < self.case.bytes {
            if self.chunk.is_empty() {
                self.chunk = (self.at..self.case.bytes.min(self.at + CHUNK)).map(byte).collect();
            }
            match net.write(conn, &[IoSlice::new(&self.chunk)]) {
                Write::Wrote(count) => {
                    self.at += count;
                    self.chunk.drain(..count);
                    if !self.chunk.is_empty() {
                        return;
                    }
                }
                Write::Blocked => return,
                Write::Failed(reason) => panic!("{reason}"),
            }
        }
    }

    fn read_some(&mut self, net: &mut impl Net, conn: Conn) {
        let mut buffer = [0; CHUNK];
        loop {
            match net.read(conn, &mut buffer) {
                Read::Data(count) => {
                    check(&buffer[..count], &mut self.at);
                    if self.at == self.case.bytes && !self.case.is_far_sending {
                        net.write(conn, &[IoSlice::new(b"!")]);
                    }
                }
                Read::Blocked | Read::Failed(_) => return,
                Read::Ended => {
                    net.close(conn, Close::Graceful);
                    return;
                }
            }
        }
    }
}
