//! The node's events on `$sys/...`: its statistics, as the shell publishes them, and the check of
//! all events.

use super::World;
use crate::client::Phase;
use broker::sys::{self, OwnMessage};
use node::mailbox::Control;

/// The time between two statistics; virtual milliseconds.
const INTERVAL_MS: u64 = 170;

impl World {
    /// Publishes statistics regularly, while clients act.
    pub(super) fn publish_statistics(&mut self) {
        let is_due = self.plan.has_events && self.now_ms >= self.statistics_ms;
        if !is_due || self.phase != Phase::Active {
            return;
        }
        self.statistics_ms = self.now_ms + INTERVAL_MS;
        let settings = &self.plan.settings;
        let number = self.oracle.events.published;
        self.oracle.events.published += 1;
        let topic = sys::statistics_topic(&settings.node_name);
        let payload = format!("{{\"number\":{number}}}");
        let control = Control::Publish(OwnMessage::json(&topic, payload.as_bytes()));
        let shard = usize::from(settings.edges_count) - 1;
        self.mesh.borrow_mut().tell(shard, control);
    }

    /// Checks the witness's events after all other clients have left; then it leaves too.
    pub(super) fn judge_events(&mut self) {
        if !self.plan.has_events || self.oracle.failure.is_some() {
            return;
        }
        let edges = self.reactors.iter().map(|reactor| reactor.edge());
        let lost = edges.map(|edge| edge.statistics().own_publications_lost);
        let lost: u64 = lost.sum();
        self.reached.events_lost += lost;
        if let Err(text) = self.oracle.events.judge(&self.plan, lost) {
            self.oracle.fail(None, text);
        }
        self.phase = Phase::Gone;
        self.wake_all();
        self.advance(self.now_ms + 15_000, false);
    }
}
