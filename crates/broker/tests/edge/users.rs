//! Connections of a user, as scripts and transcripts: who counts, for whom, and until when.

use crate::support::script;
use broker::entitlement::Permissions;
use broker::settings::{EntitlementSettings, Settings, TicketKey, TicketSettings};

/// Tokens are asked for, and the node counts users; two threads.
fn counted(settings: &mut Settings) {
    with_tokens(settings);
    if let Some(entitlement) = &mut settings.entitlement {
        entitlement.users_are_counted = true;
    }
    settings.edges_count = 2;
}

/// The same, and only tokens have limits.
fn with_tokens(settings: &mut Settings) {
    settings.entitlement = Some(EntitlementSettings {
        anonymous: Permissions { history: vec!["public".into()], ..Permissions::default() },
        notice_before_s: 30,
        ..EntitlementSettings::default()
    });
    settings.tickets = TicketSettings {
        keys: vec![TicketKey::new([1; 32])],
        lifetime_ms: 3_600_000,
        not_before_ms: 0,
    };
}

/// However many tokens a user has, and wherever the connections are.
#[test]
fn sessions_of_a_user_over_all_threads() {
    script! { counted, "
        users max 2
        a: session token anna.all
        b: session token anna.s:news on 1
        c: session token anna.all
            c: error connection too_many_connections
            c: close 3009 too_many_connections, closed
        d: session token ben.all
        users => anna 2, ben 1
        b: reset
        c: session token anna.all
        a: reset
        c: reset
        d: end => d: closed
        users => nobody
        count entitlements => entitlements 0
    " }
}

/// A subject is one user for each issuer that names it.
#[test]
fn the_same_subject_of_two_issuers_is_two_users() {
    script! { counted, "
        users max 1
        a: session token anna.o:one.all
        b: session token anna.o:two.all on 1
        c: session token anna.o:one.s:news
            c: error connection too_many_connections
            c: close 3009 too_many_connections, closed
        a: renew 1 anna.o:two.all.j:3 => a: error request 1 forbidden
        a: reset
        b: reset
        users => nobody
    " }
}

/// A connection that stays open counts for the user of its last request.
#[test]
fn each_request_shows_who_it_counts_for() {
    script! { counted, "
        users max 1
        a: GET /topics/a | Authorization: Bearer anna.h:a
            a: 200 {\"topic\":\"a\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        b: connect on 1; GET /topics/a | Authorization: Bearer anna.h:a
            b: 429 [retry-after: 1] too_many_connections
        a: GET /topics/a | Authorization: Bearer anna.h:a.x:90
            a: 200 {\"topic\":\"a\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        users => anna 1
        a: GET /topics/a | Authorization: Bearer ben.h:a
            a: 200 {\"topic\":\"a\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        users => ben 1
        b: GET /topics/a | Authorization: Bearer anna.h:a
            b: 200 {\"topic\":\"a\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        b: GET /topics/a | Authorization: Bearer ben.h:a
            b: 429 [retry-after: 1] too_many_connections
        users => ben 1
        a: GET /topics/public
            a: 200 {\"topic\":\"public\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        users => nobody
        count entitlements connections => entitlements 0 connections 2
    " }
}

/// API keys, clients without a token and empty subjects count for no user.
#[test]
fn clients_without_a_user() {
    script! { counted, "
        users max 0
        a: connect ws key prices.all => a: 101 crore.v1
        a: hello 0 => a: welcome ping 60s
        b: GET /topics/public
            b: 200 {\"topic\":\"public\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        c: session token .all
        a: renew 1 prices.all => a: error request 1 forbidden
        users => nobody
    " }
}

/// The credential of the upgrade counts from there; a HELLO of another user changes that.
#[test]
fn upgrades_and_hellos() {
    script! { counted, "
        users max 1
        a: connect ws token anna.all => a: 101 crore.v1
        users => anna 1
        b: connect ws token anna.all => b: 429 [retry-after: 1] too_many_connections
        a: hello token ben.all => a: welcome ping 60s
        users => ben 1
        b: end => b: closed
        c: connect ws token carl.all => c: 101 crore.v1
        c: hello token carl.s:news => c: welcome ping 60s
        users => ben 1, carl 1
        c: renew 1 carl.all => c: renewed 1 until 0 ms
        users => ben 1, carl 1
    " }
}

/// A ticket says who returns, and that counts; who expires or is revoked counts no more.
#[test]
fn tickets_and_ends() {
    script! { counted, "
        users max 1
        a: session token anna.all.x:90; subscribe 1 news => a: subscribed 1 through 7:0
        a: ticket 9 => a: ticket 9 until 1090000 ms
        a: reset
        b: session token anna.all on 1
        a: session kept
            a: error connection too_many_connections
            a: close 3009 too_many_connections, closed
        revoke anna => b: close 3507 revoked, closed
        users => nobody
        count entitlements => entitlements 0
    " }
}

/// A token may have a limit on a node without one; other tokens of the user do not count.
#[test]
fn a_token_has_its_own_limit() {
    script! { with_tokens, "
        a: session token anna.all
        users => nobody
        b: session token anna.all.c:1
        c: session token anna.all.c:1
            c: error connection too_many_connections
            c: close 3009 too_many_connections, closed
        users => anna 1
    " }
}

/// A session without a user counts from the renewal on that brings the first limit. Without room
/// the renewal fails: the session continues with its old token and all its subscriptions.
#[test]
fn a_renewal_brings_the_first_limit() {
    script! { with_tokens, "
        a: session token anna.all
        b: session token anna.all; subscribe 1 news => b: subscribed 1 through 7:0
        users => nobody
        a: renew 1 anna.all.c:1 => a: renewed 1 until 0 ms
        users => anna 1
        b: renew 2 anna.s:other.c:1 => b: error request 2 too_many_connections
        c: session token anna.all.c:1
            c: error connection too_many_connections
            c: close 3009 too_many_connections, closed
        b: publish 3 news hi
            b: published 3 7:1
            b: message 1 1<0 hi
        a: renew 4 anna.all => a: renewed 4 until 0 ms
        users => anna 1
        a: reset
        users => nobody
        b: renew 5 anna.s:other.c:1
            b: unsubscribed 1 2000
            b: renewed 5 until 0 ms
        users => anna 1
        b: reset
        users => nobody
        count entitlements => entitlements 0
    " }
}

/// A connection that ends, or whose new token expires, while the shell is asked for a renewal has
/// not begun to count.
#[test]
fn renewals_that_end_before_the_answer() {
    script! { with_tokens, "
        a: session token anna.all
        b: session token ben.all
        users stop
        a: renew 1 anna.all.c:1
        b: renew 2 ben.all.c:1.x:5
        a: reset
        time +6s
        users go => b: error request 2 token_expired
        users => nobody
        b: ping 7 => b: pong 7
    " }
}

/// A connection that ends while the shell is asked has never counted.
#[test]
fn gone_before_the_answer() {
    script! { counted, "
        users stop
        a: connect ws => a: 101 crore.v1
        a: hello token anna.all
        b: GET /topics/a | Authorization: Bearer ben.h:a
        c: connect ws => c: 101 crore.v1
        c: hello token carl.all
        a: reset
        b: reset
        time +11s => c: close 3005 handshake_timeout, closed
        users go
        users => nobody
        count connections entitlements kept => connections 0 entitlements 0 kept 0
    " }
}
