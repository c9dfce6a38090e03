//! Renewals under way: sessions that continue with a new token (`edge::flow::renewal`).

use crate::entitlement::{Digest, Purpose};
use crate::ids::{ConnIndex, TopicIndex};
use crate::mail::HomeId;
use std::collections::BTreeMap;
use stdx::handing::Hand;
use stdx::memory::tree_bytes;

/// Renewals under way.
#[derive(Default, Hand)]
pub(crate) struct Renewals {
    /// Renewals under way, by connection.
    renewals: BTreeMap<ConnIndex, Renewal>,
    /// New tokens that wait for their decision, and the numbers of their requests.
    undecided: BTreeMap<ConnIndex, (u32, Digest)>,
    /// Connections of which a subscription has been settled by the present letter.
    settled: Vec<ConnIndex>,
}

impl Renewals {
    /// Notes that the shell was asked about a new token.
    pub fn note_asked(&mut self, index: ConnIndex, request: u32, digest: Digest) {
        self.undecided.insert(index, (request, digest));
    }

    /// The question that is out for a connection.
    pub fn asked(&self, index: ConnIndex) -> Option<(Purpose, Digest)> {
        let (request, digest) = *self.undecided.get(&index)?;
        Some((Purpose::Renewal { request }, digest))
    }

    /// The question has its decision.
    pub fn take_asked(&mut self, index: ConnIndex) {
        self.undecided.remove(&index);
    }

    /// Begins a renewal, or stores its next state.
    pub fn insert(&mut self, index: ConnIndex, renewal: Renewal) {
        self.renewals.insert(index, renewal);
    }

    /// The renewal of a connection.
    pub fn get(&self, index: ConnIndex) -> Option<&Renewal> {
        self.renewals.get(&index)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, index: ConnIndex) -> Option<&mut Renewal> {
        self.renewals.get_mut(&index)
    }

    /// The renewal is over.
    pub fn take(&mut self, index: ConnIndex) -> Option<Renewal> {
        self.undecided.remove(&index);
        self.renewals.remove(&index)
    }

    /// A subscription of the connection has been granted or refused: a renewal may have waited for
    /// it.
    pub fn note_settled(&mut self, index: ConnIndex) {
        if !self.renewals.is_empty() {
            self.settled.push(index);
        }
    }

    /// Connections of which a subscription has been settled; one may come several times.
    pub fn take_settled(&mut self) -> Vec<ConnIndex> {
        std::mem::take(&mut self.settled)
    }

    /// Whether the homes have not been asked for a renewal of the connection.
    pub fn is_unasked(&self, index: ConnIndex) -> bool {
        self.get(index).is_some_and(|renewal| renewal.asked.is_none())
    }

    /// Whether subscriptions have been settled by the present letter.
    pub fn have_settled(&self) -> bool {
        !self.settled.is_empty()
    }

    /// Bytes, about: without names.
    pub fn memory_bytes(&self) -> usize {
        tree_bytes(self.renewals.len(), size_of::<(ConnIndex, Renewal)>())
            + tree_bytes(self.undecided.len(), size_of::<(ConnIndex, (u32, Digest))>())
    }
}

/// A token that was accepted, and is to take the place of another.
#[derive(Hand)]
pub(crate) struct Renewal {
    /// The client's number.
    pub request: u32,
    /// The entry of the token, which this holds.
    pub at: u32,
    pub asked: Option<Asked>,
}

/// A question to the homes, and their answers so far.
#[derive(Hand)]
pub(crate) struct Asked {
    /// The number of the question.
    pub number: u32,
    /// Homes that have not answered, with the topics that they were asked for.
    pub waiting: BTreeMap<HomeId, Vec<TopicIndex>>,
    pub names: BTreeMap<(HomeId, TopicIndex), Box<str>>,
}
