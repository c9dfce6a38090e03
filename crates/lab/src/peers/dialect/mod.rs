//! The protocol of a server, as far as the one load generator needs it.
//!
//! Place: between `load` and the bytes of a connection. A dialect sees the unread bytes of one
//! connection and may answer. Sockets, times and counts belong to the load. Invariants: a dialect
//! takes whole units only, and never panics on a server's bytes. Bytes that it does not understand
//! are an error, which ends the measurement.

mod mqtt;
mod nats;
mod websocket;

use std::ops::Range;

pub use mqtt::Mqtt;
pub use nats::Nats;
pub use websocket::{Baseline, Native, Nchan};

/// Bytes of one unit from a server at most.
const UNIT_BYTES_MAX: usize = 1024 * 1024;

/// The role of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Role {
    /// Receives one topic.
    #[default]
    Subscriber,
    /// Publishes on any.
    Publisher,
}

/// One connection, as far as a dialect is concerned.
#[derive(Debug)]
pub struct Party<'a> {
    /// The role.
    pub role: Role,
    /// The subscribed topic; empty for a publisher.
    pub topic: &'a str,
    /// Tells it from the others of this server's life.
    pub number: u32,
    /// The dialect's own: how far the connection has come, from 0.
    pub stage: &'a mut u8,
}

/// A unit of a server's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nothing to count.
    Nothing,
    /// The subscription is confirmed, or the publisher may begin.
    Live,
    /// A message; its payload is here in the input.
    Message(Range<usize>),
}

/// A protocol.
pub trait Dialect: Send {
    /// Begins on an established connection. Returns whether it is live at once.
    fn begin(&mut self, party: &mut Party<'_>, out: &mut Vec<u8>) -> bool;

    /// The unit at the front of `input` and its length; none while it is unfinished. What it asks
    /// for goes to `out`.
    ///
    /// # Errors
    /// The server refuses, or is not understood.
    fn next(
        &mut self,
        party: &mut Party<'_>,
        input: &mut [u8],
        out: &mut Vec<u8>,
    ) -> anyhow::Result<Option<(usize, Unit)>>;

    /// Appends one publication.
    fn publish(&mut self, topic: &str, payload: &[u8], out: &mut Vec<u8>);
}

/// The position of `what`.
fn find(input: &[u8], what: &[u8]) -> Option<usize> {
    input.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds bytes in one piece and byte by byte: the units are the same.
    fn check(make: fn() -> Box<dyn Dialect>, role: Role, from_server: &[u8], expected: &[Unit]) {
        for step in [1, from_server.len()] {
            let mut dialect = make();
            let mut stage = 0;
            let mut out = Vec::new();
            let mut party = Party { role, topic: "t7", number: 7, stage: &mut stage };
            dialect.begin(&mut party, &mut out);
            let (mut units, mut input) = (Vec::new(), Vec::new());
            for piece in from_server.chunks(step) {
                input.extend_from_slice(piece);
                while let Some((taken, unit)) =
                    dialect.next(&mut party, &mut input, &mut out).unwrap()
                {
                    if unit != Unit::Nothing {
                        units.push(unit);
                    }
                    input.drain(..taken);
                }
            }
            assert_eq!(units, expected);
            assert!(input.is_empty());
        }
    }

    #[test]
    fn nats_units() {
        check(
            || Box::new(Nats),
            Role::Subscriber,
            b"INFO {}\r\nPING\r\nPONG\r\nMSG t7 1 5\r\na\r\nbc\r\n",
            &[Unit::Live, Unit::Message(12..17)],
        );
    }

    #[test]
    fn mqtt_units() {
        let mut bytes = b"\x20\x02\x00\x00\x90\x03\x00\x01\x00\x30\x07\x00\x02t7abc".to_vec();
        // A length of two bytes.
        bytes.extend_from_slice(b"\x30\xcc\x01\x00\x02t7");
        bytes.resize(bytes.len() + 200, b'x');
        check(
            || Box::new(Mqtt),
            Role::Subscriber,
            &bytes,
            &[Unit::Live, Unit::Message(6..9), Unit::Message(7..207)],
        );
    }

    #[test]
    fn answers_to_posts_are_not_messages() {
        check(
            || Box::new(Nchan),
            Role::Publisher,
            b"HTTP/1.1 202 Accepted\r\nContent-Length: 3\r\n\r\nokaHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n",
            &[],
        );
        let mut party = Party { role: Role::Publisher, topic: "", number: 0, stage: &mut 0 };
        let mut refusal = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_vec();
        assert!(Nchan.next(&mut party, &mut refusal, &mut Vec::new()).is_err());
    }
}
