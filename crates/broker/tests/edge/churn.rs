//! Subscriptions that come and go in masses, as scripts: frames of many items, their rate, shares
//! of users, and counters that begin anew.

use crate::support::script;
use broker::entitlement::Permissions;
use broker::settings::{EntitlementSettings, Settings};

/// Items of a frame wait for a home that has no room, and nothing that comes behind the frame is
/// dealt with before.
#[test]
fn a_frame_of_many_items_waits_for_room() {
    script! { |settings| settings.limits.requests_inflight_max = 2, "
        a: session
        homes stop
        a: subscribe 1 t/1, 2 t/2, 3 t/3, 4 t/4, 5 t/5
        a: unsubscribe 1 2 3 4 5
        count subscriptions => subscriptions 2
        homes go
            a: subscribed 1 through 7:0, 2 through 7:0, 3 through 7:0, 4 through 7:0, 5 through 7:0
            a: unsubscribed 1 0, 2 0, 3 0, 4 0, 5 0
        count subscriptions topics => subscriptions 0 topics 0
    " }
}

/// The rest of a frame goes with its connection.
#[test]
fn the_rest_of_a_frame_goes_with_its_connection() {
    script! { |settings| settings.limits.requests_inflight_max = 2, "
        a: session
        homes stop
        a: subscribe 1 t/1, 2 t/2, 3 t/3, 4 t/4, 5 t/5
        a: reset
        homes go
        count subscriptions connections topics => subscriptions 0 connections 0 topics 0
    " }
}

/// Once too much was refused, the rest of the frame is not looked at: its subscriptions would
/// outlive their session.
#[test]
fn no_item_is_dealt_with_on_a_connection_that_closes() {
    script! { |settings| settings.limits.errors_max = 1, "
        a: session; subscribe 1 t/#/x, 2 t/#/x, 3 t/3, 4 t/4
            a: error subscription 1 malformed_filter, subscription 2 malformed_filter
            a: close 3509 error_flood, closed
        count topics subscriptions => topics 0 subscriptions 0
    " }
}

#[test]
fn subscriptions_have_a_rate() {
    script! { |settings| {
        settings.limits.subscribe_rate_max = 1;
        settings.limits.subscriptions_per_session_max = 2;
    }, "
        a: session; subscribe 1 t/1, 2 t/# => a: subscribed 1 through 7:0, 2 filter
        a: unsubscribe 1 2 => a: unsubscribed 1 0, 2 0
        a: subscribe 3 t/1, 4 t/2
            a: error subscription 4 rate_limited limit 1
            a: subscribed 3 through 7:0
        time +1s
        a: subscribe 4 t/2 => a: subscribed 4 through 7:0
        count subscriptions-too-fast => subscriptions-too-fast 1
    " }
}

fn with_tokens(settings: &mut Settings) {
    settings.entitlement = Some(EntitlementSettings {
        anonymous: Permissions { subscribe: vec!["#".into()], ..Permissions::default() },
        ..EntitlementSettings::default()
    });
    settings.limits.filters_per_user_max = 2;
}

/// A filter is whose subscription has brought it, until it goes; who comes to one that is there
/// needs no room.
#[test]
fn one_user_cannot_have_all_filters() {
    script! { with_tokens, "
        a: session token anna.s:#
        b: session token ben.s:#
        c: session
        a: subscribe 1 a/#, 2 b/#, 3 c/#
            a: subscribed 1 filter, 2 filter
            a: error subscription 3 too_many_filters limit 2
        b: subscribe 1 a/#, 2 c/# => b: subscribed 1 filter, 2 filter
        c: subscribe 1 d/#, 2 e/#, 3 a/#, 4 f/#
            c: subscribed 1 filter, 2 filter, 3 filter
            c: error subscription 4 too_many_filters limit 2
        a: unsubscribe 2 => a: unsubscribed 2 0
        a: subscribe 4 c/#, 5 d/#, 6 g/#, 7 h/#
            a: subscribed 4 filter, 5 filter, 6 filter
            a: error subscription 7 too_many_filters limit 2
        count filters-of-user => filters-of-user 3
    " }
}

/// The mark that a connection has a message is that of a message of long ago: without its ageing
/// the newest would be left out.
#[test]
fn marks_of_long_ago_count_for_nothing() {
    script! { "
        b, a: session
        a: subscribe 1 x/#, 2 x/+ => a: subscribed 1 filter, 2 filter
        counters 1000001
        b: publish 0 x/1 first => a: named x/1 1<0 first
        counters 2148483660
        time +40s => a: caught-up 1 partition 0 through 1, 2 partition 0 through 1
        counters 1000001
        b: publish 0 x/1 second => a: named x/1 2<1 second
    " }
}

/// Numbers of subscriptions, messages, places and questions begin anew while sessions are under
/// way.
#[test]
fn counters_begin_anew() {
    script! { "
        counters 4294967293
        b, a: session
        a: subscribe 1 x/#, 2 x/1, 3 y => a: subscribed 1 filter, 2 through 7:0, 3 through 7:0
        a: block
        b: flood x/1 1..3
        b: publish 0 y one
        a: open
            a: message 2 1<0 1
            a: named x/1 1<0 1
            a: message 2 2<1 2
            a: named x/1 2<1 2
            a: message 2 3<2 3
            a: named x/1 3<2 3
            a: message 3 4<0 one
        a: unsubscribe 2 => a: unsubscribed 2 0
        a: subscribe 4 x/1 since 7:0
            a: subscribed 4 through 7:0 continued replaying
            a: message 4 1<0 1, 2<1 2, 3<2 3
            a: caught-up 4 through 4
    " }
}
