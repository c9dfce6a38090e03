//! The payload of benchmark messages, as `bench pub` writes and subscribers read it.
//!
//! Place: both ends of the measured path. The text is printable ASCII, so that every transport
//! (binary WebSocket, Server-Sent Events, JSON history) carries the same bytes.
//!
//! Layout, [`HEADER_BYTES`] bytes and then padding up to the message's size:
//!
//! ```text
//! offset  bytes  field
//!      0      3  magic "CB1"
//!      3      1  clock: 'm' CLOCK_MONOTONIC (one machine), 'r' CLOCK_REALTIME (between machines)
//!      4      6  publisher, u32
//!     10      6  hash of the topic's name (`topic_hash`), u32
//!     16     11  intended send time on that clock in nanoseconds, u64
//!     27     11  sequence number of this publisher on this topic, from 1, u64
//!     38      …  random characters
//! ```
//!
//! Numbers are written most significant digit first with the base64url alphabet (RFC 4648, section
//! 5), six bits per character; padding is random over the same alphabet. The *intended* time is
//! when the open loop should have sent, so waiting inside the publisher counts.

use rustix::time::{ClockId, clock_gettime};
use stdx::prng::Prng;

/// Bytes of the header; a payload is at least so long.
pub const HEADER_BYTES: usize = 38;

const MAGIC: &[u8; 3] = b"CB1";
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Which clock the times are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum Clock {
    /// Never jumps; the same for all processes of one machine.
    #[default]
    Monotonic,
    /// Comparable between machines, as far as their clocks agree.
    Realtime,
}

impl Clock {
    /// Nanoseconds now.
    pub fn now_ns(self) -> u64 {
        let time = clock_gettime(match self {
            Clock::Monotonic => ClockId::Monotonic,
            Clock::Realtime => ClockId::Realtime,
        });
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

/// The header's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The clock of `intended_ns`.
    pub clock: Clock,
    /// Which publisher process; random per run.
    pub publisher: u32,
    /// Hash of its topic: it tells streams apart, and reveals a message on the wrong topic.
    pub topic_hash: u32,
    /// The intended time of sending.
    pub intended_ns: u64,
    /// The publisher's count on this topic, from 1.
    pub sequence: u64,
}

impl Header {
    /// Writes a payload of `size` bytes (at least [`HEADER_BYTES`]) at the end of `into`; `random`
    /// gives padding.
    pub fn write(&self, size: usize, random: &mut Prng, into: &mut Vec<u8>) {
        into.reserve(size.max(HEADER_BYTES));
        into.extend_from_slice(MAGIC);
        into.push(match self.clock {
            Clock::Monotonic => b'm',
            Clock::Realtime => b'r',
        });
        write_number(u64::from(self.publisher), 6, into);
        write_number(u64::from(self.topic_hash), 6, into);
        write_number(self.intended_ns, 11, into);
        write_number(self.sequence, 11, into);
        let mut left = size.saturating_sub(HEADER_BYTES);
        while left > 0 {
            let mut bits = random.next_u64();
            for _ in 0..left.min(10) {
                into.push(ALPHABET[(bits & 63) as usize]);
                bits >>= 6;
            }
            left -= left.min(10);
        }
    }

    /// Reads the header, or `None` when the payload is not of this format (another publisher's
    /// message).
    pub fn read(payload: &[u8]) -> Option<Header> {
        let header = payload.get(..HEADER_BYTES)?;
        if &header[..3] != MAGIC {
            return None;
        }
        Some(Header {
            clock: match header[3] {
                b'm' => Clock::Monotonic,
                b'r' => Clock::Realtime,
                _ => return None,
            },
            publisher: u32::try_from(read_number(&header[4..10])?).ok()?,
            topic_hash: u32::try_from(read_number(&header[10..16])?).ok()?,
            intended_ns: read_number(&header[16..27])?,
            sequence: read_number(&header[27..38])?,
        })
    }
}

/// The hash of a topic's name in the header: FNV-1a, 32 bits.
pub fn topic_hash(topic: &str) -> u32 {
    topic.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// A seed that no other run has, from the operating system's entropy.
pub fn seed_from_entropy() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The standard library keys its hash maps from the system's generator, and so needs no
    // dependency.
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

fn write_number(number: u64, digits: u32, into: &mut Vec<u8>) {
    for place in (0..digits).rev() {
        into.push(ALPHABET[(number >> (6 * place) & 63) as usize]);
    }
}

fn read_number(text: &[u8]) -> Option<u64> {
    let mut number = 0u128;
    for letter in text {
        let digit = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        number = number << 6 | u128::from(digit);
    }
    u64::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        fn check(header: Header, size: usize) {
            let mut payload = Vec::new();
            header.write(size, &mut Prng::new(1), &mut payload);
            assert_eq!(payload.len(), size.max(HEADER_BYTES));
            assert!(payload.iter().all(|byte| ALPHABET.contains(byte)));
            assert_eq!(Header::read(&payload), Some(header));
        }
        let header = Header {
            clock: Clock::Monotonic,
            publisher: 7,
            topic_hash: 9,
            intended_ns: 123_456_789,
            sequence: 1,
        };
        check(header, 512);
        check(header, 0);
        check(header, HEADER_BYTES + 1);
        check(
            Header {
                clock: Clock::Realtime,
                publisher: u32::MAX,
                topic_hash: u32::MAX,
                intended_ns: u64::MAX,
                sequence: u64::MAX,
            },
            100,
        );
    }

    #[test]
    fn other_payloads_are_told_apart() {
        let mut payload = Vec::new();
        let header = Header {
            clock: Clock::Monotonic,
            publisher: 1,
            topic_hash: 1,
            intended_ns: 2,
            sequence: 3,
        };
        header.write(64, &mut Prng::new(1), &mut payload);
        assert_eq!(Header::read(&payload[..HEADER_BYTES - 1]), None);
        for place in [0, 3, 4, 10, 16, 27] {
            let mut other = payload.clone();
            other[place] = b'!';
            assert_eq!(Header::read(&other), None, "byte {place}");
        }
        payload[4..10].copy_from_slice(b"______"); // 36 bits do not fit into a publisher
        assert_eq!(Header::read(&payload), None);
    }

    #[test]
    fn clocks_move() {
        for clock in [Clock::Monotonic, Clock::Realtime] {
            let before = clock.now_ns();
            assert!(before > 0 && clock.now_ns() >= before);
        }
    }
}
