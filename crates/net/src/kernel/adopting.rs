//! Handing sockets to the next process, and taking them over under their keys.
//!
//! Beside the path, for live upgrades. First the old process copies descriptors out, some at a
//! time, and serves on ([`Kernel::copy_out`]); at the end it says which connections there are
//! ([`Kernel::roster`]) and sends what has come since. The new process takes copies in as they come
//! ([`Kernel::adopt`]) and at the end keeps those of the roster ([`Kernel::settle`]).
//!
//! Invariants: a copy in the new process changes nothing for the old one, but that a connection
//! that the old one closes is closed for its peer when the copy is, too: so orderly ends say so on
//! the wire at once, and resets wait for the end of the upgrade. Connections that are being closed,
//! refused or begun stay with the old process.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll;
use rustix::io::Errno;

use super::slots::{CONNECTING, DEAD, ROOM_WATCHED, Socket, WRITE_BLOCKED};
use super::{Kernel, Listener, interest, token};
use crate::Conn;
use crate::system::{DESCRIPTORS_MAX, Passage};
use stdx::handing::{Hand, Input};

/// Which connections a thread has, by index: the generation that was there last, and of those that
/// are there what is known of their sockets.
pub struct Roster(Vec<(u32, u8)>);

/// In a roster: somebody is there.
const PRESENT: u8 = 1;
/// A write has found no room.
const BLOCKED: u8 = 1 << 1;

impl Roster {
    /// Appends it.
    pub fn give(&self, out: &mut Vec<u8>) {
        self.0.give(out);
    }

    /// Reads it.
    pub fn take(input: &mut Input<'_>) -> Option<Roster> {
        Vec::take(input).map(Roster)
    }

    /// Connections that are there.
    pub fn connections_count(&self) -> usize {
        self.0.iter().filter(|(_, state)| state & PRESENT != 0).count()
    }
}

/// What is known of a listener that is taken over, beside its socket.
#[derive(Clone, Copy, Debug)]
pub struct AdoptedListener {
    /// Said to connections when all threads are full.
    pub refusal: &'static [u8],
    /// A service manager has it, too: its queue is not this process's to empty.
    pub is_inherited: bool,
}

/// What has been copied out.
#[derive(Default)]
pub struct Copied {
    /// By index: the generation that was.
    generations: Vec<u32>,
    next: u32,
}

/// How far [`Kernel::copy_out`] has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopiedOut {
    /// There are more.
    Some,
    /// Nothing was sent: what was sent before has to be received first.
    Full,
    /// All that there are have been looked at.
    All,
}

/// Descriptors of registered sockets that one message makes for itself, from the table's reserve.
const MADE_MAX: usize = 32;

impl Kernel {
    /// The listeners' sockets, in order.
    pub fn listeners(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.listeners.iter().map(|listener| listener.socket.as_fd())
    }

    /// Sends copies of further sockets, with their keys behind `head`, in one message.
    ///
    /// # Errors
    /// No descriptor can be made for a registered socket, or nobody will receive them.
    pub fn copy_out(
        &mut self,
        copied: &mut Copied,
        to: &Passage,
        head: &[u8],
    ) -> io::Result<CopiedOut> {
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
        if !batch.is_empty() && !self.send_batch(&batch, to, head)? {
            return Ok(CopiedOut::Full);
        }
        copied.next = next;
        copied.generations.resize(self.slots.len() as usize, 0);
        for (conn, _) in &batch {
            copied.generations[conn.index as usize] = conn.generation;
        }
        Ok(match next < self.slots.len() {
            true => CopiedOut::Some,
            false => CopiedOut::All,
        })
    }

    fn send_batch(
        &self,
        batch: &[(Conn, Option<OwnedFd>)],
        to: &Passage,
        head: &[u8],
    ) -> io::Result<bool> {
        let keys: Vec<Conn> = batch.iter().map(|(conn, _)| *conn).collect();
        let mut bytes = head.to_vec();
        keys.give(&mut bytes);
        let mut descriptors: Vec<BorrowedFd<'_>> = Vec::new();
        for (conn, made) in batch {
            match (made, self.slots.socket(conn.index)) {
                (Some(made), _) => descriptors.push(made.as_fd()),
                (None, Socket::Descriptor(socket)) => descriptors.push(socket),
                (None, Socket::Registered(_)) => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        to.try_send(&bytes, &descriptors)
    }

    /// Looks at all connections once more: what is new since is copied by the next
    /// [`Kernel::copy_out`].
    pub fn copy_again(copied: &mut Copied) {
        copied.next = 0;
    }

    /// Closes that were asked for are carried out, so that nothing is left in between. Then says
    /// who is there.
    pub fn roster(&mut self) -> Roster {
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
        Roster((0..self.slots.len()).map(entry).collect())
    }

    /// Whether connections that are being closed still wait for their peers; they need this process
    /// for so long.
    pub fn is_lingering(&self) -> bool {
        !self.lingering.is_empty()
    }

    /// Takes the listeners over, in order. Nothing is accepted yet.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn adopt_listeners(
        &mut self,
        sockets: Vec<OwnedFd>,
        known: &[AdoptedListener],
    ) -> io::Result<()> {
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

    /// Takes a copy of a socket in, in place of an earlier one under the same index.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn adopt(&mut self, conn: Conn, socket: OwnedFd) -> io::Result<()> {
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

    /// Keeps those of the roster and lets go of all others.
    ///
    /// # Errors
    /// Some of the roster have not come.
    pub fn settle(&mut self, roster: &Roster) -> io::Result<()> {
        for (index, &(generation, state)) in (0..).zip(&roster.0) {
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
        let generations = roster.0.iter().map(|(generation, _)| *generation);
        self.slots.settle(generations);
        Ok(())
    }

    /// The connection at an index, if the next process is to have it.
    fn handed_at(&self, index: u32) -> Option<Conn> {
        let conn = self.slots.occupant(index);
        let flags = self.slots.flags(conn)?;
        (flags & (DEAD | CONNECTING) == 0).then_some(conn)
    }

    fn let_go(&mut self, index: u32) {
        match self.slots.vacate(index) {
            Socket::Descriptor(socket) => {
                self.in_table -= 1;
                // Another process has the same file: closing it here does not take it out of this
                // epoll.
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
