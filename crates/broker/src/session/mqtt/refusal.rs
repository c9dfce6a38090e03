//! Reason codes of MQTT for the codes of refusals.

use wire::mqtt::ReasonCode;
use wire::native::{CloseCode, ErrorCode};

/// The reason code of a refused publication or subscription (MQTT 5.0, section 2.4).
pub(crate) fn reason_of(code: ErrorCode) -> ReasonCode {
    match code {
        ErrorCode::Unauthorized
        | ErrorCode::Forbidden
        | ErrorCode::TokenExpired
        | ErrorCode::TokenRevoked => ReasonCode::NotAuthorized,
        ErrorCode::MalformedTopic | ErrorCode::TopicTooLong => ReasonCode::TopicNameInvalid,
        ErrorCode::MalformedFilter | ErrorCode::FilterTooWide => ReasonCode::TopicFilterInvalid,
        ErrorCode::RateLimited => ReasonCode::MessageRateTooHigh,
        ErrorCode::RetainedUnsupported => ReasonCode::RetainNotSupported,
        ErrorCode::ShuttingDown => ReasonCode::ServerShuttingDown,
        ErrorCode::Overloaded | ErrorCode::NotReady => ReasonCode::ServerBusy,
        ErrorCode::MessageTooLarge
        | ErrorCode::RequestTooLarge
        | ErrorCode::TooManyTags
        | ErrorCode::TooManySubscriptions
        | ErrorCode::TooManyFilters
        | ErrorCode::TooManyTopics
        | ErrorCode::FiltersFull
        | ErrorCode::TopicsFull
        | ErrorCode::RetainedFull
        | ErrorCode::LogFull
        | ErrorCode::MemoryFull
        | ErrorCode::ProducersFull => ReasonCode::QuotaExceeded,
        ErrorCode::LogUnavailable => ReasonCode::ImplementationSpecific,
        _ => ReasonCode::Unspecified,
    }
}

/// The reason code that a publication is acknowledged with. PUBACK and PUBREC know fewer codes than
/// SUBACK (sections 3.4.2.1 and 3.5.2.1).
pub(crate) fn publish_reason_of(code: ErrorCode) -> ReasonCode {
    match reason_of(code) {
        ReasonCode::MessageRateTooHigh => ReasonCode::QuotaExceeded,
        reason @ (ReasonCode::NotAuthorized
        | ReasonCode::TopicNameInvalid
        | ReasonCode::QuotaExceeded
        | ReasonCode::ImplementationSpecific) => reason,
        ReasonCode::RetainNotSupported | ReasonCode::ServerBusy => {
            ReasonCode::ImplementationSpecific
        }
        _ => ReasonCode::Unspecified,
    }
}

/// The reason code that a filter is answered with (section 3.9.3).
pub(crate) fn subscribe_reason_of(code: ErrorCode) -> ReasonCode {
    match reason_of(code) {
        ReasonCode::MessageRateTooHigh => ReasonCode::QuotaExceeded,
        reason @ (ReasonCode::NotAuthorized
        | ReasonCode::TopicFilterInvalid
        | ReasonCode::QuotaExceeded
        | ReasonCode::ImplementationSpecific) => reason,
        ReasonCode::ServerBusy => ReasonCode::ImplementationSpecific,
        ReasonCode::TopicNameInvalid => ReasonCode::TopicFilterInvalid,
        _ => ReasonCode::Unspecified,
    }
}

/// The reason code of a refused CONNECT (section 3.2.2.2).
pub(crate) fn connect_reason_of(code: ErrorCode) -> ReasonCode {
    match code {
        ErrorCode::Unauthorized | ErrorCode::TokenExpired | ErrorCode::TokenRevoked => {
            ReasonCode::BadCredentials
        }
        ErrorCode::Forbidden => ReasonCode::NotAuthorized,
        ErrorCode::TooManyConnections | ErrorCode::MemoryFull => ReasonCode::QuotaExceeded,
        ErrorCode::RateLimited => ReasonCode::ConnectionRateExceeded,
        ErrorCode::ShuttingDown => ReasonCode::ServerUnavailable,
        _ => ReasonCode::ServerBusy,
    }
}

/// The reason code of DISCONNECT for a close code of the native protocol.
pub(crate) fn disconnect_reason_of(code: CloseCode) -> ReasonCode {
    match code {
        CloseCode::PingTimeout => ReasonCode::KeepAliveTimeout,
        CloseCode::TokenExpired | CloseCode::Revoked | CloseCode::Unauthorized => {
            ReasonCode::NotAuthorized
        }
        CloseCode::SlowConsumer | CloseCode::PinnedBytes => ReasonCode::QuotaExceeded,
        CloseCode::Shutdown | CloseCode::GoingAway => ReasonCode::ServerShuttingDown,
        CloseCode::Overloaded => ReasonCode::ServerBusy,
        CloseCode::TooManyConnections => ReasonCode::QuotaExceeded,
        _ => ReasonCode::Unspecified,
    }
}
