//! Names of MQTT's clients that the nodes of a cluster share: one connection has a name, on
//! whichever node it is, and a session continues on any of them.
//!
//! Beside the path. Where the topic `$mqtt/s/NAME` is in a compacted topic of the engine, a client
//! takes its name by a record there, and its session is a record there. All nodes read these
//! records in one order, so all know the name's holder ([`entry`]). The home of the former holder
//! lets its connection leave, which writes the last session; the home of the new one waits for
//! that. After [`LEAVING_MS`] it writes that it waits no longer, and goes by the newest session
//! before that record.
//!
//! A session that ends with its connection does not last. Its name is taken as in any other log
//! (`home::clients`), on its node only, unless the log knows the name: each such connection would
//! cost writes to the engine otherwise. A record of a claim ends such a connection, too.
//!
//! Invariants:
//!
//! - a connection gets a shared name only when its home has read the record of its claim.
//! - a session that a holder has been told is written counts, unless the holder has lost the name.
//! - the newest record of a name counts, or the home of the name's last holder writes it again. So
//!   compaction leaves what nodes know.
//! - a connection that has got a name leaves once (`home::clients`); its last session is written
//!   again until the tail brings it.

mod entry;
mod losses;
mod names;

pub(super) use names::Shared;

use super::Home;
use super::sessions::session_kept;
use super::turn::Turn;
use super::work::Caller;
use crate::engine::TailRecord;
use crate::mail::{
    Claim, Code, EdgeId, GroupLetter, Leave, Publication, Publish, Reply, RequestClass,
    SleepingSession, ToEdge, Will,
};
use crate::sys;
use crate::topic::NAME_BYTES_MAX;
use entry::{ClaimId, Entry, Reading, SessionRecord, Step, entry_behind};
use names::{LastSession, Own, Phase, groups_of};
use stdx::chunk::Slice;
use stdx::hash::{Seed, keyed};
use stdx::key::Key;

/// A new holder waits so long for the last session of the one before, in milliseconds.
const LEAVING_MS: u64 = 2_000;
/// A claim whose record has not come after this time is refused, in milliseconds.
const CLAIM_MS: u64 = 10_000;
/// The record of a refused claim is expected so long, in milliseconds.
const VOID_MS: u64 = 300_000;
/// A last session whose record has not come is written again after this time, in milliseconds.
const AGAIN_MS: u64 = 5_000;
/// The node that had a session last writes its end at once. The other nodes write it between this
/// time and twice this time later, in milliseconds.
const OTHERS_MS: u64 = 60_000;

/// The writer of a record.
#[derive(Clone, Copy)]
struct Writer {
    /// This home has written it.
    is_here: bool,
    /// It is about a claim of this home.
    is_own: bool,
    /// Compaction has left all records of the name before it.
    is_live: bool,
}

/// A part of a name's entry before a record.
struct Former {
    groups: Vec<Slice>,
    will: Option<Will>,
}

impl Former {
    fn of(entry: Option<&Entry>) -> Former {
        let groups = entry.map(groups_of).unwrap_or_default();
        Former { groups, will: entry.and_then(Entry::will_now) }
    }
}

impl Home {
    /// The home's number of the partition that has a client's name, if nodes share it.
    fn shared_partition(&self, name: &[u8]) -> Option<u32> {
        let topic = sys::session_topic(name);
        let (_, partition) = self.settings.locate(&topic);
        let is_shared = self.settings.log_of(partition).retains_newest();
        self.local(partition).filter(|_| is_shared && topic.len() <= NAME_BYTES_MAX)
    }

    pub(super) fn run_of(&self, local: u32) -> u64 {
        self.partitions[local as usize].engine.as_deref().map_or(0, |engine| engine.run())
    }

    /// A client takes a name that nodes share. False: they do not share it.
    pub(super) fn claim_shared(
        &mut self,
        edge: EdgeId,
        claim: &Claim,
        turn: &mut Turn<'_>,
    ) -> bool {
        let name = &claim.name[..];
        let Some(local) = self.shared_partition(name) else {
            return false;
        };
        let shared = &self.shared;
        let is_known = shared.known.contains_key(name) || shared.own.contains_key(name);
        if !claim.lasts && !is_known && shared.complete.contains(&local) {
            return false;
        }
        let refused = match self.shared.entry(name) {
            Some(entry) if entry.user != claim.user && !entry.is_over(turn.now_ms) => {
                Some(Code::Forbidden)
            }
            _ if self.is_closed(local) => Some(Code::LogUnavailable),
            Some(_) | None => None,
        };
        if let Some(code) = refused {
            let (name, connection) = (claim.name.clone(), claim.connection);
            turn.out.post(edge, ToEdge::Claimed { name, connection, result: Err(code) });
            return true;
        }
        self.shared.claims += 1;
        let id = ClaimId { run: self.run_of(local), number: self.shared.claims };
        let Claim { user, connection, is_clean, .. } = *claim;
        let due_ms = self.elapsed.ms + CLAIM_MS;
        let own = Own { id, edge, connection, user, phase: Phase::Claiming(due_ms) };
        self.shared.own.entry(name.into()).or_default().push(own);
        self.shared.due.insert((due_ms, name.into()));
        let session = self.shared.entry(name).and_then(|entry| entry.session.clone());
        self.write_shared(name, (id, user), Step::Claim { is_clean }, session, None, turn);
        true
    }

    pub(super) fn is_closed(&self, local: u32) -> bool {
        self.partitions[local as usize].engine.as_deref().is_none_or(|engine| engine.is_closed())
    }

    /// Keeps the session of a connection that has a shared name. False: nodes do not share it.
    pub(super) fn keep_shared(&mut self, edge: EdgeId, kept: &Leave, turn: &mut Turn<'_>) -> bool {
        let name = &kept.name[..];
        let Some(own) = self.shared.own(name, edge, kept.connection) else {
            return false;
        };
        let asker = kept.is_answered.then_some((edge, kept.connection));
        let (id, user) = (own.id, own.user);
        let step = match own.phase {
            Phase::Held => Step::Kept,
            Phase::Lost(_) => Step::Again,
            Phase::Claiming(_)
            | Phase::Void(_)
            | Phase::Waiting(_)
            | Phase::Leaving(_)
            | Phase::Asleep => {
                session_kept(asker, turn);
                return true;
            }
        };
        // One that has lost the name counts until the new holder has written.
        self.write_shared(name, (id, user), step, kept.session.clone(), asker, turn);
        true
    }

    /// A connection gives a shared name back. False: nodes do not share it.
    pub(super) fn leave_shared(
        &mut self,
        edge: EdgeId,
        leave: &Leave,
        turn: &mut Turn<'_>,
    ) -> bool {
        let name = &leave.name[..];
        let Some(own) = self.shared.own(name, edge, leave.connection) else {
            return false;
        };
        let asker = leave.is_answered.then_some((edge, leave.connection));
        let (id, user) = (own.id, own.user);
        if !matches!(own.phase, Phase::Held | Phase::Lost(_)) {
            session_kept(asker, turn);
            return true;
        }
        let is_lost = matches!(own.phase, Phase::Lost(_));
        let step = if is_lost { Step::Again } else { Step::Left };
        let session = leave.session.clone().filter(|session| session.expires_ms > turn.now_ms);
        let again_ms = self.elapsed.ms + AGAIN_MS;
        if let Some(own) = self.shared.own_mut(name, id) {
            let session = session.clone();
            own.phase = Phase::Leaving(LastSession { session, is_lost, again_ms });
        }
        self.shared.due.insert((again_ms, name.into()));
        self.write_shared(name, (id, user), step, session, asker, turn);
        true
    }

    /// Writes a record of a name. The asker gets an answer when the log has it.
    fn write_shared(
        &mut self,
        name: &[u8],
        (by, user): (ClaimId, u64),
        step: Step,
        session: Option<Box<SleepingSession>>,
        asker: Option<(EdgeId, Key)>,
        turn: &mut Turn<'_>,
    ) {
        let node = self.settings.node_name.as_str().into();
        let record = SessionRecord { by, user, node, step, session };
        self.publish_name(name, &record.encode(), asker, turn);
    }

    fn publish_name(
        &mut self,
        name: &[u8],
        payload: &[u8],
        asker: Option<(EdgeId, Key)>,
        turn: &mut Turn<'_>,
    ) {
        let topic = sys::session_topic(name);
        let (rule, partition) = self.settings.locate(&topic);
        let publication = Publication {
            topic: Slice::copy_of(topic.as_bytes()),
            payload: Slice::copy_of(payload),
            retain: true,
            ..Publication::default()
        };
        let from = Caller {
            edge: asker.map_or(EdgeId(0), |(edge, _)| edge),
            cost: 0,
            class: RequestClass::Memory,
            is_consumed: true,
            has_waited: false,
        };
        let reply = asker.map(|(_, connection)| Reply { connection, request: Reply::SESSION_KEPT });
        self.publish(from, &Publish { partition, rule, reply, publication }, turn);
    }

    /// A record of the tail, accepted as on all nodes: perhaps it is one of a name.
    pub(super) fn read_shared(
        &mut self,
        local: u32,
        record: &TailRecord,
        may_lack: bool,
        turn: &mut Turn<'_>,
    ) {
        let publication = &record.publication;
        let name = std::str::from_utf8(&publication.topic).ok().and_then(sys::name_of_session);
        let Some(name) = name else {
            return;
        };
        let name = name.as_bytes();
        let read = SessionRecord::decode(&publication.payload);
        if read.is_none() && !publication.payload.is_empty() {
            return;
        }
        let run = self.run_of(local);
        let before = self.shared.take_entry(name);
        let (former, last) = (Former::of(before.as_ref()), before.as_ref().map(|it| it.last));
        let (step, by) = (read.as_ref().map(|read| read.step), read.as_ref().map(|read| read.by));
        let reading = Reading { time_ms: record.time_ms, may_lack };
        let (entry, counts) = entry_behind(before, read, reading);
        let expires_ms = entry.as_ref().and_then(Entry::expires_ms);
        if let Some(entry) = entry {
            self.shared.put_entry(name, local, entry);
        }
        let is_own = |id: Option<ClaimId>| id.is_some_and(|id| id.run == run);
        if let Some(expires_ms) = expires_ms.filter(|_| counts) {
            let wait_ms = if is_own(by) { 0 } else { OTHERS_MS + run % OTHERS_MS };
            self.shared.expiring.insert((expires_ms.saturating_add(wait_ms), name.into()));
        }
        let writer = Writer {
            is_here: record.name.is_some_and(|name| name.run == run),
            is_own: is_own(by),
            is_live: !may_lack,
        };
        if !counts {
            self.not_counted(name, is_own(last), (by.filter(|_| writer.is_own), step), turn);
        } else if let (Some(step), Some(by)) = (step, by) {
            self.follow_step(name, (step, by), writer, former, turn);
        }
        if self.shared.entry(name).is_none() {
            self.shared.keep_own(name, |own| !matches!(own.phase, Phase::Asleep));
        }
        self.grant_waiting(name, turn);
    }

    /// Does what follows from a record that counts.
    fn follow_step(
        &mut self,
        name: &[u8],
        (step, by): (Step, ClaimId),
        writer: Writer,
        former: Former,
        turn: &mut Turn<'_>,
    ) {
        match step {
            Step::Claim { is_clean } => {
                self.name_claimed(name, by, is_clean, turn);
                if is_clean || !writer.is_own {
                    self.leave_groups_of(name, former.groups, turn);
                }
            }
            Step::Again => {
                self.drop_will(name, by, turn);
                self.settle_again(name, by, turn);
            }
            Step::Left => {
                self.settle_left(name, by);
                let is_of_gone = writer.is_here && !writer.is_own && writer.is_live;
                if let Some(will) = former.will.as_ref().filter(|_| is_of_gone) {
                    self.publish_will_of(name, by, will.clone(), turn);
                }
                self.assert_held(name, by, former.will, turn);
                // The end is written as a session that is not there, which other claims respect.
                // Then the name is removed.
                if writer.is_here && self.shared.entry(name).is_none() {
                    self.publish_name(name, &[], None, turn);
                }
            }
            Step::Kept | Step::Withdrawn | Step::Taken => {}
        }
    }

    /// A record does not count, and is the newest of its name: what counts is written again.
    fn not_counted(
        &mut self,
        name: &[u8],
        is_last_own: bool,
        (by, step): (Option<ClaimId>, Option<Step>),
        turn: &mut Turn<'_>,
    ) {
        if let (Some(by), Some(Step::Claim { .. })) = (by, step) {
            self.refuse_claim(name, by, Code::Forbidden, turn);
        }
        if let (Some(by), Some(Step::Left)) = (by, step) {
            self.settle_left(name, by);
        }
        if let (Some(by), Some(Step::Again)) = (by, step) {
            self.lose_name(name, by, turn);
        }
        let Some(entry) = self.shared.entry(name).filter(|_| is_last_own) else {
            return;
        };
        let (last, user, session) = (entry.last, entry.user, entry.session.clone());
        let step = match (entry.is_held, entry.leaving.is_empty()) {
            // As the claim that has not been followed by a session.
            (true, false) => Step::Claim { is_clean: entry.is_clean },
            (true, true) => Step::Kept,
            (false, _) => Step::Left,
        };
        self.write_shared(name, (last, user), step, session, None, turn);
    }

    /// A connection has taken the name: those of this node that had it lose it.
    fn name_claimed(&mut self, name: &[u8], by: ClaimId, is_clean: bool, turn: &mut Turn<'_>) {
        let mut losers = Vec::new();
        for own in self.shared.own.get(name).into_iter().flatten() {
            let is_loser = match own.phase {
                Phase::Claiming(_) | Phase::Void(_) => false,
                Phase::Waiting(_)
                | Phase::Held
                | Phase::Lost(_)
                | Phase::Leaving(_)
                | Phase::Asleep => true,
            };
            if is_loser && own.id != by {
                losers.push((own.edge, own.connection));
            }
        }
        losers.extend(self.clients.holder_of(name));
        for (edge, connection) in losers {
            turn.out.post(edge, ToEdge::TakenOver { connection, is_clean });
        }
        let owns = self.shared.own.get(name).into_iter().flatten();
        let withdrawn: Vec<(ClaimId, u64)> = owns
            .filter(|own| own.id != by && matches!(own.phase, Phase::Waiting(_)))
            .map(|own| (own.id, own.user))
            .collect();
        self.shared.keep_own(name, |own| {
            own.id == by || !matches!(own.phase, Phase::Waiting(_) | Phase::Asleep)
        });
        for loser in withdrawn {
            self.write_shared(name, loser, Step::Withdrawn, None, None, turn);
        }
        let until_ms = self.elapsed.ms + LEAVING_MS;
        let Some(own) = self.shared.own_mut(name, by) else {
            return;
        };
        match own.phase {
            Phase::Claiming(_) => {
                own.phase = Phase::Waiting(until_ms);
                self.shared.due.insert((until_ms, name.into()));
            }
            Phase::Void(_) => {
                let id = own.id;
                self.give_void_back(name, id, turn);
            }
            Phase::Waiting(_)
            | Phase::Held
            | Phase::Lost(_)
            | Phase::Leaving(_)
            | Phase::Asleep => {}
        }
    }

    /// The session of a name continues elsewhere, or ends: it leaves the groups that it has at this
    /// node.
    fn leave_groups_of(&self, name: &[u8], groups: Vec<Slice>, turn: &mut Turn<'_>) {
        if !groups.is_empty() {
            let client = keyed(Seed(0, 0), name);
            let letter = GroupLetter::Ended { client, groups };
            turn.out.post(EdgeId(0), ToEdge::Group(letter));
        }
    }

    fn refuse_claim(&mut self, name: &[u8], by: ClaimId, code: Code, turn: &mut Turn<'_>) {
        let Some(own) = self.shared.own_mut(name, by) else {
            return;
        };
        if let Phase::Claiming(_) | Phase::Waiting(_) = own.phase {
            let (name, connection) = (Slice::copy_of(name), own.connection);
            let letter = ToEdge::Claimed { name, connection, result: Err(code) };
            turn.out.post(own.edge, letter);
        }
        self.shared.keep_own(name, |own| own.id != by);
    }

    /// The claim of a connection that was refused has come: its name is free again.
    fn give_void_back(&mut self, name: &[u8], by: ClaimId, turn: &mut Turn<'_>) {
        let session = self.shared.entry(name).and_then(|entry| entry.session.clone());
        let session = session.filter(|session| session.expires_ms > turn.now_ms);
        let again_ms = self.elapsed.ms + AGAIN_MS;
        let Some(own) = self.shared.own_mut(name, by) else {
            return;
        };
        let last = LastSession { session: session.clone(), is_lost: false, again_ms };
        own.phase = Phase::Leaving(last);
        let user = own.user;
        self.shared.due.insert((again_ms, name.into()));
        self.write_shared(name, (by, user), Step::Left, session, None, turn);
    }

    /// The last session of a connection is in the log.
    fn settle_left(&mut self, name: &[u8], by: ClaimId) {
        let is_last = self.shared.entry(name).is_some_and(|entry| entry.last == by);
        let Some(own) = self.shared.own_mut(name, by) else {
            return;
        };
        if let Phase::Leaving(last) = &own.phase {
            let sleeps = last.session.is_some() && is_last;
            own.phase = Phase::Asleep;
            self.shared.keep_own(name, |own| sleeps || own.id != by);
        }
    }

    /// The connection that has a name gets it, if those before have left, or count no more.
    fn grant_waiting(&mut self, name: &[u8], turn: &mut Turn<'_>) {
        let Some(entry) = self.shared.entry(name) else {
            return;
        };
        let (last, have_left) = (entry.last, entry.leaving.is_empty());
        // One that does not last was written for its will.
        let session = entry.session.clone().filter(|it| !entry.is_clean && it.expiry_s > 0);
        let Some(own) = self.shared.own_mut(name, last) else {
            return;
        };
        if let Phase::Waiting(_) = own.phase
            && have_left
        {
            own.phase = Phase::Held;
            let (name, connection) = (Slice::copy_of(name), own.connection);
            turn.out.post(own.edge, ToEdge::Claimed { name, connection, result: Ok(session) });
        }
    }

    /// Looks at the names that are due, and ends the sessions whose time is over.
    pub(super) fn look_at_shared(&mut self, turn: &mut Turn<'_>) {
        while let Some(name) = self.shared.next_due(self.elapsed.ms) {
            let owns = self.shared.own.get(&name).into_iter().flatten();
            let ids: Vec<ClaimId> = owns.map(|own| own.id).collect();
            for id in ids {
                self.own_is_due(&name, id, turn);
            }
            let is_gone = |entry: &Entry| entry.is_held && self.shared.is_gone(&entry.node);
            if self.shared.entry(&name).is_some_and(is_gone) {
                self.put_to_sleep(&name, turn);
            }
        }
        while let Some(name) = self.shared.next_ended(turn.now_ms) {
            if self.shared.entry(&name).is_some_and(|entry| entry.is_over(turn.now_ms)) {
                self.publish_name(&name, &[], None, turn);
                self.shared.expiring.insert((turn.now_ms + OTHERS_MS, name));
            }
        }
    }

    fn own_is_due(&mut self, name: &[u8], id: ClaimId, turn: &mut Turn<'_>) {
        let now_ms = self.elapsed.ms;
        let Some(own) = self.shared.own_mut(name, id) else {
            return;
        };
        let user = own.user;
        match &mut own.phase {
            Phase::Claiming(until_ms) if *until_ms <= now_ms => {
                let until_ms = now_ms + VOID_MS;
                own.phase = Phase::Void(until_ms);
                self.shared.due.insert((until_ms, name.into()));
                let own = self.shared.own_mut(name, id).map(|own| (own.edge, own.connection));
                if let Some((edge, connection)) = own {
                    let name = Slice::copy_of(name);
                    let result = Err(Code::LogUnavailable);
                    turn.out.post(edge, ToEdge::Claimed { name, connection, result });
                }
            }
            Phase::Void(until_ms) if *until_ms <= now_ms => {
                self.shared.keep_own(name, |own| own.id != id);
            }
            Phase::Leaving(last) if last.again_ms <= now_ms => {
                last.again_ms = now_ms + AGAIN_MS;
                let (session, is_lost) = (last.session.clone(), last.is_lost);
                self.shared.due.insert((now_ms + AGAIN_MS, name.into()));
                // One that does not count settles it as well.
                let step = if is_lost { Step::Again } else { Step::Left };
                self.write_shared(name, (id, user), step, session, None, turn);
            }
            Phase::Waiting(until_ms) if *until_ms <= now_ms => {
                *until_ms = now_ms + LEAVING_MS;
                self.shared.due.insert((now_ms + LEAVING_MS, name.into()));
                self.write_shared(name, (id, user), Step::Taken, None, None, turn);
            }
            Phase::Claiming(_)
            | Phase::Void(_)
            | Phase::Waiting(_)
            | Phase::Leaving(_)
            | Phase::Held
            | Phase::Lost(_)
            | Phase::Asleep => {}
        }
    }
}
