//! Decoders of input from strangers and files: tokens, claims, key sets, revocations, and the
//! answer of a fetch's URL.

use broker::entitlement::{Action, SUBJECT_BYTES_MAX};
use broker::topic::Filter;
use entitlement::algorithm::Algorithm;
use entitlement::claims::Claims;

use entitlement::jwks::Jwks;
use entitlement::keys::{KEYS_MAX, KeySet};
use entitlement::revocation_file;
use entitlement::token::Parts;
use fetch::Url;
use std::time::{SystemTime, UNIX_EPOCH};

/// The first byte selects the decoder of the others.
pub fn token(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else {
        return;
    };
    match kind % 5 {
        0 => whole(data),
        1 => claims(data),
        2 => key_set(data),
        3 => revocations(data),
        _ => url(data),
    }
}

fn whole(data: &[u8]) {
    let Ok(parts) = Parts::of(data) else { return };
    assert_eq!(parts.message.len() + parts.signature.len() + 1, data.len());
    if let Ok(header) = parts.header() {
        assert_eq!(Algorithm::of(header.algorithm.name()), Some(header.algorithm));
        let tried = KeySet::default().verify(
            header.algorithm,
            header.key_id.as_deref(),
            parts.message.as_bytes(),
            parts.signature,
        );
        assert_eq!((tried.verified, tried.keys_count), (None, 0));
    }
    if let Ok(bytes) = parts.claims() {
        claims(&bytes);
    }
}

fn claims(data: &[u8]) {
    let Ok(claims) = Claims::parse(data) else {
        return;
    };
    assert!(claims.subject.len() <= SUBJECT_BYTES_MAX);
    assert_eq!(Claims::parse(data).as_ref(), Ok(&claims));
    let permissions = &claims.terms.permissions;
    for action in [Action::Subscribe, Action::Publish, Action::History] {
        for filter in permissions.of(action) {
            assert!(Filter::parse(filter).is_ok());
        }
        // Empty permissions permit no action.
        if permissions.of(action).is_empty() {
            let all = Filter::parse("a").expect("a topic");
            assert!(!permissions.permit(&claims.subject, action, all));
        }
    }
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let rules = Default::default();
    if claims.check(&rules, now_s).is_ok() {
        assert!(u64::from(claims.ends_s(&rules)) > now_s);
    }
}

fn key_set(data: &[u8]) {
    if let Ok(jwks) = Jwks::parse(data) {
        assert!(jwks.keys.len() <= KEYS_MAX);
        let keys = &jwks.keys;
        let is_public = |algorithm: &Algorithm| !algorithm.name().starts_with("HS");
        assert!(keys.iter().all(|key| key.algorithms().iter().all(is_public)));
    }
}

fn revocations(data: &[u8]) {
    if let Ok(revocations) = revocation_file::decode(data) {
        let last = revocations.after(0).last();
        assert!(last.is_none_or(|last| last.id <= revocations.ids_given()));
    }
}

fn url(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Some(url) = Url::parse(text) {
        assert!(!url.host.is_empty() && url.port != 0);
        assert!(text.starts_with("http"));
    }
}
