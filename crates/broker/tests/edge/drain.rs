//! The drain as scripts and transcripts: clients finish their work, and accepted publications are
//! acknowledged.

use crate::support::script;
use broker::settings::{Durability, Settings, TicketKey, TicketSettings};

fn with_tickets(settings: &mut Settings) {
    settings.limits.outbox_len_max = 8;
    settings.tickets = TicketSettings {
        keys: vec![TicketKey::new([1; 32])],
        lifetime_ms: 60_000,
        not_before_ms: 0,
    };
}

/// Requests before and after GO_AWAY are answered; subscriptions and deliveries end.
#[test]
fn requests_are_answered_after_go_away() {
    script! { with_tickets, "
        b, a: session
        a: subscribe 1 news => a: subscribed 1 through 7:0
        drain 10000
            a: go-away 3001 return after 6180 ms with a ticket
            b: go-away 3001 return after 0 ms
        b: publish 1 news late => b: published 1 7:1
        a: subscribe 2 news => a: error subscription 2 shutting_down
        a: unsubscribe 1
        a: ticket 9 => a: error request 9 shutting_down
        a: history 3 news => a: history 3 head 1 [1<0 late]
        a: ping 4 => a: pong 4
        a: close 1000 => a: close 1000, closed
        time +1s => b: close 3001 going_away, closed
        count connections sent-away => connections 0 sent-away 2
    " }
}

/// The patience is over, and a home has not answered yet: the answer comes before the close, what
/// was sent later is not read.
#[test]
fn accepted_publications_are_acknowledged() {
    script! { |_| {}, "
        a, b: session
        drain 10000
            a: go-away 3001 return after 0 ms
            b: go-away 3001 return after 6180 ms
        homes stop
        a: publish 1 news hi
        time +1s
        a: publish 2 news late
        time +1s
        homes go
            a: published 1 7:1
            a: close 3001 going_away, closed
            b: close 3001 going_away, closed
    " }
}

/// Publications that wait for a slow disk are acknowledged, too.
#[test]
fn publications_under_way_to_a_disk_are_acknowledged() {
    script! { |settings| settings.logs[0].durability = Durability::Disk, "
        a: session; publish 1 news hi
        drain 10000 => a: go-away 3001 return after 0 ms
        time +2s
        disks go
            a: published 1 7:1
            a: close 3001 going_away, closed
    " }
}

/// A client that does not read gets no ticket. After the patience it gets GO_AWAY without one.
#[test]
fn a_client_that_does_not_read() {
    script! { with_tickets, "
        b, a: session
        a: subscribe 1 news => a: subscribed 1 through 7:0
        a: block
        b: flood news 1..2
        drain 10000 => b: go-away 3001 return after 0 ms
        time +1s => b: close 3001 going_away, closed
        count connections => connections 1
        a: open
            a: message 1 1<0 1, 2<1 2
            a: go-away 3001 return after 6180 ms
            a: close 3001 going_away, closed
    " }
}

/// Each address comes first for some clients.
#[test]
fn other_nodes() {
    script! { |settings| settings.other_addresses = vec!["ws://a".into(), "ws://b".into()], "
        a, b: session
        drain 0
            a: go-away 3001 return after 0 ms ws://a ws://b
            a: close 3001 going_away
            a: closed
            b: go-away 3001 return after 0 ms ws://b ws://a
            b: close 3001 going_away
            b: closed
    " }
}
