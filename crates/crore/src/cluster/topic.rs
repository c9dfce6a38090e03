//! The control topic, as the engine's client brings and writes it.

use super::entries::Entry;

/// A message of the control topic's reader to the node.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(not(feature = "engine"), expect(dead_code, reason = "only an engine has letters"))]
pub enum Letter {
    /// The next entry.
    Entry(Entry),
    /// Everything that was in the topic at the start has come.
    CaughtUp,
}

/// Writes the control topic; never waits.
pub trait WriteControl: Send {
    /// Writes a key; without a value, removes it. Writes keep their order, and are repeated until
    /// the topic has them.
    fn write(&self, key: String, value: Option<Vec<u8>>);
}
