//! Losses of synced files, in worlds with flipped bits: newest segments, everything after a backup,
//! and unreadable bytes. And the operator, who repairs a log that a start refuses.

use super::{LogThread, SimDisk};
use crate::faults::DiskFaults;
use log::store::{OpenError, Recovered, Store};
use std::collections::BTreeMap;
use stdx::prng::Prng;

/// All files of a directory.
type Copy = BTreeMap<String, Vec<u8>>;

/// The state of losses; see the module.
pub(super) struct Losses {
    random: Prng,
    /// A backup of the directory in this epoch.
    copy: Option<Copy>,
    /// The log lost its end since it was last opened: the next start has to begin an epoch.
    pub is_end_lost: bool,
    /// The log was repaired since it was last opened: the next start finds no unreadable data.
    pub is_repaired: bool,
}

impl Losses {
    /// Creates the state without losses.
    pub fn new(seed: u64) -> Losses {
        Losses {
            random: Prng::new(seed ^ 0x6c6f_7373),
            copy: None,
            is_end_lost: false,
            is_repaired: false,
        }
    }

    /// Records a completed start.
    ///
    /// # Errors
    /// The epoch continues although the log lost its end.
    pub fn note_opened(&mut self, found: &Recovered, is_new_epoch: bool) -> Result<(), String> {
        if self.is_end_lost && !is_new_epoch {
            return Err(format!("the end of the log was lost, but its epoch continues: {found:?}"));
        }
        self.is_end_lost = false;
        if is_new_epoch {
            self.copy = None;
        }
        Ok(())
    }
}

impl LogThread {
    /// Draws a loss or a backup, about as often as flipped bits.
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
                // Remains of a refused batch must not return as new data.
                self.losses.copy = (self.worn.refused == 0).then(|| self.disk.copy());
                false
            }
        };
        self.is_flipped |= is_lost;
        self.losses.is_end_lost |= is_lost;
        self.worn.ends_lost += u64::from(is_lost);
    }

    /// Removes a log without any usable information.
    fn remove_all(&mut self) {
        self.disk.put_back(&Copy::new());
        self.losses.is_end_lost = true;
        self.worn.ends_lost += 1;
    }

    /// Removes the newest segment, if its existence is recorded.
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

    /// Restores the whole directory from the backup, if later data is recorded elsewhere.
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

    /// Makes some bytes of a file unreadable.
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

    /// Whether a start may report unreadable data.
    pub(super) fn may_repair(&self) -> bool {
        self.is_broken() && !self.losses.is_repaired
    }

    /// Repairs the log: abandons unreadable data, makes room for that, and tries again after an
    /// interruption.
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
            // The head of the only segment is damaged, so the number of partitions is unknown.
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
