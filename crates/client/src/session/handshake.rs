//! The upgrade from HTTP to WebSocket, and the topics of pending history requests.
//!
//! Place: the first bytes of a connection. Pure.

use std::collections::HashMap;
use std::sync::Arc;

use wire::Step;
use wire::http::{HeadLimits, HeadScan, Response};
use wire::native::{EARLY_FRAME_PREFIX, SUBPROTOCOL};
use wire::websocket::handshake::{ClientHandshake, ClientRefusal, early_message};

use super::event::Reason;

/// The state of the handshake, and data of the connection that only answers need.
#[derive(Debug, Default)]
pub(super) struct Handshake {
    nonce: [u8; 16],
    deflate: bool,
    scan: HeadScan,
    topics: HashMap<u32, Arc<str>>,
}

impl Handshake {
    /// Writes the request with early frames, with or without an offer of compression.
    pub(super) fn begin(
        &mut self,
        host: &str,
        target: &str,
        nonce: [u8; 16],
        deflate: bool,
        early: &[Vec<u8>],
        out: &mut Vec<u8>,
    ) {
        (self.nonce, self.deflate) = (nonce, deflate);
        self.scan = HeadScan::new();
        let early = early.iter().map(|frame| early_message(EARLY_FRAME_PREFIX, frame));
        let early: Vec<String> = early.collect();
        let mut offers = vec![SUBPROTOCOL];
        offers.extend(early.iter().map(String::as_str));
        self.request(host, target, &offers).encode_request(out);
    }

    /// Checks the answer at the front of `input`. Returns the length of its head and whether
    /// compression was agreed, or `None` while it is incomplete.
    pub(super) fn finish(&mut self, input: &[u8]) -> Result<Option<(usize, bool)>, Reason> {
        let step = Response::decode(input, &mut self.scan, &HeadLimits::default(), "GET")
            .map_err(|error| Reason::Protocol(error.to_string()))?;
        let Step::Done { value: response, consumed } = step else {
            return Ok(None);
        };
        let request = self.request("", "", &[SUBPROTOCOL]);
        let checked = request.check_response(&response);
        match checked {
            Ok(Some(SUBPROTOCOL)) => match request.check_deflate(&response) {
                Ok(deflate) => Ok(Some((consumed, deflate))),
                Err(refusal) => Err(Reason::Protocol(refusal.to_string())),
            },
            Ok(_) => Err(Reason::Protocol("the server did not choose crore.v1".to_owned())),
            Err(ClientRefusal::Status(status)) => Err(Reason::HandshakeRefused {
                status,
                retry_after_s: response
                    .header_text("retry-after")
                    .and_then(|value| value.trim().parse().ok()),
            }),
            Err(refusal) => Err(Reason::Protocol(refusal.to_string())),
        }
    }

    /// Stores the topic of a history request: its page does not repeat it.
    pub(super) fn note_history(&mut self, request: u32, topic: &str) {
        self.topics.insert(request, topic.into());
    }

    /// Removes and returns the topic of a history request.
    pub(super) fn take_history(&mut self, request: u32) -> Option<Arc<str>> {
        self.topics.remove(&request)
    }

    /// Clears the state of a lost connection.
    pub(super) fn forget(&mut self) {
        self.topics.clear();
    }

    fn request<'a>(
        &self,
        host: &'a str,
        target: &'a str,
        offers: &'a [&'a str],
    ) -> ClientHandshake<'a> {
        ClientHandshake {
            host,
            target,
            nonce: self.nonce,
            subprotocols: offers,
            headers: &[],
            deflate: self.deflate,
        }
    }
}
