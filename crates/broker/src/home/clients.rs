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
use super::sessions::session_kept;
use super::turn::Turn;
use crate::mail::{Claim, Code, EdgeId, GroupLetter, Leave, SleepingSession, ToEdge, Will};
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

/// See the module.
#[derive(Debug, Default, Hand)]
pub(super) struct Clients {
    known: BTreeMap<Box<[u8]>, Client>,
    /// The ends of sleeping sessions, in milliseconds since 1970.
    expiring: BTreeSet<(u64, Box<[u8]>)>,
    /// Bytes of names and sleeping sessions.
    bytes: usize,
    sleeping: u64,
    /// Whether edges know that sessions sleep here.
    are_told: bool,
    /// Restored sessions whose clients were connected.
    awake: Vec<Box<[u8]>>,
    /// Names whose sessions are in the log.
    kept: BTreeSet<Box<[u8]>>,
    /// The number of the newest will of a connection that has ended without its edge.
    wills: u32,
}

/// A connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
struct Holder {
    edge: EdgeId,
    connection: Key,
}

/// The connection of a client, or its last one and the session that sleeps.
#[derive(Debug, Hand)]
struct Client {
    holder: Holder,
    /// The user, as a hash: no other takes the name.
    user: u64,
    session: Option<Box<SleepingSession>>,
    /// The connection that takes the name over when the holder has left.
    waiting: Option<Box<Waiting>>,
}

/// See [`Client::waiting`].
#[derive(Debug, Hand)]
struct Waiting {
    holder: Holder,
    is_clean: bool,
}

impl Clients {
    /// Sleeping sessions now.
    pub fn sleeping(&self) -> u64 {
        self.sleeping
    }

    /// About how many bytes names and sessions take.
    pub fn memory_bytes(&self) -> usize {
        self.bytes
            + tree_bytes(self.known.len(), size_of::<(Box<[u8]>, Client)>())
            + tree_bytes(self.expiring.len(), size_of::<(u64, Box<[u8]>)>())
    }

    /// Takes the next session away whose time is over; its name.
    fn next_ended(&mut self, now_ms: u64) -> Option<Box<[u8]>> {
        let (expires_ms, _) = self.expiring.first()?;
        if *expires_ms > now_ms {
            return None;
        }
        let (_, name) = self.expiring.pop_first()?;
        self.remove(&name);
        Some(name)
    }

    /// A start has found a session.
    pub fn restore(&mut self, name: &[u8], session: SleepingSession) {
        if session.is_awake {
            self.awake.push(name.into());
        }
        self.kept.insert(name.into());
        let holder = Holder { edge: EdgeId(u16::MAX), connection: NO_CONNECTION };
        let (user, session) = (session.user, Some(Box::new(session)));
        self.remove(name);
        self.insert(name, Client { holder, user, session, waiting: None });
    }

    /// The clients of these sessions were connected when the node ended: their time begins now.
    fn begin_restored(&mut self, now_ms: u64) {
        for name in std::mem::take(&mut self.awake) {
            if let Some(mut client) = self.remove(&name) {
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

    /// Takes a client away, with its session if that sleeps.
    fn remove(&mut self, name: &[u8]) -> Option<Client> {
        let client = self.known.remove(name)?;
        self.bytes -= name.len();
        if let Some(session) = &client.session {
            self.sleeping -= 1;
            self.bytes -= session.memory_bytes();
            self.expiring.remove(&(session.expires_ms, name.into()));
        }
        Some(client)
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
        let client = self.known.get(name).filter(|client| client.session.is_none())?;
        Some((client.holder.edge, client.holder.connection))
    }

    fn insert(&mut self, name: &[u8], client: Client) {
        self.bytes += name.len();
        if let Some(session) = &client.session {
            self.sleeping += 1;
            self.bytes += session.memory_bytes();
            if session.expires_ms < u64::MAX {
                self.expiring.insert((session.expires_ms, name.into()));
            }
        }
        self.known.insert(name.into(), client);
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
        let client = self.clients.known.get(&kept.name[..]);
        let asker = kept.is_answered.then_some((edge, kept.connection));
        if client.is_some_and(|client| client.holder == holder && client.session.is_none()) {
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
        let Some(known) = self.clients.known.get_mut(&name[..]) else {
            self.clients.insert(&name, Client { holder, user, session: None, waiting: None });
            return turn.out.post(edge, ToEdge::Claimed { name, connection, result: Ok(None) });
        };
        if known.user != user {
            let result = Err(Code::Forbidden);
            return turn.out.post(edge, ToEdge::Claimed { name, connection, result });
        }
        if known.session.is_none() {
            let waiting = known.waiting.replace(Box::new(Waiting { holder, is_clean }));
            let loser = waiting.map_or(known.holder, |waiting| waiting.holder);
            let letter = ToEdge::TakenOver { connection: loser.connection, is_clean };
            return turn.out.post(loser.edge, letter);
        }
        let Some(before) = self.clients.remove(&name) else {
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
        self.clients.insert(&name, Client { holder, user, session: None, waiting: None });
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
        let client = self.clients.known.get(&name[..]);
        let is_holder =
            client.is_some_and(|client| client.holder == leaving && client.session.is_none());
        let client = if is_holder { self.clients.remove(&name) } else { None };
        let Some(Client { user, waiting, .. }) = client else {
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
                let Waiting { holder, is_clean } = *waiting;
                let session = session.filter(|_| !is_clean);
                self.clients.insert(&name, Client { holder, user, session: None, waiting: None });
                let (connection, result) = (holder.connection, Ok(session));
                let letter = ToEdge::Claimed { name, connection, result };
                turn.out.post(holder.edge, letter);
            }
            None if session.is_some() => {
                let client = Client { holder: leaving, user, session, waiting: None };
                self.clients.insert(&name, client);
            }
            None => {}
        }
    }
}
