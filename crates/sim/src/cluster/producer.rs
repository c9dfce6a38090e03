//! The producer of one node for one partition, as the engine's client library has it: publications
//! in order, sent again until they are committed.
//!
//! Sending again makes copies: of everything without an answer, in order, or of a single
//! publication much later. The names of the records are the same, so nodes drop the copies.

use super::life::{Content, EntryId};
use super::partition::Partition;
use broker::engine::{EnginePublish, RunName};
use std::collections::VecDeque;
use stdx::prng::Prng;

/// Faults of producers.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProducerFaults {
    /// The maximum delay until the leader takes a publication, in milliseconds.
    pub delay_ms_max: u64,
    /// The probability that everything without an answer is sent again.
    pub again: f64,
    /// The probability of a copy that arrives much later.
    pub stray: f64,
    /// The maximum delay of such a copy, in milliseconds.
    pub stray_ms_max: u64,
    /// The probability that a publication overtakes the one before it.
    pub overtake: f64,
}

/// A publication of the home.
#[derive(Clone)]
struct Pending {
    publish: EnginePublish,
    due_ms: u64,
    asked_at_ms: u64,
    /// It was sent before, so it may be in the log.
    was_sent: bool,
    entry: Option<EntryId>,
}

/// A producer; see the module.
#[derive(Default)]
pub struct Producer {
    queue: VecDeque<Pending>,
    /// In the leader's log, without an answer.
    sent: VecDeque<Pending>,
    strays: Vec<Pending>,
    /// Nothing is sent again before this time.
    again_from_ms: u64,
}

/// The time between two repetitions of everything without an answer, in milliseconds: a client
/// waits for answers before. Without it, copies of copies would fill the log.
const AGAIN_MS: u64 = 20;

impl Producer {
    /// Takes a publication.
    pub fn push(&mut self, publish: EnginePublish, due_ms: u64, now_ms: u64) {
        // In order: none before an earlier one.
        let due_ms = self.queue.back().map_or(due_ms, |last| last.due_ms.max(due_ms));
        let pending =
            Pending { publish, due_ms, asked_at_ms: now_ms, was_sent: false, entry: None };
        self.queue.push_back(pending);
    }

    /// The number of publications that were not sent.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// The time of the next useful [`Producer::work`], while there is a leader.
    pub fn due_ms(&self) -> Option<u64> {
        let queue = self.queue.front().map(|next| next.due_ms);
        queue.into_iter().chain(self.strays.iter().map(|stray| stray.due_ms)).min()
    }

    /// Appends the entries that are due. Returns their number.
    pub fn work(
        &mut self,
        partition: &mut Partition,
        (now_ms, unix_ms): (u64, u64),
        faults: &ProducerFaults,
        random: &mut Prng,
    ) -> usize {
        let mut count = 0;
        while partition.is_available()
            && self.queue.front().is_some_and(|next| next.due_ms <= now_ms)
        {
            if self.queue.len() > 1 && !self.queue[1].was_sent && random.chance(faults.overtake) {
                self.queue.swap(0, 1);
            }
            let Some(mut next) = self.queue.pop_front() else {
                break;
            };
            next.entry = partition.append(content(&next.publish), unix_ms);
            next.was_sent = true;
            count += 1;
            if random.chance(faults.stray) {
                let due_ms = now_ms + random.between(1, faults.stray_ms_max.max(1));
                self.strays.push(Pending { due_ms, ..next.clone() });
            }
            self.sent.push_back(next);
            if random.chance(faults.again) && self.again_from_ms <= now_ms {
                self.again_from_ms = now_ms + AGAIN_MS;
                self.send_again(now_ms);
                break;
            }
        }
        let mut index = 0;
        while partition.is_available() && index < self.strays.len() {
            if self.strays[index].due_ms <= now_ms {
                let mut stray = self.strays.swap_remove(index);
                partition.append(content(&stray.publish), unix_ms);
                count += 1;
                if random.chance(faults.stray) {
                    stray.due_ms = now_ms + random.between(1, faults.stray_ms_max.max(1));
                    self.strays.push(stray);
                }
            } else {
                index += 1;
            }
        }
        self.answer(partition);
        count
    }

    /// Forgets committed entries, which have their answers.
    pub fn answer(&mut self, partition: &Partition) {
        let (life, committed) = (partition.life(), partition.committed());
        let is_committed = |pending: &Pending| {
            pending.entry.is_none_or(|entry| life.entry(entry).offset <= committed)
        };
        while self.sent.front().is_some_and(is_committed) {
            self.sent.pop_front();
        }
    }

    /// Sends everything without an answer again, in order.
    fn send_again(&mut self, now_ms: u64) {
        while let Some(mut last) = self.sent.pop_back() {
            last.due_ms = now_ms;
            self.queue.push_front(last);
        }
    }

    /// Some entries are lost: sends them again if they had no answer.
    pub fn lost(&mut self, lost: &[EntryId], now_ms: u64) {
        while let Some(last) = self.sent.back()
            && last.entry.is_some_and(|entry| lost.contains(&entry))
            && let Some(mut last) = self.sent.pop_back()
        {
            last.due_ms = now_ms;
            self.queue.push_front(last);
        }
    }

    /// A new topic has replaced this one: entries under way are gone, without an answer.
    pub fn topic_replaced(&mut self) {
        self.sent.clear();
        self.strays.clear();
    }

    /// Takes publications back that were never sent and wait for too long; returns their names.
    pub fn give_up(&mut self, asked_before_ms: u64) -> Vec<RunName> {
        let mut given_up = Vec::new();
        self.queue.retain(|pending| {
            let is_over = !pending.was_sent && pending.asked_at_ms <= asked_before_ms;
            if is_over {
                given_up.push(pending.publish.name);
            }
            !is_over
        });
        given_up
    }
}

fn content(publish: &EnginePublish) -> Content {
    let publication = Box::new(publish.publication.clone());
    if let Some(restored) = &publish.restored {
        return Content::Restored { name: publish.name, publication, restored: **restored };
    }
    if publish.is_register {
        return Content::Register { name: publish.name, publication };
    }
    Content::Record { name: Some(publish.name), publication }
}
