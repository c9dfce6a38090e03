//! MQTT: wills, and connections that take the name of another.

use crate::support::mqtt::on;
use crate::support::script;
use broker::settings::Settings;

fn with_three_threads(settings: &mut Settings) {
    on(settings);
    settings.edges_count = 3;
    settings.homes_count = 3;
    settings.logs[0].partitions_count = 6;
}

/// A will follows every end but that of DISCONNECT with success.
#[test]
fn wills_of_lost_connections() {
    script! { on, "
        w: mqtt connect willy | sub 1 gone/# 2
            w: connack 0
            w: suback 1 2
        a: mqtt connect anna will=gone/a=bye => a: connack 0
        a: reset => w: publish gone/a q0 bye
        a: mqtt connect anna v3 clean will=gone/a=bye will-qos=1 => a: connack 0
        a: end
            a: closed
            w: publish gone/a q1 id 1 bye
        a: mqtt connect anna v31 clean will=gone/a=bye will-qos=2 => a: connack 0
        a: mqtt raw 00 00
            a: closed
            w: publish gone/a q2 id 2 bye
        a: mqtt connect anna will=gone/a=bye => a: connack 0
        a: mqtt disconnect => a: closed
        a: mqtt connect anna v3 will=gone/a=bye => a: connack 0
        a: mqtt disconnect => a: closed
        a: mqtt connect anna will=gone/a=bye will-qos=1 => a: connack 0 present
        a: mqtt disconnect 4
            a: closed
            w: publish gone/a q1 id 3 bye
        a: mqtt connect anna will=gone/a=bye will-type=t/x will-reply=r will-expiry=9
            a: connack 0
        a: reset => w: publish gone/a q0 bye {type t/x, reply r, expiry 9}
        count wills => wills 5
    " }
}

/// A connection is lost in the turn in which its last packets have come.
#[test]
fn last_packets_of_a_lost_connection() {
    script! { |settings| {
        on(settings);
        settings.limits.turn_frames_max = 2;
    }, "
        w: mqtt connect willy | sub 1 gone/# 0
            w: connack 0
            w: suback 1 0
        a: mqtt connect anna will=gone/a=bye => a: connack 0
        a: last mqtt ping | ping | ping | ping | ping | disconnect
        b: mqtt connect ben will=gone/b=bye => b: connack 0
        b: last mqtt ping | ping | ping | ping | ping => w: publish gone/b q0 bye
        count wills => wills 1
    " }
}

#[test]
fn retained_wills() {
    script! { on, "
        a: mqtt connect anna will=gone/a=bye will-retain => a: connack 0
        a: reset
        w: mqtt connect willy | sub 1 gone/a 0
            w: connack 0
            w: suback 1 0
            w: publish gone/a q0 retain bye
        n: session; subscribe 1 gone/a snapshot
            n: subscribed 1 through 7:0 replaying
            n: message 1 1<0! bye
            n: caught-up 1 through 1
        a: mqtt connect anna will=gone/a=empty will-retain => a: connack 0
        a: reset
            n: message 1 2<1! empty
            w: publish gone/a q0 empty
        v: mqtt connect vera | sub 1 gone/a 0
            v: connack 0
            v: suback 1 0
    " }
}

/// A delayed will waits for the return of its client, and not longer than its session.
#[test]
fn delayed_wills() {
    script! { on, "
        w: mqtt connect willy | sub 1 gone/# 0
            w: connack 0
            w: suback 1 0
        a: mqtt connect anna will=gone/a=late will-delay=10 expiry=60 => a: connack 0
        a: reset
        time +9s
        time +2s => w: publish gone/a q0 late
        a: mqtt connect anna will=gone/a=never will-delay=10 expiry=60 => a: connack 0 present
        a: reset
        time +5s
        a: mqtt connect anna will=gone/a=never will-delay=10 expiry=60 => a: connack 0 present
        time +20s
        a: mqtt disconnect => a: closed
        b: mqtt connect ben will=gone/b=short will-delay=10 expiry=3 => b: connack 0
        b: reset
        time +4s => w: publish gone/b q0 short
        c: mqtt connect carl will=gone/c=now will-delay=10 => c: connack 0
        c: reset => w: publish gone/c q0 now
        d: mqtt connect dora will=gone/d=clean will-delay=10 expiry=60 => d: connack 0
        d: reset
        d: mqtt connect dora clean
            d: connack 0
            w: publish gone/d q0 clean
        e: mqtt connect eva will=gone/e=left will-delay=5 expiry=60 => e: connack 0
        e: mqtt disconnect 4 expiry=0
            e: closed
            w: publish gone/e q0 left
        count wills sleeping => wills 5 sleeping 1
    " }
}

/// The will of a connection that is taken over.
#[test]
fn wills_of_connections_that_are_taken_over() {
    script! { on, "
        w: mqtt connect willy | sub 1 gone/# 0
            w: connack 0
            w: suback 1 0
        a: mqtt connect anna will=gone/a=ends => a: connack 0
        b: mqtt connect anna will=gone/a=continues expiry=60
            a: disconnect 0x8e, closed
            b: connack 0
            w: publish gone/a q0 ends
        a: mqtt connect anna will=gone/a=delayed will-delay=5 expiry=60
            a: connack 0 present
            b: disconnect 0x8e, closed
            w: publish gone/a q0 continues
        b: mqtt connect anna will=gone/a=delayed-clean will-delay=5 expiry=60
            a: disconnect 0x8e, closed
            b: connack 0 present
        a: mqtt connect anna clean
            a: connack 0
            b: disconnect 0x8e, closed
            w: publish gone/a q0 delayed-clean
        time +10s
        count wills sleeping => wills 3 sleeping 0
    " }
}

#[test]
fn a_connection_takes_the_name_of_another() {
    script! { on, "
        p: session
        a: mqtt connect anna expiry=60 => a: connack 0
        a: mqtt sub 1 news 1 => a: suback 1 1
        p: publish 0 news 1 => a: publish news q1 id 1 1
        b: mqtt connect anna expiry=60
            a: disconnect 0x8e, closed
            b: connack 0 present
            b: publish news q1 id 1 dup 1
        b: mqtt puback 1
        p: publish 0 news 2 => b: publish news q1 id 2 2
        c: mqtt connect anna v3
            b: disconnect 0x8e, closed
            c: connack 0 present
            c: publish news q1 id 2 dup 2
        p: publish 0 news 3 => c: publish news q1 id 3 3
        d: mqtt connect anna v3 clean
            c: closed
            d: connack 0
        e: mqtt connect anna
            d: closed
            e: connack 0
        count mqtt-sessions sleeping subscriptions => mqtt-sessions 1 sleeping 0 subscriptions 0
    " }
    script! { with_three_threads, "
        p: session
        a: mqtt connect anna expiry=60 on=1 => a: connack 0
        a: mqtt sub 1 news 1, n/# 1 => a: suback 1 1 1
        p: publish 0 news 1 => a: publish news q1 id 1 1
        p: publish 0 n/x 1 => a: publish n/x q1 id 2 1
        b: mqtt connect anna expiry=60 on=2
            a: disconnect 0x8e, closed
            b: connack 0 present
            b: publish news q1 id 1 dup 1
            b: publish n/x q1 id 2 dup 1
        b: mqtt puback 1 | puback 2
        p: publish 0 news 2 => b: publish news q1 id 3 2
        p: publish 0 n/x 2 => b: publish n/x q1 id 4 2
        c: mqtt connect anna v3 on=0
            b: disconnect 0x8e, closed
            c: connack 0 present
            c: publish news q1 id 3 dup 2
            c: publish n/x q1 id 4 dup 2
        p: publish 0 news 3 => c: publish news q1 id 5 3
        d: mqtt connect anna v3 clean on=1
            c: closed
            d: connack 0
        e: mqtt connect anna on=2
            d: closed
            e: connack 0
        count mqtt-sessions sleeping subscriptions => mqtt-sessions 1 sleeping 0 subscriptions 0
    " }
}

/// Several connections ask for a name at once: one has it in the end, and nothing is lost. Before
/// CONNACK there is no DISCONNECT ([MQTT-3.14.0-1]).
#[test]
fn several_connections_want_a_name() {
    script! { with_three_threads, "
        p: session
        a: mqtt connect anna expiry=60 on=1 => a: connack 0
        a: mqtt sub 1 news 1 => a: suback 1 1
        homes stop
        p: publish 0 news 1
        b: mqtt connect anna expiry=60 on=2
        c: mqtt connect anna expiry=60 on=0
        d: mqtt connect anna expiry=60 on=1
        homes go
            a: publish news q1 id 1 1
            a: disconnect 0x8e, closed
            b: closed
            c: closed
            d: connack 0 present
            d: publish news q1 id 1 dup 1
        p: publish 0 news 2 => d: publish news q1 id 2 2
        count mqtt-sessions sleeping => mqtt-sessions 1 sleeping 0
    " }
    script! { with_three_threads, "
        p: session
        a: mqtt connect anna expiry=60 on=1 => a: connack 0
        a: mqtt sub 1 news 1 => a: suback 1 1
        letters stop
        b: mqtt connect anna expiry=60 on=2
        b: reset
        a: reset
        letters go
        p: publish 0 news 1
        count mqtt-sessions sleeping => mqtt-sessions 0 sleeping 1
        c: mqtt connect anna expiry=60 on=2
            c: connack 0 present
            c: publish news q1 id 1 1
    " }
}

/// A client disconnects and connects again, and the node reads CONNECT on another thread before
/// it reads DISCONNECT.
#[test]
fn a_disconnection_that_is_read_late() {
    script! { with_three_threads, "
        large reads
        w: mqtt connect willy | sub 1 gone 0
            w: connack 0
            w: suback 1 0
        a: mqtt connect anna expiry=60 will=gone=a on=1 => a: connack 0
        letters stop
        b: mqtt connect anna expiry=60 on=2
        sockets stop
        a: mqtt disconnect expiry=0
        letters go before sockets
            a: closed
            b: connack 0
        count wills sleeping => wills 0 sleeping 0
    " }
}

/// A blocked connection loses its name, too.
#[test]
fn a_blocked_connection_is_taken_over() {
    script! { on, "
        p: session
        a: mqtt connect anna expiry=60 => a: connack 0
        a: mqtt sub 1 news 1 => a: suback 1 1
        a: block
        p: publish 0 news 1
        b: mqtt connect anna expiry=60
            b: connack 0 present
            b: publish news q1 id 1 dup 1
        p: reset
        time +200s => a: reset
        count connections mqtt-sessions => connections 1 mqtt-sessions 1
    " }
}

/// A connection that ends before it has its name leaves the session alone, and has no will yet.
#[test]
fn a_connection_ends_before_it_has_its_name() {
    script! { with_three_threads, "
        p: session
        a: mqtt connect anna expiry=60 => a: connack 0
        a: mqtt sub 1 news 1, n/# 1 => a: suback 1 1 1
        a: reset
        p: publish 0 news 1
        homes stop
        b: mqtt connect anna expiry=60 will=gone=b on=1
        b: reset
        c: mqtt connect anna expiry=60 will=gone=c on=2
        c: reset
        homes go
        count wills sleeping => wills 0 sleeping 1
        letters stop
        b: mqtt connect anna expiry=60 on=1
        b: reset
        c: mqtt connect anna expiry=60 on=2
        letters go
            c: connack 0 present
            c: publish news q1 id 1 1
        c: mqtt disconnect => c: closed
        letters stop
        b: mqtt connect anna clean on=1
        b: reset
        letters go
        count sleeping => sleeping 0
        c: mqtt connect anna expiry=60 => c: connack 0
    " }
}

/// A will has a topic that its client may publish to.
#[test]
fn topics_of_wills() {
    script! { on, "
        a: mqtt connect anna will=$SYS/x=bye => a: connack 0x87, closed
        b: mqtt connect ben will=$sys/x=bye => b: connack 0x87, closed
        c: mqtt connect carl v3 clean will=$share/g/x=bye => c: connack 0x87, closed
        d: mqtt connect dora will=$SYS/broker/connection/d/state=0 => d: connack 0
        d: reset
        count wills => wills 1
    " }
}

/// A connection that has ended still waits for its socket when its client returns (world 112 of the
/// simulator).
#[test]
fn a_delayed_will_of_a_connection_that_waits_for_its_socket() {
    script! { on, "
        w: mqtt connect willy | sub 1 gone/a 2
            w: connack 0
            w: suback 1 2
        a: mqtt connect anna expiry=60 will=gone/a=bye will-delay=5 => a: connack 0
        a: block
        a: mqtt ping
        a: mqtt disconnect 4
        b: mqtt connect anna expiry=60 => b: connack 0 present
        time +10s
        count wills => wills 0
    " }
}
