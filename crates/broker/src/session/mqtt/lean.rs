//! Parts that an idle session does not have: without content, each takes the room of a pointer.

use std::ops::{Deref, DerefMut};
use stdx::handing::{Hand, Input, Layout};

/// A part of a session.
pub(crate) trait Part: Default + 'static {
    /// The part without content.
    fn empty() -> &'static Self;

    /// Whether nothing is in it.
    fn is_empty(&self) -> bool;
}

/// See the module. A write makes the part; [`Lean::rest`] gives one without content back.
pub(crate) struct Lean<T>(Option<Box<T>>);

impl<T: Part> Lean<T> {
    /// The part, to be changed, if the session has it.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }

    /// Gives the memory back if nothing is in it.
    pub fn rest(&mut self) {
        self.0.take_if(|part| part.is_empty());
    }
}

impl<T> Default for Lean<T> {
    fn default() -> Self {
        Lean(None)
    }
}

impl<T: Part> Deref for Lean<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Some(part) => part,
            None => T::empty(),
        }
    }
}

impl<T: Part> DerefMut for Lean<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T: Part + Hand> Hand for Lean<T> {
    fn give(&self, out: &mut Vec<u8>) {
        self.0.give(out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        <Option<Box<T>> as Hand>::take(input).map(Lean)
    }

    fn layout(layout: &mut Layout) {
        Option::<Box<T>>::layout(layout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Part for Vec<u16> {
        fn empty() -> &'static Self {
            const { &Vec::new() }
        }

        fn is_empty(&self) -> bool {
            self.as_slice().is_empty()
        }
    }

    #[test]
    fn a_part_without_content_rests_in_one_word() {
        let mut part: Lean<Vec<u16>> = Lean::default();
        assert_eq!(size_of_val(&part), size_of::<usize>());
        assert!(Part::is_empty(&*part) && part.get_mut().is_none());
        part.push(7);
        part.rest();
        assert_eq!(*part, [7]);
        part.clear();
        part.rest();
        assert!(part.0.is_none());
    }
}
