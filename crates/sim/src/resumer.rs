//! The session of crate `client` as a simulated client: the reference model checks its reports
//! (complete, gap, skipped).

mod filters;
mod pass;

use crate::client::{Client, Context, Fortune, Peer, Phase};
use crate::covering::Covering;
use crate::oracle::{Acknowledged, Hole, Oracle, Refusal, Run, SKIPPED, Source, check_skip};
use crate::plan::Plan;
use crate::world::START_S;
use client::session::{
    Answer, Event, GapCause, Message, PublishOptions, Reason, ServerError, Session, Settings,
    SubscriptionId,
};
use client::{Position, Start, SubscribeOptions};
use pass::Pass;
use std::collections::BTreeMap;
use stdx::prng::Prng;

/// A client over the session; see the module.
pub struct Resumer {
    peer: Peer,
    session: Session,
    runs: BTreeMap<SubscriptionId, (Run, bool)>,
    requests: BTreeMap<u32, usize>,
    /// Whether it subscribes to filters, too.
    is_covering: bool,
    filters: BTreeMap<SubscriptionId, Covering>,
    /// Its token; without one it is anonymous.
    pass: Option<Pass>,
}

impl Resumer {
    /// Creates a client that subscribes, publishes and resumes.
    pub fn new(id: usize, plan: &Plan, random: &mut Prng) -> Resumer {
        // The simulated native clients send early frames.
        let settings =
            Settings { handshake_timeout_ms: 60_000, early_frames: false, ..Settings::default() };
        Resumer {
            session: Session::new(settings, random.next_u64()),
            peer: Peer::new(id, plan, random),
            runs: BTreeMap::new(),
            requests: BTreeMap::new(),
            is_covering: false,
            filters: BTreeMap::new(),
            pass: None,
        }
    }

    /// Creates a client with a token, which permits some topics and expires.
    pub fn entitled(id: usize, plan: &Plan, random: &mut Prng) -> Resumer {
        let mut resumer = Resumer::new(id, plan, random);
        let pass = Pass::new(id, &mut resumer.peer.random, START_S);
        resumer.session.renew(pass.text());
        resumer.pass = Some(pass);
        resumer
    }

    /// Creates a client that subscribes to filters, too.
    pub fn covering(id: usize, plan: &Plan, random: &mut Prng) -> Resumer {
        Resumer { is_covering: true, ..Resumer::new(id, plan, random) }
    }

    fn lost(&mut self, context: &mut Context<'_>) {
        self.session.disconnected(Reason::Ended, Some(10));
        self.peer.act_at_ms = context.now_ms + self.peer.random.between(1, 100);
        self.take_events(context);
        self.renew_pass(context);
    }

    fn act(&mut self, context: &mut Context<'_>) {
        if self.is_covering && self.peer.random.chance(0.4) {
            self.act_on_filters(context);
            return self.peer.suffer(context);
        }
        if self.pass.is_some() {
            self.act_on_pass(context);
        }
        let topic = self.peer.random.below(context.plan.topics.len() as u64) as usize;
        let name = &context.plan.topics[topic];
        match self.peer.random.below(10) {
            0..=3 => {
                let floor = context.oracle.floor(context.plan.partition(topic));
                let (from, start) = match self.peer.random.below(3) {
                    0 => (None, Start::Live),
                    1 => (None, Start::Last(3)),
                    _ => {
                        let offset = self.peer.random.between(0, floor);
                        let epoch = context.oracle.present_epoch(context.plan.partition(topic));
                        let position = Position { epoch, offset };
                        (Some(position), Start::Since(position))
                    }
                };
                if let Ok(id) = self.session.subscribe(name, start, &SubscribeOptions::default()) {
                    context.oracle.note(self.peer.id, || {
                        format!("subscribes {id:?} to {name} from {start:?}")
                    });
                    let run = Run {
                        client: self.peer.id,
                        topic,
                        epoch: from.map_or(0, |from| from.epoch),
                        from: from.map_or(0, |from| from.offset),
                        cursor: from.map_or(0, |from| from.offset),
                        ..Run::default()
                    };
                    self.runs.insert(id, (run, from.is_some()));
                }
            }
            4 => {
                if let Some(id) = self.runs.keys().next().copied() {
                    self.session.unsubscribe(id);
                    if let Some((run, _)) = self.runs.remove(&id) {
                        context.oracle.keep_run(run);
                    }
                }
            }
            _ => {
                if self.session.has_room() {
                    let padding = crate::native::draw_padding(&mut self.peer.random, context.plan);
                    let (id, payload) = context.oracle.publication(context.plan, topic, padding);
                    if let Ok(request) =
                        self.session.publish(name, &payload, &PublishOptions::default(), true)
                    {
                        self.requests.insert(request, id);
                    }
                }
            }
        }
        self.peer.suffer(context);
    }

    /// Whether the token explains a refused publication.
    fn is_publication_explained(
        &self,
        context: &Context<'_>,
        id: usize,
        error: &ServerError,
    ) -> bool {
        let topic = context.oracle.publications[id].topic;
        self.is_refusal_explained(context, topic, error)
    }

    fn take_events(&mut self, context: &mut Context<'_>) {
        while let Some(event) = self.session.take_event() {
            context.oracle.note(self.peer.id, || {
                let mut text = format!("{event:?}");
                text.truncate(200);
                text
            });
            let event = self.on_pass_event(context, event);
            let event = event.and_then(|event| self.on_filter_event(context, event));
            if let Some(event) = event {
                self.on_event(context, event);
            }
        }
        self.settle_filters(context);
        while let Some((request, answer)) = self.session.take_answer() {
            let Some(id) = self.requests.remove(&request) else {
                context.oracle.fail(self.peer.id, format!("an answer for {request}"));
                continue;
            };
            match answer {
                Answer::Published(published) => {
                    let Position { epoch, offset } = published.position;
                    let told = Acknowledged { epoch, offset, is_duplicate: published.duplicate };
                    context.oracle.acknowledged(context.plan, self.peer.source(), id, told);
                }
                Answer::Refused(error)
                    if context.plan.may_refuse(error.code)
                        || self.is_publication_explained(context, id, &error) =>
                {
                    let source = self.peer.source();
                    let refusal = Refusal::of(error.code);
                    context.oracle.refused(context.plan, source, id, refusal);
                }
                Answer::Refused(error) => {
                    context.oracle.fail(self.peer.id, format!("refused: {error}"))
                }
                Answer::History(_) | Answer::Unknown => {}
            }
        }
    }

    fn on_event(&mut self, context: &mut Context<'_>, event: Event) {
        let id = self.peer.id;
        match event {
            Event::Message(message) => self.on_message(context, &message),
            Event::Subscribed { subscription, position: Some(position), .. } => {
                self.on_subscribed(context, subscription, position);
            }
            Event::Connected { connection, .. } => {
                context.oracle.events.welcomed(id, connection);
            }
            Event::CaughtUp { subscription, position, .. } => {
                let source = self.peer.source();
                if let Some((run, _)) = self.runs.get_mut(&subscription)
                    && has_epoch(context, run, source, position.epoch)
                {
                    run.cursor = run.cursor.max(position.offset);
                }
            }
            Event::Gap { subscription, from, to, cause, .. } => {
                self.on_gap(context, subscription, (from, to), cause);
            }
            Event::Skipped { subscription, from, through, reason, .. } => {
                let hole = Hole {
                    from,
                    to: through,
                    reason: SKIPPED + reason.number(),
                    told_at: context.oracle.moment,
                };
                if let Some((run, _)) = self.runs.get_mut(&subscription) {
                    let policy = context.plan.policy_of_topic(run.topic, None);
                    run.take_hole(hole);
                    if let Err(text) = check_skip(policy, &hole) {
                        context.oracle.fail(id, text);
                    }
                }
            }
            Event::Unsubscribed { subscription, error: Some(error), .. } => {
                let topic = self.runs.get(&subscription).map(|(run, _)| run.topic);
                let is_explained =
                    topic.is_some_and(|topic| self.is_explained(context, topic, &error));
                let is_of_token = matches!(error.code, 200..=299 | 2_000);
                if !is_explained && (context.plan.lossless || is_of_token) {
                    context.oracle.fail(id, format!("unsubscribed: {error}"));
                }
                if let Some((run, _)) = self.runs.remove(&subscription) {
                    context.oracle.keep_run(run);
                }
            }
            Event::Error(error) => context.oracle.fail(id, format!("error: {error}")),
            _ => {}
        }
    }

    /// Processes a message.
    fn on_message(&mut self, context: &mut Context<'_>, message: &Message) {
        let id = self.peer.id;
        let source = self.peer.source();
        let Some((run, _)) = message.subscription.and_then(|id| self.runs.get_mut(&id)) else {
            return context.oracle.fail(id, "a message without a subscription".into());
        };
        let topic = run.topic;
        if !has_epoch(context, run, source, message.position.epoch) {
            return;
        }
        let offset = message.position.offset;
        let prev = Some(message.prev);
        context.oracle.delivered(context.plan, source, run.topic, offset, prev, &message.payload);
        // `CaughtUp` may precede the message that it settles.
        let was_settled = offset < run.cursor || run.seen.last() == Some(&offset);
        if was_settled {
            let text = format!("reported {offset} after {}", run.cursor);
            context.oracle.fail(id, text);
        }
        run.cursor = offset;
        run.seen.push(offset);
        self.check_pass(context, topic);
    }

    /// Processes the start or the resume of a subscription.
    fn on_subscribed(
        &mut self,
        context: &mut Context<'_>,
        subscription: SubscriptionId,
        position: Position,
    ) {
        let source = self.peer.source();
        if let Some((run, has_begun)) = self.runs.get_mut(&subscription) {
            let partition = context.plan.partition(run.topic);
            if !std::mem::replace(has_begun, true) {
                (run.from, run.cursor) = (position.offset, position.offset);
                run.epoch = position.epoch;
            } else if context.oracle.holds(partition, run.epoch, run.cursor, source.instance) {
                // It continues from its position, in the node's epoch, also if the node
                // dies before the next event. Invalid positions are reported as a gap,
                // which comes next.
                has_epoch(context, run, source, position.epoch);
            }
        }
    }

    /// Processes a gap.
    fn on_gap(
        &mut self,
        context: &mut Context<'_>,
        subscription: SubscriptionId,
        (from, to): (Option<Position>, Option<Position>),
        cause: GapCause,
    ) {
        let id = self.peer.id;
        let GapCause::Announced(reason) = cause else {
            return context
                .oracle
                .fail(id, format!("the session found {cause:?} from {from:?} to {to:?}"));
        };
        let told_at = context.oracle.moment;
        let instance = self.peer.instance;
        if let Some((run, _)) = self.runs.get_mut(&subscription)
            && let Some(to) = to
        {
            let partition = context.plan.partition(run.topic);
            let is_known = context.oracle.holds(partition, run.epoch, run.cursor, instance);
            if run.epoch != to.epoch {
                if is_known {
                    run.continue_in(to.epoch)
                } else {
                    context.oracle.keep_run(run.begin_anew(to.epoch))
                }
            }
            run.holes.push(Hole {
                from: run.cursor,
                to: to.offset,
                reason: reason.number(),
                told_at,
            });
            run.cursor = run.cursor.max(to.offset);
        }
    }
}

/// Whether a report belongs to the run: to its epoch, or to one in which its position is valid.
fn has_epoch(context: &mut Context<'_>, run: &mut Run, source: Source, epoch: u64) -> bool {
    let partition = context.plan.partition(run.topic);
    let is_known = run.epoch == epoch
        || context.oracle.holds(partition, run.epoch, run.cursor, source.instance);
    if epoch != context.oracle.epoch(partition, source.instance) || !is_known {
        let (old, cursor) = (run.epoch, run.cursor);
        let text = format!("reported epoch {epoch} without a gap after {old}:{cursor}");
        context.oracle.fail(source.client, text);
        return false;
    }
    run.continue_in(epoch);
    true
}

impl Client for Resumer {
    fn step(&mut self, context: &mut Context<'_>) -> Option<u64> {
        if matches!(context.phase, Phase::Leaving | Phase::Visiting | Phase::Over | Phase::Gone) {
            self.peer.leave(context, false);
            return None;
        }
        let was_connected = self.peer.is_connected();
        if was_connected {
            if context.phase == Phase::Active && context.now_ms >= self.peer.act_at_ms {
                let pace = context.plan.pace_ms;
                self.peer.act_at_ms = context.now_ms + 1 + self.peer.random.below(2 * pace + 1);
                self.act(context);
            }
        } else if context.now_ms >= self.peer.act_at_ms {
            self.peer.connect(context);
            self.session.connected("sim", "/crore", context.now_ms);
        }
        if self.peer.is_connected() {
            let output = self.session.output().to_vec();
            self.session.written(output.len());
            self.peer.send(&output);
        }
        match self.peer.transfer(context) {
            Fortune::Connected => {}
            Fortune::Lost => self.lost(context),
            Fortune::Offline if was_connected => self.lost(context),
            Fortune::Offline => {}
        }
        if !self.peer.is_connected() {
            return Some(self.peer.act_at_ms.max(context.now_ms + 1));
        }
        let mut input = std::mem::take(&mut self.peer.input);
        let did_read = !input.is_empty();
        let result = self.session.receive(&mut input, context.now_ms);
        let result = result.and_then(|()| self.session.tick(context.now_ms));
        self.take_events(context);
        if let Err(reason) = result {
            let is_bad = !reason.reconnects() || matches!(reason, Reason::Protocol(_));
            if !self.is_end_of_pass(context, &reason) && is_bad {
                context.oracle.fail(self.peer.id, format!("the session ended: {reason}"));
            }
            self.peer.leave(context, false);
            self.lost(context);
            return Some(self.peer.act_at_ms.max(context.now_ms + 1));
        }
        let output = (!self.session.output().is_empty()).then_some(context.now_ms);
        let act =
            (context.phase == Phase::Active).then_some(self.peer.act_at_ms.max(context.now_ms));
        let deadline = self.session.next_deadline_ms();
        let io = self.peer.next_step_ms(context, did_read);
        [output, act, deadline, io].into_iter().flatten().min()
    }

    fn is_settled(&self, (oracle, _): (&Oracle, &Plan)) -> Result<(), String> {
        if !self.session.is_ready() {
            return Err("not connected".into());
        }
        self.is_pass_settled()?;
        if self.session.inflight() > 0 {
            return Err("requests were not answered".into());
        }
        for (id, (run, has_begun)) in &self.runs {
            if !has_begun {
                return Err(format!("{id:?} has not begun"));
            }
            oracle.is_past_marker(run).map_err(|text| format!("{id:?} {text}"))?;
        }
        for (id, covering) in &self.filters {
            let result = covering.is_past_markers(oracle);
            result.map_err(|text| format!("{id:?}, a filter, {text}"))?;
        }
        Ok(())
    }

    fn finish(&mut self, oracle: &mut Oracle) {
        for (_, (run, _)) in std::mem::take(&mut self.runs) {
            oracle.keep_run(run);
        }
        for (_, mut covering) in std::mem::take(&mut self.filters) {
            covering.finish(oracle);
        }
    }
}
