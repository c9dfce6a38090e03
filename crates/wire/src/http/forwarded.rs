//! Who is behind a proxy, as its header fields tell: `X-Forwarded-For`, or `Forwarded` (RFC 7239).
//!
//! Place on the path: line 2. The caller asks only about requests of proxies that it trusts, and of
//! one of the two fields: the proxy sets one and may pass a client's own words on in the other.
//! Invariant: what stands left of the client's address was written by the client, and is never
//! looked at.

use super::head::Fields;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use stdx::handing::Hand;

/// Which field is believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hand)]
pub enum ForwardedField {
    /// `X-Forwarded-For: client, proxy`.
    #[default]
    XForwardedFor,
    /// `Forwarded: for=client, for=proxy`.
    Forwarded,
}

/// The rightmost address that is not of a trusted proxy; if all are, the leftmost. `Ok(None)`: the
/// field is not there.
///
/// # Errors
/// [`UnknownClient`] if something else stands before such an address.
pub fn forwarded_client(
    fields: &Fields<'_>,
    field: ForwardedField,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> Result<Option<IpAddr>, UnknownClient> {
    let name = match field {
        ForwardedField::XForwardedFor => "x-forwarded-for",
        ForwardedField::Forwarded => "forwarded",
    };
    let parse = |element| match field {
        ForwardedField::XForwardedFor => parse_node(element),
        ForwardedField::Forwarded => parse_element(element),
    };
    let lines: Vec<&[u8]> = fields.all(name).collect();
    let mut client = None;
    for line in lines.iter().rev() {
        let mut rest = Some(*line);
        while let Some(list) = rest {
            let element;
            (rest, element) = split_last(list);
            let address = parse(element.trim_ascii()).ok_or(UnknownClient)?;
            client = Some(address);
            if !is_trusted(address) {
                return Ok(client);
            }
        }
    }
    Ok(client)
}

/// A trusted proxy does not say who its client is, or not so that it can be understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownClient;

/// The last element of a list, and what stands before it. Looked at from the right, so that quotes
/// which the client has left open change nothing.
fn split_last(list: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let mut is_quoted = false;
    for (place, byte) in list.iter().enumerate().rev() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => return (Some(&list[..place]), &list[place + 1..]),
            _ => {}
        }
    }
    (None, list)
}

/// Pairs of an element of `Forwarded`; what `for` says.
fn parse_element(element: &[u8]) -> Option<IpAddr> {
    let mut pairs = element.split(|&byte| byte == b';');
    let value = pairs.find_map(|pair| {
        let (name, value) = pair.trim_ascii().split_at_checked(4)?;
        name.eq_ignore_ascii_case(b"for=").then_some(value)
    })?;
    let quoted = value.strip_prefix(b"\"");
    parse_node(match quoted {
        Some(quoted) => quoted.strip_suffix(b"\"")?,
        None => value,
    })
}

/// An address, with or without a port; IPv6 with a port in brackets.
fn parse_node(node: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(node).ok()?;
    let bracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let address = match bracketed {
        Some(text) => IpAddr::V6(text.parse::<Ipv6Addr>().ok()?),
        None => match text.parse::<IpAddr>() {
            Ok(address) => address,
            Err(_) => text.parse::<SocketAddr>().ok()?.ip(),
        },
    };
    Some(address.to_canonical())
}
