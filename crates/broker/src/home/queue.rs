//! Work that waits in a home: pages for their turn, and questions for the disk.
//!
//! A storm of recoveries must not delay live traffic. Publications, subscriptions and live messages
//! are dealt with at once; pages, histories and answers of a disk have a budget for each turn, and
//! the rest waits in order.
//!
//! A question that memory cannot answer alone is *parked* here while the log thread reads. It is
//! answered at the moment when the disk's part has come, from the records settled then, so that the
//! answer is one step of the edge's stream like any other. A parked request counts against its
//! edge's requests in flight until then; only a few questions are under way at once, so that
//! answers take little memory.

use super::work::{Asking, Caller, Question, Work};
use crate::disk::{DiskRequest, Token};
use crate::mail::PartitionId;
use std::collections::{BTreeMap, VecDeque};
use stdx::chunk::Slice;
use stdx::handing::Hand;
use stdx::memory::{tree_bytes, vector_bytes};

/// Pages and histories of one turn.
const TURN_PAGES_MAX: u32 = 32;
/// Bytes of records in them, about.
const TURN_PAGE_BYTES_MAX: u64 = 1 << 20;
/// Questions to one disk under way at once.
const DISK_READS_MAX: usize = 64;

/// See the module.
#[derive(Debug, Default, Hand)]
pub(super) struct Queue {
    /// Work that had no room in its turn.
    waiting: VecDeque<Work>,
    pages: u32,
    bytes: u64,
    parked: BTreeMap<Token, Parked>,
    last_token: Token,
    /// Questions by log.
    questions: Vec<Questions>,
}

/// Questions to one disk.
#[derive(Debug, Default, Hand)]
struct Questions {
    /// Under way.
    asked: usize,
    /// Those that wait for others to be answered.
    unasked: VecDeque<DiskRequest>,
}

/// A request that the disk must answer first.
#[derive(Debug, Hand)]
pub(super) struct Parked {
    pub from: Caller,
    /// The home's own number of the partition.
    pub local: u32,
    /// The log that is asked.
    share: usize,
    pub question: Question,
}

impl Queue {
    /// The amount of work that waits: for its turn, and for disks.
    pub fn counts(&self) -> (usize, usize) {
        (self.waiting.len(), self.parked.len())
    }

    /// Whether no work waits for its turn.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes of all that waits, without the slices that it refers to.
    pub fn memory_bytes(&self) -> usize {
        let unasked = self.questions.iter().map(|it| it.unasked.capacity());
        vector_bytes::<Work>(self.waiting.capacity())
            + tree_bytes(self.parked.len(), size_of::<(Token, Parked)>())
            + vector_bytes::<DiskRequest>(unasked.sum())
    }

    /// A turn begins with a new budget.
    pub fn begin_turn(&mut self) {
        (self.pages, self.bytes) = (0, 0);
    }

    /// Gives work back that can be done at once; keeps it for a later turn if this one has no room
    /// or other work waits before it.
    pub fn admit(&mut self, work: Work) -> Option<Work> {
        if self.waiting.is_empty() && self.has_room() {
            self.pages += 1;
            return Some(work);
        }
        self.push(work);
        None
    }

    /// Work for a later turn.
    pub fn push(&mut self, work: Work) {
        self.waiting.push_back(work);
    }

    /// The next work, if this turn has room for it.
    pub fn next(&mut self) -> Option<Work> {
        let work = self.has_room().then(|| self.waiting.pop_front()).flatten()?;
        self.pages += 1;
        Some(work)
    }

    /// Notes the cost of a page.
    pub fn charge(&mut self, records: &[Slice]) {
        self.charge_bytes(records.iter().map(|record| record.len()).sum());
    }

    /// Notes the bytes that a page examined.
    pub fn charge_bytes(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Parks a request until the disk of a log has answered.
    pub fn park(&mut self, from: Caller, share: usize, partition: PartitionId, asking: Asking) {
        let Asking { local, question, query } = asking;
        self.last_token += 1;
        let token = self.last_token;
        self.parked.insert(token, Parked { from, local, share, question });
        let request = DiskRequest::Read { token, partition, query };
        self.questions_to(share).unasked.push_back(request);
    }

    /// The next question to the disk of a log, if not too many are under way.
    pub fn next_question(&mut self, share: usize) -> Option<DiskRequest> {
        let questions = self.questions_to(share);
        if questions.asked >= DISK_READS_MAX {
            return None;
        }
        let request = questions.unasked.pop_front()?;
        questions.asked += 1;
        Some(request)
    }

    /// Questions to the disk of a log that are under way.
    pub fn asked_of(&self, share: usize) -> usize {
        let questions = self.questions.get(share);
        questions.map_or(0, |questions| questions.asked)
    }

    /// A disk has answered. The request, unless it was refused in the meantime.
    pub fn answered(&mut self, share: usize, token: Token) -> Option<Parked> {
        let questions = self.questions_to(share);
        debug_assert!(questions.asked > 0, "a log answers what it was asked, once");
        questions.asked = questions.asked.saturating_sub(1);
        self.parked.remove(&token)
    }

    /// All requests that wait for the disk of a log. The answers to questions under way are dropped
    /// when they come.
    pub fn give_up(&mut self, share: usize) -> impl Iterator<Item = Parked> + use<> {
        self.questions_to(share).unasked.clear();
        let parked = std::mem::take(&mut self.parked);
        let (given_up, kept): (BTreeMap<Token, Parked>, _) =
            parked.into_iter().partition(|(_, parked)| parked.share == share);
        self.parked = kept;
        given_up.into_values()
    }

    fn has_room(&self) -> bool {
        self.pages < TURN_PAGES_MAX && self.bytes < TURN_PAGE_BYTES_MAX
    }

    fn questions_to(&mut self, share: usize) -> &mut Questions {
        if self.questions.len() <= share {
            self.questions.resize_with(share + 1, Questions::default);
        }
        &mut self.questions[share]
    }
}
