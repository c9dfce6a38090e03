//! The identity of a resume ticket's holder, as bytes of the ticket: an entitlement, so that a
//! return needs no token.
//!
//! The format stands in `docs/formats.md`. The ticket's signature covers it, so nothing here is
//! believed unsigned. Invariants: a decoded identity is within the bounds of an entitlement; an
//! empty identity is an anonymous client's.

use crate::entitlement::{
    Action, Digest, Entitlement, EntitlementLimits, ISSUER_BYTES_MAX, KEY_ID_BYTES_MAX, NEVER,
    Permissions, SUBJECT_BYTES_MAX, Signer, Terms,
};
use std::sync::Arc;
use wire::native::varint;

const VERSION: u8 = 3;
/// Longest filter of a permission, in bytes; as that of a subscription.
const FILTER_BYTES_MAX: usize = 255;
const ACTIONS: [Action; 3] = [Action::Subscribe, Action::Publish, Action::History];

/// The bytes of an entitlement.
pub(crate) fn encode(entitlement: &Entitlement) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    out.push(VERSION);
    out.extend_from_slice(&entitlement.digest.0);
    write_bytes(entitlement.subject.as_bytes(), &mut out);
    out.extend_from_slice(&entitlement.token_id.to_le_bytes());
    varint::encode(u64::from(entitlement.issued_s), &mut out);
    varint::encode(expires(entitlement.expires_s), &mut out);
    let limits = limits_of(entitlement.terms.limits);
    for limit in limits {
        // 0 is a limit; none is one less.
        varint::encode(limit.map_or(0, |limit| u64::from(limit) + 1), &mut out);
    }
    for action in ACTIONS {
        let filters = entitlement.terms.permissions.of(action);
        varint::encode(filters.len() as u64, &mut out);
        for filter in filters {
            write_bytes(filter.as_bytes(), &mut out);
        }
    }
    let Signer { issuer, key_id, key_thumbprint } = &entitlement.terms.signer;
    write_bytes(issuer.as_bytes(), &mut out);
    write_bytes(key_id.as_bytes(), &mut out);
    out.extend_from_slice(&key_thumbprint.to_le_bytes());
    out
}

/// The reverse; none for anything that `encode` does not write.
pub(crate) fn decode(bytes: &[u8]) -> Option<Entitlement> {
    let mut reader = Reader(bytes);
    if reader.take(1)? != [VERSION] {
        return None;
    }
    let digest = Digest(reader.take(16)?.try_into().ok()?);
    let subject = reader.text(SUBJECT_BYTES_MAX)?;
    let token_id = u64::from_le_bytes(reader.take(8)?.try_into().ok()?);
    let issued_s = reader.number()?.try_into().ok()?;
    let expires_s = match reader.number()? {
        0 => NEVER,
        expires_s => u32::try_from(expires_s - 1).ok().filter(|at| *at != NEVER)?,
    };
    let mut limit = || match reader.number()? {
        0 => Some(None),
        limit => Some(Some(u32::try_from(limit - 1).ok()?)),
    };
    let limits = EntitlementLimits {
        connections_max: limit()?,
        subscriptions_max: limit()?,
        publish_rate_max: limit()?,
    };
    let permissions = Permissions {
        subscribe: reader.filters()?,
        publish: reader.filters()?,
        history: reader.filters()?,
    };
    let signer = Signer {
        issuer: reader.text(ISSUER_BYTES_MAX)?.into(),
        key_id: reader.text(KEY_ID_BYTES_MAX)?.into(),
        key_thumbprint: u64::from_le_bytes(reader.take(8)?.try_into().ok()?),
    };
    reader.0.is_empty().then(|| Entitlement {
        digest,
        subject: subject.into(),
        token_id,
        issued_s,
        expires_s,
        terms: Arc::new(Terms { permissions, limits, signer }),
    })
}

/// One more than the time; 0 for never.
fn expires(expires_s: u32) -> u64 {
    match expires_s {
        NEVER => 0,
        expires_s => u64::from(expires_s) + 1,
    }
}

fn limits_of(limits: EntitlementLimits) -> [Option<u32>; 3] {
    let EntitlementLimits { connections_max, subscriptions_max, publish_rate_max } = limits;
    [connections_max, subscriptions_max, publish_rate_max]
}

fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    varint::encode(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    fn number(&mut self) -> Option<u64> {
        let (number, rest) = varint::decode(self.0).ok()?;
        self.0 = rest;
        Some(number)
    }

    fn text(&mut self, bytes_max: usize) -> Option<&'a str> {
        let len = usize::try_from(self.number()?).ok()?;
        if len > bytes_max {
            return None;
        }
        std::str::from_utf8(self.take(len)?).ok()
    }

    fn filters(&mut self) -> Option<Vec<Box<str>>> {
        let count = self.number()?;
        let mut filters = Vec::new();
        for _ in 0..count {
            filters.push(self.text(FILTER_BYTES_MAX)?.into());
        }
        Some(filters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entitlement() -> Entitlement {
        Entitlement {
            digest: Digest([7; 16]),
            subject: "anna".into(),
            token_id: 1 << 60,
            issued_s: 1_794_000_000,
            expires_s: NEVER - 1,
            terms: Arc::new(Terms {
                permissions: Permissions {
                    subscribe: vec!["u/{sub}/#".into(), "news".into()],
                    publish: vec!["news".into()],
                    history: vec!["#".into()],
                },
                limits: EntitlementLimits {
                    connections_max: Some(0),
                    subscriptions_max: None,
                    publish_rate_max: Some(u32::MAX),
                },
                signer: Signer {
                    issuer: "https://id.example.com".into(),
                    key_id: "2026-01".into(),
                    key_thumbprint: u64::MAX,
                },
            }),
        }
    }

    #[test]
    fn comes_back() {
        let never = Entitlement {
            expires_s: NEVER,
            subject: "".into(),
            terms: Arc::default(),
            ..entitlement()
        };
        for entitlement in [entitlement(), never] {
            assert_eq!(decode(&encode(&entitlement)), Some(entitlement));
        }
        assert_eq!(decode(&[]), None);
    }

    #[test]
    fn cut_and_extended_identities_are_refused() {
        let bytes = encode(&entitlement());
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes[..len]), None, "{len}");
        }
        assert_eq!(decode(&[&bytes[..], &[0]].concat()), None);
        let long =
            Entitlement { subject: "x".repeat(SUBJECT_BYTES_MAX + 1).into(), ..entitlement() };
        assert_eq!(decode(&encode(&long)), None);
    }

    proptest! {
        #[test]
        fn decoded_bytes_encode_to_the_same(tail in proptest::collection::vec(0u8..4, 0..60)) {
            let bytes = [&[VERSION][..], &[3; 16], &tail].concat();
            if let Some(entitlement) = decode(&bytes) {
                prop_assert_eq!(encode(&entitlement), bytes);
            }
        }
    }
}
