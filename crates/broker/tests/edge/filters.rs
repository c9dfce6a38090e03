//! Subscriptions to filters as scripts and transcripts: they resume from a position for each
//! partition, lag, come back by pages, and report gaps. The client of these scripts checks that it
//! has each message once and in order.

use crate::support::script;
use broker::settings::Settings;

fn small_outbox(settings: &mut Settings) {
    settings.limits.outbox_len_max = 8;
    settings.limits.page_records_max = 5;
}

fn four_partitions(settings: &mut Settings) {
    settings.edges_count = 2;
    settings.homes_count = 2;
    settings.logs[0].partitions_count = 4;
}

/// Behind a position of each partition; partitions that are not listed start live.
#[test]
fn resumes() {
    script! { four_partitions, "
        b: session; flood x/1 1..3, x/2 1..3, x/3 1..3, y 1..3
        a: session; subscribe 1 x/+ each 0 7:0 each 1 7:0 each 2 7:1
            a: subscribed 1 filter, 0 through 7:0 continued replaying, 1 through 7:0 continued replaying
            a: gap 1 partition 2 0..0 BeyondHead
            a: named x/1 1<0 1 for 1, 2<1 2 for 1, 3<2 3 for 1
            a: caught-up 1 partition 0 through 6
            a: named x/2 1<0 1 for 1, 2<1 2 for 1, 3<2 3 for 1
            a: named x/3 4<0 1 for 1, 5<4 2 for 1, 6<5 3 for 1
            a: caught-up 1 partition 1 through 6
        b: flood x/1 4..4 => a: named x/1 7<3 4
        b: flood x/2 4..4 => a: named x/2 7<3 4
        b: flood x/3 4..4 => a: named x/3 8<6 4
        a: subscribe 2 x/# each 0 7:9 each 1 6:1 each 3 7:0, 3 +/1 each 4 7:0, 4 +/2 since 7:0, 5 +/3 last 1, 6 x/1 each 0 7:0
            a: error subscription 3 position_unavailable, subscription 4 unsupported_start
            a: error subscription 5 unsupported_start, subscription 6 unsupported_start
            a: subscribed 2 filter, 0 through 7:0 replaying, 1 through 7:0 replaying, 3 through 7:0 continued
            a: gap 2 partition 0 0..0 BeyondHead, 2 partition 1 0..0 UnknownEpoch
            a: named x/1 1<0 1 for 2, 2<1 2 for 2, 3<2 3 for 2, 7<3 4 for 2
            a: caught-up 2 partition 0 through 7
            a: named x/2 1<0 1 for 2, 2<1 2 for 2, 3<2 3 for 2
            a: named x/3 4<0 1 for 2, 5<4 2 for 2, 6<5 3 for 2
            a: named x/2 7<3 4 for 2
            a: named x/3 8<6 4 for 2
            a: caught-up 2 partition 1 through 8
        a: subscribe 7 x/+/# each 1 6:1 fail-on-gap => a: error subscription 7 position_unavailable
        a: unsubscribe 1 => a: unsubscribed 1 0
        b: flood x/1 5..5 => a: named x/1 8<7 5
    " }
}

/// A message between the answers of two homes is not lost, and not sent before the subscription
/// holds.
#[test]
fn a_message_while_opening() {
    script! { four_partitions, "
        b, a: session
        homes stop 1
        a: subscribe 1 x/#
        b: flood x/1 1..2, x/2 1..2, x/3 1..2
        homes go
            a: subscribed 1 filter, 0 through 7:0 replaying
            a: named x/2 1<0 1, 2<1 2
            a: named x/3 3<0 1, 4<3 2
            a: named x/1 1<0 1 for 1, 2<1 2 for 1
            a: caught-up 1 partition 0 through 2
        b: flood x/1 3..3 => a: named x/1 3<2 3
        b: flood x/2 3..3 => a: named x/2 5<2 3
        b: flood x/3 3..3 => a: named x/3 6<4 3
    " }
}

/// The outbox overflows: dropped messages are read again, once, for each subscription that wants
/// them; other subscriptions of the connection continue. A subscription that begins after the
/// dropped messages does not get them.
#[test]
fn lags() {
    script! { small_outbox, "
        only binary
        b, a: session
        a: subscribe 1 x/# => a: subscribed 1 filter
        a: block
        b: flood x/1 1..3
        a: subscribe 2 +/1
        b: flood x/1 4..12, x/2 13..14
        a: drain 60
            a: subscribed 2 filter
            a: named x/1 1<0 1 for 1, 2<1 2 for 1
        b: flood x/1 15..16
        a: open
            a: named x/1 3<2 3 for 1, 4<3 4 for 1, 5<4 5 for 1, 4<3 4 for 2, 5<4 5 for 2
            a: named x/1 6<5 6 for 2, 7<6 7 for 2, 8<7 8 for 2, 6<5 6 for 1, 7<6 7 for 1
            a: named x/1 8<7 8 for 1, 9<8 9 for 1, 10<9 10 for 1, 9<8 9 for 2, 10<9 10 for 2
            a: named x/1 11<10 11 for 2, 12<11 12 for 2, 15<12 15 for 2, 11<10 11 for 1
            a: named x/1 12<11 12 for 1
            a: named x/2 13<0 13 for 1, 14<13 14 for 1
            a: named x/1 15<12 15 for 1, 16<15 16 for 2
            a: caught-up 2 partition 0 through 16
            a: named x/1 16<15 16 for 1
            a: caught-up 1 partition 0 through 16
        b: flood x/1 17..17 => a: named x/1 17<16 17
        count lagging pinned => lagging 2 pinned 0
    " }
}

/// While one is behind, the live messages of the partition go to the others by their number.
#[test]
fn live_beside_a_replay() {
    script! { |settings| settings.limits.page_records_max = 2, "
        b: session; flood x/1 1..5
        a: session; subscribe 1 x/# => a: subscribed 1 filter
        a: subscribe 2 +/1 each 0 7:0 credit 3
            a: subscribed 2 filter, 0 through 7:0 continued replaying
            a: named x/1 1<0 1 for 2, 2<1 2 for 2, 3<2 3 for 2
        b: flood x/1 6..6 => a: named x/1 6<5 6 for 1
        b: flood x/2 7..7 => a: named x/2 7<0 7 for 1
        a: credit 2 2 => a: named x/1 4<3 4 for 2, 5<4 5 for 2
        a: credit 2 100
            a: named x/1 6<5 6 for 2
            a: caught-up 2 partition 0 through 7
        b: flood x/1 8..8 => a: named x/1 8<6 8
    " }
}

/// The client takes a few bytes at a time, with messages coming all the while.
#[test]
fn trickle() {
    script! { small_outbox, "
        only binary
        b, a: session
        a: subscribe 1 x/#, 2 +/2 => a: subscribed 1 filter, 2 filter
        a: block
        b: flood x/1 1..1
        a: drain 7
        b: flood x/1 2..20, x/2 21..25
        a: drain 50 => a: named x/1 1<0 1, 2<1 2 for 1, 3<2 3 for 1
        b: flood x/1 26..30
        a: drain 1
        a: drain 100
            a: named x/1 4<3 4 for 1, 5<4 5 for 1, 6<5 6 for 1
            a: named x/2 21<0 21 for 2, 22<21 22 for 2, 23<22 23 for 2
        b: flood x/2 31..31
        a: drain 300
            a: named x/2 24<23 24 for 2, 25<24 25 for 2
            a: caught-up 2 partition 0 through 25
            a: named x/2 31<25 31 for 2
            a: named x/1 7<6 7 for 1, 8<7 8 for 1, 9<8 9 for 1, 10<9 10 for 1, 11<10 11 for 1
            a: named x/1 12<11 12 for 1, 13<12 13 for 1, 14<13 14 for 1, 15<14 15 for 1
            a: named x/1 16<15 16 for 1, 17<16 17 for 1, 18<17 18 for 1, 19<18 19 for 1
        a: open
            a: named x/1 20<19 20 for 1
            a: named x/2 21<0 21 for 1, 22<21 22 for 1, 23<22 23 for 1, 24<23 24 for 1
            a: named x/2 25<24 25 for 1
            a: named x/1 26<20 26 for 1, 27<26 27 for 1, 28<27 28 for 1, 29<28 29 for 1
            a: named x/1 30<29 30 for 1
            a: named x/2 31<25 31 for 1
            a: caught-up 1 partition 0 through 31
        b: flood x/2 32..32 => a: named x/2 32<31 32
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
        a: subscribe 1 x/# => a: subscribed 1 filter
        c: subscribe 1 x/# => c: subscribed 1 filter
        a: block
        b: flood x/1 1..40 size 1000
            c: named x/1 1<0 1002 bytes, 2<1 1002 bytes, 3<2 1002 bytes, 4<3 1002 bytes
            c: named x/1 5<4 1002 bytes, 6<5 1002 bytes, 7<6 1002 bytes, 8<7 1002 bytes
            c: named x/1 9<8 1002 bytes, 10<9 1003 bytes, 11<10 1003 bytes, 12<11 1003 bytes
            c: named x/1 13<12 1003 bytes, 14<13 1003 bytes, 15<14 1003 bytes, 16<15 1003 bytes
            c: named x/1 17<16 1003 bytes, 18<17 1003 bytes, 19<18 1003 bytes, 20<19 1003 bytes
            c: named x/1 21<20 1003 bytes, 22<21 1003 bytes, 23<22 1003 bytes, 24<23 1003 bytes
            c: named x/1 25<24 1003 bytes, 26<25 1003 bytes, 27<26 1003 bytes, 28<27 1003 bytes
            c: named x/1 29<28 1003 bytes, 30<29 1003 bytes, 31<30 1003 bytes, 32<31 1003 bytes
            c: named x/1 33<32 1003 bytes, 34<33 1003 bytes, 35<34 1003 bytes, 36<35 1003 bytes
            c: named x/1 37<36 1003 bytes, 38<37 1003 bytes, 39<38 1003 bytes, 40<39 1003 bytes
        a: open
            a: named x/1 1<0 1002 bytes for 1, 2<1 1002 bytes for 1, 3<2 1002 bytes for 1
            a: named x/1 4<3 1002 bytes for 1, 5<4 1002 bytes for 1, 6<5 1002 bytes for 1
            a: named x/1 7<6 1002 bytes for 1, 8<7 1002 bytes for 1, 9<8 1002 bytes for 1
            a: named x/1 10<9 1003 bytes for 1, 11<10 1003 bytes for 1, 12<11 1003 bytes for 1
            a: named x/1 13<12 1003 bytes for 1, 14<13 1003 bytes for 1, 15<14 1003 bytes for 1
            a: named x/1 16<15 1003 bytes for 1, 17<16 1003 bytes for 1, 18<17 1003 bytes for 1
            a: named x/1 19<18 1003 bytes for 1, 20<19 1003 bytes for 1, 21<20 1003 bytes for 1
            a: named x/1 22<21 1003 bytes for 1, 23<22 1003 bytes for 1, 24<23 1003 bytes for 1
            a: named x/1 25<24 1003 bytes for 1, 26<25 1003 bytes for 1, 27<26 1003 bytes for 1
            a: named x/1 28<27 1003 bytes for 1, 29<28 1003 bytes for 1, 30<29 1003 bytes for 1
            a: named x/1 31<30 1003 bytes for 1, 32<31 1003 bytes for 1, 33<32 1003 bytes for 1
            a: named x/1 34<33 1003 bytes for 1, 35<34 1003 bytes for 1, 36<35 1003 bytes for 1
            a: named x/1 37<36 1003 bytes for 1, 38<37 1003 bytes for 1, 39<38 1003 bytes for 1
            a: named x/1 40<39 1003 bytes for 1
            a: caught-up 1 partition 0 through 40
        b: flood x/1 41..41
            a: named x/1 41<40 41
            c: named x/1 41<40 41
        count pinned => pinned 0
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
        a: subscribe 1 x/# => a: subscribed 1 filter
        b: flood x/1 1..2 => a: named x/1 1<0 1, 2<1 2
        a: block
        b: flood x/1 3..20
        time +8s
        b: flood x/1 21..22
        time +4s
        a: open
            a: gap 1 partition 0 2..20 Evicted
            a: named x/1 21<20 21 for 1, 22<21 22 for 1
            a: caught-up 1 partition 0 through 22, 1 partition 0 through 22
        b: flood x/1 23..23 => a: named x/1 23<22 23
    " }
}

#[test]
fn unsubscribing_while_behind() {
    script! { small_outbox, "
        b: session; flood x/1 1..20
        a: session
        homes stop
        a: subscribe 1 x/# each 0 7:0, 2 +/1
        a: unsubscribe 1 => a: unsubscribed 1 0
        homes go => a: subscribed 2 filter
        a: subscribe 1 x/# each 0 7:10 credit 2
            a: subscribed 1 filter, 0 through 7:10 continued replaying
            a: named x/1 11<10 11 for 1, 12<11 12 for 1
        a: unsubscribe 1 => a: unsubscribed 1 0
        a: subscribe 1 x/# each 0 7:18
            a: subscribed 1 filter, 0 through 7:18 continued replaying
            a: named x/1 19<18 19 for 1, 20<19 20 for 1
            a: caught-up 1 partition 0 through 20
        b: flood x/1 21..21 => a: named x/1 21<20 21
        a: reset
        count subscriptions filters => subscriptions 0 filters 0
    " }
}

/// An event stream brings its cursor back, and gets what it missed; several filters of it are one.
#[test]
fn a_stream_resumes() {
    script! { four_partitions, "
        b: session
        c: GET /events?topic=x/%23&topic=%2B/1&topic=y
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"y\",\"position\":\"7:0\",\"complete\":true}
            c: event crore.start {\"topic\":\"x/#\",\"complete\":true}
            c: event crore.start {\"topic\":\"+/1\",\"complete\":true}
            c: id -,-,7:0/7:~4
        b: publish 0 x/1 one
            c: event id -,-,7:0/7:1... {\"topic\":\"x/1\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"one\"}
        b: publish 0 x/2 two
            c: event id -,-,7:0/7:1.1.. {\"topic\":\"x/2\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"two\"}
        c: reset
        b: publish 0 x/1 three; publish 0 x/3 four; publish 0 y five
        c: GET /events?topic=x/%23&topic=%2B/1&topic=y | Last-Event-ID: -,-,7:0/7:1.1..
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"y\",\"position\":\"7:0\",\"complete\":true}
            c: event id -,-,7:3/7:1.1.. {\"topic\":\"y\",\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"data\":\"five\"}
            c: event crore.caught_up {}
            c: event crore.start {\"topic\":\"x/#\",\"complete\":true}
            c: event crore.start {\"topic\":\"+/1\",\"complete\":true}
            c: event id -,-,7:3/7:2.1.. {\"topic\":\"x/1\",\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"data\":\"three\"}
            c: event id -,-,7:3/7:3.2.. {\"topic\":\"x/3\",\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"data\":\"four\"}
            c: event crore.caught_up {}
        b: publish 0 x/1 six
            c: event id -,-,7:3/7:4.2.. {\"topic\":\"x/1\",\"position\":\"7:4\",\"offset\":4,\"time_ms\":1000000,\"data\":\"six\"}
    " }
}

/// A stream lags: dropped messages are read again, and its cursor never passes an unsent one.
#[test]
fn a_stream_lags() {
    script! { small_outbox, "
        b: session
        c: GET /events?topic=x/%23&topic=y
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"x/#\",\"complete\":true}
            c: event crore.start {\"topic\":\"y\",\"position\":\"7:0\",\"complete\":true}
            c: id -,7:0/7:
        c: block
        b: flood x/1 1..3, y 4..4, x/1 5..14
        c: open
            c: event id -,7:4/7: {\"topic\":\"y\",\"position\":\"7:4\",\"offset\":4,\"time_ms\":1000000,\"data\":\"4\"}
            c: event crore.caught_up id -,7:14/7: {}
            c: event id -,7:14/7:1 {\"topic\":\"x/1\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"1\"}
            c: event id -,7:14/7:2 {\"topic\":\"x/1\",\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"data\":\"2\"}
            c: event id -,7:14/7:3 {\"topic\":\"x/1\",\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"data\":\"3\"}
            c: event id -,7:14/7:5 {\"topic\":\"x/1\",\"position\":\"7:5\",\"offset\":5,\"time_ms\":1000000,\"data\":\"5\"}
            c: event id -,7:14/7:6 {\"topic\":\"x/1\",\"position\":\"7:6\",\"offset\":6,\"time_ms\":1000000,\"data\":\"6\"}
            c: event id -,7:14/7:7 {\"topic\":\"x/1\",\"position\":\"7:7\",\"offset\":7,\"time_ms\":1000000,\"data\":\"7\"}
            c: event id -,7:14/7:8 {\"topic\":\"x/1\",\"position\":\"7:8\",\"offset\":8,\"time_ms\":1000000,\"data\":\"8\"}
            c: event id -,7:14/7:9 {\"topic\":\"x/1\",\"position\":\"7:9\",\"offset\":9,\"time_ms\":1000000,\"data\":\"9\"}
            c: event id -,7:14/7:a {\"topic\":\"x/1\",\"position\":\"7:10\",\"offset\":10,\"time_ms\":1000000,\"data\":\"10\"}
            c: event id -,7:14/7:b {\"topic\":\"x/1\",\"position\":\"7:11\",\"offset\":11,\"time_ms\":1000000,\"data\":\"11\"}
            c: event id -,7:14/7:c {\"topic\":\"x/1\",\"position\":\"7:12\",\"offset\":12,\"time_ms\":1000000,\"data\":\"12\"}
            c: event id -,7:14/7:d {\"topic\":\"x/1\",\"position\":\"7:13\",\"offset\":13,\"time_ms\":1000000,\"data\":\"13\"}
            c: event id -,7:14/7:e {\"topic\":\"x/1\",\"position\":\"7:14\",\"offset\":14,\"time_ms\":1000000,\"data\":\"14\"}
            c: event crore.caught_up {}
        b: flood x/1 15..15
            c: event id -,7:14/7:f {\"topic\":\"x/1\",\"position\":\"7:15\",\"offset\":15,\"time_ms\":1000000,\"data\":\"15\"}
    " }
}

/// A log that cannot be read ends the stream, with all of its filters and topics; it comes back
/// with what it has.
#[test]
fn a_stream_whose_log_cannot_be_read() {
    script! { four_partitions, "
        b: session; publish 0 x/1 one; publish 0 y two
        c: connect
        reads fail
        c: GET /events?topic=x/%23&topic=%2B/1&topic=z | Last-Event-ID: -,-,7:0/7:...
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"z\",\"position\":\"7:0\",\"complete\":true}
            c: id -,-,7:0/7:~4
            c: event crore.start {\"topic\":\"x/#\",\"complete\":true}
            c: event crore.start {\"topic\":\"+/1\",\"complete\":true}
            c: event crore.error {\"topic\":\"+/1\",\"code\":\"log_unavailable\",\"detail\":\"the log cannot take publications now\"}
            c: closed
        count subscriptions filters => subscriptions 0 filters 0
        reads go
        c: GET /events?topic=x/%23&topic=%2B/1&topic=z | Last-Event-ID: -,-,7:0/7:...
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"z\",\"position\":\"7:0\",\"complete\":true}
            c: id -,-,7:0/7:~4
            c: event crore.start {\"topic\":\"x/#\",\"complete\":true}
            c: event crore.start {\"topic\":\"+/1\",\"complete\":true}
            c: event id -,-,7:0/7:1... {\"topic\":\"x/1\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"one\"}
            c: event crore.caught_up id -,-,7:0/7:2... {}
    " }
}

/// The queued events of an ending stream are sent up to the first one that is missing: each event
/// carries all cursors.
#[test]
fn a_stream_that_ends_behind_a_full_socket() {
    script! { |settings| {
        four_partitions(settings);
        settings.limits.ring_bytes = 1;
        settings.limits.page_bytes = 1;
        settings.limits.outbox_len_max = 4;
    }, "
        b, a: session
        a: subscribe 1 z => a: subscribed 1 through 7:0
        c: GET /events?topic=x/%23
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"x/#\",\"complete\":true}
            c: id -/7:~4
        c: block
        b: flood x/2 1..5
        homes stop 1
        c: open
        c: block
        b: publish 0 x/1 x*5000; publish 0 x/6 six
        reads fail
        homes go
        b: flood z 1..15 size 2000 => a: message 1 2..16: 15 in order
        c: open
            c: event crore.error {\"topic\":\"x/#\",\"code\":\"log_unavailable\",\"detail\":\"the log cannot take publications now\"}
            c: closed
    " }
}

#[test]
fn streams_that_are_too_wide() {
    script! { "
        c: GET /events?topic=a/%23&topic=b
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"a/#\",\"complete\":true}
            c: event crore.start {\"topic\":\"b\",\"position\":\"7:0\",\"complete\":true}
            c: id -,7:0/7:
    " }
    script! { |settings| settings.logs[0].partitions_count = 200, "
        c: GET /events?topic=a/%23&topic=b => c: 400 too_many_topics
    " }
}
