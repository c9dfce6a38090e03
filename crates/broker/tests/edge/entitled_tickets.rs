//! Resume tickets of clients that are entitled, as scripts and transcripts.

use crate::support::script;
use broker::entitlement::Permissions;
use broker::settings::{EntitlementSettings, Settings, TicketKey, TicketSettings};

fn with_tokens(settings: &mut Settings) {
    settings.entitlement = Some(EntitlementSettings {
        anonymous: Permissions::default(),
        notice_before_s: 30,
        ..EntitlementSettings::default()
    });
    settings.tickets = TicketSettings {
        keys: vec![TicketKey::new([1; 32])],
        lifetime_ms: 3_600_000,
        not_before_ms: 0,
    };
}

/// A ticket carries its client's identity: a return needs no token and no decision, also on another
/// node.
#[test]
fn a_return_needs_no_token() {
    script! { with_tokens, "
        a: session token anna.s:u/{sub}/#.p:news.x:500
        a: subscribe 1 u/anna/a, 2 u/anna/+ => a: subscribed 1 through 7:0, 2 filter
        a: ticket 9 => a: ticket 9 until 1500000 ms
        restart
        a: session kept
            a: welcome ping 60s resumed 2
            a: subscribed 1 through 7:0 continued
            a: subscribed 2 filter, 0 through 7:0 continued
        a: subscribe 3 u/ben/a, 4 u/anna/b
            a: error subscription 3 forbidden
            a: subscribed 4 through 7:0
        a: publish 5 news hi => a: published 5 7:1
        count questions entitlements tickets-resumed => questions 0 entitlements 1 tickets-resumed 1
    " }
}

/// A token of another issuer with the same subject is another client.
#[test]
fn a_ticket_is_of_its_issuer() {
    script! { with_tokens, "
        a: session token anna.all.o:one; subscribe 1 news => a: subscribed 1 through 7:0
        a: ticket 9 => a: ticket 9 until 4600000 ms
        a: reset; session token anna.all.o:two kept => a: error connection ticket_refused
        a: reset; session token anna.all.o:one.j:3 kept
            a: welcome ping 60s resumed 1
            a: subscribed 1 through 7:0 continued
    " }
}

/// It opens no door for longer than the token does, and none when that is revoked.
#[test]
fn the_end_of_a_token_ends_its_tickets() {
    script! { with_tokens, "
        a: session token anna.all.j:7.x:50; subscribe 1 news => a: subscribed 1 through 7:0
        a: ticket 9 => a: ticket 9 until 1050000 ms
        a: reset
        time +51s
        a: session kept
            a: error connection unauthorized
            a: close 3502 unauthorized, closed
        b: session token ben.all.j:8; subscribe 1 news => b: subscribed 1 through 7:0
        b: ticket 9 => b: ticket 9 until 4651000 ms
        b: reset
        revoke 8
        b: session kept
            b: error connection token_revoked
            b: close 3507 revoked, closed
        count entitlements => entitlements 0
    " }
}

/// With a token beside it the token counts: what it does not cover is refused, one by one. Somebody
/// else's ticket does not hold.
#[test]
fn a_ticket_beside_a_token() {
    script! { with_tokens, "
        a: session token anna.all
        a: subscribe 1 news, 2 other => a: subscribed 1 through 7:0, 2 through 7:0
        a: ticket 9 => a: ticket 9 until 4600000 ms
        a: reset; session token anna.s:news kept
            a: welcome ping 60s resumed 2
            a: error subscription 2 forbidden
            a: subscribed 1 through 7:0 continued
        a: reset; session token ben.all kept => a: error connection ticket_refused
        a: subscribe 1 news => a: subscribed 1 through 7:0
    " }
}

/// The name of an API key is not a user.
#[test]
fn a_servers_ticket_is_no_users() {
    script! { with_tokens, "
        a: connect ws key prices.all => a: 101 crore.v1
        a: hello 30 => a: welcome ping 30s
        a: subscribe 1 news => a: subscribed 1 through 7:0
        a: ticket 9 => a: ticket 9 until 4600000 ms
        a: reset; session token prices.all kept => a: error connection ticket_refused
        a: reset; connect ws key prices.all => a: 101 crore.v1
        a: hello kept
            a: welcome ping 60s resumed 1
            a: subscribed 1 through 7:0 continued
    " }
}

/// A changed ticket is invalid.
#[test]
fn a_forged_ticket_entitles_to_nothing() {
    script! { with_tokens, "
        a: session token anna.all; subscribe 1 news => a: subscribed 1 through 7:0
        a: ticket 9 => a: ticket 9 until 4600000 ms
        a: reset; session kept flip 40
            a: error connection unauthorized
            a: close 3502 unauthorized, closed
    " }
}

/// The ticket of an anonymous client is a list of topics; each needs the anonymous permissions.
#[test]
fn tickets_of_anonymous_clients() {
    script! { |settings| {
        with_tokens(settings);
        if let Some(entitlement) = &mut settings.entitlement {
            entitlement.anonymous.subscribe = vec!["public/#".into()];
        }
    }, "
        a: session; subscribe 1 public/a => a: subscribed 1 through 7:0
        a: ticket 9 => a: ticket 9 until 4600000 ms
        a: reset; session kept
            a: welcome ping 60s resumed 1
            a: subscribed 1 through 7:0 continued
        a: reset; session token ben.s:other kept
            a: welcome ping 60s resumed 1
            a: error subscription 1 forbidden
    " }
}

/// A drain gives tickets with who the client is in them.
#[test]
fn led_away_and_back() {
    script! { with_tokens, "
        a: session token anna.all; subscribe 1 news => a: subscribed 1 through 7:0
        drain 0
            a: go-away 3001 return after 0 ms with a ticket
            a: close 3001 going_away, closed
        restart
        a: session kept
            a: welcome ping 60s resumed 1
            a: subscribed 1 through 7:0 continued
    " }
}
