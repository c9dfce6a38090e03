//! The options of clients of MQTT, as the command line has them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use wire::mqtt::{Qos, Version};

use crate::units::parse_duration;

/// Options of all clients of MQTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
pub struct MqttOptions {
    /// With --transport mqtt: version of the protocol, 3 (3.1.1) or 5
    #[arg(long, value_enum, default_value_t = MqttVersion::Five)]
    pub mqtt_version: MqttVersion,
    /// With --transport mqtt: keep alive of each client, in whole seconds. It sends PINGREQ a
    /// third earlier; 0: none
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    pub keep_alive: Duration,
    /// With --transport mqtt: time for which a session outlives its connection, in whole seconds;
    /// 0: the session ends with the connection. With version 3 the server chooses the time
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    #[serde(default)]
    pub session_expiry: Duration,
}

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
pub enum MqttVersion {
    /// MQTT 3.1.1.
    #[value(name = "3")]
    Three,
    /// MQTT 5.0.
    #[value(name = "5")]
    Five,
}

/// The options of subscribers.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Subscribing {
    /// QoS of the subscriptions, 0 or 1.
    pub(in crate::engine) qos: u8,
    /// SUBSCRIBE goes with CONNECT instead of after CONNACK.
    pub(in crate::engine) is_early: bool,
}

impl Default for MqttOptions {
    fn default() -> MqttOptions {
        MqttOptions {
            mqtt_version: MqttVersion::Five,
            keep_alive: Duration::from_secs(300),
            session_expiry: Duration::ZERO,
        }
    }
}

impl MqttOptions {
    /// The keep alive as CONNECT has it.
    pub(super) fn keep_alive_s(&self) -> u16 {
        u16::try_from(self.keep_alive.as_secs()).unwrap_or(u16::MAX)
    }

    /// The session expiry as CONNECT has it.
    pub(super) fn session_expiry_s(&self) -> u32 {
        u32::try_from(self.session_expiry.as_secs()).unwrap_or(u32::MAX)
    }
}

impl MqttVersion {
    /// The version of the codec.
    pub(super) fn codec(self) -> Version {
        match self {
            MqttVersion::Three => Version::V3_1_1,
            MqttVersion::Five => Version::V5,
        }
    }

    /// The version as a report names it.
    pub fn text(self) -> &'static str {
        match self {
            MqttVersion::Three => "3.1.1",
            MqttVersion::Five => "5.0",
        }
    }
}

impl Subscribing {
    pub(super) fn qos(self) -> Qos {
        Qos::from_bits(self.qos).unwrap_or_default()
    }
}
