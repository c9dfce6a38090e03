//! A log whose records somebody else numbers, as scripts: the sequencer places proposals in an
//! order of its own and leaves holes between them.
//!
//! `append g0 a 3<1 three` is the proposal with the number 3; `place 3 at 5` is its answer.

use crate::script::script;
use crate::support::Setup;

fn numbered_elsewhere() -> Setup {
    Setup { cache_bytes: Some(4_000), age_max_ms: 1 << 40, ..Setup::default() }
}

/// Every record names the one before it, whatever its proposal named, and the pages of a
/// subscription that replays agree with the stream.
#[test]
fn records_lie_where_the_sequencer_places_them() {
    script! { numbered_elsewhere(), "
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 0
        pub a one ack => append g0 a 1<0 one
        pub b two ack => append g0 b 2<0 two
        pub a three ack => append g0 a 3<1 three
        place 3 at 5
            e0 published 7:5
            e0 message i0 5<0 three
        place 1 at 9
            e0 published 7:9
            e0 message i0 9<5 one
        place 2 at 12 => e0 published 7:12
        pub a four ack => append g0 a 13<9 four
        place 13 at 13
            e0 published 7:13
            e0 message i0 13<9 four
        waiting => staged 0 disk 0 pages 0 unavailable 0 uncached 0
        history a 7:0 => e0 history head 13 [5<0 three, 9<5 one, 13<9 four]
        sub e1 s2 a since 7:5 => e1 granted s2 i0 g1 replaying through 5
        read e1 s2 i0 after 5 max 10 => e1 page s2 [9<5 one, 13<9 four] through 13 caught-up
    " }
}

/// A repetition waits for the original, also under the number that another record has got.
#[test]
fn a_repetition_gets_the_offset_of_the_sequencer() {
    script! { numbered_elsewhere(), "
        pub a one ack key=k by=p:1@1 => append g0 a 1<0 one
        pub a two ack key=l by=q:1@1 => append g0 a 2<1 two
        pub a one ack key=k by=p:1@1
        place 1 at 2 => e0 published 7:2, 7:2 duplicate
        pub a one ack key=k by=p:1@1 => e0 published 7:2 duplicate
        pub a two ack key=l
        place 2 at 8 => e0 published 7:8, 7:8 duplicate
        pub a two ack by=q:1@1 => e0 published 7:8 duplicate
        pub a three ack by=p:2@1 => append g0 a 9<8 three
        place 9 at 20 => e0 published 7:20
        pub a two ack key=l => e0 published 7:8 duplicate
        count-once => published 3 duplicates 5 fenced 0 out-of-order 0 mismatch 0 producers 2 keys 2
    " }
}

/// A refusal refuses everything that waits, and its numbers are not given again.
#[test]
fn refused_proposals_leave_no_trace() {
    script! { numbered_elsewhere(), "
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 0
        pub a one ack key=k => append g0 a 1<0 one
        pub a two ack => append g0 a 2<1 two
        place 2 at 4
            e0 published 7:4
            e0 message i0 4<0 two
        refuse => e0 published LogUnavailable
        place 1 at 6
        pub a one ack key=k => append g1 a 5<4 one
        place 5 at 7
            e0 published 7:7
            e0 message i0 7<4 one
    " }
}

/// The newest placed record is retained, not the newest proposed.
#[test]
fn the_retained_message_is_the_last_placed() {
    script! { numbered_elsewhere(), "
        pub a one ack retain => append g0 a 1<0! one
        pub a two ack retain => append g0 a 2<1! two
        place 2 at 3 => e0 published 7:3
        place 1 at 4 => e0 published 7:4
        count => topics 1 records 2 retained 1 indexes 0 lagging 0
        sub e0 s1 a snapshot => e0 granted s1 i0 g1 live through 4 retained 4<3! one
    " }
}
