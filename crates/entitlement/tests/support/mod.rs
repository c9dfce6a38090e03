//! Shared parts of the tests: keys of every kind, tokens, and an authenticator.
#![allow(dead_code)] // Each test file uses a part.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use broker::entitlement::{Authenticator, CredentialKind, Decision, Digest};
use entitlement::algorithm::Algorithm;
use entitlement::issue::{PemPair, SigningKey, new_pair};
use entitlement::keys::TokenKey;
use entitlement::notices::Notices;
use entitlement::refusal::Refusal;
use entitlement::revocations::Revocations;
use entitlement::{AuthenticatorSettings, TokenAuthenticator};
use serde_json::{Value, json};

/// The time of the tests.
pub const NOW_S: u64 = 1_800_000_000;
/// A secret of sufficient length.
pub const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// Both halves of a key.
pub struct Pair {
    pub signing: SigningKey,
    pub pem: PemPair,
}

impl Pair {
    pub fn new(algorithm: Algorithm) -> Pair {
        let pem = new_pair(algorithm).unwrap();
        let signing = SigningKey::of_pem(Some(algorithm), pem.private.as_bytes()).unwrap();
        Pair { signing, pem }
    }

    pub fn key(&self, id: Option<&str>) -> TokenKey {
        let algorithm = self.signing.algorithm();
        TokenKey::of_public_pem(id, algorithm, self.pem.public.as_bytes()).unwrap()
    }

    pub fn token(&self, id: Option<&str>) -> String {
        self.signing.token(id, &claims()).unwrap()
    }
}

/// Claims that are valid at [`NOW_S`].
pub fn claims() -> Value {
    json!({"sub": "anna", "exp": NOW_S + 60, "iat": NOW_S, "jti": "t1", "permissions": {"all": ["a/#"]}})
}

pub fn hmac() -> SigningKey {
    SigningKey::of_secret(Algorithm::HS256, SECRET).unwrap()
}

pub fn hmac_key() -> TokenKey {
    TokenKey::of_secret(None, Algorithm::HS256, SECRET).unwrap()
}

pub fn authenticator(keys: Vec<TokenKey>) -> TokenAuthenticator {
    authenticator_of(AuthenticatorSettings { token_keys: keys, ..AuthenticatorSettings::default() })
}

pub fn authenticator_of(settings: AuthenticatorSettings) -> TokenAuthenticator {
    let (notices, _) = Notices::new();
    TokenAuthenticator::new(settings, Revocations::default(), 1_000, None, notices)
}

/// Builds a token from these parts; the signature covers the first two.
pub fn token_of(header: &str, claims: &str, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = sign(message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

pub fn refusal(authenticator: &TokenAuthenticator, token: &str) -> Option<Refusal> {
    let verdict = authenticator.explain(CredentialKind::Token, token.as_bytes(), NOW_S);
    verdict.err()
}

pub fn authenticated(authenticator: &TokenAuthenticator, token: &str) -> Decision {
    let digest = Digest::of(CredentialKind::Token, token.as_bytes());
    authenticator.authenticate(CredentialKind::Token, token.as_bytes(), digest, NOW_S)
}
