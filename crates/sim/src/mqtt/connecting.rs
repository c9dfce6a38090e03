//! CONNECT, CONNACK, and the ends of connections.

use super::presence::Attempt;
use super::session::{Line, Session};
use super::wills::{Return, Will};
use super::{MqttClient, Stage};
use crate::client::{Context, Phase};
use crate::plan::Plan;
use std::num::NonZeroU16;
use wire::mqtt::{
    ClientPacket, ConnAck, Connect, Disconnect, Properties, Property, Qos, ReasonCode, Version,
};

/// Connections in a row without progress, after which a client begins a new session.
const REFUSALS_MAX: u32 = 5;
/// A connection that lasts longer has got the retained messages that earlier ones have asked for;
/// milliseconds.
const SHORT_MS: u64 = 1_000;
/// The time that a session needs at most to reach the disk, if disks do not fail; milliseconds.
const WRITTEN_MS: u64 = 1_500;

impl MqttClient {
    /// Connects to a random edge.
    pub(super) fn connect(&mut self, context: &mut Context<'_>) {
        self.settle_withdrawal(context);
        self.begin_line(context);
        self.connections += 1;
        let is_calm = context.phase != Phase::Active;
        let is_persistent = self.habits.is_persistent;
        let is_stuck = self.refusals > REFUSALS_MAX;
        let random = &mut self.peer.random;
        let is_clean = is_stuck || !is_persistent || !is_calm && random.chance(0.1);
        // Version 5 may ask for a session that ends with the connection, and not for a new one.
        let may_keep = self.version == Version::V5 && !is_persistent && !is_stuck;
        let is_clean = is_clean && !(may_keep && random.chance(0.3));
        let expiry_s = match self.version {
            Version::V5 if is_persistent => self.habits.expiry_s,
            Version::V5 => 0,
            Version::V3_1 | Version::V3_1_1 if is_clean => 0,
            Version::V3_1 | Version::V3_1_1 => context.plan.settings.mqtt.session_expiry_v3_s,
        };
        let receive_max = match self.version {
            Version::V5 => [1, 2, 10, u16::MAX][random.below(4) as usize],
            Version::V3_1 | Version::V3_1_1 => u16::MAX,
        };
        // Retained messages that the connection before has asked for may come on this one. So may
        // those that an earlier one has asked for, if the one before was short.
        let lost_ms = self.line.lost_ms.unwrap_or(context.now_ms);
        let was_short = lost_ms < self.line.asked_ms + SHORT_MS || !self.line.is_accepted;
        let was_quiet = self.line.retained.is_empty()
            && self.line.subscribing.is_empty()
            && self.line.open.is_empty()
            && !was_short;
        let first_known = std::mem::take(&mut self.line.first_known);
        self.line = Line {
            first_known: if was_quiet { Default::default() } else { first_known },
            number: self.connections,
            receive_max,
            // Version 3 cannot be told.
            node_receive_max: context.plan.settings.mqtt.receive_max,
            asked_ms: context.now_ms,
            is_clean,
            expiry_s,
            ..Line::default()
        };
        let instance = self.peer.instance;
        self.peer.connect(context);
        if self.peer.instance != instance {
            // Another node may have another log.
            self.line.first_known.values_mut().for_each(|known| *known = 0);
        }
        self.line.link = self.peer.link();
        self.stage = Stage::Connecting;
        self.send_connect(context);
    }

    fn send_connect(&mut self, context: &mut Context<'_>) {
        let mut properties = Vec::new();
        if self.version == Version::V5 {
            properties.push(Property::SessionExpiry(self.line.expiry_s));
            if let Some(max) = NonZeroU16::new(self.line.receive_max) {
                properties.push(Property::ReceiveMaximum(max));
            }
        }
        let will = self.draw_will(context);
        let delay_s = will.map_or(0, |(will, _)| (will.delay_ms / 1_000) as u32);
        let of_will = [Property::WillDelay(delay_s)];
        let sent = will.map(|(will, qos)| {
            let publication = &context.oracle.publications[will.publication];
            let topic = context.plan.topics[publication.topic].clone();
            (topic, publication.payload().to_vec(), publication.retain, qos)
        });
        let sent = sent.as_ref().map(|(topic, payload, retain, qos)| wire::mqtt::Will {
            qos: *qos,
            retain: *retain,
            topic,
            payload,
            properties: match self.version {
                Version::V5 => Properties::from(&of_will),
                Version::V3_1 | Version::V3_1_1 => Properties::default(),
            },
        });
        let name = self.name.clone();
        let connect = Connect {
            version: self.version,
            clean_start: self.line.is_clean,
            keep_alive_s: 0,
            properties: Properties::from(&properties[..]),
            client_id: &name,
            will: sent,
            user_name: None,
            password: None,
        };
        self.send(context, &ClientPacket::Connect(connect));
        // The delay lasts as long as the session at most.
        self.line.will = will.map(|(will, _)| Will {
            delay_ms: will.delay_ms.min(u64::from(self.line.expiry_s) * 1_000),
            instance: self.peer.instance,
            ..will
        });
    }

    fn draw_will(&mut self, context: &mut Context<'_>) -> Option<(Will, Qos)> {
        if context.phase != Phase::Active || !self.peer.random.chance(self.habits.wills) {
            return None;
        }
        let topic = self.peer.random.below(context.plan.topics.len() as u64) as usize;
        let qos = [Qos::Zero, Qos::One, Qos::Two][self.peer.random.below(3) as usize];
        let (publication, _) = context.oracle.publication(context.plan, topic, 3);
        let delay_s = match self.version {
            Version::V5 => [0, 0, 1, 2][self.peer.random.below(4) as usize],
            Version::V3_1 | Version::V3_1_1 => 0,
        };
        let retain = self.peer.random.chance(context.plan.retain);
        let of_will = &mut context.oracle.publications[publication];
        (of_will.qos, of_will.mqtt_client) = (Some(qos as u8), Some(self.peer.id));
        of_will.retain = retain;
        let will = Will {
            client: self.peer.id,
            publication,
            instance: 0,
            delay_ms: delay_s * 1_000,
            is_doubtful: false,
        };
        Some((will, qos))
    }

    fn attempt(&self) -> Attempt {
        Attempt {
            is_clean: self.line.is_clean,
            expiry_s: self.line.expiry_s,
            asked_ms: self.line.asked_ms,
            instance: self.peer.instance,
        }
    }

    /// CONNACK. False if the node refuses.
    pub(super) fn on_connack(&mut self, context: &mut Context<'_>, connack: &ConnAck<'_>) -> bool {
        let id = self.peer.id;
        if self.stage != Stage::Connecting {
            context.oracle.fail(id, "a second CONNACK".into());
            return false;
        }
        if connack.reason != ReasonCode::Success {
            if !context.plan.drains() || connack.reason != ReasonCode::ServerUnavailable {
                context.oracle.fail(id, format!("CONNACK refuses: {}", connack.reason));
            }
            return false;
        }
        let attempt = self.attempt();
        let expected = self.presence.expected(context, &attempt);
        if expected.is_some_and(|expected| expected != connack.session_present) {
            let text = format!("session present is {}", connack.session_present);
            context.oracle.fail(id, format!("{text}, and the session is another matter"));
            return false;
        }
        // A jump of the clock may have ended the session behind the decision about its will.
        let has_jumped = context.plan.clock_jumps || context.plan.clock_leaps;
        let ended_by_clock = has_jumped && !connack.session_present && !self.line.is_clean;
        self.wills.returned(&Return {
            now_ms: context.now_ms,
            asked_ms: self.line.asked_ms,
            is_clean: !connack.session_present,
            left_ms: self.presence.left_ms(),
            began_ms: self.presence.began_ms(),
            instance: self.peer.instance,
            is_uncertain: self.presence.is_uncertain() || ended_by_clock,
        });
        self.wills.begin(self.line.will.take());
        context.oracle.mqtt.counts.took_over +=
            u64::from(connack.session_present && self.presence.is_held());
        self.continue_session(context, connack.session_present, expected);
        if self.version == Version::V5 {
            let properties = &connack.properties;
            let receive_max = properties.receive_maximum();
            self.line.node_receive_max = receive_max.map_or(u16::MAX, NonZeroU16::get);
            self.line.alias_max = properties.topic_alias_maximum().unwrap_or(0);
        }
        self.continue_span(context);
        self.presence.accepted(&attempt, self.peer.link());
        self.stage = Stage::Connected;
        self.line.is_accepted = true;
        self.peer.act_at_ms = context.now_ms;
        self.resend(context);
        true
    }

    /// Continues the session, or begins a new one.
    fn continue_session(
        &mut self,
        context: &mut Context<'_>,
        is_present: bool,
        expected: Option<bool>,
    ) {
        let oracle = &mut *context.oracle;
        let moment = oracle.tick();
        if is_present {
            oracle.mqtt.counts.continued += 1;
            // A CONNECT without an answer has begun it.
            if self.session.began == 0 {
                self.session.number = oracle.mqtt.begin(self.peer.id);
                self.session.began = u32::MAX;
            }
            if expected.is_none() {
                self.doubt_session(context, moment);
                self.expect_former_session(context);
            }
            return;
        }
        let mut former = std::mem::take(&mut self.session);
        self.end_subscriptions(context, &former, moment);
        self.session.former_asked = std::mem::take(&mut former.former_asked);
        self.session.former_asked.append(&mut former.asked);
        self.session.number = context.oracle.mqtt.begin(self.peer.id);
        self.session.began = self.line.number;
        // The node may lack these publications: the client publishes them again.
        let is_given_up = self.refusals > REFUSALS_MAX;
        let at_least_once =
            former.outgoing.into_iter().filter(|outgoing| outgoing.qos == 1 && !is_given_up);
        self.session.outgoing = at_least_once.collect();
        self.session.is_republished = true;
    }

    /// The record of the session may have been refused (`docs/mqtt.md`), or lost with the end of
    /// the log: then another node has the one before.
    fn expect_former_session(&mut self, context: &mut Context<'_>) {
        let is_restart = self.presence.instance() != self.peer.instance;
        let may_be_lost = context.plan.disk.refuses() || context.oracle.is_flipped;
        if is_restart && may_be_lost && !self.session.former_asked.is_empty() {
            self.session.asked.append(&mut self.session.former_asked);
            self.session.number = context.oracle.mqtt.begin(self.peer.id);
        }
    }

    fn end_subscriptions(&self, context: &mut Context<'_>, session: &Session, moment: u64) {
        for at in session.granted.values() {
            let sessions = &mut context.oracle.mqtt.sessions;
            sessions[session.number].subscriptions[*at].until = Some(moment);
        }
    }

    /// The session may be an older state of itself, or another one: the node may have died, or a
    /// CONNECT without an answer may have begun it.
    fn doubt_session(&mut self, context: &mut Context<'_>, moment: u64) {
        let is_restart = self.presence.instance() != self.peer.instance;
        let died_at_ms = context.oracle.mqtt.died_at_ms.unwrap_or(0);
        let disk = context.plan.disk;
        let is_written = |since_ms: u64| {
            let may_fail = disk.refuses() || disk.refuses_reads() || context.oracle.is_flipped;
            is_restart && !may_fail && since_ms + WRITTEN_MS < died_at_ms
        };
        let number = self.session.number;
        let mut lost = Vec::new();
        for (filter, at) in &self.session.granted {
            let known = &context.oracle.mqtt.sessions[number].subscriptions[*at];
            if !is_written(known.since_ms) || self.presence.was_uncertain() {
                lost.push((filter.clone(), *at));
            }
        }
        for (filter, at) in lost {
            self.session.granted.remove(&filter);
            context.oracle.mqtt.sessions[number].subscriptions[at].until = Some(moment);
        }
        if is_restart && context.oracle.mqtt.is_qos2_exact_over_crashes {
            return;
        }
        for outgoing in &self.session.outgoing {
            let once = &mut context.oracle.publications[outgoing.publication].once;
            *once = crate::oracle::Once::Repeats;
        }
        self.session.received.clear();
        self.session.seen.values_mut().for_each(|seen| seen.is_excused = true);
    }

    /// The connection has ended, by the client itself or otherwise.
    pub(super) fn lost(&mut self, context: &mut Context<'_>, is_own: bool) {
        let attempt = self.attempt();
        let is_broken = self.line.link.is_none_or(|link| context.network.is_broken(link));
        self.end_line(context, is_own);
        self.line.lost_ms = Some(context.now_ms);
        match self.stage {
            Stage::Offline => {}
            Stage::Connecting => {
                self.presence.unanswered(&attempt, self.line.link);
                self.wills.doubt();
                if let Some(will) = self.line.will.take() {
                    self.wills.unknown(will);
                }
            }
            Stage::Connected => {
                // CONNACK may wait for the disk longer than the connection lasts at the node.
                // So may the client wait for a connection that is broken.
                let is_known = is_own && !is_broken;
                let earliest_ms = if is_known { context.now_ms } else { self.line.asked_ms };
                self.presence.ended(earliest_ms);
                // A connection may break before the node has read DISCONNECT.
                if let Some((expiry_s, is_sure)) = self.line.changed_expiry {
                    self.presence.changed(expiry_s, is_sure && self.line.has_left);
                }
                let waits = self.session.outgoing.iter().any(|it| !it.is_received);
                self.refusals = if waits { self.refusals + 1 } else { 0 };
            }
        }
        self.stage = Stage::Offline;
        self.line.answers.clear();
        let is_calm = context.phase != Phase::Active;
        let pause_ms = if is_calm { 30 } else { self.habits.sleep_ms_max };
        self.peer.act_at_ms = context.now_ms + self.peer.random.between(1, pause_ms);
    }

    /// Another connection of this client takes the session over; the present one stays open.
    pub(super) fn take_over(&mut self, context: &mut Context<'_>) {
        context.oracle.note(self.peer.id, || "takes its own session over".into());
        self.ghosts.extend(self.peer.abandon());
        self.end_line(context, true);
        self.connect(context);
    }

    /// DISCONNECT, perhaps with the will, or with another lifetime of the session.
    pub(super) fn say_goodbye(&mut self, context: &mut Context<'_>) {
        let is_v5 = self.version == Version::V5;
        let keeps_will = is_v5 && self.peer.random.chance(0.2);
        let reason = if keeps_will { ReasonCode::DisconnectWithWill } else { ReasonCode::Success };
        let ends = is_v5 && self.line.expiry_s > 0 && self.peer.random.chance(0.15);
        let ended = [Property::SessionExpiry(0)];
        let properties = if ends { Properties::from(&ended) } else { Properties::default() };
        self.send(context, &ClientPacket::Disconnect(Disconnect { reason, properties }));
        self.line.changed_expiry = ends.then_some((0, true));
        self.line.is_leaving = true;
        self.line.left_at = Some(context.oracle.tick());
        self.line.withdraws_will = !keeps_will;
        // With requests before it, the node may see the end before it comes to DISCONNECT.
        let waits = self.session.outgoing.iter().any(|it| !it.is_received);
        if waits || !self.line.subscribing.is_empty() || !self.line.unsubscribing.is_empty() {
            self.wills.doubt();
        }
        if ends {
            self.wills.doubt(); // its delay ends with the session
        }
    }

    /// Closes the connection once DISCONNECT is on its way.
    pub(super) fn close_if_said(&mut self, context: &mut Context<'_>) {
        if self.line.is_leaving && self.peer.is_connected() && self.peer.has_sent_all() {
            self.line.is_leaving = false;
            // Then the node does not get DISCONNECT, and the connection just ends.
            let is_broken = self.line.link.is_none_or(|link| context.network.is_broken(link));
            self.line.has_left = !is_broken;
            // A node that drains may have ended the connection before it reads DISCONNECT.
            if is_broken || context.oracle.mqtt.is_draining {
                self.wills.doubt();
            }
            if is_broken && let Some((_, is_sure)) = &mut self.line.changed_expiry {
                *is_sure = false;
            }
            self.peer.leave(context, false);
            self.lost(context, true);
        }
    }

    /// The client connects again: by now the node has read DISCONNECT, or may never read it.
    fn settle_withdrawal(&mut self, context: &Context<'_>) {
        let was_asked = self.line.is_leaving;
        if !std::mem::take(&mut self.line.has_left) {
            // DISCONNECT may be on its way still.
            if was_asked {
                self.wills.doubt();
            }
            return;
        }
        let is_read = self.line.link.is_some_and(|link| {
            !context.network.is_held(link) && !context.network.was_cut_short(link)
        });
        if self.line.withdraws_will {
            self.wills.withdraw(is_read);
        }
        if !is_read && let Some((expiry_s, _)) = self.line.changed_expiry {
            self.presence.changed(expiry_s, false);
        }
    }

    /// DISCONNECT of the node.
    pub(super) fn on_disconnect(&mut self, context: &mut Context<'_>, reason: ReasonCode) {
        let plan = context.plan;
        let is_lossy = may_refuse(plan);
        let is_explained = match reason {
            ReasonCode::SessionTakenOver => self.presence.is_uncertain(),
            ReasonCode::ServerShuttingDown | ReasonCode::ServerMoved => plan.drains(),
            // A session from the disk may hold identifiers that the client has released since.
            ReasonCode::ReceiveMaximumExceeded => self.peer.instance > 0,
            ReasonCode::QuotaExceeded | ReasonCode::ImplementationSpecific => is_lossy,
            _ => false,
        };
        if !is_explained {
            context.oracle.fail(self.peer.id, format!("the node ends the connection: {reason}"));
        }
    }

    /// Leaves for good.
    pub(super) fn retire(&mut self, context: &mut Context<'_>) -> Option<u64> {
        for ghost in std::mem::take(&mut self.ghosts) {
            context.network.leave(ghost, false);
        }
        if self.stage == Stage::Connected && self.peer.is_connected() {
            let packet =
                Disconnect { reason: ReasonCode::Success, properties: Properties::default() };
            self.send(context, &ClientPacket::Disconnect(packet));
        }
        self.peer.leave(context, false);
        self.stage = Stage::Offline;
        None
    }
}

/// Whether the node may refuse publications and reads.
pub(super) fn may_refuse(plan: &Plan) -> bool {
    let is_refusing = plan.disk.refuses() || plan.disk.refuses_reads();
    !plan.lossless || plan.has_policies || is_refusing
}
