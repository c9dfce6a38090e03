//! Clients of MQTT by their names: which connection has a name, and the sessions that sleep.
//!
//! Beside the path. The home of a client's name is its registrar (the partition of the topic
//! `$mqtt/s/NAME` says which home). One name has at most one connection: a later one takes it over
//! (MQTT 5.0, [MQTT-3.1.4-3]). A session that outlives its connection comes here, and goes to the
//! edge of the next one.
//!
//! Invariants: a name is known while a connection has it or a session sleeps; a connection gets a
//! name only when the one before has left, so that a session is in one place; every connection that
//! has got a name leaves once, also if it ended before it heard of that.

use super::Home;
use super::registry::{Client, Holder, Registry};
use super::sessions::session_kept;
use super::turn::Turn;
use crate::mail::{
    AsleepInGroups, Claim, Code, EdgeId, GroupLetter, Leave, SleepingSession, ToEdge, Will,
};
use std::collections::{BTreeMap, BTreeSet};
use stdx::chunk::Slice;
use stdx::handing::Hand;
use stdx::hash::{Seed, keyed};
use stdx::key::Key;
use stdx::memory::tree_bytes;

/// The connection of a session that a start has found, at an edge that does not exist.
const NO_CONNECTION: Key = Key { index: u32::MAX, generation: 0 };

/// The edge that publishes the wills of connections which have ended without theirs.
pub(super) const WILLS_EDGE: EdgeId = EdgeId(0);

/// The edge that has groups wait for sessions that have slept over a start.
const GROUPS_EDGE: EdgeId = EdgeId(0);

/// See the module.
#[derive(Debug, Hand)]
pub(super) struct Clients {
    known: Registry,
    /// The connections that take names over when their holders have left.
    waiting: BTreeMap<u32, Waiting>,
    /// The ends of sleeping sessions, in milliseconds since 1970.
    expiring: BTreeSet<(u64, u32)>,
    /// Bytes of sleeping sessions.
    bytes: usize,
    sleeping: u64,
    /// Whether edges know that sessions sleep here.
    are_told: bool,
    /// Restored sessions whose clients were connected.
    awake: Vec<Box<[u8]>>,
    /// Restored sessions that are in groups.
    in_groups: Vec<Box<[u8]>>,
    /// Names whose sessions are in the log.
    kept: BTreeSet<Box<[u8]>>,
    /// The number of the newest will of a connection that has ended without its edge.
    wills: u32,
}

/// See [`Clients::waiting`].
#[derive(Debug, Hand)]
struct Waiting {
    holder: Holder,
    is_clean: bool,
}

impl Clients {
    /// No clients. `seed` is secret: clients choose their names.
    pub fn new(seed: Seed) -> Clients {
        Clients {
            known: Registry::new(seed),
            waiting: BTreeMap::new(),
            expiring: BTreeSet::new(),
            bytes: 0,
            sleeping: 0,
            are_told: false,
            awake: Vec::new(),
            in_groups: Vec::new(),
            kept: BTreeSet::new(),
            wills: 0,
        }
    }

    /// Sleeping sessions now.
    pub fn sleeping(&self) -> u64 {
        self.sleeping
    }

    /// About how many bytes names and sessions take.
    pub fn memory_bytes(&self) -> usize {
        self.bytes
            + self.known.memory_bytes()
            + tree_bytes(self.waiting.len(), size_of::<(u32, Waiting)>())
            + tree_bytes(self.expiring.len(), size_of::<(u64, u32)>())
    }

    /// Takes the next session away whose time is over; its name.
    fn next_ended(&mut self, now_ms: u64) -> Option<Box<[u8]>> {
        let &(expires_ms, place) = self.expiring.first()?;
        if expires_ms > now_ms {
            return None;
        }
        let name = self.known.name(place).into();
        self.remove(place);
        Some(name)
    }

    /// A start has found a session.
    pub fn restore(&mut self, name: &[u8], session: SleepingSession) {
        if session.is_awake {
            self.awake.push(name.into());
        }
        if session.subscriptions.iter().any(|it| it.group().is_some()) {
            self.in_groups.push(name.into());
        }
        self.kept.insert(name.into());
        let holder = Holder { edge: EdgeId(u16::MAX), connection: NO_CONNECTION };
        let (user, session) = (session.user, Some(Box::new(session)));
        if let Some(place) = self.known.find(name) {
            self.remove(place);
        }
        self.insert(name, Client { holder, user, session });
    }

    /// The clients of these sessions were connected when the node ended: their time begins now.
    fn begin_restored(&mut self, now_ms: u64) {
        for name in std::mem::take(&mut self.awake) {
            let place = self.known.find(&name);
            if let Some((mut client, _)) = place.and_then(|place| self.remove(place)) {
                if let Some(session) = &mut client.session {
                    session.expires_ms = match session.expiry_s {
                        u32::MAX => u64::MAX,
                        expiry_s => now_ms.saturating_add(u64::from(expiry_s) * 1_000),
                    };
                }
                self.insert(&name, client);
            }
        }
    }

    /// The restored sessions that are in groups, with the places that they know.
    fn take_in_groups(&mut self) -> Vec<AsleepInGroups> {
        let mut all = Vec::new();
        for name in std::mem::take(&mut self.in_groups) {
            let place = self.known.find(&name);
            let Some((client, _)) = place.and_then(|place| self.remove(place)) else {
                continue;
            };
            if let Some(session) = &client.session {
                let groups = session.subscriptions.iter();
                let groups = groups.filter_map(|it| Some((it.group()?, session.cursors_of(it))));
                let (client, until_ms) = (keyed(Seed(0, 0), &name), session.expires_ms);
                all.push(AsleepInGroups { client, until_ms, groups: groups.collect() });
            }
            self.insert(&name, client);
        }
        all
    }

    /// Takes a client away, with its session if that sleeps, and the connection that waits for its
    /// name.
    fn remove(&mut self, place: u32) -> Option<(Client, Option<Waiting>)> {
        let client = self.known.remove(place)?;
        if let Some(session) = &client.session {
            self.sleeping -= 1;
            self.bytes -= session.memory_bytes();
            self.expiring.remove(&(session.expires_ms, place));
        }
        Some((client, self.waiting.remove(&place)))
    }

    /// Notes whether the log has the session of a name. False: that changes nothing, as there is
    /// none and was none.
    pub fn note_kept(&mut self, name: &[u8], is_kept: bool) -> bool {
        if is_kept {
            self.kept.insert(name.into());
            true
        } else {
            self.kept.remove(name)
        }
    }

    /// Whether the log has, or may have, the session of a name.
    pub fn is_kept(&self, name: &[u8]) -> bool {
        self.kept.contains(name)
    }

    /// The connection that has a name.
    pub fn holder_of(&self, name: &[u8]) -> Option<(EdgeId, Key)> {
        self.known.holder_of(name).map(|holder| (holder.edge, holder.connection))
    }

    fn insert(&mut self, name: &[u8], client: Client) {
        let sleeping = client.session.as_ref();
        let sleeping = sleeping.map(|session| (session.memory_bytes(), session.expires_ms));
        let Some(place) = self.known.insert(name, client) else {
            return;
        };
        if let Some((bytes, expires_ms)) = sleeping {
            self.sleeping += 1;
            self.bytes += bytes;
            if expires_ms < u64::MAX {
                self.expiring.insert((expires_ms, place));
            }
        }
    }
}

impl Home {
    /// Tells edges whether sessions sleep here, if that is new.
    pub(super) fn tell_of_sleepers(&mut self, turn: &mut Turn<'_>) {
        let do_sleep = self.clients.sleeping + self.shared.sleeping() > 0;
        if do_sleep != self.clients.are_told {
            self.clients.are_told = do_sleep;
            for edge in 0..self.interests.edges.len() {
                turn.out.post(EdgeId(edge as u16), ToEdge::SessionsSleep(do_sleep));
            }
        }
    }

    /// Has the will of a connection that has ended without its edge published, after its delay. Its
    /// name at the edge; that of no connection.
    pub(super) fn post_will(&mut self, will: Box<Will>, turn: &mut Turn<'_>) -> Key {
        self.clients.wills = self.clients.wills.wrapping_add(1);
        let index = u32::MAX - 1 - u32::from(self.id.0);
        let connection = Key { index, generation: self.clients.wills };
        turn.out.post(WILLS_EDGE, ToEdge::WillLeft { connection, will });
        connection
    }

    /// Ends the sessions whose time is over.
    pub(super) fn end_sessions(&mut self, turn: &mut Turn<'_>) {
        if !self.clients.awake.is_empty() {
            self.clients.begin_restored(turn.now_ms);
        }
        if !self.clients.in_groups.is_empty() {
            for asleep in self.clients.take_in_groups() {
                let letter = GroupLetter::Asleep(Box::new(asleep));
                turn.out.post(GROUPS_EDGE, ToEdge::Group(letter));
            }
        }
        while let Some(name) = self.clients.next_ended(turn.now_ms) {
            self.keep_session(&name, None, None, turn);
        }
        self.look_at_shared(turn);
    }

    /// Keeps the session of a connection that has its name.
    pub(super) fn keep_if_held(&mut self, edge: EdgeId, kept: &Leave, turn: &mut Turn<'_>) {
        if self.keep_shared(edge, kept, turn) {
            return;
        }
        let holder = Holder { edge, connection: kept.connection };
        let asker = kept.is_answered.then_some((edge, kept.connection));
        if self.clients.known.holder_of(&kept.name) == Some(holder) {
            self.keep_session(&kept.name, kept.session.as_deref(), asker, turn);
        } else {
            session_kept(asker, turn);
        }
    }

    /// A client takes its name. If a connection has it, that one leaves first.
    pub(super) fn claim(&mut self, edge: EdgeId, claim: Claim, turn: &mut Turn<'_>) {
        self.end_sessions(turn);
        if self.claim_shared(edge, &claim, turn) {
            return;
        }
        let Claim { name, user, connection, is_clean, .. } = claim;
        let holder = Holder { edge, connection };
        let known = self.clients.known.find(&name);
        let known = known.and_then(|place| Some((place, self.clients.known.at(place)?)));
        let Some((place, (known_user, known_holder, is_asleep))) = known else {
            self.clients.insert(&name, Client { holder, user, session: None });
            return turn.out.post(edge, ToEdge::Claimed { name, connection, result: Ok(None) });
        };
        if known_user != user {
            let result = Err(Code::Forbidden);
            return turn.out.post(edge, ToEdge::Claimed { name, connection, result });
        }
        if !is_asleep {
            let waiting = self.clients.waiting.insert(place, Waiting { holder, is_clean });
            let loser = waiting.map_or(known_holder, |waiting| waiting.holder);
            let letter = ToEdge::TakenOver { connection: loser.connection, is_clean };
            return turn.out.post(loser.edge, letter);
        }
        let Some((before, _)) = self.clients.remove(place) else {
            return;
        };
        // The edge has the old session removed from its log, and waits for that before CONNACK.
        if is_clean {
            let asleep = before.session.iter().flat_map(|session| &session.subscriptions);
            let groups: Vec<Slice> = asleep.filter_map(|it| it.group()).collect();
            if !groups.is_empty() {
                let client = keyed(Seed(0, 0), &name);
                turn.out.post(edge, ToEdge::Group(GroupLetter::Ended { client, groups }));
            }
        }
        // Its edge may still have the will of the session.
        let letter = ToEdge::TakenOver { connection: before.holder.connection, is_clean };
        if before.holder.edge != EdgeId(u16::MAX) {
            turn.out.post(before.holder.edge, letter);
        }
        let session = before.session.filter(|_| !is_clean);
        self.clients.insert(&name, Client { holder, user, session: None });
        turn.out.post(edge, ToEdge::Claimed { name, connection, result: Ok(session) });
    }

    /// A connection gives its name back.
    pub(super) fn leave(&mut self, edge: EdgeId, leave: Leave, turn: &mut Turn<'_>) {
        if self.leave_shared(edge, &leave, turn) {
            return;
        }
        let Leave { name, connection, session, is_answered } = leave;
        let asker = is_answered.then_some((edge, connection));
        let leaving = Holder { edge, connection };
        let is_holder = self.clients.known.holder_of(&name) == Some(leaving);
        let place = self.clients.known.find(&name).filter(|_| is_holder);
        let client = place.and_then(|place| self.clients.remove(place));
        let Some((Client { user, .. }, waiting)) = client else {
            return session_kept(asker, turn);
        };
        let session = session.filter(|session| session.expires_ms > turn.now_ms);
        // The edge of the next connection has the end of a session written.
        if session.is_some() || waiting.is_none() {
            self.keep_session(&name, session.as_deref(), asker, turn);
        } else {
            session_kept(asker, turn);
        }
        match waiting {
            Some(waiting) => {
                let Waiting { holder, is_clean } = waiting;
                let session = session.filter(|_| !is_clean);
                self.clients.insert(&name, Client { holder, user, session: None });
                let (connection, result) = (holder.connection, Ok(session));
                let letter = ToEdge::Claimed { name, connection, result };
                turn.out.post(holder.edge, letter);
            }
            None if session.is_some() => {
                let client = Client { holder: leaving, user, session };
                self.clients.insert(&name, client);
            }
            None => {}
        }
    }
}
