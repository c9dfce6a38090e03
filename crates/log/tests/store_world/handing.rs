//! Hand-over of a log to a process that continues with it, or to one that does not, and then the
//! old one continues.

use super::{Faults, World};
use log::store::{OpenError, Store, TakeOverError};
use std::collections::BTreeMap;
use stdx::prng::Prng;

impl World {
    /// Creates a world with hand-overs between its steps.
    pub fn with_hand_overs(seed: u64, faults: Faults) -> World {
        let mut world = World::new(seed, faults);
        world.hand_overs = Some(Prng::new(seed ^ 0x6861_6e64));
        world
    }

    /// The number of hand-overs.
    pub fn handed(&self) -> u32 {
        self.handed
    }

    /// Hands the log over sometimes, in worlds with hand-overs.
    pub(super) fn hand_over(&mut self) {
        let Some(prng) = &mut self.hand_overs else {
            return;
        };
        let (wants, commits) = (prng.chance(0.2), prng.chance(0.7));
        let store = self.store.as_mut();
        // An unavailable log is not handed over.
        let Some(store) = store.filter(|store| wants && store.is_available()) else {
            return;
        };
        let handed = match store.hand_over() {
            Ok(handed) => handed,
            Err(error) => return self.note(format!("hand over: {error}")),
        };
        self.last_batch.clear();
        let before = self.files();
        let taken = Store::take_over(self.disk.clone(), self.settings(), &handed);
        let now = self.files();
        assert!(before == now, "a hand-over has changed the disk");
        let mut taken = match taken {
            Ok(taken) => taken,
            Err(error) => {
                self.note(format!("take over: {error}"));
                let is_disk = matches!(
                    error,
                    TakeOverError::Open(OpenError::Disk(_) | OpenError::Unreadable { .. })
                );
                assert!(is_disk || self.faults == Faults::Damaging, "{error}");
                return;
            }
        };
        self.note(format!("handed over, continues there: {commits}"));
        if commits {
            let begun = taken.begin();
            self.note(format!("begun: {begun:?}"));
            self.store = Some(taken);
            self.handed += 1;
        }
    }

    fn files(&self) -> BTreeMap<String, Option<Vec<u8>>> {
        let names = self.disk.names().into_iter();
        names.map(|name| (name.clone(), self.disk.bytes_of(&name))).collect()
    }
}
