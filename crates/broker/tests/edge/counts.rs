//! Counters of an edge as scripts and transcripts: ends of connections, errors, recoveries, and the
//! time of handshakes.

use crate::support::script;
use broker::settings::Settings;

fn plain(_: &mut Settings) {}

/// The cause that was there first counts, and each end counts once.
#[test]
fn ends_by_side_and_code() {
    script! { plain, "
        only binary
        a: session; close 1000 => a: close 1000, closed
        b: session; close => b: close, closed
        c: session; close 4321 bye => c: close 4321, closed
        d: session; reset
        e: session; end => e: closed
        f: session; text hello => f: close 1003 native frames are binary messages, closed
        g: session; hello 5
            g: error connection hello_repeated
            g: close 3504 hello_required, closed
        h: connect; raw GET /nowhere HTTP/1.1\\r\\nHost: h\\r\\nConnection: close\\r\\n\\r\\n
            h: 404 close not_found, closed
        count by-client/1000 by-client/1005 by-client/4000-4999 by-client/lost by-client/ended
            by-client/1000 1 by-client/1005 1 by-client/4000-4999 1 by-client/lost 1 by-client/ended 1
        count by-node/1003 by-node/3504 by-node/finished ends closed
            by-node/1003 1 by-node/3504 1 by-node/finished 1 ends 8 closed 8
        count error/hello_repeated error/not_found => error/hello_repeated 1 error/not_found 1
    " }
}

#[test]
fn recoveries_by_result() {
    script! { |settings| settings.rules[0].history_messages_max = 2, "
        b: session; flood news 1..5
        a: session; subscribe 1 news since 7:4
            a: subscribed 1 through 7:4 continued replaying
            a: message 1 5<4 5
            a: caught-up 1 through 5
        a: unsubscribe 1 => a: unsubscribed 1 0
        a: subscribe 2 news since 7:1
            a: subscribed 2 through 7:3 replaying
            a: gap 2 1..3 HistoryLimit
            a: message 2 4<3 4, 5<4 5
            a: caught-up 2 through 5
        a: unsubscribe 2 => a: unsubscribed 2 0
        a: subscribe 3 news fail-on-gap since 7:1
            a: error subscription 3 position_unavailable restart 7:3
        a: subscribe 4 news => a: subscribed 4 through 7:5
        b: flood news 6..6 => a: message 4 6<5 6
        count recovered recovered-gap recovered-refused replayed subscriptions-refused
            recovered 1 recovered-gap 1 recovered-refused 1 replayed 3 subscriptions-refused 1
    " }
}

/// A handshake lasts until HELLO, or until the first HTTP request; further requests of a connection
/// do not count.
#[test]
fn handshakes_until_they_are_served() {
    script! { plain, "
        a: connect
        time +40ms
        a: GET /nowhere => a: 404 not_found
        time +1s
        a: GET /nowhere => a: 404 not_found
        b: session
        count handshakes handshakes-ms => handshakes 2 handshakes-ms 40
    " }
}
