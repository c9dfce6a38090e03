//! Sequence numbers (RFC 9293, 3.4): 32 bits that wrap around, so that order is a distance.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A sequence number, or the number after the last byte of something.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Seq(pub u32);

impl Seq {
    /// The signed distance from `earlier`: positive if `self` is after it. Meaningful for numbers
    /// that are less than 2^31 apart, as all numbers of one window are.
    pub fn since(self, earlier: Seq) -> i32 {
        self.0.wrapping_sub(earlier.0) as i32
    }

    /// The number of bytes from `earlier` to here; 0 if `earlier` is not before.
    pub fn bytes_since(self, earlier: Seq) -> u32 {
        self.since(earlier).max(0) as u32
    }

    /// Whether this number comes before the other one.
    pub fn is_before(self, other: Seq) -> bool {
        self.since(other) < 0
    }

    /// Whether this number comes after the other one.
    pub fn is_after(self, other: Seq) -> bool {
        self.since(other) > 0
    }

    /// The later one of two.
    pub fn max(self, other: Seq) -> Seq {
        if self.is_before(other) { other } else { self }
    }
}

impl Add<u32> for Seq {
    type Output = Seq;

    fn add(self, bytes: u32) -> Seq {
        Seq(self.0.wrapping_add(bytes))
    }
}

impl Sub<u32> for Seq {
    type Output = Seq;

    fn sub(self, bytes: u32) -> Seq {
        Seq(self.0.wrapping_sub(bytes))
    }
}

impl AddAssign<u32> for Seq {
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_the_wrap() {
        let last = Seq(u32::MAX);
        let next = last + 2;
        assert_eq!(next, Seq(1));
        assert!(last.is_before(next) && next.is_after(last) && !last.is_after(last));
        assert_eq!((next.since(last), last.since(next)), (2, -2));
        assert_eq!((next.bytes_since(last), last.bytes_since(next)), (2, 0));
        assert_eq!((next.max(last), last.max(next), next - 2), (next, next, last));
    }
}
