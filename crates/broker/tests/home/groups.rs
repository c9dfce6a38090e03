//! Groups of shared subscriptions, as scripts.

use crate::script::script;
use crate::support::Setup;

/// Memory for about five records.
fn small() -> Setup {
    Setup { cache_bytes: Some(400), segment_bytes: 110, age_max_ms: 1 << 40, ..Setup::default() }
}

/// A member hears the place of its group at once: its session may have to continue there.
#[test]
fn members_know_the_place() {
    script! { Setup::default(), "
        pub a one, a two
        join e0 m1 g/# => e0 joined m1 through 2
        pub a three => e0 to m1 3<2 three through 2
        pub a four
        join e0 m2 g/#
            e0 joined m2 through 2
            e0 to m2 4<3 four through 2
        done e0 m2 4
        join e0 m3 g/# => e0 joined m3 through 2
        done e0 m1 3
        join e0 m4 g/# => e0 joined m4 through 4
    " }
}

/// After a start, a new member comes first: the messages that a sleeping session of the group lacks
/// come all the same, each once, and the place of the group is before them until they are
/// acknowledged.
#[test]
fn a_session_returns_behind_a_new_member() {
    script! { Setup::default(), "
        pub a one, a two, a three
        join e0 m1 g/# => e0 joined m1 through 3
        pub a four => e0 to m1 4<3 four through 3
        join e0 m2 g/# since 7:1 room 1
            e0 joined m2 through 1
            e0 to m2 2<1 two through 1
        join e0 m3 g/# since 7:0
            e0 joined m3 through 1
            e0 to m3 3<2 three through 1
        done e0 m3 3
        done e0 m2 2
        join e0 m4 g/# => e0 joined m4 through 3
        done e0 m1 4
        pub a five => e0 to m1 5<4 five through 4
    " }
}

/// After a start, a session that still sleeps has told its group's place.
#[test]
fn a_session_that_sleeps_over_a_start_holds_the_place() {
    script! { Setup::default(), "
        pub a one, a two, a three
        join e0 m1 g/# since 7:1 room 0 => e0 joined m1 through 1
        leave e0 m1 g/# until 60000
        join e0 m2 g/# room 2
            e0 joined m2 through 1
            e0 to m2 2<1 two through 1
            e0 to m2 3<2 three through 1
    " }
}

/// The disk cannot read a page for a group: it is asked again after a second, without an
/// acknowledgement.
#[test]
fn a_page_is_read_again() {
    script! { small(), "
        pub a one, a two, a three, a four, a five, a six, a seven, a eight
            append g0 a 1<0 one, 2<1 two, 3<2 three, 4<3 four, 5<4 five, 6<5 six, 7<6 seven
            append g0 a 8<7 eight
        commit 8
        join e0 m1 g/# since 7:0
            e0 joined m1 through 0
            ask scan 0..5
        fail-read
        pump
        time +999
        pump
        time +1
        pump => ask scan 0..5
        answer => e0 to m1 1<0 one through 0
    " }
}
