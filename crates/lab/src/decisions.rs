//! Measures a decision on one core, by algorithm: for a token with a cached signature, and for one
//! with a computed signature.
//!
//! Each figure is the least of five rounds: a disturbance can only add.

use broker::entitlement::{Authenticator, CredentialKind, Digest};
use entitlement::algorithm::{Algorithm, Family};
use entitlement::issue::{SigningKey, new_pair, new_secret};
use entitlement::keys::TokenKey;
use entitlement::notices::Notices;
use entitlement::revocations::Revocations;
use entitlement::{AuthenticatorSettings, TokenAuthenticator};
use serde_json::json;
use std::time::Instant;

const NOW_S: u64 = 1_800_000_000;
const ROUNDS: usize = 5;
const TOKENS: usize = 2_000;

/// Measures every algorithm.
pub fn run() {
    println!("algorithm   known ns   computed ns   ratio");
    for algorithm in Algorithm::ALL {
        let (signing, key) = keys(algorithm);
        let tokens: Vec<String> = (0..TOKENS).map(|number| token(&signing, number)).collect();
        let known = least_ns(&authenticator(key.clone(), 10 * TOKENS), &tokens, true);
        let computed = least_ns(&authenticator(key, 0), &tokens, false);
        println!(
            "{:<11} {known:>8}   {computed:>11}   {:>5.1}",
            algorithm.name(),
            computed as f64 / known as f64
        );
    }
}

fn keys(algorithm: Algorithm) -> (SigningKey, TokenKey) {
    if algorithm.family() == Family::Hmac {
        let secret = new_secret(64).expect("randomness");
        let signing = SigningKey::of_secret(algorithm, &secret).expect("a secret");
        let key = TokenKey::of_secret(None, algorithm, &secret).expect("a secret");
        return (signing, key);
    }
    let pair = new_pair(algorithm).expect("randomness");
    let signing = SigningKey::of_pem(Some(algorithm), pair.private.as_bytes()).expect("a key");
    let key = TokenKey::of_public_pem(None, algorithm, pair.public.as_bytes()).expect("a key");
    (signing, key)
}

/// A token like those of an issuer: a subject and an ID of its own, and common permissions.
fn token(signing: &SigningKey, number: usize) -> String {
    let claims = json!({
        "sub": format!("user-{number}"), "jti": format!("{number:032x}"), "iss": "https://id.example.com",
        "aud": "crore", "iat": NOW_S, "exp": NOW_S + 3_600,
        "permissions": {"subscribe": ["news/#", "user/{sub}/#"], "publish": ["user/{sub}/out"]},
    });
    signing.token(Some("2026-01"), &claims).expect("randomness")
}

fn authenticator(key: TokenKey, verified_max: usize) -> TokenAuthenticator {
    let (notices, _) = Notices::new();
    let settings =
        AuthenticatorSettings { token_keys: vec![key], ..AuthenticatorSettings::default() };
    TokenAuthenticator::new(settings, Revocations::default(), verified_max, None, notices)
}

/// The minimum time of a decision in nanoseconds, digest included.
fn least_ns(authenticator: &TokenAuthenticator, tokens: &[String], warm: bool) -> u128 {
    let all = || {
        for token in tokens {
            let digest = Digest::of(CredentialKind::Token, token.as_bytes());
            let authenticated =
                authenticator.authenticate(CredentialKind::Token, token.as_bytes(), digest, NOW_S);
            assert!(authenticated.result.is_ok());
        }
    };
    if warm {
        all();
    }
    let rounds = (0..ROUNDS).map(|_| {
        let began = Instant::now();
        all();
        began.elapsed().as_nanos() / tokens.len() as u128
    });
    rounds.min().unwrap_or(0)
}
