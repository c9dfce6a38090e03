//! What a disk, or an operator, does to what was synced: bits flip, files vanish, older copies come
//! back.

use super::World;
use std::collections::BTreeMap;

/// Bytes of a segment's head.
const HEAD_BYTES: u64 = 64 + 8 * super::PARTITIONS as u64;

/// All files at a moment at which nothing was refused that a later head takes out.
pub(super) type Copy = BTreeMap<String, Vec<u8>>;

impl World {
    /// Somebody makes a backup, now and then.
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
            // What a lost segment said about the one before it is in the index of that; so no more
            // damage.
            self.may_damage &= !is_segment;
            return;
        }
        // One bit: with two, the mark that proves one batch can go together with the batch.
        let (byte, bit) = (self.prng.below(bytes), self.prng.below(8) as u8);
        let is_head = name.ends_with(".log") && byte < HEAD_BYTES;
        if is_head && !self.is_sealed(&names, &name) {
            return;
        }
        let flipped = self.disk.flip_bit(&name, byte, bit);
        self.note(format!("flip {name} byte {byte} of {bytes}: {flipped}"));
    }

    /// Whether the segment before one has the index that says how much of it counts; where its
    /// write failed only the head of the one behind knows that.
    fn is_sealed(&self, names: &[String], name: &str) -> bool {
        let before = names.iter().rfind(|other| other.ends_with(".log") && &other[..] < name);
        before.is_none_or(|before| names.contains(&before.replace(".log", ".idx")))
    }

    /// Whether a start can know that a segment is gone: the newest one is noted, or there was
    /// nothing in it.
    fn is_lost_noticed(&self, names: &[String], name: &str) -> bool {
        let newest = names.iter().rfind(|name| name.ends_with(".log"));
        let is_noted = self.disk.noted_end().segment >= number_of(name);
        self.is_sealed(names, name) && (newest.map(|it| &it[..]) != Some(name) || is_noted)
    }

    /// One segment is as it was in the backup.
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

    /// The whole directory is as it was in the backup.
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
