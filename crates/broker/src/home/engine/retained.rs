//! Retained messages of a log whose topic is compacted: the newest accepted record of each topic.
//!
//! A beginning reads such a topic from its first record. Compaction has left the newest record of
//! each topic only, so records that are older than the beginning is complete are not judged: the
//! newest is retained. The tail's other records are judged as in any log, and the accepted ones are
//! retained, served or not.
//!
//! *Restorations.* The newest record of a topic may be one that all nodes drop, as a repetition.
//! Compaction would keep it, and not the retained message. So a home that has dropped such a record
//! remembers its topic. The home that had sent it appends the retained message again after
//! [`OWN_MS`], unless a newer message has come; the others do if they have not seen that after
//! [`OTHERS_MS`]. Subscribers do not get a restoration: it names the accepted record that it
//! repeats ([`Restored`]).
//!
//! Invariants:
//!
//! - the newest record of a topic, before the engine may compact it, is an accepted one, or a
//!   restoration of the newest accepted one, or a home remembers the topic.
//! - only verdicts that all nodes share lead to a restoration.
//! - a restoration that does not know a newer accepted record, or is of a log that has lost records
//!   since, is passed over like a dropped record, and followed by another one. With equal content
//!   it changes nothing, so any number is harmless.

use super::super::partitions::HomePartition;
use super::super::publication::Checked;
use super::super::topics::NONE;
use super::super::turn::Turn;
use super::Home;
use crate::engine::{EnginePublish, EngineRequest, Restored, RunName, TailRecord};
use crate::mail::{Code, Publication};
use crate::position::{Position, Standing};
use log::RecordView;
use std::collections::BTreeMap;
use stdx::chunk::Slice;
use stdx::handing::Hand;
use stdx::memory::tree_bytes;

/// A home that has sent the dropped record waits so long for a message of the topic, in
/// milliseconds: a busy topic needs no restoration.
const OWN_MS: u64 = 5_000;
/// Homes that have not sent the dropped record wait between this time and twice that, in
/// milliseconds. The engine compacts no record that is not much older.
const OTHERS_MS: u64 = 60_000;
/// A restoration that has not come back is sent again after this time, in milliseconds.
const AGAIN_MS: u64 = 20_000;
/// While the partition takes no publications, restorations are tried so often, in milliseconds.
const CLOSED_MS: u64 = 1_000;
/// Topics of a partition that wait for a restoration. Further ones are counted, and not restored.
const DUE_MAX: usize = 4_096;

/// The retained messages of one partition, beside those themselves.
#[derive(Debug, Default, Hand)]
pub(super) struct Retains {
    /// Records before the first that is not older than this are not judged: the engine may have
    /// removed others between them. Milliseconds since 1970; 0 when that record has come.
    complete_from_ms: u64,
    /// Verdicts up to this offset may differ from those of other nodes.
    unsure_through: u64,
    /// A record was lost here: what this home retains may be old, so it restores nothing.
    is_incomplete: bool,
    /// Topics whose newest record is dropped.
    due: BTreeMap<Box<[u8]>, Due>,
    /// None of them is due before this time, in milliseconds of the home's clock.
    due_ms: u64,
}

#[derive(Clone, Copy, Debug, Hand)]
struct Due {
    /// The dropped record.
    offset: u64,
    /// Milliseconds of the home's clock.
    at_ms: u64,
}

/// A topic's retained message as a home knows it.
struct Known {
    /// The newest accepted record, as far as it is known; else 0.
    last: u64,
    /// The record of the retained message.
    retained: Option<Slice>,
}

impl Retains {
    /// A partition begins, or begins anew.
    pub fn begin(&mut self, after: u64, complete_from_ms: u64) {
        let is_whole = complete_from_ms == 0;
        *self = Retains { complete_from_ms, ..Retains::default() };
        self.unsure_through = if is_whole { 0 } else { after };
    }

    /// Whether the engine may have removed records before one of this time.
    pub fn is_filling(&mut self, time_ms: u64) -> bool {
        if time_ms >= self.complete_from_ms {
            self.complete_from_ms = 0;
        }
        self.complete_from_ms > 0
    }

    /// The verdict on a record was not that of all nodes.
    pub fn passed_unsure(&mut self, offset: u64) {
        self.unsure_through = self.unsure_through.max(offset);
    }

    /// A record that may have been accepted was lost.
    pub fn lost(&mut self) {
        self.is_incomplete = true;
    }

    pub fn memory_bytes(&self) -> usize {
        let names: usize = self.due.keys().map(|name| name.len()).sum();
        tree_bytes(self.due.len(), size_of::<(Box<[u8]>, Due)>()) + names
    }

    /// The newest record of a topic is dropped. False if there is no room to remember it.
    fn note(&mut self, name: &[u8], due: Due) -> bool {
        if let Some(known) = self.due.get_mut(name) {
            *known = Due { offset: due.offset, at_ms: known.at_ms.min(due.at_ms) };
        } else if self.due.len() >= DUE_MAX {
            return false;
        } else {
            self.due.insert(name.into(), due);
        }
        self.due_ms = if self.due.len() == 1 { due.at_ms } else { self.due_ms.min(due.at_ms) };
        true
    }

    /// A later record has settled the retained message.
    fn settle(&mut self, name: &[u8], through: u64) {
        if self.due.get(name).is_some_and(|due| due.offset <= through) {
            self.due.remove(name);
        }
    }

    /// The time of the next restoration; milliseconds of the home's clock.
    pub fn next_ms(&self) -> Option<u64> {
        (!self.due.is_empty()).then_some(self.due_ms)
    }

    /// The topics that are due; they are due again later.
    fn take_due(&mut self, now_ms: u64, again_ms: u64) -> Vec<Box<[u8]>> {
        let mut taken = Vec::new();
        for (name, due) in self.due.iter_mut().filter(|(_, due)| due.at_ms <= now_ms) {
            due.at_ms = now_ms + again_ms;
            taken.push(name.clone());
        }
        self.due_ms = self.due.values().map(|due| due.at_ms).min().unwrap_or(u64::MAX);
        taken
    }
}

/// Whether a publication takes its topic's retained message away.
pub(super) fn removes(publication: &Publication) -> bool {
    publication.retain && publication.payload.is_empty()
}

impl Home {
    fn retains_of(&mut self, local: u32) -> Option<&mut Retains> {
        self.engine_of(local)?.retains.as_deref_mut()
    }

    /// Whether there is room for the retained message that a publication becomes.
    pub(super) fn check_retained(
        &self,
        local: u32,
        publication: &Publication,
        record_bytes: u64,
    ) -> Result<(), Code> {
        if removes(publication) {
            return Ok(());
        }
        let known = self.interests.topics.find(&publication.topic, local);
        let before = known.map_or(0, |topic| self.retained_bytes_of(topic));
        let share = &self.shares[self.partitions[local as usize].share];
        let is_full = share.retained_bytes - before + record_bytes > share.retained_bytes_max;
        if is_full { Err(Code::RetainedFull) } else { Ok(()) }
    }

    /// An accepted record that lies in the log, of a partition that retains.
    pub(super) fn retain_placed(
        &mut self,
        local: u32,
        topic: u32,
        offset: u64,
        record: &Slice,
        publication: &Publication,
    ) {
        let record = (!removes(publication)).then_some(record);
        self.retain_tailed(local, topic, record);
        if let Some(retains) = self.retains_of(local)
            && !retains.due.is_empty()
        {
            retains.settle(&publication.topic, offset);
        }
    }

    /// A record that is not served here, and is its topic's retained message, of a partition that
    /// retains.
    pub(super) fn retain_passed(&mut self, local: u32, record: &TailRecord) {
        let TailRecord { offset, time_ms, ref publication, .. } = *record;
        self.retain_at(local, (offset, time_ms), publication);
        if let Some(retains) = self.retains_of(local) {
            retains.settle(&publication.topic, offset);
        }
    }

    /// Retains a message as the record of this offset and time, or removes the retained one.
    fn retain_at(&mut self, local: u32, at: (u64, u64), publication: &Publication) {
        let known = self.interests.topics.find(&publication.topic, local);
        if removes(publication) {
            if let Some(topic) = known {
                self.retain_tailed(local, topic, None);
                // Perhaps it has no record here.
                self.forgetting.push_back((local, publication.topic.clone()));
            }
            return;
        }
        let topic = match known {
            Some(topic) => Ok(topic),
            None => self.insert_topic(&publication.topic, local),
        };
        let record = topic.and_then(|topic| record_of(local, topic, at, publication));
        match (topic, record) {
            (Ok(topic), Ok(record)) => self.retain_tailed(local, topic, Some(&record)),
            (Err(_), _) | (_, Err(_)) => {
                self.statistics.tail_unretained += 1;
                if let Some(retains) = self.retains_of(local) {
                    retains.lost();
                }
            }
        }
    }

    /// A record of the tail is retained whatever `retained_bytes_max` says.
    fn retain_tailed(&mut self, local: u32, topic: u32, record: Option<&Slice>) {
        let share = self.partitions[local as usize].share;
        self.retain(topic, share, record);
        let share = &self.shares[share];
        if record.is_some() && share.retained_bytes > share.retained_bytes_max {
            self.statistics.tail_retained_over += 1;
        }
    }

    /// Nothing is retained any more: the partition begins anew.
    pub(super) fn forget_retained(&mut self, local: u32) {
        let share = self.partitions[local as usize].share;
        for topic in 0..self.interests.topics.places() {
            let entry = self.interests.topics.get(topic);
            if entry.is_some_and(|entry| entry.partition == local && entry.retained != NONE) {
                self.retain(topic, share, None);
                let name = Slice::copy_of(self.interests.topics.name(topic));
                self.forgetting.push_back((local, name));
            }
        }
    }

    fn known_of(&self, local: u32, name: &[u8]) -> Known {
        let topic = self.interests.topics.find(name, local);
        let entry = topic.and_then(|topic| self.interests.topics.get(topic));
        let retained = entry.and_then(|entry| self.retained.get(entry.retained));
        let view = retained.and_then(|record| RecordView::parse(record));
        let last = view.map_or(entry.map_or(0, |entry| entry.last()), |view| view.offset());
        Known { last, retained: retained.cloned() }
    }

    /// A restoration has come.
    pub(super) fn take_restoration(&mut self, local: u32, record: &TailRecord, restored: Restored) {
        let publication = &record.publication;
        let known = self.known_of(local, &publication.topic);
        let at = Position { epoch: restored.epoch, offset: restored.seen };
        let is_known = matches!(self.partitions[local as usize].standing(at), Standing::After(_));
        let Some(engine) = self.engine_of(local) else {
            return;
        };
        let is_of_topic =
            engine.began.is_some_and(|it| u64::from(it.topic_id) == restored.epoch >> 32);
        let is_primed = engine.once.is_primed();
        // Records of earlier lineages may be gone at a beginning. Then others have judged it.
        let is_valid = restored.seen < record.offset && is_of_topic && (!is_primed || is_known);
        let Some(retains) = engine.retains.as_deref_mut() else {
            return;
        };
        let is_sure = known.last > retains.unsure_through;
        let is_same = match (known.retained.is_some(), removes(publication)) {
            (true, false) => known.last == restored.offset,
            (false, true) => true,
            (true, true) | (false, false) => false,
        };
        // A home that is sure knows the newest accepted record. Another one may have retained a
        // record that is dropped; the sender had seen that.
        let is_stale = match (is_valid, is_same, is_sure) {
            (false, _, _) => true,
            (true, true, _) => false,
            (true, false, true) => restored.offset < known.last,
            (true, false, false) => known.last > restored.seen,
        };
        if is_stale {
            if is_primed {
                self.dropped_newest(local, record);
            }
            return;
        }
        retains.settle(&publication.topic, restored.seen);
        if !is_same {
            self.retain_at(local, (restored.offset, restored.time_ms), publication);
        }
    }

    /// A record of a partition that retains is dropped, as on every node.
    pub(super) fn dropped_newest(&mut self, local: u32, record: &TailRecord) {
        let elapsed_ms = self.elapsed.ms;
        let Some(engine) = self.engine_of(local) else {
            return;
        };
        let run = engine.pending.run();
        let Some(retains) = engine.retains.as_deref_mut() else {
            return;
        };
        let is_own = record.name.is_some_and(|name| name.run == run);
        let at_ms = elapsed_ms + if is_own { OWN_MS } else { wait_ms(run) };
        let is_noted =
            retains.note(&record.publication.topic, Due { offset: record.offset, at_ms });
        self.statistics.tail_unrestored += u64::from(!is_noted);
    }

    /// Sends the restorations that are due.
    pub(super) fn restore_due(&mut self, local: u32, turn: &mut Turn<'_>) {
        let now_ms = self.elapsed.ms;
        let Some(engine) = self.engine_of(local) else {
            return;
        };
        let is_open =
            engine.is_available && engine.began.is_some_and(|began| engine.through >= began.head);
        let Some(retains) = engine.retains.as_deref_mut() else {
            return;
        };
        if retains.next_ms().is_none_or(|next_ms| next_ms > now_ms) {
            return;
        }
        let is_open = is_open && !retains.is_incomplete;
        let names = retains.take_due(now_ms, if is_open { AGAIN_MS } else { CLOSED_MS });
        for name in names.iter().filter(|_| is_open) {
            self.restore_retained_of(local, name, turn);
        }
    }

    fn restore_retained_of(&mut self, local: u32, name: &[u8], turn: &mut Turn<'_>) {
        let known = self.known_of(local, name);
        let view = known.retained.as_ref().and_then(|record| RecordView::parse(record));
        let time_ms = view.map_or(0, |view| view.time_ms());
        let mut publication =
            Publication { topic: Slice::copy_of(name), retain: true, ..Publication::default() };
        if let Some(view) = view {
            let mut block = Vec::new();
            crate::attributes::append_attributes(&view, None, &mut block);
            publication.attributes = Slice::copy_of(&block);
            publication.payload = Slice::copy_of(view.payload());
            publication.retain = false;
        }
        let HomePartition { id: partition, lineages, .. } = &self.partitions[local as usize];
        let (partition, epoch) = (*partition, lineages.present_epoch());
        let Some(engine) = self.engine_of(local) else {
            return;
        };
        let restored = Restored { epoch, offset: known.last, time_ms, seen: engine.through };
        let name: RunName = engine.pending.next_name();
        let restored = Some(Box::new(restored));
        let publish = EnginePublish { partition, name, publication, restored, is_register: false };
        turn.out.engine.push(EngineRequest::Publish(publish));
        self.statistics.tail_restorations += 1;
    }
}

/// The wait of a home for the restoration by another one. Runs are random, so homes differ.
fn wait_ms(run: u64) -> u64 {
    OTHERS_MS + run % OTHERS_MS
}

/// The record of a message at an offset, by itself. It names the offset before it as that of the
/// topic's last one: positions there are as good as unknown.
fn record_of(
    local: u32,
    topic: u32,
    (offset, time_ms): (u64, u64),
    publication: &Publication,
) -> Result<Slice, Code> {
    let checked = Checked::tailed(local, publication)?;
    let record = checked.record(time_ms, topic, offset.saturating_sub(1), publication);
    let mut head = Vec::new();
    record.encode_head(offset, &mut head).map_err(|_| Code::Internal)?;
    Ok(Slice::concatenation_of(&[&head, &publication.payload]))
}
