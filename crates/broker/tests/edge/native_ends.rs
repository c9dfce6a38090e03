//! Native sessions as scripts and transcripts: history, refusals, liveness, endings. See
//! `edge_native` for how to read them.

use crate::support::{check, script};

#[test]
fn history() {
    script! { |settings| {
        settings.limits.page_records_max = 3;
        settings.rules[0].history_messages_max = 6;
    }, "
        a: session; history 1 news => a: history 1 head 0 []
        a: publish 0 news kept retain
        a: flood news 2..4, other 5..5, news 6..8
        a: history 2 news => a: history 2 head 8 [2<1 2, 3<2 3, 4<3 4] more
        a: history 3 news since 7:3 => a: history 3 head 8 [4<3 4, 6<4 6, 7<6 7] more
        a: history 4 news since 7:7 => a: history 4 head 8 [8<7 8]
        a: history 5 news since 7:8 => a: history 5 head 8 []
        a: history 6 news since 7:1 => a: history 6 head 8 [2<1 2, 3<2 3, 4<3 4] more
        a: history 7 news since 6:1
            a: history 7 head 8 gap 0..1 UnknownEpoch [2<1 2, 3<2 3, 4<3 4] more
        a: history 8 news since 7:9
            a: history 8 head 8 gap 0..1 BeyondHead [2<1 2, 3<2 3, 4<3 4] more
        a: history 9 news reverse => a: history 9 head 8 [8<7 8, 7<6 7, 6<4 6] more reverse
        a: history 10 news reverse since 7:4 => a: history 10 head 8 [3<2 3, 2<1 2] reverse
        a: history 11 news reverse since 6:4
            a: history 11 head 8 gap 0..8 UnknownEpoch [8<7 8, 7<6 7, 6<4 6] more reverse
        a: history 12 news max 1 => a: history 12 head 8 [2<1 2] more
        a: history 13 none since 7:1 => a: history 13 head 8 []
        a: history 14 a/+ => a: error request 14 malformed_topic
    " }
}

#[test]
fn refused_publications() {
    script! { |settings| {
        settings.limits.message_bytes_max = 100;
        settings.limits.topics_max = 2;
        settings.logs[0].retained_bytes_max = 200;
    }, "
        a: session; publish 1 news x*100 => a: published 1 7:1
        a: publish 2 news x*101 => a: error request 2 message_too_large limit 100
        a: publish 3 a/+ x => a: error request 3 malformed_topic
        a: publish 0 a/# x => a: error request 0 malformed_topic
        a: publish 4 b x*90 retain => a: published 4 7:2
        a: publish 5 news x*90 retain => a: error request 5 retained_full
        a: publish 6 news small => a: published 6 7:3
        a: publish 7 third x => a: error request 7 topics_full
        a: publish 0 third x => a: error request 0 topics_full
        a: publish 0 news y; publish 8 b empty retain => a: published 8 7:5
        a: publish 9 news x*90 retain => a: published 9 7:6
    " }
}

/// Understood and refused by name; the connection stays.
#[test]
fn options_that_are_not_served() {
    script! { "
        a: session 0 ticket forged => a: error connection ticket_refused
        a: ticket 9 => a: error request 9 unsupported_frame
        a: subscribe 2 a/# each 0 7:1, 3 news each 0 7:1, 4 news
            a: error subscription 3 unsupported_start
            a: subscribed 2 filter
            a: gap 2 partition 0 0..0 BeyondHead
            a: subscribed 4 through 7:0
    " }
}

#[test]
fn signs_of_life() {
    script! { |settings| settings.limits.ping_interval_s = 30, "
        a: session 60
        b: connect native
            b: 101 crore.v1
            b: welcome ping 30s
        c: session 1 => c: welcome ping 5s
        a: ping 77 => a: pong 77
        a: control ping hi => a: control pong hi
        c: control pong hi
        time +20s
            c: ping 1005
            c: close 3004 ping_timeout, closed
        b: pong 1
        time +20s
        a: pong 1
        b: pong 1
        time +40s => b: ping 1070
        b: pong 1
        time +50s
            a: ping 1100
            b: ping 1110
        time +20s => b: close 3004 ping_timeout, closed
        count pings ping-timeouts connections => pings 4 ping-timeouts 2 connections 1
    " }
}

/// Connections that came together are not pinged together.
#[test]
fn pings_are_spread() {
    script! { |settings| settings.limits.ping_interval_s = 80, "
        a: connect native
            a: 101 crore.v1
            a: welcome ping 80s
        b: connect native
            b: 101 crore.v1
            b: welcome ping 80s
        c: connect native
            c: 101 crore.v1
            c: welcome ping 80s
        d: connect native
            d: 101 crore.v1
            d: welcome ping 80s
        time +72s => b: ping 1071
        time +4s
        time +4s
            a: ping 1080
            c: ping 1078
            d: ping 1079
        time +80s
            a: close 3004 ping_timeout, closed
            b: close 3004 ping_timeout, closed
            c: close 3004 ping_timeout, closed
            d: close 3004 ping_timeout, closed
        time +5s
        count pings ping-timeouts connections => pings 4 ping-timeouts 4 connections 0
    " }
}

#[test]
fn no_pings() {
    script! { |settings| settings.limits.ping_interval_s = 0, "
        a: connect native
            a: 101 crore.v1
            a: welcome ping 0s
        time +200s
        b: session 5 => b: welcome ping 5s
        time +9s => b: ping 1205
    " }
}

/// The first request, and then HELLO, have to come in time.
#[test]
fn handshake_timeout() {
    script! { "
        a: connect
        b: connect ws => b: 101 crore.v1
        c: connect; raw GET /crore HTTP/1.1\\r\\nHost:
        d: session
        e: connect echo => e: 101
        time +9s
        f: connect ws => f: 101 crore.v1
        time +2s
            a: 408 close request_timeout, closed
            b: close 3005 handshake_timeout, closed
            c: 408 close request_timeout, closed
        count handshake-timeouts connections => handshake-timeouts 3 connections 3
        time +7s
        time +2s => f: close 3005 handshake_timeout, closed
    " }
}

#[test]
fn close_codes() {
    script! { |settings| settings.limits.frame_bytes_max = 1_000, "
        only binary
        a: session; close 1000 bye => a: close 1000, closed
        a: session; close => a: close, closed
        a: session; text hello => a: close 1003 native frames are binary messages, closed
        a: session
        a: binary x*1001 => a: close 1009 payload of 1001 bytes over the limit of 1000, closed
        a: session; bytes c1 80 01020304 => a: close 1002 reserved bits 0x40 set, closed
        a: session; bytes 82 01 00 => a: close 1002 frame from a client is not masked, closed
        a: session
        a: bytes 80 80 01020304 => a: close 1002 continuation frame without a message, closed
        a: session; bytes 88 81 01020304 00 => a: close 1002 close payload of one byte, closed
        a: session; bytes 88 83 00000000 03e8ff => a: close 1007 close reason is not UTF-8, closed
        a: session; bytes 81 81 00000000 ff => a: close 1007 text is not UTF-8, closed
        a: session; end => a: closed
        a: connect ws => a: 101 crore.v1
        a: end => a: closed
        count connections sessions => connections 0 sessions 0
    " }
}

#[test]
fn malformed_frames() {
    script! { "
        only binary
        a0: session; frame
            a0: error connection malformed_frame
            a0: close 3500 protocol_error, closed
        a1: session; frame 04
            a1: error connection malformed_frame
            a1: close 3500 protocol_error, closed
        a2: session; frame 0c 00
            a2: error connection unsupported_frame
            a2: close 3505 unsupported_frame, closed
        a3: session; frame 07 01 07
            a3: error connection unsupported_option
            a3: close 3506 unsupported_option, closed
        a4: session; frame 07 00 8700
            a4: error connection malformed_varint
            a4: close 3500 protocol_error, closed
        a5: session; frame 07 00 07 00
            a5: error connection malformed_frame
            a5: close 3500 protocol_error, closed
        a6: session; frame 02 00 01 01 00 01 ff 00
            a6: error connection malformed_utf8
            a6: close 3500 protocol_error, closed
        a7: session; frame 02 00 01 01 00 00 00 => a7: error subscription 1 malformed_topic
        a8: session; frame 02 00 02 01 40 01 61 00  02 00 01 62 00
            a8: error connection unsupported_option
            a8: close 3506 unsupported_option, closed
        a9: session; frame 02 00 02 03 80 01 63 00 01 07 01 04 04 80 01 64 00 01 09 00
            a9: error subscription 3 unsupported_option, subscription 4 unsupported_option
        a10: session; frame 04 80 09 01 61 01 0b 00 => a10: error request 9 malformed_parameter
        a10: publish 10 a x producer p 0 => a10: error request 10 malformed_parameter
        a11: session; frame 04 00 09 8002
            a11: error connection malformed_frame
            a11: close 3500 protocol_error, closed
        a12: session; frame 05 04 01 01 61 00 00
            a12: error connection unsupported_option
            a12: close 3506 unsupported_option, closed
        a13: session; frame 06 00 01 8080808010
            a13: error connection malformed_frame
            a13: close 3500 protocol_error, closed
        a14: session; frame 81 00
            a14: error connection unsupported_frame
            a14: close 3505 unsupported_frame, closed
        count connections => connections 3
    " }
}

#[test]
fn malformed_hellos() {
    script! { "
        only binary
        b0: connect ws => b0: 101 crore.v1
        b0: frame 01 00 02 00
            b0: error connection unsupported_version
            b0: close 3501 unsupported_version, closed
        b1: connect ws => b1: 101 crore.v1
        b1: frame 01 80 01 00 01 65 00
            b1: error connection unsupported_option
            b1: close 3506 unsupported_option, closed
        b2: connect ws => b2: 101 crore.v1
        b2: frame 01 00 01
            b2: error connection malformed_frame
            b2: close 3500 protocol_error, closed
        b3: connect ws => b3: 101 crore.v1
        b3: frame 01 80 01 00 01 02 01 61 => b3: welcome ping 60s
        count connections => connections 1
    " }
}

/// Frames after a refused one are dropped.
#[test]
fn behind_the_end() {
    script! { "
        only binary
        a: session; bytes 8184 00000000 74657874 8283 00000000 070007
            a: close 1003 native frames are binary messages, closed
        a: connect ws => a: 101 crore.v1
        a: bytes 8283 00000000 070007 8284 00000000 01000100
            a: error connection hello_required
            a: close 3504 hello_required, closed
    " }
}

#[test]
fn go_away() {
    script! { |settings| settings.limits.ping_interval_s = 10, "
        a: connect native
            a: 101 crore.v1
            a: welcome ping 10s
        b: connect native
            b: 101 crore.v1
            b: welcome ping 10s
        c: connect ws => c: 101 crore.v1
        d: connect echo => d: 101
        e: connect
        a: block
        drain 100000
            b: go-away 3001 return after 61803 ms
            c: close 3000 shutdown, closed
            d: close 3000 shutdown, closed
            e: closed
        a: open => a: go-away 3001 return after 0 ms
        f: connect native => f: 503 close [retry-after: 1] shutting_down, closed
        time +1s
            a: close 3001 going_away, closed
            b: close 3001 going_away, closed
        count connections => connections 0
    " }
}

/// Sessions with many subscriptions find them as those with few.
#[test]
fn many_subscriptions() {
    let list = |last: u32, text: fn(u32) -> String, separator: &str| {
        (1..=last).map(text).collect::<Vec<_>>().join(separator)
    };
    let items = list(100, |n| format!("{n} t{n}"), ", ");
    let subscribed = list(100, |n| format!("            a: subscribed {n} through 7:0"), "\n");
    let numbers = list(99, |n| n.to_string(), " ");
    let unsubscribed = list(99, |n| format!("            a: unsubscribed {n} 0"), "\n");
    check(&format!(
        "
        b, a: session
        a: subscribe {items}, 101 x/#
{subscribed}
            a: subscribed 101 filter
        a: subscribe 50 new, 200 t50, 201 x/#, 202 t100
            a: error subscription 50 already_subscribed, subscription 201 already_subscribed
            a: error subscription 200 already_subscribed, subscription 202 already_subscribed
        a: unsubscribe {numbers} 150
{unsubscribed}
            a: error subscription 150 unknown_subscription
        a: subscribe 50 t50, 1 x/1 => a: subscribed 50 through 7:0, 1 through 7:0
        b: publish 0 t50 again => a: message 50 1<0 again
        b: publish 0 t100 kept => a: message 100 2<0 kept
        b: publish 0 x/1 both
            a: message 1 3<0 both
            a: named x/1 3<0 both
        a: unsubscribe 101 => a: unsubscribed 101 0
        a: subscribe 102 x/# => a: subscribed 102 filter
        count subscriptions filters => subscriptions 4 filters 1
        a: reset
        c: session
        c: unsubscribe 50 => c: error subscription 50 unknown_subscription
        c: subscribe 50 t50 => c: subscribed 50 through 7:3
        count subscriptions filters => subscriptions 1 filters 0
        "
    ));
}
