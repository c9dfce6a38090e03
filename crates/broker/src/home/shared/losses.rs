//! Holders that are lost: with a part of the log, or with their nodes.
//!
//! A holder whose claim is lost with a part of the log takes its name again, with its session. The
//! sessions of a node that is gone are put to sleep by the others, or by the node's next start, and
//! the home that does so publishes their wills.

use super::super::Home;
use super::super::clients::WILLS_EDGE;
use super::super::turn::Turn;
use super::VOID_MS;
use super::entry::{ClaimId, Entry, Step};
use super::names::{Own, Phase};
use crate::mail::{Code, ToEdge, Will};
use crate::now::Now;
use std::collections::BTreeSet;
use stdx::chunk::Slice;
use stdx::hash::{Seed, keyed};

/// The sessions of a node that is gone sleep between this time and twice that, in milliseconds.
const GONE_MS: u64 = 5_000;
/// The will of a connection whose node is gone is published after this time at the earliest, in
/// seconds.
const WILL_S: u32 = 10;

impl Home {
    /// A partition begins anew: its names are read again. Holders whose claims are lost take them
    /// again when the tail has come to its head.
    pub(in crate::home) fn restart_shared(&mut self, local: u32, turn: &mut Turn<'_>) {
        self.shared.complete.remove(&local);
        let of_partition = self.shared.known.iter().filter(|(_, (of, _))| *of == local);
        let names: Vec<Box<[u8]>> = of_partition.map(|(name, _)| name.clone()).collect();
        for name in names {
            let entry = self.shared.take_entry(&name);
            let Some(Entry { last, session, .. }) = entry else {
                continue;
            };
            let until_ms = self.elapsed.ms + VOID_MS;
            let Some(own) = self.shared.own_mut(&name, last) else {
                continue;
            };
            match own.phase {
                Phase::Held => own.phase = Phase::Lost(session),
                Phase::Waiting(_) => {
                    let (edge, connection) = (own.edge, own.connection);
                    own.phase = Phase::Void(until_ms);
                    self.shared.due.insert((until_ms, name.clone()));
                    let name = Slice::copy_of(&name);
                    let result = Err(Code::LogUnavailable);
                    turn.out.post(edge, ToEdge::Claimed { name, connection, result });
                }
                Phase::Claiming(_)
                | Phase::Void(_)
                | Phase::Lost(_)
                | Phase::Leaving(_)
                | Phase::Asleep => {}
            }
        }
    }

    /// The tail of a partition has come to the head of its beginning.
    pub(in crate::home) fn complete_shared(&mut self, local: u32, turn: &mut Turn<'_>) {
        if !self.retains_newest(local) || !self.shared.complete.insert(local) {
            return;
        }
        let lost = |own: &&Own| matches!(own.phase, Phase::Lost(_));
        let own = self.shared.own.iter();
        let lost: Vec<(Box<[u8]>, ClaimId)> = own
            .flat_map(|(name, owns)| owns.iter().filter(lost).map(|own| (name.clone(), own.id)))
            .collect();
        for (name, id) in lost {
            if self.shared_partition(&name) == Some(local) {
                self.take_again(&name, id, turn);
            }
        }
        self.end_former_runs(local, turn);
        self.end_gone_nodes(|of| of == local);
    }

    /// A holder takes its name again, unless its claim is there, or another has the name.
    fn take_again(&mut self, name: &[u8], id: ClaimId, turn: &mut Turn<'_>) {
        let entry = self.shared.entry(name);
        let is_there = entry.is_some_and(|entry| entry.last == id && entry.is_held);
        let is_taken = entry.is_some_and(|entry| entry.is_held);
        let Some(own) = self.shared.own_mut(name, id) else {
            return;
        };
        match &own.phase {
            Phase::Lost(_) if is_there => own.phase = Phase::Held,
            Phase::Lost(_) if is_taken => self.lose_name(name, id, turn),
            Phase::Lost(session) => {
                let (session, user) = (session.clone(), own.user);
                self.write_shared(name, (id, user), Step::Again, session, None, turn);
            }
            Phase::Claiming(_)
            | Phase::Void(_)
            | Phase::Waiting(_)
            | Phase::Held
            | Phase::Leaving(_)
            | Phase::Asleep => {}
        }
    }

    /// The connections that this node had before its start have ended: their sessions sleep.
    fn end_former_runs(&mut self, local: u32, turn: &mut Turn<'_>) {
        let run = self.run_of(local);
        let node = &*self.settings.node_name;
        let is_former = |of: u32, entry: &Entry| {
            of == local && entry.is_held && &*entry.node == node && entry.last.run != run
        };
        let known = self.shared.known.iter();
        let former = known.filter(|(_, (of, entry))| is_former(*of, entry));
        let names: Vec<Box<[u8]>> = former.map(|(name, _)| name.clone()).collect();
        for name in names {
            self.put_to_sleep(&name, turn);
        }
    }

    /// The living nodes of the cluster, by name; among them is this one, or not.
    pub fn nodes_live(&mut self, now: Now, living: &[String]) {
        self.elapsed.advance(now);
        let mut living: BTreeSet<Box<str>> = living.iter().map(|it| it.as_str().into()).collect();
        living.insert(self.settings.node_name.as_str().into());
        let before = self.shared.living.take().unwrap_or_default();
        self.shared.left.extend(before);
        self.shared.left.retain(|name| !living.contains(name));
        self.shared.living = Some(living);
        self.groups.look_ms = 0;
        self.end_gone_nodes(|_| true);
    }

    /// Nodes have left the cluster, or report themselves no more: the sessions that they had sleep,
    /// and their wills are published. Each node looks at a name at another time, and the first one
    /// writes.
    fn end_gone_nodes(&mut self, is_concerned: impl Fn(u32) -> bool) {
        let is_gone = |local: u32, entry: &Entry| {
            is_concerned(local) && entry.is_held && self.shared.is_gone(&entry.node)
        };
        let held = self.shared.known.iter();
        let held = held.filter(|(_, (local, entry))| is_gone(*local, entry));
        let names: Vec<(Box<[u8]>, u32)> =
            held.map(|(name, (local, _))| (name.clone(), *local)).collect();
        for (name, local) in names {
            let seed = Seed(self.run_of(local), 0);
            let after_ms = GONE_MS + keyed(seed, &name) % GONE_MS;
            self.shared.due.insert((self.elapsed.ms + after_ms, name));
        }
    }

    /// Writes that the holder of a name has left, for its node.
    pub(super) fn put_to_sleep(&mut self, name: &[u8], turn: &mut Turn<'_>) {
        let Some(Entry { last, user, session, .. }) = self.shared.entry(name) else {
            return;
        };
        let (last, user) = (*last, *user);
        let session = session.clone().map(|mut session| {
            session.is_awake = false;
            session.will = None;
            session.expires_ms = match session.expiry_s {
                u32::MAX => u64::MAX,
                expiry_s => turn.now_ms.saturating_add(u64::from(expiry_s) * 1_000),
            };
            session
        });
        let session = session.filter(|session| session.expires_ms > turn.now_ms);
        self.write_shared(name, (last, user), Step::Left, session, None, turn);
    }

    /// A holder has its name again after a loss.
    pub(super) fn settle_again(&mut self, name: &[u8], by: ClaimId, turn: &mut Turn<'_>) {
        let Some(own) = self.shared.own_mut(name, by) else {
            return;
        };
        let (id, user) = (own.id, own.user);
        match &mut own.phase {
            Phase::Lost(_) => own.phase = Phase::Held,
            Phase::Leaving(last) => {
                last.is_lost = false;
                let session = last.session.clone();
                self.write_shared(name, (id, user), Step::Left, session, None, turn);
            }
            Phase::Claiming(_)
            | Phase::Void(_)
            | Phase::Waiting(_)
            | Phase::Held
            | Phase::Asleep => {}
        }
    }

    /// A holder has lost its name with a part of the log, and another has it.
    pub(super) fn lose_name(&mut self, name: &[u8], by: ClaimId, turn: &mut Turn<'_>) {
        let Some(own) = self.shared.own_mut(name, by) else {
            return;
        };
        match own.phase {
            Phase::Lost(_) => {
                own.phase = Phase::Held;
                let letter = ToEdge::TakenOver { connection: own.connection, is_clean: false };
                turn.out.post(own.edge, letter);
            }
            // Its last session does not count.
            Phase::Leaving(_) => self.shared.keep_own(name, |own| own.id != by),
            Phase::Claiming(_)
            | Phase::Void(_)
            | Phase::Waiting(_)
            | Phase::Held
            | Phase::Asleep => {}
        }
    }

    /// A connection that was taken for gone is not: its will is not published.
    pub(super) fn drop_will(&mut self, name: &[u8], by: ClaimId, turn: &mut Turn<'_>) {
        let Some(own) = self.shared.own_mut(name, by) else {
            return;
        };
        if let Phase::Asleep = own.phase {
            let letter = ToEdge::TakenOver { connection: own.connection, is_clean: false };
            turn.out.post(own.edge, letter);
            self.shared.keep_own(name, |own| own.id != by);
        }
    }

    /// Another node takes this one for gone, and it has the name's connection still.
    pub(super) fn assert_held(
        &mut self,
        name: &[u8],
        by: ClaimId,
        will: Option<Will>,
        turn: &mut Turn<'_>,
    ) {
        let mut session = self.shared.entry(name).and_then(|entry| entry.session.clone());
        if let Some(session) = &mut session {
            session.is_awake = true;
            session.will = will.map(Box::new);
        }
        let Some(own) = self.shared.own_mut(name, by) else {
            return;
        };
        if let Phase::Held = own.phase {
            let (id, user) = (own.id, own.user);
            own.phase = Phase::Lost(session.clone());
            self.write_shared(name, (id, user), Step::Again, session, None, turn);
        }
    }

    /// This home has put a session to sleep for a node that is gone, and publishes its will: other
    /// nodes have found the name asleep.
    pub(super) fn publish_will_of(
        &mut self,
        name: &[u8],
        by: ClaimId,
        mut will: Will,
        turn: &mut Turn<'_>,
    ) {
        will.delay_s = will.delay_s.max(WILL_S);
        let connection = self.post_will(Box::new(will), turn);
        let phase = Phase::Asleep;
        let own = Own { id: by, edge: WILLS_EDGE, connection, user: 0, phase };
        if self.shared.known.contains_key(name) {
            self.shared.own.entry(name.into()).or_default().push(own);
        }
    }
}
