//! The header that a proxy sends before the client's bytes, with the client's address (HAProxy's
//! PROXY protocol, versions 1 and 2).
//!
//! Place on the path: before TLS and before any byte of a client. The caller trusts the header only
//! if it trusts the peer.
//!
//! Invariants: a header is bounded, whatever length it announces ([`HEADER_BYTES_MAX`]); a
//! checksum, if present, is correct; unknown content is an error, never a guess.

use crate::codec::Step;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The maximum length of a header of version 1, with its line end.
pub const LINE_BYTES_MAX: usize = 107;
/// The maximum length of an accepted header of version 2: the longest addresses, and 536 bytes of
/// further fields.
pub const HEADER_BYTES_MAX: usize = FIXED_BYTES + UNIX_BYTES + 536;

const LINE_START: &[u8] = b"PROXY ";
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// The fixed part of version 2: signature, command, family and length.
const FIXED_BYTES: usize = 16;
const INET_BYTES: usize = 12;
const INET6_BYTES: usize = 36;
const UNIX_BYTES: usize = 216;
/// The type of the field that holds a checksum, and its length.
const CHECKSUM_TYPE: u8 = 3;
const CHECKSUM_BYTES: usize = 4;

/// The content of a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Announced {
    /// The proxy itself connects (a health check).
    Local,
    /// The proxy does not know the client's address, or uses an unknown family.
    Unknown,
    /// The client connected over a Unix socket of the proxy's machine.
    Unix,
    /// The client connected over TCP.
    Tcp {
        /// The client's address.
        source: SocketAddr,
        /// The address that the client connected to.
        target: SocketAddr,
    },
}

/// The reason why a header is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProxyError {
    /// The bytes match neither version.
    NotProxy,
    /// The header exceeds [`LINE_BYTES_MAX`] or [`HEADER_BYTES_MAX`].
    TooLong,
    /// The line is not valid in version 1.
    BadLine,
    /// The version, command, family or transport is unknown, or not a stream.
    BadKind,
    /// The addresses or fields do not match the length.
    BadLength,
    /// The checksum is wrong.
    BadChecksum,
}

impl fmt::Display for ProxyError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            ProxyError::NotProxy => "no header of the PROXY protocol",
            ProxyError::TooLong => "a header that is too long",
            ProxyError::BadLine => "a malformed line",
            ProxyError::BadKind => "an unknown version, command, family or transport",
            ProxyError::BadLength => "addresses or fields that do not fit their length",
            ProxyError::BadChecksum => "a wrong checksum",
        })
    }
}

impl std::error::Error for ProxyError {}

/// Decodes a header of either version from the front of `input`.
///
/// # Errors
/// [`ProxyError`]: the caller closes the connection without an answer.
pub fn decode(input: &[u8]) -> Result<Step<Announced>, ProxyError> {
    if starts_like(input, LINE_START) {
        decode_line(input)
    } else if starts_like(input, SIGNATURE) {
        decode_binary(input)
    } else {
        Err(ProxyError::NotProxy)
    }
}

/// Whether one of `input` and `start` is a prefix of the other.
fn starts_like(input: &[u8], start: &[u8]) -> bool {
    let len = input.len().min(start.len());
    input[..len] == start[..len]
}

fn decode_line(input: &[u8]) -> Result<Step<Announced>, ProxyError> {
    let front = &input[..input.len().min(LINE_BYTES_MAX)];
    let Some(end) = front.iter().position(|&byte| byte == b'\n') else {
        return if front.len() == LINE_BYTES_MAX {
            Err(ProxyError::TooLong)
        } else {
            Ok(Step::More { needed: input.len() + 1 })
        };
    };
    let line = front[..end].strip_suffix(b"\r");
    let line = line.and_then(|line| std::str::from_utf8(line).ok());
    let value = line.and_then(parse_line).ok_or(ProxyError::BadLine)?;
    Ok(Step::Done { value, consumed: end + 1 })
}

fn parse_line(line: &str) -> Option<Announced> {
    let mut words = line.split(' ');
    if words.next() != Some("PROXY") {
        return None;
    }
    let family = words.next()?;
    if family == "UNKNOWN" {
        // The rest must be ignored.
        return Some(Announced::Unknown);
    }
    let mut address = || -> Option<IpAddr> {
        let word = words.next()?;
        match family {
            "TCP4" => word.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
            "TCP6" => word.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
            _ => None,
        }
    };
    let (source, target) = (address()?, address()?);
    let (source_port, target_port) = (port(words.next()?)?, port(words.next()?)?);
    if words.next().is_some() {
        return None;
    }
    Some(Announced::Tcp {
        source: SocketAddr::new(source, source_port),
        target: SocketAddr::new(target, target_port),
    })
}

/// Parses a decimal port, without a sign and without leading zeros.
fn port(word: &str) -> Option<u16> {
    let is_decimal = word.bytes().all(|byte| byte.is_ascii_digit());
    let is_short = word == "0" || !word.starts_with('0');
    (is_decimal && is_short).then(|| word.parse().ok()).flatten()
}

fn decode_binary(input: &[u8]) -> Result<Step<Announced>, ProxyError> {
    let Some(fixed) = input.first_chunk::<FIXED_BYTES>() else {
        return Ok(Step::More { needed: FIXED_BYTES });
    };
    let rest_bytes = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    let bytes = FIXED_BYTES + rest_bytes;
    if bytes > HEADER_BYTES_MAX {
        return Err(ProxyError::TooLong);
    }
    let is_local = match fixed[12] {
        0x20 => true,
        0x21 => false,
        _ => return Err(ProxyError::BadKind),
    };
    let (family, transport) = (fixed[13] >> 4, fixed[13] & 0xf);
    if family > 3 || transport > 2 {
        return Err(ProxyError::BadKind);
    }
    let Some(header) = input.get(..bytes) else {
        return Ok(Step::More { needed: bytes });
    };
    let value = if is_local { Announced::Local } else { parse_block(header, family, transport)? };
    Ok(Step::Done { value, consumed: bytes })
}

fn parse_block(header: &[u8], family: u8, transport: u8) -> Result<Announced, ProxyError> {
    let block = &header[FIXED_BYTES..];
    let (announced, address_bytes) = match (family, transport) {
        (0, _) | (_, 0) => (Announced::Unknown, address_bytes(family)),
        // Datagrams do not arrive over a stream.
        (_, 2) => return Err(ProxyError::BadKind),
        (1, _) => (parse_inet(block)?, INET_BYTES),
        (2, _) => (parse_inet6(block)?, INET6_BYTES),
        _ => (Announced::Unix, UNIX_BYTES),
    };
    let fields = block.get(address_bytes..).ok_or(ProxyError::BadLength)?;
    check_fields(header, fields)?;
    Ok(announced)
}

fn address_bytes(family: u8) -> usize {
    match family {
        1 => INET_BYTES,
        2 => INET6_BYTES,
        3 => UNIX_BYTES,
        _ => 0,
    }
}

fn parse_inet(block: &[u8]) -> Result<Announced, ProxyError> {
    let block: &[u8; INET_BYTES] = block.first_chunk().ok_or(ProxyError::BadLength)?;
    let [a, b, c, d, e, f, g, h, ports @ ..] = *block;
    Ok(tcp([a, b, c, d].into(), [e, f, g, h].into(), ports))
}

fn parse_inet6(block: &[u8]) -> Result<Announced, ProxyError> {
    let (source, rest) = block.split_first_chunk::<16>().ok_or(ProxyError::BadLength)?;
    let (target, rest) = rest.split_first_chunk::<16>().ok_or(ProxyError::BadLength)?;
    let ports = rest.first_chunk::<4>().ok_or(ProxyError::BadLength)?;
    Ok(tcp((*source).into(), (*target).into(), *ports))
}

fn tcp(source: IpAddr, target: IpAddr, [a, b, c, d]: [u8; 4]) -> Announced {
    Announced::Tcp {
        source: SocketAddr::new(source, u16::from_be_bytes([a, b])),
        target: SocketAddr::new(target, u16::from_be_bytes([c, d])),
    }
}

/// Checks that fields (type, length, value) fill the rest exactly, and that a checksum matches the
/// whole header, with its own bytes as zeros.
fn check_fields(header: &[u8], fields: &[u8]) -> Result<(), ProxyError> {
    let mut rest = fields;
    while let [kind, high, low, after @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        if len > after.len() {
            return Err(ProxyError::BadLength);
        }
        let (value, next) = after.split_at(len);
        if *kind == CHECKSUM_TYPE {
            let told: [u8; CHECKSUM_BYTES] = value.try_into().map_err(|_| ProxyError::BadLength)?;
            let place = header.len() - after.len();
            let (front, back) = (&header[..place], &header[place + CHECKSUM_BYTES..]);
            if crc32c(&[front, &[0; CHECKSUM_BYTES], back]) != u32::from_be_bytes(told) {
                return Err(ProxyError::BadChecksum);
            }
        }
        rest = next;
    }
    match rest {
        [] => Ok(()),
        _ => Err(ProxyError::BadLength),
    }
}

/// Appends a header of version 1.
pub fn encode_line(out: &mut Vec<u8>, announced: &Announced) {
    let text = match announced {
        Announced::Tcp { source, target } if source.is_ipv4() == target.is_ipv4() => format!(
            "PROXY {} {} {} {} {}\r\n",
            if source.is_ipv4() { "TCP4" } else { "TCP6" },
            source.ip(),
            target.ip(),
            source.port(),
            target.port()
        ),
        _ => "PROXY UNKNOWN\r\n".into(),
    };
    out.extend_from_slice(text.as_bytes());
}

/// Appends a header of version 2, optionally with a checksum. Paths of sockets are left empty.
pub fn encode_binary(out: &mut Vec<u8>, announced: &Announced, with_checksum: bool) {
    let start = out.len();
    out.extend_from_slice(SIGNATURE);
    let (command, kind) = match announced {
        Announced::Local => (0x20, 0x00),
        Announced::Tcp { source, target } if source.is_ipv4() && target.is_ipv4() => (0x21, 0x11),
        Announced::Tcp { .. } => (0x21, 0x21),
        Announced::Unix => (0x21, 0x31),
        Announced::Unknown => (0x21, 0x00),
    };
    out.extend_from_slice(&[command, kind, 0, 0]);
    match announced {
        Announced::Tcp { source, target } => {
            for address in [source, target] {
                match (kind, address.ip()) {
                    (0x11, IpAddr::V4(ip)) => out.extend_from_slice(&ip.octets()),
                    (_, IpAddr::V4(ip)) => out.extend_from_slice(&ip.to_ipv6_mapped().octets()),
                    (_, IpAddr::V6(ip)) => out.extend_from_slice(&ip.octets()),
                }
            }
            out.extend_from_slice(&source.port().to_be_bytes());
            out.extend_from_slice(&target.port().to_be_bytes());
        }
        Announced::Unix => out.extend_from_slice(&[0; UNIX_BYTES]),
        Announced::Local | Announced::Unknown => {}
    }
    if with_checksum {
        out.extend_from_slice(&[CHECKSUM_TYPE, 0, CHECKSUM_BYTES as u8, 0, 0, 0, 0]);
    }
    // The rest is bounded: addresses and one field.
    let rest_bytes = (out.len() - start - FIXED_BYTES) as u16;
    out[start + 14..start + FIXED_BYTES].copy_from_slice(&rest_bytes.to_be_bytes());
    if with_checksum {
        let checksum = crc32c(&[&out[start..]]);
        let place = out.len() - CHECKSUM_BYTES;
        out[place..].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// CRC-32C of consecutive parts. A header is short and occurs once per connection.
fn crc32c(parts: &[&[u8]]) -> u32 {
    let bytes = parts.iter().copied().flatten();
    !bytes.fold(u32::MAX, |sum, byte| sum >> 8 ^ TABLE[usize::from(sum as u8 ^ byte)])
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut place = 0;
    while place < table.len() {
        let mut sum = place as u32;
        let mut bits = 0;
        while bits < 8 {
            sum = sum >> 1 ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 };
            bits += 1;
        }
        table[place] = sum;
        place += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32c_agrees_with_the_catalogue() {
        assert_eq!(crc32c(&[b"1234", b"56789"]), 0xe306_9283);
        assert_eq!(crc32c(&[&[0; 32]]), 0x8a91_36aa);
    }
}
