//! Slow consumers as scripts and transcripts: full sockets, outboxes, the ring, lagging and pages,
//! of topics and of filters.

use crate::support::{check_with, script};
use broker::settings::Settings;

fn small_outbox(settings: &mut Settings) {
    settings.limits.outbox_len_max = 8;
    settings.limits.page_records_max = 5;
}

/// The outbox overflows, the subscription lags, and comes back by pages: nothing lost, nothing
/// again, in order.
#[test]
fn overflow() {
    script! { small_outbox, "
        only binary
        b, a: session
        a: subscribe 1 news, 2 other => a: subscribed 1 through 7:0, 2 through 7:0
        a: block
        b: flood news 1..5, other 6..6, news 7..30, other 31..32
        count lagging pinned => lagging 2 pinned 0
        a: drain 10 => a: message 2 6<0 6
        count pinned => pinned 7
        a: drain 100
            a: message 2 31<6 31, 32<31 32
            a: caught-up 2 through 32
            a: message 1 1..10: 9 in order
        b: flood news 33..35
        a: open
            a: message 1 11..35: 23 in order
            a: caught-up 1 through 35
        b: flood news 36..36 => a: message 1 36<35 36
        b: flood other 37..37 => a: message 2 37<32 37
        count lagging pinned slow => lagging 2 pinned 0 slow 0
    " }
}

/// A few bytes at a time, with messages coming all the while.
#[test]
fn trickle() {
    script! { small_outbox, "
        only binary
        b, a: session
        a: subscribe 1 news => a: subscribed 1 through 7:0
        a: block
        b: flood news 1..20
        a: drain 7
        b: flood news 21..25
        a: drain 50 => a: message 1 1..7: 7 in order
        b: flood news 26..40
        a: drain 1
        a: drain 60 => a: message 1 8..14: 7 in order
        b: flood news 41..41
        a: drain 300
            a: message 1 15..41: 27 in order
            a: caught-up 1 through 41
        a: open
        b: flood news 42..42 => a: message 1 42<41 42
    " }
}

/// A frame that settles a subscription must not overtake the messages that were left out.
#[test]
fn overflow_within_a_replay() {
    script! { small_outbox, "
        b: session; flood news 1..4
        a: session
        homes stop
        a: subscribe 1 news since 7:0, 2 other
        a: block
        homes go
        b: flood other 5..30
        a: open
            a: subscribed 1 through 7:0 continued replaying, 2 through 7:4
            a: message 2 5<0 5, 6<5 6, 7<6 7, 8<7 8, 9<8 9
            a: message 1 1<0 1, 2<1 2, 3<2 3, 4<3 4
            a: caught-up 1 through 30
            a: message 2 10..30: 21 in order
            a: caught-up 2 through 30
        b: flood news 31..31 => a: message 1 31<4 31
    " }
}

#[test]
fn overflow_within_a_replay_with_credit() {
    script! { small_outbox, "
        b: session; flood news 1..9
        a: session
        homes stop
        a: subscribe 1 news since 7:0 credit 4, 2 other
        a: block
        homes go
        b: flood other 10..30
        a: open
            a: subscribed 1 through 7:0 continued replaying, 2 through 7:9
            a: message 2 10<0 10, 11<10 11, 12<11 12, 13<12 13, 14<13 14
            a: message 1 1<0 1, 2<1 2, 3<2 3, 4<3 4
            a: message 2 15..30: 16 in order
            a: caught-up 2 through 30
        a: credit 1 3 => a: message 1 5<4 5, 6<5 6, 7<6 7
        a: credit 1 3
            a: message 1 8<7 8, 9<8 9
            a: caught-up 1 through 30
        b: flood news 31..31 => a: message 1 31<9 31
    " }
}

/// Live messages need no credit, also not when they come by pages.
#[test]
fn credit_does_not_hold_who_lags() {
    script! { small_outbox, "
        b: session; flood news 1..2
        a: session; subscribe 1 news since 7:2 credit 1, 2 news2 since 7:0 credit 1
            a: subscribed 1 through 7:2 continued, 2 through 7:0 continued
        a: block
        b: flood news 3..3, news 4..40
        a: open
            a: message 1 3..40: 38 in order
            a: caught-up 1 through 40
        b: flood news 41..41 => a: message 1 41<40 41
    " }
}

/// The ring moves past what a blocked connection has waiting.
#[test]
fn the_ring_overruns() {
    script! { |settings| {
        settings.limits.ring_bytes = 1;
        settings.limits.page_bytes = 4_000;
    }, "
        b, c, a: session
        a: subscribe 1 news => a: subscribed 1 through 7:0
        c: subscribe 1 news => c: subscribed 1 through 7:0
        a: block
        b: flood news 1..100 size 1000 => c: message 1 1..100: 100 in order
        count lagging => lagging 1
        a: open
            a: message 1 1..100: 100 in order
            a: caught-up 1 through 100
        b: flood news 101..101
            a: message 1 101<100 101
            c: message 1 101<100 101
        count lagging pinned => lagging 1 pinned 0
    " }
}

/// Bodies that are not copied into the ring are bounded as well.
#[test]
fn large_messages() {
    script! { |settings| {
        settings.limits.ring_bytes = 1;
        settings.limits.page_bytes = 30_000;
    }, "
        b, a: session
        a: subscribe 1 news, 2 x/# => a: subscribed 1 through 7:0, 2 filter
        b: publish 0 news x*100000 => a: message 1 1<0 100000 bytes
        a: block
        b: flood news 2..20 size 20000, x/1 21..40 size 20000
        a: drain 30000 => a: message 1 2<1 20002 bytes
        a: open
            a: message 1 3..20: 18 in order
            a: named x/1 21<0 20003 bytes, 22<21 20003 bytes, 23<22 20003 bytes, 24<23 20003 bytes
            a: named x/1 25<24 20003 bytes, 26<25 20003 bytes, 27<26 20003 bytes, 28<27 20003 bytes
            a: named x/1 29<28 20003 bytes, 30<29 20003 bytes, 31<30 20003 bytes, 32<31 20003 bytes
            a: named x/1 33<32 20003 bytes, 34<33 20003 bytes, 35<34 20003 bytes, 36<35 20003 bytes
            a: named x/1 37<36 20003 bytes, 38<37 20003 bytes, 39<38 20003 bytes, 40<39 20003 bytes
        b: publish 0 x/1 last => a: named x/1 41<40 last
        count pinned slow => pinned 0 slow 0
    " }
}

/// Evicted before a lagging subscription came back: the gap is announced, and the rest follows.
#[test]
fn overtaken_by_eviction() {
    script! { |settings| {
        small_outbox(settings);
        settings.logs[0].age_max_ms = 10_000;
    }, "
        b, a: session
        a: subscribe 1 news => a: subscribed 1 through 7:0
        b: flood news 1..2 => a: message 1 1<0 1, 2<1 2
        a: block
        b: flood news 3..20
        time +8s
        b: flood news 21..22
        time +4s
        a: open
            a: gap 1 2..20 Evicted
            a: message 1 21<20 21, 22<21 22
            a: caught-up 1 through 22
        b: flood news 23..23 => a: message 1 23<22 23
    " }
}

#[test]
fn filters_come_back() {
    script! { small_outbox, "
        only binary
        b, a: session
        a: subscribe 1 x/#, 2 #, 3 x/1 => a: subscribed 1 filter, 2 filter, 3 through 7:0
        a: block
        b: flood x/1 1..5, x/2 6..20
        a: drain 40 => a: message 3 1<0 1, 2<1 2, 3<2 3, 4<3 4, 5<4 5
        b: flood x/1 21..21
        a: open
            a: message 3 21<5 21
            a: caught-up 3 through 21
            a: named x/1 1<0 1 for 1, 2<1 2 for 1, 3<2 3 for 1, 4<3 4 for 1, 5<4 5 for 1
            a: named x/1 1<0 1 for 2, 2<1 2 for 2, 3<2 3 for 2, 4<3 4 for 2, 5<4 5 for 2
            a: named x/2 6<0 6 for 1, 7<6 7 for 1, 8<7 8 for 1, 9<8 9 for 1, 10<9 10 for 1
            a: named x/2 6<0 6 for 2, 7<6 7 for 2, 8<7 8 for 2, 9<8 9 for 2, 10<9 10 for 2
            a: named x/2 11<10 11 for 1, 12<11 12 for 1, 13<12 13 for 1, 14<13 14 for 1
            a: named x/2 15<14 15 for 1, 11<10 11 for 2, 12<11 12 for 2, 13<12 13 for 2
            a: named x/2 14<13 14 for 2, 15<14 15 for 2, 16<15 16 for 1, 17<16 17 for 1
            a: named x/2 18<17 18 for 1, 19<18 19 for 1, 20<19 20 for 1, 16<15 16 for 2
            a: named x/2 17<16 17 for 2, 18<17 18 for 2, 19<18 19 for 2, 20<19 20 for 2
            a: named x/1 21<5 21 for 1
            a: caught-up 1 partition 0 through 21
            a: named x/1 21<5 21 for 2
            a: caught-up 2 partition 0 through 21
        b: flood x/1 22..22
            a: message 3 22<21 22
            a: named x/1 22<21 22
        count pinned => pinned 0
    " }
}

#[test]
fn raw_streams_lag() {
    script! { small_outbox, "
        b: session
        c: GET /topics/news | Accept: text/event-stream
            c: 200 close stream, retry 2000
            c: event crore.start id 7:0 {\"position\":\"7:0\",\"complete\":true}
        c: block
        b: flood news 1..12
        c: drain 20 => c: event id 7:1 1
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
        b: flood news 15..15 => c: event id 7:15 15
    " }
}

/// No event of a composite stream may carry a cursor beyond a skipped message of any of its topics.
#[test]
fn composite_streams_lag() {
    script! { small_outbox, "
        b: session
        c: GET /events?topic=a&topic=b
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"a\",\"position\":\"7:0\",\"complete\":true}
            c: event crore.start {\"topic\":\"b\",\"position\":\"7:0\",\"complete\":true}
            c: id 7:0,0
        c: block
        b: flood a 1..3, b 4..5, a 6..9, b 10..11
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
    " }
}

/// The start of one topic is sent after events of another were dropped.
#[test]
fn a_late_start_in_a_composite_stream() {
    script! { |settings| {
        small_outbox(settings);
        settings.edges_count = 2;
        settings.homes_count = 2;
        settings.logs[0].partitions_count = 4;
    }, "
        b: session
        c: connect
        homes stop 1
        c: GET /events?topic=x/1&topic=x/2&topic=x/3 | Last-Event-ID: 7:0,0,0
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"x/1\",\"position\":\"7:0\",\"complete\":true}
            c: id 7:0,0,0
        c: block
        b: flood x/1 1..1, x/1 2..3, x/2 1..3
        homes go
        b: flood x/1 4..10, x/2 11..11
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
    " }
}

/// A frame that settles one topic makes room for itself: messages of another are dropped, and their
/// cursor must not pass them.
#[test]
fn a_mark_that_costs_others_their_place() {
    script! { |settings| {
        settings.edges_count = 2;
        settings.homes_count = 2;
        settings.logs[0].partitions_count = 4;
        (settings.limits.ring_bytes, settings.limits.page_bytes) = (1, 1); // a ring of 32 KiB
    }, "
        b: session
        homes stop 1
        c: GET /events?topic=x/1&topic=x/2 | Last-Event-ID: 7:0,0
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"x/1\",\"position\":\"7:0\",\"complete\":true}
            c: id 7:0,0
        c: block
        b: publish 0 x/1 x*6500; publish 0 x/1 x*6500; publish 0 x/1 x*6500; publish 0 x/1 x*6500
        b: publish 0 x/1 x*6243
        homes go
        c: open
            c: event crore.start {\"topic\":\"x/2\",\"position\":\"7:0\",\"complete\":true}
            c: event id 7:1,0 6571 bytes to xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:2,0 6571 bytes to xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:3,0 6571 bytes to xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:4,0 6571 bytes to xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:5,0 6314 bytes to xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event crore.caught_up {}
    " }
}

/// A message for a filter makes room for itself: earlier ones go, the log brings it again, and
/// other events must not tell its place.
#[test]
fn a_filters_message_that_costs_its_own_their_place() {
    check_with(
        |settings| (settings.limits.ring_bytes, settings.limits.page_bytes) = (1, 1), // a ring of 32 KiB
        "
        b: session
        c: GET /events?topic=a&topic=x/%23
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"a\",\"position\":\"7:0\",\"complete\":true}
            c: event crore.start {\"topic\":\"x/#\",\"complete\":true}
            c: id 7:0,-/7:
        c: block
        b: publish 0 x/1 x*8000; publish 0 x/1 x*8000; publish 0 x/1 x*8000; publish 0 x/1 x*8000
        b: publish 0 x/1 x*8000; publish 0 a hi
        c: open
            c: event id 7:6,-/7: {\"topic\":\"a\",\"position\":\"7:6\",\"offset\":6,\"time_ms\":1000000,\"data\":\"hi\"}
            c: event id 7:6,-/7:1 8071 bytes to xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:6,-/7:2 8071 bytes to xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:6,-/7:3 8071 bytes to xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:6,-/7:4 8071 bytes to xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:6,-/7:5 8071 bytes to xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event crore.caught_up id 7:6,-/7:6 {}
        ",
    );
}
