//! Users with passwords: the hash is computed once, changes of the file and of grants take effect,
//! and clients with tokens and API keys are served beside them.

mod support;

use broker::entitlement::{
    Action, Authenticator, CredentialKind, Decision, Digest, NEVER, Permissions,
    certificate_credential, password_credential,
};
use broker::topic::Filter;
use entitlement::api_keys::{ApiKey, new_api_key, sha256};
use entitlement::password_file::{self, User};
use entitlement::users::Grant;
use entitlement::{AuthenticatorSettings, TokenAuthenticator};
use support::{NOW_S, authenticator_of, claims, hmac, hmac_key};
use wire::native::ErrorCode;

/// Lines of `mosquitto_passwd`. The passwords are `secret` and `s:e$cret`.
const ANNA: &str = "anna:$7$101$bQNogf9Z1MYoZdTe$uImp7gikJiBqWa+r5nZpqAm7GvBdVslmHqIhqEEnHN1O/0vhukJRgr2hWfaWX3XF3iMbLNu0VQ8KCQYRx1QBLg==\n";
const BEN: &str = "ben:$7$101$BjqQFg3jZCaqUxuH$KPX83c28BErKW3LMmBirEoiRVMf5mqk98/ZitS7KZiUND89o5FXXVWxm3kMAUHqzZIesnmiU5BYl8AOxpjBp3w==\n";

fn users(lines: &[&str]) -> Vec<User> {
    password_file::parse(lines.concat().as_bytes()).unwrap()
}

fn grant(user: Option<&str>, filter: &str) -> Grant {
    let permissions = Permissions {
        subscribe: vec![filter.into()],
        publish: vec![filter.into()],
        ..Permissions::default()
    };
    Grant { user: user.map(Into::into), permissions }
}

fn settings(lines: &[&str], grants: &[Grant]) -> AuthenticatorSettings {
    AuthenticatorSettings {
        users: users(lines),
        grants: grants.to_vec(),
        ..AuthenticatorSettings::default()
    }
}

fn presented(authenticator: &TokenAuthenticator, user: &str, password: &str) -> Decision {
    let credential = password_credential(user.as_bytes(), password.as_bytes()).unwrap();
    let digest = Digest::of(CredentialKind::Password, &credential);
    authenticator.authenticate(CredentialKind::Password, &credential, digest, NOW_S)
}

fn is_slow(authenticator: &TokenAuthenticator, user: &str, password: &str) -> bool {
    let credential = password_credential(user.as_bytes(), password.as_bytes()).unwrap();
    let digest = Digest::of(CredentialKind::Password, &credential);
    authenticator.is_slow(CredentialKind::Password, &credential, digest)
}

#[test]
fn a_password_is_hashed_once() {
    let authenticator = authenticator_of(settings(&[ANNA, BEN], &[grant(None, "u/{sub}/#")]));
    assert!(is_slow(&authenticator, "anna", "secret"));
    let first = presented(&authenticator, "anna", "secret");
    assert!(!is_slow(&authenticator, "anna", "secret"));
    let again = presented(&authenticator, "anna", "secret");
    assert_eq!((first.signatures_count, again.signatures_count), (1, 0));
    let entitlement = first.result.unwrap();
    assert_eq!(again.result.as_ref(), Ok(&entitlement));
    assert_eq!((&*entitlement.subject, entitlement.kind()), ("anna", CredentialKind::Password));
    let permits = |topic| entitlement.permits(Action::Publish, Filter::parse(topic).unwrap());
    assert!(permits("u/anna/in") && !permits("u/ben/in"));
    // A wrong one is hashed each time, and takes nothing from the right one.
    for _ in 0..2 {
        let wrong = presented(&authenticator, "anna", "Secret");
        assert_eq!((wrong.signatures_count, wrong.result), (1, Err(ErrorCode::Unauthorized)));
    }
    assert!(
        !is_slow(&authenticator, "anna", "secret") && is_slow(&authenticator, "ben", "s:e$cret")
    );
    assert!(presented(&authenticator, "ben", "s:e$cret").result.is_ok());
    let statistics = authenticator.statistics();
    assert_eq!((statistics.password_hashes, statistics.password_cache_hits), (4, 1));
    assert_eq!((statistics.users, statistics.accepted, statistics.unauthorized), (2, 3, 2));
}

#[test]
fn an_empty_password_is_never_right() {
    let line = "empty:$6$c2FsdGVkIGJ5IHVz$4JfNCqNt4UztHk2AklPy2VmVRzKERk2V2vfJTdTUbYYw/tlpfsweO9+OXIXqpAijAi3tGv4YIoFz0BVAvsO/kw==";
    let user = users(&[line]).remove(0);
    assert!(user.password.verifies(b""));
    let authenticator = authenticator_of(settings(&[line], &[]));
    assert!(!is_slow(&authenticator, "empty", ""));
    assert_eq!(presented(&authenticator, "empty", "").result, Err(ErrorCode::Unauthorized));
}

#[test]
fn an_unknown_user_takes_as_long_as_a_known_one() {
    let authenticator = authenticator_of(settings(&[ANNA], &[]));
    assert!(is_slow(&authenticator, "cleo", "secret"));
    let decision = presented(&authenticator, "cleo", "secret");
    assert_eq!(decision.result, Err(ErrorCode::Unauthorized));
    assert_eq!(authenticator.statistics().password_hashes, 0);
}

#[test]
fn a_changed_user_ends_and_another_does_not() {
    let grants = [grant(None, "a"), grant(Some("ben"), "b")];
    let authenticator = authenticator_of(settings(&[ANNA, BEN], &grants));
    let anna = presented(&authenticator, "anna", "secret").result.unwrap();
    let ben = presented(&authenticator, "ben", "s:e$cret").result.unwrap();
    let revoked = || [&anna, &ben].map(|of| authenticator.is_revoked(of));
    authenticator.replace(settings(&[ANNA, BEN], &grants));
    assert_eq!(revoked(), [false, false]);
    assert!(!is_slow(&authenticator, "anna", "secret"), "the digest stays over a reload");
    // Other permissions of one.
    authenticator.replace(settings(&[ANNA, BEN], &grants[..1]));
    assert_eq!(revoked(), [false, true]);
    authenticator.replace(settings(&[ANNA, BEN], &grants));
    assert_eq!(revoked(), [false, false]);
    // Another password, though the next file has the old one again.
    let other = ANNA.replace("uImp", "vImp");
    authenticator.replace(settings(&[&other, BEN], &grants));
    assert_eq!(revoked(), [true, false]);
    assert_eq!(presented(&authenticator, "anna", "secret").result, Err(ErrorCode::Unauthorized));
    authenticator.replace(settings(&[ANNA, BEN], &grants));
    assert_eq!(revoked(), [true, false]);
    // Without a line.
    authenticator.replace(settings(&[ANNA], &grants));
    assert_eq!(revoked(), [true, true]);
    assert_eq!(presented(&authenticator, "ben", "s:e$cret").result, Err(ErrorCode::Unauthorized));
}

#[test]
fn tokens_and_api_keys_are_passwords_of_other_names() {
    let secret = new_api_key().unwrap();
    let api_key = ApiKey {
        name: "prices".into(),
        sha256: sha256(secret.as_bytes()),
        expires_s: broker::entitlement::NEVER,
        permissions: Permissions::default(),
        operates: false,
    };
    let authenticator = authenticator_of(AuthenticatorSettings {
        token_keys: vec![hmac_key()],
        api_keys: vec![api_key],
        ..settings(&[BEN], &[grant(None, "#")])
    });
    let token = hmac().token(None, &claims()).unwrap();
    for (password, subject, kind) in
        [(&*token, "anna", CredentialKind::Token), (&secret, "prices", CredentialKind::ApiKey)]
    {
        assert!(!is_slow(&authenticator, "device-7", password));
        let entitlement = presented(&authenticator, "device-7", password).result.unwrap();
        assert_eq!((&*entitlement.subject, entitlement.kind()), (subject, kind));
        assert!(!authenticator.is_revoked(&entitlement));
        // A user of the file has the password of the file, and no other.
        let refused = presented(&authenticator, "ben", password);
        assert_eq!(refused.result, Err(ErrorCode::Unauthorized));
    }
    authenticator.set_lacks_revocations(true);
    assert_eq!(presented(&authenticator, "device-7", &token).result, Err(ErrorCode::NotReady));
    assert!(presented(&authenticator, "ben", "s:e$cret").result.is_ok());
}

/// A name that TLS has proved has the grants of that name until its certificate expires.
#[test]
fn certificates_have_grants_until_they_expire() {
    let grants = [grant(None, "u/{sub}"), grant(Some("anna"), "a")];
    let authenticator = authenticator_of(settings(&[], &grants));
    let shown = |user: &str, expires_s: u64| {
        let credential = certificate_credential(user, expires_s);
        let kind = CredentialKind::Certificate;
        assert!(!authenticator.is_slow(kind, &credential, Digest::of(kind, &credential)));
        authenticator.authenticate(kind, &credential, Digest::of(kind, &credential), NOW_S)
    };
    assert_eq!(shown("anna", NOW_S).result, Err(ErrorCode::TokenExpired));
    let anna = shown("anna", NOW_S + 60).result.unwrap();
    let ben = shown("ben", 1 << 40).result.unwrap();
    assert_eq!((&*anna.subject, anna.kind()), ("anna", CredentialKind::Certificate));
    assert_eq!((anna.expires_s, ben.expires_s), (NOW_S as u32 + 60, NEVER));
    let permits = |topic| anna.permits(Action::Publish, Filter::parse(topic).unwrap());
    assert!(permits("a") && permits("u/anna") && !permits("u/ben"));
    let revoked = || [&anna, &ben].map(|of| authenticator.is_revoked(of));
    assert_eq!(revoked(), [false, false]);
    authenticator.replace(settings(&[], &grants[..1]));
    assert_eq!(revoked(), [true, false]);
    // A user with a password is another credential of the same name.
    authenticator.replace(settings(&[ANNA], &grants));
    assert_eq!(revoked(), [false, false]);
    let kind = CredentialKind::Certificate;
    let short = authenticator.authenticate(kind, b"anna", Digest::of(kind, b"anna"), NOW_S);
    assert_eq!(short.result, Err(ErrorCode::Unauthorized));
}

#[test]
fn the_next_process_knows_accepted_users() {
    let lines = [ANNA, BEN];
    let before = authenticator_of(settings(&lines, &[grant(None, "a")]));
    let anna = presented(&before, "anna", "secret").result.unwrap();
    let ben = presented(&before, "ben", "s:e$cret").result.unwrap();
    let other = BEN.replace("KPX", "LPX");
    let after = authenticator_of(settings(&[ANNA, &other], &[grant(None, "a")]));
    assert!(after.is_revoked(&anna));
    assert!(after.take_over(&before.hand_over()));
    assert_eq!([&anna, &ben].map(|of| after.is_revoked(of)), [false, true]);
    assert!(!is_slow(&after, "anna", "secret") && is_slow(&after, "ben", "s:e$cret"));
}
