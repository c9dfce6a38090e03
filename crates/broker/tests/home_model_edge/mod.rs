//! An edge of the home's model test: it follows the contract of `broker::mail` and holds what it
//! sees against the list.

use crate::support::EPOCH;
use crate::{FILTERS, Model};
use broker::mail::*;
use broker::topic::Filter;
use log::RecordView;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use stdx::chunk::Slice;
use stdx::key::Key;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum State {
    Asked,
    Replaying,
    Live,
}

#[derive(Debug)]
pub struct Subscription {
    pub key: u32,
    pub topic: &'static str,
    pub partition: PartitionId,
    pub index: u32,
    pub through: u64,
    /// The position that the client reported. A stream that lags behind it may still carry older
    /// records.
    pub known: u64,
    pub state: State,
}

/// The edge's state of an index.
pub struct Known {
    pub topic: String,
    pub partition: PartitionId,
    pub generation: u32,
    pub announced: bool,
}

#[derive(Default)]
pub struct Edge {
    pub requests: VecDeque<ToHome>,
    pub letters: VecDeque<ToEdge>,
    pub subscriptions: Vec<Subscription>,
    pub indexes: BTreeMap<u32, Known>,
    pub filters: BTreeSet<usize>,
    /// Those of them whose grant has arrived; until then messages may still be for an earlier life
    /// of the filter.
    pub granted: BTreeSet<usize>,
    /// The number of the newest question for each filter.
    pub asked: BTreeMap<usize, u32>,
    /// Newest offset of each topic that came while filters covered it and the stream was
    /// whole.
    pub filtered: BTreeMap<String, u64>,
    /// Cost of letters received and not given back.
    pub owed: u32,
    pub next_key: u32,
}

/// One record as published.
pub struct Published {
    pub topic: String,
    pub payload: Vec<u8>,
}

impl Edge {
    /// Subscribes to a topic of a partition whose head the caller knows.
    pub fn subscribe(
        &mut self,
        rule: u16,
        partition: PartitionId,
        topic: &'static str,
        start: Start,
        head: u64,
    ) {
        self.next_key += 1;
        let through = match start {
            Start::Since(position) if position.epoch == EPOCH => position.offset,
            _ => 0,
        };
        self.subscriptions.push(Subscription {
            key: self.next_key,
            topic,
            partition,
            index: 0,
            through,
            // A position beyond the head says nothing of this log.
            known: if through <= head { through } else { 0 },
            state: State::Asked,
        });
        self.requests.push_back(ToHome::Subscribe(Subscribe {
            partition,
            rule,
            topic: slice(topic),
            subscription: key(self.next_key),
            start,
        }));
    }

    pub fn add_filter(&mut self, filter: usize) {
        if self.filters.insert(filter) {
            self.next_key += 1;
            self.asked.insert(filter, self.next_key);
            self.requests.push_back(ToHome::AddFilter(AddFilter {
                begins_at_head: false,
                user: 0,
                filter: slice(FILTERS[filter]),
                subscription: Key { index: filter as u32, generation: self.next_key },
                since: Vec::new(),
            }));
        }
    }

    /// Returns the credit for received letters.
    pub fn credit(&mut self) {
        let bytes = std::mem::take(&mut self.owed);
        self.requests.push_back(ToHome::Credit { bytes });
    }

    /// Neither requests nor letters are under way.
    pub fn is_quiet(&self) -> bool {
        let rest = self.requests.iter().all(|r| matches!(r, ToHome::Credit { bytes: 0 }));
        rest && self.letters.is_empty()
    }

    /// Each subscription is live and has all messages of its topic.
    pub fn check_at_rest(&self, model: &Model) {
        for subscription in &self.subscriptions {
            assert_eq!(subscription.state, State::Live, "{subscription:?}");
            let Subscription { partition, topic, through, .. } = *subscription;
            let missing = model.between(partition, topic, through, u64::MAX);
            assert_eq!(missing, [0; 0], "{subscription:?}");
        }
    }

    pub fn unsubscribe(&mut self, nth: usize) {
        let settled = |s: &Subscription| s.state != State::Asked;
        let count = self.subscriptions.iter().filter(|s| settled(s)).count();
        if count == 0 {
            return;
        }
        let places = self.subscriptions.iter().enumerate().filter(|(_, s)| settled(s));
        let place = places.map(|(place, _)| place).nth(nth % count).unwrap();
        self.remove(place);
    }

    /// A subscription has been refused, by its key.
    fn end(&mut self, key: u32) {
        if let Some(place) = self.subscriptions.iter().position(|s| s.key == key) {
            self.remove(place);
        }
    }

    fn remove(&mut self, place: usize) {
        let settled = |s: &Subscription| s.state != State::Asked;
        let gone = self.subscriptions.remove(place);
        if !settled(&gone) {
            return;
        }
        let others = self.subscriptions.iter();
        if !others.clone().any(|s| settled(s) && s.index == gone.index) {
            let generation = self.indexes[&gone.index].generation;
            self.requests.push_back(ToHome::Release { index: gone.index, generation });
        }
    }

    pub fn read(requests: &mut VecDeque<ToHome>, subscription: &Subscription) {
        requests.push_back(ToHome::Read(ReadTopic {
            partition: subscription.partition,
            index: subscription.index,
            subscription: key(subscription.key),
            after: subscription.through,
            mode: ReadMode::Replay,
            limits: PageLimits { records_max: 3, bytes_max: 400 },
        }));
    }

    pub fn receive(&mut self, letter: ToEdge, model: &Model) {
        match letter {
            ToEdge::Granted(grant) => self.granted(grant, model),
            ToEdge::Refused { subscription, code } => {
                assert!(matches!(code, Code::TopicsFull | Code::LogUnavailable));
                self.end(subscription.index);
            }
            ToEdge::Page(page) => self.page(page, model),
            ToEdge::Announce { index, partition, topic } => {
                let topic = text(&topic);
                let known = self.indexes.entry(index).or_insert_with(|| Known {
                    topic: topic.clone(),
                    partition,
                    generation: 0,
                    announced: true,
                });
                assert_eq!((&known.topic, known.partition), (&topic, partition));
                known.announced = true;
            }
            ToEdge::Message { index, record } => self.message(index, &record, model),
            ToEdge::Released { index } => {
                assert!(self.indexes.remove(&index).is_some(), "released twice");
                let users = self.subscriptions.iter();
                let users = users.filter(|s| s.state != State::Asked && s.index == index);
                assert_eq!(users.count(), 0, "released in use");
            }
            ToEdge::StreamGap { partition, from, to } => {
                assert!(from < to);
                self.filtered.clear();
                for subscription in &mut self.subscriptions {
                    if subscription.partition == partition && subscription.state == State::Live {
                        subscription.settle(from, model);
                        subscription.state = State::Replaying;
                        Edge::read(&mut self.requests, subscription);
                    }
                }
            }
            ToEdge::FilterGranted { result, subscription } => {
                assert!(result.is_ok());
                let filter = subscription.index as usize;
                if self.asked.get(&filter) == Some(&subscription.generation) {
                    self.granted.insert(filter);
                }
            }
            ToEdge::Published { .. } | ToEdge::Consumed { .. } | ToEdge::Stalled { .. } => {}
            ToEdge::Epoch { .. } | ToEdge::Restarted { .. } => panic!("there is no engine"),
            ToEdge::History { .. }
            | ToEdge::FilterPage(..)
            | ToEdge::Described(..)
            | ToEdge::RetainedFound(..)
            | ToEdge::RecordFound(..)
            | ToEdge::Claimed { .. }
            | ToEdge::TakenOver { .. }
            | ToEdge::WillLeft { .. }
            | ToEdge::Group(..)
            | ToEdge::SessionsSleep(..)
            | ToEdge::Positions { .. } => panic!("nobody asked"),
        }
    }

    fn granted(&mut self, grant: Grant, model: &Model) {
        let Grant { subscription: asked, index, generation, position, .. } = grant;
        let Grant { replaying, gap, retained, partition, .. } = grant;
        let through = position.offset;
        let subscription = self.subscriptions.iter_mut().find(|s| s.key == asked.index).unwrap();
        let known = self.indexes.entry(index).or_insert_with(|| Known {
            topic: subscription.topic.into(),
            partition,
            generation,
            announced: false,
        });
        assert_eq!((known.topic.as_str(), known.partition), (subscription.topic, partition));
        assert!(known.generation <= generation);
        known.generation = generation;
        if let Some(retained) = &retained {
            // A stream that lags may still bring it.
            subscription.known = RecordView::parse(retained).unwrap().offset();
            assert!(subscription.known <= through);
        }
        // Nothing may lie between the asked position, the gap and `through`.
        if let Some(gap) = gap {
            assert!(gap.to <= through);
            let foreign = matches!(gap.reason, GapReason::UnknownEpoch | GapReason::BeyondHead);
            assert_eq!(gap.from, if foreign { 0 } else { subscription.through });
            subscription.through = gap.to;
        } else if subscription.through == 0 || retained.is_some() {
            subscription.through = through; // a start without a position begins there
        }
        subscription.index = index;
        subscription.settle(through, model);
        subscription.state = if replaying { State::Replaying } else { State::Live };
        if replaying {
            Edge::read(&mut self.requests, subscription);
        }
    }

    fn page(&mut self, page: Page, model: &Model) {
        let Page { subscription, gap, skipped, records, through, caught_up } = page;
        assert_eq!(skipped, None, "nobody asked to have anything left out");
        let Some(subscription) =
            self.subscriptions.iter_mut().find(|s| s.key == subscription.index)
        else {
            return;
        };
        if subscription.state == State::Live {
            return; // the page of a question from before a gap of the stream
        }
        if let Some(gap) = gap {
            assert!(gap.from >= subscription.through && gap.to > gap.from, "{gap:?}");
            subscription.settle(gap.from, model);
            subscription.through = gap.to;
        }
        for record in &records {
            subscription.take(record, model);
        }
        subscription.settle(through, model);
        if caught_up {
            subscription.state = State::Live
        } else {
            Edge::read(&mut self.requests, subscription)
        }
    }

    pub fn message(&mut self, index: u32, record: &Slice, model: &Model) {
        let known = self.indexes.get(&index).expect("an index that stands for a topic");
        let mut wanted = false;
        for subscription in &mut self.subscriptions {
            if subscription.state != State::Asked && subscription.index == index {
                wanted = true;
                if subscription.state == State::Live {
                    subscription.take(record, model);
                }
            }
        }
        let filters = self.granted.iter().map(|filter| Filter::parse(FILTERS[*filter]).unwrap());
        let covered = filters.into_iter().any(|filter| filter.matches(&known.topic));
        assert!(wanted || known.announced || known.generation > 0, "for nobody");
        if covered && known.announced {
            let view = RecordView::parse(record).unwrap();
            let newest = self.filtered.entry(known.topic.clone()).or_insert(view.offset() - 1);
            let missing = model.between(known.partition, &known.topic, *newest, view.offset() - 1);
            assert!(missing.is_empty() && view.offset() > *newest, "{missing:?}");
            *newest = view.offset();
        }
    }
}

impl Subscription {
    /// A record for this subscription: the next of its topic.
    pub fn take(&mut self, record: &Slice, model: &Model) {
        let view = RecordView::parse(record).unwrap();
        let offset = view.offset();
        if offset <= self.known {
            return;
        }
        assert!(offset > self.through, "{self:?} sees {offset} again");
        assert!(view.prev() <= self.through, "{self:?} sees {} before {offset}", view.prev());
        let published = model.record(self.partition, offset);
        assert_eq!(
            (published.topic.as_str(), &published.payload[..]),
            (self.topic, view.payload())
        );
        self.settle(offset - 1, model);
        self.through = offset;
    }

    /// Nothing of the topic lies between here and `through`.
    pub fn settle(&mut self, through: u64, model: &Model) {
        let missing = model.between(self.partition, self.topic, self.through, through);
        assert!(missing.is_empty(), "{self:?} through {through} misses {missing:?}");
        self.through = self.through.max(through);
    }
}

pub fn key(index: u32) -> Key {
    Key { index, generation: 0 }
}

pub fn slice(text: &str) -> Slice {
    Slice::copy_of(text.as_bytes())
}

pub fn text(slice: &Slice) -> String {
    String::from_utf8(slice.to_vec()).unwrap()
}
