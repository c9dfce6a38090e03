//! Event streams: how they begin, and where their cursors stand.

use crate::edge::Edge;
use crate::entitlement::Action;
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{PartitionId, Start};
use crate::notice::{Settles, Since, SubscribeTerms};
use crate::position::Position;
use crate::protocol::{Protocol, flag};
use crate::session::State;
use crate::session::events::cursor::StreamCursor;
use crate::session::events::{self, Events, StreamStart, StreamTopic, UNKNOWN};
use crate::session::http::answer::Answer;
use crate::session::http::fault::Fault;
use crate::topic::Filter;
use wire::http::Target;
use wire::http::request::Request;
use wire::native::ErrorCode;

impl Edge {
    /// `GET /topics/...` with `Accept: text/event-stream`.
    pub(crate) fn begin_raw_stream(
        &mut self,
        index: ConnIndex,
        request: &Request<'_>,
        target: &Target<'_>,
        topic: String,
        answer: &Answer,
    ) -> Result<(), Fault> {
        let (start, policy) = events::raw_start(request, target)?;
        self.open_stream(index, answer, flag::RAW);
        let terms = SubscribeTerms { policy, ..SubscribeTerms::from(start) };
        self.subscribe_plain(index, &topic, 0, terms);
        Ok(())
    }

    /// `GET /events?topic=...&topic=...`.
    pub(crate) fn begin_stream(
        &mut self,
        index: ConnIndex,
        request: &Request<'_>,
        target: &Target<'_>,
        answer: &Answer,
    ) -> Result<(), Fault> {
        let topics = events::topics(target, &self.settings)?;
        for topic in &topics {
            self.permit_request(index, Action::Subscribe, &topic.name)?;
        }
        let subscriptions_max = self.subscriptions_max(index);
        if topics.len() > subscriptions_max as usize {
            self.statistics.turned_away.subscriptions_too_many += 1;
            let detail = format!("at most {subscriptions_max} subscriptions");
            return Err(Fault::new(ErrorCode::TooManySubscriptions, detail));
        }
        let stream = events::start(request, target, &topics)?;
        self.open_stream(index, answer, 0);
        self.subscribe_stream(index, topics, stream);
        Ok(())
    }

    fn subscribe_stream(
        &mut self,
        index: ConnIndex,
        topics: Vec<StreamTopic>,
        stream: StreamStart,
    ) {
        let StreamStart { start, last_event_id, policy, data } = stream;
        let kinds: Vec<bool> = topics.iter().map(|topic| topic.is_filter).collect();
        let mut cursor = StreamCursor::new(&kinds);
        // Until the start of a topic is sent, the client's cursor holds for it. An unreadable
        // cursor is an unknown one: everything is a gap.
        let returned = last_event_id.map(|text| {
            cursor.read(&text, &self.settings);
            cursor.clone()
        });
        let wanted = topics.clone();
        self.set_state(
            index,
            State::Events(Box::new(Events { topics: topics.into(), cursor, data })),
        );
        // All filters of a stream share one cursor. Any of them may be refused, so each is asked
        // for with it.
        let since = match &returned {
            None => Vec::new(),
            Some(cursor) => cursor.partitions(&self.settings),
        };
        for (number, StreamTopic { name, is_filter }) in wanted.iter().enumerate() {
            let client = number as u32;
            if *is_filter {
                if let Ok(filter) = Filter::parse(name) {
                    // The position of a refused filter is unknown: it begins where the stream is.
                    let is_absent = |cursor: &StreamCursor| cursor.is_absent(number);
                    let since =
                        if returned.as_ref().is_some_and(is_absent) { &[] } else { &since[..] };
                    let since = Since::After(since);
                    self.subscribe_filter(index, filter, client, since, false, policy);
                }
                continue;
            }
            let start = match &returned {
                None => start,
                Some(cursor) => Start::Since(cursor.topic(number).unwrap_or(UNKNOWN)),
            };
            let terms = SubscribeTerms { policy, ..SubscribeTerms::from(start) };
            self.subscribe_plain(index, name, client, terms);
        }
    }

    fn open_stream(&mut self, index: ConnIndex, answer: &Answer, raw: u32) {
        let head = events::encode::head(answer);
        self.send_private(index, &head);
        self.record_answer(index, 200, head.len());
        let slot = &mut self.connections.slots[index];
        slot.protocol = Protocol::Events;
        slot.set(raw);
        self.statistics.event_streams += 1;
        self.session_began(index);
        self.stamp(index);
        self.expect_acknowledgements(index);
    }

    /// Moves the stream's cursor: everything for filters up to here, in one partition, has been
    /// sent, and nothing beyond it.
    pub(crate) fn stream_filters_at(
        &mut self,
        index: ConnIndex,
        partition: PartitionId,
        offset: u64,
    ) {
        let settles = Settles::Filters { partition, after: offset, through: offset };
        self.session(index).settle(settles);
    }

    /// Moves the stream's cursor: everything of this topic up to here has been sent, and nothing
    /// beyond it.
    pub(crate) fn stream_at(&mut self, index: ConnIndex, subscription: SubIndex, offset: u64) {
        let client = self.subscriptions[subscription].client;
        let position = Position { epoch: self.subscription_epoch(subscription), offset };
        self.session(index).settle(Settles::Topic { client, from: offset, position });
    }
}
