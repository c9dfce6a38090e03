//! Each rule finds what breaks it, and nothing else.

use super::*;
use crate::trial::history::{Kept, Publication};

const ONE: Name = Name { publisher: 1, number: 1 };
const TWO: Name = Name { publisher: 1, number: 2 };

/// Two messages on topic 0, acknowledged, delivered and kept.
fn good() -> History {
    let publication = |sent_us, offset| Publication {
        topic: 0,
        sent_us,
        outcome: Outcome::Acknowledged { at_us: sent_us + 5, offset },
    };
    let message = |offset, name| Item::Message { topic: 0, offset, name };
    let kept = |offset, name| Kept { topic: 0, offset, name };
    let node: BTreeMap<Topic, Vec<(u64, Name)>> = [(0, vec![(3, ONE), (7, TWO)])].into();
    History {
        publications: [(ONE, publication(10, 3)), (TWO, publication(20, 7))].into(),
        subscribers: vec![Seen { topics: vec![0], items: vec![message(3, ONE), message(7, TWO)] }],
        nodes: vec![node.clone(), node],
        engine: vec![kept(3, ONE), kept(7, TWO)],
        may_lose: false,
    }
}

#[track_caller]
fn breaks(rules: &[u8], change: impl FnOnce(&mut History)) {
    let mut history = good();
    change(&mut history);
    let verdict = judge(&history);
    let found: Vec<u8> = verdict.faults.keys().copied().collect();
    assert_eq!(found, rules, "{:?}", verdict.lines());
}

fn acknowledge(history: &mut History, name: Name, offset: u64, at_us: u64) {
    let publication = history.publications.get_mut(&name).expect("a publication");
    publication.outcome = Outcome::Acknowledged { at_us, offset };
}

/// A gap of the topic's partition; one that leads back has a time.
fn gap(from: u64, to: u64, leads_back_at_us: Option<u64>) -> Item {
    let (leads_back, at_us) = (leads_back_at_us.is_some(), leads_back_at_us.unwrap_or(30));
    Item::Gap { topic: None, partition: partition_of(0), from, to, leads_back, at_us }
}

#[test]
fn a_good_history_breaks_nothing() {
    breaks(&[], |_| {});
    let verdict = judge(&good());
    assert_eq!((verdict.acknowledged, verdict.delivered, verdict.gaps), (2, 2, 0));
}

#[test]
fn a_position_of_two_messages_is_found() {
    breaks(&[1, 3, 8], |history| acknowledge(history, TWO, 3, 25));
}

#[test]
fn a_missing_message_is_found() {
    breaks(&[2], |history| {
        history.subscribers[0].items.pop();
    });
}

#[test]
fn a_wrong_order_is_found() {
    breaks(&[2], |history| history.subscribers[0].items.swap(0, 1));
}

#[test]
fn a_repetition_is_found() {
    breaks(&[3], |history| {
        history.subscribers[0].items.push(Item::Message { topic: 0, offset: 8, name: TWO });
    });
}

#[test]
fn a_refused_message_that_is_delivered_is_found() {
    breaks(&[4], |history| {
        let publication = history.publications.get_mut(&TWO).expect("a publication");
        publication.outcome = Outcome::Refused("out_of_order".into());
    });
}

#[test]
fn an_order_against_the_acknowledgements_is_found() {
    breaks(&[5], |history| {
        // The first one was sent long after the second one's acknowledgement.
        history.publications.get_mut(&ONE).expect("a publication").sent_us = 90;
        acknowledge(history, ONE, 3, 95);
    });
}

#[test]
fn histories_that_differ_are_found() {
    breaks(&[6], |history| history.nodes[1].get_mut(&0).expect("a topic")[1].0 = 8);
    breaks(&[6], |history| history.nodes[1].clear());
    // A node may reach back less far.
    breaks(&[], |history| {
        history.nodes[1].get_mut(&0).expect("a topic").remove(0);
    });
}

#[test]
fn a_gap_without_a_cause_is_found() {
    let gap = gap(3, 7, None);
    breaks(&[7], |history| history.subscribers[0].items[1] = gap);
    // With a cause it accounts for missing messages in all topics of its partition.
    breaks(&[], |history| {
        history.may_lose = true;
        history.subscribers[0].items[1] = gap;
        history.engine.pop();
    });
    // It does not account for more.
    breaks(&[2], |history| {
        history.may_lose = true;
        history.subscribers[0].items[1] = self::gap(3, 6, None);
    });
}

/// A gap that leads back covers lost messages behind its end, and no others.
#[test]
fn a_lost_message_without_a_gap_is_found() {
    let lose = |history: &mut History| {
        history.may_lose = true;
        history.engine.pop();
        history.subscribers[0].items.pop();
    };
    breaks(&[2], lose);
    for (gap, rules) in [
        (gap(3, 3, Some(30)), &[][..]),
        (gap(0, 0, Some(30)), &[2]),
        (gap(3, 3, None), &[2]),
        // Before the message was sent.
        (gap(3, 3, Some(15)), &[2]),
    ] {
        breaks(rules, |history| {
            lose(history);
            history.subscribers[0].items.push(gap);
        });
    }
    // The engine has the message.
    breaks(&[2], |history| {
        history.may_lose = true;
        history.subscribers[0].items[1] = gap(3, 3, Some(30));
    });
    // The subscriber knows another message by the offset.
    breaks(&[], |history| {
        let other = Name { publisher: 9, number: 1 };
        lose(history);
        history.engine.push(Kept { topic: 0, offset: 7, name: other });
        let items = &mut history.subscribers[0].items;
        items.push(gap(3, 3, Some(30)));
        items.push(Item::Message { topic: 0, offset: 7, name: other });
    });
}

#[test]
fn an_acknowledged_message_that_the_engine_lacks_is_found() {
    breaks(&[8], |history| {
        history.engine.pop();
    });
}

#[test]
fn a_foreign_message_that_a_subscriber_lacks_is_found() {
    let name = Name { publisher: 9, number: 1 };
    breaks(&[2], |history| history.engine.push(Kept { topic: 0, offset: 9, name }));
}

#[test]
fn a_message_that_one_of_two_subscribers_lacks_is_found() {
    breaks(&[2], |history| {
        history.publications.get_mut(&TWO).expect("a publication").outcome = Outcome::Unknown;
        let mut other = history.subscribers[0].clone();
        other.items.pop();
        history.subscribers.push(other);
    });
}
