//! Settings that are renewed under live connections: what they see of it, and what stays.

use crate::support::check_reload;
use broker::filters::FilterTrie;
use broker::settings::{LagPolicy, PublishSettings, Publishers, RuleSettings, Settings};
use broker::topic::Filter;
use stdx::networks::Network;

/// Adds a rule for a filter, made from the default rule.
fn add_rule(settings: &mut Settings, filter: &str, change: impl Fn(&mut RuleSettings)) {
    let mut rule = RuleSettings { filter: filter.into(), ..settings.rules[0].clone() };
    change(&mut rule);
    let number = settings.rules.len() as u16;
    settings.rule_filters.insert(Filter::parse(filter).unwrap(), number);
    settings.rules.push(rule);
}

/// Rules for publishers: without entitlement no client has a kind.
fn publishing(publishing: PublishSettings) -> impl Fn(&mut RuleSettings) {
    move |rule| rule.publishing = Some(Box::new(publishing.clone()))
}

/// 1: no history of `news`; 2: of nothing; other numbers: as at the start.
fn histories(number: usize, settings: &mut Settings) {
    match number {
        1 => add_rule(settings, "news", |rule| rule.history_messages_max = 0),
        2 => settings.rules[0].history_messages_max = 0,
        _ => {}
    }
}

#[test]
fn a_live_subscription_goes_on_and_histories_are_cut() {
    check_reload(
        histories,
        "
        a: session; subscribe 1 news => a: subscribed 1 through 7:0
        a: publish 1 news one
            a: published 1 7:1
            a: message 1 1<0 one
        reload 1
        a: publish 2 news two
            a: published 2 7:2
            a: message 1 2<1 two
        a: history 3 news => a: history 3 head 2 []
        d: session; subscribe 1 news last 5 => d: subscribed 1 through 7:2
        a: publish 4 news three
            a: published 4 7:3
            a: message 1 3<2 three
            d: message 1 3<2 three
        reload 0
        a: history 5 news => a: history 5 head 3 [1<0 one, 2<1 two, 3<2 three]
        ",
    );
}

#[test]
fn a_replay_that_has_begun_goes_on() {
    check_reload(
        histories,
        "
        b: session; flood news 1..3
        a: session; subscribe 1 news since 7:0 credit 1
            a: subscribed 1 through 7:0 continued replaying
            a: message 1 1<0 1
        reload 2
        a: credit 1 5
            a: message 1 2<1 2, 3<2 3
            a: caught-up 1 through 3
        ",
    );
}

/// An edge that has heard of a rule before its home: the home goes by its own rules for that one.
#[test]
fn edges_hear_first() {
    check_reload(
        histories,
        "
        a: session; publish 1 news one => a: published 1 7:1
        reload 1 edges
        a: publish 2 news two => a: published 2 7:2
        a: history 3 news => a: history 3 head 2 [1<0 one, 2<1 two]
        reload 1 homes
        a: history 4 news => a: history 4 head 2 []
        reload 0 homes
        a: history 5 news => a: history 5 head 2 []
        reload 0 edges
        a: history 6 news => a: history 6 head 2 [1<0 one, 2<1 two]
        ",
    );
}

#[test]
fn publishers_by_rule() {
    let reload = |number: usize, settings: &mut Settings| {
        if number == 1 {
            let nobody =
                PublishSettings { publishers: Publishers::Nobody, ..PublishSettings::default() };
            let not_retained = PublishSettings { may_retain: false, ..PublishSettings::default() };
            add_rule(settings, "closed/#", publishing(nobody));
            add_rule(settings, "closed/open", |_| {});
            add_rule(settings, "kept", publishing(not_retained));
        }
    };
    check_reload(
        reload,
        "
        a: session; subscribe 1 closed/a => a: subscribed 1 through 7:0
        a: publish 1 closed/a one
            a: published 1 7:1
            a: message 1 1<0 one
        reload 1
        a: publish 2 closed/a two => a: error request 2 forbidden
        a: publish 3 closed/open two => a: published 3 7:2
        a: publish 4 kept two => a: published 4 7:3
        a: publish 5 kept two retain => a: error request 5 forbidden
        c: POST /topics/closed/a > three => c: 403 forbidden
        c: POST /topics/kept?retain=true > three => c: 403 forbidden
        c: GET /topics/closed/a
            c: 200 {\"topic\":\"closed/a\",\"epoch\":\"7\",\"head\":3,\"messages\":[{\"position\":\"7:1\",\"offset\":1,\"time_ms\":1000000,\"data\":\"one\"}],\"more\":false,\"cursor\":\"7:3\"}
        reload 0
        a: publish 6 closed/a four
            a: published 6 7:4
            a: message 1 4<1 four
        ",
    );
}

#[test]
fn a_topics_rate() {
    let reload = |number: usize, settings: &mut Settings| {
        let rate_max = [0, 2, 4][number];
        let rule = publishing(PublishSettings { rate_max, ..PublishSettings::default() });
        add_rule(settings, "slow/+", rule);
    };
    check_reload(
        reload,
        "
        a: session
        reload 1
        a: publish 1 slow/a one => a: published 1 7:1
        a: publish 2 slow/a two => a: published 2 7:2
        a: publish 3 slow/a three => a: error request 3 rate_limited
        a: publish 4 slow/b one => a: published 4 7:3
        a: publish 5 fast one => a: published 5 7:4
        c: POST /topics/slow/a > four => c: 429 [retry-after: 1] rate_limited
        time +500ms
        a: publish 6 slow/a five => a: published 6 7:5
        a: publish 7 slow/a six => a: error request 7 rate_limited
        reload 2
        time +250ms
        a: publish 8 slow/a seven => a: published 8 7:6
        reload 0
        a: publish 9 slow/a eight => a: published 9 7:7
        a: publish 10 slow/a nine => a: published 10 7:8
        count rate-limited => rate-limited 3
        ",
    );
}

/// A subscription keeps its lag policy; later ones have the new rule's policy.
#[test]
fn policies_of_subscriptions_that_are_there() {
    let reload = |number: usize, settings: &mut Settings| {
        settings.limits.outbox_len_max = 8;
        if number == 1 {
            settings.rules[0].when_lagging = LagPolicy::Drop;
        }
    };
    check_reload(
        reload,
        "
        reload 0
        b, a: session
        a: subscribe 1 news => a: subscribed 1 through 7:0
        reload 1
        a: subscribe 2 other => a: subscribed 2 through 7:0
        a: block
        b: flood news 1..20, other 1..20
        a: open
            a: skipped 2 0..40 Dropped
            a: caught-up 2 through 40
            a: message 1 1..20: 20 in order
            a: caught-up 1 through 40
        ",
    );
}

#[test]
fn limits_hold_from_the_next_frame_on() {
    let reload = |number: usize, settings: &mut Settings| {
        if number == 1 {
            settings.limits.message_bytes_max = 5;
            settings.limits.subscriptions_per_session_max = 2;
            settings.limits.topics_max = 1;
            settings.rule_filters = FilterTrie::default();
        }
    };
    check_reload(
        reload,
        "
        a: session
        a: subscribe 1 x, 2 y, 3 z => a: subscribed 1 through 7:0, 2 through 7:0, 3 through 7:0
        reload 1
        a: subscribe 4 x => a: error subscription 4 too_many_subscriptions limit 2
        a: publish 1 x abcdef => a: error request 1 message_too_large limit 5
        a: publish 2 x abc
            a: published 2 7:1
            a: message 1 1<0 abc
        a: publish 3 new abc => a: error request 3 topics_full
        a: publish 4 z abc
            a: published 4 7:2
            a: message 3 2<0 abc
        c: POST /topics/x > abcdef => c: 413 close message_too_large, closed
        reload 0
        a: subscribe 4 v => a: subscribed 4 through 7:2
        ",
    );
}

/// Credit of a home's stream grows and shrinks under it.
#[test]
fn credit_follows_its_bound() {
    let reload = |number: usize, settings: &mut Settings| {
        settings.limits.stream_credit_bytes = [8 << 20, 1_000, 100_000][number];
    };
    check_reload(
        reload,
        "
        b, a: session
        a: subscribe 1 news => a: subscribed 1 through 7:0
        b: flood news 1..2 size 700 => a: message 1 1<0 702 bytes, 2<1 702 bytes
        reload 1
        b: flood news 3..4 size 700 => a: message 1 3<2 702 bytes, 4<3 702 bytes
        reload 2
        b: flood news 5..6 size 700 => a: message 1 5<4 702 bytes, 6<5 702 bytes
        reload 1
        b: flood news 7..8 size 700 => a: message 1 7<6 702 bytes, 8<7 702 bytes
        reload 0
        b: flood news 9..9 => a: message 1 9<8 9
        ",
    );
}

/// 1: who connects from loopback is a trusted proxy, and `news` takes publications of one client
/// only.
fn proxies(number: usize, settings: &mut Settings) {
    if number == 1 {
        let of = |text| Network::parse(text).into_iter().collect();
        settings.addresses.trusted_proxies = of("127.0.0.0/8");
        settings.addresses.are_wanted = true;
        let from = PublishSettings { from: of("192.0.2.1"), ..PublishSettings::default() };
        add_rule(settings, "news", publishing(from));
    }
}

/// Connections from before the addresses were needed have none; from then on all have one, after
/// any reload.
#[test]
fn addresses_are_known_of_who_comes() {
    check_reload(
        proxies,
        "
        a: POST /topics/news > one => a: 200 {\"epoch\":\"7\",\"offset\":1,\"duplicate\":false}
        reload 1
        a: POST /topics/news | X-Forwarded-For: 192.0.2.1 > two => a: 403 forbidden
        b: POST /topics/news | X-Forwarded-For: 192.0.2.1 > three
            b: 200 {\"epoch\":\"7\",\"offset\":2,\"duplicate\":false}
        b: POST /topics/news > four => b: 403 forbidden
        reload 2
        b: POST /topics/news | X-Forwarded-For: 192.0.2.2 > five
            b: 200 {\"epoch\":\"7\",\"offset\":3,\"duplicate\":false}
        b: reset
        c: connect
        reload 1
        c: POST /topics/news | X-Forwarded-For: 192.0.2.2 > six => c: 403 forbidden
        c: POST /topics/news | X-Forwarded-For: 192.0.2.1 > seven
            c: 200 {\"epoch\":\"7\",\"offset\":4,\"duplicate\":false}
        ",
    );
}

/// The access log knew the address before the reload to proxies, and keeps reporting it.
#[test]
fn a_reload_to_proxies_keeps_addresses_in_the_log() {
    let with_access = |number: usize, settings: &mut Settings| {
        settings.journal.access = true;
        settings.journal.access_rate_max = 100;
        proxies(number, settings);
    };
    check_reload(
        with_access,
        "
        reload 0
        a: connect
        reload 1
        b: GET /nowhere | X-Forwarded-For: 192.0.2.1 => b: 404 not_found
        a: GET /nowhere => a: 404 not_found
        journal
            requested http 192.0.2.1:0 nobody GET /nowhere 404
            requested http 127.0.0.1:0 nobody GET /nowhere 404
        ",
    );
}
