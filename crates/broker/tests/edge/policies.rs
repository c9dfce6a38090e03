//! Lag policies of subscriptions: conflate, drop, disconnect; a recovery is complete under each.
//! (`slow.rs` has the default, replay.)

use crate::support::script;
use broker::settings::{LagPolicy, Settings};

fn by_rule(policy: LagPolicy) -> impl Fn(&mut Settings) {
    move |settings| {
        settings.limits.outbox_len_max = 8;
        settings.limits.page_records_max = 5;
        settings.rules[0].when_lagging = policy;
    }
}

/// The newest message, and what lies before it as skipped.
#[test]
fn conflate() {
    script! { by_rule(LagPolicy::Conflate), "
        only binary
        b, a: session
        a: subscribe 1 news => a: subscribed 1 through 7:0
        a: block
        b: flood news 1..5, other 6..6, news 7..30, other 31..31
        a: drain 10 => a: skipped 1 0..29 Conflated
        b: flood news 32..32
        a: open
            a: message 1 30<29 30
            a: caught-up 1 through 31
            a: message 1 32<30 32
        b: flood news 33..33 => a: message 1 33<32 33
        count lagging conflated pages pinned => lagging 1 conflated 1 pages 1 pinned 0
    " }
}

/// One message behind is none skipped.
#[test]
fn conflate_with_nothing_between() {
    script! { by_rule(LagPolicy::Conflate), "
        b, a: session
        a: subscribe 1 news, 2 other => a: subscribed 1 through 7:0, 2 through 7:0
        a: block
        b: flood other 1..8, news 9..9
        a: open
            a: skipped 2 0..7 Conflated
            a: message 2 8<7 8
            a: caught-up 2 through 9
            a: message 1 9<0 9
            a: caught-up 1 through 9
        count conflated lagging => conflated 1 lagging 2
    " }
}

/// The conflated messages overflow again: none is repeated, none is missing.
#[test]
fn conflate_again_and_again() {
    script! { by_rule(LagPolicy::Conflate), "
        only binary
        b, a: session
        a: subscribe 1 news, 2 other => a: subscribed 1 through 7:0, 2 through 7:0
        a: block
        b: flood news 1..1, news 2..10
        homes stop
        a: open
        a: block
        homes go
        b: flood other 11..30
        a: drain 12 => a: skipped 2 0..29 Conflated
        b: flood news 31..31, news 32..45
        a: drain 60
            a: message 2 30<29 30
            a: caught-up 2 through 45
            a: skipped 1 0..44 Conflated
            a: message 1 45<44 45
            a: caught-up 1 through 45
        b: flood news 46..46 => a: message 1 46<45 46
        a: open
        count conflated lagging pinned => conflated 4 lagging 5 pinned 0
    " }
}

#[test]
fn drop() {
    script! { by_rule(LagPolicy::Drop), "
        b, a: session
        a: subscribe 1 news, 2 other => a: subscribed 1 through 7:0, 2 through 7:0
        a: block
        b: flood news 1..2, news 3..4, other 5..5, news 6..30
        b: flood other 31..31
        a: open
            a: skipped 2 0..31 Dropped
            a: caught-up 2 through 31
            a: skipped 1 0..31 Dropped
            a: caught-up 1 through 31
        b: flood news 32..32 => a: message 1 32<30 32
        count lagging dropped pages => lagging 2 dropped 2 pages 2
    " }
}

#[test]
fn disconnect() {
    script! { by_rule(LagPolicy::Disconnect), "
        only binary
        b, a: session
        a: subscribe 1 news, 2 other => a: subscribed 1 through 7:0, 2 through 7:0
        b: flood news 1..2 => a: message 1 1<0 1, 2<1 2
        b: flood other 3..3 => a: message 2 3<0 3
        a: block
        b: flood news 4..5
        a: drain 12 => a: message 1 4<2 4
        b: flood news 6..20
        a: drain 10 => a: message 1 5<4 5
        a: open => a: unsubscribed 1 2500
        b: flood news 21..21, other 22..22 => a: message 2 22<3 22
        a: subscribe 1 news since 7:4
            a: subscribed 1 through 7:4 continued replaying
            a: message 1 5..21: 17 in order
            a: caught-up 1 through 22
        b: flood news 23..23 => a: message 1 23<21 23
        count disconnected subscriptions topics pinned
            disconnected 1 subscriptions 2 topics 2 pinned 0
        a: reset
        count subscriptions indexes => subscriptions 0 indexes 0
    " }
}

/// A replay is read at the pace of the socket and lasts until it has been written; only what comes
/// later may be left out.
#[test]
fn a_recovery_is_complete() {
    for policy in [LagPolicy::Conflate, LagPolicy::Drop, LagPolicy::Disconnect] {
        script! { by_rule(policy), "
            only binary
            b: session; flood news 1..30
            a: session
            homes stop
            a: subscribe 1 news since 7:2
            a: block
            homes go
            b: flood news 31..40
            a: drain 40
                a: subscribed 1 through 7:2 continued replaying
                a: message 1 3<2 3, 4<3 4, 5<4 5, 6<5 6
            a: drain 40 => a: message 1 7<6 7, 8<7 8, 9<8 9, 10<9 10
            b: flood news 41..41
            a: drain 300
                a: message 1 11..41: 31 in order
                a: caught-up 1 through 41
            b: flood news 42..45 => a: message 1 42<41 42, 43<42 43
            a: open => a: message 1 44<43 44, 45<44 45
            count conflated dropped disconnected => conflated 0 dropped 0 disconnected 0
        " }
    }
}

/// A stream that the log has overtaken is the node's doing, not the client's: a gap, not a skip.
#[test]
fn a_gap_stays_a_gap() {
    for policy in [LagPolicy::Conflate, LagPolicy::Drop, LagPolicy::Disconnect] {
        script! { |settings| {
            by_rule(policy)(settings);
            settings.logs[0].age_max_ms = 10_000;
            settings.limits.stream_credit_bytes = 400;
        }, "
            b, a: session
            a: subscribe 1 news => a: subscribed 1 through 7:0
            letters stop
            b: flood news 1..6
            time +12s
            b: flood news 7..8
            letters go
                a: message 1 1<0 1, 2<1 2, 3<2 3, 4<3 4
                a: gap 1 4..6 Evicted
                a: message 1 7<6 7
                a: caught-up 1 through 7
                a: message 1 8<7 8
            b: flood news 9..9 => a: message 1 9<8 9
            count conflated dropped disconnected => conflated 0 dropped 0 disconnected 0
        " }
    }
}

/// The newest message itself has been evicted: nothing can be brought, and that is a gap.
#[test]
fn conflate_overtaken_by_eviction() {
    script! { |settings| {
        by_rule(LagPolicy::Conflate)(settings);
        settings.logs[0].age_max_ms = 10_000;
    }, "
        b, a: session
        a: subscribe 1 news => a: subscribed 1 through 7:0
        a: block
        b: flood news 1..1, news 2..20
        time +12s
        a: open
            a: gap 1 0..20 Evicted
            a: caught-up 1 through 20
        b: flood news 21..21 => a: message 1 21<20 21
    " }
}

#[test]
fn raw_streams() {
    script! { by_rule(LagPolicy::Replay), "
        b: session
        c: connect
        d: connect
        e: connect
        c: GET /topics/news?policy=conflate | Accept: text/event-stream
            c: 200 close stream, retry 2000
            c: event crore.start id 7:0 {\"position\":\"7:0\",\"complete\":true}
        d: GET /topics/news?policy=drop | Accept: text/event-stream
            d: 200 close stream, retry 2000
            d: event crore.start id 7:0 {\"position\":\"7:0\",\"complete\":true}
        e: GET /topics/news?policy=disconnect | Accept: text/event-stream
            e: 200 close stream, retry 2000
            e: event crore.start id 7:0 {\"position\":\"7:0\",\"complete\":true}
        c: block
        d: block
        e: block
        b: flood news 1..1
        c: drain 20 => c: event id 7:1 1
        d: drain 20 => d: event id 7:1 1
        e: drain 20 => e: event id 7:1 1
        b: flood news 2..2, news 3..20
        c: open
            c: event id 7:2 2
            c: event crore.skipped id 7:19 {\"from\":2,\"through\":19,\"reason\":\"conflated\"}
            c: event id 7:20 20
            c: event crore.caught_up {}
        d: open
            d: event id 7:2 2
            d: event crore.skipped id 7:20 {\"from\":2,\"through\":20,\"reason\":\"dropped\"}
            d: event crore.caught_up {}
        e: open
            e: event id 7:2 2
            e: event crore.error {\"code\":\"slow_consumer\",\"detail\":\"the subscription did not keep up; subscribe again from the last position\"}
            e: closed
        b: flood news 21..21
            c: event id 7:21 21
            d: event id 7:21 21
        f: GET /topics/news?policy=disconnect | Accept: text/event-stream | Last-Event-ID: 7:19
            f: 200 close stream, retry 2000
            f: event crore.start id 7:19 {\"position\":\"7:19\",\"complete\":true}
            f: event id 7:20 20
            f: event id 7:21 21
            f: event crore.caught_up {}
    " }
}

/// The cursor of an envelope moves with the skipped messages, and not before.
#[test]
fn composite_streams() {
    script! { by_rule(LagPolicy::Replay), "
        b: session
        c: connect
        d: connect
        c: GET /events?topic=a&topic=b&policy=conflate
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"a\",\"position\":\"7:0\",\"complete\":true}
            c: event crore.start {\"topic\":\"b\",\"position\":\"7:0\",\"complete\":true}
            c: id 7:0,0
        d: GET /events?topic=a&topic=b&policy=disconnect
            d: 200 close stream, retry 2000
            d: event crore.start {\"topic\":\"a\",\"position\":\"7:0\",\"complete\":true}
            d: event crore.start {\"topic\":\"b\",\"position\":\"7:0\",\"complete\":true}
            d: id 7:0,0
        c: block
        d: block
        b: flood a 1..3, b 4..5, a 6..9
        c: drain 30
        b: flood b 10..10
        c: open
            c: event crore.skipped id 7:0,4 {\"topic\":\"b\",\"from\":0,\"through\":4,\"reason\":\"conflated\"}
            c: event id 7:0,5 {\"topic\":\"b\",\"position\":\"7:5\",\"offset\":5,\"time_ms\":1000000,\"data\":\"5\"}
            c: event crore.caught_up id 7:0,9 {}
            c: event crore.skipped id 7:8,9 {\"topic\":\"a\",\"from\":0,\"through\":8,\"reason\":\"conflated\"}
            c: event id 7:9,9 {\"topic\":\"a\",\"position\":\"7:9\",\"offset\":9,\"time_ms\":1000000,\"data\":\"9\"}
            c: event crore.caught_up {}
            c: event id 7:9,10 {\"topic\":\"b\",\"position\":\"7:10\",\"offset\":10,\"time_ms\":1000000,\"data\":\"10\"}
        d: open
            d: event crore.error {\"topic\":\"b\",\"code\":\"slow_consumer\",\"detail\":\"the subscription did not keep up; subscribe again from the last position\"}
            d: closed
        b: flood a 11..11
            c: event id 7:11,10 {\"topic\":\"a\",\"position\":\"7:11\",\"offset\":11,\"time_ms\":1000000,\"data\":\"11\"}
    " }
}

#[test]
fn policies_by_parameter() {
    script! { by_rule(LagPolicy::Replay), "
        c: GET /events?topic=a&policy=newest => c: 400 malformed_parameter
        c: GET /topics/a?policy=Drop | Accept: text/event-stream => c: 400 malformed_parameter
    " }
}

/// The policy of a subscription wins over the rule's.
#[test]
fn policies_by_option() {
    script! { by_rule(LagPolicy::Drop), "
        b, a, c, d: session
        a: subscribe 1 news policy conflate => a: subscribed 1 through 7:0
        c: subscribe 1 news policy replay => c: subscribed 1 through 7:0
        d: subscribe 1 news policy disconnect => d: subscribed 1 through 7:0
        a: block
        c: block
        d: block
        b: flood news 1..1, news 2..12
        a: open
            a: skipped 1 0..11 Conflated
            a: message 1 12<11 12
            a: caught-up 1 through 12
        c: open
            c: message 1 1..12: 12 in order
            c: caught-up 1 through 12
        d: open => d: unsubscribed 1 2500
    " }
}
