//! Loss: its detection by time (RFC 8985) or by repeated acknowledgements (RFC 6582), and the rate
//! of sending around it (RFC 5681, RFC 6937).

use super::acknowledging::{Delivery, is_in_order};
use super::{Stack, Turn};
use crate::active::{Active, CWND_LIMITED, DELIVERED, PROBED, Phase, REORDERING, Timer};
use crate::line::{Line, SACK};
use crate::retained::{LOST, NONE, SACKED, Segment, UNSENT};
use crate::rtt;
use crate::time::{Time, elapsed};

/// Segments of a congestion window: beyond it, the bound of retained bytes rules.
const CWND_MAX: u16 = 4096;
/// The least slow start threshold (RFC 5681, equation 4).
const SSTHRESH_MIN: u16 = 2;
/// Repeated acknowledgements that show a loss (RFC 5681, 3.2).
const DUPLICATES_MAX: u16 = 3;
/// The least time before the tail is probed, in milliseconds: threads of this machine pause longer
/// than two round trips within it.
const PROBE_MIN_MS: u32 = 10;
/// The longest time for which a receiver may delay an acknowledgement, in milliseconds.
const ACK_DELAY_MAX_MS: u32 = 200;

impl Stack {
    /// Takes what an acknowledgement has delivered: finds losses, sets the congestion window, and
    /// sends lost segments again.
    pub(super) fn recover(&mut self, index: u32, delivery: &Delivery, turn: &mut Turn<'_>) {
        let line = &mut self.lines[index];
        let block = &mut self.actives[line.active];
        if block.has(PROBED) && !line.una.is_before(block.probe_end) {
            answer_to_probe(line, block, delivery);
        }
        let mut delivered = delivery.delivered;
        if line.has(SACK) {
            self.detect_by_time(index, turn.now);
        } else {
            delivered = self.detect_by_repetition(index, delivery);
        }
        self.set_congestion_window(index, delivered, delivery);
        self.resend_lost(index, turn);
    }

    /// Marks segments that were sent long before a delivered one (RFC 8985, 6.2, step 5). Returns
    /// the time after which the next one would count as lost, in microseconds; 0 without one.
    fn detect_by_time(&mut self, index: u32, now: Time) -> u32 {
        let line = &self.lines[index];
        let block = &mut self.actives[line.active];
        if is_in_order(block) || !block.has(DELIVERED) {
            return 0;
        }
        let window_us = reordering_window_us(line, block);
        let mut wait_us = 0;
        let mut id = block.head;
        while id != NONE {
            let segment = self.retained.get_mut(id);
            id = segment.next;
            if segment.has(UNSENT) {
                break;
            }
            if segment.has(SACKED | LOST) || !was_sent_before(segment, block) {
                continue;
            }
            let age_us = elapsed(now.us(), segment.sent_us);
            let limit_us = block.rack_rtt_us.saturating_add(window_us);
            if age_us >= limit_us {
                segment.flags |= LOST;
                block.lost += 1;
            } else {
                wait_us = wait_us.max(limit_us - age_us);
            }
        }
        wait_us
    }

    /// Without selective acknowledgements: three repeated ones show that the first segment is lost,
    /// and in recovery each partial one that the next is (RFC 6582). Returns the number of segments
    /// that count as delivered.
    fn detect_by_repetition(&mut self, index: u32, delivery: &Delivery) -> u32 {
        let line = &self.lines[index];
        let block = &mut self.actives[line.active];
        if delivery.is_duplicate {
            block.duplicates = block.duplicates.saturating_add(1);
        }
        let is_partial = delivery.has_advanced
            && block.phase == Phase::Recovery
            && line.una.is_before(block.recovery);
        let is_third = block.duplicates == DUPLICATES_MAX && block.phase == Phase::Open;
        if (is_third || is_partial) && block.head != NONE {
            let head = self.retained.get_mut(block.head);
            if !head.has(UNSENT | LOST) {
                head.flags |= LOST;
                block.lost += 1;
            }
        }
        delivery.delivered + u32::from(delivery.is_duplicate)
    }

    /// Sets phase and congestion window.
    fn set_congestion_window(&mut self, index: u32, delivered: u32, delivery: &Delivery) {
        let line = &mut self.lines[index];
        let block = &mut self.actives[line.active];
        if block.phase != Phase::Open
            && delivery.has_advanced
            && !line.una.is_before(block.recovery)
        {
            if block.phase == Phase::Recovery {
                line.cwnd = line.ssthresh;
            }
            block.phase = Phase::Open;
            block.acked = 0;
        }
        match block.phase {
            Phase::Open if block.lost > 0 => {
                block.prr_flight = u32::from(block.in_flight) + delivery.acked;
                reduce(line, block.prr_flight);
                block.phase = Phase::Recovery;
                block.recovery = block.nxt;
                (block.prr_delivered, block.prr_out) = (0, 0);
                reduce_in_proportion(line, block, delivered.max(1), delivery.has_advanced);
            }
            Phase::Recovery => {
                reduce_in_proportion(line, block, delivered, delivery.has_advanced);
            }
            Phase::Open | Phase::Loss => grow(line, block, delivery.acked),
        }
    }

    /// Sends lost segments again while the congestion window has room.
    /// Returns whether the device had room; without it the line waits.
    pub(super) fn resend_lost(&mut self, index: u32, turn: &mut Turn<'_>) -> bool {
        let id = self.lines[index].active;
        let mut segment = self.actives[id].head;
        while segment != NONE && self.actives[id].lost > 0 {
            if self.actives[id].pipe() >= u32::from(self.lines[index].cwnd) {
                return true;
            }
            let next = self.retained.get(segment).next;
            if self.retained.get(segment).has(LOST) && !self.resend(index, segment, turn) {
                self.await_room(index);
                return false;
            }
            segment = next;
        }
        true
    }

    /// Takes longer segments for lost, after a report that a link's packets are shorter.
    pub(super) fn resend_longer(&mut self, index: u32, mss: u16, turn: &mut Turn<'_>) {
        let id = self.lines[index].active;
        let Some(block) = (!self.lines[index].is_idle()).then(|| &mut self.actives[id]) else {
            return;
        };
        let mut segment = block.head;
        while segment != NONE {
            let head = self.retained.get_mut(segment);
            if !head.has(UNSENT | LOST | SACKED) && head.bytes > mss {
                head.flags |= LOST;
                block.lost += 1;
            }
            segment = head.next;
        }
        self.resend_lost(index, turn);
    }

    /// Sets the timer for the present flight: the reordering window, the probe of the tail, or the
    /// retransmission timeout.
    pub(super) fn arm_for_flight(&mut self, index: u32, turn: &mut Turn<'_>) {
        let wait_us = self.detect_by_time(index, turn.now);
        let line = &self.lines[index];
        let block = &self.actives[line.active];
        let timeout_ms = rtt::timeout_ms(line, block.backoff);
        if wait_us > 0 && block.lost == 0 {
            let wait_ms = wait_us / 1000 + 1;
            self.arm(index, Timer::Reorder, wait_ms.min(timeout_ms), turn);
            return;
        }
        let has_round_trip = rtt::is_known(line);
        let may_probe =
            has_round_trip && line.has(SACK) && is_in_order(block) && !block.has(PROBED);
        let round_trips_ms = rtt::smoothed_us(line) * 2 / 1000;
        let delay_ms = if block.in_flight == 1 { ACK_DELAY_MAX_MS } else { 0 };
        let probe_ms = (round_trips_ms + delay_ms).max(PROBE_MIN_MS);
        if may_probe && block.in_flight > 0 && probe_ms < timeout_ms {
            self.arm(index, Timer::Probe, probe_ms, turn);
        } else {
            self.arm(index, Timer::Retransmit, timeout_ms, turn);
        }
    }

    /// The reordering window has passed.
    pub(super) fn reordering_window_passed(&mut self, index: u32, turn: &mut Turn<'_>) {
        self.detect_by_time(index, turn.now);
        self.set_congestion_window(index, 0, &Delivery::default());
        self.resend_lost(index, turn);
        self.arm_for_flight(index, turn);
    }

    /// Nothing was acknowledged for a retransmission timeout: everything is lost (RFC 5681, 3.1).
    pub(super) fn lose_flight(&mut self, index: u32) {
        let line = &mut self.lines[index];
        let block = &mut self.actives[line.active];
        // A first segment that the peer has only behind a hole: it has taken that back (RFC 2018,
        // 8), so nothing that it said behind holes counts.
        let has_taken_back = block.head != NONE && self.retained.get(block.head).has(SACKED);
        let mut id = block.head;
        while id != NONE {
            let segment = self.retained.get_mut(id);
            id = segment.next;
            if segment.has(UNSENT) {
                break;
            }
            if segment.has(SACKED) && has_taken_back {
                segment.flags &= !SACKED;
                block.sacked -= 1;
            }
            if !segment.has(SACKED | LOST) {
                segment.flags |= LOST;
                block.lost += 1;
            }
        }
        if block.backoff == 0 {
            line.ssthresh = (block.in_flight / 2).max(SSTHRESH_MIN);
        }
        line.cwnd = 1;
        block.phase = Phase::Loss;
        block.recovery = block.nxt;
        block.flags &= !PROBED;
        block.acked = 0;
    }
}

/// The flight at the probe of its tail is acknowledged (RFC 8985, 7.4.2). Without a
/// loss the peer gets the segment twice and says so, or the answer to the first copy comes too soon
/// to be that to the second; else the probe has mended a loss, which counts as congestion.
fn answer_to_probe(line: &mut Line, block: &mut Active, delivery: &Delivery) {
    let is_first_copy = delivery.copy_age_us.is_some_and(|age_us| age_us < block.min_rtt_us);
    if delivery.has_repeat || is_first_copy {
        block.flags &= !PROBED;
    } else if line.una.is_after(block.probe_end) || block.is_empty() {
        block.flags &= !PROBED;
        if block.phase == Phase::Open {
            reduce(line, u32::from(block.in_flight) + delivery.acked);
        }
    }
}

/// Halves the window: to half of the flight, in segments (RFC 5681, equation 4).
fn reduce(line: &mut Line, flight: u32) {
    let half = flight.min(u32::from(line.cwnd)) / 2;
    line.ssthresh = (half as u16).max(SSTHRESH_MIN);
    line.cwnd = line.ssthresh;
}

/// Proportional rate reduction (RFC 6937, 3): the window shrinks with what arrives.
fn reduce_in_proportion(line: &mut Line, block: &mut Active, delivered: u32, has_advanced: bool) {
    block.prr_delivered += delivered;
    let (pipe, ssthresh) = (block.pipe(), u32::from(line.ssthresh));
    let may_send = if pipe > ssthresh {
        block
            .prr_delivered
            .saturating_mul(ssthresh)
            .div_ceil(block.prr_flight.max(1))
            .saturating_sub(block.prr_out)
    } else {
        let mut limit = block.prr_delivered.saturating_sub(block.prr_out).max(delivered);
        limit += u32::from(has_advanced);
        limit.min(ssthresh - pipe)
    };
    // The first lost segment leaves at once.
    let may_send = if block.prr_out == 0 { may_send.max(1) } else { may_send };
    line.cwnd = (pipe + may_send).min(u32::from(CWND_MAX)) as u16;
}

/// Slow start and congestion avoidance (RFC 5681, 3.1), while the window is what holds us back.
fn grow(line: &mut Line, block: &mut Active, acked: u32) {
    if acked == 0 || !(block.has(CWND_LIMITED) || block.phase == Phase::Loss) {
        return;
    }
    let acked = acked.min(u32::from(CWND_MAX)) as u16;
    if line.cwnd < line.ssthresh {
        line.cwnd = line.cwnd.saturating_add(acked).min(line.ssthresh).min(CWND_MAX);
        return;
    }
    block.acked = block.acked.saturating_add(acked);
    if block.acked >= line.cwnd {
        block.acked -= line.cwnd;
        line.cwnd = (line.cwnd + 1).min(CWND_MAX);
    }
}

/// Whether a segment was sent before the newest one that is known to have arrived.
fn was_sent_before(segment: &Segment, block: &Active) -> bool {
    elapsed(block.rack_sent_us, segment.sent_us) > 0
        || segment.sent_us == block.rack_sent_us && segment.end().is_before(block.rack_end)
}

/// The time for which a hole may be reordering (RFC 8985, 6.2, step 4).
fn reordering_window_us(line: &Line, block: &Active) -> u32 {
    let is_sure = block.phase != Phase::Open || block.sacked >= DUPLICATES_MAX;
    if !block.has(REORDERING) && is_sure {
        return 0;
    }
    let quarter = if block.min_rtt_us == u32::MAX { 0 } else { block.min_rtt_us / 4 };
    quarter.min(rtt::smoothed_us(line).max(1000))
}
