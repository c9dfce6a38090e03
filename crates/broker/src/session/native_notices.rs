//! Frames of the native protocol for what an edge has to say.

use crate::attributes::{append_attributes, retained};
use crate::edge::{Edge, flag};
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{Appended, Gap, GapReason, HistoryPage, PublishRefusal};
use crate::notice::{Grant, LeftOut, Refusal};
use crate::settings::LagPolicy;
use log::RecordView;
use wire::native::{
    self, Attributes, Beginning, CaughtUp, CloseCode, ErrorCode, ErrorFrame, GoAway, HistoryRecord,
    List, PageGap, PlainTopic, Published, Reference, ServerFrame, Subscribed, SubscribedTo,
    UnsubscribeCode, Unsubscribed,
};
use wire::websocket::frame::{Opcode, encode_header};

impl Edge {
    pub(crate) fn native_subscribed(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        grant: &Grant,
    ) {
        let client = self.subscription_client(subscription);
        let (home, topic) = self.subscription_topic(subscription);
        // A retained message stands before what is settled; CAUGHT_UP settles what lies between.
        let retained_prev = grant
            .retained
            .as_ref()
            .and_then(|record| RecordView::parse(record))
            .map(|view| view.prev());
        let offset = retained_prev.unwrap_or(grant.position.offset);
        let through = native::Position { epoch: grant.position.epoch, offset };
        let beginning = Beginning {
            through,
            replaying: grant.replaying || grant.retained.is_some(),
            continued: grant.continued,
        };
        let to = SubscribedTo::Topic(PlainTopic { alias: self.alias(home, topic), beginning });
        self.send_native(index, &ServerFrame::Subscribed(Subscribed { subscription: client, to }));
        if let Some(gap) = grant.gap {
            self.statistics.gaps += 1;
            let frame = self.gap_frame(subscription, gap);
            self.send_native(index, &ServerFrame::Gap(frame));
        }
        if let Some(record) = &grant.retained {
            self.deliver_retained(subscription, record);
            if !grant.replaying {
                let frame = CaughtUp {
                    subscription: client,
                    partition: None,
                    through: grant.position.offset,
                };
                self.send_native(index, &ServerFrame::CaughtUp(frame));
            }
        }
    }

    pub(crate) fn native_refused(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        refusal: Refusal,
    ) {
        let client = self.subscription_client(subscription);
        let restart = refusal
            .restart
            .map(|position| native::Position { epoch: position.epoch, offset: position.offset });
        let frame = ErrorFrame {
            limit: refusal.limit,
            restart,
            ..ErrorFrame::new(Reference::Subscription(client), refusal.code)
        };
        self.send_native(index, &ServerFrame::Error(frame));
    }

    /// A gap that a page found.
    pub(crate) fn native_gap(&mut self, index: ConnIndex, subscription: SubIndex, gap: Gap) {
        let frame = self.gap_frame(subscription, gap);
        let settled = (gap.from, gap.to);
        self.send_native_mark(index, subscription, settled, &ServerFrame::Gap(frame));
    }

    fn gap_frame(&self, subscription: SubIndex, gap: Gap) -> native::Gap {
        native::Gap {
            subscription: self.subscription_client(subscription),
            partition: None,
            epoch: self.subscription_epoch(subscription),
            from: gap.from,
            to: gap.to,
            reason: wire_reason(gap.reason),
        }
    }

    /// Messages that the subscription's policy left out.
    pub(crate) fn native_left_out(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        left_out: LeftOut,
    ) {
        let LeftOut { from, through, reason } = left_out;
        let frame = native::Skipped {
            subscription: self.subscription_client(subscription),
            partition: None,
            from,
            through,
            reason,
        };
        let settled = (from, through);
        self.send_native_mark(index, subscription, settled, &ServerFrame::Skipped(frame));
    }

    pub(crate) fn native_disconnected(&mut self, index: ConnIndex, subscription: SubIndex) {
        let frame = Unsubscribed {
            subscription: self.subscription_client(subscription),
            code: u32::from(UnsubscribeCode::SlowConsumer.number()),
        };
        self.send_native(index, &ServerFrame::Unsubscribed(frame));
    }

    pub(crate) fn native_caught_up(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        told: u64,
        through: u64,
    ) {
        let frame = CaughtUp {
            subscription: self.subscription_client(subscription),
            partition: None,
            through,
        };
        let settled = (told, through);
        self.send_native_mark(index, subscription, settled, &ServerFrame::CaughtUp(frame));
    }

    pub(crate) fn native_published(
        &mut self,
        index: ConnIndex,
        request: u32,
        result: Result<Appended, PublishRefusal>,
    ) {
        match result {
            Ok(Appended { position, duplicate }) => {
                let position = native::Position { epoch: position.epoch, offset: position.offset };
                self.send_native(
                    index,
                    &ServerFrame::Published(Published { request, position, duplicate }),
                );
            }
            Err(PublishRefusal { code, present }) => {
                let frame = ErrorFrame {
                    restart: present.map(|present| native::Position {
                        epoch: present.epoch,
                        offset: present.offset,
                    }),
                    ..ErrorFrame::new(Reference::Request(request), code)
                };
                self.send_native(index, &ServerFrame::Error(frame));
            }
        }
    }

    pub(crate) fn native_history(
        &mut self,
        index: ConnIndex,
        request: u32,
        result: Result<HistoryPage, ErrorCode>,
    ) {
        let page = match result {
            Ok(page) => page,
            Err(code) => return self.native_refuse(index, Reference::Request(request), code),
        };
        let views: Vec<RecordView<'_>> =
            page.records.iter().filter_map(|record| RecordView::parse(record)).collect();
        let blocks: Vec<Vec<u8>> = views
            .iter()
            .map(|view| {
                let mut block = Vec::new();
                append_attributes(view, &mut block);
                block
            })
            .collect();
        let records: Vec<HistoryRecord<'_>> = views
            .iter()
            .zip(&blocks)
            .map(|(view, block)| HistoryRecord {
                offset: view.offset(),
                prev: view.prev(),
                time_ms: view.time_ms(),
                retained: retained(view),
                attributes: Attributes::decode_block(block).unwrap_or_default(),
                payload: view.payload(),
            })
            .collect();
        let gap = page.gap.map(|gap| PageGap {
            from: gap.from,
            to: gap.to,
            reason: wire_reason(gap.reason),
        });
        let frame = native::HistoryPage {
            request,
            epoch: page.epoch,
            head: page.head,
            more: page.more,
            reverse: page.reverse,
            gap,
            records: List::from(records.as_slice()),
        };
        self.send_native(index, &ServerFrame::HistoryPage(frame));
    }

    /// Leads the client away, with a ticket if there is one. It may take its answers first, and
    /// subscribes to nothing more.
    pub(crate) fn native_go_away(
        &mut self,
        index: ConnIndex,
        return_after_ms: u64,
        ticket: Option<&[u8]>,
    ) {
        let code = u32::from(CloseCode::GoingAway.number());
        let settings = self.settings.clone();
        let urls = self.other_addresses(&settings, index);
        self.send_native(
            index,
            &ServerFrame::GoAway(GoAway {
                code,
                return_after_ms,
                urls: List::from(urls.as_slice()),
                ticket,
            }),
        );
        self.statistics.sent_away += 1;
        match self.lets_finish() {
            true => {
                self.connections.slots[index].set(flag::AWAY);
                self.unsubscribe_all(index);
            }
            false => self.close_native(index, CloseCode::GoingAway),
        }
    }

    pub(crate) fn native_ping(&mut self, index: ConnIndex) {
        let token = u64::from(self.now_s());
        self.send_native(index, &ServerFrame::Ping(token));
    }

    pub(crate) fn send_native(&mut self, index: ConnIndex, frame: &ServerFrame<'_>) {
        if self.connections.slots[index].is(flag::CLOSING) {
            return;
        }
        let (bytes, start) = self.encode_native(frame);
        if !self.send_packed(index, &bytes[HEADER_ROOM..]) {
            self.send_private(index, &bytes[start..]);
        }
        self.work.scratch = bytes;
        if let ServerFrame::Error(error) = frame {
            self.count_error(index, error);
        }
    }

    /// The same for what settles a plain subscription (`Edge::send_mark`).
    fn send_native_mark(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        (from, to): (u64, u64),
        frame: &ServerFrame<'_>,
    ) {
        if self.connections.slots[index].is(flag::CLOSING) {
            return;
        }
        let (bytes, start) = self.encode_native(frame);
        self.send_mark(subscription, from, to, &[&bytes[start..]]);
        self.work.scratch = bytes;
    }

    /// The frame and where it begins. The caller gives the buffer back to `self.work.scratch`.
    pub(crate) fn encode_native(&mut self, frame: &ServerFrame<'_>) -> (Vec<u8>, usize) {
        let mut bytes = std::mem::take(&mut self.work.scratch);
        bytes.clear();
        // Room for the longest header a server writes; the frame begins right behind the header it
        // gets.
        bytes.resize(HEADER_ROOM, 0);
        frame.encode(&mut bytes);
        let header = encode_header(true, Opcode::Binary, bytes.len() - HEADER_ROOM, None);
        let start = HEADER_ROOM - header.as_bytes().len();
        bytes[start..HEADER_ROOM].copy_from_slice(header.as_bytes());
        (bytes, start)
    }
}

pub(crate) fn policy_of(policy: native::Policy) -> LagPolicy {
    match policy {
        native::Policy::Replay => LagPolicy::Replay,
        native::Policy::Conflate => LagPolicy::Conflate,
        native::Policy::Drop => LagPolicy::Drop,
        native::Policy::Disconnect => LagPolicy::Disconnect,
    }
}

pub(crate) fn wire_reason(reason: GapReason) -> native::GapReason {
    match reason {
        GapReason::Evicted => native::GapReason::Evicted,
        GapReason::UnknownEpoch => native::GapReason::UnknownEpoch,
        GapReason::BeyondHead => native::GapReason::BeyondHead,
        GapReason::HistoryLimit => native::GapReason::HistoryLimit,
        GapReason::Damaged => native::GapReason::Damaged,
    }
}

const HEADER_ROOM: usize = 10;
