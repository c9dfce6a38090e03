//! Unfinished input as scripts and transcripts: who may keep how much, for how long, and who ends
//! where it is too much.

use crate::support::{check, check_with, script};
use broker::entitlement::Permissions;
use broker::settings::{CompressionSettings, EntitlementSettings, Settings};

/// Clients without a token may publish and subscribe to `public/#`.
fn with_tokens(settings: &mut Settings) {
    settings.entitlement = Some(EntitlementSettings {
        anonymous: Permissions {
            publish: vec!["public/#".into()],
            subscribe: vec!["public/#".into()],
            ..Permissions::default()
        },
        ..EntitlementSettings::default()
    });
}

/// A client without any permission to publish is refused at the head of its request; its body is
/// not read.
#[test]
fn an_envelope_is_refused_at_its_head() {
    script! { |settings| settings.entitlement = Some(EntitlementSettings::default()), "
        large reads
        a: connect; raw POST /publish HTTP/1.1\\r\\nHost: h\\r\\nContent-Length: 2000000\\r\\n\\r\\n
            a: 401 close [www-authenticate: Bearer] unauthorized, closed
        b: connect
        b: raw POST /publish HTTP/1.1\\r\\nHost: h\\r\\nAuthorization: Bearer anna.s:a\\r\\nContent-Length: 2000000\\r\\n\\r\\n
            b: 403 close [www-authenticate: Bearer error=\"insufficient_scope\"] forbidden, closed
        c: connect
        c: raw POST /publish HTTP/1.1\\r\\nHost: h\\r\\nAuthorization: Bearer anna.p:a\\r\\nContent-Length: 25\\r\\n\\r\\n{\"topic\":\"a\",
        count connections kept forbidden => connections 1 kept 26 forbidden 2
        c: raw \"data\":\"hi\"} => c: 200 {\"epoch\":\"7\",\"offset\":1,\"duplicate\":false}
        count kept => kept 0
    " }
}

/// Without an accepted credential bodies and messages are short, even where publishing is
/// permitted.
#[test]
fn without_a_credential_input_is_short() {
    script! { with_tokens, "
        only binary
        large reads
        a: connect; raw POST /topics/public/a HTTP/1.1\\r\\nHost: h\\r\\nContent-Length: 32769\\r\\n\\r\\n
            a: 413 close message_too_large, closed
        b: connect; raw POST /publish HTTP/1.1\\r\\nHost: h\\r\\nContent-Length: 32769\\r\\n\\r\\n
            b: 413 close message_too_large, closed
        c: POST /topics/public/a > x*32768 => c: 200 {\"epoch\":\"7\",\"offset\":1,\"duplicate\":false}
        c: POST /topics/b | Authorization: Bearer anna.p:b > x*40000
            c: 200 {\"epoch\":\"7\",\"offset\":2,\"duplicate\":false}
        d: session; publish 1 public/a x*24576 => d: published 1 7:3
        d: publish 2 public/a x*24577 => d: error request 2 message_too_large limit 24576
        d: publish 3 public/a x*32768
            d: close 1009 payload of 32780 bytes over the limit of 32768, closed
        e: session token anna.p:b; publish 1 b x*40000 => e: published 1 7:4
    " }
}

/// A client sends at most 32 KiB before HELLO, also without tokens, also compressed.
#[test]
fn before_hello_input_is_short() {
    script! { |settings| {
        settings.compression = Some(CompressionSettings {
            bytes_min: 64,
            level: 1,
        });
    }, "
        large reads
        a: connect ws => a: 101 crore.v1
        a: bytes 82fe 8001 00000000
            a: close 1009 payload of 32769 bytes over the limit of 32768, closed
        b: connect ws => b: 101 crore.v1
        b: bytes 02fe 8000 00000000 00*32768
        b: bytes 8081 00000000 00 => b: close 1009 message over the limit of 32768 bytes, closed
        c: connect packed-ws
            c: 101 crore.v1 [sec-websocket-extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover]
        c: packed publish 0 news a*40000
            c: close 1009 message inflates to more than 32768 bytes, closed
    " }
}

/// Input that stops, or drips, ends within twice the timeout; faster input may continue.
#[test]
fn unfinished_input_goes_on_or_ends() {
    script! { |settings| {
        settings.limits.unfinished_input_timeout_ms = 4_000;
        settings.limits.ping_interval_s = 0;
    }, "
        large reads
        a: connect native
            a: 101 crore.v1
            a: welcome ping 0s
        a: bytes 82fe 2710 00000000 6161
        b: connect echo => b: 101
        b: bytes 0182 00000000 6161
        c: connect native
            c: 101 crore.v1
            c: welcome ping 0s
        c: bytes 82ff 0000000000010000 00000000 6161
        d: POST /topics/a > hi => d: 200 {\"epoch\":\"7\",\"offset\":1,\"duplicate\":false}
        d: raw POST /topics/a HTTP/1.1\\r\\nContent-Length: 50\\r\\n
        e: connect; raw POST /topics/a HTTP/1.1\\r\\nHost: h\\r\\nContent-Length: 50\\r\\n\\r\\n123
        f: connect native
            f: 101 crore.v1
            f: welcome ping 0s
        time +2s
        a: bytes 61
        b: bytes 0082 00000000 6161
        c: bytes 61*5000
        d: raw Host: h\\r\\n
        e: raw 4
        time +1s
        a: bytes 61
        b: bytes 0082 00000000 6161
        c: bytes 61*5000
        time +3s
            a: close 3010 input_timeout, closed
            b: close 3010 input_timeout, closed
            d: 408 close request_timeout, closed
            e: 408 close request_timeout, closed
        count input-timeouts connections => input-timeouts 4 connections 2
        c: bytes 61*5000
        time +4s
        time +8s => c: close 3010 input_timeout, closed
        count input-timeouts connections kept => input-timeouts 5 connections 1 kept 0
    " }
}

/// A client that always has a frame under way and completes one now and then does nothing wrong.
#[test]
fn a_whole_frame_begins_the_time_anew() {
    script! { |settings| {
        settings.limits.unfinished_input_timeout_ms = 4_000;
        settings.limits.ping_interval_s = 0;
    }, "
        large reads
        b: connect echo => b: 101
        b: bytes 8182 00000000 61
        time +3s
        b: bytes 61 8182 00000000 62 => b: text aa
        time +3s
        b: bytes 62 8182 00000000 63 => b: text bb
        time +3s
        b: bytes 63 => b: text cc
        time +30s
        count input-timeouts connections kept => input-timeouts 0 connections 1 kept 0
    " }
}

/// A connection that the node does not read cannot go on.
#[test]
fn time_stands_still_while_the_node_does_not_read() {
    script! { |settings| {
        settings.limits.unfinished_input_timeout_ms = 2_000;
        settings.limits.requests_inflight_max = 1;
    }, "
        large reads
        a: session
        homes stop
        a: publish 1 news hi
        a: bytes 82fe 2710 00000000 6161
        time +20s
        count input-timeouts connections => input-timeouts 0 connections 1
        homes go => a: published 1 7:1
        time +10s => a: close 3010 input_timeout, closed
    " }
}

/// If all buffers together are too large, the largest is closed, not the one that happens to grow;
/// buffers count with their capacity.
#[test]
fn the_largest_holder_ends_first() {
    script! { |settings| settings.limits.pinned_bytes_max = 9_500, "
        only binary
        large reads
        a: session; bytes 82fe 2710 00000000 61*2492
        b: connect; raw POST /topics/a HTTP/1.1\\r\\nHost: h\\r\\nContent-Length: 3000\\r\\n\\r\\n1
        c: connect echo => c: 101
        c: bytes 0182 00000000 6161
        count kept => kept 5004
        d: session; bytes 82fe 2710 00000000 61*2392 => a: reset
        count kept input-closed => kept 4804 input-closed 1
        d: bytes 61*7608
            d: error connection unsupported_frame
            d: close 3505 unsupported_frame, closed
        c: bytes 8082 00000000 6161 => c: text aaaa
        count kept input-closed connections => kept 2 input-closed 1 connections 2
    " }
}

/// Hoarders without a token go before those with one as soon as they have more than their part.
#[test]
fn without_a_credential_connections_end_first() {
    script! { |settings| {
        with_tokens(settings);
        settings.limits.pinned_bytes_max = 40_000;
    }, "
        large reads
        a: connect
        a: raw POST /topics/b HTTP/1.1\\r\\nHost: h\\r\\nAuthorization: Bearer anna.p:b\\r\\nContent-Length: 30000\\r\\n\\r\\n
        a: bytes 61*15000
        b: session; bytes 82fe 7000 00000000 61*3992
        count kept => kept 38000
        c: session; bytes 82fe 7000 00000000 61*2492 => b: reset
        count kept input-closed => kept 35000 input-closed 1
        a: bytes 61*15000 => a: 200 {\"epoch\":\"7\",\"offset\":1,\"duplicate\":false}
    " }
}

/// A request is bounded by the bytes that it appends, not by those that it sends.
#[test]
fn the_sum_of_a_request() {
    let (one, two, three) = ("A".repeat(264), "A".repeat(268), "A".repeat(668));
    let results = ["a", "b", "c", "d", "e"].iter().zip(1..).map(|(topic, offset)| {
        format!("{{\"topic\":\"{topic}\",\"epoch\":\"7\",\"offset\":{offset},\"duplicate\":false}}")
    });
    let results = results.collect::<Vec<_>>().join(",");
    check_with(
        |settings| settings.limits.request_bytes_max = 1_000,
        &format!(
            "
        a: POST /publish > {{\"topics\":[\"a\",\"b\",\"c\",\"d\",\"e\"],\"b64data\":\"{one}\"}}
            a: 200 {{\"results\":[{results}]}}
        a: POST /publish > {{\"topics\":[\"a\",\"b\",\"c\",\"d\",\"e\"],\"b64data\":\"{two}\"}}
            a: 413 request_too_large
        a: POST /publish > [{{\"topic\":\"a\",\"b64data\":\"{three}\"}},{{\"topic\":\"b\",\"b64data\":\"{three}\"}}]
            a: 413 request_too_large
        a: POST /publish > {{\"topics\":[\"a\",\"b\",\"a\"],\"data\":1}} => a: 400 repeated_topic
        count published => published 5
        "
        ),
    );
}

/// A list of topics is bounded like a list of messages.
#[test]
fn topics_are_counted() {
    let topics = (0..1_001).map(|number| format!("\"t{number}\"")).collect::<Vec<_>>();
    check(&format!(
        "
        a: POST /publish > {{\"topics\":[{}],\"data\":1}} => a: 400 too_many_topics
        count published => published 0
        ",
        topics.join(",")
    ));
}
