//! A home's answers to operators about its topics.
//!
//! Beside the path; see [`crate::inspect`]. Invariant: one question examines [`LOOKED_AT_MAX`]
//! topics at most, or counts [`COUNTED_RECORDS_MAX`] records of one.

use super::{Home, Interests};
use crate::inspect::{
    ANSWER_LEN_MAX, Answer, COUNTED_BYTES_MAX, COUNTED_RECORDS_MAX, LOOKED_AT_MAX, Question,
    RECENT_MS, RECENT_RECORDS_MAX, RECENT_RECORDS_OF_ANSWER_MAX, Recent, Topic, TopicDetail,
    TopicsWanted,
};
use crate::mail::{EdgeId, PartitionId};
use crate::position::Position;
use log::RecordView;

impl Home {
    /// Answers a question of an operator.
    pub fn inspect(&self, question: &Question) -> Answer {
        match question {
            Question::Topics { from, wanted, len_max, now_ms } => {
                self.list_topics(*from, wanted, *len_max, *now_ms)
            }
            Question::Topic { partition, name, now_ms } => {
                Answer::Topic(self.describe_topic(*partition, name, *now_ms).map(Box::new))
            }
            Question::Names { edge, indexes } => {
                let indexes = indexes.iter().take(ANSWER_LEN_MAX as usize);
                Answer::Names(indexes.map(|&index| self.name_of_index(*edge, index)).collect())
            }
            Question::Connections { .. }
            | Question::Connection(_)
            | Question::Subscriptions { .. }
            | Question::Disconnect { .. }
            | Question::Subscribers { .. }
            | Question::History { .. }
            | Question::Publish(_) => Answer::NotHere,
        }
    }

    fn list_topics(&self, from: u32, wanted: &TopicsWanted, len_max: u32, now_ms: u64) -> Answer {
        let len_max = len_max.clamp(1, ANSWER_LEN_MAX) as usize;
        let topics = &self.interests.topics;
        let end = topics.places().min(from.saturating_add(LOOKED_AT_MAX));
        let mut found = Vec::new();
        let mut recent_max = RECENT_RECORDS_OF_ANSWER_MAX;
        for id in from..end {
            let name = std::str::from_utf8(topics.name(id)).unwrap_or_default();
            // No topic has an empty name.
            if name.is_empty() || !wanted.wants(name) {
                continue;
            }
            if found.len() == len_max {
                return Answer::Topics(found, Some(id));
            }
            let Some(mut topic) = self.topic_of(id) else {
                continue;
            };
            if recent_max >= RECENT_RECORDS_MAX {
                topic.recent = self.recent_of(id, now_ms);
                recent_max -= topic.recent.map_or(0, |recent| recent.messages);
            }
            found.push(topic);
        }
        Answer::Topics(found, (end < topics.places()).then_some(end))
    }

    fn topic_of(&self, id: u32) -> Option<Topic> {
        let Interests { topics, .. } = &self.interests;
        let topic = topics.get(id)?;
        let partition = &self.partitions[topic.partition as usize];
        let retained = self.retained.get(topic.retained);
        let retained = retained.and_then(|record| RecordView::parse(record));
        let edges = (0..).map_while(|nth| topics.interest_at(id, nth));
        Some(Topic {
            name: String::from_utf8_lossy(topics.name(id)).into(),
            partition: partition.id,
            // An inherited `last` lies below all records.
            head: (topic.last() >= partition.floor() && topic.last() > 0).then(|| Position {
                epoch: partition.lineages.present_epoch(),
                offset: topic.last(),
            }),
            recent: None,
            retained_bytes: retained.map(|record| record.payload().len() as u32),
            edges: edges.map(|interest| (interest.edge, interest.index)).collect(),
        })
    }

    /// Counts the recent messages of a topic. A topic without any gives its newest record.
    fn recent_of(&self, id: u32, now_ms: u64) -> Option<Recent> {
        let topic = self.interests.topics.get(id)?;
        let partition = &self.partitions[topic.partition as usize];
        let since_ms = now_ms.saturating_sub(RECENT_MS);
        let recent = partition.log.recent_of_topic(id, topic.last(), RECENT_RECORDS_MAX, since_ms);
        Some(Recent {
            messages: recent.count,
            span_ms: if recent.is_cut {
                now_ms.saturating_sub(recent.oldest_ms).max(1)
            } else {
                RECENT_MS
            },
        })
    }

    fn describe_topic(
        &self,
        partition: PartitionId,
        name: &str,
        now_ms: u64,
    ) -> Option<TopicDetail> {
        let local = self.local(partition)?;
        let id = self.interests.topics.find(name.as_bytes(), local)?;
        let mut topic = self.topic_of(id)?;
        topic.recent = self.recent_of(id, now_ms);
        let entry = self.interests.topics.get(id)?;
        let partition = &self.partitions[local as usize];
        let limits = log::PageLimits {
            records_max: COUNTED_RECORDS_MAX as usize,
            bytes_max: COUNTED_BYTES_MAX as usize,
        };
        let mut records = Vec::new();
        let last = entry.last();
        let page = partition.log.read_topic_back(id, last, u64::MAX, limits, &mut records);
        let position_of = |record: &[u8]| {
            RecordView::parse(record).map(|record| Position {
                epoch: partition.lineages.present_epoch(),
                offset: record.offset(),
            })
        };
        Some(TopicDetail {
            partition_head: Position {
                epoch: partition.lineages.present_epoch(),
                offset: partition.log.head(),
            },
            records: records.len() as u32,
            records_bytes: records.iter().map(|record| record.len() as u64).sum(),
            is_all: page.complete,
            oldest: records.last().and_then(|record| position_of(record)),
            retained: self.retained.get(entry.retained).and_then(|record| position_of(record)),
            topic,
        })
    }

    fn name_of_index(&self, edge: EdgeId, index: u32) -> Box<str> {
        let Interests { topics, edges, .. } = &self.interests;
        let edge = edges.get(usize::from(edge));
        let topic = edge.and_then(|edge| edge.indexed(index));
        let name = topic.map_or(&[][..], |(topic, _)| topics.name(topic));
        String::from_utf8_lossy(name).into()
    }
}
