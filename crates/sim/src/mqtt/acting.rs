//! The next action of a client.

use super::{MqttClient, Stage};
use crate::client::{Context, Phase};

/// The time between looks in the calm, once everything has come; milliseconds.
const CALM_MS: u64 = 10_000;

impl MqttClient {
    pub(super) fn act(&mut self, context: &mut Context<'_>) {
        if self.stage != Stage::Connected || self.line.is_leaving {
            return;
        }
        if context.phase != Phase::Active {
            return self.settle(context);
        }
        let missing = self.missing();
        if !missing.is_empty() && self.peer.random.chance(0.4) {
            return self.subscribe(context, missing);
        }
        match self.peer.random.below(100) {
            0..=7 => {
                let all = self.wishes.len() as u64;
                let wish = self.peer.random.below(all) as usize;
                self.subscribe(context, vec![wish]);
            }
            8..=12 => self.unsubscribe(context),
            13..=16 => self.say_goodbye(context),
            17..=20 => self.take_over(context),
            21..=23 => self.ping(context),
            31..=45 if self.membership.is_some() => self.ping(context),
            24..=30 => {
                let with_reset = self.peer.random.chance(0.5);
                self.peer.leave(context, with_reset);
            }
            31..=60 => {}
            _ => {
                for _ in 0..1 + self.peer.random.below(3) {
                    self.publish(context);
                }
            }
        }
    }

    /// Wishes without a subscription or a request.
    fn missing(&self) -> Vec<usize> {
        let asked = |at: &usize| self.line.subscribing.values().any(|it| it.wishes.contains(at));
        let has = |at: &usize| self.session.granted.contains_key(&self.wishes[*at].filter);
        (0..self.wishes.len()).filter(|at| !has(at) && !asked(at)).collect()
    }

    /// In the calm: has all subscriptions, and asks once more for all retained messages.
    fn settle(&mut self, context: &mut Context<'_>) {
        let missing = self.missing();
        if !missing.is_empty() {
            self.subscribe(context, missing);
        } else if self.is_quiet() && !self.has_asked_again {
            self.has_asked_again = true;
            let all = (0..self.wishes.len()).collect();
            self.subscribe(context, all);
        } else if self.has_asked_again {
            self.peer.act_at_ms = context.now_ms + CALM_MS;
        } else {
            self.peer.act_at_ms = context.now_ms + 20;
        }
    }

    fn is_quiet(&self) -> bool {
        self.session.waits().is_none() && self.line.waits().is_none() && self.line.open.is_empty()
    }

    /// The time of the next action or acknowledgement, or of a look at a connection that ended.
    pub(super) fn next_ms(&self, context: &Context<'_>) -> u64 {
        let mut next = self.peer.act_at_ms;
        if let Some((due_ms, _, _)) = self.line.answers.front() {
            next = next.min(*due_ms);
        }
        let is_watching = self.presence.is_watching() || !self.ghosts.is_empty();
        if is_watching && context.phase == Phase::Active {
            next = next.min(context.now_ms + 20);
        }
        next.max(context.now_ms + 1)
    }
}
