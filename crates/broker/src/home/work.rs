//! The work of a home, as data: requests that wait for their turn or for a disk, the questions to
//! the disk, and its answers.
//!
//! `queue` holds work, handlers take it and return a [`Step`]; only [`super::Home`] knows both.

use crate::disk::{DiskAnswer, DiskQuery, Token};
use crate::mail::{
    AddFilter, Code, EdgeId, FindRetained, Gap, ReadFilter, ReadHistory, ReadRecord, ReadTopic,
    RequestClass, Subscribe, ToEdge, ToHome,
};
use stdx::chunk::Slice;
use stdx::handing::Hand;

/// The sender of a request, and its cost until it has been dealt with.
#[derive(Clone, Copy, Debug, Hand)]
pub(super) struct Caller {
    pub edge: EdgeId,
    pub cost: u32,
    pub class: RequestClass,
    /// The edge has been told already that it may send another request.
    pub is_consumed: bool,
    /// The request has waited for the tail of its partition, for as long as it may.
    pub has_waited: bool,
}

impl Caller {
    /// The caller of a request that has been given back.
    pub fn consumed(self) -> Caller {
        Caller { is_consumed: true, ..self }
    }
}

/// Work with a budget in each turn.
#[derive(Debug, Hand)]
pub(super) enum Work {
    /// A page for a subscription.
    Page(Caller, ReadTopic),
    /// A page for a subscription to filters.
    Scan(Caller, Scan),
    /// A page for a group.
    Group(GroupScan),
    /// A page of retained messages.
    Retained(Caller, FindRetained),
    /// One record.
    Record(Caller, ReadRecord),
    /// A page of history.
    History(Caller, HistoryQuery),
    /// The beginning of a subscription that has waited for a mirror in vain.
    Subscribe(Caller, Subscribe),
    /// The disk of a log has answered.
    Answer(usize, Token, Result<DiskAnswer, Code>),
}

/// A handler's decision on a request.
#[derive(Debug)]
pub(super) enum Step {
    /// The work is done, and this letter answers it.
    Done(ToEdge),
    /// The work is done, and needs no answer.
    Nothing,
    /// The work is refused by this letter, with this code.
    Refuse(ToEdge, Code),
    /// The disk cannot read for a group now.
    GroupFails(GroupScan),
    /// Memory cannot answer alone: the disk is asked.
    Ask(Box<Asking>),
    /// The scan begins beyond the stream's position, and waits until the stream has come so far.
    Ahead(Scan),
    /// The request has a position beyond the tail, and waits until the tail has come so far.
    BeyondTail(BeyondTail),
}

/// A request that may wait for the tail of its partition.
#[derive(Debug, Hand)]
pub(super) enum BeyondTail {
    Subscribe(Subscribe),
    History(ReadHistory),
    AddFilter(AddFilter),
}

impl From<BeyondTail> for ToHome {
    fn from(request: BeyondTail) -> ToHome {
        match request {
            BeyondTail::Subscribe(asked) => ToHome::Subscribe(asked),
            BeyondTail::History(asked) => ToHome::History(asked),
            BeyondTail::AddFilter(asked) => ToHome::AddFilter(asked),
        }
    }
}

/// A page that a subscription to filters waits for, and the home's own number of its partition.
#[derive(Debug, Hand)]
pub(super) struct Scan {
    pub local: u32,
    pub asked: ReadFilter,
}

/// The name of a debt of a group (`groups::peers`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hand)]
pub(super) struct DebtId {
    /// The run that has left; 0: no node had members; [`DebtId::EARLIER`].
    pub of: u64,
    /// The offset of the record by which it left; or of the last message of the debt.
    pub until: u64,
}

impl DebtId {
    /// A debt of the node itself, in a log of its own: the messages between the place that a
    /// session knew and the begin of its group after a start.
    pub const EARLIER: u64 = u64::MAX;
}

/// A page that a group waits for, and the home's own number of its partition.
#[derive(Debug, Hand)]
pub(super) struct GroupScan {
    pub local: u32,
    /// The name of the group.
    pub group: Box<[u8]>,
    /// The group is this one of its name.
    pub generation: u64,
    /// The debt of another node that is read; none: the group's own cursor.
    pub debt: Option<DebtId>,
}

/// A page of a topic's history.
#[derive(Clone, Debug, Hand)]
pub(super) struct HistoryQuery {
    pub asked: ReadHistory,
    /// Forward: the records of this gap are damaged, and the page continues behind it.
    pub passed: Option<Gap>,
}

/// A question to the disk of a log, and the request that it is for.
#[derive(Debug)]
pub(super) struct Asking {
    /// The home's own number of the partition.
    pub local: u32,
    pub question: Question,
    pub query: DiskQuery,
}

/// A request that waits for the disk's answer.
#[derive(Debug, Hand)]
pub(super) enum Question {
    /// A page for a subscription, through this offset.
    Page(ReadTopic, u64),
    /// A page for a subscription to filters, and the gap before it.
    Scan(Scan, Option<Gap>),
    /// A page for a group.
    Group(GroupScan),
    /// One record.
    Record(ReadRecord),
    /// The beginning of a subscription; records through this offset were asked about.
    Start(Subscribe, u64),
    /// The beginning of a topic's history; records through this offset were asked about.
    HistoryStart(HistoryQuery, u64),
    /// A page of history, and the question to the disk.
    History(HistoryQuery, Asked),
}

impl Question {
    /// The refusal of the request.
    pub fn refused(self, code: Code) -> Step {
        let letter = match self {
            Question::Page(ReadTopic { subscription, .. }, _)
            | Question::Scan(Scan { asked: ReadFilter { subscription, .. }, .. }, _)
            | Question::Start(Subscribe { subscription, .. }, _) => {
                ToEdge::Refused { subscription, code }
            }
            Question::Group(asked) => return Step::GroupFails(asked),
            Question::Record(asked) => asked.answer(Err(code)),
            Question::HistoryStart(query, _) | Question::History(query, _) => {
                ToEdge::History { reply: query.asked.reply, result: Err(code) }
            }
        };
        Step::Refuse(letter, code)
    }
}

/// The range of a page of history that the disk was asked for.
#[derive(Clone, Copy, Debug, Hand)]
pub(super) struct Asked {
    /// The beginning of the history.
    pub oldest: Option<u64>,
    /// Exclusive: after it, or before it in reverse.
    pub beyond: u64,
    /// Inclusive; of no meaning in reverse.
    pub through: u64,
    /// Records before the beginning of the history may have been lost.
    pub damaged: bool,
}

/// Records of one topic as the disk gave them.
#[derive(Debug)]
pub(super) struct DiskPage {
    pub records: Vec<Slice>,
    pub first_prev: Option<u64>,
    pub complete: bool,
    pub damaged: bool,
}

/// Records of one partition as the disk gave them.
#[derive(Debug)]
pub(super) struct DiskScan {
    pub records: Vec<(Slice, Slice)>,
    pub floor: u64,
    pub through: u64,
    pub damaged: bool,
}

/// The disk's answer about where a subscription begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    /// The disk has not been asked.
    Nothing,
    /// `prev` of the first record to be served, and whether some before it may have been lost.
    Prev { prev: u64, damaged: bool },
    /// The offset up to which no record is served; whether some may have been lost.
    NothingThrough { through: u64, damaged: bool },
}

/// The disk's answer about a history.
#[derive(Debug)]
pub(super) enum Known {
    /// The disk has not been asked.
    Nothing,
    /// The beginning of the history among the records through an offset, and whether something may
    /// have been lost before.
    Start { oldest: Option<u64>, through: u64, damaged: bool },
    /// The page that was asked for.
    Page(Asked, DiskPage),
}
