//! Logs in an engine, as scripts: publications out, the tail in, and what subscribers and
//! publishers get.
//!
//! `publish 3 a one` is the third proposal; `tail 5 own 3` its record at offset 5, `tail 6 a two` a
//! record of another producer; `|` stands between records of one letter.

use crate::script::script;
use crate::support::Setup;

pub fn in_engine() -> Setup {
    Setup { is_engine: true, age_max_ms: 1 << 40, ..Setup::default() }
}

/// The tail acknowledges, whatever has been sent; records of others are delivered like own ones,
/// each behind the one before it, over holes.
#[test]
fn the_tail_answers() {
    script! { in_engine(), "
        restart-at 0 primed 0 head 0 lineages 7@1
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 0
        pub a one ack => publish 1 a one
        pub b two ack => publish 2 b two
        pub a three ack => publish 3 a three
        tails => through 0 lineage 7 pending 3 caught-up available
        tail 1 a foreign => e0 message i0 1<0 foreign
        tail 3 own 1 | own 2
            e0 published 7:3
            e0 message i0 3<1 one
            e0 published 7:4
        hole 8
        tail 9 own 3
            e0 published 7:9
            e0 message i0 9<3 three
        history a 7:0 => e0 history head 9 [1<0 foreign, 3<1 one, 9<3 three]
        sub e1 s2 a since 7:8 => e1 granted s2 i0 g1 replaying through 8
        read e1 s2 i0 after 8 max 10 => e1 page s2 [9<3 three] through 9 caught-up
        tails => through 9 lineage 7 pending 0 caught-up available
        count-tail => records 4 dropped 0 lost 0 restarts 1 stalls 0 unknown 0 ahead 0
    " }
}

/// Holes before the first record are no loss: a filter continues over them.
#[test]
fn holes_at_the_beginning_are_no_gap() {
    script! { in_engine(), "
        restart-at 0 primed 0 head 0 lineages 7@1
        hole 2
        tail 3 a one
        filter e0 s1 # p0 7:0 => e0 filter s1 p0 through 7:3 resumed after 0
        scan e0 s1 p0 # after 0 => e0 page s1 p0 after 0 [a 3<0 one] through 3 caught-up
    " }
}

/// Repetitions are recognised whichever node sent the first, and answered with its position. Copies
/// that the engine's client sends again are dropped without an answer.
#[test]
fn repetitions() {
    script! { in_engine(), "
        restart-at 0 primed 0 head 0 lineages 7@1
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 0
        tail 1 of 5:1 a one by=p:1@1000001 => e0 message i0 1<0 one
        tail 2 of 5:1 a one by=p:1@1000001
        pub a one ack by=p:1@1000003 => publish 1 a one by p:1@1000002
        tail 3 own 1 => e0 published 7:1 duplicate
        pub a two ack by=p:2@1000003 key=k => publish 2 a two by p:2@1000002
        tail 4 own 2
            e0 published 7:4
            e0 message i0 4<1 two
        tail 5 own 2
        pub a two ack key=k => publish 3 a two
        tail 6 own 3 => e0 published 7:4 duplicate
        tail 7 of 5:2 a old by=p:3@995001
        pub a one ack by=p:0@1000003 => publish 4 a one by p:0@1000002
        tail 8 own 4 => e0 published OutOfOrder
        count-tail => records 8 dropped 6 lost 0 restarts 1 stalls 0 unknown 0 ahead 0
    " }
}

/// A connection that began behind the newest of the tail is newer, whatever the clocks say; one
/// that began before it goes by the clock. An older one of this node is fenced at once.
#[test]
fn connections_of_producers() {
    script! { in_engine(), "
        restart-at 0 primed 0 head 0 lineages 7@1
        tail 1 of 5:1 a one by=p:1@5000000
        pub a two ack by=p:2@999999 => publish 1 a two by p:2@999999
        tail 2 own 1 => e0 published ProducerFenced
        pub a two ack by=p:2@1000000 => publish 2 a two by p:2@5000001
        tail 3 own 2 => e0 published 7:3
        clock +60000
        pub a three ack by=p:3@1000000 => publish 3 a three by p:3@5000001
        pub a three ack by=p:3@999999 => e0 published ProducerFenced
        pub a four ack by=q:1@1000000 => publish 4 a four by q:1@1060000
        tail 4 own 3 | own 4 => e0 published 7:4, 7:5
    " }
}

/// Nodes' clocks differ: a connection that began up to 5 s before the newest is not fenced, so that
/// a client that has moved to another node is not fenced by itself.
#[test]
fn connections_at_nodes_whose_clocks_are_apart() {
    script! { in_engine(), "
        restart-at 0 primed 0 head 0 lineages 7@1
        tail 1 of 5:1 a one by=p:1@1004999
        pub a two ack by=p:2@999999 => publish 1 a two by p:2@999999
        tail 2 own 1 => e0 published 7:2
        tail 3 of 5:2 a three by=p:3@1005000
        pub a four ack by=p:4@999999 => publish 2 a four by p:4@999999
        tail 4 own 2 => e0 published ProducerFenced
    " }
}

/// Refusals that need no engine: retained messages, another life of the log, before the beginning.
#[test]
fn refusals_before_sending() {
    script! { in_engine(), "
        pub a one ack => e0 published LogUnavailable
        restart-at 0 primed 0 head 0 lineages 6@1 7@1
        pub a one ack retain => e0 published RetainedUnsupported
        pub a one ack epoch=6 => e0 published EpochMismatch present 7:0
        pub a one ack epoch=7 => publish 1 a one
        lineage 8
        tail 1 own 1 => e0 published 8:1
        pub a two ack epoch=7 => publish 2 a two
        pub a two ack epoch=9 => e0 published EpochMismatch present 8:1
        leader no
        pub a three ack => e0 published LogUnavailable
        leader yes
        pub a three ack => publish 3 a three
    " }
}

/// A publication that the engine refuses was never sent. Those that follow are held until it comes
/// again.
#[test]
fn the_engine_refuses() {
    script! { in_engine(), "
        restart-at 0 primed 0 head 0 lineages 7@1
        pub a one ack by=p:1@1000000 => publish 1 a one by p:1@1000000
        pub a two ack by=p:2@1000000 => publish 2 a two by p:2@1000000
        engine-refuses 1 2 => e0 published LogUnavailable, LogUnavailable
        pub a three ack by=p:3@1000000 => e0 published LogUnavailable
        pub a one ack by=p:1@1000000 => publish 3 a one by p:1@1000000
        tail 1 own 3 => e0 published 7:1
        engine-refuses 3
    " }
}

/// A record that comes behind a later one of its run is dropped on all nodes: its publication is
/// answered when the later one has come. A record that was lost may come back with its leader.
#[test]
fn a_missing_record_is_unknown_when_the_next_comes() {
    script! { in_engine(), "
        restart-at 0 primed 0 head 0 lineages 7@1
        pub a one ack => publish 1 a one
        pub a two ack => publish 2 a two
        tail 1 own 2 => e0 published OutcomeUnknown, 7:1
        tail 2 own 1
        history a 7:0 => e0 history head 2 [1<0 two]
    " }
}

/// Retention has overtaken the node: the record of a pending publication may be among those that
/// the node has not read.
#[test]
fn a_publication_before_a_new_beginning_is_unknown() {
    script! { in_engine(), "
        restart-at 0 primed 0 head 0 lineages 7@1
        pub a one ack => publish 1 a one
        pub a two ack => publish 2 a two
        restart-at 5 primed 5 head 5 lineages 7@1
        tail 6 own 2 => e0 published OutcomeUnknown, 7:6
    " }
}

/// A node begins with the records above the primed ones, and two windows behind its first record;
/// those before prime the recognition of repetitions.
#[test]
fn a_late_start() {
    script! { in_engine(), "
        restart-at 10 primed 12 head 14 lineages 6@1 7@11
        tails => through 10 lineage 7 pending 0 available
        tail 11 of 5:1 a one key=k
        engine-time 350000
        tail 12 of 5:2 a two key=l
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 12
        engine-time 250000
        tail 13 of 5:2 a two key=l | a three => e0 message i0 14<12 three
        tails => through 14 lineage 7 pending 0 caught-up available
        pub a two ack key=l => publish 1 a two
        tail 15 own 1 => e0 published 7:12 duplicate
        sub e1 s2 a since 6:10 => e1 granted s2 i0 g1 replaying through 12 gap 10..12 Evicted
        sub e1 s2 a since 6:11
            e1 granted s2 i0 g2 replaying through 12 gap 10..12 UnknownEpoch
        sub e1 s2 a since 7:13 => e1 granted s2 i0 g3 replaying through 13
        history a => e0 history head 15 [14<12 three]
    " }
}

/// The node serves no record before it has read two windows; present streams get the gap.
#[test]
fn a_start_at_an_unknown_age() {
    script! { in_engine(), "
        restart-at 10 complete 0 head 12 lineages 7@11
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 10
        sub e0 s2 b live => e0 granted s2 i1 g2 live through 10
        tail 11 a one
        pump
            e0 stream-gap 10..11
            e1 stream-gap 10..11
        read e0 s1 i0 after 10 max 5 => e0 page s1 gap 10..11 Evicted [] through 11 caught-up
        read e0 s2 i1 after 10 max 5 => e0 page s2 [] through 11 caught-up
        engine-time 600000
        tail 12 a two | b three
            e0 message i0 12<11 two
            e0 message i1 13<10 three
    " }
}

/// Records that the node has not read are older than a window: the first that comes is served.
#[test]
fn a_start_at_the_head() {
    script! { in_engine(), "
        restart-at 10 complete 300000 head 10 lineages 7@11
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 10
        tail 11 a one => e0 message i0 11<10 one
    " }
}

/// A record that the node cannot judge as others do is neither served nor acknowledged, also if it
/// comes after the beginning. A repetition is not known as such, unless the node has delivered it.
#[test]
fn an_unprimed_node_serves_nothing() {
    script! { in_engine(), "
        restart-at 10 complete 299000 head 10 lineages 7@11
        pub a one ack by=p:5@999999 => publish 1 a one by p:5@999999
        tail 11 own 1 => e0 published OutcomeUnknown
        engine-time 2000
        pub a two ack => publish 2 a two
        pub a one ack by=p:5@999999 => publish 3 a one by p:5@999999
        pub a zero ack by=p:4@999999 => publish 4 a zero by p:4@999999
        tail 12 own 2 | own 3 | own 4
            e0 published OutcomeUnknown
            e0 published OutcomeUnknown
            e0 published OutcomeUnknown
        pub a three ack key=k => publish 5 a three
        tail 15 own 5 => e0 published OutcomeUnknown
        pub a three ack key=k => publish 6 a three
        tail 16 own 6 => e0 published 7:15 duplicate
        history a => e0 history head 16 []
        engine-time 298000
        pub a four ack => publish 7 a four
        tail 17 own 7 => e0 published 7:17
        history a => e0 history head 17 [17<16 four]
        pub a zero ack by=p:4@999999 => publish 8 a zero by p:4@999999
        tail 18 own 8 => e0 published OutcomeUnknown
    " }
}

/// A new lineage invalidates nothing; a lineage that has lost records begins the partition anew. A
/// client that had them is led back to the last record before.
#[test]
fn lineages_and_truncation() {
    script! { in_engine(), "
        restart-at 0 primed 0 head 0 lineages 7@1
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 0
        tail 1 a one | a two | a three => e0 message i0 1<0 one, 2<1 two, 3<2 three
        pub a four ack => publish 1 a four
        lineage 9
        tail 4 own 1
            e0 published 9:4
            e0 message i0 4<3 four
        sub e1 s2 a since 7:3 => e1 granted s2 i0 g1 replaying through 3 epoch 9
        pub a five ack => publish 2 a five
        restart-at 0 primed 1 head 2 lineages 7@1 9@4 11@2
        tail 1 a one
        tail 2 of 5:9 a other
            e0 message i0 2<1 other
            e1 message i0 2<1 other
        tail 3 own 2
            e0 published 11:3
            e0 message i0 3<2 five
            e1 message i0 3<2 five
        sub e1 s3 a since 7:1 => e1 granted s3 i0 g2 replaying through 1 epoch 11
        sub e1 s3 a since 7:2
            e1 granted s3 i0 g3 replaying through 1 epoch 11 gap 1..1 UnknownEpoch
        sub e1 s3 a since 11:3 => e1 granted s3 i0 g4 live through 3 epoch 11
    " }
}

/// A replica that lacks records leads, takes others, and is overruled by a replica with the old
/// ones. The log has no record of the lineage between, so its positions say nothing.
#[test]
fn two_unclean_elections() {
    script! { in_engine(), "
        restart-at 0 primed 0 head 0 lineages 3@1
        tail 1 a one | a two | a three
        restart-at 0 primed 0 head 3 lineages 3@1
        tail 1 a one
        lineage 6
        tail 2 a other | a another
        history a 6:1 => e0 history head 3 [2<1 other, 3<2 another]
        restart-at 0 primed 0 head 3 lineages 3@1
        tail 1 a one | a two | a three
        lineage 7
        tail 4 a four
        history a 3:3 => e0 history head 4 [4<3 four]
        history a 6:2
            e0 history head 4 gap 0..0 UnknownEpoch [1<0 one, 2<1 two, 3<2 three, 4<3 four]
        history a 6:3
            e0 history head 4 gap 0..0 UnknownEpoch [1<0 one, 2<1 two, 3<2 three, 4<3 four]
    " }
}

/// Positions name records, and no hole behind them: another node may not know which leader made
/// the hole. So a position in a hole waits for the next record, whose lineage tells whether its own
/// record is lost. A lineage begins behind the last record before it, on every node.
#[test]
fn positions_name_records() {
    script! { in_engine(), "
        restart-at 0 primed 0 head 0 lineages 7@1
        tail 1 a one | b two
        hole 4
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 2
        filter e0 s2 # => e0 filter s2 p0 through 7:2
        history a => e0 history head 2 [1<0 one]
        tails => through 4 lineage 7 pending 0 caught-up available
        sub e0 s3 b since 7:4
        time +5000
        ended 0
        pump => e0 granted s3 i1 g2 live through 2 gap 2..2 BeyondHead
        sub e1 s6 b since 7:4
        unfilter e0 #
        lineage 9
        tail 6 b three => e0 message i1 6<2 three
        sub e1 s4 b since 7:2 => e1 granted s4 i0 g1 replaying through 2 epoch 9
        sub e1 s5 b since 7:3
            e1 granted s5 i0 g2 replaying through 2 epoch 9 gap 2..2 UnknownEpoch
        pump => e1 granted s6 i0 g3 replaying through 2 epoch 9 gap 2..2 UnknownEpoch
    " }
}

/// A node that primes serves behind the last record of that, whatever holes follow.
#[test]
fn a_start_in_a_hole() {
    script! { in_engine(), "
        restart-at 10 primed 16 head 18 lineages 7@11
        tail 11 a one
        hole 14
        sub e0 s1 a since 7:11
        hole 16
        pump => e0 granted s1 i0 g1 live through 11
        lineage 9
        tail 18 a two => e0 message i0 18<11 two
        sub e1 s2 b since 7:11 => e1 granted s2 i0 g1 live through 11 epoch 9
        sub e1 s3 b since 7:10
            e1 granted s3 i0 g2 live through 11 epoch 9 gap 10..11 Evicted
    " }
}

/// A client has a ticket, and has come further since in a lineage that is lost. It continues from
/// the ticket, and gets a gap: it knows other records by the numbers that follow.
#[test]
fn a_ticket_from_before_a_loss() {
    script! { in_engine(), "
        restart-at 0 primed 0 head 0 lineages 6@1
        tail 1 a one | a two
        lineage 9
        tail 3 a lost | a lost
        restart-at 0 primed 0 head 2 lineages 6@1
        tail 1 a one | a two
        lineage 11
        tail 3 a three | a four
        sub e0 s1 a since 9:4 or 6:2
            e0 granted s1 i0 g1 replaying through 2 epoch 11 gap 2..2 UnknownEpoch
        sub e0 s2 a since 9:3 or 6:4
            e0 granted s2 i0 g2 replaying through 2 epoch 11 gap 2..2 UnknownEpoch
        filter e0 s3 # 0 9:4 0 6:1
            e0 filter s3 p0 through 11:4 resumed after 1 gap 1..1 UnknownEpoch
        sub e0 s4 a since 9:2 or 11:3 => e0 granted s4 i0 g3 replaying through 3 epoch 11
        filter e0 s5 # 0 9:2 0 11:3 => e0 filter s5 p0 through 11:4 resumed after 3
        sub e0 s6 a since 11:1 or 6:2 => e0 granted s6 i0 g4 replaying through 1 epoch 11
        sub e0 s7 a since 11:9 or 11:3
        time +5000
        ended 0
        pump => e0 granted s7 i0 g5 replaying through 3 epoch 11
    " }
}

/// Topics of the tail are known whatever `topics_max` says; a record without room is delivered, and
/// memory begins behind it.
#[test]
fn bounds_do_not_stop_the_tail() {
    let limits = broker::settings::Limits { topics_max: 1, ..Default::default() };
    script! { Setup { limits, log_bytes_max: 2_000, ..in_engine() }, "
        restart-at 0 primed 0 head 0 lineages 7@1
        filter e0 s1 # => e0 filter s1 p0 through 7:0
        tail 1 a one | b two
            e0 announce i0 a
            e0 message i0 1<0 one
            e0 announce i1 b
            e0 message i1 2<0 two
        pub c three ack => e0 published TopicsFull
        tail 3 c x*3000
            e0 released i0
            e0 released i1
            e0 announce i1 c
            e0 message i1 3<2 3000 bytes
        history c => e0 history head 3 []
        history c 7:0 => e0 history head 3 gap 0..3 Evicted []
        count => topics 1 records 0 retained 0 indexes 1 lagging 0
    " }
}

/// The room for a record is that of the last other one of its topic, which was forgotten with it.
#[test]
fn a_record_evicts_its_topic() {
    script! { Setup { log_bytes_max: 1_200, segment_bytes: 400, ..in_engine() }, "
        restart-at 0 primed 0 head 0 lineages 7@1
        tail 1 a x*100 | b x*100 | c x*100 | d x*100 | e x*100
        tail 6 a x*600
        history a => e0 history head 6 [6<3 600 bytes]
        history a 7:1 => e0 history head 6 gap 1..3 Evicted [6<3 600 bytes]
        sub e0 s1 a since 7:1 => e0 granted s1 i0 g1 replaying through 3 gap 1..3 Evicted
    " }
}

/// Edges learn of each lineage, and of a partition that begins anew.
#[test]
fn edges_follow_the_epoch() {
    script! { in_engine(), "
        restart-at 0 primed 0 head 0 lineages 7@1
        epochs => e0 restarted p0 7, e1 restarted p0 7
        tail 1 a one
        lineage 8
        tail 2 a two | a three
        epochs => e0 epoch p0 8, e1 epoch p0 8
        restart-at 0 primed 1 head 1 lineages 7@1 9@2
        epochs => e0 restarted p0 9, e1 restarted p0 9
        tail 1 a one | a other
        sub e0 s1 a since 7:1 => e0 granted s1 i0 g1 replaying through 1 epoch 9
        sub e0 s2 a since 8:1
            e0 granted s2 i0 g2 replaying through 1 epoch 9 gap 0..1 UnknownEpoch
    " }
}
