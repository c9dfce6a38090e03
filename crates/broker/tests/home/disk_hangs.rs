//! A home whose disk hangs, as scripts: waiting requests, refused ones, and the recovery.

use crate::script::script;
use crate::support::Setup;
use broker::settings::Limits;

/// Memory for about five records of the scripts below; a log that gets nothing done for three
/// seconds stalls.
fn small() -> Setup {
    Setup {
        cache_bytes: Some(400),
        segment_bytes: 110,
        age_max_ms: 1 << 40,
        limits: Limits { log_stall_timeout_ms: 3_000, ..Limits::default() },
        ..Setup::default()
    }
}

/// Staged publications may be durable already: they wait. Later ones are refused, until the disk
/// continues.
#[test]
fn a_sync_that_hangs() {
    script! { small(), "
        pub a one ack key=k => append g0 a 1<0 one
        pump
        time +1000
        pump
        time +1000
        pump
        time +999
        pump
        pub a two ack => append g0 a 2<1 two
        time +1
        pump
            e0 stalled
            e1 stalled
        pub a three ack => e0 published LogUnavailable
        pub a one ack key=k
        sub e1 s1 a live => e1 granted s1 i0 g1 live through 0
        history a => e0 history head 0 []
        waiting => staged 2 disk 0 pages 0 unavailable 1 uncached 0
        commit 2
            e0 goes on
            e0 published 7:1, 7:1 duplicate, 7:2
            e1 goes on
            e1 message i0 1<0 one, 2<1 two
        pub a four ack => append g0 a 3<2 four
        waiting => staged 1 disk 0 pages 0 unavailable 0 uncached 0
        counted => lagged 0 stream-gaps 0 stalled 1 evicted 0 in 0 forgotten 0 histories 1
    " }
}

/// Questions are refused, those under way and new ones; the late answers of the disk are dropped.
/// Records in memory are served.
#[test]
fn a_read_that_hangs() {
    script! { small(), "
        pub a one, a two, a three => append g0 a 1<0 one, 2<1 two, 3<2 three
        commit 3
        restart
        history a => ask start a newest 1000 through 3 after 0
        sub e0 s1 a since 7:0 => ask start a newest 1000 through 3 after 0
        time +1000
        pump
        time +1000
        pump
        time +1000
        pump
        time +1000
        pump
            e0 history LogUnavailable
            e0 refused s1 LogUnavailable
            e0 stalled
            e1 stalled
        history a => e0 history LogUnavailable
        history a 7:1 => e0 history head 3 [2<1 two, 3<2 three]
        answer
            e0 goes on
            e1 goes on
        answer
        history a => ask start a newest 1000 through 3 after 0
        answer => ask page a 0..1
        answer => e0 history head 3 [1<0 one, 2<1 two, 3<2 three]
    " }
}

/// A wall clock that jumps does not stall a disk, nor does a disk that is slow.
#[test]
fn clocks_that_jump() {
    script! { small(), "
        pub a one, a two => append g0 a 1<0 one, 2<1 two
        pump
        time +3600000
        pump
        time +1000
        pump
        commit 1
        pump
        time +1000
        pump
        time +1000
        pump
        deadline => +3604000
        commit 1
        pump
        time +9000
        pump
        pub a three => append g0 a 3<2 three
    " }
}

/// One that takes no appends may hang as well, with publications on their way.
#[test]
fn unavailable_and_hanging() {
    script! { small(), "
        pub a one ack => append g0 a 1<0 one
        available no
        pump
        time +1000
        pump
        time +1000
        pump
        time +1000
        pump
            e0 stalled
            e1 stalled
    " }
}
