//! Enhanced authentication (MQTT 5.0, section 4.12): a token in CONNECT, and AUTH, by which a live
//! connection continues with a new one.
//!
//! Step 3 of the path. The one method has no challenge: its data is the token. A refused token ends
//! the connection, as the specification has it, and its session sleeps as after any other end.

use crate::edge::Edge;
use crate::entitlement::Action;
use crate::ids::ConnIndex;
use crate::session::mqtt::METHOD;
use crate::session::mqtt::refusal::reason_of;
use crate::topic::Filter;
use wire::mqtt::{Auth, ReasonCode};
use wire::native::ErrorCode;

impl Edge {
    /// AUTH.
    pub(super) fn mqtt_auth(&mut self, index: ConnIndex, packet: &Auth<'_>) {
        let has_method = self.mqtt_ref(index).is_some_and(|mqtt| mqtt.authenticates);
        let is_same = packet.properties.authentication_method() == Some(METHOD);
        // [MQTT-4.12.0-6], [MQTT-4.12.1-1]; nothing is to be continued.
        if !has_method || !is_same || packet.reason != ReasonCode::Reauthenticate {
            return self.mqtt_disconnect(index, ReasonCode::ProtocolError);
        }
        let token = packet.properties.authentication_data().map_or(&[][..], |data| data.0);
        // A token is text.
        self.renew_token(index, 0, std::str::from_utf8(token).unwrap_or_default());
    }

    /// The new token of a connection is refused, which ends the connection ([MQTT-4.12.1-2]).
    pub(crate) fn refuse_reauthentication(&mut self, index: ConnIndex, code: ErrorCode) {
        self.statistics.errors.count(code);
        self.mqtt_disconnect(index, reason_of(code));
    }

    /// Whether an entitlement covers all shared subscriptions of a session.
    pub(crate) fn are_groups_permitted(&self, index: ConnIndex, at: u32) -> bool {
        let memberships =
            self.mqtt_ref(index).into_iter().flat_map(|mqtt| mqtt.busy.memberships.iter());
        let mut filters = memberships.filter_map(|it| it.group.split_once('/'));
        filters.all(|(_, filter)| {
            let filter = Filter::parse(filter).ok();
            filter.is_some_and(|filter| {
                self.access.entitlements.permits(at, Action::Subscribe, filter)
            })
        })
    }
}
