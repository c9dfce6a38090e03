//! Handing an edge to the next process: connections, sessions, subscriptions and what waits for
//! sockets.
//!
//! An edge is encoded between two turns, after its outputs were taken (see [`stdx::handing`]). Work
//! areas, and parts that are made again when they are needed (compressors, areas for letters), are
//! left out. Settings go before it, apart.

use crate::edge::{Edge, EdgeId};
use crate::handing::TakeOverError;
use crate::now::Now;
use crate::settings::Settings;
use std::sync::Arc;
use stdx::handing::{Hand, Input, Layout};

/// Declares the fields of [`Edge`] once: those that are handed over, in their order, and those that
/// are left. A field in neither list does not compile.
macro_rules! handed {
    (handed: $($field:ident)+, left: $($left:ident)+) => {
        impl Edge {
            fn give_fields(&self, bytes: &mut Vec<u8>) {
                let Edge { id: _, out: _, $($field,)+ $($left: _),+ } = self;
                $($field.give(bytes);)+
            }

            fn take_fields(&mut self, input: &mut Input<'_>) -> Option<()> {
                $(self.$field = Hand::take(input)?;)+
                Some(())
            }

            fn layout_of_fields(layout: &mut Layout) {
                $(layout.field(stringify!($field), |edge: &Edge| Some(&edge.$field));)+
            }
        }
    };
}

handed! {
    handed:
        pressure
        connections
        subscriptions
        outboxes
        links
        access
        sessions
        mqtt
        journal
        statistics,
    left:
        settings
        now
        work
}

impl Edge {
    /// Appends the whole state.
    pub fn hand_over(&self, out: &mut Vec<u8>) {
        debug_assert!(self.out.requests.iter().all(Vec::is_empty) && self.out.closes.is_empty());
        debug_assert!(self.out.users.is_empty() && self.out.clients.is_empty());
        debug_assert!(self.out.journal.is_empty() && self.out.answers.is_empty());
        self.id.give(out);
        self.out.questions.give(out);
        self.out.readable.give(out);
        self.give_fields(out);
    }

    /// The edge that was handed over. `settings` are those that it went by.
    ///
    /// # Errors
    /// The bytes are not its state.
    pub fn take_over(
        settings: Arc<Settings>,
        now: Now,
        input: &mut Input<'_>,
    ) -> Result<Edge, TakeOverError> {
        let id = EdgeId::take(input).ok_or(TakeOverError::Malformed)?;
        let mut edge = Edge::new(settings, id, now);
        let limits = edge.settings.clone();
        let malformed = TakeOverError::Malformed;
        edge.out.questions = Hand::take(input).ok_or(malformed)?;
        edge.out.readable = Hand::take(input).ok_or(malformed)?;
        edge.take_fields(input).ok_or(malformed)?;
        edge.connections.rates.renew(&limits.limits);
        Ok(edge)
    }

    /// Adds the layout of the encoded structures.
    pub fn layout(layout: &mut Layout) {
        layout.name("Edge");
        layout.field("questions", |edge: &Edge| Some(&edge.out.questions));
        layout.field("readable", |edge: &Edge| Some(&edge.out.readable));
        Edge::layout_of_fields(layout);
    }
}
