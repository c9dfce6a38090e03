//! MQTT 3.1.1 with QoS 0, clean sessions and no keep-alive.
//!
//! Place: a [`Dialect`]. CONNECT, then after its answer SUBSCRIBE; SUBACK says that the
//! subscription holds.

use anyhow::bail;

use super::{Dialect, Party, Role, UNIT_BYTES_MAX, Unit};

/// The protocol of MQTT brokers.
pub struct Mqtt;

impl Dialect for Mqtt {
    fn begin(&mut self, party: &mut Party<'_>, out: &mut Vec<u8>) -> bool {
        let name = format!("c{}", party.number);
        let mut body = b"\x00\x04MQTT\x04\x02\x00\x00".to_vec();
        write_string(&name, &mut body);
        write_packet(0x10, &[&body], out);
        false
    }

    fn next(
        &mut self,
        party: &mut Party<'_>,
        input: &mut [u8],
        out: &mut Vec<u8>,
    ) -> anyhow::Result<Option<(usize, Unit)>> {
        let Some(&kind) = input.first() else {
            return Ok(None);
        };
        let Some((size, start)) = read_length(input)? else {
            return Ok(None);
        };
        let whole = start + size;
        let Some(body) = input.get(start..whole) else {
            return Ok(None);
        };
        let unit = match (kind >> 4, body) {
            (2, [_, 0]) if party.role == Role::Publisher => Unit::Live,
            (2, [_, 0]) => {
                let mut body = vec![0, 1];
                write_string(party.topic, &mut body);
                body.push(0);
                write_packet(0x82, &[&body], out);
                Unit::Nothing
            }
            (9, [0, 1, 0]) => Unit::Live,
            (3, [high, low, ..]) => {
                let payload = start + 2 + usize::from(u16::from_be_bytes([*high, *low]));
                // With another QoS than 0 a packet number would stand before the payload.
                if kind & 0x06 != 0 || payload > whole {
                    bail!("a PUBLISH that was not asked for");
                }
                Unit::Message(payload..whole)
            }
            _ => bail!("packet {kind:#x} {body:?}"),
        };
        Ok(Some((whole, unit)))
    }

    fn publish(&mut self, topic: &str, payload: &[u8], out: &mut Vec<u8>) {
        let mut head = Vec::new();
        write_string(topic, &mut head);
        write_packet(0x30, &[&head, payload], out);
    }
}

/// The remaining length and where it ends; none while it is unfinished.
fn read_length(input: &[u8]) -> anyhow::Result<Option<(usize, usize)>> {
    let mut size = 0;
    for at in 1..=4 {
        let Some(&byte) = input.get(at) else {
            return Ok(None);
        };
        size |= usize::from(byte & 0x7f) << (7 * (at - 1));
        if byte & 0x80 == 0 {
            if size > UNIT_BYTES_MAX {
                bail!("a packet of {size} bytes");
            }
            return Ok(Some((size, at + 1)));
        }
    }
    bail!("a remaining length of more than four bytes")
}

fn write_packet(kind: u8, parts: &[&[u8]], out: &mut Vec<u8>) {
    out.push(kind);
    let mut left: usize = parts.iter().map(|part| part.len()).sum();
    loop {
        let more = if left > 0x7f { 0x80 } else { 0 };
        out.push((left & 0x7f) as u8 | more);
        left >>= 7;
        if more == 0 {
            break;
        }
    }
    for part in parts {
        out.extend_from_slice(part);
    }
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}
