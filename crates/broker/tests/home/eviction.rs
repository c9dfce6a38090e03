//! Scripts and transcripts of the home role: what the log evicts and the home forgets.

use crate::script::script;
use crate::support::Setup;

#[test]
fn eviction_and_gaps() {
    script! { Setup::default(), "
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 0
        pub a 1 => e0 message i0 1<0 1
        pub b 2
        time +200
        pub a 3 => e0 message i0 3<1 3
        deadline => +1001
        time +801
        pump
        sub e1 s1 a since 7:0 => e1 granted s1 i0 g1 replaying through 1 gap 0..1 Evicted
        read e1 s1 i0 after 0 => e1 page s1 gap 0..1 Evicted [3<1 3] through 3 caught-up
        sub e1 s2 b since 7:1 => e1 granted s2 i1 g2 live through 2 gap 1..2 Evicted
        deadline => +1201
        time +200
        pump
        deadline => none
        read e1 s1 i0 after 1 => e1 page s1 gap 1..3 Evicted [] through 3 caught-up
        sub e1 s3 a since 7:1 => e1 granted s3 i0 g3 live through 3 gap 1..3 Evicted
        pub a 4
            e0 message i0 4<3 4
            e1 message i0 4<3 4
    " }
}

/// The wall clock goes back, and forwards: it evicts nothing, offsets continue, and old records
/// still expire.
#[test]
fn wall_clock_jumps() {
    script! { Setup::default(), "
        pub a 1 ack => e0 published 7:1
        clock -500000
        pump
        pub a 2 ack => e0 published 7:2
        deadline => +1001
        clock +900000000
        pump
        deadline => +1001
        count => topics 1 records 2 retained 0 indexes 0 lagging 0
        time +400
        pub a 3
        time +601
        pump
        count => topics 1 records 1 retained 0 indexes 0 lagging 0
        time +400
        pump
        count => topics 0 records 0 retained 0 indexes 0 lagging 0
        deadline => none
    " }
}

#[test]
fn bytes_evict_the_oldest_segment() {
    script! { Setup { log_bytes_max: 1200, segment_bytes: 400, ..Setup::default() }, "
        pub a x*100, b x*100, c x*100, d x*100, e x*100, f x*100
        count => topics 5 records 5 retained 0 indexes 0 lagging 0
        pub g x*100 ack => e0 published 7:7
        count => topics 5 records 5 retained 0 indexes 0 lagging 0
        history a 7:0 => e0 history head 7 gap 0..2 Evicted []
        pub h x*2000 ack => e0 published LogFull
        counted => lagged 0 stream-gaps 0 stalled 0 evicted 2 in 2 forgotten 2 histories 1
    " }
}

#[test]
fn forgetting() {
    script! { Setup::default(), "
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 0
        pub a 1 => e0 message i0 1<0 1
        pub kept 2 retain
        time +1100
        pump
        count => topics 2 records 0 retained 1 indexes 1 lagging 0
        release e0 i0 g1 => e0 released i0
        count => topics 1 records 0 retained 1 indexes 0 lagging 0
        sub e0 s2 a since 7:1 => e0 granted s2 i0 g2 live through 1
        sub e0 s3 a since 7:0 => e0 granted s3 i0 g3 live through 1 gap 0..1 Evicted
        sub e0 s4 kept snapshot => e0 granted s4 i1 g4 live through 2 retained 2<0! 2
        release e0 i1 g4 => e0 released i1
        pub kept empty retain
        time +1100
        pump
        count => topics 1 records 0 retained 0 indexes 1 lagging 0
    " }
}
