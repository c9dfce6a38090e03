//! The beginning of connections: SYN, its answer, and the acknowledgement of that.

use super::{Conn, Event, HOP_UNKNOWN, Listener, Stack, Turn};
use crate::active::Timer;
use crate::flow::Flow;
use crate::half_open::Opening;
use crate::line::{Line, OPENER, SACK, SCALED, State, V6};
use crate::packet::{self, ACK, Head, Options, RST, SYN, Segment};
use crate::seq::Seq;
use crate::time::Time;
use crate::{Frames, rtt};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Segments of a new connection before the first acknowledgement (RFC 6928).
pub(super) const INITIAL_WINDOW: u16 = 10;
/// The segment size of a peer without the option (RFC 9293, 3.7.1), by version of IP.
const MSS_DEFAULT_V4: u16 = 536;
const MSS_DEFAULT_V6: u16 = 1220;
/// The least size that a peer may ask for: smaller ones only serve attacks.
const MSS_MIN: u16 = 88;
/// The timeout after a repeated SYN (RFC 6298, 5.7).
const SYN_LOST_TIMEOUT_MS: u32 = 3_000;

impl Stack {
    /// Listens on an address; an unspecified one stands for all of ours. Returns the listener's
    /// number. None if another listener has the address, or it is not ours.
    pub fn listen(&mut self, address: SocketAddr) -> Option<u8> {
        let is_ours = address.ip().is_unspecified() || self.local(address.ip()).is_some();
        let is_taken =
            self.listeners.iter().any(|listener| listener.is_open && listener.address == address);
        if !is_ours || is_taken || self.listeners.len() >= usize::from(u8::MAX) {
            return None;
        }
        self.listeners.push(Listener { address, is_open: true });
        Some(self.listeners.len() as u8 - 1)
    }

    /// Accepts nothing for a while: SYN is dropped, and the peers try again.
    pub fn pause_accepting(&mut self) {
        self.is_accepting = false;
    }

    /// Accepts connections again.
    pub fn resume_accepting(&mut self) {
        self.is_accepting = true;
    }

    /// Closes the listeners: SYN is answered with RST. Openings that have begun may complete.
    pub fn stop_listening(&mut self) {
        self.listeners.iter_mut().for_each(|listener| listener.is_open = false);
    }

    fn listener(&self, address: IpAddr, port: u16) -> Option<u8> {
        let is_it = |listener: &Listener| {
            let ip = listener.address.ip();
            let is_all = ip.is_unspecified() && ip.is_ipv4() == address.is_ipv4();
            listener.is_open && listener.address.port() == port && (ip == address || is_all)
        };
        self.listeners.iter().position(is_it).map(|number| number as u8)
    }

    /// Begins a connection from one of our addresses, or from the first of the right version.
    ///
    /// # Errors
    /// `AddrNotAvailable` if the address is not ours or has no free port, or if the peer's is no
    /// single host's; `QuotaExceeded` if the connections have reached their maximum number.
    pub fn connect(
        &mut self,
        now: Time,
        from: Option<IpAddr>,
        to: SocketAddr,
        frames: &mut dyn Frames,
    ) -> io::Result<Conn> {
        let local = match from {
            Some(address) => self.local(address),
            None => self
                .addresses
                .iter()
                .position(|address| address.is_ipv4() == to.is_ipv4())
                .map(|local| local as u8),
        };
        let local = local.ok_or(io::ErrorKind::AddrNotAvailable)?;
        let is_same_version = self.addresses[usize::from(local)].is_ipv4() == to.is_ipv4();
        if !is_same_version || !packet::is_single_host(to.ip()) {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let flow = self.free_flow(local, to).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let hash = self.hash(&flow);
        let iss = self.first_number(now, &flow);
        let mss = packet::payload_max(self.config.mtu, to.ip());
        let opening = Opening {
            irs: Seq(0),
            iss,
            mss,
            scale: None,
            has_sack: false,
            hop: HOP_UNKNOWN,
            listener: 0,
        };
        let index = self.insert(now, &flow, hash, &opening, State::SynSent);
        let index = index.ok_or(io::ErrorKind::QuotaExceeded)?;
        self.lines[index].set(OPENER);
        self.statistics.connecting += 1;
        let id = self.actives.insert(index, iss + 1, now.ms());
        self.lines[index].active = id;
        let turn = &mut Turn { now, frames };
        self.send_syn(index, turn);
        self.arm(index, Timer::Syn, rtt::timeout_ms(&self.lines[index], 0), turn);
        Ok(self.conn(index))
    }

    /// A flow to the peer with a port that no other one has.
    fn free_flow(&mut self, local: u8, to: SocketAddr) -> Option<Flow> {
        let first = self.config.ports_first;
        for _ in first..=u16::MAX {
            let local_port = self.next_port;
            self.next_port = local_port.checked_add(1).unwrap_or(first);
            let flow = Flow { peer: to.ip(), peer_port: to.port(), local_port, local };
            let hash = self.hash(&flow);
            let address = self.addresses[usize::from(local)];
            if self.find(&flow, hash).is_none()
                && self.time_waits.find(&flow, hash).is_none()
                && self.half_opens.find(&flow, hash).is_none()
                && self.listener(address, local_port).is_none()
            {
                return Some(flow);
            }
        }
        None
    }

    /// The first sequence number of a flow (RFC 6528): a clock of 4 us, and a secret.
    fn first_number(&self, now: Time, flow: &Flow) -> Seq {
        let mut bytes = [0; 32];
        let length = flow.bytes(&mut bytes);
        // Another input than that of the table's hash.
        bytes[length] = 1;
        let secret = stdx::hash::keyed(self.config.secret, &bytes[..=length]);
        Seq((now.0 / 4).wrapping_add(secret) as u32)
    }

    /// A line for a new connection. None if there is no room.
    fn insert(
        &mut self,
        now: Time,
        flow: &Flow,
        hash: u64,
        opening: &Opening,
        state: State,
    ) -> Option<u32> {
        let index = self.lines.take()?;
        let line = &mut self.lines[index];
        (line.peer_port, line.local_port, line.local) =
            (flow.peer_port, flow.local_port, flow.local);
        line.state = state;
        line.una = opening.iss + u32::from(state != State::SynSent);
        line.rcv_nxt = opening.irs + 1;
        line.edge = line.rcv_nxt + u32::from(self.config.receive_window);
        line.wl1 = opening.irs;
        line.mss = opening.mss;
        line.cwnd = INITIAL_WINDOW;
        line.hop = opening.hop;
        (line.heard_ms, line.sent_ms) = (now.ms(), now.ms());
        set_agreed(line, opening);
        match flow.peer {
            IpAddr::V4(peer) => line.peer = peer.to_bits(),
            IpAddr::V6(peer) => {
                line.set(V6);
                line.peer = self.peers_v6.insert(peer.octets());
            }
        }
        self.table.insert(hash, index);
        Some(index)
    }

    /// SYN of a peer, to a flow that has no connection. `after` is a number that ours must exceed:
    /// the last one of an earlier connection.
    pub(super) fn opening(
        &mut self,
        flow: &Flow,
        hash: u64,
        segment: &Segment<'_>,
        hop: u8,
        after: Option<Seq>,
        turn: &mut Turn<'_>,
    ) {
        let address = self.addresses[usize::from(flow.local)];
        let Some(listener) = self.listener(address, flow.local_port) else {
            self.refuse(flow, segment, hop, turn);
            return;
        };
        if !self.is_accepting || self.lines.is_full() {
            self.statistics.refused += u64::from(self.lines.is_full());
            return;
        }
        let options = Options::parse(segment.options);
        let mut iss = self.first_number(turn.now, flow);
        if let Some(after) = after {
            iss = iss.max(after + 1);
        }
        let mut opening = Opening {
            irs: segment.seq,
            iss,
            mss: self.agreed_mss(flow.peer, &options),
            scale: options.scale,
            has_sack: options.is_sack_permitted,
            hop,
            listener,
        };
        if self.half_opens.is_full() {
            opening.iss = self.half_opens.cookie(turn.now, flow, &opening);
            self.statistics.cookies_sent += 1;
        } else {
            self.half_opens.insert(turn.now, *flow, hash, opening);
        }
        self.send_syn_ack(flow, &opening, turn);
    }

    /// The greatest payload to a peer.
    fn agreed_mss(&self, peer: IpAddr, options: &Options) -> u16 {
        let default = if peer.is_ipv4() { MSS_DEFAULT_V4 } else { MSS_DEFAULT_V6 };
        let ours = packet::payload_max(self.config.mtu, peer);
        options.mss.unwrap_or(default).max(MSS_MIN).min(ours)
    }

    pub(super) fn send_syn_ack(&mut self, flow: &Flow, opening: &Opening, turn: &mut Turn<'_>) {
        let scale = opening.scale.map(|_| self.receive_shift());
        let mss = packet::payload_max(self.config.mtu, flow.peer);
        let mut bytes = [0; 12];
        let length = Options::of_syn(mss, scale, opening.has_sack).write_syn(&mut bytes);
        let head = Head {
            seq: opening.iss,
            ack: opening.irs + 1,
            flags: SYN | ACK,
            window: self.config.receive_window,
            options: &bytes[..length],
            ..self.head(flow)
        };
        self.send(&head, &[], opening.hop, turn);
    }

    /// A segment of a flow whose SYN we have answered.
    pub(super) fn segment_of_half_open(
        &mut self,
        place: u32,
        segment: &Segment<'_>,
        hop: u8,
        turn: &mut Turn<'_>,
    ) {
        let Some((flow, opening)) = self.half_opens.at(place) else { return };
        let next = opening.irs + 1;
        let edge = next + u32::from(self.config.receive_window);
        let is_within = !segment.seq.is_before(next) && segment.seq.is_before(edge);
        if segment.has(RST) {
            if segment.seq == next {
                self.half_opens.remove(place);
            } else if is_within {
                self.challenge_half_open(&flow, &opening, turn);
            }
        } else if segment.has(SYN) && !segment.has(ACK) && segment.seq == opening.irs {
            self.send_syn_ack(&flow, &opening, turn); // our answer was lost
        } else if !is_within || segment.has(SYN) {
            self.challenge_half_open(&flow, &opening, turn);
        } else if segment.has(ACK) {
            if segment.ack == opening.iss + 1 {
                self.accept(&flow, &opening, Some(place), segment, hop, turn);
            } else {
                self.refuse(&flow, segment, hop, turn);
            }
        }
    }

    fn challenge_half_open(&mut self, flow: &Flow, opening: &Opening, turn: &mut Turn<'_>) {
        if !self.may_challenge(turn) {
            return;
        }
        let shift = if opening.scale.is_some() { self.receive_shift() } else { 0 };
        let head = Head {
            seq: opening.iss + 1,
            ack: opening.irs + 1,
            flags: ACK,
            window: self.config.receive_window >> shift,
            ..self.head(flow)
        };
        self.send(&head, &[], opening.hop, turn);
    }

    /// Takes a segment of no known flow for the answer to a cookie. Returns whether it may be one.
    /// Later segments may overtake the first, and only that one has the numbers of the cookie: a
    /// reset would end a good connection, so they are dropped and come again.
    pub(super) fn opening_by_cookie(
        &mut self,
        flow: &Flow,
        hash: u64,
        segment: &Segment<'_>,
        hop: u8,
        turn: &mut Turn<'_>,
    ) -> bool {
        if !segment.has(ACK) || segment.has(SYN) || segment.has(RST) {
            return false;
        }
        let address = self.addresses[usize::from(flow.local)];
        let Some(listener) = self.listener(address, flow.local_port) else { return false };
        if !self.half_opens.has_cookies(turn.now) {
            return false;
        }
        let (irs, iss) = (segment.seq - 1, segment.ack - 1);
        let Some(opening) = self.half_opens.of_cookie(turn.now, flow, irs, iss) else {
            self.statistics.unknown += 1;
            return true;
        };
        let mss = opening.mss.min(packet::payload_max(self.config.mtu, flow.peer));
        let opening = Opening { mss, hop, listener, ..opening };
        debug_assert!(self.find(flow, hash).is_none());
        self.statistics.cookies_accepted += 1;
        self.accept(flow, &opening, None, segment, hop, turn);
        true
    }

    /// The peer has acknowledged our SYN: the connection is there.
    fn accept(
        &mut self,
        flow: &Flow,
        opening: &Opening,
        half_open: Option<u32>,
        segment: &Segment<'_>,
        hop: u8,
        turn: &mut Turn<'_>,
    ) {
        if !self.is_accepting {
            return; // our answer comes again, and with it the peer's
        }
        let hash = self.hash(flow);
        let inserted = self.insert(turn.now, flow, hash, opening, State::Established);
        let Some(index) = inserted else {
            // The half-open entry stays: the peer's next segment may find room.
            self.statistics.refused += 1;
            return;
        };
        if let Some(place) = half_open {
            self.half_opens.remove(place);
        }
        self.statistics.accepted += 1;
        self.lines[index].wnd = segment.window;
        self.lines[index].wl1 = segment.seq;
        self.events.opened.push(Event::Accepted {
            conn: self.conn(index),
            peer: flow.peer_address(),
            listener: opening.listener,
        });
        self.segment(index, segment, hop, turn);
    }

    /// A segment for a connection whose SYN we have sent (RFC 9293, 3.10.7.3).
    pub(super) fn answer_to_syn(
        &mut self,
        index: u32,
        segment: &Segment<'_>,
        hop: u8,
        turn: &mut Turn<'_>,
    ) {
        let line = &self.lines[index];
        let is_acked = segment.has(ACK) && segment.ack == line.una + 1;
        if segment.has(ACK) && !is_acked {
            let flow = self.flow(index);
            self.refuse(&flow, segment, hop, turn);
            return;
        }
        if segment.has(RST) {
            if is_acked {
                self.lose(index, io::ErrorKind::ConnectionRefused);
            }
            return;
        }
        if !segment.has(SYN) {
            return;
        }
        let options = Options::parse(segment.options);
        let peer = self.flow(index).peer;
        let opening = Opening {
            irs: segment.seq,
            iss: line.una,
            mss: self.agreed_mss(peer, &options),
            scale: options.scale,
            has_sack: options.is_sack_permitted,
            hop,
            listener: 0,
        };
        let line = &mut self.lines[index];
        line.rcv_nxt = opening.irs + 1;
        line.edge = line.rcv_nxt + u32::from(self.config.receive_window);
        line.mss = opening.mss;
        line.hop = hop;
        line.heard_ms = turn.now.ms();
        // A window in a segment with SYN is never shifted (RFC 7323, 2.2).
        line.wnd = segment.window >> options.scale.unwrap_or(0);
        line.wl1 = segment.seq;
        set_agreed(line, &opening);
        if is_acked {
            self.established(index, turn);
            self.events.opened.push(Event::Connected(self.conn(index)));
            self.accept_payload(index, segment, turn);
            self.send_ack(index, turn);
        } else {
            // Both have begun at the same time.
            self.lines[index].state = State::SynReceived;
            self.send_syn(index, turn);
        }
    }

    /// The peer has acknowledged the SYN of a connection that both have begun. Returns whether the
    /// segment may be processed further.
    pub(super) fn complete(
        &mut self,
        index: u32,
        segment: &Segment<'_>,
        turn: &mut Turn<'_>,
    ) -> bool {
        if segment.ack != self.lines[index].una + 1 {
            let flow = self.flow(index);
            let hop = self.lines[index].hop;
            self.refuse(&flow, segment, hop, turn);
            return false;
        }
        self.lines[index].wnd = segment.window;
        self.lines[index].wl1 = segment.seq;
        self.established(index, turn);
        self.events.opened.push(Event::Connected(self.conn(index)));
        true
    }

    /// Our SYN is acknowledged.
    fn established(&mut self, index: u32, turn: &mut Turn<'_>) {
        let block = &self.actives[self.lines[index].active];
        let line = &mut self.lines[index];
        if block.backoff == 0 {
            let rtt_ms = crate::time::elapsed(turn.now.ms(), line.sent_ms);
            rtt::sample(line, rtt_ms.saturating_mul(1000));
        } else {
            // RFC 6298, 5.7: the SYN was lost; begin with care.
            line.cwnd = 1;
            rtt::keep(line, SYN_LOST_TIMEOUT_MS);
        }
        line.una += 1;
        line.state = State::Established;
        self.free_active(index);
    }

    /// Sends our SYN, or the answer to the peer's if both have begun.
    pub(super) fn send_syn(&mut self, index: u32, turn: &mut Turn<'_>) {
        let flow = self.flow(index);
        let line = &self.lines[index];
        let is_answer = line.state == State::SynReceived;
        let mss = packet::payload_max(self.config.mtu, flow.peer);
        let scale = (!is_answer || line.has(SCALED)).then_some(self.receive_shift());
        let mut bytes = [0; 12];
        let options = Options::of_syn(mss, scale, !is_answer || line.has(SACK));
        let length = options.write_syn(&mut bytes);
        let head = Head {
            seq: line.una,
            ack: if is_answer { line.rcv_nxt } else { Seq(0) },
            flags: if is_answer { SYN | ACK } else { SYN },
            window: self.config.receive_window,
            options: &bytes[..length],
            ..self.head(&flow)
        };
        let hop = line.hop;
        self.send(&head, &[], hop, turn);
    }
}

/// Stores what both ends have agreed on.
fn set_agreed(line: &mut Line, opening: &Opening) {
    if opening.has_sack {
        line.set(SACK);
    }
    if let Some(scale) = opening.scale {
        line.set(SCALED);
        line.shifts = line.shifts & 0xf0 | scale;
    }
}
