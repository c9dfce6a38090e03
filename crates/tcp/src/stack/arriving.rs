//! The arrival of a packet: whose it is, and whether its sequence numbers are acceptable (RFC 9293,
//! 3.10.7; RFC 5961).

use super::{Frames, Stack, Turn};
use crate::flow::Flow;
use crate::line::{State, UNREACHABLE};
use crate::packet::{self, ACK, Dropped, FIN, Icmp, Packet, RST, SYN, Segment, Trouble};
use crate::seq::Seq;
use crate::time::Time;
use std::io;
use std::net::IpAddr;

/// The least segment size that a router's report can force.
const MSS_MIN_V4: u16 = 536;
const MSS_MIN_V6: u16 = 1220;

impl Stack {
    /// Takes a received IP packet, which came from this next hop.
    pub fn receive(&mut self, now: Time, packet: &[u8], hop: u8, frames: &mut dyn Frames) {
        let turn = &mut Turn { now, frames };
        match packet::parse_with(packet, self.config.checksums) {
            Ok(Packet::Segment { from, to, segment }) => {
                self.statistics.segments_in += 1;
                self.arrive(from, to, &segment, hop, turn);
            }
            Ok(Packet::Icmp(icmp)) => self.report_of_network(&icmp, turn),
            Err(Dropped::Malformed | Dropped::Fragment | Dropped::IpOptions) => {
                self.statistics.malformed += 1;
            }
            Err(Dropped::Checksum) => self.statistics.checksums += 1,
            Err(Dropped::Protocol | Dropped::Sender) => self.statistics.foreign += 1,
        }
    }

    fn arrive(
        &mut self,
        from: IpAddr,
        to: IpAddr,
        segment: &Segment<'_>,
        hop: u8,
        turn: &mut Turn<'_>,
    ) {
        // A sender with one of our own addresses is forged: it would have us answer ourselves.
        let Some(local) = self.local(to).filter(|_| self.local(from).is_none()) else {
            self.statistics.foreign += 1;
            return;
        };
        let flow = Flow {
            peer: from,
            peer_port: segment.source_port,
            local_port: segment.target_port,
            local,
        };
        let hash = self.hash(&flow);
        if let Some(index) = self.find(&flow, hash) {
            self.segment(index, segment, hop, turn);
        } else if let Some((place, _)) = self.half_opens.find(&flow, hash) {
            self.segment_of_half_open(place, segment, hop, turn);
        } else if let Some((place, _)) = self.time_waits.find(&flow, hash) {
            self.segment_of_time_wait(place, &flow, hash, segment, hop, turn);
        } else if segment.has(SYN) && !segment.has(ACK) && !segment.has(RST) {
            self.opening(&flow, hash, segment, hop, None, turn);
        } else if !self.opening_by_cookie(&flow, hash, segment, hop, turn) {
            self.statistics.unknown += 1;
            self.refuse(&flow, segment, hop, turn);
        }
    }

    /// A segment of a connection with a line.
    pub(super) fn segment(
        &mut self,
        index: u32,
        segment: &Segment<'_>,
        hop: u8,
        turn: &mut Turn<'_>,
    ) {
        if self.lines[index].state == State::SynSent {
            self.answer_to_syn(index, segment, hop, turn);
            return;
        }
        let line = &self.lines[index];
        let (next, edge) = (line.rcv_nxt, line.edge);
        if !is_acceptable(segment, next, edge) {
            // A peer whose window we have closed may still acknowledge.
            let is_probe = segment.seq == next && edge == next && !segment.has(SYN);
            if segment.has(RST) {
                return;
            }
            if is_probe && segment.has(ACK) {
                if !self.acknowledge(index, segment, turn) {
                    return;
                }
                self.lines[index].heard_ms = turn.now.ms();
                self.offer_room(index);
            }
            self.acknowledge_repeated(index, segment, turn);
            return;
        }
        if segment.has(RST) {
            // RFC 5961, 3.2: only the very next number is believed.
            if segment.seq == next {
                self.statistics.resets_in += 1;
                self.lose(index, io::ErrorKind::ConnectionReset);
            } else if segment.seq.is_before(edge) {
                self.challenge(index, turn);
            }
            return;
        }
        if segment.has(SYN) {
            self.challenge(index, turn);
            return;
        }
        if !segment.has(ACK) {
            return;
        }
        if self.lines[index].state == State::SynReceived && !self.complete(index, segment, turn) {
            return;
        }
        if !self.acknowledge(index, segment, turn) {
            return;
        }
        let line = &mut self.lines[index];
        line.heard_ms = turn.now.ms();
        line.hop = hop;
        self.accept_payload(index, segment, turn);
        self.offer_room(index);
    }

    /// Answers a segment that is not acceptable: it was repeated, or is forged. An empty one may be
    /// an answer to ours, and SYN is suspect (RFC 5961, 4.2), so these are answered within the
    /// bound of challenges only.
    fn acknowledge_repeated(&mut self, index: u32, segment: &Segment<'_>, turn: &mut Turn<'_>) {
        let is_probe = is_probe_of_life(segment, self.lines[index].rcv_nxt);
        if segment.has(SYN) || segment.length() == 0 && !is_probe {
            self.challenge(index, turn);
        } else {
            self.send_ack(index, turn);
        }
    }

    /// Acknowledges a segment that may be forged, a bounded number of times in a second (RFC 5961,
    /// 7). The number differs, so that it cannot be probed from elsewhere.
    pub(super) fn challenge(&mut self, index: u32, turn: &mut Turn<'_>) {
        if self.may_challenge(turn) {
            self.send_ack(index, turn);
        }
    }

    /// Takes one from this second's challenges.
    pub(super) fn may_challenge(&mut self, turn: &Turn<'_>) -> bool {
        let second = turn.now.0 / 1_000_000;
        if self.challenges.0 != second {
            let jitter = stdx::hash::keyed(self.config.secret, &second.to_le_bytes()) % 500;
            self.challenges = (second, 750 + jitter as u32);
        }
        let may = self.challenges.1 > 0;
        self.challenges.1 -= u32::from(may);
        self.statistics.challenges += u64::from(may);
        may
    }

    /// A report of the network about a segment of ours. It is believed if it quotes a number in
    /// flight (RFC 5927).
    fn report_of_network(&mut self, icmp: &Icmp, turn: &mut Turn<'_>) {
        let Some(local) = self.local(icmp.from) else { return };
        let flow = Flow {
            peer: icmp.to,
            peer_port: icmp.target_port,
            local_port: icmp.source_port,
            local,
        };
        let hash = self.hash(&flow);
        let Some(index) = self.find(&flow, hash) else { return };
        let line = &self.lines[index];
        if icmp.seq.is_before(line.una) || !icmp.seq.is_before(self.nxt(index)) {
            return;
        }
        match icmp.trouble {
            Trouble::TooBig(mtu) => {
                let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
                let least = if icmp.to.is_ipv4() { MSS_MIN_V4 } else { MSS_MIN_V6 };
                let mss = packet::payload_max(mtu, icmp.to).max(least);
                if mss < self.lines[index].mss {
                    self.lines[index].mss = mss;
                    self.resend_longer(index, mss, turn);
                }
            }
            Trouble::Refused if self.lines[index].state == State::SynSent => {
                self.lose(index, io::ErrorKind::ConnectionRefused);
            }
            // RFC 9293, 3.9.2.2: no reason to give up, but one to name if we do.
            Trouble::Refused | Trouble::Unreachable => self.lines[index].set(UNREACHABLE),
        }
    }
}

/// RFC 9293, 3.10.7.4, first check.
fn is_acceptable(segment: &Segment<'_>, next: Seq, edge: Seq) -> bool {
    let is_within = |seq: Seq| !seq.is_before(next) && seq.is_before(edge);
    match (segment.length(), edge == next) {
        (0, true) => segment.seq == next,
        // A number at the edge is what a peer sends that has filled the window.
        (0, false) => is_within(segment.seq) || segment.seq == edge,
        // FIN needs no room.
        (1, true) => segment.has(FIN) && segment.seq == next,
        (_, true) => false,
        (length, false) => is_within(segment.seq) || is_within(segment.seq + (length - 1)),
    }
}

/// Whether a segment has the number before the next one: a keep-alive, or the probe of a window.
fn is_probe_of_life(segment: &Segment<'_>, next: Seq) -> bool {
    segment.seq == next - 1
}
