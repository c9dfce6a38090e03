//! Clients of MQTT over TCP or TLS: what a broker of any maker carries.
//!
//! Place: beside the native protocol. Packets are those of [`wire::mqtt`]; subscribers and
//! publishers of this module give them their meaning for a run.

mod options;
mod pings;
mod publishing;
mod speech;
mod subscribers;

pub use options::{MqttOptions, MqttVersion};

pub(super) use options::Subscribing;
pub(super) use publishing::MqttPublishing;
pub(super) use speech::{ClientIds, Speech};
pub(super) use subscribers::MqttSubscribers;
