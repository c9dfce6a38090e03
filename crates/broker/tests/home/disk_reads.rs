//! A home with a log on disk, as scripts: what memory cannot answer alone is asked of the disk.

use crate::script::{check, script};
use crate::support::Setup;

/// Memory for about five records of the scripts below.
fn small() -> Setup {
    Setup { cache_bytes: Some(400), segment_bytes: 110, age_max_ms: 1 << 40, ..Setup::default() }
}

#[test]
fn pages() {
    script! { small(), "
        pub a one, a two => append g0 a 1<0 one, 2<1 two
        pub b three => append g0 b 3<0 three
        pub a four => append g0 a 4<2 four
        pub b five => append g0 b 5<3 five
        pub a six, a seven, a eight => append g0 a 6<4 six, 7<6 seven, 8<7 eight
        commit 8
        count => topics 2 records 3 retained 0 indexes 0 lagging 0
        sub e0 s1 a since 7:1 => ask start a newest 1000 through 8 after 1
        answer => e0 granted s1 i0 g1 replaying through 1
        read e0 s1 i0 after 1 max 2 => ask page a 1..4
        turn => e0 consumed 9 of the log
        answer => e0 page s1 [2<1 two, 4<2 four] through 4
        turn => e0 consumed 1 pages
        read e0 s1 i0 after 4 max 2 => e0 page s1 [6<4 six, 7<6 seven] through 7
        answer => nothing
        read e0 s1 i0 after 7 max 2 => e0 page s1 [8<7 eight] through 8 caught-up
        sub e0 s2 b last 1 => ask start b newest 1 through 5 after 0
        answer => e0 granted s2 i1 g2 replaying through 3
        sub e1 s3 a last 2 => e1 granted s3 i0 g1 replaying through 6
        sub e1 s4 a last 5 => ask start a newest 5 through 8 after 0
        answer => e1 granted s4 i0 g2 replaying through 1
        sub e1 s5 a snapshot => e1 granted s5 i0 g3 replaying through 7
        sub e1 s6 a since 7:6 => e1 granted s6 i0 g4 replaying through 6
        sub e1 s7 b since 7:5 => e1 granted s7 i1 g5 live through 5
        sub e1 s8 a since 6:3 => ask start a newest 1000 through 8 after 0
        answer => e1 granted s8 i0 g6 replaying through 0 gap 0..0 UnknownEpoch
        sub e1 s9 a since 7:99 => ask start a newest 1000 through 8 after 0
        fail-read => e1 refused s9 LogUnavailable
        read e0 s1 i0 after 0 max 2 => ask page a 0..4
        fail-read => e0 refused s1 LogUnavailable
    " }
}

#[test]
fn lost() {
    script! { small(), "
        pub a one, a two, a three, a four, a five, a six, a seven
            append g0 a 1<0 one, 2<1 two, 3<2 three, 4<3 four, 5<4 five, 6<5 six, 7<6 seven
        commit 9
        sub e0 s1 a since 7:0 => ask start a newest 1000 through 7 after 0
        answer => e0 granted s1 i0 g1 replaying through 0
        read e0 s1 i0 after 0 => ask page a 0..4
        drop-below 3
        answer => e0 page s1 gap 0..2 Evicted [3<2 three, 4<3 four] through 4
        read e0 s1 i0 after 0 => ask page a 0..4
        answer => e0 page s1 gap 0..2 Evicted [3<2 three, 4<3 four] through 4
        damage 4
        read e0 s1 i0 after 2 => ask page a 2..4
        answer => e0 page s1 [3<2 three] through 3
        read e0 s1 i0 after 3 => ask page a 3..4
        answer => e0 page s1 gap 3..4 Damaged [] through 4
        read e0 s1 i0 after 4 => e0 page s1 [5<4 five, 6<5 six, 7<6 seven] through 7 caught-up
        drop-below 6
        read e0 s1 i0 after 1
            e0 page s1 gap 1..4 Evicted [5<4 five, 6<5 six, 7<6 seven] through 7 caught-up
    " }
}

#[test]
fn history() {
    script! { small(), "
        pub a one, a two, a three => append g0 a 1<0 one, 2<1 two, 3<2 three
        pub b other => append g0 b 4<0 other
        pub a four, a five, a six => append g0 a 5<3 four, 6<5 five, 7<6 six
        commit 9
        history a => ask start a newest 1000 through 7 after 0
        answer => ask page a 0..3
        answer => e0 history head 7 [1<0 one, 2<1 two, 3<2 three, 5<3 four, 6<5 five, 7<6 six]
        history a 7:2 max 2 => ask start a newest 1000 through 7 after 2
        answer => ask page a 2..3
        answer => e0 history head 7 [3<2 three, 5<3 four] more
        history a 7:5 => e0 history head 7 [6<5 five, 7<6 six]
        history a max 2 reverse => e0 history head 7 [7<6 six, 6<5 five] more
        history a 7:3 reverse => ask start a newest 1000 through 7 after 0
        answer => ask back a before 3 from 1
        answer => e0 history head 7 [2<1 two, 1<0 one]
        history a max 5 reverse => ask start a newest 1000 through 7 after 0
        answer => ask back a before 8 from 1
        answer => e0 history head 7 [7<6 six, 6<5 five, 5<3 four, 3<2 three, 2<1 two] more
        history a => ask start a newest 1000 through 7 after 0
        fail-read => e0 history LogUnavailable
        damage 2
        history a => ask start a newest 1000 through 7 after 0
        answer => ask page a 0..3
        answer => e0 history head 7 [1<0 one] more
        history a 7:1 => ask start a newest 1000 through 7 after 1
        answer => ask page a 1..3
        answer => e0 history head 7 gap 1..2 Damaged [3<2 three, 5<3 four, 6<5 five, 7<6 six]
        history a 7:3 reverse => ask start a newest 1000 through 7 after 0
        answer => ask back a before 3 from 1
        answer => e0 history head 7 gap 1..2 Damaged [1<0 one]
        history a 7:2 reverse => ask start a newest 1000 through 7 after 0
        answer => ask back a before 2 from 1
        answer => e0 history head 7 [1<0 one]
        drop-below 4
        history a 7:0 => e0 history head 7 gap 0..3 Evicted [5<3 four, 6<5 five, 7<6 six]
        history a reverse => e0 history head 7 [7<6 six, 6<5 five, 5<3 four]
        history nobody => e0 history head 7 []
        history b reverse max 1 => ask start b newest 1000 through 4 after 0
        fail-read
    " }
}

#[test]
fn history_limits() {
    let setup = Setup { history_messages_max: 5, history_age_max_ms: 100, ..small() };
    script! { setup, "
        pub a one, a two, a three, a four, a five, a six, a seven
            append g0 a 1<0 one, 2<1 two, 3<2 three, 4<3 four, 5<4 five, 6<5 six, 7<6 seven
        commit 9
        sub e0 s1 a since 7:1 => ask start a newest 5 through 7 after 1
        answer => e0 granted s1 i0 g1 replaying through 2 gap 1..2 HistoryLimit
        history a => ask start a newest 5 through 7 after 0
        answer => ask page a 2..4
        answer => e0 history head 7 [3<2 three, 4<3 four, 5<4 five, 6<5 six, 7<6 seven]
        time 50
        pub a eight => append g0 a 8<7 eight
        commit 1 => e0 message i0 8<7 eight
        time 51
        sub e0 s2 a since 7:1 => e0 granted s2 i0 g2 replaying through 7 gap 1..7 HistoryLimit
        history a => e0 history head 8 [8<7 eight]
        history a reverse => e0 history head 8 [8<7 eight]
        time 50
        sub e0 s3 a since 7:6 => e0 granted s3 i0 g3 live through 8 gap 6..8 HistoryLimit
        history a => e0 history head 8 []
    " }
}

#[test]
fn a_stream_that_lags_beyond_memory() {
    let setup = Setup {
        edges: 1,
        limits: broker::settings::Limits { stream_credit_bytes: 100, ..Default::default() },
        ..small()
    };
    script! { setup, "
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 0
        pub a one, a two, a three, a four, a five, a six, a seven
            append g0 a 1<0 one, 2<1 two, 3<2 three, 4<3 four, 5<4 five, 6<5 six, 7<6 seven
        commit 9 => e0 message i0 1<0 one
        credit e0 100
        pump => e0 stream-gap 1..7
        read e0 s1 i0 after 2 => ask page a 2..4
        answer => e0 page s1 [3<2 three, 4<3 four] through 4
        read e0 s1 i0 after 4 => e0 page s1 [5<4 five, 6<5 six, 7<6 seven] through 7 caught-up
    " }
}

#[test]
fn the_newest_only() {
    script! { small(), "
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 0
        pub a one, a two => append g0 a 1<0 one, 2<1 two
        pub b x, b x, b x, b x, b x, b x => append g0 b 3<0 x, 4<3 x, 5<4 x, 6<5 x, 7<6 x, 8<7 x
        commit 9 => e0 message i0 1<0 one, 2<1 two
        read e0 s1 i0 after 0 newest => ask page a 1..2
        answer => e0 page s1 skipped through 1 [2<1 two] through 2
        read e0 s1 i0 after 2 newest => e0 page s1 [] through 8 caught-up
        read e0 s1 i0 after 0 skip => e0 page s1 skipped through 8 [] through 8 caught-up
        damage 2
        read e0 s1 i0 after 0 newest => ask page a 1..2
        answer => e0 page s1 gap 0..2 Damaged [] through 2
    " }
}

/// Records that are missing at the start of a subscription or a history are damaged, and not left
/// out by a rule, unless the rule would have left them out anyway.
#[test]
fn damage_where_a_replay_begins() {
    let script = "
        pub a one => append g0 a 1<0 one
        pub a two => append g0 a 2<1 two
        pub a three => append g0 a 3<2 three
        pub a four => append g0 a 4<3 four
        pub a five => append g0 a 5<4 five
        pub a six => append g0 a 6<5 six
        pub a seven => append g0 a 7<6 seven
        commit 9
        damage 2
        sub e0 s1 a since 7:1 => ask start a newest 1000 through 7 after 1
        answer => e0 granted s1 i0 g1 replaying through 2 gap 1..2 Damaged
        damage 1
        sub e0 s2 a since 7:0 => ask start a newest 1000 through 7 after 0
        answer => e0 granted s2 i0 g2 replaying through 2 gap 0..2 Damaged
        history a 7:0 => ask start a newest 1000 through 7 after 0
        answer => ask page a 2..4
        answer
            e0 history head 7 gap 0..2 Damaged [3<2 three, 4<3 four, 5<4 five, 6<5 six, 7<6 seven]
        drop-below 3
        sub e0 s3 a since 7:0 => ask start a newest 1000 through 7 after 0
        answer => e0 granted s3 i0 g3 replaying through 2 gap 0..2 Evicted
        ";
    check(small(), script);
    let limited = Setup { history_messages_max: 4, ..small() };
    script! { limited, "
        pub a one, a two, a three, a four, a five, a six, a seven
            append g0 a 1<0 one, 2<1 two, 3<2 three, 4<3 four, 5<4 five, 6<5 six, 7<6 seven
        commit 9
        damage 2
        sub e0 s1 a since 7:1 => ask start a newest 4 through 7 after 1
        answer => e0 granted s1 i0 g1 replaying through 3 gap 1..3 HistoryLimit
    " }
}
