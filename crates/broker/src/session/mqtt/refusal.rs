//! Reason codes of MQTT for the codes of refusals.

use wire::mqtt::ReasonCode;
use wire::native::{CloseCode, ErrorCode};

/// The reason codes of refusals (MQTT 5.0, section 2.4); others are unspecified errors.
const REASONS: &[(ErrorCode, ReasonCode)] = &[
    (ErrorCode::Unauthorized, ReasonCode::NotAuthorized),
    (ErrorCode::Forbidden, ReasonCode::NotAuthorized),
    (ErrorCode::TokenExpired, ReasonCode::NotAuthorized),
    (ErrorCode::TokenRevoked, ReasonCode::NotAuthorized),
    (ErrorCode::MalformedTopic, ReasonCode::TopicNameInvalid),
    (ErrorCode::TopicTooLong, ReasonCode::TopicNameInvalid),
    (ErrorCode::MalformedFilter, ReasonCode::TopicFilterInvalid),
    (ErrorCode::FilterTooWide, ReasonCode::TopicFilterInvalid),
    (ErrorCode::RateLimited, ReasonCode::QuotaExceeded),
    (ErrorCode::ShuttingDown, ReasonCode::ImplementationSpecific),
    (ErrorCode::Overloaded, ReasonCode::ImplementationSpecific),
    (ErrorCode::NotReady, ReasonCode::ImplementationSpecific),
    (ErrorCode::LogUnavailable, ReasonCode::ImplementationSpecific),
    (ErrorCode::RetainedUnsupported, ReasonCode::ImplementationSpecific),
    (ErrorCode::UnsupportedStart, ReasonCode::ImplementationSpecific),
    (ErrorCode::PositionUnavailable, ReasonCode::ImplementationSpecific),
    (ErrorCode::MessageTooLarge, ReasonCode::QuotaExceeded),
    (ErrorCode::RequestTooLarge, ReasonCode::QuotaExceeded),
    (ErrorCode::TooManyTags, ReasonCode::QuotaExceeded),
    (ErrorCode::TooManySubscriptions, ReasonCode::QuotaExceeded),
    (ErrorCode::TooManyFilters, ReasonCode::QuotaExceeded),
    (ErrorCode::TooManyTopics, ReasonCode::QuotaExceeded),
    (ErrorCode::FiltersFull, ReasonCode::QuotaExceeded),
    (ErrorCode::TopicsFull, ReasonCode::QuotaExceeded),
    (ErrorCode::RetainedFull, ReasonCode::QuotaExceeded),
    (ErrorCode::LogFull, ReasonCode::QuotaExceeded),
    (ErrorCode::MemoryFull, ReasonCode::QuotaExceeded),
    (ErrorCode::ProducersFull, ReasonCode::QuotaExceeded),
];

/// The reason codes of a refused CONNECT (section 3.2.2.2); otherwise the server is busy.
const OF_CONNECT: &[(ErrorCode, ReasonCode)] = &[
    // As Mosquitto answers, for devices that move from there.
    (ErrorCode::Unauthorized, ReasonCode::NotAuthorized),
    (ErrorCode::TokenExpired, ReasonCode::BadCredentials),
    (ErrorCode::TokenRevoked, ReasonCode::BadCredentials),
    (ErrorCode::Forbidden, ReasonCode::NotAuthorized),
    (ErrorCode::MalformedTopic, ReasonCode::TopicNameInvalid),
    (ErrorCode::TopicTooLong, ReasonCode::TopicNameInvalid),
    (ErrorCode::MessageTooLarge, ReasonCode::PacketTooLarge),
    (ErrorCode::TooManyConnections, ReasonCode::QuotaExceeded),
    (ErrorCode::MemoryFull, ReasonCode::QuotaExceeded),
    (ErrorCode::RateLimited, ReasonCode::ConnectionRateExceeded),
    (ErrorCode::ShuttingDown, ReasonCode::ServerUnavailable),
    (ErrorCode::LogUnavailable, ReasonCode::ServerUnavailable),
];

/// The reason codes of DISCONNECT; otherwise the error is unspecified.
const OF_DISCONNECT: &[(CloseCode, ReasonCode)] = &[
    (CloseCode::PingTimeout, ReasonCode::KeepAliveTimeout),
    (CloseCode::TokenExpired, ReasonCode::NotAuthorized),
    (CloseCode::Revoked, ReasonCode::NotAuthorized),
    (CloseCode::Unauthorized, ReasonCode::NotAuthorized),
    (CloseCode::SlowConsumer, ReasonCode::QuotaExceeded),
    (CloseCode::PinnedBytes, ReasonCode::QuotaExceeded),
    (CloseCode::TooManyConnections, ReasonCode::QuotaExceeded),
    (CloseCode::Shutdown, ReasonCode::ServerShuttingDown),
    (CloseCode::GoingAway, ReasonCode::ServerShuttingDown),
    (CloseCode::Overloaded, ReasonCode::ServerBusy),
];

/// The reason code of a refused publication or subscription.
pub(crate) fn reason_of(code: ErrorCode) -> ReasonCode {
    find(REASONS, code).unwrap_or(ReasonCode::Unspecified)
}

/// The reason code that a filter is answered with: SUBACK has none for a topic name.
pub(crate) fn subscribe_reason_of(code: ErrorCode) -> ReasonCode {
    let reason = reason_of(code);
    let is_of_topic = reason == ReasonCode::TopicNameInvalid;
    if is_of_topic { ReasonCode::TopicFilterInvalid } else { reason }
}

/// The reason code of a refused CONNECT.
pub(crate) fn connect_reason_of(code: ErrorCode) -> ReasonCode {
    find(OF_CONNECT, code).unwrap_or(ReasonCode::ServerBusy)
}

/// The reason code of DISCONNECT for a close code of the native protocol.
pub(crate) fn disconnect_reason_of(code: CloseCode) -> ReasonCode {
    find(OF_DISCONNECT, code).unwrap_or(ReasonCode::Unspecified)
}

fn find<T: Copy + PartialEq>(table: &[(T, ReasonCode)], code: T) -> Option<ReasonCode> {
    table.iter().find(|(of, _)| *of == code).map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::mqtt::PacketType;

    #[test]
    fn packets_have_the_reason_codes_that_they_are_sent_with() {
        let all = |table: &'static [(ErrorCode, ReasonCode)]| table.iter().map(|(_, it)| *it);
        for reason in all(REASONS).chain([ReasonCode::Unspecified]) {
            let is_filter = reason == ReasonCode::TopicFilterInvalid;
            assert!(is_filter || reason.is_permitted_in(PacketType::PubAck), "{reason:?}");
            assert!(is_filter || reason.is_permitted_in(PacketType::PubRec), "{reason:?}");
        }
        for (code, _) in REASONS {
            let reason = subscribe_reason_of(*code);
            assert!(reason.is_permitted_in(PacketType::SubAck), "{reason:?}");
        }
        for reason in all(OF_CONNECT).chain([ReasonCode::ServerBusy]) {
            assert!(reason.is_permitted_in(PacketType::ConnAck), "{reason:?}");
        }
        for (_, reason) in OF_DISCONNECT {
            assert!(reason.is_permitted_in(PacketType::Disconnect), "{reason:?}");
        }
    }
}
