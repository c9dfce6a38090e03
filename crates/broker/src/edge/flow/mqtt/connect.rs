//! CONNECT: the client is identified, takes its name, and gets CONNACK.
//!
//! Step 3 of the path. The password is the credential: a token, or an API key. On a node with users
//! that have passwords, user name and password together are it. Without a password the client's
//! certificate is it; with enhanced authentication, its data. The home of the client's name ends
//! the connection that has the name before, and gives the session that sleeps; until its answer the
//! connection is not read.

use crate::edge::access::Presented;
use crate::edge::{Edge, Pressure};
use crate::entitlement::{Action, CredentialKind, Purpose, kind_of_secret, password_credential};
use crate::ids::ConnIndex;
use crate::journal::Operation;
use crate::mail::{Claim, HomeId, Leave, SleepingSession, ToHome, Will};
use crate::protocol::{Protocol, flag};
use crate::session::mqtt::lean::Lean;
use crate::session::mqtt::open::Opened;
use crate::session::mqtt::refusal::connect_reason_of;
use crate::session::mqtt::start::wants_positions;
use crate::session::mqtt::{Link, METHOD, Mqtt, NAME_BYTES_MAX, Record, Resumed, Spoken};
use crate::session::{Credential, State};
use crate::settings::Durability;
use crate::sys::session_topic;
use crate::topic::{NAME_BYTES_MAX as TOPIC_BYTES_MAX, TopicName};
use log::FurtherFields;
use std::borrow::Cow;
use stdx::chunk::Slice;
use stdx::hash::{Seed, keyed};
use stdx::key::Key;
use wire::codec::Step;
use wire::mqtt::{
    ClientPacket, ConnAck, Connect, Disconnect, Limits, PACKET_BYTES_MAX, Properties, Property,
    Qos, ReasonCode, ServerPacket, Version, Will as SentWill, announced_version,
};
use wire::native::{Attributes, ErrorCode, Tag};

impl Edge {
    /// CONNECT.
    pub(crate) fn mqtt_connect(&mut self, index: ConnIndex, connect: &Connect<'_>, packet: &[u8]) {
        let refusal = self.check_connect(connect).err();
        if let Some(reason) = refusal {
            return self.refuse_connect(index, connect.version, reason);
        }
        match self.identify_mqtt(index, connect, packet) {
            Ok(true) => self.mqtt_claim(index, connect),
            Ok(false) => {}
            Err(code) => {
                self.statistics.errors.count(code);
                self.refuse_connect(index, connect.version, connect_reason_of(code));
            }
        }
    }

    /// Checks a CONNECT as far as no credential is needed.
    fn check_connect(&mut self, connect: &Connect<'_>) -> Result<(), ReasonCode> {
        let lacks_name = connect.client_id.is_empty() && !self.settings.mqtt.assigns_names;
        if lacks_name
            || !connect.is_client_id_permitted()
            || connect.client_id.len() > NAME_BYTES_MAX
        {
            return Err(ReasonCode::ClientIdInvalid);
        }
        let method = connect.properties.authentication_method();
        if method.is_some_and(|method| method != METHOD) {
            return Err(ReasonCode::BadAuthenticationMethod);
        }
        if self.is_draining() || self.refuse_from(Pressure::Newcomers).is_err() {
            return Err(ReasonCode::ServerUnavailable);
        }
        Ok(())
    }

    /// Whether the client is known by now: true, or false if a decision is to come.
    fn identify_mqtt(
        &mut self,
        index: ConnIndex,
        connect: &Connect<'_>,
        packet: &[u8],
    ) -> Result<bool, ErrorCode> {
        let Some(settings) = &self.settings.entitlement else {
            return Ok(true);
        };
        let has_method = connect.properties.authentication_method().is_some();
        let token = connect.properties.authentication_data().map_or(&[][..], |data| data.0);
        let (kind, credential) = match (connect.password, self.access.certificates.get(index)) {
            _ if has_method => (CredentialKind::Token, Cow::Borrowed(token)),
            (Some(password), _) => {
                let user = connect.user_name.filter(|_| settings.takes_passwords);
                match user.and_then(|user| password_credential(user.as_bytes(), password.0)) {
                    Some(joined) => (CredentialKind::Password, Cow::Owned(joined)),
                    None => (kind_of_secret(password.0), Cow::Borrowed(password.0)),
                }
            }
            (None, Some(proved)) => (CredentialKind::Certificate, Cow::Owned(proved.to_vec())),
            (None, None) if settings.anonymous.is_empty() => {
                let refusal = ErrorCode::Unauthorized;
                self.record_decision(index, Operation::Authenticate, "", Some(refusal));
                return Err(refusal);
            }
            (None, None) => return Ok(true),
        };
        match self.show(index, Purpose::Hello, kind, &credential)? {
            Presented::Known(at) if self.may_entitle(index, at) => {
                self.entitle(index, at);
                Ok(true)
            }
            Presented::Known(at) => {
                let frame = packet.into();
                self.ask_for_user(index, at, Credential::User { at, frame });
                Ok(false)
            }
            Presented::Asked(digest) => {
                let frame = packet.into();
                let waits = Credential::Hello { digest, frame };
                self.set_state(index, State::Credential(waits.into()));
                Ok(false)
            }
        }
    }

    /// The credential of a CONNECT that has waited is accepted.
    pub(crate) fn answer_connect(&mut self, index: ConnIndex, packet: &[u8]) {
        match ClientPacket::decode(None, PACKET_BYTES_MAX, packet) {
            Ok(Step::Done { value: ClientPacket::Connect(connect), consumed }) => {
                self.mqtt_claim(index, &connect);
                if let Some(mqtt) = self.mqtt_of(index) {
                    mqtt.busy.partial = packet[consumed..].to_vec();
                    mqtt.busy.is_held = !mqtt.busy.partial.is_empty();
                }
            }
            _ => debug_assert!(false, "it was decoded before"),
        }
    }

    /// The credential of a CONNECT that has waited is refused.
    pub(crate) fn refuse_waiting_connect(
        &mut self,
        index: ConnIndex,
        code: ErrorCode,
        packet: &[u8],
    ) {
        let version = announced_version(packet).unwrap_or(Version::V3_1_1);
        self.statistics.errors.count(code);
        self.refuse_connect(index, version, connect_reason_of(code));
    }

    /// Asks for the client's name.
    fn mqtt_claim(&mut self, index: ConnIndex, connect: &Connect<'_>) {
        let will = match connect.will.as_ref().map(|will| self.take_will(index, will)).transpose() {
            Ok(will) => will,
            Err(code) => {
                let is_v3 = connect.version != Version::V5;
                // The nearest word of version 3 for a will that is too large.
                let reason = if is_v3 && code == ErrorCode::MessageTooLarge {
                    ReasonCode::NotAuthorized
                } else {
                    connect_reason_of(code)
                };
                return self.refuse_connect(index, connect.version, reason);
            }
        };
        let mqtt = self.new_session(index, connect, will);
        let lasts = mqtt.lasts();
        let name = self.work.mail.copy(self.sessions.name_of(&mqtt));
        let slot = &mut self.connections.slots[index];
        slot.protocol =
            if slot.facts().is_websocket { Protocol::MqttWebSocket } else { Protocol::Mqtt };
        slot.set(flag::PAUSED | flag::ASKED);
        self.statistics.mqtt_sessions += 1;
        self.set_state(index, State::Mqtt(Box::new(mqtt)));
        let claim = Claim {
            name: name.clone(),
            user: self.user_hash(index),
            connection: self.connections.slots.key(index),
            is_clean: connect.clean_start,
            lasts,
        };
        let home = self.home_of_client(&name);
        self.request(home, ToHome::Claim(claim));
    }

    /// The state of a session that begins.
    fn new_session(&mut self, index: ConnIndex, connect: &Connect<'_>, will: Option<Will>) -> Mqtt {
        let settings = self.settings.mqtt;
        let properties = &connect.properties;
        let expiry_s = match (connect.version, connect.clean_start) {
            (Version::V5, _) => properties.session_expiry_s().unwrap_or(0),
            (_, true) => 0,
            (_, false) => settings.session_expiry_v3_s,
        };
        let receive_max = properties.receive_maximum().map_or(u16::MAX, |max| max.get());
        let instance = self.new_instance(index);
        let assigned;
        let name = match connect.client_id {
            "" => {
                assigned = assigned_name(instance);
                &assigned
            }
            given => given,
        };
        let record = self.record_of(name.as_bytes());
        let packet_bytes_max = properties.maximum_packet_size().map(|size| size.get());
        let aliases_max = properties.topic_alias_maximum().unwrap_or(0);
        let mut mqtt = Mqtt {
            version: Spoken(connect.version),
            is_continued: false,
            expiry_s,
            record,
            name: self.sessions.names.insert(name.as_bytes()),
            keep_alive_s: connect.keep_alive_s,
            link: Link::Asked,
            packet_bytes_max: packet_bytes_max.unwrap_or(PACKET_BYTES_MAX),
            acknowledges_refused: settings.acknowledges_refused,
            tells_positions: wants_positions(properties),
            authenticates: properties.authentication_method().is_some(),
            problem_information: properties.request_problem_information().unwrap_or(true),
            instance,
            released: 0,
            resumed: Resumed::NOT,
            opened: Opened::new(receive_max.min(settings.inflight_max)),
            sent_aliases_max: aliases_max.min(settings.topic_aliases_sent_max),
            will: will.map(|will| Box::new(Will { key: instance.to_be_bytes().into(), ..will })),
            busy: Lean::default(),
        };
        // Other clients do not need the part, and a write allocates it.
        if connect.client_id.is_empty() {
            mqtt.busy.is_named_by_node = true;
        }
        mqtt
    }

    /// The number of a session that begins; other nodes of a cluster have others.
    fn new_instance(&self, index: ConnIndex) -> u64 {
        let node = keyed(Seed(3, 0), self.settings.node_name.as_bytes());
        let moment = [self.now.unix_ms, self.connection_number(index)].map(u64::to_be_bytes);
        keyed(Seed(node, 0), moment.as_flattened())
    }

    /// Whether a session of this name can be in a log on disk, or in one that nodes share.
    fn record_of(&self, name: &[u8]) -> Record {
        let topic = session_topic(name);
        let (_, partition) = self.settings.locate(&topic);
        let log = self.settings.log_of(partition);
        // The escapes of a name may make its topic too long.
        let is_short = topic.len() <= TOPIC_BYTES_MAX;
        let is_shared = is_short && log.retains_newest();
        let is_on_disk = is_short && log.durability == Durability::Disk;
        Record { is_durable: is_shared || is_on_disk, is_shared, ..Record::default() }
    }

    /// The home that a client's name belongs to.
    pub(crate) fn home_of_client(&self, name: &[u8]) -> HomeId {
        let (_, partition) = self.settings.locate(&session_topic(name));
        self.settings.home_of(partition)
    }

    /// The will of a CONNECT, if its client may publish it.
    fn take_will(&mut self, index: ConnIndex, will: &SentWill<'_>) -> Result<Will, ErrorCode> {
        let topic =
            TopicName::parse(will.topic).map_err(|error| error.code(ErrorCode::MalformedTopic))?;
        if super::publish::is_of_server(will.topic) {
            return Err(ErrorCode::Forbidden);
        }
        self.permit(index, Action::Publish, topic.into())?;
        let properties = &will.properties;
        let tags: Vec<Tag<'_>> =
            properties.user().map(|user| Tag { key: user.name, value: user.value }).collect();
        let attributes =
            Attributes { content_type: properties.content_type(), tags: tags.as_slice().into() };
        let mut block = Vec::new();
        if !attributes.is_empty() {
            attributes.encode_block(&mut block);
        }
        let mut further = FurtherFields::default();
        let (topic, correlation) = (properties.response_topic(), properties.correlation_data());
        if topic.is_some() || correlation.is_some() {
            let topic = topic.unwrap_or_default().as_bytes();
            further.reply(topic, correlation.unwrap_or_default());
        }
        let bytes = will.payload.len() + block.len() + further.as_bytes().len();
        if bytes > self.payload_bytes_max(index) as usize {
            return Err(ErrorCode::MessageTooLarge);
        }
        Ok(Will {
            topic: will.topic.into(),
            attributes: block.into(),
            payload: will.payload.into(),
            qos: will.qos as u8,
            is_retained: will.retain,
            is_said_text: properties.payload_format() == Some(true),
            further: further.as_bytes().into(),
            expiry_s: properties.message_expiry_s(),
            delay_s: properties.will_delay_s().unwrap_or(0),
            key: Box::default(),
        })
    }

    /// The home has given the client its name, or refused it.
    pub(crate) fn claimed(
        &mut self,
        name: &Slice,
        connection: Key,
        result: Result<Option<Box<SleepingSession>>, ErrorCode>,
    ) {
        let index = ConnIndex(connection.index);
        let is_there = self.connections.slots.get(connection).is_some();
        let waits = |mqtt: &&mut Mqtt| mqtt.link == Link::Asked;
        let Some(mqtt) = is_there.then(|| self.mqtt_of(index)).flatten().filter(waits) else {
            return self.give_back(name, connection, result);
        };
        let session = match result {
            Ok(session) => session,
            Err(code) => {
                let version = mqtt.version.0;
                // Nothing is to be given back.
                mqtt.link = Link::Never;
                mqtt.will = None;
                // The name is another user's.
                let is_taken = code == ErrorCode::Forbidden;
                let refused = connect_reason_of(code);
                let reason = if is_taken { ReasonCode::ClientIdInvalid } else { refused };
                return self.refuse_connect(index, version, reason);
            }
        };
        mqtt.link = Link::Held;
        self.connections.slots[index].clear(flag::ASKED | flag::STARTING);
        self.answer_claim(index, session.is_some());
        if let Some(session) = session {
            self.wake_session(index, session);
        }
        self.resume(index);
    }

    /// The connection has ended before its client got the name: the session sleeps on.
    fn give_back(
        &mut self,
        name: &Slice,
        connection: Key,
        result: Result<Option<Box<SleepingSession>>, ErrorCode>,
    ) {
        if let Ok(session) = result {
            let home = self.home_of_client(name);
            let name = self.work.mail.copy(name);
            let leave = Leave { name, connection, session, is_answered: false };
            self.request(home, ToHome::Leave(leave));
        }
    }

    fn answer_claim(&mut self, index: ConnIndex, session_present: bool) {
        self.count_handshake(index);
        self.stamp_hello(index);
        let settings = self.settings.mqtt;
        let keep_alive_max_s = settings.keep_alive_max_s;
        let unnamed = self.mqtt_ref(index).filter(|mqtt| mqtt.busy.is_named_by_node);
        let assigned_name =
            unnamed.map(|mqtt| String::from_utf8_lossy(self.sessions.name_of(mqtt)).into_owned());
        let Some(mqtt) = self.mqtt_of(index) else {
            return;
        };
        // Section 3.2.2.3.14: a client of version 5 uses the server's interval.
        let is_bounded = mqtt.is_v5() && keep_alive_max_s > 0;
        let asked_s = mqtt.keep_alive_s;
        if is_bounded && (asked_s == 0 || asked_s > keep_alive_max_s) {
            mqtt.keep_alive_s = keep_alive_max_s;
        }
        let keep_alive_s = mqtt.keep_alive_s;
        if let Some(busy) = mqtt.busy.get_mut() {
            busy.is_named_by_node = false;
        }
        let mut properties = Vec::new();
        if settings.topic_alias_max > 0 {
            properties.push(Property::TopicAliasMaximum(settings.topic_alias_max));
        }
        if mqtt.authenticates {
            // [MQTT-4.12.0-5]
            properties.push(Property::AuthenticationMethod(METHOD));
        }
        if keep_alive_s != asked_s {
            properties.push(Property::ServerKeepAlive(keep_alive_s));
        }
        if let Some(bytes_max) = settings.packet_bytes_max.and_then(std::num::NonZeroU32::new) {
            properties.push(Property::MaximumPacketSize(bytes_max));
        }
        if !settings.may_retain {
            properties.push(Property::RetainAvailable(false));
        }
        if let Some(name) = &assigned_name {
            properties.push(Property::AssignedClientId(name));
        }
        if let Some(receive_max) = std::num::NonZeroU16::new(settings.receive_max) {
            properties.push(Property::ReceiveMaximum(receive_max));
        }
        match settings.qos_max {
            0 => properties.push(Property::MaximumQos(Qos::Zero)),
            1 => properties.push(Property::MaximumQos(Qos::One)),
            _ => {}
        }
        let is_v5 = mqtt.is_v5();
        let answer = ConnAck {
            session_present,
            reason: ReasonCode::Success,
            properties: if is_v5 { properties[..].into() } else { Properties::default() },
        };
        self.send_mqtt_packet(index, &ServerPacket::ConnAck(answer));
        self.gate_start(index);
        // A client is lost after one and a half intervals ([MQTT-3.1.2-22]).
        let silence_s = u32::from(keep_alive_s) + u32::from(keep_alive_s).div_ceil(2);
        self.set_ping_interval(index, silence_s);
        self.access.certificates.remove(index);
        self.session_began(index);
    }

    /// Refuses a CONNECT, and closes.
    pub(crate) fn refuse_connect(
        &mut self,
        index: ConnIndex,
        version: Version,
        reason: ReasonCode,
    ) {
        let answer = ConnAck { session_present: false, reason, properties: Properties::default() };
        let mut bytes = Vec::new();
        let packet = ServerPacket::ConnAck(answer);
        // Version 3 has no number for some reasons: then the connection just ends.
        let _ = packet.encode(version, &Limits::default(), &mut bytes);
        self.send_mqtt(index, &bytes);
        self.close_mqtt(index);
    }

    /// DISCONNECT: the client takes its leave; its will is published only if it says so.
    pub(crate) fn take_leave(
        &mut self,
        index: ConnIndex,
        packet: &Disconnect<'_>,
    ) -> Result<(), ReasonCode> {
        let Some(mqtt) = self.mqtt_of(index) else {
            return Ok(());
        };
        if let Some(expiry_s) = packet.properties.session_expiry_s() {
            // A session that was to end with the connection cannot last longer ([MQTT-3.14.2-2]).
            if mqtt.expiry_s == 0 && expiry_s > 0 {
                return Err(ReasonCode::ProtocolError);
            }
            mqtt.expiry_s = expiry_s;
        }
        if packet.reason == ReasonCode::Success {
            mqtt.will = None;
        }
        Ok(())
    }

    /// A client has been silent for one and a half of its intervals.
    pub(crate) fn mqtt_silent(&mut self, index: ConnIndex) {
        self.statistics.ping_timeouts += 1;
        if self.connections.slots[index].is(flag::BLOCKED) {
            self.abort(index);
        } else {
            self.mqtt_disconnect(index, ReasonCode::KeepAliveTimeout);
        }
    }
}

/// The name of a client that gives none, in the form of a UUID.
fn assigned_name(instance: u64) -> String {
    let high = keyed(Seed(1, 0), &instance.to_be_bytes());
    let low = keyed(Seed(2, 0), &instance.to_be_bytes());
    let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0x0fff);
    let (d, e) = (low >> 48 & 0x3fff | 0x8000, low & 0xffff_ffff_ffff);
    format!("auto-{a:08X}-{b:04X}-4{c:03X}-{d:04X}-{e:012X}")
}
