//! Retained messages: a snapshot begins with the newest known one, or with a newer one, over
//! restarts too.

use super::Oracle;
use crate::plan::Plan;

impl Oracle {
    /// The offset of a topic's newest known retained message that the node of a connection must
    /// have; 0: none. Damage may have removed any of them.
    pub fn retained(&self, plan: &Plan, topic: usize, instance: u32) -> u64 {
        if self.is_flipped {
            return 0;
        }
        let partition = plan.partition(topic);
        let life = self.lives.at(partition, instance);
        let is_retained =
            |publication: &&super::Publication| publication.topic == topic && publication.retain;
        let retained = self.publications.iter().filter(is_retained);
        let places = retained.flat_map(|publication| &publication.places);
        let held = places.filter(|(of, offset)| self.lives.holds(partition, *of, *offset, life));
        held.map(|(_, offset)| *offset).max().unwrap_or(0)
    }
}
