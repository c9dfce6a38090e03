//! Replay credit: how many messages of a replay a client still allows, where it limits them.

use super::Subscriptions;
use crate::ids::SubIndex;
use std::collections::BTreeMap;
use stdx::handing::Hand;
use stdx::memory::tree_bytes;

/// Credit by subscription; those without a limit are absent.
#[derive(Default, Hand)]
pub(super) struct Credits {
    messages: BTreeMap<SubIndex, u32>,
}

impl Credits {
    pub fn get(&self, subscription: SubIndex) -> Option<u32> {
        self.messages.get(&subscription).copied()
    }

    pub fn remove(&mut self, subscription: SubIndex) {
        self.messages.remove(&subscription);
    }

    pub fn memory_bytes(&self) -> usize {
        tree_bytes(self.messages.len(), size_of::<(SubIndex, u32)>())
    }
}

impl Subscriptions {
    /// Limits the replay of a subscription until the client gives more.
    pub fn set_credit(&mut self, subscription: SubIndex, messages: u32) {
        self.credits.messages.insert(subscription, messages);
    }

    /// The client grants credit for further messages. False if it does not limit the replay.
    pub fn add_credit(&mut self, subscription: SubIndex, messages: u32) -> bool {
        let credit = self.credits.messages.get_mut(&subscription);
        let is_limited = credit.is_some();
        if let Some(credit) = credit {
            *credit = credit.saturating_add(messages);
        }
        is_limited
    }

    /// A message of the replay is sent.
    pub fn use_credit(&mut self, subscription: SubIndex) {
        if let Some(credit) = self.credits.messages.get_mut(&subscription) {
            *credit = credit.saturating_sub(1);
        }
    }

    /// A message that the client had given credit for was not sent after all: the log will bring it
    /// again.
    pub fn refund_credit(&mut self, subscription: SubIndex) {
        self.add_credit(subscription, 1);
    }

    /// The replay is over.
    pub fn end_credit(&mut self, subscription: SubIndex) {
        self.credits.remove(subscription);
    }
}
