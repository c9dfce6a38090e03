//! Why a credential is refused: in full for whoever checks a token, as a code for its client, as a word for the log.
//!
//! Invariant: nothing of the credential is in it but what [`Refusal::Claims`] and [`Refusal::Filter`] quote, and these are
//! shown to `crore token check` only.

use std::fmt;
use wire::native::ErrorCode;

/// Why a credential is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Longer than a credential may be.
    TooLong,
    /// Not a token: what of it is wrong.
    Malformed(&'static str),
    /// Signed by nothing that is known here; `none` is such a thing.
    Algorithm,
    /// The header names something that must be understood and is not.
    Critical,
    /// No key of ours fits algorithm and name.
    NoKey,
    /// The signature is not that of a key of ours.
    Signature,
    /// Keys cannot be had, or are about to be fetched.
    KeysMissing,
    /// The claims are not as they should be.
    Claims(String),
    /// `permissions` holds what is no filter.
    Filter(String),
    /// `permissions` holds more filters than it may.
    TooManyFilters,
    /// `exp` is over.
    Expired,
    /// `exp` has to be there.
    NoExpiry,
    /// It holds for longer than tokens may.
    Lifetime,
    /// `nbf` or `iat` lies in the future.
    NotYet,
    /// `iss` is not one of those wanted.
    Issuer,
    /// The key that has signed it is another issuer's.
    KeyIssuer,
    /// `typ` is none of those wanted.
    TokenType,
    /// `aud` has none of those wanted.
    Audience,
    /// It was revoked.
    Revoked,
    /// An API key that is not known.
    UnknownApiKey,
    /// Tokens or API keys are not taken here.
    NotTaken,
}

impl Refusal {
    /// What the client is told.
    pub fn code(&self) -> ErrorCode {
        match self {
            Refusal::Expired => ErrorCode::TokenExpired,
            Refusal::Revoked => ErrorCode::TokenRevoked,
            Refusal::KeysMissing => ErrorCode::NotReady,
            _ => ErrorCode::Unauthorized,
        }
    }

    /// A word for the log, without anything of the credential.
    pub fn word(&self) -> &'static str {
        match self {
            Refusal::TooLong => "too_long",
            Refusal::Malformed(_) => "malformed",
            Refusal::Algorithm => "algorithm",
            Refusal::Critical => "crit",
            Refusal::NoKey => "no_key",
            Refusal::Signature => "signature",
            Refusal::KeysMissing => "keys_missing",
            Refusal::Claims(_) => "claims",
            Refusal::Filter(_) => "filter",
            Refusal::TooManyFilters => "too_many_filters",
            Refusal::Expired => "expired",
            Refusal::NoExpiry => "no_expiry",
            Refusal::Lifetime => "lifetime",
            Refusal::NotYet => "not_yet",
            Refusal::Issuer => "issuer",
            Refusal::KeyIssuer => "key_issuer",
            Refusal::TokenType => "token_type",
            Refusal::Audience => "audience",
            Refusal::Revoked => "revoked",
            Refusal::UnknownApiKey => "unknown_api_key",
            Refusal::NotTaken => "not_taken",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Refusal::Malformed(part) => {
                return write!(formatter, "not a token: {part} is malformed");
            }
            Refusal::Claims(problem) => return write!(formatter, "invalid claims: {problem}"),
            Refusal::Filter(filter) => {
                return write!(formatter, "permissions: {filter:?} is not a topic filter");
            }
            Refusal::TooLong => "the credential is too long",
            Refusal::Algorithm => "the node does not accept this `alg`",
            Refusal::Critical => "the header has `crit` or `b64`, which the node does not support",
            Refusal::NoKey => "no key matches `alg` and `kid`",
            Refusal::Signature => "the signature is not from a key that matches `alg` and `kid`",
            Refusal::KeysMissing => "the keys of the issuer have not been fetched yet",
            Refusal::TooManyFilters => "permissions: too many filters",
            Refusal::Expired => "the token has expired (`exp`)",
            Refusal::NoExpiry => "the token has no `exp`, but must have one",
            Refusal::Lifetime => "`exp` exceeds token_lifetime_max",
            Refusal::NotYet => "the token is not valid yet (`nbf` or `iat`)",
            Refusal::Issuer => "`iss` is not in entitlement.issuers",
            Refusal::KeyIssuer => "`iss` is not the issuer of the signing key",
            Refusal::TokenType => "`typ` of the header is not in entitlement.token_types",
            Refusal::Audience => "`aud` contains none of entitlement.audiences",
            Refusal::Revoked => "the token was revoked",
            Refusal::UnknownApiKey => "not an API key of this node",
            Refusal::NotTaken => "the node does not accept this kind of credential",
        };
        formatter.write_str(text)
    }
}

impl std::error::Error for Refusal {}
