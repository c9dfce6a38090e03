//! The audit: acknowledgements of publishers against the messages of each subscriber.
//!
//! Each publisher numbers the messages of its own topic from 1 and sends the next one after the
//! acknowledgement of the last. So every subscriber must get 1, 2, 3 and so on, each once. The
//! memory grows only with messages that come before an earlier one.

use std::collections::BTreeSet;

/// The acknowledged messages, and those of each subscriber.
#[derive(Debug)]
pub struct Audit {
    /// The last acknowledged number of each topic.
    acknowledged: Vec<u64>,
    /// Messages by subscriber and topic.
    seen: Vec<Vec<Seen>>,
    twice: u64,
    out_of_order: u64,
    gaps: u64,
}

/// The numbers of one topic at one subscriber.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// Every number up to here.
    through: u64,
    /// Later ones.
    early: BTreeSet<u64>,
}

/// The figures of an audit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// Messages with an acknowledgement.
    pub acknowledged: u64,
    /// Messages of all subscribers, each once.
    pub delivered: u64,
    /// Acknowledged messages that a subscriber has not got: on their way, or lost at the end.
    pub missing: u64,
    /// Messages that a subscriber got again.
    pub twice: u64,
    /// Messages that a subscriber got after a later one.
    pub out_of_order: u64,
    /// Gaps that a node reported to a subscriber.
    pub gaps: u64,
}

impl Found {
    /// Whether each acknowledged message came once and in order, and no gap was reported.
    pub fn is_clean(&self) -> bool {
        [self.missing, self.twice, self.out_of_order, self.gaps] == [0; 4]
    }
}

impl Audit {
    /// An audit of so many topics at so many subscribers.
    pub fn new(topics: usize, subscribers: usize) -> Audit {
        Audit {
            acknowledged: vec![0; topics],
            seen: vec![vec![Seen::default(); topics]; subscribers],
            twice: 0,
            out_of_order: 0,
            gaps: 0,
        }
    }

    /// Takes the acknowledgement of the next message of a topic.
    pub fn acknowledge(&mut self, topic: usize) {
        self.acknowledged[topic] += 1;
    }

    /// Takes a message of a subscriber.
    pub fn deliver(&mut self, subscriber: usize, topic: usize, number: u64) {
        let seen = &mut self.seen[subscriber][topic];
        if number <= seen.through || seen.early.contains(&number) {
            self.twice += 1;
            return;
        }
        let is_late = seen.early.last().is_some_and(|last| number < *last);
        self.out_of_order += u64::from(is_late);
        seen.early.insert(number);
        while seen.early.first() == Some(&(seen.through + 1)) {
            seen.early.pop_first();
            seen.through += 1;
        }
    }

    /// Takes a gap of a subscriber.
    pub fn gap(&mut self) {
        self.gaps += 1;
    }

    /// The acknowledged messages of the topic that has the fewest.
    pub fn least_acknowledged(&self) -> u64 {
        self.acknowledged.iter().copied().min().unwrap_or(0)
    }

    /// The figures.
    pub fn found(&self) -> Found {
        let count = |seen: &Seen| seen.through + seen.early.len() as u64;
        let of_topics = |seen: &Vec<Seen>| -> u64 {
            let missing = seen.iter().zip(&self.acknowledged).map(|(seen, acknowledged)| {
                let early = seen.early.range(..=*acknowledged).count() as u64;
                acknowledged.saturating_sub(seen.through).saturating_sub(early)
            });
            missing.sum()
        };
        Found {
            acknowledged: self.acknowledged.iter().sum(),
            delivered: self.seen.iter().flatten().map(count).sum(),
            missing: self.seen.iter().map(of_topics).sum(),
            twice: self.twice,
            out_of_order: self.out_of_order,
            gaps: self.gaps,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two topics, two subscribers; `numbers` arrive at the first subscriber on the first topic.
    fn found(acknowledged: u64, numbers: &[u64]) -> Found {
        let mut audit = Audit::new(2, 2);
        for number in 1..=acknowledged {
            audit.acknowledge(0);
            audit.deliver(1, 0, number);
        }
        for number in numbers {
            audit.deliver(0, 0, *number);
        }
        audit.found()
    }

    #[test]
    fn each_message_once_and_in_order_is_clean() {
        let clean = found(3, &[1, 2, 3]);
        assert!(clean.is_clean(), "{clean:?}");
        assert_eq!((clean.acknowledged, clean.delivered), (3, 6));
        assert!(found(2, &[1, 2, 3]).is_clean(), "delivered before its acknowledgement");
    }

    #[test]
    fn each_fault_has_its_count() {
        assert_eq!(found(3, &[1, 3]).missing, 1);
        assert_eq!(found(3, &[]).missing, 3);
        assert_eq!(found(1, &[3]).missing, 1);
        let late = found(3, &[1, 3, 2]);
        assert_eq!((late.missing, late.out_of_order, late.twice), (0, 1, 0));
        let again = found(3, &[1, 2, 2, 3, 1]);
        assert_eq!((again.missing, again.out_of_order, again.twice), (0, 0, 2));
        assert_eq!(found(3, &[1, 3, 3]).twice, 1);
        let mut audit = Audit::new(1, 1);
        audit.gap();
        assert!(!audit.found().is_clean());
    }
}
