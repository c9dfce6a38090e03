//! Publications with QoS 2 that a client has not released, by packet identifier.
//!
//! A client of version 5 may have as many as the node permits (`receive_max`). Version 3 knows no
//! such limit, and common clients have none of their own: there may be one for each identifier, in
//! any order. So each step costs the logarithm of their number, and one takes about 30 bytes.

use std::collections::BTreeMap;
use stdx::handing::Hand;

/// See the module. None of them takes the room of a pointer.
#[derive(Default, Hand)]
#[expect(clippy::box_collection, reason = "a map in a session has three words, this one has one")]
pub(crate) struct Unreleased(Option<Box<BTreeMap<u16, Received>>>);

/// A publication with QoS 2 that the client has not released.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub(crate) struct Received {
    /// The releases before it: with the identifier they name it within the session.
    pub released: u64,
    /// PUBREC was sent.
    pub is_answered: bool,
}

impl Unreleased {
    /// The number of publications.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |all| all.len())
    }

    /// The publication of an identifier.
    pub fn get(&self, id: u16) -> Option<Received> {
        self.0.as_ref()?.get(&id).copied()
    }

    /// The client has sent a publication, which is to be answered.
    pub fn receive(&mut self, id: u16, released: u64) {
        self.0.get_or_insert_default().insert(id, Received { released, is_answered: false });
    }

    /// The client learns that its publication was taken.
    pub fn answer(&mut self, id: u16) {
        if let Some(received) = self.0.as_mut().and_then(|all| all.get_mut(&id)) {
            received.is_answered = true;
        }
    }

    /// Forgets a publication. Whether there was one.
    pub fn release(&mut self, id: u16) -> bool {
        self.0.as_mut().is_some_and(|all| all.remove(&id).is_some())
    }

    /// All publications with their identifiers.
    pub fn iter(&self) -> impl Iterator<Item = (u16, Received)> {
        self.0.iter().flat_map(|all| all.iter()).map(|(id, received)| (*id, *received))
    }

    /// Gives the memory back if there is none.
    pub fn rest(&mut self) {
        self.0.take_if(|all| all.is_empty());
    }
}

impl FromIterator<(u16, Received)> for Unreleased {
    fn from_iter<I: IntoIterator<Item = (u16, Received)>>(all: I) -> Unreleased {
        let mut unreleased = Unreleased(Some(Box::new(all.into_iter().collect())));
        unreleased.rest();
        unreleased
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
        unreleased.rest();
        assert!(unreleased.0.is_none());
    }

    #[test]
    fn none_takes_one_word() {
        let none: Unreleased = std::iter::empty().collect();
        assert_eq!((size_of_val(&none), none.0.is_none()), (size_of::<usize>(), true));
    }
}
