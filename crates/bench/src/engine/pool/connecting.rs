//! Connects of a pool: at their pace, again after losses, and with a pause after a shortage.

use std::cmp::Reverse;
use std::sync::Arc;

use net::Conn;
use net::kernel::ConnectOptions;

use super::{Phase, Pool, Slot};
use crate::engine::protocol::Protocol;
use crate::engine::shortage;

/// Connects begun in one turn.
const TURN_CONNECTS_MAX: usize = 256;
/// Sources tried before a connect counts as failed.
const SOURCES_TRIED_MAX: usize = 64;
const HANDSHAKE_TIMEOUT_NS: u64 = 30_000_000_000;
const RETRY_NS: u64 = 100_000_000;
/// After a connect that could not even begin: whatever has run out, the next would fare no better,
/// and a search for a free port is dear.
const REST_NS: u64 = 50_000_000;
/// Pause if all sources that were tried are in use; others may be free.
const SOURCES_REST_NS: u64 = 5_000_000;

impl<P: Protocol> Pool<P> {
    /// Begins the connects whose time has come.
    pub(super) fn connect_due(&mut self) {
        let mut begun = 0;
        while begun < TURN_CONNECTS_MAX
            && self.connecting < self.worker.connecting_max
            && self.now_ns >= self.rest_until_ns
        {
            if let Some(Reverse((at, place))) = self.retries.peek().copied()
                && at <= self.now_ns
            {
                self.retries.pop();
                if self.slots[place as usize].phase == Phase::Idle {
                    self.connect(place, at);
                    begun += 1;
                }
                continue;
            }
            if self.next_place >= self.wanted {
                return;
            }
            let Some((_, at)) = self.worker.connect_pace.take(self.now_ns) else {
                return;
            };
            // As fast as it goes: a connect is meant to begin when it can.
            let at = if self.worker.connect_pace.is_paced() { at } else { self.now_ns };
            let place = self.next_place;
            self.next_place += 1;
            if place as usize == self.slots.len() {
                self.slots.push(Slot {
                    conn: Conn { index: 0, generation: 0 },
                    tail: None,
                    since_ns: at,
                    phase: Phase::Idle,
                    attempts: 0,
                    losses: 0,
                    is_readable: false,
                });
            }
            let slot = &mut self.slots[place as usize];
            (slot.phase, slot.losses) = (Phase::Idle, 0);
            self.connect(place, at);
            begun += 1;
        }
    }

    fn start_tls(&mut self, conn: Conn, name: &str) -> Result<(), String> {
        let client = self.worker.tls.as_ref();
        let client =
            client.ok_or("TLS: set --ca, --insecure, or an address with TLS at the start")?;
        let started = self.net.start(conn, client, name);
        started.map_err(|error| format!("TLS: {error}"))
    }

    fn connect(&mut self, place: u32, intended_ns: u64) {
        let routes = Arc::clone(&self.routes);
        let losses = self.slots[place as usize].losses;
        let route = routes.of(self.worker.client(place), losses);
        let mut options = ConnectOptions {
            socket_receive_bytes: self.worker.absences.receive_bytes,
            ..ConnectOptions::default()
        };
        let mut rest_ns = SOURCES_REST_NS;
        for _ in 0..SOURCES_TRIED_MAX {
            options.local = self.worker.sources.take();
            match self.net.net_mut().connect(route.address, &options) {
                Ok(conn) => {
                    let index = conn.index as usize;
                    if index >= self.places.len() {
                        self.places.resize(index + 1, u32::MAX);
                    }
                    self.places[index] = place;
                    let slot = &mut self.slots[place as usize];
                    slot.conn = conn;
                    slot.since_ns = intended_ns;
                    slot.phase = Phase::Connecting;
                    self.connecting += 1;
                    self.handshakes.push_back((self.now_ns, place));
                    if let Some(name) = &route.tls_name
                        && let Err(why) = self.start_tls(conn, name)
                    {
                        self.fail(place, why);
                    }
                    return;
                }
                Err(error) => {
                    let why = self.bounds.explain(&error, route.address, options.local);
                    self.tally.trouble = Some(why);
                    if options.local.is_none() || !shortage::is_taken(&error) {
                        rest_ns = REST_NS;
                        break;
                    }
                    self.worker.sources.note_refused();
                }
            }
        }
        self.rest_until_ns = self.now_ns + rest_ns;
        self.tally.connects_failed += 1;
        self.retry_later(place);
    }

    pub(super) fn drop_stuck_handshakes(&mut self) {
        while let Some((begun_ns, place)) = self.handshakes.front().copied() {
            let slot = &self.slots[place as usize];
            if matches!(slot.phase, Phase::Connecting | Phase::Handshaking) {
                if self.now_ns < begun_ns.max(slot.since_ns) + HANDSHAKE_TIMEOUT_NS {
                    return;
                }
                self.fail(place, "the handshake took too long".to_owned());
            }
            self.handshakes.pop_front();
        }
    }

    pub(super) fn retry_later(&mut self, place: u32) {
        let slot = &mut self.slots[place as usize];
        let bound = (RETRY_NS << slot.attempts.min(8)).min(self.worker.retry_ns_max);
        slot.attempts = slot.attempts.saturating_add(1);
        slot.losses = slot.losses.wrapping_add(1);
        let pause_ns = self.random.between(0, bound);
        let return_ns = self.worker.protocol.return_ns(place).unwrap_or(0);
        self.retries.push(Reverse(((self.now_ns + pause_ns).max(return_ns), place)));
    }
}
