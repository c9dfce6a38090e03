//! The result of a reload, and the counts of all of them: values that the operators' port and the
//! metrics show.

use crate::configuration::changes::Change;

/// Counts of reloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Applied reloads.
    pub taken: u64,
    /// Reloads with faults.
    pub refused: u64,
    /// Changes of the last applied reload that wait for a restart.
    pub waiting: u64,
}

/// The result of a reload.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reloaded {
    /// Changed options.
    pub changes: Vec<Change>,
    /// Whether the files of TLS were read again.
    pub certificate: bool,
}

impl Reloaded {
    /// Changes that wait for a restart.
    pub fn waiting(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| !change.is_in_force)
    }
}
