//! Lists inside frames: borrowed from the input after decoding, from a slice when encoding.

use super::reader::Reader;
use super::{FrameError, varint};

/// An element of a list. Implemented in this module's frames only.
#[allow(private_interfaces)]
pub trait Element<'a>: Copy {
    #[doc(hidden)]
    fn read(reader: &mut Reader<'a>) -> Result<Self, FrameError>;
    #[doc(hidden)]
    fn write(&self, out: &mut Vec<u8>);
}

/// A list of a frame. Iterating cannot fail: `decode` has already walked the wire form once.
///
/// Two lists are equal if their elements are, wherever they are stored.
#[derive(Clone, Copy)]
pub struct List<'a, T>(Kept<'a, T>);

#[derive(Clone, Copy)]
enum Kept<'a, T> {
    Slice(&'a [T]),
    Wire { count: usize, bytes: &'a [u8] },
}

impl<'a, T: Element<'a>> List<'a, T> {
    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.0 {
            Kept::Slice(slice) => slice.len(),
            Kept::Wire { count, .. } => count,
        }
    }

    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements, in their order on the wire.
    #[must_use]
    pub fn iter(&self) -> ListIter<'a, T> {
        ListIter(self.0)
    }

    /// Reads the count and walks all elements, so that later walks cannot fail.
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, FrameError> {
        let count = reader.varint()?;
        // Each element takes at least one byte, so a larger count is false; the walk below is
        // bounded by the frame.
        let count = usize::try_from(count).map_err(|_| FrameError::Truncated)?;
        let start = *reader;
        for _ in 0..count {
            T::read(reader)?;
        }
        let bytes = &start.rest[..start.rest.len() - reader.rest.len()];
        Ok(Self(Kept::Wire { count, bytes }))
    }

    /// Reads elements without a count, up to the reader's end.
    pub(super) fn read_to_end(mut reader: Reader<'a>) -> Result<Self, FrameError> {
        let bytes = reader.rest;
        let mut count = 0;
        while !reader.rest.is_empty() {
            T::read(&mut reader)?;
            count += 1;
        }
        Ok(Self(Kept::Wire { count, bytes }))
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        varint::encode(self.len() as u64, out);
        self.write_elements(out);
    }

    /// Writes the elements without their count.
    pub(super) fn write_elements(&self, out: &mut Vec<u8>) {
        match self.0 {
            Kept::Slice(slice) => slice.iter().for_each(|element| element.write(out)),
            Kept::Wire { bytes, .. } => out.extend_from_slice(bytes),
        }
    }
}

impl<T> Default for List<'_, T> {
    fn default() -> Self {
        Self(Kept::Slice(&[]))
    }
}

impl<'a, T> From<&'a [T]> for List<'a, T> {
    fn from(slice: &'a [T]) -> Self {
        Self(Kept::Slice(slice))
    }
}

impl<'a, T, const N: usize> From<&'a [T; N]> for List<'a, T> {
    fn from(array: &'a [T; N]) -> Self {
        Self(Kept::Slice(array))
    }
}

impl<'a, T: Element<'a>> IntoIterator for List<'a, T> {
    type Item = T;
    type IntoIter = ListIter<'a, T>;

    fn into_iter(self) -> ListIter<'a, T> {
        self.iter()
    }
}

impl<'a, T: Element<'a> + PartialEq> PartialEq for List<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<'a, T: Element<'a> + Eq> Eq for List<'a, T> {}

impl<'a, T: Element<'a> + std::fmt::Debug> std::fmt::Debug for List<'a, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The iterator of a [`List`].
#[derive(Clone)]
pub struct ListIter<'a, T>(Kept<'a, T>);

impl<'a, T: Element<'a>> Iterator for ListIter<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match &mut self.0 {
            Kept::Slice(slice) => {
                let (first, rest) = slice.split_first()?;
                *slice = rest;
                Some(*first)
            }
            Kept::Wire { count, bytes } => {
                *count = count.checked_sub(1)?;
                let mut reader = Reader::new(bytes);
                let element = T::read(&mut reader).ok()?;
                *bytes = reader.rest;
                Some(element)
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match self.0 {
            Kept::Slice(slice) => slice.len(),
            Kept::Wire { count, .. } => count,
        };
        (left, Some(left))
    }
}

impl<'a, T> ListIter<'a, T> {
    /// The rest of a decoded list: the number of elements, and their bytes. Empty for a list that
    /// was not decoded.
    #[must_use]
    pub fn rest(&self) -> (usize, &'a [u8]) {
        match self.0 {
            Kept::Slice(_) => (0, &[]),
            Kept::Wire { count, bytes } => (count, bytes),
        }
    }

    /// Continues from the result of [`ListIter::rest`]. The walk ends early if the bytes hold fewer
    /// elements.
    #[must_use]
    pub fn of_rest(count: usize, bytes: &'a [u8]) -> Self {
        Self(Kept::Wire { count, bytes })
    }
}

impl<'a, T: Element<'a>> ExactSizeIterator for ListIter<'a, T> {}

#[allow(private_interfaces)]
impl<'a> Element<'a> for u32 {
    fn read(reader: &mut Reader<'a>) -> Result<Self, FrameError> {
        reader.varint_u32()
    }

    fn write(&self, out: &mut Vec<u8>) {
        varint::encode(u64::from(*self), out);
    }
}

#[allow(private_interfaces)]
impl<'a> Element<'a> for &'a str {
    fn read(reader: &mut Reader<'a>) -> Result<Self, FrameError> {
        reader.string()
    }

    fn write(&self, out: &mut Vec<u8>) {
        super::reader::write_bytes(self.as_bytes(), out);
    }
}
