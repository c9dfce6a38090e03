//! Lists at the end of packets: borrowed from the input after decoding, from a slice when encoding.

use super::reader::Reader;
use super::sink::Sink;
use super::{MqttError, ReasonCode, Version};

/// An element of a list. Implemented in this module's packets only.
#[allow(private_interfaces, private_bounds)]
pub trait Element<'a>: Copy {
    #[doc(hidden)]
    fn read(reader: &mut Reader<'a>) -> Result<Self, MqttError>;
    #[doc(hidden)]
    fn write<S: Sink>(&self, version: Version, out: &mut S);
}

/// A list of a packet. Iterating cannot fail: `decode` has already walked the wire form once.
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

    /// Reads elements up to the packet's end, with a check of each; the list must not be empty.
    pub(super) fn read(
        reader: &mut Reader<'a>,
        check: impl Fn(T) -> Result<(), MqttError>,
    ) -> Result<Self, MqttError> {
        let bytes = reader.payload();
        let mut rest = Reader::new(bytes);
        let mut count = 0;
        while !rest.is_empty() {
            check(T::read(&mut rest)?)?;
            count += 1;
        }
        if count == 0 { Err(MqttError::EmptyList) } else { Ok(Self(Kept::Wire { count, bytes })) }
    }

    pub(super) fn write<S: Sink>(&self, version: Version, out: &mut S) {
        self.iter().for_each(|element| element.write(version, out));
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

impl<'a, T: Element<'a>> ExactSizeIterator for ListIter<'a, T> {}

/// A topic filter of UNSUBSCRIBE.
#[allow(private_interfaces, private_bounds)]
impl<'a> Element<'a> for &'a str {
    fn read(reader: &mut Reader<'a>) -> Result<Self, MqttError> {
        reader.string()
    }

    fn write<S: Sink>(&self, _version: Version, out: &mut S) {
        out.string(self);
    }
}

/// A result in SUBACK or UNSUBACK.
#[allow(private_interfaces, private_bounds)]
impl<'a> Element<'a> for ReasonCode {
    fn read(reader: &mut Reader<'a>) -> Result<Self, MqttError> {
        let byte = reader.byte()?;
        Self::from_byte(byte).ok_or(MqttError::InvalidReasonCode(byte))
    }

    /// Version 3 has one code for all failures.
    fn write<S: Sink>(&self, version: Version, out: &mut S) {
        let code = if version.has_properties() || !self.is_failure() {
            *self
        } else {
            ReasonCode::Unspecified
        };
        out.byte(code.byte());
    }
}
