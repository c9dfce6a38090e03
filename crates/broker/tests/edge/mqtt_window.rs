//! MQTT: the window of a client, and clients that do not read.

use crate::support::mqtt::on;
use crate::support::script;
use broker::settings::{LagPolicy, Settings};

fn small(settings: &mut Settings) {
    on(settings);
    settings.limits.outbox_bytes_max = 4_096;
    (settings.limits.ring_bytes, settings.limits.page_bytes) = (1, 1);
}

fn with_three_threads(settings: &mut Settings) {
    on(settings);
    settings.edges_count = 3;
    settings.homes_count = 3;
    settings.logs[0].partitions_count = 6;
}

/// Messages that do not fit into the window come from the log, in order, when there is room.
#[test]
fn a_window_of_one() {
    script! { on, "
        p: session
        a: mqtt connect anna receive=1 | sub 1 news 1
            a: connack 0
            a: suback 1 1
        p: flood news 1..3 => a: publish news q1 id 1 1
        a: mqtt puback 1 => a: publish news q1 id 2 2
        a: mqtt puback 2 => a: publish news q1 id 3 3
        a: mqtt puback 3
        p: publish 0 news 4 => a: publish news q1 id 4 4
        a: mqtt puback 4
        count lagging => lagging 1
    " }
    script! { on, "
        p: mqtt connect paul => p: connack 0
        a: mqtt connect anna receive=1 | sub 1 n/# 2
            a: connack 0
            a: suback 1 2
        p: mqtt flood 2 n/x 1..3
            a: publish n/x q2 id 1 1
            p: pubrec 1
            p: pubrec 2
            p: pubrec 3
        a: mqtt pubrec 1 => a: pubrel 1
        a: mqtt pubcomp 1 => a: publish n/x q2 id 2 2
        a: mqtt pubrec 2 | pubcomp 2
            a: pubrel 2
            a: publish n/x q2 id 3 3
        a: mqtt pubrec 3 | pubcomp 3 => a: pubrel 3
        p: mqtt pub 2 n/x 4 id=9
            a: publish n/x q2 id 4 4
            p: pubrec 9
        a: mqtt pubrec 4 0x80
        p: mqtt pub 2 n/x 5 id=10
            a: publish n/x q2 id 5 5
            p: pubrec 10
        count lagging => lagging 1
    " }
}

#[test]
fn a_window_of_two() {
    script! { on, "
        p: session
        a: mqtt connect anna receive=2 | sub 1 news 1, n/+ 1
            a: connack 0
            a: suback 1 1 1
        p: flood news 1..3
            a: publish news q1 id 1 1
            a: publish news q1 id 2 2
        p: flood n/x 4..6
        p: flood news 7..8
        a: mqtt puback 2 => a: publish news q1 id 3 3
        a: mqtt puback 1 => a: publish news q1 id 4 7
        a: mqtt puback 3 => a: publish news q1 id 5 8
        a: mqtt puback 4 => a: publish n/x q1 id 6 4
        a: mqtt puback 5 | puback 6
            a: publish n/x q1 id 7 5
            a: publish n/x q1 id 8 6
        a: mqtt puback 7 | puback 8
        p: flood n/x 9..9 => a: publish n/x q1 id 9 9
    " }
}

/// Messages with QoS 0 need no room, and those of the same topic do not overtake others.
#[test]
fn qos_0_beside_a_full_window() {
    script! { on, "
        p: mqtt connect paul => p: connack 0
        a: mqtt connect anna receive=1 | sub 1 news 1, n/+ 1
            a: connack 0
            a: suback 1 1 1
        p: mqtt pub 1 news 1 id=1 | pub 0 news 2 | pub 1 news 3 id=3 | pub 0 news 4 | pub 0 n/x 5
            a: publish news q1 id 1 1
            a: publish news q0 2
            a: publish n/x q0 5
            p: puback 1
            p: puback 3
        a: mqtt puback 1 => a: publish news q1 id 2 3
        a: mqtt puback 2 => a: publish news q0 4
    " }
    script! { on, "
        p: mqtt connect paul => p: connack 0
        a: mqtt connect anna receive=1 | sub 1 n/# 1
            a: connack 0
            a: suback 1 1
        p: mqtt pub 1 n/y 1 id=1 | pub 0 n/x 2 | pub 1 n/x 3 id=3 | pub 0 n/x 4 | pub 0 n/y 5
            a: publish n/y q1 id 1 1
            a: publish n/x q0 2
            p: puback 1
            p: puback 3
        a: mqtt puback 1 => a: publish n/x q1 id 2 3
        a: mqtt puback 2
            a: publish n/x q0 4
            a: publish n/y q0 5
    " }
}

/// A client that acknowledges everything gets everything, whatever its window.
#[test]
fn nothing_is_lost_behind_a_window() {
    script! { on, "
        p: session
        a: mqtt connect anna receive=1 acks => a: connack 0
        a: mqtt sub 1 news 1 => a: suback 1 1
        b: mqtt connect ben receive=3 acks => b: connack 0
        b: mqtt sub 1 # 2 => b: suback 1 2
        c: mqtt connect carl v3 clean acks => c: connack 0
        c: mqtt sub 1 +/x 1, news 1 => c: suback 1 1 1
        d: mqtt connect dora receive=5 acks => d: connack 0
        d: mqtt sub 1 # 0 => d: suback 1 0
        p: flood news 1..300
            a: publish news q1 1..300: 300 in order
            b: publish news q1 1..300: 300 in order
            c: publish news q1 1..300: 300 in order
            d: publish news q0 1..300: 300 in order
        p: flood n/x 1..300
            b: publish n/x q1 1..300: 300 in order
            c: publish n/x q1 1..300: 300 in order
            d: publish n/x q0 1..300: 300 in order
    " }
    script! { with_three_threads, "
        p: session
        a: mqtt connect anna receive=1 acks on=1 => a: connack 0
        a: mqtt sub 1 news 1 => a: suback 1 1
        b: mqtt connect ben receive=3 acks on=2 => b: connack 0
        b: mqtt sub 1 # 2 => b: suback 1 2
        p: flood news 1..300
            a: publish news q1 1..300: 300 in order
            b: publish news q1 1..300: 300 in order
        p: flood n/x 1..300 => b: publish n/x q1 1..300: 300 in order
    " }
}

/// A socket that takes nothing: messages with QoS 0 give way, others wait in the log.
#[test]
fn a_blocked_socket() {
    script! { small, "
        p: session
        a: mqtt connect anna acks => a: connack 0
        a: mqtt sub 1 news 1 => a: suback 1 1
        b: mqtt connect ben acks => b: connack 0
        b: mqtt sub 1 n/# 1 => b: suback 1 1
        a: block
        b: block
        p: flood news 1..200 size 100
        p: flood n/x 1..200 size 100
        a: open => a: publish news q1 1..200: 200 in order
        b: open => b: publish n/x q1 1..200: 200 in order
        count pinned lagging => pinned 0 lagging 2
    " }
    script! { small, "
        p: mqtt connect paul acks => p: connack 0
        a: mqtt connect anna acks => a: connack 0
        a: mqtt sub 1 news 2 => a: suback 1 2
        b: mqtt connect ben acks => b: connack 0
        b: mqtt sub 1 n/# 2 => b: suback 1 2
        a: block
        b: block
        p: mqtt flood 2 news 1..100
        p: mqtt flood 2 n/x 101..200
        a: open => a: publish news q2 1..100: 100 in order
        b: open => b: publish n/x q2 101..200: 100 in order
        p: mqtt pubrel 1 | pub 2 n/x 201 id=1 => b: publish n/x q2 id 101 201
        count pinned => pinned 0
    " }
    script! { small, "
        p: session
        a: mqtt connect anna => a: connack 0
        a: mqtt sub 1 news 0 => a: suback 1 0
        b: mqtt connect ben v3 clean => b: connack 0
        b: mqtt sub 1 n/# 0 => b: suback 1 0
        a: block
        b: block
        p: flood news 1..100 size 100
        p: flood n/x 1..100 size 100
        a: open => a: publish news q0 1..100: 100 in order
        b: open => b: publish n/x q0 1..100: 100 in order
        p: flood news 101..101 => a: publish news q0 101
        p: flood n/x 101..101 => b: publish n/x q0 101
        count pinned => pinned 0
    " }
}

/// With QoS 1 nothing is left out, also where the client has subscribed with QoS 0 before.
#[test]
fn more_qos_for_a_subscription_that_drops() {
    let dropping = |settings: &mut Settings| {
        small(settings);
        settings.rules[0].when_lagging = LagPolicy::Drop;
    };
    script! { dropping, "
        p: session
        a: mqtt connect anna acks | sub 1 news 0, n/+ 0
            a: connack 0
            a: suback 1 0 0
        a: mqtt sub 2 news 1, n/+ 1 => a: suback 2 1 1
        a: block
        p: flood news 1..100 size 100
        p: flood n/x 1..100 size 100
        a: open
            a: publish n/x q1 1..100: 100 in order
            a: publish news q1 1..100: 100 in order
    " }
}

/// Messages that are dropped and come from the log do not take the meaning of aliases with them.
#[test]
fn aliases_beside_a_blocked_socket() {
    script! { small, "
        p: session
        a: mqtt connect anna aliases=4 acks | sub 1 # 0, news 1
            a: connack 0
            a: suback 1 0 1
        b: mqtt connect ben aliases=4 acks | sub 1 once/more 0
            b: connack 0
            b: suback 1 0
        a: block
        b: block
        p: flood news 1..200 size 100
        p: flood once/more 1..200 size 100
        p: flood third 1..200 size 100
        a: open
            a: publish news q1 1..200: 200 in order
            a: publish once/more q0 1..200: 200 in order
            a: publish third q0 1..200: 200 in order
        b: open => b: publish once/more q0 1..200: 200 in order
        a: drain 500
        b: drain 500
        p: flood fourth 1..100 size 100
            a: publish fourth q0 102 bytes {alias 4}
            a: publish fourth q0 102 bytes {ALIAS 4}
            a: publish fourth q0 102 bytes {ALIAS 4}
            a: publish fourth q0 102 bytes {ALIAS 4}
        p: flood once/more 201..300 size 100
            b: publish once/more q0 104 bytes {ALIAS 1}
            b: publish once/more q0 104 bytes {ALIAS 1}
            b: publish once/more q0 104 bytes {ALIAS 1}
            b: publish once/more q0 104 bytes {ALIAS 1}
        a: open
            a: publish fourth q0 5..100: 96 in order
            a: publish once/more q0 201..300: 100 in order
        b: open => b: publish once/more q0 205..300: 96 in order
        count pinned => pinned 0
    " }
}

/// Small limits and small windows at once.
#[test]
fn a_slow_socket_and_a_small_window() {
    script! { small, "
        p: session
        a: mqtt connect anna receive=2 acks => a: connack 0
        a: mqtt sub 1 news 1, # 1 => a: suback 1 1 1
        a: drain 300
        p: flood news 1..100 size 100
            a: publish news q1 id 1 102 bytes
            a: publish news q1 id 2 102 bytes
        p: flood n/x 1..100 size 100
        a: drain 300
            a: publish news q1 id 3 102 bytes
            a: publish news q1 id 4 102 bytes
            a: publish news q1 id 5 102 bytes
        a: open
            a: publish n/x q1 1..100: 100 in order
            a: publish news q1 6..100: 95 in order
        count pinned => pinned 0
    " }
}

/// Large messages fill half of the outbox, and the rest waits in the log.
#[test]
fn a_window_in_bytes() {
    script! { small, "
        p: session
        a: mqtt connect anna => a: connack 0
        a: mqtt sub 1 news 1 => a: suback 1 1
        p: flood news 1..5 size 1500
            a: publish news q1 id 1 1502 bytes
            a: publish news q1 id 2 1502 bytes
        a: mqtt puback 1 => a: publish news q1 id 3 1502 bytes
        a: mqtt puback 2 => a: publish news q1 id 4 1502 bytes
        a: mqtt puback 3 => a: publish news q1 id 5 1502 bytes
        a: mqtt puback 4
        a: mqtt puback 5
    " }
}
