//! `Net` on the kernel's sockets, by epoll; one [`Kernel`] for each thread.
//!
//! Every socket is registered once, edge-triggered. Epoll watches for room to write from the first
//! write that finds none: a fresh socket has room, which would wake the thread once more for each
//! connection. A socket beside the descriptor table is watched for both from the start, since its
//! registration cannot be modified. User space keeps eight bytes for a connection (`slots`), plus
//! twenty-four while it is being closed.
//!
//! With private descriptor tables, first the [`Waker`]s and the [`Handover`] mesh are created, then
//! each thread calls [`crate::system::unshare_table`] with all their descriptors, and only then
//! creates its `Kernel`, which stays on its thread (it is not `Send`). [`Sockets`] does all this
//! for a node.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, sendmsg, shutdown, sockopt};

use crate::system::{nofile_limit, open_count};
use crate::{Close, Conn, Counters, Event, Net, Read, Statistics, Write};
use stdx::memory::{Component, Components, vector_bytes};

mod accepting;
mod adopting;
mod closing;
mod connect;
mod handover;
mod inherited;
mod listener;
mod losing;
mod registered;
mod retiring;
mod slots;
mod starting;
mod starving;
mod wake;

pub use adopting::{ConnectionTable, Copied};
pub use connect::ConnectOptions;
pub use handover::Handover;
pub use inherited::{inherited_address, inherited_listener};
pub use listener::{ListenOptions, check_free};
pub use starting::{Sockets, UnopenedSockets};
pub use wake::Waker;

use adopting::AdoptedListener;
use registered::{INSTANCES_MAX, Registered};
use slots::{
    CONNECTING, DEAD, LINGERING, LOST, PEER_ENDED, READ_TOLD, REFUSED, ROOM_WATCHED, SLOTS_MAX,
    Slots, Socket, WRITE_BLOCKED,
};

/// Number of descriptors that a thread's table reserves: for sockets on their way to another
/// thread, refused ones until the peer has read the refusal, and an occasional file.
pub const RESERVE: u32 = 64;

/// `IOV_MAX`: parts that one system call takes.
const PARTS_MAX: usize = 1024;
/// Generation 0 never names a connection: with it, the index names a listener or one of these.
const TOKEN_WAKE: u64 = 0x100;
const TOKEN_HANDOVER: u64 = 0x101;
const LISTENERS_MAX: usize = 0x100;

/// Options of one thread's [`Kernel`].
#[derive(Clone, Copy, Debug)]
pub struct KernelOptions {
    /// Maximum number of connections of this thread. The cap is the table's limit minus [`RESERVE`]
    /// and `table_reserved`, plus `registered_max`.
    pub connections_max: u32,
    /// Maximum number of them in the descriptor table.
    pub table_connections_max: u32,
    /// Maximum number of connections beside the table, held by io_uring instances (Linux 6.8); 0 on
    /// systems without them. Each read and write of such a connection costs a little more.
    pub registered_max: u32,
    /// Number of descriptors of this thread's table reserved for later use by the caller; at most
    /// half of the free ones.
    pub table_reserved: u32,
    /// Number of threads that share this thread's descriptor table; 1 for a private table.
    pub table_threads_count: u32,
    /// Maximum number of sockets that one poll reports on.
    pub poll_sockets_max: usize,
    /// Maximum number of connections that one poll accepts from each listener.
    pub accept_batch_max: usize,
    /// Time for which the bytes of a gracefully closed connection are still discarded.
    pub linger_timeout: Duration,
    /// Maximum number of connections in that state; beyond it, the oldest is closed at once.
    pub lingering_max: usize,
    /// Pause after the kernel had no descriptor or memory for an accept.
    pub accept_retry: Duration,
}

impl Default for KernelOptions {
    fn default() -> KernelOptions {
        KernelOptions {
            connections_max: SLOTS_MAX,
            table_connections_max: SLOTS_MAX,
            registered_max: 0,
            table_reserved: 0,
            table_threads_count: 1,
            poll_sockets_max: 512,
            accept_batch_max: 64,
            linger_timeout: Duration::from_secs(2),
            lingering_max: 256,
            accept_retry: Duration::from_millis(50),
        }
    }
}

/// The kernel's sockets for one thread.
pub struct Kernel {
    epoll: OwnedFd,
    ready: Vec<epoll::Event>,
    slots: Slots,
    registered: Registered,
    /// Number of connections in the table, and its maximum.
    in_table: u32,
    in_table_max: u32,
    listeners: Vec<Listener>,
    /// Listeners that the previous process hands over, until their sockets arrive.
    adopted_listeners: Vec<AdoptedListener>,
    waker: Arc<Waker>,
    handover: Handover,
    options: KernelOptions,
    counters: Arc<Counters>,
    connections_max: u32,
    /// Whether the caller has paused accepting.
    paused: bool,
    /// The time of the next accept, after one that failed for want of resources.
    accept_retry_at: Option<Instant>,
    /// The earliest time of the end of listening.
    retire_at: Option<Instant>,
    /// The closes requested in this turn.
    closing: Vec<(u32, How)>,
    /// Connections with a short read after the announced end of their stream: they are readable
    /// again.
    again: Vec<Conn>,
    lingering: VecDeque<(Instant, Conn)>,
    refused: VecDeque<(Instant, Conn)>,
    /// Connections whose last write found no memory, and the time of the next attempt.
    starving: VecDeque<(Instant, Conn)>,
    received: Vec<(u8, OwnedFd)>,
    passing: Vec<(usize, u8, OwnedFd)>,
    /// Its descriptors are numbers in this thread's table.
    not_send: PhantomData<*mut ()>,
}

struct Listener {
    socket: OwnedFd,
    refusal: &'static [u8],
    /// Maximum number of connections that the next poll accepts.
    batch: usize,
    /// Whether another process has it, too.
    is_inherited: bool,
    /// Whether it accepts nothing any more.
    is_over: bool,
}

/// The way in which the next poll closes a descriptor.
#[derive(Clone, Copy)]
enum How {
    Graceful,
    Reset,
    /// The connection is lost already.
    Lost,
}

impl Kernel {
    /// Opens the epoll in the calling thread's table, and computes the number of connections that
    /// fit there.
    ///
    /// `handover` is this thread's end of the mesh, or [`Handover::alone`]. The limits should have
    /// been raised before ([`crate::system::raise_nofile_limit`]).
    ///
    /// # Errors
    /// `QuotaExceeded` if the descriptor limit leaves no room for any connection; `Unsupported` if
    /// the kernel cannot wait for less than a millisecond (`epoll_pwait2(2)`, Linux 5.11);
    /// otherwise what the kernel says.
    pub fn new(
        options: KernelOptions,
        waker: Arc<Waker>,
        handover: Handover,
    ) -> io::Result<Kernel> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        sub_millisecond_waits(&epoll)?;
        let wake_flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        let token = epoll::EventData::new_u64(TOKEN_WAKE);
        epoll::add(&epoll, waker.as_fd(), token, wake_flags)?;
        if let Some(end) = handover.receiving_end() {
            let token = epoll::EventData::new_u64(TOKEN_HANDOVER);
            epoll::add(&epoll, end, token, epoll::EventFlags::IN)?;
        }
        let descriptors_max = u32::try_from(nofile_limit().soft).unwrap_or(u32::MAX);
        let registered = Registered::new(options.registered_max, descriptors_max);
        let mut in_table_max = table_room(&options).min(options.table_connections_max);
        if registered.max() > 0 {
            // Each instance has a descriptor.
            in_table_max = in_table_max.saturating_sub(INSTANCES_MAX);
        }
        let connections_max = options
            .connections_max
            .min(in_table_max.saturating_add(registered.max()))
            .min(SLOTS_MAX);
        if connections_max == 0 {
            return Err(io::Error::new(
                io::ErrorKind::QuotaExceeded,
                format!(
                    "the descriptor limit {} leaves no room for connections beside a reserve of {RESERVE}",
                    nofile_limit().soft
                ),
            ));
        }
        handover.open(connections_max);
        Ok(Kernel {
            epoll,
            ready: Vec::with_capacity(options.poll_sockets_max.max(1)),
            slots: Slots::new(),
            registered,
            in_table: 0,
            in_table_max,
            listeners: Vec::new(),
            adopted_listeners: Vec::new(),
            waker,
            handover,
            options,
            counters: Arc::default(),
            connections_max,
            paused: false,
            accept_retry_at: None,
            retire_at: None,
            closing: Vec::new(),
            again: Vec::new(),
            lingering: VecDeque::new(),
            refused: VecDeque::new(),
            starving: VecDeque::new(),
            received: Vec::new(),
            passing: Vec::new(),
            not_send: PhantomData,
        })
    }

    /// Maximum number of connections of this thread, including closing ones.
    pub fn connections_max(&self) -> u32 {
        self.connections_max
    }

    /// The present counters.
    pub fn statistics(&self) -> Statistics {
        self.counters.statistics()
    }

    /// The counters, to read from any thread at any time.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Registers a socket, whose place in the count is already taken, and returns its key.
    ///
    /// # Errors
    /// The socket and the error, if it cannot be registered.
    fn register(&mut self, socket: OwnedFd, flags: u8) -> Result<Conn, (OwnedFd, Errno)> {
        let is_beside = flags & REFUSED == 0 && self.in_table >= self.in_table_max;
        let flags = if is_beside || flags & CONNECTING != 0 { flags | ROOM_WATCHED } else { flags };
        let inserted = self.slots.insert(socket, flags);
        let conn = inserted.map_err(|socket| (socket, Errno::MFILE))?;
        let Socket::Descriptor(socket) = self.slots.socket(conn.index) else {
            unreachable!("it was inserted with its descriptor");
        };
        let mut added = epoll::add(&self.epoll, socket, token(conn), interest(flags));
        if added.is_ok() && is_beside {
            match self.registered.hold(socket) {
                Ok(place) => drop(self.slots.relocate(conn.index, place)),
                Err(error) => added = Err(error),
            }
        } else if added.is_ok() && flags & REFUSED == 0 {
            self.in_table += 1;
        }
        let Err(error) = added else {
            return Ok(conn);
        };
        match self.slots.remove(conn.index) {
            Socket::Descriptor(socket) => Err((socket, error)),
            Socket::Registered(_) => unreachable!("nothing has moved it"),
        }
    }

    /// Lets epoll report room, after a write that found none; including room that has come since.
    fn watch_room(&mut self, conn: Conn) {
        let flags = self.slots.alive(conn).unwrap_or(ROOM_WATCHED);
        self.slots.set(conn.index, WRITE_BLOCKED);
        if flags & ROOM_WATCHED != 0 {
            return;
        }
        self.slots.set(conn.index, ROOM_WATCHED);
        if let Socket::Descriptor(socket) = self.slots.socket(conn.index) {
            let modified = epoll::modify(&self.epoll, socket, token(conn), interest(ROOM_WATCHED));
            debug_assert!(modified.is_ok(), "a registered socket: {modified:?}");
        }
    }

    /// Lends a connection's socket for a rare operation.
    ///
    /// # Errors
    /// No descriptor can be made for a registered socket.
    fn with_socket<T>(
        &mut self,
        index: u32,
        act: impl FnOnce(BorrowedFd<'_>) -> T,
    ) -> io::Result<T> {
        match self.slots.socket(index) {
            Socket::Descriptor(socket) => Ok(act(socket)),
            Socket::Registered(place) => {
                let socket = self.registered.descriptor(place)?;
                Ok(act(socket.as_fd()))
            }
        }
    }

    /// Translates epoll's report about one connection.
    fn report(&mut self, conn: Conn, said: epoll::EventFlags, events: &mut Vec<Event>) {
        let Some(flags) = self.slots.flags(conn) else {
            return;
        };
        if flags & DEAD != 0 {
            if flags & LINGERING != 0 {
                self.discard(conn.index);
            }
            return;
        }
        if said.contains(epoll::EventFlags::ERR) || flags & LOST == LOST {
            self.report_loss(conn, flags, events);
            return;
        }
        let writable = said.contains(epoll::EventFlags::OUT);
        if flags & CONNECTING != 0 {
            if !writable {
                return;
            }
            self.slots.clear(conn.index, CONNECTING);
            events.push(Event::Connected(conn));
        }
        if said.intersects(epoll::EventFlags::RDHUP | epoll::EventFlags::HUP) {
            self.slots.set(conn.index, PEER_ENDED);
        }
        let readable = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::HUP;
        if said.intersects(readable) && flags & READ_TOLD == 0 {
            self.slots.set(conn.index, READ_TOLD);
            events.push(Event::Readable(conn));
        }
        if writable && flags & WRITE_BLOCKED != 0 {
            self.slots.clear(conn.index, WRITE_BLOCKED);
            events.push(Event::Writable(conn));
        }
    }

    /// The time for which epoll may wait, until the first of our own deadlines.
    fn wait_time(&self, timeout: Option<Duration>) -> Option<Timespec> {
        let deadlines = [
            self.lingering.front().map(|(at, _)| *at),
            self.refused.front().map(|(at, _)| *at),
            self.starving.front().map(|(at, _)| *at),
            self.accept_retry_at,
            self.retire_at,
        ];
        let mut wait = timeout;
        if let Some(first) = deadlines.into_iter().flatten().min() {
            let until = first.saturating_duration_since(Instant::now());
            wait = Some(wait.map_or(until, |wait| wait.min(until)));
        }
        if !self.again.is_empty() {
            wait = Some(Duration::ZERO);
        }
        wait.map(|wait| Timespec::try_from(wait).unwrap_or(Timespec { tv_sec: 3600, tv_nsec: 0 }))
    }
}

/// Epoll's name of a connection.
fn token(conn: Conn) -> epoll::EventData {
    epoll::EventData::new_u64((u64::from(conn.generation) << 32) | u64::from(conn.index))
}

/// The events that epoll reports for a socket with these flags.
fn interest(flags: u8) -> epoll::EventFlags {
    let mut interest = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
    interest.set(epoll::EventFlags::OUT, flags & ROOM_WATCHED != 0);
    interest
}

/// Checks that waits can be shorter than a millisecond: `epoll_wait(2)` counts whole milliseconds,
/// which would show in the latencies of a paced publisher.
fn sub_millisecond_waits(epoll: &OwnedFd) -> io::Result<()> {
    let at_once = Timespec::default();
    let mut nothing = Vec::with_capacity(1);
    match epoll::wait(epoll, rustix::buffer::spare_capacity(&mut nothing), Some(&at_once)) {
        Err(Errno::NOSYS | Errno::PERM) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the system call epoll_pwait2 is missing (Linux 5.11 or newer is required), or a sandbox forbids it",
        )),
        _ => Ok(()),
    }
}

impl Drop for Kernel {
    /// Closes everything, in the orderly way that the kernel has for it.
    fn drop(&mut self) {
        self.handover.leave();
    }
}

impl Net for Kernel {
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) -> io::Result<()> {
        self.carry_out_closes();
        let wait = self.wait_time(timeout);
        for conn in std::mem::take(&mut self.again) {
            if self.slots.alive(conn).is_some_and(|flags| flags & READ_TOLD == 0) {
                self.slots.set(conn.index, READ_TOLD);
                events.push(Event::Readable(conn));
            }
        }
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        let waited =
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut ready), wait.as_ref());
        let mut accept_from = [false; LISTENERS_MAX];
        let mut receive = false;
        for event in &ready {
            let (said, data) = (event.flags, event.data.u64());
            if data >> 32 != 0 {
                let conn = Conn { index: data as u32, generation: (data >> 32) as u32 };
                self.report(conn, said, events);
            } else if data == TOKEN_WAKE {
                if self.waker.take() {
                    events.push(Event::Woken);
                }
            } else if data == TOKEN_HANDOVER {
                receive = true;
            } else {
                accept_from[data as usize] = true;
            }
        }
        // If epoll had more events than fit, a listener's may be missing.
        let is_all_told = ready.len() < ready.capacity();
        self.ready = ready;
        match waited {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.sweep_deadlines();
        self.sweep_starving(events);
        if receive {
            self.receive_passed(events);
        }
        for (number, &ready) in accept_from[..self.listeners.len()].iter().enumerate() {
            if ready {
                self.accept_batch(number as u8, events);
            } else {
                self.listeners[number].batch = 1;
            }
        }
        self.retire(is_all_told && !accept_from.contains(&true));
        Ok(())
    }

    fn read(&mut self, conn: Conn, buffer: &mut [u8]) -> Read {
        debug_assert!(!buffer.is_empty());
        let Some(flags) = self.slots.alive(conn) else {
            return Read::Failed(io::ErrorKind::NotConnected);
        };
        let size = buffer.len();
        let read = match self.slots.socket(conn.index) {
            Socket::Descriptor(socket) => retry_on_intr(|| rustix::io::read(socket, &mut *buffer)),
            Socket::Registered(place) => self.registered.recv(place, buffer),
        };
        match read {
            Ok(0) => losing::end_of(flags),
            Ok(count) => {
                if count < size && flags & READ_TOLD != 0 {
                    self.slots.clear(conn.index, READ_TOLD);
                    if flags & PEER_ENDED != 0 {
                        self.again.push(conn);
                    }
                }
                Read::Data(count)
            }
            Err(Errno::AGAIN) => {
                self.slots.clear(conn.index, READ_TOLD);
                Read::Blocked
            }
            Err(error) => Read::Failed(kind(error)),
        }
    }

    fn write(&mut self, conn: Conn, parts: &[IoSlice<'_>]) -> Write {
        let Some(flags) = self.slots.alive(conn) else {
            return Write::Failed(io::ErrorKind::NotConnected);
        };
        let all = || parts.iter().map(|part| part.len()).sum();
        if flags & LOST == LOST {
            return Write::Wrote(all());
        }
        let mut written = 0;
        for parts in parts.chunks(PARTS_MAX) {
            let offered: usize = parts.iter().map(|part| part.len()).sum();
            if offered == 0 {
                continue;
            }
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            let sent = match (self.slots.socket(conn.index), parts) {
                (Socket::Descriptor(socket), [part]) => {
                    retry_on_intr(|| rustix::net::send(socket, part, flags))
                }
                (Socket::Descriptor(socket), parts) => retry_on_intr(|| {
                    sendmsg(socket, parts, &mut SendAncillaryBuffer::default(), flags)
                }),
                (Socket::Registered(place), parts) => self.registered.send(place, parts),
            };
            match sent {
                Ok(count) => {
                    written += count;
                    if count < offered {
                        self.watch_room(conn);
                        break;
                    }
                }
                // NOBUFS and NOMEM: the system has no memory at present.
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => {
                    self.watch_room(conn);
                    self.blocked(conn);
                    if written == 0 {
                        return Write::Blocked;
                    }
                    break;
                }
                // The bytes sent before count; the next write reports the error again.
                Err(_) if written > 0 => break,
                Err(_) if self.is_kept_after_failure(conn) => return Write::Wrote(all()),
                Err(error) => return Write::Failed(kind(error)),
            }
        }
        Write::Wrote(written)
    }

    fn shutdown_write(&mut self, conn: Conn) {
        if self.slots.alive(conn).is_some() {
            // It fails only on a lost connection, which epoll reports.
            let _ = self.with_socket(conn.index, |socket| shutdown(socket, Shutdown::Write));
        }
    }

    fn close(&mut self, conn: Conn, how: Close) {
        if self.slots.alive(conn).is_some() {
            self.slots.set(conn.index, DEAD);
            let how = match how {
                Close::Graceful => How::Graceful,
                Close::Reset => How::Reset,
            };
            self.closing.push((conn.index, how));
        }
    }

    fn expect_acknowledgements(&mut self, conn: Conn, within: Duration) {
        if self.slots.alive(conn).is_some() {
            let within_ms = u32::try_from(within.as_millis()).unwrap_or(u32::MAX);
            // On failure, the kernel's own time limits apply.
            let _ = self
                .with_socket(conn.index, |socket| sockopt::set_tcp_user_timeout(socket, within_ms));
        }
    }

    /// None for a registered socket, because the system call needs a descriptor.
    fn peer_address(&self, conn: Conn) -> Option<SocketAddr> {
        self.slots.alive(conn)?;
        match self.slots.socket(conn.index) {
            Socket::Descriptor(socket) => accepting::peer_of(socket),
            Socket::Registered(_) => None,
        }
    }

    fn pause_accepting(&mut self) {
        self.paused = true;
        self.handover.pause();
        self.watch_listeners();
    }

    fn stop_accepting(&mut self) {
        self.begin_to_retire();
    }

    fn resume_accepting(&mut self) {
        self.paused = false;
        self.handover.resume();
        self.watch_listeners();
    }

    fn memory(&self, memory: &mut Components) {
        let conns = self.again.capacity();
        let deadlines = self.lingering.capacity() + self.refused.capacity();
        let bytes = self.slots.memory_bytes()
            + vector_bytes::<epoll::Event>(self.ready.capacity())
            + vector_bytes::<Conn>(conns)
            + vector_bytes::<(Instant, Conn)>(deadlines)
            + vector_bytes::<(u32, How)>(self.closing.capacity());
        memory.add(Component::Network, bytes);
    }
}

/// Maximum number of connections of a thread beside its descriptor table on this system; 0 if the
/// system does not allow them.
pub fn registered_room() -> u32 {
    if registered::is_allowed() { registered_room_for(nofile_limit().soft) } else { 0 }
}

/// Maximum number of connections of a thread beside its descriptor table under this descriptor
/// limit, on a system that allows them (Linux 6.8, io_uring).
pub fn registered_room_for(descriptors_max: u64) -> u32 {
    registered::room(u32::try_from(descriptors_max).unwrap_or(u32::MAX))
}

/// Connections that fit this thread's share of its descriptor table.
fn table_room(options: &KernelOptions) -> u32 {
    let limit = u32::try_from(nofile_limit().soft).unwrap_or(u32::MAX).min(SLOTS_MAX);
    // Open descriptors have small numbers, so large ones are not examined.
    let free = limit.saturating_sub(open_count(limit.min(4096)));
    let share = free / options.table_threads_count.max(1);
    let reserved = options.table_reserved.min(share / 2);
    (share - reserved).saturating_sub(RESERVE)
}

fn kind(error: Errno) -> io::ErrorKind {
    io::Error::from(error).kind()
}
