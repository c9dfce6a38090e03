//! Protocols of connections: the facts that differ between them, in one table, and the flags of a
//! connection.
//!
//! A decision that depends on the protocol alone asks [`Protocol::facts`]; a further protocol is a
//! further row there. Invariant: nothing here knows an edge, a session or a slot.

use stdx::handing::Hand;
use wire::websocket::frame::Opcode;

/// The protocol of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub(crate) enum Protocol {
    /// No connection.
    Free,
    /// HTTP/1.1, between or within requests.
    Http,
    /// An event stream: nothing is read any more.
    Events,
    /// WebSocket, native frames, before HELLO.
    NativeStart,
    /// WebSocket, native frames.
    Native,
    /// WebSocket, native frames as JSON, before HELLO.
    JsonStart,
    /// WebSocket, native frames as JSON.
    Json,
    /// WebSocket, echo.
    Echo,
    /// MQTT, before CONNECT is accepted.
    MqttStart,
    /// MQTT.
    Mqtt,
    /// MQTT in binary messages of a WebSocket, before CONNECT is accepted.
    MqttWebSocketStart,
    /// MQTT in binary messages of a WebSocket.
    MqttWebSocket,
    /// Lines of text, for tests.
    #[cfg(feature = "line-protocol")]
    Line,
}

/// The name of a protocol in logs, on `$sys` and in operators' answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// HTTP requests, long polls among them.
    Http,
    /// An event stream.
    Events,
    /// The native protocol over WebSocket, also before HELLO.
    Native,
    /// The native protocol as JSON over WebSocket, also before HELLO.
    Json,
    /// The echo over WebSocket.
    Echo,
    /// MQTT, over TCP or WebSocket, also before CONNECT.
    Mqtt,
}

impl Transport {
    /// Every transport.
    pub const ALL: [Transport; 6] = [
        Transport::Http,
        Transport::Events,
        Transport::Native,
        Transport::Json,
        Transport::Echo,
        Transport::Mqtt,
    ];

    /// The name of the transport.
    pub fn word(self) -> &'static str {
        match self {
            Transport::Http => "http",
            Transport::Events => "events",
            Transport::Native => "native",
            Transport::Json => "json",
            Transport::Echo => "echo",
            Transport::Mqtt => "mqtt",
        }
    }

    /// The transport of this name.
    pub fn of(word: &str) -> Option<Transport> {
        Transport::ALL.into_iter().find(|transport| transport.word() == word)
    }
}

/// The form of native frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// Binary messages.
    Binary,
    /// JSON in text messages.
    Json,
}

impl Form {
    /// Every form.
    pub const ALL: [Form; 2] = [Form::Binary, Form::Json];

    /// The kind of its WebSocket messages.
    #[inline]
    pub const fn opcode(self) -> Opcode {
        match self {
            Form::Binary => Opcode::Binary,
            Form::Json => Opcode::Text,
        }
    }
}

/// The facts that differ between protocols.
#[derive(Clone, Copy)]
pub(crate) struct Facts {
    /// A session decodes the client's bytes; otherwise they are read and dropped.
    pub reads_input: bool,
    /// The client sends requests, and gets an answer to each.
    pub answers_requests: bool,
    /// The client has not sent HELLO, which begins its session.
    pub awaits_hello: bool,
    /// HELLO has begun a session: the client gets frames as pings, and a ticket when it is to go.
    pub is_session: bool,
    /// One cursor stands for all filters of the connection: they are read and settled together.
    pub has_one_cursor: bool,
    /// The connection has pings and close frames.
    pub is_websocket: bool,
    /// Packets of MQTT: the session has a state of its own for as long as it lasts.
    pub is_mqtt: bool,
    /// A session outlives an answer: the access log and `$sys` report its begin and its end.
    pub is_lasting: bool,
    /// The session can have subscriptions, and learns of changes that concern them.
    pub subscribes: bool,
    /// All connections of a filter receive the same bytes of a message, so that one frame serves
    /// them.
    pub shares_frames: bool,
    /// The form of the frames of a native session.
    pub form: Form,
    /// Its name.
    pub transport: Transport,
}

impl Protocol {
    /// The protocol's row of the table.
    #[inline]
    pub const fn facts(self) -> Facts {
        const NOTHING: Facts = Facts {
            reads_input: false,
            answers_requests: false,
            awaits_hello: false,
            is_session: false,
            has_one_cursor: false,
            is_websocket: false,
            is_mqtt: false,
            is_lasting: false,
            subscribes: false,
            shares_frames: false,
            form: Form::Binary,
            transport: Transport::Http,
        };
        const WEBSOCKET: Facts = Facts {
            reads_input: true,
            is_websocket: true,
            transport: Transport::Native,
            ..NOTHING
        };
        const MQTT_START: Facts = Facts {
            reads_input: true,
            awaits_hello: true,
            is_mqtt: true,
            transport: Transport::Mqtt,
            ..NOTHING
        };
        const MQTT: Facts =
            Facts { awaits_hello: false, is_lasting: true, subscribes: true, ..MQTT_START };
        const SESSION: Facts = Facts {
            is_session: true,
            is_lasting: true,
            subscribes: true,
            shares_frames: true,
            ..WEBSOCKET
        };
        match self {
            Protocol::Free => NOTHING,
            Protocol::Http => Facts { reads_input: true, answers_requests: true, ..NOTHING },
            Protocol::Events => Facts {
                has_one_cursor: true,
                is_lasting: true,
                subscribes: true,
                transport: Transport::Events,
                ..NOTHING
            },
            Protocol::NativeStart => Facts { awaits_hello: true, ..WEBSOCKET },
            Protocol::Native => SESSION,
            Protocol::JsonStart => Facts {
                awaits_hello: true,
                form: Form::Json,
                transport: Transport::Json,
                ..WEBSOCKET
            },
            Protocol::Json => Facts { form: Form::Json, transport: Transport::Json, ..SESSION },
            Protocol::Echo => Facts { is_lasting: true, transport: Transport::Echo, ..WEBSOCKET },
            Protocol::MqttStart => MQTT_START,
            Protocol::Mqtt => MQTT,
            Protocol::MqttWebSocketStart => Facts { is_websocket: true, ..MQTT_START },
            Protocol::MqttWebSocket => Facts { is_websocket: true, ..MQTT },
            #[cfg(feature = "line-protocol")]
            Protocol::Line => {
                Facts { reads_input: true, is_lasting: true, subscribes: true, ..NOTHING }
            }
        }
    }
}

/// One bit each.
pub(crate) mod flag {
    /// In the list of connections to flush.
    pub const DIRTY: u32 = 1;
    /// The last write was short; wait for writable.
    pub const BLOCKED: u32 = 1 << 1;
    /// To be reset at the end of the turn; nothing is queued any more.
    pub const DEAD: u32 = 1 << 2;
    /// In the list of blocked connections that hold places.
    pub const HOLDS: u32 = 1 << 3;
    /// Close once all is written; nothing is read any more.
    pub const CLOSING: u32 = 1 << 4;
    /// Do not read: an answer is due first, or a home has no room for requests.
    pub const PAUSED: u32 = 1 << 5;
    /// The network has bytes that the edge has not read.
    pub const UNREAD: u32 = 1 << 6;
    /// A subscription waits for the outbox to drain before it reads its next page.
    pub const LAGGING: u32 = 1 << 7;
    /// A ping is under way.
    pub const PINGED: u32 = 1 << 8;
    /// The peer has ended its direction.
    pub const ENDED: u32 = 1 << 9;
    /// HTTP: the request's head has not arrived in full since the connection began.
    pub const STARTING: u32 = 1 << 10;
    /// In the list of those that continue with buffered input next turn.
    pub const RESUMED: u32 = 1 << 11;
    /// The stream carries one raw topic (`id:` is a position); otherwise an envelope and a
    /// composite cursor.
    pub const RAW: u32 = 1 << 12;
    /// Paused because its own outbox is too long.
    pub const CHOKED: u32 = 1 << 13;
    /// The connection has many subscriptions, which an index finds.
    pub const LARGE: u32 = 1 << 14;
    /// Some subscription to filters is read from the log in some partition.
    pub const CATCHING_UP: u32 = 1 << 15;
    /// A unit of its input was handled since it last continued.
    pub const SERVED: u32 = 1 << 16;
    /// Its outbox had no room for positions of its filters; they follow when it has drained.
    pub const OWED: u32 = 1 << 17;
    /// Four bits: the window of a client that takes compressed messages (`Slot::window_bits`).
    pub const WINDOW_SHIFT: u32 = 18;
    /// Paused until the decision on a credential.
    pub const ASKED: u32 = 1 << 22;
    /// The client has the notice that its token expires.
    pub const WARNED: u32 = 1 << 23;
    /// The connection counts for the user of its token (`edge::flow::users`).
    pub const COUNTED: u32 = 1 << 24;
    /// The client has the notice to leave: it gets answers, and no new subscriptions.
    pub const AWAY: u32 = 1 << 25;
    /// Not read any more: the connection closes when its requests are answered.
    pub const HELD: u32 = 1 << 26;
    /// Its input is unfinished (`edge::connections::buffered`).
    pub const UNFINISHED: u32 = 1 << 27;
    /// The connection ends because its client was too slow (`edge::flow::slow`).
    pub const ENDING: u32 = 1 << 28;
    /// The connection has published with a producer's id (`edge::connections::producers`).
    pub const PRODUCES: u32 = 1 << 29;
    /// The connection uses TLS, which this node ends itself.
    pub const ENCRYPTED: u32 = 1 << 30;
    /// Not written before the log has a record of its session (`edge::flow::mqtt::record`).
    pub const GATED: u32 = 1 << 31;
}
