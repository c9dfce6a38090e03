//! A start's report of damage is sufficient for homes: it covers each lost record.

use super::{Place, World};
use log::store::Recovered;
use std::collections::BTreeMap;

impl World {
    /// Checks each lost record: retention had dropped its place, its topic's last offset is at
    /// least as high, or damage of its partition reaches as far. The last batch need not be
    /// reported: no proof of it may exist.
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
            assert!(is_known, "the loss of {place:?} is not reported: {recovered:?}");
        }
    }
}
