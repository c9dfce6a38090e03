//! The client's address behind a proxy, from the header fields `X-Forwarded-For` or `Forwarded`
//! (RFC 7239).
//!
//! Place on the path: step 2. The caller uses it only for requests from trusted proxies, and for
//! one of the two fields: the proxy sets one and may pass the other on from the client unchanged.
//! Invariant: elements left of the client's address were written by the client, and are never
//! examined.

use super::head::Fields;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use stdx::handing::Hand;

/// The trusted field.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hand)]
pub enum ForwardedField {
    /// `X-Forwarded-For: client, proxy`.
    #[default]
    XForwardedFor,
    /// `Forwarded: for=client, for=proxy`.
    Forwarded,
}

/// The rightmost address that does not belong to a trusted proxy; if all do, the leftmost.
/// `Ok(None)` if the field is absent.
///
/// # Errors
/// [`UnknownClient`] if an invalid element stands before such an address.
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

/// A trusted proxy names no client, or in an invalid form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownClient;

/// Splits the last element off a list. The search runs from the right, so that a quote left open by
/// the client has no effect.
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

/// Parses the pairs of an element of `Forwarded` and returns the address in `for`.
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

/// Parses an address, with or without a port; IPv6 with a port is in brackets.
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
