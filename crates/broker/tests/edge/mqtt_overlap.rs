//! MQTT: subscriptions of a client that match the same message, and options of subscriptions.

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

/// One copy, with the highest QoS and all identifiers.
#[test]
fn overlapping_filters() {
    script! { on, "
        p: session
        a: mqtt connect anna => a: connack 0
        a: mqtt sub 1 n/# 0 id=1 => a: suback 1 0
        a: mqtt sub 2 n/+ 2 id=2 => a: suback 2 2
        a: mqtt sub 3 +/x 1 id=3 => a: suback 3 1
        a: mqtt sub 4 # 1 => a: suback 4 1
        p: publish 0 n/x 1 => a: publish n/x q1 id 1 1 {id 2, id 1, id 3}
        p: publish 0 n/y 2 => a: publish n/y q1 id 2 2 {id 2, id 1}
        p: publish 0 m/x 3 => a: publish m/x q1 id 3 3 {id 3}
        p: publish 0 m 4 => a: publish m q1 id 4 4
        b: mqtt connect ben v3 clean => b: connack 0
        b: mqtt sub 1 n/# 0, n/+ 1, # 2 => b: suback 1 0 1 2
        p: publish 0 n/x 5
            a: publish n/x q1 id 5 5 {id 2, id 1, id 3}
            b: publish n/x q1 id 1 5
        p: publish 0 n 6
            a: publish n q1 id 6 6 {id 1}
            b: publish n q1 id 2 6
    " }
    script! { with_three_threads, "
        p: session
        a: mqtt connect anna on=1 => a: connack 0
        a: mqtt sub 1 n/# 0 id=1 => a: suback 1 0
        a: mqtt sub 2 n/+ 2 id=2 => a: suback 2 2
        p: publish 0 n/x 1 => a: publish n/x q1 id 1 1 {id 2, id 1}
        p: publish 0 n/y 2 => a: publish n/y q1 id 2 2 {id 2, id 1}
        p: publish 0 n/z 3 => a: publish n/z q1 id 3 3 {id 2, id 1}
        p: publish 0 n/x/y 4 => a: publish n/x/y q0 4 {id 1}
    " }
}

/// A subscription is there when its homes have answered: no packet that asks for it has an answer
/// before that.
#[test]
fn a_filter_again_while_it_waits() {
    script! { on, "
        p: session
        a: mqtt connect anna => a: connack 0
        homes stop
        a: mqtt sub 1 n/+ 1
        a: mqtt sub 2 n/+ 2, m/+ 0
        a: mqtt sub 3 n/+ 0
        homes go
            a: suback 1 1
            a: suback 3 0
            a: suback 2 2 0
        p: publish 0 n/x 1 => a: publish n/x q0 1
        homes stop
        a: mqtt sub 4 k/+ 1
        a: mqtt sub 5 k/+ 1
        a: mqtt unsub 6 k/+ => a: unsuback 6 0
        homes go
            a: suback 4 1
            a: suback 5 1
        p: publish 0 k/x 2
        homes stop
        a: mqtt sub 7 $share/g/k/+ 2
        a: mqtt sub 8 $share/g/k/+ 0
        homes go
            a: suback 7 1
            a: suback 8 0
    " }
}

/// The session wakes with a topic for which its client asks once more: the place of the session
/// counts.
#[test]
fn a_topic_again_while_it_wakes() {
    script! { on, "
        p: session
        a: mqtt connect anna expiry=60 => a: connack 0
        a: mqtt sub 1 news 1 => a: suback 1 1
        a: reset
        p: publish 0 news 1
        homes stop
        a: mqtt connect anna expiry=60 | sub 2 news 2
        homes go
            a: connack 0 present
            a: publish news q1 id 1 1
            a: suback 2 2
        p: publish 0 news 2 => a: publish news q1 id 2 2
    " }
}

#[test]
fn a_topic_and_filters_that_match_it() {
    script! { on, "
        p: mqtt connect paul => p: connack 0
        a: mqtt connect anna => a: connack 0
        a: mqtt sub 1 n/x 2 => a: suback 1 2
        a: mqtt sub 2 n/+ 1 id=2 => a: suback 2 1
        b: mqtt connect ben => b: connack 0
        b: mqtt sub 1 n/x 2 => b: suback 1 2
        b: mqtt sub 2 # 1 => b: suback 2 1
        c: mqtt connect carl v3 clean => c: connack 0
        c: mqtt sub 1 # 0, n/x 1 => c: suback 1 0 1
        p: mqtt pub 2 n/x 1 id=1
            a: publish n/x q2 id 1 1
            b: publish n/x q2 id 1 1
            c: publish n/x q1 id 1 1
            p: pubrec 1
        p: mqtt pub 1 n/y 2 id=2
            a: publish n/y q1 id 2 2 {id 2}
            b: publish n/y q1 id 2 2
            c: publish n/y q0 2
            p: puback 2
        a: mqtt unsub 3 n/x => a: unsuback 3 0
        b: mqtt unsub 3 # => b: unsuback 3 0
        c: mqtt unsub 3 # => c: unsuback 3
        p: mqtt pub 1 n/x 3 id=3
            a: publish n/x q1 id 3 3 {id 2}
            b: publish n/x q1 id 3 3
            c: publish n/x q1 id 2 3
            p: puback 3
        p: mqtt pub 1 n/y 4 id=4
            a: publish n/y q1 id 4 4 {id 2}
            p: puback 4
    " }
}

/// One copy also for a client that lags, and for a session that returns.
#[test]
fn one_copy_from_the_log() {
    script! { on, "
        p: session
        a: mqtt connect anna receive=1 expiry=60 => a: connack 0
        a: mqtt sub 1 n/x 1, n/+ 1, # 1 => a: suback 1 1 1 1
        p: flood n/x 1..3 => a: publish n/x q1 id 1 1
        a: mqtt puback 1 => a: publish n/x q1 id 2 2
        a: mqtt puback 2 => a: publish n/x q1 id 3 3
        a: mqtt puback 3
        p: flood n/x 4..5 => a: publish n/x q1 id 4 4
        a: reset
        p: flood n/x 6..7
        a: mqtt connect anna receive=1 expiry=60
            a: connack 0 present
            a: publish n/x q1 id 4 dup 4
        a: mqtt puback 4 => a: publish n/x q1 id 5 5
        a: mqtt puback 5 => a: publish n/x q1 id 6 6
        a: mqtt puback 6 => a: publish n/x q1 id 7 7
        a: mqtt puback 7
        p: flood n/x 8..8 => a: publish n/x q1 id 8 8
    " }
    script! { on, "
        p: session
        a: mqtt connect anna receive=9 expiry=60 => a: connack 0
        a: mqtt sub 1 n/+ 1, # 2 => a: suback 1 1 2
        a: reset
        p: flood n/x 1..3
        a: mqtt connect anna receive=9 expiry=60
            a: connack 0 present
            a: publish n/x q1 id 1 1
            a: publish n/x q1 id 2 2
            a: publish n/x q1 id 3 3
        a: mqtt puback 1 | puback 2 | puback 3
        p: flood n/x 4..4 => a: publish n/x q1 id 4 4
    " }
    script! { with_three_threads, "
        p: session
        a: mqtt connect anna receive=2 expiry=60 acks on=1 => a: connack 0
        a: mqtt sub 1 n/x 1, n/+ 1, # 1 => a: suback 1 1 1 1
        p: flood n/x 1..50 => a: publish n/x q1 1..50: 50 in order
        p: flood n/y 1..50 => a: publish n/y q1 1..50: 50 in order
        a: reset
        p: flood n/x 51..100
        p: flood n/y 51..100
        a: mqtt connect anna receive=2 expiry=60 acks on=2
            a: connack 0 present
            a: publish n/x q1 51..100: 50 in order
            a: publish n/y q1 51..100: 50 in order
    " }
}

/// Subscribing again changes the options, and nothing is sent twice.
#[test]
fn a_subscription_gets_other_options() {
    script! { on, "
        p: session
        a: mqtt connect anna => a: connack 0
        a: mqtt sub 1 news 1 id=1 => a: suback 1 1
        a: mqtt sub 2 news 0 id=2 => a: suback 2 0
        a: mqtt sub 3 n/# 2 id=3 => a: suback 3 2
        a: mqtt sub 4 n/# 1 id=4 => a: suback 4 1
        p: publish 0 news 1 => a: publish news q0 1 {id 2}
        p: publish 0 n/x 2 => a: publish n/x q1 id 1 2 {id 4}
        a: mqtt sub 5 news 2 => a: suback 5 2
        p: publish 0 news 3 => a: publish news q1 id 2 3
        b: mqtt connect ben => b: connack 0
        b: mqtt sub 1 news 0 | sub 2 news 1
            b: suback 1 0
            b: suback 2 1
        b: mqtt sub 3 n/+ 0 => b: suback 3 0
        b: mqtt sub 4 n/+ 1 => b: suback 4 1
        p: publish 0 news 4
            a: publish news q1 id 3 4
            b: publish news q1 id 1 4
        p: publish 0 n/x 5
            a: publish n/x q1 id 4 5 {id 4}
            b: publish n/x q1 id 2 5
        c: mqtt connect carl => c: connack 0
        c: mqtt sub 1 news 0, news 1, n/+ 0, n/+ 1 => c: suback 1 0 1 0 1
        p: publish 0 news 6
            a: publish news q1 id 5 6
            b: publish news q1 id 3 6
            c: publish news q1 id 1 6
        p: publish 0 n/x 7
            a: publish n/x q1 id 6 7 {id 4}
            b: publish n/x q1 id 4 7
            c: publish n/x q1 id 2 7
    " }
}

#[test]
fn subscribing_and_unsubscribing_while_a_home_is_late() {
    script! { on, "
        p: session
        a: mqtt connect anna => a: connack 0
        homes stop
        a: mqtt sub 1 news 1, n/# 1 | unsub 2 news n/# | sub 3 news 1 => a: unsuback 2 0 0
        b: mqtt connect ben
        homes go
            a: suback 1 1 1
            a: suback 3 1
            b: connack 0
        p: publish 0 news 1 => a: publish news q1 id 1 1
        p: publish 0 n/x 2
        a: mqtt unsub 4 news other => a: unsuback 4 0 0x11
        p: publish 0 news 3
        count subscriptions filters => subscriptions 0 filters 0
    " }
}

/// A client that wants no messages of its own.
#[test]
fn no_local() {
    script! { with_three_threads, "
        a: mqtt connect anna => a: connack 0
        a: mqtt sub 1 news 1 nl, n/# 1 nl => a: suback 1 1 1
        b: mqtt connect ben on=1 => b: connack 0
        b: mqtt sub 1 news 1, n/+ 1 => b: suback 1 1 1
        a: mqtt pub 1 news 1 id=1 | pub 0 news 2
            a: puback 1
            b: publish news q1 id 1 1
            b: publish news q0 2
        a: mqtt pub 0 n/x 3 | pub 1 n/x 4 id=4
            a: puback 4
            b: publish n/x q0 3
            b: publish n/x q1 id 2 4
        b: mqtt pub 1 news 5 id=1
            a: publish news q1 id 1 5
            b: puback 1
            b: publish news q1 id 3 5
        b: mqtt pub 0 n/x 6
            a: publish n/x q0 6
            b: publish n/x q0 6
        c: mqtt connect carl v3 clean => c: connack 0
        c: mqtt sub 1 news 0 => c: suback 1 0
        c: mqtt pub 0 news 7
            a: publish news q0 7
            b: publish news q0 7
            c: publish news q0 7
    " }
}

/// A session that returns does not get its own messages either.
#[test]
fn no_local_of_a_session() {
    script! { on, "
        a: mqtt connect anna expiry=60 receive=1 => a: connack 0
        a: mqtt sub 1 news 1 nl => a: suback 1 1
        b: mqtt connect ben => b: connack 0
        b: mqtt pub 1 news 1 id=1
            a: publish news q1 id 1 1
            b: puback 1
        a: mqtt pub 1 news 2 id=2 => a: puback 2
        b: mqtt pub 1 news 3 id=3 => b: puback 3
        a: reset
        a: mqtt connect anna expiry=60 receive=1
            a: connack 0 present
            a: publish news q1 id 1 dup 1
        a: mqtt puback 1 => a: publish news q1 id 2 3
        a: mqtt puback 2
    " }
}

/// Each filter of a packet has its own answer.
#[test]
fn refused_filters() {
    script! { with_tokens, "
        a: mqtt connect anna password=anna.s:news.s:n/# => a: connack 0
        a: mqtt sub 1 news 1, other 1, n/+ 2, # 0, x/+ 0 => a: suback 1 1 0x87 2 0x87 0x87
        a: mqtt sub 2 other 1 => a: suback 2 0x87
        a: mqtt sub 3 other 1, news 2 => a: suback 3 0x87 2
        b: mqtt connect ben v3 clean password=ben.s:news.n:2 => b: connack 0
        b: mqtt sub 1 other 1, news 1 => b: suback 1 0x80 1
        c: mqtt connect carl password=carl.all.n:2 => c: connack 0
        c: mqtt sub 1 a 0, b 1, c 2 => c: suback 1 0 1 0x97
        c: mqtt sub 2 a 1 => c: suback 2 0x97
        c: mqtt unsub 3 c b => c: unsuback 3 0x11 0
        c: mqtt sub 4 c 0 => c: suback 4 0
        d: mqtt connect dora password=dora.s:news.n:2 => d: connack 0
        d: mqtt sub 1 $share/g/other 1, $share/g/news 1 => d: suback 1 0x87 1
    " }
    let narrow = |settings: &mut Settings| {
        on(settings);
        settings.limits.filters_per_user_max = 2;
    };
    script! { narrow, "
        a: mqtt connect anna => a: connack 0
        a: mqtt sub 1 a/+ 0, b/+ 0, c/+ 0 => a: suback 1 0 0 0
        a: mqtt sub 2 a/+ 1, d/+ 0 => a: suback 2 1 0
    " }
}

/// Wildcards do not match topics that begin with `$`.
#[test]
fn wildcards() {
    script! { on, "
        p: session
        a: mqtt connect anna => a: connack 0
        a: mqtt sub 1 # 0 => a: suback 1 0
        b: mqtt connect ben => b: connack 0
        b: mqtt sub 1 +/x 0, a/+/c 0, /# 0 => b: suback 1 0 0 0
        p: publish 0 $x/x 1
        p: publish 0 n/x 2
            a: publish n/x q0 2
            b: publish n/x q0 2
        p: publish 0 a/b/c 3
            a: publish a/b/c q0 3
            b: publish a/b/c q0 3
        c: mqtt connect carl => c: connack 0
        c: mqtt pub 0 /x 4 | pub 0 a//c 5 | pub 0 / 6
            a: publish /x q0 4
            a: publish a//c q0 5
            a: publish / q0 6
            b: publish /x q0 4
            b: publish a//c q0 5
            b: publish / q0 6
        d: mqtt connect dora => d: connack 0
        d: mqtt sub 1 a/#/b 0 => d: disconnect 0x81, closed
        e: mqtt connect eva => e: connack 0
        e: mqtt sub 1 a+ 0 => e: disconnect 0x81, closed
    " }
}

/// A client subscribes again to a topic of a session that is still read from the log.
#[test]
fn a_topic_again_while_it_is_read_from_the_log() {
    script! { with_three_threads, "
        p: session
        a: mqtt connect anna expiry=60 receive=1 => a: connack 0
        a: mqtt sub 1 news 1 => a: suback 1 1
        a: reset
        p: flood news 1..4
        a: mqtt connect anna expiry=60 receive=1
            a: connack 0 present
            a: publish news q1 id 1 1
        homes stop
        a: mqtt sub 2 news 1 rh=2
        a: mqtt puback 1
        homes go
            a: suback 2 1
            a: publish news q1 id 2 2
        a: mqtt puback 2 => a: publish news q1 id 3 3
        a: mqtt puback 3 => a: publish news q1 id 4 4
    " }
}

/// The last one of several subscriptions that are behind brings a message. If it ends, it brings
/// the messages that the others have left to it, and nothing else (world 89 of the simulator).
#[test]
fn a_subscription_ends_while_others_rely_on_it() {
    script! { on, "
        p: session
        a: mqtt connect anna receive=1 expiry=60 => a: connack 0
        a: mqtt sub 1 n/# 2 id=1 => a: suback 1 2
        p: flood n/y 1..3 => a: publish n/y q1 id 1 1 {id 1}
        a: mqtt sub 2 n/x 1 id=2 => a: suback 2 1
        p: flood n/x 4..6
        a: mqtt unsub 3 n/# => a: unsuback 3 0
        a: mqtt unsub 4 n/# => a: unsuback 4 0x11
        a: mqtt puback 1 => a: publish n/x q1 id 2 4 {id 2}
        a: reset
        a: mqtt connect anna receive=1 expiry=60
            a: connack 0 present
            a: publish n/x q1 id 2 dup 4 {id 2}
        a: mqtt puback 2 => a: publish n/x q1 id 3 5 {id 2}
        a: mqtt puback 3 => a: publish n/x q1 id 4 6 {id 2}
        p: flood n/y 7..7
        a: mqtt puback 4
        p: flood n/x 8..8 => a: publish n/x q1 id 5 8 {id 2}
        count filters => filters 0
    " }
    // The client subscribes again.
    script! { on, "
        p: session
        a: mqtt connect anna receive=1 => a: connack 0
        a: mqtt sub 1 n/# 1 => a: suback 1 1
        p: flood n/x 1..2 => a: publish n/x q1 id 1 1
        a: mqtt sub 2 n/x 1 => a: suback 2 1
        p: flood n/x 3..3
        a: mqtt unsub 3 n/# | sub 4 n/# 1 rh=1
            a: unsuback 3 0
            a: suback 4 1
        a: mqtt puback 1 => a: publish n/x q1 id 2 2
        a: mqtt puback 2 => a: publish n/x q1 id 3 3
        a: mqtt puback 3
        p: flood n/y 4..4 => a: publish n/y q1 id 4 4
    " }
    // The others have ended as well.
    script! { on, "
        p: session
        a: mqtt connect anna receive=1 => a: connack 0
        a: mqtt sub 1 n/# 1, n/x 1 => a: suback 1 1 1
        p: flood n/y 1..2 => a: publish n/y q1 id 1 1
        p: flood n/x 3..3
        a: mqtt unsub 2 n/# => a: unsuback 2 0
        a: mqtt unsub 3 n/x => a: unsuback 3 0
        count subscriptions filters => subscriptions 0 filters 0
        a: mqtt puback 1
    " }
}

/// A session wakes, and its client ends a subscription at once.
#[test]
fn a_subscription_ends_while_its_session_wakes() {
    script! { on, "
        p: session
        a: mqtt connect anna receive=1 expiry=60 => a: connack 0
        a: mqtt sub 1 n/# 1 => a: suback 1 1
        p: flood n/y 1..3 => a: publish n/y q1 id 1 1
        a: mqtt sub 2 n/x 1 => a: suback 2 1
        p: flood n/x 4..5
        a: reset
        a: connect mqtt
        a: block
        a: mqtt connect anna receive=1 expiry=60 | unsub 1 n/#
        a: open
            a: connack 0 present
            a: publish n/y q1 id 1 dup 1
            a: unsuback 1 0
        a: mqtt puback 1 => a: publish n/x q1 id 2 4
        a: mqtt puback 2 => a: publish n/x q1 id 3 5
        a: mqtt puback 3
        count filters => filters 0
    " }
}

/// A subscription without messages of the client's own leaves them to others (world 89 of the
/// simulator).
#[test]
fn no_local_beside_other_subscriptions() {
    script! { on, "
        a: mqtt connect anna receive=1 expiry=60 => a: connack 0
        a: mqtt sub 1 n/# 2 nl => a: suback 1 2
        a: mqtt sub 2 n/x 1, + 1 => a: suback 2 1 1
        b: mqtt connect ben => b: connack 0
        b: mqtt pub 1 n/y 1 id=1
            a: publish n/y q1 id 1 1
            b: puback 1
        b: mqtt pub 1 n/y 2 id=2 | pub 1 n/x 3 id=3
            b: puback 2
            b: puback 3
        a: mqtt pub 1 n/x 4 id=4 => a: puback 4
        a: mqtt puback 1 => a: publish n/y q1 id 2 2
        a: mqtt puback 2 => a: publish n/x q1 id 3 4
        a: mqtt puback 3 => a: publish n/x q1 id 4 3
        a: mqtt puback 4
    " }
    script! { on, "
        a: mqtt connect anna => a: connack 0
        a: mqtt sub 1 n/# 2 nl, n/+ 1 => a: suback 1 2 1
        a: mqtt pub 1 n/x 1 id=1
            a: puback 1
            a: publish n/x q1 id 1 1
        a: mqtt sub 2 n/x 2 nl => a: suback 2 2
        a: mqtt pub 1 n/x 2 id=2
            a: puback 2
            a: publish n/x q1 id 2 2
    " }
}
