//! Serialization for a live upgrade: values to bytes and back, and a number that identifies their
//! layout.
//!
//! Used between two turns of a node that another process replaces (`node::upgrade`), and never on
//! the path of a message. A structure is encoded field by field, so that the next process continues
//! exactly where this one stopped. Only a program with the same [`layout_of`] reads the bytes;
//! another one does not start.
//!
//! Invariants: reading never panics and never allocates more than a small multiple of the input;
//! invalid input gives `None`.

use crate::chunk::{ChunkWriter, Slice};
pub use derive::Hand;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::{NonZeroU8, NonZeroU32};
use std::sync::Arc;

/// A value that can be handed to the next process.
pub trait Hand: Sized {
    /// Appends the value.
    fn give(&self, out: &mut Vec<u8>);

    /// Reads a value. None if the bytes are invalid.
    fn take(input: &mut Input<'_>) -> Option<Self>;

    /// Describes the value's components.
    fn layout(layout: &mut Layout);

    /// Appends several values, without their number.
    fn give_all(list: &[Self], out: &mut Vec<u8>) {
        list.iter().for_each(|value| value.give(out));
    }

    /// Reads `count` values.
    fn take_all(count: usize, input: &mut Input<'_>) -> Option<Vec<Self>> {
        // Reserve at most as much memory as there are bytes left; values that really exist make the
        // vector grow.
        let room = input.left() / size_of::<Self>().max(1);
        let mut list = Vec::with_capacity(count.min(room));
        for _ in 0..count {
            list.push(Self::take(input)?);
        }
        Some(list)
    }
}

/// The bytes that have not been read.
#[derive(Clone, Copy)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// Starts at the first of these bytes.
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input(bytes)
    }

    /// The number of bytes that have not been read.
    pub fn left(&self) -> usize {
        self.0.len()
    }

    /// Reads the next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    /// Reads a number of values; at most the number of bytes left, as each value takes at least
    /// one.
    fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(u64::take(self)?).ok()?;
        (count <= self.left()).then_some(count)
    }
}

/// A number that identifies the layout of a structure: different names, orders or types of fields
/// give a different one.
pub struct Layout(u64);

impl Layout {
    /// Adds a name.
    pub fn name(&mut self, name: &str) {
        for byte in name.bytes().chain([0]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Adds the type of a field; the accessor's type determines it.
    pub fn field<O, F: Hand>(&mut self, name: &str, _: impl Fn(&O) -> Option<&F>) {
        self.name(name);
        F::layout(self);
    }
}

/// The layout of a type. Two programs with the same layout understand each other's bytes.
pub fn layout_of<T: Hand>() -> u64 {
    let mut layout = Layout(0xcbf2_9ce4_8422_2325);
    T::layout(&mut layout);
    layout.0
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Hand for $type {
            fn give(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn take(input: &mut Input<'_>) -> Option<Self> {
                input.array().map(Self::from_le_bytes)
            }

            fn layout(layout: &mut Layout) {
                layout.name(stringify!($type));
            }
        }
    )*};
}

numbers!(u16, u32, u64, u128, i32, i64);

impl Hand for u8 {
    fn give(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        input.array().map(|[byte]| byte)
    }

    fn layout(layout: &mut Layout) {
        layout.name("u8");
    }

    fn give_all(list: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(list);
    }

    fn take_all(count: usize, input: &mut Input<'_>) -> Option<Vec<u8>> {
        input.bytes(count).map(<[u8]>::to_vec)
    }
}

/// Implements `Hand` for a type through its conversion to another one.
macro_rules! through {
    ($($type:ty as $other:ty: $give:expr, $take:expr;)*) => {$(
        impl Hand for $type {
            fn give(&self, out: &mut Vec<u8>) {
                let give: fn(&$type) -> $other = $give;
                give(self).give(out);
            }

            fn take(input: &mut Input<'_>) -> Option<Self> {
                let take: fn($other) -> Option<$type> = $take;
                take(<$other>::take(input)?)
            }

            fn layout(layout: &mut Layout) {
                layout.name(stringify!($type));
            }
        }
    )*};
}

through! {
    bool as u8: |value| u8::from(*value), |byte| match byte {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    };
    usize as u64: |value| *value as u64, |value| usize::try_from(value).ok();
    NonZeroU8 as u8: |value| value.get(), NonZeroU8::new;
    NonZeroU32 as u32: |value| value.get(), NonZeroU32::new;
    std::net::IpAddr as u128: |value| match value {
        std::net::IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        std::net::IpAddr::V6(address) => address.to_bits(),
    }, |bits| Some(std::net::Ipv6Addr::from_bits(bits).to_canonical());
}

macro_rules! bytes {
    ($($type:ty: $take:expr;)*) => {$(
        impl Hand for $type {
            fn give(&self, out: &mut Vec<u8>) {
                let bytes: &[u8] = self.as_ref();
                bytes.len().give(out);
                out.extend_from_slice(bytes);
            }

            fn take(input: &mut Input<'_>) -> Option<Self> {
                let count = input.count()?;
                let take: fn(&[u8]) -> Option<$type> = $take;
                take(input.bytes(count)?)
            }

            fn layout(layout: &mut Layout) {
                layout.name(stringify!($type));
            }
        }
    )*};
}

bytes! {
    String: |bytes| Some(std::str::from_utf8(bytes).ok()?.to_owned());
    Slice: |bytes| Some(Slice::copy_of(bytes));
}

impl Hand for Box<str> {
    fn give(&self, out: &mut Vec<u8>) {
        self.len().give(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        String::take(input).map(String::into_boxed_str)
    }

    fn layout(layout: &mut Layout) {
        layout.name("str");
    }
}

impl Hand for () {
    fn give(&self, _: &mut Vec<u8>) {}

    fn take(_: &mut Input<'_>) -> Option<Self> {
        Some(())
    }

    fn layout(layout: &mut Layout) {
        layout.name("()");
    }
}

impl<T: Hand> Hand for Option<T> {
    fn give(&self, out: &mut Vec<u8>) {
        self.is_some().give(out);
        if let Some(value) = self {
            value.give(out);
        }
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        if bool::take(input)? { T::take(input).map(Some) } else { Some(None) }
    }

    fn layout(layout: &mut Layout) {
        layout.name("Option");
        T::layout(layout);
    }
}

impl<T: Hand, E: Hand> Hand for Result<T, E> {
    fn give(&self, out: &mut Vec<u8>) {
        self.is_ok().give(out);
        match self {
            Ok(value) => value.give(out),
            Err(error) => error.give(out),
        }
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        if bool::take(input)? { T::take(input).map(Ok) } else { E::take(input).map(Err) }
    }

    fn layout(layout: &mut Layout) {
        layout.name("Result");
        T::layout(layout);
        E::layout(layout);
    }
}

macro_rules! lists {
    ($($type:ident: $give:expr;)*) => {$(
        impl<T: Hand> Hand for $type<T> {
            fn give(&self, out: &mut Vec<u8>) {
                self.len().give(out);
                let give: fn(&$type<T>, &mut Vec<u8>) = $give;
                give(self, out);
            }

            fn take(input: &mut Input<'_>) -> Option<Self> {
                let count = input.count()?;
                T::take_all(count, input).map($type::from)
            }

            fn layout(layout: &mut Layout) {
                layout.name(stringify!($type));
                T::layout(layout);
            }
        }
    )*};
}

lists! {
    Vec: |list, out| T::give_all(list, out);
    VecDeque: |list, out| {
        let (first, second) = list.as_slices();
        T::give_all(first, out);
        T::give_all(second, out);
    };
}

impl<T: Hand> Hand for Box<[T]> {
    fn give(&self, out: &mut Vec<u8>) {
        self.len().give(out);
        T::give_all(self, out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        Vec::take(input).map(Vec::into_boxed_slice)
    }

    fn layout(layout: &mut Layout) {
        Vec::<T>::layout(layout);
    }
}

macro_rules! pointers {
    ($($type:ident),*) => {$(
        impl<T: Hand> Hand for $type<T> {
            fn give(&self, out: &mut Vec<u8>) {
                (**self).give(out);
            }

            fn take(input: &mut Input<'_>) -> Option<Self> {
                T::take(input).map($type::new)
            }

            fn layout(layout: &mut Layout) {
                T::layout(layout);
            }
        }
    )*};
}

pointers!(Box, Arc);

impl<T: Hand + Ord> Hand for BTreeSet<T> {
    fn give(&self, out: &mut Vec<u8>) {
        self.len().give(out);
        self.iter().for_each(|value| value.give(out));
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        let count = input.count()?;
        (0..count).map(|_| T::take(input)).collect()
    }

    fn layout(layout: &mut Layout) {
        layout.name("BTreeSet");
        T::layout(layout);
    }
}

impl<K: Hand + Ord, V: Hand> Hand for BTreeMap<K, V> {
    fn give(&self, out: &mut Vec<u8>) {
        self.len().give(out);
        for (key, value) in self {
            key.give(out);
            value.give(out);
        }
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        let count = input.count()?;
        (0..count).map(|_| <(K, V)>::take(input)).collect()
    }

    fn layout(layout: &mut Layout) {
        layout.name("BTreeMap");
        <(K, V)>::layout(layout);
    }
}

impl<T: Hand, const COUNT: usize> Hand for [T; COUNT] {
    fn give(&self, out: &mut Vec<u8>) {
        T::give_all(self, out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        T::take_all(COUNT, input)?.try_into().ok()
    }

    fn layout(layout: &mut Layout) {
        layout.name("array");
        // The length in unary: one name for each element.
        (0..COUNT).for_each(|_| layout.name("."));
        T::layout(layout);
    }
}

macro_rules! tuples {
    ($(($($name:ident),*);)*) => {$(
        impl<$($name: Hand),*> Hand for ($($name,)*) {
            fn give(&self, out: &mut Vec<u8>) {
                #[allow(non_snake_case)]
                let ($($name,)*) = self;
                $($name.give(out);)*
            }

            fn take(input: &mut Input<'_>) -> Option<Self> {
                Some(($($name::take(input)?,)*))
            }

            fn layout(layout: &mut Layout) {
                layout.name("tuple");
                $($name::layout(layout);)*
            }
        }
    )*};
}

tuples! {
    (A, B);
    (A, B, C);
    (A, B, C, D);
}

impl<T: Hand> Hand for std::ops::Range<T> {
    fn give(&self, out: &mut Vec<u8>) {
        self.start.give(out);
        self.end.give(out);
    }

    fn take(input: &mut Input<'_>) -> Option<Self> {
        Some(T::take(input)?..T::take(input)?)
    }

    fn layout(layout: &mut Layout) {
        layout.name("Range");
        T::layout(layout);
    }
}

/// The published bytes of a writer travel with its slices. The next process starts with a writer
/// without capacity.
impl Hand for ChunkWriter {
    fn give(&self, _: &mut Vec<u8>) {}

    fn take(_: &mut Input<'_>) -> Option<Self> {
        Some(ChunkWriter::heap(0))
    }

    fn layout(layout: &mut Layout) {
        layout.name("ChunkWriter");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Hand)]
    struct Sample {
        number: u32,
        names: Vec<String>,
        map: BTreeMap<u16, Option<bool>>,
        kind: Kind,
    }

    #[derive(Debug, PartialEq, Hand)]
    enum Kind {
        Plain,
        Named { name: Box<str> },
        Pair(u8, [u16; 2]),
    }

    fn samples() -> Vec<Sample> {
        let kinds = [Kind::Plain, Kind::Named { name: "x".into() }, Kind::Pair(7, [1, 65_535])];
        let sample = |kind| Sample {
            number: 0x0102_0304,
            names: vec!["a".into(), String::new()],
            map: [(1, None), (9, Some(true))].into(),
            kind,
        };
        kinds.map(sample).into()
    }

    #[test]
    fn values_survive_encoding() {
        let samples = samples();
        let mut bytes = Vec::new();
        samples.give(&mut bytes);
        let mut input = Input::new(&bytes);
        assert_eq!(Vec::take(&mut input), Some(samples));
        assert_eq!(input.left(), 0);
    }

    /// Truncated or changed bytes neither panic nor allocate much memory.
    #[test]
    fn damaged_bytes_are_refused_or_give_another_value() {
        let mut bytes = Vec::new();
        samples().give(&mut bytes);
        for end in 0..bytes.len() {
            assert_eq!(Vec::<Sample>::take(&mut Input::new(&bytes[..end])), None);
        }
        for place in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = bytes.clone();
                damaged[place] = value;
                let _ = Vec::<Sample>::take(&mut Input::new(&damaged));
            }
        }
    }

    #[test]
    fn different_layouts_have_different_numbers() {
        #[derive(Hand)]
        struct Other {
            number: u64,
        }
        #[derive(Hand)]
        struct Same {
            number: u32,
        }
        let all = [
            layout_of::<Sample>(),
            layout_of::<Other>(),
            layout_of::<Same>(),
            layout_of::<Vec<u32>>(),
            layout_of::<VecDeque<u32>>(),
            layout_of::<[u32; 2]>(),
            layout_of::<[u32; 3]>(),
            layout_of::<(u32, u32)>(),
        ];
        let distinct: BTreeSet<u64> = all.into();
        assert_eq!(distinct.len(), all.len());
        assert_eq!(layout_of::<Sample>(), layout_of::<Sample>());
    }
}
