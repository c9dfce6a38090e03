//! The session's subscriptions: their filters, their progress, and their aliases.
//!
//! Place: between the frames and the events. Pure. Subscriptions outlive connections; aliases do
//! not.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use wire::native::{
    Message as MessageFrame, PartitionPosition, Policy, Position, Start, SubscribeItem,
    SubscribeRequest,
};

use super::report::Report;
use super::settings::SubscribeOptions;
use crate::cursors::Cursors;
use crate::fault::{self, Fault};
use crate::proof::{Proof, Verdict};

/// One subscription.
#[derive(Clone, Debug)]
pub(super) struct Subscription {
    pub(super) filter: Arc<str>,
    pub(super) start: Start<'static>,
    pub(super) fail_on_gap: bool,
    pub(super) policy: Option<Policy>,
    /// The proof of a plain topic.
    pub(super) proof: Proof,
    /// The cursors of a filter.
    pub(super) cursors: Cursors,
    pub(super) report: Report,
    /// The present connection has granted it.
    pub(super) is_granted: bool,
    /// It was granted once, so that a filter's new grant may mean a hole.
    pub(super) was_granted: bool,
    /// No gap was reported since the present connection began.
    pub(super) complete: bool,
    pub(super) alias: Option<u32>,
    /// The time to request it again, after a temporary refusal.
    pub(super) retry_at_ms: Option<u64>,
    pub(super) refusals: u32,
    /// The caught-up event follows the gap that is due.
    pub(super) caught_up_due: bool,
}

/// All subscriptions, by number: the order of their requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Subscriptions {
    by_id: BTreeMap<u32, Subscription>,
    by_alias: BTreeMap<u32, u32>,
    by_filter: HashMap<Arc<str>, u32>,
    last_id: u32,
}

/// The number of messages that share one copy of their topic.
const TOPIC_SHARES: u64 = 256;

/// Whether a name is a filter with wildcards.
pub(super) fn is_wild(filter: &str) -> bool {
    filter.split('/').any(|level| level == "+" || level == "#")
}

/// Whether a filter matches a topic: `+` matches any one level, a last `#` the parent and
/// everything below, and a filter that begins with a wildcard matches no topic that begins with
/// `$`.
pub fn filter_matches(filter: &str, topic: &str) -> bool {
    if topic.starts_with('$') && filter.starts_with(['+', '#']) {
        return false;
    }
    let mut topic_levels = topic.split('/');
    for level in filter.split('/') {
        match (level, topic_levels.next()) {
            ("#", _) => return true,
            ("+", Some(_)) => {}
            (wanted, Some(given)) if wanted == given => {}
            _ => return false,
        }
    }
    topic_levels.next().is_none()
}

impl Subscriptions {
    pub(super) fn add(
        &mut self,
        filter: &str,
        start: Start<'static>,
        options: &SubscribeOptions,
    ) -> Option<u32> {
        let filter: Arc<str> = filter.into();
        if self.by_filter.contains_key(&filter) {
            return None;
        }
        self.last_id += 1;
        let proof = match start {
            Start::Since(position) => Proof::resume_at(position),
            _ => Proof::default(),
        };
        self.by_filter.insert(filter.clone(), self.last_id);
        self.by_id.insert(
            self.last_id,
            Subscription {
                report: Report::new(filter.clone()),
                filter,
                start,
                fail_on_gap: options.fail_on_gap,
                policy: options.policy,
                proof,
                cursors: Cursors::resume_at(&options.cursors),
                is_granted: false,
                was_granted: false,
                complete: true,
                alias: None,
                retry_at_ms: None,
                refusals: 0,
                caught_up_due: false,
            },
        );
        Some(self.last_id)
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<Subscription> {
        let gone = self.by_id.remove(&id)?;
        self.by_filter.remove(&gone.filter);
        if let Some(alias) = gone.alias {
            self.by_alias.remove(&alias);
        }
        Some(gone)
    }

    pub(super) fn get(&self, id: u32) -> Option<&Subscription> {
        self.by_id.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Subscription> {
        self.by_id.get_mut(&id)
    }

    pub(super) fn ids(&self) -> Vec<u32> {
        self.by_id.keys().copied().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The numbers of all subscriptions, if all are granted.
    pub(super) fn granted(&self) -> Option<BTreeSet<u32>> {
        let granted = self.all_granted();
        (granted.len() == self.len()).then_some(granted)
    }

    /// The numbers of the granted subscriptions.
    pub(super) fn all_granted(&self) -> BTreeSet<u32> {
        let granted = self.by_id.iter().filter(|(_, it)| it.is_granted);
        granted.map(|(id, _)| *id).collect()
    }

    /// Whether `ids` are exactly the present subscriptions.
    pub(super) fn is_covered_by(&self, ids: &BTreeSet<u32>) -> bool {
        self.by_id.keys().eq(ids)
    }

    /// The granted filters with wildcards that match `topic`, in the order of their requests. A
    /// message without an address is not for a filter that is not granted: it would move that
    /// filter's cursor over messages that are still to come.
    pub(super) fn matching(&self, topic: &str) -> Vec<u32> {
        self.by_id
            .iter()
            .filter(|(_, subscription)| {
                subscription.is_granted
                    && is_wild(&subscription.filter)
                    && filter_matches(&subscription.filter, topic)
            })
            .map(|(id, _)| *id)
            .collect()
    }

    /// Assigns an alias to this subscription, and removes it from any other.
    pub(super) fn set_alias(&mut self, id: u32, alias: u32) {
        self.drop_alias(alias);
        self.by_alias.insert(alias, id);
        if let Some(subscription) = self.by_id.get_mut(&id)
            && let Some(old) = subscription.alias.replace(alias)
        {
            self.by_alias.remove(&old);
        }
    }

    /// Takes an alias from its subscription: it belongs to another one, or the server has ended the
    /// subscription and may use the alias for a topic of which the session wants nothing any more.
    pub(super) fn drop_alias(&mut self, alias: u32) {
        if let Some(old) = self.by_alias.remove(&alias)
            && let Some(old) = self.by_id.get_mut(&old)
        {
            old.alias = None;
        }
    }

    /// Clears grants and aliases after the end of the connection.
    pub(super) fn connection_lost(&mut self) {
        if !fault::is(Fault::KeepsAliases) {
            self.by_alias.clear();
        }
        for subscription in self.by_id.values_mut() {
            subscription.alias = None;
            subscription.complete = true;
            subscription.retry_at_ms = None;
            subscription.caught_up_due = false;
            subscription.is_granted = false;
            subscription.proof.connection_lost();
        }
    }

    /// Classifies a message of a plain topic: its subscription and the verdict.
    pub(super) fn judge(
        &mut self,
        frame: &MessageFrame<'_>,
    ) -> Option<(u32, &mut Subscription, Verdict)> {
        let id = *self.by_alias.get(&frame.alias)?;
        let subscription = self.by_id.get_mut(&id)?;
        let verdict = subscription.proof.message(frame.prev, frame.offset);
        if matches!(verdict, Verdict::Next | Verdict::Hole { .. }) {
            subscription.proof.advance(frame.lineage);
        }
        Some((id, subscription, verdict))
    }

    /// The time of the next repeated request after a refusal.
    pub(super) fn next_due_ms(&self) -> Option<u64> {
        self.by_id.values().filter_map(|subscription| subscription.retry_at_ms).min()
    }

    /// Takes the refused subscriptions that are due.
    pub(super) fn take_due(&mut self, now_ms: u64) -> Vec<u32> {
        let mut due = Vec::new();
        for (id, subscription) in &mut self.by_id {
            if subscription.retry_at_ms.is_some_and(|at| at <= now_ms) {
                subscription.retry_at_ms = None;
                due.push(*id);
            }
        }
        due
    }
}

impl Subscription {
    /// The topic for the next message. A new copy at times: the application's threads count their
    /// references down while this one counts up, and would share the cache line of the count.
    pub(super) fn shared_topic(&mut self) -> Arc<str> {
        if self.report.messages % TOPIC_SHARES == TOPIC_SHARES - 1 {
            self.filter = Arc::from(&*self.filter);
        }
        self.filter.clone()
    }

    /// The item for a SUBSCRIBE: from the cursor if there is one. `cursors` are those of a filter.
    pub(super) fn item<'a>(
        &'a self,
        id: u32,
        cursors: &'a [PartitionPosition],
    ) -> SubscribeItem<'a> {
        let cursor = self.proof.cursor().filter(|_| !fault::is(Fault::ForgetsCursor));
        let start = match cursor {
            Some(position) => Start::Since(position),
            None if !cursors.is_empty() => Start::SinceEach(cursors.into()),
            None if self.was_granted => Start::Live,
            None => self.start,
        };
        SubscribeItem::new(
            id,
            SubscribeRequest {
                fail_on_gap: self.fail_on_gap,
                policy: self.policy,
                ..SubscribeRequest::new(&self.filter, start)
            },
        )
    }

    /// The cursor, or the zero position without one.
    pub(super) fn position(&self) -> Position {
        self.proof.cursor().unwrap_or_default()
    }
}
