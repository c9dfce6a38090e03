//! Subscriptions to filters open once all homes have answered.

use crate::edge::Edge;
use crate::edge::slots::flag;
use crate::edge::subscriptions::{Cursor, GrantedStart, Stage};
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{FilterStart, HomeId, PartitionId, SubscriptionKey};
use crate::notice::{Beginning, Refusal};
use wire::native::ErrorCode;

impl Edge {
    /// A subscription has been posted to every home.
    pub(crate) fn expect_grants(&mut self, subscription: SubIndex, fail_on_gap: bool) {
        let (index, member) = self.member_of(subscription);
        let homes = self.settings.homes_count;
        let opening = self.subscriptions.behind.opening.entry((index, member)).or_default();
        opening.fail_on_gap = fail_on_gap;
        opening.waiting.extend((0..homes).map(|home| (subscription, home)));
    }

    /// A home has answered for a filter.
    pub(crate) fn filter_granted(
        &mut self,
        home: HomeId,
        key: SubscriptionKey,
        result: Result<Vec<FilterStart>, ErrorCode>,
    ) {
        let Some(subscription) = self.live_subscription(key) else {
            return;
        };
        let (index, member) = self.member_of(subscription);
        let Some(opening) = self.subscriptions.behind.opening.get_mut(&(index, member)) else {
            return;
        };
        match result {
            Err(code) => {
                let is_of_user = code == ErrorCode::TooManyFilters;
                self.statistics.turned_away.filters_of_user += u64::from(is_of_user);
                let limits = &self.settings.limits;
                let refusal = Refusal {
                    limit: is_of_user.then_some(limits.filters_per_user_max.into()),
                    ..Refusal::of(code)
                };
                self.refused(subscription, refusal);
            }
            Ok(starts) => {
                opening.waiting.retain(|asked| *asked != (subscription, home));
                for start in starts {
                    // Of several filters the last one says where the stream carries them all.
                    let before = opening.partitions.remove(&start.partition);
                    let granted = GrantedStart {
                        epoch: start.epoch,
                        through: start.through,
                        resumed: start.resumed.or(before.and_then(|granted| granted.resumed)),
                        has_passed: false,
                    };
                    opening.partitions.insert(start.partition, granted);
                }
            }
        }
        self.open_if_granted(index, member);
    }

    /// All homes have answered: it is live, or read from the log where it has to be.
    fn open_if_granted(&mut self, index: ConnIndex, member: u32) {
        let at = (index, member);
        let is_ready = self.subscriptions.behind.opening.get(&at);
        if is_ready.is_none_or(|opening| !opening.waiting.is_empty()) {
            return;
        }
        let Some(opening) = self.subscriptions.behind.opening.remove(&at) else {
            return;
        };
        let opened = self.filters_of(index, member, Stage::Pending);
        let Some(&first) = opened.last() else {
            return; // all were refused
        };
        let beginnings: Vec<Beginning> = opening
            .partitions
            .into_iter()
            .map(|(partition, granted)| granted.begin(partition))
            .collect();
        let has_gap = beginnings.iter().any(|beginning| beginning.gap.is_some());
        if opening.fail_on_gap && has_gap {
            self.statistics.recoveries.refused += 1;
            return self.refuse_all(&opened, ErrorCode::PositionUnavailable);
        }
        let replays = beginnings.iter().filter(|beginning| beginning.is_replaying);
        if !self.subscriptions.behind.held.have_room(index, replays.count(), &self.settings.limits)
        {
            return self.refuse_all(&opened, ErrorCode::Overloaded);
        }
        let is_resumed = beginnings.iter().any(|beginning| beginning.is_resumed);
        self.statistics.recoveries.count(is_resumed, has_gap);
        for &subscription in &opened {
            let entry = &mut self.subscriptions.table[subscription];
            entry.stage = Stage::Wide;
            entry.set_cursor(self.subscriptions.named_frames);
        }
        let mut is_replaying = false;
        for beginning in beginnings.iter().filter(|beginning| beginning.is_replaying) {
            is_replaying = true;
            let cursor = Cursor { after: beginning.through, is_reading: false, is_paid: true };
            self.put(index, member, beginning.partition, Some(cursor));
            self.filter_recovers(index, member, beginning.partition);
        }
        if !is_replaying {
            self.forget_replay_credit(first);
        }
        self.statistics.gaps +=
            beginnings.iter().filter(|beginning| beginning.gap.is_some()).count() as u64;
        self.tell_subscribed_filters(index, &opened, &beginnings);
        self.owe_if_told(index, &beginnings);
        if is_replaying {
            self.connections.slots[index].set(flag::LAGGING);
            self.read_if_writable(index);
        }
    }

    /// Of a stream several open together, and the first refusal may end it.
    fn refuse_all(&mut self, opened: &[u32], code: ErrorCode) {
        let keys: Vec<SubscriptionKey> =
            opened.iter().map(|&subscription| self.subscription_key(subscription)).collect();
        for key in keys {
            self.refused_by_home(key, code);
        }
    }

    /// A message has come for a filter that some home has not answered for yet.
    pub(crate) fn passed_while_opening(&mut self, subscription: SubIndex, partition: PartitionId) {
        let (index, member) = self.member_of(subscription);
        self.pass(index, member, partition);
    }

    fn pass(&mut self, index: ConnIndex, member: u32, partition: PartitionId) {
        let home = self.settings.home_of(partition);
        let Some(opening) = self.subscriptions.behind.opening.get_mut(&(index, member)) else {
            return;
        };
        // Before the home's last answer the message belongs to what was before.
        if opening.waiting.iter().all(|(_, other)| *other != home)
            && let Some(granted) = opening.partitions.get_mut(&partition)
        {
            granted.has_passed = true;
        }
    }
}
