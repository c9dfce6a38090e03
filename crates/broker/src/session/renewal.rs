//! Renewals: a session goes on with a new token of the same subject, and what that does not cover
//! ends.
//!
//! A renewal is done in three steps, and the connection is not read meanwhile. *Judged*: the new
//! token is, as that of HELLO. *Asked*: if it permits something else than the old one, the names of
//! plain topics are needed, which the edge does not keep; once no subscription waits for its home,
//! the homes are asked ([`ToHome::Describe`], as for tickets). *Done*: all have answered; what is
//! not covered ends with UNSUBSCRIBED, and RENEWED follows, so that nothing comes behind it that
//! the new token does not permit. Until then the old token holds, and the time of the old one
//! counts.
//!
//! Where the new token is the first that makes the connection count for its user, the shell is
//! asked before anything ends ([`Edge::ask_for_user_again`]): a refusal leaves all as it was.
//!
//! While a renewal is under way no subscription can begin, and an index of a topic stays while a
//! subscription has it, so that the names that the homes have said hold at the end.

use crate::mail::HomeId;
use std::collections::BTreeMap;
use stdx::handing::Hand;
use stdx::memory::tree_bytes;

/// Renewals under way, by connection.
#[derive(Default, Hand)]
pub(crate) struct Renewals {
    pub by_connection: BTreeMap<u32, Renewal>,
    /// Connections of which a subscription has been settled by the present letter.
    pub settled: Vec<u32>,
}

impl Renewals {
    /// Whether [`Edge::continue_renewals`] has something to do.
    pub fn have_settled(&self) -> bool {
        !self.settled.is_empty()
    }

    /// Bytes, about: without names.
    pub fn memory_bytes(&self) -> usize {
        tree_bytes(self.by_connection.len(), size_of::<(u32, Renewal)>())
    }
}

/// A token that has been judged, and is to take the place of another.
#[derive(Hand)]
pub(crate) struct Renewal {
    /// The client's number.
    pub request: u32,
    /// Its entry, which this holds.
    pub at: u32,
    pub asked: Option<Asked>,
}

/// What the homes were asked, and have said.
#[derive(Hand)]
pub(crate) struct Asked {
    /// Of the question.
    pub number: u32,
    /// Homes that have not answered, with the topics that they were asked for.
    pub waiting: BTreeMap<HomeId, Vec<u32>>,
    pub names: BTreeMap<(HomeId, u32), Box<str>>,
}
