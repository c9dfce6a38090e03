//! Resume tickets that are refused, revoked, too large or beyond a limit, as scripts and
//! transcripts.

use crate::support::{check_with, script};
use broker::settings::{Settings, TicketKey, TicketSettings};

fn with_tickets(settings: &mut Settings) {
    settings.limits.outbox_len_max = 8;
    settings.limits.page_records_max = 5;
    settings.tickets = TicketSettings {
        keys: vec![TicketKey::new([1; 32])],
        lifetime_ms: 60_000,
        not_before_ms: 0,
    };
}
#[test]
fn refused() {
    script! { with_tickets, "
        a: session; subscribe 1 news => a: subscribed 1 through 7:0
        a: ticket 9 => a: ticket 9 until 1060000 ms
        a: reset; session kept flip 20 => a: error connection ticket_refused
        a: subscribe 1 news => a: subscribed 1 through 7:0
        a: reset; session 0 ticket nonsense => a: error connection ticket_refused
        a: reset
        time +59s
        a: session kept
            a: welcome ping 60s resumed 1
            a: subscribed 1 through 7:0 continued
        a: reset
        time +1s
        a: session kept => a: error connection ticket_refused
        count tickets-issued tickets-resumed tickets-refused
            tickets-issued 1 tickets-resumed 1 tickets-refused 3
    " }
}

#[test]
fn revoked() {
    script! { |settings| {
        with_tickets(settings);
        settings.tickets.not_before_ms = 1_030_000;
    }, "
        a: session; subscribe 1 news => a: subscribed 1 through 7:0
        a: ticket 9 => a: ticket 9 until 1060000 ms
        a: reset; session kept => a: error connection ticket_refused
        time +30s
        a: subscribe 1 news => a: subscribed 1 through 7:0
        a: ticket 10 => a: ticket 10 until 1090000 ms
        a: reset; session kept
            a: welcome ping 60s resumed 1
            a: subscribed 1 through 7:0 continued
    " }
}

/// Resumed subscriptions count like requested ones.
#[test]
fn present_limits() {
    script! { |settings| {
        with_tickets(settings);
        settings.limits.subscriptions_per_session_max = 2;
    }, "
        a: session; subscribe 1 a, 2 b => a: subscribed 1 through 7:0, 2 through 7:0
        a: ticket 9 => a: ticket 9 until 1060000 ms
        a: reset; session kept
            a: welcome ping 60s resumed 2
            a: subscribed 1 through 7:0 continued, 2 through 7:0 continued
        a: subscribe 3 c => a: error subscription 3 too_many_subscriptions limit 2
        a: unsubscribe 1 => a: unsubscribed 1 0
        a: subscribe 3 c => a: subscribed 3 through 7:0
    " }
}

#[test]
fn without_subscriptions() {
    script! { with_tickets, "
        a: session; ticket 9 => a: ticket 9 until 1060000 ms
        drain 0
            a: go-away 3001 return after 0 ms
            a: close 3001 going_away, closed
        a: connect ws => a: 503 close [retry-after: 1] shutting_down, closed
    " }
}

/// More than fits into a ticket: the client subscribes by itself.
#[test]
fn too_large() {
    let names: Vec<String> =
        (0..180).map(|number| format!("{number} {number}/{}", "x".repeat(100))).collect();
    let answers: Vec<String> = (0..180)
        .map(|number| format!("            a: subscribed {number} through 7:0\n"))
        .collect();
    let script = format!(
        "
        a: session
        a: subscribe {}
{}        a: ticket 9 => a: error request 9 ticket_too_large limit 16384
        drain 0
            a: go-away 3001 return after 0 ms
            a: close 3001 going_away
            a: closed
        ",
        names.join(", "),
        answers.concat()
    );
    check_with(with_tickets, &script);
}
