//! Drives each decoder over an input in pieces and records its output, one line per value.
//!
//! Purpose: two transcripts of the same bytes must be equal for all cuts. The property tests and
//! the fuzz targets share this file. Invariant: a transcript ends with `error ..` or with the
//! number of remaining bytes.

// Each test binary uses some of these functions.
#![allow(dead_code)]

use wire::http::event_stream::{EventStreamDecoder, Item};
use wire::http::{BodyDecoder, BodyPart, HeadLimits, HeadScan, Request, Response};
use wire::mqtt::{ClientPacket, ServerPacket, Version};
use wire::websocket::{Assembler, Event, Frame, Inflater, Role};
use wire::{Step, websocket};

/// The cuts of an input: sizes of pieces, repeatable from a seed.
#[derive(Clone, Copy, Debug)]
pub enum Cuts {
    /// One piece.
    Whole,
    /// Pieces of one byte.
    Bytes,
    /// Two pieces; the length of the first.
    At(usize),
    /// Pieces of 1 to 16 bytes, sometimes up to 1,024, from a seed.
    Seeded(u64),
}

impl Cuts {
    /// The pieces of `input`.
    pub fn pieces(self, input: &[u8]) -> Vec<&[u8]> {
        let mut pieces = Vec::new();
        let mut rest = input;
        let mut state = match self {
            Cuts::Seeded(seed) => seed | 1,
            _ => 1,
        };
        while !rest.is_empty() {
            let bytes = match self {
                Cuts::Whole => rest.len(),
                Cuts::Bytes => 1,
                Cuts::At(bytes) if pieces.is_empty() => bytes,
                Cuts::At(_) => rest.len(),
                Cuts::Seeded(_) => {
                    // xorshift64
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    let bytes_max = if state >> 60 == 0 { 1024 } else { 16 };
                    1 + (state >> 20) as usize % bytes_max
                }
            };
            let (piece, others) = rest.split_at(bytes.min(rest.len()));
            pieces.push(piece);
            rest = others;
        }
        pieces
    }
}

/// Runs a stateless decoder: the unfinished tail is kept here, as in a connection, and the decoder
/// is called again only with as many bytes as it needs, and once at the end.
///
/// `step` returns the line and the consumed bytes, or the needed bytes, or the error.
fn drive_stateless(
    input: &[u8],
    cuts: Cuts,
    mut step: impl FnMut(&mut [u8]) -> Result<Step<String>, String>,
) -> Vec<String> {
    let mut transcript = Vec::new();
    let mut tail = Vec::new();
    let mut wanted = 0;
    let pieces = cuts.pieces(input);
    // An empty last piece stands for the end of the input.
    for (at, piece) in pieces.iter().copied().chain([&[][..]]).enumerate() {
        tail.extend_from_slice(piece);
        if tail.len() < wanted && at < pieces.len() {
            continue;
        }
        loop {
            let before = tail.clone();
            match step(&mut tail) {
                Ok(Step::Done { value, consumed }) => {
                    assert!(consumed > 0 && consumed <= tail.len(), "{consumed} of {}", tail.len());
                    transcript.push(value);
                    tail.drain(..consumed);
                }
                Ok(Step::More { needed }) => {
                    assert!(needed > tail.len(), "{needed} needed, {} there", tail.len());
                    assert_eq!(before, tail, "an unfinished input was changed");
                    wanted = needed;
                    break;
                }
                Err(error) => {
                    transcript.push(format!("error {error}"));
                    return transcript;
                }
            }
        }
    }
    transcript.push(format!("{} bytes left", tail.len()));
    transcript
}

/// Decodes a header of the PROXY protocol; the rest is ignored.
pub fn proxy(input: &[u8], cuts: Cuts) -> Vec<String> {
    let mut is_done = false;
    drive_stateless(input, cuts, |tail| {
        if is_done {
            return Ok(Step::More { needed: tail.len() + 1 });
        }
        let step = wire::proxy::decode(tail).map_err(|error| error.to_string())?;
        is_done = matches!(step, Step::Done { .. });
        Ok(step.map(|announced| format!("{announced:?}")))
    })
}

/// Decodes packets from a client. Without a version, the first one is CONNECT.
pub fn mqtt_client(
    input: &[u8],
    mut version: Option<Version>,
    packet_bytes_max: u32,
    cuts: Cuts,
) -> Vec<String> {
    drive_stateless(input, cuts, |tail| {
        let step = ClientPacket::decode(version, packet_bytes_max, tail);
        let step = step.map_err(|error| format!("{error:?}"))?;
        if let Step::Done { value: ClientPacket::Connect(connect), .. } = &step {
            version = Some(connect.version);
        }
        Ok(step.map(|packet| format!("{packet:?}")))
    })
}

/// Decodes packets from a server.
pub fn mqtt_server(
    input: &[u8],
    version: Version,
    packet_bytes_max: u32,
    cuts: Cuts,
) -> Vec<String> {
    drive_stateless(input, cuts, |tail| {
        let step = ServerPacket::decode(version, packet_bytes_max, tail);
        let step = step.map_err(|error| format!("{error:?}"))?;
        Ok(step.map(|packet| format!("{packet:?}")))
    })
}

/// Decodes single frames.
pub fn websocket_frames(
    input: &[u8],
    role: Role,
    payload_bytes_max: usize,
    cuts: Cuts,
) -> Vec<String> {
    drive_stateless(input, cuts, |tail| {
        Frame::decode(tail, role, payload_bytes_max)
            .map(|step| step.map(|frame| format!("{frame:?}")))
            .map_err(|error| format!("{} {error:?}", error.close_code()))
    })
}

/// Decodes complete messages and control frames; fragments leave no line. Decoding stops after a
/// close frame.
pub fn websocket_messages(
    input: &[u8],
    role: Role,
    message_bytes_max: usize,
    cuts: Cuts,
) -> Vec<String> {
    messages(Assembler::new(), input, role, message_bytes_max, cuts)
}

/// Decodes messages of a connection with compression; compressed messages are inflated.
pub fn websocket_compressed_messages(
    input: &[u8],
    role: Role,
    message_bytes_max: usize,
    cuts: Cuts,
) -> Vec<String> {
    let assembler = Assembler::with_deflate(true);
    messages(assembler, input, role, message_bytes_max, cuts)
}

fn messages(
    mut assembler: Assembler,
    input: &[u8],
    role: Role,
    message_bytes_max: usize,
    cuts: Cuts,
) -> Vec<String> {
    let mut inflater = Inflater::new();
    let mut assembly = Vec::new();
    let mut closed = false;
    let mut transcript = drive_stateless(input, cuts, |tail| {
        if closed {
            return Ok(Step::More { needed: tail.len() + 1 });
        }
        let step = assembler.decode(tail, role, message_bytes_max, &mut assembly);
        let step = step.and_then(|step| {
            let Step::Done { value, consumed } = step else {
                return Ok(step.map(|_| String::new()));
            };
            closed = matches!(value, Event::Close(_));
            let value = match value {
                Event::Compressed(kind, payload) => {
                    let event = inflater.message(kind, payload, message_bytes_max)?;
                    format!("compressed {event:?}")
                }
                event => format!("{event:?}"),
            };
            Ok(Step::Done { value, consumed })
        });
        assert!(assembly.capacity() <= message_bytes_max.max(8), "{}", assembly.capacity());
        step.map_err(|error| format!("{} {error:?}", error.close_code()))
    });
    transcript.retain(|line| line != "Fragment");
    transcript
}

/// Decodes the requests of a connection: head, content, head, content.
pub fn http_requests(
    input: &[u8],
    limits: HeadLimits,
    body_bytes_max: u64,
    cuts: Cuts,
) -> Vec<String> {
    let mut scan = HeadScan::new();
    drive_messages(input, cuts, body_bytes_max, |tail| {
        let step = Request::decode(tail, &mut scan, &limits);
        step.map(|step| step.map(|request| (format!("{:?}", Shown::from(&request)), request.body)))
            .map_err(|error| format!("{} {error:?}", error.status()))
    })
}

/// Decodes a connection's answers to GET requests.
pub fn http_responses(
    input: &[u8],
    limits: HeadLimits,
    body_bytes_max: u64,
    cuts: Cuts,
) -> Vec<String> {
    let mut scan = HeadScan::new();
    drive_messages(input, cuts, body_bytes_max, |tail| {
        let step = Response::decode(tail, &mut scan, &limits, "GET");
        step.map(|step| {
            step.map(|response| {
                let fields: Vec<_> = response.fields.iter().collect();
                let line = format!(
                    "{} {:?} {:?} keep_alive={} {:?} {fields:?}",
                    response.status,
                    response.reason,
                    response.version,
                    response.keep_alive(),
                    response.body,
                );
                (line, response.body)
            })
        })
        .map_err(|error| format!("{error:?}"))
    })
}

/// Decodes one body.
pub fn http_body(
    input: &[u8],
    framing: wire::http::BodyFraming,
    body_bytes_max: u64,
    cuts: Cuts,
) -> Vec<String> {
    let mut decoder = match BodyDecoder::new(framing, body_bytes_max) {
        Ok(decoder) => decoder,
        Err(error) => return vec![format!("error {} {error:?}", error.status())],
    };
    let mut content = Vec::new();
    let mut left_bytes = 0;
    for piece in cuts.pieces(input) {
        let consumed = match drive_body(&mut decoder, piece, &mut content) {
            Ok(consumed) => consumed,
            Err(error) => return vec![format!("{content:?}"), format!("error {error}")],
        };
        left_bytes += piece.len() - consumed;
    }
    assert_eq!(decoder.content_bytes(), content.len() as u64);
    assert!(decoder.content_bytes() <= body_bytes_max);
    vec![format!("{content:?}"), format!("{:?}, {left_bytes} bytes left", decoder.finish())]
}

/// Decodes one event stream.
pub fn event_stream(input: &[u8], event_bytes_max: usize, cuts: Cuts) -> Vec<String> {
    let mut decoder = EventStreamDecoder::new(event_bytes_max);
    let mut transcript = Vec::new();
    for piece in cuts.pieces(input) {
        let mut rest = piece;
        loop {
            match decoder.decode(rest) {
                Ok(Step::Done { value, consumed }) => {
                    assert!(consumed > 0);
                    if value != Item::Progress {
                        transcript.push(format!("{value:?}"));
                    }
                    rest = &rest[consumed..];
                }
                Ok(Step::More { needed }) => {
                    assert!(needed == 1 && rest.is_empty());
                    break;
                }
                Err(error) => {
                    transcript.push(format!("error {error:?}"));
                    return transcript;
                }
            }
        }
    }
    transcript.push(format!("last event id {:?}", decoder.last_event_id()));
    transcript
}

/// Asserts that every way of cutting gives the transcript of the whole input, and returns it.
pub fn check_cuts(seed: u64, transcript: impl Fn(Cuts) -> Vec<String>) -> Vec<String> {
    let whole = transcript(Cuts::Whole);
    for cuts in [Cuts::Bytes, Cuts::Seeded(seed), Cuts::Seeded(seed.rotate_left(17) ^ 0x9e37)] {
        assert_eq!(whole, transcript(cuts), "{cuts:?}");
    }
    whole
}

/// Decodes heads with bodies between them; a body leaves one line.
fn drive_messages(
    input: &[u8],
    cuts: Cuts,
    body_bytes_max: u64,
    mut head: impl FnMut(&mut [u8]) -> Result<Step<(String, wire::http::BodyFraming)>, String>,
) -> Vec<String> {
    let mut body: Option<(BodyDecoder, Vec<u8>)> = None;
    let mut transcript = Vec::new();
    let mut lines = drive_stateless(input, cuts, |tail| {
        let Some((decoder, content)) = &mut body else {
            return match head(tail)? {
                Step::More { needed } => Ok(Step::More { needed }),
                Step::Done { value: (line, framing), consumed } => {
                    let decoder = BodyDecoder::new(framing, body_bytes_max)
                        .map_err(|error| format!("{} {error:?}", error.status()))?;
                    body = (!decoder.is_end()).then(|| (decoder, Vec::new()));
                    Ok(Step::Done { value: line, consumed })
                }
            };
        };
        if tail.is_empty() {
            return Ok(Step::More { needed: 1 });
        }
        let consumed = drive_body(decoder, tail, content)?;
        let value = if decoder.is_end() {
            let line = format!("body {content:?}");
            body = None;
            line
        } else {
            String::new()
        };
        Ok(Step::Done { value, consumed })
    });
    transcript.append(&mut lines);
    if let Some((decoder, content)) = body {
        transcript.push(format!("unfinished body {content:?} {:?}", decoder.finish()));
    }
    transcript.retain(|line| !line.is_empty());
    transcript
}

/// Feeds one piece; returns the number of consumed bytes, which is all of it unless the body ended.
fn drive_body(
    decoder: &mut BodyDecoder,
    piece: &[u8],
    content: &mut Vec<u8>,
) -> Result<usize, String> {
    let mut at = 0;
    loop {
        let step = decoder.decode(&piece[at..]);
        match step.map_err(|error| format!("{} {error:?}", error.status()))? {
            Step::Done { value: BodyPart::Data(data), consumed } => {
                assert!(consumed > 0 && data.len() <= consumed);
                content.extend_from_slice(data);
                at += consumed;
            }
            Step::Done { value: BodyPart::End, consumed } => return Ok(at + consumed),
            Step::More { .. } => {
                assert_eq!(at, piece.len());
                return Ok(at);
            }
        }
    }
}

/// A line in a request's transcript.
#[derive(Debug)]
struct Shown<'a> {
    _line: (&'a str, &'a str, wire::http::Version),
    _fields: Vec<(&'a str, &'a [u8])>,
    _body: wire::http::BodyFraming,
    _flags: (bool, bool),
    _upgrade: Result<(), websocket::handshake::Refusal>,
}

impl<'a> From<&Request<'a>> for Shown<'a> {
    fn from(request: &Request<'a>) -> Self {
        Shown {
            _line: (request.method, request.target, request.version),
            _fields: request.fields.iter().collect(),
            _body: request.body,
            _flags: (request.expect_continue, request.keep_alive()),
            _upgrade: websocket::handshake::Upgrade::check(request).map(|_| ()),
        }
    }
}
