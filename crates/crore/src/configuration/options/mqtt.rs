//! Options of the section `[mqtt]`.

use super::spec::{MIB, count, count_or_auto, options, seconds};
use super::typed::{choice, choices};
use crate::configuration::value::Kind;
use std::net::SocketAddr;
use std::time::Duration;

options! {
    /// MQTT 3.1, 3.1.1 and 5.0. On when an address is given. Then every listener of clients takes
    /// both HTTP and MQTT: the first byte of a connection tells which.
    section "mqtt": Mqtt;

    /// Addresses for clients of MQTT, usually with port 1883. The limits and rules of
    /// listen.clients apply to them.
    listen: Vec<SocketAddr> = "", Kind::Addresses, Restart;
    /// Addresses for clients of MQTT with TLS, usually with port 8883. They need
    /// tls.certificate_file; the limits and rules of tls.listen apply to them.
    tls_listen: Vec<SocketAddr> = "", Kind::Addresses, Restart;
    /// Messages with QoS 1 or 2 that a client may have without acknowledging them. The client's own
    /// Receive Maximum may be less. Others wait in the log.
    inflight_max: u16 = "128", count(1, 65_535), Reload;
    /// Publications with QoS 1 or 2 that a client of version 5 may have under way (Receive
    /// Maximum). The node ends the connection of a client that has more.
    receive_max: u16 = "256", count(1, 65_535), Reload;
    /// The greatest topic alias that a client may use; 0: none.
    topic_alias_max: u16 = "16", count(0, 65_535), Reload;
    /// Topic aliases that the node gives a client of version 5, at most as many as the client
    /// permits; 0: none. The first topics of its messages get them. Each takes the topic's length
    /// and about 40 bytes until the connection ends.
    topic_aliases_sent_max: u16 = "16", count(0, 255), Reload;
    /// The longest keep alive of a client of version 5; 0s: no bound. The node
    /// announces it (Server Keep Alive).
    keep_alive_max: Duration = "0s", seconds(0, 65_535), Reload;
    /// The longest packet of a client in bytes, announced to clients of version 5. Auto:
    /// limits.frame_bytes_max, without an announcement.
    packet_bytes_max: Option<u32> = "auto", count_or_auto(20, 256 * MIB), Reload;
    /// Time after which a session of version 3 without "clean session" ends, if its client does not
    /// return. Clients of version 5 say it themselves.
    session_expiry_v3: Duration = "1d", seconds(0, 31_536_000), Reload;
    /// A client without an identifier gets one; else it is refused.
    assigned_ids: bool = "true", Kind::Boolean, Reload;
    /// The highest QoS of publications. The node ends the connection of a client that sends more.
    qos_max: u8 = "2", count(0, 2), Reload;
    /// Clients may publish messages that are retained. The node ends the connection of a client
    /// that does so where it may not.
    retained: bool = "true", Kind::Boolean, Reload;
    /// The answer to a refused publication of version 3, which knows no refusal. "close": the
    /// connection ends, and the client sends the message again. "acknowledge": the node
    /// acknowledges the message, and loses it.
    v3_refusals: V3Refusals = "close", choice::<V3Refusals>(), Reload;
    /// The order in which members of a shared subscription ($share) get messages. "any": each
    /// message goes to the next member with room. "topic": the messages of a topic go to one
    /// member, in order, and wait for its room.
    shared_order: SharedOrder = "any", choice::<SharedOrder>(), Reload;
}

/// The order in which members of a shared subscription get messages.
#[derive(PartialEq, Eq)]
pub enum SharedOrder {
    /// The next member with room.
    Any,
    /// One member for each topic.
    Topic,
}

choices! { SharedOrder: Any = "any", Topic = "topic" }

/// The answer to a refused publication of version 3.
#[derive(PartialEq, Eq)]
pub enum V3Refusals {
    /// The connection ends.
    Close,
    /// It is acknowledged.
    Acknowledge,
}

choices! { V3Refusals: Close = "close", Acknowledge = "acknowledge" }
