//! Publishing once: some publications have an identity, and unanswered ones are repeated with the
//! next connection, in order and before new ones.

use super::{NativeClient, Todo};
use crate::client::Context;
use crate::oracle::{Once, Refusal};

impl NativeClient {
    /// Gives a publication an identity, or none.
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

    /// Handles a log that refused a publication: a last message must still arrive.
    pub(super) fn on_unavailable(&mut self, context: &mut Context<'_>, id: usize) {
        let source = self.peer.source();
        context.oracle.refused(context.plan, source, id, Refusal::UntilCrash);
        if self.is_auditor {
            let topic = context.oracle.publications[id].topic;
            self.todo.push_back(Todo::Marker(topic));
        }
    }

    /// Repeats all unanswered publications.
    pub(super) fn repeat(&mut self, context: &mut Context<'_>) {
        while let Some(id) = self.repeats.pop_front() {
            let payload = context.oracle.repeated(context.plan, id);
            let retain = context.oracle.publications[id].retain;
            context.oracle.note(self.peer.id, || format!("publishes {id} again"));
            self.send_publication(context, id, &payload, true, retain);
        }
    }
}
