//! Engines that answer late or never, as scripts; and positions that this node has not reached.

use crate::engine::in_engine;
use crate::script::{check, script};
use crate::support::Setup;
use broker::settings::Limits;

fn stalls() -> Setup {
    let limits = Limits { log_stall_timeout_ms: 2_000, ..Limits::default() };
    Setup { limits, ..in_engine() }
}

/// After a quarter of a second the requests count no longer against the edge's bound; after the
/// stall timeout new ones are refused at once; after half a minute the outcome is unknown. The
/// record may come later.
#[test]
fn an_engine_that_does_not_answer() {
    script! { stalls(), "
        restart-at 0 primed 0 head 0 lineages 7@1
        pub a one ack => publish 1 a one
        turn
        deadline => +250
        time +250
        pump
        turn => e0 consumed 1 of the log
        pub a two ack => publish 2 a two
        turn => e0 consumed 1 of the log
        time +1000
        pump
        time +750
        pump
        pub a three ack => e0 published LogUnavailable
        tails => through 0 lineage 7 pending 2 caught-up
        turn => e0 consumed 1 of the log
    " }
}

/// The tail ends a stall.
#[test]
fn the_tail_comes_back() {
    script! { stalls(), "
        restart-at 0 primed 0 head 0 lineages 7@1
        pub a one ack => publish 1 a one
        pump
        time +1000
        pump
        time +1000
        pump
        pub a two ack => e0 published LogUnavailable
        tail 1 own 1 => e0 published 7:1
        pub a two ack => publish 2 a two
        tail 2 own 2 => e0 published 7:2
        count-tail => records 2 dropped 0 lost 0 restarts 1 stalls 1 unknown 0 ahead 0
    " }
}

/// An outcome is unknown after half a minute: the publisher repeats, and the window knows the
/// record if it has come. Meanwhile one publication at a time finds out whether the engine answers.
#[test]
fn an_outcome_is_unknown() {
    let mut script = String::from(
        "
        restart-at 0 primed 0 head 0 lineages 7@1
        pub a one ack key=k => publish 1 a one
        pump
",
    );
    for _ in 0..29 {
        script += "        time +1000\n        pump\n";
    }
    script += "
        time +1000
        pump => e0 published OutcomeUnknown
        pub a two ack => publish 2 a two
        pub a three ack => e0 published LogUnavailable
        tail 1 own 1
        pub a one ack key=k => publish 3 a one
        tail 2 own 3 => e0 published OutcomeUnknown, 7:1 duplicate
        history a => e0 history head 2 [1<0 one]
        count-tail => records 2 dropped 1 lost 0 restarts 1 stalls 1 unknown 2 ahead 0
";
    crate::script::check(stalls(), &script);
}

/// A client that another node has served further waits until this node has come so far.
#[test]
fn a_position_ahead_of_the_tail() {
    script! { in_engine(), "
        restart-at 0 primed 0 head 0 lineages 7@1
        tail 1 a one
        sub e0 s1 a since 7:3
        sub e0 s2 b since 8:1
        history a 7:2
        filter e1 s3 # 0 7:3
        filter e1 s4 b/# 0 7:3
        turn
            e0 consumed 3 of the log
            e1 consumed 2
        count-waiting => waiting 5
        unfilter e1 b/#
        tail 2 a two
        pump => e0 history head 2 []
        tail 3 a three
        pump
            e0 granted s1 i0 g1 live through 3
            e1 filter s3 p0 through 7:3 resumed after 3
        lineage 8
        tail 4 b four
            e1 announce i0 b
            e1 message i0 4<0 four
        pump => e0 granted s2 i1 g2 replaying through 1 epoch 8
        turn => e1 consumed 1
        count-tail => records 4 dropped 0 lost 0 restarts 1 stalls 0 unknown 0 ahead 5
    " }
}

/// The home says nothing of a partition that has not begun.
#[test]
fn a_partition_that_has_not_begun() {
    script! { in_engine(), "
        sub e0 s1 a live
        history a
        filter e1 s2 #
        time +5000
        pump
            e0 refused s1 LogUnavailable
            e0 history LogUnavailable
            e1 filter s2 LogUnavailable
        sub e0 s1 a live
        restart-at 0 primed 0 head 0 lineages 7@1
        pump => e0 granted s1 i0 g1 live through 0
    " }
}

/// Nor of one whose tail has not passed the records that prime: its stream would lack them.
#[test]
fn a_filter_on_a_partition_that_primes() {
    script! { in_engine(), "
        restart-at 10 primed 12 head 14 lineages 7@11
        tail 11 a one
        filter e1 s2 # 0 7:11
        time +5000
        pump => e1 filter s2 LogUnavailable
        filter e1 s2 # 0 7:11
        tail 12 a two
        pump => e1 filter s2 p0 through 7:12 resumed after 12 gap 11..12 Evicted
    " }
}

/// A position that never comes is beyond the head after five seconds, if the engine has reported
/// its end meanwhile. The log has all records of its lineage up to the head, so the client
/// continues there.
#[test]
fn a_position_that_never_comes() {
    script! { in_engine(), "
        restart-at 0 primed 0 head 0 lineages 7@1
        tail 1 a one
        sub e0 s1 a since 7:3
        deadline => +50
        time +4999
        ended 4998
        pump
        time +1
        pump => e0 granted s1 i0 g1 live through 1 gap 1..1 BeyondHead
    " }
}

/// A node that hears nothing of the engine tells no gap: the engine may have the position.
#[test]
fn a_position_in_an_outage() {
    script! { in_engine(), "
        restart-at 0 primed 0 head 0 lineages 7@1
        tail 1 a one
        ended 0
        sub e0 s1 a since 7:3
        history a 7:3
        filter e1 s2 # 0 7:3
        time +14999
        ended 14999
        pump
        time +1
        pump
            e0 refused s1 LogUnavailable
            e0 history LogUnavailable
            e1 filter s2 LogUnavailable
        leader no
        sub e0 s1 a since 7:2
        sub e0 s3 a since 8:1
        time +4999
        pump
        time +1
        pump
            e0 refused s1 LogUnavailable
            e0 refused s3 LogUnavailable
    " }
}

/// Behind a loss the node need not wait for the offset of a position: the next record's lineage
/// tells that it is lost.
#[test]
fn a_position_behind_a_loss() {
    script! { in_engine(), "
        restart-at 0 primed 0 head 0 lineages 7@1
        tail 1 a one
        sub e0 s1 a since 7:9
        lineage 8
        tail 2 a two
        pump => e0 granted s1 i0 g1 replaying through 1 epoch 8 gap 1..1 UnknownEpoch
    " }
}

/// A position of a lineage that never comes may be lost, even if the offset is there.
#[test]
fn a_lineage_that_never_comes() {
    script! { in_engine(), "
        restart-at 0 primed 0 head 0 lineages 7@1
        tail 1 a one
        sub e0 s1 a since 8:1
        time +4999
        ended 0
        pump
        time +1
        pump => e0 granted s1 i0 g1 replaying through 0 gap 0..0 UnknownEpoch
    " }
}

/// The offset below which nothing is served may be of a later lineage than the records that prime.
#[test]
fn a_partition_begins_behind_the_records_that_prime() {
    script! { in_engine(), "
        restart-at 10 primed 12 head 14 lineages 6@11
        sub e0 s1 a live
        history a
        tail 11 a one
        pump
        lineage 7
        tail 12 a two
        pump
            e0 granted s1 i0 g1 live through 12
            e0 history head 12 []
        lineage 8
        tail 13 b three
        sub e1 s2 a since 7:12 => e1 granted s2 i0 g1 live through 12 epoch 8
    " }
}

/// A partition begins anew while a history waits for its turn: the history waits until the tail has
/// come back to its position.
#[test]
fn a_partition_begins_anew_before_a_history() {
    const TURN_PAGES_MAX: usize = 32;
    let script = [
        "restart-at 0 primed 0 head 0 lineages 7@1",
        "tail 1 a one",
        "tail 2 a two",
        &["history b => e0 history head 2 []"; TURN_PAGES_MAX].join("\n"),
        "history a 7:2",
        "restart-at 0 primed 0 head 0 lineages 7@1",
        "pump",
        "tail 1 a one",
        "pump",
        "tail 2 a two",
        "pump => e0 history head 2 []",
    ];
    check(in_engine(), &script.join("\n"));
}
