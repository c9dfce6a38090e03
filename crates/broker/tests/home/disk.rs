//! A home with a log on disk, as scripts: staging, refusal, floors, epochs, a start.

use crate::script::{check, script};
use crate::support::Setup;
use broker::settings::OlderEpoch;

/// Memory for about five records of the scripts below.
fn small() -> Setup {
    Setup { cache_bytes: Some(400), segment_bytes: 110, age_max_ms: 1 << 40, ..Setup::default() }
}

#[test]
fn staging() {
    script! { small(), "
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 0
        pub a one ack => append g0 a 1<0 one
        pub a two ack => append g0 a 2<1 two
        pub b three ack => append g0 b 3<0 three
        waiting => staged 3 disk 0 pages 0 unavailable 0 uncached 0
        turn => e0 consumed 1
        commit 2
            e0 published 7:1
            e0 message i0 1<0 one
            e0 published 7:2
            e0 message i0 2<1 two
        turn => e0 consumed 2 of the log
        commit 2 => e0 published 7:3
        turn => e0 consumed 1 of the log
        waiting => staged 0 disk 0 pages 0 unavailable 0 uncached 0
    " }
}

#[test]
fn failure() {
    script! { small(), "
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 0
        pub a one ack => append g0 a 1<0 one
        pub a two ack => append g0 a 2<1 two
        pub new x ack => append g0 new 3<0 x
        count => topics 2 records 0 retained 0 indexes 1 lagging 0
        commit 1
            e0 published 7:1
            e0 message i0 1<0 one
        fail => e0 published LogUnavailable, LogUnavailable
        count => topics 1 records 1 retained 0 indexes 1 lagging 0
        turn
            e0 consumed 1
            e0 consumed 3 of the log
        pub a three ack => append g1 a 4<1 three
        pub new y retain ack => append g1 new 5<0! y
        commit 9
            e0 published 7:4
            e0 message i0 4<1 three
            e0 published 7:5
        available no
        waiting => staged 0 disk 0 pages 0 unavailable 1 uncached 0
        pub a four ack => e0 published LogUnavailable
        pub a four refusals => e0 published LogUnavailable
        available yes
        pub a five => append g1 a 6<4 five
        fail full
        pub a six refusals => append g2 a 7<4 six
        commit 1 => e0 message i0 7<4 six
        pub a seven refusals => append g2 a 8<7 seven
        fail => e0 published LogUnavailable
    " }
}

#[test]
fn retained_in_time() {
    let setup = Setup { retained_bytes_max: 100, ..small() };
    script! { setup, "
        pub a x*20 retain ack => append g0 a 1<0! xxxxxxxxxxxxxxxxxxxx
        pub b x*20 retain ack => e0 published RetainedFull
        pub a x*30 retain ack => append g0 a 2<1! 30 bytes
        pub a empty retain ack => append g0 a 3<2! empty
        pub b x*20 retain ack => append g0 b 4<0! xxxxxxxxxxxxxxxxxxxx
        commit 1 => e0 published 7:1
        count => topics 2 records 1 retained 1 indexes 0 lagging 0
        fail => e0 published LogUnavailable, LogUnavailable, LogUnavailable
        count => topics 1 records 1 retained 1 indexes 0 lagging 0
        pub b x*20 retain ack => e0 published RetainedFull
        pub a empty retain ack => append g1 a 5<1! empty
        commit 2 => e0 published 7:5
        count => topics 1 records 2 retained 0 indexes 0 lagging 0
    " }
}

#[test]
fn floors_and_forgetting() {
    script! { small(), "
        pub a one => append g0 a 1<0 one
        pub b two => append g0 b 2<0 two
        pub c three retain => append g0 c 3<0! three
        pub d four => append g0 d 4<0 four
        pub e five => append g0 e 5<0 five
        commit 9
        count => topics 5 records 3 retained 1 indexes 0 lagging 0
        sub e0 s1 b live => e0 granted s1 i0 g1 live through 5
        drop-below 6
        count => topics 5 records 3 retained 1 indexes 1 lagging 0
        pump
        count => topics 4 records 3 retained 1 indexes 1 lagging 0
        release e0 i0 g1 => e0 released i0
        count => topics 3 records 3 retained 1 indexes 0 lagging 0
        pub a six ack => append g0 a 6<2 six
        drop-below 7
        pump
        commit 1 => e0 published 7:6
        count => topics 4 records 3 retained 1 indexes 0 lagging 0
        sub e0 s2 b since 7:3 => e0 granted s2 i0 g2 live through 3
        sub e0 s3 b since 7:5 => e0 granted s3 i0 g3 live through 5
    " }
}

#[test]
fn more_than_memory_takes() {
    let setup = Setup { message_bytes_max: 1000, ..small() };
    script! { setup, "
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 0
        pub a one => append g0 a 1<0 one
        pub a x*800 ack => append g0 a 2<1 800 bytes
        pub b two => append g0 b 3<0 two
        commit 9
            e0 message i0 1<0 one
            e0 published 7:2
            e0 message i0 2<1 800 bytes
        waiting => staged 0 disk 0 pages 0 unavailable 0 uncached 1
        count => topics 2 records 1 retained 0 indexes 1 lagging 0
        sub e1 s2 a since 7:0 => ask start a newest 1000 through 2 after 0
        answer => e1 granted s2 i0 g1 replaying through 0
        read e1 s2 i0 after 0 => ask page a 0..2
        answer => e1 page s2 [1<0 one, 2<1 800 bytes] through 2
        read e1 s2 i0 after 2 => e1 page s2 [] through 3 caught-up
    " }
}

#[test]
fn older_epochs() {
    let setup = Setup {
        older_epochs: vec![
            OlderEpoch { epoch: 5, valid_below: vec![3] },
            OlderEpoch { epoch: 6, valid_below: vec![5] },
        ],
        ..small()
    };
    script! { setup, "
        pub a one, a two, a three, a four => append g0 a 1<0 one, 2<1 two, 3<2 three, 4<3 four
        commit 9
        sub e0 s1 a since 6:4 => e0 granted s1 i0 g1 live through 4
        sub e0 s2 a since 6:5 => ask start a newest 1000 through 4 after 0
        answer => e0 granted s2 i0 g2 replaying through 0 gap 0..0 UnknownEpoch
        sub e0 s3 a since 5:2 => e0 granted s3 i0 g3 replaying through 2
        sub e0 s4 a since 5:3 => ask start a newest 1000 through 4 after 0
        answer => e0 granted s4 i0 g4 replaying through 0 gap 0..0 UnknownEpoch
        history a 5:2 => e0 history head 4 [3<2 three, 4<3 four]
        history a 5:3 max 1 => ask start a newest 1000 through 4 after 0
        answer => ask page a 0..1
        answer => e0 history head 4 gap 0..0 UnknownEpoch [1<0 one] more
    " }
}

#[test]
fn a_start() {
    script! { small(), "
        pub a one => append g0 a 1<0 one
        pub b two retain => append g0 b 2<0! two
        pub c three retain => append g0 c 3<0! three
        pub a four, a five => append g0 a 4<1 four, 5<4 five
        commit 9
        pub a lost => append g0 a 6<5 lost
        drop-below 4
        restart
        count => topics 1 records 2 retained 0 indexes 0 lagging 0
        sub e0 s1 b snapshot => e0 granted s1 i0 g1 live through 5
        sub e0 s2 b since 7:2 => e0 granted s2 i0 g2 live through 3 gap 2..3 Evicted
        sub e0 s3 b since 7:3 => e0 granted s3 i0 g3 live through 3
        sub e0 s4 c since 7:5 => e0 granted s4 i1 g4 live through 5
        sub e0 s5 a since 7:3 => e0 granted s5 i2 g5 replaying through 3
        pub b six ack => append g0 b 6<3 six
        commit 9
            e0 published 7:6
            e0 message i0 6<3 six
    " }
}

/// A start on a full disk: existing records are served, from memory and from the disk; no
/// publication is accepted and no question asked until the log thread permits it.
#[test]
fn a_start_on_a_full_disk() {
    script! { small(), "
        pub a one ack key=k => append g0 a 1<0 one
        pub a two retain, a three => append g0 a 2<1! two, 3<2 three
        commit 9 => e0 published 7:1
        restart full
        waiting => staged 0 disk 0 pages 0 unavailable 1 uncached 0
        sub e0 s1 a since 7:1 => e0 granted s1 i0 g1 replaying through 1
        sub e0 s2 a snapshot => e0 granted s2 i0 g2 live through 3 retained 2<1! two
        history a => ask start a newest 1000 through 3 after 0
        pub a four ack => e0 published LogUnavailable
        pub b four ack => e0 published LogUnavailable
        count => topics 1 records 2 retained 1 indexes 1 lagging 0
        available yes
        waiting => staged 0 disk 1 pages 0 unavailable 0 uncached 0
        pub a four ack => append g0 a 4<3 four
        commit 9
            e0 published 7:4
            e0 message i0 4<3 four
    " }
}

/// A repetition of a staged publication is answered with the first; a refused one may come again.
#[test]
fn publish_once() {
    script! { small(), "
        pub a one ack key=k => append g0 a 1<0 one
        pub a one ack key=k
        pub b one ack key=k => append g0 b 2<0 one
        turn
        commit 1 => e0 published 7:1, 7:1 duplicate
        turn => e0 consumed 2 of the log
        pub a one ack key=k => e0 published 7:1 duplicate
        pub a two ack key=l => append g0 a 3<1 two
        pub a two ack key=l
        fail => e0 published LogUnavailable, LogUnavailable, LogUnavailable
        pub a two ack key=l => append g1 a 4<1 two
        commit 9 => e0 published 7:4
        pub a three, a four, a five, a six, a seven, a eight
            append g1 a 5<4 three, 6<5 four, 7<6 five, 8<7 six, 9<8 seven, 10<9 eight
        commit 9
        pub a one ack key=k => e0 published 7:1 duplicate
        restart
        pub a two ack key=l => append g0 a 11<10 two
    " }
}

/// The disk takes publications back, but not who owns their producer.
#[test]
fn fencing_outlives_a_refusal() {
    script! { small(), "
        pub a one ack by=p:1@1 => append g0 a 1<0 one
        pub a one ack by=p:1@2
        pub a two ack by=p:2@1 => e0 published ProducerFenced
        fail => e0 published LogUnavailable, LogUnavailable
        pub a two ack by=p:2@1 => e0 published ProducerFenced
        pub a one ack by=p:1@2 => append g1 a 2<0 one
        commit 1 => e0 published 7:2
    " }
}

/// Publications behind a failed batch do not come before the batch's repetition.
#[test]
fn a_failed_batch_holds_what_follows() {
    script! { small(), "
        pub a one ack by=p:1@1 => append g0 a 1<0 one
        pub a two ack by=p:2@1 => append g0 a 2<1 two
        pub a key by=q:1@1 => append g0 a 3<2 key
        fail => e0 published LogUnavailable, LogUnavailable
        pub a three ack by=p:3@1 => e0 published LogUnavailable
        pub a key ack by=q:2@1 => append g1 a 4<0 key
        pub a one ack by=p:1@1 => append g1 a 5<4 one
        pub a two ack by=p:2@1 => append g1 a 6<5 two
        pub a three ack by=p:3@1 => append g1 a 7<6 three
        commit 4 => e0 published 7:4, 7:5, 7:6, 7:7
    " }
}

/// A sequence belongs to one topic, whether its record is staged, in memory or on disk only.
#[test]
fn a_sequence_of_two_topics() {
    script! { small(), "
        pub a one ack by=p:1@1 => append g0 a 1<0 one
        pub b one ack by=p:1@1 => e0 published OutOfOrder
        commit 1 => e0 published 7:1
        pub b one ack by=p:1@1 => e0 published OutOfOrder
        pub b x*400 => append g0 b 2<0 400 bytes
        commit 1
        count => topics 2 records 0 retained 0 indexes 0 lagging 0
        pub b one ack by=p:1@1 => e0 published OutOfOrder
        pub a one ack by=p:1@1 => e0 published 7:1 duplicate
    " }
}

/// A subscription that conflates, or drops, and whose newest record is on disk only.
/// So many pages in one turn, and no more; publications do not wait for the others.
#[test]
fn a_turn_is_bounded() {
    let page = "
        read e0 s1 i0 after 0 => e0 page s1 [] through 0 caught-up"
        .repeat(32);
    let waits = "
        read e0 s1 i0 after 0"
        .repeat(40);
    let first = "
            e0 page s1 [1<0 one] through 1 caught-up"
        .repeat(32);
    let second = "
            e0 page s1 [1<0 one] through 1 caught-up"
        .repeat(8);
    check(
        small(),
        &format!(
            "
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 0{page}{waits}
        waiting => staged 0 disk 0 pages 40 unavailable 0 uncached 0
        pub a one ack => append g0 a 1<0 one
        commit 1
            e0 published 7:1
            e0 message i0 1<0 one
        turn
            e0 consumed 1
            e0 consumed 1 of the log
            e0 consumed 32 pages
        pump => more{first}
        turn => e0 consumed 32 pages
        pump{second}
        waiting => staged 0 disk 0 pages 0 unavailable 0 uncached 0
        "
        ),
    );
}

/// A start numbers topics anew, and retained messages keep their names.
#[test]
fn a_start_finds_retained_messages_of_a_filter() {
    script! { small(), "
        pub gone one => append g0 gone 1<0 one
        pub a/x two retain => append g0 a/x 2<0! two
        pub b/x three retain => append g0 b/x 3<0! three
        commit 9
        find e0 s1 a/+ => e0 found a/x two
        drop-below 2
        restart
        find e0 s1 a/+ => e0 found a/x two
        find e0 s1 # => e0 found a/x two b/x three
        find e0 s1 b/x => e0 found b/x three
    " }
}
