//! Timers: what happens when nothing arrives.

use super::sending::ACK_DELAY_MS;
use super::{Conn, Stack, Turn};
use crate::active::{PROBED, Timer};
use crate::line::{ACK_DELAYED, ACK_DUE, INTERACTIVE, LOST, ORPHAN, UNREACHABLE, WRITE_BLOCKED};
use crate::packet::{ACK, Head};
use crate::retained::NONE;
use crate::rtt;
use crate::time::{Time, elapsed, has_come};
use std::io;
use std::time::Duration;

/// Without a time of its own, a connection is given up after this time without progress: R2 of RFC
/// 9293, 3.8.3, at least 100 seconds.
const GIVE_UP_MS: u32 = 924_000;
/// Timeouts in a row after which a connection is given up if the shard lacks room for what others
/// send.
const HOARDING_TIMEOUTS: u8 = 3;
/// Timeouts after which an opening is given up: 183 seconds, at least 180 (RFC 9293, 3.8.3).
const SYN_TIMEOUTS_MAX: u8 = 8;
/// Payloads after so many timeouts in a row, in bytes: a router may drop longer packets silently
/// (RFC 8899). The last one fits what every host takes.
const SHORT_MSS: [(u8, u16); 2] = [(3, 1024), (5, 536)];
/// The time without progress after which payloads have the least size, however few timeouts that
/// were: within a minute a peer forgets an opening whose first bytes do not arrive.
const SHORT_AFTER_MS: u32 = 30_000;

impl Stack {
    /// The time before which [`Stack::end_turn`] has nothing to do unless packets come or the
    /// application calls; None without a limit. End a turn every day even so: differences of
    /// milliseconds hold for 24 of them.
    pub fn next_time(&self, now: Time) -> Option<Time> {
        // These wait for room in the device.
        let has_waiting =
            !self.emitting.is_empty() || !self.closing.is_empty() || !self.acks_due.is_empty();
        let device = has_waiting.then(|| now.ms().wrapping_add(1));
        let moments = [
            device,
            self.wheel.next_ms(),
            self.delayed_acks.front().map(|(at_ms, _)| *at_ms),
            self.half_opens.next_ms(),
            self.time_waits.next_ms(),
            self.orphans.front().map(|(at_ms, _)| *at_ms),
        ];
        let wait_ms = moments.into_iter().flatten().map(|at_ms| elapsed(at_ms, now.ms()));
        let wait_ms = wait_ms.min()?;
        Some(Time((now.0 / 1000 + u64::from(wait_ms)) * 1000).max(now))
    }

    /// Sets the time after which the connection is lost (`TimedOut`, `HostUnreachable`) if the peer
    /// acknowledges nothing of the sent bytes, or has no room for waiting ones: RFC 5482. At most
    /// 109 minutes.
    pub fn expect_acknowledgements(&mut self, conn: Conn, within: Duration) {
        if let Some(index) = self.alive(conn) {
            let tenths = within.as_millis().div_ceil(100).max(1);
            self.lines[index].user_timeout = u16::try_from(tenths).unwrap_or(u16::MAX);
        }
    }

    /// Does everything whose time has come; what waits for an answer, if its time had come at
    /// `received`.
    pub(super) fn expire(&mut self, received: Time, turn: &mut Turn<'_>) {
        let mut expired = std::mem::take(&mut self.expired);
        self.wheel.expire(&mut self.actives, received.ms(), &mut expired);
        for id in expired.drain(..) {
            let index = self.actives[id].line;
            debug_assert_eq!(self.lines[index].active, id, "{:?}", self.actives[id]);
            let timer = std::mem::take(&mut self.actives[id].timer);
            self.timer_expired(index, timer, turn);
        }
        self.expired = expired;
        while let Some((flow, opening)) = self.half_opens.due(received) {
            self.send_syn_ack(&flow, &opening, turn);
        }
        self.time_waits.expire(turn.now);
        self.expire_delayed_acks(turn);
        self.expire_orphans(turn.now);
    }

    fn timer_expired(&mut self, index: u32, timer: Timer, turn: &mut Turn<'_>) {
        match timer {
            Timer::None => {}
            Timer::Syn => self.syn_timed_out(index, turn),
            Timer::Retransmit => self.flight_timed_out(index, turn),
            Timer::Probe => self.probe_tail(index, turn),
            Timer::Reorder => self.reordering_window_passed(index, turn),
            Timer::Persist => self.probe_window(index, turn),
        }
    }

    fn syn_timed_out(&mut self, index: u32, turn: &mut Turn<'_>) {
        let block = &mut self.actives[self.lines[index].active];
        block.backoff += 1;
        let backoff = block.backoff;
        if backoff >= SYN_TIMEOUTS_MAX || self.is_out_of_patience(index, turn.now) {
            self.give_up(index, turn);
            return;
        }
        self.statistics.timeouts += 1;
        self.send_syn(index, turn);
        self.arm(index, Timer::Syn, rtt::timeout_ms(&self.lines[index], backoff), turn);
    }

    fn flight_timed_out(&mut self, index: u32, turn: &mut Turn<'_>) {
        if self.is_out_of_patience(index, turn.now) {
            self.give_up(index, turn);
            return;
        }
        let id = self.lines[index].active;
        let max = self.config.unacknowledged_bytes_max;
        if self.actives[id].backoff >= HOARDING_TIMEOUTS && self.retained.bytes() >= max / 4 * 3 {
            self.statistics.hoarders += 1;
            self.give_up(index, turn);
            return;
        }
        if self.actives[id].in_flight == 0 {
            // Everything waits for room in the device; the network has lost nothing.
            self.await_room(index);
            self.arm_for_flight(index, turn);
            return;
        }
        self.statistics.timeouts += 1;
        self.lose_flight(index);
        let block = &mut self.actives[id];
        block.backoff = block.backoff.saturating_add(1);
        let backoff = block.backoff;
        let waited_ms = elapsed(turn.now.ms(), block.since_ms);
        let head_bytes = self.retained.get(block.head).bytes;
        let line = &mut self.lines[index];
        for (timeouts, mss) in SHORT_MSS {
            let is_time = backoff >= timeouts || waited_ms >= SHORT_AFTER_MS;
            if is_time && line.mss > mss && head_bytes > mss {
                line.mss = mss;
            }
        }
        self.resend_lost(index, turn);
        self.arm(index, Timer::Retransmit, rtt::timeout_ms(&self.lines[index], backoff), turn);
    }

    /// Sends the last segment again, so that the peer says what it has (RFC 8985, 7).
    fn probe_tail(&mut self, index: u32, turn: &mut Turn<'_>) {
        let id = self.lines[index].active;
        let block = &self.actives[id];
        let (tail, nxt) = (block.tail, block.nxt);
        if tail != NONE && block.unsent == NONE && self.resend(index, tail, turn) {
            self.statistics.probes += 1;
            let block = &mut self.actives[id];
            block.flags |= PROBED;
            block.probe_end = nxt;
        }
        let timeout_ms = rtt::timeout_ms(&self.lines[index], self.actives[id].backoff);
        self.arm(index, Timer::Retransmit, timeout_ms, turn);
    }

    /// Asks a peer whose window is closed for it (RFC 9293, 3.8.6.1): with the number before the
    /// next one, which no receiver takes for new. With an open window, it was our own shard that
    /// had no room.
    fn probe_window(&mut self, index: u32, turn: &mut Turn<'_>) {
        let line = &self.lines[index];
        if !line.has(WRITE_BLOCKED) || line.has(ORPHAN) {
            self.free_active(index);
            return;
        }
        if line.window() > 0 {
            self.offer_room(index);
            if self.lines[index].has(WRITE_BLOCKED) {
                self.arm(index, Timer::Persist, rtt::timeout_ms(&self.lines[index], 0), turn);
            }
            return;
        }
        let is_silent = elapsed(turn.now.ms(), line.heard_ms) >= GIVE_UP_MS;
        if self.has_passed_user_timeout(index, turn.now) || is_silent {
            self.give_up(index, turn);
            return;
        }
        let (flow, window) = (self.flow(index), self.window_to_send(index));
        let line = &self.lines[index];
        let (seq, ack, hop) = (line.una - 1, line.rcv_nxt, line.hop);
        let head = Head { seq, ack, flags: ACK, window, ..self.head(&flow) };
        self.send(&head, &[], hop, turn);
        let block = &mut self.actives[self.lines[index].active];
        block.backoff = block.backoff.saturating_add(1);
        let wait_ms = rtt::timeout_ms(&self.lines[index], block.backoff);
        self.arm(index, Timer::Persist, wait_ms, turn);
    }

    /// Begins to probe a closed window.
    pub(super) fn begin_persist(&mut self, index: u32, turn: &mut Turn<'_>) {
        let block = &mut self.actives[self.lines[index].active];
        block.since_ms = turn.now.ms();
        block.backoff = 0;
        self.arm(index, Timer::Persist, rtt::timeout_ms(&self.lines[index], 0), turn);
    }

    fn has_passed_user_timeout(&self, index: u32, now: Time) -> bool {
        let line = &self.lines[index];
        let limit_ms = u32::from(line.user_timeout) * 100;
        limit_ms > 0 && elapsed(now.ms(), self.actives[line.active].since_ms) >= limit_ms
    }

    pub(super) fn is_out_of_patience(&self, index: u32, now: Time) -> bool {
        let since_ms = self.actives[self.lines[index].active].since_ms;
        self.has_passed_user_timeout(index, now) || elapsed(now.ms(), since_ms) >= GIVE_UP_MS
    }

    /// Ends a connection whose peer does not answer, and says so, should it hear again.
    pub(super) fn give_up(&mut self, index: u32, turn: &mut Turn<'_>) {
        self.send_reset(index, turn);
        let is_unreachable = self.lines[index].has(UNREACHABLE);
        let reason =
            if is_unreachable { io::ErrorKind::HostUnreachable } else { io::ErrorKind::TimedOut };
        self.lose(index, reason);
    }

    fn expire_delayed_acks(&mut self, turn: &mut Turn<'_>) {
        while let Some(&(at_ms, conn)) = self.delayed_acks.front() {
            if !has_come(turn.now.ms(), at_ms) {
                return;
            }
            self.delayed_acks.pop_front();
            let Some(line) = self.lines.get(conn.index) else { continue };
            // An answer meanwhile: the acknowledgement that waits now is a later one.
            let began_ms = at_ms.wrapping_sub(ACK_DELAY_MS);
            let was_answered = elapsed(line.sent_ms, began_ms) > 0;
            let is_it = line.generation == conn.generation && !line.state.is_over();
            if is_it
                && !was_answered
                && line.has(ACK_DUE)
                && line.has(ACK_DELAYED)
                && !line.has(LOST)
            {
                // The application has no answer this time.
                self.lines[conn.index].clear(INTERACTIVE);
                self.send_ack(conn.index, turn);
            }
        }
    }

    pub(super) fn arm(&mut self, index: u32, timer: Timer, wait_ms: u32, turn: &Turn<'_>) {
        let line = &self.lines[index];
        let block = &mut self.actives[line.active];
        block.timer = timer;
        let mut wait_ms = wait_ms.max(1);
        if line.user_timeout > 0 {
            // The end of the user timeout is a moment of its own.
            let limit_ms = u32::from(line.user_timeout) * 100;
            let left_ms = limit_ms.saturating_sub(elapsed(turn.now.ms(), block.since_ms));
            wait_ms = if left_ms == 0 { wait_ms } else { wait_ms.min(left_ms) };
        }
        self.wheel.set(&mut self.actives, line.active, turn.now.ms().wrapping_add(wait_ms));
    }

    pub(super) fn cancel_timer(&mut self, index: u32) {
        let id = self.lines[index].active;
        self.actives[id].timer = Timer::None;
        self.wheel.cancel(&mut self.actives, id);
    }
}
