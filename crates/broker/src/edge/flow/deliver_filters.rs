//! Fan-out to subscriptions by filter: the topic's name travels in each frame, so no connection
//! keeps a table of names.
//!
//! Steps 8 and 9 of the path. Invariant: a native connection gets a message once however many of
//! its filters match, unless one of them catches up in the partition, in which case each
//! subscription gets a frame of its own; an event stream gets it once.

use crate::edge::Edge;
use crate::edge::compression::Packed;
use crate::edge::delivery::Delivery;
use crate::edge::outbox::{FrameNumber, Origin};
use crate::edge::subscriptions::{MatchedIndex, Stage};
use crate::ids::SubIndex;
use crate::mail::PartitionId;
use crate::notice::{Encoded, Settles};
use crate::protocol::Form;
use crate::session::native::encode as native;

impl Edge {
    /// The subscribers by filter: a native connection gets it once however many of its filters
    /// match, unless one of them catches up; an event stream gets it once.
    pub(crate) fn deliver_by_filter(
        &mut self,
        by_filter: MatchedIndex,
        partition: PartitionId,
        delivery: &Delivery<'_>,
    ) {
        let mut targets = std::mem::take(&mut self.work.targets);
        let topic = self.subscriptions.takers_by_filter(by_filter, &mut targets);
        let mut is_wanted = [false; Form::ALL.len()];
        let (mut has_streams, mut has_mqtt) = (false, false);
        for &subscription in &targets {
            let entry = &self.subscriptions[subscription];
            if entry.stage == Stage::Pending {
                self.passed_while_opening(subscription, partition);
                continue;
            }
            let facts = self.connections.slots[entry.connection].facts();
            if facts.has_one_cursor {
                has_streams = true;
            } else if facts.is_mqtt {
                has_mqtt = true;
            } else {
                let is_wanted = &mut is_wanted[facts.form as usize];
                *is_wanted = *is_wanted || !self.is_catching_up(subscription, partition);
            }
        }
        let topic = std::str::from_utf8(&topic).unwrap_or_default();
        for form in Form::ALL {
            if is_wanted[form as usize] {
                self.deliver_shared(form, &targets, topic, partition, delivery);
            }
        }
        if has_streams {
            self.deliver_to_streams(&targets, topic, partition, delivery);
        }
        if has_mqtt {
            self.deliver_to_mqtt(&targets, topic, partition, delivery);
        }
        targets.clear();
        self.work.targets = targets;
    }

    /// The subscribers with frames of one form. Forms take turns, because making room for the frame
    /// of the second one may take that of the first one away.
    fn deliver_shared(
        &mut self,
        form: Form,
        targets: &[SubIndex],
        topic: &str,
        partition: PartitionId,
        delivery: &Delivery<'_>,
    ) {
        let shared = self.subscriptions.serial();
        let apart = shared.wrapping_sub(1);
        let origin = Origin::ByFilter {
            partition,
            after: delivery.view.offset() - 1,
            serial: self.subscriptions.messages_by_filter(),
        };
        let is_native = |edge: &Edge, subscription: SubIndex| {
            let entry = &edge.subscriptions[subscription];
            let slot = &edge.connections.slots[entry.connection];
            let facts = slot.facts();
            entry.stage == Stage::ByFilter && facts.shares_frames && facts.form == form
        };
        // Making room for it may make others lag: the edge asks only then which of them catch up.
        let (packed, plain) = self.enter_shared(form, targets, topic, partition, delivery, origin);
        let mut has_apart = false;
        for &subscription in targets {
            let index = self.subscriptions[subscription].connection;
            let mark = self.connections.slots[index].filter_mark;
            if mark == shared || mark == apart || !is_native(self, subscription) {
                continue;
            }
            if self.has_catching_up(index, partition) {
                self.connections.slots[index].filter_mark = apart;
                has_apart = true;
            } else {
                self.connections.slots[index].filter_mark = shared;
                self.statistics.delivered += 1;
                let window_bits = self.window_bits(index);
                let packed = packed.filter(|packed| packed.fits(window_bits));
                if let Some(place) = packed.map(|packed| packed.place).or(plain) {
                    self.push_place(index, place);
                }
            }
        }
        if !has_apart {
            return;
        }
        for &subscription in targets {
            let index = self.subscriptions[subscription].connection;
            if self.connections.slots[index].filter_mark == apart
                && is_native(self, subscription)
                && !self.is_catching_up(subscription, partition)
            {
                self.deliver_addressed(subscription, topic, partition, delivery, false);
            }
        }
    }

    /// The frame for all that cover the topic, in the formats that they take: with the second one
    /// everybody is served whom the first does not fit.
    fn enter_shared(
        &mut self,
        form: Form,
        targets: &[SubIndex],
        topic: &str,
        partition: PartitionId,
        delivery: &Delivery<'_>,
        origin: Origin,
    ) -> (Option<Packed>, Option<FrameNumber>) {
        let window_bits_of = |edge: &Edge, subscription: SubIndex| {
            edge.window_bits(edge.subscriptions[subscription].connection)
        };
        let is_packed = self.settings.compression.is_some()
            && targets.iter().any(|&target| window_bits_of(self, target) > 0);
        let packed = if is_packed {
            self.enter_by_filter_packed(form, topic, partition, delivery, None, origin)
        } else {
            None
        };
        if let Some(packed) = packed
            && targets.iter().all(|&target| packed.fits(window_bits_of(self, target)))
        {
            return (Some(packed), None);
        }
        let plain = self.enter_by_filter(form, topic, partition, delivery, None, origin);
        // Two large frames may be more than the ring keeps.
        (packed.filter(|packed| self.outboxes.holds(packed.place)), Some(plain))
    }

    fn deliver_to_streams(
        &mut self,
        targets: &[SubIndex],
        topic: &str,
        partition: PartitionId,
        delivery: &Delivery<'_>,
    ) {
        for &subscription in targets {
            let entry = &self.subscriptions[subscription];
            let index = entry.connection;
            let slot = &mut self.connections.slots[index];
            if entry.stage != Stage::ByFilter
                || !slot.facts().has_one_cursor
                || slot.filter_mark == self.subscriptions.serial()
            {
                continue;
            }
            slot.filter_mark = self.subscriptions.serial();
            if !self.is_catching_up(subscription, partition) {
                self.deliver_addressed(subscription, topic, partition, delivery, false);
            }
        }
    }

    /// A message for one subscription to filters, or for an event stream.
    pub(crate) fn deliver_addressed(
        &mut self,
        subscription: SubIndex,
        topic: &str,
        partition: PartitionId,
        delivery: &Delivery<'_>,
        is_paid: bool,
    ) {
        let after = delivery.view.offset() - 1;
        let origin = self.origin_of(subscription, partition, after, is_paid);
        let entry = &self.subscriptions[subscription];
        let (index, client) = (entry.connection, entry.client);
        let facts = self.connections.slots[index].facts();
        if facts.is_mqtt {
            return self.deliver_mqtt_addressed(subscription, topic, partition, delivery, is_paid);
        }
        self.statistics.delivered += 1;
        let place = if facts.shares_frames {
            let (form, to) = (facts.form, Some((client, self.window_bits(index))));
            match self.enter_by_filter_packed(form, topic, partition, delivery, to, origin) {
                Some(packed) => packed.place,
                None => {
                    self.enter_by_filter(form, topic, partition, delivery, Some(client), origin)
                }
            }
        } else {
            let mut event = std::mem::take(&mut self.work.scratch);
            event.clear();
            let epoch = self.links.epochs.of(partition, &self.settings);
            let through = delivery.view.offset();
            let encoded = Encoded::mark(Settles::Filters { partition, after, through });
            let session = self.session(index);
            session.encode_message(client, Some(topic), epoch, &delivery.view, &mut event);
            let prefix_bytes_max = session.prefix_bytes_max(&encoded, event.len());
            self.reserve(event.len() + prefix_bytes_max);
            let is_wanted = !self.subscriptions.is_catching_up_at(subscription, partition, after);
            if is_wanted {
                self.push_event(index, &event, &encoded, origin);
            } else if is_paid {
                self.subscriptions.refund_credit(subscription);
            }
            self.work.scratch = event;
            return;
        };
        // Making room for the frame may have cost earlier ones their place: then the log brings
        // this one too.
        if !self.subscriptions.is_catching_up_at(subscription, partition, after) {
            self.push_place(index, place);
        } else if is_paid {
            self.subscriptions.refund_credit(subscription);
        }
    }

    /// The frame of a message for filters; carries the topic's name, so that no connection keeps a
    /// table of them. It is for all that cover the topic, or for one subscription by the client's
    /// number.
    fn enter_by_filter(
        &mut self,
        form: Form,
        topic: &str,
        partition: PartitionId,
        delivery: &Delivery<'_>,
        subscription: Option<u32>,
        origin: Origin,
    ) -> FrameNumber {
        let at = (topic, partition);
        self.with_filter_head(form, at, delivery, subscription, &mut |edge, head| match form {
            // The attributes are in the head.
            Form::Binary => edge.enter_message(head, &[], delivery.record, &delivery.view, origin),
            Form::Json => edge.enter_text(head, origin),
        })
    }

    /// That frame compressed, if it is worth it: for one connection with this window, or for
    /// all.
    fn enter_by_filter_packed(
        &mut self,
        form: Form,
        topic: &str,
        partition: PartitionId,
        delivery: &Delivery<'_>,
        to: Option<(u32, u8)>,
        origin: Origin,
    ) -> Option<Packed> {
        let payload = delivery.view.payload();
        if !self.is_worth_packing(payload.len()) {
            return None;
        }
        let subscription = to.map(|(subscription, _)| subscription);
        let payload = match form {
            Form::Binary => payload,
            Form::Json => &[],
        };
        let at = (topic, partition);
        self.with_filter_head(form, at, delivery, subscription, &mut |edge, head| {
            let (opcode, parts) = (form.opcode(), [head, payload]);
            match to {
                Some((_, window_bits)) => {
                    edge.enter_packed_privately(opcode, window_bits, &parts, origin)
                }
                None => edge.enter_packed(opcode, &parts, origin),
            }
        })
    }

    /// Passes the part of the frame before the payload to `enter`; in JSON, the whole frame.
    fn with_filter_head<T>(
        &mut self,
        form: Form,
        (topic, partition): (&str, PartitionId),
        delivery: &Delivery<'_>,
        subscription: Option<u32>,
        enter: &mut dyn FnMut(&mut Edge, &[u8]) -> T,
    ) -> T {
        let view = &delivery.view;
        let attributes = self.attributes_of(view, None);
        let mut head = std::mem::take(&mut self.work.scratch);
        head.clear();
        let epoch = self.links.epochs.of(partition, &self.settings);
        let at = native::NamedPlace {
            topic,
            partition,
            epoch,
            lineage: self.links.epochs.lineage(partition),
            subscription,
        };
        match form {
            Form::Binary => {
                native::filter_message_head(&at, view, &attributes, &mut head);
            }
            Form::Json => {
                native::filter_message_json(&at, view, &attributes, &mut head);
            }
        }
        let entered = enter(self, &head);
        self.work.scratch = head;
        self.work.attributes = attributes;
        entered
    }
}
