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

mod access;
mod compression;
mod connections;
mod counts;
mod delivery;
mod ends;
mod excess;
mod flow;
mod journal;
mod links;
mod mqtt;
mod outbox;
mod pressure;
mod sessions;
mod statistics;
mod subscriptions;
mod tickets;
mod work;

use crate::ids::{ConnIndex, TopicIndex};
pub use access::users::{CountedUser, UserChange};
pub use counts::Counts;
pub use ends::EndCounts;
pub use outbox::Written;
pub use pressure::Pressure;
pub use statistics::{EdgeStatistics, ErrorCounts, Forbidden, Recoveries, TurnedAway};

pub(crate) use crate::ids::NONE;
pub(crate) use crate::protocol::{Protocol, flag};
pub(crate) use access::Presented;
pub(crate) use connections::handshakes::Deadline;
pub(crate) use connections::input::{Progress, make_room};
pub(crate) use ends::End;

use crate::entitlement::{Question, certificate_credential};
use crate::inspect::Answer;
use crate::journal::Entry;
use crate::mail::{EdgeId, HomeId, ToEdge, ToHome};
use crate::now::Now;
use crate::settings::Settings;
use std::net::IpAddr;
use std::sync::Arc;
use stdx::key::Key;

/// The edge's demands on the reactor.
#[derive(Debug, Default)]
pub struct Outputs {
    /// Requests, by home, in order.
    pub requests: Vec<Vec<ToHome>>,
    /// Connections to close; true: at once, whatever was written.
    pub closes: Vec<(Key, bool)>,
    /// Connections whose peers are to acknowledge what they get within so many milliseconds from
    /// now on, or are lost.
    pub acknowledged_within_ms: Vec<(Key, u64)>,
    /// Connections that are due for a ping; [`Edge::heard`] takes the answers. None: the edge pings
    /// them by itself, because the network does not know when it has heard a peer.
    pub silent: Option<Vec<Key>>,
    /// Connections that may be read again and had something to read when that was not wanted.
    pub readable: Vec<Key>,
    /// Questions about credentials; [`Edge::decided`] takes the decisions.
    pub questions: Vec<Question>,
    /// Connections of proxies that bring a request of this client, and wait until they may count
    /// for it.
    pub clients: Vec<(Key, IpAddr)>,
    /// Answers of homes to operators' questions through this edge, by the numbers of the questions.
    pub answers: Vec<(u32, Answer)>,
    /// Connections that come to users and leave them, in order; those that come wait for an answer.
    pub users: Vec<UserChange>,
    /// Entries for log lines and `$sys` topics about clients, where the settings ask for them.
    pub journal: Vec<Entry>,
}

/// The network's lookup of a connection's peer address, where the edge keeps no addresses.
pub type PeerOf<'a> = &'a dyn Fn(Key) -> Option<IpAddr>;

/// The edge role of one I/O thread: seven owners, and the settings that they share.
pub struct Edge {
    pub(crate) settings: Arc<Settings>,
    id: EdgeId,
    pub(crate) now: Now,
    pressure: Pressure,
    pub(crate) connections: connections::Connections,
    pub(crate) subscriptions: subscriptions::Subscriptions,
    outboxes: outbox::Outboxes,
    pub(crate) links: links::Links,
    pub(crate) access: access::Access,
    pub(crate) sessions: sessions::Sessions,
    pub(crate) mqtt: mqtt::MqttState,
    pub(crate) work: work::Work,
    journal: journal::Journal,
    pub(crate) statistics: EdgeStatistics,
    /// Outputs that the reactor takes after each turn.
    pub out: Outputs,
}

impl Edge {
    /// An edge without connections. `now` starts its clocks.
    pub fn new(settings: Arc<Settings>, id: EdgeId, now: Now) -> Edge {
        let homes = usize::from(settings.homes_count);
        let limits = &settings.limits;
        // A page goes into the ring at once: if it did not fit, its own end would drive its
        // beginning out for ever.
        let ring_bytes = limits.ring_bytes.max(limits.page_bytes.saturating_mul(RING_PAGES_MIN));
        Edge {
            id,
            now,
            pressure: Pressure::None,
            connections: connections::Connections::new(limits, now),
            subscriptions: subscriptions::Subscriptions::new(homes),
            outboxes: outbox::Outboxes::new(ring_bytes as usize),
            links: links::Links::new(homes, settings.logs.len()),
            access: access::Access::new(),
            sessions: sessions::Sessions::default(),
            mqtt: mqtt::MqttState::default(),
            work: work::Work::default(),
            journal: journal::Journal::new(&settings),
            statistics: EdgeStatistics::default(),
            out: Outputs {
                requests: (0..homes).map(|_| Vec::new()).collect(),
                ..Outputs::default()
            },
            settings,
        }
    }

    /// Applies renewed settings from now on ([`Settings::renewed`]). Connections, subscriptions and
    /// their policies stay; a connection that waits for room or for a deadline gets the new bounds
    /// when it is next examined.
    pub fn set_settings(&mut self, settings: Arc<Settings>) {
        self.work.compression.release_compressor();
        self.connections.rates.renew(&settings.limits);
        self.settings = settings;
        self.renew_journal();
        // The credit may be less than a portion by the old bound and a portion by the new: a home
        // without credit would wait for it for ever.
        for home in self.settings.homes() {
            self.give_credit(home, 0);
        }
    }

    /// Starts the 32-bit counters of an edge without connections at this value. Tests and simulated
    /// worlds need it: a real edge takes years to reach the end of its counters.
    pub fn begin_counters_at(&mut self, value: u32) {
        self.subscriptions.begin_counters_at(value);
        self.links.begin_at(value);
        self.outboxes.begin_at(value);
    }

    /// The current settings.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Begins a turn: sets the time, handles deadlines, resumes buffered input.
    pub fn turn(&mut self, now: Now) {
        self.now = now;
        self.renew_compression();
        self.renew_work();
        self.expire();
        self.finish_takeovers();
        self.connections.begin_turn();
        self.continue_resumed();
        self.send_some_positions();
        self.drain_some();
    }

    /// Whether another turn is due at once.
    pub fn has_more(&self) -> bool {
        self.connections.has_resumed()
            || !self.outboxes.dirty().is_empty()
            || self.subscriptions.have_losses()
            || self.has_more_to_drain()
            || self.mqtt.has_takeovers()
            || self.may_wake_readers()
            || self.access.has_work()
    }

    /// A peer has connected from this address.
    pub fn accepted(&mut self, key: Key, peer: IpAddr) {
        self.connections.open(key, peer, &self.settings, self.now);
        self.statistics.accepted += 1;
    }

    /// A connection that has just been accepted came by TLS.
    pub fn came_by_tls(&mut self, key: Key) {
        self.connections.slots[ConnIndex(key.index)].set(flag::ENCRYPTED);
    }

    /// A certificate has proved the name of a connection's client, until this second since 1970.
    pub fn certified(&mut self, key: Key, user: &str, expires_s: u64) {
        if self.settings.entitlement.is_some() && self.connections.slots.get(key).is_some() {
            let credential = certificate_credential(user, expires_s).into();
            self.access.certificates.insert(ConnIndex(key.index), credential);
        }
    }

    /// The network has lost the connection.
    pub fn lost(&mut self, key: Key) {
        self.finish_input(key);
        if self.connections.slots.get(key).is_some() {
            self.release(ConnIndex(key.index));
        }
    }

    /// The peer's host stopped acknowledging: it has vanished, or is cut off.
    pub fn vanished(&mut self, key: Key) {
        if self.connections.slots.get(key).is_some() {
            self.statistics.unacknowledged += 1;
            self.note_end(ConnIndex(key.index), End::VANISHED);
        }
        self.lost(key);
    }

    /// A letter from a home, in the order of that home's mailbox.
    pub fn handle(&mut self, home: HomeId, letter: ToEdge) {
        let cost = letter.cost();
        if self.subscriptions.have_losses() && !matches!(letter, ToEdge::StreamGap { .. }) {
            self.leave_lost_streams();
        }
        match letter {
            ToEdge::Granted(grant) => self.granted(home, grant),
            ToEdge::Refused { subscription, code } => self.refused_by_home(subscription, code),
            ToEdge::FilterGranted { subscription, result } => {
                self.filter_granted(home, subscription, result)
            }
            ToEdge::FilterPage(page) => self.filter_page(&page),
            ToEdge::Announce { index, partition, topic } => {
                self.subscriptions.announce(home, TopicIndex(index), partition, &topic);
            }
            ToEdge::Message { index, record } => self.deliver(home, TopicIndex(index), &record),
            ToEdge::RetainedFound(found) => self.retained_found(home, &found),
            ToEdge::RecordFound(found) => self.record_found(found),
            ToEdge::SessionsSleep(do_sleep) => self.mqtt.note_sleepers(home, do_sleep),
            ToEdge::Claimed { name, connection, result } => {
                self.claimed(&name, connection, result);
            }
            ToEdge::TakenOver { connection, is_clean } => {
                self.mqtt.put_takeover(connection, is_clean);
            }
            ToEdge::WillLeft { connection, will } => self.will_left(connection, *will),
            ToEdge::Group(letter) => self.group_letter(letter),
            ToEdge::Released { index } => self.released(home, TopicIndex(index)),
            ToEdge::Page(page) => self.page(page),
            ToEdge::StreamGap { partition, from, .. } => self.stream_gap(home, partition, from),
            ToEdge::Epoch { partition, epoch } => self.links.epochs.set(partition, epoch),
            ToEdge::Restarted { partition, epoch } => self.partition_restarted(partition, epoch),
            ToEdge::History { reply, result } => self.history_answered(reply, result),
            ToEdge::Published { reply, result } => self.publish_answered(reply, result),
            ToEdge::Described(description) => self.described(home, &description),
            ToEdge::Positions { positions } => self.positions_are(home, &positions),
            ToEdge::Consumed { class, requests, bytes } => {
                self.consumed(home, class, requests, bytes)
            }
            ToEdge::Stalled { log, is_stalled } => self.log_stalled(home, log, is_stalled),
        }
        if self.access.renewals.have_settled() {
            self.continue_renewals();
        }
        if cost > 0 {
            self.give_credit(home, cost);
        }
    }

    /// Connections now.
    pub fn connections_count(&self) -> u32 {
        self.connections.slots.count()
    }

    /// Counters and gauges.
    pub fn statistics(&self) -> EdgeStatistics {
        EdgeStatistics {
            connections: u64::from(self.connections.slots.count()),
            subscriptions: self.subscriptions.count() as u64,
            filters: self.subscriptions.filters_count() as u64,
            pinned_bytes: self.outboxes.pinned_bytes(),
            ring_segment_bytes: self.outboxes.ring_segment_bytes() as u64,
            buffered_bytes: self.connections.buffered.bytes(),
            entitlements: self.access.entitlements.len() as u64,
            long_polls: self.sessions.polls_count(),
            ..self.statistics
        }
    }

    /// Messages handed to connections as they came, and not from a log.
    pub fn delivered_live(&self) -> u64 {
        self.statistics.delivered - self.statistics.replayed
    }

    /// The number by which the node knows the connection.
    pub(crate) fn connection_number(&self, index: ConnIndex) -> u64 {
        let generation = u64::from(self.connections.slots[index].generation);
        u64::from(self.id.0) << 48 | (generation & 0xff_ffff) << 24 | u64::from(index.0 & 0xff_ffff)
    }
}

/// Letters that [`Edge::look_ahead`] looks at, at most.
pub const LETTERS_AHEAD: usize = 64;
/// Pages that the ring has room for at least; events in JSON are up to six times as long as their
/// payloads.
const RING_PAGES_MIN: u32 = 8;
