//! Retained messages of a log in an engine whose topic is compacted, as scripts.
//!
//! `restart-at 0 complete 900000` begins at the log's first record; compaction may have removed
//! records that are older than 900 s. `aged 1000000` says that the records that come are so old.

use crate::engine::in_engine;
use crate::script::script;
use crate::support::Setup;

fn compacted() -> Setup {
    Setup { is_compacted: true, ..in_engine() }
}

/// The newest message of a topic is its retained one, with or without the flag, of any producer. An
/// empty one with the flag takes it away, an empty one without it is a message.
#[test]
fn the_newest_message_is_retained() {
    script! { compacted(), "
        restart-at 0 primed 0 head 0 lineages 7@1
        pub a one ack => publish 1 a one
        pub b two ack retain => publish 2 b two
        tail 1 own 1 | own 2 => e0 published 7:1, 7:2
        sub e0 s1 a snapshot => e0 granted s1 i0 g1 live through 2 retained 1<0 one
        sub e0 s2 b snapshot => e0 granted s2 i1 g2 live through 2 retained 2<0 two
        tail 3 a three => e0 message i0 3<1 three
        sub e1 s3 a snapshot => e1 granted s3 i0 g1 live through 3 retained 3<1 three
        pub a empty ack => publish 3 a empty
        tail 4 own 3
            e0 published 7:4
            e0 message i0 4<3 empty
            e1 message i0 4<3 empty
        count => topics 2 records 4 retained 2 indexes 3 lagging 0
        pub a empty ack retain => publish 4 a empty removes
        tail 5 own 4
            e0 published 7:5
            e0 message i0 5<4 empty
            e1 message i0 5<4 empty
        count => topics 2 records 5 retained 1 indexes 3 lagging 0
        tail 6 b empty retain => e0 message i1 6<2 empty
        count => topics 2 records 6 retained 0 indexes 3 lagging 0
    " }
}

/// The publishing node refuses before it sends. What others write is retained all the same.
#[test]
fn room_for_retained_messages() {
    let setup = Setup { retained_bytes_max: 150, ..compacted() };
    script! { setup, "
        restart-at 0 primed 0 head 0 lineages 7@1
        pub a x*60 ack => publish 1 a xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
        tail 1 own 1 => e0 published 7:1
        pub b x*60 ack => e0 published RetainedFull
        pub b empty ack retain => publish 2 b empty removes
        pub a x*61 ack => publish 3 a xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
        tail 2 b x*60
        count => topics 2 records 2 retained 2 indexes 0 lagging 0
        count-restored => sent 0 left out 0 over 1
    " }
}

/// A beginning retains what compaction has left, serves none of it, and judges only records behind
/// which none is missing.
#[test]
fn a_beginning_fills_retained_messages() {
    script! { compacted(), "
        engine-time 10000000
        restart-at 1 complete 900000 primed 9 head 10 lineages 7@1
        aged 2000000
        tail 3 a one | b two | c three
        sub e0 s1 a snapshot
        aged 1900000
        tail 6 b empty retain | of 5:1 d four by=p:1@1
        count => topics 4 records 0 retained 3 indexes 0 lagging 0
        aged 899000
        tail 8 of 5:1 d four by=p:1@1 | of 5:2 e five
        pump => e0 granted s1 i0 g1 live through 9 retained 3<2 one
        count => topics 4 records 0 retained 4 indexes 1 lagging 0
    " }
}

/// All drop a record of another node. This home restores the retained message if no other home
/// has, and sends it again if it does not come back.
#[test]
fn a_home_restores_what_another_one_does_not() {
    script! { compacted(), "
        restart-at 0 primed 0 head 0 lineages 7@1
        tail 1 of 5:1 a one by=p:1@1 | a two
        tail 3 of 5:2 a one by=p:1@1
        time 59999
        pump
        time 60000
        pump => publish 1 a two restores 2 seen 3
        time 19999
        pump
        time 1
        pump => publish 2 a two restores 2 seen 3
        tail 4 own 2
        time 200000
        pump
        sub e0 s1 a snapshot => e0 granted s1 i0 g1 live through 4 retained 2<1 two
        history a 7:0 => e0 history head 4 [1<0 one, 2<1 two]
        count-restored => sent 2 left out 0 over 0
    " }
}

/// The home that sent the dropped record restores after five seconds, also when nothing is
/// retained.
#[test]
fn a_home_restores_behind_its_own_records() {
    script! { compacted(), "
        restart-at 0 primed 0 head 0 lineages 7@1
        tail 1 of 5:1 a one key=k | of 5:2 b one key=k | a empty retain
        pub a one ack key=k => publish 1 a one
        pub b one ack key=k => publish 2 b one
        tail 4 own 1 => e0 published 7:1 duplicate
        time 4999
        pump
        time 1
        pump => publish 3 a empty removes restores 3 seen 4
        tail 5 own 2 | own 3 => e0 published 7:2 duplicate
        time 5000
        pump => publish 4 b one restores 2 seen 6
        tail 7 own 4
        time 200000
        pump
        count => topics 2 records 3 retained 1 indexes 0 lagging 0
    " }
}

/// A newer message, or a restoration by somebody else that knows of the dropped record, is as good.
/// One that does not know the newest message is restored again, as is one that names positions of
/// another log, or of records that were lost.
#[test]
fn restorations_of_others() {
    script! { compacted(), "
        restart-at 0 primed 0 head 0 lineages 7@1
        tail 1 of 5:1 a one by=p:1@1 | of 5:1 a one by=p:1@1 | a three
        tail 4 of 5:2 b one by=p:2@1 | of 5:2 b one by=p:2@1 | restores 5:3 b one at=4 seen=5
        time 200000
        pump
        tail 7 of 6:1 c one by=q:1@1 | of 6:1 c one by=q:1@1 | restores 6:2 c one at=7 seen=7
        time 200000
        pump => publish 1 c one restores 7 seen 9
        tail 10 own 1
        tail 11 of 6:3 c two by=q:2@1 | restores 6:2 c one at=7 seen=8
        time 200000
        pump => publish 2 c two restores 11 seen 12
        tail 13 own 2
        tail 14 restores 6:9 c zero at=1 seen=13 elsewhere
        time 200000
        pump => publish 3 c two restores 11 seen 14
        tail 15 own 3 | restores 6:10 c zero at=30 seen=29
        time 200000
        pump => publish 4 c two restores 11 seen 16
        sub e0 s1 c snapshot => e0 granted s1 i0 g1 live through 16 retained 11<7 two
        count-restored => sent 4 left out 0 over 0
    " }
}

/// A beginning takes a restoration for the message that it names, unless a newer one has come
/// since: the restoration says how far its home had read.
#[test]
fn a_beginning_retains_what_was_restored() {
    script! { compacted(), "
        engine-time 10000000
        restart-at 1 complete 900000 primed 20 head 20 lineages 7@1
        aged 2000000
        tail 3 of 5:1 a dropped | b dropped | c three
        tail 6 restores 5:2 a one at=1 seen=3 | restores 5:3 c two at=2 seen=4 | restores 5:4 b empty at=2 seen=6
        aged 0
        tail 20 of 5:5 d four
        sub e0 s1 a snapshot => e0 granted s1 i0 g1 live through 20 retained 1<0 one
        sub e0 s2 b snapshot => e0 granted s2 i1 g2 live through 20
        sub e0 s3 c snapshot => e0 granted s3 i2 g3 live through 20 retained 5<4 three
        time 200000
        pump
        count-restored => sent 0 left out 0 over 0
    " }
}

/// Nothing is restored by a verdict that other nodes may not share, nor while the partition has no
/// leader.
#[test]
fn restorations_wait() {
    script! { compacted(), "
        engine-time 10000000
        restart-at 1 complete 900000 primed 3 head 3 lineages 7@1
        aged 890000
        tail 2 of 5:1 a one by=p:1@1 | of 5:1 a one by=p:1@1
        time 200000
        pump
        aged 0
        tail 4 of 5:2 a two by=p:2@1 | of 5:2 a two by=p:2@1
        leader no
        time 200000
        pump
        leader yes
        time 1000
        pump => publish 1 a two restores 4 seen 5
    " }
}

/// A partition that begins anew knows nothing of the messages before.
#[test]
fn another_life_retains_its_own() {
    script! { compacted(), "
        restart-at 0 primed 0 head 0 lineages 7@1
        tail 1 a one | b two
        restart-at 0 primed 0 head 1 lineages 8@1
        tail 1 a three
        count => topics 2 records 1 retained 1 indexes 0 lagging 0
        sub e0 s1 a snapshot => e0 granted s1 i0 g1 live through 1 epoch 8 retained 1<0 three
    " }
}
