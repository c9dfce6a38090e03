//! Entitlements as plain values: the content of a token or an API key, and the actions it permits.
//!
//! Place on the path: step 3. A session asks [`Entitlement::permits`] before it subscribes,
//! publishes or reads history. Signatures are not checked here: an edge leaves a [`Question`] in
//! its outputs, the shell lets its [`Authenticator`] answer it, and the decision comes back as an
//! input. Meanwhile the connection is not read.
//!
//! Invariants: an action that no permission names is forbidden; `{sub}` stands for a whole level
//! and never becomes a wildcard or several levels; nothing here holds or prints a credential but a
//! [`Question`] under way.

use crate::sys::OWN_GAPS;
use crate::topic::Filter;
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;
use stdx::handing::Hand;
use stdx::key::Key;
use wire::native::ErrorCode;

/// Longest token or API key, in bytes; a longer one is refused unread.
pub const CREDENTIAL_BYTES_MAX: usize = 8 << 10;
/// Longest subject, in bytes: it has to fit into a topic's name.
pub const SUBJECT_BYTES_MAX: usize = 255;
/// Longest issuer, in bytes.
pub const ISSUER_BYTES_MAX: usize = 255;
/// Longest name of a key (`kid`), in bytes.
pub const KEY_ID_BYTES_MAX: usize = 255;
/// The placeholder of the subject in filters of permissions; a whole level.
pub const SUBJECT_PLACE: &str = "{sub}";
/// The value of [`Entitlement::expires_s`] without an expiry.
pub const NEVER: u32 = u32::MAX;
/// The value of [`Entitlement::issued_s`] for a user with a password. No token has it: tokens from
/// the future are refused.
pub const BY_PASSWORD: u32 = NEVER - 1;
/// The value of [`Entitlement::issued_s`] for a user with a certificate.
pub const BY_CERTIFICATE: u32 = NEVER - 2;
/// Stands between the name and the password in the bytes of a credential.
const PASSWORD_SEPARATOR: u8 = 0;

/// The kinds of credentials.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Hand)]
pub enum CredentialKind {
    /// A signed token (JWT, RFC 7519).
    Token,
    /// A secret of a server.
    ApiKey,
    /// A user's name and password, as [`password_credential`] joins them.
    Password,
    /// A user's name that TLS has proved, as [`certificate_credential`] writes it.
    Certificate,
}

impl CredentialKind {
    /// The kind by the time of issue ([`Entitlement::issued_s`]).
    pub(crate) fn issued(issued_s: u32) -> CredentialKind {
        match issued_s {
            NEVER => CredentialKind::ApiKey,
            BY_PASSWORD => CredentialKind::Password,
            BY_CERTIFICATE => CredentialKind::Certificate,
            _ => CredentialKind::Token,
        }
    }
}

/// The bytes of a credential from a user's name and password. `None` for a name that no user has.
pub fn password_credential(user: &[u8], password: &[u8]) -> Option<Vec<u8>> {
    let is_name = !user.is_empty() && !user.contains(&PASSWORD_SEPARATOR);
    is_name.then(|| [user, &[PASSWORD_SEPARATOR], password].concat())
}

/// The user's name and the password in the bytes of a credential.
pub fn user_and_password(credential: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = credential.iter().position(|byte| *byte == PASSWORD_SEPARATOR)?;
    Some((&credential[..at], &credential[at + 1..]))
}

/// The bytes of a credential from the name in a client's certificate, and the end of its validity
/// in seconds since 1970.
pub fn certificate_credential(user: &str, expires_s: u64) -> Vec<u8> {
    [&expires_s.to_be_bytes(), user.as_bytes()].concat()
}

/// The user's name and the end of validity in the bytes of a credential.
pub fn user_and_expiry(credential: &[u8]) -> Option<(&str, u64)> {
    let (expires_s, user) = credential.split_first_chunk()?;
    Some((std::str::from_utf8(user).ok()?, u64::from_be_bytes(*expires_s)))
}

/// The kind of a credential that is a token or an API key: a token has two dots, an API key none.
pub fn kind_of_secret(secret: &[u8]) -> CredentialKind {
    let dots_count = secret.iter().filter(|byte| **byte == b'.').count();
    if dots_count == 2 { CredentialKind::Token } else { CredentialKind::ApiKey }
}

/// A credential by its hash: two are the same if, and for all purposes only if, their digests are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Hand)]
pub struct Digest(pub [u8; 16]);

impl Digest {
    /// The digest of a credential: the first half of a SHA-256 over its kind and its bytes.
    pub fn of(kind: CredentialKind, credential: &[u8]) -> Digest {
        let kind = match kind {
            CredentialKind::Token => [0],
            CredentialKind::ApiKey => [1],
            CredentialKind::Password => [2],
            CredentialKind::Certificate => [3],
        };
        let hash = Sha256::new().chain_update(kind).chain_update(credential).finalize();
        let mut digest = [0; 16];
        digest.copy_from_slice(&hash[..16]);
        Digest(digest)
    }
}

/// A question of an edge to its shell. At most one of a connection is under way.
#[derive(Hand)]
pub struct Question {
    /// The connection that waits.
    pub connection: Key,
    /// The purpose; comes back with the decision.
    pub purpose: Purpose,
    /// The kind of the credential.
    pub kind: CredentialKind,
    /// The bytes of the credential, at most [`CREDENTIAL_BYTES_MAX`].
    pub credential: Box<[u8]>,
    /// The hash of the credential.
    pub digest: Digest,
}

impl fmt::Debug for Question {
    /// Without the credential.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Question { connection, purpose, kind, .. } = self;
        write!(formatter, "{kind:?} of {connection:?} for {purpose:?}")
    }
}

/// The purpose of a decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hand)]
pub enum Purpose {
    /// An HTTP request, whose head waits in the connection's input. It may become a WebSocket
    /// connection.
    Request,
    /// A session of the native protocol, whose HELLO waits.
    Hello,
    /// A session that continues with a new token, by the number of its request.
    Renewal {
        /// The client's number.
        request: u32,
    },
}

/// Answers questions: the shell's half. One for all I/O threads, so what it keeps it shares;
/// nothing of it is on the path of a message.
pub trait Authenticator: Send + Sync {
    /// Decides on a credential. `now_s` is the wall clock, seconds since 1970.
    fn authenticate(
        &self,
        kind: CredentialKind,
        bytes: &[u8],
        digest: Digest,
        now_s: u64,
    ) -> Decision;

    /// Whether this decision takes so long that it is to be made on a thread beside the I/O
    /// threads.
    fn is_slow(&self, kind: CredentialKind, bytes: &[u8], digest: Digest) -> bool {
        let _ = (kind, bytes, digest);
        false
    }

    /// Whether something has been revoked that lets a connection of this entitlement continue no
    /// longer. Called for each entitlement of an edge when the node tells the edge that revocations
    /// have changed.
    fn is_revoked(&self, entitlement: &Entitlement) -> bool;
}

/// A decision on a credential, and its cost.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The entitlement, or the code of the refusal: `unauthorized`, `token_expired`,
    /// `token_revoked`, or `not_ready` while keys are unavailable.
    pub result: Result<Entitlement, ErrorCode>,
    /// The number of computed signatures: one for each key that was tried. The caller bounds them
    /// in a turn.
    pub signatures_count: u32,
}

/// The entitlement of a client. Equal credentials have equal entitlements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entitlement {
    /// The digest of the credential.
    pub digest: Digest,
    /// The subject: `sub` of a token, the name of an API key or a user; at most
    /// [`SUBJECT_BYTES_MAX`] bytes, may be empty.
    pub subject: Box<str>,
    /// A hash of `jti`, by which a token is revoked; 0 for none.
    pub token_id: u64,
    /// `iat`, seconds since 1970; 0 if it does not say. [`NEVER`] of an API key,
    /// [`BY_PASSWORD`] of a user with a password and [`BY_CERTIFICATE`] of one with a certificate,
    /// which no moment revokes.
    pub issued_s: u32,
    /// `exp`, seconds since 1970; [`NEVER`].
    pub expires_s: u32,
    /// Permissions and limits. Equal ones are shared.
    pub terms: Arc<Terms>,
}

/// Permissions, limits and signer of an entitlement.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Hand)]
pub struct Terms {
    /// To which topics.
    pub permissions: Permissions,
    /// Limits of the permitted actions.
    pub limits: EntitlementLimits,
    /// The issuer and the key. Few tokens differ here, so they stand with the terms, which are
    /// shared.
    pub signer: Signer,
}

/// The signer of a token. Empty for other credentials.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Hand)]
pub struct Signer {
    /// `iss`, at most [`ISSUER_BYTES_MAX`] bytes; empty where the token does not say. Subjects of
    /// two issuers are two users.
    pub issuer: Box<str>,
    /// The name (`kid`) of the key that has signed it, at most [`KEY_ID_BYTES_MAX`] bytes; empty of
    /// a key without one.
    pub key_id: Box<str>,
    /// A hash of that key.
    pub key_thumbprint: u64,
}

impl Signer {
    /// The key's hash as operators write it: 16 hexadecimal digits.
    pub fn thumbprint(&self) -> String {
        format!("{:016x}", self.key_thumbprint)
    }
}

/// One name for an issuer's subject. Neither has control characters, so no two pairs have the same.
pub fn user_name(issuer: &str, subject: &str) -> String {
    if issuer.is_empty() { subject.into() } else { format!("{subject}\0{issuer}") }
}

/// Limits of a subject; `None`: the node's own limits apply.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Hand)]
pub struct EntitlementLimits {
    /// Connections of the subject at one node, of those whose tokens say so.
    pub connections_max: Option<u32>,
    /// Subscriptions of one connection.
    pub subscriptions_max: Option<u32>,
    /// Publications of one connection in a second.
    pub publish_rate_max: Option<u32>,
}

/// Actions on a topic.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// To receive its messages as they come, and those of history that a subscription begins with.
    Subscribe,
    /// To publish to it.
    Publish,
    /// To read its history page by page.
    History,
}

impl Action {
    /// The refusal of this action as text. It is the same for topics that exist and for others.
    pub(crate) fn refusal(self, wanted: &str) -> String {
        let operation = match self {
            Action::Subscribe => "subscribe to",
            Action::Publish => "publish to",
            Action::History => "read the history of",
        };
        format!("not permitted to {operation} {wanted}")
    }
}

/// Filters for each action. They may hold `{sub}` as a whole level, and are valid filters with it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Hand)]
pub struct Permissions {
    /// Filters for [`Action::Subscribe`].
    pub subscribe: Vec<Box<str>>,
    /// Filters for [`Action::Publish`].
    pub publish: Vec<Box<str>>,
    /// Filters for [`Action::History`].
    pub history: Vec<Box<str>>,
}

impl Permissions {
    /// The filters of an action.
    pub fn of(&self, action: Action) -> &[Box<str>] {
        match action {
            Action::Subscribe => &self.subscribe,
            Action::Publish => &self.publish,
            Action::History => &self.history,
        }
    }

    /// Whether a subject may do this with every topic that `wanted` covers. A filter is permitted
    /// if one single filter of the permissions covers all of it. Every client may hear of its own
    /// gaps.
    pub fn permit(&self, subject: &str, action: Action, wanted: Filter<'_>) -> bool {
        if action == Action::Subscribe && wanted.as_str() == OWN_GAPS {
            return true;
        }
        self.of(action).iter().any(|filter| {
            let Ok(filter) = Filter::parse(filter) else {
                return false;
            };
            filter.covers_with(wanted, |level| {
                if level == SUBJECT_PLACE {
                    is_level(subject).then_some(subject)
                } else {
                    Some(level)
                }
            })
        })
    }

    /// Whether nothing is permitted.
    pub fn is_empty(&self) -> bool {
        self.subscribe.is_empty() && self.publish.is_empty() && self.history.is_empty()
    }
}

impl Entitlement {
    /// The kind of the credential. Only tokens have a time of issue.
    pub fn kind(&self) -> CredentialKind {
        CredentialKind::issued(self.issued_s)
    }

    /// Whether it permits this with every topic that `wanted` covers. Its time is not examined.
    pub fn permits(&self, action: Action, wanted: Filter<'_>) -> bool {
        self.terms.permissions.permit(&self.subject, action, wanted)
    }
}

/// Whether a subject can stand for a level: it is one, no wildcard, and not the beginning of a name
/// that wildcards spare.
fn is_level(subject: &str) -> bool {
    !subject.is_empty()
        && !subject.starts_with('$')
        && !subject.bytes().any(|byte| matches!(byte, b'/' | b'+' | b'#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(filter: &str, subject: &str, wanted: &str) -> bool {
        let permissions = Permissions { publish: vec![filter.into()], ..Permissions::default() };
        let wanted = Filter::parse(wanted).unwrap();
        assert!(!permissions.permit(subject, Action::Subscribe, wanted));
        permissions.permit(subject, Action::Publish, wanted)
    }

    #[test]
    fn only_named_topics_are_permitted() {
        for (filter, wanted) in [
            ("a", "a"),
            ("a/#", "a"),
            ("a/#", "a/b/c"),
            ("a/#", "a/#"),
            ("a/#", "a/+/c"),
            ("a/+", "a/+"),
            ("a/+", "a/"),
            ("+/b", "a/b"),
            ("#", "a/#"),
            ("#", "+"),
            ("$sys/#", "$sys/a"),
        ] {
            assert!(permits(filter, "", wanted), "{filter} {wanted}");
        }
        for (filter, wanted) in [
            ("a", "b"),
            ("a", "a/b"),
            ("a/+", "a/#"),
            ("a/+", "a"),
            ("a/+", "a/b/c"),
            ("a/b", "a/+"),
            ("a/b/#", "a/#"),
            ("+", "#"),
            ("+/+", "#"),
            ("#", "$sys/a"),
            ("#", "$sys/#"),
            ("+/a", "$sys/a"),
        ] {
            assert!(!permits(filter, "", wanted), "{filter} {wanted}");
        }
    }

    #[test]
    fn a_subject_is_one_level_and_never_a_wildcard() {
        assert!(permits("u/{sub}", "anna", "u/anna"));
        assert!(permits("u/{sub}/#", "anna", "u/anna/in/+"));
        assert!(!permits("u/{sub}", "anna", "u/ben"));
        assert!(!permits("u/{sub}", "anna", "u/{sub}"));
        assert!(!permits("u/{sub}", "anna", "u/+"));
        for subject in ["", "+", "#", "a/b", "+/b", "a#"] {
            let mut wanted = format!("u/{subject}");
            if Filter::parse(&wanted).is_err() {
                wanted = "u/x".into();
            }
            assert!(!permits("u/{sub}", subject, &wanted), "{subject}");
            assert!(!permits("u/{sub}", subject, "u/x"), "{subject}");
            assert!(!permits("u/{sub}/#", subject, "u/#"), "{subject}");
        }
        assert!(!permits("{sub}/#", "$sys", "$sys/a"));
        // Only a whole level is replaced.
        assert!(!permits("u/a{sub}", "b", "u/ab"));
        assert!(permits("u/a{sub}", "b", "u/a{sub}"));
    }

    #[test]
    fn digests_tell_kinds_and_bytes_apart() {
        let of = Digest::of;
        assert_eq!(of(CredentialKind::Token, b"a"), of(CredentialKind::Token, b"a"));
        assert_ne!(of(CredentialKind::Token, b"a"), of(CredentialKind::ApiKey, b"a"));
        assert_ne!(of(CredentialKind::Token, b"a"), of(CredentialKind::Token, b"b"));
    }
}
