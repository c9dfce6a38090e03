//! The authenticator as an I/O thread uses it: signatures are cached, revoked tokens end, and
//! changed settings take effect.

mod support;

use broker::entitlement::{
    Action, Authenticator, CredentialKind, Digest, EntitlementLimits, NEVER, Permissions,
};
use broker::topic::Filter;
use entitlement::algorithm::Algorithm;
use entitlement::api_keys::{ApiKey, new_api_key, sha256};
use entitlement::claims::TokenRules;
use entitlement::keys::{KeySet, TokenKey, Tried};
use entitlement::refusal::Refusal;
use entitlement::revocations::Revoked;
use entitlement::revoking::{RevokeError, Wanted};
use entitlement::{AuthenticatorSettings, TokenAuthenticator};
use std::sync::Arc;
use support::{
    NOW_S, Pair, SECRET, authenticated, authenticator, authenticator_of, claims, hmac, hmac_key,
    refusal, token_of,
};
use wire::native::ErrorCode;

#[test]
fn a_signature_is_computed_once() {
    let authenticator = authenticator(vec![hmac_key()]);
    let token = hmac().token(None, &claims()).unwrap();
    let first = authenticated(&authenticator, &token);
    let again = authenticated(&authenticator, &token);
    assert_eq!((first.signatures_count, again.signatures_count), (1, 0));
    let (first, again) = (first.result.unwrap(), again.result.unwrap());
    assert_eq!(first, again);
    assert!(Arc::ptr_eq(&first.terms, &again.terms));
    assert_eq!((&*first.subject, first.expires_s), ("anna", NOW_S as u32 + 60));
    let wanted = Filter::parse("a/b").unwrap();
    assert!(first.permits(Action::Publish, wanted) && first.permits(Action::History, wanted));
    assert_eq!(first.terms.limits, EntitlementLimits::default());
    // Forged tokens are computed each time, and never cached.
    let forged = format!("{}AAAA", &token[..token.len() - 4]);
    for _ in 0..2 {
        let refused = authenticated(&authenticator, &forged);
        assert_eq!(refused.signatures_count, 1);
        assert_eq!(refused.result, Err(ErrorCode::Unauthorized));
    }
    let statistics = authenticator.statistics();
    assert_eq!((statistics.accepted, statistics.unauthorized), (2, 2));
    assert_eq!((statistics.signatures, statistics.cache_hits), (3, 1));
    assert_eq!(statistics.verified_tokens, 1);
}

#[test]
fn cached_tokens_expire() {
    let authenticator = authenticator(vec![hmac_key()]);
    let token = hmac().token(None, &claims()).unwrap();
    assert!(authenticated(&authenticator, &token).result.is_ok());
    let digest = Digest::of(CredentialKind::Token, token.as_bytes());
    let later =
        authenticator.authenticate(CredentialKind::Token, token.as_bytes(), digest, NOW_S + 60);
    assert_eq!(later.signatures_count, 0);
    assert_eq!(later.result, Err(ErrorCode::TokenExpired));
}

#[test]
fn a_removed_key_verifies_nothing() {
    let old = Pair::new(Algorithm::EdDSA);
    let new = Pair::new(Algorithm::EdDSA);
    let authenticator = authenticator(vec![old.key(Some("old")), new.key(Some("new"))]);
    let (by_old, by_new) = (old.token(Some("old")), new.token(Some("new")));
    for token in [&by_old, &by_new] {
        assert!(authenticated(&authenticator, token).result.is_ok());
    }
    authenticator.replace(AuthenticatorSettings {
        token_keys: vec![new.key(Some("new"))],
        ..AuthenticatorSettings::default()
    });
    assert_eq!(authenticated(&authenticator, &by_old).result, Err(ErrorCode::Unauthorized));
    // The other key and its tokens remain valid.
    let again = authenticated(&authenticator, &by_new);
    assert!(again.result.is_ok() && again.signatures_count == 0);
    // An ID that moved to another key means another key.
    authenticator.replace(AuthenticatorSettings {
        token_keys: vec![old.key(Some("new"))],
        ..AuthenticatorSettings::default()
    });
    assert!(authenticated(&authenticator, &by_new).result.is_err());
}

#[test]
fn the_number_of_tried_keys_is_bounded() {
    let secrets: Vec<[u8; 32]> = (0..9).map(|number| [number; 32]).collect();
    let keys =
        secrets.iter().map(|secret| TokenKey::of_secret(None, Algorithm::HS256, secret).unwrap());
    let set = KeySet::succeed(&KeySet::default(), keys);
    let tried = |number: usize| {
        let key = entitlement::issue::SigningKey::of_secret(Algorithm::HS256, &secrets[number]);
        let token = key.unwrap().token(None, &claims()).unwrap();
        let (message, signature) = token.rsplit_once('.').unwrap();
        set.verify(Algorithm::HS256, None, message.as_bytes(), signature)
    };
    let of = |verified, keys_count| Tried { verified, keys_count };
    assert_eq!(tried(3), of(Some(4), 4));
    assert_eq!(tried(4), of(None, 4));
}

#[test]
fn each_tried_key_costs_a_signature() {
    let pairs = [0; 4].map(|_| Pair::new(Algorithm::RS256));
    let authenticator = authenticator(pairs.iter().map(|pair| pair.key(None)).collect());
    let forged = Pair::new(Algorithm::RS256).token(None);
    let refused = authenticated(&authenticator, &forged);
    assert_eq!(refused.result, Err(ErrorCode::Unauthorized));
    assert_eq!(refused.signatures_count, 4);
    assert_eq!(authenticator.statistics().signatures, 4);
    // The third key has signed this token.
    assert_eq!(authenticated(&authenticator, &pairs[2].token(None)).signatures_count, 3);
}

#[test]
fn tokens_of_a_revoked_key_are_invalid() {
    let (old, new) = (Pair::new(Algorithm::EdDSA), Pair::new(Algorithm::EdDSA));
    let authenticator = authenticator(vec![old.key(Some("old")), new.key(None)]);
    let by_old = authenticated(&authenticator, &old.token(Some("old"))).result.unwrap();
    let by_new = authenticated(&authenticator, &new.token(None)).result.unwrap();
    assert_eq!(&*by_old.terms.signer.key_id, "old");
    // The key is removed first: only its tokens remain.
    authenticator.replace(AuthenticatorSettings {
        token_keys: vec![new.key(None)],
        ..AuthenticatorSettings::default()
    });
    let revoke = |name: &str| {
        let wanted =
            Wanted { revoked: Revoked::Key(name.into()), issued_before_s: None, ends_s: None };
        authenticator.revoke(None, wanted, NOW_S).unwrap()
    };
    let revocation = revoke("old");
    assert_eq!((revocation.issued_before_s, revocation.ends_s), (0, NEVER));
    assert!(authenticator.is_revoked(&by_old) && !authenticator.is_revoked(&by_new));
    // A key without an ID is identified by its thumbprint, configured or not.
    revoke(&by_new.terms.signer.thumbprint());
    assert!(authenticator.is_revoked(&by_new));
    let refused = authenticated(&authenticator, &new.token(None));
    assert_eq!(refused.result, Err(ErrorCode::TokenRevoked));
}

#[test]
fn a_key_of_one_issuer_is_not_valid_for_another() {
    let pair = Pair::new(Algorithm::EdDSA);
    let authenticator = authenticator(vec![pair.key(None).of_issuer(Some("https://a.example"))]);
    for (issuer, expected) in [
        (Some("https://a.example"), None),
        (Some("https://b.example"), Some(Refusal::KeyIssuer)),
        (None, Some(Refusal::KeyIssuer)),
    ] {
        let mut claims = claims();
        if let Some(issuer) = issuer {
            claims["iss"] = issuer.into();
        }
        let token = pair.signing.token(None, &claims).unwrap();
        assert_eq!(refusal(&authenticator, &token), expected, "{issuer:?}");
    }
}

#[test]
fn configured_token_types_are_required() {
    let authenticator = authenticator_of(AuthenticatorSettings {
        rules: TokenRules { token_types: vec!["at+jwt".into()], ..TokenRules::default() },
        token_keys: vec![hmac_key()],
        ..AuthenticatorSettings::default()
    });
    for (header, expected) in [
        (r#"{"alg":"HS256","typ":"at+jwt"}"#, None),
        (r#"{"alg":"HS256","typ":"application/AT+JWT"}"#, None),
        (r#"{"alg":"HS256","typ":"JWT"}"#, Some(Refusal::TokenType)),
        (r#"{"alg":"HS256"}"#, Some(Refusal::TokenType)),
    ] {
        let sign = |message: &[u8]| hmac().sign(message).unwrap();
        let token = token_of(header, &claims().to_string(), sign);
        // The second time the signature is cached.
        for _ in 0..2 {
            assert_eq!(refusal(&authenticator, &token), expected, "{header}");
        }
    }
}

#[test]
fn a_token_is_refused_without_keys() {
    let authenticator = authenticator(Vec::new());
    let token = hmac().token(None, &claims()).unwrap();
    assert_eq!(authenticated(&authenticator, &token).result, Err(ErrorCode::Unauthorized));
}

fn shown(authenticator: &TokenAuthenticator, key: &str) -> broker::entitlement::Decision {
    let digest = Digest::of(CredentialKind::ApiKey, key.as_bytes());
    authenticator.authenticate(CredentialKind::ApiKey, key.as_bytes(), digest, NOW_S)
}

fn api_key(secret: &str, filter: &str, operates: bool) -> ApiKey {
    ApiKey {
        name: "prices".into(),
        sha256: sha256(secret.as_bytes()),
        expires_s: NEVER,
        permissions: Permissions { publish: vec![filter.into()], ..Permissions::default() },
        operates,
    }
}

#[test]
fn api_keys_permit_their_filters_and_nothing_else() {
    let secret = new_api_key().unwrap();
    let authenticator = authenticator_of(AuthenticatorSettings {
        api_keys: vec![api_key(&secret, "prices/#", false)],
        ..AuthenticatorSettings::default()
    });
    let entitlement = shown(&authenticator, &secret).result.unwrap();
    let permits = |action, filter| entitlement.permits(action, Filter::parse(filter).unwrap());
    assert!(permits(Action::Publish, "prices/eur"));
    assert!(!permits(Action::Publish, "orders"));
    assert!(!permits(Action::Subscribe, "prices/eur"));
    assert!(!authenticator.may_operate(secret.as_bytes(), NOW_S));
    assert!(!authenticator.is_revoked(&entitlement));
    assert_eq!(authenticator.statistics().api_keys, 1);
    // An API key is not a token, and a token is not an API key.
    assert!(authenticated(&authenticator, &secret).result.is_err());
    let token = hmac().token(None, &claims()).unwrap();
    assert!(shown(&authenticator, &token).result.is_err());
}

#[test]
fn clients_of_a_changed_api_key_are_revoked() {
    let secret = new_api_key().unwrap();
    let with = |filter: &str, operates| AuthenticatorSettings {
        api_keys: vec![api_key(&secret, filter, operates)],
        ..AuthenticatorSettings::default()
    };
    let authenticator = authenticator_of(with("a/#", true));
    assert!(authenticator.may_operate(secret.as_bytes(), NOW_S));
    let entitlement = shown(&authenticator, &secret).result.unwrap();
    authenticator.replace(with("a/#", false));
    assert!(
        !authenticator.is_revoked(&entitlement)
            && !authenticator.may_operate(secret.as_bytes(), NOW_S)
    );
    authenticator.replace(with("b/#", false));
    assert!(authenticator.is_revoked(&entitlement));
    authenticator.replace(AuthenticatorSettings::default());
    assert!(authenticator.is_revoked(&entitlement));
    authenticator.replace(with("a/#", false));
    assert!(shown(&authenticator, &secret).result.is_ok());
    assert!(!authenticator.is_revoked(&entitlement));
}

/// An earlier expiry of a key also affects connected clients; a later one affects none.
#[test]
fn clients_of_a_renamed_or_shortened_api_key_are_revoked() {
    let secret = new_api_key().unwrap();
    let with = |name: &str, expires_s| AuthenticatorSettings {
        api_keys: vec![ApiKey { name: name.into(), expires_s, ..api_key(&secret, "a/#", false) }],
        ..AuthenticatorSettings::default()
    };
    let later_s = NOW_S as u32 + 500;
    let authenticator = authenticator_of(with("prices", later_s));
    let entitlement = shown(&authenticator, &secret).result.unwrap();
    for (name, expires_s, is_revoked) in [
        ("prices", NEVER, false),
        ("prices", later_s, false),
        ("prices", later_s - 1, true),
        ("prices", NOW_S as u32 - 1, true),
        ("others", later_s, true),
    ] {
        authenticator.replace(with(name, expires_s));
        assert_eq!(authenticator.is_revoked(&entitlement), is_revoked, "{name} {expires_s}");
    }
}

#[test]
fn equal_permissions_are_shared() {
    let authenticator =
        authenticator(vec![TokenKey::of_secret(None, Algorithm::HS256, SECRET).unwrap()]);
    let of = |subject: &str| {
        let mut claims = claims();
        claims["sub"] = subject.into();
        let token = hmac().token(None, &claims).unwrap();
        authenticated(&authenticator, &token).result.unwrap()
    };
    let (anna, ben) = (of("anna"), of("ben"));
    assert_ne!(anna.subject, ben.subject);
    assert!(Arc::ptr_eq(&anna.terms, &ben.terms));
}

#[test]
fn a_revocation_takes_effect_at_once_and_can_be_cancelled() {
    let authenticator = authenticator(vec![hmac_key()]);
    let token = hmac().token(None, &claims()).unwrap();
    let entitlement = authenticated(&authenticator, &token).result.unwrap();
    for revoked in [Revoked::Token("t1".into()), Revoked::subject("anna"), Revoked::All] {
        let wanted = Wanted { revoked, issued_before_s: None, ends_s: None };
        let revocation = authenticator.revoke(None, wanted, NOW_S).unwrap();
        assert_eq!(revocation.ends_s, NEVER);
        assert!(authenticator.is_revoked(&entitlement));
        // Cached tokens are affected as well.
        let again = authenticated(&authenticator, &token);
        assert_eq!(again.result, Err(ErrorCode::TokenRevoked));
        assert!(authenticator.take_back(None, revocation.id).unwrap());
        assert!(!authenticator.is_revoked(&entitlement));
    }
    let nobody = Wanted { revoked: Revoked::subject(""), issued_before_s: None, ends_s: None };
    assert!(authenticator.revoke(None, nobody, NOW_S).is_err());
}

#[test]
fn revocations_end_with_their_last_token() {
    let authenticator = authenticator_of(AuthenticatorSettings {
        rules: TokenRules { lifetime_max_s: Some(3_600), leeway_s: 5, ..TokenRules::default() },
        ..AuthenticatorSettings::default()
    });
    let wanted = Wanted { revoked: Revoked::subject("anna"), issued_before_s: None, ends_s: None };
    let revocation = authenticator.revoke(None, wanted, NOW_S).unwrap();
    assert_eq!(revocation.issued_before_s as u64, NOW_S + 1);
    assert_eq!(revocation.ends_s as u64, NOW_S + 1 + 3_600 + 10);
}

#[test]
fn a_file_that_cannot_be_written_changes_nothing() {
    let authenticator = authenticator(vec![hmac_key()]);
    let token = hmac().token(None, &claims()).unwrap();
    let wanted = Wanted { revoked: Revoked::All, issued_before_s: None, ends_s: None };
    let nowhere = std::path::Path::new("/proc/nowhere");
    let refused = authenticator.revoke(Some(nowhere), wanted, NOW_S);
    assert!(matches!(refused, Err(RevokeError::File(_))));
    assert!(authenticated(&authenticator, &token).result.is_ok());
    assert!(authenticator.revocations_after(0, 9).is_empty());
}
