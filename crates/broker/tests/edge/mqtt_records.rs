//! MQTT: sessions whose log is on disk. A client learns of a step only when the log knows it; in
//! these nodes it does so at `disks go`.

use crate::support::mqtt::on;
use crate::support::{add_log_on_disk, script};
use broker::settings::Settings;

/// Sessions lie in a log on disk, messages in memory.
fn sessions_on_disk(settings: &mut Settings) {
    on(settings);
    add_log_on_disk(settings, "$mqtt/#");
}

#[test]
fn a_session_begins() {
    script! { sessions_on_disk, "
        a: mqtt connect anna expiry=60
        a: mqtt ping
        disks go
            a: connack 0
            a: pingresp
        a: mqtt sub 1 news 1, n/# 2
        disks go => a: suback 1 1 2
        a: mqtt unsub 2 n/#
        disks go => a: unsuback 2 0
        b: mqtt connect ben => b: connack 0
        b: mqtt sub 1 news 2 => b: suback 1 2
    " }
}

#[test]
fn messages_with_qos_2() {
    script! { sessions_on_disk, "
        p: session
        a: mqtt connect anna expiry=60
        disks go => a: connack 0
        a: mqtt sub 1 news 2, n/# 1
        disks go => a: suback 1 2 1
        p: publish 0 n/a 1 => a: publish n/a q1 id 1 1
        b: mqtt connect ben => b: connack 0
        b: mqtt pub 2 news two id=1 => b: pubrec 1
        b: mqtt pub 2 news three id=2 => b: pubrec 2
        p: publish 0 n/a 4
        disks go => a: publish news q2 id 2 two
        disks go
            a: publish news q2 id 3 three
            a: publish n/a q1 id 4 4
        a: mqtt pubrec 2
        disks go => a: pubrel 2
        a: mqtt pubcomp 2
        a: mqtt puback 1
    " }
}

/// An identifier that was released names another publication, and none before the release is
/// durable.
#[test]
fn publications_with_qos_2() {
    script! { sessions_on_disk, "
        n: session; subscribe 1 news => n: subscribed 1 through 7:0
        a: mqtt connect anna expiry=60
        disks go => a: connack 0
        a: mqtt pub 2 news one id=1
            a: pubrec 1
            n: message 1 1<0 one
        a: mqtt pub 2 news one id=1 dup => a: pubrec 1
        a: mqtt pubrel 1
        a: mqtt pub 2 news two id=1
        disks go
            a: pubcomp 1
            a: pubrec 1
            n: message 1 2<1 two
        a: mqtt pub 1 news three id=2
            a: puback 2
            n: message 1 3<2 three
    " }
}

/// A client repeats its releases before its publications. A publication that the record of its
/// session lacks is taken once, also when the client returns once more.
#[test]
fn publications_that_come_again() {
    script! { sessions_on_disk, "
        n: session; subscribe 1 news => n: subscribed 1 through 7:0
        a: mqtt connect anna expiry=60
        disks go => a: connack 0
        a: mqtt pub 2 news one id=1
            a: pubrec 1
            n: message 1 1<0 one
        a: reset
        disks go
        a: mqtt connect anna expiry=60
        disks go => a: connack 0 present
        a: mqtt pub 2 news two id=2 dup
            a: pubrec 2
            n: message 1 2<1 two
        a: mqtt pubrel 1
        disks go => a: pubcomp 1
        a: mqtt pub 2 news three id=3
        disks go
            a: pubrec 3
            n: message 1 3<2 three
        a: mqtt pub 2 news two id=2 dup => a: pubrec 2
    " }
}

/// The log refuses records while it hangs; they follow.
#[test]
fn a_log_that_hangs() {
    script! { sessions_on_disk, "
        a: mqtt connect anna expiry=60
        time +6s
        b: mqtt connect ben expiry=60
        time +1s
        disks go => a: connack 0
        time +1s
        disks go => b: connack 0
        a: mqtt pubrel 7
        a: mqtt disconnect
        disks go => a: pubcomp 7 0x92, closed
    " }
}

/// A new session ends the one before. Its client learns that when the log knows it, also where the
/// new session does not last: otherwise the old one would be back after a crash of the node.
#[test]
fn a_new_session_ends_the_one_before() {
    script! { sessions_on_disk, "
        a: mqtt connect anna expiry=60
        disks go => a: connack 0
        a: mqtt sub 1 news 1
        disks go => a: suback 1 1
        a: reset
        disks go
        b: mqtt connect anna clean
        b: mqtt ping
        disks go
            b: connack 0
            b: pingresp
        b: mqtt disconnect => b: closed
        disks go
        c: mqtt connect anna => c: connack 0
        c: mqtt disconnect => c: closed
        d: mqtt connect anna expiry=60
        disks go => d: connack 0
        e: mqtt connect anna clean => d: disconnect 0x8e, closed
        disks go => e: connack 0
    " }
}
