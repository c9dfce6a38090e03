//! Packets of MQTT over one connection, with the keep alive of a client.
//!
//! Place: below both commands. It waits, it never decides: what a packet means is the caller's.

use net::kernel::{ConnectOptions, Handover, Kernel, KernelOptions, Waker};
use net::{Close, Conn, Event, Net, Read, Write};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tls::Tls;
use wire::Step;
use wire::mqtt::{ClientPacket, Limits, ServerPacket, Version};

/// The longest packet that the client takes, in bytes.
const PACKET_BYTES_MAX: u32 = wire::mqtt::PACKET_BYTES_MAX;
/// Bytes of one read.
const READ_BYTES: usize = 64 * 1024;
/// Time for the answer to a ping.
const PING_PATIENCE: Duration = Duration::from_secs(20);
/// Time for the last bytes to leave.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// A connection.
pub struct Link {
    net: Tls<Kernel>,
    conn: Conn,
    version: Version,
    limits: Limits,
    is_connected: bool,
    is_readable: bool,
    is_writable: bool,
    input: Vec<u8>,
    output: Vec<u8>,
    events: Vec<Event>,
    keep_alive: Option<Duration>,
    sent: Instant,
    /// The time of a ping without an answer.
    pinged: Option<Instant>,
}

impl Link {
    /// Connects, and waits for it up to the deadline. `waker` ends a [`Link::wait`].
    ///
    /// # Errors
    /// The reason why there is no connection, as a text.
    pub fn open(
        address: SocketAddr,
        tls: Option<(&tls::Client, &str)>,
        version: Version,
        waker: Arc<Waker>,
        deadline: Instant,
    ) -> Result<Link, String> {
        let options = KernelOptions { connections_max: 2, ..KernelOptions::default() };
        let kernel = Kernel::new(options, waker, Handover::alone());
        let mut net = Tls::new(kernel.map_err(text)?);
        let conn = net.net_mut().connect(address, &ConnectOptions::default()).map_err(text)?;
        if let Some((client, name)) = tls {
            net.start(conn, client, name).map_err(|error| format!("TLS: {error}"))?;
        }
        let mut link = Link {
            net,
            conn,
            version,
            limits: Limits::default(),
            is_connected: false,
            is_readable: false,
            is_writable: false,
            input: Vec::new(),
            output: Vec::new(),
            events: Vec::new(),
            keep_alive: None,
            sent: Instant::now(),
            pinged: None,
        };
        while !link.is_connected {
            if Instant::now() >= deadline {
                return Err("the server did not answer in time".to_owned());
            }
            link.wait(Some(deadline))?;
        }
        Ok(link)
    }

    /// Sets the agreed keep alive in seconds, and the longest packet that the server takes.
    pub fn agree(&mut self, keep_alive_s: u16, packet_bytes_max: Option<u32>) {
        self.keep_alive = (keep_alive_s > 0).then(|| Duration::from_secs(u64::from(keep_alive_s)));
        if let Some(bytes) = packet_bytes_max {
            self.limits.packet_bytes_max = bytes;
        }
    }

    /// Queues a packet; [`Link::wait`] sends it.
    ///
    /// # Errors
    /// The packet is longer than the server takes.
    pub fn send(&mut self, packet: &ClientPacket<'_>) -> Result<(), String> {
        packet.encode(self.version, &self.limits, &mut self.output).map_err(text)?;
        Ok(())
    }

    /// Bytes that wait for the socket.
    pub fn waiting_bytes(&self) -> usize {
        self.output.len()
    }

    /// Sends the queued packets, and waits until bytes came, the waker was woken, or the time has
    /// come. It may return earlier.
    ///
    /// # Errors
    /// The connection is lost; the reason as a text.
    pub fn wait(&mut self, until: Option<Instant>) -> Result<(), String> {
        self.write()?;
        if self.is_readable {
            return self.read();
        }
        let now = Instant::now();
        let next = [until, self.next_ping()].into_iter().flatten().min();
        let timeout = next.map(|at| at.saturating_duration_since(now));
        let mut events = std::mem::take(&mut self.events);
        self.net.poll(timeout, &mut events).map_err(text)?;
        for event in events.drain(..) {
            self.event(event)?;
        }
        self.events = events;
        self.ping()?;
        self.write()?;
        if self.is_readable { self.read() } else { Ok(()) }
    }

    fn event(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Connected(conn) if conn == self.conn => {
                (self.is_connected, self.is_writable) = (true, true);
            }
            Event::Readable(conn) if conn == self.conn => self.is_readable = true,
            Event::Writable(conn) if conn == self.conn => self.is_writable = true,
            Event::Closed { conn, reason } if conn == self.conn => {
                return Err(self.failure(reason));
            }
            Event::Connected(_)
            | Event::Readable(_)
            | Event::Writable(_)
            | Event::Closed { .. }
            | Event::Accepted { .. }
            | Event::Woken => {}
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), String> {
        let start = self.input.len();
        self.input.resize(start + READ_BYTES, 0);
        let read = self.net.read(self.conn, &mut self.input[start..]);
        let count = if let Read::Data(count) = read { count } else { 0 };
        self.input.truncate(start + count);
        self.is_readable = count == READ_BYTES;
        match read {
            Read::Data(_) | Read::Blocked => Ok(()),
            Read::Ended => Err("the server closed the connection".to_owned()),
            Read::Failed(kind) => Err(self.failure(kind)),
        }
    }

    /// The reason why the connection is lost.
    fn failure(&mut self, kind: io::ErrorKind) -> String {
        match self.net.take_failure(self.conn) {
            Some(failure) => format!("TLS: {failure}"),
            None => io::Error::from(kind).to_string(),
        }
    }

    fn write(&mut self) -> Result<(), String> {
        while self.is_writable && !self.output.is_empty() {
            match self.net.write(self.conn, &[IoSlice::new(&self.output)]) {
                Write::Wrote(count) => {
                    self.is_writable = count == self.output.len();
                    self.output.drain(..count);
                    self.sent = Instant::now();
                }
                Write::Blocked => self.is_writable = false,
                Write::Failed(kind) => return Err(io::Error::from(kind).to_string()),
            }
        }
        Ok(())
    }

    /// The time of the next ping, or of giving up its answer.
    fn next_ping(&self) -> Option<Instant> {
        let keep_alive = self.keep_alive?;
        Some(match self.pinged {
            Some(pinged) => pinged + PING_PATIENCE,
            None => self.sent + keep_alive / 3 * 2,
        })
    }

    fn ping(&mut self) -> Result<(), String> {
        if self.next_ping().is_none_or(|at| at > Instant::now()) {
            return Ok(());
        }
        if self.pinged.is_some() {
            return Err("the server does not answer".to_owned());
        }
        self.pinged = Some(Instant::now());
        self.send(&ClientPacket::PingReq)
    }

    /// Takes all received bytes. [`Link::put_back`] returns the rest.
    pub fn take_input(&mut self) -> Vec<u8> {
        if !self.input.is_empty() {
            // Anything from the server shows that it lives.
            self.pinged = None;
        }
        std::mem::take(&mut self.input)
    }

    /// Returns taken bytes from `consumed` on.
    pub fn put_back(&mut self, mut input: Vec<u8>, consumed: usize) {
        input.drain(..consumed);
        self.input = input;
    }

    /// The packet at the front of taken bytes and its length; `None` while it is unfinished.
    ///
    /// # Errors
    /// The bytes are no packet; the reason as a text.
    pub fn decode<'a>(&self, input: &'a [u8]) -> Result<Option<(ServerPacket<'a>, usize)>, String> {
        if input.is_empty() {
            return Ok(None);
        }
        match ServerPacket::decode(self.version, PACKET_BYTES_MAX, input) {
            Ok(Step::Done { value, consumed }) => Ok(Some((value, consumed))),
            Ok(Step::More { .. }) => Ok(None),
            Err(error) => Err(format!("the server does not speak MQTT: {error}")),
        }
    }

    /// Sends the queued packets and ends the connection.
    ///
    /// # Errors
    /// Bytes could not be sent.
    pub fn end(mut self) -> Result<(), String> {
        let deadline = Instant::now() + END_PATIENCE;
        self.write()?;
        while self.waiting_bytes() > 0 {
            if Instant::now() >= deadline {
                return Err("the server does not read".to_owned());
            }
            // Nothing reads the bytes that come now.
            self.input.clear();
            self.wait(Some(deadline))?;
        }
        self.net.close(self.conn, Close::Graceful);
        // Closes take effect in a poll.
        self.net.poll(Some(Duration::ZERO), &mut self.events).map_err(text)
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
