//! Operators' queries and commands.

use crate::support::{check, script};
use broker::settings::{PublishSettings, Publishers, RuleSettings};

#[test]
fn connections_page_by_page_and_those_that_are_wanted() {
    script! { "
        only binary
        a: session
        b: connect echo => b: 101
        c: connect
        operator connections
            0 native subscriptions 0
            1 echo subscriptions 0
            (next)
            2 http subscriptions 0
        operator connections echo => 1 echo subscriptions 0
        operator connections lagging
        operator connections in=127.0.0.0/8
        operator connections subject=a
    " }
}

#[test]
fn addresses_are_told_where_they_are_kept() {
    script! { |settings| settings.addresses.are_wanted = true, "
        only binary
        a: session
        operator connections in=127.0.0.0/8 => 0 native subscriptions 0 from 127.0.0.1
        operator connections in=10.0.0.0/8
    " }
}

#[test]
fn subscriptions_of_a_connection() {
    script! { "
        a: session
        operator publish news one => published 1
        a: subscribe 1 news, 2 x/#, 3 other => a: subscribed 1 through 7:1, 2 filter, 3 through 7:1
        operator subscriptions a 0
            3 index 0.1 live 7:1 Replay
            2 x/# live Replay
            more
        operator subscriptions a 2 => 1 index 0.0 live 7:1 Replay
        operator names 0 1 9 => news other nobody
        operator subscribers 0 1 9
            [Subscribers { plain: 1, by_filter: 0 }, Subscribers { plain: 1, by_filter: 0 }, Subscribers { plain: 0, by_filter: 0 }]
    " }
}

#[test]
fn topics_page_by_page_and_one_of_them() {
    script! { "
        operator publish a/1 one => published 1
        operator publish a/2 two retain => published 2
        operator publish b/1 three => published 3
        operator publish a/1 four => published 4
        operator topics
            a/1 head 4 recent 2 in 10000 ms edges []
            a/2 head 2 retained 3 recent 1 in 10000 ms edges []
            (next)
            b/1 head 3 recent 1 in 10000 ms edges []
        operator topics a/
            a/1 head 4 recent 2 in 10000 ms edges []
            a/2 head 2 retained 3 recent 1 in 10000 ms edges []
        operator topics +/1
            a/1 head 4 recent 2 in 10000 ms edges []
            b/1 head 3 recent 1 in 10000 ms edges []
        operator topic a/1
            a/1 head 4 recent 2 in 10000 ms edges [] records 2 oldest Some(1) all true
        operator topic c => nothing
        operator history a/1
            1 one
            4 four
    " }
}

/// The rate of a topic comes from its newest messages: those of ten seconds, or the maximum counted
/// for one topic.
#[test]
fn rates_of_topics() {
    let fast: String = (2..=101)
        .map(|number| {
            format!(
                "
        operator publish fast x => published {number}
        time +10ms"
            )
        })
        .collect();
    let script = format!(
        "
        operator publish slow one => published 1
        time +9s{fast}
        operator topics
            slow head 1 recent 1 in 10000 ms edges []
            fast head 101 recent 64 in 640 ms edges []
        time +1s
        operator topics
            slow head 1 recent 0 in 10000 ms edges []
            fast head 101 recent 64 in 1640 ms edges []
        operator topic fast
            fast head 101 recent 64 in 1640 ms edges [] records 100 oldest Some(2) all true
        "
    );
    check(&script);
}

/// A disconnected client gets the reason, and whether it may return; a client that no longer reads
/// gets nothing.
#[test]
fn operators_end_connections() {
    script! { "
        a, b: session
        c: connect
        operator disconnect a
            disconnected true
            a: close 4500 application_disconnect, closed
        operator disconnect b return
            disconnected true
            b: close 4000 application_reconnect, closed
        operator disconnect c
            disconnected true
            c: reset
        operator connections
    " }
}

#[test]
fn a_connection_that_takes_nothing_is_seen_and_ended() {
    script! { "
        only binary
        large reads
        a: session; subscribe 1 news => a: subscribed 1 through 7:0
        a: block
        operator publish news x => published 1
        operator publish news y => published 2
        operator connections lagging => 0 native subscriptions 1 waiting 2 of 16 bytes blocked
        operator disconnect a
            disconnected true
            a: reset
    " }
}

/// Operators may publish where clients may not, but not where the node alone does, nor more than a
/// rule allows.
#[test]
fn publications_of_operators_keep_the_rules() {
    script! { |settings| {
        let rule = |filter: &str, publishers, may_retain| RuleSettings {
            filter: filter.into(),
            message_bytes_max: 4,
            publishing: Some(Box::new(PublishSettings {
                publishers,
                may_retain,
                ..PublishSettings::default()
            })),
            ..RuleSettings::default()
        };
        for (filter, publishers, may_retain) in
            [("node/#", Publishers::Nobody, true), ("keys/#", Publishers::ApiKeys, false)]
        {
            let number = settings.rules.len() as u16;
            settings.rules.push(rule(filter, publishers, may_retain));
            let filter = broker::topic::Filter::parse(filter).unwrap();
            settings.rule_filters.insert(filter, number);
        }
    }, "
        operator publish node/a hi => refused forbidden
        operator publish $sys/clients/connected hi => refused forbidden
        operator publish keys/a hi => published 1
        operator publish keys/a hi retain => refused forbidden
        operator publish keys/a hello => refused message_too_large
        operator publish a/+ hi => refused malformed_topic
        operator history a/+ => refused malformed_topic
    " }
}

/// Operators' requests to a home without room are refused, and wait nowhere.
#[test]
fn operators_do_not_go_beyond_the_bounds() {
    script! { |settings| settings.limits.requests_inflight_max = 1, "
        homes stop
        operator publish a one
        operator publish a two => refused overloaded
        homes go => published 1
    " }
}
