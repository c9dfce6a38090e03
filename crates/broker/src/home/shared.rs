//! Names of MQTT's clients that the nodes of a cluster share: one connection has a name, on
//! whichever node it is, and a session continues on any of them.
//!
//! Beside the path. Where the topic `$mqtt/s/NAME` is in a compacted topic of the engine, a client
//! takes its name by a record there, and its session is a record there. All nodes read these
//! records in one order, so all know who has the name ([`entry`]). The home of the former holder
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

pub(super) mod entry;

use super::Home;
use super::clients::WILLS_EDGE;
use super::sessions::session_kept;
use super::turn::Turn;
use super::work::Caller;
use crate::engine::TailRecord;
use crate::mail::{
    Claim, Code, EdgeId, GroupLetter, Leave, Publication, Publish, Reply, RequestClass,
    SleepingSession, ToEdge, Will,
};
use crate::now::Now;
use crate::sys;
use crate::topic::NAME_BYTES_MAX;
use entry::{ClaimId, Entry, Reading, SessionRecord, Step, entry_behind};
use std::collections::{BTreeMap, BTreeSet};
use stdx::chunk::Slice;
use stdx::handing::Hand;
use stdx::hash::{Seed, keyed};
use stdx::key::Key;
use stdx::memory::tree_bytes;

/// A new holder waits so long for the last session of the one before, in milliseconds.
const LEAVING_MS: u64 = 2_000;
/// A claim whose record has not come after this time is refused, in milliseconds.
const CLAIM_MS: u64 = 10_000;
/// The record of a refused claim is expected so long, in milliseconds.
const VOID_MS: u64 = 300_000;
/// A last session whose record has not come is written again after this time, in milliseconds.
const AGAIN_MS: u64 = 5_000;
/// The sessions of a node that is gone sleep between this time and twice that, in milliseconds.
const GONE_MS: u64 = 5_000;
/// The will of a connection whose node is gone is published after this time at the earliest, in
/// seconds.
const WILL_S: u32 = 10;
/// The end of a session is written after its time is over: by the node that had it last at once,
/// by others between this time and twice that, in milliseconds.
const OTHERS_MS: u64 = 60_000;
/// The bytes of an entry beside its own.
const ENTRY_BYTES: usize = size_of::<(Box<[u8]>, Entry)>();

/// See the module.
#[derive(Debug, Default, Hand)]
pub(super) struct Shared {
    /// The names that the log has, each with the home's number of its partition.
    known: BTreeMap<Box<[u8]>, (u32, Entry)>,
    /// Connections of this node that have, had or want a shared name; by name, in the order in
    /// which they came.
    own: BTreeMap<Box<[u8]>, Vec<Own>>,
    /// When names are to be looked at, in milliseconds of the home's clock.
    due: BTreeSet<(u64, Box<[u8]>)>,
    /// When sleeping sessions end, in milliseconds since 1970.
    expiring: BTreeSet<(u64, Box<[u8]>)>,
    /// Partitions whose tail has come to the head of their beginning.
    complete: BTreeSet<u32>,
    /// Bytes of names and sessions.
    bytes: usize,
    sleeping: u64,
    /// The number of the newest claim.
    claims: u64,
    /// Nodes that have left the cluster: the holders that were there have ended.
    gone: BTreeSet<Box<str>>,
}

/// A connection of this node.
#[derive(Debug, Hand)]
struct Own {
    id: ClaimId,
    edge: EdgeId,
    connection: Key,
    user: u64,
    phase: Phase,
}

#[derive(Debug, Hand)]
enum Phase {
    /// Its claim is on its way. The time is that of the home's clock at which it is refused.
    Claiming(u64),
    /// Its claim was refused, and its record may still come until this time.
    Void(u64),
    /// It waits for the last sessions of holders before. From this time on, it takes the name.
    Waiting(u64),
    /// It has the name, or has lost it and has not left.
    Held,
    /// It has the name, and the record of its claim was lost with a part of the log. The session is
    /// the newest that the log had.
    Lost(Option<Box<SleepingSession>>),
    /// It has left with this session, which is written again at this time.
    Leaving(Option<Box<SleepingSession>>, u64),
    /// It has left, and its edge may have the will of its session.
    Asleep,
}

impl Shared {
    /// Sleeping sessions now, of all nodes.
    pub fn sleeping(&self) -> u64 {
        self.sleeping
    }

    /// About how many bytes names and sessions take.
    pub fn memory_bytes(&self) -> usize {
        self.bytes
            + self.known.len() * ENTRY_BYTES
            + tree_bytes(self.own.len(), size_of::<(Box<[u8]>, Vec<Own>)>() + size_of::<Own>())
            + tree_bytes(self.due.len(), size_of::<(u64, Box<[u8]>)>())
            + tree_bytes(self.expiring.len(), size_of::<(u64, Box<[u8]>)>())
    }

    /// The next time at which a name is to be looked at; milliseconds of the home's clock.
    pub fn next_ms(&self) -> Option<u64> {
        self.due.first().map(|(due_ms, _)| *due_ms)
    }

    fn entry(&self, name: &[u8]) -> Option<&Entry> {
        self.known.get(name).map(|(_, entry)| entry)
    }

    fn take_entry(&mut self, name: &[u8]) -> Option<Entry> {
        let (_, entry) = self.known.remove(name)?;
        self.bytes -= bytes_of(name, &entry);
        self.sleeping -= u64::from(!entry.is_held);
        Some(entry)
    }

    fn put_entry(&mut self, name: &[u8], local: u32, entry: Entry) {
        self.bytes += bytes_of(name, &entry);
        self.sleeping += u64::from(!entry.is_held);
        self.known.insert(name.into(), (local, entry));
    }

    fn own(&self, name: &[u8], edge: EdgeId, connection: Key) -> Option<&Own> {
        let owns = self.own.get(name)?.iter();
        owns.rev().find(|own| own.edge == edge && own.connection == connection)
    }

    fn own_mut(&mut self, name: &[u8], id: ClaimId) -> Option<&mut Own> {
        self.own.get_mut(name)?.iter_mut().find(|own| own.id == id)
    }

    /// Removes the connections of a name for which nothing is to be done any more.
    fn keep_own(&mut self, name: &[u8], is_kept: impl Fn(&Own) -> bool) {
        if let Some(owns) = self.own.get_mut(name) {
            owns.retain(is_kept);
            if owns.is_empty() {
                self.own.remove(name);
            }
        }
    }

    fn next_due(&mut self, now_ms: u64) -> Option<Box<[u8]>> {
        self.due.first().filter(|(due_ms, _)| *due_ms <= now_ms)?;
        self.due.pop_first().map(|(_, name)| name)
    }

    fn next_ended(&mut self, now_ms: u64) -> Option<Box<[u8]>> {
        self.expiring.first().filter(|(ends_ms, _)| *ends_ms <= now_ms)?;
        self.expiring.pop_first().map(|(_, name)| name)
    }
}

/// The names of the groups that the session of a name is in.
fn groups_of(entry: &Entry) -> Vec<Slice> {
    let asleep = entry.session.iter().flat_map(|session| &session.subscriptions);
    asleep.filter_map(|subscription| subscription.group()).collect()
}

fn bytes_of(name: &[u8], entry: &Entry) -> usize {
    let session = entry.session.as_ref().map_or(0, |session| session.memory_bytes());
    name.len() + session + entry.node.len()
}

impl Home {
    /// The home's number of the partition that has a client's name, if nodes share it.
    fn shared_partition(&self, name: &[u8]) -> Option<u32> {
        let topic = sys::session_topic(name);
        let (_, partition) = self.settings.locate(&topic);
        let is_shared = self.settings.log_of(partition).retains_newest();
        self.local(partition).filter(|_| is_shared && topic.len() <= NAME_BYTES_MAX)
    }

    fn run_of(&self, local: u32) -> u64 {
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

    fn is_closed(&self, local: u32) -> bool {
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
            | Phase::Leaving(..)
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
        let step = if matches!(own.phase, Phase::Held) { Step::Left } else { Step::Again };
        let session = leave.session.clone().filter(|session| session.expires_ms > turn.now_ms);
        let again_ms = self.elapsed.ms + if step == Step::Left { AGAIN_MS } else { 0 };
        if let Some(own) = self.shared.own_mut(name, id) {
            own.phase = Phase::Leaving(session.clone(), again_ms);
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
        let reply = asker
            .map(|(_, connection)| Reply { connection, request: Reply::SESSION_KEPT });
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
        let groups = before.as_ref().map(groups_of).unwrap_or_default();
        let will = before.as_ref().and_then(Entry::will_now);
        let last = before.as_ref().map(|entry| entry.last);
        let (step, by) = (read.as_ref().map(|read| read.step), read.as_ref().map(|read| read.by));
        let reading = Reading { time_ms: record.time_ms, may_lack };
        let (entry, counts) = entry_behind(before, read, reading);
        let is_over = entry.is_none();
        let expires_ms = entry.as_ref().and_then(Entry::expires_ms);
        let is_written_here = record.name.is_some_and(|name| name.run == run);
        let is_own = |id: Option<ClaimId>| id.is_some_and(|id| id.run == run);
        if let Some(entry) = entry {
            self.shared.put_entry(name, local, entry);
        }
        if let Some(expires_ms) = expires_ms.filter(|_| counts) {
            let wait_ms = if is_own(by) { 0 } else { OTHERS_MS + run % OTHERS_MS };
            self.shared.expiring.insert((expires_ms.saturating_add(wait_ms), name.into()));
        }
        if !counts {
            self.not_counted(name, is_own(last), (by.filter(|by| by.run == run), step), turn);
            return;
        }
        match step {
            Some(Step::Claim { is_clean }) => {
                self.name_claimed(name, by, is_clean, turn);
                if is_clean || !is_own(by) {
                    self.leave_groups_of(name, groups, turn);
                }
            }
            Some(Step::Again) => self.settle_again(name, by, turn),
            Some(Step::Left) => {
                self.settle_left(name, by);
                if let (Some(will), Some(by), true) =
                    (will, by, is_written_here && !is_own(by) && !may_lack)
                {
                    self.publish_will_of(name, by, will, turn);
                }
                self.assert_held(name, by, turn);
                // The end is written as a session that is not there, which other claims respect.
                // Then the name is removed.
                if is_over && is_written_here {
                    self.publish_name(name, &[], None, turn);
                }
            }
            Some(Step::Kept | Step::Withdrawn | Step::Taken) | None => {}
        }
        if is_over {
            self.shared.keep_own(name, |own| !matches!(own.phase, Phase::Asleep));
        }
        self.grant_waiting(name, turn);
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
        if step == Some(Step::Left) {
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
    fn name_claimed(
        &mut self,
        name: &[u8],
        by: Option<ClaimId>,
        is_clean: bool,
        turn: &mut Turn<'_>,
    ) {
        let mut losers = Vec::new();
        for own in self.shared.own.get(name).into_iter().flatten() {
            let is_loser = match own.phase {
                Phase::Claiming(_) | Phase::Void(_) => false,
                Phase::Waiting(_)
                | Phase::Held
                | Phase::Lost(_)
                | Phase::Leaving(..)
                | Phase::Asleep => true,
            };
            if is_loser && Some(own.id) != by {
                losers.push((own.edge, own.connection));
            }
        }
        losers.extend(self.clients.holder_of(name));
        for (edge, connection) in losers {
            turn.out.post(edge, ToEdge::TakenOver { connection, is_clean });
        }
        let owns = self.shared.own.get(name).into_iter().flatten();
        let withdrawn: Vec<(ClaimId, u64)> = owns
            .filter(|own| Some(own.id) != by && matches!(own.phase, Phase::Waiting(_)))
            .map(|own| (own.id, own.user))
            .collect();
        self.shared.keep_own(name, |own| {
            Some(own.id) == by || !matches!(own.phase, Phase::Waiting(_) | Phase::Asleep)
        });
        for loser in withdrawn {
            self.write_shared(name, loser, Step::Withdrawn, None, None, turn);
        }
        let until_ms = self.elapsed.ms + LEAVING_MS;
        let Some(own) = by.and_then(|by| self.shared.own_mut(name, by)) else {
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
            | Phase::Leaving(..)
            | Phase::Asleep => {}
        }
    }

    /// The session of a name goes on elsewhere, or ends: it leaves the groups that it has at this
    /// node.
    fn leave_groups_of(&self, name: &[u8], groups: Vec<Slice>, turn: &mut Turn<'_>) {
        if !groups.is_empty() {
            let client = keyed(Seed(0, 0), name);
            let letter = GroupLetter::Ended { client, groups };
            turn.out.post(EdgeId(0), ToEdge::Group(letter));
        }
    }

    /// This home has put a session to sleep for a node that is gone, and publishes its will: other
    /// nodes have found the name asleep.
    fn publish_will_of(&mut self, name: &[u8], by: ClaimId, mut will: Will, turn: &mut Turn<'_>) {
        will.delay_s = will.delay_s.max(WILL_S);
        will.key = [by.run, by.number].map(u64::to_be_bytes).as_flattened().into();
        let connection = self.post_will(Box::new(will), turn);
        let phase = Phase::Asleep;
        let own = Own { id: by, edge: WILLS_EDGE, connection, user: 0, phase };
        if self.shared.known.contains_key(name) {
            self.shared.own.entry(name.into()).or_default().push(own);
        }
    }

    /// Another node takes this one for gone, and it has the name's connection still.
    fn assert_held(&mut self, name: &[u8], by: Option<ClaimId>, turn: &mut Turn<'_>) {
        let session = self.shared.entry(name).and_then(|entry| entry.session.clone());
        let Some(own) = by.and_then(|by| self.shared.own_mut(name, by)) else {
            return;
        };
        if let Phase::Held = own.phase {
            let (id, user) = (own.id, own.user);
            own.phase = Phase::Lost(session.clone());
            self.write_shared(name, (id, user), Step::Again, session, None, turn);
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
        own.phase = Phase::Leaving(session.clone(), again_ms);
        let user = own.user;
        self.shared.due.insert((again_ms, name.into()));
        self.write_shared(name, (by, user), Step::Left, session, None, turn);
    }

    /// The last session of a connection is in the log.
    fn settle_left(&mut self, name: &[u8], by: Option<ClaimId>) {
        let is_last = self.shared.entry(name).map(|entry| entry.last) == by;
        let Some(own) = by.and_then(|by| self.shared.own_mut(name, by)) else {
            return;
        };
        if let Phase::Leaving(session, _) = &own.phase {
            let sleeps = session.is_some() && is_last;
            own.phase = Phase::Asleep;
            self.shared.keep_own(name, |own| sleeps || Some(own.id) != by);
        }
    }

    /// A holder has its name again after a loss.
    fn settle_again(&mut self, name: &[u8], by: Option<ClaimId>, turn: &mut Turn<'_>) {
        let Some(own) = by.and_then(|by| self.shared.own_mut(name, by)) else {
            return;
        };
        let (id, user) = (own.id, own.user);
        match &own.phase {
            Phase::Lost(_) => own.phase = Phase::Held,
            Phase::Leaving(session, _) => {
                let session = session.clone();
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
    fn lose_name(&mut self, name: &[u8], by: ClaimId, turn: &mut Turn<'_>) {
        if let Some(own) = self.shared.own_mut(name, by)
            && let Phase::Lost(_) = own.phase
        {
            own.phase = Phase::Held;
            let letter = ToEdge::TakenOver { connection: own.connection, is_clean: false };
            turn.out.post(own.edge, letter);
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
            let is_gone = |entry: &Entry| entry.is_held && self.shared.gone.contains(&entry.node);
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
            Phase::Leaving(session, again_ms) if *again_ms <= now_ms => {
                *again_ms = now_ms + AGAIN_MS;
                let (session, again_ms) = (session.clone(), *again_ms);
                self.shared.due.insert((again_ms, name.into()));
                let entry = self.shared.entry(name);
                let has_it = |entry: &Entry| entry.last == id || entry.leaving.contains(&id);
                let step = if entry.is_some_and(has_it) { Step::Left } else { Step::Again };
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
            | Phase::Leaving(..)
            | Phase::Held
            | Phase::Lost(_)
            | Phase::Asleep => {}
        }
    }

    /// A partition begins anew: its names are read again. Holders whose claims are lost take them
    /// again when the tail has come to its head.
    pub(super) fn restart_shared(&mut self, local: u32, turn: &mut Turn<'_>) {
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
                | Phase::Leaving(..)
                | Phase::Asleep => {}
            }
        }
    }

    /// The tail of a partition has come to the head of its beginning.
    pub(super) fn complete_shared(&mut self, local: u32, turn: &mut Turn<'_>) {
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
            | Phase::Leaving(..)
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

    /// A node of the cluster lives, or does not: it has left, or reports itself no more.
    pub fn node_lives(&mut self, now: Now, node: &str, lives: bool) {
        self.elapsed.advance(now);
        if lives {
            self.shared.gone.remove(node);
        } else if node != self.settings.node_name {
            self.end_node(node);
        }
    }

    /// A node has left the cluster, or reports itself no more: the sessions that it had sleep, and
    /// their wills are published. Each node looks at a name at another time, and the first one
    /// writes.
    fn end_node(&mut self, node: &str) {
        self.shared.gone.insert(node.into());
        let held = self.shared.known.iter();
        let held = held.filter(|(_, (_, entry))| entry.is_held && &*entry.node == node);
        let names: Vec<(Box<[u8]>, u32)> =
            held.map(|(name, (local, _))| (name.clone(), *local)).collect();
        for (name, local) in names {
            let seed = Seed(self.run_of(local), 0);
            let after_ms = GONE_MS + keyed(seed, &name) % GONE_MS;
            self.shared.due.insert((self.elapsed.ms + after_ms, name));
        }
    }

    /// Writes that the holder of a name has left, for its node.
    fn put_to_sleep(&mut self, name: &[u8], turn: &mut Turn<'_>) {
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
}
