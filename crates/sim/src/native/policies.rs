//! Policies of a native client's lagging subscriptions: its requests, and the node's reports.

use super::{NativeClient, Stage};
use crate::client::Context;
use crate::oracle::{Hole, SKIPPED, check_skip};
use crate::plan::{Plan, draw_policy};
use broker::settings::LagPolicy;
use wire::native::{Policy, Skipped, UnsubscribeCode, Unsubscribed};

impl NativeClient {
    pub(super) fn draw_policy(&mut self, plan: &Plan) -> Option<LagPolicy> {
        let has_own = plan.has_policies && self.peer.random.chance(0.5);
        has_own.then(|| draw_policy(&mut self.peer.random))
    }

    pub(super) fn on_skipped(&mut self, context: &mut Context<'_>, skipped: &Skipped) {
        let number = skipped.subscription;
        let hole = Hole {
            from: skipped.from,
            to: skipped.through,
            reason: SKIPPED + skipped.reason.number(),
            told_at: context.oracle.moment,
        };
        let of = skipped.partition;
        let instance = self.peer.instance;
        let result = match (self.plain.get_mut(&number), self.wide.get_mut(&number), of) {
            (Some(plain), _, None) => {
                let policy = context.plan.policy_of_topic(plain.run.topic, plain.policy);
                check_skip(policy, &hole).and_then(|()| plain.on_skipped(hole))
            }
            (_, Some(wide), Some(of)) => {
                let policy = context.plan.policy_of_filter(wide.filter, wide.policy);
                if of.epoch == context.oracle.epoch(of.partition, instance) {
                    check_skip(policy, &hole).and_then(|()| wide.on_skipped(of.partition, hole))
                } else {
                    Err(format!("SKIPPED names epoch {}", of.epoch))
                }
            }
            _ => Err(format!("{skipped:?} has no subscription")),
        };
        if let Err(text) = result {
            let text = format!("subscription {number}: {text}");
            context.oracle.fail(self.peer.id, text);
        }
    }

    /// Handles a subscription that the node ended: it begins again from its cursor. True if the
    /// client's policy permits the end.
    pub(super) fn on_ended(&mut self, context: &mut Context<'_>, frame: &Unsubscribed) -> bool {
        let number = frame.subscription;
        let plan = context.plan;
        let policy = match (self.plain.get(&number), self.wide.get(&number)) {
            (Some(plain), _) => plan.policy_of_topic(plain.run.topic, plain.policy),
            (_, Some(wide)) => plan.policy_of_filter(wide.filter, wide.policy),
            _ => LagPolicy::Replay,
        };
        let is_slow = frame.code == u32::from(UnsubscribeCode::SlowConsumer.number());
        if !is_slow || policy != LagPolicy::Disconnect {
            let text = format!("{number} is unsubscribed with {}: {policy:?}", frame.code);
            context.oracle.fail(self.peer.id, text);
            return false;
        }
        if let Some(plain) = self.plain.get_mut(&number) {
            if plain.stage == Stage::Ending {
                return true;
            }
            plain.absent();
            self.aliases.retain(|_, other| *other != number);
            self.ask_plain(context, number);
        } else if let Some(wide) = self.wide.get_mut(&number) {
            if wide.stage == Stage::Ending {
                return true;
            }
            (wide.stage, wide.is_told) = (Stage::Absent, false);
            self.ask_wide(context, number);
        }
        false
    }
}

pub(super) fn wire_policy(policy: LagPolicy) -> Policy {
    match policy {
        LagPolicy::Replay => Policy::Replay,
        LagPolicy::Conflate => Policy::Conflate,
        LagPolicy::Drop => Policy::Drop,
        LagPolicy::Disconnect => Policy::Disconnect,
    }
}
