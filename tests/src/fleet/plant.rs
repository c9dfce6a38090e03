//! Faults of an SDK or of a node, put into a record that was found good: the oracle must notice
//! each of them.

use crate::fleet::ledger::Ledger;
use crate::fleet::plan::{self, Work};
use crate::fleet::record::{Client, Event, Fleet};

/// A fault; it returns false if the fleet has no place for it.
#[derive(Clone, Copy, Debug)]
pub struct Plant {
    /// The fault, in words.
    pub what: &'static str,
    /// The fault is one of the log.
    pub is_of_log: bool,
    plant: fn(&mut Fleet, &mut Ledger) -> bool,
}

/// All faults.
pub const PLANTS: &[Plant] = &[
    Plant { what: "a message is not handed on", is_of_log: false, plant: drop_message },
    Plant { what: "a message is handed on twice", is_of_log: false, plant: double_message },
    Plant { what: "two messages change places", is_of_log: false, plant: swap_messages },
    Plant { what: "a message has another payload", is_of_log: false, plant: change_payload },
    Plant { what: "a gap is swallowed", is_of_log: false, plant: swallow_gap },
    Plant { what: "a gap ends too early", is_of_log: false, plant: shorten_gap },
    Plant { what: "the report hides a gap", is_of_log: false, plant: hide_in_report },
    Plant { what: "the last messages never come", is_of_log: false, plant: stop_early },
    Plant { what: "a call never settles", is_of_log: false, plant: forget_call },
    Plant { what: "a call settles twice", is_of_log: false, plant: settle_twice },
    Plant { what: "an acknowledgement names another place", is_of_log: false, plant: misplace },
    Plant { what: "the log loses an acknowledged message", is_of_log: true, plant: lose },
    Plant { what: "a message with once is in the log twice", is_of_log: true, plant: append_twice },
];

impl Plant {
    /// Copies of fleet and ledger with the fault; none if there is no place for it.
    pub fn put(self, fleet: &Fleet, ledger: &Ledger) -> Option<(Fleet, Ledger)> {
        let (mut fleet, mut ledger) = (fleet.clone(), ledger.clone());
        (self.plant)(&mut fleet, &mut ledger).then_some((fleet, ledger))
    }
}

/// Changes the events of the first client for which `change` finds a place.
fn change(fleet: &mut Fleet, change: impl Fn(&mut Vec<Event>) -> Option<()>) -> bool {
    fleet.clients.iter_mut().any(|client| change(&mut client.events).is_some())
}

/// The places of messages in the middle, where each one counts.
fn messages(events: &[Event]) -> Vec<usize> {
    let is_message = |at: &usize| matches!(events[*at], Event::Message { .. });
    (0..events.len()).filter(is_message).collect()
}

fn middle(events: &[Event]) -> Option<usize> {
    let messages = messages(events);
    (messages.len() > 2).then(|| messages[messages.len() / 2])
}

fn gap(events: &[Event]) -> Option<usize> {
    events.iter().position(|event| matches!(event, Event::Gap { .. }))
}

fn drop_message(fleet: &mut Fleet, _: &mut Ledger) -> bool {
    change(fleet, |events| {
        events.remove(middle(events)?);
        Some(())
    })
}

fn double_message(fleet: &mut Fleet, _: &mut Ledger) -> bool {
    change(fleet, |events| {
        let at = middle(events)?;
        events.insert(at, events[at].clone());
        Some(())
    })
}

fn swap_messages(fleet: &mut Fleet, _: &mut Ledger) -> bool {
    change(fleet, |events| {
        let messages = messages(events);
        let next = messages.windows(2).find(|pair| pair[1] == pair[0] + 1)?;
        events.swap(next[0], next[1]);
        Some(())
    })
}

fn change_payload(fleet: &mut Fleet, _: &mut Ledger) -> bool {
    change(fleet, |events| {
        let at = middle(events)?;
        let Event::Message { data, .. } = &mut events[at] else { return None };
        data.push('!');
        Some(())
    })
}

fn swallow_gap(fleet: &mut Fleet, _: &mut Ledger) -> bool {
    change(fleet, |events| {
        events.remove(gap(events)?);
        Some(())
    })
}

/// The message that the gap hid last is then missing.
fn shorten_gap(fleet: &mut Fleet, ledger: &mut Ledger) -> bool {
    fleet.clients.iter_mut().any(|client| {
        let Work::Subscribe { filter, .. } = &client.work else { return false };
        client.events.iter_mut().any(|event| {
            let Event::Gap { from: Some(from), to: Some(to), partition, cause } = event else {
                return false;
            };
            let own = partition.or_else(|| ledger.partition(filter)).filter(|_| cause == "evicted");
            let covered = |offset: &u64| {
                let entry = own.and_then(|own| ledger.entry(own, *offset));
                entry.is_some_and(|entry| plan::covers(filter, &entry.topic))
            };
            let last = (from.offset + 1..=to.offset).rev().find(covered);
            last.map(|last| to.offset = last - 1).is_some()
        })
    })
}

fn hide_in_report(fleet: &mut Fleet, _: &mut Ledger) -> bool {
    change(fleet, |events| {
        gap(events)?;
        let is_report = |event: &&mut Event| matches!(event, Event::Report(_));
        let Some(Event::Report(report)) = events.iter_mut().find(is_report) else { return None };
        report.is_complete = true;
        Some(())
    })
}

fn stop_early(fleet: &mut Fleet, _: &mut Ledger) -> bool {
    change(fleet, |events| {
        let end = messages(events).pop()?;
        events.drain(end..events.len() - 1);
        Some(())
    })
}

fn acknowledged(events: &[Event]) -> Option<usize> {
    events.iter().position(|event| matches!(event, Event::Acknowledged { .. }))
}

fn forget_call(fleet: &mut Fleet, _: &mut Ledger) -> bool {
    change(fleet, |events| {
        events.remove(acknowledged(events)?);
        Some(())
    })
}

fn settle_twice(fleet: &mut Fleet, _: &mut Ledger) -> bool {
    change(fleet, |events| {
        let at = acknowledged(events)?;
        events.push(events[at].clone());
        Some(())
    })
}

fn misplace(fleet: &mut Fleet, _: &mut Ledger) -> bool {
    change(fleet, |events| {
        let at = acknowledged(events)?;
        let Event::Acknowledged { at, .. } = &mut events[at] else { return None };
        at.offset += 1_000_000_000;
        Some(())
    })
}

/// The last acknowledged publication with `once`: topic and offset.
fn last_once(fleet: &Fleet) -> Option<(String, u64)> {
    let is_once = |client: &&Client| matches!(client.work, Work::Publish { is_once: true, .. });
    let client = fleet.clients.iter().find(is_once)?;
    let Work::Publish { topics, .. } = &client.work else { return None };
    client.events.iter().rev().find_map(|event| match event {
        Event::Acknowledged { call, at } => {
            Some((topics[*call as usize % topics.len()].clone(), at.offset))
        }
        _ => None,
    })
}

fn lose(fleet: &mut Fleet, ledger: &mut Ledger) -> bool {
    let Some((topic, offset)) = last_once(fleet) else { return false };
    ledger.forget(&topic, offset)
}

fn append_twice(fleet: &mut Fleet, ledger: &mut Ledger) -> bool {
    let Some((topic, offset)) = last_once(fleet) else { return false };
    ledger.repeat(&topic, offset)
}
