//! The reference of a cluster: publications, answers and frames of clients, and the engine's own
//! log as the truth.
//!
//! The rules: a position names one message on all nodes; behind a subscriber's position come all
//! messages of its topics, in order, or a reported gap; no gap without a cause in the schedule; a
//! publication is delivered at most once, never if it was refused, and behind all that was known
//! when it was sent; an acknowledgement names the record, which was committed.

use super::engine::Engine;
use super::life::{Entry, EntryId, Life};
use super::partition::Partition;
use super::verdict::Verdict;
use crate::oracle::Failure;
use broker::mail::Publication;
use std::collections::{BTreeMap, VecDeque};
use wire::native::Position;

/// The maximum number of recorded actions of a client.
const NOTES_MAX: usize = 400;

/// The fate of a publication, as its publisher knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// There is no answer yet, or none will come.
    Unknown,
    /// It was acknowledged.
    Acknowledged,
    /// It was refused before it was sent: it is not in the log.
    Refused,
}

/// One publication.
pub struct Published {
    /// Its topic, and the partition of that.
    pub topic: usize,
    partition: usize,
    /// Its bytes.
    pub payload: Vec<u8>,
    /// The greatest entry that was known when it was first sent.
    floor: Option<Known>,
    /// Its fate.
    pub fate: Fate,
}

/// An entry of a partition, in one of its lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Known {
    topic_id: u32,
    entry: EntryId,
}

/// The client that got a frame, and its node.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// The client.
    pub client: usize,
    /// The node.
    pub node: usize,
    /// The number of the node's starts when the client connected.
    pub starts: u32,
    /// The partition.
    pub partition: usize,
}

/// Sums, to show the coverage of a sweep.
#[derive(Clone, Copy, Debug, Default, stdx::Counters)]
pub struct Seen {
    /// Worlds.
    pub worlds: u64,
    /// Publications.
    pub publications: u64,
    /// Acknowledgements.
    pub acknowledged: u64,
    /// Acknowledgements of messages that the log already had.
    pub duplicates: u64,
    /// Refused publications.
    pub refused: u64,
    /// Publications without an answer.
    pub unknown: u64,
    /// Publications refused because of their sequence, although their producer kept its order.
    pub out_of_order: u64,
    /// Checked messages.
    pub deliveries: u64,
    /// Messages in pages of history.
    pub history: u64,
    /// Gaps because a position was lost with its records.
    pub gaps_lost: u64,
    /// Gaps because the topic is another one.
    pub gaps_replaced: u64,
    /// Gaps because records have expired, or because the node began behind them.
    pub gaps_expired: u64,
    /// Subscriptions that continued at another node.
    pub moved: u64,
    /// Connections that were resumed with a ticket, at nodes that did not die afterwards.
    pub tickets: u64,
    /// Killed nodes.
    pub deaths: u64,
    /// Partitions that began anew at a node.
    pub restarts: u64,
    /// Entries of the engine.
    pub entries: u64,
    /// Entries that nodes must drop.
    pub dropped: u64,
    /// Retained messages that nodes have written once more.
    pub restored: u64,
    /// Entries that compaction has removed.
    pub compacted: u64,
    /// Checked retained messages, and topics whose one was removed.
    pub retained: u64,
    /// Topics whose retained message was removed.
    pub removed: u64,
    /// Turns of all reactors.
    pub turns: u64,
}

/// The reference; see the module.
#[derive(Default)]
pub struct ClusterOracle {
    /// All publications.
    pub publications: Vec<Published>,
    /// The greatest known entry of each partition.
    known: BTreeMap<usize, Known>,
    /// Positions that clients were told, for subscriptions that begin there.
    pub positions: Vec<(usize, Position)>,
    /// The first failure.
    pub failure: Option<Failure>,
    /// Virtual milliseconds.
    pub now_ms: u64,
    /// Whether clients' actions are recorded.
    pub tracing: bool,
    notes: BTreeMap<usize, VecDeque<String>>,
    /// Sums.
    pub seen: Seen,
}

impl ClusterOracle {
    /// Records an action or an observation of a client.
    pub fn note(&mut self, client: usize, text: impl FnOnce() -> String) {
        if self.tracing {
            let notes = self.notes.entry(client).or_default();
            if notes.len() == NOTES_MAX {
                notes.pop_front();
            }
            let line = format!("{:>7} ms  {}", self.now_ms, text());
            notes.push_back(line);
        }
    }

    /// Records a text for all clients.
    pub fn note_all(&mut self, text: &str) {
        for client in self.notes.keys().copied().collect::<Vec<usize>>() {
            self.note(client, || text.to_owned());
        }
    }

    /// The recorded actions of a client.
    pub fn notes(&self, client: usize) -> impl Iterator<Item = &String> {
        self.notes.get(&client).into_iter().flatten()
    }

    /// Reports a failure. Only the first one is kept.
    pub fn fail(&mut self, client: impl Into<Option<usize>>, text: String) {
        if self.failure.is_none() {
            self.failure = Some(Failure { at_ms: self.now_ms, client: client.into(), text });
        }
    }

    /// Creates a publication; its payload identifies it.
    pub fn publication(&mut self, topic: usize, partition: usize, padding: usize) -> usize {
        let id = self.publications.len();
        let mut payload = format!("{id:016x}").into_bytes();
        payload.resize(16 + padding, b'a' + (id % 26) as u8);
        let floor = self.known.get(&partition).copied();
        let published = Published { topic, partition, payload, floor, fate: Fate::Unknown };
        self.publications.push(published);
        self.seen.publications += 1;
        id
    }

    /// Processes an acknowledgement.
    pub fn acknowledged(
        &mut self,
        engine: &Engine,
        told: Told,
        id: usize,
        (position, is_duplicate): (Position, bool),
    ) {
        self.seen.acknowledged += 1;
        self.seen.duplicates += u64::from(is_duplicate);
        self.publications[id].fate = Fate::Acknowledged;
        let result = self.learn(engine, told, position, id);
        if let Err(text) = result {
            self.fail(told.client, format!("publication {id} is acknowledged at {text}"));
        }
    }

    /// Processes a refusal. `is_final`: the publication is not in the log, nor ever will be.
    pub fn refused(&mut self, engine: &Engine, client: Option<usize>, id: usize, is_final: bool) {
        self.seen.refused += u64::from(is_final);
        self.seen.unknown += u64::from(!is_final);
        if !is_final {
            return;
        }
        self.publications[id].fate = Fate::Refused;
        if let Some(offset) = self.stands_at(engine, id) {
            let text = format!("publication {id} is refused and stands at {offset}");
            self.fail(client, text);
        }
    }

    /// Processes a refusal because of the sequence: the log has a record of the publication that
    /// came behind a later one of its producer. A copy of the publication is delivered only if a
    /// window lies between it and that record.
    pub fn out_of_order(&mut self, engine: &Engine, client: usize, id: usize) {
        self.seen.out_of_order += 1;
        let partition = &engine.partitions[self.publications[id].partition];
        let window_s = engine.settings.window_s;
        if !partition.lives.iter().any(|life| refused_records(life, id).next().is_some()) {
            let text = format!("publication {id} is out of order, and no record of it is");
            self.fail(client, text);
        } else if let Some(offset) = self.stands_at(engine, id)
            && !is_forgotten_between(partition.life(), id, offset, window_s)
        {
            let text = format!("publication {id} is out of order and stands at {offset}");
            self.fail(client, text);
        }
    }

    /// The offset of a publication's record in the present log, if that is delivered.
    fn stands_at(&self, engine: &Engine, id: usize) -> Option<u64> {
        let life = engine.partitions[self.publications[id].partition].life();
        let mut entries = life.path().iter().map(|id| life.entry(*id));
        let is_it = |entry: &&Entry| entry.delivered().and_then(published) == Some(id);
        entries.find(is_it).map(|entry| entry.offset)
    }

    /// Checks a message, except its order.
    pub fn delivered(
        &mut self,
        engine: &Engine,
        told: Told,
        topic: usize,
        position: Position,
        payload: &[u8],
    ) {
        self.seen.deliveries += 1;
        if payload.is_empty() {
            return self.delivered_empty(engine, told, topic, position);
        }
        let Some(id) = id_of(payload).filter(|id| *id < self.publications.len()) else {
            return self.fail(told.client, format!("{position:?} is not a publication"));
        };
        let publication = &self.publications[id];
        if publication.topic != topic || publication.payload != payload {
            let text = format!("{position:?} of topic {topic} is not publication {id}");
            return self.fail(told.client, text);
        }
        if let Err(text) = self.learn(engine, told, position, id) {
            self.fail(told.client, format!("publication {id} is delivered at {text}"));
        }
    }

    /// Checks an empty message: only a tombstone has no payload.
    fn delivered_empty(&mut self, engine: &Engine, told: Told, topic: usize, position: Position) {
        let found = entry_at(&engine.partitions[told.partition], position);
        let entry = found.map(|(life, entry)| life.entry(entry));
        let is_tombstone = entry
            .and_then(|entry| entry.delivered())
            .is_some_and(|publication| publication.retain && publication.payload.is_empty());
        if !is_tombstone || entry.is_none_or(|entry| !entry.was_committed) {
            self.fail(told.client, format!("an empty message of topic {topic} at {position:?}"));
        }
    }

    /// A publication stands at a position: checks the record there.
    fn learn(
        &mut self,
        engine: &Engine,
        told: Told,
        position: Position,
        id: usize,
    ) -> Result<(), String> {
        let partition = &engine.partitions[told.partition];
        let (life, entry_id) = entry_at(partition, position)
            .ok_or_else(|| format!("{position:?}, which never was"))?;
        let entry = life.entry(entry_id);
        let published = entry.delivered().and_then(|publication| id_of(&publication.payload));
        if published != Some(id) {
            let verdict = entry.verdict;
            return Err(format!("{position:?}, where {published:?} is the engine's ({verdict:?})"));
        }
        if !entry.was_committed {
            return Err(format!("{position:?}, which was never committed"));
        }
        // A publication that is lost may have been visible, and still come from a node that lags.
        if self.publications[id].fate == Fate::Refused
            && life.topic_id == partition.life().topic_id
            && life.is_on_path(entry_id, life.present())
        {
            return Err(format!("{position:?}, although it was refused"));
        }
        let known = Known { topic_id: life.topic_id, entry: entry_id };
        if let Some(floor) = self.publications[id].floor
            && floor.topic_id == known.topic_id
            && life.entry(floor.entry).offset >= entry.offset
            && life.is_on_path(floor.entry, position.epoch as u32)
        {
            let before = life.entry(floor.entry).offset;
            return Err(format!("{position:?}, and {before} was known when it was sent"));
        }
        let newest = self.known.entry(told.partition).or_insert(known);
        let is_newer = newest.topic_id < known.topic_id
            || newest.topic_id == known.topic_id
                && (life.entry(newest.entry).offset < entry.offset
                    || !life.is_on_path(newest.entry, life.present()));
        if is_newer {
            *newest = known;
        }
        Ok(())
    }

    /// Checks that nothing of these topics is missing between a subscriber's position and a later
    /// one, which is that of a message itself if `is_message` is set.
    pub fn advanced(
        &mut self,
        engine: &Engine,
        told: Told,
        topics: &[&str],
        (from, to): (Position, Position),
        is_message: bool,
    ) {
        if let Err(text) = check_between(engine, told, topics, (from, to), is_message) {
            self.fail(told.client, text);
        }
        if self.positions.len() < 4_000 && !self.positions.contains(&(told.partition, to)) {
            self.positions.push((told.partition, to));
        }
    }

    /// Whether a position is valid at a node that has this epoch.
    pub fn is_valid(&self, engine: &Engine, partition: usize, at: Position, epoch: u64) -> bool {
        is_continued(engine, partition, at, epoch)
    }

    /// Checks that a gap has a cause. A position may be lost in the log that its node has read, and
    /// be there again after one more unclean election. A node cannot judge a position of a lineage
    /// that the log has no record of: it reports a gap, although the position itself may have been
    /// told of an older record. The model does not know how much a former life of a node served.
    pub fn gap(&mut self, engine: &Engine, told: Told, from: Position, to: Position) {
        let is_present = told.starts == engine.starts(told.node);
        let served = engine.served(told.node, told.partition).filter(|_| is_present);
        let served = served.map(|served| (served.above, served.through));
        let (served_above, through) = served.unwrap_or((u64::MAX, 0));
        let partition = &engine.partitions[told.partition];
        if topic_of(from) != topic_of(to) {
            self.seen.gaps_replaced += 1;
        } else if !is_continued(engine, told.partition, from, present_of(partition))
            || !is_continued(engine, told.partition, from, to.epoch)
            || partition.life().has_lost_all_of(from.epoch as u32)
        {
            self.seen.gaps_lost += 1;
            if let Some(kept) = kept_of(partition.life(), from, to).filter(|kept| *kept > to.offset)
            {
                let text =
                    format!("a gap from {from:?} to {to:?}, and up to {kept} nothing is lost");
                self.fail(told.client, text);
            }
        } else if from.offset < served_above.max(partition.expired) {
            self.seen.gaps_expired += 1;
        } else {
            let text = format!(
                "a gap without a cause in partition {}: from {from:?} to {to:?}; node {} serves above {served_above} and has read {through}; lineages {:?}",
                told.partition,
                told.node,
                partition.life().lineages_of_records()
            );
            self.fail(told.client, text);
        }
    }
}

/// The records of a publication in any log of a life that nodes have read, and must refuse because
/// of its sequence.
fn refused_records(life: &Life, id: usize) -> impl Iterator<Item = &Entry> {
    let is_refused = |entry: &&Entry| entry.was_committed && entry.verdict == Verdict::OutOfOrder;
    let refused = life.entries().iter().filter(is_refused);
    refused.filter(move |entry| {
        entry.record().is_some_and(|(_, publication)| published(publication) == Some(id))
    })
}

/// Whether a window lies between a refused record of a publication and the delivered one at an
/// offset of the present log: nodes judge the later of them without the earlier. The log of both is
/// the present one, or that in which the refused record was lost.
fn is_forgotten_between(life: &Life, id: usize, offset: u64, window_s: u64) -> bool {
    let delivered = life.resolve(life.present(), offset);
    refused_records(life, id).any(|refused| {
        let has_both = |lineage: &u32| {
            let there = life.resolve(*lineage, refused.offset).map(|id| life.entry(id));
            there.is_some_and(|there| std::ptr::eq(there, refused))
                && life.resolve(*lineage, offset) == delivered
        };
        let (first, later) = (refused.offset.min(offset), refused.offset.max(offset));
        let mut logs = [life.present(), refused.lineage].into_iter().filter(has_both);
        logs.any(|lineage| life.is_forgotten(lineage, (first, later), window_s))
    })
}

/// The present epoch of a partition.
fn present_of(partition: &Partition) -> u64 {
    let life = partition.life();
    u64::from(life.topic_id) << 32 | u64::from(life.present())
}

/// The newest record up to a position that is still there in the log of another one, if that has a
/// record of the position's lineage: then a node can tell.
fn kept_of(life: &Life, from: Position, to: Position) -> Option<u64> {
    let lineage = from.epoch as u32;
    let log = life.path_of(to.epoch as u32)?;
    let both = life.path_of(lineage)?.iter().zip(log).take(from.offset as usize);
    let records = both.take_while(|(one, other)| one == other).map(|(id, _)| life.entry(*id));
    let records: Vec<_> = records.filter(|entry| entry.read().is_some()).collect();
    let is_known = records.iter().any(|record| record.lineage == lineage);
    records.last().filter(|_| is_known).map(|record| record.offset)
}

/// The publication that a message is.
fn published(publication: &Publication) -> Option<usize> {
    id_of(&publication.payload)
}

/// The publication of a payload.
pub fn id_of(payload: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(payload.get(..16)?).ok()?;
    usize::from_str_radix(text, 16).ok()
}

/// The topic's identity in an epoch.
fn topic_of(position: Position) -> u32 {
    (position.epoch >> 32) as u32
}

fn entry_at(partition: &Partition, position: Position) -> Option<(&Life, EntryId)> {
    let life = partition.life_of(topic_of(position))?;
    let entry = life.resolve(position.epoch as u32, position.offset)?;
    Some((life, entry))
}

fn is_continued(engine: &Engine, partition: usize, at: Position, epoch: u64) -> bool {
    let life = engine.partitions[partition].life_of(topic_of(at));
    let continues = |life: &Life| {
        let lineage = life.lineage_at(at.epoch as u32, at.offset);
        lineage.is_some_and(|lineage| life.continues(lineage, at.offset, epoch as u32))
    };
    topic_of(at) == (epoch >> 32) as u32 && life.is_some_and(continues)
}

fn check_between(
    engine: &Engine,
    told: Told,
    topics: &[&str],
    (from, to): (Position, Position),
    is_message: bool,
) -> Result<(), String> {
    let index = told.partition;
    let life = engine.partitions[index].life_of(topic_of(to)).ok_or("an unknown topic")?;
    let lineage = life.lineage_at(to.epoch as u32, to.offset);
    let lineage = lineage.ok_or_else(|| format!("{to:?} never was"))?;
    let to = Position { epoch: to.epoch >> 32 << 32 | u64::from(lineage), ..to };
    if !is_continued(engine, index, from, to.epoch) {
        return Err(format!("{to:?} follows {from:?} without a gap, and records were lost"));
    }
    if to.offset < from.offset || is_message && to.offset == from.offset {
        return Err(format!("{to:?} follows {from:?}"));
    }
    let path = life.path_of(to.epoch as u32).ok_or("an unknown lineage")?;
    let end = to.offset - u64::from(is_message);
    let between = path.get(from.offset as usize..end as usize);
    let between = between.ok_or_else(|| format!("{to:?} never was"))?;
    for id in between {
        let entry = life.entry(*id);
        let topic = entry.delivered().map(|publication| &publication.topic[..]);
        if topics.iter().any(|name| Some(name.as_bytes()) == topic) {
            let offset = entry.offset;
            return Err(format!("{offset} is missing between {from:?} and {to:?}"));
        }
    }
    Ok(())
}

/// Whether a subscriber of a topic has received everything that there is.
///
/// # Errors
/// The subscriber's position and the missing message.
pub fn is_past_end(
    engine: &Engine,
    partition: usize,
    topic: &str,
    at: Position,
) -> Result<(), String> {
    let present = engine.partitions[partition].life();
    let epoch = present_of(&engine.partitions[partition]);
    if !is_continued(engine, partition, at, epoch) {
        return Err(format!("is at {at:?}, which is lost"));
    }
    let end = engine.partitions[partition].visible() as usize;
    let rest = present.path().get(at.offset as usize..end).unwrap_or_default();
    let is_of_topic = |id: &&EntryId| {
        let delivered = present.entry(**id).delivered();
        delivered.is_some_and(|publication| publication.topic[..] == *topic.as_bytes())
    };
    match rest.iter().find(is_of_topic) {
        Some(id) => Err(format!("is at {at:?}, and {} is missing", present.entry(*id).offset)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::life::{Content, Life};
    use super::super::verdict::Window;
    use super::*;
    use broker::mail::ProducerStamp;
    use stdx::chunk::Slice;

    const WINDOW_S: u64 = 300;

    /// A log of one producer's publications: each with its number, which is its sequence, and the
    /// second of its record.
    fn log(records: &[(usize, u64)]) -> Life {
        let mut life = Life::new(1);
        life.begin(1, Vec::new());
        let mut window = Window::new(WINDOW_S);
        for (id, second) in records {
            let producer =
                ProducerStamp { id: Slice::copy_of(b"p"), sequence: *id as u64, connection: 1 };
            let publication = Publication {
                topic: Slice::copy_of(b"t"),
                payload: Slice::copy_of(format!("{id:016x}").as_bytes()),
                producer: Some(producer),
                ..Publication::default()
            };
            let content = Content::Record { name: None, publication: Box::new(publication) };
            life.append(content, second * 1_000, &mut window);
        }
        life.commit(0, records.len() as u64);
        life
    }

    fn verdicts(life: &Life) -> Vec<Verdict> {
        life.entries().iter().map(|entry| entry.verdict).collect()
    }

    #[test]
    fn a_copy_is_excused_a_window_behind_the_refused_record_only() {
        let life = log(&[(2, 0), (1, 10), (1, 310)]);
        assert_eq!(verdicts(&life), [Verdict::New, Verdict::OutOfOrder, Verdict::New]);
        assert!(is_forgotten_between(&life, 1, 3, WINDOW_S));
        assert!(!is_forgotten_between(&life, 1, 3, WINDOW_S + 1));
    }

    #[test]
    fn a_copy_is_excused_a_window_before_the_refused_record_only() {
        let life = log(&[(1, 0), (2, 299), (1, 300)]);
        assert_eq!(verdicts(&life), [Verdict::New, Verdict::New, Verdict::OutOfOrder]);
        assert!(is_forgotten_between(&life, 1, 1, WINDOW_S));
        assert!(!is_forgotten_between(&life, 1, 1, WINDOW_S + 1));
    }

    #[test]
    fn a_refused_record_that_is_lost_counts_in_its_own_log() {
        let mut life = log(&[(1, 0), (2, 299), (1, 300)]);
        let kept = life.path()[..2].to_vec();
        life.begin(2, kept);
        assert!(is_forgotten_between(&life, 1, 1, WINDOW_S));
        assert!(!is_forgotten_between(&life, 1, 1, WINDOW_S + 1));
    }

    #[test]
    fn another_publication_excuses_nothing() {
        let life = log(&[(2, 0), (1, 10), (3, 400)]);
        assert_eq!(refused_records(&life, 1).count(), 1);
        assert_eq!(refused_records(&life, 3).count(), 0);
        assert!(!is_forgotten_between(&life, 3, 3, WINDOW_S));
    }
}
