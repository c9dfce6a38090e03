//! Event streams of several filters where some are refused, as scripts and transcripts.

use crate::support::script;

/// A filter that is refused takes nothing from the others; the cursor says that it has no place,
/// and when it is served again, what it may have missed is a gap.
#[test]
fn one_of_two_is_refused_at_once() {
    script! { |settings| settings.limits.filters_per_shard_max = 2, "
        b: session; subscribe 1 b/#, 2 z/# => b: subscribed 1 filter, 2 filter
        b: publish 0 b/1 one => b: named b/1 1<0 one
        b: publish 0 a/1 two
        c: GET /events?topic=a/%23&topic=b/%23 | Last-Event-ID: -,-/7:0
            c: 200 close stream, retry 2000
            c: event crore.error {\"topic\":\"a/#\",\"code\":\"filters_full\",\"detail\":\"the shard has reached filters_per_shard_max\"}
            c: event crore.start {\"topic\":\"b/#\",\"complete\":true}
            c: event id !,-/7:1 {\"topic\":\"b/1\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"one\"}
            c: event crore.caught_up id !,-/7:2 {}
        b: publish 0 b/1 three
            b: named b/1 3<1 three
            c: event id !,-/7:3 {\"topic\":\"b/1\",\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"data\":\"three\"}
        c: reset
        b: unsubscribe 2 => b: unsubscribed 2 0
        b: publish 0 b/1 four => b: named b/1 4<3 four
        b: publish 0 a/1 five
        c: GET /events?topic=a/%23&topic=b/%23 | Last-Event-ID: !,-/7:3
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"a/#\",\"complete\":false}
            c: event crore.start {\"topic\":\"b/#\",\"complete\":true}
            c: event crore.gap {\"topic\":\"a/#\",\"partition\":0,\"gap\":{\"from\":0,\"to\":3,\"reason\":\"unknown_epoch\"}}
            c: event id -,-/7:4 {\"topic\":\"b/1\",\"position\":\"7:4\",\"offset\":4,\"time_ms\":1000000,\"data\":\"four\"}
            c: event id -,-/7:5 {\"topic\":\"a/1\",\"position\":\"7:5\",\"offset\":5,\"time_ms\":1000000,\"data\":\"five\"}
            c: event crore.caught_up {}
        b: publish 0 a/1 six
            c: event id -,-/7:6 {\"topic\":\"a/1\",\"position\":\"7:6\",\"offset\":6,\"time_ms\":1000000,\"data\":\"six\"}
    " }
}

/// One home refuses the filter for want of room.
#[test]
fn one_of_two_is_refused_by_a_home() {
    script! { |settings| {
        settings.edges_count = 2;
        settings.homes_count = 2;
        settings.logs[0].partitions_count = 2;
        settings.limits.filters_per_shard_max = 2;
    }, "
        a: session on 1; subscribe 1 b/#, 2 z/# => a: subscribed 1 filter, 2 filter
        b: session; publish 0 b/1 one => a: named b/1 1<0 one
        b: publish 0 b/2 two => a: named b/2 1<0 two
        c: GET /events?topic=a/%23&topic=b/%23 | Last-Event-ID: -,-/7:.
            c: 200 close stream, retry 2000
            c: event crore.error {\"topic\":\"a/#\",\"code\":\"filters_full\",\"detail\":\"the shard has reached filters_per_shard_max\"}
            c: event crore.start {\"topic\":\"b/#\",\"complete\":true}
            c: event id !,-/7:1. {\"topic\":\"b/1\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"one\"}
            c: event id !,-/7:1.1 {\"topic\":\"b/2\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"two\"}
            c: event crore.caught_up {}
    " }
}

/// With all filters refused the others go on, and their cursor is one.
#[test]
fn all_filters_are_refused() {
    script! { |settings| settings.limits.filters_per_shard_max = 1, "
        b: session; subscribe 1 z/# => b: subscribed 1 filter
        c: GET /events?topic=a/%23&topic=y
            c: 200 close stream, retry 2000
            c: event crore.error {\"topic\":\"a/#\",\"code\":\"filters_full\",\"detail\":\"the shard has reached filters_per_shard_max\"}
            c: event crore.start {\"topic\":\"y\",\"position\":\"7:0\",\"complete\":true}
            c: id !,7:0
        b: publish 0 y one
            c: event id !,7:1 {\"topic\":\"y\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"one\"}
        c: reset
        b: publish 0 a/1 two
        b: unsubscribe 1 => b: unsubscribed 1 0
        c: GET /events?topic=a/%23&topic=y | Last-Event-ID: !,7:1
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"a/#\",\"complete\":false}
            c: event crore.gap {\"topic\":\"a/#\",\"partition\":0,\"gap\":{\"from\":0,\"to\":2,\"reason\":\"unknown_epoch\"}}
            c: id -,7:1/7:2
            c: event crore.start {\"topic\":\"y\",\"position\":\"7:1\",\"complete\":true}
        b: publish 0 a/1 three
            c: event id -,7:1/7:3 {\"topic\":\"a/1\",\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"data\":\"three\"}
    " }
}

/// An edge without room for the replay of a stream's filters ends the stream, with the cursor that
/// it came with.
#[test]
fn a_replay_without_room() {
    script! { |settings| {
        settings.logs[0].partitions_count = 4;
        settings.limits.outbox_bytes_max = 64;
    }, "
        b: session; publish 0 x/1 one; publish 0 x/2 two
        c: GET /events?topic=x/%23&topic=%2B/1&topic=y | Last-Event-ID: -,-,7:0/7:...
            c: 200 close stream, retry 2000
            c: event crore.error {\"topic\":\"+/1\",\"code\":\"overloaded\",\"detail\":\"the node is overloaded; try again later\"}
            c: closed
        count subscriptions filters => subscriptions 0 filters 0
        c: GET /events?topic=x/%23&topic=%2B/1&topic=y | Last-Event-ID: -,-,7:0/7:1...
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"x/#\",\"complete\":true}
            c: event crore.start {\"topic\":\"+/1\",\"complete\":true}
            c: id -,-,7:0/7:1...
            c: event crore.start {\"topic\":\"y\",\"position\":\"7:0\",\"complete\":true}
            c: event id -,-,7:0/7:1.1.. {\"topic\":\"x/2\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"two\"}
            c: event crore.caught_up {}
    " }
}
