//! Gaps: messages that a session missed and that the log has no more.
//!
//! Step 9 of the path. MQTT has no word for them. A client of version 5 gets the user property
//! `crore-gap` with the next message that has a packet identifier; its value is
//! `PARTITION/EPOCH:FROM-TO REASON FILTER`: of the subscription to FILTER, the messages after FROM
//! and through TO are missing. A client of any version that subscribes to `$sys/mine/gap` gets a
//! message for each at once, JSON with QoS 0. Invariant: a gap that no property has told sleeps
//! with the session.

use crate::edge::Edge;
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{Gap, PartitionId};
use crate::session::mqtt::encode::own_message;
use crate::session::mqtt::options::Options;
use crate::sys::{OWN_GAPS, Object};
use crate::topic::Filter;

/// Gaps that wait for one client. The last one stands for all further ones.
const WAITING_MAX: usize = 64;

impl Edge {
    /// A subscription has a gap in a partition.
    pub(crate) fn note_mqtt_gap(
        &mut self,
        index: ConnIndex,
        filter: &[u8],
        partition: PartitionId,
        gap: Gap,
    ) {
        let epoch = self.links.epochs.of(partition, &self.settings);
        let Gap { from, to, reason } = gap;
        let filter = String::from_utf8_lossy(filter);
        let reason = reason.word();
        if let Some(identifier) = self.gap_listener(index) {
            let place = (partition, epoch);
            let payload = described(&self.settings.node_name, &filter, place, gap);
            self.send_own_message(index, OWN_GAPS, identifier, &payload);
        }
        let text = format!("{}/{epoch}:{from}-{to} {reason} {filter}", partition.0);
        if let Some(mqtt) = self.mqtt_of(index).filter(|mqtt| mqtt.is_v5()) {
            match mqtt.busy.gaps.len() {
                0..WAITING_MAX => mqtt.busy.gaps.push(text.into()),
                _ => mqtt.busy.gaps[WAITING_MAX - 1] = format!("{text} and more").into(),
            }
        }
    }

    /// The subscription identifier of a session's subscription to its gaps, 0 for none; or nothing
    /// if it has no such subscription. One that wakes with the session has it already.
    fn gap_listener(&self, index: ConnIndex) -> Option<u32> {
        let waking = self.mqtt_ref(index)?.busy.waking.as_ref();
        let mut of_waking = waking.iter().flat_map(|session| &session.subscriptions);
        if let Some(it) = of_waking.find(|it| it.filter[..] == *OWN_GAPS.as_bytes()) {
            return (!it.is_ended).then(|| Options::of(it.options).identifier);
        }
        let at = self.find_mqtt_subscription(index, Filter::parse(OWN_GAPS).ok()?)?;
        let client = self.subscriptions[at].client;
        let is_held = !Options::is_pending(client) && !self.has_ended(index, at);
        is_held.then(|| Options::of(client).identifier)
    }

    /// Sends a message of the node to one session, with QoS 0.
    fn send_own_message(&mut self, index: ConnIndex, topic: &str, identifier: u32, payload: &[u8]) {
        let mut bytes = Vec::new();
        if let Some(mqtt) = self.mqtt_ref(index)
            && own_message(mqtt, (topic, identifier), payload, &mut bytes).is_err()
        {
            self.statistics.packets_too_large += 1;
            return;
        }
        self.send_mqtt(index, &bytes);
    }

    /// A page has found a gap of a granted subscription.
    pub(crate) fn note_mqtt_gap_of(
        &mut self,
        subscription: SubIndex,
        partition: PartitionId,
        gap: Gap,
    ) {
        let index = self.subscriptions[subscription].connection;
        if let Some(filter) = self.name_of_subscription(subscription) {
            self.note_mqtt_gap(index, &filter, partition, gap);
        }
    }
}

/// A gap as JSON.
fn described(
    node: &str,
    filter: &str,
    (partition, epoch): (PartitionId, u64),
    gap: Gap,
) -> Vec<u8> {
    Object::of_node(node)
        .text("filter", filter)
        .number("partition", partition.0.into())
        // JavaScript's numbers end before epochs.
        .text("epoch", &epoch.to_string())
        .number("from", gap.from)
        .number("to", gap.to)
        .text("reason", gap.reason.word())
        .finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::GapReason;

    #[test]
    fn gaps_are_json() {
        let gap = Gap { from: 2, to: 16, reason: GapReason::HistoryLimit };
        let text = described("n1", "news/#", (PartitionId(3), u64::MAX), gap);
        let expected = "{\"node\":\"n1\",\"filter\":\"news/#\",\"partition\":3,\
            \"epoch\":\"18446744073709551615\",\"from\":2,\"to\":16,\
            \"reason\":\"history_limit\"}";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
