//! What waits in a home: pages for their turn, and questions for the disk.
//!
//! A storm of recoveries must not hold up what is live. Publications, subscriptions and live
//! messages are dealt with at once; pages, histories and what the disk answers have a budget for
//! each turn, and the rest waits in order.
//!
//! A question that memory cannot answer alone is *parked* here while the log thread reads. It is
//! answered at the moment when the disk's part has come, from what is settled then, so that the
//! answer is one step of the edge's stream like any other. A parked request counts against its
//! edge's requests in flight until then; of the questions themselves only a few are on their way,
//! so that answers take little memory.

use super::filters::{DiskScan, Scan};
use super::history::{HistoryQuery, Known};
use super::subscribe::Found;
use super::turn::Turn;
use super::{Caller, Home};
use crate::disk::{DiskAnswer, DiskQuery, DiskRequest, Token};
use crate::mail::{Code, Gap, ReadFilter, ReadTopic, Subscribe, ToEdge};
use std::collections::{BTreeMap, VecDeque};
use stdx::chunk::Slice;
use stdx::handing::Hand;
use stdx::memory::{tree_bytes, vector_bytes};

/// Pages and histories of one turn.
const TURN_PAGES_MAX: u32 = 32;
/// Bytes of records in them, about.
const TURN_PAGE_BYTES_MAX: u64 = 1 << 20;
/// Questions to one disk on their way at once.
const DISK_READS_MAX: usize = 64;

/// See the module.
#[derive(Debug, Default, Hand)]
pub(super) struct Recovery {
    /// What has no room in this turn.
    waiting: VecDeque<Waiting>,
    pages: u32,
    bytes: u64,
    parked: BTreeMap<Token, Parked>,
    last_token: Token,
    /// By log.
    questions: Vec<Questions>,
}

/// Questions to one disk.
#[derive(Debug, Default, Hand)]
struct Questions {
    /// On their way.
    asked: usize,
    /// Those that wait for others to be answered.
    unasked: VecDeque<DiskRequest>,
}

/// What has a budget.
#[derive(Debug, Hand)]
pub(super) enum Waiting {
    /// A page for a subscription.
    Page(Caller, ReadTopic),
    /// A page for a subscription to filters.
    Scan(Caller, Scan),
    /// A page of history.
    History(Caller, HistoryQuery),
    /// What the disk of a log has read.
    Answer(usize, Token, Result<DiskAnswer, Code>),
}

/// A request that the disk must answer first.
#[derive(Debug, Hand)]
struct Parked {
    from: Caller,
    local: u32,
    question: Question,
}

/// What the disk's answer is for.
#[derive(Debug, Hand)]
pub(super) enum Question {
    /// A page for a subscription, through this offset.
    Page(ReadTopic, u64),
    /// A page for a subscription to filters, and what lies before it and cannot be had.
    Scan(Scan, Option<Gap>),
    /// Where a subscription begins; records through this offset were asked about.
    Start(Subscribe, u64),
    /// Where a topic's history begins; records through this offset were asked about.
    HistoryStart(HistoryQuery, u64),
    /// A page of history; this is where it begins, and what was asked for.
    History(HistoryQuery, Asked),
}

/// The range of a page of history that the disk was asked for.
#[derive(Clone, Copy, Debug, Hand)]
pub(super) struct Asked {
    /// Where the history begins.
    pub oldest: Option<u64>,
    /// Exclusive: after it, or before it in reverse.
    pub beyond: u64,
    /// Inclusive; of no meaning in reverse.
    pub through: u64,
    /// Where the history begins, something may have been lost before it.
    pub damaged: bool,
}

/// Records of one topic as the disk gave them.
#[derive(Debug, Hand)]
pub(super) struct DiskPage {
    pub records: Vec<Slice>,
    pub first_prev: Option<u64>,
    pub complete: bool,
    pub damaged: bool,
}

/// What the disk is to be asked, and what for.
#[derive(Debug)]
pub(super) struct Asking {
    pub question: Question,
    pub query: DiskQuery,
}

impl Recovery {
    /// What waits: for its turn, and for disks.
    pub fn counts(&self) -> (usize, usize) {
        (self.waiting.len(), self.parked.len())
    }

    /// Bytes of what waits, without what it refers to.
    pub fn memory_bytes(&self) -> usize {
        let unasked = self.questions.iter().map(|it| it.unasked.capacity());
        vector_bytes::<Waiting>(self.waiting.capacity())
            + tree_bytes(self.parked.len(), size_of::<(Token, Parked)>())
            + vector_bytes::<DiskRequest>(unasked.sum())
    }

    /// Questions to the disk of a log that are on their way.
    pub fn asked_of(&self, share: usize) -> usize {
        let questions = self.questions.get(share);
        questions.map_or(0, |questions| questions.asked)
    }

    fn questions_to(&mut self, share: usize) -> &mut Questions {
        if self.questions.len() <= share {
            self.questions.resize_with(share + 1, Questions::default);
        }
        &mut self.questions[share]
    }

    fn has_room(&self) -> bool {
        self.pages < TURN_PAGES_MAX && self.bytes < TURN_PAGE_BYTES_MAX
    }

    fn refill(&mut self) {
        (self.pages, self.bytes) = (0, 0);
    }

    /// Has it dealt with in its turn.
    pub fn wait(&mut self, waiting: Waiting) {
        self.waiting.push_back(waiting);
    }

    /// Notes what a page has cost.
    pub fn charge(&mut self, records: &[Slice]) {
        self.charge_bytes(records.iter().map(|record| record.len()).sum());
    }

    /// Notes how many bytes have been looked at.
    pub fn charge_bytes(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }
}

impl Home {
    /// Whether something waits that could be dealt with in another turn, or an edge has not been
    /// told what it may send again: what the home dealt with behind [`Home::finish_turn`].
    pub fn has_more(&self) -> bool {
        let edges = &self.interests.edges;
        !self.recovery.waiting.is_empty()
            || !self.forgetting.is_empty()
            || edges.iter().any(|edge| !edge.consumed.is_empty())
    }

    /// Deals with it now if this turn has room, else later.
    pub(super) fn in_turn(&mut self, waiting: Waiting, turn: &mut Turn<'_>) {
        if self.recovery.waiting.is_empty() && self.recovery.has_room() {
            self.deal_with(waiting, turn);
        } else {
            self.recovery.waiting.push_back(waiting);
        }
    }

    /// A new turn: deals with what waits as far as there is room. True if more waits.
    pub(super) fn serve_waiting(&mut self, turn: &mut Turn<'_>) -> bool {
        self.recovery.refill();
        while self.recovery.has_room() {
            match self.recovery.waiting.pop_front() {
                Some(waiting) => self.deal_with(waiting, turn),
                None => return false,
            }
        }
        !self.recovery.waiting.is_empty()
    }

    fn deal_with(&mut self, waiting: Waiting, turn: &mut Turn<'_>) {
        self.recovery.pages += 1;
        match waiting {
            Waiting::Page(from, reading) => self.read(from, reading, turn),
            Waiting::Scan(from, scan) => self.scan(from, scan, turn),
            Waiting::History(from, query) => {
                self.history(from, query, Known::Nothing, turn);
            }
            Waiting::Answer(share, token, result) => {
                self.answered(share, token, result, turn);
            }
        }
    }

    /// Parks a request until the disk has answered.
    pub(super) fn park(&mut self, from: Caller, local: u32, asking: Asking, turn: &mut Turn<'_>) {
        let Asking { question, query } = asking;
        let partition = &self.partitions[local as usize];
        let (share, partition) = (partition.share, partition.id);
        if self.is_stalled(share) {
            return self.refuse_question(from, question, Code::LogUnavailable, turn);
        }
        let recovery = &mut self.recovery;
        recovery.last_token += 1;
        let token = recovery.last_token;
        let parked = Parked { from, local, question };
        recovery.parked.insert(token, parked);
        let request = DiskRequest::Read { token, partition, query };
        recovery.questions_to(share).unasked.push_back(request);
        self.statistics.disk_reads += 1;
        self.ask_disk(share, turn);
    }

    fn ask_disk(&mut self, share: usize, turn: &mut Turn<'_>) {
        let questions = self.recovery.questions_to(share);
        while questions.asked < DISK_READS_MAX
            && let Some(request) = questions.unasked.pop_front()
        {
            questions.asked += 1;
            turn.out.ask(share, request);
        }
    }

    /// Refuses everything that waits for the disk of a log. What is on its way to it is answered
    /// some day, to nobody.
    pub(super) fn refuse_parked(&mut self, share: usize, turn: &mut Turn<'_>) {
        self.recovery.questions_to(share).unasked.clear();
        let partitions = &self.partitions;
        let parked = std::mem::take(&mut self.recovery.parked);
        let (refused, kept): (BTreeMap<Token, Parked>, _) = parked
            .into_iter()
            .partition(|(_, parked)| partitions[parked.local as usize].share == share);
        self.recovery.parked = kept;
        for parked in refused.into_values() {
            self.refuse_question(parked.from, parked.question, Code::LogUnavailable, turn);
        }
    }

    fn answered(
        &mut self,
        share: usize,
        token: Token,
        result: Result<DiskAnswer, Code>,
        turn: &mut Turn<'_>,
    ) {
        let questions = self.recovery.questions_to(share);
        debug_assert!(questions.asked > 0, "a log answers what it was asked, once");
        questions.asked = questions.asked.saturating_sub(1);
        self.ask_disk(share, turn);
        let Some(parked) = self.recovery.parked.remove(&token) else {
            return; // it took so long that the question was refused
        };
        let Parked { from, local, question } = parked;
        match result {
            Ok(answer) => self.answer(from, local, question, answer, turn),
            Err(code) => self.refuse_question(from, question, code, turn),
        }
    }

    fn answer(
        &mut self,
        from: Caller,
        local: u32,
        question: Question,
        answer: DiskAnswer,
        turn: &mut Turn<'_>,
    ) {
        match (question, answer) {
            (
                Question::Page(reading, through),
                DiskAnswer::Page { records, first_prev, complete, damaged },
            ) => {
                let page = DiskPage { records, first_prev, complete, damaged };
                self.page_from_disk(from, local, reading, through, page, turn);
            }
            (Question::Scan(scan, gap), DiskAnswer::Scan { records, floor, through, damaged }) => {
                let found = DiskScan { records, floor, through, damaged };
                self.scan_from_disk(from, local, &scan, gap, found, turn);
            }
            (Question::Start(asked, through), DiskAnswer::Start { prev, damaged, .. }) => {
                let found = match prev {
                    Some(prev) => Found::Prev { prev, damaged },
                    None => Found::NothingThrough { through, damaged },
                };
                self.subscribe(from, asked, found, turn);
            }
            (Question::HistoryStart(query, through), DiskAnswer::Start { oldest, damaged, .. }) => {
                let known = Known::Start { oldest, through, damaged };
                self.history(from, query, known, turn);
            }
            (
                Question::History(query, asked),
                DiskAnswer::Page { records, first_prev, complete, damaged },
            ) => {
                let page = DiskPage { records, first_prev, complete, damaged };
                self.history(from, query, Known::Page(asked, page), turn);
            }
            (question, _) => {
                debug_assert!(false, "a log answers the question that it was asked");
                self.refuse_question(from, question, Code::Internal, turn);
            }
        }
    }

    /// The disk could not be read. A subscription ends with that, and its client may come back with
    /// its position.
    fn refuse_question(
        &mut self,
        from: Caller,
        question: Question,
        code: Code,
        turn: &mut Turn<'_>,
    ) {
        self.consumed(from);
        self.statistics.refused.count(code);
        let letter = match question {
            Question::Page(ReadTopic { subscription, .. }, _)
            | Question::Scan(Scan { asked: ReadFilter { subscription, .. }, .. }, _)
            | Question::Start(Subscribe { subscription, .. }, _) => {
                ToEdge::Refused { subscription, code }
            }
            Question::HistoryStart(query, _) | Question::History(query, _) => {
                ToEdge::History { reply: query.asked.reply, result: Err(code) }
            }
        };
        turn.out.post(from.edge, letter);
    }
}
