//! The record of a trial: publications, and the messages and gaps of subscribers.

use std::collections::BTreeMap;
use std::time::Instant;

/// Partitions of the log.
pub const PARTITIONS: u32 = 8;

/// A topic's place in the list of a trial.
pub type Topic = u16;

/// A message's name, unique in a trial: the numbers of the publisher and of the message. It is the
/// payload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Name {
    /// The publisher's number.
    pub publisher: u16,
    /// The message's number, from 1.
    pub number: u64,
}

impl Name {
    /// The payload of the message.
    pub fn payload(self) -> String {
        format!("{}-{}", self.publisher, self.number)
    }

    /// The name in a payload.
    pub fn of_payload(payload: &str) -> Option<Name> {
        let (publisher, number) = payload.split_once('-')?;
        Some(Name { publisher: publisher.parse().ok()?, number: number.parse().ok()? })
    }
}

/// The text of a topic.
pub fn topic_text(topic: Topic) -> String {
    format!("trial/{topic}")
}

/// The topic of a text.
pub fn topic_of(text: &str) -> Option<Topic> {
    text.strip_prefix("trial/")?.parse().ok()
}

/// The partition of a topic: Kafka's default partitioner on the topic as the key.
pub fn partition_of(topic: Topic) -> u32 {
    (murmur2(topic_text(topic).as_bytes()) & 0x7fff_ffff) % PARTITIONS
}

/// Kafka's hash of a key (`org.apache.kafka.common.utils.Utils.murmur2`).
fn murmur2(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ bytes.len() as u32;
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        let mut word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(M);
        word ^= word >> 24;
        hash = hash.wrapping_mul(M) ^ word.wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        rest.iter().enumerate().for_each(|(place, byte)| hash ^= u32::from(*byte) << (8 * place));
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// The time since a trial's start.
#[derive(Clone, Copy, Debug)]
pub struct Clock(pub Instant);

impl Clock {
    /// Microseconds since the start.
    pub fn now_us(self) -> u64 {
        self.0.elapsed().as_micros() as u64
    }
}

/// A publication through a node.
#[derive(Clone, Debug)]
pub struct Publication {
    /// The message's topic.
    pub topic: Topic,
    /// The time of the first attempt.
    pub sent_us: u64,
    /// The last answer of a node.
    pub outcome: Outcome,
}

/// The outcome of a publication.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// There is no final answer.
    Unknown,
    /// It has a position.
    Acknowledged {
        /// The time of the answer.
        at_us: u64,
        /// The offset in the topic's partition.
        offset: u64,
    },
    /// A final refusal, by its code: the message must never be delivered.
    Refused(String),
}

/// One thing that a subscriber got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item {
    /// A message.
    Message {
        /// Its topic.
        topic: Topic,
        /// Its offset in the topic's partition.
        offset: u64,
        /// Its name.
        name: Name,
    },
    /// A gap: messages after `from`, up to and including `to`.
    Gap {
        /// The topic; None for all topics of the partition.
        topic: Option<Topic>,
        /// The partition.
        partition: u32,
        /// The offset before the gap.
        from: u64,
        /// The last offset of the gap.
        to: u64,
        /// The log lacks the subscriber's position: all behind `to` that the log has lost before is
        /// in the gap, too.
        leads_back: bool,
        /// The time of its arrival.
        at_us: u64,
    },
}

/// A subscriber: its topics, and its messages and gaps in the order of arrival. It has begun before
/// the first publication.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Its topics.
    pub topics: Vec<Topic>,
    /// Messages and gaps.
    pub items: Vec<Item>,
}

/// A record that the engine has at the end, by its own consumer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    /// The topic.
    pub topic: Topic,
    /// The engine's offset plus one.
    pub offset: u64,
    /// The message's name.
    pub name: Name,
}

/// Everything of a trial.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Publications through nodes.
    pub publications: BTreeMap<Name, Publication>,
    /// The subscribers.
    pub subscribers: Vec<Seen>,
    /// The history of each node at the end, by topic: offsets and names.
    pub nodes: Vec<BTreeMap<Topic, Vec<(u64, Name)>>>,
    /// The records of the engine at the end.
    pub engine: Vec<Kept>,
    /// Whether the fault loses records, so that gaps have a cause.
    pub may_lose: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are those of Kafka's own tests (`UtilsTest.testMurmur2`).
    #[test]
    fn murmur2_is_that_of_kafka() {
        assert_eq!(murmur2(b"21").cast_signed(), -973_932_308);
        assert_eq!(murmur2(b"foobar").cast_signed(), -790_332_482);
        assert_eq!(murmur2(b"a-little-bit-long-string").cast_signed(), -985_981_536);
        assert_eq!(murmur2(b"abc").cast_signed(), 479_470_107);
    }

    #[test]
    fn names_are_payloads() {
        let name = Name { publisher: 3, number: 41 };
        assert_eq!(Name::of_payload(&name.payload()), Some(name));
        assert_eq!(Name::of_payload("hello"), None);
        assert_eq!(topic_of(&topic_text(7)), Some(7));
    }
}
