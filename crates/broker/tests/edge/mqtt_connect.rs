//! MQTT: the beginning and the end of connections.

use crate::support::mqtt::on;
use crate::support::script;
use broker::entitlement::Permissions;
use broker::settings::{EntitlementSettings, Settings};

fn with_tokens(settings: &mut Settings) {
    on(settings);
    settings.entitlement = Some(EntitlementSettings {
        anonymous: Permissions::default(),
        notice_before_s: 60,
        ..EntitlementSettings::default()
    });
}

fn with_users(settings: &mut Settings) {
    with_tokens(settings);
    let entitlement = settings.entitlement.as_mut().unwrap();
    entitlement.takes_passwords = true;
}

/// It answers as to a request of HTTP that cannot be read.
#[test]
fn a_node_without_mqtt_does_not_know_it() {
    script! { "
        a: connect
        a: mqtt connect anna => a: 400 close malformed_request, closed
    " }
}

/// The time for the handshake holds for CONNECT.
#[test]
fn a_connect_that_does_not_come() {
    script! { on, "
        a: connect mqtt
        a: mqtt raw 10
        b: connect mqtt-ws => b: 101 mqtt
        c: connect
        time +11s
            a: closed
            b: closed
            c: 408 close request_timeout, closed
        count connections handshake-timeouts => connections 0 handshake-timeouts 3
    " }
    script! { on, "
        homes stop
        a: mqtt connect anna
        time +11s => a: closed
        homes go
        count connections handshake-timeouts mqtt-sessions
            connections 0 handshake-timeouts 1 mqtt-sessions 0
    " }
}

#[test]
fn all_versions_begin_with_connect() {
    script! { on, "
        a: mqtt connect anna => a: connack 0
        b: mqtt connect ben v3 clean => b: connack 0
        c: mqtt connect carl v31 clean => c: connack 0
        a: mqtt ping => a: pingresp
        b: mqtt ping => b: pingresp
        c: mqtt ping => c: pingresp
        count mqtt-sessions connections => mqtt-sessions 3 connections 3
        a: mqtt disconnect => a: closed
        b: mqtt disconnect => b: closed
        c: end => c: closed
        count mqtt-sessions connections sleeping protocol-errors
            mqtt-sessions 0 connections 0 sleeping 0 protocol-errors 0
    " }
}

#[test]
fn the_first_packet_is_connect() {
    script! { on, "
        a: connect mqtt
        a: mqtt ping => a: closed
        b: connect mqtt
        b: mqtt pub 0 news hi => b: closed
        c: connect mqtt
        c: mqtt sub 1 news 0 => c: closed
        d: connect mqtt
        d: mqtt raw 20 02 00 00 => d: closed
        e: connect mqtt
        e: mqtt raw 10 04 00 01 58 05 => e: closed
        count protocol-errors connections => protocol-errors 5 connections 0
    " }
}

/// A client of an unknown version gets the reason code.
#[test]
fn unknown_versions_are_refused() {
    script! { on, "
        a: connect mqtt
        a: mqtt raw 10 0f 00 04 4d515454 06 02 0000 00 0002 6161 => a: connack 0x84, closed
        b: connect mqtt
        b: mqtt version v3
        b: mqtt raw 10 0e 00 04 4d515454 02 02 0000 0002 6161 => b: connack 0x84, closed
        count protocol-errors => protocol-errors 2
    " }
}

#[test]
fn a_malformed_connect_ends_the_connection() {
    script! { on, "
        a: connect mqtt
        a: mqtt raw 10 0e 00 04 4d515454 04 03 0000 0002 6161 => a: closed
        b: connect mqtt
        b: mqtt raw 10 0f 00 04 4d515454 05 1e 0000 00 0002 6161 => b: closed
        c: connect mqtt
        c: mqtt raw 10 ff ff ff ff => c: closed
        count protocol-errors connections => protocol-errors 3 connections 0
    " }
}

#[test]
fn a_second_connect_ends_the_connection() {
    script! { on, "
        a: mqtt connect anna => a: connack 0
        a: mqtt connect anna => a: closed
        b: mqtt connect ben v3 clean => b: connack 0
        b: mqtt connect ben v3 clean => b: closed
        c: connect mqtt
        c: mqtt connect carl | connect carl => c: connack 0, closed
        count protocol-errors connections sleeping => protocol-errors 3 connections 0 sleeping 0
    " }
}

#[test]
fn rules_of_client_ids() {
    script! { on, "
        a: mqtt connect none => a: connack 0 {assigned auto-}
        b: mqtt connect none v3 clean => b: connack 0
        c: mqtt connect none v3 => c: connack 0x85, closed
        d: mqtt connect none v31 clean => d: connack 0x85, closed
        e: mqtt connect long => e: connack 0x85, closed
        f: mqtt connect long v3 => f: connack 0x85, closed
        g: mqtt connect a/b/# => g: connack 0
        h: mqtt connect none expiry=9 => h: connack 0 {assigned auto-}
        count mqtt-sessions => mqtt-sessions 4
    " }
}

/// A client is lost after one and a half intervals; any packet keeps it.
#[test]
fn keep_alive_ends_silent_connections() {
    script! { on, "
        a: mqtt connect anna keep=10 will=gone=anna => a: connack 0
        b: mqtt connect ben v3 keep=10 clean => b: connack 0
        w: session; subscribe 1 gone => w: subscribed 1 through 7:0
        time +14s
        b: mqtt ping => b: pingresp
        time +3s
            a: disconnect 0x8d, closed
            w: message 1 1<0 anna
        time +10s
        b: mqtt puback 9
        time +14s
        time +3s => b: closed
        count connections => connections 1
    " }
    script! { |settings: &mut Settings| { on(settings); settings.mqtt.keep_alive_max_s = 20; }, "
        a: mqtt connect anna => a: connack 0 {keep 20}
        b: mqtt connect ben keep=5 => b: connack 0
        c: mqtt connect carl keep=60 => c: connack 0 {keep 20}
        d: mqtt connect dora v3 clean => d: connack 0
        time +25s => b: disconnect 0x8d, closed
        time +10s
            a: disconnect 0x8d, closed
            c: disconnect 0x8d, closed
    " }
}

#[test]
fn a_blocked_client_is_lost_after_its_keep_alive() {
    script! { on, "
        a: mqtt connect anna keep=10 => a: connack 0
        a: block
        a: mqtt ping
        time +60s => a: reset
        count connections => connections 0
    " }
}

#[test]
fn credentials_are_passwords() {
    script! { with_tokens, "
        a: mqtt connect anna password=anna.s:news.p:news => a: connack 0
        b: mqtt connect ben password=bad.x.y => b: connack 0x87, closed
        c: mqtt connect ben v3 clean password=bad => c: connack 0x87, closed
        d: mqtt connect carl => d: connack 0x87, closed
        e: mqtt connect carl v3 clean => e: connack 0x87, closed
        f: mqtt connect dora password=dora.all.x:0 => f: connack 0x86, closed
        revoke eva
        g: mqtt connect eva password=eva.all.j:1 => g: connack 0x86, closed
        count mqtt-sessions credentials-refused connections
            mqtt-sessions 1 credentials-refused 4 connections 1
    " }
}

/// On a node with users, a name and a password are one credential.
#[test]
fn users_have_passwords() {
    script! { with_users, "
        a: mqtt connect one user=anna password=s:u/{sub}.p:news => a: connack 0
        b: mqtt connect two user=bad password=all => b: connack 0x87, closed
        c: mqtt connect three v3 clean user=carl password=s:news => c: connack 0
        d: mqtt connect four user=dora => d: connack 0x87, closed
        a: mqtt sub 1 u/anna 1 => a: suback 1 1
        a: mqtt sub 2 u/carl 1 => a: suback 2 0x87
        e: mqtt connect one user=eve password=all => e: connack 0x85, closed
        revoke anna => a: disconnect 0x87, closed
        count mqtt-sessions connections => mqtt-sessions 1 connections 1
    " }
}

/// Packets behind CONNECT wait with it.
#[test]
fn a_connect_waits_for_the_decision() {
    script! { with_tokens, "
        authenticator stop
        a: mqtt connect anna password=anna.all.x:60 | sub 1 news 1 | pub 1 news hi id=9
        b: mqtt connect ben v3 clean password=bad.x.y
        c: mqtt connect carl password=carl.all.x:60
        c: reset
        authenticator go
            a: connack 0
            a: suback 1 1
            a: puback 9
            a: publish news q1 id 1 hi
            b: connack 0x87, closed
        count mqtt-sessions kept => mqtt-sessions 1 kept 0
        authenticator stop
        d: mqtt connect dora password=dora.all.x:70
        time +11s => d: closed
        authenticator go
        count connections => connections 1
    " }
}

#[test]
fn a_token_that_ends_closes_the_connection() {
    script! { with_tokens, "
        a: mqtt connect anna password=anna.all.x:60 => a: connack 0
        b: mqtt connect ben v3 clean password=ben.all.x:60 => b: connack 0
        c: mqtt connect carl password=carl.all.j:7 => c: connack 0
        time +58s
        time +4s
            a: disconnect 0x87, closed
            b: closed
        revoke 7 => c: disconnect 0x87, closed
        count connections => connections 0
    " }
}

/// The name in a verified certificate is a credential where the client shows no other.
#[test]
fn certificates_are_credentials() {
    script! { with_tokens, r#"
        a: connect mqtt certified anna.s:u/{sub}
        a: mqtt connect one => a: connack 0
        a: mqtt sub 1 u/anna 1 => a: suback 1 1
        a: mqtt sub 2 u/ben 1 => a: suback 2 0x87
        b: connect mqtt certified ben.all
        b: mqtt connect two user=ben => b: connack 0
        c: connect mqtt certified carl.all
        c: mqtt connect three password=bad.x.y => c: connack 0x87, closed
        d: connect mqtt certified dora.all
        d: mqtt connect four password=eva.s:news => d: connack 0
        d: mqtt sub 1 u/dora 1 => d: suback 1 0x87
        e: connect certified eve.h:news
        e: GET /topics/news
            e: 200 {"topic":"news","epoch":"7","head":0,"messages":[],"more":false,"cursor":"7:0"}
        e: GET /topics/other
            e: 403 [www-authenticate: Bearer error="insufficient_scope"] forbidden
        revoke anna => a: disconnect 0x87, closed
        f: mqtt connect one password=fay.all => f: connack 0
        count mqtt-sessions => mqtt-sessions 3
    "# }
}

#[test]
fn other_methods_of_authentication_are_refused() {
    script! { on, "
        a: mqtt connect anna method=SCRAM => a: connack 0x8c, closed
        b: mqtt connect ben => b: connack 0
        b: mqtt raw f0 00 => b: disconnect 0x82, closed
        c: mqtt connect carl => c: connack 0
        c: mqtt auth 0x19 data=x => c: disconnect 0x82, closed
        d: connect mqtt
        d: mqtt auth 0x19 data=x => d: closed
    " }
}

/// Section 4.12: the token of a live connection is replaced.
#[test]
fn a_connection_continues_with_a_new_token() {
    script! { with_tokens, "
        a: mqtt connect anna method=crore-jwt data=anna.s:news.p:news.x:60
            a: connack 0 {method crore-jwt}
        a: mqtt sub 1 news 1 => a: suback 1 1
        a: mqtt auth 0x19 data=anna.all.x:200 => a: auth 0 {method crore-jwt}
        time +70s
        a: mqtt pub 1 other hi id=1 => a: puback 1 0x10
        a: mqtt pub 1 news hi id=2
            a: puback 2
            a: publish news q1 id 1 hi
        authenticator stop
        a: mqtt auth 0x19 data=anna.s:news.p:news.x:300 | pub 1 news hi id=3
        authenticator go
            a: auth 0 {method crore-jwt}
            a: puback 3
            a: publish news q1 id 2 hi
        a: mqtt pub 1 other hi id=4 => a: puback 4 0x87
        count renewals mqtt-sessions => renewals 2 mqtt-sessions 1
    " }
}

/// A refused renewal ends the connection; its session sleeps.
#[test]
fn renewals_of_tokens_that_are_refused() {
    script! { with_tokens, "
        a: mqtt connect a method=crore-jwt data=bad => a: connack 0x87, closed
        b: mqtt connect b method=crore-jwt => b: connack 0x87, closed
        c: mqtt connect c method=crore-jwt data=anna.all expiry=60
            c: connack 0 {method crore-jwt}
        c: mqtt sub 1 news 1, $share/g/other 1 => c: suback 1 1 1
        c: mqtt auth 0x19 data=bad => c: disconnect 0x87, closed
        c: mqtt connect c method=crore-jwt data=anna.all expiry=60
            c: connack 0 present {method crore-jwt}
        c: mqtt auth 0x19 data=ben.all => c: disconnect 0x87, closed
        c: mqtt connect c method=crore-jwt data=anna.all expiry=60
            c: connack 0 present {method crore-jwt}
        c: mqtt auth 0x19 data=anna.s:news => c: disconnect 0x87, closed
        c: mqtt connect c method=crore-jwt data=anna.all expiry=60
            c: connack 0 present {method crore-jwt}
        c: mqtt auth 0x19 data=anna.s:other.p:news => c: disconnect 0x87, closed
        d: mqtt connect d method=crore-jwt data=dora.all => d: connack 0 {method crore-jwt}
        d: mqtt auth 0x19 data=dora.all.x:0 => d: disconnect 0x87, closed
        e: mqtt connect e method=crore-jwt data=eva.all => e: connack 0 {method crore-jwt}
        e: mqtt auth 0x19 method=SCRAM data=eva.all => e: disconnect 0x82, closed
        f: mqtt connect f method=crore-jwt data=fay.all => f: connack 0 {method crore-jwt}
        f: mqtt auth 0x18 data=fay.all => f: disconnect 0x82, closed
        g: mqtt connect g method=crore-jwt data=gil.all => g: connack 0 {method crore-jwt}
        g: mqtt raw f0 02 19 00 => g: disconnect 0x82, closed
        h: mqtt connect h method=crore-jwt data=hal.all => h: connack 0 {method crore-jwt}
        h: mqtt raw f1 02 19 00 => h: disconnect 0x81, closed
        i: mqtt connect i method=crore-jwt data=ida.all => i: connack 0 {method crore-jwt}
        authenticator stop
        i: mqtt auth 0x19 data=bad
        i: reset
        authenticator go
        count renewals connections entitlements => renewals 0 connections 0 entitlements 0
    " }
}

/// A packet that the specification forbids is counted, and ends the connection.
#[test]
fn malformed_packets_are_counted() {
    script! { on, "
        a: mqtt connect a => a: connack 0
        a: mqtt raw 36 05 00 01 61 00 01 => a: disconnect 0x81, closed
        b: mqtt connect b v3 clean => b: connack 0
        b: mqtt raw 36 05 00 01 61 00 01 => b: closed
        c: mqtt connect c => c: connack 0
        c: mqtt raw 32 06 00 01 61 00 00 00 => c: disconnect 0x82, closed
        d: mqtt connect d => d: connack 0
        d: mqtt raw 30 05 00 03 61 2f 23 00 => d: disconnect 0x82, closed
        e: mqtt connect e => e: connack 0
        e: mqtt raw 80 02 00 01 => e: disconnect 0x81, closed
        f: mqtt connect f => f: connack 0
        f: mqtt raw 82 03 00 01 00 => f: disconnect 0x81, closed
        g: mqtt connect g => g: connack 0
        g: mqtt raw c1 00 => g: disconnect 0x81, closed
        h: mqtt connect h => h: connack 0
        h: mqtt raw 20 02 00 00 => h: closed
        i: mqtt connect i => i: connack 0
        i: mqtt raw 62 02 00 00 => i: disconnect 0x82, closed
        j: mqtt connect j => j: connack 0
        j: mqtt raw 30 ff ff ff ff => j: disconnect 0x81, closed
        k: mqtt connect k => k: connack 0
        k: mqtt raw 30 03 00 00 00 => k: disconnect 0x82, closed
        count protocol-errors connections => protocol-errors 11 connections 0
    " }
}

/// A client may speak in a WebSocket, and its packets do not end with its messages.
#[test]
fn packets_in_a_websocket() {
    script! { on, "
        a: connect mqtt-ws => a: 101 mqtt
        a: mqtt connect anna | sub 1 news 1
            a: connack 0
            a: suback 1 1
        a: binary hex:320b
        a: binary empty
        a: binary hex:0004
        a: binary hex:6e657773
        a: binary hex:0009006869c0
            a: puback 9
            a: publish news q1 id 1 hi
        a: binary hex:00 => a: pingresp
        b: connect mqtt-ws => b: 101 mqtt
        b: mqtt ping => b: close 1000, closed
        c: connect mqtt-ws => c: 101 mqtt
        c: mqtt connect carl => c: connack 0
        c: text hi => c: close 1003 packets of MQTT are binary messages, closed
    " }
}
