//! Tokens of simulated clients, and the authenticator of all nodes of a world.
//!
//! A token is plain text without a signature: `client-7.3.12.1700000005.2` contains the client, its
//! rights as bits, a number for revocation, its expiry in seconds (0: never), and the maximum
//! number of its user's connections (0: any). Several clients share a user. This simulator does not
//! cover signatures.

use crate::mutation::Mutation;
use broker::entitlement::{
    Authenticator, CredentialKind, Decision, Digest, Entitlement, EntitlementLimits, NEVER,
    Permissions, Terms,
};
use broker::topic::Filter;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use wire::native::ErrorCode;

/// The filters of each bit of a token's rights, for every action.
const RIGHTS: [&str; 3] = ["a/#", "b/#", "+"];
/// All rights.
pub const RIGHTS_ALL: u8 = 0b111;
/// The number of users.
const USERS: usize = 2;

/// Whether rights permit a topic.
pub fn covers(rights: u8, topic: &str) -> bool {
    let is_covered = |(bit, filter): (usize, &&str)| {
        rights >> bit & 1 == 1 && Filter::parse(filter).is_ok_and(|filter| filter.matches(topic))
    };
    RIGHTS.iter().enumerate().any(is_covered)
}

/// The permissions for rights.
pub fn permissions(rights: u8) -> Permissions {
    let of = |(bit, filter): (usize, &&str)| (rights >> bit & 1 == 1).then(|| Box::from(*filter));
    let filters: Vec<Box<str>> = RIGHTS.iter().enumerate().filter_map(of).collect();
    Permissions { subscribe: filters.clone(), publish: filters.clone(), history: filters }
}

/// The fields of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    /// The client's number.
    pub client: usize,
    /// The rights as bits.
    pub rights: u8,
    /// The number for a revocation.
    pub number: u64,
    /// The expiry in seconds since 1970; 0: never.
    pub expires_s: u32,
    /// The maximum number of its user's connections; 0: any.
    pub connections_max: u32,
}

impl Token {
    /// The text of the token.
    pub fn text(&self) -> String {
        let Token { client, rights, number, expires_s, connections_max } = self;
        format!("client-{client}.{rights}.{number}.{expires_s}.{connections_max}")
    }

    /// Whether the token has expired.
    pub fn has_expired(&self, now_s: u32) -> bool {
        self.expires_s != 0 && self.expires_s <= now_s
    }

    fn parse(text: &str) -> Option<Token> {
        let mut words = text.split('.');
        let token = Token {
            client: words.next()?.strip_prefix("client-")?.parse().ok()?,
            rights: words.next()?.parse().ok()?,
            number: words.next()?.parse().ok()?,
            expires_s: words.next()?.parse().ok()?,
            connections_max: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(token)
    }
}

/// Stores revocations; outlives nodes.
#[derive(Debug, Default)]
pub struct SimAuthenticator {
    revoked: Mutex<BTreeSet<u64>>,
    /// Increases with each revocation.
    version: AtomicU64,
    mutation: Option<Mutation>,
    strikes: AtomicU32,
}

impl SimAuthenticator {
    /// Creates an authenticator, optionally with a planted bug.
    pub fn new(mutation: Option<Mutation>) -> SimAuthenticator {
        SimAuthenticator { mutation, ..SimAuthenticator::default() }
    }

    /// Revokes a token by its number.
    pub fn revoke(&self, number: u64) {
        self.revoked.lock().unwrap_or_else(PoisonError::into_inner).insert(number);
        if self.mutation == Some(Mutation::LoseRevocation) {
            self.strikes.fetch_add(1, Ordering::Relaxed);
        } else {
            self.version.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The version of the revocations, so that a node detects new ones.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// The number of times that its bug took effect.
    pub fn strikes(&self) -> u32 {
        self.strikes.load(Ordering::Relaxed)
    }

    fn entitlement(&self, token: &Token, digest: Digest) -> Entitlement {
        let mut expires_s = match token.expires_s {
            0 => NEVER,
            expires_s => expires_s,
        };
        let mut rights = token.rights;
        match self.mutation {
            Some(Mutation::TokenForEver) if expires_s != NEVER => {
                self.strikes.fetch_add(1, Ordering::Relaxed);
                expires_s = NEVER;
            }
            Some(Mutation::WideToken) if rights != RIGHTS_ALL => {
                self.strikes.fetch_add(1, Ordering::Relaxed);
                rights = RIGHTS_ALL;
            }
            _ => {}
        }
        Entitlement {
            digest,
            subject: format!("user-{}", token.client % USERS).into(),
            token_id: token.number,
            issued_s: 0,
            expires_s,
            terms: Arc::new(Terms {
                permissions: permissions(rights),
                limits: EntitlementLimits {
                    connections_max: Some(token.connections_max).filter(|max| *max > 0),
                    ..EntitlementLimits::default()
                },
                ..Terms::default()
            }),
        }
    }
}

impl Authenticator for SimAuthenticator {
    fn authenticate(
        &self,
        _: CredentialKind,
        credential: &[u8],
        digest: Digest,
        now_s: u64,
    ) -> Decision {
        let token = std::str::from_utf8(credential).ok().and_then(Token::parse);
        let entitlement = token.map(|token| self.entitlement(&token, digest));
        let verdict = match entitlement {
            None => Err(ErrorCode::Unauthorized),
            Some(it) if u64::from(it.expires_s) <= now_s => Err(ErrorCode::TokenExpired),
            Some(it) if self.is_revoked(&it) => Err(ErrorCode::TokenRevoked),
            Some(it) => Ok(it),
        };
        Decision { result: verdict, signatures_count: 1 }
    }

    fn is_revoked(&self, entitlement: &Entitlement) -> bool {
        self.revoked.lock().unwrap_or_else(PoisonError::into_inner).contains(&entitlement.token_id)
    }
}
