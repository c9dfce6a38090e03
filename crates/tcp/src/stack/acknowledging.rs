//! Acknowledgements of the peer: the window, freed segments, selective acknowledgements, round
//! trips (RFC 9293, 3.10.7.4; RFC 2018; RFC 6298; RFC 8985, 6).

use super::{Event, Stack, Turn};
use crate::active::{DELIVERED, Phase, REORDERING, Timer};
use crate::line::{LOST, Line, ORPHAN, SACK, State, UNREACHABLE, WRITE_BLOCKED};
use crate::packet::{Options, Segment};
use crate::retained::{self, NONE, RESENT, Retained, SACKED, UNSENT};
use crate::seq::Seq;
use crate::time::{Time, elapsed};
use crate::{active, rtt};

/// Deliveries of one acknowledgement.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// Segments that are known to have arrived now, in order or not.
    pub delivered: u32,
    /// Segments that are acknowledged in order now.
    pub acked: u32,
    /// Whether the first unacknowledged number has moved.
    pub has_advanced: bool,
    /// A repeated acknowledgement of the same number (RFC 5681, 2).
    pub is_duplicate: bool,
    /// The round trip of a segment that was sent once, in microseconds.
    rtt_us: Option<u32>,
    /// The peer has got a segment twice (RFC 2883).
    pub has_repeat: bool,
    /// The time since the last copy of a segment that was sent again, in microseconds.
    pub copy_age_us: Option<u32>,
}

impl Stack {
    /// The next number to send.
    pub(super) fn nxt(&self, index: u32) -> Seq {
        let line = &self.lines[index];
        if line.is_idle() { line.una } else { self.actives[line.active].nxt }
    }

    /// Takes the acknowledgement of an acceptable segment. Returns whether the segment may be
    /// processed further: false if the acknowledgement is impossible, or the connection is over.
    pub(super) fn acknowledge(
        &mut self,
        index: u32,
        segment: &Segment<'_>,
        turn: &mut Turn<'_>,
    ) -> bool {
        let line = &self.lines[index];
        let (ack, una) = (segment.ack, line.una);
        let window_before = line.window();
        // RFC 5961, 5.2: neither for bytes that were not sent, nor older than a window.
        let oldest = una - window_before.max(u32::from(u16::MAX));
        if ack.is_after(self.nxt(index)) || ack.is_before(oldest) {
            self.challenge(index, turn);
            return false;
        }
        let line = &mut self.lines[index];
        if !ack.is_before(una) && !segment.seq.is_before(line.wl1) {
            line.wnd = segment.window;
            line.wl1 = segment.seq;
        }
        let window = line.window();
        if line.is_idle() {
            return true;
        }
        let options = Options::parse(segment.options);
        let mut delivery = self.deliver(index, ack, &options, turn.now);
        delivery.is_duplicate = ack == una
            && segment.length() == 0
            && window == window_before
            && self.actives[self.lines[index].active].in_flight > 0;
        let line = &mut self.lines[index];
        let block = &mut self.actives[line.active];
        // An acknowledgement that covers a repeated segment tells no round trip (RFC 6298, 3).
        let rtt_us = delivery.rtt_us.filter(|_| delivery.copy_age_us.is_none());
        if let Some(rtt_us) = rtt_us {
            rtt::sample(line, rtt_us);
        } else if delivery.has_advanced && block.backoff > 0 {
            rtt::keep(line, rtt::timeout_ms(line, block.backoff));
        }
        if delivery.has_advanced {
            block.backoff = 0;
            block.since_ms = turn.now.ms();
            line.clear(UNREACHABLE);
        }
        self.recover(index, &delivery, turn);
        self.finish_acknowledgement(index, &delivery, turn)
    }

    /// After an acknowledgement: everything may be acknowledged, the timer may move, and FIN may
    /// have arrived.
    fn finish_acknowledgement(
        &mut self,
        index: u32,
        delivery: &Delivery,
        turn: &mut Turn<'_>,
    ) -> bool {
        let line = &self.lines[index];
        let block = &self.actives[line.active];
        if block.is_empty() {
            let has_no_room =
                line.window() == 0 || self.retained.bytes() >= self.config.unacknowledged_bytes_max;
            if line.has(WRITE_BLOCKED) && has_no_room && line.state.can_send() {
                if block.timer != Timer::Persist {
                    self.begin_persist(index, turn);
                }
            } else {
                self.free_active(index);
            }
            return self.our_end_arrived(index, turn.now);
        }
        // A peer that has everything but the first bytes must not move the timer for ever.
        if !delivery.has_advanced && self.is_out_of_patience(index, turn.now) {
            self.give_up(index, turn);
            return false;
        }
        if delivery.has_advanced || delivery.delivered > 0 || block.timer == Timer::None {
            self.arm_for_flight(index, turn);
        }
        true
    }

    /// Everything that we have sent is acknowledged, FIN included if we have sent one. Returns
    /// whether the connection continues.
    fn our_end_arrived(&mut self, index: u32, now: Time) -> bool {
        match self.lines[index].state {
            State::FinWait1 => {
                self.lines[index].state = State::FinWait2;
                if self.lines[index].has(ORPHAN) {
                    self.linger(index, now);
                }
            }
            State::Closing => {
                self.begin_time_wait(index, now);
                return false;
            }
            State::LastAck => {
                self.finish(index);
                return false;
            }
            State::Vacant
            | State::SynSent
            | State::SynReceived
            | State::Established
            | State::FinWait2
            | State::CloseWait
            | State::Over
            | State::Reset
            | State::Silent => {}
        }
        true
    }

    /// Frees acknowledged segments and marks those that the peer has behind holes.
    fn deliver(&mut self, index: u32, ack: Seq, options: &Options, now: Time) -> Delivery {
        let id = self.lines[index].active;
        let una = self.lines[index].una;
        let mut delivery = Delivery { has_advanced: ack.is_after(una), ..Delivery::default() };
        if delivery.has_advanced {
            self.lines[index].una = ack;
            self.actives[id].duplicates = 0;
        }
        while self.actives[id].head != NONE {
            let head = self.actives[id].head;
            let segment = *self.retained.get(head);
            if segment.end().is_after(ack) {
                break;
            }
            self.retained.remove(head);
            let block = &mut self.actives[id];
            block.head = segment.next;
            if segment.next == NONE {
                block.tail = NONE;
            }
            block.bytes -= Retained::slot_bytes(head);
            if block.unsent == head {
                // The peer acknowledges bytes that never left: its own loss.
                block.unsent = segment.next;
            }
            if segment.has(UNSENT) {
                continue;
            }
            block.in_flight -= 1;
            delivery.acked += 1;
            if segment.has(SACKED) {
                block.sacked -= 1;
            } else {
                block.lost -= u16::from(segment.has(retained::LOST));
                count_delivered(block, &segment, now, &mut delivery);
            }
        }
        if self.lines[index].has(SACK) && !options.sacks().is_empty() {
            self.mark_sacked(index, ack, options, now, &mut delivery);
        }
        delivery
    }

    /// Marks the segments that are behind a hole at the peer.
    fn mark_sacked(
        &mut self,
        index: u32,
        ack: Seq,
        options: &Options,
        now: Time,
        delivery: &mut Delivery,
    ) {
        let block = &mut self.actives[self.lines[index].active];
        let is_good = |(from, to): &(Seq, Seq)| {
            from.is_before(*to) && !from.is_before(ack) && !to.is_after(block.nxt)
        };
        delivery.has_repeat = options.sacks().first().is_some_and(|(_, to)| !to.is_after(ack));
        let mut blocks = [(Seq(0), Seq(0)); crate::packet::SACKS_MAX];
        let mut count = 0;
        for block in options.sacks().iter().filter(|block| is_good(block)) {
            blocks[count] = *block;
            count += 1;
        }
        if count == 0 {
            return;
        }
        let mut id = block.head;
        while id != NONE {
            let segment = self.retained.get_mut(id);
            id = segment.next;
            if segment.has(UNSENT) {
                break;
            }
            let is_there = |(from, to): &(Seq, Seq)| {
                !segment.seq.is_before(*from) && !segment.end().is_after(*to)
            };
            if segment.has(SACKED) || !blocks[..count].iter().any(is_there) {
                continue;
            }
            if segment.has(retained::LOST) {
                segment.flags &= !retained::LOST;
                block.lost -= 1;
            }
            segment.flags |= SACKED;
            block.sacked += 1;
            count_delivered(block, segment, now, delivery);
        }
    }

    /// Reports room after a blocked write, if there is some.
    pub(super) fn offer_room(&mut self, index: u32) {
        let line = &self.lines[index];
        if !line.has(WRITE_BLOCKED) || line.has(ORPHAN | LOST) || !line.state.can_send() {
            return;
        }
        let room = self.room(index);
        let is_enough = room >= u32::from(line.mss)
            || room > 0 && (line.is_idle() || self.actives[line.active].is_empty());
        if is_enough {
            self.lines[index].clear(WRITE_BLOCKED);
            if !self.lines[index].is_idle() && self.actives[self.lines[index].active].is_empty() {
                self.free_active(index);
            }
            self.events.writable.push(Event::Writable(self.conn(index)));
        }
    }

    /// Frees the active block with everything retained.
    pub(super) fn free_active(&mut self, index: u32) {
        let Line { active: id, .. } = self.lines[index];
        if id == active::NONE {
            return;
        }
        self.wheel.cancel(&mut self.actives, id);
        let block = &self.actives[id];
        if block.is_empty() {
            self.lines[index].una = block.nxt.max(self.lines[index].una);
        }
        let mut segment = block.head;
        while segment != NONE {
            let next = self.retained.get(segment).next;
            self.retained.remove(segment);
            segment = next;
        }
        self.actives.remove(id);
        self.lines[index].active = active::NONE;
    }
}

/// A segment is known to have arrived: round trip, and the state of RACK (RFC 8985, 6.2).
fn count_delivered(
    block: &mut active::Active,
    segment: &retained::Segment,
    now: Time,
    delivery: &mut Delivery,
) {
    delivery.delivered += 1;
    let rtt_us = elapsed(now.us(), segment.sent_us);
    if segment.has(RESENT) {
        delivery.copy_age_us = Some(rtt_us);
        if rtt_us < block.min_rtt_us && block.min_rtt_us != u32::MAX {
            return; // this was the answer to the first copy
        }
    } else {
        block.min_rtt_us = block.min_rtt_us.min(rtt_us);
        delivery.rtt_us = Some(rtt_us);
        if segment.end().is_before(block.foremost) {
            block.flags |= REORDERING;
        }
    }
    block.foremost = block.foremost.max(segment.end());
    let age = elapsed(segment.sent_us, block.rack_sent_us);
    let is_newer =
        age > 0 || segment.sent_us == block.rack_sent_us && segment.end().is_after(block.rack_end);
    if !block.has(DELIVERED) || is_newer {
        block.flags |= DELIVERED;
        block.rack_sent_us = segment.sent_us;
        block.rack_end = segment.end();
        block.rack_rtt_us = rtt_us;
    }
}

/// Whether the flight is in order: nothing is known to be missing.
pub(super) fn is_in_order(block: &active::Active) -> bool {
    block.phase == Phase::Open && block.sacked == 0 && block.lost == 0
}
