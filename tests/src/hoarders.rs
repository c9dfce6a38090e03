//! A thousand clients that send and never finish, until the test ends them: connections that a node
//! closes are opened again.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use crate::raw::frame;

/// The addresses of hoarders, and their token.
#[derive(Debug, Clone)]
pub struct HoarderOptions {
    /// Whether each has another address of 127.0.0.0/8, or all have 127.0.0.1.
    pub has_many_addresses: bool,
    /// A token that permits publishing.
    pub token: Option<String>,
}

/// Running hoarders.
#[derive(Debug)]
pub struct Hoarders {
    stops: Arc<AtomicBool>,
    began: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

/// The number of hoarders that run at once.
pub const HOARDERS_COUNT: u32 = 1_000;
const THREADS_COUNT: u32 = 2;
/// The approximate rate of all together, so that processors are left for others.
const BYTES_S: usize = 96 << 20;
const ROUND: Duration = Duration::from_millis(20);
/// The size of one write.
const PIECE_BYTES: usize = 64 << 10;
/// The announced size of a unit that is never complete.
const UNIT_BYTES: usize = 2_000_000;

/// The content of the writes.
static FILLER: [u8; PIECE_BYTES] = [b' '; PIECE_BYTES];

/// One hoarder.
struct Hoarder {
    number: u32,
    stream: Option<TcpStream>,
    /// Its first bytes, and the number of bytes that follow before it stops.
    head: Vec<u8>,
    filler_bytes: usize,
    sent: usize,
}

impl Hoarders {
    /// Starts all of them at `address:port` of a node.
    pub fn begin(address: &str, options: &HoarderOptions) -> Hoarders {
        let address: SocketAddr = address.parse().expect("an address");
        let stops = Arc::new(AtomicBool::new(false));
        let began = Arc::new(AtomicU64::new(0));
        let work = |thread: u32| {
            let (stops, began, options) = (stops.clone(), began.clone(), options.clone());
            thread::spawn(move || {
                let numbers = (thread..HOARDERS_COUNT).step_by(THREADS_COUNT as usize);
                let mut all: Vec<Hoarder> = numbers.map(Hoarder::new).collect();
                while !stops.load(Ordering::Acquire) {
                    let mut left = BYTES_S / 1_000 * ROUND.as_millis() as usize;
                    left /= THREADS_COUNT as usize;
                    for hoarder in &mut all {
                        left = left.saturating_sub(hoarder.go_on(address, &options, &began, left));
                    }
                    // Each hoarder is once the first of a round.
                    all.rotate_left(17);
                    thread::sleep(ROUND);
                }
            })
        };
        let threads = (0..THREADS_COUNT).map(work).collect();
        Hoarders { stops, began, threads }
    }

    /// The number of connections so far.
    pub fn began(&self) -> u64 {
        self.began.load(Ordering::Relaxed)
    }

    /// Stops all of them.
    pub fn end(self) {
        self.stops.store(true, Ordering::Release);
        for thread in self.threads {
            thread.join().expect("hoarders do not fail");
        }
    }
}

impl Hoarder {
    fn new(number: u32) -> Hoarder {
        Hoarder { number, stream: None, head: Vec::new(), filler_bytes: 0, sent: 0 }
    }

    /// Sends a piece, or reconnects after the node has closed. Returns the number of written bytes.
    fn go_on(
        &mut self,
        address: SocketAddr,
        options: &HoarderOptions,
        began: &AtomicU64,
        left: usize,
    ) -> usize {
        let mut answer = [0; 4_096];
        let is_open = self.stream.as_mut().is_some_and(|stream| {
            let read = stream.read(&mut answer);
            matches!(read, Ok(1..))
                || read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        });
        if !is_open {
            self.stream = connected(address, options, self.number);
            (self.head, self.filler_bytes) = unfinished(options, self.number);
            self.sent = 0;
            began.fetch_add(1, Ordering::Relaxed);
        }
        let rest = self.filler_bytes + self.head.len() - self.sent;
        let piece = match self.head.get(self.sent..) {
            Some(piece @ [_, ..]) => piece,
            _ => &FILLER[..PIECE_BYTES.min(left).min(rest)],
        };
        let taken = match &mut self.stream {
            Some(stream) if !piece.is_empty() => stream.write(piece).unwrap_or(0),
            _ => 0,
        };
        self.sent += taken;
        taken
    }
}

fn connected(address: SocketAddr, options: &HoarderOptions, number: u32) -> Option<TcpStream> {
    let own = if options.has_many_addresses {
        Ipv4Addr::new(127, 1, (number / 250) as u8, (number % 250) as u8 + 1)
    } else {
        Ipv4Addr::LOCALHOST
    };
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&socket, &SocketAddr::from((own, 0))).expect("an address of loopback");
    connect(&socket, &address).ok()?;
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(true).expect("an open socket");
    Some(stream)
}

/// The input of one hoarder, for each kind of input that can stay unfinished: its head, and the
/// number of bytes that follow.
fn unfinished(options: &HoarderOptions, number: u32) -> (Vec<u8>, usize) {
    let field = match &options.token {
        Some(token) => format!("Authorization: Bearer {token}\r\n"),
        None => String::new(),
    };
    let post = |path: &str, bytes: usize| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{field}Content-Length: {bytes}\r\n\r\n"
        )
    };
    let upgrade = format!(
        "GET /crore HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{field}\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Protocol: crore.v1\r\n\r\n"
    );
    // A binary message with a mask of zeros.
    let begun = |bytes: usize| {
        let mut head = vec![0x82, 0xff];
        head.extend((bytes as u64).to_be_bytes());
        head.extend([0; 4]);
        head
    };
    match (&options.token, number % 4) {
        (_, 0) | (None, 1) => (post("/publish", UNIT_BYTES).into_bytes(), UNIT_BYTES - 1),
        (Some(_), 1) => (post("/topics/a", 1_000_000).into_bytes(), 999_999),
        (Some(_), _) => {
            let hello = frame(2, &[0x01, 0x00, 1, 0]);
            let all = [upgrade.into_bytes(), hello, begun(UNIT_BYTES)].concat();
            (all, UNIT_BYTES - 1)
        }
        (None, 2) if number % 8 == 2 => {
            let all = [upgrade.into_bytes(), begun(UNIT_BYTES)].concat();
            (all, UNIT_BYTES - 1)
        }
        (None, 2) => ([upgrade.into_bytes(), begun(32_000)].concat(), 31_999),
        (None, _) => (b"GET /topics/a HTTP/1.1\r\nHost: localhost\r\nX: ".to_vec(), 15_000),
    }
}
