//! Credentials: where a request carries one, and what a connection waits for until its own is known
//! (`edge::flow::credential`).

use super::http::fault::Fault;
use crate::entitlement::{CredentialKind, Digest, Purpose, password_credential};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;
use stdx::handing::Hand;
use wire::http::Target;
use wire::http::request::Request;
use wire::native::{CloseCode, ErrorCode};

/// The state of a credential: waiting for a decision, or with one.
#[derive(Hand)]
pub(crate) enum Credential {
    /// The head of an HTTP request waits in the input.
    Request(Digest),
    /// The decision on the credential of a waiting head: an entry, which this holds, or the code of
    /// the refusal.
    Decided { digest: Digest, decision: Result<u32, ErrorCode> },
    /// HELLO waits; its bytes.
    Hello { digest: Digest, frame: Box<[u8]> },
    /// HELLO waits until the entitlement of its ticket has been examined, whose entry this holds.
    Ticket { at: u32, frame: Box<[u8]> },
    /// HELLO waits until its user may have one more connection; the entry, which this holds.
    User { at: u32, frame: Box<[u8]> },
}

impl Credential {
    /// The question that is out.
    pub fn asked(&self) -> Option<(Purpose, Digest)> {
        match *self {
            Credential::Request(digest) => Some((Purpose::Request, digest)),
            Credential::Hello { digest, .. } => Some((Purpose::Hello, digest)),
            Credential::Decided { .. } | Credential::Ticket { .. } | Credential::User { .. } => {
                None
            }
        }
    }

    /// The entry that it holds.
    pub fn held(&self) -> Option<u32> {
        match *self {
            Credential::Decided { decision, .. } => decision.ok(),
            Credential::Ticket { at, .. } | Credential::User { at, .. } => Some(at),
            Credential::Request(_) | Credential::Hello { .. } => None,
        }
    }

    /// Whether it may wait for its user to have room.
    pub fn waits_for_user(&self) -> bool {
        matches!(self, Credential::Decided { decision: Ok(_), .. } | Credential::User { .. })
    }

    /// The entry of a ticket that is to be examined.
    pub fn of_ticket(&self) -> Option<u32> {
        if let Credential::Ticket { at, .. } = *self { Some(at) } else { None }
    }

    /// Bytes of the frame that waits.
    pub fn buffered_bytes(&self) -> Option<usize> {
        match self {
            Credential::Hello { frame, .. }
            | Credential::Ticket { frame, .. }
            | Credential::User { frame, .. } => Some(frame.len()),
            Credential::Request(_) | Credential::Decided { .. } => None,
        }
    }
}

/// The result of checking an HTTP request's credential.
pub(crate) enum Entry {
    /// The request continues with its connection's current entitlement.
    Open,
    /// A question is out; the head waits.
    Waits,
    /// The request is refused.
    Refused(Fault),
}

/// The close code of a session whose credential is refused, or has ended.
pub(crate) fn close_of(code: ErrorCode) -> CloseCode {
    const CODES: [(ErrorCode, CloseCode); 5] = [
        (ErrorCode::TokenExpired, CloseCode::TokenExpired),
        (ErrorCode::TokenRevoked, CloseCode::Revoked),
        (ErrorCode::TooManyConnections, CloseCode::TooManyConnections),
        (ErrorCode::NotReady, CloseCode::Overloaded),
        (ErrorCode::Overloaded, CloseCode::Overloaded),
    ];
    let found = CODES.iter().find(|(error, _)| *error == code);
    found.map_or(CloseCode::Unauthorized, |(_, close)| *close)
}

/// A credential, and what kind it is.
type Found<'a> = (CredentialKind, Cow<'a, [u8]>);

/// The credential of a request: `Authorization: Bearer`, `X-API-Key`, or `token=` in the query; on
/// a node with users that have passwords `Authorization: Basic`, too. Other schemes of
/// `Authorization` are not ours; a proxy may have its own.
pub(crate) fn credential_of<'a>(
    request: &Request<'a>,
    takes_passwords: bool,
) -> Result<Option<Found<'a>>, Fault> {
    let mut found: Option<Found<'a>> = None;
    let mut count = 0;
    for value in request.fields.all("authorization") {
        if let Some(token) = of_scheme(value, b"bearer") {
            found = Some((CredentialKind::Token, Cow::Borrowed(token)));
            count += 1;
        }
        if takes_passwords && let Some(encoded) = of_scheme(value, b"basic") {
            // A malformed value becomes an empty credential, which is refused.
            let joined = basic(encoded).unwrap_or_default();
            found = Some((CredentialKind::Password, Cow::Owned(joined)));
            count += 1;
        }
    }
    for key in request.fields.all("x-api-key") {
        found = Some((CredentialKind::ApiKey, Cow::Borrowed(key)));
        count += 1;
    }
    if let Ok(target) = Target::parse(request.target) {
        for (key, value) in target.query_pairs().flatten() {
            if key == "token" {
                let token = value.into_owned().into_bytes();
                found = Some((CredentialKind::Token, Cow::Owned(token)));
                count += 1;
            }
        }
    }
    match count {
        0 | 1 => Ok(found),
        _ => Err(Fault::several_credentials()),
    }
}

/// The text after a scheme, which may be in any case (RFC 9110, section 11.1; RFC 6750, section
/// 2.1).
fn of_scheme<'a>(value: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    let (scheme, rest) = value.split_at_checked(wanted.len())?;
    let is_wanted = scheme.eq_ignore_ascii_case(wanted);
    match rest.split_first() {
        None if is_wanted => Some(&[]),
        Some((b' ', credential)) if is_wanted => Some(credential.trim_ascii()),
        _ => None,
    }
}

/// Name and password as one credential (RFC 7617, section 2).
fn basic(encoded: &[u8]) -> Option<Vec<u8>> {
    let pair = STANDARD.decode(encoded).ok()?;
    let at = pair.iter().position(|byte| *byte == b':')?;
    password_credential(&pair[..at], &pair[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_credentials_are_a_name_and_a_password() {
        for (value, expected) in [
            (&b"Basic YW5uYTpzZWNyZXQ="[..], Some(&b"anna\0secret"[..])),
            (b"basic  YW5uYTpzOmM=", Some(b"anna\0s:c")),
            (b"Basic YW5uYTo=", Some(b"anna\0")),
            // No colon, no name, no base64, nothing.
            (b"Basic YW5uYQ==", None),
            (b"Basic OnNlY3JldA==", None),
            (b"Basic ???", None),
            (b"Basic", None),
        ] {
            let found = of_scheme(value, b"basic").and_then(basic);
            assert_eq!(found.as_deref(), expected);
        }
        assert_eq!(of_scheme(b"Basically YW5uYTo=", b"basic"), None);
    }
}
