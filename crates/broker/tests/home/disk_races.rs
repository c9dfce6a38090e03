//! A home with a log on disk, as scripts: answers of the disk that come when much has happened
//! since the question, and bounds that are reached while publications wait.

use crate::script::{check, script};
use crate::support::Setup;
use broker::settings::Limits;

/// Memory for about five records of the scripts below.
fn small() -> Setup {
    Setup {
        edges: 1,
        cache_bytes: Some(400),
        segment_bytes: 110,
        age_max_ms: 1 << 40,
        ..Setup::default()
    }
}

/// Names of publications count as bytes of a retained message.
#[test]
fn names_count_as_retained_bytes() {
    for name in ["key=", "by="] {
        let name = format!("{name}{}:1@1", "k".repeat(32));
        check(
            Setup { retained_bytes_max: 60, ..small() },
            &format!(
                "
        pub a one retain ack {name} => e0 published RetainedFull
        pub a one retain ack => append g0 a 1<0! one
        "
            ),
        );
    }
}

/// The disk drops everything between a question and its answer, and memory has the newest.
#[test]
fn dropped_before_the_answer() {
    script! { small(), "
        pub a one, a two, a three, a four, a five, a six, a seven
            append g0 a 1<0 one, 2<1 two, 3<2 three, 4<3 four, 5<4 five, 6<5 six, 7<6 seven
        commit 9
        history a reverse => ask start a newest 1000 through 7 after 0
        answer => ask back a before 8 from 1
        history a => ask start a newest 1000 through 7 after 0
        sub e0 s1 a since 7:0 => ask start a newest 1000 through 7 after 0
        drop-below 8
        answer => e0 history head 7 [7<6 seven, 6<5 six, 5<4 five]
        answer => e0 history head 7 [5<4 five, 6<5 six, 7<6 seven]
        answer => e0 granted s1 i0 g1 replaying through 4 gap 0..4 Evicted
        turn => e0 consumed 10 of the log
    " }
}

/// The disk drops a page's range between its question and the answer, and memory has moved on: the
/// page begins where the disk begins now.
#[test]
fn a_page_of_history_that_is_dropped_before_the_answer() {
    script! { small(), "
        pub a one, a two, a three, a four, a five, a six, a seven
            append g0 a 1<0 one, 2<1 two, 3<2 three, 4<3 four, 5<4 five, 6<5 six, 7<6 seven
        commit 9
        history a 7:1 => ask start a newest 1000 through 7 after 1
        answer => ask page a 1..4
        pub a eight, a nine, a ten => append g0 a 8<7 eight, 9<8 nine, 10<9 ten
        commit 9
        drop-below 6
        answer => ask start a newest 1000 through 10 after 1
        answer => ask page a 5..7
        answer
            e0 history head 10 gap 1..5 Evicted [6<5 six, 7<6 seven, 8<7 eight, 9<8 nine, 10<9 ten]
    " }
}

/// The disk drops everything that it is asked about for a history's beginning, and memory has left
/// to it what came behind that meanwhile: what the disk has now is served, and not taken for lost.
#[test]
fn a_beginning_of_history_that_is_dropped_before_the_answer() {
    script! { small(), "
        pub a one, a two, a three, a four, a five, a six, a seven
            append g0 a 1<0 one, 2<1 two, 3<2 three, 4<3 four, 5<4 five, 6<5 six, 7<6 seven
        commit 9
        history a 7:1 => ask start a newest 1000 through 7 after 1
        history a reverse => ask start a newest 1000 through 7 after 0
        pub a eight, a nine, a ten, a eleven, a twelve
            append g0 a 8<7 eight, 9<8 nine, 10<9 ten, 11<10 eleven, 12<11 twelve
        commit 9
        drop-below 8
        answer => ask start a newest 1000 through 12 after 1
        answer => ask start a newest 1000 through 12 after 0
        answer => ask page a 7..9
        answer => ask back a before 13 from 8
        answer
            e0 history head 12 gap 1..7 Evicted [8<7 eight, 9<8 nine, 10<9 ten, 11<10 eleven, 12<11 twelve]
        answer => e0 history head 12 [12<11 twelve, 11<10 eleven, 10<9 ten, 9<8 nine, 8<7 eight]
    " }
}

/// A topic is forgotten while its requests are parked, and there is no room for it any more.
#[test]
fn parked_and_forgotten() {
    script! { Setup { limits: Limits { topics_max: 3, ..Limits::default() }, ..small() }, "
        pub a one => append g0 a 1<0 one
        pub b two, b three, b four, b five, b six
            append g0 b 2<0 two, 3<2 three, 4<3 four, 5<4 five, 6<5 six
        commit 9
        sub e0 s1 a last 3 => ask start a newest 3 through 1 after 0
        history a => ask start a newest 1000 through 1 after 0
        history a reverse => ask start a newest 1000 through 1 after 0
        drop-below 3
        pump
        pub c x => append g0 c 7<1 x
        pub d x => append g0 d 8<1 x
        commit 2
        answer => e0 refused s1 TopicsFull
        answer => e0 history head 8 []
        answer => e0 history head 8 []
        turn => e0 consumed 11 of the log
    " }
}

/// A page comes when its index stands for another topic; a start finds a new one.
#[test]
fn parked_and_released() {
    script! { small(), "
        pub a one => append g0 a 1<0 one
        pub b two, b three, b four, b five, b six
            append g0 b 2<0 two, 3<2 three, 4<3 four, 5<4 five, 6<5 six
        commit 9
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 6
        read e0 s1 i0 after 0 => ask page a 0..1
        sub e0 s2 a since 7:0 => ask start a newest 1000 through 1 after 0
        release e0 i0 g1 => e0 released i0
        sub e0 s3 b live => e0 granted s3 i0 g2 live through 6
        answer => e0 page s1 [1<0 one] through 1
        answer => e0 granted s2 i1 g3 replaying through 0
        pub a seven => append g0 a 7<1 seven
        commit 1 => e0 message i1 7<1 seven
        turn
            e0 consumed 3
            e0 consumed 8 of the log
            e0 consumed 1 pages
    " }
}

/// A stream lags, and memory takes neither what it lags behind nor what follows.
#[test]
fn a_stream_that_lags_and_memory_that_refuses() {
    check(
        Setup {
            message_bytes_max: 1000,
            limits: Limits { stream_credit_bytes: 100, ..Limits::default() },
            ..small()
        },
        "
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 0
        pub a one, a two, a x*800, a four => append g0 a 1<0 one, 2<1 two, 3<2 800 bytes, 4<3 four
        commit 4 => e0 message i0 1<0 one
        read e0 s1 i0 after 1
            e0 stream-gap 1..4
            ask page a 1..3
        answer => e0 page s1 [2<1 two, 3<2 800 bytes] through 3
        read e0 s1 i0 after 3 => e0 page s1 [4<3 four] through 4 caught-up
        credit e0 100
        pump
        pub a x*800 => append g0 a 5<4 800 bytes
        commit 1 => e0 message i0 5<4 800 bytes
        pump
        credit e0 100
        pump
        read e0 s1 i0 after 4 => ask page a 4..5
        answer => e0 page s1 [5<4 800 bytes] through 5
        read e0 s1 i0 after 5 => e0 page s1 [] through 5 caught-up
        ",
    );
}

/// The disk drops records between the question of a filter's page and its answer: what it has not
/// seen is a gap.
#[test]
fn a_scan_of_what_is_dropped() {
    script! { small(), "
        pub a one => append g0 a 1<0 one
        pub b two => append g0 b 2<0 two
        pub a three, a four, a five, a six, a seven
            append g0 a 3<1 three, 4<3 four, 5<4 five, 6<5 six, 7<6 seven
        commit 9
        scan e0 s1 p0 + after 0 => ask scan 0..4
        scan e0 s2 p0 b after 0 => ask scan 0..4
        scan e0 s3 p0 + after 0 => ask scan 0..4
        drop-below 3
        answer => e0 page s1 p0 after 0 gap 0..2 Evicted [a 3<1 three, a 4<3 four] through 4
        answer => e0 page s2 p0 after 0 gap 0..2 Evicted [] through 4
        drop-below 8
        answer => e0 page s3 p0 after 0 gap 0..4 Evicted [] through 4
    " }
}

/// The disk drops records before it is read for a filter's page, and others while the answer is on
/// its way: what it had dropped when it was read is a gap, and what it has read is brought.
#[test]
fn a_scan_between_two_drops() {
    script! { small(), "
        pub a one => append g0 a 1<0 one
        pub b two => append g0 b 2<0 two
        pub a three, a four, a five, a six, a seven
            append g0 a 3<1 three, 4<3 four, 5<4 five, 6<5 six, 7<6 seven
        commit 9
        scan e0 s1 p0 + after 0 => ask scan 0..4
        drop-below 3
        look
        drop-below 8
        answer => e0 page s1 p0 after 0 gap 0..2 Evicted [a 3<1 three, a 4<3 four] through 4
    " }
}

/// All that a page of history asks the disk for is damaged, and the following records have left
/// memory meanwhile: the page continues behind the damage and reports it.
#[test]
fn a_page_of_history_that_is_nothing_but_damage() {
    script! { small(), "
        pub a one, a two, a three, a four, a five, a six, a seven
            append g0 a 1<0 one, 2<1 two, 3<2 three, 4<3 four, 5<4 five, 6<5 six, 7<6 seven
        commit 9
        damage 2
        damage 3
        damage 4
        history a 7:1 => ask start a newest 1000 through 7 after 1
        answer => ask page a 1..4
        pub a eight, a nine => append g0 a 8<7 eight, 9<8 nine
        commit 9
        answer => ask start a newest 1000 through 9 after 4
        answer => ask page a 4..6
        answer
            e0 history head 9 gap 1..4 Damaged [5<4 five, 6<5 six, 7<6 seven, 8<7 eight, 9<8 nine]
        turn => e0 consumed 10 of the log
    " }
}
