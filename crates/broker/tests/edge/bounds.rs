//! Bounds as scripts and transcripts: clients that never read, what a connection and a shard may
//! own, credit between home and edge, requests in flight, unfinished input.

use crate::support::script;

/// The edge stops reading a client that sends and never reads, until it reads again.
#[test]
fn choke() {
    script! { "
        large reads
        a: connect echo => a: 101
        a: block
        a: binary x*60000
        a: binary x*60000
        a: binary x*60000
        a: binary x*60000
        a: binary x*60000
        a: binary x*60000
        a: binary x*60000
        count pinned slow connections => pinned 0 slow 0 connections 1
        a: open
            a: binary 60000 bytes
            a: binary 60000 bytes
            a: binary 60000 bytes
            a: binary 60000 bytes
            a: binary 60000 bytes
            a: binary 60000 bytes
            a: binary 60000 bytes
        a: binary again => a: binary again
        count pinned slow connections => pinned 0 slow 0 connections 1
    " }
}

#[test]
fn choked_pipelining() {
    script! { |settings| settings.limits.outbox_len_max = 4, "
        large reads
        b: session; publish 0 news x*40000
        c: connect; block
        c: GET /topics/news
        c: GET /topics/news
        c: GET /topics/news
        c: GET /topics/news
        c: GET /topics/news
        c: GET /topics/news
        c: GET /topics/news
        c: GET /topics/news
        c: end
        count slow connections => slow 0 connections 2
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
        count pinned slow connections => pinned 0 slow 0 connections 1
    " }
}

/// Answers that cannot be dropped are owned within the bounds; above them the connection ends, and
/// the client can resume.
#[test]
fn owned_beyond_the_bound() {
    script! { |settings| {
        settings.limits.outbox_len_max = 2;
        settings.limits.outbox_bytes_max = 5_000;
    }, "
        only binary
        b: session; publish 0 news x*2000
        a: session; block
        a: history 1 news
        a: history 2 news
        a: history 3 news
        a: history 4 news
        a: history 5 news
        count pinned slow connections sessions => pinned 6054 slow 0 connections 2 sessions 2
        a: history 6 news
        a: history 7 news
        count pinned slow slow-for-all connections sessions
            pinned 0 slow 1 slow-for-all 0 connections 2 sessions 2
        a: open
            a: history 1 head 1 [1<0 2000 bytes]
            a: close 3002 slow_consumer, closed
        count connections => connections 1
    " }
}

/// A client that still reads nothing is reset.
#[test]
fn owned_beyond_the_bound_and_never_read() {
    script! { |settings| {
        settings.limits.outbox_len_max = 2;
        settings.limits.outbox_bytes_max = 5_000;
    }, "
        b: session; publish 0 news x*2000
        a: session; block
        a: history 1 news
        a: history 2 news
        a: history 3 news
        a: history 4 news
        a: history 5 news
        a: history 6 news
        count slow connections => slow 1 connections 2
        time +100s
            a: reset
            b: ping 1060
        count connections => connections 1
    " }
}

/// All clients get the reason, where the rest of the frame before it is small enough.
#[test]
fn pinned_beyond_the_bound_of_all() {
    script! { |settings| settings.limits.pinned_bytes_max = 40_000, "
        b, a: session
        a: subscribe 1 large => a: subscribed 1 through 7:0
        c: session; subscribe 1 small => c: subscribed 1 through 7:0
        a: block
        c: block
        b: publish 0 large x*38000
        count keeps-segments => keeps-segments 1
        a: drain 10
        b: publish 0 small x*4000
        c: drain 10
        count slow slow-for-all connections => slow 1 slow-for-all 1 connections 3
        c: open
            c: message 1 2<0 4000 bytes
            c: close 3003 pinned_bytes, closed
        a: open => a: message 1 1<0 38000 bytes
        count pinned connections => pinned 0 connections 2
    " }
}

#[test]
fn pinned_beyond_the_bound() {
    script! { |settings| settings.limits.pinned_bytes_max = 5_000, "
        only binary
        b, a: session
        a: subscribe 1 news => a: subscribed 1 through 7:0
        c: session; subscribe 1 news => c: subscribed 1 through 7:0
        a: block
        c: block
        b: publish 0 news x*4000
        a: drain 10
        count pinned slow => pinned 3999 slow 0
        c: drain 10 => c: 10 bytes of something unfinished, reset
        count pinned slow slow-for-all connections subscriptions
            pinned 3999 slow 1 slow-for-all 1 connections 2 subscriptions 1
        a: open => a: message 1 1<0 4000 bytes
        b: publish 0 news on => a: message 1 2<1 on
    " }
}

#[test]
fn closing_while_blocked() {
    script! { |settings| {
        settings.limits.ping_interval_s = 10;
        settings.limits.keep_alive_timeout_ms = 20_000;
    }, "
        b: connect native
            b: 101 crore.v1
            b: welcome ping 10s
        a: connect native
            a: 101 crore.v1
            a: welcome ping 10s
        a: subscribe 1 news => a: subscribed 1 through 7:0
        a: block
        b: publish 0 news hi
        a: close 1000
        count connections subscriptions => connections 2 subscriptions 0
        a: open
            a: message 1 1<0 hi
            a: close 1000, closed
        count connections subscriptions => connections 1 subscriptions 0
        c: connect native
            c: 101 crore.v1
            c: welcome ping 10s
        c: block
        time +12s => b: ping 1010
        b: pong 1
        time +12s
            b: ping 1022
            c: reset
        b: pong 1
        time +15s => b: ping 1034
        b: pong 1
        time +15s => b: ping 1049
        count ping-timeouts connections pinned => ping-timeouts 1 connections 1 pinned 0
        d: connect native
            d: 101 crore.v1
            d: welcome ping 10s
        d: block
        d: publish 1 news x
        d: end
        d: open => d: published 1 7:2, closed
        e: connect native
            e: 101 crore.v1
            e: welcome ping 10s
        e: subscribe 1 news => e: subscribed 1 through 7:2
        e: block
        b: publish 0 news hi
        e: reset
        count connections subscriptions pinned => connections 1 subscriptions 0 pinned 0
    " }
}

/// A home without credit from an edge keeps one number, and reads on from the log.
#[test]
fn credit_between_home_and_edge() {
    script! { |settings| {
        settings.limits.stream_credit_bytes = 2_000;
        settings.edges_count = 2;
    }, "
        b: session on 0
        a: session on 1; subscribe 1 news, 2 x/# => a: subscribed 1 through 7:0, 2 filter
        letters stop
        b: flood news 1..50 size 50, x/1 51..60 size 50
        letters go
            a: message 1 1..50: 50 in order
            a: named x/1 51<0 53 bytes, 52<51 53 bytes, 53<52 53 bytes, 54<53 53 bytes
            a: named x/1 55<54 53 bytes, 56<55 53 bytes, 57<56 53 bytes, 58<57 53 bytes
            a: named x/1 59<58 53 bytes, 60<59 53 bytes
        b: flood news 61..61 => a: message 1 61<50 61
        b: flood x/1 62..62 => a: named x/1 62<60 62
    " }
}

/// The stream lost records while the edge had no credit: subscriptions go on by pages, filters are
/// told.
#[test]
fn a_gap_of_the_stream() {
    script! { |settings| {
        settings.limits.stream_credit_bytes = 1_000;
        settings.logs[0].age_max_ms = 10_000;
    }, "
        b, a: session
        a: subscribe 1 news, 2 x/# => a: subscribed 1 through 7:0, 2 filter
        c: GET /events?topic=news&topic=x/%23
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"news\",\"position\":\"7:0\",\"complete\":true}
            c: event crore.start {\"topic\":\"x/#\",\"complete\":true}
            c: id 7:0,-/7:
        letters stop
        b: flood news 1..20 size 50, x/1 21..30 size 50
        time +12s
        b: flood news 31..31
        letters go
            a: message 1 1..7: 7 in order
            a: gap 1 7..9 Evicted
            a: caught-up 1 through 9
            a: gap 2 partition 0 7..9 Evicted
            a: caught-up 2 partition 0 through 9
            a: message 1 10..20: 11 in order
            a: named x/1 21<0 53 bytes, 22<21 53 bytes, 23<22 53 bytes, 24<23 53 bytes
            a: named x/1 25<24 53 bytes, 26<25 53 bytes, 27<26 53 bytes, 28<27 53 bytes
            a: named x/1 29<28 53 bytes, 30<29 53 bytes
            a: message 1 31<20 31
            c: event id 7:1,-/7: {\"topic\":\"news\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"1 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:2,-/7: {\"topic\":\"news\",\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"data\":\"2 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:3,-/7: {\"topic\":\"news\",\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"data\":\"3 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:4,-/7: {\"topic\":\"news\",\"position\":\"7:4\",\"offset\":4,\"time_ms\":1000000,\"data\":\"4 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:5,-/7: {\"topic\":\"news\",\"position\":\"7:5\",\"offset\":5,\"time_ms\":1000000,\"data\":\"5 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:6,-/7: {\"topic\":\"news\",\"position\":\"7:6\",\"offset\":6,\"time_ms\":1000000,\"data\":\"6 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:7,-/7: {\"topic\":\"news\",\"position\":\"7:7\",\"offset\":7,\"time_ms\":1000000,\"data\":\"7 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event crore.gap {\"topic\":\"news\",\"gap\":{\"from\":7,\"to\":9,\"reason\":\"evicted\"}}
            c: event crore.caught_up id 7:9,-/7:7 {}
            c: event crore.gap {\"partition\":0,\"gap\":{\"from\":7,\"to\":9,\"reason\":\"evicted\"}}
            c: event crore.caught_up id 7:9,-/7:9 {}
            c: event id 7:10,-/7:9 {\"topic\":\"news\",\"position\":\"7:10\",\"offset\":10,\"time_ms\":1012000,\"data\":\"10 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:11,-/7:9 {\"topic\":\"news\",\"position\":\"7:11\",\"offset\":11,\"time_ms\":1012000,\"data\":\"11 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:12,-/7:9 {\"topic\":\"news\",\"position\":\"7:12\",\"offset\":12,\"time_ms\":1012000,\"data\":\"12 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:13,-/7:9 {\"topic\":\"news\",\"position\":\"7:13\",\"offset\":13,\"time_ms\":1012000,\"data\":\"13 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:14,-/7:9 {\"topic\":\"news\",\"position\":\"7:14\",\"offset\":14,\"time_ms\":1012000,\"data\":\"14 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:15,-/7:9 {\"topic\":\"news\",\"position\":\"7:15\",\"offset\":15,\"time_ms\":1012000,\"data\":\"15 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:16,-/7:9 {\"topic\":\"news\",\"position\":\"7:16\",\"offset\":16,\"time_ms\":1012000,\"data\":\"16 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:17,-/7:9 {\"topic\":\"news\",\"position\":\"7:17\",\"offset\":17,\"time_ms\":1012000,\"data\":\"17 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:18,-/7:9 {\"topic\":\"news\",\"position\":\"7:18\",\"offset\":18,\"time_ms\":1012000,\"data\":\"18 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:19,-/7:9 {\"topic\":\"news\",\"position\":\"7:19\",\"offset\":19,\"time_ms\":1012000,\"data\":\"19 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:20,-/7:9 {\"topic\":\"news\",\"position\":\"7:20\",\"offset\":20,\"time_ms\":1012000,\"data\":\"20 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:20,-/7:l {\"topic\":\"x/1\",\"position\":\"7:21\",\"offset\":21,\"time_ms\":1012000,\"data\":\"21 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:20,-/7:m {\"topic\":\"x/1\",\"position\":\"7:22\",\"offset\":22,\"time_ms\":1012000,\"data\":\"22 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:20,-/7:n {\"topic\":\"x/1\",\"position\":\"7:23\",\"offset\":23,\"time_ms\":1012000,\"data\":\"23 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:20,-/7:o {\"topic\":\"x/1\",\"position\":\"7:24\",\"offset\":24,\"time_ms\":1012000,\"data\":\"24 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:20,-/7:p {\"topic\":\"x/1\",\"position\":\"7:25\",\"offset\":25,\"time_ms\":1012000,\"data\":\"25 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:20,-/7:q {\"topic\":\"x/1\",\"position\":\"7:26\",\"offset\":26,\"time_ms\":1012000,\"data\":\"26 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:20,-/7:r {\"topic\":\"x/1\",\"position\":\"7:27\",\"offset\":27,\"time_ms\":1012000,\"data\":\"27 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:20,-/7:s {\"topic\":\"x/1\",\"position\":\"7:28\",\"offset\":28,\"time_ms\":1012000,\"data\":\"28 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:20,-/7:t {\"topic\":\"x/1\",\"position\":\"7:29\",\"offset\":29,\"time_ms\":1012000,\"data\":\"29 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:20,-/7:u {\"topic\":\"x/1\",\"position\":\"7:30\",\"offset\":30,\"time_ms\":1012000,\"data\":\"30 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
            c: event id 7:31,-/7:u {\"topic\":\"news\",\"position\":\"7:31\",\"offset\":31,\"time_ms\":1012000,\"data\":\"31\"}
        b: flood news 32..32
            a: message 1 32<31 32
            c: event id 7:32,-/7:u {\"topic\":\"news\",\"position\":\"7:32\",\"offset\":32,\"time_ms\":1012000,\"data\":\"32\"}
        b: flood x/1 33..33
            a: named x/1 33<30 33
            c: event id 7:32,-/7:x {\"topic\":\"x/1\",\"position\":\"7:33\",\"offset\":33,\"time_ms\":1012000,\"data\":\"33\"}
    " }
}

/// Sessions wait, unread, while a home has no room for requests, and go on when it has.
#[test]
fn requests_in_flight() {
    script! { |settings| settings.limits.requests_inflight_max = 3, "
        large reads
        a: session; subscribe 1 news => a: subscribed 1 through 7:0
        homes stop
        a: publish 1 news one; publish 2 news two; publish 3 news three; publish 4 news four
        a: ping 5
        b: connect native; subscribe 1 news
        c: POST /topics/news > http
        c: GET /nowhere
        d: connect native; publish 1 news five
        d: reset
        homes go
            a: published 1 7:1
            a: message 1 1<0 one
            a: published 2 7:2
            a: message 1 2<1 two
            a: published 3 7:3
            a: message 1 3<2 three
            a: published 4 7:4
            a: message 1 4<3 four, 5<4 http
            a: pong 5
            b: 101 crore.v1
            b: welcome ping 60s
            b: subscribed 1 through 7:5
            c: 200 {\"epoch\":\"7\",\"offset\":5,\"duplicate\":false}
            c: 404 not_found
        a: ping 6 => a: pong 6
        count subscriptions connections => subscriptions 2 connections 3
    " }
}

/// Lagging subscriptions have a limit of their own: publishers are still read meanwhile, and the
/// other way round.
#[test]
fn pages_wait_for_pages_only() {
    script! { |settings| {
        settings.limits.outbox_len_max = 8;
        settings.limits.page_records_max = 20;
        settings.limits.requests_inflight_max = 2;
    }, "
        b, a: session
        a: subscribe 1 news => a: subscribed 1 through 7:0
        a: subscribe 2 other => a: subscribed 2 through 7:0
        a: subscribe 3 more => a: subscribed 3 through 7:0
        a: block
        b: flood news 1..10, other 11..20, more 21..30
        homes stop
        a: open
        b: publish 1 x y
        b: ping 5 => b: pong 5
        b: publish 2 x y
        b: ping 6
        homes go
            a: message 3 21..30: 10 in order
            a: caught-up 3 through 30
            a: message 2 11..20: 10 in order
            a: caught-up 2 through 30
            a: message 1 1..10: 10 in order
            a: caught-up 1 through 32
            b: published 1 7:31, 2 7:32
            b: pong 6
    " }
}

#[test]
fn polls_behind_a_full_socket() {
    script! { "
        b: session
        c: connect; block
        c: GET /nowhere
        c: GET /topics/news?wait=5s
        b: publish 0 news hi
        time +6s
        c: open
            c: 404 not_found
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":1,\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"hi\"}],\"more\":false,\"cursor\":\"7:1\"}
        c: GET /topics/news?since=7:0
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":1,\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"hi\"}],\"more\":false,\"cursor\":\"7:1\"}
        count connections subscriptions => connections 2 subscriptions 0
    " }
}

/// A poll that waits for room to read its page is still the only request of its connection.
#[test]
fn polls_wait_for_room() {
    script! { |settings| {
        settings.limits.requests_inflight_max = 2;
        settings.limits.page_records_max = 2;
    }, "
        large reads
        b: session; flood news 1..5
        c: connect
        homes stop
        c: GET /topics/news?since=7:0&wait=20s
        b: publish 1 x y
        letters stop
        homes go
        homes stop
        b: publish 2 x y; publish 3 x y
        letters go => b: published 1 7:6
        c: GET /nowhere
        c: end
        homes go
            b: published 2 7:7, 3 7:8
            c: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":2,\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"1\"},{\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"data\":\"2\"}],\"more\":true,\"cursor\":\"7:2\"}
            c: 404 not_found, closed
        count connections subscriptions => connections 1 subscriptions 0
    " }
}

/// Unfinished frames, fragments and bodies are bounded together: the connection that keeps most of
/// them ends.
#[test]
fn unfinished_input_beyond_the_bound() {
    script! { |settings| settings.limits.pinned_bytes_max = 70, "
        large reads
        a: connect echo => a: 101
        a: bytes 0183 00000000 616263
        count kept => kept 3
        a: bytes 0083 00000000 616263
        a: bytes 0083 00
        count kept => kept 12
        a: bytes 000000 616263
        a: bytes 8083 00000000 616263 => a: text abcabcabcabc
        count kept => kept 0
        a: bytes 01a8 00000000 6161616161616161616161616161616161616161 6161616161616161616161616161616161616161
        c: connect; raw POST /topics/a HTTP/1.1\\r\\nHost: h\\r\\nContent-Length: 50\\r\\n\\r\\n
        c: raw 1234567890
        count kept => kept 60
        b: connect echo => b: 101
        b: bytes 0185 00000000 6161616161
        count kept => kept 65
        b: bytes 0086 00000000 616161616161 => a: reset
        count kept input-closed connections => kept 31 input-closed 1 connections 2
        b: bytes 8081 00000000 62 => b: text aaaaaaaaaaab
        c: raw 1234567890123456789012345678901234567890
            c: 200 {\"epoch\":\"7\",\"offset\":1,\"duplicate\":false}
        count kept input-closed connections => kept 0 input-closed 1 connections 2
        b: bytes 0183 00000000 616263
        b: reset
        count kept => kept 0
    " }
}
