//! MQTT: sessions that outlive their connections.

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

fn with_three_threads(settings: &mut Settings) {
    on(settings);
    settings.edges_count = 3;
    settings.homes_count = 3;
    settings.logs[0].partitions_count = 6;
}

/// A session without an expiry ends with its connection; others are present later.
#[test]
fn session_present() {
    script! { on, "
        a: mqtt connect anna => a: connack 0
        a: mqtt disconnect => a: closed
        a: mqtt connect anna => a: connack 0
        a: mqtt disconnect => a: closed
        b: mqtt connect ben expiry=60 => b: connack 0
        b: reset
        b: mqtt connect ben expiry=60 => b: connack 0 present
        b: mqtt disconnect => b: closed
        b: mqtt connect ben clean expiry=60 => b: connack 0
        b: mqtt disconnect 0 expiry=0 => b: closed
        b: mqtt connect ben => b: connack 0
        c: mqtt connect carl v3 => c: connack 0
        c: mqtt disconnect => c: closed
        c: mqtt connect carl v3 => c: connack 0 present
        c: end => c: closed
        c: mqtt connect carl v3 clean => c: connack 0
        c: reset
        c: mqtt connect carl v3 => c: connack 0
        d: mqtt connect dora v31 => d: connack 0
        d: reset
        d: mqtt connect dora v31 => d: connack 0
        e: mqtt connect eva => e: connack 0
        e: mqtt disconnect 0 expiry=60 => e: disconnect 0x82, closed
        f: mqtt connect fay expiry=60 => f: connack 0
        f: mqtt disconnect 0 expiry=10 => f: closed
        count sleeping => sleeping 1
        time +11s
        f: mqtt connect fay expiry=60 => f: connack 0
        count sleeping => sleeping 0
    " }
}

#[test]
fn sessions_expire() {
    script! { on, "
        a: mqtt connect anna expiry=30 => a: connack 0
        a: reset
        b: mqtt connect ben expiry=ever => b: connack 0
        b: reset
        c: mqtt connect carl v3 => c: connack 0
        c: reset
        count sleeping => sleeping 3
        time +29s
        a: mqtt connect anna expiry=30 => a: connack 0 present
        a: reset
        time +31s
        a: mqtt connect anna expiry=30 => a: connack 0
        time +100000s
        b: mqtt connect ben => b: connack 0 present
        c: mqtt connect carl v3 => c: connack 0
        count sleeping => sleeping 0
    " }
}

/// Messages of topics and filters while the client is away come when it returns, but not for
/// subscriptions with QoS 0.
#[test]
fn messages_while_away() {
    script! { on, "
        p: session
        q: mqtt connect quinn => q: connack 0
        a: mqtt connect anna expiry=60 => a: connack 0
        a: mqtt sub 1 news 1, n/# 2, zero 0, z/+ 0 => a: suback 1 1 2 0 0
        p: publish 0 news before => a: publish news q1 id 1 before
        a: mqtt puback 1
        a: mqtt disconnect => a: closed
        count sleeping subscriptions => sleeping 1 subscriptions 0
        p: publish 0 news 1
        p: publish 0 n/x 2
        p: publish 0 zero 3
        p: publish 0 z/a 4
        p: publish 0 n/y 5
        q: mqtt pub 1 news 8 id=1 | pub 2 n/x 9 id=2
            q: puback 1
            q: pubrec 2
        a: mqtt connect anna expiry=60
            a: connack 0 present
            a: publish n/x q1 id 2 2
            a: publish n/y q1 id 3 5
            a: publish n/x q2 id 4 9
            a: publish news q1 id 5 1
            a: publish news q1 id 6 8
        p: publish 0 news 10 => a: publish news q1 id 7 10
        p: publish 0 n/x 11 => a: publish n/x q1 id 8 11
        p: publish 0 zero 12 => a: publish zero q0 12
        p: publish 0 z/a 13 => a: publish z/a q0 13
        a: mqtt puback 2
        a: reset
        a: mqtt connect anna expiry=60
            a: connack 0 present
            a: publish n/y q1 id 3 dup 5
            a: publish n/x q2 id 4 dup 9
            a: publish news q1 id 5 dup 1
            a: publish news q1 id 6 dup 8
            a: publish news q1 id 7 dup 10
            a: publish n/x q1 id 8 dup 11
        count sleeping lagging => sleeping 0 lagging 0
    " }
}

#[test]
fn messages_while_away_from_several_homes() {
    script! { with_three_threads, "
        p: session
        a: mqtt connect anna expiry=60 acks on=1 => a: connack 0
        a: mqtt sub 1 news 1, n/# 2, other 1, +/z 1 => a: suback 1 1 2 1 1
        p: flood news 1..20 => a: publish news q1 1..20: 20 in order
        p: flood n/x 1..20 => a: publish n/x q1 1..20: 20 in order
        a: reset
        p: flood news 21..40
        p: flood n/x 21..40
        p: flood n/y 1..20
        p: flood other 1..20
        p: flood a/z 1..20
        p: flood n/z 1..20
        a: mqtt connect anna expiry=60 acks on=2
            a: connack 0 present
            a: publish a/z q1 1..20: 20 in order
            a: publish n/x q1 21..40: 20 in order
            a: publish n/y q1 1..20: 20 in order
            a: publish n/z q1 1..20: 20 in order
            a: publish news q1 21..40: 20 in order
            a: publish other q1 1..20: 20 in order
        p: flood news 41..60 => a: publish news q1 41..60: 20 in order
        p: flood n/x 41..60 => a: publish n/x q1 41..60: 20 in order
        p: flood n/z 21..40 => a: publish n/z q1 21..40: 20 in order
        a: reset
        a: mqtt connect anna expiry=60 acks => a: connack 0 present
        a: mqtt disconnect => a: closed
        p: flood news 61..80
        a: mqtt connect anna expiry=60 acks on=1
            a: connack 0 present
            a: publish news q1 61..80: 20 in order
    " }
}

/// Messages that the client has not acknowledged come again with DUP and their identifiers, before
/// all new ones.
#[test]
fn open_messages_are_repeated() {
    script! { on, "
        p: mqtt connect paul => p: connack 0
        a: mqtt connect anna expiry=60 receive=4 => a: connack 0
        a: mqtt sub 1 news 2 => a: suback 1 2
        p: mqtt pub 1 news 1 id=1 | pub 2 news 2 id=2 | pub 1 news 3 id=3 | pub 2 news 4 id=4
            a: publish news q1 id 1 1
            a: publish news q2 id 2 2
            a: publish news q1 id 3 3
            a: publish news q2 id 4 4
            p: puback 1
            p: pubrec 2
            p: puback 3
            p: pubrec 4
        p: mqtt pub 1 news 5 id=5 | pub 1 news 6 id=6
            p: puback 5
            p: puback 6
        a: mqtt puback 3 => a: publish news q1 id 5 5
        a: mqtt pubrec 4 => a: pubrel 4
        a: reset
        p: mqtt pub 1 news 7 id=7 => p: puback 7
        a: mqtt connect anna expiry=60 receive=4
            a: connack 0 present
            a: pubrel 4
            a: publish news q1 id 1 dup 1
            a: publish news q2 id 2 dup 2
            a: publish news q1 id 5 dup 5
        a: mqtt pubcomp 4 => a: publish news q1 id 6 6
        a: mqtt puback 1 => a: publish news q1 id 7 7
        a: mqtt pubrec 2 => a: pubrel 2
        a: reset
        a: mqtt connect anna expiry=60 receive=4
            a: connack 0 present
            a: pubrel 2
            a: publish news q1 id 5 dup 5
            a: publish news q1 id 6 dup 6
            a: publish news q1 id 7 dup 7
        a: mqtt pubcomp 2
        a: mqtt puback 5 | puback 6
        a: mqtt puback 7
        a: reset
        a: mqtt connect anna expiry=60 => a: connack 0 present
    " }
}

#[test]
fn open_messages_of_version_3_are_repeated() {
    script! { on, "
        p: mqtt connect paul v3 clean => p: connack 0
        a: mqtt connect anna v3 => a: connack 0
        a: mqtt sub 1 n/# 2, +/x 1 => a: suback 1 2 1
        p: mqtt pub 1 n/x 1 id=1 | pub 2 n/y 2 id=2 | pub 2 n/x 3 id=3
            a: publish n/x q1 id 1 1
            a: publish n/y q2 id 2 2
            a: publish n/x q2 id 3 3
            p: puback 1
            p: pubrec 2
            p: pubrec 3
        a: reset
        a: mqtt connect anna v3
            a: connack 0 present
            a: publish n/x q1 id 1 dup 1
            a: publish n/y q2 id 2 dup 2
            a: publish n/x q2 id 3 dup 3
        a: mqtt pubrec 2 | puback 1 => a: pubrel 2
        a: reset
        a: mqtt connect anna v3
            a: connack 0 present
            a: pubrel 2
            a: publish n/x q2 id 3 dup 3
        a: mqtt pubcomp 2 | pubrec 3 => a: pubrel 3
        a: mqtt pubcomp 3
        a: reset
        p: mqtt pub 2 n/x 4 id=4 => p: pubrec 4
        a: mqtt connect anna v3
            a: connack 0 present
            a: publish n/x q2 id 4 4
    " }
}

/// A smaller window does not lose open messages, and holds repeats back ([MQTT-3.3.4-9]).
#[test]
fn a_session_returns_with_a_smaller_window() {
    script! { on, "
        p: session
        a: mqtt connect anna expiry=60 => a: connack 0
        a: mqtt sub 1 news 1 => a: suback 1 1
        p: flood news 1..4
            a: publish news q1 id 1 1
            a: publish news q1 id 2 2
            a: publish news q1 id 3 3
            a: publish news q1 id 4 4
        a: reset
        p: flood news 5..6
        a: mqtt connect anna expiry=60 receive=1
            a: connack 0 present
            a: publish news q1 id 1 dup 1
        a: mqtt puback 1 => a: publish news q1 id 2 dup 2
        a: mqtt puback 2 => a: publish news q1 id 3 dup 3
        a: mqtt puback 3 => a: publish news q1 id 4 dup 4
        a: mqtt puback 4 => a: publish news q1 id 5 5
        a: mqtt puback 5 => a: publish news q1 id 6 6
        a: mqtt puback 6
    " }
    script! { on, "
        p: mqtt connect paul acks => p: connack 0
        a: mqtt connect anna expiry=60 => a: connack 0
        a: mqtt sub 1 n/+ 2 => a: suback 1 2
        p: mqtt flood 2 n/x 1..3
            a: publish n/x q2 id 1 1
            a: publish n/x q2 id 2 2
            a: publish n/x q2 id 3 3
        a: mqtt pubrec 1 => a: pubrel 1
        a: reset
        a: mqtt connect anna expiry=60 receive=1
            a: connack 0 present
            a: pubrel 1
        a: mqtt pubcomp 1 => a: publish n/x q2 id 2 dup 2
        a: mqtt pubrec 2 => a: pubrel 2
        a: mqtt pubcomp 2 => a: publish n/x q2 id 3 dup 3
        a: mqtt pubrec 3 | pubcomp 3 => a: pubrel 3
    " }
}

/// The connection is lost again while the session is read from the log.
#[test]
fn a_session_that_wakes_and_sleeps_at_once() {
    script! { on, "
        p: session
        a: mqtt connect anna expiry=60 receive=2 => a: connack 0
        a: mqtt sub 1 news 1, n/# 1 => a: suback 1 1 1
        a: reset
        p: flood news 1..5
        p: flood n/x 1..5
        homes stop
        a: mqtt connect anna expiry=60 receive=2
        a: reset
        homes go
        a: mqtt connect anna expiry=60 receive=2
            a: connack 0 present
            a: publish n/x q1 id 1 1
            a: publish n/x q1 id 2 2
        a: mqtt puback 1 => a: publish news q1 id 3 1
        a: reset
        a: mqtt connect anna expiry=60 acks
            a: connack 0 present
            a: publish n/x q1 id 2 dup 2
            a: publish n/x q1 id 8 3
            a: publish n/x q1 id 9 4
            a: publish n/x q1 id 10 5
            a: publish news q1 id 3 dup 1
            a: publish news q1 id 4 2
            a: publish news q1 id 5 3
            a: publish news q1 id 6 4
            a: publish news q1 id 7 5
        p: publish 0 news 6 => a: publish news q1 id 11 6
        p: publish 0 n/x 6 => a: publish n/x q1 id 12 6
    " }
    script! { on, "
        p: session
        a: mqtt connect anna expiry=60 receive=2 => a: connack 0
        a: mqtt sub 1 news 1, n/# 1 => a: suback 1 1 1
        a: reset
        p: flood news 1..5
        p: flood n/x 1..5
        a: mqtt connect anna expiry=60 receive=2
            a: connack 0 present
            a: publish n/x q1 id 1 1
            a: publish n/x q1 id 2 2
        a: block
        letters stop
        a: reset
        letters go
        a: mqtt connect anna expiry=60 acks
            a: connack 0 present
            a: publish n/x q1 id 1 dup 1
            a: publish n/x q1 id 2 dup 2
            a: publish n/x q1 id 8 3
            a: publish n/x q1 id 9 4
            a: publish n/x q1 id 10 5
            a: publish news q1 id 3 1
            a: publish news q1 id 4 2
            a: publish news q1 id 5 3
            a: publish news q1 id 6 4
            a: publish news q1 id 7 5
    " }
}

/// Another filter, or another QoS, after the session has returned.
#[test]
fn subscriptions_change_after_a_return() {
    script! { on, "
        p: session
        a: mqtt connect anna expiry=60 => a: connack 0
        a: mqtt sub 1 news 1, n/# 1 => a: suback 1 1 1
        a: reset
        p: flood news 1..2
        a: mqtt connect anna expiry=60
            a: connack 0 present
            a: publish news q1 id 1 1
            a: publish news q1 id 2 2
        a: mqtt sub 2 news 0, n/# 2, other 1 => a: suback 2 0 2 1
        p: publish 0 news 3 => a: publish news q0 3
        p: publish 0 n/x 3 => a: publish n/x q1 id 3 3
        p: publish 0 other 3 => a: publish other q1 id 4 3
        a: mqtt unsub 3 news n/# none => a: unsuback 3 0 0 0x11
        p: publish 0 news 4
        p: publish 0 n/x 4
        p: publish 0 other 4 => a: publish other q1 id 5 4
        a: reset
        p: publish 0 news 5
        p: publish 0 n/x 5
        p: publish 0 other 5
        a: mqtt connect anna expiry=60
            a: connack 0 present
            a: publish news q1 id 1 dup 1
            a: publish news q1 id 2 dup 2
            a: publish n/x q1 id 3 dup 3
            a: publish other q1 id 4 dup 3
            a: publish other q1 id 5 dup 4
            a: publish other q1 id 6 5
    " }
}

#[test]
fn a_clean_start_ends_the_session() {
    script! { on, "
        p: session
        a: mqtt connect anna expiry=60 => a: connack 0
        a: mqtt sub 1 news 1 => a: suback 1 1
        p: publish 0 news 1 => a: publish news q1 id 1 1
        a: reset
        p: publish 0 news 2
        a: mqtt connect anna clean expiry=60 => a: connack 0
        p: publish 0 news 3
        a: mqtt sub 1 news 1 => a: suback 1 1
        p: publish 0 news 4 => a: publish news q1 id 1 4
        b: mqtt connect anna clean
            a: disconnect 0x8e, closed
            b: connack 0
        count sleeping subscriptions => sleeping 0 subscriptions 0
    " }
}

/// A session belongs to its user.
#[test]
fn another_user_does_not_get_the_session() {
    script! { with_tokens, "
        a: mqtt connect pump expiry=60 password=anna.all.j:1 => a: connack 0
        a: mqtt sub 1 news 1 => a: suback 1 1
        b: mqtt connect pump expiry=60 password=ben.all.j:2 => b: connack 0x85, closed
        a: reset
        b: mqtt connect pump clean password=ben.all.j:2 => b: connack 0x85, closed
        b: mqtt connect pump v3 clean password=ben.all.j:2 => b: connack 0x85, closed
        a: mqtt connect pump expiry=60 password=anna.all.j:3 => a: connack 0 present
        a: mqtt disconnect 0 expiry=0 => a: closed
        b: mqtt connect pump password=ben.all.j:2 => b: connack 0
    " }
}

/// The credential of the new connection counts.
#[test]
fn a_session_returns_with_fewer_permissions() {
    script! { with_tokens, "
        a: mqtt connect anna expiry=60 password=anna.all.j:1 => a: connack 0
        a: mqtt sub 1 news 1, n/# 1, other 1 => a: suback 1 1 1 1
        p: session token paul.all
        a: reset
        p: publish 0 news 1
        p: publish 0 n/x 1
        p: publish 0 other 1
        a: mqtt connect anna expiry=60 password=anna.s:other.j:2
            a: connack 0 present
            a: publish other q1 id 1 1
        p: publish 0 news 2
        p: publish 0 n/x 2
        p: publish 0 other 2 => a: publish other q1 id 2 2
        a: reset
        a: mqtt connect anna expiry=60 password=anna.all.j:1
            a: connack 0 present
            a: publish other q1 id 1 dup 1
            a: publish other q1 id 2 dup 2
        p: publish 0 news 3
        p: publish 0 other 3 => a: publish other q1 id 3 3
    " }
}

/// QoS 2 to the node: a repetition on the next connection is appended once.
#[test]
fn publications_with_qos_2_over_a_reconnect() {
    script! { on, "
        s: mqtt connect sue | sub 1 news 0
            s: connack 0
            s: suback 1 0
        a: mqtt connect anna expiry=60 => a: connack 0
        a: mqtt pub 2 news 1 id=1 | pub 2 news 2 id=2
            a: pubrec 1
            a: pubrec 2
            s: publish news q0 1
            s: publish news q0 2
        a: mqtt pubrel 1 => a: pubcomp 1
        a: reset
        a: mqtt connect anna expiry=60 => a: connack 0 present
        a: mqtt pub 2 news 2 id=2 dup => a: pubrec 2
        a: mqtt pubrel 2 => a: pubcomp 2
        a: mqtt pubrel 1 => a: pubcomp 1
        a: mqtt pub 2 news 3 id=1
            a: pubrec 1
            s: publish news q0 3
        count published duplicates => published 3 duplicates 0
        homes stop
        a: mqtt pub 2 news 4 id=4
        a: reset
        a: mqtt connect anna expiry=60
        homes go
            a: connack 0 present
            s: publish news q0 4
        a: mqtt pub 2 news 4 id=4 dup => a: pubrec 4
        a: mqtt pubrel 4 => a: pubcomp 4
        count published duplicates => published 4 duplicates 1
    " }
    script! { on, "
        s: mqtt connect sue | sub 1 news 0
            s: connack 0
            s: suback 1 0
        a: mqtt connect anna v3 => a: connack 0
        a: mqtt pub 2 news 1 id=1
            a: pubrec 1
            s: publish news q0 1
        a: reset
        a: mqtt connect anna v3 => a: connack 0 present
        a: mqtt pub 2 news 1 id=1 dup | pubrel 1
            a: pubrec 1
            a: pubcomp 1
        a: mqtt disconnect => a: closed
        a: mqtt connect anna v3 clean => a: connack 0
        a: mqtt pub 2 news 1 id=1
            a: pubrec 1
            s: publish news q0 1
    " }
}
