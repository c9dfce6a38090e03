//! The record layer under known keys, for the fuzz target: any records, sealed as a peer would, and
//! any bytes behind them.
//!
//! Built only for it (feature `fuzzing`).

use std::io::IoSlice;

use crate::alert::Fault;
use crate::keys::testing;
use crate::record::{Inbox, Opened, RecordLayer, Side, Text, Version};

/// The result of a stream.
#[derive(PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Application data.
    pub text: Vec<u8>,
    /// The peer ended it.
    pub ended: bool,
    /// Refused renegotiations.
    pub renegotiations: usize,
    /// Tickets.
    pub tickets: usize,
    /// The reason of another end.
    pub fault: Option<Fault>,
}

/// One direction, both ends of it.
pub struct Direction {
    sender: RecordLayer,
    receiver: RecordLayer,
    unread: Vec<u8>,
    inbox: Inbox,
    outcome: Outcome,
}

impl Direction {
    /// To a server, or to a client.
    pub fn new(tls13: bool, to_server: bool) -> Direction {
        let keys = || if tls13 { testing::aes_128_gcm(&[5; 32]) } else { testing::gcm_of_tls12() };
        let version = if tls13 { Version::Tls13 } else { Version::Tls12 };
        let layer = |side| RecordLayer::new(version, side, keys(), keys());
        let (receiver, sender) = if to_server {
            (layer(Side::Server), layer(Side::Client))
        } else {
            (layer(Side::Client), layer(Side::Server))
        };
        Direction {
            sender,
            receiver,
            unread: Vec::new(),
            inbox: Inbox::default(),
            outcome: Outcome::default(),
        }
    }

    /// One record of this type, at most 2^14 bytes.
    pub fn seal(&mut self, kind: u8, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let sealed = self.sender.sealing_context().and_then(|context| {
            let parts = [IoSlice::new(text)];
            let mut text_of = Text::of(&parts);
            self.sender.seal(&context, kind, &mut text_of, text.len(), &mut out)
        });
        assert_eq!(sealed, Ok(()));
        out
    }

    /// Takes bytes in, as far as they are records.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
        let mut used = 0;
        let mut context = None;
        while !self.outcome.ended && self.outcome.fault.is_none() {
            let rest = &mut self.unread[used..];
            let record = match self.receiver.record_len(rest) {
                Ok(Some(length)) if length <= rest.len() => &mut rest[..length],
                Ok(_) => break,
                Err(fault) => {
                    self.outcome.fault = Some(fault);
                    break;
                }
            };
            used += record.len();
            match self.receiver.open(&mut context, record, &mut self.inbox) {
                Ok(Opened::Data(text)) => self.outcome.text.extend_from_slice(text),
                Ok(Opened::Nothing) => {}
                Ok(Opened::Ended) => self.outcome.ended = true,
                Ok(Opened::Renegotiation) => self.outcome.renegotiations += 1,
                Err(fault) => self.outcome.fault = Some(fault),
            }
            self.outcome.tickets += self.inbox.tickets.drain(..).count();
        }
        self.unread.drain(..used);
        if self.outcome.ended || self.outcome.fault.is_some() {
            self.unread = Vec::new();
        }
    }

    /// The result so far.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }
}
