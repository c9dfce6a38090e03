//! The kernel's sockets in a live upgrade: their copies for the next process, and that process's
//! adoption of them under the same keys.
//!
//! Beside the path; [`crate::Passing`] has the order of calls. The old process copies descriptors,
//! some at a time, and serves on. Its final state is a [`ConnectionTable`] of the connections. The
//! new process adopts copies as they arrive, and at the end keeps those of the table.
//!
//! Invariants: a copy in the new process changes nothing for the old one, except that a connection
//! closed by the old process is closed for its peer when the copy is closed, too: so an orderly end
//! is sent on the wire at once, and resets wait for the end of the upgrade. Connections that are
//! being closed, refused or begun stay with the old process.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll;
use rustix::io::Errno;

use super::slots::{CONNECTING, DEAD, LOST, ROOM_WATCHED, Socket, WRITE_BLOCKED};
use super::{Kernel, Listener, interest, token};
use crate::system::DESCRIPTORS_MAX;
use crate::{Conn, Copying, Passing, SendCopies};
use stdx::handing::{Hand, Input};

/// The connections of a thread by index: the last generation there, and the state of the socket of
/// a present connection.
#[derive(Hand)]
pub struct ConnectionTable(Vec<(u32, u8)>);

/// In a table: the connection is present.
const PRESENT: u8 = 1;
/// A write has found no room.
const BLOCKED: u8 = 1 << 1;

impl ConnectionTable {
    /// Number of present connections.
    pub fn connections_count(&self) -> usize {
        self.0.iter().filter(|(_, state)| state & PRESENT != 0).count()
    }
}

/// An adopted listener, before its socket arrives.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdoptedListener {
    /// The answer to connections when all threads are full.
    pub refusal: &'static [u8],
    /// Whether a service manager has it, too: its queue is not this process's to empty.
    pub is_inherited: bool,
}

/// The record of copied sockets.
#[derive(Default)]
pub struct Copied {
    has_listeners: bool,
    /// The copied generation of each index.
    generations: Vec<u32>,
    next: u32,
}

/// The first byte of a message: it contains the listeners, in order.
const LISTENERS: u8 = 0;
/// The first byte of a message: it contains connections, with their keys.
const CONNECTIONS: u8 = 1;

/// Maximum number of descriptors that one message makes for registered sockets, from the table's
/// reserve.
const MADE_MAX: usize = 32;

impl Passing for Kernel {
    type Copied = Copied;

    fn copy_some(&mut self, copied: &mut Copied, send: &mut SendCopies<'_>) -> io::Result<Copying> {
        if !copied.has_listeners {
            let sockets = self.listeners.iter().map(|listener| listener.socket.as_fd());
            copied.has_listeners = send(&[LISTENERS], &sockets.collect::<Vec<_>>())?;
            return Ok(if copied.has_listeners { Copying::More } else { Copying::Full });
        }
        let mut batch: Vec<(Conn, Option<OwnedFd>)> = Vec::new();
        let (mut next, mut made_count) = (copied.next, 0);
        while next < self.slots.len() && batch.len() < DESCRIPTORS_MAX && made_count < MADE_MAX {
            if let Some(conn) = self.handed_at(next)
                && copied.generations.get(next as usize) != Some(&conn.generation)
            {
                let made = match self.slots.socket(next) {
                    Socket::Descriptor(_) => None,
                    Socket::Registered(place) => Some(self.registered.descriptor(place)?),
                };
                made_count += usize::from(made.is_some());
                batch.push((conn, made));
            }
            next += 1;
        }
        if !batch.is_empty() && !self.send_batch(&batch, send)? {
            return Ok(Copying::Full);
        }
        copied.next = next;
        copied.generations.resize(self.slots.len() as usize, 0);
        for (conn, _) in &batch {
            copied.generations[conn.index as usize] = conn.generation;
        }
        Ok(if next < self.slots.len() { Copying::More } else { Copying::Done })
    }

    fn conclude(&mut self, copied: &mut Copied, out: &mut Vec<u8>) -> bool {
        // The closes asked for are carried out, so that none remains in between.
        self.carry_out_closes();
        let entry = |index| {
            let key = self.slots.occupant(index);
            match self.handed_at(index) {
                None => (key.generation, 0),
                Some(conn) => {
                    let flags = self.slots.flags(conn).unwrap_or(0);
                    let blocked = if flags & WRITE_BLOCKED != 0 { BLOCKED } else { 0 };
                    (conn.generation, PRESENT | blocked)
                }
            }
        };
        ConnectionTable((0..self.slots.len()).map(entry).collect()).give(out);
        // All connections are examined once more: those that are new since are copied.
        copied.next = 0;
        !self.lingering.is_empty()
    }

    fn adopt(&mut self, message: &[u8], descriptors: Vec<OwnedFd>) -> io::Result<()> {
        let malformed = || io::Error::from(io::ErrorKind::InvalidData);
        match message.split_first() {
            Some((&LISTENERS, [])) if descriptors.len() == self.adopted_listeners.len() => {
                self.adopt_listeners(descriptors)
            }
            Some((&CONNECTIONS, keys)) => {
                let keys: Vec<Conn> = Hand::take(&mut Input::new(keys)).ok_or_else(malformed)?;
                if keys.len() != descriptors.len() {
                    return Err(malformed());
                }
                let mut pairs = keys.into_iter().zip(descriptors);
                pairs.try_for_each(|(conn, socket)| self.adopt_connection(conn, socket))
            }
            _ => Err(malformed()),
        }
    }

    fn settle(&mut self, input: &mut Input<'_>) -> io::Result<()> {
        let malformed = || io::Error::from(io::ErrorKind::InvalidData);
        let table = ConnectionTable::take(input).ok_or_else(malformed)?;
        for (index, &(generation, state)) in (0..).zip(&table.0) {
            let is_here =
                self.slots.is_taken(index) && self.slots.occupant(index).generation == generation;
            if state & PRESENT == 0 {
                if self.slots.is_taken(index) {
                    self.let_go(index);
                    self.handover.give_back(self.handover.thread(), 1);
                }
                continue;
            }
            if !is_here {
                let text = format!("connection {index} was not handed over");
                return Err(io::Error::new(io::ErrorKind::NotFound, text));
            }
            if state & BLOCKED != 0 {
                self.watch_room(Conn { index, generation });
            }
        }
        let generations = table.0.iter().map(|(generation, _)| *generation);
        self.slots.settle(generations);
        Ok(())
    }
}

impl Kernel {
    /// Sends copies of these sockets with their keys, in one message.
    fn send_batch(
        &self,
        batch: &[(Conn, Option<OwnedFd>)],
        send: &mut SendCopies<'_>,
    ) -> io::Result<bool> {
        let keys: Vec<Conn> = batch.iter().map(|(conn, _)| *conn).collect();
        let mut bytes = vec![CONNECTIONS];
        keys.give(&mut bytes);
        let mut descriptors: Vec<BorrowedFd<'_>> = Vec::new();
        for (conn, made) in batch {
            match (made, self.slots.socket(conn.index)) {
                (Some(made), _) => descriptors.push(made.as_fd()),
                (None, Socket::Descriptor(socket)) => descriptors.push(socket),
                (None, Socket::Registered(_)) => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        send(&bytes, &descriptors)
    }

    fn adopt_listeners(&mut self, sockets: Vec<OwnedFd>) -> io::Result<()> {
        let known = std::mem::take(&mut self.adopted_listeners);
        for (number, (socket, known)) in sockets.into_iter().zip(known).enumerate() {
            let token = epoll::EventData::new_u64(number as u64);
            epoll::add(&self.epoll, &socket, token, epoll::EventFlags::IN)?;
            self.listeners.push(Listener {
                socket,
                refusal: known.refusal,
                batch: 1,
                is_inherited: known.is_inherited,
                is_over: false,
            });
        }
        Ok(())
    }

    /// Adopts a copy of a socket, in place of an earlier one under the same index.
    fn adopt_connection(&mut self, conn: Conn, socket: OwnedFd) -> io::Result<()> {
        if self.slots.is_taken(conn.index) {
            self.let_go(conn.index);
        } else if !self.handover.take() {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let is_beside = self.in_table >= self.in_table_max;
        let flags = if is_beside { ROOM_WATCHED } else { 0 };
        let refused = |_| io::Error::from(io::ErrorKind::QuotaExceeded);
        self.slots.occupy(conn, socket, flags).map_err(refused)?;
        let Socket::Descriptor(socket) = self.slots.socket(conn.index) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        epoll::add(&self.epoll, socket, token(conn), interest(flags))?;
        if is_beside {
            let place = self.registered.hold(socket).map_err(io::Error::from)?;
            drop(self.slots.relocate(conn.index, place));
        } else {
            self.in_table += 1;
        }
        Ok(())
    }

    /// The connection at an index, if it is handed over.
    fn handed_at(&self, index: u32) -> Option<Conn> {
        let conn = self.slots.occupant(index);
        let flags = self.slots.flags(conn)?;
        let is_connecting = flags & LOST == CONNECTING;
        (flags & DEAD == 0 && !is_connecting).then_some(conn)
    }

    fn let_go(&mut self, index: u32) {
        match self.slots.vacate(index) {
            Socket::Descriptor(socket) => {
                self.in_table -= 1;
                // Another process has the same file, so closing it here does not remove it from
                // this epoll.
                let deleted: Result<(), Errno> = epoll::delete(&self.epoll, &socket);
                debug_assert!(deleted.is_ok(), "a registered socket: {deleted:?}");
            }
            Socket::Registered(place) => {
                if let Ok(socket) = self.registered.descriptor(place) {
                    let _ = epoll::delete(&self.epoll, &socket);
                }
                self.registered.release(place);
            }
        }
    }
}
