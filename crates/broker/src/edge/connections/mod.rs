//! Connections: what an edge keeps of each, and the lists of those that something is to be done
//! with.
//!
//! Owner of everything that is found by a connection's index. It knows nothing of subscriptions,
//! homes or credentials.

pub(crate) mod handshakes;
pub(crate) mod input;
pub(crate) mod kept;
pub(crate) mod peers;
pub(crate) mod producers;
pub(crate) mod rates;
pub(crate) mod slots;
pub(crate) mod sweep;

use crate::edge::outbox::Excess;
use crate::now::Now;
use crate::settings::Limits;
use handshakes::Handshakes;
use input::Input;
use kept::Kept;
use peers::Peers;
use producers::OldSessions;
use rates::Rates;
use slots::Slots;
use stdx::handing::Hand;
use stdx::key::Key;
use stdx::pages::Pages;
use stdx::slab::Slab;
use sweep::Sweep;

/// Stamps to a page.
pub(crate) const STAMPS_PAGE: usize = 1_024;

/// See the module.
#[derive(Hand)]
pub(crate) struct Connections {
    pub slots: Slots,
    pub stamps: Pages<u32, STAMPS_PAGE>,
    pub peers: Peers,
    pub rates: Rates,
    /// Slow connections that the next flush closes, each with the bound that it has passed.
    pub ending: Vec<(Key, Excess)>,
    /// Connections that end with this turn.
    pub dead: Vec<u32>,
    pub inputs: Slab<Input>,
    pub kept: Kept,
    /// Connections that go on with kept input.
    pub resumed: Vec<Key>,
    /// Connections without a share of this turn left; they go on in the next, after those that had
    /// waited.
    pub spent: Vec<Key>,
    pub handshakes: Handshakes,
    /// The present second, of the monotonic clock: some things are done once in each.
    pub second: u32,
    pub sweep: Sweep,
    pub old_sessions: OldSessions,
    /// The shortest that any session has had.
    pub ping_interval_min_s: u32,
}

impl Connections {
    /// No connections. `now` starts the clocks.
    pub fn new(limits: &Limits, now: Now) -> Connections {
        Connections {
            slots: Slots::new(),
            stamps: Pages::new(),
            peers: Peers::default(),
            rates: Rates::new(limits),
            ending: Vec::new(),
            dead: Vec::new(),
            inputs: Slab::new(),
            kept: Kept::default(),
            resumed: Vec::new(),
            spent: Vec::new(),
            handshakes: Handshakes::default(),
            second: (now.monotonic_ms / 1_000) as u32,
            sweep: Sweep::new(now.monotonic_ms),
            old_sessions: OldSessions::default(),
            ping_interval_min_s: u32::MAX,
        }
    }
}
