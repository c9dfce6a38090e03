//! Limits against abuse as scripts and transcripts: rates of a connection, errors in a minute,
//! clients behind proxies, and refusals when memory is short.

use crate::support::script;
use broker::settings::{PublishSettings, Settings};
use stdx::networks::Network;

#[test]
fn publications_in_a_second() {
    script! { |settings| settings.limits.publish_rate_max = 2, "
        a: session; publish 1 news one => a: published 1 7:1
        a: publish 2 news two => a: published 2 7:2
        a: publish 3 news three => a: error request 3 rate_limited limit 2
        b: POST /topics/news > four => b: 200 {\"epoch\":\"7\",\"offset\":3,\"duplicate\":false}
        b: POST /topics/news > five => b: 200 {\"epoch\":\"7\",\"offset\":4,\"duplicate\":false}
        b: POST /topics/news > six => b: 429 [retry-after: 1] rate_limited
        time +500ms
        a: publish 4 news seven => a: published 4 7:5
        a: publish 5 news eight => a: error request 5 rate_limited limit 2
        time +30s
        a: publish 6 news nine => a: published 6 7:6
        count publishes-too-fast => publishes-too-fast 3
    " }
}

#[test]
fn bytes_published_in_a_second() {
    script! { |settings| settings.limits.publish_bytes_rate_max = 1_000, "
        a: session; publish 1 news x*5000 => a: published 1 7:1
        a: publish 2 news x => a: error request 2 rate_limited limit 1000
        time +4s
        a: publish 3 news x*900 => a: error request 3 rate_limited limit 1000
        time +1s
        a: publish 4 news x*900 => a: published 4 7:2
    " }
}

#[test]
fn requests_in_a_second() {
    script! { |settings| settings.limits.requests_rate_max = 2, "
        c: GET /nowhere => c: 404 not_found
        c: GET /nowhere => c: 404 not_found
        c: GET /nowhere => c: 429 [retry-after: 1] rate_limited
        c: POST /topics/a > GET / HTTP/1.1 => c: 429 close [retry-after: 1] rate_limited, closed
        d: GET /nowhere => d: 404 not_found
        count requests-too-fast => requests-too-fast 2
    " }
}

#[test]
fn pings_in_a_second() {
    script! { |settings| settings.limits.ping_rate_max = 2, "
        a: session; ping 1 => a: pong 1
        a: control ping hi => a: control pong hi
        a: ping 2 => a: close 3509 error_flood, closed
        e: connect echo => e: 101
        e: control ping 1 => e: control pong 1
        time +10s
        e: control ping 2 => e: control pong 2
        count ping-floods connections => ping-floods 1 connections 1
    " }
}

#[test]
fn too_much_that_is_refused() {
    script! { |settings| settings.limits.errors_max = 3, "
        a: session; unsubscribe 1 2 3
            a: error subscription 1 unknown_subscription, subscription 2 unknown_subscription
            a: error subscription 3 unknown_subscription
        a: ping 1 => a: pong 1
        time +20s
        a: unsubscribe 4 => a: error subscription 4 unknown_subscription
        a: unsubscribe 5 6
            a: error subscription 5 unknown_subscription
            a: close 3509 error_flood, closed
        c: GET /nowhere => c: 404 not_found
        c: GET /nowhere => c: 404 not_found
        c: GET /nowhere => c: 404 not_found
        c: GET /nowhere => c: 404 close not_found, closed
        count error-floods connections => error-floods 2 connections 0
    " }
}

#[test]
fn filters_of_a_session() {
    script! { |settings| settings.limits.filters_per_session_max = 1, "
        a: session; subscribe 1 a/# live => a: subscribed 1 filter
        a: subscribe 2 b/# live => a: error subscription 2 too_many_filters limit 1
        a: subscribe 3 plain live => a: subscribed 3 through 7:0
        a: unsubscribe 1 => a: unsubscribed 1 0
        a: subscribe 4 b/# live => a: subscribed 4 filter
        count filters-too-many => filters-too-many 1
    " }
}

fn behind_proxies(settings: &mut Settings) {
    let networks = ["127.0.0.0/8", "10.0.0.0/8"];
    settings.addresses.trusted_proxies =
        networks.iter().filter_map(|text| Network::parse(text)).collect();
    settings.addresses.are_counted = true;
}

#[test]
fn clients_behind_a_proxy() {
    script! { behind_proxies, "
        shell refuses 192.0.2.7 2001:db8::7
        c: GET /nowhere | X-Forwarded-For: 192.0.2.7, 192.0.2.1, 10.0.0.1 => c: 404 not_found
        c: GET /nowhere | X-Forwarded-For: 192.0.2.1 => c: 404 not_found
        c: GET /nowhere => c: 404 not_found
        c: GET /nowhere | X-Forwarded-For: what | X-Forwarded-For: 192.0.2.1:80, 10.1.1.1
            c: 404 not_found
        count clients-unknown clients-refused => clients-unknown 0 clients-refused 0
        c: GET /nowhere | X-Forwarded-For: 192.0.2.7, what => c: 404 not_found
        c: GET /nowhere | X-Forwarded-For: 192.0.2.7
            c: 429 close [retry-after: 1] too_many_connections, closed
        d: GET /topics/a | X-Forwarded-For: [2001:db8::7]:99
            d: 429 close [retry-after: 1] too_many_connections, closed
        count clients-unknown clients-refused => clients-unknown 1 clients-refused 2
    " }
}

/// Clients that a trusted proxy does not name are in no network, and count as one client,
/// `0.0.0.0`.
#[test]
fn clients_that_no_proxy_names() {
    script! { |settings| {
        behind_proxies(settings);
        let everywhere = ["0.0.0.0/0", "::/0"];
        let from = PublishSettings {
            from: everywhere.into_iter().filter_map(Network::parse).collect(),
            ..PublishSettings::default()
        };
        settings.rules[0].publishing = Some(Box::new(from));
    }, "
        c: POST /topics/news | X-Forwarded-For: 192.0.2.1 > one
            c: 200 {\"epoch\":\"7\",\"offset\":1,\"duplicate\":false}
        c: POST /topics/news > two => c: 403 forbidden
        c: POST /topics/news | X-Forwarded-For: unknown > three => c: 403 forbidden
        c: POST /topics/news | X-Forwarded-For: 203.0.113.9:99999 > four => c: 403 forbidden
        c: POST /topics/news | X-Forwarded-For: 192.0.2.1 > five
            c: 200 {\"epoch\":\"7\",\"offset\":2,\"duplicate\":false}
        count clients-unknown => clients-unknown 2
        d: POST /topics/news > six => d: 403 forbidden
        shell refuses 0.0.0.0
        e: GET /nowhere => e: 429 close [retry-after: 1] too_many_connections, closed
    " }
}

#[test]
fn memory_runs_short_and_comes_back() {
    script! { |settings| settings.limits.outbox_len_max = 4, "
        a: session; subscribe 1 news live => a: subscribed 1 through 7:0
        p: session; publish 1 news one
            a: message 1 1<0 one
            p: published 1 7:1
        pressure 1
        b: session; subscribe 1 news since 7:0 => b: subscribed 1 through 7:0 continued replaying
        b: history 2 news => b: error request 2 memory_full
        c: GET /topics/news => c: 503 [retry-after: 1] memory_full
        c: GET /topics/news?wait=10s => c: 503 [retry-after: 1] memory_full
        p: publish 2 news two
            a: message 1 2<1 two
            p: published 2 7:2
        pressure 2
        b: subscribe 2 other live => b: error subscription 2 memory_full
        c: GET /events?topic=news => c: 503 [retry-after: 1] memory_full
        c: GET /echo | Upgrade: websocket | Connection: Upgrade | Sec-WebSocket-Version: 13 | Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==
            c: 503 [retry-after: 1] memory_full
        p: publish 3 news three
            a: message 1 3<2 three
            p: published 3 7:3
        pressure 3
        p: publish 4 news four => p: error request 4 memory_full
        c: POST /topics/news > five => c: 503 close [retry-after: 1] memory_full, closed
        pressure 2
        p: publish 5 news six
            a: message 1 4<3 six
            p: published 5 7:4
        pressure 0
            b: message 1 1<0 one, 2<1 two, 3<2 three, 4<3 six
            b: caught-up 1 through 4
        count histories-shed subscriptions-shed publishes-shed
            histories-shed 3 subscriptions-shed 3 publishes-shed 2
    " }
}
