//! Slow consumers as scripts and transcripts: full sockets, outboxes, the ring, lagging and pages, filters that skip, clients
//! that never read, credit between home and edge, requests in flight.

mod support;

use broker::settings::Settings;
use support::{check, check_with};

fn small_outbox(settings: &mut Settings) {
    settings.limits.outbox_len_max = 8;
    settings.limits.page_records_max = 5;
}

/// The outbox overflows, the subscription lags, and comes back by pages: nothing lost, nothing again, in order.
#[test]
fn overflow() {
    check_with(
        small_outbox,
        "
        b: connect native
            b: 101 crore.v1
            b: welcome ping 60s
        a: connect native
            a: 101 crore.v1
            a: welcome ping 60s
        a: subscribe 1 news, 2 other
            a: subscribed 1 through 7:0
            a: subscribed 2 through 7:0
        a: block
        b: flood news 1..5
        b: flood other 6..6
        b: flood news 7..30
        b: flood other 31..32
        count lagging pinned
            lagging 2 pinned 0
        a: drain 10
            a: message 2 6<0 6
        count pinned
            pinned 7
        a: drain 100
            a: message 2 31<6 31
            a: message 2 32<31 32
            a: caught-up 2 through 32
            a: message 1 1..10: 9 in order
        b: flood news 33..35
        a: open
            a: message 1 11..35: 23 in order
            a: caught-up 1 through 35
        b: flood news 36..36
            a: message 1 36<35 36
        b: flood other 37..37
            a: message 2 37<32 37
        count lagging pinned slow
            lagging 2 pinned 0 slow 0
        ",
    );
}

/// A few bytes at a time, with messages coming all the while.
#[test]
fn trickle() {
    check_with(
        small_outbox,
        "
        b: connect native
            b: 101 crore.v1
            b: welcome ping 60s
        a: connect native
            a: 101 crore.v1
            a: welcome ping 60s
        a: subscribe 1 news
            a: subscribed 1 through 7:0
        a: block
        b: flood news 1..20
        a: drain 7
        b: flood news 21..25
        a: drain 50
            a: message 1 1..7: 7 in order
        b: flood news 26..40
        a: drain 1
        a: drain 60
            a: message 1 8..14: 7 in order
        b: flood news 41..41
        a: drain 300
            a: message 1 15..41: 27 in order
            a: caught-up 1 through 41
        a: open
        b: flood news 42..42
            a: message 1 42<41 42
        ",
    );
}

/// What settles a subscription must not overtake the messages that were left out.
#[test]
fn overflow_within_a_replay() {
    check_with(
        small_outbox,
        "
        b: connect native
            b: 101 crore.v1
            b: welcome ping 60s
        b: flood news 1..4
        a: connect native
            a: 101 crore.v1
            a: welcome ping 60s
        homes stop
        a: subscribe 1 news since 7:0, 2 other
        a: block
        homes go
        b: flood other 5..30
        a: open
            a: subscribed 1 through 7:0 replaying
            a: subscribed 2 through 7:4
            a: message 2 5<0 5
            a: message 2 6<5 6
            a: message 2 7<6 7
            a: message 2 8<7 8
            a: message 2 9<8 9
            a: message 1 1<0 1
            a: message 1 2<1 2
            a: message 1 3<2 3
            a: message 1 4<3 4
            a: caught-up 1 through 30
            a: message 2 10..30: 21 in order
            a: caught-up 2 through 30
        b: flood news 31..31
            a: message 1 31<4 31
        ",
    );
}

#[test]
fn overflow_within_a_replay_with_credit() {
    check_with(
        small_outbox,
        "
        b: connect native
            b: 101 crore.v1
            b: welcome ping 60s
        b: flood news 1..9
        a: connect native
            a: 101 crore.v1
            a: welcome ping 60s
        homes stop
        a: subscribe 1 news since 7:0 credit 4, 2 other
        a: block
        homes go
        b: flood other 10..30
        a: open
            a: subscribed 1 through 7:0 replaying
            a: subscribed 2 through 7:9
            a: message 2 10<0 10
            a: message 2 11<10 11
            a: message 2 12<11 12
            a: message 2 13<12 13
            a: message 2 14<13 14
            a: message 1 1<0 1
            a: message 1 2<1 2
            a: message 1 3<2 3
            a: message 1 4<3 4
            a: message 2 15..30: 16 in order
            a: caught-up 2 through 30
        a: credit 1 3
            a: message 1 5<4 5
            a: message 1 6<5 6
            a: message 1 7<6 7
        a: credit 1 3
            a: message 1 8<7 8
            a: message 1 9<8 9
            a: caught-up 1 through 30
        b: flood news 31..31
            a: message 1 31<9 31
        ",
    );
}

/// Live messages need no credit, also not when they come by pages.
#[test]
fn credit_does_not_hold_who_lags() {
    check_with(
        small_outbox,
        "
        b: connect native
            b: 101 crore.v1
            b: welcome ping 60s
        b: flood news 1..2
        a: connect native
            a: 101 crore.v1
            a: welcome ping 60s
        a: subscribe 1 news since 7:2 credit 1, 2 news2 since 7:0 credit 1
            a: subscribed 1 through 7:2
            a: subscribed 2 through 7:2
        a: block
        b: flood news 3..3
        b: flood news 4..40
        a: open
            a: message 1 3..40: 38 in order
            a: caught-up 1 through 40
        b: flood news 41..41
            a: message 1 41<40 41
        ",
    );
}

/// The ring moves past what a blocked connection has waiting.
#[test]
fn the_ring_overruns() {
    check_with(
        |settings| {
            settings.limits.ring_bytes = 1;
            settings.limits.page_bytes = 4_000;
        },
        "
        b: connect native
            b: 101 crore.v1
            b: welcome ping 60s
        c: connect native
            c: 101 crore.v1
            c: welcome ping 60s
        a: connect native
            a: 101 crore.v1
            a: welcome ping 60s
        a: subscribe 1 news
            a: subscribed 1 through 7:0
        c: subscribe 1 news
            c: subscribed 1 through 7:0
        a: block
        b: flood news 1..100 size 1000
            c: message 1 1..100: 100 in order
        count lagging
            lagging 1
        a: open
            a: message 1 1..100: 100 in order
            a: caught-up 1 through 100
        b: flood news 101..101
            a: message 1 101<100 101
            c: message 1 101<100 101
        count lagging pinned
            lagging 1 pinned 0
        ",
    );
}

/// Bodies that are not copied into the ring are bounded as well.
#[test]
fn large_messages() {
    check_with(
        |settings| {
            settings.limits.ring_bytes = 1;
            settings.limits.page_bytes = 30_000;
        },
        "
        b: connect native
            b: 101 crore.v1
            b: welcome ping 60s
        a: connect native
            a: 101 crore.v1
            a: welcome ping 60s
        a: subscribe 1 news, 2 x/#
            a: subscribed 1 through 7:0
            a: subscribed 2 filter
        b: publish 0 news x*100000
            a: message 1 1<0 100000 bytes
        a: block
        b: flood news 2..20 size 20000
        b: flood x/1 21..40 size 20000
        a: drain 30000
            a: message 1 2<1 20002 bytes
        a: open
            a: message 1 3..20: 18 in order
            a: named x/1 21<0 20003 bytes
            a: named x/1 22<21 20003 bytes
            a: named x/1 23<22 20003 bytes
            a: named x/1 24<23 20003 bytes
            a: named x/1 25<24 20003 bytes
            a: named x/1 26<25 20003 bytes
            a: named x/1 27<26 20003 bytes
            a: named x/1 28<27 20003 bytes
            a: named x/1 29<28 20003 bytes
            a: named x/1 30<29 20003 bytes
            a: named x/1 31<30 20003 bytes
            a: named x/1 32<31 20003 bytes
            a: named x/1 33<32 20003 bytes
            a: named x/1 34<33 20003 bytes
            a: named x/1 35<34 20003 bytes
            a: named x/1 36<35 20003 bytes
            a: named x/1 37<36 20003 bytes
            a: named x/1 38<37 20003 bytes
            a: named x/1 39<38 20003 bytes
            a: named x/1 40<39 20003 bytes
        b: publish 0 x/1 last
            a: named x/1 41<40 last
        count pinned slow
            pinned 0 slow 0
        ",
    );
}

/// Evicted before a lagging subscription came back: the gap is announced, and the rest follows.
#[test]
fn overtaken_by_eviction() {
    check_with(
        |settings| {
            small_outbox(settings);
            settings.logs[0].age_max_ms = 10_000;
        },
        "
        b: connect native
            b: 101 crore.v1
            b: welcome ping 60s
        a: connect native
            a: 101 crore.v1
            a: welcome ping 60s
        a: subscribe 1 news
            a: subscribed 1 through 7:0
        b: flood news 1..2
            a: message 1 1<0 1
            a: message 1 2<1 2
        a: block
        b: flood news 3..20
        time +8s
        b: flood news 21..22
        time +4s
        a: open
            a: gap 1 2..20 Evicted
            a: message 1 21<20 21
            a: message 1 22<21 22
            a: caught-up 1 through 22
        b: flood news 23..23
            a: message 1 23<22 23
        ",
    );
}

#[test]
fn filters_skip() {
    check_with(
        small_outbox,
        "
        b: connect native
            b: 101 crore.v1
            b: welcome ping 60s
        a: connect native
            a: 101 crore.v1
            a: welcome ping 60s
        a: subscribe 1 x/#, 2 #, 3 x/1
            a: subscribed 1 filter
            a: subscribed 2 filter
            a: subscribed 3 through 7:0
        a: block
        b: flood x/1 1..5
        b: flood x/2 6..20
        a: drain 40
            a: skipped 2 partition 0 0..20 Slow
            a: skipped 1 partition 0 0..20 Slow
            a: message 3 1<0 1
            a: message 3 2<1 2
        b: flood x/1 21..21
        a: open
            a: message 3 3<2 3
            a: message 3 4<3 4
            a: message 3 5<4 5
            a: caught-up 3 through 20
            a: message 3 21<5 21
            a: named x/1 21<5 21
        b: flood x/1 22..22
            a: message 3 22<21 22
            a: named x/1 22<21 22
        count pinned
            pinned 0
        ",
    );
}

#[test]
fn raw_streams_lag() {
    check_with(
        small_outbox,
        "
        b: connect native
            b: 101 crore.v1
            b: welcome ping 60s
        c: connect
        c: GET /topics/news | Accept: text/event-stream
            c: 200 close stream
            c: retry 2000
            c: event crore.start id 7:0 {\"position\":\"7:0\",\"complete\":true}
        c: block
        b: flood news 1..12
        c: drain 20
            c: event id 7:1 1
        b: flood news 13..14
        c: open
            c: event id 7:2 2
            c: event id 7:3 3
            c: event id 7:4 4
            c: event id 7:5 5
            c: event id 7:6 6
            c: event id 7:7 7
            c: event id 7:8 8
            c: event id 7:9 9
            c: event id 7:10 10
            c: event id 7:11 11
            c: event id 7:12 12
            c: event id 7:13 13
            c: event id 7:14 14
            c: event crore.caught_up {}
        b: flood news 15..15
            c: event id 7:15 15
        ",
    );
}

/// Of a composite stream no event may tell a cursor beyond what was left out of any of its topics.
#[test]
fn composite_streams_lag() {
    check_with(
        small_outbox,
        "
        b: connect native
            b: 101 crore.v1
            b: welcome ping 60s
        c: connect
        c: GET /events?topic=a&topic=b
            c: 200 close stream
            c: retry 2000
            c: event crore.start {\"topic\":\"a\",\"position\":\"7:0\",\"complete\":true}
            c: event crore.start {\"topic\":\"b\",\"position\":\"7:0\",\"complete\":true}
            c: id 7:0,0
        c: block
        b: flood a 1..3
        b: flood b 4..5
        b: flood a 6..9
        b: flood b 10..11
        c: drain 30
        b: flood b 12..12
        c: open
            c: event id 7:0,4 {\"topic\":\"b\",\"position\":\"7:4\",\"offset\":4,\"time_ms\":1000000,\"data\":\"4\"}
            c: event id 7:0,5 {\"topic\":\"b\",\"position\":\"7:5\",\"offset\":5,\"time_ms\":1000000,\"data\":\"5\"}
            c: event id 7:0,10 {\"topic\":\"b\",\"position\":\"7:10\",\"offset\":10,\"time_ms\":1000000,\"data\":\"10\"}
            c: event id 7:0,11 {\"topic\":\"b\",\"position\":\"7:11\",\"offset\":11,\"time_ms\":1000000,\"data\":\"11\"}
            c: event id 7:0,12 {\"topic\":\"b\",\"position\":\"7:12\",\"offset\":12,\"time_ms\":1000000,\"data\":\"12\"}
            c: event crore.caught_up {}
            c: event id 7:1,12 {\"topic\":\"a\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"1\"}
            c: event id 7:2,12 {\"topic\":\"a\",\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"data\":\"2\"}
            c: event id 7:3,12 {\"topic\":\"a\",\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"data\":\"3\"}
            c: event id 7:6,12 {\"topic\":\"a\",\"position\":\"7:6\",\"offset\":6,\"time_ms\":1000000,\"data\":\"6\"}
            c: event id 7:7,12 {\"topic\":\"a\",\"position\":\"7:7\",\"offset\":7,\"time_ms\":1000000,\"data\":\"7\"}
            c: event id 7:8,12 {\"topic\":\"a\",\"position\":\"7:8\",\"offset\":8,\"time_ms\":1000000,\"data\":\"8\"}
            c: event id 7:9,12 {\"topic\":\"a\",\"position\":\"7:9\",\"offset\":9,\"time_ms\":1000000,\"data\":\"9\"}
            c: event crore.caught_up id 7:12,12 {}
        b: flood a 13..13
            c: event id 7:13,12 {\"topic\":\"a\",\"position\":\"7:13\",\"offset\":13,\"time_ms\":1000000,\"data\":\"13\"}
        ",
    );
}

/// The start of one topic is told after events of another had to go.
#[test]
fn a_late_start_in_a_composite_stream() {
    check_with(
        |settings| {
            small_outbox(settings);
            settings.edges_count = 2;
            settings.homes_count = 2;
            settings.logs[0].partitions_count = 4;
        },
        "
        b: connect native
            b: 101 crore.v1
            b: welcome ping 60s
        c: connect
        homes stop 1
        c: GET /events?topic=x/1&topic=x/2&topic=x/3 | Last-Event-ID: 7:0,0,0
            c: 200 close stream
            c: retry 2000
            c: event crore.start {\"topic\":\"x/1\",\"position\":\"7:0\",\"complete\":true}
            c: id 7:0,0,0
        c: block
        b: flood x/1 1..1
        b: flood x/1 2..3
        b: flood x/2 1..3
        homes go
        b: flood x/1 4..10
        b: flood x/2 11..11
        c: open
            c: event crore.start {\"topic\":\"x/2\",\"position\":\"7:0\",\"complete\":true}
            c: event crore.start {\"topic\":\"x/3\",\"position\":\"7:0\",\"complete\":true}
            c: event id 7:1,0,0 {\"topic\":\"x/1\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"1\"}
            c: event id 7:2,0,0 {\"topic\":\"x/1\",\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"data\":\"2\"}
            c: event id 7:3,0,0 {\"topic\":\"x/1\",\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"data\":\"3\"}
            c: event id 7:4,0,0 {\"topic\":\"x/1\",\"position\":\"7:4\",\"offset\":4,\"time_ms\":1000000,\"data\":\"4\"}
            c: event id 7:5,0,0 {\"topic\":\"x/1\",\"position\":\"7:5\",\"offset\":5,\"time_ms\":1000000,\"data\":\"5\"}
            c: event crore.caught_up id 7:5,0,4 {}
            c: event id 7:5,1,4 {\"topic\":\"x/2\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"1\"}
            c: event id 7:5,2,4 {\"topic\":\"x/2\",\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"data\":\"2\"}
            c: event id 7:5,3,4 {\"topic\":\"x/2\",\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"data\":\"3\"}
            c: event id 7:5,4,4 {\"topic\":\"x/2\",\"position\":\"7:4\",\"offset\":4,\"time_ms\":1000000,\"data\":\"11\"}
            c: event crore.caught_up {}
            c: event id 7:6,4,4 {\"topic\":\"x/1\",\"position\":\"7:6\",\"offset\":6,\"time_ms\":1000000,\"data\":\"6\"}
            c: event id 7:7,4,4 {\"topic\":\"x/1\",\"position\":\"7:7\",\"offset\":7,\"time_ms\":1000000,\"data\":\"7\"}
            c: event id 7:8,4,4 {\"topic\":\"x/1\",\"position\":\"7:8\",\"offset\":8,\"time_ms\":1000000,\"data\":\"8\"}
            c: event id 7:9,4,4 {\"topic\":\"x/1\",\"position\":\"7:9\",\"offset\":9,\"time_ms\":1000000,\"data\":\"9\"}
            c: event id 7:10,4,4 {\"topic\":\"x/1\",\"position\":\"7:10\",\"offset\":10,\"time_ms\":1000000,\"data\":\"10\"}
            c: event crore.caught_up {}
        b: flood x/1 12..12
            c: event id 7:11,4,4 {\"topic\":\"x/1\",\"position\":\"7:11\",\"offset\":11,\"time_ms\":1000000,\"data\":\"12\"}
        b: flood x/2 12..12
            c: event id 7:11,5,4 {\"topic\":\"x/2\",\"position\":\"7:5\",\"offset\":5,\"time_ms\":1000000,\"data\":\"12\"}
        ",
    );
}

/// A client that sends and never reads is not read any more, and goes on when it reads again.
#[test]
fn choke() {
    check(
        "
        large reads
        a: connect echo
            a: 101
        a: block
        a: binary x*60000
        a: binary x*60000
        a: binary x*60000
        a: binary x*60000
        a: binary x*60000
        a: binary x*60000
        a: binary x*60000
        count pinned slow connections
            pinned 0 slow 0 connections 1
        a: open
            a: binary 60000 bytes
            a: binary 60000 bytes
            a: binary 60000 bytes
            a: binary 60000 bytes
            a: binary 60000 bytes
            a: binary 60000 bytes
            a: binary 60000 bytes
        a: binary again
            a: binary again
        count pinned slow connections
            pinned 0 slow 0 connections 1
        ",
    );
}

#[test]
fn choked_pipelining() {
    check_with(
        |settings| settings.limits.outbox_len_max = 4,
        "
        large reads
        b: connect native
            b: 101 crore.v1
            b: welcome ping 60s
        b: publish 0 news x*40000
        c: connect
        c: block
        c: GET /topics/news
        c: GET /topics/news
        c: GET /topics/news
        c: GET /topics/news
        c: GET /topics/news
        c: GET /topics/news
        c: GET /topics/news
        c: GET /topics/news
        c: end
        count slow connections
            slow 0 connections 2
        c: drain 50000
            c: 200 40136 bytes to xxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}],\"more\":false,\"cursor\":\"7:1\"}
        c: open
            c: 200 40136 bytes to xxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}],\"more\":false,\"cursor\":\"7:1\"}
            c: 200 40136 bytes to xxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}],\"more\":false,\"cursor\":\"7:1\"}
            c: 200 40136 bytes to xxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}],\"more\":false,\"cursor\":\"7:1\"}
            c: 200 40136 bytes to xxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}],\"more\":false,\"cursor\":\"7:1\"}
            c: 200 40136 bytes to xxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}],\"more\":false,\"cursor\":\"7:1\"}
            c: 200 40136 bytes to xxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}],\"more\":false,\"cursor\":\"7:1\"}
            c: 200 40136 bytes to xxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}],\"more\":false,\"cursor\":\"7:1\"}
            c: closed
        count pinned slow connections
            pinned 0 slow 0 connections 1
        ",
    );
}

/// What cannot be left out is owned within its bounds; above them the connection ends, and can be resumed.
#[test]
fn owned_beyond_the_bound() {
    check_with(
        |settings| {
            settings.limits.outbox_len_max = 2;
            settings.limits.outbox_bytes_max = 5_000;
        },
        "
        b: connect native
            b: 101 crore.v1
            b: welcome ping 60s
        b: publish 0 news x*2000
        a: connect native
            a: 101 crore.v1
            a: welcome ping 60s
        a: block
        a: history 1 news
        a: history 2 news
        a: history 3 news
        a: history 4 news
        a: history 5 news
        count pinned slow connections sessions
            pinned 6054 slow 0 connections 2 sessions 2
        a: history 6 news
            a: reset
        count pinned slow connections sessions
            pinned 0 slow 1 connections 1 sessions 1
        ",
    );
}

#[test]
fn pinned_beyond_the_bound() {
    check_with(
        |settings| settings.limits.pinned_bytes_max = 5_000,
        "
        b: connect native
            b: 101 crore.v1
            b: welcome ping 60s
        a: connect native
            a: 101 crore.v1
            a: welcome ping 60s
        a: subscribe 1 news
            a: subscribed 1 through 7:0
        c: connect native
            c: 101 crore.v1
            c: welcome ping 60s
        c: subscribe 1 news
            c: subscribed 1 through 7:0
        a: block
        c: block
        b: publish 0 news x*4000
        a: drain 10
        count pinned slow
            pinned 3999 slow 0
        c: drain 10
            c: 10 bytes of something unfinished
            c: reset
        count pinned slow connections subscriptions
            pinned 3999 slow 1 connections 2 subscriptions 1
        a: open
            a: message 1 1<0 4000 bytes
        b: publish 0 news on
            a: message 1 2<1 on
        ",
    );
}

#[test]
fn closing_while_blocked() {
    check_with(
        |settings| {
            settings.limits.ping_interval_s = 10;
            settings.limits.keep_alive_timeout_ms = 20_000;
        },
        "
        b: connect native
            b: 101 crore.v1
            b: welcome ping 10s
        a: connect native
            a: 101 crore.v1
            a: welcome ping 10s
        a: subscribe 1 news
            a: subscribed 1 through 7:0
        a: block
        b: publish 0 news hi
        a: close 1000
        count connections subscriptions
            connections 2 subscriptions 0
        a: open
            a: message 1 1<0 hi
            a: close 1000
            a: closed
        count connections subscriptions
            connections 1 subscriptions 0
        c: connect native
            c: 101 crore.v1
            c: welcome ping 10s
        c: block
        time +12s
            b: ping 1012
        b: pong 1
        time +12s
            b: ping 1024
        b: pong 1
        time +15s
            b: ping 1036
        b: pong 1
        time +15s
            b: ping 1052
            c: reset
        count ping-timeouts connections pinned
            ping-timeouts 1 connections 1 pinned 0
        d: connect native
            d: 101 crore.v1
            d: welcome ping 10s
        d: block
        d: publish 1 news x
        d: end
        d: open
            d: published 1 7:2
            d: closed
        e: connect native
            e: 101 crore.v1
            e: welcome ping 10s
        e: subscribe 1 news
            e: subscribed 1 through 7:2
        e: block
        b: publish 0 news hi
        e: reset
        count connections subscriptions pinned
            connections 1 subscriptions 0 pinned 0
        ",
    );
}

/// A home without credit from an edge keeps one number, and reads on from the log.
#[test]
fn credit_between_home_and_edge() {
    check_with(
        |settings| {
            settings.limits.stream_credit_bytes = 2_000;
            settings.edges_count = 2;
        },
        "
        b: connect native on 0
            b: 101 crore.v1
            b: welcome ping 60s
        a: connect native on 1
            a: 101 crore.v1
            a: welcome ping 60s
        a: subscribe 1 news, 2 x/#
            a: subscribed 1 through 7:0
            a: subscribed 2 filter
        letters stop
        b: flood news 1..50 size 50
        b: flood x/1 51..60 size 50
        letters go
            a: message 1 1..50: 50 in order
            a: named x/1 51<0 53 bytes
            a: named x/1 52<51 53 bytes
            a: named x/1 53<52 53 bytes
            a: named x/1 54<53 53 bytes
            a: named x/1 55<54 53 bytes
            a: named x/1 56<55 53 bytes
            a: named x/1 57<56 53 bytes
            a: named x/1 58<57 53 bytes
            a: named x/1 59<58 53 bytes
            a: named x/1 60<59 53 bytes
        b: flood news 61..61
            a: message 1 61<50 61
        b: flood x/1 62..62
            a: named x/1 62<60 62
        ",
    );
}

/// The stream lost records while the edge had no credit: subscriptions go on by pages, filters are told.
#[test]
fn a_gap_of_the_stream() {
    check_with(
        |settings| {
            settings.limits.stream_credit_bytes = 1_000;
            settings.logs[0].age_max_ms = 10_000;
        },
        "
        b: connect native
            b: 101 crore.v1
            b: welcome ping 60s
        a: connect native
            a: 101 crore.v1
            a: welcome ping 60s
        a: subscribe 1 news, 2 x/#
            a: subscribed 1 through 7:0
            a: subscribed 2 filter
        c: connect
        c: GET /events?topic=news&topic=x/%23
            c: 200 close stream
            c: retry 2000
            c: event crore.start {\"topic\":\"x/#\"}
            c: event crore.start {\"topic\":\"news\",\"position\":\"7:0\",\"complete\":true}
            c: id 7:0,-
        letters stop
        b: flood news 1..20 size 50
        b: flood x/1 21..30 size 50
        time +12s
        b: flood news 31..31
        letters go
            a: message 1 1..7: 7 in order
            a: skipped 2 partition 0 7..9 Slow
            a: gap 1 7..9 Evicted
            a: caught-up 1 through 9
            a: message 1 10..20: 11 in order
            a: named x/1 21<0 53 bytes
            a: named x/1 22<21 53 bytes
            a: named x/1 23<22 53 bytes
            a: named x/1 24<23 53 bytes
            a: named x/1 25<24 53 bytes
            a: named x/1 26<25 53 bytes
            a: named x/1 27<26 53 bytes
            a: named x/1 28<27 53 bytes
            a: named x/1 29<28 53 bytes
            a: named x/1 30<29 53 bytes
            a: message 1 31<20 31
            c: event id 7:1,- {\"topic\":\"news\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"1 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:2,- {\"topic\":\"news\",\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"data\":\"2 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:3,- {\"topic\":\"news\",\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"data\":\"3 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:4,- {\"topic\":\"news\",\"position\":\"7:4\",\"offset\":4,\"time_ms\":1000000,\"data\":\"4 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:5,- {\"topic\":\"news\",\"position\":\"7:5\",\"offset\":5,\"time_ms\":1000000,\"data\":\"5 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:6,- {\"topic\":\"news\",\"position\":\"7:6\",\"offset\":6,\"time_ms\":1000000,\"data\":\"6 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:7,- {\"topic\":\"news\",\"position\":\"7:7\",\"offset\":7,\"time_ms\":1000000,\"data\":\"7 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event crore.skipped {\"partition\":0,\"from\":7,\"through\":9,\"reason\":\"slow\"}
            c: event crore.gap {\"topic\":\"news\",\"gap\":{\"from\":7,\"to\":9,\"reason\":\"evicted\"}}
            c: event crore.caught_up id 7:9,- {}
            c: event id 7:10,- {\"topic\":\"news\",\"position\":\"7:10\",\"offset\":10,\"time_ms\":1012000,\"data\":\"10 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:11,- {\"topic\":\"news\",\"position\":\"7:11\",\"offset\":11,\"time_ms\":1012000,\"data\":\"11 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:12,- {\"topic\":\"news\",\"position\":\"7:12\",\"offset\":12,\"time_ms\":1012000,\"data\":\"12 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:13,- {\"topic\":\"news\",\"position\":\"7:13\",\"offset\":13,\"time_ms\":1012000,\"data\":\"13 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:14,- {\"topic\":\"news\",\"position\":\"7:14\",\"offset\":14,\"time_ms\":1012000,\"data\":\"14 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:15,- {\"topic\":\"news\",\"position\":\"7:15\",\"offset\":15,\"time_ms\":1012000,\"data\":\"15 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:16,- {\"topic\":\"news\",\"position\":\"7:16\",\"offset\":16,\"time_ms\":1012000,\"data\":\"16 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:17,- {\"topic\":\"news\",\"position\":\"7:17\",\"offset\":17,\"time_ms\":1012000,\"data\":\"17 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:18,- {\"topic\":\"news\",\"position\":\"7:18\",\"offset\":18,\"time_ms\":1012000,\"data\":\"18 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:19,- {\"topic\":\"news\",\"position\":\"7:19\",\"offset\":19,\"time_ms\":1012000,\"data\":\"19 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:20,- {\"topic\":\"news\",\"position\":\"7:20\",\"offset\":20,\"time_ms\":1012000,\"data\":\"20 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event {\"topic\":\"x/1\",\"position\":\"7:21\",\"offset\":21,\"time_ms\":1012000,\"data\":\"21 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event {\"topic\":\"x/1\",\"position\":\"7:22\",\"offset\":22,\"time_ms\":1012000,\"data\":\"22 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event {\"topic\":\"x/1\",\"position\":\"7:23\",\"offset\":23,\"time_ms\":1012000,\"data\":\"23 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event {\"topic\":\"x/1\",\"position\":\"7:24\",\"offset\":24,\"time_ms\":1012000,\"data\":\"24 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event {\"topic\":\"x/1\",\"position\":\"7:25\",\"offset\":25,\"time_ms\":1012000,\"data\":\"25 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event {\"topic\":\"x/1\",\"position\":\"7:26\",\"offset\":26,\"time_ms\":1012000,\"data\":\"26 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event {\"topic\":\"x/1\",\"position\":\"7:27\",\"offset\":27,\"time_ms\":1012000,\"data\":\"27 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event {\"topic\":\"x/1\",\"position\":\"7:28\",\"offset\":28,\"time_ms\":1012000,\"data\":\"28 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event {\"topic\":\"x/1\",\"position\":\"7:29\",\"offset\":29,\"time_ms\":1012000,\"data\":\"29 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event {\"topic\":\"x/1\",\"position\":\"7:30\",\"offset\":30,\"time_ms\":1012000,\"data\":\"30 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:31,- {\"topic\":\"news\",\"position\":\"7:31\",\"offset\":31,\"time_ms\":1012000,\"data\":\"31\"}
        b: flood news 32..32
            a: message 1 32<31 32
            c: event id 7:32,- {\"topic\":\"news\",\"position\":\"7:32\",\"offset\":32,\"time_ms\":1012000,\"data\":\"32\"}
        b: flood x/1 33..33
            a: named x/1 33<30 33
            c: event {\"topic\":\"x/1\",\"position\":\"7:33\",\"offset\":33,\"time_ms\":1012000,\"data\":\"33\"}
        ",
    );
}

/// Sessions wait, unread, while a home has no room for requests, and go on when it has.
#[test]
fn requests_in_flight() {
    check_with(
        |settings| settings.limits.requests_inflight_max = 3,
        "
        large reads
        a: connect native
            a: 101 crore.v1
            a: welcome ping 60s
        a: subscribe 1 news
            a: subscribed 1 through 7:0
        homes stop
        a: publish 1 news one
        a: publish 2 news two
        a: publish 3 news three
        a: publish 4 news four
        a: ping 5
        b: connect native
        b: subscribe 1 news
        c: connect
        c: POST /topics/news > http
        c: GET /nowhere
        d: connect native
        d: publish 1 news five
        d: reset
        homes go
            a: published 1 7:1
            a: message 1 1<0 one
            a: published 2 7:2
            a: message 1 2<1 two
            a: published 3 7:3
            a: message 1 3<2 three
            a: published 4 7:4
            a: message 1 4<3 four
            a: message 1 5<4 http
            a: pong 5
            b: 101 crore.v1
            b: welcome ping 60s
            b: subscribed 1 through 7:5
            c: 200 {\"epoch\":\"7\",\"offset\":5,\"duplicate\":false}
            c: 404 not_found
        a: ping 6
            a: pong 6
        count subscriptions connections
            subscriptions 2 connections 3
        ",
    );
}

/// The same with a subscription that lags while there is no room.
#[test]
fn pages_wait_for_room() {
    check_with(
        |settings| {
            small_outbox(settings);
            settings.limits.requests_inflight_max = 2;
        },
        "
        b: connect native
            b: 101 crore.v1
            b: welcome ping 60s
        a: connect native
            a: 101 crore.v1
            a: welcome ping 60s
        a: subscribe 1 news
            a: subscribed 1 through 7:0
        a: subscribe 2 other
            a: subscribed 2 through 7:0
        a: block
        b: flood news 1..20
        homes stop
        b: publish 1 x y
        b: publish 2 x y
        b: publish 3 x y
        a: open
        homes go
            a: message 1 1..20: 20 in order
            a: caught-up 1 through 23
            b: published 1 7:21
            b: published 2 7:22
            b: published 3 7:23
        ",
    );
}

#[test]
fn polls_behind_a_full_socket() {
    check(
        "
        b: connect native
            b: 101 crore.v1
            b: welcome ping 60s
        c: connect
        c: block
        c: GET /nowhere
        c: GET /topics/news?wait=5s
        b: publish 0 news hi
        time +6s
        c: open
            c: 404 not_found
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":1,\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"hi\"}],\"more\":false,\"cursor\":\"7:1\"}
        c: GET /topics/news?since=7:0
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":1,\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"hi\"}],\"more\":false,\"cursor\":\"7:1\"}
        count connections subscriptions
            connections 2 subscriptions 0
        ",
    );
}

/// A poll that waits for room to read its page is still the only request of its connection.
#[test]
fn polls_wait_for_room() {
    check_with(
        |settings| {
            settings.limits.requests_inflight_max = 2;
            settings.limits.page_records_max = 2;
        },
        "
        large reads
        b: connect native
            b: 101 crore.v1
            b: welcome ping 60s
        b: flood news 1..5
        c: connect
        homes stop
        c: GET /topics/news?since=7:0&wait=20s
        b: publish 1 x y
        letters stop
        homes go
        homes stop
        b: publish 2 x y
        b: publish 3 x y
        letters go
            b: published 1 7:6
        c: GET /nowhere
        c: end
        homes go
            b: published 2 7:7
            b: published 3 7:8
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":2,\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"1\"},{\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"data\":\"2\"}],\"more\":true,\"cursor\":\"7:2\"}
            c: 404 not_found
            c: closed
        count connections subscriptions
            connections 1 subscriptions 0
        ",
    );
}

/// Unfinished frames, fragments and bodies are bounded together: the connection that passes the bound ends.
#[test]
fn unfinished_input_beyond_the_bound() {
    check_with(
        |settings| settings.limits.pinned_bytes_max = 60,
        "
        large reads
        a: connect echo
            a: 101
        a: bytes 0183 00000000 616263
        count kept
            kept 3
        a: bytes 0083 00000000 616263
        a: bytes 0083 00
        count kept
            kept 9
        a: bytes 000000 616263
        a: bytes 8083 00000000 616263
            a: text abcabcabcabc
        count kept
            kept 0
        a: bytes 01a8 00000000 6161616161616161616161616161616161616161 6161616161616161616161616161616161616161
        c: connect
        c: raw POST /topics/a HTTP/1.1\\r\\nHost: h\\r\\nContent-Length: 50\\r\\n\\r\\n
        c: raw 1234567890
        count kept
            kept 50
        b: connect echo
            b: 101
        b: bytes 0185 00000000 6161616161
        count kept
            kept 55
        b: bytes 0086 00000000 616161616161
            b: reset
        count kept input-closed connections
            kept 50 input-closed 1 connections 2
        a: bytes 8081 00000000 62
            a: text 41 bytes
        c: raw 1234567890123456789012345678901234567890
            c: 200 {\"epoch\":\"7\",\"offset\":1,\"duplicate\":false}
        count kept input-closed connections
            kept 0 input-closed 1 connections 2
        a: bytes 0183 00000000 616263
        a: reset
        count kept
            kept 0
        ",
    );
}
