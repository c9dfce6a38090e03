//! A home as scripts and transcripts: every line of a script is a request, the lines below it are
//! the letters.
//!
//! `3<1 hi` is a record: offset, `prev`, payload; `!` marks a retained one.

use crate::script::{check, script};
use crate::support::Setup;
use broker::settings::Limits;

#[test]
fn live() {
    script! { Setup::default(), "
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 0
        pub a one ack
            e0 published 7:1
            e0 message i0 1<0 one
        pub b other
        pub a two => e0 message i0 3<1 two
        sub e1 s1 a live => e1 granted s1 i0 g1 live through 3
        pub a three
            e0 message i0 4<3 three
            e1 message i0 4<3 three
        turn
            e0 consumed 5
            e1 consumed 1
        turn
    " }
}

/// Pages of subscriptions whose policy leaves something out: the newest record and how far the rest
/// is skipped, or nothing, never beyond what the stream has carried.
#[test]
fn pages_that_leave_out() {
    check(
        Setup {
            limits: Limits { stream_credit_bytes: 150, ..Limits::default() },
            ..Setup::default()
        },
        "
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 0
        pub a 1 => e0 message i0 1<0 1
        pub b 2
        pub a 3 => e0 message i0 3<1 3
        pub b 4, a 5, b 6, a 7
        read e0 s1 i0 after 0 max 9 newest
            e0 page s1 skipped through 1 [3<1 3] through 4 caught-up
        read e0 s1 i0 after 1 max 9 newest => e0 page s1 [3<1 3] through 4 caught-up
        read e0 s1 i0 after 3 max 9 newest => e0 page s1 [] through 4 caught-up
        read e0 s1 i0 after 0 max 9 skip => e0 page s1 skipped through 4 [] through 4 caught-up
        read e0 s1 i0 after 3 max 9 skip => e0 page s1 [] through 4 caught-up
        credit e0 1000000
        pump => e0 message i0 5<3 5, 7<5 7
        pub b 8
        read e0 s1 i0 after 0 max 9 newest
            e0 page s1 skipped through 5 [7<5 7] through 8 caught-up
        read e0 s1 i0 after 5 max 9 newest => e0 page s1 [7<5 7] through 8 caught-up
        read e0 s1 i0 after 7 max 9 newest => e0 page s1 [] through 8 caught-up
        read e0 s1 i0 after 9 max 9 newest => e0 page s1 [] through 9 caught-up
        read e0 s1 i0 after 5 max 9 skip => e0 page s1 skipped through 8 [] through 8 caught-up
        read e0 s1 i0 after 7 max 9 skip => e0 page s1 [] through 8 caught-up
        time +900
        time +900
        pump
        read e0 s1 i0 after 5 max 9 newest => e0 page s1 gap 5..7 Evicted [] through 8 caught-up
        read e0 s1 i0 after 5 max 9 skip => e0 page s1 skipped through 8 [] through 8 caught-up
        ",
    );
}

/// A subscription that drops its lag gets a notice although all of it has been
/// evicted meanwhile, and the topic's newest message is still to come on its stream.
#[test]
fn dropped_records_may_be_gone() {
    check(
        Setup {
            limits: Limits { stream_credit_bytes: 150, ..Limits::default() },
            ..Setup::default()
        },
        "
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 0
        pub a 1 => e0 message i0 1<0 1
        pub b 2
        pub a 3 => e0 message i0 3<1 3
        pub b 4
        time +900
        time +900
        pub a 5
        pump
        read e0 s1 i0 after 1 max 9 skip => e0 page s1 skipped through 4 [] through 4 caught-up
        ",
    );
}

/// Work that a home does after its turn's end is reported in the next turn, before the home rests.
#[test]
fn handled_requests_are_reported() {
    script! { Setup::default(), "
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 0
        turn => e0 consumed 1
        rest => rests
        read e0 s1 i0 after 0 => e0 page s1 [] through 0 caught-up
        rest => not yet
        turn => e0 consumed 1 pages
        rest => rests
    " }
}

/// The home asks for a turn when the edge of a lagging stream gives credit.
#[test]
fn credit_behind_the_pump_asks_for_another_turn() {
    let limits = Limits { stream_credit_bytes: 150, ..Limits::default() };
    script! { Setup { limits, ..Setup::default() }, "
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 0
        pub a 1, a 2 => e0 message i0 1<0 1, 2<1 2
        pub a 3
        pump
        turn => e0 consumed 4
        rest => rests
        credit e0 100
        rest => not yet
        pump => e0 message i0 3<2 3
        rest => rests
    " }
}

/// A release that crossed a newer grant changes nothing; a freed index is used again at once.
#[test]
fn releases_and_grants_cross() {
    script! { Setup::default(), "
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 0
        sub e0 s2 a live => e0 granted s2 i0 g2 live through 0
        release e0 i0 g1
        pub a 1 => e0 message i0 1<0 1
        release e0 i0 g2 => e0 released i0
        release e0 i0 g2
        pub a 2
        sub e0 s3 b live => e0 granted s3 i0 g3 live through 2
        release e0 i0 g2
        pub b 3 => e0 message i0 3<0 3
        release e0 i9 g1
        read e0 s9 i9 after 0
        turn
            e0 consumed 11
            e0 consumed 1 pages
    " }
}

#[test]
fn refusals() {
    check(
        Setup {
            retained_bytes_max: 120,
            message_bytes_max: 50,
            limits: Limits { topics_max: 2, filters_per_shard_max: 1, ..Limits::default() },
            ..Setup::default()
        },
        "
        pub a 1 ack => e0 published 7:1
        pub b 2 ack => e0 published 7:2
        pub c 3 ack => e0 published TopicsFull
        sub e0 s1 c live => e0 refused s1 TopicsFull
        sub e0 s2 a live => e0 granted s2 i0 g1 live through 2
        filter e0 s3 x/# => e0 filter s3 p0 through 7:2
        filter e1 s3 x/# => e1 filter s3 p0 through 7:2
        filter e0 s4 y/# => e0 filter s4 FiltersFull
        unfilter e0 x/#
        filter e0 s4 y/# => e0 filter s4 FiltersFull
        pub a x*51 ack => e0 published MessageTooLarge
        pub a x*50 ack retain
            e0 published 7:3
            e0 message i0 3<1! 50 bytes
        pub b x*50 ack retain => e0 published RetainedFull
        pub a x*40 ack retain
            e0 published 7:4
            e0 message i0 4<3! 40 bytes
        pub a empty ack retain
            e0 published 7:5
            e0 message i0 5<4! empty
        pub b x*50 ack retain => e0 published 7:6
        count => topics 2 records 6 retained 1 indexes 1 lagging 0
        ",
    );
}

/// The port has memory for two segments: the log makes room from itself, and refuses by name when
/// it cannot.
#[test]
fn memory_refused() {
    script! { Setup { memory_bytes: 600, segment_bytes: 300, ..Setup::default() }, "
        pub a x*150 ack => e0 published 7:1
        pub b x*150 ack => e0 published 7:2
        pub c x*150 ack => e0 published 7:3
        count => topics 2 records 2 retained 0 indexes 0 lagging 0
        pub d x*700 ack => e0 published MemoryFull
        pub d 1 ack => e0 published 7:4
    " }
}

/// One letter may overdraw the credit; after it the stream is one number, until there is credit
/// again.
#[test]
fn credit() {
    check(
        Setup {
            limits: Limits { stream_credit_bytes: 150, ..Limits::default() },
            ..Setup::default()
        },
        "
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 0
        sub e1 s1 b live => e1 granted s1 i0 g1 live through 0
        pub a 1, a 2 => e0 message i0 1<0 1, 2<1 2
        pub b 3 => e1 message i0 3<0 3
        pub a 4
        pub b 5 => e1 message i0 5<3 5
        count => topics 2 records 5 retained 0 indexes 2 lagging 1
        sub e0 s2 a live => e0 granted s2 i0 g2 live through 3
        sub e0 s3 a since 7:2 => e0 granted s3 i0 g3 replaying through 2
        read e0 s3 i0 after 2 => e0 page s3 [] through 3 caught-up
        sub e0 s4 a since 7:4 => e0 granted s4 i0 g4 replaying through 4
        read e0 s4 i0 after 4 => e0 page s4 [] through 4 caught-up
        sub e0 s5 a last 1 => e0 granted s5 i0 g5 replaying through 2
        pump
        credit e0 100
        pump => e0 message i0 4<2 4
        credit e0 1000000
        pump
        pump
        read e0 s4 i0 after 4 => e0 page s4 [] through 5 caught-up
        count => topics 2 records 5 retained 0 indexes 2 lagging 0
        ",
    );
}

/// The retained message comes with the grant, though the stream has not come so far: the log may
/// evict its record first.
#[test]
fn a_snapshot_on_a_lagging_stream() {
    check(
        Setup {
            limits: Limits { stream_credit_bytes: 1, ..Limits::default() },
            ..Setup::default()
        },
        "
        sub e0 s1 b live => e0 granted s1 i0 g1 live through 0
        pub b 1 => e0 message i0 1<0 1
        pub b 2, a 3 retain
        sub e0 s2 a snapshot => e0 granted s2 i1 g2 replaying through 3 retained 3<0! 3
        time +1100
        pump
        read e0 s2 i1 after 3
            e0 stream-gap 1..3
            e0 page s2 [] through 3 caught-up
        pub a 4
        credit e0 1000
        pump => e0 message i1 4<3 4
        ",
    );
}

/// A start at the head leaves out what a lagging stream brings of the time before.
#[test]
fn at_the_head_on_a_lagging_stream() {
    check(
        Setup {
            limits: Limits { stream_credit_bytes: 1, ..Limits::default() },
            ..Setup::default()
        },
        "
        sub e0 s1 b live => e0 granted s1 i0 g1 live through 0
        pub b 1 => e0 message i0 1<0 1
        pub b 2, a 3, a 4
        sub e0 s2 b live => e0 granted s2 i0 g2 live through 1
        sub e0 s3 b at-head => e0 granted s3 i0 g3 replaying through 4
        filter e0 s4 + => e0 filter s4 p0 through 7:1
        filter e0 s5 + at-head => e0 filter s5 p0 through 7:1 resumed after 4
        sub e1 s6 b at-head => e1 granted s6 i0 g1 live through 4
        filter e1 s7 + at-head => e1 filter s7 p0 through 7:4
        ",
    );
}

#[test]
fn a_lagging_stream_announces_and_loses() {
    check(
        Setup {
            limits: Limits { stream_credit_bytes: 1, ..Limits::default() },
            ..Setup::default()
        },
        "
        filter e0 s1 a/+ => e0 filter s1 p0 through 7:0
        sub e0 s2 b live => e0 granted s2 i0 g1 live through 0
        pub b 1 => e0 message i0 1<0 1
        pub a/x 2, a/y 3
        positions e0 => e0 positions p0 through 1 of 1..
        pump
        credit e0 1000
        pump
            e0 announce i1 a/x
            e0 message i1 2<0 2
        credit e0 1000
        pump
            e0 announce i2 a/y
            e0 message i2 3<0 3
        pub b 4
        time +200
        pub b 5, b 6
        time +900
        pump
            e0 released i1
            e0 released i2
        positions e0 => e0 positions p0 through 3 of 5..
        read e0 s2 i0 after 3
            e0 stream-gap 3..6
            e0 page s2 gap 3..4 Evicted [5<4 5, 6<5 6] through 6 caught-up
        positions e0 => e0 positions p0 through 6 of 5..
        credit e0 1000
        pump
        pub b 7 => e0 message i0 7<6 7
        time +1100
        pump
        credit e0 1000
        pump
        count => topics 1 records 0 retained 0 indexes 1 lagging 0
        read e0 s2 i0 after 6 => e0 page s2 gap 6..7 Evicted [] through 7 caught-up
        counted => lagged 2 stream-gaps 1 stalled 0 evicted 7 in 3 forgotten 2 histories 0
        ",
    );
}
