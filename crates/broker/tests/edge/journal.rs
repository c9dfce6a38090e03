//! Entries of an edge about its clients, for the access log and the audit log.

use crate::support::script;
use broker::entitlement::Permissions;
use broker::settings::{EntitlementSettings, Settings, TicketKey, TicketSettings};

fn with_access(settings: &mut Settings) {
    settings.journal.access = true;
    settings.journal.access_rate_max = 100;
}

fn with_audit(settings: &mut Settings) {
    settings.entitlement = Some(EntitlementSettings {
        users_are_counted: false,
        takes_passwords: false,
        anonymous: Permissions::default(),
        notice_before_s: 60,
    });
    settings.journal.granted = true;
    settings.journal.refused = true;
    settings.journal.audit_rate_max = 100;
}

#[test]
fn nothing_is_told_unless_it_is_asked_for() {
    script! { "
        a: session; close 1000 => a: close 1000, closed
        journal
    " }
}

/// A session follows its request; a closed one has its close code, a lost one has none.
#[test]
fn sessions_come_and_go() {
    script! { with_access, "
        only binary
        a: session
        time +2s
        a: close 1000 => a: close 1000, closed
        journal
            requested http 127.0.0.1:0 nobody GET /crore 101
            connected native 127.0.0.1:0 nobody
            disconnected native 127.0.0.1:0 nobody 1000 after 2000 ms
        b: session; reset
        journal
            requested http 127.0.0.1:0 nobody GET /crore 101
            connected native 127.0.0.1:0 nobody
            disconnected native 127.0.0.1:0 nobody 1006 after 0 ms
    " }
}

/// Queries are where tokens are.
#[test]
fn requests_are_told_without_their_queries() {
    script! { with_access, "
        c: GET /topics/a?since=7:0&token=secret
            c: 200 {\"topic\":\"a\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        c: POST /topics/a > hi => c: 200 {\"epoch\":\"7\",\"offset\":1,\"duplicate\":false}
        c: DELETE /topics/a => c: 405 [allow: GET, POST, OPTIONS] method_not_allowed
        journal
            requested http 127.0.0.1:0 nobody GET /topics/a 200
            requested http 127.0.0.1:0 nobody POST /topics/a 200
            requested http 127.0.0.1:0 nobody DELETE /topics/a 405
    " }
}

/// Requests from refused origins are reported once in a minute, under any settings.
#[test]
fn refused_origins() {
    script! { |_| {}, "
        c: GET /topics/a | Origin: https://x.example => c: 403 origin_forbidden
        c: GET /topics/a | Origin: https://y.example => c: 403 origin_forbidden
        c: GET /crore | Origin: https://z.example => c: 403 origin_forbidden
        journal => origin refused http -:- nobody https://x.example 1
        time +59s
        c: GET /topics/a | Origin: https://x.example => c: 403 origin_forbidden
        journal
        time +1s
        c: GET /topics/a | Origin: https://x.example => c: 403 origin_forbidden
        c: GET /topics/a | Origin: https://x.example | Origin: https://y.example
            c: 403 origin_forbidden
        journal => origin refused http -:- nobody https://x.example 4
    " }
}

/// Beyond the rate there is a count, which comes when the second is over.
#[test]
fn a_storm_is_a_count() {
    script! { |settings| {
        with_access(settings);
        settings.journal.access_rate_max = 2;
    }, "
        c: DELETE /topics/a => c: 405 [allow: GET, POST, OPTIONS] method_not_allowed
        c: DELETE /topics/b => c: 405 [allow: GET, POST, OPTIONS] method_not_allowed
        c: DELETE /topics/c => c: 405 [allow: GET, POST, OPTIONS] method_not_allowed
        c: DELETE /topics/d => c: 405 [allow: GET, POST, OPTIONS] method_not_allowed
        journal
            requested http 127.0.0.1:0 nobody DELETE /topics/a 405
            requested http 127.0.0.1:0 nobody DELETE /topics/b 405
        time +1s
        journal => left out 2 0
        c: DELETE /topics/e => c: 405 [allow: GET, POST, OPTIONS] method_not_allowed
        journal => requested http 127.0.0.1:0 nobody DELETE /topics/e 405
    " }
}

#[test]
fn decisions_say_who_what_and_why_not() {
    script! { with_audit, "
        only binary
        a: session token anna.s:news; subscribe 1 news => a: subscribed 1 through 7:0
        a: publish 2 news hi => a: error request 2 forbidden
        journal
            decided native 127.0.0.1:0 anna authenticate  granted
            decided native 127.0.0.1:0 anna subscribe news granted
            decided native 127.0.0.1:0 anna publish news forbidden
        revoke anna => a: close 3507 revoked, closed
        journal => decided native 127.0.0.1:0 anna continue  token_revoked
        b: GET /topics/news?token=bad
            b: 401 [www-authenticate: Bearer error=\"invalid_token\"] unauthorized
        journal => decided http 127.0.0.1:0 nobody authenticate  unauthorized
    " }
}

/// A client's identity is reported once for each connection: by a known credential, by a ticket, or
/// as anonymous.
#[test]
fn each_client_is_told_when_it_has_shown_who_it_is() {
    script! { |settings| {
        with_audit(settings);
        settings.tickets = TicketSettings {
            keys: vec![TicketKey::new([1; 32])],
            lifetime_ms: 3_600_000,
            not_before_ms: 0,
        };
    }, "
        only binary
        a: session token anna.s:news.h:news; subscribe 1 news => a: subscribed 1 through 7:0
        a: ticket 9 => a: ticket 9 until 4600000 ms
        b: GET /topics/news | Authorization: Bearer anna.s:news.h:news
            b: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        b: GET /topics/news | Authorization: Bearer anna.s:news.h:news
            b: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        journal
            decided native 127.0.0.1:0 anna authenticate  granted
            decided native 127.0.0.1:0 anna subscribe news granted
            decided http 127.0.0.1:0 anna authenticate  granted
            decided http 127.0.0.1:0 anna history news granted
            decided http 127.0.0.1:0 anna history news granted
        a: reset; session kept
            a: welcome ping 60s resumed 1
            a: subscribed 1 through 7:0 continued
        c: session 30
            c: error connection unauthorized
            c: close 3502 unauthorized, closed
        journal
            decided native 127.0.0.1:0 anna authenticate  granted
            decided native 127.0.0.1:0 anna subscribe news granted
            decided native 127.0.0.1:0 nobody authenticate  unauthorized
    " }
}
