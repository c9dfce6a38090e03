//! Frames that a client sends with the handshake (`spec/protocol.md` section 1).
//!
//! `early A | B` offers the frames of the commands A and B beside the subprotocol; `offer X` offers
//! X.

use crate::support::{check, script};
use broker::settings::EntitlementSettings;

#[test]
fn one_round_trip_connects_and_subscribes() {
    script! { "
        a: connect early hello 30 | subscribe 1 news
            a: 101 crore.v1
            a: welcome ping 30s
            a: subscribed 1 through 7:0
        a: publish 2 news hi
            a: published 2 7:1
            a: message 1 1<0 hi
    " }
}

#[test]
fn early_frames_obey_the_rules_of_all_frames() {
    script! { "
        a: connect early subscribe 1 news
            a: 101 crore.v1
            a: error connection hello_required
            a: close 3504 hello_required, closed
        b: connect early hello 30 | hello 30
            b: 101 crore.v1
            b: welcome ping 30s
            b: error connection hello_repeated
            b: close 3504 hello_required, closed
    " }
}

#[test]
fn malformed_base64url_is_refused_with_the_handshake() {
    for name in ["crore.frame.!", "crore.frame.abc=", "crore.frame.+/+/", "crore.frame.ab"] {
        check(&format!(
            "
            a: connect early offer {name} => a: 400 close malformed_handshake, closed
            "
        ));
    }
}

/// The node asks for tokens: early frames wait behind HELLO, and later input waits behind them.
#[test]
fn early_frames_wait_for_the_decision_on_their_token() {
    script! { |settings| {
        settings.entitlement = Some(EntitlementSettings::default());
    }, "
        authenticator stop
        a: connect early hello token anna.s:news | subscribe 1 news => a: 101 crore.v1
        a: subscribe 2 other
        count keeps questions => keeps 1 questions 1
        authenticator go
            a: welcome ping 60s
            a: subscribed 1 through 7:0
            a: error subscription 2 forbidden
        count kept => kept 0
    " }
}
