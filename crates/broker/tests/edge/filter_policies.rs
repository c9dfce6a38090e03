//! Lag policies of subscriptions to filters, partition by partition: conflate, drop, disconnect; a
//! recovery is complete under each; and the policy that a filter gets. (Topics: `policies.rs`.)

use crate::support::script;
use broker::filters::FilterTrie;
use broker::settings::{LagPolicy, RuleSettings, Settings};
use broker::topic::Filter;

fn by_rule(policy: LagPolicy) -> impl Fn(&mut Settings) {
    move |settings| {
        settings.limits.outbox_len_max = 8;
        settings.limits.page_records_max = 5;
        settings.rules[0].when_lagging = policy;
    }
}

/// The newest message of each topic, in the log's order, and what lies between as skipped.
#[test]
fn conflate() {
    script! { by_rule(LagPolicy::Conflate), "
        b, a: session
        a: subscribe 1 x/# => a: subscribed 1 filter
        a: block
        b: flood x/1 1..3, x/2 4..4, other 5..5, x/3 6..20
        b: flood x/4 21..21, other 22..23, x/1 24..24, other 25..25
        a: open
            a: skipped 1 partition 0 0..3 Conflated
            a: named x/2 4<0 4 for 1
            a: skipped 1 partition 0 4..19 Conflated
            a: named x/3 20<19 20 for 1
            a: named x/4 21<0 21 for 1
            a: named x/1 24<3 24 for 1
            a: caught-up 1 partition 0 through 25
        b: flood x/1 26..26 => a: named x/1 26<24 26
        count lagging conflated pages pinned => lagging 1 conflated 2 pages 1 pinned 0
    " }
}

/// A page with more topics than fit: each page says what it leaves out.
#[test]
fn conflate_in_pages() {
    script! { |settings| {
        by_rule(LagPolicy::Conflate)(settings);
        settings.limits.page_records_max = 1;
    }, "
        only binary
        b, a: session
        a: subscribe 1 x/#, 2 +/2 => a: subscribed 1 filter, 2 filter
        a: block
        b: flood x/1 1..9, x/2 10..12, x/3 13..14
        a: drain 30
            a: skipped 1 partition 0 0..8 Conflated
            a: named x/1 9<8 9 for 1
        b: flood x/2 15..15
        a: open
            a: skipped 1 partition 0 9..11 Conflated
            a: skipped 2 partition 0 0..11 Conflated
            a: named x/2 12<11 12 for 2
            a: caught-up 2 partition 0 through 14
            a: named x/2 15<12 15 for 2
            a: skipped 1 partition 0 11..13 Conflated
            a: named x/3 14<13 14 for 1
            a: named x/2 15<12 15 for 1
            a: caught-up 1 partition 0 through 15
        b: flood x/2 16..16 => a: named x/2 16<15 16
        count conflated => conflated 4
    " }
}

/// The conflated messages overflow again: none is repeated, none is missing.
#[test]
fn conflate_again_and_again() {
    script! { by_rule(LagPolicy::Conflate), "
        only binary
        b, a: session
        a: subscribe 1 x/# => a: subscribed 1 filter
        a: block
        b: flood x/1 1..12, x/2 13..14
        homes stop
        a: open
        a: block
        homes go
        b: flood x/2 15..30
        a: drain 12 => a: skipped 1 partition 0 0..11 Conflated
        b: flood x/1 31..31, x/3 32..45
        a: drain 60
            a: named x/1 12<11 12 for 1
            a: skipped 1 partition 0 12..29 Conflated
            a: named x/2 30<29 30 for 1
        b: flood x/1 46..46
        a: open
            a: named x/1 31<12 31 for 1
            a: skipped 1 partition 0 31..44 Conflated
            a: named x/3 45<44 45 for 1
            a: caught-up 1 partition 0 through 45
            a: named x/1 46<31 46
        count conflated lagging pinned => conflated 6 lagging 3 pinned 0
    " }
}

#[test]
fn drop() {
    script! { by_rule(LagPolicy::Drop), "
        b, a: session
        a: subscribe 1 x/# => a: subscribed 1 filter
        b: flood x/1 1..1 => a: named x/1 1<0 1
        a: block
        b: flood x/1 2..3, x/2 4..20, other 21..21
        a: open
            a: skipped 1 partition 0 1..21 Dropped
            a: caught-up 1 partition 0 through 21
        b: flood x/1 22..22 => a: named x/1 22<3 22
        count dropped pages pinned => dropped 1 pages 1 pinned 0
    " }
}

#[test]
fn disconnect() {
    script! { by_rule(LagPolicy::Disconnect), "
        b, a: session
        a: subscribe 1 x/#, 2 +/1 policy replay => a: subscribed 1 filter, 2 filter
        b: flood x/1 1..1 => a: named x/1 1<0 1
        a: block
        b: flood x/1 2..3, x/2 4..20
        a: open
            a: unsubscribed 1 2500
            a: named x/1 2<1 2 for 2, 3<2 3 for 2
            a: caught-up 2 partition 0 through 20
        b: flood x/1 21..21 => a: named x/1 21<3 21
        a: subscribe 1 x/# each 0 7:1
            a: subscribed 1 filter, 0 through 7:1 continued replaying
            a: named x/1 2<1 2 for 1, 3<2 3 for 1
            a: named x/2 4<0 4 for 1, 5<4 5 for 1, 6<5 6 for 1, 7<6 7 for 1, 8<7 8 for 1
            a: named x/2 9<8 9 for 1, 10<9 10 for 1, 11<10 11 for 1, 12<11 12 for 1, 13<12 13 for 1
            a: named x/2 14<13 14 for 1, 15<14 15 for 1, 16<15 16 for 1, 17<16 17 for 1
            a: named x/2 18<17 18 for 1, 19<18 19 for 1, 20<19 20 for 1
            a: named x/1 21<3 21 for 1
            a: caught-up 1 partition 0 through 21
        b: flood x/1 22..22 => a: named x/1 22<21 22
        count disconnected subscriptions filters pinned
            disconnected 1 subscriptions 2 filters 2 pinned 0
        a: reset
        count subscriptions filters => subscriptions 0 filters 0
    " }
}

/// Partitions lag one by one: what waits of the others goes out in full.
#[test]
fn by_partition() {
    script! { |settings| {
        by_rule(LagPolicy::Drop)(settings);
        settings.edges_count = 2;
        settings.homes_count = 2;
        settings.logs[0].partitions_count = 4;
    }, "
        b, a: session
        a: subscribe 1 x/# => a: subscribed 1 filter
        a: block
        b: flood x/1 1..2, x/1 3..20, x/2 1..3
        a: open
            a: named x/2 1<0 1, 2<1 2, 3<2 3
            a: skipped 1 partition 0 0..20 Dropped
            a: caught-up 1 partition 0 through 20
        b: flood x/1 21..21 => a: named x/1 21<20 21
        b: flood x/2 4..4 => a: named x/2 4<3 4
        count dropped pinned => dropped 1 pinned 0
    " }
}

/// A replay is read at the pace of the socket and lasts until it has been written; only what comes
/// later may be left out.
#[test]
fn a_recovery_is_complete() {
    for policy in [LagPolicy::Conflate, LagPolicy::Drop, LagPolicy::Disconnect] {
        script! { by_rule(policy), "
            only binary
            b: session; flood x/1 1..30
            a: session
            homes stop
            a: subscribe 1 x/# each 0 7:2
            a: block
            homes go
            b: flood x/1 31..40
            a: drain 40
                a: subscribed 1 filter, 0 through 7:2 continued replaying
                a: named x/1 3<2 3 for 1
            a: drain 40 => a: named x/1 4<3 4 for 1, 5<4 5 for 1, 6<5 6 for 1
            b: flood x/1 41..41
            a: drain 300
                a: named x/1 7<6 7 for 1, 8<7 8 for 1, 9<8 9 for 1, 10<9 10 for 1, 11<10 11 for 1
                a: named x/1 12<11 12 for 1, 13<12 13 for 1, 14<13 14 for 1, 15<14 15 for 1
                a: named x/1 16<15 16 for 1, 17<16 17 for 1, 18<17 18 for 1, 19<18 19 for 1
                a: named x/1 20<19 20 for 1, 21<20 21 for 1, 22<21 22 for 1
            b: flood x/1 42..45
            a: open
                a: named x/1 23<22 23 for 1, 24<23 24 for 1, 25<24 25 for 1, 26<25 26 for 1
                a: named x/1 27<26 27 for 1, 28<27 28 for 1, 29<28 29 for 1, 30<29 30 for 1
                a: named x/1 31<30 31 for 1, 32<31 32 for 1, 33<32 33 for 1, 34<33 34 for 1
                a: named x/1 35<34 35 for 1, 36<35 36 for 1, 37<36 37 for 1, 38<37 38 for 1
                a: named x/1 39<38 39 for 1, 40<39 40 for 1, 41<40 41 for 1, 42<41 42 for 1
                a: named x/1 43<42 43 for 1, 44<43 44 for 1, 45<44 45 for 1
                a: caught-up 1 partition 0 through 45
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
            a: subscribe 1 x/# => a: subscribed 1 filter
            letters stop
            b: flood x/1 1..6
            time +12s
            b: flood x/1 7..8
            letters go
                a: named x/1 1<0 1, 2<1 2, 3<2 3, 4<3 4
                a: gap 1 partition 0 4..6 Evicted
                a: caught-up 1 partition 0 through 6
                a: named x/1 7<6 7, 8<7 8
            b: flood x/1 9..9 => a: named x/1 9<8 9
            count conflated dropped disconnected => conflated 0 dropped 0 disconnected 0
        " }
    }
}

/// An evicted message may have been the newest of its topic: a gap.
#[test]
fn conflate_overtaken_by_eviction() {
    script! { |settings| {
        by_rule(LagPolicy::Conflate)(settings);
        settings.logs[0].age_max_ms = 10_000;
    }, "
        b, a: session
        a: subscribe 1 x/# => a: subscribed 1 filter
        a: block
        b: flood x/1 1..9
        time +12s
        b: flood x/2 10..12
        a: open
            a: gap 1 partition 0 0..9 Evicted
            a: skipped 1 partition 0 9..11 Conflated
            a: named x/2 12<11 12 for 1
            a: caught-up 1 partition 0 through 12, 1 partition 0 through 9
        b: flood x/1 13..13 => a: named x/1 13<9 13
    " }
}

/// All filters of a stream lag together; its cursor moves with the skipped messages, and not
/// before.
#[test]
fn streams() {
    script! { by_rule(LagPolicy::Replay), "
        b: session
        c: connect
        d: connect
        e: connect
        c: GET /events?topic=x/%2B&topic=a&policy=conflate
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"x/+\",\"complete\":true}
            c: event crore.start {\"topic\":\"a\",\"position\":\"7:0\",\"complete\":true}
            c: id -,7:0/7:
        d: GET /events?topic=x/%2B&topic=%2B/1&policy=drop
            d: 200 close stream, retry 2000
            d: event crore.start {\"topic\":\"x/+\",\"complete\":true}
            d: event crore.start {\"topic\":\"+/1\",\"complete\":true}
            d: id -,-/7:
        e: GET /events?topic=x/%2B&policy=disconnect
            e: 200 close stream, retry 2000
            e: event crore.start {\"topic\":\"x/+\",\"complete\":true}
            e: id -/7:
        c: block
        d: block
        e: block
        b: flood x/1 1..1, a 2..2, x/1 3..5, x/2 6..12, a 13..13
        c: open
            c: event crore.skipped id -,7:2/7: {\"topic\":\"a\",\"from\":0,\"through\":2,\"reason\":\"conflated\"}
            c: event id -,7:13/7: {\"topic\":\"a\",\"position\":\"7:13\",\"offset\":13,\"time_ms\":1000000,\"data\":\"13\"}
            c: event crore.caught_up {}
            c: event crore.skipped id -,7:13/7:4 {\"partition\":0,\"from\":0,\"through\":4,\"reason\":\"conflated\"}
            c: event id -,7:13/7:5 {\"topic\":\"x/1\",\"position\":\"7:5\",\"offset\":5,\"time_ms\":1000000,\"data\":\"5\"}
            c: event crore.skipped id -,7:13/7:b {\"partition\":0,\"from\":5,\"through\":11,\"reason\":\"conflated\"}
            c: event id -,7:13/7:c {\"topic\":\"x/2\",\"position\":\"7:12\",\"offset\":12,\"time_ms\":1000000,\"data\":\"12\"}
            c: event crore.caught_up id -,7:13/7:d {}
        d: open
            d: event crore.skipped id -,-/7:d {\"partition\":0,\"from\":0,\"through\":13,\"reason\":\"dropped\"}
            d: event crore.caught_up {}
        e: open
            e: event crore.error {\"topic\":\"x/+\",\"code\":\"slow_consumer\",\"detail\":\"the subscription did not keep up; subscribe again from the last position\"}
            e: closed
        b: flood x/1 14..14
            c: event id -,7:13/7:e {\"topic\":\"x/1\",\"position\":\"7:14\",\"offset\":14,\"time_ms\":1000000,\"data\":\"14\"}
            d: event id -,-/7:e {\"topic\":\"x/1\",\"position\":\"7:14\",\"offset\":14,\"time_ms\":1000000,\"data\":\"14\"}
        f: GET /events?topic=x/%2B&policy=disconnect | Last-Event-ID: -/7:
            f: 200 close stream, retry 2000
            f: event crore.start {\"topic\":\"x/+\",\"complete\":true}
            f: event id -/7:1 {\"topic\":\"x/1\",\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"1\"}
            f: event id -/7:3 {\"topic\":\"x/1\",\"position\":\"7:3\",\"offset\":3,\"time_ms\":1000000,\"data\":\"3\"}
            f: event id -/7:4 {\"topic\":\"x/1\",\"position\":\"7:4\",\"offset\":4,\"time_ms\":1000000,\"data\":\"4\"}
            f: event id -/7:5 {\"topic\":\"x/1\",\"position\":\"7:5\",\"offset\":5,\"time_ms\":1000000,\"data\":\"5\"}
            f: event id -/7:6 {\"topic\":\"x/2\",\"position\":\"7:6\",\"offset\":6,\"time_ms\":1000000,\"data\":\"6\"}
            f: event id -/7:7 {\"topic\":\"x/2\",\"position\":\"7:7\",\"offset\":7,\"time_ms\":1000000,\"data\":\"7\"}
            f: event id -/7:8 {\"topic\":\"x/2\",\"position\":\"7:8\",\"offset\":8,\"time_ms\":1000000,\"data\":\"8\"}
            f: event id -/7:9 {\"topic\":\"x/2\",\"position\":\"7:9\",\"offset\":9,\"time_ms\":1000000,\"data\":\"9\"}
            f: event id -/7:a {\"topic\":\"x/2\",\"position\":\"7:10\",\"offset\":10,\"time_ms\":1000000,\"data\":\"10\"}
            f: event id -/7:b {\"topic\":\"x/2\",\"position\":\"7:11\",\"offset\":11,\"time_ms\":1000000,\"data\":\"11\"}
            f: event id -/7:c {\"topic\":\"x/2\",\"position\":\"7:12\",\"offset\":12,\"time_ms\":1000000,\"data\":\"12\"}
            f: event id -/7:e {\"topic\":\"x/1\",\"position\":\"7:14\",\"offset\":14,\"time_ms\":1000000,\"data\":\"14\"}
            f: event crore.caught_up {}
        count conflated dropped disconnected => conflated 3 dropped 1 disconnected 1
    " }
}

/// The most specific rule whose filter covers all of the subscription's.
#[test]
fn the_policy_of_a_filter() {
    let rule = |settings: &mut Settings, filter: &str, policy: LagPolicy| {
        let number = settings.rules.len() as u16;
        settings.rules.push(RuleSettings { when_lagging: policy, ..settings.rules[0].clone() });
        let filter = Filter::parse(filter).unwrap();
        settings.rule_filters.insert(filter, number);
    };
    let mut settings =
        Settings { rule_filters: FilterTrie::default(), ..crate::support::settings() };
    settings.rules[0].when_lagging = LagPolicy::Disconnect;
    rule(&mut settings, "x/#", LagPolicy::Conflate);
    rule(&mut settings, "x/+/now", LagPolicy::Drop);
    rule(&mut settings, "x/y/now", LagPolicy::Replay);
    for (filter, policy) in [
        ("#", LagPolicy::Disconnect),
        ("+/y", LagPolicy::Disconnect),
        ("x/#", LagPolicy::Conflate),
        ("x/+", LagPolicy::Conflate),
        ("x/y/+", LagPolicy::Conflate),
        ("x/+/now", LagPolicy::Drop),
        ("x/+/now/#", LagPolicy::Conflate),
        ("y/#", LagPolicy::Disconnect),
    ] {
        let parsed = Filter::parse(filter).unwrap();
        assert_eq!(settings.policy_of(parsed), policy, "{filter}");
    }
}
