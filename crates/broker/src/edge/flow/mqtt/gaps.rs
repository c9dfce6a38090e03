//! Gaps: messages that a session missed and that the log has no more.
//!
//! Step 9 of the path. MQTT has no word for them. A client of version 5 gets the user property
//! `crore-gap` with the next message that has a packet identifier; its value is
//! `PARTITION/EPOCH:FROM-TO REASON FILTER`: of the subscription to FILTER, the messages after FROM
//! and through TO are missing. Invariant: a gap that was not sent sleeps with the session.

use crate::edge::Edge;
use crate::ids::{ConnIndex, SubIndex};
use crate::mail::{Gap, PartitionId};

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
        let epoch = self.epochs.of(partition, &self.settings);
        let Gap { from, to, reason } = gap;
        let filter = String::from_utf8_lossy(filter);
        let reason = reason.word();
        let text = format!("{}/{epoch}:{from}-{to} {reason} {filter}", partition.0);
        if let Some(mqtt) = self.mqtt_of(index).filter(|mqtt| mqtt.is_v5()) {
            match mqtt.gaps.len() {
                0..WAITING_MAX => mqtt.gaps.push(text.into()),
                _ => mqtt.gaps[WAITING_MAX - 1] = format!("{text} and more").into(),
            }
        }
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
