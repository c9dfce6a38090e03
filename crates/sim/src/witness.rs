//! A client of the node's events on `$sys/...`, from the world's beginning until all other clients
//! have left.
//!
//! The reference model checks its events ([`crate::oracle::Events`]). It has no faults.

use crate::client::{Client, Context, Fortune, Peer, Phase};
use crate::oracle::Oracle;
use crate::plan::Plan;
use broker::mail::PartitionId;
use broker::sys;
use client::session::{Event, Reason, Session, Settings, SubscribeOptions};
use client::{Policy, Position, Start};
use stdx::prng::Prng;

/// The witness; see the module.
pub struct Witness {
    peer: Peer,
    session: Session,
    is_subscribed: bool,
}

impl Witness {
    /// Creates the client with this number.
    pub fn new(id: usize, plan: &Plan) -> Witness {
        let mut random = Prng::new(plan.seed ^ 0x0717_4e55);
        // The simulated native clients send early frames.
        let settings =
            Settings { handshake_timeout_ms: 60_000, early_frames: false, ..Settings::default() };
        Witness {
            session: Session::new(settings, random.next_u64()),
            peer: Peer::new(id, plan, &mut random),
            is_subscribed: false,
        }
    }

    /// Subscribes to all events, from the beginning.
    fn subscribe(&mut self, context: &mut Context<'_>) {
        let statistics = sys::statistics_topic(&context.plan.settings.node_name);
        let topics = [
            sys::CLIENTS_CONNECTED,
            sys::CLIENTS_DISCONNECTED,
            sys::TOPICS_OCCUPIED,
            sys::TOPICS_VACATED,
            &statistics,
        ];
        let options =
            SubscribeOptions { policy: Some(Policy::Replay), ..SubscribeOptions::default() };
        for topic in topics {
            let (_, PartitionId(partition)) = context.plan.settings.locate(topic);
            let epoch = context.oracle.present_epoch(partition);
            let start = Start::Since(Position { epoch, offset: 0 });
            if let Err(error) = self.session.subscribe(topic, start, &options) {
                let text = format!("{topic}: {error:?}");
                context.oracle.fail(self.peer.id, text);
            }
        }
        self.is_subscribed = true;
    }

    fn lost(&mut self, context: &mut Context<'_>) {
        self.session.disconnected(Reason::Ended, Some(10));
        self.peer.act_at_ms = context.now_ms + self.peer.random.between(1, 100);
        self.take_events(context);
    }

    fn take_events(&mut self, context: &mut Context<'_>) {
        while let Some(event) = self.session.take_event() {
            context.oracle.note(self.peer.id, || {
                let mut text = format!("{event:?}");
                text.truncate(200);
                text
            });
            let id = self.peer.id;
            let events = &mut context.oracle.events;
            let result = match event {
                Event::Message(message) => {
                    events.told(&message.topic, message.position.offset, &message.payload)
                }
                Event::Connected { connection, .. } => {
                    events.welcomed(id, connection);
                    Ok(())
                }
                Event::Gap { .. }
                | Event::Skipped { .. }
                | Event::Unsubscribed { .. }
                | Event::Error(_) => Err(format!("the witness received {event:?}")),
                _ => Ok(()),
            };
            if let Err(text) = result {
                context.oracle.fail(id, text);
            }
        }
    }
}

impl Client for Witness {
    fn step(&mut self, context: &mut Context<'_>) -> Option<u64> {
        if context.phase == Phase::Gone {
            self.peer.leave(context, false);
            return None;
        }
        if !self.is_subscribed {
            self.subscribe(context);
        }
        let was_connected = self.peer.is_connected();
        if !was_connected && context.now_ms >= self.peer.act_at_ms {
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
            if !reason.reconnects() || matches!(reason, Reason::Protocol(_)) {
                let text = format!("the session ended: {reason}");
                context.oracle.fail(self.peer.id, text);
            }
            self.peer.leave(context, false);
            self.lost(context);
            return Some(self.peer.act_at_ms.max(context.now_ms + 1));
        }
        let output = (!self.session.output().is_empty()).then_some(context.now_ms);
        let deadline = self.session.next_deadline_ms();
        let io = self.peer.next_step_ms(context, did_read);
        [output, deadline, io].into_iter().flatten().min()
    }

    fn is_settled(&self, _: (&Oracle, &Plan)) -> Result<(), String> {
        if self.session.is_ready() { Ok(()) } else { Err("not connected".into()) }
    }

    fn finish(&mut self, _: &mut Oracle) {}
}
