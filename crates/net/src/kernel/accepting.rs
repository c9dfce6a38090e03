//! Accepting: from the listeners and from other threads, and refusing without room.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, SocketFlags, acceptfrom_with, getpeername, shutdown};

use super::closing::make_room;
use super::handover::BATCH_MAX;
use super::listener::{ListenOptions, canonical, open_listener};
use super::slots::{DEAD, LINGERING, REFUSED};
use super::{Kernel, LISTENERS_MAX, Listener};
use crate::Event;
use crate::counters::Count;

/// Maximum number of refused connections that wait for their peer to read the refusal; with the
/// sockets of one hand-over message they nearly fill the reserve.
pub(super) const REFUSED_MAX: usize = 24;

const _: () = assert!(REFUSED_MAX + BATCH_MAX < super::RESERVE as usize);

impl Kernel {
    /// Listens on one more address, at most 256 in all; returns the listener's number, as in
    /// [`Event::Accepted`], and its address. With port 0 the first thread opens its listener, and
    /// the others then name the selected port. All threads of a mesh must open their listeners in
    /// the same order.
    ///
    /// # Errors
    /// `AddrInUse`, `AddrNotAvailable`, `PermissionDenied`, or no descriptor.
    pub fn listen(&mut self, options: &ListenOptions) -> io::Result<(u8, SocketAddr)> {
        let number = self.next_listener()?;
        let (socket, address) = open_listener(options)?;
        let token = epoll::EventData::new_u64(number as u64);
        epoll::add(&self.epoll, &socket, token, self.listener_interest())?;
        self.listeners.push(Listener {
            socket,
            refusal: options.refusal,
            batch: 1,
            is_inherited: false,
            is_over: false,
        });
        Ok((number as u8, address))
    }

    pub(super) fn next_listener(&self) -> io::Result<usize> {
        match self.listeners.len() {
            number if number < LISTENERS_MAX => Ok(number),
            _ => Err(io::Error::new(
                io::ErrorKind::QuotaExceeded,
                "there can be at most 256 listeners",
            )),
        }
    }

    /// Tells epoll whether to report the listeners. They are level-triggered: connections that one
    /// poll does not accept are reported again by the next.
    pub(super) fn watch_listeners(&self) {
        for (number, listener) in self.listeners.iter().enumerate() {
            let token = epoll::EventData::new_u64(number as u64);
            let modified = epoll::modify(
                &self.epoll,
                &listener.socket,
                token,
                if listener.is_over {
                    epoll::EventFlags::empty()
                } else {
                    self.listener_interest()
                },
            );
            debug_assert!(modified.is_ok(), "a registered listener: {modified:?}");
        }
    }

    pub(super) fn listener_interest(&self) -> epoll::EventFlags {
        if self.paused || self.accept_retry_at.is_some() {
            epoll::EventFlags::empty()
        } else {
            epoll::EventFlags::IN
        }
    }

    /// Accepts one connection at first, and twice as many each time that more were waiting: asking
    /// an empty queue costs the kernel nearly as much as accepting a connection.
    pub(super) fn accept_batch(&mut self, number: u8, events: &mut Vec<Event>) {
        let at = usize::from(number);
        let batch = self.listeners[at].batch;
        self.listeners[at].batch = (2 * batch).min(self.options.accept_batch_max).max(1);
        for _ in 0..batch.min(self.options.accept_batch_max) {
            let listener = &self.listeners[at].socket;
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match acceptfrom_with(listener, flags) {
                Ok((socket, peer)) => {
                    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
                    self.place(number, socket, peer, events);
                }
                Err(Errno::AGAIN) => {
                    self.listeners[at].batch = 1;
                    break;
                }
                Err(Errno::INTR) => {}
                Err(error) => {
                    let count = Count::of(error);
                    self.counters.add(count, 1);
                    if count.is_shortage() {
                        self.rest_from_accepting();
                        break;
                    }
                    // accept(2): errors of the new connection are reported here too. The budget of
                    // the batch bounds the loop whatever comes.
                }
            }
        }
        self.pass_on();
    }

    /// Keeps the connection, sets it aside for another thread, or refuses it.
    fn place(
        &mut self,
        number: u8,
        socket: OwnedFd,
        peer: Option<SocketAddr>,
        events: &mut Vec<Event>,
    ) {
        if self.handover.take() {
            self.keep(number, socket, peer, events);
        } else if let Some(thread) = self.handover.take_elsewhere() {
            self.passing.push((thread, number, socket));
            if self.passing.len() == BATCH_MAX {
                self.pass_on();
            }
        } else {
            self.refuse(number, socket);
        }
    }

    /// Keeps a connection whose place is taken.
    fn keep(
        &mut self,
        number: u8,
        socket: OwnedFd,
        peer: Option<SocketAddr>,
        events: &mut Vec<Event>,
    ) {
        let Some(peer) = peer else {
            // It was reset before it was accepted.
            self.counters.add(Count::OtherErrors, 1);
            self.handover.give_back(self.handover.thread(), 1);
            return;
        };
        match self.register(socket, 0) {
            Ok(conn) => {
                self.counters.add(Count::Accepted, 1);
                events.push(Event::Accepted { conn, peer: canonical(peer), listener: number });
            }
            Err((socket, error)) => {
                self.counters.add(Count::of(error), 1);
                self.handover.give_back(self.handover.thread(), 1);
                self.refuse(number, socket);
            }
        }
    }

    /// Sends the sockets set aside for other threads, one message to each.
    fn pass_on(&mut self) {
        while let Some(&(thread, ..)) = self.passing.first() {
            let batch: Vec<(u8, OwnedFd)> = self
                .passing
                .extract_if(.., |(to, ..)| *to == thread)
                .map(|(_, number, socket)| (number, socket))
                .collect();
            match self.handover.send(thread, &batch) {
                Ok(()) => self.counters.add(Count::PassedOn, batch.len() as u64),
                Err(error) => {
                    self.counters.add(count_of(&error), 1);
                    self.handover.give_back(thread, batch.len() as u32);
                    for (number, socket) in batch {
                        self.refuse(number, socket);
                    }
                }
            }
        }
    }

    /// Receives sockets from other threads, which have reserved their places.
    pub(super) fn receive_passed(&mut self, events: &mut Vec<Event>) {
        let messages_max = self.options.accept_batch_max.div_ceil(BATCH_MAX);
        for _ in 0..messages_max {
            let mut received = std::mem::take(&mut self.received);
            let sent = match self.handover.receive(&mut received) {
                Ok(Some(sent)) => sent,
                Ok(None) => break,
                Err(error) => {
                    self.counters.add(count_of(&error), 1);
                    break;
                }
            };
            // The table was full: the kernel has dropped the rest.
            let lost = sent.saturating_sub(received.len() as u32);
            self.counters.add(Count::NoDescriptors, u64::from(lost));
            self.handover.give_back(self.handover.thread(), lost);
            self.counters.add(Count::TakenOver, received.len() as u64);
            for (number, socket) in received.drain(..) {
                let peer = peer_of(socket.as_fd());
                self.keep(number, socket, peer, events);
            }
            self.received = received;
        }
    }

    /// Answers a connection in the reserve, and ends it after the peer has read the answer.
    fn refuse(&mut self, number: u8, socket: OwnedFd) {
        self.counters.add(Count::Refused, 1);
        let refusal = self.listeners.get(usize::from(number)).map_or(&b""[..], |l| l.refusal);
        if refusal.is_empty() {
            self.counters.add(Count::Closed, 1);
            return;
        }
        // It fits a fresh socket's buffer. Otherwise the peer is gone.
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _ = rustix::net::send(socket.as_fd(), refusal, flags);
        let _ = shutdown(&socket, Shutdown::Write);
        if let Some(oldest) = make_room(&mut self.refused, REFUSED_MAX, &self.slots) {
            self.release_if_lingering(oldest);
        }
        match self.register(socket, DEAD | LINGERING | REFUSED) {
            Ok(conn) => {
                self.refused.push_back((Instant::now() + self.options.linger_timeout, conn));
            }
            Err(_) => self.counters.add(Count::Closed, 1),
        }
    }

    /// Suspends accepting for a moment: without descriptors or memory, an immediate retry is in
    /// vain.
    fn rest_from_accepting(&mut self) {
        self.accept_retry_at = Some(Instant::now() + self.options.accept_retry);
        self.watch_listeners();
    }
}

/// The peer's address; none if the connection is lost.
pub(super) fn peer_of(socket: BorrowedFd<'_>) -> Option<SocketAddr> {
    let peer = getpeername(socket).ok().flatten()?;
    SocketAddr::try_from(peer).ok().map(canonical)
}

fn count_of(error: &io::Error) -> Count {
    Errno::from_io_error(error).map_or(Count::OtherErrors, Count::of)
}
