//! Ends of entitlements as scripts and transcripts: expiry, renewal, revocation.

use crate::support::script;
use broker::entitlement::Permissions;
use broker::settings::{EntitlementSettings, Settings};

fn with_tokens(settings: &mut Settings) {
    settings.entitlement = Some(EntitlementSettings {
        anonymous: Permissions::default(),
        notice_before_s: 30,
        ..EntitlementSettings::default()
    });
}

/// Told ahead, once; what it does is refused from the second on that its time is over; then it is
/// closed.
#[test]
fn a_session_ends_with_its_token() {
    script! { with_tokens, "
        a: session token anna.all.x:50; subscribe 1 news => a: subscribed 1 through 7:0
        time +500ms
        time +24s => a: token expires at 1050000 ms
        time +25s
        a: publish 2 news hi
            a: published 2 7:1
            a: message 1 1<0 hi
        time +500ms
        a: publish 3 news hi => a: error request 3 token_expired
        a: subscribe 4 news/2 => a: error subscription 4 token_expired
        a: history 5 news => a: error request 5 token_expired
        time +8s => a: close 3007 token_expired, closed
        count expired entitlements sessions => expired 1 entitlements 0 sessions 0
    " }
}

/// A client that does not read is not waited for.
#[test]
fn a_blocked_session_ends_at_once() {
    script! { with_tokens, "
        a: session token anna.all.x:50; subscribe 1 news => a: subscribed 1 through 7:0
        b: session token ben.all
        a: block
        b: flood news 1..3
        time +58s
            a: reset
            b: ping 1054
    " }
}

/// A new token with equal terms changes the time only.
#[test]
fn a_renewal_for_longer() {
    script! { with_tokens, "
        a: session token anna.all.x:40
        a: subscribe 1 news, 2 x/# => a: subscribed 1 through 7:0, 2 filter
        time +20s => a: token expires at 1040000 ms
        a: renew 5 anna.all.x:100 => a: renewed 5 until 1100000 ms
        time +30s
        a: publish 6 news hi
            a: published 6 7:1
            a: message 1 1<0 hi
        time +30s
            a: caught-up 2 partition 0 through 1
            a: token expires at 1100000 ms
        a: renew 7 anna.all => a: renewed 7 until 0 ms
        time +50s
        count renewals expired entitlements => renewals 2 expired 0 entitlements 1
    " }
}

/// Subscriptions that the new token does not cover end, plain or not; the others continue without a
/// gap.
#[test]
fn a_renewal_for_less() {
    script! { with_tokens, "
        b: session token ben.all
        a: session token anna.all; subscribe 1 news, 2 other, 3 x/#, 4 y/+
            a: subscribed 1 through 7:0, 2 through 7:0, 3 filter, 4 filter
        a: renew 5 anna.s:news.s:y/#
            a: unsubscribed 3 2000, 2 2000
            a: renewed 5 until 0 ms
        b: publish 0 news hi => a: message 1 1<0 hi
        b: publish 0 other hi; publish 0 x/1 hi; publish 0 y/1 hi => a: named y/1 4<0 hi
        a: subscribe 2 other => a: error subscription 2 forbidden
        count subscriptions => subscriptions 2
    " }
}

/// Subscriptions that wait for their home are settled first; what comes behind RENEW waits.
#[test]
fn a_renewal_waits_for_grants() {
    script! { with_tokens, "
        a: session token anna.all
        homes stop
        a: subscribe 1 news, 2 other
        a: renew 5 anna.s:news
        a: publish 6 other hi
        homes go
            a: subscribed 1 through 7:0, 2 through 7:0
            a: unsubscribed 2 2000
            a: renewed 5 until 0 ms
            a: error request 6 forbidden
    " }
}

/// A ticket that is on its way meanwhile is of who the client is when it is issued.
#[test]
fn a_renewal_beside_a_ticket() {
    script! { |settings| {
        with_tokens(settings);
        settings.tickets.keys = vec![broker::settings::TicketKey::new([1; 32])];
        settings.tickets.lifetime_ms = 3_600_000;
    }, "
        a: session token anna.all.x:100
        a: subscribe 1 news, 2 other => a: subscribed 1 through 7:0, 2 through 7:0
        homes stop
        a: ticket 9
        a: renew 5 anna.s:news.x:200
        homes go
            a: unsubscribed 2 2000
            a: renewed 5 until 1200000 ms
            a: ticket 9 until 1200000 ms
        a: reset; session kept
            a: welcome ping 60s resumed 1
            a: subscribed 1 through 7:0 continued
    " }
}

/// A token of another subject, an invalid one and an expired one: the session continues with the
/// old token.
#[test]
fn renewals_that_are_refused() {
    script! { with_tokens, "
        a: session token anna.all.x:400; renew 5 ben.all => a: error request 5 forbidden
        a: renew 6 bad => a: error request 6 unauthorized
        a: renew 7 anna.all.x:0 => a: error request 7 token_expired
        a: publish 8 news hi => a: published 8 7:1
        count renewals entitlements => renewals 0 entitlements 1
    " }
}

/// At once, with a code that says not to return; others with the same rights are not concerned.
#[test]
fn revoked() {
    script! { with_tokens, "
        a: session token anna.all.j:7
        b: session token anna.all.j:8
        c: connect echo token anna.all.j:7 => c: 101
        d: connect ws token anna.all.j:7 => d: 101 crore.v1
        revoke 7
            a: close 3507 revoked, closed
            c: close 3507 revoked, closed
            d: close 3507 revoked, closed
        b: publish 1 news hi => b: published 1 7:1
        a: session token anna.all.j:7
            a: error connection token_revoked
            a: close 3507 revoked, closed
        revoke anna => b: close 3507 revoked, closed
        count revoked entitlements => revoked 4 entitlements 0
    " }
}

/// After a change of keys or revocations a credential is authenticated again, even if other
/// connections hold it: its key may be gone.
#[test]
fn known_credentials_are_authenticated_again() {
    script! { with_tokens, "
        a: session token anna.all.j:7
        revoke 8
        b: session token anna.all.j:7
        c: session token anna.all.j:7
        count questions entitlements => questions 2 entitlements 2
        a: reset
        b: reset
        c: reset
        count entitlements => entitlements 0
    " }
}

/// A token that is revoked while its renewal is authenticated does not come back by it.
#[test]
fn revoked_while_a_verdict_is_on_its_way() {
    script! { with_tokens, "
        a: session token anna.all.j:7
        authenticator stop
        a: renew 1 anna.all.j:8
        revoke 7 => a: close 3507 revoked, closed
        authenticator go
        count entitlements renewals => entitlements 0 renewals 0
    " }
}

/// A verdict that knows nothing of the revocation yet, as it was on its way, does not let anybody
/// stay.
#[test]
fn a_verdict_of_before_a_revocation() {
    script! { with_tokens, "
        authenticator stop
        a: connect ws => a: 101 crore.v1
        a: hello token anna.all.j:7
        b: connect ws => b: 101 crore.v1
        b: hello token ben.all.j:8
        revoke 7
        authenticator go
            a: welcome ping 60s
            a: close 3507 revoked, closed
            b: welcome ping 60s
        count entitlements => entitlements 1
    " }
}
