//! Whether everything that was published came, to everybody who should have it.
//!
//! Place: at the end of a run, from the totals of its load generators. The argument is a sum: every
//! client was live before the first message was published and each counts *different* messages
//! only, by the publisher's numbers; so they all have everything exactly if together they have as
//! many as were sent times the clients of a topic. It costs no memory, and holds for a million
//! clients. Where streams are audited, each is judged by itself besides.

use serde::Serialize;

use crate::audit::Findings;
use crate::engine::Counts;
use crate::units::show_count;
use crate::verify::Faults;

/// The verdict and what it rests on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Completeness {
    /// Everything came, once and in order.
    pub is_complete: bool,
    /// Messages that were sent.
    pub sent: u64,
    /// Deliveries that are due for them.
    pub expected: u64,
    /// Different messages that were received, over all clients.
    pub received: u64,
    /// Deliveries due for the messages of the measured span.
    pub expected_measured: u64,
    /// Those of them that came.
    pub received_measured: u64,
    /// Violations of the delivery guarantees.
    pub faults: Faults,
    /// Connections that were lost, of subscribers and publishers.
    pub connections_lost: u64,
    /// Announced gaps.
    pub gaps: u64,
    /// Announced skips.
    pub skipped: u64,
    /// Publications that were refused or never acknowledged.
    pub unacknowledged: u64,
    /// Publications that were sent again.
    pub repeated_sends: u64,
    /// The audit of every stream, where there was one.
    pub audit: Option<Findings>,
    /// The complaints, as text.
    pub why: Vec<String>,
}

/// The counts of a run that the verdict needs.
#[derive(Clone, Debug, Default)]
pub struct RunTotals {
    /// Counts of the subscribers, or echo clients.
    pub subscribers: Counts,
    /// Counts of all publishers; none if the clients send themselves.
    pub publishers: Option<Counts>,
    /// Clients that have each message.
    pub group: u64,
    /// Sent in the measured span.
    pub sent_measured: u64,
    /// Received of it.
    pub received_measured: u64,
    /// Clients that should be live in the end.
    pub clients: u64,
    /// The loss of connections was part of the run.
    pub has_storm: bool,
    /// The findings of the audit.
    pub audit: Option<Findings>,
}

impl RunTotals {
    /// The verdict.
    pub fn judge(&self) -> Completeness {
        let subscribers = &self.subscribers;
        let publishers = self.publishers.unwrap_or_default();
        // An echo is a delivery to its own sender.
        let (sent, received) = match self.publishers {
            Some(_) => (publishers.sent, subscribers.messages),
            None => (subscribers.sent, subscribers.received),
        };
        let mut verdict = Completeness {
            is_complete: false,
            sent,
            expected: sent * self.group,
            received,
            expected_measured: self.sent_measured * self.group,
            received_measured: self.received_measured,
            faults: subscribers.faults,
            connections_lost: subscribers.disconnects + publishers.disconnects,
            gaps: subscribers.gaps,
            skipped: subscribers.skipped,
            unacknowledged: publishers.refused
                + publishers.unacknowledged
                + publishers.inflight.max(0) as u64,
            repeated_sends: publishers.repeated_sends,
            audit: self.audit.clone(),
            why: Vec::new(),
        };
        verdict.why = self.complaints(&verdict);
        verdict.is_complete = verdict.why.is_empty();
        verdict
    }

    fn complaints(&self, verdict: &Completeness) -> Vec<String> {
        let mut why = Vec::new();
        let mut complain = |is_wrong: bool, count: u64, what: &str| {
            if is_wrong {
                why.push(format!("{} {what}", show_count(count)));
            }
        };
        let missing = verdict.expected.saturating_sub(verdict.received);
        let surplus = verdict.received.saturating_sub(verdict.expected);
        complain(missing > 0, missing, "deliveries are missing");
        complain(surplus > 0, surplus, "deliveries are surplus");
        let late = verdict.expected_measured.abs_diff(verdict.received_measured);
        complain(
            late > 0,
            late,
            "deliveries is the difference between those sent and those received in the measured span",
        );
        let faults = verdict.faults;
        complain(
            faults.lost != 0,
            faults.lost.unsigned_abs(),
            "messages were skipped within a stream",
        );
        complain(faults.repeated > 0, faults.repeated, "messages were repeated");
        complain(faults.out_of_order > 0, faults.out_of_order, "messages were out of order");
        complain(faults.proof_failed > 0, faults.proof_failed, "of the server's proofs failed");
        complain(verdict.gaps > 0, verdict.gaps, "gaps were announced");
        complain(verdict.skipped > 0, verdict.skipped, "skips were announced");
        complain(
            verdict.unacknowledged > 0,
            verdict.unacknowledged,
            "publications were refused or not acknowledged",
        );
        complain(
            verdict.connections_lost > 0 && !self.has_storm,
            verdict.connections_lost,
            "connections were lost",
        );
        let foreign = self.subscribers.foreign;
        complain(foreign > 0, foreign, "messages of other publishers arrived");
        let open = self.subscribers.connections.max(0) as u64;
        complain(
            open < self.clients,
            self.clients.saturating_sub(open),
            "clients were not connected at the end",
        );
        if let Some(audit) = &verdict.audit {
            complain(audit.faulty > 0, audit.faulty, "streams are faulty");
            complain(audit.unanswered > 0, audit.unanswered, "subscriptions were never answered");
            complain(
                audit.missing_acknowledged > 0,
                audit.missing_acknowledged,
                "acknowledged messages are missing",
            );
        }
        why
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals() -> RunTotals {
        RunTotals {
            subscribers: Counts {
                connections: 20,
                messages: 100,
                received: 100,
                ..Counts::default()
            },
            publishers: Some(Counts { sent: 10, ..Counts::default() }),
            group: 10,
            sent_measured: 4,
            received_measured: 40,
            clients: 20,
            ..RunTotals::default()
        }
    }

    #[test]
    fn everything_came() {
        let verdict = totals().judge();
        assert!(verdict.is_complete, "{:?}", verdict.why);
        assert_eq!((verdict.expected, verdict.expected_measured), (100, 40));
        let echoes = RunTotals {
            subscribers: Counts { sent: 7, received: 7, ..Counts::default() },
            group: 1,
            ..RunTotals::default()
        };
        assert!(echoes.judge().is_complete);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let check = |plant: fn(&mut RunTotals), said: &str| {
            let mut totals = totals();
            plant(&mut totals);
            let verdict = totals.judge();
            assert!(!verdict.is_complete);
            assert_eq!(verdict.why, [said]);
        };
        check(|b| b.subscribers.messages = 99, "1 deliveries are missing");
        check(|b| b.subscribers.messages = 102, "2 deliveries are surplus");
        check(
            |b| b.received_measured = 39,
            "1 deliveries is the difference between those sent and those received in the measured span",
        );
        check(|b| b.subscribers.faults.lost = 3, "3 messages were skipped within a stream");
        check(|b| b.subscribers.faults.repeated = 1, "1 messages were repeated");
        check(|b| b.subscribers.gaps = 1, "1 gaps were announced");
        check(|b| b.subscribers.disconnects = 1, "1 connections were lost");
        check(|b| b.subscribers.connections = 19, "1 clients were not connected at the end");
        check(
            |b| b.publishers.as_mut().unwrap().refused = 5,
            "5 publications were refused or not acknowledged",
        );
        check(
            |b| {
                b.audit = Some(Findings { faulty: 2, ..Findings::default() });
            },
            "2 streams are faulty",
        );
    }

    #[test]
    fn losses_of_a_storm_are_meant() {
        let mut totals = totals();
        totals.subscribers.disconnects = 20;
        totals.has_storm = true;
        assert!(totals.judge().is_complete);
    }
}
