//! The clients of MQTT in a world, and their groups.

use super::Plan;
use crate::mutation::Mutation;
use broker::settings::{GroupOrder, MqttSettings};
use std::sync::Arc;
use stdx::prng::Prng;

/// Groups of shared subscriptions.
#[derive(Default)]
pub struct Groups {
    /// The filter of each group.
    pub filters: Vec<String>,
    /// The group of each client that is a member of one.
    pub members: Vec<usize>,
}

impl Plan {
    /// Adds clients of MQTT; drawn separately, so that worlds without them do not change.
    pub fn add_mqtt(&mut self, big: bool, mutation: Option<Mutation>) {
        let mut random = Prng::new(self.seed ^ 0x006d_7174);
        self.mqtt_clients = if big { 200 } else { random.between(1, 5) as usize };
        // Sessions expire, and wills wait.
        self.active_ms += random.below(3) * 1_000;
        if mutation.is_some() {
            self.active_ms = self.active_ms.max(3_500);
            self.mqtt_clients = 5;
            self.retain = 0.2;
        }
        let Some(settings) = Arc::get_mut(&mut self.settings) else {
            return;
        };
        let mut pick = |choices: [u32; 3]| choices[random.below(3) as usize];
        settings.mqtt = MqttSettings {
            is_on: true,
            inflight_max: pick([1, 4, 128]) as u16,
            receive_max: pick([1, 4, 256]) as u16,
            topic_alias_max: pick([0, 2, 16]) as u16,
            topic_aliases_sent_max: 0,
            session_expiry_v3_s: pick([2, 86_400, u32::MAX]),
            ..MqttSettings::default()
        };
        self.add_groups(mutation);
    }

    /// Adds groups of shared subscriptions; drawn separately, so that worlds without them do not
    /// change.
    fn add_groups(&mut self, mutation: Option<Mutation>) {
        let mut random = Prng::new(self.seed ^ 0x6772_6f75);
        let are_needed = mutation.is_some_and(Mutation::needs_groups);
        if !are_needed && (mutation.is_some() || random.chance(0.5)) {
            return;
        }
        let count = if are_needed { 1 } else { random.between(1, 2) as usize };
        let mut filters = self.filters.clone();
        random.shuffle(&mut filters);
        filters.truncate(count);
        if are_needed {
            filters = vec!["#".into()];
        }
        let members = random.between(if are_needed { 4 } else { 1 }, 5) as usize;
        let members = (0..members).map(|at| at % filters.len()).collect();
        self.groups = Groups { filters, members };
        if let Some(settings) = Arc::get_mut(&mut self.settings) {
            settings.mqtt.group_order =
                if random.chance(0.5) { GroupOrder::Any } else { GroupOrder::Topic };
        }
    }

    /// Whether sessions of MQTT outlive the node: their log is on disk.
    pub fn keeps_sessions(&self) -> bool {
        let (_, partition) = self.settings.locate("$mqtt/s/client");
        self.settings.log_on_disk(partition).is_some()
    }
}
