//! `$sys/...`: who may do what there, and what the node publishes.

use crate::support::script;
use broker::entitlement::Permissions;
use broker::settings::{EntitlementSettings, Settings};

fn with_events(settings: &mut Settings) {
    settings.sys.clients = true;
    settings.sys.topics = true;
    settings.sys.events_rate_max = 2;
    settings.sys.is_open = true;
}

/// Whatever is published there: what clients would have put there before could be mistaken for it
/// later.
#[test]
fn sys_topics_are_read_only_and_hidden_on_an_open_node() {
    script! { "
        a: session; publish 1 $sys/a hi => a: error request 1 forbidden
        a: publish 2 $sys hi => a: error request 2 forbidden
        a: publish 3 $system hi => a: published 3 7:1
        a: subscribe 4 $sys/# => a: error subscription 4 forbidden
        a: subscribe 5 $sys/clients/connected => a: error subscription 5 forbidden
        a: history 6 $sys/a => a: error request 6 forbidden
        c: GET /topics/$sys/a => c: 403 forbidden
        c: GET /events?topic=$sys/%23 => c: 403 forbidden
        c: POST /topics/$sys/a > hi => c: 403 close forbidden, closed
    " }
}

#[test]
fn a_token_must_name_it() {
    script! { |settings| {
        with_events(settings);
        settings.entitlement = Some(EntitlementSettings {
            users_are_counted: false,
            takes_passwords: false,
            anonymous: Permissions::default(),
            notice_before_s: 60,
        });
    }, "
        a: session token anna.s:#.p:#.p:$sys/#
        a: subscribe 1 $sys/clients/connected => a: error subscription 1 forbidden
        a: subscribe 2 $sys/# => a: error subscription 2 forbidden
        a: publish 3 $sys/a hi => a: error request 3 forbidden
        b: session token ben.s:$sys/clients/#
        b: subscribe 1 $sys/topics/occupied => b: error subscription 1 forbidden
    " }
}

/// The life of clients and topics, on ordinary topics: with order, positions and history. What
/// happens to these topics themselves is not told.
#[test]
fn clients_and_topics_live_and_go() {
    script! { with_events, "
        only binary
        s: session
        s: subscribe 1 $sys/clients/connected since 7:0, 2 $sys/clients/disconnected, 3 $sys/topics/occupied, 4 $sys/topics/vacated
            s: subscribed 1 through 7:0 continued replaying, 2 through 7:1, 3 through 7:1
            s: subscribed 4 through 7:1
            s: message 1 1<0 53 bytes type application/json
            s: caught-up 1 through 1
        a: connect native
            a: 101 crore.v1
            a: welcome ping 60s
            s: message 1 2<1 53 bytes type application/json
        a: subscribe 1 news
            a: subscribed 1 through 7:2
            s: message 3 3<0 30 bytes type application/json
        b: session; subscribe 1 news, 2 x/# => b: subscribed 1 through 7:3, 2 filter
        a: unsubscribe 1 => a: unsubscribed 1 0
        time +3s
            b: caught-up 2 partition 0 through 4
            s: message 1 4<2 28 bytes type application/json
        b: close 1000
            b: close 1000, closed
            s: message 4 5<0 30 bytes type application/json
            s: message 2 6<0 84 bytes type application/json
        a: reset => s: message 2 7<6 84 bytes type application/json
        s: history 9 $sys/clients/disconnected => s: history 9 head 7 [6<0 84 bytes, 7<6 84 bytes]
    " }
}

/// Messages beyond the rate become one message with a count.
#[test]
fn a_storm_is_summarised() {
    script! { with_events, "
        only binary
        s: session; subscribe 1 $sys/clients/connected, 2 $sys/topics/occupied
            s: subscribed 1 through 7:1, 2 through 7:1
        time +1s
        a: connect native
            a: 101 crore.v1
            a: welcome ping 60s
            s: message 1 2<1 53 bytes type application/json
        b: connect native
            b: 101 crore.v1
            b: welcome ping 60s
            s: message 1 3<2 53 bytes type application/json
        c, d: session
        a: subscribe 1 t1, 2 t2, 3 t3, 4 t4, 5 t5
            a: subscribed 1 through 7:3, 2 through 7:3, 3 through 7:3, 4 through 7:3, 5 through 7:3
            s: message 2 4<0 28 bytes type application/json, 5<4 28 bytes type application/json
        time +1s
            s: message 1 6<3 28 bytes type application/json
            s: message 2 7<5 28 bytes type application/json
        e: connect native
            e: 101 crore.v1
            e: welcome ping 60s
            s: message 1 8<6 53 bytes type application/json
    " }
}

/// Homes without room for requests: messages about clients do not wait for them.
#[test]
fn publications_without_room_are_dropped_and_counted() {
    script! { |settings| {
        with_events(settings);
        settings.limits.requests_inflight_max = 1;
    }, "
        a: session; subscribe 1 one => a: subscribed 1 through 7:1
        a: reset
        count own-publications-lost => own-publications-lost 2
    " }
}

/// A client of MQTT that is lost before CONNACK has had no session.
#[test]
fn a_client_is_lost_before_its_session() {
    let setup = |settings: &mut Settings| {
        with_events(settings);
        crate::support::mqtt::on(settings);
    };
    script! { setup, "
        only binary
        s: session; subscribe 1 $sys/clients/disconnected => s: subscribed 1 through 7:1
        homes stop
        a: mqtt connect anna
        a: reset
        homes go
        a: mqtt connect anna => a: connack 0
        a: reset => s: message 1 3<0 86 bytes type application/json
    " }
}
