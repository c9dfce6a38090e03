//! Resume tickets as scripts and transcripts: asked for and given with GO_AWAY, brought back.

use crate::support::script;
use broker::settings::{OlderEpoch, Settings, TicketKey, TicketSettings};
use std::cell::Cell;

fn with_tickets(settings: &mut Settings) {
    settings.limits.outbox_len_max = 8;
    settings.limits.page_records_max = 5;
    settings.tickets = TicketSettings {
        keys: vec![TicketKey::new([1; 32])],
        lifetime_ms: 60_000,
        not_before_ms: 0,
    };
}

/// One frame brings all back, each topic from where it was.
#[test]
fn there_and_back() {
    script! { with_tickets, "
        b, a: session
        a: subscribe 1 news, 2 other fail-on-gap, 3 quiet policy drop
            a: subscribed 1 through 7:0, 2 through 7:0, 3 through 7:0
        b: flood news 1..2 => a: message 1 1<0 1, 2<1 2
        b: flood other 3..3 => a: message 2 3<0 3
        a: ticket 9 => a: ticket 9 until 1060000 ms
        b: flood news 4..5 => a: message 1 4<2 4, 5<4 5
        a: reset
        b: flood other 6..6
        a: session kept
            a: welcome ping 60s resumed 3
            a: subscribed 1 through 7:2 continued replaying, 2 through 7:3 continued replaying
            a: subscribed 3 through 7:0 continued
            a: message 1 4<2 4, 5<4 5
            a: caught-up 1 through 6
            a: message 2 6<3 6
            a: caught-up 2 through 6
        b: flood quiet 7..7 => a: message 3 7<0 7
        count tickets-issued tickets-resumed tickets-refused
            tickets-issued 1 tickets-resumed 1 tickets-refused 0
    " }
}

/// A newer cursor of the client wins over the ticket's.
#[test]
fn newer_cursors_win() {
    script! { with_tickets, "
        b, a: session
        a: subscribe 1 news, 2 other, 3 more
            a: subscribed 1 through 7:0, 2 through 7:0, 3 through 7:0
        b: flood news 1..3 => a: message 1 1<0 1, 2<1 2, 3<2 3
        b: flood other 4..6 => a: message 2 4<0 4, 5<4 5, 6<5 6
        b: flood more 7..8 => a: message 3 7<0 7, 8<7 8
        a: ticket 9 => a: ticket 9 until 1060000 ms
        b: flood news 9..10 => a: message 1 9<3 9, 10<9 10
        a: reset; session kept cursor 1 7:9 cursor 2 7:5 cursor 3 6:2 cursor 77 7:1
            a: welcome ping 60s resumed 3
            a: subscribed 1 through 7:9 continued replaying, 2 through 7:6 continued
            a: subscribed 3 through 7:0 replaying
            a: gap 3 0..0 UnknownEpoch
            a: message 1 10<9 10
            a: caught-up 1 through 10
            a: message 3 7<0 7, 8<7 8
            a: caught-up 3 through 10
    " }
}

/// The end of a log is lost, and with it what a ticket says: the client's own cursor still says
/// something.
#[test]
fn a_ticket_of_a_lost_end() {
    let starts = Cell::new(0);
    let lose_end = |settings: &mut Settings| {
        with_tickets(settings);
        // Each world has a second node.
        if starts.replace(starts.get() + 1) % 2 == 1 {
            settings.logs[0].epoch = 8;
            settings.logs[0].older_epochs = vec![OlderEpoch { epoch: 7, valid_below: vec![3] }];
        }
    };
    // The log is in memory, so what holds is beyond its head, and what does not is of an unknown
    // epoch.
    script! { lose_end, "
        b, a: session
        a: subscribe 1 news, 2 other => a: subscribed 1 through 7:0, 2 through 7:0
        b: flood news 1..4 => a: message 1 1<0 1, 2<1 2, 3<2 3, 4<3 4
        b: flood other 5..5 => a: message 2 5<0 5
        a: ticket 9 => a: ticket 9 until 1060000 ms
        a: reset
        restart
        a: session kept cursor 1 7:2 cursor 2 7:3
            a: welcome ping 60s resumed 2
            a: subscribed 1 through 8:0
            a: gap 1 0..0 BeyondHead
            a: subscribed 2 through 8:0
            a: gap 2 0..0 UnknownEpoch
    " }
}

/// Asked for before its subscriptions were granted, and after more was asked for.
#[test]
fn a_ticket_waits_for_grants() {
    script! { |settings| {
        with_tickets(settings);
        settings.edges_count = 2;
        settings.homes_count = 2;
        settings.logs[0].partitions_count = 4;
    }, "
        a: session
        homes stop
        a: subscribe 1 x/1, 2 x/2, 3 x/3, 4 x/4
        a: ticket 9
        a: ticket 10 => a: error request 10 too_many_requests_in_flight
        homes go
            a: subscribed 1 through 7:0, 2 through 7:0, 3 through 7:0, 4 through 7:0
            a: ticket 9 until 1060000 ms
        a: unsubscribe 2 => a: unsubscribed 2 0
        a: ticket 11 => a: ticket 11 until 1060000 ms
        a: reset; session kept
            a: welcome ping 60s resumed 3
            a: subscribed 1 through 7:0 continued, 3 through 7:0 continued, 4 through 7:0 continued
    " }
}

/// A ticket includes grants that came while the homes were asked: the client could not know
/// otherwise.
#[test]
fn granted_on_the_way() {
    script! { |settings| {
        with_tickets(settings);
        settings.edges_count = 2;
        settings.homes_count = 2;
        settings.logs[0].partitions_count = 4;
    }, "
        a: session; subscribe 1 x/2 => a: subscribed 1 through 7:0
        homes stop 1
        a: ticket 9
        a: subscribe 2 x/1 => a: subscribed 2 through 7:0
        homes go => a: ticket 9 until 1060000 ms
        a: reset; session kept
            a: welcome ping 60s resumed 2
            a: subscribed 2 through 7:0 continued, 1 through 7:0 continued
    " }
}

/// While homes are asked, a topic's index may go to another topic: the name of the first does not
/// count for the second.
#[test]
fn an_index_changes_hands_on_the_way() {
    script! { |settings| {
        with_tickets(settings);
        settings.edges_count = 2;
        settings.homes_count = 2;
        settings.logs[0].partitions_count = 4;
    }, "
        a: session; subscribe 1 x/2 => a: subscribed 1 through 7:0
        a: subscribe 2 x/1 => a: subscribed 2 through 7:0
        homes stop 1
        a: ticket 9
        a: unsubscribe 2 => a: unsubscribed 2 0
        a: subscribe 3 x/6 => a: subscribed 3 through 7:0
        homes go => a: ticket 9 until 1060000 ms
        a: reset
        b: session
        a: session kept
            a: welcome ping 60s resumed 2
            a: subscribed 3 through 7:0 continued, 1 through 7:0 continued
        b: publish 0 x/1 one; publish 0 x/6 four => a: message 3 1<0 four
    " }
}

/// A ticket never says more than has been written: frames that were given up are read again with
/// it.
#[test]
fn a_slow_client() {
    script! { with_tickets, "
        only binary
        b, a: session
        a: subscribe 1 news, 2 other => a: subscribed 1 through 7:0, 2 through 7:0
        a: block
        b: flood other 1..1, news 2..30
        a: ticket 9
        b: flood news 31..31
        a: drain 20
            a: message 2 1<0 1
            a: caught-up 2 through 31
        a: drain 200
            a: message 1 2<0 2, 3<2 3, 4<3 4, 5<4 5, 6<5 6
            a: ticket 9 until 1060000 ms
            a: message 1 7..16: 10 in order
        b: flood other 32..32
        a: open
            a: message 1 17<16 17, 18<17 18, 19<18 19, 20<19 20, 21<20 21
            a: message 2 32<1 32
            a: message 1 22..31: 10 in order
            a: caught-up 1 through 32
        a: reset; session kept
            a: welcome ping 60s resumed 2
            a: subscribed 1 through 7:6 continued replaying, 2 through 7:31 continued replaying
            a: message 1 7<6 7, 8<7 8, 9<8 9, 10<9 10, 11<10 11
            a: message 2 32<1 32
            a: caught-up 2 through 32
            a: message 1 12..31: 20 in order
            a: caught-up 1 through 32
    " }
}

/// The node goes: everybody gets a ticket, also who is slow, and another node with the same key
/// takes it.
#[test]
fn away_and_back() {
    script! { with_tickets, "
        b, a, c, d: session
        a: subscribe 1 news => a: subscribed 1 through 7:0
        c: subscribe 1 news => c: subscribed 1 through 7:0
        b: flood news 1..2
            a: message 1 1<0 1, 2<1 2
            c: message 1 1<0 1, 2<1 2
        c: block
        b: flood news 3..3 => a: message 1 3<2 3
        b: flood news 4..20 => a: message 1 4..20: 17 in order
        drain 0
            a: go-away 3001 return after 0 ms with a ticket
            a: close 3001 going_away, closed
            b: go-away 3001 return after 0 ms
            b: close 3001 going_away, closed
            d: go-away 3001 return after 0 ms
            d: close 3001 going_away, closed
        c: open
            c: message 1 3<2 3, 4<3 4, 5<4 5, 6<5 6, 7<6 7
            c: go-away 3001 return after 0 ms with a ticket
            c: close 3001 going_away, closed
        restart
        a: session kept
            a: welcome ping 60s resumed 1
            a: subscribed 1 through 7:0
            a: gap 1 0..0 BeyondHead
        a: reset
        restart 2 1
        a: session kept
            a: welcome ping 60s resumed 1
            a: subscribed 1 through 7:0
            a: gap 1 0..0 BeyondHead
        a: ticket 1 => a: ticket 1 until 1060000 ms
        a: reset
        restart 2
        a: session kept
            a: welcome ping 60s resumed 1
            a: subscribed 1 through 7:0 continued
        a: reset
        restart 1
        a: session kept => a: error connection ticket_refused
        a: subscribe 1 news => a: subscribed 1 through 7:0
    " }
}

/// A filter comes back with a position for each partition, its own where it was behind.
#[test]
fn filters() {
    script! { |settings| {
        with_tickets(settings);
        settings.edges_count = 2;
        settings.homes_count = 2;
        settings.logs[0].partitions_count = 2;
    }, "
        b, a: session
        a: subscribe 1 x/#, 2 y/+ => a: subscribed 1 filter, 2 filter
        b: publish 0 x/1 one => a: named x/1 1<0 one
        b: publish 0 x/2 two => a: named x/2 1<0 two
        b: publish 0 x/3 three => a: named x/3 2<0 three
        a: ticket 9 => a: ticket 9 until 1060000 ms
        b: publish 0 x/4 four => a: named x/4 3<0 four
        b: publish 0 x/5 five => a: named x/5 4<0 five
        a: reset
        b: publish 0 y/1 six
        a: session kept
            a: welcome ping 60s resumed 2
            a: subscribed 1 filter, 0 through 7:1 continued replaying, 1 through 7:2 continued replaying
            a: subscribed 2 filter, 0 through 7:1 continued replaying, 1 through 7:2 continued replaying
            a: caught-up 1 partition 0 through 2
            a: named y/1 2<0 six for 2
            a: caught-up 2 partition 0 through 2
            a: named x/4 3<0 four for 1
            a: named x/5 4<0 five for 1
            a: caught-up 1 partition 1 through 4, 2 partition 1 through 4
        a: reset; session kept cursor 1 in 0 7:3
            a: welcome ping 60s resumed 2
            a: subscribed 1 filter, 0 through 7:0 replaying, 1 through 7:2 continued replaying
            a: gap 1 partition 0 0..0 BeyondHead
            a: subscribed 2 filter, 0 through 7:1 continued replaying, 1 through 7:2 continued replaying
            a: named x/1 1<0 one for 1
            a: caught-up 1 partition 0 through 2
            a: named y/1 2<0 six for 2
            a: caught-up 2 partition 0 through 2
            a: named x/4 3<0 four for 1
            a: named x/5 4<0 five for 1
            a: caught-up 1 partition 1 through 4, 2 partition 1 through 4
    " }
}

/// A filter that is to be refused rather than to begin behind a gap is so in its ticket too.
#[test]
fn a_filter_that_fails_on_a_gap() {
    script! { with_tickets, "
        b, a: session
        a: subscribe 1 x/# fail-on-gap, 2 y/+ => a: subscribed 1 filter, 2 filter
        b: publish 0 x/1 one => a: named x/1 1<0 one
        a: ticket 9 => a: ticket 9 until 1060000 ms
        a: reset
        b: publish 0 x/1 two
        a: session kept
            a: welcome ping 60s resumed 2
            a: subscribed 1 filter, 0 through 7:1 continued replaying
            a: subscribed 2 filter, 0 through 7:1 continued replaying
            a: named x/1 2<1 two for 1
            a: caught-up 1 partition 0 through 2, 2 partition 0 through 2
        restart
        a: session kept
            a: welcome ping 60s resumed 2
            a: error subscription 1 position_unavailable
            a: subscribed 2 filter
            a: gap 2 partition 0 0..0 BeyondHead
    " }
}

/// In the middle of a filter's replay.
#[test]
fn a_filter_that_is_behind() {
    script! { with_tickets, "
        b: session; flood x/1 1..30
        a: session
        homes stop
        a: subscribe 1 x/# each 0 7:2 credit 4
        a: ticket 9
        homes go
            a: subscribed 1 filter, 0 through 7:2 continued replaying
            a: named x/1 3<2 3 for 1, 4<3 4 for 1, 5<4 5 for 1, 6<5 6 for 1
            a: ticket 9 until 1060000 ms
        a: reset; session kept
            a: welcome ping 60s resumed 1
            a: subscribed 1 filter, 0 through 7:6 continued replaying
            a: named x/1 7<6 7 for 1, 8<7 8 for 1, 9<8 9 for 1, 10<9 10 for 1, 11<10 11 for 1
            a: named x/1 12<11 12 for 1, 13<12 13 for 1, 14<13 14 for 1, 15<14 15 for 1
            a: named x/1 16<15 16 for 1, 17<16 17 for 1, 18<17 18 for 1, 19<18 19 for 1
            a: named x/1 20<19 20 for 1, 21<20 21 for 1, 22<21 22 for 1, 23<22 23 for 1
            a: named x/1 24<23 24 for 1, 25<24 25 for 1, 26<25 26 for 1, 27<26 27 for 1
            a: named x/1 28<27 28 for 1, 29<28 29 for 1, 30<29 30 for 1
            a: caught-up 1 partition 0 through 30
    " }
}
