//! A home after a start that has found damage, as scripts: a client with a position before it gets
//! a gap, even if records of the topic are left.

use crate::script::script;
use crate::support::Setup;
use broker::settings::OlderEpoch;

/// The log had epoch 6 before the damage; memory has room for a few records.
fn damaged(valid_below: u64) -> Setup {
    Setup {
        cache_bytes: Some(400),
        segment_bytes: 110,
        age_max_ms: 1 << 40,
        older_epochs: vec![OlderEpoch { epoch: 6, valid_below: vec![valid_below] }],
        ..Setup::default()
    }
}

/// The newest record of a topic is lost, and later ones of others are there.
#[test]
fn the_newest_of_a_topic_is_lost() {
    script! { damaged(2), "
        pub t one, t two => append g0 t 1<0 one, 2<1 two
        pub u three => append g0 u 3<0 three
        commit 9
        lose 2
        restart
        sub e0 s1 t since 6:1 => e0 granted s1 i0 g1 live through 2 gap 1..2 Damaged
        sub e0 s2 u since 6:1 => e0 granted s2 i1 g2 replaying through 1
        sub e1 s3 t since 7:2 => e1 granted s3 i0 g1 live through 2
        sub e1 s4 t since 7:0 => ask start t newest 1000 through 1 after 0
        answer => e1 granted s4 i0 g2 replaying through 0
        read e1 s4 i0 after 0 => ask page t 0..1
        answer => e1 page s4 [1<0 one] through 1
        read e1 s4 i0 after 1 => e1 page s4 gap 1..2 Damaged [] through 3 caught-up
        sub e1 s5 t last 5 => ask start t newest 5 through 1 after 0
        answer => e1 granted s5 i0 g3 replaying through 0
        history t 6:1 => e0 history head 3 gap 1..2 Damaged []
        history t => ask start t newest 1000 through 1 after 0
        answer => ask page t 0..1
        answer => e0 history head 3 [1<0 one] more
        history t 7:1 => e0 history head 3 gap 1..2 Damaged []
        history t reverse => ask start t newest 1000 through 1 after 0
        answer => ask back t before 2 from 1
        answer => e0 history head 3 gap 1..2 Damaged [1<0 one]
        pub t four => append g0 t 4<2 four
        commit 9
            e0 message i0 4<2 four
            e1 message i0 4<2 four
        sub e1 s6 t since 6:1 => ask start t newest 1000 through 4 after 1
        answer => e1 granted s6 i0 g4 replaying through 2 gap 1..2 Damaged
        read e1 s4 i0 after 0 => ask page t 0..2
        answer => e1 page s4 [1<0 one] through 1
        read e1 s4 i0 after 1 => ask page t 1..2
        answer => e1 page s4 gap 1..2 Damaged [] through 2
        read e1 s4 i0 after 2 => e1 page s4 [4<2 four] through 4 caught-up
    " }
}

/// All records of a topic are lost, and its name with them.
#[test]
fn all_of_a_topic_is_lost() {
    script! { damaged(1), "
        pub t one => append g0 t 1<0 one
        pub u two => append g0 u 2<0 two
        commit 9
        lose 1
        restart
        history t 6:0 => e0 history head 2 gap 0..1 Damaged []
        history t => e0 history head 2 gap 0..1 Damaged []
        history t reverse => e0 history head 2 gap 0..1 Damaged []
        sub e0 s1 t since 6:0 => e0 granted s1 i0 g1 live through 1 gap 0..1 Damaged
        sub e0 s2 other last 3 => e0 granted s2 i1 g2 live through 1 gap 0..1 Damaged
        sub e0 s3 third since 7:1 => e0 granted s3 i2 g3 live through 1
        drop-below 2
        sub e0 s4 t2 since 6:0 => e0 granted s4 i3 g4 live through 1 gap 0..1 Evicted
        sub e0 s5 t3 last 3 => e0 granted s5 i4 g5 live through 2
    " }
}

/// A page of filters ends before damage: nothing but the damage is a gap.
#[test]
fn filters_are_told_of_damage_alone() {
    script! { damaged(2), "
        pub a one, a two, a three, a four => append g0 a 1<0 one, 2<1 two, 3<2 three, 4<3 four
        commit 9
        lose 2
        restart
        filter e0 s1 + => e0 filter s1 p0 through 7:4
        scan e0 s1 p0 + after 0 => ask scan 0..2
        answer => e0 page s1 p0 after 0 [a 1<0 one] through 1
        scan e0 s1 p0 + after 1 => ask scan 1..2
        answer => e0 page s1 p0 after 1 gap 1..2 Damaged [] through 2
        scan e0 s1 p0 + after 2
            e0 page s1 p0 after 2 [a 3<2 three, a 4<3 four] through 4 caught-up
    " }
}
