//! Topic aliases of messages to clients.
//!
//! Step 9 of the path. Invariant: the packet that gives an alias is never dropped, and the alias is
//! noted when that packet is queued; so every later packet may use the alias.

use crate::edge::Edge;
use crate::ids::ConnIndex;
use crate::session::mqtt::aliases::SentAlias;

impl Edge {
    /// The alias for a message to a client; none for clients that have not asked for aliases.
    pub(super) fn alias_of(&self, index: ConnIndex, topic: &str) -> SentAlias {
        match self.mqtt_ref(index) {
            Some(mqtt) if mqtt.sent_aliases_max > 0 => {
                mqtt.busy.aliases.to_send(topic, mqtt.sent_aliases_max)
            }
            _ => SentAlias::None,
        }
    }

    /// The packet that gives an alias is queued.
    pub(super) fn note_alias(&mut self, index: ConnIndex, alias: SentAlias, topic: &str) {
        if alias != SentAlias::None
            && let Some(mqtt) = self.mqtt_of(index)
        {
            mqtt.busy.aliases.note_sent(alias, topic);
        }
    }
}
