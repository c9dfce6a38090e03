//! Sessions: each protocol's view of the four ideas. Frames become commands, deliveries become
//! frames.
//!
//! Steps 3 and 9 of the path. What a connection sends is decoded here, and what it is sent is
//! encoded here ([`encode`]); what happens in between lies in `edge::flow`. Invariant: a session
//! knows bytes and values, and nothing of an edge.

pub(crate) mod credential;
pub(crate) mod encode;
pub(crate) mod events;
pub(crate) mod http;
pub(crate) mod identity;
pub(crate) mod items;
pub(crate) mod json;
#[cfg(feature = "line-protocol")]
pub(crate) mod line;
pub(crate) mod mqtt;
pub(crate) mod native;
pub(crate) mod poll;

pub(crate) use credential::Credential;
pub(crate) use http::parameters::DataForm;
pub(crate) use json::append_message;

use stdx::handing::Hand;

/// The temporary state of a session; an idle connection has none.
#[derive(Hand)]
pub(crate) enum State {
    /// A fragmented WebSocket message is open.
    Assembly(Box<(wire::websocket::message::Assembler, Vec<u8>)>),
    /// An HTTP request's body is under way.
    Body(Box<http::body::Body>),
    /// Publications of an HTTP request wait for their acknowledgements.
    Publishing(Box<http::publish::Publishing>),
    /// An HTTP request waits for a page of history.
    History(Box<http::history::HistoryWait>),
    /// A long poll.
    Poll(Box<poll::Poll>),
    /// An event stream of several topics.
    Events(Box<events::Events>),
    /// The topics of a line session.
    #[cfg(feature = "line-protocol")]
    Line(Box<line::Line>),
    /// A session of MQTT, for as long as it lasts.
    Mqtt(Box<mqtt::Mqtt>),
    /// A WebSocket for MQTT, before CONNECT.
    MqttOpening(Box<mqtt::MqttOpening>),
    /// Items of a frame that wait for a later turn.
    Items(Box<items::Items>),
    /// A credential that waits for a decision, or has one.
    Credential(Box<Credential>),
}

const _: () = assert!(size_of::<State>() <= 16);

impl State {
    /// Bytes of the buffer of incomplete or waiting input; none without a buffer.
    pub fn buffered_bytes(&self) -> Option<usize> {
        match self {
            State::Assembly(assembly) => Some(assembly.1.capacity()),
            State::Body(body) => Some(body.buffer_bytes()),
            State::Credential(credential) => credential.buffered_bytes(),
            State::Items(items) => Some(items.buffered_bytes()),
            State::Publishing(_) | State::History(_) | State::Poll(_) | State::Events(_) => None,
            State::Mqtt(mqtt) => mqtt.buffered_bytes(),
            State::MqttOpening(opening) => opening.buffered_bytes(),
            #[cfg(feature = "line-protocol")]
            State::Line(_) => None,
        }
    }

    /// Whether a message has come in part, or a body is still to come.
    pub fn is_open_unit(&self) -> bool {
        matches!(self, State::Assembly(..) | State::Body(_))
    }

    /// Memory behind it that does not change while it lasts.
    pub fn own_bytes(&self) -> usize {
        match self {
            State::Assembly(assembly) => size_of_val(&**assembly),
            State::Items(items) => size_of_val(&**items),
            State::Credential(credential) => size_of_val(&**credential),
            State::Body(body) => size_of_val(&**body),
            State::Publishing(publishing) => size_of_val(&**publishing),
            State::History(wait) => size_of_val(&**wait),
            State::Poll(poll) => size_of_val(&**poll),
            State::Events(events) => size_of_val(&**events) + events.topics_bytes(),
            State::Mqtt(mqtt) => size_of_val(&**mqtt),
            State::MqttOpening(opening) => size_of_val(&**opening),
            #[cfg(feature = "line-protocol")]
            State::Line(line) => size_of_val(&**line) + line.topics_bytes(),
        }
    }
}
