//! Positions sent to filters now and then, as scripts and transcripts: their cursors stay young
//! where others keep the partitions busy, and never pass an unsent message.

use crate::support::script;
use broker::settings::Settings;

/// Segments of some messages, which go when they are 80 seconds old.
fn short_lived(settings: &mut Settings) {
    settings.logs[0].age_max_ms = 80_000;
    settings.logs[0].segment_bytes = 400;
}

/// Others keep a partition busy: a filter that comes back with its cursor has no gap.
#[test]
fn cursors_do_not_age() {
    script! { short_lived, "
        b, a: session
        a: subscribe 1 x/#, 2 +, 3 z => a: subscribed 1 filter, 2 filter, 3 through 7:0
        b: flood y 1..8 => a: named y 1<0 1, 2<1 2, 3<2 3, 4<3 4, 5<4 5, 6<5 6, 7<6 7, 8<7 8
        b: publish 0 x/1 one => a: named x/1 9<0 one
        b: flood z 1..2
            a: message 3 10<0 1
            a: named z 10<0 1
            a: message 3 11<10 2
            a: named z 11<10 2
        b: flood z 3..4
            a: message 3 12<11 3
            a: named z 12<11 3
            a: message 3 13<12 4
            a: named z 13<12 4
        time +3s => a: caught-up 1 partition 0 through 13, 2 partition 0 through 13
        b: flood z 5..5
            a: message 3 14<13 5
            a: named z 14<13 5
        time +23s => a: caught-up 1 partition 0 through 14, 2 partition 0 through 14
        time +30s => a: ping 1054
        b: flood z 6..9
            a: message 3 15<14 6
            a: named z 15<14 6
            a: message 3 16<15 7
            a: named z 16<15 7
            a: message 3 17<16 8
            a: named z 17<16 8
            a: message 3 18<17 9
            a: named z 18<17 9
        time +3s => a: caught-up 1 partition 0 through 18, 2 partition 0 through 18
        a: reset
        time +70s => b: ping 1116
        a: session; subscribe 1 x/# each 0 7:18 => a: subscribed 1 filter, 0 through 7:18 continued
        a: subscribe 2 x/+ each 0 7:9
            a: subscribed 2 filter, 0 through 7:14 replaying
            a: gap 2 partition 0 9..14 Evicted
            a: caught-up 2 partition 0 through 18
    " }
}

/// The cursor of a stream stays young in the same way.
#[test]
fn cursors_of_streams_do_not_age() {
    script! { short_lived, "
        b: session
        b: flood y 1..8
        c: GET /events?topic=x/%23&topic=x/%2B&topic=z
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"x/#\",\"complete\":true}
            c: event crore.start {\"topic\":\"x/+\",\"complete\":true}
            c: event crore.start {\"topic\":\"z\",\"position\":\"7:8\",\"complete\":true}
            c: id -,-,7:8/7:8
        b: publish 0 x/1 one
            c: event id -,-,7:8/7:9 {\"topic\":\"x/1\",\"position\":\"7:9\",\"offset\":9,\"time_ms\":1000000,\"data\":\"one\"}
        b: flood z 1..2
            c: event id -,-,7:10/7:9 {\"topic\":\"z\",\"position\":\"7:10\",\"offset\":10,\"time_ms\":1000000,\"data\":\"1\"}
            c: event id -,-,7:11/7:9 {\"topic\":\"z\",\"position\":\"7:11\",\"offset\":11,\"time_ms\":1000000,\"data\":\"2\"}
        b: flood z 3..4
            c: event id -,-,7:12/7:9 {\"topic\":\"z\",\"position\":\"7:12\",\"offset\":12,\"time_ms\":1000000,\"data\":\"3\"}
            c: event id -,-,7:13/7:9 {\"topic\":\"z\",\"position\":\"7:13\",\"offset\":13,\"time_ms\":1000000,\"data\":\"4\"}
        time +3s => c: id -,-,7:13/7:d
        b: flood z 5..5
            c: event id -,-,7:14/7:d {\"topic\":\"z\",\"position\":\"7:14\",\"offset\":14,\"time_ms\":1003000,\"data\":\"5\"}
        time +23s
            c: comment
            c: id -,-,7:14/7:e
        time +30s
            c: comment
            c: comment
        b: flood z 6..9
            c: event id -,-,7:15/7:e {\"topic\":\"z\",\"position\":\"7:15\",\"offset\":15,\"time_ms\":1056000,\"data\":\"6\"}
            c: event id -,-,7:16/7:e {\"topic\":\"z\",\"position\":\"7:16\",\"offset\":16,\"time_ms\":1056000,\"data\":\"7\"}
            c: event id -,-,7:17/7:e {\"topic\":\"z\",\"position\":\"7:17\",\"offset\":17,\"time_ms\":1056000,\"data\":\"8\"}
            c: event id -,-,7:18/7:e {\"topic\":\"z\",\"position\":\"7:18\",\"offset\":18,\"time_ms\":1056000,\"data\":\"9\"}
        time +3s => c: id -,-,7:18/7:i
        c: reset
        time +70s => b: ping 1116
        c: GET /events?topic=x/%23&topic=x/%2B&topic=z | Last-Event-ID: -,-,7:18/7:i
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"x/#\",\"complete\":true}
            c: event crore.start {\"topic\":\"x/+\",\"complete\":true}
            c: id -,-,7:18/7:i
            c: event crore.start {\"topic\":\"z\",\"position\":\"7:18\",\"complete\":true}
    " }
}

/// A client with waiting messages, or one that lags, gets the position after all of them; dropped
/// messages are read again first.
#[test]
fn positions_never_pass_unsent_messages() {
    script! { |settings| {
        short_lived(settings);
        settings.limits.outbox_len_max = 4;
        settings.limits.page_records_max = 2;
    }, "
        b, a: session
        a: subscribe 1 x/# => a: subscribed 1 filter
        c: GET /events?topic=x/%23
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"x/#\",\"complete\":true}
            c: id -/7:
        a: block
        c: block
        b: flood x/1 1..2, y 1..2
        time +3s
        a: open => a: named x/1 1<0 1, 2<1 2
        c: open
            a: caught-up 1 partition 0 through 4
            c: event id -/7:1 {\"topic\":\"x/1\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"1\"}
            c: event id -/7:2 {\"topic\":\"x/1\",\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"data\":\"2\"}
        time +1s => c: id -/7:4
        a: block
        c: block
        b: flood x/1 3..3, x/1 4..9, y 3..12
        time +3s
        homes stop
        a: open
        c: open
        time +3s
        homes go
            a: named x/1 5<2 3 for 1, 6<5 4 for 1, 7<6 5 for 1, 8<7 6 for 1, 9<8 7 for 1
            a: named x/1 10<9 8 for 1, 11<10 9 for 1
            a: caught-up 1 partition 0 through 21
            c: event id -/7:5 {\"topic\":\"x/1\",\"position\":\"7:5\",\"offset\":5,\"time_ms\":1004000,\"data\":\"3\"}
            c: event id -/7:6 {\"topic\":\"x/1\",\"position\":\"7:6\",\"offset\":6,\"time_ms\":1004000,\"data\":\"4\"}
            c: event id -/7:7 {\"topic\":\"x/1\",\"position\":\"7:7\",\"offset\":7,\"time_ms\":1004000,\"data\":\"5\"}
            c: event id -/7:8 {\"topic\":\"x/1\",\"position\":\"7:8\",\"offset\":8,\"time_ms\":1004000,\"data\":\"6\"}
            c: event id -/7:9 {\"topic\":\"x/1\",\"position\":\"7:9\",\"offset\":9,\"time_ms\":1004000,\"data\":\"7\"}
            c: event id -/7:a {\"topic\":\"x/1\",\"position\":\"7:10\",\"offset\":10,\"time_ms\":1004000,\"data\":\"8\"}
            c: event id -/7:b {\"topic\":\"x/1\",\"position\":\"7:11\",\"offset\":11,\"time_ms\":1004000,\"data\":\"9\"}
            c: event crore.caught_up id -/7:l {}
        b: flood y 13..30
        time +3s
            a: caught-up 1 partition 0 through 39
            c: id -/7:13
        count lagging => lagging 2
    " }
}

/// A subscription that waits for a home's answer gets the position after it.
#[test]
fn answers_on_their_way() {
    script! { |settings| {
        short_lived(settings);
        settings.edges_count = 2;
        settings.homes_count = 2;
        settings.logs[0].partitions_count = 2;
    }, "
        b, a: session
        a: subscribe 1 x/# => a: subscribed 1 filter
        b: flood x/2 1..2 => a: named x/2 1<0 1, 2<1 2
        b: flood z 1..2, y 1..2
        homes stop 1
        time +1s
        a: subscribe 2 +/9
        b: flood y 3..9
        time +3s => a: caught-up 1 partition 0 through 4, 1 partition 0 through 11
        homes go
            a: subscribed 2 filter
            a: caught-up 2 partition 0 through 11, 1 partition 0 through 11
        time +3s => a: caught-up 1 partition 1 through 2, 2 partition 1 through 2
    " }
}
