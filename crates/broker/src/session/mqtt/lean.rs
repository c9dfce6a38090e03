//! Lists that an idle session does not have: an empty one takes the room of a pointer.

use std::ops::{Deref, DerefMut};
use stdx::handing::{Hand, Input, Layout};

/// See the module. A write makes the list; [`Lean::rest`] gives an empty one back.
#[expect(clippy::box_collection, reason = "a list in a session has three words, this one has one")]
pub(crate) struct Lean<T>(Option<Box<Vec<T>>>);

impl<T> Lean<T> {
    /// Takes all elements away.
    pub fn take_all(&mut self) -> Vec<T> {
        self.0.take().map_or_else(Vec::new, |list| *list)
    }

    /// Gives the memory back if there is no element.
    pub fn rest(&mut self) {
        self.0.take_if(|list| list.is_empty());
    }
}

impl<T> Default for Lean<T> {
    fn default() -> Self {
        Lean(None)
    }
}

impl<T> From<Vec<T>> for Lean<T> {
    fn from(list: Vec<T>) -> Self {
        Lean((!list.is_empty()).then(|| Box::new(list)))
    }
}

impl<T: 'static> Deref for Lean<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        match &self.0 {
            Some(list) => list,
            None => const { &Vec::new() },
        }
    }
}

impl<T: 'static> DerefMut for Lean<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        self.0.get_or_insert_default()
    }
}

impl<T: Hand + 'static> Hand for Lean<T> {
    fn give(&self, out: &mut Vec<u8>) {
        (**self).give(out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        Vec::take(input).map(Lean::from)
    }

    fn layout(layout: &mut Layout) {
        Vec::<T>::layout(layout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_rests_in_one_word() {
        let mut list: Lean<u16> = Lean::default();
        assert_eq!(size_of_val(&list), size_of::<usize>());
        assert!(list.is_empty());
        list.push(7);
        list.rest();
        assert_eq!(*list, [7]);
        assert_eq!(list.take_all(), [7]);
        list.retain(|_| true);
        list.rest();
        assert!(list.0.is_none());
    }
}
