//! Clients of MQTT by their names: which connection has a name, and the sessions that sleep.
//!
//! Beside the path. The home of a client's name is its registrar (the partition of the topic
//! `$mqtt/s/NAME` says which home). One name has at most one connection: a later one takes it over
//! (MQTT 5.0, [MQTT-3.1.4-3]). A session that outlives its connection comes here, and goes to the
//! edge of the next one.
//!
//! Invariants: a name is known while a connection has it or a session sleeps; a connection gets a
//! name only when the one before has left, so that a session is in one place; every connection that
//! has asked for a name leaves once.

use super::Home;
use super::turn::Turn;
use crate::mail::{Claim, Code, EdgeId, Leave, SleepingSession, ToEdge};
use std::collections::{BTreeMap, BTreeSet};
use stdx::handing::Hand;
use stdx::key::Key;
use stdx::memory::tree_bytes;

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

    /// Ends the sessions whose time is over.
    pub fn expire(&mut self, now_ms: u64) {
        while let Some((expires_ms, _)) = self.expiring.first()
            && *expires_ms <= now_ms
            && let Some((_, name)) = self.expiring.pop_first()
        {
            self.remove(&name);
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
        let do_sleep = self.clients.sleeping > 0;
        if do_sleep != self.clients.are_told {
            self.clients.are_told = do_sleep;
            for edge in 0..self.interests.edges.len() {
                turn.out.post(EdgeId(edge as u16), ToEdge::SessionsSleep(do_sleep));
            }
        }
    }

    /// A client takes its name. If a connection has it, that one leaves first.
    pub(super) fn claim(&mut self, edge: EdgeId, claim: Claim, turn: &mut Turn<'_>) {
        let Claim { name, user, connection, is_clean } = claim;
        self.clients.expire(turn.now_ms);
        let holder = Holder { edge, connection };
        let Some(known) = self.clients.known.get_mut(&name[..]) else {
            self.clients.insert(&name, Client { holder, user, session: None, waiting: None });
            return turn.out.post(edge, ToEdge::Claimed { connection, result: Ok(None) });
        };
        if known.user != user {
            let result = Err(Code::Forbidden);
            return turn.out.post(edge, ToEdge::Claimed { connection, result });
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
        // Its edge may still have the will of the session.
        let letter = ToEdge::TakenOver { connection: before.holder.connection, is_clean };
        turn.out.post(before.holder.edge, letter);
        let session = before.session.filter(|_| !is_clean);
        self.clients.insert(&name, Client { holder, user, session: None, waiting: None });
        turn.out.post(edge, ToEdge::Claimed { connection, result: Ok(session) });
    }

    /// A connection gives its name back, or does not wait for it any more.
    pub(super) fn leave(&mut self, edge: EdgeId, leave: Leave, turn: &mut Turn<'_>) {
        let Leave { name, connection, session } = leave;
        let leaving = Holder { edge, connection };
        let Some(client) = self.clients.known.get_mut(&name[..]) else {
            return;
        };
        if client.waiting.as_ref().is_some_and(|waiting| waiting.holder == leaving) {
            client.waiting = None;
            return;
        }
        if client.holder != leaving || client.session.is_some() {
            return;
        }
        let Some(Client { user, waiting, .. }) = self.clients.remove(&name) else {
            return;
        };
        let session = session.filter(|session| session.expires_ms > turn.now_ms);
        match waiting {
            Some(waiting) => {
                let Waiting { holder, is_clean } = *waiting;
                let session = session.filter(|_| !is_clean);
                self.clients.insert(&name, Client { holder, user, session: None, waiting: None });
                let letter = ToEdge::Claimed { connection: holder.connection, result: Ok(session) };
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
