//! Scripts and transcripts of the home role: publications that are appended once.
//!
//! `by=p:3@9` is the third publication of producer `p`, over the ninth connection; `key=k` an
//! idempotency key.

use crate::script::{check, script};
use crate::support::Setup;
use broker::settings::Limits;

fn with(limits: Limits) -> Setup {
    Setup { limits, age_max_ms: 100_000, ..Setup::default() }
}

/// A duplicate is answered with the first position, and not delivered again; keys belong to their
/// topics.
#[test]
fn keys() {
    script! { with(Limits { idempotency_window_ms: 1_000, ..Limits::default() }), "
        sub e0 s1 a live => e0 granted s1 i0 g1 live through 0
        pub a one ack key=k
            e0 published 7:1
            e0 message i0 1<0 one
        pub a one ack key=k => e0 published 7:1 duplicate
        pub a other key=k
        pub b one ack key=k => e0 published 7:2
        pub a two ack key=l
            e0 published 7:3
            e0 message i0 3<1 two
        clock +900000000
        time +1000
        pub a one ack key=k => e0 published 7:1 duplicate
        count-once => published 3 duplicates 3 fenced 0 out-of-order 0 mismatch 0 producers 0 keys 3
        time +1
        pub a one ack key=k
            e0 published 7:4
            e0 message i0 4<3 one
        count-once => published 4 duplicates 3 fenced 0 out-of-order 0 mismatch 0 producers 0 keys 1
    " }
}

#[test]
fn the_oldest_key_is_forgotten_first() {
    script! { with(Limits { idempotency_keys_max: 2, ..Limits::default() }), "
        pub a 1 ack key=1 => e0 published 7:1
        pub a 2 ack key=2 => e0 published 7:2
        pub a 3 ack key=3 => e0 published 7:3
        pub a 2 ack key=2 => e0 published 7:2 duplicate
        pub a 1 ack key=1 => e0 published 7:4
    " }
}

/// Sequences increase, holes allowed; one in the window is a duplicate, one below it out of order.
#[test]
fn sequences() {
    script! { with(Limits { producer_window_max: 2, ..Limits::default() }), "
        pub a 1 ack by=p:1@1 => e0 published 7:1
        pub a 5 ack by=p:5@1 => e0 published 7:2
        pub a 5 ack by=p:5@1 => e0 published 7:2 duplicate
        pub a 1 ack by=p:1@1 => e0 published 7:1 duplicate
        pub a 3 ack by=p:3@1 => e0 published OutOfOrder
        pub a 6 ack by=p:6@1 => e0 published 7:3
        pub a 1 ack by=p:1@1 => e0 published OutOfOrder
        pub a 1 ack by=q:1@1 => e0 published 7:4
        pub a 0 ack by=q:0@1 => e0 published OutOfOrder
        pub b 7 ack by=p:7@1 => e0 published 7:5
        count-once => published 5 duplicates 2 fenced 0 out-of-order 3 mismatch 0 producers 2 keys 0
    " }
}

/// Publications after one that was refused for the moment are refused too, until it is repeated, or
/// a later refused one.
#[test]
fn a_refusal_holds_what_follows() {
    script! { with(Limits { topics_max: 1, ..Limits::default() }), "
        pub a 1 ack by=p:1@5 => e0 published 7:1
        pub b 2 ack by=p:2@5 => e0 published TopicsFull
        pub a 3 ack by=p:3@5 => e0 published TopicsFull
        pub a 4 ack by=p:4@5 => e0 published TopicsFull
        pub a 9 ack by=q:9@5 => e0 published 7:2
        pub a 1 ack by=p:1@5 => e0 published 7:1 duplicate
        pub b 2 ack by=p:2@5 => e0 published TopicsFull
        pub a 3 ack by=p:3@5 => e0 published TopicsFull
        pub a 3 ack by=p:3@5 => e0 published 7:3
        pub a 4 ack by=p:4@5 => e0 published 7:4
        count-once => published 4 duplicates 1 fenced 0 out-of-order 0 mismatch 0 producers 2 keys 0
    " }
}

/// A producer that never repeats the refused one continues: with another connection, after ten
/// seconds, or at once with publications without acknowledgement.
#[test]
fn a_refusal_does_not_hold_for_ever() {
    script! { with(Limits { topics_max: 1, ..Limits::default() }), "
        pub a 1 ack by=p:1@5 => e0 published 7:1
        pub b 2 by=p:2@5
        pub b 3 by=p:3@5 refusals => e0 published TopicsFull
        pub a 4 ack by=p:4@5 => e0 published 7:2
        pub b 5 ack by=p:5@5 => e0 published TopicsFull
        pub a 6 ack by=p:6@5 => e0 published TopicsFull
        pub a 7 ack by=p:7@6 => e0 published 7:3
        pub b 8 ack by=p:8@6 => e0 published TopicsFull
        pub a 9 ack by=p:9@5 => e0 published ProducerFenced
        time +9999
        pub a 9 ack by=p:9@6 => e0 published TopicsFull
        time +1
        pub a 10 ack by=p:10@6 => e0 published 7:4
        pub b 11 ack by=p:11@6 => e0 published TopicsFull
        pub a 12 by=p:12@6 refusals
        pub a 13 ack by=p:13@6 => e0 published TopicsFull
    " }
}

/// A producer that the home does not know yet is held like others.
#[test]
fn the_first_refusal_of_a_producer() {
    script! { with(Limits { topics_max: 1, producers_max: 1, ..Limits::default() }), "
        pub a 1 ack => e0 published 7:1
        pub b 1 ack by=p:1@5 => e0 published TopicsFull
        pub a 2 ack by=p:2@5 => e0 published TopicsFull
        pub b 1 ack by=p:1@4 => e0 published ProducerFenced
        pub a 1 ack by=p:1@5 => e0 published 7:2
        pub a 2 ack by=p:2@5 => e0 published 7:3
        pub a 1 ack by=q:1@5 => e0 published ProducersFull
    " }
}

/// A newer connection takes a producer over, be it with a duplicate; the older one can do nothing
/// any more.
#[test]
fn fencing() {
    script! { with(Limits::default()), "
        pub a 1 ack by=p:1@10 => e0 published 7:1
        pub a 2 ack by=p:2@10 => e0 published 7:2
        pub a 2 ack by=p:2@11 => e0 published 7:2 duplicate
        pub a 3 ack by=p:3@10 => e0 published ProducerFenced
        pub a 1 ack by=p:1@10 => e0 published ProducerFenced
        pub a 3 ack by=p:3@11 => e0 published 7:3
        pub a 4 ack by=p:4@12 => e0 published 7:4
        pub a 5 ack by=p:5@11 => e0 published ProducerFenced
        pub a 5 ack by=q:5@1 => e0 published 7:5
        count-once => published 5 duplicates 1 fenced 3 out-of-order 0 mismatch 0 producers 2 keys 0
    " }
}

/// The epoch is looked at before anything else, and the answer says what it is.
#[test]
fn epochs() {
    script! { with(Limits::default()), "
        pub a 1 ack epoch=7 key=k by=p:1@2 => e0 published 7:1
        pub a 1 ack epoch=6 key=k by=p:0@1 => e0 published EpochMismatch present 7:1
        pub a 1 ack epoch=7 key=k => e0 published 7:1 duplicate
        count-once => published 1 duplicates 1 fenced 0 out-of-order 0 mismatch 1 producers 1 keys 1
    " }
}

/// A refused publication leaves no trace: it can come again.
#[test]
fn refused_and_repeated() {
    script! { Setup { message_bytes_max: 10, ..Setup::default() }, "
        pub a x*11 ack key=k by=p:1@1 => e0 published MessageTooLarge
        pub a x*10 ack key=k by=p:1@1 => e0 published 7:1
    " }
}

/// With its records a producer's window goes, so that an old sequence is refused and not appended
/// again. A producer without records gives way to a new one, the longest idle first; until then it
/// is remembered.
#[test]
fn producers_and_eviction() {
    check(
        Setup {
            age_max_ms: 1_000,
            limits: Limits { producers_max: 2, ..Limits::default() },
            ..Setup::default()
        },
        "
        pub a 1 ack by=p:1@1 => e0 published 7:1
        time +10
        pub a 1 ack by=q:1@1 => e0 published 7:2
        pub a 1 ack by=r:1@1 => e0 published ProducersFull
        time +1100
        pump
        count-once => published 2 duplicates 0 fenced 0 out-of-order 0 mismatch 0 producers 2 keys 0
        pub a 1 ack by=p:1@1 => e0 published OutOfOrder
        pub a 1 ack by=r:1@1 => e0 published 7:3
        pub a 1 ack by=q:1@1 => e0 published OutOfOrder
        pub a 2 ack by=q:2@1 => e0 published 7:4
        pub a 2 ack by=p:2@1 => e0 published ProducersFull
        ",
    );
}

/// Each partition has its own window. Within one, a sequence is one publication: for another topic
/// it is refused, not taken for a repetition.
#[test]
fn partitions_and_topics() {
    script! { Setup { partitions: 8, ..Setup::default() }, "
        pub a 1 ack by=p:1@1 => e0 published 7:1
        pub b 1 ack by=p:1@1 => e0 published OutOfOrder
        pub c 1 ack by=p:1@1 => e0 published 7:1
        pub c 1 ack by=p:1@1 => e0 published 7:1 duplicate
        count-once => published 2 duplicates 1 fenced 0 out-of-order 1 mismatch 0 producers 2 keys 0
    " }
}
