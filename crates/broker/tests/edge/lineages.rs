//! Epochs of engines' partitions as scripts and transcripts: they advance without loss, or a
//! partition begins anew.

use crate::support::script;

/// An edge writes the epoch that the home has posted, and the byte of its lineage.
#[test]
fn a_lineage_advances() {
    script! { |_| {}, "
        b, a: session
        a: subscribe 1 news, 2 x/# => a: subscribed 1 through 7:0, 2 filter
        c: GET /events?topic=x/%23
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"x/#\",\"complete\":true}
            c: id -/7:
        b: publish 0 news one => a: message 1 1<0 one
        epoch 0 8
        b: publish 0 news two => a: message 1 2<1 two lineage 8
        b: publish 0 x/1 three
            a: named x/1 3<0 three lineage 8
            c: event id -/8:3 {\"topic\":\"x/1\",\"position\":\"8:3\",\"offset\":3,\"time_ms\":1000000,\"data\":\"three\"}
    " }
}

/// The subscriptions of a partition that begins anew end, and their clients come back.
#[test]
fn a_partition_begins_anew() {
    script! { |_| {}, "
        b, a: session
        a: subscribe 1 news, 2 x/# => a: subscribed 1 through 7:0, 2 filter
        c: GET /events?topic=x/%23
            c: 200 close stream, retry 2000
            c: event crore.start {\"topic\":\"x/#\",\"complete\":true}
            c: id -/7:
        d: GET /topics/news?since=7:0&wait=10s
        b: publish 0 other one
        restarted 0 9
            a: unsubscribed 1 2503, 2 2503
            c: event crore.error {\"topic\":\"x/#\",\"code\":\"log_restarted\",\"detail\":\"the log has lost messages or was made again; subscribe again from the last position\"}
            c: closed
            d: 503 [retry-after: 1] log_unavailable
        a: subscribe 1 news since 7:1 => a: subscribed 1 through 7:1 continued
    " }
}
