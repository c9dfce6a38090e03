//! Publications with QoS 2 that a client has not released, by packet identifier.
//!
//! A client of version 5 may have as many as the node permits (`receive_max`). Version 3 knows no
//! such limit, and common clients have none of their own: there may be one for each identifier, in
//! any order. So each step costs the logarithm of their number, and one takes about 30 bytes.

use std::collections::BTreeMap;
use stdx::handing::Hand;

/// See the module.
#[derive(Default, Hand)]
pub(crate) struct Unreleased(BTreeMap<u16, Received>);

/// A publication with QoS 2 that the client has not released.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub(crate) struct Received {
    /// The releases before it: with the identifier they name it within the session.
    pub released: u64,
    /// PUBREC was sent.
    pub is_answered: bool,
}

impl Unreleased {
    /// None.
    pub const fn new() -> Unreleased {
        Unreleased(BTreeMap::new())
    }

    /// The number of publications.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The publication of an identifier.
    pub fn get(&self, id: u16) -> Option<Received> {
        self.0.get(&id).copied()
    }

    /// The client has sent a publication, which is to be answered.
    pub fn receive(&mut self, id: u16, released: u64) {
        self.0.insert(id, Received { released, is_answered: false });
    }

    /// The client learns that its publication was taken.
    pub fn answer(&mut self, id: u16) {
        if let Some(received) = self.0.get_mut(&id) {
            received.is_answered = true;
        }
    }

    /// Forgets a publication. Whether there was one.
    pub fn release(&mut self, id: u16) -> bool {
        self.0.remove(&id).is_some()
    }

    /// All publications with their identifiers.
    pub fn iter(&self) -> impl Iterator<Item = (u16, Received)> {
        self.0.iter().map(|(id, received)| (*id, *received))
    }
}

impl FromIterator<(u16, Received)> for Unreleased {
    fn from_iter<I: IntoIterator<Item = (u16, Received)>>(all: I) -> Unreleased {
        Unreleased(all.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_publication_for_each_identifier() {
        let mut unreleased = Unreleased::default();
        for id in (1..=u16::MAX).rev() {
            unreleased.receive(id, 7);
        }
        assert_eq!(unreleased.len(), usize::from(u16::MAX));
        unreleased.answer(9);
        unreleased.answer(0);
        assert_eq!(unreleased.get(9), Some(Received { released: 7, is_answered: true }));
        assert_eq!(unreleased.iter().next().map(|(id, _)| id), Some(1));
        assert!(unreleased.iter().all(|(id, _)| id > 0));
        assert!((1..=u16::MAX).all(|id| unreleased.release(id)));
        assert!(!unreleased.release(9));
        assert_eq!(unreleased.len(), 0);
    }
}
