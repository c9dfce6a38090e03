//! A look ahead at letters that have come together.
//!
//! Step 8 of the path. An edge asks for the memory of many messages' topics at once, then for that
//! of their subscriptions, then for that of their connections, before it delivers the first of
//! them: it waits for its tables once, and not for each message. It changes nothing.

use crate::edge::{Edge, LETTERS_AHEAD};
use crate::ids::{SubIndex, TopicIndex};
use crate::mail::{HomeId, ToEdge};

impl Edge {
    /// Asks for the memory that the next letters of a home need, of [`LETTERS_AHEAD`] at most.
    pub fn look_ahead(&self, home: HomeId, letters: &[ToEdge]) {
        let letters = &letters[..letters.len().min(LETTERS_AHEAD)];
        if letters.len() < 2 {
            return;
        }
        let messages = || {
            letters.iter().filter_map(|letter| {
                let ToEdge::Message { index, .. } = letter else {
                    return None;
                };
                Some(TopicIndex(*index))
            })
        };
        messages().for_each(|index| self.subscriptions.prefetch_topic(home, index));
        let mut takers = [SubIndex::NONE; LETTERS_AHEAD];
        for (taker, index) in takers.iter_mut().zip(messages()) {
            *taker = self.subscriptions.prefetch_only_taker(home, index);
        }
        for taker in takers.iter().filter(|taker| **taker != SubIndex::NONE) {
            if let Some(index) = self.subscriptions.connection_of(*taker) {
                self.connections.slots.prefetch(index);
            }
        }
    }
}
