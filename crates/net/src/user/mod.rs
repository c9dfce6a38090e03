//! `Net` on a TCP of our own ([`tcp`]), over a device that carries frames: one [`User`] for each
//! thread.
//!
//! The stack is a function of packets and time; this module gives it both. Within
//! [`Net::poll`] the turn that ends first sends what it owes, then the thread waits for the device,
//! the waker or the first timer, and at last a bounded number of packets becomes events. Invariant:
//! what a write could send has left before the next wait.

mod link;
mod lossy;
mod network;
mod room;
#[cfg(test)]
mod tests;

pub use link::Link;
pub use lossy::{Lossy, Rates};
pub use network::{Carrier, Frames, UnopenedUser, UserNetwork};
use room::{RESERVE, Room};
pub use tcp::CONNECTIONS_MAX;
pub use tcp::packet::Checksums;

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::Errno;
use stdx::memory::{Component, Components};
use tcp::{PACKETS_AHEAD, Stack, Time, neighbours};

use crate::device::Device;
use crate::device::xdp::Attachment;
use crate::kernel::Waker;
use crate::{Close, Conn, Count, Counters, Event, LISTENERS_END, Net, Passing, Read, Write};

/// Maximum number of frames that are taken from the device at a time.
const FRAMES_MAX: usize = 16_384;
/// Bytes of frames that wait for the next turn, from which on no more are taken from the device:
/// 140,000 acknowledgements.
const BATCH_BYTES_MAX: usize = 8 << 20;
/// Writes after which the frames that have arrived are taken from the device. Under load a turn is
/// long, and a device that is full drops what comes: acknowledgements would be lost, and everything
/// sent again.
const WRITES: u32 = 128;
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(3600);
/// The longest wait while the device has frames that it could not send.
const UNSENT_WAIT: Duration = Duration::from_millis(1);
/// Time between two copies of the counters for other threads.
const STATISTICS_US: u64 = 100_000;
/// The events of a descriptor that is not waited for.
const NONE: PollFlags = PollFlags::empty();

/// TCP of our own for one thread.
pub struct User<D = Box<dyn Device>> {
    stack: Stack,
    device: D,
    link: Link,
    /// Has the waker, each of whose writes is an edge. The device is not in it: the kernel would
    /// tell the epoll of each frame, also while the thread is awake.
    epoll: OwnedFd,
    ready: Vec<epoll::Event>,
    waker: Arc<Waker>,
    start: Instant,
    /// The end of accepting, after the listeners are closed.
    accepting_until: Option<Instant>,
    counters: Arc<Counters>,
    events: Vec<tcp::Event>,
    room: Room,
    /// The least time between two turns with frames, and the time of the last one.
    turn: Duration,
    received_at: Instant,
    /// The next time at which other threads get the counters.
    statistics_at: Time,
    /// The time up to which the stack has seen all frames. No timer expires after it: the answer
    /// may have come in time, and wait.
    received_until: Time,
    batch: Batch,
    /// Writes since frames were taken.
    writes: u32,
    /// The program on the interface, which runs for as long as one of its threads has it.
    attachment: Option<Arc<Attachment>>,
}

/// The frames of one poll: the device lends each for a moment only, and the stack answers through
/// the device.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Batch {
    fn frame(&self, number: usize) -> &[u8] {
        let from = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.bytes[from..self.ends[number]]
    }
}

/// The device as the stack sees it.
struct Out<'a, D> {
    device: &'a mut D,
    link: &'a Link,
}

impl<D: Device> tcp::Frames for Out<'_, D> {
    fn next_frame(&mut self) -> Option<&mut [u8]> {
        if self.device.next_frame().is_none() {
            // Its ring is full of frames that the kernel does not know of yet. What fails here
            // fails again at the end of the turn.
            let _ = self.device.flush();
        }
        let header_bytes = self.device.link_header_bytes();
        self.device.next_frame().and_then(|frame| frame.get_mut(header_bytes..))
    }

    fn send(&mut self, length: usize, hop: u8) {
        let header = self.link.header(hop);
        if let Some(frame) = self.device.next_frame() {
            frame[..header.len()].copy_from_slice(header);
            self.link.finish(frame);
        }
        self.device.queue(header.len() + length);
    }
}

impl<D: Device> User<D> {
    /// Creates a network without connections. With a device that has a link header, `link` has the
    /// addresses of the interface and of the gateway.
    ///
    /// # Errors
    /// What the system says about epoll; `InvalidInput` if link and device do not fit.
    pub fn new(
        device: D,
        link: Link,
        config: tcp::Config,
        waker: Arc<Waker>,
    ) -> io::Result<User<D>> {
        if link.header(tcp::HOP_UNKNOWN).len() != device.link_header_bytes() {
            let text = "the device needs a link header of another length";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, waker.as_fd(), epoll::EventData::new_u64(0), edge)?;
        let room = Room::new(config.connections_max);
        let lines = config.connections_max.saturating_add(RESERVE);
        let config = tcp::Config { connections_max: lines, ..config };
        Ok(User {
            stack: Stack::new(config, Time(0)),
            room,
            turn: Duration::ZERO,
            received_at: Instant::now(),
            statistics_at: Time(0),
            received_until: Time(0),
            writes: 0,
            device,
            link,
            epoll,
            ready: Vec::with_capacity(4),
            waker,
            start: Instant::now(),
            accepting_until: None,
            counters: Arc::default(),
            events: Vec::new(),
            batch: Batch::default(),
            attachment: None,
        })
    }

    /// Keeps the program on the interface running.
    fn keep_attached(&mut self, program: Arc<Attachment>) {
        self.attachment = Some(program);
    }

    /// Listens on an address, with the answer to connections for which there is no room. None if it
    /// is taken, or not one of the stack's.
    pub fn listen(&mut self, address: SocketAddr, refusal: &'static [u8]) -> Option<u8> {
        let listener = self.stack.listen(address)?;
        self.room.add_listener(refusal);
        Some(listener)
    }

    /// Begins a connection from one of our addresses, or any. [`Event::Connected`] or
    /// [`Event::Closed`] follows.
    ///
    /// # Errors
    /// `QuotaExceeded` if the thread is full, and the reasons of [`Stack::connect`].
    pub fn connect(&mut self, from: Option<IpAddr>, to: SocketAddr) -> io::Result<Conn> {
        if !self.room.take() {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let now = self.now();
        let out = &mut Out { device: &mut self.device, link: &self.link };
        let begun = self.stack.connect(now, from, to, out);
        if begun.is_err() {
            self.room.give_back();
        }
        let conn = begun?;
        self.counters.add(Count::Connecting, 1);
        Ok(conn)
    }

    /// The stack's counters.
    pub fn stack_statistics(&self) -> tcp::Statistics {
        self.stack.statistics()
    }

    /// The network's counters, to read from any thread.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    fn now(&self) -> Time {
        Time(self.start.elapsed().as_micros() as u64)
    }

    /// Ends the turn before the thread waits.
    fn end_turn(&mut self) -> io::Result<()> {
        if self.accepting_until.is_some_and(|until| until <= Instant::now()) {
            self.accepting_until = None;
            self.stack.pause_accepting();
        }
        let out = &mut Out { device: &mut self.device, link: &self.link };
        let now = Time(self.start.elapsed().as_micros() as u64);
        self.stack.end_turn_after(now, self.received_until, out);
        self.device.flush()
    }

    /// The time for which the thread may wait.
    fn wait_time(&mut self, timeout: Option<Duration>) -> Duration {
        // A device without a descriptor cannot wake the thread.
        let has_frames = !self.batch.ends.is_empty();
        if has_frames || self.stack.has_events() || self.device.descriptor().is_none() {
            return Duration::ZERO;
        }
        let now = self.now();
        let until = self.stack.next_time(now);
        let until = until.map(|at| Duration::from_micros(at.0.saturating_sub(now.0)));
        let mut wait = timeout.into_iter().chain(until).fold(WAIT_MAX, Duration::min);
        if self.device.unsent() > 0 {
            wait = wait.min(UNSENT_WAIT);
        }
        wait
    }

    /// Waits for the device or the waker. Returns whether the waker was used.
    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<bool> {
        let timeout = self.wait_time(timeout);
        if timeout.as_micros() > u128::from(STATISTICS_US) {
            self.renew_statistics();
        }
        let longest = Timespec { tv_sec: 3600, tv_nsec: 0 };
        let timeout = Timespec::try_from(timeout).unwrap_or(longest);
        let mut waited = [PollFd::new(&self.epoll, PollFlags::IN), PollFd::new(&self.epoll, NONE)];
        if let Some(device) = self.device.descriptor() {
            waited[1] = PollFd::from_borrowed_fd(device, PollFlags::IN);
        }
        if let Err(error) = poll(&mut waited, Some(&timeout))
            && error != Errno::INTR
        {
            return Err(error.into());
        }
        if waited[0].revents().is_empty() {
            return Ok(false);
        }
        // Takes the edge.
        self.ready.clear();
        let room = rustix::buffer::spare_capacity(&mut self.ready);
        epoll::wait(&self.epoll, room, Some(&Timespec::default()))?;
        Ok(self.waker.take())
    }

    /// Sleeps until the turn's time if the last frames came less than a turn ago. Many frames a
    /// turn then share its cost and the thread's wakening; a frame after a silence has no delay.
    /// An owner that has work left must not be delayed by this.
    fn pace(&mut self) {
        let next = self.received_at + self.turn;
        let now = Instant::now();
        if next > now {
            std::thread::sleep(next - now);
        }
    }

    /// Sets the least time between two turns with frames; zero at first.
    pub fn set_turn(&mut self, turn: Duration) {
        self.turn = turn;
    }

    /// Takes the frames that have arrived from the device, to look at them in
    /// [`User::receive`].
    fn collect(&mut self) -> io::Result<()> {
        self.writes = 0;
        let Batch { bytes, ends } = &mut self.batch;
        if bytes.len() >= BATCH_BYTES_MAX {
            return Ok(());
        }
        self.device.receive(FRAMES_MAX, &mut |frame| {
            bytes.extend_from_slice(frame);
            ends.push(bytes.len());
        })?;
        Ok(())
    }

    /// Gives the stack the frames that have arrived.
    fn receive(&mut self) -> io::Result<()> {
        let now = self.now();
        self.collect()?;
        if !self.batch.ends.is_empty() && !self.turn.is_zero() {
            self.received_at = Instant::now();
        }
        let header_bytes = self.device.link_header_bytes();
        for number in 0..self.batch.ends.len() {
            if number % PACKETS_AHEAD == 0 {
                let next = number..self.batch.ends.len();
                let packets =
                    next.filter_map(|number| self.batch.frame(number).get(header_bytes..));
                self.stack.look_ahead(packets);
            }
            let frame = self.batch.frame(number);
            if let Some((packet, hop)) = self.link.packet(frame)
                && !is_echo(packet)
            {
                let out = &mut Out { device: &mut self.device, link: &self.link };
                self.stack.receive(now, packet, hop, out);
            } else if let Some(ours) = self.link.station()
                && let Some(place) = self.device.next_frame()
                && let Some(length) = neighbours::answer(frame, ours, self.stack.addresses(), place)
            {
                self.device.queue(length);
            }
        }
        self.batch.bytes.clear();
        self.batch.ends.clear();
        self.received_until = now;
        Ok(())
    }

    fn report(&mut self, events: &mut Vec<Event>) {
        self.stack.take_events(&mut self.events);
        let mut own_events = std::mem::take(&mut self.events);
        for event in own_events.drain(..) {
            match event {
                tcp::Event::Accepted { conn, peer, listener } => {
                    match self.room.accept(conn, listener) {
                        None => {
                            self.counters.add(Count::Accepted, 1);
                            events.push(Event::Accepted { conn, peer, listener });
                        }
                        Some(refusal) => self.refuse(conn, refusal),
                    }
                }
                tcp::Event::Connected(conn) => events.push(Event::Connected(conn)),
                tcp::Event::Readable(conn) if !self.room.has_refused(conn) => {
                    events.push(Event::Readable(conn));
                }
                tcp::Event::Writable(conn) if !self.room.has_refused(conn) => {
                    events.push(Event::Writable(conn));
                }
                tcp::Event::Closed { conn, reason } if !self.room.has_refused(conn) => {
                    self.counters.add(Count::Closed, 1);
                    self.room.give_back();
                    events.push(Event::Closed { conn, reason });
                }
                tcp::Event::Readable(_) | tcp::Event::Writable(_) | tcp::Event::Closed { .. } => {}
            }
        }
        self.events = own_events;
        self.room.end_report();
    }

    /// Copies the counters for other threads.
    fn renew_statistics(&mut self) {
        self.statistics_at = Time(self.now().0 + STATISTICS_US);
        self.counters.set_user(self.stack.statistics().into());
    }

    /// Answers a connection for which there is no room, and closes it.
    fn refuse(&mut self, conn: Conn, refusal: &'static [u8]) {
        self.counters.add(Count::Refused, 1);
        self.counters.add(Count::Closed, 1);
        let now = self.now();
        let out = &mut Out { device: &mut self.device, link: &self.link };
        // The first window has room for the whole answer.
        self.stack.write(now, conn, &[IoSlice::new(refusal)], out);
        self.stack.close(conn, tcp::Close::Graceful);
    }
}

/// Whether a packet is an echo request or another question of ICMP, which the stack does not
/// answer. Its reports about segments have other types.
fn is_echo(packet: &[u8]) -> bool {
    match packet.first().map(|first| first >> 4) {
        Some(4) => packet.get(9) == Some(&1) && packet.get(20) == Some(&8),
        Some(6) => packet.get(6) == Some(&58) && packet.get(40).is_some_and(|kind| *kind >= 128),
        _ => false,
    }
}

impl<D: Device> Net for User<D> {
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        self.end_turn()?;
        let is_woken = self.wait(timeout)?;
        if timeout != Some(Duration::ZERO) {
            self.pace();
        }
        self.receive()?;
        self.report(events);
        if self.now() >= self.statistics_at {
            self.renew_statistics();
        }
        if is_woken {
            events.push(Event::Woken);
        }
        Ok(())
    }

    fn read(&mut self, conn: Conn, buffer: &mut [u8]) -> Read {
        match self.stack.read(conn, buffer) {
            tcp::Read::Data(count) => Read::Data(count),
            tcp::Read::Blocked => Read::Blocked,
            tcp::Read::Ended => Read::Ended,
            tcp::Read::Lost(reason) => Read::Failed(reason),
            tcp::Read::Dead => Read::Failed(io::ErrorKind::NotConnected),
        }
    }

    fn write(&mut self, conn: Conn, parts: &[IoSlice<'_>]) -> Write {
        self.writes += 1;
        if self.writes == WRITES {
            // An error comes again in the next poll.
            let _ = self.collect();
        }
        let now = self.now();
        let out = &mut Out { device: &mut self.device, link: &self.link };
        match self.stack.write(now, conn, parts, out) {
            tcp::Write::Wrote(count) => Write::Wrote(count),
            tcp::Write::Blocked => Write::Blocked,
            tcp::Write::Dead => Write::Failed(io::ErrorKind::NotConnected),
        }
    }

    fn shutdown_write(&mut self, conn: Conn) {
        let now = self.now();
        let out = &mut Out { device: &mut self.device, link: &self.link };
        self.stack.shutdown_write(now, conn, out);
    }

    fn close(&mut self, conn: Conn, how: Close) {
        if self.stack.peer_address(conn).is_some() {
            self.counters.add(Count::Closed, 1);
            self.room.give_back();
        }
        self.stack.close(
            conn,
            match how {
                Close::Graceful => tcp::Close::Graceful,
                Close::Reset => tcp::Close::Reset,
            },
        );
    }

    fn expect_acknowledgements(&mut self, conn: Conn, within: Duration) {
        self.stack.expect_acknowledgements(conn, within);
    }

    fn heard(&self, conn: Conn) -> Option<Duration> {
        self.stack.heard(self.now(), conn)
    }

    fn knows_heard(&self) -> bool {
        true
    }

    fn peer_address(&self, conn: Conn) -> Option<SocketAddr> {
        self.stack.peer_address(conn)
    }

    fn pause_accepting(&mut self) {
        self.stack.pause_accepting();
    }

    fn stop_accepting(&mut self) {
        self.stack.stop_listening();
        self.accepting_until = Some(Instant::now() + LISTENERS_END);
    }

    fn resume_accepting(&mut self) {
        self.stack.resume_accepting();
    }

    fn memory(&self, memory: &mut Components) {
        let batch = self.batch.bytes.capacity() + self.batch.ends.capacity() * 8;
        memory.add(Component::Network, self.stack.memory_bytes() + batch);
    }
}

impl<D: Device> Passing for User<D> {
    type Copied = ();
}

impl<D> std::fmt::Debug for User<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "User({} connections)", self.stack.connections_count())
    }
}
