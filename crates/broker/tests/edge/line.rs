//! The line protocol as scripts and transcripts: what a further protocol gets from the edge.

use crate::support::script;

#[test]
fn subscribe_and_publish() {
    script! { "
        b: session
        c: GET /line => c: 101
        c: raw sub news\\n => c: subscribed news 7:0
        b: publish 0 news hi => c: message news 7:1 hi
        c: raw pub news two words\\nsub other\\n
            c: published 7:2
            c: message news 7:2 two words
            c: subscribed other 7:2
    " }
}

/// A client returns with the position of the last message that it has.
#[test]
fn resume() {
    script! { "
        b: session; flood news 1..4
        c: GET /line => c: 101
        c: raw sub news 7:2\\n
            c: subscribed news 7:2
            c: message news 7:3 3, 7:4 4
            c: caught-up news 7:4
    " }
}

/// The outbox overflows while the socket is full: the log brings the dropped messages.
#[test]
fn lag() {
    script! { |settings| {
        settings.limits.outbox_len_max = 4;
        settings.limits.page_records_max = 3;
    }, "
        b: session
        c: GET /line => c: 101
        c: raw sub news\\n => c: subscribed news 7:0
        c: block
        b: flood news 1..3, news 4..8
        count lagging => lagging 1
        c: open
            c: message news 7:1 1, 7:2 2, 7:3 3, 7:4 4, 7:5 5, 7:6 6, 7:7 7, 7:8 8
            c: caught-up news 7:8
        b: publish 0 news 9 => c: message news 7:9 9
    " }
}

#[test]
fn refusals() {
    script! { "
        c: GET /line => c: 101
        c: raw sub a/#\\nhello\\npub a/# x\\n
            c: error malformed_request, malformed_request, malformed_topic
        drain 1000 => c: return 0, closed
    " }
}
