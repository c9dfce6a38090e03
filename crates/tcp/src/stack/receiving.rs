//! Bytes of the peer: in order, behind holes, and their end; and the window that we offer.

use super::{Conn, Event, Read, Stack, Turn};
use crate::line::{
    ACK_DELAYED, ACK_DUE, IN_ACK_LIST, LOST, Line, ORPHAN, PEER_ENDED, READ_TOLD, SCALED, State,
};
use crate::packet::{FIN, Segment};
use crate::seq::Seq;
use std::io::ErrorKind;

/// Maximum number of a receive window's doublings.
const DOUBLINGS_MAX: u8 = 4;
/// A receive window doubles whenever the stream has come on by so many windows. A receiver sees
/// neither bytes under way nor a round trip; a longer stream simply gets more room.
const WINDOWS_TO_DOUBLE: u32 = 2;

impl Stack {
    /// Takes the payload and the end of an acceptable segment.
    pub(super) fn accept_payload(
        &mut self,
        index: u32,
        segment: &Segment<'_>,
        turn: &mut Turn<'_>,
    ) {
        let line = &self.lines[index];
        if !line.state.can_receive() {
            return;
        }
        // SYN, if there is one, has a number before the payload.
        let seq = segment.seq + u32::from(segment.has(crate::packet::SYN));
        let known = line.rcv_nxt.bytes_since(seq) as usize;
        let room = line.edge.bytes_since(seq) as usize;
        let payload = &segment.payload[..segment.payload.len().min(room)];
        let is_whole = payload.len() == segment.payload.len();
        let has_fin = segment.has(FIN) && is_whole;
        let end = seq + payload.len() as u32;
        if payload.is_empty() && !segment.has(FIN) {
            return;
        }
        if end.is_before(line.rcv_nxt) || (end == line.rcv_nxt && !has_fin) {
            self.send_ack(index, turn); // everything is known already
            return;
        }
        if seq.is_after(line.rcv_nxt) {
            self.keep_behind_hole(index, seq, payload);
            self.send_ack(index, turn);
            return;
        }
        let is_discarding = line.has(ORPHAN);
        let had_hole = self.inboxes.get(line.inbox).is_some_and(|inbox| inbox.has_hole());
        let new = payload.get(known..).unwrap_or_default();
        if !new.is_empty() && !is_discarding {
            // A reader that keeps up has a reserve: others may have filled the rest.
            let max = self.config.unread_bytes_max;
            let has_reserve = self.inboxes.unread(line.inbox) == 0;
            let max = if has_reserve { max + max / 4 } else { max };
            if self.inboxes.bytes() + new.len() > max {
                self.statistics.dropped_unread += 1;
                return;
            }
            let line = &mut self.lines[index];
            line.rcv_nxt = self.inboxes.push(&mut line.inbox, line.rcv_nxt, new);
            self.tell_readable(index);
        } else {
            self.lines[index].rcv_nxt += new.len() as u32;
        }
        if has_fin && self.lines[index].rcv_nxt == end {
            self.peer_ended(index, turn);
            return;
        }
        if had_hole {
            self.send_ack(index, turn); // RFC 5681, 4.2
        } else {
            self.owe_ack(index);
        }
    }

    fn keep_behind_hole(&mut self, index: u32, seq: Seq, payload: &[u8]) {
        let line = &mut self.lines[index];
        // Bytes behind holes are the first to go: their senders still have them.
        let has_room = self.inboxes.bytes() + payload.len() <= self.config.unread_bytes_max / 2;
        if has_room && !payload.is_empty() && !line.has(ORPHAN) {
            self.inboxes.keep(&mut line.inbox, seq, payload);
        }
    }

    /// The acknowledgement goes at the end of the turn, with the application's answer if there is
    /// one.
    pub(super) fn owe_ack(&mut self, index: u32) {
        let line = &mut self.lines[index];
        if line.has(ACK_DUE) {
            line.set(ACK_DELAYED); // the second one does not wait
        }
        line.set(ACK_DUE);
        if !line.has(IN_ACK_LIST) {
            line.set(IN_ACK_LIST);
            self.acks_due.push(index);
        }
    }

    pub(super) fn tell_readable(&mut self, index: u32) {
        let conn = self.conn(index);
        let line = &mut self.lines[index];
        if !line.has(READ_TOLD | ORPHAN | LOST) {
            line.set(READ_TOLD);
            self.events.readable.push(Event::Readable(conn));
        }
    }

    /// The peer's FIN has come in order.
    fn peer_ended(&mut self, index: u32, turn: &mut Turn<'_>) {
        let line = &mut self.lines[index];
        line.rcv_nxt += 1;
        line.edge = line.edge.max(line.rcv_nxt);
        line.set(PEER_ENDED);
        let is_closing = line.state == State::FinWait2;
        line.state = match line.state {
            State::Established => State::CloseWait,
            State::FinWait1 => State::Closing,
            state => state,
        };
        self.tell_readable(index);
        self.send_ack(index, turn);
        if is_closing {
            self.begin_time_wait(index, turn.now);
        }
    }

    /// Reads bytes in order into the buffer, which must not be empty.
    pub fn read(&mut self, conn: Conn, buffer: &mut [u8]) -> Read {
        let Some(index) = self.alive(conn) else { return Read::Dead };
        let line = &mut self.lines[index];
        let count = self.inboxes.read(&mut line.inbox, buffer);
        if count < buffer.len() {
            // Later bytes are reported again, and so is an end that is there already.
            line.clear(READ_TOLD);
        }
        if count == 0 {
            if line.state.is_lost() {
                let is_reset = line.state == State::Reset;
                let reason =
                    if is_reset { ErrorKind::ConnectionReset } else { ErrorKind::TimedOut };
                return Read::Lost(reason);
            }
            if line.has(PEER_ENDED) {
                return Read::Ended;
            }
            return Read::Blocked;
        }
        let has_ended = line.has(PEER_ENDED) || line.state.is_lost();
        self.widen_window(index, count as u32);
        if count < buffer.len() && has_ended {
            self.tell_readable(index);
        }
        Read::Data(count)
    }

    /// After a read of some bytes: the window may double, and the peer may need to hear of it.
    fn widen_window(&mut self, index: u32, read: u32) {
        let line = &self.lines[index];
        let part = WINDOWS_TO_DOUBLE * self.receive_limit(line);
        // The place in the stream is where the reader is, up to a distance that does not change.
        let place = (line.rcv_nxt - self.inboxes.unread(line.inbox) as u32).0;
        let has_passed = place / part != place.wrapping_sub(read) / part;
        let has_room = self.inboxes.bytes() < self.config.unread_bytes_max / 4;
        if has_passed && has_room && line.has(SCALED) && line.doublings() < DOUBLINGS_MAX {
            self.lines[index].double_receive_window();
        }
        let line = &self.lines[index];
        let opened = self.possible_edge(line).bytes_since(line.edge);
        let threshold = (self.receive_limit(line) / 2).min(2 * u32::from(line.mss));
        if line.state.can_receive() && opened >= threshold {
            self.owe_ack(index);
        }
    }

    /// The edge that the window could have.
    fn possible_edge(&self, line: &Line) -> Seq {
        let unread = self.inboxes.unread(line.inbox) as u32;
        line.rcv_nxt + self.receive_limit(line).saturating_sub(unread)
    }

    /// The window to send, as it stands in the header. Moves the edge, which never goes back, and
    /// only by steps that are worth a segment (RFC 9293, 3.8.6.2.2).
    pub(super) fn window_to_send(&mut self, index: u32) -> u16 {
        let line = &self.lines[index];
        let possible = self.possible_edge(line);
        let step = (self.receive_limit(line) / 2).min(u32::from(line.mss));
        if possible.bytes_since(line.edge) >= step {
            self.lines[index].edge = possible;
        }
        let line = &self.lines[index];
        let window = line.edge.bytes_since(line.rcv_nxt);
        let shift = if line.has(SCALED) { self.receive_shift() } else { 0 };
        (window >> shift).min(u32::from(u16::MAX)) as u16
    }

    /// The greatest number of unread bytes.
    fn receive_limit(&self, line: &Line) -> u32 {
        u32::from(self.config.receive_window) << line.doublings()
    }

    /// The shift of our windows: enough for the largest one.
    pub(super) fn receive_shift(&self) -> u8 {
        let largest = u32::from(self.config.receive_window) << DOUBLINGS_MAX;
        let shifts = 0..DOUBLINGS_MAX;
        shifts.into_iter().find(|shift| largest >> shift <= 0xffff).unwrap_or(DOUBLINGS_MAX)
    }
}
