//! Entries for the access log and the audit log, and the life of clients and topics on `$sys/...`.
//!
//! Beside the path: where neither is on, a session passes by here with a branch, and a message not
//! at all. The bounds are those of `edge::journal`.

use crate::edge::Edge;
use crate::edge::journal::Asked;
use crate::ids::ConnIndex;
use crate::journal::{Client, Entry, Event, Operation};
use crate::mail::{Publication, Publish, ToHome};
use crate::protocol::flag;
use crate::session::mqtt::{Link, Mqtt};
use crate::sys::{self, Object, Occupancy, OwnMessage};
use std::net::IpAddr;
use stdx::key::Key;
use wire::native::{Attributes, ErrorCode};

impl Edge {
    /// Whether sessions have entries: in the access log, or on `$sys`.
    fn sessions_are_reported(&self) -> bool {
        self.settings.journal.access || self.settings.sys.clients
    }

    /// Whether entries name where clients come from, so that [`Edge::accepted_through`] should be
    /// called.
    pub fn notes_origins(&self) -> bool {
        self.sessions_are_reported() || self.settings.journal.is_on()
    }

    /// The connection has come from this address and through this listener. Call it behind
    /// [`Edge::accepted`].
    pub fn accepted_through(&mut self, key: Key, peer: IpAddr, listener: u8) {
        self.journal.note(key, peer, listener);
    }

    /// The connection as entries name it.
    fn client(&self, index: ConnIndex) -> Client {
        self.client_of(index, self.entitlement_of(index))
    }

    fn client_of(&self, index: ConnIndex, entitlement: Option<u32>) -> Client {
        let origin = self.journal.origin(self.connections.slots.key(index));
        let subject = entitlement.map_or("", |at| self.access.entitlements.subject(at));
        Client {
            connection: self.connection_number(index),
            transport: self.connections.slots[index].facts().transport,
            // Behind a trusted proxy it is the client that counts.
            address: origin
                .map(|(peer, _)| self.connections.peers.client_of_proxy(index).unwrap_or(peer)),
            listener: origin.map(|(_, listener)| listener),
            subject: subject.into(),
        }
    }

    /// A session begins.
    pub(crate) fn session_began(&mut self, index: ConnIndex) {
        if !self.sessions_are_reported() {
            return;
        }
        self.journal.begin_session(self.connections.slots.key(index), self.now.monotonic_ms);
        if self.settings.journal.access && self.journal.access.take() {
            let client = self.client(index);
            self.record(Event::Connected(client));
        }
        if self.settings.sys.clients && self.journal.connected.take() {
            let client = self.client(index);
            let payload = self.object_of(&client).finish();
            self.publish_event(sys::CLIENTS_CONNECTED, &payload);
        }
    }

    /// A WebSocket is being closed with this code; none: the client gave none.
    pub(crate) fn note_close(&mut self, index: ConnIndex, code: Option<u16>) {
        if self.sessions_are_reported() {
            self.journal.note_close(self.connections.slots.key(index), code);
        }
    }

    /// The connection is about to be released: its session, if there was one, is over.
    pub(crate) fn session_ended(&mut self, index: ConnIndex) {
        self.journal.take_request(index);
        let slot = &self.connections.slots[index];
        let is_before_connack = |mqtt: &Mqtt| matches!(mqtt.link, Link::Asked | Link::Never);
        if !slot.facts().is_lasting
            || !self.sessions_are_reported()
            || self.mqtt_ref(index).is_some_and(is_before_connack)
        {
            return;
        }
        let is_finished =
            slot.facts().has_one_cursor && slot.is(flag::CLOSING) && !slot.is(flag::DEAD);
        let key = self.connections.slots.key(index);
        let (code, duration_ms) = self.journal.end_session(key, is_finished, self.now.monotonic_ms);
        if self.settings.journal.access && self.journal.access.take() {
            let client = self.client(index);
            self.record(Event::Disconnected { client, code, duration_ms });
        }
        if self.settings.sys.clients && self.journal.disconnected.take() {
            let client = self.client(index);
            let mut object = self.object_of(&client).number("code", code.into());
            if let Some(duration_ms) = duration_ms {
                object = object.number("duration_ms", duration_ms);
            }
            self.publish_event(sys::CLIENTS_DISCONNECTED, &object.finish());
        }
    }

    /// The head of a request has come; perhaps for the second time, after its credential has been
    /// authenticated.
    pub(crate) fn note_request(&mut self, index: ConnIndex, method: &str, target: &str) {
        self.journal.note_request(index, method, target, self.now.monotonic_ms);
    }

    /// A request is answered with this number of bytes, as far as they are known.
    #[inline]
    pub(crate) fn record_answer(&mut self, index: ConnIndex, status: u16, bytes: usize) {
        if self.settings.journal.access {
            self.record_request(index, status, bytes as u64);
        }
    }

    #[cold]
    fn record_request(&mut self, index: ConnIndex, status: u16, bytes: u64) {
        let asked = self.journal.take_request(index);
        if !self.journal.access.take() {
            return;
        }
        let now_ms = self.now.monotonic_ms;
        // A request that could not be decoded has neither.
        let asked = asked.unwrap_or(Asked { method: "".into(), path: "".into(), at_ms: now_ms });
        let client = self.client(index);
        self.record(Event::Requested {
            client,
            method: asked.method,
            path: asked.path,
            status,
            bytes,
            duration_ms: now_ms.saturating_sub(asked.at_ms),
        });
    }

    /// An action of a client has been permitted or refused.
    #[inline]
    pub(crate) fn record_decision(
        &mut self,
        index: ConnIndex,
        operation: Operation,
        topic: &str,
        refusal: Option<ErrorCode>,
    ) {
        let of = self.entitlement_of(index);
        self.record_decision_of(index, of, operation, topic, refusal);
    }

    /// An action of a client that presents this entitlement has been permitted or refused.
    pub(crate) fn record_decision_of(
        &mut self,
        index: ConnIndex,
        of: Option<u32>,
        operation: Operation,
        topic: &str,
        refusal: Option<ErrorCode>,
    ) {
        let journal = &self.settings.journal;
        let is_wanted = match refusal {
            None => journal.granted,
            Some(_) => journal.refused,
        };
        if is_wanted && self.journal.audit.take() {
            let client = self.client_of(index, of);
            self.record(Event::Decided { client, operation, topic: topic.into(), refusal });
        }
    }

    /// A page's origin is refused. Reported whatever the settings are, once in a minute.
    pub(crate) fn record_origin(&mut self, index: ConnIndex, origin: &str) {
        let Some(count) = self.journal.refuse_origin(self.now.monotonic_ms) else {
            return;
        };
        let client = self.client(index);
        self.record(Event::OriginRefused { client, origin: origin.into(), count });
    }

    fn record(&mut self, event: Event) {
        self.out.journal.push(Entry { time_ms: self.now.unix_ms, event });
    }

    /// A home of this thread reports which of its topics have subscribers.
    pub fn publish_occupancy(&mut self, occupancy: &Occupancy) {
        let node = self.settings.clone();
        let node = node.node_name.as_str();
        let mut publish = |topic: &str, object: Object| self.publish_event(topic, &object.finish());
        let named = |name: &[u8]| {
            let name = String::from_utf8_lossy(name);
            Object::of_node(node).text("topic", &name)
        };
        match occupancy {
            Occupancy::Occupied(name) => publish(sys::TOPICS_OCCUPIED, named(name)),
            Occupancy::Vacated(name) => publish(sys::TOPICS_VACATED, named(name)),
            Occupancy::LeftOut { occupied, vacated } => {
                let counts = [(sys::TOPICS_OCCUPIED, *occupied), (sys::TOPICS_VACATED, *vacated)];
                for (topic, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
                    publish(topic, Object::of_node(node).number("left_out", count));
                }
            }
        }
    }

    /// A second is over: reports how many entries were left out in it.
    pub(crate) fn renew_journal(&mut self) {
        let settings = self.settings.clone();
        let [access, audit, connected, disconnected] = self.journal.renew(&settings);
        if access > 0 || audit > 0 {
            self.record(Event::LeftOut { access, audit });
        }
        let counts =
            [(sys::CLIENTS_CONNECTED, connected), (sys::CLIENTS_DISCONNECTED, disconnected)];
        for (topic, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            let object = Object::of_node(&settings.node_name).number("left_out", count);
            self.publish_event(topic, &object.finish());
        }
    }

    fn object_of(&self, client: &Client) -> Object {
        let object = Object::of_node(&self.settings.node_name)
            // JavaScript's numbers end before these.
            .text("connection", &client.connection.to_string())
            .text("transport", client.transport.word());
        match &*client.subject {
            "" => object,
            subject => object.text("sub", subject),
        }
    }

    fn publish_event(&mut self, topic: &str, payload: &[u8]) {
        self.publish_own(&OwnMessage::json(topic, payload));
    }

    /// Publishes a message of the node's own. It is given up if its home has no room: nothing waits
    /// for it.
    pub fn publish_own(&mut self, message: &OwnMessage) {
        let OwnMessage { topic, payload, content_type, idempotency_key, retain } = message;
        let (rule, partition) = self.settings.locate(topic);
        let home = self.settings.home_of(partition);
        if !self.may_request(home) || !self.may_publish(partition, payload.len() as u64) {
            self.statistics.own_publications_lost += 1;
            return;
        }
        let mut attributes = Vec::new();
        let named = Attributes { content_type: Some(content_type), ..Attributes::default() };
        named.encode_block(&mut attributes);
        let publication = Publication {
            topic: self.work.mail.copy(topic.as_bytes()),
            attributes: self.work.mail.copy(&attributes),
            payload: self.work.mail.copy(payload),
            idempotency_key: self.work.mail.copy(idempotency_key),
            retain: *retain,
            ..Publication::default()
        };
        let request = ToHome::Publish(Publish { partition, rule, reply: None, publication });
        self.request(home, request);
    }
}
