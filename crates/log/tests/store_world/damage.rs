//! What a start says of damage is all that homes need: they know of each record that is lost.

use super::{Place, World};
use log::store::Recovered;
use std::collections::BTreeMap;

impl World {
    /// Of a lost record retention had dropped its place, its topic is known to have come so far, or
    /// damage of its partition reaches so far. Nothing proves of the last batch that it had been
    /// there.
    pub(super) fn check_damage(&mut self, recovered: &Recovered, lost: &[Place]) {
        let mut known = BTreeMap::new();
        let store = self.store.as_mut().unwrap();
        store
            .topics(&mut |partition, topic, last| {
                known.insert((partition, topic.to_vec()), last);
            })
            .unwrap();
        for place in lost {
            let (partition, offset) = *place;
            let topic = (partition, self.present[place].topic.clone());
            let is_known = offset < recovered.floors[partition as usize]
                || offset <= recovered.damaged_through[partition as usize]
                || known.get(&topic).is_some_and(|last| offset <= *last)
                || self.last_batch.contains(place);
            assert!(is_known, "nobody hears that {place:?} is lost: {recovered:?}");
        }
    }
}
