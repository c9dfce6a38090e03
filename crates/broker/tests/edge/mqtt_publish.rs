//! MQTT: publications, and what subscribers get.

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

/// A message has the lower of the QoS of publication and subscription.
#[test]
fn all_qos_in_both_directions() {
    script! { on, "
        z: mqtt connect zoe | sub 1 news 0
            z: connack 0
            z: suback 1 0
        o: mqtt connect otto v3 clean | sub 1 news 1
            o: connack 0
            o: suback 1 1
        t: mqtt connect tom v31 clean | sub 1 news 2
            t: connack 0
            t: suback 1 2
        f: mqtt connect fay | sub 1 +/# 2
            f: connack 0
            f: suback 1 2
        p: mqtt connect paul => p: connack 0
        p: mqtt pub 0 news zero
            f: publish news q0 zero
            o: publish news q0 zero
            t: publish news q0 zero
            z: publish news q0 zero
        p: mqtt pub 1 news one id=7
            f: publish news q1 id 1 one
            o: publish news q1 id 1 one
            p: puback 7
            t: publish news q1 id 1 one
            z: publish news q0 one
        o: mqtt puback 1
        t: mqtt puback 1
        f: mqtt puback 1
        p: mqtt pub 2 news two id=7
            f: publish news q2 id 2 two
            o: publish news q1 id 2 two
            p: pubrec 7
            t: publish news q2 id 2 two
            z: publish news q0 two
        p: mqtt pubrel 7 => p: pubcomp 7
        o: mqtt puback 2
        t: mqtt pubrec 2 => t: pubrel 2
        t: mqtt pubcomp 2
        f: mqtt pubrec 2 | ping
            f: pubrel 2
            f: pingresp
        f: mqtt pubcomp 2
        p: mqtt pub 1 other nobody id=8
            f: publish other q1 id 3 nobody
            p: puback 8
        p: mqtt pub 1 else empty id=9
            f: publish else q1 id 4 empty
            p: puback 9
        count published unknown-acknowledgements protocol-errors
            published 5 unknown-acknowledgements 0 protocol-errors 0
    " }
}

#[test]
fn all_qos_across_threads() {
    script! { with_three_threads, "
        z: mqtt connect zoe on=1 => z: connack 0
        z: mqtt sub 1 news 0 => z: suback 1 0
        o: mqtt connect otto v3 clean on=2 => o: connack 0
        o: mqtt sub 1 news 1 => o: suback 1 1
        f: mqtt connect fay on=1 => f: connack 0
        f: mqtt sub 1 # 2 => f: suback 1 2
        p: mqtt connect paul v3 clean => p: connack 0
        p: mqtt pub 0 news zero | pub 1 news one id=7 | pub 2 news two id=8
            f: publish news q0 zero
            f: publish news q1 id 1 one
            f: publish news q2 id 2 two
            o: publish news q0 zero
            o: publish news q1 id 1 one
            o: publish news q1 id 2 two
            p: puback 7
            p: pubrec 8
            z: publish news q0 zero
            z: publish news q0 one
            z: publish news q0 two
        p: mqtt pubrel 8 => p: pubcomp 8
        f: mqtt puback 1 | pubrec 2 => f: pubrel 2
        f: mqtt pubcomp 2
    " }
}

/// A publication without a subscriber is acknowledged with 0x10 to version 5.
#[test]
fn publications_without_subscribers() {
    script! { on, "
        p: mqtt connect paul => p: connack 0
        p: mqtt pub 1 news hi id=1 => p: puback 1 0x10
        p: mqtt pub 2 news hi id=2 => p: pubrec 2
        o: mqtt connect otto v3 clean => o: connack 0
        o: mqtt pub 1 news hi id=1 => o: puback 1
        s: session; subscribe 1 news => s: subscribed 1 through 7:3
        p: mqtt pub 1 news hi id=3
            p: puback 3
            s: message 1 4<3 hi
    " }
}

#[test]
fn other_protocols_get_what_mqtt_publishes_and_the_reverse() {
    script! { on, "
        a: session; subscribe 1 news, 2 n/# => a: subscribed 1 through 7:0, 2 filter
        e: GET /events?topic=news
            e: 200 close stream, retry 2000
            e: event crore.start {\"topic\":\"news\",\"position\":\"7:0\",\"complete\":true}
            e: id 7:0
        o: mqtt connect otto => o: connack 0
        o: mqtt sub 1 news 2, n/+ 1 => o: suback 1 2 1
        t: mqtt connect tom v3 clean | sub 1 # 0
            t: connack 0
            t: suback 1 0
        o: mqtt pub 2 news hi id=1 type=text/plain tag=k=v tag=k=w text reply=back correlation=c1
            a: message 1 1<0 hi type text/plain tag k v tag k w
            e: event id 7:1 {\"topic\":\"news\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"content_type\":\"text/plain\",\"tags\":{\"k\":[\"v\",\"w\"]},\"data\":\"hi\"}
            o: pubrec 1
            o: publish news q2 id 1 hi {text, type text/plain, reply back, correlation c1, k=v, k=w}
            t: publish news q0 hi
        o: mqtt pubrec 1 => o: pubrel 1
        o: mqtt pub 0 n/x hi
            a: named n/x 2<0 hi
            o: publish n/x q0 hi
            t: publish n/x q0 hi
        a: publish 5 news one type text/plain tag k v
            a: published 5 7:3
            a: message 1 3<1 one type text/plain tag k v
            e: event id 7:3 {\"topic\":\"news\",\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"content_type\":\"text/plain\",\"tags\":{\"k\":\"v\"},\"data\":\"one\"}
            o: publish news q1 id 2 one {type text/plain, k=v}
            t: publish news q0 one
        a: publish 0 n/y two
            a: named n/y 4<0 two
            o: publish n/y q1 id 3 two
            t: publish n/y q0 two
        c: POST /topics/news | Content-Type: text/plain > three
            a: message 1 5<3 three type text/plain
            c: 200 {\"epoch\":\"7\",\"offset\":5,\"duplicate\":false}
            e: event id 7:5 {\"topic\":\"news\",\"position\":\"7:5\",\"offset\":5,\"time_ms\":1000000,\"content_type\":\"text/plain\",\"data\":\"three\"}
            o: publish news q1 id 4 three {type text/plain}
            t: publish news q0 three
        c: GET /topics/news
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":5,\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"content_type\":\"text/plain\",\"tags\":{\"k\":[\"v\",\"w\"]},\"data\":\"hi\"},{\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"content_type\":\"text/plain\",\"tags\":{\"k\":\"v\"},\"data\":\"one\"},{\"position\":\"7:5\",\"offset\":5,\"time_ms\":1000000,\"content_type\":\"text/plain\",\"data\":\"three\"}],\"more\":false,\"cursor\":\"7:5\"}
        a: history 1 news => a: history 1 head 5 [1<0 hi, 3<1 one, 5<3 three]
    " }
}

/// Retain of a native client, expiry and reply are the same message for all.
#[test]
fn properties_of_a_message() {
    script! { on, "
        a: mqtt connect anna | sub 1 q 1
            a: connack 0
            a: suback 1 1
        b: mqtt connect ben v3 clean | sub 1 q 1
            b: connack 0
            b: suback 1 1
        a: mqtt pub 1 q ask id=1 reply=r/1 correlation=xyz expiry=30 type=t/x tag=a=1 tag=a=2 tag=b=
            a: puback 1
            a: publish q q1 id 1 ask {type t/x, reply r/1, correlation xyz, a=1, a=2, b=, expiry 30}
            b: publish q q1 id 1 ask
        a: mqtt pub 1 q ask id=2 correlation=xyz
            a: puback 2
            a: publish q q1 id 2 ask {correlation xyz}
            b: publish q q1 id 2 ask
        a: mqtt pub 0 q ask reply=r/1 text
            a: publish q q0 ask {text, reply r/1}
            b: publish q q0 ask
        b: mqtt pub 1 q plain id=9
            a: publish q q1 id 3 plain
            b: puback 9
            b: publish q q1 id 3 plain
    " }
}

#[test]
fn topic_aliases_of_publishers() {
    script! { on, "
        s: mqtt connect sue | sub 1 # 0
            s: connack 0
            s: suback 1 0
        a: mqtt connect anna => a: connack 0
        a: mqtt pub 0 news one alias=1 => s: publish news q0 one
        a: mqtt pub 0 - two alias=1 => s: publish news q0 two
        a: mqtt pub 1 other three alias=1 id=1
            a: puback 1
            s: publish other q0 three
        a: mqtt pub 1 - four alias=1 id=2 | pub 1 x/y five alias=16 id=3 | pub 0 - six alias=16
            a: puback 2
            a: puback 3
            s: publish other q0 four
            s: publish x/y q0 five
            s: publish x/y q0 six
        a: mqtt pub 0 - none alias=2 => a: disconnect 0x82, closed
        a: mqtt connect anna => a: connack 0
        a: mqtt pub 0 - none alias=1 => a: disconnect 0x82, closed
        b: mqtt connect ben => b: connack 0
        b: mqtt pub 0 news great alias=17 => b: disconnect 0x94, closed
        c: mqtt connect carl => c: connack 0
        c: mqtt raw 30 08 00 01 61 03 23 00 00 78 => c: disconnect 0x94, closed
        count protocol-errors connections => protocol-errors 1 connections 1
    " }
}

/// The first topics of a client that accepts aliases get them; `ALIAS` stands for the name.
#[test]
fn topic_aliases_to_subscribers() {
    script! { on, "
        a: mqtt connect anna aliases=2 expiry=60 | sub 1 # 1
            a: connack 0
            a: suback 1 1
        b: mqtt connect ben | sub 1 # 0
            b: connack 0
            b: suback 1 0
        p: mqtt connect paul => p: connack 0
        p: mqtt pub 1 news one id=1
            a: publish news q1 id 1 one {alias 1}
            b: publish news q0 one
            p: puback 1
        p: mqtt pub 1 news two id=1
            a: publish news q1 id 2 two {ALIAS 1}
            b: publish news q0 two
            p: puback 1
        p: mqtt pub 0 x/y three | pub 0 other four | pub 0 third five | pub 0 other six
            a: publish x/y q0 three
            a: publish other q0 four {alias 2}
            a: publish third q0 five
            a: publish other q0 six {ALIAS 2}
            b: publish x/y q0 three
            b: publish other q0 four
            b: publish third q0 five
            b: publish other q0 six
        b: mqtt disconnect => b: closed
        p: mqtt pub 0 other seven => a: publish other q0 seven {ALIAS 2}
        p: mqtt pub 0 other eight | pub 0 news nine | pub 0 third ten
            a: publish other q0 eight {ALIAS 2}
            a: publish news q0 nine {ALIAS 1}
            a: publish third q0 ten
        a: mqtt disconnect => a: closed
        a: mqtt connect anna aliases=1 expiry=60
            a: connack 0 present
            a: publish news q1 id 1 dup one {alias 1}
            a: publish news q1 id 2 dup two {ALIAS 1}
        c: mqtt connect carl aliases=300 size=23 | sub 1 news/long 0
            c: connack 0
            c: suback 1 0
        p: mqtt pub 0 news/long 123456789
            a: publish news/long q0 123456789
            c: publish news/long q0 123456789
        p: mqtt pub 0 news/long 12345
            a: publish news/long q0 12345
            c: publish news/long q0 12345 {alias 1}
        p: mqtt pub 0 news/long 123456789
            a: publish news/long q0 123456789
            c: publish news/long q0 123456789 {ALIAS 1}
        count packets-too-large => packets-too-large 0
    " }
    script! { on, "
        large reads
        p: mqtt connect paul => p: connack 0
        d: mqtt connect dora aliases=3 | sub 1 # 0
            d: connack 0
            d: suback 1 0
        p: mqtt pub 0 first a | pub 0 second b | pub 0 first c
            d: publish first q0 a {alias 1}
            d: publish second q0 b
            d: publish first q0 c {ALIAS 1}
        p: mqtt pub 0 second d => d: publish second q0 d {alias 2}
    " }
}

/// A message with an expiry is counted down, and does not come when its time is over.
#[test]
fn expiry_of_messages() {
    script! { on, "
        s: mqtt connect sue receive=1 | sub 1 news 1
            s: connack 0
            s: suback 1 1
        a: mqtt connect anna => a: connack 0
        a: mqtt pub 1 news one id=1 expiry=10
            a: puback 1
            s: publish news q1 id 1 one {expiry 10}
        a: mqtt pub 1 news two id=1 expiry=10 => a: puback 1
        a: mqtt pub 1 news three id=1 expiry=2 => a: puback 1
        a: mqtt pub 1 news four id=1 => a: puback 1
        time +3s
        s: mqtt puback 1 => s: publish news q1 id 2 two {expiry 7}
        s: mqtt puback 2 => s: publish news q1 id 4 four
        s: mqtt puback 4
    " }
    script! { on, "
        a: mqtt connect anna => a: connack 0
        a: mqtt pub 1 r/a one id=1 expiry=10 retain => a: puback 1 0x10
        a: mqtt pub 1 r/b two id=2 expiry=3 retain => a: puback 2 0x10
        time +4s
        b: mqtt connect ben | sub 1 r/a 0, r/b 0
            b: connack 0
            b: suback 1 0 0
            b: publish r/a q0 retain one {expiry 6}
        c: mqtt connect carl v3 clean | sub 1 r/# 0
            c: connack 0
            c: suback 1 0
            c: publish r/a q0 retain one
        time +7s
        b: mqtt sub 1 r/a 0, r/b 0 => b: suback 1 0 0
        c: mqtt sub 1 r/# 0 => c: suback 1 0
        n: session; subscribe 1 r/a => n: subscribed 1 through 7:2
        c: mqtt pub 1 r/a three id=1
            b: publish r/a q0 three
            c: puback 1
            c: publish r/a q0 three
            n: message 1 3<1 three
    " }
}

/// A message that is too large for a client is passed over; those behind it come.
#[test]
fn messages_too_large_for_a_client() {
    script! { on, "
        a: mqtt connect anna size=50 => a: connack 0
        a: mqtt sub 1 news 0, n/# 1 => a: suback 1 0 1
        b: mqtt connect ben => b: connack 0
        b: mqtt pub 0 news x*100 | pub 0 news small => a: publish news q0 small
        b: mqtt pub 1 n/x x*100 id=1 | pub 1 n/x small id=2
            a: publish n/x q1 id 1 small
            b: puback 1
            b: puback 2
        a: mqtt puback 1
        b: mqtt pub 1 r x*100 retain id=3 => b: puback 3 0x10
        a: mqtt sub 2 r 1 => a: suback 2 1
        b: mqtt pub 1 n/x x*100 id=4 | pub 1 n/x again id=5
            a: publish n/x q1 id 2 again
            b: puback 4
            b: puback 5
        count packets-too-large => packets-too-large 4
    " }
}

/// Packets longer than the node takes.
#[test]
fn packets_too_large_for_the_node() {
    let small = |settings: &mut Settings| {
        on(settings);
        settings.mqtt.packet_bytes_max = Some(100);
    };
    script! { small, "
        a: mqtt connect anna => a: connack 0 {MaximumPacketSize(100)}
        a: mqtt pub 1 news x*200 id=1 => a: disconnect 0x95, closed
        b: mqtt connect ben v3 clean => b: connack 0
        b: mqtt pub 1 news x*200 id=1 => b: closed
        c: mqtt connect carl will=x=x*200 => c: closed
    " }
    let message = |settings: &mut Settings| {
        on(settings);
        settings.rules[0].message_bytes_max = 100;
    };
    script! { message, "
        a: mqtt connect anna => a: connack 0
        a: mqtt pub 1 news x*200 id=1 => a: puback 1 0x97
        a: mqtt pub 2 news x*200 id=2 => a: pubrec 2 0x97
        a: mqtt pub 0 news x*200
        a: mqtt pub 2 news small id=2 => a: pubrec 2
        b: mqtt connect ben v3 clean => b: connack 0
        b: mqtt pub 0 news x*200
        b: mqtt pub 1 news x*200 id=1 => b: closed
    " }
}

/// A client of version 5 hears why a publication is refused; one of version 3 loses its connection,
/// or gets an acknowledgement where the operator wants it.
#[test]
fn refused_publications() {
    script! { with_tokens, "
        a: mqtt connect anna password=anna.p:news.s:news => a: connack 0
        a: mqtt pub 0 other hi
        a: mqtt pub 1 other hi id=1 => a: puback 1 0x87
        a: mqtt pub 2 other hi id=2 => a: pubrec 2 0x87
        a: mqtt pub 2 news hi id=2 => a: pubrec 2
        a: mqtt pubrel 2 => a: pubcomp 2
        b: mqtt connect ben v3 clean password=ben.p:news.s:news => b: connack 0
        b: mqtt pub 0 other hi
        b: mqtt pub 1 other hi id=1 => b: closed
        b: mqtt connect ben v3 clean password=ben.p:news.s:news => b: connack 0
        b: mqtt pub 2 other hi id=1 => b: closed
        c: mqtt connect carl v3 clean will=other=x password=carl.p:news.s:news
            c: connack 0x87, closed
        d: mqtt connect dora will=other=x password=dora.p:news.s:news => d: connack 0x87, closed
        count forbidden-publish connections => forbidden-publish 8 connections 1
    " }
    let acknowledges = |settings: &mut Settings| {
        with_tokens(settings);
        settings.mqtt.acknowledges_refused = true;
    };
    script! { acknowledges, "
        b: mqtt connect ben v3 clean password=ben.p:news.s:news => b: connack 0
        b: mqtt pub 1 other hi id=1 => b: puback 1
        b: mqtt pub 2 other hi id=2 => b: pubrec 2
        b: mqtt pubrel 2 => b: pubcomp 2
        a: mqtt connect anna password=anna.p:news.s:news => a: connack 0
        a: mqtt pub 1 other hi id=1 => a: puback 1 0x87
    " }
    script! { with_tokens, "
        a: mqtt connect anna password=anna.all.r:1 => a: connack 0
        a: mqtt pub 1 x 1 id=1 => a: puback 1 0x10
        a: mqtt pub 1 x 2 id=2 | pub 1 x 3 id=3
            a: puback 2 0x97
            a: puback 3 0x97
        a: mqtt pub 2 x 3 id=3 => a: pubrec 3 0x97
        time +2s
        a: mqtt pub 2 x 3 id=3 => a: pubrec 3
    " }
}

#[test]
fn topics_of_the_server_take_no_publications() {
    script! { on, "
        a: mqtt connect anna => a: connack 0
        a: mqtt pub 1 $SYS/broker/load hi id=1 => a: puback 1 0x87
        a: mqtt pub 1 $share/g/x hi id=2 => a: puback 2 0x87
        a: mqtt pub 1 $sys/x hi id=3 => a: puback 3 0x87
        a: mqtt pub 1 $SYS/broker/connection/b/state 1 id=4 => a: puback 4 0x10
        a: mqtt pub 1 $mqtt/s/anna hi id=5 => a: puback 5 0x87
        a: mqtt pub 1 $SYS/broker/connection/b/state/x 1 id=6 => a: puback 6 0x87
        a: mqtt sub 1 $SYS/# 0, $SYS/broker/uptime 0, $share/g/news 1, # 1, $mqtt/# 0
            a: suback 1 0 0 1 1 0x87
        b: mqtt connect ben v3 clean => b: connack 0
        b: mqtt sub 1 $share/g/news 1, ok 2 => b: suback 1 1 2
        b: mqtt pub 1 $SYS/x hi id=1 => b: closed
        c: mqtt connect carl => c: connack 0
        c: mqtt sub 3 $share/g 0 => c: disconnect 0x81, closed
    " }
}

/// Acknowledgements that belong to nothing, or do not fit.
#[test]
fn wrong_acknowledgements() {
    script! { on, "
        p: session
        a: mqtt connect anna | sub 1 q1 1, q2 2
            a: connack 0
            a: suback 1 1 2
        a: mqtt puback 5
        a: mqtt pubrec 6 => a: pubrel 6 0x92
        a: mqtt pubcomp 7
        a: mqtt pubrel 8 => a: pubcomp 8 0x92
        p: publish 0 q1 hi => a: publish q1 q1 id 1 hi
        a: mqtt pubrec 1 => a: closed
        b: mqtt connect ben | sub 1 q1 1, q2 2
            b: connack 0
            b: suback 1 1 2
        x: mqtt connect xena v3 clean => x: connack 0
        x: mqtt pub 2 q2 two id=1
            b: publish q2 q2 id 1 two
            x: pubrec 1
        b: mqtt puback 1 => b: closed
        c: mqtt connect carl | sub 1 q2 2
            c: connack 0
            c: suback 1 2
        x: mqtt pub 2 q2 three id=2
            c: publish q2 q2 id 1 three
            x: pubrec 2
        c: mqtt pubcomp 1 => c: closed
        d: mqtt connect dora v3 clean | sub 1 q2 2
            d: connack 0
            d: suback 1 2
        x: mqtt pub 2 q2 four id=3
            d: publish q2 q2 id 1 four
            x: pubrec 3
        d: mqtt pubrec 1 | pubrec 1
            d: pubrel 1
            d: pubrel 1
        d: mqtt pubcomp 1 | pubcomp 1
        d: mqtt pubrel 77 => d: pubcomp 77
        e: mqtt connect eva | sub 1 q2 2
            e: connack 0
            e: suback 1 2
        x: mqtt pub 2 q2 five id=4
            d: publish q2 q2 id 2 five
            e: publish q2 q2 id 1 five
            x: pubrec 4
        e: mqtt pubrec 1 0x80
        x: mqtt pub 1 q2 six id=5
            d: publish q2 q1 id 3 six
            e: publish q2 q1 id 2 six
            x: puback 5
        e: mqtt puback 2 0x80
        count unknown-acknowledgements protocol-errors connections
            unknown-acknowledgements 4 protocol-errors 3 connections 4
    " }
}

/// QoS 2: a repetition is answered and not published again; after PUBREL the identifier is new.
#[test]
fn publications_with_qos_2_are_published_once() {
    script! { on, "
        s: mqtt connect sue | sub 1 news 0
            s: connack 0
            s: suback 1 0
        a: mqtt connect anna => a: connack 0
        a: mqtt pub 2 news one id=1
            a: pubrec 1
            s: publish news q0 one
        a: mqtt pub 2 news one id=1 dup => a: pubrec 1
        a: mqtt pub 2 news one id=1 => a: pubrec 1
        a: mqtt pubrel 1 => a: pubcomp 1
        a: mqtt pubrel 1 => a: pubcomp 1 0x92
        a: mqtt pub 2 news two id=1
            a: pubrec 1
            s: publish news q0 two
        b: mqtt connect ben v3 clean => b: connack 0
        b: mqtt pub 2 news three id=1 | pub 2 news three id=1 dup
            b: pubrec 1
            b: pubrec 1
            s: publish news q0 three
        count published => published 3
    " }
}

/// The publication is on its way to its home when the repetition comes.
#[test]
fn a_repetition_of_a_publication_without_an_answer() {
    script! { on, "
        s: mqtt connect sue | sub 1 news 0
            s: connack 0
            s: suback 1 0
        a: mqtt connect anna => a: connack 0
        homes stop
        a: mqtt pub 2 news one id=1
        a: mqtt pub 2 news one id=1 dup
        homes go
            a: pubrec 1
            a: pubrec 1
            s: publish news q0 one
        a: mqtt pubrel 1 => a: pubcomp 1
        count published duplicates => published 1 duplicates 1
    " }
}

fn window_of_two(settings: &mut Settings) {
    on(settings);
    settings.mqtt.receive_max = 2;
}

#[test]
fn too_many_publications_under_way() {
    script! { window_of_two, "
        a: mqtt connect anna => a: connack 0
        a: mqtt pub 2 x 1 id=1 | pub 2 x 2 id=2
            a: pubrec 1
            a: pubrec 2
        a: mqtt pub 2 x 2 id=2 dup => a: pubrec 2
        a: mqtt pub 1 x 3 id=3 => a: puback 3 0x10
        a: mqtt pubrel 1 => a: pubcomp 1
        a: mqtt pub 2 x 4 id=4 => a: pubrec 4
        a: mqtt pub 2 x 5 id=5 => a: disconnect 0x93, closed
        count published => published 4
    " }
}

/// Version 3 has no Receive Maximum: its clients may have a publication of each identifier under
/// way.
#[test]
fn version_3_has_no_window() {
    script! { window_of_two, "
        a: mqtt connect anna v3 clean => a: connack 0
        a: mqtt pub 2 x 1 id=3 | pub 2 x 2 id=1 | pub 2 x 3 id=2
            a: pubrec 3
            a: pubrec 1
            a: pubrec 2
        a: mqtt pubrel 3 => a: pubcomp 3
        a: mqtt pub 2 x 2 id=1 dup => a: pubrec 1
        a: mqtt pub 2 x 4 id=3 => a: pubrec 3
        count published => published 4
    " }
}

#[test]
fn highest_qos_and_retain_of_a_node() {
    let bounded = |settings: &mut Settings| {
        on(settings);
        settings.mqtt.qos_max = 1;
        settings.mqtt.may_retain = false;
    };
    script! { bounded, "
        a: mqtt connect anna => a: connack 0 {RetainAvailable(false), MaximumQos(One)}
        a: mqtt pub 2 x 1 id=1 => a: disconnect 0x9b, closed
        b: mqtt connect ben v3 clean => b: connack 0
        b: mqtt pub 2 x 1 id=1 => b: closed
        c: mqtt connect carl => c: connack 0 {RetainAvailable(false), MaximumQos(One)}
        c: mqtt pub 0 x 1 retain => c: disconnect 0x9a, closed
        d: mqtt connect dora => d: connack 0 {RetainAvailable(false), MaximumQos(One)}
        d: mqtt sub 1 x 2 => d: suback 1 2
        d: mqtt pub 1 x 1 id=1
            d: puback 1
            d: publish x q1 id 1 1
    " }
}

/// The node sends its clients away: to another node where there is one.
#[test]
fn a_drain_sends_clients_away() {
    script! { on, "
        a: mqtt connect anna expiry=60 => a: connack 0
        b: mqtt connect ben v3 clean => b: connack 0
        w: session; subscribe 1 gone => w: subscribed 1 through 7:0
        c: mqtt connect carl will=gone=carl => c: connack 0
        drain 0
            a: disconnect 0x8b, closed
            b: closed
            c: disconnect 0x8b, closed
            w: go-away 3001 return after 0 ms
            w: close 3001 going_away, closed
        time +1s
        d: mqtt connect dora => d: connack 0x88, closed
        e: mqtt connect eva v3 => e: connack 0x88, closed
        count connections sleeping sent-away => connections 0 sleeping 1 sent-away 4
    " }
}

#[test]
fn a_drain_names_another_node() {
    let two = |settings: &mut Settings| {
        on(settings);
        settings.other_addresses = vec!["ws://other/crore".into()];
    };
    script! { two, "
        a: mqtt connect anna expiry=60 => a: connack 0
        b: mqtt connect ben v3 clean => b: connack 0
        drain 0
            a: disconnect 0x9d {server ws://other/crore}, closed
            b: closed
    " }
}
