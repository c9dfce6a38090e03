//! Starts of subscriptions and histories, as scripts and transcripts: positions, replays, and the
//! history that is served.

use crate::script::script;
use crate::support::Setup;

/// Trap 2: positions outlive data; empty histories, expired and forgotten topics.
#[test]
fn positions_outlive_data() {
    script! { Setup::default(), "
        sub e0 s1 never since 7:0 => e0 granted s1 i0 g1 live through 0
        pub a one, b two
        time +200
        pub c three
        time +900
        pump
        count => topics 2 records 1 retained 0 indexes 1 lagging 0
        sub e0 s2 a since 7:1 => e0 granted s2 i1 g2 live through 2 gap 1..2 Evicted
        sub e0 s3 a since 7:2 => e0 granted s3 i1 g3 live through 2
        sub e0 s4 a since 7:3 => e0 granted s4 i1 g4 live through 3
        sub e0 s5 other since 7:1 => e0 granted s5 i2 g5 live through 2 gap 1..2 Evicted
        sub e0 s6 other since 7:2 => e0 granted s6 i2 g6 live through 2
        history a 7:1 => e0 history head 3 gap 1..2 Evicted []
        history unknown 7:1 => e0 history head 3 gap 1..2 Evicted []
        history unknown 7:2 => e0 history head 3 []
        pub a four => e0 message i1 4<2 four
        sub e1 s1 a since 7:2 => e1 granted s1 i0 g1 replaying through 2
        read e1 s1 i0 after 2 => e1 page s1 [4<2 four] through 4 caught-up
    " }
}

/// A topic that never had a record inherits the forgotten offset; its first `prev` must satisfy
/// subscribers that waited.
#[test]
fn prev_of_a_topic_without_records() {
    script! { Setup::default(), "
        sub e0 s1 early live => e0 granted s1 i0 g1 live through 0
        pub a one
        time +1100
        pump
        count => topics 1 records 0 retained 0 indexes 1 lagging 0
        sub e0 s2 late live => e0 granted s2 i1 g2 live through 1
        pub early x => e0 message i0 2<0 x
        pub late y => e0 message i1 3<1 y
        pub a z
    " }
}

/// Trap 3: an unknown position is reported at once, with the position to continue from.
#[test]
fn unknown_positions() {
    script! { Setup::default(), "
        sub e0 s1 a since 6:0 => e0 granted s1 i0 g1 live through 0 gap 0..0 UnknownEpoch
        pub a one => e0 message i0 1<0 one
        pub b two
        pub a three => e0 message i0 3<1 three
        sub e0 s2 a since 6:3 => e0 granted s2 i0 g2 replaying through 0 gap 0..0 UnknownEpoch
        sub e0 s3 a since 7:4 => e0 granted s3 i0 g3 replaying through 0 gap 0..0 BeyondHead
        sub e0 s4 a since 7:3 => e0 granted s4 i0 g4 live through 3
        sub e0 s5 none since 6:1 => e0 granted s5 i1 g5 live through 3 gap 0..3 UnknownEpoch
        history a 6:2 => e0 history head 3 gap 0..0 UnknownEpoch [1<0 one, 3<1 three]
        history a 7:9 => e0 history head 3 gap 0..0 BeyondHead [1<0 one, 3<1 three]
        history none 6:1 => e0 history head 3 gap 0..3 UnknownEpoch []
        history a 6:2 reverse => e0 history head 3 gap 0..3 UnknownEpoch [3<1 three, 1<0 one]
    " }
}

/// Trap 1: the position is captured with the grant; pages and the stream join without a hole or a
/// repeat.
#[test]
fn replay_then_live() {
    script! { Setup::default(), "
        pub a 1, b 2, a 3, a 4
        sub e0 s1 a since 7:1 => e0 granted s1 i0 g1 replaying through 1
        pub a 5 => e0 message i0 5<4 5
        read e0 s1 i0 after 1 max 2 => e0 page s1 [3<1 3, 4<3 4] through 4
        pub a 6 => e0 message i0 6<5 6
        read e0 s1 i0 after 4 max 2 => e0 page s1 [5<4 5, 6<5 6] through 6 caught-up
        pub a 7 => e0 message i0 7<6 7
        read e0 s1 i0 after 6 => e0 page s1 [7<6 7] through 7 caught-up
    " }
}

#[test]
fn last_and_snapshot() {
    script! { Setup { history_messages_max: 3, ..Setup::default() }, "
        sub e0 s1 a last 2 => e0 granted s1 i0 g1 live through 0
        sub e0 s2 a snapshot => e0 granted s2 i0 g2 live through 0
        pub a 1, a 2 retain => e0 message i0 1<0 1, 2<1! 2
        pub b 3
        pub a 4, a 5, a 6 => e0 message i0 4<2 4, 5<4 5, 6<5 6
        sub e0 s3 a last 2 => e0 granted s3 i0 g3 replaying through 4
        sub e0 s4 a last 0 => e0 granted s4 i0 g4 live through 6
        sub e0 s5 a last 99 => e0 granted s5 i0 g5 replaying through 2
        read e0 s5 i0 after 2 => e0 page s5 [4<2 4, 5<4 5, 6<5 6] through 6 caught-up
        sub e0 s6 a snapshot => e0 granted s6 i0 g6 live through 6 retained 2<1! 2
        sub e0 s7 b snapshot => e0 granted s7 i1 g7 replaying through 0
        read e0 s7 i1 after 0 => e0 page s7 [3<0 3] through 6 caught-up
        pub a empty retain => e0 message i0 7<6! empty
        sub e0 s8 a snapshot => e0 granted s8 i0 g8 replaying through 6
    " }
}

#[test]
fn history_limits_at_a_start() {
    script! { Setup { history_messages_max: 2, history_age_max_ms: 500, ..Setup::default() }, "
        pub a 1, a 2, a 3
        sub e0 s1 a since 7:0 => e0 granted s1 i0 g1 replaying through 1 gap 0..1 HistoryLimit
        sub e0 s2 a since 7:1 => e0 granted s2 i0 g2 replaying through 1
        read e0 s2 i0 after 1 => e0 page s2 [2<1 2, 3<2 3] through 3 caught-up
        history a 7:0 => e0 history head 3 gap 0..1 HistoryLimit [2<1 2, 3<2 3]
        history a => e0 history head 3 [2<1 2, 3<2 3]
        history a reverse max 1 => e0 history head 3 [3<2 3] more
        history a 7:3 reverse => e0 history head 3 [2<1 2]
        history a 7:2 reverse => e0 history head 3 []
        time +600
        history a => e0 history head 3 []
        sub e0 s3 a since 7:2 => e0 granted s3 i0 g3 live through 3 gap 2..3 HistoryLimit
        sub e0 s4 a since 7:3 => e0 granted s4 i0 g4 live through 3
        sub e0 s5 a last 5 => e0 granted s5 i0 g5 live through 3
    " }
    script! { Setup { history_messages_max: 0, ..Setup::default() }, "
        pub a 1
        sub e0 s1 a since 7:0 => e0 granted s1 i0 g1 live through 1 gap 0..1 HistoryLimit
        sub e0 s2 a last 5 => e0 granted s2 i0 g2 live through 1
        sub e0 s3 a since 6:0 => e0 granted s3 i0 g3 live through 1 gap 0..1 UnknownEpoch
        history a => e0 history head 1 []
    " }
}

/// A record in the log is served under any step of the wall clock: no record is too old for a rule
/// that names no age.
#[test]
fn a_step_of_the_wall_clock_hides_nothing() {
    script! { Setup { age_max_ms: 180_000, history_age_max_ms: u64::MAX, ..Setup::default() }, "
        pub a 1
        clock +200000
        time 1000
        pump
        sub e0 s1 a since 7:0 => e0 granted s1 i0 g1 replaying through 0
        history a 7:0 => e0 history head 1 [1<0 1]
        clock -400000
        history a 7:0 => e0 history head 1 [1<0 1]
        time 190000
        pump
        history a 7:0 => e0 history head 1 gap 0..1 Evicted []
    " }
}

#[test]
fn history_pages() {
    script! { Setup::default(), "
        pub a 1, b 2, a 3, a 4 retain
        history a max 2 => e0 history head 4 [1<0 1, 3<1 3] more
        history a 7:3 max 2 => e0 history head 4 [4<3! 4]
        history a reverse max 2 => e0 history head 4 [4<3! 4, 3<1 3] more
        history a 7:3 reverse max 2 => e0 history head 4 [1<0 1]
        history a 7:0 => e0 history head 4 [1<0 1, 3<1 3, 4<3! 4]
        history c => e0 history head 4 []
        history a max 0 => e0 history head 4 [1<0 1] more
    " }
}
