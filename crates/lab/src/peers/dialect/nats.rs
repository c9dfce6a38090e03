//! The NATS client protocol: lines of text, and payloads of a stated length.
//!
//! Place: a [`Dialect`]. As clients of NATS do, it waits for INFO, then sends CONNECT, the
//! subscription and a PING at once; the PONG says that the subscription holds.

use anyhow::{Context, bail};

use super::{Dialect, Party, Role, UNIT_BYTES_MAX, Unit, find};

/// The protocol of nats-server.
pub struct Nats;

impl Dialect for Nats {
    fn begin(&mut self, _: &mut Party<'_>, _: &mut Vec<u8>) -> bool {
        false
    }

    fn next(
        &mut self,
        party: &mut Party<'_>,
        input: &mut [u8],
        out: &mut Vec<u8>,
    ) -> anyhow::Result<Option<(usize, Unit)>> {
        let Some(end) = find(input, b"\r\n") else {
            return Ok(None);
        };
        let line = std::str::from_utf8(&input[..end])?;
        let taken = end + 2;
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let unit = match verb {
            "MSG" => {
                let size = rest.rsplit(' ').next().unwrap_or_default();
                let size: usize = size.parse().with_context(|| line.to_owned())?;
                if size > UNIT_BYTES_MAX {
                    bail!("{line}");
                }
                let whole = taken + size + 2;
                return Ok(
                    (input.len() >= whole).then(|| (whole, Unit::Message(taken..taken + size)))
                );
            }
            "INFO" if *party.stage == 0 => {
                *party.stage = 1;
                out.extend_from_slice(b"CONNECT {\"verbose\":false,\"pedantic\":false}\r\n");
                if party.role == Role::Subscriber {
                    out.extend_from_slice(format!("SUB {} 1\r\n", party.topic).as_bytes());
                }
                out.extend_from_slice(b"PING\r\n");
                Unit::Nothing
            }
            "PONG" => Unit::Live,
            "PING" => {
                out.extend_from_slice(b"PONG\r\n");
                Unit::Nothing
            }
            "INFO" | "+OK" => Unit::Nothing,
            _ => bail!("{line}"),
        };
        Ok(Some((taken, unit)))
    }

    fn publish(&mut self, topic: &str, payload: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(format!("PUB {topic} {}\r\n", payload.len()).as_bytes());
        out.extend_from_slice(payload);
        out.extend_from_slice(b"\r\n");
    }
}
