//! Messages between a home and an engine: a log outside of the node that speaks the Kafka protocol,
//! orders the records of all nodes, and keeps them. Plain values, carried by the node between the
//! home's thread and the engine's.
//!
//! A home proposes a publication with [`EngineRequest::Publish`]. It learns of the outcome as every
//! other node does, from the *tail*: the records of the partition in the engine's order. So an
//! acknowledgement never contradicts what subscribers see. The home recognises its own publication
//! by the [`RunName`] in the record.
//!
//! Offsets are the engine's plus one, because 0 is the position before the first record. Between
//! two records some may be missing (markers, aborted or unroutable records); [`Tail::through`]
//! settles them.
//!
//! The epoch of a partition is made of the engine's identity of the topic and of a *lineage*, the
//! engine's leader epoch. A new lineage that begins behind the last record invalidates nothing. One
//! that begins below it has lost records; then the partition begins anew ([`Restart`]).
//!
//! Order: letters about one partition arrive in the order of the engine. The first is a
//! [`Restart`], and no record comes between the loss of the tail and the next `Restart`.

use crate::ids::PartitionId;
use crate::mail::{Code, Publication};
use stdx::handing::Hand;

/// The time in which repetitions are recognised, by the engine's clock; alike on all nodes. A
/// partition begins twice as far back ([`Restart::after`]), or at the beginning of its log. The
/// engine keeps records for three times as long.
pub const WINDOW_MS: u64 = 300_000;
/// Names of producers' publications and idempotency keys that a partition recognises; alike on all
/// nodes.
pub const NAMES_MAX: usize = 32_768;
/// Nodes' wall clocks may differ by so much, in milliseconds; alike on all nodes. Connections of
/// one producer to two nodes that began within this time do not fence each other.
pub const CLOCKS_APART_MS: u64 = 5_000;

/// The name of a publication that a home gives it, to recognise its record in the tail. Unique over
/// all nodes and starts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Hand)]
pub struct RunName {
    /// One start of one home: random.
    pub run: u64,
    /// Rises by one with each publication of the run in a partition.
    pub counter: u64,
}

/// Home to engine.
#[derive(Clone, Debug)]
pub enum EngineRequest {
    /// Append a record. The tail answers, or [`EngineLetter::Refused`].
    Publish(EnginePublish),
    /// The home has dealt with letters: the engine may bring so many bytes more.
    Credit {
        /// Bytes, by [`Tail::cost`].
        bytes: u32,
    },
}

/// Asks for a record to be appended.
#[derive(Clone, Debug)]
pub struct EnginePublish {
    /// Numbered over all logs.
    pub partition: PartitionId,
    /// In the record, and in the refusal.
    pub name: RunName,
    /// The message. `ProducerStamp::connection` is comparable over all nodes. In a log whose topic
    /// is compacted, an empty one with `retain` is a tombstone.
    pub publication: Publication,
    /// It is the retained message of its topic once more.
    pub restored: Option<Box<Restored>>,
    /// The payload is not a message, but a node's record of its groups for other nodes. It belongs
    /// into this partition, whatever its topic.
    pub is_register: bool,
}

/// The origin of a retained message that a home has written again, behind a record that all nodes
/// drop: compaction would keep that one. Subscribers do not get the record. In a partition without
/// the newest accepted record it is the retained message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub struct Restored {
    /// The present epoch at the home. Where `seen` is not a valid position of it, the offsets mean
    /// nothing: the log is another one, or has lost records.
    pub epoch: u64,
    /// The offset of the newest accepted record of the topic; 0 if none is known.
    pub offset: u64,
    /// The engine's time of that record, in milliseconds since 1970; 0 without a retained message.
    pub time_ms: u64,
    /// The home had read everything up to this offset.
    pub seen: u64,
}

/// Engine to home.
#[derive(Clone, Debug, Hand)]
pub enum EngineLetter {
    /// The next records of a partition.
    Tail(Tail),
    /// Publications that were refused before they were sent: they are not in the log, nor ever will
    /// be.
    Refused {
        /// Numbered over all logs.
        partition: PartitionId,
        /// The counters of the publications.
        counters: Vec<u64>,
        /// The reason.
        code: Code,
    },
    /// A partition begins, or begins anew: all records in memory are dropped.
    Restart(Restart),
    /// Whether the partition takes publications now. Said when it changes.
    Available {
        /// Numbered over all logs.
        partition: PartitionId,
        /// Whether the engine has a leader that takes records.
        is_available: bool,
    },
}

/// Records of one partition, in the engine's order.
#[derive(Clone, Debug, Hand)]
pub struct Tail {
    /// Numbered over all logs.
    pub partition: PartitionId,
    /// Offsets rise; all are above those of earlier letters, and at most `through`.
    pub records: Vec<TailRecord>,
    /// Everything up to this offset is settled: what lies there and is not in `records` is no
    /// record of a topic.
    pub through: u64,
    /// So many milliseconds ago the engine had nothing behind `through`, as far as that is known.
    pub ended_ago_ms: Option<u64>,
}

/// A record of the engine.
#[derive(Clone, Debug, Hand)]
pub struct TailRecord {
    /// The engine's offset plus one.
    pub offset: u64,
    /// The leader epoch in which the engine took it. Never falls within a partition's life.
    pub lineage: u32,
    /// The time at which the engine took it, in milliseconds since 1970.
    pub time_ms: u64,
    /// The name that a home gave it; none for records of other producers.
    pub name: Option<RunName>,
    /// The message. It has no `expected_epoch`: that was examined before. An empty one with
    /// `retain` is a tombstone.
    pub publication: Publication,
    /// It repeats the retained message of its topic, and subscribers do not get it.
    pub restored: Option<Box<Restored>>,
    /// The payload is not a message, but a node's record of its groups for other nodes.
    pub is_register: bool,
}

/// The beginning of a partition's life at a node.
#[derive(Clone, PartialEq, Eq, Debug, Hand)]
pub struct Restart {
    /// Numbered over all logs.
    pub partition: PartitionId,
    /// The engine's identity of the topic, 31 bits: the upper half of the epoch.
    pub topic_id: u32,
    /// Lineages of records up to `head`, as far as they are known, oldest first, each with its
    /// first offset; the tail tells of those above `after`. Positions of other lineages are not
    /// valid, so none is named of which every record may be lost: neither one without a record
    /// nor one with records above `head` only.
    pub lineages: Vec<LineageStart>,
    /// The offset before the first record that follows.
    pub after: u64,
    /// All records that are not behind `after`, and those that the engine has removed, are older
    /// than this time of the engine, in milliseconds since 1970; 0 if there never was one.
    pub complete_from_ms: u64,
    /// The node serves no record up to this offset: these only prime the recognition of
    /// repetitions. It serves none behind it either, before it knows as much of the records before
    /// as all other nodes: two windows behind `complete_from_ms` at the latest.
    pub primed_through: u64,
    /// The node's mirror ends with a record at `primed_through`, as far as the engine knows: if the
    /// tail brings it again in its lineage, the node serves the mirror's records as well.
    pub follows_mirror: bool,
    /// The newest offset when the partition began: the node is ready when the tail has reached it.
    pub head: u64,
}

/// The end of a partition's mirror on this node's disk, at the node's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MirrorEnd {
    /// Numbered over all logs.
    pub partition: PartitionId,
    /// [`Restart::topic_id`] of its records.
    pub topic_id: u32,
    /// The mirror has every record from this offset on.
    pub floor: u64,
    /// The mirror had earlier ones, and has dropped them for their age or size.
    pub is_trimmed: bool,
    /// The offset of its newest record.
    pub head: u64,
    /// The engine's time of that record, in milliseconds since 1970.
    pub head_ms: u64,
    /// The leader epoch of that record.
    pub lineage: u32,
}

/// The first offset of a lineage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub struct LineageStart {
    /// The leader epoch.
    pub lineage: u32,
    /// The first offset at which the engine could take a record in it.
    pub start: u64,
}

impl Tail {
    /// The part of a home's credit that this letter takes, in bytes.
    pub fn cost(&self) -> u32 {
        let of_record = |record: &TailRecord| record.cost();
        self.records.iter().map(of_record).fold(LETTER_BYTES, u32::saturating_add)
    }
}

impl TailRecord {
    /// The part of a home's credit that this record takes, in bytes.
    pub fn cost(&self) -> u32 {
        let Publication { topic, payload, attributes, .. } = &self.publication;
        let bytes = topic.len() + payload.len() + attributes.len();
        u32::try_from(bytes).unwrap_or(u32::MAX).saturating_add(LETTER_BYTES)
    }
}

/// The cost of a letter or of a record beside its bytes.
const LETTER_BYTES: u32 = 64;
