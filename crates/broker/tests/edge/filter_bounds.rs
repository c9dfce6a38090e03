//! Bounds of filters that catch up, as scripts and transcripts.

use crate::support::script;

/// Cursors of a client that takes no replay are bounded: what would need more is refused, and comes
/// when others are done.
#[test]
fn cursors_are_bounded() {
    script! { |settings| {
        settings.edges_count = 2;
        settings.homes_count = 2;
        settings.logs[0].partitions_count = 4;
        settings.limits.outbox_bytes_max = 3 * 64;
    }, "
        b: session; flood x/1 1..1, x/2 1..1
        a: session; subscribe 1 x/# each 0 7:0 each 1 7:0 credit 0
            a: subscribed 1 filter, 0 through 7:0 continued replaying, 1 through 7:0 continued replaying
        a: subscribe 2 x/+ each 0 7:0 each 1 7:0 credit 0 => a: error subscription 2 overloaded
        a: subscribe 2 +/1 each 0 7:0 credit 0
            a: subscribed 2 filter, 0 through 7:0 continued replaying
        a: unsubscribe 1 => a: unsubscribed 1 0
        a: subscribe 1 x/+ each 0 7:0 each 1 7:0
            a: subscribed 1 filter, 0 through 7:0 continued replaying, 1 through 7:0 continued replaying
            a: named x/1 1<0 1 for 1
            a: caught-up 1 partition 0 through 1
            a: named x/2 1<0 1 for 1
            a: caught-up 1 partition 1 through 1
        a: reset; session; subscribe 1 x/# each 0 7:0 each 1 7:0 credit 0
            a: subscribed 1 filter, 0 through 7:0 continued replaying, 1 through 7:0 continued replaying
        count subscriptions slow => subscriptions 1 slow 0
    " }
}

/// So are those of a client that reads nothing, however many filters it has: it is closed.
#[test]
fn cursors_of_a_blocked_client_are_bounded() {
    script! { |settings| {
        settings.limits.outbox_len_max = 8;
        settings.limits.outbox_bytes_max = 2 * 64;
    }, "
        b, a: session
        a: subscribe 1 x/#, 2 x/+, 3 +/1 => a: subscribed 1 filter, 2 filter, 3 filter
        a: block
        b: flood x/1 1..1, x/1 2..20
        count subscriptions filters slow => subscriptions 0 filters 0 slow 1
        a: open => a: close 3002 slow_consumer, closed
    " }
}
