//! Reading: records from the network, text to the caller.
//!
//! Place: [`net::Net::read`] of [`crate::Tls`]. Invariants: one read of the network at most; a
//! short read or `Blocked` while there is more puts the connection among those that are readable
//! again in the next poll; text is returned before an end or a failure behind it.

use net::{Conn, Net, Read};
use std::io;

use crate::alert::{Fault, description};
use crate::connection::{Buffers, Flags, Open, State};
use crate::counters::{add, subtract};
use crate::record::{Opened, RECORD_BYTES_MAX};
use crate::{KEY_UPDATES_READ_MAX, KEY_UPDATES_TURN_MAX, Tls};

/// Maximum number of bytes that one read takes from the network.
const READ_BYTES_MAX: usize = 128 << 10;
/// These bytes, and the rest of an earlier read.
pub(crate) const INCOMING_BYTES: usize = READ_BYTES_MAX + 2 * RECORD_BYTES_MAX;

impl<N: Net> Tls<N> {
    pub(crate) fn read_records(&mut self, place: u32, buffer: &mut [u8]) -> Read {
        debug_assert!(!buffer.is_empty());
        if self.connections[place].flags.has(Flags::CLOSED) {
            return Read::Failed(io::ErrorKind::NotConnected);
        }
        if self.connections[place].is_handshaking() {
            return Read::Blocked;
        }
        let mut incoming = self.take_incoming();
        let connection = &mut self.connections[place];
        let conn = connection.conn;
        let before = (connection.state_bytes(), connection.buffer_bytes());
        let State::Open(open) = &mut connection.state else {
            return Read::Blocked;
        };
        let mut flags = connection.flags;
        let mut reading = Reading {
            buffers: open.take_buffers(),
            incoming: &mut incoming,
            have: 0,
            filled: 0,
            fault: None,
            error: None,
            refuses_renegotiation: false,
            key_updates_left: if self.key_updates < KEY_UPDATES_TURN_MAX {
                KEY_UPDATES_READ_MAX
            } else {
                1
            },
        };
        let allowed = reading.key_updates_left;
        reading.run(&mut self.net, conn, open, &mut flags, buffer);
        let Reading {
            buffers,
            have,
            filled,
            fault,
            error,
            refuses_renegotiation,
            key_updates_left,
            ..
        } = reading;
        self.key_updates += allowed - key_updates_left;
        let has_more = !buffers.text.is_empty()
            || flags.has_any(Flags::NET_READY | Flags::ENDED | Flags::CUT | Flags::FAILED)
            || has_whole_record(open, &buffers);
        open.give_buffers(buffers);
        let is_full = filled == buffer.len();
        if !is_full {
            flags.clear(Flags::READ_TOLD);
        }
        connection.flags = flags;
        add(&self.counters.buffer_bytes, connection.buffer_bytes());
        subtract(&self.counters.buffer_bytes, before.1);
        // A client drops its store of tickets after the first one.
        add(&self.counters.state_bytes, connection.state_bytes());
        subtract(&self.counters.state_bytes, before.0);
        self.give_incoming(incoming, have);
        self.answer_fault(place, fault, refuses_renegotiation);
        if filled > 0 {
            if !is_full && has_more {
                self.read_again(place);
            }
            return Read::Data(filled);
        }
        self.read_nothing(place, flags, has_more, error)
    }

    /// Sends the alert for a fault or for a refused renegotiation.
    fn answer_fault(&mut self, place: u32, fault: Option<Fault>, refuses_renegotiation: bool) {
        if let Some(fault) = fault {
            add(&self.counters.faults, 1);
            self.note_failure(place, self.connections[place].conn, fault.to_string());
            if let Some(number) = fault.description() {
                self.alert(place, number);
            }
        } else if refuses_renegotiation {
            self.alert(place, description::NO_RENEGOTIATION);
        }
    }

    /// The result of a read without data: an end, a failure, or `Blocked`.
    fn read_nothing(
        &mut self,
        place: u32,
        flags: Flags,
        has_more: bool,
        error: Option<io::ErrorKind>,
    ) -> Read {
        if flags.has_any(Flags::FAILED | Flags::ENDED | Flags::CUT) {
            // It is reported once: later bytes are not a reason to read.
            self.connections[place].flags.set(Flags::READ_TOLD);
        }
        if flags.has(Flags::FAILED) {
            return Read::Failed(error.unwrap_or(io::ErrorKind::InvalidData));
        }
        if flags.has(Flags::ENDED) {
            return Read::Ended;
        }
        if flags.has(Flags::CUT) {
            add(&self.counters.truncated, 1);
            self.connections[place].flags.set(Flags::FAILED);
            return Read::Failed(io::ErrorKind::UnexpectedEof);
        }
        if has_more {
            self.read_again(place);
        }
        Read::Blocked
    }

    /// Makes the connection readable in the next poll, without an event of the network.
    fn read_again(&mut self, place: u32) {
        let connection = &mut self.connections[place];
        if !connection.flags.has(Flags::AGAIN) {
            connection.flags.set(Flags::AGAIN);
            self.again.push(connection.conn);
        }
    }
}

fn has_whole_record(open: &Open, buffers: &Buffers) -> bool {
    match open.layer.record_len(&buffers.records) {
        Ok(Some(length)) => length <= buffers.records.len(),
        Ok(None) => false,
        // The next read reports it.
        Err(_) => true,
    }
}

/// One call of read.
struct Reading<'a> {
    buffers: Buffers,
    incoming: &'a mut [u8],
    /// Bytes at the start of `incoming`.
    have: usize,
    /// Bytes of the caller's buffer.
    filled: usize,
    fault: Option<Fault>,
    error: Option<io::ErrorKind>,
    refuses_renegotiation: bool,
    /// Number of key updates that may still arrive.
    key_updates_left: u32,
}

impl Reading<'_> {
    fn run<N: Net>(
        &mut self,
        net: &mut N,
        conn: Conn,
        open: &mut Open,
        flags: &mut Flags,
        buffer: &mut [u8],
    ) {
        self.give_text(buffer);
        if self.filled == buffer.len() || flags.has_any(Flags::FAILED | Flags::ENDED) {
            return;
        }
        let records = std::mem::take(&mut self.buffers.records);
        self.have = records.len();
        self.incoming[..self.have].copy_from_slice(&records);
        drop(records);
        let is_whole = match open.layer.record_len(&self.incoming[..self.have]) {
            Ok(length) => length.is_some_and(|length| length <= self.have),
            Err(_) => true,
        };
        if !is_whole && flags.has(Flags::NET_READY) {
            self.read_net(net, conn, flags, buffer.len() - self.filled);
        }
        let used = self.open_records(open, flags, buffer);
        if !flags.has_any(Flags::FAILED | Flags::ENDED) {
            self.buffers.records = self.incoming[used..self.have].to_vec();
        }
        for ticket in self.buffers.inbox.tickets.drain(..) {
            if let Some(mut kernel) = open.tickets.take() {
                // One ticket is enough; a malformed one is ignored.
                let _ = kernel.handle_new_session_ticket(&ticket);
            }
        }
    }

    /// Returns text for which an earlier read had no room.
    fn give_text(&mut self, buffer: &mut [u8]) {
        let text = &self.buffers.text[self.buffers.text_from..];
        self.filled = text.len().min(buffer.len());
        buffer[..self.filled].copy_from_slice(&text[..self.filled]);
        self.buffers.text_from += self.filled;
        if self.buffers.text_from == self.buffers.text.len() {
            self.buffers.text = Vec::new();
            self.buffers.text_from = 0;
        }
    }

    fn read_net<N: Net>(&mut self, net: &mut N, conn: Conn, flags: &mut Flags, wanted: usize) {
        // Hardly more than the caller has room for, so that little must be stored.
        let room = wanted.clamp(RECORD_BYTES_MAX, READ_BYTES_MAX);
        let target = &mut self.incoming[self.have..];
        let room = room.min(target.len());
        match net.read(conn, &mut target[..room]) {
            Read::Data(count) => {
                self.have += count;
                if count < room {
                    flags.clear(Flags::NET_READY);
                }
            }
            Read::Blocked => flags.clear(Flags::NET_READY),
            Read::Ended => {
                flags.clear(Flags::NET_READY);
                flags.set(Flags::CUT);
            }
            Read::Failed(kind) => {
                flags.clear(Flags::NET_READY);
                flags.set(Flags::FAILED);
                self.error = Some(kind);
            }
        }
    }

    /// Opens whole records while there is room; returns the number of consumed bytes.
    fn open_records(&mut self, open: &mut Open, flags: &mut Flags, buffer: &mut [u8]) -> usize {
        let mut used = 0;
        let mut context = None;
        while self.filled < buffer.len() && self.key_updates_left > 0 {
            let unused = &mut self.incoming[used..self.have];
            let record = match open.layer.record_len(unused) {
                Ok(Some(length)) if length <= unused.len() => &mut unused[..length],
                Ok(_) => break,
                Err(fault) => {
                    self.fail(flags, fault);
                    break;
                }
            };
            used += record.len();
            match open.layer.open(&mut context, record, &mut self.buffers.inbox) {
                Ok(Opened::Data(text)) => {
                    let fits = text.len().min(buffer.len() - self.filled);
                    buffer[self.filled..][..fits].copy_from_slice(&text[..fits]);
                    self.filled += fits;
                    self.buffers.text.extend_from_slice(&text[fits..]);
                }
                // The keys are new: the expanded old one is dropped.
                Ok(Opened::Nothing) => self.key_updates_left -= u32::from(context.is_none()),
                Ok(Opened::Ended) => {
                    // Everything behind it is ignored (RFC 8446, section 6.1).
                    flags.set(Flags::ENDED);
                    break;
                }
                Ok(Opened::Renegotiation) => self.refuses_renegotiation = true,
                Err(fault) => {
                    self.fail(flags, fault);
                    break;
                }
            }
        }
        used
    }

    fn fail(&mut self, flags: &mut Flags, fault: Fault) {
        flags.set(Flags::FAILED);
        self.fault = Some(fault);
    }
}
