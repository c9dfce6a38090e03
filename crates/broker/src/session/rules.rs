//! What rules say about who may publish (step 3 of the path), and how a refusal of the native protocol says it. Only where a
//! rule says something about it is anything looked at here.
//!
//! A rule takes away from what an entitlement permits, and never adds to it.

use crate::edge::Edge;
use crate::entitlement::{Action, CredentialKind};
use crate::settings::{PublishSettings, Publishers};
use std::net::IpAddr;
use wire::native::{ErrorCode, ErrorFrame, Reference, ServerFrame};

/// What is known of a publisher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Publisher {
    /// What it has shown; `None`: nothing that counts.
    pub shown: Option<CredentialKind>,
    /// Where it comes from; `None`: nobody has said it.
    pub address: Option<IpAddr>,
}

impl PublishSettings {
    /// Whether a publisher may publish a message. What is not known of it does not count for it.
    ///
    /// # Errors
    /// `forbidden`.
    pub(crate) fn check(&self, publisher: Publisher, retains: bool) -> Result<(), ErrorCode> {
        let is_one = match self.publishers {
            Publishers::All => true,
            Publishers::Entitled => publisher.shown.is_some(),
            Publishers::ApiKeys => publisher.shown == Some(CredentialKind::ApiKey),
            Publishers::Nobody => false,
        };
        let comes_from_there = self.from.is_empty()
            || publisher.address.is_some_and(|address| self.from.contains(address));
        let may_retain = self.may_retain || !retains;
        match is_one && comes_from_there && may_retain {
            true => Ok(()),
            false => Err(ErrorCode::Forbidden),
        }
    }
}

impl Edge {
    /// Whether a connection may publish a message under a rule.
    ///
    /// # Errors
    /// `forbidden`.
    pub(super) fn may_publish_under(
        &self,
        index: u32,
        rule: &PublishSettings,
        retains: bool,
    ) -> Result<(), ErrorCode> {
        rule.check(self.publisher(index), retains)
    }

    /// Refuses a request of the native protocol; the answer names what the client may not do, if that is why.
    #[cold]
    pub(super) fn native_refuse_act(
        &mut self,
        index: u32,
        reference: Reference,
        (action, wanted): (Action, &str),
        code: ErrorCode,
    ) {
        if code != ErrorCode::Forbidden {
            return self.native_refuse(index, reference, code);
        }
        let frame =
            ErrorFrame { message: &action.refusal(wanted), ..ErrorFrame::new(reference, code) };
        self.send_native(index, &ServerFrame::Error(frame));
    }

    /// What is known of who has a connection. Without entitlement nobody has shown anything.
    fn publisher(&self, index: u32) -> Publisher {
        Publisher { shown: self.shown_kind(index), address: self.client_address(index) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::networks::Network;

    #[test]
    fn who_may_publish() {
        use CredentialKind::{ApiKey, Token};
        for (publishers, expected) in [
            (Publishers::All, [true, true, true]),
            (Publishers::Entitled, [false, true, true]),
            (Publishers::ApiKeys, [false, false, true]),
            (Publishers::Nobody, [false, false, false]),
        ] {
            let rule = PublishSettings { publishers, ..PublishSettings::default() };
            let shown = [None, Some(Token), Some(ApiKey)];
            let may = shown.map(|shown| {
                let publisher = Publisher { shown, address: None };
                rule.check(publisher, true).is_ok()
            });
            assert_eq!(may, expected, "{publishers:?}");
        }
    }

    #[test]
    fn from_where_and_what() {
        let rule = PublishSettings {
            may_retain: false,
            from: ["10.0.0.0/8", "2001:db8::/32"].into_iter().filter_map(Network::parse).collect(),
            ..PublishSettings::default()
        };
        for (address, may) in [
            (Some("10.1.2.3"), true),
            (Some("::ffff:10.1.2.3"), true),
            (Some("2001:db8::1"), true),
            (Some("11.0.0.1"), false),
            (None, false),
        ] {
            let publisher =
                Publisher { shown: None, address: address.map(|text| text.parse().unwrap()) };
            assert_eq!(rule.check(publisher, false).is_ok(), may, "{address:?}");
            assert_eq!(rule.check(publisher, true), Err(ErrorCode::Forbidden));
        }
    }
}
