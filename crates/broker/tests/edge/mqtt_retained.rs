//! MQTT: retained messages.

use crate::support::mqtt::on;
use crate::support::script;
use broker::settings::Settings;

fn with_three_threads(settings: &mut Settings) {
    on(settings);
    settings.edges_count = 3;
    settings.homes_count = 3;
    settings.logs[0].partitions_count = 6;
}

/// SUBACK comes before the retained messages of all filters of a packet.
#[test]
fn retained_messages_follow_the_answer() {
    script! { on, "
        p: mqtt connect paul => p: connack 0
        p: mqtt pub 0 r/a zero retain | pub 1 r/b one id=1 retain | pub 2 r/c two id=2 retain
            p: puback 1 0x10
            p: pubrec 2
        a: mqtt connect anna => a: connack 0
        a: mqtt sub 1 r/a 2
            a: suback 1 2
            a: publish r/a q0 retain zero
        a: mqtt sub 2 r/b 2, x 1, r/c 2
            a: suback 2 2 1 2
            a: publish r/b q1 id 1 retain one
            a: publish r/c q2 id 2 retain two
        b: mqtt connect ben v3 clean => b: connack 0
        b: mqtt sub 1 r/# 2
            b: suback 1 2
            b: publish r/a q0 retain zero
            b: publish r/b q1 id 1 retain one
            b: publish r/c q2 id 2 retain two
        c: mqtt connect carl v31 clean => c: connack 0
        c: mqtt sub 1 +/b 0, r/c 1
            c: suback 1 0 1
            c: publish r/b q0 retain one
            c: publish r/c q1 id 1 retain two
        p: mqtt pub 1 r/a new id=3 retain
            a: publish r/a q1 id 3 new
            b: publish r/a q1 id 3 new
            p: puback 3
        p: mqtt pub 1 r/a empty id=4 retain
            a: publish r/a q1 id 4 empty
            b: publish r/a q1 id 4 empty
            p: puback 4
        d: mqtt connect dora => d: connack 0
        d: mqtt sub 1 # 0
            d: suback 1 0
            d: publish r/b q0 retain one
            d: publish r/c q0 retain two
        d: mqtt sub 2 r/a 0 => d: suback 2 0
    " }
}

#[test]
fn retained_messages_of_several_homes() {
    script! { with_three_threads, "
        p: mqtt connect paul => p: connack 0
        p: mqtt pub 0 r/a 1 retain | pub 0 r/b 2 retain | pub 0 r/c 3 retain
        p: mqtt pub 0 r/d 4 retain | pub 0 r/e 5 retain | pub 0 r/f 6 retain
        a: mqtt connect anna on=1 => a: connack 0
        a: mqtt sub 1 r/a 1
            a: suback 1 1
            a: publish r/a q0 retain 1
        a: mqtt sub 2 r/b 1, r/c 0
            a: suback 2 1 0
            a: publish r/b q0 retain 2
            a: publish r/c q0 retain 3
        a: mqtt sub 3 r/# 0
            a: suback 3 0
            a: publish r/b q0 retain 2
            a: publish r/a q0 retain 1
            a: publish r/c q0 retain 3
            a: publish r/d q0 retain 4
            a: publish r/e q0 retain 5
            a: publish r/f q0 retain 6
    " }
}

#[test]
fn retained_messages_and_other_protocols() {
    script! { on, "
        n: session; publish 1 r/a native retain => n: published 1 7:1
        a: mqtt connect anna => a: connack 0
        a: mqtt sub 1 r/+ 1
            a: suback 1 1
            a: publish r/a q1 id 1 retain native
        a: mqtt pub 1 r/b mqtt id=1 retain
            a: puback 1
            a: publish r/b q1 id 2 mqtt
        n: subscribe 1 r/a snapshot, 2 r/b snapshot
            n: subscribed 1 through 7:0 replaying
            n: message 1 1<0! native
            n: caught-up 1 through 2
            n: subscribed 2 through 7:0 replaying
            n: message 2 2<0! mqtt
            n: caught-up 2 through 2
        a: mqtt pub 0 r/b empty retain
            a: publish r/b q0 empty
            n: message 2 3<2! empty
        b: mqtt connect ben => b: connack 0
        b: mqtt sub 1 r/+ 1
            b: suback 1 1
            b: publish r/a q1 id 1 retain native
    " }
}

/// Retain handling 0 sends at each SUBSCRIBE, 1 at the first, 2 never.
#[test]
fn retain_handling() {
    script! { on, "
        p: mqtt connect paul => p: connack 0
        p: mqtt pub 0 r/a 7 retain
        a: mqtt connect anna => a: connack 0
        a: mqtt sub 1 r/a 0
            a: suback 1 0
            a: publish r/a q0 retain 7
        a: mqtt sub 2 r/a 0
            a: suback 2 0
            a: publish r/a q0 retain 7
        a: mqtt sub 3 r/a 0 rh=1 => a: suback 3 0
        a: mqtt sub 4 r/a 0 rh=2 => a: suback 4 0
        a: mqtt sub 5 r/# 0
            a: suback 5 0
            a: publish r/a q0 retain 7
        a: mqtt sub 6 r/# 0
            a: suback 6 0
            a: publish r/a q0 retain 7
        a: mqtt sub 7 r/# 0 rh=1 => a: suback 7 0
        a: mqtt sub 8 r/# 0 rh=2 => a: suback 8 0
        b: mqtt connect ben => b: connack 0
        b: mqtt sub 1 r/a 0 rh=2, r/# 0 rh=2 => b: suback 1 0 0
        b: mqtt sub 2 r/a 0 rh=1, r/# 0 rh=1 => b: suback 2 0 0
        c: mqtt connect carl => c: connack 0
        c: mqtt sub 2 r/a 0 rh=1, r/# 0 rh=1
            c: suback 2 0 0
            c: publish r/a q0 retain 7
            c: publish r/a q0 retain 7
        c: mqtt unsub 3 r/a r/# => c: unsuback 3 0 0
        c: mqtt sub 2 r/a 0 rh=1, r/# 0 rh=1
            c: suback 2 0 0
            c: publish r/a q0 retain 7
            c: publish r/a q0 retain 7
        d: mqtt connect dora v3 clean => d: connack 0
        d: mqtt sub 1 r/a 0
            d: suback 1 0
            d: publish r/a q0 retain 7
        d: mqtt sub 2 r/a 0
            d: suback 2 0
            d: publish r/a q0 retain 7
    " }
}

/// The session that continues has its subscriptions: handling 1 sends nothing.
#[test]
fn retain_handling_of_a_session_that_continues() {
    script! { on, "
        p: mqtt connect paul => p: connack 0
        p: mqtt pub 0 r/a 7 retain
        a: mqtt connect anna expiry=60 => a: connack 0
        a: mqtt sub 1 r/a 0, r/# 0 rh=2
            a: suback 1 0 0
            a: publish r/a q0 retain 7
        a: reset
        a: mqtt connect anna expiry=60 => a: connack 0 present
        a: mqtt sub 1 r/a 0 rh=1, r/# 0 rh=1 => a: suback 1 0 0
        a: mqtt sub 2 r/a 0, r/# 0
            a: suback 2 0 0
            a: publish r/a q0 retain 7
            a: publish r/a q0 retain 7
    " }
}

#[test]
fn retain_as_published() {
    script! { on, "
        p: mqtt connect paul => p: connack 0
        a: mqtt connect anna => a: connack 0
        a: mqtt sub 1 r/a 0 rap, r/b 0 => a: suback 1 0 0
        b: mqtt connect ben => b: connack 0
        b: mqtt sub 1 +/a 0 rap, +/b 0 => b: suback 1 0 0
        c: mqtt connect carl v3 clean => c: connack 0
        c: mqtt sub 1 r/a 1 => c: suback 1 1
        p: mqtt pub 1 r/a 1 id=1 retain | pub 1 r/b 2 id=2 retain | pub 1 r/a 3 id=3
            a: publish r/a q0 retain 1
            a: publish r/b q0 2
            a: publish r/a q0 3
            b: publish r/a q0 retain 1
            b: publish r/b q0 2
            b: publish r/a q0 3
            c: publish r/a q1 id 1 1
            c: publish r/a q1 id 2 3
            p: puback 1
            p: puback 2
            p: puback 3
    " }
}

/// More retained messages than the window has room for: the rest follows acknowledgements.
#[test]
fn more_retained_messages_than_room() {
    script! { on, "
        p: mqtt connect paul => p: connack 0
        p: mqtt pub 1 r/a 1 id=1 retain | pub 1 r/b 2 id=2 retain | pub 1 r/c 3 id=3 retain
            p: puback 1 0x10
            p: puback 2 0x10
            p: puback 3 0x10
        a: mqtt connect anna receive=1 => a: connack 0
        a: mqtt sub 1 r/# 1
            a: suback 1 1
            a: publish r/a q1 id 1 retain 1
        p: mqtt pub 1 r/d 4 id=4 | pub 1 r/d 5 id=5
            p: puback 4
            p: puback 5
        a: mqtt puback 1 => a: publish r/b q1 id 2 retain 2
        a: mqtt puback 2 => a: publish r/c q1 id 3 retain 3
        a: mqtt puback 3 => a: publish r/d q1 id 4 4
        a: mqtt puback 4 => a: publish r/d q1 id 5 5
        a: mqtt puback 5
        p: mqtt pub 1 r/d 6 id=6
            a: publish r/d q1 id 6 6
            p: puback 6
        b: mqtt connect ben receive=1 => b: connack 0
        b: mqtt sub 1 r/a 2, r/b 2, r/c 2
            b: suback 1 2 2 2
            b: publish r/a q1 id 1 retain 1
        b: mqtt unsub 2 r/b => b: unsuback 2 0
        b: mqtt puback 1 => b: publish r/c q1 id 2 retain 3
        b: mqtt puback 2
        b: mqtt puback 3
        d: mqtt connect dora receive=1 => d: connack 0
        d: mqtt sub 1 r/# 1
            d: suback 1 1
            d: publish r/a q1 id 1 retain 1
        d: mqtt sub 2 r/# 1 rh=2 id=7 => d: suback 2 1
        d: mqtt puback 1 => d: publish r/b q1 id 2 retain 2 {id 7}
        d: mqtt puback 2 => d: publish r/c q1 id 3 retain 3 {id 7}
        c: mqtt connect carl receive=1 acks => c: connack 0
        c: mqtt sub 1 r/# 1
            c: suback 1 1
            c: publish r/a q1 id 1 retain 1
            c: publish r/b q1 id 2 retain 2
            c: publish r/c q1 id 3 retain 3
    " }
}

/// The retained message is in the log that the session reads, too.
#[test]
fn a_retained_message_and_the_same_message_live() {
    script! { on, "
        a: mqtt connect anna receive=1 => a: connack 0
        p: mqtt connect paul => p: connack 0
        p: mqtt pub 1 r/a 1 id=1 retain => p: puback 1 0x10
        a: mqtt sub 1 r/a 1
            a: suback 1 1
            a: publish r/a q1 id 1 retain 1
        p: mqtt pub 1 r/a 2 id=2 retain | pub 1 r/a 3 id=3 retain
            p: puback 2
            p: puback 3
        a: mqtt sub 2 r/a 1 => a: suback 2 1
        a: mqtt puback 1 => a: publish r/a q1 id 2 retain 3
        a: mqtt puback 2 => a: publish r/a q1 id 3 2
        a: mqtt puback 3 => a: publish r/a q1 id 4 3
        a: mqtt puback 4
    " }
}

/// Pages of retained messages.
#[test]
fn many_retained_messages() {
    let pages = |settings: &mut Settings| {
        on(settings);
        settings.limits.page_records_max = 2;
    };
    script! { pages, "
        p: mqtt connect paul => p: connack 0
        p: mqtt pub 0 r/a 1 retain | pub 0 r/b 2 retain | pub 0 r/c 3 retain | pub 0 r/d 4 retain
        p: mqtt pub 0 s/a 5 retain | pub 0 s/b 6 retain | pub 0 s/c 7 retain | pub 0 s/d 8 retain
        a: mqtt connect anna => a: connack 0
        a: mqtt sub 1 +/d 0, s/# 0
            a: suback 1 0 0
            a: publish r/d q0 retain 4
            a: publish s/d q0 retain 8
            a: publish s/a q0 retain 5
            a: publish s/b q0 retain 6
            a: publish s/c q0 retain 7
            a: publish s/d q0 retain 8
        b: mqtt connect ben receive=1 acks => b: connack 0
        b: mqtt sub 1 # 1
            b: suback 1 1
            b: publish r/a q0 retain 1
            b: publish r/b q0 retain 2
            b: publish r/c q0 retain 3
            b: publish r/d q0 retain 4
            b: publish s/a q0 retain 5
            b: publish s/b q0 retain 6
            b: publish s/c q0 retain 7
            b: publish s/d q0 retain 8
        p: mqtt pub 1 s/a 5 id=1 retain | pub 1 s/b 6 id=2 retain | pub 1 s/c 7 id=3 retain
            a: publish s/a q0 5
            a: publish s/b q0 6
            a: publish s/c q0 7
            b: publish s/a q1 id 1 5
            b: publish s/b q1 id 2 6
            b: publish s/c q1 id 3 7
            p: puback 1
            p: puback 2
            p: puback 3
        c: mqtt connect carl receive=1 => c: connack 0
        c: mqtt sub 1 # 1
            c: suback 1 1
            c: publish r/a q0 retain 1
            c: publish r/b q0 retain 2
            c: publish r/c q0 retain 3
            c: publish r/d q0 retain 4
            c: publish s/a q1 id 1 retain 5
            c: publish s/d q0 retain 8
        c: mqtt puback 1 => c: publish s/b q1 id 2 retain 6
        c: mqtt puback 2 => c: publish s/c q1 id 3 retain 7
        c: mqtt puback 3
    " }
}

#[test]
fn a_blocked_socket_and_retained_messages() {
    script! { on, "
        p: mqtt connect paul => p: connack 0
        p: mqtt pub 1 r/a 1 id=1 retain | pub 1 r/b 2 id=2 retain | pub 1 r/c 3 id=3 retain
            p: puback 1 0x10
            p: puback 2 0x10
            p: puback 3 0x10
        a: mqtt connect anna receive=2 acks => a: connack 0
        a: block
        a: mqtt sub 1 r/# 1, r/a 0
        p: mqtt pub 1 r/d 4 id=1 => p: puback 1
        a: open
            a: suback 1 1 0
            a: publish r/a q1 id 1 retain 1
            a: publish r/b q1 id 2 retain 2
            a: publish r/a q0 retain 1
            a: publish r/c q1 id 3 retain 3
            a: publish r/d q1 id 4 4
        count pinned => pinned 0
    " }
}

/// A retained message that waits for room does not follow a new answer (world 85 of the
/// simulator).
#[test]
fn subscribing_again_while_retained_messages_wait() {
    script! { on, "
        p: mqtt connect paul => p: connack 0
        p: mqtt pub 1 r/a 1 id=1 retain | pub 1 r/b 2 id=2 retain
            p: puback 1 0x10
            p: puback 2 0x10
        a: mqtt connect anna receive=1 => a: connack 0
        a: mqtt sub 1 r/# 1
            a: suback 1 1
            a: publish r/a q1 id 1 retain 1
        p: mqtt pub 1 r/b 3 id=3 retain => p: puback 3
        a: mqtt sub 2 r/# 1 => a: suback 2 1
        a: mqtt puback 1 => a: publish r/b q1 id 2 retain 3
        a: mqtt puback 2 => a: publish r/b q1 id 3 3
        a: mqtt puback 3
    " }
}

/// A retained message that waits for room when its session goes to sleep comes after the return.
#[test]
fn retained_messages_that_wait_outlive_the_connection() {
    script! { with_three_threads, "
        p: mqtt connect paul => p: connack 0
        p: mqtt pub 1 r/a 1 id=1 retain => p: puback 1 0x10
        p: mqtt pub 1 r/b 2 id=2 retain => p: puback 2 0x10
        a: mqtt connect anna receive=1 expiry=60 on=1 => a: connack 0
        a: mqtt sub 1 r/b 1
            a: suback 1 1
            a: publish r/b q1 id 1 retain 2
        a: mqtt sub 2 r/a 1 => a: suback 2 1
        a: reset
        a: mqtt connect anna receive=1 expiry=60 on=2
            a: connack 0 present
            a: publish r/b q1 id 1 dup retain 2
        a: reset
        a: mqtt connect anna receive=1 expiry=60 on=0
            a: connack 0 present
            a: publish r/b q1 id 1 dup retain 2
        a: mqtt puback 1 => a: publish r/a q1 id 2 retain 1
        a: mqtt puback 2
    " }
}

/// A session wakes, and its client subscribes once more before the filter is granted again.
#[test]
fn a_subscription_while_its_session_wakes() {
    script! { with_three_threads, "
        p: mqtt connect paul => p: connack 0
        p: mqtt pub 0 r/a 7 retain
        a: mqtt connect anna expiry=60 => a: connack 0
        a: mqtt sub 1 r/# 0
            a: suback 1 0
            a: publish r/a q0 retain 7
        a: reset
        homes stop 1
        a: mqtt connect anna expiry=60 | sub 2 r/# 0
            a: connack 0 present
            a: suback 2 0
        homes go => a: publish r/a q0 retain 7
        a: reset
        homes stop 1
        a: mqtt connect anna expiry=60 | sub 2 r/# 0 rh=1
            a: connack 0 present
            a: suback 2 0
        homes go
        a: reset
        homes stop 1
        a: mqtt connect anna expiry=60 | unsub 2 r/# | sub 3 r/# 0 rh=1
            a: connack 0 present
            a: unsuback 2 0
            a: suback 3 0
        homes go => a: publish r/a q0 retain 7
    " }
}
