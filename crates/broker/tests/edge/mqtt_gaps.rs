//! MQTT: what a session had open, and does not come again or comes in part.

use crate::support::mqtt::on;
use crate::support::{add_log_on_disk, script};
use broker::settings::{EntitlementSettings, Settings};

/// The log has lost some messages: the session continues behind the gap, and its window opens
/// again.
#[test]
fn a_session_behind_a_gap() {
    let short = |settings: &mut Settings| {
        on(settings);
        settings.rules[0].history_messages_max = 4;
    };
    script! { short, "
        p: session
        a: mqtt connect anna expiry=60 receive=2 => a: connack 0
        a: mqtt sub 1 news 1, n/# 1 => a: suback 1 1 1
        p: flood news 1..2
            a: publish news q1 id 1 1
            a: publish news q1 id 2 2
        a: reset
        p: flood news 3..20
        a: mqtt connect anna expiry=60 receive=2
            a: connack 0 present
            a: publish news q1 id 1 dup 1 {crore-gap=0/7:2-16 history_limit news}
            a: publish news q1 id 2 dup 2
        a: mqtt puback 1 | puback 2
            a: publish news q1 id 3 17
            a: publish news q1 id 4 18
        a: mqtt puback 3 | puback 4
            a: publish news q1 id 5 19
            a: publish news q1 id 6 20
        a: mqtt puback 5 | puback 6
        p: flood news 21..22
            a: publish news q1 id 7 21
            a: publish news q1 id 8 22
    " }
    let small = |settings: &mut Settings| {
        on(settings);
        settings.logs[0].log_bytes_max = 8_192;
        settings.logs[0].segment_bytes = 4_096;
    };
    script! { small, "
        p: session
        a: mqtt connect anna expiry=60 receive=2 => a: connack 0
        a: mqtt sub 1 news 1 => a: suback 1 1
        b: mqtt connect ben expiry=60 receive=2 => b: connack 0
        b: mqtt sub 1 n/# 1 => b: suback 1 1
        p: flood news 1..2
            a: publish news q1 id 1 1
            a: publish news q1 id 2 2
        p: flood n/x 1..2
            b: publish n/x q1 id 1 1
            b: publish n/x q1 id 2 2
        a: reset
        b: reset
        p: flood other 1..100 size 400
        p: flood news 3..4
        p: flood n/x 3..4
        a: mqtt connect anna expiry=60 receive=2 acks
            a: connack 0 present
            a: publish news q1 id 3 3 {crore-gap=0/7:0-1 evicted #, crore-gap=0/7:1-2 evicted #}
            a: publish news q1 id 4 4
        b: mqtt connect ben expiry=60 receive=2
            b: connack 0 present
            b: publish n/x q1 id 3 3 {crore-gap=0/7:4-88 evicted n/#, crore-gap=0/7:2-3 evicted #, crore-gap=0/7:3-4 evicted #}
            b: publish n/x q1 id 4 4
        b: mqtt puback 3 | puback 4
        p: flood news 5..6
            a: publish news q1 id 5 5
            a: publish news q1 id 6 6
        p: flood n/x 5..6
            b: publish n/x q1 id 5 5
            b: publish n/x q1 id 6 6
    " }
}

/// Open messages of a subscription that has ended come again ([MQTT-3.10.4-3]), and make room.
#[test]
fn open_messages_without_their_subscription() {
    script! { on, "
        p: mqtt connect paul => p: connack 0
        a: mqtt connect anna expiry=60 receive=3 => a: connack 0
        a: mqtt sub 1 news 2, n/# 2, other 1 => a: suback 1 2 2 1
        p: mqtt pub 2 news 1 id=1
            a: publish news q2 id 1 1
            p: pubrec 1
        p: mqtt pub 1 n/x 2 id=2
            a: publish n/x q1 id 2 2
            p: puback 2
        p: mqtt pub 1 news 3 id=3
            a: publish news q1 id 3 3
            p: puback 3
        a: mqtt unsub 2 news n/# => a: unsuback 2 0 0
        a: reset
        p: mqtt pub 1 other 4 id=4 => p: puback 4
        p: mqtt pub 1 other 5 id=5 => p: puback 5
        a: mqtt connect anna expiry=60 receive=3
            a: connack 0 present
            a: publish news q2 id 1 dup 1
            a: publish n/x q1 id 2 dup 2
            a: publish news q1 id 3 dup 3
        a: mqtt pubrec 1 => a: pubrel 1
        a: mqtt pubcomp 1 => a: publish other q1 id 4 4
        a: mqtt puback 2 | puback 3 => a: publish other q1 id 5 5
        a: mqtt puback 4
        a: mqtt puback 5
        p: mqtt pub 1 other 6 id=6
            a: publish other q1 id 6 6
            p: puback 6
    " }
}

/// An open message with QoS 2 that the log has lost: the client is released.
#[test]
fn an_open_message_with_qos_2_behind_a_gap() {
    let small = |settings: &mut Settings| {
        on(settings);
        settings.logs[0].log_bytes_max = 8_192;
        settings.logs[0].segment_bytes = 4_096;
    };
    script! { small, "
        n: session
        p: mqtt connect paul => p: connack 0
        a: mqtt connect anna expiry=60 receive=1 => a: connack 0
        a: mqtt sub 1 news 2 => a: suback 1 2
        p: mqtt pub 2 news 1 id=1
            a: publish news q2 id 1 1
            p: pubrec 1
        a: reset
        n: flood other 1..100 size 400
        p: mqtt pub 2 news 2 id=2 | pub 2 news 3 id=3
            p: pubrec 2
            p: pubrec 3
        a: mqtt connect anna expiry=60 receive=1
            a: connack 0 present
            a: pubrel 1
        a: mqtt pubcomp 1 => a: publish news q2 id 2 2 {crore-gap=0/7:0-1 evicted #}
        a: mqtt pubrec 2 => a: pubrel 2
        a: mqtt pubcomp 2 => a: publish news q2 id 3 3
    " }
}

/// The retained message is behind the cursor of its subscription and fills the window: it comes
/// again before anything that the subscription brings (world 47 of the simulator).
#[test]
fn a_retained_message_that_fills_the_window_comes_again() {
    script! { on, "
        p: mqtt connect paul => p: connack 0
        a: mqtt connect anna expiry=60 receive=1 => a: connack 0
        a: mqtt sub 1 news 1 => a: suback 1 1
        p: mqtt pub 1 news 1 id=1 | pub 1 news 2 id=2 | pub 1 news 3 id=3 retain
            a: publish news q1 id 1 1
            p: puback 1
            p: puback 2
            p: puback 3
        a: mqtt sub 2 news 1 => a: suback 2 1
        a: mqtt puback 1 => a: publish news q1 id 2 retain 3
        a: reset
        a: mqtt connect anna expiry=60 receive=1
            a: connack 0 present
            a: publish news q1 id 2 dup retain 3
        a: mqtt puback 2 => a: publish news q1 id 3 2
        a: mqtt puback 3 => a: publish news q1 id 4 3
        a: mqtt puback 4
    " }
}

/// Messages come again in their order, before all others, whatever the client subscribes to anew
/// meanwhile (world 25 of the simulator).
#[test]
fn messages_come_again_before_others() {
    script! { on, "
        p: session
        a: mqtt connect anna expiry=60 receive=2 => a: connack 0
        a: mqtt sub 1 n/x 1, n/+ 1 => a: suback 1 1 1
        p: flood n/x 1..4
            a: publish n/x q1 id 1 1
            a: publish n/x q1 id 2 2
        a: mqtt puback 1 => a: publish n/x q1 id 3 3
        a: reset
        a: connect mqtt
        a: block
        a: mqtt connect anna expiry=60 receive=1 | unsub 1 n/x n/+ | sub 2 n/+ 1, n/x 1
        p: flood n/x 5..6
        a: open
            a: connack 0 present
            a: publish n/x q1 id 2 dup 2
            a: unsuback 1 0 0
            a: suback 2 1 1
        a: mqtt puback 2 => a: publish n/x q1 id 3 dup 3
        a: mqtt puback 3 => a: publish n/x q1 id 4 5
        a: mqtt puback 4 => a: publish n/x q1 id 5 6
    " }
}

/// A message that is no longer kept when its time is over.
#[test]
fn expiry_while_away() {
    script! { on, "
        p: mqtt connect paul => p: connack 0
        a: mqtt connect anna expiry=60 => a: connack 0
        a: mqtt sub 1 news 1, n/# 1 => a: suback 1 1 1
        a: reset
        p: mqtt pub 1 news 1 id=1 expiry=5 | pub 1 news 2 id=2 expiry=30 | pub 1 n/x 3 id=3 expiry=5
            p: puback 1
            p: puback 2
            p: puback 3
        time +10s
        a: mqtt connect anna expiry=60
            a: connack 0 present
            a: publish news q1 id 3 2 {expiry 20}
        a: reset
        time +25s
        a: mqtt connect anna expiry=60 => a: connack 0 present
        a: mqtt puback 2
        p: mqtt pub 1 news 4 id=1
            a: publish news q1 id 4 4
            p: puback 1
    " }
}

/// It is repeated from the log, like others.
#[test]
fn a_retained_message_that_was_open() {
    script! { on, "
        p: mqtt connect paul => p: connack 0
        p: mqtt pub 1 news 1 id=1 retain => p: puback 1 0x10
        p: mqtt pub 1 other 2 id=1 => p: puback 1 0x10
        a: mqtt connect anna expiry=60 => a: connack 0
        a: mqtt sub 1 news 1, # 1 rh=2
            a: suback 1 1 1
            a: publish news q1 id 1 retain 1
        a: reset
        a: mqtt connect anna expiry=60
            a: connack 0 present
            a: publish news q1 id 1 dup retain 1
        a: mqtt puback 1
        p: mqtt pub 1 news 3 id=3
            a: publish news q1 id 2 3
            p: puback 3
    " }
}

/// The retained message waits for the window, which only a repetition opens.
#[test]
fn a_retained_message_behind_a_repetition() {
    script! { on, "
        p: mqtt connect paul => p: connack 0
        a: mqtt connect anna expiry=60 receive=1 => a: connack 0
        a: mqtt sub 1 news 1 => a: suback 1 1
        p: mqtt pub 1 news 1 id=1 | pub 1 r/a 2 id=2 retain
            a: publish news q1 id 1 1
            p: puback 1
            p: puback 2 0x10
        p: mqtt pub 1 news 3 id=3 => p: puback 3
        a: reset
        a: connect mqtt
        a: block
        a: mqtt connect anna expiry=60 receive=1 | sub 1 r/a 1
        a: open
            a: connack 0 present
            a: publish news q1 id 1 dup 1
            a: suback 1 1
        a: mqtt puback 1 => a: publish r/a q1 id 2 retain 2
        a: mqtt puback 2 => a: publish news q1 id 3 3
        a: mqtt puback 3
    " }
}

#[test]
fn a_blocked_client_returns() {
    let small = |settings: &mut Settings| {
        on(settings);
        settings.limits.outbox_bytes_max = 4_096;
        (settings.limits.ring_bytes, settings.limits.page_bytes) = (1, 1);
    };
    script! { small, "
        p: session
        a: mqtt connect anna expiry=60 acks => a: connack 0
        a: mqtt sub 1 news 1, n/# 2 => a: suback 1 1 2
        a: block
        p: flood news 1..50 size 100
        p: flood n/x 1..50 size 100
        a: reset
        a: mqtt connect anna expiry=60 acks
            a: connack 0 present
            a: publish n/x q1 1..50: 50 in order
            a: publish news q1 1..50: 50 in order
        count pinned sleeping => pinned 0 sleeping 0
    " }
}

/// Every client may hear of its own gaps, and hears of no others.
#[test]
fn gaps_as_messages_of_their_own() {
    let short = |settings: &mut Settings| {
        on(settings);
        settings.rules[0].history_messages_max = 4;
    };
    script! { short, "
        p: session
        a: mqtt connect anna v3 => a: connack 0
        a: mqtt sub 1 news 1, $sys/mine/gap 1 => a: suback 1 1 0
        b: mqtt connect ben expiry=60 => b: connack 0
        b: mqtt sub 1 news 1, $sys/mine/gap 0 => b: suback 1 1 0
        a: reset
        b: mqtt unsub 2 $sys/mine/gap => b: unsuback 2 0
        b: reset
        p: flood news 1..20
        a: mqtt connect anna v3
            a: connack 0 present
            a: publish $sys/mine/gap q0 99 bytes
            a: publish news q1 id 1 17
            a: publish news q1 id 2 18
            a: publish news q1 id 3 19
            a: publish news q1 id 4 20
        b: mqtt connect ben expiry=60
            b: connack 0 present
            b: publish news q1 id 1 17 {crore-gap=0/7:0-16 history_limit news}
            b: publish news q1 id 2 18
            b: publish news q1 id 3 19
            b: publish news q1 id 4 20
    " }
    let with_tokens = |settings: &mut Settings| {
        on(settings);
        settings.entitlement = Some(EntitlementSettings::default());
    };
    script! { with_tokens, "
        a: mqtt connect anna password=anna.s:news => a: connack 0
        a: mqtt sub 1 news 0, $sys/mine/gap 2, $sys/mine/# 0, $sys/mine 0
            a: suback 1 0 0 0x87 0x87
        a: mqtt pub 1 $sys/mine/gap hi id=1 => a: puback 1 0x87
    " }
}

/// A home refuses what a session has: the connection ends, and the session keeps it.
#[test]
fn a_refused_subscription_stays_with_its_session() {
    let few = |settings: &mut Settings| {
        on(settings);
        settings.limits.topics_max = 1;
    };
    script! { few, "
        p: session
        a: mqtt connect anna expiry=600 => a: connack 0
        a: mqtt sub 1 news 1 => a: suback 1 1
        a: reset
        p: subscribe 1 other => p: subscribed 1 through 7:0
        a: mqtt connect anna expiry=600
            a: connack 0 present
            a: disconnect 0x97, closed
        p: unsubscribe 1 => p: unsubscribed 1 0
        a: mqtt connect anna expiry=600 => a: connack 0 present
        p: publish 1 news 1
            a: publish news q1 id 1 1
            p: published 1 7:1
    " }
    let with_hanging_disk = |settings: &mut Settings| {
        on(settings);
        add_log_on_disk(settings, "disk/#");
        settings.logs[1].cache_bytes = 4_096;
        settings.logs[1].segment_bytes = 4_096;
    };
    script! { with_hanging_disk, "
        p: session
        a: mqtt connect anna expiry=600 receive=1 => a: connack 0
        a: mqtt sub 1 disk/a 1 => a: suback 1 1
        p: flood disk/a 1..100 size 400
        disks go => a: publish disk/a q1 id 1 402 bytes
        a: mqtt puback 1
        time +6s => a: disconnect 0x83, closed
        a: mqtt connect anna expiry=600 receive=1
            a: connack 0 present
            a: disconnect 0x83, closed
    " }
}
