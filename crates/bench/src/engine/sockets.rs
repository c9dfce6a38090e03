//! The WebSocket side of all clients of a worker: handshake and messages, a few bytes of state
//! each.
//!
//! Place: between the pool's bytes and the protocols. A fragmented message is put together in a map
//! that is empty otherwise.

use std::collections::HashMap;

use stdx::prng::Prng;
use wire::Step;
use wire::http::{HeadLimits, HeadScan, Response};
use wire::websocket::handshake::ClientHandshake;
use wire::websocket::{Assembler, CloseCode, Event, Inflater, Kind, Opcode, Role, frame};

use super::route::Route;
use crate::tokens::WorkerTokens;

/// The longest message taken, in bytes.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// State of one WebSocket: 4 bytes.
#[derive(Clone, Copy, Default)]
struct State {
    is_open: bool,
    assembler: Assembler,
}

const _: () = assert!(size_of::<State>() <= 4);

/// All of a worker's WebSockets, by place.
pub(super) struct Sockets {
    states: Vec<State>,
    assembly: HashMap<u32, Vec<u8>>,
    /// The assembly of messages that need none; always empty.
    none: Vec<u8>,
    subprotocols: &'static [&'static str],
    shown: WorkerTokens,
    seed: u64,
    /// Offers compressed messages.
    deflate: bool,
    inflater: Inflater,
}

/// A unit of input.
pub(super) enum Incoming<'a> {
    /// The handshake is over.
    Opened,
    Text(&'a [u8]),
    Binary(&'a [u8]),
    /// To be answered by a pong.
    Ping(&'a [u8]),
    /// Nothing to do.
    Other,
}

impl Sockets {
    pub(super) fn new(
        subprotocols: &'static [&'static str],
        shown: WorkerTokens,
        seed: u64,
        deflate: bool,
    ) -> Sockets {
        Sockets {
            states: Vec::new(),
            assembly: HashMap::new(),
            none: Vec::new(),
            subprotocols,
            shown,
            seed,
            deflate,
            inflater: Inflater::new(),
        }
    }

    /// Writes the request.
    pub(super) fn begin(&mut self, place: u32, route: &Route, out: &mut Vec<u8>) {
        self.begin_with(place, route, &[], out);
    }

    /// The same, with messages that go with the request.
    pub(super) fn begin_with(
        &mut self,
        place: u32,
        route: &Route,
        early: &[String],
        out: &mut Vec<u8>,
    ) {
        if self.states.len() <= place as usize {
            self.states.resize(place as usize + 1, State::default());
        }
        self.states[place as usize] = State::default();
        let authorization = self.shown.authorization(place);
        let field = authorization.as_deref().map(|value| ("Authorization", value));
        let offered: Vec<&str> =
            (self.subprotocols.iter().copied()).chain(early.iter().map(String::as_str)).collect();
        ClientHandshake {
            subprotocols: &offered,
            headers: field.as_slice(),
            host: &route.host,
            target: &route.target,
            ..self.handshake(place)
        }
        .encode_request(out);
    }

    /// The connection is gone.
    pub(super) fn lost(&mut self, place: u32) {
        if let Some(state) = self.states.get_mut(place as usize) {
            *state = State::default();
        }
        self.assembly.remove(&place);
    }

    /// The next unit at the front of `bytes` and its length; `None` while it is unfinished.
    pub(super) fn next<'a>(
        &'a mut self,
        place: u32,
        bytes: &'a mut [u8],
    ) -> Result<Option<(Incoming<'a>, usize)>, String> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let mut state = self.states[place as usize];
        if !state.is_open {
            return self.opened(place, bytes);
        }
        // Most messages come whole, in one frame that stays in `bytes`, and never touch the map.
        let is_whole = !state.assembler.is_open() && bytes[0] & 0x80 != 0;
        let assembly =
            if is_whole { &mut self.none } else { self.assembly.entry(place).or_default() };
        let step = state
            .assembler
            .decode(bytes, Role::Client, MESSAGE_BYTES_MAX, assembly)
            .map_err(|error| error.to_string())?;
        let Step::Done { value, consumed } = step else {
            return Ok(None);
        };
        self.states[place as usize] = state;
        let incoming = match value {
            Event::Text(text) => Incoming::Text(text.as_bytes()),
            Event::Binary(payload) => Incoming::Binary(payload),
            Event::Ping(payload) => Incoming::Ping(payload),
            Event::Compressed(kind, payload) => {
                return inflate(&mut self.inflater, kind, payload, consumed);
            }
            Event::Close(close) => return Err(close_text(close.code, close.reason)),
            Event::Pong(_) | Event::Fragment => Incoming::Other,
        };
        Ok(Some((incoming, consumed)))
    }

    /// The answer to the handshake.
    fn opened<'a>(
        &mut self,
        place: u32,
        bytes: &[u8],
    ) -> Result<Option<(Incoming<'a>, usize)>, String> {
        let mut scan = HeadScan::new();
        let step = Response::decode(bytes, &mut scan, &HeadLimits::default(), "GET")
            .map_err(|error| error.to_string())?;
        let Step::Done { value, consumed } = step else {
            return Ok(None);
        };
        let handshake = self.handshake(place);
        let deflate = handshake
            .check_response(&value)
            .and_then(|_| handshake.check_deflate(&value))
            .map_err(|error| error.to_string())?;
        self.states[place as usize] =
            State { is_open: true, assembler: Assembler::with_deflate(deflate) };
        Ok(Some((Incoming::Opened, consumed)))
    }

    /// The part of the handshake that the request and the check of its answer share.
    fn handshake(&self, place: u32) -> ClientHandshake<'_> {
        // The nonce is made again when the answer comes, instead of being kept for each client.
        let mut nonce = [0; 16];
        Prng::new(self.seed ^ u64::from(place)).fill(&mut nonce);
        ClientHandshake {
            host: "",
            target: "",
            nonce,
            subprotocols: self.subprotocols,
            headers: &[],
            deflate: self.deflate,
        }
    }
}

fn inflate<'a>(
    inflater: &'a mut Inflater,
    kind: Kind,
    payload: &[u8],
    consumed: usize,
) -> Result<Option<(Incoming<'a>, usize)>, String> {
    let message = inflater.decode(payload, MESSAGE_BYTES_MAX).map_err(|error| error.to_string())?;
    let incoming = match kind {
        Kind::Text => Incoming::Text(message),
        Kind::Binary => Incoming::Binary(message),
    };
    Ok(Some((incoming, consumed)))
}

/// Appends one masked frame.
pub(super) fn encode(opcode: Opcode, payload: &[u8], random: &mut Prng, out: &mut Vec<u8>) {
    let key = (random.next_u64() as u32).to_le_bytes();
    frame::encode(out, true, opcode, payload, Some(key));
}

fn close_text(code: Option<CloseCode>, reason: &str) -> String {
    let code = code.map_or(1005, |code| code.0);
    format!("the server closed with {code} {reason}").trim_end().to_owned()
}
