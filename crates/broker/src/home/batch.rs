//! Requests that have come together.
//!
//! Place on the path: a home finds the topics of many publications at once, before it deals with
//! the first of them, so that it waits for the memory of its tables once and not for each. Nothing
//! else depends on which requests come together.

use super::Home;
use super::topics::AHEAD;
use super::turn::HomeOutputs;
use crate::mail::{EdgeId, Publish, ToHome};
use crate::now::Now;
use log::Memory;

impl Home {
    /// Deals with requests of an edge, in their order, and takes them out of the list.
    pub fn handle_all(
        &mut self,
        now: Now,
        from: EdgeId,
        requests: &mut Vec<ToHome>,
        memory: &mut dyn Memory,
        out: &mut HomeOutputs,
    ) {
        let mut left = requests.drain(..);
        while !left.as_slice().is_empty() {
            let mut found = [None; AHEAD];
            if left.as_slice().len() > 1 {
                let names = left.as_slice().iter().map(published_topic);
                self.interests.topics.find_ahead(names, &mut found);
            }
            for found in found {
                let Some(request) = left.next() else {
                    break;
                };
                self.handle_found(now, from, request, found, (&mut *memory, &mut *out));
            }
        }
    }
}

fn published_topic(request: &ToHome) -> Option<&[u8]> {
    let ToHome::Publish(Publish { publication, .. }) = request else {
        return None;
    };
    Some(&publication.topic)
}
