//! Dialects over WebSocket: Crore's native protocol, nchan, and the baselines of a few lines.
//!
//! Place: three [`Dialect`]s on `wire`'s codec. All send one masked frame for each unit, as clients
//! do.

use std::ops::Range;

use anyhow::{anyhow, bail};
use wire::Step;
use wire::http::{BodyFraming, HeadLimits, HeadScan, Response};
use wire::native::{
    Attributes, ClientFrame, Hello, Publish, PublishOptions, SUBPROTOCOL, ServerFrame, Start,
    Subscribe, SubscribeItem, SubscribeRequest,
};
use wire::websocket::handshake::ClientHandshake;
use wire::websocket::{Frame, Opcode, Role as Side, frame};

use super::{Dialect, Party, Role, UNIT_BYTES_MAX, Unit};

/// Servers unmask whatever the key is.
const MASK_KEY: [u8; 4] = [0x5a, 0xc3, 0x17, 0x88];

/// Crore: HELLO and SUBSCRIBE in one write after the upgrade, SUBSCRIBED is the confirmation.
pub struct Native;

/// nginx with nchan: subscribers by WebSocket, the channel in the path; publications by POST, many
/// on one connection. The answer to the upgrade is the confirmation: nchan has none of its own.
pub struct Nchan;

/// `baseline/*`: the first text is the topic, "ok" the confirmation; publications go to `/publish`,
/// each a byte with the length of the topic's name, the name, and the payload.
pub struct Baseline;

impl Dialect for Native {
    fn begin(&mut self, party: &mut Party<'_>, out: &mut Vec<u8>) -> bool {
        handshake(party, "/crore", &[SUBPROTOCOL]).encode_request(out);
        false
    }

    fn next(
        &mut self,
        party: &mut Party<'_>,
        input: &mut [u8],
        out: &mut Vec<u8>,
    ) -> anyhow::Result<Option<(usize, Unit)>> {
        if *party.stage == 0 {
            let answer = upgraded(party, &[SUBPROTOCOL], input)?;
            if answer.is_some() {
                greet(party, out);
            }
            return Ok(answer.map(|taken| (taken, Unit::Nothing)));
        }
        let (taken, payload) = match next_frame(input, out)? {
            None => return Ok(None),
            Some((taken, None)) => return Ok(Some((taken, Unit::Nothing))),
            Some((taken, Some(payload))) => (taken, payload),
        };
        let decoded = ServerFrame::decode(&input[payload.clone()]);
        let unit = match decoded.map_err(|error| anyhow!("{error}"))? {
            ServerFrame::Welcome(_) if party.role == Role::Publisher => Unit::Live,
            ServerFrame::Subscribed(_) => Unit::Live,
            // It is the last thing in its frame.
            ServerFrame::Message(message) => {
                Unit::Message(payload.end - message.payload.len()..payload.end)
            }
            ServerFrame::Ping(token) => {
                send(&ClientFrame::Pong(token), out);
                Unit::Nothing
            }
            ServerFrame::Welcome(_) | ServerFrame::CaughtUp(_) => Unit::Nothing,
            other => bail!("{other:?}"),
        };
        Ok(Some((taken, unit)))
    }

    fn publish(&mut self, topic: &str, payload: &[u8], out: &mut Vec<u8>) {
        let publish = Publish {
            request: 0,
            topic,
            options: PublishOptions::default(),
            attributes: Attributes::default(),
            payload,
        };
        send(&ClientFrame::Publish(publish), out);
    }
}

impl Dialect for Nchan {
    fn begin(&mut self, party: &mut Party<'_>, out: &mut Vec<u8>) -> bool {
        if party.role == Role::Subscriber {
            handshake(party, &format!("/subscribe/{}", party.topic), &[]).encode_request(out);
        }
        party.role == Role::Publisher
    }

    fn next(
        &mut self,
        party: &mut Party<'_>,
        input: &mut [u8],
        out: &mut Vec<u8>,
    ) -> anyhow::Result<Option<(usize, Unit)>> {
        if party.role == Role::Publisher {
            return Ok(posted(input)?.map(|taken| (taken, Unit::Nothing)));
        }
        if *party.stage == 0 {
            return Ok(upgraded(party, &[], input)?.map(|taken| (taken, Unit::Live)));
        }
        message(input, out)
    }

    fn publish(&mut self, topic: &str, payload: &[u8], out: &mut Vec<u8>) {
        let head = format!(
            "POST /publish/{topic} HTTP/1.1\r\nHost: peer\r\nContent-Length: {}\r\n\r\n",
            payload.len()
        );
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(payload);
    }
}

impl Dialect for Baseline {
    fn begin(&mut self, party: &mut Party<'_>, out: &mut Vec<u8>) -> bool {
        let path = match party.role {
            Role::Subscriber => "/subscribe",
            Role::Publisher => "/publish",
        };
        handshake(party, path, &[]).encode_request(out);
        false
    }

    fn next(
        &mut self,
        party: &mut Party<'_>,
        input: &mut [u8],
        out: &mut Vec<u8>,
    ) -> anyhow::Result<Option<(usize, Unit)>> {
        match (*party.stage, party.role) {
            (0, Role::Publisher) => {
                Ok(upgraded(party, &[], input)?.map(|taken| (taken, Unit::Live)))
            }
            (0, Role::Subscriber) => {
                let answer = upgraded(party, &[], input)?;
                if answer.is_some() {
                    let name = party.topic.as_bytes();
                    frame::encode(out, true, Opcode::Text, name, Some(MASK_KEY));
                }
                Ok(answer.map(|taken| (taken, Unit::Nothing)))
            }
            (1, Role::Subscriber) => {
                let found = message(input, out)?;
                Ok(match found {
                    Some((taken, Unit::Message(payload))) if &input[payload.clone()] == b"ok" => {
                        *party.stage = 2;
                        Some((taken, Unit::Live))
                    }
                    Some((_, Unit::Message(_))) => bail!("not what confirms a subscription"),
                    other => other,
                })
            }
            _ => message(input, out),
        }
    }

    fn publish(&mut self, topic: &str, payload: &[u8], out: &mut Vec<u8>) {
        let mut message = vec![topic.len() as u8];
        message.extend_from_slice(topic.as_bytes());
        message.extend_from_slice(payload);
        frame::encode(out, true, Opcode::Binary, &message, Some(MASK_KEY));
    }
}

fn greet(party: &Party<'_>, out: &mut Vec<u8>) {
    send(&ClientFrame::Hello(Hello::default()), out);
    if party.role == Role::Subscriber {
        let request = SubscribeRequest::new(party.topic, Start::Live);
        let items = [SubscribeItem::new(1, request)];
        let subscribe = Subscribe { items: items.as_slice().into() };
        send(&ClientFrame::Subscribe(subscribe), out);
    }
}

fn send(client_frame: &ClientFrame<'_>, out: &mut Vec<u8>) {
    let mut bytes = Vec::new();
    client_frame.encode(&mut bytes);
    frame::encode(out, true, Opcode::Binary, &bytes, Some(MASK_KEY));
}

/// The part of the handshake that the request and the check of its answer share.
fn handshake<'a>(
    party: &Party<'_>,
    target: &'a str,
    subprotocols: &'a [&'a str],
) -> ClientHandshake<'a> {
    let mut nonce = [0x2b; 16];
    nonce[..4].copy_from_slice(&party.number.to_le_bytes());
    ClientHandshake { host: "localhost", target, nonce, subprotocols, headers: &[], deflate: false }
}

/// The length of the answer to the upgrade, once it is there; the stage is then 1.
fn upgraded(
    party: &mut Party<'_>,
    subprotocols: &[&str],
    input: &[u8],
) -> anyhow::Result<Option<usize>> {
    let Some((response, taken)) = response(input, "GET")? else {
        return Ok(None);
    };
    handshake(party, "", subprotocols)
        .check_response(&response)
        .map_err(|error| anyhow!("{error}"))?;
    *party.stage = 1;
    Ok(Some(taken))
}

/// The length of the answer to a POST, once it is there.
fn posted(input: &[u8]) -> anyhow::Result<Option<usize>> {
    let Some((response, taken)) = response(input, "POST")? else {
        return Ok(None);
    };
    let length = match response.body {
        BodyFraming::Length(length) if length <= UNIT_BYTES_MAX as u64 => length as usize,
        BodyFraming::None => 0,
        _ => bail!("an answer of unknown length"),
    };
    if !(200..300).contains(&response.status) {
        bail!("status {} for a publication", response.status);
    }
    Ok((input.len() >= taken + length).then_some(taken + length))
}

fn response<'a>(input: &'a [u8], method: &str) -> anyhow::Result<Option<(Response<'a>, usize)>> {
    let mut scan = HeadScan::new();
    match Response::decode(input, &mut scan, &HeadLimits::default(), method) {
        Ok(Step::Done { value, consumed }) => Ok(Some((value, consumed))),
        Ok(Step::More { .. }) => Ok(None),
        Err(error) => Err(anyhow!("{error}")),
    }
}

/// Each frame with data is a message.
fn message(input: &mut [u8], out: &mut Vec<u8>) -> anyhow::Result<Option<(usize, Unit)>> {
    Ok(next_frame(input, out)?.map(|(taken, data)| match data {
        Some(payload) => (taken, Unit::Message(payload)),
        None => (taken, Unit::Nothing),
    }))
}

/// The next frame's length, and where its payload is if it has data. Pings are answered.
fn next_frame(
    input: &mut [u8],
    out: &mut Vec<u8>,
) -> anyhow::Result<Option<(usize, Option<Range<usize>>)>> {
    let step =
        Frame::decode(input, Side::Client, UNIT_BYTES_MAX).map_err(|error| anyhow!("{error}"))?;
    let Step::Done { value, consumed } = step else {
        return Ok(None);
    };
    if !value.fin {
        bail!("a fragmented message");
    }
    let data = match value.opcode {
        Opcode::Text | Opcode::Binary => Some(consumed - value.payload.len()..consumed),
        Opcode::Ping => {
            frame::encode(out, true, Opcode::Pong, value.payload, Some(MASK_KEY));
            None
        }
        Opcode::Pong => None,
        Opcode::Close | Opcode::Continuation => {
            bail!("closed: {}", String::from_utf8_lossy(value.payload))
        }
    };
    Ok(Some((consumed, data)))
}
