//! Subscriptions to filters at a home, as scripts and transcripts: where they begin, and pages from
//! the log.
//!
//! A page of a filter is answered by `pump`: `[topic offset<prev payload, ...]`.

use crate::script::{check, script};
use crate::support::Setup;
use broker::settings::Limits;

#[test]
fn live() {
    script! { Setup::default(), "
        filter e0 s1 a/# => e0 filter s1 p0 through 7:0
        pub a/b 1
            e0 announce i0 a/b
            e0 message i0 1<0 1
        pub a/b 2 => e0 message i0 2<1 2
        pub c 3
        filter e1 s1 +/b => e1 filter s1 p0 through 7:3
        pub a/b 4
            e0 message i0 4<2 4
            e1 announce i0 a/b
            e1 message i0 4<2 4
        filter e0 s2 a/+ => e0 filter s2 p0 through 7:4
        pub a/b 5
            e0 announce i0 a/b
            e0 message i0 5<4 5
            e1 message i0 5<4 5
        unfilter e0 a/#
        pub a/b 6
            e0 message i0 6<5 6
            e1 message i0 6<5 6
        unfilter e0 a/+
        pub a/b 7
            e0 released i0
            e1 message i0 7<6 7
        unfilter e0 a/+
        filter e0 s3 a/+/#/ => e0 filter s3 MalformedFilter
    " }
}

#[test]
fn beside_plain_subscriptions() {
    script! { Setup::default(), "
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 0
        pub a 1 => e0 message i0 1<0 1
        filter e0 s2 + => e0 filter s2 p0 through 7:1
        pub a 2
            e0 announce i0 a
            e0 message i0 2<1 2
        release e0 i0 g1
        pub a 3 => e0 message i0 3<2 3
        sub e0 s3 a live => e0 granted s3 i0 g2 live through 3
        unfilter e0 +
        pub a 4 => e0 message i0 4<3 4
        release e0 i0 g2 => e0 released i0
        filter e0 s4 + => e0 filter s4 p0 through 7:4
        pub b 5
            e0 announce i0 b
            e0 message i0 5<0 5
        count => topics 2 records 5 retained 0 indexes 1 lagging 0
        time +1100
        pump => e0 released i0
        count => topics 0 records 0 retained 0 indexes 0 lagging 0
    " }
}

/// A position for each partition: records after it are read from the log, page by page, and later
/// ones are live.
#[test]
fn resumes() {
    script! { Setup::default(), "
        pub a/1 one, b two, a/2 three, a/1 four
        filter e0 s1 a/+ p0 7:1 => e0 filter s1 p0 through 7:4 resumed after 1
        pub a/3 five
            e0 announce i0 a/3
            e0 message i0 5<0 five
        scan e0 s1 p0 a/+ after 1 max 1 => e0 page s1 p0 after 1 [a/2 3<0 three] through 3
        pump
        scan e0 s1 p0 a/+ after 3 max 5
            e0 page s1 p0 after 3 [a/1 4<1 four, a/3 5<0 five] through 5 caught-up
        scan e0 s1 p0 b|a/2 after 0 max 5
            e0 page s1 p0 after 0 [b 2<0 two, a/2 3<0 three] through 5 caught-up
        pub a/1 six
            e0 announce i1 a/1
            e0 message i1 6<4 six
        pump
        scan e0 s1 p0 none/# after 2 => e0 page s1 p0 after 2 [] through 6 caught-up
        scan e0 s1 p0 a/+ after 6 => e0 page s1 p0 after 6 [] through 6 caught-up
        pump
        turn
            e0 consumed 7
            e0 consumed 5 pages
    " }
}

/// Pages that leave out: all but the newest of each topic, and everything. The reported gaps lie
/// between the records of the page.
#[test]
fn pages_that_leave_out() {
    script! { Setup::default(), "
        pub a/1 1, a/1 2, b 3, a/2 4, a/3 5, a/1 6, a/3 7, b 8
        filter e0 s1 a/+ p0 7:0 => e0 filter s1 p0 through 7:8 resumed after 0
        scan e0 s1 p0 a/+ after 0 max 5 newest
            e0 page s1 p0 after 0 [a/2 4<0 4, a/1 6<2 6, a/3 7<5 7] skipped 0..3 skipped 4..5 through 8 caught-up
        scan e0 s1 p0 a/+ after 0 max 2 newest
            e0 page s1 p0 after 0 [a/2 4<0 4, a/1 6<2 6] skipped 0..3 skipped 4..5 through 6
        scan e0 s1 p0 a/+ after 6 max 2 newest
            e0 page s1 p0 after 6 [a/3 7<5 7] through 8 caught-up
        scan e0 s1 p0 a/3 after 4 max 2 newest
            e0 page s1 p0 after 4 [a/3 7<5 7] skipped 4..6 through 8 caught-up
        scan e0 s1 p0 a/+ after 2 max 5 skip
            e0 page s1 p0 after 2 [] skipped 2..8 through 8 caught-up
        scan e0 s1 p0 a/+ after 8 max 5 skip => e0 page s1 p0 after 8 [] through 8 caught-up
        pump
    " }
}

/// Some of the positions know nothing of this log.
#[test]
fn positions_that_are_not_ours() {
    check(
        Setup {
            partitions: 3,
            ..Setup::default()
        },
        "
        pub a 1, b 1, c 1, d 1
        filter e0 s1 # p0 6:1 p1 7:9 p2 7:0
            e0 filter s1 p0 through 7:0 resumed after 0 gap 0..0 UnknownEpoch p1 through 7:2 resumed after 0 gap 0..0 BeyondHead p2 through 7:2 resumed after 0
        filter e1 s1 # => e1 filter s1 p0 through 7:0 p1 through 7:2 p2 through 7:2
        filter e1 s2 + p1 7:0
            e1 filter s2 p0 through 7:0 p1 through 7:2 resumed after 0 p2 through 7:2
        scan e1 s2 p1 + after 0 => e1 page s2 p1 after 0 [a 1<0 1, c 2<0 1] through 2 caught-up
        pump
        ",
    );
}

/// Evicted records are a gap, at the start and on the way; records of other topics count, as their
/// topics are unknown.
#[test]
fn gaps() {
    script! { Setup::default(), "
        pub a 1, b 2
        time +500
        pub a 3
        filter e0 s1 + p0 7:0 => e0 filter s1 p0 through 7:3 resumed after 0
        time +600
        pump
        scan e0 s1 p0 + after 0
            e0 page s1 p0 after 0 gap 0..2 Evicted [a 3<1 3] through 3 caught-up
        pump
        filter e0 s2 +/# p0 7:1 => e0 filter s2 p0 through 7:3 resumed after 2 gap 1..2 Evicted
        filter e0 s3 a/# p0 7:2 => e0 filter s3 p0 through 7:3 resumed after 2
        filter e0 s4 b/# p0 7:3 => e0 filter s4 p0 through 7:3 resumed after 3
        time +600
        pump
        scan e0 s2 p0 +/# after 2 => e0 page s2 p0 after 2 gap 2..3 Evicted [] through 3 caught-up
        scan e0 s2 p0 +/# after 3 => e0 page s2 p0 after 3 [] through 3 caught-up
        pump
    " }
}

/// A page ends where so much has been looked at, whether anything was found or not.
#[test]
fn scans_are_bounded() {
    check(
        Setup {
            limits: Limits { scan_bytes_max: 300, ..Limits::default() },
            segment_bytes: 1 << 20,
            ..Setup::default()
        },
        "
        filter e0 s1 x => e0 filter s1 p0 through 7:0
        pub a x*100, a x*100, a x*100
        pub x here
            e0 announce i0 x
            e0 message i0 4<0 here
        pub a x*100
        pub x x*1000, x there => e0 message i0 6<4 1000 bytes, 7<6 there
        scan e0 s1 p0 x after 0 => e0 page s1 p0 after 0 [] through 2
        pump
        scan e0 s1 p0 x after 1 => e0 page s1 p0 after 1 [] through 3
        scan e0 s1 p0 x after 3 => e0 page s1 p0 after 3 [x 4<0 here] through 5
        pump
        scan e0 s1 p0 x after 5 => e0 page s1 p0 after 5 [x 6<4 1000 bytes] through 6
        pump
        scan e0 s1 p0 x after 6 => e0 page s1 p0 after 6 [x 7<6 there] through 7 caught-up
        pump
        ",
    );
}

/// A turn answers some of many pages.
#[test]
fn a_turn_scans_a_share() {
    script! { Setup { segment_bytes: 1 << 20, log_bytes_max: 4 << 20, ..Setup::default() }, "
        pub x x*600000
        scan e0 s1 p0 + after 0 => e0 page s1 p0 after 0 [x 1<0 600000 bytes] through 1 caught-up
        scan e0 s2 p0 + after 0 => e0 page s2 p0 after 0 [x 1<0 600000 bytes] through 1 caught-up
        scan e1 s3 p0 + after 0
        pump => e1 page s3 p0 after 0 [x 1<0 600000 bytes] through 1 caught-up
        pump
        pump
    " }
}

/// A page ends where a stream without credit has come to; who knows more than the stream waits for
/// it.
#[test]
fn a_lagging_stream() {
    check(
        Setup {
            limits: Limits { stream_credit_bytes: 200, ..Limits::default() },
            ..Setup::default()
        },
        "
        filter e0 s1 + => e0 filter s1 p0 through 7:0
        pub a 1
            e0 announce i0 a
            e0 message i0 1<0 1
        pub a 2 => e0 message i0 2<1 2
        pub b 3, a 4, a 5
        filter e0 s2 a/# p0 7:1 => e0 filter s2 p0 through 7:2 resumed after 1
        scan e0 s2 p0 + after 0 => e0 page s2 p0 after 0 [a 1<0 1, a 2<1 2] through 2 caught-up
        scan e0 s2 p0 + after 4
        pump
        credit e0 200
        pump
            e0 announce i1 b
            e0 message i1 3<0 3
        credit e0 200
        pump
            e0 announce i0 a
            e0 message i0 4<2 4
            e0 page s2 p0 after 4 [] through 4 caught-up
        ",
    );
}
