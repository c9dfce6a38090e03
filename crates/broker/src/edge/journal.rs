//! The journal: what an edge knows of its clients for the access log, the audit log and `$sys/...`,
//! and how much of it is still reported in this second.
//!
//! Invariants: the entries of a second have a bound, and entries that were left out are counted and
//! reported when the second is over, so that a storm costs a counter; nothing here holds a
//! credential, a query or a payload.

use crate::ids::ConnIndex;
use crate::journal::{METHOD_BYTES_MAX, path_of, start_of};
use crate::settings::Settings;
use std::collections::BTreeMap;
use std::net::IpAddr;
use stdx::handing::Hand;
use stdx::key::Key;
use stdx::memory::tree_bytes;
use stdx::networks::{address_of, number_of};
use stdx::pages::Pages;

/// Connections to a page.
const PAGE: usize = 256;
/// The close code of a client that gave none (RFC 6455, section 7.1.5), and of a connection that
/// was lost.
const NO_STATUS: u16 = 1_005;
const ABNORMAL: u16 = 1_006;
const NORMAL: u16 = 1_000;
/// Between two entries about refused origins.
const ORIGIN_PAUSE_MS: u64 = 60_000;

/// Facts about a connection for its entries.
#[derive(Clone, Copy, Hand)]
struct Known {
    /// The peer's address.
    address: u128,
    /// The connection's generation, so that facts of an earlier connection do not count.
    generation: u32,
    /// Begin of its session: the low half of milliseconds of the monotonic clock; durations are
    /// reported up to 49 days.
    began_ms: u32,
    /// The close code of its WebSocket; 0: not yet closed.
    close_code: u16,
    listener: u8,
    has_begun: bool,
    /// The connection came after the journal was on.
    is_noted: bool,
}

const UNKNOWN: Known = Known {
    address: 0,
    generation: 0,
    began_ms: 0,
    close_code: 0,
    listener: u8::MAX,
    has_begun: false,
    is_noted: false,
};

const _: () = assert!(size_of::<Known>() <= 32);

/// An HTTP request that has not been answered.
#[derive(Hand)]
pub(crate) struct Asked {
    pub method: Box<str>,
    pub path: Box<str>,
    pub at_ms: u64,
}

/// Facts for an edge's entries, and the entries that it may still make.
#[derive(Default, Hand)]
pub(crate) struct Journal {
    /// Facts by connection; empty where no log line or topic needs them.
    known: Pages<Known, PAGE>,
    asked: BTreeMap<ConnIndex, Asked>,
    pub access: Allowance,
    pub audit: Allowance,
    pub connected: Allowance,
    pub disconnected: Allowance,
    /// Requests of refused origins that have not been reported, and when the next may be.
    origins_refused: u64,
    origins_told_from_ms: u64,
}

/// Entries that may still be made in this second, and those that were left out.
#[derive(Clone, Copy, Default, Hand)]
pub(crate) struct Allowance {
    left: u32,
    left_out: u64,
}

impl Allowance {
    /// Takes one entry from this second's; false if none is left.
    pub fn take(&mut self) -> bool {
        let is_left = self.left > 0;
        if is_left {
            self.left -= 1
        } else {
            self.left_out += 1
        }
        is_left
    }

    /// A second begins: the number that was left out in the one before.
    fn renew(&mut self, rate_max: u32) -> u64 {
        self.left = rate_max;
        std::mem::take(&mut self.left_out)
    }
}

impl Journal {
    /// A journal that knows no connection.
    pub fn new(settings: &Settings) -> Journal {
        let mut journal = Journal::default();
        journal.renew(settings);
        journal
    }

    /// A second begins: the numbers that were left out, of access, audit, connected and
    /// disconnected.
    pub fn renew(&mut self, settings: &Settings) -> [u64; 4] {
        if !settings.journal.access && !self.asked.is_empty() {
            self.asked.clear();
        }
        let share = |rate_max: u32| rate_max.div_ceil(u32::from(settings.edges_count.max(1)));
        let events_rate_max = share(settings.sys.events_rate_max);
        [
            self.access.renew(share(settings.journal.access_rate_max)),
            self.audit.renew(share(settings.journal.audit_rate_max)),
            self.connected.renew(events_rate_max),
            self.disconnected.renew(events_rate_max),
        ]
    }

    /// Whether an entry was left out that is to be reported when the second is over.
    pub fn owes(&self) -> bool {
        let all = [self.access, self.audit, self.connected, self.disconnected];
        all.iter().any(|allowance| allowance.left_out > 0)
    }

    /// A connection has come from this address and through this listener.
    pub fn note(&mut self, key: Key, peer: IpAddr, listener: u8) {
        self.known.grow_to(key.index, || UNKNOWN);
        self.known[key.index] = Known {
            address: number_of(peer),
            generation: key.generation,
            listener,
            is_noted: true,
            ..UNKNOWN
        };
    }

    /// The peer's address and the listener of a connection, if it was noted.
    pub fn origin(&self, key: Key) -> Option<(IpAddr, u8)> {
        self.known(key).map(|known| (address_of(known.address), known.listener))
    }

    /// The session of a connection begins.
    pub fn begin_session(&mut self, key: Key, now_ms: u64) {
        if let Some(known) = self.known_mut(key) {
            known.began_ms = now_ms as u32; // the low half
            known.has_begun = true;
        }
    }

    /// The WebSocket of a connection is being closed with this code; none: the client gave none.
    pub fn note_close(&mut self, key: Key, code: Option<u16>) {
        if let Some(known) = self.known_mut(key)
            && known.close_code == 0
        {
            known.close_code = code.unwrap_or(NO_STATUS);
        }
    }

    /// The close code of a session that ends, and how long it lasted in milliseconds.
    /// `is_finished`: it ends in order where no close code says so.
    pub fn end_session(&self, key: Key, is_finished: bool, now_ms: u64) -> (u16, Option<u64>) {
        let known = self.known(key);
        let code = match known.map_or(0, |known| known.close_code) {
            0 if is_finished => NORMAL,
            0 => ABNORMAL,
            code => code,
        };
        let known = known.filter(|known| known.has_begun);
        let duration_ms = known.map(|known| (now_ms as u32).wrapping_sub(known.began_ms).into());
        (code, duration_ms)
    }

    /// The head of a request has come; perhaps for the second time, after its credential has been
    /// authenticated.
    pub fn note_request(&mut self, index: ConnIndex, method: &str, target: &str, now_ms: u64) {
        self.asked.entry(index).or_insert_with(|| Asked {
            method: start_of(method, METHOD_BYTES_MAX).into(),
            path: path_of(target).into(),
            at_ms: now_ms,
        });
    }

    /// Takes the request of a connection that is answered, or goes.
    pub fn take_request(&mut self, index: ConnIndex) -> Option<Asked> {
        self.asked.remove(&index)
    }

    /// Counts a refused origin: the number to report now, at most once in a minute.
    pub fn refuse_origin(&mut self, now_ms: u64) -> Option<u64> {
        self.origins_refused += 1;
        if now_ms < self.origins_told_from_ms {
            return None;
        }
        self.origins_told_from_ms = now_ms + ORIGIN_PAUSE_MS;
        Some(std::mem::take(&mut self.origins_refused))
    }

    /// Bytes touched.
    pub fn memory_bytes(&self) -> usize {
        self.known.memory_bytes() + tree_bytes(self.asked.len(), size_of::<(ConnIndex, Asked)>())
    }

    fn known(&self, key: Key) -> Option<&Known> {
        let known = self.known.get(key.index);
        known.filter(|known| known.is_noted && known.generation == key.generation)
    }

    fn known_mut(&mut self, key: Key) -> Option<&mut Known> {
        let known = self.known.get_mut(key.index);
        known.filter(|known| known.is_noted && known.generation == key.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omitted_entries_are_counted_once() {
        let mut allowance = Allowance::default();
        assert_eq!(allowance.renew(2), 0);
        let taken = [(); 5].map(|()| allowance.take());
        assert_eq!(taken, [true, true, false, false, false]);
        assert_eq!(allowance.renew(2), 3);
        assert!(allowance.take());
        assert_eq!(allowance.renew(2), 0);
    }
}
