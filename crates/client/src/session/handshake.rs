//! The upgrade from HTTP to WebSocket, and which topic each history request was for.
//!
//! Place: the first bytes of a connection. Pure.

use std::collections::HashMap;
use std::sync::Arc;

use wire::Step;
use wire::http::{HeadLimits, HeadScan, Response};
use wire::native::SUBPROTOCOL;
use wire::websocket::handshake::{ClientHandshake, ClientRefusal};

use super::event::Reason;

/// State of the handshake, and small facts of the connection that only answers need.
#[derive(Debug, Default)]
pub(super) struct Handshake {
    nonce: [u8; 16],
    deflate: bool,
    scan: HeadScan,
    topics: HashMap<u32, Arc<str>>,
}

impl Handshake {
    /// Writes the request, which offers compression or not.
    pub(super) fn begin(
        &mut self,
        host: &str,
        target: &str,
        nonce: [u8; 16],
        deflate: bool,
        out: &mut Vec<u8>,
    ) {
        (self.nonce, self.deflate) = (nonce, deflate);
        self.scan = HeadScan::new();
        self.request(host, target).encode_request(out);
    }

    /// Judges the answer at the front of `input`: the bytes of its head and whether compression was
    /// agreed, or `None` while it is unfinished.
    pub(super) fn finish(&mut self, input: &[u8]) -> Result<Option<(usize, bool)>, Reason> {
        let step = Response::decode(input, &mut self.scan, &HeadLimits::default(), "GET")
            .map_err(|error| Reason::Protocol(error.to_string()))?;
        let Step::Done { value: response, consumed } = step else {
            return Ok(None);
        };
        let request = self.request("", "");
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

    /// Remembers the topic of a history request: its page does not repeat it.
    pub(super) fn note_history(&mut self, request: u32, topic: &str) {
        self.topics.insert(request, topic.into());
    }

    /// The topic of a history request, once.
    pub(super) fn take_history(&mut self, request: u32) -> Option<Arc<str>> {
        self.topics.remove(&request)
    }

    /// The connection is gone.
    pub(super) fn forget(&mut self) {
        self.topics.clear();
    }

    fn request<'a>(&self, host: &'a str, target: &'a str) -> ClientHandshake<'a> {
        ClientHandshake {
            host,
            target,
            nonce: self.nonce,
            subprotocols: &[SUBPROTOCOL],
            headers: &[],
            deflate: self.deflate,
        }
    }
}
