//! What is lost of synced files, where bits flip too: newest segments, all that came behind a
//! backup, and bytes that no read gives. And the operator, who repairs what a start refuses.

use super::{LogThread, SimDisk};
use crate::faults::DiskFaults;
use log::store::{OpenError, Recovered, Store};
use std::collections::BTreeMap;
use stdx::prng::Prng;

/// All files of a directory.
type Copy = BTreeMap<String, Vec<u8>>;

/// See the module.
pub(super) struct Losses {
    random: Prng,
    /// A backup of the directory, of this epoch.
    copy: Option<Copy>,
    /// The end of the log was lost since it was last opened: the next start has to begin an epoch.
    pub is_end_lost: bool,
    /// The log was repaired since it was last opened: the next start finds nothing that it cannot
    /// read.
    pub is_repaired: bool,
}

impl Losses {
    /// None yet.
    pub fn new(seed: u64) -> Losses {
        Losses {
            random: Prng::new(seed ^ 0x6c6f_7373),
            copy: None,
            is_end_lost: false,
            is_repaired: false,
        }
    }

    /// A start has come through.
    ///
    /// # Errors
    /// The epoch goes on although the end of the log was lost.
    pub fn note_opened(&mut self, found: &Recovered, is_new_epoch: bool) -> Result<(), String> {
        if self.is_end_lost && !is_new_epoch {
            return Err(format!("the end of the log was lost, and its epoch goes on: {found:?}"));
        }
        self.is_end_lost = false;
        if is_new_epoch {
            self.copy = None;
        }
        Ok(())
    }
}

impl LogThread {
    /// Something is lost, or somebody makes a backup, about as often as bits flip.
    pub(super) fn lose(&mut self, faults: &DiskFaults) {
        if !self.losses.random.chance(faults.flip) {
            return;
        }
        let is_lost = match self.losses.random.below(4) {
            0 => self.lose_newest(),
            1 => self.put_back(),
            2 => {
                self.break_bytes();
                false
            }
            _ => {
                // What a refused batch has left is not to come back as if it were new.
                self.losses.copy = (self.worn.refused == 0).then(|| self.disk.copy());
                false
            }
        };
        self.is_flipped |= is_lost;
        self.losses.is_end_lost |= is_lost;
        self.worn.ends_lost += u64::from(is_lost);
    }

    /// Somebody removes a log of which nothing can be told.
    fn remove_all(&mut self) {
        self.disk.put_back(&Copy::new());
        self.losses.is_end_lost = true;
        self.worn.ends_lost += 1;
    }

    /// The newest segment is lost, if it is noted that there is one.
    fn lose_newest(&mut self) -> bool {
        let names = self.disk.names();
        let newest = names.iter().rfind(|name| name.ends_with(".log"));
        let noted = self.disk.noted_end().segment;
        let Some(newest) = newest.filter(|newest| number_of(newest) == noted) else {
            return false;
        };
        self.disk.erase(&newest.replace(".log", ".idx"));
        self.disk.erase(newest)
    }

    /// The whole directory is put back as it was, if it is noted elsewhere that there was more.
    fn put_back(&mut self) -> bool {
        let Some(copy) = self.losses.copy.take() else {
            return false;
        };
        let noted = self.disk.witnessed_end();
        let newest = copy.iter().rfind(|(name, _)| name.ends_with(".log"));
        let is_older = newest.is_some_and(|(name, bytes)| {
            (number_of(name), bytes.len() as u64) < (noted.segment, noted.bytes)
        });
        if is_older {
            self.disk.put_back(&copy);
        }
        is_older
    }

    /// Some bytes of a file cannot be read any more.
    fn break_bytes(&mut self) {
        let names = self.disk.names();
        let random = &mut self.losses.random;
        let Some(name) = names.get(random.below(names.len().max(1) as u64) as usize) else {
            return;
        };
        let length = self.disk.bytes_of(name).map_or(0, |bytes| bytes.len());
        let length = length as u64;
        let from = random.below(length.max(1));
        let through = from + 1 + random.below(length - from + 1);
        self.is_flipped |= self.disk.break_bytes(name, from..through);
    }

    /// Whether what a start says may be that it cannot read something.
    pub(super) fn may_repair(&self) -> bool {
        self.is_broken() && !self.losses.is_repaired
    }

    /// Somebody gives up what cannot be read, makes room for that, and tries again if the machine
    /// dies meanwhile.
    ///
    /// # Errors
    /// The repair is refused.
    pub(super) fn repair(&mut self, unix_ms: u64, faults: &DiskFaults) -> Result<(), String> {
        self.new_epoch += 1;
        self.room_again();
        if self.losses.random.chance(0.3) {
            self.disk.stop_after(self.losses.random.below(60) as u32);
        }
        let disk = SimDisk { disk: self.disk.clone(), saboteur: self.saboteur.clone() };
        let mended = Store::repair(disk, self.new_epoch, unix_ms);
        let has_stopped = self.disk.has_stopped();
        self.disk.stop_faults();
        if has_stopped {
            self.worn.died += 1;
            self.lose_power_or_process(faults);
            return Ok(());
        }
        match mended {
            // The head of the only segment is damaged, and nothing else says how many partitions
            // there are.
            Err(OpenError::Missing) if !self.disk.has_head() => self.remove_all(),
            Err(error) => return Err(format!("a log is not repaired: {error}")),
            Ok(_) => self.worn.repairs += 1,
        }
        self.losses.is_repaired = true;
        Ok(())
    }
}

fn number_of(segment: &str) -> u64 {
    segment.trim_end_matches(".log").parse().unwrap_or(u64::MAX)
}
