//! Access control as scripts and transcripts: sessions of the native protocol.

use crate::support::script;
use broker::entitlement::Permissions;
use broker::settings::{EntitlementSettings, Settings};

fn with_tokens(settings: &mut Settings) {
    settings.entitlement = Some(EntitlementSettings {
        anonymous: Permissions::default(),
        notice_before_s: 60,
        ..EntitlementSettings::default()
    });
}

fn with_a_public_part(settings: &mut Settings) {
    settings.entitlement = Some(EntitlementSettings {
        anonymous: Permissions {
            subscribe: vec!["public/#".into()],
            history: vec!["public/#".into()],
            ..Permissions::default()
        },
        notice_before_s: 60,
        ..EntitlementSettings::default()
    });
}

/// A node without tokens ignores credentials.
#[test]
fn an_open_node_asks_nobody() {
    script! { "
        a: connect ws token bad => a: 101 crore.v1
        a: hello token bad => a: welcome ping 60s
        a: subscribe 1 news => a: subscribed 1 through 7:0
        a: publish 2 news hi
            a: published 2 7:1
            a: message 1 1<0 hi
        a: renew 3 bad => a: renewed 3 until 0 ms
        b: GET /topics/news?token=bad | Authorization: Bearer bad
            b: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":1,\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"hi\"}],\"more\":false,\"cursor\":\"7:1\"}
        count questions entitlements => questions 0 entitlements 0
    " }
}

/// A token permits the topics that it names, and no others; a refusal is the same for topics that
/// exist and for others.
#[test]
fn a_token_permits_what_it_names() {
    script! { with_tokens, "
        a: session token anna.s:u/{sub}/#.s:news.p:news.h:news
        a: subscribe 1 news, 2 u/anna/in, 3 u/anna/+, 4 u/anna/#
            a: subscribed 1 through 7:0, 2 through 7:0, 3 filter, 4 filter
        a: subscribe 5 u/ben/in, 6 u/+/in, 7 #, 8 other, 9 $sys/a
            a: error subscription 5 forbidden, subscription 6 forbidden, subscription 7 forbidden
            a: error subscription 8 forbidden, subscription 9 forbidden
        a: publish 1 news hi
            a: published 1 7:1
            a: message 1 1<0 hi
        a: publish 2 u/anna/in hi => a: error request 2 forbidden
        a: publish 0 other hi => a: error request 0 forbidden
        a: history 3 news => a: history 3 head 1 [1<0 hi]
        a: history 4 u/anna/in => a: error request 4 forbidden
        count forbidden published => forbidden 8 published 1
    " }
}

/// A client without a credential has the anonymous permissions; if there are none, it gets no
/// session.
#[test]
fn anonymous_clients() {
    script! { with_tokens, "
        a: connect native
            a: 101 crore.v1
            a: error connection unauthorized
            a: close 3502 unauthorized, closed
        count questions sessions => questions 0 sessions 0
    " }
    script! { with_a_public_part, "
        a: session; subscribe 1 public/a, 2 public/#, 3 private, 4 #
            a: error subscription 3 unauthorized, subscription 4 unauthorized
            a: subscribed 1 through 7:0, 2 filter
        a: publish 5 public/a hi => a: error request 5 unauthorized
        a: history 6 public/a => a: history 6 head 0 []
        a: renew 7 anna.all => a: error request 7 unauthorized
    " }
}

/// The credential of HELLO wins over that of the upgrade.
#[test]
fn sources_of_a_credential() {
    script! { with_tokens, "
        a: connect ws token anna.s:a => a: 101 crore.v1
        a: hello 0 => a: welcome ping 60s
        a: subscribe 1 a, 2 b
            a: error subscription 2 forbidden
            a: subscribed 1 through 7:0
        b: connect ws token ben.s:a => b: 101 crore.v1
        b: hello token ben.s:b => b: welcome ping 60s
        b: subscribe 1 a, 2 b
            b: error subscription 1 forbidden
            b: subscribed 2 through 7:0
        c: connect ws key carl.s:a => c: 101 crore.v1
        c: hello 30 => c: welcome ping 30s
        c: subscribe 1 a => c: subscribed 1 through 7:0
        count questions entitlements => questions 4 entitlements 3
    " }
}

/// A credential that somebody on the edge has shown already costs no question, and is forgotten
/// with the last of them.
#[test]
fn a_known_credential_is_not_asked_about() {
    script! { with_tokens, "
        a: session token anna.all
        b: connect ws token anna.all => b: 101 crore.v1
        b: hello token anna.all => b: welcome ping 60s
        count questions entitlements => questions 1 entitlements 1
        a: reset
        b: reset
        count questions entitlements => questions 1 entitlements 0
    " }
}

#[test]
fn credentials_that_do_not_hold() {
    script! { with_tokens, "
        a: session token bad
            a: error connection unauthorized
            a: close 3502 unauthorized, closed
        a: session token anna.all.x:0
            a: error connection token_expired
            a: close 3007 token_expired, closed
        a: connect ws token bad
            a: 401 [www-authenticate: Bearer error=\"invalid_token\"] unauthorized
        revoke ben
        b: session token ben.all
            b: error connection token_revoked
            b: close 3507 revoked, closed
        count questions credentials-refused entitlements connections kept
            questions 4 credentials-refused 4 entitlements 0 connections 1 kept 0
    " }
}

/// Frames after HELLO wait with it; other connections do not.
#[test]
fn a_session_waits_for_its_verdict() {
    script! { with_tokens, "
        authenticator stop
        a: connect ws => a: 101 crore.v1
        a: hello token anna.s:news
        a: subscribe 1 news, 2 other
        b: connect ws => b: 101 crore.v1
        count kept questions => kept 18 questions 1
        authenticator go
            a: welcome ping 60s
            a: error subscription 2 forbidden
            a: subscribed 1 through 7:0
        count kept => kept 0
    " }
}

/// The time for the handshake holds while a verdict is on its way; one that comes too late changes
/// nothing.
#[test]
fn a_verdict_that_does_not_come() {
    script! { with_tokens, "
        authenticator stop
        a: connect ws => a: 101 crore.v1
        a: hello token anna.all
        b: connect ws token ben.all
        c: connect ws => c: 101 crore.v1
        c: hello token carl.all
        c: reset
        time +11s
            a: close 3005 handshake_timeout, closed
            b: 408 close request_timeout, closed
        authenticator go
        count connections entitlements handshake-timeouts kept
            connections 0 entitlements 0 handshake-timeouts 2 kept 0
    " }
}

#[test]
fn limits_of_a_token() {
    script! { with_tokens, "
        a: session token anna.all.n:2.r:2; subscribe 1 a, 2 b, 3 c
            a: error subscription 3 too_many_subscriptions limit 2
            a: subscribed 1 through 7:0, 2 through 7:0
        a: publish 1 x 1 => a: published 1 7:1
        a: publish 2 x 2 => a: published 2 7:2
        a: publish 3 x 3 => a: error request 3 rate_limited limit 2
        time +500ms
        a: publish 4 x 4 => a: published 4 7:3
        a: publish 5 x 5 => a: error request 5 rate_limited limit 2
        time +2s
        a: flood x 1..3 => a: error request 0 rate_limited limit 2
        count publishes-too-fast published => publishes-too-fast 3 published 5
    " }
}
