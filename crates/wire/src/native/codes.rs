//! Error, close and unsubscribe codes. Generated from `spec/codes.toml` by `cargo xtask generate`; do not edit.

/// The code of an ERROR frame or an HTTP problem.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u16)]
pub enum ErrorCode {
    /// The frame is malformed.
    MalformedFrame = 100,
    /// The topic is malformed.
    MalformedTopic = 101,
    /// The filter is malformed.
    MalformedFilter = 102,
    /// The body is not the expected JSON.
    MalformedJson = 103,
    /// A string is not UTF-8.
    MalformedUtf8 = 104,
    /// A varint is not canonical or exceeds 64 bits.
    MalformedVarint = 105,
    /// The WebSocket handshake is malformed.
    MalformedHandshake = 106,
    /// The HTTP request is malformed.
    MalformedRequest = 107,
    /// The position is not epoch:offset.
    MalformedPosition = 108,
    /// A parameter, header or option has an invalid value.
    MalformedParameter = 109,
    /// The node does not support this version of the protocol.
    UnsupportedVersion = 110,
    /// The node does not support a mandatory option or flag.
    UnsupportedOption = 111,
    /// The node does not know frames of this type.
    UnsupportedFrame = 112,
    /// A subscription to this topic or filter cannot begin at this start.
    UnsupportedStart = 113,
    /// The first frame must be HELLO.
    HelloRequired = 114,
    /// HELLO may be sent only once.
    HelloRepeated = 115,
    /// The WebSocket subprotocol crore.v1 or crore.v1.json is required.
    SubprotocolRequired = 117,
    /// A publication needs a payload.
    PayloadRequired = 118,
    /// The request names no topic.
    TopicRequired = 119,
    /// The connection already has this subscription.
    AlreadySubscribed = 120,
    /// The connection has no such subscription.
    UnknownSubscription = 121,
    /// No resource exists at this address.
    NotFound = 122,
    /// The method is not allowed at this address.
    MethodNotAllowed = 123,
    /// The node does not support this transfer coding.
    UnsupportedTransferCoding = 127,
    /// The node supports only HTTP/1.1 and HTTP/1.0.
    UnsupportedHttpVersion = 128,
    /// The node does not support this expectation.
    UnsupportedExpectation = 129,
    /// This address supports only WebSocket.
    UpgradeRequired = 130,
    /// The node supports only WebSocket version 13.
    UnsupportedWebsocketVersion = 131,
    /// A message names a topic twice.
    RepeatedTopic = 132,
    /// The request has an unknown parameter.
    UnknownParameter = 133,
    /// The log of this topic keeps no retained messages.
    RetainedUnsupported = 134,
    /// A valid token is required.
    Unauthorized = 200,
    /// The token has expired.
    TokenExpired = 201,
    /// Not permitted.
    Forbidden = 202,
    /// Requests from this origin are not permitted.
    OriginForbidden = 203,
    /// The resume ticket is not valid; subscribe without it.
    TicketRefused = 204,
    /// The token was revoked.
    TokenRevoked = 205,
    /// This node answers only requests to names of its own machine and to the hosts of http.allowed_origins.
    Misdirected = 206,
    /// The payload exceeds message_bytes_max.
    MessageTooLarge = 301,
    /// A topic or filter has at most 255 bytes.
    TopicTooLong = 302,
    /// The request's header is too large.
    HeaderTooLarge = 303,
    /// The request's target is too long.
    UriTooLong = 304,
    /// The session has reached subscriptions_per_session_max.
    TooManySubscriptions = 305,
    /// The connection's previous request for a ticket is not answered yet.
    TooManyRequestsInFlight = 306,
    /// One request names too many topics.
    TooManyTopics = 307,
    /// The message's tags and content type are too large.
    TooManyTags = 308,
    /// The filter matches too many topics for this request.
    FilterTooWide = 309,
    /// The cursor exceeds its size limit.
    CursorTooLarge = 310,
    /// The session's subscriptions do not fit into a resume ticket.
    TicketTooLarge = 311,
    /// The session has reached filters_per_session_max, or its user has reached filters_per_user_max.
    TooManyFilters = 312,
    /// The request would append more than request_bytes_max.
    RequestTooLarge = 313,
    /// The node has reached connections_max.
    ConnectionsFull = 320,
    /// The node has reached topics_max.
    TopicsFull = 322,
    /// The shard has reached filters_per_shard_max.
    FiltersFull = 323,
    /// Retained messages have reached retained_bytes_max.
    RetainedFull = 324,
    /// The log has reached log_bytes_max.
    LogFull = 325,
    /// The node has reached producers_max.
    ProducersFull = 326,
    /// The node has not enough memory for this request.
    MemoryFull = 328,
    /// Too many requests in too short a time.
    RateLimited = 329,
    /// The address or the user has reached its maximum number of connections.
    TooManyConnections = 330,
    /// A replay from this position is no longer possible.
    PositionUnavailable = 400,
    /// The log's epoch is not the expected one.
    EpochMismatch = 401,
    /// The producer's sequence is below its window.
    OutOfOrder = 402,
    /// A newer connection publishes with this producer id.
    ProducerFenced = 403,
    /// The node failed to process the request.
    Internal = 500,
    /// The node is not ready.
    NotReady = 501,
    /// The node is overloaded; try again later.
    Overloaded = 502,
    /// The node is shutting down.
    ShuttingDown = 503,
    /// The log cannot take publications now.
    LogUnavailable = 504,
    /// The handshake was not completed within handshake_timeout.
    HandshakeTimeout = 505,
    /// The request was not completed in time.
    RequestTimeout = 506,
    /// The publication may or may not be in the log; repeat it with its sequence or key.
    OutcomeUnknown = 507,
}

impl ErrorCode {
    /// All codes, by number.
    pub const ALL: [Self; 72] = [
        Self::MalformedFrame,
        Self::MalformedTopic,
        Self::MalformedFilter,
        Self::MalformedJson,
        Self::MalformedUtf8,
        Self::MalformedVarint,
        Self::MalformedHandshake,
        Self::MalformedRequest,
        Self::MalformedPosition,
        Self::MalformedParameter,
        Self::UnsupportedVersion,
        Self::UnsupportedOption,
        Self::UnsupportedFrame,
        Self::UnsupportedStart,
        Self::HelloRequired,
        Self::HelloRepeated,
        Self::SubprotocolRequired,
        Self::PayloadRequired,
        Self::TopicRequired,
        Self::AlreadySubscribed,
        Self::UnknownSubscription,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::UnsupportedTransferCoding,
        Self::UnsupportedHttpVersion,
        Self::UnsupportedExpectation,
        Self::UpgradeRequired,
        Self::UnsupportedWebsocketVersion,
        Self::RepeatedTopic,
        Self::UnknownParameter,
        Self::RetainedUnsupported,
        Self::Unauthorized,
        Self::TokenExpired,
        Self::Forbidden,
        Self::OriginForbidden,
        Self::TicketRefused,
        Self::TokenRevoked,
        Self::Misdirected,
        Self::MessageTooLarge,
        Self::TopicTooLong,
        Self::HeaderTooLarge,
        Self::UriTooLong,
        Self::TooManySubscriptions,
        Self::TooManyRequestsInFlight,
        Self::TooManyTopics,
        Self::TooManyTags,
        Self::FilterTooWide,
        Self::CursorTooLarge,
        Self::TicketTooLarge,
        Self::TooManyFilters,
        Self::RequestTooLarge,
        Self::ConnectionsFull,
        Self::TopicsFull,
        Self::FiltersFull,
        Self::RetainedFull,
        Self::LogFull,
        Self::ProducersFull,
        Self::MemoryFull,
        Self::RateLimited,
        Self::TooManyConnections,
        Self::PositionUnavailable,
        Self::EpochMismatch,
        Self::OutOfOrder,
        Self::ProducerFenced,
        Self::Internal,
        Self::NotReady,
        Self::Overloaded,
        Self::ShuttingDown,
        Self::LogUnavailable,
        Self::HandshakeTimeout,
        Self::RequestTimeout,
        Self::OutcomeUnknown,
    ];

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// The code with this number; none if it is unknown.
    #[must_use]
    pub const fn from_number(number: u64) -> Option<Self> {
        Some(match number {
            100 => Self::MalformedFrame,
            101 => Self::MalformedTopic,
            102 => Self::MalformedFilter,
            103 => Self::MalformedJson,
            104 => Self::MalformedUtf8,
            105 => Self::MalformedVarint,
            106 => Self::MalformedHandshake,
            107 => Self::MalformedRequest,
            108 => Self::MalformedPosition,
            109 => Self::MalformedParameter,
            110 => Self::UnsupportedVersion,
            111 => Self::UnsupportedOption,
            112 => Self::UnsupportedFrame,
            113 => Self::UnsupportedStart,
            114 => Self::HelloRequired,
            115 => Self::HelloRepeated,
            117 => Self::SubprotocolRequired,
            118 => Self::PayloadRequired,
            119 => Self::TopicRequired,
            120 => Self::AlreadySubscribed,
            121 => Self::UnknownSubscription,
            122 => Self::NotFound,
            123 => Self::MethodNotAllowed,
            127 => Self::UnsupportedTransferCoding,
            128 => Self::UnsupportedHttpVersion,
            129 => Self::UnsupportedExpectation,
            130 => Self::UpgradeRequired,
            131 => Self::UnsupportedWebsocketVersion,
            132 => Self::RepeatedTopic,
            133 => Self::UnknownParameter,
            134 => Self::RetainedUnsupported,
            200 => Self::Unauthorized,
            201 => Self::TokenExpired,
            202 => Self::Forbidden,
            203 => Self::OriginForbidden,
            204 => Self::TicketRefused,
            205 => Self::TokenRevoked,
            206 => Self::Misdirected,
            301 => Self::MessageTooLarge,
            302 => Self::TopicTooLong,
            303 => Self::HeaderTooLarge,
            304 => Self::UriTooLong,
            305 => Self::TooManySubscriptions,
            306 => Self::TooManyRequestsInFlight,
            307 => Self::TooManyTopics,
            308 => Self::TooManyTags,
            309 => Self::FilterTooWide,
            310 => Self::CursorTooLarge,
            311 => Self::TicketTooLarge,
            312 => Self::TooManyFilters,
            313 => Self::RequestTooLarge,
            320 => Self::ConnectionsFull,
            322 => Self::TopicsFull,
            323 => Self::FiltersFull,
            324 => Self::RetainedFull,
            325 => Self::LogFull,
            326 => Self::ProducersFull,
            328 => Self::MemoryFull,
            329 => Self::RateLimited,
            330 => Self::TooManyConnections,
            400 => Self::PositionUnavailable,
            401 => Self::EpochMismatch,
            402 => Self::OutOfOrder,
            403 => Self::ProducerFenced,
            500 => Self::Internal,
            501 => Self::NotReady,
            502 => Self::Overloaded,
            503 => Self::ShuttingDown,
            504 => Self::LogUnavailable,
            505 => Self::HandshakeTimeout,
            506 => Self::RequestTimeout,
            507 => Self::OutcomeUnknown,
            _ => return None,
        })
    }

    /// The name in `spec/codes.toml`, for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MalformedFrame => "malformed_frame",
            Self::MalformedTopic => "malformed_topic",
            Self::MalformedFilter => "malformed_filter",
            Self::MalformedJson => "malformed_json",
            Self::MalformedUtf8 => "malformed_utf8",
            Self::MalformedVarint => "malformed_varint",
            Self::MalformedHandshake => "malformed_handshake",
            Self::MalformedRequest => "malformed_request",
            Self::MalformedPosition => "malformed_position",
            Self::MalformedParameter => "malformed_parameter",
            Self::UnsupportedVersion => "unsupported_version",
            Self::UnsupportedOption => "unsupported_option",
            Self::UnsupportedFrame => "unsupported_frame",
            Self::UnsupportedStart => "unsupported_start",
            Self::HelloRequired => "hello_required",
            Self::HelloRepeated => "hello_repeated",
            Self::SubprotocolRequired => "subprotocol_required",
            Self::PayloadRequired => "payload_required",
            Self::TopicRequired => "topic_required",
            Self::AlreadySubscribed => "already_subscribed",
            Self::UnknownSubscription => "unknown_subscription",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::UnsupportedTransferCoding => "unsupported_transfer_coding",
            Self::UnsupportedHttpVersion => "unsupported_http_version",
            Self::UnsupportedExpectation => "unsupported_expectation",
            Self::UpgradeRequired => "upgrade_required",
            Self::UnsupportedWebsocketVersion => "unsupported_websocket_version",
            Self::RepeatedTopic => "repeated_topic",
            Self::UnknownParameter => "unknown_parameter",
            Self::RetainedUnsupported => "retained_unsupported",
            Self::Unauthorized => "unauthorized",
            Self::TokenExpired => "token_expired",
            Self::Forbidden => "forbidden",
            Self::OriginForbidden => "origin_forbidden",
            Self::TicketRefused => "ticket_refused",
            Self::TokenRevoked => "token_revoked",
            Self::Misdirected => "misdirected",
            Self::MessageTooLarge => "message_too_large",
            Self::TopicTooLong => "topic_too_long",
            Self::HeaderTooLarge => "header_too_large",
            Self::UriTooLong => "uri_too_long",
            Self::TooManySubscriptions => "too_many_subscriptions",
            Self::TooManyRequestsInFlight => "too_many_requests_in_flight",
            Self::TooManyTopics => "too_many_topics",
            Self::TooManyTags => "too_many_tags",
            Self::FilterTooWide => "filter_too_wide",
            Self::CursorTooLarge => "cursor_too_large",
            Self::TicketTooLarge => "ticket_too_large",
            Self::TooManyFilters => "too_many_filters",
            Self::RequestTooLarge => "request_too_large",
            Self::ConnectionsFull => "connections_full",
            Self::TopicsFull => "topics_full",
            Self::FiltersFull => "filters_full",
            Self::RetainedFull => "retained_full",
            Self::LogFull => "log_full",
            Self::ProducersFull => "producers_full",
            Self::MemoryFull => "memory_full",
            Self::RateLimited => "rate_limited",
            Self::TooManyConnections => "too_many_connections",
            Self::PositionUnavailable => "position_unavailable",
            Self::EpochMismatch => "epoch_mismatch",
            Self::OutOfOrder => "out_of_order",
            Self::ProducerFenced => "producer_fenced",
            Self::Internal => "internal",
            Self::NotReady => "not_ready",
            Self::Overloaded => "overloaded",
            Self::ShuttingDown => "shutting_down",
            Self::LogUnavailable => "log_unavailable",
            Self::HandshakeTimeout => "handshake_timeout",
            Self::RequestTimeout => "request_timeout",
            Self::OutcomeUnknown => "outcome_unknown",
        }
    }

    /// One line for people, at most 123 bytes.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::MalformedFrame => "the frame is malformed",
            Self::MalformedTopic => "the topic is malformed",
            Self::MalformedFilter => "the filter is malformed",
            Self::MalformedJson => "the body is not the expected JSON",
            Self::MalformedUtf8 => "a string is not UTF-8",
            Self::MalformedVarint => "a varint is not canonical or exceeds 64 bits",
            Self::MalformedHandshake => "the WebSocket handshake is malformed",
            Self::MalformedRequest => "the HTTP request is malformed",
            Self::MalformedPosition => "the position is not epoch:offset",
            Self::MalformedParameter => "a parameter, header or option has an invalid value",
            Self::UnsupportedVersion => "the node does not support this version of the protocol",
            Self::UnsupportedOption => "the node does not support a mandatory option or flag",
            Self::UnsupportedFrame => "the node does not know frames of this type",
            Self::UnsupportedStart => "a subscription to this topic or filter cannot begin at this start",
            Self::HelloRequired => "the first frame must be HELLO",
            Self::HelloRepeated => "HELLO may be sent only once",
            Self::SubprotocolRequired => "the WebSocket subprotocol crore.v1 or crore.v1.json is required",
            Self::PayloadRequired => "a publication needs a payload",
            Self::TopicRequired => "the request names no topic",
            Self::AlreadySubscribed => "the connection already has this subscription",
            Self::UnknownSubscription => "the connection has no such subscription",
            Self::NotFound => "no resource exists at this address",
            Self::MethodNotAllowed => "the method is not allowed at this address",
            Self::UnsupportedTransferCoding => "the node does not support this transfer coding",
            Self::UnsupportedHttpVersion => "the node supports only HTTP/1.1 and HTTP/1.0",
            Self::UnsupportedExpectation => "the node does not support this expectation",
            Self::UpgradeRequired => "this address supports only WebSocket",
            Self::UnsupportedWebsocketVersion => "the node supports only WebSocket version 13",
            Self::RepeatedTopic => "a message names a topic twice",
            Self::UnknownParameter => "the request has an unknown parameter",
            Self::RetainedUnsupported => "the log of this topic keeps no retained messages",
            Self::Unauthorized => "a valid token is required",
            Self::TokenExpired => "the token has expired",
            Self::Forbidden => "not permitted",
            Self::OriginForbidden => "requests from this origin are not permitted",
            Self::TicketRefused => "the resume ticket is not valid; subscribe without it",
            Self::TokenRevoked => "the token was revoked",
            Self::Misdirected => "this node answers only requests to names of its own machine and to the hosts of http.allowed_origins",
            Self::MessageTooLarge => "the payload exceeds message_bytes_max",
            Self::TopicTooLong => "a topic or filter has at most 255 bytes",
            Self::HeaderTooLarge => "the request's header is too large",
            Self::UriTooLong => "the request's target is too long",
            Self::TooManySubscriptions => "the session has reached subscriptions_per_session_max",
            Self::TooManyRequestsInFlight => "the connection's previous request for a ticket is not answered yet",
            Self::TooManyTopics => "one request names too many topics",
            Self::TooManyTags => "the message's tags and content type are too large",
            Self::FilterTooWide => "the filter matches too many topics for this request",
            Self::CursorTooLarge => "the cursor exceeds its size limit",
            Self::TicketTooLarge => "the session's subscriptions do not fit into a resume ticket",
            Self::TooManyFilters => "the session has reached filters_per_session_max, or its user has reached filters_per_user_max",
            Self::RequestTooLarge => "the request would append more than request_bytes_max",
            Self::ConnectionsFull => "the node has reached connections_max",
            Self::TopicsFull => "the node has reached topics_max",
            Self::FiltersFull => "the shard has reached filters_per_shard_max",
            Self::RetainedFull => "retained messages have reached retained_bytes_max",
            Self::LogFull => "the log has reached log_bytes_max",
            Self::ProducersFull => "the node has reached producers_max",
            Self::MemoryFull => "the node has not enough memory for this request",
            Self::RateLimited => "too many requests in too short a time",
            Self::TooManyConnections => "the address or the user has reached its maximum number of connections",
            Self::PositionUnavailable => "a replay from this position is no longer possible",
            Self::EpochMismatch => "the log's epoch is not the expected one",
            Self::OutOfOrder => "the producer's sequence is below its window",
            Self::ProducerFenced => "a newer connection publishes with this producer id",
            Self::Internal => "the node failed to process the request",
            Self::NotReady => "the node is not ready",
            Self::Overloaded => "the node is overloaded; try again later",
            Self::ShuttingDown => "the node is shutting down",
            Self::LogUnavailable => "the log cannot take publications now",
            Self::HandshakeTimeout => "the handshake was not completed within handshake_timeout",
            Self::RequestTimeout => "the request was not completed in time",
            Self::OutcomeUnknown => "the publication may or may not be in the log; repeat it with its sequence or key",
        }
    }
}

impl ErrorCode {
    /// The status of the answer over HTTP.
    #[must_use]
    pub const fn http_status(self) -> u16 {
        match self {
            Self::MalformedFrame
            | Self::MalformedTopic
            | Self::MalformedFilter
            | Self::MalformedJson
            | Self::MalformedUtf8
            | Self::MalformedVarint
            | Self::MalformedHandshake
            | Self::MalformedRequest
            | Self::MalformedPosition
            | Self::MalformedParameter
            | Self::UnsupportedVersion
            | Self::UnsupportedOption
            | Self::UnsupportedFrame
            | Self::UnsupportedStart
            | Self::HelloRequired
            | Self::HelloRepeated
            | Self::SubprotocolRequired
            | Self::PayloadRequired
            | Self::TopicRequired
            | Self::RepeatedTopic
            | Self::UnknownParameter
            | Self::RetainedUnsupported
            | Self::TopicTooLong
            | Self::TooManyTopics
            | Self::TooManyTags
            | Self::FilterTooWide
            | Self::CursorTooLarge
            | Self::TicketTooLarge => 400,
            Self::AlreadySubscribed
            | Self::EpochMismatch
            | Self::OutOfOrder
            | Self::ProducerFenced => 409,
            Self::UnknownSubscription
            | Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::UnsupportedTransferCoding => 501,
            Self::UnsupportedHttpVersion => 505,
            Self::UnsupportedExpectation => 417,
            Self::UpgradeRequired
            | Self::UnsupportedWebsocketVersion => 426,
            Self::Unauthorized
            | Self::TokenExpired
            | Self::TicketRefused
            | Self::TokenRevoked => 401,
            Self::Forbidden
            | Self::OriginForbidden => 403,
            Self::Misdirected => 421,
            Self::MessageTooLarge
            | Self::RequestTooLarge => 413,
            Self::HeaderTooLarge => 431,
            Self::UriTooLong => 414,
            Self::TooManySubscriptions
            | Self::TooManyRequestsInFlight
            | Self::TooManyFilters
            | Self::RateLimited
            | Self::TooManyConnections => 429,
            Self::ConnectionsFull
            | Self::TopicsFull
            | Self::FiltersFull
            | Self::ProducersFull
            | Self::MemoryFull
            | Self::NotReady
            | Self::Overloaded
            | Self::ShuttingDown
            | Self::LogUnavailable
            | Self::OutcomeUnknown => 503,
            Self::RetainedFull
            | Self::LogFull => 507,
            Self::PositionUnavailable => 410,
            Self::Internal => 500,
            Self::HandshakeTimeout
            | Self::RequestTimeout => 408,
        }
    }
    /// Whether the same request may succeed later.
    #[must_use]
    pub const fn temporary(self) -> bool {
        match self {
            Self::MalformedFrame
            | Self::MalformedTopic
            | Self::MalformedFilter
            | Self::MalformedJson
            | Self::MalformedUtf8
            | Self::MalformedVarint
            | Self::MalformedHandshake
            | Self::MalformedRequest
            | Self::MalformedPosition
            | Self::MalformedParameter
            | Self::UnsupportedVersion
            | Self::UnsupportedOption
            | Self::UnsupportedFrame
            | Self::UnsupportedStart
            | Self::HelloRequired
            | Self::HelloRepeated
            | Self::SubprotocolRequired
            | Self::PayloadRequired
            | Self::TopicRequired
            | Self::AlreadySubscribed
            | Self::UnknownSubscription
            | Self::NotFound
            | Self::MethodNotAllowed
            | Self::UnsupportedTransferCoding
            | Self::UnsupportedHttpVersion
            | Self::UnsupportedExpectation
            | Self::UpgradeRequired
            | Self::UnsupportedWebsocketVersion
            | Self::RepeatedTopic
            | Self::UnknownParameter
            | Self::RetainedUnsupported
            | Self::Unauthorized
            | Self::TokenExpired
            | Self::Forbidden
            | Self::OriginForbidden
            | Self::TokenRevoked
            | Self::Misdirected
            | Self::MessageTooLarge
            | Self::TopicTooLong
            | Self::HeaderTooLarge
            | Self::UriTooLong
            | Self::TooManySubscriptions
            | Self::TooManyTopics
            | Self::TooManyTags
            | Self::FilterTooWide
            | Self::CursorTooLarge
            | Self::TicketTooLarge
            | Self::RequestTooLarge
            | Self::PositionUnavailable
            | Self::EpochMismatch
            | Self::OutOfOrder
            | Self::ProducerFenced => false,
            Self::TicketRefused
            | Self::TooManyRequestsInFlight
            | Self::TooManyFilters
            | Self::ConnectionsFull
            | Self::TopicsFull
            | Self::FiltersFull
            | Self::RetainedFull
            | Self::LogFull
            | Self::ProducersFull
            | Self::MemoryFull
            | Self::RateLimited
            | Self::TooManyConnections
            | Self::Internal
            | Self::NotReady
            | Self::Overloaded
            | Self::ShuttingDown
            | Self::LogUnavailable
            | Self::HandshakeTimeout
            | Self::RequestTimeout
            | Self::OutcomeUnknown => true,
        }
    }
}

/// The reason why a WebSocket connection is closed, if RFC 6455 has no code for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u16)]
pub enum CloseCode {
    /// The node shuts down.
    Shutdown = 3000,
    /// Disconnect now; GO_AWAY contained the time and address to reconnect.
    GoingAway = 3001,
    /// The client did not keep up; resume by position.
    SlowConsumer = 3002,
    /// The shard has reached pinned_bytes_max; resume by position.
    PinnedBytes = 3003,
    /// The client was silent for too long.
    PingTimeout = 3004,
    /// HELLO did not arrive within handshake_timeout.
    HandshakeTimeout = 3005,
    /// The node sheds load.
    Overloaded = 3006,
    /// The token has expired; reconnect with a new one.
    TokenExpired = 3007,
    /// The user has reached its maximum number of connections; reconnect when another has closed.
    TooManyConnections = 3009,
    /// A frame or message stalled for longer than unfinished_input_timeout.
    InputTimeout = 3010,
    /// A frame was malformed.
    ProtocolError = 3500,
    /// The node does not support this version of the protocol.
    UnsupportedVersion = 3501,
    /// A valid token is required.
    Unauthorized = 3502,
    /// The first frame was not HELLO, or HELLO came twice.
    HelloRequired = 3504,
    /// The node does not know frames of this type.
    UnsupportedFrame = 3505,
    /// The node does not support a mandatory option or flag.
    UnsupportedOption = 3506,
    /// The token was revoked.
    Revoked = 3507,
    /// The client sent too many refused requests.
    ErrorFlood = 3509,
    /// The application asks to reconnect.
    ApplicationReconnect = 4000,
    /// The application closed the connection.
    ApplicationDisconnect = 4500,
}

impl CloseCode {
    /// All codes, by number.
    pub const ALL: [Self; 20] = [
        Self::Shutdown,
        Self::GoingAway,
        Self::SlowConsumer,
        Self::PinnedBytes,
        Self::PingTimeout,
        Self::HandshakeTimeout,
        Self::Overloaded,
        Self::TokenExpired,
        Self::TooManyConnections,
        Self::InputTimeout,
        Self::ProtocolError,
        Self::UnsupportedVersion,
        Self::Unauthorized,
        Self::HelloRequired,
        Self::UnsupportedFrame,
        Self::UnsupportedOption,
        Self::Revoked,
        Self::ErrorFlood,
        Self::ApplicationReconnect,
        Self::ApplicationDisconnect,
    ];

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// The code with this number; none if it is unknown.
    #[must_use]
    pub const fn from_number(number: u64) -> Option<Self> {
        Some(match number {
            3000 => Self::Shutdown,
            3001 => Self::GoingAway,
            3002 => Self::SlowConsumer,
            3003 => Self::PinnedBytes,
            3004 => Self::PingTimeout,
            3005 => Self::HandshakeTimeout,
            3006 => Self::Overloaded,
            3007 => Self::TokenExpired,
            3009 => Self::TooManyConnections,
            3010 => Self::InputTimeout,
            3500 => Self::ProtocolError,
            3501 => Self::UnsupportedVersion,
            3502 => Self::Unauthorized,
            3504 => Self::HelloRequired,
            3505 => Self::UnsupportedFrame,
            3506 => Self::UnsupportedOption,
            3507 => Self::Revoked,
            3509 => Self::ErrorFlood,
            4000 => Self::ApplicationReconnect,
            4500 => Self::ApplicationDisconnect,
            _ => return None,
        })
    }

    /// The name in `spec/codes.toml`, for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shutdown => "shutdown",
            Self::GoingAway => "going_away",
            Self::SlowConsumer => "slow_consumer",
            Self::PinnedBytes => "pinned_bytes",
            Self::PingTimeout => "ping_timeout",
            Self::HandshakeTimeout => "handshake_timeout",
            Self::Overloaded => "overloaded",
            Self::TokenExpired => "token_expired",
            Self::TooManyConnections => "too_many_connections",
            Self::InputTimeout => "input_timeout",
            Self::ProtocolError => "protocol_error",
            Self::UnsupportedVersion => "unsupported_version",
            Self::Unauthorized => "unauthorized",
            Self::HelloRequired => "hello_required",
            Self::UnsupportedFrame => "unsupported_frame",
            Self::UnsupportedOption => "unsupported_option",
            Self::Revoked => "revoked",
            Self::ErrorFlood => "error_flood",
            Self::ApplicationReconnect => "application_reconnect",
            Self::ApplicationDisconnect => "application_disconnect",
        }
    }

    /// One line for people, at most 123 bytes.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Shutdown => "the node shuts down",
            Self::GoingAway => "disconnect now; GO_AWAY contained the time and address to reconnect",
            Self::SlowConsumer => "the client did not keep up; resume by position",
            Self::PinnedBytes => "the shard has reached pinned_bytes_max; resume by position",
            Self::PingTimeout => "the client was silent for too long",
            Self::HandshakeTimeout => "HELLO did not arrive within handshake_timeout",
            Self::Overloaded => "the node sheds load",
            Self::TokenExpired => "the token has expired; reconnect with a new one",
            Self::TooManyConnections => "the user has reached its maximum number of connections; reconnect when another has closed",
            Self::InputTimeout => "a frame or message stalled for longer than unfinished_input_timeout",
            Self::ProtocolError => "a frame was malformed",
            Self::UnsupportedVersion => "the node does not support this version of the protocol",
            Self::Unauthorized => "a valid token is required",
            Self::HelloRequired => "the first frame was not HELLO, or HELLO came twice",
            Self::UnsupportedFrame => "the node does not know frames of this type",
            Self::UnsupportedOption => "the node does not support a mandatory option or flag",
            Self::Revoked => "the token was revoked",
            Self::ErrorFlood => "the client sent too many refused requests",
            Self::ApplicationReconnect => "the application asks to reconnect",
            Self::ApplicationDisconnect => "the application closed the connection",
        }
    }
}

impl CloseCode {
    /// Whether the client should reconnect.
    #[must_use]
    pub const fn reconnects(self) -> bool {
        match self {
            Self::Shutdown
            | Self::GoingAway
            | Self::SlowConsumer
            | Self::PinnedBytes
            | Self::PingTimeout
            | Self::HandshakeTimeout
            | Self::Overloaded
            | Self::TokenExpired
            | Self::TooManyConnections
            | Self::InputTimeout
            | Self::ApplicationReconnect => true,
            Self::ProtocolError
            | Self::UnsupportedVersion
            | Self::Unauthorized
            | Self::HelloRequired
            | Self::UnsupportedFrame
            | Self::UnsupportedOption
            | Self::Revoked
            | Self::ErrorFlood
            | Self::ApplicationDisconnect => false,
        }
    }
}

/// The reason why a subscription has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u16)]
pub enum UnsubscribeCode {
    /// The client requested it.
    Requested = 0,
    /// The permission has ended.
    Forbidden = 2000,
    /// The subscription did not keep up; subscribe again from the last position.
    SlowConsumer = 2500,
    /// The log has lost messages or was made again; subscribe again from the last position.
    LogRestarted = 2503,
}

impl UnsubscribeCode {
    /// All codes, by number.
    pub const ALL: [Self; 4] = [
        Self::Requested,
        Self::Forbidden,
        Self::SlowConsumer,
        Self::LogRestarted,
    ];

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// The code with this number; none if it is unknown.
    #[must_use]
    pub const fn from_number(number: u64) -> Option<Self> {
        Some(match number {
            0 => Self::Requested,
            2000 => Self::Forbidden,
            2500 => Self::SlowConsumer,
            2503 => Self::LogRestarted,
            _ => return None,
        })
    }

    /// The name in `spec/codes.toml`, for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Forbidden => "forbidden",
            Self::SlowConsumer => "slow_consumer",
            Self::LogRestarted => "log_restarted",
        }
    }

    /// One line for people, at most 123 bytes.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Requested => "the client requested it",
            Self::Forbidden => "the permission has ended",
            Self::SlowConsumer => "the subscription did not keep up; subscribe again from the last position",
            Self::LogRestarted => "the log has lost messages or was made again; subscribe again from the last position",
        }
    }
}

impl UnsubscribeCode {
    /// Whether the client should subscribe again from its last position.
    #[must_use]
    pub const fn resubscribes(self) -> bool {
        match self {
            Self::Requested
            | Self::Forbidden => false,
            Self::SlowConsumer
            | Self::LogRestarted => true,
        }
    }
}
