//! Clients of MQTT 3.1.1 and 5.0: they subscribe, publish with every QoS, leave wills, come back to
//! their sessions and take them over from themselves, and acknowledge late.
//!
//! Each client keeps what the specification demands of it over connections (`session`), and what it
//! knows of the node's side (`presence`). Packets are checked at once as far as that is possible;
//! the order and the completeness of a session are left to the end of the world
//! (`oracle::mqtt`).

mod acting;
mod connecting;
mod membership;
mod presence;
mod publishing;
mod receiving;
mod session;
mod subscribing;
mod wills;

use crate::client::{Client, Context, Fortune, Peer, Phase};
use crate::network::{LinkId, Received};
use crate::oracle::{Oracle, matches};
use crate::plan::Plan;
use membership::Membership;
use presence::Presence;
use session::{Line, Session};
use stdx::prng::Prng;
use wills::Wills;
use wire::codec::Step;
use wire::mqtt::{ClientPacket, Limits, PACKET_BYTES_MAX, ServerPacket, Version};

/// The state of a client's connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// None.
    Offline,
    /// CONNECT was sent.
    Connecting,
    /// CONNACK has come.
    Connected,
}

/// A subscription that the client wants to have, always with the same options.
#[derive(Clone, Debug)]
struct Wish {
    filter: String,
    qos: u8,
    is_no_local: bool,
    /// No other wish can match the same topics.
    is_alone: bool,
}

/// The habits of a client.
#[derive(Clone, Copy, Debug)]
struct Habits {
    /// Its session outlives connections.
    is_persistent: bool,
    /// Version 5: the session's lifetime without a connection, in seconds.
    expiry_s: u32,
    /// The longest delay of an acknowledgement, in milliseconds.
    late_ms_max: u64,
    /// The probability that a connection has a will.
    wills: f64,
    /// The longest time without a connection, in milliseconds.
    sleep_ms_max: u64,
}

/// A client of MQTT; see the module.
pub struct MqttClient {
    peer: Peer,
    name: String,
    version: Version,
    wishes: Vec<Wish>,
    habits: Habits,
    stage: Stage,
    line: Line,
    session: Session,
    presence: Presence,
    wills: Wills,
    /// Unread connections that a later one has taken over.
    ghosts: Vec<LinkId>,
    /// The number of connections so far.
    connections: u32,
    /// Connections in a row that ended with a publication without an answer.
    refusals: u32,
    /// In the calm, it has asked once more for all retained messages.
    has_asked_again: bool,
    /// It is a member of a group, and subscribes to nothing else.
    membership: Option<Membership>,
}

/// The phases in which all clients leave.
fn is_over(phase: Phase) -> bool {
    match phase {
        Phase::Active | Phase::Calm => false,
        Phase::Leaving | Phase::Visiting | Phase::Over | Phase::Gone => true,
    }
}

impl MqttClient {
    /// Creates a client.
    pub fn new(id: usize, plan: &Plan, random: &mut Prng) -> MqttClient {
        let peer = Peer::new(id, plan, random);
        let version = [Version::V3_1_1, Version::V5][random.below(2) as usize];
        let is_persistent = random.chance(0.75);
        MqttClient {
            peer,
            name: format!("client-{id}"),
            version,
            wishes: draw_wishes(plan, version, random),
            habits: Habits {
                is_persistent,
                expiry_s: [1, 2, 600, u32::MAX][random.below(4) as usize],
                late_ms_max: [0, 20, 300][random.below(3) as usize],
                wills: [0.0, 0.3, 1.0][random.below(3) as usize],
                sleep_ms_max: [50, 400, 2_500][random.below(3) as usize],
            },
            stage: Stage::Offline,
            line: Line::default(),
            session: Session::default(),
            presence: Presence::default(),
            wills: Wills::default(),
            ghosts: Vec::new(),
            connections: 0,
            refusals: 0,
            has_asked_again: false,
            membership: None,
        }
    }

    /// Creates a member of a group.
    pub fn member(id: usize, plan: &Plan, random: &mut Prng, group: usize) -> MqttClient {
        let mut client = MqttClient::new(id, plan, random);
        client.wishes = vec![Wish {
            filter: plan.groups.filters[group].clone(),
            qos: 1,
            is_no_local: false,
            is_alone: true,
        }];
        client.membership = Some(Membership::of(group));
        client
    }

    /// Reads and forgets what comes on connections that were taken over, and closes those that the
    /// node has ended.
    fn bury_ghosts(&mut self, context: &mut Context<'_>) {
        let network = &mut *context.network;
        self.ghosts.retain(|ghost| {
            loop {
                match network.receive(*ghost, 1 << 20) {
                    Received::Data(_) => {}
                    Received::Nothing => return true,
                    Received::Ended | Received::Reset => {
                        network.leave(*ghost, false);
                        return false;
                    }
                }
            }
        });
    }

    /// Queues a packet.
    fn send(&mut self, context: &mut Context<'_>, packet: &ClientPacket<'_>) {
        context.oracle.note(self.peer.id, || format!("-> {}", short(packet)));
        let mut bytes = Vec::new();
        match packet.encode(self.version, &Limits::default(), &mut bytes) {
            Ok(()) => self.peer.send(&bytes),
            Err(error) => context.oracle.fail(self.peer.id, format!("cannot encode: {error:?}")),
        }
    }

    /// Processes the input. False if the connection is to end.
    fn understand(&mut self, context: &mut Context<'_>) -> bool {
        let input = std::mem::take(&mut self.peer.input);
        let mut at = 0;
        loop {
            match ServerPacket::decode(self.version, PACKET_BYTES_MAX, &input[at..]) {
                Ok(Step::More { .. }) => {
                    self.peer.input = input[at..].to_vec();
                    return true;
                }
                Ok(Step::Done { value, consumed }) => {
                    context.oracle.note(self.peer.id, || format!("<- {}", short(&value)));
                    at += consumed;
                    if !self.on_packet(context, &value) {
                        return false;
                    }
                }
                Err(error) => {
                    context.oracle.fail(self.peer.id, format!("a packet that is none: {error}"));
                    return false;
                }
            }
        }
    }

    fn on_packet(&mut self, context: &mut Context<'_>, packet: &ServerPacket<'_>) -> bool {
        if let ServerPacket::ConnAck(connack) = packet {
            return self.on_connack(context, connack);
        }
        if self.stage != Stage::Connected {
            context.oracle.fail(self.peer.id, format!("before CONNACK: {}", short(packet)));
            return false;
        }
        match packet {
            ServerPacket::Publish(publish) => self.on_publish(context, publish),
            ServerPacket::PubAck(ack) => self.on_puback(context, ack),
            ServerPacket::PubRec(ack) => self.on_pubrec(context, ack),
            ServerPacket::PubRel(ack) => self.on_pubrel(context, ack),
            ServerPacket::PubComp(ack) => self.on_pubcomp(context, ack),
            ServerPacket::SubAck(suback) => self.on_suback(context, suback),
            ServerPacket::UnsubAck(unsuback) => self.on_unsuback(context, unsuback.packet_id),
            ServerPacket::PingResp => self.on_pong(context),
            ServerPacket::Disconnect(disconnect) => {
                self.on_disconnect(context, disconnect.reason);
                return false;
            }
            ServerPacket::ConnAck(_) | ServerPacket::Auth(_) => {
                context.oracle.fail(self.peer.id, format!("unexpected: {}", short(packet)));
                return false;
            }
        }
        true
    }

    /// Whether the session has a publication, over any packet.
    fn has(&self, publication: usize) -> bool {
        self.session.seen.contains_key(&publication)
            || self.session.retained_seen.contains(&publication)
    }

    /// Whether the last message of each topic has come to subscriptions that guarantee it.
    fn is_past_markers(&self, context: (&Oracle, &Plan)) -> Result<(), String> {
        let (oracle, plan) = context;
        for (topic, name) in plan.topics.iter().enumerate() {
            let Some(marker) = oracle.marker_publication(plan, topic) else {
                continue;
            };
            let sent_at = oracle.publications[marker].sent_at;
            let is_due = |at: &usize| {
                let subscription = &oracle.mqtt.sessions[self.session.number].subscriptions[*at];
                subscription.qos > 0
                    && subscription.since < sent_at
                    && !subscription.weakened.contains(name)
                    && matches(&subscription.filter, name)
            };
            if let Some(membership) = &self.membership {
                membership.is_past_marker(oracle, (marker, name))?;
                continue;
            }
            if self.session.granted.values().any(is_due) && !self.has(marker) {
                return Err(format!("{name}: the last message, {marker}, has not come"));
            }
        }
        Ok(())
    }
}

/// Draws filters and topics with their options.
fn draw_wishes(plan: &Plan, version: Version, random: &mut Prng) -> Vec<Wish> {
    let mut all: Vec<String> = plan.filters.clone();
    all.extend(plan.topics.iter().cloned());
    random.shuffle(&mut all);
    all.truncate(random.between(1, 4) as usize);
    let alone = |filter: &String| {
        let hits = |other: &String, topic: &String| matches(other, topic);
        let others = all.iter().filter(|other| *other != filter);
        let mut shared = others.flat_map(|other| {
            plan.topics.iter().filter(move |topic| hits(other, topic) && hits(filter, topic))
        });
        shared.next().is_none()
    };
    let is_alone: Vec<bool> = all.iter().map(alone).collect();
    let wishes = all.into_iter().zip(is_alone).map(|(filter, is_alone)| Wish {
        filter,
        qos: [0, 1, 1, 2, 2][random.below(5) as usize],
        is_no_local: version == Version::V5 && random.chance(0.2),
        is_alone,
    });
    wishes.collect()
}

fn short(packet: &impl std::fmt::Debug) -> String {
    let mut text = format!("{packet:?}");
    // Numbers of payloads say nothing.
    let end = text.find("payload").unwrap_or(text.len()).min(400);
    text.truncate(end);
    text
}

impl Client for MqttClient {
    fn step(&mut self, context: &mut Context<'_>) -> Option<u64> {
        self.bury_ghosts(context);
        if is_over(context.phase) {
            return self.retire(context);
        }
        self.presence.watch(context.network, context.now_ms);
        let was_connected = self.peer.is_connected();
        if context.now_ms >= self.peer.act_at_ms {
            if !was_connected {
                self.connect(context);
            }
            let pace = context.plan.pace_ms;
            self.peer.act_at_ms = context.now_ms + 1 + self.peer.random.below(2 * pace + 1);
            self.act(context);
            self.peer.suffer(context);
            if !self.peer.is_connected() {
                self.lost(context, true);
                return Some(self.next_ms(context));
            }
        }
        let before = self.peer.input.len();
        match self.peer.transfer(context) {
            Fortune::Connected => {}
            Fortune::Lost => self.lost(context, false),
            Fortune::Offline if was_connected => self.lost(context, false),
            Fortune::Offline => {}
        }
        let did_read = self.peer.input.len() != before;
        if did_read && !self.understand(context) {
            self.peer.leave(context, false);
            self.lost(context, false);
        }
        if self.stage == Stage::Connected {
            self.send_due_answers(context);
        }
        self.close_if_said(context);
        let io = self.peer.next_step_ms(context, did_read);
        let mine = self.next_ms(context);
        Some(io.map_or(mine, |io| io.min(mine)))
    }

    fn is_settled(&self, context: (&Oracle, &Plan)) -> Result<(), String> {
        if self.stage != Stage::Connected {
            return Err(format!("MQTT: {:?}", self.stage));
        }
        let waits = self.session.waits().or_else(|| self.line.waits());
        if let Some(text) = waits {
            return Err(format!("MQTT: {text}"));
        }
        if !self.has_asked_again || self.wishes.len() > self.session.granted.len() {
            return Err("MQTT: a subscription is missing".into());
        }
        if context.1.lossless && !context.0.is_flipped {
            self.is_past_markers(context).map_err(|text| format!("MQTT: {text}"))?;
        }
        Ok(())
    }

    fn finish(&mut self, oracle: &mut Oracle) {
        let open = std::mem::take(&mut self.wills);
        open.finish(oracle);
    }
}
