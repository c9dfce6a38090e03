//! Reloads of a world's node during its operation.

use super::{START_MS, World};
use crate::network::fold;
use node::mailbox::Control;
use std::sync::Arc;

impl World {
    /// Runs due reloads. A stopped node begins with the settings that it would have received.
    pub(super) fn reload(&mut self) {
        let is_due = |at: &mut u64| *at + START_MS <= self.now_ms;
        if self.reloads.pop_if(is_due).is_none() {
            return;
        }
        let wanted = crate::reloads::wanted(&self.plan, &mut self.reload_random);
        let (renewed, waiting) = self.plan.settings.renewed(wanted);
        if !waiting.is_empty() {
            let text = format!("rules that move nothing wait for a restart: {waiting:?}");
            self.oracle.fail(None, text);
        }
        let renewed = Arc::new(renewed);
        let former = std::mem::replace(&mut self.plan.settings, renewed.clone());
        self.plan.former.push(former);
        self.reached.reloads += 1;
        self.hash = fold(self.hash, 0x7e10);
        self.oracle.note_all("--- the node reloads ---");
        if !self.reactors.is_empty() {
            let mut mesh = self.mesh.borrow_mut();
            mesh.tell_all(|| Control::Settings(renewed.clone()));
        }
    }
}
