//! A node's record of its groups in one partition of the engine, for the other nodes.

use super::peers::State;
use crate::home::work::DebtId;
use stdx::handing::{Hand, Input};

/// The form of the payload: its first byte.
const FORM: u8 = 1;

/// The record. Its name has the run of the node.
#[derive(Clone, PartialEq, Eq, Debug, Hand)]
pub(super) struct Register {
    /// The name of the node.
    pub node: Box<str>,
    /// The node does not know the groups of others, and asks.
    pub asks: bool,
    pub answer: Answer,
    /// Runs of nodes that have left the cluster: they are in no group any more.
    pub ended: Vec<u64>,
    /// The groups in which something has changed.
    pub groups: Vec<Said>,
}

/// The answer to nodes that ask. `through` is the offset up to which the node had read.
#[derive(Clone, PartialEq, Eq, Debug, Hand)]
pub(super) enum Answer {
    /// The record is none.
    None,
    /// The node does not know the groups of others.
    Nothing { through: u64 },
    /// No living node knows of groups: they begin with this record.
    Begin { through: u64 },
    /// The state of the node, or a part of it before the next record's.
    All { through: u64, goes_on: bool, state: State },
}

/// A node's part in a group, and its debts.
#[derive(Clone, PartialEq, Eq, Debug, Hand)]
pub(super) struct Said {
    /// The group's name, `/`, and the filter.
    pub group: Box<[u8]>,
    /// The node's part in the group.
    pub part: Part,
    /// Debts that the node has paid.
    pub paid: Vec<DebtId>,
}

/// The part of a node in a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub(super) struct Part {
    /// The members or sessions there.
    pub has: Has,
    /// Its members have acknowledged everything of its part up to this offset.
    pub through: u64,
    /// The node has all messages behind this offset.
    pub floor: u64,
}

/// The members or sessions of a group at a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub(super) enum Has {
    /// Connected members: the node gets its part of the messages.
    Members,
    /// Sessions that sleep, and no members.
    Sleepers,
    /// Nothing: the node has left the group.
    Nothing,
}

/// Messages that were those of a node, and that its members have not acknowledged: another node
/// hands them out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub(super) struct Debt {
    /// Its name.
    pub id: DebtId,
    /// The messages are behind this offset.
    pub after: u64,
    /// The run of the node that hands them out; 0 while no node has members.
    pub heir: u64,
}

impl Register {
    /// The payload of the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut payload = vec![FORM];
        self.give(&mut payload);
        payload
    }

    /// The record of a payload; none if it has another form.
    pub fn decode(payload: &[u8]) -> Option<Register> {
        match payload.split_first() {
            Some((&FORM, rest)) => {
                let mut input = Input::new(rest);
                Register::take(&mut input).filter(|_| input.left() == 0)
            }
            _ => None,
        }
    }
}
