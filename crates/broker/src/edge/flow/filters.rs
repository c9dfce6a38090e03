//! Subscriptions to filters: asked of every home, dropped, and which of them match a topic.

use crate::edge::Edge;
use crate::edge::subscriptions::{FilterRefusal, Kind};
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{AddFilter, HomeId, PartitionCursor, ToHome};
use crate::notice::{Refusal, Since};
use crate::settings::LagPolicy;
use crate::topic::Filter;
use stdx::chunk::Slice;
use wire::native::ErrorCode;

impl Edge {
    /// Asks for a filter with wildcards, live except in the partitions for which it comes with a
    /// cursor behind which it begins. Without a policy of its own the rules have one. Answered by
    /// `notify_subscribed_filters` or `notify_refused`; none if it is refused at once.
    pub(crate) fn subscribe_filter(
        &mut self,
        index: ConnIndex,
        filter: Filter<'_>,
        client: u32,
        since: Since<'_>,
        fail_on_gap: bool,
        policy: Option<LagPolicy>,
    ) -> Option<SubIndex> {
        let kind = if fail_on_gap { Kind::FilterWithoutGap } else { Kind::Filter };
        let policy = policy.unwrap_or_else(|| self.settings.policy_of(filter));
        let subscription = self.insert_subscription(index, client, HomeId(0), kind, policy);
        let name = match self.join_filter(index, subscription, filter) {
            Ok(name) => name,
            Err(refusal) => {
                self.refused(subscription, refusal);
                return None;
            }
        };
        self.subscriptions.expect_grants(subscription, self.settings.homes());
        self.ask_for_filter(index, subscription, &name, since);
        Some(subscription)
    }

    /// Enters a new subscription in the list of its filter, whose name it gives, or says why it is
    /// refused.
    fn join_filter(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        filter: Filter<'_>,
    ) -> Result<Slice, Refusal> {
        let limits = &self.settings.limits;
        let beyond =
            |code, limit: u32| Refusal { limit: Some(u64::from(limit)), ..Refusal::of(code) };
        let held = self.subscriptions.count_filter(index, limits);
        if filter.levels_count() > limits.filter_levels_max as usize {
            return Err(beyond(ErrorCode::FilterTooWide, limits.filter_levels_max));
        }
        if held > limits.filters_per_session_max {
            self.statistics.turned_away.filters_too_many += 1;
            return Err(beyond(ErrorCode::TooManyFilters, limits.filters_per_session_max));
        }
        let slot = &mut self.connections.slots[index];
        let joined = self.subscriptions.join_filter(subscription, slot, filter, limits);
        joined.map_err(|refusal| match refusal {
            FilterRefusal::AlreadySubscribed => Refusal::of(ErrorCode::AlreadySubscribed),
            FilterRefusal::EdgeIsFull => {
                beyond(ErrorCode::FiltersFull, limits.filters_per_shard_max)
            }
        })
    }

    /// Asks every home for the filter, each with the cursors of its own partitions.
    fn ask_for_filter(
        &mut self,
        index: ConnIndex,
        subscription: SubIndex,
        filter: &Slice,
        since: Since<'_>,
    ) {
        let (since, begins_at_head): (&[_], _) = match since {
            Since::After(cursors) => (cursors, false),
            Since::AtHead => (&[], true),
        };
        let key = self.subscriptions.key(subscription);
        let user = self.user_hash(index);
        for home in self.settings.homes() {
            let is_theirs =
                |cursor: &&PartitionCursor| self.settings.home_of(cursor.partition) == home;
            let since = since.iter().filter(is_theirs).copied().collect();
            let filter = filter.clone();
            let request = AddFilter { user, filter, subscription: key, since, begins_at_head };
            self.request(home, ToHome::AddFilter(request));
        }
    }
}
