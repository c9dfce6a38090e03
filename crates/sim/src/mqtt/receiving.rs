//! Messages to a client, and its acknowledgements, which may be late.

use super::MqttClient;
use super::session::{Answer, Open, Seen};
use crate::client::{Context, Phase};
use crate::oracle::{Delivered, Once, matches};
use wire::mqtt::{Ack, Attempt, ClientPacket, PacketId, Publish};

/// A message that was found among the publications.
#[derive(Clone, Copy)]
pub(super) struct Message {
    pub publication: usize,
    pub topic: usize,
    pub qos: u8,
    pub attempt: Option<Attempt>,
    pub is_retained: bool,
}

impl MqttClient {
    /// PUBLISH.
    pub(super) fn on_publish(&mut self, context: &mut Context<'_>, publish: &Publish<'_>) {
        let result = self.identify(context, publish).and_then(|message| {
            context.oracle.note(self.peer.id, || format!("   publication {}", message.publication));
            if self.membership.is_some() {
                return self.take_shared(context, &message);
            }
            self.check_identifier(context, &message)?;
            let is_repeat = self.check_repeat(context, &message)?;
            self.take(context, &message, is_repeat);
            Ok(())
        });
        if let Err(text) = result {
            context.oracle.fail(self.peer.id, text);
        }
    }

    /// Finds the publication; checks topic, payload, QoS and RETAIN.
    fn identify(&self, context: &Context<'_>, publish: &Publish<'_>) -> Result<Message, String> {
        let name = publish.topic;
        let text = publish.payload.get(..16).and_then(|text| std::str::from_utf8(text).ok());
        let publication = text.and_then(|text| usize::from_str_radix(text, 16).ok());
        let known =
            publication.and_then(|id| context.oracle.publications.get(id).map(|of| (id, of)));
        let Some((publication, of)) = known else {
            return Err(format!("a message of {name} is not a publication"));
        };
        if context.plan.topics[of.topic] != name || of.payload() != publish.payload {
            return Err(format!("publication {publication} came changed, to {name}"));
        }
        let subscribed =
            self.wishes.iter().filter(|wish| self.session.asked.contains(&wish.filter));
        let matching = subscribed.filter(|wish| matches(&wish.filter, name));
        let Some(most) = matching.map(|wish| wish.qos).max() else {
            return Err(format!("{name} was never asked for: publication {publication}"));
        };
        let qos = publish.delivery.qos() as u8;
        if qos > most.min(of.qos.unwrap_or(1)) {
            return Err(format!("publication {publication} came with QoS {qos}"));
        }
        if publish.retain && !of.retain {
            return Err(format!("publication {publication} came as retained, and is not"));
        }
        Ok(Message {
            publication,
            topic: of.topic,
            qos,
            attempt: publish.delivery.attempt(),
            is_retained: publish.retain,
        })
    }

    /// Checks that the identifier is free, and that the client has room.
    pub(super) fn check_identifier(
        &mut self,
        context: &mut Context<'_>,
        message: &Message,
    ) -> Result<(), String> {
        let Some(Attempt { packet_id, is_repeat }) = message.attempt else {
            return Ok(());
        };
        let (id, publication) = (packet_id.get(), message.publication);
        if let Some(open) = self.line.open.get(&id) {
            let other = open.publication;
            return Err(format!("{id} is open for {other}, and comes for {publication}"));
        }
        let open = self.line.open.values().filter(|open| open.is_published).count();
        if open >= usize::from(self.line.receive_max) {
            return Err(format!("{open} messages are open, more than the client's maximum"));
        }
        if is_repeat && self.session.began == self.line.number {
            return Err(format!("publication {publication} has DUP in a new session"));
        }
        if let Some(other) = self.session.received.get(&id).copied()
            && other != publication
        {
            let seen = self.session.seen.get(&other);
            if seen.is_none_or(|seen| !self.may_be_forgotten(context, seen)) {
                return Err(format!(
                    "{id} was not released for {other}, and comes for {publication}"
                ));
            }
            context.oracle.mqtt.counts.ids_reused += 1;
            self.session.received.remove(&id);
        }
        Ok(())
    }

    /// Whether the node may have forgotten that it has sent a message.
    fn may_be_forgotten(&self, context: &Context<'_>, seen: &Seen) -> bool {
        let is_exact = context.oracle.mqtt.is_qos2_exact_over_crashes;
        seen.is_excused || seen.instance != self.peer.instance && !is_exact
    }

    /// Whether only one of the subscriptions that the client ever has matches a topic.
    fn is_alone(&self, context: &Context<'_>, topic: usize) -> bool {
        let name = &context.plan.topics[topic];
        let matching = self.wishes.iter().filter(|wish| matches(&wish.filter, name));
        matching.count() == 1
    }

    /// Checks a message that has come before; returns whether it has.
    fn check_repeat(&self, context: &Context<'_>, message: &Message) -> Result<bool, String> {
        let publication = message.publication;
        if message.is_retained {
            return Ok(false);
        }
        let Some(seen) = self.session.seen.get(&publication).copied() else {
            return Ok(false);
        };
        let of = &context.oracle.publications[publication];
        // It may stand in the log several times; each copy has an identifier of its own, and comes
        // again with it.
        let is_dup = message.attempt.is_some_and(|attempt| attempt.is_repeat);
        let stands_again =
            of.once == Once::Repeats && (seen.times < of.attempts() || is_dup && of.attempts() > 1);
        if stands_again || self.may_be_forgotten(context, &seen) {
            return Ok(true);
        }
        // Where filters overlap, each may bring a message while it catches up (`docs/mqtt.md`).
        // Such a copy has an identifier of its own, and comes first with DUP if the client has not
        // read it on the connection before.
        let is_resent = message
            .attempt
            .is_some_and(|attempt| attempt.is_repeat && seen.id == Some(attempt.packet_id.get()));
        if !is_resent && !self.is_alone(context, message.topic) {
            return Ok(true);
        }
        let Some(Attempt { packet_id, is_repeat }) = message.attempt else {
            return Err(format!("publication {publication} with QoS 0 came twice"));
        };
        let id = packet_id.get();
        if seen.connection == self.line.number {
            return Err(format!("publication {publication} came twice on one connection"));
        }
        if !is_repeat {
            return Err(format!("publication {publication} comes again without DUP"));
        }
        if seen.id != Some(id) {
            let former = seen.id;
            return Err(format!("publication {publication} had {former:?}, and comes with {id}"));
        }
        if message.qos == 2 && self.session.received.get(&id) != Some(&publication) {
            return Err(format!(
                "publication {publication} with QoS 2 was released, and comes again"
            ));
        }
        Ok(true)
    }

    /// Takes a message, and answers it in time.
    fn take(&mut self, context: &mut Context<'_>, message: &Message, is_repeat: bool) {
        let Message { publication, topic, qos, attempt, is_retained } = *message;
        let counts = &mut context.oracle.mqtt.counts;
        counts.deliveries += 1;
        counts.retained += u64::from(is_retained);
        counts.repeats += u64::from(attempt.is_some_and(|attempt| attempt.is_repeat));
        let source = self.peer.source();
        if is_retained {
            self.session.retained_seen.insert(publication);
            // Behind it, the message does not come once more while it is open.
            let (connection, instance) = (self.line.number, self.peer.instance);
            let moment = context.oracle.tick();
            let is_repeat = true;
            let delivered =
                Delivered { publication, topic, qos, connection, instance, is_repeat, moment };
            let session = &mut context.oracle.mqtt.sessions[self.session.number];
            session.without_order.push(delivered);
            // One that is sent again answers an earlier SUBSCRIBE.
            if attempt.is_some_and(|attempt| attempt.is_repeat) {
                return self.take_attempt(context, message);
            }
            let asked = self.line.subscribing.values_mut();
            let early = asked.filter_map(|asked| asked.retained.remove(&topic)).max();
            if self.line.retained.remove(&topic).or(early).is_some() {
                let known = self.line.first_known.get(&topic).copied().unwrap_or(0);
                let session = &mut context.oracle.mqtt.sessions[self.session.number];
                session.retained.push((topic, known, source, publication));
            }
        } else {
            self.line.retained.remove(&topic);
            self.line.subscribing.values_mut().for_each(|asked| _ = asked.retained.remove(&topic));
            self.record(context, message, is_repeat);
        }
        self.take_attempt(context, message);
    }

    /// Answers a message with an identifier in time.
    pub(super) fn take_attempt(&mut self, context: &mut Context<'_>, message: &Message) {
        let Message { publication, qos, attempt, .. } = *message;
        let Some(Attempt { packet_id, .. }) = attempt else {
            return;
        };
        self.line.open.insert(packet_id.get(), Open { publication, is_published: true });
        if qos == 2 {
            self.session.received.insert(packet_id.get(), publication);
            self.answer(context, Answer::Received, packet_id);
        } else {
            self.answer(context, Answer::Ack, packet_id);
        }
    }

    fn record(&mut self, context: &mut Context<'_>, message: &Message, is_repeat: bool) {
        let Message { publication, topic, qos, attempt, .. } = *message;
        let (connection, instance) = (self.line.number, self.peer.instance);
        // A node that has forgotten its deliveries may deliver each copy once more.
        let seen = self.session.seen.get(&publication);
        let seen = seen.filter(|seen| !self.may_be_forgotten(context, seen));
        let times = seen.map_or(0, |seen| seen.times);
        let id = attempt.map(|attempt| attempt.packet_id.get());
        let is_dup = attempt.is_some_and(|attempt| attempt.is_repeat);
        let times = times + u32::from(!is_dup);
        let seen = Seen { id, connection, instance, times, is_excused: false };
        self.session.seen.insert(publication, seen);
        let is_alone = self.is_alone(context, topic);
        let moment = context.oracle.tick();
        let delivered =
            Delivered { publication, topic, qos, connection, instance, is_repeat, moment };
        context.oracle.mqtt.counts.overlaps += u64::from(is_repeat && !is_dup && !is_alone);
        // Where filters overlap, one may be ahead of another.
        let session = &mut context.oracle.mqtt.sessions[self.session.number];
        let deliveries =
            if is_alone { &mut session.deliveries } else { &mut session.without_order };
        deliveries.push(delivered);
    }

    /// PUBREL: the node does not send the message again.
    pub(super) fn on_pubrel(&mut self, context: &mut Context<'_>, ack: &Ack<'_>) {
        let id = ack.packet_id;
        let publication = self.session.received.remove(&id.get());
        let open = Open { publication: publication.unwrap_or(usize::MAX), is_published: false };
        self.line.open.entry(id.get()).or_insert(open);
        self.answer(context, Answer::Complete, id);
    }

    fn answer(&mut self, context: &Context<'_>, answer: Answer, id: PacketId) {
        let late_ms_max = if context.phase == Phase::Active { self.habits.late_ms_max } else { 0 };
        let mut due_ms = context.now_ms + self.peer.random.below(late_ms_max + 1);
        if let Some((last_ms, _, _)) = self.line.answers.back() {
            due_ms = due_ms.max(*last_ms); // acknowledgements keep the order
        }
        self.line.answers.push_back((due_ms, answer, id));
    }

    /// Sends the acknowledgements that are due.
    pub(super) fn send_due_answers(&mut self, context: &mut Context<'_>) {
        let is_calm = context.phase != Phase::Active;
        while let Some((due_ms, answer, id)) = self.line.answers.front().copied()
            && (due_ms <= context.now_ms || is_calm)
        {
            self.line.answers.pop_front();
            let ack = Ack::success(id);
            let packet = match answer {
                Answer::Ack => ClientPacket::PubAck(ack),
                Answer::Received => ClientPacket::PubRec(ack),
                Answer::Complete => ClientPacket::PubComp(ack),
            };
            self.send(context, &packet);
            if answer != Answer::Received
                && let Some(open) = self.line.open.remove(&id.get())
            {
                self.acknowledged_shared(open.publication);
            }
        }
    }
}
