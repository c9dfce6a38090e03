//! Segments on their way out: the application's bytes, copies of lost ones, acknowledgements,
//! resets.
//!
//! Bytes are never held unsent: what the windows have no room for stays with the application, and
//! only a device without room makes segments wait.

use super::opening::INITIAL_WINDOW;
use super::{Conn, Frames, Stack, Turn, Write};
use crate::active::{self, CWND_LIMITED, Timer};
use crate::flow::Flow;
use crate::line::{
    ACK_DELAYED, ACK_DUE, IN_ACK_LIST, IN_EMIT_LIST, INTERACTIVE, State, WRITE_BLOCKED,
};
use crate::packet::{ACK, FIN, Head, Options, PSH, RST, SACKS_MAX, Segment};
use crate::retained::{self, NONE, RESENT, Retained, SEGMENT_MAX, UNSENT};
use crate::rtt;
use crate::seq::Seq;
use crate::time::{Time, elapsed};
use std::io::IoSlice;

/// Retained bytes of one connection, by slots: so the number of its segments has a bound, too.
const RETAINED_BYTES_MAX: u32 = 1 << 20;
/// Time for which an acknowledgement may wait for an answer to go with, in milliseconds.
pub(super) const ACK_DELAY_MS: u32 = 25;

impl Stack {
    /// Writes the parts one after another, as if they were one.
    pub fn write(
        &mut self,
        now: Time,
        conn: Conn,
        parts: &[IoSlice<'_>],
        frames: &mut dyn Frames,
    ) -> Write {
        let Some(index) = self.alive(conn) else { return Write::Dead };
        let offered: usize = parts.iter().map(|part| part.len()).sum();
        let state = self.lines[index].state;
        if state.is_lost() {
            return Write::Wrote(offered); // as if they were lost a moment later
        }
        if !state.can_send() {
            return Write::Dead;
        }
        if offered == 0 {
            return Write::Wrote(0);
        }
        let turn = &mut Turn { now, frames };
        self.restart_if_idle(index, now);
        let room = self.room(index);
        let line = &self.lines[index];
        let mut take = (room as usize).min(offered);
        let is_in_flight = !line.is_idle() && !self.actives[line.active].is_empty();
        if take < offered && is_in_flight {
            take -= take % usize::from(line.mss); // RFC 9293, 3.8.6.2.1
        }
        if take < offered {
            self.note_blocked(index, turn);
        }
        if take == 0 {
            return Write::Blocked;
        }
        self.open_active(index, now);
        if self.actives[self.lines[index].active].timer == Timer::Persist {
            self.cancel_timer(index);
        }
        let mut source = Parts { parts, at: 0 };
        let mut left = take;
        while left > 0 {
            let line = &self.lines[index];
            let bytes = left.min(usize::from(line.mss)).min(SEGMENT_MAX);
            left -= bytes;
            self.append(index, bytes as u16, 0, |slot| source.fill(slot));
            self.emit_or_await(index, turn);
        }
        self.lines[index].sent_ms = now.ms();
        if self.actives[self.lines[index].active].timer == Timer::None {
            self.arm_for_flight(index, turn);
        }
        Write::Wrote(take)
    }

    /// Begins again with a small window after silence (RFC 5681, 4.1).
    fn restart_if_idle(&mut self, index: u32, now: Time) {
        let line = &mut self.lines[index];
        let silence_ms = elapsed(now.ms(), line.sent_ms);
        if line.is_idle() && silence_ms > rtt::timeout_ms(line, 0) {
            line.cwnd = line.cwnd.min(INITIAL_WINDOW);
        }
    }

    /// The number of bytes that may be sent now.
    pub(super) fn room(&self, index: u32) -> u32 {
        let line = &self.lines[index];
        let shard_bytes = self.retained.bytes();
        let has_much_room = shard_bytes < self.config.unacknowledged_bytes_max / 4 * 3;
        if line.is_idle() || self.actives[line.active].is_empty() {
            let has_room = shard_bytes < self.config.unacknowledged_bytes_max;
            let by_congestion = u32::from(line.cwnd) * u32::from(line.mss);
            return if has_room { line.window().min(by_congestion) } else { 0 };
        }
        let block = &self.actives[line.active];
        if block.unsent != NONE || !has_much_room {
            return 0;
        }
        let flight = block.nxt.bytes_since(line.una);
        let by_window = line.window().saturating_sub(flight);
        let by_congestion = u32::from(line.cwnd).saturating_sub(block.pipe()) * u32::from(line.mss);
        by_window.min(by_congestion).min(RETAINED_BYTES_MAX.saturating_sub(block.bytes))
    }

    /// A write is short: `Writable` will follow, and a closed window is probed.
    fn note_blocked(&mut self, index: u32, turn: &mut Turn<'_>) {
        let room = self.room(index);
        self.lines[index].set(WRITE_BLOCKED);
        self.open_active(index, turn.now);
        let block = &self.actives[self.lines[index].active];
        if block.is_empty() && room == 0 {
            if block.timer != Timer::Persist {
                self.begin_persist(index, turn);
            }
            return;
        }
        let line = &self.lines[index];
        let block = &mut self.actives[line.active];
        let flight = block.nxt.bytes_since(line.una);
        if line.window().saturating_sub(flight) >= u32::from(line.mss) {
            block.flags |= CWND_LIMITED;
        }
    }

    fn open_active(&mut self, index: u32, now: Time) {
        let line = &mut self.lines[index];
        if line.active == active::NONE {
            line.active = self.actives.insert(index, line.una, now.ms());
        }
    }

    /// Appends a segment to the retained ones. It waits for its first sending.
    fn append(&mut self, index: u32, bytes: u16, flags: u8, fill: impl FnOnce(&mut [u8])) {
        let id = self.lines[index].active;
        let block = &mut self.actives[id];
        let flags = flags | UNSENT;
        let segment = retained::Segment { seq: block.nxt, next: NONE, sent_us: 0, bytes, flags };
        block.nxt += segment.length();
        let added = self.retained.add(segment, fill);
        block.bytes += Retained::slot_bytes(added);
        if block.tail == NONE {
            block.head = added;
        } else {
            self.retained.get_mut(block.tail).next = added;
        }
        block.tail = added;
        if block.unsent == NONE {
            block.unsent = added;
        }
    }

    /// Appends FIN and sends it.
    pub(super) fn append_fin(&mut self, index: u32, turn: &mut Turn<'_>) {
        self.open_active(index, turn.now);
        if self.actives[self.lines[index].active].timer == Timer::Persist {
            self.cancel_timer(index);
        }
        self.append(index, 0, retained::FIN, |_| {});
        self.emit_or_await(index, turn);
        if self.actives[self.lines[index].active].timer == Timer::None {
            self.arm_for_flight(index, turn);
        }
    }

    /// Sends the segments that wait, or remembers the connection for when the device has room.
    fn emit_or_await(&mut self, index: u32, turn: &mut Turn<'_>) {
        if !self.emit_unsent(index, turn) {
            self.await_room(index);
        }
    }

    pub(super) fn await_room(&mut self, index: u32) {
        self.statistics.device_full += 1;
        let line = &mut self.lines[index];
        if !line.has(IN_EMIT_LIST) {
            line.set(IN_EMIT_LIST);
            self.emitting.push_back(index);
        }
    }

    /// Sends the segments that wait. Returns whether all have left.
    fn emit_unsent(&mut self, index: u32, turn: &mut Turn<'_>) -> bool {
        let id = self.lines[index].active;
        while self.actives[id].unsent != NONE {
            let segment = self.actives[id].unsent;
            if !self.emit(index, segment, turn) {
                return false;
            }
            let head = self.retained.get_mut(segment);
            head.flags &= !UNSENT;
            head.sent_us = turn.now.us();
            let block = &mut self.actives[id];
            block.unsent = head.next;
            block.in_flight += 1;
            block.prr_out += 1;
        }
        true
    }

    /// Sends, at the end of a turn, what waited for room in the device. The first line that finds
    /// none ends it: when many wait, the others would look in vain in each turn.
    pub(super) fn emit_waiting(&mut self, turn: &mut Turn<'_>) {
        for _ in 0..self.emitting.len() {
            let Some(index) = self.emitting.pop_front() else { return };
            if self.lines.get(index).is_none() {
                continue; // ended meanwhile
            }
            self.lines[index].clear(IN_EMIT_LIST);
            if self.lines[index].is_idle() {
                continue;
            }
            if !self.emit_unsent(index, turn) {
                self.await_room(index);
                return;
            }
            if !self.resend_lost(index, turn) {
                return;
            }
            if !self.actives[self.lines[index].active].is_empty() {
                self.arm_for_flight(index, turn);
            }
            self.offer_room(index);
        }
    }

    /// Sends a lost segment again. Returns whether the device had room.
    pub(super) fn resend(&mut self, index: u32, segment: u32, turn: &mut Turn<'_>) -> bool {
        if !self.emit(index, segment, turn) {
            return false;
        }
        self.statistics.resent += 1;
        let head = self.retained.get_mut(segment);
        let block = &mut self.actives[self.lines[index].active];
        if head.has(retained::LOST) {
            head.flags &= !retained::LOST;
            block.lost -= 1;
        }
        head.flags |= RESENT;
        head.sent_us = turn.now.us();
        block.prr_out += 1;
        true
    }

    /// Sends a retained segment, in pieces if the segment size has become smaller since. Returns
    /// whether the device had room for the first piece.
    fn emit(&mut self, index: u32, id: u32, turn: &mut Turn<'_>) -> bool {
        let flow = self.flow(index);
        let window = self.window_to_send(index);
        let segment = *self.retained.get(id);
        let (mss, hop) = (usize::from(self.lines[index].mss), self.lines[index].hop);
        let bytes = usize::from(segment.bytes);
        let mut at = 0;
        loop {
            let end = (at + mss).min(bytes);
            let is_last = end == bytes;
            let fin = if is_last && segment.has(retained::FIN) { FIN } else { 0 };
            let head = Head {
                seq: segment.seq + at as u32,
                ack: self.lines[index].rcv_nxt,
                flags: ACK | fin | if is_last { PSH } else { 0 },
                window,
                ..self.head(&flow)
            };
            let length = turn
                .frames
                .next_frame()
                .and_then(|frame| head.write(&self.retained.payload(id)[at..end], frame));
            match length {
                Some(length) => turn.frames.send(length, hop),
                None if at == 0 => return false,
                None => break, // the rest comes when it is taken for lost
            }
            self.statistics.segments_out += 1;
            if is_last {
                break;
            }
            at = end;
        }
        let line = &mut self.lines[index];
        if line.has(ACK_DUE) {
            line.set(INTERACTIVE);
            line.clear(ACK_DUE | ACK_DELAYED);
        }
        true
    }

    /// The head of a segment to a flow's peer, with ports and addresses only.
    pub(super) fn head(&self, flow: &Flow) -> Head<'static> {
        Head {
            from: self.addresses[usize::from(flow.local)],
            to: flow.peer,
            source_port: flow.local_port,
            target_port: flow.peer_port,
            seq: Seq(0),
            ack: Seq(0),
            flags: 0,
            window: 0,
            options: &[],
        }
    }

    /// Writes a packet and sends it. Returns whether the device had room.
    pub(super) fn send(
        &mut self,
        head: &Head<'_>,
        payload: &[u8],
        hop: u8,
        turn: &mut Turn<'_>,
    ) -> bool {
        let Some(frame) = turn.frames.next_frame() else {
            self.statistics.device_full += 1;
            return false;
        };
        let Some(length) = head.write(payload, frame) else { return false };
        turn.frames.send(length, hop);
        self.statistics.segments_out += 1;
        true
    }

    /// Sends an acknowledgement without payload; one without room in the device is owed.
    pub(super) fn send_ack(&mut self, index: u32, turn: &mut Turn<'_>) {
        let flow = self.flow(index);
        let window = self.window_to_send(index);
        let mut seq = self.nxt(index);
        let line = &self.lines[index];
        if !line.is_idle() && self.actives[line.active].tail != NONE {
            // A peer without room for FIN takes no number behind it.
            let tail = self.retained.get(self.actives[line.active].tail);
            if tail.has(retained::FIN) && seq.bytes_since(line.una) > line.window() {
                seq = seq - 1;
            }
        }
        let mut bytes = [0; 4 + 8 * SACKS_MAX];
        let mut length = 0;
        if line.has(crate::line::SACK)
            && let Some(inbox) = self.inboxes.get(line.inbox)
            && inbox.has_hole()
        {
            length = Options::write_sacks(inbox.sacks(), &mut bytes);
        }
        let head = Head {
            seq,
            ack: line.rcv_nxt,
            flags: ACK,
            window,
            options: &bytes[..length],
            ..self.head(&flow)
        };
        let hop = line.hop;
        if self.send(&head, &[], hop, turn) {
            self.lines[index].clear(ACK_DUE | ACK_DELAYED);
        } else {
            self.owe_ack(index);
        }
    }

    /// Sends a segment without payload and options for a flow without a line. Returns whether the
    /// device had room.
    pub(super) fn send_bare(
        &mut self,
        flow: &Flow,
        seq: Seq,
        ack: Seq,
        flags: u8,
        hop: u8,
        turn: &mut Turn<'_>,
    ) -> bool {
        let head = Head { seq, ack, flags, ..self.head(flow) };
        self.send(&head, &[], hop, turn)
    }

    /// Answers a segment of no connection with RST (RFC 9293, 3.10.7.1).
    pub(super) fn refuse(
        &mut self,
        flow: &Flow,
        segment: &Segment<'_>,
        hop: u8,
        turn: &mut Turn<'_>,
    ) {
        if segment.has(RST) {
            return;
        }
        self.statistics.resets_out += 1;
        if segment.has(ACK) {
            self.send_bare(flow, segment.ack, Seq(0), RST, hop, turn);
        } else {
            self.send_bare(flow, Seq(0), segment.end(), RST | ACK, hop, turn);
        }
    }

    /// Sends RST for a connection, if the peer may know of it. Returns false if the device has no
    /// room.
    pub(super) fn send_reset(&mut self, index: u32, turn: &mut Turn<'_>) -> bool {
        let flow = self.flow(index);
        let (seq, line) = (self.nxt(index), &self.lines[index]);
        let (ack, hop) = (line.rcv_nxt, line.hop);
        if line.state == State::SynSent {
            return true;
        }
        self.statistics.resets_out += 1;
        self.send_bare(&flow, seq, ack, RST | ACK, hop, turn)
    }

    /// Sends the acknowledgements that are still due at the end of the turn. One may wait for an
    /// answer to go with, if the last one did, but not for a second segment (RFC 9293, 3.8.6.3).
    pub(super) fn acknowledge_due(&mut self, turn: &mut Turn<'_>) {
        for index in std::mem::take(&mut self.acks_due) {
            self.lines[index].clear(IN_ACK_LIST);
            let conn = self.conn(index);
            let line = &mut self.lines[index];
            let is_open = line.state != State::Vacant && !line.state.is_over();
            if !line.has(ACK_DUE) || !is_open {
                continue;
            }
            if line.has(INTERACTIVE) && !line.has(ACK_DELAYED) && line.state == State::Established {
                line.set(ACK_DELAYED);
                self.delayed_acks.push_back((turn.now.ms().wrapping_add(ACK_DELAY_MS), conn));
            } else {
                self.send_ack(index, turn);
            }
        }
    }
}

/// The application's bytes, as they are copied.
struct Parts<'a> {
    parts: &'a [IoSlice<'a>],
    /// Bytes of the first part that are copied.
    at: usize,
}

impl Parts<'_> {
    fn fill(&mut self, mut slot: &mut [u8]) {
        while !slot.is_empty() {
            let Some((first, rest)) = self.parts.split_first() else { return };
            let count = slot.len().min(first.len() - self.at);
            slot[..count].copy_from_slice(&first[self.at..self.at + count]);
            slot = &mut slot[count..];
            self.at += count;
            if self.at == first.len() {
                (self.parts, self.at) = (rest, 0);
            }
        }
    }
}
