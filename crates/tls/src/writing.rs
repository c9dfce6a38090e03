//! Writing: text from the caller, records to the network; and the two ways to end.
//!
//! Place: [`net::Net::write`], `shutdown_write` and `close` of [`crate::Tls`]. Invariants: a record
//! of which the socket has taken a byte is sent to its end before anything else; records without a
//! sent byte are dropped and their numbers reused, so that at most one record is kept; `Writable`
//! is reported only after a blocked or short write.

use net::{Close, Conn, Event, Net, Write};
use std::io::{self, IoSlice};
use std::time::Instant;

use crate::alert::description;
use crate::connection::{Flags, State};
use crate::counters::{add, subtract};
use crate::record::{TEXT_BYTES_MAX, Text, kind};
use crate::{ENDING_MAX, ENDING_TIMEOUT, Tls};

/// Number of records sealed at once. Those that the socket does not take are sealed in vain.
const BATCH_RECORDS: usize = 2;
/// Maximum number of records sealed between two checks of the key's limit, including an alert.
const LOOKAHEAD_RECORDS: u64 = BATCH_RECORDS as u64 + 1;

/// The end of a sealed record: in the batch, in the text, and in the numbers.
#[derive(Clone, Copy, Default)]
struct Mark {
    sealed: usize,
    text: usize,
    sequence: u64,
}

/// The result of a batch.
enum Batch {
    /// The network has taken all of it, up to this byte of the text.
    Sent(usize),
    /// The network has taken the text up to this byte and no more.
    Short(usize),
    Failed(io::ErrorKind),
}

impl<N: Net> Tls<N> {
    pub(crate) fn write_records(&mut self, place: u32, parts: &[IoSlice<'_>]) -> Write {
        let connection = &mut self.connections[place];
        let flags = connection.flags;
        if flags.has(Flags::CLOSED) {
            return Write::Failed(io::ErrorKind::NotConnected);
        }
        if flags.has_any(Flags::FAILED | Flags::SHUT) {
            return Write::Failed(io::ErrorKind::BrokenPipe);
        }
        let offered = parts.iter().map(|part| part.len()).sum();
        if offered == 0 {
            return Write::Wrote(0);
        }
        let mut text = Text::of(parts);
        let mut wrote = 0;
        loop {
            match self.write_batch(place, &mut text, wrote, offered) {
                Batch::Sent(taken) if taken < offered => wrote = taken,
                Batch::Sent(taken) => return Write::Wrote(taken),
                Batch::Short(taken) => {
                    if taken < offered {
                        self.connections[place].flags.set(Flags::WRITE_BLOCKED);
                    }
                    return if taken == 0 { Write::Blocked } else { Write::Wrote(taken) };
                }
                // The bytes sent before count; the next write reports the error again.
                Batch::Failed(_) if wrote > 0 => return Write::Wrote(wrote),
                Batch::Failed(kind) => return Write::Failed(kind),
            }
        }
    }

    /// Seals some records of the text and writes them; announces new keys first if they are due.
    fn write_batch(
        &mut self,
        place: u32,
        text: &mut Text<'_>,
        wrote: usize,
        offered: usize,
    ) -> Batch {
        if let Some(early) = self.before_batch(place, wrote) {
            return early;
        }
        self.sealed.clear();
        self.take_held(place);
        let held = self.sealed.len();
        let connection = &mut self.connections[place];
        let State::Open(open) = &mut connection.state else {
            return Batch::Failed(io::ErrorKind::Other);
        };
        let before = open.layer.sealed();
        let mut marks = [Mark::default(); BATCH_RECORDS];
        let mut count = 0;
        let mut taken = wrote;
        let sealing = open.layer.sealing_context();
        while count < BATCH_RECORDS && taken < offered {
            let length = TEXT_BYTES_MAX.min(offered - taken);
            let sealed = sealing.as_ref().map_err(|fault| *fault).and_then(|context| {
                let layer = &mut open.layer;
                layer.seal(context, kind::DATA, text, length, &mut self.sealed)
            });
            if sealed.is_err() {
                connection.flags.set(Flags::FAILED);
                return Batch::Failed(io::ErrorKind::Other);
            }
            taken += length;
            marks[count] =
                Mark { sealed: self.sealed.len(), text: taken, sequence: open.layer.sealed() };
            count += 1;
        }
        let written = self.net.write(connection.conn, &[IoSlice::new(&self.sealed)]);
        let sent = match written {
            Write::Wrote(sent) => sent,
            Write::Blocked => 0,
            Write::Failed(kind) => {
                open.layer.unseal_back_to(before);
                return Batch::Failed(kind);
            }
        };
        if sent == self.sealed.len() {
            return Batch::Sent(taken);
        }
        if sent <= held {
            open.layer.unseal_back_to(before);
            self.keep_tail(place, sent, held - sent);
            return Batch::Short(wrote);
        }
        // The begun record is sent to its end; no byte of those behind it was sent.
        let Some(begun) = marks[..count].iter().find(|mark| sent <= mark.sealed) else {
            return Batch::Failed(io::ErrorKind::Other);
        };
        open.layer.unseal_back_to(begun.sequence);
        let rest = begun.sealed - sent;
        self.keep_tail(place, sent, rest);
        Batch::Short(begun.text)
    }

    /// The result of a batch that cannot be sealed, or that only announces new keys.
    fn before_batch(&mut self, place: u32, wrote: usize) -> Option<Batch> {
        let connection = &mut self.connections[place];
        let State::Open(open) = &mut connection.state else {
            // Only the answer to a slow client is written so early, and the client cannot read it.
            return Some(if connection.flags.has(Flags::CLIENT) {
                Batch::Short(wrote)
            } else {
                Batch::Failed(io::ErrorKind::NotConnected)
            });
        };
        if open.has_tail() && !connection.flags.has(Flags::HELD) {
            return Some(Batch::Short(wrote));
        }
        if open.layer.is_used_up(LOOKAHEAD_RECORDS, self.records_max) {
            self.alert(place, description::CLOSE_NOTIFY);
            self.connections[place].flags.set(Flags::FAILED);
            return Some(Batch::Failed(io::ErrorKind::QuotaExceeded));
        }
        if open.layer.wants_update(LOOKAHEAD_RECORDS, self.records_max) {
            return Some(match self.update_keys(place) {
                Ok(true) => Batch::Sent(wrote),
                Ok(false) => Batch::Short(wrote),
                Err(kind) => Batch::Failed(kind),
            });
        }
        None
    }

    /// Moves the held last message of the handshake to the sealed records.
    fn take_held(&mut self, place: u32) {
        let connection = &mut self.connections[place];
        if !connection.flags.has(Flags::HELD) {
            return;
        }
        connection.flags.clear(Flags::HELD);
        let bytes = connection.buffer_bytes();
        if let State::Open(open) = &mut connection.state {
            let mut buffers = open.take_buffers();
            self.sealed.append(&mut std::mem::take(&mut buffers.tail));
            open.give_buffers(buffers);
        }
        add(&self.counters.buffer_bytes, connection.buffer_bytes());
        subtract(&self.counters.buffer_bytes, bytes);
    }

    /// Announces new keys and uses them. Returns whether the network has room for more.
    fn update_keys(&mut self, place: u32) -> Result<bool, io::ErrorKind> {
        self.send_held_of(place);
        let connection = &mut self.connections[place];
        let State::Open(open) = &mut connection.state else {
            return Ok(false);
        };
        if open.has_tail() {
            return Ok(false);
        }
        self.sealed.clear();
        if open.layer.update_keys(&mut self.sealed).is_err() {
            connection.flags.set(Flags::FAILED);
            return Err(io::ErrorKind::Other);
        }
        add(&self.counters.key_updates, 1);
        self.send_sealed(place);
        match &self.connections[place].state {
            State::Open(open) => Ok(!open.has_tail()),
            _ => Ok(false),
        }
    }

    /// Sends an alert, unless a record is unfinished; one that does not fit is not tried again.
    pub(crate) fn alert(&mut self, place: u32, number: u8) {
        self.send_held_of(place);
        let State::Open(open) = &mut self.connections[place].state else {
            return;
        };
        self.sealed.clear();
        if !open.has_tail() && open.layer.seal_alert(number, &mut self.sealed).is_ok() {
            self.send_sealed(place);
        }
    }

    /// Writes the sealed record, and keeps the bytes that the network does not take, because the
    /// record's number is used.
    fn send_sealed(&mut self, place: u32) {
        let conn = self.connections[place].conn;
        let sent = match self.net.write(conn, &[IoSlice::new(&self.sealed)]) {
            Write::Wrote(sent) => sent,
            Write::Blocked => 0,
            // The connection is lost, which the network reports.
            Write::Failed(_) => return,
        };
        self.keep_tail(place, sent, self.sealed.len() - sent);
    }

    /// Stores a part of the sealed bytes, to be sent when there is room.
    fn keep_tail(&mut self, place: u32, from: usize, length: usize) {
        if length == 0 {
            return;
        }
        let connection = &mut self.connections[place];
        let before = connection.buffer_bytes();
        if let State::Open(open) = &mut connection.state {
            open.keep_tail(&self.sealed[from..from + length]);
        }
        add(&self.counters.buffer_bytes, connection.buffer_bytes());
        subtract(&self.counters.buffer_bytes, before);
    }

    /// Sends the last messages of handshakes that no data has taken along.
    pub(crate) fn send_held(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        for conn in held.drain(..) {
            if let Some(place) = self.place(conn) {
                self.send_held_of(place);
            }
        }
        self.held = held;
    }

    fn send_held_of(&mut self, place: u32) {
        if self.connections[place].flags.has(Flags::HELD) {
            self.send_tail(place);
        }
    }

    /// Sends the rest of a record or of the handshake. Returns whether it is sent, so that writing
    /// may continue.
    fn send_tail(&mut self, place: u32) -> bool {
        let connection = &mut self.connections[place];
        connection.flags.clear(Flags::HELD);
        let before = connection.buffer_bytes();
        let is_flushed = match &mut connection.state {
            State::Fresh => true,
            State::Handshake(handshake) => {
                send(&mut self.net, connection.conn, &mut handshake.output);
                false
            }
            State::Open(open) => {
                let mut buffers = open.take_buffers();
                send(&mut self.net, connection.conn, &mut buffers.tail);
                let is_flushed = buffers.tail.is_empty();
                open.give_buffers(buffers);
                is_flushed
            }
        };
        add(&self.counters.buffer_bytes, connection.buffer_bytes());
        subtract(&self.counters.buffer_bytes, before);
        is_flushed
    }

    /// Uses the network's new room: first for the begun record, then for the held one.
    pub(crate) fn writable(&mut self, place: u32, events: &mut Vec<Event>) {
        if !self.send_tail(place) {
            return;
        }
        let connection = &mut self.connections[place];
        let flags = connection.flags;
        if flags.has(Flags::CLOSED) {
            self.finish_ending(place);
        } else if flags.has(Flags::SHUT) {
            self.finish_stream(place);
        } else if flags.has(Flags::WRITE_BLOCKED) && !connection.is_handshaking() {
            connection.flags.clear(Flags::WRITE_BLOCKED);
            events.push(Event::Writable(connection.conn));
        }
    }

    pub(crate) fn end_stream(&mut self, place: u32) {
        let connection = &mut self.connections[place];
        if connection.flags.has_any(Flags::SHUT | Flags::CLOSED) {
            return;
        }
        connection.flags.set(Flags::SHUT);
        self.send_held_of(place);
        match &self.connections[place].state {
            State::Open(open) if open.has_tail() => {}
            _ => self.finish_stream(place),
        }
    }

    /// Ends our stream, in TLS and below.
    fn finish_stream(&mut self, place: u32) {
        if !self.notify(place) {
            return;
        }
        let conn = self.connections[place].conn;
        self.net.shutdown_write(conn);
    }

    /// Sends `close_notify` once. Returns whether it is sent; if not, the next room in the socket
    /// tries again.
    fn notify(&mut self, place: u32) -> bool {
        let flags = &mut self.connections[place].flags;
        if !flags.has_any(Flags::NOTIFIED | Flags::FAILED) {
            flags.set(Flags::NOTIFIED);
            self.alert(place, description::CLOSE_NOTIFY);
        }
        match &self.connections[place].state {
            State::Open(open) => !open.has_tail(),
            State::Fresh | State::Handshake(_) => true,
        }
    }

    pub(crate) fn end_connection(&mut self, place: u32, how: Close) {
        self.send_held_of(place);
        let connection = &mut self.connections[place];
        let conn = connection.conn;
        if connection.flags.has(Flags::CLOSED) {
            return;
        }
        let has_tail = match &connection.state {
            State::Open(open) => open.has_tail(),
            State::Fresh | State::Handshake(_) => {
                add(&self.counters.failed_gone, 1);
                self.net.close(conn, how);
                return self.remove(place);
            }
        };
        // The written alert goes out even if the caller, which does not know of it, asks for a
        // reset.
        let how = if connection.flags.has(Flags::FAILED) { Close::Graceful } else { how };
        if how == Close::Graceful && (has_tail || !self.notify(place)) {
            let connection = &mut self.connections[place];
            connection.flags.set(Flags::CLOSED);
            self.make_room_for_ending();
            self.ending.push_back((Instant::now() + ENDING_TIMEOUT, conn));
            return;
        }
        self.net.close(conn, how);
        self.remove(place);
    }

    /// Completes the end, after the last record was sent.
    fn finish_ending(&mut self, place: u32) {
        if !self.notify(place) {
            return;
        }
        let conn = self.connections[place].conn;
        self.net.close(conn, Close::Graceful);
        self.remove(place);
    }

    fn make_room_for_ending(&mut self) {
        if self.ending.len() < ENDING_MAX {
            return;
        }
        let mut ending = std::mem::take(&mut self.ending);
        ending.retain(|(_, conn)| self.place(*conn).is_some());
        if ending.len() >= ENDING_MAX
            && let Some((_, conn)) = ending.pop_front()
            && let Some(place) = self.place(conn)
        {
            self.net.close(conn, Close::Graceful);
            self.remove(place);
        }
        self.ending = ending;
    }

    /// Ends connections whose time is over.
    pub(crate) fn sweep_ending(&mut self) {
        while let Some(&(at, conn)) = self.ending.front() {
            let place = self.place(conn);
            if place.is_some() && at > Instant::now() {
                break;
            }
            self.ending.pop_front();
            if let Some(place) = place {
                self.net.close(conn, Close::Graceful);
                self.remove(place);
            }
        }
    }
}

/// Writes `bytes`, and removes those that the network takes.
pub(crate) fn send<N: Net>(net: &mut N, conn: Conn, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    match net.write(conn, &[IoSlice::new(bytes)]) {
        Write::Wrote(sent) if sent == bytes.len() => *bytes = Vec::new(),
        Write::Wrote(sent) => {
            bytes.drain(..sent);
        }
        // The connection is lost, or there is no room: an event follows.
        Write::Blocked | Write::Failed(_) => {}
    }
}
