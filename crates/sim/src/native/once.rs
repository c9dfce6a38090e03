//! Publishing once: some publications have a name, and what of them was not answered when the
//! connection was lost is sent again with the next, in its order and before anything new.

use super::{NativeClient, Todo};
use crate::client::Context;
use crate::oracle::{Once, Refusal};

impl NativeClient {
    /// Gives a publication a name, or none.
    pub(super) fn draw_once(&mut self, context: &mut Context<'_>, id: usize) {
        let is_early = self.is_producer && !self.is_welcome;
        if !self.peer.random.chance(context.plan.once) || is_early {
            return;
        }
        let once = if self.is_producer {
            self.last_sequence += self.peer.random.between(1, 3);
            Once::Sequence(self.peer.id as u64, self.last_sequence)
        } else {
            Once::Key
        };
        context.oracle.publications[id].once = once;
    }

    /// The log could not take it: a last message has to come through all the same.
    pub(super) fn on_unavailable(&mut self, context: &mut Context<'_>, id: usize) {
        let source = self.peer.source();
        context.oracle.refused(context.plan, source, id, Refusal::UntilCrash);
        if self.is_auditor {
            let topic = context.oracle.publications[id].topic;
            self.todo.push_back(Todo::Marker(topic));
        }
    }

    /// Sends everything again that was not answered.
    pub(super) fn repeat(&mut self, context: &mut Context<'_>) {
        while let Some(id) = self.repeats.pop_front() {
            let payload = context.oracle.repeated(context.plan, id);
            let retain = context.oracle.publications[id].retain;
            context.oracle.note(self.peer.id, || format!("publishes {id} again"));
            self.send_publication(context, id, &payload, true, retain);
        }
    }
}
