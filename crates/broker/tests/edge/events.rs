//! Event streams as scripts and transcripts: raw and in envelopes, cursors, returns, heartbeats,
//! gaps, endings.

use crate::support::{check, script};

#[test]
fn raw() {
    script! { "
        b: session
        c: GET /topics/news | Accept: text/event-stream
            c: 200 close stream, retry 2000
            c: event crore.start id 7:0 {\"position\":\"7:0\",\"complete\":true}
        b: publish 0 news hi => c: event id 7:1 hi
        b: publish 0 other x; publish 0 news empty => c: event id 7:3
        b: publish 0 news hex:610a620d0a63 => c: event id 7:4 a|b|c
        b: publish 0 news hex:ff00 => c: event crore.b64data id 7:5 /wA=
        c: GET /ignored
        c: end => c: closed
        count connections sessions subscriptions => connections 1 sessions 1 subscriptions 0
    " }
}

#[test]
fn raw_starts() {
    script! { "
        b: session; publish 0 news kept retain
        b: flood news 2..4
        c: GET /topics/news?since=7:2 | Accept: text/html, text/event-stream;q=0.9
            c: 200 close stream, retry 2000
            c: event crore.start id 7:2 {\"position\":\"7:2\",\"complete\":true}
            c: event id 7:3 3
            c: event id 7:4 4
            c: event crore.caught_up {}
        d: GET /topics/news?last=1 | Accept: text/event-stream
            d: 200 close stream, retry 2000
            d: event crore.start id 7:3 {\"position\":\"7:3\",\"complete\":true}
            d: event id 7:4 4
            d: event crore.caught_up {}
        e: GET /topics/news?snapshot | Accept: text/event-stream
            e: 200 close stream, retry 2000
            e: event crore.start id 7:4 {\"position\":\"7:4\",\"complete\":true}
            e: event id 7:1 kept
            e: id 7:4
        f: GET /topics/news?last=x | Accept: text/event-stream => f: 400 malformed_parameter
        f: GET /topics/news | Accept: text/plain
            f: 200 {\"topic\":\"news\",\"epoch\":\"7\",\"head\":4,\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"retained\":true,\"data\":\"kept\"},{\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"data\":\"2\"},{\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"data\":\"3\"},{\"position\":\"7:4\",\"offset\":4,\"time_ms\":1000000,\"data\":\"4\"}],\"more\":false,\"cursor\":\"7:4\"}
        b: publish 0 news live
            c: event id 7:5 live
            d: event id 7:5 live
            e: event id 7:5 live
    " }
}

/// A client returns by header or by query parameter; it gets a gap for expired messages, and does
/// not hang.
#[test]
fn raw_returns() {
    script! { |settings| settings.logs[0].age_max_ms = 10_000, "
        b: session; flood news 1..2
        time +5s
        b: flood news 3..4
        c: GET /topics/news | Accept: text/event-stream | Last-Event-ID: 7:3
            c: 200 close stream, retry 2000
            c: event crore.start id 7:3 {\"position\":\"7:3\",\"complete\":true}
            c: event id 7:4 4
            c: event crore.caught_up {}
        d: GET /topics/news?last-event-id=7:3 | Accept: text/event-stream | Last-Event-ID: 7:4
            d: 200 close stream, retry 2000
            d: event crore.start id 7:4 {\"position\":\"7:4\",\"complete\":true}
        e: GET /topics/news?lastEventId=7:3 | Accept: text/event-stream
            e: 200 close stream, retry 2000
            e: event crore.start id 7:3 {\"position\":\"7:3\",\"complete\":true}
            e: event id 7:4 4
            e: event crore.caught_up {}
        f: GET /topics/news | Accept: text/event-stream | Last-Event-ID: nonsense
            f: 200 close stream, retry 2000
            f: event crore.start {\"position\":\"7:0\",\"complete\":false}
            f: event crore.gap id 7:0 {\"gap\":{\"from\":0,\"to\":0,\"reason\":\"unknown_epoch\"}}
            f: event id 7:1 1
            f: event id 7:2 2
            f: event id 7:3 3
            f: event id 7:4 4
            f: event crore.caught_up {}
        g: GET /topics/news | Accept: text/event-stream | Last-Event-ID: 6:9
            g: 200 close stream, retry 2000
            g: event crore.start {\"position\":\"7:0\",\"complete\":false}
            g: event crore.gap id 7:0 {\"gap\":{\"from\":0,\"to\":0,\"reason\":\"unknown_epoch\"}}
            g: event id 7:1 1
            g: event id 7:2 2
            g: event id 7:3 3
            g: event id 7:4 4
            g: event crore.caught_up {}
        h: GET /topics/news?last-event-id= | Accept: text/event-stream
            h: 200 close stream, retry 2000
            h: event crore.start id 7:4 {\"position\":\"7:4\",\"complete\":true}
        time +7s
        i: GET /topics/news | Accept: text/event-stream | Last-Event-ID: 7:1
            i: 200 close stream, retry 2000
            i: event crore.start {\"position\":\"7:2\",\"complete\":false}
            i: event crore.gap id 7:2 {\"gap\":{\"from\":1,\"to\":2,\"reason\":\"evicted\"}}
            i: event id 7:3 3
            i: event id 7:4 4
            i: event crore.caught_up {}
        b: flood news 5..5
            c: event id 7:5 5
            d: event id 7:5 5
            e: event id 7:5 5
            f: event id 7:5 5
            g: event id 7:5 5
            h: event id 7:5 5
            i: event id 7:5 5
    " }
}

/// The id moves with the event that reports a gap, or after it: a client that leaves in between
/// gets the gap again.
#[test]
fn gaps_come_before_ids() {
    script! { |settings| settings.logs[0].age_max_ms = 10_000, "
        b: session; flood a 1..3
        time +12s
        c: GET /topics/a | Accept: text/event-stream | Last-Event-ID: 7:1
            c: 200 close stream, retry 2000
            c: event crore.start {\"position\":\"7:3\",\"complete\":false}
            c: event crore.gap id 7:3 {\"gap\":{\"from\":1,\"to\":3,\"reason\":\"evicted\"}}
        d: GET /events?topic=a&topic=b | Last-Event-ID: 7:1,3
            d: 200 close stream, retry 2000
            d: event crore.start {\"topic\":\"a\",\"position\":\"7:3\",\"complete\":false}
            d: event crore.gap {\"topic\":\"a\",\"gap\":{\"from\":1,\"to\":3,\"reason\":\"evicted\"}}
            d: id 7:3,3
            d: event crore.start {\"topic\":\"b\",\"position\":\"7:3\",\"complete\":true}
    " }
}

#[test]
fn heartbeats() {
    script! { "
        c: GET /topics/news | Accept: text/event-stream
            c: 200 close stream, retry 2000
            c: event crore.start id 7:0 {\"position\":\"7:0\",\"complete\":true}
        time +17s => c: comment
        time +16s => c: comment
    " }
}

#[test]
fn several_topics() {
    script! { "
        b: session
        c: GET /events?topic=a&topic=b&topic=a
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"a\",\"position\":\"7:0\",\"complete\":true}
            c: event crore.start {\"topic\":\"b\",\"position\":\"7:0\",\"complete\":true}
            c: id 7:0,0
        b: publish 0 a one type text/plain tag k v
            c: event id 7:1,0 {\"topic\":\"a\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"content_type\":\"text/plain\",\"tags\":{\"k\":\"v\"},\"data\":\"one\"}
        b: publish 0 b two retain
            c: event id 7:1,2 {\"topic\":\"b\",\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"retained\":true,\"data\":\"two\"}
        b: publish 0 b hex:ff
            c: event id 7:1,3 {\"topic\":\"b\",\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"b64data\":\"/w==\"}
        c: reset
        b: publish 0 a missed
        c: GET /events?topic=a&topic=b | Last-Event-ID: 7:1,3
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"a\",\"position\":\"7:1\",\"complete\":true}
            c: event crore.start {\"topic\":\"b\",\"position\":\"7:3\",\"complete\":true}
            c: id 7:1,3
            c: event id 7:4,3 {\"topic\":\"a\",\"position\":\"7:4\",\"offset\":4,\"time_ms\":1000000,\"data\":\"missed\"}
            c: event crore.caught_up {}
        c: reset
        c: GET /events?topic=a&topic=b&last-event-id=7:1
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"a\",\"position\":\"7:0\",\"complete\":false}
            c: event crore.gap {\"topic\":\"a\",\"gap\":{\"from\":0,\"to\":0,\"reason\":\"unknown_epoch\"}}
            c: event crore.start {\"topic\":\"b\",\"position\":\"7:0\",\"complete\":false}
            c: event crore.gap {\"topic\":\"b\",\"gap\":{\"from\":0,\"to\":0,\"reason\":\"unknown_epoch\"}}
            c: event id 7:1,0 {\"topic\":\"a\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"content_type\":\"text/plain\",\"tags\":{\"k\":\"v\"},\"data\":\"one\"}
            c: event id 7:4,0 {\"topic\":\"a\",\"position\":\"7:4\",\"offset\":4,\"time_ms\":1000000,\"data\":\"missed\"}
            c: event crore.caught_up {}
            c: event id 7:4,2 {\"topic\":\"b\",\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"retained\":true,\"data\":\"two\"}
            c: event id 7:4,3 {\"topic\":\"b\",\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"b64data\":\"/w==\"}
            c: event crore.caught_up id 7:4,4 {}
        c: reset
        c: GET /events?topic=a&topic=b&last=1
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"a\",\"position\":\"7:1\",\"complete\":true}
            c: event crore.start {\"topic\":\"b\",\"position\":\"7:2\",\"complete\":true}
            c: event id 7:4,2 {\"topic\":\"a\",\"position\":\"7:4\",\"offset\":4,\"time_ms\":1000000,\"data\":\"missed\"}
            c: event crore.caught_up {}
            c: event id 7:4,3 {\"topic\":\"b\",\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"b64data\":\"/w==\"}
            c: event crore.caught_up id 7:4,4 {}
        c: reset
        c: GET /events?topic=a&topic=b&snapshot
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"a\",\"position\":\"7:1\",\"complete\":true}
            c: event crore.start {\"topic\":\"b\",\"position\":\"7:4\",\"complete\":true}
            c: id 7:1,4
            c: event id 7:1,2 {\"topic\":\"b\",\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"retained\":true,\"data\":\"two\"}
            c: id 7:1,4
            c: event id 7:4,4 {\"topic\":\"a\",\"position\":\"7:4\",\"offset\":4,\"time_ms\":1000000,\"data\":\"missed\"}
            c: event crore.caught_up {}
        count subscriptions => subscriptions 2
    " }
}

#[test]
fn filters() {
    script! { "
        b: session
        c: GET /events?topic=x/%23&topic=a&topic=x/1
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"x/#\",\"complete\":true}
            c: event crore.start {\"topic\":\"a\",\"position\":\"7:0\",\"complete\":true}
            c: event crore.start {\"topic\":\"x/1\",\"position\":\"7:0\",\"complete\":true}
            c: id -,7:0,0/7:
        b: publish 0 x/1 one
            c: event id -,7:0,1/7: {\"topic\":\"x/1\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"one\"}
            c: event id -,7:0,1/7:1 {\"topic\":\"x/1\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"one\"}
        b: publish 0 a two
            c: event id -,7:2,1/7:1 {\"topic\":\"a\",\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"data\":\"two\"}
        b: publish 0 x/2 three
            c: event id -,7:2,1/7:3 {\"topic\":\"x/2\",\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"data\":\"three\"}
        c: reset
        b: publish 0 a missed
        c: GET /events?topic=x/%23&topic=a | Last-Event-ID: -,7:2
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"x/#\",\"complete\":false}
            c: event crore.gap {\"partition\":0,\"gap\":{\"from\":0,\"to\":0,\"reason\":\"unknown_epoch\"}}
            c: event crore.start {\"topic\":\"a\",\"position\":\"7:2\",\"complete\":true}
            c: event id -,7:2/7:1 {\"topic\":\"x/1\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"one\"}
            c: event id -,7:2/7:3 {\"topic\":\"x/2\",\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"data\":\"three\"}
            c: event crore.caught_up id -,7:2/7:4 {}
            c: event id -,7:4/7:4 {\"topic\":\"a\",\"position\":\"7:4\",\"offset\":4,\"time_ms\":1000000,\"data\":\"missed\"}
            c: event crore.caught_up {}
        b: publish 0 x/1 four
            c: event id -,7:4/7:5 {\"topic\":\"x/1\",\"position\":\"7:5\",\"offset\":5,\"time_ms\":1000000,\"data\":\"four\"}
        c: reset
        count subscriptions filters connections => subscriptions 0 filters 0 connections 1
    " }
}

#[test]
fn refused_streams() {
    let too_many: String = (0..49).map(|number| format!("&topic=t{number}")).collect();
    let too_long = "1".repeat(2_049);
    check(&format!(
        "
        c: GET /events?token=x{too_many} => c: 400 too_many_topics
        c: GET /events?topic=a | Last-Event-ID: {too_long} => c: 400 cursor_too_large
        "
    ));
    script! { |settings| {
        settings.limits.topics_max = 1;
        settings.limits.filters_per_shard_max = 0;
    }, "
        b: session; publish 0 a x
        c: GET /events?topic=b&topic=a&topic=x/%23
            c: 200 close stream, retry 2000
            c: event crore.error {\"topic\":\"x/#\",\"code\":\"filters_full\",\"detail\":\"the shard has reached filters_per_shard_max\"}
            c: event crore.error {\"topic\":\"b\",\"code\":\"topics_full\",\"detail\":\"the node has reached topics_max\"}
            c: event crore.start {\"topic\":\"a\",\"position\":\"7:1\",\"complete\":true}
            c: id -,7:1,!
        b: publish 0 a y
            c: event id -,7:2,! {\"topic\":\"a\",\"position\":\"7:2\",\"offset\":2,\"time_ms\":1000000,\"data\":\"y\"}
        d: GET /topics/b | Accept: text/event-stream
            d: 200 close stream, retry 2000
            d: event crore.error {\"topic\":\"\",\"code\":\"topics_full\",\"detail\":\"the node has reached topics_max\"}
            d: closed
        count subscriptions connections => subscriptions 1 connections 2
        c: reset
        b: publish 0 a missed
        c: GET /events?topic=b&topic=a&topic=x/%23 | Last-Event-ID: -,7:2,!
            c: 200 close stream, retry 2000
            c: event crore.error {\"topic\":\"x/#\",\"code\":\"filters_full\",\"detail\":\"the shard has reached filters_per_shard_max\"}
            c: event crore.error {\"topic\":\"b\",\"code\":\"topics_full\",\"detail\":\"the node has reached topics_max\"}
            c: event crore.start {\"topic\":\"a\",\"position\":\"7:2\",\"complete\":true}
            c: event id -,7:3,! {\"topic\":\"a\",\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"data\":\"missed\"}
            c: event crore.caught_up {}
    " }
}

#[test]
fn drain() {
    script! { "
        c: GET /topics/a | Accept: text/event-stream
            c: 200 close stream, retry 2000
            c: event crore.start id 7:0 {\"position\":\"7:0\",\"complete\":true}
        d: GET /events?topic=a
            d: 200 close stream, retry 2000
            d: event crore.start {\"topic\":\"a\",\"position\":\"7:0\",\"complete\":true}
            d: id 7:0
        d: block
        drain 1000 => c: retry 1, closed
        count connections sessions subscriptions => connections 1 sessions 1 subscriptions 0
        d: open => d: retry 618, closed
        count connections sessions subscriptions => connections 0 sessions 0 subscriptions 0
    " }
}
