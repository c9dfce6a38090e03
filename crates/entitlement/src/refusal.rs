//! The reason of a refused credential: in full for the check of a token, as a code for the client,
//! as a word for the log.
//!
//! Invariant: it contains nothing of the credential except the quotes of [`Refusal::Claims`] and
//! [`Refusal::Filter`], which only `crore token check` shows.

use std::fmt;
use wire::native::ErrorCode;

/// The reason of a refused credential.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The credential is too long.
    TooLong,
    /// Not a token; the malformed part.
    Malformed(&'static str),
    /// Unsupported signature algorithm, such as `none`.
    Algorithm,
    /// The header has a mandatory extension that is not supported.
    Critical,
    /// No key matches the algorithm and key ID.
    NoKey,
    /// No known key has made the signature.
    Signature,
    /// Keys are unavailable, or about to be fetched.
    KeysMissing,
    /// The node has not heard of the other nodes' revocations for too long.
    RevocationsMissing,
    /// The claims are invalid.
    Claims(String),
    /// `permissions` has an invalid filter.
    Filter(String),
    /// `permissions` has too many filters.
    TooManyFilters,
    /// `exp` has passed.
    Expired,
    /// `exp` is missing but required.
    NoExpiry,
    /// The lifetime exceeds the maximum.
    Lifetime,
    /// `nbf` or `iat` is in the future.
    NotYet,
    /// `iss` is not a permitted value.
    Issuer,
    /// The signing key belongs to another issuer.
    KeyIssuer,
    /// `typ` is not a permitted value.
    TokenType,
    /// `aud` contains no permitted value.
    Audience,
    /// The token was revoked.
    Revoked,
    /// The API key is unknown.
    UnknownApiKey,
    /// The user is unknown, or the password is wrong.
    Password,
    /// The node does not accept this kind of credential.
    NotTaken,
}

impl Refusal {
    /// The error code for the client.
    pub fn code(&self) -> ErrorCode {
        match self {
            Refusal::Expired => ErrorCode::TokenExpired,
            Refusal::Revoked => ErrorCode::TokenRevoked,
            Refusal::KeysMissing | Refusal::RevocationsMissing => ErrorCode::NotReady,
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
            Refusal::RevocationsMissing => "revocations_missing",
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
            Refusal::Password => "password",
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
            Refusal::RevocationsMissing => {
                "the node has not heard of the other nodes' revocations for too long"
            }
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
            Refusal::Password => "the user is unknown, or the password is wrong",
            Refusal::NotTaken => "the node does not accept this kind of credential",
        };
        formatter.write_str(text)
    }
}

impl std::error::Error for Refusal {}
