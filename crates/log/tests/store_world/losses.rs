//! Losses of synced data, caused by a disk or an operator: flipped bits, missing files, older
//! copies.

use super::World;
use std::collections::BTreeMap;

/// The size of a segment's head.
const HEAD_BYTES: u64 = 64 + 8 * super::PARTITIONS as u64;

/// A copy of all files, taken while no refused batch existed that a later head excludes.
pub(super) type Copy = BTreeMap<String, Vec<u8>>;

impl World {
    /// Makes a backup sometimes.
    pub(super) fn back_up(&mut self) {
        if self.may_damage && self.refused.is_empty() && self.prng.chance(0.05) {
            self.copy = Some(self.disk.copy());
        }
    }

    pub(super) fn damage(&mut self) {
        let names = self.disk.names();
        if names.is_empty() {
            return;
        }
        match self.prng.below(10) {
            0 if self.roll_back(&names) => return,
            1 if self.put_back() => return,
            _ => {}
        }
        let name = names[self.prng.below(names.len() as u64) as usize].clone();
        let bytes = self.disk.bytes_of(&name).unwrap().len() as u64;
        if self.prng.chance(0.2) {
            let is_segment = name.ends_with(".log");
            if is_segment && !self.is_lost_noticed(&names, &name) {
                return;
            }
            self.note(format!("erase {name}"));
            self.disk.erase(&name);
            // The index of the segment before the lost one has the facts from the lost head; so no
            // further damage.
            self.may_damage &= !is_segment;
            return;
        }
        // One bit only: two could destroy both a batch and the mark that proves it.
        let (byte, bit) = (self.prng.below(bytes), self.prng.below(8) as u8);
        let is_head = name.ends_with(".log") && byte < HEAD_BYTES;
        if is_head && !self.is_sealed(&names, &name) {
            return;
        }
        let flipped = self.disk.flip_bit(&name, byte, bit);
        self.note(format!("flip {name} byte {byte} of {bytes}: {flipped}"));
    }

    /// Whether the segment before this one has the index with its valid length; if its write
    /// failed, only the next head knows that length.
    fn is_sealed(&self, names: &[String], name: &str) -> bool {
        let before = names.iter().rfind(|other| other.ends_with(".log") && &other[..] < name);
        before.is_none_or(|before| names.contains(&before.replace(".log", ".idx")))
    }

    /// Whether a start can detect that a segment is missing: the newest one is recorded, or it was
    /// empty.
    fn is_lost_noticed(&self, names: &[String], name: &str) -> bool {
        let newest = names.iter().rfind(|name| name.ends_with(".log"));
        let is_noted = self.disk.noted_end().segment >= number_of(name);
        self.is_sealed(names, name) && (newest.map(|it| &it[..]) != Some(name) || is_noted)
    }

    /// Restores one segment from the backup.
    fn roll_back(&mut self, names: &[String]) -> bool {
        let Some(copy) = &self.copy else {
            return false;
        };
        let Some((name, bytes)) = copy.iter().rfind(|(name, _)| name.ends_with(".log")) else {
            return false;
        };
        let newest = names.iter().rfind(|name| name.ends_with(".log"));
        let noted = self.disk.noted_end();
        let is_noticed = newest > Some(name)
            || noted.segment == number_of(name) && noted.bytes > bytes.len() as u64;
        if !names.contains(name) || !is_noticed {
            return false;
        }
        println!("{name} is rolled back to {} bytes", bytes.len());
        self.disk.put(name, bytes);
        self.may_damage = false;
        true
    }

    /// Restores the whole directory from the backup.
    fn put_back(&mut self) -> bool {
        let Some(copy) = &self.copy else {
            return false;
        };
        let newest = copy.iter().rfind(|(name, _)| name.ends_with(".log"));
        let Some(newest) = newest.map(|(name, bytes)| (number_of(name), bytes.len() as u64)) else {
            return false;
        };
        let noted = self.disk.witnessed_end();
        if (noted.segment, noted.bytes) <= newest {
            return false;
        }
        println!("the directory is put back as it was: {:?}", copy.keys());
        self.disk.put_back(copy);
        self.may_damage = false;
        true
    }
}

fn number_of(name: &str) -> u64 {
    name.trim_end_matches(".log").parse().unwrap()
}
