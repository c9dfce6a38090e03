//! Access control as scripts and transcripts: HTTP requests, event streams, long polls, echo.

use crate::support::script;
use broker::entitlement::Permissions;
use broker::settings::{EntitlementSettings, Settings};

fn with_tokens(settings: &mut Settings) {
    settings.entitlement = Some(EntitlementSettings {
        anonymous: Permissions { subscribe: vec!["public/#".into()], ..Permissions::default() },
        notice_before_s: 30,
        ..EntitlementSettings::default()
    });
    settings.allowed_origins = vec!["https://x".into()];
}

/// In a header, as an API key, in the query; each request by its own, on one connection.
#[test]
fn each_request_shows_its_own_credential() {
    script! { with_tokens, "
        a: GET /topics/a | Authorization: Bearer anna.h:a
            a: 200 {\"topic\":\"a\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        a: GET /topics/b | authorization: bearer anna.h:a
            a: 403 [www-authenticate: Bearer error=\"insufficient_scope\"] forbidden
        a: GET /topics/b | X-API-Key: ben.h:b
            a: 200 {\"topic\":\"b\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        a: GET /topics/c?token=carl.h%3Ac
            a: 200 {\"topic\":\"c\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        a: GET /topics/c => a: 401 [www-authenticate: Bearer] unauthorized
        a: GET /topics/a | Authorization: Bearer bad
            a: 401 [www-authenticate: Bearer error=\"invalid_token\"] unauthorized
        a: GET /topics/a | Authorization: Bearer
            a: 401 [www-authenticate: Bearer error=\"invalid_token\"] unauthorized
        a: GET /topics/a | Authorization: Bearer anna.h:a.x:0
            a: 401 [www-authenticate: Bearer error=\"invalid_token\"] token_expired
        a: GET /topics/a | Authorization: Basic eA==
            a: 401 [www-authenticate: Bearer] unauthorized
        a: GET /topics/a | X-API-Key: x*9000
            a: 401 [www-authenticate: Bearer error=\"invalid_token\"] unauthorized
        count connections questions entitlements => connections 1 questions 5 entitlements 0
    " }
}

/// Several credentials are ambiguous, so the request is refused.
#[test]
fn several_credentials_are_none() {
    script! { with_tokens, "
        a: GET /topics/a | Authorization: Bearer anna.all | X-API-Key: anna.all
            a: 400 [www-authenticate: Bearer error=\"invalid_request\"] malformed_request
        a: GET /topics/a?token=anna.all&token=anna.all
            a: 400 [www-authenticate: Bearer error=\"invalid_request\"] malformed_request
        a: GET /topics/a | Authorization: Bearer anna.all | Authorization: Bearer anna.all
            a: 400 [www-authenticate: Bearer error=\"invalid_request\"] malformed_request
        count questions => questions 0
    " }
}

/// Requests that were pipelined are authenticated one after the other, and answered in their order;
/// a page from another origin reads why it was refused.
#[test]
fn heads_wait_for_their_verdicts() {
    script! { with_tokens, "
        authenticator stop
        a: GET /topics/a | Origin: https://x | Authorization: Bearer bad
        a: POST /topics/a | Authorization: Bearer anna.p:a > hi
        a: POST /topics/b | Authorization: Bearer anna.p:a > hi
        count questions => questions 1
        authenticator go
            a: 401 [access-control-allow-origin: https://x] [www-authenticate: Bearer error=\"invalid_token\"] unauthorized
            a: 200 {\"epoch\":\"7\",\"offset\":1,\"duplicate\":false}
            a: 403 close [www-authenticate: Bearer error=\"insufficient_scope\"] forbidden, closed
        count questions published => questions 2 published 1
    " }
}

/// A question of a preflight is the browser's; it carries no credential.
#[test]
fn preflights_need_nothing() {
    script! { with_tokens, "
        a: OPTIONS /publish | Origin: https://x | Access-Control-Request-Headers: authorization, x-api-key
            a: 204 [access-control-allow-origin: https://x] [allow: POST, OPTIONS] [access-control-allow-methods: POST, OPTIONS] [access-control-max-age: 600] [access-control-allow-headers: authorization, x-api-key]
        count questions => questions 0
    " }
}

/// A batch is published only if all of it is permitted.
#[test]
fn publishing() {
    script! { with_tokens, "
        a: POST /publish | X-API-Key: anna.p:a/#.p:b > {\"topics\":[\"a\",\"a/b\",\"b\"],\"data\":1}
            a: 200 {\"results\":[{\"topic\":\"a\",\"epoch\":\"7\",\"offset\":1,\"duplicate\":false},{\"topic\":\"a/b\",\"epoch\":\"7\",\"offset\":2,\"duplicate\":false},{\"topic\":\"b\",\"epoch\":\"7\",\"offset\":3,\"duplicate\":false}]}
        a: POST /publish | X-API-Key: anna.p:a/#.p:b > [{\"topic\":\"a\",\"data\":1},{\"topic\":\"b/c\",\"data\":2}]
            a: 403 [www-authenticate: Bearer error=\"insufficient_scope\"] forbidden
        a: POST /publish > {\"topic\":\"public/a\",\"data\":1}
            a: 401 close [www-authenticate: Bearer] unauthorized, closed
        count published => published 3
    " }
}

/// A batch costs as much of the rate as it has messages, and one may go beyond it.
#[test]
fn publishing_too_fast() {
    script! { with_tokens, "
        a: POST /publish | X-API-Key: anna.p:a.r:2 > [{\"topic\":\"a\",\"data\":1},{\"topic\":\"a\",\"data\":2},{\"topic\":\"a\",\"data\":3},{\"topic\":\"a\",\"data\":4}]
            a: 200 {\"results\":[{\"topic\":\"a\",\"epoch\":\"7\",\"offset\":1,\"duplicate\":false},{\"topic\":\"a\",\"epoch\":\"7\",\"offset\":2,\"duplicate\":false},{\"topic\":\"a\",\"epoch\":\"7\",\"offset\":3,\"duplicate\":false},{\"topic\":\"a\",\"epoch\":\"7\",\"offset\":4,\"duplicate\":false}]}
        a: POST /topics/a | X-API-Key: anna.p:a.r:2 > 5 => a: 429 [retry-after: 2] rate_limited
        time +2s
        a: POST /topics/a | X-API-Key: anna.p:a.r:2 > 5
            a: 200 {\"epoch\":\"7\",\"offset\":5,\"duplicate\":false}
    " }
}

/// A token that ends between a head and the end of its body publishes nothing.
#[test]
fn a_body_that_outlives_its_token() {
    script! { with_tokens, "
        a: connect
        a: raw POST /topics/a HTTP/1.1\\r\\nHost: h\\r\\nX-API-Key: anna.p:a.x:5\\r\\nContent-Length: 2\\r\\n\\r\\nh
        time +6s
        a: bytes 69 => a: 401 [www-authenticate: Bearer error=\"invalid_token\"] token_expired
        count published => published 0
    " }
}

#[test]
fn echo_asks_for_any_credential() {
    script! { with_tokens, "
        a: connect echo => a: 401 [www-authenticate: Bearer] unauthorized
        b: connect echo token anna => b: 101
        b: text hi => b: text hi
    " }
}

/// Streams of one topic and of several; all of them have to be permitted.
#[test]
fn event_streams() {
    script! { with_tokens, "
        a: GET /topics/news | Accept: text/event-stream | X-API-Key: anna.s:other
            a: 403 [www-authenticate: Bearer error=\"insufficient_scope\"] forbidden
        a: GET /events?topic=a&topic=b%2F%23&token=anna.s:a
            a: 403 [www-authenticate: Bearer error=\"insufficient_scope\"] forbidden
        a: GET /events?topic=a&topic=b&token=anna.s:%23.n:1
            a: 429 [retry-after: 1] too_many_subscriptions
        a: GET /events?topic=a&topic=b%2F%23&token=anna.s:a.s:b/%23
            a: 200 close stream, retry 2000
            a: event crore.start {\"topic\":\"a\",\"position\":\"7:0\",\"complete\":true}
            a: event crore.start {\"topic\":\"b/#\",\"complete\":true}
            a: id 7:0,-/7:
        b: GET /topics/public/a | Accept: text/event-stream
            b: 200 close stream, retry 2000
            b: event crore.start id 7:0 {\"position\":\"7:0\",\"complete\":true}
        c: GET /topics/a?wait=20s => c: 401 [www-authenticate: Bearer] unauthorized
        c: GET /topics/public/a?wait=2s
        time +3s
            c: 200 {\"topic\":\"public/a\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
    " }
}

/// Told ahead, ended when it is time; a long poll is answered so.
#[test]
fn streams_and_polls_end_with_their_token() {
    script! { with_tokens, "
        a: GET /topics/news | Accept: text/event-stream | X-API-Key: anna.s:news.x:60
            a: 200 close stream, retry 2000
            a: event crore.start id 7:0 {\"position\":\"7:0\",\"complete\":true}
        b: GET /topics/news?wait=59s | X-API-Key: ben.s:news.x:20
        time +70s
            a: comment
            a: event crore.token_expires {\"expires_ms\":\"1060000\"}
            a: comment
            a: comment, closed
            b: 401 [www-authenticate: Bearer error=\"invalid_token\"] token_expired
        count expired entitlements => expired 2 entitlements 0
    " }
}

/// Polls and streams of a revoked credential end at once; a connection that waits for its next
/// request may stay.
#[test]
fn streams_and_polls_end_when_revoked() {
    script! { with_tokens, "
        a: GET /topics/news | Accept: text/event-stream | X-API-Key: anna.s:news
            a: 200 close stream, retry 2000
            a: event crore.start id 7:0 {\"position\":\"7:0\",\"complete\":true}
        b: GET /topics/news?wait=59s | X-API-Key: anna.s:news
        c: GET /topics/news | X-API-Key: anna.h:news
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":0,\"messages\":[],\"more\":false,\"cursor\":\"7:0\"}
        d: GET /topics/news | Accept: text/event-stream | X-API-Key: dora.s:news
            d: 200 close stream, retry 2000
            d: event crore.start id 7:0 {\"position\":\"7:0\",\"complete\":true}
        revoke anna
            a: closed
            b: 401 [www-authenticate: Bearer error=\"invalid_token\"] token_revoked
        c: GET /topics/news | X-API-Key: anna.h:news
            c: 401 [www-authenticate: Bearer error=\"invalid_token\"] token_revoked
        count revoked => revoked 2
    " }
}
