//! MQTT: starts of subscriptions in the past, and positions of messages.

use crate::support::mqtt::on;
use crate::support::script;
use broker::settings::Settings;

fn with_two_partitions(settings: &mut Settings) {
    on(settings);
    settings.logs[0].partitions_count = 2;
}

#[test]
fn positions_for_clients_that_ask() {
    script! { on, "
        a: mqtt connect anna positions | sub 1 # 1, news 0
            a: connack 0
            a: suback 1 1 0
        b: mqtt connect ben | sub 1 # 1
            b: connack 0
            b: suback 1 1
        a: mqtt pub 1 news one id=1
            a: puback 1 {crore-position=7:1}
            a: publish news q0 one {crore-position=7:1, crore-prev=0, crore-partition=0}
            b: publish news q1 id 1 one
        a: mqtt pub 2 other two id=2
            a: pubrec 2 {crore-position=7:2}
            a: publish other q1 id 1 two {crore-position=7:2, crore-prev=0, crore-partition=0}
            b: publish other q1 id 2 two
        a: mqtt pubrel 2 => a: pubcomp 2
        b: mqtt pub 1 news three id=1
            a: publish news q0 three {crore-position=7:3, crore-prev=1, crore-partition=0}
            b: puback 1
            b: publish news q1 id 3 three
        c: mqtt connect carl v3 clean positions => c: connack 0
        c: mqtt pub 1 news four id=1
            a: publish news q0 four {crore-position=7:4, crore-prev=3, crore-partition=0}
            b: publish news q1 id 4 four
            c: puback 1
    " }
}

/// The log brings what a client asks for, with the identifiers that a subscription with QoS 1 has.
#[test]
fn starts_of_topics() {
    script! { on, "
        p: session
        p: flood news 1..5
        a: mqtt connect anna acks => a: connack 0
        a: mqtt sub 1 news 1 start=last:2
            a: suback 1 1
            a: publish news q1 id 1 4
            a: publish news q1 id 2 5
        a: mqtt sub 2 news 0 start=since:7:3
            a: suback 2 0
            a: publish news q0 4
            a: publish news q0 5
        a: mqtt sub 3 news 1 start=since:7:0
            a: suback 3 1
            a: publish news q1 id 3 1
            a: publish news q1 id 4 2
            a: publish news q1 id 5 3
            a: publish news q1 id 6 4
            a: publish news q1 id 7 5
        p: flood news 6..6 => a: publish news q1 id 8 6
        b: mqtt connect ben positions acks => b: connack 0
        b: mqtt sub 1 news 1 start=snapshot
            b: suback 1 1
            b: publish news q1 id 1 6 {crore-position=7:6, crore-prev=5, crore-partition=0}
        b: mqtt sub 2 news 1 start=live => b: suback 2 1
        b: mqtt sub 3 news 1 start=since:8:3
            b: suback 3 1
            b: publish news q1 id 2 1 {crore-gap=0/7:0-0 unknown_epoch news, crore-position=7:1, crore-prev=0, crore-partition=0}
            b: publish news q1 id 3 2 {crore-position=7:2, crore-prev=1, crore-partition=0}
            b: publish news q1 id 4 3 {crore-position=7:3, crore-prev=2, crore-partition=0}
            b: publish news q1 id 5 4 {crore-position=7:4, crore-prev=3, crore-partition=0}
            b: publish news q1 id 6 5 {crore-position=7:5, crore-prev=4, crore-partition=0}
            b: publish news q1 id 7 6 {crore-position=7:6, crore-prev=5, crore-partition=0}
        p: flood news 7..7
            a: publish news q1 id 9 7
            b: publish news q1 id 8 7 {crore-position=7:7, crore-prev=6, crore-partition=0}
        c: mqtt connect carl receive=1 => c: connack 0
        c: mqtt sub 1 news 1 start=since:7:4
            c: suback 1 1
            c: publish news q1 id 1 5
        c: mqtt puback 1 => c: publish news q1 id 2 6
    " }
}

#[test]
fn starts_that_are_refused() {
    script! { on, "
        p: session
        p: flood news 1..5
        a: mqtt connect anna acks => a: connack 0
        a: mqtt sub 1 news 1 start=earliest => a: suback 1 0x83
        a: mqtt sub 2 news 1 start=since_each:0=7:3 => a: suback 2 0x83
        a: mqtt sub 3 news/# 1 start=last:3 => a: suback 3 0x83
        a: mqtt sub 4 news/# 1 start=since_each:99=7:3 => a: suback 4 0x83
        a: mqtt sub 5 $share/g/news 1 start=last:3 => a: suback 5 0x83
        a: mqtt sub 6 news 1, other 1 start=last:1
            a: suback 6 1 1
            a: publish news q1 id 1 5
        p: flood news 6..6 => a: publish news q1 id 2 6
    " }
}

#[test]
fn starts_of_filters() {
    script! { with_two_partitions, "
        p: session
        p: flood n/x 1..3
        p: flood n/y 1..3
        a: mqtt connect anna positions acks expiry=60 => a: connack 0
        a: mqtt sub 1 n/# 1 start=since_each:0=7:2,1=7:0
            a: suback 1 1
            a: publish n/y q1 id 1 3 {crore-position=7:3, crore-prev=2, crore-partition=0}
            a: publish n/x q1 id 2 1 {crore-position=7:1, crore-prev=0, crore-partition=1}
            a: publish n/x q1 id 3 2 {crore-position=7:2, crore-prev=1, crore-partition=1}
            a: publish n/x q1 id 4 3 {crore-position=7:3, crore-prev=2, crore-partition=1}
        p: flood n/x 4..4
            a: publish n/x q1 id 5 4 {crore-position=7:4, crore-prev=3, crore-partition=1}
        a: mqtt sub 2 n/# 0 start=since_each:0=7:0
            a: suback 2 0
            a: publish n/y q0 1 {crore-position=7:1, crore-prev=0, crore-partition=0}
            a: publish n/y q0 2 {crore-position=7:2, crore-prev=1, crore-partition=0}
            a: publish n/y q0 3 {crore-position=7:3, crore-prev=2, crore-partition=0}
        a: mqtt disconnect => a: closed
        a: mqtt connect anna positions acks expiry=60 => a: connack 0 present
        a: mqtt sub 3 n/# 1 start=since_each:1=7:0
            a: suback 3 1
            a: publish n/x q1 id 6 1 {crore-position=7:1, crore-prev=0, crore-partition=1}
            a: publish n/x q1 id 7 2 {crore-position=7:2, crore-prev=1, crore-partition=1}
            a: publish n/x q1 id 8 3 {crore-position=7:3, crore-prev=2, crore-partition=1}
            a: publish n/x q1 id 9 4 {crore-position=7:4, crore-prev=3, crore-partition=1}
    " }
}
