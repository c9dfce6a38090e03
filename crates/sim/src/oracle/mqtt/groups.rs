//! Groups of shared subscriptions: each message of a group comes to one member, and none is lost
//! while the group has a member.
//!
//! A message may come again only if the connection that had it has ended, or the node: and not if
//! the node has read the acknowledgement, but for an end of the node.

use crate::oracle::{Once, Oracle, matches};
use crate::plan::Plan;
use std::collections::{BTreeMap, BTreeSet};

/// One group, over all its members.
#[derive(Clone, Debug, Default)]
pub struct MqttGroup {
    /// Its filter.
    pub filter: String,
    /// All deliveries to members, in the order of their moments.
    pub deliveries: Vec<GroupDelivery>,
    /// Times in which a client was a member for sure.
    pub spans: Vec<GroupSpan>,
    /// The ends of connections of members, by client and connection.
    pub ends: BTreeMap<(usize, u32), GroupEnd>,
}

/// A delivery to a member.
#[derive(Clone, Copy, Debug)]
pub struct GroupDelivery {
    /// The publication.
    pub publication: usize,
    /// The member.
    pub client: usize,
    /// The member's connection.
    pub connection: u32,
    /// The node of the connection.
    pub instance: u32,
    /// The moment.
    pub moment: u64,
    /// The node has read the acknowledgement, at this moment at the latest.
    pub settled: Option<u64>,
}

/// A time in which a client was a member for sure.
#[derive(Clone, Copy, Debug)]
pub struct GroupSpan {
    /// The moment of SUBACK.
    pub since: u64,
    /// The earliest moment at which the membership may have ended; none: it lasts.
    pub until: Option<u64>,
}

/// The end of a member's connection.
#[derive(Clone, Copy, Debug)]
pub struct GroupEnd {
    /// The moment at which the client saw it, or caused it.
    pub moment: u64,
    /// The node cannot have seen it before: the client has ended the connection.
    pub is_own: bool,
}

impl MqttGroup {
    /// The groups with these filters.
    pub fn all(filters: &[String]) -> Vec<MqttGroup> {
        let new = |filter: &String| MqttGroup { filter: filter.clone(), ..MqttGroup::default() };
        filters.iter().map(new).collect()
    }

    /// The begin of the time, up to now, in which the group had a member without a pause.
    pub fn since(&self) -> Option<u64> {
        let lasting = self.spans.iter().filter(|span| span.until.is_none());
        let mut since = lasting.map(|span| span.since).min()?;
        loop {
            let covers = |span: &&GroupSpan| {
                span.since < since && span.until.is_none_or(|until| until > since)
            };
            match self.spans.iter().filter(covers).map(|span| span.since).min() {
                Some(earlier) => since = earlier,
                None => return Some(since),
            }
        }
    }

    /// Whether a member has a publication.
    pub fn has(&self, publication: usize) -> bool {
        self.deliveries.iter().any(|it| it.publication == publication)
    }

    /// Whether the connection of a delivery may have ended before a moment.
    fn may_have_ended(&self, delivery: &GroupDelivery, moment: u64) -> bool {
        let end = self.ends.get(&(delivery.client, delivery.connection));
        end.is_some_and(|end| !end.is_own || end.moment < moment)
    }

    /// Whether a client may have read a delivery long after its connection ended for the node.
    fn may_be_old(&self, delivery: &GroupDelivery) -> bool {
        let end = self.ends.get(&(delivery.client, delivery.connection));
        end.is_some_and(|end| !end.is_own)
    }
}

impl Oracle {
    /// Compares the deliveries of groups with the log.
    pub(super) fn judge_groups(&mut self, plan: &Plan) {
        let groups = std::mem::take(&mut self.mqtt.groups);
        for group in &groups {
            let result = self.judge_once(plan, group).and_then(|()| {
                if plan.lossless && !self.is_flipped {
                    return self.judge_group_complete(plan, group);
                }
                Ok(())
            });
            if let Err((client, text)) = result {
                return self.fail(client, text);
            }
        }
        self.mqtt.groups = groups;
    }

    /// Checks that no two members have a message, nor one twice, without a cause.
    fn judge_once(&self, plan: &Plan, group: &MqttGroup) -> Result<(), (Option<usize>, String)> {
        let mut last: BTreeMap<usize, &GroupDelivery> = BTreeMap::new();
        for now in &group.deliveries {
            let id = now.publication;
            let Some(before) = last.insert(id, now) else {
                continue;
            };
            let of = &self.publications[id];
            let stands_again = of.once == Once::Repeats && of.attempts() > 1;
            // A session that slept over a start knows nothing of members that have come and gone
            // since.
            let is_after_start = now.instance > 0 && plan.keeps_sessions();
            // Where the clock jumps, a group may end before a session that sleeps, which then
            // returns to its place.
            let may_begin_anew = is_after_start || plan.clock_jumps || plan.clock_leaps;
            if stands_again || before.instance != now.instance || may_begin_anew {
                continue;
            }
            let name = &plan.topics[of.topic];
            let (client, filter) = (before.client, &group.filter);
            if (client, before.connection) == (now.client, now.connection) {
                let text = format!("group {filter}: publication {id} of {name} came twice");
                return Err((Some(client), text));
            }
            if group.may_be_old(now) {
                continue;
            }
            if let Some(settled) = before.settled.filter(|settled| *settled < now.moment) {
                return Err((
                    Some(now.client),
                    format!(
                        "group {filter}: publication {id} of {name} comes, and client {client} had acknowledged it at moment {settled}"
                    ),
                ));
            }
            if !group.may_have_ended(before, now.moment) {
                return Err((
                    Some(now.client),
                    format!(
                        "group {filter}: publication {id} of {name} comes on connection {}, and client {client} has it on connection {}",
                        now.connection, before.connection
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Checks that members got everything since the group last had none.
    fn judge_group_complete(
        &self,
        plan: &Plan,
        group: &MqttGroup,
    ) -> Result<(), (Option<usize>, String)> {
        let Some(since) = group.since() else {
            return Ok(());
        };
        let came: BTreeSet<usize> = group.deliveries.iter().map(|it| it.publication).collect();
        for (topic, name) in plan.topics.iter().enumerate() {
            if !matches(&group.filter, name) {
                continue;
            }
            let partition = plan.partition(topic);
            let life = self.lives.present(partition);
            let until = self.markers.get(&topic).map_or(0, |(_, offset)| *offset);
            for (id, publication) in self.publications.iter().enumerate() {
                let is_owed = publication.topic == topic
                    && publication.sent_at > since
                    && publication.qos != Some(0);
                if !is_owed || came.contains(&id) {
                    continue;
                }
                let offsets = self.offsets_in(partition, life, id);
                if offsets.len() == 1 && offsets[0] <= until {
                    let filter = &group.filter;
                    return Err((
                        None,
                        format!(
                            "group {filter}: publication {id} at {} of {name} came to no member, and the group has had one since moment {since}",
                            offsets[0]
                        ),
                    ));
                }
            }
        }
        Ok(())
    }
}
