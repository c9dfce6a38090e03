//! Credentials: where a request carries one, and what a connection waits for until its own is known
//! (`edge::flow::credential`).

use super::http::fault::Fault;
use crate::entitlement::{CredentialKind, Digest, Purpose};
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
    /// A session is to continue with a new token.
    Renewal { digest: Digest, request: u32 },
}

impl Credential {
    /// The question that is out.
    pub fn asked(&self) -> Option<(Purpose, Digest)> {
        match *self {
            Credential::Request(digest) => Some((Purpose::Request, digest)),
            Credential::Hello { digest, .. } => Some((Purpose::Hello, digest)),
            Credential::Renewal { digest, request } => Some((Purpose::Renewal { request }, digest)),
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
            Credential::Request(_) | Credential::Hello { .. } | Credential::Renewal { .. } => None,
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
            Credential::Request(_) | Credential::Renewal { .. } | Credential::Decided { .. } => {
                None
            }
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

/// The credential of a request: `Authorization: Bearer`, `X-API-Key`, or `token=` in the query.
/// Other schemes of `Authorization` are not ours; a proxy may have its own.
pub(crate) fn credential_of<'a>(request: &Request<'a>) -> Result<Option<Found<'a>>, Fault> {
    let mut found: Option<Found<'a>> = None;
    let mut count = 0;
    for value in request.fields.all("authorization") {
        if let Some(token) = bearer(value) {
            found = Some((CredentialKind::Token, Cow::Borrowed(token)));
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

/// RFC 6750, section 2.1; the scheme in any case (RFC 9110, section 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer";
    let (scheme, rest) = value.split_at_checked(SCHEME.len())?;
    let is_bearer = scheme.eq_ignore_ascii_case(SCHEME);
    match rest.split_first() {
        None if is_bearer => Some(&[]),
        Some((b' ', token)) if is_bearer => Some(token.trim_ascii()),
        _ => None,
    }
}
