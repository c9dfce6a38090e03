//! One thread of the floor: its sockets, and what it does with their bytes.
//!
//! Place: below `main`. Invariants: one `recv` for each readable socket and event, one `send` for
//! each delivery; answers to what one `recv` brought leave in one `send`.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, accept_with, bind, getsockname,
    listen, recv, send, socket_with, sockopt,
};
use wire::Step;
use wire::native::{
    Beginning, ClientFrame, EARLY_FRAME_PREFIX, Message, PlainTopic, Position, Publish, Published,
    ServerFrame, Subscribed, SubscribedTo, Welcome,
};
use wire::websocket::handshake::accept_key;
use wire::websocket::{Frame, Opcode, Role, frame};

use super::Options;
use super::routes::{Parcel, Routes};

const FRAME_BYTES_MAX: usize = 1024 * 1024;
const RECEIVE_BYTES: usize = 128 * 1024;
const EVENTS_MAX: usize = 512;
const ACCEPTS_MAX: usize = 64;
const EPOCH: u64 = 1;
/// Time between two looks for connections that are due.
const SWEEP: Duration = Duration::from_millis(100);

/// A thread.
pub struct Worker {
    thread: u16,
    routes: Arc<Routes>,
    epoll: OwnedFd,
    listener: OwnedFd,
    /// Connections by descriptor.
    peers: Vec<Option<Peer>>,
    /// Subscribers on this thread, by topic.
    members: HashMap<u32, Vec<RawFd>>,
    out: Vec<u8>,
    scratch: Vec<u8>,
    targets: Vec<u16>,
    /// Threads that have been given parcels in this turn.
    to_wake: Vec<u16>,
    pings: Pings,
}

struct Peer {
    socket: OwnedFd,
    is_upgraded: bool,
    /// Unfinished input.
    input: Vec<u8>,
    topics: Vec<u32>,
}

/// The ping schedule: all descriptors in turn, one round for each interval.
struct Pings {
    interval: Duration,
    began: Instant,
    /// Descriptors looked at since then.
    looked: u64,
}

impl Worker {
    /// Opens the thread's epoll and listener in the calling thread's table.
    pub fn open(
        thread: u16,
        address: SocketAddr,
        options: &Options,
        routes: Arc<Routes>,
    ) -> anyhow::Result<Worker> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let listener = socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&listener, true)?;
        sockopt::set_socket_reuseport(&listener, true)?;
        sockopt::set_tcp_nodelay(&listener, true)?;
        sockopt::set_socket_send_buffer_size(&listener, options.socket_send_bytes)?;
        bind(&listener, &address)?;
        listen(&listener, options.backlog_max)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let edges = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &listener, token(&listener), epoll::EventFlags::IN)?;
        let waker = routes.waker(thread);
        epoll::add(&epoll, waker, token(&waker), edges)?;
        Ok(Worker {
            thread,
            routes,
            epoll,
            listener,
            peers: Vec::new(),
            members: HashMap::new(),
            out: Vec::new(),
            scratch: Vec::new(),
            targets: Vec::new(),
            to_wake: Vec::new(),
            pings: Pings {
                interval: Duration::from_secs(options.ping_interval_s.into()),
                began: Instant::now(),
                looked: 0,
            },
        })
    }

    /// The listening address.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        Ok(SocketAddr::try_from(getsockname(&self.listener)?)?)
    }

    /// Never ends but by an error.
    pub fn run(&mut self) -> anyhow::Result<()> {
        let listener = self.listener.as_raw_fd() as u64;
        let waker = self.routes.waker(self.thread).as_raw_fd() as u64;
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut parcels = Vec::new();
        let mut buffer = vec![0; RECEIVE_BYTES];
        let sweep = Timespec::try_from(SWEEP)?;
        let wait = (!self.pings.interval.is_zero()).then_some(&sweep);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), wait) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                let number = event.data.u64();
                if number == listener {
                    self.accept();
                } else if number == waker {
                    self.routes.take(self.thread, &mut parcels);
                    for parcel in parcels.drain(..) {
                        self.deliver(&parcel);
                    }
                } else {
                    self.readable(number as RawFd, &mut buffer);
                }
            }
            while let Some(thread) = self.to_wake.pop() {
                self.routes.wake(thread)?;
            }
            if wait.is_some() {
                self.ping();
            }
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS_MAX {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let Ok(socket) = accept_with(&self.listener, flags) else {
                return;
            };
            let edges = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
            if epoll::add(&self.epoll, &socket, token(&socket), edges).is_err() {
                continue;
            }
            let number = socket.as_raw_fd() as usize;
            if self.peers.len() <= number {
                self.peers.resize_with(number + 1, || None);
            }
            self.peers[number] =
                Some(Peer { socket, is_upgraded: false, input: Vec::new(), topics: Vec::new() });
        }
    }

    fn readable(&mut self, number: RawFd, buffer: &mut [u8]) {
        loop {
            let Some(peer) = self.peers.get_mut(number as usize).and_then(Option::as_mut) else {
                return;
            };
            let count = match recv(&peer.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((count, _)) if count > 0 => count,
                Err(Errno::AGAIN) => return,
                _ => return self.close(number),
            };
            let is_all = count < buffer.len();
            let mut is_upgraded = peer.is_upgraded;
            let mut input = std::mem::take(&mut peer.input);
            let understood = if input.is_empty() {
                let bytes = &mut buffer[..count];
                let taken = self.take(number, bytes, &mut is_upgraded);
                taken.inspect(|&taken| input.extend_from_slice(&buffer[taken..count]))
            } else {
                input.extend_from_slice(&buffer[..count]);
                let taken = self.take(number, &mut input, &mut is_upgraded);
                taken.inspect(|&taken| drop(input.drain(..taken)))
            };
            let Some(peer) = self.peers.get_mut(number as usize).and_then(Option::as_mut) else {
                return;
            };
            peer.is_upgraded = is_upgraded;
            if !input.is_empty() {
                peer.input = input;
            }
            if understood.is_none() {
                return self.close(number);
            }
            if !self.out.is_empty() {
                let out = std::mem::take(&mut self.out);
                self.send(number, &out);
                self.out = out;
                self.out.clear();
            }
            if is_all {
                return;
            }
        }
    }

    /// Takes whole units, and says how many bytes they were; `None` when the peer is not
    /// understood.
    fn take(&mut self, number: RawFd, input: &mut [u8], is_upgraded: &mut bool) -> Option<usize> {
        let mut taken = 0;
        if !*is_upgraded {
            let Some(end) = find(input, b"\r\n\r\n") else {
                return Some(0);
            };
            let name = b"Sec-WebSocket-Key: ";
            let start = find(&input[..end], name)? + name.len();
            let len = find(&input[start..], b"\r\n")?;
            let accept = accept_key(&input[start..start + len]);
            self.out.extend_from_slice(
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                  Sec-WebSocket-Protocol: crore.v1\r\nSec-WebSocket-Accept: ",
            );
            self.out.extend_from_slice(&accept);
            self.out.extend_from_slice(b"\r\n\r\n");
            *is_upgraded = true;
            for frame in early_frames(&input[..end]) {
                self.frame(number, ClientFrame::decode(&frame).ok()?);
            }
            taken = end + 4;
        }
        loop {
            let step = Frame::decode(&mut input[taken..], Role::Server, FRAME_BYTES_MAX).ok()?;
            let Step::Done { value, consumed } = step else {
                return Some(taken);
            };
            taken += consumed;
            if value.opcode == Opcode::Close {
                return None;
            }
            self.frame(number, ClientFrame::decode(value.payload).ok()?);
        }
    }

    fn frame(&mut self, number: RawFd, client_frame: ClientFrame<'_>) {
        match client_frame {
            ClientFrame::Hello(_) => {
                let ping_interval_s = self.pings.interval.as_secs() as u32;
                self.answer(&ServerFrame::Welcome(Welcome {
                    connection: 1,
                    ping_interval_s,
                    time_ms: 0,
                    frame_bytes_max: FRAME_BYTES_MAX as u64,
                    message_bytes_max: FRAME_BYTES_MAX as u64,
                    subscriptions_per_session_max: 10_000,
                    node: Some("floor"),
                    resumed: None,
                    ticket_lifetime_s: None,
                }));
            }
            ClientFrame::Subscribe(subscribe) => {
                for item in subscribe.items {
                    let Ok(request) = item.request else {
                        continue;
                    };
                    let (topic, offset) = self.routes.subscribe(request.filter, self.thread);
                    self.members.entry(topic).or_default().push(number);
                    if let Some(peer) = &mut self.peers[number as usize] {
                        peer.topics.push(topic);
                    }
                    let through = Position { epoch: EPOCH, offset };
                    let beginning = Beginning { through, ..Beginning::default() };
                    self.answer(&ServerFrame::Subscribed(Subscribed {
                        subscription: item.subscription,
                        to: SubscribedTo::Topic(PlainTopic { alias: topic, beginning }),
                    }));
                }
            }
            ClientFrame::Publish(publish) => self.publish(&publish),
            ClientFrame::Ping(token) => self.answer(&ServerFrame::Pong(token)),
            _ => {}
        }
    }

    fn publish(&mut self, publish: &Publish<'_>) {
        let mut targets = std::mem::take(&mut self.targets);
        let numbered = self.routes.publish(publish.topic, &mut targets);
        let (topic, offset) = numbered.unwrap_or_default();
        if numbered.is_some() {
            self.scratch.clear();
            ServerFrame::Message(Message {
                alias: topic,
                offset,
                prev: offset - 1,
                retained: Default::default(),
                lineage: None,
                attributes: publish.attributes,
                payload: publish.payload,
            })
            .encode(&mut self.scratch);
            let mut message = Vec::with_capacity(self.scratch.len() + 10);
            frame::encode(&mut message, true, Opcode::Binary, &self.scratch, None);
            let message: Arc<[u8]> = message.into();
            for &thread in targets.iter().filter(|&&thread| thread != self.thread) {
                self.routes.post(thread, (topic, message.clone()));
                if !self.to_wake.contains(&thread) {
                    self.to_wake.push(thread);
                }
            }
            if targets.contains(&self.thread) {
                self.deliver(&(topic, message));
            }
        }
        self.targets = targets;
        if publish.request != 0 {
            self.answer(&ServerFrame::Published(Published {
                request: publish.request,
                position: Position { epoch: EPOCH, offset },
                duplicate: false,
            }));
        }
    }

    /// Once to each subscriber on this thread.
    fn deliver(&mut self, (topic, message): &Parcel) {
        let Some(members) = self.members.remove(topic) else {
            return;
        };
        let mut lost = Vec::new();
        for &number in &members {
            if !self.is_sent(number, message) {
                lost.push(number);
            }
        }
        self.members.insert(*topic, members);
        for number in lost {
            self.close(number);
        }
    }

    fn send(&mut self, number: RawFd, bytes: &[u8]) {
        if !self.is_sent(number, bytes) {
            self.close(number);
        }
    }

    fn is_sent(&self, number: RawFd, bytes: &[u8]) -> bool {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let peer = self.peers.get(number as usize).and_then(Option::as_ref);
        peer.is_some_and(|peer| send(&peer.socket, bytes, flags) == Ok(bytes.len()))
    }

    /// Pings the descriptors whose turn has come.
    fn ping(&mut self) {
        let rounds = self.pings.began.elapsed().as_secs_f64() / self.pings.interval.as_secs_f64();
        let count = self.peers.len() as u64;
        let due = (rounds * count as f64) as u64;
        // The table has shrunk or grown. No connection is pinged twice because of that.
        self.pings.looked = self.pings.looked.clamp(due.saturating_sub(count), due);
        self.scratch.clear();
        ServerFrame::Ping(1).encode(&mut self.scratch);
        let mut ping = Vec::new();
        frame::encode(&mut ping, true, Opcode::Binary, &self.scratch, None);
        for looked in self.pings.looked..due {
            let number = (looked % count) as RawFd;
            let is_upgraded = |peer: &Peer| peer.is_upgraded;
            if self.peers[number as usize].as_ref().is_some_and(is_upgraded) {
                self.send(number, &ping);
            }
        }
        self.pings.looked = due;
    }

    fn answer(&mut self, server_frame: &ServerFrame<'_>) {
        self.scratch.clear();
        server_frame.encode(&mut self.scratch);
        frame::encode(&mut self.out, true, Opcode::Binary, &self.scratch, None);
    }

    fn close(&mut self, number: RawFd) {
        self.out.clear();
        // Dropping the socket takes it out of the epoll.
        let Some(peer) = self.peers[number as usize].take() else {
            return;
        };
        for topic in peer.topics {
            if let Some(members) = self.members.get_mut(&topic) {
                members.retain(|&other| other != number);
            }
        }
    }
}

/// The frames that a client sends with its handshake.
fn early_frames(head: &[u8]) -> Vec<Vec<u8>> {
    let name = b"Sec-WebSocket-Protocol: ";
    let Some(start) = find(head, name).map(|at| at + name.len()) else {
        return Vec::new();
    };
    let end = find(&head[start..], b"\r\n").map_or(head.len(), |len| start + len);
    head[start..end]
        .split(|&byte| byte == b',')
        .filter_map(|offer| offer.trim_ascii().strip_prefix(EARLY_FRAME_PREFIX.as_bytes()))
        .filter_map(|encoded| URL_SAFE_NO_PAD.decode(encoded).ok())
        .collect()
}

fn token(socket: &impl AsRawFd) -> epoll::EventData {
    epoll::EventData::new_u64(socket.as_raw_fd() as u64)
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window.eq_ignore_ascii_case(wanted))
}
