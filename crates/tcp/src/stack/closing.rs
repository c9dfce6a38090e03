//! The end of connections: by the application, by both ends, or by loss.

use super::{Close, Conn, Event, Frames, Stack, Turn};
use crate::flow::Flow;
use crate::line::{LOST, ORPHAN, State, V6, WRITE_BLOCKED};
use crate::packet::{ACK, FIN, RST, SYN, Segment};
use crate::time::{Time, has_come};
use std::io;

/// The time without progress after which a closed connection is given up, in tenths of a second.
const ORPHAN_TIMEOUT: u16 = 1200;
/// The time for which a closed connection waits for the peer's FIN, as other systems do.
const FIN_WAIT_MS: u32 = 60_000;

impl Stack {
    /// Ends the connection at the end of the turn, and forgets the key now. No effect on a dead
    /// key.
    pub fn close(&mut self, conn: Conn, how: Close) {
        if let Some(index) = self.alive(conn) {
            self.lines[index].set(ORPHAN);
            self.closing.push((conn, how));
        }
    }

    /// Ends our direction: FIN follows the written bytes. No effect on a dead key.
    pub fn shutdown_write(&mut self, now: Time, conn: Conn, frames: &mut dyn Frames) {
        if let Some(index) = self.alive(conn) {
            self.end_our_direction(index, &mut Turn { now, frames });
        }
    }

    fn end_our_direction(&mut self, index: u32, turn: &mut Turn<'_>) {
        let line = &mut self.lines[index];
        let state = match line.state {
            State::Established => State::FinWait1,
            State::CloseWait => State::LastAck,
            State::Vacant
            | State::SynSent
            | State::SynReceived
            | State::FinWait1
            | State::FinWait2
            | State::Closing
            | State::LastAck
            | State::Over
            | State::Reset
            | State::Silent => return,
        };
        line.state = state;
        self.append_fin(index, turn);
    }

    /// Carries out the closes of this turn.
    pub(super) fn carry_out_closes(&mut self, turn: &mut Turn<'_>) {
        for (conn, how) in std::mem::take(&mut self.closing) {
            let index = conn.index;
            // One that waited for room in the device may be lost, and its line another's.
            let line = self.lines.get(index).filter(|line| line.generation == conn.generation);
            if line.is_none_or(|line| line.has(LOST)) {
                continue;
            }
            self.inboxes.clear(&mut self.lines[index].inbox);
            match (how, self.lines[index].state) {
                (
                    _,
                    State::SynSent | State::Over | State::Reset | State::Silent | State::Vacant,
                ) => self.release(index),
                (Close::Reset, _) | (Close::Graceful, State::SynReceived) => {
                    if self.send_reset(index, turn) {
                        self.release(index);
                    } else {
                        self.closing.push((conn, how)); // the device has no room
                    }
                }
                (Close::Graceful, _) => {
                    let line = &mut self.lines[index];
                    if line.user_timeout == 0 || line.user_timeout > ORPHAN_TIMEOUT {
                        line.user_timeout = ORPHAN_TIMEOUT;
                    }
                    self.end_our_direction(index, turn);
                    if self.lines[index].state == State::FinWait2 {
                        self.linger(index, turn.now);
                    }
                }
            }
        }
    }

    /// A closed connection waits for the peer's end, for a while. Meanwhile the peer's bytes are
    /// acknowledged and discarded, so that they do not turn the end into a reset.
    pub(super) fn linger(&mut self, index: u32, now: Time) {
        self.orphans.push_back((now.ms().wrapping_add(FIN_WAIT_MS), self.conn(index)));
    }

    /// Ends closed connections whose peers do not end theirs.
    pub(super) fn expire_orphans(&mut self, now: Time) {
        while let Some(&(at_ms, conn)) = self.orphans.front() {
            if !has_come(now.ms(), at_ms) {
                return;
            }
            self.orphans.pop_front();
            let Some(line) = self.lines.get(conn.index) else { continue };
            let is_it = line.generation == conn.generation && line.has(ORPHAN) && !line.has(LOST);
            if is_it && line.state == State::FinWait2 {
                self.release(conn.index);
            }
        }
    }

    /// Both ends have closed, and ours was the first: TIME-WAIT.
    pub(super) fn begin_time_wait(&mut self, index: u32, now: Time) {
        let flow = self.flow(index);
        let hash = self.hash(&flow);
        let (nxt, rcv_nxt) = (self.nxt(index), self.lines[index].rcv_nxt);
        self.time_waits.insert(now, flow, hash, nxt, rcv_nxt);
        self.finish(index);
    }

    /// A segment of a connection that ended less than a minute ago (RFC 9293, 3.6.1; RFC 1337).
    pub(super) fn segment_of_time_wait(
        &mut self,
        place: u32,
        flow: &Flow,
        hash: u64,
        segment: &Segment<'_>,
        hop: u8,
        turn: &mut Turn<'_>,
    ) {
        let Some((_, wait)) = self.time_waits.find(flow, hash) else { return };
        let (nxt, rcv_nxt) = (wait.nxt, wait.rcv_nxt);
        if segment.has(RST) {
            return;
        }
        if segment.has(SYN) && !segment.has(ACK) && segment.seq.is_after(rcv_nxt) {
            self.time_waits.remove(place);
            self.opening(flow, hash, segment, hop, Some(nxt + 65_536), turn);
            return;
        }
        if segment.has(FIN) {
            self.time_waits.renew(turn.now, place);
        } else if segment.length() == 0 {
            return;
        }
        self.send_bare(flow, nxt, rcv_nxt, ACK, hop, turn);
    }

    /// The connection is over for the network. The application may still read.
    pub(super) fn finish(&mut self, index: u32) {
        if self.lines[index].has(ORPHAN) {
            self.release(index);
        } else {
            self.detach(index);
        }
    }

    /// The connection is lost. With unread bytes it stays until they are read: they came before.
    pub(super) fn lose(&mut self, index: u32, reason: io::ErrorKind) {
        if self.lines[index].has(ORPHAN | LOST) {
            return self.release(index);
        }
        if self.inboxes.unread(self.lines[index].inbox) > 0 {
            self.detach(index);
            let is_reset = reason == io::ErrorKind::ConnectionReset;
            let line = &mut self.lines[index];
            line.state = if is_reset { State::Reset } else { State::Silent };
            self.tell_readable(index);
            // Writes are dropped, so there is room: a caller that reads only then continues.
            if self.lines[index].has(WRITE_BLOCKED) {
                self.lines[index].clear(WRITE_BLOCKED);
                let conn = self.conn(index);
                self.events.writable.push(Event::Writable(conn));
            }
            return;
        }
        let conn = self.conn(index);
        self.events.closed.push(Event::Closed { conn, reason });
        self.release(index);
    }

    /// Frees everything but the line.
    fn detach(&mut self, index: u32) {
        self.free_active(index);
        if !self.lines[index].state.is_over() {
            let hash = self.hash(&self.flow(index));
            self.table.remove(hash, index);
            self.lines[index].state = State::Over;
        }
    }

    /// Frees everything; the line becomes vacant at the end of the turn.
    pub(super) fn release(&mut self, index: u32) {
        if self.lines[index].has(LOST) {
            return;
        }
        self.detach(index);
        let line = &mut self.lines[index];
        self.inboxes.clear(&mut line.inbox);
        if line.has(V6) {
            self.peers_v6.remove(line.peer);
            line.clear(V6);
        }
        line.set(LOST);
        self.dying.push(index);
    }
}
