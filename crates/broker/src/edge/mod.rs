//! The edge role of one I/O thread: serves connections, holds subscriptions, writes.
//!
//! Steps 2 to 4, 8 and 9 of the path. Values in, values out: the reactor gives what the network and
//! the mailboxes brought ([`Edge::accepted`], [`Edge::received`], [`Edge::handle`], ...), the edge
//! leaves requests to homes, closes and connections to read in [`Edge::out`], and writes through
//! the function given to [`Edge::flush`].
//!
//! Invariants: an idle connection owns a slot, a stamp and its subscriptions, nothing else; nothing
//! here waits; a slow connection costs its own outbox; whatever a peer sends becomes a typed error,
//! a close code and a counter.

mod admission;
mod behind;
mod behind_held;
mod behind_reads;
mod compression;
mod draining;
mod ends;
mod entitled;
mod fanout;
mod fanout_filters;
mod filters;
mod flushing;
mod handing;
mod input;
mod inspect;
mod journal;
mod judging;
mod kept;
mod lagging;
mod large;
mod liveness;
mod lost;
mod memory;
mod opening;
mod outbox;
mod peers;
mod policies;
mod positions;
mod pressure;
mod producers;
mod rates;
mod room;
mod sending;
mod slots;
mod slow;
mod spilling;
mod statistics;
mod subscriptions;
mod sweep;
mod topics;
mod users;

pub use ends::EndCounts;
pub use inspect::PeerOf;
pub use outbox::Written;
pub use pressure::Pressure;
pub use statistics::{Counts, EdgeStatistics, ErrorCounts, Forbidden, Recoveries, TurnedAway};
pub use users::{CountedUser, UserChange};

pub(crate) use admission::{ATTRIBUTES_BYTES_MAX, Detail, NotAdmitted, Offer, Placement};
pub(crate) use ends::End;
pub(crate) use fanout::{append_attributes, retained};
pub(crate) use input::{Progress, make_room};
pub(crate) use judging::Shown;
pub(crate) use liveness::Deadline;
use liveness::Handshakes;
pub(crate) use opening::Beginning;
pub(crate) use policies::{LeftOut, Wish};
pub(crate) use slots::{NONE, Protocol, flag};
pub(crate) use subscriptions::{Grant, Page};

use crate::entitlement::Question;
use crate::filters::FilterTrie;
use crate::inspect::Answer;
use crate::journal::Entry;
use crate::mail::{EdgeId, HomeId, ToEdge, ToHome};
use crate::now::Now;
use crate::position::Position;
use crate::session::State;
use crate::session::renewal::Renewals;
use crate::session::ticket::Tickets;
use crate::settings::Settings;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use stdx::blocks::ListPool;
use stdx::chunk::{ChunkWriter, Slice};
use stdx::key::Key;
use stdx::pages::Pages;
use stdx::slab::Slab;
use wire::native::ErrorCode;

/// What a client is told whose subscription is refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    pub code: ErrorCode,
    /// The limit that would have been passed.
    pub limit: Option<u64>,
    /// From where it could go on.
    pub restart: Option<Position>,
}

impl Refusal {
    pub fn of(code: ErrorCode) -> Refusal {
        Refusal { code, limit: None, restart: None }
    }
}

/// What the edge asks of the reactor.
#[derive(Debug, Default)]
pub struct Outputs {
    /// Requests, by home, in order.
    pub requests: Vec<Vec<ToHome>>,
    /// Connections to close; true: at once, whatever was written.
    pub closes: Vec<(Key, bool)>,
    /// Connections whose peers are to acknowledge what they get within so many milliseconds from
    /// now on, or are lost.
    pub acknowledged_within_ms: Vec<(Key, u64)>,
    /// Connections that may be read again and had something to read when that was not wanted.
    pub readable: Vec<Key>,
    /// Credentials to be judged; [`Edge::judged`] takes the verdicts.
    pub questions: Vec<Question>,
    /// Connections of proxies that bring a request of this client, and wait until they may count
    /// for it.
    pub clients: Vec<(Key, IpAddr)>,
    /// Of homes, to what operators have asked them through this edge, by the numbers of the
    /// questions.
    pub answers: Vec<(u32, Answer)>,
    /// Connections that come to users and leave them, in order; those that come wait for an answer.
    pub users: Vec<UserChange>,
    /// What is to be told of clients, where the settings ask for it.
    pub journal: Vec<Entry>,
}

/// The edge role of one I/O thread.
pub struct Edge {
    pub(crate) settings: Arc<Settings>,
    id: EdgeId,
    pub(crate) now: Now,
    pub(crate) slots: slots::Slots,
    stamps: Pages<u32, STAMPS_PAGE>,
    peers: peers::Peers,
    journal: journal::Journal,
    rates: rates::Rates,
    pressure: Pressure,
    outboxes: outbox::Outboxes,
    /// Slow connections that the next flush closes, each with the bound that it has passed.
    ending: Vec<(Key, outbox::Excess)>,
    dead: Vec<u32>,
    inputs: Slab<input::Input>,
    kept: kept::Kept,
    resumed: Vec<Key>,
    /// Ran out of their share of a turn; they go on in the next, after those that had waited.
    spent: Vec<Key>,
    /// What subscriptions may still cost in this turn.
    pub(crate) work_left: u32,
    pub(crate) states: Slab<State>,
    /// What these own.
    states_bytes: usize,
    subscriptions: Slab<subscriptions::Subscription>,
    generation: u32,
    large: large::Large,
    replay_credits: BTreeMap<u32, u32>,
    recovering: policies::Recovering,
    pub(crate) tickets: Tickets,
    pub(crate) judging: judging::Judging,
    pub(crate) renewals: Renewals,
    /// Of questions for names, so that answers find who asked.
    describe_number: u32,
    topics: Vec<topics::Topics>,
    members: ListPool,
    filters: FilterTrie<u32>,
    filter_entries: Slab<filters::FilterEntry>,
    /// Subscriptions to filters by connection, where these have a bound of their own.
    filters_held: BTreeMap<u32, u32>,
    behind: behind::Behind,
    /// To be dealt with before the next letter of another kind.
    lost: lost::Lost,
    laggards: lagging::Laggards,
    positions: positions::Positions,
    /// Messages to filters so far.
    named_frames: u64,
    filters_version: u64,
    named: Slab<filters::NamedTopic>,
    /// What these own.
    named_bytes: usize,
    homes: Vec<room::HomeLink>,
    /// A log on disk that has no room for more requests since the frame that is being dealt with.
    full_log: Option<(HomeId, u16)>,
    pub(crate) mail: Mail,
    handshakes: Handshakes,
    /// Deadlines of long polls, with their connections.
    pub(crate) polls: BTreeSet<(u64, u32)>,
    /// The present second, of the monotonic clock: some things are done once in each.
    second: u32,
    sweep: sweep::Sweep,
    old_sessions: producers::OldSessions,
    /// The shortest that any session has had.
    ping_interval_min_s: u32,
    serial: u32,
    targets: Vec<u32>,
    pub(crate) scratch: Vec<u8>,
    attributes: Vec<u8>,
    compression: compression::Compression,
    pub(crate) statistics: EdgeStatistics,
    pub(crate) draining: bool,
    drains: Option<draining::Drain>,
    /// What the reactor takes after each turn.
    pub out: Outputs,
}

impl Edge {
    /// An edge without connections. `now` starts its clocks.
    pub fn new(settings: Arc<Settings>, id: EdgeId, now: Now) -> Edge {
        let homes = usize::from(settings.homes_count);
        Edge {
            id,
            now,
            slots: slots::Slots::new(),
            stamps: Pages::new(),
            peers: peers::Peers::default(),
            journal: journal::Journal::new(&settings),
            rates: rates::Rates::new(&settings.limits),
            pressure: Pressure::None,
            // A page goes into the ring at once: if it did not fit, its own end would drive its
            // beginning out for ever.
            outboxes: outbox::Outboxes::new(
                settings
                    .limits
                    .ring_bytes
                    .max(settings.limits.page_bytes.saturating_mul(RING_PAGES_MIN))
                    as usize,
            ),
            ending: Vec::new(),
            dead: Vec::new(),
            inputs: Slab::new(),
            kept: kept::Kept::default(),
            resumed: Vec::new(),
            spent: Vec::new(),
            work_left: 0,
            states: Slab::new(),
            states_bytes: 0,
            subscriptions: Slab::new(),
            generation: 0,
            large: large::Large::default(),
            replay_credits: BTreeMap::new(),
            recovering: policies::Recovering::default(),
            tickets: Tickets::default(),
            judging: judging::Judging::new(),
            renewals: Renewals::default(),
            describe_number: 0,
            topics: (0..homes).map(|_| topics::Topics::default()).collect(),
            members: ListPool::default(),
            filters: FilterTrie::default(),
            filter_entries: Slab::new(),
            filters_held: BTreeMap::new(),
            behind: behind::Behind::default(),
            lost: lost::Lost::new(),
            laggards: lagging::Laggards::default(),
            positions: positions::Positions::default(),
            named_frames: 0,
            filters_version: 0,
            named: Slab::new(),
            named_bytes: 0,
            homes: (0..homes).map(|_| room::HomeLink::new(settings.logs.len())).collect(),
            full_log: None,
            mail: Mail::default(),
            handshakes: Handshakes::default(),
            polls: BTreeSet::new(),
            second: (now.monotonic_ms / 1_000) as u32,
            sweep: sweep::Sweep::new(now.monotonic_ms),
            old_sessions: producers::OldSessions::default(),
            ping_interval_min_s: u32::MAX,
            serial: 0,
            targets: Vec::new(),
            scratch: Vec::new(),
            attributes: Vec::new(),
            compression: compression::Compression::default(),
            statistics: EdgeStatistics::default(),
            draining: false,
            drains: None,
            out: Outputs {
                requests: (0..homes).map(|_| Vec::new()).collect(),
                ..Outputs::default()
            },
            settings,
        }
    }

    /// Goes by renewed settings from now on ([`Settings::renewed`]). Connections, subscriptions and
    /// their policies stay; what waits for room or for a deadline goes on by the new bounds when it
    /// is looked at next.
    pub fn set_settings(&mut self, settings: Arc<Settings>) {
        self.compression.forget_compressor();
        self.rates.renew(&settings.limits);
        self.settings = settings;
        self.renew_journal();
        // What is no portion by the old bound may be one by the new: a home without credit would
        // wait for it for ever.
        for home in 0..self.settings.homes_count {
            self.give_credit(home, 0);
        }
    }

    /// Counters that begin anew after 32 bits begin here, of an edge that has not served anybody.
    /// For tests and simulated worlds: what comes at their ends does not show otherwise in a
    /// human's time.
    pub fn begin_counters_at(&mut self, value: u32) {
        self.serial = value;
        self.generation = value;
        self.describe_number = value;
        self.outboxes.begin_at(value);
    }

    /// What it goes by.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Begins a turn: time passes, deadlines come, kept input goes on.
    pub fn turn(&mut self, now: Now) {
        self.now = now;
        self.renew_compression();
        self.renew_work();
        self.expire();
        let spent = std::mem::take(&mut self.spent);
        self.resumed.extend(spent);
        self.continue_resumed();
        self.tell_some_positions();
        self.drain_some();
    }

    /// Whether another turn is due at once.
    pub fn has_more(&self) -> bool {
        !self.resumed.is_empty()
            || !self.spent.is_empty()
            || !self.outboxes.dirty().is_empty()
            || !self.lost.is_empty()
            || self.has_more_to_drain()
            || self.may_wake_readers()
            || self.judging.has_work()
    }

    /// A peer has connected from this address.
    pub fn accepted(&mut self, key: Key, peer: IpAddr) {
        debug_assert!(
            self.slots.get(Key { index: key.index, generation: key.generation }).is_none()
        );
        self.slots.open(key);
        self.slots[key.index].set(flag::STARTING);
        self.stamp_hello(key.index);
        self.note_peer(key.index, peer);
        self.stamp(key.index);
        self.statistics.accepted += 1;
        self.expect(Deadline::Head(key));
    }

    /// A connection that has just been accepted came by TLS.
    pub fn came_by_tls(&mut self, key: Key) {
        self.slots[key.index].set(flag::ENCRYPTED);
    }

    /// The network has lost the connection.
    pub fn lost(&mut self, key: Key) {
        if self.slots.get(key).is_some() {
            self.forget(key.index);
        }
    }

    /// The same because the peer's host acknowledged nothing any more: it has vanished, or is cut
    /// off.
    pub fn vanished(&mut self, key: Key) {
        if self.slots.get(key).is_some() {
            self.statistics.unacknowledged += 1;
            self.note_end(key.index, End::VANISHED);
        }
        self.lost(key);
    }

    /// A letter from a home, in the order of that home's mailbox.
    pub fn handle(&mut self, home: HomeId, letter: ToEdge) {
        let cost = letter.cost();
        if !self.lost.is_empty() && !matches!(letter, ToEdge::StreamGap { .. }) {
            self.leave_lost_streams();
        }
        match letter {
            ToEdge::Granted {
                subscription,
                index,
                generation,
                partition,
                epoch,
                through,
                replaying,
                continued,
                gap,
                retained,
            } => {
                let position = Position { epoch, offset: through };
                let grant = Grant {
                    index,
                    generation,
                    partition,
                    position,
                    replaying,
                    continued,
                    gap,
                    retained,
                };
                self.granted(home, subscription, grant);
            }
            ToEdge::Refused { subscription, code } => self.refused_by_home(subscription, code),
            ToEdge::FilterGranted { subscription, result } => {
                self.filter_granted(home, subscription, result)
            }
            ToEdge::FilterPage {
                subscription,
                partition,
                after,
                gap,
                records,
                skipped,
                through,
                caught_up,
            } => {
                let page = behind::FilterPage {
                    partition,
                    after,
                    gap,
                    records,
                    skipped,
                    through,
                    caught_up,
                };
                self.filter_page(subscription, &page);
            }
            ToEdge::Announce { index, partition, topic } => {
                self.announced(home, index, partition, topic)
            }
            ToEdge::Message { index, record } => self.deliver(home, index, &record),
            ToEdge::Released { index } => self.released(home, index),
            ToEdge::Page { subscription, gap, skipped, records, through, caught_up } => {
                let page = Page { gap, skipped, records, through, caught_up };
                self.page(subscription, page);
            }
            ToEdge::StreamGap { partition, from, .. } => self.stream_gap(home, partition, from),
            ToEdge::History { reply, result } => self.history_answered(reply, result),
            ToEdge::Published { reply, result } => self.publish_answered(reply, result),
            ToEdge::Described { connection, number, names, positions } => {
                self.described(home, (connection, number), &names, &positions)
            }
            ToEdge::Positions { positions } => self.positions_are(home, &positions),
            ToEdge::Consumed { lane, requests, bytes } => {
                self.consumed(home, lane, requests, bytes)
            }
            ToEdge::Stalled { log, is_stalled } => self.log_stalled(home, log, is_stalled),
        }
        if self.renewals.have_settled() {
            self.continue_renewals();
        }
        if cost > 0 {
            self.give_credit(home, cost);
        }
    }

    /// Connections now.
    pub fn connections_count(&self) -> u32 {
        self.slots.count()
    }

    /// Counters and gauges.
    pub fn statistics(&self) -> EdgeStatistics {
        EdgeStatistics {
            connections: u64::from(self.slots.count()),
            subscriptions: self.subscriptions.len() as u64,
            filters: self.filter_entries.len() as u64,
            pinned_bytes: self.outboxes.pinned_bytes(),
            ring_segment_bytes: self.outboxes.ring_segment_bytes() as u64,
            kept_bytes: self.kept.bytes(),
            entitlements: self.judging.entitlements.len() as u64,
            long_polls: self.polls.len() as u64,
            ..self.statistics
        }
    }

    /// Messages handed to connections as they came, and not from a log.
    pub fn delivered_live(&self) -> u64 {
        self.statistics.delivered - self.statistics.replayed
    }

    /// Credit goes back in portions, so that it costs little.
    fn give_credit(&mut self, home: HomeId, bytes: u32) {
        let link = &mut self.homes[usize::from(home)];
        link.credit_due += bytes;
        if link.credit_due >= self.settings.limits.stream_credit_bytes / 8 {
            let bytes = std::mem::take(&mut link.credit_due);
            self.out.requests[usize::from(home)].push(ToHome::Credit { bytes });
        }
    }

    /// Closes once everything that waits has been written; nothing more is read.
    pub(crate) fn close(&mut self, index: u32) {
        self.note_end(index, End::FINISHED);
        self.slots[index].set(flag::CLOSING);
        self.unsubscribe_all(index);
        self.stamp(index);
        self.touch(index);
    }

    /// Ends the connection at the end of the turn, whatever waits.
    pub(crate) fn kill(&mut self, index: u32) {
        let slot = &mut self.slots[index];
        if slot.is(flag::DEAD) {
            return;
        }
        slot.set(flag::DEAD | flag::CLOSING);
        self.dead.push(index);
        self.note_end(index, End::CUT);
    }

    /// Everything has been written and the connection is to close.
    fn finish(&mut self, index: u32) {
        let key = self.slots.key(index);
        self.out.closes.push((key, false));
        self.forget(index);
    }

    /// Ends what was killed in this turn.
    fn bury(&mut self) {
        self.close_ending();
        for index in std::mem::take(&mut self.dead) {
            if self.slots[index].is(flag::DEAD) {
                self.out.closes.push((self.slots.key(index), true));
                self.forget(index);
            }
        }
    }

    /// Frees all that the connection owns; its key is dead from here on.
    fn forget(&mut self, index: u32) {
        if self.notes_origins() {
            self.session_ended(index);
        }
        self.unsubscribe_all(index);
        self.outboxes.release(&mut self.slots, index);
        self.forget_poll(index);
        self.forget_ticket(index);
        if self.settings.entitlement.is_some() {
            self.forget_entitlement(index);
        }
        self.rates.forget(index);
        self.old_sessions.forget(index);
        self.forget_kept(index);
        let slot = &self.slots[index];
        match slot.protocol {
            Protocol::Native => self.statistics.native_sessions -= 1,
            Protocol::Events => self.statistics.event_streams -= 1,
            Protocol::Echo => self.statistics.echo_sessions -= 1,
            _ => {}
        }
        let (input, state) = (slot.input, slot.state);
        self.inputs.remove(input);
        if let Some(state) = self.states.remove(state) {
            self.states_bytes -= state.own_bytes();
        }
        self.count_end(index);
        self.slots.free(index);
    }

    /// The session's state, when its protocol keeps one.
    pub(crate) fn state(&mut self, index: u32) -> Option<&mut State> {
        self.states.get_mut(self.slots[index].state)
    }

    /// Gives the session a state, in place of any it had.
    pub(crate) fn set_state(&mut self, index: u32, state: State) {
        self.states_bytes += state.own_bytes();
        match self.states.get_mut(self.slots[index].state) {
            Some(place) => self.states_bytes -= std::mem::replace(place, state).own_bytes(),
            None => self.slots[index].state = self.states.insert(state),
        }
    }

    /// Takes the session's state away.
    pub(crate) fn take_state(&mut self, index: u32) -> Option<State> {
        let handle = std::mem::replace(&mut self.slots[index].state, NONE);
        let state = self.states.remove(handle)?;
        self.states_bytes -= state.own_bytes();
        Some(state)
    }

    /// Numbers a question for names.
    pub(crate) fn next_describe_number(&mut self) -> u32 {
        self.describe_number = self.describe_number.wrapping_add(1);
        self.describe_number
    }

    /// The number by which the node knows the connection.
    pub(crate) fn connection_number(&self, index: u32) -> u64 {
        let generation = u64::from(self.slots[index].generation);
        u64::from(self.id) << 48 | (generation & 0xff_ffff) << 24 | u64::from(index & 0xff_ffff)
    }
}

/// Stamps to a page.
const STAMPS_PAGE: usize = 1_024;
/// Pages that the ring has room for at least; events in JSON are up to six times as long as their
/// payloads.
const RING_PAGES_MIN: u32 = 8;

/// Where bytes wait that go to other shards: one area after another, each freed when the last
/// letter that refers to it has been dealt with.
#[derive(Default)]
pub(crate) struct Mail {
    area: Option<ChunkWriter>,
}

const MAIL_AREA_BYTES: usize = 64 << 10;

impl Mail {
    /// Of the area that is being filled.
    fn memory_bytes(&self) -> usize {
        self.area.as_ref().map_or(0, ChunkWriter::len)
    }

    /// A copy that letters can carry.
    pub fn copy(&mut self, bytes: &[u8]) -> Slice {
        if bytes.is_empty() {
            return Slice::empty();
        }
        if bytes.len() > MAIL_AREA_BYTES / 4 {
            return Slice::copy_of(bytes);
        }
        if let Some(slice) = self.area.as_mut().and_then(|area| area.append(&[bytes])) {
            return slice;
        }
        let area = self.area.insert(ChunkWriter::heap(MAIL_AREA_BYTES));
        area.append(&[bytes]).unwrap_or_else(|| Slice::copy_of(bytes))
    }
}
