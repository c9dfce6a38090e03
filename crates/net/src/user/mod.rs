//! `Net` on a TCP of our own ([`tcp`]), over a device that carries frames: one [`User`] for each
//! thread.
//!
//! The stack is a function of packets and time; this module gives it both. Within
//! [`Net::poll`] the turn that ends first sends what it owes, then the thread waits for the device,
//! the waker or the first timer, and at last a bounded number of packets becomes events. Invariant:
//! what a write could send has left before the next wait.

mod link;
mod lossy;
#[cfg(test)]
mod tests;

pub use link::Link;
pub use lossy::{Lossy, Rates};

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use stdx::memory::{Component, Components};
use tcp::{Stack, Time};

use crate::device::Device;
use crate::kernel::Waker;
use crate::{Close, Conn, Count, Counters, Event, LISTENERS_END, Net, Passing, Read, Write};

/// Maximum number of frames that one poll takes.
const FRAMES_MAX: usize = 512;
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(3600);
/// The longest wait while the device has frames that it could not send.
const UNSENT_WAIT: Duration = Duration::from_millis(1);
const TOKEN_WAKER: u64 = 1;
const TOKEN_DEVICE: u64 = 0;

/// TCP of our own for one thread.
pub struct User<D> {
    stack: Stack,
    device: D,
    link: Link,
    epoll: OwnedFd,
    ready: Vec<epoll::Event>,
    waker: Arc<Waker>,
    start: Instant,
    /// The end of accepting, after the listeners are closed.
    accepting_until: Option<Instant>,
    counters: Arc<Counters>,
    events: Vec<tcp::Event>,
    batch: Batch,
}

/// The frames of one poll: the device lends each for a moment only, and the stack answers through
/// the device.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// The device as the stack sees it.
struct Out<'a, D> {
    device: &'a mut D,
    link: &'a Link,
}

impl<D: Device> tcp::Frames for Out<'_, D> {
    fn next_frame(&mut self) -> Option<&mut [u8]> {
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
        epoll::add(&epoll, waker.as_fd(), epoll::EventData::new_u64(TOKEN_WAKER), edge)?;
        if let Some(descriptor) = device.descriptor() {
            let token = epoll::EventData::new_u64(TOKEN_DEVICE);
            epoll::add(&epoll, descriptor, token, epoll::EventFlags::IN)?;
        }
        Ok(User {
            stack: Stack::new(config, Time(0)),
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
        })
    }

    /// Listens on an address. None if it is taken, or not one of the stack's.
    pub fn listen(&mut self, address: SocketAddr) -> Option<u8> {
        self.stack.listen(address)
    }

    /// Begins a connection; [`Event::Connected`] or [`Event::Closed`] follows.
    ///
    /// # Errors
    /// The reasons of [`Stack::connect`].
    pub fn connect(&mut self, to: SocketAddr) -> io::Result<Conn> {
        let now = self.now();
        let out = &mut Out { device: &mut self.device, link: &self.link };
        let conn = self.stack.connect(now, None, to, out)?;
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
        let now = self.now();
        self.stack.end_turn(now, &mut Out { device: &mut self.device, link: &self.link });
        self.device.flush()
    }

    /// The time for which the thread may wait.
    fn wait_time(&mut self, timeout: Option<Duration>) -> Duration {
        // A device without a descriptor cannot wake the thread.
        if self.stack.has_events() || self.device.descriptor().is_none() {
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
        let longest = Timespec { tv_sec: 3600, tv_nsec: 0 };
        let timeout = Timespec::try_from(timeout).unwrap_or(longest);
        self.ready.clear();
        let waited = epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut self.ready),
            Some(&timeout),
        );
        match waited {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_waker = |event: &epoll::Event| event.data.u64() == TOKEN_WAKER;
        Ok(self.ready.iter().any(is_waker) && self.waker.take())
    }

    /// Takes the frames that have arrived.
    fn receive(&mut self) -> io::Result<()> {
        let Batch { bytes, ends } = &mut self.batch;
        bytes.clear();
        ends.clear();
        self.device.receive(FRAMES_MAX, &mut |frame| {
            bytes.extend_from_slice(frame);
            ends.push(bytes.len());
        })?;
        let now = Time(self.start.elapsed().as_micros() as u64);
        let mut from = 0;
        for end in &self.batch.ends {
            let frame = &self.batch.bytes[from..*end];
            from = *end;
            if let Some((packet, hop)) = self.link.packet(frame) {
                let out = &mut Out { device: &mut self.device, link: &self.link };
                self.stack.receive(now, packet, hop, out);
            }
        }
        Ok(())
    }

    fn report(&mut self, events: &mut Vec<Event>) {
        self.stack.take_events(&mut self.events);
        for event in self.events.drain(..) {
            events.push(match event {
                tcp::Event::Accepted { conn, peer, listener } => {
                    self.counters.add(Count::Accepted, 1);
                    Event::Accepted { conn, peer, listener }
                }
                tcp::Event::Connected(conn) => Event::Connected(conn),
                tcp::Event::Readable(conn) => Event::Readable(conn),
                tcp::Event::Writable(conn) => Event::Writable(conn),
                tcp::Event::Closed { conn, reason } => {
                    self.counters.add(Count::Closed, 1);
                    Event::Closed { conn, reason }
                }
            });
        }
    }
}

impl<D: Device> Net for User<D> {
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        self.end_turn()?;
        let is_woken = self.wait(timeout)?;
        self.receive()?;
        self.report(events);
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
            tcp::Read::Dead => Read::Failed(io::ErrorKind::NotConnected),
        }
    }

    fn write(&mut self, conn: Conn, parts: &[IoSlice<'_>]) -> Write {
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
