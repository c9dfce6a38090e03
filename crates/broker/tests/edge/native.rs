//! Native sessions as scripts and transcripts: hello, subscriptions, replay, pages.
//!
//! `3<1 hi` is a message: offset, `prev`, payload; `!` marks a retained one. `LOST` and `AGAIN`
//! would be what the proof of the protocol says.

use crate::support::script;

#[test]
fn live() {
    script! { "
        a, b: session
        a: subscribe 1 news => a: subscribed 1 through 7:0
        b: publish 5 news hi
            a: message 1 1<0 hi
            b: published 5 7:1
        b: publish 0 news quiet => a: message 1 2<1 quiet
        b: publish 6 other x => b: published 6 7:3
        b: publish 7 news again type text/plain tag k v tag k w
            a: message 1 4<2 again type text/plain tag k v tag k w
            b: published 7 7:4
        b: publish 8 news empty
            a: message 1 5<4 empty
            b: published 8 7:5
        b: subscribe 9 news => b: subscribed 9 through 7:5
        b: publish 10 news hex:00ff80
            a: message 1 6<5 3 bytes
            b: published 10 7:6
            b: message 9 6<5 3 bytes
        a: reset
        b: publish 11 news last
            b: published 11 7:7
            b: message 9 7<6 last
        b: reset
        count connections sessions subscriptions indexes
            connections 0 sessions 0 subscriptions 0 indexes 0
    " }
}

/// Frames may be sent before WELCOME, which is the first that comes back.
#[test]
fn pipelining_before_welcome() {
    script! { "
        a: connect ws => a: 101 crore.v1
        a: ping 1
            a: error connection hello_required
            a: close 3504 hello_required, closed
        b: session 30 => b: welcome ping 30s
        b: hello 30
            b: error connection hello_repeated
            b: close 3504 hello_required, closed
        c: session
        homes stop
        c: subscribe 1 a, 2 b since 6:0, 3 c last 2
        c: publish 1 a one; publish 2 a two
        c: history 3 a
        c: ping 9 => c: pong 9
        homes go
            c: subscribed 1 through 7:0, 2 through 7:0
            c: gap 2 0..0 UnknownEpoch
            c: subscribed 3 through 7:0
            c: published 1 7:1
            c: message 1 1<0 one
            c: published 2 7:2
            c: message 1 2<1 two
            c: history 3 head 2 [1<0 one, 2<1 two]
    " }
}

/// Complete: whatever is missing is replayed, then live follows.
#[test]
fn since_complete() {
    script! { "
        b: session; flood news 1..3, other 4..5
        a: session; subscribe 1 news since 7:1, 2 other since 7:5, 3 none since 7:5
            a: subscribed 1 through 7:1 continued replaying, 2 through 7:5 continued
            a: subscribed 3 through 7:5 continued
            a: message 1 2<1 2, 3<2 3
            a: caught-up 1 through 5
        b: flood news 6..6 => a: message 1 6<3 6
        b: flood other 7..7 => a: message 2 7<5 7
        b: flood none 8..8 => a: message 3 8<0 8
    " }
}

/// Trap 3: unknown positions are reported at once, with the position to continue from.
#[test]
fn since_unknown() {
    script! { "
        b: session; flood news 1..3
        a: session; subscribe 1 news since 6:2
            a: subscribed 1 through 7:0 replaying
            a: gap 1 0..0 UnknownEpoch
            a: message 1 1<0 1, 2<1 2, 3<2 3
            a: caught-up 1 through 3
        a: unsubscribe 1 => a: unsubscribed 1 0
        a: subscribe 1 news since 7:9
            a: subscribed 1 through 7:0 replaying
            a: gap 1 0..0 BeyondHead
            a: message 1 1<0 1, 2<1 2, 3<2 3
            a: caught-up 1 through 3
        a: unsubscribe 1 => a: unsubscribed 1 0
        a: subscribe 1 news since 6:2 fail-on-gap
            a: error subscription 1 position_unavailable restart 7:0
        a: subscribe 1 news since 7:9 fail-on-gap
            a: error subscription 1 position_unavailable restart 7:0
        a: subscribe 1 news since 7:2 fail-on-gap
            a: subscribed 1 through 7:2 continued replaying
            a: message 1 3<2 3
            a: caught-up 1 through 3
        a: subscribe 2 none since 6:2 fail-on-gap
            a: error subscription 2 position_unavailable restart 7:3
        a: subscribe 2 none since 6:2
            a: subscribed 2 through 7:3
            a: gap 2 0..3 UnknownEpoch
        b: publish 1 none first
            a: message 2 4<0 first
            b: published 1 7:4
        count subscriptions => subscriptions 2
        a: unsubscribe 1 2 => a: unsubscribed 1 0, 2 0
        count subscriptions indexes => subscriptions 0 indexes 0
    " }
}

#[test]
fn since_evicted() {
    script! { |settings| settings.logs[0].age_max_ms = 10_000, "
        b: session; flood news 1..3
        time +5s
        b: flood news 4..5
        time +7s
        a: session; subscribe 1 news since 7:1
            a: subscribed 1 through 7:3 replaying
            a: gap 1 1..3 Evicted
            a: message 1 4<3 4, 5<4 5
            a: caught-up 1 through 5
        a: unsubscribe 1 => a: unsubscribed 1 0
        a: subscribe 1 news since 7:1 fail-on-gap
            a: error subscription 1 position_unavailable restart 7:3
        a: subscribe 1 news since 7:3 fail-on-gap
            a: subscribed 1 through 7:3 continued replaying
            a: message 1 4<3 4, 5<4 5
            a: caught-up 1 through 5
        a: unsubscribe 1 => a: unsubscribed 1 0
        time +10s
        a: subscribe 1 news since 7:4
            a: subscribed 1 through 7:5
            a: gap 1 4..5 Evicted
        a: subscribe 2 unknown since 7:4
            a: subscribed 2 through 7:5
            a: gap 2 4..5 Evicted
        a: subscribe 3 unseen since 7:5 => a: subscribed 3 through 7:5 continued
        b: publish 1 unknown x
            a: message 2 6<5 x
            b: published 1 7:6
    " }
}

#[test]
fn since_beyond_the_history_limit() {
    script! { |settings| settings.rules[0].history_messages_max = 2, "
        b: session; flood news 1..5
        a: session; subscribe 1 news since 7:1
            a: subscribed 1 through 7:3 replaying
            a: gap 1 1..3 HistoryLimit
            a: message 1 4<3 4, 5<4 5
            a: caught-up 1 through 5
        a: unsubscribe 1 => a: unsubscribed 1 0
        a: subscribe 1 news since 7:1 fail-on-gap
            a: error subscription 1 position_unavailable restart 7:3
        a: subscribe 1 news last 9
            a: subscribed 1 through 7:3 replaying
            a: message 1 4<3 4, 5<4 5
            a: caught-up 1 through 5
    " }
}

#[test]
fn last() {
    script! { "
        a: session
        a: subscribe 1 news last 2, 2 other last 2 => a: subscribed 1 through 7:0, 2 through 7:0
        a: publish 0 news one => a: message 1 1<0 one
        a: unsubscribe 1 => a: unsubscribed 1 0
        a: flood news 2..4
        a: subscribe 1 news last 2
            a: subscribed 1 through 7:2 replaying
            a: message 1 3<2 3, 4<3 4
            a: caught-up 1 through 4
        a: unsubscribe 1 => a: unsubscribed 1 0
        a: subscribe 1 news last 0 => a: subscribed 1 through 7:4
        a: unsubscribe 1 => a: unsubscribed 1 0
        a: subscribe 1 news last 100
            a: subscribed 1 through 7:0 replaying
            a: message 1 1<0 one, 2<1 2, 3<2 3, 4<3 4
            a: caught-up 1 through 4
        a: publish 0 news five => a: message 1 5<4 five
    " }
}

/// The retained message lies before the settled position: SUBSCRIBED's `through` must let the
/// client accept it.
#[test]
fn snapshot() {
    script! { "
        b: session; publish 0 news old; publish 0 news kept retain; publish 0 news new
        b: publish 0 other only
        a: session; subscribe 1 news snapshot, 2 other snapshot, 3 none snapshot
            a: subscribed 1 through 7:1 replaying
            a: message 1 2<1! kept
            a: caught-up 1 through 4
            a: subscribed 2 through 7:0 replaying, 3 through 7:4
            a: message 2 4<0 only
            a: caught-up 2 through 4
        b: publish 0 news live => a: message 1 5<3 live
        b: publish 1 news empty retain
            a: message 1 6<5! empty
            b: published 1 7:6
        a: unsubscribe 1 => a: unsubscribed 1 0
        a: subscribe 1 news snapshot
            a: subscribed 1 through 7:5 replaying
            a: message 1 6<5! empty
            a: caught-up 1 through 6
    " }
}

#[test]
fn unsubscribing_and_aliases() {
    script! { "
        b, a: session
        a: subscribe 1 a, 2 b, 3 c => a: subscribed 1 through 7:0, 2 through 7:0, 3 through 7:0
        b: publish 0 a 1 => a: message 1 1<0 1
        a: unsubscribe 2 9
            a: unsubscribed 2 0
            a: error subscription 9 unknown_subscription
        b: publish 0 b 2
        a: subscribe 2 d => a: subscribed 2 through 7:2
        b: publish 0 d 3 => a: message 2 3<0 3
        b: publish 0 c 4 => a: message 3 4<0 4
        a: unsubscribe 1 2 3 => a: unsubscribed 1 0, 2 0, 3 0
        a: subscribe 7 c since 7:3, 8 a
            a: subscribed 7 through 7:3 continued replaying, 8 through 7:4
            a: message 7 4<0 4
            a: caught-up 7 through 4
        b: publish 0 a 5 => a: message 8 5<1 5
        count subscriptions indexes => subscriptions 2 indexes 2
        a: close 1000 => a: close 1000, closed
        count subscriptions indexes connections => subscriptions 0 indexes 0 connections 1
    " }
}

/// A subscription that ends before its grant has come leaves nothing behind, nor does its
/// connection.
#[test]
fn unsubscribing_before_the_grant() {
    script! { "
        b, a: session
        homes stop
        a: subscribe 1 news since 7:0
        a: unsubscribe 1 => a: unsubscribed 1 0
        a: subscribe 1 news
        homes go => a: subscribed 1 through 7:0
        b: publish 0 news x => a: message 1 1<0 x
        homes stop
        a: subscribe 2 other, 3 x/#
        a: reset
        homes go
        b: publish 0 other y; publish 0 x/y z
        count subscriptions indexes filters connections topics
            subscriptions 0 indexes 0 filters 0 connections 1 topics 3
    " }
}

#[test]
fn refused_subscriptions() {
    script! { |settings| {
        settings.limits.subscriptions_per_session_max = 3;
        settings.limits.topics_max = 2;
        settings.limits.filters_per_shard_max = 1;
        settings.limits.filter_levels_max = 4;
    }, "
        a: session; subscribe 1 news => a: subscribed 1 through 7:0
        a: subscribe 1 other => a: error subscription 1 already_subscribed
        a: subscribe 2 news => a: error subscription 2 already_subscribed
        a: subscribe 2 a/#/b, 3 a+, 4 a/+ since 7:1, 5 a/b/c/d/#
            a: error subscription 2 malformed_filter, subscription 3 malformed_filter
            a: error subscription 4 unsupported_start, subscription 5 filter_too_wide limit 4
        a: subscribe 2 a/+ => a: subscribed 2 filter
        a: subscribe 3 a/+ => a: error subscription 3 already_subscribed
        a: subscribe 3 b/# => a: error subscription 3 filters_full limit 1
        a: subscribe 3 other => a: subscribed 3 through 7:0
        a: subscribe 4 third => a: error subscription 4 too_many_subscriptions limit 3
        a: unsubscribe 3 => a: unsubscribed 3 0
        a: subscribe 4 third => a: subscribed 4 through 7:0
        a: unsubscribe 2 4 => a: unsubscribed 2 0, 4 0
        a: subscribe 2 b/# => a: subscribed 2 filter
        a: unsubscribe 5 => a: error subscription 5 unknown_subscription
        count subscriptions filters => subscriptions 2 filters 1
        b: session; publish 1 news x
            a: message 1 1<0 x
            b: published 1 7:1
        b: publish 2 fourth x => b: published 2 7:2
        b: subscribe 1 fifth => b: error subscription 1 topics_full
        b: history 3 fifth => b: history 3 head 2 []
    " }
}

#[test]
fn filters() {
    script! { "
        b: session; publish 0 x/1 before
        a: session; subscribe 1 x/+, 2 x/#, 3 x/1, 4 #
            a: subscribed 1 filter, 2 filter, 3 through 7:1, 4 filter
        b: publish 0 x/1 once
            a: message 3 2<1 once
            a: named x/1 2<1 once
        b: publish 0 x/1/2 deep => a: named x/1/2 3<0 deep
        b: publish 0 x parent => a: named x 4<0 parent
        b: publish 0 $own/x hidden
        a: subscribe 5 $own/# => a: subscribed 5 filter
        b: publish 0 $own/x seen => a: named $own/x 6<5 seen
        a: unsubscribe 1 2 4 => a: unsubscribed 1 0, 2 0, 4 0
        b: publish 0 x/1 plain => a: message 3 7<2 plain
        b: publish 0 x/2 nobody
        a: unsubscribe 3 5 => a: unsubscribed 3 0, 5 0
        b: publish 0 x/1 x
        count subscriptions filters indexes => subscriptions 0 filters 0 indexes 3
    " }
}

/// A filter is live when every home has accepted it; messages of all homes come with their names.
#[test]
fn filters_of_several_homes() {
    script! { |settings| {
        settings.edges_count = 2;
        settings.homes_count = 2;
        settings.logs[0].partitions_count = 4;
    }, "
        a: session on 1
        b: session on 0
        c: session on 1
        letters stop
        a: subscribe 1 x/#
        c: subscribe 1 x/#, 2 x/1
        letters go
            a: subscribed 1 filter
            c: subscribed 1 filter, 2 through 7:0
        b: publish 1 x/1 one
            a: named x/1 1<0 one
            b: published 1 7:1
            c: message 2 1<0 one
            c: named x/1 1<0 one
        b: publish 2 x/2 two
            a: named x/2 1<0 two
            b: published 2 7:1
            c: named x/2 1<0 two
        b: publish 3 x/3 three
            a: named x/3 2<0 three
            b: published 3 7:2
            c: named x/3 2<0 three
        a: reset
        b: publish 4 x/1 four
            b: published 4 7:2
            c: message 2 2<1 four
            c: named x/1 2<1 four
        c: unsubscribe 1 2 => c: unsubscribed 1 0, 2 0
        b: publish 5 x/2 five => b: published 5 7:3
        b: publish 6 x/1 six => b: published 6 7:3
        b: publish 7 x/3 seven => b: published 7 7:4
        count subscriptions filters indexes => subscriptions 0 filters 0 indexes 0
    " }
}

#[test]
fn replay_with_credit() {
    script! { "
        b: session; flood news 1..10
        a: session; subscribe 1 news since 7:0 credit 2
            a: subscribed 1 through 7:0 continued replaying
            a: message 1 1<0 1, 2<1 2
        b: flood news 11..11
        a: credit 1 3 => a: message 1 3<2 3, 4<3 4, 5<4 5
        a: credit 1 0
        a: credit 9 1
        a: credit 1 100
            a: message 1 6<5 6, 7<6 7, 8<7 8, 9<8 9, 10<9 10, 11<10 11
            a: caught-up 1 through 11
        b: flood news 12..12 => a: message 1 12<11 12
        a: credit 1 1
        a: unsubscribe 1 => a: unsubscribed 1 0
        a: subscribe 1 news since 7:10 credit 0 => a: subscribed 1 through 7:10 continued replaying
        a: credit 1 1 => a: message 1 11<10 11
        a: credit 1 1
            a: message 1 12<11 12
            a: caught-up 1 through 12
        a: unsubscribe 1 => a: unsubscribed 1 0
        count subscriptions => subscriptions 0
    " }
}

#[test]
fn pages() {
    script! { |settings| settings.limits.page_records_max = 4, "
        b: session; flood news 1..30
        a: session; subscribe 1 news since 7:0, 2 other since 7:0
            a: subscribed 1 through 7:0 continued replaying, 2 through 7:0 continued
            a: message 1 1..30: 30 in order
            a: caught-up 1 through 30
        b: flood other 1..9 => a: message 2 31..39: 9 in order
        a: unsubscribe 2 => a: unsubscribed 2 0
        a: subscribe 2 other since 7:30
            a: subscribed 2 through 7:30 continued replaying
            a: message 2 31..39: 9 in order
            a: caught-up 2 through 39
        count pages => pages 11
    " }
}
