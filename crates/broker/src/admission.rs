//! Admission of publications: one order of checks for all protocols, and one code for each fault.
//!
//! Step 3 of the path. A session decodes the publications of a request to [`Offer`]s and asks here
//! once. A [`NotAdmitted`] goes back to the client in the words of its protocol. The order:
//!
//! 1. memory of the process: `memory_full`;
//! 2. bytes that the request appends in all: `request_too_large`;
//! 3. for each publication
//!    1. the name: `malformed_topic`, `topic_too_long`;
//!    2. the credential: `unauthorized`, `forbidden`, `token_expired`, `token_revoked`;
//!    3. the publishers of the topic's rule: `forbidden`;
//!    4. the size: `message_too_large`, `too_many_tags`;
//!    5. the backlog of the topic's log: `log_unavailable`;
//! 4. rates of the connection, which only an admitted request uses up: `rate_limited`.
//!
//! A request is admitted as a whole or not at all. Its home then decides about duplicates, epochs
//! and room.

use crate::entitlement::CredentialKind;
use crate::ids::ConnIndex;
use crate::mail::{PartitionId, publication_cost};
use crate::settings::{PublishSettings, Publishers};
use crate::topic::TopicError;
use std::net::IpAddr;
use wire::native::ErrorCode;

/// Content type and tags of one message, in bytes as a record keeps them.
pub(crate) const ATTRIBUTES_BYTES_MAX: usize = 16 << 10;

// A record holds their length in 16 bits.
const _: () = assert!(ATTRIBUTES_BYTES_MAX <= u16::MAX as usize);

/// The publisher of a request.
#[derive(Clone, Copy)]
pub(crate) enum Publisher {
    /// The client of a connection.
    Connection(ConnIndex),
    /// An operator. Credentials and rates of clients do not apply; rules and limits do.
    Operator,
}

/// One message for one topic.
#[derive(Clone, Copy)]
pub(crate) struct Offer<'a> {
    pub topic: &'a str,
    pub payload_bytes: usize,
    /// Content type and tags.
    pub attributes_bytes: usize,
    pub retain: bool,
}

/// The topic's rule and partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Placement {
    pub rule: u16,
    pub partition: PartitionId,
}

/// The first fault of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NotAdmitted<'a> {
    pub code: ErrorCode,
    pub detail: Detail<'a>,
}

/// The details behind the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Detail<'a> {
    /// The code is all.
    None,
    /// The fault of a name.
    Name(TopicError),
    /// The topic that may not be published to.
    Topic(&'a str),
    /// The topic, and the most bytes of a message to it.
    Message(&'a str, u32),
    /// The most bytes of content type and tags.
    Attributes(usize),
    /// The bytes that a request would append, and the most that it may.
    Request(u64, u32),
    /// The rate that is used up.
    Rate(TooFast),
}

/// A rate is used up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooFast {
    /// Actions in a second.
    pub limit: u64,
    /// Milliseconds until the next one may come.
    pub after_ms: u64,
}

impl From<ErrorCode> for NotAdmitted<'_> {
    fn from(code: ErrorCode) -> Self {
        NotAdmitted { code, detail: Detail::None }
    }
}

impl Offer<'_> {
    /// Bytes of the publication's request to its home.
    pub(crate) fn cost(&self) -> u64 {
        publication_cost(self.payload_bytes + self.attributes_bytes).into()
    }
}

/// A publisher as a rule sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    Client {
        /// The kind of its accepted credential.
        credential: Option<CredentialKind>,
        /// `None`: unknown, such as behind a proxy that does not name its clients.
        address: Option<IpAddr>,
    },
    Operator,
}

impl PublishSettings {
    /// Whether the rule permits this publisher, and retained messages. A rule narrows the
    /// permissions of a credential and never widens them. An unknown address matches no network.
    pub(crate) fn permits(&self, origin: Origin, retain: bool) -> bool {
        let is_publisher = match (origin, self.publishers) {
            (_, Publishers::Nobody) => false,
            (Origin::Operator, _) | (_, Publishers::All) => true,
            (Origin::Client { credential, .. }, Publishers::Entitled) => credential.is_some(),
            (Origin::Client { credential, .. }, Publishers::ApiKeys) => {
                credential == Some(CredentialKind::ApiKey)
            }
        };
        let is_from_there = match origin {
            Origin::Operator => true,
            Origin::Client { address, .. } => {
                self.from.is_empty() || address.is_some_and(|address| self.from.contains(address))
            }
        };
        is_publisher && is_from_there && (self.may_retain || !retain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::networks::Network;

    #[test]
    fn rules_choose_publishers_by_credential() {
        use CredentialKind::{ApiKey, Token};
        for (publishers, expected) in [
            (Publishers::All, [true, true, true, true]),
            (Publishers::Entitled, [false, true, true, true]),
            (Publishers::ApiKeys, [false, false, true, true]),
            (Publishers::Nobody, [false, false, false, false]),
        ] {
            let rule = PublishSettings { publishers, ..PublishSettings::default() };
            let client = |credential| Origin::Client { credential, address: None };
            let origins =
                [client(None), client(Some(Token)), client(Some(ApiKey)), Origin::Operator];
            assert_eq!(
                origins.map(|origin| rule.permits(origin, true)),
                expected,
                "{publishers:?}"
            );
        }
    }

    #[test]
    fn rules_choose_publishers_by_address_and_may_forbid_to_retain() {
        let rule = PublishSettings {
            may_retain: false,
            from: ["10.0.0.0/8", "2001:db8::/32"].into_iter().filter_map(Network::parse).collect(),
            ..PublishSettings::default()
        };
        let check = |origin, expected: bool| {
            assert_eq!(rule.permits(origin, false), expected, "{origin:?}");
            assert!(!rule.permits(origin, true), "{origin:?}");
        };
        for (address, expected) in [
            (Some("10.1.2.3"), true),
            (Some("::ffff:10.1.2.3"), true),
            (Some("2001:db8::1"), true),
            (Some("11.0.0.1"), false),
            (None, false),
        ] {
            let address = address.map(|text| text.parse().unwrap());
            check(Origin::Client { credential: None, address }, expected);
        }
        check(Origin::Operator, true);
    }
}
