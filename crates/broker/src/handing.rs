//! Handing the state of a shard to the next process: what edges and homes have in common.
//!
//! Beside the path, between two turns (see [`stdx::handing`]). Hash tables are handed over as what
//! is in them, and filled again: the hashes are made from what the values stand for.

use hashbrown::HashTable;
use stdx::handing::Hand;

/// The reason why an encoded state cannot be decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TakeOverError {
    /// The bytes are not the state of this program's kind.
    Malformed,
    /// The memory of a log's segment is not there.
    Memory(log::MemoryRefused),
}

impl std::fmt::Display for TakeOverError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TakeOverError::Malformed => write!(formatter, "the state is malformed"),
            TakeOverError::Memory(refused) => refused.fmt(formatter),
        }
    }
}

impl std::error::Error for TakeOverError {}

impl From<log::MemoryRefused> for TakeOverError {
    fn from(refused: log::MemoryRefused) -> TakeOverError {
        TakeOverError::Memory(refused)
    }
}

/// Appends the values of a table.
pub(crate) fn give_table(table: &HashTable<u32>, out: &mut Vec<u8>) {
    let values: Vec<u32> = table.iter().copied().collect();
    values.give(out);
}

/// A table of these values.
pub(crate) fn table_of(values: Vec<u32>, hash: impl Fn(u32) -> u64) -> HashTable<u32> {
    let mut table = HashTable::with_capacity(values.len());
    for value in values {
        table.insert_unique(hash(value), value, |value| hash(*value));
    }
    table
}
