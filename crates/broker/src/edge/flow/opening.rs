//! Subscriptions to filters open once all homes have answered.

use crate::edge::Edge;
use crate::edge::subscriptions::{Opened, Reader};
use crate::ids::SubIndex;
use crate::mail::{FilterStart, HomeId, PartitionId, SubscriptionKey};
use crate::notice::{Beginning, Refusal};
use crate::protocol::flag;
use wire::native::ErrorCode;

impl Edge {
    /// A home has answered for a filter.
    pub(crate) fn filter_granted(
        &mut self,
        home: HomeId,
        key: SubscriptionKey,
        result: Result<Vec<FilterStart>, ErrorCode>,
    ) {
        let Some(subscription) = self.subscriptions.find(key) else {
            return;
        };
        let reader = self.subscriptions.reader_of(subscription);
        if !self.subscriptions.is_opening(reader) {
            return;
        }
        match result {
            Ok(starts) => {
                self.subscriptions.take_starts(reader, (subscription, home), starts);
            }
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
        }
        self.open_if_granted(reader);
    }

    /// Opens the subscriptions if all homes have answered: live, or read from the log where needed.
    fn open_if_granted(&mut self, reader: Reader) {
        let slot = &self.connections.slots[reader.0];
        let Some((subscriptions, opened)) = self.subscriptions.open(reader, slot, &self.settings)
        else {
            return;
        };
        match opened {
            Opened::Open(beginnings) => self.filters_open(reader, &subscriptions, &beginnings),
            Opened::Gap => {
                self.statistics.recoveries.refused += 1;
                self.refuse_all(&subscriptions, ErrorCode::PositionUnavailable);
            }
            Opened::NoRoom => self.refuse_all(&subscriptions, ErrorCode::Overloaded),
        }
    }

    fn filters_open(
        &mut self,
        reader: Reader,
        subscriptions: &[SubIndex],
        beginnings: &[Beginning],
    ) {
        let index = reader.0;
        let is_resumed = beginnings.iter().any(|beginning| beginning.is_resumed);
        let gaps = beginnings.iter().filter(|beginning| beginning.gap.is_some()).count();
        self.statistics.recoveries.count(is_resumed, gaps > 0);
        let mut is_replaying = false;
        for beginning in beginnings.iter().filter(|beginning| beginning.is_replaying) {
            is_replaying = true;
            let (partition, after) = (beginning.partition, beginning.through);
            let slot = &mut self.connections.slots[index];
            let result =
                self.subscriptions.replay_filter(reader, partition, after, slot, &self.settings);
            self.end_without_room(index, result);
            let slot = &self.connections.slots[index];
            self.subscriptions.filter_recovers(reader, partition, slot);
        }
        if let (false, Some(first)) = (is_replaying, subscriptions.last()) {
            self.subscriptions.end_credit(*first);
        }
        self.statistics.gaps += gaps as u64;
        self.notify_subscribed_filters(index, subscriptions, beginnings);
        if self.subscriptions.have_missed_a_round(beginnings) {
            self.connections.slots[index].set(flag::OWED);
        }
        if is_replaying {
            self.connections.slots[index].set(flag::LAGGING);
            self.read_if_writable(index);
        }
    }

    /// Refuses subscriptions that were to open together; the first refusal may end a stream.
    fn refuse_all(&mut self, subscriptions: &[SubIndex], code: ErrorCode) {
        let keys: Vec<SubscriptionKey> = subscriptions
            .iter()
            .map(|&subscription| self.subscriptions.key(subscription))
            .collect();
        for key in keys {
            self.refused_by_home(key, code);
        }
    }

    /// A message has come for a filter that some home has not answered for yet.
    pub(crate) fn passed_while_opening(&mut self, subscription: SubIndex, partition: PartitionId) {
        let home = self.settings.home_of(partition);
        self.subscriptions.passed_while_opening(subscription, partition, home);
    }
}
